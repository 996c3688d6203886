"""Patients of different lengths as one batch of tensors: the contract between data and model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

import numpy as np
import torch
from jaxtyping import Float32, Int64
from torch import Tensor

from ehr_course.batches.ragged import Ragged
from ehr_course.errors import InputError
from ehr_course.records import MAX_AGE
from ehr_course.tokenizers.codes import CodeTokenizer

SEXES = ("M", "F")
"""The categories of x_cat by number: 0 is M, 1 is F."""

NOT_SCORED = -100
"""The label of a position that the loss passes over."""

SourceIds = Int64[Tensor, "batch source"]
TargetIds = Int64[Tensor, "batch target"]
Ages = Float32[Tensor, "batch 1"]
Sexes = Int64[Tensor, "batch 1"]


class Batch(TypedDict):
    """What a model takes as keywords. All rows are padded on the right.

    Attributes:
        input_ids: int64 (batch, source): the corrupted records; 0 on padding.
        attention_mask: int64 (batch, source): 1 on tokens, 0 on padding.
        decoder_input_ids: int64 (batch, target): the clean records, shifted right; 0 on padding.
        labels: int64 (batch, target): the clean records; -100 on padding.
        x_num: float32 (batch, 1): age in years, unscaled.
        x_cat: int64 (batch, 1): sex, 0 for M and 1 for F.
    """

    input_ids: SourceIds
    attention_mask: SourceIds
    decoder_input_ids: TargetIds
    labels: TargetIds
    x_num: Ages
    x_cat: Sexes


def collate(clean: Ragged, inputs: Ragged, ages: Sequence[float], sexes: Sequence[str]) -> Batch:
    """Pad records to a batch, as wide as its longest record and no wider.

    Labels and decoder input both come from the clean records. Taken from the corrupted ones, they
    would teach the model to copy its input, and never to repair it.

    Args:
        clean: the records as they are, one a row.
        inputs: the same records, corrupted: what the encoder reads.
        ages: in years, 0 to 90, one for each row.
        sexes: "M" or "F", one for each row.

    Raises:
        InputError: if there are no rows or not as many everywhere, a row is empty, an age is no
            age, or a sex is neither of the two.

    >>> clean = Ragged.from_lists([[1, 3, 8, 9, 4, 2], [1, 3, 7, 4, 2]])
    >>> inputs = Ragged.from_lists([[1, 3, 6, 4, 2], [1, 3, 7, 4, 2]])
    >>> batch = collate(clean, inputs, [64, 31], ["M", "F"])
    >>> batch["decoder_input_ids"].tolist()
    [[2, 1, 3, 8, 9, 4], [2, 1, 3, 7, 4, 2]]
    >>> batch["labels"].tolist()
    [[1, 3, 8, 9, 4, 2], [1, 3, 7, 4, 2, -100]]
    """
    rows = len(clean)
    if not rows == len(inputs) == len(ages) == len(sexes) or not rows:
        raise InputError(
            "collate",
            "",
            f"there are {rows} clean rows, {len(inputs)} inputs, {len(ages)} ages and "
            f"{len(sexes)} sexes",
            "Give as many of each, 1 or more.",
        )
    if not (clean.lengths.all() and inputs.lengths.all()):
        raise InputError("collate", "", "a row is empty", "A record has at least <BOS> and <EOS>.")
    return collate_unchecked(clean, inputs, checked_ages(ages), sex_numbers(sexes))


def collate_unchecked(clean: Ragged, inputs: Ragged, ages: np.ndarray, sexes: np.ndarray) -> Batch:
    """Do what collate does, for rows that were checked before.

    Args:
        clean, inputs: as for collate.
        ages: float32 (rows,), as checked_ages returns them.
        sexes: int64 (rows,), as sex_numbers returns them.
    """
    input_ids, attention_mask = inputs.padded(CodeTokenizer.pad_id)
    labels, scored = clean.padded(NOT_SCORED)
    # Here the clean record is shifted as shift_right does it: one place later, <EOS> first.
    decoder_input_ids = np.empty_like(labels)
    decoder_input_ids[:, 0] = CodeTokenizer.eos_id
    decoder_input_ids[:, 1:] = np.where(scored, labels, CodeTokenizer.pad_id)[:, :-1]
    return Batch(
        input_ids=torch.from_numpy(input_ids),
        attention_mask=torch.from_numpy(attention_mask.astype(np.int64)),
        decoder_input_ids=torch.from_numpy(decoder_input_ids),
        labels=torch.from_numpy(labels),
        x_num=torch.from_numpy(ages[:, None]),
        x_cat=torch.from_numpy(sexes[:, None]),
    )


def shift_right(clean: Tensor, *, start: int = CodeTokenizer.eos_id) -> Tensor:
    """The decoder input for clean ids: everything one place later, the start token first.

    Args:
        clean: int64 (batch, target), padded with 0; no position is masked yet.
        start: the first token that the decoder reads. BART's is <EOS>.

    Returns:
        int64 (batch, target): position t holds the token before that of position t.

    Raises:
        InputError: if an id is negative: a label of -100 is no token that a decoder can read.

    >>> shift_right(torch.tensor([[1, 3, 8, 4, 2]])).tolist()
    [[2, 1, 3, 8, 4]]
    """
    if (clean < 0).any():
        raise InputError(
            "shift_right",
            "",
            f"{int(clean.min())} is a label, not a token",
            "Shift the clean ids, padded with 0, before any label is masked.",
        )
    shifted = torch.empty_like(clean)
    shifted[:, 0] = start
    shifted[:, 1:] = clean[:, :-1]
    return shifted


def checked_ages(ages: Sequence[float], names: Sequence[str] | None = None) -> np.ndarray:
    """Ages as float32 (n,), each a number from 0 to 90.

    Args:
        ages: in years.
        names: what to call each of them in an error; by default its row.

    Raises:
        InputError: if one is not a number, negative, or above 90.
    """
    try:
        years = np.asarray(ages, dtype=np.float32)
    except (TypeError, ValueError):
        raise InputError("ages", "", f"{ages!r} are not all numbers", "Give years.") from None
    wrong = np.flatnonzero(~((years >= 0) & (years <= MAX_AGE)))  # NaN is wrong too
    if len(wrong):
        row = int(wrong[0])
        raise InputError(
            "ages",
            names[row] if names is not None else f"row {row}",
            f"{ages[row]} is not an age in years",
            f"Use a number from 0 to {MAX_AGE}; drop a patient whose age is not known.",
        )
    return years


def sex_numbers(sexes: Sequence[str], names: Sequence[str] | None = None) -> np.ndarray:
    """Sexes as int64 (n,): the place of each in SEXES.

    Args:
        sexes: "M" or "F".
        names: what to call each of them in an error; by default its row.

    Raises:
        InputError: if one is neither.

    >>> sex_numbers(["F", "M"])
    array([1, 0])
    """
    try:
        return np.array([SEXES.index(sex) for sex in sexes], dtype=np.int64)
    except ValueError:
        row = next(i for i, sex in enumerate(sexes) if sex not in SEXES)
        raise InputError(
            "sexes",
            names[row] if names is not None else f"row {row}",
            f"{sexes[row]!r} is not one of {', '.join(map(repr, SEXES))}",
            "The course's records know these two; drop a patient whose sex is not known.",
        ) from None


def check_batch(batch: Batch, n_tokens: int | None = None) -> None:
    """Check that a batch keeps the contract between data and model.

    Args:
        batch: see Batch.
        n_tokens: the size of the vocabulary, if ids are to be checked against it.

    Raises:
        InputError: that names the tensor and what is wrong with it, the first thing found.

    >>> one = Ragged.from_lists([[1, 3, 7, 4, 2]])
    >>> batch = collate(one, one, [64], ["F"])
    >>> check_batch(batch, n_tokens=8)
    >>> batch["x_num"][0] = float("nan")
    >>> check_batch(batch)
    Traceback (most recent call last):
    ehr_course.errors.InputError: batch, x_num: row 0 is nan, not an age. Use 0 to 90 years.
    """
    _check_shapes(batch)
    input_ids, mask = batch["input_ids"], batch["attention_mask"]
    decoder_input_ids, labels = batch["decoder_input_ids"], batch["labels"]
    pad = CodeTokenizer.pad_id

    _refuse(
        "attention_mask",
        (mask != 0) & (mask != 1) | _resumes(mask == 0),
        "is not ones and then zeros",
        "Pad on the right, 1 for a token and 0 for padding.",
    )
    _refuse(
        "input_ids",
        (input_ids == pad) != (mask == 0),
        "has padding where attention_mask has none, or the other way round",
        "Build the mask from the lengths of the rows that the encoder reads.",
    )
    _refuse(
        "labels",
        _resumes(labels == NOT_SCORED) | (labels[:, :1] == NOT_SCORED),
        f"has {NOT_SCORED} before its last token",
        f"Put {NOT_SCORED} on padding alone.",
    )
    _refuse(
        "labels",
        labels == pad,
        "scores padding",
        f"Put {NOT_SCORED} where the target is padding.",
    )
    _refuse(
        "labels",
        labels == CodeTokenizer.mask_id,
        "asks the model to write <mask>",
        "Take the labels from the clean records, not from the corrupted ones.",
    )
    _refuse(
        "decoder_input_ids",
        decoder_input_ids < 0,
        "holds a masked label",
        "Shift the clean records before any label is masked.",
    )
    clean = torch.where(labels == NOT_SCORED, pad, labels)
    _refuse(
        "decoder_input_ids",
        decoder_input_ids != shift_right(clean.clamp(min=0)),
        "is not the clean record one place later",
        f"It starts with {CodeTokenizer.eos_id}; use shift_right on the clean records.",
    )
    largest = torch.iinfo(torch.int64).max if n_tokens is None else n_tokens - 1
    for name, ids in (("input_ids", input_ids), ("labels", clean)):
        _refuse(
            name,
            (ids < 0) | (ids > largest),
            "has an id that is not in the vocabulary",
            "Use the tokenizer that the model was made for.",
        )
    for row, age in enumerate(batch["x_num"][:, 0].tolist()):
        if not 0 <= age <= MAX_AGE:
            raise InputError(
                "batch", "x_num", f"row {row} is {age}, not an age", f"Use 0 to {MAX_AGE} years."
            )
    for row, sex in enumerate(batch["x_cat"][:, 0].tolist()):
        if not 0 <= sex < len(SEXES):
            raise InputError(
                "batch", "x_cat", f"row {row} is {sex}, not a category", "0 is M and 1 is F."
            )


def tensors_of(batch: Batch) -> dict[str, Tensor]:
    """The tensors of a batch by their names, for what treats them all alike."""
    return {name: tensor for name, tensor in batch.items() if isinstance(tensor, Tensor)}


def _check_shapes(batch: Batch) -> None:
    missing = sorted(Batch.__annotations__.keys() - batch.keys())
    if missing:
        raise InputError("batch", "", f"{', '.join(missing)} is missing", "collate makes it.")
    sizes: dict[str, tuple[int, str]] = {}
    entries: Mapping[str, object] = batch
    for name, shape, dtype in _CONTRACT:
        found = entries[name]
        if not isinstance(found, Tensor):
            raise InputError(
                "batch", name, f"it is a {type(found).__name__}", "Every entry is a tensor."
            )
        if found.dtype != dtype or found.ndim != len(shape):
            raise InputError(
                "batch",
                name,
                f"it is {found.dtype} of shape {tuple(found.shape)}",
                f"It should be {dtype} of shape ({', '.join(shape)}).",
            )
        for axis, size in zip(shape, found.shape, strict=True):
            expected, first = sizes.setdefault(axis, (1 if axis == "1" else size, name))
            if size != expected or size == 0:
                raise InputError(
                    "batch",
                    name,
                    f"its shape is {tuple(found.shape)}"
                    + (f", and {axis} is {expected} in {first}" if first != name else ""),
                    f"It should be ({', '.join(shape)}), with no size 0.",
                )


_CONTRACT = (
    ("input_ids", ("batch", "source"), torch.int64),
    ("attention_mask", ("batch", "source"), torch.int64),
    ("decoder_input_ids", ("batch", "target"), torch.int64),
    ("labels", ("batch", "target"), torch.int64),
    ("x_num", ("batch", "1"), torch.float32),
    ("x_cat", ("batch", "1"), torch.int64),
)


def _resumes(padding: Tensor) -> Tensor:
    """Where something that is not padding follows padding: bool (batch, length)."""
    return padding.cummax(dim=1).values & ~padding


def _refuse(name: str, wrong: Tensor, problem: str, remedy: str) -> None:
    """Raise if any place of a (batch, length) tensor is wrong, and name the first."""
    if wrong.any():
        row, place = wrong.nonzero()[0].tolist()
        raise InputError("batch", name, f"row {row}, position {place}: it {problem}", remedy)
