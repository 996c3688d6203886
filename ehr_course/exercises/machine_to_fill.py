"""A machine with so much memory: what the largest batch is looked for on in exercise 11.7."""

from __future__ import annotations

from typing import Any

from ehr_course.errors import InputError

MOST_STEPS = 12
"""How many training steps may be run to find the largest batch."""


class OutOfMemory(SystemExit):  # the program ends: `except Exception` does not help
    """A step needed more memory than there is, and the program was ended."""


class TooManySteps(SystemExit):
    """More steps were run than may be."""


class Machine:
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
        self._steps, self._ended = 0, None

    def __call__(self, n: int) -> int:
        """Run one training step on n records.

        Returns:
            Its peak in bytes.

        Raises:
            InputError: if n is no whole number above 0.
            OutOfMemory: if it does not fit. No step runs afterwards.
            TooManySteps: at the first step beyond MOST_STEPS.
        """
        if self._ended is not None:
            raise self._ended
        if isinstance(n, bool) or int(n) != n or n < 1:
            raise InputError("peak_of", "n", f"{n!r} is no size of a batch", "Use 1, 2, 3, ...")
        self._steps += 1
        if self._steps > MOST_STEPS:
            self._ended = TooManySteps(f"this is step {self._steps}; {MOST_STEPS} may be run")
            raise self._ended
        peak = max(self.update, self.held + self.record * int(n))
        if peak > self.memory:
            problem = f"a step on {n} records needs {peak:,} bytes of {self.memory:,}"
            self._ended = OutOfMemory(problem)
            raise self._ended
        return peak

    def __deepcopy__(self, memo: dict[int, Any]) -> Machine:
        # A check hands copies to an answer: each begins to count anew.
        return Machine(update=self.update, held=self.held, record=self.record, memory=self.memory)

    def __repr__(self) -> str:
        if self._ended is not None:  # an answer that went on after the end is seen to have done so
            return f"<ended: {self._ended}>"
        return f"<the larger of {self.update:,} and {self.held:,} + {self.record:,} per record>"


def largest_batch_of(machine: Machine) -> int:
    """The largest batch that fits, from the sizes themselves."""
    return (machine.memory - machine.held) // machine.record
