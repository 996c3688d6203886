"""What the scores of two models show, and how often chance alone would show it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ehr_course.errors import InputError


def what_is_shown(
    model: Sequence[float] | np.ndarray,
    baseline: Sequence[float] | np.ndarray,
    better: str,
    interval: Sequence[float] | None = None,
) -> str:
    """Return what scores show: a difference only where no score of one lies among the other's.

    Args:
        model: one score a seed.
        baseline: as many, or a single one where nothing in it is random.
        better: "lower" or "higher".
        interval: low and high end of the model's mean less the baseline's. Where it is given,
            it has to lie on the same side of zero as the scores.

    Returns:
        "better" or "worse", of the model; or "not shown".

    >>> what_is_shown([0.02, 0.03], [0.05, 0.04], "lower")
    'better'
    >>> what_is_shown([0.02, 0.045], [0.05, 0.04], "lower")
    'not shown'
    >>> what_is_shown([0.02, 0.03], [0.05, 0.04], "lower", (-0.05, 0.01))
    'not shown'
    """
    below, above = max(model) < min(baseline), min(model) > max(baseline)
    if interval is not None:
        low, high = interval
        below, above = below and high < 0, above and low > 0
    if not below and not above:
        return "not shown"
    return "better" if below == (better == "lower") else "worse"


def imagined_studies(
    seeds: int, *, difference: float = 0.0, studies: int = 2_000, seed: int = 0
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Draw the scores of many studies of two models whose runs vary alike.

    Args:
        seeds: how many runs each model gets in a study, at least one.
        difference: how much higher the model's scores are on average, in spreads of its runs.
        studies: how many.
        seed: of the random numbers.

    Returns:
        For each study the scores of the model and of the baseline, each float64 (seeds,).

    Raises:
        InputError: if there are no seeds or no studies.

    >>> studies = imagined_studies(3)
    >>> shown = [what_is_shown(*study, "higher") for study in studies]
    >>> 0.07 < 1 - shown.count("not shown") / len(shown) < 0.13
    True
    """
    if seeds < 1 or studies < 1:
        raise InputError("imagined_studies", "seeds", "there is no run", "Use 1 or more of both.")
    scores = np.random.default_rng(seed).normal(size=(studies, 2, seeds))
    scores[:, 0] += difference
    return [(model, baseline) for model, baseline in scores]
