"""Lesson 07's references against what they stand for."""

import pytest

from ehr_course.exercises import lesson_07
from ehr_course.records import PatientRecord, Visit
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.tokenizers.notes import NoteTokenizer

NOTES = [
    "congestive heart failure, unspecified",
    "atrial fibrillation",
    "acute respiratory failure",
    "chronic kidney disease, unspecified",
    "urinary tract infection, site not specified",
    "unspecified essential hypertension",
    "hypertensive chronic kidney disease, unspecified",
    "acute kidney failure, unspecified",
]


@pytest.mark.parametrize("pieces", [40, 46, 52])
def test_the_best_segmentation_is_sentencepieces_own(pieces: int) -> None:
    tokenizer = NoteTokenizer.train(NOTES, vocab_size=pieces)
    scores = tokenizer.scores()
    for note in NOTES:
        text = tokenizer.normalize(note)
        assert lesson_07._segment(text, scores) == tokenizer.pieces(note)


@pytest.mark.parametrize("seed", range(20))
def test_every_text_has_one_best_segmentation(seed: int) -> None:
    for text, scores in lesson_07.SEGMENT.probes(seed):
        first = lesson_07._segment(text, scores)
        assert first == lesson_07._segment(text, scores, prefer_long_last=True)


def test_encoding_and_decoding_are_the_code_tokenizers() -> None:
    visits = [["4280", "25000"], ["4280", "0389"]]
    record = PatientRecord(1, "F", 60, tuple(Visit(tuple(visit)) for visit in visits))
    tokenizer = CodeTokenizer.from_records([record])
    vocabulary = sorted({"4280", "25000", "0389"})
    ids = lesson_07._encode_patient(visits, lesson_07._code_ids(vocabulary))
    assert ids == tokenizer.encode(record)
    assert lesson_07._decode(ids, vocabulary) == tokenizer.decode(ids) == visits
    assert [lesson_07.TOKEN_ID.reference(code, vocabulary) for code in vocabulary] == [
        tokenizer.code_to_id(code) for code in vocabulary
    ]
