"""``ehr-course generate``: invented patients, in one process or under torchrun.

Models write visits without dates, which MEDS and MIMIC-III need, so dates are invented: the first
visit is on a day from 2100 to 2149, each next one 180 days later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from ehr_course.cli.output import Target
from ehr_course.cli.run_record import DEMOGRAPHICS, RUN, RunRecord, fingerprint_of_files
from ehr_course.cli.settings import Format, GenerateSettings
from ehr_course.cli.trained_run import fingerprint_of_model, open_patient_run, read_demographics
from ehr_course.code_system import SYSTEM_NAMES
from ehr_course.errors import InputError
from ehr_course.generation.calibration import calibrated_for
from ehr_course.generation.patients import (
    EligibleOnly,
    Sampling,
    generate_patients,
    sample_profiles,
)
from ehr_course.records import PatientRecord, Visit, system_of
from ehr_course.sources.any_cohort import PARQUET_FILE
from ehr_course.sources.meds import write_meds
from ehr_course.sources.synthetic import write_mimic3
from ehr_course.training.processes import joined_processes, unwound_when_terminated

DAYS_BETWEEN_VISITS = 180

_FIRST_DAY, _DAYS = datetime(2100, 1, 1), 50 * 365

_LONGEST = timedelta(days=7)
"""How long a process waits for a slower one."""


def generate(settings: GenerateSettings, target: Target) -> None:
    """Let a model write patients with ages and sexes distributed as in its training part.

    Under ``torchrun`` several processes share the patients; the first writes the result, which
    does not depend on their number.
    """
    top_p = 1.0 if settings.top_p is None else settings.top_p
    sampling = Sampling(settings.temperature, settings.top_k, top_p)
    eligible = EligibleOnly() if settings.eligible_only else None
    run = Path(settings.run)
    # gloo on GPUs too: the numbers exchanged are in memory already.
    joined = joined_processes(backend="gloo", timeout=_LONGEST)
    with unwound_when_terminated(), joined as (processes, enter):
        unfinished = enter(target.folder(run))
        model, tokenizer, _ = open_patient_run(run)
        if settings.top_p is None:
            sampling = replace(sampling, top_p=calibrated_for(model).top_p)
        if tokenizer.system != "ICD9CM" and Format.MIMIC3 in settings.formats:
            raise InputError(
                run,
                "",
                f"this model writes {SYSTEM_NAMES[tokenizer.system]}, and the tables of MIMIC-III "
                "hold ICD-9-CM alone",
                "Leave --format mimic3 out; take meds or parquet.",
            )
        pool = read_demographics(run / DEMOGRAPHICS)
        inputs = {
            "model": fingerprint_of_model(run),
            "demographics": fingerprint_of_files(run / DEMOGRAPHICS),
        }
        target.check_inputs(inputs)
        # The folder's name may differ between machines, its content may not.
        asked = settings.model_dump(mode="json", exclude={"run"})
        processes.agree(asked | inputs, what="generate")
        written = generate_patients(
            model,
            tokenizer,
            sample_profiles(pool, settings.patients, seed=settings.seed),
            seed=settings.seed,
            sampling=sampling,
            batch_size=settings.batch_size,
            eligible=eligible,
            progress=not target.quiet,
            processes=processes,
        )
        if not processes.is_first:
            return
        records = with_invented_dates(written, seed=settings.seed)
        write_formats(records, unfinished, settings.formats, seed=settings.seed)
        result = {
            "patients": len(records),
            "visits": sum(len(record.visits) for record in records),
            "codes": sum(len(record.codes) for record in records),
            "device": model.device.type,
        }
        if eligible is not None:
            result["share_kept_out"] = round(eligible.share_kept_out, 6)
        record = RunRecord(command="generate", settings=settings, inputs=inputs, result=result)
        record.write(unfinished / RUN)
    target.say(
        f"{target.out}: {result['patients']:,} synthetic patients with {result['visits']:,} "
        f"visits and {result['codes']:,} codes, as {', '.join(settings.formats)}. Dates are "
        "invented."
    )
    if eligible is not None:
        target.say(
            f"--eligible-only: of {eligible.codes:,.0f} codes that the model would have written, "
            f"{eligible.share_kept_out:.1%} were impossible for the patient's age or sex and were "
            "kept out. So the validity in a report says nothing about the model."
        )


def with_invented_dates(records: Sequence[PatientRecord], *, seed: int) -> list[PatientRecord]:
    """Number patients and visits from 1, and give each visit an invented admission time."""
    first_days = np.random.default_rng([seed, 1]).integers(_DAYS, size=len(records)).tolist()
    dated, n_visits = [], 0
    for number, (record, day) in enumerate(zip(records, first_days, strict=True), start=1):
        visits = []
        for place, visit in enumerate(record.visits):
            n_visits += 1
            admitted = _FIRST_DAY + timedelta(days=day + DAYS_BETWEEN_VISITS * place)
            visits.append(Visit(visit.codes, admitted, n_visits, visit.system))
        dated.append(PatientRecord(number, record.sex, record.age, tuple(visits)))
    return dated


def write_formats(
    records: Sequence[PatientRecord], folder: Path, formats: Sequence[str], *, seed: int
) -> None:
    """Write dated patients into a folder, each of the named formats to its own folder or file.

    The seed draws what MIMIC-III requires beyond the records.
    """
    if Format.MEDS in formats:
        write_meds(records, folder / "meds")
    if Format.MIMIC3 in formats:
        write_mimic3(records, folder / "mimic3", seed=seed)
    if Format.PARQUET not in formats:
        return
    rows = [
        (record.subject_id, record.sex, record.age, visit_number, seq_num, code)
        for record in records
        for visit_number, visit in enumerate(record.visits, start=1)
        for seq_num, code in enumerate(visit.codes, start=1)
    ]
    names = ["subject_id", "sex", "age", "visit", "seq_num", "code"]
    table = pl.DataFrame(rows, schema=names, orient="row")
    # ICD-10-CM codes say so, because many codes have the shape of both systems.
    if system_of(records) == "ICD10CM":
        table = table.with_columns(icd_version=pl.lit(10, pl.Int64))
    table.write_parquet(folder / PARQUET_FILE)
