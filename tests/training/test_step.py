"""The steps of the trainer: their mathematics, float16, and the learning rate."""

from __future__ import annotations

import itertools
import math
from functools import partial
from pathlib import Path

import pytest
import small
import torch
from torch.optim.lr_scheduler import LambdaLR
from transformers import get_cosine_schedule_with_warmup

from ehr_course.batches.sampler import LengthBatchSampler
from ehr_course.errors import InputError
from ehr_course.training import checkpoints
from ehr_course.training.config import TrainingConfig
from ehr_course.training.trainer import Trainer, decay_groups, warmup_cosine_factor


def test_it_does_what_the_loop_in_the_open_does() -> None:
    made = small.trainer(dropout=0.0)
    made.run()
    model, dataset = small.model(dropout=0.0), small.dataset()
    optimizer = torch.optim.AdamW(decay_groups(model, 0.01), lr=2e-3, fused=True)
    rate = partial(warmup_cosine_factor, warmup_steps=3, total_steps=12)
    schedule = LambdaLR(optimizer, rate)
    plan, steps = LengthBatchSampler(dataset.lengths, 16, seed=0), 0
    model.train()
    for epoch in range(3):
        plan.set_epoch(epoch)
        for key in plan:
            if steps == 12:
                break
            model(**dataset[key]).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            steps += 1
    for name, weight in model.named_parameters():
        torch.testing.assert_close(weight, small.weights(made)[name], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("accumulation", "heads"), [(2, False), (4, True), (16, False)])
def test_a_batch_in_parts_gives_the_gradient_of_the_whole(accumulation: int, heads: bool) -> None:
    settings = {"dropout": 0.0, "heads": heads, "steps": 6}
    whole, parts = (
        small.trainer(**settings),
        small.trainer(gradient_accumulation_steps=accumulation, **settings),
    )
    whole.run(), parts.run()
    for name, weight in small.weights(whole).items():
        torch.testing.assert_close(weight, small.weights(parts)[name], atol=2e-5, rtol=1e-3)
    for column in ("loss", "age", "sex") if heads else ("loss",):
        expected, found = (made.history.table()[column].to_list() for made in (whole, parts))
        assert found == pytest.approx(expected, rel=1e-4), column


def test_the_loss_of_a_model_with_heads_is_the_weighted_sum_of_its_terms() -> None:
    (row,) = small.trainer(heads=True, steps=1, dropout=0.0).run().rows
    (key, *_) = LengthBatchSampler(small.dataset().lengths, 16, seed=0)
    output = small.model(dropout=0.0, **small.HEADS).train()(**small.dataset()[key])
    for term in output.terms:
        assert row[term.name] == pytest.approx(term.total.item() / term.count.item(), rel=1e-5)
    expected = row["language_model"] + 0.5 * row["age"] + 0.3 * row["sex"]
    assert row["loss"] == pytest.approx(expected)


def test_only_matrices_and_tables_decay() -> None:
    model = small.model()
    decays, stays = ({id(p) for p in group["params"]} for group in decay_groups(model, 0.1))
    names = {id(p): name for name, p in model.named_parameters()}
    assert decays | stays == set(names)
    assert all("bias" not in names[p] and "layer_norm" not in names[p] for p in decays)
    assert {n for p in stays if not (n := names[p]).endswith("bias")} == {
        n for n in names.values() if "layer_norm" in n or "layernorm" in n
    } - {n for n in names.values() if n.endswith("bias")}


def test_an_overflow_is_skipped_the_scale_halves_and_training_goes_on() -> None:
    made = small.trainer(precision="float16", init_scale=2.0**40, steps=6)
    history = made.run()
    rows = history.rows
    skipped = list(itertools.takewhile(lambda row: row["skipped"], rows))
    assert len(skipped) > 10
    assert [row["scale"] for row in skipped] == [2.0 ** (40 - i) for i in range(len(skipped))]
    # A skipped step moves neither the weights nor the schedule.
    assert {row["step"] for row in skipped} == {0}
    assert {row["lr"] for row in skipped} == {rows[len(skipped)]["lr"]}
    assert made.step == len(history.losses) == 6


def test_the_scale_grows_after_good_steps() -> None:
    made = small.trainer(precision="float16", init_scale=8.0, growth_interval=3, steps=7)
    made.run()
    assert [row["scale"] for row in made.history.rows] == [8.0] * 3 + [16.0] * 3 + [32.0]


