"""``ehr-course prepare``: from raw tables to three parts, to train on and to be judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ehr_course.cli.cut_notes import cut_in_words
from ehr_course.cli.output import result_folder, say
from ehr_course.cli.prepared_folder import LOAD_REPORT, NOTES, RECORDS, TOKENIZER
from ehr_course.cli.run_record import (
    RUN,
    RunRecord,
    check_inputs,
    fingerprint_of_notes,
    fingerprint_of_records,
)
from ehr_course.cli.settings import PrepareSettings
from ehr_course.errors import InputError
from ehr_course.records import AnyRecord, NotePair, PatientRecord, complete_records
from ehr_course.sources.any_cohort import load_cohort, read_code_map
from ehr_course.sources.cohort import LoadReport
from ehr_course.sources.meds import write_meds
from ehr_course.sources.notes import NoteSplit, read_notes, split_notes
from ehr_course.sources.options import system_named
from ehr_course.sources.splits import split_by_patient
from ehr_course.sources.synthetic import make_cohort, make_notes
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.tokenizers.notes import NoteTokenizer
from ehr_course.tokenizers.words import WordTokenizer

EMBEDDED = "embedded"
"""What stands in place of a file's name when the notes are to be invented."""

_SHORTENED = (
    "What is left of these patients looks like a shorter history. "
    "--whole-patients leaves them out."
)


def prepare(
    settings: PrepareSettings,
    out: Path,
    *,
    overwrite: bool = False,
    quiet: bool = False,
    expected: Mapping[str, str] | None = None,
) -> None:
    """Read patients or notes, split them, and write what ``train`` needs.

    Args:
        settings: what to read and how.
        out: the folder to write.
        overwrite: whether to replace one that is there.
        quiet: whether to print nothing.
        expected: the fingerprints that the data must have, or None.

    Raises:
        InputError: if the data cannot be read or are too few, or out may not be written.
    """
    if settings.data is not None and settings.notes is not None:
        raise InputError("prepare", "", "both data and notes are named", "Name one of them.")
    if settings.data is None and (settings.columns is not None or settings.code_map is not None):
        raise InputError(
            "prepare", "--columns and --code-map", "no data are named", "Give --data too."
        )
    if settings.notes is not None and settings.codes is not None:
        raise InputError("prepare", "--codes", "notes have no codes", "Leave it out.")
    if settings.data is None and settings.map_to is not None:
        raise InputError(
            "prepare",
            "--map",
            "no data are named",
            "Give --data too; the embedded hospital is coded as --codes says.",
        )
    if settings.data is None and (settings.whole_patients or settings.zeros_lost_ok):
        raise InputError(
            "prepare",
            "--whole-patients and --zeros-lost-ok",
            "no data are named",
            "Give --data too, or leave them out.",
        )
    if settings.validation + settings.test >= 1:
        raise InputError(
            "prepare",
            "--validation and --test",
            f"{settings.validation:g} and {settings.test:g} leave nobody to learn from",
            "Name two shares that add up to less than 1.",
        )
    source = settings.data if settings.notes is None else settings.notes
    read = (None if source == EMBEDDED else source, settings.code_map)
    files = [Path(path) for path in read if path is not None]
    with result_folder(out, overwrite=overwrite, inputs=files) as unfinished:
        write = _write_records if settings.notes is None else _write_notes
        inputs, result = write(settings, unfinished, expected, quiet=quiet)
        RunRecord("prepare", settings, inputs, result).write(unfinished / RUN)
    what = "patients" if settings.notes is None else "notes"
    parts = ", ".join(f"{count:,} for {part}" for part, count in result["parts"].items())
    say(f"{out}: {what}: {parts}; {result['vocabulary']:,} tokens.", quiet=quiet)
    for line in cut_in_words(
        result.get("cut_notes", 0),
        result.get("cut_summaries", 0),
        of=sum(result["parts"].values()),
        max_source=settings.max_source,
        max_target=settings.max_target,
    ):
        say(line, quiet=quiet)
    if source not in (None, EMBEDDED):
        say("This folder holds the patients' data. Keep it as you keep them.", quiet=quiet)


def _tell(account: str, folder: Path, *, quiet: bool) -> None:
    """Write down what became of the rows, and say it before the work that takes long."""
    (folder / LOAD_REPORT).write_text(f"{account}\n", encoding="utf-8")
    say(account, quiet=quiet)


def _fractions(settings: PrepareSettings) -> tuple[float, float, float]:
    return 1 - settings.validation - settings.test, settings.validation, settings.test


