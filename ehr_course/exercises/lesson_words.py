"""The words of a lesson's exercises: titles, hints, misconceptions and remarks, from a YAML file.

`lessons/lesson_07.yml` stands beside `lessons/lesson_07.py`. A teacher's own misconceptions are
read from the `.yml` files of the folder that `EHR_COURSE_MISCONCEPTIONS` names; they have the same
form, and name only what they add.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from ehr_course.errors import InputError
from ehr_course.exercises.packed import packed_text, texts
from ehr_course.exercises.worked_answers import (
    ChangeError,
    as_function,
    changed,
    worked_answer,
)
from ehr_course.yaml_file import RuleError, YamlFile

FOLDER = Path(__file__).resolve().parent / "lessons"
OWN_FOLDER = "EHR_COURSE_MISCONCEPTIONS"

Text = Annotated[str, Field(min_length=1)]
Change = Annotated[dict[str, str], Field(min_length=1)]
Changes = Annotated[
    tuple[Change, ...],
    BeforeValidator(lambda given: (given,) if isinstance(given, dict) else given),
    Field(min_length=1, strict=False),
]
"""A change of the worked answer, or a list of them."""


class _Words(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Misconception(_Words):
    """A wrong idea, as changes of the worked answer, each of which carries it out.

    Attributes:
        diagnosis: what the code did and why that is wrong; never the solution.
        changes: `change` in the file, one or a list: old text to new text, made one after the
            other. Each old text stands exactly once in the answer.
    """

    diagnosis: Text
    changes: Changes = Field(alias="change")


class Remark(_Words):
    """Something to know about an answer that is right on every input that a model could produce.

    It is said of an answer that does what the changed worked answer does on the extreme inputs of
    the exercise, or that uses one of some names.

    Attributes:
        remark: what to know, in a sentence or two.
        changes: as in a misconception.
        uses: names of functions or attributes, such as "cross_entropy".
    """

    remark: Text
    changes: Changes | None = Field(default=None, alias="change")
    uses: tuple[str, ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _has_one_sign(self) -> Remark:
        if (self.changes is None) == (not self.uses):
            raise RuleError(
                "a remark has either a change or names that it uses", "Give one of the two."
            )
        return self


class ExerciseWords(_Words):
    """What an exercise says.

    Attributes:
        title: as the lesson and the syllabus print it.
        optional: whether it stands in a part of the lesson that goes further.
        hints: two or three, from a nudge to nearly the answer.
        misconceptions: at least three, by name, the likeliest first.
        remarks: by name.
    """

    title: Text
    optional: bool = False
    hints: tuple[Text, ...] = Field(min_length=2, max_length=3, strict=False)
    misconceptions: dict[str, Misconception] = Field(min_length=3)
    remarks: dict[str, Remark] = {}

    @field_validator("misconceptions", "remarks")
    @classmethod
    def _names_are_identifiers(cls, found: dict[str, object]) -> dict[str, object]:
        return _identifiers(found)


class OwnWords(_Words):
    """What a teacher adds to an exercise."""

    misconceptions: dict[str, Misconception] = Field(min_length=1)

    @field_validator("misconceptions")
    @classmethod
    def _names_are_identifiers(cls, found: dict[str, object]) -> dict[str, object]:
        return _identifiers(found)


def _identifiers(found: dict[str, object]) -> dict[str, object]:
    for name in found:
        if not name.isidentifier():
            raise RuleError(f"{name!r} is not a name", "Use letters, digits and underscores.")
    return found


@cache
def words_of_lesson(lesson: str) -> dict[str, ExerciseWords]:
    """Return the words of a lesson's exercises by id.

    Raises:
        InputError: if the file is not of that form; it names the line.
    """
    path = FOLDER / f"lesson_{lesson}.yml"
    text = packed_text(path.name)
    file = YamlFile.open(path) if text is None else YamlFile.of_text(path, text)
    return file.read_as(dict[str, ExerciseWords])


def words_of(exercise_id: str) -> ExerciseWords:
    """Return the words of one exercise, a teacher's own misconceptions after the course's.

    Raises:
        InputError: if a file is not of its form, or a teacher's change cannot be made.
    """
    lesson_words = words_of_lesson(exercise_id.partition(".")[0])
    if exercise_id not in lesson_words:
        path = FOLDER / f"lesson_{exercise_id.partition('.')[0]}.yml"
        raise InputError(path, "", f"it has no words for {exercise_id}", "Add them.")
    words = lesson_words[exercise_id]
    folder = os.environ.get(OWN_FOLDER)
    if not folder:
        return words
    own = _own_misconceptions(folder, _state_of(folder)).get(exercise_id, {})
    return words.model_copy(update={"misconceptions": words.misconceptions | own})


def _state_of(folder: str) -> tuple[tuple[Path, int], ...]:
    """The files of a folder and when they were changed: what was read of them can be kept."""
    path = Path(folder)
    if not path.is_dir():
        raise InputError(path, "", "there is no such folder", f"Correct {OWN_FOLDER}.")
    files = sorted([*path.glob("*.yml"), *path.glob("*.yaml")])
    return tuple((file, file.stat().st_mtime_ns) for file in files)


@cache
def _own_misconceptions(
    folder: str, state: tuple[tuple[Path, int], ...]
) -> dict[str, dict[str, Misconception]]:
    own: dict[str, dict[str, Misconception]] = {}
    for path, _ in state:
        file = YamlFile.open(path)
        for exercise_id, added in file.read_as(dict[str, OwnWords]).items():
            _check_exercise(file, exercise_id)
            earlier = own.setdefault(exercise_id, {})
            known = words_of_lesson(exercise_id.partition(".")[0])[exercise_id].misconceptions
            for name, misconception in added.misconceptions.items():
                keys = (exercise_id, "misconceptions", name)
                if name in known or name in earlier:
                    problem = "the exercise has a misconception of this name"
                    raise file.error(keys, problem, "Give it another name.")
                _check_change(file, keys, exercise_id, misconception)
                earlier[name] = misconception
    return own


def _check_exercise(file: YamlFile, exercise_id: str) -> None:
    lesson = exercise_id.partition(".")[0]
    names = [path.name for path in FOLDER.glob("*.yml")] + [*(texts() or ())]
    known = sorted(n[len("lesson_") : -len(".yml")] for n in names if n.endswith(".yml"))
    if lesson not in known:
        remedy = f"The lessons are {', '.join(known)}."
        raise file.error((exercise_id,), "there is no such lesson", remedy)
    if exercise_id not in words_of_lesson(lesson):
        there = ", ".join(words_of_lesson(lesson))
        raise file.error((exercise_id,), "there is no such exercise", f"The lesson has {there}.")


def _check_change(
    file: YamlFile, keys: tuple[str, ...], exercise_id: str, misconception: Misconception
) -> None:
    for change in misconception.changes:
        try:
            source = changed(worked_answer(exercise_id), change)
        except ChangeError as error:
            raise file.error(
                (*keys, "change", error.old),
                f"this text stands {error.count} times in the worked answer, not once",
                "Copy a piece of the answer that stands there once.",
            ) from None
        try:
            as_function(exercise_id, source, keys[-1])
        except Exception as error:
            problem = f"the changed answer does not run ({type(error).__name__}: {error})"
            raise file.error((*keys, "change"), problem, "Correct the new text.") from None
