"""Write a cohort as MIMIC-III or MIMIC-IV tables, clean or with the faults that real exports have.

MIMIC-IV's tables can be in either code system or in both.
"""

from __future__ import annotations

import datetime as dt
import gzip
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from ehr_course.code_system import SYSTEM_NAMES, CodeSystem
from ehr_course.errors import InputError
from ehr_course.icd import code_meaning, icd9, icd10
from ehr_course.new_folder import new_file
from ehr_course.records import MAX_AGE, PatientRecord
from ehr_course.sources.mimic import ABOVE_89
from ehr_course.sources.synthetic.draws import Draws, check_seed, hashed
from ehr_course.sources.synthetic.icd10_coding import first_day

ABOVE_89_YEARS = 300
"""MIMIC-III writes the birth of a patient above 89 this long before the first admission."""

_BIRTHDAYS, _STAYS, _ANCHORS = 10, 11, 40  # streams of random numbers
_LONGEST_STAY = 12.0  # days
_OLDEST = 89  # the highest age that MIMIC-IV tells
_VERSIONS: dict[CodeSystem, int] = {"ICD9CM": 9, "ICD10CM": 10}
_ADMISSION_TYPES_4 = {"NEWBORN": "URGENT", "ELECTIVE": "ELECTIVE", "EMERGENCY": "EW EMER."}

# The columns of each table, in order.
_COLUMNS_3 = {
    "PATIENTS": "ROW_ID SUBJECT_ID GENDER DOB DOD DOD_HOSP DOD_SSN EXPIRE_FLAG",
    "ADMISSIONS": """
        ROW_ID SUBJECT_ID HADM_ID ADMITTIME DISCHTIME DEATHTIME ADMISSION_TYPE
        ADMISSION_LOCATION DISCHARGE_LOCATION INSURANCE LANGUAGE RELIGION MARITAL_STATUS
        ETHNICITY EDREGTIME EDOUTTIME DIAGNOSIS HOSPITAL_EXPIRE_FLAG HAS_CHARTEVENTS_DATA
    """,
    "DIAGNOSES_ICD": "ROW_ID SUBJECT_ID HADM_ID SEQ_NUM ICD9_CODE",
    "D_ICD_DIAGNOSES": "ROW_ID ICD9_CODE SHORT_TITLE LONG_TITLE",
}
_COLUMNS_4 = {
    "patients": "subject_id gender anchor_age anchor_year anchor_year_group dod",
    "admissions": """
        subject_id hadm_id admittime dischtime deathtime admission_type admit_provider_id
        admission_location discharge_location insurance language marital_status race edregtime
        edouttime hospital_expire_flag
    """,
    "diagnoses_icd": "subject_id hadm_id seq_num icd_code icd_version",
    "d_icd_diagnoses": "icd_code icd_version long_title",
}

Tables = dict[str, pl.DataFrame]


@dataclass(frozen=True, kw_only=True)
class Dirt:
    """How much of each fault to plant; rows are added, respelled or shuffled, never lost.

    Attributes:
        dotted: codes of DIAGNOSES_ICD written with their dot.
        lower_case: V and E codes written in lower case.
        padded: codes written with spaces around them.
        missing: added diagnoses without code and sequence number.
        malformed: added diagnoses with a code of the wrong shape.
        duplicates: diagnoses whose whole row is repeated.
        empty_admissions: added admissions without diagnoses, after a patient's last visit.
        unknown_patients: added admissions of patients who are not in PATIENTS, each with two
            diagnoses.
        unknown_admissions: added diagnoses of admissions that are not in ADMISSIONS.
        shuffled: whether all rows are in random order, so that neither file nor HADM_ID follows
            time.
    """

    dotted: int = 0
    lower_case: int = 0
    padded: int = 0
    missing: int = 0
    malformed: int = 0
    duplicates: int = 0
    empty_admissions: int = 0
    unknown_patients: int = 0
    unknown_admissions: int = 0
    shuffled: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            is_right = isinstance(value, bool) == (field.name == "shuffled")
            if not is_right or not isinstance(value, int) or value < 0:
                wanted = "True or False" if field.name == "shuffled" else "a number, 0 or more"
                place, problem = f"argument {field.name}", f"{value!r} is not {wanted}"
                raise InputError("Dirt", place, problem, f"Pass {wanted}.")


