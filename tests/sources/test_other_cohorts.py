"""Cohorts that other tools wrote: small files whose patients are known are read as they are."""

from __future__ import annotations

import json
import pickle
import re
from datetime import datetime
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

from ehr_course.errors import InputError
from ehr_course.records import PartialRecord, PatientRecord
from ehr_course.sources.any_cohort import load_cohort, read_code_map
from ehr_course.sources.code_table import load_frame, parse_columns
from ehr_course.sources.cohort import Cohort


def who(cohort: Cohort) -> list[tuple]:
    """Number, sex, age and the codes of each visit of every patient."""
    return [(r.subject_id, r.sex, r.age, [v.codes for v in r.visits]) for r in cohort.records]


def written(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def refused(path: Path, **options: object) -> str:
    with pytest.raises(InputError) as error:
        load_cohort(path, **options)
    assert path.name in str(error.value)
    assert error.value.remedy
    return str(error.value)


# ------------------------------------------------------------------ lists of visits


def test_lists_of_visits_are_read_in_their_order(tmp_path):
    lists = [[["428.0", "4019"], ["0389"]], [["V30.01"]]]
    cohort = load_cohort(written(tmp_path / "a.json", json.dumps(lists)))
    assert who(cohort) == [
        (1, None, None, [("4280", "4019"), ("0389",)]),
        (2, None, None, [("V3001",)]),
    ]
    assert all(isinstance(record, PartialRecord) for record in cohort.records)
    assert cohort.report.changed == {"codes respelled (dot, spaces or lower case removed)": 2}


def test_objects_with_patient_and_visits_bring_age_and_sex(tmp_path):
    patients = [
        {"patient_id": "p-b", "age": 64.9, "gender": "female", "visits": [["4280"], ["4280"]]},
        {"patient_id": "p-a", "age": 97, "gender": "M", "visits": [["486"]]},
    ]
    cohort = load_cohort(written(tmp_path / "a.json", json.dumps(patients)))
    assert who(cohort) == [(1, "F", 64, [("4280",), ("4280",)]), (2, "M", 90, [("486",)])]
    assert all(isinstance(record, PatientRecord) for record in cohort.records)
    assert cohort.report.changed == {
        "fractional ages rounded down to completed years": 1,
        "ages above 89 recorded as 90": 1,
    }


def test_what_has_no_code_is_counted_and_left_out(tmp_path):
    lists = [[["486", "486"], []], [], [[None]], [["4280"]]]
    cohort = load_cohort(written(tmp_path / "a.json", json.dumps(lists)))
    assert [visits for *_, visits in who(cohort)] == [[("486",)], [("4280",)]]
    assert cohort.report.dropped == {
        ("a.json", "no code"): 3,
        ("a.json", "repeats a code of the same admission"): 1,
        ("visits", "all its rows were dropped"): 3,
        ("patients", "all its rows were dropped"): 2,
    }


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[[['4280']]]", "line 1, column 4: this is not JSON"),
        ("{}", "it is not a list of patients"),
        ("[]", "it is not a list of patients"),
        ('[[["4280"]], 7]', "patient 2: 7 is not a list of visits"),
        ('[[["4280"], "486"]]', "patient 1, visit 2: '486' is not a list of codes"),
        ('[[["4280", 486]]]', "patient 1, visit 1, code 2: 486 is not text"),
        (
            '[[["4280"], ["486", "I10"]]]',
            "patient 1, visit 2, code 2, column 'code': 'I10' looks like ICD-10, in a visit of "
            "ICD-9 codes. Pass --codes icd9 to leave such codes out, or --map icd9 to translate",
        ),
        ('[{"patient_id": 1}]', "patient 1: 'patient_id' or 'visits' is missing"),
        (
            '[{"patient_id": 1, "sex": "X", "visits": [["486"]]}]',
            "patient 1, visit 1, code 1, column 'sex': 'X' is not a sex",
        ),
        ("[[[]]]", "no row of it can be used"),
    ],
)
def test_a_bad_list_is_refused_with_its_place(tmp_path, content, said):
    assert said in refused(written(tmp_path / "a.json", content))


