"""The decoder's loop of the pointer-generator, with a backward pass written by hand.

It returns what ``plain_loop`` returns. Autograd would keep every intermediate result of every
step, (batch, source, hidden) each, and form every weight's gradient once a step. Here one
``autograd.Function`` holds the loop: it keeps what is small, computes the rest again on the way
back, and leaves the gradient of each weight to one matrix product after the loop.

The symbols: scores_t = v . tanh(keys + W_d h_t + W_c coverage_t). Softmax does not see a constant,
and tanh(x) is 2 sigmoid(2x) - 1, so the scores are computed as 2v . sigmoid(2x): on a processor
the sigmoid is three times as fast as tanh. Below, keys, W_d, v and W_c stand for the doubled ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ehr_course.models.pointer_generator_layers import (
    AdditiveAttention,
    DecoderPath,
    DecoderState,
    EncodedSource,
    PointerDecoder,
    is_plain,
    wide,
)
from ehr_course.models.scored_vocabulary import refuse_second_derivative

LARGEST_POWER = 80.0
"""exp(80) is still a float32, exp(89) is not."""


def fits(decoder: PointerDecoder) -> bool:
    """Whether the loop can be computed here: not if a part was exchanged, or carries a hook."""
    attention = decoder.attention
    parts: list[tuple[nn.Module, type[nn.Module]]]
    parts = [(cell, nn.LSTMCell) for cell in decoder.cells]
    parts += [(attention, AdditiveAttention)]
    parts += [(attention.query, nn.Linear), (attention.score, nn.Linear)]
    return all(is_plain(part, kind) for part, kind in parts)


def fast_loop(
    decoder: PointerDecoder,
    embedded: Tensor,
    source: EncodedSource,
    start: DecoderState,
    kept: Tensor | None = None,
) -> DecoderPath:
    """Run the decoder over a summary: values and gradients of ``plain_loop``, sooner.

    Half precision is widened to float32 inside: the loop is bound by memory and by the number of
    its operations, not by their arithmetic.

    Args:
        decoder: the decoder.
        embedded: float (batch, target, embedding): the summary, as it is fed.
        source: the notes.
        start: where the decoder begins, with one beam.
        kept: float (target, layers - 1, batch, hidden): what dropout keeps, scaled, or None.
    """
    attention, layers = decoder.attention, len(decoder.cells)
    width = embedded.shape[2]
    with torch.autocast(embedded.device.type, enabled=False):
        fed = wide(embedded).transpose(0, 1)  # (target, batch, embedding)
        given, recurrent = [], []
        for layer, cell in enumerate(decoder.cells):
            assert isinstance(cell, nn.LSTMCell)
            of_input, bias = wide(cell.weight_ih), wide(cell.bias_ih) + wide(cell.bias_hh)
            if layer == 0:  # what the embeddings do to the gates needs no loop
                of_embedded, of_input = of_input.split([width, of_input.shape[1] - width], dim=1)
                given.append(linear(fed, of_embedded, bias))  # (target, batch, 4 hidden)
            else:
                given.append(bias.expand_as(given[0]))
            recurrent.append(torch.cat([of_input, wide(cell.weight_hh)], dim=1))
        closed = torch.zeros_like(source.copyable, dtype=fed.dtype)
        states, contexts, log_attention = _Loop.apply(
            layers,
            closed.masked_fill(~source.copyable, -torch.inf),
            wide(source.states),
            2 * wide(source.keys),
            wide(start.hidden[:, 0]).transpose(0, 1),
            wide(start.cell[:, 0]).transpose(0, 1),
            wide(start.context[:, 0]),
            wide(start.coverage[:, 0]),
            None if kept is None else kept.to(fed.dtype),
            2 * wide(attention.query.weight),
            2 * wide(attention.score.weight[0]),
            None if attention.cover is None else 2 * wide(attention.cover),
            *given,
            *recurrent,
        )
    return DecoderPath(
        states.transpose(0, 1).to(embedded.dtype),
        contexts.transpose(0, 1).to(embedded.dtype),
        log_attention.transpose(0, 1),
    )


class _Loop(torch.autograd.Function):
    """The loop itself. All tensors are of one type, and steps are their first dimension."""

    @staticmethod
    def forward(
        ctx: Any,
        layers: int,
        closed: Tensor,  # (batch, source): 0, and minus infinity where nothing can be copied
        encoded: Tensor,  # (batch, source, 2 hidden)
        keys: Tensor,  # (batch, source, hidden)
        hidden: Tensor,  # (layers, batch, hidden)
        cell: Tensor,  # (layers, batch, hidden)
        context: Tensor,  # (batch, 2 hidden)
        coverage: Tensor,  # (batch, source)
        kept: Tensor | None,  # (target, layers - 1, batch, hidden)
        w_d: Tensor,  # (hidden, hidden)
        v: Tensor,  # (hidden,)
        w_c: Tensor | None,  # (hidden,)
        *weights: Tensor,  # the gates from outside the loop, then what multiplies the states
    ) -> tuple[Tensor, Tensor, Tensor]:
        given, recurrent = weights[:layers], weights[layers:]
        (batch, length, size), target = keys.shape, given[0].shape[0]
        # A layer's input and its own last state stand side by side: one product moves both.
        inputs = [keys.new_empty(target + 1, batch, weight.shape[1]) for weight in recurrent]
        gates = [gate.clone(memory_format=torch.contiguous_format) for gate in given]
        cells = keys.new_empty(layers, target + 1, batch, size)
        squashed = keys.new_empty(layers, target, batch, size)  # tanh of the cells
        inputs[0][0, :, :-size], cells[:, 0] = context, cell
        for x, first in zip(inputs, hidden, strict=True):
            x[0, :, -size:] = first
        steps = [_LayerSteps.of(*of) for of in zip(gates, inputs, cells, squashed, strict=True)]
        contexts, tops = inputs[0][:, :, :-size].unbind(0), steps[-1].own
        log_attention = keys.new_empty(target, batch, length)
        attention, covered = torch.empty_like(log_attention), coverage.clone()
        energy, scores = _Energy(keys, w_d, w_c), torch.empty_like(closed)
        query = w_d.new_empty(batch, size)
        recurrent_t, w_d_t = [weight.t() for weight in recurrent], w_d.t()
        for t, (looks, log_looks) in enumerate(zip(attention, log_attention, strict=True)):
            for layer, of in enumerate(steps):
                of.gates[t].addmm_(of.inputs[t], recurrent_t[layer])
                of.i_f[t].sigmoid_(), of.g[t].tanh_(), of.o[t].sigmoid_()
                after = torch.mul(of.f[t], of.cells[t], out=of.cells[t + 1])
                after.addcmul_(of.i[t], of.g[t])
                torch.tanh(after, out=of.squashed[t])
                h = torch.mul(of.o[t], of.squashed[t], out=of.own[t + 1])
                if layer + 1 < layers:
                    above = steps[layer + 1].given[t]
                    above.copy_(h) if kept is None else torch.mul(h, kept[t, layer], out=above)
            torch.mm(tops[t + 1], w_d_t, out=query)
            torch.mv(energy(query, covered).view(-1, size), v, out=scores.view(-1))
            log_looks.copy_(scores.add_(closed).log_softmax(dim=1))
            torch.exp(log_looks, out=looks)
            contexts[t + 1].copy_(torch.bmm(looks[:, None], encoded)[:, 0])
            if w_c is not None:
                covered += looks
        ctx.layers, ctx.kept = layers, kept
        ctx.save_for_backward(
            *(encoded, keys, coverage, w_d, v, w_c, attention, cells, squashed),
            *(*gates, *inputs, *recurrent),
        )
        return inputs[-1][1:, :, -size:].clone(), inputs[0][1:, :, :-size].clone(), log_attention

    @staticmethod
    def backward(
        ctx: Any, d_states: Tensor, d_contexts: Tensor, d_log_attention: Tensor
    ) -> tuple[Tensor | None, ...]:
        refuse_second_derivative("fast_loop", 'Use decoder_loop="plain".')
        with torch.autocast(d_states.device.type, enabled=False):
            return _backward(ctx, d_states, d_contexts, d_log_attention)


class _LayerSteps(NamedTuple):
    """The tensors of one LSTM layer, as tuples with a view for each step."""

    gates: tuple[Tensor, ...]  # (batch, 4 hidden), in PyTorch's order i, f, g, o
    i_f: tuple[Tensor, ...]
    i: tuple[Tensor, ...]
    f: tuple[Tensor, ...]
    g: tuple[Tensor, ...]
    o: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]  # (batch, width), made of the two that follow
    given: tuple[Tensor, ...]
    own: tuple[Tensor, ...]
    cells: tuple[Tensor, ...]
    squashed: tuple[Tensor, ...]

    @classmethod
    def of(cls, gates: Tensor, inputs: Tensor, cells: Tensor, squashed: Tensor) -> _LayerSteps:
        size = cells.shape[-1]
        parts = gates, gates[..., : 2 * size], *gates.chunk(4, dim=-1)
        parts += inputs, inputs[..., :-size], inputs[..., -size:], cells, squashed
        return cls(*(part.unbind(0) for part in parts))


class _Energy:
    """sigmoid(keys + query + coverage) of one step: (batch, source, hidden), in the same room."""

    def __init__(self, keys: Tensor, w_d: Tensor, w_c: Tensor | None) -> None:
        self.keys, self.w_c = keys, w_c
        self.room, self.one = torch.empty_like(keys), keys.new_ones(())
        # A sigmoid is 1 / (1 + exp(-a - b)), and exp(-a - b) is a product: without coverage the
        # powers of the keys serve all steps. A state is below 1, so what exp sees is bounded.
        largest = keys.abs().amax() + w_d.abs().sum(dim=1).amax()
        self.powers = None
        if w_c is None and bool(largest < LARGEST_POWER):
            self.powers = keys.neg().exp_()

    def __call__(self, query: Tensor, covered: Tensor) -> Tensor:
        if self.powers is not None:
            power = query.neg().exp_()[:, None]
            return torch.addcmul(self.one, self.powers, power, out=self.room).reciprocal_()
        torch.add(self.keys, query[:, None], out=self.room)
        if self.w_c is not None:
            self.room.addcmul_(covered[:, :, None], self.w_c)
        return self.room.sigmoid_()


def _backward(
    ctx: Any, d_states: Tensor, d_contexts: Tensor, d_log_attention: Tensor
) -> tuple[Tensor | None, ...]:
    layers, kept, saved = ctx.layers, ctx.kept, ctx.saved_tensors
    encoded, keys, coverage, w_d, v, w_c, attention, cells, squashed = saved[:9]
    gates, inputs, recurrent = (saved[9 + k * layers : 9 + (k + 1) * layers] for k in range(3))
    (batch, length, size), target = keys.shape, attention.shape[0]
    slopes = [_slopes(*tensors) for tensors in zip(gates, cells, squashed, strict=True)]
    # log softmax, apart from what comes through the attention itself.
    d_scores = torch.empty_like(attention)
    total = d_log_attention.sum(dim=2, keepdim=True)
    torch.addcmul(d_log_attention, attention, total, value=-1, out=d_scores)
    d_contexts = d_contexts.contiguous().clone()
    covered: list[Tensor] | Tensor = [coverage] * target
    if w_c is not None:
        covered = torch.cat([coverage[None], attention[:-1]]).cumsum(dim=0)
    queries = linear(inputs[-1][1:, :, -size:], w_d)  # (target, batch, hidden)

    energy, d_keys = _Energy(keys, w_d, w_c), torch.zeros_like(keys)
    d_queries, d_v = torch.empty_like(queries), torch.zeros_like(v)
    d_w_c, d_covered = torch.zeros_like(v), torch.zeros_like(coverage)
    d_hidden = torch.zeros_like(cells[:, 0])  # (layers, batch, hidden), of the step after
    d_cell = torch.zeros_like(d_hidden)
    d_inputs = [torch.zeros_like(x[0]) for x in inputs]
    transposed = encoded.transpose(1, 2)
    steps = [_SlopeSteps.of(*of) for of in zip(gates, slopes, strict=True)]
    d_given = [d[:, :-size] for d in d_inputs]
    d_own = [d[:, -size:] for d in d_inputs]
    for t in reversed(range(target)):
        # The context, and through it the attention.
        d_context, looks = d_contexts[t].add_(d_given[0]), attention[t]
        d_attention = torch.bmm(d_context[:, None], transposed)[:, 0]
        if w_c is not None:
            d_attention += d_covered
        d_attention *= looks
        d_score = d_scores[t].add_(d_attention)
        d_score.addcmul_(looks, d_attention.sum(dim=1, keepdim=True), value=-1)
        # The scores: s of sigmoid, then its slope s - s^2. A factor v waits until the end.
        sigmoid = energy(queries[t], covered[t])
        flat = sigmoid.view(-1, size)
        d_v.addmv_(flat.t(), d_score.view(-1))
        slope = sigmoid.addcmul_(sigmoid, sigmoid, value=-1)
        d_keys.addcmul_(slope, d_score[:, :, None])
        d_query = torch.mul(torch.bmm(d_score[:, None], slope)[:, 0], v, out=d_queries[t])
        if w_c is not None:
            d_w_c.addmv_(flat.t(), (d_score * covered[t]).view(-1))
            d_covered.addcmul_(d_score, torch.mv(flat, v * w_c).view(batch, length))
        # The LSTM, from its last layer down.
        d_hidden[-1].add_(d_states[t]).addmm_(d_query, w_d)
        for layer in reversed(range(layers)):
            of, d_h, d_c = steps[layer], d_hidden[layer], d_cell[layer]
            d_c.addcmul_(d_h, of.cell[t])
            of.o[t].mul_(d_h)
            of.i_f_g[t].mul_(d_c[:, None])
            d_c.mul_(of.f[t])
            torch.mm(of.gates[t], recurrent[layer], out=d_inputs[layer])
            d_h.copy_(d_own[layer])
            if layer > 0:
                if kept is not None:
                    d_given[layer].mul_(kept[t, layer - 1])
                d_hidden[layer - 1].add_(d_given[layer])

    d_gates = [of_gates for of_gates, _ in slopes]
    del energy  # as large as the keys
    d_encoded = attention.permute(1, 2, 0) @ d_contexts.transpose(0, 1)
    tops = inputs[-1][1:, :, -size:]
    return (
        *(None, None, d_encoded, d_keys.mul_(v), d_hidden, d_cell),
        *(d_given[0], d_covered, None),
        *(_product(d_queries, tops), d_v, None if w_c is None else d_w_c.mul_(v)),
        *d_gates,
        *(_product(d, x[:-1]) for d, x in zip(d_gates, inputs, strict=True)),
    )


def _slopes(gates: Tensor, cells: Tensor, squashed: Tensor) -> tuple[Tensor, Tensor]:
    """What a change of the gates before their activations does to cell and state, for all steps.

    Returns:
        (target, batch, 4 hidden): of i, f and g to the new cell, of o to the new state; and
        (target, batch, hidden): of the new cell to the new state.
    """
    i, f, g, o = gates.chunk(4, dim=2)
    of_gates = torch.cat(
        [
            g * i * (1 - i),
            cells[:-1] * f * (1 - f),
            i * (1 - g * g),
            squashed * o * (1 - o),
        ],
        dim=2,
    )
    return of_gates, o * (1 - squashed * squashed)


class _SlopeSteps(NamedTuple):
    """The slopes of one LSTM layer, which the way back turns into gradients step by step."""

    gates: tuple[Tensor, ...]  # (batch, 4 hidden), made of the two that follow
    i_f_g: tuple[Tensor, ...]  # (batch, 3, hidden)
    o: tuple[Tensor, ...]
    cell: tuple[Tensor, ...]
    f: tuple[Tensor, ...]  # the forget gate itself

    @classmethod
    def of(cls, gates: Tensor, slopes: tuple[Tensor, Tensor]) -> _SlopeSteps:
        of_gates, of_cell = slopes
        four = of_gates.unflatten(2, (4, -1))
        parts = of_gates, four[:, :, :3], four[:, :, 3], of_cell, gates.chunk(4, dim=2)[1]
        return cls(*(part.unbind(0) for part in parts))


def _product(left: Tensor, right: Tensor) -> Tensor:
    """The sum over steps and rows of the outer products: the gradient of a weight."""
    return left.flatten(0, 1).t() @ right.flatten(0, 1)
