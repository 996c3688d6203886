"""A real cohort and a synthetic one side by side: codes, visits, ages and sexes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullLocator
from sklearn.metrics import r2_score

from ehr_course.code_system import CodeSystem
from ehr_course.evaluation.code_table import CodeTable, code_tables
from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, Canvas
from ehr_course.plots.style import Picture
from ehr_course.records import AnyRecord

MOST_VISITS, MOST_CODES = 6, 12
"""More visits, or codes, than this are drawn as so many."""

DECADES = 10
"""Ages by ten years: 0 to 9, and at last 90, which stands for all above 89."""

TOP = 8
"""How many codes are named."""

NO_AGES = "Left out: ages by sex, which a cohort does not have"
"""What stands in the place of the panel of ages where the age or the sex is not known."""

# ---------------------------------------------------------------------- the numbers


@dataclass(frozen=True)
class CohortLook:
    """What a dashboard shows of one cohort; all shares are 0 to 1.

    Attributes:
        codes: the codes of both cohorts that are compared, sorted.
        prevalence: float64 (codes,): the share of patients with the code at any visit.
        visits: float64 (6,): the share of patients with 1, 2, ... visits; the last: or more.
        codes_per_visit: float64 (12,): the share of visits with 1, 2, ... codes.
        ages: float64 (2, 10): the share of all patients that is female, then male, by decade;
            None where the age or the sex is not known.
        n_patients: how many there are.
        mean_visits: of a patient.
        mean_codes: of a visit.
        system: the code system of both cohorts.
    """

    codes: tuple[str, ...]
    prevalence: np.ndarray
    visits: np.ndarray
    codes_per_visit: np.ndarray
    ages: np.ndarray | None
    n_patients: int
    mean_visits: float
    mean_codes: float
    system: CodeSystem = "ICD9CM"

    def chapter_of(self, code: str) -> int | None:
        """The number of a code's chapter, or None for a code that lies in none."""
        return style.chapter_of(code, self.system)


def looks_of(*cohorts: Sequence[AnyRecord]) -> tuple[CohortLook, ...]:
    """Look at cohorts that are to be compared.

    Raises:
        InputError: if a cohort has no patients, or they are not all coded in one system.

    >>> from ehr_course.records import PatientRecord, Visit
    >>> one = [PatientRecord(1, "F", 64, (Visit(("4280", "4019")), Visit(("4280",))))]
    >>> look, other = looks_of(one, [PatientRecord(2, "M", 70, (Visit(("4019",)),))])
    >>> look.prevalence.tolist(), other.prevalence.tolist(), look.mean_codes
    ([1.0, 1.0], [1.0, 0.0], 1.5)
    """
    return tuple(map(_look, code_tables(*cohorts)))


