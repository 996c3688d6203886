"""What a measure says in a few words, whether a cohort gives patients away, and its limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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

MUST_NOT_BE_GIVEN = "It must not be given to anybody who may not see the real patients"

_WHERE_WORSE = {
    "fidelity": "It must not stand in for counts of real patients: it differs from them by more "
    "than chance in {names}.",
    "validity": "It must not be used to learn or to test which diagnoses a patient can have: it "
    "breaks the rules of age and sex more often than real patients ({names}).",
    "privacy": f"{MUST_NOT_BE_GIVEN}: it tells more about those that its model learned from than "
    "chance does, in {names}.",
    "utility": "A model trained on it must not be used for real patients: it predicts worse than "
    "one that was trained on them, in {names}.",
}
_NOT_JUDGED = {
    "fidelity": "Nothing shows that its codes are as frequent as in real patients.",
    "validity": "Nothing shows that its patients are possible.",
    "privacy": "Nothing shows that it keeps its patients to itself: treat it as real data.",
    "utility": "Nothing shows that a model can learn from it.",
}


_JUDGED = {Verdict.AT_FLOOR, Verdict.WORSE, Verdict.BETTER}


def limits_of_use(measures: Mapping[str, Sequence[Measure]]) -> tuple[str, ...]:
    """What the cohort must not be used for, a sentence each.

    Args:
        measures: those of "fidelity", "validity", "privacy" and "utility"; others are not looked
            at.

    Returns:
        three sentences that always hold, and one for each of the four that has a measure worse
        than its floor (of privacy: one that gives patients away), or none that could be judged.

    >>> bad = Measure("impossible codes", 0.2, low=0.1, high=0.3, floor=0.0)
    >>> limits_of_use({"validity": [bad]})[3].split(": ")[0]
    'It must not be used to learn or to test which diagnoses a patient can have'
    """
    found = list(ALWAYS)
    for key, sentence in _WHERE_WORSE.items():
        verdicts = {m.name: verdict(m) for m in measures.get(key, ())}
        worse = [name for name, said in verdicts.items() if said is Verdict.WORSE]
        if key == "privacy":  # not all that is off the floor gives somebody away
            worse = [m.name for m in measures.get(key, ()) if gives_away(m)]
        if worse:
            found.append(sentence.format(names=_listed(worse)))
        elif key in measures and not _JUDGED & set(verdicts.values()):
            found.append(_NOT_JUDGED[key])
    return tuple(found)


# ------------------------------------------------------------------ before all numbers


_SAFE_SIDE: dict[str, Callable[[Measure], bool]] = {
    # Synthetic patients that lie apart from real ones are bad, and give nobody away.
    "adversarial accuracy, train": lambda m: m.low > m.floor,
    "adversarial accuracy, held-out": lambda m: True,
    # Whom the cohort lies nearer to was never seen.
    "privacy loss": lambda m: m.high < m.floor,
    "membership by distance": lambda m: m.high < m.floor,
    "membership by likelihood": lambda m: m.high < m.floor,
    # Rare diseases that are lost give nobody away.
    "rare codes absent": lambda m: m.low > m.floor,
}
"""Which measures of privacy can be off their floor without giving anybody away, and when."""


def gives_away(measure: Measure) -> bool:
    """Whether a measure of privacy says that training patients are given away.

    >>> gives_away(Measure("membership by distance", 0.7, 0.6, 0.8, floor=0.5, better="near"))
    True
    >>> gives_away(Measure("rare codes absent", 0.7, 0.6, 0.8, floor=0.5, better="near"))
    False
    """
    safe = _SAFE_SIDE.get(measure.name)
    return verdict(measure) is Verdict.WORSE and not (safe is not None and safe(measure))


def disclosure_in_words(measures: Sequence[Measure]) -> tuple[str, ...]:
    """Whether a cohort copies or betrays the patients that its model learned from, in sentences.

    Args:
        measures: those of privacy; none where there were no held-out patients.

    Returns:
        what was found of copies and of membership; where something was, that the cohort must not
        be given away; where nothing was, that this is no proof; where it could not be judged,
        that the cohort is to be treated as real data.

    >>> copied = Measure("exact copies", 0.62, 0.58, 0.66, floor=0.041, unit="share")
    >>> for sentence in disclosure_in_words([copied]):
    ...     print(sentence)
    The cohort copies training patients: 62% of its patients have exactly the visits of one. Of
    held-out patients 4.1% have, by chance.
    It must not be given to anybody who may not see the real patients.
    """
    judged = {m.name: m for m in measures if m.known and not math.isnan(m.floor)}
    away = {name: m for name, m in judged.items() if gives_away(m)}
    found = []
    if _COPIES in away:
        found.append(_of_copies(away[_COPIES], "its patients", "held-out patients"))
    elif _LONG_COPIES in away:
        found.append(
            _of_copies(
                away[_LONG_COPIES], "its patients with five codes or more", "such held-out ones"
            )
        )
    found += [_of_membership(away[name], who) for name, who in _MEMBERSHIP.items() if name in away]
    others = [name for name in away if name not in (_COPIES, _LONG_COPIES, *_MEMBERSHIP)]
    if others:
        found.append(
            f"It tells more about training patients than chance does, in {_listed(others)}."
        )
    if found:
        return (*found, f"{MUST_NOT_BE_GIVEN}.")
    if not {_COPIES, "membership by distance"} <= judged.keys():
        return (
            "Whether the cohort copies training patients, or tells who they were, could not be "
            "judged: there are no held-out patients, or too few. Treat it as real data.",
        )
    ways = [_way(name) for name in _MEMBERSHIP if name in judged]
    return (
        "No sign was found that the cohort gives training patients away: exact copies are no more "
        "frequent than among held-out patients, and who was a training patient cannot be told by "
        f"{' or by '.join(ways)}. That is no proof: another attack may find more.",
    )


_COPIES, _LONG_COPIES = "exact copies", "exact copies of long records"
_MEMBERSHIP = {"membership by distance": "the cohort", "membership by likelihood": "the model"}
"""The measures of membership, and what an attacker has."""


def _of_copies(m: Measure, of: str, others: str) -> str:
    return (
        f"The cohort copies training patients: {_percent(m.value)} of {of} have exactly the "
        f"visits of one. Of {others} {_percent(m.floor)} have, by chance."
    )


def _of_membership(m: Measure, who: str) -> str:
    return (
        f"Whoever has {who} can tell training patients from others by {_way(m.name)}: the AUROC "
        f"is {m.value:.2f}, and a guess has 0.50."
    )


def _way(name: str) -> str:
    return name.partition("by ")[2]


def _percent(share: float) -> str:
    """A share in words.

    >>> _percent(0.6249), _percent(0.0411), _percent(0), _percent(0.0004)
    ('62%', '4.1%', '0%', '0.04%')
    """
    return f"{100 * share:.2g}%" if share < 0.995 else "100%"


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
