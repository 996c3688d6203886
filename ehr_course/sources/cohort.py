"""What a loader takes and returns: its options, the records, and an account of every row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from html import escape
from typing import Any, Literal, NamedTuple, TypedDict, get_args

from ehr_course.code_system import SYSTEM_NAMES, CodeSystem, checked_system
from ehr_course.errors import InputError
from ehr_course.printable import printable
from ehr_course.records import AnyRecord

Malformed = Literal["raise", "drop"]
"""What to do with a row that holds a malformed value."""

OPTION_NAMES: dict[CodeSystem, str] = {"ICD9CM": "icd9", "ICD10CM": "icd10"}
"""What options of the command line call the systems."""


def system_named(option: str | None) -> CodeSystem | None:
    """Return the system that an option of the command line names, or None for None."""
    return None if option is None else {name: key for key, name in OPTION_NAMES.items()}[option]


class Options(TypedDict, total=False):
    """The options that every loader takes; ``any_cohort.load_cohort`` explains them."""

    malformed: Malformed
    date_format: str | None
    whole_patients: bool
    zeros_lost_ok: bool
    system: CodeSystem | None
    map_to: CodeSystem | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Checked options; a code map is for formats whose codes may be of any vocabulary."""

    malformed: Malformed = "raise"
    date_format: str | None = None
    whole_patients: bool = False
    zeros_lost_ok: bool = False
    system: CodeSystem | None = None
    map_to: CodeSystem | None = None
    code_map: Mapping[str, str] | None = None

    @classmethod
    def of(cls, loader: str, options: Options, **more: Any) -> LoadOptions:
        """Check the keyword arguments of a loader."""
        for name in options.keys() - Options.__annotations__.keys():
            raise TypeError(f"{loader}() got an unexpected keyword argument {name!r}")
        return cls(**options, **more)

    def __post_init__(self) -> None:
        if self.malformed not in get_args(Malformed):
            problem = f"{self.malformed!r} is not a policy"
            raise InputError("malformed", "", problem, 'Use "raise" or "drop".')
        for name in (self.system, self.map_to):
            if name is not None:
                checked_system(name)
        if self.system is not None and self.system == self.map_to:
            option = OPTION_NAMES[self.system]
            raise InputError(
                "options",
                "",
                f"--codes {option} leaves out what --map {option} translates: all that is not "
                f"coded in {SYSTEM_NAMES[self.system]}",
                "Leave one of the two out: --codes or --map, system= or map_to=.",
            )


class Reason(StrEnum):
    """Why a row is in no record, as the report says it; a member equals its text."""

    NO_CODE = "no code"
    SAME_ROW = "repeats an earlier row"
    SAME_CODE = "repeats a code of the same admission"
    OTHER_VERSION = "coded in the other ICD version"
    NO_EQUIVALENT = "no equivalent in the other code system"
    SAME_TRANSLATED = "translated, a code that its admission has already"
    OTHER_VOCABULARY = "a diagnosis in a vocabulary that is not ICD"
    UNKNOWN_ADMISSION = "its admission is unknown"
    ADMISSION_DROPPED = "its admission was dropped"
    UNKNOWN_PATIENT = "its patient is unknown"
    PATIENT_DROPPED = "its patient was dropped"
    NO_DIAGNOSIS = "no diagnosis"
    DIAGNOSES_DROPPED = "all its diagnoses were dropped"
    NO_ADMISSION = "no admission"
    ADMISSIONS_DROPPED = "all admissions were dropped"
    SHORTENED = "some of its admissions were dropped"
    NO_VISIT = "no visit"
    NO_PATIENT = "no patient"
    AMBIGUOUS = "its codes could be of either code system"
    ROWS_DROPPED = "all its rows were dropped"
    UNMAPPED = "a code that the code map does not have"
    BAD_ID = "an id that is not a whole number"
    BAD_SEQ_NUM = "a sequence number that is not a whole number"
    BAD_DATE = "a date that cannot be read"
    BAD_SEX = "a sex other than F or M"
    BAD_AGE = "an age or year that cannot be right"
    NO_AGE = "an age that is missing or not valid"
    BAD_CODE = "a code of the wrong shape"
    BAD_VERSION = "an ICD version other than 9 or 10"
    BEFORE_BIRTH = "admitted before birth"
    ROWS_DIFFER = "rows with the same id that differ"
    WRONG_PATIENT = "its admission belongs to another patient"
    NO_TIME = "a diagnosis without a time"
    NO_BIRTH = "its patient has no birth event"
    NO_SEX = "its patient has no sex event"
    NOT_NEEDED = "an event that is not needed"
    OTHER_SPLIT = "its patient is in another split"
    NO_TEXT = "neither note nor summary"
    NO_NOTE = "no note"
    NO_SUMMARY = "no summary"
    SHORT_NOTE = "a note that is too short"
    SHORT_SUMMARY = "a summary that is too short"


