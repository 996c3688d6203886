"""One patient's record as it is written down: visits side by side, each a list of codes."""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

from matplotlib.axes import Axes

from ehr_course.code_system import SYSTEM_NAMES, CodeSystem
from ehr_course.plots import legend, style
from ehr_course.plots.legend import MARGIN, Key, chapter_keys, draw_box
from ehr_course.plots.style import Picture, count
from ehr_course.plots.words import wrapped
from ehr_course.records import PatientRecord, Visit


def returning_codes(record: PatientRecord) -> set[str]:
    """The codes that more than one visit has.

    >>> heart = Visit(("4280", "42731"))
    >>> returning_codes(PatientRecord(1, "F", 64, (heart, Visit(("486", "4280")))))
    {'4280'}
    """
    return {code for _, code in _returning(record)}


def _coded(record: PatientRecord) -> list[tuple[CodeSystem, str]]:
    """The codes of all visits with their systems: the same text in the other one is another."""
    return [(visit.system, code) for visit in record.visits for code in visit.codes]


def _returning(record: PatientRecord) -> set[tuple[CodeSystem, str]]:
    return {coded for coded, visits in Counter(_coded(record)).items() if visits > 1}


def record_title(record: PatientRecord) -> str:
    """Who the patient is, and how much of the record comes back.

    >>> heart = Visit(("4280", "42731"))
    >>> record_title(PatientRecord(1, "F", 64, (heart, Visit(("486", "4280")))))
    'Woman, 64: 2 visits, 3 different codes, 1 of them coming back'
    """
    visits = count(len(record.visits), "visit")
    if len(record.visits) == 1:
        return f"{style.who(record)}: {visits}, {count(len(record.codes), 'code')}"
    different, returning = len(set(_coded(record))), len(_returning(record))
    if different == returning == 1:
        return f"{style.who(record)}: {visits}, the same code in all of them"
    share = {0: "none", different: "all"}.get(returning, f"{returning:,}")
    codes = f"{different:,} different codes, {share} of them coming back"
    return f"{style.who(record)}: {visits}, {codes}"


def describe_record(record: PatientRecord) -> str:
    """Say in one sentence what :func:`draw_record` shows."""
    title = record_title(record)
    visits = "; ".join(
        f"{_when(i, visit, ' in ')} has {count(len(visit.codes), 'code')}, "
        f"{'the first of them ' if len(visit.codes) > 1 else ''}"
        f"{style.code_in_words(visit.codes[0], visit.system)}"
        for i, visit in enumerate(record.visits[:_DESCRIBED])
    )
    more = len(record.visits) - _DESCRIBED
    if more > 0:
        visits += f"; and {count(more, 'more visit')}"
    return f"Record of a patient, {title[0].lower()}{title[1:]}; {visits}."


def draw_record(record: PatientRecord, *, most_codes: int = 12, most_visits: int = 8) -> Picture:
    """Draw a patient's visits side by side, each as the list of its codes and their titles.

    A code has the colour of its chapter, and before it stands the chapter's number, which the
    legend names. A code that an earlier visit had already stands in an outline only. A title that
    is too long for its place ends with an ellipsis; a code that its system does not have stands
    alone. Where visits are coded in both systems, it is said which ones are coded in ICD-10-CM.

    Args:
        record: the patient.
        most_codes: how many codes a visit may show; what is left out is said in the picture.
        most_visits: how many visits are shown, at most four in a row; the same holds.
    """
    shown = record.visits[:most_visits]
    rows = math.ceil(len(shown) / _COLUMNS)
    columns = math.ceil(len(shown) / rows)  # five visits stand as three and two
    layout = _Layout.of(shown, columns)
    cards = _cards(shown, layout, most_codes)
    card_rows = [cards[start : start + columns] for start in range(0, len(cards), columns)]
    heights = [max(card.height for card in row) for row in card_rows]
    left_out = len(record.visits) - len(shown)
    key_rows = _legend([line for card in cards for line in card.lines])

    height = _TOP + sum(heights) + _GAP * len(heights)
    height += _MORE if left_out else 0
    height += len(key_rows) * legend.LINE + MARGIN
    with style.course_style():
        picture = Picture(style.WIDTH, height, describe_record(record))
        axes = picture.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, style.WIDTH)
        axes.set_ylim(height, 0)  # inches, from the top down
        axes.axis("off")
        title = record_title(record)
        axes.text(MARGIN, 0.24, title, size=style.TITLE, weight="bold", va="center")
        _draw_quietly(axes, MARGIN, 0.5, _reading(record))
        y = _TOP
        for row, card_height in zip(card_rows, heights, strict=True):
            for column, card in enumerate(row):
                x = MARGIN + column * (layout.card_width + _GAP)
                _draw_card(axes, x, y, card, layout, card_height)
            y += card_height + _GAP
        if left_out:
            _draw_quietly(axes, MARGIN, y + 0.06, f"and {count(left_out, 'more visit')}")
            y += _MORE
        legend.draw_legend(axes, key_rows, y)
    return picture


