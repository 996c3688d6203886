"""The parts of a model that a learner has written: kept when solved, and used by later lessons."""

from __future__ import annotations

import ast
import builtins
import linecache
import sys
import types
import warnings
from typing import Any

from ehr_course.exercises import store
from ehr_course.exercises.catalogue import find_exercise
from ehr_course.exercises.learner_code import file_of, scope_of
from ehr_course.exercises.worked_answers import worked

PARTS = {
    "11.1": "attention",
    "11.2": "decoder_mask",
    "11.3": "Attention",
    "11.4": "EncoderLayer",
    "11.5": "DecoderLayer",
    "11.6": "Stack",
    "11.7": "TinyBart",
    "12.6": "MyPrompt",
    "13.3": "token_loss",
    "15.8": "train",
    "16.1": "additive_attention",
    "16.3": "mixed_distribution",
    "16.4": "extended_ids",
    "16.5": "pointer_loss",
    "16.6": "NoteReader",
    "16.7": "Pointer",
}
"""What the learner's own model is made of, in the order of the file: by exercise, a name that the
cell of its answer defines."""

IMPORT = "from ehr_course.exercises.mine import mine"

GIVEN: dict[str, str] = {}
"""Sources that stand in for what a learner solved: a grader gives them to a process of its own."""


def mine(exercise_id: str, name: str | None = None) -> Any:
    """Return your answer to an exercise if you have solved it, and the worked answer if not.

    Args:
        exercise_id: lesson and number ("11.3").
        name: of something else that the cell of the answer defines.

    Raises:
        ValueError: if there is no such exercise.
    """
    find_exercise(exercise_id)
    source = GIVEN.get(exercise_id) or store.kept_answer(exercise_id)
    if source is None:
        return worked(exercise_id, name)
    names: dict[str, Any] = {"__name__": "__main__"}
    filename = f"<your answer to {exercise_id}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    try:
        exec(compile(source, filename, "exec"), names)
        return names[name or _name_in(source)]
    except Exception as error:
        warnings.warn(
            f"Your answer to {exercise_id} cannot be used on its own ({error!r}), so the worked "
            f"answer stands in. It is kept in {store.answer_file(exercise_id)}. Put everything "
            "that it needs into its cell and check it again.",
            stacklevel=2,
        )
        return worked(exercise_id, name)


def parts() -> None:
    """Print which parts of the model are yours, and for which the worked answer stands in."""
    widest = max(map(len, PARTS.values()))
    for exercise_id, name in PARTS.items():
        whose = "not solved yet: the worked answer stands in"
        if store.kept_answer(exercise_id) is not None:
            whose = "yours"
        print(f"{exercise_id:5} {name:{widest}}  {whose}")


def keep(exercise_id: str, answer: Any) -> None:
    """Keep the source of a right answer, with all that it needs, for `mine`.

    An answer without a name, such as a lambda, or without a source is not kept.

    Raises:
        ProgressError: if it cannot be written.
    """
    name = getattr(answer, "__name__", "")
    source = _needed_by(answer) if name.isidentifier() else None
    if source:
        store.keep_answer(exercise_id, f"# answer: {name}\n{source}")


def _name_in(source: str) -> str:
    return source.partition("\n")[0].removeprefix("# answer: ")


def whole_model(ending: str = "") -> str:
    """Return all parts as the text of one file, the learner's own where they are solved.

    A part that is not solved stands there as a call of `mine`.

    Args:
        ending: code that uses the parts, to stand at the end; its imports go to the top.
    """
    imports: dict[str, None] = {}
    blocks: list[str] = []
    for exercise_id, name in PARTS.items():
        source = store.kept_answer(exercise_id)
        if source is None:
            imports[IMPORT] = None
            call = f'{name} = mine("{exercise_id}", "{name}")'
            blocks.append(f"# {exercise_id}, not solved yet: the worked answer\n{call}")
            continue
        statements = _statements(source)
        # An answer may have been given another name.
        own = name if any(name in _bound_by(one) for one, _ in statements) else _name_in(source)
        texts = []
        for place in _closure(statements, {own}):
            statement, text = statements[place]
            if isinstance(statement, ast.Import | ast.ImportFrom):
                if text != IMPORT:
                    imports[text] = None
            elif not _parts_called(statement) & PARTS.keys():
                texts.append(text)
        if own != name:
            texts.append(f"{name} = {own}")
        blocks.append("\n\n\n".join([f"# {exercise_id}, yours\n{texts[0]}", *texts[1:]]))
    for statement, text in _statements(ending):
        if isinstance(statement, ast.Import | ast.ImportFrom):
            imports[text] = None
        else:
            blocks.append(text)
    return "\n\n\n".join(["\n".join(imports), *blocks]) + "\n"


