"""Set a beam search's beams and its length penalty, and see the tree that it searches."""

from __future__ import annotations

from functools import cache
from typing import Any

import ipywidgets
import torch

from ehr_course.generation.beam_search import BeamResult, BeamSettings, SearchModel, beam_search
from ehr_course.plots.beam_tree import MOST_STEPS, draw_beam_tree
from ehr_course.plots.style import Picture
from ehr_course.widgets.static import PictureWidget

MOST_BEAMS = 4


def beam_tree(
    model: SearchModel,
    tokenizer: Any,
    note: str,
    *,
    beams: int = 3,
    length_penalty: float = 1.0,
    max_length: int = 24,
    no_repeat_ngram_size: int = 0,
) -> PictureWidget:
    """Search for the summary of a note with other beams and another penalty.

    Args:
        model: any SearchModel, such as PointerGenerator.
        tokenizer: its tokenizer, of words or of pieces.
        note: the text of the note.
        beams, length_penalty: where the controls begin.
        max_length, no_repeat_ngram_size: as in BeamSettings.

    Returns:
        A widget with the controls ``beams`` (1 to MOST_BEAMS), ``length_penalty`` (its
        exponent) and ``step``, the first step that is drawn, counted from 1. Where a search has
        fewer steps, its last ones are drawn.

    Raises:
        InputError: if the note has no word, or a setting is out of its range.
    """
    ids, oov = tokenizer.encode_note(note)

    @cache
    def searched(beams: int, length_penalty: float) -> BeamResult:
        settings = BeamSettings(
            beams=beams,
            length_penalty=length_penalty,
            max_length=max_length,
            no_repeat_ngram_size=no_repeat_ngram_size,
        )
        return beam_search(model, torch.tensor([ids]), settings=settings, trace=True)[0]

    def draw(beams: int, length_penalty: float, step: int) -> Picture:
        result = searched(beams, length_penalty)
        last = max(0, len(result.trace.steps) - MOST_STEPS) if result.trace else 0
        return draw_beam_tree(
            result, lambda token: tokenizer.piece(token, oov), first=min(step - 1, last)
        )

    label = {"description_width": "initial"}
    beams_slider = ipywidgets.IntSlider(
        value=min(beams, MOST_BEAMS),
        min=1,
        max=MOST_BEAMS,
        description="beams",
        # A picture takes a moment: draw where the slider stops, not on its way.
        continuous_update=False,
        style=label,
    )
    penalty_slider = ipywidgets.FloatSlider(
        value=length_penalty,
        min=0.0,
        max=3.0,
        step=0.5,
        description="length penalty (alpha)",
        continuous_update=False,
        style=label,
    )
    step = ipywidgets.IntSlider(
        value=1,
        min=1,
        max=max(1, max_length - MOST_STEPS + 1),
        description="from step",
        continuous_update=False,
        style=label,
    )
    controls = {"beams": beams_slider, "length_penalty": penalty_slider, "step": step}
    return PictureWidget(draw, controls)
