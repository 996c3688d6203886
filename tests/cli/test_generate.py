"""`ehr-course generate`: as many patients as asked for, of ages and sexes that were learned."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from ehr_course.cli import generate as module
from ehr_course.cli.prepare import open_prepared
from ehr_course.evaluation.validity import impossible_share_of
from ehr_course.generation.patients import Sampling, generate_patients
from ehr_course.models.saved import load_model
from ehr_course.sources.any_cohort import load_cohort
from ehr_course.sources.meds import load_meds
from ehr_course.sources.mimic import load_mimic3


def about(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


def test_every_format_holds_the_same_patients(synthetic):
    meds = list(load_meds(synthetic / "meds").records)
    assert len(meds) == 40
    assert list(load_mimic3(synthetic / "mimic3").records) == meds
    table = list(load_cohort(synthetic / "patients.parquet").records)
    assert [(r.age, r.sex, r.codes) for r in table] == [(r.age, r.sex, r.codes) for r in meds]


def test_ages_and_sexes_are_those_of_the_training_part(prepared, synthetic):
    pairs = {(record.age, record.sex) for record in open_prepared(prepared).split().train}
    assert {(record.age, record.sex) for record in list(load_cohort(synthetic).records)} <= pairs


def test_the_patients_are_those_that_the_library_writes(ehr_course, run, tmp_path, monkeypatch):
    asked = []

    def spy(model, tokenizer, wanted, **options):
        asked.append((list(wanted), options["sampling"]))
        return generate_patients(model, tokenizer, wanted, **options)

    monkeypatch.setattr(module, "generate_patients", spy)
    options = ("--seed", 5, "--temperature", 0.8, "--top-k", 9, "--top-p", 0.9)
    done = ehr_course("generate", run, "--out", tmp_path / "s", "--patients", 7, *options)
    assert done.exit_code == 0
    [(wanted, sampling)] = asked
    assert sampling == Sampling(temperature=0.8, top_k=9, top_p=0.9)
    loaded = load_model(run / "model")
    expected = generate_patients(loaded.model, loaded.tokenizer, wanted, seed=5, sampling=sampling)
    found = list(load_cohort(tmp_path / "s").records)
    assert [(r.age, r.sex, r.codes) for r in found] == [(r.age, r.sex, r.codes) for r in expected]


def test_what_was_written_is_counted(synthetic):
    records = list(load_cohort(synthetic).records)
    result = about(synthetic)["result"]
    assert result["patients"] == 40
    assert result["visits"] == sum(len(record.visits) for record in records)
    assert result["codes"] == sum(len(record.codes) for record in records)


def test_the_terminal_says_that_dates_are_invented_and_shows_no_patient(ehr_course, run, tmp_path):
    done = ehr_course("generate", run, "--out", tmp_path / "s", "--patients", 3)
    codes = {code for record in list(load_cohort(tmp_path / "s").records) for code in record.codes}
    assert done.exit_code == 0
    assert done.stdout.endswith("codes, as meds. Dates are invented.\n")
    assert not codes & set(done.stdout.split())


def test_another_seed_gives_other_patients(ehr_course, run, tmp_path):
    for seed in (1, 2):
        out = ("--out", tmp_path / str(seed))
        ehr_course("generate", run, *out, "--patients", 10, "--seed", seed)
    one, two = (list(load_cohort(tmp_path / name).records) for name in "12")
    assert [record.codes for record in one] != [record.codes for record in two]


def test_only_eligible_codes_and_what_that_hides(ehr_course, run, tmp_path):
    options = ("--patients", 60, "--temperature", 2)
    free = ehr_course("generate", run, "--out", tmp_path / "free", *options)
    done = ehr_course("generate", run, "--out", tmp_path / "s", *options, "--eligible-only")
    assert (free.exit_code, done.exit_code) == (0, 0)
    shares = [
        impossible_share_of(list(load_cohort(tmp_path / name).records)) for name in ("free", "s")
    ]
    assert shares[0] > 0.02
    assert shares[1] == 0
    found = about(tmp_path / "s")
    assert found["settings"]["eligible_only"] is True
    kept_out = found["result"]["share_kept_out"]
    assert 0.02 < kept_out < 0.6
    assert f"{kept_out:.1%} were impossible for the patient's age or sex" in done.stdout
    assert "validity in a report says nothing about the model" in done.stdout
    assert "--eligible-only" not in free.stdout
    assert "share_kept_out" not in about(tmp_path / "free")["result"]


# ------------------------------------------------------------------ bad input


def refused(ehr_course, *arguments: object) -> str:
    result = ehr_course("generate", *arguments)
    assert result.exit_code == 1
    assert result.stdout == ""
    return result.stderr


def test_a_run_without_a_model_is_not_finished(ehr_course, run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "model")
    said = refused(ehr_course, tmp_path / "run", "--out", tmp_path / "s")
    assert said == (
        f"{tmp_path / 'run'}, model: there is no model: the training is not finished. Run the "
        "same 'ehr-course train' again: it goes on from the last checkpoint.\n"
    )
    assert not (tmp_path / "s").exists()


def test_a_run_whose_demographics_are_damaged(ehr_course, run, tmp_path):
    shutil.copytree(run, tmp_path / "run")
    path = tmp_path / "run" / "demographics.csv"
    for text, said in (
        ("age,sex,count\n64,F,2\n640,F,2\n", "line 3: not an age, sex and count"),
        ("age,sex,count\n64,F,-1\n", "line 2: not an age, sex and count"),
        ("age,sex,count\n", "nobody is counted in it"),
        ("age;sex;count\n", "line 1: these are not its columns"),
        ("age,sex,count\n64,\xff,2\n", "line 2: not an age, sex and count"),
        ("age,sex,count\n64,F,99999999999999999999\n", "line 2: not an age, sex and count"),
    ):
        path.write_text(text, encoding="latin-1")
        assert said in refused(ehr_course, tmp_path / "run", "--out", tmp_path / "s")
    path.unlink()
    said = refused(ehr_course, tmp_path / "run", "--out", tmp_path / "s")
    assert "demographics.csv: there is no such file" in said


def test_a_summariser_writes_no_patients(ehr_course, notes_run, tmp_path):
    said = refused(ehr_course, notes_run, "--out", tmp_path / "s")
    assert "this model writes summaries. Use it with: ehr-course summarize" in said


def test_prepared_data_are_no_run(ehr_course, prepared, tmp_path):
    said = refused(ehr_course, prepared, "--out", tmp_path / "s")
    assert "this is what 'ehr-course prepare' wrote, not 'train'" in said


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (("--temperature", 0), "--temperature: 0.0 is out of range"),
        (("--top-p", 1.5), "--top-p: 1.5 is out of range"),
    ],
)
def test_sampling_out_of_range(ehr_course, run, tmp_path, option, said):
    assert said in refused(ehr_course, run, "--out", tmp_path / "s", *option)


@pytest.mark.parametrize(
    "option", [("--patients", 0), ("--patients", 10**11), ("--format", "xlsx")]
)
def test_wrong_usage(ehr_course, run, tmp_path, option):
    assert ehr_course("generate", run, "--out", tmp_path / "s", *option).exit_code == 2


def test_an_interrupt_leaves_nothing_behind(ehr_course, run, tmp_path, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "generate_patients", interrupted)
    result = ehr_course("generate", run, "--out", tmp_path / "s")
    assert result.exit_code == 130
    assert result.stderr == "Interrupted. Nothing was written. Run the same command again.\n"
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_in_one_line(ehr_course, run, tmp_path, monkeypatch):
    def full(*arguments, **options):
        # As polars says it: no file is named.
        raise OSError("No space left on device")

    monkeypatch.setattr(module, "write_formats", full)
    said = refused(ehr_course, run, "--out", tmp_path / "s", "--patients", 2, "-q")
    assert said == (
        f"{tmp_path / 's'}: no space is left on its disk. Make room and run the same command "
        "again, or name another place.\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_what_may_not_be_read_is_named(ehr_course, run, tmp_path, monkeypatch):
    def forbidden(*arguments, **options):
        raise PermissionError(13, "Permission denied", "run.json")

    monkeypatch.setattr(module, "open_patient_run", forbidden)
    said = refused(ehr_course, run, "--out", tmp_path / "s")
    assert said == (
        "run.json: Permission denied. Look at its permissions and the free space, or name another "
        "place.\n"
    )


@pytest.mark.parametrize(
    "error",
    [
        MemoryError("Unable to allocate 745. GiB"),
        torch.OutOfMemoryError("Unable to allocate 745. GiB"),
        RuntimeError("Unable to allocate 745. GiB: can't allocate memory"),
    ],
    ids=["numpy", "gpu", "cpu"],
)
def test_too_little_memory_is_said_in_one_line(ehr_course, run, tmp_path, monkeypatch, error):
    def too_much(*arguments, **options):
        raise error

    monkeypatch.setattr(module, "generate_patients", too_much)
    said = refused(ehr_course, run, "--out", tmp_path / "s", "-q")
    assert said.startswith("memory: Unable to allocate 745. GiB")
    assert said.endswith(
        "Use fewer patients or a smaller --batch-size; "
        "train also has --gradient-accumulation-steps.\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_any_other_error_of_torch_is_not_taken_for_memory(ehr_course, run, tmp_path, monkeypatch):
    def wrong(*arguments, **options):
        raise RuntimeError("shapes differ")

    monkeypatch.setattr(module, "generate_patients", wrong)
    with pytest.raises(RuntimeError, match="shapes differ"):
        ehr_course("generate", run, "--out", tmp_path / "s", "-q")
