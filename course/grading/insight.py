"""What a class got right, what it got wrong and why, and what a teacher should look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from course.grading.answers import PristineLesson, read_lesson
from course.grading.attempts import Cost, costs
from course.grading.likeness import Alike, find_alike, have_shape_of
from course.grading.results import FLAGS, ExerciseResult, RunAbout, StudentResult
from course.syllabus import load_syllabus
from ehr_course.errors import InputError
from ehr_course.exercises.catalogue import find_exercise
from ehr_course.exercises.result import Outcome
from ehr_course.exercises.worked_answers import ChangeError, changed, worked_answer

ROOT = Path(__file__).resolve().parent.parent.parent


@dataclass(frozen=True)
class ExerciseStanding:
    """How the class did in one exercise. The four counts are of students, and sum to all.

    Attributes:
        id: lesson and number ("07.1").
        title: as the syllabus prints it.
        stars: its difficulty, from 1 to 3.
        solved: with a remark or without.
        remarks: those of the solved that got a remark.
        not_yet: a wrong answer.
        errors: an answer that raised, was stopped or is no Python.
        not_attempted: the empty answer, or none.
        cost: what it cost, as far as files tell.
    """

    id: str
    title: str
    stars: int
    solved: int
    remarks: int
    not_yet: int
    errors: int
    not_attempted: int
    cost: Cost = field(default_factory=Cost)

    @property
    def students(self) -> int:
        """How many students there are."""
        return self.solved + self.not_yet + self.errors + self.not_attempted

    @property
    def attempted(self) -> int:
        """How many students have an answer, right or wrong."""
        return self.students - self.not_attempted


@dataclass(frozen=True)
class WrongIdea:
    """A wrong idea, and who has it.

    Attributes:
        exercise: the id of the exercise.
        title: of the exercise.
        name: as the lesson's file of words calls it.
        diagnosis: what a student with it is told.
        students: the keys of those who have it, alone or with another.
        attempted: how many students have an answer to the exercise.
    """

    exercise: str
    title: str
    name: str
    diagnosis: str
    students: tuple[str, ...]
    attempted: int


@dataclass(frozen=True)
class Unexplained:
    """Wrong answers to an exercise for which the course has no diagnosis.

    Attributes:
        exercise: the id of the exercise.
        title: of the exercise.
        wrong: the keys of those whose answer is wrong in a way that the course does not know.
        errors: those whose answer raised an exception, was stopped or is no Python.
        raised: the kinds of exception and how often each was raised, the most frequent first.
    """

    exercise: str
    title: str
    wrong: tuple[str, ...]
    errors: tuple[str, ...]
    raised: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Flagged:
    """One flag of the grader, and whom it concerns.

    Attributes:
        name: of the flag.
        meaning: in words.
        who: each student, with the exercises; none for what concerns the student alone.
    """

    name: str
    meaning: str
    who: tuple[tuple[StudentResult, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Insight:
    """What a class's results say. Students are named by their keys.

    Attributes:
        students: the results, in the order of the names.
        about: how the run was made.
        exercises: in the syllabus's order.
        ideas: the wrong ideas, the most frequent first.
        unexplained: in the syllabus's order.
        alike: answers that are alike.
        as_worked: by exercise, whose long answer has the shape of a worked answer.
        same_files: students who handed in the very same file with an attempt in it.
        flags: in the order of FLAGS.
    """

    students: tuple[StudentResult, ...]
    about: RunAbout
    exercises: tuple[ExerciseStanding, ...]
    ideas: tuple[WrongIdea, ...]
    unexplained: tuple[Unexplained, ...]
    alike: tuple[Alike, ...]
    as_worked: Mapping[str, tuple[str, ...]]
    same_files: tuple[tuple[str, ...], ...]
    flags: tuple[Flagged, ...]

    @property
    def costly(self) -> tuple[ExerciseStanding, ...]:
        """The exercises of which something tells what they cost, the costliest first."""
        known = [one for one in self.exercises if one.cost.checks or one.cost.runs]
        return tuple(
            sorted(
                known,
                key=lambda one: (-(one.cost.typical_checks or 0), -(one.cost.typical_runs or 0)),
            )
        )


def insight(
    results: Sequence[StudentResult],
    about: RunAbout,
    checks: Mapping[str, Mapping[str, int]] | None = None,
) -> Insight:
    """Say what the results of a class show.

    Args:
        results: of all students.
        about: how they were made.
        checks: what progress files say, as `attempts.checks_handed_in` returns it.
    """
    students = tuple(sorted(results, key=lambda one: one.student.casefold()))
    told = costs(students, _places(about.lessons), checks or {})
    stars = _stars()
    by_exercise = {
        exercise: [(s, one) for s in students for one in s.exercises if one.id == exercise]
        for exercise in about.points
    }
    by_exercise = {
        exercise: [(s, one) for s, one in found if _counts(one)]
        for exercise, found in by_exercise.items()
    }
    by_exercise = {exercise: found for exercise, found in by_exercise.items() if found}
    answers = {
        exercise: {s.key: one.source for s, one in found if _is_readable(one)}
        for exercise, found in by_exercise.items()
    }
    return Insight(
        students,
        about,
        tuple(
            _standing(exercise, [one for _, one in found], stars, told)
            for exercise, found in by_exercise.items()
        ),
        _wrong_ideas(by_exercise),
        _unexplained(by_exercise),
        tuple(
            alike
            for exercise, found in answers.items()
            for alike in find_alike(exercise, found, known_forms(exercise))
        ),
        {
            exercise: who
            for exercise, found in answers.items()
            if (who := have_shape_of(found, _worked(exercise)))
        },
        _same_files(students),
        _flagged(students),
    )


@cache
def known_forms(exercise: str) -> tuple[str, ...]:
    """Return the sources whose likeness tells nothing: worked answers and known wrong ideas.

    The lesson's stubs are too short to be compared; a form's empty one is not attempted.
    """
    worked = _worked(exercise)
    forms = list(worked)
    for idea in getattr(find_exercise(exercise), "misconceptions", {}).values():
        for change in idea.changes if worked else ():
            with suppress(ChangeError):  # one that is made to the answer of the teacher's own
                forms.append(changed(worked[0], change))
    return tuple(forms)


def _worked(exercise: str) -> tuple[str, ...]:
    found = []
    for kind in ("answer", "alternative"):
        with suppress(InputError):  # most exercises have one worked answer
            found.append(worked_answer(exercise, kind))
    return tuple(found)


def _places(lessons: Sequence[str]) -> dict[str, int]:
    """Of each exercise of some lessons its cell's number among the lesson's code cells, from 1."""
    return {
        exercise: place + 1
        for lesson in lessons
        for exercise, (place, _) in pristine(lesson).exercises.items()
    }


@cache
def pristine(lesson: str) -> PristineLesson:
    """Read the source of a lesson ("07")."""
    name = next(one.name for one in load_syllabus() if one.number == lesson)
    return read_lesson(ROOT / "lessons" / f"{name}.py")


def _stars() -> dict[str, int]:
    return {one.id: one.difficulty for lesson in load_syllabus() for one in lesson.exercises}


def _counts(one: ExerciseResult) -> bool:
    """A student who was excused from an exercise and did not attempt it does not count there."""
    return one.outcome != Outcome.NOT_ATTEMPTED or "excused" not in one.flags


def _is_readable(one: ExerciseResult) -> bool:
    attempted = one.outcome != Outcome.NOT_ATTEMPTED
    return attempted and bool(one.source) and "unreadable" not in one.flags


def _standing(
    exercise: str,
    found: Sequence[ExerciseResult],
    stars: Mapping[str, int],
    told: Mapping[str, Cost],
) -> ExerciseStanding:
    outcomes = Counter(one.outcome for one in found)
    return ExerciseStanding(
        exercise,
        found[0].title,
        stars.get(exercise, 1),
        solved=sum(one.is_solved for one in found),
        remarks=outcomes[Outcome.REMARK],
        not_yet=outcomes[Outcome.NOT_YET],
        errors=outcomes[Outcome.ERROR],
        not_attempted=outcomes[Outcome.NOT_ATTEMPTED],
        cost=told.get(exercise, Cost()),
    )


_Found = Mapping[str, Sequence[tuple[StudentResult, ExerciseResult]]]


def _wrong_ideas(by_exercise: _Found) -> tuple[WrongIdea, ...]:
    ideas = []
    for exercise, found in by_exercise.items():
        attempted = sum(one.outcome != Outcome.NOT_ATTEMPTED for _, one in found)
        who: dict[str, list[str]] = {}
        messages: dict[str, str] = {}
        for student, one in found:
            if one.misconception is None or one.is_solved:
                continue
            for name in one.misconception.split(" + "):
                who.setdefault(name, []).append(student.key)
                messages.setdefault(name, one.message)
        known = getattr(find_exercise(exercise), "misconceptions", {})
        for name, students in who.items():
            said = known[name].diagnosis if name in known else messages[name]
            title = found[0][1].title
            ideas.append(WrongIdea(exercise, title, name, said, tuple(students), attempted))
    return tuple(sorted(ideas, key=lambda one: -len(one.students)))


def _unexplained(by_exercise: _Found) -> tuple[Unexplained, ...]:
    made = []
    for exercise, found in by_exercise.items():
        unknown = [(s, one) for s, one in found if one.misconception is None]
        wrong = [s.key for s, one in unknown if one.outcome == Outcome.NOT_YET]
        failed = [(s, one) for s, one in unknown if one.outcome == Outcome.ERROR]
        raised = Counter(
            text.partition(":")[0].strip()
            for _, one in failed
            for label, text in one.details
            if label == "raised"
        )
        if wrong or failed:
            errors = tuple(s.key for s, _ in failed)
            kinds = tuple(raised.most_common(5))
            made.append(Unexplained(exercise, found[0][1].title, tuple(wrong), errors, kinds))
    return tuple(made)


def _same_files(students: Sequence[StudentResult]) -> tuple[tuple[str, ...], ...]:
    by_content: dict[str, list[str]] = {}
    for student in students:
        used = {one.file for one in student.exercises if one.outcome != Outcome.NOT_ATTEMPTED}
        digests = {one.sha256 for one in student.files if one.path in used and one.sha256}
        for digest in digests:
            by_content.setdefault(digest, []).append(student.key)
    groups = [tuple(who) for who in by_content.values() if len(who) > 1]
    return tuple(dict.fromkeys(groups))


def _flagged(students: Sequence[StudentResult]) -> tuple[Flagged, ...]:
    found = []
    for name, meaning in FLAGS.items():
        who = []
        for student in students:
            exercises = tuple(one.id for one in student.exercises if name in one.flags)
            if exercises or name in student.flags:
                who.append((student, exercises))
        if who:
            found.append(Flagged(name, meaning, tuple(who)))
    return tuple(found)
