"""An audit hook: the last resort, where the system itself keeps nothing.

It sees what Python's own functions do, and no more: a determined student finds a way past it, with
`ctypes` or a compiled library. `ctypes` is refused, too, once the hook is set.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_REFUSED = (
    "socket.",
    "subprocess.",
    "os.exec",
    "os.fork",
    "os.posix_spawn",
    "os.spawn",
    "os.startfile",
    "os.system",
    "os.kill",
    "os.chmod",
    "os.chown",
    "os.link",
    "os.symlink",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.truncate",
    "os.utime",
    "shutil.",
    "signal.pthread_kill",
    "ctypes.",
    "winreg.",
    "_winapi.",
    "pty.",
    "mmap.",
    "gc.get_objects",
    "gc.get_referrers",
    "sys.setprofile",
    "sys.settrace",
)
_IN_SCRATCH = ("os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree")
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def restrict(hidden: Iterable[Path], scratch: str = "") -> None:
    """Refuse, from now on and for good, to write files, to read what is hidden, and the rest.

    Args:
        hidden: files and folders that may not be read.
        scratch: a folder in which files may be written, or "".
    """
    closed = tuple(str(path.resolve()) for path in hidden)
    own = os.path.realpath(scratch) + os.sep if scratch else None
    real, null, separator, fspath = os.path.realpath, os.devnull, os.sep, os.fspath

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("open", "os.listdir", "os.scandir"):
            path = arguments[0] if arguments else None
            flags = arguments[2] if event == "open" and isinstance(arguments[2], int) else 0
            if isinstance(path, int) or path is None:
                return
            whole = real(os.fsdecode(fspath(path)))
            if own and whole.startswith(own):
                return
            if (flags & _WRITES and whole != null) or any(
                whole == one or whole.startswith(one + separator) for one in closed
            ):
                raise PermissionError(f"a graded answer may not open {path}")
        elif event.startswith(_REFUSED):
            if own and event in _IN_SCRATCH and _lies_in(arguments, own):
                return
            raise PermissionError(f"a graded answer may not do this ({event})")

    sys.addaudithook(watch)


def _lies_in(arguments: tuple[Any, ...], folder: str) -> bool:
    path = arguments[0] if arguments else None
    return isinstance(path, str | os.PathLike) and os.path.realpath(path).startswith(folder)
