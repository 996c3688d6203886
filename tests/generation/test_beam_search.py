"""Beam search against a literal one, against exhaustive search, and greedy and drawn summaries."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

import pytest
import torch
from literal_search import (
    Literal,
    every_summary,
    following_of,
    literal_beam_search,
    literal_greedy,
)
from table_model import TableModel, TableStep
from torch import Tensor

from ehr_course.errors import InputError
from ehr_course.generation.beam_search import BeamResult, BeamSettings, beam_search, best_places
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig

EOS = 2


def greedy_search(model: Any, *batch: Tensor, settings: BeamSettings | None = None) -> Any:
    """A beam of one without a length penalty."""
    settings = replace(settings or BeamSettings(), beams=1, length_penalty=0.0)
    return beam_search(model, *batch, settings=settings)


def notes(count: int, *, seed: int = 0, longest: int = 7, ids: int = 30) -> tuple[Tensor, Tensor]:
    """Notes of different lengths, padded: (batch, source) and their mask."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, longest + 1, (count,), generator=generator)
    mask = (torch.arange(int(lengths.max())) < lengths[:, None]).long()
    tokens = torch.randint(4, ids, mask.shape, generator=generator)
    return tokens.where(mask.bool(), 3), mask


def random_case(seed: int) -> tuple[TableModel, tuple[Tensor, Tensor], BeamSettings]:
    chosen = random.Random(seed)
    least = chosen.randint(1, 5)
    model = TableModel(
        chosen.randint(4, 12),
        rounded=chosen.random() < 0.5,
        impossible=chosen.choice([0.0, 0.0, 0.2, 0.6]),
        ends=chosen.choice([-1.0, 0.0, 1.0, 2.0]),
    )
    settings = BeamSettings(
        beams=chosen.randint(1, 6),
        length_penalty=chosen.choice([0.0, 0.5, 1.0, 2.0]),
        min_length=least,
        max_length=least + chosen.randint(0, 9),
        no_repeat_ngram_size=chosen.randint(0, 4),
    )
    return model, notes(chosen.randint(1, 4), seed=seed), settings


def literal_searches(
    model: Any, batch: tuple[Tensor, Tensor], settings: BeamSettings, **options: bool
) -> list[list[Literal]]:
    return [
        literal_beam_search(
            following_of(model, ids[mask.bool()], mask[mask.bool()]), settings, **options
        )
        for ids, mask in zip(*batch, strict=True)
    ]


def tokens_of(results: list[BeamResult]) -> list[list[tuple[int, ...]]]:
    return [[hypothesis.tokens for hypothesis in result.hypotheses] for result in results]


def assert_same(
    results: list[BeamResult], expected: list[list[Literal]], *, places: float = 1e-6
) -> None:
    assert tokens_of(results) == [[tuple(h.tokens) for h in some] for some in expected]
    for result, some in zip(results, expected, strict=True):
        for hypothesis, literal in zip(result.hypotheses, some, strict=True):
            assert hypothesis.finished == literal.finished
            assert hypothesis.log_prob == pytest.approx(literal.log_prob, abs=places)
            assert hypothesis.score == pytest.approx(literal.score, abs=places)


# ---------------------------------------------------------------------- against the literal one


@pytest.mark.parametrize("first", range(0, 500, 50))
def test_the_search_finds_what_a_literal_search_finds(first: int) -> None:
    for seed in range(first, first + 50):
        model, batch, settings = random_case(seed)
        assert_same(
            beam_search(model, *batch, settings=settings), literal_searches(model, batch, settings)
        )


def test_the_random_cases_hold_every_kind_of_ending_and_equal_scores() -> None:
    unfinished = few = equal = early = 0
    for seed in range(100):
        model, batch, settings = random_case(seed)
        for result in beam_search(model, *batch, settings=settings):
            scores = [hypothesis.score for hypothesis in result.hypotheses]
            unfinished += not result.best.finished
            few += len(scores) < settings.beams
            equal += len(set(scores)) < len(scores)
            longest = max(len(hypothesis.tokens) for hypothesis in result.hypotheses)
            early += longest < settings.max_length
    assert min(unfinished, few, equal, early) >= 20


