"""One patient as tokens: one token a code, and the same codes cut by a subword model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from ehr_course.code_system import CodeSystem
from ehr_course.plots import legend, style
from ehr_course.plots.legend import MARGIN
from ehr_course.plots.style import Picture, count
from ehr_course.records import PatientRecord, Visit
from ehr_course.tokenizers.codes import SPECIAL_TOKENS, CodeTokenizer


class Pieces(Protocol):
    """Anything that cuts a text into pieces, as NoteTokenizer does."""

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text."""


class TokenCounts(NamedTuple):
    """What one patient is worth in tokens.

    Attributes:
        codes: the codes of all visits.
        unseen: those of them that are not in the vocabulary, and are left out as tokens.
        tokens: the tokens of the code tokenizer, special ones included.
        pieces: the pieces of the subword model, nothing added.
    """

    codes: int
    unseen: int
    tokens: int
    pieces: int

    @property
    def special(self) -> int:
        """The tokens that stand for no code."""
        return self.tokens - (self.codes - self.unseen)

    @property
    def title(self) -> str:
        """The counts as a sentence, for a title.

        Special tokens are left out: both ways of writing need as many.

        >>> TokenCounts(codes=14, unseen=0, tokens=22, pieces=61).title
        '14 codes: 14 tokens as codes, 61 subword pieces as text'
        """
        return (
            f"{count(self.codes, 'code')}: {count(self.tokens - self.special, 'token')} as codes, "
            f"{count(self.pieces, 'subword piece')} as text"
        )

    @property
    def note(self) -> str:
        """What the tokens are, and what is not among them.

        >>> TokenCounts(codes=14, unseen=2, tokens=20, pieces=61).note
        '12 codes and 8 special tokens; 2 unseen codes are left out'
        """
        seen = self.codes - self.unseen
        verb = "is" if self.unseen == 1 else "are"
        left_out = f"; {count(self.unseen, 'unseen code')} {verb} left out" if self.unseen else ""
        return f"{count(seen, 'code')} and {self.special:,} special tokens{left_out}"

    @property
    def rate(self) -> str:
        """Pieces for each code."""
        return f"{self.pieces / self.codes:.1f}"


def visit_text(visit: Visit, *, dotted: bool = False) -> str:
    """A visit as a text model would be given it: its codes with a space between them.

    Args:
        visit: the visit.
        dotted: write 427.31 for 42731, where a code has the shape of the visit's system.

    >>> visit_text(Visit(("42731", "486"))), visit_text(Visit(("42731", "486")), dotted=True)
    ('42731 486', '427.31 486')
    """
    return " ".join(_written(code, visit.system, dotted=dotted) for code in visit.codes)


def count_tokens(
    record: PatientRecord,
    code_tokenizer: CodeTokenizer,
    note_tokenizer: Pieces,
    *,
    dotted: bool = False,
) -> TokenCounts:
    """Count a patient's tokens as codes, and the pieces of the same visits as text."""
    return TokenCounts(
        codes=len(record.codes),
        unseen=code_tokenizer.unseen_codes([record]).total(),
        tokens=len(code_tokenizer.encode(record)),
        pieces=sum(
            len(note_tokenizer.pieces(visit_text(visit, dotted=dotted))) for visit in record.visits
        ),
    )


def describe_tokens(
    record: PatientRecord,
    code_tokenizer: CodeTokenizer,
    note_tokenizer: Pieces,
    *,
    dotted: bool = False,
) -> str:
    """Say in one sentence what :func:`draw_tokens` shows."""
    counts = count_tokens(record, code_tokenizer, note_tokenizer, dotted=dotted)
    written = [_written(c, code_tokenizer.system, dotted=dotted) for c in record.codes]
    worst = max(written, key=lambda text: len(note_tokenizer.pieces(text)))
    return (
        f"A patient of {count(len(record.visits), 'visit')} and {count(counts.codes, 'code')}, "
        f"drawn as {count(counts.tokens, 'token')} ({counts.note}), and below as "
        f"{count(counts.pieces, 'subword piece')}, {counts.rate} for each code; "
        f"{worst}, for instance, becomes {' '.join(note_tokenizer.pieces(worst))}."
    )


