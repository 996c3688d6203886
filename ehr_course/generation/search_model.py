"""What a search asks of a model: read once, begin, and go on by one token for every beam.

Every search of :mod:`ehr_course.generation.beam_search` works with any model that has the three
methods of :class:`SearchModel`. Its tensors begin with (batch, ...) where they belong to a note,
and with (batch, beams, ...) where they belong to a hypothesis; nothing else is asked of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ehr_course.errors import InputError


class SearchConfig(Protocol):
    """The special ids that a search must know."""

    @property
    def bos_token_id(self) -> Any:
        """The token that every summary begins with. It is fed, and never written."""

    @property
    def eos_token_id(self) -> Any:
        """The token that ends a summary."""

    @property
    def pad_token_id(self) -> Any:
        """The token of places that hold nothing. It is never written."""

    @property
    def unk_token_id(self) -> Any:
        """The token of unknown words. It is asked for only where it is banned."""


class SearchStep(Protocol):
    """What a model says of the next token of every hypothesis.

    Every tensor is a new one at each step: a search keeps some of them until its end.
    """

    @property
    def log_probs(self) -> Tensor:
        """Float (batch, beams, ids): nats, minus infinity where a token is impossible.

        The number of ids may differ from step to step, as long as an id keeps its meaning.
        """

    @property
    def state(self) -> Any:
        """A tuple of tensors (batch, beams, ...): where the decoder is then."""

    @property
    def log_attention(self) -> Tensor | None:
        """Float (batch, beams, source): minus infinity for no attention; or None."""

    @property
    def p_gen(self) -> Tensor | None:
        """Float (batch, beams), 0 to 1: the weight of the vocabulary; or None."""


class SearchModel(Protocol):
    """A model that summaries can be searched with, such as PointerGenerator.

    To adapt another model, write these three methods. A Transformer's state, for example, is its
    key/value cache with the beams in the second place, and its encoded source holds the keys and
    values of the cross-attention, which all beams of a note share.

    >>> from types import SimpleNamespace
    >>> from typing import NamedTuple
    >>> from ehr_course.generation.beam_search import beam_search
    >>> class Source(NamedTuple):
    ...     table: Tensor  # (batch, ids, ids): the log-probability of a token after another
    >>> class Said(NamedTuple):
    ...     log_probs: Tensor
    ...     state: tuple = ()
    ...     log_attention: None = None
    ...     p_gen: None = None
    >>> class Bigrams:
    ...     config = SimpleNamespace(
    ...         bos_token_id=1, eos_token_id=2, pad_token_id=3, unk_token_id=0
    ...     )
    ...     def encode(self, input_ids, attention_mask):
    ...         follows = torch.eye(6)[[0, 4, 0, 0, 5, 2]]  # 1, then 4, then 5, then 2
    ...         return Source((follows * 9).log_softmax(-1).expand(len(input_ids), 6, 6))
    ...     def first_state(self, source):
    ...         return ()
    ...     def step(self, tokens, state, source):
    ...         notes = torch.arange(len(tokens))[:, None]
    ...         return Said(source.table[notes, tokens])
    >>> beam_search(Bigrams(), torch.tensor([[4]]))[0].best.tokens
    (4, 5, 2)
    """

    @property
    def config(self) -> SearchConfig:
        """The special ids."""

    def encode(self, input_ids: Tensor, attention_mask: Tensor | None) -> Any:
        """Read a batch of notes, once.

        Args:
            input_ids: int64 (batch, source).
            attention_mask: 0 or 1 (batch, source); 1 for tokens.

        Returns:
            A tuple, named or not, of tensors (batch, ...). It is never repeated for the beams;
            notes that are done are left out of it.
        """

    def first_state(self, source: Any) -> Any:
        """Where the decoder begins.

        Args:
            source: what ``encode`` gave.

        Returns:
            A tuple, named or not, of tensors (batch, 1, ...): one beam of each note. Tuples may
            stand in it, and None where there is nothing.
        """

    def step(self, tokens: Tensor, state: Any, source: Any) -> SearchStep:
        """Read one more token of each hypothesis.

        Args:
            tokens: int64 (batch, beams): the last token of each; at first <s>, and after that
                whatever ids ``log_probs`` has.
            state: tensors (batch, beams, ...), each hypothesis with its own.
            source: what ``encode`` gave, with the notes that are left.
        """


def spread(state: Any, beams: int) -> Any:
    """A state of one beam as that of many equal ones: (batch, 1, ...) to (batch, beams, ...).

    >>> spread((torch.zeros(2, 1, 5), None), 3)[0].shape
    torch.Size([2, 3, 5])
    """
    return _each(state, lambda tensor: tensor.expand(-1, beams, *tensor.shape[2:]))


def of_beams(state: Any, parents: Tensor) -> Any:
    """The state in a new order of beams: beam k goes on from beam ``parents[:, k]``.

    Args:
        state: tensors (batch, beams, ...).
        parents: int64 (batch, new beams).

    >>> of_beams((torch.tensor([[5, 6], [7, 8]]),), torch.tensor([[1, 1], [0, 1]]))
    (tensor([[6, 6],
            [7, 8]]),)
    """
    notes = torch.arange(len(parents), device=parents.device)[:, None]
    return _each(state, lambda tensor: tensor[notes, parents])


def of_notes(tensors: Any, rows: Tensor) -> Any:
    """Some notes of a batch: (batch, ...) to (rows, ...)."""
    return _each(tensors, lambda tensor: tensor[rows])


def _each(value: Any, change: Any) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple):
        changed = (_each(part, change) for part in value)
        return type(value)(*changed) if hasattr(value, "_fields") else tuple(changed)
    return value


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Without gradients and without dropout; the model is left as it was.

    >>> layer = nn.Dropout().train()
    >>> with evaluating(layer):
    ...     layer.training
    False
    >>> layer.training
    True
    """
    was_training = isinstance(model, nn.Module) and model.training
    if was_training:
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if was_training:
            model.train()


def encode(model: SearchModel, input_ids: Tensor, attention_mask: Tensor | None) -> Any:
    """Let the model read the notes; without a mask, all but padding."""
    if attention_mask is None:
        attention_mask = (input_ids != model.config.pad_token_id).long()
    return model.encode(input_ids, attention_mask)


def check_notes(input_ids: Tensor, attention_mask: Tensor | None) -> None:
    """Raise an InputError unless these are a batch of notes and their mask."""
    if input_ids.ndim != 2:
        raise InputError(
            "input_ids",
            "",
            f"its shape is {tuple(input_ids.shape)}, not (batch, source)",
            "Give a batch of notes: one note is a batch of one.",
        )
    if attention_mask is not None and attention_mask.shape != input_ids.shape:
        raise InputError(
            "attention_mask",
            "",
            f"its shape is {tuple(attention_mask.shape)}, that of input_ids is "
            f"{tuple(input_ids.shape)}",
            "Give 1 for each token of a note and 0 for padding.",
        )


def not_a_number() -> InputError:
    """What is raised where the model says nan."""
    return InputError(
        "the model",
        "log_probs",
        "some are not a number (nan)",
        "Did its training diverge? Look at its loss and its weights.",
    )
