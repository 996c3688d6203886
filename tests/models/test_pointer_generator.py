"""The pointer-generator that can be read, against its description step by step."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch
from literal_pointer_generator import LiteralPointerGenerator, ours
from torch import Tensor, nn

from ehr_course.errors import InputError
from ehr_course.models.pointer_generator import (
    N_SPECIAL,
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
    """In float64, reading its loop step by step, with a coverage that is not 0."""
    torch.manual_seed(0)
    fields = {"vocab_size": VOCABULARY, "d_embedding": D_EMBEDDING, "d_hidden": D_HIDDEN}
    fields |= {"decoder_loop": "plain"}
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
    word = (NOTES >= N_SPECIAL)[:, None].expand_as(attention)
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
    assert output.log_probs is None


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
    kept = model._kept(torch.zeros(16, 50, D_EMBEDDING, dtype=torch.double))
    assert kept.shape == (50, 1, 16, 64)
    assert kept.unique().tolist() == [0.0, pytest.approx(1.25)]
    assert kept.mean().item() == pytest.approx(1.0, abs=0.02)


def test_coverage_that_is_switched_on_late_changes_nothing_at_first() -> None:
    model = a_model()
    before = model(NOTES, decoder_input_ids=SUMMARIES).log_probs
    model.add_coverage(0.5)
    after = model(NOTES, decoder_input_ids=SUMMARIES, labels=LABELS)
    assert torch.equal(model(NOTES, decoder_input_ids=SUMMARIES).log_probs, before)
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


@pytest.mark.parametrize("loop", ["plain", "fast"])
def test_float16_is_close_to_float64(loop: str) -> None:
    model = a_model(decoder_loop=loop, coverage=True)
    run = {"input_ids": NOTES, "decoder_input_ids": SUMMARIES, "labels": LABELS}
    exact = model(**run)
    with torch.autocast("cpu", dtype=torch.float16):
        lower = model.float()(**run)
    assert lower.loss.dtype == torch.float32
    assert lower.loss.item() == pytest.approx(exact.loss.item(), rel=1e-3)
    assert (lower.log_attention.exp() - exact.log_attention.exp()).abs().max() < 2e-3


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
        ("decoder_loop", "faster"),
    ],
)
def test_a_size_out_of_range_is_named(field: str, value: object) -> None:
    with pytest.raises(InputError, match=f"PointerGeneratorConfig, {field}: {value!r} is out of"):
        PointerGeneratorConfig(**{field: value})


def test_a_configuration_fits_its_tokenizer() -> None:
    config = PointerGeneratorConfig.for_tokenizer(range(50), "small", dropout=0.2)
    assert (config.vocab_size, config.d_hidden, config.dropout) == (50, 128, 0.2)
    with pytest.raises(InputError, match="profile: 'huge' is none"):
        PointerGeneratorConfig.for_tokenizer(range(50), "huge")
