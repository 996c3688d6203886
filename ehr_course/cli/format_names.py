"""The names of the formats of synthetic patients."""

from enum import StrEnum


class Format(StrEnum):
    """In the order in which they are looked for when they are read."""

    MEDS = "meds"
    MIMIC3 = "mimic3"
    PARQUET = "parquet"