def draw_tokens(
    record: PatientRecord,
    code_tokenizer: CodeTokenizer,
    note_tokenizer: Pieces,
    *,
    dotted: bool = False,
    most_lines: int = 12,
) -> Picture:
    """Draw a patient as coloured tokens, and below as the pieces of a subword model.

    At the top stand two strips of equal boxes, one for each code's token and one for each piece;
    special tokens, of which both ways need as many, are left out there, and a gap stands where a
    code begins. Below a line is a visit, wrapped where it is long. A code has the colour of its
    chapter, before it the chapter's number, which the legend names, and beneath it its token id;
    all pieces of a code share its colour.

    Args:
        record: the patient.
        code_tokenizer: its ``unseen`` policy decides what becomes of unseen codes.
        note_tokenizer: the subword model; anything with ``pieces(text)``.
        dotted: write 427.31 for 42731, also for the subword model.
        most_lines: how many lines each half may have; what is left out is said in the picture.

    Raises:
        InputError: if a code is not in the vocabulary and the policy is "raise".
    """
    counts = count_tokens(record, code_tokenizer, note_tokenizer, dotted=dotted)
    as_codes = _Half(
        "One code, one token",
        f"{counts.note}; before a code stands its chapter, beneath it the id",
        _wrapped(_code_rows(record, code_tokenizer, dotted=dotted)),
        most_lines,
        with_ids=True,
    )
    as_text = _Half(
        "The same codes as text",
        f"{count(counts.pieces, 'piece')}, {counts.rate} for each code; ▁ is a space",
        _wrapped(_piece_rows(record, note_tokenizer, dotted=dotted)),
        most_lines,
        with_ids=False,
    )
    system = code_tokenizer.system
    chapters = {(system, style.chapter_of(code, system)) for code in record.codes}
    key_rows = legend.in_rows(legend.chapter_keys(chapters))
    strips = [
        _by_code(_code_rows(record, code_tokenizer, dotted=dotted)),
        _by_code(_piece_rows(record, note_tokenizer, dotted=dotted)),
    ]

    height = _TOP + _STRIPS + as_codes.height + _BETWEEN + as_text.height + _BETWEEN
    height += len(key_rows) * legend.LINE + MARGIN
    with style.course_style():
        words = describe_tokens(record, code_tokenizer, note_tokenizer, dotted=dotted)
        picture = Picture(style.WIDTH, height, words)
        axes = picture.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, style.WIDTH)
        axes.set_ylim(height, 0)  # inches, from the top down
        axes.axis("off")
        axes.text(MARGIN, 0.24, counts.title, size=style.TITLE, weight="bold", va="center")
        _draw_strips(axes, _TOP, dict(zip(("tokens", "pieces"), strips, strict=True)))
        y = as_codes.draw(axes, _TOP + _STRIPS)
        y = as_text.draw(axes, y + _BETWEEN)
        legend.draw_legend(axes, key_rows, y + _BETWEEN)
    return picture


# ---------------------------------------------------------------------- layout, in inches

_GUTTER = 0.62  # where "visit 1" stands
_TOP = 0.52
_STRIPS = 0.66  # the two strips
_BETWEEN = 0.2
_HEADING = 0.34
_BOX = 0.25
_ID = 0.17
_LINE_GAP = 0.1
_STRIP_GAP = 0.6  # where a code begins in a strip, as a part of a box
_CHARACTER = style.text_width("0" * 100, style.TEXT, family="DejaVu Sans Mono") / 100


