"""What of a cell's output is the lesson's, and what is the machine's.

The build writes the lesson's part only; nbval compares the lesson's part only. Both use `steady`.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

ADDRESS = "0x..."
TEMPORARY = "TEMP"

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")
_TEMPORARY_ROOTS = sorted(
    {"/tmp", "/var/tmp", tempfile.gettempdir(), str(Path(tempfile.gettempdir()).resolve())},
    key=len,
    reverse=True,
)
_TEMPORARY = re.compile(
    r"(?<![\w./])(?:" + "|".join(map(re.escape, _TEMPORARY_ROOTS)) + r")[/\\][^/\\\s'\"<>:,;)\]]+"
)
_SECONDS = re.compile(r"\b\d+(?:\.\d+)? ?(?:s|ms|seconds?|milliseconds?)\b")

_DECIMAL = re.compile(r"(?<![\w.])[-+]?\d+(?:\.\d+(?:e[-+]?\d+)?|e[-+]?\d+)(?!\.?\d)")
_DOTTED_CODE = re.compile(r"\d{3}\.\d{1,2}")

RELATIVE_TOLERANCE = 0.02
ABSOLUTE_TOLERANCE = 0.002


def steady(text: str) -> str:
    """Replace what differs from run to run: memory addresses and names of temporary folders.

    >>> steady("<Figure at 0x7f3a5c0d1e20> in /tmp/tmpx8_k2/hospital/PATIENTS.csv")
    '<Figure at 0x...> in TEMP/hospital/PATIENTS.csv'
    """
    return _ADDRESS.sub(ADDRESS, _TEMPORARY.sub(TEMPORARY, text))


def first_difference(stored: str, now: str) -> tuple[str, str] | None:
    """Compare a stored output with a new one; return the first pair of lines that disagree.

    Decimals may differ by 2% + 0.002, because the last digits depend on the processor. A number of
    the shape of an ICD-9-CM code (428.0) is compared exactly, and so is every whole number.
    Measured times and the width of spaces do not count.

    >>> first_difference("loss 1.234\\ncodes 17", "loss 1.236\\ncodes 17")
    >>> first_difference("loss 1.234\\ncodes 17", "loss 1.234\\ncodes 18")
    ('codes 17', 'codes 18')
    >>> first_difference("428.0", "428.1")
    ('428.0', '428.1')
    """
    stored_lines, now_lines = _comparable_lines(stored), _comparable_lines(now)
    for ours, theirs in zip(stored_lines, now_lines, strict=False):
        if not _lines_agree(ours, theirs):
            return ours, theirs
    shorter = min(len(stored_lines), len(now_lines))
    if len(stored_lines) > shorter:
        return stored_lines[shorter], "(nothing)"
    if len(now_lines) > shorter:
        return "(nothing)", now_lines[shorter]
    return None


def _comparable_lines(text: str) -> list[str]:
    text = _SECONDS.sub("(seconds)", steady(text))
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def _lines_agree(stored: str, now: str) -> bool:
    if stored == now:
        return True
    stored_numbers, now_numbers = _DECIMAL.findall(stored), _DECIMAL.findall(now)
    if _DECIMAL.sub("#", stored) != _DECIMAL.sub("#", now):
        return False
    return all(map(_numbers_agree, stored_numbers, now_numbers))


def _numbers_agree(stored: str, now: str) -> bool:
    if _DOTTED_CODE.fullmatch(stored) or _DOTTED_CODE.fullmatch(now):
        return stored == now
    allowed = ABSOLUTE_TOLERANCE + RELATIVE_TOLERANCE * abs(float(stored))
    return abs(float(stored) - float(now)) <= allowed
