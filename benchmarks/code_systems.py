"""Compare what can be done with a hospital that changed from ICD-9-CM to ICD-10-CM.

    python benchmarks/code_systems.py
    python benchmarks/code_systems.py --parts translation losses
    python benchmarks/code_systems.py --demo mimic3-demo --parts losses
    python benchmarks/code_systems.py --quick

The embedded hospital is there three times, with the same patients: all in ICD-9-CM, all in
ICD-10-CM, and changed in mid-course. So it is known what each visit would have been in the other
system. The parts:

* *translation*: each hospital translated into the other system, and compared with what that one
  wrote, by the rule of ``sources.codes`` and by simpler ones;
* *losses*: the hospital that changed, read in four ways: the diagnoses of one system alone, or
  all of them in one system; how many patients, admissions and diagnoses are left, and how often a
  code of the last visit before the change comes back at the first visit after it;
* *models*: a model learns from each of the four, and one from each hospital that never changed.
  Held-out patients are those of the hospital that never changed. Each model of a system is judged
  on the same codes, those that all of its three models know; *unknown* is the share of all codes
  of these patients that the model does not know;
* *unmarked*: a model learns from the hospital that changed, its versions mixed and the column that
  tells them left out, and writes as many patients. Their codes are told apart by the vocabularies
  of the two hospitals that never changed, which have no text in common. *Change back* counts
  neighbouring visits of which the earlier is in ICD-10-CM and the later in ICD-9-CM.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import torch

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.code_system import CODE_SYSTEMS, CodeSystem, other_system
from ehr_course.evaluation.perplexity import perplexity
from ehr_course.generation.patients import generate_patients, sample_profiles
from ehr_course.icd import Translation, translate
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.records import AnyRecord, PatientRecord, Visit
from ehr_course.sources.any_cohort import load_cohort
from ehr_course.sources.codes import equivalent
from ehr_course.sources.cohort import Cohort
from ehr_course.sources.mimic import load_mimic4
from ehr_course.sources.synthetic import make_cohort, write_mimic4
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.trainer import train

PARTS = ("translation", "losses", "models", "unmarked")
WAYS: dict[str, dict[str, CodeSystem]] = {
    "ICD-9 alone": {"system": "ICD9CM"},
    "ICD-10 alone": {"system": "ICD10CM"},
    "all in ICD-9": {"map_to": "ICD9CM"},
    "all in ICD-10": {"map_to": "ICD10CM"},
}
QUICK = {"patients": 300, "steps": 10, "seeds": 1}
HELD_OUT = 5  # every so many-th patient


# ------------------------------------------------------------------ translation


def _first(found: Translation) -> tuple[str, ...]:
    return next(iter(found.alternatives), ())


RULES: dict[str, Callable[[str, CodeSystem], tuple[str, ...]]] = {
    "as the library does": lambda code, source: equivalent(code, source=source).codes,
    "the first alternative": lambda code, source: _first(translate(code, source=source)),
    "every alternative": lambda code, source: translate(code, source=source).codes,
}


def compare_rules(hospitals: dict[CodeSystem, list[PatientRecord]]) -> None:
    """Print how many codes of the true visits each rule finds, and how many it adds."""
    print(f"{'':26}{'found':>9}{'right':>9}")
    for source in CODE_SYSTEMS:
        before, truth = hospitals[source], hospitals[other_system(source)]
        codes = {code for record in before for code in record.codes}
        print(f"from {source}: {len(codes)} codes")
        for name, rule in RULES.items():
            becomes = {code: rule(code, source) for code in codes}
            right = written = wanted = 0
            for old, new in _visits_of_both(before, truth):
                got = {target for code in old.codes for target in becomes[code]}
                right += len(got & set(new.codes))
                written += len(got)
                wanted += len(new.codes)
            print(f"  {name:24}{right / wanted:>9.3f}{right / written:>9.3f}", flush=True)


def _visits_of_both(
    first: Iterable[PatientRecord], second: Iterable[PatientRecord]
) -> Iterable[tuple[Visit, Visit]]:
    for one, other in zip(first, second, strict=True):
        yield from zip(one.visits, other.visits, strict=True)


# ------------------------------------------------------------------ losses


def read_in_each_way(changed: list[PatientRecord]) -> dict[str, Cohort]:
    """Write the hospital as MIMIC-IV has it, and load it in each way."""
    with tempfile.TemporaryDirectory() as folder:
        write_mimic4(changed, folder)
        return {name: load_mimic4(folder, **how) for name, how in WAYS.items()}


def compare_losses(
    hospitals: dict[CodeSystem, list[PatientRecord]],
    changed: list[PatientRecord],
    read: dict[str, Cohort],
) -> None:
    """Print what is left in each way, and what comes back after the change."""
    print(f"{'':16}{'patients':>10}{'shorter':>9}{'visits':>9}{'codes':>9}{'come back':>11}")
    pairs = _pairs_at_the_change(changed)
    for system, records in hospitals.items():
        print(_row(f"truth {system}", records, None, _come_back(records, pairs)))
    for name, cohort in read.items():
        shortened = cohort.report.shortened
        n_short = 0 if shortened is None else shortened.patients
        print(_row(name, cohort.records, n_short, _come_back(cohort.records, pairs)))
    for name, cohort in read.items():
        if cohort.report.translated is not None:
            print(f"{name}:", *cohort.report.translated.lines, sep="\n  ")


def _row(
    name: str, records: Iterable[AnyRecord], n_short: int | None, come_back: float | None
) -> str:
    records = list(records)
    n_visits = sum(len(record.visits) for record in records)
    n_codes = sum(len(record.codes) for record in records)
    short = "" if n_short is None else f"{n_short:,}"
    share = "" if come_back is None else f"{come_back:.3f}"
    return f"{name:16}{len(records):>10,}{short:>9}{n_visits:>9,}{n_codes:>9,}{share:>11}"


def _pairs_at_the_change(changed: list[PatientRecord]) -> set[tuple[int, int]]:
    """The last visits before the change and the first ones after it, by their numbers."""
    return {
        (before.hadm_id, after.hadm_id)
        for record in changed
        for before, after in zip(record.visits, record.visits[1:], strict=False)
        if before.system != after.system
    }


def _come_back(records: Iterable[AnyRecord], pairs: set[tuple[int, int]]) -> float | None:
    """The share of the codes before the change that the visit after it has again."""
    again = before = 0
    for record in records:
        for one, other in zip(record.visits, record.visits[1:], strict=False):
            if (one.hadm_id, other.hadm_id) in pairs:
                again += len(set(one.codes) & set(other.codes))
                before += len(one.codes)
    return again / before if before else None


def translate_demo(folder: Path) -> None:
    """Print what becomes of a folder of real tables in ICD-9-CM."""
    plain = load_cohort(folder, malformed="drop")
    mapped = load_cohort(folder, malformed="drop", map_to="ICD10CM")
    for name, cohort in (("as it is", plain), ("in ICD-10", mapped)):
        print(_row(name, cohort.records, None, None))
    print(*mapped.report.translated.lines, sep="\n")


# ------------------------------------------------------------------ models


def compare_models(
    hospitals: dict[CodeSystem, list[PatientRecord]],
    read: dict[str, Cohort],
    *,
    steps: int,
    seed: int,
) -> None:
    """Train a model in each way, and judge it on the hospital that never changed."""
    for system, truth in hospitals.items():
        trained_on = {f"truth {system}": truth}
        trained_on |= {
            name: cohort.records for name, cohort in read.items() if system in WAYS[name].values()
        }
        tests = [record for record in truth if record.subject_id % HELD_OUT == 0]
        models = {}
        for name, records in trained_on.items():
            began = time.process_time()
            learned = [record for record in records if record.subject_id % HELD_OUT]
            models[name] = *_trained(learned, steps, seed), len(learned)
            models[name] = *models[name], time.process_time() - began
        common = set.intersection(*(set(tokenizer.codes) for _, tokenizer, *_ in models.values()))
        judged = _with_codes_of(tests, common)
        n_codes = sum(len(record.codes) for record in tests)
        for name, (model, tokenizer, n_patients, seconds) in models.items():
            scores = perplexity(model, tokenizer, judged, seed=seed, resamples=10)
            value = scores["longitudinal perplexity per code"].value
            unknown = tokenizer.unseen_codes(tests).total() / n_codes
            print(
                f"{seed:<6}{name:16}{n_patients:>9,}{value:>12.1f}{unknown:>10.1%}{seconds:>9.0f}",
                flush=True,
            )


def _trained(
    records: list[PatientRecord], steps: int, seed: int
) -> tuple[PromptBart, CodeTokenizer]:
    tokenizer = CodeTokenizer.from_records(records)
    torch.manual_seed(seed)
    model = PromptBart(PromptBartConfig.for_tokenizer(tokenizer, "tiny"))
    dataset = RecordDataset(records, tokenizer, corruption=Corruption(p_empty=0.5), seed=seed)
    train(model, dataset, steps=steps, lr=2e-3, seed=seed, progress=False)
    return model.eval(), tokenizer


def _with_codes_of(records: list[PatientRecord], known: set[str]) -> list[PatientRecord]:
    """The same patients with these codes alone; visits that have none of them are left out."""
    judged = []
    for record in records:
        kept = [tuple(code for code in visit.codes if code in known) for visit in record.visits]
        visits = tuple(
            Visit(codes, visit.admitted, visit.hadm_id, visit.system)
            for codes, visit in zip(kept, record.visits, strict=True)
            if codes
        )
        if visits:
            judged.append(PatientRecord(record.subject_id, record.sex, record.age, visits))
    return judged


# ------------------------------------------------------------------ mixed and unmarked


def mix_unmarked(
    hospitals: dict[CodeSystem, list[PatientRecord]],
    changed: list[PatientRecord],
    *,
    steps: int,
    seed: int,
) -> None:
    """Train on both versions as if they were one, and look at what the model writes."""
    older, newer = ({c for r in hospitals[s] for c in r.codes} for s in CODE_SYSTEMS)
    if older & newer:
        raise ValueError("the two vocabularies have texts in common")
    unmarked = [
        replace(record, visits=tuple(replace(v, system="ICD9CM") for v in record.visits))
        for record in changed
    ]
    learned = [record for record in unmarked if record.subject_id % HELD_OUT]
    model, tokenizer = _trained(learned, steps, seed)
    wanted = sample_profiles(learned, len(learned), seed=seed)
    written = generate_patients(model, tokenizer, wanted, seed=seed)
    for name, records in (("the hospital", learned), ("the model", written)):
        visits = [[newer & {*v.codes} != set() for v in r.visits] for r in records]
        both = [bool(older & {*v.codes} and newer & {*v.codes}) for r in records for v in r.visits]
        pairs = [pair for of in visits for pair in pairwise(of)]
        back = Counter()
        for record, of in zip(records, visits, strict=True):
            for (a, b), is_newer in zip(pairwise(record.visits), pairwise(of), strict=True):
                back[is_newer[0] != is_newer[1], "codes"] += len(a.codes)
                back[is_newer[0] != is_newer[1], "back"] += len({*a.codes} & {*b.codes})
        within, across = (back[k, "back"] / max(back[k, "codes"], 1) for k in (False, True))
        print(
            f"{seed:<6}{name:14}{sum(both) / len(both):>11.1%}"
            f"{sum(pair == (False, True) for pair in pairs):>9}"
            f"{sum(pair == (True, False) for pair in pairs):>13}{within:>9.3f}{across:>9.3f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--patients", type=int, default=4_000, help="of a hospital (%(default)s)")
    parser.add_argument("--steps", type=int, default=500, help="of a training (%(default)s)")
    parser.add_argument("--seeds", type=int, default=3, help="how many (%(default)s)")
    parser.add_argument("--demo", type=Path, help="a folder with real tables in ICD-9-CM")
    parser.add_argument("--quick", action="store_true", help="show that it runs")
    options = parser.parse_args()
    if options.quick:
        vars(options).update(QUICK)
    torch.set_num_threads(1)
    for seed in range(options.seeds):
        hospitals = {s: make_cohort(options.patients, seed=seed, system=s) for s in CODE_SYSTEMS}
        changed = make_cohort(options.patients, seed=seed, changed=True)
        if "translation" in options.parts:
            print(f"\nTranslated visits and true ones, seed {seed}")
            compare_rules(hospitals)
        read = read_in_each_way(changed)
        if "losses" in options.parts:
            print(f"\nWhat is left, seed {seed}")
            compare_losses(hospitals, changed, read)
        if "models" in options.parts:
            print(
                f"\n{'seed':6}{'':16}{'patients':>9}{'perplexity':>12}{'unknown':>10}{'seconds':>9}"
            )
            compare_models(hospitals, read, steps=options.steps, seed=seed)
        if "unmarked" in options.parts:
            print(
                f"\n{'seed':6}{'':14}{'mixed visit':>11}{'change':>9}{'change back':>13}"
                f"{'within':>9}{'across':>9}"
            )
            mix_unmarked(hospitals, changed, steps=options.steps, seed=seed)
    if options.demo is not None and "losses" in options.parts:
        print(f"\n{options.demo.name}")
        translate_demo(options.demo)


if __name__ == "__main__":
    main()
