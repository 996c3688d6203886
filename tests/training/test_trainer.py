"""The trainer: its mathematics, its float16, and what it does when something goes wrong."""

from __future__ import annotations

import itertools
import math
import signal
from pathlib import Path

import polars as pl
import pytest
import small
import torch

from ehr_course.batches.plan import BatchPlan
from ehr_course.errors import InputError
from ehr_course.training import checkpoints
from ehr_course.training.config import TrainingConfig
from ehr_course.training.schedule import warmup_cosine
from ehr_course.training.trainer import Trainer, decay_groups

# ------------------------------------------------------------------ mathematics


def test_it_does_what_the_loop_in_the_open_does() -> None:
    made = small.trainer(dropout=0.0)
    made.run()
    model, dataset = small.model(dropout=0.0), small.dataset()
    optimizer = torch.optim.AdamW(decay_groups(model, 0.01), lr=2e-3, fused=True)
    schedule = warmup_cosine(optimizer, warmup_steps=3, total_steps=12)
    plan, steps = BatchPlan(dataset.lengths, 16, seed=0), 0
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


@pytest.mark.parametrize("accumulation", [2, 4, 16])
def test_a_batch_in_parts_gives_the_gradient_of_the_whole(accumulation: int) -> None:
    whole, parts = (
        small.trainer(dropout=0.0),
        small.trainer(dropout=0.0, accumulation=accumulation),
    )
    whole.run(), parts.run()
    for name, weight in small.weights(whole).items():
        torch.testing.assert_close(weight, small.weights(parts)[name], atol=2e-5, rtol=1e-3)
    assert parts.history.losses == pytest.approx(whole.history.losses, rel=1e-4)


def test_only_matrices_and_tables_decay() -> None:
    model = small.model()
    decays, stays = ({id(p) for p in group["params"]} for group in decay_groups(model, 0.1))
    names = {id(p): name for name, p in model.named_parameters()}
    assert decays | stays == set(names)
    assert all("bias" not in names[p] and "layer_norm" not in names[p] for p in decays)
    assert {n for p in stays if not (n := names[p]).endswith("bias")} == {
        n for n in names.values() if "layer_norm" in n or "layernorm" in n
    } - {n for n in names.values() if n.endswith("bias")}


def test_the_history_is_a_table_with_a_row_for_each_step(tmp_path: Path) -> None:
    made = small.trainer(tmp_path)
    history = made.run()
    table = history.table()
    assert table["step"].to_list() == list(range(1, 13))
    assert table["lr"].max() == pytest.approx(2e-3)
    assert table["tokens"].sum() == history.tokens > 0
    written = pl.read_csv(tmp_path / "history.csv")
    assert written["loss"].to_list() == pytest.approx(history.losses)
    history.write(tmp_path / "history.parquet")
    assert pl.read_parquet(tmp_path / "history.parquet").equals(table)
    with pytest.raises(InputError, match=r"\.csv or \.parquet"):
        history.write(tmp_path / "history.txt")


# ------------------------------------------------------------------ float16


def test_an_overflow_is_skipped_the_scale_halves_and_training_goes_on() -> None:
    made = small.trainer(precision="float16", initial_scale=2.0**40, steps=6)
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
    made = small.trainer(precision="float16", initial_scale=8.0, growth_interval=3, steps=7)
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
    plain = small.trainer(dropout=0.0, steps=1, precision="float16", initial_scale=1.0)
    scaled = small.trainer(dropout=0.0, steps=1, precision="float16", initial_scale=2.0**12)
    norms = [made.run().rows[0]["gradient_norm"] for made in (plain, scaled)]
    assert norms[0] == pytest.approx(norms[1], rel=0.02)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_an_overflow_is_skipped_on_a_gpu() -> None:
    config = TrainingConfig(
        steps=6, batch_size=16, lr=2e-3, precision="float16", initial_scale=2.0**40
    )
    made = Trainer(small.model(), small.dataset(), config, device="cuda")
    rows = made.run().rows
    assert rows[0]["skipped"] and not rows[-1]["skipped"]
    assert rows[1]["scale"] == rows[0]["scale"] / 2


# ------------------------------------------------------------------ evaluation


def test_the_validation_loss_is_the_mean_over_all_scored_tokens() -> None:
    made = small.trainer(validation=small.dataset(seed=5), steps=2, batch_size=9)
    history = made.run()
    total, count = 0.0, 0
    held_out = small.dataset(seed=5)
    for key in BatchPlan(held_out.lengths, 9, shuffle=False):
        with torch.no_grad():
            output = made.model(**held_out[key])
        total, count = total + float(output.loss_sum), count + int(output.loss_count)
    assert history.rows[-1]["validation_loss"] == pytest.approx(total / count, rel=1e-5)
    assert "validation_loss" not in history.rows[0]


def test_evaluation_does_not_change_what_comes_after() -> None:
    often = small.trainer(validation=small.dataset(), evaluate_every=1)
    never = small.trainer()
    often.run(), never.run()
    for name, weight in small.weights(never).items():
        assert torch.equal(weight, small.weights(often)[name])


def test_the_best_weights_are_kept_and_training_stops_when_nothing_gets_better(
    tmp_path: Path,
) -> None:
    scores = iter([3.0, 1.0, 2.0, 2.0, 9.0])
    seen = []

    def evaluate(model: torch.nn.Module) -> dict[str, float]:
        seen.append(model.model.shared.weight.detach().clone())
        return {"distance": next(scores)}

    made = small.trainer(
        tmp_path, evaluate=evaluate, metric="distance", evaluate_every=2, patience=2, steps=100
    )
    made.run()
    assert made.step == 8
    made.load_best()
    assert torch.equal(made.model.model.shared.weight, seen[1])


