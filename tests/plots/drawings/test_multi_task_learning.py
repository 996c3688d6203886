"""The drawings of lesson 13: their numbers are those of the objects that they were given."""

import numpy as np
import polars as pl
import pytest
import torch

from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.plots.auxiliary_weights import NO_HEADS, Setting, runs_of
from ehr_course.plots.drawings.lying_prompts import (
    draw_lies,
    draw_right_by_codes,
    draw_told_ages,
    follows,
)
from ehr_course.plots.drawings.multi_task_learning import (
    draw_answers,
    draw_brackets,
    draw_questions,
    draw_readers,
    draw_sweep,
)
from ehr_course.plots.overlaps import label_problems
from ehr_course.tokenizers.codes import CodeTokenizer

RECORD = ["<EOS>", "<BOS>", "<v>", "65971", "E8859", "V270", "<\\v>", "<EOS>", "<PAD>", "<PAD>"]


def model_of(n_codes: int, **changes) -> PromptBart:
    tokenizer = CodeTokenizer([f"{code}" for code in range(1000, 1000 + n_codes)])
    fields = {"age_weight": 0.3, "sex_weight": 0.2} | changes
    return PromptBart(PromptBartConfig.for_tokenizer(tokenizer, "narrow", **fields))


def texts(picture) -> list[str]:
    return [text.get_text() for axes in picture.axes for text in axes.texts]


MODELS = [model_of(30), model_of(400, age_weight=0.05, sex_weight=3.0, prompt_combination="sum")]


# ---------------------------------------------------------------------- what a head reads


@pytest.mark.parametrize("model", MODELS, ids=["two prompts", "one prompt"])
@pytest.mark.parametrize("n_tokens", [4, 7])
def test_the_questions_show_their_scores_and_weights(model, n_tokens):
    picture = draw_questions(model, RECORD[:n_tokens])
    assert label_problems(picture) == []
    shown, size = texts(picture), model.config.vocab_size
    assert f"next token?\n{size} scores" in shown
    assert "which age bracket?\n6 scores" in shown
    for weight in (model.config.age_weight, model.config.sex_weight):
        assert f"weight {weight:g}" in shown
        assert f"{weight:g}" in picture.alternative_text
    n_parameters = sum(p.numel() for p in model.parameters())
    assert f"of {n_parameters:,} parameters" in picture.alternative_text
    assert f"{n_tokens} tokens enter" in picture.alternative_text
    assert "encoder" in shown
    own = "2 prompts" if model.config.prompt_combination == "concat" else "1 prompt"
    assert f"The encoder has {own}, and" in picture.alternative_text


@pytest.mark.parametrize("at", [2, 5])
@pytest.mark.parametrize(
    ("model", "prompts"), [(MODELS[0], "2 prompts"), (MODELS[1], "1 prompt")], ids=["2", "1"]
)
def test_the_readers_show_what_each_head_has_read(model, prompts, at):
    picture = draw_readers(model, RECORD[:6], at=at)
    assert label_problems(picture) == []
    assert f"reads {prompts} and {at + 1} tokens" in texts(picture)
    assert f"reads {at + 1} tokens and no prompt" in texts(picture)
    assert f"the mean of {at + 1} tokens" in picture.alternative_text
    assert "encoder" in texts(picture)
    assert f"the encoder, which has {prompts} of its own" in picture.alternative_text


# ---------------------------------------------------------------------- which answers count


@pytest.mark.parametrize("more", [0, 3, 40])
def test_the_answers_that_count_are_those_with_a_label(more):
    rows = [RECORD + ["<PAD>"] * more, RECORD[:6] + ["4280"] * (4 + more)]
    labels = np.array([[7] * 7 + [-100] * (3 + more), [7] * (10 + more)])
    picture = draw_answers(rows, labels, [1, 0], MODELS[0])
    assert label_problems(picture) == []
    total = 2 * (12 + more)
    assert f"Of {total} answers {17 + more} count" in texts(picture)[0]
    assert f"{17 + more} of {total}" in picture.alternative_text
    assert f"at places 7, {10 + more} of" in picture.alternative_text
    if more <= 3:
        assert texts(picture).count("F") == 7
        assert texts(picture).count("M") == 10 + more
    else:
        assert "…" in texts(picture)


# ---------------------------------------------------------------------- brackets


@pytest.mark.parametrize("seed", [0, 1])
def test_the_brackets_show_the_share_of_the_largest(seed):
    rng = np.random.default_rng(seed)
    ages = torch.tensor(rng.integers(18 * seed, 91, 300)).float()
    bounds = {"ours": (18, 30, 50, 65, 80), "others": (2, 12, 18, 40, 65)}
    picture = draw_brackets(ages, bounds)
    assert label_problems(picture) == []
    for begins in bounds.values():
        begins = torch.tensor(begins).float()
        share = torch.bucketize(ages, begins, right=True).bincount().max() / 300
        assert f"{share:.0%}" in texts(picture)[0]
        assert f"the largest with {share:.0%}" in picture.alternative_text
    assert f"{(ages == 90).float().mean():.1%} of them at 90" in picture.alternative_text


