"""Call a learner's function safely, find the line that raised, and see which names it uses."""

from __future__ import annotations

import _thread
import contextlib
import copy
import inspect
import io
import linecache
import operator
import signal
import threading
import traceback
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ehr_course.exercises.compare import cut, state_of
from ehr_course.exercises.module_to_try import is_module_class, try_module

SECONDS_A_CALL = 20.0
"""How long one call of an answer may take: the right ones take a few milliseconds."""

SECONDS_TO_THE_NEXT_INTERRUPT = 0.25
"""How long a call that is to be stopped is given to end before it is interrupted again."""

INTERRUPTS_CAUGHT = 3
"""How many interrupts a call may catch before every further step of it is interrupted."""


class NotFinishedError(Exception):
    """A call was stopped because it had taken too long."""


class DistantAnswer(ABC):
    """An answer in another process, where a grader runs it.

    `examine` takes it in place of a function. What it says of itself is the other process's word.
    """

    __name__ = ""

    @abstractmethod
    def call(self, arguments: tuple[Any, ...], seconds: float) -> Call:
        """Call the answer on `arguments` over there, and return what it did."""

    @abstractmethod
    def is_untouched(self, error: BaseException | None) -> bool:
        """Say whether `error`, of one of its calls, is the stub's own."""

    @abstractmethod
    def own_line(self, error: BaseException) -> str:
        """Write the last line of the learner's own code that led to `error`."""

    @abstractmethod
    def names_used(self) -> set[str]:
        """Return every name, attribute and keyword that the answer's code uses."""

    def __call__(self, *arguments: Any) -> Any:
        """Call the answer as an ordinary function."""
        made = self.call(arguments, SECONDS_A_CALL)
        if made.error is not None:
            raise made.error
        return made.value


@dataclass(frozen=True)
class Call:
    """What one call did.

    Attributes:
        value: what it returned; None when it raised.
        error: what it raised, or None.
        printed: what it wrote to the standard output.
        changed_input: whether an argument was no longer what it had been; False where the call
            was not of a learner's code.
    """

    value: Any
    error: BaseException | None
    printed: str
    changed_input: bool


def call_own(
    function: Callable[..., Any], arguments: tuple[Any, ...], *, seconds: float | None = None
) -> Call:
    """Call a worked or a changed answer as `call` does, and do not watch its input.

    To see that takes longer than most of these calls.
    """
    return _call(function, copy.deepcopy(arguments), seconds)


def call(
    function: Callable[..., Any], arguments: tuple[Any, ...], *, seconds: float | None = None
) -> Call:
    """Call `function` on a copy of `arguments`, and note everything that it did.

    An answer that calls `sys.exit` has raised, like any other; the learner's own interrupt
    passes through. After `seconds` the call is stopped with a `NotFinishedError`.
    """
    if isinstance(function, DistantAnswer):
        return function.call(arguments, SECONDS_A_CALL if seconds is None else seconds)
    given = copy.deepcopy(arguments)
    before = state_of(given)
    made = _call(function, given, seconds)
    return replace(made, changed_input=state_of(given) != before)


def _call(function: Callable[..., Any], given: tuple[Any, ...], seconds: float | None) -> Call:
    printed = _Printed()
    value, error = None, None
    with contextlib.redirect_stdout(printed):
        try:
            value = _within(seconds, function, given)
        except (Exception, SystemExit) as raised:
            error = raised
    return Call(value, error, printed.getvalue(), changed_input=False)


class _Printed(io.StringIO):
    """What an answer prints; it stays readable when the answer closes its standard output."""

    def close(self) -> None:
        """Stay open."""


def _answer(function: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    """Call an answer; only while this runs does `_within` raise an interrupt.

    An input that tries answers gets it; any other answer that is a class of modules is built.
    """
    if given and hasattr(given[0], "try_out"):
        return given[0].try_out(function)
    if is_module_class(function):
        return try_module(function, *given)
    return function(*given)


def _within(seconds: float | None, function: Callable[..., Any], given: tuple[Any, ...]) -> Any:
    """Call an answer, and interrupt it after `seconds`, as the learner's own interrupt would.

    Python loses an interrupt that arrives inside a finaliser (`__del__`, which the garbage
    collector may call at any moment), and an answer may catch one, so it is sent again until the
    call has ended. One that arrives outside the answer raises nothing: every line here runs, and
    the earlier handler is put back when nothing more can be sent. The learner's own is passed on
    then. This works alike on every system, but in the main thread only; elsewhere nothing is
    stopped.
    """
    if seconds is None or threading.current_thread() is not threading.main_thread():
        return _answer(function, given)
    over, sent, postponed = threading.Event(), 0, False

    def send_until_over() -> None:
        nonlocal sent
        pause = seconds
        while not over.wait(pause):
            sent, pause = sent + 1, SECONDS_TO_THE_NEXT_INTERRUPT
            _thread.interrupt_main()

    before = signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: Any) -> None:
        nonlocal postponed
        inner = frame
        while inner.f_code not in (_answer.__code__, _within.__code__):
            inner = inner.f_back
        if inner.f_code is _within.__code__:
            postponed = postponed or not sent
        elif not sent and callable(before):
            before(number, frame)
        elif sent <= INTERRUPTS_CAUGHT:
            raise KeyboardInterrupt
        else:  # in one call, so that what is sent arrives when this interrupt has been raised
            raise_ = partial(signal.default_int_handler, number, frame)
            steps: Any = (_thread.interrupt_main, raise_)
            any(map(operator.call, steps))

    sender = threading.Thread(target=send_until_over, daemon=True)
    # A shell's background job is started with interrupts ignored, so nothing is left to chance.
    signal.signal(signal.SIGINT, interrupt)
    try:
        sender.start()
        return _answer(function, given)
    except KeyboardInterrupt as arrived:
        if not sent:
            raise
        message = f"not finished after {seconds:g} seconds"
        raise NotFinishedError(message).with_traceback(arrived.__traceback__) from None
    finally:
        over.set()
        if sender.is_alive():
            sender.join()
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)
        if postponed:
            signal.raise_signal(signal.SIGINT)