# ------------------------------------------------------------------ a row for each code

ROWS = """Subject,encounter,ICD,years,gender
b7,2,428.0,64.5,f
b7,0,401.9,63.9,F
a1,0,0389,20,Male
b7,2, v30.01 ,64.5,F
"""
COLUMNS = {"patient": "subject", "visit": "encounter", "code": "icd", "age": "years"}


def test_columns_may_have_any_name_and_places_start_at_zero(tmp_path):
    cohort = load_cohort(written(tmp_path / "a.csv", ROWS), columns=COLUMNS)
    assert who(cohort) == [
        (1, "F", 63, [("4019",), ("4280", "V3001")]),
        (2, "M", 20, [("0389",)]),
    ]
    assert cohort.report.changed["fractional ages rounded down to completed years"] == 1


@pytest.mark.parametrize(
    ("written_as", "age", "above"),
    [
        ("> 89", 90, 1),
        (" >89 ", 90, 1),
        (">= 90", 90, 1),
        ("90+", 90, 1),
        ("> 8", None, 0),
        ("89+", None, 0),
        ("> 890", None, 0),
    ],
)
def test_an_age_that_hides_the_oldest_is_90(tmp_path, written_as, age, above):
    text = f"patient,visit,code,age\n1,1,486,70\n2,1,486,{written_as}\n2,1,4280,{written_as}\n"
    cohort = load_cohort(written(tmp_path / "a.csv", text), malformed="drop")
    assert {n: a for n, _, a, _ in who(cohort)} == {1: 70} | ({2: age} if age else {})
    assert cohort.report.changed.get("ages above 89 recorded as 90", 0) == above


def test_a_parquet_file_is_read_as_the_csv_file(tmp_path):
    csv = written(tmp_path / "a.csv", ROWS)
    pl.read_csv(csv, schema_overrides={"ICD": pl.String}).write_parquet(tmp_path / "a.parquet")
    assert who(load_cohort(tmp_path / "a.parquet", columns=COLUMNS)) == who(
        load_cohort(csv, columns=COLUMNS)
    )


def test_patients_with_whole_numbers_keep_them(tmp_path):
    text = "person_id,visit,code\n30,1,486\n7,1,4280\n"
    assert [n for n, *_ in who(load_cohort(written(tmp_path / "a.csv", text)))] == [7, 30]


def test_numbers_that_differ_by_a_zero_are_two_patients(tmp_path):
    text = "patient,visit,code\n007,1,486\n7,1,4280\n"
    assert len(load_cohort(written(tmp_path / "a.csv", text)).records) == 2


def test_visits_stand_in_the_order_of_time_then_number_then_row(tmp_path):
    head = "patient,visit,code,time\n"
    timed = head + "a,1,486,2101-05-01\na,2,4280,2101-01-01\n"
    cohort = load_cohort(written(tmp_path / "a.csv", timed))
    assert who(cohort)[0][3] == [("4280",), ("486",)]
    assert cohort.records[0].visits[0].admitted == datetime(2101, 1, 1)
    numbered = "patient,visit,code\na,10,486\na,9,4280\n"
    assert who(load_cohort(written(tmp_path / "b.csv", numbered)))[0][3] == [("4280",), ("486",)]
    counted = head + "a,x,486,10\na,y,4280,9\na,x,4019,10\n"
    cohort = load_cohort(written(tmp_path / "d.csv", counted))
    assert who(cohort)[0][3] == [("4280",), ("486", "4019")]
    assert cohort.records[0].visits[0].admitted is None
    assert cohort.report.notes == (
        "times are numbers: they order the visits, and are not read as dates",
    )
    named = "patient,visit,code\na,v10,486\na,v9,4280\na,v10,4019\n"
    assert who(load_cohort(written(tmp_path / "c.csv", named)))[0][3] == [
        ("486", "4019"),
        ("4280",),
    ]