def test_a_metric_that_the_evaluation_lacks_is_refused() -> None:
    made = small.trainer(validation=small.dataset(), metric="accuracy", steps=1)
    with pytest.raises(InputError, match=r"the evaluation has no 'accuracy'\. It has: loss"):
        made.run()


def test_no_best_weights_is_said() -> None:
    with pytest.raises(InputError, match="no best weights"):
        small.trainer().load_best()


# ------------------------------------------------------------------ resuming


@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("stop", [1, 5, 7])
def test_a_resumed_training_is_bitwise_the_uninterrupted_one(
    tmp_path: Path, precision: str, stop: int
) -> None:
    settings = {"precision": precision, "initial_scale": 2.0**20, "growth_interval": 2}
    whole = small.trainer(tmp_path / "whole", checkpoint_every=1, **settings)
    expected = whole.run()
    first = small.trainer(tmp_path / "parts", checkpoint_every=1, **settings)
    after = first._after

    def stop_after(row: dict) -> None:
        after(row)
        if first.step == stop:
            raise KeyboardInterrupt

    first._after = stop_after
    with pytest.raises(KeyboardInterrupt):
        first.run()
    torch.manual_seed(99)
    second = small.trainer(tmp_path / "parts", checkpoint_every=1, **settings)
    assert second.step == stop
    history = second.run()
    for name, weight in small.weights(whole).items():
        assert torch.equal(weight, small.weights(second)[name]), name
    assert [row["loss"] for row in history.rows] == [row["loss"] for row in expected.rows]


def test_a_finished_training_is_not_trained_again(tmp_path: Path) -> None:
    first = small.trainer(tmp_path)
    first.run()
    again = small.trainer(tmp_path)
    assert len(again.run()) == 12
    assert torch.equal(again.model.lm_head.weight, first.model.lm_head.weight)


def test_two_checkpoints_stay(tmp_path: Path) -> None:
    small.trainer(tmp_path, checkpoint_every=2).run()
    assert [path.name for path in checkpoints.checkpoints(tmp_path)] == [
        "step-000010",
        "step-000012",
    ]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    files = sorted(file.name for file in (tmp_path / "step-000012").iterdir())
    assert files == [
        "model.safetensors",
        "optimizer.safetensors",
        "random.safetensors",
        "state.json",
    ]


@pytest.mark.parametrize("setting", [{"lr": 1e-3}, {"batch_size": 8}, {"seed": 1}, {"steps": 20}])
def test_a_checkpoint_of_another_training_is_refused_by_name_of_the_setting(
    tmp_path: Path, setting: dict
) -> None:
    small.trainer(tmp_path).run()
    (name,) = setting
    with pytest.raises(InputError, match=rf"step-000012, {name}: it was"):
        small.trainer(tmp_path, **setting)


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    small.trainer(tmp_path).run()
    with pytest.raises(InputError, match=r"the checkpoint has shape .*, this model shape"):
        Trainer(
            small.model(d_model=32),
            small.dataset(),
            TrainingConfig(**small.SETTINGS),
            folder=tmp_path,
            device="cpu",
        )


def test_a_checkpoint_of_other_patients_is_refused(tmp_path: Path) -> None:
    small.trainer(tmp_path).run()
    with pytest.raises(InputError, match="data: it was"):
        Trainer(
            small.model(),
            small.dataset(seed=3),
            TrainingConfig(**small.SETTINGS),
            folder=tmp_path,
            device="cpu",
        )


def test_a_damaged_checkpoint_is_named_with_the_way_out(tmp_path: Path) -> None:
    small.trainer(tmp_path, checkpoint_every=6).run()
    file = tmp_path / "step-000012" / "optimizer.safetensors"
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"step-000012: the checkpoint is damaged"):
        small.trainer(tmp_path, checkpoint_every=6)


# ------------------------------------------------------------------ bad luck


def test_a_full_disk_leaves_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = small.trainer(tmp_path, checkpoint_every=4)
    save_file = checkpoints.save_file
    written = []

    def full_later(tensors: dict, path: Path) -> None:
        written.append(path)
        if len(written) > 4:
            raise OSError(28, "No space left on device")
        save_file(tensors, path)

    monkeypatch.setattr(checkpoints, "save_file", full_later)
    with pytest.raises(InputError, match="No space left on device"):
        made.run()
    monkeypatch.undo()
    assert [path.name for path in checkpoints.checkpoints(tmp_path)] == ["step-000004"]
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    assert small.trainer(tmp_path, checkpoint_every=4).step == 4


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
        made._one_step(batch)


def test_an_interrupt_saves_and_says_how_to_go_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = small.trainer(tmp_path)
    after = made._after

    def interrupt(row: dict) -> None:
        after(row)
        if made.step == 5:
            signal.raise_signal(signal.SIGINT)

    made._after = interrupt
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        made.run()
    assert signal.getsignal(signal.SIGINT) == handler
    said = capsys.readouterr().out
    assert "Stopped after step 5." in said and str(tmp_path) in said
    assert small.trainer(tmp_path).step == 5


@pytest.mark.parametrize(
    "setting",
    [
        {"steps": 0},
        {"accumulation": 17},
        {"lr": 0.0},
        {"warmup_steps": 13},
        {"precision": "float8"},
        {"max_norm": 0.0},
        {"seed": -1},
    ],
)
def test_a_setting_out_of_range_is_named(setting: dict) -> None:
    (name,) = setting
    with pytest.raises(InputError, match=f"TrainingConfig, {name}"):
        TrainingConfig(**(small.SETTINGS | setting))
