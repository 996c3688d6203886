"""The drawings of lesson 16 show the objects that they are given, and can be read."""

from __future__ import annotations

from types import SimpleNamespace

import matplotlib.text
import pytest
import torch

from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig
from ehr_course.plots.drawings.copied_words import (
    draw_attention,
    draw_origins,
    draw_two_ways,
)
from ehr_course.plots.drawings.copy_gate import draw_clamp, draw_gates
from ehr_course.plots.drawings.note_readers import draw_chunks, draw_lstm
from ehr_course.plots.drawings.pointer_generator import draw_mixture, draw_step
from ehr_course.plots.drawings.unseen_names import draw_extended_ids, draw_recovered
from ehr_course.plots.overlaps import label_problems
from ehr_course.sources.synthetic import make_cohort, make_notes
from ehr_course.tokenizers.words import WordTokenizer


def texts(picture) -> list[str]:
    return [t.get_text() for t in picture.findobj(matplotlib.text.Text) if t.get_text().strip()]


LONG = "pseudopseudohypoparathyroidism"


@pytest.fixture(scope="module", params=[(0, "tiny"), (1, "small"), (2, "tiny")])
def run(request):
    """A model that has learned nothing, a note, and what the model says after two words."""
    seed, profile = request.param
    records = make_cohort(40, seed=seed)
    known = make_notes(records[:30], seed=seed, medications=(1, 1))
    new = make_notes(records[30:], seed=seed, drugs="unseen", medications=(1, 3))
    tokenizer = WordTokenizer.from_texts(t for pair in known for t in (pair.note, pair.summary))
    torch.manual_seed(seed)
    config = PointerGeneratorConfig.for_tokenizer(tokenizer, profile)
    model = PointerGenerator(config).eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(3)
    note = new[0].note if seed < 2 else f"he received {LONG} , {LONG} b and {LONG} c ."
    ids, oov = tokenizer.encode_note(note)
    words = [tokenizer.piece(i, oov) for i in range(len(tokenizer) + len(oov))]
    source = model.encode(torch.tensor([ids]))
    said, state, written = None, model.first_state(source), [tokenizer.bos_id, 9, 12]
    for token in written:
        said = model.step(torch.tensor([[token]]), state, source)
        state = said.state
    return SimpleNamespace(
        model=model, tokenizer=tokenizer, ids=list(ids), words=words, said=said, new=new,
        written=[words[i] for i in written], oov=oov,
    )  # fmt: skip


# ---------------------------------------------------------------------- names by seed


@pytest.mark.parametrize(
    "shares",
    [
        {"pointer": [0.99, 1.0, 0.93], "generation only": [0.0, 0.0, 0.0]},
        {"pointer": [0.2, 0.35], "generation only": [0.01, 0.2], "both": [0.5, 0.5]},
        {"pointer": [0.0], "generation only": [0.0]},
    ],
)
def test_the_names_by_seed_are_those_that_were_given(shares):
    picture = draw_recovered(shares, 23)
    assert label_problems(picture) == []
    for values in shares.values():
        assert f"mean {sum(values) / len(values):.0%}" in texts(picture)
    n = max(map(len, shares.values()))
    assert any("of 23 names" in t and f"each of {n} seed" in t for t in texts(picture))
    assert all(f"{kind}: " in picture.alternative_text for kind in shares)


# ---------------------------------------------------------------------- a step


def test_the_step_shows_what_the_model_says(run):
    picture = draw_step(
        run.model, [run.words[i] for i in run.ids], run.ids, run.written, run.said, run.words
    )
    assert label_problems(picture) == []
    mixed = run.said.log_probs[0, 0].exp()
    gate = run.said.p_gen.item()
    hidden = run.model.config.d_hidden
    shown = texts(picture)
    assert f"p_gen {gate:.2f}" in shown
    assert f"state\n{2 * hidden}" in shown
    assert f"LSTM, {hidden}" in shown
    assert {f"{gate:.2f}", f"{1 - gate:.2f}"} <= set(shown)
    assert f"The gate p_gen is {gate:.2f}" in picture.alternative_text
    assert run.words[int(mixed.argmax())] in picture.alternative_text
    assert any(f"of the {len(run.ids)} words" in text for text in shown)