@pytest.mark.parametrize("seed", range(20))
def test_attention_and_p_gen_follow_the_beams_of_their_hypothesis(seed: int) -> None:
    model, batch, settings = random_case(seed)
    results = beam_search(model, *batch, settings=settings)
    for result, some in zip(results, literal_searches(model, batch, settings), strict=True):
        for hypothesis, literal in zip(result.hypotheses, some, strict=True):
            width = batch[0].shape[1]
            looks = torch.zeros(len(literal.tokens), width, dtype=torch.float64)
            for t, (log_attention, _) in enumerate(literal.rows):
                looks[t, : len(log_attention)] = log_attention.exp()
            torch.testing.assert_close(hypothesis.attention, looks)
            assert hypothesis.p_gen.tolist() == [float(p_gen) for _, p_gen in literal.rows]
            spent = [looks[:t].sum(0) for t in range(len(looks))]
            if spent:
                torch.testing.assert_close(hypothesis.coverage, torch.stack(spent))


# ---------------------------------------------------------------------- what must hold


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("no_repeat_ngram_size", [0, 1, 2])
def test_with_a_beam_for_every_hypothesis_it_is_exhaustive_search(
    alpha: float, no_repeat_ngram_size: int
) -> None:
    # Four tokens can be written: at the last step 64 hypotheses have 320 candidates.
    settings = BeamSettings(
        beams=320, length_penalty=alpha, max_length=4, no_repeat_ngram_size=no_repeat_ngram_size
    )
    model, batch = TableModel(7), notes(3, seed=5)
    for result, ids, mask in zip(
        beam_search(model, *batch, settings=settings), *batch, strict=True
    ):
        following = following_of(model, ids[mask.bool()], mask[mask.bool()])
        assert_same([result], [every_summary(following, settings)])


@pytest.mark.parametrize("seed", range(30))
def test_greedy_is_a_literal_greedy_loop(seed: int) -> None:
    model, batch, settings = random_case(seed)
    settings = replace(settings, length_penalty=0.0)
    expected = [
        [literal_greedy(following_of(model, ids[mask.bool()], mask[mask.bool()]), settings)]
        for ids, mask in zip(*batch, strict=True)
    ]
    assert_same(greedy_search(model, *batch, settings=settings), expected)


@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_neighbours_in_the_batch_change_nothing(search: Any) -> None:
    model, (ids, mask) = TableModel(10, ends=0.5), notes(6, seed=3, longest=9)
    together = search(model, ids, mask)
    alone = [
        search(model, note[None, seen.bool()])[0] for note, seen in zip(ids, mask, strict=True)
    ]
    assert together == alone
    assert len({len(result.best.tokens) for result in together}) > 1


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 2.0])
def test_exact_stopping_finds_what_searching_to_the_end_finds(alpha: float) -> None:
    settings = BeamSettings(beams=3, length_penalty=alpha, max_length=14)
    batch, steps = notes(4, seed=9), []
    for ids in (6, 9, 12):
        model = TableModel(ids, ends=2.0)
        results = beam_search(model, *batch, settings=settings, trace=True)
        assert_same(results, literal_searches(model, batch, settings, to_the_end=True))
        steps += [len(result.trace.steps) for result in results]
    assert min(steps) < 14


def test_the_hypotheses_of_a_note_differ_from_each_other() -> None:
    # Beams that all begin with <s> at log P = 0 would find each summary four times.
    for result in beam_search(TableModel(12), *notes(5)):
        assert len({hypothesis.tokens for hypothesis in result.hypotheses}) == 4


