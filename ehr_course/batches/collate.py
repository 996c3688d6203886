"""Patients of different lengths as one batch of tensors: the contract between data and model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict, get_type_hints

import numpy as np
import torch
from jaxtyping import Float32, Int64, jaxtyped
from torch import Tensor

from ehr_course.batches.ragged import Ragged
from ehr_course.errors import InputError
from ehr_course.records import MAX_AGE
from ehr_course.tokenizers.codes import CodeTokenizer

SEXES = ("M", "F")
"""The categories of x_cat by number: 0 is M, 1 is F."""

NOT_SCORED = -100
"""The label of a position that the loss skips."""

SourceIds = Int64[Tensor, "batch source"]
TargetIds = Int64[Tensor, "batch target"]
Ages = Float32[Tensor, "batch 1"]
Sexes = Int64[Tensor, "batch 1"]


class Batch(TypedDict):
    """What a model takes as keywords, each row padded on the right.

    Attributes:
        input_ids: int64 (batch, source), the corrupted records; the id of <PAD> on padding.
        attention_mask: int64 (batch, source), 1 on tokens, 0 on padding.
        decoder_input_ids: int64 (batch, target), the clean records, shifted right.
        labels: int64 (batch, target), the clean records; -100 on padding.
        x_num: float32 (batch, 1), age in years, unscaled.
        x_cat: int64 (batch, 1), sex, 0 for M and 1 for F.
    """

    input_ids: SourceIds
    attention_mask: SourceIds
    decoder_input_ids: TargetIds
    labels: TargetIds
    x_num: Ages
    x_cat: Sexes


def collate(
    clean: Ragged, inputs: Ragged, people: Mapping[str, Tensor], tokenizer: CodeTokenizer
) -> Batch:
    """Pad records to a batch, as wide as its longest record.

    Labels and decoder input both come from the clean records: the corrupted ones would teach the
    model to copy its input, and never to repair it.

    Args:
        clean: one record per row.
        inputs: the same records, corrupted, for the encoder.
        people: x_num and x_cat of each row, from ``demographics``.
        tokenizer: gives the ids of padding and of <EOS>.

    >>> clean = Ragged.from_lists([[1, 3, 8, 9, 4, 2], [1, 3, 7, 4, 2]])
    >>> inputs = Ragged.from_lists([[1, 3, 6, 4, 2], [1, 3, 7, 4, 2]])
    >>> people = demographics([64, 31], ["M", "F"])
    >>> batch = collate(clean, inputs, people, CodeTokenizer(["0389"]))
    >>> batch["decoder_input_ids"].tolist()
    [[2, 1, 3, 8, 9, 4], [2, 1, 3, 7, 4, 2]]
    >>> batch["labels"].tolist()
    [[1, 3, 8, 9, 4, 2], [1, 3, 7, 4, 2, -100]]
    """
    input_ids, is_token = inputs.padded(tokenizer.pad_id)
    target_ids, is_scored = clean.padded(tokenizer.pad_id)
    return Batch(
        input_ids=torch.from_numpy(input_ids),
        attention_mask=torch.from_numpy(is_token.astype(np.int64)),
        decoder_input_ids=shift_right(torch.from_numpy(target_ids), start=tokenizer.eos_id),
        labels=torch.from_numpy(np.where(is_scored, target_ids, NOT_SCORED)),
        x_num=people["x_num"],
        x_cat=people["x_cat"],
    )


def demographics(
    ages: Sequence[float], sexes: Sequence[str], names: Sequence[str] | None = None
) -> dict[str, Tensor]:
    """The x_num and x_cat of a Batch.

    Args:
        ages: in years, 0 to 90.
        sexes: "M" or "F".
        names: what an error calls each row; by default its number.

    Raises:
        InputError: if an age or a sex is out of range.
    """
    for row, (age, sex) in enumerate(zip(ages, sexes, strict=True)):
        name = names[row] if names is not None else f"row {row}"
        if not isinstance(age, (int, float, np.number)) or not 0 <= age <= MAX_AGE:
            raise InputError(
                "ages",
                name,
                f"{age} is not an age in years",
                f"Use a number from 0 to {MAX_AGE}; drop a patient whose age is not known.",
            )
        if sex not in SEXES:
            raise InputError(
                "sexes",
                name,
                f"{sex!r} is not one of {', '.join(map(repr, SEXES))}",
                "The course's records know these two; drop a patient whose sex is not known.",
            )
    return {
        "x_num": torch.tensor([[float(age)] for age in ages]),
        "x_cat": torch.tensor([[SEXES.index(sex)] for sex in sexes]),
    }


def shift_right(clean: Tensor, *, start: int = CodeTokenizer.eos_id) -> Tensor:
    """The decoder input for clean ids: the start token, then each token one place later.

    Args:
        clean: int64 (batch, target), as the result is; padded with the id of padding, not -100.
        start: the first token that the decoder reads; BART's is <EOS>, whose id in the course's
            own vocabulary is the default.
    """
    if (clean < 0).any():
        raise InputError(
            "shift_right",
            "",
            f"{int(clean.min())} is a label, not a token",
            "Shift the clean ids, padded as input ids are, before any label is masked.",
        )
    first = clean.new_full((len(clean), 1), start)
    return torch.cat([first, clean[:, :-1]], dim=1)


def check_batch(
    batch: Batch,
    n_tokens: int | None = None,
    *,
    tokenizer: CodeTokenizer | type[CodeTokenizer] = CodeTokenizer,
) -> None:
    """Raise an InputError for the first thing that breaks the contract between data and model.

    Args:
        batch: what to check.
        n_tokens: the size of the vocabulary, to check the ids against it.
        tokenizer: whose ids of special tokens are used; by default those of the course's own
            vocabulary.
    """
    entries = dict(batch)
    with jaxtyped("context"):  # "batch" is then the same size in all entries
        for name, expected in get_type_hints(Batch).items():
            if name not in entries:
                raise InputError("batch", "", f"{name} is missing", "collate makes it.")
            found = entries[name]
            if not isinstance(found, Tensor):
                raise InputError(
                    "batch", name, f"it is a {type(found).__name__}", "Every entry is a tensor."
                )
            if not isinstance(found, expected):
                raise InputError(
                    "batch",
                    name,
                    f"it is {found.dtype} of shape {tuple(found.shape)}",
                    f"It should be {expected.dtypes[0]} of shape "
                    f"({', '.join(expected.dim_str.split())}), the sizes as in the other entries.",
                )
    input_ids, mask = batch["input_ids"], batch["attention_mask"]
    decoder_input_ids, labels = batch["decoder_input_ids"], batch["labels"]
    pad, eos = tokenizer.pad_id, tokenizer.eos_id
    clean = torch.where(labels == NOT_SCORED, pad, labels)
    largest = torch.iinfo(torch.int64).max if n_tokens is None else n_tokens - 1
    for name, wrong, problem, remedy in (
        (
            "attention_mask",
            (mask != 0) & (mask != 1) | _resumes(mask == 0),
            "is not ones and then zeros",
            "Pad on the right, 1 for a token and 0 for padding.",
        ),
        (
            "input_ids",
            (input_ids == pad) != (mask == 0),
            "has padding where attention_mask has none, or the other way round",
            "Build the mask from the lengths of the rows that the encoder reads.",
        ),
        (
            "labels",
            _resumes(labels == NOT_SCORED) | (labels[:, :1] == NOT_SCORED),
            f"has {NOT_SCORED} before its last token",
            f"Put {NOT_SCORED} on padding alone.",
        ),
        ("labels", labels == pad, "scores padding", f"Put {NOT_SCORED} on padding."),
        (
            "labels",
            labels == tokenizer.mask_id,
            "asks the model to write <mask>",
            "Take the labels from the clean records, not from the corrupted ones.",
        ),
        (
            "decoder_input_ids",
            decoder_input_ids < 0,
            "holds a masked label",
            "Shift the clean records before any label is masked.",
        ),
        (
            "decoder_input_ids",
            decoder_input_ids != shift_right(clean.clamp(min=0), start=eos),
            "is not the clean record one place later",
            f"It starts with {eos}; use shift_right on the clean records.",
        ),
        *(
            (
                name,
                (ids < 0) | (ids > largest),
                "has an id that is not in the vocabulary",
                "Use the tokenizer that the model was made for.",
            )
            for name, ids in (("input_ids", input_ids), ("labels", clean))
        ),
    ):
        if wrong.any():
            row, place = wrong.nonzero()[0].tolist()
            raise InputError("batch", name, f"row {row}, position {place}: it {problem}", remedy)
    for row, (age, sex) in enumerate(torch.cat([batch["x_num"], batch["x_cat"]], 1).tolist()):
        if not 0 <= age <= MAX_AGE:
            raise InputError(
                "batch", "x_num", f"row {row} is {age}, not an age", f"Use 0 to {MAX_AGE} years."
            )
        if sex not in (0, 1):
            raise InputError(
                "batch", "x_cat", f"row {row} is {sex:g}, not a category", "0 is M and 1 is F."
            )


def tensors_of(batch: Batch) -> dict[str, Tensor]:
    """The tensors of a batch by name, for code that treats them all alike."""
    return {name: tensor for name, tensor in batch.items() if isinstance(tensor, Tensor)}


def _resumes(padding: Tensor) -> Tensor:
    """Where tokens follow padding: bool (batch, length)."""
    return padding.cummax(dim=1).values & ~padding
