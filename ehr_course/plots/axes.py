"""Axes that are made and drawn in less time, and draw the same as those of matplotlib.

A tick of matplotlib is three lines and two texts. Most of the time of a small picture goes into
making them, and nearly all of them look alike: here one tick walks along where matplotlib makes
many. The rest goes into how far the data reach. That is measured only where limits follow it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import matplotlib
import matplotlib.axes
from matplotlib.artist import Artist
from matplotlib.axis import Axis, Tick, XAxis, YAxis
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import NullLocator


class Axes(matplotlib.axes.Axes):
    """matplotlib's axes, but for the time that they take."""

    def _init_axis(self) -> None:
        self.xaxis = _WalkedXAxis(self, clear=False)
        self.yaxis = _WalkedYAxis(self, clear=False)
        for axis, sides in ((self.xaxis, ("bottom", "top")), (self.yaxis, ("left", "right"))):
            for side in sides:
                self.spines[side].register_axis(axis)

    def _update_patch_limits(self, patch: Patch) -> None:
        if not self._limits_follow_data():
            return
        if type(patch) is Rectangle and patch.get_data_transform() is self.transData:
            (left, bottom), width, height = patch.get_xy(), patch.get_width(), patch.get_height()
            if not patch.get_angle() and (width or height):
                self.update_datalim([(left, bottom), (left + width, bottom + height)])
                return
        # matplotlib's types leave its private methods out, here and below.
        super()._update_patch_limits(patch)  # type: ignore[misc]

    def _update_line_limits(self, line: Line2D) -> None:
        if self._limits_follow_data():
            super()._update_line_limits(line)  # type: ignore[misc]

    def _limits_follow_data(self) -> bool:
        return self.get_autoscalex_on() or self.get_autoscaley_on()


class _Walk(Sequence[Tick]):
    """One tick at each of its places in turn; it cannot stand at several places, so no slices."""

    def __init__(self, tick: Tick, places: list[tuple[float, str]]) -> None:
        self._tick = tick
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, number: int) -> Tick:  # type: ignore[override]
        place, label = self._places[number]
        self._tick.update_position(place)
        self._tick.label1.set_text(label)
        self._tick.label2.set_text(label)
        return self._tick

    def __iter__(self) -> Iterator[Tick]:
        return (self[number] for number in range(len(self)))


class _Walked(Axis):
    """What an axis does otherwise. Whoever asks for its ticks gets them all, each its own."""

    _setting = False
    _walks = False  # so the one tick stands for all, until they are asked for
    _known: dict[str, Any] | None = None  # what drawing asks for several times, while it draws

    def draw(self, renderer: Any) -> None:
        self._known = {}
        try:
            with self._unmade("minorTicks") if self._has_no_minor() else nullcontext():
                super().draw(renderer)
        finally:
            self._known = None

    def _get_ticklabel_bboxes(self, ticks: Sequence[Tick], renderer: Any) -> Any:
        stands_beside = self.label.get_text() or self.get_major_formatter().get_offset()
        if self._known is not None and not stands_beside:
            return [], []
        boxes = super()._get_ticklabel_bboxes  # type: ignore[misc]
        return self._once("boxes", lambda: boxes(ticks, renderer))

    def _update_ticks(self) -> Sequence[Tick]:
        return self._once("ticks", self._ticks_inside)

    def _once(self, name: str, value: Callable[[], Any]) -> Any:
        if self._known is None:
            return value()
        if name not in self._known:
            self._known[name] = value()
        return self._known[name]

    def _has_no_minor(self) -> bool:
        return isinstance(self.get_minor_locator(), NullLocator)

    def _ticks_inside(self) -> Sequence[Tick]:
        """The ticks that lie inside of the limits."""
        if len(self.majorTicks) != 1 or not self._has_no_minor():
            return super()._update_ticks()  # type: ignore[misc]
        self._walks = True
        places = self.get_majorticklocs()
        # It takes an array as well as the list that its type asks for, as matplotlib itself does.
        labels = self.get_major_formatter().format_ticks(places)  # type: ignore[arg-type]
        low, high = sorted(self.get_transform().transform(self.get_view_interval()))
        near = 1e-10 * (high - low)
        at = self.get_transform().transform(places)
        inside = [
            (place, label)
            for place, label, where in zip(places, labels, at, strict=True)
            if low - near <= where <= high + near
        ]
        return _Walk(self.majorTicks[0], inside)

    def clear(self) -> None:
        # A tick that is made late looks as one made now.
        self._style = {k: v for k, v in dict.items(matplotlib.rcParams) if k != "backend"}
        super().clear()

    def _get_tick(self, major: bool) -> Tick:
        with matplotlib.rc_context():
            # `dict`'s own method: that of rcParams would check each value again.
            dict.update(matplotlib.rcParams, self._style)  # type: ignore[misc]
            return super()._get_tick(major)  # type: ignore[misc]

    def set_ticks(self, *args: Any, **kwargs: Any) -> Any:
        self._setting = True
        try:
            return super().set_ticks(*args, **kwargs)
        finally:
            self._setting = False

    def get_major_ticks(self, numticks: int | None = None) -> list[Tick]:
        if self._setting:  # the first one has all properties that are being set
            return self.majorTicks[:1]
        before = len(self.majorTicks)
        ticks = super().get_major_ticks(numticks)
        if self._walks and before < len(ticks):
            super()._update_ticks()  # type: ignore[misc]
        return ticks

    # A tick is made where one is looked at. To clip the lines of a grid, which no picture of the
    # course has, or to note how ticks shall look, none is needed.

    def set_clip_path(self, path: Any, transform: Any = None) -> None:
        Artist.set_clip_path(self, path, transform)

    def set_tick_params(self, *args: Any, **kwargs: Any) -> None:
        with self._unmade("majorTicks", "minorTicks"):
            super().set_tick_params(*args, **kwargs)

    @contextmanager
    def _unmade(self, *names: str) -> Iterator[None]:
        """Leave ticks unmade that are not made yet."""
        unmade = set(names) - set(vars(self))
        vars(self).update({name: [] for name in unmade})
        yield
        for name in unmade:
            vars(self).pop(name, None)


class _WalkedXAxis(_Walked, XAxis):
    pass


class _WalkedYAxis(_Walked, YAxis):
    pass
