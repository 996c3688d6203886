"""A training that takes a second: for tests, and for the processes that tests start."""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path
from typing import Any

import torch
from torch import distributed

from ehr_course.batches.datasets import RecordDataset
from ehr_course.errors import InputError
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.config import TrainingConfig
from ehr_course.training.processes import joined_processes
from ehr_course.training.trainer import Trainer

RECORDS = make_cohort(70, seed=0)
TOKENIZER = CodeTokenizer.from_records(RECORDS)
SETTINGS: dict[str, Any] = {"steps": 12, "batch_size": 16, "lr": 2e-3, "warmup_steps": 3}
HEADS: dict[str, Any] = {"age_weight": 0.5, "sex_weight": 0.3, "age_head": "years", "d_head": 8}
"""One head of which each row counts, and one of which each token does."""


def model(**changes: Any) -> PromptBart:
    torch.manual_seed(0)
    fields = {
        "d_model": 16,
        "d_prompt": 8,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
    }
    return PromptBart(PromptBartConfig.for_tokenizer(TOKENIZER, **(fields | changes)))


def dataset(**changes: Any) -> RecordDataset:
    return RecordDataset(RECORDS, TOKENIZER, **changes)


def trainer(
    folder: Path | None = None, *, dropout: float = 0.1, heads: bool = False, **changes: Any
) -> Trainer:
    names = ("validation", "evaluate", "progress", "num_workers")
    options = {name: changes.pop(name) for name in names if name in changes}
    made = model(dropout=dropout, **(HEADS if heads else {}))
    data = dataset(seed=changes.pop("data_seed", 0))
    settings = SETTINGS | changes
    settings["warmup_steps"] = min(settings["warmup_steps"], settings["steps"])
    config = TrainingConfig(**settings)
    return Trainer(made, data, config, folder=folder, device="cpu", **options)


def weights(trained: Trainer) -> dict[str, torch.Tensor]:
    return {n: p.detach().clone() for n, p in trained.model.named_parameters()}


def stop_after(made: Trainer, step: int, error: type[BaseException] = KeyboardInterrupt) -> None:
    """Let a training end after a step, as if something outside of it had ended it."""
    after = made._after

    def stop(row: dict) -> None:
        after(row)
        if made.step == step:
            raise error

    made._after = stop


# ------------------------------------------------------------------ in a process of its own


def train_into(folder: Path, **settings: Any) -> None:
    """Train into a folder."""
    torch.set_num_threads(1)
    trainer(folder, **settings).run()


def train_judged(folder: Path, **settings: Any) -> None:
    """Train, and evaluate in a way that every process would do otherwise."""
    rank, calls = int(os.environ.get("RANK", "0")), 0

    def evaluate(model: torch.nn.Module) -> dict[str, float]:
        nonlocal calls
        calls += rank == 0
        (folder / f"judged-by-{rank}").touch()
        return {"calls_left": 1_000 - calls}

    train_into(folder, validation=dataset(seed=5), evaluate=evaluate, **settings)


def be_one_of_two(rank: int, port: int) -> None:
    """Have the environment variables that torchrun gives to one of two processes."""
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ.update(address, RANK=str(rank), WORLD_SIZE="2")


def train_as(rank: int, port: int, folder: Path, judged: bool = False, **settings: Any) -> None:
    """Be one of two processes that train."""
    be_one_of_two(rank, port)
    (train_judged if judged else train_into)(folder, **settings)


def train_unequally_then_equally(rank: int, port: int, place: Path) -> None:
    """Be one of two processes that have different data first, and the same after that."""
    be_one_of_two(rank, port)
    try:
        trainer(place / "unequal", data_seed=rank).run()
    except InputError as error:
        (place / f"error-{rank}").write_text(str(error), encoding="utf-8")
    train_judged(place / "equal", dropout=0.0, heads=True, evaluate_every=5)


def train_ten_times(rank: int, port: int, folder: Path) -> None:
    """Be one of two processes that end their group ten times, with a trainer still at hand."""
    be_one_of_two(rank, port)
    for number in range(10):
        meeting = f"file://{folder}/meeting-{number}"
        distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
        with joined_processes() as (processes, _):
            made = trainer(steps=2)
            made.run()
            processes.wait()
        del made


def train_in_a_group(folder: Path, **settings: Any) -> None:
    """Train as in a terminal, where Ctrl-C reaches the workers too; say everything to a file."""
    os.setpgrp()
    with (folder / "said").open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
        train_into(folder, **settings)


def train_until_the_disk_is_full(folder: Path) -> None:
    """Train with room for the checkpoint of step 4 and not for that of step 8."""

    def evaluate(model: torch.nn.Module) -> dict[str, float]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, resource.RLIM_INFINITY))
        return {"loss": 0.0}

    try:
        train_into(folder, checkpoint_every=4, evaluate_every=6, evaluate=evaluate)
    except InputError as error:
        (folder / "error").write_text(str(error), encoding="utf-8")
