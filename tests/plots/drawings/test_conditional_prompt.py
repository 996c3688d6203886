"""The drawings of lesson 12 show the objects that they are given, and can be read."""

from __future__ import annotations

import matplotlib.text
import numpy as np
import pytest
import torch

from ehr_course.models.conditional_prompt import FourierPrompt, NumericalPrompt
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.plots.drawings.age_encoders import (
    draw_line_and_curve,
    draw_lines,
    draw_readout,
)
from ehr_course.plots.drawings.conditional_prompt import (
    draw_positions,
    draw_prompt_path,
    draw_scale,
    draw_table,
)
from ehr_course.plots.drawings.overlaps import label_problems
from ehr_course.plots.drawings.patients_by_prompt import (
    draw_chapters,
    draw_impossible,
    elsewhere,
)
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


@pytest.mark.parametrize("seed", [0, 1])
def test_the_readout_shows_the_share_explained(seed):
    goal = ((AGES >= 15) & (AGES <= 44)).double()[:, 0]
    read = {}
    for name, kind in (("line", NumericalPrompt), ("waves", FourierPrompt)):
        inputs = torch.cat([prompts_by(kind, seed), torch.ones(91, 1)], 1).double()
        read[name] = {"15 to 44": inputs @ torch.linalg.pinv(inputs) @ goal}
    picture = draw_readout({"15 to 44": goal}, read)
    assert label_problems(picture) == []
    shares = [1 - ((goal - one["15 to 44"]).var() / goal.var()).item() for one in read.values()]
    assert f"line {shares[0]:.0%}, waves {shares[1]:.0%}" in picture.alternative_text
    assert f"Ages 15 to 44: {shares[0]:.0%} can be read" in " ".join(texts(picture))


@pytest.mark.parametrize(("long", "short"), [(233.4, 4.3), (86.8, 0.6)])
@pytest.mark.parametrize("alike", [(0.9992, 0.857), (0.97, 0.2)])
def test_the_scale_shows_lengths_and_angles(long, short, alike):
    ways = ("as it is", "÷ 90")
    picture = draw_scale(
        dict(zip(ways, (long, short), strict=True)),
        dict(zip(ways, alike, strict=True)),
        [65, 20, 80],
    )
    assert label_problems(picture) == []
    angles = np.degrees(np.arccos(alike))
    assert f"as it is: {angles[0]:.0f}°" in texts(picture)
    assert f"÷ 90 {angles[1]:.1f} degrees" in picture.alternative_text
    assert {f"{long:.1f}", f"{short:.1f}"} < set(texts(picture))


# ---------------------------------------------------------------------- trained models


GROUPS = ["0", "1–14", "15–29", "30–44", "45–59", "60–74", "75–90"]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("n_groups", [3, 7])
def test_the_chapters_show_what_is_misplaced(seed, n_groups):
    rng = np.random.default_rng(seed)
    hospital, line, waves = rng.dirichlet(np.full(19, 0.3), size=(3, n_groups))
    shares = {"the hospital": hospital, "your straight line": line, "waves": waves}
    picture = draw_chapters(shares, range(1, 20), GROUPS[:n_groups], whose="women")
    assert label_problems(picture) == []
    for name, one in (("your straight line", line), ("waves", waves)):
        share = np.maximum(hospital - one, 0).sum(axis=1).mean()
        assert f"{name}: {share:.0%} misplaced" in texts(picture)
        assert f"{name}: {share:.0%} misplaced" in picture.alternative_text


def test_what_lies_elsewhere_is_what_would_have_to_move():
    one, other = np.array([[0.5, 0.5, 0.0]]), np.array([[0.2, 0.5, 0.3]])
    assert elsewhere(one, other) == pytest.approx(0.3)
    assert elsewhere(one, one) == 0


@pytest.mark.parametrize(
    ("own", "title"),
    [
        (0.036, "Every model follows age and sex, fewest mistakes: waves"),
        (0.2, "Not every model follows age and sex, fewest mistakes: your straight line"),
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
