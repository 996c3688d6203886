"""`.venv` is made once, mended when it no longer fits, and never used half-made."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time

import pytest

from course import environment, preconditions
from course.command_error import CommandError
from course.venv_stamp import Work, work_needed


def test_the_first_use_makes_the_environment_and_says_each_step(clone):
    done = clone.with_uv().course("lab", "--prepare-only")
    assert done.returncode == 0, done.stderr
    assert "Making .venv with uv: there is none yet." in done.stdout
    for step in ("1/3", "2/3", "3/3"):
        assert f"  {step} " in done.stdout
    assert done.stdout.count("done in ") == 3
    assert ".venv is ready after " in done.stdout


def test_the_packages_are_installed_with_the_constraints_into_the_clones_environment(clone):
    clone.with_uv().course("lab", "--prepare-only")
    install = clone.calls("uv")[-1]
    python = clone.root / ".venv/bin/python"
    assert install == f"pip install --python {python} -c constraints.txt -e .[dev]"


def test_the_second_use_installs_nothing(clone):
    clone.with_uv().course("lab", "--prepare-only")
    before = clone.calls("uv")
    again = clone.course("lab", "--prepare-only")
    assert again.returncode == 0
    assert "Making" not in again.stdout
    assert clone.calls("uv") == before


def test_pips_find_links_are_handed_to_uv(clone):
    clone.with_uv().course("lab", "--prepare-only", PIP_FIND_LINKS="/one  /two")
    said = (clone.outside / "uv-environment").read_text(encoding="utf-8")
    assert said == "UV_FIND_LINKS=/one,/two\n"


def test_uvs_own_find_links_are_kept(clone):
    clone.with_uv().course("lab", "--prepare-only", PIP_FIND_LINKS="/one", UV_FIND_LINKS="/own")
    said = (clone.outside / "uv-environment").read_text(encoding="utf-8")
    assert said == "UV_FIND_LINKS=/own\n"


def test_jupyterlabs_news_are_off_inside_the_environment(clone):
    clone.with_uv().course("lab", "--prepare-only")
    file = clone.root / ".venv/share/jupyter/lab/settings/overrides.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    assert settings["@jupyterlab/apputils-extension:notification"]["fetchNews"] == "false"


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_a_changed_dependency_file_installs_into_the_same_environment(clone, name):
    clone.with_uv().course("lab", "--prepare-only")
    with (clone.root / name).open("a", encoding="utf-8") as file:
        file.write("# one more\n")
    again = clone.course("lab", "--prepare-only")
    assert "Updating .venv with uv: pyproject.toml or constraints.txt has changed." in again.stdout
    assert [call.split()[0] for call in clone.calls("uv")] == ["venv", "pip", "pip"]


def test_a_moved_clone_makes_the_environment_anew(clone):
    clone.with_uv().course("lab", "--prepare-only")
    moved = clone.root.with_name("elsewhere")
    shutil.move(clone.root, moved)
    clone.root = moved
    again = clone.course("lab", "--prepare-only")
    assert "Making .venv with uv: the clone was moved or copied here." in again.stdout
    assert clone.calls("uv")[-2].endswith(f"{moved}/.venv")


def test_an_environment_whose_python_is_gone_is_made_anew(clone):
    clone.with_uv().course("lab", "--prepare-only")
    (clone.root / ".venv/bin/python").unlink()
    again = clone.course("lab", "--prepare-only")
    assert "is no longer there" in again.stdout
    assert again.returncode == 0


def test_a_failed_installation_is_not_taken_for_whole(clone):
    failed = clone.with_uv().course("lab", "--prepare-only", UV_EXIT="1", UV_SAYS="dns error")
    assert failed.returncode == 1
    again = clone.course("lab", "--prepare-only")
    assert "it was not made by this command, or not finished" in again.stdout
    assert again.returncode == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_installation_is_not_taken_for_whole(clone, how):
    process = clone.with_uv().start("lab", "--prepare-only", UV_WAITS="1")
    until = time.monotonic() + 30
    while not (clone.outside / "uv-waits").exists() and time.monotonic() < until:
        time.sleep(0.02)
    os.killpg(process.pid, how)
    _, stderr = process.communicate(timeout=30)
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "Stopped before .venv was ready." in stderr
        assert "Traceback" not in stderr
    assert work_needed(clone.root).from_scratch
    again = clone.course("lab", "--prepare-only")
    assert again.returncode == 0
    assert work_needed(clone.root) is None


def test_two_installations_at_once_do_not_meet(clone):
    (clone.root / "build").mkdir()
    with preconditions.alone(clone.root):
        second = clone.with_uv().course("lab", "--prepare-only")
    assert second.returncode == 1
    assert "Another `python3 -m course` is making .venv" in second.stderr
    assert clone.calls("uv") == []


def test_a_link_named_venv_is_left_alone(clone):
    target = clone.outside / "mine"
    target.mkdir()
    (target / "file").touch()
    (clone.root / ".venv").symlink_to(target)
    done = clone.with_uv().course("lab", "--prepare-only")
    assert done.returncode == 1
    assert ".venv is a link or a file" in done.stderr
    assert (target / "file").exists()


def test_without_uv_the_environment_is_made_with_venv_and_pip(clone, monkeypatch, capsys):
    commands = []

    def installer(command, *, log, env, cwd, bar=None, on_terminal=False):
        commands.append([str(part) for part in command])
        python = clone.root / ".venv/bin/python"
        python.parent.mkdir(parents=True, exist_ok=True)
        if not python.exists():
            python.symlink_to(sys.executable)
        return 0, ""

    monkeypatch.setattr(environment, "uv_outside", lambda root: None)
    monkeypatch.setattr(environment, "run_logged", installer)
    environment.ensure(clone.root)
    make, helpers, install = commands
    assert make[1:] == ["-m", "venv", str(clone.root / ".venv")]
    assert helpers[1:] == ["-m", "pip", "install", "pip>=24.1", "uv", "-c", "constraints.txt"]
    assert install[1:4] == ["-m", "pip", "install"]
    assert install[-4:] == ["-c", "constraints.txt", "-e", ".[dev]"]
    assert install[0] == str(clone.root / ".venv/bin/python")
    assert "Making .venv with venv and pip" in capsys.readouterr().out
    assert work_needed(clone.root) is None


@pytest.mark.parametrize("missing", ["venv", "ensurepip"])
def test_a_python_without_its_venv_modules_is_named(clone, monkeypatch, missing):
    there = {"venv": True, "ensurepip": True, missing: None}
    monkeypatch.setattr(environment, "uv_outside", lambda root: None)
    monkeypatch.setattr(environment, "find_spec", there.get)
    with pytest.raises(CommandError, match="venv or ensurepip module is missing") as raised:
        environment.ensure(clone.root)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert f"sudo apt install python{version}-venv" in str(raised.value)


def test_too_little_disk_space_is_said_before_anything_is_installed(clone, monkeypatch):
    usage = shutil.disk_usage(clone.root)._replace(free=1_200_000_000)
    monkeypatch.setattr(preconditions.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(CommandError, match=r"The disk has 1\.2 GB free; \.venv needs about 3 GB"):
        environment.ensure(clone.root)
    assert not (clone.root / ".venv").exists()


def test_a_folder_that_cannot_be_written_to_is_named(clone, monkeypatch):
    def refuse(*, dir):
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.setattr(preconditions.tempfile, "TemporaryFile", refuse)
    with pytest.raises(
        CommandError, match=r"cannot be written to \(Permission denied\)"
    ) as raised:
        environment.ensure(clone.root)
    assert f"(Permission denied): {clone.root}" in str(raised.value)


def test_a_path_that_no_environment_can_have_is_named(tmp_path):
    root = tmp_path / f"a{os.pathsep}b"
    with pytest.raises(CommandError, match="Rename or move the folder"):
        preconditions.check_folder(root)


def test_a_disk_that_fills_up_while_the_log_is_written_gives_a_message(clone, monkeypatch):
    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(environment, "run_logged", full)
    with pytest.raises(CommandError, match="The disk became full during the installation"):
        environment.ensure(clone.root)


def test_an_environment_of_uv_is_made_anew_when_uv_is_gone(clone, monkeypatch, capsys):
    clone.with_uv().course("lab", "--prepare-only")
    (clone.root / "pyproject.toml").write_text("# changed\n", encoding="utf-8")
    assert work_needed(clone.root) == Work(
        "pyproject.toml or constraints.txt has changed", from_scratch=False
    )
    monkeypatch.setattr(environment, "uv_outside", lambda root: None)
    monkeypatch.setattr(environment, "_has_pip", lambda python: False)
    monkeypatch.setattr(environment, "run_logged", lambda *a, **k: (1, "stopped here"))
    with pytest.raises(CommandError, match="stopped here"):
        environment.ensure(clone.root)
    assert "Making .venv with venv and pip" in capsys.readouterr().out


def test_a_uv_in_the_environment_that_is_deleted_does_not_make_the_next_one(clone):
    """An activated `.venv` has its own uv in front on the PATH."""
    clone.with_uv().course("lab", "--prepare-only")
    inside = clone.root / ".venv/bin/uv"
    inside.write_text("#!/bin/sh\nexit 9\n", encoding="utf-8")
    inside.chmod(0o755)
    (clone.root / ".venv/course-stamp.json").unlink()
    path = f"{inside.parent}:{clone.programs}:/usr/bin:/bin"
    again = clone.course("lab", "--prepare-only", PATH=path)
    assert again.returncode == 0, again.stderr
    assert "Making .venv with uv" in again.stdout