def is_untouched_stub(function: Callable[..., Any], error: BaseException | None) -> bool:
    """Say whether `error` is the stub's own: PyTorch raises NotImplementedError too."""
    if isinstance(function, DistantAnswer):
        return function.is_untouched(error)
    if not isinstance(error, NotImplementedError):
        return False
    frames = traceback.extract_tb(error.__traceback__)
    return (
        bool(frames)
        and frames[-1].filename == file_of(function)
        and (frames[-1].line or "").startswith("raise NotImplementedError")
    )


def own_line(function: Callable[..., Any], error: BaseException) -> str:
    """Write the last line of the learner's own code that led to `error`.

    A line of a library called from it is not theirs to mend, so it is passed over.
    """
    if isinstance(function, DistantAnswer):
        return function.own_line(error)
    own = file_of(function)
    place = None
    for frame, line_number in _frames(error.__traceback__):
        filename = frame.f_code.co_filename
        if filename == own or _is_notebook_cell(filename):
            place = frame.f_code.co_name, filename, line_number
    if place is None:
        return "(the call itself, before any line: does your function take these parameters?)"
    name, filename, line_number = place
    text = linecache.getline(filename, line_number).strip()
    line = f"line {line_number} of {name}"
    return f"{line}:  {cut(text, 200)}" if text else line


def _frames(trace: types.TracebackType | None) -> list[tuple[Any, int]]:
    return list(traceback.walk_tb(trace))


def scope_of(answer: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the names that an answer's code sees around it."""
    return next((own.__globals__ for own in _functions_of(answer)), {})


def file_of(function: Callable[..., Any]) -> str | None:
    """Return the name of the file or cell in which a function or class is written, or None."""
    if is_module_class(function):
        return next((own.__code__.co_filename for own in _functions_of(function)), None)
    function = inspect.unwrap(getattr(function, "func", function))
    if not hasattr(function, "__code__"):
        function = type(function).__call__
    code = getattr(function, "__code__", None)
    return code.co_filename if code is not None else None


def _is_notebook_cell(filename: str) -> bool:
    """A cell's code has lines in `linecache` but no file on the disk; a part of `mine`'s, too."""
    is_part = filename.startswith("<your answer to ") or filename.endswith(" worked answer>")
    return not is_part and not Path(filename).exists() and bool(linecache.getlines(filename))


def names_used(function: Callable[..., Any]) -> set[str]:
    """Return every name, attribute and keyword that a function's code uses, its helpers' included.

    A helper is a function that stands in the same file, or in another cell of the notebook. Its
    own name is left out: it may be that of a library's function.

    >>> def loss(logits, labels):
    ...     return torch.nn.functional.cross_entropy(logits, labels)
    >>> "cross_entropy" in names_used(loss)
    True
    """
    if isinstance(function, DistantAnswer):
        return function.names_used()
    seen: set[types.CodeType] = set()
    names: set[str] = set()

    def walk(code: types.CodeType, scope: Mapping[str, Any]) -> None:
        if code in seen:
            return
        seen.add(code)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                walk(constant, scope)
            elif isinstance(constant, tuple):  # the keywords of a call
                names.update(item for item in constant if isinstance(item, str))
        for name in code.co_names:
            helper = scope.get(name)
            if isinstance(helper, types.FunctionType) and helper.__globals__ is scope:
                walk(helper.__code__, scope)
            else:
                names.add(name)

    for own in _functions_of(function):
        walk(own.__code__, own.__globals__)
    return names


def _functions_of(answer: Callable[..., Any]) -> Iterator[types.FunctionType]:
    if is_module_class(answer):
        yield from (own for own in vars(answer).values() if isinstance(own, types.FunctionType))
        return
    answer = getattr(answer, "func", answer)  # functools.partial
    for found in (answer, getattr(answer, "__wrapped__", None), type(answer).__call__):
        if isinstance(found, types.FunctionType):
            yield found