@dataclass(frozen=True)
class Planted:
    """What the tables hold that a loader must see through.

    Attributes:
        counts: how often, by kind: a name of `Dirt`; ``rows_out_of_order``, admissions before an
            earlier one of the same patient; ``diagnoses_of_unknown_patients``; ``leading_zeros``,
            diagnoses whose code starts with 0; ``ages_above_89``, patients born 300 years before
            the first admission. The last two occur without any dirt.
    """

    counts: Mapping[str, int]

    def __str__(self) -> str:
        width = max(map(len, self.counts), default=0)
        return "\n".join(f"{kind:{width}}  {count}" for kind, count in self.counts.items())


def write_mimic3(
    records: Iterable[PatientRecord],
    folder: str | Path,
    *,
    dirt: Dirt | None = None,
    seed: int = 0,
    compress: bool = False,
    overwrite: bool = False,
) -> Planted:
    """Write PATIENTS, ADMISSIONS, DIAGNOSES_ICD and D_ICD_DIAGNOSES as in MIMIC-III v1.4.

    What a record does not hold is made up (discharge, birthday, kind of admission) or left empty
    (death, insurance). Birthdays agree with the record's age at the first admission. A patient of
    age 0 whose first visit holds a birth (V30 to V39) is born on that day, and one above 89 was,
    as in MIMIC-III, born 300 years before.

    Args:
        records: at least one patient; every visit in ICD-9-CM, with its time and hadm_id.
        folder: where to write; made if it does not exist.
        dirt: faults to plant, or None for clean tables.
        seed: 0 or more; the same records and seed give the same files.
        compress: write .csv.gz instead of .csv.
        overwrite: replace existing tables.

    Returns:
        what was planted, to compare with a loader's report.
    """
    records, folder = list(records), Path(folder)
    _check_can_be_written("write_mimic3", records, seed)
    for record in records:
        for number, visit in enumerate(record.visits, start=1):
            if visit.system != "ICD9CM":
                raise InputError(
                    f"patient {record.subject_id}",
                    f"visit {number}",
                    f"it is coded in {SYSTEM_NAMES[visit.system]}, and MIMIC-III knows "
                    "ICD-9-CM alone",
                    "Use write_mimic4.",
                )
    _check_folder(folder, _COLUMNS_3, overwrite=overwrite)
    dirt = dirt or Dirt()
    tables = plant(_tables(_patients_3(records, seed), records, seed), dirt, seed=seed)
    planted = _count_planted(tables, dirt, records)
    codes = sorted({code for record in records for code in record.codes if _short_title(code)})
    tables["D_ICD_DIAGNOSES"] = pl.DataFrame(
        {
            "ROW_ID": range(1, len(codes) + 1),
            "ICD9_CODE": codes,
            "SHORT_TITLE": map(_short_title, codes),
            "LONG_TITLE": map(icd9.title, codes),
        },
        schema_overrides=dict.fromkeys(("ICD9_CODE", "SHORT_TITLE", "LONG_TITLE"), pl.String),
    )
    _write(tables, _COLUMNS_3, folder, compress=compress, quote=True)
    return planted


def write_mimic4(
    records: Iterable[PatientRecord],
    folder: str | Path,
    *,
    dirt: Dirt | None = None,
    seed: int = 0,
    compress: bool = False,
    overwrite: bool = False,
) -> Planted:
    """Write patients, admissions, diagnoses_icd and d_icd_diagnoses as in MIMIC-IV v2.2.

    As in MIMIC-IV, patients have no birth but an age in an anchor year: the year of the first
    admission or one of the next three. anchor_year_group says when that year really was; see
    ``icd10_coding.first_day``.

    Arguments are those of write_mimic3, but the tables go to the subfolder hosp and codes may be
    of either system; the result also counts diagnoses ``in_icd9`` and ``in_icd10``.
    """
    records, hosp = list(records), Path(folder) / "hosp"
    _check_can_be_written("write_mimic4", records, seed)
    _check_folder(hosp, _COLUMNS_4, overwrite=overwrite)
    dirt = dirt or Dirt()
    clean = _tables(_patients_4(records, seed), records, seed)
    versions = clean["DIAGNOSES_ICD"]["ICD_VERSION"]
    tables = plant(clean, dirt, seed=seed)
    planted = {
        **_count_planted(tables, dirt, records).counts,
        "in_icd9": int((versions == 9).sum()),
        "in_icd10": int((versions == 10).sum()),
    }
    in_use = {(v.system, code) for record in records for v in record.visits for code in v.codes}
    titles = [(code, _VERSIONS[system], _title(code, system)) for system, code in in_use]
    schema = {"icd_code": pl.String, "icd_version": pl.Int64, "long_title": pl.String}
    found = pl.DataFrame(titles, schema=schema, orient="row").filter(pl.col("long_title") != "")
    tables = {name.lower(): table.rename(str.lower) for name, table in tables.items()}
    tables["admissions"] = tables["admissions"].with_columns(
        pl.col("admission_type").replace_strict(_ADMISSION_TYPES_4)
    )
    tables["diagnoses_icd"] = tables["diagnoses_icd"].rename({"icd9_code": "icd_code"})
    tables["d_icd_diagnoses"] = found.sort("icd_code", "icd_version")
    _write(tables, _COLUMNS_4, hosp, compress=compress, quote=False)
    return Planted(planted)


# ------------------------------------------------------------------ checks


def _check_can_be_written(who: str, records: Sequence[PatientRecord], seed: int) -> None:
    if not records:
        raise InputError(who, "", "there is no patient to write", "Pass some records.")
    check_seed(who, seed)
    subject_ids, hadm_ids = set(), set()
    for record in records:
        patient = f"patient {record.subject_id}"
        if record.subject_id in subject_ids:
            raise InputError("records", patient, "two records have this subject_id", "Keep one.")
        subject_ids.add(record.subject_id)
        for visit in record.visits:
            if visit.admitted is None or visit.hadm_id is None:
                problem = "a visit has no admission time or no hadm_id"
                raise InputError("records", patient, problem, "The tables need both.")
            if visit.hadm_id in hadm_ids:
                problem = f"hadm_id {visit.hadm_id} occurs twice"
                raise InputError("records", patient, problem, "Give every visit its own number.")
            hadm_ids.add(visit.hadm_id)


def _check_folder(folder: Path, names: Iterable[str], *, overwrite: bool) -> None:
    for part in (folder, folder.parent):
        if part.exists() and not part.is_dir():
            raise InputError(part, "", "this is a file, not a folder", "Name another folder.")
    there = [path.name for name in names for path in _files(folder, name)]
    if there and not overwrite:
        raise InputError(
            folder,
            "",
            f"it already holds {', '.join(there)}",
            "Name another folder, or pass overwrite=True to replace them.",
        )


def _files(folder: Path, name: str) -> list[Path]:
    return [path for s in (".csv", ".csv.gz") if (path := folder / f"{name}{s}").exists()]


# ------------------------------------------------------------------ the tables


def _patients_3(records: Sequence[PatientRecord], seed: int) -> pl.DataFrame:
    ids = [record.subject_id for record in records]
    # At most 364 days: one more could complete another year.
    days = (hashed(seed, _BIRTHDAYS, np.array(ids)) * 365).astype(np.int64).tolist()
    return pl.DataFrame(
        {
            "ROW_ID": range(1, len(ids) + 1),
            "SUBJECT_ID": ids,
            "GENDER": [record.sex for record in records],
            "DOB": map(_birth, records, days),
        },
        schema_overrides={"DOB": pl.Date},
    ).with_columns(pl.col("DOB").cast(pl.Datetime("us")), EXPIRE_FLAG=pl.lit(0))


def _birth(record: PatientRecord, days_since_birthday: int) -> dt.date:
    first = record.visits[0]
    assert first.admitted is not None  # or the records could not be written
    day = first.admitted.date()
    if record.age == 0 and any("V30" <= code < "V40" for code in first.codes):
        return day
    is_hidden = record.age == MAX_AGE
    year = day.year - (ABOVE_89_YEARS if is_hidden else record.age)
    try:
        birthday = day.replace(year=year)
    except ValueError:  # 29 February in a common year
        birthday = day.replace(year=year, day=28)
    return birthday - dt.timedelta(days=0 if is_hidden else days_since_birthday)