DATED = "patient,visit,code,time\na,1,486,{0}\nb,1,486,{0}\nc,1,486,2010-12-31\n"


@pytest.mark.parametrize(
    ("time", "date_format"),
    [
        ("3/15/94 0:00", "%m/%d/%y %H:%M"),
        ("15.03.1994", "%d.%m.%Y"),
        ("15-Mar-94 12:00:00 AM", "%d-%b-%y %I:%M:%S %p"),
        ("15MAR1994:00:00:00", "%d%b%Y:%H:%M:%S"),
        ("1994/03/15 00:00:00.000", "%Y/%m/%d %H:%M:%S.%f"),
        ("1994-03-15T00:00:00Z", "%Y-%m-%dT%H:%M:%S%z"),
        ("19940315", "%Y%m%d"),
    ],
)
def test_the_format_of_dates_is_seen_and_reads_them(tmp_path, time, date_format):
    path = written(tmp_path / "a.csv", DATED.format(time))
    said = refused(path)
    assert f"line 2, column 'time': {time!r} is not a date." in said
    assert f'--date-format "{date_format}", or date_format="{date_format}".' in said
    assert ("Years of two digits are read as 1969 to 2068" in said) == ("%y" in date_format)
    assert said.endswith("2 of 3 rows have this fault, too many to leave out.")
    records = load_cohort(path, date_format=date_format).records
    days = [datetime(1994, 3, 15), datetime(1994, 3, 15), datetime(2010, 12, 31)]
    assert [record.visits[0].admitted for record in records] == days


@pytest.mark.parametrize(
    ("date_format", "why"),
    [("%Q", "'Q' is a bad directive in format '%Q'"), ("m/d/y", "it names no part of a date")],
)
def test_a_format_that_no_date_can_have_is_refused(tmp_path, date_format, why):
    path = written(tmp_path / "a.csv", DATED.format("2010-01-01"))
    with pytest.raises(InputError) as error:
        load_cohort(path, date_format=date_format)
    assert str(error.value).startswith(
        f"--date-format: {date_format!r} is not a format of dates ({why})."
    )


def test_visits_that_are_dates_stand_in_their_order(tmp_path):
    text = "patient,visit,code\na,2010-03-05,486\na,2009-02-01,4280\n"
    [record] = load_cohort(written(tmp_path / "a.csv", text)).records
    assert [visit.codes for visit in record.visits] == [("4280",), ("486",)]
    assert record.visits[0].admitted == datetime(2009, 2, 1)


@pytest.mark.parametrize("columns", [None, {"patient": "id", "visit": "time", "age": "years"}])
def test_the_flat_table_of_pyhealth_is_recognised(tmp_path, columns):
    text = "id,time,visit_codes,years\n0,10,428.0,7\n0,2,486,7\n0,2,401.9,7\n"
    path = written(tmp_path / "a.csv", text)
    expected = [(0, None, 7 if columns else None, [("486", "4019"), ("4280",)])]
    assert who(load_cohort(path, columns=columns)) == expected
    frame = pd.read_csv(path, dtype={"visit_codes": str})
    assert who(load_frame(frame, columns=columns)) == expected


def test_an_empty_column_of_sexes_is_no_sex(tmp_path):
    text = "patient,visit,code,sex,age\na,1,486,,\nb,1,486,,\n"
    assert who(load_cohort(written(tmp_path / "a.csv", text)))[0][1:3] == (None, None)


def test_a_code_twice_in_a_visit_is_counted_under_either_policy(tmp_path):
    path = written(tmp_path / "a.csv", "patient,visit,code\na,1,428.0\na,1,4280\na,2,4280\n")
    for malformed in ("raise", "drop"):
        cohort = load_cohort(path, malformed=malformed)
        assert who(cohort)[0][3] == [("4280",), ("4280",)]
        assert cohort.report.dropped == {("a.csv", "repeats a code of the same admission"): 1}
        assert cohort.report.tables[0].drops[0].examples == ("line 3",)


