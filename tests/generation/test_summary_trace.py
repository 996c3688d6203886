"""The trace of a summary: what is kept of each step of the greedy search."""

import copy

import pytest
import torch

from ehr_course.errors import InputError
from ehr_course.generation.beam_search import BeamSettings, beam_search
from ehr_course.generation.summaries import trace_summary
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig
from ehr_course.tokenizers.words import WordTokenizer

NOTE = "She was given quinapril for pain, then quinapril and senna for pain."


TOKENIZER = WordTokenizer(["she", "was", "given", "for", "pain", "and", "then", ",", "."])


EPS = 1e-5


def model(seed=0, **changes):
    torch.manual_seed(seed)
    made = PointerGenerator(PointerGeneratorConfig.for_tokenizer(TOKENIZER, **changes)).eval()
    with torch.no_grad():
        for weights in made.parameters():
            weights.mul_(4)  # so that some words are much likelier than others
    return made


@pytest.fixture(scope="module")
def trace():
    return trace_summary(model(), TOKENIZER, NOTE, max_length=8)


def test_a_step_holds_what_the_model_says_when_fed_the_words_before(trace):
    ids, oov = TOKENIZER.encode_note(NOTE)
    size = len(TOKENIZER)
    known = {TOKENIZER.piece(i, oov): i for i in range(size + len(oov))}
    written = [known[step.written] for step in trace.steps]
    fed = torch.tensor([[TOKENIZER.bos_id, *written[:-1]]])
    with torch.no_grad():
        output = model()(torch.tensor([ids]), None, fed)
    for place, step in enumerate(trace.steps):
        p = output.log_probs[0, place].exp()
        assert step.p_gen == pytest.approx(output.p_gen[0, place].item(), abs=EPS)
        expected = output.log_attention[0, place].exp().tolist()
        assert step.attention == pytest.approx(expected, abs=EPS)
        assert int(p.argmax()) == written[place]
        for word, probability in step.mixed:
            assert probability == pytest.approx(p[known[word]].item(), abs=EPS)


def test_a_words_places_add_up_in_what_is_copied(trace):
    for step in trace.steps:
        for word, probability in step.copied:
            places = [i for i, piece in enumerate(trace.note) if piece == word]
            expected = sum(step.attention[i] for i in places)
            assert probability == pytest.approx(expected, abs=EPS)
    assert trace.note.count("quinapril") == 2


def test_the_mixture_is_that_of_the_two_parts(trace):
    for step in trace.steps:
        generated, copied = dict(step.generated), dict(step.copied)
        for word, probability in step.mixed:
            if word in generated and word in copied:
                expected = step.p_gen * generated[word] + (1 - step.p_gen) * copied[word]
                assert probability == pytest.approx(expected, abs=EPS)


def test_the_words_outside_the_vocabulary_are_named(trace):
    assert trace.oov == ("quinapril", "senna")
    assert trace.note[:4] == ("<s>", "she", "was", "given")


def test_a_model_that_cannot_copy_copies_nothing():
    trace = trace_summary(model(pointer=False), TOKENIZER, NOTE, max_length=3)
    assert {(step.p_gen, step.copied, step.from_copying) for step in trace.steps} == {(1.0, (), 0)}


def test_the_summary_ends_at_its_end_or_at_the_limit():
    ends = model()
    with torch.no_grad():
        ends.decoder.p_gen.weight.zero_()
        ends.decoder.p_gen.bias.fill_(50.0)  # generates always
        ends.decoder.vocabulary.bias[TOKENIZER.eos_id] = 1e3
    assert [step.written for step in trace_summary(ends, TOKENIZER, NOTE).steps] == ["</s>"]
    assert len(trace_summary(model(), TOKENIZER, NOTE, max_length=2).steps) == 2


def test_tracing_leaves_the_model_as_it_was():
    traced = model().train()
    before = copy.deepcopy(traced.state_dict())
    trace_summary(traced, TOKENIZER, NOTE, max_length=2)
    assert traced.training
    assert all(torch.equal(before[name], value) for name, value in traced.state_dict().items())


def test_a_note_without_a_word_and_a_length_of_0_are_refused():
    with pytest.raises(InputError, match="has no word"):
        trace_summary(model(), TOKENIZER, "  ")
    with pytest.raises(InputError, match="max_length"):
        trace_summary(model(), TOKENIZER, NOTE, max_length=0)


def test_the_words_are_those_that_greedy_search_writes():
    for seed in range(5):
        some = model(seed=seed)
        ids, oov = TOKENIZER.encode_note(NOTE)
        settings = BeamSettings(
            beams=1, length_penalty=0.0, min_length=1, max_length=12, no_repeat_ngram_size=0
        )
        (result,) = beam_search(some, torch.tensor([ids]), settings=settings)
        expected = [TOKENIZER.piece(token, oov) for token in result.best.tokens]
        traced = trace_summary(some, TOKENIZER, NOTE, max_length=12)
        assert [step.written for step in traced.steps] == expected


def test_what_a_search_never_writes_is_never_written():
    some = model()
    with torch.no_grad():
        some.decoder.vocabulary.bias[[TOKENIZER.bos_id, TOKENIZER.pad_id]] = 1e3
        some.decoder.p_gen.weight.zero_()
        some.decoder.p_gen.bias.fill_(50.0)  # generates always
    written = {step.written for step in trace_summary(some, TOKENIZER, NOTE, max_length=6).steps}
    assert not written & {"<s>", "<pad>"}
