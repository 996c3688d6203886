"""The chance explorer: its sliders set the number of seeds and the true difference."""

import pytest

from ehr_course.errors import InputError
from ehr_course.widgets.chance import FEWEST, MOST, chance_explorer


def test_it_opens_on_equal_models_with_few_seeds():
    explorer = chance_explorer()
    assert explorer.values == {"seeds": 3, "difference": 0}
    assert "equal models, 3 seeds each" in explorer.alternative_text


@pytest.mark.parametrize("seeds", [FEWEST, 5, MOST])
@pytest.mark.parametrize("difference", [0.0, 1.0, 4.0])
def test_the_sliders_set_what_is_drawn(seeds, difference):
    explorer = chance_explorer(seeds=4)
    explorer.controls["seeds"].value = seeds
    explorer.controls["difference"].value = difference
    assert explorer.error is None
    assert f"{seeds} seeds each" in explorer.alternative_text
    assert (f"better by {difference:g} standard deviations" in explorer.alternative_text) is (
        difference > 0
    )


def test_every_control_has_a_label_that_is_shown_whole():
    for control in chance_explorer().controls.values():
        assert control.description
        assert control.style.description_width == "initial"
        assert control.continuous_update is False


@pytest.mark.parametrize("seeds", [FEWEST - 1, MOST + 1])
def test_a_number_beyond_the_slider_is_refused(seeds):
    with pytest.raises(InputError, match="out of range"):
        chance_explorer(seeds=seeds)
