"""The drawings of lesson 12 show the objects that they are given, and can be read."""

from __future__ import annotations

import matplotlib.text
import numpy as np
import pytest
import torch
from torch.nn.functional import cosine_similarity, layer_norm

from ehr_course.models.prompt_bart import (
    FourierPrompt,
    NumericalPrompt,
    PromptBart,
    PromptBartConfig,
)
from ehr_course.plots.drawings.age_encoders import (
    draw_directions,
    draw_line_and_curve,
    draw_lines,
    draw_turning,
    draw_two_sexes,
    draw_waves,
)
from ehr_course.plots.drawings.conditional_prompt import (
    draw_positions,
    draw_prompt_path,
    draw_table,
)
from ehr_course.plots.drawings.patients_by_prompt import (
    draw_by_age,
    draw_impossible,
)
from ehr_course.plots.overlaps import label_problems
from ehr_course.tokenizers.codes import CodeTokenizer

AGES = torch.arange(91.0)[:, None]


def texts(picture) -> list[str]:
    return [t.get_text() for t in picture.findobj(matplotlib.text.Text) if t.get_text().strip()]


def model_of(size: str, n_codes: int) -> PromptBart:
    tokenizer = CodeTokenizer([f"{4000 + i}" for i in range(n_codes)])
    return PromptBart(PromptBartConfig.for_tokenizer(tokenizer, size))


@pytest.fixture(scope="module", params=[("tiny", 40), ("narrow", 9_000)])
def model(request) -> PromptBart:
    return model_of(*request.param)


def prompts_by(kind, seed: int, **options) -> torch.Tensor:
    torch.manual_seed(seed)
    with torch.no_grad():
        return kind(1, 24, **options)(AGES)[:, 0]


# ---------------------------------------------------------------------- the path, and positions


@pytest.mark.parametrize(
    "tokens", [["<BOS>", "<mask>", "<EOS>"], ["<BOS>", "E8859000999", "<EOS>"]]
)
@pytest.mark.parametrize(("age", "sex"), [(0, "M"), (90, "F")])
def test_the_path_shows_the_shapes_of_the_model(model, tokens, age, sex):
    picture = draw_prompt_path(model, tokens, age=age, sex=sex)
    assert label_problems(picture) == []
    rows, d_model = model.get_input_embeddings().weight.shape
    n_weights = sum(values.numel() for values in model.encoder_prompt.parameters())
    shown = texts(picture)
    for words in (
        f"table of tokens\n{rows} × {d_model}",
        f"{n_weights:,} weights",
        f"÷ 90 = {age / 90:.2f}",
        f"row {'MF'.index(sex)} of the table\n2 × 128",
    ):
        assert words in shown
    assert f"projected to {d_model}" in picture.alternative_text
    assert f"The age {age} is divided" in picture.alternative_text


@pytest.mark.parametrize("n_prompts", [1, 2])
@pytest.mark.parametrize("length", [5, 9])
def test_the_positions_show_the_mask(n_prompts, length):
    rows = [["<BOS>", "E8859", "<mask>", "<\\v>", "<EOS>"] + ["<PAD>"] * (length - 5)] * 2
    mask = torch.tensor([[1] * (n_prompts + 5) + [0] * (length - 5)] * 2)
    picture = draw_positions(rows, mask, n_prompts, 64)
    assert label_problems(picture) == []
    drawn = [text.get_text() for text in picture.axes[0].texts]
    assert drawn.count("0") == int((mask == 0).sum())
    assert f"are {length + n_prompts} positions" in " ".join(texts(picture))
    assert f"it has {n_prompts + 5} and {n_prompts + 5} ones" in picture.alternative_text
    assert f"{64 - n_prompts} are left" in " ".join(texts(picture))


@pytest.mark.parametrize(
    ("features", "category", "rows", "title"),
    [
        (
            (2, 6, 3),
            (1, 0, 1),
            (1, 2, 9),
            "Without offsets, insurance and admission read rows of sex",
        ),
        ((2, 6, 3), (1, 5, 0), (1, 7, 8), "Without offsets, admission read rows of sex"),
        (
            (4, 3, 2),
            (0, 2, 1),
            (0, 6, 8),
            "Without offsets, insurance and admission read rows of sex",
        ),
        (
            (2, 2, 2),
            (0, 0, 0),
            (0, 2, 4),
            "Without offsets, insurance and admission read rows of sex",
        ),
    ],
)
def test_the_table_shows_where_categories_stand(features, category, rows, title):
    names = dict(zip(("sex", "insurance", "admission"), features, strict=True))
    picture = draw_table(names, category)
    assert label_problems(picture) == []
    assert title in texts(picture)
    assert f"are rows {', '.join(map(str, rows))};" in picture.alternative_text
    firsts = [0, features[0], features[0] + features[1]]
    for first, one in zip(firsts, category, strict=True):
        assert f"{first} + {one}" in texts(picture)


