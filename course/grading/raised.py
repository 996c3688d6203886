"""Exceptions that a student's code raised in its process, as ones of the judge's."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from typing import Any

import torch

from ehr_course import errors
from ehr_course.exercises import loops_to_test, machine_to_fill, prompt_to_read, trainers_to_test
from ehr_course.exercises.learner_code import NotFinishedError

_EXCEPTIONS: dict[str, type[BaseException]] = {
    f"{kind.__module__}.{kind.__qualname__}": kind
    for kind in (
        *(one for one in vars(builtins).values() if isinstance(one, type)),
        torch.OutOfMemoryError,
        errors.InputError,
        NotFinishedError,
        *(
            one
            for module in (loops_to_test, machine_to_fill, prompt_to_read, trainers_to_test)
            for one in vars(module).values()
            if isinstance(one, type)
        ),
    )
    if issubclass(kind, BaseException) and not issubclass(kind, UnicodeError | BaseExceptionGroup)
}
"""The classes of exceptions that an answer may raise as themselves, by their full name."""


class _Words:
    """A text whose `repr` is itself: a KeyError shows the `repr` of what it was given."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text

    __str__ = __repr__


def as_exception(about: Mapping[str, Any]) -> BaseException:
    """Make an exception like the one that was raised elsewhere, of a class that is known here.

    A class of a student's own becomes a new one of the same name below the nearest known.
    """
    kinds = [one for one in _list(about.get("kinds")) if isinstance(one, str)][:20]
    known = next((_EXCEPTIONS[one] for one in kinds if one in _EXCEPTIONS), Exception)
    if not issubclass(known, Exception | SystemExit):
        known = Exception  # nothing that a student raises may end the judge
    kind: type[BaseException] = known
    name = kinds[0].rpartition(".")[2] if kinds else ""
    if kinds and kinds[0] not in _EXCEPTIONS and name.isidentifier():
        kind = type(name, (known,), {"__str__": lambda self: str(self.args[0])})
    text = about.get("text")
    text = text[:4000] if isinstance(text, str) else ""
    error = kind.__new__(kind)
    error.args = (_Words(text),) if issubclass(kind, KeyError) else (text,)
    if isinstance(error, SyntaxError):
        error.msg = text
    reason = about.get("reason")
    if isinstance(reason, str) and reason:
        # What the exception had there; its class is known only now, and need not declare it.
        error.reason = reason[:4000]  # type: ignore[attr-defined]
    return error


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
