"""Training loops with one broken stage, and a sound one: what 15.7 tells apart."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ehr_course.errors import InputError
from ehr_course.exercises.sealed import Sealed

FAULTS = {
    "none": "does what it should",
    "uses up rates": "gives a skipped step a rate, which is then lost",
    "mean of means": "takes the mean of the micro-batches' means",
    "rounds before it scales": "rounds to float16 before it multiplies by the scale",
    "clips before it unscales": "clips gradients that are still multiplied by the scale",
    "never clips": "never clips",
    "applies an overflow": "takes the step when a gradient is not finite",
    "keeps the scale": "does not halve the scale after an overflow",
    "keeps gradients": "never sets the gradient to zero",
}
"""What can be wrong with a loop, and what it then does."""


class Loop(Sealed):
    """A training loop in float16 for weights whose gradients you choose.

    The loss of a row is its product with the weights, so the row itself is its gradient.

    Args:
        fault: what is wrong with it; a key of FAULTS.

    >>> loop = Loop()
    >>> loop([[torch.tensor([[3.0, 4.0]])]], rates=[2.0], scale=8.0, max_norm=1.0)
    tensor([[-1.2000, -1.6000]])
    """

    def __init__(self, fault: str = "none") -> None:
        if fault not in FAULTS:
            raise InputError("Loop", "fault", f"{fault!r} is unknown", f"Use one of {[*FAULTS]}.")
        self._fault = fault

    def __call__(
        self,
        batches: Sequence[Sequence[Tensor]],
        *,
        rates: Sequence[float],
        scale: float,
        max_norm: float,
    ) -> Tensor:
        """Train weights that begin at 0.

        Args:
            batches: a list of batches, each a list of parts, each float (rows, n).
            rates: the learning rate of each step that is taken; at least one for each batch.
            scale: the first loss scale.
            max_norm: the length that a gradient is clipped to.

        Returns:
            The weights after each batch, float32 (batches, n).

        Raises:
            InputError: if a part is not a table of numbers, or there are too few rates.
        """
        shapes = {part.shape[1:] for parts in batches for part in parts}
        if len(shapes) != 1 or len(min(shapes)) != 1 or not all(batches):
            raise InputError(
                "Loop",
                "batches",
                "the parts are not tables (rows, n) with one n",
                "Use a list of batches, each a list of parts such as torch.tensor([[1.0, 2.0]]).",
            )
        if any(len(part) == 0 for parts in batches for part in parts):
            raise InputError("Loop", "batches", "a part has no row", "Give it one.")
        if len(rates) < len(batches):
            raise InputError(
                "Loop",
                "rates",
                f"{len(rates)} rates for {len(batches)} batches",
                "Give one for each batch.",
            )
        fault = self._fault
        weights = torch.zeros(next(iter(shapes)))
        gradient = torch.zeros_like(weights)
        used, after = 0, []
        for parts in batches:
            for share in self._shares(parts):
                if fault == "rounds before it scales":
                    share = share.half().float()
                gradient = gradient + (share * scale).half().float()
            finite = bool(gradient.isfinite().all())
            if fault == "clips before it unscales":
                gradient = _clipped(gradient, max_norm) / scale
            elif fault == "never clips":
                gradient = gradient / scale
            else:
                gradient = _clipped(gradient / scale, max_norm)
            taken = finite or fault == "applies an overflow"
            if taken:
                weights = weights - rates[used] * gradient
            if taken or fault == "uses up rates":
                used += 1
            if not finite and fault != "keeps the scale":
                scale = scale / 2
            if fault != "keeps gradients":
                gradient = torch.zeros_like(weights)
            after.append(weights)
        return torch.stack(after)

    def _shares(self, parts: Sequence[Tensor]) -> list[Tensor]:
        if self._fault == "mean of means":
            return [part.float().mean(dim=0) / len(parts) for part in parts]
        n_rows = sum(len(part) for part in parts)
        return [part.float().sum(dim=0) / n_rows for part in parts]

    def _description(self, hidden: bool) -> str:
        return "<a loop>" if hidden else f"<a loop that {FAULTS[self._fault]}>"


def _clipped(gradient: Tensor, max_norm: float) -> Tensor:
    norm = gradient.norm()
    return gradient * (max_norm / norm) if norm > max_norm else gradient
