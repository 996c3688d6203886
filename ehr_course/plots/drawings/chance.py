"""What chance does in a study: two models, some seeds each, and what their scores seem to show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, Canvas
from ehr_course.plots.drawings.own_study import DARK, Scores, capital
from ehr_course.plots.style import Picture, count


def draw_chance(
    studies: Sequence[tuple[Scores, Scores]], findings: Sequence[str], *, truth: str
) -> Picture:
    """Draw some studies of two models, and how often many studies end in which finding.

    Args:
        studies: the scores of the model and those of the baseline, of each study.
        findings: of each study "better", "worse" or "not shown".
        truth: what the two models are, in words.
    """
    shown = Counter(findings)
    n, runs = len(studies), len(studies[0][0])
    kinds = {"worse": "trap", "not shown": "quiet", "better": "special"}
    shares = {kind: shown[kind] / n for kind in kinds}
    canvas = Canvas(
        3.5,
        f"{capital(truth)}: {1 - shares['not shown']:.1%} of the studies report a difference",
        f"{truth}, {count(runs, 'seed')} each. Of {n:,} studies "
        + ", ".join(f"{share:.1%} say {kind}" for kind, share in shares.items())
        + ".",
        subtitle=f"{count(runs, 'seed')} for each model. Left: some studies, a row each. "
        f"Right: the findings of {n:,}",
    )
    some = 12
    y, high = canvas.top + 0.3, 2.0
    axes = canvas.plot(MARGIN + 0.1, y, 4.0, high)
    canvas.label((MARGIN + 0.1, y - 0.14), "● model   ○ baseline", colour=style.INK)
    for row, ((model, baseline), found) in enumerate(zip(studies[:some], findings, strict=False)):
        if found != "not shown":
            axes.axhspan(row - 0.5, row + 0.5, color=FILLS[kinds[found]], linewidth=0)
        look: dict[str, Any] = {"linestyle": "none", "markeredgecolor": DARK, "markersize": 5}
        axes.plot(baseline, [row + 0.12] * len(baseline), "o", markerfacecolor="w", **look)
        axes.plot(model, [row - 0.12] * len(model), "o", markerfacecolor=DARK, **look)
    axes.set_ylim(some - 0.5, -0.5)
    axes.set_yticks([])
    axes.set_xticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("score, higher is better")
    x = 5.35
    for kind, share in shares.items():
        part = max(share * high, 0.004)
        bar = canvas.box(x, y, 0.5, part, fill=kinds[kind], rounded=False)
        canvas.label(
            (x + 0.6, _place(bar.middle[1], kind, shares, canvas.top + 0.3, high)),
            f"{share:.1%} {kind}",
            colour=style.INK,
        )
        y += part
    return canvas.finish()


def _place(middle: float, kind: str, shares: Mapping[str, float], top: float, high: float):
    """Where the label of a part stands: in its middle, and a line away from the labels beside."""
    kinds = list(shares)
    if kind == kinds[0]:
        return min(middle, top + high - 0.5)
    if kind == kinds[-1]:
        return max(middle, top + 0.5)
    first, last = (shares[one] * high for one in (kinds[0], kinds[-1]))
    above = min(top + first / 2, top + high - 0.5)
    below = max(top + high - last / 2, top + 0.5)
    return min(max(middle, above + 0.22), below - 0.22)
