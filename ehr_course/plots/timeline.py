"""One patient's time line: when each visit was, and what it was about."""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ehr_course.plots import style
from ehr_course.plots.style import Picture, count
from ehr_course.records import PatientRecord

DAYS_PER_YEAR = 365.25


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
    if any(time is None for time in admitted):
        return Times([float(i + 1) for i in range(len(admitted))], "visit")
    days = [(time - admitted[0]).total_seconds() / 86_400 for time in admitted]
    if days[-1] < DAYS_PER_YEAR:
        return Times(days, "days")
    return Times([day / DAYS_PER_YEAR for day in days], "years")


def chapter_counts(record: PatientRecord) -> list[Counter[int | None]]:
    """The number of codes by ICD-9-CM chapter, for each visit; None stands for no chapter."""
    return [Counter(map(style.chapter_of, visit.codes)) for visit in record.visits]


def timeline_title(record: PatientRecord) -> str:
    """Who the patient is, and how much of their life the record holds.

    >>> from ehr_course.records import Visit
    >>> timeline_title(PatientRecord(1, "F", 64, (Visit(("4280", "5849")),)))
    'Woman, 64: 1 visit, 2 chapters'
    """
    chapters = {style.chapter_of(code) for code in record.codes}
    return (
        f"{style.who(record)}: {count(len(record.visits), 'visit')}{_span(record)}, "
        f"{count(len(chapters), 'chapter')}"
    )


def describe_timeline(record: PatientRecord) -> str:
    """Say in one sentence what :func:`draw_timeline` shows."""
    per_visit = [len(visit.codes) for visit in record.visits]
    if len(per_visit) == 1:
        sizes = f"with {count(per_visit[0], 'code')}"
    elif len(per_visit) <= 6:
        sizes = f"with {', '.join(map(str, per_visit[:-1]))} and {per_visit[-1]} codes"
    else:
        sizes = f"with {min(per_visit)} to {max(per_visit)} codes each"
    total = sum(chapter_counts(record), Counter())
    rows = sorted(total.items(), key=lambda item: (-item[1], item[0] or 0))
    chapters = "; ".join(f"{style.chapter_name(number)} {n}" for number, n in rows[:6])
    if len(rows) > 6:
        chapters += f"; and {count(len(rows) - 6, 'more chapter')}"
    return (
        f"Time line of a patient ({style.who(record).lower()}), "
        f"{count(len(record.visits), 'visit')}{_span(record)}, {sizes}, "
        f"codes by chapter: {chapters}."
    )


def draw_timeline(record: PatientRecord) -> Picture:
    """Draw a patient's visits over time, one row for each ICD-9-CM chapter present.

    A mark is one chapter in one visit; its area grows with the number of codes, which stands in
    it where there is room. Marks that would cover each other step aside, up and down in their
    row: along the axis they stay where they are. The axis counts years since the first
    admission, days where all visits lie within one year, and visits where an admission time is
    missing.
    """
    counts = chapter_counts(record)
    rows = sorted(
        {number for visit in counts for number in visit},
        key=lambda n: n or len(style.CHAPTER_NAMES) + 1,
    )
    with style.course_style():
        height = _TOP + _BOTTOM + _ROW * len(rows)
        picture = Picture(style.WIDTH, height, describe_timeline(record))
        picture.text(
            _MARGIN / style.WIDTH,
            1 - 0.24 / height,
            timeline_title(record),
            size=style.TITLE,
            weight="bold",
            va="center",
        )
        picture.text(
            _MARGIN / style.WIDTH,
            1 - 0.5 / height,
            "Each mark is one ICD-9 chapter in one visit; the number is how many codes it has",
            size=style.SMALL,
            color=style.MUTED,
            va="center",
        )
        names = [style.chapter_name(number) for number in rows]
        left = _MARGIN + max(style.text_width(name, style.TEXT) for name in names) + 0.16
        axes = picture.add_axes(
            (
                left / style.WIDTH,
                _BOTTOM / height,
                1 - (left + _MARGIN) / style.WIDTH,
                _ROW * len(rows) / height,
            )
        )
        _draw_axes(axes, names, visit_times(record))
        _draw_marks(axes, rows, counts, visit_times(record).values, style.WIDTH - left - _MARGIN)
    return picture


# ---------------------------------------------------------------------- layout, in inches

