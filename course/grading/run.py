"""A run of the grader: each student is judged in a process of its own, and written down at once.

A run that was stopped goes on where it was: a student whose files and whose way of grading are the
same is not graded again.
"""

from __future__ import annotations

import contextlib
import hashlib
import multiprocessing
import os
import re
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING

from course.grading import results
from course.grading.answers import PristineLesson, read_lesson
from course.grading.distant import Nursery
from course.grading.judge import Course, Submission, fingerprints, judge
from course.grading.points import points_of, repointed
from course.grading.results import ExerciseResult, Protection, RunAbout, StudentResult
from course.grading.sandbox.confine import Limits, Walls, user_to_become
from course.grading.submissions import find_submissions
from course.syllabus import Lesson, load_syllabus
from ehr_course.errors import InputError
from ehr_course.exercises.examine import prepare
from ehr_course.exercises.result import Outcome
from ehr_course.new_folder import check_new_folder

if TYPE_CHECKING:  # Windows has no ForkContext
    from multiprocessing.context import ForkContext, SpawnContext

ROOT = Path(__file__).resolve().parent.parent.parent

_FOR_PICTURES = ("ehr_course.plots", "ehr_course.widgets", "matplotlib", "IPython")

MOST_SECONDS = 3600.0
"""How long one student may take before the rest is left ungraded."""


@dataclass(frozen=True)
class Wishes:
    """What a teacher asks for.

    Attributes:
        submissions: the folder of submissions, or a zip file.
        out: the folder of grades.
        lessons: the numbers of the lessons to grade; all that the submissions hold where empty.
        points: a file of points, or None.
        seeds: how many seeds.
        seed: the first seed, or None to draw them.
        jobs: how many students at a time.
        resume: whether to go on with a run that was stopped.
        limits: of a student's code.
        forks: whether students' processes are forks; None where the system decides.
    """

    submissions: Path
    out: Path
    lessons: tuple[str, ...] = ()
    points: Path | None = None
    seeds: int = 3
    seed: int | None = None
    jobs: int = 2
    resume: bool = False
    limits: Limits = field(default_factory=Limits)
    forks: bool | None = None


@dataclass(frozen=True)
class Graded:
    """What a run did.

    Attributes:
        results: of every student.
        about: how the run was made.
        kept: how many students were graded by an earlier run.
    """

    results: tuple[StudentResult, ...]
    about: RunAbout
    kept: int = 0


def grade(
    wishes: Wishes, tell: Callable[[StudentResult, int, int], None] = lambda *_: None
) -> Graded:
    """Grade a folder of submissions.

    Args:
        wishes: what is asked for.
        tell: called after each student, with how many are done of how many.

    Raises:
        InputError: if the submissions, the points or the folder of grades cannot be used.
    """
    _check_out(wishes)
    with tempfile.TemporaryDirectory(prefix="ehr-course-grade-") as scratch:
        syllabus = load_syllabus()
        unpacked, empty = Path(scratch, "unpacked"), Path(scratch, "empty")
        unpacked.mkdir(mode=0o700)
        empty.mkdir(mode=0o755)
        names = [lesson.name for lesson in syllabus]
        submissions = find_submissions(wishes.submissions, names, unpacked)
        lessons = _lessons(wishes, syllabus, submissions)
        about = _about(wishes, lessons)
        course = _course(lessons, about, wishes.limits)
        wishes.out.mkdir(parents=True, exist_ok=True)
        done = _done_before(wishes, about, submissions)
        walls = _walls([wishes.submissions, wishes.out, unpacked])
        forks = sys.platform == "linux" if wishes.forks is None else wishes.forks
        Path(scratch).chmod(0o711)
        with Nursery(
            walls,
            _imports(course.lessons.values()),
            environment=_environment(),
            folder=str(empty),
            forks=forks,
        ) as nursery:
            line, held = nursery.start(wishes.limits)
            line.close()
            keys = tuple(one.key for one in submissions)
            held_by = {"protection": Protection(**held), "students": keys}
            about = about.model_copy(update=held_by)
            results.write_run(wishes.out, about)
            for exercise in about.points:
                for seed in about.seeds:
                    prepare(exercise, seed)  # once, for all students
            waiting = [one for one in submissions if one.key not in done]
            for result in _judged(waiting, course, nursery, wishes.jobs, forks):
                results.write_result(wishes.out, result)
                done[result.key] = result
                tell(result, len(done), len(submissions))
        kept = len(submissions) - len(waiting)
    made = tuple(done[one.key] for one in submissions)
    results.write_grades(wishes.out, made)
    return Graded(made, about, kept)


