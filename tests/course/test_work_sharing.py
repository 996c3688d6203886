"""What two processes of the tests get: every test once, lessons apart, the slowest first."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from course.work_sharing import LESSON_BY_LESSON, SLOWEST_FIRST, read_lesson_times, slowness

ROOT = Path(__file__).resolve().parents[2]

BY_LESSON = """
import pytest

@pytest.mark.parametrize("lesson", ["07_tokenization", "09_corruption"])
def test_one(lesson): pass

@pytest.mark.parametrize("lesson", ["07_tokenization", "09_corruption"])
def test_two(lesson): pass
"""
OTHERS = "\n".join(f"def test_{name}(): pass" for name in ("a", "b", "c"))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """(process, test) of each test that two processes ran, in the order in which they ended."""
    root = tmp_path_factory.mktemp("course")
    shutil.copy(ROOT / "conftest.py", root)
    shutil.copytree(ROOT / "course", root / "course", ignore=shutil.ignore_patterns("checkpoints"))
    (root / "tests" / "lessons").mkdir(parents=True)
    (root / "tests" / "lessons" / "test_solved.py").write_text(BY_LESSON, encoding="utf-8")
    for file in ("test_first.py", "test_last.py"):
        (root / "tests" / file).write_text(OTHERS, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadfile", "-v", "tests"]
    run = subprocess.run(command, cwd=root, capture_output=True, encoding="utf-8", timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    return re.findall(r"^\[(gw\d)\].* PASSED (\S+)", run.stdout, re.MULTILINE)


def processes_of(ran: list[tuple[str, str]], *, file: str, ending: str = "") -> set[str]:
    return {p for p, test in ran if test.startswith(file) and test.rstrip().endswith(ending)}


def test_every_test_runs_once(ran):
    tests = [test for _, test in ran]
    assert len(tests) == len(set(tests)) == 10


def test_the_tests_of_a_file_stay_together(ran):
    for file in ("tests/test_first.py", "tests/test_last.py"):
        assert len(processes_of(ran, file=file)) == 1


def test_a_lessons_tests_stay_together_and_two_lessons_are_shared_out(ran):
    file = "tests/lessons/test_solved.py"
    seven = processes_of(ran, file=file, ending="[07_tokenization]")
    nine = processes_of(ran, file=file, ending="[09_corruption]")
    assert len(seven) == len(nine) == 1
    assert seven != nine


def test_each_process_begins_with_the_lessons(ran):
    for process in ("gw0", "gw1"):
        first = next(test for of, test in ran if of == process)
        assert first.startswith("tests/lessons/test_solved.py")


def test_every_path_that_is_named_is_there():
    missing = [name for name in (*LESSON_BY_LESSON, *SLOWEST_FIRST) if not (ROOT / name).exists()]
    assert missing == []


def test_every_lesson_has_a_time():
    lessons = {path.stem for path in (ROOT / "lessons").glob("*.py")}
    assert read_lesson_times(ROOT).keys() == lessons


@pytest.mark.parametrize(
    ("sooner", "later"),
    [
        ("tests/browser/test_lesson_07.py::test_a", "tests/lessons/test_solved.py::test_b[x]"),
        ("tests/book/test_book.py::test_a", "tests/test_losses.py::test_b"),
        (
            "tests/real_data/test_lessons_on_demo.py::test_a[09_corruption-100]",
            "tests/real_data/test_icd9_on_demo.py::test_b",
        ),
        (
            "lessons/09_corruption.ipynb::Cell 0",
            "lessons/07_tokenization.ipynb::Cell 0",
        ),
    ],
)
def test_what_takes_long_comes_before_what_does_not(sooner, later):
    times = {"07_tokenization": 6, "09_corruption": 32}
    assert slowness(sooner, times) < slowness(later, times)
