"""A patient as tokens and pieces: the counts, the words and the picture."""

import re
from itertools import accumulate, pairwise

import matplotlib.text
import pytest
from matplotlib.patches import FancyBboxPatch, Rectangle

from ehr_course.errors import InputError
from ehr_course.plots.style import chapter_name, chapter_of
from ehr_course.plots.tokens import (
    count_tokens,
    describe_tokens,
    draw_tokens,
    pieces_by_word,
    visit_text,
)
from ehr_course.records import PatientRecord, Visit
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.tokenizers.notes import NoteTokenizer

HEART = PatientRecord(1, "F", 64, (Visit(("4280", "42731")), Visit(("V4581",))))


def texts(picture):
    return [text for text in picture.findobj(matplotlib.text.Text) if text.get_text().strip()]


def legend(record):
    return {chapter_of(code) for code in record.codes}


def boxes(picture):
    return picture.findobj(FancyBboxPatch)


# ---------------------------------------------------------------------- counts and words


def test_the_title_counts_what_the_tokenizers_give(patient, code_tokenizer, note_tokenizer):
    title = count_tokens(patient, code_tokenizer, note_tokenizer).title
    numbers = re.findall(r"\d[\d,]*", title)
    codes, tokens, pieces = (int(number.replace(",", "")) for number in numbers)
    assert codes == sum(len(visit.codes) for visit in patient.visits)
    ids = code_tokenizer.encode(patient)
    assert tokens == sum(number > code_tokenizer.mask_id for number in ids)
    assert pieces == sum(
        len(note_tokenizer.pieces(" ".join(visit.codes))) for visit in patient.visits
    )


def test_the_title_in_words(code_tokenizer, note_tokenizer):
    counts = count_tokens(HEART, code_tokenizer, note_tokenizer)
    assert counts.title == "3 codes: 3 tokens as codes, 17 subword pieces as text"
    assert counts.note == "3 codes and 6 special tokens"


def test_a_dotted_code_has_one_character_more(code_tokenizer, note_tokenizer):
    assert count_tokens(HEART, code_tokenizer, note_tokenizer, dotted=True).pieces == 17 + 3


def test_unseen_codes_that_are_left_out_are_said(note_tokenizer):
    tokenizer = CodeTokenizer(["4280", "V4581"], unseen="skip")
    counts = count_tokens(HEART, tokenizer, note_tokenizer)
    assert counts.note == "2 codes and 6 special tokens; 1 unseen code is left out"
    assert counts.note in describe_tokens(HEART, tokenizer, note_tokenizer)


def test_the_alternative_text(code_tokenizer, note_tokenizer):
    assert describe_tokens(HEART, code_tokenizer, note_tokenizer) == (
        "A patient of 2 visits and 3 codes, drawn as 9 tokens (3 codes and 6 special tokens), "
        "and below as 17 subword pieces, 5.7 for each code; "
        "42731, for instance, becomes ▁ 4 2 7 3 1."
    )


def test_a_code_of_no_icd9_shape_keeps_its_spelling():
    assert visit_text(Visit(("I5023", "42731")), dotted=True) == "I5023 427.31"


def test_pieces_fall_to_their_words():
    notes = [f"code {number} and {number + 7}" for number in range(100, 400)]
    trained = NoteTokenizer.train(notes, vocab_size=40)
    groups = pieces_by_word("4280 42731 V4581", trained)
    assert ["".join(group) for group in groups] == ["▁4280", "▁42731", "▁V4581"]
    assert [trained.pieces(word) for word in ("4280", "42731", "V4581")] == groups


def test_a_piece_that_runs_over_a_space_is_refused():
    class Whole:
        def pieces(self, text):
            return ["▁" + text]

    with pytest.raises(ValueError, match="do not make up the words"):
        pieces_by_word("4280 42731", Whole())


# ---------------------------------------------------------------------- the picture


def test_drawing_twice_gives_the_same_bytes(patient, code_tokenizer, note_tokenizer):
    first, second = (draw_tokens(patient, code_tokenizer, note_tokenizer) for _ in range(2))
    assert first.png() == second.png()


def test_the_picture_carries_title_and_alternative_text(patient, code_tokenizer, note_tokenizer):
    picture = draw_tokens(patient, code_tokenizer, note_tokenizer)
    assert picture.alternative_text == describe_tokens(patient, code_tokenizer, note_tokenizer)
    title = count_tokens(patient, code_tokenizer, note_tokenizer).title
    assert title in [text.get_text() for text in texts(picture)]


