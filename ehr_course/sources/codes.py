"""The codes of a table: which system they are in, and what they become in the records.

Tables from before and after October 2015 hold ICD-9-CM and ICD-10-CM. Where no column says which,
the shapes of a visit's codes do; some (V30.4, E8859) fit both, and then nothing is guessed. Each
different code is looked at once: a full MIMIC-III has 651,047 rows and 7,000 spellings.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from ehr_course.code_system import CODE_SYSTEMS, SYSTEM_NAMES, CodeSystem, other_system
from ehr_course.errors import InputError
from ehr_course.icd import Translation, code_meaning, icd9, possible_systems, translate
from ehr_course.sources.cohort import (
    OPTION_NAMES,
    Equivalence,
    LoadOptions,
    Reason,
    Translated,
)
from ehr_course.sources.row_filter import RowFilter

# ------------------------------------------------------------------ which systems are read

MAPPED_BY_DEFAULT: CodeSystem = "ICD9CM"
"""The system into which diagnoses of both are translated by default.

``benchmarks/code_systems.py`` compares it with the alternatives.
"""

SHAPES: dict[CodeSystem, str] = {"ICD9CM": "ICD-9", "ICD10CM": "ICD-10"}
"""What an error calls the codes of a system."""

_VERSIONS = dict.fromkeys(("9", "ICD9", "ICD9CM"), False) | dict.fromkeys(
    ("10", "ICD10", "ICD10CM"), True
)
"""How a column says the version, without spaces, dots, hyphens and underscores."""


def is_coded_in(system: CodeSystem) -> pl.Expr:
    """Whether a row is coded in a system, by its column "icd10"; null where it holds no code."""
    return pl.col("icd10") if system == "ICD10CM" else ~pl.col("icd10")


class Choice(NamedTuple):
    """What is done with the diagnoses of each system.

    Attributes:
        taken: the systems whose diagnoses are read; the others are dropped and counted.
        system: the system of all codes in the records.
        notes: lines for the report.
    """

    taken: tuple[CodeSystem, ...]
    system: CodeSystem
    notes: tuple[str, ...] = ()


def choose_systems(file: str, counts: Mapping[CodeSystem, int], options: LoadOptions) -> Choice:
    """Decide which diagnoses are read, and what they become.

    By default diagnoses of both systems are all translated into MAPPED_BY_DEFAULT.

    Args:
        file: the table, for the error.
        counts: how many codes each system has.
        options: only system and map_to are used.
    """
    there = [name for name, count in counts.items() if count]
    system, taken = options.system, CODE_SYSTEMS
    notes: tuple[str, ...] = ()
    if system is not None:
        taken = (system,)
        if there and system not in there:
            other = other_system(system)
            are, them = ("is", "it") if counts[other] == 1 else ("are", "them")
            raise InputError(
                file,
                "",
                f"no diagnosis in it is coded in {SYSTEM_NAMES[system]}; {counts[other]:,} {are} "
                f"coded in {SYSTEM_NAMES[other]}",
                f"Take {them} (--codes {OPTION_NAMES[other]}, or system={other!r}), or translate "
                f"(--map {OPTION_NAMES[system]} alone, or map_to={system!r}).",
            )
    becomes = options.map_to or system
    if becomes is None and len(there) == 2:
        becomes = MAPPED_BY_DEFAULT
        other = other_system(becomes)
        notes = (
            f"diagnoses are coded in both systems, {counts[becomes]:,} in {SYSTEM_NAMES[becomes]} "
            f"and {counts[other]:,} in {SYSTEM_NAMES[other]}; without --codes or --map, those in "
            f"{SYSTEM_NAMES[other]} are translated",
        )
    elif becomes is None:
        becomes = there[0] if there else "ICD9CM"
    if becomes != "ICD9CM":
        notes += (f"codes are {SYSTEM_NAMES[becomes]}",)
    return Choice(taken, becomes, notes)


def count_codes(rows: pl.DataFrame) -> dict[CodeSystem, int]:
    """Count the rows of each system that hold a code."""
    counts: dict[CodeSystem, int] = dict.fromkeys(CODE_SYSTEMS, 0)
    for text, icd10, n in rows.group_by("code", "icd10").len().iter_rows():
        if icd10 is not None:
            system = CODE_SYSTEMS[icd10]
            counts[system] += n * code_meaning(system).is_code(text)
    return counts


def take_systems(rows: RowFilter, options: LoadOptions) -> Choice:
    """Choose the systems that are read, and drop the rows of the other."""
    choice = choose_systems(rows.file, count_codes(rows.frame), options)
    for system in CODE_SYSTEMS:
        if system not in choice.taken:
            rows.drop(is_coded_in(system), Reason.OTHER_VERSION)
    return choice


# ------------------------------------------------------------------ the system of each row


def mark_systems(rows: RowFilter, options: LoadOptions) -> tuple[str, ...]:
    """Add "icd10", whether a row is coded in ICD-10-CM, and return notes on how it was told.

    Args:
        rows: with "patient", "visit" and "code" as text, and perhaps "version". If a table has
            visits of both systems and no such column, visits whose codes could all be of either
            are dropped and counted. Of a pair such as "427.31, I48.91", one code is kept.
        options: system is believed where every code could be of either. If it or map_to is given,
            a visit may hold both systems.
    """
    if "version" in rows.frame.columns:
        version = pl.col("version").fill_null("")
        if rows.frame.select((version != "").any()).item():
            bare = version.str.to_uppercase().str.replace_all(r"[\s._-]", "")
            rows.refuse(~bare.is_in(list(_VERSIONS)), Reason.BAD_VERSION, "version")
            icd10 = bare.replace_strict(_VERSIONS, default=None, return_dtype=pl.Boolean)
            rows.frame = rows.frame.with_columns(icd10=icd10).drop("version")
            return ()
        rows.frame = rows.frame.drop("version")
    notes = _keep_one_of_each_pair(rows, options.system or options.map_to or MAPPED_BY_DEFAULT)
    return notes + _told_by_shapes(rows, options)


def _keep_one_of_each_pair(rows: RowFilter, system: CodeSystem) -> tuple[str, ...]:
    """Keep one code of each diagnosis that is written in both systems, as in eICU."""
    pairs = rows.frame["code"].filter(rows.frame["code"].str.contains(","))
    kept = {pair: _code_of_pair(pair, system) for pair in pairs.unique()}
    rows.add(code=pl.col("code").replace(kept))
    count = sum(kept[pair] != pair for pair in pairs)
    if not count:
        return ()
    return (f"codes written in both systems, of which {SYSTEM_NAMES[system]} is kept: {count:,}",)


def _code_of_pair(pair: str, system: CodeSystem) -> str:
    """The code of a system out of "427.31, I48.91"; other text stays as it is."""
    codes = [text.strip() for text in pair.split(",")]
    other = other_system(system)
    for mine, theirs in (codes, codes[::-1]) if len(codes) == 2 else ():
        if system in possible_systems(mine) and possible_systems(theirs) == (other,):
            return mine
        if possible_systems(mine) == (system,) and other in possible_systems(theirs):
            return mine
    return pair


def _told_by_shapes(rows: RowFilter, options: LoadOptions) -> tuple[str, ...]:
    possible = {text: possible_systems(text) for text in rows.frame["code"].unique().sort()}
    codes = [text for text, systems in possible.items() if systems]
    # Neither codes that could be of either nor other text say anything.
    tells = {
        text: systems == ("ICD10CM",) for text, systems in possible.items() if len(systems) == 1
    }
    told = pl.col("code").replace_strict(tells, default=None, return_dtype=pl.Boolean)
    rows.add(tells=told)
    n_10, n_9 = rows.frame.select(n_10=pl.col("tells").sum(), n_9=(~pl.col("tells")).sum()).row(0)
    if n_9 and n_10:
        notes = _told_by_visits(
            rows, codes, n_10 > n_9, may_mix=bool(options.system or options.map_to)
        )
        rows.frame = rows.frame.drop("share", "tells")
        return notes
    is_10 = n_10 > 0
    if not tells and codes:
        if options.system is None:
            raise InputError(
                rows.file,
                f"column {rows.spelled('code')!r}",
                f"every code in it could be of {SYSTEM_NAMES['ICD9CM']} and of "
                f"{SYSTEM_NAMES['ICD10CM']}, as {codes[0]!r}, and mean something else in each",
                f"Say which: --codes {OPTION_NAMES['ICD9CM']} or {OPTION_NAMES['ICD10CM']}, or "
                "system='ICD9CM' or 'ICD10CM'. Or add a column icd_version with 9 or 10.",
            )
        is_10 = options.system == "ICD10CM"
    rows.frame = rows.frame.drop("tells").with_columns(icd10=pl.lit(is_10))
    return ("the code system was told by the shapes of the codes",) if n_10 else ()


def _told_by_visits(
    rows: RowFilter, codes: list[str], most_are_10: bool, *, may_mix: bool
) -> tuple[str, ...]:
    """Follow the majority of a visit's telling codes, or if tied, that of the table."""
    rows.add(share=pl.col("tells").mean().over("patient", "visit"))
    untold = pl.col("share").is_null()
    rows.refuse(untold & ~pl.col("code").is_in(codes), Reason.BAD_CODE, "code")
    rows.drop(untold, Reason.AMBIGUOUS)
    even = pl.lit(most_are_10) & (pl.col("share") == 0.5)
    rows.add(icd10=(pl.col("share") > 0.5) | even)
    contradicts = pl.col("tells") != pl.col("icd10")
    if may_mix and rows.frame.select(contradicts.any()).item():
        rows.add(icd10=pl.coalesce("tells", "icd10"))
        return ("the code system was told by the shapes of the codes, or by others of the visit",)
    for mine in CODE_SYSTEMS:
        option = OPTION_NAMES[mine]
        rows.refuse(
            contradicts & is_coded_in(mine),
            Reason.BAD_CODE,
            "code",
            f"looks like {SHAPES[other_system(mine)]}, in a visit of {SHAPES[mine]} codes",
            f"Pass --codes {option} to leave such codes out, or --map {option} to "
            f"translate them; in Python system={mine!r} or map_to={mine!r}.",
        )
    visits = rows.frame.unique(["patient", "visit"])
    n_10 = visits["icd10"].sum()
    return (
        "the code system of each visit was told by the shapes of its codes: "
        f"{SYSTEM_NAMES['ICD9CM']} of {visits.height - n_10:,}, {SYSTEM_NAMES['ICD10CM']} of "
        f"{n_10:,}",
    )


