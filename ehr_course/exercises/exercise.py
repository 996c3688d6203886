"""What an exercise is made of: the inputs to try, its worked answer, and its words."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from ehr_course.exercises import worked_answers
from ehr_course.exercises.lesson_words import ExerciseWords, Misconception, Remark, words_of

Arguments = tuple[Any, ...]

FRESH_INPUTS = 20
"""How many random inputs a check adds to the chosen ones, where an exercise does not say."""


@dataclass(frozen=True)
class Exercise:
    """One exercise of a lesson. Its words stand in the lesson's YAML file.

    An answer is compared with the worked answer of `solutions/`. Where that raises, an answer must
    raise the same kind of exception.

    Attributes:
        id: lesson and number ("07.1").
        chosen: inputs that are always tried, each there to tell some wrong idea from the right
            one.
        fresh: makes one more input from a seeded `random.Random`.
        extreme: inputs that no model could produce. An answer that fails on these alone is
            solved, with a remark.
        tolerance: relative and absolute, for floating-point values.
        fresh_inputs: how many inputs of `fresh` are tried; few where an input trains a model.
    """

    id: str
    chosen: Sequence[Arguments]
    fresh: Callable[[random.Random], Arguments]
    extreme: Sequence[Arguments] = ()
    tolerance: float = 1e-6
    fresh_inputs: int = FRESH_INPUTS

    @property
    def words(self) -> ExerciseWords:
        """Title, hints, misconceptions and remarks."""
        return words_of(self.id)

    @property
    def title(self) -> str:
        """The title, as the lesson and the syllabus print it."""
        return self.words.title

    @property
    def optional(self) -> bool:
        """Whether it stands in a part of the lesson that goes further."""
        return self.words.optional

    @property
    def hints(self) -> tuple[str, ...]:
        """Two or three hints, from a nudge to nearly the answer."""
        return self.words.hints

    @property
    def misconceptions(self) -> Mapping[str, Misconception]:
        """The wrong ideas that have a diagnosis, by name."""
        return self.words.misconceptions

    @property
    def remarks(self) -> Mapping[str, Remark]:
        """What can be said of a right answer, by name."""
        return self.words.remarks

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the inputs: of the answer's parameters, or of what tries the answer."""
        if hasattr(self.chosen[0][0], "try_out"):
            return (type(self.chosen[0][0]).__name__.lower(),)
        return worked_answers.parameters(self.id)

    @property
    def worked_answer(self) -> Callable[..., Any]:
        """The answer of `solutions/`, which every other one is compared with."""
        return self.changed_answer()

    def probes(self, seed: int) -> list[Arguments]:
        """Return the inputs of one check: the chosen ones, then the fresh ones of this seed."""
        rng = random.Random(seed)
        return [*self.chosen, *(self.fresh(rng) for _ in range(self.fresh_inputs))]

    def changed_answer(self, *changes: Mapping[str, str]) -> Callable[..., Any]:
        """Return the worked answer with these changes made, one after the other.

        Raises:
            ChangeError: if a change cannot be made where the earlier ones have been.
            Exception: whatever running the changed source raises.
        """
        return _changed_answer(self.id, tuple(tuple(change.items()) for change in changes))


@cache
def _changed_answer(
    exercise_id: str, changes: tuple[tuple[tuple[str, str], ...], ...]
) -> Callable[..., Any]:
    source = worked_answers.worked_answer(exercise_id)
    for change in changes:
        try:
            source = worked_answers.changed(source, dict(change))
        except worked_answers.ChangeError as error:
            raise worked_answers.ChangeError(error.old, error.count, exercise_id) from None
    return worked_answers.as_function(exercise_id, source, "changed answer")
