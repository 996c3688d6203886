"""What the sign of lost leading zeros rests on, counted in the MIMIC-III demo."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from ehr_course import icd9
from ehr_course.errors import InputError
from ehr_course.sources.code_table import load_frame
from ehr_course.sources.codes import SHARE_OF_CODES, SHARE_OF_ROWS
from ehr_course.sources.mimic import load_mimic3

DEMO = Path(__file__).resolve().parents[3] / "shared" / "data" / "mimic3-demo"

pytestmark = pytest.mark.skipif(
    not DEMO.is_dir(), reason="the MIMIC-III demo is not at ../shared/data/mimic3-demo"
)


@pytest.fixture(scope="module")
def records():
    return load_mimic3(DEMO).records


def table(records, *, lost: bool) -> dict[str, list]:
    rows = [
        (record.subject_id, number, str(int(code)) if lost and code.isdigit() else code)
        for record in records
        for number, visit in enumerate(record.visits)
        for code in visit.codes
    ]
    return dict(zip(("patient", "visit", "code"), map(list, zip(*rows, strict=True)), strict=True))


def test_shares_of_codes_that_begin_with_0(records):
    rows = [code for record in records for code in record.codes if code[0].isdigit()]
    with_0 = [code for code in rows if code[0] == "0"]
    share = len(with_0) / len(rows)
    assert share == pytest.approx(0.045, abs=0.0006)
    assert share > SHARE_OF_ROWS
    different = len(set(with_0)) / len(set(rows))
    assert different == pytest.approx(0.055, abs=0.0006)
    assert different > SHARE_OF_CODES


def test_headings_in_sound_data_would_be_no_codes_with_zeros(records):
    codes = {code for record in records for code in record.codes if code[0].isdigit()}
    headings = [code for code in codes if not icd9.is_complete(code)]
    assert len(headings) / len(codes) == pytest.approx(0.04, abs=0.001)
    longer = [zeros + code for code in headings for zeros in ("0", "00") if len(code) < 4]
    longer += [f"0{code}" for code in headings if len(code) == 4]
    assert not any(map(icd9.is_complete, longer))


def test_lost_zeros_are_seen_from_twenty_patients_on_and_never_where_none_is_lost(records):
    rng = random.Random(0)
    seen = 0
    for _ in range(50):
        some = rng.sample(records, 20)
        load_frame(table(some, lost=False))
        try:
            load_frame(table(some, lost=True), malformed="drop")
        except InputError as error:
            assert "codes have lost their leading zeros" in str(error)
            seen += 1
    assert seen >= 48
