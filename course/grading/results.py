"""What a grading run writes: `result.json` of a student, `run.json`, and `grades.csv`.

This is the whole contract with whatever reads the results (pages, Gradescope, the page of the
class). A folder of grades is::

    grades/
      grades.csv                      a row a student
      run.json                        how the run was made: seeds, lessons, points, protection
      attempts.json                   what progress files said, where any was handed in
      decisions.yml                   the teacher's own, where there is one
      students/NAME/result.json       everything about one student

Every file is written whole or not at all. Texts that come from a student (code, printed output,
messages of exceptions, file names) are text and never trusted: pages escape them.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ehr_course.errors import InputError

VERSION = 1
RESULT = "result.json"
RUN = "run.json"
GRADES = "grades.csv"
STUDENTS = "students"


Kind = TypeVar("Kind", bound=BaseModel)


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SeedVerdict(_Entry):
    """What the check said with one seed.

    Attributes:
        seed: it made the random inputs.
        outcome: one of the five texts of `ehr_course.exercises.result.Outcome`.
        misconception: the name of the recognised wrong idea, of two joined by " + ", or None.
    """

    seed: int
    outcome: str
    misconception: str | None = None


class ExerciseResult(_Entry):
    """How one student did in one exercise.

    Attributes:
        id: lesson and number ("07.1").
        title: as the syllabus prints it.
        points: what the answer gets.
        out_of: what a solved answer gets.
        outcome: "solved", "solved, with a remark", "not yet", "error in your code" or "not
            attempted" (which stands for an absent answer, too: see `flags`). With several seeds
            the least favourable one.
        message: the diagnosis, in a sentence or two, to the student; "" where nothing was run.
        details: labelled lines, such as ("expected", "[3, 7, 4]"); in their order.
        repeat: the call that tries the same inputs again, or "".
        misconception: the name of the recognised wrong idea, of two joined by " + ", or None.
        seeds: what each seed said, in their order; empty where nothing was run.
        flags: what a teacher should look at, as names: see FLAGS.
        notes: the same in sentences, and what was taken along; to the teacher.
        found_by: "tag", "name" or "id": how the answer was found; None where there is none.
        file: where it stands, below the folder of submissions; None where there is none.
        cell: which cell of that file, from 1; None where there is none.
        source: the answer's code as it was graded, with what was taken along; "" where there is
            none.
        runs: the execution count of the answer's cell, as the notebook stores it: it says little
            more than that the student worked in this session for long. None where there is none.
    """

    id: str
    title: str
    points: float
    out_of: float
    outcome: str
    message: str = ""
    details: tuple[tuple[str, str], ...] = ()
    repeat: str = ""
    misconception: str | None = None
    seeds: tuple[SeedVerdict, ...] = ()
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    found_by: str | None = None
    file: str | None = None
    cell: int | None = None
    source: str = ""
    runs: int | None = None

    @property
    def is_solved(self) -> bool:
        """Whether the answer is right, with or without a remark."""
        return self.outcome.startswith("solved")


FLAGS = {
    "absent": "the submission has no answer to this exercise, not even the empty one",
    "double": "there are several different answers; the notes say which one is graded, and why",
    "seed": "the verdict depends on the seed; the least favourable one counts",
    "stopped": "the answer was stopped, because it took too long",
    "ended": "the answer ended its own process, or was ended at a limit",
    "unreadable": "the cell with the answer is no Python",
    "own_definition": "the answer uses an own definition of something that the lesson has",
    "lost_tag": "the cell's tag is gone; the answer was found in another way",
    "not_code": "the cell with the answer is not a code cell; it was read as one",
    "broken_file": "one of the student's files cannot be read",
    "excused": "the teacher has excused the student from it",
    "by_hand": "the teacher gave the points",
    "share": "of the points only a share counts, as the teacher decided",
    "not_graded": "grading this student failed; nothing is said of the answers",
}
"""Every flag, of an exercise or a student, and what it means."""


class FileRead(_Entry):
    """One file of a submission.

    Attributes:
        path: below the folder of submissions, with "/".
        sha256: of its bytes, in hexadecimal.
        lessons: the lessons of which it holds exercises.
        problem: why it cannot be read, or "".
    """

    path: str
    sha256: str
    lessons: tuple[str, ...] = ()
    problem: str = ""


class StudentResult(_Entry):
    """Everything about one student: the content of a `result.json`.

    Attributes:
        version: of this form.
        student: the name, from a sub-folder or a file's name.
        key: the name of this student's folder below `students/`.
        points: the sum over the exercises.
        out_of: the sum that can be reached.
        exercises: one for each exercise of each graded lesson, in the syllabus's order.
        files: what the submission holds.
        flags: those of the student alone; `all_flags` has those of the exercises too.
        notes: the student's, in sentences.
        graded_at: when (UTC, ISO 8601).
        seconds: how long it took.
    """

    version: int = VERSION
    student: str
    key: str
    points: float
    out_of: float
    exercises: tuple[ExerciseResult, ...]
    files: tuple[FileRead, ...] = ()
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    graded_at: str = ""
    seconds: float = 0.0

    @property
    def all_flags(self) -> tuple[str, ...]:
        """The student's flags, then those of the exercises as "07.1 double"."""
        own = (f"{one.id} {flag}" for one in self.exercises for flag in one.flags)
        return (*self.flags, *own)


