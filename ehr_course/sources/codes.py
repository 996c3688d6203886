"""The codes of a column: normalized, checked for lost zeros, and brought into one code system.

Each different code is looked at once: a full MIMIC-III has 651,047 rows and 7,000 spellings.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from ehr_course.code_system import CODE_SYSTEMS, CodeSystem
from ehr_course.errors import InputError
from ehr_course.icd import code_meaning, icd9
from ehr_course.sources.code_translation import Equivalent, equivalent
from ehr_course.sources.cohort import Equivalence, Reason, Translated
from ehr_course.sources.options import LoadOptions
from ehr_course.sources.row_filter import RowFilter
from ehr_course.sources.system_choice import SHAPES, Choice, is_in

_KEEP_TEXT = "Keep codes as text, with their leading zeros."


@dataclass(frozen=True)
class Codes:
    """The codes of a table, each once, and what becomes of them.

    Attributes:
        codes: what the records hold, all of one system.
        written: the system and code at each position of the table's column "code".
        how: for each position, how well it agrees with its translation; None if unchanged.
        targets: for each position, positions in codes; empty without an equivalent.
        n_absent: the rows of each position without an equivalent.
        system: the system of codes.
        notes: lines for the report.
    """

    codes: list[str]
    written: list[tuple[CodeSystem, str]]
    how: list[Equivalence | None]
    targets: list[list[int]]
    n_absent: Counter[int]
    system: CodeSystem
    notes: tuple[str, ...]

    @property
    def absent(self) -> list[int]:
        """The positions whose codes have no equivalent."""
        return [position for position, targets in enumerate(self.targets) if not targets]


def read_codes(
    rows: RowFilter,
    column: str,
    choice: Choice,
    options: LoadOptions,
    *,
    remedy: str = _KEEP_TEXT,
    among: pl.Expr | None = None,
) -> Codes:
    """Add "code", the position of each row's code, and "respelled": whether it was rewritten.

    Rows whose code does not have the shape of its system are refused; those whose code has no
    equivalent are for the caller to drop.

    Args:
        rows: with "icd10".
        column: the codes as written.
        choice: which systems are read, and what they become.
        options: whether malformed rows are dropped, and whether lost zeros stop.
        remedy: what to advise for a code of another shape.
        among: true for the rows that hold a code; by default all.
    """
    diagnoses = rows.frame if among is None else rows.frame.filter(among)
    written: list[tuple[CodeSystem, str]] = []
    spellings: list[tuple[str, bool, int, bool]] = []
    for system in CODE_SYSTEMS:
        meaning = code_meaning(system)
        texts = diagnoses.filter(is_in(system))[column].unique()
        normal = {text: meaning.normalize(text) for text in texts if meaning.is_code(text)}
        position = {code: len(written) + n for n, code in enumerate(sorted(set(normal.values())))}
        written += [(system, code) for code in position]
        spellings += [
            (text, system == "ICD10CM", position[code], text != code)
            for text, code in normal.items()
        ]
    lexicon = pl.DataFrame(
        spellings,
        schema={
            column: pl.String,
            "icd10": pl.Boolean,
            "position": pl.UInt32,
            "respelled": pl.Boolean,
        },
        orient="row",
    )
    rows.frame = rows.frame.join(
        lexicon, on=[column, "icd10"], how="left", maintain_order="left"
    ).with_columns(pl.col("respelled").fill_null(False))
    if among is not None:
        rows.frame = rows.frame.with_columns(
            position=pl.when(among).then("position"), respelled=among & pl.col("respelled")
        )
    older = [code for system, code in written if system == "ICD9CM"]
    in_rows = rows.frame["position"].filter(rows.frame["position"] < len(older))
    note = check_leading_zeros(
        rows.file, rows.spelled(column), older, in_rows, zeros_lost_ok=options.zeros_lost_ok
    )
    for system in CODE_SYSTEMS:
        its = is_in(system) if among is None else among & is_in(system)
        rows.refuse(
            its & pl.col("position").is_null(),
            Reason.BAD_CODE,
            column=column,
            problem=f"does not have the shape of an {SHAPES[system]} diagnosis code",
            remedy=remedy,
            among=None if among is None else its,
        )
    if among is None:
        rows.frame = rows.frame.drop(column, "icd10")
    rows.frame = rows.frame.rename({"position": "code"})
    becomes = [
        Equivalent((code,), None) if system == choice.system else equivalent(code, source=system)
        for system, code in written
    ]
    codes = sorted({code for each in becomes for code in each.codes})
    place = {code: number for number, code in enumerate(codes)}
    targets = [[place[code] for code in each.codes] for each in becomes]
    absent = [position for position, to in enumerate(targets) if not to]
    return Codes(
        codes,
        written,
        [each.how for each in becomes],
        targets,
        _row_counts(rows.frame["code"], absent),
        choice.system,
        choice.notes if note is None else (*choice.notes, note),
    )


def _row_counts(codes: pl.Series, positions: Sequence[int]) -> Counter[int]:
    """Count the rows of each of these positions."""
    counts = codes.filter(codes.is_in(positions)).value_counts(name="n").sort(codes.name)
    return Counter(dict(counts.iter_rows()))


def drop_absent(rows: RowFilter, codes: Codes) -> None:
    """Drop the rows whose code has no equivalent."""
    rows.drop(pl.col("code").is_in(codes.absent), Reason.NO_EQUIVALENT)


def drop_repeated_codes(rows: RowFilter, codes: Codes, *, same_row: str) -> None:
    """Keep each code of a visit once; rows that also agree in same_row are repeated rows.

    Rows are sorted by visit, then by importance: the most important is kept.
    """
    repeats = rows.frame.filter(_stand_twice(rows.frame, len(codes.written)))
    for columns, reason in (
        (("visit", same_row, "code"), Reason.SAME_ROW),
        (("visit", "code"), Reason.SAME_CODE),
    ):
        again = ~pl.struct(*columns).is_first_distinct()
        rows.drop(pl.col("line").is_in(repeats.filter(again)["line"].implode()), reason)
        repeats = repeats.filter(~again)


def _stand_twice(frame: pl.DataFrame, n_codes: int) -> pl.Series:
    """Whether a row's visit has its code more than once; a null code is no code."""
    # Sorting numbers finds the few repeated codes in less memory than comparing rows.
    pair = pl.col("visit").cast(pl.Int64) * n_codes + pl.col("code")
    pairs = frame.select(pair=pair)["pair"]
    ordered = pairs.sort()
    twice = ordered.filter(ordered == ordered.shift(1)).unique()
    return pairs.is_in(twice.implode()).fill_null(False)


