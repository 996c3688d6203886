"""What the tables of MIMIC-III and MIMIC-IV have in common when they are written."""

from __future__ import annotations

import gzip
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ehr_course.errors import InputError
from ehr_course.records import PatientRecord


def check_can_be_written(who: str, records: Sequence[PatientRecord], seed: int) -> None:
    """Check that every record has what the tables need.

    Args:
        who: the function that writes, for the message.
        records: at least one; every visit with its time and number, each number once.
        seed: 0 or more.

    Raises:
        InputError: if any of this does not hold.
    """
    if not records:
        raise InputError(who, "", "there is no patient to write", "Pass some records.")
    if not isinstance(seed, int) or seed < 0:
        raise InputError(
            who,
            "argument seed",
            f"{seed!r} is not a seed",
            "Pass a whole number, 0 or more.",
        )
    subject_ids, hadm_ids = set(), set()
    for record in records:
        patient = f"patient {record.subject_id}"
        if record.subject_id in subject_ids:
            raise InputError("records", patient, "two records have this subject_id", "Keep one.")
        subject_ids.add(record.subject_id)
        for visit in record.visits:
            if visit.admitted is None or visit.hadm_id is None:
                raise InputError(
                    "records",
                    patient,
                    "a visit has no admission time or no hadm_id",
                    "The tables need both.",
                )
            if visit.hadm_id in hadm_ids:
                raise InputError(
                    "records", patient, f"hadm_id {visit.hadm_id} occurs twice", "Number anew."
                )
            hadm_ids.add(visit.hadm_id)


def write_tables(
    tables: Mapping[str, pl.DataFrame],
    folder: str | Path,
    *,
    compress: bool,
    overwrite: bool,
    quote: bool = True,
) -> None:
    """Write tables into a folder, each whole or not at all.

    Args:
        tables: by their names, which become the files' names.
        folder: it is made if it does not exist.
        compress: write .csv.gz instead of .csv.
        overwrite: replace tables of these names that are there already.
        quote: put all text in quotation marks, as MIMIC-III does; else only where it must be.

    Raises:
        InputError: if the folder is a file, or holds such tables already.
    """
    folder = Path(folder)
    suffix = ".csv.gz" if compress else ".csv"
    check_folder(folder, list(tables), overwrite=overwrite)
    files = {name: _csv(table, compress=compress, quote=quote) for name, table in tables.items()}
    folder.mkdir(parents=True, exist_ok=True)
    # Under names of their own first: a reader never finds half a table.
    parts = {name: folder / f".{name}{suffix}.part" for name in files}
    try:
        for name, content in files.items():
            parts[name].write_bytes(content)
        for name, part in parts.items():
            for old in _files(folder, name):
                old.unlink()
            part.replace(folder / f"{name}{suffix}")
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def check_folder(folder: str | Path, names: Sequence[str], *, overwrite: bool) -> None:
    """Refuse a folder before any work: it is a file, or holds such tables already.

    Raises:
        InputError: if so.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(folder, "", "this is a file, not a folder", "Name another folder.")
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


def _csv(table: pl.DataFrame, *, compress: bool, quote: bool) -> bytes:
    """Write dates as MIMIC does, and text in quotation marks if all of it is to have them."""
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
        table.write_csv(buffer, quote_style="never", **how)
    else:
        table.write_csv(buffer, quote_style="necessary", **how)
    # No time stamp inside: the same tables give the same bytes.
    return gzip.compress(buffer.getvalue(), mtime=0) if compress else buffer.getvalue()
