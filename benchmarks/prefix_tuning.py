"""Time a training step of a prefix against full training, and against the peft package.

    python benchmarks/prefix_tuning.py
    python benchmarks/prefix_tuning.py --size tiny --pairs 5

The base is transformers' own BART in every case, in one process, in turn, a pair at a time:

* *full training*: the same base with a prefix of 20 tokens in the decoder, all else frozen, and
  the base with all its weights in training;
* *peft*: the same prefix, direct, in this package and in peft, outputs equal;
* *network*: the prefix made by a network with 512 hidden units, and the direct one.

A step is forward, backward, clipping and AdamW on whatever is trained. Ratios are medians over
pairs, and the smallest and largest stand beside them.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from peft import PeftModel
from torch import Tensor, nn
from training_step import SIZES, compare, config_fields, make_batch
from transformers import BartConfig, BartForConditionalGeneration

from ehr_course.models.prefix_tuning import PrefixConfig, PrefixTuned

N_TOKENS, D_HIDDEN = 20, 512


def bart(size: str) -> BartForConditionalGeneration:
    torch.manual_seed(0)
    return BartForConditionalGeneration(BartConfig(**config_fields(size)))


def prefixed(size: str, d_hidden: int | None = None) -> PrefixTuned:
    config = PrefixConfig(N_TOKENS, d_hidden, shift_positions=True)
    return PrefixTuned(bart(size), config).train()


def with_peft(model: PrefixTuned, size: str) -> PeftModel:
    """The same prefix in peft, in training."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_as_peft(Path(folder) / "adapter")
        theirs = PeftModel.from_pretrained(bart(size), Path(folder) / "adapter")
    theirs.prompt_encoder["default"].embedding.weight.requires_grad_(True)
    return theirs.train()


def stepper(model: nn.Module, batch: dict[str, Tensor]) -> Callable[[], None]:
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4, fused=True)

    def step() -> None:
        model(**batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=[*SIZES, "all"], default="all")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for size in SIZES if options.size == "all" else [options.size]:
        batch = make_batch(size, SIZES[size]["tokens"], 1.0)
        direct, network = prefixed(size), prefixed(size, D_HIDDEN)
        theirs = with_peft(direct, size)
        with torch.no_grad():
            torch.testing.assert_close(
                direct.eval()(**batch).loss, theirs.eval()(**batch).loss, atol=1e-5, rtol=1e-5
            )
        direct.train(), theirs.train()
        ours = stepper(direct, batch)
        everything = bart(size).train()
        for name, left, right in (
            ("full training", ours, stepper(everything, batch)),
            ("peft", ours, stepper(theirs, batch)),
            ("network, against the direct prefix", stepper(network, batch), ours),
        ):
            ratio = compare(left, right, options.pairs, SIZES[size]["repeats"])
            print(f"{size}: {'prefix against ' * (right is not ours)}{name}\n  {ratio}")
        everyone = sum(parameter.numel() for parameter in everything.parameters())
        print(
            f"{size}: trained parameters: all {everyone:,}, prefix {direct.n_trainable:,}, "
            f"with the network {network.n_trainable:,}"
        )


if __name__ == "__main__":
    main()
