"""How a summary is searched for: how many beams, how long, and what is forbidden."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Self, get_args

from torch import Tensor

from ehr_course.errors import InputError
from ehr_course.generation.search_model import SearchConfig

Stop = Literal["exact", "first"]


def length_penalty(length: int, alpha: float) -> float:
    """What a log-probability is divided by: ((5 + n) / 6) ** alpha, after Wu et al. (2016).

    A longer summary is less probable, for every token costs something. With alpha above 0 it pays
    less for its length. See https://arxiv.org/abs/1609.08144, equation 14.

    Args:
        length: n, the tokens of the summary, </s> counted and <s> not.
        alpha: 0 or more; with 0 nothing is divided.

    >>> length_penalty(7, 1.0), length_penalty(7, 0.0)
    (2.0, 1.0)
    """
    return ((5 + length) / 6) ** alpha


@dataclass(frozen=True, kw_only=True)
class BeamSettings:
    """How a search goes about it. The defaults suit the small models of the course.

    The length of a summary is the number of its tokens, </s> counted and <s> not, everywhere: in
    min_length, in max_length and in the length penalty.

    Attributes:
        beams: how many hypotheses are followed at a time, 1 or more. A number larger than the
            vocabulary is allowed: the beams that have nothing to follow stay empty.
        length_penalty: its exponent alpha, 0 or more. A score is log P / ((5 + n) / 6) ** alpha.
        min_length: </s> is forbidden before; with 2 a summary has a token at least.
        max_length: where a hypothesis that has no </s> is given up.
        no_repeat_ngram_size: no run of so many tokens may stand twice in a summary; 0 allows all.
            </s> is exempt, as it stands once.
        stop: "exact" goes on until no live hypothesis can get a better score than the finished
            ones have, so that stopping changes nothing; "first" stops when as many as there are
            beams have finished, which is sooner and sometimes worse.
        ban_unk: whether <unk> is forbidden, as <s> and <pad> always are. By default it is not: it
            says that the model has no word for what it means, and the next best word would hide
            that behind a wrong one.

    Raises:
        InputError: if a number is out of its range, or max_length is less than min_length.

    >>> BeamSettings(beams=2, max_length=20).length_penalty
    1.0
    """

    beams: int = 4
    length_penalty: float = 1.0
    min_length: int = 2
    max_length: int = 128
    no_repeat_ngram_size: int = 3
    stop: Stop = "exact"
    ban_unk: bool = False

    def __post_init__(self) -> None:
        for name, least, remedy in (
            ("beams", 1, "Use 1 or more; 4 is usual."),
            ("min_length", 1, "Use 1 or more: </s> counts."),
            ("max_length", 1, "Use 1 or more: </s> counts."),
            (
                "no_repeat_ngram_size",
                0,
                "Use 0 to allow every repetition, or the length of a run.",
            ),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise _refused(name, f"{value!r} is out of range", remedy)
        if not 0 <= self.length_penalty < math.inf:
            raise _refused(
                "length_penalty",
                f"{self.length_penalty!r} is out of range",
                "Use 0 or more; 1 is usual.",
            )
        if self.stop not in get_args(Stop):
            raise _refused("stop", f"{self.stop!r} is no way to stop", "Use 'exact' or 'first'.")
        if self.max_length < self.min_length:
            raise _refused(
                "max_length",
                f"{self.max_length} is less than min_length, {self.min_length}",
                "Raise max_length or lower min_length.",
            )

    @classmethod
    def of_the_source(cls) -> Self:
        """The settings of the summariser's source note, for summaries of a hospital course.

        Its note does not say when the search stops, and so that stays "exact".

        >>> BeamSettings.of_the_source().min_length
        50
        """
        return cls(
            beams=4, length_penalty=1.0, min_length=50, max_length=256, no_repeat_ngram_size=3
        )

    def penalty(self, length: int) -> float:
        """The length penalty of a summary of so many tokens, under these settings."""
        return length_penalty(length, self.length_penalty)


def _refused(place: str, problem: str, remedy: str) -> InputError:
    return InputError("BeamSettings", place, problem, remedy)


def forbid(
    scores: Tensor, history: Tensor, length: int, config: SearchConfig, settings: BeamSettings
) -> None:
    """Make what is forbidden minus infinity, in place.

    Args:
        scores: float (rows, beams, ids).
        history: int64 (rows, beams, length - 1): what each has written.
        length: of the hypotheses with the next token.
        config: of the model.
        settings: of the search.
    """
    forbidden = [config.bos_token_id, config.pad_token_id]
    if length < settings.min_length:
        forbidden.append(config.eos_token_id)
    if settings.ban_unk:
        forbidden.append(config.unk_token_id)
    for token in forbidden:
        scores[..., token] = -math.inf
    if settings.no_repeat_ngram_size:
        # Places without a repetition name <s>, which is forbidden in any case.
        repeating = repeating_tokens(
            history, settings.no_repeat_ngram_size, nothing=config.bos_token_id
        )
        scores.scatter_(-1, repeating, -math.inf)


def repeating_tokens(history: Tensor, n: int, *, nothing: int) -> Tensor:
    """The tokens that would end an n-gram which stands in the history.

    Args:
        history: int64 (..., length): the tokens of each hypothesis.
        n: the length of a run, 1 or more.
        nothing: an id that stands for no token; it fills the places without a repetition.

    Returns:
        int64 (..., windows): the tokens to forbid, in any order, among ``nothing``. There is one
        place for each run in the history, or none where the history is shorter than a run.

    >>> import torch
    >>> said = torch.tensor([[5, 6, 7, 5, 6], [5, 6, 7, 8, 9]])
    >>> repeating_tokens(said, 3, nothing=-1)  # after 5 6, a 7 would repeat 5 6 7
    tensor([[ 7, -1, -1],
            [-1, -1, -1]])
    """
    length = history.shape[-1]
    if length < n:
        return history[..., :0]
    runs = history.unfold(-1, n, 1)  # (..., windows, n)
    last = history[..., None, length - n + 1 :]  # (..., 1, n - 1): what the next token would end
    repeats = (runs[..., :-1] == last).all(dim=-1)
    return runs[..., -1].where(repeats, nothing)
