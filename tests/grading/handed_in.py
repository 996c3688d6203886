"""What students hand in: the lesson's notebook with answers in it, in one form or another."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from ehr_course.exercises.catalogue import lesson_exercises
from ehr_course.exercises.worked_answers import changed, worked_answer

ROOT = Path(__file__).resolve().parents[2]
LESSON = "07_tokenization"
IDS = tuple(exercise.id for exercise in lesson_exercises("07"))
THE_LESSON = ROOT / "lessons" / f"{LESSON}.ipynb"


def notebook_with(
    answers: Mapping[str, str], *, check: bool = True, given: Path = THE_LESSON
) -> NotebookNode:
    """Return the lesson's notebook with some exercises' cells filled.

    Args:
        answers: the code of each, without its call of `check`.
        check: whether that call is added.
        given: the notebook that the student opened.
    """
    notebook = nbformat.read(given, as_version=4)
    for cell in notebook.cells:
        exercise = exercise_of(cell)
        if exercise in answers:
            last = cell.source.rpartition("\ncheck(")[2] if check else ""
            cell.source = answers[exercise].strip("\n") + (f"\n\n\ncheck({last}" if last else "")
    return notebook


def cell_of(notebook: NotebookNode, exercise: str) -> NotebookNode:
    """Return the cell that has an exercise's tag."""
    return next(cell for cell in notebook.cells if exercise_of(cell) == exercise)


def exercise_of(cell: NotebookNode) -> str:
    """Return the exercise that a cell's tag names, or ""."""
    tags = cell.metadata.get("tags", [])
    return next((t.partition(":")[2] for t in tags if t.startswith("exercise:")), "")


def right(*ids: str) -> dict[str, str]:
    """Return the worked answers of some exercises, of all where none is named."""
    return {exercise: worked_answer(exercise) for exercise in ids or IDS}


def wrong(exercise: str, number: int) -> tuple[str, str]:
    """Return the name of an exercise's misconception, and an answer that has it."""
    (task,) = (one for one in lesson_exercises("07") if one.id == exercise)
    name, found = list(task.misconceptions.items())[number % len(task.misconceptions)]
    return name, changed(worked_answer(exercise), found.changes[0])


def as_text(notebook: NotebookNode, name: str) -> str:
    """Return a notebook as the text of a file, as JupyterLab saves it, or as a script."""
    if name.endswith(".py"):
        return jupytext.writes(notebook, fmt="py:percent")
    return nbformat.writes(notebook) + "\n"


def put(content: NotebookNode | str | bytes, *path: str) -> Callable[[Path], None]:
    """Return what writes a notebook or a text into a folder of submissions."""

    def write(folder: Path) -> None:
        target = folder.joinpath(*path)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str | bytes) else as_text(content, target.name)
        target.write_bytes(text.encode() if isinstance(text, str) else text)

    return write


_COURSE = """\
import sys
from course import commands
commands._is_inside = lambda root: True  # these tests make no environment
sys.exit(commands.main(sys.argv[1:]))
"""


def run_course(*arguments: str | Path, timeout: float = 600) -> subprocess.CompletedProcess:
    """Run a command of `python3 -m course` as it runs once it is inside the environment."""
    return _run("-c", _COURSE, *map(str, arguments), timeout=timeout)


def run_grader(*arguments: str | Path, timeout: float = 600) -> subprocess.CompletedProcess:
    """Run `course grade`."""
    return run_course("grade", *arguments, timeout=timeout)


def _run(*arguments: str, timeout: float) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder."""
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