def _write_records(
    settings: PrepareSettings, folder: Path, expected: Mapping[str, str] | None, *, quiet: bool
) -> tuple[dict[str, str], dict[str, Any]]:
    records, report = _records(settings)
    n_visits = sum(len(record.visits) for record in records)
    n_codes = sum(len(record.codes) for record in records)
    if report is not None:
        n = f"{len(records):,} patients, {n_visits:,} visits, {n_codes:,} diagnoses"
        _tell(f"{report}\nin the records: {n}", folder, quiet=quiet)
        if report.shortened is not None and not settings.whole_patients:
            say(_SHORTENED, quiet=quiet)
    inputs = {"patients": fingerprint_of_records(records)}
    check_inputs(expected, inputs)
    split = split_by_patient(records, fractions=_fractions(settings), seed=settings.seed)
    write_meds(records, folder / RECORDS, split=split)
    tokenizer = CodeTokenizer.from_records(split.train)
    tokenizer.save(folder / TOKENIZER)
    result = {
        "parts": {part: len(of) for part, of in split._asdict().items()},
        "visits": n_visits,
        "codes": n_codes,
        "vocabulary": len(tokenizer),
        "dropped": _dropped(report),
        "shortened": _shortened(report),
    }
    # Of ICD-9-CM alone the record is what it was before there were two systems.
    if tokenizer.system != "ICD9CM":
        result["system"] = tokenizer.system
    if report is not None and report.translated is not None:
        result["translated"] = report.translated.as_json()
    return inputs, result


def _records(settings: PrepareSettings) -> tuple[list[PatientRecord], LoadReport | None]:
    if settings.data is None:
        hospital = settings.hospital
        system = system_named(settings.codes) or "ICD9CM"
        patients = settings.patients
        return make_cohort(patients, seed=settings.seed, hospital=hospital, system=system), None
    cohort = load_cohort(
        settings.data,
        columns=settings.columns,
        malformed=settings.malformed,
        date_format=settings.date_format,
        whole_patients=settings.whole_patients,
        zeros_lost_ok=settings.zeros_lost_ok,
        code_map=None if settings.code_map is None else read_code_map(settings.code_map),
        system=system_named(settings.codes),
        map_to=system_named(settings.map_to),
    )
    _check_can_be_learned(settings.data, cohort.records)
    return complete_records(cohort.records), cohort.report


def _check_can_be_learned(data: str, records: Sequence[AnyRecord]) -> None:
    """Models ask for an age and a sex, and the format of the folder for times."""
    for what, lacking in (
        ("sex", any(record.sex is None for record in records)),
        ("age", any(record.age is None for record in records)),
        ("time", any(v.admitted is None for record in records for v in record.visits)),
    ):
        if lacking:
            raise InputError(
                data,
                "",
                f"it has no {what}, and a model cannot be trained without it",
                f"Add a column of it, and name it: --columns {what}=NAME.",
            )


def _write_notes(
    settings: PrepareSettings, folder: Path, expected: Mapping[str, str] | None, *, quiet: bool
) -> tuple[dict[str, str], dict[str, Any]]:
    assert settings.notes is not None  # as notes are prepared
    pairs, report = _notes(settings, settings.notes)
    if report is not None:
        _tell(str(report), folder, quiet=quiet)
    # It imports PyTorch, which takes seconds, and records need none of it.
    from ehr_course.batches.prepared_notes import write_prepared

    inputs = {"notes": fingerprint_of_notes(pairs)}
    check_inputs(expected, inputs)
    split = split_notes(pairs, fractions=_fractions(settings), seed=settings.seed)
    tokenizer = _tokenizer(settings, split)
    about = write_prepared(
        split,
        tokenizer,
        folder / NOTES,
        max_source=settings.max_source,
        max_target=settings.max_target,
    )
    result = {
        "parts": {part: len(of) for part, of in split._asdict().items()},
        "vocabulary": len(tokenizer),
        "cut_notes": sum(part["cut_notes"] for part in about["parts"].values()),
        "cut_summaries": sum(part["cut_summaries"] for part in about["parts"].values()),
        "dropped": _dropped(report),
    }
    return inputs, result


def _notes(settings: PrepareSettings, source: str) -> tuple[list[NotePair], LoadReport | None]:
    if source == EMBEDDED:
        patients = make_cohort(settings.patients, seed=settings.seed, hospital=settings.hospital)
        return make_notes(patients, seed=settings.seed), None
    try:
        corpus = read_notes(
            source,
            note=settings.note_column,
            summary=settings.summary_column,
            patient=settings.patient_column,
            min_note=settings.min_note,
            min_summary=settings.min_summary,
        )
    except InputError as error:
        # The error names arguments; on the command line they are options.
        if error.thing == "read_notes":
            place = "--note-column and --summary-column"
            raise InputError("prepare", place, error.problem, error.remedy) from None
        if "note=" not in error.remedy:
            raise
        options = "Name them with --note-column and --summary-column."
        raise InputError(error.thing, error.place, error.problem, options) from None
    return list(corpus.pairs), corpus.report


def _tokenizer(settings: PrepareSettings, split: NoteSplit) -> WordTokenizer | NoteTokenizer:
    texts = [text for pair in split.train for text in (pair.note, pair.summary)]
    if settings.tokenizer == "pieces":
        return NoteTokenizer.train(texts, vocab_size=settings.vocabulary)
    return WordTokenizer.from_texts(texts, min_count=settings.min_count)


def _dropped(report: LoadReport | None) -> dict[str, int]:
    """Rows that were read and are in no record, by table and reason."""
    if report is None:
        return {}
    return report.dropped_by_name


def _shortened(report: LoadReport | None) -> dict[str, int]:
    """How many patients lost admissions and kept others, and how many admissions these lost."""
    shortened = None if report is None else report.shortened
    if shortened is None:
        return {"patients": 0, "admissions": 0}
    return {"patients": shortened.patients, "admissions": shortened.admissions}
