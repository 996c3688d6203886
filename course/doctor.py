"""`course doctor`: a report on this machine to paste into a bug report."""

from __future__ import annotations

import getpass
import json
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path

from course.console import say
from course.venv_stamp import venv_python, work_needed

MAX_FILES = 20
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
PROBE_SECONDS = 120


def main(root: Path, arguments: list[str]) -> int:
    """Print the report and return 0.

    Args:
        root: the clone.
        arguments: what stands after `course doctor` on the command line: nothing.

    Raises:
        SystemExit: with exit code 2, if there are arguments.
    """
    if arguments:
        say("course doctor takes no arguments.")
        return 2
    say(report(root))
    return 0


def report(root: Path) -> str:
    """Return the report: a line a fact, without the user's name or home folder."""
    inside = _ask_environment(root)
    work = work_needed(root)
    facts = {
        "system": _system(),
        "python": f"{platform.python_version()} ({platform.python_implementation()})",
        "uv": "found" if shutil.which("uv") else "not found",
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": _memory(),
        "disk": f"{shutil.disk_usage(root).free / 1e9:.1f} GB free",
        "gpu": inside.get("gpu", "not known without .venv"),
        "browser": "chromium found" if any(map(shutil.which, CHROMIUM_NAMES)) else "no chromium",
        "clone": str(root),
        "commit": _commit(root),
        ".venv": "ready" if work is None else f"not ready: {work.reason}",
        ".venv python": inside.get("python", "not known"),
        "EHR_COURSE_DATA": "set" if os.environ.get("EHR_COURSE_DATA") else "not set",
        "progress file": inside.get("progress", "not known without .venv"),
    }
    facts.update(inside.get("packages", {}))
    width = max(map(len, facts))
    lines = [f"{name:<{width}}  {without_user(value)}" for name, value in facts.items()]
    return "\n".join(["course doctor", *lines])


def without_user(text: str, *, home: str | None = None, user: str | None = None) -> str:
    """Return the text with the home folder, and the user's name as a word, replaced by `~`.

    >>> without_user("/home/ana/course and /data/ana/x", home="/home/ana", user="ana")
    '~/course and /data/~/x'
    """
    home = str(Path.home()) if home is None else home
    user = _user() if user is None else user
    if len(home) > 1:
        text = text.replace(home, "~").replace(os.path.realpath(home), "~")
    if user:
        text = re.sub(rf"(?<!\w){re.escape(user)}(?!\w)", "~", text, flags=re.IGNORECASE)
    return text


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def _ask_environment(root: Path) -> dict:
    python = venv_python(root)
    if not python.exists():
        return {}
    try:
        answer = subprocess.run(
            [str(python), "-m", "course.probe"],
            cwd=root,
            capture_output=True,
            check=True,
            encoding="utf-8",
            timeout=PROBE_SECONDS,
        )
        return json.loads(answer.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return {"python": f"does not answer ({type(error).__name__})"}


def _system() -> str:
    kernel = f"{platform.system()} {platform.release()} {platform.machine()}"
    try:
        return f"{kernel} ({platform.freedesktop_os_release()['PRETTY_NAME']})"
    except (OSError, KeyError):
        return kernel


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or "not known"
    model = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return model.group(1) if model else platform.machine()


def _memory() -> str:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return "not known"
    return f"{total / 2**30:.1f} GiB"


def _commit(root: Path) -> str:
    commit = _git(root, "rev-parse", "--short", "HEAD")
    if commit is None:
        return "not known: no git, or not a git clone"
    changed = (_git(root, "status", "--porcelain") or "").splitlines()
    if not changed:
        return f"{commit.strip()}, nothing changed"
    shown = [line.strip() for line in changed[:MAX_FILES]]
    more = f" and {len(changed) - MAX_FILES} more" if len(changed) > MAX_FILES else ""
    return f"{commit.strip()}, {len(changed)} changed: {'; '.join(shown)}{more}"


def _git(root: Path, *arguments: str) -> str | None:
    try:
        answer = subprocess.run(
            ["git", *arguments],
            cwd=root,
            capture_output=True,
            check=True,
            encoding="utf-8",
            errors="replace",
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout
