"""The drawings of lesson 19 about cohorts: questions, a code, distance, floor, a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ehr_course.code_system import CodeSystem
from ehr_course.evaluation.measure import Measure
from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, WARNING, Canvas
from ehr_course.plots.style import Picture

# ---------------------------------------------------------------------- the whole lesson


@dataclass(frozen=True)
class Question:
    """One question about cohorts, and what each of them scores.

    Attributes:
        asked: the question, in a few words.
        measure: what was measured for it, in a few words.
        values: of each cohort.
        real: what real patients score.
        off: the cohorts that are farther from it than chance explains.
        percent: whether the numbers are shares, to be written in percent.
    """

    asked: str
    measure: str
    values: Mapping[str, float]
    real: float
    off: frozenset[str]
    percent: bool = False

    def written(self, value: float) -> str:
        """A value as the picture has it."""
        return f"{100 * value:.1f}%" if self.percent else f"{value:.3f}"


def draw_questions(questions: Sequence[Question]) -> Picture:
    """Draw what each cohort scores on each question, and mark what chance does not explain.

    Args:
        questions: at least one, all about the same cohorts.
    """
    names = list(questions[0].values)
    marks = {name: sum(name in q.off for q in questions) for name in names}
    if all(marks.values()):
        title = "Each cohort fails somewhere, and no single question finds all of them"
        if any(len(q.off) == len(names) for q in questions):
            title = "Each cohort fails somewhere"
    else:
        title = "Ask several questions, each with what real patients score"
    row, first, wide = 0.56, 2.6, (style.WIDTH - 2.6 - MARGIN) / (len(names) + 1)
    words = "; ".join(
        f"{q.asked} ({q.measure}) "
        + ", ".join(f"{n} {q.written(q.values[n])}{' ✗' * (n in q.off)}" for n in names)
        + f", real patients {q.written(q.real)}"
        for q in questions
    )
    canvas = Canvas(
        1.24 + row * len(questions),
        title,
        f"A table of questions and cohorts. {words}. A cross marks what chance does not explain.",
        subtitle="✗ and colour: farther from real patients than chance explains",
    )
    top = canvas.top + 0.4
    for column, name in enumerate([*names, "real patients"]):
        at = first + wide * (column + 0.5), top - 0.19
        canvas.label(at, name, align="center", colour=style.INK, weight="bold")
    for number, q in enumerate(questions):
        y = top + row * number
        canvas.label((MARGIN, y + 0.17), q.asked, colour=style.INK, size=style.TEXT)
        canvas.label((MARGIN, y + 0.37), q.measure)
        for column, name in enumerate(names):
            wrong = name in q.off
            text = q.written(q.values[name]) + ("  ✗" if wrong else "")
            canvas.box(
                first + wide * column + 0.05, y, wide - 0.1, row - 0.1, text,
                fill="trap" if wrong else "encoder", weight="bold" if wrong else "normal",
            )  # fmt: skip
        canvas.box(
            first + wide * len(names) + 0.05, y, wide - 0.1, row - 0.1, q.written(q.real),
            fill="quiet",
        )  # fmt: skip
    return canvas.finish()


# ---------------------------------------------------------------------- drawing a code

SHOWN = 80
"""How many of the likeliest tokens have a bar."""


def draw_sampling(
    steps: Mapping[str, np.ndarray],
    k: int,
    p: float,
    *,
    shown: int = SHOWN,
) -> Picture:
    """Draw the sorted probabilities of two steps, and what top-k and top-p keep of each.

    Args:
        steps: by name, float (tokens,): the probabilities of one step.
        k: how many tokens top-k keeps.
        p: what the tokens that top-p keeps sum to, at least.
        shown: how many bars are drawn.
    """
    rows = {name: np.sort(np.asarray(row, dtype=float))[::-1] for name, row in steps.items()}
    kept = {name: int((row.cumsum() - row < p).sum()) for name, row in rows.items()}
    shown = min(shown, *map(len, rows.values()))
    sums = {name: float(row[:k].sum()) for name, row in rows.items()}
    canvas = Canvas(
        3.35,
        f"Top-k always keeps {k}; top-p keeps "
        + " here and ".join(f"{n}" for n in kept.values())
        + " there",
        "Bars of probabilities, the likeliest first. "
        + "; ".join(
            f"{name}: the {k} likeliest have {sums[name]:.0%}, and {kept[name]} are needed for "
            f"{p:.0%}"
            for name in rows
        )
        + ".",
        subtitle=f"The {shown} likeliest tokens of two steps, sorted; dark: kept by both. "
        "Each panel has its own scale.",
    )
    gap, left = 0.75, 0.62
    wide = (canvas.width - left - MARGIN - gap * (len(rows) - 1)) / len(rows)
    for number, (name, row) in enumerate(rows.items()):
        x = left + number * (wide + gap)
        axes = canvas.plot(x, canvas.top + 0.34, wide, 1.6, name)
        bars = row[:shown]
        n = kept[name]
        both = min(k, n)
        places = np.arange(1, len(bars) + 1)
        colours = [FILLS["code"] if i < both else style.NO_CHAPTER for i in range(len(bars))]
        axes.bar(places, bars, width=0.8, color=colours)
        high = float(bars.max()) * 1.12
        axes.set_ylim(0, high)
        axes.set_xlim(0.3, shown + 0.9)
        for cut, words, colour, height, dashes in (
            (k, f"top-k ends here: {sums[name]:.0%}", style.INK, 0.94, (0, (4, 2))),
            (n, f"top-p: {p:.0%} reached by {n}", style.INK, 0.7, (0, (1, 1))),
        ):
            if cut < shown:
                axes.axvline(cut + 0.5, color=colour, linewidth=1.3, linestyle=dashes)
                right = cut > shown / 2
                axes.text(
                    cut + (0.1 if right else 1.1), high * height, words, color=colour,
                    size=style.SMALL, va="center", ha="right" if right else "left",
                    bbox={"facecolor": style.PAPER, "edgecolor": "none", "pad": 1.0},
                )  # fmt: skip
            else:
                axes.text(
                    shown, high * height, f"{words}, far to the right →", color=colour,
                    size=style.SMALL, va="center", ha="right",
                )  # fmt: skip
        axes.yaxis.set_major_formatter(lambda share, _: f"{100 * share:g}%")
        axes.set_xlabel("token, by rank")
    return canvas.finish()


# ---------------------------------------------------------------------- how far apart

NAMED = 6
"""How many codes have a row of their own."""

LONGEST = 37
"""How many letters of a code's title are drawn."""