def _patients_4(records: Sequence[PatientRecord], seed: int) -> pl.DataFrame:
    ids = [record.subject_id for record in records]
    drawn = (hashed(seed, _ANCHORS, np.array(ids)) * 4).astype(np.int64).tolist()
    rows = []
    for record, later in zip(records, drawn, strict=True):
        first = record.visits[0].admitted
        assert first is not None  # or the records could not be written
        years = max(0, min(later, _OLDEST - record.age))
        group = 3 * ((first_day(record.subject_id, seed=seed).year + years - 2008) // 3) + 2008
        rows.append(
            {
                "SUBJECT_ID": record.subject_id,
                "GENDER": record.sex,
                "ANCHOR_AGE": ABOVE_89 if record.age == MAX_AGE else record.age + years,
                "ANCHOR_YEAR": first.year + years,
                "ANCHOR_YEAR_GROUP": f"{group} - {group + 2}",
            }
        )
    return pl.DataFrame(rows)


def _tables(patients: pl.DataFrame, records: Sequence[PatientRecord], seed: int) -> Tables:
    """MIMIC-III's tables, with the version of each code in DIAGNOSES_ICD."""
    owners = [record.subject_id for record in records for _ in record.visits]
    visits = [visit for record in records for visit in record.visits]
    hadm_ids = np.array([visit.hadm_id for visit in visits])
    first_codes = [visit.codes[0] for visit in visits]
    born = [code.startswith(("V3", "Z38")) for code in first_codes]
    elective = [code.startswith(("V", "Z")) for code in first_codes]
    titles = {code: _short_title(code).upper() for code in set(first_codes)}
    admissions = pl.DataFrame(
        {
            "SUBJECT_ID": owners,
            "HADM_ID": hadm_ids,
            "ADMITTIME": [visit.admitted for visit in visits],
            "ADMISSION_TYPE": np.select([born, elective], ["NEWBORN", "ELECTIVE"], "EMERGENCY"),
            "DIAGNOSIS": [titles[code] for code in first_codes],
            "days": hashed(seed, _STAYS, hadm_ids) * _LONGEST_STAY,
        },
        schema_overrides={"ADMITTIME": pl.Datetime("us")},
    )
    # A stay ends before the next one begins.
    room = pl.col("ADMITTIME").shift(-1).over("SUBJECT_ID") - pl.col("ADMITTIME")
    minutes = pl.min_horizontal(
        pl.col("days") * 24 * 60, room.dt.total_minutes().cast(pl.Float64) * 0.9
    ).cast(pl.Int64)
    diagnoses = pl.DataFrame(
        {
            "SUBJECT_ID": owners,
            "HADM_ID": hadm_ids,
            "ICD9_CODE": [visit.codes for visit in visits],
            "ICD_VERSION": [_VERSIONS[visit.system] for visit in visits],
        },
        schema_overrides={"ICD9_CODE": pl.List(pl.String)},
    ).with_columns(SEQ_NUM=pl.int_ranges(1, pl.col("ICD9_CODE").list.len() + 1))
    row_id = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).alias("ROW_ID")
    return {
        "PATIENTS": patients,
        "ADMISSIONS": admissions.select(
            row_id,
            pl.exclude("days"),
            DISCHTIME=pl.col("ADMITTIME") + pl.duration(minutes=minutes),
            HOSPITAL_EXPIRE_FLAG=pl.lit(0),
            HAS_CHARTEVENTS_DATA=pl.lit(0),
        ),
        "DIAGNOSES_ICD": diagnoses.explode("ICD9_CODE", "SEQ_NUM").select(
            row_id, pl.exclude("SEQ_NUM"), pl.col("SEQ_NUM").cast(pl.Int64)
        ),
    }


# A title is "" for a code outside the classification; MIMIC has some too.


def _short_title(code: str) -> str:
    try:
        return icd9.short_title(code)
    except InputError:
        return ""


def _title(code: str, system: CodeSystem) -> str:
    try:
        return code_meaning(system).title(code)
    except InputError:
        return ""


def _count_planted(tables: Tables, dirt: Dirt, records: Sequence[PatientRecord]) -> Planted:
    """Count what a loader must see through."""
    counts = asdict(dirt)
    del counts["shuffled"]
    times = pl.col("ADMITTIME")
    early = times < times.cum_max().over("SUBJECT_ID")
    counts["diagnoses_of_unknown_patients"] = 2 * dirt.unknown_patients
    counts["rows_out_of_order"] = tables["ADMISSIONS"].filter(early).height
    codes = tables["DIAGNOSES_ICD"]["ICD9_CODE"].str.strip_chars()
    counts["leading_zeros"] = int(codes.str.starts_with("0").sum())
    counts["ages_above_89"] = sum(record.age == MAX_AGE for record in records)
    return Planted(counts)


