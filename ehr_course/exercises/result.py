"""The result of a check, as text for a terminal and as HTML for a notebook."""

from __future__ import annotations

import html
import textwrap
from dataclasses import dataclass
from enum import StrEnum

WIDTH = 74
"""Characters a line as text: what the page of the book shows without clipping."""


class Outcome(StrEnum):
    """What a check can say of an answer."""

    SOLVED = "solved"
    REMARK = "solved, with a remark"
    NOT_YET = "not yet"
    ERROR = "error in your code"
    NOT_ATTEMPTED = "not attempted"

    @property
    def is_solved(self) -> bool:
        """Whether the answer is right, with or without a remark."""
        return self in (Outcome.SOLVED, Outcome.REMARK)


_MARKS = {
    Outcome.SOLVED: ("✔", "Solved", "#1a7f37"),
    Outcome.REMARK: ("✔", "Solved, with a remark", "#1a7f37"),
    Outcome.NOT_YET: ("✘", "Not yet", "#9a6700"),
    Outcome.ERROR: ("⚠", "Error in your code", "#b3261e"),
    Outcome.NOT_ATTEMPTED: ("○", "Not attempted yet", "#57606a"),
}


@dataclass(frozen=True)
class Result:
    """What a check found.

    Attributes:
        exercise_id: lesson and number ("07.1").
        title: the exercise's title.
        outcome: one of the five.
        message: what happened and why, in a sentence or two.
        details: labelled lines to look at, such as ("expected", "[3, 7, 4]").
        repeat: the call that tries the same inputs again, or "" where there is nothing to repeat.
        misconception: the name of the recognised wrong idea, of two joined by " + ", or None.
    """

    exercise_id: str
    title: str
    outcome: Outcome
    message: str
    details: tuple[tuple[str, str], ...] = ()
    repeat: str = ""
    misconception: str | None = None

    def __str__(self) -> str:
        mark, word, _ = _MARKS[self.outcome]
        lines = [f"{mark} {self.exercise_id} {self.title} · {word}"]
        lines += [f"  {line}" for line in _wrapped(self.message, WIDTH - 2)]
        column = max((len(label) for label, _ in self.details), default=0) + 4
        for label, text in self.details:
            first, *rest = _wrapped(text, WIDTH - column, indent="  ")
            lines.append(f"  {label}:".ljust(column) + first)
            lines += [" " * column + line for line in rest]
        if self.repeat:
            lines.append(f"  The same inputs again: {self.repeat}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        mark, word, colour = _MARKS[self.outcome]
        rows = "".join(
            '<tr><th scope="row" style="text-align:left;vertical-align:top;font-weight:600;'
            f'padding:1px 12px 1px 0;background:none">{html.escape(label)}</th>'
            f'<td style="text-align:left;padding:1px 0;background:none">{_folded(text)}</td></tr>'
            for label, text in self.details
        )
        table = f'<table style="margin:6px 0 0 0;border:none">{rows}</table>' if rows else ""
        again = (
            '<div style="margin-top:6px;opacity:0.8">The same inputs again: '
            f"<code>{html.escape(self.repeat)}</code></div>"
            if self.repeat
            else ""
        )
        return (
            f'<div role="status" style="border-left:5px solid {colour};padding:6px 12px;'
            'margin:4px 0;line-height:1.45">'
            f'<strong><span style="color:{colour}" aria-hidden="true">{mark}</span> '
            f"{html.escape(self.exercise_id)} {html.escape(self.title)} · {word}</strong>"
            f"<div>{html.escape(self.message)}</div>{table}{again}</div>"
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


_MOST_SHOWN = 160
"""A longer input or value is folded on a page: nobody reads it before the message."""


def _folded(text: str) -> str:
    """A detail of a result as HTML, behind its beginning where it is long."""
    look = "white-space:pre-wrap;word-break:break-word"
    whole = f'<code style="{look}">{html.escape(text)}</code>'
    if len(text) <= _MOST_SHOWN:
        return whole
    beginning = html.escape(" ".join(text[:60].split()))
    return f"<details><summary><code>{beginning} ...</code></summary>{whole}</details>"


def _wrapped(text: str, width: int, *, indent: str = "") -> list[str]:
    """Break a text into lines of at most `width`, keeping the line breaks it has."""
    lines = []
    for line in text.splitlines():
        wrapped = textwrap.wrap(line, width, subsequent_indent=indent, break_on_hyphens=False)
        lines += wrapped or [""]
    return lines or [""]