def test_malformed_rows_are_dropped_and_counted_by_kind(tmp_path):
    text = (
        "patient,visit,code,age,sex\na,1,486,64,F\na,1,I10,64,F\na,2,486,-1,F\n"
        "b,1,486,40,unknown\n,1,486,40,F\nc,,486,40,F\nd,1,486,50,F\nd,2,486,51,M\n"
    )
    path = written(tmp_path / "a.csv", text)
    cohort = load_cohort(path, malformed="drop")
    assert who(cohort) == [(1, "F", 64, [("486",)])]
    assert {
        reason: n for (table, reason), n in cohort.report.dropped.items() if table == "a.csv"
    } == {
        "a code of the wrong shape": 1,
        "an age that is missing or not valid": 1,
        "a sex other than F or M": 1,
        "no patient": 1,
        "no visit": 1,
        "rows with the same id that differ": 2,
    }
    account = cohort.report.tables[0]
    assert account.rows_read == account.rows_used + account.rows_dropped == 8
    assert "line 6, column 'patient': an empty value stands where" in refused(path)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_missing_column_is_named_with_those_that_are_there(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    table = pl.DataFrame({"patient": ["a"], "visit": [1], "diagnosis": ["486"]})
    table.write_csv(path) if suffix == "csv" else table.write_parquet(path)
    assert "hold the code (found: patient, visit, diagnosis)" in refused(path)
    said = refused(path, columns={"code": "diagnosis", "sex": "gender"})
    assert "there is no column 'gender' (found: patient, visit, diagnosis)" in said
    assert "--columns sex=NAME" in said
    assert who(load_cohort(path, columns={"code": "diagnosis"}))[0][3] == [("486",)]


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (POINTER, "a.csv: this is a Git LFS pointer"),
        ("patient;visit;code\na;1;486\n", "line 1: its columns are separated by semicolons"),
        ("patient\tvisit\tcode\na\t1\t486\n", "line 1: its columns are separated by tabs"),
        ("# made by x, today\npatient,visit,code\na,1,486\n", "line 1: a comment stands where"),
        ("#patient,visit,code\na,1,486\n", "line 1: a comment stands where"),
    ],
)
def test_what_is_not_a_table_is_recognised(tmp_path, text, said):
    assert said in refused(written(tmp_path / "a.csv", text))


@pytest.mark.parametrize("name", ["a.json", "a.parquet", "a.csv.gz"])
def test_a_pointer_is_recognised_in_the_place_of_any_file(tmp_path, name):
    assert f"{name}: this is a Git LFS pointer" in refused(written(tmp_path / name, POINTER))


MIXED = "patient,visit,code\na,1,486\na,1,E87.1\nb,1,4280\n"


@pytest.mark.parametrize(
    ("options", "codes", "dropped"),
    [
        ({"system": "ICD9CM"}, [("486",), ("4280",)], 1),
        ({"system": "ICD10CM"}, [("E871",)], 2),
        ({"map_to": "ICD9CM"}, [("486", "2761"), ("4280",)], 0),
    ],
)
def test_a_visit_of_both_systems_is_read_as_its_codes_look_on_request(
    tmp_path, options, codes, dropped
):
    path = written(tmp_path / "a.csv", MIXED)
    assert "line 3, column 'code': 'E87.1' looks like ICD-10, in a visit of" in refused(path)
    cohort = load_cohort(path, **options)
    assert [record.visits[0].codes for record in cohort.records] == codes
    assert cohort.report.dropped.get(("a.csv", "coded in the other ICD version"), 0) == dropped


