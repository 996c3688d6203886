"""Step through a summary: where the model looks, and where it has looked before."""

from __future__ import annotations

from collections.abc import Mapping

import ipywidgets

from ehr_course.errors import InputError
from ehr_course.plots.coverage_player import Look, draw_coverage
from ehr_course.plots.style import Picture
from ehr_course.widgets.static import PictureWidget

MILLISECONDS_A_STEP = 1500


def coverage_player(looks: Mapping[str, Look], *, step: int = 1) -> PictureWidget:
    """Choose a summary, and play it step by step.

    Args:
        looks: summaries by name, such as those of two models for one note.
        step: where it begins, from 1.

    Returns:
        A widget with the controls ``summary`` (one of the names) and ``step``, counted from 1. A
        summary that is shorter than the step shows its last one. A button plays the steps.

    Raises:
        InputError: if there are none, or the longest has no such step.
    """
    if not looks:
        raise InputError(
            "coverage_player", "looks", "the list is empty", "Give a summary or more."
        )
    last = max(len(look.written) for look in looks.values())
    if not 1 <= step <= last:
        raise InputError(
            "coverage_player", "step", f"there is no step {step}", f"Use 1 to {last}."
        )

    def draw(summary: str, step: int) -> Picture:
        look = looks[summary]
        return draw_coverage(look, min(step, len(look.written)) - 1)

    label = {"description_width": "initial"}
    names = list(looks)
    summary = ipywidgets.Dropdown(
        options=names,
        value=names[0],
        description="summary",
        layout=ipywidgets.Layout(width="max-content"),
        style=label,
    )
    slider = ipywidgets.IntSlider(
        value=step,
        min=1,
        max=last,
        description="step",
        # A picture takes a moment: draw where the slider stops, not on its way.
        continuous_update=False,
        style=label,
    )
    player = PictureWidget(draw, {"summary": summary, "step": slider})
    play = ipywidgets.Play(value=step, min=1, max=last, interval=MILLISECONDS_A_STEP)
    ipywidgets.jslink((play, "value"), (slider, "value"))
    row, *others = player.children
    row.children = (*row.children, play)
    player.children = (row, *others)
    return player
