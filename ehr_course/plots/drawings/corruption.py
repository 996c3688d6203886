"""The drawings of lesson 09: a damaged record and its right answer, spans, kinds of damage."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from ehr_course.batches.collate import NOT_SCORED, Batch
from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, MONO, Box, Canvas
from ehr_course.plots.corruption import MASK, Fate, Step, align
from ehr_course.plots.style import Picture, count
from ehr_course.tokenizers.codes import SPECIAL_TOKENS, CodeTokenizer

_MORE = "…"
HIGH = 0.28
"""The height of a token, in inches."""


# ---------------------------------------------------------------------- one patient, four rows


def draw_places(
    tokenizer: CodeTokenizer,
    clean: Sequence[int],
    batch: Batch,
    row: int = 0,
) -> Picture:
    """Draw one patient of a batch: the clean record, and what encoder and decoder are given.

    Every token that the encoder reads stands under the code that it comes from. A label that is
    not the token of the clean record is marked.

    Args:
        tokenizer: that encoded the patient.
        clean: the ids of the clean record.
        batch: int64 (batch, length), with `input_ids`, `decoder_input_ids` and `labels`.
        row: the patient's row.
    """
    damaged = [i for i in batch["input_ids"][row].tolist() if i != tokenizer.pad_id]
    labels = [i for i in batch["labels"][row].tolist() if i != NOT_SCORED]
    decoder_input = batch["decoder_input_ids"][row].tolist()[: len(labels)]
    steps = _steps(tokenizer, clean, damaged)
    record = tokenizer.tokens(list(clean))
    under_input = _under_input(steps)
    under_labels = (
        under_input if len(labels) != len(clean) else [(i, i) for i in range(len(clean))]
    )
    answers = tokenizer.tokens(labels)
    wrong = [
        answer != record[first] for answer, (first, _) in zip(answers, under_labels, strict=True)
    ]
    touched = sum(step.fate is not Fate.KEPT for step in steps)
    missing = len(clean) - len(labels)
    if missing and not any(wrong):
        title = f"A leak without a trace: {count(missing, 'code')} missing from the labels too"
        said = f"the labels lack {missing} of the {len(clean)} tokens"
    elif any(wrong):
        answer = answers[wrong.index(True)]
        title = f"A leak: the damage is in the labels too, and {answer} counts as right"
        verb = "belongs" if sum(wrong) == 1 else "belong"
        said = f"{sum(wrong)} of {len(labels)} labels {verb} to the damage"
    else:
        title = "The encoder reads the damage; the decoder must write what was there"
        said = f"all {len(labels)} labels are those of the clean record"
    lost = f"{count(touched, 'code')} of this record {'is' if touched == 1 else 'are'} damaged"
    given = f"{lost}, the encoder reads {count(len(damaged), 'token')}"
    subtitle = (
        "Arrows: each token it should write is what it reads next. "
        "At the end of a row: how many tokens it has."
    )
    said = f"A record of {len(clean)} tokens in four rows. {given}, and {said}."
    canvas = Canvas(3.36, title, said, subtitle=subtitle)
    places = Columns(canvas, record, left=1.3, right=6.42)
    tops = [canvas.top + 0.12 + y for y in (0.0, 0.5, 1.14, 1.76)]
    names = ("clean record", "encoder reads", "decoder reads", "it must write")
    small = ("", "input_ids", "decoder_input_ids", "labels")
    lengths = [len(clean), len(damaged), len(labels), len(labels)]
    end = places.end + 0.03
    for top, name, variable, length in zip(tops, names, small, lengths, strict=True):
        canvas.label((end + 0.08, top + 0.03), f"{length}", colour=style.INK, align="center")
        canvas.label((MARGIN, top + (0.06 if variable else 0.14)), name, colour=style.INK)
        if variable:
            canvas.label((MARGIN, top + 0.22), variable, mono=True)

    places.row(tops[0], record, [(i, i) for i in range(len(record))])
    places.row(tops[1], tokenizer.tokens(damaged), under_input, changed=_changed(steps))
    for i, step in enumerate(steps):
        if step.fate is Fate.DELETED:
            places.gap(tops[1], i)
    in_a_row = [(i, i) for i in range(len(decoder_input))]
    read = places.row(tops[2], tokenizer.tokens(decoder_input), in_a_row)
    asked = [any(steps[i].fate is not Fate.KEPT for i in range(a, b + 1)) for a, b in under_labels]
    write = places.row(tops[3], answers, in_a_row, changed=asked, wrong=wrong)
    for one, following in zip(write, read[1:], strict=False):
        if one and following:
            start = one.x + min(one.width, 0.4) / 2, one.y - 0.02
            goal = following.x + min(following.width, 0.4) / 2, following.bottom + 0.02
            canvas.arrow(start, goal, colour="#9aa3b0", thick=0.8)

    x, wide = 6.6, 0.86
    encoder = canvas.box(x, tops[1] - 0.09, wide, HIGH + 0.18, "encoder", fill="encoder")
    decoder = canvas.box(x, tops[2], wide, tops[-1] + HIGH - tops[2], "decoder", fill="decoder")
    canvas.arrow(encoder.side("bottom"), decoder.side("top"))
    canvas.arrow((end, encoder.middle[1]), encoder.side("left"))
    canvas.arrow((end, tops[2] + HIGH / 2), (x, tops[2] + HIGH / 2))
    canvas.arrow((x, tops[-1] + HIGH / 2), (end, tops[-1] + HIGH / 2))
    y = tops[-1] + HIGH + 0.24
    masked = MASK in tokenizer.tokens(damaged)
    entries = {"mask": "one mask, drawn as wide as what it hides"} if masked else {}
    if any(wrong):
        entries["trap"] = "a wrong label"
    x = canvas.key(MARGIN, y, {"code": "a code", "special": "a marker", **entries})
    if any(step.fate is Fate.DELETED for step in steps):
        _key_of_gaps(canvas, x, y)
    return canvas.finish()


class Columns:
    """Columns as wide as a record's tokens; what does not fit is left out behind dots."""

    def __init__(self, canvas: Canvas, tokens: Sequence[str], left: float, right: float) -> None:
        most = int((right - left) / 0.455)
        self._canvas = canvas
        self.shown = len(tokens) if len(tokens) <= most else most - 1
        self._step = min(0.56, (right - left) / min(len(tokens), most))
        self._left = left
        self._cut = self.shown < len(tokens)
        self.end = left + self._step * (self.shown + self._cut) - 0.04

    def row(
        self,
        y: float,
        tokens: Sequence[str],
        places: Sequence[tuple[int, int]],
        *,
        changed: Sequence[bool] = (),
        wrong: Sequence[bool] = (),
    ) -> list[Box | None]:
        """Draw tokens, each from its first to its last column."""
        boxes: list[Box | None] = []
        for i, (token, (first, last)) in enumerate(zip(tokens, places, strict=True)):
            if first >= self.shown:
                boxes.append(None)
                continue
            x, width = self._at(first, min(last, self.shown - 1))
            thick = bool(changed and changed[i])
            fill = "trap" if wrong and wrong[i] else _fill(token)
            boxes.append(_token(self._canvas, x, y, width, token, fill, thick=thick))
        if self._cut:
            x, width = self._at(self.shown, self.shown)
            self._canvas.label((x + width / 2, y + HIGH / 2), _MORE, align="center")
        return boxes

    def gap(self, y: float, column: int) -> None:
        """Draw an empty place with a dashed edge: something was taken away here."""
        if column < self.shown:
            x, width = self._at(column, column)
            self._canvas.box(x, y, width, HIGH, dashed=True)

    def _at(self, first: int, last: int) -> tuple[float, float]:
        return self._left + self._step * first, self._step * (last - first + 1) - 0.04


