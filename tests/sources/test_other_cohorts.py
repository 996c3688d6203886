"""Cohorts that other tools wrote: small files whose patients are known are read as they are."""

from __future__ import annotations

import json
import pickle
from datetime import datetime
from pathlib import Path

import pandas as pd
import polars as pl
import pytest

from ehr_course.errors import InputError
from ehr_course.records import PartialRecord, PatientRecord
from ehr_course.sources.any_cohort import load_cohort, read_code_map
from ehr_course.sources.code_tables import load_frame
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
        ("{}", "it is no list of patients"),
        ("[]", "it is no list of patients"),
        ('[[["4280"]], 7]', "patient 2: 7 is no list of visits"),
        ('[[["4280"], "486"]]', "patient 1, visit 2: '486' is no list of codes"),
        ('[[["4280", 486]]]', "patient 1, visit 1, code 2: 486 is no text"),
        (
            '[[["4280"], ["486", "I10"]]]',
            "patient 1, visit 2, code 2, column 'code': 'I10' does not",
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
    named = "patient,visit,code\na,v10,486\na,v9,4280\na,v10,4019\n"
    assert who(load_cohort(written(tmp_path / "c.csv", named)))[0][3] == [
        ("486", "4019"),
        ("4280",),
    ]


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
        "an age that is missing or is none": 1,
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
        ("from,to\n1,486\n1,4280\n", "line 2, column 'from': '1' has two rows"),
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
