"""What a PromptBart says next of a batch of patients.

The encoder reads what is known of a patient, the decoder <BOS> and <v>, which begin every record,
and then one token of each patient at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from ehr_course.batches.collate import demographics
from ehr_course.generation.patient_step import PatientStep
from ehr_course.models.prefix_tuning import PrefixTuned
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.records import Sex
from ehr_course.tokenizers.codes import CodeTokenizer

KnownIds = tuple[tuple[int, ...], ...]
"""What is known of a patient: the ids of the codes of each visit, in order."""


class Condition(NamedTuple):
    """All that the model reads of a patient before it writes."""

    known: KnownIds
    age: float
    sex: Sex


class Decoder:
    """The model on some patients, by its written-out step or its forward with a cache.

    What several patients share is read once.

    Args:
        model: in evaluation mode.
        written_out: whether to take the step in plain operations: see ``can_be_written_out``.

    Attributes:
        logits: of the next token, (batch, vocabulary).
    """

    def __init__(
        self,
        model: PromptBart | PrefixTuned,
        tokenizer: CodeTokenizer,
        conditions: Sequence[Condition],
        *,
        written_out: bool,
    ) -> None:
        self.model, self.tokenizer, self.conditions = model, tokenizer, conditions
        place = {condition: number for number, condition in enumerate(dict.fromkeys(conditions))}
        records = [_partial_record(condition.known, tokenizer) for condition in place]
        longest = max(map(len, records))
        ids = torch.tensor([row + [tokenizer.pad_id] * (longest - len(row)) for row in records])
        people = demographics([one.age for one in place], [one.sex for one in place])
        ids, x_num, x_cat = (x.to(model.device) for x in (ids, people["x_num"], people["x_cat"]))
        self.mask: Tensor
        self.encoded: Tensor
        self.logits: Tensor
        encoded, self.mask = model.encode(  # type: ignore[assignment]
            ids, (ids != tokenizer.pad_id).long(), x_num=x_num, x_cat=x_cat
        )
        self.encoded = encoded.last_hidden_state  # type: ignore[assignment]
        self.cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        opening = (tokenizer.eos_id, tokenizer.bos_id, tokenizer.visit_start_id)
        self.history = ids.new_tensor([opening] * len(place))  # (batch, past)
        self._forward(self.history, x_num=x_num, x_cat=x_cat)
        rows = torch.tensor([place[condition] for condition in conditions], device=ids.device)
        self.logits = self.logits[rows]
        self.step: PatientStep | None = None
        if written_out:
            assert isinstance(model, PromptBart)
            self.step = PatientStep(model, self.cache, self.mask, self.history, rows)
        else:
            self.keep(rows)

    def read(self, tokens: Tensor) -> None:
        """Read one more token of each row, int64 (batch,)."""
        if self.step is not None:
            self.logits = self.step(tokens)
            return
        self.history = torch.cat([self.history, tokens[:, None]], dim=1)
        self._forward(tokens[:, None])

    def keep(self, rows: Tensor) -> None:
        """Keep these rows, int64 (kept,), in this order, for the next token."""
        if self.step is not None:
            self.step.keep(rows)
            return
        self.mask, self.history = self.mask[rows], self.history[rows]
        self.encoded = self.encoded[rows]
        self.cache.batch_select_indices(rows)

    def _forward(self, tokens: Tensor, **demographics: Tensor) -> None:
        output = self.model(
            decoder_input_ids=tokens,
            decoder_history_ids=self.history,
            attention_mask=self.mask,
            encoder_outputs=BaseModelOutput(last_hidden_state=self.encoded),
            past_key_values=self.cache,
            use_cache=True,
            **demographics,
        )
        self.logits = output.logits[:, -1]


def _partial_record(known: KnownIds, tokenizer: CodeTokenizer) -> list[int]:
    """What is known, with a <mask> in each visit for what is not."""
    if not known:
        return [tokenizer.bos_id, tokenizer.mask_id, tokenizer.eos_id]
    ids = [tokenizer.bos_id]
    for codes in known:
        ids += [tokenizer.visit_start_id, *codes, tokenizer.mask_id, tokenizer.visit_end_id]
    return [*ids, tokenizer.eos_id]
