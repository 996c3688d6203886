"""Plant in clean tables the faults that real exports have, and count them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import cycle

import numpy as np
import polars as pl

from ehr_course.errors import InputError
from ehr_course.icd import icd9, icd10
from ehr_course.sources.synthetic.draws import Draws

_MALFORMED = {
    # 30 is 003.0 after a spreadsheet.
    9: ("30", "4280X", "I50.9", "V3", "12.345", "E84", "unknown"),
    # 150.9 is I50.9, misread.
    10: ("I5", "428.0", "I50.9.1", "E11.99999", "150.9", "I50-", "unknown"),
}
_OF_UNKNOWN_PATIENTS = {9: ("4019", "25000"), 10: ("I10", "E119")}

_STREAM = 20
_LAST_SEQ_NUM = 1000  # no real visit has more


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


Tables = dict[str, pl.DataFrame]


def plant(tables: Tables, dirt: Dirt, *, seed: int) -> Tables:
    """Plant dirt in MIMIC-III's tables, which have ICD_VERSION in DIAGNOSES_ICD."""
    draws = Draws(seed, _STREAM)
    patients, admissions = tables["PATIENTS"], tables["ADMISSIONS"]
    diagnoses = _respelled(tables["DIAGNOSES_ICD"], dirt, draws)

    empty = _empty_admissions(admissions, dirt.empty_admissions, draws)
    first_id = _largest(admissions["HADM_ID"]) + 1_000_000  # beyond those of empty admissions
    unknown = _copies(admissions, dirt.unknown_patients, draws).with_columns(
        SUBJECT_ID=_new_ids(_largest(patients["SUBJECT_ID"])),
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
        HADM_ID=_new_ids(_largest(admissions["HADM_ID"]))
    )
    of_strangers = _two_diagnoses_each(diagnoses, unknown)
    diagnoses = pl.concat([diagnoses, without_code, malformed, of_unknown_stays, of_strangers])
    soiled = {
        "PATIENTS": patients,
        "ADMISSIONS": _numbered(admissions),
        # A repeated row keeps its ROW_ID, as if an export was appended twice.
        "DIAGNOSES_ICD": pl.concat([_numbered(diagnoses), twice]),
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


def _numbered(table: pl.DataFrame) -> pl.DataFrame:
    return table.with_columns(ROW_ID=_new_ids(0))


def _new_ids(last: int) -> pl.Expr:
    """Number all rows, from the one after the last."""
    return pl.int_range(last + 1, last + 1 + pl.len(), dtype=pl.Int64)


def _largest(ids: pl.Series) -> int:
    return max(ids.to_list())


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
        HADM_ID=_new_ids(_largest(admissions["HADM_ID"])),
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
