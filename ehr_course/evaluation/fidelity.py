"""Is a synthetic cohort like real patients? Codes, pairs of codes, lengths, ages and sexes.

Distances between samples depend on their size and vary by chance, so each value has a floor: what
as many other real patients score. Both are means over 20 random choices of equally many patients.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import CodeTable, code_tables, unknown_in
from ehr_course.evaluation.fidelity_measures import (
    DISTINCT,
    LIMITS,
    NEEDED_BY,
    UNSEEN,
    Counts,
    Function,
    Totals,
    everything_counted,
    for_each_choice,
)
from ehr_course.evaluation.measure import (
    FEWEST,
    RESAMPLES,
    Judgement,
    LeftOut,
    Measure,
    check_patients,
    drawn_counts,
    generator,
    interval,
    too_few,
)
from ehr_course.evaluation.memory import (
    PAIRS,
    Memory,
    memory_of,
    needed_to_tell,
    without_each_group,
)
from ehr_course.records import AnyRecord

SPLITS = 20
"""How often patients are chosen at random, to compare equally many."""

FEW_HELD_OUT = 200
"""With fewer held-out patients than this a report says how little they can show."""

_ASKED = 4_000
"""Of more training patients than this, so many are split in halves."""


@dataclass(frozen=True)
class Fidelity(Judgement):
    """How like real patients a synthetic cohort is, comparing ``size`` of them at a time."""

    size: int = 0
    memory: Memory | None = None


def fidelity(
    real: Sequence[AnyRecord],
    synthetic: Sequence[AnyRecord],
    *,
    other_real: Sequence[AnyRecord] = (),
    seed: int = 0,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
) -> Fidelity:
    """Compare a synthetic cohort with a real one.

    The value compares m real patients with m synthetic ones, where m is half of the real cohort,
    or the synthetic cohort if that is smaller. The floor compares the same m real patients with m
    of the others: no cohort can be expected to come closer to a hospital than the hospital itself.
    The floor of a number of each cohort by itself, such as carry-over, is that of the real
    patients. R2 is the coefficient of determination of the line synthetic = real, at most 1.

    An interval has the spread of the resamples, moved to the value, because drawing patients with
    replacement adds noise, which increases distances.

    Args:
        real: the patients to be like, best unseen by the model; where there are training patients
            too, use ``fidelity_held_out``.
        other_real: further real patients, whose codes count as known and who are not compared.

    Returns:
        the measures. With fewer than 30 patients in a cohort there is no interval, and with a
        single real patient no floor: both are ``nan``, and a warning says so.
    """
    _check(resamples, {"real": real, "synthetic": synthetic})
    of_real, of_synthetic = code_tables(real, synthetic)
    # Two streams, so that what is drawn of one cohort does not change with the other one.
    rng, other_rng = generator(seed).spawn(2)
    size = max(1, min(len(real) // 2, len(synthetic)))
    chosen, others, written = (
        np.zeros((SPLITS, n), dtype=np.float32) for n in (len(real), len(real), len(synthetic))
    )
    for split in range(SPLITS):
        order = rng.permutation(len(real))
        chosen[split, order[:size]] = 1
        others[split, order[size : 2 * size]] = 1
        written[split, other_rng.permutation(len(synthetic))[:size]] = 1
    drawn = drawn_counts(len(real), resamples, rng, size=size)
    weights = _columns(others, chosen, drawn)
    drawn = drawn_counts(len(synthetic), resamples, other_rng, size=size)
    other_weights = _columns(written, drawn)
    measures = []
    few = _Few()
    for kind in everything_counted(of_real, of_synthetic):
        real_totals = kind.totals(0, weights)
        in_its_place = real_totals.some(slice(SPLITS))
        ours = _side(real_totals.some(slice(SPLITS, None)))
        theirs = _side(kind.totals(1, other_weights))
        counted = dict(zip(("real", "synthetic"), kind.n_patients, strict=True))
        level = confidence if few.check(kind, counted) else None
        for measure, function in kind.measures:
            # A measure that looks at one cohort alone has a floor that moves with the other one.
            floor = _Side(in_its_place, ours.drawn if measure.better == "near" else None)
            found = _measured(measure, function, ours, theirs, floor, level)
            measures.append(found if len(real) > 1 else replace(found, floor=math.nan))
    return Fidelity(
        tuple(measures),
        (*_warnings("real", of_real, of_synthetic, other_real), *few.warnings),
        _left_out({"real": of_real, "synthetic": of_synthetic}),
        size,
    )


def fidelity_held_out(
    train: Sequence[AnyRecord],
    held_out: Sequence[AnyRecord],
    synthetic: Sequence[AnyRecord],
    *,
    other_real: Sequence[AnyRecord] = (),
    seed: int = 0,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
) -> Fidelity:
    """Compare a synthetic cohort with held-out patients, whom its model never saw.

    Against training patients a cohort of copies is better than real patients can be. So the value
    compares the held-out patients with n synthetic ones, and the floor compares them with n
    training patients, n being the size of the smaller cohort. Intervals have the spread of the
    value minus the floor. In trials most faults stayed hidden with 40 held-out patients.

    Args:
        held_out: of more than there are training patients, as many as these are drawn.
        other_real: as ``fidelity`` takes it.

    Returns:
        the measures of ``fidelity``. ``against_training`` is the value against training patients,
        ``nan`` for a number of each cohort by itself.
    """
    cohorts = {"held-out": held_out, "training": train, "synthetic": synthetic}
    _check(resamples, cohorts)
    whole, learned, written = code_tables(*cohorts.values())
    drawn = _Drawn(whole, learned, written, seed, resamples)
    measures = []
    few, memory = _Few(), None
    for kind, same in drawn.kinds():
        ours, theirs, floor = (_side(totals) for totals in drawn.totals(kind))
        against = drawn.training_choices(same)
        named = dict(zip(("held-out", "synthetic", "training"), kind.n_patients, strict=True))
        counted = {name: named[name] for name in ("training", "held-out", "synthetic")}
        level = confidence if few.check(kind, counted) else None
        for (measure, function), (_, of_same) in zip(kind.measures, same.measures, strict=True):
            by_itself = measure.better == "near" and measure.name != DISTINCT
            in_its_place = ours if by_itself else floor
            found = _measured(measure, function, ours, theirs, in_its_place, level)
            if measure.better != "near":
                value = _mean_of_known(for_each_choice(of_same, *against))
                found = replace(found, against_training=value)
            measures.append(replace(found, meaning=_MEANINGS.get(found.name, found.meaning)))
            if measure.name == PAIRS and level is not None:
                memory = drawn.memory(kind, same, level)
    if memory is not None and not (memory.can_be_known or memory.remembers):
        memory = replace(memory, needed=_needed(train, seed))
    warnings = [*_warnings("held-out", whole, written, [*train, *other_real]), *few.warnings]
    if FEWEST <= drawn.n_real < FEW_HELD_OUT and len(synthetic) >= FEWEST:
        warnings.append(_what_few_show(len(held_out), len(train), measures))
    left_out = _left_out({"training": learned, "held-out": whole, "synthetic": written})
    return Fidelity(tuple(measures), tuple(warnings), left_out, drawn.size, memory)


_MEANINGS = {
    UNSEEN: "The share of the codes written that none of the held-out patients has; the "
    "floor is that share among the codes of training patients.",
    DISTINCT: "How many different codes that many synthetic patients have; the floor is how "
    "many as many training patients have.",
}
"""The meanings that are other ones where the real patients are held-out ones."""


# ------------------------------------------------------------------ one comparison


class _Side(NamedTuple):
    """The totals of one side, for the random choices and for the resamples of its patients."""

    choices: Totals
    drawn: Totals | None


def _side(totals: Totals) -> _Side:
    return _Side(totals.some(slice(SPLITS)), totals.some(slice(SPLITS, None)))


def _columns(*weights: np.ndarray) -> np.ndarray:
    """Weights (choices, patients), one after the other, as (patients, choices)."""
    return np.ascontiguousarray(np.concatenate(weights).T)


def _measured(
    measure: Measure,
    function: Function,
    real: _Side,
    synthetic: _Side,
    floor: _Side,
    confidence: float | None,
) -> Measure:
    """The measure with its value, floor and, unless confidence is None, its interval.

    The interval is that of the value minus the floor where the floor has been drawn too.
    """
    value, of_floor = (
        _mean_of_known(for_each_choice(function, real.choices, side.choices))
        for side in (synthetic, floor)
    )
    low = high = math.nan
    if confidence is not None and not math.isnan(value):
        assert real.drawn is not None
        assert synthetic.drawn is not None
        values = for_each_choice(function, real.drawn, synthetic.drawn)
        if floor.drawn is not None:
            values = values - for_each_choice(function, real.drawn, floor.drawn)
        low, high = interval(values, confidence=confidence, centre=value)
        # Moved to the value, an interval can pass what the number cannot.
        low, high = np.clip([low, high], *LIMITS.get(measure.unit, (0, math.inf)))
    return replace(measure, value=value, low=low, high=high, floor=of_floor)


def _mean_of_known(values: np.ndarray) -> float:
    """The mean over the choices that have a value."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else math.nan


