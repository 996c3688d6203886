"""What a model restores of damaged records, what it keeps, and what it makes up: lesson 09."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ehr_course.plots import style
from ehr_course.plots.drawings.canvas import MARGIN, Canvas
from ehr_course.plots.style import Picture


class Found(NamedTuple):
    """What a model writes when it rewrites damaged records.

    Attributes:
        right: how many of the lost codes it writes.
        added: how many codes it writes that it could not read in the damaged record.
        kept: how many of the codes that it could read it writes again.
    """

    right: int
    added: int
    kept: int


_LEFT, _WIDE, _STEP = 1.36, 1.06, 1.6
_BAR, _ROW = 0.22, 0.56


def draw_restored(
    own: Mapping[str, float],
    found: Mapping[str, Found],
    lost: int,
    readable: int,
    guess: float,
) -> Picture:
    """Draw four measures of three ways of writing: the leak, without and with the record.

    Args:
        own: the share of tokens that are right by a model's own labels, where it was measured.
        found: what each writes: the leak first, then without the record, then with it.
        lost: how many codes the damage took away.
        readable: how many codes of the clean records the damage left.
        guess: the share of the lost codes that is the most common one.
    """
    leak, blind, reading = found
    precise = {name: one.right / one.added for name, one in found.items() if one.added}
    shares = {name: one.right / lost for name, one in found.items()}
    kept = {name: one.kept / readable for name, one in found.items()}
    with_it, without = precise.get(reading, 0.0), precise.get(blind, 0.0)
    said = "; ".join(
        f"{name} restores {one.right:,} of {lost:,} lost codes ({shares[name]:.1%}), keeps "
        f"{kept[name]:.0%} of {readable:,} readable ones, and {one.right:,} of the {one.added:,} "
        "codes that it adds are right"
        for name, one in found.items()
    )
    canvas = Canvas(
        3.64,
        f"If the model reads the record, {with_it:.0%} of its additions are right; "
        f"if not, {without:.0%}",
        f"Bars in four columns for {len(found)} ways of writing: {said}. "
        f"The most common lost code makes up {guess:.1%}.",
        subtitle=f"Held-out patients. “{leak}” looks best by its own labels and restores "
        f"{shares[leak]:.0%}. “{blind}”: the repaired model.",
    )
    small = max(*shares.values(), *precise.values(), guess)
    columns = (
        ("tokens right,\nby its own labels", own, {}, 1.0),
        ("readable codes\nkept", kept, {n: (f.kept, readable) for n, f in found.items()}, 1.0),
        ("lost codes\nrestored", shares, {n: (f.right, lost) for n, f in found.items()}, small),
        ("additions\nthat are right", precise, {n: f[:2] for n, f in found.items()}, small),
    )
    top = canvas.top + 0.62
    fills = dict(zip(found, ("trap", style.PAPER, "code"), strict=True))
    for row, name in enumerate(found):
        y = top + row * _ROW
        canvas.label((MARGIN, y + _BAR / 2), name, colour=style.INK, weight="bold")
    for place, (title, values, counts, most) in enumerate(columns):
        x = _LEFT + place * _STEP
        canvas.label((x, canvas.top + 0.26), title, colour=style.INK)
        for row, name in enumerate(found):
            y = top + row * _ROW
            if name not in values:
                text = "adds none" if name in counts else "not measured"
                canvas.label((x, y + _BAR / 2), text)
                continue
            width = max(0.02, _WIDE * values[name] / most)
            hatched = fills[name] == style.PAPER
            canvas.box(
                x, y, width, _BAR, fill=fills[name], edge=style.INK, rounded=False, hatched=hatched
            )
            canvas.label((x + width + 0.06, y + _BAR / 2), f"{values[name]:.0%}", colour=style.INK)
            if name in counts:
                some, out_of = counts[name]
                canvas.label((x, y + _BAR + 0.13), f"{some:,} of {out_of:,}")
    end = top + len(found) * _ROW
    canvas.label((MARGIN, end + 0.09), "most common code", colour=style.INK)
    x = _LEFT + 2 * _STEP
    width = max(0.02, _WIDE * guess / small)
    canvas.box(x, end, width, _BAR, fill="quiet", edge=style.INK, rounded=False)
    canvas.label((x + width + 0.06, end + _BAR / 2), f"{guess:.0%}", colour=style.INK)
    canvas.label(
        (MARGIN, end + 0.48), f"Two scales: to {1:.0%} on the left, to {small:.0%} on the right."
    )
    return canvas.finish()
