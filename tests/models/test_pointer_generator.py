"""The pointer-generator against its description step by step."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from literal_pointer_generator import LiteralPointerGenerator, ours
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM

from ehr_course.errors import InputError
from ehr_course.generation.beam_search import BeamSettings, beam_search
from ehr_course.models.pointer_generator import (
    PointerGenerator,
    PointerGeneratorConfig,
)

VOCABULARY, D_EMBEDDING, D_HIDDEN = 30, 5, 6
NOTES = torch.tensor(
    [[1, 7, 8, 31, 9, 7, 30, 9, 2], [1, 7, 9, 30, 2, 3, 3, 3, 3], [5, 3, 3, 3, 3, 3, 3, 3, 3]]
)
"""Two words outside the vocabulary, 30 and 31; ids below 4 are special, 3 is padding."""
SUMMARIES = torch.tensor([[1, 7, 31, 30], [1, 12, 30, 3], [1, 20, 5, 2]])
LABELS = torch.tensor([[7, 31, 30, 2], [12, 30, 2, -100], [20, 5, 2, -100]])


def a_model(**changes: object) -> PointerGenerator:
    """In float64, with a coverage that is not 0."""
    torch.manual_seed(0)
    fields = {"vocab_size": VOCABULARY, "d_embedding": D_EMBEDDING, "d_hidden": D_HIDDEN}
    model = PointerGenerator(PointerGeneratorConfig(**(fields | changes))).double().eval()
    if model.config.coverage:
        nn.init.normal_(model.decoder.attention.cover)
    return model


def same(made: Tensor, expected: Tensor, within: float = 1e-12) -> None:
    torch.testing.assert_close(made, expected, rtol=0, atol=within)


# ------------------------------------------------------------------ against the literal model


@pytest.mark.parametrize(
    ("layers", "coverage", "pointer"),
    list(itertools.product((1, 2, 3), (False, True), (True, False))),
)
def test_loss_distributions_and_gradients_are_the_literal_ones(
    layers: int, coverage: bool, pointer: bool
) -> None:
    model = a_model(layers=layers, coverage=coverage, pointer=pointer, coverage_weight=0.7)
    literal = LiteralPointerGenerator.like(model)
    expected = literal(NOTES, SUMMARIES, LABELS)
    made = model(NOTES, decoder_input_ids=SUMMARIES, labels=LABELS)
    same(made.loss, expected.loss)
    same(made.loss_sum, expected.nll_sum)
    same(made.log_attention.exp(), expected.attentions)
    same(made.coverage, expected.coverages)
    if pointer:
        same(made.p_gen, expected.p_gens)
    if coverage:
        same(made.terms[1].total, expected.coverage_sum)
        assert int(made.terms[1].count) == int(made.loss_count) == 10
    log_probs = model(NOTES, decoder_input_ids=SUMMARIES).log_probs
    same(log_probs.exp(), expected.distributions)
    made.loss.backward()
    expected.loss.backward()
    seen = set()
    for name, parameter in literal.named_parameters():
        gradient = ours_gradient(model, name)
        same(gradient.view_as(parameter.grad), parameter.grad, 1e-10)
        seen.add(name)
    assert len(seen) == len(list(model.parameters()))


def ours_gradient(model: PointerGenerator, name: str) -> Tensor:
    return ours(model, name).grad


def test_the_default_size_has_the_parameters_of_the_source_note() -> None:
    model = PointerGenerator(PointerGeneratorConfig())

    def count(*modules: nn.Module) -> int:
        return sum(p.numel() for module in modules for p in module.parameters())

    assert count(model) == 22_459_137
    assert count(model.encoder.embedding) == count(model.decoder.embedding) == 2_048_000
    assert count(model.encoder.lstm) == 2_367_488
    assert count(model.decoder.cells) == 1_445_888
    assert count(model.decoder.attention) == 196_864
    assert count(model.decoder.vocabulary) == 14_352_000
    assert count(model.decoder.p_gen) == 897


def test_chunks_and_the_pointer_change_no_other_parameters() -> None:
    whole, chunks = a_model(), a_model(chunk_length=4)
    assert whole.num_parameters() == chunks.num_parameters()
    assert a_model(coverage=True).num_parameters() == whole.num_parameters() + D_HIDDEN
    assert a_model(pointer=False).num_parameters() == whole.num_parameters() - 24


# ------------------------------------------------------------------ the encoder


@pytest.mark.parametrize("chunk", [1, 2, 3, 4, 5, 9, 20])
def test_chunks_are_read_as_notes_of_their_own(chunk: int) -> None:
    model = a_model(chunk_length=chunk, layers=2)
    source = model.encode(NOTES)
    embedded = model.encoder.embedding(NOTES.where(NOTES < VOCABULARY, 0))
    for row, length in enumerate((9, 5, 1)):
        states, ends = [], []
        for begin in range(0, length, chunk):
            piece = embedded[row : row + 1, begin : min(begin + chunk, length)]
            read, (hidden, cell) = model.encoder.lstm(piece)
            states.append(read[0])
            ends.append(torch.stack([hidden[:, 0], cell[:, 0]]))  # (2, layers * 2, hidden)
        same(source.states[row, :length], torch.cat(states))
        assert not source.states[row, length:].any()
        # Forwards the note ends in its last chunk, backwards in its first.
        expected = (ends[-1][:, 0::2] + ends[0][:, 1::2]) / 2
        same(torch.stack([source.hidden[row], source.cell[row]]), expected)


def test_a_chunk_knows_nothing_of_the_others_and_the_whole_does() -> None:
    changed = NOTES[:1].clone()
    changed[0, -2] = 20
    for chunk, alike in ((3, True), (None, False)):
        model = a_model(chunk_length=chunk)
        before, after = model.encode(NOTES[:1]).states, model.encode(changed).states
        assert torch.equal(before[:, :3], after[:, :3]) is alike


@pytest.mark.parametrize("changes", [{}, {"chunk_length": 4}, {"coverage": True}], ids=str)
def test_padding_changes_nothing(changes: dict[str, object]) -> None:
    model = a_model(**changes)
    together = model(NOTES, decoder_input_ids=SUMMARIES)
    for row, (note, summary) in enumerate(((9, 4), (5, 3), (1, 3))):
        given = NOTES[row : row + 1, :note], SUMMARIES[row : row + 1, :summary]
        alone = model(given[0], decoder_input_ids=given[1])
        columns = alone.log_probs.shape[-1]
        same(together.log_probs[row, :summary, :columns], alone.log_probs[0])
        assert together.log_probs[row, :summary, columns:].isneginf().all()
        same(together.log_attention[row, :summary, :note], alone.log_attention[0])
        assert together.log_attention[row, :, note:].isneginf().all()


def test_the_order_of_a_batch_changes_nothing() -> None:
    model, order = a_model(coverage=True), torch.tensor([2, 0, 1])
    before = model(NOTES, decoder_input_ids=SUMMARIES)
    after = model(NOTES[order], decoder_input_ids=SUMMARIES[order])
    same(after.log_probs, before.log_probs[order])


def test_a_mask_given_is_the_mask_of_the_padding() -> None:
    model = a_model()
    mask = (NOTES != 3).long()
    given = model(NOTES, mask, SUMMARIES, LABELS)
    assert torch.equal(given.loss, model(NOTES, None, SUMMARIES, LABELS).loss)
    mask[0, 5:] = 0  # as if the note ended there
    shorter = torch.cat([NOTES[:1, :5], torch.full((1, 4), 3)], dim=1)
    made = model(NOTES[:1], mask[:1], SUMMARIES[:1]).log_attention
    assert torch.equal(made, model(shorter, None, SUMMARIES[:1]).log_attention)


# ------------------------------------------------------------------ attention, copying


def test_attention_is_on_words_alone_and_sums_to_one() -> None:
    output = a_model()(NOTES, decoder_input_ids=SUMMARIES)
    attention = output.log_attention.exp()
    word = (NOTES >= 4)[:, None].expand_as(attention)
    assert (attention[~word] == 0).all()
    assert (attention[word] > 0).all()
    same(attention.sum(dim=2), torch.ones(3, 4, dtype=torch.double))


def test_a_label_outside_the_vocabulary_is_copied_and_read_as_unknown() -> None:
    model = a_model()
    output = model(NOTES, decoder_input_ids=SUMMARIES)
    assert output.log_probs.shape == (3, 4, 32)
    attention = output.log_attention.exp()
    copied = (1 - output.p_gen[0]) * attention[0, :, NOTES[0] == 31].sum(dim=1)
    same(output.log_probs[0, :, 31].exp(), copied)
    unknown = SUMMARIES.where(SUMMARIES < VOCABULARY, 0)
    assert torch.equal(model(NOTES, decoder_input_ids=unknown).log_probs, output.log_probs)


def test_a_model_that_cannot_copy_knows_words_outside_as_unknown() -> None:
    model = a_model(pointer=False)
    output = model(NOTES, decoder_input_ids=SUMMARIES)
    assert output.log_probs.shape == (3, 4, VOCABULARY)
    assert (output.p_gen == 1).all()
    unknown = LABELS.where(LABELS < VOCABULARY, 0)
    with_names = model(NOTES, decoder_input_ids=SUMMARIES, labels=LABELS).loss
    assert torch.equal(with_names, model(NOTES, None, SUMMARIES, unknown).loss)


@pytest.mark.parametrize("pointer", [True, False])
def test_probabilities_sum_to_one_and_give_the_loss(pointer: bool) -> None:
    model = a_model(pointer=pointer)
    log_probs = model(NOTES, decoder_input_ids=SUMMARIES).log_probs
    same(log_probs.exp().sum(dim=-1), torch.ones(3, 4, dtype=torch.double))
    labels = LABELS if pointer else LABELS.where(LABELS < VOCABULARY, 0)
    scored = labels != -100
    picked = log_probs[scored].gather(1, labels[scored][:, None]).sum()
    output = model(NOTES, decoder_input_ids=SUMMARIES, labels=LABELS)
    same(output.loss_sum, -picked)
    same(output.loss, -picked / 10)
    assert torch.equal(output.logits, log_probs)  # they stand beside the loss


def test_while_it_trains_only_the_loss_is_computed() -> None:
    model = a_model().train()
    assert model(NOTES, decoder_input_ids=SUMMARIES, labels=LABELS).logits is None
    assert model(NOTES, decoder_input_ids=SUMMARIES).logits is not None


def test_a_word_that_is_nearly_impossible_can_still_be_learned() -> None:
    model = a_model().float()
    with torch.no_grad():
        model.decoder.vocabulary.bias[20] = -200.0  # and it is not in the first note
    labels = torch.full_like(LABELS, -100)
    labels[0, 1] = 20
    output = model(NOTES, decoder_input_ids=SUMMARIES, labels=labels)
    output.loss.backward()
    assert output.loss.item() == pytest.approx(200, abs=10)
    assert model.decoder.vocabulary.bias.grad[20].item() == pytest.approx(-1, abs=1e-3)


def test_steps_one_by_one_say_what_the_whole_summary_says() -> None:
    model = a_model(coverage=True)
    whole = model(NOTES, decoder_input_ids=SUMMARIES)
    source = model.encode(NOTES)
    state = model.first_state(source)
    for t in range(SUMMARIES.shape[1]):
        step = model.step(SUMMARIES[:, t, None], state, source)
        same(state.coverage[:, 0], whole.coverage[:, t])
        same(step.log_probs[:, 0], whole.log_probs[:, t])
        same(step.log_attention[:, 0], whole.log_attention[:, t])
        same(step.p_gen[:, 0], whole.p_gen[:, t])
        state = step.state


def test_beams_of_a_note_do_not_see_each_other() -> None:
    model = a_model(coverage=True)
    source = model.encode(NOTES)
    first = model.first_state(source)
    three = type(first)(*(x.expand(-1, 3, *x.shape[2:]) for x in first))
    tokens = torch.tensor([[1, 7, 31], [1, 12, 9], [1, 5, 20]])
    together = model.step(tokens, three, source)
    for beam in range(3):
        alone = model.step(tokens[:, beam, None], first, source)
        same(together.log_probs[:, beam], alone.log_probs[:, 0])
        same(together.state.coverage[:, beam], alone.state.coverage[:, 0])
        same(together.state.hidden[:, beam], alone.state.hidden[:, 0])


# ------------------------------------------------------------------ dropout, coverage


def test_dropout_acts_between_layers_while_training_only() -> None:
    model = a_model(dropout=0.5, layers=2)
    run = {"input_ids": NOTES, "decoder_input_ids": SUMMARIES, "labels": LABELS}
    assert torch.equal(model(**run).loss, model(**run).loss)
    model.train()
    assert not torch.equal(model(**run).loss, model(**run).loss)
    model.encoder.eval()  # what is left is the decoder's
    assert not torch.equal(model(**run).loss, model(**run).loss)
    single = a_model(dropout=0.5, layers=1).train()
    assert torch.equal(single(**run).loss, single(**run).loss)


def test_dropout_keeps_its_share_and_the_expected_value() -> None:
    model = a_model(dropout=0.2, layers=2, d_hidden=64).train()
    kept = model.decoder._kept(torch.zeros(16, 1, 50, D_EMBEDDING, dtype=torch.double))
    assert kept.shape == (50, 1, 16, 64)
    assert kept.unique().tolist() == [0.0, pytest.approx(1.25)]
    assert kept.mean().item() == pytest.approx(1.0, abs=0.02)


def test_coverage_that_is_switched_on_late_changes_nothing_at_first() -> None:
    model = a_model()
    before = model(NOTES, decoder_input_ids=SUMMARIES).log_probs
    model.add_coverage(0.5)
    after = model(NOTES, decoder_input_ids=SUMMARIES, labels=LABELS)
    same(model(NOTES, decoder_input_ids=SUMMARIES).log_probs, before)
    assert [(term.name, term.weight) for term in after.terms] == [
        ("negative_log_likelihood", 1.0),
        ("coverage", 0.5),
    ]
    after.loss.backward()
    assert model.decoder.attention.cover.grad.abs().max() > 0
    with pytest.raises(InputError, match="add_coverage: the model has coverage"):
        model.add_coverage()


# ------------------------------------------------------------------ saved, lower precision


@pytest.mark.parametrize("late", [False, True], ids=["from the start", "coverage added"])
def test_a_saved_model_comes_back_bit_by_bit(late: bool, tmp_path: Path) -> None:
    model = a_model(layers=3, chunk_length=4, coverage=not late)
    if late:
        model.add_coverage(0.25)
        nn.init.normal_(model.decoder.attention.cover)
    model.save_pretrained(tmp_path)
    loaded = PointerGenerator.from_pretrained(tmp_path, dtype=torch.double)
    assert loaded.config.coverage_weight == model.config.coverage_weight
    assert not loaded.training
    expected = model.state_dict()
    for name, weight in loaded.state_dict().items():
        assert torch.equal(weight, expected.pop(name)), name
    assert not expected
    run = {"input_ids": NOTES, "decoder_input_ids": SUMMARIES}
    same(loaded(**run).log_probs, model(**run).log_probs)  # weights may lie elsewhere in memory


def test_coverage_can_be_switched_on_while_loading(tmp_path: Path) -> None:
    model = a_model()
    model.save_pretrained(tmp_path)
    loaded = PointerGenerator.from_pretrained(tmp_path, coverage=True, dtype=torch.double)
    assert torch.equal(loaded.decoder.attention.cover, torch.zeros(D_HIDDEN, dtype=torch.double))
    run = {"input_ids": NOTES, "decoder_input_ids": SUMMARIES}
    same(loaded(**run).log_probs, model(**run).log_probs)  # weights may lie elsewhere in memory


@pytest.mark.parametrize(
    ("dtype", "coarse"), [(torch.float16, 0.02), (torch.bfloat16, 0.1)], ids=str
)
def test_autocast_gives_roughly_the_loss_and_the_gradients(
    dtype: torch.dtype, coarse: float
) -> None:
    def learned(lower: bool) -> tuple[Tensor, list[Tensor]]:
        model = a_model(coverage=True, layers=2).float()
        with torch.autocast("cpu", dtype=dtype, enabled=lower):
            output = model(NOTES, decoder_input_ids=SUMMARIES, labels=LABELS)
        assert output.loss.dtype == output.log_attention.dtype == torch.float32
        output.loss.backward()
        return output.loss, [p.grad for p in model.parameters()]

    (lower, rounded), (loss, exact) = learned(True), learned(False)
    assert lower.item() == pytest.approx(loss.item(), rel=1e-2)
    for made, expected in zip(rounded, exact, strict=True):
        assert (made - expected).norm() < coarse * expected.norm() + 2e-4


def test_a_model_of_a_lower_type_keeps_its_own_type() -> None:
    model = a_model().bfloat16()
    model(NOTES, decoder_input_ids=SUMMARIES, labels=LABELS).loss.backward()
    assert model.decoder.cells[0].weight_ih.grad.dtype == torch.bfloat16


# ------------------------------------------------------------------ gradients


def test_energies_whose_powers_would_overflow_are_computed_too() -> None:
    model = a_model()
    with torch.no_grad():  # exp(1000) is infinite even in float64
        model.decoder.attention.key.weight.mul_(1000)
        model.decoder.attention.query.weight.mul_(1000)
    made = model(NOTES, decoder_input_ids=SUMMARIES).log_attention.exp()
    expected = LiteralPointerGenerator.like(model)(NOTES, SUMMARIES, LABELS).attentions
    same(made, expected)


def test_every_output_has_its_gradient_and_a_second_way_back_finds_the_same() -> None:
    model = a_model(coverage=True, layers=2)
    literal = LiteralPointerGenerator.like(model)
    made, expected = (
        model(NOTES, decoder_input_ids=SUMMARIES),
        literal(NOTES, SUMMARIES, LABELS),
    )
    parts = ((made.log_probs.exp(), expected.distributions), (made.p_gen, expected.p_gens))
    parts += (
        (made.log_attention.exp(), expected.attentions),
        (made.coverage, expected.coverages),
    )
    names = [name for name, _ in literal.named_parameters()]
    for ours_part, literal_part in parts:
        weights = torch.randn(ours_part.shape, dtype=torch.double)
        parameters = [ours(model, name) for name in names]
        for _ in range(2):
            gradients = torch.autograd.grad(
                (ours_part * weights).sum(), parameters, retain_graph=True, allow_unused=True
            )
        literal_gradients = torch.autograd.grad(
            (literal_part * weights).sum(),
            list(literal.parameters()),
            retain_graph=True,
            allow_unused=True,
        )
        for name, one, other in zip(names, gradients, literal_gradients, strict=True):
            if other is None:
                assert one is None or not one.any(), name
            else:
                same(one.view_as(other), other, 1e-10)


def test_no_step_of_the_note_is_kept_for_the_way_back() -> None:
    model = a_model(d_hidden=128, coverage=True)
    notes, summary = torch.randint(4, 30, (1, 200)), torch.randint(4, 30, (1, 50))
    sizes: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        sizes[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(notes, decoder_input_ids=summary)
    energies = 200 * 128
    assert list(sizes.values()).count(energies) < 5  # of 50 steps


def test_it_trains_in_distributed_data_parallel(tmp_path: Path) -> None:
    alone, shared = a_model(coverage=True), a_model(coverage=True)
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


# ------------------------------------------------------------------ as transformers expects


def test_the_auto_classes_load_it(tmp_path: Path) -> None:
    model = a_model(coverage=True)
    model.save_pretrained(tmp_path)
    assert AutoConfig.from_pretrained(tmp_path).model_type == "pointer_generator"
    for auto in (AutoModel, AutoModelForSeq2SeqLM):
        loaded = auto.from_pretrained(tmp_path, dtype=torch.double)
        assert type(loaded) is PointerGenerator
        run = {"input_ids": NOTES, "decoder_input_ids": SUMMARIES}
        same(loaded(**run).logits, model(**run).logits)


@pytest.mark.parametrize("beams", [1, 4])
def test_generate_of_transformers_writes_what_the_courses_search_writes(beams: int) -> None:
    torch.manual_seed(1)
    model = a_model(coverage=True)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.7)
        model.decoder.p_gen.bias.fill_(-4.0)  # it copies much
    ids = torch.randint(4, 34, (12, 15))  # 30 to 33 are words outside the vocabulary
    ids[:6, 11:] = 3
    settings = BeamSettings(beams=beams, length_penalty=0.0, min_length=1, max_length=20)
    written = model.generate(
        ids,
        num_beams=beams,
        max_length=21,
        length_penalty=0.0,
        no_repeat_ngram_size=3,
        early_stopping="never",
        do_sample=False,
    )
    found = beam_search(model, ids, settings=settings)
    for row, result in zip(written.tolist(), found, strict=True):
        assert tuple(i for i in row[1:] if i != 3) == result.best.tokens
    assert any(max(result.best.tokens) >= 30 for result in found)


def test_a_configuration_that_was_saved_with_a_choice_of_loops_loads() -> None:
    fields = PointerGeneratorConfig(vocab_size=30).to_dict() | {"decoder_loop": "auto"}
    assert PointerGeneratorConfig.from_dict(fields).vocab_size == 30


def test_special_ids_are_those_of_the_configuration() -> None:
    special = {"unk_token_id": 7, "bos_token_id": 8, "eos_token_id": 9, "pad_token_id": 10}
    model = a_model(**special)
    source = model.encode(torch.tensor([[8, 0, 3, 7, 9, 10]]))
    assert source.copyable.tolist() == [[False, True, True, False, False, False]]


def test_embeddings_begin_small_and_that_of_padding_is_zero() -> None:
    model = a_model(d_embedding=50)
    for embedding in (model.encoder.embedding, model.decoder.embedding):
        assert not embedding.weight[3].any()
        assert 0.09 < embedding.weight.abs().max() <= 0.1


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        (
            [[1, 7, 2], [1, 2, 3]],
            r"input_ids, row 1: the note has no word to look at: \[1, 2, 3\]",
        ),
        ([[1, 7, 2], [3, 3, 3]], "input_ids, row 1: the note has no word"),
        ([[3, 1, 7]], "attention_mask: a token stands after padding. Pad notes on the right"),
        ([[1, 3, 7]], "attention_mask: a token stands after padding"),
    ],
)
def test_a_note_that_cannot_be_read_is_named(notes: list[list[int]], message: str) -> None:
    ids = torch.tensor(notes)
    with pytest.raises(InputError, match=message):
        a_model()(ids, decoder_input_ids=torch.ones_like(ids))


def test_a_summary_that_is_missing_is_named() -> None:
    with pytest.raises(InputError, match="decoder_input_ids: it is missing"):
        a_model()(NOTES)


def test_a_label_that_can_be_neither_written_nor_copied_is_named() -> None:
    labels = LABELS.clone()
    labels[1, 0] = 31  # it stands in the first note, not in the second
    with pytest.raises(InputError, match="labels, id 31: it stands neither in the vocabulary nor"):
        a_model()(NOTES, decoder_input_ids=SUMMARIES, labels=labels)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("vocab_size", 4),
        ("d_embedding", 0),
        ("d_hidden", 0),
        ("layers", 0),
        ("dropout", 1.0),
        ("dropout", -0.1),
        ("max_source", 2),
        ("max_target", 1),
        ("chunk_length", 0),
        ("coverage_weight", -1.0),
    ],
)
def test_a_size_out_of_range_is_named(field: str, value: object) -> None:
    with pytest.raises(InputError, match=f"PointerGeneratorConfig, {field}: {value!r} is out of"):
        PointerGeneratorConfig(**{field: value})


def test_a_configuration_fits_its_tokenizer() -> None:
    config = PointerGeneratorConfig.for_tokenizer(range(50), "small", dropout=0.2)
    assert (config.vocab_size, config.d_hidden, config.dropout) == (50, 128, 0.2)
    with pytest.raises(InputError, match="profile: 'huge' is not a profile"):
        PointerGeneratorConfig.for_tokenizer(range(50), "huge")
