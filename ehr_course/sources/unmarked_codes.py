"""Which code system the rows of a table are coded in: a column says so, or the codes' shapes do.

Most codes have the shape of one system alone: 428.0, I50.9. Some have the shape of both: V30.4,
and E8859 without its dot. A visit is coded in one system, so its other codes tell which. Where
nothing tells, nothing is guessed.
"""

from __future__ import annotations

import polars as pl

from ehr_course.code_meaning import possible_systems
from ehr_course.code_system import CODE_SYSTEMS, SYSTEM_NAMES, CodeSystem, other_system
from ehr_course.errors import InputError
from ehr_course.sources.code_column import SHAPES
from ehr_course.sources.cohort import Reason
from ehr_course.sources.row_filter import RowFilter
from ehr_course.sources.system_choice import MAPPED_BY_DEFAULT, OPTION_NAMES

_VERSIONS = {"9": False, "ICD9": False, "ICD9CM": False} | {
    "10": True,
    "ICD10": True,
    "ICD10CM": True,
}
"""How a column says the version, without spaces, dots, hyphens and underscores."""


def mark_systems(
    rows: RowFilter, *, system: CodeSystem | None, map_to: CodeSystem | None
) -> tuple[str, ...]:
    """Add the column "icd10": whether a row is coded in ICD-10-CM.

    Args:
        rows: with "patient", "visit" and "code" as text, and perhaps "version". Of a table with
            visits of both systems and no such column, visits whose codes could all be of either
            are dropped and counted. Of a diagnosis in both, as "427.31, I48.91", one code is kept.
        system: what to believe where every code could be of either.
        map_to: as in cohort_of_rows. Where it or system is given, a visit may hold both systems.

    Returns:
        what the report is to say: how the system was told, where it is not ICD-9-CM alone.

    Raises:
        InputError: if a version is none, or a code contradicts the others of its visit, and such
            rows are not to be dropped; or if every code could be of either system and none is
            given.
    """
    if "version" in rows.frame.columns:
        written = rows.frame["version"].fill_null("")
        if (written != "").any():
            _by_version(rows)
            return ()
        rows.frame = rows.frame.drop("version")
    kept = _keep_one_of_each_pair(rows, system or map_to or MAPPED_BY_DEFAULT)
    return (*kept, *_by_shape(rows, system, may_mix=bool(system or map_to)))


def _by_version(rows: RowFilter) -> None:
    bare = pl.col("version").fill_null("").str.to_uppercase().str.replace_all(r"[\s._-]", "")
    rows.refuse(
        ~bare.is_in(list(_VERSIONS)),
        Reason.BAD_VERSION,
        column="version",
        problem="is no ICD version",
        remedy="Write 9 or 10.",
    )
    rows.frame = rows.frame.with_columns(
        icd10=bare.replace_strict(_VERSIONS, default=None, return_dtype=pl.Boolean)
    ).drop("version")


def _keep_one_of_each_pair(rows: RowFilter, system: CodeSystem) -> tuple[str, ...]:
    """Of a diagnosis that is written in both systems, as eICU does, keep the code of one."""
    pairs = rows.frame["code"].filter(rows.frame["code"].str.contains(","))
    kept = {pair: _code_of_pair(pair, system) for pair in pairs.unique()}
    rows.frame = rows.frame.with_columns(pl.col("code").replace(kept))
    count = sum(kept[pair] != pair for pair in pairs)
    if not count:
        return ()
    return (f"codes written in both systems, of which {SYSTEM_NAMES[system]} is kept: {count:,}",)


def _code_of_pair(pair: str, system: CodeSystem) -> str:
    """The code of a system out of "427.31, I48.91"; text that is not such a pair stays."""
    codes = [text.strip() for text in pair.split(",")]
    other = other_system(system)
    for mine, theirs in (codes, codes[::-1]) if len(codes) == 2 else ():
        if system in possible_systems(mine) and possible_systems(theirs) == (other,):
            return mine
        if possible_systems(mine) == (system,) and other in possible_systems(theirs):
            return mine
    return pair


def _by_shape(rows: RowFilter, system: CodeSystem | None, *, may_mix: bool) -> tuple[str, ...]:
    texts = rows.frame["code"].unique().sort()
    possible = [possible_systems(text) for text in texts]
    # Codes that could be of either say nothing, and neither do those that are none.
    tells = [None if len(systems) != 1 else systems[0] == "ICD10CM" for systems in possible]
    rows.frame = rows.frame.with_columns(
        tells=pl.col("code").replace_strict(
            texts, pl.Series(tells, dtype=pl.Boolean), default=None
        )
    )
    n_10, n_9 = rows.frame.select(n_10=pl.col("tells").sum(), n_9=(~pl.col("tells")).sum()).row(0)
    if n_9 and n_10:
        codes = [text for text, systems in zip(texts, possible, strict=True) if systems]
        return _by_visit(rows, codes, n_10 > n_9, may_mix=may_mix)
    if not n_9 and not n_10 and any(possible):
        if system is None:
            either = next(text for text, systems in zip(texts, possible, strict=True) if systems)
            raise InputError(
                rows.file,
                f"column {rows.spelled('code')!r}",
                f"every code in it could be of {SYSTEM_NAMES['ICD9CM']} and of "
                f"{SYSTEM_NAMES['ICD10CM']}, as {either!r}, and mean something else in each",
                f"Say which: --codes {OPTION_NAMES['ICD9CM']} or {OPTION_NAMES['ICD10CM']}, or "
                "system='ICD9CM' or 'ICD10CM'. Or add a column icd_version with 9 or 10.",
            )
        is_10 = system == "ICD10CM"
    else:
        is_10 = n_10 > 0
    rows.frame = rows.frame.drop("tells").with_columns(icd10=pl.lit(is_10))
    return ("the code system was told by the shapes of the codes",) if is_10 and n_10 else ()


def _by_visit(
    rows: RowFilter, codes: list[str], most_are_10: bool, *, may_mix: bool
) -> tuple[str, ...]:
    """Take what most telling codes of a visit say, and where they are even, most of the table."""
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
        rows.frame = rows.frame.drop("share", "tells")
        return ("the code system was told by the shapes of the codes, or by others of the visit",)
    for mine in CODE_SYSTEMS:
        other, option = other_system(mine), OPTION_NAMES[mine]
        rows.refuse(
            contradicts & (pl.col("icd10") == (mine == "ICD10CM")),
            Reason.BAD_CODE,
            column="code",
            problem=f"looks like {SHAPES[other]}, in a visit of {SHAPES[mine]} codes",
            remedy=f"Pass --codes {option} to leave such codes out, or --map {option} to "
            f"translate them; in Python system={mine!r} or map_to={mine!r}.",
        )
    rows.frame = rows.frame.drop("share", "tells")
    visits = rows.frame.group_by("patient", "visit").agg(pl.col("icd10").first())["icd10"]
    n_10 = int(visits.sum())
    n_9 = len(visits) - n_10
    return (
        "the code system of each visit was told by the shapes of its codes: "
        f"{SYSTEM_NAMES['ICD9CM']} of {n_9:,}, {SYSTEM_NAMES['ICD10CM']} of {n_10:,}",
    )
