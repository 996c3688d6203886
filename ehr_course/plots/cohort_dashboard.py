"""A real cohort and a synthetic one side by side: codes, visits, ages and sexes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import MaxNLocator, NullLocator
from sklearn.metrics import r2_score

from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import CodeTable, code_tables
from ehr_course.plots import style
from ehr_course.plots.bars import quick_bars
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


# ---------------------------------------------------------------------- the words


def dashboard_title(real: CohortLook, synthetic: CohortLook) -> str:
    """How like the codes are, and how long the records, as a finding.

    R² is the coefficient of determination of the line synthetic = real over the prevalences.
    """
    return (
        f"R² of prevalences {_r2(real, synthetic):.2f}; "
        f"{synthetic.mean_visits:.2f} visits a patient, real {real.mean_visits:.2f}"
    )


def describe_dashboard(
    real: CohortLook, synthetic: CohortLook, *, name: str = "", chapter: int | None = None
) -> str:
    """The picture in words: its alternative text."""
    whose = f"{name}: " if name else ""
    which = "all codes" if chapter is None else f"codes of {_name(real, chapter)}"
    top = ", ".join(
        f"{style.written(code, real.system)} {_percent(a)} real and {_percent(b)} synthetic"
        for code, a, b in _top(real, synthetic, chapter)[:3]
    )
    return (
        f"{whose}{dashboard_title(real, synthetic)}. {synthetic.n_patients:,} synthetic beside "
        f"{real.n_patients:,} real patients. Codes per visit: {synthetic.mean_codes:.2f}, real "
        f"{real.mean_codes:.2f}. Most frequent of {which}: {top}. "
        f"{_ages_in_words(real, synthetic)}"
    )


def _name(look: CohortLook, chapter: int) -> str:
    return style.chapter_name(chapter, look.system)


def _ages_in_words(real: CohortLook, synthetic: CohortLook) -> str:
    if real.ages is None or synthetic.ages is None:
        return f"{NO_AGES}."
    both = (real.ages, synthetic.ages)
    old = [_percent(ages[:, 6:].sum()) for ages in both]
    female = [_percent(ages[0].sum()) for ages in both]
    return f"Aged 60 or more: {old[1]}, real {old[0]}. Female: {female[1]}, real {female[0]}."


def _r2(real: CohortLook, synthetic: CohortLook) -> float:
    if len(real.codes) < 2:
        return float("nan")
    return float(r2_score(real.prevalence, synthetic.prevalence))


def _top(
    real: CohortLook, synthetic: CohortLook, chapter: int | None
) -> list[tuple[str, float, float]]:
    """The codes that are most frequent in real patients, with both prevalences."""
    rows = [
        (code, float(a), float(b))
        for code, a, b in zip(real.codes, real.prevalence, synthetic.prevalence, strict=True)
        if chapter is None or real.chapter_of(code) == chapter
    ]
    return sorted(rows, key=lambda row: (-row[1], row[0]))[:TOP]


def _percent(share: float) -> str:
    return f"{share:.1%}"


# ---------------------------------------------------------------------- the picture

REAL, SYNTHETIC = "#b3400e", "#31688e"
_HEIGHT = 6.1
_BAR = 0.38


def draw_dashboard(
    real: Sequence[AnyRecord],
    synthetic: Sequence[AnyRecord],
    *,
    name: str = "",
    chapter: int | None = None,
) -> Picture:
    """Draw both cohorts: prevalences, the most frequent codes, visits, codes a visit, ages.

    Args:
        real, synthetic: the patients of each, at least one.
        name: of the synthetic cohort, in the legend.
        chapter: its codes are marked among the prevalences, and the most frequent ones are
            named; None for all codes. The lower panels always show all codes.

    Raises:
        InputError: if a cohort has no patients, or neither has a code of the chapter.
    """
    return draw_looks(*looks_of(real, synthetic), name=name, chapter=chapter)


def draw_looks(
    real: CohortLook,
    synthetic: CohortLook,
    *,
    name: str = "",
    chapter: int | None = None,
    on: Picture | None = None,
) -> Picture:
    """Draw what ``looks_of`` has seen, as ``draw_dashboard`` does.

    Args:
        real, synthetic: of both cohorts.
        name: as for draw_dashboard.
        chapter: as for draw_dashboard.
        on: what was drawn of the same cohorts with another chapter. Only what the chapter
            changes is drawn anew, and it is this picture that is returned.

    Raises:
        InputError: if the two were not looked at together, or have no code of the chapter.
    """
    if real.codes != synthetic.codes:
        raise InputError(
            "draw_looks",
            "",
            "the cohorts were not looked at together",
            "Make both with one call of looks_of.",
        )
    if chapter is not None and chapter not in chapters_of(real):
        raise InputError(
            "draw_looks",
            "chapter",
            f"no code lies in chapter {chapter}",
            f"Use one of {', '.join(map(str, chapters_of(real)))}.",
        )
    words = describe_dashboard(real, synthetic, name=name, chapter=chapter)
    with style.course_style():
        if on is None:
            picture = Picture(style.WIDTH, _HEIGHT, words)
            _draw_what_no_chapter_changes(picture, real, synthetic, name)
        else:
            picture = on
            picture.alternative_text = words
            for axes in picture.axes[-2:]:
                axes.remove()
        _draw_prevalences(picture.add_axes((0.085, 0.5, 0.34, 0.35)), real, synthetic, chapter)
        _draw_top(picture.add_axes((0.56, 0.5, 0.41, 0.35)), real, synthetic, chapter)
    return picture


def _draw_what_no_chapter_changes(
    picture: Picture, real: CohortLook, synthetic: CohortLook, name: str
) -> None:
    title = dashboard_title(real, synthetic)
    picture.text(0.012, 0.965, title, size=style.TITLE, weight="bold", va="center")
    named = f"synthetic ({synthetic.n_patients:,})" + (f": {name}" if name else "")
    for x, colour, text in (
        (0.014, REAL, f"real ({real.n_patients:,})"),
        (0.2, SYNTHETIC, named),
    ):
        picture.text(x, 0.922, f"\u25a0 {text}", color=colour, va="center")
    visits = picture.add_axes((0.085, 0.09, 0.22, 0.27))
    _draw_shares(visits, real.visits, synthetic.visits, "visits a patient")
    codes = picture.add_axes((0.375, 0.09, 0.28, 0.27))
    _draw_shares(codes, real.codes_per_visit, synthetic.codes_per_visit, "codes a visit")
    _draw_ages(picture.add_axes((0.745, 0.09, 0.225, 0.27)), real, synthetic)


def _draw_prevalences(
    axes: Axes, real: CohortLook, synthetic: CohortLook, chapter: int | None
) -> None:
    lowest = 0.5 / max(real.n_patients, synthetic.n_patients)
    x, y = (look.prevalence.clip(min=lowest) for look in (real, synthetic))
    marked = np.array([chapter is None or real.chapter_of(c) == chapter for c in real.codes])
    axes.plot([lowest, 1], [lowest, 1], color=style.MUTED, linewidth=0.8, zorder=1)
    axes.scatter(x[~marked], y[~marked], s=7, color=style.FAINT, linewidths=0, zorder=2)
    axes.scatter(x[marked], y[marked], s=9, color=style.INK, alpha=0.7, linewidths=0, zorder=3)
    axes.set_xscale("log")
    axes.set_yscale("log")
    low, high = lowest / 1.6, min(1.0, max(x.max(), y.max())) * 1.6
    ticks = [tick for tick in (1e-4, 1e-3, 1e-2, 1e-1, 1.0) if 3 * lowest <= tick <= high]
    for axis, look, limit in (
        (axes.xaxis, real, axes.set_xlim),
        (axes.yaxis, synthetic, axes.set_ylim),
    ):
        limit(low, high)
        axis.set_minor_locator(NullLocator())
        absent = [lowest] if (look.prevalence == 0).any() else []
        axis.set_ticks([*absent, *ticks])
        axis.set_major_formatter(
            lambda share, _: "none" if share <= lowest * 1.01 else f"{100 * share:g}%"
        )
    axes.tick_params(labelsize=style.SMALL)
    axes.set_xlabel("share of real patients", size=style.SMALL)
    axes.set_ylabel("share of synthetic patients", size=style.SMALL)
    which = "each code" if chapter is None else f"marked: {_name(real, chapter)}"
    axes.set_title(which, size=style.SMALL, loc="left")


def _draw_top(axes: Axes, real: CohortLook, synthetic: CohortLook, chapter: int | None) -> None:
    rows = _top(real, synthetic, chapter)
    places = np.arange(len(rows))
    for column, offset, colour in ((1, -_BAR / 2, REAL), (2, _BAR / 2, SYNTHETIC)):
        shares = np.array([row[column] for row in rows], dtype=float)
        quick_bars(axes, places + offset, shares, thickness=_BAR, across=True, facecolor=colour)
    codes = [style.written(code, real.system) for code, *_ in rows]
    axes.set_yticks(places, codes, size=style.SMALL)
    axes.set_ylim(TOP - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=style.SMALL)
    _percent_ticks(axes.xaxis, axes.get_xlim(), 4)
    axes.set_xlabel("share of patients", size=style.SMALL)
    which = "" if chapter is None else f" of {_name(real, chapter)}"
    axes.set_title(f"most frequent codes{which}", size=style.SMALL, loc="left")


def _draw_shares(axes: Axes, real: np.ndarray, synthetic: np.ndarray, label: str) -> None:
    places = np.arange(len(real))
    quick_bars(axes, places - _BAR / 2, real, thickness=_BAR, facecolor=REAL)
    quick_bars(axes, places + _BAR / 2, synthetic, thickness=_BAR, facecolor=SYNTHETIC)
    every = 1 if len(real) <= MOST_VISITS else 2
    last = len(real) - 1
    shown = [place for place in places if (last - place) % every == 0]
    axes.set_xticks(shown, [f"{place + 1}" + ("+" if place == last else "") for place in shown])
    axes.tick_params(labelsize=style.SMALL)
    _percent_ticks(axes.yaxis, axes.get_ylim(), 4)
    axes.set_xlabel(label, size=style.SMALL)


def _draw_ages(axes: Axes, real: CohortLook, synthetic: CohortLook) -> None:
    if real.ages is None or synthetic.ages is None:
        axes.set_axis_off()
        words = NO_AGES.replace(": ", ":\n").replace(", ", ",\n")
        axes.text(0.5, 0.5, words, ha="center", va="center", size=style.SMALL, color=style.MUTED)
        return
    places = np.arange(DECADES)
    sides = ((real.ages, REAL, -_BAR / 2), (synthetic.ages, SYNTHETIC, _BAR / 2))
    for (women, men), colour, offset in sides:
        both_sides, shares = np.tile(places + offset, 2), np.concatenate([-women, men])
        quick_bars(axes, both_sides, shares, thickness=_BAR, across=True, facecolor=colour)
    axes.axvline(0, color=style.MUTED, linewidth=0.8)
    most = 1.1 * max(real.ages.max(), synthetic.ages.max())
    axes.set_xlim(-most, most)
    axes.set_ylim(-0.5, DECADES - 0.5)
    axes.set_yticks(range(0, DECADES, 3), [str(10 * place) for place in range(0, DECADES, 3)])
    _percent_ticks(axes.xaxis, (-most, most), 2)
    axes.tick_params(labelsize=style.SMALL)
    axes.set_xlabel("F      age      M", size=style.SMALL)


def _percent_ticks(axis: Axis, limits: tuple[float, float], most: int) -> None:
    """Ticks inside of the limits, in percent without a sign."""
    ticks = np.asarray(MaxNLocator(most).tick_values(*limits)).round(9)
    axis.set_ticks([tick for tick in ticks if limits[0] <= tick <= limits[1]])
    axis.set_major_formatter(lambda share, _: f"{100 * abs(share):g}%")
