"""A lesson's patients: embedded ones, or those of the folder that the environment names."""

from __future__ import annotations

from pathlib import Path

import pytest

from ehr_course.errors import InputError
from ehr_course.sources.any_cohort import VARIABLE, choose_patients, load_cohort, real_data
from ehr_course.sources.synthetic import make_cohort, write_mimic3


@pytest.mark.parametrize("named", [None, ""])
def test_without_a_folder_they_are_the_embedded_hospitals(
    named: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if named is not None:
        monkeypatch.setenv(VARIABLE, named)
    assert real_data() is None
    assert choose_patients(20, seed=3) == make_cohort(20, seed=3)


def test_with_a_folder_they_are_its_patients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_mimic3(make_cohort(15, seed=1), tmp_path, seed=1)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert real_data() == tmp_path
    chosen = choose_patients(20, seed=3)
    assert chosen == list(load_cohort(tmp_path, malformed="drop").records)
    assert len(chosen) == 15


def test_a_folder_that_is_not_there_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="nowhere"):
        choose_patients(20, seed=3)
