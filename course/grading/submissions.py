"""Find the students in a folder of submissions, as learning platforms hand them out.

Each sub-folder is a student. A file that lies beside the sub-folders belongs to the student that
its name tells: what stands before the number that Moodle or Canvas puts into it, or what is left
when the lesson's own name is taken away. `name_in_file` has the rules.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from course.grading.judge import Submission
from course.grading.notebooks import ENDINGS
from course.grading.results import key_of
from ehr_course.errors import InputError
from ehr_course.printable import printable

MOST_FILES = 500
"""How many notebooks of one student are looked at."""

MOST_UNPACKED = 1 << 30
_SKIPPED = {"__MACOSX", "__pycache__", "node_modules", "site-packages"}
_COURSE = {"ehr_course", "course"}
_OF_THE_COURSE = {*_COURSE, "solutions", "tests", "benchmarks", "build", "setup.py", "conftest.py"}
"""What is not an answer in a whole folder of the course: the library and the worked answers."""

_MOODLE = re.compile(r"^(?P<who>.+?)_(?P<number>\d+)_assign(?:submission|feedback)_[a-z]+_?.*$")
_CANVAS = re.compile(r"^(?P<who>[^_]+?)(?:_LATE)?_(?P<number>\d+)_\d+_.+$")
_COPY = re.compile(r"(?:[ _-]*\(\d+\)|[ _-]+copy\d*)+$", re.IGNORECASE)
_NUMBERED = re.compile(r"(?:[ _-]*\(\d+\)|[ _-]+copy\d*|-\d{1,2})+$", re.IGNORECASE)


def find_submissions(
    folder: Path, lesson_names: Iterable[str], unpack_into: Path
) -> list[Submission]:
    """Find every student below a folder, or in a zip file.

    Args:
        folder: the folder of submissions, or a zip file of one.
        lesson_names: the lessons' file names, "07_tokenization".
        unpack_into: an empty folder, for what is packed.

    Returns:
        The students in the order of their names; of each its files, in the order of theirs.

    Raises:
        InputError: if there is no such folder, or no notebook in it.
    """
    if folder.is_file() and folder.suffix.lower() == ".zip":
        folder = _unpacked(folder, unpack_into / "all")
    if not folder.is_dir():
        raise InputError(folder, "", "there is no such folder of submissions", "Check the path.")
    names = tuple(lesson_names)
    folder = _without_wrapping(folder)
    found: dict[tuple[str, str], _Student] = {}
    for number, entry in enumerate(sorted(_entries(folder), key=lambda one: _natural(one.name))):
        shown, notes, files = entry.name, [], {}
        if entry.is_dir():
            # Two sub-folders are two students, even of one name, but for Moodle's of one number.
            student, known_by = name_of_folder(shown), _number_in(shown) or shown
            files = dict(_notebooks(entry, shown))
        elif entry.suffix.lower() in (".zip", *ENDINGS):
            student = name_in_file(entry.stem, names)
            known_by = _number_in(entry.stem)
            files = {shown: entry}
            if entry.suffix.lower() == ".zip":
                try:
                    inside = _unpacked(entry, unpack_into / str(number))
                    files = dict(_notebooks(inside, shown))
                except InputError as error:
                    notes.append(f"{printable(shown)}: {error.problem}.")
        else:
            continue
        student = unicodedata.normalize("NFC", student)
        one = found.setdefault((student, known_by), _Student(student, known_by))
        one.files |= files
        one.notes += notes
    if not found:
        raise InputError(
            folder,
            "",
            "no notebook is in it",
            "Name the folder that has a sub-folder, a notebook or a zip file for each student.",
        )
    return _named(sorted(found.values(), key=lambda one: (_natural(one.name), one.known_by)))


@dataclass
class _Student:
    """One student while the folder is read: the name, and what tells it from another's."""

    name: str
    known_by: str
    files: dict[str, Path] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def _named(students: Iterable[_Student]) -> list[Submission]:
    students = list(students)
    often = Counter(one.name for one in students)
    keys: list[str] = []
    made = []
    for one in students:
        name = one.name
        if often[name] > 1 and one.known_by:
            name = one.known_by if name in one.known_by else f"{name} ({one.known_by})"
            one.notes.append(f"Several students are called {printable(one.name)}.")
        keys.append(key_of(name, keys))
        if not one.files and not one.notes:
            one.notes.append("There is no notebook in what was handed in.")
        made.append(Submission(name, keys[-1], one.files, tuple(one.notes)))
    return made


def name_of_folder(name: str) -> str:
    """Return the student of a sub-folder: its name, without what Moodle adds.

    >>> name_of_folder("Ada Lovelace_12345_assignsubmission_file_"), name_of_folder("team 4")
    ('Ada Lovelace', 'team 4')
    """
    found = _MOODLE.match(name)
    return found["who"] if found else name


