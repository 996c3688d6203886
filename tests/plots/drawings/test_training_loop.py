"""The drawings of lesson 15 show the objects that they are given, and can be read."""

from __future__ import annotations

import dataclasses

import matplotlib.text
import pytest

from ehr_course.plots.drawings.loop_tests import draw_interrupted, draw_probe
from ehr_course.plots.drawings.loss_scale import (
    draw_decay,
    draw_orders,
    draw_scales_compared,
    draw_two_loops,
    draw_without_scale,
    power,
)
from ehr_course.plots.drawings.training_loop import (
    draw_loop,
    draw_parts,
    draw_processes,
    draw_resumed,
    draw_schedule,
    draw_token_weights,
)
from ehr_course.plots.overlaps import label_problems
from ehr_course.training.config import TrainingConfig
from ehr_course.training.trainer import warmup_cosine_factor

CONFIG = TrainingConfig(
    steps=12,
    batch_size=16,
    gradient_accumulation_steps=4,
    lr=5e-3,
    warmup_steps=3,
    precision="float16",
    init_scale=2.0**24,
)


def texts(picture) -> str:
    found = [t.get_text() for t in picture.findobj(matplotlib.text.Text)]
    return "\n".join(text for text in found if text.strip())


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        dataclasses.replace(
            CONFIG,
            steps=45_000,
            warmup_steps=1_000,
            lr=3e-4,
            batch_size=256,
            gradient_accumulation_steps=1,
            init_scale=65_536.0,
            max_grad_norm=0.5,
        ),
    ],
)
def test_the_loop_has_the_settings_of_its_training(config):
    picture = draw_loop(config)
    assert label_problems(picture) == []
    for words in (
        f"{config.lr:g}",
        f"{config.warmup_steps} of {config.steps:,} steps",
        f"{config.batch_size} patients",
        power(config.init_scale),
        f"than {config.max_grad_norm:g}",
    ):
        assert words in texts(picture)
        assert words in picture.alternative_text
    assert "next part" in texts(picture)
    assert "next part" in picture.alternative_text


@pytest.mark.parametrize(("warmup", "total", "peak"), [(3, 12, 5e-3), (0, 5, 1.0), (8, 40, 3e-4)])
def test_the_schedule_has_a_dot_for_each_step(warmup, total, peak):
    rates = [
        peak * warmup_cosine_factor(step, warmup_steps=warmup, total_steps=total)
        for step in range(total + 1)
    ]
    picture = draw_schedule(rates, warmup)
    assert label_problems(picture) == []
    steps = {1: "1 step"}.get(warmup, f"{warmup} steps")
    assert f"rises over {steps} and falls over {total - warmup}" in texts(picture)
    assert f"of {total} steps" in picture.alternative_text
    dots = next(line for line in picture.axes[-1].lines if line.get_marker() == "o")
    assert list(dots.get_ydata()) == rates[:-1]


@pytest.mark.parametrize(
    ("tokens", "off"), [([21, 37, 53, 114], 0.51), ([900, 950], 0.04), ([5] * 8, 0.0)]
)
def test_the_parts_end_as_far_from_the_whole_as_was_measured(tokens, off):
    n = len(tokens)
    exact = [1 - i / n for i in range(n + 1)]
    picture = draw_parts(tokens, {"one count": exact, "mean of means": [*exact[:-1], off + 0.001]})
    if off > 0.1:
        assert label_problems(picture) == []
    assert f"together {sum(tokens)} tokens" in texts(picture)
    assert f"mean of means:\n{off + 0.001:.0%} off" in texts(picture)
    assert f"mean of means {off + 0.001:.1%}" in picture.alternative_text


@pytest.mark.parametrize(
    ("uneven", "patients"),
    [((1.75, 1.03, 0.73, 0.57), (1029, 502, 267, 202)), ((1.2, 0.8), (40, 3))],
)
def test_the_weights_of_tokens_are_those_that_were_given(uneven, patients):
    even = [1.0] * len(uneven)
    kinds = {"by length": uneven, "mixed": even, "by length, equal tokens": even}
    picture = draw_token_weights(kinds, patients)
    assert label_problems(picture) == []
    for value, n in zip(uneven, patients, strict=True):
        assert f"{value:.2f}" in texts(picture)
        assert f"{n:,} patients" in texts(picture)
        assert f"{value:.2f}" in picture.alternative_text


def _rows(losses, skipped=()):
    return [
        {"loss": loss, "skipped": i in skipped, "lr": 5e-3 / (1 + i)}
        for i, loss in enumerate(losses)
    ]


@pytest.mark.parametrize("stop", [4, 8])
def test_a_resumed_training_is_called_the_same_only_where_it_is(stop):
    whole = _rows([5.8 - 0.03 * i for i in range(18)], {0, 1})
    alone = _rows([6.0 - 0.01 * i for i in range(20)], {0, 1, 2})
    same = draw_resumed(whole, whole[stop:], alone, stop)
    assert label_problems(same) == []
    assert "is the same training" in texts(same)
    assert texts(same).count("weights of the checkpoint alone") == 2  # a legend in each panel
    assert f"skips the step in 3 of its {18 - stop} rounds" in same.alternative_text
    assert f"after round {stop}, which takes step {stop - 2}" in texts(same)
    assert f"{alone[17 - stop]['loss']:.2f} instead of {whole[-1]['loss']:.2f}" in (
        same.alternative_text
    )
    other = draw_resumed(whole, _rows([5.0] * (18 - stop)), alone, stop)
    assert "is another training" in texts(other)
    assert "different" in other.alternative_text


