"""Call a learner's function safely, and find the learner's own line when it raises."""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import linecache
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any


@dataclass(frozen=True)
class Call:
    """What one call did.

    Attributes:
        value: what it returned; None when it raised.
        error: what it raised, or None.
        printed: what it wrote to the standard output.
        changed_input: whether an argument was no longer what it had been.
    """

    value: Any
    error: Exception | None
    printed: str
    changed_input: bool


def call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Call:
    """Call `function` on a copy of `arguments`, and note everything that it did."""
    given = copy.deepcopy(arguments)
    before = repr(given)
    printed = io.StringIO()
    value, error = None, None
    with contextlib.redirect_stdout(printed):
        try:
            value = function(*given)
            if inspect.isgenerator(value):
                value = list(value)
        except Exception as raised:
            error = raised
    return Call(value, error, printed.getvalue(), repr(given) != before)


def is_untouched_stub(function: Callable[..., Any], error: Exception | None) -> bool:
    """Say whether `error` is the stub's own: PyTorch raises NotImplementedError too."""
    if not isinstance(error, NotImplementedError):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return (
        bool(frames)
        and frames[-1].filename == _file_of(function)
        and (frames[-1].line or "").startswith("raise NotImplementedError")
    )


def own_line(function: Callable[..., Any], error: Exception) -> str:
    """Write the last line of the learner's own code that led to `error`.

    A line of a library called from it is not theirs to mend, so it is passed over.
    """
    own = _file_of(function)
    place = None
    for frame, line_number in _frames(error.__traceback__):
        filename = frame.f_code.co_filename
        if filename == own or _is_notebook_cell(filename):
            place = frame.f_code.co_name, filename, line_number
    if place is None:
        return "(the call itself: does your function take these parameters?)"
    name, filename, line_number = place
    text = linecache.getline(filename, line_number).strip()
    return f"line {line_number} of {name}:  {text}" if text else f"line {line_number} of {name}"


def _frames(trace: TracebackType | None) -> list[tuple[Any, int]]:
    return list(traceback.walk_tb(trace))


def _file_of(function: Callable[..., Any]) -> str | None:
    function = inspect.unwrap(getattr(function, "func", function))
    code = getattr(function, "__code__", None)
    return code.co_filename if code is not None else None


def _is_notebook_cell(filename: str) -> bool:
    """A cell's code has lines in `linecache` but no file on the disk."""
    return not Path(filename).exists() and bool(linecache.getlines(filename))
