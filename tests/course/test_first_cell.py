"""The first cell of a lesson installs the course where it is missing, and only there."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import nbformat
import pytest

from course.bookmaker import for_the_book
from course.command_error import CommandError
from course.first_cell import first_cell_text
from course.notebook import as_saved, read_source
from ehr_course.opened_alone import replaced_while_loaded, said

ROOT = Path(__file__).resolve().parents[2]
WHEEL = "ehr_course-0.1.0-py3-none-any.whl"
ADDRESS = "https://example.org/someone/course"

AS_A_KERNEL_DOES = """
import subprocess, sys

class Shell:
    def run_line_magic(self, name, line):
        assert name == "pip"
        subprocess.run(f'"{sys.executable}" -m pip {line}', shell=True)

cell = compile(open("cell.py", encoding="utf-8").read(), "cell.py", "exec")
exec(cell, {"get_ipython": Shell})
"""


def small_wheel(folder: Path) -> Path:
    """Make a wheel of the course that holds what the cell needs of it, and nothing to fetch."""
    about = "ehr_course-0.1.0.dist-info"
    files = {
        "ehr_course/__init__.py": "from ehr_course.opened_alone import after_installation\n",
        "ehr_course/opened_alone.py": (ROOT / "ehr_course" / "opened_alone.py").read_text("utf-8"),
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: ehr-course\nVersion: 0.1.0\n"
        "Provides-Extra: notebook\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{about}/RECORD"])
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        for name, text in files.items():
            wheel.writestr(name, text)
    return folder / WHEEL


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory) -> Path:
    """Make an environment with pip and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=True)
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def open_alone(python: Path, folder: Path) -> subprocess.CompletedProcess:
    """Run the cell in a folder where no clone is near."""
    (folder / "cell.py").write_text(first_cell_text(), encoding="utf-8")
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [str(python), "-c", AS_A_KERNEL_DOES],
        cwd=folder,
        env=kept | {"PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )


def test_without_the_course_it_says_what_to_do_and_then_installs_a_wheel_beside_it(
    bare_python, tmp_path
):
    missing = open_alone(bare_python, tmp_path)
    assert missing.returncode == 1
    assert missing.stderr.splitlines()[-1] == (
        "ModuleNotFoundError: The course is missing. In a clone, take the kernel of .venv; "
        "elsewhere, put ehr_course-….whl beside this notebook."
    )
    frames = [line for line in missing.stderr.splitlines() if line.lstrip().startswith("File ")]
    assert [frame.split('"')[1] for frame in frames] == ["<string>", "cell.py"]

    small_wheel(tmp_path)
    installed = open_alone(bare_python, tmp_path)
    assert installed.returncode == 0, installed.stderr
    last = installed.stdout.splitlines()[-1]
    assert last == "The course is installed. Go on with the next cell."

    again = open_alone(bare_python, tmp_path)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def test_where_the_course_is_it_imports_nothing_of_it():
    """A lesson's first cell costs nothing and says nothing."""
    loaded = "[name for name in sys.modules if name.startswith('ehr_course')]"
    program = f"import sys\n{first_cell_text()}\nprint({loaded})"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_it_begins_with_what_it_is_for_and_is_short():
    lines = first_cell_text().splitlines()
    assert lines[0] == "# Opened alone, as on Colab or Kaggle? This cell installs the course."
    assert sum(bool(line.strip()) for line in lines) < 15
    assert max(len(line) for line in lines) <= 75


def clone_with(folder: Path, urls: str) -> Path:
    (folder / "pyproject.toml").write_text(f'[project]\nname = "x"\n{urls}', encoding="utf-8")
    return folder


def test_a_repository_of_the_project_is_where_it_installs_from(tmp_path, monkeypatch):
    clone_with(tmp_path, f'[project.urls]\nRepository = "{ADDRESS}"\n')
    text = first_cell_text(tmp_path)
    lines: list[str] = []

    class Shell:
        def run_line_magic(self, name: str, line: str) -> None:
            lines.append(f"{name} {line}")

    monkeypatch.chdir(tmp_path)
    hidden = text.replace('find_spec("ehr_course")', "None")
    exec(compile(hidden, "cell", "exec"), {"get_ipython": Shell})
    assert lines == [f'pip install "ehr-course[notebook] @ git+{ADDRESS}"']
    small_wheel(tmp_path)
    exec(compile(hidden, "cell", "exec"), {"get_ipython": Shell})
    assert lines[1:] == [f'pip install "{WHEEL}[notebook]"']
    assert max(len(line) for line in text.splitlines()) <= 75


@pytest.mark.parametrize(
    "address", ["git@example.org:course", 'https://x.org/"; rm', "https://a b"]
)
def test_an_address_that_is_none_is_refused(tmp_path, address):
    clone_with(tmp_path, f"[project.urls]\nRepository = '{address}'\n")
    with pytest.raises(CommandError, match=r"\[project\.urls\].*is not the address"):
        first_cell_text(tmp_path)


def test_the_build_puts_it_behind_the_head_and_renews_it(tmp_path):
    source = tmp_path / "07_example.py"
    source.write_text("# %% [markdown]\n# # Head\n\n# %%\nx = 1\n", encoding="utf-8")
    saved = as_saved(source)
    assert f'# %% tags=["opened-alone", "hide-input"]\n{first_cell_text()}\n' in saved
    source.write_text(saved.replace("# Opened alone", "# Once"), encoding="utf-8")
    assert as_saved(source) == saved
    ids = [cell.id for cell in read_source(source).cells]
    assert ids == ["07-001", "07-alone", "07-002"]


def test_jupyterlab_shows_it_collapsed_and_the_book_not_at_all():
    lesson = nbformat.read(ROOT / "lessons" / "07_tokenization.ipynb", as_version=4)
    cell = lesson.cells[1]
    assert cell.metadata == {
        "tags": ["opened-alone", "hide-input"],
        "jupyter": {"source_hidden": True},
    }
    page = for_the_book(lesson, {})
    assert not any("This cell installs the course" in cell.source for cell in page.cells)


def test_a_package_that_was_loaded_before_the_installation_asks_for_a_restart():
    import numpy

    class Older:
        __version__ = "1.0"

    assert replaced_while_loaded({"numpy": numpy}) == {}
    found = replaced_while_loaded({"numpy": Older, "no_package_of_the_course": Older})
    assert found == {"numpy": ("1.0", numpy.__version__)}
    assert f"numpy 1.0 in place of {numpy.__version__}" in said(found)
    assert "Runtime, Restart session" in said(found)


def test_a_machines_own_build_of_the_same_version_asks_for_none():
    import numpy

    class Ours:
        __version__ = f"{numpy.__version__}+cu126"

    assert replaced_while_loaded({"numpy": Ours}) == {}