def _check_out(wishes: Wishes) -> None:
    if not wishes.submissions.exists():
        raise InputError(
            wishes.submissions, "", "there is no such folder of submissions", "Check the path."
        )
    out, given = wishes.out.resolve(), wishes.submissions.resolve()
    if out == given or out.is_relative_to(given) or given.is_relative_to(out):
        problem = "the folder of grades and that of the submissions lie in one another"
        raise InputError(wishes.out, "", problem, "Name a folder beside it.")
    if wishes.resume and (wishes.out / results.RUN).is_file():
        return
    check_new_folder(wishes.out)


def _lessons(
    wishes: Wishes, syllabus: Sequence[Lesson], submissions: Sequence[Submission]
) -> list[Lesson]:
    known = {lesson.number: lesson for lesson in syllabus}
    numbers = [number.zfill(2) for number in wishes.lessons]
    for number in numbers:
        if number not in known:
            problem = f"there is no lesson {number!r}"
            raise InputError("--lessons", "", problem, f"The lessons are {', '.join(known)}.")
    if not numbers:
        numbers = sorted(_held(submissions) & known.keys())
    if not numbers:
        raise InputError(
            wishes.submissions,
            "",
            "no file in it holds an exercise of the course",
            "Name the lessons to grade everybody in: --lessons 07 08",
        )
    return [lesson for lesson in syllabus if lesson.number in numbers]


def _held(submissions: Sequence[Submission]) -> set[str]:
    """The numbers of the lessons of which any file has an exercise, by their plain text."""
    sign = re.compile(rb"""(?:exercise:|check\(\s*\\?["'])([0-9]{2})\.[0-9]+""")
    found: set[str] = set()
    for submission in submissions:
        for path in submission.files.values():
            with contextlib.suppress(OSError):
                found |= {match.decode() for match in sign.findall(path.read_bytes())}
    return found


def _about(wishes: Wishes, lessons: Sequence[Lesson]) -> RunAbout:
    points = points_of(lessons, wishes.points)
    limits = {
        name: float(value) for name, value in asdict(wishes.limits).items() if name != "scratch"
    }
    earlier = None
    if wishes.resume and (wishes.out / results.RUN).is_file():
        earlier = results.read_run(wishes.out)
    if earlier is not None and wishes.points is None and earlier.points.keys() == points.keys():
        points = earlier.points
    first = secrets.randbelow(1_000_000) if wishes.seed is None else wishes.seed
    seeds = tuple(first + 1000 * n for n in range(wishes.seeds))
    if earlier is not None and wishes.seed is None and len(earlier.seeds) == wishes.seeds:
        seeds = earlier.seeds
    return RunAbout(
        seeds=seeds,
        lessons=tuple(lesson.number for lesson in lessons),
        points=points,
        limits=limits,
        course=_fingerprint(lessons),
    )


# What only shows results: a change there asks for no new grading.
_PAGES = {
    *("attempts.py", "autograder.py", "decisions.py", "gradescope.py", "insight.py"),
    *("likeness.py", "pages.py", "report.py"),
}


def _fingerprint(lessons: Sequence[Lesson]) -> str:
    """A number that changes when anything does on which a verdict on these lessons depends."""
    engine, folder = ROOT / "ehr_course" / "exercises", ROOT / "ehr_course/exercises/lessons"
    grading = (ROOT / "course" / "grading").rglob("*.py")
    files = [*engine.glob("*.py"), *(file for file in grading if file.name not in _PAGES)]
    files += [file for file in folder.glob("*.py") if not file.name.startswith("lesson_")]
    for lesson in lessons:
        files += [folder / f"lesson_{lesson.number}{ending}" for ending in (".py", ".yml")]
        files += [ROOT / place / f"{lesson.name}.py" for place in ("lessons", "solutions")]
    digest = hashlib.sha256()
    for file in sorted(file for file in files if file.is_file()):
        digest.update(f"{file.relative_to(ROOT).as_posix()}\n".encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _course(lessons: Sequence[Lesson], about: RunAbout, limits: Limits) -> Course:
    read = {one.number: read_lesson(ROOT / "lessons" / f"{one.name}.py") for one in lessons}
    titles = {exercise.id: exercise.title for one in lessons for exercise in one.exercises}
    return Course(read, titles, about.points, about.seeds, limits)


def _imports(lessons: Iterable[PristineLesson]) -> list[str]:
    """The lessons' import statements, each once, without those for pictures.

    A process that needs one of those imports it itself.
    """
    found = (
        statement.text
        for lesson in lessons
        for cell in lesson.cells
        for statement in cell.statements
        if statement.is_import and not any(part in statement.text for part in _FOR_PICTURES)
    )
    return list(dict.fromkeys(found))


def _walls(secret: Sequence[Path]) -> Walls:
    """What a student's process may read: Python, its libraries, and the course without answers."""
    library = ROOT / "ehr_course"
    readable = [Path(sys.prefix), Path(sys.base_prefix), library, ROOT / "course" / "checkpoints"]
    hidden = [
        library / "exercises" / "lessons",
        library / "_course",
        *(ROOT / name for name in ("solutions", "build", "dist", ".git", "tests")),
        *(path.resolve() for path in secret),
    ]
    return Walls(tuple(readable), tuple(hidden), user_to_become(readable))


def _environment() -> dict[str, str]:
    """The variables of the students' processes: none that could tell or lead anywhere."""
    kept = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "TEMP", "TMP")
    return {name: os.environ[name] for name in kept if name in os.environ} | {
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "MPLBACKEND": "Agg",
        "HOME": "/",
    }


