"""Move the weights of a loss, and see what each of its terms contributes."""

from __future__ import annotations

from typing import Any

import ipywidgets
from torch import Tensor

from ehr_course.batches.collate import Batch
from ehr_course.evaluation.loss_terms import contributions, measure_terms
from ehr_course.plots.loss_terms import draw_loss_terms
from ehr_course.plots.style import Picture
from ehr_course.widgets.static import PictureWidget

WEIGHTS = (0.0, 0.001, 0.003, 0.01, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 3.0, 10.0)
"""What a weight can be set to: those that are in use, and more on either side."""

SMOOTHING = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)


def loss_terms_explorer(
    model: Any,
    batch: Batch,
    never: Tensor,
    *,
    age_weight: float = 0.001,
    sex_weight: float = 0.001,
    co_occurrence_weight: float = 0.05,
) -> PictureWidget:
    """Choose the weights of the age, sex and co-occurrence terms, and the label smoothing.

    The batch is measured once; the controls weight what was measured.

    Args:
        model: a PromptBart with an age head and a sex head.
        batch: what collate makes.
        never: bool (vocabulary, vocabulary), as ``never_together`` gives it.
        age_weight, sex_weight, co_occurrence_weight: where it opens, each one of WEIGHTS.

    Returns:
        A widget with the controls ``age_weight``, ``sex_weight``, ``co_occurrence_weight`` and
        ``label_smoothing``.

    Raises:
        InputError: see measure_terms.
    """
    measured = measure_terms(model, batch, never)

    def draw(**settings: float) -> Picture:
        return draw_loss_terms(contributions(measured, **settings))

    return PictureWidget(
        draw,
        {
            "age_weight": _slider("weight of age", WEIGHTS, age_weight),
            "sex_weight": _slider("weight of sex", WEIGHTS, sex_weight),
            "co_occurrence_weight": _slider(
                "weight of co-occurrence", WEIGHTS, co_occurrence_weight
            ),
            "label_smoothing": _slider("label smoothing", SMOOTHING, 0.0),
        },
        in_the_book={
            "age_weight": [0.001, 3.0],
            "sex_weight": [0.001, 3.0],
            "co_occurrence_weight": [0.05],
            "label_smoothing": [],
        },
    )


def _slider(
    description: str, options: tuple[float, ...], value: float
) -> ipywidgets.SelectionSlider:
    return ipywidgets.SelectionSlider(
        options=[(f"{option:g}", option) for option in options],
        value=value,
        description=description,
        # A picture takes a moment: draw where the slider stops, not on its way.
        continuous_update=False,
        style={"description_width": "initial"},
    )
