"""What travels between the judge and the process that runs a student's code.

The judge is trusted, the other side is not. Down go pickles; up come only JSON and raw bytes, from
which nothing but plain values is built: numbers, text, containers, tensors and arrays. Whatever
else an answer returns arrives as a stand-in that has its type's name and nothing of its behaviour.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from ehr_course.records import PatientRecord, Visit

MOST_JSON = 16 << 20
MOST_BYTES = 256 << 20
"""How long the JSON and the raw bytes of one message may be, in bytes."""

MOST_DEPTH = 60
MOST_TEXT = 1 << 20
_LENGTHS = struct.Struct("<II")
_RECORDS = {kind.__name__: kind for kind in (PatientRecord, Visit)}
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    )
}


class WireError(ValueError):
    """A message that no honest process sends."""


def send(write: Callable[[bytes], Any], message: Mapping[str, Any], raw: bytes = b"") -> None:
    """Write one message: its JSON and what follows it as bytes.

    Raises:
        WireError: if it is too long.
    """
    text = json.dumps(message).encode("ascii")
    if len(text) > MOST_JSON or len(raw) > MOST_BYTES:
        raise WireError("the message is too long")
    write(_LENGTHS.pack(len(text), len(raw)) + text + raw)


def receive(read: Callable[[int], bytes]) -> tuple[dict[str, Any], bytes]:
    """Read one message.

    Args:
        read: returns exactly so many bytes, or raises.

    Raises:
        WireError: if it is not one.
    """
    length, raw_length = _LENGTHS.unpack(read(_LENGTHS.size))
    if length > MOST_JSON or raw_length > MOST_BYTES:
        raise WireError("a message is too long")
    text, raw = read(length), read(raw_length)
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise WireError("a message is no JSON") from None
    if not isinstance(message, dict):
        raise WireError("a message is not an object")
    return message, raw


class Stand:
    """In place of a value that does not travel: its class has the value's name."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


class _Iterating(Stand, Iterator):
    """In place of something that can be read once."""

    def __next__(self) -> Any:
        raise StopIteration


def encode(value: Any) -> tuple[Any, bytes]:
    """Write a value as JSON, with the bytes of its tensors and arrays.

    >>> text, raw = encode({"ids": (torch.tensor([3, 4]), 0.5)})
    >>> decode(text, raw)
    {'ids': (tensor([3, 4]), 0.5)}
    """
    pieces: list[bytes] = []
    place = 0

    def put(data: bytes) -> list[int]:
        nonlocal place
        pieces.append(data)
        place += len(data)
        if place > MOST_BYTES:
            raise WireError("the value is too large")
        return [place - len(data), len(data)]

    def write(part: Any, depth: int) -> Any:
        if part is None or part is True or part is False:
            return part
        if isinstance(part, np.generic) and part.dtype.kind in "biufcSUMm":
            return {"t": "number", "d": part.dtype.str, "b": put(part.tobytes())}
        if isinstance(part, int):
            return {"t": "int", "v": format(int(part), "x")}
        if isinstance(part, float):
            return {"t": "float", "v": float(part).hex()}
        if isinstance(part, complex):
            return {"t": "complex", "v": [float(part.real).hex(), float(part.imag).hex()]}
        if isinstance(part, str):
            return {"t": "str", "v": str.__str__(part)[:MOST_TEXT]}
        if isinstance(part, bytes | bytearray):
            return {"t": "bytes", "b": put(bytes(part))}
        if depth <= 0:
            return stand(part)
        for name, kind in _CONTAINERS.items():
            if isinstance(part, kind):
                # Not `iter(part)`: its class is the student's, and may have an own one.
                each = kind.__iter__(part)  # type: ignore[arg-type]  # it is one of this kind
                return {"t": name, "v": [write(item, depth - 1) for item in each]}
        if isinstance(part, Mapping):
            items = [[write(key, depth - 1), write(item, depth - 1)] for key, item in part.items()]
            return {"t": "dict", "v": items}
        if isinstance(part, torch.Tensor):
            return tensor(part)
        if isinstance(part, np.ndarray) and part.dtype.kind in "biufcSUMm":
            data = np.ascontiguousarray(part)
            return {
                "t": "array",
                "d": data.dtype.str,
                "s": list(part.shape),
                "b": put(data.tobytes()),
            }
        if (
            type(part) in (datetime.datetime, datetime.date)
            and getattr(part, "tzinfo", None) is None
        ):
            return {"t": type(part).__name__, "v": part.isoformat()}
        if type(part) in _RECORDS.values():
            fields = {
                f.name: write(getattr(part, f.name), depth - 1) for f in dataclasses.fields(part)
            }
            return {"t": "record", "k": type(part).__name__, "v": fields}
        return stand(part)

    def tensor(part: torch.Tensor) -> Any:
        part_kind = _unusual(part)
        if part_kind is not None:
            return {
                "t": "unusual",
                "k": part_kind,
                "s": [] if part.is_nested else list(part.shape),
            }
        name = str(part.dtype).removeprefix("torch.")
        if name not in _DTYPES:
            return stand(part)
        data = part.detach().cpu().resolve_conj().resolve_neg().contiguous()
        raw = put(data.reshape(-1).view(torch.uint8).numpy().tobytes() if data.numel() else b"")
        gradient = bool(part.requires_grad)
        return {"t": "tensor", "d": name, "s": list(part.shape), "g": gradient, "b": raw}

    def stand(part: Any) -> Any:
        try:
            text = repr(part)[:2000]
        except Exception as error:
            text = f"<{type(part).__name__} that cannot be shown: {type(error).__name__}>"
        iterates = isinstance(part, Iterator)
        return {"t": "other", "k": type(part).__name__[:80], "v": str(text), "i": iterates}

    return write(value, MOST_DEPTH), b"".join(pieces)