# ---------------------------------------------------------------------- ages in a plane


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_two_lines_show_how_much_longer_one_is(seed):
    first = prompts_by(NumericalPrompt, seed)
    second = 6.4 * prompts_by(NumericalPrompt, seed + 9) + 1
    picture = draw_lines({"before": first, "after": second})
    times = ((second[-1] - second[0]).norm() / (first[-1] - first[0]).norm()).item()
    assert label_problems(picture) == []
    assert f"the second {times:.1f} times as long" in picture.alternative_text
    title = f"Training made the line of ages {times:.0f} times as long, and left it straight"
    assert title in texts(picture)


def test_a_bent_line_is_called_bent():
    line, curve = (prompts_by(kind, 0) for kind in (NumericalPrompt, FourierPrompt))
    title = texts(draw_lines({"before": line, "after": curve}))[0]
    assert title.endswith("and bent it")


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("n_waves", [1, 2])
def test_the_curve_counts_its_directions(seed, n_waves):
    line = prompts_by(NumericalPrompt, seed)
    curve = prompts_by(FourierPrompt, seed, n_waves=n_waves)
    picture = draw_line_and_curve({"Affine": line, "Waves": curve})
    assert label_problems(picture) == []
    assert f"Affine: 1 direction; Waves: {2 * n_waves} directions" in picture.alternative_text


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("scales", [(1.0, 90.0), (1.0, 10.0), (10.0, 90.0)])
def test_the_angles_of_the_rays_are_those_after_a_layer_norm(seed, scales):
    lines = {}
    for scale in scales:
        prompts = prompts_by(NumericalPrompt, seed, scales=[scale])
        lines[f"÷ {scale:g}"] = prompts - prompts.mean(1, keepdim=True)
    picture = draw_directions(lines)
    assert label_problems(picture) == []
    shown = texts(picture)
    for name, prompts in lines.items():
        seen = layer_norm(prompts, prompts.shape[1:], eps=0)
        cosines = cosine_similarity(seen[:1].double(), seen.double()).clamp(-1, 1)
        turned = torch.rad2deg(cosines.arccos())
        words = ", ".join(f"{turned[age]:.1f}" for age in (0, 1, 15, 90))
        assert f"{name}: they have turned by {words} degrees" in picture.alternative_text
        for young, old in ((0, 1), (15, 90)):
            alike = bool(turned[old] - turned[young] < 5)
            assert (f"{name}, ages {young} and {old} look alike" in shown[0]) is alike
            assert (f"{young}, {old}" in shown) is alike or alike is False


@pytest.mark.parametrize("steep", [(0.5, 5, 50), (2, 3, 4)])
@pytest.mark.parametrize("most", [95.0, 40.0])
def test_the_turning_shows_where_half_of_it_is_done(steep, most):
    ages = np.arange(91)
    names = ("unscaled", "÷ 10", "÷ 90")
    angles = {n: most * ages / (ages + s) for n, s in zip(names, steep, strict=True)}
    picture = draw_turning(angles)
    assert label_problems(picture) == []
    for name, values in angles.items():
        half = next(age for age in ages if values[age] >= values[90] / 2)
        assert f"{name}: half by age {half}" in texts(picture)
        assert f"{half} ({name})" in picture.alternative_text


@pytest.mark.parametrize("n_waves", [3, 6])
@pytest.mark.parametrize("marked", [(0, 30), (40, 41, 80)])
def test_the_waves_show_the_numbers_of_their_ages(n_waves, marked):
    turns = 0.5 * 2.0 ** torch.arange(n_waves)
    angles = 2 * torch.pi * AGES / 90 * turns
    features = torch.cat([angles.sin(), angles.cos()], dim=1)
    picture = draw_waves(features, turns.tolist(), marked)
    assert label_problems(picture) == []
    assert f"{n_waves} waves turn an age into {2 * n_waves} numbers" in texts(picture)
    shown = texts(picture)
    for age in marked:
        assert f"age {age}" in shown
        assert {f"{x:.2f}" for x in features[age].tolist()} <= set(shown)
        assert f"Age {age}: sines {features[age, 0]:.2f}" in picture.alternative_text


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_two_sexes_lie_on_parallel_lines(seed):
    line = prompts_by(NumericalPrompt, seed)
    prompts = {"male": line, "female": line + torch.randn(24)}
    picture = draw_two_sexes(prompts, line[41] + 0.1 * torch.randn(24))
    assert label_problems(picture) == []
    assert "All 182 prompts lie on two parallel lines" in texts(picture)
    assert f"{(line[90] - line[0]).norm():.1f} long" in picture.alternative_text


