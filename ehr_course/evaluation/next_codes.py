"""What a model expects of a patient when it knows only age and sex."""

from __future__ import annotations

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
from ehr_course.records import MAX_AGE, Sex
from ehr_course.tokenizers.codes import CodeTokenizer


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
