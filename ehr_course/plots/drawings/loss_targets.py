"""The drawings of lesson 14 about label smoothing: the target, and what models make of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, WARNING, Canvas
from ehr_course.plots.style import Picture

LONGEST = 6
"""How many letters of a token are drawn."""


def draw_targets(tokens: Sequence[str], right: int, smoothing: float) -> Picture:
    """Draw a hard and a smoothed target, and what each asks of the right token.

    Args:
        tokens: the whole vocabulary, a few tokens.
        right: which of them is the right one.
        smoothing: the share that is spread, above 0 and below 1.
    """
    vocab = len(tokens)
    hard = np.zeros(vocab)
    hard[right] = 1.0
    smooth = (1 - smoothing) * hard + smoothing / vocab
    best = smooth[right]
    entropy = float(-(smooth * np.log(smooth)).sum())
    p = np.concatenate([np.linspace(0.4, 0.99, 119), 1 - np.geomspace(0.01, 1e-6, 120)])
    others = (1 - p) / (vocab - 1)
    losses = {
        "hard": -np.log(p),
        "smoothed": -best * np.log(p) - (1 - best) * np.log(others),
    }
    canvas = Canvas(
        3.5,
        f"The smoothed target is met at a probability of {best:.2f}, the hard one never",
        f"Left, two targets over {vocab} tokens: hard, all of it on {tokens[right]}; smoothed, "
        f"{best:.2f} on {tokens[right]} and {smoothing / vocab:.2f} on each other token. Right, "
        f"two curves of the loss by the probability of the right token: the hard one falls all "
        f"the way to {hard[right]:g}, the smoothed one is lowest at {best:.2f}, with "
        f"{entropy:.2f} nats.",
        subtitle=f"A vocabulary of {style.count(vocab, 'token')}; the right one is "
        f"{tokens[right]}, the smoothing {smoothing:g}.",
    )
    x, y, wide, high = MARGIN + 0.1, canvas.top + 0.34, 0.56, 0.62
    for row, (name, target) in enumerate((("hard target", hard), ("smoothed target", smooth))):
        base = y + 1.16 * row + high
        canvas.label((x, base - high - 0.2), name, colour=style.INK, weight="bold")
        for i, (token, share) in enumerate(zip(tokens, target, strict=True)):
            fill = "code" if i == right else ("trap" if share else "quiet")
            tall = max(high * share * 0.86, 0.006)
            at = x + wide * i
            canvas.box(at + 0.06, base - tall, wide - 0.12, tall, fill=fill, rounded=False)
            canvas.label((at + wide / 2, base - tall - 0.08), f"{share:.2g}", align="center",
                         colour=style.INK)  # fmt: skip
            word = token if len(token) <= LONGEST else token[: LONGEST - 1] + "…"
            canvas.label((at + wide / 2, base + 0.11), word, align="center", mono=True)
    left = x + wide * vocab + 0.85
    axes = canvas.plot(left, y, canvas.width - left - 0.25, 1.86)
    canvas.label((left - 0.45, y - 0.2), "the loss of this place, in nats", colour=style.INK)
    axes.plot(p, losses["hard"], color=style.INK, linewidth=1.8)
    axes.plot(p, losses["smoothed"], color=WARNING, linewidth=1.8, linestyle=(0, (5, 1.5)))
    axes.plot([best], [entropy], "o", color=WARNING, markersize=6)
    axes.annotate(
        f"lowest: {best:.2f}", (best, entropy), (best - 0.02, entropy + 0.42),
        size=style.SMALL, color=WARNING, ha="right",
        arrowprops={"arrowstyle": "-", "color": WARNING, "linewidth": 0.8},
    )  # fmt: skip
    # Each name stands where the two curves are far apart: below the one, above the other.
    at = 0.5
    axes.text(at, -np.log(at) - 0.2, "hard", size=style.SMALL, color=style.INK, ha="right")
    value = -best * np.log(at) - (1 - best) * np.log((1 - at) / (vocab - 1))
    axes.text(at + 0.02, value + 0.1, "smoothed", size=style.SMALL, color=WARNING)
    axes.set_xlim(p[0], 1.01)
    axes.set_ylim(0, 1.5 * float(losses["smoothed"][0]))
    axes.set_xlabel("probability of the right token")
    return canvas.finish()


# ---------------------------------------------------------------------- trained models


def draw_smoothing(judged: Mapping[tuple[int, float], Any]) -> Picture:
    """Draw what smoothing changes for models that learned from many and from few patients.

    Args:
        judged: by number of patients and smoothing, 0 and another for each number: an object with
            `loss`, `sure` and `right` on new patients.
    """
    sizes = sorted({n for n, _ in judged}, reverse=True)
    saved = {
        n: next(one.loss for (m, share), one in judged.items() if m == n and not share)
        - next(one.loss for (m, share), one in judged.items() if m == n and share)
        for n in sizes
    }
    canvas = Canvas(
        1.5 + 0.98 * len(sizes),
        "Smoothing "
        + ", ".join(
            f"{'saves' if gain > 0 else 'costs'} {abs(gain):.2f} nats with {n:,}"
            for n, gain in saved.items()
        )
        + " patients",
        "; ".join(
            f"{n:,} patients, smoothing {share:g}: loss {one.loss:.2f} on new patients, its "
            f"favourite token has {one.sure:.0%} and is right {one.right:.0%} of the time"
            for (n, share), one in judged.items()
        )
        + ".",
        subtitle="All judged on the same new patients, by the loss without smoothing.",
    )
    names, bars, dots = MARGIN, 1.95, 4.75
    y = canvas.top + 0.42
    wide = 1.3
    unit = 2.0 / max(one.loss for one in judged.values())
    canvas.label((bars, y - 0.2), "loss on new patients, in nats", colour=style.INK)
    canvas.label((dots, y - 0.2), "the token it thinks most likely:", colour=style.INK)
    end = y + 0.98 * len(sizes) - 0.22
    for share in (0.0, 0.5, 1.0):
        at = dots + wide * share
        canvas.arrow((at, y), (at, end), head=False, thick=0.5, colour=style.FAINT)
        canvas.label((at, end + 0.12), f"{share:.0%}", align="center")
    for n in sizes:
        canvas.label((names, y + 0.12), f"{n:,} patients", colour=style.INK, weight="bold")
        for share in sorted(share for m, share in judged if m == n):
            one = judged[n, share]
            row = y + 0.37 * bool(share)
            what = f"smoothing {share:g}" if share else "plain"
            canvas.label((bars - 0.1, row + 0.12), what, align="right")
            fill = "trap" if share else "encoder"
            bar = canvas.box(bars, row, max(one.loss * unit, 0.01), 0.24, fill=fill,
                             rounded=False, hatched=bool(share))  # fmt: skip
            canvas.label((bar.right + 0.07, row + 0.12), f"{one.loss:.2f}", colour=style.INK)
            first, last = (dots + wide * at for at in sorted((one.right, one.sure)))
            canvas.box(first, row + 0.1, last - first, 0.04, fill=style.NO_CHAPTER,
                       edge=style.NO_CHAPTER, rounded=False)  # fmt: skip
            for value, dot in ((one.right, "paper"), (one.sure, "mask")):
                at = dots + wide * value
                canvas.box(at - 0.05, row + 0.07, 0.1, 0.1, fill=dot, edge=style.INK)
            words = f"{one.right:.0%} right, {one.sure:.0%} sure"
            canvas.label((dots + wide + 0.12, row + 0.12), words, colour=style.INK)
        y += 0.98
    key = end + 0.36
    for x, dot, words in ((dots, "paper", "how often right"), (dots + 1.3, "mask", "how sure")):
        canvas.box(x - 0.05, key - 0.05, 0.1, 0.1, fill=dot, edge=style.INK)
        canvas.label((x + 0.13, key), words, colour=style.INK)
    return canvas.finish()
