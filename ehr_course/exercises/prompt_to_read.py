"""A model's prompt that costs money to ask for: whose a vector is, is asked in exercise 12.7."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ehr_course.errors import InputError
from ehr_course.exercises.sealed import Sealed, TooManyCalls
from ehr_course.records import MAX_AGE

MOST_CALLS = 6
"""How often a prompt may be asked for to find one patient."""


TOO_MANY_CALLS = (
    f"You asked for more than {MOST_CALLS} prompts. They lie on straight lines: how few of "
    "them tell you where all the others are?"
)


class SummedPrompt(Sealed):
    """The prompt of an age and a sex, added up to one vector; affine in the age.

    Args:
        newborn: float (2, d_model): the prompt at age 0, a row for each sex.
        year: float (d_model,): what each year adds.

    >>> prompt_of = SummedPrompt([[0.0, 0.0], [0.0, 10.0]], [2.0, 0.0])
    >>> prompt_of(41, 1)
    tensor([82., 10.])
    """

    def __init__(self, newborn: Sequence[Sequence[float]], year: Sequence[float]) -> None:
        self.newborn, self.year = torch.tensor(newborn), torch.tensor(year)
        self._calls = 0

    def __call__(self, age: float, sex: int) -> Tensor:
        """Ask for a prompt.

        Returns:
            float (d_model,).

        Raises:
            InputError: if there is no such age or sex.
            TooManyCalls: at the first call beyond MOST_CALLS.
        """
        self._check_not_ended()
        age, category = float(age), float(sex)
        if not 0 <= age <= MAX_AGE:
            raise InputError(
                "prompt_of", "age", f"{age:g} is not an age", f"Use years from 0 to {MAX_AGE}."
            )
        if category not in (0, 1):
            raise InputError("prompt_of", "sex", f"{category:g} is not a category", "Use 0 or 1.")
        self._calls += 1
        if self._calls > MOST_CALLS:
            problem = f"this is call {self._calls}; {MOST_CALLS} are paid for"
            self._end(TooManyCalls(problem, TOO_MANY_CALLS))
        return self.newborn[int(category)] + age * self.year

    def _description(self, hidden: bool) -> str:
        newborn = " or ".join(_written(row) for row in self.newborn)
        return f"<{newborn}, plus age times {_written(self.year)}>"


def _written(vector: Tensor) -> str:
    return f"[{', '.join(f'{number:.4g}' for number in vector.tolist())}]"


def distances(prompt_of: SummedPrompt, vector: Tensor) -> list[tuple[float, int, int]]:
    """The distance of a vector from the prompt of each age and sex, the nearest first."""
    return sorted(
        (float((prompt_of.newborn[sex] + age * prompt_of.year - vector).norm()), age, sex)
        for sex in (0, 1)
        for age in range(MAX_AGE + 1)
    )
