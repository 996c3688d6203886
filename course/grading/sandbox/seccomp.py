"""A seccomp filter (Linux): a process gives up the network, other processes, and files' rights.

It is a list of what is refused, on top of Landlock, which has no say in sockets, signals, new
processes, `chmod` and `ptrace`. A refused call fails with "operation not permitted".
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

_libc = ctypes.CDLL(None, use_errno=True)

_ARCHITECTURES = {"x86_64": (0xC000003E, 0, 317), "aarch64": (0xC00000B7, 1, 277)}
"""By machine: its number for the kernel, its column in the tables, and the number of seccomp."""

# Columns: x86_64 and aarch64, None where there is no such call. From the kernel's own tables,
# arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h.
_REFUSED: dict[str, tuple[int | None, int | None]] = {
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_by_handle_at": (304, 265),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "userfaultfd": (323, 282),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "lchown": (94, None),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "sched_setaffinity": (203, 122),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "syslog": (103, 116),
}
_OF_OTHERS = {"kill": (62, 129), "tgkill": (234, 131), "prlimit64": (302, 261)}
"""Allowed where the first argument is 0 or this process's own number, except `kill`'s 0."""
_CLONE, _CLONE3 = (56, 220), (435, 435)
_CLONE_THREAD = 0x00010000

_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data, little-endian


class SeccompError(OSError):
    """The kernel has no such filters, or this processor's call numbers are not known."""


def restrict() -> None:
    """Give up the network, other processes and changes of files' rights, for good.

    Raises:
        SeccompError: if that cannot be done.
    """
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        raise SeccompError(errno.ENOSYS, f"the calls of {machine} are not known")
    code = _filter(*_ARCHITECTURES[machine][:2], own=os.getpid())
    instructions = ctypes.create_string_buffer(b"".join(code), 8 * len(code))
    program = struct.pack("HxxxxxxP", len(code), ctypes.addressof(instructions))
    if _libc.prctl(38, 1, 0, 0, 0) != 0:  # no new privileges, without which there are no filters
        raise SeccompError(ctypes.get_errno(), "no_new_privs was refused")
    # 1: set a filter; 1: for all threads of the process.
    if _libc.syscall(_ARCHITECTURES[machine][2], 1, 1, program) != 0:
        number = ctypes.get_errno()
        raise SeccompError(number, os.strerror(number))


def _filter(machine: int, column: int, *, own: int) -> list[bytes]:
    refuse = _step(_RETURN, _REFUSE | errno.EPERM)
    allow = _step(_RETURN, _ALLOW)
    code = [
        _step(_LOAD, _MACHINE),
        _step(_EQUAL, machine, 1, 0),
        refuse,
        _step(_LOAD, _NUMBER),
        _step(_AT_LEAST, 0x40000000, 0, 1),  # the calls of x32
        refuse,
    ]
    for numbers in _REFUSED.values():
        number = numbers[column]
        if number is not None:
            code += [_step(_EQUAL, number, 0, 1), refuse]
    # glibc falls back to clone, whose flags can be read.
    code += [_step(_EQUAL, _CLONE3[column], 0, 1), _step(_RETURN, _REFUSE | errno.ENOSYS)]
    code += [
        _step(_EQUAL, _CLONE[column], 0, 4),
        _step(_LOAD, _FIRST_ARGUMENT),
        _step(_ANY_BIT, _CLONE_THREAD, 0, 1),
        allow,
        refuse,
    ]
    for name, numbers in _OF_OTHERS.items():
        code += [
            _step(_EQUAL, numbers[column], 0, 5),
            _step(_LOAD, _FIRST_ARGUMENT),
            _step(_EQUAL, own, 2, 0),
            _step(_EQUAL, own if name == "kill" else 0, 1, 0),
            refuse,
            allow,
        ]
    return [*code, allow]


def _step(operation: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("HBBI", operation, if_true, if_false, value)
