"""Numbers as coloured cells that fill their axes."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.transforms import Affine2D


def draw_cells(axes: Axes, values: np.ndarray, **colours: Any) -> AxesImage:
    """Fill axes with a cell for each number, the first row on top, all of one size.

    The pixels are those of ``axes.imshow(values, aspect="auto", interpolation="nearest")``, in a
    fraction of the time: cells are coloured and then enlarged, where imshow colours every pixel.
    (Where a border between rows cuts pixels in halves, imshow gives the last of them in its
    line to the other row.)

    Args:
        axes: their limits are set: a cell's middle is at whole numbers.
        values: (rows, columns).
        colours: ``cmap``, and ``norm`` or ``vmin`` and ``vmax``, as for imshow.

    Returns:
        The image, with the numbers as its array.
    """
    limits = {name: colours.pop(name) for name in ("vmin", "vmax") if name in colours}
    image = _Cells(axes, interpolation="nearest", **colours)
    image.set_data(values)
    if limits:
        image.set_clim(**limits)
    image.set_clip_path(axes.patch)
    axes.set_aspect("auto")
    image.set_extent(image.get_extent())
    axes.add_image(image)
    return image


class _Cells(AxesImage):
    def make_image(
        self, renderer: Any, magnification: float = 1.0, unsampled: bool = False
    ) -> tuple[np.ndarray, float, float, Affine2D]:
        box = self.axes.bbox
        left, right = np.floor(box.x0 + 0.5), np.floor(box.x1 + 0.5 + 1e-8)
        bottom, top = np.ceil(box.y0 - 0.5 - 1e-8), np.ceil(box.y1 - 0.5)
        array = self.get_array()
        assert array is not None  # `draw_cells` has given one
        cells = np.ascontiguousarray(self.to_rgba(array, bytes=True))
        n_rows, n_columns, _ = cells.shape
        # Which cell the middle of each pixel lies in; the first line of pixels is the lowest. On a
        # border, to within rounding, it is the cell on the left and the one above.
        across = (np.arange(left, right) + 0.5 - box.x0) * n_columns / box.width
        down = n_rows - (np.arange(bottom, top) + 0.5 - box.y0) * n_rows / box.height
        columns = (np.ceil(across - 1e-6).astype(int) - 1).clip(0, n_columns - 1)
        rows = (np.ceil(down - 1e-6).astype(int) - 1).clip(0, n_rows - 1)
        pixels = cells.view(np.uint32)[:, columns, 0][rows]  # a pixel is four bytes
        return pixels.view(np.uint8).reshape(*pixels.shape, 4), left, bottom, Affine2D()
