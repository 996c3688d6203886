"""Who looks at whom: a model's attention weights on a record, and what a prefix gets of them."""

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
from ehr_course.generation.search_model import evaluating
from ehr_course.icd import code_meaning
from ehr_course.losses import NOT_SCORED
from ehr_course.models.prefix import Prefix
from ehr_course.models.prefix_tuning import PrefixTuned
from ehr_course.records import PatientRecord, Sex
from ehr_course.tokenizers.codes import CodeTokenizer

Kind = Literal["encoder", "decoder", "cross"]


KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
"""The three attentions of an encoder-decoder model."""


def attention_of(model: Any, batch: Mapping[str, torch.Tensor]) -> dict[Kind, np.ndarray]:
    """Run a model on a batch and return every attention weight.

    Prompts stand before the tokens, on either side that has them. The weights of a row sum to 1,
    over columns that are neither padding nor, in the decoder, later than the row. The rows of
    padded positions are there too and mean nothing.

    Args:
        model: a PromptBart, on any device. Dropout is off while it runs; its mode is as before
            afterwards.
        batch: its inputs; labels are passed over.

    Returns:
        float32 arrays by kind, where source and target count the prompts:
        ``encoder`` of shape (batch, layers, heads, source, source),
        ``decoder`` of shape (batch, layers, heads, target, target), and
        ``cross`` of shape (batch, layers, heads, target, source).
    """
    device = next(model.parameters()).device
    inputs = {name: tensor.to(device) for name, tensor in batch.items() if name != "labels"}
    with evaluating(model):
        output = model(**inputs, output_attentions=True, use_cache=False)
    of_kind: dict[Kind, tuple[torch.Tensor, ...]] = {
        "encoder": output.encoder_attentions,
        "decoder": output.decoder_attentions,
        "cross": output.cross_attentions,
    }
    return {
        kind: torch.stack(layers, dim=1).float().cpu().numpy() for kind, layers in of_kind.items()
    }


@dataclass(frozen=True)
class AttentionMap:
    """The attention of one kind on one record, with what its rows and columns stand for.

    Attributes:
        kind: "encoder", "decoder" or "cross".
        weights: float array of shape (layers, heads, rows, columns); each row sums to 1.
        rows: what each row is, in few characters: "428.0", "<v>", "age 64".
        columns: the same for the columns.
        row_names: the rows so that no two of one record have the same name: "428.0 of visit 2".
        column_names: the same for the columns.
        writes: the token that each row is about to write, or "" where it writes none; empty for
            an encoder.
        system: the code system that the codes belong to.
    """

    kind: Kind
    weights: np.ndarray
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    row_names: tuple[str, ...]
    column_names: tuple[str, ...]
    writes: tuple[str, ...] = ()
    system: CodeSystem = "ICD9CM"

    @property
    def row_labels(self) -> tuple[str, ...]:
        """The rows as they stand beside a heat map: what was read, and what is to be written."""
        if not self.writes:
            return self.rows
        pairs = zip(self.rows, self.writes, strict=True)
        return tuple(f"{row} → {writes}" if writes else row for row, writes in pairs)

    @property
    def causal(self) -> bool:
        """Whether a row sees nothing to the right of itself."""
        return self.kind == "decoder"

    def hidden(self) -> np.ndarray:
        """Where a row cannot look: a boolean array of shape (rows, columns)."""
        everywhere = np.ones(self.weights.shape[-2:], dtype=bool)
        return np.triu(everywhere, 1) if self.causal else ~everywhere

    def strongest(self, layer: int, head: int, row: int) -> int:
        """The column that a row looks at most."""
        return int(self.weights[layer, head, row].argmax())

    @property
    def first_code(self) -> int:
        """The row of the first code, or row 0 where there is none."""
        return self.rows.index("<v>") + 1 if "<v>" in self.rows else 0


def record_attention(
    model: Any, tokenizer: CodeTokenizer, record: PatientRecord, *, most_tokens: int = 60
) -> dict[Kind, AttentionMap]:
    """The three attentions of a model that reads a record and writes the same record.

    The encoder reads the record as it is, nothing corrupted. The decoder reads it shifted to the
    right, so that the row of a token shows where the model looks before it writes the next one.

    Args:
        model: a PromptBart.
        tokenizer: the one that the model was trained with.
        record: the patient.
        most_tokens: later visits that would make the sequence longer than this are left out,
            for the model too; the first visit always stays.

    Raises:
        InputError: if a code is not in the vocabulary and the tokenizer's policy is "raise", or
            the first visit alone is longer than the model's positions.
    """
    ids, visit_of = _encoded(tokenizer, record, most_tokens)
    source = torch.tensor([ids])
    start = [tokenizer.eos_id]  # BART starts its decoder with the token that ends a sequence
    target = torch.tensor([start + ids[:-1]])
    weights = attention_of(
        model,
        {
            "input_ids": source,
            "attention_mask": torch.ones_like(source),
            "decoder_input_ids": target,
            **demographics([record.age], [record.sex]),
        },
    )
    labels = _written(tokenizer, ids)
    names = [
        label if visit is None else f"{label} of visit {visit}"
        for label, visit in zip(labels, visit_of, strict=True)
    ]
    decoded, decoded_names = ["<EOS>", *labels[:-1]], ["<EOS> at the start", *names[:-1]]

    def made(kind: Kind, rows: tuple[list, list], columns: tuple[list, list]) -> AttentionMap:
        array = weights[kind][0]  # (layers, heads, rows, columns)
        row_prompts = _prompt_labels(record, array.shape[2] - len(rows[0]))
        column_prompts = _prompt_labels(record, array.shape[3] - len(columns[0]))
        return AttentionMap(
            kind,
            array,
            *((*row_prompts, *rows[0]), (*column_prompts, *columns[0])),
            *((*row_prompts, *rows[1]), (*column_prompts, *columns[1])),
            writes=(*[""] * len(row_prompts), *labels) if kind != "encoder" else (),
            system=tokenizer.system,
        )

    encoder_side, decoder_side = (labels, names), (decoded, decoded_names)
    return {
        "encoder": made("encoder", encoder_side, encoder_side),
        "decoder": made("decoder", decoder_side, decoder_side),
        "cross": made("cross", decoder_side, encoder_side),
    }


