"""The states of the random number generators, to go on from exactly there."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


def random_states() -> dict[str, Tensor]:
    """The states of the random number generators of this process, as bytes."""
    states = {"torch": torch.get_rng_state(), "python": _as_bytes(random.getstate())}
    kind, key, position, has_gauss, gauss = np.random.get_state()
    states["numpy"] = _as_bytes([kind, key.tolist(), position, has_gauss, gauss])
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