def test_the_mixture_is_that_of_the_step(run):
    gate = run.said.p_gen.item()
    attention = run.said.log_attention[0, 0].exp()
    generated = run.said.log_vocabulary[0, 0].exp()
    picture = draw_mixture(run.words, generated.tolist(), run.ids, attention.tolist(), gate)
    assert label_problems(picture) == []
    mixed = run.said.log_probs[0, 0].exp()
    top = int(mixed.argmax())
    copied = sum(a.item() for a, i in zip(attention, run.ids, strict=True) if i == top)
    known = run.said.log_vocabulary.shape[-1]
    generated = run.said.log_vocabulary[0, 0, top].exp().item() if top < known else 0.0
    assert gate * generated + (1 - gate) * copied == pytest.approx(mixed[top].item(), abs=1e-5)
    assert f"{gate:.2f} P_vocab + {1 - gate:.2f} P_copy" in texts(picture)
    assert f"With p_gen {gate:.2f}: {run.words[top]} has" in picture.alternative_text


@pytest.mark.parametrize("ids", [[0, 3, 1], [3, 3, 2]])
@pytest.mark.parametrize("p_gen", [0.0, 0.25, 1.0])
def test_a_word_outside_has_no_place_in_the_vocabulary(ids, p_gen):
    p_vocab, weights = [0.5, 0.25, 0.25], [0.25, 0.5, 0.25]
    picture = draw_mixture(["no", "fever", "but", "rales"], p_vocab, ids, weights, p_gen)
    assert label_problems(picture) == []
    assert texts(picture).count("has no place here") == 1
    share = sum(a for a, i in zip(weights, ids, strict=True) if i == 3)
    assert f"rales has 0% in P_vocab, {share:.0%} in P_copy" in picture.alternative_text


@pytest.mark.parametrize(
    ("ids", "sum_of_places"), [([1, 2, 1], "(0.30 + 0.20)"), ([2, 1, 2], "0.50")]
)
def test_the_places_of_a_word_are_added_up(ids, sum_of_places):
    picture = draw_mixture(["home", "pain", "mesna"], [0.3, 0.7], ids, [0.3, 0.5, 0.2], 0.4)
    assert label_problems(picture) == []
    title = f"“pain”: 0.40 × 0.70 + 0.60 × {sum_of_places} = 0.58"
    assert texts(picture)[0] == title
    assert "pain has 70% in P_vocab, 50% in P_copy, 58% together" in picture.alternative_text


# ---------------------------------------------------------------------- copying


@pytest.mark.parametrize("word", ["outside", "known"])
def test_the_two_ways_lead_to_the_note_and_to_the_list(run, word):
    note = [run.words[i] for i in run.ids]
    vocabulary = [run.tokenizer.piece(i) for i in range(len(run.tokenizer))]
    target = run.oov[0] if word == "outside" else note[2]
    picture = draw_two_ways(vocabulary, note, run.written, target)
    assert label_problems(picture) == []
    lacks = "lacks" if word == "outside" else "has"
    expected = f"a list of {len(vocabulary):,} words, which {lacks} {target}."
    assert expected in picture.alternative_text
    assert ("not on the list" in texts(picture)[0]) == (word == "outside")
    assert any(f"{len(vocabulary):,} words" in text for text in texts(picture))


