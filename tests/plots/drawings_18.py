"""Lesson 18: longer keys, and the attention that a prefix gets."""

from __future__ import annotations

import numpy as np
import torch
from registry import drawing

from ehr_course.plots.lesson_18 import draw_longer_keys
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


# ---------------------------------------------------------------------- longer keys


def longer_keys(names):
    torch.manual_seed(0)
    n, rows = 2 + len(names), len(names)
    tensors = {
        "q": 3 * torch.randn(rows, 2), "keys": torch.randn(n, 2), "values": torch.randn(n, 2),
        "result": torch.randn(rows, 2),
    }  # fmt: skip
    mask = torch.ones(rows, n, dtype=torch.bool).tril(2)
    scores = (tensors["q"] @ tensors["keys"].T).masked_fill(~mask, -torch.inf)
    tensors["weights"] = scores.softmax(dim=1)
    share = tensors["weights"][0, :2].sum()
    return draw_longer_keys(names, 2, tensors, mask), f"The prefix gets {names[0]} {share:.0%}"


FOUR = ("<v>", "428.0", "427.31", "<\\v>")


@drawing(longer_keys(FOUR)[1], "4 queries against 6 keys", "hides 6 of the 24 places")
def a_prefix_before_four_tokens():
    return longer_keys(FOUR)[0]
