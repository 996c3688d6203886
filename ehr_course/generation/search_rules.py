"""What every search shares: how notes come in, and which tokens may not come next."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from ehr_course.errors import InputError
from ehr_course.generation.beam_settings import BeamSettings
from ehr_course.generation.ngram_blocking import repeating_tokens
from ehr_course.generation.search_model import SearchModel


def forbid(
    scores: Tensor, history: Tensor, length: int, config: Any, settings: BeamSettings
) -> None:
    """Make what is forbidden minus infinity, in place.

    Args:
        scores: float (rows, beams, ids).
        history: int64 (rows, beams, length - 1): what each has written.
        length: of the hypotheses with the next token.
        config: of the model.
        settings: of the search.
    """
    forbidden = [config.bos_token_id, config.pad_token_id]
    if length < settings.min_length:
        forbidden.append(config.eos_token_id)
    if settings.ban_unk:
        forbidden.append(config.unk_token_id)
    for token in forbidden:
        scores[..., token] = -math.inf
    if settings.block_ngrams:
        # Places without a repetition name <s>, which is forbidden in any case.
        repeating = repeating_tokens(history, settings.block_ngrams, nothing=config.bos_token_id)
        scores.scatter_(-1, repeating, -math.inf)


def encode(model: SearchModel, input_ids: Tensor, attention_mask: Tensor | None) -> Any:
    """Let the model read the notes; without a mask, all but padding."""
    if attention_mask is None:
        attention_mask = (input_ids != model.config.pad_token_id).long()
    return model.encode(input_ids, attention_mask)


def check_notes(input_ids: Tensor, attention_mask: Tensor | None) -> None:
    """Raise an InputError unless these are a batch of notes and their mask."""
    if input_ids.ndim != 2:
        raise InputError(
            "input_ids",
            "",
            f"its shape is {tuple(input_ids.shape)}, not (batch, source)",
            "Give a batch of notes: one note is a batch of one.",
        )
    if attention_mask is not None and attention_mask.shape != input_ids.shape:
        raise InputError(
            "attention_mask",
            "",
            f"its shape is {tuple(attention_mask.shape)}, that of input_ids is "
            f"{tuple(input_ids.shape)}",
            "Give 1 for each token of a note and 0 for padding.",
        )


def not_a_number() -> InputError:
    """What is raised where the model says nan."""
    return InputError(
        "the model",
        "log_probs",
        "some are not a number (nan)",
        "Did its training diverge? Look at its loss and its weights.",
    )
