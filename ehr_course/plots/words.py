"""Words made to fit into a width, in inches."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate

from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.icd import code_meaning
from ehr_course.plots import style
from ehr_course.plots.canvas import MONO

SENTENCE = 3.2
"""How wide the meaning of a code may be in a sentence."""

_DOTS = "…"


def cut(text: str, width: float, size: float) -> str:
    """As many words of a text as fit a width in inches, with an ellipsis where some are left out.

    Of a first word that does not fit, as many letters.

    >>> cut("Congestive heart failure, unspecified", 1.5, 8.0)
    'Congestive heart failure…'
    """
    fits = _fitting(width, size)
    if fits(text):
        return text
    words = text.split()
    beginnings = [" ".join(words[:n]) for n in range(len(words) - 1, 0, -1)]
    beginnings += list(accumulate(words[0]))[::-1]
    shortened = (beginning.rstrip(" ,;:([") + _DOTS for beginning in beginnings)
    return next((beginning for beginning in shortened if fits(beginning)), _DOTS)


def wrapped(text: str, width: float, size: float, lines: int) -> str:
    """A text on at most so many lines, the last of them cut where more is left."""
    fits = _fitting(width, size)
    words = text.split()
    written: list[str] = []
    while words and len(written) < lines - 1:
        n = max((n for n in range(1, len(words) + 1) if fits(" ".join(words[:n]))), default=1)
        written.append(cut(" ".join(words[:n]), width, size))
        words = words[n:]
    return "\n".join([*written, *([cut(" ".join(words), width, size)] if words else [])])


def _fitting(width: float, size: float) -> Callable[[str], bool]:
    # The renderer sets letters on whole pixels, which makes some texts a little wider.
    return lambda text: 1.03 * style.text_width(text, size) <= width


def meaning(code: str, width: float, system: CodeSystem = "ICD9CM") -> str:
    """The title of a code up to its first comma, cut after a word; nothing for an unknown code."""
    try:
        words = code_meaning(system).title(code).partition(",")[0].split()
    except InputError:
        return ""
    kept = len(words)
    while kept > 1 and style.text_width(" ".join(words[:kept]) + _DOTS, style.SMALL) > width:
        kept -= 1
    while 1 < kept < len(words) and words[kept - 1] in ("and", "of", "or", "with", "without"):
        kept -= 1
    return " ".join(words[:kept]) + (f" {_DOTS}" if kept < len(words) else "")


def token_width(token: str) -> float:
    """The width of the box around a token, in inches."""
    return style.text_width(token, style.SMALL, MONO) + 0.14
