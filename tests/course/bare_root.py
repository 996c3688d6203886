"""Runs the instructions of a Dockerfile in a bare Debian, where no Docker daemon is at hand.

It knows what the course's Dockerfile uses, and refuses the rest: FROM, ARG, ENV, RUN, COPY with
`--chown`, USER, WORKDIR, EXPOSE and CMD. It must be root, on Linux, with `debootstrap`.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

KNOWN = {"FROM", "ARG", "ENV", "RUN", "COPY", "USER", "WORKDIR", "EXPOSE", "CMD"}
OF_INSTALLERS = re.compile(r"(PIP|UV)_|\w+_PROXY$|SSL_CERT|REQUESTS_CA", re.IGNORECASE)

# What the image `python:3.11-slim-bookworm` has, too: a bare Debian 12 with its Python 3.11.
PACKAGES = "ca-certificates,netbase,tzdata,python3,python3-venv"

# In namespaces of its own: its devices and processes, what is mounted, and perhaps no network.
INSIDE = """\
import fcntl, os, socket, struct, subprocess, sys
root, user, group, mounts, command = *sys.argv[1:3], sys.argv[3], eval(sys.argv[4]), sys.argv[5:]
for source, target, option in mounts:
    os.makedirs(root + target, exist_ok=True)
    subprocess.run(["mount", "--bind", source, root + target], check=True)
    if option == "ro":
        subprocess.run(["mount", "-o", "remount,bind,ro", root + target], check=True)
os.makedirs(root + "/proc", exist_ok=True)
subprocess.run(["mount", "-t", "proc", "proc", root + "/proc"], check=True)
try:
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 1))
except OSError:
    pass
os.chroot(root)
os.chdir(os.environ["PWD"])
os.setgroups([])
os.setgid(int(group))
os.setuid(int(user))
os.execvpe(command[0], command, os.environ)
"""


def instructions(text: str) -> list[tuple[str, str]]:
    """Return a Dockerfile's instructions as pairs of a name and its arguments."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in joined.splitlines() if line]


def stages(text: str) -> dict[str, tuple[str, list[tuple[str, str]]]]:
    """Return each stage's base and its instructions, by the stage's name."""
    found: dict[str, tuple[str, list[tuple[str, str]]]] = {}
    for name, arguments in instructions(text):
        if name == "FROM":
            base, _, stage = arguments.partition(" AS ")
            current: list[tuple[str, str]] = []
            found[stage] = (base, current)
        else:
            current.append((name, arguments))
    return found


def in_order(text: str, stage: str) -> list[tuple[str, str]]:
    """Return all instructions that make a stage, those of the stages below it first."""
    known = stages(text)
    base, own = known[stage]
    return [*(in_order(text, base) if base in known else ()), *own]


def is_ignored(path: str, patterns: list[str]) -> bool:
    """Return whether `.dockerignore` leaves out a file or a folder, from the context's root."""
    return any(
        fnmatch.fnmatch(path, pattern)
        or (pattern.startswith("**/") and fnmatch.fnmatch(path.rsplit("/", 1)[-1], pattern[3:]))
        for pattern in patterns
    )


