"""`course release`: a folder of lessons for students, and a zip file of it.

It holds the chosen lessons, the library and the course's tool, without the worked answers, the
tests and what only a teacher needs. What the checks know of the answers is packed into one file.
"""

from __future__ import annotations

import argparse
import re
import shutil
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

import nbformat

from course.command_error import CommandError
from course.console import say
from course.notebook import differences
from course.syllabus import Lesson, load_syllabus
from ehr_course.exercises.packed import PACK, packed
from ehr_course.new_folder import check_new_folder, new_folder

ROOT = Path(__file__).resolve().parent.parent

TOP = (
    *("LICENSE", "pyproject.toml", "constraints.txt", "environment.yml"),
    *("setup.py", "jupytext.toml", "conftest.py", ".gitignore"),
)
PAGES = ("how_to_study.md", "glossary.md", "symbols.md")
"""Pages of the book that every release holds, beside those that its lessons link to."""

FOR_AUTHORS = (
    *("auxiliary_weights.py", "bare_wheel.py", "bookmaker.py", "build.py", "checkpoint.py"),
    *("fetching.py", "wheel_list.py", "wheelhouse_maker.py"),
    *("first_cell.py", "reference.py", "repository.py"),
    *("grading", "lesson_tables.py", "lesson_template", "new_lesson.py", "other_environments.py"),
    *("notebook.py", "release.py", "second_hospital.py", "uses_of_a_wheel.py"),
    *("widget_states.py", "book"),
)
"""What of `course/` students do not need."""

_SKIPPED = {"__pycache__", ".ipynb_checkpoints", "_course"}
_LINK = re.compile(r"!?\[([^\[\]]*)\]\(([^()\s]+)\)")
_PAGE_ENDINGS = (".ipynb", ".md", ".py", ".yml", ".csv")
_DAY_ZERO = (1980, 1, 1, 0, 0, 0)


def main(arguments: list[str]) -> int:
    """Make a release, say what is in it, and return 0.

    Args:
        arguments: what stands after `course release` on the command line.

    Raises:
        CommandError: if a lesson is unknown or not built, or the zip file is there already.
        InputError: if the folder cannot be made or has something in it.
    """
    options = _parser().parse_args(arguments)
    for line in release(ROOT, options.lessons, options.out):
        say(line)
    return 0


def release(root: Path, numbers: Sequence[str], out: Path) -> list[str]:
    """Make a folder of lessons for students, and a zip file of it beside it.

    Args:
        root: the clone.
        numbers: of the lessons, in any order.
        out: the folder; it must be new or empty. The zip file gets its name and `.zip`.

    Returns:
        What to tell the teacher, line by line.

    Raises:
        CommandError: if a lesson is unknown or not built, or the zip file is there already.
        InputError: if the folder cannot be made or has something in it.
    """
    lessons = _chosen(load_syllabus(root / "course" / "syllabus.yml"), numbers)
    archive = out.with_name(f"{out.name}.zip")
    if archive.exists():
        raise CommandError(f"{archive} is there already.", "Delete it, or choose another name.")
    check_new_folder(out)
    _check_built(root, lessons)
    unfinished = out.with_name(f".{archive.name}.unfinished")
    try:
        with new_folder(out) as folder:
            _fill(root, folder, lessons)
            _zip(folder, out.name, unfinished)
        unfinished.replace(archive)
    finally:
        unfinished.unlink(missing_ok=True)
    return _about(lessons, out, archive)


def _chosen(known: Sequence[Lesson], numbers: Iterable[str]) -> list[Lesson]:
    wanted = {number.zfill(2) for number in numbers}
    unknown = sorted(wanted - {lesson.number for lesson in known})
    if unknown:
        raise CommandError(
            f"There is no lesson {', '.join(unknown)}.",
            f"The lessons are: {', '.join(lesson.number for lesson in known)}.",
            exit_code=2,
        )
    return [lesson for lesson in known if lesson.number in wanted]


def _check_built(root: Path, lessons: Iterable[Lesson]) -> None:
    for lesson in lessons:
        source = root / "lessons" / f"{lesson.name}.py"
        found = (
            differences(source, source.with_suffix(".ipynb")) if source.is_file() else ["absent"]
        )
        if found:
            raise CommandError(
                f"The notebook of lesson {lesson.number} is not its source's: {found[0]}.",
                f"Build it first: python3 -m course build {lesson.number}",
            )


def _fill(root: Path, folder: Path, lessons: Sequence[Lesson]) -> None:
    for name in TOP:
        if (root / name).is_file():
            shutil.copyfile(root / name, folder / name)
    _copy(root / "ehr_course", folder / "ehr_course", except_for=("exercises/lessons",))
    _copy(root / "course", folder / "course", except_for=FOR_AUTHORS)
    _pack_exercises(root, folder, lessons)
    book = root / "course" / "book"
    (folder / "course" / "book").mkdir()
    (folder / "lessons").mkdir()
    sources = [root / "lessons" / f"{lesson.name}.py" for lesson in lessons]
    pages = [book / name for name in PAGES]
    pages += [page for source in sources for page in _pages_linked_from(source, book)]
    kept = {path.relative_to(root).as_posix() for path in [*sources, *pages]}
    kept |= {path.with_suffix(".ipynb").relative_to(root).as_posix() for path in sources}
    for page in dict.fromkeys(pages):
        target = folder / page.relative_to(root)
        _write(target, _relinked(page.read_text(encoding="utf-8"), "course/book", kept))
    for source in sources:
        target = folder / "lessons" / source.name
        _write(target, _relinked(source.read_text(encoding="utf-8"), "lessons", kept))
        notebook = nbformat.read(source.with_suffix(".ipynb"), as_version=4)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = _relinked(cell.source, "lessons", kept)
        text = nbformat.writes(notebook, version=4) + "\n"
        _write(target.with_suffix(".ipynb"), text)
    _write(folder / "README.md", _read_me(lessons))


