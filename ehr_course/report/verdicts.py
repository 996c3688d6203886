"""What a measure says, in a few words, and what the cohort must therefore not be used for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
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


# ------------------------------------------------------------------ limits of use


ALWAYS = (
    "No patient in it exists. It must not be used to treat, advise, insure or judge anybody.",
    "It must not be used to estimate how frequent a disease is, what causes it or what helps: it "
    "repeats what its model has learned, mistakes included.",
    "It is not anonymous because it is synthetic. An attack that this report does not make may "
    "tell more than those that it makes.",
)
"""Holds of every synthetic cohort, whatever was measured."""

_WHERE_WORSE = {
    "fidelity": "It must not stand in for counts of real patients: it differs from them by more "
    "than chance in {names}.",
    "validity": "It must not be used to learn or to test which diagnoses a patient can have: it "
    "breaks the rules of age and sex more often than real patients ({names}).",
    "privacy": "It must not be given to anybody who may not see the real patients: it tells more "
    "about those that its model learned from than chance does, in {names}.",
    "utility": "A model trained on it must not be used for real patients: it predicts worse than "
    "one that was trained on them, in {names}.",
}
_NOT_JUDGED = {
    "fidelity": "Nothing shows that its codes are as frequent as in real patients.",
    "validity": "Nothing shows that its patients are possible.",
    "privacy": "Nothing shows that it keeps its patients to itself: treat it as real data.",
    "utility": "Nothing shows that a model can learn from it.",
}


def limits_of_use(measures: Mapping[str, Sequence[Measure]]) -> tuple[str, ...]:
    """What the cohort must not be used for, a sentence each.

    Args:
        measures: those of "fidelity", "validity", "privacy" and "utility"; others are not looked
            at.

    Returns:
        three sentences that always hold, and one for each of the four that has a measure worse
        than its floor, or none that could be judged.

    >>> bad = Measure("impossible codes", 0.2, low=0.1, high=0.3, floor=0.0)
    >>> limits_of_use({"validity": [bad]})[3].split(": ")[0]
    'It must not be used to learn or to test which diagnoses a patient can have'
    """
    found = list(ALWAYS)
    for key, sentence in _WHERE_WORSE.items():
        verdicts = {m.name: verdict(m) for m in measures.get(key, ())}
        worse = [name for name, said in verdicts.items() if said is Verdict.WORSE]
        if worse:
            found.append(sentence.format(names=_listed(worse)))
        elif not {Verdict.AT_FLOOR, Verdict.BETTER} & set(verdicts.values()) and key in measures:
            found.append(_NOT_JUDGED[key])
    return tuple(found)


def _listed(names: Sequence[str], most: int = 3) -> str:
    """Names in a sentence, the first few of them if they are many.

    >>> _listed(["a"]), _listed(["a", "b"]), _listed(["a", "b", "c", "d", "e"])
    ('a', 'a and b', 'a, b, c and 2 other measures')
    """
    named = list(names[:most])
    if len(names) > most:
        rest = len(names) - most
        named.append(f"{rest} other measure{'s' if rest > 1 else ''}")
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