def translate_rows(rows: RowFilter, codes: Codes) -> tuple[pl.DataFrame, Translated | None]:
    """Return each row's translated codes, as "visit" and a position in codes.codes.

    Of two codes of a visit that become the same, the first is kept; a row left without a code is
    dropped and counted. The account is None if all codes are of the system already.
    """
    frame = rows.frame.filter(pl.col("code").is_not_null())
    account = _account(frame["code"], codes)
    if all(len(targets) == 1 for targets in codes.targets):
        becomes = pl.Series([targets[0] for targets in codes.targets], dtype=pl.UInt32)
    else:
        becomes = pl.Series(codes.targets, dtype=pl.List(pl.UInt32))
    new = frame.select("line", "visit", code=becomes.gather(frame["code"]))
    if becomes.dtype == pl.List:
        new = new.explode("code")
    if account is not None:
        again = _stand_twice(new, len(codes.codes))
        repeats = new.filter(again)
        first = repeats.select(pl.struct("visit", "code").is_first_distinct()).to_series()
        new = new.filter((~again).scatter(again.arg_true(), first))
        lost = repeats["line"].filter(~first).unique()
        lost = lost.filter(~lost.is_in(new["line"].implode()))
        is_lost = pl.col("line").is_in(lost.implode()) & pl.col("code").is_not_null()
        rows.drop(is_lost, Reason.SAME_TRANSLATED)
    return new.select("visit", "code"), account


