"""The fast PNG of a picture has the pixels of the stored one."""

import io

import numpy as np
import pytest
from matplotlib.backends.backend_agg import RendererAgg
from PIL import Image

from ehr_course.plots import live, style
from ehr_course.plots.style import Picture


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def written(text, *, x=0.3, height=2.0, **how):
    with style.course_style():
        picture = Picture(3, height, "A word on a line.")
        axes = picture.add_axes((0.2, 0.2, 0.7, 0.7))
        axes.plot([0, 3], [1, 2], color="#31688e")
        axes.text(x, 1.3, text, **how)
        axes.set_xlabel("weeks")
    return picture


@pytest.fixture(autouse=True)
def nothing_remembered():
    for known in (live._sizes, live._lines, live._drawn):
        known.clear()


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"rotation": 90},
        {"rotation": 30},
        {"ha": "center", "va": "center_baseline", "weight": "bold", "color": "#b3400e"},
        {"size": style.SMALL, "family": "DejaVu Sans Mono"},
        {"antialiased": False},
    ],
)
def test_the_pixels_are_those_of_the_stored_picture(how):
    stored = pixels(written("428.0 heart", **how).png())
    for _ in range(2):  # drawn afresh, then remembered
        assert np.array_equal(pixels(written("428.0 heart", **how).live_png()), stored)


@pytest.mark.parametrize("x", [0.3, 0.301, 0.3017, 1.2])
@pytest.mark.parametrize("height", [2.0, 2.003, 2.37])
def test_a_remembered_text_may_stand_anywhere(x, height, same_pixels):
    written("428.0").live_png()
    elsewhere = written("428.0", x=x, height=height)
    assert same_pixels(pixels(elsewhere.live_png()), pixels(elsewhere.png()))


def test_a_formula_is_drawn_too():
    picture = written("$p_{gen}$")
    assert np.array_equal(pixels(picture.live_png()), pixels(picture.png()))


def test_a_text_that_was_drawn_before_is_not_drawn_again(monkeypatch):
    before = written("428.0").live_png()

    def fail(*_, **__):
        raise AssertionError("drawn again")

    monkeypatch.setattr(RendererAgg, "draw_text", fail)
    assert written("428.0").live_png() == before


def test_no_more_texts_are_remembered_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(live, "MOST_REMEMBERED", 20)
    for number in range(30):
        written(f"{number}").live_png()
    assert 0 < len(live._drawn) <= 20
    assert 0 < len(live._sizes) <= 20


def test_the_picture_keeps_its_size_on_the_page():
    picture = written("428.0")
    stored = picture.png()
    picture.live_png()
    assert picture.dpi == style.PIXELS_PER_INCH
    assert picture.png() == stored


def test_encoded_pixels_are_read_again_as_they_were():
    rng = np.random.default_rng(0)
    some = rng.integers(0, 256, (7, 5, 4), dtype=np.uint8)
    assert np.array_equal(pixels(live.encode(some)), some[:, :, :3])