def _token(
    canvas: Canvas, x: float, y: float, width: float, token: str, fill: str, *, thick: bool = False
) -> Box:
    """Draw a token, cut to the width of its box; a thick frame marks what was changed."""
    edge = style.INK if thick else style.MUTED
    if thick:
        canvas.box(x - 0.025, y - 0.025, width + 0.05, HIGH + 0.05, edge=edge)
    text = _cut(token, width - 0.01)
    return canvas.box(x, y, width, HIGH, text, fill=fill, size=style.SMALL, mono=True, edge=edge)


def _cut(token: str, room: float) -> str:
    """As much of a token as so many inches hold."""
    whole = token
    while token and style.text_width(token, style.SMALL, MONO) > room:
        token = token.removesuffix(_MORE)[:-1] + _MORE
        if token == _MORE:
            return whole[:1]
    return token


def _fill(token: str) -> str:
    if token == MASK:
        return "mask"
    if token in ("<PAD>", str(NOT_SCORED)):
        return "quiet"
    return "special" if token.startswith("<") else "code"


def _steps(tokenizer: CodeTokenizer, clean: Sequence[int], damaged: Sequence[int]) -> list[Step]:
    """What has become of each token of a clean record, markers included."""
    before, after = _visits(tokenizer, clean), _visits(tokenizer, damaged)
    first, opens, closes, last = (
        Step(token, token, Fate.KEPT)
        for token in tokenizer.tokens(
            [
                tokenizer.bos_id,
                tokenizer.visit_start_id,
                tokenizer.visit_end_id,
                tokenizer.eos_id,
            ]
        )
    )
    steps = [first]
    for old, new in zip(before, after, strict=True):
        steps += [opens, *align(old, new), closes]
    return [*steps, last]


