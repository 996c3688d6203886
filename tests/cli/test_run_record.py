"""`run.json` says everything that a run depends on, and `ehr-course repeat` does it once more."""

from __future__ import annotations

import json
import platform
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from ehr_course.cli.run_record import fingerprint_of_notes, fingerprint_of_records
from ehr_course.records import NotePair, PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort, write_mimic3


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, by its name in it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def about(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def change(folder: Path, **changes: object) -> None:
    (folder / "run.json").write_text(json.dumps(about(folder) | changes), encoding="utf-8")


# ------------------------------------------------------------------ what it holds


def test_it_holds_settings_and_versions_and_no_place_of_its_own(prepared):
    found = about(prepared)
    assert found["command"] == "prepare"
    assert found["settings"]["patients"] == 200
    assert found["settings"]["hospital"] == "general"
    assert found["versions"]["python"] == platform.python_version()
    assert found["versions"]["torch"] == version("torch")
    assert found["versions"]["transformers"] == version("transformers")
    assert str(prepared) not in json.dumps(found)


def test_every_option_of_a_command_is_in_it(ehr_course, run, synthetic):
    assert about(synthetic)["settings"] == {
        "seed": 0,
        "run": str(run),
        "patients": 40,
        "formats": ["parquet", "mimic3", "meds"],
        "temperature": 1.0,
        "top_k": 0,
        "top_p": None,  # what the model is calibrated for
        "eligible_only": False,
        "batch_size": 512,
    }


# ------------------------------------------------------------------ once more


@pytest.mark.parametrize("name", ["prepared", "synthetic"])
def test_a_run_repeated_writes_the_same_bytes(ehr_course, request, tmp_path, name):
    folder = request.getfixturevalue(name)
    done = ehr_course("repeat", folder / "run.json", "--out", tmp_path / "again")
    assert done.exit_code == 0
    assert contents(tmp_path / "again") == contents(folder)


def test_a_training_repeated_makes_the_same_model(ehr_course, run, tmp_path):
    done = ehr_course("repeat", run, "--out", tmp_path / "again", "--quiet")
    assert done.exit_code == 0
    assert contents(tmp_path / "again" / "model") == contents(run / "model")
    for name in ("run.json", "demographics.csv"):
        assert (tmp_path / "again" / name).read_bytes() == (run / name).read_bytes()


def test_overwrite_replaces_an_older_result(ehr_course, synthetic, tmp_path):
    shutil.copytree(synthetic, tmp_path / "again")
    (tmp_path / "again" / "stray").touch()
    there = ("repeat", synthetic, "--out", tmp_path / "again")
    assert ehr_course(*there).exit_code == 1
    assert ehr_course(*there, "--overwrite").exit_code == 0
    assert contents(tmp_path / "again") == contents(synthetic)


def refused(ehr_course, run: Path, out: Path, *options: str) -> str:
    result = ehr_course("repeat", run, "--out", out, *options)
    assert result.exit_code == 1
    assert not out.exists()
    return result.stderr


def test_other_data_at_the_same_place_are_refused(ehr_course, tmp_path):
    tables = tmp_path / "tables"
    write_mimic3(make_cohort(40, seed=0), tables)
    ehr_course("prepare", "--data", tables, "--out", tmp_path / "out")
    write_mimic3(make_cohort(40, seed=1), tables, overwrite=True)
    said = refused(ehr_course, tmp_path / "out", tmp_path / "again")
    assert said.startswith("run.json, inputs, patients: its fingerprint was ")
    assert "Put back the data of that run" in said


def test_another_model_at_the_same_place_is_refused(ehr_course, run, synthetic, tmp_path):
    shutil.copytree(synthetic, tmp_path / "synthetic")
    shutil.copytree(run, tmp_path / "run")
    change(
        tmp_path / "synthetic",
        settings=about(synthetic)["settings"] | {"run": str(tmp_path / "run")},
    )
    weights = tmp_path / "run" / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\0\0\0\0")
    said = refused(ehr_course, tmp_path / "synthetic", tmp_path / "again")
    assert said.startswith("run.json, inputs, model: its fingerprint was ")


def test_other_versions_are_a_warning(ehr_course, synthetic, tmp_path):
    shutil.copytree(synthetic, tmp_path / "synthetic")
    change(tmp_path / "synthetic", versions=about(synthetic)["versions"] | {"torch": "1.0"})
    done = ehr_course("repeat", tmp_path / "synthetic", "--out", tmp_path / "again", "-q")
    assert done.exit_code == 0
    assert done.stderr == (
        f"Warning: torch was 1.0 in that run and is {version('torch')} now: "
        "the result can differ.\n"
    )


INTEGER = "input should be a valid integer, and it is"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": "other"}, "this is not the record of a run"),
        ({"version": 2}, "version: input should be 1, and it is 2. Correct it, or repeat"),
        (
            {"command": "destroy"},
            "command: input should be 'prepare', 'train', 'generate', "
            "'evaluate' or 'summarize', and it is 'destroy'. Correct it,",
        ),
        ({"command": ["prepare"]}, "and it is ['prepare']"),
        ({"inputs": None}, "inputs: input should be an object, and it is None"),
        ({"inputs": {"train": 7}}, "inputs, train: input should be a valid string, and it is 7"),
        ({"settings": {"speed": 9}}, "settings, speed: this version has no such setting"),
        (
            {"settings": {"patients": "many"}},
            "settings, patients: input should be a valid integer, and it is 'many'",
        ),
        (
            {"settings": {"patients": True}},
            "settings, patients: input should be a valid integer, and it is True",
        ),
        (
            {"settings": {"seed": -1}},
            "settings, seed: input should be greater than or equal to 0, and it is -1",
        ),
    ],
)
def test_a_damaged_record_is_refused(ehr_course, prepared, tmp_path, changes, said):
    (tmp_path / "old").mkdir()
    shutil.copy(prepared / "run.json", tmp_path / "old")
    change(tmp_path / "old", **changes)
    assert said in refused(ehr_course, tmp_path / "old", tmp_path / "again")


