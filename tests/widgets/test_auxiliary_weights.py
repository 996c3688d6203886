"""The weight explorer: its controls choose the setting that is marked, and what is drawn."""

import polars as pl
import pytest

from ehr_course.errors import InputError
from ehr_course.widgets.auxiliary_weights import (
    MEASURES,
    NO_HEADS,
    Setting,
    draw_weights,
    weight_explorer,
)

SETTINGS = [NO_HEADS, Setting(0.3, 0.2, "states"), Setting(3.0, 3.0, "states")]
SWEEP = pl.DataFrame(
    [
        {
            **setting._asdict(),
            "seed": seed,
            **dict.fromkeys(MEASURES, 0.1 + 0.1 * place + 0.01 * seed),
        }
        for place, setting in enumerate(SETTINGS)
        for seed in range(2)
    ]
)


@pytest.fixture
def explorer():
    return weight_explorer(SWEEP)


def drawn(setting=SETTINGS[1], above="impossible", below="divergence"):
    return draw_weights(SWEEP, above=above, below=below, setting=setting).live_png()


def test_it_starts_in_the_middle_with_validity_and_coherence(explorer):
    assert explorer.image.value == drawn()


def test_a_lesson_chooses_what_the_lower_half_shows_at_first():
    explorer = weight_explorer(SWEEP, below="loss_repair")
    assert explorer.image.value == drawn(below="loss_repair")


def test_a_lesson_chooses_the_setting_that_is_marked_at_first():
    explorer = weight_explorer(SWEEP, weights="3")
    assert explorer.image.value == drawn(SETTINGS[2])


@pytest.mark.parametrize("setting", [SETTINGS[0], SETTINGS[2]], ids=lambda one: one.label)
def test_the_slider_marks_a_setting(explorer, setting):
    explorer.controls["weights"].value = setting
    assert explorer.image.value == drawn(setting)


@pytest.mark.parametrize("half", ["above", "below"])
def test_each_half_draws_the_measure_that_is_chosen(explorer, half):
    explorer.controls[half].value = "loss_repair"
    assert explorer.image.value == drawn(**{half: "loss_repair"})


def test_every_measure_of_the_sweep_can_be_chosen():
    few = weight_explorer(SWEEP.drop("age_accuracy", "sex_accuracy"))
    known = [column for _, column in few.controls["above"].options]
    assert known == [m for m in MEASURES if m not in ("age_accuracy", "sex_accuracy")]


def test_the_explorer_wants_several_seeds():
    with pytest.raises(InputError, match="no standard deviation"):
        weight_explorer(SWEEP.filter(pl.col("seed") == 0))


def test_every_control_has_a_label_that_is_shown_whole(explorer):
    for control in explorer.controls.values():
        assert control.description
        assert control.style.description_width == "initial"
