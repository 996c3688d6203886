"""The exercises of lesson 11: model architecture."""

from __future__ import annotations

import random
from functools import cache

import torch
from torch import Tensor, tensor
from torch.nn import functional
from transformers import BartConfig, BartForConditionalGeneration
from transformers.models.bart.modeling_bart import (
    BartLearnedPositionalEmbedding,
    shift_tokens_right,
)

from ehr_course.exercises.exercise import Arguments, Exercise
from ehr_course.exercises.lessons.small_tensors import numbers


def _right_padded(rng: random.Random, length: int) -> Tensor:
    real = rng.randint(1, length)
    return tensor([1] * real + [0] * (length - real))


# 11.1 Scaled dot-product attention


_QUERY = tensor([[1.0, 0.5], [-0.5, 2.0]])
_KEY = tensor([[2.0, 0.0], [0.0, 1.0], [-1.0, 1.5]])
_VALUE = tensor([[1.0, 3.0], [0.0, -2.0], [5.0, 0.5]])
_FAR = tensor([[12.0, 0.0], [11.9, 0.5]])
_FAR_KEY = tensor([[-14.0, 1.0], [-14.1, 0.0], [20.0, 1.0]])
_NOT_THE_LAST = tensor([[True, True, False]] * 2)
_STATES = tensor([[0.4, -1.2], [1.5, 0.3], [-0.7, 0.9]])


def _fresh_attention(rng: random.Random) -> Arguments:
    target, source, width = rng.randint(2, 3), rng.randint(2, 4), rng.randint(2, 4)
    mask = None
    if rng.random() < 0.7:
        rows = [[rng.random() < 0.5 for _ in range(source)] for _ in range(target)]
        for row in rows:
            row[rng.randrange(source)] = True
        mask = tensor(rows)
    return (
        numbers(rng, target, width),
        numbers(rng, source, width),
        numbers(rng, source, rng.choice((width, 1, 3))),
        mask,
    )


ATTENTION = Exercise(
    id="11.1",
    reference=lambda query, key, value, mask: functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask
    ),
    chosen=(
        (_QUERY, _KEY, _VALUE, None),
        (_QUERY, _KEY, _VALUE, tensor([[True, True, False], [True, True, False]])),
        (_STATES, _KEY, _VALUE, torch.ones(3, 3, dtype=torch.bool).tril()),
        (_QUERY, _KEY, tensor([[1.0], [2.0], [4.0]]), tensor([[True, False, True]] * 2)),
        (
            tensor([[1.0, -1.0, 0.5, 2.0], [0.5, 0.5, -1.0, 1.0]]),
            tensor([[0.5, 1.0, 1.0, 1.0], [2.0, -0.5, 0.0, 0.5]]),
            tensor([[1.0, 0.0, 2.0, 0.0], [0.0, 1.0, 3.0, -1.0]]),
            None,
        ),
        # A visible score of 0 is a score like any other.
        (
            tensor([[1.0, 0.0], [0.0, 1.0]]),
            tensor([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]]),
            _VALUE,
            tensor([[True, True, False], [True, True, True]]),
        ),
        # Scores near -120, and a hidden key that scores 170: it must score less than any number
        # that a visible one has, and what a softmax over all keys leaves to the others is 0.
        (_FAR, _FAR_KEY, tensor([[1.0, 0.0], [0.0, 1.0], [2.0, -1.0]]), _NOT_THE_LAST),
        # The scores of one query lie near 120, those of the other near -120.
        (_FAR * tensor([[1.0], [-1.0]]), _FAR_KEY[:2], _VALUE[:2], None),
    ),
    extreme=((_FAR * 1e4, _FAR_KEY * 1e4, _VALUE, _NOT_THE_LAST),),
    fresh=_fresh_attention,
    tolerance=1e-5,
)


# 11.2 Causal mask with prompts


