"""The book's table of symbols and the lessons' formulas agree."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import nbformat
import pytest

from course.syllabus import load_syllabus

ROOT = Path(__file__).resolve().parents[2]
NAMES = [lesson.name for lesson in load_syllabus()]
ROW = re.compile(r"^\| (\$.+?) \|.*\| ([^|]+) \|$", re.MULTILINE)
GREEK = {"alpha", "pi", "varepsilon", "ell"}


def formulas(text: str) -> list[str]:
    """What stands between dollar signs, outside code."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    text = re.sub(r"`[^`]*`", "", text)
    displayed = re.findall(r"\$\$(.+?)\$\$", text, re.DOTALL)
    rest = re.sub(r"\$\$(.+?)\$\$", "", text, flags=re.DOTALL)
    return displayed + re.findall(r"(?<!\\)\$([^$]+?)\$", rest)


def letters(formula: str) -> set[str]:
    """The letters of a formula, without words and functions; a weight's subscript is its name.

    >>> sorted(letters(r"e_{t,i} = v \\cdot \\tanh(W_h h_i) + \\alpha P_\\text{gen}"))
    ['P', 'W', 'alpha', 'e', 'h', 'i', 't', 'v']
    """
    formula = re.sub(r"\\text\{[^}]*\}", "", formula)
    formula = re.sub(r"_\{\w{3,}\}|(?<=W)_\w", "", formula)
    found = {name for name in re.findall(r"\\([a-zA-Z]+)", formula) if name in GREEK}
    return found | set(re.findall(r"[a-zA-Z]", re.sub(r"\\[a-zA-Z]+", "", formula)))


@cache
def in_lesson(name: str) -> frozenset[str]:
    cells = nbformat.read(ROOT / "lessons" / f"{name}.ipynb", as_version=4).cells
    text = "\n\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return frozenset().union(*map(letters, formulas(text)))


@cache
def rows() -> tuple[tuple[str, frozenset[str], tuple[str, ...]], ...]:
    """Each row: its symbols as written, their letters, and the numbers of the lessons."""
    text = (ROOT / "course" / "book" / "symbols.md").read_text(encoding="utf-8")
    return tuple(
        (
            symbols,
            frozenset().union(*map(letters, formulas(symbols))),
            tuple(re.findall(r"(?<![\w/])\d\d(?!_)", lessons)),
        )
        for symbols, lessons in ROW.findall(text)
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_letter_of_a_lesson_s_formulas_is_in_the_table(name):
    explained = [found for _, found, lessons in rows() if name[:2] in lessons]
    assert in_lesson(name) - frozenset().union(*explained) == frozenset()


def test_every_row_names_lessons_that_use_its_symbols():
    assert len(rows()) > 30
    by_number = {name[:2]: in_lesson(name) for name in NAMES}
    wrong = [
        (symbols, number)
        for symbols, found, lessons in rows()
        for number in lessons or ("none",)
        if not found <= by_number.get(number, frozenset())
    ]
    assert wrong == []


def test_no_letter_has_two_rows_for_one_lesson():
    seen: dict[tuple[str, str], str] = {}
    twice = []
    for symbols, _, lessons in rows():
        for number in lessons:
            for one in formulas(symbols):
                key = (number, re.sub(r"\W", "", one))
                if key in seen:
                    twice.append((one, number))
                seen[key] = symbols
    assert twice == []
