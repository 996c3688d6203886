"""Look at what a prefix gets of a model's attention: choose a patient and a token."""

from __future__ import annotations

from collections.abc import Sequence

import ipywidgets

from ehr_course.errors import InputError
from ehr_course.evaluation.attention import prefix_attention
from ehr_course.models.prefix_tuning import PrefixTuned
from ehr_course.plots.prefix_attention import MOST_TOKENS, draw_prefix_attention
from ehr_course.plots.style import Picture
from ehr_course.records import PatientRecord
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.static import PictureWidget, patient_slider


def prefix_attention_explorer(
    model: PrefixTuned,
    tokenizer: CodeTokenizer,
    records: Sequence[PatientRecord],
    *,
    token: int = 0,
) -> PictureWidget:
    """Show the attention that a decoder pays to its prefix, by layer and head.

    Args:
        model: with a prefix in the decoder. It runs once, on all records.
        tokenizer: the one that the base was trained with.
        records: the patients to choose from.
        token: where it begins, from 0.

    Returns:
        A widget with the controls ``patient`` and ``token``, both counted from 0. A record that
        is shorter than the token shows its last one.

    Raises:
        InputError: if there are no records, the decoder has no prefix, or no record has such a
            token.
    """
    if not records:
        raise InputError(
            "prefix_attention_explorer", "records", "the list is empty", "Give one or more."
        )
    paid = prefix_attention(model, tokenizer, records, most_tokens=MOST_TOKENS)
    last = max(len(one.tokens) for one in paid) - 1
    if not 0 <= token <= last:
        raise InputError(
            "prefix_attention_explorer",
            "token",
            f"there is no token {token} among {last + 1}",
            f"Use 0 to {last}.",
        )

    def draw(patient: int, token: int) -> Picture:
        one = paid[patient]
        return draw_prefix_attention(one, min(token, len(one.tokens) - 1))

    slider = ipywidgets.IntSlider(
        value=token,
        min=0,
        max=last,
        description="token",
        # A picture takes a moment: draw where the slider stops, not on its way.
        continuous_update=False,
        style={"description_width": "initial"},
    )
    return PictureWidget(draw, {"patient": patient_slider(len(paid)), "token": slider})
