"""`python3 -m course checkpoint NAME`: train what lessons load, and say what it scores."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch

from course.auxiliary_weights import sweep
from course.command_error import CommandError
from course.console import say
from course.second_hospital import sweep as sweep_of_methods
from ehr_course.batches.collate import SEXES
from ehr_course.batches.corruption import EMPTY_RECORD, Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.sampler import LengthBatchSampler
from ehr_course.cli.settings import TrainSettings
from ehr_course.cli.train import RECORDS_RECIPE, training_config
from ehr_course.evaluation.validity import impossible_share
from ehr_course.generation.calibration import calibrate
from ehr_course.models.prompt_bart import HISTORY, PromptBart, PromptBartConfig
from ehr_course.models.saved import LoadedModel, load_model, save_model
from ehr_course.records import PatientRecord, Sex
from ehr_course.sources.splits import Split, split_by_patient
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.history import TrainingHistory
from ehr_course.training.trainer import Trainer, train

CHECKPOINTS = Path(__file__).resolve().parent / "checkpoints"
COHORT, STEPS, SEED = 5_000, 2_000, 0
STEPS_WITH_HISTORY = 2_500
"""Twenty epochs, the most that ``ehr-course train`` takes of itself."""


def cohort() -> Split:
    """The patients of the checkpoint: 4,000 to learn from, 500 to choose by, 500 to test."""
    return split_by_patient(make_cohort(COHORT, seed=SEED), seed=SEED)


def tiny_prompt_bart(folder: Path) -> dict[str, float]:
    """Train the small PromptBart of the lessons, save it with its scores, and return them.

    Its batches are of similar length, so that short records weigh more than long ones: lesson 19
    finds that out by the patients that it writes.
    """
    split = cohort()
    tokenizer = CodeTokenizer.from_records(split.train)
    torch.manual_seed(SEED)
    model = PromptBart(PromptBartConfig.for_tokenizer(tokenizer, "tiny"))
    history = train(
        model, _dataset(split, tokenizer), steps=STEPS, lr=2e-3, seed=SEED, group_by_length=True
    )
    return _saved(model, tokenizer, folder, history, split)


def prompt_bart_with_history(folder: Path) -> dict[str, float]:
    """Train what lesson 19 ends with: the model and the recipe of ``ehr-course train``."""
    split = cohort()
    tokenizer = CodeTokenizer.from_records(split.train)
    torch.manual_seed(SEED)
    model = PromptBart(PromptBartConfig.for_tokenizer(tokenizer, "tiny", **HISTORY))
    settings = TrainSettings(prepared="", steps=STEPS_WITH_HISTORY, seed=SEED, **RECORDS_RECIPE)
    filled = settings.model_copy(update={"evaluate_every": 0, "patience": 0})
    config = training_config(filled)
    dataset = _dataset(split, tokenizer)
    history = Trainer(model, dataset, config, device="cpu", progress=True).run()
    calibrate(model, dataset, seed=SEED)
    return _saved(model, tokenizer, folder, history, split)


def _dataset(split: Split, tokenizer: CodeTokenizer) -> RecordDataset:
    # Half of the records come as an empty input: those teach the model to write a whole patient
    # from age and sex alone.
    return RecordDataset(split.train, tokenizer, corruption=Corruption(p_empty=0.5), seed=SEED)


def _saved(
    model: PromptBart,
    tokenizer: CodeTokenizer,
    folder: Path,
    history: TrainingHistory,
    split: Split,
) -> dict[str, float]:
    say(f"trained {len(history)} steps in {history.seconds:.0f} s, last loss {history.loss():.3f}")
    save_model(model, tokenizer, folder)
    metrics = scores(load_model(folder), split.test)
    save_model(model, tokenizer, folder, metrics=metrics)
    return metrics


def auxiliary_weights(folder: Path) -> dict[str, float]:
    """Train a model for each weight of the heads and each seed, and write what they score."""
    return {"models": sweep(folder, cohort())}


def second_hospital(folder: Path) -> dict[str, float]:
    """Adapt the small PromptBart to a second hospital in each way, and write what that scores."""
    return {"models": sweep_of_methods(folder)}


def scores(loaded: LoadedModel, patients: list[PatientRecord]) -> dict[str, float]:
    """What a model scores on patients that it has not learned from.

    Returns:
        loss_repair: nats a token when it repairs a corrupted record;
        loss_repair_of_another: the same when the encoder reads another patient's record;
        loss_from_demographics: nats a token from age and sex alone;
        impossible: share of the codes it writes that the patient's age or sex rules out;
        impossible_of_another: the same codes, checked against another patient's age and sex.
    """
    repair, another = _losses(loaded, patients, Corruption())
    empty, _ = _losses(loaded, patients, Corruption(p_empty=1.0))
    ages = [patient.age for patient in patients]
    sexes = [patient.sex for patient in patients]
    written = sample(loaded, ages, sexes, seed=SEED)
    order = np.random.default_rng(SEED).permutation(len(patients))
    return {
        "loss_repair": round(repair, 4),
        "loss_repair_of_another": round(another, 4),
        "loss_from_demographics": round(empty, 4),
        "impossible": round(impossible_share(written, ages, sexes), 4),
        "impossible_of_another": round(
            impossible_share(written, [ages[i] for i in order], [sexes[i] for i in order]), 4
        ),
    }


def sample(
    loaded: LoadedModel, ages: Sequence[int], sexes: Sequence[Sex], *, seed: int
) -> list[list[list[str]]]:
    """Let a model write one patient for each age and sex: the codes, visit by visit."""
    model, tokenizer = loaded.of_patients()
    torch.manual_seed(seed)
    written = model.generate(
        torch.tensor([EMPTY_RECORD] * len(ages)),
        x_num=torch.tensor(ages, dtype=torch.float32)[:, None],
        x_cat=torch.tensor([SEXES.index(sex) for sex in sexes])[:, None],
        do_sample=True,
        top_k=0,
    )
    return [tokenizer.decode(row) for row in written]


@torch.no_grad()
def _losses(
    loaded: LoadedModel, patients: list[PatientRecord], corruption: Corruption
) -> tuple[float, float]:
    """The mean loss, and the mean loss when each row reads the next row's encoder input."""
    model, tokenizer = loaded.of_patients()
    known = tokenizer.skipping_unseen()
    dataset = RecordDataset(patients, known, corruption=corruption, seed=SEED)
    sums, count = np.zeros(2), 0
    for key in LengthBatchSampler(dataset.lengths, 64, shuffle=False):
        batch = dataset[key]
        own = model(**batch)
        batch["input_ids"] = batch["input_ids"].roll(1, 0)
        batch["attention_mask"] = batch["attention_mask"].roll(1, 0)
        other = model(**batch)
        sums += [own.loss_sum.item(), other.loss_sum.item()]
        count += int(own.loss_count)
    repair, another = (sums / count).tolist()
    return repair, another


RECIPES: dict[str, Callable[[Path], dict[str, float]]] = {
    "auxiliary_weights": auxiliary_weights,
    "second_hospital": second_hospital,
    "prompt_bart_with_history": prompt_bart_with_history,
    "tiny_prompt_bart": tiny_prompt_bart,
}


def main(arguments: list[str]) -> int:
    """Make one checkpoint again, in place of the one that is there."""
    parser = argparse.ArgumentParser(prog="python3 -m course checkpoint", description=__doc__)
    parser.add_argument("name", help=f"one of: {', '.join(RECIPES)}")
    name = parser.parse_args(arguments).name
    if name not in RECIPES:
        raise CommandError(
            f"There is no checkpoint {name!r}.",
            f"The checkpoints are: {', '.join(RECIPES)}.",
            exit_code=2,
        )
    torch.set_num_threads(1)  # so that the sums, and with them the weights, come out the same
    began = time.perf_counter()
    for metric, value in RECIPES[name](CHECKPOINTS / name).items():
        say(f"{metric:24} {value}")
    say(f"course/checkpoints/{name} is made, in {time.perf_counter() - began:.0f} s.")
    return 0
