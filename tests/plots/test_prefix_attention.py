"""What a prefix gets of the attention: the numbers, the words and the picture."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.patches import Rectangle

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.errors import InputError
from ehr_course.models.prefix_tuning import PrefixConfig, PrefixTuned
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.plots.prefix_attention import (
    MOST_TOKENS,
    PrefixAttention,
    describe_prefix_attention,
    draw_prefix_attention,
    prefix_attention,
    prefix_title,
)
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer

RECORDS = make_cohort(5, seed=3)
TOKENIZER = CodeTokenizer.from_records(RECORDS)
SHARES = np.array([[[0.1, 0.2, 0.3], [0.8, 0.7, 0.6]], [[0.0, 0.5, 0.9], [1.0, 0.4, 0.25]]])
PAID = PrefixAttention("Man, 64", ("<BOS>", "<v>", "428.0"), SHARES, n_prefix=4, n_prompts=2)


def tuned(**config) -> PrefixTuned:
    torch.manual_seed(0)
    base = PromptBart(PromptBartConfig.for_tokenizer(TOKENIZER, "narrow"))
    return PrefixTuned(base, PrefixConfig(3, **config), seed=1)


@pytest.fixture(scope="module")
def model() -> PrefixTuned:
    return tuned()


def test_the_shares_are_those_of_a_softmax_over_prefix_and_sequence(model):
    """By hand for the first layer: its inputs are embeddings that no prefix has changed."""
    (paid,) = prefix_attention(model, TOKENIZER, RECORDS[:1])
    base = model.base.eval()
    batch = RecordDataset(RECORDS[:1], TOKENIZER, corruption=Corruption(p_empty=1.0)).batch([0])
    seen = []
    attention = base.model.decoder.layers[0].self_attn
    hook = attention.register_forward_pre_hook(
        lambda module, args, kwargs: seen.append(args[0]), with_kwargs=True
    )
    with torch.no_grad():
        base(**batch)
        hook.remove()
        q, k = (
            project(seen[0])[0].unflatten(-1, (4, 16)).transpose(0, 1)
            for project in (attention.q_proj, attention.k_proj)
        )  # (heads, positions, head_dim)
        before = q @ model.prefixes["decoder"]()[0, 0].mT / 4
        among = (q @ k.mT / 4).masked_fill(
            torch.ones(k.shape[1], k.shape[1]).triu(1).bool(), -torch.inf
        )
    expected = torch.cat([before, among], dim=-1).softmax(-1)[..., :3].sum(-1)
    np.testing.assert_allclose(paid.shares[0], expected[:, 2:], atol=1e-5)
    assert paid.shares.std() > 0.05


def test_there_is_a_share_for_each_token_of_each_record(model):
    found = prefix_attention(model, TOKENIZER, RECORDS)
    for paid, record in zip(found, RECORDS, strict=True):
        n_tokens = 1 + sum(2 + len(visit.codes) for visit in record.visits) + 1
        assert paid.shares.shape == (1, 4, n_tokens)
        assert paid.tokens[:3] == ("<EOS>", "<BOS>", "<v>")
        assert len(paid.tokens) == n_tokens
        assert (paid.n_prefix, paid.n_prompts) == (3, 2)
        assert ((paid.shares > 0) & (paid.shares < 1)).all()


def test_a_record_has_the_same_shares_alone_and_in_a_batch(model):
    together = prefix_attention(model, TOKENIZER, RECORDS)[2]
    (alone,) = prefix_attention(model, TOKENIZER, RECORDS[2:3])
    assert alone.tokens == together.tokens
    np.testing.assert_allclose(alone.shares, together.shares, atol=1e-5)


def test_a_long_record_is_cut(model):
    codes = TOKENIZER.codes[:20]
    long = PatientRecord(1, "F", 64, tuple(Visit(codes) for _ in range(5)))
    (paid,) = prefix_attention(model, TOKENIZER, [long])
    assert 40 < len(paid.tokens) <= MOST_TOKENS


def test_the_model_is_left_in_its_mode(model):
    model.train()
    prefix_attention(model, TOKENIZER, RECORDS[:1])
    assert model.training
    model.eval()


def test_a_model_without_a_prefix_in_its_decoder_is_refused():
    with pytest.raises(InputError, match="no prefix in its decoder"):
        prefix_attention(tuned(decoder=False, encoder=True), TOKENIZER, RECORDS)


@pytest.mark.parametrize("shape", [(2, 3), (1, 2, 2), (0, 2, 3)])
def test_shares_of_another_shape_are_refused(shape):
    with pytest.raises(InputError, match="shares"):
        PrefixAttention("", ("<BOS>", "<v>", "428.0"), np.zeros(shape), n_prefix=4)


def test_equal_shares_count_prefix_prompts_and_what_was_read():
    assert [PAID.of_equals(place) for place in range(3)] == [4 / 7, 4 / 8, 4 / 9]


@pytest.mark.parametrize(
    ("position", "says"),
    [(0, "After <BOS>, layer 1, head 1 pays 100%"), (2, "After 428.0, layer 1, head 0 pays 90%")],
)
def test_the_title_names_the_head_that_pays_most(position, says):
    assert prefix_title(PAID, position).startswith(says)


def test_the_words_name_the_least_the_equal_share_and_each_layers_mean():
    text = describe_prefix_attention(PAID, 1)
    assert text.startswith("Man, 64. After <v>, layer 0, head 1 pays 70%")
    assert "layer 0, head 0 pays 20%, the least; 50% would be equal shares" in text
    assert text.endswith("Over all tokens and heads: layer 0 45%, layer 1 51%.")


@pytest.mark.parametrize("position", range(3))
def test_above_are_the_numbers_of_the_position_below_all_of_them(position):
    above, below = draw_prefix_attention(PAID, position).axes
    np.testing.assert_array_equal(above.images[0].get_array(), SHARES[:, :, position])
    written = [text.get_text() for text in above.texts]
    assert written == [f"{share:.0%}" for share in SHARES[:, :, position].flatten()]
    np.testing.assert_array_equal(below.images[0].get_array(), SHARES.reshape(4, 3))
    (frame,) = (patch for patch in below.patches if isinstance(patch, Rectangle))
    assert (frame.get_x(), frame.get_width(), frame.get_height()) == (position - 0.5, 1, 4)


@pytest.mark.parametrize(
    ("layers", "heads", "tokens"), [(1, 1, 1), (2, 4, 20), (6, 12, MOST_TOKENS)]
)
def test_no_text_is_cut_off(drawn, layers, heads, tokens):
    shares = np.random.default_rng(0).random((layers, heads, tokens))
    paid = PrefixAttention("Woman, above 89", ("V45.01",) * tokens, shares, n_prefix=20)
    assert drawn(draw_prefix_attention(paid, tokens - 1)).cut_off() == []


@pytest.mark.parametrize("position", [-1, 3])
def test_a_position_that_is_not_there_is_refused(position):
    with pytest.raises(InputError, match="no position of 3"):
        draw_prefix_attention(PAID, position)