# ---------------------------------------------------------------------- layout, in inches

_COLUMNS = 4
_TOP = 0.72
_GAP = 0.12  # between cards
_PAD = 0.09  # between the edge of a card and what it holds
_HEADING = 0.36
_BETWEEN = 0.08  # between two codes
_MORE = 0.22
_NUMBER = 0.19  # for a chapter's number, before a code and in the legend


class _Layout(NamedTuple):
    """The measures that all cards of a picture share."""

    card_width: float
    size: float  # of the text, in points
    code_width: float  # of the box around a code
    title_lines: int  # how many a code's title may take
    short_months: bool

    @property
    def box(self) -> float:
        return self.size * 0.0245

    @property
    def line(self) -> float:
        return self.size * 0.0177

    @property
    def title_left(self) -> float:
        return _PAD + _NUMBER + self.code_width + 0.08

    @property
    def title_width(self) -> float:
        return self.card_width - self.title_left - _PAD

    def wrapped(self, title: str) -> list[str]:
        """A code's title in the lines that it may take."""
        return wrapped(title, self.title_width, self.size, self.title_lines).splitlines()

    @classmethod
    def of(cls, visits: tuple[Visit, ...], columns: int) -> _Layout:
        card_width = (style.WIDTH - 2 * MARGIN - (columns - 1) * _GAP) / columns
        narrow = columns == _COLUMNS
        size = style.SMALL if narrow else style.TEXT
        widest = max(
            len(style.written(code, visit.system)) for visit in visits for code in visit.codes
        )
        character = style.text_width("0" * 100, size, family="DejaVu Sans Mono") / 100
        number = style.text_width(f"visit {len(visits)}", size, weight="bold")
        month = style.text_width(" · September 2174", size)
        return cls(
            card_width,
            size,
            code_width=widest * character + 0.12,
            title_lines=3 if narrow else 2,
            short_months=number + month > card_width - 2 * _PAD,
        )


class _Line(NamedTuple):
    """A code in a card."""

    code: str
    system: CodeSystem
    title: list[str]  # by lines of text
    again: bool  # whether an earlier visit had it

    @property
    def chapter(self) -> int | None:
        return style.chapter_of(self.code, self.system)

    @property
    def colour(self) -> str:
        return style.chapter_colour(self.chapter, self.system)

    def height(self, layout: _Layout) -> float:
        return max(layout.box, layout.box / 2 + (len(self.title) - 0.5) * layout.line)


class _Card(NamedTuple):
    """A visit."""

    number: str
    month: str
    lines: list[_Line]
    left_out: int
    height: float


def _cards(visits: tuple[Visit, ...], layout: _Layout, most_codes: int) -> list[_Card]:
    cards = []
    seen: set[tuple[CodeSystem, str]] = set()
    for i, visit in enumerate(visits):
        lines = [
            _Line(
                code,
                visit.system,
                layout.wrapped(style.code_title(code, visit.system)),
                again=(visit.system, code) in seen,
            )
            for code in visit.codes[:most_codes]
        ]
        seen.update((visit.system, code) for code in visit.codes)
        left_out = len(visit.codes) - len(lines)
        height = _HEADING + sum(line.height(layout) + _BETWEEN for line in lines) + 0.06
        height += _MORE if left_out else 0
        month = _month(visit, short=layout.short_months)
        cards.append(_Card(f"visit {i + 1}", month, lines, left_out, height))
    return cards