class Change(StrEnum):
    """What a loader rewrote without dropping anything, in the words of the report."""

    AGE_90 = "ages above 89 recorded as 90"
    BIRTH_YEAR = "births read by their year alone, as the month or day cannot be right"
    AGE_ROUNDED = "fractional ages rounded down to completed years"
    CODE_MAPPED = "codes replaced by those of the code map"
    CODE_RESPELLED = "codes respelled (dot, spaces or lower case removed)"


_CODES_SHOWN = 5  # of those without an equivalent


class Equivalence(StrEnum):
    """How well a code agrees with its translation, in the words of the report."""

    EXACT = "exact"
    APPROXIMATE = "approximate"
    ONE_TO_MANY = "one to many"
    PARENT = "through a shorter code"
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class Drop:
    """Rows of one table that were dropped for one reason, with the places of the first few."""

    reason: Reason
    count: int
    examples: tuple[str, ...]


class TableReport(NamedTuple):
    """The account of one table's rows: ``rows_read == rows_used + rows_dropped``."""

    name: str
    rows_read: int
    rows_used: int
    drops: tuple[Drop, ...] = ()

    @property
    def rows_dropped(self) -> int:
        """Rows that are in no record."""
        return sum(drop.count for drop in self.drops)


class Shortened(NamedTuple):
    """Patients who lost some of their admissions, but not all.

    Attributes:
        patients: how many patients, at least 1.
        admissions: how many of their admissions were dropped.
        examples: places of the first few of these, such as "line 17".
        are_left_out: whether such patients were dropped, or kept with their other admissions.
    """

    patients: int
    admissions: int
    examples: tuple[str, ...]
    are_left_out: bool

    def __str__(self) -> str:
        what = "kept without some of their admissions"
        if self.are_left_out:
            what = "left out because some of their admissions were dropped"
        s = "s" * (self.admissions > 1)
        where = _listed(self.examples, self.admissions)
        return f"patients {what}: {self.patients:,} ({self.admissions:,} admission{s}: {where})"


def _listed(examples: tuple[str, ...], count: int) -> str:
    return ", ".join(map(printable, examples)) + ", ..." * (count > len(examples))


