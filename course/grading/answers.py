"""Find a student's answer to an exercise, and put it into the lesson.

It is looked for by the cell's tag, else by the function's name, else by the id in the call of
`check`. An answer that was attempted goes before an empty one, and of several the last one counts.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from course.grading.notebooks import Cell, read_cells
from course.grading.statements import (
    Statement,
    imported_by,
    is_stub,
    needed_for,
    unknown_names,
    without_magics,
)
from ehr_course.exercises.mine import stand_ins

WAYS = {"tag": "its tag", "name": "the function's name", "id": 'the id in check("...")'}


@dataclass(frozen=True)
class PristineLesson:
    """A lesson of the teacher's clone.

    Attributes:
        number: "07".
        cells: its code cells, in order.
        exercises: of each exercise the place of its cell in `cells`, and the answer's name.
    """

    number: str
    cells: tuple[Cell, ...]
    exercises: Mapping[str, tuple[int, str]]


def read_lesson(source: Path) -> PristineLesson:
    """Read a lesson's source (`lessons/07_tokenization.py`)."""
    cells = tuple(read_cells(source.read_bytes(), source.name, own=False))
    exercises = {
        exercise: (place, ast.unparse(answer))
        for place, cell in enumerate(cells)
        for exercise, answer in cell.checks
        if exercise in cell.tagged
    }
    return PristineLesson(source.name[:2], cells, exercises)


@dataclass(frozen=True)
class Found:
    """A student's answer to one exercise.

    Attributes:
        id: the exercise.
        cell: where it stands.
        target: the answer, as an expression: mostly a function's name.
        way: "tag", "name" or "id".
        is_empty: whether it is the lesson's stub or empty form, or nothing at all.
        problem: why its cell is no Python, or "".
        notes: what a teacher should know, in sentences.
        flags: the same as names.
    """

    id: str
    cell: Cell
    target: str
    way: str
    is_empty: bool = False
    problem: str = ""
    notes: tuple[str, ...] = ()
    flags: tuple[str, ...] = field(default=())


def find_answer(exercise: str, lesson: PristineLesson, cells: Sequence[Cell]) -> Found | None:
    """Find the answer to one exercise among a student's cells.

    Args:
        exercise: its id ("07.1").
        lesson: the exercise's lesson.
        cells: of all files of the student, in order.

    Returns:
        None where there is not even an empty one.
    """
    place, name = lesson.exercises[exercise]
    pristine = lesson.cells[place]
    ways = {
        "tag": [_in_tagged(exercise, name, c) for c in cells if exercise in c.tagged],
        "name": [_named(exercise, name, c) for c in cells],
        "id": [_in_check(exercise, c, cells) for c in cells],
    }
    others = {other for one, (_, other) in lesson.exercises.items() if one != exercise}
    # An id that was changed by mistake makes no other exercise's answer this one's.
    ways["id"] = [one for one in ways["id"] if one and one.target not in others]
    found = [_noted_empty(one, pristine) for way in ways.values() for one in way if one]
    if not found:
        return None
    attempts = [one for one in found if not one.is_empty]
    readable = [one for one in attempts if not one.problem]
    candidates = readable or attempts or found
    best = candidates[0].way
    chosen = [one for one in candidates if one.way == best][-1]
    notes, flags = _doubles(chosen, attempts)
    if chosen.way != "tag" and not chosen.is_empty:
        flags.append("lost_tag")
        notes.append(
            f"No cell with the tag exercise:{exercise} has an answer; {chosen.cell.place} was "
            f"found by {WAYS[chosen.way]}."
        )
    if chosen.cell.is_text and not chosen.is_empty:
        flags.append("not_code")
        notes.append(f"{_capital(chosen.cell.place)} is not a code cell. It was read as one.")
    if chosen.problem:
        flags.append("unreadable")
        notes.append(f"{_capital(chosen.cell.place)} is no Python, {chosen.problem}.")
    return _with(chosen, notes=tuple(notes), flags=tuple(flags))


def _with(found: Found, **changes: object) -> Found:
    return Found(**(found.__dict__ | changes))