class _Drawn:
    """Which held-out, synthetic and training patients are held against each other."""

    def __init__(
        self,
        held_out: CodeTable,
        learned: CodeTable,
        written: CodeTable,
        seed: int,
        resamples: int,
    ) -> None:
        rng = generator(seed)
        self.n_real = min(len(held_out), len(learned))
        real, as_many = (
            table.select(np.sort(rng.permutation(len(table))[: self.n_real]))
            for table in (held_out, learned)
        )
        self.tables, self.same = (real, written, learned), (as_many, written, learned)
        self.size = min(len(written), len(learned))
        self.weights, self.tenths = [], []
        # A stream for each cohort, so that what is drawn of one does not change with another.
        for table, stream in zip(self.tables, rng.spawn(3), strict=True):
            size = self.n_real if table is real else self.size
            splits = np.zeros((SPLITS, len(table)), dtype=np.float32)
            for split in splits:
                split[stream.permutation(len(table))[:size]] = 1
            drawn = drawn_counts(len(table), resamples, stream, size=size)
            self.weights.append(_columns(splits, drawn))
            self.tenths.append(_columns(without_each_group(splits[0] > 0, stream)))

    def kinds(self) -> Iterator[tuple[Counts, Counts]]:
        """Each kind of thing, compared with held-out and with as many training patients."""
        return zip(everything_counted(*self.tables), everything_counted(*self.same), strict=True)

    def totals(self, kind: Counts) -> list[Totals]:
        """The totals of real, synthetic and training patients."""
        return [kind.totals(cohort, weights) for cohort, weights in enumerate(self.weights)]

    def training_choices(self, same: Counts) -> list[Totals]:
        """Of training patients in place of the held-out ones, and of synthetic ones."""
        first = (np.ascontiguousarray(weights[:, :SPLITS]) for weights in self.weights[:2])
        return [same.totals(cohort, weights) for cohort, weights in enumerate(first)]

    def memory(self, kind: Counts, same: Counts, confidence: float) -> Memory:
        """What the distances of pairs say, from held-out and from training patients."""
        distances = []
        for each in (kind, same):
            (function,) = (
                function for measure, function in each.measures if measure.name == PAIRS
            )
            real, *others = (each.totals(n, weights) for n, weights in enumerate(self.tenths))
            distances += [for_each_choice(function, real, other) for other in others]
        return memory_of(*distances, n_held_out=self.n_real, confidence=confidence)


