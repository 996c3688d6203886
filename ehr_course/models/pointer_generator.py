"""A summariser that can write words of its own, or copy them from the note: pointer-generator.

An LSTM reads the note in both directions, another writes the summary. At each step attention says
where in the note the writer looks, and p_gen how much it trusts its own vocabulary rather than the
word it looks at. After See, Liu and Manning (2017), https://arxiv.org/abs/1704.04368.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, Self

import torch
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import PreTrainedConfig, PreTrainedModel
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
from ehr_course.models.scored_vocabulary import scored_likelihood

N_SPECIAL = 4
"""Ids 0 to 3 are <unk>, <s>, </s> and <pad>: no words, so nothing to look at and copy."""

PROFILES: dict[str, dict[str, Any]] = {
    "tiny": {"d_embedding": 32, "d_hidden": 64, "layers": 1, "dropout": 0.0},
    "small": {"d_embedding": 64, "d_hidden": 128, "layers": 1, "dropout": 0.1},
    "full": {"d_embedding": 128, "d_hidden": 256, "layers": 2, "dropout": 0.3},
}
"""Three sizes: seconds, minutes, and the configuration of the summariser's source note."""


class AnyTokenizer(Protocol):
    """What the model has to know of a tokenizer: how many ids it has."""

    def __len__(self) -> int:
        """The number of tokens, the special ones included."""


@strict
class PointerGeneratorConfig(PreTrainedConfig):
    """The sizes and options of a pointer-generator.

    Attributes:
        vocab_size: how many tokens the model can write of its own, the 4 special ones included.
        d_embedding: the width of a token's embedding.
        d_hidden: the width of the decoder's LSTM, and of each direction of the encoder's.
        layers: of both LSTMs.
        dropout: between the layers of an LSTM, while training; 0 to below 1.
        max_source, max_target: the longest note and summary, in tokens, that data is prepared
            for. The model itself has no limit.
        chunk_length: the encoder reads the note whole (None), or in chunks of so many tokens that
            know nothing of each other. Both have the same parameters.
        pointer: whether the model can copy. Without it p_gen is 1.
        coverage: whether attention knows where it has been: it then has d_hidden parameters more.
        coverage_weight: of the coverage loss beside the log-likelihood, 0 or more.
        decoder_loop: "plain", the loop that can be read; "fast", the same with its own backward
            pass; "auto", fast wherever it can be.
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
    decoder_loop: str = "auto"
    vocabulary: str | None = None
    unk_token_id: int = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    pad_token_id: int | None = 3
    is_encoder_decoder: bool = True

    def __post_init__(self, **kwargs: Any) -> None:
        for name, fits, remedy in (
            ("vocab_size", self.vocab_size > N_SPECIAL, f"Use more than {N_SPECIAL}."),
            ("d_embedding", self.d_embedding >= 1, "Use 1 or more."),
            ("d_hidden", self.d_hidden >= 1, "Use 1 or more."),
            ("layers", self.layers >= 1, "Use 1 or more."),
            ("dropout", 0 <= self.dropout < 1, "Use 0 or more, below 1."),
            ("max_source", self.max_source >= 3, "Use 3 or more: <s>, a word and </s>."),
            ("max_target", self.max_target >= 2, "Use 2 or more: a word and </s>."),
            (
                "chunk_length",
                self.chunk_length is None or self.chunk_length >= 1,
                "Use 1 or more, or None to read a note whole.",
            ),
            ("coverage_weight", self.coverage_weight >= 0, "Use 0 or more."),
            (
                "decoder_loop",
                self.decoder_loop in ("auto", "plain", "fast"),
                'Use "auto", "plain" or "fast".',
            ),
        ):
            if not fits:
                raise InputError(
                    "PointerGeneratorConfig",
                    name,
                    f"{getattr(self, name)!r} is out of range",
                    remedy,
                )
        super().__post_init__(**kwargs)

    @classmethod
    def for_tokenizer(cls, tokenizer: AnyTokenizer, profile: str = "tiny", **changes: Any) -> Self:
        """The configuration of a size for a vocabulary.

        Args:
            tokenizer: a NoteTokenizer or a WordTokenizer; its length is the vocabulary's.
            profile: "tiny", "small" or "full".
            changes: any field of the configuration, in place of the profile's.
        """
        if profile not in PROFILES:
            raise InputError(
                "PointerGeneratorConfig",
                "profile",
                f"{profile!r} is none",
                f"Use one of {', '.join(map(repr, PROFILES))}.",
            )
        fields = {
            "vocab_size": len(tokenizer),
            "vocabulary": getattr(tokenizer, "fingerprint", None),
        }
        return cls(**(fields | PROFILES[profile] | changes))


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
        log_probs: float (batch, beams, vocabulary + outside): of each next token in nats;
            extended ids stand after the vocabulary.
        state: DecoderState.
        log_attention: float (batch, beams, source): minus infinity where nothing can be copied.
        p_gen: float (batch, beams): the weight of the vocabulary, 0 to 1.
        log_vocabulary: float (batch, beams, vocabulary): of each token, if it were generated.
    """

    log_probs: Tensor
    state: DecoderState
    log_attention: Tensor
    p_gen: Tensor
    log_vocabulary: Tensor


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
        return states, *(end.mean(dim=2).transpose(0, 1) for end in (hidden, cell))

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
    log_vocabulary: Tensor, log_attention: Tensor, p_gen_logit: Tensor, ids: Tensor, outside: int
) -> Tensor:
    """log(p_gen P_vocab + (1 - p_gen) P_copy) of every word, known or outside.

    Args:
        log_vocabulary: float (batch, steps, vocabulary).
        log_attention: float (batch, steps, source).
        p_gen_logit: float (batch, steps).
        ids: int64 (batch, source): the notes.
        outside: how many extended ids there are.

    Returns:
        float (batch, steps, vocabulary + outside).
    """
    generated = pad(log_vocabulary, (0, outside), value=-torch.inf)
    copied = torch.zeros_like(generated)
    copied.scatter_add_(-1, ids[:, None].expand_as(log_attention), log_attention.exp())
    return log_mixture(generated, copied.log(), p_gen_logit[..., None])


