"""The generation trace: what is kept of each step, the words and the picture."""

import copy

import pytest
import torch
from matplotlib.patches import Rectangle

from ehr_course.errors import InputError
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig
from ehr_course.plots.generation_trace import (
    GenerationTrace,
    TraceStep,
    describe_trace_step,
    draw_trace_step,
    trace_summary,
    trace_title,
)
from ehr_course.tokenizers.words import WordTokenizer

NOTE = "She was given quinapril for pain, then quinapril and senna for pain."
TOKENIZER = WordTokenizer(["she", "was", "given", "for", "pain", "and", "then", ",", "."])
EPS = 1e-5


def model(**changes):
    torch.manual_seed(0)
    made = PointerGenerator(PointerGeneratorConfig.for_tokenizer(TOKENIZER, **changes)).eval()
    with torch.no_grad():
        for weights in made.parameters():
            weights.mul_(4)  # so that some words are much likelier than others
    return made


@pytest.fixture(scope="module")
def trace():
    return trace_summary(model(), TOKENIZER, NOTE, max_length=8)


def step_of(**changes):
    fields = {
        "written": "senna",
        "attention": (0.05, 0.15, 0.8),
        "p_gen": 0.25,
        "generated": (("given", 0.6), ("pain", 0.3)),
        "copied": (("senna", 0.8), ("given", 0.15)),
        "mixed": (("senna", 0.6), ("given", 0.26)),
        "from_copying": 1.0,
    }
    return TraceStep(**fields | changes)


def made(*steps, note=("<s>", "given", "senna"), outside=("senna",)):
    return GenerationTrace(note, outside, steps)


# ---------------------------------------------------------------------- what is traced


def test_a_step_holds_what_the_model_says_when_fed_the_words_before(trace):
    ids, outside = TOKENIZER.encode_note(NOTE)
    size = len(TOKENIZER)
    known = {TOKENIZER.piece(i, outside): i for i in range(size + len(outside))}
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
    assert trace.outside == ("quinapril", "senna")
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


# ---------------------------------------------------------------------- words and picture


@pytest.mark.parametrize(
    ("from_copying", "how"),
    [(0.95, "copied"), (0.05, "generated"), (0.5, "both generated and copied")],
)
def test_the_title_says_how_the_word_was_written(from_copying, how):
    title = trace_title(made(step_of(from_copying=from_copying)), 0)
    assert title == f'Word 1 of 1: "senna", {how} (p_gen 0.25)'


def test_the_alternative_text():
    assert describe_trace_step(made(step_of(written="given"), step_of()), 1) == (
        'Word 2 of 2 is "senna", after: given. Most attention is on "senna" (0.80); p_gen is '
        '0.25. First in P_vocab "given" (0.60), P_copy "senna" (0.80), in the mixture "senna" '
        "(0.60)."
    )


def test_drawing_twice_gives_the_same_bytes(trace):
    assert draw_trace_step(trace, 0).png() == draw_trace_step(trace, 0).png()


def test_the_bar_of_p_gen_is_as_long_as_it_is():
    def generate_share(p_gen):
        (axes,) = draw_trace_step(made(step_of(p_gen=p_gen)), 0).axes
        bars = [bar for bar in axes.patches if type(bar) is Rectangle][:2]
        return bars[0].get_width() / sum(bar.get_width() for bar in bars)

    assert [generate_share(p) for p in (0.0, 0.25, 1.0)] == pytest.approx([0.0, 0.25, 1.0])


def test_the_bars_of_a_distribution_are_in_proportion():
    (axes,) = draw_trace_step(made(step_of()), 0).axes
    bars = [bar.get_width() for bar in axes.patches if type(bar) is Rectangle][2:]
    expected = [0.6, 0.3, 0.8, 0.15, 0.6, 0.26]
    assert [bar / bars[0] for bar in bars] == pytest.approx([p / 0.6 for p in expected])


def test_more_attention_is_darker_and_none_is_white():
    (axes,) = draw_trace_step(made(step_of(attention=(0.0, 0.2, 0.8))), 0).axes
    boxes = [patch for patch in axes.patches if type(patch) is not Rectangle][:3]
    lightness = [sum(box.get_facecolor()[:3]) for box in boxes]
    assert lightness[0] == 3.0
    assert lightness[0] > lightness[1] > lightness[2]


@pytest.mark.parametrize("step", range(8))
def test_no_text_is_cut_off_and_no_text_lies_on_another(trace, drawn, step):
    result = drawn(draw_trace_step(trace, min(step, len(trace.steps) - 1)))
    assert result.cut_off() == []
    assert result.overlapping() == []


def test_a_long_note_is_drawn_around_the_attention(drawn):
    note = tuple(f"word{i}" for i in range(600))
    attention = tuple(float(i == 550) for i in range(600))
    result = drawn(draw_trace_step(made(step_of(attention=attention), note=note), 0))
    texts = [text.get_text() for text in result.texts]
    assert "word550" in texts
    assert "word0" not in texts
    assert result.cut_off() == []


@pytest.mark.parametrize("p_gen", [0.0, 0.5, 1.0])
def test_long_words_and_signs_of_mathematics_fit(drawn, p_gen):
    word = "pseudopseudohypoparathyroidism$x$"
    words = ((word, 0.999), (word, 0.5), ("_", 1e-9), ("a", 1e-9), ("$b", 1e-9))
    step = step_of(written=word, generated=words, copied=words, mixed=words, p_gen=p_gen)
    result = drawn(draw_trace_step(made(step, note=(word,) * 3, outside=(word,)), 0))
    assert result.cut_off() == []
    assert result.overlapping() == []


@pytest.mark.parametrize("step", [-1, 1])
def test_a_step_that_is_not_there_is_refused(step):
    with pytest.raises(InputError, match="Use 0 to 0"):
        draw_trace_step(made(step_of()), step)
