"""A playground: corrupt any patient in any way, and see what is left to read."""

from __future__ import annotations

from collections.abc import Sequence

from ehr_course.batches.corruption import STRATEGIES, Corruption
from ehr_course.errors import InputError
from ehr_course.plots.corruption import draw_corruption
from ehr_course.plots.style import Picture
from ehr_course.records import PatientRecord
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.static import (
    PictureWidget,
    choice,
    fine_slider,
    patient_slider,
    slider,
)

_SEEDS = 50
"""The largest seed of the slider."""

AS_IN_TRAINING = "as in training"
"""Half of the visits are left alone, the others corrupted in one of the three ways."""


def corruption_playground(
    records: Sequence[PatientRecord],
    tokenizer: CodeTokenizer,
    *,
    patient: int = 0,
    seed: int = 0,
) -> PictureWidget:
    """Choose a patient and a corruption.

    Args:
        records: the patients to choose from; the slider counts them from 0.
        tokenizer: under ``unseen="raise"`` a patient with an unseen code has no picture, and the
            widget says why.
        patient: the one that it opens on.
        seed: the one that it opens on, 0 to 50.

    Returns:
        A widget with the controls ``patient``, ``strategy`` ("as in training", or one of
        STRATEGIES for every visit), ``mean_span`` (of the Poisson distribution), ``p`` (of
        deletion and replacement) and ``seed``.

    Raises:
        InputError: if there are no records, or no such patient or seed.
    """
    if not records:
        raise InputError("corruption_playground", "records", "the list is empty", "Give patients.")
    for name, value, largest in (("patient", patient, len(records) - 1), ("seed", seed, _SEEDS)):
        if not 0 <= value <= largest:
            raise InputError(
                "corruption_playground", name, f"there is no {value}", f"Use 0 to {largest}."
            )

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

    chosen = patient_slider(len(records))
    chosen.value = patient
    controls = {
        "patient": chosen,
        "strategy": choice("strategy", [AS_IN_TRAINING, *STRATEGIES]),
        "mean_span": fine_slider("mean span (lambda)", 3.0, 8.0, 0.5),
        "p": fine_slider("p (deletion, replacement)", 0.15, 1.0, 0.05),
        "seed": slider("seed", seed, 0, _SEEDS),
    }
    return PictureWidget(
        draw,
        controls,
        in_the_book={"mean_span": [], "p": [0.15, 0.5], "patient": [], "seed": [1]},
    )
