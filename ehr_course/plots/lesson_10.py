"""What lesson 10 draws: the six tensors of a batch."""

from __future__ import annotations

from ehr_course.batches.collate import Batch, tensors_of
from ehr_course.plots.batch import KINDS, kinds_of
from ehr_course.plots.canvas import MARGIN, MONO, Canvas
from ehr_course.plots.style import INK, SMALL, Picture, count, text_width

KIND_FILLS = {"padding": "quiet", "special": "special", "code": "code", "mask": "mask"}
HIGH, ROOM = 0.2, 3.52  # of a number; of a grid of them


def draw_tensors(batch: Batch) -> Picture:
    """Draw the six tensors of a small batch with their numbers, shapes and types.

    Args:
        batch: of a few short records; numbers are left out where they do not fit their places.
    """
    tensors = tensors_of(batch)
    n_rows, source = batch["input_ids"].shape
    shapes = ", ".join(f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items())
    empty = int((batch["attention_mask"] == 0).sum())
    unscored = int((batch["labels"] < 0).sum())
    block = 0.46 + n_rows * HIGH
    c = Canvas(
        0.78 + 3 * block,
        "Six tensors: rows are padded to the longest, and no further",
        f"The six tensors of a batch of {count(n_rows, 'patient')}, as grids of numbers: "
        f"{shapes}. {empty} places of the input and {unscored} of the labels are padding.",
        subtitle="A row is a patient. What fills the gaps depends on who reads the tensor.",
    )
    right, top = MARGIN + ROOM + 0.28, c.top + 0.34
    cell = min(0.32, ROOM / max(source, batch["labels"].shape[1]))
    grids = {
        "input_ids": (MARGIN, top, cell),
        "attention_mask": (right, top, cell),
        "labels": (MARGIN, top + block, cell),
        "decoder_input_ids": (right, top + block, cell),
        "x_num": (MARGIN, top + 2 * block, 0.42),
        "x_cat": (MARGIN + 1.1, top + 2 * block, 0.42),
    }
    boxes = {}
    for name, (x, y, wide) in grids.items():
        tensor = tensors[name]
        texts = [[f"{value:.0f}" for value in row] for row in tensor.tolist()]
        if name == "attention_mask":
            fills = [["paper" if value else "quiet" for value in row] for row in tensor.tolist()]
        elif name.startswith("x_"):
            fills = [["prompt"]] * n_rows
        else:
            kinds = kinds_of(tensor.clamp(min=0))
            fills = [[KIND_FILLS[KINDS[kind]] for kind in row] for row in kinds]
        fits = 0.03 + max(text_width(text, SMALL, MONO) for row in texts for text in row) <= wide
        boxes[name] = c.grid(x, y, fills, cell=(wide, HIGH), texts=texts if fits else None)
        c.label((x, y - 0.26), name, mono=True, colour=INK, weight="bold")
        kind = str(tensor.dtype).rpartition(".")[2]
        c.label((x, y - 0.1), f"{tuple(tensor.shape)} {kind}")
    last, first = boxes["labels"][0][-1], boxes["decoder_input_ids"][0][0]
    c.arrow(last.side("right"), first.side("left"))
    c.label((first.x + 1.75, first.y - 0.1), "the labels, one place later", colour=INK)
    meanings = {"code": "code", "special": "special token", "mask": "<mask>", "quiet": "padding",
                "prompt": "age, sex"}  # fmt: skip
    for i, (fill, meaning) in enumerate(meanings.items()):
        down, across = divmod(i, 3)
        c.key(right + 1.25 * across, top + 2 * block + 0.14 + 0.3 * down, {fill: meaning})
    return c.finish()