def _account(in_rows: pl.Series, codes: Codes) -> Translated | None:
    foreign = [position for position, how in enumerate(codes.how) if how is not None]
    counts = _row_counts(in_rows, foreign) + codes.n_absent
    if not counts:
        return None
    source, _ = codes.written[foreign[0]]
    of_kind: dict[Equivalence, tuple[int, int]] = {}
    for how in Equivalence:
        rows = [count for position, count in counts.items() if codes.how[position] == how]
        if rows:
            of_kind[how] = (sum(rows), len(rows))
    dotted = code_meaning(source).dotted
    without = {dotted(codes.written[n][1]): count for n, count in codes.n_absent.most_common()}
    return Translated(source, codes.system, of_kind, without)


# ------------------------------------------------------------------ lost leading zeros

# 038.9 is septicemia and 389 hearing loss: ICD-9-CM codes that a spreadsheet turned into numbers
# load as other diseases, and their shape does not give them away. What shows is that no code of a
# large table begins with 0, and that many are headings, which nobody codes.

_FALSE_ALARMS = 0.001

SHARE_OF_ROWS = 0.01
"""Of rows with a numeric code, the share that begins with 0 where such codes are rare.

In a whole hospital it is 0.02 to 0.05 (0.045 in MIMIC-III's demo). Half of the lower bound is
taken, because the rows of a patient resemble each other.
"""

SHARE_OF_CODES = 0.04
"""The same share of different codes: 0.055 in MIMIC-III's demo."""


def _enough(share: float) -> int:
    """How many draws miss such a share of cases with a probability below _FALSE_ALARMS."""
    return math.ceil(math.log(_FALSE_ALARMS) / math.log(1 - share))


MANY_ROWS, MANY_CODES = _enough(SHARE_OF_ROWS), _enough(SHARE_OF_CODES)
"""A table with this many rows and different codes should have one that begins with 0; a table of
the 50 most frequent codes need not.
"""

SOME_ROWS, SOME_HEADINGS = 100, 3
"""Fewer rows are enough where this many codes are headings, such as 389, that zeros in front would
complete, as in 038.9.
"""


def check_leading_zeros(
    file: str,
    column: str,
    codes: Sequence[str],
    rows: pl.Series,
    *,
    zeros_lost_ok: bool = False,
) -> str | None:
    """Refuse ICD-9-CM codes that seem to have lost their leading zeros, or return a note.

    Args:
        file, column: where the codes stand, for the error.
        codes: each normalized code of the table once.
        rows: the position in codes of each row's code; null where it is not a code.
        zeros_lost_ok: return a note for the report instead of raising.
    """
    numeric = [number for number, code in enumerate(codes) if code[0].isdigit()]
    n_rows = int(rows.is_in(numeric).sum())
    if n_rows < SOME_ROWS or any(codes[number][0] == "0" for number in numeric):
        return None
    headings = _lost_by_headings([codes[number] for number in numeric])
    if not headings and (n_rows < MANY_ROWS or len(numeric) < MANY_CODES):
        return None
    finding = f"none of its {n_rows:,} codes that are numbers begins with 0"
    if headings:
        shown = ", ".join(f"{lost} for {code}" for lost, code in list(headings.items())[:3])
        finding += (
            f", and {len(headings):,} different ones are not complete codes but would be with "
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
    """Find the complete codes that some headings stand for, or nothing where that is no sign."""
    # If more than a quarter of all codes are headings, the table holds categories or another
    # vocabulary. In MIMIC-III's demo 4 in 100 are, because ICD-9-CM divided some codes later.
    incomplete = [code for code in codes if not icd9.is_complete(code)]
    found = {}
    for code in incomplete:
        longer = [zeros + code for zeros in ("0", "00") if len(zeros + code) <= 5]
        complete = [whole for whole in longer if icd9.is_complete(whole)]
        if complete:
            found[code] = icd9.dotted(complete[0])
    return found if len(found) >= SOME_HEADINGS and 4 * len(incomplete) <= len(codes) else {}
