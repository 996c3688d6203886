"""The drawings of lesson 10."""

from __future__ import annotations

import torch
from registry import drawing

from ehr_course.batches.collate import Batch
from ehr_course.plots.lesson_10 import draw_path, draw_tensors
from ehr_course.records import PatientRecord, Visit
from ehr_course.tokenizers.codes import CodeTokenizer


def batch_of(n_rows: int, length: int) -> Batch:
    """Records of 2 tokens less from row to row, hidden behind a mask in the input."""
    ids = torch.full((n_rows, length), 421)
    ids[:, 0], ids[:, -1] = 1, 2
    mask = torch.ones_like(ids)
    for row in range(1, n_rows):
        mask[row, length - row :] = 0
    return Batch(
        input_ids=ids.masked_fill(mask == 0, 0),
        attention_mask=mask,
        decoder_input_ids=ids.masked_fill(mask == 0, 0),
        labels=ids.masked_fill(mask == 0, -100),
        x_num=torch.full((n_rows, 1), 64.0),
        x_cat=torch.ones(n_rows, 1, dtype=torch.int64),
    )


@drawing("a batch of 3 patients", "input_ids (3, 9)", "x_num (3, 1)",
         "3 places of the input and 3 of the labels are padding",
         shown=["-100", "421", "(3, 1) float32", "(3, 9) int64"])  # fmt: skip
def tensors_with_numbers():
    return draw_tensors(batch_of(3, 9))


@drawing("a batch of 4 patients", "labels (4, 40)")
def tensors_without_room_for_numbers():
    return draw_tensors(batch_of(4, 40))


@drawing("2 visits become 9 token ids", "here to 6 tokens", "a batch of 3 rows and 6 places",
         shown=["made once", "made in every epoch", "Will it fit?", "4280"])  # fmt: skip
def the_way_of_a_patient_into_a_batch():
    record = PatientRecord(1, "F", 64, (Visit(("4280", "4019")), Visit(("25000",))))
    tokenizer = CodeTokenizer(("4280", "4019", "25000"))
    batch = batch_of(3, 6)
    batch["input_ids"] = batch["input_ids"].clamp(max=len(tokenizer) - 1)
    return draw_path(record, tokenizer, batch)
