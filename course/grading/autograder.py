"""The grader for Gradescope: a zip file to upload, and what runs there for each submission.

Gradescope unpacks the zip file to `/autograder/source`, runs `setup.sh` once, and `run_autograder`
for each submission, which it puts into `/autograder/submission`. The form is that of
https://gradescope-autograders.readthedocs.io/en/latest/specs/.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from course.command_error import CommandError
from course.console import say
from course.grading.command import protection_lines
from course.grading.gradescope import FILE, gradescope_results, written
from course.grading.points import points_of
from course.grading.results import write_whole
from course.grading.run import Wishes, grade
from course.release import TOP
from course.syllabus import Lesson, load_syllabus
from ehr_course.errors import InputError

ROOT = Path(__file__).resolve().parent.parent.parent
POINTS = "points.yml"

_FOLDERS = ("ehr_course", "course")
_LEFT_OUT = ("course/book", "course/lesson_template", "ehr_course/_course")
_SKIPPED = {"__pycache__", ".ipynb_checkpoints"}
_DAY_ZERO = (1980, 1, 1, 0, 0, 0)

SETUP = """\
#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image. It needs no password and no key.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
apt-get update
for version in 3.13 3.12 3.11; do
  if apt-get install -y "python$version" "python$version-venv"; then
    cd /autograder/source
    exec "python$version" -m course lab --prepare-only
  fi
