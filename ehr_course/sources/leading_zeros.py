"""ICD-9-CM codes that lost their leading zeros, as in a spreadsheet that takes them for numbers.

038.9 is septicemia and 389 hearing loss, so most such codes load as other diseases, and none of
them can be told from a right one by its shape. What can be seen is that no code of a large table
begins with 0, and that many are headings which nobody codes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import polars as pl

from ehr_course import icd9
from ehr_course.errors import InputError

_FALSE_ALARMS = 0.001

SHARE_OF_ROWS = 0.01
"""Of rows whose code is a number, how many begin with 0 where such codes are rare.

In a whole hospital 2 to 5 in 100 do: 4.5 in MIMIC-III's demo. Half of the lower bound is taken
here, because the rows of a patient resemble each other.
"""

SHARE_OF_CODES = 0.04
"""The same of different codes: 5.5 in 100 in MIMIC-III's demo."""


def _enough(share: float) -> int:
    """How many draws show nothing of such a share with a chance of less than _FALSE_ALARMS.

    >>> _enough(SHARE_OF_ROWS), _enough(SHARE_OF_CODES)
    (688, 170)
    """
    return math.ceil(math.log(_FALSE_ALARMS) / math.log(1 - share))


MANY_ROWS, MANY_CODES = _enough(SHARE_OF_ROWS), _enough(SHARE_OF_CODES)
"""A table of so many rows and so many different codes should have one that begins with 0.

It has none by chance in fewer than 1 of 1,000 cases. A table of few different codes, such as the
50 most frequent, may well have none.
"""

SOME_ROWS, SOME_HEADINGS = 100, 3
"""So many rows suffice where so many different codes are headings, as 389 is.

They count where they would be complete codes with zeros in front, as 038.9 is.
"""

_SHOWN = 3


def check_leading_zeros(
    file: str,
    column: str,
    codes: Sequence[str],
    rows: pl.Series,
    *,
    zeros_lost_ok: bool = False,
) -> str | None:
    """Refuse ICD-9-CM codes that seem to have lost their leading zeros.

    Args:
        file, column: where the codes stand, for the error.
        codes: each normalized code of the table once.
        rows: the position in codes of each row's code; null where it is no code.
        zeros_lost_ok: whether to go on.

    Returns:
        None where the codes are as they should be; else, if zeros_lost_ok, a note for the report.

    Raises:
        InputError: if there are signs of it, and zeros_lost_ok is False.
    """
    numeric = [number for number, code in enumerate(codes) if code[0].isdigit()]
    if any(codes[number][0] == "0" for number in numeric):
        return None
    n_rows = int(rows.is_in(numeric).sum())
    if n_rows < SOME_ROWS:
        return None
    headings = _lost_by_headings([codes[number] for number in numeric])
    if not headings and (n_rows < MANY_ROWS or len(numeric) < MANY_CODES):
        return None
    finding = f"none of its {n_rows:,} codes that are numbers begins with 0"
    if headings:
        shown = ", ".join(f"{lost} for {code}" for lost, code in list(headings.items())[:_SHOWN])
        finding += (
            f", and {len(headings):,} different ones are no complete codes but would be with "
            f"zeros in front ({shown})"
        )
    else:
        finding += ", as 2 to 5 in 100 do elsewhere"
    if zeros_lost_ok:
        return f"leading zeros of codes may be lost: {finding}"
    raise InputError(
        file,
        f"column {column!r}",
        f"it seems that codes have lost their leading zeros, as in a spreadsheet: {finding}. "
        "038.9 is septicemia, and 389 is hearing loss",
        "Export the table again, with codes as text. If no code should begin with 0, go on with "
        "--zeros-lost-ok, or zeros_lost_ok=True.",
    )


def _lost_by_headings(codes: Sequence[str]) -> dict[str, str]:
    """Find the complete codes that some headings stand for, or nothing where that is no sign.

    Args:
        codes: different ones, all numbers, none of which begins with 0.

    Returns:
        a code with its zeros, dotted, for each heading that would be one. It is empty where such
        headings are few, and where more than a quarter of all codes are headings: that is a table
        of categories, or of another vocabulary. In MIMIC-III's demo 4 in 100 are, because ICD-9-CM
        divided some codes later, and none of these would be a code with zeros in front.
    """
    incomplete = [code for code in codes if not icd9.is_complete(code)]
    found = {}
    for code in incomplete:
        longer = [zeros + code for zeros in ("0", "00") if len(zeros + code) <= 5]
        complete = [whole for whole in longer if icd9.is_complete(whole)]
        if complete:
            found[code] = icd9.dotted(complete[0])
    if len(found) < SOME_HEADINGS or 4 * len(incomplete) > len(codes):
        return {}
    return found
