"""The picture of what each term of a loss contributes to the number and to the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from ehr_course.plots import style
from ehr_course.plots.style import Picture


@dataclass(frozen=True)
class Contribution:
    """What one term contributes.

    Attributes:
        amount: its weight times its mean: what it adds to the total.
        of_total: that as a share of the total.
        of_gradient: how far its weighted gradient goes along the total gradient, as a share; the
            shares sum to 1, and one below 0 pulls the other way.
    """

    label: str
    amount: float
    of_total: float
    of_gradient: float


# ---------------------------------------------------------------------- words


def loss_terms_title(terms: Sequence[Contribution]) -> str:
    """Which term the loss and the gradient mostly are: a title."""
    largest = max(terms, key=lambda term: term.of_total)
    strongest = max(terms, key=lambda term: term.of_gradient)
    if largest is strongest:
        return (
            f"{_capital(largest.label)}: {_percent(largest.of_total)} of the loss, "
            f"{_percent(largest.of_gradient)} of its gradient"
        )
    return f"{_capital(largest.label)} is most of the loss, {strongest.label} most of its gradient"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def describe_loss_terms(terms: Sequence[Contribution]) -> str:
    """Say in words what :func:`draw_loss_terms` shows."""
    total = sum(term.amount for term in terms)
    parts = [
        f"{term.label} {term.amount:.4f} ({_percent(term.of_total)} of it, and "
        f"{_percent(term.of_gradient)} of the gradient)"
        for term in terms
    ]
    return f"The loss is {total:.3f}. Its terms: {'; '.join(parts)}."


def _percent(share: float) -> str:
    """A share in few digits.

    >>> [_percent(share) for share in (0.5, 0.0213, 0.00004, 0.0, -0.02, 0.9996, 1.0, 1.03)]
    ['50%', '2.1%', 'under 0.1%', '0%', '-2.0%', 'over 99.9%', '100%', '103%']
    """
    if 1e-9 < abs(share) < 0.001:
        return "under 0.1%"
    if 0.99 < share < 1 - 1e-9:
        return f"{share:.1%}" if share < 0.999 else "over 99.9%"
    return f"{abs(share):.0%}" if abs(share) <= 1e-9 or share >= 0.0995 else f"{share:.1%}"


# ---------------------------------------------------------------------- the picture

_HEIGHT = 2.75
_BAR = 0.62


def draw_loss_terms(terms: Sequence[Contribution]) -> Picture:
    """Draw what each term contributes: shares of the loss on the left, of the gradient right.

    Args:
        terms: as contributions gives them.
    """
    with style.course_style():
        picture = Picture(style.WIDTH, _HEIGHT, describe_loss_terms(terms))
        picture.text(
            0.012, 0.93, loss_terms_title(terms), size=style.TITLE, weight="bold", va="center"
        )
        picture.text(
            0.012,
            0.835,
            "one batch, its loss and the gradient on the weights that all terms share",
            size=style.SMALL,
            color=style.MUTED,
            va="center",
        )
        loss = picture.add_axes((0.16, 0.2, 0.34, 0.55))
        gradient = picture.add_axes((0.6, 0.2, 0.34, 0.55))
        labels = [f"{_percent(term.of_total)}: {term.amount:.4f}" for term in terms]
        _bars(loss, [term.of_total for term in terms], labels)
        loss.set_yticks(range(len(terms)), [term.label for term in terms], size=style.TEXT)
        loss.set_xlabel("share of the loss: weight x mean", size=style.SMALL)
        labels = [_percent(term.of_gradient) for term in terms]
        _bars(gradient, [term.of_gradient for term in terms], labels)
        gradient.set_yticks([])
        gradient.set_xlabel("share of the gradient", size=style.SMALL)
    return picture


def _bars(axes: Axes, shares: Sequence[float], labels: Sequence[str]) -> None:
    """Horizontal bars from 0, the first on top, each with its label behind it."""
    lowest, highest = min(0.0, *shares), max(1.0, *shares)
    for place, (share, label) in enumerate(zip(shares, labels, strict=True)):
        axes.barh(place, share, height=_BAR, color=style.chapter_colour(7))
        inside = share > 0.55 * highest
        axes.text(
            share - 0.02 * highest if inside else max(share, 0.0) + 0.02 * highest,
            place,
            label,
            size=style.TEXT,
            color=style.ink_on(style.chapter_colour(7)) if inside else style.INK,
            ha="right" if inside else "left",
            va="center_baseline",
        )
    axes.axvline(0, color=style.MUTED, linewidth=0.8)
    ticks = np.asarray(MaxNLocator(6).tick_values(lowest, highest)).round(9)
    axes.set_xticks([tick for tick in ticks if lowest <= tick <= highest])
    axes.set_xlim(lowest, highest)
    axes.set_ylim(len(shares) - 0.5, -0.5)
    axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    axes.tick_params(axis="x", labelsize=style.SMALL)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