def draw_distance(
    codes: Sequence[str],
    real: np.ndarray,
    synthetic: np.ndarray,
    names: tuple[str, str] = ("real patients", "synthetic patients"),
    *,
    system: CodeSystem = "ICD9CM",
) -> Picture:
    """Draw how much each code adds to the Jensen-Shannon divergence of two cohorts.

    Args:
        codes: the codes that are compared.
        real, synthetic: int (codes,): how often each stands in the two cohorts.
        names: of the two.
        system: the code system that the codes belong to.
    """
    p, q = (np.asarray(n, dtype=float) / np.sum(n) for n in (real, synthetic))
    m = (p + q) / 2
    of_p, of_q = (
        0.5 * np.where(share > 0, share * np.log2(np.where(share > 0, share, 1) / m), 0)
        for share in (p, q)
    )
    terms = of_p + of_q
    order = np.argsort(-terms, kind="stable")
    named, rest = order[:NAMED], order[NAMED:]
    total = float(terms.sum())
    row, left, wide = 0.48, 2.75, 2.5
    canvas = Canvas(
        1.65 + row * (len(named) + 1),
        f"The gaps of all codes add up to {total:.3f} bits",
        "For the codes that add most: "
        + "; ".join(
            f"{style.written(codes[i], system)} {p[i]:.1%} of the codes of {names[0]}, "
            f"{q[i]:.1%} of those of {names[1]}, {terms[i]:.4f} bits"
            for i in named
        )
        + f". With {len(rest)} others the sum is {total:.3f} bits and its root "
        f"{math.sqrt(total):.3f}.",
        subtitle="Black tick: half way between the two bars, what both are compared with",
    )
    canvas.key(left, canvas.top + 0.12, {"encoder": names[0], "code": names[1]})
    top = canvas.top + 0.42
    canvas.label((canvas.width - MARGIN, top - 0.12), "adds (bits)", align="right")
    unit = wide / max(p[named].max(), q[named].max())
    for number, i in enumerate(named):
        y = top + row * number
        title = style.code_title(codes[i], system)
        fits = title if len(title) <= LONGEST else title[: LONGEST - 1].rstrip(" ,") + "…"
        code = style.written(codes[i], system)
        canvas.label((MARGIN, y + 0.1), code, colour=style.INK, mono=True)
        canvas.label((MARGIN, y + 0.27), fits)
        at = left + m[i] * unit
        for offset, share, fill in ((0.03, p[i], "encoder"), (0.19, q[i], "code")):
            bar = canvas.box(
                left, y + offset, max(share * unit, 0.01), 0.15, fill=fill, rounded=False
            )
            canvas.label((bar.right + 0.06, y + offset + 0.08), f"{share:.1%}")
        canvas.arrow((at, y + 0.385), (at, y + 0.445), head=False, colour=style.INK, thick=2.5)
        right = canvas.width - MARGIN
        canvas.label((right, y + 0.18), f"{terms[i]:.4f}", align="right", colour=style.INK)
    y = top + row * len(named) + 0.08
    canvas.label((MARGIN, y + 0.1), f"the other {style.count(len(rest), 'code')}")
    canvas.label((right, y + 0.1), f"{terms[rest].sum():.4f}", align="right", colour=style.INK)
    canvas.arrow((left, y + 0.26), (right, y + 0.26), head=False, thick=0.8)
    canvas.label(
        (right, y + 0.42),
        f"the divergence: {total:.3f} bits; its root, the distance: {math.sqrt(total):.3f}",
        align="right", colour=style.INK, weight="bold",
    )  # fmt: skip
    return canvas.finish()


