"""Lesson 17: the pictures of the coverage player and of the beam tree."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import torch
from registry import drawing

from ehr_course.generation.beam_search import BeamResult, BeamSettings, beam_search
from ehr_course.widgets.beam_search import draw_beam_tree
from ehr_course.widgets.coverage import Look, draw_coverage

WRITTEN = ("fever", "cough", "fever", "</s>")
ATTENTION = np.array(
    [
        [0.0, 0.9, 0.1, 0.0, 0.0],
        [0.0, 0.2, 0.7, 0.1, 0.0],
        [0.0, 0.8, 0.0, 0.2, 0.0],
        [0.0, 0.0, 0.0, 1.0, 0.0],
    ]
)
LOOK = Look(("<s>", "fever", "cough", "pain", "</s>"), WRITTEN, ATTENTION)


def random_look(n_words: int, n_steps: int) -> Look:
    attention = np.random.default_rng(n_words).dirichlet(np.full(n_words, 0.2), n_steps)
    words = tuple(f"medication{place}" for place in range(n_words))
    return Look(words, tuple(words[place % n_words] for place in range(n_steps)), attention)


@drawing('Step 1 writes "fever": nothing has been looked at before', "Written so far: nothing.")
def the_first_step_of_a_summary():
    return draw_coverage(LOOK, 0)


@drawing(
    'Step 3 writes "fever" and looks most where coverage is 1.10. It looks most at fever (0.80). '
    "Written so far: fever cough."
)
def a_later_step_of_a_summary():
    return draw_coverage(LOOK, 2)


@drawing("Step 120 writes")
def a_long_note_and_a_long_summary():
    return draw_coverage(random_look(200, 120), 119)


@drawing("Step 1 writes")
def one_word():
    return draw_coverage(random_look(1, 1), 0)


# ---------------------------------------------------------------------- beam search

WORDS = ("<unk>", "<s>", "</s>", "<pad>", "fever", "cough", "hydrochlorothiazide")
EOS = 2


class Source(NamedTuple):
    table: torch.Tensor


class Said(NamedTuple):
    log_probs: torch.Tensor
    state: tuple = ()
    log_attention: None = None
    p_gen: None = None


class Table:
    """A model whose probability of a token depends on the one before."""

    config = SimpleNamespace(bos_token_id=1, eos_token_id=EOS, pad_token_id=3, unk_token_id=0)

    def __init__(self, seed: int = 0):
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.randn(7, 7, generator=generator).log_softmax(-1)

    def encode(self, input_ids, attention_mask):
        return Source(self.table.expand(len(input_ids), 7, 7))

    def first_state(self, source):
        return ()

    def step(self, tokens, state, source):
        return Said(source.table[torch.arange(len(tokens))[:, None], tokens])


def search(seed: int = 0, **settings) -> BeamResult:
    fields = {"beams": 3, "length_penalty": 1.0, "max_length": 8, "no_repeat_ngram_size": 0}
    settings = BeamSettings(**fields | settings)
    return beam_search(Table(seed), torch.tensor([[4]]), settings=settings, trace=True)[0]


def said_of(result: BeamResult) -> list[str]:
    """What the picture of a search must say: the best hypotheses, and how many have finished."""
    fates = [candidate.fate for step in result.trace.steps for candidate in step]
    finished = {0: "No summary finishes", 1: "1 summary finishes"}.get(fates.count("finished"))
    hypotheses = [
        f"{' '.join(WORDS[token] for token in one.tokens)} ({one.score:.2f})"
        for one in result.hypotheses[:3]
    ]
    return [finished or f"{fates.count('finished')} summaries finish", *hypotheses]


def register(name: str, result: BeamResult, first: int = 0, piece=WORDS.__getitem__) -> None:
    def draw():
        return draw_beam_tree(result, piece, first=first)

    draw.__name__ = name
    long = len(result.best.tokens) > 14 or piece is not WORDS.__getitem__
    drawing(*(said_of(result)[:1] if long else said_of(result)))(draw)


register("a_search", search(1))
register("one_beam", search(2, beams=1))
register("four_beams", search(7, beams=4))
register("nothing_finishes", search(0, max_length=4))
register("later_steps", search(0, max_length=12, min_length=12), first=4)
register("long_summaries", search(2, max_length=24, min_length=24), piece=lambda _: "ceftriaxone")