# ------------------------------------------------------------------ what codes become


class Equivalent(NamedTuple):
    """What a code is recorded as in the other system, and how well they agree."""

    codes: tuple[str, ...]
    how: Equivalence | None  # None if the code is of that system already


def equivalent(code: str, *, source: CodeSystem) -> Equivalent:
    """Choose what an undotted code of the source system is recorded as in the other one.

    The result depends on the code alone, so that a code becomes the same in every table and run.

    >>> equivalent("R6521", source="ICD10CM").codes
    ('78552', '99592')
    >>> equivalent("A0472", source="ICD10CM")
    Equivalent(codes=('00845',), how=<Equivalence.PARENT: 'through a shorter code'>)
    """
    found = translate(code, source=source)
    # A code newer than the mappings is mostly a division of one that they list.
    if found.kind == "absent" and not found.listed and source == "ICD10CM":
        for length in range(len(code) - 1, 2, -1):
            shorter = translate(code[:length], source=source)
            if shorter.listed:
                return Equivalent(
                    _chosen(shorter),
                    Equivalence.PARENT if shorter.alternatives else Equivalence.ABSENT,
                )
    return Equivalent(_chosen(found), Equivalence(found.kind))


def _chosen(found: Translation) -> tuple[str, ...]:
    """Choose the alternative with the lowest rank; of equal ones, the first."""
    if len(found.alternatives) < 2:
        return next(iter(found.alternatives), ())
    category = code_meaning(found.target).category
    # The first alternative is an exact one if there is any.
    first = {category(code) for code in found.alternatives[0]}

    def rank(alternative: tuple[str, ...]) -> tuple:
        back = [translate(code, source=found.target) for code in alternative]
        leads_back = all(found.code in each.codes for each in back)
        # "Unspecified" in the titles marks the alternative that claims least.
        return (
            not leads_back,
            len(alternative),
            not first.issuperset(map(category, alternative)),
            -sum(_n_unspecified(code, found.target) for code in alternative),
            max(_AGREEMENT[each.kind] for each in back) if leads_back else 0,
        )

    return min(found.alternatives, key=rank)