def stand_ins(source: str) -> dict[str, str]:
    """Return worked answers for all parts that a source takes with `mine`, as whole sources.

    Args:
        source: Python code.
    """
    found: dict[str, str] = {}
    wanted = _parts_called(ast.parse(source))
    while wanted:
        exercise_id = wanted.pop()
        answer = worked(exercise_id)
        text = f"# answer: {answer.__name__}\n{_needed_by(answer)}"
        found[exercise_id] = text
        wanted |= _parts_called(ast.parse(text)) - found.keys()
    return found


def _parts_called(tree: ast.AST) -> set[str]:
    """The exercises that are named in calls of `mine`."""
    return {
        node.args[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "mine"
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }


def _statements(source: str) -> list[tuple[ast.stmt, str]]:
    """The statements of a source, each with its text."""
    lines = source.splitlines()
    found = []
    for one in ast.parse(source).body:
        decorators = getattr(one, "decorator_list", [])
        first = min([one.lineno, *(decorator.lineno for decorator in decorators)])
        found.append((one, "\n".join(lines[first - 1 : one.end_lineno])))
    return found


def _needed_by(answer: Any) -> str | None:
    """The source of an answer and of all that it uses, or None where there is no source."""
    lines: dict[str, None] = {}
    if not _gather(answer, lines):
        return None
    return "\n".join(lines) + "\n"


def _gather(thing: Any, lines: dict[str, None]) -> bool:
    """Add the statements that define a function or class of a cell, after all that they use."""
    cell = "".join(linecache.getlines(file_of(thing) or ""))
    if not cell:
        return False
    statements = _statements(cell)
    chosen = [statements[place] for place in _closure(statements, {thing.__name__})]
    used = {name for statement, _ in chosen for name in _used_by(statement)}
    bound = {name for statement, _ in chosen for name in _bound_by(statement)}
    for name in sorted(used - bound - vars(builtins).keys()):
        if name in scope_of(thing):
            _define(name, scope_of(thing)[name], lines)
    lines.update({text: None for _, text in chosen})
    return True


def _closure(statements: list[tuple[ast.stmt, str]], names: set[str]) -> list[int]:
    """The places of the statements that define names, and all that those need, in order."""
    chosen: set[int] = set()
    while True:
        more = {
            place
            for place, (statement, _) in enumerate(statements)
            if place not in chosen and _bound_by(statement) & names
        }
        if not more:
            return sorted(chosen)
        chosen |= more
        names = names.union(*(_used_by(statements[place][0]) for place in more))


def _define(name: str, value: Any, lines: dict[str, None]) -> None:
    """Add a line that gives `name` the value that it has in the notebook, if there is one."""
    home, known = getattr(value, "__module__", None), getattr(value, "__name__", "")
    alias = "" if known == name else f" as {name}"
    if name == "mine":
        lines[IMPORT] = None
    elif isinstance(value, types.ModuleType):
        lines[f"import {known}{alias}"] = None
    elif home in sys.modules and home != "__main__" and hasattr(sys.modules[home], known):
        lines[f"from {home} import {known}{alias}"] = None
    elif isinstance(value, int | float | str | None):
        lines[f"{name} = {value!r}"] = None
    elif isinstance(value, type | types.FunctionType):
        _gather(value, lines)


def _bound_by(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {(one.asname or one.name).partition(".")[0] for one in statement.names}
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.If | ast.With | ast.Try):
        stored = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
        return {node.id for node in stored if isinstance(node.ctx, ast.Store)}
    return set()


def _used_by(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
