"""Choose how many seeds two models get, and see how often chance alone tells them apart."""

from __future__ import annotations

import ipywidgets
import numpy as np

from ehr_course.errors import InputError
from ehr_course.evaluation.measure import what_is_shown
from ehr_course.plots.drawings.chance import draw_chance
from ehr_course.plots.style import Picture
from ehr_course.widgets.static import PictureWidget

FEWEST, MOST = 2, 10
"""How many seeds the slider reaches."""

STUDIES = 2_000


def imagined_studies(
    seeds: int, *, difference: float = 0.0, seed: int = 0
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Draw the scores of 2,000 studies of two models whose runs vary alike.

    Args:
        seeds: how many runs each model gets in a study.
        difference: how much higher the model's scores are on average, in spreads of its runs.

    Returns:
        the scores of model and baseline in each study, each float64 (seeds,).
    """
    if seeds < 1:
        raise InputError("imagined_studies", "seeds", "there is no run", "Use 1 or more.")
    scores = np.random.default_rng(seed).normal(size=(STUDIES, 2, seeds))
    scores[:, 0] += difference
    return [(model, baseline) for model, baseline in scores]


def chance_explorer(*, seeds: int = 3, seed: int = 0) -> PictureWidget:
    """Choose the number of seeds and the true difference, and see what studies would find.

    Args:
        seeds: of each model, at first.
        seed: of the imagined scores.

    Returns:
        A widget with the controls ``seeds``, 2 to 10, and ``difference``, 0 to 4 spreads.

    Raises:
        InputError: if the slider does not reach the number of seeds.
    """
    if not FEWEST <= seeds <= MOST:
        raise InputError(
            "chance_explorer", "seeds", f"{seeds} is out of range", f"Use {FEWEST} to {MOST}."
        )

    def draw(seeds: int, difference: float) -> Picture:
        studies = imagined_studies(seeds, difference=difference, seed=seed)
        findings = [what_is_shown(*study, "higher") for study in studies]
        truth = f"model better by {difference:g} spreads" if difference else "equal models"
        scores = [(model.tolist(), baseline.tolist()) for model, baseline in studies]
        return draw_chance(scores, findings, truth=truth)

    look = {
        # A picture takes a moment: draw where the slider stops, not on its way.
        "continuous_update": False,
        "layout": ipywidgets.Layout(width="360px", max_width="100%"),
        "style": {"description_width": "initial"},
    }
    return PictureWidget(
        draw,
        {
            "seeds": ipywidgets.IntSlider(
                value=seeds, min=FEWEST, max=MOST, description="seeds", **look
            ),
            "difference": ipywidgets.FloatSlider(
                value=0, min=0, max=4, step=0.5, description="true difference, in spreads", **look
            ),
        },
    )
