"""What a measure says, in a few words: where its interval lies, seen from the floor."""

from __future__ import annotations

import math
from enum import StrEnum

from ehr_course.evaluation.measure import Measure


class Verdict(StrEnum):
    """Where a measure lies, seen from what real patients score in the same place."""

    AT_FLOOR = "at the floor"
    WORSE = "worse than the floor"
    BETTER = "better than the floor"
    TOO_FEW = "too few patients to say"
    NO_FLOOR = "nothing to hold it against"
    NOT_MEASURED = "not measured"


def verdict(measure: Measure) -> Verdict:
    """Judge a measure by its interval, never by its value alone.

    Where the interval contains the floor, the cohort cannot be told from real patients by this
    measure. That is not the same as being equal to them: with more patients it may be told. A
    cohort that is better than real patients, closer to them than they are to themselves, is
    suspicious: look for copies.

    >>> verdict(Measure("distance", 0.04, low=0.03, high=0.05, floor=0.01))
    <Verdict.WORSE: 'worse than the floor'>
    >>> verdict(Measure("distance", 0.04, floor=0.01))
    <Verdict.TOO_FEW: 'too few patients to say'>
    """
    if math.isnan(measure.value):
        return Verdict.NOT_MEASURED
    if math.isnan(measure.floor):
        return Verdict.NO_FLOOR
    if not measure.known:
        return Verdict.TOO_FEW
    if measure.low <= measure.floor <= measure.high:
        return Verdict.AT_FLOOR
    if measure.better == "near":
        return Verdict.WORSE
    above = measure.low > measure.floor
    return Verdict.WORSE if above == (measure.better == "low") else Verdict.BETTER
