"""The drawings of lesson 10: a record's way into a batch, its tensors, noise, and faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate

import matplotlib
import numpy as np
import torch
from torch import Tensor

from ehr_course.batches.collate import Batch, tensors_of
from ehr_course.batches.datasets import RecordDataset
from ehr_course.plots import style
from ehr_course.plots.batch import KINDS, kinds_of
from ehr_course.plots.canvas import MARGIN, MONO, WARNING, Box, Canvas
from ehr_course.plots.style import Picture, count

_FILL = {"padding": "quiet", "special": "special", "code": "code", "mask": "mask"}
"""The fill of each kind of token."""


# ---------------------------------------------------------------------- the way into a batch


def draw_path(dataset: RecordDataset, place: int, batch: Batch) -> Picture:
    """Draw one patient on the way from a record to a batch: what is made once, what each time.

    Args:
        dataset: where the patient comes from.
        place: the patient's place in it.
        batch: int64 (batch, source) and more: a batch whose first row is this patient.
    """
    record, tokenizer = dataset.records[place], dataset.tokenizer
    ids = dataset.tokens.take([place]).to_lists()[0]
    damaged = batch["input_ids"][0][batch["attention_mask"][0] == 1].tolist()
    n_rows, source = batch["input_ids"].shape
    words = (
        f"The way of one patient, from top to bottom: {count(len(record.visits), 'visit')} become "
        f"{len(ids)} token ids, once. In every epoch they are damaged, here to {len(damaged)} "
        f"tokens, and padded with others to a batch of {n_rows} rows and {source} places, which "
        "the model reads."
    )
    canvas = Canvas(
        4.84,
        "A record is encoded once, then damaged and padded in every epoch",
        words,
        subtitle="One patient on the way to the model. On the right: what can go wrong.",
    )
    left, room = 1.12, 4.66
    tokens = tokenizer.tokens(ids)
    shown = _fitting(tokens, room)
    widths = [_token_width(token) for token in shown]
    kinds = _fills(ids)[: len(shown)]
    starts = [left + x for x in accumulate((w + _GAP for w in widths), initial=0.0)]
    y = canvas.top + 0.18

    def stage(y: float, name: str, small: str) -> None:
        canvas.label((MARGIN, y + 0.08), name, size=style.TEXT, weight="bold", colour=style.INK)
        canvas.label((MARGIN, y + 0.27), small)

    def question(text: str, y: float, end: float) -> None:
        box = canvas.box(6.02, y - 0.15, 1.44, 0.3, text, fill="trap", size=style.SMALL)
        canvas.path([box.side("left"), (end, y)], head=False, colour=WARNING)

    stage(y, "record", count(len(record.visits), "visit"))
    for token, kind, x, width in zip(shown, kinds, starts, widths, strict=False):
        if kind == "code" and token != _MORE:
            canvas.box(x, y, width, _HIGH, token, fill=kind, size=style.SMALL, mono=True)
    down, first = left + 0.2, y
    y += _STEP
    stage(y, "tokens", f"{len(ids)} of them")
    canvas.strip(left, y, shown, fills=kinds, widths=widths, gap=_GAP, height=_HIGH)
    y += 0.42
    stage(y, "token ids", "never change")
    numbers = [_MORE if token == _MORE else str(i) for token, i in zip(shown, ids, strict=False)]
    canvas.strip(left, y, numbers, fills=kinds, widths=widths, gap=_GAP, height=_HIGH)
    _once(canvas, first, y + _HIGH, "made once")
    canvas.arrow((down, y + _HIGH + 0.02), (down, y + _STEP + 0.18))
    y += _STEP + 0.22
    stage(y, "corrupted", count(len(damaged), "token"))
    broken = tokenizer.tokens(damaged)
    kept = _fitting(broken, room)
    canvas.strip(left, y, kept, fills=_fills(damaged)[: len(kept)], gap=_GAP, height=_HIGH,
                 widths=[_token_width(token) for token in kept])  # fmt: skip
    canvas.arrow((down, y + _HIGH + 0.02), (down, y + _STEP - 0.04))
    below = y
    y += _STEP
    stage(y, "batch", f"{n_rows} × {source}")
    wide, high = min(0.2, 3.3 / source), 0.17
    canvas.grid(left, y, _grid_fills(batch["input_ids"]), cell=(wide, high))
    end = left + source * wide
    canvas.label((end + 0.1, y + high / 2), "this patient")
    second, others = y + high * 1.5 + 0.05, "others, padded"
    canvas.label((end + 0.1, second), others)
    bottom = y + n_rows * high
    canvas.arrow((down, bottom + 0.03), (down, bottom + 0.32))
    model = canvas.box(left, bottom + 0.32, max(1.0, source * wide), 0.28, "model", fill="encoder")
    _once(canvas, below, bottom, "made anew in every epoch")
    shown_to = left + sum(_token_width(token) + _GAP for token in kept)
    question("Is the noise fresh?", below + _HIGH / 2, shown_to + 0.03)
    question("How much is empty?", second, end + 0.2 + style.text_width(others, style.SMALL))
    question("Is it well-formed?", bottom - high / 2 + 0.06, end + 0.03)
    question("Will it fit?", model.middle[1], model.right + 0.03)
    return canvas.finish()


_GAP, _HIGH, _STEP = 0.03, 0.28, 0.54
_MORE = "…"


def _once(canvas: Canvas, top: float, bottom: float, text: str) -> None:
    """A dashed frame around some stages that says how often they happen."""
    canvas.frame(Box(0.05, top - 0.08, 5.8, bottom - top + 0.2))
    canvas.label((5.78, top - 0.17), text, align="right", colour=style.INK)


def _token_width(token: str) -> float:
    return style.text_width(token, style.SMALL, MONO) + 0.1


def _fitting(tokens: Sequence[str], room: float) -> list[str]:
    """As many tokens as stand side by side in so many inches, and dots for the rest."""
    ends = list(accumulate(_token_width(token) + _GAP for token in tokens))
    if ends[-1] <= room:
        return list(tokens)
    n_fitting = sum(end + _token_width(_MORE) <= room for end in ends)
    return [*tokens[:n_fitting], _MORE]


def _fills(ids: Sequence[int]) -> list[str]:
    return _grid_fills([ids])[0]


def _grid_fills(input_ids: object) -> list[list[str]]:
    """The fill of each place of int (rows, places)."""
    return [[_FILL[KINDS[kind]] for kind in row] for row in kinds_of(input_ids)]


# ---------------------------------------------------------------------- the tensors of a batch


def draw_tensors(batch: Batch) -> Picture:
    """Draw the six tensors of a small batch with their numbers, shapes and types.

    Args:
        batch: of a few short records; a number is left out where it does not fit its place.
    """
    tensors = tensors_of(batch)
    n_rows, source = batch["input_ids"].shape
    target = batch["labels"].shape[1]
    empty = int((batch["attention_mask"] == 0).sum())
    unscored = int((batch["labels"] < 0).sum())
    shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items())
    words = (
        f"The six tensors of a batch of {count(n_rows, 'patient')}, as grids of numbers: "
        f"{shapes}. "
        f"{empty} places of the input and {unscored} of the labels are padding."
    )
    high, room = 0.2, 3.52
    block = 0.46 + n_rows * high
    canvas = Canvas(
        0.78 + 3 * block,
        "Six tensors: rows are padded to the longest, and no further",
        words,
        subtitle="A row is a patient. What fills the gaps depends on who reads the tensor.",
    )
    second = MARGIN + room + 0.28
    top = canvas.top + 0.34
    cell = min(0.32, room / max(source, target))
    grids = {
        "input_ids": (MARGIN, top, cell),
        "attention_mask": (second, top, cell),
        "labels": (MARGIN, top + block, cell),
        "decoder_input_ids": (second, top + block, cell),
        "x_num": (MARGIN, top + 2 * block, 0.42),
        "x_cat": (MARGIN + 1.1, top + 2 * block, 0.42),
    }
    boxes = {}
    for name, (x, y, wide) in grids.items():
        tensor = tensors[name]
        values = tensor.tolist()
        texts = [[f"{value:.0f}" for value in row] for row in values]
        widest = max(style.text_width(text, style.SMALL, MONO) for row in texts for text in row)
        if name == "attention_mask":
            fills = [["paper" if value else "quiet" for value in row] for row in values]
        elif name in ("x_num", "x_cat"):
            fills = [["prompt"] * len(row) for row in values]
        else:
            fills = _grid_fills(tensor.clamp(min=0))
        fits = widest + 0.03 <= wide
        boxes[name] = canvas.grid(x, y, fills, cell=(wide, high), texts=texts if fits else None)
        if name == "attention_mask":
            _outline(canvas, boxes[name], fills)
        kind = f"{_shape(tensor.shape)} {str(tensor.dtype).rpartition('.')[2]}"
        canvas.label((x, y - 0.26), name, mono=True, colour=style.INK, weight="bold")
        canvas.label((x, y - 0.1), kind)
    _shift_arrow(canvas, boxes["labels"][0], boxes["decoder_input_ids"][0])
    for i, (fill, meaning) in enumerate(
        {"code": "code", "special": "special token", "mask": "<mask>", "quiet": "padding",
         "prompt": "age, sex"}.items()
    ):  # fmt: skip
        line, column = divmod(i, 3)
        canvas.key(second + 1.25 * column, top + 2 * block + 0.14 + 0.3 * line, {fill: meaning})
    return canvas.finish()


def _shape(shape: Sequence[int]) -> str:
    return f"({', '.join(map(str, shape))})"


def _shift_arrow(canvas: Canvas, labels: Sequence[Box], decoder: Sequence[Box]) -> None:
    """From the first label to where the decoder reads it, one place later."""
    start, end = labels[-1].side("right"), decoder[0].side("left")
    canvas.arrow((start[0] + 0.02, start[1]), (end[0] - 0.02, end[1]))
    at = (start[0] + end[0]) / 2, start[1] - decoder[0].height / 2 - 0.14
    canvas.label((decoder[0].right + 1.5, at[1] - 0.02), "the labels, one place later",
                 colour=style.INK)  # fmt: skip


def _outline(
    canvas: Canvas, boxes: Sequence[Sequence[Box]], fills: Sequence[Sequence[str]]
) -> None:
    """Outline the white cells of a grid whole: the cells beside them were drawn over them."""
    for row, fills_of_row in zip(boxes, fills, strict=True):
        for box, fill in zip(row, fills_of_row, strict=True):
            if fill == "paper":
                canvas.box(box.x, box.y, box.width, box.height, rounded=False, edge=style.FAINT)


# ---------------------------------------------------------------------- noise


def draw_noise(
    runs: Mapping[str, Sequence[Sequence[str]]], n_workers: Mapping[str, int]
) -> Picture:
    """Draw which batches of some epochs got the same corruption: the same letter, the same tile.

    Args:
        runs: by the name of the way, (epochs, batches): a letter for each different corruption.
        n_workers: by the same name, how many workers made the batches: batch ``number`` comes
            from worker ``number % n_workers``, or with none from the main process.
    """
    different = {name: len({a for row in run for a in row}) for name, run in runs.items()}
    n_batches = {name: sum(map(len, run)) for name, run in runs.items()}
    words = "Tiles, a row an epoch and a column a batch; equal letters are equal corruption. "
    words += "; ".join(
        f"{name}: {different[name]} different in {n_batches[name]} batches, "
        + " and ".join("".join(row) for row in run)
        for name, run in runs.items()
    )
    n_epochs = max(map(len, runs.values()))
    first, high, between = 0.72, 0.4, 0.3
    n_columns = sum(len(run[0]) for run in runs.values())
    room = style.WIDTH - 2 * MARGIN - first - between * (len(runs) - 1)
    wide = min(0.62, room / n_columns)
    canvas = Canvas(
        1.95 + n_epochs * high,
        "A kept generator repeats itself as soon as there are workers",
        f"{words}.",
        subtitle="The same patients in each batch. Equal letters are equal corruption.",
    )
    x, top = MARGIN + first, canvas.top + 0.82
    for text, up in (("batch", 0.34), ("worker", 0.14)):
        canvas.label((x - 0.08, top - up), text, align="right")
    for epoch in range(n_epochs):
        canvas.label((x - 0.08, top + (epoch + 0.5) * high), f"epoch {epoch}", align="right")
    for name, run in runs.items():
        colours = _tile_colours(run)
        canvas.label((x, top - 0.66), name, size=style.TEXT, weight="bold", colour=style.INK)
        for number in range(len(run[0])):
            middle = x + (number + 0.5) * wide
            canvas.label((middle, top - 0.34), str(number), align="center")
            made_by = str(number % n_workers[name]) if n_workers[name] else "none"
            canvas.label((middle, top - 0.14), made_by, align="center")
        for epoch, row in enumerate(run):
            for number, letter in enumerate(row):
                canvas.box(
                    x + number * wide, top + epoch * high, wide, high, letter,
                    fill=colours[letter], weight="bold", rounded=False, edge=style.PAPER,
                )  # fmt: skip
        below = top + len(run) * high + 0.14
        canvas.label((x, below), f"{different[name]} different of {n_batches[name]}")
        x += len(run[0]) * wide + between
    return canvas.finish()


def _tile_colours(run: Sequence[Sequence[str]]) -> dict[str, str]:
    """A colour for each letter of a run, from dark to light."""
    letters = sorted({letter for row in run for letter in row})
    steps = np.linspace(0.15, 0.95, len(letters))
    return {
        letter: matplotlib.colors.to_hex(matplotlib.colormaps["viridis"](step))
        for letter, step in zip(letters, steps, strict=True)
    }


# ---------------------------------------------------------------------- the contract


def draw_faults(
    batch: Batch,
    broken: Mapping[str, Mapping[str, Tensor]],
    seen: Mapping[str, Sequence[str]],
) -> Picture:
    """Draw faults of a batch, each beside what is right, and which checks see it.

    Args:
        batch: of a few short records; its second row, or else its first, is shown.
        broken: by the name of the fault, the tensor that is wrong, by its own name.
        seen: by the name of the check, the faults that it sees.
    """
    words = (
        f"A row for each of {count(len(broken), 'fault')} of a batch: what is right, what is "
        "wrong, and which check sees it. "
        + "; ".join(
            f"seen by {name}: {', '.join(faults) or 'none'}" for name, faults in seen.items()
        )
        + "."
    )
    first, fewest = min(seen.items(), key=lambda item: len(item[1]))
    room = 2.1
    tensors = tensors_of(batch)
    heights = [
        max(0.66, 0.36 + _COLUMN * len(tensors[name])) if name.startswith("x_") else 0.66
        for change in broken.values()
        for name in change
    ]
    canvas = Canvas(
        1.06 + sum(heights),
        f"{first.capitalize()} alone see {len(fewest)} of {len(broken)} faults",
        words,
        subtitle="One row of the faulty tensor, before and after; of the ages, all rows.",
    )
    right_x, wrong_x, check_x = 1.5, 3.72, 6.06
    top = canvas.top + 0.14
    canvas.label((right_x, top), "right", colour=style.INK, weight="bold")
    canvas.label((wrong_x, top), "wrong", colour=WARNING, weight="bold")
    for i, check in enumerate(seen):
        canvas.label((check_x + i * 0.72 + 0.3, top), check, align="center", colour=style.INK,
                     weight="bold")  # fmt: skip
    for line, (fault, change) in enumerate(broken.items()):
        y = top + 0.2 + sum(heights[:line])
        ((name, tensor),) = change.items()
        canvas.label((MARGIN, y + 0.12), fault, colour=style.INK)
        canvas.label((MARGIN, y + 0.32), name, mono=True)
        for x, shown in ((right_x, tensors[name]), (wrong_x, tensor)):
            kind = f"{_shape(shown.shape)} {str(shown.dtype).rpartition('.')[2]}"
            if name.startswith("x_"):
                column = [[f"{value:.0f}"] for value in shown.flatten().tolist()]
                prompts = [["prompt"]] * len(shown)
                canvas.grid(x, y, prompts, cell=(0.4, _COLUMN), texts=column)
                canvas.label((x + 0.5, y + 0.1), kind)
                continue
            row = shown[min(1, len(shown) - 1)]
            fills = _row_fills(name, row)
            texts = [str(int(value)) for value in row.tolist()]
            if row.dtype == torch.bool:
                texts = [text[0] for text in map(str, row.tolist())]
            widest = max(style.text_width(text, style.SMALL, MONO) for text in texts) + 0.05
            n_shown = min(len(row), int(room / max(widest, 0.2)))
            if n_shown < len(row):
                texts = [*texts[: n_shown - 1], _MORE]
                fills = [*fills[: n_shown - 1], "paper"]
            drawn = canvas.grid(
                x, y, [fills], cell=(min(0.3, room / n_shown), 0.22), texts=[texts]
            )
            _outline(canvas, drawn, [fills])
            canvas.label((x, y + 0.34), kind)
        for i, faults in enumerate(seen.values()):
            found = fault in faults
            canvas.box(check_x + i * 0.72, y, 0.62, 0.24, "sees it" if found else "misses it",
                       fill="special" if found else "trap", size=style.SMALL)  # fmt: skip
    return canvas.finish()


_COLUMN = 0.18
"""The height of a number in a column, in inches."""


def _row_fills(name: str, row: Tensor) -> list[str]:
    """The fill of each place of one row of a tensor of a batch."""
    if name.startswith("x_"):
        return ["prompt"] * len(row)
    if name == "attention_mask":
        return ["paper" if value else "quiet" for value in row.tolist()]
    return _fills(row.clamp(min=0).tolist())
