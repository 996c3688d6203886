"""Encoded notes in a folder, so that they are encoded once and trained on many times.

It holds a Parquet file per part, tokenizer.json, which made the ids, and report.json. A row is a
pair: src_ids, tgt_ids, src_len, tgt_len, oov as in NoteDataset, note, summary, subject_id.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ehr_course.batches.note_dataset import NoteDataset
from ehr_course.batches.ragged import Ragged
from ehr_course.errors import InputError
from ehr_course.new_folder import check_new_folder, new_folder
from ehr_course.records import NotePair
from ehr_course.tokenizers import checked_json
from ehr_course.tokenizers.base import FILE
from ehr_course.tokenizers.notes import NoteTokenizer
from ehr_course.tokenizers.words import WordTokenizer

if TYPE_CHECKING:
    from ehr_course.sources.note_corpus import NoteSplit

PARTS = ("train", "validation", "test")
"""The parts, and the names of their files."""


def write_prepared(
    split: NoteSplit,
    tokenizer: NoteTokenizer | WordTokenizer,
    folder: str | Path,
    *,
    max_source: int = 768,
    max_target: int = 192,
) -> dict[str, Any]:
    """Encode the parts of a split and write them, whole or not at all, with tokenizer and report.

    Args:
        split: validation and test may be empty, and then have no file.
        tokenizer: trained on the training part alone, which cannot be checked here.
        folder: one that does not exist yet, or is empty.
        max_source, max_target: see NoteDataset.

    Returns:
        The content of report.json: the tokenizer's kind, size and fingerprint, the limits, and
        for each part counts of pairs and tokens ("oov": source tokens outside the vocabulary;
        "unknown": target tokens that are <unk>) and the SHA-256 of its file.
    """
    check_new_folder(folder)
    pairs = {part: list(getattr(split, part)) for part in PARTS}
    if not pairs["train"]:
        raise InputError("split", "train", "there are no pairs", "Were any notes loaded?")
    n_pairs = sum(map(len, pairs.values()))
    report: dict[str, Any] = {
        "tokenizer": {
            "kind": type(tokenizer).__name__,
            "size": len(tokenizer),
            "fingerprint": tokenizer.fingerprint,
        },
        "max_source": max_source,
        "max_target": max_target,
        "parts": {},
    }
    with new_folder(folder) as unfinished:
        for part in PARTS:
            if not pairs[part]:
                continue
            try:
                dataset = NoteDataset(
                    pairs[part], tokenizer, max_source=max_source, max_target=max_target
                )
                table = _table(dataset)
            except InputError as error:
                raise InputError(
                    f"{part}: {error.thing}", error.place, error.problem, error.remedy
                ) from None
            file = unfinished / f"{part}.parquet"
            pq.write_table(table, file)
            source_tokens, target_tokens = dataset.sources.values, dataset.targets.values
            report["parts"][part] = {
                "pairs": len(dataset),
                "cut_notes": dataset.cut_notes,
                "cut_summaries": dataset.cut_summaries,
                "source_tokens": len(source_tokens),
                "target_tokens": len(target_tokens),
                "oov": int((source_tokens >= len(tokenizer)).sum()),
                "unknown": int((target_tokens == tokenizer.unk_id).sum()),
                "fraction": len(dataset) / n_pairs,
                "sha256": _checksum(file),
            }
        tokenizer.save_pretrained(unfinished)
        checked_json.write(unfinished / _REPORT, kind=_KIND, content=report)
    return report


def read_report(folder: str | Path) -> dict[str, Any]:
    """The report of a prepared folder; see write_prepared."""
    return checked_json.read(Path(folder) / _REPORT, kind=_KIND, remake=_REMAKE)


def read_prepared(folder: str | Path, part: Literal["train", "validation", "test"]) -> NoteDataset:
    """Read one part of a folder that write_prepared wrote, as a dataset."""
    folder = Path(folder)
    report = read_report(folder)
    about = report["parts"].get(part)
    if about is None:
        raise InputError(
            folder,
            part,
            "this part had no pairs when the folder was written",
            f"Use one of {', '.join(report['parts'])}.",
        )
    kind = NoteTokenizer if report["tokenizer"]["kind"] == "NoteTokenizer" else WordTokenizer
    tokenizer = kind.from_pretrained(folder)
    if tokenizer.fingerprint != report["tokenizer"]["fingerprint"]:
        raise InputError(
            folder / FILE,
            "",
            "this is another tokenizer than the one that made the ids of this folder",
            f"Put that one back, or make the folder again with {_REMAKE}.",
        )
    file = folder / f"{part}.parquet"
    if not file.is_file() or _checksum(file) != about["sha256"]:
        raise InputError(
            file,
            "",
            "the file is missing or damaged: it does not have the checksum of report.json",
            f"Copy the folder again, or make it again with {_REMAKE}.",
        )
    table = pq.read_table(file)
    columns = {name: table.column(name).to_pylist() for name in ("note", "summary", "subject_id")}
    return NoteDataset.from_encoded(
        pairs=[NotePair(*row) for row in zip(*columns.values(), strict=True)],
        tokenizer=tokenizer,
        sources=_ragged(table, "src"),
        targets=_ragged(table, "tgt"),
        oov=[tuple(words) for words in table.column("oov").to_pylist()],
        cut_notes=about["cut_notes"],
        cut_summaries=about["cut_summaries"],
    )


_KIND = "prepared notes"
_REPORT = "report.json"
_REMAKE = "write_prepared"


def _table(dataset: NoteDataset) -> pa.Table:
    subject_ids = [pair.subject_id for pair in dataset.pairs]
    try:
        subject_id = pa.array(subject_ids)
    except (pa.ArrowException, OverflowError):  # of several types, or too large a number
        subject_id = pa.array([0.0])
    if subject_id.type not in (pa.null(), pa.int64(), pa.string()):
        raise InputError(
            "subject_id", "", "they are not all whole numbers or all text", "Make them so."
        )
    return pa.table(
        {
            "src_ids": _lists(dataset.sources),
            "tgt_ids": _lists(dataset.targets),
            "src_len": pa.array(dataset.sources.lengths),
            "tgt_len": pa.array(dataset.targets.lengths),
            "oov": pa.array(map(list, dataset.oov), pa.list_(pa.string())),
            "note": pa.array([pair.note for pair in dataset.pairs], pa.string()),
            "summary": pa.array([pair.summary for pair in dataset.pairs], pa.string()),
            "subject_id": subject_id,
        }
    )


def _lists(rows: Ragged) -> pa.Array:
    return pa.ListArray.from_arrays(pa.array(rows.offsets, pa.int32()), pa.array(rows.values))


def _ragged(table: pa.Table, side: str) -> Ragged:
    lists = table.column(f"{side}_ids").combine_chunks()
    values = lists.flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    return Ragged(values, table.column(f"{side}_len").to_numpy().astype(np.int64))


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
