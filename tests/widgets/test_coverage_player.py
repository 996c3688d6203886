"""The coverage player: its controls choose the summary and the step."""

import ipywidgets
import numpy as np
import pytest
import torch

from ehr_course.errors import InputError
from ehr_course.generation.summaries import Summary
from ehr_course.losses import coverage_loss
from ehr_course.widgets.coverage import Look, coverage_player, draw_coverage, look_of

SOURCE = ("fever", "cough", "pain")
RNG = np.random.default_rng(0)
LOOKS = {
    "plain": Look(SOURCE, ("fever", "fever", "cough"), RNG.dirichlet(np.ones(3), 3)),
    "with coverage": Look(SOURCE, ("fever", "cough"), RNG.dirichlet(np.ones(3), 2)),
}


ATTENTION = np.array([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1], [0.8, 0.0, 0.2]])
LOOK = Look(SOURCE, ("fever", "cough", "fever"), ATTENTION)


def test_coverage_is_the_attention_of_the_steps_before():
    for step in range(3):
        expected = sum((ATTENTION[t] for t in range(step)), np.zeros(3))
        np.testing.assert_allclose(LOOK.coverage[step], expected)


def test_repeated_is_what_the_coverage_loss_adds_up():
    total, count = coverage_loss(torch.tensor(ATTENTION)[None], torch.ones(1, 3).bool())
    assert LOOK.repeated.sum() == pytest.approx(float(total))
    assert len(LOOK.repeated) == int(count)


def test_a_look_is_made_of_a_summary():
    summary = Summary(
        text="fever cough fever",
        ids=(5, 4, 5),
        pieces=LOOK.written,
        source_pieces=SOURCE,
        attention=torch.tensor(ATTENTION),
        p_gen=torch.ones(3),
        score=-1.0,
        finished=True,
    )
    made = look_of(summary)
    assert (made.source, made.written) == (SOURCE, LOOK.written)
    np.testing.assert_array_equal(made.attention, ATTENTION)


@pytest.mark.parametrize("step", range(3))
def test_the_bars_are_coverage_and_on_top_attention(step):
    _, bars, steps = draw_coverage(LOOK, step).axes
    spent, now = ([bar.get_height() for bar in some] for some in bars.containers)
    np.testing.assert_allclose(spent, LOOK.coverage[step])
    np.testing.assert_allclose(now, ATTENTION[step])
    np.testing.assert_array_equal(steps.images[0].get_array(), ATTENTION)


@pytest.fixture
def player():
    return coverage_player(LOOKS)


def test_it_starts_with_the_first_step_of_the_first_summary(player):
    assert player.image.value == draw_coverage(LOOKS["plain"], 0).live_png()


@pytest.mark.parametrize("step", [2, 3])
def test_the_slider_moves_to_a_step(player, step):
    player.controls["step"].value = step
    assert player.image.value == draw_coverage(LOOKS["plain"], step - 1).live_png()
    assert f"Step {step} writes" in player.alternative_text


def test_another_summary_is_shown_at_the_same_step(player):
    player.controls["step"].value = 2
    player.controls["summary"].value = "with coverage"
    assert player.image.value == draw_coverage(LOOKS["with coverage"], 1).live_png()


def test_a_shorter_summary_stays_at_its_last_step(player):
    player.controls["step"].value = 3
    player.controls["summary"].value = "with coverage"
    assert player.error is None
    assert player.image.value == draw_coverage(LOOKS["with coverage"], 1).live_png()


def test_the_play_button_goes_through_all_steps(player):
    (play,) = (w for w in player.children[0].children if isinstance(w, ipywidgets.Play))
    step = player.controls["step"]
    assert (play.min, play.max) == (step.min, step.max) == (1, 3)


def test_a_page_without_a_kernel_shows_the_picture(player):
    data, _ = player._repr_mimebundle_()
    assert data["image/png"]
    assert data["text/plain"].startswith("Step 1 writes")


def test_it_begins_at_the_step_that_is_asked_for():
    player = coverage_player(LOOKS, step=3)
    assert player.image.value == draw_coverage(LOOKS["plain"], 2).live_png()


@pytest.mark.parametrize("step", [0, 4])
def test_a_step_that_no_summary_has_is_refused(step):
    with pytest.raises(InputError, match="there is no step"):
        coverage_player(LOOKS, step=step)


def test_the_player_wants_summaries():
    with pytest.raises(InputError, match="the list is empty"):
        coverage_player({})


def test_every_control_has_a_label_that_is_shown_whole(player):
    for control in player.controls.values():
        assert control.description
        assert control.style.description_width == "initial"
