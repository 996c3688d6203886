"""The drawings of lesson 18: where methods train, longer keys, a table taken apart, a network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.colors
import numpy as np

from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, WARNING, Box, Canvas
from ehr_course.plots.style import Picture

LONGEST = 8
"""How many letters of a token are drawn."""

BLUES = matplotlib.colors.LinearSegmentedColormap.from_list("blues", [style.PAPER, FILLS["code"]])

TONES = ("encoder", "prompt", "code", "trap", "decoder", "special")
"""The fills of the first tokens of a prefix; each cell also holds the token's number."""


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def _fill(token: str) -> str:
    if token in ("age", "sex"):
        return "prompt"
    return "special" if token.startswith("<") else "code"


def _blues(values: np.ndarray) -> list[list[str]]:
    """Colours for shares, (rows, columns): white for nothing, the blue of codes for all."""
    return [
        [matplotlib.colors.to_hex(BLUES(value)) for value in row] for row in np.clip(values, 0, 1)
    ]


# ---------------------------------------------------------------------- where the numbers stand


def draw_places(model: Any, trained: Mapping[str, int], *, n_prefix: int) -> Picture:
    """Draw BART, and where each method puts the numbers that it trains.

    Args:
        model: a PromptBart; its layers and its width are read off it.
        trained: how many numbers the methods "prompt", "prefix", "output bias" and "full" train.
        n_prefix: how many tokens the prefix has; it stands in the decoder's self-attention.
    """
    d_model = model.config.d_model
    encoder, decoder = model.model.encoder.layers, model.model.decoder.layers
    vectors = trained["prompt"] // d_model // 2
    counts = {name: f"{number:,}" for name, number in trained.items()}
    canvas = Canvas(
        4.25,
        "Three methods add a few numbers; full training changes the model itself",
        f"BART with {len(encoder)} encoder and {len(decoder)} decoder layers. A prompt is "
        f"{vectors} vectors before the input of each half, {counts['prompt']} numbers. A prefix "
        f"is {n_prefix} keys and values in the self-attention of each decoder layer, "
        f"{counts['prefix']} numbers. An output bias is {counts['output bias']} numbers added to "
        f"the scores. Full training changes the model itself, {counts['full']} numbers.",
        subtitle="Yellow: what a method adds and trains, while the model stays frozen. The "
        "encoder is given no codes here.",
    )
    prompt = f"{vectors} vectors"
    tops = {"encoder": canvas.top + 0.38, "decoder": canvas.top + 1.74}
    x, wide = 2.72, 3.3
    boxes: dict[str, list[Box]] = {}
    for side, layers in (("encoder", encoder), ("decoder", decoder)):
        y = tops[side]
        canvas.label((MARGIN, y + 0.02), f"into the {side}", colour=style.INK)
        own = canvas.box(MARGIN, y + 0.14, 0.98, 0.34, prompt, fill="prompt", size=style.SMALL)
        ages = canvas.box(own.right + 0.04, y + 0.14, 0.62, 0.34, "age, sex", size=style.SMALL)
        empty = side == "encoder"
        tokens = canvas.box(
            ages.right + 0.04, y + 0.14, 0.56, 0.34, "empty" if empty else "tokens",
            fill="quiet" if empty else "paper", size=style.SMALL,
        )  # fmt: skip
        names = ["self-\nattention", "feed-\nforward"]
        if side == "decoder":
            names.insert(1, "cross-\nattention")
        frame = Box(x, y - 0.06, wide, 0.78)
        canvas.frame(frame, f"each of {style.count(len(layers), f'{side} layer')}")
        canvas.arrow(tokens.side("right"), (frame.x, tokens.middle[1]))
        step = (wide - 0.14) / len(names)
        boxes[side] = [
            canvas.box(
                x + 0.1 + i * step, y + 0.06, step - 0.12, 0.5, name, fill=side, size=style.SMALL
            )
            for i, name in enumerate(names)
        ]
        for left, right in zip(boxes[side], boxes[side][1:], strict=False):
            canvas.arrow(left.side("right"), right.side("left"))
        canvas.arrow((frame.x, tokens.middle[1]), boxes[side][0].side("left"), head=False)
    cross = boxes["decoder"][1]
    end, level = x + wide + 0.18, tops["decoder"] - 0.4
    middle = tops["encoder"] + 0.31
    canvas.path(
        [boxes["encoder"][-1].side("right"), (end, middle), (end, level),
         (cross.middle[0], level), cross.side("top")], colour=style.INK,
    )  # fmt: skip
    attention = boxes["decoder"][0]
    prefix = canvas.box(
        attention.x, attention.bottom + 0.3, 1.5, 0.42, f"{n_prefix} keys,\n{n_prefix} values",
        fill="prompt", size=style.SMALL,
    )  # fmt: skip
    prefix_up = attention.middle[0]
    canvas.arrow((prefix_up, prefix.y), (prefix_up, attention.bottom), colour=style.INK)
    last = boxes["decoder"][-1]
    scores = canvas.box(6.36, last.y, 1.1, 0.5, "scores of\nall tokens", size=style.SMALL,
                        fill="decoder")  # fmt: skip
    canvas.arrow(last.side("right"), scores.side("left"))
    bias = canvas.box(
        scores.x, prefix.y, scores.width, 0.42, "one for each\ntoken", fill="prompt",
        size=style.SMALL,
    )  # fmt: skip
    canvas.arrow(bias.side("top"), scores.side("bottom"), colour=style.INK)
    for at, name, where in (
        ((MARGIN, prefix.y - 0.16), "prompt", "before both halves"),
        ((prefix.right + 0.1, prefix.y + 0.13), "prefix", "all decoder layers"),
        ((end + 0.2, tops["encoder"] + 0.2), "full", "the model itself"),
        ((scores.x - 0.2, bias.bottom + 0.16), "output bias", "added to the scores"),
    ):
        text = f"{name}: {counts[name]}"
        canvas.label(at, text, size=style.TEXT, weight="bold", colour=style.INK)
        canvas.label((at[0], at[1] + 0.19), where)
    return canvas.finish()