# ---------------------------------------------------------------------- lies

OBEYS = {"codes of men": (0.02, 0.97), "codes of women": (0.03, 0.99)}
HONEST = {"codes of men": (0.26, 0.26), "codes of women": (0.61, 0.61)}


@pytest.mark.parametrize(
    ("heads", "title"),
    [
        (
            {"head on states": OBEYS},
            "The head names the sex in the prompt, whatever the codes are",
        ),
        ({"head on codes": HONEST}, "The head does not always name the sex in the prompt"),
        (
            {"head on states": OBEYS, "no prompt": OBEYS, "head on codes": HONEST},
            "All but the head on codes follow the prompt",
        ),
        (
            {
                "head on states": OBEYS,
                "head behind detach()": OBEYS,
                "no prompt in the decoder": OBEYS,
                "head on codes": HONEST,
            },
            "All but the head on codes follow the prompt",
        ),
    ],
    ids=["states", "codes", "three", "four"],
)
def test_the_lies_show_what_each_head_says(heads, title):
    picture = draw_lies(heads)
    assert label_problems(picture) == []
    assert texts(picture)[0] == title
    for shares in heads.values():
        for row, (man, woman) in shares.items():
            assert {f"{man:.0%}", f"{woman:.0%}"} <= set(texts(picture))
            assert f"{row} {man:.0%} and {woman:.0%}" in picture.alternative_text


def test_a_head_that_one_row_moves_differently_does_not_follow_the_prompt():
    assert follows(OBEYS)
    assert not follows(OBEYS | {"random codes": (0.5, 0.6)})


@pytest.mark.parametrize(("wrong", "patients"), [(0, 20), (5, 10)])
def test_the_told_ages_show_how_often_the_head_obeys(wrong, patients):
    told = torch.arange(0.0, 91.0, 10.0)  # (10,)
    bounds = (18, 30, 50, 65, 80)
    named = torch.bucketize(told, torch.tensor(bounds).float(), right=True)
    named = named[:, None].repeat(1, patients)
    named[2, :wrong] = 5
    picture = draw_told_ages(told, named, bounds)
    assert label_problems(picture) == []
    obeyed = 1 - wrong / (10 * patients)
    assert f"in {obeyed:.0%} of its answers" in texts(picture)[0]
    assert f"for {patients} patients" in picture.alternative_text
    assert f"In {obeyed:.0%} of the answers" in picture.alternative_text


@pytest.mark.parametrize("most", [0.9, 0.97])
def test_the_curves_begin_and_end_where_the_shares_do(most):
    right = {
        "head on states": [1.0] * 11,
        "on codes, one sex": np.linspace(0.5, most, 11).tolist(),
        "on codes, others": [0.52, 0.46],
        "nobody": [],
    }
    asked = {"with": [round(100 * most)] * 11, "without": [226, 225]}
    picture = draw_right_by_codes(right, asked)
    assert label_problems(picture) == []
    assert f"on codes, one sex: 50% at the start, {most:.0%} after 10" in picture.alternative_text
    assert "right in 100% of cases" in texts(picture)[0]
    assert texts(picture).count(f"{100 * most:.0f}") == 11
    assert (
        f"with, {100 * most:.0f} at the start, {100 * most:.0f} after" in picture.alternative_text
    )
    assert "nobody" not in texts(picture)


# ---------------------------------------------------------------------- the sweep


@pytest.mark.parametrize(
    ("change", "title"),
    [
        (2.0, "By the rule, none of 4 values is better than without heads; 4 are worse"),
        (1.001, "By the rule, none of 4 values is better than without heads; 0 are worse"),
        (0.5, "By the rule, 4 of 4 values are better than without heads; 0 are worse"),
    ],
)
def test_the_sweep_counts_what_differs_from_no_heads(change, title):
    settings = {
        NO_HEADS: 1.0,
        Setting(0.3, 0.2, "states"): change,
        Setting(3, 3, "states"): change,
    }
    sweep = pl.DataFrame(
        [
            {**setting._asdict(), "seed": seed}
            | dict.fromkeys(("impossible", "loss"), times * (0.1 + 0.002 * seed))
            for setting, times in settings.items()
            for seed in range(3)
        ]
    )
    picture = draw_sweep({name: runs_of(sweep, name) for name in ("impossible", "loss")})
    assert label_problems(picture) == []
    assert texts(picture)[0] == title
    star = " *" if change != 1.001 else ""
    assert f"{0.102 * change:.4f} ± {0.002 * change:.4f}{star}" in texts(picture)
