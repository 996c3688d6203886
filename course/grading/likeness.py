"""Find answers that are alike: the same code but for names, comments and spaces, or nearly so.

What is compared is the shape of an answer, its syntax tree read from above to below. Variables
count by the order in which they appear, so renaming changes nothing; docstrings, annotations and
imports are left out. Likeness is a reason to look, and no proof of anything: short answers, and
those that the lesson leads to, are alike by themselves. So only long ones are compared, and none
that has the shape of the lesson's stub, of a worked answer or of a known wrong idea.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations

SHORTEST = 60
"""How many parts of a syntax tree an answer has to have: six lines or so."""

NEARLY = 0.95
"""From which share of common parts two answers are nearly the same."""

LETTERS = "letter for letter"
LAYOUT = "the same but for comments, spaces, docstrings and annotations"
NAMES = "the same but for names"
"""How answers of one shape are alike; others are "nearly the same"."""

Shape = tuple[str, ...]


@dataclass(frozen=True)
class Alike:
    """Answers to one exercise that are alike.

    Attributes:
        exercise: its id.
        students: at least two, in the order given.
        how: LETTERS, LAYOUT, NAMES, or the sentence's part for nearly the same.
        share: of common parts, from 0 to 1; 1 for answers of one shape.
        length: how many parts the shorter answer has.
        closer: those of the students whose answers agree letter for letter, where not all do.
    """

    exercise: str
    students: tuple[str, ...]
    how: str
    share: float = 1.0
    length: int = 0
    closer: tuple[tuple[str, ...], ...] = ()


def shape_of(source: str) -> Shape | None:
    """Return the parts of a source's syntax tree, without what a renaming changes.

    Returns:
        None if the source is no Python, or nested too deeply to be read.

    >>> shape_of("def f(a):\\n    return a + 1") == shape_of("def g(b):  # mine\\n  return b+1")
    True
    >>> shape_of("len(a)") == shape_of("sum(a)")
    False
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    own = _own_names(tree)
    numbers: dict[str, int] = {}
    parts: list[str] = []
    waiting: list[ast.AST] = [tree]
    while waiting:  # a loop, for a tree may be deeper than Python's own stack
        node = waiting.pop()
        parts.append(_part(node, own, numbers))
        waiting.extend(reversed(_children(node)))
    return tuple(parts[1:])


def find_alike(
    exercise: str, answers: Mapping[str, str], known: Iterable[str] = ()
) -> tuple[Alike, ...]:
    """Find the answers to one exercise that are alike.

    Args:
        exercise: its id.
        answers: the source of each student's answer.
        known: sources that an answer may have the shape of without telling anything: the lesson's
            stub, the worked answers, the known wrong ideas.

    Returns:
        Those of one shape first, then pairs that are nearly the same; the longest first.
    """
    known_shapes = {shape for one in known if (shape := shape_of(one)) is not None}
    by_shape: dict[Shape, list[str]] = {}
    for student, source in answers.items():
        shape = shape_of(source)
        if shape is not None and len(shape) >= SHORTEST and shape not in known_shapes:
            by_shape.setdefault(shape, []).append(student)
    same = [
        _of_one_shape(exercise, students, answers, len(shape))
        for shape, students in by_shape.items()
        if len(students) > 1
    ]
    near = _near(exercise, by_shape, known_shapes)
    same.sort(key=lambda one: -one.length)
    near.sort(key=lambda one: (-one.share, -one.length))
    return (*same, *near)


def have_shape_of(answers: Mapping[str, str], known: Iterable[str]) -> tuple[str, ...]:
    """Return whose answers are long and have the shape of a known one, such as the worked one."""
    shapes = {shape_of(one) for one in known} - {None}
    found = {student: shape_of(source) for student, source in answers.items()}
    return tuple(
        student
        for student, shape in found.items()
        if shape is not None and len(shape) >= SHORTEST and shape in shapes
    )


def _of_one_shape(
    exercise: str, students: Sequence[str], answers: Mapping[str, str], length: int
) -> Alike:
    by_text: dict[str, list[str]] = {}
    for student in students:
        by_text.setdefault(_plain(answers[student]), []).append(student)
    if len(by_text) == 1:
        return Alike(exercise, tuple(students), LETTERS, length=length)
    forms = {_form(answers[student]) for student in students}
    closer = tuple(tuple(group) for group in by_text.values() if len(group) > 1)
    how = LAYOUT if len(forms) == 1 else NAMES
    return Alike(exercise, tuple(students), how, length=length, closer=closer)


def _near(
    exercise: str, by_shape: Mapping[Shape, Sequence[str]], known: Collection[Shape]
) -> list[Alike]:
    # What is nearly a known form is like its neighbours for that reason alone.
    shapes = [one for one in by_shape if not any(_share(one, other) for other in known)]
    found = []
    for one, other in combinations(shapes, 2):
        share = _share(one, other)
        if share:
            students = (*by_shape[one], *by_shape[other])
            length = min(len(one), len(other))
            found.append(Alike(exercise, students, "nearly the same", share, length))
    return found


def _share(one: Shape, other: Shape) -> float:
    """The share of common parts in their order, or 0 where it is below NEARLY."""
    if 2 * min(len(one), len(other)) < NEARLY * (len(one) + len(other)):
        return 0.0
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    if matcher.quick_ratio() < NEARLY:
        return 0.0
    share = matcher.ratio()
    return share if share >= NEARLY else 0.0


def _plain(source: str) -> str:
    return "\n".join(line.rstrip() for line in source.strip().splitlines())


def _form(source: str) -> tuple[str, ...] | None:
    """The shape with the names as they are."""
    tree = ast.parse(source)
    parts: list[str] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        parts.append(_part(node, frozenset(), {}))
        waiting.extend(reversed(_children(node)))
    return tuple(parts)


def _own_names(tree: ast.AST) -> frozenset[str]:
    """The names that the source itself gives: variables, parameters, functions, classes."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, _NAMED) and node.name:
            found.add(node.name)
    return frozenset(found)


_NAMED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler
_LEFT_OUT = ("ctx", "annotation", "returns", "type_comment", "type_params", "simple", "kind")


def _part(node: ast.AST, own: Collection[str], numbers: dict[str, int]) -> str:
    """One node as text: its kind, its own values, and how many children each list of it has."""
    said = ["Assign" if isinstance(node, ast.AnnAssign) else type(node).__name__]
    for name, value in ast.iter_fields(node):
        if name in _LEFT_OUT or isinstance(value, ast.AST):
            continue
        if isinstance(value, list):
            if name == "targets" or not any(isinstance(one, ast.AST) for one in value):
                continue
            said.append(f"{name}:{sum(_counts(one) for one in value)}")
        elif isinstance(value, str) and value in own and not _is_text(node):
            said.append(f"#{numbers.setdefault(value, len(numbers))}")
        elif value is not None or isinstance(node, ast.Constant):
            said.append(repr(value))
    return " ".join(said)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant | ast.Attribute | ast.keyword)


def _children(node: ast.AST) -> list[ast.AST]:
    found: list[ast.AST] = []
    for name, value in ast.iter_fields(node):
        if name in _LEFT_OUT:
            continue
        several = value if isinstance(value, list) else [value]
        found += [one for one in several if isinstance(one, ast.AST) and _counts(one)]
    return found


def _counts(node: object) -> bool:
    """Whether a node is compared: no import, and no text that stands alone."""
    if isinstance(node, ast.Expr):
        value = node.value
        return not (isinstance(value, ast.Constant) and isinstance(value.value, str))
    return not isinstance(node, ast.Import | ast.ImportFrom)
