"""Lesson 16: the trace player."""

from __future__ import annotations

from registry import drawing

from ehr_course.generation.summaries import GenerationTrace, TraceStep
from ehr_course.widgets.generation_trace import draw_trace_step

LONG = "pseudopseudohypoparathyroidism"


def trace(word="senna", note=("<s>", "given", "senna"), attention=(0.05, 0.15, 0.8), **changes):
    fields = {
        "written": word,
        "attention": attention,
        "p_gen": 0.25,
        "generated": (("given", 0.6), ("pain", 0.3)),
        "copied": ((word, 0.8), ("given", 0.15)),
        "mixed": ((word, 0.6), ("given", 0.26)),
        "from_copying": 1.0,
    }
    return GenerationTrace(note, (word,), (TraceStep(**fields | changes),))


@drawing(
    'Word 1 of 1 is "senna", after: nothing yet. Most attention is on "senna" (0.80); p_gen is '
    '0.25. First in P_vocab "given" (0.60), P_copy "senna" (0.80), in the mixture "senna" (0.60).'
)
def a_word_of_a_summary():
    return draw_trace_step(trace(), 0)


@drawing('P_vocab "given" (0.60), in the mixture')
def a_model_that_cannot_copy():
    return draw_trace_step(trace(copied=(), p_gen=1.0, from_copying=0.0), 0)


@drawing('Most attention is on "word550" (1.00)')
def a_long_note():
    note = tuple(f"word{i}" for i in range(600))
    attention = tuple(float(i == 550) for i in range(600))
    return draw_trace_step(trace(note=note, attention=attention), 0)


@drawing(f'First in P_vocab "{LONG}$x$" (1.00)')
def long_words_with_signs_of_mathematics():
    word = f"{LONG}$x$"
    words = ((word, 0.999), (word, 0.5), ("_", 1e-9), ("a", 1e-9), ("$b", 1e-9))
    both = {"generated": words, "copied": words, "mixed": words}
    return draw_trace_step(trace(word, note=(word,) * 3, p_gen=0.5, **both), 0)