class Protection(_Entry):
    """What holds a student's code on this machine: each in a few words, "" where nothing does.

    Attributes:
        files: what keeps it from reading and writing files.
        network: what keeps it from the network.
        processes: what keeps it from starting and ending processes.
        memory: what bounds its memory.
        time: what bounds its time.
    """

    files: str = ""
    network: str = ""
    processes: str = ""
    memory: str = ""
    time: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of what nothing keeps."""
        return tuple(name for name, how in self.model_dump().items() if not how)


class RunAbout(_Entry):
    """How a run was made: the content of `run.json`.

    Attributes:
        version: of this form.
        seeds: the seeds, in their order.
        lessons: the numbers of the graded lessons.
        points: what each exercise gives, by id, in the syllabus's order.
        limits: of time and memory, by name.
        course: a fingerprint of the exercises and lessons that were graded with.
        protection: what held the students' code.
        students: the keys of those who handed something in, in the order of the table.
    """

    version: int = VERSION
    seeds: tuple[int, ...]
    lessons: tuple[str, ...]
    points: dict[str, float]
    limits: dict[str, float] = Field(default_factory=dict)
    course: str = ""
    protection: Protection = Protection()
    students: tuple[str, ...] = ()


def key_of(student: str, taken: Iterable[str] = ()) -> str:
    """Return a folder's name for a student: letters, digits and a few signs, and none twice.

    >>> key_of("Åsa Öst/../x"), key_of("ann", ["ann"]), key_of("..")
    ('Åsa_Öst_.._x', 'ann-2', 'student')
    """
    student = unicodedata.normalize("NFC", student)  # macOS takes an accent for a sign of its own
    plain = re.sub(r"[^\w.@+-]+", "_", student)[:80].strip("._") or "student"
    taken = {name.casefold() for name in taken}
    number, name = 1, plain
    while name.casefold() in taken:
        number += 1
        name = f"{plain}-{number}"
    return name


def result_file(folder: Path, key: str) -> Path:
    """Return where a student's result is, below a folder of grades."""
    return folder / STUDENTS / key / RESULT


def write_result(folder: Path, result: StudentResult) -> None:
    """Write a student's `result.json`, whole or not at all."""
    write_whole(result_file(folder, result.key), as_json(result))


def write_run(folder: Path, about: RunAbout) -> None:
    """Write `run.json`, whole or not at all."""
    write_whole(folder / RUN, as_json(about))


def read_run(folder: Path) -> RunAbout:
    """Read how a run was made.

    Raises:
        InputError: if there is no such file, or it is not of this form.
    """
    return _read(folder / RUN, RunAbout)


def read_results(folder: Path) -> list[StudentResult]:
    """Read every student's result below a folder of grades, in the order of their names.

    Raises:
        InputError: if one is not of this form.
    """
    files = (folder / STUDENTS).glob(f"*/{RESULT}")
    return sorted((_read(file, StudentResult) for file in files), key=lambda one: one.student)


def grades_table(results: Sequence[StudentResult]) -> str:
    """Return `grades.csv`: student, points of each exercise, total, what it is out of, flags.

    A name that a spreadsheet would take for a formula gets an apostrophe before it.
    """
    ids = list(dict.fromkeys(one.id for result in results for one in result.exercises))
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["student", *ids, "total", "out of", "flags"])
    for result in results:
        points = {one.id: _number(one.points) for one in result.exercises}
        row = [harmless(result.student), *(points.get(name, "") for name in ids)]
        flags = "; ".join(result.all_flags)
        writer.writerow([*row, _number(result.points), _number(result.out_of), flags])
    return file.getvalue()


def write_grades(folder: Path, results: Sequence[StudentResult]) -> None:
    """Write `grades.csv`, whole or not at all."""
    write_whole(folder / GRADES, grades_table(results))


def write_whole(path: Path, text: str) -> None:
    """Write a file under another name beside it, then give it its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with unfinished.open("w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def as_json(entry: BaseModel) -> str:
    """Return an entry as JSON, in ASCII."""
    # JSON has no lone surrogates; a student's text may hold them.
    text = json.dumps(entry.model_dump(mode="python"), ensure_ascii=True, indent=1)
    return text + "\n"


def of_json(text: str | bytes, kind: type[Kind]) -> Kind:
    """Read what `as_json` has written.

    Raises:
        ValueError: if it is something else.
    """
    return kind.model_validate(json.loads(text))


def _read(path: Path, kind: type[Kind]) -> Kind:
    try:
        return of_json(path.read_text(encoding="utf-8"), kind)
    except OSError as error:
        raise InputError(path, "", f"it cannot be read ({error.strerror})", _REMEDY) from None
    except (ValueError, ValidationError) as error:
        problem = f"it is not what this version writes ({str(error).splitlines()[0]})"
        raise InputError(path, "", problem, _REMEDY) from None


_REMEDY = "Grade again, into a new folder: python3 -m course grade."


def _number(points: float) -> str:
    return f"{points:g}"


def harmless(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text
