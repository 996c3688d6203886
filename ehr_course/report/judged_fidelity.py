"""Whom a report holds a cohort against when it asks how like real patients it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ehr_course.evaluation.fidelity import Fidelity, fidelity, fidelity_held_out
from ehr_course.evaluation.measure import which_are_too_few
from ehr_course.records import AnyRecord


def judged_fidelity(
    train: Sequence[AnyRecord],
    held_out: Sequence[AnyRecord] | None,
    synthetic: Sequence[AnyRecord],
    other_real: Sequence[AnyRecord],
    seed: int,
) -> Fidelity:
    """Fidelity to held-out patients, and without them to those that the model learned from."""
    if held_out is not None:
        return fidelity_held_out(train, held_out, synthetic, other_real=other_real, seed=seed)
    found = fidelity(train, synthetic, other_real=other_real, seed=seed)
    hidden = (
        "There are no held-out patients. Fidelity compares the cohort with the patients that its "
        "model learned from: one that copies them looks as good as they are, or better."
    )
    return replace(found, warnings=(hidden, *found.warnings))


def fidelity_in_words(found: Fidelity, sizes: Mapping[str, int]) -> tuple[str, ...]:
    """Whom the cohort is held against, and whether it is nearer to those it was learned from."""
    if not sizes["held-out"]:
        return ()
    n = min(sizes["training"], sizes["held-out"])
    patients = "1 held-out patient" if n == 1 else f"{n:,} held-out patients"
    said = (
        f"Judged by {patients}, whom the model never saw. The floor is what training patients "
        "score in the place of the synthetic ones.",
    )
    if found.memory is None:
        return (
            *said,
            f"Whether the cohort remembers cannot be known: {which_are_too_few(sizes)}.",
        )
    return (*said, found.memory.in_words)
