"""How the codes of a system are written, their chapters, who can have one and what is chronic."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from ehr_course.code_system import CodeSystem
from ehr_course.course_files import packaged_csv
from ehr_course.errors import InputError
from ehr_course.records import Sex

OLDEST = 124
"""The highest age in the Medicare Code Editor, which means no limit."""


class Chapter(NamedTuple):
    """A chapter of a code system.

    Attributes:
        number: from 1; the V and E codes of ICD-9-CM, which have no number there, are 18 and 19.
        title: as in the tabular list.
        first, last: its first and last category, such as ``"390"`` and ``"459"``.
    """

    number: int
    title: str
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class Eligibility:
    """Who can have a code.

    Attributes:
        min_age: in completed years.
        max_age: in completed years; 124 means no limit.
        sex: "F" or "M", or None for both.
        reason: why, in words.
    """

    min_age: int
    max_age: int
    sex: Sex | None
    reason: str


class Rule(NamedTuple):
    """Who can have the codes from first to last, each with all of its detail."""

    first: str
    last: str
    who: Eligibility

    def covers(self, code: str) -> bool:
        """Whether the rule applies to a normalized code."""
        return self.first <= code and (code <= self.last or code.startswith(self.last))

    @property
    def closeness(self) -> tuple[int, int]:
        """Greater for a more specific rule: more characters, or else a shorter range."""
        # Letters follow digits in base 36, as they do in codes.
        return len(self.first), int(self.first, 36) - int(self.last, 36)


class Coding:
    """What the diagnosis codes of one system mean: ``icd9`` or ``icd10``.

    All methods take codes with or without the dot, and raise an InputError for text that does not
    have the shape of a code. Category, chapter, eligibility and chronicity go by the shape alone,
    whether or not the code exists.

    >>> from ehr_course.icd import icd9, icd10
    >>> icd9.normalize(" e849.7 "), icd10.normalize("v30.4xxa")
    ('E8497', 'V304XXA')
    >>> icd9.category("E8497"), icd10.category("E8859")
    ('E849', 'E88')
    >>> icd9.dotted("E8859"), icd10.dotted("E8859")
    ('E885.9', 'E88.59')
    >>> icd9.chapter("V30.01").number, icd10.chapter("O9A.111").title
    (18, 'Pregnancy, childbirth and the puerperium')
    >>> icd9.who_can_have("V30.01")
    Eligibility(min_age=0, max_age=0, sex=None, reason='the birth of this patient')
    >>> icd10.why_impossible("O80", age=34, sex="M")
    'O80 is recorded for females only: pregnancy, childbirth and the puerperium'
    """

    system: CodeSystem
    name: str
    """The system in messages, such as "ICD-9"."""
    undotted: str
    """A regular expression for a normalized code, such as ``"4280"``."""
    as_written: str
    """A regular expression for a code as people write it, without spaces around it."""
    shape_remedy: str
    """What to write instead of something that is not a code."""
    chapter_remedy: str
    """What to do about a category outside all chapters."""

    def __init__(self) -> None:
        self._undotted = re.compile(self.undotted, re.ASCII)
        self._as_written = re.compile(self.as_written, re.ASCII)
        self._who: dict[str, Eligibility | None] = {}

    # ------------------------------------------------------------------ shape

    def is_code(self, text: str) -> bool:
        """Say whether text has the shape of a code, in either case and with spaces around it."""
        return isinstance(text, str) and self._as_written.fullmatch(text.strip()) is not None

    def normalize(self, code: str) -> str:
        """Return the code without its dot, without spaces around it and in upper case."""
        if isinstance(code, str):  # a number has lost its leading zeros
            # Most codes are normalized already, and this is called once for every row.
            if self._undotted.fullmatch(code):
                return code
            text = code.strip()
            if self._as_written.fullmatch(text):
                return text.replace(".", "").upper()
        raise InputError(
            f"{self.name} code {code!r}",
            "",
            f"this is not the shape of an {self.name}-CM diagnosis code",
            self.shape_remedy,
        )

    def category(self, code: str) -> str:
        """Return the category of a code: what comes before its dot."""
        return self.normalize(code)[:3]

    def dotted(self, code: str) -> str:
        """Return the code as people write it, with a dot after the category."""
        code = self.normalize(code)
        category = self.category(code)
        detail = code[len(category) :]
        return f"{category}.{detail}" if detail else category

    def written(self, token: str) -> str:
        """A code with its dot; any other token as it is."""
        return self.dotted(token) if self.is_code(token) else token

    # ------------------------------------------------------------------ the tables

    @cached_property
    def chapters(self) -> tuple[Chapter, ...]:
        """All chapters in order; chapter number n is ``chapters[n - 1]``."""
        return tuple(
            Chapter(int(row["number"]), row["title"], row["first"], row["last"])
            for row in self._table("chapters")
        )

    def chapter(self, code: str) -> Chapter:
        """Return the chapter of a code; an InputError for categories outside all chapters."""
        category = self.category(code)
        for chapter in self.chapters:
            # Categories compare as text: letters follow digits, as in O99 and O9A.
            if chapter.first <= category <= chapter.last:
                return chapter
        raise InputError(
            f"{self.name} code {code!r}",
            "",
            f"category {category} lies in no chapter",
            self.chapter_remedy,
        )

    @cached_property
    def _chronic(self) -> list[tuple[str, str]]:
        return [(row["first"], row["last"]) for row in self._table("chronic")]

    def in_chronic_category(self, code: str) -> bool:
        """Say whether all codes of this code's category are chronic conditions."""
        category = self.category(code)
        return any(first <= category <= last for first, last in self._chronic)

    def who_can_have(self, code: str) -> Eligibility | None:
        """Return who can have a code, or None if no rule applies; rare is not impossible."""
        code = self.normalize(code)
        if code not in self._who:
            closest = max(self.rules_of(code), key=lambda rule: rule.closeness, default=None)
            self._who[code] = closest.who if closest else None
        return self._who[code]

    def why_impossible(self, code: str, *, age: int, sex: Sex) -> str | None:
        """Return why a patient of this age and sex cannot have the code, or None if they can.

        Args:
            code: dotted or not.
            age: completed years at the visit, 0 to 124; a `PatientRecord` has that of the first.
            sex: "F" or "M".
        """
        who = self.who_can_have(code)
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
            return f"{self.dotted(code)} is recorded for {whose} only: {who.reason}"
        if who.min_age <= age <= who.max_age:
            return None
        if who.min_age == who.max_age:
            ages = f"at age {who.min_age} only"
        elif who.max_age == OLDEST:
            ages = f"from age {who.min_age} only"
        elif who.min_age == 0:
            ages = f"up to age {who.max_age} only"
        else:
            ages = f"from age {who.min_age} to {who.max_age} only"
        return f"{self.dotted(code)} is recorded {ages}, not at {age}: {who.reason}"

    def rules_of(self, code: str) -> list[Rule]:
        """The rules that apply to a normalized code; the closest one decides."""
        return [rule for rule in self._rules.get(code[0], ()) if rule.covers(code)]

    @cached_property
    def _rules(self) -> dict[str, list[Rule]]:
        """The rules by the first character of their codes."""
        sexes: dict[str, Sex | None] = {"": None, "F": "F", "M": "M"}
        rules: dict[str, list[Rule]] = {}
        for row in self._table("eligibility"):
            first, last = self.normalize(row["first"]), self.normalize(row["last"])
            ages = int(row["min_age"]), int(row["max_age"])
            rule = Rule(first, last, Eligibility(*ages, sexes[row["sex"]], row["reason"]))
            for begins_with in range(ord(first[0]), ord(last[0]) + 1):
                rules.setdefault(chr(begins_with), []).append(rule)
        return rules

    def _table(self, name: str) -> Iterator[dict[str, str]]:
        """The rows of a CSV file of this system; README.md says where they come from."""
        file_name = f"{self.system.lower().removesuffix('cm')}_{name}.csv"
        yield from csv.DictReader(packaged_csv("ehr_course.icd", file_name))
