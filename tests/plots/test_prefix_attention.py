"""What a prefix gets of the attention: the numbers, the words and the picture."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from ehr_course.errors import InputError
from ehr_course.evaluation.attention import PrefixAttention
from ehr_course.plots.prefix_attention import (
    MOST_TOKENS,
    describe_prefix_attention,
    draw_prefix_attention,
    prefix_title,
)

SHARES = np.array([[[0.1, 0.2, 0.3], [0.8, 0.7, 0.6]], [[0.0, 0.5, 0.9], [1.0, 0.4, 0.25]]])
PAID = PrefixAttention(64, "M", ("<BOS>", "<v>", "428.0"), SHARES, n_prefix=4, n_prompts=2)


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
    heads, mean, most, equal = below.lines
    np.testing.assert_array_equal(heads.get_ydata().reshape(4, 3), SHARES.reshape(4, 3))
    np.testing.assert_array_equal(heads.get_xdata().reshape(4, 3), [[0, 1, 2]] * 4)
    np.testing.assert_allclose(mean.get_ydata(), SHARES.mean((0, 1)))
    layer, head = np.unravel_index(SHARES[:, :, position].argmax(), (2, 2))
    np.testing.assert_array_equal(most.get_ydata(), SHARES[layer, head])
    assert most.get_label() == f"layer {layer}, head {head}"
    np.testing.assert_allclose(equal.get_ydata(), [4 / 7, 4 / 8, 4 / 9])
    (band,) = (patch for patch in below.patches if isinstance(patch, Rectangle))
    assert (band.get_x(), band.get_width()) == (position - 0.5, 1)
    shown = [label.get_text() for label in below.get_xticklabels()]
    assert shown == list(PAID.tokens)


@pytest.mark.parametrize(
    ("layers", "heads", "tokens"), [(1, 1, 1), (2, 4, 20), (6, 12, MOST_TOKENS)]
)
def test_no_text_is_cut_off(drawn, layers, heads, tokens):
    shares = np.random.default_rng(0).random((layers, heads, tokens))
    paid = PrefixAttention(90, "F", ("V45.01",) * tokens, shares, n_prefix=20)
    assert drawn(draw_prefix_attention(paid, tokens - 1)).cut_off() == []


@pytest.mark.parametrize("position", [-1, 3])
def test_a_position_that_is_not_there_is_refused(position):
    with pytest.raises(InputError, match="no position of 3"):
        draw_prefix_attention(PAID, position)