def test_the_tokens_stand_in_their_order(code_tokenizer, note_tokenizer):
    shown = [text.get_text() for text in texts(draw_tokens(HEART, code_tokenizer, note_tokenizer))]
    ids = code_tokenizer.encode(HEART)
    tokens = code_tokenizer.tokens(ids)
    expected = [part for token, i in zip(tokens, ids, strict=True) for part in (token, str(i))]
    assert [text for text in shown if text in expected and text not in "012345678"] == [
        part for part in expected if part not in "012345678"
    ]


def test_there_is_a_box_for_every_token_piece_and_chapter(code_tokenizer, note_tokenizer):
    # 9 tokens, 17 pieces; the chapters are circulatory and health status
    assert len(boxes(draw_tokens(HEART, code_tokenizer, note_tokenizer))) == 9 + 17 + 2


def strips(picture):
    """The left edges of the boxes of the two strips, tokens and pieces."""
    found = [box for box in picture.findobj(Rectangle) if abs(box.get_height() - 0.16) < 1e-9]
    assert len({round(box.get_width(), 9) for box in found}) == 1
    heights = sorted({box.get_y() for box in found})
    return [[box.get_x() for box in found if box.get_y() == height] for height in heights]


def test_the_strips_have_a_box_for_every_code_and_every_piece(code_tokenizer, note_tokenizer):
    tokens, pieces = strips(draw_tokens(HEART, code_tokenizer, note_tokenizer))
    assert (len(tokens), len(pieces)) == (3, 17)


def test_in_the_strips_a_gap_stands_where_a_code_begins_and_nowhere_else(
    code_tokenizer, note_tokenizer
):
    tokens, pieces = strips(draw_tokens(HEART, code_tokenizer, note_tokenizer))
    steps = [other - one for one, other in pairwise(pieces)]
    wide = [place for place, step in enumerate(steps, 1) if step > 1.3 * min(steps)]
    lengths = [len(note_tokenizer.pieces(code)) for code in HEART.codes]
    assert wide == list(accumulate(lengths))[:-1]
    assert all(other - one == pytest.approx(max(steps)) for one, other in pairwise(tokens))


def test_before_a_code_stands_the_number_of_its_chapter_which_the_legend_names(
    code_tokenizer, note_tokenizer
):
    drawn = texts(draw_tokens(HEART, code_tokenizer, note_tokenizer))
    shown = [text.get_text() for text in drawn]
    for code in HEART.codes:
        place, chapter = shown.index(code), chapter_of(code)
        assert shown[place - 1] == str(chapter)
        assert drawn[place - 1].get_position()[1] == drawn[place].get_position()[1]
        assert shown[shown.index(chapter_name(chapter)) + 1] == str(chapter)


def test_dots_are_written_in_both_halves(code_tokenizer, note_tokenizer):
    picture = draw_tokens(HEART, code_tokenizer, note_tokenizer, dotted=True)
    assert {"428.0", "427.31", "V45.81"} <= {text.get_text() for text in texts(picture)}


def test_no_text_is_cut_off_and_no_text_lies_on_another(
    patient, code_tokenizer, note_tokenizer, drawn
):
    result = drawn(draw_tokens(patient, code_tokenizer, note_tokenizer))
    assert result.cut_off() == []
    assert result.overlapping() == []


def test_every_token_fits_its_box(patient, code_tokenizer, note_tokenizer, drawn):
    picture = draw_tokens(patient, code_tokenizer, note_tokenizer)
    result = drawn(picture)
    frames = [result.extent(box) for box in boxes(picture)]
    tokens = [text for text in result.texts if not text.get_parse_math()]
    assert len(tokens) == len(frames) - len(legend(patient))
    for extent in map(result.extent, tokens):
        middle = ((extent.x0 + extent.x1) / 2, (extent.y0 + extent.y1) / 2)
        (frame,) = [frame for frame in frames if frame.contains(*middle)]
        assert frame.x0 <= extent.x0 and extent.x1 <= frame.x1


def test_what_does_not_fit_is_said(code_tokenizer, note_tokenizer):
    picture = draw_tokens(HEART, code_tokenizer, note_tokenizer, most_lines=1)
    shown = [text.get_text() for text in texts(picture)]
    # the second visit: <v> V4581 <\v> <EOS>, and six pieces
    assert "and 4 more tokens" in shown
    assert "and 6 more pieces" in shown


def test_an_unseen_code_raises_under_the_policy_raise(note_tokenizer):
    with pytest.raises(InputError, match="42731"):
        draw_tokens(HEART, CodeTokenizer(["4280", "V4581"]), note_tokenizer)
