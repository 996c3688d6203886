"""A picture's pixels in little time, for a widget whose control has just moved.

``Picture.png`` redraws every text and compresses well. Here both are cut short: what a text
looks like is remembered from the pictures before, and the file is a little larger or smaller. The
pixels are the same.
"""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any, NamedTuple

import numpy as np
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, fontManager, get_font

MOST_REMEMBERED = 2_000
"""The most texts remembered, about 10 kB each; then the memory is emptied."""


def live_png(figure: Figure, dpi: float) -> bytes:
    """A figure as a PNG file, drawn with the settings of matplotlib that are in force."""
    before = figure.dpi
    figure.dpi = dpi
    try:
        size = figure.canvas.get_width_height(physical=True)
        renderer = _Renderer(*size, dpi)
        figure.draw(renderer)
    finally:
        figure.dpi = before
    return encode(np.asarray(renderer.buffer_rgba()))


def encode(pixels: np.ndarray) -> bytes:
    """Pixels as a PNG file, in less than half of the time that Pillow takes.

    Pillow tries five filters on each line, which helps photographs. A drawing with large even
    areas needs none, and is compressed fast as it is.

    Args:
        pixels: uint8 (height, width, 4), red, green, blue and an opacity, which is left out.
    """
    height, width, _ = pixels.shape
    lines = np.zeros((height, 1 + 3 * width), np.uint8)  # 0 before each line: no filter
    for channel in range(3):
        lines[:, 1 + channel :: 3] = pixels[:, :, channel]
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)  # 8 bits of red, green, blue
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(lines.data, level=1)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


class _Piece(NamedTuple):
    """A bitmap that makes up a text or a part of it."""

    bitmap: np.ndarray
    x: int  # from the whole pixel that the text stands at
    y: int
    angle: float


_sizes: dict[tuple, tuple[float, float, float]] = {}
_lines: dict[tuple, tuple[float, float, float]] = {}
_drawn: dict[tuple, list[_Piece]] = {}


class _Renderer(RendererAgg):
    """Draws as matplotlib's own renderer, and remembers texts from one picture to the next."""

    def get_text_width_height_descent(
        self, s: str, prop: FontProperties, ismath: bool | str
    ) -> tuple[float, float, float]:
        key = (s, hash(prop), ismath, self.dpi)
        if key not in _sizes:
            _make_room(_sizes)
            _sizes[key] = super().get_text_width_height_descent(s, prop, ismath)
        return _sizes[key]

    def _get_font_height_metrics(self, prop: FontProperties) -> tuple[float, float, float]:
        """What a line of text rises, falls and keeps free: matplotlib asks for each text again."""
        key = (hash(prop), self.dpi)
        if key not in _lines:
            font = get_font(fontManager._find_fonts_by_props(prop))
            head, table = font.get_sfnt_table("head"), font.get_sfnt_table("OS/2")
            assert head is not None  # matplotlib's own fonts have both tables
            assert table is not None
            scale = 1 / head["unitsPerEm"] * prop.get_size_in_points() * self.dpi / 72
            _lines[key] = (
                table["sTypoAscender"] * scale,
                -table["sTypoDescender"] * scale,
                table["sTypoLineGap"] * scale,
            )
        return _lines[key]

    def draw_text(
        self,
        gc: Any,
        x: float,
        y: float,
        s: str,
        prop: FontProperties,
        angle: float,
        ismath: bool | str = False,
        mtext: Any = None,
    ) -> None:
        if ismath:
            super().draw_text(gc, x, y, s, prop, angle, ismath, mtext)
            return
        left, top = math.floor(x), math.floor(y)
        # The same text has the same pixels where it stands at the same part of a pixel, in 64ths.
        part = round(64 * (x - left), 6), round(64 * (y - top), 6)
        key = (s, hash(prop), angle, self.dpi, gc.get_antialiased(), part)
        if key in _drawn:
            for bitmap, dx, dy, turned in _drawn[key]:
                self._renderer.draw_text_image(bitmap, left + dx, top + dy, turned, gc)
            return
        plain = self._renderer
        self._renderer = recorder = _Recorder(plain)
        try:
            super().draw_text(gc, x, y, s, prop, angle, ismath, mtext)
        finally:
            self._renderer = plain
        _make_room(_drawn)
        _drawn[key] = [
            _Piece(bitmap, dx - left, dy - top, turned)
            for bitmap, dx, dy, turned in recorder.pieces
        ]


class _Recorder:
    """Stands in for the inner renderer, and keeps a copy of the bitmaps that pass."""

    def __init__(self, plain: Any) -> None:
        self._plain = plain
        self.pieces: list[_Piece] = []

    def draw_text_image(self, bitmap: np.ndarray, x: int, y: int, angle: float, gc: Any) -> None:
        self._plain.draw_text_image(bitmap, x, y, angle, gc)
        self.pieces.append(_Piece(np.array(bitmap), x, y, angle))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)


def _make_room(remembered: dict) -> None:
    if len(remembered) >= MOST_REMEMBERED:
        remembered.clear()
