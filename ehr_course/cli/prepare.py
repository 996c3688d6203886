"""``ehr-course prepare``: from raw tables to three parts, to train on and to be judged by.

The folder holds either ``records/``, a MEDS dataset with splits, beside the ``tokenizer.json`` of
its training part, or ``notes/``, encoded notes with their tokenizer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ehr_course.cli.output import Target
from ehr_course.cli.run_record import (
    RUN,
    RunRecord,
    fingerprint_of_notes,
    fingerprint_of_records,
    open_result,
)
from ehr_course.cli.settings import PrepareSettings
from ehr_course.errors import InputError
from ehr_course.records import NotePair, PatientRecord, complete_records
from ehr_course.sources.any_cohort import load_cohort, read_code_map
from ehr_course.sources.cohort import LoadReport, system_named
from ehr_course.sources.meds import load_meds, write_meds
from ehr_course.sources.note_corpus import read_notes, split_notes
from ehr_course.sources.splits import Split, split_by_patient
from ehr_course.sources.synthetic import make_cohort, make_notes
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.tokenizers.notes import NoteTokenizer
from ehr_course.tokenizers.words import WordTokenizer

RECORDS, NOTES, TOKENIZER, LOAD_REPORT = "records", "notes", "tokenizer.json", "load_report.txt"

EMBEDDED = "embedded"
"""The name that stands for invented notes in place of a file's."""

_MEDS_NAMES = {"train": "train", "validation": "tuning", "test": "held_out"}

_SHORTENED = (
    "What is left of these patients looks like a shorter history. "
    "--whole-patients leaves them out."
)


def prepare(settings: PrepareSettings, target: Target) -> None:
    """Read patients or notes, split them, and write what ``train`` needs."""
    _check(settings)
    source = settings.data if settings.notes is None else settings.notes
    file = None if source == EMBEDDED else source
    with target.folder(file, settings.code_map) as unfinished:
        write = _write_records if settings.notes is None else _write_notes
        inputs, result = write(settings, unfinished, target)
        record = RunRecord(command="prepare", settings=settings, inputs=inputs, result=result)
        record.write(unfinished / RUN)
    what = "patients" if settings.notes is None else "notes"
    parts = ", ".join(f"{count:,} for {part}" for part, count in result["parts"].items())
    target.say(f"{target.out}: {what}: {parts}; {result['vocabulary']:,} tokens.")
    if settings.notes is not None:
        for line in cut_in_words(result, settings.max_source, settings.max_target):
            target.say(line)
    if source not in (None, EMBEDDED):
        target.say("This folder holds the patients' data. Keep it as you keep them.")


def _check(settings: PrepareSettings) -> None:
    """Refuse settings that do not apply to these data."""
    if settings.data is not None and settings.notes is not None:
        raise InputError("prepare", "--data and --notes", "both are given", "Give one of them.")
    of_data = {
        "--columns": settings.columns,
        "--code-map": settings.code_map,
        "--map": settings.map_to,
        "--whole-patients": settings.whole_patients,
        "--zeros-lost-ok": settings.zeros_lost_ok,
    }
    given = " and ".join(option for option, value in of_data.items() if value)
    if settings.data is None and given:
        remedy = "Give --data too. For the embedded hospital, --codes names the system of codes."
        raise InputError("prepare", given, "no data are named", remedy)
    if settings.notes is not None and settings.codes is not None:
        raise InputError("prepare", "--codes", "notes have no codes", "Leave it out.")
    if settings.validation + settings.test >= 1:
        raise InputError(
            "prepare",
            "--validation and --test",
            f"{settings.validation:g} and {settings.test:g} leave nobody to learn from",
            "Name two shares that add up to less than 1.",
        )