def _copy(source: Path, target: Path, *, except_for: Iterable[str]) -> None:
    """Copy a folder without what is named, and without what Python and JupyterLab leave."""
    left_out = {source / name for name in except_for}
    for path in _files(source, left_out):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)


def _files(folder: Path, left_out: Iterable[Path] = ()) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path in left_out or path.name in _SKIPPED or path.suffix in (".pyc", ".egg-info"):
            continue
        if path.is_dir():
            yield from _files(path, left_out)
        else:
            yield path


def _pack_exercises(root: Path, folder: Path, lessons: Iterable[Lesson]) -> None:
    """Pack the inputs, words and worked answers of some lessons into one file."""
    source = root / "ehr_course" / "exercises" / "lessons"
    target = folder / "ehr_course" / "exercises" / "lessons"
    target.mkdir()
    shutil.copyfile(source / "__init__.py", target / "__init__.py")
    numbers = {lesson.number for lesson in lessons}
    texts = {}
    for path in _files(source):
        number = path.stem.removeprefix("lesson_") if path.stem.startswith("lesson_") else ""
        if path.name != "__init__.py" and (not number or number in numbers):
            texts[path.name] = path.read_text(encoding="utf-8")
    for lesson in lessons:
        solutions = root / "solutions" / f"{lesson.name}.py"
        texts[f"solutions_{lesson.number}.txt"] = solutions.read_text(encoding="utf-8")
    (folder / "ehr_course" / "exercises" / PACK.name).write_bytes(packed(texts))


def _pages_linked_from(source: Path, book: Path) -> Iterator[Path]:
    for _, target in _LINK.findall(source.read_text(encoding="utf-8")):
        path = (source.parent / target.partition("#")[0]).resolve()
        if path.parent == book and path.suffix == ".md" and path.is_file():
            yield path


def _relinked(text: str, folder: str, kept: set[str]) -> str:
    """Return a text in which a link to a file that is not released is only its words.

    Args:
        text: Markdown, or a script with Markdown in its comments.
        folder: where the text stands, from the release's root.
        kept: the files that a link may lead to.
    """

    def relinked(found: re.Match[str]) -> str:
        words, target = found.groups()
        path = target.partition("#")[0]
        is_picture = path.endswith((".png", ".svg"))
        if "://" in path or not (path.endswith(_PAGE_ENDINGS) or is_picture):
            return found[0]
        return found[0] if _joined(folder, path) in kept else words

    return _LINK.sub(relinked, text)


def _joined(folder: str, target: str) -> str:
    parts = list(PurePosixPath(folder).parts)
    for part in PurePosixPath(target).parts:
        if part == ".." and parts:
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def _zip(folder: Path, name: str, archive: Path) -> None:
    """Write a zip file whose bytes depend on the files alone."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed_folder:
        for path in _files(folder):
            entry = zipfile.ZipInfo(f"{name}/{path.relative_to(folder).as_posix()}", _DAY_ZERO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            packed_folder.writestr(entry, path.read_bytes())


def _read_me(lessons: Sequence[Lesson]) -> str:
    rows = [
        f"| [{one.number} {one.title}](lessons/{one.name}.ipynb) | {one.minutes} | {one.builds} |"
        for one in lessons
    ]
    return _READ_ME.format(table="\n".join(rows))


_READ_ME = """\
# EHR course

Learn to build generative models of electronic health records by running and changing real ones.

```
python3 -m course lab     # opens JupyterLab at the first lesson
python3 -m course test    # runs the lessons, and your answers
```

Run both from this folder; on Windows they begin with `py -m` in place of `python3 -m`. The first
use makes `.venv` here, which takes minutes; later uses take seconds. Nothing is installed outside
this folder.

| lesson | minutes | you build |
|---|---|---|
{table}

Your teacher chose these lessons. Where a lesson speaks of one that is not among them, its name
stands there without a link. [How to study](course/book/how_to_study.md) says how to work with a
lesson, and the [glossary](course/book/glossary.md) explains its words.

## What you hand in

Write each answer into the exercise's own cell, and leave the cell where it is: a teacher's grader
finds an answer by the tag of its cell. Save the notebook, and hand in `lessons/NN_name.ipynb`.
Outputs need not be there: your answers are run again, with other inputs.

`python3 -m course progress` shows where you stand. `python3 -m course doctor` prints a report when
something does not work. Deleting `.venv` and starting again is always safe.

## Licences

Code is under the MIT License, prose under CC BY 4.0: see [LICENSE](LICENSE).
"""


def _about(lessons: Sequence[Lesson], out: Path, archive: Path) -> list[str]:
    numbers = [lesson.number for lesson in lessons]
    lines = [f"{out} and {archive} hold lesson {', '.join(numbers)} for students."]
    for lesson in lessons:
        absent = [number for number in lesson.prerequisites if number not in numbers]
        if absent:
            lines.append(
                f"Lesson {lesson.number} builds on {', '.join(absent)}, which the folder does not "
                "have."
            )
    lines.append(
        "Links to other lessons are words there. The worked answers are packed, not secret."
    )
    lines.append("What students hand in: python3 -m course grade FOLDER --out grades")
    return lines


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m course release",
        description="Make a folder of lessons for students, and a zip file of it: without worked "
        "answers and tests, and ready for `python3 -m course lab`.",
    )
    parser.add_argument("lessons", nargs="+", metavar="NN", help="the lessons")
    parser.add_argument(
        "--out", type=Path, required=True, help="the folder to make; the zip file gets its name"
    )
    return parser
