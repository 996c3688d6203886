"""`ehr-course train --adapt`: a prefix for a model that is there, used as that model is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ehr_course.models.prefix_tuning import prefix_parameters
from ehr_course.sources.any_cohort import load_cohort

SHORT = ("--steps", 6, "--batch-size", 16)


def about(folder: Path) -> dict:
    return json.loads((folder / "run.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def heart(ehr_course, tmp_path_factory) -> Path:
    """Sixty patients of the second hospital, prepared."""
    out = tmp_path_factory.mktemp("adapt") / "heart"
    ehr_course("prepare", "--hospital", "heart", "--patients", 60, "--out", out, "--quiet")
    return out


@pytest.fixture(scope="module")
def adapted(ehr_course, heart, run) -> Path:
    out = heart.with_name("adapted")
    done = ehr_course("train", heart, "--adapt", run, "--prefix", 5, *SHORT, "--out", out)
    assert done.exit_code == 0, done.output
    return out


def test_the_base_stays_as_it_was_and_the_prefix_alone_is_trained(run, adapted):
    base, copied = (load_file(of / "model" / "model.safetensors") for of in (run, adapted))
    assert base.keys() == copied.keys()
    for name, weight in base.items():
        assert torch.equal(weight, copied[name]), name
    config = json.loads((run / "model" / "config.json").read_text(encoding="utf-8"))
    count = prefix_parameters(5, config["decoder_layers"], config["d_model"])
    assert about(adapted)["result"]["trained_parameters"] == count
    assert about(adapted)["settings"]["lr"] == 0.03


def test_codes_that_the_model_lacks_are_counted(ehr_course, heart, run, tmp_path):
    done = ehr_course("train", heart, "--adapt", run, *SHORT, "--out", tmp_path / "out")
    assert "codes of the patients are unknown to the model and left out" in done.stdout


def test_it_writes_patients_of_its_own_without_the_first_run(ehr_course, adapted, run, tmp_path):
    shutil.copytree(adapted, tmp_path / "adapted")
    shutil.copytree(tmp_path / "adapted", tmp_path / "plain")
    shutil.rmtree(tmp_path / "plain" / "prefix")
    for name in ("adapted", "plain"):
        done = ehr_course(
            *("generate", tmp_path / name, "--patients", 30),
            *("--out", tmp_path / f"of-{name}"),
        )
        assert done.exit_code == 0
    ours, base = (
        list(load_cohort(tmp_path / f"of-{name}").records) for name in ("adapted", "plain")
    )
    assert [(r.age, r.sex) for r in ours] == [(r.age, r.sex) for r in base]
    assert [r.codes for r in ours] != [r.codes for r in base]


def test_it_is_judged_by_the_patients_it_was_adapted_to(ehr_course, adapted, heart, tmp_path):
    ehr_course("generate", adapted, "--patients", 40, "--out", tmp_path / "synthetic")
    done = ehr_course(
        *("evaluate", "--real", heart, "--synthetic", tmp_path / "synthetic"),
        *("--model", adapted, "--out", tmp_path / "report"),
    )
    assert done.exit_code == 0


def test_the_same_command_goes_on_and_a_repeat_makes_the_same_prefix(
    ehr_course, adapted, heart, run, tmp_path
):
    again = ("train", heart, "--adapt", run, "--prefix", 5, *SHORT, "--out", adapted)
    assert "Going on after step 6 of 6." in ehr_course(*again).stdout
    assert ehr_course("repeat", adapted, "--out", tmp_path / "again", "-q").exit_code == 0
    one, two = (
        (of / "prefix" / "prefix.safetensors").read_bytes() for of in (adapted, tmp_path / "again")
    )
    assert one == two


def refused(ehr_course, *arguments: object) -> str:
    result = ehr_course("train", *arguments)
    assert result.exit_code == 1
    return result.stderr


def test_a_prefix_on_a_prefix_is_refused(ehr_course, adapted, heart, tmp_path):
    said = refused(ehr_course, heart, "--adapt", adapted, "--out", tmp_path / "out")
    assert "this model has a prefix already" in said


def test_notes_and_summarisers_have_no_prefix(
    ehr_course, prepared_notes, notes_run, heart, run, tmp_path
):
    said = refused(ehr_course, prepared_notes, "--adapt", run, "--out", tmp_path / "out")
    assert "it holds notes, and they have no such option. Leave --adapt out." in said
    said = refused(ehr_course, heart, "--adapt", notes_run, "--out", tmp_path / "out")
    assert "this model writes summaries" in said


def test_a_prefix_that_was_trained_for_another_model_is_refused(
    ehr_course, adapted, prepared, tmp_path
):
    shutil.copytree(adapted, tmp_path / "adapted")
    other = ("--profile", "narrow", "--seed", 1, "--steps", 1)
    ehr_course("train", prepared, "--out", tmp_path / "other", *other)
    shutil.rmtree(tmp_path / "adapted" / "model")
    shutil.copytree(tmp_path / "other" / "model", tmp_path / "adapted" / "model")
    result = ehr_course("generate", tmp_path / "adapted", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "prefix" in result.stderr
