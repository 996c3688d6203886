"""The drawings of lesson 12: from age and sex to prompts, and to positions before the tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, WARNING, Box, Canvas
from ehr_course.plots.style import Picture

LONGEST = 8
"""How many letters of a token are drawn."""


def _short(token: str) -> str:
    return token if len(token) <= LONGEST else token[: LONGEST - 1] + "…"


def _fill(token: str) -> str:
    kinds = {"<PAD>": "quiet", "<mask>": "mask"}
    return kinds.get(token, "special" if token.startswith("<") else "code")


# ---------------------------------------------------------------------- from age to positions


def draw_prompt_path(model: Any, tokens: Sequence[str], *, age: int, sex: str) -> Picture:
    """Draw how age and sex become the first positions of the encoder, step by step.

    Args:
        model: a PromptBart with an affine age prompt; shapes are read off its weights.
        tokens: of the record, as few as fit.
        age: in years.
        sex: "F" or "M".
    """
    prompt, table = model.encoder_prompt, model.get_input_embeddings().weight
    numerical, categorical = prompt.numerical, prompt.categorical
    n_weights = sum(values.numel() for values in prompt.parameters())
    d_hidden, d_model = numerical.weight.shape[1], table.shape[1]
    scale = numerical.scales[0].item()
    row = "MF".index(sex)
    length, read = len(tokens) + 2, 1  # every position may be read
    canvas = Canvas(
        4.62,
        f"Age and sex become two vectors of {d_model} numbers, in front of the tokens",
        f"Three columns that run down. The age {age} is divided by {scale:g}, becomes {d_hidden} "
        f"numbers by weight and bias and is projected to {d_model}. Sex {sex} picks row {row} of "
        f"a table of {len(categorical.table.weight)} rows, which is projected to {d_model} "
        f"numbers too. With {style.count(len(tokens), 'token')} they are {length} positions, and "
        f"the attention mask has {length} ones.",
        subtitle="Read it downwards, a column for each input.",
    )
    wide, high, step = 1.5, 0.4, 0.64
    columns = (0.4, 2.3)
    ys = [canvas.top + 0.12 + step * i for i in range(4)]
    last = ys[3] + step + 0.04
    frame = Box(columns[0] - 0.2, ys[1] - 0.12, columns[1] + wide - columns[0] + 0.4, 3 * step)
    canvas.frame(frame)
    canvas.label((frame.right + 0.1, frame.y + 0.09), "conditional", colour=style.INK)
    canvas.label((frame.right + 0.1, frame.y + 0.25), "prompt:", colour=style.INK)
    canvas.label((frame.right + 0.1, frame.y + 0.41), f"{n_weights:,} weights")
    steps = (
        (
            f"age {age}",
            f"÷ {scale:g} = {age / scale:.2f}",
            f"× weight + bias\n{d_hidden} numbers",
            f"project\n{d_hidden} → {d_model}",
        ),
        (
            f"sex {sex}",
            f"row {row} of the table\n{len(categorical.table.weight)} × {d_hidden}",
            f"+ bias\n{d_hidden} numbers",
            f"project\n{d_hidden} → {d_model}",
        ),
    )
    for x, names in zip(columns, steps, strict=True):
        boxes = [
            canvas.box(x, y, wide, high, name, fill="paper" if i else "prompt", size=style.SMALL)
            for i, (y, name) in enumerate(zip(ys, names, strict=True))
        ]
        end = canvas.box(
            x, last, wide, high, f"{d_model} numbers", fill="prompt", size=style.SMALL
        )
        for above, below in zip(boxes, [*boxes[1:], end], strict=True):
            canvas.arrow(above.side("bottom"), below.side("top"))
        canvas.label((end.middle[0], last + high + 0.19), f"{read}", align="center", mono=True)
    left = frame.right + 1.02
    room = (canvas.width - MARGIN - left - 0.06 * (len(tokens) - 1)) / len(tokens)
    look_up = canvas.box(
        left, ys[2], canvas.width - MARGIN - left, high,
        f"table of tokens\n{table.shape[0]} × {d_model}", size=style.SMALL,
    )  # fmt: skip
    for i, token in enumerate(tokens):
        x = left + i * (room + 0.06)
        word = canvas.box(
            x, ys[0], room, high, _short(token), fill=_fill(token), size=style.SMALL, mono=True
        )
        end = canvas.box(x, last, room, high, f"{d_model}", fill=_fill(token), size=style.SMALL)
        canvas.arrow(word.side("bottom"), (word.middle[0], look_up.y))
        canvas.arrow((word.middle[0], look_up.bottom), end.side("top"))
        canvas.label((end.middle[0], last + high + 0.19), f"{read}", align="center", mono=True)
    canvas.label((left - 0.12, last + high + 0.19), "mask", align="right", colour=style.INK)
    canvas.bracket(
        columns[0], canvas.width - MARGIN, last + high + 0.36,
        f"{length} positions; the encoder adds position embeddings, then a layer norm",
    )  # fmt: skip
    return canvas.finish()


def draw_positions(
    rows: Sequence[Sequence[str]], mask: Any, n_prompts: int, positions: int
) -> Picture:
    """Draw the rows of a batch with their prompts in front, and the mask of each.

    Args:
        rows: the tokens of each patient, padding included, of one length.
        mask: int (patients, n_prompts + length): 1 where attention may read.
        n_prompts: how many prompts there are.
        positions: how many the model has.
    """
    mask = np.asarray(mask)
    length = mask.shape[1]
    canvas = Canvas(
        1.12 + 0.78 * len(rows),
        f"{style.count(n_prompts, 'prompt')} and {length - n_prompts} tokens are {length} "
        "positions",
        f"{len(rows)} rows of {length} positions, {n_prompts} of them prompts, with the mask "
        f"under each: it has {' and '.join(f'{row.sum()}' for row in mask)} ones.",
        subtitle="Under each position its entry in the mask: prompts are always read, "
        "padding never.",
    )
    left = 0.95
    wide = min(0.78, (canvas.width - left - MARGIN) / length - 0.05)
    y = canvas.top + 0.12
    for i, tokens in enumerate(rows):
        names = ["age", "sex"][:n_prompts] if n_prompts > 1 else ["age+sex"]
        fills = ["prompt"] * n_prompts + [_fill(token) for token in tokens]
        names = [_short(name) for name in [*names, *tokens]]
        boxes = canvas.strip(left, y, names, fills=fills, widths=wide)
        canvas.label((left - 0.12, y + 0.15), f"patient {i + 1}", align="right", colour=style.INK)
        canvas.label((left - 0.12, y + 0.44), "mask", align="right")
        for box, one in zip(boxes, mask[i], strict=True):
            at = box.middle[0], y + 0.44
            weight = "bold" if one else "normal"
            canvas.label(at, f"{one}", align="center", mono=True, weight=weight, colour=style.INK)
        y += 0.78
    canvas.label(
        (left, y),
        f"Of the {positions} positions of this model, {positions - n_prompts} are left for "
        "tokens.",
    )
    return canvas.finish()


def draw_table(features: Mapping[str, int], category: Sequence[int]) -> Picture:
    """Draw one table for several features, and where a patient's categories stand in it.

    Args:
        features: how many categories each feature has, by its name.
        category: the patient's category of each feature, counted from 0.
    """
    names, counts = list(features), list(features.values())
    firsts = [sum(counts[:f]) for f in range(len(counts))]
    rows = [first + one for first, one in zip(firsts, category, strict=True)]
    owner = [f for f, n in enumerate(counts) for _ in range(n)]
    wrong = [name for f, name in enumerate(names) if owner[category[f]] != f]
    whose = sorted({names[owner[category[names.index(name)]]] for name in wrong})
    canvas = Canvas(
        3.3,
        f"Without offsets, {' and '.join(wrong)} read rows of {' and '.join(whose)}"
        if wrong
        else "This patient is read right even without offsets",
        f"A table of {len(owner)} rows: "
        + ", then ".join(f"{n} of {name}" for name, n in features.items())
        + f". With offsets the patient's categories are rows {', '.join(map(str, rows))}; "
        f"without, rows {', '.join(map(str, category))}.",
        subtitle="One patient: "
        + ", ".join(f"{name} {one}" for name, one in zip(names, category, strict=True))
        + ". Categories and rows are counted from zero.",
    )
    left = 1.25
    wide = (canvas.width - left - MARGIN) / len(owner)
    tones = ("paper", "encoder", "quiet", "decoder")
    for y, title, read in (
        (canvas.top + 0.42, "with offsets", rows),
        (canvas.top + 1.5, "without", list(category)),
    ):
        boxes = canvas.strip(
            left, y, [f"{row}" for row in range(len(owner))],
            fills=[tones[f % len(tones)] for f in owner], widths=wide - 0.05,
        )  # fmt: skip
        canvas.label((left - 0.12, y + 0.15), title, align="right", colour=style.INK)
        if read is rows:
            for name, first, n in zip(names, firsts, counts, strict=True):
                end = boxes[first + n - 1].right
                canvas.bracket(boxes[first].x, end, y - 0.04, name, above=True)
        for row in sorted(set(read)):
            here = [f for f, one in enumerate(read) if one == row]
            x, good = boxes[row].middle[0], all(owner[row] == f for f in here)
            colour = style.INK if good else WARNING
            canvas.arrow((x, y + 0.58), (x, y + 0.32), colour=colour)
            text = "\n".join(
                f"{firsts[f]} + {category[f]}" if read is rows else names[f] for f in here
            )
            canvas.label((x, y + 0.62), text, align="center", vertical="top", colour=colour)
    return canvas.finish()
