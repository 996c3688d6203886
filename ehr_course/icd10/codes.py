"""The shape of a code: a letter, two characters, then up to four characters of detail.

The first three characters are the category. The second is a digit, except in QA0, the one category
of 2026 that has an A there; the third is a digit, A or B (C7B, M1A, O9A). The detail follows
behind a dot when a person writes the code, and without it in MIMIC. Codes of injuries, poisonings
and external causes, and a few others, have a seventh character; an X fills the places before it
that have no meaning (V30.4XXA).

ICD-9-CM's V codes, and its E codes once they have lost their dot, have this shape as well.
"""

from __future__ import annotations

from ehr_course.code_rules import CodeShape, with_dot

UNDOTTED = r"(?:[A-Z](?:[0-9][0-9AB]|A[0-9])[0-9A-Z]{0,4})"
"""A regular expression for a whole normalized code, as in ``"E119"``."""

WRITTEN = r"(?:[A-Za-z](?:[0-9][0-9ABab]|[Aa][0-9])(?:\.?[0-9A-Za-z]{1,4})?)"
"""A regular expression for a code as people write it, without the spaces around it."""

_SHAPE = CodeShape(
    "ICD-10",
    undotted=UNDOTTED,
    written=WRITTEN,
    remedy="Write text with a letter and two digits (E11; a few categories end in A or B, as "
    "O9A), then at most four more letters or digits, behind a dot if there is one (V30.4XXA).",
)


def is_code(text: str) -> bool:
    """Say whether text, as written, has the shape of an ICD-10-CM diagnosis code.

    The shape is all that is looked at: ``"Z99.0ZZZ"`` has it, although no such code exists.

    Args:
        text: a code with or without its dot, in upper or lower case, spaces around it allowed.

    >>> [is_code(text) for text in ("E11.9", " v30.4xxa ", "I5", "E885.9", "428.0")]
    [True, True, False, False, False]
    """
    return _SHAPE.is_code(text)


def normalize(code: str) -> str:
    """Return the code without its dot, without spaces around it and in upper case.

    Args:
        code: text such as ``"E11.9"``, ``" v30.4xxa "`` or ``"O9A111"``.

    Raises:
        InputError: if code is not text in the shape of an ICD-10-CM diagnosis code.

    >>> normalize(" v30.4xxa "), normalize("E11.9"), normalize("I10")
    ('V304XXA', 'E119', 'I10')
    """
    return _SHAPE.normalize(code)


def category(code: str) -> str:
    """Return the category of a code, its first three characters.

    It goes by the shape of the code, whether or not the code exists.

    >>> category("E11.9"), category("V304XXA"), category("O9A.111")
    ('E11', 'V30', 'O9A')
    """
    return normalize(code)[:3]


def dotted(code: str) -> str:
    """Return the code as people write it, with its dot behind the category.

    >>> dotted("E119"), dotted("V304XXA"), dotted("I10")
    ('E11.9', 'V30.4XXA', 'I10')
    """
    code = normalize(code)
    return with_dot(code, code[:3])


def written(token: str) -> str:
    """A code as clinicians write it, with its dot; any other token as it is.

    >>> written("E119"), written("<mask>")
    ('E11.9', '<mask>')
    """
    return dotted(token) if is_code(token) else token
