"""Lesson 16: the parts that a learner joins are the library's pointer-generator, to the digit."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import Tensor

from benchmarks import copying_race
from ehr_course import NotePair, NoteTokenizer, PointerGenerator, PointerGeneratorConfig
from ehr_course.exercises.mine import mine
from ehr_course.exercises.worked_answers import worked

ROOT = Path(__file__).parents[2]
NAMES = {
    "encoder.": "reader.",
    "decoder.embedding": "embedding",
    "decoder.cells.0": "lstm",
    "decoder.attention.key": "w_h",
    "decoder.attention.query": "w_d",
    "decoder.attention.score.weight": "v",
    "decoder.vocabulary": "vocabulary",
    "decoder.p_gen": "gate",
}
"""What the library calls the parts of `Pointer`."""


def as_worked(state: dict[str, Tensor], hidden: int) -> dict[str, Tensor]:
    """The library's weights under the names of 16.7; its features begin with the state."""
    renamed = {}
    for name, weights in state.items():
        for theirs, ours in NAMES.items():
            if name.startswith(theirs):
                name = name.replace(theirs, ours, 1)
        if name in ("vocabulary.weight", "gate.weight"):
            of_state, of_context, rest = weights.tensor_split([hidden, 3 * hidden], dim=1)
            weights = torch.cat([of_context, of_state, rest], dim=1)
        renamed[name] = weights[0] if name == "v" else weights
    return renamed


def test_the_joined_parts_are_the_model_of_the_library():
    torch.manual_seed(0)
    sizes = {"vocab_size": 12, "d_embedding": 5, "d_hidden": 4, "layers": 1, "dropout": 0.0}
    library = PointerGenerator(PointerGeneratorConfig(**sizes))
    own = worked("16.7")(12, 5, 4)
    own.load_state_dict(as_worked(library.state_dict(), 4))
    note = torch.tensor([[5, 12, 7, 5, 13], [8, 12, 3, 3, 3]])
    mask = (note != 3).long()
    read, targets = torch.tensor([[1, 5, 12], [1, 12, 9]]), torch.tensor([[5, 12, 2], [12, 9, 2]])
    logits, scores, gate = own(note, mask, read)
    places = note[:, None].expand(scores.shape)
    flat = [x.flatten(0, 1) for x in (logits, scores, gate, places, targets)]
    loss = worked("16.5", "pointer_loss")(*flat)
    theirs = library(note, mask, read, targets)
    torch.testing.assert_close(loss, theirs.loss)
    mixed = worked("16.3")(
        flat[0].softmax(1), flat[1].softmax(1), flat[2].sigmoid(), flat[3], n_outside=2
    )
    library.eval()
    torch.testing.assert_close(mixed, library(note, mask, read).log_probs.exp().flatten(0, 1))
    loss.backward()
    theirs.loss.backward()
    gradients = as_worked({name: p.grad for name, p in library.named_parameters()}, 4)
    for name, parameter in own.named_parameters():
        torch.testing.assert_close(parameter.grad, gradients[name])


def test_the_parts_of_the_lesson_stand_for_what_is_not_solved(tmp_path, monkeypatch):
    monkeypatch.setenv("EHR_COURSE_HOME", str(tmp_path))
    assert mine("16.7") is worked("16.7")


def test_the_benchmark_races_the_rival_of_the_lesson():
    found = [
        re.search(r"^class Rival.*?summary\.shape.*?\.weight\.T\n", text, re.DOTALL | re.MULTILINE)
        for text in (
            Path(copying_race.__file__).read_text(encoding="utf-8"),
            (ROOT / "lessons" / "16_pointer_generator.py").read_text(encoding="utf-8"),
        )
    ]
    assert None not in found and found[0].group() == found[1].group()


def test_the_rival_writes_what_it_finds_likeliest():
    torch.manual_seed(0)
    pairs = [NotePair("fever and cough", "cough"), NotePair("no fever", "fever")]
    tokenizer = NoteTokenizer.train([p.note for p in pairs], vocab_size=18)
    model = copying_race.new_rival(len(tokenizer))
    (text,) = copying_race.rival_writes(model, tokenizer, pairs[:1])
    note, ids = torch.tensor([tokenizer.encode_note(pairs[0].note).ids]), [tokenizer.bos_id]
    while len(ids) < 60 and ids[-1] != tokenizer.eos_id:
        ids.append(int(model(note, torch.tensor([ids]))[0, -1].argmax()))
    end = -1 if ids[-1] == tokenizer.eos_id else None
    assert text == tokenizer.decode([i for i in ids[1:end] if i > tokenizer.pad_id])


def test_a_made_up_name_stands_in_note_and_summary():
    pair = NotePair("he was given senna.", "man with pain. treated with senna. home after 2 days.")
    renamed = copying_race.renamed(pair, copying_race.random.Random(0))
    name = renamed.summary.partition("treated with ")[2].partition(".")[0]
    assert name != "senna" and renamed.note == f"he was given {name}."
    assert copying_race.without_drug(renamed.summary) == copying_race.without_drug(pair.summary)
