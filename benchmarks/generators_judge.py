"""Judge the patients of ``benchmarks/generators.py``, and set up its tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from ehr_course.evaluation.fidelity import fidelity
from ehr_course.evaluation.privacy import privacy
from ehr_course.evaluation.utility import utility
from ehr_course.evaluation.validity import validity
from ehr_course.generation.patients import sample_profiles
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.splits import Split

Found = Mapping[str, Any]
"""What one generator wrote with one seed, and what was measured of it."""


def as_records(found: Found, split: Split, seed: int) -> tuple[list[PatientRecord], int]:
    """The patients of a result, and how many codes stood twice in their visit.

    Every generator is judged with the same ages and sexes, drawn from the training patients: one
    that knows none had no say in them. A code that stands twice in a visit is kept once.
    """
    visits = found["visits"]
    drawn = sample_profiles(split.train, len(visits), seed=seed)
    people = found.get("people") or [(wanted.sex, wanted.age) for wanted in drawn]
    records, repeated = [], 0
    for number, (of_patient, (sex, age)) in enumerate(zip(visits, people, strict=True)):
        once = [tuple(dict.fromkeys(codes)) for codes in of_patient]
        repeated += sum(map(len, of_patient)) - sum(map(len, once))
        records.append(PatientRecord(number, sex, age, tuple(map(Visit, once))))
    return records, repeated


def judged(found: Found, split: Split, seed: int) -> dict[str, float]:
    """Every measure of the report by its name, and "NAME, real" for what real patients score.

    Fidelity is held against the held-out patients, whom no generator has learned from.
    """
    records, repeated = as_records(found, split, seed)
    parts = (
        fidelity(split.test, records, other_real=split.train),
        validity(records, real=split.test),
        privacy(split.train, split.test, records),
        utility(split.train, records, split.test),
    )
    measures = [measure for part in parts for measure in part.measures]
    values = {measure.name: measure.value for measure in measures}
    values |= {f"{measure.name}, real": measure.floor for measure in measures}
    n_codes = sum(len(record.codes) for record in records)
    values["repeated codes"] = repeated / (repeated + n_codes)
    values["codes a visit"] = n_codes / sum(len(record.visits) for record in records)
    values["patients"] = len(records)
    values["patients a second"] = (
        len(records) / found["writing_seconds"] if found.get("writing_seconds") else math.nan
    )
    return {name: value for name, value in values.items() if math.isfinite(value)}


# ------------------------------------------------------------------ the tables


def _plain(digits: int) -> Callable[[float], str]:
    return lambda value: f"{value:,.{digits}f}"


def _percent(value: float) -> str:
    return f"{100 * value:.1f}"


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


@dataclass(frozen=True)
class Column:
    """One measure of a table.

    Attributes:
        head: what stands over it.
        name: of the measure, or of a field of the result.
        written: how a value is written.
    """

    head: str
    name: str
    written: Callable[[float], str]


TABLES: dict[str, tuple[Column, ...]] = {
    "Is everything as frequent?": (
        Column("patient prevalence R2", "patient prevalence R2", _plain(3)),
        Column("codes, JS divergence", "code distribution JS divergence", _plain(3)),
        Column("code pairs R2", "code pairs R2", _plain(2)),
        Column("codes twice in a visit, %", "repeated codes", _percent),
    ),
    "Is there a history?": (
        Column("sequential pairs R2", "sequential pairs R2", _plain(2)),
        Column("codes carried over, %", "carry-over of codes", _percent),
        Column("chronic categories carried over, %", "carry-over of chronic categories", _percent),
        Column("visits a patient, JS divergence", "visits per patient JS divergence", _plain(3)),
        Column("four visits or more, %", "patients with 4 visits or more", _percent),
    ),
    "Does it end visits and records as often as real patients do?": tuple(
        Column(f"{part}, {who}, %", f"ends of {part}, {who}", _percent)
        for part in ("first visits", "later visits", "records")
        for who in ("learned", "unseen")
    ),
    "Are they possible, and whom do they give away?": (
        Column("impossible codes, %", "impossible codes", _percent),
        Column("adversarial accuracy, held-out", "adversarial accuracy, held-out", _plain(3)),
        Column("membership by distance", "membership by distance", _plain(3)),
        Column("exact copies, %", "exact copies", _percent),
    ),
    "Can one learn from them?": (
        Column("next visit AUROC", "next visit AUROC", _plain(3)),
        Column("next visit average precision", "next visit average precision", _plain(3)),
        Column("perplexity a code", "perplexity_per_code", _plain(1)),
    ),
    "What does it cost?": (
        Column("training, s", "training_seconds", _seconds),
        Column("steps", "steps", _plain(0)),
        Column("parameters", "parameters", _plain(0)),
        Column("memory, MiB", "memory_mib", _plain(0)),
        Column("patients a second", "patients a second", _plain(0)),
    ),
}


def tables(results: Mapping[str, Sequence[Found]], labels: Mapping[str, str]) -> str:
    """The tables in Markdown: a row for each generator, the mean over its seeds and their range.

    Args:
        results: of each generator, what was found with each seed; those of "fresh", where they
            are there, also say what real patients score.
        labels: what each generator is called.
    """
    parts = []
    most = max((len(found) for found in results.values()), default=0)
    for title, columns in TABLES.items():
        rows = [["", *(column.head for column in columns)], ["---"] * (1 + len(columns))]
        if "fresh" in results and any(f"{c.name}, real" in results["fresh"][0] for c in columns):
            real = [_cell(c, results["fresh"], f"{c.name}, real", ranged=False) for c in columns]
            rows.append(["real patients", *real])
        for name, found in results.items():
            cells = [_cell(column, found, column.name) for column in columns]
            if any(cells):
                fewer = f", {len(found)} of {most} seeds" if len(found) < most else ""
                rows.append([labels[name] + fewer, *cells])
        lines = "\n".join(f"| {' | '.join(row)} |" for row in rows)
        parts.append(f"## {title}\n\n{lines}\n")
    return "\n".join(parts)


def _cell(column: Column, found: Iterable[Found], name: str, *, ranged: bool = True) -> str:
    values = [of[name] for of in found if of.get(name) is not None]
    if not values:
        return ""
    mean, low, high = map(column.written, (fmean(values), min(values), max(values)))
    return mean if low == high or not ranged else f"{mean} ({low} to {high})"
