"""A machine with so much memory: what the largest batch is looked for on in exercise 11.10."""

from __future__ import annotations

from itertools import pairwise

from ehr_course.errors import InputError
from ehr_course.exercises.sealed import Ended, Sealed

MOST_STEPS = 12
"""How many training steps may be run to find the largest batch."""


class OutOfMemory(Ended):
    """A step needed more memory than there is, and the program was ended."""


class TooManySteps(Ended):
    """More steps were run than may be."""


class Machine(Sealed):
    """Runs training steps and says what each took at its peak, in bytes.

    A step peaks at one of two moments: with its activations, which grow with the batch, or while
    the optimizer updates the weights, when there are none.

    Args:
        update: the peak of the update.
        held: what is there beside the activations.
        record: the activations of one record.
        memory: what the machine has.

    >>> peak_of = Machine(update=40, held=30, record=4, memory=160)
    >>> [peak_of(n) for n in (1, 2, 3, 10)]
    [40, 40, 42, 70]
    >>> peak_of(33)
    Traceback (most recent call last):
    ehr_course.exercises.machine_to_fill.OutOfMemory: a step on 33 records needs 162 bytes of 160
    """

    def __init__(self, *, update: int, held: int, record: int, memory: int) -> None:
        self.update, self.held, self.record, self.memory = update, held, record, memory
        self._fitted: list[int] = []  # the sizes that have been run, in this order

    def __call__(self, n: int) -> int:
        """Run one training step on n records.

        Returns:
            Its peak in bytes.

        Raises:
            InputError: if n is not a whole number above 0.
            OutOfMemory: if it does not fit. No step runs afterwards.
            TooManySteps: at the first step beyond MOST_STEPS.
        """
        self._check_not_ended()
        if isinstance(n, bool) or int(n) != n or n < 1:
            raise InputError("peak_of", "n", f"{n!r} is not a batch size", "Use 1, 2, 3, ...")
        if len(self._fitted) == MOST_STEPS:
            problem = f"this is step {MOST_STEPS + 1}; {MOST_STEPS} may be run"
            self._end(TooManySteps(problem, self._why_so_many()))
        peak = self._peak(int(n))
        if peak > self.memory:
            problem = f"a step on {n} records needs {peak:,} bytes of {self.memory:,}"
            self._end(OutOfMemory(problem, self._why_too_large(int(n))))
        self._fitted.append(int(n))
        return peak

    def _peak(self, n: int) -> int:
        return max(self.update, self.held + self.record * n)

    def _why_too_large(self, n: int) -> str:
        """What an answer knew when it ran a step that did not fit."""
        if not self._fitted:
            return (
                f"You began with a batch of {n}, before you had measured any other. Nothing told "
                "you that it fits, and it ended the program: trying it out is not an option here. "
                "Which batch is sure to fit, and what does its peak say of larger ones?"
            )
        last = max(self._fitted)
        return (
            f"You ran a batch of {n} after one of {last}, which took {self._peak(last):,} of "
            f"{self.memory:,} bytes, and it ended the program. Asking peak_of whether a batch "
            f"fits is too late. From the peak of {last}, how much can a larger batch take at most?"
        )

    def _why_so_many(self) -> str:
        """How an answer used up its steps."""
        strides = {after - before for before, after in pairwise(self._fitted)}
        how = f"You ran {MOST_STEPS} steps and came as far as {max(self._fitted)} records."
        if strides == {1}:
            how = f"You counted up one by one: {MOST_STEPS} steps, and {self._fitted[-1]} records."
        return (
            f"{how} On this machine that is not enough. How much larger may the next batch be, so "
            "that it is still sure to fit? And when do you know enough to calculate the rest?"
        )

    def _description(self, hidden: bool) -> str:
        most = largest_batch_of(self)
        return (
            f"<the larger of {self.update:,} and {self.held:,} + {self.record:,} per record: "
            f"{most} records fit, {most + 1} do not>"
        )


def largest_batch_of(machine: Machine) -> int:
    """The largest batch that fits, from the sizes themselves."""
    return (machine.memory - machine.held) // machine.record
