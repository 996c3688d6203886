"""The pages of a graded class: one for the class, and one for each student.

Each is one HTML file that needs no network and runs no script. Whatever a student wrote is escaped
by the template engine, and what cannot be printed is shown as its code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from course.grading.answers import WAYS
from course.grading.gradescope import write_gradescope
from course.grading.insight import Insight, insight, pristine
from course.grading.results import (
    FLAGS,
    STUDENTS,
    ExerciseResult,
    RunAbout,
    StudentResult,
    write_whole,
)
from ehr_course.exercises.result import Outcome
from ehr_course.printable import printable

CLASS_PAGE = "class.html"
STUDENT_PAGE = "index.html"

_MARKS = {
    Outcome.SOLVED: ("✔", "good"),
    Outcome.REMARK: ("✔", "good"),
    Outcome.NOT_YET: ("✘", "open"),
    Outcome.ERROR: ("⚠", "bad"),
    Outcome.NOT_ATTEMPTED: ("○", "none"),
}


def write_pages(
    folder: Path,
    results: Sequence[StudentResult],
    about: RunAbout,
    checks: Mapping[str, Mapping[str, int]] | None = None,
) -> Insight:
    """Write the page of the class, a page and a Gradescope file for each student.

    Args:
        folder: the folder of grades.
        results: of all students.
        about: how they were made.
        checks: what progress files say, as `attempts.checks_handed_in` returns it.

    Returns:
        What the page of the class shows.
    """
    found = insight(results, about, checks)
    for result in results:
        place = folder / STUDENTS / result.key
        write_whole(place / STUDENT_PAGE, student_page(result, about))
        write_gradescope(place, result)
    write_whole(folder / CLASS_PAGE, class_page(found))
    return found


def class_page(found: Insight) -> str:
    """Return the page of the class, as HTML."""
    return _filled(
        "class.html",
        found=found,
        about=found.about,
        students={one.key: one for one in found.students},
        titles={one.id: one.title for one in found.exercises},
        folder=STUDENTS,
        page=STUDENT_PAGE,
    )


def student_page(result: StudentResult, about: RunAbout) -> str:
    """Return the page of one student, as HTML. It says nothing of any other student."""
    shown = {one.id for one in result.exercises if one.source or one.message}
    shown |= {one.id for one in result.exercises if set(one.flags) - {"absent", "not_graded"}}
    missing = not_found(result)
    return _filled("student.html", result=result, about=about, shown=shown, missing=missing)


def not_found(result: StudentResult) -> list[str]:
    """Say in sentences what was looked for in a submission and is not there."""
    said = []
    for one in result.exercises:
        if "not_graded" in one.flags:
            continue
        if "absent" in one.flags:
            _, name = pristine(one.id.partition(".")[0]).exercises[one.id]
            said.append(
                f"{one.id} {one.title}: no cell has the tag exercise:{one.id}, no cell defines "
                f'{name}, and none calls check("{one.id}", ...).'
            )
        elif one.outcome == Outcome.NOT_ATTEMPTED:
            place = f" ({place_of(one)})" if one.file else ""
            said.append(f"{one.id} {one.title}: only the lesson's empty answer is there{place}.")
    said += [
        f"{file.path} cannot be read: {file.problem}." for file in result.files if file.problem
    ]
    if not result.files:
        said.append("There is no file of this student.")
    return said


def place_of(one: ExerciseResult) -> str:
    """Return where an answer stands, in words."""
    return f"cell {one.cell} of {one.file}" if one.cell else str(one.file)


def _filled(name: str, **values: Any) -> str:
    """A page, filled in."""
    pages = resources.files("course.grading") / "templates"
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
        loader=jinja2.FunctionLoader(lambda page: (pages / page).read_text(encoding="utf-8")),
    )
    environment.filters |= {
        "number": lambda value: f"{value:g}",
        "percent": percent,
        "mark": lambda outcome: _MARKS.get(outcome, ("", ""))[0],
        "colour": lambda outcome: _MARKS.get(outcome, ("", "none"))[1],
        "place": place_of,
        "first_up": lambda text: f"{text[:1].upper()}{text[1:]}",
    }
    return environment.get_template(name).render(flags=FLAGS, ways=WAYS, **values)


def percent(count: int, of: int) -> str:
    """Return a share in whole percent; only none and all are 0% and 100%.

    >>> percent(12, 30), percent(0, 30), percent(299, 300), percent(1, 300)
    ('40%', '0%', '99%', '1%')
    """
    if of == 0 or count in (0, of):
        return "100%" if of and count else "0%"
    return f"{min(99, max(1, round(100 * count / of)))}%"


def _shown(value: Any) -> Any:
    """A student's text with the signs that have no picture written out."""
    if not isinstance(value, str) or hasattr(value, "__html__"):  # or made by a macro
        return value
    return printable(value.replace("\r\n", "\n"), keep="\n\t\N{NO-BREAK SPACE}")
