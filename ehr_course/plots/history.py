"""A training, step by step: the loss, the learning rate, and the scale of float16."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import Locator, LogLocator, MaxNLocator

from ehr_course.errors import InputError
from ehr_course.plots import style
from ehr_course.plots.style import Picture, count
from ehr_course.training.history import TrainingHistory

SHARE = 25
"""The running mean reaches over a twenty-fifth of the steps, and over five at least."""


def running_mean(values: Sequence[float], window: int) -> np.ndarray:
    """The mean of each value and those before it, `window` of them at most.

    Args:
        values: float (steps,).
        window: 1 or more.

    Returns:
        float64 (steps,): the first is the first value, since there is none before it.

    >>> running_mean([4.0, 2.0, 0.0, 1.0], 2).tolist()
    [4.0, 3.0, 1.0, 0.5]
    """
    sums = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    last = np.arange(1, len(sums))
    first = np.maximum(last - window, 0)
    return (sums[last] - sums[first]) / (last - first)


def training_title(history: TrainingHistory) -> str:
    """What has become of the loss, and in how many steps.

    >>> row = {"skipped": False, "scale": 1.0, "lr": 0.1}
    >>> training_title(TrainingHistory([row | {"loss": 6.0}, row | {"loss": 4.0}]))
    'The loss falls from 6.00 to 5.00 nats in 2 steps'
    """
    losses = history.losses
    first, last = f"{losses[0]:.2f}", f"{running_mean(losses, _window(history))[-1]:.2f}"
    steps = count(len(losses), "step")
    if first == last:
        return f"The loss is {last} nats after {steps}"
    verb = "falls" if float(last) < float(first) else "rises"
    return f"The loss {verb} from {first} to {last} nats in {steps}"


def describe_training(history: TrainingHistory) -> str:
    """Say in one sentence what :func:`training_figure` shows."""
    rows = history.rows
    parts = [f"{training_title(history)} (mean of the last {_window(history)})"]
    judged = _judged(rows)
    if judged:
        place, best = min(judged, key=lambda point: point[1])
        parts.append(f"the validation loss is smallest, {best:.2f}, after step {place}")
    highest = max(range(len(rows)), key=lambda i: rows[i]["lr"])
    parts.append(
        f"the learning rate peaks at {rows[highest]['lr']:.1e} in step {highest + 1} and "
        f"ends at {rows[-1]['lr']:.1e}"
    )
    if _is_scaled(rows):
        skipped = sum(row["skipped"] for row in rows)
        were = "was" if skipped == 1 else "were"
        parts.append(
            f"the scale goes from {rows[0]['scale']:,.0f} to {rows[-1]['scale']:,.0f}, and "
            f"{count(skipped, 'more step') if skipped else 'no step'} {were} skipped"
        )
    return f"Line plots of a training. {'; '.join(parts)}."


def training_figure(history: TrainingHistory) -> Picture:
    """Draw a training over its steps, skipped ones included.

    The upper part has the loss of each step, faint, its running mean, and the validation loss
    where there is one. Below stands the learning rate and, in float16, the scale of the loss,
    with a cross at each step that was skipped.

    Args:
        history: what ``Trainer.run`` returns.

    Raises:
        InputError: if no step has changed the weights.
    """
    rows = history.rows
    if not history.losses:
        raise InputError(
            "training_figure",
            "history",
            "no step has changed the weights",
            "Give the history of a training that has run.",
        )
    panels = ("loss", "lr", "scale") if _is_scaled(rows) else ("loss", "lr")
    height = _TOP + sum(_HEIGHT[name] for name in panels) + _GAP * (len(panels) - 1) + _BOTTOM
    with style.course_style():
        picture = Picture(style.WIDTH, height, describe_training(history))
        picture.text(
            0.12 / style.WIDTH,
            1 - 0.24 / height,
            training_title(history),
            size=style.TITLE,
            weight="bold",
            va="center",
        )
        top = _TOP
        for name in panels:
            axes = _add_axes(picture, height, top, _HEIGHT[name])
            _DRAW[name](axes, history)
            _number_steps(axes, len(rows), labelled=name == panels[-1])
            top += _HEIGHT[name] + _GAP
        skipped = any(row["skipped"] for row in rows)
        axes.set_xlabel("step, skipped ones counted" if skipped else "step")
    return picture


# ---------------------------------------------------------------------- layout, in inches

_TOP, _GAP, _BOTTOM = 0.78, 0.42, 0.55
_LEFT, _RIGHT = 0.85, 0.35
_HEIGHT = {"loss": 2.4, "lr": 0.85, "scale": 0.85}

_STEP, _MEAN, _VALIDATION, _OTHER = "#b9c0ca", "#440154", "#b3400e", "#31688e"


def _add_axes(picture: Picture, height: float, top: float, own: float) -> Axes:
    width = style.WIDTH - _LEFT - _RIGHT
    return picture.add_axes(
        (_LEFT / style.WIDTH, (height - top - own) / height, width / style.WIDTH, own / height)
    )


def _number_steps(axes: Axes, steps: int, *, labelled: bool) -> None:
    margin = 0.5 + 0.01 * steps  # so that the mark of the last step is whole
    first, last = 1 - margin, steps + margin
    axes.set_xlim(first, last)
    whole = MaxNLocator(steps=[1, 2, 5, 10], integer=True, min_n_ticks=1)
    inside = _inside(whole, (first, last))
    axes.set_xticks(inside, [f"{number:,.0f}" if labelled else "" for number in inside])


def _inside(locator: Locator, limits: tuple[float, float]) -> list[float]:
    """The ticks that are seen: a locator gives some beyond the limits too."""
    return [tick for tick in locator.tick_values(*limits) if limits[0] <= tick <= limits[1]]


def _draw_loss(axes: Axes, history: TrainingHistory) -> None:
    taken = [i for i, row in enumerate(history.rows, 1) if not row["skipped"]]
    window = _window(history)
    # One point is no line.
    alone: dict[str, Any] = {"marker": "o", "markersize": 4} if len(taken) == 1 else {}
    axes.plot(taken, history.losses, color=_STEP, linewidth=0.8, label="loss of each step")
    axes.plot(
        taken,
        running_mean(history.losses, window),
        **alone,
        color=_MEAN,
        linewidth=1.8,
        label=f"mean of {count(window, 'step')}",
    )
    judged = _judged(history.rows)
    if judged:
        axes.plot(*zip(*judged, strict=True), color=_VALIDATION, marker="o", markersize=4)
        axes.lines[-1].set_label("validation loss")
    axes.set_ylabel("loss (nats)")
    axes.set_yticks(_inside(MaxNLocator(7), axes.get_ylim()))
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1),
        borderaxespad=0.2,
        ncols=3,
        frameon=False,
        fontsize=style.SMALL,
    )


def _draw_lr(axes: Axes, history: TrainingHistory) -> None:
    rates = [row["lr"] for row in history.rows]
    axes.plot(range(1, len(rates) + 1), rates, color=_OTHER)
    axes.set_ylim(0, 1.1 * max(rates))
    _name(axes, "learning rate")
    axes.set_yticks([0, max(rates)], ["0", f"{max(rates):g}"])


def _draw_scale(axes: Axes, history: TrainingHistory) -> None:
    scales = [row["scale"] for row in history.rows]
    axes.plot(range(1, len(scales) + 1), scales, color=_OTHER, drawstyle="steps-mid")
    skipped = [i for i, row in enumerate(history.rows) if row["skipped"]]
    axes.plot(
        [i + 1 for i in skipped],
        [scales[i] for i in skipped],
        color=_VALIDATION,
        marker="x",
        linestyle="",
    )
    axes.set_yscale("log", base=2)
    axes.set_ylim(min(scales) / 2, max(scales) * 2)
    powers = _inside(LogLocator(base=2, numticks=4), axes.get_ylim())
    axes.set_yticks(powers, [_power_of_two(scale) for scale in powers])
    axes.minorticks_off()
    _name(axes, "scale of the loss" + (" (a cross: a step that was skipped)" if skipped else ""))


def _power_of_two(scale: float) -> str:
    # In superscript digits: the mathematics of matplotlib asks for fonts that may not be there.
    exponent = str(round(math.log2(scale)))
    return "2" + exponent.translate(str.maketrans("-0123456789", "\u207b⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _name(axes: Axes, name: str) -> None:
    axes.set_title(name, loc="left", size=style.SMALL, color=style.MUTED, pad=4)


_DRAW = {"loss": _draw_loss, "lr": _draw_lr, "scale": _draw_scale}

# ---------------------------------------------------------------------- what there is to draw


def _window(history: TrainingHistory) -> int:
    return min(len(history.losses), max(5, len(history.losses) // SHARE))


def _judged(rows: Sequence[dict[str, Any]]) -> list[tuple[int, float]]:
    """The places, from 1, that have a validation loss, and the loss."""
    return [
        (place, row["validation_loss"])
        for place, row in enumerate(rows, 1)
        if row.get("validation_loss") is not None
    ]


def _is_scaled(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether this was float16: in any other precision the scale is 1 from first to last."""
    return any(row["scale"] != 1 for row in rows)