@dataclass
class BareRoot:
    """A Debian in a folder, in which a Dockerfile's instructions are run.

    Attributes:
        folder: the root of its files.
        user: who runs what follows, by name; root at first.
        env: its environment variables.
    """

    folder: Path
    user: str = "root"
    work: str = "/"
    command: list[str] = field(default_factory=list)
    env: dict[str, str] = field(
        default_factory=lambda: {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        }
    )

    @classmethod
    def make(cls, folder: Path) -> BareRoot:
        """Make a bare Debian with a Python; it fetches about 60 MB."""
        made = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", "bookworm"]
        subprocess.run([*made, str(folder)], check=True, stdout=subprocess.DEVNULL)
        return cls(folder)

    def build(self, context: Path, stage: str) -> None:
        """Run the instructions of a stage of `context/Dockerfile`, in the network of this machine.

        Raises:
            AssertionError: if one fails, or is one that this does not know.
        """
        self._take_settings()
        text = (context / "Dockerfile").read_text(encoding="utf-8")
        for name, arguments in in_order(text, stage):
            assert name in KNOWN, f"{name} is not known here"
            if name == "ARG":
                variable, _, default = arguments.partition("=")
                self.env[variable] = default
            elif name == "ENV":
                for part in shlex.split(arguments):
                    variable, _, value = part.partition("=")
                    self.env[variable] = self._expand(value)
            elif name == "USER":
                self.user = self._expand(arguments)
            elif name == "WORKDIR":
                self.work = self._expand(arguments)
                (self.folder / self.work.lstrip("/")).mkdir(parents=True, exist_ok=True)
            elif name == "COPY":
                self._copy(context, arguments)
            elif name == "CMD":
                self.command = json.loads(arguments)
            elif name == "RUN":
                self.run(["/bin/sh", "-c", arguments], network=True, mounts=_local_indexes())

    def start(
        self,
        command: list[str],
        *,
        network: bool = False,
        user: str | None = None,
        mounts: tuple[tuple[str, str, str], ...] = (),
    ) -> subprocess.Popen:
        """Start a command inside.

        Args:
            command: the program and its arguments.
            network: whether it has this machine's network; without, only its own address.
            user: a user's number in place of the image's own user.
            mounts: folders of this machine: where, where inside, and "ro" or "rw".
        """
        devices = ("/dev", "/dev", "rw")
        number, group = (user, user) if user else self._numbers()
        alone = ["--net"] if not network else []
        inside = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *alone, sys.executable]
        told = [str(self.folder), number, group, repr([devices, *mounts])]
        env = {**self.env, "PWD": self.work}
        if network:
            env |= {name: value for name, value in os.environ.items() if OF_INSTALLERS.match(name)}
        return subprocess.Popen(
            [*inside, "-c", INSIDE, *told, *command],
            env=env,
            encoding="utf-8",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def run(self, command: list[str], **options) -> str:
        """Run a command inside to its end, and return what it printed."""
        process = self.start(command, **options)
        said, _ = process.communicate(timeout=1200)
        assert process.returncode == 0, f"{shlex.join(command)}\n{said}"
        return said

    def _expand(self, text: str) -> str:
        return re.sub(r"\$\{(\w+)\}", lambda found: self.env[found[1]], text)

    def _numbers(self) -> tuple[str, str]:
        users = (self.folder / "etc/passwd").read_text(encoding="utf-8").splitlines()
        fields = [line.split(":") for line in users]
        [(number, group)] = [(f[2], f[3]) for f in fields if f[0] == self.user]
        return number, group

    def _copy(self, context: Path, arguments: str) -> None:
        options, source, target = arguments.split()
        assert (source, target) == (".", ".")
        owner, ours = self._expand(options.removeprefix("--chown=")), self.user
        patterns = (context / ".dockerignore").read_text(encoding="utf-8").split()
        place = self.folder / self.work.lstrip("/")
        copied = []
        for folder, folders, files in os.walk(context):
            here = Path(folder).relative_to(context)
            folders[:] = [f for f in folders if not is_ignored((here / f).as_posix(), patterns)]
            copied += [place / here / name for name in folders]
            for name in files:
                if not is_ignored((here / name).as_posix(), patterns):
                    (place / here).mkdir(parents=True, exist_ok=True)
                    shutil.copy2(context / here / name, place / here / name)
                    copied.append(place / here / name)
        self.user = owner
        number, group = map(int, self._numbers())
        self.user = ours
        for path in copied:  # not the folder itself, which was there before
            if path.exists():
                os.chown(path, number, group)

    def _take_settings(self) -> None:
        """Give it this machine's name server and certificates, as a Docker daemon would."""
        for file in ("/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt"):
            if Path(file).exists():
                shutil.copyfile(file, self.folder / file.lstrip("/"))


def _local_indexes() -> tuple[tuple[str, str, str], ...]:
    """Return the folders of wheels that this machine's settings name."""
    named = [os.environ.get(name, "") for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS")]
    folders = {part for text in named for part in re.split(r"[\s,]+", text) if part[:1] == "/"}
    return tuple((folder, folder, "ro") for folder in sorted(folders) if Path(folder).is_dir())
