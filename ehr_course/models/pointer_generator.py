"""A summariser that can write words of its own, or copy them from the note: pointer-generator.

An LSTM reads the note in both directions, another writes the summary. At each step attention says
where in the note the writer looks, and p_gen how much it trusts its own vocabulary rather than the
word it looks at. After See, Liu and Manning (2017), https://arxiv.org/abs/1704.04368.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import ModelOutput

from ehr_course.errors import InputError
from ehr_course.losses import (
    NOT_SCORED,
    LossTerm,
    coverage_loss,
    log_copy_probability,
    loss_counts,
    weighted_total,
)
from ehr_course.models.pointer_generator_config import N_SPECIAL, PointerGeneratorConfig
from ehr_course.models.pointer_generator_fast import fast_loop, fits
from ehr_course.models.pointer_generator_layers import (
    AdditiveAttention,
    Attend,
    DecoderPath,
    DecoderState,
    EncodedSource,
    NoteEncoder,
    PointerDecoder,
    log_mixture_everywhere,
    plain_loop,
    wide,
)
from ehr_course.models.pointer_generator_step import (
    log_attention_by_note,
    log_mixture_at_words,
    vocabulary_in_blocks,
)
from ehr_course.models.scored_vocabulary import scored_likelihood

Loop = Callable[[PointerDecoder, Tensor, EncodedSource, DecoderState, Tensor | None], DecoderPath]
Project = Callable[[Tensor], Tensor]
Mix = Callable[[Tensor, Tensor, Tensor, Tensor, int], Tensor]


class Step(NamedTuple):
    """What the decoder says after one more token.

    Attributes:
        log_probs: float (batch, beams, vocabulary + n_oov): of each next token in nats;
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


@dataclass
class PointerGeneratorOutput(ModelOutput):
    """What a forward pass returns.

    Attributes:
        loss: what is minimised: the mean negative log-likelihood of the scored tokens and, with
            coverage, the weighted coverage loss; None without labels.
        terms: its parts, for the trainer.
        loss_sum: the negative log-likelihood of all scored tokens in nats, float32.
        loss_count: how many tokens are scored.
        log_probs: float (batch, target, vocabulary + n_oov): of each next token in nats; None
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

    config: PointerGeneratorConfig
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
                self.decoder.vocabulary(features),
                p_gen_logit,
                path.log_attention,
                source.ids,
                log_mixture_everywhere,
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
        mask = torch.as_tensor(input_ids != self.config.pad_token_id)
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
        attend, project, mix = self._step_parts()
        embedded = self._embed(tokens)
        state, log_attention = self.decoder.advance(embedded, state, source, attend=attend)
        features = torch.cat([state.hidden[:, :, -1], state.context, embedded], dim=-1)
        p_gen_logit = self._p_gen_logit(features)
        log_probs, log_vocabulary = self._log_probs(
            project(features), p_gen_logit, log_attention, source.ids, mix
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

    def _loop(self) -> Loop:
        return fast_loop if self._is_fast() else plain_loop

    def _step_parts(self) -> tuple[Attend, Project, Mix]:
        """What looks at the note in a step, makes the logits, and mixes the distributions."""
        attention, vocabulary = self.decoder.attention, self.decoder.vocabulary
        if self._is_fast():
            return (
                partial(log_attention_by_note, attention),
                partial(vocabulary_in_blocks, vocabulary),
                log_mixture_at_words,
            )
        return attention, vocabulary, log_mixture_everywhere

    def _is_fast(self) -> bool:
        """Whether the fast twins can be used, and may."""
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
        logits: Tensor,
        p_gen_logit: Tensor,
        log_attention: Tensor,
        ids: Tensor,
        mix: Mix,
    ) -> tuple[Tensor, Tensor]:
        """The mixed distribution over vocabulary and note, and that of the vocabulary alone."""
        log_vocabulary = wide(logits).log_softmax(-1)
        if self.decoder.p_gen is None:
            return log_vocabulary, log_vocabulary
        n_oov = max(0, int(ids.max()) + 1 - self.config.vocab_size)
        return mix(log_vocabulary, log_attention, p_gen_logit, ids, n_oov), log_vocabulary

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
