"""Lesson 16: a step of a pointer-generator, where words came from, and the trace player."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

import torch
from registry import drawing

from ehr_course.generation.summaries import GenerationTrace, TraceStep
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig
from ehr_course.plots.lesson_16 import draw_origins, draw_step
from ehr_course.sources.synthetic import make_cohort, make_notes
from ehr_course.tokenizers.words import WordTokenizer
from ehr_course.widgets.generation_trace import draw_trace_step

LONG = "pseudopseudohypoparathyroidism"
SUMMARY = ("he", LONG, "slept", ".", "</s>")


@cache
def run(note: str = "") -> SimpleNamespace:
    """A model that has learned nothing, a note, and what the model says after three words."""
    records = make_cohort(40, seed=1)
    known = make_notes(records[:30], seed=1, medications=(1, 1))
    new = make_notes(records[30:], seed=1, drugs="unseen", medications=(1, 3))
    tokenizer = WordTokenizer.from_texts(t for pair in known for t in (pair.note, pair.summary))
    torch.manual_seed(1)
    model = PointerGenerator(PointerGeneratorConfig.for_tokenizer(tokenizer)).eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(3)
        ids, oov = tokenizer.encode_note(note or new[0].note)
        source = model.encode(torch.tensor([ids]))
        state, written = model.first_state(source), [tokenizer.bos_id, 9, 12]
        for token in written:
            said = model.step(torch.tensor([[token]]), state, source)
            state = said.state
    words = [tokenizer.piece(i, oov) for i in range(len(tokenizer) + len(oov))]
    return SimpleNamespace(
        model=model, ids=ids, words=words, said=said,
        note=[words[i] for i in ids], written=[words[i] for i in written],
    )  # fmt: skip


def step_of(some: SimpleNamespace):
    return draw_step(some.model, some.note, some.ids, some.written, some.said, some.words)


def said_of(some: SimpleNamespace) -> list[str]:
    gate, likeliest = some.said.p_gen.item(), int(some.said.log_probs.argmax())
    state = f"a state of {2 * some.model.config.d_hidden} numbers for each"
    return [f"The gate p_gen is {gate:.2f}", f"in which {some.words[likeliest]} has", state]


@drawing(*said_of(run()))
def a_step():
    return step_of(run())


NAMES = f"he received {LONG} , {LONG} b and {LONG} c ."


@drawing(*said_of(run(NAMES)))
def a_step_with_long_names():
    return step_of(run(NAMES))


def origins(copies: int):
    shares = torch.zeros(5, 1 + len(run().note))
    shares[:, 0] = 1.0
    shares[:copies, 0], shares[:copies, 1 + 3], shares[:copies, 1 + 4] = 0.2, 0.7, 0.1
    return draw_origins(run().note, SUMMARY, shares)


@drawing("Word 1, he, was generated.", "Word 5, </s>, was generated.")
def nothing_is_copied():
    return origins(0)


@drawing(f"Word 2, {LONG}, was copied from place 4.", "Word 3, slept, was generated.")
def two_words_are_copied():
    return origins(2)


@drawing("Word 5, </s>, was copied from place 4.")
def all_words_are_copied_from_one_place():
    return origins(5)


# ---------------------------------------------------------------------- the trace player


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