class _Box(NamedTuple):
    text: str
    colour: str | None  # None for a special token
    beneath: str
    gap: float  # to the box before it
    chapter: str = ""  # its number, which stands before the box

    @property
    def lead(self) -> float:
        """The room for the number before the box."""
        if not self.chapter:
            return 0.0
        return style.text_width(self.chapter, style.SMALL, weight="bold") + 0.05

    @property
    def width(self) -> float:
        narrow = 0.08 if self.beneath == "" else 0.14
        below = style.text_width(self.beneath, style.SMALL, family="DejaVu Sans Mono")
        return max(len(self.text) * _CHARACTER + narrow, below + 0.04)


_Group = list[_Box]
"""Boxes that stay on one line: a token, or all pieces of a code."""


class _Line(NamedTuple):
    label: str
    boxes: list[tuple[float, _Box]]  # each with its left edge


def _code_rows(
    record: PatientRecord, tokenizer: CodeTokenizer, *, dotted: bool
) -> Iterator[tuple[str, list[_Group]]]:
    """The tokens of each visit; ``<BOS>`` and ``<EOS>`` go with the first and the last one."""

    def box(token_id: int) -> _Box:
        token = tokenizer.id_to_token(token_id)
        special = token_id < len(SPECIAL_TOKENS)
        colour = None if special else _colour(token, tokenizer.system)
        chapter = "" if special else _number(style.chapter_of(token, tokenizer.system))
        written = _written(token, tokenizer.system, dotted=dotted)
        return _Box(written, colour, str(token_id), 0.05, chapter)

    last = len(record.visits) - 1
    for i, visit in enumerate(record.visits):
        ids = tokenizer.encode_visit(visit)
        ids = [tokenizer.bos_id] * (i == 0) + ids + [tokenizer.eos_id] * (i == last)
        yield f"visit {i + 1}", [[box(token_id)] for token_id in ids]


def _piece_rows(
    record: PatientRecord, tokenizer: Pieces, *, dotted: bool
) -> Iterator[tuple[str, list[_Group]]]:
    for i, visit in enumerate(record.visits):
        pieces_of = pieces_by_word(visit_text(visit, dotted=dotted), tokenizer)
        groups = []
        for code, pieces in zip(visit.codes, pieces_of, strict=True):
            colour = _colour(code, visit.system)
            groups.append(
                [
                    _Box(piece, colour, "", 0.014 if place else 0.1)
                    for place, piece in enumerate(pieces)
                ]
            )
        yield f"visit {i + 1}", groups


def pieces_by_word(text: str, tokenizer: Pieces) -> list[list[str]]:
    """The pieces of a text, in one list for each of its words.

    A word's pieces begin where ``▁``, the mark of a space, stands.

    Raises:
        ValueError: if the pieces do not make up the words, as where a piece runs over a space.
    """
    groups: list[list[str]] = []
    for piece in tokenizer.pieces(text):
        if piece.startswith("▁") or not groups:
            groups.append([])
        groups[-1].append(piece)
    if ["".join(group) for group in groups] != ["▁" + word for word in text.split()]:
        raise ValueError(f"the pieces {groups} do not make up the words of {text!r}")
    return groups


def _written(code: str, system: CodeSystem, *, dotted: bool) -> str:
    return style.written(code, system) if dotted else code


def _colour(code: str, system: CodeSystem) -> str:
    return style.chapter_colour(style.chapter_of(code, system), system)


def _number(chapter: int | None) -> str:
    return "" if chapter is None else str(chapter)


def _wrapped(rows: Iterator[tuple[str, list[_Group]]]) -> list[_Line]:
    left, right = MARGIN + _GUTTER, style.WIDTH - MARGIN
    lines = []
    for label, groups in rows:
        line = _Line(label, [])
        x = left
        for group in groups:
            width = sum(box.gap + box.lead + box.width for box in group)
            if line.boxes and x + width > right:
                lines.append(line)
                line = _Line("", [])
                x = left
            for box in group:
                x += box.lead + (box.gap if line.boxes else 0)
                line.boxes.append((x, box))
                x += box.width
        lines.append(line)
    return lines


