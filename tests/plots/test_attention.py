"""Attention: the weights, their labels, the words and the picture."""

import numpy as np
import pytest
import torch
from matplotlib.collections import QuadMesh
from matplotlib.patches import Rectangle

from ehr_course.errors import InputError
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.plots.attention import (
    KINDS,
    AttentionMap,
    attention_of,
    attention_title,
    describe_attention,
    draw_attention,
    favourite,
    record_attention,
    visits_shown,
)
from ehr_course.records import PatientRecord, Visit
from ehr_course.tokenizers.codes import CodeTokenizer

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


# ---------------------------------------------------------------------- the weights


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


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_a_model_on_a_gpu_has_the_same_weights(tokenizer, batch, weights):
    there = attention_of(made(tokenizer).cuda(), batch)
    for kind in KINDS:
        np.testing.assert_allclose(there[kind], weights[kind], rtol=1e-3, atol=1e-4)


# ---------------------------------------------------------------------- one record


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


def test_no_two_positions_have_the_same_name(patient, code_tokenizer):
    for one in record_attention(made(code_tokenizer), code_tokenizer, patient).values():
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


# ---------------------------------------------------------------------- words

ROWS = ("age 64", "<v>", "428.0", "<v>")
NAMES = ("age 64", "<v> of visit 1", "428.0 of visit 1", "<v> of visit 2")
SMALL = AttentionMap(
    "decoder",
    np.array(
        [
            [
                [[1, 0, 0, 0], [0.6, 0.4, 0, 0], [0.1, 0.7, 0.2, 0], [0.1, 0.2, 0.3, 0.4]],
                [[1, 0, 0, 0], [0.9, 0.1, 0, 0], [0.1, 0.3, 0.6, 0], [0.7, 0.1, 0.1, 0.1]],
            ]
        ]
    ),
    *(ROWS, ROWS, NAMES, NAMES),
)


@pytest.mark.parametrize(
    ("head", "row", "title"),
    [
        (0, 1, "Layer 0, head 0: <v> of visit 1 looks most at age 64 (0.60)"),
        (0, 2, "Layer 0, head 0: 428.0 of visit 1 looks most at <v> of visit 1 (0.70)"),
        (1, 2, "Layer 0, head 1: 428.0 of visit 1 looks most at itself (0.60)"),
    ],
)
def test_the_title_says_where_a_row_looks_most(head, row, title):
    assert attention_title(SMALL, layer=0, head=head, row=row) == title


def test_in_cross_attention_no_row_is_its_own_column():
    cross = AttentionMap(**(vars(SMALL) | {"kind": "cross"}))
    assert "at age 64" in attention_title(cross, layer=0, head=0, row=0)


def test_the_favourite_counts_equal_labels_together():
    # Rows 2 and 3 of head 0 look at one <v> each, rows 0 and 1 at the age; head 1 has three.
    assert favourite(SMALL, layer=0, head=0)[1] == 2
    assert favourite(SMALL, layer=0, head=1) == ("age 64", 3)


def test_the_alternative_text():
    assert describe_attention(SMALL, layer=0, head=1, row=2) == (
        "Heat map of decoder attention, 4 rows by 4 columns; layer 0, head 1: 428.0 of visit 1 "
        "looks most at itself (0.60); age 64 is the first choice of 3 of 4 rows."
    )


# ---------------------------------------------------------------------- the picture


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def shown(patient, code_tokenizer, kind):
    return record_attention(made(code_tokenizer), code_tokenizer, patient)[kind]


def mesh(picture):
    (found,) = picture.axes[0].findobj(QuadMesh)
    return found


def test_drawing_twice_gives_the_same_bytes():
    assert draw_attention(SMALL).png() == draw_attention(SMALL).png()


def test_the_picture_carries_title_and_alternative_text():
    picture = draw_attention(SMALL, head=1, row=2)
    assert picture.alternative_text == describe_attention(SMALL, layer=0, head=1, row=2)
    title = attention_title(SMALL, layer=0, head=1, row=2)
    assert title in [text.get_text() for text in picture.texts]


def test_a_cell_has_its_weight_and_a_later_one_has_none():
    drawn = mesh(draw_attention(SMALL, head=1)).get_array()
    later = np.triu(np.ones((4, 4), dtype=bool), 1)
    np.testing.assert_array_equal(drawn.mask, later)
    np.testing.assert_array_equal(drawn[~later], SMALL.weights[0, 1][~later])


def test_colours_run_from_zero_to_the_largest_weight():
    whole = AttentionMap(**(vars(SMALL) | {"kind": "cross", "weights": SMALL.weights / 2}))
    norm = mesh(draw_attention(whole, head=1)).norm
    assert (norm.vmin, norm.vmax) == (0, 0.5)
    assert norm(0.125) == pytest.approx(0.5)  # by the square root


def test_rows_stand_from_the_top_down(shown):
    axes = draw_attention(shown).axes[0]
    assert axes.get_ylim() == (len(shown.rows), 0)
    assert tuple(label.get_text() for label in axes.get_yticklabels()) == shown.rows
    assert tuple(label.get_text() for label in axes.get_xticklabels()) == shown.columns


def test_the_row_and_its_strongest_column_are_framed():
    axes = draw_attention(SMALL, head=0, row=2).axes[0]
    frames = [(*patch.get_xy(), patch.get_width()) for patch in axes.findobj(Rectangle)]
    assert (0, 2, 4) in frames
    assert (1, 2, 1) in frames


def test_no_text_is_cut_off_and_no_text_lies_on_another(shown, drawn):
    result = drawn(draw_attention(shown, layer=1, head=3, row=len(shown.rows) - 1))
    assert result.cut_off() == []
    assert result.overlapping() == []


@pytest.mark.parametrize(("name", "value"), [("layer", 1), ("head", 2), ("row", 4), ("row", -1)])
def test_what_is_not_there_is_refused(name, value):
    with pytest.raises(InputError, match=f"{name}: {value} is not from 0"):
        draw_attention(SMALL, **{name: value})
