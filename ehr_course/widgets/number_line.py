"""Move the loss scale, and see which gradients float16 loses."""

from __future__ import annotations

import ipywidgets
from torch import Tensor

from ehr_course.errors import InputError
from ehr_course.plots.number_line import Sizes, draw_sizes
from ehr_course.plots.style import Picture
from ehr_course.widgets.static import PictureWidget

LOWEST, HIGHEST = -16, 40
"""The powers of two that the slider reaches."""


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
    if not LOWEST <= exponent <= HIGHEST:
        raise InputError(
            "number_line_explorer",
            "exponent",
            f"{exponent} is out of range",
            f"Use {LOWEST} to {HIGHEST}.",
        )
    sizes = Sizes(gradients)

    def draw(exponent: int) -> Picture:
        return draw_sizes(sizes, exponent=exponent)

    slider = ipywidgets.IntSlider(
        value=exponent,
        min=LOWEST,
        max=HIGHEST,
        description="loss scale = 2 to the power of",
        # A picture takes a moment: draw where the slider stops, not on its way.
        continuous_update=False,
        layout=ipywidgets.Layout(width="480px", max_width="100%"),
        style={"description_width": "initial"},
    )
    return PictureWidget(draw, {"exponent": slider})
