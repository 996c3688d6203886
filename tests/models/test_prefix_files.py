"""A prefix that is folded, saved and loaded, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from prefix_models import (
    BATCH,
    EVERYWHERE,
    IDS,
    LABELS,
    PATIENTS,
    SIDES,
    assert_same,
    conditioned,
    logits,
    plain,
    tuned,
    weights,
)

from ehr_course.errors import InputError
from ehr_course.models.prefix_tuning import PrefixConfig, PrefixTuned, prefix_parameters

# ------------------------------------------------------------------ folding, saving


def test_the_network_folds_away() -> None:
    model = tuned(**EVERYWHERE, d_hidden=8)
    before, written = logits(model), model.generate(IDS, **PATIENTS, max_new_tokens=9)
    assert model.fold() is model
    torch.testing.assert_close(logits(model), before, atol=1e-6, rtol=1e-6)
    assert torch.equal(model.generate(IDS, **PATIENTS, max_new_tokens=9), written)
    assert model.n_trainable == prefix_parameters(3, 2, 32) * 2 + prefix_parameters(3, 3, 32)
    assert model.prefix_config == PrefixConfig(3, **EVERYWHERE)
    assert all(prefix.transform is None for prefix in model.prefixes.values())


@pytest.mark.parametrize("settings", SIDES)
def test_what_is_saved_comes_back(tmp_path: Path, settings: dict[str, Any]) -> None:
    model = tuned(**settings)
    model.save(tmp_path / "here" / "prefix")
    again = PrefixTuned.load(tmp_path / "here" / "prefix", conditioned())
    assert again.prefix_config == model.prefix_config
    assert_same(weights(again), weights(model))
    assert torch.equal(logits(again), logits(model))
    names = {path.name for path in (tmp_path / "here" / "prefix").iterdir()}
    assert names == {"prefix.json", "prefix.safetensors"}
    assert [path.name for path in (tmp_path / "here").iterdir()] == ["prefix"]


def test_a_saved_prefix_is_replaced_as_a_whole(tmp_path: Path) -> None:
    base = conditioned()
    tuned(base, n_tokens=2).save(tmp_path / "prefix")
    newer = tuned(base, n_tokens=4, d_hidden=8)
    newer.save(tmp_path / "prefix")
    assert_same(weights(PrefixTuned.load(tmp_path / "prefix", base)), weights(newer))


def test_what_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tuned()
    model.save(tmp_path / "prefix")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ehr_course.models.prefix_tuning.save_file", full)
    with pytest.raises(InputError, match="No space left on device"):
        tuned(n_tokens=5).save(tmp_path / "prefix")
    assert_same(weights(PrefixTuned.load(tmp_path / "prefix", conditioned())), weights(model))
    assert [path.name for path in tmp_path.iterdir()] == ["prefix"]


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"n_tokens": 0}, "n_tokens"),
        ({"n_tokens": -3}, "n_tokens"),
        ({"d_hidden": 0}, "d_hidden"),
        ({"decoder": False}, "there is no prefix anywhere"),
    ],
)
def test_settings_without_a_meaning_are_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=named):
        PrefixConfig(**settings)


def test_a_prefix_that_leaves_no_position_is_refused() -> None:
    base = conditioned(max_position_embeddings=12)
    assert tuned(base, n_tokens=9).max_tokens == 1
    with pytest.raises(InputError, match="n_tokens"):
        tuned(base, n_tokens=10)
    assert tuned(base, n_tokens=50, decoder=False, cross=True).max_tokens == 10


@pytest.mark.parametrize("base", [conditioned, plain])
@pytest.mark.parametrize("shift", [False, True])
def test_a_sequence_that_is_too_long_is_refused(base: Any, shift: bool) -> None:
    model = tuned(base(max_position_embeddings=20), n_tokens=5, shift_positions=shift)
    assert model.max_tokens == (13 if base is conditioned else 15)
    patients = PATIENTS if base is conditioned else {}
    fits = torch.full((2, model.max_tokens), 20)
    model(IDS, decoder_input_ids=fits, **patients)
    with pytest.raises(InputError, match="of which the prefix takes 5"):
        model(IDS, decoder_input_ids=torch.full((2, model.max_tokens + 1), 20), **patients)


@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing:FutureWarning")
def test_gradient_checkpointing_is_refused() -> None:
    base = conditioned()
    model = tuned(base)
    base.gradient_checkpointing_enable()
    with pytest.raises(InputError, match="gradient checkpointing"):
        model(**BATCH, labels=LABELS)
    base.gradient_checkpointing_disable()
    model(**BATCH, labels=LABELS)


def saved(folder: Path) -> Path:
    tuned().save(folder / "prefix")
    return folder / "prefix"


def test_a_prefix_for_another_base_is_refused(tmp_path: Path) -> None:
    base = conditioned()
    with torch.no_grad():
        base.final_logits_bias[0, 5] = 0.1
    with pytest.raises(InputError, match="other weights"):
        PrefixTuned.load(saved(tmp_path), base)


@pytest.mark.parametrize("name", ["prefix.json", "prefix.safetensors"])
def test_a_file_that_is_missing_or_damaged_is_refused(tmp_path: Path, name: str) -> None:
    file = saved(tmp_path) / name
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match="damaged"):
        PrefixTuned.load(file.parent, conditioned())
    file.unlink()
    with pytest.raises(InputError, match="the file is missing"):
        PrefixTuned.load(file.parent, conditioned())


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such folder"):
        PrefixTuned.load(tmp_path / "nowhere", conditioned())


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"n_tokens": 4}, "decoder.embedding"),
        ({"cross": True}, "cross.embedding"),
        ({"depth": 3}, "not the settings of a prefix"),
        ({"n_tokens": 0}, "n_tokens"),
    ],
)
def test_settings_that_do_not_fit_the_weights_are_refused(
    tmp_path: Path, change: dict[str, Any], named: str
) -> None:
    file = saved(tmp_path) / "prefix.json"
    fields = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(fields | change), encoding="utf-8")
    with pytest.raises(InputError, match=named):
        PrefixTuned.load(file.parent, conditioned())


def test_a_folder_with_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(InputError, match=r"thesis\.txt"):
        tuned().save(tmp_path)
    assert (tmp_path / "thesis.txt").read_text(encoding="utf-8") == "years of work"
    with pytest.raises(InputError, match="this is a file"):
        tuned().save(tmp_path / "thesis.txt")
