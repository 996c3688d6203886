"""Attention: the weights, what their rows and columns are, and what a prefix gets of them."""

import numpy as np
import pytest
import torch

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.errors import InputError
from ehr_course.models.prefix_tuning import PrefixConfig, PrefixTuned
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.plots.attention import KINDS
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.attention import attention_of, record_attention, visits_shown
from ehr_course.widgets.prefix_attention import PrefixAttention, prefix_attention

HEART = PatientRecord(1, "F", 64, (Visit(("4280", "42731")), Visit(("V4581",))))


PROMPTS = ("age 64", "sex F")


TOKENS = ("<BOS>", "<v>", "428.0", "427.31", "<\\v>", "<v>", "V45.81", "<\\v>", "<EOS>")


def made(tokenizer, **changes):
    torch.manual_seed(0)
    return PromptBart(PromptBartConfig.for_tokenizer(tokenizer, **changes)).eval()


@pytest.fixture(scope="module")
def tokenizer():
    return CodeTokenizer(["4280", "42731", "486", "V4581"])


@pytest.fixture(scope="module")
def model(tokenizer):
    return made(tokenizer)


@pytest.fixture(scope="module")
def batch():
    """Two patients: a source of 6 and of 4 tokens, a target of 5 and of 3."""
    return {
        "input_ids": torch.tensor([[1, 3, 7, 9, 4, 2], [1, 6, 4, 2, 0, 0]]),
        "attention_mask": torch.tensor([[1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]]),
        "decoder_input_ids": torch.tensor([[2, 1, 3, 8, 4], [2, 1, 3, 0, 0]]),
        "labels": torch.tensor([[1, 3, 8, 4, 2], [1, 3, 2, -100, -100]]),
        "x_num": torch.tensor([[64.0], [3.0]]),
        "x_cat": torch.tensor([[1], [0]]),
    }


@pytest.fixture(scope="module")
def weights(model, batch):
    return attention_of(model, batch)


# ---------------------------------------------------------------------- the weights and one record


