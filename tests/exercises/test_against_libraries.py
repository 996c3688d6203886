"""Worked answers beside a library or a slower way, on the inputs of a check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist, jensenshannon
from sklearn.metrics import roc_curve
from torch import Tensor, nn
from torch.nn import functional
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    get_cosine_schedule_with_warmup,
)
from transformers.models.bart.modeling_bart import shift_tokens_right

from ehr_course.exercises.catalogue import find_exercise
from ehr_course.exercises.compare import first_difference
from ehr_course.exercises.exercise import Exercise
from ehr_course.exercises.worked_answers import worked
from ehr_course.models.prompt_bart import (
    CategoricalPrompt,
    ConditionalPrompt,
    NumericalPrompt,
)


def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def bart_parameters(
    vocab_size: int,
    d_model: int,
    encoder_layers: int,
    decoder_layers: int,
    heads: int,
    ffn_dim: int,
    positions: int,
) -> int:
    config = BartConfig(
        vocab_size=vocab_size,
        d_model=d_model,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=ffn_dim,
        decoder_ffn_dim=ffn_dim,
        max_position_embeddings=positions,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    with torch.device("meta"):
        model = BartForConditionalGeneration(config)
    return sum(parameter.numel() for parameter in model.parameters())


def prompts_of_the_library(
    weights: dict[str, Tensor], cardinalities: Sequence[int], x_num: Tensor, x_cat: Tensor
) -> Tensor:
    d_model, d_hidden = weights["num_project.weight"].shape
    module = ConditionalPrompt(
        NumericalPrompt(1, d_model, d_hidden=d_hidden),
        CategoricalPrompt(cardinalities, d_model, d_hidden=d_hidden),
    )
    names = {
        "numerical.weight": "num_weight",
        "numerical.bias": "num_bias",
        "numerical.project.weight": "num_project.weight",
        "categorical.table.weight": "table.weight",
        "categorical.bias": "cat_bias",
        "categorical.project.weight": "cat_project.weight",
    }
    given = {theirs: weights[ours] for theirs, ours in names.items()}
    module.load_state_dict(module.state_dict() | given)
    with torch.no_grad():
        return module(x_num, x_cat)


def test_the_conditional_prompt_is_the_librarys() -> None:
    exercise = find_exercise("12.6")
    assert isinstance(exercise, Exercise)
    for probe in exercise.probes(0):
        prompts = exercise.worked_answer(*probe)["prompts"]
        torch.testing.assert_close(prompts.detach(), prompts_of_the_library(*probe))


def test_the_tiny_bart_takes_the_librarys_weights_by_name_and_computes_the_same() -> None:
    config = BartConfig(
        vocab_size=20, d_model=8, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=12,
        decoder_ffn_dim=12, encoder_attention_heads=2, decoder_attention_heads=2,
        max_position_embeddings=16, init_std=0.5,
    )  # fmt: skip
    library = BartForConditionalGeneration(config).eval()
    tiny = worked("11.7")(20, 8, 2, 12, 2, 16)
    weights = {name.removeprefix("model."): w for name, w in library.state_dict().items()}
    tiny.load_state_dict({name: weights[name] for name in tiny.state_dict()})
    assert {p.numel() for p in tiny.parameters()} == {p.numel() for p in library.parameters()}
    ids, given = torch.randint(3, 20, (2, 3, 7))
    mask, none = torch.tensor([[1] * 7, [1] * 5 + [0] * 2, [1] * 7]), torch.zeros(3, 0, 8)
    with torch.no_grad():
        expected = library(ids, mask, decoder_input_ids=given).logits
        torch.testing.assert_close(tiny(ids, mask, given, none, none), expected)


def targets(clean: Tensor, corrupted: Tensor, scored: Tensor) -> tuple[Tensor, Tensor]:
    labels = torch.where(scored & (clean != 0), clean, -100)
    return labels, shift_tokens_right(clean, 0, 2)


def cosine_rate(step: int, peak: float, warmup_steps: int, total_steps: int) -> float:
    """The schedule of transformers begins with 0, so its step s + 1 is our step s of the warm-up.

    After the end it would rise again.
    """
    if step >= total_steps:
        return 0.0
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=peak)
    schedule = get_cosine_schedule_with_warmup(optimizer, warmup_steps, total_steps)
    (factor,) = schedule.lr_lambdas
    return peak * factor(step + 1 if step < warmup_steps else step)


def scaled(gradients: Tensor, scale: float, interval: int) -> tuple[Tensor, list[float]]:
    """PyTorch's GradScaler, with an optimizer that shows what it is given."""
    weights = nn.Parameter(torch.zeros(gradients.shape[1]))
    optimizer = torch.optim.SGD([weights], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=interval)
    applied, scales = torch.zeros_like(gradients), []
    for step, gradient in enumerate(gradients):
        weights.grad = scaler.scale(gradient).half().float()
        scaler.step(optimizer)
        scaler.update()
        applied[step] = 0 - weights.detach()
        scales.append(scaler.get_scale())
        weights.data.zero_()
    return applied, scales