def name_in_file(stem: str, lesson_names: Iterable[str]) -> str:
    """Return the student that a file's name tells, without its ending.

    >>> lessons = ["07_tokenization", "08_data_loading"]
    >>> name_in_file("ada_07_tokenization", lessons), name_in_file("07_tokenization-bob", lessons)
    ('ada', 'bob')
    >>> name_in_file("lovelaceada_LATE_123_4567_07_tokenization-1", lessons)
    'lovelaceada'
    >>> name_in_file("Ada Lovelace_77_assignsubmission_file_week1", lessons)
    'Ada Lovelace'
    >>> name_in_file("team-4", lessons), name_in_file("eve (1)", lessons)
    ('team-4', 'eve')
    """
    for platform in (_MOODLE, _CANVAS):
        found = platform.match(stem)
        if found:
            return found["who"]
    for lesson in lesson_names:
        start = stem.casefold().find(lesson.casefold())
        if start >= 0:
            after = _NUMBERED.sub("", stem[start + len(lesson) :])
            return (stem[:start] + after).strip(" ._-") or stem
    return _COPY.sub("", stem).strip() or stem


def _number_in(stem: str) -> str:
    """The number by which a platform knows the student, or ""."""
    for platform in (_MOODLE, _CANVAS):
        found = platform.match(stem)
        if found:
            return found["number"]
    return ""


def _natural(name: str) -> list[tuple[int, int, str]]:
    parts = re.split(r"([0-9]+)", name.casefold())
    return [(0, int(p), "") if p.isdigit() and p.isascii() else (1, 0, p) for p in parts]


def _entries(folder: Path) -> Iterator[Path]:
    """What is in a folder and no link: a link could lead to the solutions."""
    for entry in folder.iterdir():
        if entry.name.startswith(".") or entry.name in _SKIPPED or entry.is_symlink():
            continue
        mode = entry.lstat().st_mode
        if stat.S_ISDIR(mode) or stat.S_ISREG(mode):
            yield entry


def _notebooks(folder: Path, shown: str) -> Iterator[tuple[str, Path]]:
    count = 0
    for place, folders, names in os.walk(folder, followlinks=False):
        kept = (name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        folders[:] = sorted(kept, key=_natural)
        if set(folders) >= _COURSE:  # the whole folder was handed in
            folders[:] = [name for name in folders if name not in _OF_THE_COURSE]
            names = [name for name in names if name not in _OF_THE_COURSE]
        for name in sorted(names, key=_natural):
            path = Path(place, name)
            if name.startswith(".") or path.suffix.lower() not in ENDINGS or path.is_symlink():
                continue
            if not stat.S_ISREG(path.lstat().st_mode):
                continue
            count += 1
            if count > MOST_FILES:
                return
            yield str(PurePosixPath(shown, path.relative_to(folder).as_posix())), path


def _without_wrapping(folder: Path) -> Path:
    """Step into a folder that does nothing but hold the students' folders."""
    while True:
        inside = list(_entries(folder))
        if len(inside) != 1 or not inside[0].is_dir():
            return folder
        below = list(_entries(inside[0]))
        if {one.name for one in below} >= _COURSE:  # one student's, and a whole one
            return folder
        if sum(one.is_dir() for one in below) < 2 or any(
            one.suffix.lower() in ENDINGS for one in below
        ):
            return folder
        folder = inside[0]


_NOT_IN_NAMES = re.compile(r'[<>:"|?*\x00-\x1f]')
"""What no file name may hold on Windows."""


def _unpacked(file: Path, folder: Path) -> Path:
    """Unpack the notebooks of a zip file, and nothing else of it.

    Raises:
        InputError: if it is not a zip file, or unpacks to too much.
    """
    left = MOST_UNPACKED
    folder.mkdir(parents=True)
    try:
        with zipfile.ZipFile(file) as packed:
            for entry in packed.infolist():
                path = PurePosixPath(entry.filename.replace("\\", "/"))
                is_link = stat.S_ISLNK(entry.external_attr >> 16)
                is_wanted = path.suffix.lower() in (*ENDINGS, ".zip") and not entry.is_dir()
                is_wanted &= not any(p.startswith(".") or p in _SKIPPED for p in path.parts)
                if not is_wanted or is_link or path.is_absolute() or ".." in path.parts:
                    continue
                target = folder.joinpath(*(_NOT_IN_NAMES.sub("_", p) for p in path.parts))
                while target.exists():  # names that differ only in case are one on some systems
                    target = target.with_name(f"_{target.name}")
                target.parent.mkdir(parents=True, exist_ok=True)
                with packed.open(entry) as source, target.open("wb") as copy:
                    left -= _copied(source, copy, left)
    except (
        OSError,
        ValueError,
        NotImplementedError,
        RuntimeError,
        zipfile.BadZipFile,
        EOFError,
    ) as e:
        shutil.rmtree(folder, ignore_errors=True)
        problem = f"it cannot be unpacked ({printable(str(e)) or type(e).__name__})"
        raise InputError(file, "", problem, "Unpack it yourself, and name the folder.") from None
    return folder


def _copied(source: IO[bytes], copy: IO[bytes], most: int) -> int:
    count = 0
    while part := source.read(1 << 20):
        count += len(part)
        if count > most:
            raise ValueError(f"it unpacks to more than {MOST_UNPACKED >> 20} MB")
        copy.write(part)
    return count
