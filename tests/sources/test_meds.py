"""MEDS datasets: what is written is valid MEDS and comes back; what others write is read."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import meds
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ehr_course.errors import InputError
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources import meds as our_meds
from ehr_course.sources.any_cohort import load_cohort
from ehr_course.sources.cohort import Cohort, Reason
from ehr_course.sources.meds import load_meds, write_meds
from ehr_course.sources.splits import split_by_patient
from ehr_course.sources.synthetic import make_cohort

T1, T2, T3 = datetime(2150, 2, 1, 10, 30), datetime(2150, 2, 9), datetime(2151, 7, 1)

RECORDS = [
    PatientRecord(
        7,
        "F",
        64,
        (Visit(("4280", "0389"), T1, hadm_id=9), Visit(("4280", "E8497"), T2, hadm_id=3)),
    ),
    PatientRecord(8, "M", 0, (Visit(("V3001",), T1, hadm_id=4),)),
]


def write_events(folder: Path, rows: list[tuple], *, shard: str = "0.parquet") -> Path:
    """Write rows of subject_id, time, code and perhaps hadm_id as a shard."""
    names = ("subject_id", "time", "code", "hadm_id")
    types = (pa.int64(), pa.timestamp("us"), pa.string(), pa.int64())
    columns = list(zip(*rows, strict=True))
    path = folder / "data" / shard
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=False)]
    pq.write_table(pa.table(arrays, names=names[: len(columns)]), path)
    return folder


def facts(subject_id: int, sex: str = "F", born: datetime | None = datetime(2100, 2, 1)) -> list:
    return [(subject_id, None, f"GENDER//{sex}"), (subject_id, born, "MEDS_BIRTH")]


def assert_every_row_is_accounted_for(cohort: Cohort, folder: Path) -> None:
    shards = (folder / "data").rglob("*.parquet")
    (table,) = cohort.report.tables
    assert table.rows_read == sum(pq.read_metadata(shard).num_rows for shard in shards)
    assert table.rows_read == table.rows_used + table.rows_dropped


def test_the_synthetic_cohort_comes_back_as_it_was_written(tmp_path, monkeypatch):
    records = make_cohort(300, seed=2)
    monkeypatch.setattr(our_meds, "PATIENTS_PER_SHARD", 70)
    write_meds(records, tmp_path / "meds")
    cohort = load_meds(tmp_path / "meds")
    assert list(cohort.records) == records
    assert cohort.report.dropped == {}
    assert_every_row_is_accounted_for(cohort, tmp_path / "meds")
    assert sorted(path.name for path in (tmp_path / "meds" / "data").iterdir()) == [
        f"{number}.parquet" for number in range(5)
    ]


def test_records_without_hadm_id_come_back(tmp_path):
    records = [PatientRecord(7, "F", 64, (Visit(("4280",), T1), Visit(("4280", "0389"), T2)))]
    write_meds(records, tmp_path / "meds")
    assert list(load_meds(tmp_path / "meds").records) == records


@pytest.mark.parametrize("age", [0, 1, 3, 89, 90])
def test_ages_come_back_for_someone_admitted_on_29_february(tmp_path, age):
    records = [PatientRecord(7, "F", age, (Visit(("4280",), datetime(2148, 2, 29, 1)),))]
    write_meds(records, tmp_path / "meds")
    assert list(load_meds(tmp_path / "meds").records) == records


def test_the_kind_of_folder_is_recognised(tmp_path):
    write_meds(RECORDS, tmp_path / "meds")
    assert list(load_cohort(tmp_path / "meds").records) == RECORDS


def test_events_are_valid_meds_in_the_order_meds_asks_for(tmp_path):
    write_meds(RECORDS, tmp_path)
    table = pq.read_table(tmp_path / "data" / "0.parquet")
    meds.DataSchema.validate(table)
    rows = [(row["subject_id"], row["time"], row["code"]) for row in table.to_pylist()]
    assert rows == [
        (7, None, "GENDER//F"),
        (7, datetime(2086, 2, 1), "MEDS_BIRTH"),
        (7, T1, "HOSPITAL_ADMISSION"),
        (7, T1, "DIAGNOSIS//ICD9CM//4280"),
        (7, T1, "DIAGNOSIS//ICD9CM//0389"),
        (7, T2, "HOSPITAL_ADMISSION"),
        (7, T2, "DIAGNOSIS//ICD9CM//4280"),
        (7, T2, "DIAGNOSIS//ICD9CM//E8497"),
        (8, None, "GENDER//M"),
        (8, datetime(2150, 2, 1), "MEDS_BIRTH"),
        (8, T1, "HOSPITAL_ADMISSION"),
        (8, T1, "DIAGNOSIS//ICD9CM//V3001"),
    ]


def test_metadata_describes_every_code(tmp_path):
    write_meds(RECORDS, tmp_path)
    codes = pq.read_table(tmp_path / meds.code_metadata_filepath)
    meds.CodeMetadataSchema.validate(codes)
    described = {row["code"]: row for row in codes.to_pylist()}
    events = pq.read_table(tmp_path / "data" / "0.parquet")
    assert set(events["code"].to_pylist()) == set(described)
    assert described["DIAGNOSIS//ICD9CM//0389"]["parent_codes"] == ["ICD9CM/038.9"]
    assert described["DIAGNOSIS//ICD9CM//0389"]["description"] == "Unspecified septicemia"


def test_metadata_names_the_version_of_meds(tmp_path):
    write_meds(RECORDS, tmp_path / "hospital")
    about = json.loads(
        (tmp_path / "hospital" / meds.dataset_metadata_filepath).read_text(encoding="utf-8")
    )
    meds.DatasetMetadataSchema.validate(about)
    assert (about["dataset_name"], about["meds_version"]) == ("hospital", meds.__version__)


def test_a_split_is_written_and_read_again(tmp_path):
    records = make_cohort(50, seed=3)
    split = split_by_patient(records, seed=1)
    write_meds(records, tmp_path / "meds", split=split)
    splits = pq.read_table(tmp_path / "meds" / meds.subject_splits_filepath)
    meds.SubjectSplitSchema.validate(splits)
    for name, part in zip(("train", "tuning", "held_out"), split, strict=True):
        shard = pq.read_table(tmp_path / "meds" / "data" / name / "0.parquet")
        of_part = {record.subject_id for record in part}
        assert set(shard["subject_id"].to_pylist()) == of_part
        assert {r["subject_id"] for r in splits.to_pylist() if r["split"] == name} == of_part
        cohort = load_meds(tmp_path / "meds", split=name)
        assert list(cohort.records) == part
        assert_every_row_is_accounted_for(cohort, tmp_path / "meds")
    assert list(load_meds(tmp_path / "meds").records) == records


@pytest.mark.parametrize(
    "spelling",
    [
        "DIAGNOSIS//ICD9CM//{}",
        "diagnosis//ICD9CM//{}",
        "DIAGNOSIS//ICD//9//{}",
        "DIAGNOSIS//ICD9CM_{}",
        "ICD9CM//{}",
        "ICD9CM/{}",
        "ICD-9-CM/{}",
        "icd9/{}",
    ],
)
@pytest.mark.parametrize("code", ["0389", "038.9"])
def test_vocabularies_are_spelled_in_many_ways(tmp_path, spelling, code):
    write_events(tmp_path, [*facts(1), (1, T1, spelling.format(code))])
    assert load_meds(tmp_path).records[0].codes == ("0389",)


def test_other_events_are_counted_not_read(tmp_path):
    rows = [
        *facts(1),
        (1, T1, "LAB//50912//mg/dL"),
        (1, T1, "PROCEDURE//ICD//9//3995"),
        (1, T1, "DIAGNOSIS//ICD//10//I509"),
        (1, T1, "ICD9Proc/39.95"),
        (1, T1, "ICD9CM/428.0"),
    ]
    cohort = load_meds(write_events(tmp_path, rows), system="ICD9CM")
    assert cohort.records[0].codes == ("4280",)
    assert cohort.report.dropped == {
        ("data", Reason.NOT_NEEDED): 3,
        ("data", Reason.OTHER_VERSION): 1,
    }
    assert "0.parquet row 3, 0.parquet row 4, 0.parquet row 6)" in str(cohort.report)
    assert_every_row_is_accounted_for(cohort, tmp_path)


def test_the_names_of_meds_are_those_of_its_package():
    for ours, theirs in (
        (our_meds.DATA, meds.data_subdirectory),
        (our_meds.CODE_METADATA, meds.code_metadata_filepath),
        (our_meds.DATASET_METADATA, meds.dataset_metadata_filepath),
        (our_meds.SUBJECT_SPLITS, meds.subject_splits_filepath),
        (our_meds.SPLITS, (meds.train_split, meds.tuning_split, meds.held_out_split)),
        (our_meds.BIRTH, meds.birth_code),
    ):
        assert ours == theirs


def test_diagnoses_of_other_vocabularies_are_counted_by_vocabulary(tmp_path):
    rows = [
        *facts(1),
        (1, T1, "ICD9CM/428.0"),
        (1, T1, "ICD10CM/I50.9"),
        (1, T1, "diagnosis//icd-10-cm//I10"),
        (1, T1, "DIAGNOSIS//SNOMED//84114007"),
        (1, T1, "DIAGNOSIS//heart failure"),
        (1, T1, "PROCEDURE//ICD//10//0DJ08ZZ"),
        (1, T1, "ICD10PCS//0DJ08ZZ"),
    ]
    cohort = load_meds(write_events(tmp_path, rows), system="ICD9CM")
    assert cohort.report.notes == (
        "diagnoses by vocabulary: ICD9CM 1, ICD10CM 2, SNOMED 1, unnamed 1; those in ICD9CM are "
        "read",
    )
    assert cohort.report.dropped == {
        ("data", Reason.NOT_NEEDED): 2,
        ("data", Reason.OTHER_VERSION): 2,
        ("data", Reason.OTHER_VOCABULARY): 2,
    }
    assert_every_row_is_accounted_for(cohort, tmp_path)


def test_a_text_that_is_not_a_code_is_counted_in_neither_system(tmp_path):
    codes = ("ICD9CM/428.0", "ICD9CM/x", "ICD9CM/486", "ICD10CM/I10", "ICD10CM/x")
    rows = [*facts(1), *((1, T1, code) for code in codes)]
    cohort = load_meds(write_events(tmp_path, rows), malformed="drop")
    assert cohort.report.notes[0].startswith("diagnoses by vocabulary: ICD9CM 2, ICD10CM 1;")
    assert "2 in ICD-9-CM and 1 in ICD-10-CM" in cohort.report.notes[1]
    assert cohort.report.dropped["data", Reason.BAD_CODE] == 2


def visits_of(folder: Path) -> list[tuple]:
    return [(v.hadm_id, v.admitted, v.codes) for v in load_meds(folder).records[0].visits]


def test_hadm_id_tells_visits_apart_and_admissions_give_their_time(tmp_path):
    # Diagnoses stand at the discharge, as in datasets made from MIMIC-IV.
    facts_1 = [(*fact, None) for fact in facts(1)]
    rows = [
        *facts_1,
        (1, T1, "HOSPITAL_ADMISSION//EW EMER.//WALK-IN", 5),
        (1, T2, "HOSPITAL_ADMISSION//URGENT//TRANSFER", 6),
        (1, T3, "ICD9CM/428.0", 6),
        (1, T3, "ICD9CM/038.9", 5),
    ]
    write_events(tmp_path, rows)
    assert visits_of(tmp_path) == [(5, T1, ("0389",)), (6, T2, ("4280",))]


def test_without_hadm_id_the_latest_admission_tells_visits_apart(tmp_path):
    rows = [
        *facts(1),
        (1, T1, "ADMISSION//ORTHO"),
        (1, T2, "ICD9CM/428.0"),
        (1, T3, "ADMISSION//ORTHO"),
        (1, T3, "ICD9CM/038.9"),
    ]
    write_events(tmp_path, rows)
    assert visits_of(tmp_path) == [(None, T1, ("4280",)), (None, T3, ("0389",))]


def test_without_admissions_time_tells_visits_apart(tmp_path):
    rows = [*facts(1), (1, T1, "ICD9CM/4280"), (1, T1, "ICD9CM/0389"), (1, T2, "ICD9CM/4280")]
    write_events(tmp_path, rows)
    assert visits_of(tmp_path) == [(None, T1, ("4280", "0389")), (None, T2, ("4280",))]


# Hours and events of a patient; the hour of each visit and its codes; how many nothing told.
IN, OUT = "HOSPITAL_ADMISSION//URGENT", "HOSPITAL_DISCHARGE//HOME"
SAME_MINUTE = {
    "a discharge tells": (
        [(0, IN), (24, IN), (24, OUT), (24, "0389"), (24, "4019"), (72, OUT), (72, "4019")],
        [(0, "0389 4019"), (24, "4019")],
        None,
    ),
    "a discharge tells, in any order of the rows": (
        [(24, "0389"), (24, IN), (24, OUT), (72, "4019"), (72, "DISCHARGE"), (0, IN)],
        [(0, "0389"), (24, "4019")],
        None,
    ),
    "three stays without a gap": (
        [(0, IN), (9, OUT), (9, IN), (9, "486"), (20, IN), (20, OUT), (20, "0389"), (30, "4019")],
        [(0, "486"), (9, "0389"), (20, "4019")],
        None,
    ),
    "stays of no length": (
        [(0, IN), (0, OUT), (0, "0389"), (24, IN), (24, OUT), (24, "4019"), (48, IN), (72, "486")],
        [(0, "0389"), (24, "4019"), (48, "486")],
        None,
    ),
    "a discharge is missing": (
        [(0, IN), (24, IN), (72, OUT), (72, "0389"), (99, "486"), (99, IN), (99, OUT)],
        [(24, "0389"), (99, "486")],
        None,
    ),
    "codes above their admission": (
        [(0, "0389"), (0, IN), (24, OUT), (48, "486"), (48, IN), (72, OUT), (72, "4019")],
        [(0, "0389"), (48, "486 4019")],
        None,
    ),
    "all codes at admissions": (
        [(0, IN), (0, "0389"), (24, OUT), (24, "486"), (24, IN), (72, OUT)],
        [(0, "0389"), (24, "486")],
        None,
    ),
    "no discharge": (
        [(0, IN), (24, "0389"), (24, IN), (24, "486"), (72, "4019")],
        [(0, "0389"), (24, "486 4019")],
        2,
    ),
    "two discharges": (
        [(0, IN), (24, IN), (24, OUT), (24, OUT), (24, "486"), (72, IN), (99, "0389")],
        [(24, "486"), (72, "0389")],
        1,
    ),
}


@pytest.mark.parametrize("case", SAME_MINUTE)
def test_a_stay_may_end_in_the_minute_in_which_the_next_begins(tmp_path, case):
    events, visits, untold = SAME_MINUTE[case]
    rows = [
        (1, T1 + timedelta(hours=hour), event if event[0].isalpha() else f"ICD9CM/{event}")
        for hour, event in events
    ]
    cohort = load_meds(write_events(tmp_path, [*facts(1), *rows]))
    assert visits_of(tmp_path) == [
        (None, T1 + timedelta(hours=hour), tuple(codes.split())) for hour, codes in visits
    ]
    said = (
        "diagnoses at the time of an admission that no discharge gives to a stay, taken in the "
        "order of the rows: "
    )
    assert cohort.report.notes == (() if untold is None else (f"{said}{untold}",))
    assert cohort.report.dropped.get(("data", Reason.NOT_NEEDED), 0) == sum(
        "DISCHARGE" in event for _, event in events
    )
    assert_every_row_is_accounted_for(cohort, tmp_path)


def test_repeated_codes_and_rows_are_counted(tmp_path):
    rows = [
        *facts(1),
        *facts(1),
        (1, T1, "ADMISSION"),
        (1, T1, "ICD9CM/4280"),
        (1, T1, "ICD9CM/428.0"),
        (1, T2, "ICD9CM/4280"),
    ]
    cohort = load_meds(write_events(tmp_path, rows))
    assert cohort.records[0].codes == ("4280",)
    assert cohort.report.dropped == {("data", Reason.SAME_ROW): 3, ("data", Reason.SAME_CODE): 1}
    assert_every_row_is_accounted_for(cohort, tmp_path)


INCOMPLETE = {
    Reason.NO_BIRTH: [(2, None, "GENDER//F"), (2, T1, "ICD9CM/4280")],
    Reason.NO_SEX: [(2, T1, "MEDS_BIRTH"), (2, T1, "ICD9CM/4280")],
    Reason.NO_DIAGNOSIS: [*facts(2), (2, T1, "HOSPITAL_ADMISSION")],
}


@pytest.mark.parametrize("reason", INCOMPLETE, ids=str)
def test_an_incomplete_patient_is_dropped_and_counted(tmp_path, reason):
    rows = INCOMPLETE[reason]
    write_events(tmp_path, [*facts(1), (1, T1, "ICD9CM/4280"), *rows])
    cohort = load_meds(tmp_path)
    assert [record.subject_id for record in cohort.records] == [1]
    assert cohort.report.dropped == {("data", reason): len(rows)}
    assert_every_row_is_accounted_for(cohort, tmp_path)


MALFORMED = {
    "no time": (
        [*facts(2), (2, None, "ICD9CM/4280")],
        "data, b.parquet row 3, column 'time': an empty value stands where a diagnosis needs a",
        Reason.NO_TIME,
    ),
    "no time of birth": (
        [*facts(2, born=None), (2, T1, "ICD9CM/4280")],
        "data, b.parquet row 2, column 'time': an empty value stands where a birth needs a time",
        Reason.BAD_DATE,
    ),
    "no patient": (
        [*facts(2), (None, T1, "ICD9CM/4280")],
        "data, b.parquet row 3, column 'subject_id': an empty value stands where an event needs",
        Reason.BAD_ID,
    ),
    "no ICD-9 code": (
        [*facts(2), (2, T1, "ICD9CM/I50.9")],
        "data, b.parquet row 3, column 'code': 'I50.9' does not have the shape of an ICD-9",
        Reason.BAD_CODE,
    ),
    "another sex": (
        [*facts(2, sex="X"), (2, T1, "ICD9CM/4280")],
        "data, b.parquet row 1, column 'code': 'X' is not a sex that the records know. Write GEN",
        Reason.BAD_SEX,
    ),
    "two births": (
        [*facts(2), (2, T1, "MEDS_BIRTH"), (2, T1, "ICD9CM/4280")],
        "data, b.parquet row 2, column 'subject_id': '2' is a patient with two births or sexes",
        Reason.ROWS_DIFFER,
    ),
    "before birth": (
        [*facts(2, born=T2), (2, T1, "ICD9CM/4280")],
        "data, b.parquet row 3, column 'time': '2150-02-01 10:30:00' belongs to a visit that",
        Reason.BEFORE_BIRTH,
    ),
}


@pytest.mark.parametrize("fault", MALFORMED)
def test_a_malformed_event_is_refused_where_it_stands(tmp_path, fault):
    rows, message, _ = MALFORMED[fault]
    write_events(tmp_path, [*facts(1), (1, T1, "ICD9CM/4280")], shard="a.parquet")
    write_events(tmp_path, rows, shard="b.parquet")
    with pytest.raises(InputError) as refused:
        load_meds(tmp_path)
    assert message in str(refused.value)


@pytest.mark.parametrize("fault", MALFORMED)
def test_a_malformed_event_is_dropped_and_counted_on_request(tmp_path, fault):
    rows, _, reason = MALFORMED[fault]
    write_events(tmp_path, [*facts(1), (1, T1, "ICD9CM/4280")], shard="a.parquet")
    write_events(tmp_path, rows, shard="b.parquet")
    cohort = load_meds(tmp_path, malformed="drop")
    assert [record.subject_id for record in cohort.records] == [1]
    assert cohort.report.dropped["data", reason] == (2 if reason is Reason.ROWS_DIFFER else 1)
    assert_every_row_is_accounted_for(cohort, tmp_path)


def assert_load_refused(folder: Path, message: str, **options) -> None:
    with pytest.raises(InputError) as refused:
        load_meds(folder, **options)
    assert message in str(refused.value)


def test_a_folder_without_data_is_refused(tmp_path):
    (tmp_path / "metadata").mkdir()
    assert_load_refused(tmp_path, "no folder data/ is in it (found: metadata)")


def test_a_dataset_without_shards_is_refused(tmp_path):
    (tmp_path / "data").mkdir()
    assert_load_refused(tmp_path, "no parquet file is in it")


def test_a_truncated_shard_is_refused(tmp_path):
    write_meds(RECORDS, tmp_path)
    shard = tmp_path / "data" / "0.parquet"
    shard.write_bytes(shard.read_bytes()[:-30])
    assert_load_refused(tmp_path, "0.parquet: it is cut or not a parquet file")


def test_a_missing_column_is_refused(tmp_path):
    (tmp_path / "data").mkdir()
    pq.write_table(pa.table({"subject_id": [1], "code": ["A"]}), tmp_path / "data" / "0.parquet")
    assert_load_refused(tmp_path, "0.parquet: column 'time' is missing (found: subject_id, code)")


def test_a_column_of_another_type_is_refused(tmp_path):
    (tmp_path / "data").mkdir()
    events = pa.table({"subject_id": [1], "time": ["soon"], "code": ["A"]})
    pq.write_table(events, tmp_path / "data" / "0.parquet")
    assert_load_refused(tmp_path, "0.parquet, column 'time': its type is String")


def test_a_dataset_without_icd9_is_refused(tmp_path):
    write_events(tmp_path, [*facts(1), (1, T1, "ICD10CM/I50.9")])
    message = "data: no diagnosis in it is coded in ICD-9-CM; 1 is coded in ICD-10-CM. Take it "
    assert_load_refused(tmp_path, message, system="ICD9CM")


def test_a_split_that_is_not_there_is_refused(tmp_path):
    write_meds(RECORDS, tmp_path / "one")
    assert_load_refused(tmp_path / "one", "there is no such file", split="train")
    split = split_by_patient(RECORDS, fractions=(0.5, 0.0, 0.5))
    write_meds(RECORDS, tmp_path / "two", split=split)
    assert_load_refused(tmp_path / "two", "no split 'test' (found: held_out, train)", split="test")


def assert_write_refused(records, folder: Path, message: str, **options) -> None:
    with pytest.raises(InputError) as refused:
        write_meds(records, folder, **options)
    assert message in str(refused.value)
    assert list(folder.parent.glob(f".{folder.name}-*")) == []


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    note = tmp_path / "note.txt"
    note.write_text("keep", encoding="utf-8")
    assert_write_refused(RECORDS, tmp_path, "there is something here already")
    assert note.read_text(encoding="utf-8") == "keep"


def test_nothing_is_left_of_a_dataset_that_cannot_be_finished(tmp_path):
    records = [*RECORDS, PatientRecord(9, "F", 3, (Visit(("I509",), T1),))]
    assert_write_refused(records, tmp_path / "meds", "not the shape of an ICD-9-CM")
    assert list(tmp_path.iterdir()) == []


def test_a_visit_without_a_time_is_refused(tmp_path):
    records = [PatientRecord(7, "F", 64, (Visit(("4280",)),))]
    assert_write_refused(records, tmp_path / "meds", "patient 7, visit 1: it has no admission")


def test_a_patient_who_occurs_twice_is_refused(tmp_path):
    assert_write_refused(
        RECORDS + RECORDS[:1], tmp_path / "meds", "patient 7: there are two records"
    )


def test_a_split_of_other_records_is_refused(tmp_path):
    split = split_by_patient(make_cohort(20), seed=0)
    assert_write_refused(
        RECORDS, tmp_path / "meds", "its parts are not the patients of the records", split=split
    )


def test_no_records_are_refused(tmp_path):
    assert_write_refused([], tmp_path / "meds", "records: the list is empty")
