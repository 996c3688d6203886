"""Time a training step of PromptBart against plain BART, and what the scored positions save.

    python benchmarks/training_step.py
    python benchmarks/training_step.py --size tiny --pairs 5

Two comparisons, each in one process, in turn, a pair at a time:

* *prompts*: a step of PromptBart on T tokens and 2 prompts, and a step of transformers' own
  BartForConditionalGeneration of the same size on T + 2 tokens: the same number of positions on
  both sides, the same number of them scored;
* *scored positions*: the loss of PromptBart with 30% of the positions scored, vocabulary and
  cross-entropy included, against the same model with the vocabulary projected at all positions.

A step is forward, backward, clipping and AdamW. Ratios are medians over pairs, and the smallest
and largest stand beside them.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import BartConfig, BartForConditionalGeneration

from ehr_course.models.prompt_bart import PROFILES, PromptBart, PromptBartConfig

SIZES: dict[str, dict[str, int]] = {
    # tokens a record and records a batch as the lessons and the sources have them
    "tiny": {"vocab_size": 425, "tokens": 40, "batch": 32, "repeats": 10},
    "full": {"vocab_size": 6_992, "tokens": 126, "batch": 4, "repeats": 1},
}


def config_fields(size: str) -> dict[str, Any]:
    profile = PROFILES[size]
    fields: dict[str, Any] = {
        "vocab_size": SIZES[size]["vocab_size"],
        "d_model": profile["d_model"],
        "max_position_embeddings": profile["positions"],
        "init_std": profile["std"],
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 2,
        "forced_eos_token_id": None,
    }
    for side in ("encoder", "decoder"):
        fields[f"{side}_layers"] = profile["layers"]
        fields[f"{side}_attention_heads"] = profile["heads"]
        fields[f"{side}_ffn_dim"] = profile["ffn"]
    return fields


def make_batch(size: str, tokens: int, scored: float, seed: int = 0) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(seed)
    shape = (SIZES[size]["batch"], tokens)
    ids = torch.randint(7, SIZES[size]["vocab_size"], shape, generator=rng)
    labels = ids.clone()
    keep = torch.rand(shape, generator=rng) < scored
    labels[~keep] = -100
    return {
        "input_ids": ids,
        "attention_mask": torch.ones(shape, dtype=torch.int64),
        "decoder_input_ids": ids.roll(1, 1),
        "labels": labels,
    }


def demographics(size: str) -> dict[str, Tensor]:
    batch = SIZES[size]["batch"]
    return {
        "x_num": torch.linspace(0, 90, batch)[:, None],
        "x_cat": (torch.arange(batch) % 2)[:, None],
    }


def stepper(model: torch.nn.Module, loss_of: Callable[[], Tensor]) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def step() -> None:
        loss_of().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def compare(left: Callable[[], None], right: Callable[[], None], pairs: int, repeats: int) -> str:
    """Time both in turn; return the median of left / right and its range."""
    left(), right()
    ratios, times = [], ([], [])
    for pair in range(pairs):
        seconds = {}
        for name in ("left", "right") if pair % 2 else ("right", "left"):
            began = time.perf_counter()
            for _ in range(repeats):
                left() if name == "left" else right()
            seconds[name] = (time.perf_counter() - began) / repeats
        ratios.append(seconds["left"] / seconds["right"])
        times[0].append(seconds["left"])
        times[1].append(seconds["right"])
    left_ms, right_ms = (1000 * statistics.median(t) for t in times)
    return (
        f"{left_ms:.1f} ms against {right_ms:.1f} ms, median ratio "
        f"{statistics.median(ratios):.3f} ({min(ratios):.3f}-{max(ratios):.3f})"
    )


def prompts_against_plain(size: str, pairs: int) -> str:
    fields, tokens = config_fields(size), SIZES[size]["tokens"]
    torch.manual_seed(0)
    ours = PromptBart(PromptBartConfig(**fields)).train()
    plain = BartForConditionalGeneration(BartConfig(**fields)).train()
    batch = make_batch(size, tokens, 1.0) | demographics(size)
    longer = make_batch(size, tokens + ours.config.n_prompts, 1.0)
    longer["labels"][:, : ours.config.n_prompts] = -100  # as many scored as in ours
    return compare(
        stepper(ours, lambda: ours(**batch).loss),
        stepper(plain, lambda: plain(**longer).loss),
        pairs,
        SIZES[size]["repeats"],
    )


def scored_against_all(size: str, pairs: int) -> str:
    torch.manual_seed(0)
    model = PromptBart(PromptBartConfig(**config_fields(size))).train()
    batch = make_batch(size, SIZES[size]["tokens"], 0.3) | demographics(size)
    labels = batch["labels"]
    unlabelled = {name: value for name, value in batch.items() if name != "labels"}

    def loss_over_all() -> Tensor:
        logits = model(**unlabelled, use_cache=False).logits
        return cross_entropy(logits.flatten(0, 1), labels.flatten())

    torch.testing.assert_close(model.eval()(**batch).loss, loss_over_all())
    model.train()
    return compare(
        stepper(model, lambda: model(**batch).loss),
        stepper(model, loss_over_all),
        pairs,
        SIZES[size]["repeats"],
    )


def projection_alone(size: str, pairs: int) -> str:
    """The vocabulary projection and its loss, without the rest of the model."""
    fields = config_fields(size)
    vocabulary, width = fields["vocab_size"], fields["d_model"]
    torch.manual_seed(0)
    head = torch.nn.Linear(width, vocabulary, bias=False)
    hidden = torch.randn(SIZES[size]["batch"], SIZES[size]["tokens"], width, requires_grad=True)
    labels = make_batch(size, SIZES[size]["tokens"], 0.3)["labels"]

    def scored() -> None:
        at = labels != -100
        cross_entropy(head(hidden[at]), labels[at]).backward()

    def everywhere() -> None:
        cross_entropy(head(hidden).flatten(0, 1), labels.flatten()).backward()

    return compare(scored, everywhere, pairs, SIZES[size]["repeats"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=[*SIZES, "all"], default="all")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for size in SIZES if options.size == "all" else [options.size]:
        print(f"{size}: PromptBart against plain BART, the same positions")
        print(f"  {prompts_against_plain(size, options.pairs)}")
        print(f"{size}: 30% of the positions scored, against the vocabulary at all positions")
        print(f"  whole step: {scored_against_all(size, options.pairs)}")
        print(f"  projection and loss alone: {projection_alone(size, options.pairs)}")


if __name__ == "__main__":
    main()