def draw_floors(
    floors: Mapping[int, Sequence[float]], cohort: Mapping[int, Sequence[float]]
) -> Picture:
    """Draw the divergence of real from real, and of synthetic from real, by their number.

    Args:
        floors: by the number of patients on either side, the bits of several samples.
        cohort: the same with synthetic patients on one side.
    """
    sizes = sorted(floors)
    means = {n: float(np.mean(floors[n])) for n in sizes}
    few, many = sizes[0], sizes[-1]
    canvas = Canvas(
        3.3,
        f"{few:,} patients differ from {few:,} others {means[few] / means[many]:.0f} times as "
        f"much as {many:,} do",
        "Dots of the divergence by the number of patients on either side. Real against real: "
        + ", ".join(f"{n:,}: {means[n]:.3f}" for n in sizes)
        + ". Synthetic against real: "
        + ", ".join(f"{n:,}: {np.mean(cohort[n]):.3f}" for n in sizes)
        + " bits.",
        subtitle="Divergence of the codes in bits, three samples each; logarithmic scales",
    )
    axes = canvas.plot(0.85, canvas.top + 0.15, 5.0, 1.8)
    ends = {}
    for found, colour, marker, style_of in (
        (floors, WARNING, "o", "solid"),
        (cohort, FILLS["code"], "D", (0, (4, 2))),
    ):
        for n in sizes:
            axes.plot([n] * len(found[n]), found[n], marker, color=colour, markersize=4.5,
                      markerfacecolor="none" if marker == "D" else colour)  # fmt: skip
        line = [float(np.mean(found[n])) for n in sizes]
        axes.plot(sizes, line, color=colour, linewidth=1.2, linestyle=style_of)
        ends[colour] = line[-1]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.minorticks_off()
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
    low = min(min(v) for v in (*floors.values(), *cohort.values()))
    high = max(max(v) for v in (*floors.values(), *cohort.values()))
    axes.set_ylim(low / 1.3, high * 1.3)
    every = [means[n] for n in sizes]
    axes.set_yticks(every, [f"{value:.3f}" for value in every])
    axes.set_xlabel("patients on either side")
    spread = math.log(ends[FILLS["code"]] / ends[WARNING])
    apart = abs(spread) > 0.12 * math.log(high / low)
    y0 = canvas.top + 0.15
    scale = 1.8 / math.log(high * 1.3 / (low / 1.3))

    def at(value: float) -> float:
        return y0 + 1.8 - scale * math.log(value / (low / 1.3))

    shift = 0 if apart else 0.1
    sign = 1 if spread >= 0 else -1
    blue = FILLS["code"]
    for colour, name, up in ((WARNING, "real", sign), (blue, "synthetic", -sign)):
        place = 6.0, at(ends[colour]) + up * shift
        canvas.label(place, f"{name} {ends[colour]:.3f}", colour=colour)
    first = float(np.mean(cohort[few]))
    axes.annotate(
        f"synthetic {first:.3f}, real {means[few]:.3f}", (few, max(first, means[few])),
        xytext=(8, 1), textcoords="offset points", size=style.SMALL, color=style.INK, va="bottom",
    )  # fmt: skip
    return canvas.finish()


