"""Choose a weight of the heads and two measures, and see what a sweep of trainings says."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import ipywidgets
import numpy as np
import polars as pl
from matplotlib.axes import Axes

from ehr_course.errors import InputError
from ehr_course.plots import style
from ehr_course.plots.style import Picture
from ehr_course.widgets.static import PictureWidget, choice


class Measure(NamedTuple):
    """A column of the sweep, and how it is written.

    Attributes:
        name: in a sentence, as in "more impossible codes".
        axis: with its unit, along the axis.
        percent: whether the column holds a share.
    """

    name: str
    axis: str
    percent: bool

    def written(self, value: float) -> str:
        """A value with its unit.

        >>> MEASURES["impossible"].written(0.0457), MEASURES["loss"].written(2.3153)
        ('4.57%', '2.3153')
        """
        return f"{value:.2%}" if self.percent else f"{value:.4f}"


MEASURES: dict[str, Measure] = {
    "impossible": Measure("impossible codes", "share of generated codes", True),
    "divergence": Measure("divergence from real patients", "nats", False),
    "loss": Measure("loss from age and sex alone", "nats a token", False),
    "loss_repair": Measure("loss when restoring", "nats a token", False),
    "age_accuracy": Measure("age bracket guessed right", "share of tokens", True),
    "sex_accuracy": Measure("sex guessed right", "share of tokens", True),
    "sex_says_prompt": Measure("sex named as a lying prompt has it", "share of tokens", True),
}
"""What can be drawn, by the name of its column."""


class Setting(NamedTuple):
    """The weights of the heads of one model.

    Attributes:
        age_weight: of the loss of the age.
        sex_weight: of the loss of the sex.
        head_reads: "states" or "codes", or "" where there are no heads.
    """

    age_weight: float
    sex_weight: float
    head_reads: str

    @property
    def label(self) -> str:
        """The weights in few characters.

        >>> Setting(0.3, 0.2, "codes").label, Setting(1.0, 1.0, "states").label
        ('0.3/0.2, codes', '1')
        >>> Setting(0.0, 0.0, "").label
        'no heads'
        """
        if not self.head_reads:
            return "no heads"
        weights = f"{self.age_weight:g}"
        if self.sex_weight != self.age_weight:
            weights += f"/{self.sex_weight:g}"
        return weights if self.head_reads == "states" else f"{weights}, {self.head_reads}"


NO_HEADS = Setting(0.0, 0.0, "")


class Runs(NamedTuple):
    """The values of one setting, one a seed; none where the measure needs a head.

    Attributes:
        setting: the weights.
        values: of the trainings that differ in their seed alone.
    """

    setting: Setting
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean over the seeds."""
        return statistics.mean(self.values)

    @property
    def spread(self) -> float:
        """The standard deviation over the seeds, divided by one less than their number."""
        return statistics.stdev(self.values)

    def differs(self, other: Runs) -> bool:
        """Whether the means lie farther apart than both spreads together.

        >>> Runs(NO_HEADS, (1.0, 3.0)).differs(Runs(NO_HEADS, (9.0, 9.0)))
        True
        """
        return abs(self.mean - other.mean) > self.spread + other.spread


def runs_of(sweep: pl.DataFrame, measure: str) -> list[Runs]:
    """The runs of each setting: without heads first, then by weight, heads on codes last.

    Args:
        sweep: one row a training, with the columns ``age_weight``, ``sex_weight``,
            ``head_reads``, ``seed`` and the measure's; null where the measure needs a head.
        measure: a name of MEASURES.

    Raises:
        InputError: if the measure or a column is not there, there is no training without heads,
            or a setting has fewer than two seeds.
    """
    if measure not in MEASURES:
        raise InputError(
            "sweep", "measure", f"{measure!r} is none", f"Use one of {', '.join(MEASURES)}."
        )
    for column in (*Setting._fields, "seed", measure):
        if column not in sweep.columns:
            raise InputError(
                "sweep",
                column,
                f"the column is missing (found: {', '.join(sweep.columns)})",
                "Read the course's sweep: auxiliary_weights/sweep.csv beside its checkpoints.",
            )
    found: dict[Setting, list[float | None]] = {}
    rows = sweep.with_columns(pl.col("head_reads").fill_null(""))
    for *weights, value in rows.select(*Setting._fields, measure).iter_rows():
        found.setdefault(Setting(*weights), []).append(value)
    if NO_HEADS not in found:
        raise InputError(
            "sweep", "", "there is no training without heads", "Add one with both weights 0."
        )
    for setting, values in found.items():
        if len(values) < 2:
            raise InputError(
                "sweep",
                setting.label,
                "there is one run, which has no standard deviation",
                "Give two seeds or more for each setting.",
            )
    ordered = sorted(found, key=lambda s: (s.head_reads == "codes", s.age_weight, s.sex_weight))
    return [Runs(s, tuple(v for v in found[s] if v is not None)) for s in ordered]


