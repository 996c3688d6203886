"""The drawings of lesson 11: readable, and each shows the numbers of the object it was given."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import Patch
from matplotlib.text import Text
from transformers import BartConfig, BartForConditionalGeneration

from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.plots.drawings.attention_steps import (
    PALE,
    draw_attention_steps,
    draw_cross_attention,
    draw_heads,
    draw_positions,
    draw_reach,
    draw_scaling,
)
from ehr_course.plots.drawings.model_architecture import (
    draw_alike,
    draw_losses,
    draw_model,
    draw_outline,
    draw_swap,
)
from ehr_course.plots.drawings.model_memory import (
    draw_memory,
    draw_parameters,
    draw_peaks,
    draw_step_memory,
)
from ehr_course.plots.overlaps import label_problems
from ehr_course.plots.style import Picture
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.memory import MemoryTrace, held_bytes

CODES = ["4280", "42731", "0389", "V3001", "E8889"]
NAMES = ["age 64", "sex F", "<BOS>", "<v>", "428.0", "427.31", "<\\v>", "<EOS>", "<PAD>"]


HEADS = np.random.default_rng(0).dirichlet(np.ones(8), size=(4, 8))
"""Weights of four heads, (heads, positions, positions)."""


def words(picture: Picture) -> str:
    return " | ".join(text.get_text() for text in picture.findobj(Text))


def model(profile: str, **changes: object) -> PromptBart:
    with torch.device("meta"):
        config = PromptBartConfig.for_tokenizer(CodeTokenizer(CODES), profile, **changes)
        return PromptBart(config)


def bart(**changes: int) -> BartForConditionalGeneration:
    sizes = {"vocab_size": 6_992, "d_model": 768, "encoder_layers": 6, "decoder_layers": 6}
    with torch.device("meta"):
        return BartForConditionalGeneration(BartConfig(**(sizes | changes)))


def attention_steps(seed: int, n: int, d: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    states, q, k, v = (torch.randn(n, d, generator=generator) for _ in range(4))
    scores = q @ k.T / d**0.5
    weights = scores.softmax(-1)
    steps = {"vectors": states, "queries": q, "keys": k, "values": v}
    return steps | {"scores": scores, "weights": weights, "result": weights @ v}


def trace(n: int) -> tuple[MemoryTrace, int]:
    layers = torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.Linear(300, 300))
    optimizer = torch.optim.AdamW(layers.parameters())
    layers(torch.ones(n, 300)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    with MemoryTrace(3 * held_bytes(layers), layers) as found:
        loss = layers(torch.ones(n, 300)).square().mean()
        found.mark("forward")
        loss.backward()
        found.mark("backward")
        optimizer.step()
        optimizer.zero_grad()
        found.mark("update")
    return found, held_bytes(layers)


def memory(records: int) -> dict[str, dict[str, int]]:
    return {
        f"{n} records": {"weights": 4 * 10**8, "moments": 8 * 10**8, "gradients": 4 * 10**8,
                         "activations": n * 2 * 10**8}
        for n in (2, records)
    }  # fmt: skip


LOSSES = {"A": list(np.linspace(6, 3, 40)), "B": list(np.linspace(6.4, 2.2, 40))}
SWAP = {"model A": (2.95, 2.95), "model B": (2.33, 3.45)}
SIDES = {"encoder": NAMES, "decoder": [*NAMES[:2], "<EOS>", *NAMES[2:-2], "<PAD>"]}
REACH = {"encoder": np.ones((9, 9), bool), "decoder": np.tril(np.ones((9, 9), bool))}
WEIGHTS = np.array([0.01, 0.02, 0.0, 0.01, 0.03, 0.9, 0.02, 0.01])
MANY = [*NAMES[:5], *(f"{place}00.01" for place in range(1, 12)), "<EOS>"]

# Each drawing of two objects, with words that belong to the first or to the second alone.
DRAWN: dict[str, tuple[Callable[[], Picture], str, Callable[[], Picture], str]] = {
    "losses": (
        lambda: draw_losses(LOSSES), "Model B has the lower",
        lambda: draw_losses({"A": [6.0, 5.5, 5.0], "B": [6.0, 5.04]}), "Model A has the lower",
    ),
    "swap": (
        lambda: draw_swap(SWAP), "Model A does not notice",
        lambda: draw_swap({"one": (0.5, 3.5), "two": (1.0, 3.0)}), "Every model gets worse",
    ),
    "alike": (
        lambda: draw_alike({"model A": (0.05, 1.0), "B": (0.14, 0.1)}), "alike in model A",
        lambda: draw_alike({"one": (0.0, 0.4), "two": (0.3, -0.1)}), "In no model",
    ),
    "outline": (
        lambda: draw_outline(model("tiny")), "6 tokens",
        lambda: draw_outline(model("full", decoder_layers=3), tokens=11), "11 tokens",
    ),
    "model": (
        lambda: draw_model(model("tiny")), "12 × 96",
        lambda: draw_model(model("full", decoder_layers=3), tokens=11), "3 decoder layers",
    ),
    "steps": (
        lambda: draw_attention_steps(NAMES[3:7], attention_steps(0, 4, 2)), "the frames of 427.31",
        lambda: draw_attention_steps(NAMES[2:6], attention_steps(1, 4, 2), row=1),
        "the frames of <v>",
    ),
    "scaling": (
        lambda: draw_scaling([4, 64, 768], [0.5, 0.8, 0.96], [0.3, 0.31, 0.32], keys=10), "96%",
        lambda: draw_scaling([2, 8], [0.5, 0.7], [0.4, 0.41], keys=5), "70%",
    ),
    "reach": (
        lambda: draw_reach(SIDES, REACH), "the decoder reads only what came before",
        lambda: draw_reach({"encoder": ["age", "123.45", "<averylongtoken>"]},
                           {"encoder": np.eye(3, dtype=bool)}), "<averyl",
    ),
    "cross": (
        lambda: draw_cross_attention(NAMES[:8], NAMES[:8], WEIGHTS, row=4, writes="427.31"),
        "90% from 427.31",
        lambda: draw_cross_attention(MANY, MANY, np.eye(17)[3], row=2, writes="<v>"),
        "100% from <v>",
    ),
    "heads": (
        lambda: draw_heads(NAMES[:8], HEADS[:4, :8, :8], row=4, d_model=96), "24 numbers",
        lambda: draw_heads(NAMES[2:7], HEADS[:2, :5, :5], row=3, d_model=64), "32 numbers",
    ),
    "positions": (
        lambda: draw_positions(NAMES[:8], torch.zeros(258, 96)), "258 rows of 96",
        lambda: draw_positions(NAMES[:6], torch.zeros(8, 768)), "8 rows of 768",
    ),
    "parameters": (
        lambda: draw_parameters(bart()), "125,073,408",
        lambda: draw_parameters(model("tiny")), "in the prompts",
    ),
    "step memory": (
        lambda: draw_step_memory(trace(4)[0], weights=trace(4)[1]), "in its update",
        lambda: draw_step_memory(trace(5000)[0], weights=trace(5000)[1]),
        "as the backward pass begins",
    ),
    "peaks": (
        lambda: draw_peaks({1: 10**8, 4: 10**8, 16: 3 * 10**8, 32: 55 * 10**7},
                           weights=25 * 10**6, record=10**7), "Up to 2 records the",
        lambda: draw_peaks({n: (3 + 2 * n) * 10**8 for n in (1, 4, 16)}, weights=10**8,
                           record=2e8), "rises from the first",
    ),
    "memory": (
        lambda: draw_memory(memory(64), machine=8 * 10**9),
        "2 records fit in 8 GB; 64 records do not",
        lambda: draw_memory(memory(10), machine=16 * 10**9), "10 records fit in 16 GB",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
def test_each_drawing_can_be_read_and_shows_its_own_object(name: str) -> None:
    one, of_one, other, of_other = DRAWN[name]
    first, second = one(), other()
    for picture in (first, second):
        assert label_problems(picture) == []
        assert len(picture.alternative_text.split()) >= 5
    assert of_one in words(first) and of_one not in words(second)
    assert of_other in words(second) and of_other not in words(first)
    assert first.alternative_text != second.alternative_text


def test_the_words_agree_with_the_drawing() -> None:
    assert "model A 2.95 and 2.95 nats" in draw_swap(SWAP).alternative_text
    alike = draw_alike({"A": (0.05, 1.0), "B": (0.14, 0.1)})
    assert "A 0.05 and 1.00; B 0.14 and 0.10" in alike.alternative_text
    assert "81 in the encoder and 45 in the decoder" in draw_reach(SIDES, REACH).alternative_text
    assert "64 records 14.0 GB" in draw_memory(memory(64), machine=8 * 10**9).alternative_text


def test_a_curve_ends_where_its_label_says() -> None:
    picture = draw_losses({"A": [9.0] * 30 + [2.0, 4.0] * 5, "B": [9.0, 5.0]})
    assert "model A: 3.0 nats" in words(picture) and "model B: 7.0 nats" in words(picture)
    ends = {round(float(line.get_ydata()[-1]), 1) for ax in picture.axes for line in ax.lines}
    assert {3.0, 7.0} <= ends


def test_padding_that_meets_itself_has_a_colour_of_its_own() -> None:
    picture = draw_reach({"encoder": ["age", "<PAD>"]}, {"encoder": np.eye(2, dtype=bool)})
    fills = [to_hex(patch.get_facecolor()) for patch in picture.findobj(Patch)]
    assert fills.count(PALE) == 2  # the cell and the key


def test_every_parameter_is_in_an_area_or_named() -> None:
    small = bart(encoder_layers=2, vocab_size=50)
    drawn = words(draw_parameters(small))
    title, *rest = re.findall(r"\d[\d,]{3,}", drawn)
    assert int(title.replace(",", "")) == sum(p.numel() for p in small.parameters())
    assert sum(int(n.rstrip(",").replace(",", "")) for n in rest) == int(title.replace(",", ""))


def test_the_shares_of_one_row_are_those_of_its_weights() -> None:
    picture = draw_cross_attention(NAMES[:8], NAMES[:8], WEIGHTS, row=4, writes="427.31")
    shown = [text for text in words(picture).split(" | ") if text.endswith("%")]
    assert shown == [f"{weight:.0%}" for weight in WEIGHTS]


def test_below_each_head_stands_its_largest_weight() -> None:
    shown = words(draw_heads(NAMES[:8], HEADS, row=4, d_model=96)).split(" | ")
    for weights in HEADS[:, 4]:
        at = int(weights.argmax())
        assert f"{weights[at]:.0%} from {'itself' if at == 4 else NAMES[at]}" in shown
    assert "output matrix, 96 × 96, mixes them" in shown


def test_what_the_decoder_has_not_written_is_not_shown() -> None:
    picture = draw_cross_attention(NAMES[:8], NAMES[:8], WEIGHTS, row=4, writes="427.31")
    shown = words(picture).split(" | ")
    assert shown.count("428.0") == 2 and shown.count("427.31") == 1 and shown.count("?") == 1


def test_the_peak_has_the_larger_of_gradients_and_activations() -> None:
    text = draw_memory(memory(1), machine=8 * 10**9).alternative_text
    assert "1 records 1.6 GB" in text and "2 records 1.6 GB" in text
