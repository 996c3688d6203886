"""What lesson 10 draws: a record's way into a batch, and the six tensors of that batch."""

from __future__ import annotations

from ehr_course.batches.collate import Batch, tensors_of
from ehr_course.plots.batch import KINDS, kinds_of
from ehr_course.plots.canvas import MARGIN, MONO, WARNING, Box, Canvas
from ehr_course.plots.diagrams import token_fill
from ehr_course.plots.style import INK, SMALL, TEXT, Picture, count, text_width
from ehr_course.records import PatientRecord
from ehr_course.tokenizers.codes import CodeTokenizer

KIND_FILLS = {"padding": "quiet", "special": "special", "code": "code", "mask": "mask"}
HIGH, ROOM = 0.2, 3.52  # of a number; of a grid of them
QUESTIONS = ("Is the noise fresh?", "How much is empty?", "Is it well-formed?", "Will it fit?")


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


def draw_path(record: PatientRecord, tokenizer: CodeTokenizer, batch: Batch) -> Picture:
    """Draw one patient on the way to the model: what is made once, and what in every epoch.

    Args:
        record: the patient.
        tokenizer: encodes the record.
        batch: a small batch, whose first row is this patient, damaged.
    """
    ids = tokenizer.encode(record)
    damaged = batch["input_ids"][0][batch["attention_mask"][0] == 1].tolist()
    tokens, broken = tokenizer.tokens(ids), tokenizer.tokens(damaged)
    n_rows, source = batch["input_ids"].shape
    visits = count(len(record.visits), "visit")
    c = Canvas(
        4.75,
        "A record is encoded once, then damaged and padded in every epoch",
        f"The way of one patient, from top to bottom: {visits} become {len(ids)} token ids, once. "
        f"In every epoch they are damaged, here to {len(damaged)} tokens, and padded with others "
        f"to a batch of {n_rows} rows and {source} places, which the model reads. On the way: "
        f"{'; '.join(QUESTIONS)}.",
        subtitle="One patient on the way to the model. On the right: what can go wrong.",
    )
    left, step, high = 1.12, 0.56, 0.28
    starts = [c.top + 0.26 + step * i for i in (0, 1, 1.75, 3.1, 4.1)]
    names = {
        "record": visits,
        "tokens": f"{len(ids)} of them",
        "token ids": "never change",
        "corrupted": count(len(broken), "token"),
        "batch": f"{n_rows} × {source}",
    }
    for y, (name, small) in zip(starts, names.items(), strict=True):
        c.label((MARGIN, y + 0.06), name, size=TEXT, weight="bold", colour=INK)
        c.label((MARGIN, y + 0.25), small)
    widths = [text_width(token, SMALL, MONO) + 0.1 for token in tokens]
    kinds = [token_fill(token) for token in tokens]
    boxes = c.strip(left, starts[1], tokens, fills=kinds, widths=widths, gap=0.03, height=high)
    for box, token, kind in zip(boxes, tokens, kinds, strict=True):
        if kind == "code":
            c.strip(box.x, starts[0], [token], fills=kind, widths=box.width, height=high)
    c.strip(left, starts[2], list(map(str, ids)), fills=kinds, widths=widths, gap=0.03,
            height=high)  # fmt: skip
    noisy = c.strip(left, starts[3], broken, fills=[token_fill(token) for token in broken],
                    widths=[text_width(token, SMALL, MONO) + 0.1 for token in broken],
                    gap=0.03, height=high)  # fmt: skip
    fills = [[KIND_FILLS[KINDS[kind]] for kind in row] for row in kinds_of(batch["input_ids"])]
    grid = c.grid(left, starts[4], fills, cell=(0.2, 0.17))
    end, bottom = grid[0][-1].right, grid[-1][0].bottom
    c.label((end + 0.1, grid[0][0].middle[1]), "this patient")
    c.label((end + 0.1, grid[1][0].middle[1]), "others, padded")
    model = c.box(left, bottom + 0.4, end - left, high, "model", fill="encoder")
    for text, first, last in (
        ("made once", starts[0], starts[2] + high),
        ("made in every epoch", starts[3], bottom),
    ):
        c.frame(Box(0.05, first - 0.14, 5.8, last - first + 0.26))
        c.label((5.85, first - 0.24), text, align="right", colour=INK)
    for start, stop in ((starts[2] + high, starts[3]), (starts[3] + high, starts[4]),
                        (bottom, model.y)):  # fmt: skip
        c.arrow((left + 0.2, start + 0.02), (left + 0.2, stop - 0.02))
    asked = [noisy[-1], grid[1][-1], grid[-1][-1], model]
    y = 0.0
    for question, box in zip(QUESTIONS, asked, strict=True):
        y = max(y + 0.34, box.middle[1])
        x = box.right + (1.1 if box is grid[1][-1] else 0.04)
        c.path([(6.02, y), (x, box.middle[1])], head=False, colour=WARNING)
        c.box(6.02, y - 0.15, 1.44, 0.3, question, fill="trap", size=SMALL)
    return c.finish()
