"""The attention explorer: what the browser is sent, and what shows without a kernel."""

import base64

import numpy as np
import pytest
import torch
import traitlets
from IPython.core.formatters import DisplayFormatter

from ehr_course.errors import InputError
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.plots.attention import KINDS, draw_attention, favourite
from ehr_course.records import PatientRecord, Visit
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.attention import attention_explorer, record_attention

HEART = PatientRecord(1, "F", 64, (Visit(("4280", "42731", "I5023")), Visit(("V4581",))))


@pytest.fixture(scope="module")
def tokenizer():
    return CodeTokenizer(["4280", "42731", "486", "I5023", "V4581"])


def made(tokenizer, **changes):
    torch.manual_seed(0)
    return PromptBart(PromptBartConfig.for_tokenizer(tokenizer, **changes)).eval()


@pytest.fixture(scope="module")
def model(tokenizer):
    return made(tokenizer)


@pytest.fixture
def explorer(model, tokenizer):
    return attention_explorer(model, tokenizer, HEART)


@pytest.fixture(scope="module")
def maps(model, tokenizer):
    return record_attention(model, tokenizer, HEART)


def weights_as_the_browser_reads_them(explorer):
    """Whole numbers of 16 bits, lower byte first, of one kind after the other."""
    content, place = explorer._content, 0
    for kind in KINDS:
        one = content["maps"][kind]
        shape = (one["layers"], one["heads"], len(one["rows"]), len(one["columns"]))
        numbers = np.frombuffer(explorer._weights, "<u2", np.prod(shape), place)
        place += numbers.nbytes
        yield kind, numbers.reshape(shape) / content["steps"]
    assert place == len(explorer._weights)


# ---------------------------------------------------------------------- what is sent


def test_the_browser_gets_every_weight(explorer, maps):
    sent = dict(weights_as_the_browser_reads_them(explorer))
    for kind in KINDS:
        np.testing.assert_allclose(sent[kind], maps[kind].weights, atol=0.5 / 65_535)


def test_encoder_and_decoder_may_have_other_numbers_of_layers_and_heads(tokenizer):
    model = made(tokenizer, decoder_layers=1, decoder_attention_heads=2)
    sent = dict(weights_as_the_browser_reads_them(attention_explorer(model, tokenizer, HEART)))
    assert sent["encoder"].shape[:2] == (2, 4)
    assert sent["decoder"].shape[:2] == sent["cross"].shape[:2] == (1, 2)


def test_the_browser_gets_what_rows_and_columns_are(explorer, maps):
    for kind in KINDS:
        sent = explorer._content["maps"][kind]
        assert tuple(sent["rows"]) == maps[kind].rows
        assert tuple(sent["columns"]) == maps[kind].columns
        assert tuple(sent["rowNames"]) == maps[kind].row_names
        assert tuple(sent["rowLabels"]) == maps[kind].row_labels
        assert tuple(sent["writes"]) == maps[kind].writes
        assert tuple(sent["columnNames"]) == maps[kind].column_names
        assert sent["causal"] is (kind == "decoder")


def test_the_browser_gets_the_favourite_of_each_head(explorer, maps):
    for kind in KINDS:
        sent = explorer._content["maps"][kind]["favourites"]
        for layer in range(2):
            for head in range(4):
                assert tuple(sent[layer][head]) == favourite(maps[kind], layer=layer, head=head)


def test_codes_and_special_tokens_are_explained(explorer):
    meanings = explorer._content["meanings"]
    assert meanings["428.0"] == "Congestive heart failure, unspecified"
    assert meanings["<v>"] == "a visit begins"
    assert "I5023" not in meanings  # ICD-9-CM has no such code
    assert "age 64" not in meanings


def test_colours_are_viridis_from_dark_to_light(explorer):
    colours = explorer._content["colours"]
    assert (colours[0], colours[-1]) == ("#440154", "#fde725")


def test_only_visits_that_are_left_out_make_a_note(model, tokenizer, explorer):
    assert explorer._content["note"] == ""
    cut = attention_explorer(model, tokenizer, HEART, most_tokens=9)
    assert cut._content["note"] == "The model reads the first 1 visit; 1 more is left out."


# ---------------------------------------------------------------------- without a kernel


def test_the_first_code_is_chosen_and_where_it_looks_most(explorer, maps):
    row = maps["encoder"].rows.index("428.0")
    assert (explorer.kind, explorer.layer, explorer.head) == ("encoder", 0, 0)
    assert explorer.row == row
    assert explorer.column == maps["encoder"].weights[0, 0, row].argmax()


def test_it_opens_where_it_is_told_to(model, tokenizer, maps):
    explorer = attention_explorer(model, tokenizer, HEART, kind="cross", layer=1, head=2)
    assert (explorer.kind, explorer.layer, explorer.head) == ("cross", 1, 2)
    assert explorer.row == maps["cross"].rows.index("428.0")
    assert explorer.column == maps["cross"].weights[1, 2, explorer.row].argmax()
    wanted = draw_attention(maps["cross"], layer=1, head=2, row=explorer.row)
    assert explorer.alternative_text == wanted.alternative_text


def test_it_opens_at_the_last_layer_where_that_attention_has_fewer(tokenizer):
    model = made(tokenizer, decoder_layers=1)
    explorer = attention_explorer(model, tokenizer, HEART, kind="cross", layer=1)
    assert explorer.title.startswith("Layer 0, head 0: after 428.0")


def test_a_notebook_stores_the_picture_and_its_words(explorer):
    data, metadata = DisplayFormatter().format(explorer)
    assert set(data) == {
        "application/vnd.jupyter.widget-view+json",
        "image/png",
        "text/plain",
    }
    assert base64.b64decode(data["image/png"]) == explorer.picture.png()
    assert data["text/plain"] == explorer.alternative_text
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == explorer.model_id
    width, height = explorer.picture.page_size
    assert metadata["image/png"] == {"width": width, "height": height}


def test_the_picture_is_of_what_is_chosen(explorer, maps):
    before = explorer.picture.png()
    explorer.kind, explorer.layer, explorer.head, explorer.row = "cross", 1, 3, 4
    after = explorer.picture
    assert after.png() != before
    wanted = draw_attention(maps["cross"], layer=1, head=3, row=4)
    assert after.alternative_text == wanted.alternative_text
    assert explorer.alternative_text == wanted.alternative_text
    wanted = "Layer 1, head 3: after <v> of visit 1, about to write 428.0, it looks most at "
    assert explorer.title.startswith(wanted)


def test_a_layer_that_the_other_side_alone_has_shows_the_last_one(tokenizer):
    explorer = attention_explorer(made(tokenizer, decoder_layers=1), tokenizer, HEART)
    explorer.layer = 1
    assert explorer.title.startswith("Layer 1, ")
    explorer.kind = "decoder"
    assert explorer.title.startswith("Layer 0, ")


@pytest.mark.parametrize(("name", "value"), [("kind", "self"), ("layer", -1), ("head", -1)])
def test_what_cannot_be_shown_is_refused(explorer, name, value):
    with pytest.raises(traitlets.TraitError):
        setattr(explorer, name, value)


def test_an_unseen_code_is_refused(model, tokenizer):
    with pytest.raises(InputError, match="0389"):
        attention_explorer(model, tokenizer, PatientRecord(1, "F", 64, (Visit(("0389",)),)))
