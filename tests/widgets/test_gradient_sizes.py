"""Gradients on the number line of float16: the counts, the words and the picture."""

import math

import numpy as np
import pytest
import torch

from ehr_course.widgets.number_line import (
    HIGHEST,
    LARGEST,
    LOWEST,
    SMALLEST_NORMAL,
    Float16Counts,
    Sizes,
    count_in_float16,
    describe_number_line,
    draw_sizes,
    summarise,
)


def gradients(seed=0, *, middle=-12.0, spread=4.0):
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randn(3_000, generator=generator).sign()
    exponents = torch.randn(3_000, generator=generator) * spread + middle
    return torch.cat([signs * 2.0**exponents, torch.zeros(40)])


# ---------------------------------------------------------------------- the counts


def test_the_limits_are_those_of_float16():
    info = np.finfo(np.float16)
    assert info.smallest_normal == SMALLEST_NORMAL
    assert info.max == LARGEST


@pytest.mark.parametrize("exponent", [-16, 0, 7, 16, 32])
def test_the_counts_are_those_of_numpys_float16(exponent):
    values = gradients().numpy()
    with np.errstate(over="ignore"):
        half = np.abs((values * np.float32(2.0**exponent)).astype(np.float16))
    smallest = np.finfo(np.float16).smallest_normal
    expected = Float16Counts(
        zero_before=int((values == 0).sum()),
        underflow=int(((half == 0) & (values != 0)).sum()),
        subnormal=int(((half > 0) & (half < smallest)).sum()),
        normal=int(((half >= smallest) & np.isfinite(half)).sum()),
        overflow=int(np.isinf(half).sum()),
    )
    assert count_in_float16(torch.tensor(values), 2.0**exponent) == expected


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (0.0, "zero_before"),
        (2.0**-25, "underflow"),  # in the middle between 0 and 2**-24: the even one is 0
        (2.0**-25 * 1.001, "subnormal"),
        (2.0**-24, "subnormal"),
        (2.0**-14 * 0.99, "subnormal"),
        (2.0**-14, "normal"),
        (65_504.0, "normal"),
        (65_519.0, "normal"),
        (65_520.0, "overflow"),
        (math.inf, "overflow"),
        (math.nan, "overflow"),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_at_a_limit(value, kind, sign):
    counts = count_in_float16(torch.tensor([sign * value]))
    assert getattr(counts, kind) == sum(counts) == 1
    assert Sizes(torch.tensor([sign * value])).counts(0) == counts


@pytest.mark.parametrize("exponent", range(-16, 33, 6))
def test_what_is_read_off_the_sizes_is_what_rounding_gives(exponent):
    values = gradients()
    assert Sizes(values).counts(exponent) == count_in_float16(values, 2.0**exponent)


@pytest.mark.parametrize("exponent", [-16, 0, 5, 32])
def test_a_loss_scale_moves_the_bars(exponent):
    values = gradients()
    moved = Sizes(values.double() * 2.0**exponent).powers_of_two()
    assert np.array_equal(Sizes(values).powers_of_two(exponent), moved)


def test_a_power_of_two_begins_its_own_bar():
    bars = Sizes(torch.tensor([0.5, -0.75, 1.0, 1.999, 0.0])).powers_of_two()
    assert (bars[-1 - LOWEST], bars[0 - LOWEST], bars.sum()) == (2, 2, 4)


def test_what_lies_beyond_is_in_the_outer_bars():
    beyond = torch.tensor([2.0**-100, 2.0**LOWEST, 2.0**100, math.inf, math.nan]).double()
    bars = Sizes(beyond).powers_of_two()
    assert (bars[0], bars[-1], bars.sum()) == (2, 1, 3)
    assert len(bars) == HIGHEST - LOWEST


# ---------------------------------------------------------------------- words


def test_the_alternative_text():
    assert describe_number_line(Float16Counts(7, 5, 10, 1985, 0), 3) == (
        "Histogram of 2,000 gradients over powers of two, multiplied by a loss scale of 2 to the "
        "3, on the number line of float16: 5 become 0, 10 are subnormal, 1,985 are normal and 0 "
        "become infinite."
    )


def test_all_is_said_of_all_only():
    assert "all become 0" in summarise(Float16Counts(0, 9, 0, 0, 0), -16)
    assert "99.9% become 0" in summarise(Float16Counts(0, 99_999, 1, 0, 0), -16)


def test_the_title_of_an_overflow_says_that_the_step_is_skipped():
    assert summarise(Float16Counts(0, 0, 0, 3, 1), -4) == (
        "Loss scale 2⁻⁴: 25.0% overflow, so the step is skipped"
    )


def test_the_bars_are_the_shares_of_the_gradients_in_percent():
    picture = draw_sizes(Sizes(gradients()), exponent=5)
    bars = [bar for bar in picture.axes[0].patches if bar.get_height()]
    expected = Sizes(gradients() * 32).powers_of_two()
    assert sum(bar.get_height() for bar in bars) == pytest.approx(100)
    assert sorted(round(bar.get_x()) for bar in bars) == list(np.flatnonzero(expected) + LOWEST)
