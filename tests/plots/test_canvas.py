"""The drawing kit: what it draws can be read, and what cannot be read is found."""

from __future__ import annotations

from itertools import combinations

import pytest

from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, WARNING, Box, Canvas, shades
from ehr_course.plots.overlaps import label_problems


def canvas(height: float = 2.4) -> Canvas:
    return Canvas(height, "A title that states the finding", "A drawing made by a test.")


# ---------------------------------------------------------------------- what is hard to read


def test_a_clear_drawing_has_no_problem():
    drawing = canvas(3.0)
    boxes = drawing.strip(
        MARGIN, 0.8, ["<BOS>", "428.0", "<EOS>"], fills=["special", "code", "special"]
    )
    drawing.bracket(boxes[0].x, boxes[-1].right, boxes[0].bottom + 0.04, "three places")
    drawing.grid(1.0, 2.0, [["code", "quiet"]], rows=["a"], columns=["x", "y"], texts=[["1", "0"]])
    drawing.key(3.0, 2.2, {"code": "a code", "quiet": "padding"})
    assert label_problems(drawing.finish()) == []


def test_labels_that_overlap_are_found():
    drawing = canvas()
    drawing.label((1.0, 1.0), "one label")
    drawing.label((1.1, 1.03), "another")
    assert label_problems(drawing.finish()) == ["'one label' overlaps 'another'"]


def test_a_label_that_leaves_its_box_is_found():
    drawing = canvas()
    drawing.box(1.0, 1.0, 0.4, 0.3, "much too long for it")
    assert label_problems(drawing.finish()) == ["'much too long for it' leaves its box"]


def test_a_label_that_leaves_the_picture_is_found():
    drawing = canvas()
    drawing.label((style.WIDTH - 0.2, 1.0), "cut off at the edge")
    assert label_problems(drawing.finish()) == ["'cut off at the edge' leaves the picture"]


def test_small_letters_are_found():
    drawing = canvas()
    drawing.label((1.0, 1.0), "fine print", size=6)
    assert label_problems(drawing.finish()) == ["'fine print' has letters of 6 points"]


@pytest.mark.parametrize("bend", [0.0, 0.3])
def test_an_arrow_through_a_label_is_found(bend):
    drawing = canvas()
    # A bowed line passes at half of its bend, as a share of its length, beside the straight one.
    drawing.label((3.0, 1.2 + bend * 2.0), "in the way", align="center")
    drawing.arrow((1.0, 1.2), (5.0, 1.2), bend=bend)
    assert label_problems(drawing.finish()) == ["an arrow crosses 'in the way'"]


@pytest.mark.parametrize("bend", [0.0, 0.2, -0.2])
def test_the_words_of_an_arrow_stand_on_its_line(bend):
    drawing = canvas()
    drawing.arrow((1.0, 1.2), (4.0, 1.9), "keys", bend=bend)
    picture = drawing.finish()
    assert label_problems(picture) == []
    (words,) = [text for text in picture.axes[0].texts if text.get_text() == "keys"]
    words.drawing_on_line = False
    assert label_problems(picture) == ["an arrow crosses 'keys'"]


def test_labels_of_a_small_plot_are_looked_at_too():
    drawing = canvas(3.0)
    axes = drawing.plot(1.0, 1.0, 3.0, 1.2, "A small plot")
    axes.plot([0, 1], [0, 1])
    axes.set_xlabel("years")
    drawing.label((2.3, 2.52), "over the axis title")
    assert label_problems(drawing.finish()) == ["'over the axis title' overlaps 'years'"]


def test_a_strict_build_refuses_what_is_hard_to_read(monkeypatch):
    monkeypatch.setenv(style.STRICT, "1")
    drawing = canvas()
    drawing.box(1.0, 1.0, 0.4, 0.3, "much too long for it")
    picture = drawing.finish()
    with pytest.raises(ValueError, match="much too long for it' leaves its box"):
        picture._repr_mimebundle_()


def test_without_it_the_picture_is_shown(monkeypatch):
    monkeypatch.delenv(style.STRICT, raising=False)
    drawing = canvas()
    drawing.box(1.0, 1.0, 0.4, 0.3, "much too long for it")
    shown, _ = drawing.finish()._repr_mimebundle_()
    assert shown["text/plain"] == "A drawing made by a test."


# ---------------------------------------------------------------------- colours


@pytest.mark.parametrize("fill", FILLS)
def test_letters_on_a_fill_can_be_read(fill):
    assert style.contrast(style.ink_on(FILLS[fill]), FILLS[fill]) >= 4.5


def test_the_colour_of_warnings_can_be_read_on_paper():
    assert style.contrast(WARNING, style.PAPER) >= 4.5


@pytest.mark.parametrize(
    ("one", "other"), list(combinations(["quiet", "special", "code", "mask"], 2)), ids="-".join
)
def test_the_kinds_of_tokens_differ_in_grey(one, other):
    assert style.contrast(FILLS[one], FILLS[other]) >= 1.5


def test_shades_run_from_paper_to_dark():
    ((none, some, most),) = shades([[0.0, 0.5, 1.0]])
    assert none == style.PAPER
    assert style.contrast(most, none) > style.contrast(some, none) > 1.5


# ---------------------------------------------------------------------- places


def test_a_box_knows_its_edges():
    box = Box(1.0, 2.0, 4.0, 1.0)
    assert (box.right, box.bottom, box.middle) == (5.0, 3.0, (3.0, 2.5))
    assert box.side("top", 0.25) == (2.0, 2.0)
    assert box.side("right") == (5.0, 2.5)


def test_a_strip_is_as_long_as_its_tokens():
    drawing = canvas()
    short, long = drawing.strip(0.2, 1.0, ["<v>", "99999999"])
    assert long.width > short.width
    assert long.x == pytest.approx(short.right + 0.05)


def test_a_grid_returns_its_cells():
    drawing = canvas()
    cells = drawing.grid(1.0, 1.0, [["code", "mask"], ["quiet", "paper"]], cell=(0.4, 0.2))
    assert cells[1][1] == Box(1.4, 1.2, 0.4, 0.2)
