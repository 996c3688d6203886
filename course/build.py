"""`python3 -m course build`: from the lessons' sources to their notebooks, all or some.

It first writes the tables of lessons, where the syllabus has changed. Then it runs
``lessons/NN_name.py`` and ``solutions/NN_name.py`` from top to bottom, each in a fresh kernel, and
writes ``NN_name.ipynb`` beside it. A rebuild of an unchanged source gives the same bytes.
"""

from __future__ import annotations

import argparse
import base64
import csv
import os
import sys
from collections.abc import Iterable
from pathlib import Path

import nbformat

from course.lesson_tables import stale, up_to_date
from course.notebook import (
    WHAT_HOLDS,
    Built,
    LessonError,
    build_notebook,
    differences,
    write_if_changed,
)
from course.repository import FILES, with_badges
from course.widget_states import file_of

ROOT = Path(__file__).resolve().parent.parent
COURSE_MAP = Path("course", "book", "images", "course_map.png")
"""The drawing of the whole course, which README and book show: that of the first lesson."""

COURSE_MAP_LESSON = Path("lessons", "00_start_here.ipynb")


def sources(root: Path = ROOT, names: Iterable[str] = ()) -> list[Path]:
    """List the sources of lessons, of What holds, and of solutions, in order.

    Args:
        root: the course's folder.
        names: which ones; each is a number ("7", "07"), a name ("07_tokenization") or a path
            ("solutions/07_tokenization.py"). Without names: all.

    Raises:
        LessonError: if a name fits no source.
    """
    everything = [
        source
        for folder in ("lessons", "solutions")
        for source in sorted((root / folder).glob("*.py"))
        if source.stem == WHAT_HOLDS or source.name[:1].isdecimal()
    ]
    chosen = set()
    for name in names:
        fitting = {source for source in everything if _fits(source, name, root)}
        if not fitting:
            known = ", ".join(sorted({source.stem for source in everything}))
            raise LessonError(f"{name!r} is not a lesson. The lessons are: {known or 'none yet'}.")
        chosen |= fitting
    return [source for source in everything if not names or source in chosen]


def _fits(source: Path, name: str, root: Path) -> bool:
    if name.isdecimal():
        return source.name.split("_")[0] == name.zfill(2)
    return name in (source.stem, source.name, source.relative_to(root).as_posix())


def check_pairs(chosen: list[Path], root: Path) -> int:
    """Print every pair that disagrees; return how many do."""
    wrong = 0
    for source in chosen:
        found = differences(source, source.with_suffix(".ipynb"))
        if found:
            wrong += 1
            print(f"{source.relative_to(root).as_posix()} and its notebook disagree:")
            for difference in found[:5]:
                print(f"  {difference}")
            if len(found) > 5:
                print(f"  and {len(found) - 5} more")
    agreeing = len(chosen) - wrong
    print(f"{agreeing} of {len(chosen)} pairs agree.")
    if wrong:
        print("Run: python3 -m course build")
    return wrong


_STALE_TABLE = "table of lessons is not the syllabus's"


def check_tables(root: Path) -> int:
    """Print every file whose table of lessons or badges are out of date; return how many are."""
    files = stale(root)
    for file in files:
        name, text = file.relative_to(root), file.read_text(encoding="utf-8")
        stale_badges = name in FILES and with_badges(root, name, text) != text
        problem = "badges are not those of pyproject.toml" if stale_badges else _STALE_TABLE
        print(f"{name.as_posix()}: its {problem}.")
    if files:
        print("Run: python3 -m course build 00")
    return len(files)


def write_tables(root: Path) -> list[Path]:
    """Write the tables of lessons where they are not the syllabus's; return the files changed."""
    return [file for file, text in up_to_date(root).items() if write_if_changed(file, text)]


def record_times(built: list[Built], file: Path) -> None:
    """Write the table of lesson times that the book shows; other lessons' rows stay."""
    rows = {}
    if file.exists():
        with file.open(encoding="utf-8", newline="") as lines:
            rows = {row["lesson"]: row for row in csv.DictReader(lines)}
    for one in built:
        if one.notebook.parent.name == "lessons":
            seconds = f"{one.seconds:.0f}"
            lesson = one.notebook.stem
            rows[lesson] = {"lesson": lesson, "seconds": seconds, "cores": str(os.cpu_count())}
    text = "lesson,seconds,cores\n" + "".join(
        f"{row['lesson']},{row['seconds']},{row['cores']}\n" for _, row in sorted(rows.items())
    )
    write_if_changed(file, text)


def course_map(notebook: Path) -> bytes:
    """Return the PNG of the drawing of the whole course, as the first lesson stores it."""
    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.source.startswith("draw_course_map("):
            return base64.b64decode(cell.outputs[0].data["image/png"])
    raise LessonError(f"{notebook.name} has no cell that begins with 'draw_course_map('")


def main(argv: list[str] | None = None, *, root: Path = ROOT) -> int:
    """Run ``course build``; return the exit status: 0, or 1 where something does not hold."""
    parser = argparse.ArgumentParser(
        prog="python3 -m course build",
        description="Run lessons and solutions from top to bottom and store their notebooks.",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="LESSON",
        help="a number (7), a name or a path; without one, all",
    )
    parser.add_argument(
        "--check", action="store_true", help="run nothing; compare sources and notebooks"
    )
    parser.add_argument(
        "--record-times", action="store_true", help="write course/book/lesson_times.csv"
    )
    options = parser.parse_args(argv)
    try:
        chosen = sources(root, options.names)
    except LessonError as error:
        print(error, file=sys.stderr)
        return 1
    if not chosen:
        print(f"There are no lessons in {root / 'lessons'}.", file=sys.stderr)
        return 1
    if options.check:
        disagreements = check_pairs(chosen, root) + check_tables(root)
        return 1 if disagreements else 0

    changed = write_tables(root)
    chosen += [file for file in changed if file.suffix == ".py" and file not in chosen]
    built, failed = [], 0
    for source in chosen:
        target = source.with_suffix(".ipynb")
        name = target.relative_to(root).as_posix()
        # A lesson's time is that of its cells: the pictures for the book are not drawn then.
        drawn = source.parent.name == "lessons" and not options.record_times
        pictures = file_of(root, source.stem) if drawn else None
        try:
            one = build_notebook(source, target, pictures)
        except LessonError as error:
            failed += 1
            print(f"{source.relative_to(root).as_posix()}, {error}", file=sys.stderr)
            print(f"  {name} is left as it was.", file=sys.stderr)
            continue
        if target == root / COURSE_MAP_LESSON:
            write_if_changed(root / COURSE_MAP, course_map(target))
        built.append(one)
        change = "changed" if one.changed else "unchanged"
        print(f"{name:40} {one.seconds:6.1f} s  {change}", flush=True)
    if options.record_times:
        record_times(built, root / "course" / "book" / "lesson_times.csv")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
