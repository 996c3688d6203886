"""The shape of a code: three digits, V and two digits, or E and three digits, then detail.

The first part is the category; up to two digits of detail follow it (one for an E code),
behind a dot when a person writes the code and without it in MIMIC. A leading zero is part of
the code: 038.9 is septicemia, 389 is hearing loss.
"""

from __future__ import annotations

from ehr_course.code_rules import CodeShape, with_dot

UNDOTTED = r"(?:[0-9]{3}[0-9]{0,2}|V[0-9]{2}[0-9]{0,2}|E[0-9]{3}[0-9]?)"
"""A regular expression for a whole normalized code, as in ``"4280"``."""

WRITTEN = (
    r"(?:[0-9]{3}(?:\.?[0-9]{1,2})?|[Vv][0-9]{2}(?:\.?[0-9]{1,2})?|[Ee][0-9]{3}(?:\.?[0-9])?)"
)
"""A regular expression for a code as people write it, without the spaces around it."""

_SHAPE = CodeShape(
    "ICD-9",
    undotted=UNDOTTED,
    written=WRITTEN,
    remedy="Write text with three digits (428), V and two digits (V30) or E and three digits "
    "(E849), then at most two more digits (one for E); keep leading zeros (038.9).",
)


def is_code(text: str) -> bool:
    """Say whether text, as written, has the shape of an ICD-9-CM diagnosis code.

    The shape is all that is looked at: ``"V99.99"`` has it, although no such code exists.

    Args:
        text: a code with or without its dot, in upper or lower case, spaces around it allowed.

    >>> [is_code(text) for text in ("428.0", " e849.7 ", "42", "42.80", "I50.9")]
    [True, True, False, False, False]
    """
    return _SHAPE.is_code(text)


def normalize(code: str) -> str:
    """Return the code without its dot, without spaces around it and in upper case.

    Args:
        code: text such as ``"428.0"``, ``" e849.7 "`` or ``"V3001"``.

    Raises:
        InputError: if code is not text in the shape of an ICD-9-CM diagnosis code. A number
            is refused as well: it has lost its leading zeros.

    >>> normalize(" e849.7 "), normalize("038.9"), normalize("V30.01")
    ('E8497', '0389', 'V3001')
    """
    return _SHAPE.normalize(code)


def category(code: str) -> str:
    """Return the category of a code: three characters, four for an E code.

    It goes by the shape of the code, whether or not the code exists.

    >>> category("428.0"), category("V3001"), category("E8497")
    ('428', 'V30', 'E849')
    """
    code = normalize(code)
    return code[:4] if code.startswith("E") else code[:3]


def dotted(code: str) -> str:
    """Return the code as people write it, with its dot behind the category.

    >>> dotted("4280"), dotted("E8497"), dotted("650")
    ('428.0', 'E849.7', '650')
    """
    code = normalize(code)
    return with_dot(code, category(code))


def written(token: str) -> str:
    """A code as clinicians write it, with its dot; any other token as it is.

    >>> written("4280"), written("<mask>")
    ('428.0', '<mask>')
    """
    return dotted(token) if is_code(token) else token
