"""Move age and sex, and see what a trained model expects of such a patient."""

from __future__ import annotations

from typing import Any

import ipywidgets

from ehr_course.evaluation.next_codes import next_codes
from ehr_course.plots.prompt import draw_next_codes
from ehr_course.plots.style import Picture
from ehr_course.records import MAX_AGE, Sex
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.static import PictureWidget


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