def test_eicu_is_read_as_the_table_that_its_error_describes(tmp_path):
    diagnoses = (
        'diagnosisid,patientunitstayid,icd9code\n1,141,"427.31, I48.91"\n2,141,\n3,142,\n'
        '4,143,"I50.9, 428.0"\n5,143,"V45.81, Z95.1"\n'
    )
    patients = (
        "patientunitstayid,uniquepid,gender,age,hospitaldischargeyear\n"
        "141,002-1,Female,87,2014\n142,002-2,Male,40,2014\n143,002-2,Male,41,2015\n"
    )
    folder = tmp_path / "eicu"
    folder.mkdir()
    paths = [
        written(folder / "diagnosis.csv", diagnoses),
        written(folder / "patient.csv", patients),
    ]
    said = refused(folder)
    assert "eICU, which is read as one table, not as a folder. Join patient.csv to diag" in said
    columns, date_format = re.search("--columns (.*) --date-format (.*)", said).groups()
    one, two = map(pl.read_csv, paths)
    one.join(two, on="patientunitstayid").write_csv(tmp_path / "joined.csv")
    options = {"columns": parse_columns(columns), "date_format": date_format}
    cohort = load_cohort(tmp_path / "joined.csv", **options)
    assert who(cohort) == [(1, "F", 87, [("42731",)]), (2, "M", 41, [("4280", "V4581")])]
    assert cohort.records[0].visits[0].admitted == datetime(2014, 1, 1)
    kept = "codes written in both systems, of which ICD-9-CM is kept: 3"
    assert cohort.report.notes == (kept,)
    cohort = load_cohort(tmp_path / "joined.csv", system="ICD10CM", **options)
    assert [record.codes for record in cohort.records] == [("I4891",), ("I509", "Z951")]


# ------------------------------------------------------------------ OMOP and Synthea

CONDITIONS = """condition_occurrence_id,person_id,visit_occurrence_id,condition_start_date,\
condition_source_value
1,11,501,2010-06-02,428.0
2,11,501,2010-06-01,401.9
3,11,400,2012-01-01,486
4,12,,2011-01-01,486
5,12,600,2011-01-01,
6,12,601,2011-03-01,4280
7,13,700,2011-03-01,4280
"""
PERSON = """person_id,gender_concept_id,year_of_birth,month_of_birth,day_of_birth
11,8532,1950,6,2
12,8507,1960,,
"""


def test_omop_conditions_are_read_without_person(tmp_path):
    written(tmp_path / "condition_occurrence.csv", CONDITIONS)
    cohort = load_cohort(tmp_path)
    assert who(cohort) == [
        (11, None, None, [("4280", "4019"), ("486",)]),
        (12, None, None, [("4280",)]),
        (13, None, None, [("4280",)]),
    ]
    assert cohort.report.dropped["CONDITION_OCCURRENCE", "no visit"] == 1
    assert cohort.report.dropped["CONDITION_OCCURRENCE", "no code"] == 1


def test_omop_person_brings_sex_and_the_age_at_the_first_visit(tmp_path):
    written(tmp_path / "CONDITION_OCCURRENCE.csv", CONDITIONS)
    written(tmp_path / "person.csv", PERSON)
    cohort = load_cohort(tmp_path)
    # The first visit began on the day before the 60th birthday.
    assert who(cohort) == [
        (11, "F", 59, [("4280", "4019"), ("486",)]),
        (12, "M", 51, [("4280",)]),
    ]
    assert cohort.report.dropped["CONDITION_OCCURRENCE", "its patient is unknown"] == 1


def test_an_omop_person_without_a_sex_is_refused_or_dropped(tmp_path):
    written(tmp_path / "condition_occurrence.csv", CONDITIONS)
    written(tmp_path / "person.csv", PERSON.replace("8507", "0"))
    with pytest.raises(InputError, match="line 3, column 'gender_concept_id': '0'"):
        load_cohort(tmp_path)
    report = load_cohort(tmp_path, malformed="drop").report
    assert report.dropped["PERSON", "a sex other than F or M"] == 1
    assert report.dropped["CONDITION_OCCURRENCE", "its patient was dropped"] == 1


