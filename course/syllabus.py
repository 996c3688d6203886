"""The syllabus: `course/syllabus.yml` as lessons and exercises, checked when it is read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ehr_course.yaml_file import RuleError, YamlFile

SYLLABUS_FILE = Path(__file__).resolve().parent / "syllabus.yml"

SLUG = re.compile(r"[a-z][a-z0-9_]*")
SLUG_RULE = "Use lower-case letters, digits and underscores, and begin with a letter."

# A YAML list is read as a tuple.
_AS_TUPLE = Field(strict=False)


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class Exercise(_Entry):
    """One exercise of a lesson.

    Attributes:
        id: the lesson's number, a dot and the exercise's place in it: "07.3".
        title: a few words.
        difficulty: 1 (a line or two) to 3 (an algorithm).
        minutes: how long it takes, at least 1.
        optional: whether it stands in a part of the lesson that goes further, and no other
            exercise needs it.
    """

    id: str
    title: str
    difficulty: int
    minutes: int
    optional: bool = False

    @field_validator("difficulty")
    @classmethod
    def _one_to_three(cls, difficulty: int) -> int:
        _require(1 <= difficulty <= 3, f"difficulty is {difficulty}", "Write 1, 2 or 3.")
        return difficulty

    @field_validator("minutes")
    @classmethod
    def _at_least_one(cls, minutes: int) -> int:
        _require(minutes >= 1, f"minutes is {minutes}", "Write at least 1.")
        return minutes


class Lesson(_Entry):
    """One lesson.

    Attributes:
        number: two digits, as text: "07".
        slug: its name in file names: "tokenization".
        title: its name in prose.
        builds: what the learner builds in it, in a few words.
        minutes: how long it takes with its exercises.
        prerequisites: the numbers of earlier lessons that it builds on.
        objectives: three to six sentences, each beginning with a verb that can be checked.
        exercises: at least one, in order.
    """

    number: str
    slug: str
    title: str
    builds: str
    minutes: int
    prerequisites: Annotated[tuple[str, ...], _AS_TUPLE]
    objectives: Annotated[tuple[str, ...], _AS_TUPLE]
    exercises: Annotated[tuple[Exercise, ...], _AS_TUPLE]

    @property
    def name(self) -> str:
        """The lesson's file name without its ending: "07_tokenization"."""
        return f"{self.number}_{self.slug}"

    @field_validator("number")
    @classmethod
    def _two_digits(cls, number: str) -> str:
        _require(
            re.fullmatch(r"[0-9]{2}", number) is not None,
            f"number is {number!r}",
            'Write two digits: "07".',
        )
        return number

    @field_validator("slug")
    @classmethod
    def _file_name(cls, slug: str) -> str:
        _require(
            SLUG.fullmatch(slug) is not None,
            f"slug is {slug!r}",
            SLUG_RULE,
        )
        return slug

    @field_validator("title", "builds")
    @classmethod
    def _fits_a_table(cls, text: str) -> str:
        _require(
            bool(text.strip()) and not set("|\n") & set(text),
            f"{text!r} does not fit into a table",
            "Write a few words on one line, without |.",
        )
        return text

    @field_validator("objectives")
    @classmethod
    def _three_to_six(cls, objectives: tuple[str, ...]) -> tuple[str, ...]:
        count = len(objectives)
        _require(3 <= count <= 6, f"{count} objectives", "Write three to six sentences.")
        return objectives

    @field_validator("exercises")
    @classmethod
    def _some(cls, exercises: tuple[Exercise, ...]) -> tuple[Exercise, ...]:
        _require(bool(exercises), "no exercises", "Write at least one.")
        return exercises

    @model_validator(mode="after")
    def _time_for_the_exercises(self) -> Lesson:
        needed = sum(exercise.minutes for exercise in self.exercises)
        _require(
            needed <= self.minutes,
            f"its exercises take {needed} minutes, the lesson {self.minutes}",
            "A lesson takes at least as long as its exercises.",
        )
        return self


class _Syllabus(_Entry):
    lessons: Annotated[tuple[Lesson, ...], _AS_TUPLE]


def load_syllabus(path: Path = SYLLABUS_FILE) -> tuple[Lesson, ...]:
    """Read the lessons, in order.

    Args:
        path: a YAML file of the form of `course/syllabus.yml`.

    Raises:
        InputError: if the file is not of that form; it names the line and the key.

    >>> [lesson.name for lesson in load_syllabus()][:3]
    ['00_start_here', '07_tokenization', '08_data_loading']
    """
    return lessons_in(YamlFile.open(path))


def lessons_in(file: YamlFile) -> tuple[Lesson, ...]:
    """Return the lessons of a syllabus that was opened; `load_syllabus` says what is refused."""
    lessons = file.read_as(_Syllabus).lessons
    earlier: list[str] = []
    for position, lesson in enumerate(lessons):
        keys = ("lessons", position)
        if earlier and lesson.number <= earlier[-1]:
            raise file.error(
                (*keys, "number"),
                f"lesson {lesson.number} does not come after lesson {earlier[-1]}",
                "Order the lessons by number, each once.",
            )
        for place, number in enumerate(lesson.prerequisites):
            if number not in earlier:
                raise file.error(
                    (*keys, "prerequisites", place),
                    f"{number} is not an earlier lesson",
                    "Name lessons that stand above.",
                )
        for place, exercise in enumerate(lesson.exercises):
            expected = f"{lesson.number}.{place + 1}"
            if exercise.id != expected:
                raise file.error(
                    (*keys, "exercises", place, "id"),
                    f"id is {exercise.id!r}",
                    f'Number the exercises in order: "{expected}".',
                )
        earlier.append(lesson.number)
    return lessons


def _require(holds: bool, problem: str, remedy: str) -> None:
    if not holds:
        raise RuleError(problem, remedy)
