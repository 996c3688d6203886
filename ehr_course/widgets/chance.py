"""Choose how many seeds two models get, and see how often chance alone tells them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import ipywidgets
import numpy as np

from ehr_course.errors import InputError
from ehr_course.evaluation.measure import what_is_shown
from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, Canvas
from ehr_course.plots.style import Picture, count
from ehr_course.widgets.static import PictureWidget, fine_slider, slider

FEWEST, MOST = 2, 10
"""How many seeds the slider reaches."""

STUDIES = 2_000


def imagined_studies(
    seeds: int, *, difference: float = 0.0, seed: int = 0
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Draw the scores of 2,000 studies of two models whose runs vary alike.

    Args:
        seeds: how many runs each model gets in a study.
        difference: how much higher the model's scores are on average, in standard deviations
            of its runs.

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
        A widget with the controls ``seeds``, 2 to 10, and ``difference``, 0 to 4 standard
            deviations.

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
        truth = "equal models"
        if difference:
            truth = f"model better by {difference:g} standard deviations"
        return draw_chance(studies, findings, truth=truth)

    difference = fine_slider("true difference, in standard deviations", 0.0, 4.0, 0.5)
    number = slider("seeds", seeds, FEWEST, MOST)
    for control in (number, difference):
        control.layout = ipywidgets.Layout(width="460px", max_width="100%")
    return PictureWidget(draw, {"seeds": number, "difference": difference})


# ---------------------------------------------------------------------- the picture

_SHOWN = 12
"""So many studies are drawn."""

_KINDS = {"worse": "trap", "not shown": "quiet", "better": "special"}


def draw_chance(
    studies: Sequence[tuple[np.ndarray, np.ndarray]], findings: Sequence[str], *, truth: str
) -> Picture:
    """Draw some studies of two models, and how often many studies end in which finding.

    Args:
        studies: the scores of the model and those of the baseline, of each study.
        findings: of each study "better", "worse" or "not shown".
        truth: what the two models are, in words.
    """
    n, runs = len(studies), count(len(studies[0][0]), "seed")
    shares = {kind: Counter(findings)[kind] / n for kind in _KINDS}
    canvas = Canvas(
        3.5,
        f"{truth[0].upper()}{truth[1:]}: {1 - shares['not shown']:.1%} of the studies report a "
        "difference",
        f"{truth}, {runs} each. Of {n:,} studies "
        + ", ".join(f"{share:.1%} say {kind}" for kind, share in shares.items())
        + ".",
        subtitle=f"{runs} for each model. Left: some studies, a row each. Right: the findings of "
        f"{n:,}",
    )
    top, high = canvas.top + 0.3, 2.0
    axes = canvas.plot(MARGIN + 0.1, top, 4.0, high)
    canvas.label((MARGIN + 0.1, top - 0.14), "● model   ○ baseline", colour=style.INK)
    look: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 5}
    look["markeredgecolor"] = FILLS["code"]
    shown = list(zip(studies, findings, strict=True))[:_SHOWN]
    for row, ((model, baseline), found) in enumerate(shown):
        if found != "not shown":
            axes.axhspan(row - 0.5, row + 0.5, color=FILLS[_KINDS[found]], linewidth=0)
        axes.plot(baseline, [row + 0.12] * len(baseline), markerfacecolor="w", **look)
        axes.plot(model, [row - 0.12] * len(model), markerfacecolor=FILLS["code"], **look)
    axes.set(ylim=(_SHOWN - 0.5, -0.5), xticks=[], yticks=[], xlabel="score, higher is better")
    axes.spines["left"].set_visible(False)

    y = top
    for kind, share in shares.items():
        bar = canvas.box(5.35, y, 0.5, max(share * high, 0.004), fill=_KINDS[kind], rounded=False)
        at = _beside(kind, shares, top, high)
        canvas.label((5.95, at), f"{share:.1%} {kind}", colour=style.INK)
        y = bar.bottom
    return canvas.finish()


def _beside(kind: str, shares: dict[str, float], top: float, high: float) -> float:
    """Where the label of a part stands: in its middle, and a line away from its neighbours."""
    worse, _, better = shares.values()
    first = min(top + worse * high / 2, top + high - 0.5)
    last = max(top + high - better * high / 2, top + 0.5)
    middle = (top + worse * high + top + high - better * high) / 2
    between = min(max(middle, first + 0.22), last - 0.22)
    return {"worse": first, "not shown": between, "better": last}[kind]
