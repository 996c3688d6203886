"""Where a model looks: its attention, what of it a prefix gets, and what it copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from ehr_course.batches.collate import demographics, tensors_of
from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.generation.beam_search import evaluating
from ehr_course.icd import code_meaning
from ehr_course.losses import NOT_SCORED
from ehr_course.models.prefix_tuning import Prefix, PrefixTuned
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.records import PatientRecord, Sex
from ehr_course.tokenizers.codes import CodeTokenizer

Kind = Literal["encoder", "decoder", "cross"]


KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
"""The three attentions of an encoder-decoder model."""


def attention_of(model: Any, batch: Mapping[str, torch.Tensor]) -> dict[Kind, np.ndarray]:
    """Run a PromptBart on a batch, without dropout or labels, and return every attention weight.

    Prompts count as tokens. Each row sums to 1 over its columns; rows of padding mean nothing.

    Returns:
        float32 arrays by kind: ``encoder`` (batch, layers, heads, source, source), ``decoder``
        (batch, layers, heads, target, target) and ``cross`` (batch, layers, heads, target,
        source).
    """
    device = next(model.parameters()).device
    inputs = {name: tensor.to(device) for name, tensor in batch.items() if name != "labels"}
    with evaluating(model):
        output = model(**inputs, output_attentions=True, use_cache=False)
    return {
        kind: torch.stack(output[f"{kind}_attentions"], dim=1).float().cpu().numpy()
        for kind in KINDS
    }


def _written(tokenizer: CodeTokenizer, ids: Sequence[int]) -> list[str]:
    """The tokens, codes with their dots."""
    written = code_meaning(tokenizer.system).written
    return [written(token) for token in tokenizer.tokens(ids)]


# ---------------------------------------------------------------------- what a prefix gets


@dataclass(frozen=True)
class PrefixAttention:
    """The attention that the decoder pays to its prefix while it writes one record.

    Attributes:
        tokens: the token read last at each position.
        shares: float64 (layers, heads, tokens): the part of a position's attention that goes to
            the prefix, 0 to 1; the rest goes to prompts and tokens.
        n_prompts: how many prompts stand between the prefix and the first token.
    """

    age: int
    sex: Sex
    tokens: tuple[str, ...]
    shares: np.ndarray
    n_prefix: int
    n_prompts: int = 0

    def of_equals(self, position: int) -> float:
        """The share that the prefix would have if all that a position can see got the same."""
        return self.n_prefix / (self.n_prefix + self.n_prompts + position + 1)


def prefix_attention(
    model: PrefixTuned,
    tokenizer: CodeTokenizer,
    records: Sequence[PatientRecord],
    *,
    most_tokens: int = 60,
) -> list[PrefixAttention]:
    """Let a model write existing records from age and sex, and see what its decoder's prefix gets.

    Visits after ``most_tokens`` tokens are left out, and so are records without a known code.
    """
    if "decoder" not in model.prefixes:
        raise InputError(
            "prefix_attention",
            "model",
            "there is no prefix in its decoder",
            "Train one with PrefixConfig(decoder=True).",
        )
    dataset = RecordDataset(
        list(records),
        tokenizer,
        corruption=Corruption(p_empty=1.0),
        max_tokens=min(most_tokens, model.max_tokens),
        too_long="cut",
    )
    batch = tensors_of(dataset.batch(range(len(dataset))))
    prefix = model.prefixes["decoder"]
    assert isinstance(prefix, Prefix)
    n_prefix = prefix.n_tokens
    weights = attention_of(model, batch)["decoder"]  # (batch, layers, heads, target, columns)
    to_prefix = weights[..., :n_prefix].astype(np.float64).sum(-1)
    n_prompts = weights.shape[-2] - batch["labels"].shape[1]
    lengths = (batch["labels"] != NOT_SCORED).sum(1).tolist()
    made = []
    for row, (record, length) in enumerate(zip(dataset.records, lengths, strict=True)):
        ids = batch["decoder_input_ids"][row, :length].tolist()
        tokens = tuple(_written(tokenizer, ids))
        shares = to_prefix[row, :, :, n_prompts : n_prompts + length]
        made.append(PrefixAttention(record.age, record.sex, tokens, shares, n_prefix, n_prompts))
    return made


# ---------------------------------------------------------------------- what is copied


@dataclass(frozen=True)
class CopiedVisit:
    """The last visit of a patient, and what of the earlier ones each code is copied from.

    Attributes:
        earlier: the codes of the earlier visits, one after the other.
        visit_of: the visit of each of those, from 1.
        shares: float64 (codes, earlier): the probability, 0 to 1, that the code at a place is
            copied to this position. A row sums to 1 - p_gen.
    """

    codes: tuple[str, ...]
    earlier: tuple[str, ...]
    visit_of: tuple[int, ...]
    shares: np.ndarray
    system: CodeSystem = "ICD9CM"

    @property
    def copied(self) -> np.ndarray:
        """1 - p_gen of each code: float64 (codes,)."""
        return self.shares.sum(axis=1)


def copied_visit(
    model: PromptBart, tokenizer: CodeTokenizer, record: PatientRecord
) -> CopiedVisit:
    """Look at the copy head while the model writes the last of a record's two or more visits.

    The encoder reads an empty record, the decoder the record itself up to each code.
    """
    if model.copy_head is None:
        raise InputError(
            "copied_visit",
            "model",
            "it has no copy head",
            "Train one with PromptBartConfig(..., copy_head=True).",
        )
    if len(record.visits) < 2:
        raise InputError(
            f"patient {record.subject_id}",
            "visits",
            "there is one only, and nothing to copy from",
            "Choose a patient with two visits or more.",
        )
    ids = torch.tensor([[tokenizer.eos_id, *tokenizer.encode(record)[:-1]]])
    with evaluating(model):
        pointed = model(
            torch.tensor([tokenizer.empty_record]),
            decoder_input_ids=ids,
            **demographics([record.age], [record.sex]),
        ).pointed
    *before, last = record.visits
    first = ids.shape[1] - len(last.codes) - 2  # the <v> before which the first code is unknown
    rows = slice(first, first + len(last.codes))
    attention = pointed.log_attention[0, rows].exp()
    shares = attention * (-pointed.p_gen_logit[0, rows]).sigmoid()[:, None]
    places = [place for place in range(first) if ids[0, place] >= tokenizer.first_code_id]
    return CopiedVisit(
        tuple(last.codes),
        tuple(code for visit in before for code in visit.codes),
        tuple(number for number, visit in enumerate(before, 1) for _ in visit.codes),
        shares[:, places].double().numpy(),
        tokenizer.system,
    )
