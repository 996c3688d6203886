"""The decoder's step for a search, against the plain one."""

from __future__ import annotations

import pytest
import torch

from ehr_course.generation.search_model import of_beams, spread
from ehr_course.models import pointer_generator_step
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig, Step
from ehr_course.models.pointer_generator_layers import AdditiveAttention

VOCABULARY = 40


@pytest.fixture(autouse=True)
def blocks_of_few_words(monkeypatch):
    """The vocabulary is computed in three parts, the last of them smaller."""
    monkeypatch.setattr(pointer_generator_step, "WORDS", 15)


def model(decoder_loop: str, **changes: object) -> PointerGenerator:
    torch.manual_seed(0)
    fields = {"d_hidden": 12, "d_embedding": 8, "decoder_loop": decoder_loop} | changes
    made = PointerGenerator(PointerGeneratorConfig(vocab_size=VOCABULARY, **fields))
    if made.decoder.attention.cover is not None:
        torch.nn.init.normal_(made.decoder.attention.cover)
    return made.double().eval()


def notes() -> torch.Tensor:
    """Three notes with extended ids, repeated words, special tokens inside, and padding."""
    ids = torch.randint(4, 9, (3, 15), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, 6], ids[0, 3], ids[2, 4] = 1, 2, VOCABULARY, VOCABULARY + 2
    ids[1, 11:] = 3
    return ids


def steps(made: PointerGenerator) -> list[Step]:
    """Some steps with three beams, which change places."""
    source = made.encode(notes())
    state, said = spread(made.first_state(source), 3), []
    parents = torch.tensor([[0, 0, 2], [2, 1, 0], [1, 1, 1]])
    generator = torch.Generator().manual_seed(1)
    for _ in range(4):
        tokens = torch.randint(1, VOCABULARY + 3, (3, 3), generator=generator)
        said.append(made.step(tokens, state, source))
        state = of_beams(said[-1].state, parents)
    return said


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("pointer", [True, False])
@pytest.mark.parametrize("coverage", [True, False])
def test_every_step_says_what_the_plain_one_says(layers, pointer, coverage):
    options = {"layers": layers, "pointer": pointer, "coverage": coverage}
    plain, fast = steps(model("plain", **options)), steps(model("auto", **options))
    for one, other in zip(plain, fast, strict=True):
        for name in ("log_probs", "log_attention", "p_gen", "log_vocabulary"):
            torch.testing.assert_close(
                getattr(other, name), getattr(one, name), rtol=1e-10, atol=1e-10, msg=name
            )
        for expected, found in zip(one.state, other.state, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_the_probabilities_of_a_step_sum_to_one():
    for said in steps(model("auto")):
        total = said.log_probs.exp().sum(dim=-1)
        torch.testing.assert_close(total, torch.ones_like(total))


def test_an_attention_that_was_exchanged_is_asked():
    class Even(AdditiveAttention):
        def forward(self, query, source, coverage):
            open_places = torch.zeros_like(coverage)
            return open_places.masked_fill(~source.copyable[:, None], -torch.inf).log_softmax(-1)

    made = model("auto")
    made.decoder.attention = Even(made.config).double()
    source = made.encode(notes())
    said = made.step(torch.ones(3, 1, dtype=torch.int64), made.first_state(source), source)
    words = source.copyable.sum(dim=1).double()
    torch.testing.assert_close(said.log_attention.exp().amax(dim=2)[:, 0], 1 / words)


def test_a_vocabulary_with_a_hook_is_asked():
    made, asked = model("auto"), []
    made.decoder.vocabulary.register_forward_hook(lambda *_: asked.append(1))
    assert len(steps(made)) == len(asked)


def test_under_autocast_a_step_says_roughly_the_same():
    exact = steps(model("auto", coverage=True).float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = steps(model("auto", coverage=True).float())
    for one, other in zip(exact, rough, strict=True):
        assert other.log_probs.dtype == torch.float32
        assert (other.log_probs.exp() - one.log_probs.exp()).abs().max() < 0.02
