"""What a PromptBart says next of some patients: by its own forward, or by the step that equals it.

Both have read the same when a record begins: the encoder what is known of the patient, and the
decoder the two tokens that every record begins with, <BOS> and <v>.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from ehr_course.batches.collate import demographics
from ehr_course.batches.corruption import EMPTY_RECORD
from ehr_course.errors import InputError
from ehr_course.models.prefix_tuning import PrefixTuned
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.models.prompt_bart_step import PromptBartStep, fits
from ehr_course.records import Sex
from ehr_course.tokenizers.codes import CodeTokenizer

OPENING = (CodeTokenizer.bos_id, CodeTokenizer.visit_start_id)
"""The tokens that every record begins with."""

LOOPS = ("auto", "plain", "fast")

Known = tuple[tuple[int, ...], ...]
"""What is known of a patient: the ids of the codes of each visit, in their order."""

Told = tuple[Known, float, Sex]
"""All that the model is told of a patient: what is known, age and sex."""


class Decoder(Protocol):
    """What gives the logits of the next token, for some patients at a time."""

    def begin(self, told: Sequence[Told]) -> Tensor:
        """The logits after <BOS> and <v>, (batch, vocabulary)."""

    def read(self, tokens: Tensor) -> Tensor:
        """The logits after one more token of each row, int64 (batch,): (batch, vocabulary)."""

    def keep(self, rows: Tensor) -> None:
        """Keep these rows, int64 (kept,), in this order."""


def decoder_for(model: PromptBart | PrefixTuned, decoder_loop: str) -> Decoder:
    """The decoder of a name: see generate_patients.

    Raises:
        InputError: if there is none of this name, or "fast" is asked for where it would not see
            a part of the model.
    """
    if decoder_loop not in LOOPS:
        raise InputError(
            "generate_patients",
            "decoder_loop",
            f"{decoder_loop!r} is none",
            f"Use one of {', '.join(map(repr, LOOPS))}.",
        )
    if decoder_loop == "plain" or isinstance(model, PrefixTuned) or not fits(model):
        if decoder_loop != "fast":
            return PlainDecoder(model)
        raise InputError(
            "generate_patients",
            "decoder_loop",
            "this is no PromptBart alone: a part was exchanged or has a hook, as a prefix does, "
            "which the fast loop does not see",
            'Use "auto" or "plain".',
        )
    return StepDecoder(model)


class PlainDecoder:
    """The model's own forward, with the cache of transformers."""

    def __init__(self, model: PromptBart | PrefixTuned) -> None:
        self.model = model

    def begin(self, told: Sequence[Told]) -> Tensor:
        """As Decoder says."""
        inputs, mask, self.demographics = _inputs(told, self.model.device)
        encoded, read = self.model.encode(inputs, mask, **self.demographics)
        assert read is not None  # as a mask was given
        self.mask = read
        assert encoded.last_hidden_state is not None
        self.encoded = encoded.last_hidden_state
        self.cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        self.opening = inputs.new_tensor([[CodeTokenizer.eos_id, *OPENING]] * len(told))
        return self._forward(self.opening)

    def read(self, tokens: Tensor) -> Tensor:
        """As Decoder says."""
        return self._forward(tokens[:, None])

    def keep(self, rows: Tensor) -> None:
        """As Decoder says."""
        self.encoded, self.mask = self.encoded[rows], self.mask[rows]
        self.demographics = {name: x[rows] for name, x in self.demographics.items()}
        self.cache.batch_select_indices(rows)

    def _forward(self, tokens: Tensor) -> Tensor:
        output = self.model(
            decoder_input_ids=tokens,
            attention_mask=self.mask,
            encoder_outputs=BaseModelOutput(last_hidden_state=self.encoded),
            past_key_values=self.cache,
            use_cache=True,
            **self.demographics,
        )
        return output.logits[:, -1]


class StepDecoder:
    """The same by PromptBartStep; what is told of several patients alike is read once."""

    def __init__(self, model: PromptBart) -> None:
        self.plain, self.step = PlainDecoder(model), PromptBartStep(model)

    def begin(self, told: Sequence[Told]) -> Tensor:
        """As Decoder says."""
        place = {one: number for number, one in enumerate(dict.fromkeys(told))}
        read = self.plain
        logits = read.begin(list(place))
        rows = torch.tensor([place[one] for one in told], device=logits.device)
        self.step.start(read.cache, read.mask, read.opening, rows)
        return logits[rows]

    def read(self, tokens: Tensor) -> Tensor:
        """As Decoder says."""
        return self.step(tokens)

    def keep(self, rows: Tensor) -> None:
        """As Decoder says."""
        self.step.keep(rows)


def _inputs(
    told: Sequence[Told], device: torch.device
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    """What the encoder reads, its mask, and age and sex."""
    rows = [list(_partial_record(known)) or list(EMPTY_RECORD) for known, _, _ in told]
    longest = max(map(len, rows))
    ids = torch.tensor([row + [CodeTokenizer.pad_id] * (longest - len(row)) for row in rows])
    people = demographics([age for _, age, _ in told], [sex for _, _, sex in told])
    on_device = {"x_num": people["x_num"].to(device), "x_cat": people["x_cat"].to(device)}
    return ids.to(device), (ids != CodeTokenizer.pad_id).long().to(device), on_device


def _partial_record(known: Known) -> Iterator[int]:
    """What is known, with a <mask> in each visit for what is not."""
    if not known:
        return
    yield CodeTokenizer.bos_id
    for codes in known:
        yield from (
            CodeTokenizer.visit_start_id,
            *codes,
            CodeTokenizer.mask_id,
            CodeTokenizer.visit_end_id,
        )
    yield CodeTokenizer.eos_id
