"""The drawings of lesson 09."""

from __future__ import annotations

import torch
from registry import drawing

from ehr_course.batches.collate import Batch
from ehr_course.plots.lesson_09 import draw_damaged_visits, draw_training_pair
from ehr_course.tokenizers.codes import CodeTokenizer

TOKENIZER = CodeTokenizer(("291", "428", "577", "779", "V30"))
BOS, EOS, OPEN, CLOSE, MASK = (TOKENIZER.bos_id, TOKENIZER.eos_id, TOKENIZER.visit_start_id,
                               TOKENIZER.visit_end_id, TOKENIZER.mask_id)  # fmt: skip
CODES = [TOKENIZER.code_to_id(code) for code in ("V30", "428", "577", "779")]
CLEAN = [BOS, OPEN, *CODES, CLOSE, EOS]
HIDDEN = [BOS, OPEN, CODES[0], MASK, CODES[3], CLOSE, EOS]
SHORTER = [BOS, OPEN, *CODES[:2], CODES[3], CLOSE, EOS]


def batch_of(damaged: list[int], labels: list[int]) -> Batch:
    return Batch(
        input_ids=torch.tensor([[*damaged, 0]]),
        attention_mask=torch.ones(1, len(damaged) + 1, dtype=torch.int64),
        decoder_input_ids=torch.tensor([[EOS, *labels[:-1], 0]]),
        labels=torch.tensor([[*labels, -100]]),
        x_num=torch.zeros(1, 1),
        x_cat=torch.zeros(1, 1, dtype=torch.int64),
    )


@drawing("clean record: <BOS> <v> V30 428 577 779 <\\v> <EOS>; 8 tokens.",
         "encoder reads input_ids: <BOS> <v> V30 <mask> 779 <\\v> <EOS>; framed (damaged): <mask>",
         "labels: <BOS> <v> V30 428 577 779 <\\v> <EOS>; framed (damaged): 428, 577; 8",
         "decoder_input_ids: <EOS> <BOS> <v>")  # fmt: skip
def a_pair_with_the_clean_labels():
    return draw_training_pair(TOKENIZER, CLEAN, batch_of(HIDDEN, CLEAN))


@drawing("labels: <BOS> <v> V30 <mask> 779 <\\v> <EOS>; not in the clean record: <mask>; framed")
def a_pair_with_a_leak():
    return draw_training_pair(TOKENIZER, CLEAN, batch_of(HIDDEN, HIDDEN))


@drawing("input_ids: <BOS> <v> V30 428 deleted 779 <\\v> <EOS>; 7 tokens", "A leak?")
def a_pair_without_a_trace():
    return draw_training_pair(TOKENIZER, CLEAN, batch_of(SHORTER, SHORTER), title="A leak?")


@drawing("hidden 1: V30 <mask> 779; 3 tokens", "deleted 1: V30 deleted 577 779; 3 tokens",
         "replaced 1: V30 428 577 291; another code in its place: 291; 4 tokens")  # fmt: skip
def damaged_visits():
    ids = [TOKENIZER.code_to_id(code) for code in ("V30", "428", "577", "291")]
    damaged = {
        "hidden": [[CODES[0], MASK, CODES[3]]],
        "deleted": [[CODES[0], *CODES[2:]]],
        "replaced": [ids],
    }
    return draw_damaged_visits(TOKENIZER, CODES, damaged)