def _look(table: CodeTable) -> CohortLook:
    n = len(table)
    visits = np.bincount(table.owner, minlength=n)
    codes = np.asarray(table.visits.sum(axis=1)).ravel().astype(np.int64)
    ages = None
    if table.ages is not None and table.sexes is not None:
        decades = [table.ages[table.sexes == sex] // 10 for sex in "FM"]
        ages = np.stack([np.bincount(each, minlength=DECADES) / n for each in decades])
    return CohortLook(
        table.codes,
        np.asarray(table.patients.sum(axis=0, dtype=np.float64)).ravel() / n,
        _shares(visits, MOST_VISITS),
        _shares(codes, MOST_CODES),
        ages,
        n,
        float(visits.mean()),
        float(codes.mean()),
        table.system,
    )


def _shares(counts: np.ndarray, most: int) -> np.ndarray:
    """The share of 1, 2, ... and most or more."""
    return np.bincount(counts.clip(1, most), minlength=most + 1)[1:] / len(counts)


def chapters_of(look: CohortLook) -> list[int]:
    """The chapters that its codes lie in, in order.

    >>> from ehr_course.records import PatientRecord, Visit
    >>> (look,) = looks_of([PatientRecord(1, "F", 64, (Visit(("4280", "V3001", "4019")),))])
    >>> chapters_of(look)
    [7, 18]
    """
    found = {look.chapter_of(code) for code in look.codes}
    return sorted(number for number in found if number is not None)


# ---------------------------------------------------------------------- the picture

REAL, SYNTHETIC = "#8d96a1", FILLS["code"]  # light and dark in greyscale
_BAR = 0.38


def draw_dashboard(real: Sequence[AnyRecord], synthetic: Sequence[AnyRecord]) -> Picture:
    """Draw both cohorts: prevalences, the most frequent codes, visits, codes a visit, ages.

    Args:
        real, synthetic: the patients of each, at least one.
    """
    return draw_looks(*looks_of(real, synthetic))


def draw_looks(
    real: CohortLook, synthetic: CohortLook, *, name: str = "", chapter: int | None = None
) -> Picture:
    """Draw what ``looks_of`` has seen of two cohorts in one call.

    Args:
        real, synthetic: of both cohorts.
        name: of the synthetic cohort, in the legend.
        chapter: its codes are marked among the prevalences, and the most frequent ones are
            named; None for all codes. The lower panels always show all codes.
    """
    r2 = r2_score(real.prevalence, synthetic.prevalence) if len(real.codes) > 1 else float("nan")
    title = (
        f"R² of prevalences {r2:.2f}; {synthetic.mean_visits:.2f} visits a patient, real "
        f"{real.mean_visits:.2f}"
    )
    top = _most_frequent(real, synthetic, chapter)
    chapter_name = "" if chapter is None else style.chapter_name(chapter, real.system)
    whose = f"{name}: " if name else ""
    which = f"codes of {chapter_name}" if chapter_name else "all codes"
    canvas = Canvas(
        6.1,
        title,
        f"{whose}{title}. {synthetic.n_patients:,} synthetic beside {real.n_patients:,} real "
        f"patients. Codes per visit: {synthetic.mean_codes:.2f}, real {real.mean_codes:.2f}. Most "
        f"frequent of {which}: "
        + ", ".join(f"{code} {a:.1%} real and {b:.1%} synthetic" for code, a, b in top[:3])
        + f". {_ages_in_words(real, synthetic)}",
    )
    synthetic_name = f"synthetic ({synthetic.n_patients:,})" + (f": {name}" if name else "")
    key = {REAL: f"real ({real.n_patients:,})", SYNTHETIC: synthetic_name}
    canvas.key(MARGIN, canvas.top, key)
    codes = canvas.plot(
        0.65, 0.92, 2.6, 2.15, f"marked: {chapter_name}" if chapter_name else "each code"
    )
    _draw_prevalences(codes, real, synthetic, chapter)
    of = f" of {chapter_name}" if chapter_name else ""
    _draw_top(canvas.plot(4.26, 0.92, 3.1, 2.15, f"most frequent codes{of}"), top)
    visits = canvas.plot(0.65, 3.9, 1.67, 1.65)
    _draw_shares(visits, real.visits, synthetic.visits, "visits a patient")
    numbers = canvas.plot(2.85, 3.9, 2.13, 1.65)
    _draw_shares(numbers, real.codes_per_visit, synthetic.codes_per_visit, "codes a visit")
    _draw_ages(canvas.plot(5.66, 3.9, 1.71, 1.65), real, synthetic)
    return canvas.finish()


def _ages_in_words(real: CohortLook, synthetic: CohortLook) -> str:
    if real.ages is None or synthetic.ages is None:
        return f"{NO_AGES}."
    old, old_real = (ages[:, 6:].sum() for ages in (synthetic.ages, real.ages))
    women, women_real = (ages[0].sum() for ages in (synthetic.ages, real.ages))
    return (
        f"Aged 60 or more: {old:.1%}, real {old_real:.1%}. Female: {women:.1%}, real "
        f"{women_real:.1%}."
    )


def _most_frequent(
    real: CohortLook, synthetic: CohortLook, chapter: int | None
) -> list[tuple[str, float, float]]:
    """The codes that are most frequent in real patients, with both prevalences."""
    rows = [
        (style.written(code, real.system), float(a), float(b))
        for code, a, b in zip(real.codes, real.prevalence, synthetic.prevalence, strict=True)
        if chapter is None or real.chapter_of(code) == chapter
    ]
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:TOP]


