"""One patient before and after corruption, each code above what has become of it."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.ragged import Ragged
from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.plots import style
from ehr_course.plots.style import Picture, count
from ehr_course.records import PatientRecord
from ehr_course.tokenizers.codes import SPECIAL_TOKENS, CodeTokenizer

MASK = SPECIAL_TOKENS[CodeTokenizer.mask_id]

_OTHER = "#f6d5c3"
"""The colour of a code that stands in the place of another one."""


class Fate(Enum):
    """What corruption has done to one token."""

    KEPT = "kept"
    HIDDEN = "hidden"
    DELETED = "deleted"
    REPLACED = "replaced"


class Step(NamedTuple):
    """One token of the clean visit and what has become of it.

    Attributes:
        before: the token.
        after: the token in its place; "" where it was deleted, or stands behind the <mask> of
            the step before.
        fate: what happened to it.
    """

    before: str
    after: str
    fate: Fate


def align(clean: Sequence[str], corrupted: Sequence[str]) -> list[Step]:
    """Lay the codes of a corrupted visit under those of the clean one.

    A visit with a <mask> was infilled, a shorter one has lost codes, and in one of the same
    length codes were replaced: a visit is corrupted in one way at a time.

    Raises:
        ValueError: if no such corruption leads from the one to the other.

    >>> [step.after for step in align(["4280", "486", "5849"], ["4280", "<mask>"])]
    ['4280', '<mask>', '']
    >>> [step.fate.value for step in align(["4280", "486"], ["486"])]
    ['deleted', 'kept']
    """
    if MASK in corrupted:
        first = list(corrupted).index(MASK)
        last = len(clean) - (len(corrupted) - first - 1)
        steps = [Step(token, token, Fate.KEPT) for token in clean]
        for place in range(first, last):
            after = MASK if place == first else ""
            steps[place] = Step(clean[place], after, Fate.HIDDEN)
    elif len(corrupted) == len(clean):
        steps = [
            Step(old, new, Fate.KEPT if old == new else Fate.REPLACED)
            for old, new in zip(clean, corrupted, strict=True)
        ]
    else:
        steps, left = [], list(corrupted)
        for token in clean:
            if left and left[0] == token:
                steps.append(Step(token, left.pop(0), Fate.KEPT))
            else:
                steps.append(Step(token, "", Fate.DELETED))
    if [step.after for step in steps if step.after] != list(corrupted):
        raise ValueError(f"{list(corrupted)} is no corruption of {list(clean)}")
    return steps


def corrupt_visits(
    record: PatientRecord, tokenizer: CodeTokenizer, corruption: Corruption, *, seed: int
) -> list[list[Step]]:
    """Corrupt one patient and lay each visit under the clean one.

    Args:
        record: the patient.
        tokenizer: its ``unseen`` policy decides what becomes of unseen codes.
        corruption: without empty records: p_empty is 0.
        seed: of the corruption; the same one gives the same result.

    Raises:
        InputError: if p_empty is not 0, or a code is unseen and the policy is "raise".
    """
    if corruption.p_empty:
        raise InputError(
            "corrupt_visits",
            "corruption",
            f"its p_empty is {corruption.p_empty}",
            "An empty record has no visits to lay under the clean ones: use p_empty=0.",
        )
    clean = tokenizer.encode(record)
    corrupted = corruption.apply(
        Ragged.from_lists([clean]), tokenizer, rng=np.random.default_rng(seed)
    )
    before, after = _visits(clean, tokenizer), _visits(corrupted.to_lists()[0], tokenizer)
    return [align(old, new) for old, new in zip(before, after, strict=True)]


def _visits(ids: Sequence[int], tokenizer: CodeTokenizer) -> list[list[str]]:
    """The codes and <mask>s of each visit."""
    visits: list[list[str]] = []
    for token_id in ids:
        if token_id == tokenizer.visit_start_id:
            visits.append([])
        elif token_id >= tokenizer.mask_id:
            visits[-1].append(tokenizer.id_to_token(token_id))
    return visits


def summarise(visits: Sequence[Sequence[Step]]) -> str:
    """What was corrupted, in few words: a title.

    >>> summarise([align(["4280", "486", "5849"], ["4280", "<mask>"]), align(["42"], ["42"])])
    '2 of 4 codes are gone: 2 hidden'
    """
    fates = [step.fate for visit in visits for step in visit]
    lost = [
        f"{fates.count(fate)} {fate.value}"
        for fate in (Fate.HIDDEN, Fate.DELETED, Fate.REPLACED)
        if fate in fates
    ]
    if not lost:
        return f"Nothing is corrupted: {count(len(fates), 'code')} as before"
    gone = len(fates) - fates.count(Fate.KEPT)
    verb = "is" if gone == 1 else "are"
    return f"{gone} of {count(len(fates), 'code')} {verb} gone: {_listed(lost)}"


def describe_corruption(visits: Sequence[Sequence[Step]]) -> str:
    """Say in one sentence what :func:`draw_corruption` shows."""
    masks = sum(step.after == MASK for visit in visits for step in visit)
    touched = sum(any(step.fate is not Fate.KEPT for step in visit) for visit in visits)
    example = next(
        (_in_words(step) for visit in visits for step in visit if step.fate is not Fate.KEPT), ""
    )
    behind = f" behind {count(masks, '<mask>')}" if masks else ""
    text = summarise(visits).replace(" hidden", f" hidden{behind}")
    return (
        f"A patient of {count(len(visits), 'visit')} before and after corruption, "
        f"{touched} of them corrupted. {text}{example}."
    )


def _in_words(step: Step) -> str:
    if step.fate is Fate.REPLACED:
        return f"; {step.before}, for instance, becomes {step.after}"
    return f"; {step.before}, for instance, is {step.fate.value}"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def draw_corruption(
    record: PatientRecord,
    tokenizer: CodeTokenizer,
    corruption: Corruption,
    *,
    seed: int,
    most_lines: int = 10,
) -> Picture:
    """Draw a patient before and after corruption.

    Each visit has its clean codes, and under them what the encoder reads. A code has the colour
    of its chapter. A <mask> is as wide as the codes that it stands for; a deleted code
    leaves a dashed frame; a replaced one is light red, with a thick frame.

    Args:
        record: the patient.
        tokenizer: its ``unseen`` policy decides what becomes of unseen codes.
        corruption: without empty records.
        seed: of the corruption.
        most_lines: how many pairs of lines there may be; what is left out is said in the picture.

    Raises:
        InputError: see corrupt_visits.
    """
    visits = corrupt_visits(record, tokenizer, corruption, seed=seed)
    lines = [line for number, visit in enumerate(visits, 1) for line in _wrapped(number, visit)]
    shown, left_out = lines[:most_lines], lines[most_lines:]

    tokens = [
        token
        for line in shown
        for slot in line.slots
        for token in (slot.step.before, slot.step.after)
        if token not in (_START, _END)
    ]
    system = tokenizer.system
    found = {style.chapter_of(token, system) for token in tokens}
    key = _key_of_chapters(sorted(one for one in found if one is not None), system)
    height = _TOP + len(shown) * _PAIR + (_NOTE if left_out else 0) + _LEGEND + _MARGIN
    height += _KEY * (1 + max((row for row, *_ in key), default=-1))
    with style.course_style():
        picture = Picture(style.WIDTH, height, describe_corruption(visits))
        axes = picture.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, style.WIDTH)
        axes.set_ylim(height, 0)  # inches, from the top down
        axes.axis("off")
        axes.text(_MARGIN, 0.24, summarise(visits), size=style.TITLE, weight="bold", va="center")
        _write(
            axes,
            _MARGIN,
            0.5,
            "above: the clean visit; below: what the encoder reads; "
            f"p = {corruption.p_delete:g}, mean span {corruption.mean_span:g}",
        )
        y = _TOP
        for line in shown:
            _draw_line(axes, line, y, system)
            y += _PAIR
        if left_out:
            more = count(sum(len(line.slots) for line in left_out), "more token")
            _write(axes, _MARGIN + _GUTTER, y + 0.06, f"and {more}")
            y += _NOTE
        _draw_legend(axes, y)
        for row, x, chapter in key:
            _draw_key(axes, x, y + _LEGEND + row * _KEY, chapter, system)
    return picture


# ---------------------------------------------------------------------- layout, in inches

_MARGIN = 0.12
_GUTTER = 0.62  # where "visit 1" stands
_TOP = 0.72
_BOX = 0.25
_UNDER = 0.29  # from a box to the one under it
_PAIR = 0.72
_NOTE = 0.2
_LEGEND = 0.3
_KEY = 0.22  # a line of the key that names the chapters
_BETWEEN = 0.05
_CHARACTER = style.text_width("0" * 100, style.TEXT, family="DejaVu Sans Mono") / 100
_START, _END = SPECIAL_TOKENS[CodeTokenizer.visit_start_id : CodeTokenizer.visit_end_id + 1]


class _Slot(NamedTuple):
    step: Step
    x: float
    width: float


class _Line(NamedTuple):
    label: str
    slots: list[_Slot]


def _wrapped(number: int, visit: Sequence[Step]) -> list[_Line]:
    """A visit as lines of slots, its markers around it."""
    left, right = _MARGIN + _GUTTER, style.WIDTH - _MARGIN
    frame = [Step(marker, marker, Fate.KEPT) for marker in (_START, _END)]
    lines = [_Line(f"visit {number}", [])]
    x = left
    for step in (frame[0], *visit, frame[1]):
        width = _CHARACTER * max(len(step.before), len(step.after)) + 0.14
        if lines[-1].slots and x + width > right:
            lines.append(_Line("", []))
            x = left
        lines[-1].slots.append(_Slot(step, x, width))
        x += width + _BETWEEN
    return lines


def _draw_line(axes: Axes, line: _Line, y: float, system: CodeSystem) -> None:
    _write(axes, _MARGIN, y + _BOX / 2, line.label)
    y_after = y + _UNDER
    masked: list[_Slot] = []
    for slot in line.slots:
        _draw_box(axes, slot.x, y, slot.width, slot.step.before, system)
        if slot.step.fate is Fate.HIDDEN:
            masked.append(slot)
        elif slot.step.fate is Fate.DELETED:
            _frame(axes, slot.x, y_after, slot.width, edge=style.MUTED, style_="dashed")
        else:
            replaced = slot.step.fate is Fate.REPLACED
            _draw_box(axes, slot.x, y_after, slot.width, slot.step.after, system,
                      colour=_OTHER if replaced else None)  # fmt: skip
            if replaced:
                _frame(axes, slot.x, y_after, slot.width, edge=style.INK, thick=1.8)
    if masked:
        # A visit has one span, so what is hidden on a line is side by side. Where the span goes
        # on over a line, the <mask> is written once and its bar goes on.
        x, end = masked[0].x, masked[-1].x + masked[-1].width
        _draw_box(axes, x, y_after, end - x, masked[0].step.after, system, colour=style.INK)


def _draw_box(
    axes: Axes,
    x: float,
    y: float,
    width: float,
    token: str,
    system: CodeSystem,
    *,
    colour: str | None = None,
) -> None:
    if colour is None and token not in SPECIAL_TOKENS:
        colour = style.chapter_colour(style.chapter_of(token, system), system)
    if colour is None:
        _frame(axes, x, y, width, edge=style.MUTED)
    else:
        _frame(axes, x, y, width, edge=colour, face=colour)
    axes.text(
        x + width / 2,
        y + _BOX / 2,
        token,
        size=style.TEXT,
        family="DejaVu Sans Mono",
        color=style.INK if colour is None else style.ink_on(colour),
        ha="center",
        va="center_baseline",
        parse_math=False,
    )


def _frame(
    axes: Axes,
    x: float,
    y: float,
    width: float,
    *,
    edge: str,
    face: str = "none",
    thick: float = 0.8,
    style_: str = "solid",
) -> None:
    axes.add_patch(
        FancyBboxPatch(
            (x, y),
            width,
            _BOX,
            boxstyle="round,pad=0,rounding_size=0.04",
            edgecolor=edge,
            facecolor=face,
            linewidth=thick,
            linestyle=style_,
        )
    )


def _draw_legend(axes: Axes, y: float) -> None:
    x = _MARGIN
    y += 0.04
    for name in ("hidden behind one <mask>", "deleted", "replaced by another code"):
        face = style.INK if name.startswith("hidden") else "none"
        face = _OTHER if name.startswith("replaced") else face
        edge = style.MUTED if name == "deleted" else style.INK
        thick = 1.8 if name.startswith("replaced") else 0.8
        axes.add_patch(
            FancyBboxPatch(
                (x, y),
                0.2,
                0.14,
                boxstyle="round,pad=0,rounding_size=0.03",
                edgecolor=edge,
                facecolor=face,
                linewidth=thick,
                linestyle="dashed" if name == "deleted" else "solid",
            )
        )
        axes.text(x + 0.27, y + 0.07, name, size=style.SMALL, va="center")
        x += 0.27 + style.text_width(name, style.SMALL) + 0.3


def _key_of_chapters(chapters: Sequence[int], system: CodeSystem) -> list[tuple[int, float, int]]:
    """The row, the x and the number of each chapter in the key."""
    places, row, x = [], 0, _MARGIN
    for chapter in chapters:
        width = 0.2 + style.text_width(style.chapter_name(chapter, system), style.SMALL)
        if x + width > style.WIDTH - _MARGIN:
            row, x = row + 1, _MARGIN
        places.append((row, x, chapter))
        x += width + 0.18
    return places


def _draw_key(axes: Axes, x: float, y: float, chapter: int, system: CodeSystem) -> None:
    colour = style.chapter_colour(chapter, system)
    axes.add_patch(Rectangle((x, y + 0.04), 0.14, 0.14, facecolor=colour, edgecolor=style.MUTED))
    name = style.chapter_name(chapter, system)
    axes.text(x + 0.2, y + 0.11, name, size=style.SMALL, va="center")


def _write(axes: Axes, x: float, y: float, text: str) -> None:
    axes.text(x, y, text, size=style.SMALL, color=style.MUTED, va="center")