def _in_tagged(exercise: str, name: str, cell: Cell) -> Found | None:
    if cell.problem:
        return Found(exercise, cell, name, "tag", problem=cell.problem)
    handed = [ast.unparse(answer) for checked, answer in cell.checks if checked == exercise]
    bound = [one for one in _functions(cell) if one != name]
    if handed:
        return Found(exercise, cell, handed[-1], "tag")
    if any(name in one.binds for one in cell.statements):
        return Found(exercise, cell, name, "tag")
    if len(bound) == 1:  # renamed, and its check deleted
        return Found(exercise, cell, bound[0], "tag")
    return Found(exercise, cell, name, "tag", is_empty=True)


def _functions(cell: Cell) -> list[str]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return [one.node.name for one in cell.statements if isinstance(one.node, kinds)]


def _named(exercise: str, name: str, cell: Cell) -> Found | None:
    if cell.problem:
        text = f"def {name}("
        return (
            Found(exercise, cell, name, "name", problem=cell.problem)
            if text in cell.source
            else None
        )
    binds = any(name in one.binds for one in cell.statements if not one.is_import)
    return Found(exercise, cell, name, "name") if binds else None


def _in_check(exercise: str, cell: Cell, cells: Sequence[Cell]) -> Found | None:
    if cell.problem:
        is_meant = exercise in cell.mentions
        return Found(exercise, cell, "", "id", problem=cell.problem) if is_meant else None
    for checked, answer in reversed(cell.checks):
        if checked != exercise:
            continue
        target = ast.unparse(answer)
        holders = [c for c in cells if any(target in one.binds for one in c.statements)]
        return Found(exercise, holders[-1] if holders else cell, target, "id")
    return None


def _noted_empty(found: Found, pristine: Cell) -> Found:
    """Say whether an answer is the lesson's own empty one."""
    if found.problem or found.is_empty:
        return found
    binding = [one for one in found.cell.statements if found.target in one.binds]
    if binding and is_stub(binding[-1].node):
        return _with(found, is_empty=True)
    # The lesson's cell may hold more than one stub, or a form: untouched, it has nothing new.
    forms = {one.form for one in pristine.statements}
    return _with(found, is_empty=all(one.form in forms for one in found.cell.statements))


def _doubles(chosen: Found, attempts: Sequence[Found]) -> tuple[list[str], list[str]]:
    places: dict[str, str] = {}
    for one in attempts:
        binding = [s.form for s in one.cell.statements if one.target in s.binds]
        form = "\n".join(binding) or one.cell.source.strip()
        if one.cell is not chosen.cell:
            places.setdefault(form, one.cell.place)
    mine = [s.form for s in chosen.cell.statements if chosen.target in s.binds]
    places.pop("\n".join(mine) or chosen.cell.source.strip(), None)
    if not places:
        return [], []
    others = list(dict.fromkeys(one.cell.place for one in attempts if one.cell is not chosen.cell))
    why = "an answer that was attempted goes before an empty one, the tag before the function's "
    why += "name, the name before the id in check, and the last one before the others"
    note = (
        f"There are {len(places) + 1} different answers. Graded is {chosen.cell.place}, found by "
        f"{WAYS[chosen.way]}; not {' and not '.join(others)}. The rule: {why}."
    )
    return [note], ["double"]


@dataclass(frozen=True)
class Program:
    """What is run for an answer.

    Attributes:
        statements: those of the lesson and of the student that the answer needs, in order.
        target: the answer, as an expression.
        source: the student's part of it.
        notes: what was taken along, in sentences.
        flags: names for it.
        modules: of the student's own modules that it imports, by name, the source.
        parts: worked answers to other exercises, which it takes with `mine`, by id, the source.
    """

    statements: tuple[Statement, ...]
    target: str
    source: str
    notes: tuple[str, ...]
    flags: tuple[str, ...]
    modules: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, str] = field(default_factory=dict)


