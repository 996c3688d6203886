"""The likelihood of the scored words alone: a vocabulary's probabilities are never held together.

The logits of all steps are the largest tensor of a pointer-generator, (steps, vocabulary). Only
one of each row counts, beside the sum of all. So they are made a few rows at a time, and as their
gradient is known as soon as they are, it is formed at once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ehr_course.errors import InputError
from ehr_course.losses import log_mixture

ROWS = 256
"""How many steps are computed together: enough for a matrix product to be quick."""


def scored_likelihood(
    features: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    log_copied: Tensor | None = None,
    p_gen_logit: Tensor | None = None,
) -> Tensor:
    """The sum of -log(p_gen P_vocab + (1 - p_gen) P_copy) over words, in nats.

    The same as ``log_softmax`` of all logits, ``gather`` and ``log_mixture``.

    Args:
        features: float (n, width): what the vocabulary is computed from.
        weight, bias: float (vocabulary, width) and (vocabulary,): of its linear map.
        targets: int64 (n,): the words; those beyond the vocabulary can only be copied.
        log_copied: float (n,): log P_copy of each word, or None where nothing is copied.
        p_gen_logit: float (n,): the logit of p_gen, or None.

    Returns:
        A scalar, float32 at least. Its gradient can be asked for once.

    >>> features, weight, bias = torch.zeros(3, 2), torch.zeros(8, 2), torch.zeros(8)
    >>> total = scored_likelihood(features, weight, bias, torch.tensor([0, 5, 7]))
    >>> round(float(total / 3), 4)  # log 8: eight words, all as likely
    2.0794
    """
    kind = features.device.type
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
    learns = torch.is_grad_enabled()
    with torch.autocast(kind, enabled=False):
        return _ScoredLikelihood.apply(
            learns, dtype, features, weight, bias, targets, log_copied, p_gen_logit
        )


def refuse_second_derivative(thing: str, remedy: str) -> None:
    """Raise an InputError in a backward pass that is itself to be differentiated.

    ``once_differentiable`` raises only where the gradient that arrives has one, and is silently
    wrong elsewhere.
    """
    if torch.is_grad_enabled():
        problem = "create_graph=True asks for its second derivative, which it does not have"
        raise InputError(thing, "backward", problem, remedy)


class _ScoredLikelihood(torch.autograd.Function):
    """The total, and kept beside it every gradient, for an upstream gradient of 1."""

    @staticmethod
    def forward(
        ctx: Any,
        learns: bool,
        dtype: torch.dtype,
        features: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        log_copied: Tensor | None,
        p_gen_logit: Tensor | None,
    ) -> Tensor:
        x, w, b = features.to(dtype), weight.to(dtype), bias.to(dtype)
        exact = torch.promote_types(dtype, torch.float32)
        n, size = len(targets), len(weight)
        inside = targets < size
        known = targets.where(inside, 0)
        log_probs = torch.empty(n, dtype=exact, device=x.device)
        generated = torch.ones_like(log_probs)  # the share of P(word) that is P_vocab's
        buffer = x.new_empty(min(n, ROWS), size)
        if learns:
            d_features = torch.empty_like(features)
            d_weight, d_bias = torch.zeros_like(weight), torch.zeros_like(bias)
        for begin in range(0, n, ROWS):
            rows = slice(begin, min(begin + ROWS, n))
            words = known[rows, None]
            logits = torch.addmm(b, x[rows], w.t(), out=buffer[: len(words)]).to(exact)
            largest = logits.amax(dim=1, keepdim=True)
            above = logits.gather(1, words) - largest
            powers = logits.sub_(largest).exp_()  # in place: the logits are gone
            norm = powers.sum(dim=1, keepdim=True)
            log_generated = (above - norm.log()).squeeze(1)
            if p_gen_logit is None or log_copied is None:
                log_probs[rows] = log_generated
            else:
                log_generated.masked_fill_(~inside[rows], -torch.inf)
                gate = p_gen_logit[rows]
                log_probs[rows] = log_mixture(log_generated, log_copied[rows], gate)
                generated[rows] = (logsigmoid(gate) + log_generated - log_probs[rows]).exp()
            if learns:
                share = generated[rows, None]
                # The gradient of the logits: share * (softmax - 1 at the word).
                d_logits = powers.mul_(share / norm).scatter_add_(1, words, -share)
                d_bias += d_logits.sum(dim=0)
                d_logits = d_logits.to(dtype)
                d_features[rows] = d_logits @ w
                if dtype == weight.dtype:
                    d_weight.addmm_(d_logits.t(), x[rows], beta=1 if begin else 0)
                else:  # half precision adds up in the weight's own
                    d_weight += d_logits.t() @ x[rows]
        if learns:
            d_gate = None if p_gen_logit is None else p_gen_logit.sigmoid() - generated
            copied = None if log_copied is None else generated - 1
            ctx.gradients = d_features, d_weight, d_bias, None, copied, d_gate
        return -log_probs.sum()

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivative("scored_likelihood", "Use log_softmax and log_mixture.")
        if ctx.gradients is None:
            raise InputError(
                "scored_likelihood",
                "backward",
                "its gradient was asked for before",
                "Compute the loss again: the gradient is scaled in place, to spare memory.",
            )
        gradients, ctx.gradients = ctx.gradients, None
        for gradient in gradients:
            if gradient is not None:
                gradient.mul_(upstream)
        return None, None, *gradients