def _written(tokenizer: CodeTokenizer, ids: Sequence[int]) -> list[str]:
    """The tokens, codes with their dots."""
    written = code_meaning(tokenizer.system).written
    return [written(token) for token in tokenizer.tokens(ids)]


def visits_shown(tokenizer: CodeTokenizer, record: PatientRecord, *, most_tokens: int = 60) -> int:
    """How many visits :func:`record_attention` keeps, counted from the first."""
    length = 2  # <BOS> and <EOS>
    for place, visit in enumerate(record.visits):
        length += len(tokenizer.encode_visit(visit))
        if length > most_tokens and place > 0:
            return place
    return len(record.visits)


def _encoded(
    tokenizer: CodeTokenizer, record: PatientRecord, most_tokens: int
) -> tuple[list[int], list[int | None]]:
    """Token ids, and the number of the visit of each: None outside, or where one visit is all."""
    visits = record.visits[: visits_shown(tokenizer, record, most_tokens=most_tokens)]
    ids = [tokenizer.bos_id]
    visit_of: list[int | None] = [None]
    for number, visit in enumerate(visits, start=1):
        tokens = tokenizer.encode_visit(visit)
        ids += tokens
        visit_of += [number if len(visits) > 1 else None] * len(tokens)
    return [*ids, tokenizer.eos_id], [*visit_of, None]


def _prompt_labels(record: PatientRecord, n_prompts: int) -> list[str]:
    age, sex = f"age {record.age}", f"sex {record.sex}"
    known = {0: [], 1: [f"{age}, sex {record.sex}"], 2: [age, sex]}
    return known.get(n_prompts) or [f"prompt {i}" for i in range(n_prompts)]


# ---------------------------------------------------------------------- what a prefix gets


@dataclass(frozen=True)
class PrefixAttention:
    """The attention that the decoder pays to its prefix while it writes one record.

    Attributes:
        age, sex: of the patient whose record it is.
        tokens: what the decoder has read last at each position, and after which it writes.
        shares: float64 (layers, heads, tokens): the part of a position's attention that goes to
            the prefix, 0 to 1. The rest goes to prompts and tokens, itself included.
        n_prefix: how many tokens the prefix has.
        n_prompts: how many prompts stand between the prefix and the first token.
    """

    age: int
    sex: Sex
    tokens: tuple[str, ...]
    shares: np.ndarray
    n_prefix: int
    n_prompts: int = 0

    def __post_init__(self) -> None:
        if self.shares.ndim != 3 or 0 in self.shares.shape:
            problem = f"their shape is {self.shares.shape}, not (layers, heads, tokens)"
        elif self.shares.shape[2] != len(self.tokens):
            problem = f"they have {self.shares.shape[2]} positions for {len(self.tokens)} tokens"
        else:
            return
        raise InputError("PrefixAttention", "shares", problem, "Give a share for each token.")

    def of_equals(self, position: int) -> float:
        """The share that the prefix would have if all that a position can see got the same.

        >>> paid = PrefixAttention(64, "M", ("<v>", "428.0"), np.zeros((1, 1, 2)), n_prefix=2)
        >>> round(paid.of_equals(0), 3), paid.of_equals(1)
        (0.667, 0.5)
        """
        return self.n_prefix / (self.n_prefix + self.n_prompts + position + 1)


def prefix_attention(
    model: PrefixTuned,
    tokenizer: CodeTokenizer,
    records: Sequence[PatientRecord],
    *,
    most_tokens: int = 60,
) -> list[PrefixAttention]:
    """Let a model write records that exist, from age and sex, and see what the prefix gets.

    Args:
        model: with a prefix in the decoder. Its mode is as before afterwards.
        tokenizer: the one that the base was trained with.
        records: the patients. Those whose codes are all unseen are left out, where the
            tokenizer skips such codes.
        most_tokens: visits that come after so many tokens of a record are left out too.

    Raises:
        InputError: if the decoder has no prefix.
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
