"""A model's folder: what comes back, and what a broken one says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from ehr_course.errors import InputError
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.models.saved import load_checkpoint, load_model, save_model
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.tokenizers.notes import NoteTokenizer
from ehr_course.tokenizers.words import WordTokenizer

TOKENIZER = CodeTokenizer(["4280", "0389", "V3001"])


@pytest.fixture
def model() -> PromptBart:
    torch.manual_seed(0)
    return PromptBart(PromptBartConfig.for_tokenizer(TOKENIZER, d_model=16))


@pytest.fixture
def folder(model: PromptBart, tmp_path: Path) -> Path:
    save_model(model, TOKENIZER, tmp_path / "model", metrics={"seed": 0})
    return tmp_path / "model"


def test_model_tokenizer_and_metrics_come_back(model: PromptBart, folder: Path) -> None:
    loaded = load_model(folder)
    assert loaded.tokenizer == TOKENIZER
    assert loaded.metrics == {"seed": 0}
    assert not loaded.model.training
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], weight), name


def test_the_folder_holds_no_pickle_and_nothing_is_left_beside_it(folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json",
        "metrics.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_scores_that_have_no_names_are_refused(folder: Path) -> None:
    (folder / "metrics.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(InputError, match=r"metrics\.json: the file is damaged"):
        load_model(folder)


def test_saving_again_replaces_the_whole_folder(model: PromptBart, folder: Path) -> None:
    save_model(model, TOKENIZER, folder)
    assert load_model(folder).metrics == {}


def test_a_save_that_fails_leaves_the_old_model(
    model: PromptBart, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: object, path: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr(CodeTokenizer, "save", fail)
    with pytest.raises(InputError, match=r"model: it cannot be written \(no space\)\. Make room"):
        save_model(model, TOKENIZER, folder)
    assert load_model(folder).metrics == {"seed": 0}
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_a_tokenizer_of_other_codes_cannot_be_saved_with_the_model(
    model: PromptBart, tmp_path: Path
) -> None:
    other = CodeTokenizer(["4280", "0389", "V3000"])
    with pytest.raises(InputError, match="other codes"):
        save_model(model, other, tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(InputError, match=f"{name}: the file is missing"):
        load_model(folder)


@pytest.mark.parametrize("kept", [0.0, 0.0005, 0.5, 0.999])
def test_a_truncated_safetensors_file_is_named(folder: Path, kept: float) -> None:
    path = folder / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(InputError, match=r"model\.safetensors: the file is truncated or damaged"):
        load_model(folder)


def change_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    fields = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(fields | changes), encoding="utf-8")


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"d_model": 32}, r"the file has shape .*, the configuration asks for shape"),
        ({"encoder_layers": 3}, r"the file has no such weight, the configuration asks for"),
        ({"decoder_layers": 1}, r"the configuration asks for no such weight"),
        ({"prompt_encoder": False}, r"encoder_prompt.*asks for no such weight"),
        ({"cat_cardinalities": [3]}, r"table\.weight: the file has shape \(2, 128\)"),
        ({"age_encoder": "fourier"}, r"numerical\.turns: the file has no such weight"),
    ],
)
def test_weights_of_another_configuration_are_refused(
    folder: Path, changes: dict[str, object], problem: str
) -> None:
    change_config(folder, **changes)
    with pytest.raises(InputError, match=problem):
        load_model(folder)


def test_a_configuration_of_another_kind_of_model_is_refused(folder: Path) -> None:
    change_config(folder, model_type="bart")
    with pytest.raises(InputError, match="'bart', not 'prompt_bart'"):
        load_model(folder)


def test_a_field_without_meaning_is_refused(folder: Path) -> None:
    change_config(folder, d_model="wide")
    with pytest.raises(InputError, match=r"config\.json: a field has no meaning"):
        load_model(folder)


def test_a_configuration_that_is_no_json_is_refused(folder: Path) -> None:
    (folder / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="the file is damaged: this is not JSON"):
        load_model(folder)


@pytest.mark.parametrize(
    ("codes", "problem"),
    [
        (["4280", "0389", "V3000"], "other codes"),
        (["4280", "0389"], "the model has 10 tokens, the tokenizer 9"),
    ],
)
def test_a_model_of_another_vocabulary_is_refused(
    folder: Path, codes: list[str], problem: str
) -> None:
    CodeTokenizer(codes).save(folder / "tokenizer.json")
    with pytest.raises(InputError, match=problem):
        load_model(folder)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        load_model(tmp_path / "nowhere")


def test_a_checkpoint_that_does_not_exist_is_answered_with_those_that_do() -> None:
    with pytest.raises(InputError, match="course checkpoint big_prompt_bart"):
        load_checkpoint("big_prompt_bart")


# ------------------------------------------------------------------ summarisers

WORDS = WordTokenizer(["fever", "given", "no", "quinapril"])
PIECES = NoteTokenizer.train(
    ["no fever, no cough", "fever and cough", "cough for two days"], vocab_size=24
)


def summariser(tokenizer: WordTokenizer | NoteTokenizer, **changes: object) -> PointerGenerator:
    torch.manual_seed(0)
    fields = {"d_hidden": 8, "d_embedding": 4, "coverage": True} | changes
    return PointerGenerator(PointerGeneratorConfig.for_tokenizer(tokenizer, **fields))


@pytest.mark.parametrize("tokenizer", [WORDS, PIECES], ids=["words", "pieces"])
def test_a_summariser_comes_back_with_either_tokenizer(
    tokenizer: WordTokenizer | NoteTokenizer, tmp_path: Path
) -> None:
    model = summariser(tokenizer)
    save_model(model, tokenizer, tmp_path / "model", metrics={"loss": 1.5})
    loaded = load_model(tmp_path / "model")
    assert type(loaded.tokenizer) is type(tokenizer)
    assert loaded.tokenizer == tokenizer
    assert loaded.metrics == {"loss": 1.5}
    assert loaded.model.config.coverage
    assert not loaded.model.training
    assert loaded.model.state_dict().keys() == model.state_dict().keys()
    for name, weight in model.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], weight), name


def test_a_summariser_of_other_words_is_refused(tmp_path: Path) -> None:
    save_model(summariser(WORDS), WORDS, tmp_path / "model")
    other = WordTokenizer(["fever", "given", "no", "ramipril"])
    other.save(tmp_path / "model" / "tokenizer.json")
    with pytest.raises(InputError, match="other words"):
        load_model(tmp_path / "model")


def test_a_summariser_is_not_saved_with_the_tokenizer_of_codes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a PointerGenerator has no use for a CodeTokenizer"):
        save_model(summariser(WORDS), TOKENIZER, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_summariser_with_the_tokenizer_of_codes_in_its_folder_is_refused(
    tmp_path: Path,
) -> None:
    save_model(summariser(WORDS), WORDS, tmp_path / "model")
    TOKENIZER.save(tmp_path / "model" / "tokenizer.json")
    with pytest.raises(InputError, match=r"tokenizer\.json: this is not a word tokenizer file"):
        load_model(tmp_path / "model")


def test_weights_of_another_summariser_are_refused(tmp_path: Path) -> None:
    save_model(summariser(WORDS), WORDS, tmp_path / "model")
    change_config(tmp_path / "model", coverage=False)
    with pytest.raises(InputError, match="the configuration asks for no such weight"):
        load_model(tmp_path / "model")
