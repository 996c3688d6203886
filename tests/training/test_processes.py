"""A training that is killed, interrupted, out of disk space, or shared by two processes."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import small
import torch
from safetensors.torch import load_file

from ehr_course.errors import InputError
from ehr_course.training import checkpoints as files
from ehr_course.training import trainer
from ehr_course.training.checkpoints import checkpoints, read_checkpoint

SMALL = Path(__file__).with_name("small.py")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def processes() -> Iterator[BaseContext]:
    """Processes that begin with everything imported, and have nothing else of this one."""
    context = multiprocessing.get_context("forkserver")
    with pytest.MonkeyPatch.context() as patch:
        # The server of these processes does not know this one's sys.path.
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(SMALL.parent)]))
        context.set_forkserver_preload(["small"])
        yield context


def final_weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(checkpoints(folder)[-1] / "model.safetensors")


def last_step(folder: Path) -> int:
    found = checkpoints(folder)
    return int(found[-1].name.removeprefix("step-")) if found else 0


def test_a_training_killed_twenty_times_ends_with_the_same_weights(
    tmp_path: Path, processes: BaseContext
) -> None:
    settings = {"steps": 200, "checkpoint_every": 1}
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    rng = random.Random(0)
    killed = 0
    while True:
        process = processes.Process(target=small.train_into, args=(folder,), kwargs=settings)
        before = last_step(folder)
        process.start()
        if killed < 20:
            while process.is_alive() and last_step(folder) == before:
                time.sleep(0.002)
            time.sleep(rng.uniform(0, 0.04))  # anywhere in a step, or in a checkpoint
            process.kill()
        process.join()
        if process.exitcode == 0:
            break
        assert process.exitcode == -signal.SIGKILL
        killed += 1
        for path in checkpoints(folder):
            read_checkpoint(path)  # raises where it cannot be read
    assert killed == 20
    small.train_into(whole, steps=200)
    expected, made = final_weights(whole), final_weights(folder)
    assert expected.keys() == made.keys()
    for name, weight in expected.items():
        assert torch.equal(weight, made[name]), name


# ------------------------------------------------------------------ two processes


@pytest.fixture(scope="module")
def two_trained(tmp_path_factory: pytest.TempPathFactory, processes: BaseContext) -> Path:
    """The folder in which two processes train on unequal data, then on equal.

    They find each other as under torchrun; tests/cli/test_processes.py starts torchrun itself.
    """
    folder = tmp_path_factory.mktemp("two")
    two = start_two(processes, folder, target=small.train_unequally_then_equally)
    for process in two:
        process.join(timeout=240)
    assert [process.exitcode for process in two] == [0, 0]
    return folder


def start_two(
    context: BaseContext,
    folder: Path,
    *,
    target: Callable[..., None] = small.train_as,
    **settings: object,
) -> list[BaseProcess]:
    """Two processes as torchrun makes them, which have imported everything already."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    both = [
        context.Process(target=target, args=(rank, port, folder), kwargs=settings, daemon=True)
        for rank in (0, 1)
    ]
    for process in both:
        process.start()
    return both


def check_same_training(one: Path, two: Path, *, rel: float, **model_settings: object) -> None:
    """The losses of two trainings are the same but for rounding, and so are the weights."""
    rows, others = (
        read_checkpoint(checkpoints(folder)[-1]).numbers["history"] for folder in (one, two)
    )
    for name in rows[-1].keys() - {"seconds", "gradient_norm"}:
        expected, found = ([row.get(name, -1.0) for row in of] for of in (rows, others))
        assert found == pytest.approx(expected, rel=rel), name
    ours, theirs = final_weights(one), final_weights(two)
    start = small.model(**model_settings).state_dict()
    difference = sum(float((ours[n] - theirs[n]).square().sum()) for n in ours) ** 0.5
    moved = sum(float((ours[n] - start[n]).square().sum()) for n in ours) ** 0.5
    # The gradient of a key's bias is zero but for rounding, and AdamW makes whole steps of it: so
    # the weights are compared as one, with the way that they have come.
    assert difference < 100 * rel * moved


def test_processes_with_unequal_data_all_say_so(two_trained: Path) -> None:
    for rank in (0, 1):
        said = (two_trained / f"error-{rank}").read_text(encoding="utf-8")
        assert said.startswith("training, data: the 2 processes have different ones. Give every")


