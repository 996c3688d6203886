"""Let one of the course's own generators learn for some seconds, and write patients.

Run by ``benchmarks/generators.py``, each in a process of its own. There is no learning in
``fresh``, another draw from the embedded hospital; ``independent`` and ``markov`` are the tables
of ``ehr_course.generation.baselines``; every other name is a PromptBart, trained as
``ehr-course train`` trains it, with as many steps as fit into the seconds, and at most the twenty
epochs that it takes there.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import sys
import time
from dataclasses import fields, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.cli.prepare import RECORDS, Prepared, open_prepared
from ehr_course.cli.settings import GenerateSettings, TrainSettings
from ehr_course.cli.train import EPOCHS, filled_in, task_of, training_config
from ehr_course.errors import InputError
from ehr_course.evaluation.perplexity import perplexity
from ehr_course.generation.baselines import IndependentCodes, MarkovChain
from ehr_course.generation.calibration import calibrate, calibrated_for, count_ends
from ehr_course.generation.patients import generate_patients, sample_profiles
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.records import PatientRecord
from ehr_course.sources.splits import Split
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.config import TrainingConfig
from ehr_course.training.trainer import Trainer

TABLES = {"independent": IndependentCodes, "markov": MarkovChain}
FRESH = "fresh"
FRESH_SEED = 1_000_000
"""Added to a seed, gives the seed of another draw from the hospital."""

WARM_UP, TIMED = 10, 50
"""Steps that are taken before the training, to see how many fit into its seconds."""


def by_table(name: str, split: Split, seed: int, n: int) -> dict[str, Any]:
    """Count, and write from the counts."""
    began = time.process_time()
    table = TABLES[name](split.train)
    learned = time.process_time()
    written = table.write(sample_profiles(split.train, n, seed=seed), seed=seed)
    return {
        "training_seconds": learned - began,
        "writing_seconds": time.process_time() - learned,
        "visits": visits_of(written),
    }


def another_draw(seed: int, n: int) -> dict[str, Any]:
    """Patients of the same hospital whom no one has seen: the best that can be."""
    records = make_cohort(n, seed=FRESH_SEED + seed)
    people = [[record.sex, record.age] for record in records]
    return {"visits": visits_of(records), "people": people}


def by_model(
    changes: dict[str, Any], prepared: Prepared, split: Split, seed: int, n: int, seconds: float
) -> dict[str, Any]:
    """Train a PromptBart for the seconds, and let it write as ``ehr-course generate`` does."""
    before = peak_memory()
    changes = dict(changes)
    most = changes.pop("epochs", EPOCHS) * -(-len(split.train) // changes.get("batch_size", 32))
    steps = min(steps_within(seconds, changes, prepared, split, seed), most)
    model, dataset, config = training(changes, prepared, split, seed, steps)
    began = time.process_time()
    Trainer(model, dataset, config, device="cpu").run()
    if model.end_bias is not None:
        calibrate(model, dataset, seed=seed)
    learned = time.process_time()
    how = GenerateSettings(run="", seed=seed)
    tokenizer = prepared.tokenizer()
    written = generate_patients(
        model,
        tokenizer,
        sample_profiles(split.train, n, seed=seed),
        seed=seed,
        sampling=calibrated_for(model),
        batch_size=how.batch_size,
    )
    wrote = time.process_time()
    known = CodeTokenizer(tokenizer.codes, unseen="skip")
    predicted = perplexity(model, known, split.test, train=split.train, seed=seed)
    ends = {"learned": dataset, "unseen": RecordDataset(split.test, known)}
    return {
        **{
            f"ends of {part}, {name}": ratio
            for name, records in ends.items()
            for part, ratio in count_ends(model, records).ratios().items()
        },
        "training_seconds": learned - began,
        "writing_seconds": wrote - learned,
        "memory_mib": peak_memory() - before,
        "steps": steps,
        "parameters": sum(p.numel() for p in model.parameters()),
        "perplexity_per_code": predicted["longitudinal perplexity per code"].value,
        "unigram_perplexity": predicted["unigram perplexity per code"].value,
        "visits": visits_of(written),
    }


def training(
    changes: dict[str, Any], prepared: Prepared, split: Split, seed: int, steps: int
) -> tuple[PromptBart, RecordDataset, TrainingConfig]:
    """What ``ehr-course train`` trains, and how, with some fields changed.

    Args:
        changes: fields of TrainSettings, TrainingConfig, Corruption or the model's configuration.
        prepared: the folder of the patients.
        split: those patients.
        seed: of the weights and of the batches.
        steps: how many there are; the schedule is made for them.
    """
    left = dict(changes)

    def taken(known: set[str]) -> dict[str, Any]:
        return {name: left.pop(name) for name in known & left.keys()}

    of_command = taken(set(TrainSettings.model_fields) - {"steps", "seed", "prepared"})
    settings = TrainSettings(prepared=str(prepared.folder), steps=steps, seed=seed, **of_command)
    settings = filled_in(settings, prepared)
    task = task_of(settings, prepared)
    of_training = taken({field.name for field in fields(TrainingConfig)})
    config = replace(training_config(settings), **of_training)
    dataset = task.dataset
    of_corruption = taken({field.name for field in fields(Corruption)})
    if of_corruption:
        dataset = RecordDataset(
            dataset.records,
            dataset.tokenizer,
            corruption=replace(dataset.corruption, **of_corruption),
            seed=seed,
            max_tokens=task.model.max_tokens,
            too_long="cut",
        )
    model = task.model
    of_model = model.config.to_dict()
    unknown = left.keys() - of_model.keys()
    if unknown:
        raise InputError("--ours", min(unknown), "there is no such field", "See the help.")
    if left:
        torch.manual_seed(seed)
        model = PromptBart(type(model.config).from_dict(of_model | left))
    return model, dataset, config


def steps_within(
    seconds: float, changes: dict[str, Any], prepared: Prepared, split: Split, seed: int
) -> int:
    """How many steps fit into the seconds of the processor."""
    at = []
    for steps in (WARM_UP, WARM_UP + TIMED):
        trainer = Trainer(*training(changes, prepared, split, seed, steps), device="cpu")
        began = time.process_time()
        trainer.run()
        at.append(time.process_time() - began)
    return max(1, int(seconds / ((at[1] - at[0]) / TIMED)))


def visits_of(records: list[PatientRecord]) -> list[list[list[str]]]:
    return [[list(visit.codes) for visit in record.visits] for record in records]


def peak_memory() -> float:
    """The most memory that this process has held so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--generator", required=True)
    parser.add_argument("--changes", type=json.loads, default={}, help="of a model: JSON")
    parser.add_argument("--prepared", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--write", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    options = parser.parse_args()
    torch.set_num_threads(1)
    name, seed, n = options.generator, options.seed, options.write
    prepared = open_prepared(options.prepared, wanted=RECORDS)
    split = prepared.split()
    before = peak_memory()
    if name == FRESH:
        found = another_draw(seed, n)
    elif name in TABLES:
        found = by_table(name, split, seed, n)
        found["memory_mib"] = peak_memory() - before
    else:
        found = by_model(options.changes, prepared, split, seed, n, options.seconds)
    found["settings"] = options.changes
    found["versions"] = {"python": platform.python_version()} | {
        package: metadata.version(package) for package in ("ehr-course", "torch", "transformers")
    }
    target = options.out / f"{name}-{seed}.json"
    unfinished = target.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(found), encoding="utf-8")
    unfinished.replace(target)


if __name__ == "__main__":
    main()
