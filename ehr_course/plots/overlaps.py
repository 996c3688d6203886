"""Finds what is hard to read in a drawing: labels that overlap, are cut off, or leave their box.

It asks the renderer where each label is, so it sees what a reader sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.transforms import Bbox, BboxBase

from ehr_course.plots import style
from ehr_course.plots.style import Picture

if TYPE_CHECKING:
    from ehr_course.plots.canvas import Box

_SLACK = 1.0
"""By how many pixels labels may touch, at 100 to the inch: their boxes exceed their ink."""


def label_problems(picture: Picture) -> list[str]:
    """Say what is hard to read in a picture; an empty list means nothing.

    Found are: two labels that overlap, a label that leaves the picture or the box it belongs to, a
    label that an arrow crosses, and letters smaller than 8 points.

    Args:
        picture: any picture of the course; what boxes its labels belong to is known where a Canvas
            drew it.
    """
    picture.settle()
    with style.course_style():
        FigureCanvasAgg(picture).draw()
    labels = _shown_labels(picture)
    places = [_place(label) for label in labels]
    page = picture.bbox
    problems = []
    for label, place in zip(labels, places, strict=True):
        name = _named(label)
        points = float(label.get_fontsize())
        if points < style.SMALL:
            problems.append(f"{name} has letters of {points:g} points")
        if not _holds(page, place):
            problems.append(f"{name} leaves the picture")
        box = getattr(label, "drawing_box", None)
        if box is not None and not _holds(_on_page(label, box), place):
            problems.append(f"{name} leaves its box")
    for (one, where), (other, there) in combinations(zip(labels, places, strict=True), 2):
        if _overlap(where, there):
            problems.append(f"{_named(one)} overlaps {_named(other)}")
    for arrow in picture.findobj(FancyArrowPatch):
        for label, place in zip(labels, places, strict=True):
            if not getattr(label, "drawing_on_line", False) and _crosses(arrow, place):
                problems.append(f"an arrow crosses {_named(label)}")
    return problems


def require_clear_labels(picture: Picture) -> None:
    """Refuse a picture that is hard to read.

    Raises:
        ValueError: naming every problem that `label_problems` finds.
    """
    problems = label_problems(picture)
    if problems:
        raise ValueError("this drawing is hard to read: " + "; ".join(problems))


def _shown_labels(picture: Picture) -> list[Text]:
    """The texts that a reader sees: matplotlib also keeps labels of ticks outside the limits."""
    unseen = {label for axes in picture.axes for label in _unseen(axes)}
    return [
        text
        for text in picture.findobj(Text)
        if text.get_text().strip() and text.get_visible() and text not in unseen
    ]


def _unseen(axes: Axes) -> Iterator[Text]:
    for axis in (axes.xaxis, axes.yaxis):
        whole = not (axes.get_visible() and axes.axison and axis.get_visible())
        low, high = sorted(axis.get_view_interval())
        slack = (high - low) * 1e-9
        if whole:
            yield axis.label
            yield axis.offsetText
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if whole or not low - slack <= tick.get_loc() <= high + slack:
                yield from (tick.label1, tick.label2)


def _place(label: Text) -> Bbox:
    # Without the paper that may lie behind a label: it is meant to cover a line.
    # Only the private name can be given back what was there.
    patch = label.get_bbox_patch()
    label._bbox_patch = None  # type: ignore[attr-defined]
    try:
        return label.get_window_extent()
    finally:
        label._bbox_patch = patch  # type: ignore[attr-defined]


def _on_page(label: Text, box: Box) -> Bbox:
    assert label.axes is not None  # as a Canvas wrote the label into its axes
    corners = [(box.x, box.y), (box.right, box.bottom)]
    (x0, y0), (x1, y1) = label.axes.transData.transform(corners)
    return Bbox([[min(x0, x1), min(y0, y1)], [max(x0, x1), max(y0, y1)]])


def _holds(outer: BboxBase, inner: BboxBase) -> bool:
    return (
        inner.x0 >= outer.x0 - _SLACK
        and inner.x1 <= outer.x1 + _SLACK
        and inner.y0 >= outer.y0 - _SLACK
        and inner.y1 <= outer.y1 + _SLACK
    )


def _overlap(one: Bbox, other: Bbox) -> bool:
    across = min(one.x1, other.x1) - max(one.x0, other.x0)
    up = min(one.y1, other.y1) - max(one.y0, other.y0)
    return across > _SLACK and up > 2 * _SLACK


def _crosses(arrow: FancyArrowPatch, place: Bbox) -> bool:
    inner = Bbox.from_extents(
        place.x0 + _SLACK, place.y0 + 2 * _SLACK, place.x1 - _SLACK, place.y1 - 2 * _SLACK
    )
    if inner.width <= 0 or inner.height <= 0:
        return False
    path = arrow.get_transform().transform_path(arrow.get_path())
    # Piece by piece: between the line of an arrow and its head nothing is drawn.
    pieces = path.to_polygons(closed_only=False)
    return any(Path(piece).intersects_bbox(inner, filled=False) for piece in pieces)


def _named(label: Text) -> str:
    return repr(" ".join(label.get_text().split()))
