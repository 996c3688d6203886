"""What can be said of a right answer: a library's twin, another container, an extreme input."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ehr_course.exercises.diagnose import same
from ehr_course.exercises.exercise import Exercise
from ehr_course.exercises.learner_code import Call, DistantAnswer, call_own

ARRAY_FOR_TENSOR = (
    "You returned a NumPy array where the task asks for a tensor. The code around it works with "
    "tensors, and torch.from_numpy makes one of your array."
)
TENSOR_FOR_ARRAY = (
    "You returned a tensor where the task asks for a NumPy array. Its numpy() method makes one."
)
NARROW_NUMBERS = (
    "You returned whole numbers of a narrow type, such as uint8. An embedding takes int32 and "
    "int64 only, and as an index uint8 is read as a mask. The tensor's long() method makes int64."
)
ARRAY_FOR_LIST = (
    "You returned an array or a tensor where the task asks for a list. Its tolist() method makes "
    "one, of Python's own numbers."
)
EXTREME = (
    "On extreme inputs, which no model should produce, your function gives another value than the "
    "definition does. One of them is shown below."
)


def in_other_containers(expected: Any, actual: Any) -> tuple[Any, list[str]]:
    """Put right values into the containers that were asked for.

    Args:
        expected: the right value.
        actual: an answer's.

    Returns:
        The answer's value, its arrays and tensors changed to what stands at the same place of
        the right value; and what there is to say about that, a remark for each kind of change.

    >>> in_other_containers([3, 4], np.array([3, 4]))[0]
    [3, 4]
    """
    remarks: dict[str, None] = {}

    def convert(left: Any, right: Any) -> Any:
        if isinstance(left, torch.Tensor) and type(right) is np.ndarray:
            if right.dtype.kind in "biuf":
                remarks[ARRAY_FOR_TENSOR] = None
                return torch.tensor(right)
        elif isinstance(left, torch.Tensor) and type(right) is torch.Tensor:
            if left.dtype == torch.int64 and right.dtype in _NARROW:
                remarks[NARROW_NUMBERS] = None
                return right.long()
        elif isinstance(left, np.ndarray) and type(right) is torch.Tensor:
            remarks[TENSOR_FOR_ARRAY] = None
            return right.detach().cpu().numpy()
        elif isinstance(left, list | tuple) and _has_rows(right):
            remarks[ARRAY_FOR_LIST] = None
            if any(isinstance(item, torch.Tensor | np.ndarray) for item in left):
                return [convert(a, b) for a, b in zip(left, right, strict=False)]
            return right.tolist()
        elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
            if len(left) == len(right):
                return [convert(a, b) for a, b in zip(left, right, strict=True)]
        elif isinstance(left, Mapping) and isinstance(right, Mapping):
            return {key: convert(left.get(key), value) for key, value in right.items()}
        return right

    return convert(expected, actual), list(remarks)


_NARROW = (torch.uint8, torch.int8, torch.int16)


def _has_rows(value: Any) -> bool:
    return type(value) in (torch.Tensor, np.ndarray) and value.ndim > 0


def names_used(function: Callable[..., Any]) -> set[str]:
    """Return every name, attribute and keyword that a function's code uses, its helpers' included.

    A helper is a function that stands in the same file, or in another cell of the notebook. Its
    own name is left out: it may be that of a library's function.

    >>> def loss(logits, labels):
    ...     return torch.nn.functional.cross_entropy(logits, labels)
    >>> "cross_entropy" in names_used(loss)
    True
    """
    if isinstance(function, DistantAnswer):
        return function.names_used()
    seen: set[types.CodeType] = set()
    names: set[str] = set()

    def walk(code: types.CodeType, scope: Mapping[str, Any]) -> None:
        if code in seen:
            return
        seen.add(code)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                walk(constant, scope)
            elif isinstance(constant, tuple):  # the keywords of a call
                names.update(item for item in constant if isinstance(item, str))
        for name in code.co_names:
            helper = scope.get(name)
            if isinstance(helper, types.FunctionType) and helper.__globals__ is scope:
                walk(helper.__code__, scope)
            else:
                names.add(name)

    for own in _functions_of(function):
        walk(own.__code__, own.__globals__)
    return names


def _functions_of(answer: Callable[..., Any]) -> Iterator[types.FunctionType]:
    answer = getattr(answer, "func", answer)  # functools.partial
    for found in (answer, getattr(answer, "__wrapped__", None), type(answer).__call__):
        if isinstance(found, types.FunctionType):
            yield found


def remarks_on(
    exercise: Exercise, answer: Callable[..., Any], extreme: Sequence[Call], failing: Sequence[int]
) -> list[str]:
    """Return what there is to say about an answer that is right on all ordinary inputs.

    Args:
        exercise: whose answer it is.
        answer: the learner's function.
        extreme: what it did on the extreme inputs of the exercise.
        failing: the indices of those on which it is wrong.
    """
    used = names_used(answer)
    found = [
        remark.remark for remark in exercise.remarks.values() if used.intersection(remark.uses)
    ]
    return [*found, _about_the_extremes(exercise, extreme)] if failing else found


def _about_the_extremes(exercise: Exercise, extreme: Sequence[Call]) -> str:
    for remark in exercise.remarks.values():
        if remark.change is None:
            continue
        function = exercise.changed_answer(remark.change)
        if all(
            same(call_own(function, probe), made, exercise.tolerance)
            for probe, made in zip(exercise.extreme, extreme, strict=True)
        ):
            return remark.remark
    return EXTREME
