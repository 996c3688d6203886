"""The drawings of lesson 14 show the objects that they are given, and can be read."""

from __future__ import annotations

from types import SimpleNamespace

import matplotlib.text
import pytest
import torch
from torch.nn.functional import cross_entropy

from ehr_course.batches.datasets import RecordDataset
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.plots.drawings.loss_functions import (
    draw_loss_path,
    draw_means,
    draw_token_losses,
    draw_votes,
)
from ehr_course.plots.drawings.loss_gradients import draw_penalties, draw_ways_back
from ehr_course.plots.drawings.loss_targets import draw_smoothing, draw_targets
from ehr_course.plots.overlaps import label_problems
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer


def texts(picture) -> list[str]:
    return [t.get_text() for t in picture.findobj(matplotlib.text.Text) if t.get_text().strip()]


@pytest.fixture(scope="module", params=[(0, 32, "narrow"), (1, 5, "tiny"), (2, 128, "narrow")])
def run(request):
    """A model that has learned nothing, a batch, and the loss of each place."""
    seed, n, size = request.param
    records = make_cohort(n, seed=seed)
    tokenizer = CodeTokenizer.from_records(records)
    torch.manual_seed(seed)
    model = PromptBart(PromptBartConfig.for_tokenizer(tokenizer, size)).eval()
    batch = RecordDataset(records, tokenizer, seed=seed).batch(range(n))
    with torch.no_grad():
        logits = model(**batch | {"labels": None}).logits
    losses = cross_entropy(logits.mT, batch["labels"], reduction="none")
    return SimpleNamespace(model=model, batch=batch, losses=losses, tokenizer=tokenizer)


# ---------------------------------------------------------------------- a batch


def test_the_means_are_those_that_were_given(run):
    scored = run.batch["labels"] != -100
    means = {"all places": run.losses.mean(), "scored places": run.losses[scored].mean()}
    picture = draw_means(run.losses, scored, means)
    assert label_problems(picture) == []
    for value in means.values():
        assert f"{value:.3f}" in texts(picture)
        assert f"{value:.3f}" in picture.alternative_text
    assert f"the loss of each place ({scored.float().mean():.0%} are scored)" in texts(picture)


def test_the_path_shows_counts_of_model_and_batch(run):
    picture = draw_loss_path(run.model, run.batch, run.losses)
    assert label_problems(picture) == []
    labels = run.batch["labels"]
    n_scored = int((labels != -100).sum())
    n_weights = sum(p.numel() for p in run.model.parameters())
    mean = run.losses.sum() / n_scored
    shown = "\n".join(texts(picture))
    for words in (
        f"{n_weights:,}\nweights",
        f"{labels.shape[0]} × {labels.shape[1]} × {len(run.tokenizer)}",
        f"{n_scored} losses\nof {labels.numel():,} places",
        f"= {mean:.3f}",
    ):
        assert words in shown
    assert f"{n_scored} losses" in picture.alternative_text


@pytest.mark.parametrize("row", [0, 1, 3])
def test_the_bars_are_the_losses_of_a_record(run, row):
    here = run.batch["labels"][row] != -100
    tokens = run.tokenizer.tokens(run.batch["labels"][row][here].tolist())
    read = run.tokenizer.tokens(run.batch["input_ids"][row].tolist())
    losses = run.losses[row][here]
    picture = draw_token_losses(tokens, losses, read)
    assert label_problems(picture) == []
    assert f"the mean is {losses.mean():.2f}" in picture.alternative_text
    for token, loss in list(zip(tokens, losses.tolist(), strict=True))[:5]:
        assert f"{token} {loss:.2f}" in picture.alternative_text
        assert f"{loss:.2f}" in texts(picture)


@pytest.mark.parametrize("read", [["<mask>"], ["4019", "4280"], ["4280"]])
def test_a_code_is_lost_that_the_encoder_does_not_read(read):
    tokens = ["<BOS>", "4019", "4280", "<EOS>"]
    picture = draw_token_losses(tokens, [0.0, 1.0, 3.0, 0.0], read)
    assert label_problems(picture) == []
    n_lost = 2 - sum(token in read for token in tokens)
    assert f"{n_lost} {'is' if n_lost == 1 else 'are'} lost" in picture.alternative_text
    share = {2: "2 lost codes carry 100%", 1: "1 lost code carries 25%", 0: "2 codes carry 100%"}
    assert any(text.startswith(share[n_lost]) for text in texts(picture))


