"""The drawings of ages in lesson 08: a birthday still to come, and births that were moved."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, WARNING, Canvas
from ehr_course.plots.style import Picture
from ehr_course.records import MAX_AGE

if TYPE_CHECKING:
    import polars as pl


def draw_birthday(born: datetime, admitted: datetime) -> Picture:
    """Draw the year of an admission, with the birthday in it and the years completed.

    Args:
        born: the date of birth.
        admitted: the time of the admission.
    """
    by_year = admitted.year - born.year
    birthday = (born.month, born.day)
    before = (admitted.month, admitted.day) < birthday
    age = by_year - before
    to_come = "is still to come" if before else "has been"
    finding = f"{admitted.year} - {born.year} is {by_year}, but only {age} years are complete"
    canvas = Canvas(
        2.15,
        finding if before else f"All {age} years are complete on the day of admission",
        f"The year {admitted.year}. The admission is on {_day(admitted)}, the birthday on "
        f"{_day(born)}; it {to_come}. The age changes from {by_year - 1} to {by_year} on the "
        f"birthday, so it is {age} at the admission.",
        subtitle=f"Born on {_day(born)} {born.year}, admitted on {_day(admitted)} {admitted.year}",
    )
    left, right, y = MARGIN + 0.05, canvas.width - MARGIN - 0.05, 1.18

    def place(month: int, day: int) -> float:
        # 31 days for each month: the place of a day, not its distance, is what matters.
        return left + (right - left) * ((month - 1) * 31 + day - 1) / (12 * 31)

    turn, now = place(*birthday), place(admitted.month, admitted.day)
    for start, end, years, fill in (
        (left, turn, by_year - 1, "quiet"),
        (turn, right, by_year, "encoder"),
    ):
        if end > start:
            fits = end - start > style.text_width(f"{years} years", style.TEXT) + 0.1
            words = f"{years} years" if fits else ""
            canvas.box(start, y, end - start, 0.32, words, fill=fill, rounded=False)
    for x, words, up in ((now, "admitted", True), (turn, "birthday", False)):
        edge = y if up else y + 0.32
        start = edge + (-0.2 if up else 0.2)
        colour = style.INK if not (up and before) else WARNING
        canvas.arrow((x, start), (x, edge), colour=colour)
        half = style.text_width(words, style.SMALL) / 2
        middle = min(max(x, left + half), right - half)
        canvas.label(
            (middle, start + (-0.09 if up else 0.1)), words, colour=colour, align="center"
        )
    ends: tuple[tuple[str, float, Literal["left", "right"]], ...] = (
        (f"January {admitted.year}", left, "left"),
        (f"December {admitted.year}", right, "right"),
    )
    for words, x, align in ends:
        canvas.label((x, y + 0.82), words, align=align)
    return canvas.finish()


def _day(time: datetime) -> str:
    return f"{time.day} {time:%B}"


def draw_moved_births(people: pl.DataFrame, *, most: int = 6) -> Picture:
    """Draw lives from birth to first admission, ending together: those above 89, and others.

    Args:
        people: with the columns born, admitted (datetimes) and exact (completed years).
        most: how many of each kind are drawn.
    """
    above = people.filter(people["exact"] >= MAX_AGE).sort("exact", descending=True)
    others = people.filter(people["exact"] < MAX_AGE).sort("exact", descending=True)
    lives = [(row["exact"], True) for row in _spaced(above, most)]
    lives += [(row["exact"], False) for row in _spaced(others, most)]
    ages = people["exact"].to_list()
    largest = max(ages)
    if above.height:
        least = min(above["exact"].to_list())
        finding = (
            f"{above.height:,} of {people.height:,} patients are "
            f"{'exactly' if least == largest else 'up to'} {largest} years old in the files"
        )
    else:
        finding = f"None of {people.height:,} patients is older than {largest} in the files"
    canvas = Canvas(
        1.75 + 0.17 * len(lives),
        finding,
        f"Lives of {len(lives)} patients, aligned at the first admission. For {above.height:,} of "
        f"{people.height:,} patients the recorded age is {MAX_AGE} or more; the largest is "
        f"{largest}.",
        subtitle=f"Each line is the life of one of {len(lives)} patients, as the tables have it, "
        "from birth (dot) to first admission",
    )
    top, height = canvas.top + 0.32, 0.17 * len(lives)
    axes = canvas.plot(1.35, top, canvas.width - 1.6, height)
    for i, (age, old) in enumerate(lives):
        colour = WARNING if old else style.MUTED
        axes.plot([age, 0], [i, i], color=colour, linewidth=2.2 if old else 1.6)
        axes.plot([age], [i], "o", color=colour, markersize=4, clip_on=False)
    axes.set_ylim(len(lives) - 0.4, -0.6)
    axes.set_xlim(1.04 * max(largest, 1), 0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("years before the first admission")
    for old, name in ((True, f"above {MAX_AGE - 1}"), (False, f"{MAX_AGE - 1} or less")):
        places = [i for i, (_, is_old) in enumerate(lives) if is_old == old]
        if places:
            middle = top + 0.17 * (sum(places) / len(places) + 0.6)
            canvas.label((1.22, middle), name, align="right", colour=WARNING if old else style.INK)
    return canvas.finish()


def _spaced(people: pl.DataFrame, most: int) -> list[dict]:
    """Up to so many rows, equally far apart."""
    step = max(1, -(-people.height // most))
    return people[::step].to_dicts()