# ------------------------------------------------------------------ warnings


def _check(resamples: int, cohorts: Mapping[str, Sequence[AnyRecord]]) -> None:
    check_patients("fidelity", cohorts)
    if resamples < 2:
        raise InputError("fidelity", "resamples", f"{resamples!r} is too few", "Use 200.")


def _left_out(tables: Mapping[str, CodeTable]) -> tuple[LeftOut, ...]:
    unknown = unknown_in(tables)
    return tuple(LeftOut(name, unknown[what]) for what in unknown for name in NEEDED_BY[what])


class _Few:
    """Notes which measures too few patients can be counted for."""

    def __init__(self) -> None:
        self.names: dict[str, list[str]] = {}

    def check(self, kind: Counts, counted: Mapping[str, int]) -> bool:
        """Whether enough patients of each cohort are counted for an interval."""
        name = min(counted, key=counted.__getitem__)
        if counted[name] >= FEWEST:
            return True
        if kind.needs:
            who = "patient has" if counted[name] == 1 else "patients have"
            reason = f"only {counted[name]} {name} {who} {kind.needs}"
            self.names.setdefault(reason, []).append(kind.name)
        return False

    @property
    def warnings(self) -> list[str]:
        """A warning that lists the measures without an interval, by the reason, if any."""
        listed = "; ".join(f"{reason} ({', '.join(of)})" for reason, of in self.names.items())
        return [f"No interval is given below {FEWEST} patients: {listed}."] if listed else []


def _warnings(
    name: str, real: CodeTable, synthetic: CodeTable, other_real: Sequence[AnyRecord]
) -> list[str]:
    """What to know about two cohorts before they are compared."""
    warnings = too_few(f"{name} cohort", len(real)) + too_few("synthetic cohort", len(synthetic))
    if name == "real" and len(real) < 2:
        warnings.append("One real patient cannot be split: there is no floor.")
    n_real, n_synthetic = (table.patients.sum(axis=0) for table in (real, synthetic))
    if not ((n_real > 0) & (n_synthetic > 0)).any():
        ours, theirs = (real.codes[int(n.argmax())] for n in (n_real, n_synthetic))
        return [
            *warnings,
            "No code is in both cohorts: every distance is at its largest. A real patient has "
            f"{ours!r}, a synthetic one {theirs!r}; are the codes written in the same way?",
        ]
    elsewhere = {code for record in other_real for code in record.codes}
    unknown = np.array([code not in elsewhere for code in real.codes])
    new = np.flatnonzero((n_real == 0) & (n_synthetic > 0) & unknown)
    if len(new):
        example = new[n_synthetic[new].argmax()]
        codes = "1 code" if len(new) == 1 else f"{len(new)} codes"
        of = int(n_synthetic[example])
        share = synthetic.visits[:, new].sum() / synthetic.visits.sum()
        warnings.append(
            f"The synthetic patients have {codes} that none of the "
            f"{len(real) + len(other_real):,} real patients has, such as "
            f"{real.codes[example]!r} ({of} synthetic patient{'s' * (of > 1)}); their share "
            f"of all codes written is {share:.3g}."
        )
    return warnings


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
    drawn = _Drawn(others, copied, copied, seed, resamples=2)
    for kind, same in drawn.kinds():
        if PAIRS in (measure.name for measure, _ in kind.measures):
            return needed_to_tell(drawn.memory(kind, same, confidence=0.95), len(train))
    return None
