"""Write summaries token by token: always the likeliest, or drawn."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ehr_course.errors import InputError
from ehr_course.generation.beam_settings import BeamSettings
from ehr_course.generation.sampling import Sampling, draw
from ehr_course.generation.search_model import SearchModel, evaluating, of_notes, spread
from ehr_course.generation.search_record import Ending, StepRecord
from ehr_course.generation.search_results import BeamResult
from ehr_course.generation.search_rules import check_notes, encode, forbid, not_a_number

DEFAULT_SETTINGS = BeamSettings()
DEFAULT_SAMPLING = Sampling()


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

    def likeliest(log_probs: Tensor, notes: Tensor, step: int) -> Tensor:
        return log_probs.argmax(-1)

    return _write(model, input_ids, attention_mask, settings, 1, likeliest)


def sample_search(
    model: SearchModel,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    *,
    generator: torch.Generator,
    samples: int = 1,
    sampling: Sampling = DEFAULT_SAMPLING,
    settings: BeamSettings = DEFAULT_SETTINGS,
) -> list[BeamResult]:
    """Draw summaries for each note, token by token.

    Args:
        model, input_ids, attention_mask: as for beam_search.
        generator: where the random numbers come from. It is used once, for all of them.
        samples: how many summaries of each note.
        sampling: temperature, top-k and top-p.
        settings: of these, beams and stop mean nothing here.

    Returns:
        A result for each note, with its samples as they were drawn. Their log-probabilities are
        those of the model: neither the sampling nor what is forbidden changes them.

    Raises:
        InputError: as beam_search does, or if samples is less than 1.
    """
    if samples < 1:
        raise InputError("sample_search", "samples", f"{samples} is too few", "Use 1 or more.")
    shape = len(input_ids), samples, settings.max_length
    uniform = torch.rand(shape, generator=generator, dtype=torch.float64, device=generator.device)
    uniform = uniform.to(input_ids.device)

    def drawn(log_probs: Tensor, notes: Tensor, step: int) -> Tensor:
        probabilities = sampling.probabilities(log_probs.flatten(0, 1))
        tokens = draw(probabilities, uniform[notes, :, step].flatten())
        return tokens.unflatten(0, log_probs.shape[:2])

    return _write(model, input_ids, attention_mask, settings, samples, drawn)


def _write(
    model: SearchModel,
    input_ids: Tensor,
    attention_mask: Tensor | None,
    settings: BeamSettings,
    lanes: int,
    choose: Callable[[Tensor, Tensor, int], Tensor],
) -> list[BeamResult]:
    """Write summaries that never meet: each of the lanes chooses for itself.

    ``choose`` gets the log-probabilities (rows, lanes, ids) of what is allowed, the notes (rows,)
    and the number of the step from 0, and gives tokens (rows, lanes).
    """
    check_notes(input_ids, attention_mask)
    eos, record = model.config.eos_token_id, StepRecord()
    with evaluating(model):
        source = encode(model, input_ids, attention_mask)
        device, batch = input_ids.device, len(input_ids)
        state = spread(model.first_state(source), lanes)
        notes = torch.arange(batch, device=device)
        last = torch.full((batch, lanes), model.config.bos_token_id, device=device)
        # Of all notes, done or not:
        written = torch.full((batch, lanes, settings.max_length), eos, device=device)
        length = torch.zeros_like(last)
        total = torch.zeros(batch, lanes, device=device)
        going = torch.ones_like(last, dtype=torch.bool)
        for step in range(settings.max_length):
            if not len(notes):
                break
            said = model.step(last, state, source)
            record.add(notes.tolist(), said)
            allowed = said.log_probs.clone()
            forbid(allowed, written[notes, :, :step], step + 1, model.config, settings)
            possible = allowed.max(dim=-1).values > -math.inf
            if bool(allowed.isnan().any()):
                raise not_a_number()
            writes = going[notes] & possible
            last = choose(allowed.masked_fill(~possible[..., None], 0.0), notes, step)
            last = last.where(writes, eos)
            said_of_it = said.log_probs.gather(-1, last[..., None])[..., 0]
            said_of_it = said_of_it.to(torch.promote_types(said_of_it.dtype, torch.float32))
            total = total.to(said_of_it.dtype).index_add(0, notes, said_of_it.where(writes, 0.0))
            written[notes, :, step] = last
            length[notes] += writes
            going[notes] = last != eos  # one that can go no further wrote it just now
            rows = going[notes].any(dim=1).nonzero()[:, 0]
            state, source, notes, last = of_notes((said.state, source, notes, last), rows)
    endings = [
        Ending(
            note,
            tokens[:n],
            [lane] * n,
            log_prob,
            log_prob / settings.penalty(n),
            n > 0 and tokens[n - 1] == eos,
        )
        for note in range(batch)
        for lane, (tokens, n, log_prob) in enumerate(
            zip(written[note].tolist(), length[note].tolist(), total[note].tolist(), strict=True)
        )
    ]
    found = record.hypotheses(endings)
    return [BeamResult(tuple(found[i * lanes : (i + 1) * lanes])) for i in range(batch)]
