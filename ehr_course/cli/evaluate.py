"""``ehr-course evaluate``: synthetic cohorts judged beside the real one, in one report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ehr_course.cli.output import Target
from ehr_course.cli.prepare import LOAD_REPORT, RECORDS, open_prepared
from ehr_course.cli.run_record import RUN, RunRecord, fingerprint_of_records
from ehr_course.cli.settings import EvaluateSettings
from ehr_course.code_system import SYSTEM_NAMES
from ehr_course.errors import InputError
from ehr_course.records import AnyRecord, system_of
from ehr_course.sources.any_cohort import load_cohort, read_code_map, takes
from ehr_course.sources.cohort import OPTION_NAMES, Cohort, system_named

# Importing PyTorch takes seconds: where it is needed, the account is printed first.
if TYPE_CHECKING:
    from ehr_course.report import Comparison, Report

_ONE = "synthetic"
"""The name of a cohort that is judged by itself."""


def evaluate(settings: EvaluateSettings, target: Target) -> None:
    """Compare synthetic patients with those that a model learned from and those held out."""
    paths, models = _by_name(settings.synthetic), _by_name(settings.model)
    several = not isinstance(settings.synthetic, str)

    def plain(by_name: Mapping[str, Any]) -> Any:
        """What belongs to each cohort by its name, or to the only one."""
        return dict(by_name) if several else by_name.get(_ONE)

    sources = [settings.real, *paths.values(), *models.values()]
    with target.folder(*sources, settings.code_map) as unfinished:
        # First of all, so that a missing column is named before any work.
        loaded = _load(paths, settings)
        prepared = open_prepared(settings.real, wanted=RECORDS)
        split = prepared.split()
        of_real = system_of(split.train)
        for name, cohort in loaded.items():
            system = system_of(cohort.records)
            if system != of_real:
                raise InputError(
                    paths[name],
                    "",
                    f"its codes are {SYSTEM_NAMES[system]}, and those of the real patients are "
                    f"{SYSTEM_NAMES[of_real]}: the same letters and digits mean other diseases",
                    f"Translate them with --map {OPTION_NAMES[of_real]}, or prepare the real "
                    f"patients with --map {OPTION_NAMES[system]}.",
                )
        if not split.test:
            raise InputError(
                prepared.folder,
                "",
                "no patients were held out",
                "Prepare it again with --test 0.1, and train on that.",
            )
        inputs = {
            "train": fingerprint_of_records(split.train),
            "held_out": fingerprint_of_records(split.test),
        }
        for name, cohort in loaded.items():
            key = f"{_ONE} {name}" if several else _ONE
            inputs[key] = fingerprint_of_records(cohort.records)
        opened = {}
        for name, path in models.items():
            key = f"model {name}" if several else "model"
            opened[name], inputs[key] = _open_model(path, inputs["train"], settings.real)
        target.check_inputs(inputs)

        def drawn(records: Sequence[AnyRecord]) -> list[Any]:
            return _at_most(settings.limit, records, settings.seed)

        train, held_out = drawn(split.train), drawn(split.test)
        synthetic = {name: drawn(cohort.records) for name, cohort in loaded.items()}
        sizes = {"train": len(train), "held_out": len(held_out)}
        sizes |= {name: len(records) for name, records in synthetic.items()}
        there = {"train": len(split.train), "held_out": len(split.test)}
        there |= {name: len(cohort.records) for name, cohort in loaded.items()}
        account = "\n\n".join(
            f"{name}\n{cohort.report}" if several else str(cohort.report)
            for name, cohort in loaded.items()
        )
        target.say(account)
        target.say(f"Judging {_counts(sizes, there)} patients.")
        from ehr_course.report import write_report

        sampled = {
            name: _sampled(
                {key: sizes[key] for key in ("train", "held_out", name)},
                there,
                settings.limit,
                has_model=name in opened,
            )
            for name in loaded
        }
        for line in dict.fromkeys(line for lines in sampled.values() for line in lines):
            target.say(line)
        reading = {
            name: [
                *sampled[name],
                *(f"Synthetic cohort, {line}." for line in cohort.report.losses),
            ]
            for name, cohort in loaded.items()
        }
        judged = {record.subject_id for part in (train, held_out) for record in part}
        report: Report | Comparison = write_report(
            unfinished,
            train=train,
            held_out=held_out,
            other_real=[r for part in split for r in part if r.subject_id not in judged],
            synthetic=plain(synthetic),
            model=plain({name: model for name, (model, _) in opened.items()}),
            tokenizer=plain({name: tokenizer for name, (_, tokenizer) in opened.items()}),
            reading=plain(reading),
            title=settings.title,
            seed=settings.seed,
            progress=not target.quiet,
        )
        result = {
            "train": sizes["train"],
            "held_out": sizes["held_out"],
            "synthetic": plain({name: sizes[name] for name in loaded}),
            "dropped": plain({n: cohort.report.dropped_by_name for n, cohort in loaded.items()}),
            "changed": plain({n: cohort.report.changed for n, cohort in loaded.items()}),
        }
        (unfinished / LOAD_REPORT).write_text(f"{account}\n", encoding="utf-8")
        record = RunRecord(command="evaluate", settings=settings, inputs=inputs, result=result)
        record.write(unfinished / RUN)
    for line in _said(report):
        target.say(line)
    target.say(f"{target.out / 'report.html'}: the report, and {target.out / 'report.json'}.")


def _by_name(given: str | Mapping[str, str] | None) -> dict[str, str]:
    if given is None:
        return {}
    return {_ONE: given} if isinstance(given, str) else dict(given)


def _load(paths: Mapping[str, str], settings: EvaluateSettings) -> dict[str, Cohort]:
    """Read the cohorts, with columns and a code map for those that take them."""
    code_map = None if settings.code_map is None else read_code_map(settings.code_map)
    # If no cohort takes them, the first says why.
    with_columns, with_map = (
        [path for path in paths.values() if takes(path, what=what)] or [*paths.values()]
        for what in ("columns", "code map")
    )
    return {
        name: load_cohort(
            path,
            columns=settings.columns if path in with_columns else None,
            malformed=settings.malformed,
            date_format=settings.date_format,
            # A generator may write few different codes.
            zeros_lost_ok=True,
            code_map=code_map if path in with_map else None,
            system=system_named(settings.codes),
            map_to=system_named(settings.map_to),
        )
        for name, path in paths.items()
    }


def _open_model(path: str, train: str, real: str) -> tuple[tuple[Any, Any], str]:
    """The model of a run with its tokenizer, and the model's fingerprint."""
    from ehr_course.cli.trained_run import fingerprint_of_model, open_patient_run

    model, tokenizer, record = open_patient_run(path)
    if record.inputs.get("train") != train:
        raise InputError(
            path,
            "",
            f"this model did not learn from the training part of {real}",
            "Name the folder that it was trained on, or leave --model out.",
        )
    # Held-out patients can have codes that are not in the training part.
    return (model, tokenizer.skipping_unseen()), fingerprint_of_model(Path(path))


