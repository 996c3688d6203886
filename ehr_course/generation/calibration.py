r"""Put right, after training, how often a model ends visits and how often it writes each code.

Numbers added to the logits are fitted, first those of codes, so that written patients have each as
often as those learned from, then those of <\v> and <EOS>, so that as many are predicted as come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.sampler import LengthBatchSampler
from ehr_course.errors import InputError
from ehr_course.generation.patients import Sampling, generate_patients, sample_profiles
from ehr_course.losses import NOT_SCORED
from ehr_course.models.prefix_tuning import PrefixTuned
from ehr_course.models.prompt_bart import RECORD_VISITS, VISIT_CODES, PromptBart, progress
from ehr_course.records import PatientRecord
from ehr_course.tokenizers.codes import CodeTokenizer

ROUNDS = 4
MOST_PATIENTS = 8_000
"""So many are written in a round, and read at most; chance is small then."""

PRIOR_CODES, PRIOR_ENDS = 20, 5
"""What the model already does counts as much as this many observations."""


CALIBRATED = Sampling(top_p=0.95)
"""How patients are drawn from a model that is calibrated for it.

The tail of the probabilities is where a model writes impossible codes, and codes after which those
of the patient's past no longer fit. Calibration brings back the rare codes that a cut costs."""


def calibrated_for(model: PromptBart | PrefixTuned) -> Sampling:
    """How patients are best drawn from a model, by whether it is calibrated."""
    base = model.base if isinstance(model, PrefixTuned) else model
    calibrated = isinstance(base, PromptBart) and base.end_bias is not None
    return CALIBRATED if calibrated else Sampling()


class Ends(NamedTuple):
    r"""Where a visit or a record could have ended, and where it did.

    Attributes:
        visit: float64 (3, 2, VISIT_CODES + 1): the places, the real ends and the sum of the
            predicted probabilities of <\v>, by first or later visit and its codes so far.
        record: float64 (3, RECORD_VISITS + 1): the same of <EOS>, by the visits so far.
    """

    visit: Tensor
    record: Tensor

    def ratios(self) -> dict[str, float]:
        """Predicted over real ends; 1 where they are right."""
        parts = {
            "first visits": self.visit[:, 0].sum(-1),
            "later visits": self.visit[:, 1].sum(-1),
            "records": self.record.sum(-1),
        }
        return {name: float(predicted / real) for name, (_, real, predicted) in parts.items()}


@torch.no_grad()
def count_ends(model: PromptBart, dataset: RecordDataset) -> Ends:
    """Read records from left to right, and count their real ends and the predicted ones.

    Args:
        model: in evaluation mode; it is told age and sex, and nothing of the record.
        dataset: the records; its corruption is not used.
    """
    dataset = RecordDataset(
        dataset.records[:MOST_PATIENTS],
        dataset.tokenizer,
        corruption=Corruption(p_empty=1.0),
        max_tokens=model.max_tokens,
        too_long="cut",
    )
    tokenizer = dataset.tokenizer
    end_ids = [tokenizer.visit_end_id, tokenizer.eos_id]
    visit = torch.zeros(3, 2, VISIT_CODES + 1, dtype=torch.float64)
    record = torch.zeros(3, RECORD_VISITS + 1, dtype=torch.float64)
    for key in LengthBatchSampler(dataset.lengths, 64, shuffle=False, group_by_length=True):
        clean = cast("dict[str, Tensor]", dataset[key])
        batch = {name: tensor.to(model.device) for name, tensor in clean.items()}
        labels, ids = batch.pop("labels"), batch["decoder_input_ids"]
        visits, codes = progress(ids, model.config)
        predicted = _as_written(model(**batch).logits, ids, visits, tokenizer)[..., end_ids]
        in_visit, between = ids >= tokenizer.first_code_id, ids == tokenizer.visit_end_id
        cells = (
            ((visits > 1).long(), codes.clamp(max=VISIT_CODES)),
            (visits.clamp(max=RECORD_VISITS),),
        )
        for number, (total, place) in enumerate(((visit, in_visit), (record, between))):
            place = place & (labels != NOT_SCORED)
            real = labels[place] == end_ids[number]
            values = torch.stack([torch.ones_like(real), real, predicted[place][:, number]])
            cell = tuple(index[place].cpu() for index in cells[number])
            for row, value in zip(total, values.double().cpu(), strict=True):
                row.index_put_(cell, value, accumulate=True)
    return Ends(visit, record)


def _as_written(logits: Tensor, ids: Tensor, visits: Tensor, tokenizer: CodeTokenizer) -> Tensor:
    """The probabilities of the tokens that can follow, as they are drawn in writing."""
    first_code = tokenizer.first_code_id
    is_code, length = ids >= first_code, ids.shape[1]
    same_visit = (visits[:, :, None] == visits[:, None]) & is_code[:, None]
    of_visit = same_visit.tril()  # (batch, target, past): the codes that the visit has by then
    used = torch.zeros_like(logits).scatter_add_(
        2, ids[:, None].expand(-1, length, -1), of_visit.to(logits.dtype)
    )
    closed = used > 0
    between = ids == tokenizer.visit_end_id
    closed[..., :first_code] = True
    closed[..., first_code:] |= between[..., None]
    closed[..., tokenizer.visit_end_id] = ~is_code
    for token in (tokenizer.visit_start_id, tokenizer.eos_id):
        closed[..., token] = ~between
    return logits.masked_fill(closed, -torch.inf).softmax(-1)


def calibrate(model: PromptBart, dataset: RecordDataset, *, seed: int = 0) -> None:
    """Fit the numbers that are added to the logits of codes and of ends.

    Args:
        model: a trained one with an end bias; it is put into evaluation mode.
        dataset: the patients that it has learned from.
    """
    if model.end_bias is None:
        raise InputError(
            "calibrate",
            "model",
            "it has no end bias, which is what is fitted",
            "Make it with PromptBartConfig(..., end_bias=True).",
        )
    model.eval()
    tokenizer, records = dataset.tokenizer, dataset.records
    real = _frequencies(records, tokenizer)
    n = min(2 * len(records), MOST_PATIENTS)
    for number in range(ROUNDS):  # in ever smaller steps, so that chance evens out
        written = generate_patients(
            model,
            tokenizer,
            sample_profiles(records, n, seed=seed + number),
            seed=seed + number,
            sampling=CALIBRATED,
        )
        aim, so_far = n * real / len(records), _frequencies(written, tokenizer)
        change = ((aim + PRIOR_CODES) / (so_far + PRIOR_CODES)).log() / (1 + number)
        bias: Tensor = model.final_logits_bias
        bias[0, tokenizer.first_code_id :] += change.to(bias)
    aims: list[Tensor] = []
    for _ in range(ROUNDS):  # each cell depends on its own number alone, and nearly linearly
        biases = model.end_bias.visit, model.end_bias.record
        found = zip(biases, count_ends(model, dataset), strict=True)
        for number, (bias, (places, ends, predicted)) in enumerate(found):
            rates = (predicted / places.clamp(min=1)).clamp(1e-6, 1 - 1e-6)
            if number == len(aims):
                aims.append((ends + PRIOR_ENDS * rates) / (places + PRIOR_ENDS))
            bias.add_((aims[number].logit() - rates.logit()).to(bias))


def _frequencies(records: Sequence[PatientRecord], tokenizer: CodeTokenizer) -> Tensor:
    """How often each code of the vocabulary stands in the records, float64 (codes,)."""
    counts = Counter(code for record in records for code in record.codes)
    return torch.tensor([counts[code] for code in tokenizer.codes], dtype=torch.float64)
