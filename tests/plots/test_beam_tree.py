"""The tree of a beam search: its nodes, the words and the picture."""

import math
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from matplotlib.patches import FancyBboxPatch

from ehr_course.errors import InputError
from ehr_course.generation.beam_search import BeamSettings, beam_search
from ehr_course.plots.beam_tree import (
    FILL,
    MOST_STEPS,
    describe_tree,
    draw_beam_tree,
    nodes_of,
    tree_title,
)

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
    """The probability of a token depends on the one before."""

    config = SimpleNamespace(bos_token_id=1, eos_token_id=EOS, pad_token_id=3, unk_token_id=0)

    def __init__(self, seed=0):
        generator = torch.Generator().manual_seed(seed)
        self.table = torch.randn(7, 7, generator=generator).log_softmax(-1)

    def encode(self, input_ids, attention_mask):
        return Source(self.table.expand(len(input_ids), 7, 7))

    def first_state(self, source):
        return ()

    def step(self, tokens, state, source):
        return Said(source.table[torch.arange(len(tokens))[:, None], tokens])


def search(seed=0, *, trace=True, **settings):
    fields = {
        "beams": 3,
        "length_penalty": 1.0,
        "max_length": 8,
        "no_repeat_ngram_size": 0,
    } | settings
    result = beam_search(
        Table(seed), torch.tensor([[4]]), settings=BeamSettings(**fields), trace=trace
    )
    return result[0]


def piece(token):
    return WORDS[token]


@pytest.mark.parametrize("seed", range(5))
def test_a_child_has_the_log_probability_of_its_parent_and_a_token(seed):
    nodes = {(node.step, node.row): node for node in nodes_of(search(seed))}
    table = Table(seed).table
    for node in nodes.values():
        before, last = 0.0, 1
        if node.parent is not None:
            parent = nodes[node.step - 1, node.parent].candidate
            before, last = parent.log_prob, parent.token
            assert parent.fate == "alive"
        expected = before + float(table[last, node.candidate.token])
        assert node.candidate.log_prob == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_the_framed_way_writes_the_best_hypothesis(seed):
    result = search(seed)
    way = [node.candidate.token for node in nodes_of(result) if node.on_best]
    assert tuple(way) == result.best.tokens


def test_the_title_counts_the_finished_ones_and_names_the_best():
    result = search(1)
    nodes = [candidate for step in result.trace.steps for candidate in step]
    finished = sum(candidate.fate == "finished" for candidate in nodes)
    assert finished > 1
    assert tree_title(result) == (
        f"{finished} summaries finish: the best has {len(result.best.tokens)} tokens "
        f"and the score {result.best.score:.2f}"
    )


def test_what_never_finishes_is_told():
    result = search(0, max_length=4)
    assert tree_title(result).startswith("No summary finishes: the best has 4 tokens")
    assert draw_beam_tree(result, piece).texts[2].get_text() == "cut off: the best 3"


@pytest.mark.parametrize("seed", [1, 2, 7])
def test_each_finished_one_stands_in_full_under_the_number_of_its_last_box(seed):
    result = search(seed)
    picture = draw_beam_tree(result, piece)
    below = [text.get_text() for text in picture.texts]
    boxes = {t.get_text(): t.get_position() for t in picture.axes[0].texts}
    for place, one in enumerate(result.hypotheses, start=1):
        row = below.index(f"{place}.")
        assert below[row + 1] == f"{one.score:.2f}"
        assert below[row + 2] == " ".join(map(piece, one.tokens))
        if len(one.tokens) <= MOST_STEPS:
            step = round(boxes[f"{place}."][0])
            assert step + 1 == len(one.tokens)


def test_a_line_leads_only_to_what_is_followed_or_finished():
    result = search(1)
    lines = draw_beam_tree(result, piece).axes[0].lines
    kept = [n for n in nodes_of(result) if 0 < n.step < MOST_STEPS]
    kept = [n for n in kept if n.candidate.fate != "pruned"]
    assert len(lines) == len(kept) + 1, "and one under those that may finish"