def cut_in_words(
    result: dict[str, Any], max_source: int, max_target: int, *, give: str = "give"
) -> list[str]:
    """A sentence for notes and one for summaries that were cut, if any were.

    Args:
        result: how many notes there are and were cut, as run.json has them.
        max_source, max_target: the limits, in tokens.
        give: how to ask for a higher limit.
    """
    n_notes = sum(result["parts"].values())
    return [
        f"{count:,} of {n_notes:,} {what} {'is' if count == 1 else 'are'} longer than {limit:,} "
        f"tokens: each was cut there, and what follows is not {done}. To keep more, "
        f"{give} a higher {option}."
        for count, what, limit, done, option in (
            (result["cut_notes"], "notes", max_source, "read", "--max-source"),
            (result["cut_summaries"], "summaries", max_target, "learned", "--max-target"),
        )
        if count
    ]


def _fractions(settings: PrepareSettings) -> tuple[float, float, float]:
    return 1 - settings.validation - settings.test, settings.validation, settings.test


def _tell(account: str, folder: Path, target: Target) -> None:
    """Write the account to a file, and print it before the work that takes long."""
    (folder / LOAD_REPORT).write_text(f"{account}\n", encoding="utf-8")
    target.say(account)


# ------------------------------------------------------------------ patients


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


# ------------------------------------------------------------------ notes


def _write_notes(
    settings: PrepareSettings, folder: Path, target: Target
) -> tuple[dict[str, str], dict[str, Any]]:
    pairs: Sequence[NotePair]
    if settings.notes is None or settings.notes == EMBEDDED:
        patients = make_cohort(settings.patients, seed=settings.seed, hospital=settings.hospital)
        pairs, dropped = make_notes(patients, seed=settings.seed), {}
    else:
        corpus = read_notes(
            settings.notes,
            note=settings.note_column,
            summary=settings.summary_column,
            patient=settings.patient_column,
            min_note=settings.min_note,
            min_summary=settings.min_summary,
        )
        pairs, dropped = corpus.pairs, corpus.report.dropped_by_name
        _tell(str(corpus.report), folder, target)
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
        "dropped": dropped,
    }
    return inputs, result


# ------------------------------------------------------------------ the folder, as others read it


@dataclass(frozen=True)
class Prepared:
    """A prepared folder.

    Attributes:
        kind: "records" or "notes".
        sizes: how many patients or notes each of "train", "validation" and "test" has.
        is_embedded: whether all of it is invented.
    """

    folder: Path
    kind: str
    sizes: dict[str, int]
    is_embedded: bool

    def split(self) -> Split:
        """The patient records of the three parts, of which any may be empty."""
        parts = []
        for part, name in _MEDS_NAMES.items():
            records: Any = ()
            if self.sizes[part]:
                # ``prepare`` has checked the codes.
                records = load_meds(self.folder / RECORDS, split=name, zeros_lost_ok=True).records
            parts.append(complete_records(records))
        return Split(*parts)

    def tokenizer(self) -> CodeTokenizer:
        """The tokenizer of codes, made from the training part."""
        return CodeTokenizer.load(self.folder / TOKENIZER)


def open_prepared(folder: str | Path, *, wanted: str | None = None) -> Prepared:
    """Open a folder that ``prepare`` wrote, reading only its run.json."""
    remedy = "Make it with: ehr-course prepare --out FOLDER"
    folder, run = open_result(
        folder, "prepare", nothing="no prepared data are in it", remedy=remedy
    )
    settings: PrepareSettings = run.settings
    kind = NOTES if settings.notes else RECORDS
    if wanted not in (None, kind):
        raise InputError(folder, "", f"it holds {kind}, and this needs {wanted}", remedy)
    if not (folder / kind).is_dir():
        raise InputError(folder, kind, "the folder is missing", remedy)
    parts: Any = run.result.get("parts")
    if not isinstance(parts, dict) or list(parts) != list(_MEDS_NAMES) or not parts["train"]:
        raise InputError(
            folder / RUN, "result, parts", f"{parts!r} are not sizes", "Prepare the data again."
        )
    is_embedded = settings.data is None and settings.notes in (None, EMBEDDED)
    return Prepared(folder, kind, parts, is_embedded)
