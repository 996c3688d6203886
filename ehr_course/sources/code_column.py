"""Codes as people write them, made into the codes of records: a column of text, looked at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from ehr_course import icd9
from ehr_course.sources.cohort import Reason
from ehr_course.sources.leading_zeros import check_leading_zeros
from ehr_course.sources.row_filter import RowFilter

# ICD-10-CM as far as its shape goes: letter, digit, then up to five letters or digits.
_ICD10_SHAPE = re.compile(r"[A-Z][0-9][0-9A-Z]{1,5}")


class CodeList(NamedTuple):
    """The codes of a column.

    Attributes:
        codes: each once, normalized.
        notes: what the report is to say of them.
    """

    codes: list[str]
    notes: tuple[str, ...]


def normalise_codes(
    diagnoses: RowFilter,
    column: str,
    *,
    version: int,
    remedy: str = "Keep codes as text, with their leading zeros.",
    zeros_lost_ok: bool = False,
) -> CodeList:
    """Replace the codes by their positions in the list that is returned, each code once.

    Args:
        diagnoses: the rows; the column is replaced by "code", the position, and "respelled",
            whether it was written in another way. Rows with no code of this version are refused.
        column: text, as it was written.
        version: of ICD: 9, or 10, of which the shape alone is looked at.
        remedy: what to say of a code that has another shape.
        zeros_lost_ok: whether to go on where ICD-9 codes seem to have lost their leading zeros.

    Raises:
        InputError: if a code is malformed and such rows are not to be dropped, or if leading
            zeros seem to be lost.
    """
    # A full MIMIC-III has 651,047 rows and fewer than 7,000 spellings: each is looked at once.
    spellings = diagnoses.frame[column].unique().sort()
    normal = [_normalised(text, version) for text in spellings]
    codes = sorted({code for code in normal if code is not None})
    position = {code: number for number, code in enumerate(codes)}
    positions = pl.Series([position.get(code) for code in normal], dtype=pl.UInt32)
    respelled = [text for text, code in zip(spellings, normal, strict=True) if text != code]
    diagnoses.frame = diagnoses.frame.with_columns(
        pl.col(column).replace_strict(spellings, positions).cast(pl.UInt32).alias("position"),
        pl.col(column).is_in(respelled).alias("respelled"),
    )
    note = None
    if version == 9:
        note = check_leading_zeros(
            diagnoses.file,
            diagnoses.spelled(column),
            codes,
            diagnoses.frame["position"],
            zeros_lost_ok=zeros_lost_ok,
        )
    diagnoses.refuse(
        pl.col("position").is_null(),
        Reason.BAD_CODE,
        column=column,
        problem=f"does not have the shape of an ICD-{version} diagnosis code",
        remedy=remedy,
    )
    diagnoses.frame = diagnoses.frame.drop(column).rename({"position": "code"})
    return CodeList(codes, () if note is None else (note,))


def _normalised(text: str, version: int) -> str | None:
    if version == 9:
        return icd9.normalize(text) if icd9.is_code(text) else None
    code = text.strip().replace(".", "").upper()
    return code if _ICD10_SHAPE.fullmatch(code) else None


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
