"""Is a synthetic cohort nearer to the patients it was learned from than to others like them?

The gap between both Jensen-Shannon divergences of code pairs (frequencies of single codes need no
memory) is held against that of photocopies of training patients, by a delete-a-tenth jackknife.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ehr_course.evaluation.measure import (
    GROUPS,
    Measure,
    interval_around,
    jackknife_error,
    random_groups,
)

PAIRS = "code pairs JS divergence"
"""The distance that is taken from both."""

NEARER = "nearness to training patients"
"""What the gap is called among measures."""

MEANING = (
    f"The {PAIRS} from held-out patients minus that from as many training patients: 0 for a "
    "cohort that remembers nobody, above 0 for one that repeats training patients."
)

_LITTLE = 0.25
"""A gap below this part of that of photocopies counts as none where it may be chance."""


@dataclass(frozen=True)
class Memorization:
    """Whether a cohort is nearer to training patients than to held-out ones.

    Attributes:
        to_held_out, to_training: the divergence from each, in bits, 0 to 1.
        gap: the first minus the second; its floor is 0.
        of_photocopies: the gap of training patients in place of the synthetic ones.
        n_held_out: how many patients of each were looked at.
        needed: about how many would tell photocopies; None if these do, or if nothing can be said.
    """

    to_held_out: float
    to_training: float
    gap: Measure
    of_photocopies: Measure
    n_held_out: int
    needed: int | None = None

    @property
    def can_be_known(self) -> bool:
        """Whether photocopies are told from patients whom nobody remembers."""
        return self.of_photocopies.low > 0

    @property
    def remembers(self) -> bool:
        """Whether the cohort is nearer to training patients by more than chance."""
        return self.gap.low > 0

    @property
    def in_words(self) -> str:
        """What the two distances mean, in sentences."""
        distances = (
            f"({self.to_training:.2f} bits) than to as many held-out patients "
            f"({self.to_held_out:.2f} bits)"
        )
        if self.remembers:
            said = (
                "The cohort remembers training patients: in the codes that stand together it is "
                f"nearer to them {distances}."
            )
            if self.can_be_known:
                share = min(1.0, self.gap.value / self.of_photocopies.value)
                said += (
                    f" The difference is {share:.0%} of what photocopies of training patients "
                    "would show."
                )
            return said
        if self.can_be_known:
            hidden = min(1.0, (self.gap.value - self.gap.low) / self.of_photocopies.value)
            yardstick = (
                "Photocopies of training patients would be nearer by "
                f"{self.of_photocopies.value:.2f} bits; a cohort with fewer than about "
                f"{hidden:.0%} of them might not show it."
            )
            if self.gap.value > _LITTLE * self.of_photocopies.value:
                return (
                    "In the codes that stand together the cohort is nearer to training patients "
                    f"{distances}, but with {self.n_held_out} of each that may be chance. "
                    f"{yardstick}"
                )
            return (
                "The distances show no memory: in the codes that stand together the cohort is no "
                f"nearer to training patients {distances}. {yardstick}"
            )
        said = (
            f"Whether the cohort remembers cannot be seen in its distances with {self.n_held_out} "
            "held-out patients: so few do not even tell photocopies of training patients."
        )
        if self.needed is not None:
            said += f" About {self.needed:,} would be needed."
        return said


def needed_to_tell(between_halves: Memorization, n_train: int) -> int | None:
    """About how many held-out patients tell photocopies of all training patients, or None.

    One half of the training patients is photocopied and the other is held out. The gap grows in
    proportion to the patients copied, its error falls with the root of those held out, and the gap
    must be twice the reach of its interval. In trials the answer was one to three times what was
    enough.
    """
    gap, n = between_halves.gap, between_halves.n_held_out
    if not gap.value > 0 or not math.isfinite(gap.low):
        return None
    exact = n * (2 * (gap.value - gap.low) / (gap.value * n / n_train)) ** 2
    unit = 10 ** math.floor(math.log10(max(exact, 1)))
    return math.ceil(exact / unit) * unit


def without_each_group(chosen: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Weights of all chosen patients, bool (patients,), and of them without each random tenth."""
    groups = random_groups(len(chosen), rng)
    kept = np.stack([chosen, *(chosen & (groups != group) for group in range(GROUPS))])
    return kept.astype(np.float32)


def memorization_of(
    to_held_out: np.ndarray,
    copies_to_held_out: np.ndarray,
    to_training: np.ndarray,
    copies_to_training: np.ndarray,
    *,
    n_held_out: int,
) -> Memorization:
    """Conclude from divergences whether training patients are remembered.

    The arrays are float (11,): the divergence of the synthetic patients, and of photocopies, with
    everybody and without each tenth.
    """

    def gap(one: np.ndarray, other: np.ndarray) -> Measure:
        all_of, *left_out = one - other
        span = interval_around(float(all_of), jackknife_error(left_out))
        return Measure(NEARER, all_of, *span, 0.0, "bits", "low", MEANING)

    return Memorization(
        float(to_held_out[0]),
        float(to_training[0]),
        gap(to_held_out, to_training),
        gap(copies_to_held_out, copies_to_training),
        n_held_out,
    )
