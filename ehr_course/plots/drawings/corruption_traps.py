"""The drawings of the traps of lesson 09: special tokens, lost inputs, marks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, WARNING, Box, Canvas
from ehr_course.plots.corruption import MASK
from ehr_course.plots.drawings.corruption import HIGH, Columns
from ehr_course.plots.style import Picture, count
from ehr_course.tokenizers.codes import SPECIAL_TOKENS, CodeTokenizer


def draw_special_tokens(
    tokenizer: CodeTokenizer,
    visit: Sequence[int],
    naive: np.ndarray,
    proper: Sequence[int],
    row: int,
) -> Picture:
    """Draw a visit whose codes were replaced by ids of any kind, and by codes only.

    Args:
        tokenizer: of the codes.
        visit: the ids of its codes, without markers.
        naive: int (copies, codes), ids in their places, drawn from 0 up.
        proper: one copy as the library replaces its codes.
        row: the naive copy to draw.
    """
    spoilt = float((naive < len(SPECIAL_TOKENS)).any(axis=1).mean())
    drawn = naive[row].tolist()
    special = [i < len(SPECIAL_TOKENS) for i in drawn]
    names = sorted(
        {token for token, yes in zip(tokenizer.tokens(drawn), special, strict=True) if yes}
    )
    same = [new == old for new, old in zip(drawn, visit, strict=True)]
    itself = ", ".join(t for t, yes in zip(tokenizer.tokens(drawn), same, strict=True) if yes)
    canvas = Canvas(
        2.5,
        f"Draw ids from zero up, and {spoilt:.0%} of such visits get a special token",
        f"Three rows: a visit of {count(len(visit), 'code')}, the same with any ids, among them "
        f"{', '.join(names) or 'no special token'}, and with other codes only. Of {len(naive):,} "
        f"copies {spoilt:.0%} get a special token. Replaced by itself: {itself or 'none'}.",
        subtitle=f"Every code of a visit replaced, {len(naive):,} times. "
        f"Framed: a special token{', or the same code again' if itself else ''}.",
    )
    rows = {"the visit": list(visit), "drawn from any id": drawn, "by the library": list(proper)}
    tokens = {name: tokenizer.tokens(ids) for name, ids in rows.items()}
    places = Columns(canvas, tokens["the visit"], left=1.5, right=7.46)
    y = canvas.top + 0.14
    for name, some in tokens.items():
        canvas.label((MARGIN, y + HIGH / 2), name, colour=style.INK)
        any_id = name == "drawn from any id"
        framed = [any_id and (a or b) for a, b in zip(special, same, strict=True)]
        wrong = [any_id and yes for yes in special]
        places.row(y, some, [(i, i) for i in range(len(some))], changed=framed, wrong=wrong)
        y += 0.42
    canvas.key(MARGIN, y + 0.08, {"code": "a code", "trap": "a special token: no code at all"})
    return canvas.finish()


def draw_lost_input(
    tokenizer: CodeTokenizer, labels: Tensor, from_labels: Tensor, from_clean: Tensor
) -> Picture:
    """Draw what a decoder reads if its input is made from labels that were masked before.

    A lost token hurts if a scored label stands in its column or further right, for the decoder
    reads it before it writes that label.

    Args:
        tokenizer: of the record.
        labels: int64 (length,), -100 where a position is not scored.
        from_labels: int64 (length,), the decoder's input made from them.
        from_clean: int64 (length,), the decoder's input made from the clean record.
    """
    scored = (labels >= 0).tolist()
    lost = (from_labels != from_clean).tolist()
    hurts = [yes and any(scored[i:]) for i, yes in enumerate(lost)]
    harmless = [yes and not bad for yes, bad in zip(lost, hurts, strict=True)]
    canvas = Canvas(
        3.04,
        f"The decoder's input loses {sum(lost)} of {len(lost)} tokens, "
        f"and {sum(hurts)} of these losses hurt",
        f"Three rows of {len(lost)} places. Labels that are scored: {sum(scored)}. "
        f"The decoder's input made from them holds {count(sum(lost), 'token')} of padding where "
        f"the one made from the clean record holds the record: {sum(hurts)} before a scored "
        f"label, which hurts, and {sum(harmless)} behind the last one, which is harmless.",
        subtitle="To write the label of a column, the decoder has read its input up to that "
        "column.",
    )
    rows = (
        ("labels", labels, ""),
        ("decoder's input", from_labels, "from labels"),
        ("decoder's input", from_clean, "from clean"),
    )
    tokens = [_words(tokenizer, ids) for _, ids, _ in rows]
    places = Columns(canvas, tokens[0], left=1.3, right=7.46)
    y = canvas.top + 0.14
    for (name, ids, small), row in zip(rows, tokens, strict=True):
        canvas.label((MARGIN, y + (0.06 if small else 0.14)), name, colour=style.INK)
        if small:
            canvas.label((MARGIN, y + 0.22), small, colour=style.MUTED)
        wrong = hurts if ids is from_labels else [False] * len(row)
        boxes = places.row(y, row, [(i, i) for i in range(len(row))], wrong=wrong)
        if ids is labels:
            _under_runs(canvas, boxes, [not yes for yes in scored], "as intended", style.MUTED)
        if ids is from_labels:
            _under_runs(canvas, boxes, hurts, "hurts", WARNING)
            _under_runs(canvas, boxes, harmless, "harmless", style.MUTED)
        y += 0.42 if ids is from_clean else 0.73
    meanings = {
        "code": "a code",
        "special": "a marker",
        "quiet": "not scored, or padding",
        "trap": "padding before a scored label",
    }
    canvas.key(MARGIN, y + 0.08, meanings)
    return canvas.finish()


def _under_runs(
    canvas: Canvas,
    boxes: Sequence[Box | None],
    which: Sequence[bool],
    word: str,
    colour: str,
) -> None:
    """Write a word under each run of neighbouring boxes, with a bracket as wide as the run."""
    run: list[Box] = []
    for box, yes in zip([*boxes, None], [*which, False], strict=True):
        if box and yes:
            run.append(box)
        elif run:
            start, end = run[0].x + 0.03, run[-1].right - 0.03
            canvas.bracket(start, end, run[0].bottom + 0.04, word, colour=colour)
            run = []


def draw_marks(
    tokenizer: CodeTokenizer, inputs: Tensor, clean: Tensor, hidden: Sequence[int]
) -> Picture:
    """Draw where <mask> stands in the encoder's input, laid over the clean record.

    Args:
        tokenizer: of the record.
        inputs: int64 (length,), what the encoder reads, padded to the length of the record.
        clean: int64 (length,), the clean record.
        hidden: the places of the clean record that are hidden.
    """
    marked = [i for i, token_id in enumerate(inputs.tolist()) if token_id == tokenizer.mask_id]
    hit = sorted(set(marked) & set(hidden))
    canvas = Canvas(
        2.62,
        f"Looking for {MASK} in the input finds {len(hit)} of the {len(hidden)} hidden codes",
        f"The input has {count(len(marked), 'mask')}; laid over the clean record, they mark "
        f"{count(len(hit), 'hidden code')} and {count(len(marked) - len(hit), 'other token')}, "
        f"while {len(hidden)} codes are hidden, of which {len(hidden) - len(hit)} are missed.",
        subtitle="Arrows lead from each mask to the token at the same position.",
    )
    read, record = _words(tokenizer, inputs), _words(tokenizer, clean)
    places = Columns(canvas, record, left=1.3, right=7.46)
    y = canvas.top + 0.14
    canvas.label((MARGIN, y + 0.14), "encoder reads", colour=style.INK)
    upper = places.row(y, read, [(i, i) for i in range(len(read))])
    y += 0.72
    canvas.label((MARGIN, y + 0.14), "clean record", colour=style.INK)
    lower = places.row(
        y,
        record,
        [(i, i) for i in range(len(record))],
        changed=[i in hidden for i in range(len(record))],
        wrong=[i in marked and i not in hidden for i in range(len(record))],
    )
    for i, below in enumerate(lower):
        word = ("found" if i in marked else "missed") if i in hidden else "wrong"
        if below and i in {*marked, *hidden}:
            colour = style.INK if word == "found" else WARNING
            at = below.middle[0], below.bottom + 0.15
            canvas.label(at, word, colour=colour, align="center")
    for i in marked:
        above, below = upper[i], lower[i]
        if above and below:
            end = below.middle[0], below.y - 0.03
            wrong = i not in hidden
            colour = WARNING if wrong else style.INK
            canvas.arrow(above.side("bottom"), end, colour=colour, dashed=wrong)
    y += HIGH + 0.44
    canvas.box(MARGIN - 0.02, y - 0.09, 0.24, 0.18, edge=style.INK, rounded=False)
    canvas.box(MARGIN, y - 0.07, 0.2, 0.14, fill="code", edge=style.INK, rounded=False)
    canvas.label((MARGIN + 0.27, y), "hidden: should be marked")
    x = MARGIN + 0.27 + style.text_width("hidden: should be marked", style.SMALL) + 0.25
    entries = {"trap": "marked, though it was not hidden"}
    if tokenizer.pad_id in inputs.tolist():
        entries["quiet"] = "padding: hides the error"
    canvas.key(x, y, entries)
    return canvas.finish()


def _words(tokenizer: CodeTokenizer, ids: Tensor) -> list[str]:
    """The tokens of ids; -100, which is no token, stands for itself."""
    return [str(i) if i < 0 else tokenizer.tokens([i])[0] for i in ids.tolist()]