def _draw_prevalences(
    axes: Axes, real: CohortLook, synthetic: CohortLook, chapter: int | None
) -> None:
    lowest = 0.5 / max(real.n_patients, synthetic.n_patients)
    x, y = (look.prevalence.clip(min=lowest) for look in (real, synthetic))
    marked = np.array([chapter is None or real.chapter_of(c) == chapter for c in real.codes])
    axes.plot([lowest, 1], [lowest, 1], color=style.MUTED, linewidth=0.8, zorder=1)
    axes.scatter(x[~marked], y[~marked], s=7, color=style.FAINT, linewidths=0, zorder=2)
    axes.scatter(x[marked], y[marked], s=9, color=style.INK, alpha=0.7, linewidths=0, zorder=3)
    low, high = lowest / 1.6, min(1.0, max(x.max(), y.max())) * 1.6
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    ticks = [tick for tick in (1e-4, 1e-3, 1e-2, 1e-1, 1.0) if 3 * lowest <= tick <= high]
    for axis, look in ((axes.xaxis, real), (axes.yaxis, synthetic)):
        axis.set_minor_locator(NullLocator())
        absent = [lowest] if (look.prevalence == 0).any() else []
        axis.set_ticks([*absent, *ticks])
        axis.set_major_formatter(
            lambda share, _: "none" if share <= lowest * 1.01 else f"{100 * share:g}%"
        )
    axes.set(xlabel="share of real patients", ylabel="share of synthetic patients")


def _draw_top(axes: Axes, rows: Sequence[tuple[str, float, float]]) -> None:
    places = np.arange(len(rows))
    for column, offset, colour in ((1, -_BAR / 2, REAL), (2, _BAR / 2, SYNTHETIC)):
        shares = np.array([row[column] for row in rows], dtype=float)
        axes.barh(places + offset, shares, _BAR, color=colour)
    axes.set_yticks(places, [code for code, *_ in rows])
    axes.set_ylim(TOP - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    _percent_ticks(axes.xaxis, axes.get_xlim(), 4)
    axes.set_xlabel("share of patients")


def _draw_shares(axes: Axes, real: np.ndarray, synthetic: np.ndarray, label: str) -> None:
    places = np.arange(len(real))
    axes.bar(places - _BAR / 2, real, _BAR, color=REAL)
    axes.bar(places + _BAR / 2, synthetic, _BAR, color=SYNTHETIC)
    every = 1 if len(real) <= MOST_VISITS else 2
    last = len(real) - 1
    shown = [place for place in places if (last - place) % every == 0]
    axes.set_xticks(shown, [f"{place + 1}" + ("+" if place == last else "") for place in shown])
    _percent_ticks(axes.yaxis, axes.get_ylim(), 4)
    axes.set_xlabel(label)


def _draw_ages(axes: Axes, real: CohortLook, synthetic: CohortLook) -> None:
    if real.ages is None or synthetic.ages is None:
        axes.set_axis_off()
        words = NO_AGES.replace(": ", ":\n").replace(", ", ",\n")
        axes.text(0.5, 0.5, words, ha="center", va="center", size=style.SMALL, color=style.MUTED)
        return
    places = np.arange(DECADES)
    sides = ((real.ages, REAL, -_BAR / 2), (synthetic.ages, SYNTHETIC, _BAR / 2))
    for (women, men), colour, offset in sides:
        axes.barh(places + offset, -women, _BAR, color=colour)
        axes.barh(places + offset, men, _BAR, color=colour)
    axes.axvline(0, color=style.MUTED, linewidth=0.8)
    most = 1.1 * max(real.ages.max(), synthetic.ages.max())
    axes.set(xlim=(-most, most), ylim=(-0.5, DECADES - 0.5))
    axes.set_yticks(range(0, DECADES, 3), [str(10 * place) for place in range(0, DECADES, 3)])
    _percent_ticks(axes.xaxis, (-most, most), 2)
    axes.set_xlabel("F      age      M")


def _percent_ticks(axis: Any, limits: tuple[float, float], most: int) -> None:
    """Ticks inside of the limits, in percent without a sign."""
    ticks = np.asarray(MaxNLocator(most).tick_values(*limits)).round(9)
    axis.set_ticks([tick for tick in ticks if limits[0] <= tick <= limits[1]])
    axis.set_major_formatter(lambda share, _: f"{100 * abs(share):g}%")
