"""The trained models of the course: what they say they score is what they score."""

from __future__ import annotations

from pathlib import Path

import pytest

from course import checkpoint
from course.command_error import CommandError
from ehr_course.models.saved import load_checkpoint

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
NAMES = sorted(checkpoint.RECIPES)
MODELS = [name for name in NAMES if (checkpoint.CHECKPOINTS / name / "config.json").exists()]


def test_every_checkpoint_has_a_recipe_or_a_benchmark_that_makes_it() -> None:
    of_benchmarks = {path.stem for path in BENCHMARKS.glob("*.py")}
    folders = {path.name for path in checkpoint.CHECKPOINTS.iterdir()}
    assert folders - of_benchmarks == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_checkpoint_is_small_enough_to_be_cloned(name: str) -> None:
    assert (
        sum(file.stat().st_size for file in (checkpoint.CHECKPOINTS / name).iterdir()) < 3_000_000
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_checkpoint_scores_what_it_says(name: str) -> None:
    loaded = load_checkpoint(name)
    scored = checkpoint.scores(loaded, checkpoint.cohort().test)
    assert scored.keys() == loaded.metrics.keys()
    for metric, value in scored.items():
        # Sampling may take another turn where two processors round another way.
        tolerance = 0.01 if metric.startswith("impossible") else 0.002
        assert value == pytest.approx(loaded.metrics[metric], abs=tolerance), metric


def test_the_tiny_model_reads_its_encoder_its_age_and_its_sex() -> None:
    metrics = load_checkpoint("tiny_prompt_bart").metrics
    assert metrics["loss_repair_of_another"] > metrics["loss_repair"] + 1
    assert metrics["loss_repair"] < metrics["loss_from_demographics"] - 0.5
    assert metrics["impossible"] < 0.25 * metrics["impossible_of_another"]


@pytest.mark.parametrize("name", MODELS)
def test_the_recipe_gives_the_same_files_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "COHORT", 120)
    monkeypatch.setattr(checkpoint, "STEPS", 3)
    monkeypatch.setattr(checkpoint, "STEPS_WITH_HISTORY", 3)
    for time in ("first", "second"):
        checkpoint.RECIPES[name](tmp_path / time)
    files = sorted(path.name for path in (tmp_path / "first").iterdir())
    assert "metrics.json" in files
    for name in files:
        first, second = ((tmp_path / made / name).read_bytes() for made in ("first", "second"))
        assert first == second, name


def test_an_unknown_checkpoint_is_answered_with_those_there_are() -> None:
    with pytest.raises(CommandError, match="There is no checkpoint 'big'") as error:
        checkpoint.main(["big"])
    assert "tiny_prompt_bart" in str(error.value)
