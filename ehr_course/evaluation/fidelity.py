"""Is a synthetic cohort like real patients? Codes, pairs of codes, lengths, ages and sexes.

Distances between samples depend on their size and vary by chance, so each value has a floor: what
as many other real patients score. Both are means over 20 random choices of equally many patients.

Whether a cohort remembers training patients is seen in the gap between two Jensen-Shannon
divergences of code pairs (frequencies of single codes need no memory), compared with that
of photocopies of training patients, by a delete-a-tenth jackknife.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ehr_course.evaluation.code_table import CodeTable, code_tables, unknown_in
from ehr_course.evaluation.fidelity_measures import (
    DISTINCT,
    LIMITS,
    NEEDED_BY,
    UNSEEN,
    Counts,
    everything_counted,
    for_each_choice,
)
from ehr_course.evaluation.measure import (
    FEWEST,
    GROUPS,
    RESAMPLES,
    Judgement,
    LeftOut,
    Measure,
    check_patients,
    drawn_counts,
    generator,
    interval,
    interval_around,
    jackknife_error,
    random_groups,
    rows_at_random,
    too_few,
)
from ehr_course.records import AnyRecord

SPLITS = 20
"""How often patients are chosen at random, to compare equally many."""

FEW_HELD_OUT = 200
"""With fewer held-out patients than this a report says how little they can show."""

_ASKED = 4_000
"""The most training patients split into halves; of more, a sample is drawn."""

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


@dataclass(frozen=True)
class Fidelity(Judgement):
    """How like real patients a synthetic cohort is, comparing ``size`` of them at a time."""

    size: int = 0
    memorization: Memorization | None = None


def fidelity(
    real: Sequence[AnyRecord],
    synthetic: Sequence[AnyRecord],
    *,
    other_real: Sequence[AnyRecord] = (),
    seed: int = 0,
    resamples: int = RESAMPLES,
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
    check_patients("fidelity", {"real": real, "synthetic": synthetic})
    of_real, of_synthetic = code_tables(real, synthetic)
    # Two streams, so that what is drawn of one cohort does not change with the other one.
    rng, other_rng = generator(seed).spawn(2)
    size = max(1, min(len(real) // 2, len(synthetic)))
    chosen, others = np.zeros((2, SPLITS, len(real)), dtype=np.float32)
    for split in range(SPLITS):
        order = rng.permutation(len(real))
        chosen[split, order[:size]] = 1
        others[split, order[size : 2 * size]] = 1
    drawn = drawn_counts(len(real), resamples, rng, size=size)
    weights, of_others = _columns(chosen, drawn), _columns(others, drawn)
    other_weights = _chosen_and_drawn(len(synthetic), size, resamples, other_rng)
    measures = []
    few: dict[str, list[str]] = {}
    for kind in everything_counted(of_real, of_synthetic):
        counted = dict(zip(("real", "synthetic"), kind.n_patients, strict=True))
        enough = _enough(kind, counted, few)
        columns = slice(None if enough else SPLITS)
        ours = kind.totals(0, weights[:, columns])
        theirs = kind.totals(1, other_weights[:, columns])
        floor = kind.totals(0, of_others[:, columns])
        for measure, function in kind.measures:
            values, floors = (for_each_choice(function, ours, side) for side in (theirs, floor))
            # A measure that looks at one cohort alone has a floor that moves with the resamples.
            drawn = values - floors if measure.better == "near" else values
            found = _measured(measure, values, floors, drawn[SPLITS:])
            measures.append(found if len(real) > 1 else replace(found, floor=math.nan))
    return Fidelity(
        tuple(measures),
        (*_warnings("real", of_real, of_synthetic, other_real), *_too_few_of_a_kind(few)),
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
    check_patients("fidelity", cohorts)
    whole, learned, written = code_tables(*cohorts.values())
    compared = _HeldOutComparison(whole, learned, written, seed, resamples)
    measures = []
    few: dict[str, list[str]] = {}
    memorization = None
    for kind, same in compared.kinds():
        against = [
            same.totals(cohort, weights[:, :SPLITS])
            for cohort, weights in enumerate(compared.weights[:2])
        ]
        named = dict(zip(("held-out", "synthetic", "training"), kind.n_patients, strict=True))
        counted = {name: named[name] for name in ("training", "held-out", "synthetic")}
        enough = _enough(kind, counted, few)
        columns = slice(None if enough else SPLITS)
        ours, theirs, of_training = (
            kind.totals(cohort, weights[:, columns])
            for cohort, weights in enumerate(compared.weights)
        )
        for (measure, function), (_, of_same) in zip(kind.measures, same.measures, strict=True):
            by_itself = measure.better == "near" and measure.name != DISTINCT
            floor = ours if by_itself else of_training
            values, floors = (for_each_choice(function, ours, side) for side in (theirs, floor))
            found = _measured(measure, values, floors, (values - floors)[SPLITS:])
            if measure.better != "near":
                value = _mean_of_known(for_each_choice(of_same, *against))
                found = replace(found, against_training=value)
            measures.append(replace(found, meaning=_MEANINGS.get(found.name, found.meaning)))
            if measure.name == PAIRS and enough:
                memorization = compared.memorization(kind, same)
    if memorization and not (memorization.can_be_known or memorization.remembers):
        memorization = replace(memorization, needed=_needed(train, seed))
    warnings = [
        *_warnings("held-out", whole, written, [*train, *other_real]),
        *_too_few_of_a_kind(few),
    ]
    if FEWEST <= compared.n_real < FEW_HELD_OUT and len(synthetic) >= FEWEST:
        warnings.append(_what_few_show(len(held_out), len(train), measures))
    left_out = _left_out({"training": learned, "held-out": whole, "synthetic": written})
    return Fidelity(tuple(measures), tuple(warnings), left_out, compared.size, memorization)


_MEANINGS = {
    UNSEEN: "The share of the codes written that none of the held-out patients has; the "
    "floor is that share among the codes of training patients.",
    DISTINCT: "How many different codes that many synthetic patients have; the floor is how "
    "many as many training patients have.",
}
"""The meanings that differ where the real patients are held-out ones."""


# ------------------------------------------------------------------ one comparison


def _columns(*weights: np.ndarray) -> np.ndarray:
    """Weights (choices, patients), one after the other, as (patients, choices)."""
    return np.ascontiguousarray(np.concatenate(weights).T)


def _chosen_and_drawn(
    n_patients: int, size: int, resamples: int, rng: np.random.Generator
) -> np.ndarray:
    """Weights of random choices of patients, then of resamples: (patients, splits + resamples)."""
    splits = np.zeros((SPLITS, n_patients), dtype=np.float32)
    for split in splits:
        split[rng.permutation(n_patients)[:size]] = 1
    return _columns(splits, drawn_counts(n_patients, resamples, rng, size=size))


def _measured(
    measure: Measure, values: np.ndarray, floors: np.ndarray, drawn: np.ndarray
) -> Measure:
    """The measure with its value and floor, means of the choices, and its interval.

    ``values`` and ``floors`` begin with the choices; ``drawn``, float (resamples,), has the spread
    of the interval, and is empty where there are too few patients for one.
    """
    value, floor = (_mean_of_known(numbers[:SPLITS]) for numbers in (values, floors))
    low, high = interval(drawn, centre=value)
    # Moved to the value, an interval can pass what the number cannot.
    low, high = np.clip([low, high], *LIMITS.get(measure.unit, (0, math.inf)))
    return replace(measure, value=value, low=low, high=high, floor=floor)


def _mean_of_known(values: np.ndarray) -> float:
    """The mean over the choices that have a value."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else math.nan


