"""The beam tree: its controls set the beams, the length penalty and the part that is shown."""

import pytest
import torch
from drawings_17 import Table, search

from ehr_course.errors import InputError
from ehr_course.generation.beam_search import BeamSettings, beam_search
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig
from ehr_course.tokenizers.words import WordTokenizer
from ehr_course.widgets.beam_search import MOST_STEPS, beam_tree, draw_beam_tree, nodes_of

NOTE = "fever and quinapril"
TOKENIZER = WordTokenizer.from_texts(["fever cough and pain home"])
LENGTH = 10


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(1)
    return PointerGenerator(PointerGeneratorConfig.for_tokenizer(TOKENIZER))


@pytest.fixture
def tree(model):
    return beam_tree(model, TOKENIZER, NOTE, max_length=LENGTH)


def drawn(model, *, beams=3, length_penalty=1.0, first=0):
    ids, oov = TOKENIZER.encode_note(NOTE)
    settings = BeamSettings(
        beams=beams, length_penalty=length_penalty, max_length=LENGTH, no_repeat_ngram_size=0
    )
    result = beam_search(model, torch.tensor([ids]), settings=settings, trace=True)[0]
    return draw_beam_tree(result, lambda token: TOKENIZER.piece(token, oov), first=first)


@pytest.mark.parametrize("seed", range(3))
def test_a_child_has_the_log_probability_of_its_parent_and_a_token(seed):
    table, nodes = Table(seed).table, nodes_of(search(seed))
    by_place = {(node.step, node.row): node for node in nodes}
    for node in nodes:
        before, last = 0.0, 1
        if node.parent is not None:
            parent = by_place[node.step - 1, node.parent]
            before, last = parent.candidate.log_prob, parent.candidate.token
            assert parent.candidate.fate == "alive"
            assert node.tokens[:-1] == parent.tokens
        expected = before + float(table[last, node.candidate.token])
        assert node.candidate.log_prob == pytest.approx(expected, abs=1e-5)


def test_it_starts_with_three_beams_at_the_first_step(tree, model):
    assert tree.image.value == drawn(model).live_png()


@pytest.mark.parametrize("beams", [1, 2, 4])
def test_the_number_of_beams_is_that_of_the_search(tree, model, beams):
    tree.controls["beams"].value = beams
    assert tree.error is None
    assert tree.image.value == drawn(model, beams=beams).live_png()


def test_the_length_penalty_is_that_of_the_search(tree, model):
    tree.controls["length_penalty"].value = 3.0
    assert (
        tree.image.value == drawn(model, length_penalty=3.0).live_png() != drawn(model).live_png()
    )


def test_the_slider_moves_along_the_steps_and_stops_at_the_last(tree, model):
    tree.controls["step"].value = 2
    assert tree.image.value == drawn(model, first=1).live_png()
    tree.controls["step"].value = tree.controls["step"].max
    assert tree.error is None
    assert f"step {LENGTH}" in [t.get_text() for t in tree.picture.axes[0].texts]
    assert tree.controls["step"].max == LENGTH - MOST_STEPS + 1


def test_a_word_outside_the_vocabulary_is_written_out(model):
    copied = beam_tree(model, TOKENIZER, "quinapril", max_length=4)
    texts = [text.get_text() for text in copied.picture.axes[0].texts]
    assert any(text.startswith("quinapril\n") for text in texts)


def test_a_page_without_a_kernel_shows_the_picture(tree):
    data, _ = tree._repr_mimebundle_()
    assert data["image/png"]
    assert "the best has" in data["text/plain"]


def test_a_note_without_a_word_is_refused(model):
    with pytest.raises(InputError):
        beam_tree(model, TOKENIZER, " ")


def test_every_control_has_a_label_that_is_shown_whole(tree):
    for control in tree.controls.values():
        assert control.description
        assert control.style.description_width == "initial"
