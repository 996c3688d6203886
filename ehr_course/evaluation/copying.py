"""Where a model's copy head points to while it writes the last visit of a patient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ehr_course.batches.collate import demographics
from ehr_course.batches.corruption import EMPTY_RECORD
from ehr_course.batches.record_checks import FIRST_CODE
from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.records import PatientRecord
from ehr_course.tokenizers.codes import CodeTokenizer


@dataclass(frozen=True)
class CopiedVisit:
    """The last visit of a patient, and what of the earlier ones each code is copied from.

    Attributes:
        codes: of the last visit, in their order.
        earlier: the codes of the visits before, one after the other.
        visit_of: the visit of each of those, from 1.
        shares: float64 (codes, earlier): the probability, 0 to 1, that the code of a place is
            copied in this position. A row sums to 1 - p_gen.
        system: the code system that the codes belong to.
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


@torch.no_grad()
def copied_visit(
    model: PromptBart, tokenizer: CodeTokenizer, record: PatientRecord
) -> CopiedVisit:
    """Look at the copy head while the model writes the last visit of a record.

    The encoder reads an empty record, as for a patient of whom age and sex alone are known; the
    decoder reads the record itself up to each code.

    Args:
        model: it has a copy head; it is used in evaluation mode and left as it was.
        tokenizer: the one that it was trained with; it knows all codes of the record.
        record: a patient with two visits or more.

    Raises:
        InputError: if the model has no copy head, the record has one visit only, or is longer
            than the model's positions.
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
    was_training = model.training
    model.eval()
    try:
        output = model(
            torch.tensor([EMPTY_RECORD]),
            decoder_input_ids=ids,
            **demographics([record.age], [record.sex]),
        )
    finally:
        model.train(was_training)
    *before, last = record.visits
    first = ids.shape[1] - len(last.codes) - 2  # the <v> before which the first code is unknown
    rows = slice(first, first + len(last.codes))
    pointed = output.pointed
    attention = pointed.log_attention[0, rows].exp()
    shares = attention * (-pointed.p_gen_logit[0, rows]).sigmoid()[:, None]
    places = [place for place in range(first) if ids[0, place] >= FIRST_CODE]
    return CopiedVisit(
        tuple(last.codes),
        tuple(code for visit in before for code in visit.codes),
        tuple(number for number, visit in enumerate(before, 1) for _ in visit.codes),
        shares[:, places].double().numpy(),
        tokenizer.system,
    )
