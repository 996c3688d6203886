"""The type checker leaves nothing out; `course test` runs it."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MYPY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]


def lines() -> list[tuple[str, str]]:
    """Every line of the library and of the course's commands, with the place that it stands at."""
    return [
        (f"{file.relative_to(ROOT)}:{number}", line)
        for folder in ("ehr_course", "course")
        for file in (ROOT / folder).rglob("*.py")
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
    ]


def test_no_module_of_the_course_is_left_out():
    assert MYPY["files"] == ["ehr_course", "course"]
    assert "exclude" not in MYPY
    for settings in (MYPY, *MYPY["overrides"]):
        assert not settings.get("ignore_errors")
        assert settings.get("follow_imports", "normal") == "normal"
    named = {name.split(".")[0] for one in MYPY["overrides"] for name in one["module"]}
    assert named.isdisjoint(MYPY["files"])
    assert [place for place, line in lines() if line.startswith("# mypy:")] == []


def test_errors_are_never_left_out_without_their_code():
    bare = [
        place
        for place, line in lines()
        if "# type: ignore" in line and "# type: ignore[" not in line
    ]
    assert bare == []
