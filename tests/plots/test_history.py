"""A training as a picture: the running mean, the words, and what is drawn where."""

import numpy as np
import pytest

from ehr_course.errors import InputError
from ehr_course.plots.history import (
    describe_training,
    running_mean,
    training_figure,
    training_title,
)
from ehr_course.training.history import TrainingHistory


def made(losses, *, scales=None, skipped=(), validation=None):
    """A training: the losses of all steps, and the places from 0 that were skipped or judged."""
    rows = [
        {"loss": loss, "lr": 0.001 * (i + 1), "scale": 1.0, "skipped": i in skipped}
        for i, loss in enumerate(losses)
    ]
    for row, scale in zip(rows, scales or (), strict=False):
        row["scale"] = scale
    for place, loss in (validation or {}).items():
        rows[place]["validation_loss"] = loss
    return TrainingHistory(rows)


PLAIN = made([6.0, 5.0, 4.5, 4.0], validation={1: 5.2, 3: 4.4})
HALF = made([6.0, 6.0, 5.0, 4.0], scales=[2.0**24, 2.0**23, 2.0**22, 2.0**22], skipped=(0, 1))
LONG = made([5 / (1 + i) for i in range(12_345)], scales=[2.0**15] * 12_345, skipped=(7,))


def line(axes, number):
    return [values.tolist() for values in axes.lines[number].get_data()]


@pytest.mark.parametrize("window", [1, 2, 7, 40, 100])
def test_the_running_mean_is_that_of_a_slow_loop(window):
    values = np.random.default_rng(0).normal(size=40)
    slow = [values[max(0, i - window + 1) : i + 1].mean() for i in range(40)]
    np.testing.assert_allclose(running_mean(values, window), slow, atol=1e-12)


# ---------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("losses", "title"),
    [
        ([6.0, 5.0, 4.0], "The loss falls from 6.00 to 5.00 nats in 3 steps"),
        ([4.0, 6.0], "The loss rises from 4.00 to 5.00 nats in 2 steps"),
        ([4.0], "The loss is 4.00 nats after 1 step"),
        # a mean of five steps
        ([9.0, 9.0, 9.0, 1.0, 2.0, 3.0, 4.0, 5.0], "The loss falls from 9.00 to 3.00 nats"),
        # of a twenty-fifth of the steps, which is eight
        ([9.0] * 192 + [2.0] * 8, "The loss falls from 9.00 to 2.00 nats"),
        ([9.0] * 193 + [2.0] * 7, "The loss falls from 9.00 to 2.88 nats"),
    ],
)
def test_the_title_says_what_becomes_of_the_loss(losses, title):
    assert training_title(made(losses)).startswith(title)


def test_a_skipped_step_has_no_part_in_the_title():
    assert "falls from 6.00" in training_title(made([99.0, 6.0, 4.0], skipped=(0,)))


def test_the_alternative_text():
    assert describe_training(PLAIN) == (
        "Line plots of a training. The loss falls from 6.00 to 4.88 nats in 4 steps (mean of the "
        "last 4); the validation loss is smallest, 4.40, after step 4; the learning rate peaks at "
        "4.0e-03 in step 4 and ends at 4.0e-03."
    )


def test_the_alternative_text_tells_of_the_scale():
    assert describe_training(HALF).endswith(
        "; the scale goes from 16,777,216 to 4,194,304, and 2 more steps were skipped."
    )


# ---------------------------------------------------------------------- the picture


def test_drawing_twice_gives_the_same_bytes():
    assert training_figure(HALF).png() == training_figure(HALF).png()


def test_the_picture_carries_title_and_alternative_text():
    picture = training_figure(PLAIN)
    assert picture.alternative_text == describe_training(PLAIN)
    assert training_title(PLAIN) in [text.get_text() for text in picture.texts]


def test_the_loss_its_mean_and_the_validation_loss_are_drawn():
    loss, rates = training_figure(PLAIN).axes
    assert line(loss, 0) == [[1, 2, 3, 4], [6.0, 5.0, 4.5, 4.0]]
    assert line(loss, 1) == [[1, 2, 3, 4], pytest.approx([6.0, 5.5, 15.5 / 3, 4.875])]
    assert line(loss, 2) == [[2, 4], [5.2, 4.4]]
    assert line(rates, 0)[1] == pytest.approx([0.001, 0.002, 0.003, 0.004])


def test_without_validation_there_is_no_line_for_it():
    assert len(training_figure(made([2.0, 1.0])).axes[0].lines) == 2


def test_in_float16_the_scale_is_drawn_with_a_cross_at_each_skipped_step():
    loss, rates, scale = training_figure(HALF).axes
    assert line(loss, 0) == [[3, 4], [5.0, 4.0]]
    assert line(rates, 0)[0] == [1, 2, 3, 4]
    assert line(scale, 0) == [[1, 2, 3, 4], [2.0**24, 2.0**23, 2.0**22, 2.0**22]]
    assert line(scale, 1) == [[1, 2], [2.0**24, 2.0**23]]
    assert {label.get_text() for label in scale.get_yticklabels()} >= {"2²¹", "2²³"}


@pytest.mark.parametrize("history", [PLAIN, HALF, LONG, made([3.0])])
def test_no_text_is_cut_off_and_no_text_lies_on_another(history, drawn):
    result = drawn(training_figure(history))
    assert result.cut_off() == []
    assert result.overlapping() == []


@pytest.mark.parametrize("history", [made([]), made([5.0], skipped=(0,))])
def test_a_training_that_has_not_begun_is_refused(history):
    with pytest.raises(InputError, match="no step has changed the weights"):
        training_figure(history)
