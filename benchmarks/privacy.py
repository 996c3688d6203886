"""Nearest neighbours and membership inference, in blocks and as a plain NumPy double loop.

    python benchmarks/privacy.py
    python benchmarks/privacy.py --patients 2000 --pairs 1

Each way asks for the nearest synthetic patient of as many members and as many others, and for the
AUROC of membership from the distances. The double loop compares a patient with a patient at a
time; it is run on a tenth of each cohort and its time taken times a hundred, as its work grows.
In that tenth both ways must find the same distances, neighbours and AUROC. Each run is in a fresh
process, in turn, a pair at a time. Seconds are those of the search, imports and cohorts left out.
Memory is the peak of what the search in blocks allocates, by tracemalloc, in runs of their own:
for these cohorts and for four times as many patients, with which it must hardly grow.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import statistics
import subprocess
import sys
import time
import tracemalloc

import numpy as np

SHARE = 10


def nearest_in_blocks(a, b) -> tuple[np.ndarray, np.ndarray]:
    from ehr_course.evaluation.distances import nearest_distances

    return nearest_distances(a, b)


def nearest_by_double_loop(a, b) -> tuple[np.ndarray, np.ndarray]:
    x, y = (table.patients.toarray().astype(bool) for table in (a, b))
    distances, index = np.empty(len(x)), np.empty(len(x), dtype=np.int64)
    for i, one in enumerate(x):
        best = np.inf
        for j, other in enumerate(y):
            distance = 1 - np.count_nonzero(one & other) / np.count_nonzero(one | other)
            if distance < best:
                best, index[i] = distance, j
        distances[i] = best
    return distances, index


WAYS = {"loop": nearest_by_double_loop, "blocks": nearest_in_blocks}


def measure(way: str, n_patients: int, *, traced: bool) -> dict:
    """Search one way, and say how long it took, or how much memory, and what was found."""
    from sklearn.metrics import roc_auc_score

    from ehr_course.evaluation.code_table import code_tables
    from ehr_course.sources.synthetic import make_cohort

    # The hospital and the columns are those of all patients, also where a tenth is compared.
    hospital = make_cohort(3 * n_patients, seed=0)
    members, others, synthetic = code_tables(*(hospital[start::3] for start in range(3)))
    nearest = WAYS[way]
    nearest(members.select(np.arange(2)), synthetic.select(np.arange(2)))
    if traced:
        tracemalloc.start()
    start = time.perf_counter()
    found = [nearest(patients, synthetic) for patients in (members, others)]
    scores = -np.concatenate([distances for distances, _ in found])
    auroc = roc_auc_score(np.repeat([True, False], [len(members), len(others)]), scores)
    seconds = time.perf_counter() - start
    peak = tracemalloc.get_traced_memory()[1] if traced else 0
    digest = hashlib.sha256()
    for distances, index in found:
        digest.update(distances.round(9).tobytes() + index.tobytes())
    return {
        "seconds": seconds,
        "peak_mib": peak / 2**20,
        "found": [digest.hexdigest(), round(float(auroc), 9)],
        "codes": len(members.codes),
    }


def in_a_fresh_process(way: str, n_patients: int, *, traced: bool = False) -> dict:
    """Run one way in a process of its own, with or without an eye on its memory."""
    command = [sys.executable, __file__, "--way", way, "--patients", str(n_patients)]
    command += ["--traced"] if traced else []
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def compare(n_patients: int, n_pairs: int) -> None:
    tenth = n_patients // SHARE
    print(f"{n_patients:,} members and {n_patients:,} others against {n_patients:,} patients")
    ratios = []
    for number in range(1, n_pairs + 1):
        loop, small = (in_a_fresh_process(way, tenth) for way in WAYS)
        if loop["found"] != small["found"]:
            raise SystemExit(f"the two ways found {loop['found']} and {small['found']}")
        blocks = in_a_fresh_process("blocks", n_patients)
        extrapolated = loop["seconds"] * SHARE**2
        ratios.append(extrapolated / blocks["seconds"])
        print(
            f"pair {number}: double loop {extrapolated:,.0f} s (from {loop['seconds']:.1f} s), "
            f"blocks {blocks['seconds']:.2f} s, {ratios[-1]:,.0f} times as fast",
            flush=True,
        )
    print(f"median ratio {statistics.median(ratios):,.0f} ({min(ratios):,.0f}-{max(ratios):,.0f})")
    for n in (n_patients, 4 * n_patients):
        traced = in_a_fresh_process("blocks", n, traced=True)
        print(
            f"peak memory for {n:,} patients of each and {traced['codes']} codes: "
            f"{traced['peak_mib']:.0f} MiB; all distances at once: {4 * n**2 / 2**20:,.0f} MiB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patients", type=int, default=10_000, help="of each (%(default)s)")
    parser.add_argument("--pairs", type=int, default=3, help="runs of each way (%(default)s)")
    parser.add_argument("--way", choices=list(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pairs < 1 or options.patients < (1 if options.way else 100):
        parser.error("--pairs is 1 or more, --patients 100 or more")
    if options.way:
        print(json.dumps(measure(options.way, options.patients, traced=options.traced)))
    else:
        compare(options.patients, options.pairs)


if __name__ == "__main__":
    main()