_AGREEMENT = {"exact": 0, "approximate": 1, "one to many": 2}


def _n_unspecified(code: str, system: CodeSystem) -> int:
    try:
        return code_meaning(system).title(code).lower().count("unspecified")
    except InputError:
        # Withdrawn since the mappings were published.
        return 0


# ------------------------------------------------------------------ the codes of a table


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
    rows: RowFilter, choice: Choice, options: LoadOptions, *, remedy: str | None = None
) -> Codes:
    """Turn "code" into the position of each row's code, and add "respelled": was it rewritten?

    Rows whose code does not have the shape of its system are refused, with this remedy; those
    whose code has no equivalent are for the caller to drop.

    Args:
        rows: with "code", the text, and "icd10", which is null where a row holds no code.
        choice: which systems are read, and what they become.
        options: whether malformed rows are dropped, and whether lost zeros stop.
        remedy: what to advise for a code of another shape.
    """
    written: list[tuple[CodeSystem, str]] = []
    spellings: list[tuple[str, bool, int, bool]] = []
    for system in CODE_SYSTEMS:
        meaning = code_meaning(system)
        texts = rows.frame.filter(is_coded_in(system))["code"].unique()
        normal = {text: meaning.normalize(text) for text in texts if meaning.is_code(text)}
        position = {code: len(written) + n for n, code in enumerate(sorted(set(normal.values())))}
        written += [(system, code) for code in position]
        spellings += [
            (text, system == "ICD10CM", position[code], text != code)
            for text, code in normal.items()
        ]
    schema = {"code": pl.String, "icd10": pl.Boolean, "at": pl.UInt32, "respelled": pl.Boolean}
    lexicon = pl.DataFrame(spellings, schema=schema, orient="row")
    rows.frame = rows.frame.join(
        lexicon, on=["code", "icd10"], how="left", maintain_order="left"
    ).with_columns(pl.col("respelled").fill_null(False))
    older = [code for system, code in written if system == "ICD9CM"]
    in_rows = rows.frame["at"].filter(rows.frame["at"] < len(older))
    note = check_leading_zeros(
        rows.file, rows.spelled("code"), older, in_rows, zeros_lost_ok=options.zeros_lost_ok
    )
    for system in CODE_SYSTEMS:
        rows.refuse(
            is_coded_in(system) & pl.col("at").is_null(),
            Reason.BAD_CODE,
            "code",
            f"does not have the shape of an {SHAPES[system]} diagnosis code",
            remedy,
            among=pl.col("icd10").is_not_null(),
        )
    rows.frame = rows.frame.drop("code", "icd10").rename({"at": "code"})
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
