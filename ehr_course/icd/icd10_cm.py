"""ICD-10-CM; titles and parents come from the package ``simple_icd_10_cm``."""

from __future__ import annotations

import gc
import re
import warnings
from functools import cache, cached_property
from typing import Any

from ehr_course.errors import InputError
from ehr_course.icd.coding import Coding

RELEASE = "April 2026"
"""The release of ICD-10-CM that titles and parents come from."""

_RANGE = re.compile(r"[A-Z][0-9A][0-9AB]-[A-Z][0-9A][0-9AB]", re.ASCII)
_AT_THE_END = re.compile(r" \([A-Z0-9]{3}(?:-[A-Z0-9]{3})?\)$", re.ASCII)


class ICD10(Coding):
    """The codes of ICD-10-CM: a category such as E11, QA0 or C7B, and up to four more characters.

    Some have a seventh character, with an X in unused places before it (V30.4XXA). V and E codes
    of ICD-9-CM have this shape too.

    >>> from ehr_course.icd import icd10
    >>> icd10.title("E11.9"), icd10.title("E08-E13")
    ('Type 2 diabetes mellitus without complications', 'Diabetes mellitus')
    >>> icd10.parents("V30.4XXA")
    ('V304', 'V30', 'V30-V39', 'V00-Y99')
    >>> [icd10.is_complete(code) for code in ("E11.9", "E11", "V30.4", "V30.4XXA")]
    [True, False, False, True]
    """

    system = "ICD10CM"
    name = "ICD-10"
    undotted = r"(?:[A-Z](?:[0-9][0-9AB]|A[0-9])[0-9A-Z]{0,4})"
    as_written = r"(?:[A-Za-z](?:[0-9][0-9ABab]|[Aa][0-9])(?:\.?[0-9A-Za-z]{1,4})?)"
    shape_remedy = (
        "Write text with a letter and two digits (E11; a few categories end in A or B, as "
        "O9A), then at most four more letters or digits, behind a dot if there is one (V30.4XXA)."
    )
    chapter_remedy = (
        "Look for a wrong letter or digit: the chapters leave out a few ranges, such as E90 to "
        "E99 and U86 to U99."
    )

    def nearest(self, code: str) -> str:
        """Return the code or, if it is withdrawn or too new, its nearest known parent, undotted.

        >>> from ehr_course.icd import icd10
        >>> icd10.nearest("E11.9"), icd10.nearest("H40.11X3"), icd10.nearest("E11.9999")
        ('E119', 'H4011', 'E119')
        """
        code = self.normalize(code)
        for length in range(len(code), 2, -1):
            if _package().is_valid_item(self.dotted(code[:length])):
                return code[:length]
        raise InputError(
            f"ICD-10 code {self.dotted(code)}",
            "",
            f"ICD-10-CM of {RELEASE} has no category {code[:3]}",
            "Look for a wrong letter or digit, and whether this is an ICD-9-CM code.",
        )

    def title(self, code: str) -> str:
        """Return the official title of a code, a category or a range that parents() gives."""
        known = self._known(code)
        if "-" in known:
            text = _package().get_description(self._chapter_numbers.get(known, known))
            return _AT_THE_END.sub("", text)  # "Diabetes mellitus (E08-E13)"
        return _package().get_description(self.dotted(known))

    def is_complete(self, code: str) -> bool:
        """Say whether a code exists and is divided no further, so that it can be billed."""
        written = self.dotted(code)
        return _package().is_valid_item(written) and _package().is_leaf(written)

    def parents(self, code: str) -> tuple[str, ...]:
        """Return what a code belongs to, nearest first: codes, then ranges, up to its chapter."""
        known = self._known(code)
        if known in self._chapter_numbers:
            return ()
        ancestors = _package().get_ancestors(known if "-" in known else self.dotted(known))
        *nearer, number = (name.replace(".", "") for name in ancestors)
        # A block of one category, such as C50, has the category's name, which is listed once.
        chain = dict.fromkeys(name for name in nearer if name != known)
        chapter = self.chapters[int(number) - 1]
        return (*chain, f"{chapter.first}-{chapter.last}")

    @cached_property
    def _chapter_numbers(self) -> dict[str, str]:
        return {
            f"{chapter.first}-{chapter.last}": str(chapter.number) for chapter in self.chapters
        }

    def _known(self, code: str) -> str:
        # A range such as "E08-E13" is not a code, but parents() gives it and it has a title.
        if isinstance(code, str) and _RANGE.fullmatch(code):
            if code in self._chapter_numbers or _package().is_valid_item(code):
                return code
            raise InputError(
                f"ICD-10 range {code}",
                "",
                f"ICD-10-CM of {RELEASE} has no such chapter or block",
                "Pass a range that parents() gives.",
            )
        code = self.normalize(code)
        near = self.nearest(code)
        if near != code:
            raise InputError(
                f"ICD-10 code {self.dotted(code)}",
                "",
                f"it has the shape of a code, but ICD-10-CM of {RELEASE} has no such code; the "
                f"nearest that it has is {self.dotted(near)}",
                "The code may be withdrawn, newer or mistyped. Pass nearest(code) if its nearest "
                "parent will do; category() and chapter() work by shape alone.",
            )
        return code


@cache
def _package() -> Any:
    """Import simple_icd_10_cm at the first use, which takes about a second and 175 MB."""
    # It makes half a million objects that all stay: collecting garbage would double the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            # Up to Python 3.12, the package reads its files in a deprecated way.
            warnings.simplefilter("ignore", DeprecationWarning)
            import simple_icd_10_cm
    finally:
        if collects:
            gc.enable()
    return simple_icd_10_cm