def test_no_n_gram_stands_twice_and_without_blocking_some_do() -> None:
    def repeats(no_repeat_ngram_size: int) -> int:
        settings = BeamSettings(
            no_repeat_ngram_size=no_repeat_ngram_size, min_length=20, max_length=25
        )
        found = beam_search(TableModel(9), *notes(5), settings=settings)
        texts = [hypothesis.tokens for result in found for hypothesis in result.hypotheses]
        runs = [[text[i : i + 2] for i in range(len(text) - 1)] for text in texts]
        return sum(len(some) - len(set(some)) for some in runs)

    assert repeats(2) == 0
    assert repeats(0) > 0


@pytest.mark.parametrize("min_length, max_length", [(1, 1), (2, 2), (5, 5), (1, 6), (4, 9)])
def test_lengths_stay_between_their_limits(min_length: int, max_length: int) -> None:
    settings = BeamSettings(min_length=min_length, max_length=max_length)
    batch = notes(6)
    model = TableModel(9, ends=3.0)
    for results in (
        beam_search(model, *batch, settings=settings),
        greedy_search(model, *batch, settings=settings),
    ):
        found = [hypothesis for result in results for hypothesis in result.hypotheses]
        assert all(min_length <= len(hypothesis.tokens) <= max_length for hypothesis in found)
        assert all(hypothesis.finished == (EOS in hypothesis.tokens) for hypothesis in found)
        assert any(hypothesis.finished for hypothesis in found)


def test_begin_and_padding_are_never_written() -> None:
    settings = BeamSettings(min_length=15, max_length=20)
    found = beam_search(TableModel(7), *notes(8), settings=settings)
    assert {t for r in found for h in r.hypotheses for t in h.tokens} == {0, 2, 4, 5, 6}


@pytest.mark.parametrize("beams", [4, 5, 9, 50])
def test_more_beams_than_tokens_is_allowed(beams: int) -> None:
    model, batch = TableModel(4, ends=-1.0), notes(3)  # <unk> and </s> alone can be written
    settings = BeamSettings(beams=beams, max_length=6, no_repeat_ngram_size=0)
    assert_same(
        beam_search(model, *batch, settings=settings), literal_searches(model, batch, settings)
    )


def test_a_hypothesis_that_nothing_may_follow_ends_unfinished() -> None:
    settings = BeamSettings(min_length=8, max_length=9, no_repeat_ngram_size=1)
    model, batch = TableModel(7), notes(2)  # four tokens, each of them once, and no </s> so soon
    for search in (beam_search, greedy_search):
        for result in search(model, *batch, settings=settings):
            assert all(len(h.tokens) == 4 and not h.finished for h in result.hypotheses)


def test_a_model_in_which_nothing_is_possible_gives_an_empty_summary() -> None:
    model, batch = TableModel(6, impossible=1.0), notes(2)
    for search in (beam_search, greedy_search):
        for result in search(model, *batch):
            (hypothesis,) = result.hypotheses
            assert (hypothesis.tokens, hypothesis.finished, hypothesis.score) == ((), False, 0.0)
            assert hypothesis.attention.shape == (0, batch[0].shape[1])


def test_without_a_mask_all_but_padding_is_read() -> None:
    ids, mask = notes(4)
    model = TableModel(9)
    for search in (beam_search, greedy_search):
        assert search(model, ids) == search(model, ids, mask)


# ---------------------------------------------------------------------- equal scores


def test_of_equal_numbers_the_first_places_are_taken() -> None:
    generator = torch.Generator().manual_seed(0)
    for count in (1, 3, 8, 40):
        scores = torch.randint(-3, 3, (200, 40), generator=generator).double()
        scores[scores == -3] = -math.inf
        values, places = best_places(scores, count)
        for row in range(200):
            order = sorted(range(40), key=lambda i: (-float(scores[row, i]), i))[:count]
            possible = [i for i in order if scores[row, i] > -math.inf]
            assert places[row, : len(possible)].tolist() == possible
            assert values[row].tolist() == [float(scores[row, i]) for i in order]


# ---------------------------------------------------------------------- the trace


