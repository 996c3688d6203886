"""Lesson 07's worked answers against what they stand for."""

import itertools
import math

import pytest

from ehr_course.exercises.lessons import lesson_07
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
        assert lesson_07.SEGMENT.worked_answer(text, scores) == tokenizer.pieces(note)


def every_segmentation(text: str, scores: dict[str, float]) -> list[list[str]]:
    """All ways to cut a short text into pieces: every choice of cuts, tried."""
    found = []
    for cuts in itertools.product((False, True), repeat=len(text) - 1):
        ends = [end for end, cut in enumerate(cuts, 1) if cut] + [len(text)]
        pieces = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
        if all(piece in scores for piece in pieces):
            found.append(pieces)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_best_segmentation_leads_by_more_than_rounding(seed: int) -> None:
    for text, scores in lesson_07.SEGMENT.probes(seed):
        if len(text) > 14:
            continue
        ranked = sorted(
            (math.fsum(scores[piece] for piece in pieces), pieces)
            for pieces in every_segmentation(text, scores)
        )
        assert ranked[-1][1] == lesson_07.SEGMENT.worked_answer(text, scores)
        assert len(ranked) == 1 or ranked[-1][0] - ranked[-2][0] > 0.009


def test_the_probability_of_the_long_text_is_zero_and_its_sum_of_scores_finite() -> None:
    (scores,) = (s for text, s in lesson_07.SEGMENT.chosen if text == lesson_07._LONG)
    found = [scores[piece] for piece in lesson_07.SEGMENT.worked_answer(lesson_07._LONG, scores)]
    assert math.prod(math.exp(score) for score in found[: len(found) // 2 + 1]) == 0.0
    assert math.isfinite(sum(found))


def test_ids_can_be_had_from_the_dictionary_only() -> None:
    exercise = lesson_07.ENCODE_PATIENT
    for seed in range(5):
        numbered = [
            list(code_ids.values()) == list(range(7, 7 + len(code_ids)))
            for _, code_ids in exercise.probes(seed)
        ]
        assert not all(numbered[: len(exercise.chosen)])
        assert not any(numbered[len(exercise.chosen) :])


def test_encoding_and_decoding_are_the_code_tokenizers() -> None:
    visits = [["4280", "25000"], ["4280", "0389"]]
    record = PatientRecord(1, "F", 60, tuple(Visit(tuple(visit)) for visit in visits))
    tokenizer = CodeTokenizer.from_records([record])
    vocabulary = sorted({"4280", "25000", "0389"})
    ids = lesson_07.ENCODE_PATIENT.worked_answer(visits, lesson_07._code_ids(vocabulary))
    assert ids == tokenizer.encode(record)
    assert lesson_07.DECODE.worked_answer(ids, vocabulary) == tokenizer.decode(ids) == visits
    assert [lesson_07.TOKEN_ID.worked_answer(code, vocabulary) for code in vocabulary] == [
        tokenizer.code_to_id(code) for code in vocabulary
    ]
