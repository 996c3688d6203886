"""``ehr-course prepare``: from raw tables to three parts, to train on and to be judged by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ehr_course.cli.output import Target
from ehr_course.cli.prepared_folder import LOAD_REPORT, NOTES, RECORDS, TOKENIZER
from ehr_course.cli.run_record import (
    RUN,
    RunRecord,
    fingerprint_of_notes,
    fingerprint_of_records,
)
from ehr_course.cli.settings import PrepareSettings
from ehr_course.errors import InputError
from ehr_course.records import NotePair, PatientRecord, complete_records
from ehr_course.sources.any_cohort import load_cohort, read_code_map
from ehr_course.sources.cohort import LoadReport
from ehr_course.sources.meds import write_meds
from ehr_course.sources.note_corpus import read_notes, split_notes
from ehr_course.sources.options import system_named
from ehr_course.sources.splits import split_by_patient
from ehr_course.sources.synthetic import make_cohort, make_notes
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.tokenizers.notes import NoteTokenizer
from ehr_course.tokenizers.words import WordTokenizer

EMBEDDED = "embedded"
"""The name that stands for invented notes in place of a file's."""

_SHORTENED = (
    "What is left of these patients looks like a shorter history. "
    "--whole-patients leaves them out."
)


def prepare(settings: PrepareSettings, target: Target) -> None:
    """Read patients or notes, split them, and write what ``train`` needs.

    Raises:
        InputError: if the data cannot be read or are too few, or the folder may not be written.
    """
    _check(settings)
    source = settings.data if settings.notes is None else settings.notes
    file = None if source == EMBEDDED else source
    with target.folder(file, settings.code_map) as unfinished:
        write = _write_records if settings.notes is None else _write_notes
        inputs, result = write(settings, unfinished, target)
        RunRecord("prepare", settings, inputs, result).write(unfinished / RUN)
    what = "patients" if settings.notes is None else "notes"
    parts = ", ".join(f"{count:,} for {part}" for part, count in result["parts"].items())
    target.say(f"{target.out}: {what}: {parts}; {result['vocabulary']:,} tokens.")
    for line in cut_in_words(
        result.get("cut_notes", 0),
        result.get("cut_summaries", 0),
        of=sum(result["parts"].values()),
        max_source=settings.max_source,
        max_target=settings.max_target,
    ):
        target.say(line)
    if source not in (None, EMBEDDED):
        target.say("This folder holds the patients' data. Keep it as you keep them.")


def _check(settings: PrepareSettings) -> None:
    """Refuse settings that do not apply to these data."""
    no_data, are_notes = settings.data is None, settings.notes is not None
    is_lenient = settings.whole_patients or settings.zeros_lost_ok
    embedded = "Give --data too; the embedded hospital is coded as --codes says."
    shares = f"{settings.validation:g} and {settings.test:g} leave nobody to learn from"
    for is_wrong, place, problem, remedy in (
        (not no_data and are_notes, "", "both data and notes are named", "Name one of them."),
        (
            no_data and (settings.columns is not None or settings.code_map is not None),
            "--columns and --code-map",
            "no data are named",
            "Give --data too.",
        ),
        (
            are_notes and settings.codes is not None,
            "--codes",
            "notes have no codes",
            "Leave it out.",
        ),
        (no_data and settings.map_to is not None, "--map", "no data are named", embedded),
        (
            no_data and is_lenient,
            "--whole-patients and --zeros-lost-ok",
            "no data are named",
            "Give --data too, or leave them out.",
        ),
        (
            settings.validation + settings.test >= 1,
            "--validation and --test",
            shares,
            "Name two shares that add up to less than 1.",
        ),
    ):
        if is_wrong:
            raise InputError("prepare", place, problem, remedy)


def cut_in_words(
    cut_notes: int,
    cut_summaries: int,
    *,
    of: int,
    max_source: int,
    max_target: int,
    command: str = "",
) -> list[str]:
    """A sentence for notes and one for summaries that were cut, if any were.

    Args:
        cut_notes, cut_summaries: how many were cut.
        of: how many pairs there are.
        max_source, max_target: the limits, in tokens.
        command: the command whose options change the limits, if it is another one.
    """
    kinds = (
        (cut_notes, "notes", max_source, "read", "--max-source"),
        (cut_summaries, "summaries", max_target, "learned", "--max-target"),
    )
    give = f"give '{command}'" if command else "give"
    return [
        f"{count:,} of {of:,} {what} {'is' if count == 1 else 'are'} longer than {limit:,} "
        f"tokens: each was cut there, and what follows is not {done}. To keep more, "
        f"{give} a higher {option}."
        for count, what, limit, done, option in kinds
        if count
    ]