def _may_read(n_prompts: int, attention_mask: Tensor) -> Tensor:
    """The slow and obvious loop: one decision for each pair of positions."""
    real = [True] * n_prompts + [bool(one) for one in attention_mask]
    return tensor(
        [[key <= query and real[key] for key in range(len(real))] for query in range(len(real))]
    )


def _fresh_mask(rng: random.Random) -> Arguments:
    return rng.randint(1, 3), _right_padded(rng, rng.randint(2, 5))


DECODER_MASK = Exercise(
    id="11.2",
    reference=_may_read,
    chosen=(
        (2, tensor([1, 1, 0])),
        (1, tensor([1, 1])),
        (0, tensor([1, 1, 1])),
        (3, tensor([1, 1])),
        (2, tensor([1, 0, 0, 0])),
    ),
    fresh=_fresh_mask,
)


# 11.3 Shift right


def _fresh_labels(rng: random.Random) -> Arguments:
    records = [
        [1, 3, *rng.sample(range(7, 30), rng.randint(1, 3)), 4, 2]
        for _ in range(rng.randint(1, 3))
    ]
    longest = max(map(len, records)) + rng.randint(0, 1)
    return (tensor([ids + [-100] * (longest - len(ids)) for ids in records]),)


SHIFT_RIGHT = Exercise(
    id="11.3",
    reference=lambda labels: shift_tokens_right(labels, 0, 2),
    chosen=(
        (tensor([[1, 3, 7, 8, 4, 2]]),),
        (tensor([[1, 3, 9, 4, 2, -100, -100]]),),
        (tensor([[1, 3, 7, 8, 4, 2], [1, 3, 9, 4, 2, -100]]),),
        (tensor([[1, 3, 7, 4, 3, 8, 9, 4, 2, -100], [1, 2] + [-100] * 8]),),
        # A record that was cut ends in a code.
        (tensor([[1, 3, 7, 8], [1, 3, 9, -100]]),),
    ),
    fresh=_fresh_labels,
)


# 11.4 Count the parameters of BART


@cache
def _counted(*size: int) -> int:
    """Build the model without its numbers, on the meta device, and count its parameters."""
    vocab_size, d_model, encoder_layers, decoder_layers, heads, ffn_dim, positions = size
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


def _fresh_size(rng: random.Random) -> Arguments:
    heads = rng.choice((2, 3, 4))
    return (
        rng.randint(20, 60),
        heads * rng.randint(2, 5),
        rng.randint(1, 3),
        rng.randint(1, 3),
        heads,
        rng.randint(6, 40),
        rng.randint(8, 40),
    )


COUNT = Exercise(
    id="11.4",
    reference=_counted,
    chosen=(
        (20, 4, 1, 1, 2, 6, 8),
        (31, 6, 2, 1, 3, 13, 10),
        (40, 8, 1, 3, 2, 24, 16),
        (6992, 768, 6, 6, 12, 3072, 512),
        (5569, 768, 6, 6, 12, 3072, 1024),
    ),
    fresh=_fresh_size,
)


# 11.5 Cross-attention


def _cross(
    decoder_states: Tensor,
    encoder_states: Tensor,
    w_query: Tensor,
    w_key: Tensor,
    w_value: Tensor,
    encoder_mask: Tensor,
) -> Tensor:
    """PyTorch's own multi-head attention, with one head and an output projection that is 1."""
    width = decoder_states.shape[1]
    read, _ = functional.multi_head_attention_forward(
        decoder_states,
        encoder_states,
        encoder_states,
        width,
        1,
        torch.cat([w_query.T, w_key.T, w_value.T]),
        torch.zeros(3 * width),
        None,
        None,
        False,
        0.0,
        torch.eye(width),
        torch.zeros(width),
        key_padding_mask=encoder_mask == 0,
    )
    return read