def spliced(
    found: Found,
    lesson: PristineLesson,
    cells: Sequence[Cell],
    answers: Mapping[str, Found | None],
) -> Program:
    """Put an answer into the pristine lesson, and keep what it needs.

    The lesson's cells up to the exercise come first, in which the student's answers take the
    place of the stubs; then every statement of the student's that the lesson does not have; then
    the answer. Of all that, only what the answer's names need is kept.

    Args:
        found: the answer.
        lesson: its lesson.
        cells: of all files of the student, in order.
        answers: the student's answers to the exercises of this lesson.
    """
    place, _ = lesson.exercises[found.id]
    known = {one.form for cell in lesson.cells for one in cell.statements}
    taken_by_others = {
        id(one.cell) for one in answers.values() if one is not None and one.id != found.id
    }
    names_of_answers = {name for _, name in lesson.exercises.values()}
    before: list[Statement] = []
    for number, cell in enumerate(lesson.cells[:place]):
        other = next((e for e, (at, _) in lesson.exercises.items() if at == number), None)
        answer = answers.get(other) if other else None
        if answer is None or answer.problem or answer.is_empty:
            before += cell.statements
        else:
            before += answer.cell.statements
    last = next((n for n, cell in enumerate(cells) if cell is found.cell), len(cells))

    def additions(some: Sequence[Cell]) -> list[Statement]:
        return [
            one
            for cell in some
            if cell is not found.cell and id(cell) not in taken_by_others
            for one in cell.statements
            if one.form not in known and not (one.binds & names_of_answers)
        ]

    same_file = [cell for cell in cells if cell.file == found.cell.file]
    position = same_file.index(found.cell) if last < len(cells) else len(same_file)
    above, below = additions(same_file[:position]), additions(same_file[position + 1 :])
    used = {node.id for node in ast.walk(ast.parse(found.target)) if isinstance(node, ast.Name)}
    program = [*before, *above, *found.cell.statements]
    from_below: list[Statement] = []
    unknown = unknown_names(used, program)
    if unknown:
        from_below = needed_for(unknown, below)
        program = [*before, *above, *from_below, *found.cell.statements]
    needed = needed_for(used, program)
    source, notes, flags = _about(found, needed, before, from_below)
    modules = modules_beside(found.cell.file, cells, needed)
    if modules:
        notes += (f"It imports what was handed in beside it: {', '.join(modules)}.",)
    parts = stand_ins("\n".join(one.text for one in needed))
    parts.pop(found.id, None)
    return Program(tuple(needed), found.target, source, notes, flags, modules, parts)


def modules_beside(
    file: str, cells: Sequence[Cell], needed: Sequence[Statement]
) -> dict[str, str]:
    """Return the student's scripts that statements import, as modules, from beside a notebook.

    Args:
        file: the notebook's path below the folder of submissions.
        cells: of all files of the student.
        needed: the statements.

    Returns:
        The source by the module's name, "helpers" or "tools.helpers"; that of one that imports
        another, with the other.
    """
    texts: dict[str, list[str]] = {}
    for cell in cells:
        path = PurePosixPath(cell.file)
        if path.suffix.lower() == ".py" and path.is_relative_to(PurePosixPath(file).parent):
            parts = path.relative_to(PurePosixPath(file).parent).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            if parts and all(part.isidentifier() for part in parts):
                texts.setdefault(".".join(parts), []).append(without_magics(cell.source))
    sources = {name: "\n\n".join(cells) for name, cells in texts.items()}
    wanted = [name for one in needed if one.is_import for name in imported_by(one.text)]
    found: dict[str, str] = {}
    while wanted:
        root = wanted.pop().partition(".")[0]
        for name, source in sources.items():
            if name.partition(".")[0] == root and name not in found:
                found[name] = source
                wanted += imported_by(source)
    return found


def _about(
    found: Found,
    needed: Sequence[Statement],
    before: Sequence[Statement],
    from_below: Sequence[Statement],
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    notes, flags = [], []
    own = [one for one in needed if one.own]
    along = [one for one in own if one.place != found.cell.place and not one.is_import]
    lesson_names = {name for one in before if not one.own for name in one.binds}
    if along:
        named = ", ".join(_listed(along))
        notes.append(f"Taken along, because the answer uses it: {named}.")
    replaced = sorted(
        {name for one in along for name in one.binds & lesson_names if one not in before}
    )
    if replaced:
        flags.append("own_definition")
        notes.append(
            f"The student's own {', '.join(replaced)} took the place of what the lesson has "
            "under this name."
        )
    if any(one in from_below for one in needed):
        notes.append("Some of it stands below the answer.")
    return "\n".join(one.text for one in own), tuple(notes), tuple(flags)


def _listed(statements: Sequence[Statement]) -> list[str]:
    return list(
        dict.fromkeys(
            f"{', '.join(sorted(one.binds) or sorted(one.changes))} ({one.place})"
            for one in statements
        )
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
