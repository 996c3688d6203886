"""What a measure says in a few words, whether a cohort gives patients away, and its limits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from ehr_course.evaluation.fidelity import NEARER, Memorization
from ehr_course.evaluation.measure import Measure
from ehr_course.evaluation.privacy import WITH_A_COPY


class Verdict(StrEnum):
    """Where a measure lies, seen from what real patients score in the same place."""

    AT_FLOOR = "at the floor"
    WORSE = "worse than the floor"
    BETTER = "better than the floor"
    TOO_FEW = "too few patients to say"
    NO_FLOOR = "nothing to compare it with"
    NOT_MEASURED = "not measured"


def verdict(measure: Measure) -> Verdict:
    """Judge a measure by its interval, never by its value alone.

    An interval that contains the floor says that real patients cannot be told apart, not that they
    are equal. A cohort nearer to them than they are to each other may hold copies.
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
    "Its patients are synthetic. It must not be used to treat, advise, insure or judge anybody.",
    "It must not be used to estimate how frequent a disease is, what causes it or what helps: it "
    "repeats what its model has learned, mistakes included.",
    "It is not anonymous because it is synthetic. An attack that this report does not make may "
    "tell more than those that it makes.",
)
"""Holds of every synthetic cohort, whatever was measured."""

_NOT_TO_ALL = "must not be given to anybody who may not see the real patients"
MUST_NOT_BE_GIVEN = f"It {_NOT_TO_ALL}"
MUST_NOT_BE_GIVEN_FIRST = f"This cohort {_NOT_TO_ALL}."
"""The same limit among others, and as the first sentence of a report."""


class Question(NamedTuple):
    """A question about a cohort, and its limits of use: where {names} are worse, or unknown."""

    title: str
    where_worse: str = ""
    not_judged: str = ""


QUESTIONS = {
    "fidelity": Question(
        "Is everything as frequent as in real patients?",
        "It must not stand in for counts of real patients: it differs from them by more than "
        "chance in {names}.",
        "Nothing shows that its codes are as frequent as in real patients.",
    ),
    "validity": Question(
        "Are its patients possible?",
        "It must not be used to learn or to test which diagnoses a patient can have: it breaks "
        "the rules of age and sex more often than real patients ({names}).",
        "Nothing shows that its patients are possible.",
    ),
    "perplexity": Question("How well does the model predict real patients?"),
    "privacy": Question(
        "Does it give away the patients that its model learned from?",
        f"{MUST_NOT_BE_GIVEN}: it tells more about those that its model learned from than chance "
        "does, in {names}.",
        "Nothing shows that it keeps its patients to itself: treat it as real data.",
    ),
    "utility": Question(
        "Can one learn from it what real patients teach?",
        "A model trained on it must not be used for real patients: it predicts worse than one "
        "that was trained on them, in {names}.",
        "Nothing shows that a model can learn from it.",
    ),
}
"""The questions that a report answers, in their order, by the keys of its sections."""

_JUDGED = {Verdict.AT_FLOOR, Verdict.WORSE, Verdict.BETTER}


def limits_of_use(measures: Mapping[str, Sequence[Measure]]) -> tuple[str, ...]:
    """What the cohort must not be used for, a sentence each.

    Three always hold. Each question with a measure worse than its floor (of privacy: one that
    gives patients away), or with none that could be judged, adds one.
    """
    found = list(ALWAYS)
    for key, question in QUESTIONS.items():
        if key not in measures or not question.where_worse:
            continue
        verdicts = {m.name: verdict(m) for m in measures[key]}
        worse = [name for name, said in verdicts.items() if said is Verdict.WORSE]
        if key == "privacy":  # not all that is off the floor gives somebody away
            worse = list(given_away(measures[key]))
        if worse:
            found.append(question.where_worse.format(names=listed(worse)))
        elif not _JUDGED & set(verdicts.values()):
            found.append(question.not_judged)
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


def given_away(measures: Sequence[Measure]) -> dict[str, Measure]:
    """The measures of privacy that say that training patients are given away, by their names.

    Exact copies are among them only where chance, as seen in held-out patients, does not explain
    them.
    """
    worse = [m for m in measures if verdict(m) is Verdict.WORSE]
    away = {m.name: m for m in worse if m.name not in _SAFE_SIDE or not _SAFE_SIDE[m.name](m)}
    if _made_by_chance(measures) is not None:
        away.pop(_COPIES, None)
    return away


NONE_HELD_OUT = "there are no held-out patients"


