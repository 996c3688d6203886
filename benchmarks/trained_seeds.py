"""Train the two models of lesson 19 with several seeds, and measure a cohort of each.

    python benchmarks/trained_seeds.py course/checkpoints/trained_seeds/scores.csv
    python benchmarks/trained_seeds.py scores.csv --models models --seeds 3

Seed 0 is the course's checkpoint; the others are trained by its recipe on the same patients, some
five minutes each on one core. The table has one row for each model and seed: the answers to the
lesson's questions about 3,000 patients, and of two attacks, by distance and by likelihood, the
AUROC and the share of training patients that they find if they may accuse 1% of held-out ones.
With ``--models`` the trained models are kept in a folder, and those that lie there are not trained
again.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import combinations
from pathlib import Path
from statistics import fmean

import numpy as np
import polars as pl
import torch

from course.checkpoint import COHORT, STEPS, STEPS_WITH_HISTORY
from ehr_course import (
    CodeTokenizer,
    Corruption,
    EligibleOnly,
    PromptBart,
    PromptBartConfig,
    RecordDataset,
    Trainer,
    calibrate,
    calibrated_for,
    carried_over,
    code_tables,
    distance_scores,
    generate_patients,
    impossible_share_of,
    js_divergence,
    load_checkpoint,
    load_model,
    make_cohort,
    membership_auroc,
    sample_profiles,
    save_model,
    split_by_patient,
    train,
)
from ehr_course.cli.settings import TrainSettings
from ehr_course.cli.train import RECORDS_RECIPE, training_config
from ehr_course.evaluation.privacy import likelihood_scores
from ehr_course.models.prompt_bart import HISTORY

WRITTEN, PART = 3_000, 1_000
CHECKPOINTS = {"C": "tiny_prompt_bart", "E": "prompt_bart_with_history"}


def train_one(which: str, seed: int, learned_from: list, folder: Path) -> None:
    tokenizer = CodeTokenizer.from_records(learned_from)
    torch.manual_seed(seed)
    options = HISTORY if which == "E" else {}
    model = PromptBart(PromptBartConfig.for_tokenizer(tokenizer, "tiny", **options))
    data = RecordDataset(learned_from, tokenizer, corruption=Corruption(p_empty=0.5), seed=seed)
    if which == "C":
        train(model, data, steps=STEPS, lr=2e-3, seed=seed, group_by_length=True)
    else:
        settings = TrainSettings(
            prepared="", steps=STEPS_WITH_HISTORY, seed=seed, **RECORDS_RECIPE
        )
        filled = settings.model_copy(update={"evaluate_every": 0, "patience": 0})
        Trainer(model, data, training_config(filled), device="cpu").run()
        calibrate(model, data, seed=seed)
    save_model(model, tokenizer, folder)


def found_at_one_percent(members: np.ndarray, others: np.ndarray) -> float:
    """The share of members above all but 1% of the others, those with equal scores left out."""
    limit = np.sort(others)[len(others) - 1 - len(others) // 100]
    return float((members > limit).mean())


def codes_in(record) -> Iterable:
    return record.codes


def pairs_in(record) -> Iterable:
    return (pair for v in record.visits for pair in combinations(sorted(v.codes), 2))


def divergence(cohort: list, real: list, things: Callable[..., Iterable]) -> float:
    """The mean over thirds of the cohort, each against as many real patients, in bits."""
    values = []
    for start in range(0, len(cohort), PART):
        both = [
            Counter(thing for record in part for thing in things(record))
            for part in (cohort[start : start + PART], real)
        ]
        found = sorted(set(both[0]) | set(both[1]))
        values.append(js_divergence(*([count[thing] for thing in found] for count in both)))
    return fmean(values)


def measured(which: str, loaded, seed: int, learned_from: list, held_out: list) -> dict:
    model, tokenizer = loaded.of_patients()
    cohort = generate_patients(
        model,
        tokenizer,
        sample_profiles(learned_from, WRITTEN, seed=seed),
        seed=seed,
        batch_size=512,
        sampling=calibrated_for(model),
        eligible=EligibleOnly() if which == "E" else None,
    )
    *tables, written = code_tables(learned_from[:WRITTEN], held_out, cohort)
    again, codes = carried_over(written)
    near = [distance_scores(people, written) for people in tables]
    known = tokenizer.skipping_unseen()
    readable = [
        [r for r in people if all(code in known for code in r.codes)]
        for people in (learned_from[: len(held_out)], held_out)
    ]
    likely = [likelihood_scores(model, tokenizer, people) for people in readable]
    return {
        "model": which,
        "seed": seed,
        "codes": divergence(cohort, held_out, codes_in),
        "pairs": divergence(cohort, held_out, pairs_in),
        "impossible": impossible_share_of(cohort),
        "carried_over": float(again.sum() / codes.sum()),
        "visits": fmean(len(record.visits) for record in cohort),
        "auroc_by_distance": membership_auroc(*near),
        "found_by_distance": found_at_one_percent(*near),
        "auroc_by_likelihood": membership_auroc(*likely),
        "found_by_likelihood": found_at_one_percent(*likely),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("table", type=Path)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    learned_from, *others = split_by_patient(make_cohort(COHORT, seed=0), seed=0)
    held_out = [record for part in others for record in part]
    folder = chosen.models or Path(tempfile.mkdtemp())
    rows = []
    for seed in range(chosen.seeds):
        for which, name in CHECKPOINTS.items():
            place = folder / f"{which}{seed}"
            if seed and not place.exists():
                train_one(which, seed, learned_from, place)
            loaded = load_model(place) if seed else load_checkpoint(name)
            rows.append(measured(which, loaded, seed, learned_from, held_out))
            print(rows[-1], flush=True)
            # After each, because the trainings take long.
            pl.DataFrame(rows).write_csv(chosen.table, float_precision=4)


if __name__ == "__main__":
    main()
