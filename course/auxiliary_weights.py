"""The sweep that lesson 13 reads: one small model for each weight of the heads and each seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import torch
from scipy.spatial.distance import jensenshannon

from course.console import say
from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.sampler import LengthBatchSampler
from ehr_course.evaluation.validity import impossible_share_of
from ehr_course.generation.patients import PatientProfile, generate_patients
from ehr_course.losses import NOT_SCORED
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig, age_bracket
from ehr_course.records import PatientRecord
from ehr_course.sources.splits import Split
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.trainer import train

STEPS, SEEDS = 800, (0, 1, 2)

SETTINGS: tuple[tuple[float, float, str], ...] = (
    (0.0, 0.0, ""),
    (0.001, 0.001, "states"),
    (0.1, 0.1, "states"),
    (0.3, 0.2, "states"),
    (1.0, 1.0, "states"),
    (3.0, 3.0, "states"),
    (0.3, 0.2, "codes"),
)
"""Weight of the age head, weight of the sex head, and what the heads read."""


def sweep(folder: Path, split: Split) -> int:
    """Train and judge all models, and rewrite ``sweep.csv`` after each.

    Returns:
        How many models there were.
    """
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for seed in SEEDS:
        for age_weight, sex_weight, reads in SETTINGS:
            row = {
                "age_weight": age_weight,
                "sex_weight": sex_weight,
                "head_reads": reads,
                "seed": seed,
            } | _judged(age_weight, sex_weight, reads, seed, split)
            rows.append({n: round(v, 4) if isinstance(v, float) else v for n, v in row.items()})
            unfinished = folder / ".sweep.csv"
            pl.DataFrame(rows, infer_schema_length=None).write_csv(unfinished)
            unfinished.replace(folder / "sweep.csv")
            say(f"weights {age_weight}/{sex_weight} on {reads or 'nothing'}, seed {seed}: done")
    return len(rows)


def _judged(
    age_weight: float, sex_weight: float, reads: str, seed: int, split: Split
) -> dict[str, float | None]:
    tokenizer = CodeTokenizer.from_records(split.train)
    torch.manual_seed(seed)
    config = PromptBartConfig.for_tokenizer(
        tokenizer,
        "tiny",
        age_weight=age_weight,
        sex_weight=sex_weight,
        head_reads=reads or "states",
    )
    model = PromptBart(config)
    dataset = RecordDataset(split.train, tokenizer, corruption=Corruption(p_empty=0.5), seed=seed)
    options = {"group_by_length": True, "progress": False}
    train(model, dataset, steps=STEPS, lr=2e-3, seed=seed, **options)
    patients = [*split.validation, *split.test]
    written = generate_patients(
        model,
        tokenizer,
        [PatientProfile(patient.age, patient.sex) for patient in patients],
        seed=seed,
    )
    known = tokenizer.skipping_unseen()
    return {
        "loss": _loss(model, patients, known, Corruption(p_empty=1.0)),
        "loss_repair": _loss(model, patients, known, Corruption()),
        "impossible": impossible_share_of(written),
        "divergence": divergence(written, patients, tokenizer.codes),
        **(_head_scores(model, patients, known) if reads else dict.fromkeys(HEAD_SCORES)),
    }


def divergence(
    written: list[PatientRecord], real: list[PatientRecord], codes: tuple[str, ...]
) -> float:
    """The Jensen-Shannon divergence, in nats, between how often codes are written and recorded.

    It is 0 to log 2; SciPy's function returns its square root, the distance.
    """
    position = {code: number for number, code in enumerate(codes)}
    counts = np.zeros((2, len(codes)))
    for side, records in enumerate((written, real)):
        for record in records:
            for visit in record.visits:
                for code in visit.codes:
                    if code in position:
                        counts[side, position[code]] += 1
    return float(jensenshannon(*counts) ** 2)


HEAD_SCORES = ("age_accuracy", "sex_accuracy", "sex_says_prompt", "sex_says_codes")


@torch.no_grad()
def _loss(
    model: PromptBart,
    patients: list[PatientRecord],
    tokenizer: CodeTokenizer,
    corruption: Corruption,
) -> float:
    """The language model's mean loss, in nats a token."""
    dataset = RecordDataset(patients, tokenizer, corruption=corruption)
    outputs = [
        model(**dataset[key])
        for key in LengthBatchSampler(dataset.lengths, 64, shuffle=False, group_by_length=True)
    ]
    return float(sum(o.loss_sum for o in outputs) / sum(o.loss_count for o in outputs))


@torch.no_grad()
def _head_scores(
    model: PromptBart, patients: list[PatientRecord], tokenizer: CodeTokenizer
) -> dict[str, float]:
    """How often the heads are right at a token, and whom they follow when the prompt lies."""
    right, count = dict.fromkeys(HEAD_SCORES, 0), 0
    dataset = RecordDataset(patients, tokenizer, corruption=Corruption(p_empty=1.0))
    for key in LengthBatchSampler(dataset.lengths, 64, shuffle=False, group_by_length=True):
        batch = dataset[key]
        scored = batch["labels"] != NOT_SCORED
        true = model(**batch).answers
        other = {**batch, "x_cat": 1 - batch["x_cat"]}
        lied = model(**other).answers["sex"].argmax(-1)
        brackets, sexes = age_bracket(batch["x_num"]), batch["x_cat"]  # (batch, 1)
        for name, hit in (
            ("age_accuracy", true["age"].argmax(-1) == brackets),
            ("sex_accuracy", true["sex"].argmax(-1) == sexes),
            ("sex_says_prompt", lied == 1 - sexes),
            ("sex_says_codes", lied == sexes),
        ):
            right[name] += int(hit[scored].sum())
        count += int(scored.sum())
    return {name: hits / count for name, hits in right.items()}
