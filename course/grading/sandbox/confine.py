"""Confine this process before it runs a student's code, and say what holds.

What can be had depends on the system: Landlock and seccomp on Linux, limits on POSIX, another user
where the grader is root, and an audit hook everywhere.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]  # a module or nothing: `confine` asks which

from course.grading.sandbox import hook

FILE_BYTES, SCRATCH_FILE_BYTES = 1 << 20, 1 << 28
OPEN_FILES = 128
_CAPSET = {"x86_64": 126, "aarch64": 91}  # the call's number
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full")
_READABLE = (
    *("/usr/lib", "/usr/lib64", "/lib", "/lib64", "/usr/local/lib", "/usr/share/zoneinfo"),
    *("/etc/ld.so.cache", "/etc/localtime", "/dev/urandom", "/dev/random"),
    *("/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/sys/devices/system/cpu"),
)


@dataclass(frozen=True)
class Limits:
    """How much a student's code may use.

    Attributes:
        seconds: of wall time, for one call of an answer.
        all_seconds: of wall time, for all calls with the inputs of one seed.
        load_seconds: of wall time, to run what stands around an answer.
        cpu_seconds: of processor time, for everything that one process does.
        megabytes: of memory beyond what the process has when it starts.
        scratch: a folder for temporary files, which are then allowed, or "".
    """

    seconds: float = 10.0
    all_seconds: float = 60.0
    load_seconds: float = 60.0
    cpu_seconds: int = 90
    megabytes: int = 1024
    scratch: str = ""


@dataclass(frozen=True)
class Walls:
    """What a student's code may and may not see.

    Attributes:
        readable: folders that may be read.
        hidden: what may not be read, even below those.
        user: a number to become, where this process is root's; None to stay.
    """

    readable: tuple[Path, ...]
    hidden: tuple[Path, ...]
    user: int | None = None


def confine(limits: Limits, walls: Walls) -> dict[str, str]:
    """Confine this process for good.

    Returns:
        What keeps it, as the fields of `course.grading.results.Protection`.
    """
    held = {"files": "", "network": "", "processes": "", "memory": "", "time": "watched from afar"}
    if resource is not None:
        held.update(_limit(limits))
    if walls.user is not None:
        os.setgroups([])
        os.setgid(walls.user)
        os.setuid(walls.user)
    if sys.platform == "linux":
        _give_up_rights()
        held.update(_close_linux(walls, limits.scratch))
    if not (held["files"] and held["network"] and held["processes"]):
        hook.restrict(walls.hidden, limits.scratch)
        weak = "an audit hook of Python's, which compiled code gets past"
        held.update({name: how or weak for name, how in held.items() if name != "memory"})
    return held


def _limit(limits: Limits) -> dict[str, str]:
    held = {}
    for name, amount in (
        ("CORE", 0),
        ("FSIZE", SCRATCH_FILE_BYTES if limits.scratch else FILE_BYTES),
        ("NOFILE", OPEN_FILES),
        ("CPU", limits.cpu_seconds),
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (amount, amount))
            if name == "CPU":
                held["time"] = f"{limits.cpu_seconds} s of processor time, and watched from afar"
    if sys.platform == "linux":
        now = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        amount = now * resource.getpagesize() + (limits.megabytes << 20)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (amount, amount))
            held["memory"] = f"{limits.megabytes} MB beyond its start"
    return held


def _close_linux(walls: Walls, scratch: str) -> dict[str, str]:
    from course.grading.sandbox import landlock, seccomp

    held = {}
    readable = [*walls.readable, *map(Path, _READABLE)]
    try:
        named = list(landlock.without([one for one in readable if one.exists()], walls.hidden))
        own = [Path(scratch)] if scratch else []
        found = landlock.restrict(named, [Path(one) for one in _DEVICES], own)
        held["files"] = f"Landlock {found}: reads the libraries alone, writes nothing"
    except OSError:
        pass
    try:
        seccomp.restrict()
        held["network"] = "seccomp: no sockets"
        held["processes"] = "seccomp: no new processes, no signals to others"
    except OSError:
        pass
    return held


def _give_up_rights() -> None:
    """Give up root's rights, and end when the process does that started this one."""
    import ctypes

    libc = ctypes.CDLL(None)
    libc.prctl(1, int(signal.SIGKILL), 0, 0, 0)
    if os.geteuid() == 0 and platform.machine() in _CAPSET:  # a root without any of root's rights
        header, nothing = struct.pack("=Ii", 0x20080522, 0), bytes(24)
        libc.syscall(_CAPSET[platform.machine()], header, nothing)


def user_to_become(places: Sequence[Path]) -> int | None:
    """Return the number of a user that has nothing, if this process is root's.

    None where it is not, or where such a user could not read the libraries: a clone in root's own
    folder, for example.

    Args:
        places: folders that the user has to read.
    """
    if not hasattr(os, "fork") or os.geteuid() != 0:
        return None
    user = 61_184
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            for place in places:
                os.listdir(place)  # noqa: PTH208 (nothing but the right to read is asked)
            os._exit(0)
        except BaseException:
            os._exit(1)
    return user if os.waitpid(child, 0)[1] == 0 else None