class Translated(NamedTuple):
    """Diagnoses that were translated from one code system into the other.

    Attributes:
        source, target: the two systems.
        counts: rows and different codes, by how well they agree with their translation; ABSENT
            ones were dropped.
        absent: rows of each code without an equivalent, dotted, the most frequent first.
    """

    source: CodeSystem
    target: CodeSystem
    counts: dict[Equivalence, tuple[int, int]]
    absent: dict[str, int]

    @property
    def rows(self) -> int:
        """How many rows were in the source system."""
        return sum(rows for rows, _ in self.counts.values())

    @property
    def codes(self) -> int:
        """How many different codes these rows had."""
        return sum(codes for _, codes in self.counts.values())

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines of the report."""
        source, target = SYSTEM_NAMES[self.source], SYSTEM_NAMES[self.target]
        each = ", ".join(
            f"{how.value} {rows:,} of {codes:,}" for how, (rows, codes) in self.counts.items()
        )
        line = (
            f"translated from {source} to {target}: {self.rows:,} row{'s' * (self.rows > 1)} of "
            f"{self.codes:,} code{'s' * (self.codes > 1)} ({each})"
        )
        if not self.absent:
            return (line,)
        shown = [f"{code} {rows:,}" for code, rows in self.absent.items()]
        others = list(self.absent.values())[_CODES_SHOWN:]
        if others:
            s = "s" * (len(others) > 1)
            shown[_CODES_SHOWN:] = [f"{len(others):,} other{s} {sum(others):,}"]
        return line, f"without an equivalent in {target}: {', '.join(shown)}"

    def as_json(self) -> dict[str, object]:
        """The counts in a form that JSON can hold."""
        return {
            "from": self.source,
            "to": self.target,
            "rows": {how.value: rows for how, (rows, _) in self.counts.items()},
            "codes": {how.value: codes for how, (_, codes) in self.counts.items()},
            "absent": self.absent,
        }


@dataclass(frozen=True, slots=True, repr=False)
class LoadReport:
    """Every row of every table: used, or dropped for a stated reason.

    Attributes:
        tables: one account per table, in the order of reading.
        changed: how many values were rewritten without loss, by what was done.
        shortened: the patients who lost some of their admissions, or None.
        notes: further lines of the report.
        translated: the diagnoses that were translated into the other code system, or None.

    >>> drop = Drop(Reason.NO_DIAGNOSIS, 1, ("line 4",))
    >>> report = LoadReport((TableReport("ADMISSIONS", 9, 8, (drop,)),))
    >>> report.dropped
    {('ADMISSIONS', 'no diagnosis'): 1}
    >>> print(report)
    table       read  used  dropped  why
    ADMISSIONS     9     8        1
                                  1  no diagnosis (line 4)
    """

    tables: tuple[TableReport, ...]
    changed: dict[str, int] = field(default_factory=dict)
    shortened: Shortened | None = None
    notes: tuple[str, ...] = ()
    translated: Translated | None = None

    @property
    def dropped(self) -> dict[tuple[str, str], int]:
        """Rows dropped, by table and reason."""
        return {
            (table.name, drop.reason.value): drop.count
            for table in self.tables
            for drop in table.drops
        }

    @property
    def dropped_by_name(self) -> dict[str, int]:
        """Rows dropped, by "table: reason", for JSON."""
        return {f"{table}: {reason}": count for (table, reason), count in self.dropped.items()}

    @property
    def rows_read(self) -> dict[str, int]:
        """Rows read, by table."""
        return {table.name: table.rows_read for table in self.tables}

    @property
    def rows_used(self) -> dict[str, int]:
        """Rows that are in a record, by table."""
        return {table.name: table.rows_used for table in self.tables}

    @property
    def losses(self) -> tuple[str, ...]:
        """Lines on what was dropped (by table and reason) or rewritten, and the notes."""
        dropped = (
            f"{printable(table.name)}: {drop.count:,} of {table.rows_read:,} dropped "
            f"({drop.reason.value})"
            for table in self.tables
            for drop in table.drops
        )
        return (*dropped, *self._below)

    @property
    def _below(self) -> tuple[str, ...]:
        """The lines below the table."""
        changed = (f"{what}: {count:,}" for what, count in self.changed.items())
        shortened = () if self.shortened is None else (str(self.shortened),)
        translated = () if self.translated is None else self.translated.lines
        return (*changed, *shortened, *map(printable, self.notes), *translated)

    def _rows(self) -> Iterator[tuple[str, str, str, str, str]]:
        for table in self.tables:
            read, used, dropped = (
                f"{count:,}" for count in (table.rows_read, table.rows_used, table.rows_dropped)
            )
            yield printable(table.name), read, used, dropped, ""
            for drop in table.drops:
                where = _listed(drop.examples, drop.count)
                yield "", "", "", f"{drop.count:,}", f"{drop.reason.value} ({where})"

    def __str__(self) -> str:
        rows = [("table", "read", "used", "dropped", "why"), *self._rows()]
        name, *numbers = (max(len(row[column]) for row in rows) for column in range(4))
        lines = []
        for table, *counts, why in rows:
            cells = [table.ljust(name)]
            cells += [count.rjust(width) for count, width in zip(counts, numbers, strict=True)]
            lines.append("  ".join([*cells, why]).rstrip())
        return "\n".join([*lines, *self._below])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head = "".join(
            f'<th scope="col">{title}</th>'
            for title in ("Table", "Rows read", "Used", "Dropped", "Why")
        )
        body = "".join(
            "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self._rows()
        )
        after = "".join(f"<p>{escape(line)}</p>" for line in self._below)
        return (
            "<table><caption>Every row that was read</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{after}"
        )


@dataclass(frozen=True, slots=True, repr=False)
class Cohort:
    """Patient records by rising subject_id, and the report of how they were loaded."""

    records: tuple[AnyRecord, ...]
    report: LoadReport

    def __repr__(self) -> str:
        visits = [visit for record in self.records for visit in record.visits]
        codes = [code for visit in visits for code in visit.codes]
        return (
            f"Cohort({len(self.records):,} patients, {len(visits):,} visits, "
            f"{len(codes):,} codes, {len(set(codes)):,} of them different)"
        )