def _done_before(
    wishes: Wishes, about: RunAbout, submissions: Sequence[Submission]
) -> dict[str, StudentResult]:
    """The results that still hold: graded alike, from the same files."""
    if not (wishes.resume and (wishes.out / results.RUN).is_file()):
        return {}
    earlier = results.read_run(wishes.out)
    unlike = {"protection": Protection(), "students": (), "points": {}}
    if earlier.model_copy(update=unlike) != about.model_copy(update=unlike):
        return {}
    done = {}
    for submission in submissions:
        file = results.result_file(wishes.out, submission.key)
        if not file.is_file():
            continue
        try:
            result = results.of_json(file.read_text(encoding="utf-8"), StudentResult)
        except ValueError:
            continue
        same = {one.path: one.sha256 for one in result.files} == fingerprints(submission)
        if same and result.student == submission.student and "not_graded" not in result.flags:
            done[submission.key] = repointed(result, about.points)
    return done


def _judged(
    submissions: Sequence[Submission],
    course: Course,
    nursery: Nursery,
    jobs: int,
    forks: bool,
) -> Iterator[StudentResult]:
    """Judge each student in a process of its own; one that dies takes nobody with it."""
    context: ForkContext | SpawnContext = (
        multiprocessing.get_context("fork") if forks else multiprocessing.get_context("spawn")
    )
    waiting = list(submissions)
    running: dict[Connection, tuple[BaseProcess, Submission, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                submission = waiting.pop(0)
                mine, theirs = context.Pipe(duplex=False)
                process: BaseProcess = context.Process(
                    target=_judge_into, args=(theirs, submission, course, nursery), daemon=True
                )
                process.start()
                theirs.close()
                running[mine] = process, submission, time.monotonic()
            ready = wait(list(running), timeout=1.0)
            for line in [one for one in running if one in ready]:
                process, submission, _ = running.pop(line)
                yield _received(line, submission, course)
                process.join(10)
            for line, (process, submission, began) in list(running.items()):
                if time.monotonic() - began > MOST_SECONDS:
                    del running[line]
                    process.kill()
                    yield _not_graded(submission, course, "it took more than an hour")
    finally:
        for process, _, _ in running.values():
            process.kill()


def _judge_into(
    line: Connection, submission: Submission, course: Course, nursery: Nursery
) -> None:
    if hasattr(os, "setsid"):
        os.setsid()  # Ctrl-C is for the run, which then ends this process
    line.send_bytes(results.as_json(judge(submission, course, nursery)).encode())


def _received(line: Connection, submission: Submission, course: Course) -> StudentResult:
    try:
        with line:
            return results.of_json(line.recv_bytes(), StudentResult)
    except (EOFError, OSError, ValueError):
        return _not_graded(submission, course, "the process that judged the answers ended")


def _not_graded(submission: Submission, course: Course, why: str) -> StudentResult:
    note = f"Nothing of this student was graded: {why}. Look at the files, and grade again."
    exercises = tuple(
        ExerciseResult(
            id=exercise,
            title=course.titles[exercise],
            points=0.0,
            out_of=out_of,
            outcome=Outcome.NOT_ATTEMPTED,
            flags=("not_graded",),
        )
        for exercise, out_of in course.points.items()
    )
    return StudentResult(
        student=submission.student,
        key=submission.key,
        points=0.0,
        out_of=sum(course.points.values()),
        exercises=exercises,
        flags=("not_graded",),
        notes=(*submission.notes, note),
        graded_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