# ---------------------------------------------------------------------- a report


def draw_report(
    rows: Sequence[tuple[Measure, str]], *, title: str, sizes: tuple[int, int] | None = None
) -> Picture:
    """Draw measures with their intervals, floors and verdicts, each row on a scale of its own.

    Args:
        rows: measures and what the report says of each; values that are not known stay away.
        title: states the finding.
        sizes: how many patients a divergence compares with how many, where that is to be drawn.
    """
    shown = [(m, said) for m, said in rows if math.isfinite(m.value)]
    row, left, right = 0.31, 2.75, 4.3
    canvas = Canvas(
        1.1 + row * len(shown),
        title,
        "; ".join(
            f"{m.name} {m.value:.3g}"
            + (f", floor {m.floor:.3g}" if math.isfinite(m.floor) else "")
            + f": {said}"
            for m, said in shown
        )
        + ".",
        subtitle="White: the cohort, in its interval; red: real patients; a scale for each row"
        + ("; divergences" + _against(sizes) if sizes else ""),
    )
    canvas.label((left - 0.32, canvas.top - 0.02), "better", align="center")
    canvas.label((right + 0.6, canvas.top - 0.02), "value", align="right")
    canvas.label((right + 1.15, canvas.top - 0.02), "real", align="right")
    for number, (m, said) in enumerate(shown):
        y = canvas.top + 0.22 + row * number
        canvas.label((MARGIN, y), m.name, colour=style.INK)
        canvas.label((left - 0.32, y), m.better, align="center")
        floor = f"{m.floor:.3f}" if math.isfinite(m.floor) else "–"
        canvas.label((right + 0.6, y), f"{m.value:.3f}", colour=style.INK, align="right")
        canvas.label((right + 1.15, y), floor, align="right")
        canvas.label((right + 1.35, y), said, colour=style.INK)
        _scale(canvas, left, right, y)
        finite = [n for n in (m.value, m.low, m.high, m.floor) if math.isfinite(n)]
        start, end = _ends(finite)
        unit = (right - left) / ((end - start) * 1.04 or 1.0)
        if m.known:
            wide = max((m.high - m.low) * unit, 0.02)
            canvas.box(left + (m.low - start) * unit, y - 0.045, wide, 0.09, fill="code",
                       rounded=False)  # fmt: skip
        x = left + (m.value - start) * unit
        canvas.box(x - 0.04, y - 0.07, 0.08, 0.14, fill="paper", edge=style.INK)
        if math.isfinite(m.floor):
            x = left + (m.floor - start) * unit
            canvas.arrow((x, y - 0.12), (x, y + 0.12), head=False, colour=WARNING, thick=2.6)
    return canvas.finish()


def _ends(numbers: Sequence[float]) -> tuple[float, float]:
    """Where a row's scale begins and ends: at 0, unless all its numbers are near each other.

    >>> _ends([0.5, 0.75]), _ends([0.1, 0.5])
    ((0.4375, 0.75), (0.0, 0.5))
    """
    low, high = min(numbers), max(numbers)
    if low > 0 and high - low < 0.4 * high:
        return low - 0.25 * (high - low), high
    return min(0.0, low), max(0.0, high)


def _scale(canvas: Canvas, left: float, right: float, y: float) -> None:
    """Draw a thin line that what is drawn later covers."""
    grey = style.NO_CHAPTER
    canvas.box(left, y - 0.005, right - left, 0.01, fill=grey, edge=grey, rounded=False)


def _against(sizes: tuple[int, int] | None) -> str:
    """How many patients are compared, in words.

    >>> _against((1000, 4000)), _against(None)
    (', 1,000 against 4,000 patients', '')
    """
    return f", {sizes[0]:,} against {sizes[1]:,} patients" if sizes else ""
