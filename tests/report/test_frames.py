"""A report on data frames is the report on the records that they hold."""

from __future__ import annotations

import polars as pl
import pytest

from ehr_course.errors import InputError
from ehr_course.report import judge, report_on_frames
from ehr_course.sources.splits import split_by_patient
from ehr_course.sources.synthetic import make_cohort


def frame_of(records, *columns):
    rows = [
        (f"p{record.subject_id:09}", number, code, record.age, record.sex)
        for record in records
        for number, visit in enumerate(record.visits)
        for code in visit.codes
    ]
    names = ["patient", "visit", "code", "age", "sex"]
    return pl.DataFrame(rows, schema=names, orient="row").select(
        "patient", "visit", "code", *columns
    )


@pytest.fixture(scope="module")
def cohorts():
    split = split_by_patient(make_cohort(240, seed=5), fractions=(1 / 3, 1 / 3, 1 / 3), seed=5)
    parts = {"train": split.train, "held_out": split.validation, "synthetic": split.test}
    # Frames are numbered in the order of their rows, which is that of the names here.
    return {name: sorted(part, key=lambda r: r.subject_id) for name, part in parts.items()}


def numbers(report):
    return [(s.key, [m.to_json() for m in s.measures]) for s in report.sections]


def test_three_frames_give_the_report_of_their_records(cohorts, tmp_path):
    frames = {name: frame_of(cohort, "age", "sex") for name, cohort in cohorts.items()}
    report = report_on_frames(
        frames["train"],
        frames["synthetic"],
        held_out=frames["held_out"],
        seed=2,
        folder=tmp_path / "out",
    )
    assert numbers(report) == numbers(judge(**cohorts, seed=2))
    assert report.left_out == () and report.reading == ()
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "report.html",
        "report.json",
    ]


def test_two_frames_leave_out_what_needs_held_out_patients(cohorts):
    real, synthetic = (frame_of(cohorts[name], "age", "sex") for name in ("train", "synthetic"))
    report = report_on_frames(real, synthetic)
    sections = {section.key: section for section in report.sections}
    assert sections["fidelity"].measures and sections["validity"].measures
    assert not sections["privacy"].measures and not sections["utility"].measures
    whole = judge(**cohorts)
    for section in whole.sections:
        if section.key in ("privacy", "utility"):
            left_out = {name for name, _ in sections[section.key].left_out}
            assert left_out - {"membership by likelihood"} == {m.name for m in section.measures}
    assert any("treat it as real data" in sentence for sentence in report.limits)
    assert any("because there are no held-out patients" in text for text in report.left_out)


def test_a_frame_without_sex_loses_the_measures_of_sex_alone(cohorts):
    synthetic = frame_of(cohorts["synthetic"], "age")
    report = report_on_frames(frame_of(cohorts["train"], "age", "sex"), synthetic)
    names = set(report.measures)
    assert "age difference" in names and "sex difference" not in names
    assert "because the synthetic cohort has no sex." in report.left_out[0]


def test_a_patient_in_both_real_frames_is_refused(cohorts):
    real, synthetic = (frame_of(cohorts[name]) for name in ("train", "synthetic"))
    name = real["patient"][0]
    with pytest.raises(InputError, match=f"held-out frame, patient '{name}': the same patient"):
        report_on_frames(real, synthetic, held_out=real.head(1))


def test_a_frame_is_named_by_its_part(cohorts):
    real = frame_of(cohorts["train"])
    with pytest.raises(InputError, match="synthetic frame: no column is known to hold the code"):
        report_on_frames(real, real.drop("code"))
