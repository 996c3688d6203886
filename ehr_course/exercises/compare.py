"""Compare an answer's value with the expected one, and say where they first differ."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Number
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

    Lists and tuples stand for each other, and so do Python's and NumPy's numbers. A number may
    stand for a tensor without dimensions, and a frozenset for a set. A float may not stand for a
    whole number: nothing can be looked up under 8.0. A tensor is compared by shape and values, on
    whatever device it is. One of only zeros and ones is a mask, and may hold booleans, whole
    numbers or floats; any other tensor of whole numbers must hold whole numbers. Where the
    expected tensor requires a gradient, so must the other.

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
        actual = _as_number(actual)
        same = isinstance(actual, bool | np.bool_) and bool(actual) == bool(expected)
        kind = "value" if isinstance(actual, bool | np.bool_) else "type"
        return None if same else _unlike(expected, actual, place, kind)
    if isinstance(expected, Number):
        return _numbers(expected, actual, tolerance, place)
    wanted = (set, frozenset) if isinstance(expected, set) else type(expected)
    if not isinstance(actual, wanted):
        return _unlike(expected, actual, place, "type")
    return None if bool(expected == actual) else _unlike(expected, actual, place, "value")


def alike(left: Any, right: Any, tolerance: float) -> bool:
    """Say whether two values are the same for all who use them.

    Neither is the expected one, so a number may stand for a tensor without dimensions on both
    sides. The comparison of values that may be anything can raise: then they are not alike.
    Where the left one has a gradient, the right one must have one.

    >>> alike((torch.tensor(2.0), 1), (2.0, np.int64(1)), 1e-6)
    True
    """
    if _has_gradient(left) and not _has_gradient(right):
        return False
    left, right = _with(_as_number, left), _with(_as_number, right)
    try:
        return (
            first_difference(left, right, tolerance) is None
            or first_difference(right, left, tolerance) is None
        )
    except Exception:
        return False


def _has_gradient(value: Any) -> bool:
    found: list[bool] = []
    _with(lambda part: found.append(getattr(part, "requires_grad", False) is True), value)
    return any(found)


def _as_number(part: Any) -> Any:
    if type(part) in (torch.Tensor, np.ndarray) and part.ndim == 0:
        return part.item() if _unusual_kind(part) is None else part
    return part


def _unlike(expected: Any, actual: Any, place: str, kind: str) -> Difference:
    if kind == "type":
        text = f"expected {kind_of(expected)}, got {kind_of(actual)}"
    else:
        text = f"expected {_few_digits(expected, actual)}, got {_few_digits(actual, expected)}"
    return Difference(kind, place, text)


def _few_digits(value: Any, other: Any) -> str:
    """Write a value; of a float no more digits than tell it from the other one."""
    if isinstance(value, float) and isinstance(other, Number):
        for digits in (4, 8):
            if f"{value:.{digits}g}" != f"{_real(other):.{digits}g}":
                return f"{value:.{digits}g}"
    return shorten(value)


def _real(number: Number) -> float:
    """A number that is not complex; `Number` says nothing of what it can become."""
    return float(number)  # type: ignore[arg-type]


def _numbers(expected: Any, actual: Any, tolerance: float, place: str) -> Difference | None:
    if isinstance(actual, torch.Tensor | np.ndarray) and actual.ndim == 0:
        actual = actual.item()
    kind = Integral if isinstance(expected, Integral) else Number
    if not isinstance(actual, kind) or isinstance(actual, bool | np.bool_ | complex):
        return _unlike(expected, actual, place, "type")
    if isinstance(expected, Integral):
        same = actual == expected
    else:
        number = _real(actual)
        same = math.isclose(number, expected, rel_tol=tolerance, abs_tol=tolerance)
        same = same or (math.isnan(expected) and math.isnan(number))
    return None if same else _unlike(expected, actual, place, "value")


def _sequences(expected: Any, actual: Any, tolerance: float, place: str) -> Difference | None:
    if not isinstance(actual, list | tuple):
        unlike = _unlike(expected, actual, place, "type")
        way = _way_to_a_list(actual) if isinstance(expected, list) else ""
        return replace(unlike, text=unlike.text + way)
    for index, (left, right) in enumerate(zip(expected, actual, strict=False)):
        difference = first_difference(left, right, tolerance, f"{place}[{index}]")
        if difference is not None:
            return difference
    if len(expected) != len(actual):
        text = f"expected {_items(len(expected))}, got {len(actual)}"
        return Difference("length", place, text)
    return None


def _way_to_a_list(actual: Any) -> str:
    if isinstance(actual, Iterator):
        return "; list(...) makes a list of it"
    if isinstance(actual, torch.Tensor | np.ndarray):
        return "; its tolist() makes a list of it"
    return ""


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
    kind = torch.Tensor if isinstance(expected, torch.Tensor) else np.ndarray
    if expected.ndim == 0 and isinstance(actual, Number) and not _has_gradient(expected):
        return first_difference(expected.item(), actual, tolerance, place)
    if not isinstance(actual, kind):
        return _unlike(expected, actual, place, "type")
    left, right = torch.as_tensor(expected), torch.as_tensor(actual).detach()
    unusual = _unusual(right)
    if unusual is not None:
        return Difference("type", place, f"expected an ordinary tensor, got a {unusual} one")
    right = right.cpu()
    if left.shape != right.shape:
        text = f"expected shape {tuple(left.shape)}, got {tuple(right.shape)}"
        return Difference("shape", place, text)
    if left.is_floating_point() and not right.is_floating_point():
        text = f"expected floating-point numbers, got {right.dtype}"
        return Difference("type", place, text)
    if left.dtype == torch.bool and right.is_floating_point():
        # Attention adds a mask of floats to its scores, and hides nothing.
        return Difference("type", place, f"expected booleans, got {right.dtype}")
    is_whole = not left.is_floating_point() and left.dtype != torch.bool
    if is_whole and right.dtype not in _IDS and not _is_mask(left):
        text = f"expected whole numbers ({left.dtype}), got {right.dtype}"
        return Difference("type", place, text)
    unequal = ~torch.isclose(
        left.double(), right.double(), rtol=tolerance, atol=tolerance, equal_nan=True
    )
    if not unequal.any():
        if left.requires_grad and not torch.as_tensor(actual).requires_grad:
            return Difference("value", place, "expected a tensor with a gradient, got one without")
        return None
    index = tuple(unequal.nonzero()[0].tolist())
    where = place + "".join(f"[{i}]" for i in index)
    return _unlike(left[index].item(), right[index].item(), where, "value")


_IDS = (torch.int32, torch.int64)  # what an embedding takes


def _unusual_kind(part: torch.Tensor | np.ndarray) -> str | None:
    return _unusual(part) if isinstance(part, torch.Tensor) else None


def _unusual(tensor: torch.Tensor) -> str | None:
    if tensor.is_nested:
        return "nested"
    if tensor.is_meta:
        return "meta"
    if tensor.is_complex():
        return "complex"
    return "sparse" if tensor.layout is not torch.strided else None


def _is_mask(tensor: torch.Tensor) -> bool:
    return bool(((tensor == 0) | (tensor == 1)).all())


def kind_of(value: Any) -> str:
    """Name a value's type as a learner would say it.

    >>> kind_of([1]), kind_of(None), kind_of(torch.zeros(2, 3))
    ('a list', 'None', 'a torch tensor of shape (2, 3)')
    """
    if value is None:
        return "None"
    if isinstance(value, torch.Tensor):
        if value.is_nested:
            return "a nested torch tensor"
        return f"a torch tensor of shape {tuple(value.shape)}"
    if isinstance(value, np.ndarray):
        return f"a NumPy array of shape {value.shape}"
    if isinstance(value, np.generic):
        value = value.item()
    names = {
        "str": "text (str)",
        "int": "a whole number (int)",
        "float": "a number (float)",
        "bool": "True or False (bool)",
        "dict": "a dictionary",
        "map": "a map object",
        "bytes": "bytes",
    }
    name = type(value).__name__
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    return names.get(name, f"{article} {name}")


def text_of(value: Any) -> str:
    """Return the `repr` of a value, with NumPy's numbers as Python's and without addresses.

    An object that cannot be written is named instead.

    >>> text_of([np.int64(3), (np.float64(0.5),)])
    '[3, (0.5,)]'
    """
    return _text(_plain, value)


def state_of(value: Any) -> str:
    """Return a text that changes when a value does: as `text_of`, with every bit of a tensor.

    PyTorch writes a tensor for readers: with few digits, the middle of a long one left out, and
    slowly.

    >>> tensor = torch.zeros(2000)
    >>> before = state_of([tensor])
    >>> tensor[1000] = 1e-9
    >>> state_of([tensor]) == before, text_of([tensor]) == text_of([torch.zeros(2000)])
    (False, True)
    """
    return _text(_in_bytes, value)


def _text(change: Callable[[Any], Any], value: Any) -> str:
    try:
        return re.sub(r" at 0x[0-9a-f]+(?=>)", "", repr(_with(change, value)))
    except Exception as error:
        return f"<{kind_of(value)} that cannot be shown: {type(error).__name__}>"


def _plain(part: Any) -> Any:
    return part.item() if isinstance(part, np.generic) else part


def _in_bytes(part: Any) -> Any:
    if type(part) is np.ndarray and not part.dtype.hasobject:
        return part.dtype, part.shape, part.tobytes()
    if type(part) is torch.Tensor and _unusual(part) is None and part.dtype in _NUMPY_KNOWS:
        graph = part.requires_grad, type(part.grad_fn)
        return part.dtype, part.device, *graph, part.shape, part.detach().cpu().numpy().tobytes()
    return _plain(part)


_NUMPY_KNOWS = {
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.float32,
    torch.float64,
}


def _with(change: Callable[[Any], Any], value: Any, depth: int = 4) -> Any:
    """A value whose parts are changed, down to a few containers deep."""
    if type(value) in (list, tuple, set) and depth:
        return type(value)(_with(change, item, depth - 1) for item in value)
    if type(value) is dict and depth:
        return {key: _with(change, item, depth - 1) for key, item in value.items()}
    return change(value)


def shorten(value: Any, limit: int = 280) -> str:
    """Write a value for a message, cut in the middle when it is long.

    >>> shorten("a" * 30, limit=20)
    "'aaaaaaa ... aaaaaa'"
    """
    return cut(text_of(value), limit)


def shorten_both(expected: Any, got: Any, tolerance: float, limit: int = 280) -> tuple[str, str]:
    """Write two values for a message, of long dictionaries only the entries that differ.

    >>> many = {name: "b" * 20 for name in "xyz"}
    >>> shorten_both(many, many | {"y": 0}, 1e-6, limit=60)
    ("{'y': 'bbbbbbbbbbbbbbbbbbbb'} and 2 entries that agree", "{'y': 0} and 2 entries that agree")
    """
    both = expected, got
    if type(expected) is dict and type(got) is dict and max(len(text_of(v)) for v in both) > limit:
        agree = [
            key for key in expected if key in got and alike(expected[key], got[key], tolerance)
        ]
        if 0 < len(agree) < len(expected.keys() | got.keys()):
            what = "1 entry that agrees" if len(agree) == 1 else f"{len(agree)} entries that agree"
            one, other = (
                f"{shorten({k: v for k, v in of.items() if k not in agree}, limit)} and {what}"
                for of in both
            )
            return one, other
    return shorten(expected, limit), shorten(got, limit)


def cut(text: str, limit: int) -> str:
    """Cut a text that is longer than `limit` in the middle."""
    if len(text) <= limit:
        return text
    head = (limit - 5) // 2 + 1
    return f"{text[:head]} ... {text[-(limit - 5 - head) :]}"
