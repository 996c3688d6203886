"""Move age and sex, and see what a trained model expects of such a patient."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ehr_course.batches.collate import SEXES, demographics
from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.generation.beam_search import evaluating
from ehr_course.icd import OLDEST, code_meaning
from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, WARNING
from ehr_course.plots.charts import blank_chart
from ehr_course.plots.style import Picture
from ehr_course.records import MAX_AGE, Sex
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.static import PictureWidget, choice, slider


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


@dataclass(frozen=True)
class NextCodes:
    """How probable each code is as the first one, for a patient and one of the other sex.

    Attributes:
        age: in years, 0 to 90; 90 means above 89.
        codes: the vocabulary.
        probabilities: float (codes,); what is missing to 1 went to special tokens.
        other_sex: the same for a patient of the same age and the other sex.
    """

    age: int
    sex: Sex
    codes: tuple[str, ...]
    probabilities: np.ndarray
    other_sex: np.ndarray
    system: CodeSystem = "ICD9CM"

    def most_probable(self, most: int) -> list[int]:
        """The places of the codes with the greatest probabilities, greatest first."""
        return [int(place) for place in np.argsort(-self.probabilities, kind="stable")[:most]]

    def ruled_out(self, place: int) -> str:
        """Who alone can have a code that this patient cannot, or "" where they can."""
        return ruled_out(self.codes[place], age=self.age, sex=self.sex, system=self.system)

    @property
    def ruled_out_share(self) -> float:
        """The probability of all the codes together that age or sex rules out."""
        places = [place for place in range(len(self.codes)) if self.ruled_out(place)]
        return float(self.probabilities[places].sum())


def ruled_out(code: str, *, age: int, sex: Sex, system: CodeSystem = "ICD9CM") -> str:
    """Who alone can have a code that a patient of this age and sex cannot, or "" where they can.

    >>> ruled_out("650", age=34, sex="M"), ruled_out("V3001", age=34, sex="M")
    ('females only', 'age 0 only')
    >>> ruled_out("650", age=34, sex="F")
    ''
    """
    of = code_meaning(system)
    who = of.who_can_have(code) if of.is_code(code) else None
    if who is None or of.why_impossible(code, age=age, sex=sex) is None:
        return ""
    if who.sex not in (None, sex):
        return "females only" if who.sex == "F" else "males only"
    if who.min_age == who.max_age:
        return f"age {who.min_age} only"
    if who.max_age == OLDEST:
        return f"from age {who.min_age} only"
    if who.min_age == 0:
        return f"up to age {who.max_age} only"
    return f"age {who.min_age} to {who.max_age} only"


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

    sexes = choice("sex", [("female", "F"), ("male", "M")], sex)
    return PictureWidget(draw, {"age": slider("age", age, 0, MAX_AGE), "sex": sexes})


# ---------------------------------------------------------------------- the picture

LONGEST = 44
"""So many letters of a code and its title are drawn."""


def draw_next_codes(shown: NextCodes, *, most: int = 12) -> Picture:
    """Draw the most probable first codes as bars; what age or sex rules out is hatched.

    A line at each bar stands at the same code's probability for a patient of the other sex.
    """
    places = shown.most_probable(most)
    reasons = [shown.ruled_out(place) for place in places]
    names = [style.code_in_words(shown.codes[place], shown.system) for place in places]
    own, other = 100 * shown.probabilities[places], 100 * shown.other_sex[places]
    who, ruled_out_share = style.who(shown), f"{shown.ruled_out_share:.1%}"
    other_who = style.person_of(shown.age, "M" if shown.sex == "F" else "F").lower()
    first = style.written(shown.codes[places[0]], shown.system)
    height = 1.2 + 0.26 * len(places)
    picture, axes = blank_chart(
        f"{who}: {first} is the likeliest first code ({own[0]:.1f}%)"
        + (", though ruled out" if reasons[0] else ""),
        f"Bars of {len(places)} codes, first "
        + ", ".join(f"{name} ({p:.1f}%)" for name, p in zip(names[:3], own[:3], strict=True))
        + f"; age or sex rules out {sum(map(bool, reasons))} of them.",
        "The model knows age and sex alone. To codes that they rule out it gives "
        f"{ruled_out_share} of all probability",
        height=height,
    )
    # In a fixed place, the bars do not jump when a slider changes the titles.
    picture.set_layout_engine("none")
    axes.set_position((0.5, 0.42 / height, 0.48, 1 - 1.16 / height))
    for y, (p, q, reason) in enumerate(zip(own, other, reasons, strict=True)):
        axes.barh(y, p, 0.64, facecolor=style.PAPER if reason else FILLS["code"],
                  edgecolor=WARNING if reason else FILLS["code"],
                  hatch="//////" if reason else None)  # fmt: skip
        axes.annotate(reason, (max(p, q), y), (6, 0), textcoords="offset points",
                      va="center_baseline", size=style.SMALL,
                      color=WARNING if reason else style.INK)  # fmt: skip
    (line,) = axes.plot(other, range(len(places)), "|", color=style.INK, markersize=13,
                        markeredgewidth=1.6)  # fmt: skip
    # The number stands before its bar: behind it, it would be read as that of the line.
    axes.set_yticks(range(len(places)), [
        f"{textwrap.shorten(name, LONGEST, placeholder='…')}   {p:.1f}%"
        for name, p in zip(names, own, strict=True)
    ])  # fmt: skip
    # One of few round numbers, so that most steps of a slider leave the scale as it is.
    largest = max(own.max(), other.max())
    end = next((end for end in (2, 3, 5, 7, 10, 15, 20, 30, 50, 70) if largest <= end), 100)
    axes.set(ylim=(len(places) - 0.4, -0.6), xlim=(0, 1.2 * end), xticks=[])
    axes.tick_params(axis="y", length=0)
    axes.spines["bottom"].set_visible(False)
    picture.legend(
        [line], [f"a {other_who} of that age (hatched: ruled out by age or sex)"],
        loc="lower left",
    )  # fmt: skip
    return picture
