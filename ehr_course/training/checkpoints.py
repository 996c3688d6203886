"""Checkpoints of a training: everything that the next step depends on, whole or not at all.

A checkpoint is a folder ``step-000120`` with ``model.safetensors``, ``optimizer.safetensors``,
``random.safetensors`` and ``state.json``. It is written under another name and renamed when it is
complete, so that whatever happens, each folder of that name can be resumed from.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from ehr_course.errors import InputError

KEPT = 2
"""How many checkpoints stay: the newest, and one before it."""

_NAME = re.compile(r"step-(\d{6,})")
_MODEL, _OPTIMIZER, _RANDOM, _STATE = (
    "model.safetensors",
    "optimizer.safetensors",
    "random.safetensors",
    "state.json",
)


@dataclass
class TrainingState:
    """What a step depends on, apart from the configuration and the data.

    Attributes:
        model: weights and buffers by name.
        optimizer: the tensors of AdamW by name of the weight: "name.exp_avg" and so on.
        random: the states of all random number generators, uint8, of every process.
        numbers: everything that JSON can hold: step, epoch, batch, scaler, best, history.
    """

    model: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    random: dict[str, Tensor]
    numbers: dict[str, Any]


def write_checkpoint(folder: Path, step: int, state: TrainingState) -> Path:
    """Write a checkpoint and drop the oldest ones.

    Returns:
        The checkpoint's own folder.

    Raises:
        InputError: if it cannot be written, on a full disk for instance. The checkpoints that
            were there before are as they were.
    """
    final = folder / f"step-{step:06}"
    unfinished = folder / f".{final.name}.{os.getpid()}"
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        save_file(state.model, unfinished / _MODEL)
        save_file(state.optimizer, unfinished / _OPTIMIZER)
        save_file(state.random, unfinished / _RANDOM)
        (unfinished / _STATE).write_text(json.dumps(state.numbers), encoding="utf-8")
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
    _sweep(folder)
    return final


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints of a folder, the newest last."""
    if not folder.is_dir():
        return []
    found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=lambda path: int(path.name.removeprefix("step-")))


def read_checkpoint(path: Path) -> TrainingState:
    """Read a checkpoint.

    Raises:
        InputError: if a file is missing or damaged.
    """
    try:
        model, optimizer, generators = (
            load_file(path / name) for name in (_MODEL, _OPTIMIZER, _RANDOM)
        )
        numbers = json.loads((path / _STATE).read_text(encoding="utf-8"))
    except (OSError, SafetensorError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            path,
            "",
            f"the checkpoint is damaged ({error})",
            "Delete its folder, and resume from the one before it.",
        ) from None
    return TrainingState(model, optimizer, generators, numbers)


# ------------------------------------------------------------------ model and optimizer


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Weights and buffers by name, each once: a tied weight has one name."""
    tensors: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in model.state_dict().items():
        if tensor.numel() and tensor.data_ptr() in seen:
            continue
        seen.add(tensor.data_ptr())
        tensors[name] = tensor.detach().cpu().contiguous()
    return tensors


def load_model_tensors(model: nn.Module, tensors: Mapping[str, Tensor], place: object) -> None:
    """Fill a model's weights in place.

    Raises:
        InputError: if names or shapes are those of another model; nothing is then changed.
    """
    own = model_tensors(model)
    for name in sorted(own.keys() | tensors.keys()):
        mine, theirs = (
            tuple(side[name].shape) if name in side else None for side in (own, tensors)
        )
        if mine != theirs:
            raise InputError(
                place,
                name,
                f"the checkpoint has {_shape(theirs)}, this model {_shape(mine)}",
                "Resume with the model that was trained, or train into another folder.",
            )
    model.load_state_dict(dict(tensors), strict=False)  # a tied weight has only one of its names


def optimizer_tensors(optimizer: Optimizer, names: Mapping[int, str]) -> dict[str, Tensor]:
    """What the optimizer remembers of each weight, by the weight's name.

    Args:
        optimizer: AdamW, or any other whose memory is tensors.
        names: the name of each parameter by its ``id``.
    """
    return {
        f"{names[id(parameter)]}.{kind}": value.detach().cpu().contiguous().clone()
        for parameter, memory in optimizer.state.items()
        for kind, value in memory.items()
    }


def load_optimizer_tensors(
    optimizer: Optimizer, names: Mapping[int, str], tensors: Mapping[str, Tensor]
) -> None:
    """Give the optimizer back what it remembered."""
    of_weight: dict[str, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        name, _, kind = key.rpartition(".")
        of_weight.setdefault(name, {})[kind] = value
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            memory = of_weight.get(names[id(parameter)], {})
            optimizer.state[parameter] = {
                kind: value.clone()
                if kind == "step" and not group.get("capturable") and not group.get("fused")
                else value.to(parameter.device).clone()
                for kind, value in memory.items()
            }


# ------------------------------------------------------------------ files


def _remove(path: Path) -> None:
    """Remove a checkpoint so that a half-removed one is never taken for a whole one."""
    doomed = path.with_name(f".{path.name}.removed.{os.getpid()}")
    path.replace(doomed)
    shutil.rmtree(doomed, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Remove what processes that were killed have left half written or half removed."""
    for path in folder.glob(".step-*"):
        shutil.rmtree(path, ignore_errors=True)


def _to_disk(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open a folder
    # Windows writes out only what was opened for writing; a folder can only be read.
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _shape(shape: tuple[int, ...] | None) -> str:
    return "no such weight" if shape is None else f"shape {shape}"


# ------------------------------------------------------------------ random number generators


def random_states() -> dict[str, Tensor]:
    """The states of the random number generators of this process, as bytes."""
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
    """Put the random number generators of this process where they were."""
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