@pytest.mark.parametrize(
    ("formats", "said"),
    [
        ([], "settings, formats: tuple should have at least 1 item"),
        (["meds", "xlsx"], "settings, formats, 1: input should be 'meds', 'mimic3' or 'parquet'"),
    ],
)
def test_a_record_of_no_format_writes_nothing(ehr_course, synthetic, tmp_path, formats, said):
    (tmp_path / "old").mkdir()
    shutil.copy(synthetic / "run.json", tmp_path / "old")
    change(tmp_path / "old", settings={**about(synthetic)["settings"], "formats": formats})
    assert said in refused(ehr_course, tmp_path / "old", tmp_path / "again")


def test_a_record_that_lacks_a_setting_is_refused(ehr_course, run, tmp_path):
    (tmp_path / "old").mkdir()
    shutil.copy(run / "run.json", tmp_path / "old")
    settings = about(run)["settings"]
    del settings["prepared"]
    change(tmp_path / "old", settings=settings)
    said = refused(ehr_course, tmp_path / "old", tmp_path / "again")
    assert "settings, prepared: it is missing. Correct it, or repeat the run with" in said


def test_a_file_that_is_no_record(ehr_course, tmp_path):
    (tmp_path / "text.json").write_text("hello", encoding="utf-8")
    said = refused(ehr_course, tmp_path / "text.json", tmp_path / "again")
    assert "it is not JSON" in said
    assert "there is no such file" in refused(ehr_course, tmp_path, tmp_path / "again")


# ------------------------------------------------------------------ fingerprints


def test_the_fingerprint_of_records_changes_with_each_of_their_parts():
    def patient(subject_id=1, sex="F", age=64, visits=(("4280", "0389"), ("4019",))):
        return PatientRecord(subject_id, sex, age, tuple(map(Visit, visits)))

    cohorts = [
        [patient()],
        [patient(subject_id=2)],
        [patient(sex="M")],
        [patient(age=65)],
        [patient(visits=(("4280",), ("0389", "4019")))],
        [patient(visits=(("4280", "0389", "4019"),))],
        [patient(visits=(("0389", "4280"), ("4019",)))],
        [patient(), patient(subject_id=2)],
    ]
    prints = [fingerprint_of_records(cohort) for cohort in cohorts]
    assert len(set(prints)) == len(cohorts)
    assert fingerprint_of_records([patient()]) == prints[0]


def test_the_fingerprint_of_notes_changes_with_each_of_their_parts():
    corpora = [
        [NotePair("a note", "a summary", 1)],
        [NotePair("another note", "a summary", 1)],
        [NotePair("a note", "another summary", 1)],
        [NotePair("a note", "a summary", "1")],
        [NotePair("a note", "a summary")],
    ]
    assert len({fingerprint_of_notes(corpus) for corpus in corpora}) == len(corpora)
