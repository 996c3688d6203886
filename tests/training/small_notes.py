"""A training on notes that takes a second: for tests, and for the processes that tests start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from ehr_course.batches.note_dataset import NoteDataset
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig
from ehr_course.sources.synthetic import make_cohort, make_notes
from ehr_course.tokenizers.words import WordTokenizer
from ehr_course.training.config import TrainingConfig
from ehr_course.training.trainer import Trainer

PAIRS = make_notes(make_cohort(70, seed=0), seed=0)
TOKENIZER = WordTokenizer.from_texts([t for p in PAIRS for t in (p.note, p.summary)], min_count=3)
SETTINGS: dict[str, Any] = {"steps": 12, "batch_size": 16, "lr": 4e-3, "warmup_steps": 3}


def model(**changes: Any) -> PointerGenerator:
    torch.manual_seed(0)
    fields = {"d_hidden": 16, "d_embedding": 8, "layers": 2, "dropout": 0.2, "coverage": True}
    return PointerGenerator(PointerGeneratorConfig.for_tokenizer(TOKENIZER, **(fields | changes)))


def trainer(folder: Path | None = None, *, of: dict[str, Any] | None = None, **changes) -> Trainer:
    """A trainer of a model with the fields `of`, and these settings."""
    config = TrainingConfig(**(SETTINGS | changes))
    dataset = NoteDataset(PAIRS, TOKENIZER)
    return Trainer(model(**(of or {})), dataset, config, folder=folder, device="cpu")


def train_as(rank: int, port: int, folder: Path) -> None:
    """Be one of two processes, as torchrun makes them."""
    torch.set_num_threads(1)
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ.update(address, RANK=str(rank), WORLD_SIZE="2")
    trainer(folder, of={"dropout": 0.0}).run()