done
echo "setup.sh: this image has no Python 3.11 or newer. Choose a newer Ubuntu in Gradescope." >&2
exit 1
"""

RUN = """\
#!/usr/bin/env bash
# Gradescope runs this for each submission.
set -euo pipefail
at="${{AUTOGRADER:-/autograder}}"
cd "$at/source"
exec "${{COURSE_PYTHON:-.venv/bin/python}}" -m course.grading.autograder --at "$at" {arguments}
"""


def main(arguments: list[str]) -> int:
    """Write the zip file, say what is in it, and return 0.

    Args:
        arguments: what stands after `course grade`, `--autograder` among it.

    Raises:
        CommandError: if a lesson is unknown, or the zip file is there already.
        InputError: if the file of points cannot be used.
    """
    parser = argparse.ArgumentParser(
        prog="python3 -m course grade",
        description="Make a zip file that grades some lessons on Gradescope.",
    )
    parser.add_argument("lessons", nargs="+", metavar="NN", help="the lessons to grade")
    parser.add_argument("--autograder", type=Path, required=True, metavar="OUT.zip")
    parser.add_argument("--points", type=Path, metavar="FILE", help="a YAML file of points")
    options = parser.parse_args(arguments)
    for line in pack(ROOT, options.lessons, options.autograder, options.points):
        say(line)
    return 0


def pack(root: Path, numbers: Sequence[str], out: Path, points: Path | None = None) -> list[str]:
    """Write the zip file that Gradescope takes. It has the solutions: it is for teachers.

    Args:
        root: the clone.
        numbers: of the lessons, in any order.
        out: the zip file; it must not be there.
        points: a file of points, or None for one for each star.

    Returns:
        What to tell the teacher, line by line.

    Raises:
        CommandError: if a lesson is unknown, or the zip file is there already.
        InputError: if the file of points cannot be used.
    """
    lessons = _chosen(numbers)
    points_of(lessons, points)
    if out.exists():
        raise CommandError(f"{out} is there already.", "Delete it, or choose another name.")
    out.parent.mkdir(parents=True, exist_ok=True)
    unfinished = out.with_name(f".{out.name}.unfinished")
    arguments = ["--lessons", *(lesson.number for lesson in lessons)]
    arguments += ["--points", POINTS] if points else []
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
            _add(archive, "setup.sh", SETUP.encode(), 0o755)
            run = RUN.format(arguments=" ".join(arguments))
            _add(archive, "run_autograder", run.encode(), 0o755)
            for path in _files(root, lessons):
                _add(archive, path.relative_to(root).as_posix(), path.read_bytes())
            if points:
                _add(archive, POINTS, points.read_bytes())
        unfinished.replace(out)
    finally:
        unfinished.unlink(missing_ok=True)
    which = ", ".join(lesson.number for lesson in lessons)
    megabytes = out.stat().st_size / 1e6
    return [
        f"{out} ({megabytes:.1f} MB) grades lesson {which} on Gradescope.",
        "It holds the solutions: upload it as the autograder, and give it to nobody.",
        "Its setup downloads PyTorch, once. Choose a container of at least 2 CPUs and 4 GB.",
    ]


def grade_one(at: Path, lessons: Sequence[str], points: Path | None = None) -> dict[str, Any]:
    """Grade the one submission of a Gradescope container, and write `results/results.json`.

    Args:
        at: the folder that has `submission` and `results`, `/autograder` on Gradescope.
        lessons: the numbers of the lessons.
        points: a file of points, or None.

    Returns:
        What was written.

    Raises:
        InputError: if something other than the submission cannot be used. Then no result is
            written, so that Gradescope reports a failure and not 0 points.
    """
    with tempfile.TemporaryDirectory(prefix="ehr-course-gradescope-") as work:
        # Two folders deep: so it is one student, however many folders were handed in.
        submissions = Path(work, "submissions")
        shutil.copytree(at / "submission", submissions / "student" / "submission", symlinks=True)
        wishes = Wishes(
            submissions, Path(work, "grades"), lessons=tuple(lessons), points=points, jobs=1
        )
        graded = grade(wishes)
    [result] = graded.results
    if "not_graded" in result.flags:
        raise InputError(
            at / "submission", "", " ".join(result.notes), "Run the autograder again."
        )
    content = gradescope_results(result)
    write_whole(at / "results" / FILE, written(content))
    for line in protection_lines(graded.about):
        say(line)
    return content


def _chosen(numbers: Sequence[str]) -> list[Lesson]:
    known = {lesson.number: lesson for lesson in load_syllabus()}
    wanted = [number.zfill(2) for number in numbers]
    unknown = [number for number in wanted if number not in known]
    if unknown:
        problem = f"There is no lesson {', '.join(unknown)}."
        raise CommandError(problem, f"The lessons are: {', '.join(known)}.", exit_code=2)
    return [lesson for number, lesson in known.items() if number in wanted]


def _files(root: Path, lessons: Sequence[Lesson]) -> Iterator[Path]:
    """What grading needs: the library, the course's tool, these lessons and their solutions."""
    yield from (root / name for name in (*TOP, "README.md") if (root / name).is_file())
    for folder in _FOLDERS:
        yield from _below(root / folder, {root / name for name in _LEFT_OUT})
    for lesson in lessons:
        yield from (root / "lessons" / f"{lesson.name}{end}" for end in (".py", ".ipynb"))
        yield root / "solutions" / f"{lesson.name}.py"


def _below(folder: Path, left_out: set[Path]) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path in left_out or path.name in _SKIPPED or path.suffix in (".pyc", ".egg-info"):
            continue
        if path.is_dir():
            yield from _below(path, left_out)
        elif path.is_file():
            yield path


def _add(archive: zipfile.ZipFile, name: str, data: bytes, mode: int = 0o644) -> None:
    entry = zipfile.ZipInfo(name, _DAY_ZERO)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3
    entry.external_attr = (0o100000 | mode) << 16
    archive.writestr(entry, data)


def _run(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="run_autograder")
    parser.add_argument("--at", type=Path, required=True)
    parser.add_argument("--lessons", nargs="+", required=True)
    parser.add_argument("--points", type=Path)
    options = parser.parse_args(arguments)
    try:
        content = grade_one(options.at, options.lessons, options.points)
    except InputError as error:
        print(error, file=sys.stderr)
        return 1
    say(f"{content['score']:g} points")
    return 0


if __name__ == "__main__":
    sys.exit(_run(sys.argv[1:]))
