"""Reading parquet files by their exact paths."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from ehr_course.sources.long_lines import check_not_lfs_pointer


def parquet_columns(path: Path) -> dict[str, pl.DataType]:
    """Return the type of each column of a parquet file, by the column's name.

    Args:
        path: of one file. Signs such as ``*`` and ``[`` are letters of its name.

    Raises:
        polars.exceptions.PolarsError, OSError: if it cannot be read.
        InputError: if it is a Git LFS pointer.
    """
    check_not_lfs_pointer(path)
    # By default polars takes a path for a pattern: "shard[1].parquet" is then "shard1.parquet".
    return dict(pl.scan_parquet(path, glob=False).collect_schema())


def read_parquet(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """Read columns of a parquet file; arguments and errors as in parquet_columns."""
    return pl.read_parquet(path, columns=list(columns), glob=False)
