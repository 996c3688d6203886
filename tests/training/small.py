"""A training that takes a second: for tests, and for the processes that tests start."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from ehr_course.batches.datasets import RecordDataset
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.config import TrainingConfig
from ehr_course.training.trainer import Trainer

RECORDS = make_cohort(70, seed=0)
TOKENIZER = CodeTokenizer.from_records(RECORDS)
SETTINGS: dict[str, Any] = {"steps": 12, "batch_size": 16, "lr": 2e-3, "warmup_steps": 3}


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


def trainer(folder: Path | None = None, *, dropout: float = 0.1, **changes: Any) -> Trainer:
    options = {n: changes.pop(n) for n in ("validation", "evaluate", "progress") if n in changes}
    settings = SETTINGS | changes
    settings["warmup_steps"] = min(settings["warmup_steps"], settings["steps"])
    config = TrainingConfig(**settings)
    return Trainer(
        model(dropout=dropout), dataset(), config, folder=folder, device="cpu", **options
    )


def weights(trained: Trainer) -> dict[str, torch.Tensor]:
    return {n: p.detach().clone() for n, p in trained.model.named_parameters()}


def train_into(folder: Path, **settings: Any) -> None:
    """Train into a folder, in a process of its own."""
    torch.set_num_threads(1)
    trainer(folder, **settings).run()


if __name__ == "__main__":  # under torchrun: python small.py FOLDER NAME=VALUE ...
    kinds = {"dropout": float, "precision": str}
    given = dict(argument.split("=") for argument in sys.argv[2:])
    train_into(Path(sys.argv[1]), **{n: kinds.get(n, int)(v) for n, v in given.items()})
