"""The syllabus: `course/syllabus.yml` as lessons and exercises, checked when it is read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ehr_course.errors import InputError

SYLLABUS_FILE = Path(__file__).resolve().parent / "syllabus.yml"


@dataclass(frozen=True, slots=True)
class Exercise:
    """One exercise of a lesson.

    Attributes:
        id: the lesson's number, a dot and the exercise's place in it: "07.3".
        title: a few words.
        difficulty: 1 (a line or two) to 3 (an algorithm).
        minutes: how long it takes, at least 1.
    """

    id: str
    title: str
    difficulty: int
    minutes: int


@dataclass(frozen=True, slots=True)
class Lesson:
    """One lesson.

    Attributes:
        number: two digits, as text: "07".
        slug: its name in file names: "tokenization".
        title: its name in prose.
        minutes: how long it takes with its exercises.
        prerequisites: the numbers of earlier lessons that it builds on.
        objectives: three to six sentences, each beginning with a verb that can be checked.
        exercises: at least one, in order.
    """

    number: str
    slug: str
    title: str
    minutes: int
    prerequisites: tuple[str, ...]
    objectives: tuple[str, ...]
    exercises: tuple[Exercise, ...]

    @property
    def name(self) -> str:
        """The lesson's file name without its ending: "07_tokenization"."""
        return f"{self.number}_{self.slug}"


def load_syllabus(path: Path = SYLLABUS_FILE) -> tuple[Lesson, ...]:
    """Read the lessons, in order.

    Args:
        path: a YAML file of the form of `course/syllabus.yml`.

    Raises:
        InputError: if the file is not of that form; it names the lesson and the key.

    >>> [lesson.name for lesson in load_syllabus()][:3]
    ['00_start_here', '07_tokenization', '08_data_loading']
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise InputError(path.name, "", f"not YAML: {error}", "Correct the syntax.") from error
    top = _Reader(path.name, "").fields(content, {"lessons": list})
    lessons: list[Lesson] = []
    for position, entry in enumerate(top["lessons"], start=1):
        lessons.append(_lesson(path.name, position, entry, lessons))
    return tuple(lessons)


@dataclass(frozen=True)
class _Reader:
    file: str
    place: str

    def require(self, holds: bool, problem: str, remedy: str) -> None:
        if not holds:
            raise InputError(self.file, self.place, problem, remedy)

    def fields(self, entry: Any, kinds: dict[str, type]) -> dict[str, Any]:
        self.require(isinstance(entry, dict), "not a mapping", "Write `key: value` lines.")
        keys = ", ".join(kinds)
        missing = [key for key in kinds if key not in entry]
        self.require(not missing, f"missing: {', '.join(missing)}", f"The keys are {keys}.")
        unknown = [str(key) for key in entry if key not in kinds]
        self.require(not unknown, f"unknown: {', '.join(unknown)}", f"The keys are {keys}.")
        for key, kind in kinds.items():
            value = entry[key]
            self.require(
                type(value) is kind,
                f"{key} is {value!r}",
                f"Write {_KINDS[kind]}.",
            )
        return entry


_KINDS = {
    str: 'text; numbers such as "07" in quotation marks',
    int: "a whole number",
    list: "a list",
}

_LESSON_KEYS = {
    "number": str,
    "slug": str,
    "title": str,
    "minutes": int,
    "prerequisites": list,
    "objectives": list,
    "exercises": list,
}

_EXERCISE_KEYS = {"id": str, "title": str, "difficulty": int, "minutes": int}


def _lesson(file: str, position: int, entry: Any, earlier: list[Lesson]) -> Lesson:
    fields = _Reader(file, f"lesson {position} of the list").fields(entry, _LESSON_KEYS)
    number = fields["number"]
    reader = _Reader(file, f"lesson {number}")
    reader.require(
        re.fullmatch(r"\d\d", number) is not None,
        f"number is {number!r}",
        'Write two digits: "07".',
    )
    reader.require(
        not earlier or earlier[-1].number < number,
        "it does not come after the lesson before it",
        "Order the lessons by number, each once.",
    )
    reader.require(
        re.fullmatch(r"[a-z][a-z0-9_]*", fields["slug"]) is not None,
        f"slug is {fields['slug']!r}",
        "Use lower-case letters, digits and underscores.",
    )
    unknown = [p for p in fields["prerequisites"] if p not in [one.number for one in earlier]]
    reader.require(
        not unknown,
        f"prerequisites {unknown} are no earlier lessons",
        "Name lessons that stand above.",
    )
    objectives = fields["objectives"]
    reader.require(
        3 <= len(objectives) <= 6 and all(isinstance(text, str) for text in objectives),
        f"{len(objectives)} objectives",
        "Write three to six sentences.",
    )
    exercises = tuple(
        _exercise(file, f"{number}.{place}", exercise)
        for place, exercise in enumerate(fields["exercises"], start=1)
    )
    reader.require(bool(exercises), "no exercises", "Write at least one.")
    needed = sum(exercise.minutes for exercise in exercises)
    reader.require(
        needed <= fields["minutes"],
        f"its exercises take {needed} minutes, the lesson {fields['minutes']}",
        "A lesson takes at least as long as its exercises.",
    )
    return Lesson(
        number=number,
        slug=fields["slug"],
        title=fields["title"],
        minutes=fields["minutes"],
        prerequisites=tuple(fields["prerequisites"]),
        objectives=tuple(objectives),
        exercises=exercises,
    )


def _exercise(file: str, expected_id: str, entry: Any) -> Exercise:
    reader = _Reader(file, f"exercise {expected_id}")
    fields = reader.fields(entry, _EXERCISE_KEYS)
    reader.require(
        fields["id"] == expected_id,
        f"id is {fields['id']!r}",
        f'Number the exercises in order: "{expected_id}".',
    )
    reader.require(
        1 <= fields["difficulty"] <= 3,
        f"difficulty is {fields['difficulty']}",
        "Write 1, 2 or 3.",
    )
    reader.require(fields["minutes"] >= 1, f"minutes is {fields['minutes']}", "Write at least 1.")
    return Exercise(**fields)