def _said(report: Report | Comparison) -> list[str]:
    """The terminal's lines on a report: what matters first, then notes, then what is missing."""
    from ehr_course.report import Comparison

    if not isinstance(report, Comparison):
        notes = [f"Note: {text}" for text in report.warnings]
        return [*report.headlines, *report.in_words, *notes, *report.left_out]
    lines = [f"{name}: {' '.join(of.headlines)}" for name, of in report.reports.items()]
    lines += [f"Note: {text}" for text in report.notes]
    for attribute, sign in (("in_words", ""), ("warnings", "Note: "), ("left_out", "")):
        lines += [f"{sign}{text}" for text in report.of_all(attribute)]
        lines += [
            f"{sign}{name}: {text}"
            for name in report.reports
            for text in report.of_one(name, attribute)
        ]
    return lines


def _counts(sizes: Mapping[str, int], there: Mapping[str, int]) -> str:
    """How many patients of each cohort are judged, and out of how many if not all."""
    return ", ".join(
        f"{n:,}{f' of {there[name]:,}' * (n < there[name])} {name.replace('_', ' ')}"
        for name, n in sizes.items()
    )


def _sampled(
    sizes: Mapping[str, int], there: Mapping[str, int], limit: int | None, *, has_model: bool
) -> list[str]:
    """A sentence for each kind of sample, from the numbers of patients judged and there."""
    from ehr_course.evaluation.perplexity import MOST_PATIENTS as MOST_OF_MODEL
    from ehr_course.evaluation.privacy import MOST

    said = []
    if any(n < there[name] for name, n in sizes.items()):
        said.append(
            f"A sample is judged, drawn at random (--limit {limit:,}): {_counts(sizes, there)} "
            "patients. Intervals are wider than with all of them, and a copy of a patient who was "
            "not drawn is not found."
        )
    if has_model and sizes["held_out"] > MOST_OF_MODEL:
        said.append(
            f"The model's perplexity is measured on {MOST_OF_MODEL:,} of the "
            f"{sizes['held_out']:,} held-out patients, drawn at random."
        )
    if max(sizes.values()) > MOST:
        said.append(
            f"For privacy, at most {MOST:,} patients of a cohort are compared with each other, "
            "drawn at random."
        )
    return said


def _at_most(limit: int | None, records: Sequence[AnyRecord], seed: int) -> list[AnyRecord]:
    """Draw at most this many of the records at random, in their order."""
    if limit is None or len(records) <= limit:
        return list(records)
    rows = np.random.default_rng(seed).choice(len(records), size=limit, replace=False)
    return [records[row] for row in np.sort(rows).tolist()]