@pytest.mark.parametrize("length", [3, 30])
def test_attention_shows_the_scores_and_weights_of_the_places_that_get_most(run, length):
    note = [run.words[i] for i in run.ids][:length]
    torch.manual_seed(length)
    scores = torch.randn(len(note)) * 3
    attention = scores.softmax(0)
    picture = draw_attention(note, scores, attention, run.written[-1])
    assert label_problems(picture) == []
    top = int(attention.argmax())
    shown = attention.topk(min(5, len(note))).indices.tolist()
    assert {f"{scores[i]:.1f}" for i in shown} <= set(texts(picture))
    assert f"{note[top]} has the score {scores[top]:.1f}" in picture.alternative_text
    assert picture.alternative_text.count("has the score") == len(shown)


@pytest.mark.parametrize("copies", [0, 2, 5])
def test_the_origins_are_the_places_with_the_largest_shares(run, copies):
    note, written = [run.words[i] for i in run.ids], ["he", LONG, "slept", ".", "</s>"]
    shares = torch.zeros(5, 1 + len(note))
    shares[:, 0] = 1.0
    for n in range(copies):
        shares[n, 0], shares[n, 1 + 3], shares[n, 1 + 4] = 0.2, 0.7, 0.1
    picture = draw_origins(note, written, shares)
    assert label_problems(picture) == []
    title = f"{copies} of 5 words come from the note, {5 - copies} from the vocabulary"
    assert texts(picture)[0] == title
    assert picture.alternative_text.count("was copied from place 4.") == copies
    assert picture.alternative_text.count("was generated.") == 5 - copies
    if copies:
        assert ",".join(str(n + 1) for n in range(copies)) in texts(picture)


# ---------------------------------------------------------------------- extended ids


@pytest.mark.parametrize("n", [1, 3])
def test_the_strip_has_the_extended_ids_of_each_note(run, n):
    notes = [run.tokenizer.encode_note(pair.note) for pair in run.new[: n - 1]]
    notes.append(run.tokenizer.encode_note(f"he received {LONG} and {LONG}b ."))
    vocabulary = [run.tokenizer.piece(i) for i in range(len(run.tokenizer))]
    picture = draw_extended_ids(vocabulary, notes)
    assert label_problems(picture) == []
    size = len(vocabulary)
    assert {f"{size - 1}", f"{size}", f"{size + 1}"} <= set(texts(picture))
    for _, oov in notes:
        for i, word in enumerate(oov):
            assert f"{size + i} is {word}" in picture.alternative_text


def test_an_id_is_said_to_differ_in_each_note_only_if_it_does():
    same = [([7], ["rales"]), ([7], ["rales"]), ([7], ["mesna"])]
    differ = [([7], ["rales"]), ([7], ["mesna"])]
    vocabulary = ["<unk>", "<s>", "</s>", "<pad>", "a", "b", "c"]
    assert "in each note" not in texts(draw_extended_ids(vocabulary, same))[0]
    assert "in each note" in texts(draw_extended_ids(vocabulary, differ))[0]


# ---------------------------------------------------------------------- reading


@pytest.mark.parametrize(("place", "n"), [(0, 4), (3, 7), (5, 6)])
def test_the_lstm_shows_which_states_move(run, place, n):
    line = [i if i < len(run.tokenizer) else 5 for i in run.ids[1 : n + 1]]
    changed = list(line)
    changed[place] = 10 if line[place] != 10 else 11
    before, after = (
        run.model.encode(torch.tensor([x])).states[0].detach() for x in (line, changed)
    )
    moved = (before - after).abs().unflatten(1, (2, -1)).amax(2).T
    lstm = run.model.encoder.lstm
    words = [run.words[i] for i in line]
    picture = draw_lstm(lstm, words, place, moved)
    assert label_problems(picture) == []
    assert f"Forwards {place} states" in picture.alternative_text
    assert f"backwards {n - 1 - place} behind it" in picture.alternative_text
    assert texts(picture).count(f"{lstm.hidden_size}") == 2 * n
    assert f"{moved[0, place]:.2f}" in texts(picture)