def _visits(tokenizer: CodeTokenizer, ids: Sequence[int]) -> list[list[str]]:
    """The codes and masks of each visit."""
    visits: list[list[str]] = []
    for token_id, token in zip(ids, tokenizer.tokens(list(ids)), strict=True):
        if token_id == tokenizer.visit_start_id:
            visits.append([])
        elif token_id == tokenizer.mask_id or token_id >= len(SPECIAL_TOKENS):
            visits[-1].append(token)
    return visits


def _under_input(steps: Sequence[Step]) -> list[tuple[int, int]]:
    """First and last column of each token that the encoder reads."""
    places: list[tuple[int, int]] = []
    for i, step in enumerate(steps):
        if step.after:
            places.append((i, i))
        elif step.fate is Fate.HIDDEN:
            places[-1] = places[-1][0], i
    return places


def _changed(steps: Sequence[Step]) -> list[bool]:
    """Whether each token that the encoder reads has taken the place of another one."""
    return [step.fate is not Fate.KEPT for step in steps if step.after]


# ---------------------------------------------------------------------- span lengths


def draw_spans(drawn: np.ndarray, cut: np.ndarray, mean: float) -> Picture:
    """Draw how often each length of a span occurs: as drawn, and as it fits into the visits.

    Args:
        drawn: int (spans,), lengths as drawn, each 1 or more.
        cut: int (spans,), lengths after they were cut to visits.
        mean: of the Poisson distribution, before a 0 becomes a 1.
    """
    most, many = 8, 5
    zero = math.exp(-mean)
    as_drawn, as_cut = _shares(drawn, most), _shares(cut, most)
    long = float((drawn >= many).mean())
    canvas = Canvas(
        3.3,
        f"As drawn, {as_drawn[0]:.0%} of the spans hide one code; cut to the visits, "
        f"{as_cut[0]:.0%} do",
        f"Two bar charts of span lengths. As drawn, {as_drawn[0]:.1%} hide one code and "
        f"{long:.1%} hide {many} or more; the mean is {drawn.mean():.2f}. Cut to the visits, "
        f"{as_cut[0]:.1%} hide one code and the mean is {cut.mean():.2f}.",
        subtitle="Share of spans by their length, in codes. Dots: computed from the formula.",
    )
    y, high = canvas.top + 0.42, 1.75
    left = canvas.plot(0.62, y, 3.05, high, f"as drawn: mean {drawn.mean():.2f}")
    right = canvas.plot(4.3, y, 3.05, high, f"cut to the visits: mean {cut.mean():.2f}")
    left.patch.set_visible(False)  # it would cover the key
    top = 1.18 * max(*as_drawn, *as_cut)
    _bars(left, as_drawn, top, most)
    left.bar(
        [1],
        [zero],
        bottom=as_drawn[0] - zero,
        width=0.7,
        color=style.PAPER,
        edgecolor=style.INK,
        hatch="////",
        lw=0.8,
    )
    canvas.box(2.0, y, 0.2, 0.14, edge=style.INK, hatched=True, rounded=False)
    canvas.label((2.27, y + 0.07), f"drawn as zero: {zero:.1%}")
    exact = [math.exp(-mean) * mean**k / math.factorial(k) for k in range(most)]
    formula = [exact[0] + exact[1], *exact[2:], 1 - sum(exact)]
    left.plot(range(1, most + 1), formula, "o", ms=3.5, mfc=style.PAPER, mec=style.INK, ls="")
    _bars(right, as_cut, top, most)
    left.set_ylabel("share of spans")
    return canvas.finish()