def _by_code(rows: Iterator[tuple[str, list[_Group]]]) -> list[_Group]:
    """The boxes of every code, from the first visit to the last; special tokens are left out."""
    groups = (group for _, groups in rows for group in groups)
    return [group for group in groups if all(box.colour is not None for box in group)]


def _draw_strips(axes: Axes, y: float, strips: dict[str, list[_Group]]) -> None:
    """Draw a strip of equal boxes for each list, all to one scale, with a gap between codes."""
    left = MARGIN + _GUTTER
    steps = max(sum(len(group) + _STRIP_GAP for group in strip) for strip in strips.values())
    step = min(0.14, (style.WIDTH - MARGIN - left) / steps)
    for name, groups in strips.items():
        axes.text(MARGIN, y + 0.08, name, size=style.SMALL, color=style.MUTED, va="center")
        x = left
        for group in groups:
            for box in group:
                axes.add_artist(
                    Rectangle((x, y), 0.9 * step, 0.16, facecolor=box.colour, linewidth=0)
                )
                x += step
            x += _STRIP_GAP * step
        y += 0.25


class _Half:
    """One of the two halves of the picture: a heading and its lines."""

    def __init__(
        self, heading: str, note: str, lines: list[_Line], most_lines: int, *, with_ids: bool
    ) -> None:
        self.heading = heading
        self.note = note
        self.lines = lines[:most_lines]
        self.left_out = sum(len(line.boxes) for line in lines[most_lines:])
        self.noun = "token" if with_ids else "piece"
        self.line_height = _BOX + _LINE_GAP + (_ID if with_ids else 0)
        self.height = _HEADING + len(self.lines) * self.line_height
        self.height += 0.2 if self.left_out else 0

    def draw(self, axes: Axes, y: float) -> float:
        """Draw at this height and return where the half ends."""
        axes.text(MARGIN, y + 0.1, self.heading, size=style.TEXT, weight="bold", va="center")
        x = MARGIN + style.text_width(self.heading, style.TEXT, weight="bold") + 0.12
        axes.text(x, y + 0.1, self.note, size=style.SMALL, color=style.MUTED, va="center")
        y += _HEADING
        for line in self.lines:
            middle = y + _BOX / 2
            axes.text(MARGIN, middle, line.label, size=style.SMALL, color=style.MUTED, va="center")
            for x, box in line.boxes:
                _draw_box(axes, x, y, box)
            y += self.line_height
        if self.left_out:
            axes.text(
                MARGIN + _GUTTER,
                y + 0.06,
                f"and {count(self.left_out, f'more {self.noun}')}",
                size=style.SMALL,
                color=style.MUTED,
                va="center",
            )
            y += 0.2
        return y


def _draw_box(axes: Axes, x: float, y: float, box: _Box) -> None:
    colour = box.colour or style.PAPER
    axes.add_patch(
        FancyBboxPatch(
            (x, y),
            box.width,
            _BOX,
            boxstyle="round,pad=0,rounding_size=0.04",
            facecolor=colour,
            edgecolor=style.MUTED if box.colour is None else colour,
            linewidth=0.8,
        )
    )
    if box.chapter:
        axes.text(
            x - 0.025,
            y + _BOX / 2,
            box.chapter,
            size=style.SMALL,
            weight="bold",
            ha="right",
            va="center_baseline",
        )
    axes.text(
        x + box.width / 2,
        y + _BOX / 2,
        box.text,
        size=style.TEXT,
        family="DejaVu Sans Mono",
        color=style.MUTED if box.colour is None else style.ink_on(colour),
        ha="center",
        va="center_baseline",
        parse_math=False,
    )
    if box.beneath:
        axes.text(
            x + box.width / 2,
            y + _BOX + _ID / 2 + 0.01,
            box.beneath,
            size=style.SMALL,
            family="DejaVu Sans Mono",
            color=style.MUTED,
            ha="center",
            va="center",
        )
