"""What the type checker leaves out is a list that shrinks; `course test` runs the checker."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MYPY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]

MOST_NOT_CLEAN = 58
"""How many modules may be left out of the check. The number only ever falls."""


def not_clean() -> list[str]:
    """The modules whose errors are left out."""
    [modules] = [one["module"] for one in MYPY["overrides"] if one.get("ignore_errors")]
    return modules


def test_what_is_left_out_is_a_list_of_modules_that_shrinks():
    modules = not_clean()
    assert len(modules) <= MOST_NOT_CLEAN
    assert modules == sorted(set(modules))
    missing = [
        name
        for name in modules
        if not (ROOT / name.replace(".", "/")).with_suffix(".py").is_file()
    ]
    assert missing == []


def test_errors_are_never_left_out_without_their_code():
    bare = [
        f"{file.relative_to(ROOT)}:{number}"
        for folder in ("ehr_course", "course")
        for file in (ROOT / folder).rglob("*.py")
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        if "# type: ignore" in line and "# type: ignore[" not in line
    ]
    assert bare == []
