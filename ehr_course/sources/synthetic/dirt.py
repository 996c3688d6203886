"""Plant in clean tables the faults that real exports have, and count them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import polars as pl

from ehr_course.errors import InputError
from ehr_course.icd import icd9, icd10
from ehr_course.sources.synthetic.draws import Draws

MALFORMED = ("30", "4280X", "I50.9", "V3", "12.345", "E84", "unknown")
"""What a malformed ICD-9-CM code looks like; 30 is what a spreadsheet leaves of 003.0."""

MALFORMED_ICD10 = ("I5", "428.0", "I50.9.1", "E11.99999", "150.9", "I50-", "unknown")
"""What a malformed ICD-10-CM code looks like; 150.9 is I50.9, misread."""

_OF_UNKNOWN_PATIENTS = {9: ("4019", "25000"), 10: ("I10", "E119")}

_STREAM = 20
_SEQ_NUM_OF_ADDED = 1001  # past every sequence number of a real visit


@dataclass(frozen=True, kw_only=True)
class Dirt:
    """How much of each fault to plant; the default is none.

    A loader that does its work returns the clean records whatever is planted: rows are added,
    respelled or shuffled, never lost.

    Attributes:
        dotted: codes of DIAGNOSES_ICD written with their dot.
        lower_case: V and E codes written in lower case.
        padded: codes written with spaces around them.
        missing: added diagnoses without code and sequence number.
        malformed: added diagnoses whose code is none (`MALFORMED`).
        duplicates: diagnoses that stand twice, the whole row alike.
        empty_admissions: added admissions without diagnoses, after a patient's last visit.
        unknown_patients: added admissions of patients who are not in PATIENTS, each with two
            diagnoses.
        unknown_admissions: added diagnoses of admissions that are not in ADMISSIONS.
        shuffled: whether the rows of all tables stand in random order, so that neither the file
            nor HADM_ID follows time.

    >>> Dirt(missing=3, shuffled=True).missing
    3
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
            right = isinstance(value, bool) == (field.name == "shuffled")
            if not right or not isinstance(value, int) or value < 0:
                wanted = "True or False" if field.name == "shuffled" else "a number, 0 or more"
                raise InputError(
                    "Dirt",
                    f"argument {field.name}",
                    f"{value!r} is not {wanted}",
                    f"Pass {wanted}.",
                )


@dataclass(frozen=True)
class Planted:
    """What the tables hold that a loader must see through.

    Attributes:
        counts: how often, by kind. A kind is a name of `Dirt`; or ``rows_out_of_order``,
            admissions that stand before an earlier one of the same patient;
            ``diagnoses_of_unknown_patients``; ``leading_zeros``, diagnoses whose code
            starts with 0, which a reader of numbers destroys; ``ages_above_89``, patients whose
            birth is written 300 years before the first admission. The last two are part of the
            format, and are there without any dirt.

    >>> print(Planted({"missing": 3, "dotted": 0}))
    missing  3
    dotted   0
    """

    counts: Mapping[str, int]

    def __str__(self) -> str:
        width = max(map(len, self.counts), default=0)
        return "\n".join(f"{kind:{width}}  {count}" for kind, count in self.counts.items())


Tables = dict[str, pl.DataFrame]


def plant(tables: Tables, dirt: Dirt, *, seed: int) -> Tables:
    """Return the tables with the dirt planted.

    Args:
        tables: PATIENTS, ADMISSIONS and DIAGNOSES_ICD as `write_mimic3` writes them. DIAGNOSES_ICD
            may have a column ICD_VERSION; without it all codes are of ICD-9-CM.
        dirt: how much of what.
        seed: 0 or more.

    Raises:
        InputError: if there are fewer rows to spoil than asked for.
    """
    draws = Draws(seed, _STREAM)
    patients, admissions = tables["PATIENTS"], tables["ADMISSIONS"]
    diagnoses = _respelled(tables["DIAGNOSES_ICD"], dirt, draws)

    empty = _empty_admissions(admissions, dirt.empty_admissions, draws)
    unknown = _unknown_patients(patients, admissions, dirt.unknown_patients, draws)
    admissions = _numbered(pl.concat([admissions, empty, unknown]))

    twice = diagnoses[_pick(dirt.duplicates, diagnoses.height, "duplicates", draws)]
    added = [
        _without_code(diagnoses, dirt.missing, draws),
        _malformed(diagnoses, dirt.malformed, draws),
        _unknown_admissions(diagnoses, admissions, dirt.unknown_admissions, draws),
        _two_diagnoses_each(diagnoses, unknown),
    ]
    # A repeated row keeps its ROW_ID, as in an export that was appended twice.
    diagnoses = pl.concat([_numbered(pl.concat([diagnoses, *added])), twice])

    soiled = {**tables, "ADMISSIONS": admissions, "DIAGNOSES_ICD": diagnoses}
    if dirt.shuffled:
        for name in ("PATIENTS", "ADMISSIONS", "DIAGNOSES_ICD"):
            rows = soiled[name].height
            soiled[name] = soiled[name][draws.pick(rows, rows)]
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


