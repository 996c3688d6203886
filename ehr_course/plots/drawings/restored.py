"""The losses of two trainings, and what is restored of damaged records: lesson 09."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, WARNING, Canvas
from ehr_course.plots.drawings.corruption import HIGH, Columns
from ehr_course.plots.history import running_mean
from ehr_course.plots.style import Picture, count
from ehr_course.tokenizers.codes import SPECIAL_TOKENS, CodeTokenizer


class Found(NamedTuple):
    """What is written when damaged records are rewritten.

    Attributes:
        right: how many of the lost codes are written.
        added: how many codes are written that could not be read in the damaged record.
        kept: how many of the codes that could be read are written again.
    """

    right: int
    added: int
    kept: int


# ---------------------------------------------------------------------- losses

_TAIL = 10
"""So many steps at the end of a training give the loss that is named."""


def draw_losses(losses: Mapping[str, Sequence[float]]) -> Picture:
    """Draw the losses of two trainings on one axis, smoothed.

    Args:
        losses: by name, the loss of each step: the leak first, then the repaired model.
    """
    leak, repaired = losses
    ends = {name: float(np.mean(values[-_TAIL:])) for name, values in losses.items()}
    canvas = Canvas(
        2.9,
        f"The leak's loss falls to {ends[leak]:.3f}, the repaired model's to {ends[repaired]:.2f}",
        f"Two falling curves of the loss. “{leak}” ends at {ends[leak]:.3f}, “{repaired}” at "
        f"{ends[repaired]:.2f} (means of the last {_TAIL} steps of {len(losses[leak]):,}).",
        subtitle=f"Mean of the last {_TAIL} steps. Each model is scored by its own labels.",
    )
    axes = canvas.plot(0.62, canvas.top + 0.12, 5.5, 1.5)
    looks = {leak: (WARNING, "--"), repaired: (FILLS["code"], "-")}
    for name, values in losses.items():
        smooth = running_mean(values, _TAIL)
        colour, line = looks[name]
        axes.plot(range(1, len(smooth) + 1), smooth, color=colour, ls=line, lw=1.8)
    top = max(max(values) for values in losses.values())
    axes.set_xlim(0, len(losses[leak]))
    axes.set_ylim(-0.02 * top, 1.02 * top)
    axes.set_xlabel("step")
    axes.set_ylabel("loss")
    apart = abs(ends[leak] - ends[repaired]) > 0.13 * top
    for name, at in ends.items():
        higher = not apart and name == repaired
        axes.annotate(
            f"{name}: {at:.3f}" if name == leak else f"{name}: {at:.2f}",
            (len(losses[name]), at + (0.13 * top if higher else 0)),
            xytext=(6, 0),
            textcoords="offset points",
            size=style.SMALL,
            color=looks[name][0],
            va="center",
            annotation_clip=False,
        )
    return canvas.finish()


# ---------------------------------------------------------------------- what is restored

_LEFT, _WIDE, _STEP = 1.36, 1.06, 1.6
_BAR, _ROW = 0.22, 0.56


def draw_restored(
    own: Mapping[str, float], found: Mapping[str, Found], lost: int, readable: int
) -> Picture:
    """Draw four measures of three ways of writing, all on one scale.

    Args:
        own: the share of tokens that are right by a model's own labels, where there are any.
        found: what each writes: the leak first, then counting, then the repaired model.
        lost: how many codes the damage took away.
        readable: how many codes of the clean records the damage left.
    """
    precise = {name: one.right / one.added for name, one in found.items() if one.added}
    shares = {name: one.right / lost for name, one in found.items()}
    kept = {name: one.kept / readable for name, one in found.items()}
    leak, counting, repaired = found
    said = "; ".join(
        f"{name} restores {one.right:,} of {lost:,} lost codes ({shares[name]:.1%}), keeps "
        f"{kept[name]:.0%} of {readable:,} readable ones, and {one.right:,} of the {one.added:,} "
        "codes that it adds are right"
        for name, one in found.items()
    )
    canvas = Canvas(
        3.1,
        f"Lost codes restored: {shares[leak]:.0%} with the leak, {shares[counting]:.0%} by "
        f"counting, {shares[repaired]:.0%} repaired",
        f"Bars in four columns for {len(found)} ways of writing: {said}.",
        subtitle="Held-out patients. All bars have the same scale.",
    )
    columns: tuple[tuple[str, Mapping[str, float], Mapping[str, tuple[int, int]]], ...] = (
        ("tokens right,\nby its own labels", own, {}),
        ("readable codes\nkept", kept, {n: (f.kept, readable) for n, f in found.items()}),
        ("lost codes\nrestored", shares, {n: (f.right, lost) for n, f in found.items()}),
        ("additions\nthat are right", precise, {n: f[:2] for n, f in found.items()}),
    )
    top = canvas.top + 0.62
    fills = dict(zip(found, ("trap", style.PAPER, "code"), strict=True))
    for row, name in enumerate(found):
        y = top + row * _ROW
        canvas.label((MARGIN, y + _BAR / 2), name, colour=style.INK, weight="bold")
    for place, (title, values, counts) in enumerate(columns):
        x = _LEFT + place * _STEP
        canvas.label((x, canvas.top + 0.26), title, colour=style.INK)
        for row, name in enumerate(found):
            y = top + row * _ROW
            if name not in values:
                text = "adds none" if name in counts else "has no labels"
                canvas.label((x, y + _BAR / 2), text)
                continue
            width = _WIDE * values[name]
            if width > 0:
                plain = fills[name] == style.PAPER
                canvas.box(
                    x,
                    y,
                    width,
                    _BAR,
                    fill=fills[name],
                    edge=style.INK,
                    rounded=False,
                    hatched=plain,
                )
            after = x + (width + 0.06 if width > 0 else 0)
            canvas.label((after, y + _BAR / 2), f"{values[name]:.0%}", colour=style.INK)
            if name in counts:
                some, out_of = counts[name]
                canvas.label((x, y + _BAR + 0.13), f"{some:,} of {out_of:,}")
    return canvas.finish()


# ---------------------------------------------------------------------- one patient


def draw_rewritten(
    tokenizer: CodeTokenizer,
    clean: Sequence[int],
    damaged: Sequence[int],
    written: Mapping[str, Sequence[int]],
) -> Picture:
    """Draw one patient's record, the damaged one, and what each writer makes of it.

    A code counts as written back, or as wrong, by the visit in which it stands.

    Args:
        tokenizer: that encoded the patient.
        clean: the ids of the clean record.
        damaged: the ids of the damaged one; padding is left out.
        written: by name, the ids that each writes; padding is left out.
    """
    whole, read = set(_in_visits(tokenizer, clean)), set(_in_visits(tokenizer, damaged))
    lost = {pair for pair in whole - read if pair[1] >= len(SPECIAL_TOKENS)}
    back = {name: lost & set(_in_visits(tokenizer, ids)) for name, ids in written.items()}
    wrong = {
        name: {
            pair
            for pair in set(_in_visits(tokenizer, ids)) - whole
            if pair[1] >= len(SPECIAL_TOKENS)
        }
        for name, ids in written.items()
    }
    able = [name for name, some in back.items() if some]
    if len(able) == 1 and back[able[0]] == lost:
        title = f"Lost here: {count(len(lost), 'code')}. Only “{able[0]}” writes "
        title += "it back" if len(lost) == 1 else "them back"
    else:
        listed = ", ".join(f"{name} {len(some)}" for name, some in back.items())
        title = f"Lost here: {count(len(lost), 'code')}. Written back: {listed}"
    said = "; ".join(
        f"{name} writes back {len(back[name])} and adds {count(len(wrong[name]), 'wrong code')}"
        for name in written
    )
    canvas = Canvas(
        1.34 + 0.4 * (2 + len(written)),
        title,
        f"A record of {len(clean)} tokens, its damaged copy, and what is made of it. Of "
        f"{count(len(lost), 'lost code')}, {said}.",
        subtitle="One held-out patient. A double frame marks the lost codes.",
    )
    rows = {"the patient": clean, "encoder reads": damaged, **written}
    shown = {name: [i for i in ids if i != tokenizer.pad_id] for name, ids in rows.items()}
    tokens = {name: tokenizer.tokens(ids) for name, ids in shown.items()}
    places = Columns(canvas, max(tokens.values(), key=len), left=1.3, right=6.15)
    y = canvas.top + 0.14
    for name, ids in shown.items():
        pairs = _in_visits(tokenizer, ids)
        ours = name in written
        canvas.label(
            (MARGIN, y + HIGH / 2), name, colour=style.INK, weight="bold" if ours else "normal"
        )
        places.row(
            y,
            tokens[name],
            [(i, i) for i in range(len(ids))],
            changed=[pair in lost for pair in pairs],
            wrong=[ours and pair in wrong[name] for pair in pairs],
        )
        if ours:
            n_back = f"{len(back[name])} of {len(lost)} back"
            n_wrong = f", {len(wrong[name])} wrong"
            canvas.label((6.25, y + HIGH / 2), n_back + n_wrong, colour=style.INK)
        y += 0.4
    entries = {"code": "a code", "special": "a marker", "mask": "a mask"}
    if any(wrong.values()):
        entries["trap"] = "added, though not in the record"
    canvas.key(MARGIN, y + 0.1, entries)
    return canvas.finish()


def _in_visits(tokenizer: CodeTokenizer, ids: Sequence[int]) -> list[tuple[int, int]]:
    """Each id but padding with the number of its visit."""
    pairs, visit = [], -1
    for token_id in ids:
        visit += token_id == tokenizer.visit_start_id
        if token_id != tokenizer.pad_id:
            pairs.append((visit, token_id))
    return pairs
