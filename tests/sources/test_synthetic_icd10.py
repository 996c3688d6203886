"""The embedded hospital in ICD-10-CM: the same patients, other codes, and a known truth."""

import csv
from collections import Counter, defaultdict
from dataclasses import replace
from importlib import resources

import polars as pl
import pytest

from ehr_course import icd9, icd10, translate
from ehr_course.errors import InputError
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import Dirt, make_cohort, make_notes, write_mimic3, write_mimic4
from ehr_course.sources.synthetic.case_mix import load_case_mix
from ehr_course.sources.synthetic.icd10_coding import ICD10_FROM, first_day, in_icd10

N = 3000


def table():
    file = resources.files("ehr_course.sources.synthetic") / "icd10_codes.csv"
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.fixture(scope="module")
def older():
    return make_cohort(N, seed=1)


@pytest.fixture(scope="module")
def newer():
    return make_cohort(N, seed=1, system="ICD10CM")


@pytest.fixture(scope="module")
def changed():
    return make_cohort(N, seed=1, changed=True)


def test_every_code_of_the_case_mix_has_rows_whose_shares_add_up():
    shares = defaultdict(float)
    for row in table():
        shares[icd9.normalize(row["icd9"]), row["with"]] += float(row["share"])
    assert {code for code, beside in shares if not beside} == set(load_case_mix("general").codes)
    assert set(load_case_mix("heart").codes) <= set(load_case_mix("general").codes)
    assert {round(share, 9) for share in shares.values()} == {1.0}


def test_every_code_of_the_table_can_be_billed_and_has_its_official_title():
    for row in table():
        codes = [code for code in row["icd10"].split("+") if code]
        assert all(icd10.is_complete(code) for code in codes), row
        if codes:
            assert row["title"] == "; ".join(icd10.title(code) for code in codes)


def test_nearly_all_codes_are_in_a_category_that_the_official_mapping_leads_to():
    elsewhere = set()
    for row in table():
        mapped = translate(row["icd9"], source="ICD9CM")
        categories = {icd10.category(code) for code in mapped.codes}
        if any(icd10.category(c) not in categories for c in row["icd10"].split("+") if c):
            elsewhere.add(row["icd9"])
    # K76.82 is newer than the mappings, and they know no adverse effect of an anticoagulant.
    assert elsewhere <= {"572.2", "E934.2", "250.80", "070.54"}, elsewhere


def test_the_patients_are_the_same(older, newer, changed):
    for before, after, both in zip(older, newer, changed, strict=True):
        assert replace(after, visits=before.visits) == before
        assert replace(both, visits=before.visits) == before
        for one, other, either in zip(before.visits, after.visits, both.visits, strict=True):
            assert (one.admitted, one.hadm_id) == (other.admitted, other.hadm_id)
            assert (one.system, other.system) == ("ICD9CM", "ICD10CM")
            assert either in (one, other)


def test_no_patient_has_a_code_that_nobody_like_them_can_have(newer):
    for record in newer:
        first = record.visits[0].admitted.year
        for visit in record.visits:
            for age in (record.age, min(90, record.age + visit.admitted.year - first)):
                for code in visit.codes:
                    assert icd10.why_impossible(code, age=age, sex=record.sex) is None


def test_a_longer_cohort_begins_with_the_shorter_one(newer, changed):
    assert make_cohort(10, seed=1, system="ICD10CM") == newer[:10]
    assert make_cohort(10, seed=1, changed=True) == changed[:10]
    assert make_cohort(10, seed=2, system="ICD10CM") != newer[:10]


def test_patients_keep_what_a_code_became(older, newer):
    became = defaultdict(set)
    for before, after in zip(older, newer, strict=True):
        for one, other in zip(before.visits, after.visits, strict=True):
            # 428.0 is always I50.9; 162.9 is one of two, by the side that has the tumour.
            if "1629" in one.codes:
                became[before.subject_id] |= {"C3491", "C3492"} & set(other.codes)
            if "4280" in one.codes:
                assert "I509" in other.codes
    sides = Counter(side for codes in became.values() for side in codes)
    assert all(len(codes) == 1 for codes in became.values())
    assert min(sides["C3491"], sides["C3492"]) > 0.3 * sides.total() > 0


def test_shares_are_those_of_the_table(older, newer):
    shares, sources = defaultdict(dict), Counter()
    for row in table():
        code = row["icd10"].replace(".", "")
        shares[icd9.normalize(row["icd9"])][code] = float(row["share"])
        sources[code] += 1
    looked_at = 0
    for code, of in shares.items():
        # Where two codes can become the same one, which it was cannot be told.
        if len(of) < 2 or any(sources[new] > 1 for new in of):
            continue
        patients = [n for before, n in zip(older, newer, strict=True) if code in before.codes]
        for new, share in of.items():
            n = len(patients)
            if n * min(share, 1 - share) >= 10:
                having = sum(new in record.codes for record in patients)
                assert abs(having - n * share) < 4 * (n * share * (1 - share)) ** 0.5, (code, new)
                looked_at += 1
    assert looked_at >= 30


