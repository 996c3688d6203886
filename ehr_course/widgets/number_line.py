"""Move the loss scale, and see which gradients float16 loses: what becomes 0 or infinite."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import ipywidgets
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from ehr_course.errors import InputError
from ehr_course.plots import style
from ehr_course.plots.style import Picture
from ehr_course.widgets.static import PictureWidget, slider

FIRST, LAST = -16, 40
"""The powers of two that the slider reaches."""

SMALLEST_NORMAL = torch.finfo(torch.float16).smallest_normal
"""2**-14. Below it there are fewer than 11 significant bits."""

LARGEST = torch.finfo(torch.float16).max
"""65,504. From 65,520 on a number rounds to infinity."""

LOWEST, HIGHEST = -48, 32
"""The powers of two that are drawn."""


class Float16Counts(NamedTuple):
    """How many of some numbers are what in float16.

    Attributes:
        zero_before: those that are exactly 0 already.
        underflow: those that are not, and become 0.
        subnormal: those that keep fewer bits.
        normal: those that keep 11 significant bits.
        overflow: those that become infinite, and those that are no finite numbers already.
    """

    zero_before: int
    underflow: int
    subnormal: int
    normal: int
    overflow: int

    @property
    def not_zero(self) -> int:
        """How many are not 0 to begin with."""
        return self.underflow + self.subnormal + self.normal + self.overflow


def count_in_float16(gradients: Tensor, scale: float = 1.0) -> Float16Counts:
    """Round numbers to float16, and count what becomes of them.

    Args:
        gradients: float, of any shape.
        scale: what they are multiplied by first.

    >>> count_in_float16(torch.tensor([0.0, 1e-9, 1e-6, 0.1, 1e5]))
    Float16Counts(zero_before=1, underflow=1, subnormal=1, normal=1, overflow=1)
    >>> count_in_float16(torch.tensor([0.0, 1e-9, 1e-6, 0.1, 1e5]), 1024).underflow
    0
    """
    wide = gradients.detach().flatten().double()
    # float32 first, as in a training: there too the largest can be too large.
    half = (wide * scale).float().half().double().abs()
    zero_before = wide == 0
    overflow = ~half.isfinite()
    subnormal = (half > 0) & (half < SMALLEST_NORMAL)
    underflow = (half == 0) & ~zero_before
    n_zero, n_under, n_subnormal, n_over = (
        int(one.sum()) for one in (zero_before, underflow, subnormal, overflow)
    )
    rest = wide.numel() - n_zero - n_under - n_subnormal - n_over
    return Float16Counts(n_zero, n_under, n_subnormal, rest, n_over)


class Sizes:
    """The sizes of gradients in order, from which it is read off what each loss scale does.

    To round all of them again for each step of a slider would take longer than to draw.

    Args:
        gradients: float32, of any shape, without a loss scale.
    """

    def __init__(self, gradients: Tensor) -> None:
        sizes = gradients.detach().flatten().double().abs().numpy()
        self._zeros = int((sizes == 0).sum())
        self._sizes = np.sort(sizes[sizes != 0])  # infinities, then NaNs, come last

    def counts(self, exponent: int) -> Float16Counts:
        """What becomes of them, as ``count_in_float16`` counts with a scale of 2**exponent."""
        # Halfway to the next number the even one is taken: 0, 2**-14 and infinity.
        middles = np.array([2.0**-25, SMALLEST_NORMAL - 2.0**-25, LARGEST + 16]) / 2.0**exponent
        underflow = int(self._sizes.searchsorted(middles[0], side="right"))
        small, finite = self._sizes.searchsorted(middles[1:]).tolist()
        return Float16Counts(
            self._zeros, underflow, small - underflow, finite - small, len(self._sizes) - finite
        )

    def powers_of_two(self, exponent: int = 0) -> np.ndarray:
        """How many lie in [2**e, 2**(e+1)), times 2**exponent, for e from LOWEST to HIGHEST - 1.

        What lies beyond is counted at the ends. Zeros, infinities and NaN are not counted.

        Returns:
            int64 (HIGHEST - LOWEST,).
        """
        inner = 2.0 ** (np.arange(LOWEST + 1, HIGHEST) - exponent)
        places = self._sizes.searchsorted([*inner, math.inf])
        return np.diff(places, prepend=0)


def number_line_explorer(gradients: Tensor, *, exponent: int = 0) -> PictureWidget:
    """Choose a loss scale, and see the gradients of a model on the number line of float16.

    Args:
        gradients: float32, of any shape, without a loss scale.
        exponent: the slider stands at a loss scale of two to the power of it at first.

    Returns:
        A widget with the control ``exponent``, -16 to 40.

    Raises:
        InputError: if no gradient is a finite number other than 0, or the slider does not reach
            the exponent.
    """
    if not FIRST <= exponent <= LAST:
        raise InputError(
            "number_line_explorer",
            "exponent",
            f"{exponent} is out of range",
            f"Use {FIRST} to {LAST}.",
        )
    sizes = Sizes(gradients)
    if not sizes.powers_of_two().any():
        raise InputError(
            "number_line_explorer",
            "gradients",
            "none is a finite number other than 0",
            "Call backward() first, and give the gradients without a loss scale.",
        )

    def draw(exponent: int) -> Picture:
        return draw_sizes(sizes, exponent=exponent)

    power = slider("loss scale = 2 to the power of", exponent, FIRST, LAST)
    power.layout = ipywidgets.Layout(width="480px", max_width="100%")
    return PictureWidget(draw, {"exponent": power})


# ---------------------------------------------------------------------- the picture


def summarise(counts: Float16Counts, exponent: int) -> str:
    """What becomes of the gradients, in few words: a title.

    >>> summarise(Float16Counts(0, 5, 10, 985, 0), 0)
    'Loss scale 2⁰: 0.5% become 0, 1.0% lose bits, none overflow'
    >>> summarise(Float16Counts(0, 0, 0, 9999, 1), 20)
    'Loss scale 2²⁰: 1 of 10,000 overflow, so the step is skipped'
    """
    title = f"Loss scale {_power(exponent)}: "
    if counts.overflow:
        return f"{title}{_share(counts.overflow, counts)} overflow, so the step is skipped"
    return (
        f"{title}{_share(counts.underflow, counts)} become 0, "
        f"{_share(counts.subnormal, counts)} lose bits, none overflow"
    )


def describe_number_line(counts: Float16Counts, exponent: int) -> str:
    """Say in one sentence what :func:`draw_sizes` shows."""
    return (
        f"Histogram of {counts.not_zero:,} gradients over powers of two, multiplied by a loss "
        f"scale of 2 to the {exponent}, on the number line of float16: {counts.underflow:,} "
        f"become 0, {counts.subnormal:,} are subnormal, {counts.normal:,} are normal and "
        f"{counts.overflow:,} become infinite."
    )


def draw_sizes(sizes: Sizes, *, exponent: int = 0) -> Picture:
    """Draw gradients, multiplied by two to the power of the exponent, on float16's number line.

    Zeros are left out.
    """
    histogram = sizes.powers_of_two(exponent)
    counts = sizes.counts(exponent)
    with style.course_style():
        picture = Picture(style.WIDTH, _HEIGHT, describe_number_line(counts, exponent))
        picture.text(
            _MARGIN / style.WIDTH,
            1 - 0.24 / _HEIGHT,
            summarise(counts, exponent),
            size=style.TITLE,
            weight="bold",
            va="center",
        )
        axes = picture.add_axes(
            (
                _LEFT / style.WIDTH,
                _BOTTOM / _HEIGHT,
                1 - (_LEFT + _RIGHT) / style.WIDTH,
                1 - (_TOP + _BOTTOM) / _HEIGHT,
            )
        )
        _draw_zones(axes)
        _draw_bars(axes, 100 * histogram / histogram.sum())
    return picture


def _share(number: int, counts: Float16Counts) -> str:
    """A share in percent; "none" and "all" are said of exactly these."""
    if number in (0, counts.not_zero):
        return "all" if number else "none"
    share = 100 * number / counts.not_zero
    if share < 0.1:
        return f"{number:,} of {counts.not_zero:,}"
    return f"{min(share, 99.9):.1f}%"


def _power(exponent: int) -> str:
    return "2" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


# ---------------------------------------------------------------------- layout, in inches

_HEIGHT = 3.3
_MARGIN = 0.12
_LEFT, _RIGHT = 0.66, 0.3
_TOP = 0.86
_BOTTOM = 0.56

_ZONES = (
    # name, first power, power after the last, colour of its bars and their hatching
    ("becomes 0", LOWEST, -25, style.PAPER, "////"),
    ("subnormal", -25, -14, "#8fb7c9", ""),
    ("normal in float16", -14, 16, "#31688e", ""),
    ("infinite", 16, HIGHEST, style.PAPER, "xxxx"),
)


def _draw_zones(axes: Axes) -> None:
    axes.set_xlim(LOWEST, HIGHEST)
    powers = range(LOWEST, HIGHEST + 1, 8)
    axes.set_xticks(powers, [_power(power) for power in powers])
    axes.set_xlabel("size of gradient times loss scale; the outer bars hold all that is beyond")
    axes.set_ylabel("% of the gradients")
    across = axes.get_xaxis_transform()
    for name, first, after, _, _ in _ZONES:
        axes.text(
            (first + after) / 2,
            1.04,
            name,
            transform=across,
            size=style.SMALL,
            ha="center",
            va="bottom",
        )
    for power, label in ((-25, _power(-25)), (-14, _power(-14)), (16, "65,520")):
        axes.axvline(power, color=style.INK, linewidth=1.0, linestyle="dashed")
        axes.text(
            power,
            1.13,
            label,
            transform=across,
            size=style.SMALL,
            color=style.MUTED,
            ha="center",
            va="bottom",
        )


def _draw_bars(axes: Axes, shares: np.ndarray) -> None:
    for _, first, after, colour, hatch in _ZONES:
        places, of_zone = np.arange(first, after) + 0.5, shares[first - LOWEST : after - LOWEST]
        high = of_zone > 0  # to hatch takes time, also where there is nothing to hatch
        look: dict[str, Any] = {"color": colour, "edgecolor": style.INK, "linewidth": 0.6}
        axes.bar(places[~high], of_zone[~high], 1.0, **look)
        axes.bar(places[high], of_zone[high], 1.0, hatch=hatch, **look)
    highest = 1.08 * shares.max()
    axes.set_ylim(0, highest)
    ticks = MaxNLocator(5, integer=True).tick_values(0, highest)
    axes.set_yticks([tick for tick in ticks if tick <= highest])
    axes.yaxis.set_major_formatter("{x:g}")
