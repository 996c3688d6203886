"""The judge's end of the line: start a student's process, call the answer in it, and end it."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from course.grading import wire, zygote
from course.grading.answers import Program
from course.grading.raised import as_exception
from course.grading.sandbox.confine import Limits, Walls
from ehr_course.exercises.learner_code import Call, DistantAnswer, NotFinishedError

GRACE = 5.0
"""Seconds of wall time that a process gets to stop itself, before it is killed."""

SECONDS_TO_START = 120.0
"""How long a process may take until it is ready: long, for a machine may be busy."""

MOST_ENDS = 3
"""How often an answer that ends its process is restarted."""

_WHY_ENDED = (
    "The program ended in the middle of your code. Did it call os._exit, or use more memory or "
    "time than there is?"
)
_ENDED: dict[str, Any] = {
    "error": {"kinds": ["builtins.RuntimeError"], "text": _WHY_ENDED, "reason": _WHY_ENDED}
}


class EndedError(Exception):
    """The student's process ended before it had answered, or said what nobody can read."""


class Line:
    """A connection with one student's process, and the means to kill it.

    Args:
        read: file descriptor to read from.
        write: file descriptor to write to; may be the same.
        kill: a handle of the process, or the process itself.
    """

    def __init__(self, read: int, write: int, kill: int | subprocess.Popen) -> None:
        self._read, self._write, self._kill = read, write, kill
        self._until = 0.0

    def ask(
        self, message: Mapping[str, Any] | None, raw: bytes = b"", *, seconds: float
    ) -> tuple[dict[str, Any], bytes]:
        """Send a message, unless it is None, and return the answer.

        Raises:
            TimeoutError: if it takes longer; the process is then dead.
            EndedError: if there is none, or none that can be read; the process is then dead.
        """
        self._until = time.monotonic() + seconds
        try:
            if message is not None:
                wire.send(self._write_all, message, raw)
            return wire.receive(self._read_all)
        except TimeoutError:
            self.close()
            raise
        except (OSError, wire.WireError) as error:
            self.close()
            raise EndedError(str(error)) from None

    def close(self) -> None:
        """Kill the process and hang up."""
        if isinstance(self._kill, subprocess.Popen):
            self._kill.kill()
            self._kill.wait()
        elif self._kill >= 0:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._kill, signal.SIGKILL)
            os.close(self._kill)
            self._kill = -1
        for number in {self._read, self._write}:
            if number >= 0:
                os.close(number)
        self._read = self._write = -1

    def _read_all(self, length: int) -> bytes:
        parts = []
        while length:
            self._wait(reading=True)
            part = os.read(self._read, min(length, 1 << 20))
            if not part:
                raise EndedError("it ended")
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def _write_all(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self._wait(reading=False)
            view = view[os.write(self._write, view[: 1 << 16]) :]

    def _wait(self, *, reading: bool) -> None:
        if self._read < 0:
            raise EndedError("it ended")
        if os.name == "nt":  # pipes cannot be waited for; the process stops its own calls
            return
        left = self._until - time.monotonic()
        sets = ([self._read], []) if reading else ([], [self._write])
        if left <= 0 or not any(select.select(*sets, [], left)):
            raise TimeoutError


class Nursery:
    """Starts students' processes: forks of one on Linux, each on its own elsewhere.

    Args:
        walls: what each may see.
        imports: statements of the lessons, which are imported in advance.
        environment: variables of the processes.
        folder: an empty folder, in which they run.
        forks: whether to fork; False starts each on its own.
    """

    def __init__(
        self,
        walls: Walls,
        imports: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: str,
        forks: bool = sys.platform == "linux",
    ) -> None:
        self.forks, self._walls = forks, walls
        self._environment, self._folder = dict(environment), folder
        self._control: socket.socket | None = None
        if forks:
            self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            given = pickle.dumps((walls, list(imports))).hex()
            with theirs:
                self._server = subprocess.Popen(
                    [*_PYTHON, zygote.__name__, str(theirs.fileno()), given],
                    env=self._environment,
                    cwd=folder,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for the run, which then ends it
                    pass_fds=[theirs.fileno()],
                )
            if not self._control.recv(16):
                raise RuntimeError(f"{zygote.__name__} ended with code {self._server.wait()}.")

    def start(self, limits: Limits) -> tuple[Line, dict[str, str]]:
        """Start a process; return the line to it, and what holds it.

        Args:
            limits: of this process.

        Raises:
            RuntimeError: if none can be started, which is never a student's fault.
        """
        line = self._fork(limits) if self.forks else self._spawn(limits)
        try:
            said, _ = line.ask(None, seconds=SECONDS_TO_START)
        except (EndedError, TimeoutError) as error:
            raise RuntimeError(f"a process could not be started: {error}") from None
        return line, dict(said["held"])

    def _fork(self, limits: Limits) -> Line:
        assert self._control is not None  # as this nursery forks
        mine, theirs = socket.socketpair()
        reply, answer = socket.socketpair()
        with mine, theirs, reply, answer:
            given = pickle.dumps(limits)
            socket.send_fds(self._control, [given], [theirs.fileno(), answer.fileno()])
            theirs.close()
            answer.close()
            _, handles, _, _ = socket.recv_fds(reply, 1, 1)
            if not handles:
                raise RuntimeError("a process could not be started")
            number = mine.detach()
        return Line(number, number, handles[0])

    def _spawn(self, limits: Limits) -> Line:
        given = pickle.dumps((limits, self._walls)).hex()
        process = subprocess.Popen(
            [*_PYTHON, "course.grading.worker", given],
            env=self._environment,
            cwd=self._folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert process.stdin is not None and process.stdout is not None  # both are pipes
        return Line(os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno()), process)

    def close(self) -> None:
        """End the process of which the others are forks."""
        if self._control is not None:
            self._control.close()
            self._server.wait(timeout=30)

    def __enter__(self) -> Nursery:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


_PYTHON = (sys.executable, "-P", "-m")


class Elsewhere(DistantAnswer):
    """A student's answer in a process of its own.

    Args:
        nursery: starts the process.
        program: what is run there.
        modules: sources of the classes that the exercise's inputs are of, by the module's name.
        limits: of time.
    """

    def __init__(
        self, nursery: Nursery, program: Program, modules: Mapping[str, str], limits: Limits
    ) -> None:
        self._nursery, self._program, self._modules = nursery, program, dict(modules)
        self._limits = limits
        self._line: Line | None = None
        self._names: set[str] = set()
        self._about: list[tuple[BaseException, dict[str, Any]]] = []
        self.held: dict[str, str] = {}
        self.value: Any = None
        self.is_value = False
        self.error: BaseException | None = None
        self.was_stopped = self.has_ended = False
        self._ends = 0
        self._seconds_left = limits.all_seconds

    def load(self) -> None:
        """Start the process and run what stands around the answer.

        Afterwards `error` is what was raised; `is_value` says that the answer is not a
        function, and `value` what it is.
        """
        statements = [(s.place, s.cell, _first_line(s)) for s in self._program.statements]
        message = {
            "do": "load",
            "modules": self._modules,
            "statements": statements,
            "own_modules": dict(self._program.modules),
            "parts": dict(self._program.parts),
            "target": self._program.target,
        }
        self._line, self.held = self._nursery.start(self._limits)
        said, raw = self._ask(message, b"", self._limits.load_seconds)
        self.error = self._error_in(said)
        if self.error is not None:
            return
        if "value" in said:
            self.is_value, self.value = True, wire.decode(said["value"], raw)
            return
        name = said.get("name")
        self.__name__ = name if isinstance(name, str) else ""
        names = said.get("names")
        if isinstance(names, list):
            self._names = {one for one in names if isinstance(one, str)}

    def call(self, arguments: tuple[Any, ...], seconds: float) -> Call:
        """Call the answer; a process that has ended is restarted."""
        if self._line is None:
            self._load_again()
            if self.error is not None:
                return Call(None, self.error, "", changed_input=False)
        began = time.monotonic()
        seconds = max(0.1, min(seconds, self._limits.seconds, self._seconds_left))
        said, raw = self._ask({"do": "call", "seconds": seconds}, pickle.dumps(arguments), seconds)
        self._seconds_left -= time.monotonic() - began
        printed = said.get("printed")
        printed = printed[:8000] if isinstance(printed, str) else ""
        error = self._error_in(said)
        value = None
        if error is None:
            try:
                value = wire.decode(said.get("value"), raw)
            except wire.WireError as unreadable:
                error = RuntimeError(f"what the function returned cannot be read: {unreadable}")
        return Call(value, error, printed, changed_input=said.get("changed") is True)

    def _load_again(self) -> None:
        """Restart the answer where its process has ended, but not for ever."""
        self._ends += 1
        if self._ends > MOST_ENDS:
            self.error = self._error_in(_ENDED)
            return
        self.load()

    def is_untouched(self, error: BaseException | None) -> bool:
        """Say whether an error is the stub's own."""
        return self._said_of(error).get("untouched") is True

    def own_line(self, error: BaseException) -> str:
        """Write the student's own line that led to an error."""
        line = self._said_of(error).get("line")
        return (
            line[:1000] if isinstance(line, str) and line else "(not known: its process was ended)"
        )

    def names_used(self) -> set[str]:
        """Return the names that the answer uses."""
        return self._names

    def close(self) -> None:
        """End the process."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def _ask(
        self, message: Mapping[str, Any], raw: bytes, seconds: float
    ) -> tuple[dict[str, Any], bytes]:
        assert self._line is not None  # the caller has started a process
        try:
            return self._line.ask(message, raw, seconds=seconds + GRACE)
        except TimeoutError:
            self._line, self.was_stopped = None, True
            kinds = [f"{NotFinishedError.__module__}.{NotFinishedError.__qualname__}"]
            return {
                "error": {"kinds": kinds, "text": f"not finished after {seconds:g} seconds"}
            }, b""
        except EndedError:
            self._line, self.has_ended = None, True
            return {"error": _ENDED["error"]}, b""

    def _error_in(self, said: Mapping[str, Any]) -> BaseException | None:
        about = said.get("error")
        if about is None:
            return None
        about = about if isinstance(about, dict) else {}
        error = as_exception(about)
        self.was_stopped |= isinstance(error, NotFinishedError)
        self._about.append((error, about))
        return error

    def _said_of(self, error: BaseException | None) -> dict[str, Any]:
        return next((about for one, about in self._about if one is error), {})


def _first_line(statement: Any) -> int:
    decorators = getattr(statement.node, "decorator_list", ())
    return min([statement.node.lineno, *(one.lineno for one in decorators)])


@contextlib.contextmanager
def answer_elsewhere(
    nursery: Nursery, program: Program, modules: Mapping[str, str], limits: Limits
) -> Iterator[Elsewhere]:
    """Load an answer in a process of its own, which ends with the block."""
    answer = Elsewhere(nursery, program, modules, limits)
    try:
        answer.load()
        yield answer
    finally:
        answer.close()