def clipped(gradients: Sequence[Tensor], scale: float, max_norm: float) -> list[Tensor] | None:
    weights = [nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients]
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = gradient.clone()
    optimizer = torch.optim.SGD(weights, lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    scaler.scale(torch.ones(()))  # it makes its scale when it is first needed
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(weights, max_norm)
    return [weight.grad for weight in weights] if norm.isfinite() else None


def next_pieces(written: str, codes: Sequence[str], pieces: Sequence[str]) -> set[str]:
    """Write on in every way that a code of the list begins with, and see what arrives at one."""

    def arrives(text: str) -> bool:
        if not any(code.startswith(text) for code in codes):
            return False
        return text in codes or any(arrives(text + piece) for piece in pieces)

    return {piece for piece in pieces if arrives(written + piece)} | (
        {""} if written in codes else set()
    )


def may_come_next(
    written: Sequence[str], codes: Sequence[str], needed: Sequence[str], most: int
) -> set[str]:
    """Whether a record can be finished is found by trying to finish it."""

    @cache
    def can_end(visit: frozenset[str] | None, visits: bool, missing: frozenset, room: int) -> bool:
        if room <= 0:
            return False
        if visit is None:
            ends = visits and not missing
            return ends or can_end(frozenset(), visits, missing, room - 1)
        if visit and can_end(None, True, missing, room - 1):
            return True
        return any(
            can_end(visit | {code}, visits, missing - {code}, room - 1)
            for code in codes
            if code not in visit
        )

    visit: frozenset[str] | None = None
    visits, missing = False, frozenset(needed)
    for token in written[1:]:
        if token == "<v>":
            visit = frozenset()
        elif token == "<\\v>":
            visit, visits = None, True
        else:
            assert visit is not None  # what was written so far is well formed
            visit, missing = visit | {token}, missing - {token}
    room = most - len(written) - 1  # after the next token
    found = set()
    if visit is None:
        if visits and not missing and room >= 0:
            found.add("<EOS>")
        if can_end(frozenset(), visits, missing, room):
            found.add("<v>")
        return found
    if visit and can_end(None, True, missing, room):
        found.add("<\\v>")
    for code in codes:
        if code not in visit and can_end(visit | {code}, visits, missing - {code}, room):
            found.add(code)
    return found


def distance(real: np.ndarray, synthetic: np.ndarray) -> float:
    return float(jensenshannon(real.astype(float), synthetic.astype(float), base=2))


def found_at(members: np.ndarray, others: np.ndarray, at_most: float) -> float:
    """The highest point of scikit-learn's ROC curve, with all its points, that is allowed."""
    labels = np.arange(len(members) + len(others)) < len(members)
    scores = np.concatenate([members, others])
    accused, found, _ = roc_curve(labels, scores, drop_intermediate=False)
    return float(found[accused <= at_most].max())


def compared(candidates: np.ndarray, released: np.ndarray, reference: np.ndarray) -> np.ndarray:
    cohorts = [cdist(candidates > 0, cohort > 0, "jaccard") for cohort in (reference, released)]
    return np.subtract(*(distances.min(axis=1) for distances in cohorts))


LIBRARY: dict[str, Callable[..., Any]] = {
    "07.6": next_pieces,
    "09.5": targets,
    "11.1": attention,
    "11.9": bart_parameters,
    "15.1": cosine_rate,
    "15.3": scaled,
    "15.4": clipped,
    "19.2": distance,
    "19.7": may_come_next,
    "19.8": found_at,
    "19.9": compared,
}


@pytest.mark.parametrize("exercise_id", LIBRARY)
def test_the_worked_answer_does_what_a_library_or_a_slower_way_does(exercise_id: str) -> None:
    exercise = find_exercise(exercise_id)
    assert isinstance(exercise, Exercise)
    for probe in exercise.probes(0):
        expected, worked = LIBRARY[exercise_id](*probe), exercise.worked_answer(*probe)
        assert first_difference(expected, worked, exercise.tolerance) is None, probe
