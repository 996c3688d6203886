"""A summariser that can write words of its own, or copy them from the note: pointer-generator.

An LSTM reads the note in both directions, another writes the summary. At each step attention says
where in the note the writer looks, and p_gen how much it trusts its own vocabulary rather than the
word it looks at. After See, Liu and Manning (2017), https://arxiv.org/abs/1704.04368.

The file can be read from top to bottom: the sizes, what passes between the parts, the encoder,
the attention, the decoder, and the model, which mixes both distributions.
"""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear, logsigmoid, pad
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    GenerationConfig,
    GenerationMixin,
    PreTrainedConfig,
    PreTrainedModel,
)
from transformers import initialization as init
from transformers.modeling_outputs import ModelOutput

from ehr_course.errors import InputError
from ehr_course.losses import (
    NOT_SCORED,
    LossTerm,
    coverage_loss,
    log_copy_probability,
    log_mixture,
    loss_counts,
    weighted_total,
)

PROFILES: dict[str, dict[str, Any]] = {
    "tiny": {"d_embedding": 32, "d_hidden": 64, "layers": 1, "dropout": 0.0},
    "small": {"d_embedding": 64, "d_hidden": 128, "layers": 1, "dropout": 0.1},
    "full": {"d_embedding": 128, "d_hidden": 256, "layers": 2, "dropout": 0.3},
}
"""Three sizes: seconds, minutes, and the configuration of the summariser's source note."""


@strict
class PointerGeneratorConfig(PreTrainedConfig):
    """The sizes and options of a pointer-generator.

    Attributes:
        vocab_size: how many tokens the model can write, the 4 special ones included.
        d_embedding: the width of a token's embedding.
        d_hidden: the width of the decoder's LSTM, and of each direction of the encoder's.
        layers: of both LSTMs.
        dropout: between the layers of an LSTM while training.
        max_source, max_target: the length in tokens to which data is cut; the model has no limit.
        chunk_length: in tokens, of chunks that the encoder reads apart; None reads notes whole.
        pointer: whether the model can copy. Without it p_gen is 1.
        coverage: whether attention knows where it has been: it then has d_hidden parameters more.
        coverage_weight: of the coverage loss beside the log-likelihood.
        vocabulary: the fingerprint of the tokenizer, or None when unknown.

    >>> PointerGeneratorConfig(vocab_size=16_000).d_hidden
    256
    """

    model_type = "pointer_generator"

    vocab_size: int = 16_000
    d_embedding: int = 128
    d_hidden: int = 256
    layers: int = 2
    dropout: float = 0.3
    max_source: int = 768
    max_target: int = 192
    chunk_length: int | None = None
    pointer: bool = True
    coverage: bool = False
    coverage_weight: float = 1.0
    vocabulary: str | None = None
    unk_token_id: int = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    pad_token_id: int | None = 3
    is_encoder_decoder: bool = True

    def __post_init__(self, **kwargs: Any) -> None:
        sizes = {"vocab_size": 5, "d_embedding": 1, "d_hidden": 1, "layers": 1, "chunk_length": 1}
        sizes |= {"max_source": 3, "max_target": 2, "coverage_weight": 0, "dropout": 0}
        for name, least in sizes.items():
            value = getattr(self, name)
            too_large = name == "dropout" and value >= 1
            if value is not None and (too_large or not value >= least):
                remedy = "Use 0 to below 1." if name == "dropout" else f"Use {least} or more."
                raise InputError(
                    "PointerGeneratorConfig", name, f"{value!r} is out of range", remedy
                )
        super().__post_init__(**kwargs)

    @classmethod
    def for_tokenizer(cls, tokenizer: Sized, profile: str = "tiny", **changes: Any) -> Self:
        """The configuration of a size for a vocabulary.

        Args:
            tokenizer: a NoteTokenizer or a WordTokenizer; its length is the vocabulary's.
            profile: "tiny", "small" or "full".
            changes: any field of the configuration, in place of the profile's.
        """
        if profile not in PROFILES:
            remedy = f"Use one of {', '.join(map(repr, PROFILES))}."
            raise InputError(
                "PointerGeneratorConfig", "profile", f"{profile!r} is not a profile", remedy
            )
        fields: dict[str, Any] = {
            "vocab_size": len(tokenizer),
            "vocabulary": getattr(tokenizer, "fingerprint", None),
        }
        return cls(**(fields | PROFILES[profile] | changes))

    @property
    def special_ids(self) -> list[Any]:
        """The ids of <unk>, <s>, </s> and <pad>: no words, so nothing to look at and copy."""
        return [self.unk_token_id, self.bos_token_id, self.eos_token_id, self.pad_token_id]


