"""How far apart two distributions are: the Jensen-Shannon divergence, and the distance of it.

The divergence is the mean of the relative entropies of both distributions to their average; its
square root is a metric, the Jensen-Shannon *distance* (Lin 1991; Endres and Schindelin 2003).
With base 2 both run from 0, equal, to 1, nothing in common. With base e the divergence ends at
0.693 and the distance at 0.833. A number without its name and its base says little.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from ehr_course.errors import InputError


def js_divergence(p: ArrayLike, q: ArrayLike, *, base: float = 2) -> np.ndarray | float:
    """The Jensen-Shannon divergence of two distributions.

    Args:
        p: float (k,) or (..., k): shares or counts, 0 or more, of the same k things as q; each
            row is divided by its sum.
        q: the same for the other distribution.
        base: of the logarithm: 2 gives bits, ``math.e`` nats.

    Returns:
        A number, or float64 (...,); ``nan`` where a distribution has nothing in it.

    Raises:
        InputError: if the two have other shapes, a share is negative or not finite, or the base
            is not above 1.

    >>> js_divergence([1, 1, 0, 0], [0, 0, 3, 1])
    1.0
    >>> round(js_divergence([1, 1], [1, 0]), 4)
    0.3113
    """
    p, q = _shares(p, q)
    if not base > 1:
        raise InputError(
            "js_divergence", "base", f"{base!r} is no base", "Use 2 for bits, math.e for nats."
        )
    middle = (p + q) / 2
    nats = (rel_entr(p, middle) + rel_entr(q, middle)).sum(axis=-1) / 2
    divergence = np.maximum(nats, 0) / np.log(base)  # rounding can fall just below 0
    return float(divergence) if divergence.ndim == 0 else divergence


def js_distance(p: ArrayLike, q: ArrayLike, *, base: float = 2) -> np.ndarray | float:
    """The Jensen-Shannon distance of two distributions: the square root of the divergence.

    It is what ``scipy.spatial.distance.jensenshannon`` returns, whose base is e unless said
    otherwise. Arguments, errors and result are as in js_divergence; the unit is the square root
    of a bit, or of a nat.

    >>> round(js_distance([1, 1], [1, 0]), 4)
    0.5579
    """
    distance = np.sqrt(js_divergence(p, q, base=base))
    return float(distance) if distance.ndim == 0 else distance


def _shares(p: ArrayLike, q: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    p, q = (np.asarray(each, dtype=np.float64) for each in (p, q))
    if p.shape != q.shape or p.ndim == 0:
        raise InputError(
            "js_divergence",
            "",
            f"p has shape {p.shape}, q {q.shape}",
            "Give the shares of the same things, in the same order.",
        )
    for name, each in (("p", p), ("q", q)):
        if not (np.isfinite(each).all() and (each >= 0).all()):
            raise InputError(
                "js_divergence",
                name,
                "a share is negative or not finite",
                "Give shares or counts, 0 or more.",
            )
    with np.errstate(invalid="ignore"):
        return p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)
