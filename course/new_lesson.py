"""`python3 -m course new NUMBER SLUG`: every file of a new lesson, with one exercise that works.

The author replaces what the files say. Until then the new lesson passes the course's tests.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from string import Template

from course.build import record_times, write_tables
from course.command_error import CommandError
from course.console import say
from course.lesson_tables import up_to_date
from course.notebook import Built, LessonError, build_notebook, write_if_changed
from course.syllabus import SLUG, SLUG_RULE, Lesson, lessons_in
from ehr_course.yaml_file import YamlFile

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = Path(__file__).resolve().parent / "lesson_template"


def make_lesson(root: Path, number: str, slug: str) -> list[Path]:
    """Write a lesson's files, its entry in the syllabus and in every table, and run it.

    Args:
        root: the course's folder.
        number: one or two digits that no lesson has.
        slug: the lesson's name in file names, which no lesson has.

    Returns:
        The files that were made or changed. After an error all files are as they were.

    Raises:
        CommandError: if number or slug will not do, a file is there already, or a notebook cannot
            be built.
        InputError: if the syllabus cannot be read.
    """
    syllabus = root / "course" / "syllabus.yml"
    times = root / "course" / "book" / "lesson_times.csv"
    file = YamlFile.open(syllabus)
    lessons = lessons_in(file)
    number = _free_number(number, lessons)
    _check_slug(slug, lessons)
    earlier = [lesson for lesson in lessons if lesson.number < number]
    words = _words(number, slug, earlier)
    next_entry = file.lines.get(("lessons", len(earlier)))

    written = _written(root, number, slug)
    tables = up_to_date(root)
    sources = [*list(written)[:2], *(path for path in tables if path.suffix == ".py")]
    notebooks = [source.with_suffix(".ipynb") for source in sources]
    _check_free(root, [*written, *notebooks[:2]])
    touched = [syllabus, *written, *tables, *notebooks, times]
    with _all_or_nothing(touched):
        text = _inserted(syllabus.read_text(encoding="utf-8"), words, next_entry)
        write_if_changed(syllabus, text)
        for path, template in written.items():
            write_if_changed(path, _filled(template, words))
        write_tables(root)
        built = [_run(root, source) for source in sources]
        record_times(built[:1], times)
    return touched


def _free_number(number: str, lessons: tuple[Lesson, ...]) -> str:
    if not re.fullmatch(r"[0-9]{1,2}", number):
        raise CommandError(
            f"{number!r} is not a lesson's number.", "Write one or two digits: 21.", exit_code=2
        )
    number = number.zfill(2)
    for lesson in lessons:
        if lesson.number == number:
            last = int(lessons[-1].number)
            free = f"Numbers from {last + 1} to 99 are free." if last < 99 else "Choose another."
            raise CommandError(f"There is a lesson {lesson.name} already.", free, exit_code=2)
    return number


def _check_slug(slug: str, lessons: tuple[Lesson, ...]) -> None:
    if not SLUG.fullmatch(slug):
        raise CommandError(f"{slug!r} cannot be part of a file's name.", SLUG_RULE, exit_code=2)
    for lesson in lessons:
        if lesson.slug == slug:
            raise CommandError(
                f"There is a lesson {lesson.name} already.", "Choose another slug.", exit_code=2
            )


def _check_free(root: Path, paths: list[Path]) -> None:
    for path in paths:
        if path.exists():
            raise CommandError(
                f"{path.relative_to(root).as_posix()} is there already.",
                "Choose another number or slug, or move that file away.",
            )


def _words(number: str, slug: str, earlier: list[Lesson]) -> dict[str, str]:
    """Return what the templates leave open. The course's first lesson comes before any other."""
    before = earlier[:1]
    return {
        "number": number,
        "slug": slug,
        "title": slug.replace("_", " ").capitalize(),
        "prerequisites": ", ".join(lesson.number for lesson in before) or "none",
        "prerequisite_list": ", ".join(f'"{lesson.number}"' for lesson in before),
    }


def _written(root: Path, number: str, slug: str) -> dict[Path, str]:
    """Return the files to write, each with its template; the two to run come first."""
    exercises = root / "ehr_course" / "exercises" / "lessons"
    return {
        root / "lessons" / f"{number}_{slug}.py": "lesson.py.txt",
        root / "solutions" / f"{number}_{slug}.py": "solution.py.txt",
        exercises / f"lesson_{number}.py": "exercises.py.txt",
        exercises / f"lesson_{number}.yml": "exercises.yml.txt",
    }


def _filled(template: str, words: dict[str, str]) -> str:
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    return Template(text).substitute(words)


def _inserted(syllabus: str, words: dict[str, str], next_entry: int | None) -> str:
    """Put the lesson's entry before the line of the next one, or at the end."""
    entry = _filled("syllabus.yml.txt", words)
    if next_entry is None:
        return f"{syllabus.rstrip()}\n\n{entry}"
    lines = syllabus.splitlines(keepends=True)
    return "".join([*lines[: next_entry - 1], entry, "\n", *lines[next_entry - 1 :]])


def _run(root: Path, source: Path) -> Built:
    try:
        return build_notebook(source, source.with_suffix(".ipynb"))
    except LessonError as error:
        raise CommandError(
            f"{source.relative_to(root).as_posix()} does not run: {error}",
            "All files are as they were. Correct what the error names, and try again.",
        ) from error


@contextmanager
def _all_or_nothing(paths: Iterable[Path]) -> Iterator[None]:
    """Give every file its bytes back, and remove those that were not there, after an error."""
    before = {path: path.read_bytes() if path.exists() else None for path in paths}
    try:
        yield
    except BaseException:
        for path, content in before.items():
            if content is None:
                path.unlink(missing_ok=True)
            else:
                write_if_changed(path, content)
        raise


def main(argv: list[str] | None = None, *, root: Path = ROOT) -> int:
    """Run ``course new``; the files that it made or changed are printed."""
    parser = argparse.ArgumentParser(
        prog="python3 -m course new",
        description="Make every file of a new lesson, with one complete exercise to replace.",
    )
    parser.add_argument("number", metavar="NUMBER", help="one or two digits that no lesson has")
    parser.add_argument(
        "slug", metavar="SLUG", help="its name in file names, such as survival_analysis"
    )
    options = parser.parse_args(argv)
    for path in make_lesson(root, options.number, options.slug):
        say(path.relative_to(root).as_posix())
    say("The new lesson runs. Replace what these files say, then: python3 -m course build")
    return 0


if __name__ == "__main__":
    sys.exit(main())
