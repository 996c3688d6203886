"""Judge one student: find the answers, call them from afar, and say what the checks find.

What runs here is trusted and holds the worked answers. Of the student's files it reads text; of
what the student's code returns, plain values.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TypedDict

from course.grading.answers import Found, PristineLesson, Program, find_answer, spliced
from course.grading.distant import Elsewhere, EndedError, Nursery, answer_elsewhere
from course.grading.notebooks import Cell, NotANotebookError, read_cells
from course.grading.results import ExerciseResult, FileRead, SeedVerdict, StudentResult
from course.grading.sandbox.confine import Limits
from course.grading.statements import needed_for, statements_of
from course.grading.wire import WireError
from ehr_course.exercises.catalogue import find_exercise
from ehr_course.exercises.checklist import Checklist
from ehr_course.exercises.compare import cut
from ehr_course.exercises.examine import examine
from ehr_course.exercises.exercise import Exercise
from ehr_course.exercises.result import Outcome, Result
from ehr_course.printable import printable

_WORST_FIRST = (Outcome.NOT_ATTEMPTED, Outcome.ERROR, Outcome.NOT_YET, Outcome.REMARK)
MOST_SOURCE = 100_000
"""How many characters of an answer's code a result keeps."""

FORM_MINUTES = 10
"""How long what fills a form may run: it trains models."""


@dataclass(frozen=True)
class Submission:
    """What one student handed in.

    Attributes:
        student: the name.
        key: the name of the folder of the student's results.
        files: paths below the folder of submissions, and where each can be read.
        notes: what there is to say about how they were found.
    """

    student: str
    key: str
    files: Mapping[str, Path]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Course:
    """What every student is judged by.

    Attributes:
        lessons: the pristine lessons, by number.
        titles: of the exercises, by id.
        points: of the exercises, by id.
        seeds: make the random inputs.
        limits: of a student's code.
    """

    lessons: Mapping[str, PristineLesson]
    titles: Mapping[str, str]
    points: Mapping[str, float]
    seeds: Sequence[int]
    limits: Limits = field(default_factory=Limits)


def judge(submission: Submission, course: Course, nursery: Nursery) -> StudentResult:
    """Judge everything that one student handed in."""
    began = time.monotonic()
    cells, files = _read(submission)
    results = []
    for lesson in course.lessons.values():
        answers = {e: find_answer(e, lesson, cells) for e in lesson.exercises}
        for exercise, found in answers.items():
            results.append(_judge_one(exercise, found, answers, lesson, cells, course, nursery))
    notes = list(submission.notes)
    flags = []
    broken = [one for one in files if one.problem]
    if broken:
        flags.append("broken_file")
        notes += [f"{one.path} cannot be read: {one.problem}." for one in broken]
    return StudentResult(
        student=printable(submission.student),
        key=submission.key,
        points=sum(one.points for one in results),
        out_of=sum(one.out_of for one in results),
        exercises=tuple(results),
        files=tuple(files),
        flags=tuple(flags),
        notes=tuple(notes),
        graded_at=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - began, 2),
    )


def fingerprints(submission: Submission) -> dict[str, str]:
    """Return the SHA-256 of each file of a submission; "" for one that cannot be read."""
    found = {}
    for name, path in submission.files.items():
        try:
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError:
            found[name] = ""
    return found


def _read(submission: Submission) -> tuple[list[Cell], list[FileRead]]:
    cells: list[Cell] = []
    files = []
    seen: dict[str, list[str]] = {}
    for name, path in submission.files.items():
        problem, found = "", []
        try:
            data = path.read_bytes()
            found = read_cells(data, name)
        except OSError as error:
            data, problem = b"", f"it cannot be opened ({error.strerror})"
        except NotANotebookError as error:
            problem = str(error)
        stem, texts = name.rpartition(".")[0], [cell.source.strip() for cell in found]
        if seen.get(stem) != texts:  # the two files of a pair that is in step are one
            cells += found
        seen[stem] = texts
        ids = [one for cell in found for one in (*cell.tagged, *(e for e, _ in cell.checks))]
        lessons = tuple(sorted({one.partition(".")[0] for one in ids}))
        digest = hashlib.sha256(data).hexdigest()
        files.append(
            FileRead(path=printable(name), sha256=digest, lessons=lessons, problem=problem)
        )
    return cells, files


class _Asked(TypedDict):
    """What every result of an exercise says."""

    id: str
    title: str
    out_of: float


class _Place(TypedDict):
    """Where an answer was found, as a result says it."""

    found_by: str
    file: str
    cell: int
    runs: int | None


