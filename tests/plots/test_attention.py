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
    attention_title,
    describe_attention,
    draw_attention,
    favourite,
)
from ehr_course.records import PatientRecord, Visit
from ehr_course.widgets.attention import record_attention

HEART = PatientRecord(1, "F", 64, (Visit(("4280", "42731")), Visit(("V4581",))))


def made(tokenizer, **changes):
    torch.manual_seed(0)
    return PromptBart(PromptBartConfig.for_tokenizer(tokenizer, **changes)).eval()


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


def test_a_row_that_writes_is_named_by_what_it_has_read_and_what_it_writes():
    writing = AttentionMap(**(vars(SMALL) | {"writes": ("", "428.0", "<\\v>", "<EOS>")}))
    assert writing.row_labels == ("age 64", "<v> → 428.0", "428.0 → <\\v>", "<v> → <EOS>")
    assert attention_title(writing, layer=0, head=0, row=1) == (
        "Layer 0, head 0: after <v> of visit 1, about to write 428.0, it looks most at age 64 "
        "(0.60)"
    )
    of_a_prompt = "Layer 0, head 0: age 64 looks most at itself (1.00)"
    assert attention_title(writing, layer=0, head=0, row=0) == of_a_prompt


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
    assert tuple(label.get_text() for label in axes.get_yticklabels()) == shown.row_labels
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