def test_self_harm_moves_into_the_poisoning():
    of_self_harm = PatientRecord(1, "F", 20, (Visit(("9654", "E9500")),))
    assert in_icd10([of_self_harm])[0].codes == ("T391X2A",)
    otherwise = [PatientRecord(n, "F", 20, (Visit(("9654",)),)) for n in range(100)]
    counts = Counter(code for record in in_icd10(otherwise) for code in record.codes)
    assert set(counts) == {"T391X1A", "T391X4A"}


def test_a_hospital_that_changed_has_patients_of_both(changed):
    systems = [tuple(visit.system for visit in record.visits) for record in changed]
    of_both = [of for of in systems if len(set(of)) == 2]
    assert 0.03 < len(of_both) / len(changed) < 0.1
    # Nobody goes back.
    assert all(list(of) == sorted(of, reverse=True) for of in systems)
    share = sum(of.count("ICD10CM") for of in systems) / sum(map(len, systems))
    assert 0.3 < share < 0.5
    for record in changed:
        first, visits = first_day(record.subject_id, seed=1), record.visits
        for visit in visits:
            since = visit.admitted - visits[0].admitted
            assert (visit.system == "ICD10CM") == (first + since >= ICD10_FROM)


def test_what_is_refused(older, newer):
    with pytest.raises(InputError, match=r"patient 10001: the first visit is coded in"):
        make_notes(newer[:1])
    with pytest.raises(InputError, match=r"did not change to it"):
        make_cohort(1, system="ICD10CM", changed=True)


# ------------------------------------------------------------------ tables


def test_mimic3_is_refused(tmp_path, newer):
    with pytest.raises(InputError, match=r"visit 1: it is coded in ICD-10-CM.*\n?.*write_mimic4"):
        write_mimic3(newer[:3], tmp_path / "mimic3")
    assert not (tmp_path / "mimic3").exists()


def test_mimic4_says_the_version_of_every_diagnosis(tmp_path, changed):
    planted = write_mimic4(changed, tmp_path).counts
    written = {
        path.stem: pl.read_csv(path, infer_schema=False) for path in (tmp_path / "hosp").iterdir()
    }
    assert set(written) == {"patients", "admissions", "diagnoses_icd", "d_icd_diagnoses"}
    diagnoses = written["diagnoses_icd"]
    systems = {"9": "ICD9CM", "10": "ICD10CM"}
    rows = {
        (int(row["hadm_id"]), row["icd_code"], systems[row["icd_version"]])
        for row in diagnoses.to_dicts()
    }
    visits = [visit for record in changed for visit in record.visits]
    assert rows == {(v.hadm_id, code, v.system) for v in visits for code in v.codes}
    counts = Counter(diagnoses["icd_version"].to_list())
    assert counts == {"9": planted["in_icd9"], "10": planted["in_icd10"]}
    assert min(counts.values()) > 1000
    titles = {
        (row["icd_code"], row["icd_version"]): row["long_title"]
        for row in written["d_icd_diagnoses"].to_dicts()
    }
    assert titles["I509", "10"] == icd10.title("I509")
    assert titles["4280", "9"] == icd9.title("4280")


def test_anchors_give_the_age(tmp_path, newer):
    write_mimic4(newer, tmp_path, compress=True)
    patients = pl.read_csv(tmp_path / "hosp" / "patients.csv.gz")
    records = {record.subject_id: record for record in newer}
    later = Counter()
    for row in patients.to_dicts():
        record = records[row["subject_id"]]
        years = row["anchor_year"] - record.visits[0].admitted.year
        later[years] += 1
        expected = 91 if record.age == 90 else record.age + years
        assert row["anchor_age"] == expected
        assert row["anchor_age"] <= 89 or expected == 91
    assert set(later) == {0, 1, 2, 3}


def test_the_same_records_give_the_same_files(tmp_path, changed):
    dirt = Dirt(dotted=5, lower_case=5, malformed=14, unknown_patients=3, shuffled=True)
    for folder in ("one", "two"):
        write_mimic4(changed[:200], tmp_path / folder, dirt=dirt, seed=3)
    one, two = (
        {p.name: p.read_bytes() for p in (tmp_path / f / "hosp").iterdir()} for f in ("one", "two")
    )
    assert one == two
    with pytest.raises(InputError, match=r"it already holds patients\.csv"):
        write_mimic4(changed[:200], tmp_path / "one")
