"""Keep the decoder from codes that no patient of that age and sex has, and measure how many.

The share kept out is less than that of impossible codes in patients written freely, where one
impossible code draws others after it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from ehr_course.code_system import CodeSystem
from ehr_course.icd import code_meaning
from ehr_course.records import Sex
from ehr_course.tokenizers.codes import CodeTokenizer


class EligibleOnly:
    """Only codes that a patient can have are written, by ``why_impossible`` of their code system.

    A code that no rule speaks of, or that is not in the system, is written as before. Give a new
    one to each ``generate_patients``; afterwards it holds what was kept out.

    Attributes:
        codes: how many codes the model would write at these places, known ones left out.
        kept_out: how many of them would be impossible. Both are sums of the probabilities that
            tokens are drawn from.

    >>> eligible = EligibleOnly()
    >>> eligible.ruled_out(CodeTokenizer(["4280", "650"]), [30, 30], ["F", "M"])[:, 7:]
    tensor([[False, False],
            [False,  True]])
    """

    def __init__(self) -> None:
        self.codes = self.kept_out = 0.0

    @property
    def share_kept_out(self) -> float:
        """The share of codes that would have been impossible, 0 to 1; ``nan`` without a code."""
        return self.kept_out / self.codes if self.codes else math.nan

    def ruled_out(
        self, tokenizer: CodeTokenizer, ages: Sequence[float], sexes: Sequence[Sex]
    ) -> Tensor:
        """Which tokens each patient cannot have: bool (patients, vocabulary).

        Args:
            ages: in years at the first visit.
        """
        years, sex = np.array(ages, dtype=int)[:, None], np.array(sexes)[:, None]
        youngest, oldest, whose = _limits(tokenizer.codes, tokenizer.system)
        wrong_age = (years < youngest) | (years > oldest)
        ruled_out = np.zeros((len(years), len(tokenizer)), dtype=bool)
        ruled_out[:, tokenizer.first_code_id :] = wrong_age | ((whose != "") & (whose != sex))
        return torch.from_numpy(ruled_out)

    def count(self, probabilities: Tensor, ruled_out: Tensor) -> None:
        """Take note of one step.

        Args:
            probabilities: float64 (batch, codes), of the next token with nothing kept out.
            ruled_out: bool (batch, codes).
        """
        self.codes += probabilities.sum().item()
        self.kept_out += (probabilities * ruled_out).sum().item()


@lru_cache(maxsize=4)
def _limits(
    codes: tuple[str, ...], system: CodeSystem
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The youngest and the oldest who can have each code, and of which sex, "" for both."""
    of = code_meaning(system)
    rules = [of.who_can_have(code) if of.is_code(code) else None for code in codes]
    return (
        np.array([rule.min_age if rule else 0 for rule in rules]),
        np.array([rule.max_age if rule else math.inf for rule in rules]),
        np.array([(rule.sex if rule else None) or "" for rule in rules]),
    )
