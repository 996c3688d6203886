"""The registry of drawings: each is drawn once, and held to the same rules as all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ehr_course.plots.style import Picture


class Case(NamedTuple):
    """A drawing, what its alternative text must say, and texts that must stand in it."""

    draw: Callable[[], Picture]
    said: tuple[str, ...]
    shown: Sequence[str]


CASES: dict[str, Case] = {}


def _line(draw: Callable[[], Picture]) -> tuple[str, int]:
    return draw.__code__.co_filename, draw.__code__.co_firstlineno


def drawing(
    *said: str, shown: Sequence[str] = ()
) -> Callable[[Callable[[], Picture]], Callable[[], Picture]]:
    """Register a function that draws: ``@drawing("7 tokens", f"{share:.0%}")``.

    Args:
        said: what must stand in the alternative text: numbers computed here, not by the drawing.
        shown: labels that must stand in the picture.
    """

    def register(draw: Callable[[], Picture]) -> Callable[[], Picture]:
        name = f"{draw.__module__.rsplit('.', 1)[-1].removeprefix('drawings_')}: {draw.__name__}"
        # pytest imports a file a second time, under another name, to look for doctests.
        twice = name in CASES and _line(CASES[name].draw) != _line(draw)
        assert not twice, f"{name} stands there twice"
        CASES[name] = Case(draw, said, shown)
        return draw

    return register