def test_only_what_stands_above_the_dashed_line_finishes():
    result = search(1)
    (limit,) = (
        line.get_ydata()[0]
        for line in draw_beam_tree(result, piece).axes[0].lines
        if line.get_linestyle() == "--"
    )
    for node in nodes_of(result):
        if node.candidate.token == EOS:
            assert (node.candidate.fate == "finished") == (node.row < limit)


def test_the_words_name_the_best_and_those_behind_it():
    result = search()
    text = describe_tree(result, piece)
    for hypothesis in result.hypotheses[:3]:
        written = " ".join(map(piece, hypothesis.tokens))
        assert f"{written} ({hypothesis.score:.2f})" in text


def test_a_long_summary_is_shortened_in_the_words():
    result = search(max_length=60, min_length=60)
    assert " ... " in describe_tree(result, piece)


def test_a_box_has_the_colour_of_its_fate():
    result = search(1)
    picture = draw_beam_tree(result, piece)
    boxes = [p for p in picture.axes[0].patches if isinstance(p, FancyBboxPatch)]
    nodes = [node for node in nodes_of(result) if node.step < MOST_STEPS]
    assert len(boxes) == len(nodes)
    from matplotlib.colors import to_hex

    assert [to_hex(box.get_facecolor()) for box in boxes] == [
        FILL[node.candidate.fate] for node in nodes
    ]


def test_each_box_says_its_token_and_its_score():
    result = search()
    texts = [text.get_text() for text in draw_beam_tree(result, piece).axes[0].texts]
    for node in nodes_of(result):
        if node.step < MOST_STEPS:
            assert f"{node.candidate.score:.2f}" in texts


def test_later_steps_are_drawn_from_the_first_that_is_asked_for():
    result = search(max_length=12, min_length=12)
    picture = draw_beam_tree(result, piece, first=4)
    steps = [t.get_text() for t in picture.axes[0].texts if t.get_text().startswith("step")]
    assert steps == [f"step {n}" for n in range(5, 5 + MOST_STEPS)]


@pytest.mark.parametrize(
    ("length", "told"), [(12, "; steps 5 to 10 of 12"), (6, "pale: given up")]
)
def test_what_has_no_room_is_told(length, told):
    picture = draw_beam_tree(
        search(max_length=length, min_length=length), piece, first=4 if length > MOST_STEPS else 0
    )
    assert picture.texts[1].get_text().endswith(told)


@pytest.mark.parametrize("beams", [1, 2, 4])
@pytest.mark.parametrize("first", [0, 2])
def test_no_text_is_cut_off_and_none_lies_on_another(drawn, beams, first):
    picture = draw_beam_tree(search(beams=beams, max_length=9), piece, first=min(first, 2))
    assert drawn(picture).cut_off() == []
    assert drawn(picture).overlapping() == []


def test_long_hypotheses_are_shortened(drawn):
    result = search(2, max_length=24, min_length=24)
    picture = draw_beam_tree(result, lambda token: "ceftriaxone")
    assert drawn(picture).cut_off() == []
    assert sum(text.get_text().endswith("…") for text in picture.texts) == len(result.hypotheses)


def test_a_search_without_a_trace_is_refused():
    with pytest.raises(InputError, match="no trace"):
        draw_beam_tree(search(trace=False), piece)


def test_a_step_that_is_not_there_is_refused():
    result = search()
    with pytest.raises(InputError, match="is no step of"):
        draw_beam_tree(result, piece, first=len(result.trace.steps))


def test_scores_are_log_probabilities_over_the_penalty():
    for node in nodes_of(search(length_penalty=2.0)):
        expected = node.candidate.log_prob / math.pow((5 + node.step + 1) / 6, 2.0)
        assert node.candidate.score == pytest.approx(expected)