# ---------------------------------------------------------------------- between the parts


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


class Step(NamedTuple):
    """What the decoder says after one more token.

    Attributes:
        log_probs: float (batch, beams, vocabulary + n_oov): of each next token in nats.
        state: where the decoder is now.
        log_attention: float (batch, beams, source): minus infinity where nothing can be copied.
        p_gen: float (batch, beams): the weight of the vocabulary, 0 to 1.
        log_vocabulary: float (batch, beams, vocabulary): of each token, if it were generated.
    """

    log_probs: Tensor
    state: DecoderState
    log_attention: Tensor
    p_gen: Tensor
    log_vocabulary: Tensor


@dataclass
class PointerGeneratorOutput(ModelOutput):
    """What a forward pass returns.

    Attributes:
        loss: the mean negative log-likelihood of the scored tokens plus, with coverage, the
            weighted coverage loss; None without labels.
        log_probs: float (batch, target, vocabulary + n_oov): of each next token in nats. With
            labels, they have no gradient, and while training they are None.
        terms: the parts of the loss, for the trainer.
        loss_sum: the negative log-likelihood of all scored tokens in nats, float32.
        loss_count: how many tokens are scored.
        log_attention: float32 (batch, target, source): minus infinity where nothing can be copied.
        p_gen: float32 (batch, target).
        coverage: float32 (batch, target, source): the attention spent before each step.
        past_key_values: the state after the last token, under the name that ``generate`` uses.
    """

    loss: Tensor | None = None
    log_probs: Tensor | None = None
    terms: tuple[LossTerm, ...] | None = None
    loss_sum: Tensor | None = None
    loss_count: Tensor | None = None
    log_attention: Tensor | None = None
    p_gen: Tensor | None = None
    coverage: Tensor | None = None
    past_key_values: DecoderState | None = None

    @property
    def logits(self) -> Tensor | None:
        """``log_probs``, under the name that transformers looks for."""
        return self.log_probs


