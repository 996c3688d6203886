"""The drawings of lesson 18 show the objects that they are given, and can be read."""

from __future__ import annotations

import matplotlib.text
import numpy as np
import pytest
import torch

from ehr_course.models.prefix_tuning import Prefix
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.plots.drawings.prefix_tuning import (
    draw_longer_keys,
    draw_network,
    draw_places,
    draw_table_split,
)
from ehr_course.plots.drawings.second_hospital import (
    draw_biases,
    draw_copies,
    draw_costs,
    draw_differences,
    draw_gains,
)
from ehr_course.plots.overlaps import label_problems
from ehr_course.tokenizers.codes import CodeTokenizer

TRAINED = {
    "nothing": 0,
    "output bias": 425,
    "prompt": 1_536,
    "prefix": 3_072,
    "full": 515_168,
    "from scratch": 515_168,
}


def texts(picture) -> list[str]:
    return [t.get_text() for t in picture.findobj(matplotlib.text.Text) if t.get_text().strip()]


# ---------------------------------------------------------------------- where methods train


@pytest.mark.parametrize(("size", "vectors", "n_prefix"), [("tiny", 8, 8), ("narrow", 20, 100)])
def test_the_places_show_what_each_method_trains(size, vectors, n_prefix):
    tokenizer = CodeTokenizer([f"{4000 + i}" for i in range(40)])
    model = PromptBart(PromptBartConfig.for_tokenizer(tokenizer, size))
    config = model.config
    trained = {
        "prompt": 2 * vectors * config.d_model,
        "prefix": n_prefix * config.decoder_layers * 2 * config.d_model,
        "output bias": 47,
        "full": sum(values.numel() for values in model.parameters()),
    }
    picture = draw_places(model, trained, n_prefix=n_prefix)
    assert label_problems(picture) == []
    shown = texts(picture)
    assert {f"{name}: {number:,}" for name, number in trained.items()} <= set(shown)
    assert shown.count(f"{vectors} vectors") == 2
    assert f"{n_prefix} keys,\n{n_prefix} values" in shown
    assert f"changes the model itself, {trained['full']:,} numbers" in picture.alternative_text


# ---------------------------------------------------------------------- attention, longer


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("n_prefix", [1, 2])
@pytest.mark.parametrize("names", [["<v>", "428.0", "<\\v>"], ["<v>", "E885.9000", "b", "<END>"]])
def test_the_longer_keys_show_the_share_of_the_prefix(seed, n_prefix, names):
    generator = torch.Generator().manual_seed(seed)
    n = len(names)
    q, keys, values = (
        torch.randn(rows, 2, generator=generator) for rows in (n, n_prefix + n, n_prefix + n)
    )
    mask = torch.ones(n, n_prefix + n, dtype=torch.bool).tril(n_prefix)
    weights = (q @ keys.T).masked_fill(~mask, -torch.inf).softmax(-1)
    tensors = {"q": q, "keys": keys, "values": values, "weights": weights}
    picture = draw_longer_keys(names, n_prefix, tensors | {"result": weights @ values}, mask)
    assert label_problems(picture) == []
    shares = weights[:, :n_prefix].sum(1)
    for name, share in zip(names, shares, strict=True):
        assert f"{share:.0%}" in texts(picture)
        assert f"{name} {share:.0%}" in picture.alternative_text
    assert texts(picture).count("×") == int((~mask).sum())


# ---------------------------------------------------------------------- a table, taken apart


def whose_entries(n: int, layers: int, heads: int, head_dim: int):
    width = layers * 2 * heads * head_dim
    table = torch.arange(n)[:, None].expand(n, width).reshape(-1)
    right = table.view(n, layers, 2, heads, head_dim).permute(1, 2, 3, 0, 4)
    return {
        "split, then permute": right,
        "view alone": table.view(layers, 2, heads, n, head_dim),
    }, width


@pytest.mark.parametrize(
    ("sizes", "title"),
    [
        ((3, 3, 2, 2), "With a view alone, each layer holds one token's numbers only"),
        ((2, 2, 4, 3), "With a view alone, each layer holds one token's numbers only"),
        ((4, 3, 2, 2), "With a view alone, tokens and layers are mixed"),
    ],
)
def test_the_table_shows_whose_numbers_stand_where(sizes, title):
    ways, width = whose_entries(*sizes)
    picture = draw_table_split(ways, width)
    assert label_problems(picture) == []
    assert texts(picture)[0] == title
    assert f"{width} numbers each" in " ".join(texts(picture))
    first = sorted(set(ways["view alone"][0].ravel().tolist()))
    said = " and ".join(map(str, first))
    assert f"view alone: layer 0 holds numbers of token {said}," in picture.alternative_text


@pytest.mark.parametrize("sizes", [(8, 2, 4, 96, 64), (20, 12, 12, 768, 512), (20, 2, 4, 96, 3)])
def test_the_network_shows_what_is_trained_and_what_is_kept(sizes):
    *sizes, hidden = sizes
    prefix = Prefix(*sizes, d_hidden=hidden)
    picture = draw_network(prefix)
    total, kept = sum(p.numel() for p in prefix.parameters()), prefix.rows().numel()
    assert label_problems(picture) == []
    assert {f"trained: {total:,} numbers", f"kept: {kept:,} numbers"} <= set(texts(picture))
    assert f"Trained are {total:,} numbers" in picture.alternative_text
    assert ("times as many" in texts(picture)[0]) == (total >= 2 * kept)


