"""The fast loop returns what the plain one returns, and so do its gradients."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ehr_course.errors import InputError
from ehr_course.models import pointer_generator
from ehr_course.models.pointer_generator import Loop, PointerGenerator, PointerGeneratorConfig
from ehr_course.models.pointer_generator_fast import fast_loop, fits
from ehr_course.models.pointer_generator_layers import (
    AdditiveAttention,
    DecoderPath,
    DecoderState,
    EncodedSource,
    plain_loop,
)

D_EMBEDDING, D_HIDDEN, TARGET = 5, 6, 4
LOOPS = plain_loop, fast_loop
NOTES = torch.tensor(
    [[1, 7, 8, 31, 9, 7, 30, 9, 2], [1, 7, 9, 12, 2, 3, 3, 3, 3], [5, 3, 3, 3, 3, 3, 3, 3, 3]]
)
SUMMARIES = torch.tensor([[1, 7, 31, 30], [1, 12, 9, 3], [1, 20, 5, 2]])
LABELS = torch.tensor([[7, 31, 30, 2], [12, 9, 2, -100], [20, 5, 2, -100]])


def a_model(**changes: object) -> PointerGenerator:
    torch.manual_seed(0)
    fields = {"d_embedding": D_EMBEDDING, "d_hidden": D_HIDDEN, "dropout": 0.3, "vocab_size": 30}
    model = PointerGenerator(PointerGeneratorConfig(**(fields | changes))).double()
    if model.config.coverage:  # it begins at 0, where much of its gradient is 0 too
        nn.init.normal_(model.decoder.attention.cover)
    return model


class Case(NamedTuple):
    """What a loop is given, and everything that it has a gradient for."""

    model: PointerGenerator
    embedded: Tensor
    source: EncodedSource
    start: DecoderState
    kept: Tensor | None

    def run(self, loop: Loop) -> DecoderPath:
        return loop(self.model.decoder, self.embedded, self.source, self.start, self.kept)

    def leaves(self) -> dict[str, Tensor]:
        used = ("cells", "attention.query", "attention.score", "attention.cover")
        parameters = self.model.decoder.named_parameters()
        named = {name: p for name, p in parameters if name.startswith(used)}
        named |= {"embedded": self.embedded, "states": self.source.states}
        return named | {"keys": self.source.keys} | self.start._asdict()


def a_case(
    *, layers: int = 2, coverage: bool = True, dropout: bool = True, ragged: bool = True
) -> Case:
    """A decoder that begins anywhere, so that no gradient is 0 by chance."""
    model = a_model(layers=layers, coverage=coverage)
    ids = NOTES if ragged else NOTES[:1].expand(3, -1)
    read = model.encode(ids)
    source = EncodedSource(
        *(x.detach().requires_grad_() if x.is_floating_point() else x for x in read)
    )
    batch, length = ids.shape

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.double).requires_grad_()

    start = DecoderState(
        random(batch, 1, layers, D_HIDDEN),
        random(batch, 1, layers, D_HIDDEN),
        random(batch, 1, 2 * D_HIDDEN),
        torch.rand(batch, 1, length, dtype=torch.double).requires_grad_(),
    )
    kept = None
    if dropout and layers > 1:
        shape = TARGET, layers - 1, batch, D_HIDDEN
        kept = torch.empty(shape, dtype=torch.double).bernoulli_(0.7) / 0.7
    return Case(model, random(batch, TARGET, D_EMBEDDING), source, start, kept)


def gradients(total: Tensor, leaves: list[Tensor]) -> tuple[Tensor, ...]:
    """The gradients of a scalar; 0 for what it does not depend on."""
    return torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)


def a_loss(case: Case, path: DecoderPath) -> Tensor:
    """A random weighting of every output that is not minus infinity."""
    generator = torch.Generator().manual_seed(1)
    total = torch.zeros((), dtype=torch.double)
    for output in path:
        weights = torch.randn(output.shape, generator=generator, dtype=torch.double)
        total = total + (output.masked_fill(output.isneginf(), 0.0) * weights).sum()
    return total


@pytest.mark.parametrize(
    ("layers", "coverage", "dropout", "ragged"),
    list(itertools.product((1, 2, 3), (False, True), (False, True), (False, True))),
)
def test_values_and_gradients_are_those_of_the_plain_loop(
    layers: int, coverage: bool, dropout: bool, ragged: bool
) -> None:
    case = a_case(layers=layers, coverage=coverage, dropout=dropout, ragged=ragged)
    leaves = case.leaves()
    paths = [case.run(loop) for loop in LOOPS]
    plain, fast = (
        torch.autograd.grad(
            a_loss(case, path), list(leaves.values()), materialize_grads=True, allow_unused=True
        )
        for path in paths
    )
    for name, expected, made in zip(DecoderPath._fields, *paths, strict=True):
        torch.testing.assert_close(made, expected, rtol=0, atol=1e-12, msg=lambda m, n=name: n + m)
    for name, expected, made in zip(leaves, plain, fast, strict=True):
        assert (made - expected).abs().max() < 1e-10, name


def test_the_comparison_would_see_a_gradient_that_is_missing() -> None:
    case = a_case()
    leaves = case.leaves()
    gradients = torch.autograd.grad(a_loss(case, case.run(plain_loop)), list(leaves.values()))
    for name, gradient in zip(leaves, gradients, strict=True):
        assert gradient.abs().max() > 1e-4, name


def test_energies_whose_powers_would_overflow_are_computed_too() -> None:
    case = a_case(coverage=False)
    with torch.no_grad():  # exp(1000) is infinite even in float64
        case.source.keys.add_(1000)
        case.model.decoder.attention.query.weight.mul_(3000)
    leaves = list(case.leaves().values())
    plain, fast = (gradients(a_loss(case, case.run(loop)), leaves) for loop in LOOPS)
    for expected, made in zip(plain, fast, strict=True):
        torch.testing.assert_close(made, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("field", DecoderPath._fields)
def test_one_output_alone_has_the_gradients_of_the_plain_loop(field: str) -> None:
    case = a_case()
    leaves = list(case.leaves().values())

    plain, fast = (
        gradients(output.masked_fill(output.isneginf(), 0.0).square().sum(), leaves)
        for output in (getattr(case.run(loop), field) for loop in LOOPS)
    )
    for expected, made in zip(plain, fast, strict=True):
        torch.testing.assert_close(made, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"coverage": True},
        {"layers": 1},
        {"layers": 3, "coverage": True, "chunk_length": 4},
        {"pointer": False},
        {"pointer": False, "coverage": True},
    ],
    ids=str,
)
def test_a_training_step_of_the_model_is_the_same_with_both_loops(
    changes: dict[str, object],
) -> None:
    models = [a_model(decoder_loop=loop, **changes).train() for loop in ("plain", "fast")]
    losses = []
    for model in models:
        torch.manual_seed(2)  # dropout
        losses.append(model(NOTES, decoder_input_ids=SUMMARIES, labels=LABELS).loss)
        losses[-1].backward()
    assert (losses[0] - losses[1]).abs() < 1e-12
    for (name, plain), fast in zip(
        models[0].named_parameters(), models[1].parameters(), strict=True
    ):
        assert plain.grad is not None, name
        assert fast.grad is not None, name
        assert (plain.grad - fast.grad).abs().max() < 1e-10, name


def test_a_summary_of_one_token_of_one_note() -> None:
    model = a_model().eval()
    plain, fast = (
        loop(model.decoder, embedded, source, model.first_state(source))
        for source in [model.encode(NOTES[:1])]
        for embedded in [model.decoder.embedding(torch.tensor([[1]]))]
        for loop in LOOPS
    )
    assert fast.states.shape == (1, 1, D_HIDDEN)
    torch.testing.assert_close(tuple(fast), tuple(plain), rtol=0, atol=1e-12)


def test_float32_is_close_to_float64() -> None:
    exact, rounded = a_model(coverage=True).eval(), a_model(coverage=True).float().eval()
    for model in (exact, rounded):
        model(NOTES, decoder_input_ids=SUMMARIES, labels=LABELS).loss.backward()
    for expected, made in zip(exact.parameters(), rounded.parameters(), strict=True):
        torch.testing.assert_close(made.grad.double(), expected.grad, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("loop", ["plain", "fast"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast_gives_the_gradients_of_float32_roughly(loop: str, dtype: torch.dtype) -> None:
    def learned(lower: bool) -> list[Tensor]:
        model = a_model(decoder_loop=loop, coverage=True).float().eval()
        with torch.autocast("cpu", dtype=dtype, enabled=lower):
            loss = model(NOTES, decoder_input_ids=SUMMARIES, labels=LABELS).loss
        assert loss.dtype == torch.float32
        loss.backward()
        return [p.grad for p in model.parameters()]

    coarse = 0.02 if dtype == torch.float16 else 0.1
    for made, expected in zip(learned(True), learned(False), strict=True):
        assert made.dtype == torch.float32
        assert (made - expected).norm() < coarse * expected.norm() + 2e-4


def test_under_autocast_the_loop_itself_stays_in_float32() -> None:
    case = a_case()
    case.model.float()
    embedded, source, start = (
        case.embedded.float(),
        EncodedSource(*(x.float() if x.is_floating_point() else x for x in case.source)),
        DecoderState(*(x.float() for x in case.start)),
    )
    given = case.model.decoder, embedded, source, start, case.kept.float()
    with torch.autocast("cpu", dtype=torch.float16):
        lower = fast_loop(*given)
        torch.autograd.backward(lower.states.sum())  # inside: it is not lowered there either
        gradient = case.start.hidden.grad.clone()
    case.start.hidden.grad = None
    exact = fast_loop(*given)
    exact.states.sum().backward()
    assert torch.equal(lower.states, exact.states)
    assert torch.equal(gradient, case.start.hidden.grad)


def test_a_model_of_a_lower_type_gets_its_own_type_back() -> None:
    model = a_model().bfloat16().eval()
    output = model(NOTES, decoder_input_ids=SUMMARIES, labels=LABELS)
    output.loss.backward()
    assert model.decoder.cells[0].weight_ih.grad.dtype == torch.bfloat16


def test_without_gradients_the_values_are_the_same_and_nothing_is_kept() -> None:
    model = a_model().eval()
    with torch.no_grad():
        quiet = model(NOTES, decoder_input_ids=SUMMARIES, labels=LABELS)
    loud = model(NOTES, decoder_input_ids=SUMMARIES, labels=LABELS)
    assert quiet.loss.grad_fn is None
    assert torch.equal(quiet.loss, loud.loss)
    assert torch.equal(quiet.log_attention, loud.log_attention)


def test_a_second_backward_pass_finds_everything_as_the_first_left_it() -> None:
    case = a_case()
    leaves = list(case.leaves().values())
    loss = a_loss(case, case.run(fast_loop))
    first = torch.autograd.grad(loss, leaves, retain_graph=True)
    second = torch.autograd.grad(loss, leaves)
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one, other)


def test_a_gradient_of_the_gradient_is_refused() -> None:
    case = a_case()
    loss = a_loss(case, case.run(fast_loop))
    with pytest.raises(
        InputError, match="fast_loop, backward: create_graph=True asks for its sec"
    ):
        torch.autograd.grad(loss, case.embedded, create_graph=True)


def test_what_is_kept_for_the_way_back_does_not_hold_a_step_of_the_note() -> None:
    model = a_model(d_hidden=32, layers=1).eval()
    notes, summary = torch.randint(4, 30, (1, 200)), torch.randint(4, 30, (1, 50))
    source, embedded = model.encode(notes), model.decoder.embedding(summary)

    def kept(loop: Loop) -> int:
        sizes: dict[int, int] = {}

        def pack(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            sizes[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            path = loop(model.decoder, embedded, source, model.first_state(source))
        assert path.states.grad_fn is not None
        return sum(sizes.values())

    energies = 50 * 200 * 32
    assert kept(plain_loop) > energies
    assert kept(fast_loop) < energies / 4


def test_it_trains_in_distributed_data_parallel(tmp_path: Path) -> None:
    alone, shared = a_model(coverage=True).eval(), a_model(coverage=True).eval()
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'meet'}", rank=0, world_size=1
    )
    try:
        wrapped = DistributedDataParallel(shared)
        for model in (alone, wrapped):
            model(NOTES, decoder_input_ids=SUMMARIES, labels=LABELS).loss.backward()
    finally:
        torch.distributed.destroy_process_group()
    for expected, made in zip(alone.parameters(), shared.parameters(), strict=True):
        assert torch.equal(made.grad, expected.grad)


class FlatAttention(AdditiveAttention):
    """An attention that looks at every word alike."""

    def forward(self, query: Tensor, source: EncodedSource, coverage: Tensor) -> Tensor:
        scores = source.copyable[:, None].to(query.dtype).log()
        return scores.log_softmax(dim=-1).expand(-1, query.shape[1], -1)


def exchange_attention(model: PointerGenerator) -> None:
    model.decoder.attention = FlatAttention(model.config).double()


def hook_a_cell(model: PointerGenerator) -> None:
    model.decoder.cells[1].register_forward_hook(lambda *_: None)


@pytest.mark.parametrize("change", [exchange_attention, hook_a_cell])
def test_a_decoder_with_a_part_of_your_own_gets_the_plain_loop(change: object) -> None:
    model = a_model(decoder_loop="auto").eval()
    assert fits(model.decoder)
    change(model)
    assert not fits(model.decoder)
    output = model(NOTES, decoder_input_ids=SUMMARIES)
    if change is exchange_attention:
        assert output.log_attention[0, 0].exp().max() == pytest.approx(1 / 7)
    model.config.decoder_loop = "fast"
    with pytest.raises(InputError, match="decoder_loop: a part of the decoder was exchanged"):
        model(NOTES, decoder_input_ids=SUMMARIES)


@pytest.mark.parametrize(("loop", "plain"), [("plain", True), ("fast", False), ("auto", False)])
def test_the_configuration_chooses_the_loop(
    loop: str, plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = []
    monkeypatch.setattr(
        pointer_generator, "plain_loop", lambda *given: ran.append(1) or plain_loop(*given)
    )
    a_model(decoder_loop=loop)(NOTES, decoder_input_ids=SUMMARIES)
    assert bool(ran) is plain
