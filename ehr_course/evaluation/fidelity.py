"""Is a synthetic cohort like a real one? Codes, pairs of codes, lengths, ages and sexes.

**Equal sizes.** A distance between two samples depends on how large they are: two samples of one
hospital differ by chance, and the more so the smaller they are. So every comparison here is
between m patients and m others, where m is half of the real cohort, or the whole synthetic one
if that is smaller:

* the **value** compares m real patients with m synthetic ones; it is the mean over 20 random
  choices of both;
* the **floor** compares the same m real patients with m of the other real ones, and is the mean
  over the same 20 choices. Synthetic patients as good as real ones score it, give or take what
  chance does; none can be expected to come closer to a hospital than the hospital itself.

The floor depends on the real patients, m and the seed, and on nothing else: all cohorts with at
least half as many patients as the real one are held against the same floor. A smaller one is held
against the floor of its size.

**What is compared** thing by thing are the codes that real patients have, and the pairs of the 150
most frequent of them. All others count together, as one thing, in the distances, and not at all in
R2 and RMSE. What a cohort has and real patients have not is also a measure of its own, "unseen
codes".

**Intervals** say how far one comparison of m with m moves with other patients: m real and m
synthetic patients are drawn with replacement, again and again. Drawing adds noise, by which a
distance only grows; so the interval has the spread of the resamples, moved to the value. The
value, as a mean of 20 comparisons, moves less: the interval is on the careful side.

A share such as the carry-over of codes is a number of each cohort by itself. There the value is
the share of the synthetic patients, the floor that of the real ones, and the interval has the
spread of the difference between both.

**R2** is the coefficient of determination of the line synthetic = real, with one point for each
code: ``sklearn.metrics.r2_score(real, synthetic)``. It is 1 where all prevalences are equal, 0
where the mean of the real ones would do as well for every code, and can be below. It is not the
squared correlation, which is also 1 where all prevalences are twice too high.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import CodeTable, code_tables, unknown_in
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
    measure_named,
    too_few,
)
from ehr_course.records import AnyRecord

SPLITS = 20
"""How often the cohorts are split at random, to compare m patients with m others."""


@dataclass(frozen=True)
class Fidelity:
    """How like its model a synthetic cohort is.

    Attributes:
        measures: each with its interval and its floor; their names are those of the table in
            fidelity's docstring, in its order.
        size: m, how many patients were compared with how many others.
        warnings: what the reader must know before the numbers are used; empty if nothing.
        left_out: the measures of age or sex, where a cohort has none.
    """

    measures: tuple[Measure, ...]
    size: int
    warnings: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    def __getitem__(self, name: str) -> Measure:
        """The measure of a name."""
        return measure_named(self.measures, name)


def fidelity(
    real: Sequence[AnyRecord],
    synthetic: Sequence[AnyRecord],
    *,
    other_real: Sequence[AnyRecord] = (),
    seed: int = 0,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
) -> Fidelity:
    """Compare a synthetic cohort with a real one; see the head of this module for the method.

    ================================================ ========== ======
    name                                             unit       better
    ================================================ ========== ======
    patient prevalence R2                                       high
    patient prevalence RMSE                          share      low
    distinct codes                                   codes      near
    visit prevalence R2                                         high
    visit prevalence RMSE                            share      low
    code distribution JS divergence                  bits       low
    code distribution JS distance                    sqrt(bits) low
    unseen codes                                     share      low
    first visit prevalence R2                                   high
    later visit prevalence R2                                   high
    code pairs R2                                               high
    code pairs RMSE                                  share      low
    code pairs JS divergence                         bits       low
    code pairs JS distance                           sqrt(bits) low
    sequential pairs R2                                         high
    sequential pairs RMSE                            share      low
    sequential pairs JS divergence                   bits       low
    sequential pairs JS distance                     sqrt(bits) low
    carry-over of codes                              share      near
    carry-over of codes across 2 visits              share      near
    carry-over of codes across 3 visits              share      near
    carry-over of chronic categories                 share      near
    carry-over of chronic categories across 2 visits share      near
    carry-over of chronic categories across 3 visits share      near
    recurrent codes                                  share      near
    visits per patient JS divergence                 bits       low
    visits per patient difference                    visits     low
    patients with 4 visits or more                   share      near
    codes per visit JS divergence                    bits       low
    codes per visit difference                       codes      low
    age JS divergence                                bits       low
    age difference                                   years      low
    sex difference                                   share      low
    ================================================ ========== ======

    Args:
        real: the patients to be like, of whom the model has seen none: it remembers those that it
            learned from, and that would count as quality. Where there are both, use
            ``fidelity_held_out``.
        synthetic: the patients to judge.
        other_real: further real patients. They are compared with nobody; but a code that one of
            them has is not reported as a code that no real patient has.
        seed: of the splits and of the bootstrap, 0 or more.
        resamples: how often patients are drawn for the intervals.
        confidence: of the intervals, above 0 and below 1.

    Returns:
        the measures. Where a cohort has fewer than 30 patients no interval is given, and with a
        single real patient no floor: both are ``nan``, and a warning says so.

    Raises:
        InputError: if a cohort has no patients, or an argument is out of its range.
    """
    for name, cohort in (("real", real), ("synthetic", synthetic)):
        if not len(cohort):
            raise InputError("fidelity", name, "it has no patients", "Give at least one patient.")
    if resamples < 2:
        raise InputError("fidelity", "resamples", f"{resamples!r} is too few", "Use 200.")
    tables = code_tables(real, synthetic)
    comparison = _Comparison(len(real), len(synthetic), resamples, seed)
    of_real, of_synthetic = tables
    warnings = warnings_of(of_real, of_synthetic, other_real)
    measures = []
    few: dict[str, list[str]] = {}
    for kind in everything_counted(*tables):
        measures += comparison.measures(kind, confidence)
        if kind.needs and min(kind.counted) < FEWEST:
            counted = dict(zip(("real", "synthetic"), kind.counted, strict=True))
            few.setdefault(fewest_have(kind.needs, counted), []).append(kind.name)
    warnings += without_interval(few)
    left_out = tuple(
        LeftOut(name, reason)
        for what, reason in unknown_in({"real": tables[0], "synthetic": tables[1]}).items()
        for name in NEEDED_BY[what]
    )
    return Fidelity(tuple(measures), comparison.size, tuple(warnings), left_out)


class _Comparison:
    """Which patients are held against which: weights of patients, one column a comparison."""

    def __init__(self, n_real: int, n_synthetic: int, resamples: int, seed: int) -> None:
        # Two streams, so that what is drawn of one cohort does not change with the other one.
        rng, other_rng = generator(seed).spawn(2)
        size = self.size = max(1, min(n_real // 2, n_synthetic))
        self.has_floor = n_real >= 2 * size
        chosen, others, of_synthetic = (
            np.zeros((SPLITS, n), dtype=np.float32) for n in (n_real, n_real, n_synthetic)
        )
        for split in range(SPLITS):
            order = rng.permutation(n_real)
            chosen[split, order[:size]] = 1
            others[split, order[size : 2 * size]] = 1
            of_synthetic[split, other_rng.permutation(n_synthetic)[:size]] = 1
        drawn = [
            drawn_counts(n, resamples, of, size=size)
            for n, of in ((n_real, rng), (n_synthetic, other_rng))
        ]
        # (patients, comparisons), so that a sparse matrix goes through memory once for all.
        self.of_real = np.ascontiguousarray(np.concatenate([chosen, others, drawn[0]]).T)
        self.of_synthetic = np.ascontiguousarray(np.concatenate([of_synthetic, drawn[1]]).T)

    def measures(self, kind: Counted, confidence: float) -> list[Measure]:
        """The measures of one kind of count."""
        real, synthetic = kind.sums(self.of_real, self.of_synthetic)
        first, second, drawn = slice(SPLITS), slice(SPLITS, 2 * SPLITS), slice(2 * SPLITS, None)
        of_synthetic = synthetic.some(first)
        synthetic_drawn = synthetic.some(slice(SPLITS, None))
        enough = min(kind.counted) >= FEWEST
        found = []
        for statistic in kind.statistics:
            value = mean_of_known(statistic(real.some(first), of_synthetic))
            floor = math.nan
            if self.has_floor:
                floor = mean_of_known(statistic(real.some(first), real.some(second)))
            low = high = math.nan
            if enough and not math.isnan(value):
                values = statistic(real.some(drawn), synthetic_drawn)
                if statistic.better == "near":
                    # It looks at one cohort alone; the floor moves with the other one.
                    values = values - statistic(synthetic_drawn, real.some(drawn))
                low, high = interval(values, confidence=confidence, centre=value)
                # Moved to the value, an interval can pass what the number cannot.
                low, high = np.clip([low, high], statistic.lowest, statistic.highest)
            found.append(
                Measure(
                    statistic.name,
                    value,
                    low,
                    high,
                    floor,
                    statistic.unit,
                    statistic.better,
                    statistic.meaning,
                )
            )
        return found


def without_interval(few: Mapping[str, Sequence[str]]) -> list[str]:
    """A warning that lists the measures without an interval, by what is lacking, if any."""
    listed = "; ".join(f"{reason} ({', '.join(names)})" for reason, names in few.items())
    return [f"No interval is given below {FEWEST} patients: {listed}."] if few else []


def mean_of_known(values: np.ndarray) -> float:
    """The mean over the splits that have a value."""
    finite = values[np.isfinite(values)]
    return float(finite.mean()) if len(finite) else math.nan


def warnings_of(
    real: CodeTable,
    synthetic: CodeTable,
    other_real: Sequence[AnyRecord],
    *,
    name: str = "real",
) -> list[str]:
    """What to know about two cohorts before they are compared.

    Args:
        real, synthetic: their tables, of one call of ``code_tables``.
        other_real: as ``fidelity`` takes them.
        name: what the real cohort is called.
    """
    warnings = [
        *too_few(f"{name} cohort", len(real)),
        *too_few("synthetic cohort", len(synthetic)),
    ]
    if name == "real" and len(real) < 2:
        warnings.append("One real patient cannot be split: there is no floor.")
    n_real, n_synthetic = (table.patients.sum(axis=0) for table in (real, synthetic))
    if not ((n_real > 0) & (n_synthetic > 0)).any():
        ours, theirs = (real.codes[int(n.argmax())] for n in (n_real, n_synthetic))
        warnings.append(
            "No code is in both cohorts: every distance is at its largest. A real patient has "
            f"{ours!r}, a synthetic one {theirs!r}; are the codes written in the same way?"
        )
        return warnings
    known = {code for record in other_real for code in record.codes}
    unknown = np.array([code not in known for code in real.codes])
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
