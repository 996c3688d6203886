"""Compare generators of patients: the same patients to learn from, the same seconds, one judge.

    python benchmarks/generators.py --out build/generators
    python benchmarks/generators.py --out build/generators \\
        --peers-python build/peers/bin/python --ours promptbart --ours "wide:d_model=128"

Each generator learns from 4,000 patients of the embedded hospital for as many seconds of one
processor core, in a process of its own, and writes 2,000 patients. They are judged by the
measures of ``ehr-course evaluate``, against 4,000 patients whom none has seen: with fewer,
chance would hide the differences of the better ones. This is done for three seeds; the tables
give means and ranges. What is done is kept in the folder: the same command goes on where it was
broken off, and other generators can be added.

``--ours NAME:FIELD=VALUE,...`` is a PromptBart with other settings than those of ``ehr-course
train``: fields of TrainSettings, TrainingConfig, Corruption or PromptBartConfig, or ``epochs``,
the most that it takes. The two others of the page "Compared" are
``--ours average_alone:max_grad_norm=1.0,end_bias=false`` and
``--ours neither:average=0,max_grad_norm=1.0,end_bias=false``.

The generators of PyHealth need a Python 3.12 of their own, which two commands make:

    python3.12 -m venv build/peers
    build/peers/bin/python -m pip install pyhealth==2.1.0
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ehr_course.cli.output import Target
from ehr_course.cli.prepare import open_prepared, prepare
from ehr_course.cli.settings import PrepareSettings
from ehr_course.records import PatientRecord
from ehr_course.sources.splits import Split
from ehr_course.sources.synthetic import make_cohort

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))  # its parts lie beside it

from generators_judge import judged, tables  # noqa: E402

HOSPITAL_SEED = 101
"""Of the patients: no lesson has them."""

COURSE = {
    "fresh": "fresh patients",
    "independent": "independent codes",
    "markov": "Markov chain",
}
PEERS = {
    "gpt2": "GPT-2",
    "halo": "HALO, as shipped",
    "halo_mended": "HALO, mended",
    "promptehr": "PromptEHR",
    "corgan": "CorGAN",
    "medgan": "MedGAN",
}
WRITTEN_WITH = {"halo_mended": "halo"}
"""Which generator's training writes the patients of another."""

NO_PEERS = """PyHealth's generators are left out. To compare them too, make their environment:
    python3.12 -m venv build/peers
    build/peers/bin/python -m pip install pyhealth==2.1.0
and add --peers-python build/peers/bin/python"""


def recipe(text: str) -> tuple[str, dict[str, Any]]:
    """A name and the fields that it changes.

    >>> recipe("slow:lr=0.001,profile=narrow,group_by_length=true")
    ('slow', {'lr': 0.001, 'profile': 'narrow', 'group_by_length': True})
    """
    name, _, listed = text.partition(":")
    if not re.fullmatch("[a-z][a-z0-9_]*", name) or name in (*COURSE, *PEERS):
        raise argparse.ArgumentTypeError(f"{name!r} is no free name of small letters")
    changes = {}
    for change in filter(None, listed.split(",")):
        field, equals, value = change.partition("=")
        if not equals:
            raise argparse.ArgumentTypeError(f"{change!r} is not FIELD=VALUE")
        try:
            changes[field] = json.loads(value)
        except json.JSONDecodeError:
            changes[field] = value
    return name, changes


def patients_of(options: argparse.Namespace) -> Split:
    """The patients to learn from and those to judge by.

    They are in the folder as ``ehr-course prepare`` writes them, and as JSON for other programs. A
    fifth of those patients is held out there, to predict them; more are drawn to judge by.
    """
    folder: Path = options.out
    settings = {name: getattr(options, name) for name in ("train", "held_out", "seconds", "write")}
    kept = folder / "settings.json"
    if kept.exists():
        then = json.loads(kept.read_text(encoding="utf-8"))
        if then != settings:
            raise SystemExit(f"{kept}: this folder was made with {then}. Name another folder.")
    if not (folder / "prepared").exists():
        n = options.train * 5 // 4
        how = PrepareSettings(patients=n, validation=0.0, test=0.2, seed=HOSPITAL_SEED)
        folder.mkdir(parents=True, exist_ok=True)
        prepare(how, Target(folder / "prepared", quiet=True))
    split = open_prepared(folder / "prepared").split()
    write_json(
        folder / "patients.json", {"train": plain(split.train), "held_out": plain(split.test)}
    )
    write_json(kept, settings)
    # A longer cohort begins with the shorter one: the rest of it is of the same hospital.
    n = len(split.train) + len(split.test)
    more = make_cohort(n + options.held_out - len(split.test), seed=HOSPITAL_SEED)[n:]
    return split._replace(test=[*split.test, *more])


