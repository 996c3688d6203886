"""Cases for the drawings of lesson 11."""

from __future__ import annotations

import numpy as np
import torch
from registry import drawing

from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.plots.lesson_11 import draw_attention_steps, draw_cross_attention, draw_model
from ehr_course.tokenizers.codes import CodeTokenizer

NAMES = ["age 64", "sex F", "<BOS>", "<v>", "428.0", "427.31", "<\\v>", "<EOS>"]
WEIGHTS = np.array([0.01, 0.02, 0.0, 0.01, 0.03, 0.9, 0.02, 0.01])


def attention(seed, n=4, d=2):
    generator = torch.Generator().manual_seed(seed)
    states, q, k, v = (torch.randn(n, d, generator=generator) for _ in range(4))
    scores = q @ k.T / d**0.5
    weights = scores.softmax(-1)
    steps = {"vectors": states, "queries": q, "keys": k, "values": v}
    return steps | {"scores": scores, "weights": weights, "result": weights @ v}


STEPS = attention(0)


def model(profile, **changes):
    with torch.device("meta"):
        config = PromptBartConfig.for_tokenizer(
            CodeTokenizer(["4280", "42731"]), profile, **changes
        )
        return PromptBart(config)


@drawing("427.31 are " + ", ".join(f"{w:.2f}" for w in STEPS["weights"][2]), "queries, keys")
def attention_of_the_third_token():
    return draw_attention_steps(NAMES[3:7], STEPS)


@drawing("The weights of <v> are")
def attention_of_a_token_to_itself():
    steps = attention(1) | {"weights": torch.eye(4)}
    return draw_attention_steps(NAMES[2:6], steps, row=1)


@drawing("428.0, to 8 positions", "the thickest, 90%, leads to 427.31")
def cross_attention_to_one_code():
    return draw_cross_attention(NAMES, NAMES, WEIGHTS, row=4)


@drawing("to 12 positions", "100%, leads to <v>")
def cross_attention_in_a_long_record():
    many = [*NAMES[:4], *(f"{place}.1" for place in range(1, 8)), "<EOS>"]
    return draw_cross_attention(many, many, np.eye(12)[3], row=2)


@drawing("The encoder has 2 layers", "make 8 vectors of 96", "9 tokens serves both")
def a_tiny_model():
    return draw_model(model("tiny"))


@drawing("decoder has 1 layer with", "2 prompts and 11 tokens make 13 vectors of 768")
def a_large_model():
    return draw_model(model("full", decoder_layers=1), tokens=11)
