"""Checkpoints, from which a training resumes to the bit.

A checkpoint is a folder such as ``step-000120``. It is written under another name and renamed
when complete, so that whatever happens, every folder of that name can be resumed from.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from ehr_course.errors import InputError

KEPT = 2
"""How many checkpoints stay: the newest, and one before it."""

BEST = "best.safetensors"
"""The weights with the best metric so far, in the trainer's folder."""


class TrainingState(NamedTuple):
    """What a step depends on, apart from the configuration and the data.

    Attributes:
        model: weights and buffers by name.
        optimizer: the state of AdamW, as "weight.exp_avg" and so on.
        random: the states of all random number generators of every process, uint8.
        numbers: what JSON can hold: step, epoch, batch, scaler, best, history.
    """

    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    random: dict[str, Tensor]
    numbers: dict[str, Any]


_TENSORS = ("model", "optimizer", "random")


def write_checkpoint(folder: Path, step: int, state: TrainingState) -> None:
    """Write a checkpoint and drop the oldest ones."""
    final = folder / f"step-{step:06}"
    unfinished = folder / f".{final.name}.{os.getpid()}"
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for name in _TENSORS:
            save_file(getattr(state, name), unfinished / f"{name}.safetensors")
        (unfinished / "state.json").write_text(json.dumps(state.numbers), encoding="utf-8")
        for file in (*unfinished.iterdir(), unfinished):
            _to_disk(file)
        if final.exists():
            _remove(final)
        unfinished.replace(final)
        _to_disk(folder)
    except (OSError, SafetensorError) as error:
        raise InputError(
            final,
            "",
            f"the checkpoint cannot be written ({error})",
            "Make room or name another folder, and resume: the checkpoint before it is whole.",
        ) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    for old in checkpoints(folder)[:-KEPT]:
        _remove(old)
    # Killed processes leave folders half-written or half-removed.
    for path in folder.glob(".step-*"):
        shutil.rmtree(path, ignore_errors=True)


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a folder, the newest last."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if re.fullmatch(r"step-\d{6,}", path.name)]
    return sorted(filter(Path.is_dir, found), key=lambda path: int(path.name[len("step-") :]))


def read_checkpoint(path: Path) -> TrainingState:
    """Read a checkpoint."""
    try:
        tensors = {name: load_file(path / f"{name}.safetensors") for name in _TENSORS}
        numbers = json.loads((path / "state.json").read_text(encoding="utf-8"))
    except (OSError, SafetensorError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            path,
            "",
            f"the checkpoint is damaged ({error})",
            "Delete its folder, and resume from the one before it.",
        ) from None
    return TrainingState(**tensors, numbers=numbers)


def _remove(path: Path) -> None:
    """Rename and remove a checkpoint: half removed, it must not pass for a whole one."""
    doomed = path.with_name(f".{path.name}.removed.{os.getpid()}")
    path.replace(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def _to_disk(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open a folder
    # Windows flushes only what was opened for writing; a folder can only be read.
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# ------------------------------------------------------------------ the best weights


def write_best(model: nn.Module, folder: Path) -> None:
    """Write a model's weights to its folder, whole or not at all."""
    unfinished = folder / f".{BEST}"
    try:
        save_file(model_tensors(model), unfinished)
        unfinished.replace(folder / BEST)
    except (OSError, SafetensorError) as error:
        raise InputError(
            folder / BEST,
            "",
            f"the best weights cannot be written ({error})",
            "Make room or name another folder, and resume.",
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


def read_best(model: nn.Module, folder: Path | None) -> None:
    """Load the weights that ``write_best`` wrote."""
    path = None if folder is None else folder / BEST
    if path is None or not path.is_file():
        raise InputError(
            "Trainer.load_best",
            "",
            "no best weights were written",
            "Give a folder, and validation data or an evaluation.",
        )
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise InputError(
            path, "", f"the file is damaged ({error})", "Delete it, and train again."
        ) from None
    load_model_tensors(model, tensors, path)


# ------------------------------------------------------------------ model and optimizer


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Weights and buffers by name, each once: a tied weight has one name."""
    tensors: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict().items():
        if not tensor.numel() or tensor.data_ptr() not in seen:
            tensors[name] = tensor.detach().cpu().contiguous()
        seen.add(tensor.data_ptr())
    return tensors


def load_model_tensors(model: nn.Module, tensors: Mapping[str, Tensor], place: object) -> None:
    """Fill a model's weights in place."""
    ours, theirs = (
        {name: f"shape {tuple(tensor.shape)}" for name, tensor in side.items()}
        for side in (model_tensors(model), tensors)
    )
    for name in sorted(ours.keys() | theirs.keys()):
        here, there = (side.get(name, "no such weight") for side in (ours, theirs))
        if here != there:
            raise InputError(
                place,
                name,
                f"the checkpoint has {there}, this model {here}",
                "Resume with the model that was trained, or train into another folder.",
            )
    model.load_state_dict(dict(tensors), strict=False)  # a tied weight has only one of its names


def optimizer_tensors(optimizer: Optimizer, model: nn.Module) -> dict[str, Tensor]:
    """The optimizer's state as tensors, by the names of the weights."""
    return {
        f"{name}.{kind}": value.detach().cpu().contiguous().clone()
        for name, weight in model.named_parameters()
        for kind, value in optimizer.state.get(weight, {}).items()
    }


def load_optimizer_tensors(
    optimizer: Optimizer, model: nn.Module, tensors: Mapping[str, Tensor]
) -> None:
    """Restore the optimizer's state."""
    weights = dict(model.named_parameters())
    for key, value in tensors.items():
        name, _, kind = key.rpartition(".")
        weight = weights[name]
        optimizer.state[weight][kind] = value.to(weight.device).clone()


# ------------------------------------------------------------------ random number generators


def random_states() -> dict[str, Tensor]:
    """The states of this process's random number generators, uint8."""
    states = {"torch": torch.get_rng_state(), "python": _as_bytes(random.getstate())}
    numpy = np.random.get_state(legacy=False)
    key, position = numpy["state"]["key"].tolist(), numpy["state"]["pos"]
    states["numpy"] = _as_bytes(
        [numpy["bit_generator"], key, position, numpy["has_gauss"], numpy["gauss"]]
    )
    if torch.cuda.is_available():
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def set_random_states(states: Mapping[str, Tensor]) -> None:
    """Restore the states of this process's random number generators."""
    torch.set_rng_state(states["torch"])
    version, internal, gauss = _from_bytes(states["python"])
    random.setstate((version, tuple(internal), gauss))
    kind, key, position, has_gauss, cached = _from_bytes(states["numpy"])
    np.random.set_state((kind, np.array(key, np.uint32), position, has_gauss, cached))
    if "cuda" in states and torch.cuda.is_available():
        torch.cuda.set_rng_state(states["cuda"])


def _as_bytes(value: Any) -> Tensor:
    return torch.frombuffer(bytearray(json.dumps(value).encode()), dtype=torch.uint8)


def _from_bytes(value: Tensor) -> Any:
    return json.loads(bytes(value.tolist()).decode())
