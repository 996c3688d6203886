"""Load a hospital of MIMIC-III's size two ways, side by side, and compare time and memory.

    python benchmarks/loading.py
    python benchmarks/loading.py --patients 2000 --pairs 1

The synthetic hospital writes PATIENTS, ADMISSIONS and DIAGNOSES_ICD with as many rows as
MIMIC-III has: 46,520 patients, 58,976 admissions, 651,047 diagnoses. Then each way loads them in
a fresh process, in turn, a pair at a time:

* the tutorial's way: pandas, a merge, then a groupby per patient and per admission;
* `ehr_course.sources.mimic.load_mimic3`.

Both must find the same patients, admissions and codes. Seconds are those of the loading call,
imports left out; memory is the peak of the whole process, imports included. Runs on Linux and
macOS.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path

MIMIC3_PATIENTS = 46_520
MIMIC3_ADMISSIONS = 58_976
MIMIC3_DIAGNOSES = 651_047

# (subject_id, [(hadm_id, codes), ...]): what both ways must agree on.
Plain = tuple[int, list[tuple[int, list[str]]]]


def load_the_tutorials_way(folder: Path) -> list[dict]:
    """Load as the tutorial's chapter 08 does, with no step slower than it has to be."""
    import pandas as pd

    patients = pd.read_csv(
        folder / "PATIENTS.csv",
        usecols=["SUBJECT_ID", "GENDER", "DOB"],
        parse_dates=["DOB"],
    )
    admissions = pd.read_csv(
        folder / "ADMISSIONS.csv",
        usecols=["SUBJECT_ID", "HADM_ID", "ADMITTIME"],
        parse_dates=["ADMITTIME"],
    )
    diagnoses = pd.read_csv(
        folder / "DIAGNOSES_ICD.csv",
        usecols=["HADM_ID", "SEQ_NUM", "ICD9_CODE"],
        # Without this, pandas may read 0389 as 389, and the two ways would not agree.
        dtype={"ICD9_CODE": str},
    )
    diagnoses["ICD9_CODE"] = diagnoses["ICD9_CODE"].astype(str)
    rows = diagnoses.merge(admissions, on="HADM_ID").merge(patients, on="SUBJECT_ID")
    rows = rows.sort_values(["SUBJECT_ID", "ADMITTIME", "SEQ_NUM"])
    records = []
    for subject_id, of_patient in rows.groupby("SUBJECT_ID"):
        first = of_patient.iloc[0]
        visits = [
            (hadm_id, of_admission["ICD9_CODE"].tolist())
            for hadm_id, of_admission in of_patient.groupby("HADM_ID", sort=False)
        ]
        age = min(first["ADMITTIME"].year - first["DOB"].year, 90)
        records.append(
            {"subject_id": subject_id, "sex": first["GENDER"], "age": age, "visits": visits}
        )
    return records


def load_our_way(folder: Path) -> object:
    """Load with the library."""
    from ehr_course.sources.mimic import load_mimic3

    return load_mimic3(folder)


def _plain_tutorial(records: list[dict]) -> Iterable[Plain]:
    return ((record["subject_id"], record["visits"]) for record in records)


def _plain_ours(cohort) -> Iterable[Plain]:
    return (
        (record.subject_id, [(visit.hadm_id, list(visit.codes)) for visit in record.visits])
        for record in cohort.records
    )


WAYS: dict[str, tuple[str, Callable, Callable]] = {
    "tutorial": ("pandas", load_the_tutorials_way, _plain_tutorial),
    "ours": ("ehr_course.sources.mimic", load_our_way, _plain_ours),
}


def measure(way: str, folder: Path) -> dict:
    """Load one way, and say how long it took, how much memory, and what was found."""
    module, load, plain = WAYS[way]
    __import__(module)
    start = time.perf_counter()
    loaded = load(folder)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    digest = hashlib.sha256()
    patients = admissions = diagnoses = 0
    for subject_id, visits in plain(loaded):
        patients += 1
        admissions += len(visits)
        diagnoses += sum(len(codes) for _, codes in visits)
        visits = [(int(hadm_id), codes) for hadm_id, codes in visits]
        digest.update(json.dumps([int(subject_id), visits]).encode())
    return {
        "seconds": seconds,
        "peak_mib": peak / (1024**2 if sys.platform == "darwin" else 1024),
        "found": [patients, admissions, diagnoses, digest.hexdigest()],
    }


