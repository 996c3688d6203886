"""Codes as people write them, made into the codes of records: a column of text, looked at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from ehr_course.code_meaning import code_meaning
from ehr_course.code_system import CODE_SYSTEMS, CodeSystem
from ehr_course.sources.cohort import Reason
from ehr_course.sources.leading_zeros import check_leading_zeros
from ehr_course.sources.row_filter import RowFilter

IS_ICD10 = pl.col("icd10")
"""Whether a row is coded in ICD-10-CM; where it is not, it is coded in ICD-9-CM."""

SHAPES: dict[CodeSystem, str] = {"ICD9CM": "ICD-9", "ICD10CM": "ICD-10"}
"""What an error calls the codes of a system."""


class CodeList(NamedTuple):
    """The codes of a column.

    Attributes:
        codes: each code of each system once, normalized, those of ICD-9-CM first. A text that is
            a code of both, and stands in both, stands here twice.
        n_icd9: how many of them are ICD-9-CM.
        notes: what the report is to say of them.
    """

    codes: list[str]
    n_icd9: int
    notes: tuple[str, ...] = ()

    def system_at(self, position: int) -> CodeSystem:
        """The system of the code at a position."""
        return "ICD9CM" if position < self.n_icd9 else "ICD10CM"


class Spellings(NamedTuple):
    """How the codes of one system are written in a column.

    Attributes:
        texts: each spelling once.
        normal: the code that each stands for, or None where it is none.
        codes: each code once, sorted.
        first: the position of the first one in the list of all codes.
    """

    texts: pl.Series
    normal: list[str | None]
    codes: list[str]
    first: int

    @property
    def positions(self) -> pl.Series:
        """The position of each spelling's code, null where it is none."""
        position = {code: number for number, code in enumerate(self.codes, start=self.first)}
        found = [None if code is None else position.get(code) for code in self.normal]
        return pl.Series(found, dtype=pl.UInt32)

    @property
    def respelled(self) -> pl.Series:
        """The spellings that are not the code itself."""
        pairs = zip(self.texts, self.normal, strict=True)
        return pl.Series([text for text, code in pairs if text != code], dtype=pl.String)


def spellings_of(texts: pl.Series, system: CodeSystem, *, first: int) -> Spellings:
    """Normalize the spellings of one system.

    Args:
        texts: as they were written, repetitions allowed.
        system: the one that they are all coded in.
        first: how many codes come before them in the list of all codes.
    """
    # A full MIMIC-III has 651,047 rows and fewer than 7,000 spellings: each is looked at once.
    texts = texts.unique().sort()
    meaning = code_meaning(system)
    normal = [meaning.normalize(text) if meaning.is_code(text) else None for text in texts]
    codes = sorted({code for code in normal if code is not None})
    return Spellings(texts, normal, codes, first)


def count_codes(rows: pl.DataFrame, column: str) -> dict[CodeSystem, int]:
    """Count the rows of each system that hold a code of it.

    Args:
        rows: with "icd10".
        column: text, as it was written.
    """
    spellings = rows.group_by(column, "icd10").len().rows()
    return {
        system: sum(
            n
            for text, icd10, n in spellings
            if icd10 == (system == "ICD10CM") and code_meaning(system).is_code(text)
        )
        for system in CODE_SYSTEMS
    }


def normalise_codes(
    diagnoses: RowFilter,
    column: str,
    *,
    remedy: str = "Keep codes as text, with their leading zeros.",
    zeros_lost_ok: bool = False,
) -> CodeList:
    """Replace the codes by their positions in the list that is returned, each code once.

    Args:
        diagnoses: the rows, with "icd10". The column is replaced by "code", the position, and
            "respelled", whether it was written in another way. Rows whose code is none of their
            system are refused.
        column: text, as it was written.
        remedy: what to say of a code that has another shape.
        zeros_lost_ok: whether to go on where ICD-9 codes seem to have lost their leading zeros.

    Raises:
        InputError: if a code is malformed and such rows are not to be dropped, or if leading
            zeros seem to be lost.
    """
    frame = diagnoses.frame
    of_system: dict[CodeSystem, Spellings] = {}
    n_codes = 0
    for system, its in zip(CODE_SYSTEMS, (~frame["icd10"], frame["icd10"]), strict=True):
        texts = frame[column] if its.all() else frame[column].filter(its)
        of_system[system] = spellings_of(texts, system, first=n_codes)
        n_codes += len(of_system[system].codes)
    # Most tables are of one system, and then each row is looked at once.
    used = {system: found for system, found in of_system.items() if len(found.texts)}
    replaced = [
        (
            pl.col(column).replace_strict(found.texts, found.positions, default=None),
            pl.col(column).is_in(found.respelled.implode()),
        )
        for found in used.values()
    ]
    position, respelled = replaced[0] if replaced else (pl.lit(None), pl.lit(False))
    if len(replaced) == 2:
        position = pl.when(IS_ICD10).then(replaced[1][0]).otherwise(position)
        respelled = pl.when(IS_ICD10).then(replaced[1][1]).otherwise(respelled)
    diagnoses.frame = frame.with_columns(
        position.cast(pl.UInt32).alias("position"), respelled.alias("respelled")
    )
    note = None
    if len(of_system["ICD9CM"].texts):
        note = check_leading_zeros(
            diagnoses.file,
            diagnoses.spelled(column),
            of_system["ICD9CM"].codes,
            diagnoses.frame["position"].filter(~diagnoses.frame["icd10"])
            if len(used) == 2
            else diagnoses.frame["position"],
            zeros_lost_ok=zeros_lost_ok,
        )
    for system in used:
        of_the_system = IS_ICD10 if system == "ICD10CM" else ~IS_ICD10
        diagnoses.refuse(
            pl.col("position").is_null() & of_the_system,
            Reason.BAD_CODE,
            column=column,
            problem=f"does not have the shape of an {SHAPES[system]} diagnosis code",
            remedy=remedy,
        )
    diagnoses.frame = diagnoses.frame.drop(column).rename({"position": "code"})
    codes = [code for found in of_system.values() for code in found.codes]
    n_icd9 = len(of_system["ICD9CM"].codes)
    return CodeList(codes, n_icd9, () if note is None else (note,))


def map_codes(diagnoses: RowFilter, column: str, code_map: Mapping[str, str]) -> int:
    """Replace codes of another vocabulary; rows whose code the map lacks are dropped and counted.

    Args:
        diagnoses: the rows.
        column: text, as it was written.
        code_map: the new code by the old one, as it is written there.

    Returns:
        how many rows were replaced.
    """
    diagnoses.drop(~pl.col(column).is_in(list(code_map)), Reason.UNMAPPED)
    new = pl.col(column).replace_strict(code_map, return_dtype=pl.String)
    diagnoses.frame = diagnoses.frame.with_columns(new)
    return diagnoses.frame.height