def test_weights_have_a_row_and_a_column_for_each_prompt_and_token(weights):
    # 2 patients, 2 layers, 4 heads; 2 prompts stand before 6 source and 5 target tokens
    assert {kind: array.shape for kind, array in weights.items()} == {
        "encoder": (2, 2, 4, 8, 8),
        "decoder": (2, 2, 4, 7, 7),
        "cross": (2, 2, 4, 7, 8),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_sums_to_one(weights, kind):
    np.testing.assert_allclose(weights[kind].sum(axis=-1), 1, atol=1e-5)


@pytest.mark.parametrize("kind", ["encoder", "cross"])
def test_nothing_looks_at_padding(weights, kind):
    assert (weights[kind][1, ..., 6:] == 0).all()
    assert (weights[kind][0, ..., 6:] > 0).all()


def test_the_decoder_looks_at_nothing_later_and_at_all_that_is_earlier(weights):
    later = np.triu(np.ones((7, 7), dtype=bool), 1)
    assert (weights["decoder"][0][..., later] == 0).all()
    assert (weights["decoder"][0][..., ~later] > 0).all()


@pytest.mark.parametrize(
    ("kind", "module"),
    [
        ("encoder", "model.encoder.layers.1.self_attn"),
        ("decoder", "model.decoder.layers.0.self_attn"),
        ("cross", "model.decoder.layers.1.encoder_attn"),
    ],
)
def test_weights_are_the_softmax_of_scaled_products(model, batch, kind, module):
    attention = model.get_submodule(module)
    seen = {}

    def remember(module, arguments, keywords):
        seen["queries"] = (*arguments, keywords.get("hidden_states"))[0]
        seen["keys"] = keywords.get("key_value_states")

    hook = attention.register_forward_pre_hook(remember, with_kwargs=True)
    weights = attention_of(model, batch)[kind][0, int(module.split(".")[3])]
    hook.remove()
    queries = seen["queries"][0]
    keys = queries if kind != "cross" else seen["keys"][0]
    for head in range(4):
        part = slice(24 * head, 24 * (head + 1))
        q = (queries @ attention.q_proj.weight.T + attention.q_proj.bias)[:, part]
        k = (keys @ attention.k_proj.weight.T + attention.k_proj.bias)[:, part]
        scores = q @ k.T / 24**0.5
        if kind == "decoder":
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
        np.testing.assert_allclose(
            weights[head], scores.softmax(-1).detach().numpy(), rtol=1e-4, atol=1e-6
        )


def test_dropout_is_off_and_the_model_stays_as_it_was(tokenizer, batch, weights):
    model = made(tokenizer, attention_dropout=0.5, dropout=0.5).train()
    fast = model.config._attn_implementation
    again = attention_of(model, batch)
    assert model.training
    assert model.config._attn_implementation == fast
    for kind in KINDS:
        np.testing.assert_array_equal(again[kind], weights[kind])


def test_rows_and_columns_are_prompts_and_tokens(model, tokenizer):
    maps = record_attention(model, tokenizer, HEART)
    assert maps["encoder"].rows == maps["encoder"].columns == PROMPTS + TOKENS
    shifted = (*PROMPTS, "<EOS>", *TOKENS[:-1])
    assert maps["decoder"].rows == maps["decoder"].columns == shifted
    assert maps["cross"].rows == shifted
    assert maps["cross"].columns == PROMPTS + TOKENS


def test_the_weights_of_a_record_are_those_of_its_batch(model, tokenizer):
    ids = tokenizer.encode(HEART)
    batch = {
        "input_ids": torch.tensor([ids]),
        "decoder_input_ids": torch.tensor([[2, *ids[:-1]]]),
        "x_num": torch.tensor([[64.0]]),
        "x_cat": torch.tensor([[1]]),  # F
    }
    expected = attention_of(model, batch)
    maps = record_attention(model, tokenizer, HEART)
    for kind in KINDS:
        np.testing.assert_allclose(maps[kind].weights, expected[kind][0], atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "encoder", "decoder"),
    [
        ({"prompt_encoder": False}, (), PROMPTS),
        ({"prompt_decoder": False}, PROMPTS, ()),
        ({"prompt_combination": "sum"}, ("age 64, sex F",), ("age 64, sex F",)),
    ],
)
def test_each_side_has_the_prompts_that_it_reads(tokenizer, changes, encoder, decoder):
    maps = record_attention(made(tokenizer, **changes), tokenizer, HEART)
    assert maps["encoder"].rows == encoder + TOKENS
    assert maps["cross"].columns == encoder + TOKENS
    assert maps["cross"].rows == (*decoder, "<EOS>", *TOKENS[:-1])


@pytest.mark.parametrize("n_visits", [1, 2, 10])
def test_no_two_positions_have_the_same_name(model, tokenizer, n_visits):
    patient = PatientRecord(1, "F", 64, HEART.visits[:1] * n_visits)
    for one in record_attention(model, tokenizer, patient).values():
        assert len(set(one.row_names)) == len(one.rows)
        assert len(set(one.column_names)) == len(one.columns)


def test_a_name_tells_the_visit_where_there_are_several(model, tokenizer):
    names = record_attention(model, tokenizer, HEART)["encoder"].row_names
    assert names[3:5] == ("<v> of visit 1", "428.0 of visit 1")
    assert names[-3:] == ("V45.81 of visit 2", "<\\v> of visit 2", "<EOS>")
    single = PatientRecord(1, "F", 64, HEART.visits[:1])
    assert record_attention(model, tokenizer, single)["encoder"].row_names[4] == "428.0"


def test_later_visits_that_do_not_fit_are_left_out_for_the_model_too(model, tokenizer):
    cut = record_attention(model, tokenizer, HEART, most_tokens=8)
    short = record_attention(model, tokenizer, PatientRecord(1, "F", 64, HEART.visits[:1]))
    for kind in KINDS:
        assert cut[kind].rows == short[kind].rows
        np.testing.assert_array_equal(cut[kind].weights, short[kind].weights)


