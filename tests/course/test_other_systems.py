"""What Windows and macOS do otherwise, as far as it can be tried on the system that runs this."""

from __future__ import annotations

import os
import pickle
import re
import stat
import subprocess
import sys
import types
import zipfile
from pathlib import Path, PureWindowsPath

import pytest

from course import environment, preconditions, pythons, venv_stamp
from course.command_error import CommandError
from course.grading.submissions import _unpacked
from course.install_failures import explain
from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.sampler import data_loader
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training import checkpoints

ROOT = Path(__file__).resolve().parents[2]

RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", re.IGNORECASE)
MAX_PATH = 259
ROOM_FOR_A_CLONE = 100


def windows(**more: object) -> types.SimpleNamespace:
    """Return what stands in for a module's `os`: Windows by its name, this system otherwise."""
    return types.SimpleNamespace(**{**vars(os), "name": "nt", **more})


def files() -> list[str]:
    listed = ["git", "ls-files", "-z"]
    said = subprocess.run(listed, cwd=ROOT, capture_output=True, encoding="utf-8")
    if said.returncode != 0:
        pytest.skip("this is no git clone")
    return [name for name in said.stdout.split("\0") if name]


# ------------------------------------------------------------------------------- names of files


def test_every_file_name_can_be_written_on_windows():
    for name in files():
        parts = PureWindowsPath(name).parts
        assert not re.search(r'[<>:"|?*\\]', name), name
        assert not any(RESERVED.match(part) or part[-1] in ". " for part in parts), name
        assert len(name) <= MAX_PATH - ROOM_FOR_A_CLONE, name


def test_no_two_files_are_one_where_case_does_not_count():
    names = files()
    assert len({name.lower() for name in names}) == len(names)


def test_git_gives_every_system_the_same_line_ends():
    asked = ["git", "check-attr", "eol", "README.md", "lessons/00_start_here.ipynb", ".ci/run"]
    said = subprocess.run(asked, cwd=ROOT, capture_output=True, encoding="utf-8")
    if said.returncode != 0:
        pytest.skip("this is no git clone")
    assert [line.rsplit(" ", 1)[-1] for line in said.stdout.splitlines()] == ["lf"] * 3


def test_what_a_zip_file_names_otherwise_than_windows_can_is_renamed(tmp_path):
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as packed:
        for name in ('a:b/what?"07".py', "ada/07.py"):
            packed.writestr(name, "x = 1\n")
    _unpacked(tmp_path / "class.zip", tmp_path / "here")
    found = {
        p.relative_to(tmp_path / "here").as_posix() for p in (tmp_path / "here").rglob("*.py")
    }
    assert found == {"a_b/what__07_.py", "ada/07.py"}


def test_a_file_that_is_there_already_is_not_written_over_by_one_of_the_same_name(tmp_path):
    """On a system where case does not count, two names of a zip file can be one."""
    with zipfile.ZipFile(tmp_path / "class.zip", "w") as packed:
        packed.writestr("ada/a:.py", "first\n")
        packed.writestr("ada/a?.py", "second\n")
    _unpacked(tmp_path / "class.zip", tmp_path / "here")
    texts = {p.read_text(encoding="utf-8") for p in (tmp_path / "here").rglob("*.py")}
    assert texts == {"first\n", "second\n"}


# ------------------------------------------------------------------------------- programs


def test_pythons_of_the_windows_launcher_are_found_in_a_folder_with_any_name(
    tmp_path, monkeypatch
):
    """Its answer is asked for in UTF-8: a Python writes the code page of Windows into a pipe."""
    place = tmp_path / "Jürgen"
    place.mkdir()
    launcher = tmp_path / "py"
    launcher.write_text(
        f'#!/bin/sh\nshift\nexec "{sys.executable}" "$@" | sed \'s|.*|{place}/python.exe|\'\n',
        encoding="utf-8",
    )
    (place / "python.exe").symlink_to(sys.executable)
    launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(pythons, "os", windows(get_exec_path=list))
    monkeypatch.setattr(pythons, "this_python", lambda: "3.0")
    monkeypatch.setattr(pythons.shutil, "which", lambda name, path=None: str(launcher))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "none"))
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    asked = []
    run = subprocess.run
    monkeypatch.setattr(
        pythons.subprocess,
        "run",
        lambda command, **more: asked.append(command) or run(command, **more),
    )
    assert pythons.find_python(here) == str(place / "python.exe")
    assert asked[0][1:4] == [f"-{here}", "-X", "utf8"]


