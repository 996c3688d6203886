"""Lesson 18: the picture of the attention that a prefix gets."""

from __future__ import annotations

import numpy as np
from registry import drawing

from ehr_course.widgets.prefix_attention import MOST_TOKENS, PrefixAttention, draw_prefix_attention

SHARES = np.array([[[0.1, 0.2, 0.3], [0.8, 0.7, 0.6]], [[0.0, 0.5, 0.9], [1.0, 0.4, 0.25]]])
PAID = PrefixAttention(64, "M", ("<BOS>", "<v>", "428.0"), SHARES, n_prefix=4, n_prompts=2)


@drawing(
    "Man, 64. After <v>, layer 0, head 1 pays 70% of its attention to the prefix",
    "layer 0, head 0 pays 20%, the least; 50% would be equal shares",
    "Over all tokens and heads: layer 0 45%, layer 1 51%.",
)
def attention_to_a_prefix():
    return draw_prefix_attention(PAID, 1)


@drawing("After 428.0, layer 1, head 0 pays 90%")
def attention_at_the_last_token():
    return draw_prefix_attention(PAID, 2)


@drawing("After V45.01")
def a_large_model_and_a_long_record():
    shares = np.random.default_rng(0).random((6, 12, MOST_TOKENS))
    paid = PrefixAttention(90, "F", ("V45.01",) * MOST_TOKENS, shares, n_prefix=20)
    return draw_prefix_attention(paid, MOST_TOKENS - 1)
