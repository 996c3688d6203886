"""Cases for the drawings of lesson 15."""

from __future__ import annotations

import torch
from registry import drawing

from ehr_course.widgets.number_line import Sizes, draw_sizes


def sizes(spread):
    generator = torch.Generator().manual_seed(0)
    return Sizes(2.0 ** (spread * torch.randn(3_000, generator=generator) - 12))


@drawing("Histogram of 3,000 gradients", "scale of 2 to the 0", "0 become infinite")
def gradients_without_a_scale():
    return draw_sizes(sizes(0.2))


@drawing("scale of 2 to the -16")
def gradients_that_are_lost():
    return draw_sizes(sizes(12.0), exponent=-16)


@drawing("scale of 2 to the 32", "3,000 become infinite")
def gradients_that_overflow():
    return draw_sizes(sizes(0.2), exponent=32)