_MARGIN = 0.12
_TOP = 0.72
_BOTTOM = 0.56
_ROW = 0.46
_ASIDE = 0.1  # how far a mark steps aside in its row
_SMALLEST, _LARGEST = 0.09, 0.17  # the radius of a mark of one code, and of _MANY or more
_MANY = 12
_DIGITS = 0.06  # half the width of the number in a mark


def _radius(codes: int) -> float:
    # Area in proportion to the number of codes, above a base that leaves room for a digit.
    share = (min(codes, _MANY) - 1) / (_MANY - 1)
    return (_SMALLEST**2 + share * (_LARGEST**2 - _SMALLEST**2)) ** 0.5


def _draw_axes(axes: Axes, names: list[str], times: Times) -> None:
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    first, last = times.values[0], times.values[-1]
    pad = 0.06 * (last - first) if last > first else 0.5
    axes.set_xlim(first - pad, last + pad)
    axes.hlines(range(len(names)), *axes.get_xlim(), color=style.FAINT, linewidth=0.8, zorder=0)
    axes.vlines(
        sorted(set(times.values)),
        -0.5,
        len(names) - 0.5,
        color=style.FAINT,
        linewidth=0.8,
        zorder=0,
    )
    locator = MaxNLocator(8, integer=times.unit != "years", steps=[1, 2, 5, 10])
    axes.set_xticks([tick for tick in locator.tick_values(first, last) if first <= tick <= last])
    axes.xaxis.set_major_formatter("{x:g}")
    if times.unit == "visit":
        axes.set_xlabel("number of the visit (an admission time is missing)")
    else:
        axes.set_xlabel(f"{times.unit} since the first admission")


class _Mark(NamedTuple):
    x: float  # inches from the left end of the axis
    y: float  # inches from the middle of the row, downwards
    codes: int

    def distance(self, other: _Mark) -> float:
        return math.hypot(self.x - other.x, self.y - other.y)


def _set_aside(marks: list[_Mark]) -> list[_Mark]:
    """Move marks that cover each other up and down in turn; the others stay in the middle."""

    def touch(one: _Mark, other: _Mark) -> bool:
        return one.distance(other) < _radius(one.codes) + _radius(other.codes)

    placed: list[_Mark] = []
    side = -1
    for i, mark in enumerate(marks):
        before = i > 0 and touch(marks[i - 1], mark)
        after = i + 1 < len(marks) and touch(mark, marks[i + 1])
        side = -side if before else -1
        placed.append(mark._replace(y=side * _ASIDE) if before or after else mark)
    return placed


def _draw_marks(
    axes: Axes,
    rows: list[int | None],
    counts: list[Counter[int | None]],
    times: list[float],
    width: float,
) -> None:
    start, end = axes.get_xlim()
    per_inch = (end - start) / width
    for row, number in enumerate(rows):
        marks = _set_aside(
            [
                _Mark((time - start) / per_inch, 0.0, visit[number])
                for time, visit in zip(times, counts, strict=True)
                if visit[number]
            ]
        )
        marks.sort(key=lambda mark: -mark.codes)  # small ones on top of large ones
        places = [(start + mark.x * per_inch, row + mark.y / _ROW) for mark in marks]
        colour = style.chapter_colour(number)
        axes.scatter(
            [x for x, _ in places],
            [y for _, y in places],
            # scatter takes the square of the diameter in points
            s=[(2 * 72 * _radius(mark.codes)) ** 2 for mark in marks],
            color=colour,
            edgecolor=style.PAPER,
            linewidth=0.8,
            clip_on=False,
            zorder=2,
        )
        for i, (mark, place) in enumerate(zip(marks, places, strict=True)):
            on_top = marks[i + 1 :]
            if all(mark.distance(other) > _radius(other.codes) + _DIGITS for other in on_top):
                axes.text(
                    *place,
                    str(mark.codes),
                    size=style.SMALL,
                    color=style.ink_on(colour),
                    ha="center",
                    va="center_baseline",
                    zorder=3,
                )


# ---------------------------------------------------------------------- words


def _span(record: PatientRecord) -> str:
    times = visit_times(record)
    span = times.values[-1] - times.values[0]
    if len(record.visits) == 1 or times.unit == "visit":
        return ""
    if times.unit == "years":
        return f" in {span:.1f} years"
    return f" in {count(round(span), 'day')}" if round(span) else " on one day"
