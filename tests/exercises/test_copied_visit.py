"""What a model copies into the last visit of a patient, and the picture of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ehr_course.errors import InputError
from ehr_course.exercises.copied_visit import copied_visit
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.records import PatientRecord, Visit
from ehr_course.tokenizers.codes import CodeTokenizer

TOKENIZER = CodeTokenizer(["25000", "4019", "4280", "486", "5990"])
PATIENT = PatientRecord(
    7, "F", 64, (Visit(("4280", "25000")), Visit(("486",)), Visit(("4280", "4019", "25000")))
)


def made(**changes: object) -> PromptBart:
    torch.manual_seed(1)
    options = {"copy_head": True} | changes
    return PromptBart(PromptBartConfig.for_tokenizer(TOKENIZER, "narrow", **options)).eval()


def test_shares_are_those_of_the_step_that_writes_each_code() -> None:
    model = made(max_visit_embeddings=4)
    shown = copied_visit(model, TOKENIZER, PATIENT)
    assert shown.codes == ("4280", "4019", "25000")
    assert shown.earlier == ("4280", "25000", "486") and shown.visit_of == (1, 1, 2)
    ids = [TOKENIZER.eos_id, *TOKENIZER.encode(PATIENT)]
    for row, code in enumerate(shown.codes):
        # The model reads what stands before this code and nothing after it.
        upto = len(ids) - 2 - len(shown.codes) + row
        assert ids[upto] == TOKENIZER.code_to_id(code)
        with torch.no_grad():
            output = model(
                torch.tensor([[1, 6, 2]]),
                decoder_input_ids=torch.tensor([ids[:upto]]),
                x_num=torch.tensor([[64.0]]),
                x_cat=torch.tensor([[1]]),
            )
        gate = output.pointed.p_gen_logit[0, -1].sigmoid().item()
        attention = output.pointed.log_attention[0, -1].exp().numpy()
        places = [i for i, token in enumerate(ids[: upto - row]) if token >= 7]
        np.testing.assert_allclose(shown.shares[row], (1 - gate) * attention[places], atol=1e-6)
        assert shown.copied[row] == pytest.approx(1 - gate, abs=1e-6)


def test_a_model_without_the_head_and_a_patient_with_one_visit_are_refused() -> None:
    with pytest.raises(InputError, match="no copy head"):
        copied_visit(made(copy_head=False), TOKENIZER, PATIENT)
    one = PatientRecord(8, "M", 3, (Visit(("486",)),))
    with pytest.raises(InputError, match=r"patient 8.*one only"):
        copied_visit(made(), TOKENIZER, one)
