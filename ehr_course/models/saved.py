"""A model and its tokenizer in one folder: saved whole or not at all, checked when loaded.

It holds ``config.json`` and ``model.safetensors`` as transformers writes them, ``tokenizer.json``
and, where the model was measured, ``metrics.json``; nothing in it is a pickle.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open
from transformers.utils import logging

from ehr_course.course_files import checkpoint_folder
from ehr_course.errors import InputError
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.new_folder import new_folder
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.tokenizers.notes import NoteTokenizer
from ehr_course.tokenizers.words import WordTokenizer

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_TOKENIZER, _METRICS = "tokenizer.json", "metrics.json"

Model = PromptBart | PointerGenerator
Config = PromptBartConfig | PointerGeneratorConfig
Tokenizer = CodeTokenizer | WordTokenizer | NoteTokenizer

_MODELS: dict[str, type[Model]] = {
    "prompt_bart": PromptBart,
    "pointer_generator": PointerGenerator,
}
_TOKENIZERS: dict[str, tuple[type[Tokenizer], ...]] = {
    "prompt_bart": (CodeTokenizer,),
    "pointer_generator": (WordTokenizer, NoteTokenizer),
}
_AGAIN = "Copy it again, or save it again."


@dataclass(frozen=True)
class LoadedModel:
    """A trained model and what belongs to it.

    Attributes:
        model: in evaluation mode, on the CPU.
        tokenizer: the one that it was trained with.
        metrics: what it scored when it was saved, by name; empty when it was not measured.
    """

    model: Model
    tokenizer: Tokenizer
    metrics: dict[str, Any] = field(default_factory=dict)

    def of_patients(self) -> tuple[PromptBart, CodeTokenizer]:
        """The model and tokenizer; an InputError unless they write patients."""
        return self._of(PromptBart, "patients")

    def of_notes(self) -> tuple[PointerGenerator, WordTokenizer | NoteTokenizer]:
        """The model and tokenizer; an InputError unless they write summaries."""
        return self._of(PointerGenerator, "summaries")

    def _of(self, kind: type[Model], what: str) -> Any:
        if isinstance(self.model, kind):
            return self.model, self.tokenizer
        found = type(self.model).__name__
        raise InputError("model", found, f"it does not write {what}", f"Load a {kind.__name__}.")


def save_model(
    model: Model,
    tokenizer: Tokenizer,
    folder: str | Path,
    *,
    metrics: Mapping[str, Any] | None = None,
) -> None:
    """Write a model and its tokenizer to a folder; one that is there is replaced as a whole.

    Args:
        tokenizer: a CodeTokenizer for a PromptBart, a WordTokenizer or NoteTokenizer for a
            PointerGenerator.
        metrics: what the model scored, by name, or None when it was not measured.

    Raises:
        InputError: if model and tokenizer do not belong together, or the folder cannot be written.
    """
    folder = Path(folder)
    if not isinstance(tokenizer, _TOKENIZERS[model.config.model_type]):
        raise InputError(
            folder,
            _TOKENIZER,
            f"a {type(model).__name__} has no use for a {type(tokenizer).__name__}",
            "Save the model with the tokenizer that it was made for.",
        )
    _check_vocabulary(model.config, tokenizer, folder)
    with replaced_folder(folder) as unfinished:
        model.save_pretrained(unfinished)
        # generate takes its settings from the call; this file would only repeat the config.
        (unfinished / "generation_config.json").unlink(missing_ok=True)
        # safetensors makes the file readable by its owner only.
        (unfinished / _WEIGHTS).chmod((unfinished / _CONFIG).stat().st_mode)
        tokenizer.save(unfinished / _TOKENIZER)
        if metrics is not None:
            text = json.dumps(dict(metrics), indent=1) + "\n"
            (unfinished / _METRICS).write_text(text, encoding="utf-8")


def load_model(folder: str | Path) -> LoadedModel:
    """Read a model that ``save_model`` wrote.

    Raises:
        InputError: if a file is missing or damaged, or weights, configuration and tokenizer do not
            belong together.
    """
    folder = Path(folder)
    config = _read_config(folder / _CONFIG)
    tokenizer = _read_tokenizer(folder / _TOKENIZER, config.model_type)
    _check_vocabulary(config, tokenizer, folder)
    with open_weights(folder / _WEIGHTS) as file, torch.device("meta"), _quiet():
        unread = _MODELS[config.model_type](config)  # type: ignore[arg-type]
        tied = set(unread.all_tied_weights_keys)
        needed = {name: w for name, w in unread.state_dict().items() if name not in tied}
        found = {name: file.get_slice(name) for name in file.keys() if name not in tied}  # noqa: SIM118
        check_shapes(
            folder / _WEIGHTS,
            {name: tuple(weight.get_shape()) for name, weight in found.items()},
            {name: tuple(weight.shape) for name, weight in needed.items()},
        )
    with _quiet():
        model = _MODELS[config.model_type].from_pretrained(folder, config=config).eval()
    metrics = read_json(folder / _METRICS) if (folder / _METRICS).is_file() else {}
    return LoadedModel(model, tokenizer, metrics)


def load_checkpoint(name: str) -> LoadedModel:
    """Load a trained model of the course by its name, such as "tiny_prompt_bart"."""
    return load_model(checkpoint_folder(name))


def _read_config(path: Path) -> Config:
    fields = read_json(path)
    model_type = fields.get("model_type")
    if model_type not in _MODELS:
        remedy = "Load it with the class that wrote it."
        if model_type == "bart":
            remedy = "Load it with PromptBart.from_pretrained; resize_for gives it codes."
        known = " or ".join(map(repr, _MODELS))
        raise InputError(path, "model_type", f"it is {model_type!r}, not {known}", remedy)
    try:
        return _MODELS[model_type].config_class.from_dict(fields)
    except (StrictDataclassError, TypeError, ValueError) as error:
        raise InputError(path, "", f"a field has no meaning: {error}", _AGAIN) from None


def _read_tokenizer(path: Path, model_type: str) -> Tokenizer:
    """Read the tokenizer of a model, by the class that its file names."""
    kinds = _TOKENIZERS[model_type]
    is_of_notes = read_json(path).get("format") == "ehr_course note tokenizer"
    return NoteTokenizer.load(path) if is_of_notes and len(kinds) > 1 else kinds[0].load(path)


def _check_vocabulary(config: Config, tokenizer: Tokenizer, folder: Path) -> None:
    if config.vocab_size != len(tokenizer):
        problem = f"the model has {config.vocab_size} tokens, the tokenizer {len(tokenizer)}"
    elif config.vocabulary not in (None, tokenizer.fingerprint):
        what = "codes" if isinstance(tokenizer, CodeTokenizer) else "words"
        problem = f"model and tokenizer have other {what}: every id would mean another one"
    else:
        return
    raise InputError(
        folder,
        _TOKENIZER,
        problem,
        f"Use the tokenizer that the model was made with: {type(config).__name__}.for_tokenizer.",
    )


# ------------------------------------------------------------------ files of models and prefixes


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to fill, which takes the place of another as a whole, or not at all."""
    try:
        with new_folder(folder, overwrite=True) as unfinished, _quiet():
            yield unfinished
    except (SafetensorError, OSError) as error:
        raise InputError(
            folder, "", f"it cannot be written ({error})", "Make room, or name another folder."
        ) from None


