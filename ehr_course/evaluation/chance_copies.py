"""Has a cohort more copies of training patients than chance makes?

A short record has twins in every hospital, and a cohort of short records is full of copies that
nobody made. Held-out patients, whom the model never saw, have such twins too. So the question is
asked of both: how many **training** patients have a synthetic patient with exactly their visits,
and how many **held-out** ones? Only what the first have above the second is memory.

``exact copies`` of ``privacy`` counts synthetic patients, and its floor is how many held-out
patients have a twin among the training ones. A model that writes more short records than there are
lies above that floor, and remembers nobody. Here it does not: the same synthetic patients are
looked up for both.

One patient who is copied a thousand times is one training patient with a copy, and not more than
chance: ``exact copies`` and the longer records tell it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy.stats import binomtest

from ehr_course.errors import InputError
from ehr_course.evaluation.disclosure import visits_of
from ehr_course.evaluation.measure import FEWEST, SHARE, Measure
from ehr_course.records import AnyRecord

WITH_A_COPY = "training patients with a copy"
"""What the measure is called."""

MEANING = (
    "The share of training patients whose visits are exactly those of a synthetic patient; the "
    "floor is the same of held-out patients, which is what chance makes."
)


def patients_with_a_copy(
    train: Sequence[AnyRecord],
    held_out: Sequence[AnyRecord],
    synthetic: Sequence[AnyRecord],
    *,
    confidence: float = 0.95,
) -> Measure:
    """The share of training patients who have a twin in a cohort, and of held-out ones.

    A twin has exactly the same visits, as for ``exact copies``.

    Args:
        train: the patients that the model learned from.
        held_out: patients of the same hospital that it never saw.
        synthetic: the patients to judge.
        confidence: of the interval, above 0 and below 1.

    Returns:
        the share of training patients, 0 to 1, with that of held-out ones as its floor. The
        interval is that of the difference of two shares (Newcombe 1998, method 10,
        https://doi.org/10.1002/(SICI)1097-0258(19980430)17:8%3C873::AID-SIM779%3E3.0.CO;2-I),
        moved to the value; with fewer than 30 patients in a cohort there is none.

    Raises:
        InputError: if a cohort has no patients.

    >>> from ehr_course.sources.synthetic import make_cohort
    >>> train, held_out = make_cohort(400, seed=1), make_cohort(200, seed=2)
    >>> found = patients_with_a_copy(train, held_out, make_cohort(400, seed=3))
    >>> found.low < found.floor < found.high
    True
    >>> found = patients_with_a_copy(train, held_out, train[:40])
    >>> found.low > found.floor
    True
    """
    cohorts = {"train": train, "held_out": held_out, "synthetic": synthetic}
    for name, cohort in cohorts.items():
        if not len(cohort):
            raise InputError(
                "patients_with_a_copy", name, "it has no patients", "Give at least one patient."
            )
    written = {visits_of(record) for record in synthetic}
    shares, reaches = [], []
    for cohort in (train, held_out):
        copied = sum(visits_of(record) in written for record in cohort)
        span = binomtest(copied, len(cohort)).proportion_ci(confidence, method="wilson")
        share = copied / len(cohort)
        shares.append(share)
        reaches.append((share - span.low, span.high - share))
    value, floor = shares
    low = high = math.nan
    if min(map(len, cohorts.values())) >= FEWEST:
        (below, above), (floor_below, floor_above) = reaches
        low = max(0.0, value - math.hypot(below, floor_above))
        high = min(1.0, value + math.hypot(above, floor_below))
    return Measure(WITH_A_COPY, value, low, high, floor, SHARE, "low", MEANING)