# ---------------------------------------------------------------------- attention, longer


def draw_longer_keys(
    names: Sequence[str], n_prefix: int, tensors: Mapping[str, Any], mask: Any
) -> Picture:
    """Draw queries against the keys of a prefix and of the tokens, with mask and weights.

    Args:
        names: of the tokens.
        n_prefix: how many tokens the prefix has.
        tensors: "q" (tokens, d), "keys" and "values" (n_prefix + tokens, d), "weights" (tokens,
            n_prefix + tokens), and "result" (tokens, d).
        mask: bool (tokens, n_prefix + tokens), True where a query may look.
    """
    grids = {name: np.asarray(values, dtype=float) for name, values in tensors.items()}
    seen = np.asarray(mask, dtype=bool)
    weights, n = grids["weights"], len(names)
    columns = [f"p{i}" for i in range(n_prefix)] + [_short(name) for name in names]
    share = weights[:, :n_prefix].sum(axis=1)
    canvas = Canvas(
        4.1,
        f"The prefix takes {share.max():.0%} of what {_short(names[share.argmax()])} reads, "
        f"and {share.min():.0%} of what {_short(names[share.argmin()])} reads",
        f"{n} queries against {len(columns)} keys, of which the first {n_prefix} are the "
        "prefix's. The share of attention that the prefix gets is "
        + ", ".join(f"{name} {one:.0%}" for name, one in zip(names, share, strict=True))
        + f". The mask hides {int((~seen).sum())} of the {seen.size} places, none of them "
        "the prefix's.",
        subtitle="Each row is a token's query. Crossed out: hidden by the mask. Every row sums "
        "to one over the prefix and the tokens together.",
    )
    cell, high, tall = 0.47, 0.24, 0.27
    d = grids["q"].shape[1]
    left_q, left = 1.0, 2.3
    y_keys = canvas.top + 0.3
    y = y_keys + d * high + 0.45
    keys = canvas.grid(
        left, y_keys, [["prompt"] * n_prefix + ["paper"] * n] * d, cell=(cell, high),
        texts=[[f"{value:.1f}" for value in row] for row in grids["keys"].T], columns=columns,
    )  # fmt: skip
    canvas.label((left - 0.1, y_keys + d * high / 2), "keys", align="right", colour=style.INK)
    canvas.grid(
        left_q, y, [["paper"] * d] * n, cell=(0.42, tall), rows=[_short(name) for name in names],
        texts=[[f"{value:.1f}" for value in row] for row in grids["q"]],
    )  # fmt: skip
    canvas.label((left_q, y - 0.13), "queries", colour=style.INK)
    fills = _blues(weights)
    texts = [
        [f"{value:.2f}" if ok else "×" for value, ok in zip(row, oks, strict=True)]
        for row, oks in zip(weights, seen, strict=True)
    ]
    fills = [
        [fill if ok else "quiet" for fill, ok in zip(row, oks, strict=True)]
        for row, oks in zip(fills, seen, strict=True)
    ]
    boxes = canvas.grid(left, y, fills, cell=(cell, tall), texts=texts)
    canvas.label((left, y - 0.13), "weights, one softmax a row", colour=style.INK)
    border = keys[0][n_prefix].x
    canvas.arrow((border, y_keys - 0.02), (border, y_keys + d * high), head=False, thick=2,
                 colour=style.INK)  # fmt: skip
    canvas.arrow((border, y), (border, boxes[-1][0].bottom), head=False, thick=2,
                 colour=style.INK)  # fmt: skip
    y_values = boxes[-1][0].bottom + 0.2
    canvas.grid(
        left, y_values, [["prompt"] * n_prefix + ["paper"] * n] * d, cell=(cell, high),
        texts=[[f"{value:.1f}" for value in row] for row in grids["values"].T],
    )  # fmt: skip
    canvas.label((left - 0.1, y_values + d * high / 2), "values", align="right",
                 colour=style.INK)  # fmt: skip
    canvas.bracket(left, border, y_values + d * high + 0.02, "prefix")
    canvas.bracket(border + 0.03, boxes[0][-1].right, y_values + d * high + 0.02, "the tokens")
    x = boxes[0][-1].right + 0.3
    canvas.label((x, y - 0.13), "prefix's share", colour=style.INK)
    for i, one in enumerate(share):
        row = boxes[i][0].y + 0.05
        canvas.box(x, row, 0.9 * max(one, 0.02), tall - 0.1, fill="prompt", rounded=False,
                   hatched=True)  # fmt: skip
        canvas.label((x + 0.95 * one + 0.07, row + 0.09), f"{one:.0%}", colour=style.INK)
    x += 1.12
    canvas.grid(
        x, y, [["paper"] * d] * n, cell=(0.42, tall),
        texts=[[f"{value:.1f}" for value in row] for row in grids["result"]],
    )  # fmt: skip
    canvas.label((x, y - 0.13), "result", colour=style.INK)
    return canvas.finish()


