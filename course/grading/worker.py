"""The process that runs one student's answer: it is told what to run, and says what it did.

It never holds the worked answer to what it runs, only those to other exercises of which the
answer makes use with `mine`. Whatever it says is taken for what the student's function says. It
is forked from `zygote`, or started on its own where the system cannot fork.
"""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import os
import pickle
import signal
import sys
import time
import types
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from typing import Any

from course.grading import wire
from course.grading.sandbox.confine import Limits, Walls, confine
from ehr_course.exercises.learner_code import call, is_untouched_stub, names_used, own_line
from ehr_course.exercises.mine import GIVEN

Read = Callable[[int], bytes]
Write = Callable[[bytes], Any]

MOST_PRINTED = 4000


class _GoneError(Exception):
    """The judge has closed the line."""


def reader(number: int) -> Read:
    """Return a function that reads exactly so many bytes from a file descriptor."""

    def read(length: int) -> bytes:
        parts = []
        while length:
            part = os.read(number, min(length, 1 << 20))
            if not part:
                raise _GoneError
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    return read


def writer(number: int) -> Write:
    """Return a function that writes all of some bytes to a file descriptor."""

    def write(data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(number, view) :]

    return write


def serve(line: tuple[int, int], limits: Limits, walls: Walls) -> None:
    """Confine this process, say what holds, and do what the judge asks until it hangs up.

    Args:
        line: file descriptors to read from and to write to.
        limits: of time and memory.
        walls: what the student's code may see.
    """
    read, write = reader(line[0]), writer(line[1])
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        if stream not in line:
            os.dup2(null, stream)
    if hasattr(signal, "SIGXCPU"):
        signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    if limits.scratch:
        os.environ["TMPDIR"] = limits.scratch
    held = confine(limits, walls)
    wire.send(write, {"held": held})
    work = _Work(limits)
    with contextlib.suppress(_GoneError):
        while True:
            message, raw = wire.receive(read)
            try:
                said, more = work.do(message, raw)
            except MemoryError:
                said, more = {"error": _about(MemoryError("too much memory"), "")}, b""
            try:
                wire.send(write, said, more)
            except wire.WireError as error:
                wire.send(write, {"error": _about(error, "")})


class _Work:
    """What one answer's process knows: its names, and the answer."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._answer: Any = None

    def do(self, message: dict[str, Any], raw: bytes) -> tuple[dict[str, Any], bytes]:
        """Do what a message asks, and return what to say."""
        if message["do"] == "load":
            for name, source in message["modules"].items():
                _make_module(name, source)
            sys.meta_path.append(_OwnModules(message["own_modules"]))
            GIVEN.update(message["parts"])
            return self._load(message["statements"], message["target"])
        return self._call(pickle.loads(raw), message["seconds"])

    def _load(self, statements: Sequence[Any], target: str) -> tuple[dict[str, Any], bytes]:
        place = ["", ""]
        made = call(
            lambda: self._run(statements, target, place), (), seconds=self._limits.load_seconds
        )
        if made.error is not None:
            return {"error": _about(made.error, place[0])}, b""
        self._answer = made.value
        if not callable(self._answer):
            value, raw = wire.encode(self._answer)
            return {"value": value}, raw
        try:
            names = sorted(names_used(self._answer))
        except Exception:
            names = []
        return {"name": str(getattr(self._answer, "__name__", ""))[:80], "names": names}, b""

    def _run(self, statements: Sequence[Any], target: str, place: list[str]) -> Any:
        scope: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
        sys.modules["__main__"].__dict__.update(scope)
        trees: dict[str, ast.Module] = {}
        for file, source, first_line in statements:
            filename = f"<{file}>"
            if filename not in trees:
                trees[filename] = ast.parse(source)
                lines = source.splitlines(keepends=True)
                linecache.cache[filename] = (len(source), None, lines, filename)
            node = next(one for one in trees[filename].body if _line(one) == first_line)
            place[:] = [file]
            code = compile(ast.Module([node], []), filename, "exec", dont_inherit=True)
            exec(code, scope)
        place[:] = [""]
        return eval(compile(target, "<the answer>", "eval", dont_inherit=True), scope)

    def _call(self, arguments: tuple[Any, ...], seconds: float) -> tuple[dict[str, Any], bytes]:
        began = time.process_time()
        made = call(self._answer, arguments, seconds=seconds)
        said: dict[str, Any] = {
            "printed": made.printed[-MOST_PRINTED:],
            "changed": made.changed_input,
            "seconds": time.process_time() - began,
        }
        if made.error is not None:
            return said | {"error": self._about_call(made.error)}, b""
        try:
            value, raw = wire.encode(made.value)
        except Exception as error:  # what an answer returns may be anything
            return said | {"error": _about(error, "(what the function returned)")}, b""
        return said | {"value": value}, raw

    def _about_call(self, error: BaseException) -> dict[str, Any]:
        with contextlib.suppress(Exception):
            about = _about(error, own_line(self._answer, error))
            return about | {"untouched": is_untouched_stub(self._answer, error)}
        return _about(error, "")


class _OwnModules(MetaPathFinder, Loader):
    """Imports what a student handed in beside the notebook, where nothing else has the name."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module of the student's, or a folder of some."""
        is_folder = any(one.startswith(f"{name}.") for one in self._sources)
        if name not in self._sources and not is_folder:
            return None
        return spec_from_loader(name, self, is_package=is_folder)

    def exec_module(self, module: types.ModuleType) -> None:
        """Run it, as a part of the answer."""
        source = self._sources.get(module.__name__, "")
        filename = f"<{module.__name__}.py>"
        lines = source.splitlines(keepends=True)
        linecache.cache[filename] = (len(source), None, lines, filename)
        exec(compile(source, filename, "exec", dont_inherit=True), module.__dict__)


def _line(node: ast.stmt) -> int:
    return min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])


def _about(error: BaseException | None, line: str) -> dict[str, Any]:
    """What travels of an exception: its classes, the nearest first, and texts."""
    kinds = [f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__]
    try:
        text = str(error)
    except Exception as broken:
        text = f"(its message cannot be shown: {type(broken).__name__})"
    reason = getattr(error, "reason", "")
    return {
        "kinds": kinds,
        "text": text[:4000],
        "reason": reason[:4000] if isinstance(reason, str) else "",
        "line": line[:1000],
    }


def _make_module(name: str, source: str) -> None:
    """Make a module of the classes that an exercise's inputs are of, and of nothing else."""
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(source, f"<{name}>", "exec"), module.__dict__)


def main(arguments: list[str]) -> None:
    """Serve on standard input and output, as a process of its own."""
    limits, walls = pickle.loads(bytes.fromhex(arguments[0]))
    line = os.dup(0), os.dup(1)
    sys.stdout = io.TextIOWrapper(open(os.devnull, "wb"), encoding="utf-8")  # noqa: SIM115, PTH123
    serve(line, limits, walls)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
