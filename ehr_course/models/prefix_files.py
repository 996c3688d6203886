"""A prefix in a folder: ``prefix.json`` and ``prefix.safetensors``, and no pickle.

The weights of the base are not in it, but their fingerprint is: a prefix means nothing to
another model.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from ehr_course.errors import InputError
from ehr_course.models.prefix import PrefixConfig
from ehr_course.new_folder import new_folder

CONFIG, WEIGHTS = "prefix.json", "prefix.safetensors"


class SavedPrefix(NamedTuple):
    """What a folder holds.

    Attributes:
        config: the prefix's settings.
        tensors: its parameters by name.
    """

    config: PrefixConfig
    tensors: dict[str, Tensor]


def fingerprint(model: nn.Module) -> str:
    """64 hexadecimal digits of the names and values of a model's parameters and buffers.

    >>> one, other = nn.Linear(2, 2), nn.Linear(2, 2)
    >>> fingerprint(one) == fingerprint(other)
    False
    >>> other.load_state_dict(one.state_dict())
    <All keys matched successfully>
    >>> fingerprint(one) == fingerprint(other)
    True
    """
    digest = hashlib.sha256()
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def write_prefix(
    folder: str | Path, config: PrefixConfig, tensors: Mapping[str, Tensor], *, base: str
) -> None:
    """Write a prefix for the model whose fingerprint is ``base``, whole or not at all.

    Raises:
        InputError: if it cannot be written, or the folder holds something else.
    """
    with written_whole(folder, {CONFIG, WEIGHTS}) as unfinished:
        write_json(unfinished / CONFIG, asdict(config) | {"base": base})
        write_tensors(unfinished / WEIGHTS, tensors)


def read_prefix(folder: str | Path, *, base: str) -> SavedPrefix:
    """Read a prefix for the model whose fingerprint is ``base``.

    Raises:
        InputError: if a file is missing or damaged, or the prefix belongs to another model.
    """
    path = Path(folder) / CONFIG
    fields = _read_json(path)
    trained_for = fields.pop("base", None)
    try:
        config = PrefixConfig(**fields)
    except TypeError:
        raise InputError(
            path, "", "these are not the settings of a prefix", "Save the prefix again."
        ) from None
    _check_base(folder, trained_for, base)
    return SavedPrefix(config, _read_tensors(Path(folder) / WEIGHTS))


def _check_base(place: object, trained_for: str | None, base: str) -> None:
    """Refuse a prefix that was trained for another model.

    Raises:
        InputError: if the fingerprints are not the same.
    """
    if trained_for != base:
        raise InputError(
            place,
            "base",
            "the prefix was trained for a model with other weights, to which it means nothing",
            "Load it with the base that it was trained with, in the same precision.",
        )


# ------------------------------------------------------------------ files


@contextmanager
def written_whole(folder: str | Path, names: set[str]) -> Iterator[Path]:
    """Give a folder to write to, which takes its name when the block is done.

    Args:
        folder: where the files go.
        names: those that a folder of this kind has; one with any others is not replaced.

    Raises:
        InputError: if the folder cannot be written or holds something else. What was there
            before is as it was.
    """
    folder = Path(folder).absolute()  # "." has no name to put another one beside
    others = sorted({path.name for path in folder.iterdir()} - names) if folder.is_dir() else []
    if others:
        raise InputError(
            folder, others[0], "the folder holds something else", "Name a new or empty folder."
        )
    try:
        with new_folder(folder, overwrite=True) as unfinished:
            yield unfinished
    except (OSError, SafetensorError) as error:
        raise InputError(
            folder,
            "",
            f"the folder cannot be written ({error})",
            "Make room, or name a place where you may write.",
        ) from error


def write_json(path: Path, fields: Mapping[str, Any]) -> None:
    """Write fields as JSON."""
    path.write_text(json.dumps(dict(fields), indent=1) + "\n", encoding="utf-8")


def _read_json(path: Path) -> dict[str, Any]:
    """Read the fields of a JSON file.

    Raises:
        InputError: if it is missing or damaged.
    """
    _check_there(path)
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError):
        fields = None
    if not isinstance(fields, dict):
        raise InputError(path, "", "the file is damaged: it is no JSON", "Copy or save it again.")
    return fields


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors to a safetensors file, readable by whoever may read its folder's others."""
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_file(whole, path, metadata={"format": "pt"})
    # safetensors lets nobody but its writer read the file.
    beside = next((other for other in path.parent.iterdir() if other != path), None)
    if beside is not None:
        path.chmod(beside.stat().st_mode)


def _read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file.

    Raises:
        InputError: if it is missing or damaged.
    """
    _check_there(path)
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(
            path, "", f"the file is truncated or damaged ({error})", "Copy or save it again."
        ) from None


def _check_there(path: Path) -> None:
    if not path.parent.is_dir():
        raise InputError(path.parent, "", "there is no such folder", "Check the path.")
    if not path.is_file():
        raise InputError(path.parent, path.name, "the file is missing", "Save the prefix again.")
