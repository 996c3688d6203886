"""Progress is never lost and never broken."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ehr_course.exercises import store
from ehr_course.exercises.result import Outcome


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EHR_COURSE_HOME", str(tmp_path))
    return tmp_path / "progress.json"


def test_progress_lives_in_the_users_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EHR_COURSE_HOME", raising=False)
    clone = Path(__file__).parents[2]
    assert clone not in store.progress_file().parents
    assert store.progress_file().parent.name == "ehr_course"


def test_a_solved_exercise_stays_solved_after_a_wrong_attempt(file: Path) -> None:
    store.record_outcome("07.1", Outcome.SOLVED)
    first = store.read_standings()["07.1"].solved_at
    store.record_outcome("07.1", Outcome.NOT_YET)
    standing = store.read_standings()["07.1"]
    assert (standing.solved_at, standing.attempts, standing.outcome) == (first, 2, "not yet")


def test_two_notebooks_at_once_lose_nothing(file: Path) -> None:
    program = (
        "import sys\n"
        "from ehr_course.exercises import store\n"
        "from ehr_course.exercises.result import Outcome\n"
        "for _ in range(25): store.record_outcome('07.1', Outcome.NOT_YET)\n"
        "store.record_outcome(sys.argv[1], Outcome.SOLVED)\n"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", program, f"07.{number}"]) for number in (2, 3, 4)
    ]
    assert [run.wait() for run in runs] == [0, 0, 0]
    standings = store.read_standings()
    assert standings["07.1"].attempts == 75
    assert {key for key, value in standings.items() if value.solved_at} == {"07.2", "07.3", "07.4"}


@pytest.mark.parametrize("damage", [b"{", b"\xff\xfe", b"[]", b'{"version": 1}'])
def test_a_damaged_file_is_kept_aside_and_named(file: Path, damage: bytes) -> None:
    file.write_bytes(damage)
    with pytest.warns(UserWarning, match=r"kept as progress\.damaged-1\.json"):
        store.record_outcome("07.1", Outcome.SOLVED)
    assert file.with_name("progress.damaged-1.json").read_bytes() == damage
    assert list(store.read_standings()) == ["07.1"]


def test_a_file_of_a_newer_course_is_left_as_it_is(file: Path) -> None:
    text = json.dumps({"version": 2, "exercises": {}, "badges": []})
    file.write_text(text, encoding="utf-8")
    with pytest.raises(store.ProgressError, match="newer version of the course"):
        store.record_outcome("07.1", Outcome.SOLVED)
    assert file.read_text(encoding="utf-8") == text


def test_an_interrupted_write_leaves_the_old_file_whole(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.record_outcome("07.1", Outcome.SOLVED)
    before = file.read_bytes()

    def interrupted(*args: object, **kwargs: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store.os, "fsync", interrupted)
    with pytest.raises(store.ProgressError, match=r"No space left.*EHR_COURSE_HOME"):
        store.record_outcome("07.2", Outcome.SOLVED)
    assert file.read_bytes() == before
    assert sorted(path.name for path in file.parent.iterdir()) == [
        "progress.json",
        "progress.lock",
    ]


def test_a_folder_that_cannot_be_made_is_named_with_a_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("EHR_COURSE_HOME", str(tmp_path / "file"))
    with pytest.raises(store.ProgressError, match="EHR_COURSE_HOME"):
        store.record_outcome("07.1", Outcome.SOLVED)