class _HeldOutComparison:
    """Which held-out, synthetic and training patients are compared with each other.

    Attributes:
        tables: of held-out, synthetic and training patients.
        same: the same with as many training patients in place of the held-out ones.
        weights: of each table, float32 (patients, splits + resamples).
    """

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
            table.select(rows_at_random(self.n_real, len(table), rng))
            for table in (held_out, learned)
        )
        self.tables, self.same = (real, written, learned), (as_many, written, learned)
        self.size = min(len(written), len(learned))
        self.weights, self.tenths = [], []
        # A stream for each cohort, so that what is drawn of one does not change with another.
        for table, stream in zip(self.tables, rng.spawn(3), strict=True):
            size = self.n_real if table is real else self.size
            weights = _chosen_and_drawn(len(table), size, resamples, stream)
            self.weights.append(weights)
            self.tenths.append(_columns(without_each_group(weights[:, 0] > 0, stream)))

    def kinds(self) -> Iterator[tuple[Counts, Counts]]:
        """Each kind of thing, compared with held-out and with as many training patients."""
        return zip(everything_counted(*self.tables), everything_counted(*self.same), strict=True)

    def memorization(self, kind: Counts, same: Counts) -> Memorization:
        """What the distances of pairs say, from held-out and from training patients."""
        distances = []
        for each in (kind, same):
            functions = {measure.name: function for measure, function in each.measures}
            real, *others = (each.totals(n, weights) for n, weights in enumerate(self.tenths))
            distances += [for_each_choice(functions[PAIRS], real, other) for other in others]
        return memorization_of(*distances, n_held_out=self.n_real)


# ------------------------------------------------------------------ memorization


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


def _needed(train: Sequence[AnyRecord], seed: int) -> int | None:
    """How many held-out patients would tell photocopies, from the training patients alone."""
    order = generator(seed).permutation(len(train))[:_ASKED].tolist()
    halves = [[train[row] for row in order[first::2]] for first in (0, 1)]
    if min(map(len, halves)) < FEWEST:
        return None
    copied, others = code_tables(*halves)
    compared = _HeldOutComparison(others, copied, copied, seed, resamples=2)
    of_pairs = next(
        kinds
        for kinds in compared.kinds()
        if PAIRS in (measure.name for measure, _ in kinds[0].measures)
    )
    return needed_to_tell(compared.memorization(*of_pairs), len(train))


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


# ------------------------------------------------------------------ warnings


def _left_out(tables: Mapping[str, CodeTable]) -> tuple[LeftOut, ...]:
    unknown = unknown_in(tables)
    return tuple(LeftOut(name, unknown[what]) for what in unknown for name in NEEDED_BY[what])


def _enough(kind: Counts, counted: Mapping[str, int], few: dict[str, list[str]]) -> bool:
    """Whether enough patients of each cohort are counted for an interval; if not, note it."""
    name = min(counted, key=counted.__getitem__)
    if counted[name] >= FEWEST:
        return True
    if kind.needs:
        who = "patient has" if counted[name] == 1 else "patients have"
        reason = f"only {counted[name]} {name} {who} {kind.needs}"
        few.setdefault(reason, []).append(kind.name)
    return False


def _too_few_of_a_kind(few: Mapping[str, Sequence[str]]) -> list[str]:
    """A warning that lists the measures without an interval, by the reason, if any."""
    listed = "; ".join(f"{reason} ({', '.join(of)})" for reason, of in few.items())
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