def test_the_environments_python_is_where_windows_has_it(monkeypatch):
    monkeypatch.setattr(venv_stamp, "os", windows())
    assert venv_stamp.venv_python(Path("clone")).as_posix() == "clone/.venv/Scripts/python.exe"


def test_windows_waits_for_what_posix_becomes_and_returns_its_exit_code(tmp_path, monkeypatch):
    monkeypatch.setattr(environment, "os", windows(execv=None))
    monkeypatch.setattr(environment, "venv_python", lambda root: Path(sys.executable))
    assert environment.become(tmp_path, ["-c", "raise SystemExit(7)"]) == 7


def test_a_second_installation_is_refused_with_the_lock_of_windows(tmp_path, monkeypatch):
    locked = []

    def locking(descriptor: int, mode: int, count: int) -> None:
        assert (mode, count) == (2, 1)
        if locked:
            raise PermissionError(13, "Permission denied")
        locked.append(descriptor)

    monkeypatch.setitem(sys.modules, "msvcrt", types.SimpleNamespace(locking=locking, LK_NBLCK=2))
    monkeypatch.setattr(preconditions, "os", windows())
    (tmp_path / "build").mkdir()
    with (
        preconditions.alone(tmp_path),
        pytest.raises(CommandError, match="Another `python3 -m course`"),
        preconditions.alone(tmp_path),
    ):
        pass


@pytest.mark.parametrize(
    "said",
    [
        "HINT: This error might have occurred since this system does not have Windows Long Path "
        "support enabled.",
        "The filename or extension is too long. (os error 206)",
    ],
)
def test_a_path_that_is_too_long_for_windows_is_told(said):
    told = explain(said, log=Path("log"), free_bytes=10**12, python="3.12")
    assert "A path in .venv is longer than this system allows." in str(told)
    assert "short path" in str(told)


# ------------------------------------------------------------------------------- processes, files


def test_a_worker_that_is_spawned_gets_all_it_needs():
    """macOS and Windows spawn: what a worker gets is pickled, and made again in a new Python."""
    patients = make_cohort(40)
    dataset = RecordDataset(patients, CodeTokenizer.from_records(patients))
    loader = data_loader(dataset, 16, num_workers=1)
    given = pickle.loads(pickle.dumps((loader.dataset, loader.collate_fn, loader.worker_init_fn)))
    program = "import pickle, sys; d, c, w = pickle.load(sys.stdin.buffer); print(len(d))"
    spawned = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(given), capture_output=True, cwd=ROOT
    )
    assert spawned.stdout.split() == [b"40"], spawned.stderr


def test_a_file_is_opened_for_writing_before_it_is_sent_to_the_disk(tmp_path, monkeypatch):
    """Windows flushes no file that was opened for reading alone."""
    opened = {}

    def note(path: Path, flags: int) -> int:
        opened[Path(path).name] = flags & (os.O_RDWR | os.O_WRONLY)
        return os.open(path, flags)

    (tmp_path / "model").write_bytes(b"weights")
    monkeypatch.setattr(checkpoints, "os", types.SimpleNamespace(**{**vars(os), "open": note}))
    checkpoints._to_disk(tmp_path / "model")
    checkpoints._to_disk(tmp_path)
    assert opened == {"model": os.O_RDWR, tmp_path.name: 0}
    monkeypatch.setattr(checkpoints, "os", windows(open=None))
    checkpoints._to_disk(tmp_path)  # a folder is not opened at all
