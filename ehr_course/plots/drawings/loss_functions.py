"""The drawings of lesson 14: what each token costs, and what the costs are divided by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, to_hex

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, MONO, WARNING, Canvas
from ehr_course.plots.style import Picture

RAMP = "#ffffff", "#2d708e", "#440154"
"""From a loss of nothing to the largest one; darker in grey as well."""

PADDING = "#d9dce1"

MOST_TOKENS = 16
"""How many tokens of a record are drawn; the others are counted."""


def _is_code(token: str) -> bool:
    return not token.startswith("<")


# ---------------------------------------------------------------------- one batch, many means


def draw_means(losses: Any, scored: Any, means: Mapping[str, Any]) -> Picture:
    """Draw the loss of each place of a batch, and beside it several means of these losses.

    Args:
        losses: float (rows, length): of each place, 0 where it is not scored.
        scored: bool (rows, length).
        means: each mean by what was divided by; the last is the course's.
    """
    losses, scored = np.asarray(losses, dtype=float), np.asarray(scored, dtype=bool)
    values = {name: float(mean) for name, mean in means.items()}
    rows, length = losses.shape
    share = scored.mean()
    canvas = Canvas(
        3.4,
        f"One model, {style.count(rows, 'patient')}, {len(values)} losses: "
        f"{min(values.values()):.2f} to {max(values.values()):.2f}",
        f"Left, a grid of {rows} rows and {length} places, dark where the loss is high; "
        f"{share:.0%} of the places are scored, the others are padding. Right, bars: "
        + ", ".join(f"{name} {value:.3f}" for name, value in values.items())
        + ".",
    )
    colours = LinearSegmentedColormap.from_list("losses", RAMP).with_extremes(bad=PADDING)
    x, y, wide, high = 0.62, canvas.top + 0.3, 2.9, 2.0
    axes = canvas.plot(x, y, wide, high)
    largest = max(float(losses.max()), 1e-9)
    axes.imshow(
        np.ma.masked_where(~scored, losses), cmap=colours, vmin=0, vmax=largest, aspect="auto",
        interpolation="nearest",
    )  # fmt: skip
    axes.set_xlabel("place")
    axes.set_ylabel("patient")
    axes.grid(visible=False)
    canvas.label((x, y - 0.18), f"the loss of each place ({share:.0%} are scored)",
                 colour=style.INK)  # fmt: skip
    least, left = 0.0, x + wide + 0.9
    canvas.key(left - 0.3, y + high + 0.42, {PADDING: "padding"})
    fills = [to_hex(colours(share)) for share in np.linspace(0, 1, 6)]
    for i, fill in enumerate(fills):
        canvas.box(left + 0.92 + 0.26 * i, y + high + 0.35, 0.26, 0.14, fill=fill,
                   rounded=False, edge=style.FAINT)  # fmt: skip
    canvas.label((left + 0.86, y + high + 0.42), f"{least:g}", align="right")
    canvas.label((left + 0.98 + 0.26 * len(fills), y + high + 0.42), f"{largest:.1f} nats")
    unit = (canvas.width - left - 1.0) / max(values.values())
    canvas.label((left - 0.3, y - 0.18), "their mean, over", colour=style.INK)
    pitch = high / len(values)
    for i, (name, value) in enumerate(values.items()):
        row = y + 0.02 + pitch * i
        is_last = i == len(values) - 1
        canvas.label((left - 0.3, row + 0.09), name, colour=style.INK,
                     weight="bold" if is_last else "normal")  # fmt: skip
        bar = canvas.box(left - 0.3, row + 0.2, max(value * unit, 0.01), 0.2,
                         fill="code" if is_last else "trap", rounded=False)  # fmt: skip
        canvas.label((bar.right + 0.07, row + 0.3), f"{value:.3f}", colour=style.INK)
    return canvas.finish()


# ---------------------------------------------------------------------- the whole way


def draw_loss_path(model: Any, batch: Mapping[str, Any], losses: Any) -> Picture:
    """Draw the way from the weights to the loss and back, with the questions of the lesson.

    Args:
        model: a PromptBart; its weights are counted.
        batch: what collate makes.
        losses: float (batch, length): the loss of each place, 0 where it is not scored.
    """
    n_weights = sum(values.numel() for values in model.parameters())
    labels = np.asarray(batch["labels"])
    rows, length = labels.shape
    n_scored = int((labels >= 0).sum())
    vocab = model.get_input_embeddings().weight.shape[0]
    total = float(np.asarray(losses, dtype=float).sum())
    mean = total / n_scored
    questions = (
        "What does one token cost?",
        "What do you divide by?",
        "Is there a way back?",
        "What does each term weigh?",
    )
    canvas = Canvas(
        3.65,
        f"From {n_weights:,} weights to one number, and back",
        f"A path: {n_weights:,} weights give logits of shape {rows} by {length} by {vocab}, with "
        f"the labels {n_scored} losses, their sum {total:.0f} and the mean {mean:.3f}; with a "
        "weight it enters the total, beside other terms of the model. The gradient leads from "
        f"the total back to the weights. {len(questions)} numbers mark the lesson's questions.",
    )
    y, high = canvas.top + 0.92, 0.62
    wide = (1.05, 1.2, 1.2, 1.1, 0.95)
    gap = (canvas.width - 2 * MARGIN - sum(wide)) / (len(wide) - 1)
    texts = (
        f"model\n{n_weights:,}\nweights",
        f"logits\n{rows} × {length} × {vocab}",
        f"{n_scored} losses\nof {rows * length:,} places",
        f"{total:.0f} ÷ {n_scored}\n= {mean:.3f}",
        "total",
    )
    fills = ("encoder", "paper", "paper", "paper", "special")
    x, boxes = MARGIN, []
    for text, width, fill in zip(texts, wide, fills, strict=True):
        boxes.append(canvas.box(x, y, width, high, text, fill=fill, size=style.SMALL))
        x += width + gap
    for one, other in pairwise(boxes):
        canvas.arrow(one.side("right"), other.side("left"))
    model_box, _, cost, mean_box, total_box = boxes
    target = canvas.box(
        cost.x, canvas.top + 0.26, cost.width, 0.34, "labels", fill="code", size=style.SMALL
    )
    canvas.arrow(target.side("bottom"), cost.side("top"))
    others = ("age", "sex", "penalty")
    room = 0.62
    first = canvas.width - MARGIN - room * len(others) - 0.08 * (len(others) - 1)
    for i, name in enumerate(others):
        box = canvas.box(
            first + (room + 0.08) * i, canvas.top + 0.26, room, 0.34, name, size=style.SMALL
        )
        over = canvas.top + 0.06
        canvas.path([(model_box.middle[0], over), (box.middle[0], over), box.side("top")])
        end = total_box.side("top", at=0.2 + 0.3 * i)
        canvas.arrow(box.side("bottom"), end)
    canvas.path([model_box.side("top"), (model_box.middle[0], canvas.top + 0.06)], head=False)
    back = y + high + 0.36
    middle = (total_box.middle[0] + model_box.middle[0]) / 2
    canvas.path(
        [total_box.side("bottom"), (total_box.middle[0], back), (middle + 0.4, back)],
        colour=style.INK, dashed=True, thick=1.6, head=False,
    )  # fmt: skip
    canvas.path(
        [(middle - 0.7, back), (model_box.middle[0], back), model_box.side("bottom")],
        colour=style.INK, dashed=True, thick=1.6,
    )  # fmt: skip
    canvas.label((middle, back), "gradient", align="center", colour=style.INK, size=style.TEXT)
    places = (
        (cost.x + 0.02, cost.y + 0.01),
        (mean_box.x + 0.02, mean_box.y + 0.01),
        (middle - 0.52, back),
        (total_box.x + 0.02, total_box.bottom - 0.01),
    )
    for i, at in enumerate(places, start=1):
        _number(canvas, at, i)
    row, column = back + 0.42, 0
    starts = (MARGIN + 0.12, 3.7)
    for i, question in enumerate(questions, start=1):
        at = starts[column], row
        _number(canvas, at, i)
        canvas.label((at[0] + 0.2, at[1]), question, colour=style.INK, size=style.TEXT)
        column = (column + 1) % len(starts)
        row += 0.34 if not column else 0.0
    return canvas.finish()


def _number(canvas: Canvas, at: tuple[float, float], number: int) -> None:
    """A small disc with the number of a question."""
    size = 0.22
    canvas.box(
        at[0] - size / 2, at[1] - size / 2, size, size, f"{number}", fill="prompt",
        size=style.SMALL, weight="bold", edge=style.INK,
    )  # fmt: skip


# ---------------------------------------------------------------------- one record


def draw_token_losses(tokens: Sequence[str], losses: Any, read: Sequence[str]) -> Picture:
    """Draw what each token of a record costs, as bars over the tokens.

    Args:
        tokens: of one record, as the labels have them.
        losses: float (tokens,): the loss of each, in nats.
        read: what the encoder reads of this record, damaged or not.
    """
    costs = np.asarray(losses, dtype=float)
    is_code = np.array([not token.startswith("<") for token in tokens])
    blocks = SequenceMatcher(None, list(read), list(tokens), autojunk=False).get_matching_blocks()
    there = {block.b + i for block in blocks for i in range(block.size)}
    is_lost = is_code & np.array([i not in there for i in range(len(tokens))])
    n_lost, n_codes = int(is_lost.sum()), int(is_code.sum())
    who, these = ("lost code", is_lost) if n_lost else ("code", is_code)
    share = costs[these].sum() / max(costs.sum(), 1e-9)
    shown = min(len(tokens), MOST_TOKENS)
    canvas = Canvas(
        3.25,
        f"{style.count(int(these.sum()), who)} "
        f"{'carries' if these.sum() == 1 else 'carry'} {share:.0%} of this patient's loss",
        f"Bars over the {style.count(len(tokens), 'token')} of a record: "
        + ", ".join(f"{t} {c:.2f}" for t, c in zip(tokens[:shown], costs, strict=False))
        + f" nats. Of the {style.count(n_codes, 'code')}, {n_lost} "
        f"{'is' if n_lost == 1 else 'are'} lost on the way to the encoder, with "
        f"{costs[is_lost].sum():.1f} of {costs.sum():.1f} nats; the mean is {costs.mean():.2f}.",
        subtitle="Above each bar its loss in nats, under each token the probability that the "
        "model gave it.",
    )
    left = MARGIN + 0.55
    wide = min(0.62, (canvas.width - left - MARGIN - 0.42) / shown)
    base, high = canvas.top + 1.5, 1.2
    top = max(float(costs[:shown].max()), float(costs.mean()) * 1.2, 1e-9)
    end = left + wide * shown
    mean = base - high * costs.mean() / top
    for start, stop in _free(costs[:shown] / top * high, base - mean):
        at = left + wide * start, left + wide * stop + (0.05 if stop == shown else 0.0)
        canvas.arrow((at[0], mean), (at[1], mean), colour=style.INK, dashed=True, head=False)
    for i in range(shown):
        x = left + wide * i
        tall = max(high * costs[i] / top, 0.008)
        fill = "mask" if is_lost[i] else "code" if is_code[i] else "special"
        canvas.box(x + 0.05, base - tall, wide - 0.1, tall, fill=fill, rounded=False)
        canvas.label((x + wide / 2, base - tall - 0.09), f"{costs[i]:.2f}", align="center",
                     colour=style.INK)  # fmt: skip
        canvas.box(x + 0.02, base + 0.07, wide - 0.04, 0.28, _narrow(tokens[i], wide - 0.06),
                   fill=fill, size=style.SMALL, mono=True)  # fmt: skip
        canvas.label((x + wide / 2, base + 0.5), _percent(np.exp(-costs[i])), align="center")
    canvas.label((end + 0.1, mean), "mean", colour=style.INK)
    canvas.label((end + 0.1, mean + 0.16), f"{costs.mean():.2f}", colour=style.INK)
    canvas.label((left - 0.1, base - high / 2), "nats", align="right")
    canvas.label((left - 0.1, base + 0.21), "token", align="right")
    canvas.label((left - 0.1, base + 0.5), "given", align="right")
    if shown < len(tokens):
        canvas.label((end + 0.1, base + 0.21), f"+ {len(tokens) - shown}")
    canvas.key(left, base + 0.82, {
        "mask": "code that is missing here in the input", "code": "code that is there",
        "special": "marker",
    })  # fmt: skip
    return canvas.finish()


def _free(heights: np.ndarray, level: float) -> list[tuple[int, int]]:
    """The stretches of bars at which a line at this height crosses no number on a bar."""
    free = [i for i, height in enumerate(heights) if not height <= level <= height + 0.2]
    ends: list[tuple[int, int]] = []
    for i in free:
        if ends and ends[-1][1] == i:
            ends[-1] = ends[-1][0], i + 1
        else:
            ends.append((i, i + 1))
    return ends


def _narrow(token: str, room: float) -> str:
    """A token, cut to fit a box of this width."""
    if style.text_width(token, style.SMALL, MONO) <= room:
        return token
    while len(token) > 1 and style.text_width(token + "…", style.SMALL, MONO) > room:
        token = token[:-1]
    return token + "…"


def _percent(share: float) -> str:
    """A probability in few letters.

    >>> [_percent(share) for share in (0.0004, 0.034, 0.5, 0.998, 1.0)]
    ['<0.1%', '3.4%', '50%', '>99%', '100%']
    """
    least, most = 0.001, 0.99
    if share < least:
        return f"<{least:.1%}"
    if most < share < 0.9999:
        return f">{most:.0%}"
    return f"{share:.1%}" if share < 0.0995 else f"{share:.0%}"


# ---------------------------------------------------------------------- two parts of a batch


def draw_votes(parts: Mapping[str, Any]) -> Picture:
    """Draw how much each token of two parts of a batch counts, in one mean and in a mean of means.

    Args:
        parts: for each of two parts its losses, float (scored places,).
    """
    losses = {name: np.asarray(values, dtype=float) for name, values in parts.items()}
    counts = {name: len(values) for name, values in losses.items()}
    means = {name: values.mean() for name, values in losses.items()}
    total = sum(counts.values())
    right = np.concatenate(list(losses.values())).mean()
    wrong = float(np.mean(list(means.values())))
    (small, few), (large, many) = sorted(counts.items(), key=lambda item: item[1])
    votes = many / few
    ways = {
        "one mean": ({name: n / total for name, n in counts.items()}, right),
        "mean of means": ({name: 1 / len(counts) for name in counts}, wrong),
    }
    canvas = Canvas(
        3.1,
        f"In a mean of means, each token of the {small} part counts {votes:.1f} times as much",
        f"Two bars of equal length, cut into tokens. {small}: {few} tokens with the mean loss "
        f"{means[small]:.3f}; {large}: {many} tokens with {means[large]:.3f}. In one mean all "
        f"tokens are equally wide, and it is {right:.3f}. In the mean of means each part has half "
        f"of the bar, and it is {wrong:.3f}.",
        subtitle=f"{few} and {many} tokens. Each slice is one of them, as wide as its weight in "
        "the mean.",
    )
    left, length = 1.2, canvas.width - 1.2 - 1.05
    y = canvas.top + 0.42
    for i, (way, (shares, value)) in enumerate(ways.items()):
        x = left
        canvas.label((left - 0.12, y + 0.2), way, align="right", colour=style.INK)
        for name, share in shares.items():
            fill, n = ("trap" if name == small else "encoder"), counts[name]
            room = share * length
            canvas.box(x, y, room, 0.4, fill=fill, rounded=False)
            for place in range(1, n):
                at = x + room * place / n
                canvas.arrow((at, y), (at, y + 0.4), head=False, thick=0.5)
            words = f"{name}: {share:.0%}"
            if i:
                canvas.bracket(x, x + room, y + 0.44, words, colour=WARNING)
            else:
                canvas.bracket(x, x + room, y - 0.04, words, above=True, colour=style.INK)
            x += room
        canvas.label((x + 0.1, y + 0.2), f"loss {value:.3f}", weight="bold",
                     colour=WARNING if i else style.INK)  # fmt: skip
        y += 0.72
    canvas.label(
        (left, y + 0.32),
        "Means of the parts: "
        + " and ".join(f"{name} {mean:.3f}" for name, mean in means.items()),
        colour=style.INK,
    )
    return canvas.finish()
