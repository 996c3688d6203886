"""`course report`: the pages of graded classes again, without grading, and a table of a term.

It is for a teacher who has changed the points, excused somebody, or corrected a verdict, and for
the end of a term.
"""

from __future__ import annotations

import argparse
import csv
import io
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from course.console import say
from course.grading.attempts import read_checks
from course.grading.decisions import DECISIONS, decided, read_decisions
from course.grading.insight import Insight
from course.grading.pages import CLASS_PAGE, write_pages
from course.grading.points import points_of, repointed
from course.grading.results import (
    GRADES,
    RUN,
    STUDENTS,
    RunAbout,
    StudentResult,
    harmless,
    read_results,
    read_run,
    write_grades,
    write_run,
    write_whole,
)
from course.syllabus import load_syllabus
from ehr_course.errors import InputError

_MOST_IDEAS = 3
_HEAD = "student,"


def main(arguments: list[str]) -> int:
    """Write the tables and pages of some folders of grades again, say what they show, return 0.

    Args:
        arguments: what stands after `course report` on the command line.

    Raises:
        InputError: if a folder holds no grades, or a file beside them cannot be used.
    """
    options = _parser().parse_args(arguments)
    if options.points is not None and len(options.grades) > 1:
        problem = "one file of points is for one folder of grades"
        raise InputError("--points", "", problem, "Run the command once for each folder.")
    if options.term is not None:
        _check_term(options.term)
    term = []
    for folder in options.grades:
        about = read_run(folder)
        if options.points is not None:
            about = about.model_copy(update={"points": _points(about, options.points)})
        students, found = report(folder, about)
        for line in _about(folder, found):
            say(line)
        term.append((str(folder), students, sum(about.points.values())))
    if options.term is not None:
        table, absent = term_table(term)
        write_whole(options.term, table)
        say(f"The table of the term: {options.term}")
        for line in absent:
            say(line)
    return 0


def report(folder: Path, about: RunAbout | None = None) -> tuple[list[StudentResult], Insight]:
    """Write `grades.csv` and all pages from the results that a folder of grades holds.

    Args:
        folder: of grades.
        about: how they were made, with the points to give; what `run.json` says where None.

    Returns:
        The students as the table has them, decisions included, and what the class page shows.

    Raises:
        InputError: if the folder holds no finished grades, or its decisions cannot be used.
    """
    known = read_run(folder)
    about = known if about is None else about
    by_key = {one.key: one for one in read_results(folder)}
    keys = about.students or tuple(by_key)
    missing = [key for key in keys if key not in by_key]
    if missing:
        problem = f"{len(missing)} of {len(keys)} students are not graded yet"
        remedy = "Go on with the run: python3 -m course grade SUBMISSIONS --resume"
        raise InputError(folder, "", problem, remedy)
    graded = [repointed(by_key[key], about.points) for key in keys]
    decisions = read_decisions(folder / DECISIONS, graded)
    if about != known:  # everything else follows from it, so a run that is stopped is mended by
        write_run(folder, about)  # the next one
    students = [
        decided(one, decisions[one.key]) if one.key in decisions else one for one in graded
    ]
    write_grades(folder, students)
    found = write_pages(folder, students, about, read_checks(folder))
    return students, found


def term_table(
    weeks: Sequence[tuple[str, Sequence[StudentResult], float]],
) -> tuple[str, list[str]]:
    """Put several graded classes into one table.

    Args:
        weeks: of each folder of grades its name, its students, and what one can reach there.

    Returns:
        The table as CSV: student, the points of each folder, total, out of; and what to tell the
        teacher of those who are not in every folder. They get 0 there; a cell is then empty.
    """
    names: dict[str, str] = {}
    found: dict[str, dict[str, StudentResult]] = {}
    for week, students, _ in weeks:
        for one in students:
            known = unicodedata.normalize("NFC", one.student).casefold()
            names.setdefault(known, one.student)
            found.setdefault(known, {})[week] = one
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["student", *(week for week, _, _ in weeks), "total", "out of"])
    absent = []
    for known in sorted(names):
        own = found[known]
        cells = [f"{own[week].points:g}" if week in own else "" for week, _, _ in weeks]
        total = sum(one.points for one in own.values())
        out_of = sum(own[week].out_of if week in own else most for week, _, most in weeks)
        writer.writerow([harmless(names[known]), *cells, f"{total:g}", f"{out_of:g}"])
        lacking = [week for week, _, _ in weeks if week not in own]
        if lacking:
            absent.append(f"{names[known]} is not in {' and not in '.join(lacking)}: 0 points.")
    return file.getvalue(), absent


def _points(about: RunAbout, file: Path) -> dict[str, float]:
    return points_of([one for one in load_syllabus() if one.number in about.lessons], file)


def _check_term(file: Path) -> None:
    """Refuse to write over something that is not a table of a term."""
    if file.exists() and not (
        file.is_file() and file.read_bytes()[: len(_HEAD)] == _HEAD.encode()
    ):
        raise InputError(
            file, "", "it exists already, and is not a table of a term", "Choose another name."
        )


def _about(folder: Path, found: Insight) -> list[str]:
    count = len(found.students)
    lessons = ", ".join(found.about.lessons)
    reached = sum(one.points for one in found.students)
    out_of = sum(one.out_of for one in found.students)
    who = "1 student" if count == 1 else f"{count} students"
    lines = [f"{who}, lesson {lessons}: {reached:g} of {out_of:g} points."]
    for one in found.ideas[:_MOST_IDEAS]:
        idea = one.name.replace("_", " ")
        lines.append(f"  {len(one.students)} of {count}: {idea} ({one.exercise} {one.title})")
    lines.append(f"The table: {folder / GRADES}")
    lines.append(f"The class: {folder / CLASS_PAGE}, which leads to a page for each student")
    if (folder / DECISIONS).exists():
        lines.append(f"Your decisions, from {folder / DECISIONS}, are in them.")
    return lines


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m course report",
        description="Write the table and the pages of a graded class again, from what the grader "
        "found. No answer is run.",
        epilog=f"Excuses, points given by hand and shares for lateness stand in {DECISIONS} in "
        "the folder of grades, by the students' names as grades.csv has them: "
        '{excused: ["07.6"] or all, points: {"07.2": 1.5}, share: 0.9, note: A day late.}. '
        f"{STUDENTS}/NAME/result.json keeps what the grader found.",
    )
    parser.add_argument(
        "grades", nargs="+", type=Path, help=f"a folder that `course grade` made; it has {RUN}"
    )
    parser.add_argument(
        "--points",
        type=Path,
        metavar="FILE",
        help='a YAML file of points, "07.1": 2 (default: those of the last time)',
    )
    parser.add_argument(
        "--term",
        type=Path,
        metavar="FILE",
        help="write a table of all these folders, with a row for each student",
    )
    return parser
