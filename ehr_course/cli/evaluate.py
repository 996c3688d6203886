"""``ehr-course evaluate``: a synthetic cohort judged beside the real one, in one report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from ehr_course.cli.output import result_folder, say
from ehr_course.cli.result_folders import (
    LOAD_REPORT,
    RECORDS,
    fingerprint_of_model,
    open_prepared,
    open_run,
)
from ehr_course.cli.run_record import (
    RUN,
    RunRecord,
    check_inputs,
    fingerprint_of_records,
)
from ehr_course.cli.settings import EvaluateSettings
from ehr_course.errors import InputError
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.records import AnyRecord
from ehr_course.report import write_report
from ehr_course.sources.any_cohort import load_cohort, read_code_map
from ehr_course.tokenizers.codes import CodeTokenizer


def evaluate(
    settings: EvaluateSettings,
    out: Path,
    *,
    overwrite: bool = False,
    quiet: bool = False,
    expected: Mapping[str, str] | None = None,
) -> None:
    """Compare synthetic patients with those that a model learned from and those held out.

    Args:
        settings: which cohorts, and which model.
        out: the folder to write: report.html, report.json, load_report.txt.
        overwrite: whether to replace one that is there.
        quiet: whether to print nothing.
        expected: the fingerprints that the cohorts must have, or None.

    Raises:
        InputError: if a cohort cannot be read or judged, the model did not learn from the real
            cohort, or out may not be written.
    """
    sources = [settings.real, settings.synthetic]
    sources += [path for path in (settings.model, settings.code_map) if path is not None]
    with result_folder(out, overwrite=overwrite, inputs=map(Path, sources)) as unfinished:
        # First of all, so that a column that is missing is named before any work.
        code_map = None if settings.code_map is None else read_code_map(settings.code_map)
        loaded_cohort = load_cohort(
            settings.synthetic,
            columns=settings.columns,
            malformed=settings.malformed,
            code_map=code_map,
        )
        synthetic, reading = list(loaded_cohort.records), loaded_cohort.report
        prepared = open_prepared(settings.real, wanted=RECORDS)
        split = prepared.split()
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
            "synthetic": fingerprint_of_records(synthetic),
        }
        model = tokenizer = None
        if settings.model is not None:
            loaded, run = open_run(settings.model, wanted=PromptBart)
            if run.inputs.get("train") != inputs["train"]:
                raise InputError(
                    settings.model,
                    "",
                    f"this model did not learn from the training part of {settings.real}",
                    "Name the folder that it was trained on, or leave --model out.",
                )
            inputs["model"] = fingerprint_of_model(Path(settings.model))
            # Held-out patients can have codes that the training part lacks.
            tokenizer = CodeTokenizer(loaded.tokenizer.codes, unseen="skip")
            model = loaded.model
        check_inputs(expected, inputs)
        cohorts = {
            name: _at_most(settings.limit, records, settings.seed)
            for name, records in (
                ("train", split.train),
                ("held_out", split.test),
                ("synthetic", synthetic),
            )
        }
        judged = {r.subject_id for name in ("train", "held_out") for r in cohorts[name]}
        other_real = [r for part in split for r in part if r.subject_id not in judged]
        counts = ", ".join(
            f"{len(records):,} {name.replace('_', ' ')}" for name, records in cohorts.items()
        )
        say(str(reading), quiet=quiet)
        say(f"Judging {counts} patients.", quiet=quiet)
        report = write_report(
            unfinished,
            **cohorts,
            other_real=other_real,
            model=model,
            tokenizer=tokenizer,
            title=settings.title,
            reading=[f"Synthetic cohort, {line}." for line in reading.losses],
            seed=settings.seed,
            progress=not quiet,
        )
        result = {name: len(records) for name, records in cohorts.items()}
        result["dropped"], result["changed"] = reading.dropped_by_name, reading.changed
        (unfinished / LOAD_REPORT).write_text(f"{reading}\n", encoding="utf-8")
        RunRecord("evaluate", settings, inputs, result).write(unfinished / RUN)
    for text in report.headlines:
        say(text, quiet=quiet)
    for text in report.warnings:
        say(f"Note: {text}", quiet=quiet)
    for text in report.left_out:
        say(text, quiet=quiet)
    say(f"{out / 'report.html'}: the report, and {out / 'report.json'}.", quiet=quiet)


def _at_most(limit: int | None, records: Sequence[AnyRecord], seed: int) -> list[AnyRecord]:
    """So many of the records, drawn at random, in their order."""
    if limit is None or len(records) <= limit:
        return list(records)
    rows = np.random.default_rng(seed).choice(len(records), size=limit, replace=False)
    return [records[row] for row in np.sort(rows).tolist()]