@pytest.mark.parametrize("seed", range(20))
def test_the_trace_tells_the_whole_search(seed: int) -> None:
    model, batch, settings = random_case(seed)
    results = beam_search(model, *batch, settings=settings, trace=True)
    assert tokens_of(results) == tokens_of(beam_search(model, *batch, settings=settings))
    for result in results:
        live, ended = {0: ()}, {}
        for length, step in enumerate(result.trace.steps, start=1):
            assert 0 < len(step) <= 2 * settings.beams or length == len(result.trace.steps)
            assert [c.score for c in step] == sorted((c.score for c in step), reverse=True)
            alive = [c for c in step if c.fate == "alive"]
            assert [c.beam for c in alive] == list(range(len(alive)))
            assert all((c.fate == "finished") <= (c.token == EOS) for c in step)
            for c in step:
                assert c.score == pytest.approx(c.log_prob / settings.penalty(length))
                if c.fate == "finished":
                    ended[(*live[c.parent], c.token)] = c.score
            live = {c.beam: (*live[c.parent], c.token) for c in alive} or live
        best = sorted(ended.values(), reverse=True)[: settings.beams]
        found = {h.tokens: h.score for h in result.hypotheses}
        if result.best.finished:
            assert sorted(found.values(), reverse=True) == pytest.approx(best)
            assert found.items() <= ended.items()
        else:
            assert set(found) == set(live.values())


def test_a_trace_that_nobody_asked_for_is_not_made() -> None:
    assert beam_search(TableModel(9), *notes(2))[0].trace is None


# ---------------------------------------------------------------------- the pointer-generator


def pointer_generator(**changes: Any) -> PointerGenerator:
    """An untrained one that is sure of itself, so that its summaries differ from note to note."""
    torch.manual_seed(0)
    fields = {"vocab_size": 24, "d_embedding": 8, "d_hidden": 12, "layers": 2, "coverage": True}
    model = PointerGenerator(PointerGeneratorConfig(**fields | changes)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.7)
    return model.eval()


@pytest.mark.parametrize("changes", [{}, {"pointer": False}, {"coverage": False}])
def test_the_pointer_generator_writes_what_a_literal_search_writes(changes: Any) -> None:
    # Ids 24 to 29 are words outside the vocabulary.
    model, batch = pointer_generator(**changes), notes(5, seed=2, longest=12)
    settings = BeamSettings(min_length=6, max_length=20, beams=3)
    results = beam_search(model, *batch, settings=settings)
    assert_same(results, literal_searches(model, batch, settings))
    written = {t for result in results for h in result.hypotheses for t in h.tokens}
    assert model.config.pointer or max(written) < 24
    assert max(written) >= 24 or changes


def test_attention_and_coverage_are_those_of_a_forward_pass_over_the_summary() -> None:
    model, (ids, mask) = pointer_generator(), notes(5, seed=2, longest=12)
    settings = BeamSettings(min_length=6, max_length=20)
    for search in (beam_search, greedy_search):
        for row, result in enumerate(search(model, ids, mask, settings=settings)):
            for hypothesis in result.hypotheses:
                fed = torch.tensor([[1, *hypothesis.tokens[:-1]]])
                with torch.no_grad():
                    output = model(ids[row, None], mask[row, None], fed)
                torch.testing.assert_close(
                    hypothesis.attention, output.log_attention[0].exp().to(torch.float64)
                )
                torch.testing.assert_close(hypothesis.p_gen, output.p_gen[0])
                torch.testing.assert_close(hypothesis.coverage, output.coverage[0])
                log_probs = output.log_probs[0].gather(1, torch.tensor([hypothesis.tokens]).T)
                assert hypothesis.log_prob == pytest.approx(float(log_probs.sum()), abs=1e-9)


def test_a_model_in_training_searches_without_dropout_and_goes_on_training() -> None:
    model, batch = pointer_generator(dropout=0.5), notes(3)
    expected = beam_search(model, *batch)
    model.train()
    assert beam_search(model, *batch) == expected
    assert greedy_search(model, *batch)[0].best.attention.requires_grad is False
    assert model.training
    assert all(part.training for part in model.modules())


