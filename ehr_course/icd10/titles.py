"""Titles and parents, from the package ``simple_icd_10_cm``.

The package parses an XML file of 10 MB when it is imported, and keeps every note of the tabular
list. That takes about a second and 175 MB, once in a process, so it waits for the first question
that needs it; a look-up then takes a few microseconds.
"""

from __future__ import annotations

import gc
import re
import warnings
from functools import cache
from typing import Any

from ehr_course.errors import InputError
from ehr_course.icd10.chapters import CHAPTERS
from ehr_course.icd10.codes import dotted, normalize

RELEASE = "April 2026"
"""The release of ICD-10-CM that titles and parents come from."""

_RANGE = re.compile(r"[A-Z][0-9A][0-9AB]-[A-Z][0-9A][0-9AB]", re.ASCII)
_AT_THE_END = re.compile(r" \([A-Z0-9]{3}(?:-[A-Z0-9]{3})?\)$", re.ASCII)


@cache
def _package() -> Any:
    """Import simple_icd_10_cm at the first use."""
    # It makes half a million objects that all stay. Looking for garbage among them again and
    # again would double the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        with warnings.catch_warnings():
            # Up to Python 3.12, the way in which the package reads its files is deprecated.
            warnings.simplefilter("ignore", DeprecationWarning)
            import simple_icd_10_cm
    finally:
        if collects:
            gc.enable()
    return simple_icd_10_cm


def _exists(code: str) -> bool:
    return _package().is_valid_item(dotted(code))


def nearest(code: str) -> str:
    """Return the code if it exists, or else the longest beginning of it that does, undotted.

    Hospitals keep codes that have since been withdrawn or divided, and codes that are newer than
    this list. Their nearest parent is what can still be said of them. The beginning of a code is
    its parent, except that an X before the seventh character is only there to fill a place.

    Raises:
        InputError: if code is not the shape of a code, or not even its category exists.

    >>> nearest("E11.9"), nearest("H40.11X3"), nearest("E11.9999")
    ('E119', 'H4011', 'E119')
    """
    code = normalize(code)
    for length in range(len(code), 2, -1):
        if _exists(code[:length]):
            return code[:length]
    raise InputError(
        f"ICD-10 code {dotted(code)}",
        "",
        f"ICD-10-CM of {RELEASE} has no category {code[:3]}",
        "Look for a wrong letter or digit, and whether this is an ICD-9-CM code.",
    )


def _known(code: str) -> str:
    # A range such as "E08-E13" is no code, but parents() gives it and it has a title.
    if isinstance(code, str) and _RANGE.fullmatch(code):
        if code in _chapter_numbers() or _package().is_valid_item(code):
            return code
        raise InputError(
            f"ICD-10 range {code}",
            "",
            f"ICD-10-CM of {RELEASE} has no such chapter or block",
            "Pass a range that parents() gives.",
        )
    code = normalize(code)
    near = nearest(code)
    if near != code:
        raise InputError(
            f"ICD-10 code {dotted(code)}",
            "",
            f"it has the shape of a code, but ICD-10-CM of {RELEASE} has no such code; the "
            f"nearest that it has is {dotted(near)}",
            "The code may be withdrawn, newer or mistyped. Pass nearest(code) if its nearest "
            "parent will do; category() and chapter() work by shape alone.",
        )
    return code


@cache
def _chapter_numbers() -> dict[str, str]:
    return {f"{chapter.first}-{chapter.last}": str(chapter.number) for chapter in CHAPTERS}


def title(code: str) -> str:
    """Return the official title of a code or a category, or of a range that parents() gives.

    Args:
        code: ``"E11.9"``, ``"E119"``, ``"E11"`` or ``"E08-E13"``.

    Raises:
        InputError: if code is not the shape of a code, or ICD-10-CM has no such code. The
            message names the nearest one that exists.

    >>> title("E11.9")
    'Type 2 diabetes mellitus without complications'
    >>> title("E08-E13")
    'Diabetes mellitus'
    """
    known = _known(code)
    if "-" in known:
        text = _package().get_description(_chapter_numbers().get(known, known))
        return _AT_THE_END.sub("", text)  # "Diabetes mellitus (E08-E13)"
    return _package().get_description(dotted(known))


def is_complete(code: str) -> bool:
    """Say whether ICD-10-CM has a code and divides it no further, so that it can be billed.

    Args:
        code: in the shape of a code, with or without its dot.

    Raises:
        InputError: if code is not the shape of a code.

    >>> is_complete("E11.9"), is_complete("E11"), is_complete("V30.4"), is_complete("V30.4XXA")
    (True, False, False, True)
    """
    written = dotted(code)
    return _package().is_valid_item(written) and _package().is_leaf(written)


def parents(code: str) -> tuple[str, ...]:
    """Return what a code belongs to, nearest first: codes, then ranges, up to its chapter.

    Raises:
        InputError: if code is not the shape of a code, or ICD-10-CM has no such code.

    >>> parents("E11.65")
    ('E116', 'E11', 'E08-E13', 'E00-E89')
    >>> parents("V30.4XXA")
    ('V304', 'V30', 'V30-V39', 'V00-Y99')
    """
    known = _known(code)
    if known in _chapter_numbers():
        return ()
    ancestors = _package().get_ancestors(known if "-" in known else dotted(known))
    *nearer, number = (name.replace(".", "") for name in ancestors)
    # A block of one category, such as C50, has the category's own name: it is named once.
    chain = dict.fromkeys(name for name in nearer if name != known)
    chapter = CHAPTERS[int(number) - 1]
    return (*chain, f"{chapter.first}-{chapter.last}")
