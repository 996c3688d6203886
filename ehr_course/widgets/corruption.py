"""A playground: corrupt any patient in any way, and see what is left to read."""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets

from ehr_course.batches.corruption import STRATEGIES, Corruption
from ehr_course.errors import InputError
from ehr_course.plots.corruption import draw_corruption
from ehr_course.plots.style import Picture
from ehr_course.records import PatientRecord
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.static import PictureWidget, patient_slider

AS_IN_TRAINING = "as in training"
"""Half of the visits are left alone, the others corrupted in one of the three ways."""


def corruption_playground(
    records: Sequence[PatientRecord], tokenizer: CodeTokenizer
) -> PictureWidget:
    """Choose a patient and a corruption.

    Args:
        records: the patients to choose from; the slider counts them from 0.
        tokenizer: under ``unseen="raise"`` a patient with an unseen code has no picture, and the
            widget says why.

    Returns:
        A widget with the controls ``patient``, ``strategy`` ("as in training", or one of
        STRATEGIES for every visit), ``mean_span`` (of the Poisson distribution), ``p`` (of
        deletion and replacement) and ``seed``.

    Raises:
        InputError: if there are no records.
    """
    if not records:
        raise InputError("corruption_playground", "records", "there are none", "Give patients.")

    def draw(patient: int, strategy: str, mean_span: float, p: float, seed: int) -> Picture:
        training = strategy == AS_IN_TRAINING
        corruption = Corruption(
            p_visit=0.5 if training else 1.0,
            mean_span=mean_span,
            p_delete=p,
            p_replace=p,
            strategies=STRATEGIES if training else (strategy,),
        )
        return draw_corruption(records[patient], tokenizer, corruption, seed=seed)

    label = {"description_width": "initial"}
    strategy = ipywidgets.Dropdown(
        options=[AS_IN_TRAINING, *STRATEGIES],
        value=AS_IN_TRAINING,
        description="strategy",
        style=label,
    )
    mean_span, p = (
        ipywidgets.FloatSlider(
            value=value,
            min=0.0,
            max=largest,
            step=step,
            description=description,
            continuous_update=False,
            style=label,
        )
        for value, largest, step, description in (
            (3.0, 8.0, 0.5, "mean span (lambda)"),
            (0.15, 1.0, 0.05, "p (deletion, replacement)"),
        )
    )
    seed = ipywidgets.IntSlider(
        value=0, min=0, max=50, description="seed", continuous_update=False, style=label
    )
    controls = {"patient": patient_slider(len(records)), "strategy": strategy}
    return PictureWidget(draw, controls | {"mean_span": mean_span, "p": p, "seed": seed})
