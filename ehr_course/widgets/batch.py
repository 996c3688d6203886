"""Look at any batch of an epoch, and at what padding costs with and without length buckets."""

from __future__ import annotations

import ipywidgets

from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.sampler import LengthBatchSampler
from ehr_course.errors import InputError
from ehr_course.plots.batch import Waste, draw_batch, padding_share
from ehr_course.plots.style import Picture
from ehr_course.widgets.static import PictureWidget, choice, slider

BATCH_SIZES = (8, 16, 32, 64)


def batch_inspector(
    dataset: RecordDataset,
    *,
    number: int = 0,
    batch_size: int = 32,
    seed: int = 0,
    epoch: int = 0,
) -> PictureWidget:
    """Choose a batch, the batch size, and whether patients of similar length share a batch.

    Args:
        dataset: makes the batches.
        number: where the first control stands at first: a batch, counted from 0.
        batch_size: where the second control stands at first; 8, 16, 32 or 64.
        seed: of the order of the patients.
        epoch: which epoch's order and corruption.

    Returns:
        A widget with the controls ``number``, the batch within its epoch from 0,
        ``batch_size`` and ``group_by_length``.

    Raises:
        InputError: if the batch size is not one of the four, or there is no such batch.
    """
    if batch_size not in BATCH_SIZES:
        raise InputError(
            "batch_inspector",
            "batch_size",
            f"{batch_size!r} is not offered",
            f"Use one of {', '.join(map(str, BATCH_SIZES))}.",
        )

    def plan(batch_size: int, group_by_length: bool) -> LengthBatchSampler:
        return LengthBatchSampler(
            dataset.lengths, batch_size, seed=seed, epoch=epoch, group_by_length=group_by_length
        )

    def waste(batch_size: int) -> Waste:
        shares = (
            padding_share(
                dataset.lengths, (key.indices for key in plan(batch_size, group_by_length))
            )
            for group_by_length in (False, True)
        )
        return Waste(*shares)

    def draw(number: int, batch_size: int, group_by_length: bool) -> Picture:
        key = list(plan(batch_size, group_by_length))[number]
        return draw_batch(
            dataset[key], waste(batch_size), number=number, group_by_length=group_by_length
        )

    last = len(plan(batch_size, True)) - 1
    if not 0 <= number <= last:
        raise InputError(
            "batch_inspector",
            "number",
            f"there is no batch {number}",
            f"Use a number from 0 to {last}.",
        )
    numbers = slider("batch", number, 0, last)
    sizes = choice("batch size", BATCH_SIZES, batch_size)
    buckets = ipywidgets.Checkbox(
        value=False,
        description="length buckets",
        indent=False,
        style={"description_width": "initial"},
        layout=ipywidgets.Layout(width="auto"),
    )

    def fit_the_batches(change: dict) -> None:
        numbers.max = len(plan(change["new"], True)) - 1

    # Registered before the widget's own observer, so that no batch is drawn that is no more.
    sizes.observe(fit_the_batches, names="value")
    return PictureWidget(
        draw,
        {"number": numbers, "batch_size": sizes, "group_by_length": buckets},
        in_the_book={"batch_size": [16]},
    )
