"""A folder appears whole, or nothing changes."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ehr_course.errors import InputError
from ehr_course.new_folder import new_file, new_folder

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def full(tmp_path, request):
    folder = tmp_path / getattr(request, "param", "full")
    folder.mkdir()
    (folder / "kept.txt").write_text("old", encoding="utf-8")
    return folder


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "here").mkdir()
    with new_folder(tmp_path / "here") as unfinished:
        (unfinished / "new.txt").touch()
        assert names(tmp_path / "here") == []
    assert names(tmp_path / "here") == ["new.txt"]


def test_folders_above_it_are_made(tmp_path):
    with new_folder(tmp_path / "a" / "b") as unfinished:
        (unfinished / "new.txt").touch()
    assert names(tmp_path / "a") == ["b"]


def test_a_full_folder_is_refused_and_stays(full):
    with pytest.raises(InputError, match="there is something here already"), new_folder(full):
        pytest.fail("the work must not begin")
    assert names(full) == ["kept.txt"]


@pytest.mark.parametrize("full", ["full", "old", "full.old"], indirect=True)
def test_a_full_folder_is_replaced_as_a_whole_on_request(full):
    with new_folder(full, overwrite=True) as unfinished:
        (unfinished / "new.txt").touch()
        assert names(full) == ["kept.txt"]
    assert names(full) == ["new.txt"]
    assert names(full.parent) == [full.name]


def test_what_fails_on_the_way_leaves_everything_as_it_was(full):
    with pytest.raises(ZeroDivisionError), new_folder(full, overwrite=True) as unfinished:
        (unfinished / "new.txt").touch()
        raise ZeroDivisionError
    assert names(full) == ["kept.txt"]
    assert names(full.parent) == ["full"]


def test_what_cannot_take_its_name_leaves_the_old_folder_in_its_place(full, monkeypatch):
    rename = Path.rename

    def refuse(self, target):
        if Path(target) == full and self.name == full.name:
            raise OSError("no space left")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(OSError, match="no space"), new_folder(full, overwrite=True) as unfinished:
        (unfinished / "new.txt").touch()
    assert names(full) == ["kept.txt"]
    assert names(full.parent) == ["full"]


def test_a_file_is_never_replaced(tmp_path):
    (tmp_path / "file").write_text("text", encoding="utf-8")
    with (
        pytest.raises(InputError, match="this is a file"),
        new_folder(tmp_path / "file", overwrite=True),
    ):
        pytest.fail("the work must not begin")


def test_a_folder_under_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("text", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be made"), new_folder(tmp_path / "file" / "x"):
        pytest.fail("the work must not begin")


# ------------------------------------------------------------------ a full disk


def no_space(*arguments, **options):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("step", ["parent", "scratch", "folder", "file"])
def test_a_full_disk_leaves_no_part_of_the_folder(tmp_path, monkeypatch, step):
    mkdir = Path.mkdir

    def refuse(self, *arguments, **options):
        if self.name == {"parent": "a", "folder": "new"}.get(step):
            no_space()
        return mkdir(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", refuse)
    if step == "scratch":
        monkeypatch.setattr("tempfile.mkdtemp", no_space)
    with (
        pytest.raises((OSError, InputError), match="No space left on device"),
        new_folder(tmp_path / "a" / "new") as unfinished,
    ):
        (unfinished / "half.txt").touch()
        no_space()
    assert [path for path in tmp_path.rglob("*") if path.name != "a"] == []


# ------------------------------------------------------------------ killed

KILLED = """
import os, signal, sys
from ehr_course.new_folder import new_folder
with new_folder(sys.argv[1], overwrite=True) as unfinished:
    (unfinished / "half.txt").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL")
def test_a_process_that_is_killed_leaves_what_was_there(full):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, full], env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == -signal.SIGKILL
    assert names(full) == ["kept.txt"]
    with new_folder(full, overwrite=True) as unfinished:
        (unfinished / "new.txt").touch()
    assert names(full) == ["new.txt"]


# ------------------------------------------------------------------ a file


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "here.txt"
    path.write_text("old", encoding="utf-8")
    with pytest.raises(ZeroDivisionError), new_file(path) as unfinished:
        unfinished.write_text("half", encoding="utf-8")
        raise ZeroDivisionError
    assert (path.read_text(encoding="utf-8"), names(tmp_path)) == ("old", ["here.txt"])
    with new_file(path) as unfinished:
        unfinished.write_text("new", encoding="utf-8")
    assert (path.read_text(encoding="utf-8"), names(tmp_path)) == ("new", ["here.txt"])