@pytest.mark.parametrize("apart", [0.2, 1.0, 20.0])
def test_the_two_sexes_are_drawn_on_one_scale(apart):
    """The nearest dot of the picture is the nearest prompt."""
    line = prompts_by(NumericalPrompt, 0).double()
    other = torch.randn(24).double()
    other *= apart * (line[90] - line[0]).norm() / other.norm()
    vector = line[41] + 0.4 * other + 0.01 * torch.randn(24).double()
    picture = draw_two_sexes({"male": line, "female": line + other}, vector)
    axes = picture.figure.axes[-1]
    box = axes.get_window_extent()
    across = np.ptp(axes.get_xlim()) / box.width
    assert np.ptp(axes.get_ylim()) / box.height == pytest.approx(across)
    everybody = torch.cat([line, line + other])
    place = int((everybody - vector).norm(dim=1).argmin())
    words = f"the nearest dot ({('male', 'female')[place // 91]}, {place % 91})"
    assert words in picture.alternative_text
    assert label_problems(picture) == []


def test_waves_do_not_lie_on_lines():
    curve = prompts_by(FourierPrompt, 0)
    picture = draw_two_sexes({"male": curve, "female": curve + 1}, curve[3])
    assert texts(picture)[0].startswith("The 182 prompts do not lie")


# ---------------------------------------------------------------------- trained models


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(
    "names", [("line", "waves"), ("your line ÷ 90", "b", "c", "d", "a table")]
)
def test_the_codes_by_age_are_those_of_each_model(seed, names):
    rng = np.random.default_rng(seed)
    groups = ("newborn codes", "pregnancy codes")
    hospital, *models = (
        {group: rng.random(91) for group in groups} for _ in range(len(names) + 1)
    )
    models = dict(zip(names, models, strict=True))
    wrong = {name: share / 10 for name, share in zip(names, rng.random(len(names)), strict=True)}
    last = names[-1]
    models[last] = {group: hospital[group] + 0.01 for group in groups}
    models[last][groups[1]][25:30] = 0
    ends = (1, 5), (76, 90)
    picture = draw_by_age(hospital, models, wrong, unseen=(25, 29), ends=ends, whose="women")
    assert label_problems(picture) == []
    title = texts(picture)[0]
    assert title.endswith(f"Lost at ages never seen: {last}")
    good = [
        name
        for name, values in models.items()
        if all(
            abs((values[g] - hospital[g])[low : high + 1].mean()) < 0.07
            for g, (low, high) in zip(groups, ends, strict=True)
        )
    ]
    words = " and ".join(good)
    words = words if len(words) < 19 else f"{len(good)} models"
    assert title.startswith(f"Right at both ends of life: {words}. ")
    for name, values in models.items():
        assert f"{wrong[name]:.1%} impossible" in texts(picture)
        share = values["pregnancy codes"][25:30].mean()
        assert f"pregnancy codes at 25 to 29 {share:.0%}" in picture.alternative_text


@pytest.mark.parametrize(
    ("own", "title"),
    [
        (0.036, "Each of these models follows age and sex"),
        (0.2, "Not each of these models follows age and sex"),
    ],
)
def test_the_impossible_codes_are_those_of_each_model(own, title):
    shares = {
        "your straight line": (0.07, 0.2),
        "waves": (own, 0.227),
        "decoder alone": (0.09, 0.2),
    }
    picture = draw_impossible(shares)
    assert label_problems(picture) == []
    assert title in texts(picture)
    assert f"waves {own:.1%} and 22.7%" in picture.alternative_text
    assert {f"{own:.1%}", "7.0%", "9.0%"} <= set(texts(picture))


def test_two_models_without_codes_can_be_drawn():
    assert label_problems(draw_impossible({"waves": (0.0, 0.0), "a line": (0.0, 0.1)})) == []
