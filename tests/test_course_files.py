"""The course's own files are found in a clone, and a missing one is named with its remedy."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ehr_course import course_files
from ehr_course.course_files import checkpoint_folder, solutions_folder
from ehr_course.errors import InputError

ROOT = Path(__file__).resolve().parents[1]


def test_a_clone_has_its_own_worked_answers_and_checkpoints() -> None:
    assert solutions_folder() == ROOT / "solutions"
    expected = ROOT / "course" / "checkpoints" / "tiny_prompt_bart"
    assert checkpoint_folder("tiny_prompt_bart") == expected


@pytest.mark.parametrize("name", ["big", "", "..", "tiny_prompt_bart/config.json"])
def test_an_unknown_checkpoint_is_answered_with_those_there_are(name: str) -> None:
    with pytest.raises(InputError, match=r"it has: .*auxiliary_weights.*tiny_prompt_bart"):
        checkpoint_folder(name)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the library be one that was installed without a clone; return its folder."""
    library = tmp_path / "site-packages" / "ehr_course"
    library.mkdir(parents=True)
    monkeypatch.setattr(course_files, "_LIBRARY", library)
    return library


def test_an_installed_library_has_copies_of_its_own(installed: Path) -> None:
    (installed / "_course" / "solutions").mkdir(parents=True)
    (installed / "_course" / "checkpoints" / "one").mkdir(parents=True)
    assert solutions_folder() == installed / "_course" / "solutions"
    assert checkpoint_folder("one") == installed / "_course" / "checkpoints" / "one"


def test_a_library_without_the_files_says_how_to_get_them(installed: Path) -> None:
    with pytest.raises(InputError, match=r"_course/solutions: .* missing. Install the package"):
        solutions_folder()
    with pytest.raises(InputError, match=r"_course/checkpoints: .* missing. Install the package"):
        checkpoint_folder("tiny_prompt_bart")


def test_a_clone_that_is_not_whole_is_named(installed: Path) -> None:
    (installed.parent / "course").mkdir()
    shutil.copy(ROOT / "course" / "syllabus.yml", installed.parent / "course")
    with pytest.raises(InputError, match="Get the whole repository"):
        solutions_folder()