@pytest.mark.parametrize(("few", "many"), [(20, 114), (3, 60), (9, 10)])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_votes_follow_from_the_counts(few, many, seed):
    torch.manual_seed(seed)
    parts = {"short": torch.rand(few), "long": 2 * torch.rand(many)}
    picture = draw_votes(parts)
    assert label_problems(picture) == []
    whole = torch.cat(list(parts.values())).mean()
    means = sum(losses.mean() for losses in parts.values()) / 2
    assert {f"loss {whole:.3f}", f"loss {means:.3f}"} <= set(texts(picture))
    assert f"counts {many / few:.1f} times" in texts(picture)[0]
    assert f"it is {means:.3f}" in picture.alternative_text


# ---------------------------------------------------------------------- targets


@pytest.mark.parametrize("smoothing", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("tokens", [["4019", "4280", "<v>"], ["4019", "E8859", "1", "2", "<\\v>"]])
def test_the_targets_add_up_to_one(tokens, smoothing):
    picture = draw_targets(tokens, right=1, smoothing=smoothing)
    assert label_problems(picture) == []
    best = 1 - smoothing + smoothing / len(tokens)
    assert f"lowest: {best:.2f}" in texts(picture)
    assert f"{smoothing / len(tokens):.2f} on each other token" in picture.alternative_text
    points = [line for axes in picture.axes for line in axes.lines if line.get_marker() == "o"]
    assert points[0].get_xdata()[0] == pytest.approx(best)
    curve = max(
        (line for axes in picture.axes[1:] for line in axes.lines if len(line.get_xdata()) > 9),
        key=lambda line: min(line.get_ydata()),
    )
    # The curve is lowest where the mark stands.
    assert min(curve.get_ydata()) == pytest.approx(points[0].get_ydata()[0], abs=1e-3)


@pytest.mark.parametrize("gain", [-0.4, 0.1])
def test_smoothing_costs_or_saves(gain):
    def one(loss, sure, right):
        return SimpleNamespace(loss=loss, sure=sure, right=right)

    judged = {
        (3_200, 0.0): one(2.6, 0.40, 0.39),
        (3_200, 0.1): one(2.6 - gain, 0.36, 0.39),
        (60, 0.0): one(5.3, 0.97, 0.02),
        (60, 0.1): one(4.5, 0.48, 0.3),
    }
    picture = draw_smoothing(judged)
    assert label_problems(picture) == []
    said = "costs 0.40 nats with 3,200" if gain < 0 else "saves 0.10 nats with 3,200"
    assert said in texts(picture)[0]
    assert "saves 0.80 nats with 60" in texts(picture)[0]
    assert {"2% right, 97% sure", "39% right, 36% sure"} <= set(texts(picture))
    assert f"loss {2.6 - gain:.2f} on new patients" in picture.alternative_text


# ---------------------------------------------------------------------- gradients


@pytest.mark.parametrize("seed", [0, 1])
def test_a_number_has_a_way_back_if_its_tensor_has(seed):
    torch.manual_seed(seed)
    p = torch.randn(4, 6, requires_grad=True).softmax(-1)
    made_of = {
        "pairs": ("ids", torch.tensor(float(seed))),
        "favourites": ("argmax", p.argmax(-1).float().mean()),
        "entropy": ("p", -(p * p.log()).sum(-1).mean()),
        "probability": ("p", p[:, 0].mean()),
    }
    picture = draw_ways_back(made_of)
    assert label_problems(picture) == []
    shown = texts(picture)
    assert shown.count("gradient") == 2
    assert shown.count("no gradient") == 2
    assert "2 of these 4 numbers can move a weight" in shown
    assert "With a gradient: entropy, probability." in picture.alternative_text
    assert f"probability: {made_of['probability'][1]:.3g}" in shown


def test_what_is_detached_has_no_way_back():
    value = torch.ones((), requires_grad=True)
    picture = draw_ways_back({"one": ("p", value), "other": ("p", value.detach())})
    assert label_problems(picture) == []
    assert texts(picture).count("no gradient") == 1


@pytest.mark.parametrize("pairs", [0.0, 0.053, 1.0])
def test_the_penalties_show_what_was_measured(pairs):
    measured = {0.0: (2.62, 0.0132, 0.207), 0.05: (2.61, 0.013, 0.167), 10.0: (2.7, 0.0, pairs)}
    picture = draw_penalties(measured, in_real=0.03)
    assert label_problems(picture) == []
    shown = set(texts(picture))
    assert {"1.32%", "2.70 nats", f"{pairs:.1%}", "weight 0.05", "3.0% of real patients"} <= shown
    assert f"{pairs:.1%} of the written patients" in picture.alternative_text
    assert "Of real patients 3.0% have one." in picture.alternative_text
    assert "21.0% of real patients" in texts(draw_penalties(measured, in_real=0.21))
