"""The generation trace: the words and the picture."""

import pytest
import torch
from matplotlib.patches import Rectangle

from ehr_course.errors import InputError
from ehr_course.generation.summary_trace import GenerationTrace, TraceStep, trace_summary
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig
from ehr_course.plots.generation_trace import describe_trace_step, draw_trace_step, trace_title
from ehr_course.tokenizers.words import WordTokenizer

NOTE = "She was given quinapril for pain, then quinapril and senna for pain."
TOKENIZER = WordTokenizer(["she", "was", "given", "for", "pain", "and", "then", ",", "."])


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


def made(*steps, note=("<s>", "given", "senna"), oov=("senna",)):
    return GenerationTrace(note, oov, steps)


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


@pytest.mark.parametrize("p_gen", [0.0, 0.25, 0.75, 1.0])
def test_the_ends_of_the_bar_say_copy_at_0_and_generate_at_1(p_gen):
    (axes,) = draw_trace_step(made(step_of(p_gen=p_gen)), 0).axes
    at = {text.get_text(): text.get_position()[0] for text in axes.texts}
    assert at["0: copy"] < at[f"{p_gen:.2f}"] < at["1: generate"]
    bar = next(patch for patch in axes.patches if type(patch) is Rectangle)
    assert at[f"{p_gen:.2f}"] == pytest.approx(bar.get_x() + bar.get_width(), abs=0.1)


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
    result = drawn(draw_trace_step(made(step, note=(word,) * 3, oov=(word,)), 0))
    assert result.cut_off() == []
    assert result.overlapping() == []


@pytest.mark.parametrize("step", [-1, 1])
def test_a_step_that_is_not_there_is_refused(step):
    with pytest.raises(InputError, match="Use 0 to 0"):
        draw_trace_step(made(step_of()), step)