# ---------------------------------------------------------------------- any model


class OwnCount(TableModel):
    """A model that says nothing of attention, and counts what it is asked."""

    def __init__(self, ids: int, **options: Any) -> None:
        super().__init__(ids, **options)
        self.asked: list[tuple[int, ...]] = []

    def step(self, tokens: Tensor, state: Any, source: Any) -> TableStep:
        self.asked.append((len(source.logits), *tokens.shape))
        said = super().step(tokens, state, source)
        return said._replace(log_attention=None, p_gen=None)


def test_a_model_without_attention_is_searched_too() -> None:
    best = beam_search(OwnCount(9), *notes(2))[0].best
    assert best.attention is best.p_gen is best.coverage is None
    assert best == beam_search(TableModel(9), *notes(2))[0].best


@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_the_source_is_not_repeated_for_the_beams_and_done_notes_leave(search: Any) -> None:
    model = OwnCount(9, ends=1.0)
    results = search(model, *notes(6, seed=1))
    beams = 4 if search is beam_search else 1
    assert model.asked[0] == (6, 6, beams)
    sizes = [size for size, rows, lanes in model.asked if (size, beams) == (rows, lanes)]
    assert len(sizes) == len(model.asked)
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) > 2
    if search is greedy_search:
        lengths = [len(result.best.tokens) for result in results]
        assert sizes == [sum(n > t for n in lengths) for t in range(max(lengths))]


@pytest.mark.parametrize("seed", range(10))
def test_a_model_is_only_fed_what_can_be_written(seed: int) -> None:
    fed: set[int] = set()

    class Fed(TableModel):
        def step(self, tokens: Tensor, state: Any, source: Any) -> TableStep:
            fed.update(tokens.flatten().tolist())
            return super().step(tokens, state, source)

    # Few tokens and many beams: most beams are empty at first.
    beam_search(Fed(6, impossible=0.3), *notes(3, seed=seed), settings=BeamSettings(beams=9))
    assert fed <= {1, 0, 4, 5}


def test_what_a_model_said_is_left_as_it_was() -> None:
    class Kept(TableModel):
        def __init__(self, ids: int) -> None:
            super().__init__(ids)
            self.said: list[tuple[Tensor, Tensor]] = []

        def step(self, tokens: Tensor, state: Any, source: Any) -> TableStep:
            said = super().step(tokens, state, source)
            self.said.append((said.log_probs, said.log_probs.clone()))
            return said

    for search in (beam_search, greedy_search):
        model = Kept(9)
        search(model, *notes(3))
        assert all(torch.equal(now, before) for now, before in model.said)


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "place, changes",
    [
        ("beams", {"beams": 0}),
        ("length_penalty", {"length_penalty": -0.1}),
        ("length_penalty", {"length_penalty": math.nan}),
        ("length_penalty", {"length_penalty": math.inf}),
        ("min_length", {"min_length": 0}),
        ("max_length", {"max_length": 0}),
        ("max_length", {"min_length": 9, "max_length": 8}),
        ("no_repeat_ngram_size", {"no_repeat_ngram_size": -1}),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(place: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"BeamSettings, {place}: "):
        BeamSettings(**changes)


@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_a_model_that_says_no_number_is_refused(search: Any) -> None:
    class Broken(TableModel):
        def step(self, tokens: Tensor, state: Any, source: Any) -> TableStep:
            said = super().step(tokens, state, source)
            said.log_probs[-1, -1, 5] = math.nan
            return said

    with pytest.raises(InputError, match="log_probs: some are not a number"):
        search(Broken(9), *notes(2))


@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_input_of_another_shape_is_refused(search: Any) -> None:
    ids, _ = notes(2)
    with pytest.raises(
        InputError, match=r"input_ids: its shape is \(\d,\), not \(batch, source\)"
    ):
        search(TableModel(9), ids[0])