@pytest.mark.parametrize("moved", [{"whole": 0.38, "chunks": 3e-7}, {"whole": 0.0, "chunks": 0.0}])
@pytest.mark.parametrize("length", [8, 3])
def test_the_chunks_are_drawn_in_both_orders(moved, length):
    chunks = [[f"{LONG}{i}"] * length if i == 1 else ["he", "slept", "well"] for i in range(4)]
    chunks[0] = ["home"] * length
    picture = draw_chunks(chunks, (0, 2, 1, 3), moved)
    assert label_problems(picture) == []
    letters = [t for t in texts(picture) if t in "ABCD"]
    assert letters == list("ABCDACBD")
    assert f"{moved['whole']:.2f}" in texts(picture)
    assert "A C B D" in picture.alternative_text
    assert f"chunks of {length} words" in picture.alternative_text


# ---------------------------------------------------------------------- loss and gate


@pytest.mark.parametrize("least", [1e-8, 1e-4])
def test_the_clamp_is_flat_where_the_gradient_is_gone(least):
    log_p = torch.linspace(-30, 0, 61, dtype=torch.float64, requires_grad=True)
    ways = {"clamped": -log_p.exp().clamp(min=least).log(), "in log space": -log_p}
    losses, gradients = {}, {}
    for way, values in ways.items():
        (gradient,) = torch.autograd.grad(values.sum(), log_p)
        losses[way], gradients[way] = values.tolist(), gradient.abs().tolist()
    picture = draw_clamp(log_p.tolist(), losses, gradients, least)
    assert label_problems(picture) == []
    edge = max(x for x, g in zip(log_p.tolist(), gradients["clamped"], strict=True) if g == 0)
    assert f"{least:.0e}".replace("e-0", "e-") in texts(picture)[0]
    assert f"slope is 0 from {edge:.0f} nats downwards" in picture.alternative_text
    assert sum(t == "slope -1" for t in texts(picture)) == (5 if least == 1e-8 else 4)
    assert any(t == "slope 0: no step" for t in texts(picture))
    assert f"it stops at {max(losses['clamped']):.1f}" in picture.alternative_text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            {"unseen names": [0.01, 0.02], "“days”": [0.0] * 90, "other words": [0.1, 0.9] * 300},
            {"unseen names": [0.0, 0.0], "“days”": [0.5] * 90, "other words": [0.4, 0.8] * 300},
        ),
        ({"unseen names": [0.5], "full stops": []}, {"unseen names": [0.0], "full stops": []}),
    ],
)
def test_the_gates_are_those_that_were_given(before, after):
    picture = draw_gates(before, after)
    assert label_problems(picture) == []
    shown = texts(picture)
    for kind, values in before.items():
        if values:
            mean, share = sum(values) / len(values), sum(after[kind]) / len(values)
            assert f"{kind} ({len(values):,})" in shown
            assert {f"{mean:.2f}", f"{share:.2f}"} <= set(shown)
            assert f"{kind}, {len(values)} word" in picture.alternative_text
            assert f"mean p_gen {mean:.2f}, mean share {share:.2f}" in picture.alternative_text
        else:
            assert not any(kind in text for text in shown)


def test_the_gates_open_with_the_kind_that_p_gen_misjudges_most():
    picture = draw_gates({"one": [0.5], "two": [0.9]}, {"one": [0.0], "two": [1.0]})
    assert texts(picture)[0] == "For one, p_gen is 0.50, and the share generated 0.00"


@pytest.mark.parametrize("compare", [("one", "two"), ("two", "nothing")])
def test_the_gates_open_with_two_kinds_that_are_to_be_compared(compare):
    before, after = {"one": [0.5], "two": [0.9]}, {"one": [0.0], "two": [1.0]}
    title = texts(draw_gates(before, after, compare=compare))[0]
    both = title == "p_gen is 0.50 at one but 0.90 at two"
    assert both == ("nothing" not in compare)
