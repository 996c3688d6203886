"""What the trainer costs beside the loop that it replaces. Not a test.

    python benchmarks/trainer_overhead.py
    python benchmarks/trainer_overhead.py --pairs 51 --steps 20

Both train the tiny model in float32 on one thread, from the same weights, on the same batches,
with the same dropout, clipping, AdamW and schedule: at the end their weights are compared. The
left side is ``Trainer.run``, the right side the loop as one writes it by hand. They run in turn,
a pair at a time; the order changes from pair to pair. The ratio is the median over pairs, and its
quartiles and range stand beside it. What is measured is the time of the processor, which neither
side waits away, so that other programs disturb it less.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from functools import partial

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.sampler import data_loader
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.config import TrainingConfig
from ehr_course.training.trainer import Trainer, decay_groups, warmup_cosine_factor

BATCH, LR, WARMUP, SEED = 32, 2e-3, 5, 0


def by_trainer(model: nn.Module, dataset: RecordDataset, steps: int) -> float:
    """Seconds of the processor that the trainer takes for some steps, its making left out."""
    config = TrainingConfig(
        steps=steps, batch_size=BATCH, lr=LR, warmup_steps=WARMUP, seed=SEED, weight_decay=0.01
    )
    trainer = Trainer(model, dataset, config, device="cpu")
    began = time.process_time()
    trainer.run()
    return time.process_time() - began


def by_hand(model: nn.Module, dataset: RecordDataset, steps: int) -> float:
    """Seconds of the processor that the bare loop takes for the same steps."""
    optimizer = torch.optim.AdamW(decay_groups(model, 0.01), lr=LR, fused=True)
    schedule = LambdaLR(
        optimizer, partial(warmup_cosine_factor, warmup_steps=WARMUP, total_steps=steps)
    )
    loader = data_loader(dataset, BATCH, seed=SEED)
    torch.manual_seed(SEED)
    losses: list[float] = []
    began = time.process_time()
    model.train()
    epoch = 0
    while len(losses) < steps:
        loader.sampler.set_epoch(epoch)
        for batch in loader:
            loss = model(**batch).loss
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            losses.append(loss.item())
            if len(losses) == steps:
                break
        epoch += 1
    return time.process_time() - began


def compare(pairs: int, steps: int) -> str:
    records = make_cohort(2_000, seed=SEED)
    tokenizer = CodeTokenizer.from_records(records)
    dataset = RecordDataset(records, tokenizer)
    torch.manual_seed(SEED)
    start = PromptBart(PromptBartConfig.for_tokenizer(tokenizer))
    ratios, seconds = [], {by_trainer: [], by_hand: []}
    for pair in range(-1, pairs):  # the first one warms up
        order = (by_trainer, by_hand) if pair % 2 else (by_hand, by_trainer)
        models = {side: copy.deepcopy(start) for side in order}
        taken = {side: side(models[side], dataset, steps) for side in order}
        for ours, bare in zip(*(models[side].parameters() for side in order), strict=True):
            torch.testing.assert_close(ours, bare, atol=1e-4, rtol=1e-3)
        if pair >= 0:
            ratios.append(taken[by_trainer] / taken[by_hand])
            for side in order:
                seconds[side].append(taken[side] / steps)
    ours, bare = (1000 * statistics.median(seconds[side]) for side in (by_trainer, by_hand))
    low, _, high = statistics.quantiles(ratios, n=4)
    return (
        f"{ours:.1f} ms a step against {bare:.1f} ms, median ratio "
        f"{statistics.median(ratios):.3f} (quartiles {low:.3f}-{high:.3f}, "
        f"range {min(ratios):.3f}-{max(ratios):.3f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=31)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("Trainer.run against the bare loop, tiny model, float32")
    print(f"  {compare(options.pairs, options.steps)}")


if __name__ == "__main__":
    main()
