"""The tree says nothing of the machine on which it was written."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SIBLING_DATA = "../" + "shared"
MAY_NAME_SIBLING_DATA = ("tests/real_data/", "benchmarks/")

MACHINE_PATH = re.compile(
    r"(?<![\w.])(?:/work/\w|"
    + re.escape(str(ROOT))
    + r"(?!\w)|"
    + re.escape(str(Path.home()))
    + r"/)"
)
REGISTRY = re.compile(
    r"https?://(?:[\w-]+\.)*(?:pypi\.org|pythonhosted\.org|anaconda\.org|npmjs\.(?:org|com))"
    r"|https?://download\.pytorch\.org|--(?:extra-)?index-url"
)


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Return every text file that belongs to the tree, by its path."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
    )
    if listed.returncode:
        pytest.skip(f"not a git checkout: {listed.stderr.strip()}")
    found = {}
    for path in filter(None, listed.stdout.split("\0")):
        file = ROOT / path
        if file.is_file() and path != "tests/lessons/test_words.py":
            content = file.read_bytes()
            if b"\0" not in content:
                found[path] = content.decode("utf-8", errors="replace")
    assert "pyproject.toml" in found
    return found


def places(texts: dict[str, str], pattern: re.Pattern) -> list[str]:
    return [
        f"{path}, line {number}: {match.group()}"
        for path, text in texts.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if (match := pattern.search(line))
    ]


def test_only_real_data_tests_and_benchmarks_look_beside_the_tree(texts):
    others = {p: t for p, t in texts.items() if not p.startswith(MAY_NAME_SIBLING_DATA)}
    assert places(others, re.compile(re.escape(SIBLING_DATA))) == []


def test_no_file_names_a_path_of_a_machine(texts):
    assert places(texts, MACHINE_PATH) == []


def test_no_file_names_a_package_registry(texts):
    assert places(texts, REGISTRY) == []
