"""Move age and sex, and see what a trained model expects of such a patient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ipywidgets
import numpy as np
import torch

from ehr_course.batches.collate import SEXES, demographics
from ehr_course.errors import InputError
from ehr_course.generation.beam_search import evaluating
from ehr_course.plots.prompt import NextCodes, draw_next_codes
from ehr_course.plots.style import Picture
from ehr_course.records import MAX_AGE, Sex
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.static import PictureWidget


def next_token_probabilities(
    model: Any, tokenizer: CodeTokenizer, people: Sequence[tuple[int, Sex]]
) -> np.ndarray:
    """The probability of each token as a record's first code: float64 (people, tokens).

    Rows sum to 1. The encoder reads ``<BOS> <mask> <EOS>``, the decoder has written ``<BOS> <v>``:
    only age (in years) and sex say who each of the people is.
    """
    written = [tokenizer.eos_id, tokenizer.bos_id, tokenizer.visit_start_id]
    inputs = {
        "input_ids": torch.tensor([tokenizer.empty_record] * len(people)),
        "decoder_input_ids": torch.tensor([written] * len(people)),
        **demographics([age for age, _ in people], [sex for _, sex in people]),
    }
    device = next(model.parameters()).device
    with evaluating(model):
        output = model(**{name: x.to(device) for name, x in inputs.items()}, use_cache=False)
    return output.logits[:, -1].double().softmax(dim=-1).cpu().numpy()


def next_codes(model: Any, tokenizer: CodeTokenizer, *, age: int, sex: Sex) -> NextCodes:
    """Ask a model for the first code of a patient when it knows only age and sex."""
    if sex not in SEXES:
        raise InputError("sex", "", f"{sex!r} is neither 'F' nor 'M'", "Pass 'F' or 'M'.")
    if not 0 <= age <= MAX_AGE:
        raise InputError(
            "age",
            "",
            f"{age!r} is not an age in completed years",
            f"Pass a whole number from 0 to {MAX_AGE}; {MAX_AGE} stands for every age above.",
        )
    n_special = len(tokenizer) - len(tokenizer.codes)
    of_both = next_token_probabilities(
        model, tokenizer, [(age, sex), (age, "M" if sex == "F" else "F")]
    )
    own, other = of_both[:, n_special:]
    return NextCodes(age, sex, tokenizer.codes, own, other, system=tokenizer.system)


def prompt_explorer(
    model: Any, tokenizer: CodeTokenizer, *, age: int = 64, sex: Sex = "F"
) -> PictureWidget:
    """Choose age and sex, and see the most probable first codes of such a patient.

    Args:
        model: a PromptBart.
        tokenizer: the one that the model was trained with.
        age: where the slider stands at first.
        sex: which sex is chosen at first.

    Returns:
        A widget with the controls ``age``, 0 to 90, where 90 stands for every age above, and
        ``sex``.

    Raises:
        InputError: if there is no such age or sex.
    """
    next_codes(model, tokenizer, age=age, sex=sex)  # refuse what the controls would bend

    def draw(age: int, sex: Sex) -> Picture:
        return draw_next_codes(next_codes(model, tokenizer, age=age, sex=sex))

    ages = ipywidgets.IntSlider(
        value=age,
        min=0,
        max=MAX_AGE,
        description="age",
        # A picture takes a moment: draw where the slider stops, not on its way.
        continuous_update=False,
        style={"description_width": "initial"},
    )
    sexes = ipywidgets.Dropdown(
        value=sex,
        options=[("female", "F"), ("male", "M")],
        description="sex",
        layout=ipywidgets.Layout(width="max-content"),
        style={"description_width": "initial"},
    )
    return PictureWidget(draw, {"age": ages, "sex": sexes})