# ---------------------------------------------------------------------- drawing


def _draw_quietly(axes: Axes, x: float, y: float, text: str, size: float = style.SMALL) -> None:
    axes.text(x, y, text, size=size, color=style.MUTED, va="center", parse_math=False)


def _draw_card(
    axes: Axes, x: float, y: float, card: _Card, layout: _Layout, height: float
) -> None:
    draw_box(axes, x, y, layout.card_width, height, face=style.PAPER, edge=style.FAINT)
    left = x + _PAD
    middle = y + 0.19
    axes.text(left, middle, card.number, size=layout.size, weight="bold", va="center_baseline")
    if card.month:
        axes.text(
            left + style.text_width(card.number, layout.size, weight="bold") + 0.02,
            middle,
            f" · {card.month}",
            size=layout.size,
            color=style.MUTED,
            va="center_baseline",
        )
    y += _HEADING
    for line in card.lines:
        colour = line.colour
        face = style.PAPER if line.again else colour
        box = left + _NUMBER
        draw_box(axes, box, y, layout.code_width, layout.box, face=face, edge=colour)
        middle = y + layout.box / 2
        if line.chapter is not None:
            axes.text(
                box - 0.05,
                middle,
                str(line.chapter),
                size=style.SMALL,
                weight="bold",
                color=style.MUTED if line.again else style.INK,
                ha="right",
                va="center_baseline",
            )
        axes.text(
            box + layout.code_width / 2,
            middle,
            style.written(line.code, line.system),
            size=layout.size,
            family="DejaVu Sans Mono",
            color=style.MUTED if line.again else style.ink_on(colour),
            ha="center",
            va="center_baseline",
            parse_math=False,
        )
        for place, words in enumerate(line.title):
            axes.text(
                x + layout.title_left,
                middle + place * layout.line,
                words,
                size=layout.size,
                color=style.MUTED if line.again else style.INK,
                va="center_baseline",
                parse_math=False,
            )
        y += line.height(layout) + _BETWEEN
    if card.left_out:
        _draw_quietly(axes, left, y + 0.09, f"and {card.left_out} more", layout.size)


def _legend(lines: list[_Line]) -> legend.Rows:
    """What the colours and the outline mean."""
    keys = chapter_keys((line.system, line.chapter) for line in lines)
    if any(line.again for line in lines):
        keys.append(Key("outline: an earlier visit had it already", style.PAPER, style.MUTED))
    return legend.in_rows(keys)


# ---------------------------------------------------------------------- words

_DESCRIBED = 4  # how many visits the alternative text tells of


def _reading(record: PatientRecord) -> str:
    """How to read the picture."""
    age = "" if len(record.visits) == 1 else "; the age is that at visit 1"
    cards = "Each card is one stay in hospital: its diagnosis codes, most important first"
    return f"{cards}{age}{_newer_visits(record)}"


def _newer_visits(record: PatientRecord) -> str:
    """Which visits are coded in ICD-10-CM, where others are not."""
    newer = [number for number, visit in enumerate(record.visits, 1) if visit.system == "ICD10CM"]
    if len(newer) in (0, len(record.visits)):
        return ""
    visits = f"visit {newer[0]}" if len(newer) == 1 else f"visits {', '.join(map(str, newer))}"
    return f"; {visits} in {SYSTEM_NAMES['ICD10CM']}"


def _month(visit: Visit, *, short: bool = False) -> str:
    if visit.admitted is None:
        return ""
    return f"{visit.admitted:%b %Y}" if short else f"{visit.admitted:%B %Y}"


def _when(place: int, visit: Visit, between: str) -> str:
    return between.join(filter(None, (f"visit {place + 1}", _month(visit))))
