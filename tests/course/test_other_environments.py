"""The library is tested with the oldest and the newest packages, and the wheel by itself."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from course import bare_wheel, other_environments, pythons
from course.bare_wheel import Row, UseError, compare, copy_sources
from course.command_error import CommandError
from course.download_plan import Package, Plan

ROOT = Path(__file__).resolve().parents[2]
PLAN = Plan((Package("numpy", "2.2.0", 16_000_000), Package("six", "1.17.0", 11_000)))


@pytest.fixture
def uv(tmp_path, monkeypatch) -> list[str]:
    """A stand-in for uv that writes down its calls and makes an environment of this Python."""
    if os.name == "nt":
        pytest.skip("the stand-in for uv is a shell script")
    program = tmp_path / "uv"
    program.write_text(
        "#!/bin/sh\n"
        f'echo "$@" >> "{tmp_path}/calls"\n'
        f"for last; do :; done\n"
        f'if [ "$1" = venv ]; then mkdir -p "$last/bin"; '
        f'ln -sf "{sys.executable}" "$last/bin/python"; fi\n'
        "exit ${UV_EXIT:-0}\n",
        encoding="utf-8",
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(other_environments, "make_plan", lambda *a, **k: PLAN)
    return [str(program)]


@pytest.fixture
def clone(tmp_path) -> Path:
    root = tmp_path / "clone"
    (root / "tests" / "models").mkdir(parents=True)
    (root / "tests" / "lessons").mkdir()
    for name in ("test_losses.py", "test_wheel.py", "conftest.py"):
        (root / "tests" / name).touch()
    (root / "pyproject.toml").write_text(
        '[project]\ndependencies = ["numpy>=2.2"]\n', encoding="utf-8"
    )
    return root


def calls(tmp_path: Path) -> list[str]:
    return (tmp_path / "calls").read_text(encoding="utf-8").splitlines()


def run_oldest(clone, uv, monkeypatch, code: int = 0) -> list[list[str]]:
    ran: list[list[str]] = []

    def visibly(command, *, cwd):
        ran.append([str(part) for part in command])
        return code

    monkeypatch.setattr(other_environments, "run_visibly", visibly)
    assert other_environments.main(clone, uv, "oldest", None, []) == code
    return ran


@pytest.mark.parametrize("code", [0, 1])
def test_the_librarys_tests_run_in_an_environment_of_their_own(
    clone, uv, monkeypatch, capsys, code
):
    [command] = run_oldest(clone, uv, monkeypatch, code)
    folder = clone / "build" / "environments" / f"oldest-{pythons.this_python()}"
    assert command[0] == str(folder / "bin" / "python")
    assert command[-3:] == ["ehr_course", "tests/models", "tests/test_losses.py"]
    said = capsys.readouterr().out
    assert "numpy 2.2.0" in said
    assert "six" not in said  # pyproject.toml does not name it
    assert "up to 16 MB to fetch" in said
    assert not (clone / ".venv").exists()


def test_it_is_made_once_and_again_only_when_a_version_changes(
    clone, uv, monkeypatch, tmp_path, capsys
):
    run_oldest(clone, uv, monkeypatch)
    assert [call.split()[0] for call in calls(tmp_path)] == ["venv", "pip"]
    run_oldest(clone, uv, monkeypatch)
    assert "already" in capsys.readouterr().out
    assert len(calls(tmp_path)) == 2
    newer = Plan((Package("numpy", "2.2.1", 16_000_000),))
    monkeypatch.setattr(other_environments, "make_plan", lambda *a, **k: newer)
    run_oldest(clone, uv, monkeypatch)
    assert len(calls(tmp_path)) == 4


def test_an_installation_that_fails_is_not_taken_for_whole(clone, uv, monkeypatch, tmp_path):
    monkeypatch.setenv("UV_EXIT", "1")
    with pytest.raises(CommandError, match="could not be installed"):
        other_environments.main(clone, uv, "newest", None, [])
    monkeypatch.delenv("UV_EXIT")
    run_oldest(clone, uv, monkeypatch)
    assert calls(tmp_path)[-1].startswith("pip install")


def test_versions_that_do_not_fit_together_are_said(clone, uv, monkeypatch):
    monkeypatch.setattr(other_environments, "make_plan", lambda *a, **k: None)
    with pytest.raises(CommandError, match="no set of the oldest versions"):
        other_environments.main(clone, uv, "oldest", None, [])


def test_every_folder_of_tests_is_the_librarys_or_the_courses():
    known = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    assert known >= set(other_environments.NOT_OF_THE_LIBRARY)
    ours = other_environments.library_tests(ROOT)
    assert {"ehr_course", "tests/models", "tests/exercises", "tests/test_losses.py"} <= set(ours)
    assert "tests/lessons" not in ours
    assert "tests/conftest.py" not in ours


def test_this_python_is_found_by_its_version():
    found = pythons.find_python(pythons.this_python())
    assert found is not None
    assert pythons.version_of(found) == pythons.this_python()


def test_a_shim_that_does_not_run_is_passed_over(tmp_path, monkeypatch):
    shims, versions = tmp_path / "shims", tmp_path / "pyenv" / "versions" / "3.99.1" / "bin"
    for folder, text in ((shims, "exit 127"), (versions, "echo 3.99")):
        folder.mkdir(parents=True)
        program = folder / ("python" if folder is versions else "python3.99")
        program.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shims}:/usr/bin:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert pythons.find_python("3.99") == str(versions / "python")
    assert pythons.find_python("3.98") is None


@pytest.mark.parametrize("version", ["3.10", "3", "three", "2.7", "3.12.1"])
def test_what_is_no_version_of_a_usable_python_is_refused(version):
    with pytest.raises(CommandError, match="is not a version of Python that the course runs on"):
        pythons.find_python(version)


def test_a_python_that_is_named_and_absent_is_an_error(monkeypatch):
    monkeypatch.setattr(bare_wheel, "find_python", lambda version: None)
    with pytest.raises(CommandError, match=r"no Python 3\.12 and no Python 3\.13"):
        bare_wheel.main(ROOT, ["uv"], ["3.12", "3.13"])


def lesson(folder: Path, printed: str, tags: tuple[str, ...] = ()) -> Path:
    cell = nbformat.v4.new_code_cell("print()", id="one", metadata={"tags": list(tags)})
    cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=printed)]
    folder.mkdir(exist_ok=True)
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), folder / "lesson.ipynb")
    return folder / "lesson.ipynb"


def test_a_notebook_that_prints_something_else_is_a_failure(tmp_path):
    stored = lesson(tmp_path / "stored", "17 codes\n")
    compare(stored, lesson(tmp_path / "same", "17 codes\n"))
    with pytest.raises(UseError, match="cell one: '17 codes' has become '18 codes'"):
        compare(stored, lesson(tmp_path / "other", "18 codes\n"))


def test_a_failed_use_says_why_and_fails_the_command(tmp_path, monkeypatch, capsys):
    def install(*arguments):
        raise UseError("no such package\n")

    monkeypatch.setattr(bare_wheel, "build", lambda *a: ROOT / "pyproject.toml")
    monkeypatch.setattr(bare_wheel, "_install", install)
    assert bare_wheel.main(ROOT, ["uv"], [pythons.this_python()]) == 1
    said = capsys.readouterr().out
    assert "no such package" in said
    assert "FAILED" in said
    assert said.endswith("1 failed.\n")


def test_the_table_has_a_line_for_each_use():
    rows = [Row("3.12", "install", "passed", 31.26), Row("3.12", "checks", "FAILED", 2.0)]
    assert bare_wheel.table(rows).splitlines() == [
        "python  use      result  seconds",
        "3.12    install  passed     31.3",
        "3.12    checks   FAILED      2.0",
    ]


def test_the_uses_of_a_wheel_need_nothing_of_the_course(tmp_path):
    """It is copied away from the clone, so an import of `course` would fail there."""
    copied = tmp_path / "uses_of_a_wheel.py"
    copied.write_bytes((ROOT / "course" / "uses_of_a_wheel.py").read_bytes())
    question = "import json, uses_of_a_wheel as u; print(json.dumps(list(u.USES)))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", question], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert tuple(json.loads(done.stdout)) == bare_wheel.USES


def test_the_wheel_is_made_from_the_same_sources_here_and_in_its_own_test(tmp_path):
    small = tmp_path / "small"
    for name in (*bare_wheel.SOURCE_FILES, "ehr_course/a.py", "ehr_course/__pycache__/a.pyc"):
        (small / name).parent.mkdir(parents=True, exist_ok=True)
        (small / name).touch()
    for name in ("solutions", "course/checkpoints"):
        (small / name).mkdir(parents=True)
    copy_sources(small, tmp_path / "copy")
    assert (tmp_path / "copy" / "ehr_course" / "a.py").exists()
    assert not (tmp_path / "copy" / "ehr_course" / "__pycache__").exists()