Loop = Callable[[PointerDecoder, Tensor, EncodedSource, DecoderState, Tensor | None], DecoderPath]
Mix = Callable[[Tensor, Tensor, Tensor, Tensor, int], Tensor]


@dataclass
class PointerGeneratorOutput(ModelOutput):
    """What a forward pass returns.

    Attributes:
        loss: what is minimised: the mean negative log-likelihood of the scored tokens and, with
            coverage, the weighted coverage loss; None without labels.
        terms: its parts, for the trainer.
        loss_sum: the negative log-likelihood of all scored tokens in nats, float32.
        loss_count: how many tokens are scored.
        log_probs: float (batch, target, vocabulary + outside): of each next token in nats; None
            with labels, because only their probabilities are computed then.
        log_attention: float32 (batch, target, source): minus infinity where nothing can be copied.
        p_gen: float32 (batch, target).
        coverage: float32 (batch, target, source): the attention spent before each step.
    """

    loss: Tensor | None = None
    terms: tuple[LossTerm, ...] | None = None
    loss_sum: Tensor | None = None
    loss_count: Tensor | None = None
    log_probs: Tensor | None = None
    log_attention: Tensor | None = None
    p_gen: Tensor | None = None
    coverage: Tensor | None = None


class PointerGenerator(PreTrainedModel):
    """An encoder and a decoder of LSTMs, with attention that can be copied from.

    It loads and saves as every model of transformers does. Summaries are written by
    ``ehr_course.generation.beam_search``, through ``encode``, ``first_state`` and ``step``.

    >>> model = PointerGenerator(PointerGeneratorConfig(vocab_size=20, d_hidden=8)).eval()
    >>> note, summary = torch.tensor([[1, 7, 21, 8, 2]]), torch.tensor([[1, 7]])
    >>> model(note, decoder_input_ids=summary).log_probs.shape  # 20 words, and 2 extended ids
    torch.Size([1, 2, 22])
    """

    config_class = PointerGeneratorConfig
    base_model_prefix = "pointer_generator"

    def __init__(self, config: PointerGeneratorConfig) -> None:
        super().__init__(config)
        self.encoder = NoteEncoder(config)
        self.decoder = PointerDecoder(config)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> PointerGeneratorOutput:
        """Read notes, and predict the next token at each place of their summaries.

        Args:
            input_ids: int64 (batch, source), padded on the right; a word outside the vocabulary
                has an extended id, vocab_size or more.
            attention_mask: 0 or 1 (batch, source); 1 for tokens; by default all but padding.
            decoder_input_ids: int64 (batch, target): <s> and the summary.
            labels: int64 (batch, target): the summary and </s>; -100 where nothing is scored. A
                label may be an extended id of its own note.

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
        source = self.encode(input_ids, attention_mask)
        embedded = self._embed(decoder_input_ids)  # (batch, target, embedding)
        start, kept = self.first_state(source), self._kept(embedded)
        path = self._loop()(self.decoder, embedded, source, start, kept)
        features = torch.cat([path.states, path.contexts, embedded], dim=-1)
        p_gen_logit = self._p_gen_logit(features)  # (batch, target)
        attention = path.log_attention.exp()
        output = PointerGeneratorOutput(
            log_attention=path.log_attention,
            p_gen=p_gen_logit.sigmoid(),
            coverage=attention.cumsum(dim=1) - attention,
        )
        if labels is None:
            output.log_probs, _ = self._log_probs(
                features, p_gen_logit, path.log_attention, source.ids, log_mixture_everywhere
            )
            return output
        terms = [self._likelihood(features, p_gen_logit, path.log_attention, source, labels)]
        if self.config.coverage:
            total, count = coverage_loss(attention, labels != NOT_SCORED)
            terms.append(LossTerm("coverage", total, count, self.config.coverage_weight))
        output.terms = tuple(terms)
        output.loss_sum, output.loss_count = terms[0].total, terms[0].count
        output.loss = weighted_total(output.terms, loss_counts(labels))
        return output

    # ------------------------------------------------------------------ for generation

    def encode(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> EncodedSource:
        """Read a batch of notes, (batch, source), once."""
        mask = input_ids != self.config.pad_token_id
        if attention_mask is not None:
            mask = attention_mask.bool()
        copyable = mask & (input_ids >= N_SPECIAL)
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
        attend, mix = self._step_parts()
        embedded = self._embed(tokens)
        state, log_attention = self.decoder.advance(embedded, state, source, attend=attend)
        features = torch.cat([state.hidden[:, :, -1], state.context, embedded], dim=-1)
        p_gen_logit = self._p_gen_logit(features)
        log_probs, log_vocabulary = self._log_probs(
            features, p_gen_logit, log_attention, source.ids, mix
        )
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

    # ------------------------------------------------------------------ the parts

    def _known(self, ids: Tensor) -> Tensor:
        """Ids of the vocabulary: for the LSTMs a word outside of it is <unk>."""
        return ids.where(ids < self.config.vocab_size, self.config.unk_token_id)

    def _embed(self, ids: Tensor) -> Tensor:
        return self.decoder.embedding(self._known(ids))

    # The fast twins of the parts that can be read stand in files of their own, which import this
    # one: so they are imported where they are chosen.

    def _loop(self) -> Loop:
        from ehr_course.models.pointer_generator_fast import fast_loop

        return fast_loop if self._is_fast() else plain_loop

    def _step_parts(self) -> tuple[Attend, Mix]:
        """What looks at the note in a step, and what mixes the two distributions."""
        from ehr_course.models.pointer_generator_step import (
            log_attention_by_note,
            log_mixture_at_words,
        )

        attention = self.decoder.attention
        if self._is_fast():
            return partial(log_attention_by_note, attention), log_mixture_at_words
        return attention, log_mixture_everywhere

    def _is_fast(self) -> bool:
        """Whether the fast twins can be used, and may."""
        from ehr_course.models.pointer_generator_fast import fits

        if self.config.decoder_loop == "plain" or fits(self.decoder):
            return self.config.decoder_loop != "plain"
        if self.config.decoder_loop == "auto":
            return False
        raise InputError(
            "PointerGenerator",
            "decoder_loop",
            "a part of the decoder was exchanged or has a hook, which the fast loop does not see",
            'Use "auto" or "plain".',
        )

    def _kept(self, embedded: Tensor) -> Tensor | None:
        """What dropout keeps between the decoder's layers, for all steps at once."""
        config, (batch, target, _) = self.config, embedded.shape
        if not self.training or config.dropout == 0 or config.layers == 1:
            return None
        share = 1 - config.dropout
        shape = target, config.layers - 1, batch, config.d_hidden
        return torch.empty(shape, device=embedded.device).bernoulli_(share) / share

    def _p_gen_logit(self, features: Tensor) -> Tensor:
        """The logit of p_gen, float32 (...): infinite in a model that cannot copy."""
        if self.decoder.p_gen is None:
            return wide(features.new_full(features.shape[:-1], torch.inf))
        return wide(self.decoder.p_gen(features).squeeze(-1))

    def _log_probs(
        self,
        features: Tensor,
        p_gen_logit: Tensor,
        log_attention: Tensor,
        ids: Tensor,
        mix: Mix,
    ) -> tuple[Tensor, Tensor]:
        """The mixed distribution over vocabulary and note, and that of the vocabulary alone."""
        log_vocabulary = wide(self.decoder.vocabulary(features)).log_softmax(-1)
        if self.decoder.p_gen is None:
            return log_vocabulary, log_vocabulary
        outside = max(0, int(ids.max()) + 1 - self.config.vocab_size)
        return mix(log_vocabulary, log_attention, p_gen_logit, ids, outside), log_vocabulary

    def _likelihood(
        self,
        features: Tensor,
        p_gen_logit: Tensor,
        log_attention: Tensor,
        source: EncodedSource,
        labels: Tensor,
    ) -> LossTerm:
        """The negative log-likelihood of the labels: nothing is computed for the other tokens."""
        scored = labels != NOT_SCORED
        targets = labels[scored]  # (n,)
        vocabulary = self.decoder.vocabulary
        inputs = features[scored], vocabulary.weight, vocabulary.bias
        if self.decoder.p_gen is None:  # it knows extended words as <unk> only
            total = scored_likelihood(*inputs, self._known(targets))
            return LossTerm("negative_log_likelihood", total, scored.sum())
        log_copy = log_copy_probability(
            log_attention[scored], source.ids[scored.nonzero()[:, 0]], targets
        )
        lost = (targets >= self.config.vocab_size) & log_copy.isneginf()
        if bool(lost.any()):
            raise InputError(
                "labels",
                f"id {int(targets[lost][0])}",
                "it stands neither in the vocabulary nor in its note",
                "Encode note and summary together: NoteDataset does.",
            )
        total = scored_likelihood(*inputs, targets, log_copy, p_gen_logit[scored])
        return LossTerm("negative_log_likelihood", total, scored.sum())

    def _init_weights(self, module: nn.Module) -> None:
        """Embeddings begin uniform in +-0.1; the rest as PyTorch begins it."""
        if isinstance(module, nn.Embedding):
            init.uniform_(module.weight, -0.1, 0.1)
            # The uniform numbers fill the row of padding too.
            init.zeros_(module.weight[module.padding_idx])
        if isinstance(module, AdditiveAttention) and module.cover is not None:
            init.zeros_(module.cover)


def wide(tensor: Tensor) -> Tensor:
    """A tensor in which probabilities can be added up: float32 at least, float64 stays."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


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
