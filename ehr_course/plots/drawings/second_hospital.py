"""The drawings of lesson 18 about the second hospital: what training gains, and by what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, WARNING, Canvas
from ehr_course.plots.style import Picture

LONGEST = 44
"""How many letters of the name of a code are drawn."""

BLUE = "#2d708e"

BAR = 0.2
"""How many inches a bar and the gap below it take."""


def draw_gains(losses: Mapping[str, Sequence[float]], trained: Mapping[str, int]) -> Picture:
    """Draw the loss of each method against how many numbers it trains, a dot for each seed.

    Args:
        losses: of each method, one for each seed. "nothing" is the model as it is; a method that
            is worse than that is left out.
        trained: how many numbers each method trains.
    """
    means = {name: float(np.mean(of)) for name, of in losses.items()}
    shown = [name for name in losses if trained[name] > 0 and means[name] < means["nothing"]]
    bias, prefix = "output bias", "prefix"
    better = means[bias] < means[prefix]
    canvas = Canvas(
        3.55,
        f"On average, {trained[bias]:,} output biases gain {'more' if better else 'less'} than a "
        f"prefix of {trained[prefix]:,} numbers",
        f"The loss at the second hospital against the numbers trained. The model as it is: "
        f"{means['nothing']:.3f}. Mean over the seeds: "
        + "; ".join(f"{name}, {trained[name]:,} numbers, {means[name]:.3f}" for name in shown)
        + ".",
        subtitle=f"A dot for each of {len(losses[bias])} seeds, a line at their mean. Lower is "
        "better.",
    )
    axes = canvas.plot(0.75, canvas.top + 0.1, canvas.width - 1.0, 2.1)
    axes.axhline(means["nothing"], color=style.MUTED, linestyle=(0, (4, 3)), linewidth=1)
    low = min(min(losses[name]) for name in shown)
    span = means["nothing"] - low
    sizes = [trained[name] for name in shown]
    axes.text(
        max(sizes) * 1.9, means["nothing"] - 0.03 * span,
        f"the model as it is: {means['nothing']:.3f}", size=style.SMALL, ha="right", va="top",
        color=style.MUTED,
    )  # fmt: skip
    for name in shown:
        x, of = trained[name], losses[name]
        apart = x * np.linspace(0.94, 1.06, len(of))
        axes.plot(apart, of, "o", color=BLUE, markersize=4.5)
        axes.plot([x * 0.88, x * 1.14], [means[name]] * 2, color=style.INK, linewidth=1.5)
        axes.text(
            x, min(of) - 0.05 * span, f"{name}\n{x:,}", size=style.SMALL, ha="center", va="top",
            color=style.INK, linespacing=1.2,
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlim(min(sizes) / 1.9, max(sizes) * 2.2)
    axes.set_ylim(low - 0.36 * span, means["nothing"] + 0.06 * span)
    axes.minorticks_off()
    ticks = [10**k for k in range(3, 7) if min(sizes) / 1.9 < 10**k < max(sizes) * 2.2]
    axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    axes.set_xlabel("numbers trained")
    axes.set_ylabel("loss (nats a token)")
    return canvas.finish()


def draw_differences(
    losses: Mapping[str, Sequence[float]], pairs: Sequence[tuple[str, str]]
) -> Picture:
    """Draw the difference of two methods' losses, seed by seed.

    Args:
        losses: of each method, one for each seed, in the same order.
        pairs: which is compared with which; the first is better left of zero.
    """
    gaps = {(a, b): np.subtract(losses[a], losses[b]) for a, b in pairs}
    clear = sum(bool((gap < 0).all() or (gap > 0).all()) for gap in gaps.values())
    canvas = Canvas(
        1.5 + 0.36 * len(pairs),
        f"{clear} of these {len(pairs)} comparisons come out the same way with every seed",
        "Differences of losses, seed by seed: "
        + "; ".join(
            f"{a} minus {b}, " + ", ".join(f"{one:+.3f}" for one in gap)
            for (a, b), gap in gaps.items()
        )
        + ".",
        subtitle="A dot for each seed: the loss of the first method minus that of the second, on "
        "the same patients.",
    )
    left = 2.35
    axes = canvas.plot(left, canvas.top + 0.12, canvas.width - left - 1.05, 0.36 * len(pairs))
    axes.axvline(0, color=style.INK, linewidth=1)
    most = max(float(np.abs(gap).max()) for gap in gaps.values())
    for row, ((a, b), gap) in enumerate(gaps.items()):
        same = bool((gap < 0).all() or (gap > 0).all())
        colour = BLUE if same else WARNING
        axes.axhline(row, color=style.FAINT, linewidth=0.8, zorder=0)
        axes.plot(gap, [row] * len(gap), "o" if same else "D", color=colour, markersize=5,
                  alpha=0.8)  # fmt: skip
        wins = int((gap < 0).sum())
        y = canvas.top + 0.12 + 0.36 * (row + 0.5)
        canvas.label((left - 0.12, y), f"{a} against {b}", align="right", colour=style.INK)
        canvas.label(
            (canvas.width - MARGIN, y), f"better in {wins} of {len(gap)}", align="right",
            colour=colour,
        )  # fmt: skip
    axes.set_ylim(len(pairs) - 0.5, -0.5)
    axes.set_xlim(-1.1 * most, 1.1 * max(float(gap.max()) for gap in gaps.values()) + 0.01)
    axes.set_yticks([])
    axes.set_xlabel("difference of losses (nats a token); left of zero the first is better")
    return canvas.finish()


def draw_biases(
    names: Sequence[str],
    biases: Sequence[float],
    shares: Mapping[str, Sequence[float]],
    *,
    most: int = 5,
) -> Picture:
    """Draw the codes whose share differs most between two hospitals, and the bias of each.

    Args:
        names: of the codes.
        biases: of each.
        shares: each code's share of all codes, 0 to 1, by the title of the column: of the first
            hospital, then of anything that stands between, then of the second hospital.
        most: how many codes are drawn at either end.
    """
    values = np.asarray(biases, dtype=float)
    columns = [np.asarray(of, dtype=float) for of in shares.values()]
    before, after = columns[0], columns[-1]
    order = np.argsort(before - after, kind="stable")
    chosen = [*order[:most], *order[-most:]]
    agree = sum(bool((values[i] > 0) == (after[i] > before[i])) for i in chosen)
    which = f"all {agree}" if agree == len(chosen) else f"{agree} of these {len(chosen)}"
    canvas = Canvas(
        1.35 + 0.27 * len(chosen),
        f"For {which} codes, the bias goes the way of the code's share",
        f"The {most} codes whose share of the record rose most and the {most} whose share fell "
        "most: "
        + "; ".join(
            f"{_cut(names[i])} from {before[i]:.1%} to {after[i]:.1%}, bias {values[i]:+.2f}"
            + "".join(
                f", {' '.join(name.split())} {share[i]:.1%}"
                for name, share in list(zip(shares, columns, strict=True))[1:-1]
            )
            for i in chosen
        )
        + ".",
        subtitle=f"The {most} codes whose share rose most and the {most} whose share fell most. "
        "Percentages are of all codes.",
    )
    zero, inches = 3.95, 0.95 / max(float(np.abs(values[chosen]).max()), 1e-9)
    places = np.linspace(canvas.width - MARGIN, 5.6, len(columns))[::-1]
    y = canvas.top + 0.15
    for x, name in zip(places, shares, strict=True):
        canvas.label((x, y), name, align="right", colour=style.INK)
    canvas.label((zero, y), "bias", align="center", colour=style.INK)
    y += 0.2
    canvas.arrow((zero, y - 0.05), (zero, y + 0.27 * len(chosen)), head=False)
    for i in chosen:
        value = float(values[i])
        length = abs(value) * inches
        canvas.label((MARGIN, y + 0.1), _cut(names[i]), colour=style.INK)
        canvas.box(
            zero if value > 0 else zero - length, y + 0.02, max(length, 0.01), 0.18,
            fill="code" if value > 0 else "trap", rounded=False, hatched=value < 0,
        )  # fmt: skip
        at = (zero - 0.07, y + 0.1) if value > 0 else (zero + 0.07, y + 0.1)
        canvas.label(at, f"{value:+.2f}", align="right" if value > 0 else "left",
                     colour=style.INK)  # fmt: skip
        for x, share in zip(places, columns, strict=True):
            canvas.label((x, y + 0.1), f"{share[i]:.1%}", align="right")
        y += 0.27
    return canvas.finish()


def draw_copies(gains: Mapping[int, tuple[float, float]]) -> Picture:
    """Draw what a prefix gains, and what the bias gains that imitates it best.

    Args:
        gains: by seed, how far the prefix lowers the loss, and how far the bias does; both are
            above 0.
    """
    shares = {seed: bias / prefix for seed, (prefix, bias) in gains.items()}
    low, high = min(shares.values()), max(shares.values())
    canvas = Canvas(
        1.0 + len(gains) * (2 * BAR + 0.14),
        f"A bias that imitates the prefix has {low:.0%} to {high:.0%} of its gain",
        "How far the loss falls for patients that neither has seen. "
        + " ".join(
            f"Seed {seed}: prefix {prefix:.3f}, bias {bias:.3f}, {shares[seed]:.0%} of it."
            for seed, (prefix, bias) in gains.items()
        ),
        subtitle="How far the loss falls (nats a token), for patients that neither has seen.",
    )
    left, y = 2.2, canvas.top + 0.15
    inches = (canvas.width - left - 1.6) / max(max(pair) for pair in gains.values())
    for seed, (prefix, bias) in gains.items():
        canvas.label((MARGIN, y + BAR), f"seed {seed}", colour=style.INK, size=style.TEXT)
        for name, value, fill in (("prefix", prefix, "prompt"), ("bias", bias, "encoder")):
            bar = canvas.box(left, y, value * inches, 0.17, rounded=False, fill=fill)
            canvas.label((left - 0.08, y + 0.085), name, align="right")
            text = f"{value:.3f}" + (f", {shares[seed]:.0%}" if name != "prefix" else "")
            canvas.label((bar.right + 0.07, y + 0.085), text, colour=style.INK)
            y += BAR
        y += 0.14
    return canvas.finish()


def draw_costs(losses: Mapping[str, Mapping[str, float]]) -> Picture:
    """Draw the loss of a few models on a few sets of patients, as bars.

    Args:
        losses: of each model, by the name of the patients. The first model is the one that the
            others began as.
    """
    models, places = list(losses), list(next(iter(losses.values())))
    first = models[0]
    worse = [name for name in models[1:] if losses[name][places[0]] > losses[first][places[0]]]
    title = f"{' and '.join(worse) or 'none'}: worse than before at {places[0]}"
    if len(worse) == len(models) - 1:
        title = f"after training, the loss at {places[0]} is higher than before"
    canvas = Canvas(
        1.1 + len(places) * (BAR * len(models) + 0.16),
        title[0].upper() + title[1:],
        "The loss in nats a token. "
        + " ".join(
            f"On {place}: "
            + ", ".join(f"{name} {losses[name][place]:.3f}" for name in models)
            + "."
            for place in places
        ),
        subtitle="The loss in nats a token; lower is better. The line is the model as it was.",
    )
    left, y = 2.75, canvas.top + 0.15
    inches = (canvas.width - left - 0.75) / max(max(of.values()) for of in losses.values())
    for place in places:
        middle = y + BAR / 2 * len(models)
        canvas.label((MARGIN, middle), place, colour=style.INK, size=style.TEXT)
        line = left + losses[first][place] * inches
        start = y
        for i, name in enumerate(models):
            value = losses[name][place]
            bad = value > losses[first][place]
            bar = canvas.box(
                left, y, value * inches, 0.17, rounded=False, hatched=bad,
                fill="quiet" if i == 0 else "trap" if bad else "encoder",
            )  # fmt: skip
            canvas.label((left - 0.08, y + 0.085), name, align="right")
            at = max(bar.right, line) + 0.07
            canvas.label((at, y + 0.085), f"{value:.3f}", colour=WARNING if bad else style.INK)
            y += BAR
        canvas.arrow((line, start - 0.03), (line, y - 0.01), head=False, colour=style.INK)
        y += 0.16
    return canvas.finish()


def _cut(name: str) -> str:
    if len(name) <= LONGEST:
        return name
    start = name[: LONGEST - 1]
    return (start.rpartition(" ")[0] or start).rstrip(" ,") + "…"
