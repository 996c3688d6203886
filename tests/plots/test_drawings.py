"""What no drawing may do: overlap, lack a text, draw slowly, or hold a number in its code.

A drawing is registered in a file ``drawings_*.py`` of this folder, one function a case.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from matplotlib.text import Text
from registry import CASES

from ehr_course.plots import charts
from ehr_course.plots.overlaps import label_problems
from ehr_course.plots.style import Picture

HERE = Path(__file__).resolve().parent
PLOTS = Path(charts.__file__).parent
LESSONS = sorted(PLOTS.glob("lesson_*.py"))

for file in sorted(HERE.glob("drawings_*.py")):
    importlib.import_module(file.stem)

each_case = pytest.mark.parametrize("case", CASES)


@cache
def drawn(case: str) -> Picture:
    return CASES[case].draw()


@each_case
def test_a_drawing_can_be_read(case):
    assert label_problems(drawn(case)) == []


@each_case
def test_a_drawing_is_described(case):
    picture = drawn(case)
    assert len(picture.alternative_text.split()) >= 5
    assert not picture.alternative_text.startswith("<")
    for words in CASES[case].said:
        assert words in picture.alternative_text
    assert set(CASES[case].shown) <= {text.get_text() for text in picture.findobj(Text)}


@each_case
def test_a_drawing_is_the_same_twice(case):
    assert CASES[case].draw().png() == drawn(case).png()


def test_bars_beyond_the_one_that_they_are_compared_with_are_hatched():
    costs = {"one": {"before": 2.0, "after": 1.9}, "other": {"before": 2.0, "after": 2.1}}
    (axes,) = charts.draw_bars(costs, "Cost", worse_than="before").axes
    assert [bool(bar.get_hatch()) for bar in axes.patches] == [False, False, False, True]


def test_every_drawing_of_a_lesson_is_registered():
    defined = {name for file in LESSONS for name in functions(file)}
    tested = "\n".join(file.read_text(encoding="utf-8") for file in HERE.glob("drawings_*.py"))
    assert {name for name in defined if not re.search(rf"\b{name}\(", tested)} == set()


def test_no_name_stands_for_two_drawings():
    times = Counter(name for file in PLOTS.glob("*.py") for name in functions(file))
    assert {name for name, count in times.items() if count > 1} == set()


def functions(file: Path) -> list[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("draw_")
    ]


# ---------------------------------------------------------------------- numbers in the code

NAMES_WITH_DIGITS = re.compile(
    r"ICD-(?:9|10)(?:-CM)?|ICD(?:9|10)CM|MIMIC-I*V?|UTF-8|#[0-9a-f]{6}|C\d"
)


def written_numbers(source: str) -> list[str]:
    """The string literals that hold a digit, docstrings and format specifications left out."""
    tree = ast.parse(source)
    passed_over = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            passed_over |= {id(part) for part in ast.walk(node.format_spec)}
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            passed_over.add(id(node.value))
        if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Constant):
            return [ast.unparse(node)]
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in passed_over
        and re.search(r"\d", re.sub(r"\{:[^}]*\}", "", NAMES_WITH_DIGITS.sub("", node.value)))
    ]


@pytest.mark.parametrize("file", LESSONS, ids=lambda file: file.stem)
def test_no_number_is_written_into_a_drawing(file):
    assert written_numbers(file.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    ['canvas.label(at, "768 numbers")', 'canvas.label(at, f"{768} numbers")'],
)
def test_a_written_number_is_found(source):
    assert written_numbers(source) != []


@pytest.mark.parametrize(
    "source",
    [
        'canvas.label(at, f"{model.config.d_model} numbers, {share:.0%}")',
        'def draw():\n    """Shape (2, 3)."""\n    return "ICD-9 codes", "#31688e", "{:.2f}"',
    ],
)
def test_a_number_that_is_read_off_an_object_is_not(source):
    assert written_numbers(source) == []
