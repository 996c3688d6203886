"""Which code system diagnoses are coded in, which are read, and which system records end up in.

Tables from before and after October 2015 hold ICD-9-CM and ICD-10-CM. Where no column says which,
the shapes of a visit's codes do; some (V30.4, E8859) fit both, and then nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from ehr_course.code_system import CODE_SYSTEMS, SYSTEM_NAMES, CodeSystem, other_system
from ehr_course.errors import InputError
from ehr_course.icd import code_meaning, possible_systems
from ehr_course.sources.cohort import Reason
from ehr_course.sources.options import OPTION_NAMES, LoadOptions
from ehr_course.sources.row_filter import RowFilter

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


def is_in(system: CodeSystem) -> pl.Expr:
    """Whether a row is coded in a system, by its column "icd10"."""
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


def count_codes(rows: pl.DataFrame, column: str) -> dict[CodeSystem, int]:
    """Count the rows of each system whose column holds a code."""
    counts: dict[CodeSystem, int] = dict.fromkeys(CODE_SYSTEMS, 0)
    for text, icd10, n in rows.group_by(column, "icd10").len().iter_rows():
        system = CODE_SYSTEMS[icd10]
        counts[system] += n * code_meaning(system).is_code(text)
    return counts


def take_systems(rows: RowFilter, column: str, options: LoadOptions) -> Choice:
    """Choose the systems that are read, and drop the rows of the other."""
    choice = choose_systems(rows.file, count_codes(rows.frame, column), options)
    for system in CODE_SYSTEMS:
        if system not in choice.taken:
            rows.drop(is_in(system), Reason.OTHER_VERSION)
    return choice


def refuse_versions(rows: RowFilter, known: pl.Expr) -> None:
    """Refuse rows whose column "version" holds an unknown version."""
    rows.refuse(
        ~known,
        Reason.BAD_VERSION,
        column="version",
        problem="is no ICD version",
        remedy="Write 9 or 10.",
    )


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
            refuse_versions(rows, bare.is_in(list(_VERSIONS)))
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
    rows.frame = rows.frame.with_columns(pl.col("code").replace(kept))
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
    rows.frame = rows.frame.with_columns(tells=told)
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
    of_visit = pl.col("tells").mean().over("patient", "visit")
    rows.frame = rows.frame.with_columns(share=of_visit)
    rows.refuse(
        pl.col("share").is_null() & ~pl.col("code").is_in(codes),
        Reason.BAD_CODE,
        column="code",
        problem="does not have the shape of an ICD diagnosis code",
        remedy="Keep codes as text, with their leading zeros.",
    )
    rows.drop(pl.col("share").is_null(), Reason.AMBIGUOUS)
    even = pl.lit(most_are_10) & (pl.col("share") == 0.5)
    rows.frame = rows.frame.with_columns(icd10=(pl.col("share") > 0.5) | even)
    contradicts = pl.col("tells") != pl.col("icd10")
    if may_mix and rows.frame.select(contradicts.any()).item():
        rows.frame = rows.frame.with_columns(icd10=pl.coalesce("tells", "icd10"))
        return ("the code system was told by the shapes of the codes, or by others of the visit",)
    for mine in CODE_SYSTEMS:
        option = OPTION_NAMES[mine]
        rows.refuse(
            contradicts & is_in(mine),
            Reason.BAD_CODE,
            column="code",
            problem=f"looks like {SHAPES[other_system(mine)]}, in a visit of {SHAPES[mine]} codes",
            remedy=f"Pass --codes {option} to leave such codes out, or --map {option} to "
            f"translate them; in Python system={mine!r} or map_to={mine!r}.",
        )
    visits = rows.frame.unique(["patient", "visit"])
    n_10 = visits["icd10"].sum()
    return (
        "the code system of each visit was told by the shapes of its codes: "
        f"{SYSTEM_NAMES['ICD9CM']} of {visits.height - n_10:,}, {SYSTEM_NAMES['ICD10CM']} of "
        f"{n_10:,}",
    )