def _numbered(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(ROW_ID=pl.int_range(1, table.height + 1, dtype=pl.Int64))


def _respelled(diagnoses: pl.DataFrame, dirt: Dirt, draws: Draws) -> pl.DataFrame:
    """Respell codes; no code is respelled in two ways."""
    codes, versions = diagnoses["ICD9_CODE"].to_list(), _versions(diagnoses)
    free = set(range(len(codes)))
    for kind, respell in (("dotted", _dotted), ("lower_case", _lower), ("padded", _padded)):
        spelled = {row: respell(codes[row], versions[row]) for row in sorted(free)}
        open_to_it = [row for row, text in spelled.items() if text != codes[row]]
        for place in _pick(getattr(dirt, kind), len(open_to_it), kind, draws).tolist():
            row = open_to_it[place]
            codes[row] = spelled[row]
            free.remove(row)
    return diagnoses.with_columns(ICD9_CODE=pl.Series(codes, dtype=pl.String))


def _versions(diagnoses: pl.DataFrame) -> list[int]:
    if "ICD_VERSION" not in diagnoses.columns:
        return [9] * diagnoses.height
    return diagnoses["ICD_VERSION"].to_list()


def _dotted(code: str, version: int) -> str:
    return icd9.dotted(code) if version == 9 else icd10.dotted(code)


def _lower(code: str, version: int) -> str:
    return code.lower()


def _padded(code: str, version: int) -> str:
    return f" {code} "


def _copies(table: pl.DataFrame, count: int, draws: Draws) -> pl.DataFrame:
    """Copy rows to be changed; a row may be copied twice."""
    return table[(draws.rows(count)[:, 0] * table.height).astype(np.int64)]


def _without_code(diagnoses: pl.DataFrame, count: int, draws: Draws) -> pl.DataFrame:
    return _copies(diagnoses, count, draws).with_columns(
        SEQ_NUM=pl.lit(None, dtype=pl.Int64), ICD9_CODE=pl.lit(None, dtype=pl.String)
    )


def _malformed(diagnoses: pl.DataFrame, count: int, draws: Draws) -> pl.DataFrame:
    copies = _copies(diagnoses, count, draws)
    forms = {9: MALFORMED, 10: MALFORMED_ICD10}
    texts = [
        forms[version][number % len(forms[version])]
        for number, version in enumerate(_versions(copies))
    ]
    return copies.with_columns(
        SEQ_NUM=_SEQ_NUM_OF_ADDED + pl.int_range(count, dtype=pl.Int64),
        ICD9_CODE=pl.Series(texts, dtype=pl.String),
    )


def _new_ids(taken: pl.Series, count: int) -> pl.Series:
    return pl.int_range(1, count + 1, dtype=pl.Int64, eager=True) + _largest(taken)


def _largest(ids: pl.Series) -> int:
    largest = ids.max()
    return largest if isinstance(largest, int) else 0


def _unknown_admissions(
    diagnoses: pl.DataFrame, admissions: pl.DataFrame, count: int, draws: Draws
) -> pl.DataFrame:
    ids = _new_ids(admissions["HADM_ID"], count)
    return _copies(diagnoses, count, draws).with_columns(HADM_ID=ids)


def _empty_admissions(admissions: pl.DataFrame, count: int, draws: Draws) -> pl.DataFrame:
    """Add stays a month after a patient's last, so that no age at first admission changes."""
    last = admissions.group_by("SUBJECT_ID", maintain_order=True).last()
    last = last.select(admissions.columns)
    stays = last[_pick(count, last.height, "empty_admissions", draws)]
    return stays.with_columns(
        HADM_ID=_new_ids(admissions["HADM_ID"], count),
        ADMISSION_TYPE=pl.lit("EMERGENCY"),
        ADMITTIME=pl.col("DISCHTIME") + pl.duration(days=30),
        DISCHTIME=pl.col("DISCHTIME") + pl.duration(days=31),
    )


def _unknown_patients(
    patients: pl.DataFrame, admissions: pl.DataFrame, count: int, draws: Draws
) -> pl.DataFrame:
    first_id = _largest(admissions["HADM_ID"]) + 1_000_000  # beyond the ids of empty admissions
    return _copies(admissions, count, draws).with_columns(
        SUBJECT_ID=_new_ids(patients["SUBJECT_ID"], count),
        HADM_ID=pl.int_range(first_id, first_id + count, dtype=pl.Int64),
    )


def _two_diagnoses_each(diagnoses: pl.DataFrame, admissions: pl.DataFrame) -> pl.DataFrame:
    # In a hospital that changed, strangers come before the change as well as after it.
    versions = sorted(set(_versions(diagnoses))) or [9]
    rows = [
        {
            "SUBJECT_ID": subject_id,
            "HADM_ID": hadm_id,
            "SEQ_NUM": seq_num,
            "ICD9_CODE": code,
            "ICD_VERSION": versions[number % len(versions)],
        }
        for number, (subject_id, hadm_id) in enumerate(
            admissions.select("SUBJECT_ID", "HADM_ID").iter_rows()
        )
        for seq_num, code in enumerate(_OF_UNKNOWN_PATIENTS[versions[number % len(versions)]], 1)
    ]
    schema: dict[str, Any] = {"ICD_VERSION": pl.Int64, **diagnoses.schema, "ROW_ID": pl.Int64}
    return pl.DataFrame(rows, schema=schema).select(diagnoses.columns)
