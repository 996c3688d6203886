"""``ehr-course generate``: patients that nobody was, in one process or under torchrun."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from torch import distributed

from ehr_course.cli.formats import with_invented_dates, write_formats
from ehr_course.cli.options import Format
from ehr_course.cli.output import result_folder, say
from ehr_course.cli.result_folders import (
    DEMOGRAPHICS,
    fingerprint_of_model,
    open_patient_run,
    read_demographics,
)
from ehr_course.cli.run_record import RUN, RunRecord, check_inputs, fingerprint_of_files
from ehr_course.cli.settings import GenerateSettings
from ehr_course.code_system import SYSTEM_NAMES
from ehr_course.errors import InputError
from ehr_course.generation.calibration import calibrated_for
from ehr_course.generation.eligible import EligibleOnly
from ehr_course.generation.patients import generate_patients, wanted_like
from ehr_course.generation.sampling import Sampling
from ehr_course.training.processes import Processes, unwound_when_terminated

_LONGEST = timedelta(days=7)
"""How long a process waits for one that writes its share more slowly."""


def generate(
    settings: GenerateSettings,
    out: Path,
    *,
    overwrite: bool = False,
    quiet: bool = False,
    expected: Mapping[str, str] | None = None,
) -> None:
    """Let a model write patients whose ages and sexes come as in its training part.

    Under ``torchrun`` several processes share the patients. The first gathers and writes them, and
    what it writes does not depend on how many they are.

    Args:
        settings: which model, how many, and how they are drawn.
        out: the folder to write.
        overwrite: whether to replace one that is there.
        quiet: whether to print nothing and show no bar.
        expected: the fingerprints that the model must have, or None.

    Raises:
        InputError: if there is no trained model, a setting is out of its range, out may not be
            written, or another process ended or was asked for something else.
    """
    # Through gloo on GPUs too: what is exchanged is numbers that lie in memory already.
    processes = Processes.from_environment(backend="gloo", timeout=_LONGEST)
    try:
        with unwound_when_terminated():
            _generate(
                settings, out, processes, overwrite=overwrite, quiet=quiet, expected=expected
            )
    finally:
        if processes.world > 1:
            distributed.destroy_process_group()


def _generate(
    settings: GenerateSettings,
    out: Path,
    processes: Processes,
    *,
    overwrite: bool,
    quiet: bool,
    expected: Mapping[str, str] | None,
) -> None:
    top_p = 1.0 if settings.top_p is None else settings.top_p
    sampling = Sampling(settings.temperature, settings.top_k, top_p)
    eligible = EligibleOnly() if settings.eligible_only else None
    run = Path(settings.run)
    with ExitStack() as held:
        place = processes.from_first(
            lambda: _begun(held, result_folder(out, overwrite=overwrite, inputs=[run]))
        )
        if isinstance(place, InputError):
            raise place
        unfinished = place
        model, tokenizer, _ = open_patient_run(run)
        if settings.top_p is None:
            sampling = replace(sampling, top_p=calibrated_for(model).top_p)
        if tokenizer.system != "ICD9CM" and Format.MIMIC3 in settings.formats:
            raise InputError(
                run,
                "",
                f"this model writes {SYSTEM_NAMES[tokenizer.system]}, and the tables of "
                "MIMIC-III hold ICD-9-CM alone",
                "Leave --format mimic3 out; take meds or parquet.",
            )
        inputs = {"model": fingerprint_of_model(run)}
        pool = read_demographics(run / DEMOGRAPHICS)
        inputs["demographics"] = fingerprint_of_files(run / DEMOGRAPHICS)
        check_inputs(expected, inputs)
        # The folder may have another name on another machine; what is in it may not differ.
        asked = settings.model_dump(mode="json", exclude={"run"})
        processes.agree(asked | inputs, what="generate")
        written = generate_patients(
            model,
            tokenizer,
            wanted_like(pool, settings.patients, seed=settings.seed),
            seed=settings.seed,
            sampling=sampling,
            batch_size=settings.batch_size,
            eligible=eligible,
            progress=not quiet,
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
        RunRecord("generate", settings, inputs, result).write(unfinished / RUN)
    say(
        f"{out}: {result['patients']:,} synthetic patients with {result['visits']:,} visits and "
        f"{result['codes']:,} codes, as {', '.join(settings.formats)}. Dates are invented.",
        quiet=quiet,
    )
    if eligible is not None:
        say(
            f"--eligible-only: of {eligible.codes:,.0f} codes that the model would have written, "
            f"{eligible.share_kept_out:.1%} were impossible for the patient's age or sex and were "
            "kept out. So the validity in a report says nothing about the model.",
            quiet=quiet,
        )


def _begun(held: ExitStack, folder: AbstractContextManager[Path]) -> Path | InputError:
    """Begin a folder, to be put in its place when held is closed, or say why it cannot be had."""
    try:
        return held.enter_context(folder)
    except InputError as error:
        return error