@pytest.mark.parametrize(("most_tokens", "visits"), [(9, 2), (8, 1), (6, 1), (1, 1)])
def test_whole_visits_are_kept_and_always_the_first(tokenizer, most_tokens, visits):
    # 6 tokens with the first visit, 9 with both
    assert visits_shown(tokenizer, HEART, most_tokens=most_tokens) == visits


def test_the_first_code(model, tokenizer):
    maps = record_attention(model, tokenizer, HEART)
    assert {kind: one.first_code for kind, one in maps.items()} == {
        "encoder": 4,
        "decoder": 5,
        "cross": 5,
    }


# ---------------------------------------------------------------------- what a prefix gets

RECORDS = make_cohort(5, seed=3)


TOKENIZER = CodeTokenizer.from_records(RECORDS)


def tuned(**config) -> PrefixTuned:
    torch.manual_seed(0)
    base = PromptBart(PromptBartConfig.for_tokenizer(TOKENIZER, "narrow"))
    return PrefixTuned(base, PrefixConfig(3, **config), seed=1)


@pytest.fixture(scope="module")
def prefix_model() -> PrefixTuned:
    return tuned()


SHARES = np.array([[[0.1, 0.2, 0.3], [0.8, 0.7, 0.6]], [[0.0, 0.5, 0.9], [1.0, 0.4, 0.25]]])
PAID = PrefixAttention(64, "M", ("<BOS>", "<v>", "428.0"), SHARES, n_prefix=4, n_prompts=2)


def test_the_shares_are_those_of_a_softmax_over_prefix_and_sequence(prefix_model):
    """By hand for the first layer: its inputs are embeddings that no prefix has changed."""
    (paid,) = prefix_attention(prefix_model, TOKENIZER, RECORDS[:1])
    base = prefix_model.base.eval()
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
        before = q @ prefix_model.prefixes["decoder"]()[0, 0].mT / 4
        among = (q @ k.mT / 4).masked_fill(
            torch.ones(k.shape[1], k.shape[1]).triu(1).bool(), -torch.inf
        )
    expected = torch.cat([before, among], dim=-1).softmax(-1)[..., :3].sum(-1)
    np.testing.assert_allclose(paid.shares[0], expected[:, 2:], atol=1e-5)
    assert paid.shares.std() > 0.05


def test_there_is_a_share_for_each_token_of_each_record(prefix_model):
    found = prefix_attention(prefix_model, TOKENIZER, RECORDS)
    for paid, record in zip(found, RECORDS, strict=True):
        n_tokens = 1 + sum(2 + len(visit.codes) for visit in record.visits) + 1
        assert paid.shares.shape == (1, 4, n_tokens)
        assert paid.tokens[:3] == ("<EOS>", "<BOS>", "<v>")
        assert len(paid.tokens) == n_tokens
        assert (paid.n_prefix, paid.n_prompts) == (3, 2)
        assert ((paid.shares > 0) & (paid.shares < 1)).all()


def test_a_record_has_the_same_shares_alone_and_in_a_batch(prefix_model):
    together = prefix_attention(prefix_model, TOKENIZER, RECORDS)[2]
    (alone,) = prefix_attention(prefix_model, TOKENIZER, RECORDS[2:3])
    assert alone.tokens == together.tokens
    np.testing.assert_allclose(alone.shares, together.shares, atol=1e-5)


def test_a_long_record_is_cut(prefix_model):
    codes = TOKENIZER.codes[:20]
    long = PatientRecord(1, "F", 64, tuple(Visit(codes) for _ in range(5)))
    (paid,) = prefix_attention(prefix_model, TOKENIZER, [long])
    assert 40 < len(paid.tokens) <= 60


def test_a_model_without_a_prefix_in_its_decoder_is_refused():
    with pytest.raises(InputError, match="no prefix in its decoder"):
        prefix_attention(tuned(decoder=False, encoder=True), TOKENIZER, RECORDS)


def test_equal_shares_count_prefix_prompts_and_what_was_read():
    assert [PAID.of_equals(place) for place in range(3)] == [4 / 7, 4 / 8, 4 / 9]
