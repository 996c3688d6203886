"""Choose a weight of the heads and two measures, and see what a sweep of trainings says."""

from __future__ import annotations

import ipywidgets
import polars as pl

from ehr_course.plots.auxiliary_weights import MEASURES, Setting, draw_weights, runs_of
from ehr_course.plots.style import Picture
from ehr_course.widgets.static import PictureWidget


def weight_explorer(sweep: pl.DataFrame) -> PictureWidget:
    """Mark a setting, and choose what is drawn against the weights.

    Args:
        sweep: one row a training, as ``ehr_course.plots.auxiliary_weights.runs_of`` takes it.

    Returns:
        A widget with the controls ``weights``, a setting of the sweep (the middle one at first),
        and ``above`` and ``below``, the measures of the two halves.

    Raises:
        InputError: if a column is missing, or a setting has fewer than two seeds.
    """
    settings = [one.setting for one in runs_of(sweep, "impossible")]

    def draw(weights: Setting, above: str, below: str) -> Picture:
        return draw_weights(sweep, above=above, below=below, setting=weights)

    label = {"description_width": "initial"}
    known = [(how.name, column) for column, how in MEASURES.items() if column in sweep.columns]
    weights = ipywidgets.SelectionSlider(
        options=[(setting.label, setting) for setting in settings],
        value=settings[len(settings) // 2],
        description="weights",
        # A picture takes a moment: draw where the slider stops, not on its way.
        continuous_update=False,
        style=label,
    )
    above, below = (
        ipywidgets.Dropdown(
            options=known,
            value=column,
            description=where,
            layout=ipywidgets.Layout(width="max-content"),
            style=label,
        )
        for where, column in (("above", "impossible"), ("below", "divergence"))
    )
    return PictureWidget(draw, {"weights": weights, "above": above, "below": below})
