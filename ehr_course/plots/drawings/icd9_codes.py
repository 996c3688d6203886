"""The pictures of one code in lesson 00: its path in ICD-9, and its pieces as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from ehr_course.icd import icd9
from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, WARNING, Canvas
from ehr_course.plots.drawings.words import cut, wrapped
from ehr_course.plots.style import Picture, count


def draw_codes(codes: Sequence[str]) -> Picture:
    """Draw how a code is read: the letters of its category, its path in the tree, all chapters.

    Args:
        codes: codes with or without their dot, a row each; all of them have a title.
    """
    codes = [icd9.normalize(code) for code in codes]
    told = "; ".join(
        f"{icd9.dotted(code)}: chapter {icd9.chapter(code).number}, category "
        f"{icd9.category(code)}, {icd9.title(code)}"
        for code in codes
    )
    row = 0.62
    c = Canvas(
        2.96 + row * len(codes),
        "A code is a path: chapter, category, detail",
        f"How codes are read. {told}. Below, the {len(icd9.chapters)} chapters with their "
        "categories.",
        subtitle="Dark: the characters that name the category. Light: what makes it more precise",
    )
    y = c.top + 0.16
    tile, widths = 0.24, (1.3, 1.86, 1.95)
    left = c.width - MARGIN - sum(widths) - 0.26 * (len(widths) - 1)
    starts = [left]
    for width in widths[:-1]:
        starts.append(starts[-1] + width + 0.26)
    for x, text in zip((MARGIN, *starts), ("the code", "chapter", "category", "this code"),
                       strict=True):  # fmt: skip
        c.label((x, y), text, weight="bold", colour=style.INK)
    y += 0.18
    for code in codes:
        category = icd9.category(code)
        x = MARGIN
        for place, letter in enumerate(code):
            if place == len(category):
                c.label((x + 0.04, y + 0.3), ".", size=style.TITLE, weight="bold",
                        colour=style.INK)  # fmt: skip
                x += 0.13
            fill = "code" if place < len(category) else "encoder"
            c.box(x, y + 0.1, tile, 0.3, letter, fill=fill, mono=True, weight="bold")
            x += tile + 0.03
        chapter = icd9.chapter(code).number
        name = f"{chapter}: {style.chapter_name(chapter)}"
        texts = name, f"{category}: {icd9.title(category)}", icd9.title(code)
        boxes = [
            c.box(
                start,
                y,
                width,
                0.52,
                wrapped(text, width - 0.12, style.SMALL, 3),
                size=style.SMALL,
                fill=fill,
            )
            for start, width, text, fill in zip(
                starts,
                widths,
                texts,
                (style.chapter_colour(chapter), "quiet", "encoder"),
                strict=True,
            )
        ]
        for one, other in pairwise(boxes):
            c.arrow(one.side("right"), other.side("left"))
        y += row
    _chapters(c, y + 0.1)
    return c.finish()


_COLUMNS = 3


def _chapters(c: Canvas, y: float) -> None:
    """List all chapters in three columns: colour, number, name, and first and last category."""
    c.label((MARGIN, y), "all chapters, with their first and last category", weight="bold",
            colour=style.INK)  # fmt: skip
    down = -(-len(icd9.chapters) // _COLUMNS)
    wide = (c.width - 2 * MARGIN) / _COLUMNS
    for i, chapter in enumerate(icd9.chapters):
        x, middle = MARGIN + wide * (i // down), y + 0.24 + 0.22 * (i % down)
        colour = style.chapter_colour(chapter.number)
        c.box(x, middle - 0.09, 0.25, 0.18, f"{chapter.number}", fill=colour, size=style.SMALL)
        name = style.chapter_name(chapter.number).removesuffix(" (V)").removesuffix(" (E)")
        span = f"{chapter.first}–{chapter.last}"
        room = wide - 0.4 - style.text_width(span, style.SMALL)
        c.label((x + 0.31, middle), f"{cut(name, room, style.SMALL)} {span}", colour=style.INK)


def draw_pieces(pieces: Mapping[str, Sequence[str]]) -> Picture:
    """Draw what a text tokenizer makes of words and of codes: a strip of pieces for each.

    Args:
        pieces: for each text, the pieces that it is cut into; one of the texts is a code.
    """
    codes = [text for text in pieces if icd9.is_code(text)]
    words = [text for text in pieces if text not in codes]
    whole = min(words, key=lambda text: len(pieces[text]))
    worst = max(codes, key=lambda text: len(pieces[text]))
    title = (
        f"“{whole}” is {count(len(pieces[whole]), 'piece')}, "
        f"the code {worst} is {count(len(pieces[worst]), 'piece')}"
    )
    row = 0.42
    c = Canvas(
        1.1 + row * max(len(words), len(codes)),
        title,
        "What a text tokenizer makes of words and codes, in pieces. "
        + "; ".join(f"{text}: {len(cut)}" for text, cut in pieces.items())
        + ".",
        subtitle="Each box is one piece. The tokenizer was made for text, not for codes",
    )
    left = MARGIN
    for texts, fill, edge in ((words, "encoder", style.MUTED), (codes, "trap", WARNING)):
        x = left + max(style.text_width(text, style.TEXT) for text in texts) + 0.16
        for i, text in enumerate(texts):
            y = c.top + 0.18 + row * i
            c.label((left, y + 0.15), text, size=style.TEXT, colour=style.INK)
            boxes = c.strip(x, y, pieces[text], fills=fill, size=style.TEXT, edge=edge)
            c.label((boxes[-1].right + 0.1, y + 0.15), count(len(pieces[text]), "piece"))
        left = c.width / 2 + 0.3
    return c.finish()
