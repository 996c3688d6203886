"""Read a submitted notebook: `.ipynb` of any version, or a script with `# %%` cells.

Nothing of it is run. A file that is broken, too long or no notebook is said to be so.
"""

from __future__ import annotations

import ast
import codecs
import io
import json
import re
import tokenize
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeGuard

import jupytext

from course.grading.statements import Statement, UnreadableError, statements_of

MOST_BYTES = 64 << 20
"""A longer file is not read. Notebooks with all their outputs have a few megabytes."""

ENDINGS = (".ipynb", ".py")
_TAG = re.compile(r"exercise:([0-9]{2}\.[0-9]+)")
_COOKIE = re.compile(r"\A((?:#[^\n]*\n)?#[^\n]*?coding[:=][ \t]*)[-\w.]+")
_CONFLICT = re.compile(r"^(?:<{7}|>{7}) ", re.MULTILINE)
_CHECK = re.compile(r"""check\(\s*["']([0-9]{2}\.[0-9]+)["']""")


class NotANotebookError(ValueError):
    """A file that cannot be read as a notebook; the message says why."""


@dataclass(frozen=True)
class Cell:
    """One code cell.

    Attributes:
        file: the notebook's path below the folder of submissions.
        number: its place among all cells, from 1.
        source: its text.
        tags: its tags.
        runs: its execution count, or None.
        own: whether a student wrote it.
        is_text: whether it is not a code cell; it is read where its tag says that it
            should be one.
    """

    file: str
    number: int
    source: str
    tags: tuple[str, ...] = ()
    runs: int | None = None
    own: bool = field(default=True, repr=False)
    is_text: bool = False

    @property
    def place(self) -> str:
        """The cell in words."""
        whose = self.file if self.own else f"the lesson {self.file}"
        return f"cell {self.number} of {whose}"

    @cached_property
    def _read(self) -> tuple[tuple[Statement, ...], str]:
        try:
            return tuple(statements_of(self.source, self.place, own=self.own)), ""
        except UnreadableError as error:
            return (), str(error)

    @property
    def statements(self) -> tuple[Statement, ...]:
        """Its top-level statements; none where it is no Python."""
        return self._read[0]

    @property
    def problem(self) -> str:
        """Why it is no Python, or ""."""
        return self._read[1]

    @cached_property
    def tagged(self) -> tuple[str, ...]:
        """The ids of the exercises that its tags name."""
        return tuple(m[1] for tag in self.tags if (m := _TAG.fullmatch(tag)))

    @cached_property
    def checks(self) -> tuple[tuple[str, ast.expr], ...]:
        """What it hands to `check`: an exercise's id and the answer, as an expression."""
        found = []
        for one in self.statements:
            call = one.node.value if isinstance(one.node, ast.Expr) else None
            if not isinstance(call, ast.Call) or not _is_check(call.func):
                continue
            given = {word.arg: word.value for word in call.keywords}
            parts = dict(zip(("exercise_id", "answer"), call.args, strict=False)) | given
            exercise, answer = parts.get("exercise_id"), parts.get("answer")
            if isinstance(exercise, ast.Constant) and isinstance(exercise.value, str) and answer:
                found.append((exercise.value, answer))
        return tuple(found)

    @property
    def mentions(self) -> tuple[str, ...]:
        """The ids of the exercises that its text hands to `check`, even where it is no Python."""
        return tuple(dict.fromkeys(_CHECK.findall(self.source)))


def _is_check(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute):
        return function.attr == "check"
    return isinstance(function, ast.Name) and function.id == "check"


def read_cells(data: bytes, file: str, *, own: bool = True) -> list[Cell]:
    """Return the code cells of a notebook.

    Args:
        data: the file's bytes.
        file: its path, whose ending says what it is.
        own: whether a student wrote it.

    Raises:
        NotANotebookError: if it is not a notebook.
    """
    if len(data) > MOST_BYTES:
        raise NotANotebookError(f"it has more than {MOST_BYTES >> 20} MB; clear its outputs")
    if not data.strip():
        raise NotANotebookError("it is empty")
    is_json = file.lower().endswith(".ipynb")
    text = _text_of(data, is_json=is_json)
    parts = _of_json(text) if is_json else _of_script(text)
    return [
        Cell(file, number, source, tags, runs, own=own, is_text=kind != "code")
        for number, kind, source, tags, runs in parts
        if kind == "code" or any(_TAG.fullmatch(tag) for tag in tags)
    ]


def _text_of(data: bytes, *, is_json: bool) -> str:
    """Decode a file. A script may say how it is written; what says nothing may be Windows-1252."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace")  # what PowerShell writes
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        if is_json:
            raise NotANotebookError("it is not text in UTF-8") from None
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except (SyntaxError, ValueError, LookupError):
        return data.decode("cp1252", errors="replace")


_Part = tuple[int, str, str, tuple[str, ...], int | None]
"""Of a cell: its number, its kind, its source, its tags, its execution count."""


def _of_script(text: str) -> list[_Part]:
    text = _COOKIE.sub(r"\1utf-8", text, count=1)  # it is decoded; jupytext wants no other
    try:
        cells = jupytext.reads(text, fmt="py:percent").cells
    except Exception as error:  # what jupytext raises for a bad script is not documented
        problem = f"it is not a script with # %% cells ({type(error).__name__})"
        raise NotANotebookError(problem) from None
    return [
        (number, cell.cell_type, cell.source, _texts(cell.metadata.get("tags")), None)
        for number, cell in enumerate(cells, start=1)
    ]


def _of_json(text: str) -> list[_Part]:
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError) as error:
        where = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        why = "it was cut off or edited"
        if _CONFLICT.search(text):
            why = "it has the marks of a merge in Git (<<<<<<<), so two versions are mixed in it"
        raise NotANotebookError(f"it is no JSON{where}: {why}") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if cells is None and isinstance(notebook, dict):  # version 3
        sheets = notebook.get("worksheets")
        cells = sheets[0].get("cells") if _is_list_of_objects(sheets) else None
    if not _is_list_of_objects(cells, empty=True):
        raise NotANotebookError("it is JSON, but no notebook: it has no list of cells")
    found = []
    for number, cell in enumerate(cells, start=1):
        source = cell.get("source", cell.get("input", ""))
        source = "".join(_texts(source)) if isinstance(source, list) else source
        metadata = cell.get("metadata")
        tags = _texts(metadata.get("tags")) if isinstance(metadata, dict) else ()
        runs = cell.get("execution_count")
        runs = runs if type(runs) is int and 0 <= runs < 1 << 31 else None
        kind = cell.get("cell_type")
        kind = kind if isinstance(kind, str) else ""
        found.append((number, kind, source if isinstance(source, str) else "", tags, runs))
    return found


def _is_list_of_objects(value: Any, *, empty: bool = False) -> TypeGuard[list[dict[str, Any]]]:
    is_one = isinstance(value, list) and all(isinstance(item, dict) for item in value)
    return is_one and (empty or bool(value))


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(v for v in value if isinstance(v, str)) if isinstance(value, list | tuple) else ()
