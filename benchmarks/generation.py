"""Write patients in batches of 64 and one at a time, in turn, and compare patients a second.

    python benchmarks/generation.py
    python benchmarks/generation.py --patients 64 --pairs 3

Both use `generate_patients` with the trained tiny model, with its cache, and the same seeds, and
must write the same patients. Ratios are medians over pairs.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from ehr_course.generation.patients import Wanted, generate_patients
from ehr_course.models.saved import load_checkpoint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patients", type=int, default=128)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    loaded = load_checkpoint("tiny_prompt_bart")
    wanted = [Wanted(number % 91, "FM"[number % 2]) for number in range(options.patients)]

    def write(batch_size: int) -> tuple[float, list]:
        began = time.perf_counter()
        records = generate_patients(loaded.model, loaded.tokenizer, wanted, batch_size=batch_size)
        return time.perf_counter() - began, records

    write(64)
    ratios, batched_seconds, single_seconds = [], [], []
    for _ in range(options.pairs):
        single, one_by_one = write(1)
        batched, together = write(64)
        if one_by_one != together:
            raise SystemExit("the two ways did not write the same patients")
        ratios.append(single / batched)
        single_seconds.append(single)
        batched_seconds.append(batched)
    print(f"one at a time:  {options.patients / statistics.median(single_seconds):.0f} patients/s")
    print(
        f"batches of 64:  {options.patients / statistics.median(batched_seconds):.0f} patients/s"
    )
    print(f"median ratio {statistics.median(ratios):.1f} ({min(ratios):.1f}-{max(ratios):.1f})")


if __name__ == "__main__":
    main()