def _judge_one(
    exercise: str,
    found: Found | None,
    answers: Mapping[str, Found | None],
    lesson: PristineLesson,
    cells: Sequence[Cell],
    course: Course,
    nursery: Nursery,
) -> ExerciseResult:
    out_of = course.points[exercise]
    asked: _Asked = {"id": exercise, "title": course.titles[exercise], "out_of": out_of}
    if found is None:
        note = f"The submission has no cell with an answer to {exercise}, not even the empty one."
        return ExerciseResult(
            **asked, points=0.0, outcome=Outcome.NOT_ATTEMPTED, flags=("absent",), notes=(note,)
        )
    place: _Place = {
        "found_by": found.way,
        "file": printable(found.cell.file),
        "cell": found.cell.number,
        "runs": found.cell.runs,
    }
    if found.problem:
        return ExerciseResult(
            **asked,
            **place,
            points=0.0,
            outcome=Outcome.ERROR,
            message=f"The cell with your answer is no Python. {found.problem[:1].upper()}"
            f"{found.problem[1:]}.",
            source=found.cell.source[:MOST_SOURCE],
            flags=found.flags,
            notes=found.notes,
        )
    if found.is_empty:
        return ExerciseResult(
            **asked,
            **place,
            points=0.0,
            outcome=Outcome.NOT_ATTEMPTED,
            flags=found.flags,
            notes=found.notes,
        )
    program = spliced(found, lesson, cells, answers)
    verdicts, flags = _verdicts(exercise, program, course, nursery)
    outcomes = {(result.outcome.is_solved, result.misconception) for _, result in verdicts}
    notes = [*found.notes, *program.notes]
    if len(outcomes) > 1:
        flags.append("seed")
        said = ", ".join(f"{result.outcome} with seed {seed}" for seed, result in verdicts)
        notes.append(f"The verdict depends on the seed: {said}.")
    worst = min((result for _, result in verdicts), key=_rank)
    return ExerciseResult(
        **asked,
        **place,
        points=out_of if worst.outcome.is_solved else 0.0,
        outcome=worst.outcome,
        message=worst.message,
        details=worst.details,
        repeat=worst.repeat,
        misconception=worst.misconception,
        seeds=tuple(
            SeedVerdict(seed=seed, outcome=one.outcome, misconception=one.misconception)
            for seed, one in verdicts
        ),
        source=program.source[:MOST_SOURCE],
        flags=tuple(dict.fromkeys((*found.flags, *program.flags, *flags))),
        notes=tuple(cut(note, 2000) for note in notes),
    )


def _rank(result: Result) -> int:
    order = [*_WORST_FIRST, Outcome.SOLVED]
    return order.index(result.outcome)


def _verdicts(
    exercise: str, program: Program, course: Course, nursery: Nursery
) -> tuple[list[tuple[int, Result]], list[str]]:
    """What each seed says. A stopped answer would be stopped again, so no other seed is tried."""
    task = find_exercise(exercise)
    limits = course.limits
    if isinstance(
        task, Checklist
    ):  # a study: what fills the form trains models and may keep files for a while
        with tempfile.TemporaryDirectory(prefix="ehr-course-form-") as scratch:
            Path(scratch).chmod(0o777)
            limits = replace(
                limits,
                load_seconds=60.0 * FORM_MINUTES,
                cpu_seconds=120 * FORM_MINUTES,
                scratch=scratch,
            )
            return _with_seeds(task, program, course.seeds[:1], limits, nursery)
    return _with_seeds(task, program, course.seeds, limits, nursery)


def _with_seeds(
    task: Exercise | Checklist,
    program: Program,
    seeds: Sequence[int],
    limits: Limits,
    nursery: Nursery,
) -> tuple[list[tuple[int, Result]], list[str]]:
    # Where a process is quick to start, each seed gets a new one.
    groups = [[seed] for seed in seeds] if nursery.forks else [list(seeds)]
    verdicts: list[tuple[int, Result]] = []
    for group in groups:
        try:
            with answer_elsewhere(nursery, program, classes_of(task.id), limits) as answer:
                for seed in group:
                    verdicts.append((seed, _verdict(task, answer, seed)))
                    if answer.has_ended or answer.was_stopped:
                        return verdicts, ["ended"] if answer.has_ended else ["stopped"]
        except (EndedError, WireError) as error:
            return [*verdicts, (group[0], _not_loaded(task, error, ""))], ["ended"]
    return verdicts, []


def _verdict(task: Exercise | Checklist, answer: Elsewhere, seed: int) -> Result:
    if answer.error is not None:
        return _not_loaded(task, answer.error, answer.own_line(answer.error))
    given = answer.value if answer.is_value else answer
    return examine(task.id, given, seed=seed)


def _not_loaded(task: Exercise | Checklist, error: BaseException, line: str) -> Result:
    text = f"{type(error).__name__}: {error}"
    details = (("raised", text), *([("your line", line)] if line else []))
    message = "The code around your answer raised an exception, so no function was there to check."
    return Result(task.id, task.title, Outcome.ERROR, message, details)


@cache
def classes_of(exercise: str) -> dict[str, str]:
    """Return the sources of the classes that an exercise's inputs are of, by module.

    A lesson's module of exercises leads to the worked answers, so a student's process cannot
    import it; of the classes that stand there it gets their own source, and what that needs.
    """
    task = find_exercise(exercise)
    if not isinstance(task, Exercise):
        return {}
    start = "ehr_course.exercises.lessons."
    names: dict[str, set[str]] = {}
    waiting = [part for probe in (*task.probes(0), *task.extreme) for part in probe]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list | tuple | set):
            waiting.extend(part)
        elif isinstance(part, dict):
            waiting.extend(part.values())
        elif type(part).__module__.startswith(start):
            names.setdefault(type(part).__module__, set()).add(type(part).__qualname__)
    sources = {}
    for module, wanted in names.items():
        text = inspect.getsource(importlib.import_module(module))
        needed = needed_for(wanted, statements_of(text, module))
        head = "from __future__ import annotations\n"
        sources[module] = head + "\n".join(
            ast.unparse(one.node) for one in needed if "__future__" not in one.text
        )
    return sources
