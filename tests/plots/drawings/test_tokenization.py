"""The drawings of lesson 07 say what the objects say that they are given."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from ehr_course import icd9
from ehr_course.plots.drawings.lattice import (
    draw_dead_ends,
    draw_invented_code,
    draw_lattice,
)
from ehr_course.plots.drawings.text_pieces import (
    draw_chapters_of_pieces,
    draw_pieces_by_rank,
    draw_two_tokenizers,
)
from ehr_course.plots.drawings.tokenization import (
    draw_moved_offset,
    draw_padding,
    draw_patient,
    draw_vocabulary,
)
from ehr_course.plots.overlaps import label_problems
from ehr_course.plots.style import Picture
from ehr_course.sources.splits import split_by_patient
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.tokenizers.notes import NoteTokenizer


class Hospital:
    """The patients of one seed and the two tokenizers that learned from them."""

    def __init__(self, seed: int) -> None:
        self.records, _, _ = split_by_patient(make_cohort(300, seed=seed), seed=seed)
        self.codes = CodeTokenizer.from_records(self.records)
        titles = [
            icd9.title(code).lower() + " toxic"[: 6 * (i % 9 == 0)]
            for i, code in enumerate(code for r in self.records for code in r.codes)
        ]
        self.notes = NoteTokenizer.train(titles, vocab_size=500, character_coverage=1.0)
        self.pieces = {code: self.notes.pieces(icd9.dotted(code)) for code in self.codes.codes}
        self.longest = max(self.records, key=lambda r: len(r.codes))


@pytest.fixture(scope="module", params=[0, 1])
def hospital(request: pytest.FixtureRequest) -> Hospital:
    return Hospital(request.param)


def words(picture: Picture) -> list[str]:
    """What stands in a picture, by label."""
    return [text.get_text() for axes in picture.axes for text in axes.texts]


def title(picture: Picture) -> str:
    return words(picture)[0]


# ---------------------------------------------------------------------- two tokenizers


def test_codes_are_counted_as_pieces_and_as_tokens(hospital):
    codes = hospital.longest.visits[0].codes[:2]
    picture = draw_two_tokenizers("heart failure", codes, hospital.codes, hospital.notes)
    assert label_problems(picture) == []
    n_pieces = sum(len(hospital.pieces[code]) for code in codes)
    assert title(picture) == f"2 codes: {n_pieces} pieces as text, 2 tokens as codes"
    ids = [str(hospital.codes.code_to_id(code)) for code in codes]
    assert set(ids) <= set(words(picture))
    assert f"{n_pieces} of 2 codes" in picture.alternative_text
    assert " ".join(hospital.pieces[codes[0]]) in picture.alternative_text


def test_codes_that_do_not_fit_are_left_out_and_not_counted(hospital):
    codes = hospital.longest.codes
    picture = draw_two_tokenizers("heart failure", codes, hospital.codes, hospital.notes)
    assert label_problems(picture) == []
    shown = int(title(picture).split()[0])
    assert 1 <= shown < len(codes)
    n_pieces = sum(len(hospital.pieces[code]) for code in codes[:shown])
    assert f"{n_pieces} pieces" in title(picture)


# ---------------------------------------------------------------------- pieces of codes


def test_bars_are_means_from_the_most_common_codes_to_the_rarest(hospital):
    lengths = {code: len(pieces) for code, pieces in hospital.pieces.items()}
    times = Counter(code for record in hospital.records for code in record.codes)
    picture = draw_pieces_by_rank(lengths, times, never_seen=6.7)
    assert label_problems(picture) == []
    (axes,) = [axes for axes in picture.axes if axes.patches and axes.axison]
    heights = [bar.get_height() for bar in axes.patches]
    common = [code for code, _ in times.most_common(3)]
    assert sum(lengths.values()) / len(lengths) == pytest.approx(
        sum(bar.get_height() * round(bar.get_width() / 0.9) for bar in axes.patches) / len(lengths)
    )
    assert min(times[code] for code in common) >= times.most_common(len(times))[-1][1]
    assert f"({heights[0]:.1f} pieces)" in title(picture)
    assert f"{heights[-1]:.1f} in the last" in picture.alternative_text
    assert "6.7" in picture.alternative_text


def test_a_piece_is_found_in_the_chapters_where_it_occurs(hospital):
    code = next(c for c in hospital.codes.codes if len(hospital.pieces[c]) > 3)
    picture = draw_chapters_of_pieces(code, hospital.pieces)
    assert label_problems(picture) == []
    rows = [piece for piece in dict.fromkeys(hospital.pieces[code]) if piece.strip("▁.")]
    for piece in rows:
        having = [c for c, pieces in hospital.pieces.items() if piece in pieces]
        assert any(text.startswith(f"{len(having)} code") for text in words(picture))
    chapters = {icd9.chapter(c).number for c, p in hospital.pieces.items() if rows[-1] in p}
    assert f"occurs in {len(chapters)} of 19 chapters" in title(picture)
    assert f"{rows[-1]} in {len(chapters)} of 19" in picture.alternative_text


# ---------------------------------------------------------------------- ids


def test_the_vocabulary_shows_the_last_id_and_its_index(hospital):
    picture = draw_vocabulary(hospital.codes)
    assert label_problems(picture) == []
    n_codes = len(hospital.codes.codes)
    assert {str(n_codes - 1), str(n_codes + 6), f"{n_codes} codes, sorted"} <= set(words(picture))
    assert f"has index {n_codes - 1} and id {n_codes + 6}" in picture.alternative_text


def test_a_small_vocabulary_is_shown_whole():
    picture = draw_vocabulary(CodeTokenizer(["4280", "V3001"]))
    assert label_problems(picture) == []
    assert {"428.0", "V30.01", "8"} <= set(words(picture))
    assert "…" not in words(picture)


@pytest.mark.parametrize("added", [1, 2])
@pytest.mark.parametrize("place", [0, 60, -3])
def test_a_moved_code_reads_the_vector_of_the_code_that_had_its_id(hospital, place, added):
    code = hospital.codes.codes[place]
    picture = draw_moved_offset(hospital.codes, code, added=added)
    assert label_problems(picture) == []
    row = hospital.codes.code_to_id(code) + added
    reads = icd9.dotted(hospital.codes.id_to_token(row))
    assert f"{icd9.dotted(code)} reads the vector of {reads}" in title(picture)
    assert f"to row {row}, which was trained for {reads}" in picture.alternative_text
    assert words(picture)[1].startswith(icd9.title(code)[:6]), "what the two codes mean"
    assert words(picture).count(icd9.dotted(code)) == 2
    assert f"row {row}" in words(picture)


def test_the_last_code_has_no_vector_to_read(hospital):
    with pytest.raises(ValueError, match="past the end of the table"):
        draw_moved_offset(hospital.codes, hospital.codes.codes[-1])


# ---------------------------------------------------------------------- patients


def test_a_short_patient_is_drawn_whole(hospital):
    record = next(r for r in hospital.records if len(r.visits) == 2 and len(r.codes) < 7)
    picture = draw_patient(hospital.codes, [visit.codes for visit in record.visits])
    assert label_problems(picture) == []
    ids = hospital.codes.encode(record)
    shown = words(picture)
    assert [text for text in shown if re.fullmatch(r"\d+", text)] != []
    assert Counter(map(str, ids)) <= Counter(shown)
    assert f"one row of {len(ids)} tokens" in title(picture)
    assert f"{len(ids)} tokens" in picture.alternative_text
    for code in record.codes:
        assert any(text.startswith(icd9.title(code).split(",")[0][:9]) for text in shown)


def test_a_code_without_a_title_is_drawn_without_one():
    picture = draw_patient(CodeTokenizer(["4280", "X9999"]), [["4280", "X9999"]])
    assert label_problems(picture) == []
    assert {"X9999", "Congestive heart failure"} <= set(words(picture))


def test_a_long_patient_is_shortened_and_counted_whole(hospital):
    picture = draw_patient(hospital.codes, [visit.codes for visit in hospital.longest.visits])
    assert label_problems(picture) == []
    assert "…" in words(picture)
    assert f"{len(hospital.codes.encode(hospital.longest))} tokens" in title(picture)


@pytest.mark.parametrize("many", [3, 5])
def test_padding_is_counted_and_the_mask_is_zero_there(hospital, many):
    sequences = [hospital.codes.encode(r) for r in hospital.records if len(r.codes) < 9][:many]
    picture = draw_padding(sequences)
    assert label_problems(picture) == []
    longest = max(map(len, sequences))
    filled = many * longest - sum(map(len, sequences))
    assert title(picture).startswith(f"{filled} of {many * longest} places are padding")
    assert f"{filled} of {many * longest}" in picture.alternative_text
    # Each place of padding is a 0 above and a 0 in the mask.
    assert words(picture).count("0") == 2 * filled


def test_a_batch_that_is_too_long_to_draw_is_counted_whole(hospital):
    sequences = [hospital.codes.encode(r) for r in (hospital.longest, hospital.records[0])]
    picture = draw_padding(sequences)
    assert label_problems(picture) == []
    assert f"of {2 * max(map(len, sequences))} places" in title(picture)


# ---------------------------------------------------------------------- the lattice


def test_the_lattice_shows_the_sum_of_the_best_path(hospital):
    scores, best = hospital.notes.scores(), hospital.notes.pieces("toxic")
    text = hospital.notes.normalize("toxic")
    picture = draw_lattice(text, scores, best)
    assert label_problems(picture) == []
    total = sum(scores[piece] for piece in best)
    assert f"{total:.1f}" in words(picture)
    assert f"has the sum {total:.1f}" in picture.alternative_text
    lines = {
        text[i:j] for i in range(len(text)) for j in range(i + 1, len(text) + 1)
    } & scores.keys()
    for piece in lines:
        assert f"{piece} {scores[piece]:.1f}" in words(picture)


def test_the_longest_piece_first_is_drawn_where_it_is_not_the_best():
    scores = {"a": -2.0, "b": -2.0, "c": -9.0, "ab": -3.0, "bc": -4.0}
    picture = draw_lattice("abc", scores, ["a", "bc"])
    assert label_problems(picture) == []
    assert "the longest piece first gives ab c with -12.0" in picture.alternative_text
    assert "does not find the best path" in title(picture)
    best_sums = ["0.0", "-2.0", "-3.0", "-6.0"]
    assert all(value in words(picture) for value in best_sums)


def test_where_it_is_the_best_there_is_one_path_in_the_key():
    scores = {"a": -2.0, "b": -2.0, "ab": -3.0}
    picture = draw_lattice("ab", scores, ["ab"])
    assert label_problems(picture) == []
    assert "largest sum" in title(picture)
    assert not any(text.startswith("longest piece first") for text in words(picture))


def test_a_text_that_is_too_long_to_draw_is_refused():
    with pytest.raises(ValueError, match="too long to draw"):
        draw_lattice("a" * 12, {"a": -1.0}, ["a"] * 12)


# ---------------------------------------------------------------------- a code that does not exist


@pytest.mark.parametrize(
    ("written", "pieces_of", "shown"),
    [
        (
            ["▁42", "8.", "31"],
            {"4280": ["▁42", "8.", "0"], "25831": ["▁25", "8.", "31"]},
            ["428.0", "258.31"],
        ),
        (
            ["▁V", "3", "0.", "0"],
            {"V310": ["▁V", "3", "1.", "0"], "4300": ["▁4", "3", "0.", "0"]},
            ["V31.0", "430.0"],
        ),
    ],
)
def test_each_pair_of_an_invented_code_is_shown_in_a_real_one(written, pieces_of, shown):
    picture = draw_invented_code(written, pieces_of)
    assert label_problems(picture) == []
    code = "".join(written).removeprefix("▁")
    assert f"{code} does not exist" in title(picture)
    assert set(shown) <= set(words(picture))
    assert f"{code} in {len(written)} pieces" in picture.alternative_text


def test_a_pair_that_no_code_has_is_refused():
    with pytest.raises(ValueError, match="in no real code"):
        draw_invented_code(["▁42", "8."], {"486": ["▁4", "86"]})


# ---------------------------------------------------------------------- pieces that lead nowhere


@pytest.mark.parametrize(
    ("code", "written", "pieces", "said"),
    [
        (
            "493.20",
            "4",
            ["4", "9", "93", ".2", ".20", "20", "0"],
            "After 4, 93 can still become 493.20, 9 cannot",
        ),
        ("V30.00", "V3", ["0", "0.", ".0", "00"], "After V3, 0 and 0. can still become V30.00"),
        ("428.0", "42", ["8", "8."], "After 42, nothing can still become 428.0, 8 and 8. cannot"),
    ],
)
def test_pieces_that_lead_to_the_end_are_told_from_dead_ends(code, written, pieces, said):
    picture = draw_dead_ends(code, written, pieces)
    assert label_problems(picture) == []
    assert title(picture) == said
    assert f"the rest of {code} after {written}" in picture.alternative_text


def test_a_piece_that_no_path_can_take_is_not_drawn():
    picture = draw_dead_ends("493.20", "4", ["93", ".20", "20"])
    assert {"93", ".20"} <= set(words(picture)) and "20" not in words(picture)


@pytest.mark.parametrize("code", ["428.0000000", "250.00"])
def test_a_code_too_long_or_of_another_beginning_is_refused(code):
    with pytest.raises(ValueError, match="too long to draw, or does not begin"):
        draw_dead_ends(code, "42", ["8"])