def write_hospital(folder: Path, n_patients: int) -> None:
    """Write tables with exactly the rows of MIMIC-III, or a share of them."""
    from ehr_course.records import PatientRecord, Visit
    from ehr_course.sources.synthetic import make_cohort, write_mimic3

    n_visits, n_codes = sizes(n_patients)[1:]
    rng = random.Random(0)
    cohort = make_cohort(n_patients, seed=0, visits="mimic3")
    # The hospital comes close by itself; what is missing or too much is added or taken away.
    visits = [list(record.visits) for record in cohort]
    next_hadm_id = max(visit.hadm_id for each in visits for visit in each) + 1
    while (missing := n_visits - sum(map(len, visits))) != 0:
        for each in rng.choices(visits, k=abs(missing)):
            if missing > 0:
                later = each[-1].admitted + timedelta(days=400)
                each.append(Visit(each[-1].codes, later, next_hadm_id))
                next_hadm_id += 1
            elif len(each) > 1:
                each.pop()
    codes = [list(visit.codes) for each in visits for visit in each]
    known = sorted({code for each in codes for code in each})
    while (missing := n_codes - sum(map(len, codes))) != 0:
        for each in rng.choices(codes, k=abs(missing)):
            code = rng.choice(known)
            if missing > 0 and code not in each:
                each.append(code)
            elif missing < 0 and len(each) > 1:
                each.pop()
    codes_of_visits = map(tuple, codes)
    records = [
        PatientRecord(
            record.subject_id,
            record.sex,
            record.age,
            tuple(Visit(next(codes_of_visits), v.admitted, v.hadm_id) for v in each),
        )
        for record, each in zip(cohort, visits, strict=True)
    ]
    write_mimic3(records, folder, seed=0)


def sizes(n_patients: int) -> tuple[int, int, int]:
    """Return patients, admissions and diagnoses, in the proportions of MIMIC-III."""
    share = n_patients / MIMIC3_PATIENTS
    return n_patients, round(MIMIC3_ADMISSIONS * share), round(MIMIC3_DIAGNOSES * share)


def in_a_fresh_process(task: str, folder: Path, n_patients: int) -> str:
    """Run one task of this file in a process of its own, and return what it prints.

    This process imports nothing large: a child's peak memory would start from it.
    """
    command = [sys.executable, __file__, "--task", task, "--folder", str(folder)]
    command += ["--patients", str(n_patients)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def compare(n_patients: int, n_pairs: int) -> None:
    """Write the hospital, load it both ways in turn, and print what that took."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        in_a_fresh_process("write", folder, n_patients)
        size = sum(path.stat().st_size for path in folder.glob("*.csv")) / 1e6
        expected = list(sizes(n_patients))
        patients, admissions, diagnoses = expected
        print(f"{patients:,} patients, {admissions:,} admissions, {diagnoses:,} diagnoses")
        print(f"{size:.0f} MB of CSV, {n_pairs} pairs of runs, each in a fresh process\n")
        print(f"{'':8}{'tutorial':>22}{'ours':>22}{'times as fast':>16}", flush=True)
        pairs = []
        for number in range(1, n_pairs + 1):
            pair = {}
            for way in WAYS:
                pair[way] = json.loads(in_a_fresh_process(way, folder, n_patients))
                if pair[way]["found"][:3] != expected:
                    raise SystemExit(f"{way} found {pair[way]['found'][:3]}, not {expected}")
            if pair["tutorial"]["found"] != pair["ours"]["found"]:
                raise SystemExit("the two ways found other codes, or in another order")
            pairs.append(pair)
            print(_row(f"pair {number}", pair), flush=True)
        median = {
            way: {
                key: statistics.median(pair[way][key] for pair in pairs)
                for key in ("seconds", "peak_mib")
            }
            for way in WAYS
        }
        print(_row("median", median))
        memory = median["ours"]["peak_mib"] / median["tutorial"]["peak_mib"]
        print(f"\nBoth ways found the same codes. Memory of ours / the tutorial's: {memory:.2f}")


def _row(name: str, pair: dict) -> str:
    cells = "".join(
        f"{pair[way]['seconds']:>10.2f} s {pair[way]['peak_mib']:>5.0f} MiB" for way in WAYS
    )
    return f"{name:8}{cells}{pair['tutorial']['seconds'] / pair['ours']['seconds']:>16.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--patients", type=int, default=MIMIC3_PATIENTS, help="size of the hospital (%(default)s)"
    )
    parser.add_argument("--pairs", type=int, default=3, help="runs of each way (%(default)s)")
    parser.add_argument("--task", choices=["write", *WAYS], help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.patients < 1 or options.pairs < 1:
        parser.error("--patients and --pairs are 1 or more")
    if options.task == "write":
        write_hospital(options.folder, options.patients)
    elif options.task:
        print(json.dumps(measure(options.task, options.folder)))
    else:
        compare(options.patients, options.pairs)


if __name__ == "__main__":
    main()
