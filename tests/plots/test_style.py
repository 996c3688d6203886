"""The colours, the PNG bytes and the words that every picture has."""

import base64
import struct
from itertools import combinations

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from IPython.core.formatters import DisplayFormatter

from ehr_course import icd9
from ehr_course.plots import style
from ehr_course.plots.style import Picture


@pytest.fixture
def picture():
    made = Picture(3, 2, "A line that rises from 0 to 1.")
    made.add_subplot().plot([0, 1])
    return made


def chunks(png):
    """The names of a PNG file's chunks."""
    names = []
    place = 8
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        names.append(png[place + 4 : place + 8].decode("ascii"))
        place += length + 12
    return names


def test_the_same_picture_gives_the_same_bytes(picture):
    assert picture.png() == picture.png()


def test_the_file_holds_no_date_and_no_version(picture):
    assert set(chunks(picture.png())) == {"IHDR", "pHYs", "IDAT", "IEND"}


def test_the_file_has_two_pixels_for_each_on_the_page(picture):
    width, height = struct.unpack(">II", picture.png()[16:24])
    assert (width, height) == (600, 400)
    assert picture.page_size == (300, 200)


def test_a_users_settings_do_not_change_the_picture():
    def draw():
        with style.course_style():
            made = Picture(3, 2, "")
            made.add_subplot(title="Rising").plot([0, 1])
        return made.png()

    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "black", "lines.linewidth": 9}):
        changed = draw()
    assert changed == draw()


def test_the_style_does_not_leak():
    before = dict(matplotlib.rcParams)
    with style.course_style():
        pass
    assert dict(matplotlib.rcParams) == before


def test_a_notebook_shows_the_picture_and_its_words(picture):
    data, metadata = DisplayFormatter().format(picture)
    assert base64.b64decode(data["image/png"]) == picture.png()
    assert data["text/plain"] == "A line that rises from 0 to 1."
    assert metadata["image/png"] == {"width": 300, "height": 200}


def test_pyplot_does_not_know_the_picture(picture):
    assert picture not in map(plt.figure, plt.get_fignums())


# ---------------------------------------------------------------------- chapters


def test_every_chapter_has_a_name():
    assert len(style.CHAPTER_NAMES) == len(icd9.chapters) == 19


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("0389", "Infections"),
        ("4280", "Circulatory"),
        ("5849", "Genitourinary"),
        ("650", "Pregnancy, childbirth"),
        ("V3001", "Health status (V)"),
        ("E8497", "External cause (E)"),
        ("I5023", "No ICD-9 chapter"),
        ("000", "No ICD-9 chapter"),
    ],
)
def test_the_chapter_of_a_code(code, name):
    assert style.chapter_name(style.chapter_of(code)) == name


ALL_CHAPTERS = [*range(1, 20), None]


def test_every_chapter_has_its_own_colour():
    assert len({style.chapter_colour(number) for number in ALL_CHAPTERS}) == 20


@pytest.mark.parametrize("number", ALL_CHAPTERS)
def test_text_on_a_chapters_colour_can_be_read(number):
    colour = style.chapter_colour(number)
    assert style.contrast(style.ink_on(colour), colour) >= 4.5


@pytest.mark.parametrize("ink", [style.INK, style.MUTED])
def test_text_on_paper_can_be_read(ink):
    assert style.contrast(ink, style.PAPER) >= 4.5


@pytest.mark.parametrize(
    ("one", "other"), [*combinations(["4280", "486", "5789", "5849", "25000"], 2)]
)
def test_common_chapters_differ_in_greyscale(one, other):
    def grey(code):
        rgb = matplotlib.colors.to_rgb(style.chapter_colour(style.chapter_of(code)))
        return 255 * np.dot(rgb, (0.299, 0.587, 0.114))

    assert abs(grey(one) - grey(other)) > 10


def test_text_width_is_what_the_renderer_measures(drawn):
    with style.course_style():
        made = Picture(6, 1, "")
        text = made.text(0, 0.5, "Pregnancy, childbirth", size=12, weight="bold")
        measured = drawn(made).extent(text).width / made.dpi
    width = style.text_width("Pregnancy, childbirth", 12, weight="bold")
    assert width == pytest.approx(measured, rel=0.05)
