"""The number line of float16: its slider sets the loss scale."""

import pytest
import torch

from ehr_course.errors import InputError
from ehr_course.widgets.number_line import FIRST, LAST, Sizes, draw_sizes, number_line_explorer

GRADIENTS = torch.tensor([0.0, 1e-9, -3e-6, 0.02, 0.5, -1.5])


def test_it_starts_at_the_scale_that_is_asked_for():
    explorer = number_line_explorer(GRADIENTS, exponent=4)
    assert explorer.image.value == draw_sizes(Sizes(GRADIENTS), exponent=4).live_png()


@pytest.mark.parametrize("exponent", [FIRST, -1, 16, LAST])
def test_the_slider_sets_the_scale(exponent):
    explorer = number_line_explorer(GRADIENTS)
    explorer.controls["exponent"].value = exponent
    assert explorer.error is None
    assert explorer.image.value == draw_sizes(Sizes(GRADIENTS), exponent=exponent).live_png()


def test_an_overflow_is_said_in_words():
    explorer = number_line_explorer(GRADIENTS)
    assert "0 become infinite" in explorer.words.value
    explorer.controls["exponent"].value = 16
    assert "1 become infinite" in explorer.words.value


def test_gradients_that_change_later_do_not_change_the_picture():
    given = GRADIENTS.clone()
    explorer = number_line_explorer(given)
    given.zero_()
    explorer.controls["exponent"].value = 1
    assert explorer.error is None


def test_every_control_has_a_label_that_is_shown_whole():
    for control in number_line_explorer(GRADIENTS).controls.values():
        assert control.description
        assert control.style.description_width == "initial"
        assert control.continuous_update is False


@pytest.mark.parametrize("exponent", [FIRST - 1, LAST + 1])
def test_a_scale_beyond_the_slider_is_refused(exponent):
    with pytest.raises(InputError, match="out of range"):
        number_line_explorer(GRADIENTS, exponent=exponent)


@pytest.mark.parametrize("nothing", [torch.zeros(3), torch.tensor([float("nan")]), torch.zeros(0)])
def test_no_gradient_is_refused(nothing):
    with pytest.raises(InputError, match="none is a finite number"):
        number_line_explorer(nothing)
