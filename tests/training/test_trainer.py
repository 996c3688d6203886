"""The trainer: its mathematics, its float16, and what it does when something goes wrong."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import os
import signal
import sys
import types
from pathlib import Path

import polars as pl
import pytest
import small
import torch

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.plan import BatchPlan
from ehr_course.errors import InputError
from ehr_course.training import best, checkpoints
from ehr_course.training.config import TrainingConfig
from ehr_course.training.history import TrainingHistory
from ehr_course.training.optimization import warmup_cosine
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


@pytest.mark.parametrize(("accumulation", "heads"), [(2, False), (4, True), (16, False)])
def test_a_batch_in_parts_gives_the_gradient_of_the_whole(accumulation: int, heads: bool) -> None:
    settings = {"dropout": 0.0, "heads": heads, "steps": 6}
    whole, parts = small.trainer(**settings), small.trainer(accumulation=accumulation, **settings)
    whole.run(), parts.run()
    for name, weight in small.weights(whole).items():
        torch.testing.assert_close(weight, small.weights(parts)[name], atol=2e-5, rtol=1e-3)
    for column in ("loss", "age", "sex") if heads else ("loss",):
        expected, found = (made.history.table()[column].to_list() for made in (whole, parts))
        assert found == pytest.approx(expected, rel=1e-4), column


def test_the_loss_of_a_model_with_heads_is_the_weighted_sum_of_its_terms() -> None:
    (row,) = small.trainer(heads=True, steps=1, dropout=0.0).run().rows
    (key, *_) = BatchPlan(small.dataset().lengths, 16, seed=0)
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


@pytest.mark.parametrize(
    ("precision", "skipped"), [("float32", 0), ("bfloat16", 0), ("float16", 4)]
)
def test_a_gradient_that_never_is_a_number_stops_the_training(
    tmp_path: Path, precision: str, skipped: int
) -> None:
    made = small.trainer(tmp_path, precision=precision, initial_scale=16.0, checkpoint_every=1)
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


@pytest.mark.parametrize("batch_size", [70, 16])
def test_the_validation_loss_of_a_model_with_heads_is_that_of_one_large_batch(
    batch_size: int,
) -> None:
    held_out = small.dataset(corruption=Corruption(p_visit=0))
    made = small.trainer(validation=held_out, heads=True, batch_size=batch_size)
    with torch.no_grad():
        whole = float(made.model.eval()(**held_out.batch(range(70))).loss)
    assert made.evaluate()["loss"] == pytest.approx(whole, rel=1e-5)


def test_validation_patients_of_whom_nothing_is_scored_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held_out = small.dataset()
    batch = held_out.batch([0]) | {"labels": torch.full((1, 6), -100)}
    batch["decoder_input_ids"] = torch.full((1, 6), 2)
    monkeypatch.setattr(type(held_out), "__getitem__", lambda self, key: batch)
    with pytest.raises(InputError, match="validation: no token is scored"):
        small.trainer(validation=held_out).evaluate()


def test_evaluation_does_not_change_what_comes_after() -> None:
    def draw(model: torch.nn.Module) -> dict[str, float]:
        assert not model.training and not torch.is_grad_enabled()
        return {"drawn": torch.rand(())}

    often = small.trainer(validation=small.dataset(), evaluate=draw, evaluate_every=1)
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
    # Nobody evaluates or trains again what has stopped early, unless there is more patience.
    settings = {"evaluate": evaluate, "metric": "distance", "evaluate_every": 2, "steps": 100}
    again = small.trainer(tmp_path, patience=2, **settings)
    assert len(again.run()) == again.step == 8 and len(seen) == 4
    assert not small.trainer(tmp_path, patience=3, **settings).is_finished


@pytest.mark.parametrize(
    ("scores", "is_given_up"),
    [
        ([3.0, 4.0, 2.0, 4.0], False),  # two without a better one, and not in a row
        ([3.0, 4.0, 3.0], True),  # as good is no better
        ([math.nan, math.nan], True),
    ],
)
def test_patience_ends_after_two_evaluations_in_a_row_without_a_better(
    scores: list[float], is_given_up: bool
) -> None:
    judge = best.BestModel("loss", patience=2)
    for score in scores:
        judge.judge({"loss": score})
    assert judge.is_given_up == is_given_up


def test_a_resumed_training_remembers_how_good_the_best_was(tmp_path: Path) -> None:
    scores = iter([1.0, 2.0, math.nan, 1.5])

    def evaluate(model: torch.nn.Module) -> dict[str, float]:
        return {"loss": next(scores)}

    settings = {"evaluate": evaluate, "evaluate_every": 1, "checkpoint_every": 1, "steps": 4}
    made = small.trainer(tmp_path, **settings)
    stop_after(made, 1)
    with pytest.raises(KeyboardInterrupt):
        made.run()
    best = small.weights(made)
    resumed = small.trainer(tmp_path, **settings)
    resumed.run()
    resumed.load_best()
    assert all(torch.equal(best[name], now) for name, now in small.weights(resumed).items())
    again = small.trainer(tmp_path, patience=3, **settings)
    assert again.is_finished and again.history.rows[-1]["validation_loss"] == 1.5


def test_a_metric_that_the_evaluation_lacks_is_refused() -> None:
    made = small.trainer(validation=small.dataset(), metric="accuracy", steps=1)
    with pytest.raises(InputError, match=r"the evaluation has no 'accuracy'\. It has: loss"):
        made.run()


def test_no_best_weights_is_said(tmp_path: Path) -> None:
    for folder in (None, tmp_path):
        with pytest.raises(InputError, match="no best weights"):
            small.trainer(folder).load_best()


def test_damaged_best_weights_are_named(tmp_path: Path) -> None:
    (tmp_path / "best.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match=r"best\.safetensors: the file is damaged"):
        small.trainer(tmp_path).load_best()


def test_stopping_early_without_anything_to_evaluate_is_refused() -> None:
    with pytest.raises(InputError, match="patience: there is nothing to evaluate"):
        small.trainer(patience=2, evaluate_every=1)


# ------------------------------------------------------------------ tensorboard


def test_tensorboard_gets_steps_and_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            assert folder == "board"

        def add_scalar(self, name: str, value: float, step: int) -> None:
            written.append((name, value, step))

        def flush(self) -> None:
            written.append("flushed")

    module = types.SimpleNamespace(SummaryWriter=SummaryWriter)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    made = small.trainer(tensorboard="board", validation=small.dataset(), steps=2)
    rows = made.run().rows
    for row in rows:
        for name in ("loss", "lr", "scale", "gradient_norm"):
            assert (name, row[name], row["step"]) in written
    assert written[-2:] == [("validation_loss", rows[-1]["validation_loss"], 2), "flushed"]


def test_tensorboard_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(InputError, match="pip install tensorboard"):
        small.trainer(tensorboard="board")


# ------------------------------------------------------------------ resuming


def stop_after(made: Trainer, step: int, error: type[BaseException] = KeyboardInterrupt) -> None:
    """Let a training end after a step, as if something outside of it had ended it."""
    after = made._after

    def stop(row: dict) -> None:
        after(row)
        if made.step == step:
            raise error

    made._after = stop


@functools.cache
def uninterrupted(precision: str) -> tuple[dict[str, torch.Tensor], list[dict]]:
    made = small.trainer(precision=precision, **SCALING)
    history = made.run()
    return small.weights(made), without_times(history)


def without_times(history: TrainingHistory) -> list[dict]:
    return [{n: value for n, value in row.items() if n != "seconds"} for row in history.rows]


SCALING = {"initial_scale": 2.0**20, "growth_interval": 2}


@pytest.mark.parametrize(
    ("precision", "stop"), [("float32", 5), ("float16", 1), ("float16", 5), ("float16", 7)]
)
def test_a_resumed_training_is_bitwise_the_uninterrupted_one(
    tmp_path: Path, precision: str, stop: int
) -> None:
    # An epoch has five batches.
    settings = {"precision": precision, **SCALING}
    first = small.trainer(tmp_path, checkpoint_every=stop, **settings)
    stop_after(first, stop)
    with pytest.raises(KeyboardInterrupt):
        first.run()
    assert not first.model.training
    torch.manual_seed(99)
    second = small.trainer(tmp_path, **settings)
    assert second.step == stop
    history = second.run()
    expected, rows = uninterrupted(precision)
    for name, weight in expected.items():
        assert torch.equal(weight, small.weights(second)[name]), name
    assert without_times(history) == rows
    assert {row["skipped"] for row in rows} == {False, precision == "float16"}


def test_a_checkpoint_saved_by_hand_between_two_runs_resumes_bitwise(tmp_path: Path) -> None:
    made = small.trainer(tmp_path, **SCALING)
    stop_after(made, 5)
    with pytest.raises(KeyboardInterrupt):
        made.run()
    torch.rand(7)  # by somebody else, in between
    made.save()
    resumed = small.trainer(tmp_path, **SCALING)
    resumed.run(), made.run()
    for name, weight in uninterrupted("float32")[0].items():
        assert torch.equal(weight, small.weights(resumed)[name]), name
        assert torch.equal(weight, small.weights(made)[name]), name


def test_a_step_broken_off_in_the_middle_is_taken_again_as_if_nothing_were() -> None:
    settings = {"dropout": 0.0, "accumulation": 2, "steps": 3}
    whole, made = small.trainer(**settings), small.trainer(**settings)
    whole.run()
    calls = itertools.count(1)

    def break_off(*inputs: object) -> None:
        if next(calls) == 4:  # the second part of the second batch
            raise KeyboardInterrupt

    made.model.register_forward_pre_hook(break_off)
    with pytest.raises(KeyboardInterrupt):
        made.run()
    assert made.step == 1
    made.run()
    for name, weight in small.weights(whole).items():
        assert torch.equal(weight, small.weights(made)[name]), name


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


def test_a_checkpoint_of_another_training_is_refused_by_name_of_the_setting(
    tmp_path: Path,
) -> None:
    small.trainer(tmp_path, steps=3).run()
    for name, other in (("lr", 1e-3), ("batch_size", 8), ("seed", 1), ("steps", 20)):
        with pytest.raises(InputError, match=rf"step-000003, {name}: it was"):
            small.trainer(tmp_path, **({"steps": 3} | {name: other}))
    small.trainer(tmp_path, steps=3, checkpoint_every=7, evaluate_every=2)  # these may change


def test_a_checkpoint_of_a_model_with_other_settings_is_refused_by_their_name(
    tmp_path: Path,
) -> None:
    small.trainer(tmp_path, steps=1).run()
    with pytest.raises(InputError, match=r"model\.dropout: it was 0\.1 .*, and is 0\.2 now"):
        small.trainer(tmp_path, steps=1, dropout=0.2)


def test_weights_of_another_shape_are_refused_and_change_nothing() -> None:
    model = small.model()
    before = checkpoints.model_tensors(model)
    before = {name: tensor.clone() for name, tensor in before.items()}
    other = checkpoints.model_tensors(small.model(d_model=32))
    with pytest.raises(InputError, match=r"the checkpoint has shape .*, this model shape"):
        checkpoints.load_model_tensors(model, other, "here")
    for name, tensor in checkpoints.model_tensors(model).items():
        assert torch.equal(tensor, before[name]), name


OLDER = [dataclasses.replace(small.RECORDS[0], age=1), *small.RECORDS[1:]]


@pytest.mark.parametrize(
    "data",
    [
        small.dataset(seed=3),
        small.dataset(corruption=Corruption(p_visit=0.9)),
        RecordDataset(OLDER, small.TOKENIZER),
        RecordDataset(small.RECORDS[::-1], small.TOKENIZER),
    ],
)
def test_a_checkpoint_of_other_patients_or_corruption_is_refused(
    tmp_path: Path, data: RecordDataset
) -> None:
    small.trainer(tmp_path, steps=1).run()
    config = TrainingConfig(**(small.SETTINGS | {"steps": 1, "warmup_steps": 1}))
    with pytest.raises(InputError, match="data: it was"):
        Trainer(small.model(dropout=0.1), data, config, folder=tmp_path, device="cpu")


def test_a_damaged_checkpoint_is_named_with_the_way_out(tmp_path: Path) -> None:
    small.trainer(tmp_path, checkpoint_every=6).run()
    file = tmp_path / "step-000012" / "optimizer.safetensors"
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"step-000012: the checkpoint is damaged"):
        small.trainer(tmp_path, checkpoint_every=6)


# ------------------------------------------------------------------ bad luck


def test_a_folder_that_cannot_be_is_refused_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file: the folder cannot be made"):
        small.trainer(tmp_path / "file")


def test_what_killed_processes_left_half_written_is_swept(tmp_path: Path) -> None:
    for name in (".step-000002.77", ".step-000001.removed.77"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").touch()
    small.trainer(tmp_path, steps=1).run()
    assert not list(tmp_path.glob(".*"))


def test_a_full_disk_leaves_the_best_weights_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = small.trainer(tmp_path)
    best.write_best(made.model, tmp_path)
    before = (tmp_path / "best.safetensors").read_bytes()

    def full(tensors: dict, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(best, "save_file", full)
    with pytest.raises(InputError, match=r"the best weights cannot be written .*No space left"):
        best.write_best(made.model, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["best.safetensors"]
    assert (tmp_path / "best.safetensors").read_bytes() == before


def test_a_history_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    history = small.trainer(steps=1).run()
    for name in ("history.csv", "history.parquet"):
        with pytest.raises(InputError, match="the history cannot be written"):
            history.write(tmp_path / "missing" / name)


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


@pytest.mark.parametrize("during", ["evaluation", "checkpoint", "report"])
def test_an_interrupt_waits_for_the_end_of_the_step_then_saves_and_says_how_to_go_on(
    tmp_path: Path,
    during: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    interrupted = []

    def interrupt(where: str) -> None:
        if where == during and made.step == 5 and not interrupted:
            interrupted.append(where)
            signal.raise_signal(signal.SIGINT)

    def evaluate(model: torch.nn.Module) -> dict[str, float]:
        interrupt("evaluation")
        return {"loss": 1.0}

    def save_file(tensors: dict, path: Path) -> None:
        interrupt("checkpoint")
        save(tensors, path)

    save = checkpoints.save_file
    monkeypatch.setattr(checkpoints, "save_file", save_file)
    made = small.trainer(tmp_path, evaluate=evaluate, evaluate_every=5, checkpoint_every=5)
    show_step = made._progress.show_step
    monkeypatch.setattr(
        made._progress, "show_step", lambda *shown: (interrupt("report"), show_step(*shown))
    )
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        made.run()
    assert signal.getsignal(signal.SIGINT) == handler
    said = capsys.readouterr().out
    assert said.startswith("Stopped after step 5. Run the same") and str(tmp_path) in said
    resumed = small.trainer(tmp_path, evaluate=evaluate, evaluate_every=5, checkpoint_every=5)
    assert resumed.step == 5
    assert resumed.history.rows == made.history.rows
    assert resumed.history.rows[-1]["validation_loss"] == 1.0


def test_ctrl_c_leaves_the_workers_at_their_work() -> None:
    batches = iter(small.trainer(num_workers=1)._loader)  # an epoch of five
    next(batches)
    for worker in batches._workers:
        os.kill(worker.pid, signal.SIGINT)
    assert len(list(batches)) == 4


def test_a_second_interrupt_does_not_wait() -> None:
    def evaluate(model: torch.nn.Module) -> dict[str, float]:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the evaluation goes on")

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        small.trainer(evaluate=evaluate, evaluate_every=1).run()
    assert signal.getsignal(signal.SIGINT) == handler


def test_an_interrupt_without_a_folder_says_that_nothing_is_saved(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def evaluate(model: torch.nn.Module) -> dict[str, float]:
        signal.raise_signal(signal.SIGINT)
        return {"loss": 1.0}

    with pytest.raises(KeyboardInterrupt):
        small.trainer(evaluate=evaluate, evaluate_every=2).run()
    said = capsys.readouterr().out
    assert said == "Stopped after step 2. Nothing is saved: there is no folder.\n"


@pytest.mark.parametrize(
    "setting",
    [
        {"steps": 0},
        {"accumulation": 17},
        {"lr": 0.0},
        {"warmup_steps": 13},
        {"precision": "float8"},
        {"lr": math.inf},
        {"betas": (0.9, 1.0)},
        {"patience": 2},
        {"max_norm": 0.0},
        {"seed": -1},
    ],
)
def test_a_setting_out_of_range_is_named(setting: dict) -> None:
    (name,) = setting
    with pytest.raises(InputError, match=f"TrainingConfig, {name}"):
        TrainingConfig(**(small.SETTINGS | setting))
