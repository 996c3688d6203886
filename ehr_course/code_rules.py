"""What the two code systems have in common: shape, chapters, who can have a code, what is chronic.

``ehr_course.icd9`` and ``ehr_course.icd10`` say what differs: their patterns, their chapters and
their tables. The tables are short .csv files that can be read by eye, each with ranges of codes.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import NamedTuple

from ehr_course.errors import InputError
from ehr_course.records import Sex

# ---------------------------------------------------------------------- shape


class CodeShape:
    """How the codes of one system are written.

    Args:
        name: of the system in messages, as in "ICD-9".
        undotted: a regular expression for a whole code without its dot.
        written: one for a code as people write it, without the spaces around it.
        remedy: what to write instead of something that is no code.
    """

    def __init__(self, name: str, *, undotted: str, written: str, remedy: str) -> None:
        self.name, self.remedy = name, remedy
        self._undotted = re.compile(undotted, re.ASCII)
        self._written = re.compile(written, re.ASCII)

    def is_code(self, text: str) -> bool:
        """Say whether text, as written, has the shape of a code."""
        return isinstance(text, str) and self._written.fullmatch(text.strip()) is not None

    def normalize(self, code: str) -> str:
        """Return the code without its dot, without spaces around it and in upper case.

        Raises:
            InputError: if code is not text in the shape of a code.
        """
        if isinstance(code, str):
            # Most codes arrive normalized already, and this is called once for every row.
            if self._undotted.fullmatch(code):
                return code
            text = code.strip()
            if self._written.fullmatch(text):
                return text.replace(".", "").upper()
        raise InputError(
            f"{self.name} code {code!r}",
            "",
            f"this is not the shape of an {self.name}-CM diagnosis code",
            self.remedy,
        )


def with_dot(code: str, head: str) -> str:
    """A normalized code with a dot behind its category.

    >>> with_dot("4280", "428"), with_dot("650", "650")
    ('428.0', '650')
    """
    detail = code[len(head) :]
    return f"{head}.{detail}" if detail else head


# ---------------------------------------------------------------------- chapters


class Chapter(NamedTuple):
    """A chapter of a code system.

    Attributes:
        number: from 1 on. ICD-9-CM itself leaves its last two, the V and the E codes, unnumbered;
            here they are 18 and 19.
        title: as in the tabular list.
        first: the first category of the chapter, as in ``"390"``.
        last: the last one, as in ``"459"``.
    """

    number: int
    title: str
    first: str
    last: str


def chapter_with(head: str, chapters: Sequence[Chapter]) -> Chapter | None:
    """The chapter that a category lies in, or None if it lies outside of every one."""
    for candidate in chapters:
        # Categories of one kind have one length, so that text compares as numbers do; letters
        # follow digits in the last place of ICD-10-CM's, as they do in text: O99, O9A.
        same_kind = len(head) == len(candidate.first) and head[0].isdigit() == (
            candidate.first[0].isdigit()
        )
        if same_kind and candidate.first <= head <= candidate.last:
            return candidate
    return None


# ---------------------------------------------------------------------- who can have a code

OLDEST = 124
"""The upper age of the Medicare Code Editor: as good as no limit."""


_SEXES: dict[str, Sex | None] = {"": None, "F": "F", "M": "M"}
"""The sexes as eligibility.csv writes them."""


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Who can have a code.

    Attributes:
        min_age: lowest age in completed years.
        max_age: highest age in completed years; 124 means no limit.
        sex: "F" or "M", or None for both.
        reason: why, in words.
    """

    min_age: int
    max_age: int
    sex: Sex | None
    reason: str


