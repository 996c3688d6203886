"""A widget's pictures for a page where no kernel draws them, such as one of the book.

The course's build asks for them through the environment variable WANTED. Each control then takes
some of its values in turn, and every picture goes into the output of the cell, beside the first.
"""

from __future__ import annotations

import base64
import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ipywidgets
import numpy as np
from PIL import Image

from ehr_course.plots.style import Picture

STATES = "application/vnd.ehr-course.widget-states+json"
"""The type of the output that holds the pictures."""

WANTED = "EHR_COURSE_WIDGET_STATES"
"""The environment variable that asks for the pictures, if it is set to anything."""

MOST_BYTES = 1_000_000
"""Sliders take so few of their values that the pictures of a widget have about this size."""


@dataclass(frozen=True)
class State:
    """One setting of the controls, and what is then seen.

    Attributes:
        settings: what each control shows, in the order of the controls.
        words: the picture's alternative text.
        webp: the picture's pixels, as a WebP file without loss.
    """

    settings: tuple[str, ...]
    words: str
    webp: bytes


def wanted() -> bool:
    """Whether the pictures of every state are asked for."""
    return bool(os.environ.get(WANTED))


def state_of(settings: Sequence[str], picture: Picture) -> State:
    """A setting and its picture, with the same pixels as the one that a notebook stores."""
    file = io.BytesIO()
    pixels = Image.open(io.BytesIO(picture.live_png())).convert("RGB")
    pixels.save(file, format="WEBP", lossless=True, quality=60, method=4)
    return State(tuple(settings), picture.alternative_text, file.getvalue())


def output_of(
    controls: Sequence[Mapping[str, str]], states: Sequence[State], first: State
) -> dict[str, Any]:
    """The pictures as the content of an output of the type STATES.

    A control with the same setting in every state is left out: there is nothing to move.

    Args:
        controls: what stands beside each control, as "description", and its "kind": "slider",
            "choice" or "check".
        states: every state that the page offers.
        first: the state that the page opens on, one of the states.
    """
    moving = [
        place for place in range(len(controls)) if len({one.settings[place] for one in states}) > 1
    ]
    return {
        "controls": [dict(controls[place]) for place in moving],
        "first": states.index(first),
        "states": [
            {
                "settings": [state.settings[place] for place in moving],
                "words": state.words,
                "webp": base64.b64encode(state.webp).decode("ascii"),
            }
            for state in states
        ],
    }


def kind_of(control: ipywidgets.ValueWidget) -> str:
    """How a page shows a control: as a "slider", a "choice" or a "check"."""
    if isinstance(control, ipywidgets.Checkbox):
        return "check"
    if isinstance(control, ipywidgets.Dropdown):
        return "choice"
    return "slider"


def shown(control: ipywidgets.ValueWidget) -> str:
    """What a control shows as its setting."""
    if hasattr(control, "options"):
        return control.label
    if isinstance(control, ipywidgets.Checkbox):
        return "yes" if control.value else "no"
    return f"{control.value:g}"


def settings_in_turn(
    controls: Mapping[str, ipywidgets.ValueWidget],
    offered: Mapping[str, Sequence[Any]],
    most: int,
) -> Iterator[None]:
    """Move controls through what a page offers; between two settings the caller looks.

    A control may change the limits of those after it, as a patient that has so many visits.
    At the end each control is where it was.

    Args:
        controls: by name; moved in place.
        offered: the values that a control takes beside its present one, by its name. Without them
            a choice takes all of its options, and a slider values at equal distances.
        most: about so many settings in all, if there are sliders to leave values out.
    """
    before = {name: control.value for name, control in controls.items()}
    share = _values_of_a_slider(controls, offered, most)

    def values(name: str) -> list[Any]:
        control, present = controls[name], before[name]
        if name not in offered:
            return _some_of(control, present, share)
        return _with(present, offered[name])

    def move(names: Sequence[str]) -> Iterator[None]:
        if not names:
            yield
            return
        for value in values(names[0]):
            controls[names[0]].value = value
            yield from move(names[1:])

    try:
        yield from move(list(controls))
    finally:
        for name, value in before.items():
            controls[name].value = value


def _values_of_a_slider(
    controls: Mapping[str, ipywidgets.ValueWidget],
    offered: Mapping[str, Sequence[Any]],
    most: int,
) -> int:
    """How many values each slider takes, so that there are about so many settings in all."""
    fixed, sliders = 1, 0
    for name, control in controls.items():
        if name in offered:
            fixed *= len(_with(control.value, offered[name]))
        elif _is_numeric(control):
            sliders += 1
        else:
            fixed *= len(_options(control))
    if fixed > 2 * most:
        raise ValueError(
            f"the controls {', '.join(controls)} have {fixed} settings, too many for a page; say "
            f"with `in_the_book` which ones it offers"
        )
    return max(2, math.floor((most / fixed) ** (1 / max(1, sliders))))


def _with(present: Any, offered: Sequence[Any]) -> list[Any]:
    return [*([] if present in offered else [present]), *offered]


def _is_numeric(control: ipywidgets.ValueWidget) -> bool:
    return hasattr(control, "min") and hasattr(control, "max")


def _options(control: ipywidgets.ValueWidget) -> list[Any]:
    if isinstance(control, ipywidgets.Checkbox):
        return [False, True]
    return [
        option[1] if isinstance(option, tuple) and len(option) == 2 else option
        for option in control.options
    ]


def _some_of(control: ipywidgets.ValueWidget, present: Any, most: int) -> list[Any]:
    if not _is_numeric(control):
        return _options(control)
    steps = round((control.max - control.min) / control.step)
    chosen = np.unique(np.linspace(0, steps, min(most, steps + 1)).round().astype(int))
    values = {round(control.min + int(step) * control.step, 9) for step in chosen}
    inside = {present} if control.min <= present <= control.max else set()
    return sorted(values | inside)
