"""The tables of all lessons, in README.md and in lesson 00, written from the syllabus.

A table stands between two HTML comments, which no reader sees. `course build` and `course new`
write what is between them, wherever the two stand in README.md or in a lesson. They write the
badges of README.md and of the book's first page too, in the same way.
"""

from __future__ import annotations

import os
from pathlib import Path

from course.command_error import CommandError
from course.repository import FILES, with_badges
from course.syllabus import Lesson, load_syllabus

BEGIN = "<!-- lessons: python3 -m course build writes them from course/syllabus.yml -->"
END = "<!-- end of the lessons -->"


def up_to_date(root: Path) -> dict[Path, str]:
    """Return what each file with a table or with badges should hold, by its full path.

    Args:
        root: the course's folder.

    Raises:
        CommandError: if a file has not exactly one pair of the two comments.
        InputError: if the syllabus cannot be read.
    """
    texts = {
        file: file.read_text(encoding="utf-8")
        for file in [*root.glob("README.md"), *sorted(root.glob("lessons/[0-9]*.py"))]
    }
    texts = {file: text for file, text in texts.items() if BEGIN in text or END in text}
    if texts:
        lessons = load_syllabus(root / "course" / "syllabus.yml")
        texts = {file: _with_table(root, file, text, lessons) for file, text in texts.items()}
    for file in FILES:
        path = root / file
        if path.is_file():
            text = texts.get(path) or path.read_text(encoding="utf-8")
            shown = with_badges(root, file, text)
            if path in texts or shown != text:
                texts[path] = shown
    return texts


def stale(root: Path) -> list[Path]:
    """Return the files whose table is not the syllabus's, or whose badges are out of date."""
    should = up_to_date(root)
    return [file for file in should if should[file] != file.read_text(encoding="utf-8")]


def _with_table(root: Path, file: Path, text: str, lessons: tuple[Lesson, ...]) -> str:
    prefix = "# " if file.suffix == ".py" else ""
    begin, end = (f"{prefix}{comment}\n" for comment in (BEGIN, END))
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise CommandError(
            f"{file.relative_to(root).as_posix()} has no clear place for the table of lessons.",
            f"These two lines must stand around it, once each:\n{begin}{end}".rstrip(),
        )
    rows = ["| lesson | minutes | you build |", "|---|---|---|"]
    for lesson in lessons:
        notebook = root / "lessons" / f"{lesson.name}.ipynb"
        link = Path(os.path.relpath(notebook, file.parent)).as_posix()
        name = f"[{lesson.number} {lesson.title}]({link})"
        rows.append(f"| {name} | {lesson.minutes} | {lesson.builds} |")
    table = "".join(f"{prefix}{row}".rstrip() + "\n" for row in ["", *rows, ""])
    return text[: text.index(begin)] + begin + table + text[text.index(end) :]