# ---------------------------------------------------------------------- a table, taken apart


def draw_table_split(ways: Mapping[str, Any], columns: int) -> Picture:
    """Draw whose numbers stand in the keys and values of each layer, by two ways to reshape.

    Args:
        ways: by name, int (layers, sides, heads, n, head_dim): the number of the token whose row
            each entry comes from. The first way is the right one.
        columns: how many numbers a row of the table has.
    """
    grids = {name: np.asarray(whose) for name, whose in ways.items()}
    layers, _, heads, n, _ = next(iter(grids.values())).shape
    kept = {
        name: int((whose == np.arange(n)[:, None]).all(axis=(0, 1, 2, 4)).sum())
        for name, whose in grids.items()
    }
    wrong = list(grids)[-1]
    in_layers = [sorted({int(i) for i in layer.ravel()}) for layer in grids[wrong]]
    alone = all(len(tokens) == 1 for tokens in in_layers)
    canvas = Canvas(
        1.5 + layers * (heads * 0.24 + 0.22),
        f"With a {wrong}, each layer holds one token's numbers only"
        if alone
        else f"With a {wrong}, tokens and layers are mixed",
        f"A table with {n} rows, one for each token, of {columns} numbers. "
        + " ".join(
            f"{name}: "
            + ", ".join(
                f"layer {i} holds numbers of token "
                + " and ".join(str(t) for t in sorted({int(t) for t in layer.ravel()}))
                for i, layer in enumerate(whose)
            )
            + "."
            for name, whose in grids.items()
        ),
        subtitle=f"A table of {n} rows, one for each token of the prefix, with {columns} numbers "
        "each. Every cell says whose numbers stand there.",
    )
    tones = [TONES[token % len(TONES)] for token in range(n)]
    y = canvas.top + 0.12
    table = [
        canvas.box(MARGIN, y + 0.62 + 0.34 * t, 1.2, 0.28, f"token {t}", fill=tones[t],
                   size=style.SMALL, rounded=False)
        for t in range(n)
    ]  # fmt: skip
    canvas.label((MARGIN, y + 0.48), "the table", colour=style.INK)
    width = 2.68
    cell = min(0.3, (width - 0.8) / (2 * n))
    for place, (name, whose) in enumerate(grids.items()):
        x = 2.05 + place * (width + 0.1)
        right = kept[name] == n
        canvas.label((x, y), name, weight="bold", size=style.TEXT,
                     colour=style.INK if right else WARNING)  # fmt: skip
        canvas.label(
            (x, y + 0.2),
            "each layer gets every token" if right else "a layer lacks most tokens"
            if alone else "tokens stand at the wrong places",
        )  # fmt: skip
        top = y + 0.62
        first = [x + 0.6, x + 0.6 + n * cell + 0.12]
        for side, start in zip(("keys", "values"), first, strict=True):
            canvas.label((start, top - 0.14), side, colour=style.INK)
        for layer in range(layers):
            canvas.label((x, top + heads * 0.12), f"layer {layer}", colour=style.INK)
            for number, start in enumerate(first):
                found = [
                    [sorted({int(t) for t in whose[layer, number, head, token]})
                     for token in range(n)] for head in range(heads)
                ]  # fmt: skip
                canvas.grid(
                    start, top,
                    [[tones[t[0]] if len(t) == 1 else "paper" for t in row] for row in found],
                    cell=(cell, 0.24),
                    texts=[["/".join(map(str, t)) if len(t) == 1 else "·" for t in row]
                           for row in found],
                )  # fmt: skip
            top += heads * 0.24 + 0.22
    canvas.arrow((table[0].right + 0.08, table[n // 2].middle[1]), (1.95, table[n // 2].middle[1]))
    return canvas.finish()


# ---------------------------------------------------------------------- a network that makes it


def draw_network(prefix: Any) -> Picture:
    """Draw the network that makes a prefix, with the numbers of each part, and what is kept.

    Args:
        prefix: a Prefix with a network; its sizes are read off its weights.
    """
    first, _, second = prefix.transform
    n, d_model = prefix.embedding.shape
    sizes = {
        "table": prefix.embedding.numel(),
        "first": sum(p.numel() for p in first.parameters()),
        "second": sum(p.numel() for p in second.parameters()),
    }
    total, kept = sum(sizes.values()), n * second.out_features
    more = total / kept
    canvas = Canvas(
        2.75,
        f"{more:.0f} times as many numbers are trained as are kept"
        if more >= 2
        else f"{total:,} numbers are trained and {kept:,} are kept",
        f"A table of {n} × {d_model} numbers goes through a linear layer to {first.out_features} "
        f"hidden units, tanh, and a linear layer to {second.out_features} numbers a row. Trained "
        f"are {total:,} numbers. Afterwards the wide table of {n} × {second.out_features} = "
        f"{kept:,} is kept and the rest is dropped.",
        subtitle=f"Each row is a token of the prefix. Dashed: dropped after training, {total:,} "
        "numbers in all.",
    )
    y, high = canvas.top + 0.55, 0.62
    table = canvas.box(MARGIN, y, 1.0, high, f"table\n{n} × {d_model}", fill="prompt",
                       size=style.SMALL, dashed=True)  # fmt: skip
    one = canvas.box(1.62, y, 1.25, high, f"linear\n{d_model} → {first.out_features}",
                     size=style.SMALL, dashed=True)  # fmt: skip
    tanh = canvas.box(3.2, y, 0.62, high, "tanh", size=style.SMALL, dashed=True)
    two = canvas.box(4.15, y, 1.3, high, f"linear\n{second.in_features} → {second.out_features}",
                     size=style.SMALL, dashed=True)  # fmt: skip
    wide = canvas.box(5.9, y, canvas.width - MARGIN - 5.9, high,
                      f"keys and values\n{n} × {second.out_features}", fill="prompt",
                      size=style.SMALL)  # fmt: skip
    for left, right in ((table, one), (one, tanh), (tanh, two), (two, wide)):
        canvas.arrow(left.side("right"), right.side("left"))
    for box, number in ((table, "table"), (one, "first"), (two, "second")):
        canvas.label((box.middle[0], box.bottom + 0.16), f"{sizes[number]:,}", align="center",
                     colour=style.INK, size=style.TEXT)  # fmt: skip
    canvas.bracket(table.x, two.right, table.bottom + 0.36, f"trained: {total:,} numbers")
    canvas.bracket(wide.x, wide.right, table.bottom + 0.36, f"kept: {kept:,} numbers")
    canvas.label((MARGIN, y - 0.16), "while training", colour=style.INK)
    canvas.label((wide.x, y - 0.16), "what the model reads", colour=style.INK)
    return canvas.finish()
