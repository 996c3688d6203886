"""A worked answer fits its lesson: it needs no name that the lesson does not have there.

In tests/exercises a worked answer stands among the imports of its solutions. In place of the
lesson's stub it has what the cells above it have bound, and nothing else.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

import pytest
from lesson_files import LESSONS, cells_tagged, name, read_source, solution_of

OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def bound_by(node: ast.AST) -> Iterator[str]:
    """The names that this node itself binds, without those that are bound inside it."""
    match node:
        case ast.Name(ctx=ast.Store()):
            yield node.id
        case ast.FunctionDef() | ast.ClassDef() | ast.AsyncFunctionDef():
            yield node.name
        case ast.Import() | ast.ImportFrom():
            yield from (one.asname or one.name.partition(".")[0] for one in node.names)
        case ast.arg():
            yield node.arg
        case ast.ExceptHandler(name=str(caught)):
            yield caught


def of_the_module(node: ast.AST) -> Iterator[ast.AST]:
    """What is in a tree, without what lies inside functions and classes."""
    yield node
    if not isinstance(node, OWN_SCOPE):
        for child in ast.iter_child_nodes(node):
            yield from of_the_module(child)


def missing_names(before: list[str], answer: str) -> set[str]:
    """The names that an answer reads, that neither it nor a cell before it binds."""
    there = {
        bound
        for source in before
        for node in of_the_module(ast.parse(source))
        for bound in bound_by(node)
    }
    nodes = list(ast.walk(ast.parse(answer)))
    own = {bound for node in nodes for bound in bound_by(node)}
    read = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return read - own - there - set(dir(builtins))


@pytest.mark.parametrize("lesson", LESSONS, ids=name)
def test_a_worked_answer_has_every_name_that_it_needs_in_its_lesson(lesson):
    notebook = read_source(lesson)
    answers = cells_tagged(read_source(solution_of(lesson)), "answer")
    places = {id(cell): label for label, cell in cells_tagged(notebook, "exercise").items()}
    before: list[str] = []
    missing: dict[str, set[str]] = {}
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        label = places.get(id(cell))
        source = cell.source if label is None else answers[label].source
        if label is not None and (names := missing_names(before, source)):
            missing[label] = names
        before.append(source)
    assert missing == {}


@pytest.mark.parametrize(
    ("before", "answer", "missing"),
    [
        ("import torch", "def f(x):\n    return torch.zeros(x)", set()),
        ("def g():\n    import torch", "def f(x):\n    return torch.zeros(x)", {"torch"}),
        ("from torch import nn as n", "class A(n.Module):\n    b = nn", {"nn"}),
        ("for a, b in {}:\n    c = 1", "d = [a + b + c + e for e in len([])]", set()),
    ],
)
def test_what_is_missing_is_found(before, answer, missing):
    assert missing_names([before], answer) == missing
