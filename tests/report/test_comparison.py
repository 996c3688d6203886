"""Several cohorts side by side: each has the numbers that it has alone, and one floor holds."""

from __future__ import annotations

import json
import random
import re

import pytest

from ehr_course.errors import InputError
from ehr_course.evaluation.privacy import WITH_A_COPY
from ehr_course.report import Comparison, judge, judge_each, report_on_frames, write_report
from ehr_course.report.judging import Report
from ehr_course.report.verdicts import MUST_NOT_BE_GIVEN, MUST_NOT_BE_GIVEN_FIRST
from ehr_course.sources.splits import split_by_patient
from ehr_course.sources.synthetic import make_cohort


@pytest.fixture(scope="module")
def real():
    split = split_by_patient(make_cohort(400, seed=5), fractions=(0.5, 0, 0.5), seed=5)
    return {"train": split.train, "held_out": split.test}


@pytest.fixture(scope="module")
def cohorts(real):
    """Copies of training patients, six of ten; and a fresh draw from the same hospital."""
    copied = random.Random(0).sample(real["train"], 150) + make_cohort(100, seed=8)
    return {"copies": copied, "fresh": make_cohort(220, seed=9)}


@pytest.fixture(scope="module")
def alone(real, cohorts) -> dict[str, Report]:
    return {name: judge(**real, synthetic=c, seed=3) for name, c in cohorts.items()}


@pytest.fixture(scope="module")
def written(real, cohorts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("several") / "out"
    return folder, write_report(folder, **real, synthetic=cohorts, seed=3)


def test_each_cohort_has_the_numbers_that_it_has_alone(alone, written):
    _, both = written
    assert list(both.reports) == list(alone)
    for name, report in alone.items():
        assert both.reports[name].to_json() == report.to_json() | {"title": name}


def test_all_cohorts_have_the_same_floors(alone):
    copies, fresh = (
        {m.name: m.to_json()["floor"] for m in report.measures.values()}
        for report in alone.values()
    )
    # How many held-out patients have a copy by chance depends on what was written.
    of_each = [floors.pop(WITH_A_COPY) for floors in (copies, fresh)]
    assert all(0 < floor < 0.3 for floor in of_each)
    assert copies == fresh and len(fresh) > 40


def test_both_files_hold_every_cohort_under_its_name(written):
    folder, both = written
    numbers = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert numbers == json.loads(json.dumps(both.to_json()))
    assert list(numbers["cohorts"]) == ["copies", "fresh"]
    page = " ".join((folder / "report.html").read_text(encoding="utf-8").split())
    for name, report in both.reports.items():
        assert f'<th scope="col" class="number">{name}</th>' in page
        for sentence in report.headlines:
            assert sentence in page
        for measure in report.measures:
            assert measure in page
    assert page.count("its floor:") <= 1  # that of copies is each cohort's own


def test_copies_are_said_before_all_numbers_and_a_fresh_draw_is_not_accused(alone):
    first, copies, *_ = alone["copies"].headlines
    assert first == MUST_NOT_BE_GIVEN_FIRST
    assert copies.startswith("The cohort copies training patients: 6")
    assert re.search(
        r"Of training patients 7\d% have a copy in it; of held-out .* by chance", copies
    )
    assert any("can tell training patients from others" in s for s in alone["copies"].headlines)
    said, chance = alone["fresh"].headlines
    assert said.startswith("No sign was found") and "That is no proof" in said
    assert "Chance makes such copies" in chance
    assert not any(MUST_NOT_BE_GIVEN in limit for limit in alone["fresh"].limits)


def test_a_smaller_cohort_is_told_apart_and_keeps_its_own_floor(alone, real):
    small = judge(**real, synthetic=make_cohort(60, seed=10), seed=3)
    both = Comparison("t", {"fresh": alone["fresh"], "small": small})
    (note,) = both.notes
    assert "small has 60" in note and "fresh" not in note and "200 patients" in note
    _, rows = both.sections["fidelity"]
    row = next(row for row in rows if row.name == "code distribution JS divergence")
    large, own = row.cells
    assert not row.has_other_floor(large) and row.has_other_floor(own)


def test_two_frames_by_name_are_two_cohorts():
    def frame(codes):
        return {"patient": list(range(len(codes))), "visit": [1] * len(codes), "code": codes}

    real = frame(["4280", "4019", "486", "4019"])
    found = report_on_frames(real, {"one": frame(["4280", "486"]), "two": frame(["4019"])})
    assert isinstance(found, Comparison)
    sizes = {name: report.sizes["synthetic"]["patients"] for name, report in found.reports.items()}
    assert sizes == {"one": 2, "two": 1}
    with pytest.raises(InputError, match="two frame: no column is known to hold the code"):
        report_on_frames(real, {"one": frame(["486"]), "two": {"patient": [1], "visit": [1]}})
    with pytest.raises(InputError, match="this is what the real patients are called"):
        report_on_frames(real, {"real": frame(["486"]), "two": frame(["486"])})


def test_a_model_of_no_cohort_is_refused(real, cohorts):
    with pytest.raises(InputError, match=r"model, 'other': no cohort has this name"):
        judge_each(**real, synthetic=cohorts, model={"other": None})
    with pytest.raises(InputError, match="there is no cohort"):
        judge_each(**real, synthetic={})