# ------------------------------------------------------------------ the files


def _write(
    tables: Tables, columns: Mapping[str, str], folder: Path, *, compress: bool, quote: bool
) -> None:
    """Write tables into a folder, each whole or not at all, replacing existing ones."""
    suffix = ".csv.gz" if compress else ".csv"
    files = {}
    for name, table in tables.items():
        layout = columns[name].split()
        missing = [pl.lit(None).alias(column) for column in layout if column not in table.columns]
        files[name] = _csv(table.with_columns(missing).select(layout), quote=quote)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        replaced = _files(folder, name)
        path = folder / f"{name}{suffix}"
        with new_file(path) as unfinished:
            # Without a time stamp, the same tables give the same bytes.
            unfinished.write_bytes(gzip.compress(content, mtime=0) if compress else content)
        for old in replaced:
            if old != path:
                old.unlink()


def _csv(table: pl.DataFrame, *, quote: bool) -> bytes:
    """Write dates as MIMIC does; with quote, every text in quotation marks."""
    buffer = io.BytesIO()
    how: dict[str, Any] = {"include_header": not quote, "datetime_format": "%Y-%m-%d %H:%M:%S"}
    if quote:
        mark = pl.lit('"')
        table = table.with_columns(
            pl.concat_str(mark, pl.col(name).str.replace_all('"', '""'), mark).alias(name)
            for name, kind in table.schema.items()
            if kind == pl.String
        )
        buffer.write((",".join(f'"{name}"' for name in table.columns) + "\n").encode())
    table.write_csv(buffer, quote_style="never" if quote else "necessary", **how)
    return buffer.getvalue()


# ------------------------------------------------------------------ faults

_MALFORMED = {
    # 30 is 003.0 after a spreadsheet.
    9: ("30", "4280X", "I50.9", "V3", "12.345", "E84", "unknown"),
    # 150.9 is I50.9, misread.
    10: ("I5", "428.0", "I50.9.1", "E11.99999", "150.9", "I50-", "unknown"),
}
_OF_UNKNOWN_PATIENTS = {9: ("4019", "25000"), 10: ("I10", "E119")}

_FAULTS = 20  # a stream of random numbers
_LAST_SEQ_NUM = 1000  # no real visit has more


def plant(tables: Tables, dirt: Dirt, *, seed: int) -> Tables:
    """Plant dirt in MIMIC-III's tables, which have ICD_VERSION in DIAGNOSES_ICD."""
    draws = Draws(seed, _FAULTS)
    patients, admissions = tables["PATIENTS"], tables["ADMISSIONS"]
    diagnoses = _respelled(tables["DIAGNOSES_ICD"], dirt, draws)

    empty = _empty_admissions(admissions, dirt.empty_admissions, draws)
    first_id = max(admissions["HADM_ID"].to_list()) + 1_000_000  # beyond those of empty admissions
    unknown = _copies(admissions, dirt.unknown_patients, draws).with_columns(
        SUBJECT_ID=_new_ids(max(patients["SUBJECT_ID"].to_list())),
        HADM_ID=_new_ids(first_id - 1),
    )
    admissions = pl.concat([admissions, empty, unknown])

    twice = diagnoses[_pick(dirt.duplicates, diagnoses.height, "duplicates", draws)]
    without_code = _copies(diagnoses, dirt.missing, draws).with_columns(
        SEQ_NUM=pl.lit(None, dtype=pl.Int64), ICD9_CODE=pl.lit(None, dtype=pl.String)
    )
    malformed = _copies(diagnoses, dirt.malformed, draws)
    texts = [
        _MALFORMED[version][number % len(_MALFORMED[version])]
        for number, version in enumerate(malformed["ICD_VERSION"])
    ]
    malformed = malformed.with_columns(
        SEQ_NUM=_new_ids(_LAST_SEQ_NUM), ICD9_CODE=pl.Series(texts, dtype=pl.String)
    )
    of_unknown_stays = _copies(diagnoses, dirt.unknown_admissions, draws).with_columns(
        HADM_ID=_new_ids(max(admissions["HADM_ID"].to_list()))
    )
    of_strangers = _two_diagnoses_each(diagnoses, unknown)
    diagnoses = pl.concat([diagnoses, without_code, malformed, of_unknown_stays, of_strangers])
    soiled = {
        "PATIENTS": patients,
        "ADMISSIONS": admissions.with_columns(ROW_ID=_new_ids(0)),
        # A repeated row keeps its ROW_ID, as if an export was appended twice.
        "DIAGNOSES_ICD": pl.concat([diagnoses.with_columns(ROW_ID=_new_ids(0)), twice]),
    }
    if dirt.shuffled:
        for name, table in soiled.items():
            soiled[name] = table[draws.pick(table.height, table.height)]
    return soiled


