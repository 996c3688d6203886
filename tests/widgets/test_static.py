"""A widget around a picture: it follows its controls, and shows without a kernel."""

import base64
import io

import ipywidgets
import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter
from PIL import Image

from ehr_course.plots.style import Picture
from ehr_course.widgets.static import PictureWidget


def bar(height):
    if height == 3:
        raise ValueError("no bar <3> is high enough")
    picture = Picture(2, 2, f"A bar of height {height} & nothing else.")
    picture.add_subplot(ylim=(0, 10)).bar([0], [height])
    return picture


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


@pytest.fixture
def widget():
    return PictureWidget(bar, {"height": ipywidgets.IntSlider(1, 0, 10)})


def test_the_picture_is_there_from_the_start(widget):
    assert widget.image.value == bar(1).live_png()
    assert widget.alternative_text == "A bar of height 1 & nothing else."


def test_moving_a_control_changes_picture_and_words(widget):
    widget.controls["height"].value = 7
    assert widget.image.value == bar(7).live_png() != bar(1).live_png()
    assert widget.alternative_text == "A bar of height 7 & nothing else."
    assert "A bar of height 7 &amp; nothing else." in widget.words.value


def test_the_image_has_no_tooltip_which_would_keep_it_from_being_shown(widget):
    assert widget.image.tooltip is None


def test_the_fast_picture_has_the_pixels_of_the_stored_one(widget):
    stored, _ = widget._repr_mimebundle_()
    assert np.array_equal(
        pixels(widget.image.value), pixels(base64.b64decode(stored["image/png"]))
    )


def test_a_control_that_moves_another_one_draws_one_picture():
    drawn = []

    def draw(least, height):
        drawn.append((least, height))
        return bar(height)

    least, height = ipywidgets.IntSlider(0, 0, 10), ipywidgets.IntSlider(1, 0, 10)
    least.observe(lambda change: height.set_trait("min", change["new"]), names="value")
    widget = PictureWidget(draw, {"least": least, "height": height})
    least.value = 5
    assert drawn == [(0, 1), (5, 5)]
    assert widget.values == {"least": 5, "height": 5}
    assert widget.image.value == bar(5).live_png()


def test_the_words_are_announced(widget):
    assert 'role="status"' in widget.words.value


def test_the_image_is_as_wide_as_on_the_page(widget):
    assert widget.image.layout.width == "200px"
    assert widget.image.layout.max_width == "100%"


def test_controls_stand_above_the_picture_and_words_below(widget):
    row, image, words = widget.children
    assert row.children == (widget.controls["height"],)
    assert (image, words) == (widget.image, widget.words)


def test_a_notebook_stores_the_picture_and_its_words(widget):
    widget.controls["height"].value = 4
    data, metadata = DisplayFormatter().format(widget)
    assert set(data) == {
        "application/vnd.jupyter.widget-view+json",
        "image/png",
        "text/plain",
    }
    assert base64.b64decode(data["image/png"]) == bar(4).png()
    assert data["text/plain"] == "A bar of height 4 & nothing else."
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == widget.model_id
    assert metadata["image/png"] == {"width": 200, "height": 200}


def test_an_error_while_drawing_is_said_under_the_picture(widget):
    widget.controls["height"].value = 3
    assert "ValueError: no bar &lt;3&gt; is high enough" in widget.words.value
    assert "height = 3" in widget.words.value
    assert 'role="alert"' in widget.words.value
    assert isinstance(widget.error, ValueError)


def test_after_an_error_the_last_picture_stays(widget):
    widget.controls["height"].value = 3
    assert widget.image.value == bar(1).live_png()


def test_an_error_goes_away_with_its_cause(widget):
    widget.controls["height"].value = 3
    widget.controls["height"].value = 5
    assert widget.error is None
    assert widget.image.value == bar(5).live_png()
    assert "ValueError" not in widget.words.value


def test_an_error_of_the_first_picture_is_raised():
    with pytest.raises(ValueError, match="high enough"):
        PictureWidget(bar, {"height": ipywidgets.IntSlider(3, 0, 10)})
