"""The drawings of lesson 15 of a training: its loop, its schedule, its batches, its resumption."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, WARNING, Box, Canvas
from ehr_course.plots.drawings.loss_scale import power
from ehr_course.plots.style import Picture, count
from ehr_course.training.config import TrainingConfig


def draw_loop(config: TrainingConfig) -> Picture:
    """Draw one round of a training in float16 as seven places, with the settings of a training.

    Args:
        config: the settings.
    """
    places = _places(config)
    words = "; ".join(
        f"{i} {name}: {' '.join(what.split())}" for i, (name, what, _) in enumerate(places, 1)
    )
    canvas = Canvas(
        3.62,
        "One round of the loop is seven places in a fixed order",
        f"Seven boxes in a ring, one round of a training: {words}. Between places "
        f"{_SCALED + 1} and {_SCALED + 2} the gradients are multiplied by the loss scale. An "
        f"arrow leads back from place {_SCALED + 1} to place {_SCALED}, to the next part.",
        subtitle="Each round reads one batch; the small loop runs once for each of its parts.",
    )
    across, wide, high = 4, 1.66, 0.98
    gap = (canvas.width - 2 * MARGIN - across * wide) / (across - 1)
    rows = canvas.top + 0.38, canvas.top + 1.78
    boxes = []
    for i, (name, what, code) in enumerate(places):
        below = i >= across
        column = 2 * across - 2 - i if below else i
        x = MARGIN + column * (wide + gap)
        box = canvas.box(x, rows[below], wide, high, fill="paper")
        _inside(canvas, box, f"{i + 1}  {name}", what, code)
        boxes.append(box)
    for one, other in pairwise(boxes[:across]):
        canvas.arrow(one.side("right"), other.side("left"), colour=style.INK)
    corner, after = boxes[across - 1], boxes[across]
    turn = corner.middle[0], after.side("right")[1]
    canvas.path([corner.side("bottom"), turn, after.side("right")], colour=style.INK)
    for one, other in pairwise(boxes[across:]):
        canvas.arrow(one.side("left"), other.side("right"), colour=style.INK)
    last, first = boxes[-1], boxes[0]
    canvas.arrow(last.side("top"), first.side("bottom"), colour=style.INK)
    canvas.label((first.middle[0] + 0.1, first.bottom + 0.2), "next batch")
    start, end = boxes[_SCALED], boxes[_SCALED + 1]
    part, low = boxes[_SCALED - 1], start.bottom + 0.29
    canvas.path([start.side("bottom"), (start.middle[0], low), (part.middle[0], low),
                 part.side("bottom")], colour=style.INK)  # fmt: skip
    canvas.label(((part.middle[0] + start.middle[0]) / 2, low - 0.14), "next part",
                 align="center")  # fmt: skip
    canvas.bracket(start.middle[0] - 0.6, end.middle[0], start.y - 0.04,
                   "here every gradient is multiplied by the scale", above=True,
                   colour=WARNING)  # fmt: skip
    return canvas.finish()


_SCALED = 2
"""The place, counted from zero, behind which gradients are multiplied by the loss scale."""


def _places(config: TrainingConfig) -> list[tuple[str, str, str]]:
    """Each place: its name, what it does with these settings, and its line of code."""
    parts = count(config.gradient_accumulation_steps, "part")
    return [
        ("learning rate", f"peak {config.lr:g}, warm-up\n{config.warmup_steps} of "
         f"{count(config.steps, 'step')}", 'group["lr"] = …'),
        ("forward", f"{config.batch_size} patients, {parts},\nin {config.precision}",
         "model(**part)"),
        ("scale, backward", f"loss times scale,\nat first {power(config.init_scale)}",
         "scale(loss).backward()"),
        ("unscale", "gradients divided\nby the scale", "scaler.unscale_(…)"),
        ("clip", f"gradient no longer\nthan {config.max_grad_norm:g}", "clip_grad_norm_(…)"),
        ("step, or skip it", f"AdamW with decay {config.weight_decay:g};\nskip if not finite",
         "scaler.step(…)"),
        ("update", "new scale; gradients\nto zero; checkpoint?", "scaler.update()"),
    ]  # fmt: skip


def _inside(canvas: Canvas, box: Box, name: str, what: str, code: str) -> None:
    x = box.x + 0.09
    canvas.label((x, box.y + 0.17), name, size=style.TEXT, weight="bold", colour=style.INK,
                 inside=box)  # fmt: skip
    canvas.label((x, box.y + 0.48), what, colour=style.INK, inside=box)
    canvas.label((x, box.bottom - 0.15), code, mono=True, inside=box)


def draw_schedule(rates: Sequence[float], warmup_steps: int) -> Picture:
    """Draw the learning rate of each step of a training, and the end of the schedule.

    Args:
        rates: of the steps from 0 on; the last one is that after the last step.
        warmup_steps: over how many of them the rate rises.
    """
    total, peak = len(rates) - 1, max(rates)
    rest = total - warmup_steps
    canvas = Canvas(
        2.86,
        f"The rate rises over {count(warmup_steps, 'step')} and falls over {rest}",
        f"The learning rate of {total} steps as dots: it starts at {rates[0]:.2g}, reaches its "
        f"peak of {peak:.2g}, and has fallen to {rates[total - 1]:.2g} in the last step. Half of "
        f"a cosine runs through the dots; it ends at {rates[total]:.2g} after step {total - 1}.",
        subtitle="Each dot is a step. The open one is the end of the schedule: no step is taken "
        "there.",
    )
    axes = canvas.plot(0.95, canvas.top + 0.1, canvas.width - 1.25, 1.42)
    steps = np.arange(total + 1)
    if warmup_steps:
        axes.axvspan(-0.5, warmup_steps - 0.5, color=FILLS["prompt"], alpha=0.35, linewidth=0)
        axes.annotate("warm-up", (-0.5, 1), (5, -3), textcoords="offset points", va="top",
                      xycoords=("data", "axes fraction"), size=style.SMALL,
                      color=style.INK)  # fmt: skip
    share = np.linspace(0, 1, 200)
    axes.plot(warmup_steps + share * rest, peak * (1 + np.cos(np.pi * share)) / 2,
              color=style.MUTED, linewidth=1.2)  # fmt: skip
    axes.plot(steps[:warmup_steps], rates[:warmup_steps], color=style.MUTED, linewidth=1.2)
    axes.plot(steps[:-1], rates[:-1], "o", color=FILLS["code"], markersize=6)
    axes.plot(steps[-1:], rates[-1:], "o", color=style.PAPER, markeredgecolor=FILLS["code"],
              markersize=6, clip_on=False)  # fmt: skip
    axes.set_xlim(-0.5, total + 0.4)
    axes.set_ylim(0, 1.15 * peak)
    axes.set_yticks([0, peak / 2, peak], [f"{v:g}" for v in (0, peak / 2, peak)])
    axes.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    axes.set_xlabel("step, counted from zero")
    axes.set_ylabel("learning rate")
    for part, words in ((0.13, "falls slowly"), (0.5, "falls faster"), (0.82, "slowly again")):
        x = warmup_steps + part * rest
        y = peak * (1 + np.cos(np.pi * part)) / 2
        axes.annotate(words, (x, y), (12, 9), textcoords="offset points", size=style.SMALL,
                      color=style.INK)  # fmt: skip
    return canvas.finish()


def draw_parts(tokens: Sequence[int], distances: Mapping[str, Sequence[float]]) -> Picture:
    """Draw the parts of a batch, and how near their sum comes to the gradient of the whole.

    Args:
        tokens: how many scored tokens each part has.
        distances: by the way of dividing, how far the accumulated gradient is from that of the
            whole batch, as a share of its length: before the first part, and after each. The
            first way is the right one.
    """
    ways = list(distances)
    last = {way: values[-1] for way, values in distances.items()}
    ends = ", ".join(f"{way} {share:.1%}" for way, share in last.items())
    canvas = Canvas(
        3.0,
        f"With one count, {len(tokens)} parts add up to the whole batch",
        f"{len(tokens)} parts of a batch with {', '.join(map(str, tokens))} scored tokens, and "
        f"the distance of the accumulated gradient from that of the whole batch. After the last "
        f"part it is: {ends}.",
        subtitle="Left: the parts of one batch, sorted by length. Right: what is missing after "
        "each of them.",
    )
    top, high = canvas.top + 0.28, 0.27
    pitch = 1.5 / len(tokens)
    high = min(high, 0.8 * pitch)
    room = 1.75
    for i, n_tokens in enumerate(tokens):
        y = top + pitch * i
        canvas.label((MARGIN, y + high / 2), f"part {i + 1}", colour=style.INK)
        box = canvas.box(MARGIN + 0.5, y, room * n_tokens / max(tokens), high, fill="code")
        canvas.label((box.right + 0.08, y + high / 2), f"{n_tokens} tokens")
    y = top + pitch * len(tokens) + 0.14
    canvas.label((MARGIN, y), f"together {sum(tokens)} tokens", weight="bold", colour=style.INK)
    x = 4.0
    axes = canvas.plot(x, top - 0.05, canvas.width - x - 1.25, 1.55)
    looks = (FILLS["code"], "o", "solid"), (WARNING, "s", "dashed")
    for way, (colour, marker, line) in zip(ways, looks, strict=False):
        values = [100 * value for value in distances[way]]
        axes.plot(values, marker, color=colour, linestyle=line, markersize=5, clip_on=False)
        axes.annotate(f"{way}:\n{last[way]:.0%} off", (len(tokens), values[-1]), (9, 0),
                      textcoords="offset points", size=style.SMALL, color=colour,
                      va="center")  # fmt: skip
    axes.set_xlim(0, len(tokens))
    axes.set_ylim(0, 1.05 * max(100 * max(values) for values in distances.values()))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("parts read")
    axes.set_ylabel("% of the gradient's length")
    return canvas.finish()


def draw_processes(patients: Sequence[int], tokens: Sequence[int]) -> Picture:
    """Draw a batch that is shared out among processes, and how their gradients become one.

    Args:
        patients: how many of the batch each process reads.
        tokens: how many scored tokens each process reads.
    """
    n, whole = len(tokens), sum(tokens)
    shares = " and ".join(map(str, tokens))
    title = {2: "Two"}.get(n, str(n)) + " processes divide by one count and take the same step"
    canvas = Canvas(
        0.98 + 0.72 * n,
        title,
        f"A batch of {sum(patients)} patients is shared out among {n} processes, which read "
        f"{shares} scored tokens. Each divides its sum of losses by {whole}, the count of the "
        f"whole batch. Their gradients are added up, and all take the same step.",
        subtitle="Each process reads its own patients, and has its own copy of the weights.",
    )
    top, pitch, high = canvas.top + 0.14, 0.72, 0.52
    full = pitch * (n - 1) + high
    batch = canvas.box(MARGIN, top, 1.05, full,
                       f"one batch:\n{count(sum(patients), 'patient')},\n"
                       f"{count(whole, 'token')}", size=style.SMALL)  # fmt: skip
    added = canvas.box(
        5.06, top, 1.0, full, "gradients\nadded up", size=style.SMALL, fill="special"
    )
    for i, (n_patients, n_tokens) in enumerate(zip(patients, tokens, strict=True)):
        y = top + pitch * i
        reads = f"{count(n_patients, 'patient')}, {count(n_tokens, 'token')}"
        own = canvas.box(1.5, y, 1.4, high, f"process {i + 1}:\n{reads}", size=style.SMALL,
                         fill="encoder")  # fmt: skip
        share = canvas.box(3.26, y, 1.44, high, f"sum of losses ÷ {whole},\nbackward",
                           size=style.SMALL, fill="encoder")  # fmt: skip
        step = canvas.box(6.42, y, canvas.width - MARGIN - 6.42, high, "the same\nstep",
                          size=style.SMALL, fill="encoder")  # fmt: skip
        level = own.middle[1]
        canvas.arrow((batch.right, level), own.side("left"), colour=style.INK)
        canvas.arrow(own.side("right"), share.side("left"), colour=style.INK)
        canvas.arrow(share.side("right"), (added.x, level), colour=style.INK)
        canvas.arrow((added.right, level), step.side("left"), colour=style.INK)
    return canvas.finish()


def draw_token_weights(weights: Mapping[str, Sequence[float]], patients: Sequence[int]) -> Picture:
    """Draw how much a token weighs in an epoch, by the number of visits of its patient.

    Args:
        weights: by the kind of batches, the mean weight of a token of patients with 1, 2, ...
            visits; 1 is an even share. The first kind is the one that weighs unevenly.
        patients: how many patients have so many visits.
    """
    kinds = list(weights)
    uneven = weights[kinds[0]]
    words = "; ".join(
        f"{kind}: {', '.join(f'{value:.2f}' for value in values)}"
        for kind, values in weights.items()
    )
    canvas = Canvas(
        2.9,
        f"Batches {kinds[0]}: a short record's token weighs {uneven[0] / uneven[-1]:.1f} times "
        "a long one's",
        f"Bars of the mean weight of a token in an epoch for patients with up to "
        f"{len(patients)} visits. {words}.",
        subtitle="Mean weight of a token in an epoch. The dashed line is an even share.",
    )
    axes = canvas.plot(0.75, canvas.top + 0.32, canvas.width - 1.05, 1.3)
    places = np.arange(len(patients))
    looks = (FILLS["trap"], "////"), (FILLS["code"], ""), (FILLS["encoder"], "")
    pitch = 0.84 / len(kinds)
    for i, (kind, (fill, hatch)) in enumerate(zip(kinds, looks, strict=False)):
        middle = places + pitch * (i - (len(kinds) - 1) / 2)
        bars = axes.bar(middle, weights[kind], 0.9 * pitch, color=fill,
                        edgecolor=style.INK, linewidth=0.7, hatch=hatch,
                        label=kind)  # fmt: skip
        labels = axes.bar_label(bars, [f"{value:.2f}" for value in weights[kind]],
                                size=style.SMALL, padding=2)  # fmt: skip
        for label in labels:
            label.set_bbox({"facecolor": style.PAPER, "edgecolor": "none", "pad": 0.6})
    axes.axhline(1, color=style.INK, linestyle="--", linewidth=1)
    axes.set_ylim(0, 1.28 * max(max(values) for values in weights.values()))
    axes.set_xticks(places, [f"{count(i + 1, 'visit')}\n({count(n, 'patient')})"
                             for i, n in enumerate(patients)])  # fmt: skip
    axes.set_ylabel("weight")
    axes.legend(loc="upper right", frameon=False, fontsize=style.SMALL, ncols=len(kinds),
                borderaxespad=0, bbox_to_anchor=(1, 1.2))  # fmt: skip
    return canvas.finish()


def draw_resumed(
    whole: Sequence[Mapping[str, Any]],
    resumed: Sequence[Mapping[str, Any]],
    alone: Sequence[Mapping[str, Any]],
    stop: int,
) -> Picture:
    """Draw a training, the same one resumed, and one that begins anew with its weights.

    Above are the losses of all three, below their learning rates.

    Args:
        whole: the rows of the training that was not interrupted: of each round its "loss", its
            "lr" and whether its step was "skipped".
        resumed: the rows of the resumed one, from the checkpoint on.
        alone: the rows of one that begins anew with the weights of the checkpoint.
        stop: how many rounds of the whole one came before the checkpoint.
    """
    after = whole[stop : stop + len(resumed)]
    off = max(abs(a["loss"] - b["loss"]) for a, b in zip(after, resumed, strict=True))
    alone = alone[: len(resumed)]
    skipped = sum(row["skipped"] for row in alone)
    taken = sum(not row["skipped"] for row in whole[:stop])
    found = "the same" if off == 0 else f"up to {off:.3f} different"
    canvas = Canvas(
        4.05,
        "With everything saved, the resumed training is the same training"
        if off == 0
        else "The resumed training is another training",
        f"The loss of a training over {len(whole)} rounds, with a checkpoint after "
        f"{stop} of them, in which {count(taken, 'step')} were taken. The losses of the resumed "
        f"training are {found}. A training that gets the weights alone ends those rounds with "
        f"{alone[-1]['loss']:.2f} instead of {after[-1]['loss']:.2f}, skips the step in {skipped} "
        f"of its {len(alone)} rounds, and its "
        f"learning rate goes from {alone[0]['lr']:.2g} to {alone[-1]['lr']:.2g}, that of the "
        f"resumed one from {resumed[0]['lr']:.2g} to {resumed[-1]['lr']:.2g}.",
        subtitle="Crosses are rounds whose step was skipped. The checkpoint is written after "
        f"round {stop}, which takes step {taken}.",
    )
    left, wide = 0.9, canvas.width - 1.2
    axes = canvas.plot(left, canvas.top + 0.1, wide, 1.2)
    rates = canvas.plot(left, canvas.top + 1.52, wide, 1.2)
    places = np.arange(1, len(whole) + 1)
    axes.plot(places, [row["loss"] for row in whole], color=FILLS["code"], linewidth=2,
              label="not interrupted")  # fmt: skip
    there = stop + np.arange(1, len(resumed) + 1)
    axes.plot(there, [row["loss"] for row in resumed], "o", color=style.INK, markersize=9,
              markerfacecolor="none", label="resumed from the checkpoint")  # fmt: skip
    axes.plot(there[: len(alone)], [row["loss"] for row in alone], color=WARNING,
              linestyle="--", linewidth=1.5, label="weights of the checkpoint alone")  # fmt: skip
    rates.plot(places, [row["lr"] for row in whole], color=FILLS["code"], linewidth=2)
    rates.plot(there, [row["lr"] for row in resumed], "o", color=style.INK, markersize=9,
               markerfacecolor="none")  # fmt: skip
    rates.plot(there[: len(alone)], [row["lr"] for row in alone], color=WARNING, linestyle="--",
               linewidth=1.5, label="weights of the checkpoint alone")  # fmt: skip
    for plot, what, at, rows, colour in (
        (axes, "loss", 0, whole, style.INK),
        (rates, "lr", 0, whole, style.INK),
        (axes, "loss", stop, alone, WARNING),
        (rates, "lr", stop, alone, WARNING),
    ):
        crosses = [(at + i, row[what]) for i, row in enumerate(rows, 1) if row["skipped"]]
        if crosses:
            plot.plot(*zip(*crosses, strict=True), "x", color=colour, markersize=6,
                      markeredgewidth=1.6)  # fmt: skip
    for plot in (axes, rates):
        plot.axvline(stop + 0.5, color=style.MUTED, linewidth=1, linestyle=":")
        plot.set_xlim(0.5, len(whole) + 0.5)
        plot.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    axes.tick_params(labelbottom=False)
    axes.annotate("checkpoint", (stop + 0.5, 1), (4, -2), textcoords="offset points", va="top",
                  xycoords=("data", "axes fraction"), size=style.SMALL,
                  color=style.MUTED)  # fmt: skip
    rates.set_xlabel("round")
    axes.set_ylabel("loss (nats)")
    rates.set_ylabel("learning rate")
    highest = max(row["lr"] for row in (*whole, *alone))
    rates.set_ylim(-0.08 * highest, 1.4 * highest)
    axes.margins(y=0.12)
    axes.legend(frameon=False, fontsize=style.SMALL, loc="lower left")
    rates.legend(frameon=False, fontsize=style.SMALL, loc="upper left")
    return canvas.finish()
