"""Look at any patient as tokens: as codes, and as the pieces of a subword model."""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets

from ehr_course.errors import InputError
from ehr_course.plots.style import Picture
from ehr_course.plots.tokens import Pieces, draw_tokens
from ehr_course.records import PatientRecord
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.static import PictureWidget, patient_slider


def token_explorer(
    records: Sequence[PatientRecord], code_tokenizer: CodeTokenizer, note_tokenizer: Pieces
) -> PictureWidget:
    """Choose a patient, and whether codes are written with their dot, as they are at first.

    Args:
        records: the patients to choose from; the slider counts them from 0.
        code_tokenizer: under ``unseen="raise"`` a patient with an unseen code has no picture,
            and the widget says why.
        note_tokenizer: the subword model; anything with ``pieces(text)``.

    Returns:
        A widget with the controls ``patient`` and ``dotted``.

    Raises:
        InputError: if there are no records.
    """
    if not records:
        raise InputError("token_explorer", "records", "the list is empty", "Give some patients.")

    def draw(patient: int, dotted: bool) -> Picture:
        return draw_tokens(records[patient], code_tokenizer, note_tokenizer, dotted=dotted)

    dotted = ipywidgets.Checkbox(
        value=True,
        description="write codes with their dot (427.31)",
        indent=False,
        style={"description_width": "initial"},
    )
    return PictureWidget(draw, {"patient": patient_slider(len(records)), "dotted": dotted})