@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_half_precision_learns_what_float32_learns(precision: str) -> None:
    full = small.trainer(dropout=0.0).run()
    half = small.trainer(dropout=0.0, precision=precision).run()
    assert half.losses == pytest.approx(full.losses, rel=0.03)
    assert half.losses != full.losses


def test_weights_and_optimizer_stay_float32_in_float16() -> None:
    made = small.trainer(precision="float16")
    made.run()
    assert {p.dtype for p in made.model.parameters()} == {torch.float32}
    memory = next(iter(made.optimizer.state.values()))
    assert memory["exp_avg"].dtype == torch.float32


def test_the_gradient_is_unscaled_before_it_is_clipped() -> None:
    plain = small.trainer(dropout=0.0, steps=1, precision="float16", init_scale=1.0)
    scaled = small.trainer(dropout=0.0, steps=1, precision="float16", init_scale=2.0**12)
    norms = [made.run().rows[0]["gradient_norm"] for made in (plain, scaled)]
    assert norms[0] == pytest.approx(norms[1], rel=0.02)


@pytest.mark.parametrize(
    ("precision", "skipped"), [("float32", 0), ("bfloat16", 0), ("float16", 4)]
)
def test_a_gradient_that_never_is_a_number_stops_the_training(
    tmp_path: Path, precision: str, skipped: int
) -> None:
    made = small.trainer(tmp_path, precision=precision, init_scale=16.0, checkpoint_every=1)
    before, calls = small.weights(made), itertools.count()

    def spoil(gradient: torch.Tensor) -> torch.Tensor:
        assert next(calls) < 20, "the training goes on"
        return gradient * math.nan

    made.model.lm_head.weight.register_hook(spoil)
    place = rf"training, epoch 0, batch {skipped}: the norm of the gradient is nan\. Lower"
    with pytest.raises(InputError, match=place):
        made.run()
    assert [row["skipped"] for row in made.history.rows] == [True] * skipped
    assert all(torch.equal(before[name], weight) for name, weight in small.weights(made).items())
    assert checkpoints.checkpoints(tmp_path) == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_an_overflow_is_skipped_on_a_gpu() -> None:
    config = TrainingConfig(
        steps=6, batch_size=16, lr=2e-3, precision="float16", init_scale=2.0**40
    )
    made = Trainer(small.model(), small.dataset(), config, device="cuda")
    rows = made.run().rows
    assert rows[0]["skipped"] and not rows[-1]["skipped"]
    assert rows[1]["scale"] == rows[0]["scale"] / 2


def test_a_loss_that_is_no_number_names_its_batch_and_keeps_the_checkpoint(
    tmp_path: Path,
) -> None:
    made = small.trainer(tmp_path, checkpoint_every=3)
    after = made._after

    def spoil(row: dict) -> None:
        after(row)
        if made.step == 7:
            made.model.final_logits_bias.fill_(math.nan)

    made._after = spoil
    with pytest.raises(InputError, match=r"training, epoch 1, batch 2: the loss is nan"):
        made.run()
    assert checkpoints.checkpoints(tmp_path)[-1].name == "step-000006"


def test_a_batch_without_a_scored_token_is_named() -> None:
    made = small.trainer()
    batch = small.dataset().batch([0, 1])
    batch["labels"].fill_(-100)
    with pytest.raises(InputError, match=r"epoch 0, batch 0: the batch has no scored token"):
        made._take_step(batch)


# ------------------------------------------------------------------ the learning rate


def factors(warmup_steps: int, steps: int) -> list[float]:
    return [
        warmup_cosine_factor(step, warmup_steps=warmup_steps, total_steps=50)
        for step in range(steps)
    ]


def test_after_the_warm_up_it_is_the_cosine_of_transformers() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    (theirs,) = get_cosine_schedule_with_warmup(optimizer, 10, 50).lr_lambdas
    assert factors(10, 51)[10:] == pytest.approx([theirs(step) for step in range(10, 51)])


def test_the_warm_up_rises_in_equal_parts_and_wastes_no_step() -> None:
    assert factors(4, 4) == pytest.approx([0.25, 0.5, 0.75, 1.0])


@pytest.mark.parametrize("step", [50, 51, 1000])
def test_the_rate_is_zero_at_the_end_and_stays_there(step: int) -> None:
    assert warmup_cosine_factor(step, warmup_steps=10, total_steps=50) == 0.0


def test_without_a_warm_up_it_begins_at_the_peak() -> None:
    assert warmup_cosine_factor(0, warmup_steps=0, total_steps=50) == 1.0