def disclosure_in_words(
    measures: Sequence[Measure],
    *,
    memory: Memorization | None = None,
    unjudged: str = NONE_HELD_OUT,
) -> tuple[str, ...]:
    """Whether a cohort copies or betrays the patients that its model learned from, in sentences.

    ``measures`` are those of privacy; ``unjudged`` says why copies or membership could not be
    judged.
    """
    judged = {m.name: m for m in measures if m.known and not math.isnan(m.floor)}
    away = given_away(measures)
    named = {m.name: m for m in measures}
    found = []
    if _COPIES in away or WITH_A_COPY in away:
        found.append(_of_copies(named[_COPIES], named[WITH_A_COPY]))
    elif _LONG_COPIES in away:
        long = away[_LONG_COPIES]
        found.append(
            f"The cohort copies training patients: {_percent(long.value)} of its patients with "
            f"five codes or more have exactly the visits of one. Of such held-out ones "
            f"{_percent(long.floor)} have, by chance."
        )
    found += [
        f"Anyone who has {who} can tell training patients from others by {_way(name)}: the AUROC "
        f"is {away[name].value:.2f}, and a guess has 0.50."
        for name, who in _MEMBERSHIP.items()
        if name in away
    ]
    if memory is not None and memory.remembers:
        found.append(memory.in_words)
    said = {_COPIES, WITH_A_COPY, _LONG_COPIES, NEARER, *_MEMBERSHIP}
    others = [name for name in away if name not in said]
    if others:
        found.append(
            f"It tells more about training patients than chance does, in {listed(others)}."
        )
    by_chance = _made_by_chance(measures)
    chance = () if by_chance is None or not named[_COPIES].value else (by_chance,)
    if found:
        return (MUST_NOT_BE_GIVEN_FIRST, *found, *chance)
    if not {_COPIES, "membership by distance"} <= judged.keys():
        return (
            "Whether the cohort copies training patients, or tells who they were, could not be "
            f"judged: {unjudged}. Treat it as real data.",
            *chance,
        )
    ways = [_way(name) for name in _MEMBERSHIP if name in judged]
    return (
        "No sign was found that the cohort gives training patients away: exact copies are no more "
        "frequent than chance makes them, and who was a training patient cannot be told by "
        f"{' or by '.join(ways)}. That is no proof: another attack may find more.",
        *chance,
    )


_COPIES, _LONG_COPIES = "exact copies", "exact copies of long records"
_MEMBERSHIP = {"membership by distance": "the cohort", "membership by likelihood": "the model"}
"""The measures of membership, and what an attacker has."""

_EXPLAINED = 0.5
"""Chance explains copies if held-out patients have at least this share of the training rate."""


def _made_by_chance(measures: Sequence[Measure]) -> str | None:
    """That copies are made by chance, in words; None where they are not, or nobody knows."""
    named = {m.name: m for m in measures}
    copies, having = named.get(_COPIES), named.get(WITH_A_COPY)
    no_more = (Verdict.AT_FLOOR, Verdict.BETTER)
    if copies is None or having is None or verdict(having) not in no_more:
        return None
    if having.floor < _EXPLAINED * having.value:
        return None
    return (
        f"{_percent(copies.value)} of its patients have exactly the visits of a training patient. "
        f"Chance makes such copies: of training patients {_percent(having.value)} have one in it, "
        f"and of held-out patients, whom the model never saw, {_percent(having.floor)}."
    )


def _of_copies(copies: Measure, having: Measure) -> str:
    """How many copies there are, and how many chance makes."""
    said, whom = "The cohort copies training patients", "one"
    if verdict(having) is Verdict.WORSE and having.floor >= _EXPLAINED * having.value:
        # A table that counts can do as much.
        said = "The cohort has somewhat more copies of training patients than chance makes"
        whom = "a training patient"
    return (
        f"{said}: {_percent(copies.value)} of its patients have exactly the visits of {whom}. Of "
        f"training patients {_percent(having.value)} have a copy in it; of held-out patients, "
        f"whom the model never saw, {_percent(having.floor)} have one by chance."
    )


def _way(name: str) -> str:
    return name.partition("by ")[2]


def _percent(share: float) -> str:
    """A share in words."""
    return f"{100 * share:.2g}%" if share < 0.995 else "100%"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Names in a sentence, the first few of them if they are many.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c", "d", "e"])
    ('a', 'a and b', 'a, b, c and 2 other measures')
    """
    named = list(names[:most])
    if len(names) > most:
        rest = len(names) - most
        named.append(f"{rest} other measure{'s' if rest > 1 else ''}")
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"