def _fresh_cross(rng: random.Random) -> Arguments:
    target, source, width = rng.randint(1, 3), rng.randint(2, 4), rng.randint(2, 3)
    return (
        numbers(rng, target, width),
        numbers(rng, source, width),
        *(numbers(rng, width, width) for _ in range(3)),
        _right_padded(rng, source),
    )


_W = (
    tensor([[1.0, 0.5], [0.0, -1.0]]),
    tensor([[0.5, 1.0], [-0.5, 1.5]]),
    tensor([[2.0, 0.0], [1.0, -1.0]]),
)

_EYES = (torch.eye(2), torch.eye(2), _W[2])

CROSS_ATTENTION = Exercise(
    id="11.5",
    reference=_cross,
    chosen=(
        (_QUERY, _KEY, *_W, tensor([1, 1, 1])),
        (_QUERY, _KEY, *_W, tensor([1, 1, 0])),
        (_STATES, _KEY, *_W, tensor([1, 1, 1])),
        (_STATES, _KEY, *_W, tensor([1, 1, 0])),
        (_KEY[:2], _STATES[:2], *_W, tensor([1, 0])),
        # Large scores, as in 11.1.
        (_FAR, _FAR_KEY, *_EYES, tensor([1, 1, 0])),
        (_FAR * tensor([[1.0], [-1.0]]), _FAR_KEY[:2], *_EYES, tensor([1, 1])),
    ),
    extreme=((_FAR * 1e4, _FAR_KEY * 1e4, *_EYES, tensor([1, 1, 0])),),
    fresh=_fresh_cross,
    tolerance=1e-5,
)


# 11.6 Embed tokens and positions


def _embedded(
    token_ids: Tensor, prompts: Tensor, token_table: Tensor, position_table: Tensor
) -> Tensor:
    """BART's own modules, with the tables as their weights."""
    rows, width = position_table.shape
    with torch.device("meta"):
        table = BartLearnedPositionalEmbedding(rows - 2, width)
    table.weight = torch.nn.Parameter(position_table, requires_grad=False)
    tokens = functional.embedding(token_ids, token_table)
    joined = torch.cat([prompts, tokens])[None]  # (1, n_prompts + length, d_model)
    return (joined + table(joined[:, :, -1])).squeeze(0)


_TOKENS = tensor(
    [[0.1, -0.1], [1.0, 1.5], [-1.0, 2.0], [0.5, 0.5], [2.0, -0.5], [0.7, 0.3], [1.2, -2.0]]
)
_POSITIONS = tensor(
    [[10.0, 20.0], [30.0, 50.0], [70.0, 110.0], [130.0, 170.0], [190.0, 230.0], [290.0, 310.0]]
)
_PROMPTS = tensor([[0.25, 0.75], [-0.25, 0.35]])


def _fresh_embedding(rng: random.Random) -> Arguments:
    width, real = rng.randint(2, 3), rng.randint(1, 3)
    ids = [rng.randint(1, 6) for _ in range(real)] + [0] * rng.randint(0, 2)
    n_prompts = rng.randint(1, 2)
    return (
        tensor(ids),
        numbers(rng, n_prompts, width),
        numbers(rng, 7, width),
        numbers(rng, n_prompts + len(ids) + 2, width),
    )


EMBED = Exercise(
    id="11.6",
    reference=_embedded,
    chosen=(
        (tensor([3, 2]), _PROMPTS, _TOKENS, _POSITIONS),
        (tensor([5, 0]), _PROMPTS, _TOKENS, _POSITIONS),
        (tensor([5, 2, 0]), _PROMPTS[1:], _TOKENS, _POSITIONS),
        (tensor([1, 6, 2]), _PROMPTS[:0], _TOKENS, _POSITIONS),
        (tensor([4]), _PROMPTS[:1], _TOKENS, _POSITIONS),
    ),
    fresh=_fresh_embedding,
    tolerance=1e-5,
)

EXERCISES = (ATTENTION, DECODER_MASK, SHIFT_RIGHT, COUNT, CROSS_ATTENTION, EMBED)