# ---------------------------------------------------------------------- the second hospital


def some_losses(seed: int, n_seeds: int) -> dict[str, list[float]]:
    rng = np.random.default_rng(seed)
    means = {"nothing": 2.55, "output bias": 2.47, "prompt": 2.5, "prefix": 2.48}
    means |= {"full": 2.41, "from scratch": 3.0}
    if seed:
        means |= {"output bias": 2.5, "prompt": 2.49}
    return {
        name: [value + (0.01 * noise if name != "nothing" else 0)
               for noise in rng.standard_normal(n_seeds)]
        for name, value in means.items()
    }  # fmt: skip


@pytest.mark.parametrize(("seed", "word"), [(0, "more"), (1, "less")])
def test_the_gains_say_whether_a_bias_gains_more_than_a_prefix(seed, word):
    losses = some_losses(seed, 5)
    picture = draw_gains(losses, TRAINED)
    assert label_problems(picture) == []
    title = f"On average, 425 output biases gain {word} than a prefix of 3,072 numbers"
    assert texts(picture)[0] == title
    assert f"full, 515,168 numbers, {np.mean(losses['full']):.3f}" in picture.alternative_text
    assert "from scratch" not in picture.alternative_text


@pytest.mark.parametrize(("seed", "n_seeds"), [(0, 5), (1, 3)])
def test_the_differences_are_taken_seed_by_seed(seed, n_seeds):
    losses = some_losses(seed, n_seeds)
    pairs = [("full", "prefix"), ("output bias", "prefix"), ("prefix", "prompt")]
    picture = draw_differences(losses, pairs)
    assert label_problems(picture) == []
    clear = 0
    for one, other in pairs:
        gaps = [a - b for a, b in zip(losses[one], losses[other], strict=True)]
        wins = sum(gap < 0 for gap in gaps)
        clear += wins in (0, n_seeds)
        assert f"better in {wins} of {n_seeds}" in texts(picture)
        assert f"{one} minus {other}, {gaps[0]:+.3f}" in picture.alternative_text
    assert texts(picture)[0].startswith(f"{clear} of these 3 comparisons")


@pytest.mark.parametrize("seed", [0, 1])
def test_the_biases_are_those_of_the_codes_whose_share_changed_most(seed):
    rng = np.random.default_rng(seed)
    names = [f"{400 + i} {'A very long title of a code ' * (i % 3)}" for i in range(40)]
    before, after = rng.dirichlet(np.ones(40), size=2)
    biases = rng.standard_normal(40)
    picture = draw_biases(names, biases, {"here": before, "there": after}, most=4)
    assert label_problems(picture) == []
    most = int(np.argmax(after - before))
    words = f"from {before[most]:.1%} to {after[most]:.1%}, bias {biases[most]:+.2f}"
    assert words in picture.alternative_text
    assert f"{biases[most]:+.2f}" in texts(picture)
    order = np.argsort(before - after)
    chosen = [*order[:4], *order[-4:]]
    agree = sum((biases[i] > 0) == (after[i] > before[i]) for i in chosen)
    which = "all 8" if agree == 8 else f"{agree} of these 8"
    assert texts(picture)[0].startswith(f"For {which} codes")


def test_the_biases_stand_beside_what_was_expected():
    shares = {"here": [0.3, 0.7], "the old\nmodel": [0.4, 0.6], "there": [0.6, 0.4]}
    picture = draw_biases(["414.01 a", "V27.0 b"], [0.5, -0.7], shares, most=1)
    assert label_problems(picture) == []
    assert {"30.0%", "40.0%", "60.0%", "the old\nmodel"} <= set(texts(picture))
    assert "bias +0.50, the old model 40.0%" in picture.alternative_text


@pytest.mark.parametrize("gains", [{0: (0.064, 0.049), 1: (0.05, 0.0505)}, {7: (0.2, 0.02)}])
def test_the_copies_show_what_is_left_of_the_gain(gains):
    picture = draw_copies(gains)
    assert label_problems(picture) == []
    shares = [bias / prefix for prefix, bias in gains.values()]
    assert f"has {min(shares):.0%} to {max(shares):.0%} of its gain" in texts(picture)[0]
    for seed, (prefix, bias) in gains.items():
        assert {f"{prefix:.3f}", f"{bias:.3f}, {bias / prefix:.0%}"} <= set(texts(picture))
        assert f"Seed {seed}: prefix {prefix:.3f}" in picture.alternative_text


@pytest.mark.parametrize(
    ("full", "title"),
    [
        (2.22, "After training, the loss at home is higher than before"),
        (2.1, "Fast: worse than before at home"),
    ],
)
def test_the_costs_say_who_is_worse_than_before(full, title):
    losses = {
        "as it was": {"home": 2.17, "there": 2.53},
        "full": {"home": full, "there": 2.4},
        "fast": {"home": 2.88, "there": 0.93},
    }
    picture = draw_costs(losses)
    assert label_problems(picture) == []
    assert texts(picture)[0] == title
    assert {f"{value:.3f}" for of in losses.values() for value in of.values()} <= set(
        texts(picture)
    )
    assert f"On home: as it was 2.170, full {full:.3f}, fast 2.880" in picture.alternative_text
