"""`course test`: everything that CI checks, in one command."""

from __future__ import annotations

import argparse
import os
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from course.command_error import CommandError
from course.console import run_visibly, say
from course.environment import become, ensure
from course.installers import find_uv
from course.venv_stamp import runs_inside

REPORT = "build/tests.xml"
LINT_IMPORTS = "from importlinter.cli import lint_imports_command; lint_imports_command()"
BROWSER_TESTS = "tests.browser"


@dataclass(frozen=True)
class Step:
    """One thing that is checked.

    Attributes:
        title: the command as a person would type it in the activated environment.
        arguments: the same for the environment's Python.
        beside_the_next: whether it runs while the next step does, which leaves a processor idle
            now and then; what it says is shown after that step.
    """

    title: str
    arguments: tuple[str, ...]
    beside_the_next: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a step ended.

    Attributes:
        step: which one.
        exit_code: 0 is passed.
        seconds: how long it took.
        said: what it said, if it was not shown at once.
    """

    step: Step
    exit_code: int
    seconds: float
    said: str = ""


# Two processes share the processors; more threads in each would only wait for one another.
ONE_THREAD = {"OMP_NUM_THREADS": "1"}

# On two processes, as course/work_sharing.py shares the tests out.
PYTEST = ("-m", "pytest", "-n", "2", "--dist", "loadfile", "--max-worker-restart=0")
LIBRARY = Step(
    "pytest ehr_course course tests",
    (*PYTEST, "ehr_course", "course", "tests", f"--junitxml={REPORT}"),
)
STEPS = (
    Step("ruff check", ("-m", "ruff", "check", ".")),
    Step("ruff format --check", ("-m", "ruff", "format", "--check", ".")),
    Step("lint-imports", ("-c", LINT_IMPORTS)),
    Step("mypy", ("-m", "mypy"), beside_the_next=True),
    LIBRARY,
    Step("pytest --nbval lessons/", (*PYTEST, "--nbval", "lessons/")),
)
OF_A_RELEASE = "ehr_course/exercises/exercises.pack"
OF_STUDENTS = STEPS[-1:]
"""What can be checked in a folder that `course release` has made: it has no tests."""


ELSEWHERE = ("--oldest", "--newest", "--wheel")


def main(root: Path, arguments: list[str]) -> int:
    """Run every step, whatever the others give, and end with a table.

    Args:
        root: the clone.
        arguments: for pytest; with any, one pytest run with them replaces all steps. Or one of
            ELSEWHERE and what belongs to it, which runs other tests, in other environments.

    Returns:
        0 if every step passed, otherwise 1.
    """
    python = ensure(root)
    if arguments and arguments[0] in ELSEWHERE:
        if (root / OF_A_RELEASE).is_file():
            raise CommandError("This folder has no tests.", "Run this in a clone.", exit_code=2)
        return _elsewhere(root, arguments)
    report = root / REPORT
    report.parent.mkdir(exist_ok=True)
    report.unlink(missing_ok=True)
    steps = OF_STUDENTS if (root / OF_A_RELEASE).is_file() else STEPS
    if arguments:
        title = " ".join(["pytest", *arguments])
        steps = (Step(title, ("-m", "pytest", f"--junitxml={REPORT}", *arguments)),)
    outcomes = _run_all(steps, root, python)
    browser = browser_part(report) if steps is not OF_STUDENTS else "not in this folder"
    say(table(outcomes, browser=browser))
    if arguments:
        say("With arguments only pytest ran. All checks: python3 -m course test")
    failed = sum(outcome.exit_code != 0 for outcome in outcomes)
    say(f"{failed} of {len(outcomes)} failed." if failed else f"All {len(outcomes)} passed.")
    return 1 if failed else 0


def _run_all(steps: Sequence[Step], root: Path, python: Path | str) -> list[Outcome]:
    """Run every step, whatever the others give, and return their outcomes in the same order."""
    outcomes: dict[Step, Outcome] = {}
    beside: list[Future[Outcome]] = []
    with ThreadPoolExecutor(max_workers=1) as pool:
        for number, step in enumerate(steps, start=1):
            say(f"=== {number}/{len(steps)} {step.title}")
            if step.beside_the_next:
                beside.append(pool.submit(_run_unseen, step, root, python))
                say("It runs beside the next step. What it says stands below that one.\n")
                continue
            started = time.monotonic()
            exit_code = run_visibly(
                [python, *step.arguments], cwd=root, environment=os.environ | ONE_THREAD
            )
            outcomes[step] = Outcome(step, exit_code, time.monotonic() - started)
            say()
            for earlier in (one.result() for one in beside):
                outcomes[earlier.step] = earlier
                say(f"=== {earlier.step.title}, which ran beside it\n{earlier.said}")
            beside.clear()
    return [outcomes[step] for step in steps]


def _run_unseen(step: Step, root: Path, python: Path | str) -> Outcome:
    started = time.monotonic()
    done = subprocess.run(
        [str(python), *step.arguments],
        cwd=root,
        env=os.environ | ONE_THREAD,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    return Outcome(step, done.returncode, time.monotonic() - started, done.stdout)


def _elsewhere(root: Path, arguments: list[str]) -> int:
    """Test with other versions than those of `.venv`, or with the wheel alone."""
    if not runs_inside(root):
        return become(root, ["-m", "course", "test", *arguments])
    # These need packages of .venv, which is there now.
    from course import bare_wheel, other_environments

    uv = find_uv(root)
    if uv is None:
        raise CommandError(
            "uv is missing in .venv, which makes such environments.",
            "Delete .venv and start again, or install uv.",
        )
    which, rest = arguments[0].removeprefix("--"), arguments[1:]
    if which == "wheel":
        return bare_wheel.main(root, uv, rest)
    parser = argparse.ArgumentParser(prog=f"python3 -m course test --{which}", add_help=False)
    parser.add_argument("--python")
    options, tests = parser.parse_known_args(rest)
    return other_environments.main(root, uv, which, options.python, tests)


def table(outcomes: list[Outcome], *, browser: str) -> str:
    """Return the closing table: a line a step, and one for the browser tests.

    >>> print(table([Outcome(Step("ruff check", ()), 0, 0.31)], browser="ran (2 tests)"))
    step           result           seconds
    ruff check     passed               0.3
    browser tests  ran (2 tests)
    """
    rows = [("step", "result", "seconds")]
    for outcome in outcomes:
        code = outcome.exit_code
        if code == 0:
            result = "passed"
        elif code == 5 and "pytest" in outcome.step.title:
            result = "FAILED: no test ran"
        else:
            result = f"FAILED (exit {code})"
        rows.append((outcome.step.title, result, f"{outcome.seconds:.1f}"))
    rows.append(("browser tests", browser, ""))
    widths = [max(len(row[column]) for row in rows[:-1]) for column in range(3)]
    widths[0] = max(widths[0], len(rows[-1][0]))
    widths[1] = max(widths[1], 15)
    return "\n".join(
        f"{title:<{widths[0]}}  {result:<{widths[1]}}  {seconds:>{widths[2]}}".rstrip()
        for title, result, seconds in rows
    )


def browser_part(report: Path) -> str:
    """Return in words what became of the browser tests in a pytest report.

    Args:
        report: the JUnit XML file that pytest wrote; it may be missing.
    """
    if not report.exists():
        return "did not run"
    cases = [
        case
        for case in ElementTree.parse(report).iter("testcase")
        if f"{case.get('classname')}.{case.get('name')}".lstrip(".").startswith(BROWSER_TESTS)
    ]
    skipped = [found for case in cases if (found := case.find("skipped")) is not None]
    if not cases:
        return "did not run"
    if not skipped:
        return f"ran ({len(cases)})"
    reason = (skipped[0].get("message") or "no reason given").splitlines()[0]
    return f"SKIPPED {len(skipped)} of {len(cases)}: {reason}"
