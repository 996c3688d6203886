"""Train the small PromptBart with prompts and without, and compare what it knows of age and sex.

    python benchmarks/conditioning.py
    python benchmarks/conditioning.py --quick

Both models learn from the same patients in the same order, with the same settings and the same
seed. One is told age and sex, to both sides; the other has no prompts. Neither sees a code of a
held-out patient: it begins at an empty record. Compared are

* *loss*: nats a token on the records of the held-out patients;
* *impossible*: the share of all codes, among those of patients written for the held-out patients'
  ages and sexes, that the patient's age or sex rules out.

Seconds are those of the processor for one training on one thread, so that another program on the
machine does not count. The benchmark demands of every seed that the told model has the smaller
loss and at most a quarter of the other's impossible share, within 90 seconds of training.
"""

from __future__ import annotations

import argparse
import itertools
import time
from dataclasses import dataclass

import torch

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.sampler import LengthBatchSampler
from ehr_course.evaluation.validity import impossible_share_of
from ehr_course.generation.patients import PatientProfile, generate_patients
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.records import PatientRecord
from ehr_course.sources.splits import Split, split_by_patient
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.trainer import train

MOST_OF_IMPOSSIBLE = 0.25
MOST_SECONDS = 90.0
"""What this benchmark demands, for every seed."""

QUICK = {"patients": 500, "steps": 20, "written": 50, "seeds": 1}


@dataclass(frozen=True)
class Scores:
    """What one model comes to: seconds of training, nats a token, share of impossible codes."""

    seconds: float
    loss: float
    impossible: float


def measure(split: Split, *, told: bool, seed: int, steps: int, written: int) -> Scores:
    """Train a model, and judge it on the patients it has not learned from."""
    tokenizer = CodeTokenizer.from_records(split.train)
    torch.manual_seed(seed)
    config = PromptBartConfig.for_tokenizer(
        tokenizer, "tiny", prompt_encoder=told, prompt_decoder=told
    )
    model = PromptBart(config)
    dataset = RecordDataset(split.train, tokenizer, corruption=Corruption(p_empty=0.5), seed=seed)
    began = time.process_time()
    train(model, dataset, steps=steps, lr=2e-3, seed=seed, progress=False)
    seconds = time.process_time() - began
    patients = [*split.validation, *split.test]
    wanted = [PatientProfile(patient.age, patient.sex) for patient in patients]
    records = generate_patients(
        model, tokenizer, list(itertools.islice(itertools.cycle(wanted), written)), seed=seed
    )
    return Scores(seconds, held_out_loss(model, patients, tokenizer), impossible_share_of(records))


@torch.no_grad()
def held_out_loss(
    model: PromptBart, patients: list[PatientRecord], tokenizer: CodeTokenizer
) -> float:
    """Nats a token, from age and sex alone, or from nothing where the model has no prompts."""
    known = CodeTokenizer(tokenizer.codes, unseen="skip")
    dataset = RecordDataset(patients, known, corruption=Corruption(p_empty=1.0))
    outputs = [
        model(**dataset[key])
        for key in LengthBatchSampler(dataset.lengths, 64, shuffle=False, group_by_length=True)
    ]
    return float(sum(o.loss_sum for o in outputs) / sum(o.loss_count for o in outputs))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patients", type=int, default=5_000, help="of the cohort (%(default)s)")
    parser.add_argument("--steps", type=int, default=1_200, help="of a training (%(default)s)")
    parser.add_argument("--written", type=int, default=1_500, help="patients (%(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="how many (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="show that it runs; demand nothing")
    options = parser.parse_args()
    if options.quick:
        vars(options).update(QUICK)
    torch.set_num_threads(1)
    split = split_by_patient(make_cohort(options.patients, seed=0), seed=0)
    print(
        f"{len(split.train):,} patients to learn from, {options.steps:,} steps; "
        f"{len(split.validation) + len(split.test):,} held out, {options.written:,} written"
    )
    print(f"{'':6}{'seconds':>18}{'loss':>18}{'impossible':>18}{'':>9}")
    print("seed  " + f"{'told':>9}{'untold':>9}" * 3 + f"{'ratio':>9}")
    failed = False
    for seed in range(options.seeds):
        told, untold = (
            measure(split, told=each, seed=seed, steps=options.steps, written=options.written)
            for each in (True, False)
        )
        ratio = told.impossible / untold.impossible if untold.impossible else float("nan")
        holds = (
            told.loss < untold.loss
            and ratio <= MOST_OF_IMPOSSIBLE
            and told.seconds <= MOST_SECONDS
        )
        fails = not holds and not options.quick
        failed = failed or fails
        print(
            f"{seed:<6}{told.seconds:>9.1f}{untold.seconds:>9.1f}"
            f"{told.loss:>9.3f}{untold.loss:>9.3f}"
            f"{told.impossible:>9.4f}{untold.impossible:>9.4f}{ratio:>9.3f}"
            + ("  fails" if fails else ""),
            flush=True,
        )
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
