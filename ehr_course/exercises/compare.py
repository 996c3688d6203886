"""Compare an answer's value with the expected one, and say where they first differ."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Number
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Difference:
    """The first place where two values differ.

    Attributes:
        kind: "type", "length", "shape", "keys" or "value".
        place: an index path such as "[1][0]", or "" for the whole value.
        text: the difference in words.
    """

    kind: str
    place: str
    text: str


def first_difference(
    expected: Any, actual: Any, tolerance: float, place: str = ""
) -> Difference | None:
    """Find the first difference between two values, or None where there is none.

    Lists and tuples stand for each other, and so do Python's and NumPy's numbers. A tensor is
    compared by shape and values; integers and booleans of a tensor stand for each other, so that
    a mask may be either.

    >>> first_difference([1, 2], (1, 2), 1e-6) is None
    True
    >>> first_difference([[3, 7], [4]], [[3, 8], [4]], 1e-6)
    Difference(kind='value', place='[0][1]', text='expected 7, got 8')
    """
    if isinstance(expected, torch.Tensor | np.ndarray):
        return _arrays(expected, actual, tolerance, place)
    if isinstance(expected, list | tuple):
        return _sequences(expected, actual, tolerance, place)
    if isinstance(expected, Mapping):
        return _mappings(expected, actual, tolerance, place)
    if isinstance(expected, bool | np.bool_):
        same = isinstance(actual, bool | np.bool_) and bool(actual) == bool(expected)
        kind = "value" if isinstance(actual, bool | np.bool_) else "type"
        return None if same else _unlike(expected, actual, place, kind)
    if isinstance(expected, Number):
        return _numbers(expected, actual, tolerance, place)
    if type(expected) is not type(actual) and not isinstance(actual, type(expected)):
        return _unlike(expected, actual, place, "type")
    return None if bool(expected == actual) else _unlike(expected, actual, place, "value")


def _unlike(expected: Any, actual: Any, place: str, kind: str) -> Difference:
    if kind == "type":
        text = f"expected {kind_of(expected)}, got {kind_of(actual)}"
    else:
        text = f"expected {shorten(expected)}, got {shorten(actual)}"
    return Difference(kind, place, text)


def _numbers(expected: Any, actual: Any, tolerance: float, place: str) -> Difference | None:
    if isinstance(actual, torch.Tensor) and actual.ndim == 0:
        actual = actual.item()
    if not isinstance(actual, Number) or isinstance(actual, bool | np.bool_):
        return _unlike(expected, actual, place, "type")
    if math.isnan(expected) and math.isnan(actual):
        return None
    if isinstance(expected, int | np.integer):
        same = actual == expected
    else:
        same = math.isclose(actual, expected, rel_tol=tolerance, abs_tol=tolerance)
    return None if same else _unlike(expected, actual, place, "value")


def _sequences(expected: Any, actual: Any, tolerance: float, place: str) -> Difference | None:
    if not isinstance(actual, list | tuple):
        return _unlike(expected, actual, place, "type")
    for index, (left, right) in enumerate(zip(expected, actual, strict=False)):
        difference = first_difference(left, right, tolerance, f"{place}[{index}]")
        if difference is not None:
            return difference
    if len(expected) != len(actual):
        text = f"expected {_items(len(expected))}, got {len(actual)}"
        return Difference("length", place, text)
    return None


def _items(count: int) -> str:
    return f"{count} item" if count == 1 else f"{count} items"


def _mappings(expected: Any, actual: Any, tolerance: float, place: str) -> Difference | None:
    if not isinstance(actual, Mapping):
        return _unlike(expected, actual, place, "type")
    missing = [key for key in expected if key not in actual]
    extra = [key for key in actual if key not in expected]
    if missing or extra:
        parts = [f"missing {shorten(missing)}"] if missing else []
        parts += [f"not expected {shorten(extra)}"] if extra else []
        return Difference("keys", place, "keys: " + "; ".join(parts))
    for key, value in expected.items():
        difference = first_difference(value, actual[key], tolerance, f"{place}[{key!r}]")
        if difference is not None:
            return difference
    return None


def _arrays(expected: Any, actual: Any, tolerance: float, place: str) -> Difference | None:
    if type(expected) is not type(actual):
        return _unlike(expected, actual, place, "type")
    left, right = torch.as_tensor(expected), torch.as_tensor(actual)
    if left.shape != right.shape:
        text = f"expected shape {tuple(left.shape)}, got {tuple(right.shape)}"
        return Difference("shape", place, text)
    if left.is_floating_point() and not right.is_floating_point():
        text = f"expected floating-point numbers, got {right.dtype}"
        return Difference("type", place, text)
    unequal = ~torch.isclose(
        left.double(), right.double(), rtol=tolerance, atol=tolerance, equal_nan=True
    )
    if not unequal.any():
        return None
    index = tuple(unequal.nonzero()[0].tolist())
    where = place + "".join(f"[{i}]" for i in index)
    return _unlike(left[index].item(), right[index].item(), where, "value")


def kind_of(value: Any) -> str:
    """Name a value's type as a learner would say it.

    >>> kind_of([1]), kind_of(None), kind_of(torch.zeros(2, 3))
    ('a list', 'None', 'a torch tensor of shape (2, 3)')
    """
    if value is None:
        return "None"
    if isinstance(value, torch.Tensor):
        return f"a torch tensor of shape {tuple(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"a NumPy array of shape {value.shape}"
    names = {"str": "text (str)", "int": "a whole number (int)", "float": "a number (float)"}
    names |= {"bool": "True or False (bool)", "dict": "a dictionary"}
    name = type(value).__name__
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    return names.get(name, f"{article} {name}")


def shorten(value: Any, limit: int = 280) -> str:
    """Write a value for a message, cut in the middle when it is long.

    >>> shorten("a" * 30, limit=20)
    "'aaaaaaa ... aaaaaa'"
    """
    text = repr(value)
    if len(text) <= limit:
        return text
    head = (limit - 5) // 2 + 1
    return f"{text[:head]} ... {text[-(limit - 5 - head) :]}"
