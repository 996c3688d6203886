"""The picture of a copy head: its cells, its frames, its words."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.patches import Rectangle

from ehr_course.evaluation.attention import CopiedVisit
from ehr_course.plots.copying import describe_copying, draw_copying

SHOWN = CopiedVisit(
    codes=("4280", "486", "25000"),
    earlier=("25000", "4280", "4019", "25000"),
    visit_of=(1, 1, 1, 2),
    shares=np.array([[0.1, 0.6, 0.0, 0.0], [0.1, 0.0, 0.1, 0.0], [0.3, 0.0, 0.0, 0.6]]),
)


def test_the_words_say_how_much_is_copied() -> None:
    assert describe_copying(SHOWN) == (
        "Grid of the 3 codes of visit 3 against the 4 codes of the visits before: 2 that the "
        "patient had before, copied with a probability of 0.80 on average; 1 that are new, "
        "copied with a probability of 0.20 on average."
    )


def test_cells_bars_and_frames_are_read_off_the_numbers() -> None:
    picture = draw_copying(SHOWN)
    grid, beside = picture.axes
    (mesh,) = grid.findobj(QuadMesh)
    np.testing.assert_allclose(np.ravel(mesh.get_array()), SHOWN.shares.ravel())
    frames = {p.get_xy() for p in grid.patches if isinstance(p, Rectangle) and not p.get_fill()}
    assert frames == {(1, 0), (0, 2), (3, 2)}
    assert [bar.get_width() for bar in beside.patches] == pytest.approx([0.7, 0.2, 0.9])
    assert picture.alternative_text == describe_copying(SHOWN)


@pytest.mark.parametrize("n", [1, 8, 45])
def test_nothing_is_cut_off_and_no_label_lies_on_another(drawn, n: int) -> None:
    shown = CopiedVisit(
        codes=("4280", "V1005", "99592"),
        earlier=("25000", "E8497")[: n % 2 + 1] + ("4280",) * (n - n % 2 - 1),
        visit_of=(1,) * n,
        shares=np.full((3, n), 0.9 / n),
    )
    result = drawn(draw_copying(shown))
    assert result.cut_off() == []
    assert result.overlapping() == []
