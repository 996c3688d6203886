"""Choose a weight of the heads and two measures, and see what a sweep of trainings says."""

from __future__ import annotations

import ipywidgets
import polars as pl

from ehr_course.plots.auxiliary_weights import MEASURES, Setting, draw_weights, runs_of
from ehr_course.plots.style import Picture
from ehr_course.widgets.static import PictureWidget


def weight_explorer(
    sweep: pl.DataFrame, *, below: str = "divergence", weights: str = ""
) -> PictureWidget:
    """Mark a setting, and choose what is drawn against the weights.

    Args:
        sweep: one row a training, as ``ehr_course.plots.auxiliary_weights.runs_of`` takes it.
        below: the measure of the lower half at first, a name of MEASURES.
        weights: the label of the setting that is marked at first; the middle one without it.

    Returns:
        A widget with the controls ``weights``, a setting of the sweep, ``above`` and ``below``,
        the measures of the two halves.

    Raises:
        InputError: if a column is missing, or a setting has fewer than two seeds.
    """
    settings = [one.setting for one in runs_of(sweep, "impossible")]
    by_label = {setting.label: setting for setting in settings}
    chosen = by_label.get(weights, settings[len(settings) // 2])

    def draw(weights: Setting, above: str, below: str) -> Picture:
        return draw_weights(sweep, above=above, below=below, setting=weights)

    label = {"description_width": "initial"}
    known = [(how.name, column) for column, how in MEASURES.items() if column in sweep.columns]
    slider = ipywidgets.SelectionSlider(
        options=[(setting.label, setting) for setting in settings],
        value=chosen,
        description="weights",
        # A picture takes a moment: draw where the slider stops, not on its way.
        continuous_update=False,
        style=label,
    )
    upper, lower = (
        ipywidgets.Dropdown(
            options=known,
            value=column,
            description=where,
            layout=ipywidgets.Layout(width="max-content"),
            style=label,
        )
        for where, column in (("above", "impossible"), ("below", below))
    )
    offered = [c for _, c in known if c in ("divergence", "loss_repair", "age_accuracy")]
    return PictureWidget(
        draw,
        {"weights": slider, "above": upper, "below": lower},
        in_the_book={"above": [], "below": offered},
    )
