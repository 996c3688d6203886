"""Landlock (Linux 5.13 and later): a process gives up every file that is not named to it.

No right of an administrator is needed, and nothing can take it back. The numbers are those of
`linux/landlock.h` and are the same on every processor.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG = 1
_PATH_BENEATH = 1
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _IOCTL_DEV = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 15
# Remove folders and files, make folders and files; refer and truncate where they are known.
_CHANGE = 1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 13 | 1 << 14
_RIGHTS_BY_VERSION = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}  # how many bits are known
_TCP = 0b11  # bind and connect, from version 4 on
_SCOPED = 0b11  # abstract sockets and signals, from version 6 on

_libc = ctypes.CDLL(None, use_errno=True)


class LandlockError(OSError):
    """The kernel has no Landlock, or refused a rule."""


def version() -> int:
    """Return the version of Landlock, or 0 where there is none."""
    return max(0, _libc.syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG))


def restrict(
    readable: Iterable[Path],
    writable_devices: Iterable[Path] = (),
    writable_folders: Iterable[Path] = (),
) -> int:
    """Give up every file and folder but these, for this process and its children, for good.

    Args:
        readable: files and folders that may be read, with all that is below them.
        writable_devices: files that may be read and written, such as `/dev/null`.
        writable_folders: folders in which files may be made, changed and removed.

    Returns:
        The version of Landlock. From 4 on TCP is given up too, from 6 on signals to others.

    Raises:
        LandlockError: if there is no Landlock.
    """
    found = version()
    if found < 1:
        raise LandlockError(ctypes.get_errno(), "this kernel has no Landlock")
    handled = (1 << _RIGHTS_BY_VERSION.get(found, 16)) - 1
    attributes = struct.pack("=Q", handled)
    if found >= 4:
        attributes += struct.pack("=Q", _TCP)
    if found >= 6:
        attributes += struct.pack("=Q", _SCOPED)
    ruleset = _checked(_libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0))
    try:
        for path in readable:
            _allow(ruleset, path, _READ_FILE | _READ_DIR | _EXECUTE)
        for path in writable_devices:
            _allow(ruleset, path, (_READ_FILE | _WRITE_FILE | _IOCTL_DEV) & handled)
        for path in writable_folders:
            rights = _READ_FILE | _READ_DIR | _WRITE_FILE | _CHANGE
            _allow(ruleset, path, rights & handled)
        no_new_privileges()
        _checked(_libc.syscall(_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    return found


def no_new_privileges() -> None:
    """Give up what a set-uid program could give."""
    _checked(_libc.prctl(38, 1, 0, 0, 0))


def _allow(ruleset: int, path: Path, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no rule
    try:
        if not path.is_dir():
            rights &= ~_READ_DIR
        rule = struct.pack("=Qi", rights, place)
        _checked(_libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
    finally:
        os.close(place)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise LandlockError(number, os.strerror(number))
    return result


def without(folders: Iterable[Path], hidden: Iterable[Path]) -> Iterator[Path]:
    """Yield what to name so that all of some folders can be read except what is hidden.

    A folder that holds something hidden is opened, and its other entries are named one by one.

    Args:
        folders: what may be read.
        hidden: what may not, wherever it lies.
    """
    hidden = [path.resolve() for path in hidden]
    for folder in folders:
        folder = folder.resolve()
        if any(folder.is_relative_to(path) for path in hidden):
            continue
        if any(path.is_relative_to(folder) for path in hidden):
            try:
                inside = sorted(folder.iterdir())
            except OSError:
                continue
            yield from without(inside, hidden)
        else:
            yield folder
