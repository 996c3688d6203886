"""The layers of the pointer-generator: the encoder, the attention, and the decoder with its loop.

They are written to be read. The faster twins of the loop and of a step, which give the same
numbers, are in ``pointer_generator_fast`` and ``pointer_generator_step``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ehr_course.losses import log_mixture
from ehr_course.models.pointer_generator_config import PointerGeneratorConfig


class EncodedSource(NamedTuple):
    """A batch of notes that were read: everything the decoder needs of them.

    Attributes:
        states: float (batch, source, 2 hidden): what the encoder made of each token.
        keys: float (batch, source, hidden): the same, projected for attention.
        ids: int64 (batch, source): the tokens themselves, extended ids included.
        copyable: bool (batch, source): words; neither padding nor special tokens.
        hidden, cell: float (batch, layers, hidden): where the decoder's LSTM begins.
    """

    states: Tensor
    keys: Tensor
    ids: Tensor
    copyable: Tensor
    hidden: Tensor
    cell: Tensor


class DecoderState(NamedTuple):
    """Where the decoder is, for a batch of notes and some beams of each.

    Attributes:
        hidden, cell: float (batch, beams, layers, hidden).
        context: float (batch, beams, 2 hidden): what it last saw in the note.
        coverage: float (batch, beams, source): the attention spent on each token so far.
    """

    hidden: Tensor
    cell: Tensor
    context: Tensor
    coverage: Tensor


class DecoderPath(NamedTuple):
    """What the decoder's loop leaves behind at every step.

    Attributes:
        states: float (batch, target, hidden): of the LSTM's last layer.
        contexts: float (batch, target, 2 hidden).
        log_attention: float32 (batch, target, source).
    """

    states: Tensor
    contexts: Tensor
    log_attention: Tensor


class NoteEncoder(nn.Module):
    """A bidirectional LSTM over the note, whole or in chunks."""

    def __init__(self, config: PointerGeneratorConfig) -> None:
        super().__init__()
        self.embedding = nn.Embedding(
            config.vocab_size, config.d_embedding, padding_idx=config.pad_token_id
        )
        self.lstm = nn.LSTM(
            config.d_embedding,
            config.d_hidden,
            config.layers,
            batch_first=True,
            bidirectional=True,
            dropout=config.dropout if config.layers > 1 else 0.0,
        )
        self.chunk_length = config.chunk_length

    def forward(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Read notes.

        Args:
            ids: int64 (batch, source), of the vocabulary.
            lengths: int64 (batch,): how many of them are tokens, 1 or more.

        Returns:
            The states (batch, source, 2 hidden), 0 on padding, and the last hidden and cell state
            of both directions, averaged: each (batch, layers, hidden).
        """
        embedded = self.embedding(ids)  # (batch, source, embedding)
        if self.chunk_length is None:
            states, hidden, cell = self._read(embedded, lengths)
        else:
            states, hidden, cell = self._read_chunks(embedded, lengths, self.chunk_length)
        # Two directions end, one decoder begins: the mean of both costs no parameters.
        hidden, cell = (end.mean(dim=2).transpose(0, 1) for end in (hidden, cell))
        return states, hidden, cell

    def _read(self, embedded: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """States (batch, source, 2 hidden) and last states (layers, batch, 2, hidden)."""
        width = embedded.shape[1]
        if bool((lengths == width).all()):  # nothing to pack: the fused LSTM is faster
            states, ends = self.lstm(embedded)
        else:
            packed = pack_padded_sequence(
                embedded, lengths.cpu(), batch_first=True, enforce_sorted=False
            )
            packed, ends = self.lstm(packed)
            states, _ = pad_packed_sequence(packed, batch_first=True, total_length=width)
        hidden, cell = (end.unflatten(0, (-1, 2)).transpose(1, 2) for end in ends)
        return states, hidden, cell

    def _read_chunks(
        self, embedded: Tensor, lengths: Tensor, chunk: int
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same from chunks that are read as if each were a note of its own."""
        batch, width, _ = embedded.shape
        n_chunks = -(-width // chunk)
        folded = pad(embedded, (0, 0, 0, n_chunks * chunk - width)).unflatten(1, (n_chunks, chunk))
        starts = torch.arange(n_chunks, device=lengths.device) * chunk
        inside = (lengths[:, None] - starts).clamp(0, chunk)  # (batch, n_chunks)
        real = inside > 0
        states, hidden, cell = self._read(folded[real], inside[real])
        unfolded = states.new_zeros(batch, n_chunks, chunk, states.shape[-1])
        unfolded[real] = states
        # Forwards the note ends in its last chunk, backwards in its first.
        places = real.flatten().cumsum(0).view_as(real) - 1
        last, first = places.amax(dim=1), places[:, 0]
        hidden, cell = (
            torch.stack([end[:, last, 0], end[:, first, 1]], dim=2) for end in (hidden, cell)
        )
        return unfolded.flatten(1, 2)[:, :width], hidden, cell


class AdditiveAttention(nn.Module):
    """Scores v . tanh(W_h state + W_d query + W_c coverage), after Bahdanau et al. (2015).

    See https://arxiv.org/abs/1409.0473. The part with W_c is there with coverage only.
    """

    def __init__(self, config: PointerGeneratorConfig) -> None:
        super().__init__()
        hidden = config.d_hidden
        self.key = nn.Linear(2 * hidden, hidden, bias=False)  # W_h
        self.query = nn.Linear(hidden, hidden, bias=False)  # W_d
        self.score = nn.Linear(hidden, 1, bias=False)  # v
        self.cover: nn.Parameter | None = None  # W_c
        if config.coverage:
            self.add_coverage()

    def add_coverage(self) -> None:
        """Begin to look at coverage, with a weight of 0: at first it changes nothing."""
        self.cover = nn.Parameter(torch.zeros_like(self.score.weight[0]))

    def forward(self, query: Tensor, source: EncodedSource, coverage: Tensor) -> Tensor:
        """The logarithm of the attention, float32 (batch, beams, source).

        Args:
            query: float (batch, beams, hidden).
            source: the notes.
            coverage: float (batch, beams, source): the attention of all steps before.
        """
        energy = source.keys[:, None] + self.query(query)[:, :, None]
        if self.cover is not None:
            energy = energy + coverage[..., None] * self.cover
        scores = wide(self.score(energy.tanh()).squeeze(-1))  # (batch, beams, source)
        return scores.masked_fill(~source.copyable[:, None], -torch.inf).log_softmax(dim=-1)


Attend = Callable[[Tensor, EncodedSource, Tensor], Tensor]


class PointerDecoder(nn.Module):
    """An LSTM that reads the last token and what it last saw in the note."""

    def __init__(self, config: PointerGeneratorConfig) -> None:
        super().__init__()
        hidden = config.d_hidden
        self.embedding = nn.Embedding(
            config.vocab_size, config.d_embedding, padding_idx=config.pad_token_id
        )
        self.cells = nn.ModuleList(
            nn.LSTMCell(config.d_embedding + 2 * hidden if layer == 0 else hidden, hidden)
            for layer in range(config.layers)
        )
        self.attention = AdditiveAttention(config)
        features = 3 * hidden + config.d_embedding
        self.vocabulary = nn.Linear(features, config.vocab_size)
        self.p_gen = nn.Linear(features, 1) if config.pointer else None
        self.dropout = config.dropout

    def advance(
        self,
        embedded: Tensor,
        state: DecoderState,
        source: EncodedSource,
        kept: Tensor | None = None,
        attend: Attend | None = None,
    ) -> tuple[DecoderState, Tensor]:
        """One step: the LSTM moves, then it looks at the note.

        Args:
            embedded: float (batch, beams, embedding): the last token.
            state: where the decoder is.
            source: the notes.
            kept: float (layers - 1, batch, hidden): what dropout keeps between the layers, scaled;
                None drops nothing.
            attend: what looks at the note in place of the attention, and says the same.

        Returns:
            Where it is then, and the logarithm of its attention (batch, beams, source).
        """
        shape = embedded.shape[:2]
        x = torch.cat([embedded, state.context], dim=-1).flatten(0, 1)
        hidden, cell = [], []
        for layer, lstm in enumerate(self.cells):
            before = state.hidden[:, :, layer].flatten(0, 1), state.cell[:, :, layer].flatten(0, 1)
            h, c = lstm(x, before)  # (batch * beams, hidden)
            hidden.append(h.unflatten(0, shape))
            cell.append(c.unflatten(0, shape))
            x = h if kept is None or layer == len(self.cells) - 1 else h * kept[layer]
        log_attention = (attend or self.attention)(hidden[-1], source, state.coverage)
        attention = log_attention.exp()
        context = attention.to(source.states.dtype) @ source.states  # (batch, beams, 2 hidden)
        after = DecoderState(
            torch.stack(hidden, dim=2),
            torch.stack(cell, dim=2),
            context,
            state.coverage + attention,
        )
        return after, log_attention


def plain_loop(
    decoder: PointerDecoder,
    embedded: Tensor,
    source: EncodedSource,
    start: DecoderState,
    kept: Tensor | None = None,
) -> DecoderPath:
    """Run the decoder over a summary, token by token: what a step needs, the last one made.

    Args:
        decoder: the decoder.
        embedded: float (batch, target, embedding): the summary, as it is fed.
        source: the notes.
        start: where the decoder begins, with one beam.
        kept: float (target, layers - 1, batch, hidden): what dropout keeps, scaled, or None.
    """
    state, states, contexts, looks = start, [], [], []
    for t in range(embedded.shape[1]):
        state, log_attention = decoder.advance(
            embedded[:, t, None], state, source, None if kept is None else kept[t]
        )
        states.append(state.hidden[:, :, -1])
        contexts.append(state.context)
        looks.append(log_attention)
    return DecoderPath(*(torch.cat(steps, dim=1) for steps in (states, contexts, looks)))


def log_mixture_everywhere(
    log_vocabulary: Tensor, log_attention: Tensor, p_gen_logit: Tensor, ids: Tensor, n_oov: int
) -> Tensor:
    """log(p_gen P_vocab + (1 - p_gen) P_copy) of every word, known or outside.

    Args:
        log_vocabulary: float (batch, steps, vocabulary).
        log_attention: float (batch, steps, source).
        p_gen_logit: float (batch, steps).
        ids: int64 (batch, source): the notes.
        n_oov: how many extended ids there are.

    Returns:
        float (batch, steps, vocabulary + n_oov).
    """
    generated = pad(log_vocabulary, (0, n_oov), value=-torch.inf)
    copied = torch.zeros_like(generated)
    copied.scatter_add_(-1, ids[:, None].expand_as(log_attention), log_attention.exp())
    return log_mixture(generated, copied.log(), p_gen_logit[..., None])


def wide(tensor: Tensor) -> Tensor:
    """A tensor in which probabilities can be added up: float32 at least, float64 stays."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def is_plain(part: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a part is just such a module, neither exchanged for another nor with a hook."""
    return type(part) is kind and not part._forward_hooks and not part._forward_pre_hooks