def read_json(path: Path) -> dict[str, Any]:
    """The fields of a JSON file that stands in a saved folder."""
    _check_there(path)
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError):
        fields = None
    if not isinstance(fields, dict):
        raise InputError(path, "", "the file is damaged: this is not JSON with fields", _AGAIN)
    return fields


@contextmanager
def open_weights(path: Path) -> Iterator[Any]:
    """A file of safetensors, of which nothing is read yet."""
    _check_there(path)
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise InputError(path, "", f"the file is truncated or damaged ({error})", _AGAIN) from None


def _check_there(path: Path) -> None:
    if not path.parent.is_dir():
        raise InputError(path.parent, "", "there is no such folder", "Check the path.")
    if not path.is_file():
        raise InputError(path.parent, path.name, "the file is missing", _AGAIN)


def check_shapes(path: Path, found: dict[str, tuple], needed: dict[str, tuple]) -> None:
    """Compare the shapes of the weights in a file with those that its configuration needs."""
    for name in sorted(needed.keys() | found.keys()):
        in_file, asked = (
            f"shape {shapes[name]}" if name in shapes else "no such weight"
            for shapes in (found, needed)
        )
        if in_file != asked:
            raise InputError(
                path,
                name,
                f"the file has {in_file}, the configuration asks for {asked}",
                "Put back the configuration that was saved with these weights.",
            )


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out the progress bars of transformers."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