def _shares(lengths: np.ndarray, most: int) -> list[float]:
    """How often each length from 1 to most occurs; the last one stands for all from there on."""
    return (np.bincount(np.minimum(lengths, most), minlength=most + 1)[1:] / len(lengths)).tolist()


def _bars(axes: Axes, shares: Sequence[float], top: float, most: int) -> None:
    places = range(1, most + 1)
    axes.bar(places, shares, width=0.7, color=FILLS["code"])
    for x, share in zip(places, shares, strict=True):
        if share >= 0.0005:
            said = f"{share:.0%}" if share >= 0.005 else f"{share:.1%}"
            axes.text(x, share + 0.025 * top, said, size=style.SMALL, ha="center", va="bottom")
    axes.set_ylim(0, top)
    axes.set_xticks(list(places), [*map(str, places[:-1]), f"{most}+"])
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("codes in the span")


# ---------------------------------------------------------------------- three kinds of damage


def draw_kinds(
    tokenizer: CodeTokenizer, visit: Sequence[int], damaged: Mapping[str, Sequence[Sequence[int]]]
) -> Picture:
    """Draw one visit and what each kind of corruption makes of it.

    Args:
        tokenizer: of the codes.
        visit: the ids of its codes, without markers.
        damaged: for each kind, the ids of some corrupted visits.
    """
    clean = tokenizer.tokens(list(visit))
    rows = [
        (name, align(clean, tokenizer.tokens(list(ids))))
        for name, some in damaged.items()
        for ids in some
    ]
    lengths = ", ".join(
        f"{name} to {_listed([len(ids) for ids in some])}" for name, some in damaged.items()
    )
    step_y = 0.36
    canvas = Canvas(
        1.52 + step_y * len(rows) + 0.14 * len(damaged),
        "Only infilling says where something is missing",
        f"One visit of {count(len(clean), 'code')} and {len(rows)} damaged copies, each code "
        f"under its own: {lengths} tokens.",
        subtitle="One visit, damaged in each way. Each mask is one token: "
        "its width is not told to the model.",
    )
    places = Columns(canvas, clean, left=1.0, right=6.95)
    canvas.label((7.35, canvas.top - 0.02), "tokens", align="right")
    y = canvas.top + 0.1
    canvas.label((MARGIN, y + HIGH / 2), "clean", colour=style.INK, weight="bold")
    places.row(y, clean, [(i, i) for i in range(len(clean))])
    canvas.label((7.35, y + HIGH / 2), f"{len(clean)}", align="right", colour=style.INK)
    y += step_y
    before = ""
    for name, steps in rows:
        if name != before:
            y += 0.14
            canvas.label((MARGIN, y + HIGH / 2), name, colour=style.INK, weight="bold")
            before = name
        under, after = _under_input(steps), [step.after for step in steps if step.after]
        replaced = [step.fate is Fate.REPLACED for step in steps if step.after]
        places.row(y, after, under, changed=replaced, wrong=replaced)
        for i, step in enumerate(steps):
            if step.fate is Fate.DELETED:
                places.gap(y, i)
        canvas.label((7.35, y + HIGH / 2), f"{len(after)}", align="right", colour=style.INK)
        y += step_y
    y += 0.18
    x = canvas.key(MARGIN, y, {"code": "a code", "mask": "one mask for a span"})
    x = _key_of_gaps(canvas, x, y)
    canvas.box(x - 0.02, y - 0.09, 0.24, 0.18, edge=style.INK, rounded=False)
    canvas.box(x, y - 0.07, 0.2, 0.14, fill="trap", edge=style.INK, rounded=False)
    canvas.label((x + 0.27, y), "another code in its place")
    return canvas.finish()


def _key_of_gaps(canvas: Canvas, x: float, y: float) -> float:
    """Say in the key what an empty dashed place means, and return where that ends."""
    canvas.box(x, y - 0.07, 0.2, 0.14, dashed=True, rounded=False)
    canvas.label((x + 0.27, y), "deleted")
    return x + 0.27 + style.text_width("deleted", style.SMALL) + 0.25


def _listed(numbers: Sequence[int]) -> str:
    return " and ".join(map(str, numbers))
