"""The pointer-generator as its description reads, step by step: slow, and easy to believe.

At every step of the summary one LSTM step, one projection of the whole note for attention, one
softmax over the whole vocabulary, one scatter of the attention into it; all distributions are
stacked, and then the loss takes the logarithm of a clamped probability. It is the oracle of the
tests, and what the benchmark compares with. It differs from the summariser's source note where
that leaves no choice: special tokens of the note cannot be copied, the decoder begins at the mean
of the two directions, words outside the vocabulary have columns of their own, and a step of
padding costs nothing.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import nll_loss, softmax
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig


class LiteralOutput(NamedTuple):
    """Everything the literal model says of a batch."""

    loss: Tensor
    nll_sum: Tensor
    coverage_sum: Tensor
    distributions: Tensor  # (batch, target, vocabulary + n_oov)
    attentions: Tensor  # (batch, target, source)
    coverages: Tensor  # (batch, target, source): before each step
    p_gens: Tensor  # (batch, target)


class LiteralState(NamedTuple):
    """Where the decoder is."""

    hidden: tuple[Tensor, Tensor]  # (layers, batch, hidden) each
    context: Tensor  # (batch, 2 hidden)
    coverage: Tensor  # (batch, source)


class LiteralPointerGenerator(nn.Module):
    """The source note's modules, under the source note's names."""

    def __init__(self, config: PointerGeneratorConfig) -> None:
        super().__init__()
        self.config = config
        vocabulary, width, hidden = config.vocab_size, config.d_embedding, config.d_hidden
        shared = {"num_layers": config.layers, "batch_first": True}
        shared["dropout"] = config.dropout if config.layers > 1 else 0.0
        self.encoder_embedding = nn.Embedding(vocabulary, width, padding_idx=config.pad_token_id)
        self.encoder_lstm = nn.LSTM(width, hidden, bidirectional=True, **shared)
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=config.pad_token_id)
        self.lstm = nn.LSTM(width + 2 * hidden, hidden, **shared)
        self.W_h = nn.Linear(2 * hidden, hidden, bias=False)
        self.W_d = nn.Linear(hidden, hidden, bias=False)
        self.W_c = nn.Linear(1, hidden, bias=False) if config.coverage else None
        self.v = nn.Linear(hidden, 1, bias=False)
        self.out_proj = nn.Linear(3 * hidden + width, vocabulary)
        self.p_gen_linear = nn.Linear(3 * hidden + width, 1) if config.pointer else None

    @classmethod
    def like(cls, model: PointerGenerator) -> Self:
        """The literal model with the parameters of one of ours, copied."""
        literal = cls(model.config).to(next(model.parameters()))
        with torch.no_grad():
            for name, parameter in literal.named_parameters():
                parameter.copy_(ours(model, name).view_as(parameter))
        return literal.train(model.training)

    def forward(self, src_ids: Tensor, tgt_ids: Tensor, labels: Tensor) -> LiteralOutput:
        """Notes (batch, source), decoder inputs and labels (batch, target), as ours takes them."""
        config = self.config
        lengths = (src_ids != config.pad_token_id).sum(dim=1)
        encoder_outputs, decoder_hidden = self.encode(self.known(src_ids), lengths)
        batch, src_len, _ = encoder_outputs.shape
        mask = src_ids >= 4
        n_oov = max(0, int(src_ids.max()) + 1 - config.vocab_size)
        context = encoder_outputs.new_zeros(batch, 2 * config.d_hidden)
        coverage = encoder_outputs.new_zeros(batch, src_len)
        state = LiteralState(decoder_hidden, context, coverage)
        outputs, attentions, coverages, p_gens = [], [], [], []
        for t in range(tgt_ids.shape[1]):
            coverages.append(state.coverage)
            final, attention, p_gen, state = self.step(
                tgt_ids[:, t], state, encoder_outputs, mask, src_ids, n_oov
            )
            outputs.append(final)
            attentions.append(attention)
            p_gens.append(p_gen.squeeze(1))
        distributions = torch.stack(outputs, dim=1)
        attentions, coverages = torch.stack(attentions, dim=1), torch.stack(coverages, dim=1)
        if self.p_gen_linear is None:
            labels = labels.where(labels < config.vocab_size, config.unk_token_id)
        log_probs = torch.log(distributions.clamp(min=1e-8))
        nll_sum = nll_loss(log_probs.flatten(0, 1), labels.flatten(), reduction="sum")
        scored = labels != -100
        repeated = torch.minimum(attentions, coverages).sum(dim=2)
        coverage_sum = (repeated * scored).sum()
        loss = nll_sum / scored.sum()
        if config.coverage:
            loss = loss + config.coverage_weight * coverage_sum / scored.sum()
        p_gens = torch.stack(p_gens, dim=1)
        return LiteralOutput(
            loss, nll_sum, coverage_sum, distributions, attentions, coverages, p_gens
        )

    def step(
        self,
        tokens: Tensor,
        state: LiteralState,
        encoder_outputs: Tensor,
        mask: Tensor,
        src_ids: Tensor,
        n_oov: int,
    ) -> tuple[Tensor, Tensor, Tensor, LiteralState]:
        """One word further: its distribution, the attention, p_gen, and where the decoder is."""
        embedded = self.embedding(self.known(tokens)).unsqueeze(1)
        lstm_input = torch.cat([embedded, state.context.unsqueeze(1)], dim=2)
        lstm_output, hidden = self.lstm(lstm_input, state.hidden)
        lstm_output = lstm_output.squeeze(1)
        context, attention = self.attend(lstm_output, encoder_outputs, mask, state.coverage)
        features = torch.cat([lstm_output, context, embedded.squeeze(1)], dim=1)
        final = softmax(self.out_proj(features), dim=1)
        p_gen = torch.ones_like(final[:, :1])
        if self.p_gen_linear is not None:
            p_gen = torch.sigmoid(self.p_gen_linear(features))
            final = p_gen * final
            if n_oov:
                final = torch.cat([final, final.new_zeros(len(final), n_oov)], dim=1)
            final = final.scatter_add(1, src_ids, (1 - p_gen) * attention)
        state = LiteralState(hidden, context, state.coverage + attention)
        return final, attention, p_gen, state

    def known(self, ids: Tensor) -> Tensor:
        return ids.where(ids < self.config.vocab_size, self.config.unk_token_id)

    def encode(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The states of the note, and where the decoder begins: (layers, batch, hidden) each."""
        embedded = self.encoder_embedding(ids)
        packed = pack_padded_sequence(
            embedded, lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        outputs, (h_n, c_n) = self.encoder_lstm(packed)
        outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=ids.shape[1])
        return outputs, (
            (h_n[0::2] + h_n[1::2]) / 2,
            (c_n[0::2] + c_n[1::2]) / 2,
        )

    def attend(
        self, decoder_hidden: Tensor, encoder_outputs: Tensor, mask: Tensor, coverage: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The context (batch, 2 hidden) and the attention (batch, source) of one step."""
        src_len = encoder_outputs.shape[1]
        h_t = decoder_hidden.unsqueeze(1).expand(-1, src_len, -1)
        energy = self.W_h(encoder_outputs) + self.W_d(h_t)
        if self.W_c is not None:
            energy = energy + self.W_c(coverage.unsqueeze(2))
        scores = self.v(torch.tanh(energy)).squeeze(2)
        weights = softmax(scores.masked_fill(mask == 0, -1e4), dim=1)
        return torch.bmm(weights.unsqueeze(1), encoder_outputs).squeeze(1), weights


def ours(model: PointerGenerator, name: str) -> Tensor:
    """The parameter of our model that the literal one calls so."""
    module, _, last = name.rpartition(".")
    encoder, decoder = model.encoder, model.decoder
    if module == "lstm":
        kind, _, layer = last.rpartition("_l")
        return getattr(decoder.cells[int(layer)], kind)
    if module == "W_c":
        return decoder.attention.cover
    modules = {
        "encoder_embedding": encoder.embedding,
        "encoder_lstm": encoder.lstm,
        "embedding": decoder.embedding,
        "W_h": decoder.attention.key,
        "W_d": decoder.attention.query,
        "v": decoder.attention.score,
        "out_proj": decoder.vocabulary,
        "p_gen_linear": decoder.p_gen,
    }
    return getattr(modules[module], last)