def plain(records: Sequence[PatientRecord]) -> list[dict[str, Any]]:
    return [
        {"sex": r.sex, "age": r.age, "visits": [list(visit.codes) for visit in r.visits]}
        for r in records
    ]


def run(name: str, changes: dict[str, Any] | None, seed: int, options: argparse.Namespace) -> None:
    """Let one generator learn and write, in a process of its own."""
    folder: Path = options.out
    command = ["--generator", WRITTEN_WITH.get(name, name), "--seed", str(seed)]
    command += ["--seconds", str(options.seconds), "--write", str(options.write)]
    command += ["--out", str(folder)]
    if name in PEERS:
        program = [str(options.peers_python), str(HERE / "generators_pyhealth.py")]
        command += ["--patients", str(folder / "patients.json")]
    else:
        program = [sys.executable, str(HERE / "generators_course.py")]
        command += ["--prepared", str(folder / "prepared"), "--changes", json.dumps(changes or {})]
    one_thread = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TQDM_DISABLE": "1"}
    path = os.pathsep.join(filter(None, (str(HERE.parent), os.environ.get("PYTHONPATH"))))
    if name not in PEERS:
        one_thread["PYTHONPATH"] = path
    done = subprocess.run(
        program + command, env=os.environ | one_thread, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"{name}, seed {seed}, failed:\n{done.stderr[-2_000:]}")


def found_with(
    name: str, changes: dict[str, Any] | None, seed: int, split: Split, options: argparse.Namespace
) -> dict[str, Any]:
    """What a generator wrote and scored with a seed; what is in the folder is not done again."""
    result = options.out / f"{name}-{seed}.json"
    measured = options.out / f"{name}-{seed}.measures.json"
    if not result.exists():
        say(f"{name}, seed {seed}: learns and writes")
        run(name, changes, seed, options)
        measured.unlink(missing_ok=True)
    found = json.loads(result.read_text(encoding="utf-8"))
    if changes is not None and found["settings"] != changes:
        raise SystemExit(
            f"{result}: this {name} was made with {found['settings']}. Give it another name."
        )
    if options.judge_again or not measured.exists():
        say(f"{name}, seed {seed}: is judged")
        write_json(measured, judged(found, split, seed))
    numbers = {key: value for key, value in found.items() if not isinstance(value, list | dict)}
    return numbers | json.loads(measured.read_text(encoding="utf-8"))


def write_json(file: Path, content: object) -> None:
    unfinished = file.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(content), encoding="utf-8")
    unfinished.replace(file)


def say(text: str) -> None:
    print(text, flush=True)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder of the results")
    parser.add_argument("--table", type=Path, help="write the tables there too")
    parser.add_argument("--ours", type=recipe, action="append", metavar="NAME:FIELD=VALUE,...")
    parser.add_argument("--peers-python", type=Path, help="a Python that has PyHealth 2.1.0")
    parser.add_argument("--only", nargs="+", help="of all generators, these")
    parser.add_argument("--train", type=int, default=4_000, help="patients to learn from")
    parser.add_argument("--held-out", type=int, default=4_000, help="patients to judge by")
    parser.add_argument("--seconds", type=float, default=240, help="of one core, to learn")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--write", type=int, default=2_000, help="patients that each writes")
    parser.add_argument("--no-runs", action="store_true", help="of what is in the folder alone")
    parser.add_argument("--judge-again", action="store_true", help="judge what is in the folder")
    return parser.parse_args()


def main() -> None:
    options = read_options()
    ours = dict(options.ours or [("promptbart", {})])
    labels = COURSE | {name: name.replace("_", " ") for name in ours} | PEERS
    order = ["fresh", *ours, *PEERS, "independent", "markov"]
    if options.only:
        order = [name for name in order if name in options.only]
    if options.peers_python is None and not options.no_runs and set(order) & set(PEERS):
        say(NO_PEERS)
        order = [name for name in order if name not in PEERS]
    split = patients_of(options)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in order}
    for seed in range(options.seeds):
        for name in order:
            if options.no_runs and not (options.out / f"{name}-{seed}.json").exists():
                continue
            results[name].append(found_with(name, ours.get(name), seed, split, options))
    text = tables({name: found for name, found in results.items() if found}, labels)
    for file in filter(None, (options.out / "tables.md", options.table)):
        file.write_text(text, encoding="utf-8")
    say(text)


if __name__ == "__main__":
    main()