@pytest.mark.parametrize(
    ("born", "age", "counted"),
    [
        ("1950,6,3", 59, 0),
        ("1950,06,02", 60, 0),
        ("1950,,", 60, 0),
        ("1950,12,", 60, 0),
        ("1950,0,0", 60, 1),
        ("1950,2,30", 60, 1),
        ("1951,2,29", 59, 1),
        ("1950,13,1", 60, 1),
        ("1950,0,", 60, 1),
        ("1950,x,1", 60, 1),
    ],
)
@pytest.mark.parametrize("malformed", ["raise", "drop"])
def test_an_omop_birth_that_is_not_a_date_is_read_by_its_year(
    tmp_path, born, age, counted, malformed
):
    written(tmp_path / "condition_occurrence.csv", CONDITIONS.replace("2010-06-01", "2010-06-02"))
    written(tmp_path / "person.csv", PERSON.replace("1950,6,2", born))
    cohort = load_cohort(tmp_path, malformed=malformed)
    assert cohort.records[0].age == age
    said = "births read by their year alone, as the month or day cannot be right"
    assert cohort.report.changed.get(said, 0) == counted


@pytest.mark.parametrize(
    ("year", "problem"),
    [
        ("0", "'0' is not a year"),
        ("-5", "'-5' is not a year"),
        ("99999", "'99999' is not a year"),
        ("987", "'987' makes this patient older than 130 at the first visit"),
        ("", "an empty value is not a whole number"),
    ],
)
def test_an_omop_year_of_birth_that_cannot_be_is_refused_or_dropped(tmp_path, year, problem):
    written(tmp_path / "condition_occurrence.csv", CONDITIONS)
    written(tmp_path / "person.csv", PERSON.replace("1960,,", f"{year},,"))
    with pytest.raises(InputError) as refused:
        load_cohort(tmp_path)
    assert f"person.csv, line 3, column 'year_of_birth': {problem}." in str(refused.value)
    cohort = load_cohort(tmp_path, malformed="drop")
    assert [r.subject_id for r in cohort.records] == [11]
    assert cohort.report.dropped["PERSON", "an age or year that cannot be right"] == 1
    assert cohort.report.dropped["CONDITION_OCCURRENCE", "its patient was dropped"] == 1


def synthea(folder: Path, codes: tuple[str, str, str]) -> Path:
    written(folder / "patients.csv", "Id,BIRTHDATE,GENDER\np1,1980-02-29,F\np2,2000-01-01,M\n")
    written(
        folder / "encounters.csv",
        "Id,START,PATIENT\ne1,2010-02-28T08:00:00Z,p1\ne2,2009-01-01T08:00:00Z,p1\n"
        "e3,2011-01-01T00:00:00Z,p2\n",
    )
    one, two, three = codes
    written(
        folder / "conditions.csv",
        f"START,STOP,PATIENT,ENCOUNTER,CODE,DESCRIPTION\n2010-02-28,,p1,e1,{one},x\n"
        f"2009-01-01,,p1,e2,{two},x\n2011-01-01,,p2,e3,{three},x\n2011-01-01,,p2,e9,{three},x\n",
    )
    return folder


def test_synthea_tables_are_joined(tmp_path):
    cohort = load_cohort(synthea(tmp_path, ("428.0", "4019", "486")))
    assert who(cohort) == [(1, "F", 28, [("4019",), ("4280",)]), (2, "M", 11, [("486",)])]
    assert cohort.report.dropped["conditions", "its admission is unknown"] == 1
    assert [table.name for table in cohort.report.tables] == [
        *("patients.csv", "encounters", "conditions", "visits", "patients")
    ]


