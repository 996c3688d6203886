"""What the copy head of lesson 19 copies into a patient's last visit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ehr_course.batches.collate import demographics
from ehr_course.errors import InputError
from ehr_course.generation.beam_search import evaluating
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.records import PatientRecord
from ehr_course.tokenizers.codes import CodeTokenizer


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
    )
