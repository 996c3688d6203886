"""Every number in a drawing is read off an object: none is written into the drawing's code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "ehr_course" / "plots" / "drawings"
KIT = ("__init__.py", "canvas.py", "overlaps.py")
LESSONS = sorted(path for path in FOLDER.glob("*.py") if path.name not in KIT)

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
        and re.search(r"\d", NAMES_WITH_DIGITS.sub("", node.value))
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
        'def draw():\n    """Shape (2, 3)."""\n    return "ICD-9 codes", "#31688e"',
    ],
)
def test_a_number_that_is_read_off_an_object_is_not(source):
    assert written_numbers(source) == []