def wide(tensor: Tensor) -> Tensor:
    """A tensor in which probabilities can be added up: float32 at least, float64 stays."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


# ---------------------------------------------------------------------- the encoder


class NoteEncoder(nn.Module):
    """A bidirectional LSTM over the note, whole or in chunks."""

    main_input_name = "input_ids"

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


# ---------------------------------------------------------------------- attention


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


class _Energies:
    """The scores of each step, as 2v . sigmoid(2x) instead of v . tanh(x).

    tanh(x) is 2 sigmoid(2x) - 1, softmax does not see a constant, and on a processor the sigmoid
    is three times as fast as tanh. w_d and w_c are the doubled ones.
    """

    def __init__(self, keys: Tensor, w_d: Tensor, w_c: Tensor | None, steps: int) -> None:
        self.keys, self.w_c = keys, w_c
        self._room, self._one = torch.empty_like(keys), keys.new_ones(())
        # sigmoid(2k + q) is 1 / (1 + exp(-2k) exp(-q)): without coverage one exponential of the
        # keys serves many steps. A query is a product with a state, which is between -1 and 1.
        self._powers: Tensor | None = None
        if w_c is None and steps > 1:
            largest = 2 * keys.abs().amax() + w_d.abs().sum(dim=1).amax()
            if bool(largest < 80):  # exp(80) is still a float32
                self._powers = (-2 * keys).exp_()

    def sigmoids(self, query: Tensor, coverage: Tensor) -> Tensor:
        """sigmoid(2 keys + query + w_c coverage), (batch, source, hidden), until the next call.

        Args:
            query: float (batch, hidden), w_d times the decoder's state.
            coverage: float (batch, source).
        """
        query = query[:, None]
        if self._powers is not None:
            energy = torch.addcmul(self._one, self._powers, query.neg().exp_(), out=self._room)
            return energy.reciprocal_()
        energy = torch.add(query, self.keys, alpha=2, out=self._room)
        if self.w_c is not None:
            energy.addcmul_(coverage[:, :, None], self.w_c)
        return energy.sigmoid_()


# ---------------------------------------------------------------------- the decoder


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
        self.dropout, self.hidden_size = config.dropout, hidden

    def forward(
        self, embedded: Tensor, source: EncodedSource, state: DecoderState
    ) -> tuple[Tensor, Tensor, DecoderState]:
        """Read some tokens in each beam: at each the LSTM moves, then it looks at the note.

        Args:
            embedded: float (batch, beams, target, embedding): the tokens.
            source: the notes.
            state: where the decoder is. Gradients pass only through that of ``first_state``.

        Returns:
            What the next token is predicted from, (batch, beams, target, 3 hidden + embedding);
            the logarithm of the attention, float32 (batch, beams, target, source); and the state
            after the last token.
        """
        kept = self._kept(embedded)
        with torch.autocast(embedded.device.type, enabled=False):
            embedded = wide(embedded)
            tokens = embedded.permute(2, 0, 1, 3).flatten(1, 2)  # (target, rows, embedding)
            layers = []  # for each: what its gates get apart from the loop, and its two matrices
            for layer, cell in enumerate(self.cells):
                assert isinstance(cell, nn.LSTMCell)
                of_input, bias = wide(cell.weight_ih), wide(cell.bias_ih) + wide(cell.bias_hh)
                if layer == 0:  # what the tokens do to the gates needs no loop
                    of_token, of_input = of_input.tensor_split([tokens.shape[2]], dim=1)
                    added = linear(tokens, of_token, bias)  # (target, rows, 4 hidden)
                else:
                    added = bias.expand_as(added)
                layers += [added, of_input, wide(cell.weight_hh)]
            attention = self.attention
            coverage = wide(state.coverage)
            tops, contexts, log_attention, hidden, cells = _Loop.apply(
                kept,
                source.copyable,
                wide(source.states),
                wide(source.keys),
                wide(state.hidden).flatten(0, 1).transpose(0, 1),
                wide(state.cell).flatten(0, 1).transpose(0, 1),
                wide(state.context),
                coverage if attention.cover is not None else coverage.detach(),
                2 * wide(attention.query.weight),
                2 * wide(attention.score.weight[0]),
                None if attention.cover is None else 2 * wide(attention.cover),
                *layers,
            )
            hidden, cells = (
                x.transpose(0, 1).unflatten(0, embedded.shape[:2]) for x in (hidden, cells)
            )
            after = DecoderState(
                hidden, cells, contexts[-1], coverage + log_attention.exp().sum(dim=0)
            )
            tops, contexts, log_attention = (
                x.permute(1, 2, 0, 3) for x in (tops, contexts, log_attention)
            )
            features = torch.cat([tops, contexts, embedded], dim=-1)
        return features.to(self.vocabulary.weight.dtype), log_attention, after

    def _kept(self, embedded: Tensor) -> Tensor | None:
        """What dropout keeps between the layers: (target, layers - 1, batch * beams, hidden)."""
        batch, beams, target, _ = embedded.shape
        if not self.training or self.dropout == 0 or len(self.cells) == 1:
            return None
        share = 1 - self.dropout
        shape = target, len(self.cells) - 1, batch * beams, self.hidden_size
        return torch.empty(shape, device=embedded.device).bernoulli_(share) / share


class _Loop(torch.autograd.Function):
    """The loop over the tokens. Its way back is written out, step by step as the loop itself.

    Autograd would keep the energies of all steps, which are made again here, and would form the
    gradient of each matrix at every step, where one product after the loop does.
    """

    @staticmethod
    def forward(
        ctx: Any,
        kept: Tensor | None,  # (target, layers - 1, rows, hidden); rows are batch * beams
        copyable: Tensor,  # (batch, source)
        states: Tensor,  # (batch, source, 2 hidden)
        keys: Tensor,  # (batch, source, hidden)
        hidden: Tensor,  # (layers, rows, hidden)
        cell: Tensor,  # (layers, rows, hidden)
        context: Tensor,  # (batch, beams, 2 hidden)
        coverage: Tensor,  # (batch, beams, source)
        w_d: Tensor,  # (hidden, hidden)
        v: Tensor,  # (hidden,)
        w_c: Tensor | None,  # (hidden,)
        *layers: Tensor,  # of each added (target, rows, 4 hidden), of_input, of_own (4 hidden, _)
    ) -> tuple[Tensor, ...]:
        """The last layer's states, contexts and log attention of all steps; the last states."""
        added, of_input, of_own = layers[0::3], layers[1::3], layers[2::3]
        target, (batch, beams, _) = len(added[0]), coverage.shape
        energies, closed = _Energies(keys, w_d, w_c, target), ~copyable[:, None]
        gates = [each.new_empty(each.shape) for each in added]
        hiddens, cells = [[h] for h in hidden], [[c] for c in cell]
        contexts, log_attentions, covered = [context], [], coverage
        for t in range(target):
            x = contexts[-1].flatten(0, 1)
            for layer, (h, c) in enumerate(zip(hiddens, cells, strict=True)):
                gate = torch.addmm(added[layer][t], x, of_input[layer].t(), out=gates[layer][t])
                i, f, g, o = gate.addmm_(h[-1], of_own[layer].t()).chunk(4, dim=1)
                c.append(torch.addcmul(f.sigmoid_() * c[-1], i.sigmoid_(), g.tanh_()))
                h.append(o.sigmoid_() * c[-1].tanh())
                is_last = layer + 1 == len(added)
                x = h[-1] if kept is None or is_last else h[-1] * kept[t, layer]
            query = (x @ w_d.t()).view(batch, beams, -1)
            scores = torch.empty_like(coverage)
            for beam in range(beams):
                scores[:, beam] = energies.sigmoids(query[:, beam], covered[:, beam]) @ v
            log_attention = scores.masked_fill_(closed, -torch.inf).log_softmax(dim=-1)
            attention = log_attention.exp()
            contexts.append(torch.bmm(attention, states))
            log_attentions.append(log_attention)
            if w_c is not None:
                covered = covered + attention
        of_steps = [torch.stack(x) for x in (contexts, log_attentions, *hiddens, *cells)]
        ctx.save_for_backward(
            kept, states, keys, coverage, w_d, v, w_c, *of_input, *of_own, *gates, *of_steps
        )
        tops = of_steps[1 + len(added)][1:].unflatten(1, (batch, beams))
        last = [torch.stack([x[-1] for x in each]) for each in (hiddens, cells)]
        ctx.mark_non_differentiable(*last)
        return tops, of_steps[0][1:], of_steps[1], *last

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, d_tops: Tensor, d_contexts: Tensor, d_log_attention: Tensor, *_: Tensor
    ) -> tuple[Tensor | None, ...]:
        """The gradients of what went in. Only a search has several beams, and learns nothing."""
        kept, states, keys, coverage, w_d, v, w_c, *saved = ctx.saved_tensors
        n = (len(saved) - 2) // 5  # layers
        of_input, of_own, gates = saved[:n], saved[n : 2 * n], saved[2 * n : 3 * n]
        contexts, log_attention, *saved = saved[3 * n :]
        hiddens, cells = saved[:n], saved[n:]
        # With one beam, all tensors are (target, batch, _) or (batch, _).
        coverage, d_tops = coverage[:, 0], d_tops[:, :, 0]
        attention, contexts = log_attention[:, :, 0].exp(), contexts[:, :, 0]
        d_log_attention, d_contexts = d_log_attention[:, :, 0], d_contexts[:, :, 0]
        target, batch, size = d_tops.shape
        # What does not depend on later steps is computed for all of them.
        slopes = [_slopes(*of_layer) for of_layer in zip(gates, cells, strict=True)]
        queries = hiddens[-1][1:] @ w_d.t()
        d_scores = d_log_attention - attention * d_log_attention.sum(dim=2, keepdim=True)
        covered = [coverage] * target
        if w_c is not None:
            covered = list(torch.cat([coverage[None], attention[:-1]]).cumsum(dim=0))

        energies, transposed = _Energies(keys, w_d, w_c, target), states.transpose(1, 2)
        d_keys, d_covered = torch.zeros_like(keys), torch.zeros_like(coverage)
        d_v, d_w_c = torch.zeros_like(v), torch.zeros_like(v)
        d_queries, d_context = torch.empty_like(queries), torch.zeros_like(contexts[0])
        d_contexts_all = torch.empty_like(d_contexts)
        d_hidden = [torch.zeros_like(h[0]) for h in hiddens]
        d_cell = list(d_hidden)
        for t in reversed(range(target)):
            # The context, and through it the attention.
            torch.add(d_contexts[t], d_context, out=d_contexts_all[t])
            d_attention = torch.bmm(d_contexts_all[t, :, None], transposed)[:, 0]
            if w_c is not None:
                d_attention += d_covered
            d_attention *= attention[t]
            d_score = d_scores[t] + d_attention
            d_score.addcmul_(attention[t], d_attention.sum(dim=1, keepdim=True), value=-1)
            # The scores: the sigmoid s, then its slope s - s^2. A factor 2v waits until the end.
            sigmoids = energies.sigmoids(queries[t], covered[t])
            flat = sigmoids.view(-1, size)  # (batch * source, hidden), the same numbers
            d_v.addmv_(flat.t(), d_score.view(-1))
            slope = sigmoids.addcmul_(sigmoids, sigmoids, value=-1)
            d_keys.addcmul_(slope, d_score[:, :, None])
            torch.mul(torch.bmm(d_score[:, None], slope)[:, 0], v, out=d_queries[t])
            if w_c is not None:
                d_w_c.addmv_(flat.t(), (d_score * covered[t]).view(-1))
                d_covered += d_score * torch.mv(flat, v * w_c).view_as(d_score)
            # The LSTM, from its last layer down.
            d_above = d_tops[t].addmm(d_queries[t], w_d)
            for layer in reversed(range(n)):
                of_gates, of_cell, forget = (x[t] for x in slopes[layer])
                d_above = d_above + d_hidden[layer]
                d_cell[layer] = torch.addcmul(d_cell[layer], d_above, of_cell)
                of_gates[:, :3].mul_(d_cell[layer][:, None])
                of_gates[:, 3].mul_(d_above)
                d_gates = of_gates.view(batch, -1)
                d_cell[layer] = d_cell[layer] * forget
                d_hidden[layer] = d_gates @ of_own[layer]
                d_above = d_gates @ of_input[layer]
                if kept is not None and layer > 0:
                    d_above = d_above * kept[t, layer - 1]
            d_context = d_above

        d_layers: list[Tensor] = []
        for layer, (of_layer, own) in enumerate(zip(slopes, hiddens, strict=True)):
            d_gates = of_layer[0].flatten(2)  # (target, batch, 4 hidden): what the loop made
            below = contexts[:-1] if layer == 0 else hiddens[layer - 1][1:]
            if kept is not None and layer > 0:
                below = below * kept[:, layer - 1]
            d_layers += [d_gates, _outer_sum(d_gates, below), _outer_sum(d_gates, own[:-1])]
        d_states = attention.permute(1, 2, 0) @ d_contexts_all.transpose(0, 1)
        return (
            *(None, None, d_states, d_keys.mul_(2 * v), torch.stack(d_hidden)),
            *(torch.stack(d_cell), d_context[:, None], d_covered[:, None]),
            *(_outer_sum(d_queries, hiddens[-1][1:]), d_v, None if w_c is None else d_w_c * v),
            *d_layers,
        )


