"""A report on data frames: cohorts as most programs hold them, a row for each code of a visit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.report.judging import Comparison, Report, judge, judge_each
from ehr_course.report.writing import write_report
from ehr_course.sources.code_table import load_frame, patients_of
from ehr_course.sources.cohort import Malformed


def report_on_frames(
    real: Any,
    synthetic: Any,
    *,
    held_out: Any = None,
    folder: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    malformed: Malformed = "raise",
    date_format: str | None = None,
    system: CodeSystem | None = None,
    map_to: CodeSystem | None = None,
    title: str = "A synthetic cohort",
    seed: int = 0,
    overwrite: bool = False,
    progress: bool = False,
) -> Report | Comparison:
    """Compare synthetic cohorts with real patients, each a data frame with a row for each code.

    The frames have the columns patient, visit and code, and may have age (years at the first
    visit), sex, time, sequence and version; what a frame lacks is left out. Codes are ICD-9-CM or
    ICD-10-CM, with or without dots, told apart by the version or by their shapes.

    Args:
        real: the patients that the generator learned from; a frame of polars or pandas, or a
            mapping of columns to lists.
        synthetic: those that it wrote; or the frames of several generators by their names.
        held_out: real patients, told apart from those of ``real`` by their names, that it did not
            learn from; without them privacy and utility are left out.
        folder: where report.html and report.json are written; None writes nothing.
        columns: what columns are called in all frames if not by these names: ``{"code": "icd"}``.
        malformed: whether a malformed row raises, or is dropped and counted in ``report.reading``.
        date_format: a format of strptime that times written as text may have.
        system: take only visits coded in this system.
        map_to: translate the codes of the other system into this one.

    >>> real = {"patient": ["a", "a", "b"], "visit": [0, 1, 0], "code": ["428.0", "4019", "486"]}
    >>> synthetic = {"patient": [1, 2], "visit": [1, 1], "code": ["4280", "486"]}
    >>> report = report_on_frames(real, synthetic)
    >>> report.sizes["synthetic"]["patients"], round(report.measures["distinct codes"].value)
    (2, 1)
    >>> report.left_out[0]
    'Left out: age JS divergence and age difference, because the real and the synthetic cohorts
     have no age.'
    """
    several = _named_frames(synthetic)
    named = several or {"synthetic": synthetic}
    frames = {"real": real, "held-out": held_out, **named}
    cohorts = {
        name: load_frame(
            frame,
            name=f"{name} frame",
            columns=columns,
            malformed=malformed,
            date_format=date_format,
            system=system,
            map_to=map_to,
            # The report says what is noticed.
            zeros_lost_ok=True,
        )
        for name, frame in frames.items()
        if frame is not None
    }
    reading = {name: list(cohort.report.losses) for name, cohort in cohorts.items()}
    of_real = reading["real"] + reading.get("held-out", [])
    train = list(cohorts["real"].records)
    apart = None
    if held_out is not None:
        both = patients_of(real, columns=columns) & patients_of(held_out, columns=columns)
        if both:
            raise InputError(
                "held-out frame",
                f"patient {min(both)!r}",
                "the same patient is in the real frame, so privacy could not be judged",
                "Split by patient, or give patients of the two frames other names.",
            )
        # Each frame numbers its patients by itself; held-out ones go on where real ones end.
        first = 1 + max(record.subject_id for record in train)
        apart = [
            replace(record, subject_id=number)
            for number, record in enumerate(cohorts["held-out"].records, start=first)
        ]
    judged: dict[str, Any] = {
        "synthetic": {name: list(cohorts[name].records) for name in named},
        "reading": {name: of_real + reading[name] for name in named},
    }
    if several is None:
        judged = {what: of["synthetic"] for what, of in judged.items()}
    judged |= {"title": title, "seed": seed, "progress": progress}
    if folder is not None:
        return write_report(folder, train=train, held_out=apart, overwrite=overwrite, **judged)
    return (judge if several is None else judge_each)(train=train, held_out=apart, **judged)


def _named_frames(synthetic: Any) -> dict[str, Any] | None:
    """The frames of several cohorts by name, or None where there is one: a dict can be a frame."""
    if not isinstance(synthetic, Mapping) or not synthetic:
        return None
    if not all(isinstance(v, Mapping) or hasattr(v, "columns") for v in synthetic.values()):
        return None
    taken = [name for name in synthetic if name in ("real", "held-out")]
    if taken:
        raise InputError(
            "synthetic frames",
            repr(taken[0]),
            "this is what the real patients are called",
            "Give the cohort another name.",
        )
    return dict(synthetic)