@pytest.mark.parametrize(("n_steps", "stop"), [(6, 2), (9, 1), (6, 5)])
def test_the_interrupted_training_goes_on_where_it_stopped(n_steps, stop):
    picture = draw_interrupted(n_steps, stop)
    assert label_problems(picture) == []
    numbers = [int(text) for text in texts(picture).splitlines() if text.isdigit()]
    assert sorted(numbers) == sorted([*range(1, n_steps + 1)] * 2 + [stop + 1])
    assert f"dies in step {stop + 1}" in picture.alternative_text


@pytest.mark.parametrize("last", [5.77, 5.0])
def test_the_title_says_whether_the_wrong_loop_learns(last):
    picture = draw_two_loops({"with it": [5.75, 5.0, 4.0], "without it": [5.75, 5.76, last]})
    assert label_problems(picture) == []
    assert ("learns nothing" in texts(picture)) == (last == 5.77)
    assert f"without it:\n{last:.2f}" in texts(picture)
    assert f"5.75 to {last:.2f}" in picture.alternative_text


@pytest.mark.parametrize("lacking", [[5.8, 4.9, 4.4, 4.0], [5.8, 4.7, 3.9, 3.2]])
def test_the_title_says_whether_a_scale_is_missing(lacking):
    good = [5.8, 4.7, 3.9, 3.2]
    share = {"small": 0.001, "no scale": lacking[-1] / 10, "with a scale": 0.0}
    picture = draw_without_scale({"small": good, "no scale": lacking, "with a scale": good}, share)
    if lacking != good:
        assert label_problems(picture) == []
    assert ("are lost" in texts(picture)) == (lacking != good)
    assert f"no scale:\n{lacking[-1] / 10:.1%} of gradients lost" in texts(picture)
    assert (
        f"no scale: {lacking[-1] / 10:.1%} of the gradients become zero, and the last loss is "
        f"{lacking[-1]:.2f}" in picture.alternative_text
    )


@pytest.mark.parametrize("last", [5.77, 4.0])
def test_the_title_says_whether_the_scale_matters(last):
    good = [5.75, 5.0, 4.0]
    without = {1.0: good, 65_536.0: [5.75, 5.76 if last > 5 else 5.0, last]}
    picture = draw_scales_compared(
        {"with the line": {1.0: good, 65_536.0: [5.75, 5.0, 4.0001]}, "without it": without}
    )
    assert label_problems(picture) == []
    assert ("nothing with the line, but much without it" in texts(picture)) == (last == 5.77)
    assert "scale 2¹⁶" in texts(picture)
    assert f"with 2¹⁶ the last loss is {last:.2f}" in picture.alternative_text


@pytest.mark.parametrize(
    ("norm", "scale", "factor"), [(45_736.0, 65_536.0, "45,736"), (40.0, 8.0, "8")]
)
def test_clipping_too_early_shortens_by_the_scale(norm, scale, factor):
    picture = draw_orders(norm, scale, max_norm=1.0)
    assert label_problems(picture) == []
    assert f"{factor} times too short" in texts(picture)
    assert f"÷ {power(scale)}" in texts(picture)


@pytest.mark.parametrize(
    ("patients", "tokens"), [([8, 8], [58, 167]), ([5, 5, 4], [1_200, 30, 871])]
)
def test_processes_divide_by_the_count_of_the_whole_batch(patients, tokens):
    picture = draw_processes(patients, tokens)
    assert label_problems(picture) == []
    assert texts(picture).count(f"sum of losses ÷ {sum(tokens)}") == len(tokens)
    for n_patients, n_tokens in zip(patients, tokens, strict=True):
        assert f"{n_patients} patients, {n_tokens:,} tokens" in texts(picture)
    assert f"by {sum(tokens)}, the count" in picture.alternative_text


@pytest.mark.parametrize(
    ("adam", "finding"),
    [
        ([[1.0, 1.0], [1.0, 0.5], [0.99, 0.1]], "Adam spares the weight with large gradients"),
        ([[1.0, 1.0], [0.9, 0.9], [0.8, 0.8]], "shrinks all weights alike"),
    ],
)
def test_the_title_says_which_optimizer_spares_a_weight(adam, finding):
    alike = [[1.0, 1.0], [0.9, 0.9], [0.8, 0.8]]
    picture = draw_decay({"Adam": adam, "AdamW": alike}, [10.0, 0.01])
    assert label_problems(picture) == []
    assert finding in texts(picture)
    ends = ", ".join(f"{end:.2f}" for end in adam[-1])
    assert f"Adam: {ends}; AdamW: 0.80, 0.80" in picture.alternative_text


@pytest.mark.parametrize(
    ("row", "weights", "moved"),
    [([3.0, 4.0], [-1.5, -2.0], "2.5"), ([0.0, 12.0], [0.0, -0.5], "0.5")],
)
def test_a_probe_shows_how_far_each_loop_moves(row, weights, moved):
    found = {"a sound loop": [-0.3, -0.4], "a loop that never clips": weights}
    picture = draw_probe(row, found, rate=0.5, scale=8.0, max_norm=1.0)
    assert label_problems(picture) == []
    assert f"moved by {moved}" in texts(picture)
    assert ("look alike" in texts(picture)) == (moved == "0.5")
    assert "loop that never clips: " in picture.alternative_text
