"""Where a model looks while it writes: the numbers, the words and the picture."""

import numpy as np
import pytest
import torch
from matplotlib.patches import Rectangle

from ehr_course.errors import InputError
from ehr_course.generation.summaries import Summary
from ehr_course.plots.bars import bars_in
from ehr_course.plots.coverage_player import (
    MOST_WORDS,
    Look,
    coverage_title,
    describe_coverage,
    draw_coverage,
    look_of,
)

SOURCE = ("<s>", "fever", "cough", "pain", "</s>")
WRITTEN = ("fever", "cough", "fever", "</s>")
ATTENTION = np.array(
    [
        [0.0, 0.9, 0.1, 0.0, 0.0],
        [0.0, 0.2, 0.7, 0.1, 0.0],
        [0.0, 0.8, 0.0, 0.2, 0.0],
        [0.0, 0.0, 0.0, 1.0, 0.0],
    ]
)
LOOK = Look(SOURCE, WRITTEN, ATTENTION)


def random_look(n_words, n_steps, *, word="medication"):
    rng = np.random.default_rng(n_words)
    attention = rng.dirichlet(np.full(n_words, 0.2), n_steps)
    words = tuple(f"{word}{place}" for place in range(n_words))
    return Look(words, tuple(words[place % n_words] for place in range(n_steps)), attention)


def bars_of(picture):
    return tuple([bar.height for bar in bars_in(some)] for some in picture.axes[0].collections)


def test_coverage_is_the_attention_of_the_steps_before():
    for step in range(4):
        expected = sum((ATTENTION[t] for t in range(step)), np.zeros(5))
        np.testing.assert_allclose(LOOK.coverage[step], expected)


def test_repeated_is_what_the_coverage_loss_adds_up():
    from ehr_course.losses import coverage_loss

    total, count = coverage_loss(torch.tensor(ATTENTION)[None], torch.ones(1, 4).bool())
    assert LOOK.repeated.sum() == pytest.approx(float(total))
    assert len(LOOK.repeated) == int(count)


def test_a_look_is_made_of_a_summary():
    summary = Summary(
        text="fever cough fever",
        ids=(5, 4, 5, 2),
        pieces=WRITTEN,
        source_pieces=SOURCE,
        attention=torch.tensor(ATTENTION),
        p_gen=torch.ones(4),
        score=-1.0,
        finished=True,
    )
    made = look_of(summary)
    assert (made.source, made.written) == (SOURCE, WRITTEN)
    np.testing.assert_array_equal(made.attention, ATTENTION)


@pytest.mark.parametrize(
    ("source", "written", "shape"),
    [(SOURCE, WRITTEN, (3, 5)), (SOURCE, WRITTEN, (5, 4)), (SOURCE, (), (0, 5))],
)
def test_attention_of_another_shape_is_refused(source, written, shape):
    with pytest.raises(InputError, match="shape"):
        Look(source, written, np.zeros(shape))


def test_the_title_says_what_was_spent_where_the_step_looks_most():
    assert coverage_title(LOOK, 0) == 'Step 1 writes "fever": nothing has been looked at before'
    assert coverage_title(LOOK, 1) == (
        'Step 2 writes "cough" and looks most where coverage is 0.10'
    )
    assert coverage_title(LOOK, 2) == (
        'Step 3 writes "fever" and looks most where coverage is 1.10'
    )


def test_the_words_say_where_it_looks_and_what_was_spent_there():
    text = describe_coverage(LOOK, 2)
    assert "where coverage is 1.10. It looks most at fever (0.80)." in text
    assert "Written so far: fever cough." in text
    assert "Written so far: nothing." in describe_coverage(LOOK, 0)


@pytest.mark.parametrize("step", range(4))
def test_the_bars_are_coverage_and_on_top_attention(step):
    spent, now = bars_of(draw_coverage(LOOK, step))
    np.testing.assert_allclose(spent, LOOK.coverage[step])
    np.testing.assert_allclose(now, ATTENTION[step])


def test_the_present_step_is_framed_in_the_heat_map():
    picture = draw_coverage(LOOK, 2)
    axes = picture.axes[1]
    (frame,) = (patch for patch in axes.patches if isinstance(patch, Rectangle))
    assert (frame.get_y(), frame.get_height(), frame.get_width()) == (1.5, 1, 5)
    np.testing.assert_array_equal(axes.images[0].get_array(), ATTENTION)


def test_every_step_is_another_picture_of_one_size():
    pictures = [draw_coverage(LOOK, step) for step in range(4)]
    assert len({picture.png() for picture in pictures}) == 4
    assert len({picture.page_size for picture in pictures}) == 1


def test_of_a_long_note_the_words_that_are_looked_at_most_are_drawn(drawn):
    look = random_look(90, 6)
    picture = draw_coverage(look, 3)
    shown = [label.get_text() for label in picture.axes[1].get_xticklabels()]
    most = np.argsort(-look.attention.sum(axis=0))[:MOST_WORDS]
    assert shown == [look.source[place] for place in sorted(most)]
    assert any(f"{MOST_WORDS} of 90 words" in text.get_text() for text in picture.texts)


@pytest.mark.parametrize(("n_words", "n_steps"), [(1, 1), (12, 10), (48, 30), (200, 120)])
def test_no_text_is_cut_off(drawn, n_words, n_steps):
    picture = draw_coverage(random_look(n_words, n_steps), n_steps - 1)
    assert drawn(picture).cut_off() == []


@pytest.mark.parametrize("step", [-1, 4])
def test_a_step_that_is_not_there_is_refused(step):
    with pytest.raises(InputError, match="no step of 4"):
        draw_coverage(LOOK, step)