@pytest.mark.parametrize(
    ("table", "old", "new", "said"),
    [
        (
            *("patients", "1980-02-29", "0980-02-29"),
            "patients.csv, line 2, column 'BIRTHDATE': '0980-02-29 00:00:00' makes this patient",
        ),
        (
            *("encounters", "2010-02-28", "3010-02-28"),
            "conditions.csv, line 2, column 'time': '3010-02-28 08:00:00' is over 130 years after",
        ),
    ],
)
def test_an_age_that_cannot_be_is_refused_where_it_comes_from(tmp_path, table, old, new, said):
    file = synthea(tmp_path, ("428.0", "4019", "486")) / f"{table}.csv"
    written(file, file.read_text(encoding="utf-8").replace(old, new))
    with pytest.raises(InputError) as refused:
        load_cohort(tmp_path)
    assert said in str(refused.value)


def test_snomed_codes_need_a_code_map(tmp_path):
    synthea(tmp_path, ("84114007", "59621000", "233604007"))
    with pytest.raises(InputError, match="line 2, column 'CODE': '84114007' does"):
        load_cohort(tmp_path)
    path = written(tmp_path / "map.csv", "from,to\n84114007,428.0\n59621000,4019\n")
    cohort = load_cohort(tmp_path, code_map=read_code_map(path))
    assert who(cohort) == [(1, "F", 28, [("4019",), ("4280",)])]
    unmapped = "a code that the code map does not have"
    assert cohort.report.dropped["conditions", unmapped] == 1
    assert cohort.report.changed["codes replaced by those of the code map"] == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("from,icd\n1,486\n", "column 'TO' is missing"),
        ("from,to\n1,486\n1,4280\n", "line 2, column 'from': '1' stands in two rows"),
        ("from,to\n1,486\n2,\n", "line 3: a code is missing"),
    ],
)
def test_a_bad_code_map_is_refused(tmp_path, text, said):
    with pytest.raises(InputError) as error:
        read_code_map(written(tmp_path / "map.csv", text))
    assert "map.csv" in str(error.value) and said in str(error.value)


# ------------------------------------------------------------------ what is not read


class Harmful:
    def __reduce__(self):
        return Path.touch, (Path("opened"),)


@pytest.mark.parametrize("name", ["cohort.pkl", "cohort.pickle", "cohort.npy", "cohort.pt"])
def test_a_pickle_is_never_opened(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_bytes(pickle.dumps(Harmful()))
    assert "it is not opened. Write the visits as JSON" in refused(tmp_path / name)
    assert not (tmp_path / "opened").exists()


def test_other_files_and_options_out_of_place_are_refused(tmp_path):
    assert "this kind of file is not read" in refused(written(tmp_path / "a.txt", "x"))
    assert "there is no such file" in refused(tmp_path / "nothing.csv")
    path = written(tmp_path / "a.json", '[[["486"]]]')
    assert "--columns has nothing to say" in refused(path, columns={"code": "icd"})


# ------------------------------------------------------------------ data frames


def test_frames_of_polars_and_pandas_are_read_alike():
    content = {
        "patient": [3, 3, 5],
        "visit": [0, 1, 0],
        "code": ["428.0", "038.9", "486"],
        "age": [61.5, 62.0, 40.0],
        "sex": ["F", "F", "M"],
    }
    expected = [(3, "F", 61, [("4280",), ("0389",)]), (5, "M", 40, [("486",)])]
    for frame in (pl.DataFrame(content), pd.DataFrame(content), content):
        assert who(load_frame(frame)) == expected


def test_a_missing_value_of_pandas_is_missing():
    frame = pd.DataFrame(
        {"patient": ["a", "b"], "visit": [1, 1], "code": ["486", "486"], "age": [40.0, None]}
    )
    with pytest.raises(InputError, match="data frame, row 2, column 'age': an empty value"):
        load_frame(frame)
    assert who(load_frame(frame, malformed="drop")) == [(1, None, 40, [("486",)])]


def test_what_is_no_frame_is_refused():
    with pytest.raises(InputError, match="of type int, which has no columns"):
        load_frame(7)
    with pytest.raises(InputError, match="its codes are numbers"):
        load_frame({"patient": [1], "visit": [1], "code": [38.9]})
