"""Is a synthetic cohort like patients whom its model never saw?

``fidelity`` holds a cohort against some real patients. If its model learned from them, a cohort of
copies is better than real patients can be: memory is taken for quality. So a report asks of
**held-out** patients how far away the synthetic ones are.

**The value** of a measure compares the held-out patients with n synthetic ones; it is the mean
over 20 random choices of these. **The floor** compares the same held-out patients with n of the
training patients, over as many choices: other real patients in the place of the synthetic ones. n
is the number of training or of synthetic patients, whichever is smaller. Both comparisons have the
same sizes, so chance counts alike in both, however few patients are held out.

A share such as the carry-over of codes is a number of each cohort by itself. Its floor is that of
the held-out patients. How many different codes a cohort has depends on its size: there the floor
is that of n training patients.

**The interval** says how far the value may lie from its floor by the luck of all patients
concerned. Held-out, synthetic and training patients are drawn with replacement, again and again;
it has the spread of value minus floor, moved to the value.

**Against training patients** stands the same value with as many training patients as there are
held-out ones, drawn once, in their place. Whoever counts how frequent codes are among the training
patients comes nearer to these than to others, and remembers nobody. The pairs of codes tell
counting from memory; see ``fidelity_memory``.

**What was tried.** Two other ways, and this one, with 10 seeds of the embedded hospital, 1,000
training patients and 1,000 synthetic ones: *fresh* patients of the same hospital; *copies* of all
training patients; *half* of them and half fresh ones; *mixed* ones, of whom three in ten come from
another hospital; and the training patients with all their codes *dealt out* anew. Right is: at the
floor for the first three, who are all real patients; worse than the floor in many measures for the
others. In percent of all measures, worse / better than the floor:

================= ======== ====== ====== ====== ====== =========
compared with     held out fresh  copies half   mixed  dealt out
================= ======== ====== ====== ====== ====== =========
training patients none     0 / 0  0 / 52 0 / 20 49 / 0 43 / 15
one half          40       0 / 4  0 / 5  0 / 4  0 / 0  5 / 8
one half          200      0 / 0  0 / 0  0 / 0  11 / 0 22 / 0
one half          1000     0 / 0  0 / 0  0 / 0  48 / 0 55 / 1
held-out patients 40       1 / 0  0 / 0  0 / 0  17 / 1 12 / 1
held-out patients 200      3 / 0  2 / 0  2 / 0  50 / 0 46 / 0
held-out patients 1000     2 / 0  1 / 0  2 / 0  62 / 0 58 / 0
================= ======== ====== ====== ====== ====== =========

*One half* is one half of the held-out patients, and the floor is the other half. *Held-out
patients* is this module: the floor is the training patients.

With 40 held-out patients most faults stay hidden in either way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_array, vstack

from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import CodeTable, code_tables, unknown_in
from ehr_course.evaluation.fidelity import (
    SPLITS,
    Fidelity,
    mean_of_known,
    warnings_of,
    without_interval,
)
from ehr_course.evaluation.fidelity_memory import (
    PAIRS,
    Memory,
    memory_of,
    needed_to_tell,
    without_each_group,
)
from ehr_course.evaluation.fidelity_statistics import NEEDED_BY, Counted, everything_counted
from ehr_course.evaluation.measure import (
    FEWEST,
    RESAMPLES,
    LeftOut,
    Measure,
    drawn_counts,
    fewest_have,
    generator,
    interval,
)
from ehr_course.evaluation.sums import DISTINCT, UNSEEN, Statistic, Sums
from ehr_course.records import AnyRecord

FEW_HELD_OUT = 200
"""With fewer held-out patients than this a report says how little they can show."""


@dataclass(frozen=True)
class HeldOutFidelity(Fidelity):
    """How like held-out patients a synthetic cohort is.

    Attributes:
        size: n, how many synthetic, or training, patients are held against the held-out ones.
        memory: whether it is nearer to training patients than to held-out ones.
    """

    memory: Memory | None = None


def fidelity_held_out(
    train: Sequence[AnyRecord],
    held_out: Sequence[AnyRecord],
    synthetic: Sequence[AnyRecord],
    *,
    other_real: Sequence[AnyRecord] = (),
    seed: int = 0,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
) -> HeldOutFidelity:
    """Compare a synthetic cohort with held-out patients; see the head of this module.

    Args:
        train: the patients that the model learned from.
        held_out: patients of the same hospital that it never saw. Of more than there are training
            patients, as many as these are drawn.
        synthetic: the patients to judge.
        other_real, seed, resamples, confidence: as ``fidelity`` takes them.

    Returns:
        the measures of ``fidelity``, by the same names. ``against_training`` of a measure is its
        value against training patients, and ``nan`` where it is a number of each cohort by itself.
        Where a cohort has fewer than 30 patients no interval is given, and a warning says so.

    Raises:
        InputError: if a cohort has no patients, or an argument is out of its range.
    """
    cohorts = {"held-out": held_out, "training": train, "synthetic": synthetic}
    for name, cohort in cohorts.items():
        if not len(cohort):
            raise InputError(
                "fidelity_held_out",
                f"{name} patients",
                "there are none",
                "Give at least one patient.",
            )
    if resamples < 2:
        raise InputError("fidelity_held_out", "resamples", f"{resamples!r} is too few", "Use 200.")
    whole, learned, written = code_tables(*cohorts.values())
    found = _Found(whole, learned, written, seed, resamples, confidence)
    memory = found.memory
    if memory is not None and not (memory.can_be_known or memory.remembers):
        memory = replace(memory, needed=_needed(train, seed))
    warnings = warnings_of(whole, written, [*train, *other_real], name="held-out")
    warnings += without_interval(found.few)
    if FEWEST <= found.n_real < FEW_HELD_OUT and len(synthetic) >= FEWEST:
        warnings.append(_what_few_show(len(held_out), len(train), found.measures))
    left_out = tuple(
        LeftOut(name, reason)
        for what, reason in unknown_in(
            {"training": learned, "held-out": whole, "synthetic": written}
        ).items()
        for name in NEEDED_BY[what]
    )
    return HeldOutFidelity(
        tuple(found.measures), found.choices.size, tuple(warnings), left_out, memory
    )


class _Found:
    """Every measure of two tables, and where one has too few patients for an interval."""

    def __init__(
        self,
        held_out: CodeTable,
        learned: CodeTable,
        written: CodeTable,
        seed: int,
        resamples: int,
        confidence: float,
    ) -> None:
        rng = generator(seed)
        self.n_real = min(len(held_out), len(learned))
        real, as_many = (
            table.select(np.sort(rng.permutation(len(table))[: self.n_real]))
            for table in (held_out, learned)
        )
        self.choices = _Choices(self.n_real, len(written), len(learned), resamples, rng)
        self.measures: list[Measure] = []
        self.few: dict[str, list[str]] = {}
        self.memory: Memory | None = None
        both = _stacked(written, learned)
        for of_real, of_learned in zip(
            everything_counted(real, both), everything_counted(as_many, both), strict=True
        ):
            counted = _counted(of_real, len(written))
            fewest = min(counted.values())
            sums = self.choices.sums(of_real)
            against = self.choices.sums(of_learned, purposes=(_SPLITS, _LEFT_OUT))
            for statistic, same in zip(of_real.statistics, of_learned.statistics, strict=True):
                measure = _measure(statistic, sums, confidence if fewest >= FEWEST else None)
                if statistic.better != "near":
                    value = mean_of_known(same(against.real(_SPLITS), against.synthetic(_SPLITS)))
                    measure = replace(measure, against_training=value)
                self.measures.append(measure)
                if statistic.name == PAIRS and fewest >= FEWEST:
                    self.memory = _memory(
                        (statistic, sums), (same, against), self.n_real, confidence
                    )
            if of_real.needs and fewest < FEWEST:
                reason = fewest_have(of_real.needs, counted)
                self.few.setdefault(reason, []).append(of_real.name)


# ------------------------------------------------------------------ who is held against whom


_SPLITS, _DRAWN, _LEFT_OUT = "splits", "drawn", "left out"


@dataclass(frozen=True)
class _AllSums:
    """The sums of one kind of thing, by the purpose of the choices: real, synthetic, training."""

    sides: tuple[dict[str, Sums], ...]

    def real(self, purpose: str) -> Sums:
        return self.sides[0][purpose]

    def synthetic(self, purpose: str) -> Sums:
        return self.sides[1][purpose]

    def learned(self, purpose: str) -> Sums:
        return self.sides[2][purpose]


class _Choices:
    """Which patients of each cohort are counted, and how often: one column a choice."""

    def __init__(
        self,
        n_real: int,
        n_synthetic: int,
        n_learned: int,
        resamples: int,
        rng: np.random.Generator,
    ) -> None:
        self.size = min(n_synthetic, n_learned)
        self.n_synthetic = n_synthetic
        self.weights = []
        # A stream for each cohort, so that what is drawn of one does not change with another.
        streams = rng.spawn(3)
        sizes = ((n_real, n_real), (n_synthetic, self.size), (n_learned, self.size))
        for (n, size), stream in zip(sizes, streams, strict=True):
            splits = np.zeros((SPLITS, n), dtype=np.float32)
            for split in splits:
                split[stream.permutation(n)[:size]] = 1
            self.weights.append(
                {
                    _SPLITS: splits.T,
                    _DRAWN: drawn_counts(n, resamples, stream, size=size).T,
                    _LEFT_OUT: without_each_group(splits[0] > 0, stream).T,
                }
            )

    def sums(
        self, kind: Counted, purposes: Sequence[str] = (_SPLITS, _DRAWN, _LEFT_OUT)
    ) -> _AllSums:
        """The sums of real patients, of synthetic ones, and of training patients."""
        (real, both), (of_real, of_both) = kind.matrices, kind.of
        n = self.n_synthetic
        parts = ((real, of_real), (both[:n], of_both[:n]), (both[n:], of_both[n:]))
        sides = []
        for (matrix, of), weights in zip(parts, self.weights, strict=True):
            turned = matrix.T.tocsr()
            sides.append(
                {
                    purpose: Sums(
                        np.ascontiguousarray((turned @ np.ascontiguousarray(w)).T), of @ w
                    )
                    for purpose, w in weights.items()
                    if purpose in purposes
                }
            )
        return _AllSums(tuple(sides))


def _measure(statistic: Statistic, sums: _AllSums, confidence: float | None) -> Measure:
    """One measure; without a confidence it has no interval."""
    near = statistic.better == "near" and statistic.name != DISTINCT.name
    in_its_place = sums.real if near else sums.learned

    def both(purpose: str) -> tuple[np.ndarray, np.ndarray]:
        real = sums.real(purpose)
        return statistic(real, sums.synthetic(purpose)), statistic(real, in_its_place(purpose))

    value, floor = map(mean_of_known, both(_SPLITS))
    low = high = math.nan
    if confidence is not None and not math.isnan(value):
        ours, theirs = both(_DRAWN)
        low, high = interval(ours - theirs, confidence=confidence, centre=value)
        # Moved to the value, an interval can pass what the number cannot.
        low, high = np.clip([low, high], statistic.lowest, statistic.highest)
    meaning = _MEANINGS.get(statistic.name, statistic.meaning)
    return Measure(
        statistic.name, value, low, high, floor, statistic.unit, statistic.better, meaning
    )


_MEANINGS = {
    UNSEEN.name: "The share of the codes written that none of the held-out patients has; the "
    "floor is that share among the codes of training patients.",
    DISTINCT.name: "How many different codes that many synthetic patients have; the floor is how "
    "many as many training patients have.",
}
"""What is said otherwise where the real patients are held-out ones."""


def _memory(
    to_real: tuple[Statistic, _AllSums],
    to_learned: tuple[Statistic, _AllSums],
    n_real: int,
    confidence: float,
) -> Memory:
    """What the distances from both say, the synthetic patients' and the photocopies'."""
    distances = (
        statistic(sums.real(_LEFT_OUT), written(_LEFT_OUT))
        for statistic, sums in (to_real, to_learned)
        for written in (sums.synthetic, sums.learned)
    )
    return memory_of(*distances, n_held_out=n_real, confidence=confidence)


def _counted(kind: Counted, n_synthetic: int) -> dict[str, int]:
    """How many patients are counted, of each cohort."""
    real, both = kind.of
    cohorts = {"training": both[n_synthetic:], "held-out": real, "synthetic": both[:n_synthetic]}
    return {name: int((of > 0).sum()) for name, of in cohorts.items()}


def _stacked(one: CodeTable, other: CodeTable) -> CodeTable:
    """The patients of one table, and after them those of another one."""

    def joined(name: str) -> np.ndarray | None:
        parts = [getattr(table, name) for table in (one, other)]
        return None if any(part is None for part in parts) else np.concatenate(parts)

    return CodeTable(
        one.codes,
        csr_array(vstack([one.patients, other.patients], format="csr")),
        csr_array(vstack([one.visits, other.visits], format="csr")),
        np.concatenate([one.owner, other.owner + len(one)]),
        joined("ages"),
        joined("sexes"),
        one.system,
    )


# ------------------------------------------------------------------ what few patients show


def _what_few_show(n_held_out: int, n_train: int, measures: Sequence[Measure]) -> str:
    """What cannot be known from so few held-out patients, or from so few training patients."""
    few, remedy = f"Only {n_held_out} patients are held out", "Hold out"
    if n_train < n_held_out:
        few = f"Only {n_train} held-out patients are compared, as many as there are training ones"
        remedy = "Train on"
    unknown = sum(not measure.known for measure in measures)
    without = f", and {unknown} of {len(measures)} measures have no interval" if unknown else ""
    return (
        f"{few}. Intervals are wide{without}: a measure at its floor says little, because a "
        f"cohort that is unlike real patients can be there too. {remedy} {FEW_HELD_OUT} or more."
    )


def _needed(train: Sequence[AnyRecord], seed: int) -> int | None:
    """How many held-out patients would tell photocopies, from the training patients alone."""
    order = generator(seed).permutation(len(train))[:_ASKED].tolist()
    halves = [[train[row] for row in order[first::2]] for first in (0, 1)]
    if min(map(len, halves)) < FEWEST:
        return None
    copied, others = code_tables(*halves)
    memory = _Found(others, copied, copied, seed, resamples=2, confidence=0.95).memory
    return None if memory is None else needed_to_tell(memory, len(train))


_ASKED = 4_000
"""Of more training patients, so many are split in halves."""
