"""A folder appears whole, or nothing changes."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from ehr_course.errors import InputError
from ehr_course.new_folder import new_folder


@pytest.fixture
def full(tmp_path):
    folder = tmp_path / "full"
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


def test_a_full_folder_is_replaced_as_a_whole_on_request(full):
    with new_folder(full, overwrite=True) as unfinished:
        (unfinished / "new.txt").touch()
        assert names(full) == ["kept.txt"]
    assert names(full) == ["new.txt"]
    assert names(full.parent) == ["full"]


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


@pytest.mark.parametrize("step", ["parent", "scratch", "lock", "folder", "file"])
def test_a_full_disk_leaves_nothing_not_even_the_folders_above(tmp_path, monkeypatch, step):
    mkdir = Path.mkdir

    def refuse(self, *arguments, **options):
        if self.name == {"parent": "b", "folder": "new"}.get(step):
            no_space()
        return mkdir(self, *arguments, **options)

    monkeypatch.setattr(Path, "mkdir", refuse)
    if step == "scratch":
        monkeypatch.setattr("tempfile.mkdtemp", no_space)
    if step == "lock":
        monkeypatch.setattr("filelock.FileLock.acquire", no_space)
    with (
        pytest.raises((OSError, InputError), match="No space left on device"),
        new_folder(tmp_path / "a" / "b" / "new") as unfinished,
    ):
        (unfinished / "half.txt").touch()
        no_space()
    assert names(tmp_path) == []


def test_folders_above_it_that_were_there_stay(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError), new_folder(tmp_path / "a" / "b" / "new"):
        no_space()
    assert names(tmp_path) == ["a"]
    assert names(tmp_path / "a") == []