def _pick(count: int, out_of: int, kind: str, draws: Draws) -> np.ndarray:
    if count > out_of:
        raise InputError(
            "Dirt",
            f"argument {kind}",
            f"{count} rows are wanted where {out_of} can be taken",
            "Write more patients or ask for less.",
        )
    return draws.pick(count, out_of)


def _copies(table: pl.DataFrame, count: int, draws: Draws) -> pl.DataFrame:
    """Copy rows to be changed, perhaps some twice."""
    return table[(draws.rows(count)[:, 0] * table.height).astype(np.int64)]


def _new_ids(last: int) -> pl.Expr:
    """Number all rows, from the one after the last."""
    return pl.int_range(last + 1, last + 1 + pl.len(), dtype=pl.Int64)


def _respelled(diagnoses: pl.DataFrame, dirt: Dirt, draws: Draws) -> pl.DataFrame:
    """Respell codes; no code is respelled in two ways."""
    codes, versions = diagnoses["ICD9_CODE"].to_list(), diagnoses["ICD_VERSION"].to_list()
    free = set(range(len(codes)))

    def dotted(row: int) -> str:
        return (icd9 if versions[row] == 9 else icd10).dotted(codes[row])

    for kind, respell in (
        ("dotted", dotted),
        ("lower_case", lambda row: codes[row].lower()),
        ("padded", lambda row: f" {codes[row]} "),
    ):
        spelled = {row: respell(row) for row in sorted(free)}
        open_to_it = [row for row, text in spelled.items() if text != codes[row]]
        for place in _pick(getattr(dirt, kind), len(open_to_it), kind, draws).tolist():
            row = open_to_it[place]
            codes[row] = spelled[row]
            free.remove(row)
    return diagnoses.with_columns(ICD9_CODE=pl.Series(codes, dtype=pl.String))


def _empty_admissions(admissions: pl.DataFrame, count: int, draws: Draws) -> pl.DataFrame:
    """Add stays a month after a patient's last, so that no age at first admission changes."""
    last = admissions.group_by("SUBJECT_ID", maintain_order=True).last()
    last = last.select(admissions.columns)
    return last[_pick(count, last.height, "empty_admissions", draws)].with_columns(
        HADM_ID=_new_ids(max(admissions["HADM_ID"].to_list())),
        ADMISSION_TYPE=pl.lit("EMERGENCY"),
        ADMITTIME=pl.col("DISCHTIME") + pl.duration(days=30),
        DISCHTIME=pl.col("DISCHTIME") + pl.duration(days=31),
    )


def _two_diagnoses_each(diagnoses: pl.DataFrame, admissions: pl.DataFrame) -> pl.DataFrame:
    # In a hospital that changed systems, unknown patients come before and after the change.
    versions = diagnoses["ICD_VERSION"].unique().sort().to_list()
    rows = [
        {
            "ROW_ID": 0,
            "SUBJECT_ID": subject_id,
            "HADM_ID": hadm_id,
            "SEQ_NUM": seq_num,
            "ICD9_CODE": code,
            "ICD_VERSION": version,
        }
        for (subject_id, hadm_id), version in zip(
            admissions.select("SUBJECT_ID", "HADM_ID").iter_rows(), cycle(versions), strict=False
        )
        for seq_num, code in enumerate(_OF_UNKNOWN_PATIENTS[version], 1)
    ]
    return pl.DataFrame(rows, schema=diagnoses.schema)
