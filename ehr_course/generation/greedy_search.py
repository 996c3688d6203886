"""Greedy search: a summary is written token by token, always with the likeliest one."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ehr_course.generation.search_model import (
    SearchModel,
    check_notes,
    encode,
    evaluating,
    not_a_number,
    of_notes,
)
from ehr_course.generation.search_results import BeamResult, Ending, StepRecord
from ehr_course.generation.search_settings import BeamSettings, forbid

DEFAULT_SETTINGS = BeamSettings()


def greedy_search(
    model: SearchModel,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    *,
    settings: BeamSettings = DEFAULT_SETTINGS,
) -> list[BeamResult]:
    """Write one summary for each note, always with the likeliest token; the lower id if equal.

    Args:
        model, input_ids, attention_mask: as for beam_search.
        settings: of these, beams and stop mean nothing here.

    Returns:
        A result for each note, with one hypothesis.

    Raises:
        InputError: as beam_search does.
    """
    check_notes(input_ids, attention_mask)
    eos, record = model.config.eos_token_id, StepRecord()
    with evaluating(model):
        source = encode(model, input_ids, attention_mask)
        device, batch = input_ids.device, len(input_ids)
        state = model.first_state(source)
        notes = torch.arange(batch, device=device)
        last = torch.full((batch, 1), model.config.bos_token_id, device=device)
        # Of all notes, done or not:
        written = torch.full((batch, settings.max_length), eos, device=device)
        length = torch.zeros(batch, dtype=torch.long, device=device)
        total = torch.zeros(batch, device=device)
        for step in range(settings.max_length):
            if not len(notes):
                break
            said = model.step(last, state, source)
            record.add(notes.tolist(), said)
            allowed = said.log_probs.clone()
            history = written[notes, None, :step]
            forbid(allowed, history, step + 1, model.config, settings)
            if bool(allowed.isnan().any()):
                raise not_a_number()
            best, last = allowed.max(dim=-1)  # of equal ones the first; (rows, 1) both
            best = best.to(torch.promote_types(best.dtype, torch.float32))
            writes = (best > -math.inf)[:, 0]  # where every token is forbidden, it ends
            last = last.where(writes[:, None], eos)
            total = total.to(best.dtype).index_add(0, notes, best[:, 0].where(writes, 0.0))
            written[notes, step] = last[:, 0]
            length[notes] += writes
            rows = (last[:, 0] != eos).nonzero()[:, 0]
            state, source, notes, last = of_notes((said.state, source, notes, last), rows)
    endings = [
        Ending(
            note,
            tokens[:n],
            [0] * n,
            log_prob,
            log_prob / settings.penalty(n),
            n > 0 and tokens[n - 1] == eos,
        )
        for note, (tokens, n, log_prob) in enumerate(
            zip(written.tolist(), length.tolist(), total.tolist(), strict=True)
        )
    ]
    return [BeamResult((found,)) for found in record.hypotheses(endings)]