def _tell(account: str, folder: Path, target: Target) -> None:
    """Write the account to a file, and print it before the work that takes long."""
    (folder / LOAD_REPORT).write_text(f"{account}\n", encoding="utf-8")
    target.say(account)


def _fractions(settings: PrepareSettings) -> tuple[float, float, float]:
    return 1 - settings.validation - settings.test, settings.validation, settings.test


def _write_records(
    settings: PrepareSettings, folder: Path, target: Target
) -> tuple[dict[str, str], dict[str, Any]]:
    records, report = _records(settings)
    n_visits = sum(len(record.visits) for record in records)
    n_codes = sum(len(record.codes) for record in records)
    if report is not None:
        n = f"{len(records):,} patients, {n_visits:,} visits, {n_codes:,} diagnoses"
        _tell(f"{report}\nin the records: {n}", folder, target)
        if report.shortened is not None and not settings.whole_patients:
            target.say(_SHORTENED)
    inputs = {"patients": fingerprint_of_records(records)}
    target.check_inputs(inputs)
    split = split_by_patient(records, fractions=_fractions(settings), seed=settings.seed)
    write_meds(records, folder / RECORDS, split=split)
    tokenizer = CodeTokenizer.from_records(split.train)
    tokenizer.save(folder / TOKENIZER)
    shortened = None if report is None else report.shortened
    result = {
        "parts": {part: len(of) for part, of in split._asdict().items()},
        "visits": n_visits,
        "codes": n_codes,
        "vocabulary": len(tokenizer),
        "dropped": {} if report is None else report.dropped_by_name,
        "shortened": {
            "patients": 0 if shortened is None else shortened.patients,
            "admissions": 0 if shortened is None else shortened.admissions,
        },
    }
    # With ICD-9-CM alone, the record is what it was before there were two systems.
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
    # Models need age and sex, and the folder's format needs times.
    for what, is_lacking in (
        ("sex", any(record.sex is None for record in cohort.records)),
        ("age", any(record.age is None for record in cohort.records)),
        ("time", any(v.admitted is None for record in cohort.records for v in record.visits)),
    ):
        if is_lacking:
            raise InputError(
                settings.data,
                "",
                f"it has no {what}, and a model cannot be trained without it",
                f"Add a column of it, and name it: --columns {what}=NAME.",
            )
    return complete_records(cohort.records), cohort.report


def _write_notes(
    settings: PrepareSettings, folder: Path, target: Target
) -> tuple[dict[str, str], dict[str, Any]]:
    pairs, report = _notes(settings)
    if report is not None:
        _tell(str(report), folder, target)
    # Records do not need PyTorch, which takes seconds to import.
    from ehr_course.batches.prepared_notes import write_prepared

    inputs = {"notes": fingerprint_of_notes(pairs)}
    target.check_inputs(inputs)
    split = split_notes(pairs, fractions=_fractions(settings), seed=settings.seed)
    texts = [text for pair in split.train for text in (pair.note, pair.summary)]
    tokenizer = (
        NoteTokenizer.train(texts, vocab_size=settings.vocabulary)
        if settings.tokenizer == "pieces"
        else WordTokenizer.from_texts(texts, min_count=settings.min_count)
    )
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
        "dropped": {} if report is None else report.dropped_by_name,
    }
    return inputs, result


def _notes(settings: PrepareSettings) -> tuple[list[NotePair], LoadReport | None]:
    if settings.notes is None or settings.notes == EMBEDDED:
        patients = make_cohort(settings.patients, seed=settings.seed, hospital=settings.hospital)
        return make_notes(patients, seed=settings.seed), None
    try:
        corpus = read_notes(
            settings.notes,
            note=settings.note_column,
            summary=settings.summary_column,
            patient=settings.patient_column,
            min_note=settings.min_note,
            min_summary=settings.min_summary,
        )
    except InputError as error:
        # The error names arguments, which are options on the command line.
        if error.thing == "read_notes":
            place = "--note-column and --summary-column"
            raise InputError("prepare", place, error.problem, error.remedy) from None
        if "note=" not in error.remedy:
            raise
        options = "Name them with --note-column and --summary-column."
        raise InputError(error.thing, error.place, error.problem, options) from None
    return list(corpus.pairs), corpus.report