def weight_explorer(
    sweep: pl.DataFrame, *, below: str = "divergence", weights: str = ""
) -> PictureWidget:
    """Mark a setting, and choose what is drawn against the weights.

    Args:
        sweep: one row a training, as ``runs_of`` takes it.
        below: the measure of the lower half at first, a name of MEASURES.
        weights: the label of the setting that is marked at first; the middle one without it.

    Returns:
        A widget with the controls ``weights``, a setting of the sweep, ``above`` and ``below``,
        the measures of the two halves.

    Raises:
        InputError: if a column is missing, or a setting has fewer than two seeds.
    """
    settings = [one.setting for one in runs_of(sweep, "impossible")]
    by_label = {setting.label: setting for setting in settings}
    chosen = by_label.get(weights, settings[len(settings) // 2])

    def draw(weights: Setting, above: str, below: str) -> Picture:
        return draw_weights(sweep, above=above, below=below, setting=weights)

    known = [(how.name, column) for column, how in MEASURES.items() if column in sweep.columns]
    slider = ipywidgets.SelectionSlider(
        options=[(setting.label, setting) for setting in settings],
        value=chosen,
        description="weights",
        # A picture takes a moment: draw where the slider stops, not on its way.
        continuous_update=False,
        style={"description_width": "initial"},
    )
    upper, lower = choice("above", known, "impossible"), choice("below", known, below)
    offered = [c for _, c in known if c in ("divergence", "loss_repair", "age_accuracy")]
    return PictureWidget(
        draw,
        {"weights": slider, "above": upper, "below": lower},
        in_the_book={"above": [], "below": offered},
    )


# ---------------------------------------------------------------------- the picture's words


def compare(measure: str, runs: Sequence[Runs], setting: Setting) -> str:
    """One setting against the models without heads, in one line."""
    how = MEASURES[measure]
    chosen, without = _find(runs, setting), _find(runs, NO_HEADS)
    if not chosen.values:
        return f"{how.name}: without heads there are no answers"
    whose = "without heads" if setting == NO_HEADS else f"at {setting.label}"
    text = f"{how.name} {whose}: {_mean_and_spread(how, chosen)}"
    if chosen is not without and without.values:
        text += f" (no heads: {_mean_and_spread(how, without)})"
    return text


def weights_title(measure: str, runs: Sequence[Runs], setting: Setting) -> str:
    """What the weights of a setting change in a measure, as a finding."""
    how = MEASURES[measure]
    chosen, without = _find(runs, setting), _find(runs, NO_HEADS)
    whose = "Without heads" if setting == NO_HEADS else f"Heads at {setting.label}"
    if not chosen.values:
        return f"{whose} there are no answers to judge"
    if chosen is without or not without.values:
        return f"{whose}: {how.name}, {how.written(chosen.mean)}"
    if not chosen.differs(without):
        return f"{whose}: no clear change in {how.name}"
    less, more = ("fewer", "more") if measure == "impossible" else ("a lower", "a higher")
    return f"{whose}: {less if chosen.mean < without.mean else more} {how.name}"


def describe_weights(sweep: pl.DataFrame, *, above: str, below: str, setting: Setting) -> str:
    """The picture in words: its alternative text."""
    parts = []
    for measure in dict.fromkeys((above, below)):
        runs = runs_of(sweep, measure)
        how = MEASURES[measure]
        means = [
            f"{how.written(one.mean)} at {one.setting.label}"
            if one.setting != NO_HEADS
            else f"{how.written(one.mean)} without heads"
            for one in runs
            if one.values
        ]
        parts.append(f"{how.name}: {', '.join(means)}")
    seeds = sweep["seed"].n_unique()
    runs = runs_of(sweep, above)
    return (
        f"Trainings with {seeds} seeds for each weight of the heads. "
        f"Mean {'; mean '.join(parts)}. {weights_title(above, runs, setting)}."
    )


def _find(runs: Sequence[Runs], setting: Setting) -> Runs:
    for one in runs:
        if one.setting == setting:
            return one
    raise InputError(
        "sweep",
        setting.label,
        "there is no such setting",
        f"Use one of: {'; '.join(one.setting.label for one in runs)}.",
    )


def _mean_and_spread(how: Measure, runs: Runs) -> str:
    return f"{how.written(runs.mean)} ± {how.written(runs.spread)}"


# ---------------------------------------------------------------------- the picture


def draw_weights(sweep: pl.DataFrame, *, above: str, below: str, setting: Setting) -> Picture:
    """Two measures against the weights of the heads, each training as a point.

    Args:
        sweep: as for runs_of.
        above: the measure of the upper half, a name of MEASURES.
        below: that of the lower half.
        setting: the one that is marked, and compared with the models without heads.

    Raises:
        InputError: as runs_of, or if the setting is not in the sweep.
    """
    halves = [(measure, runs_of(sweep, measure)) for measure in (above, below)]
    for _, runs in halves:
        _find(runs, setting)
    words = describe_weights(sweep, above=above, below=below, setting=setting)
    picture = Picture(style.WIDTH, _HEIGHT, words)
    with style.course_style():
        picture.text(
            _MARGIN / style.WIDTH,
            1 - 0.24 / _HEIGHT,
            weights_title(above, halves[0][1], setting),
            size=style.TITLE,
            weight="bold",
            va="center",
        )
        for half, (measure, runs) in enumerate(halves):
            top = _TOP + half * (_PANEL + _BETWEEN)
            axes = picture.add_axes(
                (
                    _LEFT / style.WIDTH,
                    1 - (top + _PANEL) / _HEIGHT,
                    (style.WIDTH - _LEFT - _MARGIN) / style.WIDTH,
                    _PANEL / _HEIGHT,
                )
            )
            _draw_half(axes, measure, runs, setting)
        axes.set_xlabel("weight of the age head / of the sex head", size=style.SMALL)
        _draw_legend(picture)
    return picture


# In inches.
_MARGIN = 0.12
_LEFT = 0.72
_TOP = 0.72
_PANEL = 1.5
_BETWEEN = 0.72
_HEIGHT = _TOP + 2 * _PANEL + _BETWEEN + 0.84

_POINT = "#31688e"
_MARKED = "#b3400e"


def _draw_half(axes: Axes, measure: str, runs: Sequence[Runs], setting: Setting) -> None:
    how = MEASURES[measure]
    without = _find(runs, NO_HEADS)
    if without.values:
        low, high = without.mean - without.spread, without.mean + without.spread
        axes.axhspan(low, high, color=style.FAINT, linewidth=0, zorder=0)
        axes.axhline(without.mean, color=style.MUTED, linewidth=0.8, zorder=1)
    points: dict[str, list[tuple[float, float]]] = {_POINT: [], _MARKED: []}
    for place, one in enumerate(runs):
        colour = _MARKED if one.setting == setting else _POINT
        if one.values:
            # Points of nearly one value lie side by side.
            first = place - 0.07 * (len(one.values) - 1) / 2
            points[colour] += [(first + 0.07 * n, value) for n, value in enumerate(one.values)]
            axes.plot(
                [place - 0.24, place + 0.24], [one.mean] * 2, color=colour, linewidth=2, zorder=2
            )
    for colour, of_colour in points.items():
        if of_colour:
            x, y = np.transpose(of_colour)
            axes.scatter(x, y, s=22, color=colour, linewidths=0, zorder=3)
    axes.set_title(
        compare(measure, runs, setting), size=style.SMALL, loc="left", color=style.INK, pad=7
    )
    axes.set_ylabel(how.axis, size=style.SMALL)
    axes.margins(y=0.12)
    axes.set_xlim(-0.5, len(runs) - 0.5)
    axes.set_xticks(range(len(runs)), [one.setting.label for one in runs], size=style.SMALL)
    axes.tick_params(axis="y", labelsize=style.SMALL)
    axes.locator_params(axis="y", nbins=4)
    low, high = axes.get_ylim()
    axes.set_yticks([tick for tick in axes.get_yticks() if low <= tick <= high])
    if how.percent:
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g}%")
    else:
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")


def _draw_legend(picture: Picture) -> None:
    texts = (
        "point: one training; bar: their mean",
        "band: no heads, mean ± standard deviation",
        '"codes": heads that see no prompt',
    )
    picture.text(
        _MARGIN / style.WIDTH,
        0.16 / _HEIGHT,
        "   ·   ".join(texts),
        size=style.SMALL,
        color=style.MUTED,
        va="center",
    )
