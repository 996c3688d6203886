"""The player of the generation trace: its controls choose the summary and the word."""

import pytest

from ehr_course.errors import InputError
from ehr_course.generation.summaries import GenerationTrace, TraceStep
from ehr_course.widgets.generation_trace import draw_trace_step, generation_trace_player


def trace(*words):
    steps = tuple(
        TraceStep(word, (0.5, 0.5), 0.1, (("home", 1.0),), ((word, 0.5),), ((word, 0.5),), 0.9)
        for word in words
    )
    return GenerationTrace(("senna", "mesna"), ("mesna",), steps)


TRACES = {"long": trace("given", "senna", "and", "mesna"), "short": trace("mesna", "home")}


@pytest.fixture
def player():
    return generation_trace_player(TRACES, word=2)


def test_it_starts_with_the_word_that_is_asked_for(player):
    assert player.image.value == draw_trace_step(TRACES["long"], 1).live_png()


def test_the_slider_steps_through_the_words(player):
    for word in (1, 4, 3):
        player.controls["word"].value = word
        assert player.image.value == draw_trace_step(TRACES["long"], word - 1).live_png()


def test_another_summary_is_shown_at_the_same_word(player):
    player.controls["trace"].value = "short"
    assert player.error is None
    assert player.image.value == draw_trace_step(TRACES["short"], 1).live_png()


def test_a_shorter_summary_moves_the_slider_to_its_last_word(player):
    player.controls["word"].value = 4
    player.controls["trace"].value = "short"
    assert player.error is None
    assert (player.controls["word"].value, player.controls["word"].max) == (2, 2)
    assert player.image.value == draw_trace_step(TRACES["short"], 1).live_png()


def test_back_at_the_longer_one_all_its_words_can_be_reached(player):
    player.controls["trace"].value = "short"
    player.controls["trace"].value = "long"
    player.controls["word"].value = 4
    assert player.image.value == draw_trace_step(TRACES["long"], 3).live_png()


def test_a_first_word_behind_the_end_is_the_last_one():
    player = generation_trace_player({"short": TRACES["short"]}, word=9)
    assert player.controls["word"].value == 2


def test_a_page_without_a_kernel_shows_the_picture(player):
    data, _ = player._repr_mimebundle_()
    assert data["image/png"]
    assert data["text/plain"].startswith('Word 2 of 4 is "senna"')


def test_bars_show_what_each_way_adds_to_the_mixture():
    generated, copied, mixed = (("a", 0.4), ("c", 0.01)), (("b", 0.8),), (("b", 0.6), ("a", 0.1))
    step = TraceStep("senna", (0.2, 0.8), 0.25, generated, copied, mixed, 1.0)
    (axes,) = draw_trace_step(GenerationTrace(("given", "senna"), (), (step,)), 0).axes
    widths = [patch.get_window_extent().width for patch in axes.patches][-4:]
    tenth = widths[0]  # 0.25 times 0.4; 0.25 times 0.01 rounds to 0% and is not drawn
    assert [width / tenth for width in widths] == pytest.approx([1, 6, 6, 1], abs=0.2)


def test_no_traces_are_refused():
    with pytest.raises(InputError, match="the list is empty"):
        generation_trace_player({})


def test_every_control_has_a_label_that_is_shown_whole(player):
    for control in player.controls.values():
        assert control.description
        assert control.style.description_width == "initial"
