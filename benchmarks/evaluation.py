"""Hold a synthetic cohort against a real one two ways, and compare time and memory.

    python benchmarks/evaluation.py
    python benchmarks/evaluation.py --patients 5000 --parts measures
    python benchmarks/evaluation.py --visits mimic3

"measures" is fidelity and validity, each with its bootstrap intervals:

* the plain way: loops over patients, visits and codes that fill dictionaries, for each split
  and each bootstrap resample. It gets a tenth of the patients and a few of the 200 resamples; its
  time is linear in both, so the rest is extrapolated. Its memory is what it is for that tenth;
* the library: sums over patients as sparse matrices times counts.

Both must find the same values and floors on that tenth, or the benchmark fails. Each way runs in a
fresh process. Seconds are those of the call, imports and the making of patients left out. Memory
is the peak of the whole process; "patients alone" is a process that makes the patients and imports
what the ways import.

"report" is everything that ehr_course.report.judge measures without a model, on as many real and
as many synthetic patients, and a tenth as many held out.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import combinations, pairwise, product
from typing import Any

from ehr_course.icd import icd9
from ehr_course.records import PatientRecord

RESAMPLES = 200
FEW = 3
"""How many resamples the plain way really does."""

Cohort = list[PatientRecord]


# ---------------------------------------------------------------------- the plain way


def counted(cohort: Iterable[PatientRecord]) -> dict[str, Any]:
    """Count everything in a cohort that fidelity compares."""
    kinds = "patient visit first later pairs turns n_visits n_codes ages carried carried_of"
    found: dict[str, Any] = {kind: Counter() for kind in kinds.split()}
    patients = visits = turns = women = 0
    for record in cohort:
        patients += 1
        women += record.sex == "F"
        found["ages"][record.age] += 1
        found["n_visits"][len(record.visits)] += 1
        found["patient"].update(set(record.codes))
        for visit in record.visits:
            visits += 1
            found["visit"].update(visit.codes)
            found["n_codes"][len(visit.codes)] += 1
            found["pairs"].update(combinations(sorted(visit.codes), 2))
        found["first"].update(record.visits[0].codes)
        for visit, following in pairwise(record.visits):
            turns += 1
            found["turns"].update(product(visit.codes, following.codes))
            found["later"].update(following.codes)
        count_coming_back(record, found["carried"], found["carried_of"])
    of = {"patient": patients, "visit": visits, "turns": turns, "first": patients, "later": turns}
    return found | {"of": of, "women": women}


def count_coming_back(record: PatientRecord, carried: Counter, of: Counter) -> None:
    """Count what stood in an earlier visit of the same patient, and of how many, by measure."""
    codes = [set(visit.codes) for visit in record.visits]
    chronic = [
        {icd9.category(code) for code in visit if icd9.in_chronic_category(code)}
        for visit in codes
    ]
    for things, sets in (("codes", codes), ("chronic categories", chronic)):
        for gap in (1, 2, 3):
            name = f"carry-over of {things}" + (f" across {gap} visits" if gap > 1 else "")
            for before, after in zip(sets, sets[gap:], strict=False):
                carried[name] += len(after & before)
                of[name] += len(after)
    if len(codes) > 1:
        times = Counter(code for visit in codes for code in visit)
        carried["recurrent codes"] += sum(n > 1 for n in times.values())
        of["recurrent codes"] += len(times)


def compared(real: dict, synthetic: dict, keys: dict[str, list]) -> dict[str, float]:
    """Every measure of fidelity for two sides that were counted."""
    from ehr_course.evaluation.fidelity_measures import MOST_PAIRED

    names = {
        "patient": ("patient prevalence", "patient", None),
        "visit": ("visit prevalence", "visit", "code distribution"),
        "first": ("first visit prevalence", "first", None),
        "later": ("later visit prevalence", "later", None),
        "pairs": ("code pairs", "visit", "code pairs"),
        "turns": ("sequential pairs", "turns", "sequential pairs"),
    }
    new = sum(n for code, n in synthetic["visit"].items() if not real["visit"][code])
    measures = {
        "distinct codes": len(synthetic["patient"]),
        "unseen codes": new / synthetic["visit"].total(),
    }
    often = most_frequent(real["visit"], keys["paired"], MOST_PAIRED)
    keys = keys | {"pairs": list(combinations(often, 2)), "turns": list(product(often, often))}
    for kind, (name, per, distribution) in names.items():
        n_real, n_synthetic = real["of"][per], synthetic["of"][per]
        own = keys[kind]
        p = [real[kind][key] / n_real for key in own]
        q = [synthetic[kind][key] / n_synthetic for key in own]
        mean = sum(p) / len(p)
        squares = sum((a - b) ** 2 for a, b in zip(p, q, strict=True))
        measures[f"{name} R2"] = 1 - squares / sum((a - mean) ** 2 for a in p)
        if kind not in ("first", "later"):
            measures[f"{name} RMSE"] = math.sqrt(squares / len(p))
        if distribution:
            divergence = bits(*(pooled(each[kind], own) for each in (real, synthetic)))
            measures[f"{distribution} JS divergence"] = divergence
            measures[f"{distribution} JS distance"] = math.sqrt(divergence)
    for kind, name in (
        ("n_visits", "visits per patient"),
        ("n_codes", "codes per visit"),
        ("ages", "age"),
    ):
        one, other = real[kind], synthetic[kind]
        means = [sum(k * n for k, n in each.items()) / each.total() for each in (one, other)]
        measures[f"{name} difference"] = abs(means[0] - means[1])
        measures[f"{name} JS divergence"] = bits(one, other)
    shares = [each["women"] / each["of"]["patient"] for each in (real, synthetic)]
    measures["sex difference"] = abs(shares[0] - shares[1])
    many = sum(n for n_visits, n in synthetic["n_visits"].items() if n_visits >= 4)
    measures["patients with 4 visits or more"] = many / synthetic["of"]["patient"]
    for name, n in synthetic["carried_of"].items():
        measures[name] = synthetic["carried"][name] / n
    return measures


def most_frequent(counts: Counter, codes: list, most: int) -> list:
    """The codes that come most often, sorted."""
    return sorted(sorted(codes, key=lambda code: (-counts[code], code))[:most])


def pooled(counts: Counter, own: list) -> Counter:
    """Counts with everything in one place that is not among those that count by themselves."""
    kept = Counter({key: counts[key] for key in own})
    kept["rest"] = counts.total() - kept.total()
    return kept


def bits(one: Counter, other: Counter) -> float:
    """The Jensen-Shannon divergence of two counts, base 2."""
    total, n_one, n_other = 0.0, one.total(), other.total()
    for key in one.keys() | other.keys():
        p, q = one[key] / n_one, other[key] / n_other
        for share in (p, q):
            if share:
                total += share * math.log2(2 * share / (p + q)) / 2
    return max(total, 0.0)


def impossible(cohort: Cohort) -> list[float]:
    """The shares of codes, visits and patients with something impossible."""
    from ehr_course.icd import icd9

    n, bad = [0, 0, 0], [0, 0, 0]
    for record in cohort:
        of_patient = 0
        for visit in record.visits:
            of_visit = sum(
                icd9.why_impossible(code, age=record.age, sex=record.sex) is not None
                for code in visit.codes
            )
            of_patient += of_visit
            for place, (count, of) in enumerate(((of_visit, len(visit.codes)), (of_visit > 0, 1))):
                bad[place] += count
                n[place] += of
        bad[2] += of_patient > 0
        n[2] += 1
    return [b / of for b, of in zip(bad, n, strict=True)]


def plain(real: Cohort, synthetic: Cohort) -> dict[str, Any]:
    """Fidelity and validity by loops: all of the values and floors, and a few of the resamples."""
    import numpy as np

    from ehr_course.evaluation.code_table import MOST_CODES
    from ehr_course.evaluation.fidelity import SPLITS

    start = time.perf_counter()
    everybody = counted(real)
    keys = dict.fromkeys(("patient", "visit", "first", "later"), sorted(everybody["patient"]))
    keys["paired"] = most_frequent(everybody["visit"], keys["patient"], MOST_CODES)
    size = min(len(real) // 2, len(synthetic))
    rng, other_rng = np.random.default_rng(0).spawn(2)
    values, floors = Counter(), Counter()
    for _ in range(SPLITS):
        order = rng.permutation(len(real))
        written = counted([synthetic[i] for i in other_rng.permutation(len(synthetic))[:size]])
        chosen, others = (
            counted([real[i] for i in order[first : first + size]]) for first in (0, size)
        )
        for name, value in compared(chosen, written, keys).items():
            values[name] += value / SPLITS
        for name, value in compared(chosen, others, keys).items():
            floors[name] += value / SPLITS
    for name, value, floor in zip(
        ("codes", "visits", "patients"), impossible(synthetic), impossible(real), strict=True
    ):
        values[name], floors[name] = value, floor
    once = time.perf_counter() - start

    start = time.perf_counter()
    draw = random.Random(0).choices
    for _ in range(FEW):
        compared(counted(draw(real, k=size)), counted(draw(synthetic, k=size)), keys)
        impossible(draw(synthetic, k=len(synthetic)))
    resamples = (time.perf_counter() - start) * RESAMPLES / FEW
    return {"seconds": once + resamples, "values": values, "floors": floors}


# ---------------------------------------------------------------------- the library


def library(real: Cohort, synthetic: Cohort) -> dict[str, Any]:
    """Fidelity and validity of the library."""
    from ehr_course.evaluation.fidelity import fidelity
    from ehr_course.evaluation.validity import validity

    start = time.perf_counter()
    measures = fidelity(real, synthetic, seed=0, resamples=RESAMPLES).measures
    shares = validity(synthetic, real=real, resamples=RESAMPLES).measures
    seconds = time.perf_counter() - start
    named = {measure.name: measure for measure in measures}
    named |= dict(zip(("codes", "visits", "patients"), shares, strict=True))
    return {
        "seconds": seconds,
        "values": {name: measure.value for name, measure in named.items()},
        "floors": {name: measure.floor for name, measure in named.items()},
    }


def nothing(real: Cohort, synthetic: Cohort) -> dict[str, Any]:
    """What patients and imports take by themselves."""
    return {"seconds": 0.0}


def report(real: Cohort, synthetic: Cohort) -> dict[str, Any]:
    """Everything that a report measures without a model."""
    from ehr_course.report.judging import judge

    held_out = len(real) // 11
    start = time.perf_counter()
    judge(train=real[held_out:], held_out=real[:held_out], synthetic=synthetic)
    return {"seconds": time.perf_counter() - start}


# ---------------------------------------------------------------------- measuring

WAYS: dict[str, Callable[[Cohort, Cohort], dict[str, Any]]] = {
    "plain": plain,
    "library": library,
    "report": report,
    "nothing": nothing,
}


def peak_mib() -> float:
    """The peak memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def measure(way: str, n_patients: int, visits: str) -> dict[str, Any]:
    """Make the patients, go one way, and say what it took."""
    # What one way imports and the other does not is no memory of either.
    import ehr_course.report.judging  # noqa: F401
    from ehr_course.sources.synthetic import make_cohort

    n_real = n_patients + n_patients // 10 if way == "report" else n_patients
    real = make_cohort(n_real, seed=0, visits=visits)
    synthetic = make_cohort(n_patients, seed=1, visits=visits)
    return WAYS[way](real, synthetic) | {"mib": peak_mib()}


