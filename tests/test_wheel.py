"""The wheel brings everything that the library reads, and works without a clone."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from course.bare_wheel import copy_sources

ROOT = Path(__file__).resolve().parents[1]
BUILD = "import sys; from setuptools import build_meta as b; getattr(b, sys.argv[1])(sys.argv[2])"


def build(kind: str, clone: Path, out: Path) -> Path:
    """Build a distribution as pip would, without the network; return its file."""
    out.mkdir()
    subprocess.run(
        [sys.executable, "-c", BUILD, kind, str(out)], cwd=clone, check=True, capture_output=True
    )
    (file,) = out.iterdir()
    return file


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """Copy what a distribution is made from: a build leaves files beside its sources."""
    clone = tmp_path_factory.mktemp("clone")
    copy_sources(ROOT, clone)
    return clone


@pytest.fixture(scope="module")
def installed(clone, tmp_path_factory) -> Path:
    """Build the wheel and unpack it outside of a clone."""
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(build("build_wheel", clone, clone / "wheel")) as wheel:
        wheel.extractall(folder)
    return folder


def run(installed: Path, program: str) -> str:
    """Run a program on the unpacked library, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=installed,
        env={**os.environ, "PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def data_files(library: Path) -> dict[str, bytes]:
    """Return what a library folder holds besides Python."""
    return {
        path.relative_to(library).as_posix(): path.read_bytes()
        for path in library.rglob("*")
        if path.is_file() and path.suffix not in (".py", ".pyc")
    }


def test_the_wheel_brings_every_data_file_of_the_library(installed):
    brought = data_files(installed / "ehr_course")
    course = {name for name in brought if name.startswith("_course/")}
    expected = data_files(ROOT / "ehr_course")
    assert {name: brought[name] for name in brought.keys() - course} == expected
    assert len(expected) > 8


def test_a_type_checker_is_told_that_the_library_has_types(installed):
    assert (installed / "ehr_course" / "py.typed").exists()


@pytest.mark.parametrize("folder", ["solutions", "course/checkpoints"])
def test_the_wheel_brings_the_worked_answers_and_the_checkpoints(installed, folder):
    there = ROOT / folder
    pattern = "[0-9]*.py" if folder == "solutions" else "*/*"
    expected = {path.relative_to(there): path.read_bytes() for path in there.glob(pattern)}
    brought = installed / "ehr_course" / "_course" / Path(folder).name
    found = {p.relative_to(brought): p.read_bytes() for p in brought.rglob("*") if p.is_file()}
    assert found == expected


def test_the_library_is_the_unpacked_one_and_finds_its_own_files(installed):
    said = run(
        installed,
        "from ehr_course.course_files import checkpoint_folder, solutions_folder\n"
        "print(solutions_folder())\n"
        "print(checkpoint_folder('second_hospital'))\n",
    )
    packaged = installed / "ehr_course" / "_course"
    assert said.splitlines() == [
        str(packaged / "solutions"),
        str(packaged / "checkpoints" / "second_hospital"),
    ]


def test_a_checkpoint_loads_and_a_code_has_its_title(installed):
    said = run(
        installed,
        "from ehr_course import icd9\n"
        "from ehr_course.models.saved import load_checkpoint\n"
        "loaded = load_checkpoint('tiny_prompt_bart')\n"
        "print(len(loaded.tokenizer) == loaded.model.config.vocab_size)\n"
        "print(icd9.title('4280'))\n",
    )
    agrees, title = said.splitlines()
    assert agrees == "True"
    assert "heart failure" in title.lower()


def test_a_right_answer_is_solved_and_a_wrong_one_gets_its_diagnosis(installed):
    said = run(
        installed,
        "from ehr_course.exercises import check\n"
        "check('00.1', lambda visits: len({code for visit in visits for code in visit}))\n"
        "check('00.1', len)\n",
    )
    assert "✔ 00.1 How many different codes?" in said
    assert "✘ 00.1 How many different codes?" in said
    assert "You counted the visits." in said


def test_a_wheel_can_be_built_from_the_source_distribution(clone, installed, tmp_path):
    with tarfile.open(build("build_sdist", clone, clone / "sdist")) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    with zipfile.ZipFile(build("build_wheel", unpacked, tmp_path / "wheel")) as wheel:
        names = {name for name in wheel.namelist() if name.startswith("ehr_course/")}
    expected = {p.relative_to(installed).as_posix() for p in installed.rglob("*") if p.is_file()}
    assert names == {name for name in expected if name.startswith("ehr_course/")}