class EligibilityTable:
    """The rules of a system: ranges of codes, each with the ages and the sex that can have them.

    A row covers the codes from ``first`` to ``last``, each with all of its detail; a code takes
    the one row that fits it most closely, whole.

    Args:
        package: where ``eligibility.csv`` lies; it is read at the first question.
        normalize: of the system.
        number: the number of a normalized code; of two ranges whose ends have equally many
            characters, the one whose ends lie closer together fits more closely.
    """

    def __init__(
        self, package: str, *, normalize: Callable[[str], str], number: Callable[[str], int]
    ) -> None:
        self._package, self._normalize, self._number = package, normalize, number
        self._found: dict[str, Eligibility | None] = {}

    def who(self, code: str) -> Eligibility | None:
        """Who can have a normalized code, or None where no rule speaks of it."""
        if code not in self._found:
            rows = self._rows_of(code)
            self._found[code] = max(rows, key=self._closeness).who if rows else None
        return self._found[code]

    def closenesses(self, code: str) -> list[tuple[int, int]]:
        """How closely each row fits that covers a normalized code: no two may fit equally."""
        return [self._closeness(row) for row in self._rows_of(code)]

    def _rows_of(self, code: str) -> list[_Row]:
        return [row for row in self._rows.get(code[0], ()) if row.covers(code)]

    @cached_property
    def _rows(self) -> dict[str, list[_Row]]:
        """The rows by the characters that their codes begin with."""
        rows: dict[str, list[_Row]] = {}
        for row in _read(self._package, "eligibility.csv"):
            who = Eligibility(
                int(row["min_age"]), int(row["max_age"]), _SEXES[row["sex"]], row["reason"]
            )
            first, last = self._normalize(row["first"]), self._normalize(row["last"])
            for begins_with in range(ord(first[0]), ord(last[0]) + 1):
                rows.setdefault(chr(begins_with), []).append(_Row(first, last, who))
        return rows

    def _closeness(self, row: _Row) -> tuple[int, int]:
        # More characters fit closer; among ranges of equally many, the shorter one.
        return len(row.first), self._number(row.first) - self._number(row.last)


class _Row(NamedTuple):
    first: str
    last: str
    who: Eligibility

    def covers(self, code: str) -> bool:
        return self.first <= code and (code <= self.last or code.startswith(self.last))


def why_not(who: Eligibility | None, *, age: int, sex: Sex) -> str | None:
    """Return why a patient of this age and sex cannot have a code, or None if they can.

    Args:
        who: the rule for the code, or None where there is none.
        age: completed years, 0 to 124; 90 may stand for every age above 89.
        sex: "F" or "M".

    Returns:
        the rest of a sentence that begins with the code.

    Raises:
        InputError: if age is out of range, or sex is neither "F" nor "M".

    >>> why_not(Eligibility(15, OLDEST, None, "a disease of adults"), age=9, sex="M")
    'is recorded from age 15 only, not at 9: a disease of adults'
    """
    if sex not in ("F", "M"):
        raise InputError("sex", "", f"{sex!r} is neither 'F' nor 'M'", "Pass 'F' or 'M'.")
    if not 0 <= age <= OLDEST:
        raise InputError(
            "age",
            "",
            f"{age!r} is not an age in completed years",
            f"Pass a whole number from 0 to {OLDEST}.",
        )
    if who is None:
        return None
    if who.sex not in (None, sex):
        whose = "females" if who.sex == "F" else "males"
        return f"is recorded for {whose} only: {who.reason}"
    if not who.min_age <= age <= who.max_age:
        if who.min_age == who.max_age:
            ages = f"at age {who.min_age} only"
        elif who.max_age == OLDEST:
            ages = f"from age {who.min_age} only"
        elif who.min_age == 0:
            ages = f"up to age {who.max_age} only"
        else:
            ages = f"from age {who.min_age} to {who.max_age} only"
        return f"is recorded {ages}, not at {age}: {who.reason}"
    return None


# ---------------------------------------------------------------------- ranges of categories


def category_ranges(package: str, file: str) -> tuple[tuple[str, str], ...]:
    """The first and the last category of each range in a table of a package."""
    return tuple((row["first"], row["last"]) for row in _read(package, file))


def _read(package: str, file: str) -> Iterator[dict[str, str]]:
    text = (resources.files(package) / file).read_bytes().decode("utf-8")
    yield from csv.DictReader(io.StringIO(text, newline=""))