def in_a_fresh_process(way: str, n_patients: int, visits: str) -> dict[str, Any]:
    """Run one way of this file in a process of its own."""
    command = [sys.executable, __file__, "--way", way, "--patients", str(n_patients)]
    command += ["--visits", visits]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def compare(n_patients: int, visits: str) -> None:
    """Measure both ways and print what they took."""
    tenth = max(60, n_patients // 10)
    slow, fast = (in_a_fresh_process(way, tenth, visits) for way in ("plain", "library"))
    for part in ("values", "floors"):
        for name, value in slow[part].items():
            if not math.isclose(value, fast[part][name], rel_tol=1e-3, abs_tol=1e-5):
                raise SystemExit(f"{name}: {value} by loops, {fast[part][name]} by the library")
    whole, alone = (in_a_fresh_process(way, n_patients, visits) for way in ("library", "nothing"))
    extrapolated = slow["seconds"] * n_patients / tenth
    print(f"fidelity and validity, visits={visits!r}")
    print(f"{'':26}{'patients':>10}{'seconds':>12}{'MiB':>8}")
    for name, n, seconds, mib in (
        ("plain, few resamples", tenth, slow["seconds"], slow["mib"]),
        ("library", tenth, fast["seconds"], fast["mib"]),
        ("plain, extrapolated", n_patients, extrapolated, None),
        ("library", n_patients, whole["seconds"], whole["mib"]),
        ("patients alone", n_patients, None, alone["mib"]),
    ):
        time_taken = " " * 12 if seconds is None else f"{seconds:>12.1f}"
        print(f"{name:26}{n:>10,}{time_taken}{'' if mib is None else f'{mib:8.0f}'}")
    print(
        f"The library is {slow['seconds'] / fast['seconds']:.0f} times as fast on {tenth:,} "
        f"patients, and {extrapolated / whole['seconds']:.0f} times on {n_patients:,} "
        f"(extrapolated). It needs {whole['mib'] / alone['mib']:.2f} times the memory of the "
        f"patients alone.",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--patients", type=int, default=50_000, help="real and synthetic ones each (%(default)s)"
    )
    parser.add_argument("--visits", choices=["lessons", "mimic3"], default="lessons")
    parser.add_argument(
        "--parts", nargs="+", choices=["measures", "report"], default=["measures", "report"]
    )
    parser.add_argument("--way", choices=list(WAYS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.patients < 60:
        parser.error("--patients is 60 or more")
    if options.way:
        print(json.dumps(measure(options.way, options.patients, options.visits)))
        return
    if "measures" in options.parts:
        compare(options.patients, options.visits)
    if "report" in options.parts:
        found = in_a_fresh_process("report", options.patients, options.visits)
        print(
            f"The whole report without a model, {options.patients:,} patients each: "
            f"{found['seconds']:.0f} s, peak {found['mib']:.0f} MiB."
        )


if __name__ == "__main__":
    main()
