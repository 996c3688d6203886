"""Heads that guess age and sex from what a decoder has read.

Two readings are offered. "states" are the decoder's last hidden states: they have read the codes,
and also the prompts, in which age and sex are written. "codes" are running means of token
embeddings: they have read the codes, and no prompt. A head on the states can answer without
reading a single code; a head on the codes cannot.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from ehr_course.losses import age_loss, classification_loss

AGE_BRACKETS = (18, 30, 50, 65, 80)
"""Bounds in years of the six brackets [0,18) [18,30) [30,50) [50,65) [65,80) [80,inf)."""


def age_bracket(ages: Tensor) -> Tensor:
    """The bracket, 0 to 5, that each age falls into.

    Args:
        ages: years, of any shape.

    >>> age_bracket(torch.tensor([0.0, 17.0, 18.0, 64.0, 65.0, 90.0]))
    tensor([0, 0, 1, 3, 4, 5])
    """
    bounds = torch.tensor(AGE_BRACKETS, dtype=ages.dtype, device=ages.device)
    return torch.bucketize(ages.contiguous(), bounds, right=True)


def last_real(states: Tensor, real: Tensor) -> Tensor:
    """The state of each row's last real token.

    Args:
        states: float (batch, length, d_model).
        real: bool (batch, length); each row has at least one real token.

    Returns:
        (batch, d_model). The last position of a padded row is padding; this skips it.
    """
    positions = torch.arange(real.shape[1], device=real.device)
    last = (positions * real).argmax(dim=1)  # (batch,)
    return states[torch.arange(len(states), device=states.device), last]


def codes_read(embeddings: Tensor) -> Tensor:
    """At each position, the mean of the token embeddings up to and including it.

    Args:
        embeddings: float (batch, length, d_model), of the decoder's input without prompts.

    Returns:
        (batch, length, d_model): a summary of the codes that has never seen a prompt.
    """
    counts = torch.arange(1, embeddings.shape[1] + 1, device=embeddings.device)
    return embeddings.cumsum(dim=1) / counts[:, None]


class DemographicHead(nn.Module):
    """One question about the patient, asked of hidden states.

    Args:
        d_model: width of the states.
        n_answers: numbers an answer consists of.
        d_hidden: width between; 0 makes the head a single linear layer.
        dropout: between the layers.

    Attributes:
        per: whether the loss counts scored tokens or rows.
    """

    per: Literal["token", "row"]

    def __init__(
        self, d_model: int, n_answers: int, *, d_hidden: int = 256, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.layers: nn.Module = (
            nn.Sequential(
                nn.Linear(d_model, d_hidden),
                nn.ReLU(),
                nn.Dropout(dropout),
                nn.Linear(d_hidden, n_answers),
            )
            if d_hidden
            else nn.Linear(d_model, n_answers)
        )

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """Answer the question.

        Args:
            states: float (batch, length, d_model).
            real: bool (batch, length), False for padding.
        """
        raise NotImplementedError

    def loss(self, answers: Tensor, scored: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of the losses of the answers, and how many there are.

        Args:
            answers: what forward returned.
            scored: bool (batch, length), the positions that are scored; a row without any
                does not count.
            truth: the age in years, float (batch,), or the number of the sex, int64 (batch,).
        """
        raise NotImplementedError


class SequenceAge(DemographicHead):
    """The age in years, from the last real token of each record."""

    per = "row"

    def __init__(self, d_model: int, **options: Any) -> None:
        super().__init__(d_model, 1, **options)

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """Ages in units of 90 years, (batch,)."""
        return self.layers(last_real(states, real))[:, 0]

    def loss(self, answers: Tensor, scored: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
        """Squared errors in units of 90 years."""
        rows = scored.any(dim=1)
        return age_loss(answers[rows], truth[rows])


class TokenAge(DemographicHead):
    """The age bracket, at each token."""

    per = "token"

    def __init__(self, d_model: int, **options: Any) -> None:
        super().__init__(d_model, len(AGE_BRACKETS) + 1, **options)

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """Logits, (batch, length, 6)."""
        return self.layers(states)

    def loss(self, answers: Tensor, scored: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-entropy in nats."""
        return _at_each_token(answers, scored, age_bracket(truth))


class TokenSex(DemographicHead):
    """The sex, at each token."""

    per = "token"

    def __init__(self, d_model: int, **options: Any) -> None:
        super().__init__(d_model, 2, **options)

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """Logits, (batch, length, 2): 0 is M and 1 is F."""
        return self.layers(states)

    def loss(self, answers: Tensor, scored: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-entropy in nats."""
        return _at_each_token(answers, scored, truth)


AGE_HEADS: dict[str, type[TokenAge] | type[SequenceAge]] = {
    "brackets": TokenAge,
    "years": SequenceAge,
}


def _at_each_token(logits: Tensor, scored: Tensor, classes: Tensor) -> tuple[Tensor, Tensor]:
    of_token = classes[:, None].expand(scored.shape)  # (batch, length)
    return classification_loss(logits[scored], of_token[scored])