_CONTAINERS: dict[
    str, type[list[Any]] | type[tuple[Any, ...]] | type[set[Any]] | type[frozenset[Any]]
] = {
    "list": list,
    "tuple": tuple,
    "set": set,
    "frozenset": frozenset,
}


def _unusual(tensor: torch.Tensor) -> str | None:
    if tensor.is_nested:
        return "nested"
    if tensor.is_meta:
        return "meta"
    return None if tensor.layout is torch.strided else "sparse"


def decode(text: Any, raw: bytes) -> Any:
    """Build a value from what `encode` wrote, or from whatever an untrusted process has sent.

    Raises:
        WireError: if it is not a value.
    """

    def piece(place: Any) -> bytes:
        start, length = (_natural(number) for number in place)
        if start + length > len(raw):
            raise WireError("a value lies beyond its bytes")
        return raw[start : start + length]

    def build(part: Any) -> Any:
        if part is None or part is True or part is False:
            return part
        kind = part["t"]
        if kind in _CONTAINERS:
            return _CONTAINERS[kind](build(item) for item in part["v"])
        if kind == "dict":
            return {build(key): build(item) for key, item in part["v"]}
        if kind in _SIMPLE:
            return _SIMPLE[kind](part["v"])
        if kind == "bytes":
            return piece(part["b"])
        if kind == "number":
            return np.frombuffer(piece(part["b"]), dtype=_array_dtype(part["d"]))[0]
        if kind == "array":
            values = np.frombuffer(piece(part["b"]), dtype=_array_dtype(part["d"]))
            return values.reshape([_natural(n) for n in part["s"]]).copy()
        if kind == "tensor":
            return tensor(part)
        if kind == "unusual":
            return _UNUSUAL[part["k"]]([_natural(n) for n in part["s"]][:8])
        if kind == "record":
            fields = {str(name): build(item) for name, item in part["v"].items()}
            return _RECORDS[part["k"]](**fields)
        if kind == "other":
            base = _Iterating if part["i"] is True else Stand
            return type(_identifier(part["k"]), (base,), {})(str(part["v"])[:2000])
        raise WireError(f"{kind!r} is not a kind of value")

    def tensor(part: Any) -> torch.Tensor:
        dtype, shape = _DTYPES[part["d"]], [_natural(n) for n in part["s"]]
        data = piece(part["b"])
        flat = (
            torch.frombuffer(bytearray(data), dtype=dtype) if data else torch.empty(0, dtype=dtype)
        )
        made = flat.reshape(shape)
        differentiable = dtype.is_floating_point or dtype.is_complex
        return made.requires_grad_() if part["g"] is True and differentiable else made

    try:
        return build(text)
    except WireError:
        raise
    except (Exception, RecursionError) as error:
        raise WireError(f"a value cannot be read ({type(error).__name__})") from None


_SIMPLE: dict[str, Callable[[Any], Any]] = {
    "int": lambda text: int(text, 16),
    "float": float.fromhex,
    "complex": lambda parts: complex(float.fromhex(parts[0]), float.fromhex(parts[1])),
    "str": str,
    "datetime": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
}

_UNUSUAL: dict[str, Callable[[list[int]], torch.Tensor]] = {
    "nested": lambda shape: torch.nested.nested_tensor([torch.zeros(1)], layout=torch.jagged),
    "meta": lambda shape: torch.empty(shape, device="meta"),
    "sparse": lambda shape: torch.sparse_coo_tensor(
        torch.empty((len(shape), 0), dtype=torch.int64),
        torch.empty(0),
        shape,
        check_invariants=True,
    ),
}


def _natural(number: Any) -> int:
    if type(number) is not int or not 0 <= number < 1 << 40:
        raise WireError("a length is not a whole number")
    return number


def _array_dtype(text: Any) -> np.dtype:
    dtype = np.dtype(str(text))
    if dtype.hasobject or dtype.kind not in "biufcSUMm":
        raise WireError("an array holds objects")
    return dtype


def _identifier(text: Any) -> str:
    return text if isinstance(text, str) and text.isidentifier() else "object"
