"""`course test` runs everything, whatever fails, and its exit code and table agree."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from course.checks import Outcome, Step, browser_part, table

XML = """<testsuites><testsuite>
<testcase classname="tests.test_records" name="test_a"/>
{cases}
</testsuite></testsuites>"""


def test_everything_that_ci_checks_is_run_in_order(clone):
    done = clone.with_uv().course("test")
    assert done.returncode == 0, done.stderr
    ruff, formatting, imports, *beside, lessons = clone.calls("python")
    types, library = sorted(beside)  # either may be quicker to begin
    assert ruff == "-m ruff check ."
    assert formatting == "-m ruff format --check ."
    assert "lint_imports_command" in imports
    shared = "-m pytest -n 2 --dist loadfile --max-worker-restart=0"
    assert types == "-m mypy"
    assert library == f"{shared} ehr_course course tests --junitxml=build/tests.xml"
    assert lessons == f"{shared} --nbval lessons/"
    assert "All 6 passed." in done.stdout


@pytest.mark.parametrize(
    ("where", "title"),
    [
        ("ruff check", "ruff check"),
        ("ruff format", "ruff format --check"),
        ("lint_imports", "lint-imports"),
        ("-m mypy", "mypy"),
        ("ehr_course course tests", "pytest ehr_course course tests"),
        ("--nbval", "pytest --nbval lessons/"),
    ],
)
def test_one_failed_step_fails_the_command_and_the_others_still_run(clone, where, title):
    done = clone.with_uv().course("test", FAIL_WHERE=where)
    assert done.returncode == 1
    assert len(clone.calls("python")) == 6
    assert re.search(rf"^{re.escape(title)} +FAILED \(exit 1\)", done.stdout, re.MULTILINE)
    assert done.stdout.count(" passed ") == 5
    assert done.stdout.endswith("1 of 6 failed.\n")


def test_what_runs_beside_the_tests_says_its_word_after_them(clone):
    done = clone.with_uv().course("test", PYTHON_SAYS="yes")
    said = re.findall(r"^(?:=== .*|ran -m (?:mypy|pytest))", done.stdout, re.MULTILINE)
    assert said == [
        "=== 1/6 ruff check",
        "=== 2/6 ruff format --check",
        "=== 3/6 lint-imports",
        "=== 4/6 mypy",
        "=== 5/6 pytest ehr_course course tests",
        "ran -m pytest",
        "=== mypy, which ran beside it",
        "ran -m mypy",
        "=== 6/6 pytest --nbval lessons/",
        "ran -m pytest",
    ]


def test_a_run_without_a_test_is_a_failure_and_says_so(clone):
    done = clone.with_uv().course("test", FAIL_WHERE="--nbval", FAIL_EXIT="5")
    assert done.returncode == 1
    assert re.search(r"pytest --nbval lessons/ +FAILED: no test ran", done.stdout)


def test_with_arguments_only_pytest_runs_with_them(clone):
    done = clone.with_uv().course("test", "tests/course", "-k", "two words")
    assert clone.calls("python") == [
        "-m pytest --junitxml=build/tests.xml tests/course -k two words"
    ]
    assert "With arguments only pytest ran." in done.stdout


def test_an_old_report_says_nothing_about_this_run(clone):
    (clone.root / "build").mkdir()
    case = '<testcase classname="tests.browser.test_lab" name="test_widget"/>'
    (clone.root / "build/tests.xml").write_text(XML.format(cases=case), encoding="utf-8")
    done = clone.with_uv().course("test")
    assert re.search(r"browser tests +did not run", done.stdout)


@pytest.mark.parametrize(
    ("cases", "words"),
    [
        ("", "did not run"),
        ('<testcase classname="tests.browser.test_lab" name="test_widget"/>', "ran (1)"),
        (
            '<testcase classname="tests.browser.test_lab" name="test_widget">'
            '<skipped message="no chromium found"/></testcase>',
            "SKIPPED 1 of 1: no chromium found",
        ),
        (
            '<testcase classname="" name="tests.browser.test_lab">'
            '<skipped message="no chromium found"/></testcase>',
            "SKIPPED 1 of 1: no chromium found",
        ),
    ],
)
def test_the_report_tells_what_became_of_the_browser_tests(tmp_path, cases, words):
    report = tmp_path / "tests.xml"
    report.write_text(XML.format(cases=cases), encoding="utf-8")
    assert browser_part(report) == words


def test_the_table_aligns_its_columns():
    outcomes = [
        Outcome(Step("short", ()), 0, 1.26),
        Outcome(Step("a longer step", ()), 3, 100.0),
    ]
    assert table(outcomes, browser="did not run").splitlines() == [
        "step           result           seconds",
        "short          passed               1.3",
        "a longer step  FAILED (exit 3)    100.0",
        "browser tests  did not run",
    ]


ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such background")
def test_an_interrupt_arrives_in_a_run_that_a_shell_has_put_into_the_background(tmp_path):
    test = tmp_path / "test_interrupt.py"
    test.write_text(
        "import signal, pytest\n\n"
        "def test_it():\n"
        "    with pytest.raises(KeyboardInterrupt):\n"
        "        signal.raise_signal(signal.SIGINT)\n"
    )
    options = ["-q", "-p", "no:cacheprovider", "-n", "0", f"--rootdir={ROOT}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "-p", "conftest", str(test)],
        cwd=ROOT,
        # What is started in the background ignores interrupts.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_IGN),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
