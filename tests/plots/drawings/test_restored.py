"""The drawing of what a model restores shows the numbers that it is given."""

from __future__ import annotations

import pytest

from ehr_course.plots.drawings.overlaps import label_problems
from ehr_course.plots.drawings.restored import Found, draw_restored


@pytest.mark.parametrize("right", [40, 120, 400])
@pytest.mark.parametrize("guess", [0.004, 0.04, 0.5])
def test_each_way_of_writing_shows_its_own_numbers(right, guess):
    found = {
        "leak": Found(0, 0, 2_413),
        "age and sex only": Found(right // 2, 2_317, 452),
        "repaired": Found(right, 451, 2_228),
    }
    own = {"leak": 0.9996, "repaired": 0.856}
    picture = draw_restored(own, found, 400, 2_413, guess)
    assert label_problems(picture) == []
    said = [text.get_text() for axes in picture.axes for text in axes.texts]
    assert said[0] == (
        f"If the model reads the record, {right / 451:.0%} of its additions are right; "
        f"if not, {right / 2 / 2_317:.0%}"
    )
    for text in (f"{right} of 451", f"{right // 2} of 2,317", f"{right} of 400", "2,228 of 2,413"):
        assert text in said
    assert f"{guess:.0%}" in said and "most common code" in said
    assert {"adds none", "not measured", "100%", "86%"} <= set(said)
    assert f"repaired restores {right} of 400 lost codes" in picture.alternative_text


def test_a_leak_that_adds_something_has_a_bar_too():
    found = {"leak": Found(1, 4, 90), "blind": Found(2, 50, 20), "repaired": Found(0, 0, 80)}
    picture = draw_restored({}, found, 10, 100, 0.1)
    assert label_problems(picture) == []
    assert "1 of 4" in {text.get_text() for axes in picture.axes for text in axes.texts}
