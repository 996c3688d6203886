"""Coloured cells have the pixels that matplotlib's imshow gives them."""

import io

import matplotlib
import numpy as np
import pytest
from matplotlib.colors import PowerNorm
from matplotlib.image import AxesImage
from PIL import Image

from ehr_course.plots import style
from ehr_course.plots.cells import draw_cells
from ehr_course.plots.style import Picture


def pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB"))


def with_cells(values, how, *, left=0.1, width=0.83):
    with style.course_style():
        picture = Picture(4, 3, "")
        axes = picture.add_axes((left, 0.2, width, 0.71))
        if how == "cells":
            image = draw_cells(axes, values, cmap="viridis", norm=PowerNorm(0.5, 0, 1))
        else:
            look = {"cmap": "viridis", "norm": PowerNorm(0.5, 0, 1)}
            image = axes.imshow(values, aspect="auto", interpolation="nearest", **look)
    return picture, axes, image


@pytest.mark.parametrize("shape", [(1, 1), (2, 4), (3, 7), (24, 60), (31, 40), (71, 113)])
@pytest.mark.parametrize("place", [(0.1, 0.83), (0.1037, 0.8011), (0.125, 0.75)])
def test_the_pixels_are_those_of_imshow(shape, place, same_pixels):
    values = np.random.default_rng(0).random(shape)
    left, width = place
    ours, theirs = (
        pixels(with_cells(values, how, left=left, width=width)[0].png())
        for how in ("cells", "imshow")
    )
    assert same_pixels(ours, theirs)


@pytest.mark.skipif(
    matplotlib.__version_info__ < (3, 11), reason="matplotlib before 3.11 rounds in another way"
)
def test_where_a_border_cuts_pixels_in_halves_matplotlibs_last_column_alone_differs():
    values = np.random.default_rng(0).random((32, 40))  # 426 lines of pixels: 13 and 5/16 a row
    ours, theirs = (pixels(with_cells(values, how)[0].png()) for how in ("cells", "imshow"))
    last = np.flatnonzero((ours != theirs).any(axis=(0, 2)))
    assert len(last) <= 1
    assert (ours != theirs).any(axis=2).sum() <= 2


def test_the_limits_are_those_of_imshow():
    values = np.random.default_rng(0).random((3, 5))
    (_, ours, _), (_, theirs, _) = (with_cells(values, how) for how in ("cells", "imshow"))
    assert ours.get_xlim() == theirs.get_xlim()
    assert ours.get_ylim() == theirs.get_ylim()


def test_the_image_holds_the_numbers():
    values = np.random.default_rng(0).random((3, 5))
    _, axes, image = with_cells(values, "cells")
    assert axes.findobj(AxesImage) == [image]
    assert np.array_equal(image.get_array(), values)


def test_the_ends_of_the_colours_can_be_given():
    image = draw_cells(Picture(2, 2, "").add_axes((0, 0, 1, 1)), np.eye(2), vmin=-1, vmax=3)
    assert image.get_clim() == (-1, 3)
