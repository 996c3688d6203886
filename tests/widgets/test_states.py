"""The pictures that a widget's controls move through where no kernel draws them."""

import base64
import io

import ipywidgets
import numpy as np
import pytest
from PIL import Image

from ehr_course.plots.style import Picture
from ehr_course.widgets import states
from ehr_course.widgets.static import PictureWidget


def bar(height, colour="grey", tall=False):
    picture = Picture(2, 4 if tall else 2, f"A {colour} bar of height {height}, tall: {tall}.")
    picture.add_subplot(ylim=(0, 10)).bar([0], [height], color=colour)
    return picture


def height(value=1, most=9):
    return ipywidgets.IntSlider(value, 0, most, description="height")


def colour(value="grey"):
    return ipywidgets.Dropdown(options=["grey", "red"], value=value, description="colour")


def pixels(picture):
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))


def settings(widget):
    return [tuple(state["settings"]) for state in widget.states()["states"]]


@pytest.fixture
def few(monkeypatch):
    """So many bytes that a widget has about four pictures."""
    largest = max(len(states.state_of((), bar(value)).webp) for value in range(10))
    monkeypatch.setattr(states, "MOST_BYTES", 4 * largest)


def test_every_picture_has_the_pixels_and_the_words_that_the_widget_would_show():
    widget = PictureWidget(bar, {"height": height(), "colour": colour()})
    offered = widget.states()["states"]
    assert len(offered) == 20
    for state in offered:
        widget.controls["height"].value = int(state["settings"][0])
        widget.controls["colour"].value = state["settings"][1]
        assert np.array_equal(pixels(base64.b64decode(state["webp"])), pixels(widget.image.value))
        assert state["words"] == widget.alternative_text


def test_the_page_opens_on_what_the_widget_shows():
    widget = PictureWidget(bar, {"height": height(3), "colour": colour("red")})
    content = widget.states()
    assert content["states"][content["first"]]["settings"] == ["3", "red"]


def test_a_slider_takes_some_of_its_values_and_its_first_one(few):
    widget = PictureWidget(bar, {"height": height(4)})
    assert settings(widget) == [("0",), ("3",), ("4",), ("6",), ("9",)]


def test_a_choice_takes_all_of_its_options_and_leaves_fewer_to_the_slider(few):
    widget = PictureWidget(bar, {"height": height(0), "colour": colour()})
    assert settings(widget) == [("0", "grey"), ("0", "red"), ("9", "grey"), ("9", "red")]


def test_a_widget_can_say_which_values_the_book_offers():
    widget = PictureWidget(
        bar,
        {"height": height(2), "colour": colour(), "tall": ipywidgets.Checkbox(False)},
        in_the_book={"height": [5, 7], "colour": []},
    )
    assert settings(widget) == [
        (value, tall) for value in ("2", "5", "7") for tall in ("no", "yes")
    ]
    assert [control["kind"] for control in widget.states()["controls"]] == ["slider", "check"]


def test_a_control_that_limits_the_next_one_limits_it_in_the_book():
    tall, high = ipywidgets.Checkbox(False), height(1, most=2)

    def fit(change):
        high.max = 4 if change["new"] else 2

    tall.observe(fit, names="value")
    widget = PictureWidget(bar, {"tall": tall, "height": high})
    assert settings(widget) == [("no", str(n)) for n in range(3)] + [
        ("yes", str(n)) for n in range(5)
    ]


def test_afterwards_the_widget_stands_where_it_stood_and_still_follows_its_controls():
    widget = PictureWidget(bar, {"height": height(3), "colour": colour("red")})
    before = widget.image.value
    widget.states()
    assert widget.values == {"height": 3, "colour": "red"}
    assert widget.image.value == before
    widget.controls["height"].value = 8
    assert widget.alternative_text == bar(8, "red").alternative_text


def test_a_picture_that_is_drawn_on_again_is_kept_as_it_was():
    shared = bar(0)

    def draw(height):
        shared.axes[0].patches[0].set_height(height)
        shared.alternative_text = f"height {height}"
        return shared

    found = PictureWidget(draw, {"height": height(5)}).states()
    assert len({state["webp"] for state in found["states"]}) == 10
    assert found["states"][found["first"]]["words"] == "height 5"


def test_too_many_settings_are_refused(few):
    many = ipywidgets.Dropdown(options=range(9))
    with pytest.raises(ValueError, match="in_the_book"):
        PictureWidget(bar, {"height": many}).states()


def test_pictures_are_drawn_only_where_they_are_asked_for(monkeypatch):
    widget = PictureWidget(bar, {"height": height()})
    assert states.STATES not in widget._repr_mimebundle_()[0]
    monkeypatch.setenv(states.WANTED, "1")
    data, _ = widget._repr_mimebundle_()
    assert len(data[states.STATES]["states"]) == 10
    assert np.array_equal(
        pixels(base64.b64decode(data["image/png"])),
        pixels(base64.b64decode(data[states.STATES]["states"][1]["webp"])),
    )
