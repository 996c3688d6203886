"""The drawings of lesson 17 on the search: its step, the length penalty, and what ROUGE sees."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from ehr_course.generation.beam_search import length_penalty
from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, MONO, WARNING, Canvas
from ehr_course.plots.style import Picture


class Candidate(NamedTuple):
    """A whole summary that a search has to choose from.

    Attributes:
        log_prob: the logarithm of its probability.
        length: its tokens, </s> counted.
    """

    log_prob: float
    length: int


# ---------------------------------------------------------------------- the length penalty


def draw_length_penalty(
    shorter: Candidate,
    longer: Candidate,
    exact: Mapping[float, Sequence[float]],
    repeated: Mapping[float, Sequence[float]],
    by_greedy: Sequence[float],
) -> Picture:
    """Draw from which alpha the longer of two summaries wins, and what each alpha chooses.

    Args:
        shorter: a summary of a note.
        longer: another one of the same note, less probable.
        exact: for some alphas, the share of lists that are exactly right, for each of some models.
        repeated: for the same alphas and models, the share of the drugs that are repetitions.
        by_greedy: the share of lists that greedy search gets exactly right, for each model.
    """
    low, high = min(exact), max(exact)
    means = {alpha: float(np.mean(shares)) for alpha, shares in exact.items()}
    again = {alpha: float(np.mean(shares)) for alpha, shares in repeated.items()}
    best = max(means, key=lambda alpha: means[alpha])
    simple = float(np.mean(by_greedy))
    alphas = np.linspace(low, high, 301)
    lead = np.array([_score(longer, alpha) - _score(shorter, alpha) for alpha in alphas])
    ahead = alphas[lead > 0]
    wins = f"from alpha {ahead[0]:.2f} on" if len(ahead) else "at no alpha"
    n_models = len(exact[low])
    canvas = Canvas(
        3.2,
        f"Lists exact: {means[low]:.0%} with no penalty, {means[best]:.0%} at alpha {best:g}, "
        f"{simple:.0%} by greedy search",
        f"Left, two summaries of one list, of {shorter.length} and {longer.length} tokens: the "
        f"longer one wins {wins}. Right, means over {n_models} models, the share of lists exact: "
        + ", ".join(f"{share:.0%} at alpha {alpha:g}" for alpha, share in means.items())
        + "; of drugs repeated: "
        + ", ".join(f"{share:.0%} at {alpha:g}" for alpha, share in again.items())
        + f". Greedy search has {simple:.0%} exact.",
    )
    top, height, width = canvas.top + 0.28, 1.85, 2.85
    axes = canvas.plot(0.86, top, width - 0.18, height, f"one list: the longer one wins {wins}")
    axes.axhline(0, color=style.MUTED, lw=0.9)
    axes.plot(alphas, lead, color=style.INK, lw=1.8)
    axes.fill_between(alphas, 0, lead, where=lead > 0, color=FILLS["code"], alpha=0.35)
    words: dict[str, Any] = {"fontsize": style.SMALL, "color": style.INK, "va": "center"}
    if len(ahead):
        axes.axvline(ahead[0], color=style.INK, lw=0.9, ls=":")
        middle = (float(ahead[0]) + high) / 2
        axes.text(middle, float(lead.max()) / 3, "the longer one wins", ha="center", **words)
    if lead[0] < 0:
        end = float(ahead[0]) if len(ahead) else low
        axes.text(end + 0.1, float(lead[0]) / 2, "← the shorter one wins", ha="left", **words)
    axes.set_xlabel("alpha")
    axes.set_ylabel("longer one's score\nminus the shorter one's")
    right = canvas.plot(4.5, top, width, height, f"all lists, {n_models} models: what is chosen")
    looks: dict[str, tuple[Any, dict[str, Any]]] = {
        "exact": (exact, {"color": FILLS["code"], "marker": "o", "ls": "-"}),
        "drugs repeated": (repeated, {"color": WARNING, "marker": "s", "ls": "--"}),
    }
    for name, (shares, look) in looks.items():
        thin: dict[str, Any] = look | {"lw": 0.6, "marker": ""}
        for one in zip(*shares.values(), strict=True) if shares is exact else ():
            right.plot(list(shares), one, alpha=0.6, **thin)
        mean = means if shares is exact else again
        right.plot(list(shares), list(mean.values()), label=f"{name}, mean", lw=2.2, **look)
    right.axhline(simple, color=style.INK, lw=0.9, ls=":", label="exact, greedy")
    right.set_ylim(-0.04, 1.45)
    right.set_xlabel("alpha")
    right.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    right.legend(fontsize=style.SMALL, frameon=False, loc="upper left", ncols=2)
    right.set_yticks(np.linspace(0, 1, 5))
    return canvas.finish()


def _score(one: Candidate, alpha: float) -> float:
    return one.log_prob / length_penalty(one.length, alpha)


# ---------------------------------------------------------------------- one step


def draw_beam_step(
    hypotheses: Sequence[str], tokens: Sequence[str], log_probs: Tensor, scores: Tensor
) -> Picture:
    """Draw one step of a beam search for one note: every continuation, and those that are kept.

    Args:
        hypotheses: what each has written so far; four at most.
        tokens: the vocabulary; six at most.
        log_probs: float (hypotheses, tokens): of each next token of each hypothesis.
        scores: float (hypotheses,): the log-probability of each hypothesis so far.
    """
    beams = len(hypotheses)
    totals = (scores[:, None] + log_probs).double().numpy()
    order = np.argsort(-totals, axis=None, kind="stable")[:beams]
    kept = [divmod(int(place), len(tokens)) for place in order]
    children = [sum(parent == row for parent, _ in kept) for row in range(beams)]
    most = int(np.argmax(children))
    given_up = [name for name, some in zip(hypotheses, children, strict=True) if not some]
    after = [f"{hypotheses[row]} {tokens[column]}" for row, column in kept]
    fate = f", none “{given_up[0]}”" if given_up else ""
    canvas = Canvas(
        1.5 + 0.44 * beams,
        f"{children[most]} of the {beams} that are kept continue “{hypotheses[most]}”{fate}",
        f"{beams} hypotheses with {len(tokens)} possible next tokens each make {totals.size} "
        f"sums. The best {beams} are kept: "
        + "; ".join(f"{n} ({totals[k]:.2f})" for n, k in zip(after, kept, strict=True))
        + ".",
        subtitle=f"A cell: score so far + log-probability of the next token. Framed: the best "
        f"{beams} of all {totals.size}.",
    )
    y, high = canvas.top + 0.62, 0.42
    wide = 1.28
    x = MARGIN + wide + 0.3
    cell = min(0.86, 3.0 / len(tokens))
    canvas.label((MARGIN, y - 0.14), "score so far", colour=style.INK)
    canvas.label((x, y - 0.34), "next token", colour=style.INK)
    rows = [
        canvas.box(MARGIN, y + row * high, wide, high - 0.08, fill="encoder")
        for row in range(beams)
    ]
    for row, (box, name) in enumerate(zip(rows, hypotheses, strict=True)):
        canvas.label(
            (box.x + 0.07, box.middle[1]), _fitting(name, 0.72), mono=True, colour=style.INK
        )
        number = f"{float(scores[row]):.2f}"
        canvas.label((box.right - 0.07, box.middle[1]), number, align="right", colour=style.INK)
        canvas.arrow(box.side("right"), (x - 0.04, box.middle[1]))
    for column, token in enumerate(tokens):
        at = (x + (column + 0.5) * cell, y - 0.1)
        canvas.label(at, _fitting(token, cell - 0.06), align="center", mono=True, colour=style.INK)
    places = {}
    for row in range(beams):
        for column in range(len(tokens)):
            chosen = (row, column) in kept
            places[row, column] = canvas.box(
                x + column * cell + 0.03,
                y + row * high,
                cell - 0.06,
                high - 0.08,
                f"{totals[row, column]:.2f}",
                size=style.SMALL,
                weight="bold" if chosen else "normal",
                fill="decoder" if chosen else "quiet",
                edge=style.INK if chosen else style.FAINT,
            )
    after_x = x + len(tokens) * cell + 0.42
    canvas.label((after_x, y - 0.14), "kept, best first", colour=style.INK)
    for rank, (name, at) in enumerate(zip(after, kept, strict=True)):
        box = canvas.box(
            after_x, y + rank * high, style.WIDTH - MARGIN - after_x, high - 0.08, fill="decoder"
        )
        room = box.width - 0.6
        canvas.label(
            (box.x + 0.07, box.middle[1]), _fitting(name, room), mono=True, colour=style.INK
        )
        number = f"{totals[at]:.2f}"
        canvas.label((box.right - 0.07, box.middle[1]), number, align="right", colour=style.INK)
    return canvas.finish()


def _fitting(text: str, width: float) -> str:
    """A text in letters of equal width that is not wider than so many inches."""
    if style.text_width(text, style.SMALL, MONO) <= width:
        return text
    while len(text) > 1 and style.text_width(f"{text}…", style.SMALL, MONO) > width:
        text = text[:-1]
    return f"{text.rstrip()}…"


# ---------------------------------------------------------------------- ROUGE


def draw_rouge(
    reference: str, summaries: Mapping[str, str], scores: Mapping[str, Mapping[str, float]]
) -> Picture:
    """Draw which words of some summaries ROUGE-L counts, and the score of each.

    Args:
        reference: a text of at most 14 words.
        summaries: texts by name, about as long.
        scores: for each name, what ``rouge`` says of that summary alone.
    """
    rouge_l = {name: scores[name]["rougeL"] for name in summaries}
    lowest = min(rouge_l, key=lambda name: rouge_l[name])
    highest = max(rouge_l, key=lambda name: rouge_l[name])
    canvas = Canvas(
        1.35 + 0.62 * len(summaries),
        f"ROUGE-L: “{lowest}” {rouge_l[lowest]:.2f}, “{highest}” {rouge_l[highest]:.2f}",
        "Summaries of one patient, with the words marked that ROUGE-L counts. Reference: "
        f"{reference} "
        + " ".join(f"{name}: {text} {rouge_l[name]:.2f}." for name, text in summaries.items()),
    )
    y = canvas.top + 0.2
    canvas.label((MARGIN, y - 0.12), "reference", colour=style.INK, weight="bold")
    wanted = _words(reference)
    canvas.strip(MARGIN, y, wanted, fills="quiet", height=0.25)
    bar, room = 5.62, 1.28
    canvas.label((bar, y - 0.12), "ROUGE-L", colour=style.INK, weight="bold")
    canvas.key(bar, y + 0.13, {"encoder": "counted"})
    y += 0.58
    for name, text in summaries.items():
        words = _words(text)
        counted = _common(words, wanted)
        canvas.label((MARGIN, y - 0.12), name, colour=style.INK, weight="bold")
        fills = ["encoder" if place in counted else "paper" for place in range(len(words))]
        canvas.strip(MARGIN, y, words, fills=fills, height=0.25)
        share = rouge_l[name]
        canvas.box(bar, y + 0.03, max(room * share, 0.02), 0.19, fill="code", rounded=False)
        canvas.label((bar + room * share + 0.07, y + 0.125), f"{share:.2f}", colour=style.INK)
        y += 0.62
    return canvas.finish()


def _words(text: str) -> list[str]:
    """The words as ROUGE reads them: small letters and digits."""
    return re.findall(r"\w+", text.lower())


def _common(words: Sequence[str], other: Sequence[str]) -> set[int]:
    """The places of the words that belong to the longest common subsequence."""
    best: dict[tuple[int, int], tuple[int, ...]] = {}
    for i in range(len(words) + 1):
        for j in range(len(other) + 1):
            if i == 0 or j == 0:
                best[i, j] = ()
            elif words[i - 1] == other[j - 1]:
                best[i, j] = (*best[i - 1, j - 1], i - 1)
            else:
                best[i, j] = max(best[i - 1, j], best[i, j - 1], key=len)
    return set(best[len(words), len(other)])
