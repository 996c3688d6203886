"""Write patients 512 at a time, 64 at a time and one at a time, in turn.

    python benchmarks/generation.py
    python benchmarks/generation.py --patients 500 --rounds 3 --copy-head
    python benchmarks/generation.py --model run/model

All ways use `generate_patients` with the same model and seeds, and must write the same patients,
but for one in a hundred, whose draw may fall on the other side where sums are rounded another way.
Times are seconds of the processor, of one thread by default; ratios are medians over rounds. One
at a time are written the first patients only. Ages and sexes are those of the embedded hospital.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from ehr_course.generation.patients import generate_patients, sample_profiles
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.models.saved import load_checkpoint, load_model
from ehr_course.sources.synthetic import make_cohort

WAYS = {"512 at a time": 512, "64 at a time": 64, "one at a time": 1}
FIRST = next(iter(WAYS))


def with_copy_head(model: PromptBart) -> PromptBart:
    """The same model with an untrained copy head, which costs as much as a trained one."""
    config = PromptBartConfig.from_dict(model.config.to_dict() | {"copy_head": True})
    torch.manual_seed(0)
    made = PromptBart(config).eval()
    made.load_state_dict(model.state_dict(), strict=False)
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patients", type=int, default=2_000)
    parser.add_argument("--single", type=int, default=100, help="one at a time (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--model", help="what save_model wrote; by default the course's checkpoint"
    )
    parser.add_argument("--copy-head", action="store_true", help="add one that is not trained")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    loaded = load_model(options.model) if options.model else load_checkpoint("tiny_prompt_bart")
    has_one = not options.copy_head or loaded.model.copy_head is not None
    model = loaded.model if has_one else with_copy_head(loaded.model)
    wanted = sample_profiles(make_cohort(1_000, seed=1), options.patients)

    def write(way: str) -> tuple[float, list]:
        size = WAYS[way]
        asked = wanted[: options.single] if size == 1 else wanted
        began = time.process_time()
        records = generate_patients(model, loaded.tokenizer, asked, batch_size=size)
        return (time.process_time() - began) / len(asked), records

    _, expected = write(FIRST)  # warms up too
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way in WAYS:
            spent, records = write(way)
            other = sum(one != two for one, two in zip(records, expected, strict=False))
            if other > 0.01 * len(records):
                raise SystemExit(f"{way}: {other} of {len(records)} patients are other ones")
            seconds[way].append(spent)
    tokens = sum(2 + 2 * len(r.visits) + len(r.codes) for r in expected) / len(expected)
    print(f"{options.patients} patients of {tokens:.1f} tokens, {len(loaded.tokenizer)} ids")
    for way, spent in seconds.items():
        ratios = [slow / fast for slow, fast in zip(spent, seconds[FIRST], strict=True)]
        rate = 1 / statistics.median(spent)
        print(
            f"{way:14} {rate:6,.0f} patients/s {rate * tokens:7,.0f} tokens/s; takes "
            f"{statistics.median(ratios):5.1f} ({min(ratios):.1f}-{max(ratios):.1f}) times as long"
        )


if __name__ == "__main__":
    main()
