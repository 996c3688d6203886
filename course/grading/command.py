"""`course grade`: grade a folder of students' notebooks."""

from __future__ import annotations

import argparse
import math
import sys
import time
from pathlib import Path

from course.console import duration, say
from course.grading import results
from course.grading.attempts import checks_handed_in, write_checks
from course.grading.pages import CLASS_PAGE
from course.grading.report import report
from course.grading.results import FLAGS, RunAbout, StudentResult
from course.grading.run import Graded, Wishes, grade
from course.grading.sandbox.confine import Limits

_LEFT_OPEN = {
    "files": "On this system nothing but Python itself keeps a student's code from your files",
    "network": "On this system nothing but Python itself keeps a student's code off the network",
    "processes": "On this system a student's code may start and end processes",
    "memory": "On this system the memory of a student's code has no bound",
    "time": "On this system the time of a student's code has no bound",
}


def main(arguments: list[str]) -> int:
    """Grade, say what was found, and return 0, or 1 where somebody could not be graded.

    Args:
        arguments: what stands after `course grade` on the command line.

    Raises:
        InputError: if the submissions, the points or the folder of grades cannot be used.
    """
    if any(one.partition("=")[0] == "--autograder" for one in arguments):
        from course.grading import autograder  # which grades, too, and says what this says

        return autograder.main(arguments)
    options = _parser().parse_args(arguments)
    limits = Limits(seconds=options.seconds, megabytes=options.memory)
    wishes = Wishes(
        submissions=options.submissions,
        out=options.out,
        lessons=tuple(options.lessons),
        points=options.points,
        seeds=options.seeds,
        seed=options.seed,
        jobs=options.jobs,
        resume=options.resume,
        limits=limits,
    )
    began = time.monotonic()
    graded = grade(wishes, _tell)
    write_checks(options.out, checks_handed_in(options.submissions, graded.results))
    report(options.out)
    say(summary(graded, options.out, time.monotonic() - began))
    return 1 if any("not_graded" in one.flags for one in graded.results) else 0


def summary(graded: Graded, out: Path, seconds: float) -> str:
    """Say what a run found, what is to be looked at, and what kept the students' code."""
    count = len(graded.results)
    who = "1 student" if count == 1 else f"{count} students"
    lines = [
        "",
        f"Graded {who} in lesson {', '.join(graded.about.lessons)} in {duration(seconds)}.",
    ]
    if graded.kept:
        lines.append(f"Of {graded.kept} the result of the earlier run still holds.")
    lines.append(f"The table: {out / results.GRADES}")
    lines.append(f"The class: {out / CLASS_PAGE}, which leads to a page for each student")
    lines.append(f"Every diagnosis: {out / results.STUDENTS}, a {results.RESULT} for each student")
    lines.append(f"Other points, excuses, a table of the term: python3 -m course report {out}")
    flagged = [one for one in graded.results if set(_worth_a_look(one))]
    if flagged:
        lines.append("Look at these:")
        lines += [f"  {one.student}: {'; '.join(_worth_a_look(one))}" for one in flagged]
        seen = {flag.split(" ")[-1] for one in flagged for flag in _worth_a_look(one)}
        lines += [f"    {name}: {meaning}." for name, meaning in FLAGS.items() if name in seen]
    return "\n".join([*lines, *protection_lines(graded.about)])


def protection_lines(about: RunAbout) -> list[str]:
    """Say what keeps the students' code on this system, and what does not."""
    held, lines = about.protection.model_dump(), []
    for name, how in held.items():
        if not how or "audit hook" in how:
            lines.append(f"{_LEFT_OPEN[name]}: grade on Linux if you do not trust your students.")
    how = [f"{name} ({text})" for name, text in held.items() if text and "audit hook" not in text]
    return [*lines, f"Kept from the students' code: {'; '.join(how)}."] if how else lines


def _worth_a_look(result: StudentResult) -> list[str]:
    """The flags without those that say only that nothing was handed in."""
    return [flag for flag in result.all_flags if not flag.endswith("absent")]


def _tell(result: StudentResult, done: int, count: int) -> None:
    points = f"{result.points:g} of {result.out_of:g}"
    say(f"{done:>4} of {count}  {points:>12}  {duration(result.seconds):>8}  {result.student}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 -m course grade",
        description="Grade a folder of students' notebooks. Each answer is put into the lesson of "
        "this clone and runs in a process that cannot reach your files.",
        epilog="Each sub-folder is a student; a file beside them belongs to the student that its "
        "name tells. Exit code 0 says that everybody was graded, whatever the grades. "
        "For other points and excuses afterwards: python3 -m course report. "
        "For Gradescope: python3 -m course grade --autograder OUT.zip 07 08",
    )
    parser.add_argument(
        "submissions", type=Path, help="the folder of submissions, or a zip file of it"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("grades"), help="where the grades go (default: grades)"
    )
    parser.add_argument(
        "--lessons",
        nargs="+",
        default=[],
        metavar="NN",
        help="the lessons to grade everybody in (default: all that any submission holds)",
    )
    parser.add_argument(
        "--points",
        type=Path,
        metavar="FILE",
        help='a YAML file of points, "07.1": 2 (default: one for each star)',
    )
    parser.add_argument(
        "--seeds", type=_whole, default=3, metavar="N", help="how many seeds (default: 3)"
    )
    parser.add_argument(
        "--seed", type=int, metavar="N", help="the first seed (default: drawn, and noted)"
    )
    parser.add_argument(
        "--jobs", type=_whole, default=2, metavar="N", help="students at a time (default: 2)"
    )
    parser.add_argument(
        "--seconds",
        type=_positive,
        default=Limits.seconds,
        metavar="S",
        help=f"how long one call of an answer may take (default: {Limits.seconds:g})",
    )
    parser.add_argument(
        "--memory",
        type=_whole,
        default=Limits.megabytes,
        metavar="MB",
        help=f"how much memory an answer may take (default: {Limits.megabytes})",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with a run that was stopped, or grade only what has changed",
    )
    return parser


def _whole(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of 1 or more")
    return number


def _positive(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