def test_two_processes_do_what_one_does(tmp_path: Path, two_trained: Path) -> None:
    # 70 patients in batches of 16: the last batch of an epoch has 6. Heads count rows and tokens.
    one, two = tmp_path, two_trained / "equal"
    small.train_judged(one, dropout=0.0, heads=True, evaluate_every=5)
    check_same_training(one, two, rel=1e-5, **small.HEADS)
    assert [path.name for path in two.glob("judged-by-*")] == ["judged-by-0"]
    with pytest.raises(InputError, match=r"processes: it was 2 .*, and is 1 now"):
        small.trainer(two, dropout=0.0, heads=True)


def test_two_processes_end_without_waiting_for_each_other(
    tmp_path: Path, processes: BaseContext
) -> None:
    two = start_two(processes, tmp_path, target=small.train_ten_times)
    for process in two:
        process.join(timeout=120)
    assert [process.exitcode for process in two] == [0, 0]


def test_two_processes_do_what_one_does_in_float16(tmp_path: Path, processes: BaseContext) -> None:
    # Cut into four parts each, and the last batch has six patients: so two parts have none. To the
    # first process every evaluation is the best, and to the second none is after the first.
    settings = {"dropout": 0.0, "precision": "float16"}
    judged = {"evaluate_every": 1, "metric": "calls_left", "patience": 3}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    two = start_two(
        processes,
        tmp_path / "two",
        judged=True,
        gradient_accumulation_steps=4,
        **settings,
        **judged,
    )
    for process in two:
        process.join(timeout=120)
    assert [process.exitcode for process in two] == [0, 0]
    small.train_judged(tmp_path / "one", **settings, **judged)
    assert last_step(tmp_path / "one") == last_step(tmp_path / "two") == 12
    check_same_training(tmp_path / "one", tmp_path / "two", rel=1e-3)


def test_two_processes_stop_together_whichever_is_interrupted(
    tmp_path: Path, processes: BaseContext
) -> None:
    two = start_two(processes, tmp_path, steps=100_000, checkpoint_every=20)
    wait_for_a_checkpoint(tmp_path, two[0])
    os.kill(two[1].pid, signal.SIGINT)
    for process in two:
        process.join(timeout=60)
    assert [process.exitcode for process in two] == [1, 1]  # with a KeyboardInterrupt
    read_checkpoint(checkpoints(tmp_path)[-1])


# ------------------------------------------------------------------ bad luck


def test_ctrl_c_in_a_terminal_saves_and_says_how_to_go_on(
    tmp_path: Path, processes: BaseContext
) -> None:
    settings = {"steps": 100_000, "checkpoint_every": 10, "num_workers": 1}
    process = processes.Process(
        target=small.train_in_a_group, args=(tmp_path,), kwargs=settings, daemon=False
    )
    process.start()
    wait_for_a_checkpoint(tmp_path, process)
    os.killpg(process.pid, signal.SIGINT)
    process.join(timeout=60)
    assert process.exitcode == 1  # with a KeyboardInterrupt
    said = (tmp_path / "said").read_text(encoding="utf-8")
    stopped = small.trainer(tmp_path, **settings).step
    assert said == f"Stopped after step {stopped}.\n"


def test_a_disk_that_is_really_full_leaves_the_checkpoint_before(
    tmp_path: Path, processes: BaseContext
) -> None:
    process = processes.Process(target=small.train_until_the_disk_is_full, args=(tmp_path,))
    process.start()
    process.join(timeout=60)
    said = (tmp_path / "error").read_text(encoding="utf-8")
    assert (
        "the best weights cannot be written" in said or "the checkpoint cannot be written" in said
    )
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000004"]
    assert not list(tmp_path.glob(".*"))
    read_checkpoint(checkpoints(tmp_path)[0])


def wait_for_a_checkpoint(folder: Path, process: BaseProcess) -> None:
    while process.is_alive() and not checkpoints(folder):
        time.sleep(0.01)
    assert process.is_alive()


# ------------------------------------------------------------------ interrupts within a process


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

    save = files.save_file
    monkeypatch.setattr(files, "save_file", save_file)
    made = small.trainer(tmp_path, evaluate=evaluate, evaluate_every=5, checkpoint_every=5)
    show_step = trainer.show_step
    monkeypatch.setattr(
        trainer, "show_step", lambda *shown: (interrupt("report"), show_step(*shown))
    )
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match=f"Run the same training with folder='{tmp_path}'"):
        made.run()
    assert signal.getsignal(signal.SIGINT) == handler
    assert capsys.readouterr().out.endswith("Stopped after step 5.\n")
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

    with pytest.raises(KeyboardInterrupt, match=r"Nothing is saved: there is no folder\."):
        small.trainer(evaluate=evaluate, evaluate_every=2).run()
    assert capsys.readouterr().out == "Stopped after step 2.\n"
