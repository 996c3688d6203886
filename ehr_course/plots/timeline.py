"""One patient's visits in time, and which codes come back from one to the next."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from matplotlib.axes import Axes

from ehr_course.code_system import CodeSystem
from ehr_course.plots import style
from ehr_course.plots.style import Picture, count
from ehr_course.records import PatientRecord

DAYS_PER_YEAR = 365.25

MOST_ROWS = 10
"""How many codes have a row of their own."""

MOST_VISITS = 20
"""How many visits are drawn: the last ones."""


class Times(NamedTuple):
    """Where a patient's visits stand in time.

    Attributes:
        values: one number for each visit, from the first admission on.
        unit: "years", or "days" where all visits lie within a year, or "visit" where an
            admission time is missing and the visits can only be counted.
    """

    values: list[float]
    unit: str


def visit_times(record: PatientRecord) -> Times:
    """When each visit was, counted from the first admission.

    Without a time for every visit it is the visit's number, from 1.
    """
    admitted = [visit.admitted for visit in record.visits]
    known = [time for time in admitted if time is not None]
    if len(known) < len(admitted):
        return Times([float(i + 1) for i in range(len(admitted))], "visit")
    days = [(time - known[0]).total_seconds() / 86_400 for time in known]
    if days[-1] < DAYS_PER_YEAR:
        return Times(days, "days")
    return Times([day / DAYS_PER_YEAR for day in days], "years")


class Repeats(NamedTuple):
    """What a patient's later visits repeat.

    Attributes:
        visits_of: the codes that come in several visits, each with the numbers of these visits
            from 0; those of most visits first, then in the order in which they first came. A code
            does not come back where the same text belongs to the other code system.
        once: how many codes of each visit come in no other one.
        later: codes of all visits but the first, counted visit by visit.
        again: how many of these an earlier visit has too.
    """

    visits_of: dict[str, list[int]]
    once: list[int]
    later: int
    again: int


def repeats(record: PatientRecord) -> Repeats:
    """Find the codes that come back.

    >>> from ehr_course.records import Visit
    >>> visits = Visit(("4280", "5849")), Visit(("486", "4280"))
    >>> repeats(PatientRecord(1, "F", 64, visits))
    Repeats(visits_of={'4280': [0, 1]}, once=[1, 1], later=2, again=1)
    """
    visits_of = _visits_of(record)
    lonely = Counter(places[0] for places in visits_of.values() if len(places) == 1)
    several = _several(record)
    return Repeats(
        {code: places for (_, code), places in several.items()},
        [lonely[i] for i in range(len(record.visits))],
        sum(len(visit.codes) for visit in record.visits[1:]),
        sum(len(places) - 1 for places in several.values()),
    )


_Coded = tuple[CodeSystem, str]


def _visits_of(record: PatientRecord) -> dict[_Coded, list[int]]:
    visits_of: dict[_Coded, list[int]] = {}
    for i, visit in enumerate(record.visits):
        for code in visit.codes:
            visits_of.setdefault((visit.system, code), []).append(i)
    return visits_of


def _several(record: PatientRecord) -> dict[_Coded, list[int]]:
    """The codes of several visits with their systems, those of most visits first."""
    several = [item for item in _visits_of(record).items() if len(item[1]) > 1]
    return dict(sorted(several, key=lambda item: -len(item[1])))


def _in_words(coded: _Coded) -> str:
    system, code = coded
    return style.code_in_words(code, system)


def timeline_title(record: PatientRecord) -> str:
    """Who the patient is, and how much the later visits repeat.

    >>> from ehr_course.records import Visit
    >>> timeline_title(PatientRecord(1, "F", 64, (Visit(("4280", "5849")),)))
    'Woman, 64: 1 visit with 2 codes'
    """
    if len(record.visits) == 1:
        codes = count(len(record.codes), "code")
        return f"{style.who(record)}: 1 visit with {codes}"
    found = repeats(record)
    return f"{style.who(record)}: {found.again} of {found.later} later codes are repeats"


def describe_timeline(record: PatientRecord) -> str:
    """Say in words what :func:`draw_timeline` shows."""
    found = repeats(record)
    visits = f"{count(len(record.visits), 'visit')}{_span(record)}"
    named = [
        f"{_in_words(coded)} in {len(places)}"
        for coded, places in list(_several(record).items())[:MOST_ROWS]
    ]
    several = f"Codes of several visits: {'; '.join(named)}. " if named else "No code comes back. "
    return (
        f"Time line of a patient ({style.who(record).lower()}) with {visits}. "
        f"Of {count(found.later, 'code')} after the first visit, {found.again} had been there "
        f"before. {several}Codes of one visit only: {', '.join(map(str, found.once))}."
    )


def draw_timeline(record: PatientRecord) -> Picture:
    """Draw a patient's visits side by side, one row for each code that comes in several.

    A mark is hollow where the code comes for the first time, and filled where an earlier visit
    has it. The last rows count the codes that have no row of their own. Below each visit is its
    time: years since the first admission, days where all visits lie within one year, and its
    number where an admission time is missing.
    """
    found = repeats(record)
    first = max(0, len(record.visits) - MOST_VISITS)
    several = _several(record)
    own, others = list(several)[:MOST_ROWS], list(several)[MOST_ROWS:]
    counts = {"codes of one visit only": found.once}
    if others:
        places = Counter(i for coded in others for i in several[coded])
        name = f"{count(len(others), 'more code')} of several visits"
        counts = {name: [places[i] for i in range(len(record.visits))], **counts}
    names = [_cut(_in_words(coded)) for coded in own] + list(counts)
    with style.course_style():
        height = _TOP + _BOTTOM + _ROW * len(names)
        picture = Picture(style.WIDTH, height, describe_timeline(record))
        left = _MARGIN / style.WIDTH
        picture.text(
            left,
            1 - 0.24 / height,
            timeline_title(record),
            size=style.TITLE,
            weight="bold",
            va="center",
        )
        picture.text(
            left,
            1 - 0.5 / height,
            _subtitle(record),
            size=style.SMALL,
            color=style.MUTED,
            va="center",
        )
        room = _MARGIN + max(style.text_width(name, style.SMALL) for name in names) + 0.16
        axes = picture.add_axes(
            (
                room / style.WIDTH,
                _BOTTOM / height,
                1 - (room + _MARGIN) / style.WIDTH,
                _ROW * len(names) / height,
            )
        )
        _draw_axes(axes, names, visit_times(record), first)
        axes.hlines(
            range(len(own)),
            first - 0.5,
            len(record.visits) - 0.5,
            color=style.FAINT,
            linewidth=0.8,
            zorder=0,
        )
        for row, coded in enumerate(own):
            _draw_code(axes, row, several[coded], first)
        for row, numbers in enumerate(counts.values(), len(own)):
            for i, number in enumerate(numbers):
                if number and i >= first:
                    axes.text(
                        i,
                        row,
                        str(number),
                        size=style.SMALL,
                        ha="center",
                        va="center_baseline",
                    )
    return picture


# ---------------------------------------------------------------------- layout, in inches

_MARGIN = 0.12
_TOP = 0.72
_BOTTOM = 0.56
_ROW = 0.27
_NAMES = 2.9  # at most so wide
_SIDE = 9  # of a mark, in points
_FILL = "#2f6f8f"


def _subtitle(record: PatientRecord) -> str:
    visits = count(len(record.visits), "visit")
    if len(record.visits) > MOST_VISITS:
        visits = f"the last {MOST_VISITS} of {visits}"
    return (
        f"{visits[0].upper()}{visits[1:]}{_span(record)}. Hollow: the code comes for the first "
        "time. Filled: an earlier visit has it too"
    )


def _draw_axes(axes: Axes, names: list[str], times: Times, first: int) -> None:
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names, size=style.SMALL)
    axes.tick_params(axis="both", length=0)
    axes.spines["left"].set_visible(False)
    end = len(times.values)
    axes.set_xlim(first - 0.5, end - 0.5)
    places = range(first, end)
    decimals = 1 if times.unit == "years" else 0
    labels = [f"{times.values[i]:.{decimals}f}" for i in places]
    if end - first > MOST_VISITS // 2:  # every other one, where they are close together
        labels = [label if i % 2 == 0 else "" for i, label in enumerate(labels)]
    axes.set_xticks(places, labels)
    if times.unit == "visit":
        axes.set_xlabel("number of the visit (an admission time is missing)")
    else:
        axes.set_xlabel(f"visits in order (not to scale): {times.unit} since the first admission")


def _draw_code(axes: Axes, row: int, places: list[int], first: int) -> None:
    """A line from the first visit of a code to the last, and its marks."""
    axes.hlines(row, max(places[0], first - 0.5), places[-1], color=_FILL, lw=1.4, zorder=1)
    shown = [i for i in places if i >= first]
    axes.scatter(
        shown,
        [row] * len(shown),
        s=_SIDE**2,
        marker="s",
        color=[style.PAPER if i == places[0] else _FILL for i in shown],
        edgecolor=_FILL,
        linewidth=1.4,
        zorder=2,
    )


# ---------------------------------------------------------------------- words


def _cut(text: str) -> str:
    """A text that fits beside the rows, shortened at a word where it is too long."""
    words = text.split()
    while style.text_width(" ".join(words), style.SMALL) > _NAMES:
        words = [*words[:-2], "..."] if words[-1] == "..." else [*words[:-1], "..."]
    return " ".join(words)


def _span(record: PatientRecord) -> str:
    times = visit_times(record)
    span = times.values[-1] - times.values[0]
    if len(record.visits) == 1 or times.unit == "visit":
        return ""
    if times.unit == "years":
        return f" in {span:.1f} years"
    return f" in {count(round(span), 'day')}" if round(span) else " on one day"