def _slopes(gates: Tensor, cells: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What a change of the gates before their activations does to the cell and the state.

    Args:
        gates: float (target, batch, 4 hidden), after their activations.
        cells: float (target + 1, batch, hidden).

    Returns:
        Float (target, batch, 4, hidden): of i, f and g to the new cell, of o to the new state;
        (target, batch, hidden): of the new cell to the new state; and the gate f itself.
    """
    i, f, g, o = gates.chunk(4, dim=2)
    squashed = cells[1:].tanh()
    of_gates = torch.stack(
        [g * i * (1 - i), cells[:-1] * f * (1 - f), i * (1 - g * g), squashed * o * (1 - o)], dim=2
    )
    return of_gates, o * (1 - squashed * squashed), f


def _outer_sum(left: Tensor, right: Tensor) -> Tensor:
    """The sum over steps and rows of the outer products: the gradient of a matrix."""
    return left.flatten(0, 1).t() @ right.flatten(0, 1)


# ---------------------------------------------------------------------- the model


class PointerGenerator(PreTrainedModel, GenerationMixin):
    """An encoder and a decoder of LSTMs, with attention that can be copied from.

    It loads, saves and generates as every model of transformers does. The course's own search is
    ``ehr_course.generation.beam_search``; it asks ``encode``, ``first_state`` and ``step``.

    >>> model = PointerGenerator(PointerGeneratorConfig(vocab_size=20, d_hidden=8)).eval()
    >>> note, summary = torch.tensor([[1, 7, 21, 8, 2]]), torch.tensor([[1, 7]])
    >>> model(note, decoder_input_ids=summary).log_probs.shape  # 20 words, and 2 extended ids
    torch.Size([1, 2, 22])
    >>> model.generate(note, max_new_tokens=3, num_beams=2).shape  # <s> and three tokens
    torch.Size([1, 4])
    """

    config: PointerGeneratorConfig
    config_class = PointerGeneratorConfig
    base_model_prefix = "pointer_generator"
    main_input_name = "input_ids"

    def __init__(self, config: PointerGeneratorConfig) -> None:
        super().__init__(config)
        self.encoder = NoteEncoder(config)
        self.decoder = PointerDecoder(config)
        self.generation_config.suppress_tokens = [config.bos_token_id, config.pad_token_id]
        self.post_init()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        labels: Tensor | None = None,
        encoder_outputs: EncodedSource | None = None,
        past_key_values: DecoderState | None = None,
        return_dict: bool = True,
    ) -> PointerGeneratorOutput:
        """Read notes, and predict the next token at each place of their summaries.

        Args:
            input_ids: int64 (batch, source), padded on the right; a word outside the vocabulary
                has an extended id, vocab_size or more.
            attention_mask: 0 or 1 (batch, source); 1 for tokens; by default all but padding.
            decoder_input_ids: int64 (batch, target): <s> and the summary.
            labels: int64 (batch, target): the summary and </s>; -100 where nothing is scored. A
                label may be an extended id of its own note.
            encoder_outputs: what ``encode`` says of the notes, in place of the notes.
            past_key_values: where the decoder goes on; by default at the beginning.
            return_dict: as transformers passes it; the output is the same either way.

        Raises:
            InputError: if a note has no word, padding is not on the right, there is no decoder
                input, or a label stands neither in the vocabulary nor in its note.
        """
        if decoder_input_ids is None:
            raise InputError(
                "PointerGenerator",
                "decoder_input_ids",
                "it is missing",
                "Give the summary with <s> before it: collate_notes does.",
            )
        source = encoder_outputs
        if source is None:
            assert input_ids is not None, "give the notes, or what encode says of them"
            source = self.encode(input_ids, attention_mask)
        state = past_key_values or self.first_state(source)
        spent, tokens = state.coverage, decoder_input_ids[:, None]  # (batch, 1, ...)
        features, log_attention, state = self.decoder(self._embed(tokens), source, state)
        features, log_attention = features[:, 0], log_attention[:, 0]  # (batch, target, ...)
        distributions = (*self._vocabulary_and_gate(features), log_attention, source.ids)
        attention = log_attention.exp()
        output = PointerGeneratorOutput(
            log_attention=log_attention,
            p_gen=distributions[1].sigmoid(),
            coverage=spent + attention.cumsum(dim=1) - attention,
            past_key_values=state,
        )
        if labels is None:
            output.log_probs = self._mixed(*distributions)
            return output
        if not self.training:
            with torch.no_grad():
                output.log_probs = self._mixed(*distributions)
        total = self._negative_log_likelihood(*distributions, labels)
        scored = labels != NOT_SCORED
        output.terms = (LossTerm("negative_log_likelihood", total, scored.sum()),)
        if self.config.coverage:
            repeated = LossTerm(
                "coverage", *coverage_loss(attention, scored), self.config.coverage_weight
            )
            output.terms += (repeated,)
        output.loss_sum, output.loss_count = output.terms[0].total, output.terms[0].count
        output.loss = weighted_total(output.terms, loss_counts(labels))
        return output

    def encode(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> EncodedSource:
        """Read a batch of notes, (batch, source), once."""
        mask = torch.as_tensor(input_ids != self.config.pad_token_id)
        if attention_mask is not None:
            mask = attention_mask.bool()
        special = torch.tensor(self.config.special_ids, device=input_ids.device)
        copyable = mask & ~torch.isin(input_ids, special)
        _check_notes(input_ids, mask, copyable)
        states, hidden, cell = self.encoder(self._known(input_ids), mask.sum(dim=1))
        keys = self.decoder.attention.key(states)
        return EncodedSource(states, keys, input_ids, copyable, hidden, cell)

    def first_state(self, source: EncodedSource) -> DecoderState:
        """Where the decoder begins, with one beam a note: it has seen nothing yet."""
        batch, length, width = source.states.shape
        return DecoderState(
            source.hidden[:, None],
            source.cell[:, None],
            source.states.new_zeros(batch, 1, width),
            wide(source.states.new_zeros(batch, 1, length)),
        )

    @torch.no_grad()
    def step(self, tokens: Tensor, state: DecoderState, source: EncodedSource) -> Step:
        """Read one more token of each beam, and say what comes next.

        Args:
            tokens: int64 (batch, beams): <s> at first; extended ids may stand here.
            state: where the decoder is.
            source: the notes.
        """
        embedded = self._embed(tokens[..., None])  # (batch, beams, 1, embedding)
        features, log_attention, state = self.decoder(embedded, source, state)
        features, log_attention = features[:, :, 0], log_attention[:, :, 0]  # (batch, beams, ...)
        log_vocabulary, p_gen_logit = self._vocabulary_and_gate(features)
        log_probs = self._mixed(log_vocabulary, p_gen_logit, log_attention, source.ids)
        return Step(log_probs, state, log_attention, p_gen_logit.sigmoid(), log_vocabulary)

    def add_coverage(self, weight: float = 1.0) -> None:
        """Switch coverage on in a model that was trained without.

        Its weight W_c begins at 0, so the model writes what it wrote before, until it learns.

        Args:
            weight: of the coverage loss, 0 or more.

        Raises:
            InputError: if the model has coverage.
        """
        if self.config.coverage:
            raise InputError(
                "PointerGenerator",
                "add_coverage",
                "the model has coverage",
                "Set model.config.coverage_weight to change its weight.",
            )
        self.config.coverage, self.config.coverage_weight = True, weight
        self.decoder.attention.add_coverage()

    def _known(self, ids: Tensor) -> Tensor:
        """Ids of the vocabulary: for the LSTMs a word outside of it is <unk>."""
        return ids.where(ids < self.config.vocab_size, self.config.unk_token_id)

    def _embed(self, ids: Tensor) -> Tensor:
        return self.decoder.embedding(self._known(ids))

    def _vocabulary_and_gate(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """log P_vocab (..., vocabulary) and the logit of p_gen (...), infinite without copying."""
        log_vocabulary = wide(self.decoder.vocabulary(features)).log_softmax(-1)
        if self.decoder.p_gen is None:
            return log_vocabulary, log_vocabulary.new_full(features.shape[:-1], torch.inf)
        return log_vocabulary, wide(self.decoder.p_gen(features).squeeze(-1))

    def _mixed(
        self, log_vocabulary: Tensor, p_gen_logit: Tensor, log_attention: Tensor, ids: Tensor
    ) -> Tensor:
        """log(p_gen P_vocab + (1 - p_gen) P_copy) of every word, known or outside.

        Words that do not stand in the note are only generated: both parts are mixed at the others.

        Args:
            log_vocabulary: float (batch, steps, vocabulary).
            p_gen_logit: float (batch, steps).
            log_attention: float (batch, steps, source).
            ids: int64 (batch, source): the notes.

        Returns:
            float (batch, steps, vocabulary + n_oov).
        """
        if self.decoder.p_gen is None:
            return log_vocabulary
        n_oov = max(0, int(ids.max()) + 1 - self.config.vocab_size)
        gate = p_gen_logit[..., None]
        everywhere = pad(log_vocabulary + logsigmoid(gate), (0, n_oov), value=-torch.inf)
        places = ids[:, None].expand_as(log_attention)
        copied = torch.zeros_like(everywhere).scatter_add_(-1, places, log_attention.exp())
        copied = copied.gather(-1, places)
        # The logarithm of 0 would have the gradient nan: the 0 is replaced before and after.
        absent = copied == 0
        log_copied = copied.masked_fill(absent, 1.0).log().masked_fill(absent, -torch.inf)
        mixed = torch.logaddexp(everywhere.gather(-1, places), log_copied + logsigmoid(-gate))
        # A word that stands twice is written twice, with one value: amax shares its gradient.
        return everywhere.scatter_reduce(-1, places, mixed, "amax")

    def _negative_log_likelihood(
        self,
        log_vocabulary: Tensor,
        p_gen_logit: Tensor,
        log_attention: Tensor,
        ids: Tensor,
        labels: Tensor,
    ) -> Tensor:
        """The negative log-likelihood of all labels that are scored, in nats, a scalar."""
        scored = labels != NOT_SCORED
        targets, outside = labels[scored], labels[scored] >= self.config.vocab_size  # (n,)
        known = self._known(labels.clamp(min=0))
        log_generated = log_vocabulary.gather(-1, known[..., None])[..., 0][scored]
        if self.decoder.p_gen is None:  # it knows extended words as <unk> only
            return -log_generated.sum()
        of_note = ids[scored.nonzero()[:, 0]]  # (n, source)
        log_copied = log_copy_probability(log_attention[scored], of_note, targets)
        lost = outside & log_copied.isneginf()
        if bool(lost.any()):
            raise InputError(
                "labels",
                f"id {int(targets[lost][0])}",
                "it stands neither in the vocabulary nor in its note",
                "Encode note and summary together: NoteDataset does.",
            )
        log_generated = log_generated.masked_fill(outside, -torch.inf)
        return -log_mixture(log_generated, log_copied, p_gen_logit[scored]).sum()

    def _init_weights(self, module: nn.Module) -> None:
        """Embeddings begin uniform in +-0.1; the rest as PyTorch begins it."""
        if isinstance(module, nn.Embedding):
            init.uniform_(module.weight, -0.1, 0.1)
            # The uniform numbers fill the row of padding too.
            init.zeros_(module.weight[module.padding_idx])
        if isinstance(module, AdditiveAttention) and module.cover is not None:
            init.zeros_(module.cover)

    # ------------------------------------------------------------------ for generate

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        """The decoder's state is not a cache of keys and values."""
        return False

    @torch.no_grad()
    def generate(  # type: ignore[override]
        self,
        inputs: Tensor | None = None,
        generation_config: GenerationConfig | None = None,
        *,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Write summaries as ``generate`` of transformers does, with all of its options.

        Args:
            inputs, input_ids, attention_mask: the notes, as for ``forward``.
            generation_config, kwargs: as in transformers.

        Returns:
            int64 (batch, target): <s> and the summaries; extended ids may stand there.
        """
        notes = inputs if input_ids is None else input_ids
        assert notes is not None, "give the notes as inputs or input_ids"
        source = self.encode(notes, attention_mask)
        read = ModelOutput(last_hidden_state=source.states, **source._asdict())
        return super().generate(  # type: ignore[misc]
            generation_config=generation_config, encoder_outputs=read, **kwargs
        )

    def prepare_inputs_for_generation(  # type: ignore[override]
        self,
        input_ids: Tensor,
        encoder_outputs: dict[str, Tensor],
        past_key_values: DecoderState | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """What a step of ``generate`` gives to ``forward``: the last token, and what was read."""
        return {
            "decoder_input_ids": input_ids[:, -1:],
            "encoder_outputs": EncodedSource(*(encoder_outputs[x] for x in EncodedSource._fields)),
            "past_key_values": past_key_values,
        }

    def _reorder_cache(self, past_key_values: DecoderState, beam_idx: Tensor) -> DecoderState:
        return DecoderState(*(part[beam_idx] for part in past_key_values))


def _check_notes(ids: Tensor, mask: Tensor, copyable: Tensor) -> None:
    if bool((mask[:, 1:] > mask[:, :-1]).any()):
        raise InputError(
            "attention_mask",
            "",
            "a token stands after padding",
            "Pad notes on the right: collate_notes does.",
        )
    empty = ~copyable.any(dim=1)
    if bool(empty.any()):
        row = int(empty.nonzero()[0])
        raise InputError(
            "input_ids",
            f"row {row}",
            f"the note has no word to look at: {ids[row].tolist()[:8]}",
            "Leave notes without a word out.",
        )


AutoConfig.register("pointer_generator", PointerGeneratorConfig)
AutoModel.register(PointerGeneratorConfig, PointerGenerator)
AutoModelForSeq2SeqLM.register(PointerGeneratorConfig, PointerGenerator)
