"""The exercises of lesson 11: model architecture."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from functools import cache, partial

import torch
from torch import Tensor
from torch.nn import functional
from transformers import BartConfig, BartForConditionalGeneration
from transformers.models.bart.modeling_bart import (
    BartLearnedPositionalEmbedding,
    shift_tokens_right,
)

from ehr_course.exercises.exercise import Arguments, Exercise, Misconception


def _numbers(rng: random.Random, rows: int, columns: int) -> Tensor:
    """A small matrix that reads well in a message."""
    return torch.tensor(
        [[round(rng.uniform(-2, 2), 1) for _ in range(columns)] for _ in range(rows)]
    )


def _right_padded(rng: random.Random, length: int) -> Tensor:
    real = rng.randint(1, length)
    return torch.tensor([1] * real + [0] * (length - real))


# 11.1 Scaled dot-product attention


def _scaled(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.T / math.sqrt(query.shape[1])


def _hidden(scores: Tensor, mask: Tensor | None, value: float = -math.inf) -> Tensor:
    return scores if mask is None else scores.masked_fill(~mask, value)


def _attends(
    scores: Tensor, mask: Tensor | None, value: Tensor, *, over: int = 1, filled: float = -math.inf
) -> Tensor:
    return _hidden(scores, mask, filled).softmax(dim=over) @ value


def _masked_after(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    weights = _scaled(query, key).softmax(dim=1)
    return weights @ value if mask is None else (weights * mask) @ value


def _mask_added(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    scores = _scaled(query, key)
    return (scores if mask is None else scores + mask).softmax(dim=1) @ value


def _by_hand(scores: Tensor, mask: Tensor | None, value: Tensor) -> Tensor:
    """A softmax of bare exponentials: in float32 exp(-104) is 0, and 0 / 0 is nan."""
    powers = _hidden(scores, mask).exp()
    return powers / powers.sum(dim=1, keepdim=True) @ value


_BARE_EXPONENTIALS = (
    "Your softmax is right on paper and gives nan where all scores of a query are far from 0: "
    "exp(-120) is 0 in float32, exp(120) is infinite. Take the largest visible score off all "
    "scores first, or call softmax, which does that."
)

_QUERY = torch.tensor([[1.0, 0.5], [-0.5, 2.0]])
_KEY = torch.tensor([[2.0, 0.0], [0.0, 1.0], [-1.0, 1.5]])
_VALUE = torch.tensor([[1.0, 3.0], [0.0, -2.0], [5.0, 0.5]])
_STATES = torch.tensor([[0.4, -1.2], [1.5, 0.3], [-0.7, 0.9]])


def _fresh_attention(rng: random.Random) -> Arguments:
    target, source, width = rng.randint(2, 3), rng.randint(2, 4), rng.randint(2, 4)
    mask = None
    if rng.random() < 0.7:
        rows = [[rng.random() < 0.5 for _ in range(source)] for _ in range(target)]
        for row in rows:
            row[rng.randrange(source)] = True
        mask = torch.tensor(rows)
    return (
        _numbers(rng, target, width),
        _numbers(rng, source, width),
        _numbers(rng, source, rng.choice((width, 1, 3))),
        mask,
    )


ATTENTION = Exercise(
    id="11.1",
    title="Scaled dot-product attention",
    parameters=("query", "key", "value", "mask"),
    reference=lambda query, key, value, mask: functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask
    ),
    chosen=(
        (_QUERY, _KEY, _VALUE, None),
        (_QUERY, _KEY, _VALUE, torch.tensor([[True, True, False], [True, True, False]])),
        (_STATES, _KEY, _VALUE, torch.ones(3, 3, dtype=torch.bool).tril()),
        (
            _QUERY,
            _KEY,
            torch.tensor([[1.0], [2.0], [4.0]]),
            torch.tensor([[True, False, True]] * 2),
        ),
        (
            torch.tensor([[1.0, -1.0, 0.5, 2.0], [0.5, 0.5, -1.0, 1.0]]),
            torch.tensor([[0.5, 1.0, 1.0, 1.0], [2.0, -0.5, 0.0, 0.5]]),
            torch.tensor([[1.0, 0.0, 2.0, 0.0], [0.0, 1.0, 3.0, -1.0]]),
            None,
        ),
        # A visible score of 0 is a score like any other.
        (
            torch.tensor([[1.0, 0.0], [0.0, 1.0]]),
            torch.tensor([[0.0, 1.0], [2.0, 0.0], [1.0, 1.0]]),
            _VALUE,
            torch.tensor([[True, True, False], [True, True, True]]),
        ),
        # Scores near -120: a hidden key must score less than any number that a visible one has.
        # Its own is 85 above theirs and its value large, so -100 added to it hides too little.
        (
            torch.tensor([[12.0, 0.0], [11.9, 0.5]]),
            torch.tensor([[-14.0, 1.0], [-14.1, 0.0], [-4.0, 1.0], [-14.0, 0.5]]),
            torch.tensor([[1.0, 0.0], [0.0, 1.0], [900.0, 900.0], [2.0, -1.0]]),
            torch.tensor([[True, True, False, True]] * 2),
        ),
    ),
    fresh=_fresh_attention,
    misconceptions=(
        Misconception(
            "no_scale",
            "Your scores are not scaled. A dot product grows with the width of its vectors, and "
            "the softmax of large scores looks at one key alone.",
            lambda query, key, value, mask: _attends(query @ key.T, mask, value),
        ),
        Misconception(
            "divides_by_the_width",
            "You divided the scores by the width d itself. Their spread grows with the square "
            "root of d, so they are now too small: the weights become nearly equal.",
            lambda query, key, value, mask: _attends(query @ key.T / query.shape[1], mask, value),
        ),
        Misconception(
            "scales_by_the_number_of_keys",
            "You scaled by the square root of the number of keys. It is the width of a vector "
            "that makes a dot product large; with your scale a longer record has other weights.",
            lambda query, key, value, mask: _attends(
                query @ key.T / math.sqrt(key.shape[0]), mask, value
            ),
        ),
        Misconception(
            "multiplies_by_the_root",
            "You multiplied the scores by the square root of d. They are meant to become "
            "smaller, not larger.",
            lambda query, key, value, mask: _attends(
                query @ key.T * math.sqrt(query.shape[1]), mask, value
            ),
        ),
        Misconception(
            "scales_the_weights",
            "You scaled after the softmax: the weights of a query no longer sum to 1. It is the "
            "scores that must be scaled.",
            lambda query, key, value, mask: (
                _attends(query @ key.T, mask, value) / math.sqrt(query.shape[1])
            ),
        ),
        Misconception(
            "wrong_axis",
            "Your softmax runs over the queries: the weights that a key receives sum to 1. Each "
            "query has a weight of 1 to divide among the keys.",
            lambda query, key, value, mask: _attends(_scaled(query, key), mask, value, over=0),
        ),
        Misconception(
            "no_softmax",
            "You used the scores as weights. They can be negative and do not sum to 1; a softmax "
            "over the keys makes weights of them.",
            lambda query, key, value, mask: _hidden(_scaled(query, key), mask) @ value,
        ),
        Misconception(
            "bare_exponentials",
            _BARE_EXPONENTIALS,
            lambda query, key, value, mask: _by_hand(_scaled(query, key), mask, value),
        ),
        Misconception(
            "mask_inverted",
            "You hid the keys that may be read and left those that may not. True says: this "
            "query may read this key.",
            lambda query, key, value, mask: _attends(
                _scaled(query, key), None if mask is None else ~mask, value
            ),
        ),
        Misconception(
            "mask_ignored",
            "You did not use the mask: padding and future are read like everything else.",
            lambda query, key, value, mask: _attends(_scaled(query, key), None, value),
        ),
        Misconception(
            "mask_after_softmax",
            "You applied the mask after the softmax: the hidden keys had taken their share "
            "before, and the weights that are left no longer sum to 1.",
            _masked_after,
        ),
        Misconception(
            "hidden_scores_are_zero",
            "You gave a hidden key the score 0. The softmax makes exp(0) = 1 of it, which is a "
            "weight like any other. Which score becomes a weight of 0?",
            lambda query, key, value, mask: _attends(_scaled(query, key), mask, value, filled=0.0),
        ),
        Misconception(
            "adds_the_mask",
            "You added the mask to the scores: True adds 1 and False adds 0. That favours the "
            "visible keys a little and hides nothing.",
            _mask_added,
        ),
        Misconception(
            "keys_as_values",
            "You averaged the keys. A key says what a position can be found by; what is read "
            "there is its value.",
            lambda query, key, value, mask: _attends(_scaled(query, key), mask, key),
        ),
        Misconception(
            "queries_as_keys",
            "You compared the queries with the queries. Each query is to be compared with every "
            "key.",
            lambda query, key, value, mask: _attends(_scaled(query, query), mask, value),
        ),
        Misconception(
            "returns_the_weights",
            "You returned the weights. Attention returns what is read with them: for each query "
            "the weighted sum of the values.",
            lambda query, key, value, mask: _hidden(_scaled(query, key), mask).softmax(dim=1),
        ),
    ),
    hints=(
        "Three steps: a score for each pair of query and key, weights from the scores, a weighted "
        "sum of the values. Which shape has each?",
        "The scores are query @ key.T, (target, source), divided by the square root of the width. "
        "The weights of one query sum to 1.",
        "Where the mask is False, let the score be -math.inf before the softmax over the last "
        "axis: exp(-inf) is 0. masked_fill and ~mask do that.",
    ),
    tolerance=1e-5,
)


# 11.2 Causal mask with prompts


def _may_read(n_prompts: int, attention_mask: Tensor) -> Tensor:
    """The slow and obvious loop: one decision for each pair of positions."""
    real = [True] * n_prompts + [bool(one) for one in attention_mask]
    return torch.tensor(
        [[key <= query and real[key] for key in range(len(real))] for query in range(len(real))]
    )


def _causal(length: int, diagonal: int = 0) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril(diagonal)


def _real(n_prompts: int, attention_mask: Tensor) -> Tensor:
    return torch.cat([torch.ones(n_prompts, dtype=torch.bool), attention_mask.bool()])


def _with_changed_block(
    n_prompts: int,
    attention_mask: Tensor,
    rows: Callable[[int], slice],
    columns: Callable[[int], slice],
    value: bool | Tensor,
) -> Tensor:
    mask = _may_read(n_prompts, attention_mask)
    mask[rows(n_prompts), columns(n_prompts)] = value
    return mask


def _first(n_prompts: int) -> slice:
    return slice(0, n_prompts)


def _after(n_prompts: int) -> slice:
    return slice(n_prompts, None)


def _everything(n_prompts: int) -> slice:
    return slice(None)


def _prompts_see_all(n_prompts: int, attention_mask: Tensor) -> Tensor:
    real = _real(n_prompts, attention_mask)
    return _with_changed_block(n_prompts, attention_mask, _first, _everything, real)


def _isolated_prompts(n_prompts: int, attention_mask: Tensor) -> Tensor:
    own = torch.eye(n_prompts, dtype=torch.bool)
    return _with_changed_block(n_prompts, attention_mask, _first, _first, own)


def _additive(n_prompts: int, attention_mask: Tensor) -> Tensor:
    may = _may_read(n_prompts, attention_mask)
    return torch.zeros(may.shape).masked_fill(~may, -math.inf)


def _ones_behind(n_prompts: int, attention_mask: Tensor) -> Tensor:
    ones = torch.ones(n_prompts, dtype=torch.bool)
    real = torch.cat([attention_mask.bool(), ones])
    return _causal(len(real)) & real


def _length(n_prompts: int, attention_mask: Tensor) -> int:
    return n_prompts + len(attention_mask)


def _fresh_mask(rng: random.Random) -> Arguments:
    return rng.randint(1, 3), _right_padded(rng, rng.randint(2, 5))


DECODER_MASK = Exercise(
    id="11.2",
    title="Causal mask with prompts",
    parameters=("n_prompts", "attention_mask"),
    reference=_may_read,
    chosen=(
        (2, torch.tensor([1, 1, 0])),
        (1, torch.tensor([1, 1])),
        (0, torch.tensor([1, 1, 1])),
        (3, torch.tensor([1, 1])),
        (2, torch.tensor([1, 0, 0, 0])),
    ),
    fresh=_fresh_mask,
    misconceptions=(
        Misconception(
            "prompts_see_the_future",
            "Your prompts see the tokens behind them. In a decoder a prompt is a position like "
            "any other: what it read from the future, every later position could read from it.",
            _prompts_see_all,
        ),
        Misconception(
            "tokens_cannot_see_the_prompts",
            "Your tokens cannot see the prompts, so age and sex never reach what is generated.",
            partial(_with_changed_block, rows=_after, columns=_first, value=False),
        ),
        Misconception(
            "prompts_see_each_other",
            "In your mask prompt 0 sees prompt 1. That would harm nobody, but it is another "
            "model: BART's decoder lets no position see a later one, prompts included.",
            partial(_with_changed_block, rows=_first, columns=_first, value=True),
        ),
        Misconception(
            "prompts_see_only_themselves",
            "In your mask prompt 1 does not see prompt 0. Prompts follow the same rule as tokens: "
            "each position sees itself and all before it.",
            _isolated_prompts,
        ),
        Misconception(
            "future_is_visible",
            "Your mask only hides padding: each token sees the ones behind it, and can read off "
            "the token that it is to predict.",
            lambda n_prompts, attention_mask: _real(n_prompts, attention_mask).repeat(
                _length(n_prompts, attention_mask), 1
            ),
        ),
        Misconception(
            "padding_is_visible",
            "Your mask does not use attention_mask: padding can be read.",
            lambda n_prompts, attention_mask: _causal(_length(n_prompts, attention_mask)),
        ),
        Misconception(
            "cannot_see_itself",
            "In your mask no position sees itself, and the first one sees nothing at all: a "
            "softmax over nothing is nan. The token at a position is known; the next one is not.",
            lambda n_prompts, attention_mask: (
                _causal(_length(n_prompts, attention_mask), -1) & _real(n_prompts, attention_mask)
            ),
        ),
        Misconception(
            "diagonal_moved_by_the_prompts",
            "You moved the diagonal by the number of prompts: each position sees that many later "
            "ones. The prompts stand in the rows as well as in the columns.",
            lambda n_prompts, attention_mask: (
                _causal(_length(n_prompts, attention_mask), n_prompts)
                & _real(n_prompts, attention_mask)
            ),
        ),
        Misconception(
            "transposed",
            "Your mask lets each position see itself and what comes after it. Row i says what "
            "position i may read.",
            lambda n_prompts, attention_mask: (
                _causal(_length(n_prompts, attention_mask)).T & _real(n_prompts, attention_mask)
            ),
        ),
        Misconception(
            "inverted",
            "Your mask is True where a position may not read. Here True says: may read.",
            lambda n_prompts, attention_mask: ~_may_read(n_prompts, attention_mask),
        ),
        Misconception(
            "additive",
            "You returned 0 and -inf, to be added to scores. The task asks for True and False.",
            _additive,
        ),
        Misconception(
            "no_prompts",
            "Your mask covers the tokens alone. The prompts stand before them and need rows and "
            "columns of their own.",
            lambda n_prompts, attention_mask: _may_read(0, attention_mask),
        ),
        Misconception(
            "no_rows_for_the_prompts",
            "Your mask has columns for the prompts but no rows. The decoder computes its prompts "
            "too, so each has a row that says what it may read.",
            lambda n_prompts, attention_mask: _may_read(n_prompts, attention_mask)[n_prompts:],
        ),
        Misconception(
            "prompts_behind_the_padding",
            "You put the ones of the prompts behind attention_mask. The prompts stand first; now "
            "each token is judged by the mask of another one.",
            _ones_behind,
        ),
        Misconception(
            "hides_the_rows_of_padding",
            "You hid what padding reads, not padding itself. A row says what a position reads, a "
            "column says who reads it; and a row without any True gives nan.",
            lambda n_prompts, attention_mask: (
                _causal(_length(n_prompts, attention_mask))
                & _real(n_prompts, attention_mask)[:, None]
            ),
        ),
    ),
    hints=(
        "How many positions does the decoder have? The mask has a row and a column for each.",
        "Two conditions hold at once: the key is not later than the query, and it is no padding. "
        "A prompt is never padding.",
        "torch.ones(n, n).tril() is 1 where column <= row. Put n_prompts ones before "
        "attention_mask, and let that row of booleans hide columns with &.",
    ),
)


# 11.3 Shift right


def _shifted(labels: Tensor, *, start: int = 2, padding: int = 0) -> Tensor:
    rows = [[start, *row[:-1]] for row in labels.tolist()]
    return torch.tensor([[padding if one == -100 else one for one in row] for row in rows])


def _shifted_left(labels: Tensor) -> Tensor:
    rows = [[*row[1:], 2] for row in labels.tolist()]
    return torch.tensor([[0 if one == -100 else one for one in row] for row in rows])


def _rolled(labels: Tensor) -> Tensor:
    rolled = labels.roll(1, dims=1)
    return rolled.masked_fill(rolled == -100, 0)


def _put_before(labels: Tensor) -> Tensor:
    rows = [[2, *row] for row in labels.tolist()]
    return torch.tensor([[0 if one == -100 else one for one in row] for row in rows])


def _overwritten(labels: Tensor) -> Tensor:
    rows = [[2, *row[1:]] for row in labels.tolist()]
    return torch.tensor([[0 if one == -100 else one for one in row] for row in rows])


def _without_end(labels: Tensor) -> Tensor:
    shifted = _shifted(labels)
    shifted[:, 1:][shifted[:, 1:] == 2] = 0
    return shifted


def _wrapped(labels: Tensor) -> Tensor:
    """What transformers did before version 4: the last real token becomes the first."""
    shifted = _shifted(labels)
    shifted[:, 0] = torch.tensor([[one for one in row if one != -100][-1] for row in labels])
    return shifted


def _fresh_labels(rng: random.Random) -> Arguments:
    records = [
        [1, 3, *rng.sample(range(7, 30), rng.randint(1, 3)), 4, 2]
        for _ in range(rng.randint(1, 3))
    ]
    longest = max(map(len, records)) + rng.randint(0, 1)
    return (torch.tensor([ids + [-100] * (longest - len(ids)) for ids in records]),)


SHIFT_RIGHT = Exercise(
    id="11.3",
    title="Shift right",
    parameters=("labels",),
    reference=lambda labels: shift_tokens_right(labels, 0, 2),
    chosen=(
        (torch.tensor([[1, 3, 7, 8, 4, 2]]),),
        (torch.tensor([[1, 3, 9, 4, 2, -100, -100]]),),
        (torch.tensor([[1, 3, 7, 8, 4, 2], [1, 3, 9, 4, 2, -100]]),),
        (torch.tensor([[1, 3, 7, 4, 3, 8, 9, 4, 2, -100], [1, 2] + [-100] * 8]),),
        # A record that was cut ends in a code.
        (torch.tensor([[1, 3, 7, 8], [1, 3, 9, -100]]),),
    ),
    fresh=_fresh_labels,
    misconceptions=(
        Misconception(
            "starts_with_bos",
            "Your rows start with <BOS>. The record itself begins with <BOS>, so the model would "
            "read it twice; BART's decoder starts with <EOS>.",
            partial(_shifted, start=1),
        ),
        Misconception(
            "starts_with_padding",
            "Your rows start with <PAD>. BART's decoder starts with <EOS>; padding says that "
            "nothing is there.",
            partial(_shifted, start=0),
        ),
        Misconception(
            "leaves_minus_100",
            "You left -100 in. It tells the loss to skip a position; as a token id it has no row "
            "in the table of embeddings.",
            partial(_shifted, padding=-100),
        ),
        Misconception(
            "pads_with_barts_id",
            "You put 1 where -100 was. That is padding in the published BART's vocabulary; in "
            "ours 1 is <BOS> and <PAD> is 0.",
            partial(_shifted, padding=1),
        ),
        Misconception(
            "pads_with_eos",
            "You put 2 where -100 was: the record now ends many times. Padding is 0.",
            partial(_shifted, padding=2),
        ),
        Misconception(
            "shifts_left",
            "You shifted to the left: each position now reads the token after the one it is to "
            "predict, and never the one before.",
            _shifted_left,
        ),
        Misconception(
            "rolls",
            "You rolled each row: its last entry became its first. Where the row ends in padding, "
            "the decoder then starts with padding. The start is always the same token.",
            _rolled,
        ),
        Misconception(
            "wraps_the_last_token",
            "Your rows start with their own last token. In a whole record that is <EOS>; a record "
            "that was cut ends in a code. The start is always the same token.",
            _wrapped,
        ),
        Misconception(
            "grows_by_one",
            "Your rows have one token more than the labels. Each label needs one position that "
            "predicts it, so the last token is dropped.",
            _put_before,
        ),
        Misconception(
            "overwrites_the_first_token",
            "You wrote the start over the first token and moved nothing: each position now reads "
            "the very token that it is to predict.",
            _overwritten,
        ),
        Misconception(
            "not_shifted",
            "You moved nothing: each position reads the very token that it is to predict.",
            lambda labels: labels.masked_fill(labels == -100, 0),
        ),
        Misconception(
            "drops_the_end_of_the_record",
            "You made padding of the <EOS> that ends a record. Only the last column is dropped; "
            "in a padded row <EOS> stands before it, and moves like every token.",
            _without_end,
        ),
    ),
    hints=(
        "The token that a position is to predict must not be the one that it reads. It reads the "
        "one before.",
        "The first column is <EOS>, 2; the other columns are the labels without their last one.",
        "Build the row from a column of 2 and labels[:, :-1], then replace -100 by the id of "
        "<PAD>, 0: masked_fill does that.",
    ),
)


# 11.4 Count the parameters of BART

Size = tuple[int, int, int, int, int, int, int]


@cache
def _counted(*size: int) -> int:
    """Build the model without its numbers, on the meta device, and count its parameters."""
    vocab_size, d_model, encoder_layers, decoder_layers, heads, ffn_dim, positions = size
    config = BartConfig(
        vocab_size=vocab_size,
        d_model=d_model,
        encoder_layers=encoder_layers,
        decoder_layers=decoder_layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=ffn_dim,
        decoder_ffn_dim=ffn_dim,
        max_position_embeddings=positions,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    with torch.device("meta"):
        model = BartForConditionalGeneration(config)
    return sum(parameter.numel() for parameter in model.parameters())


def _miscounted(difference: Callable[..., int]) -> Callable[..., int]:
    """A count that is off by `difference` of (V, d, encoder layers, decoder layers, h, f, P)."""
    return lambda *size: _counted(*size) + difference(*size)


def _blocks(encoder_layers: int, decoder_layers: int) -> int:
    """How many attention blocks there are: one in an encoder layer, two in a decoder layer."""
    return encoder_layers + 2 * decoder_layers


def _norms(encoder_layers: int, decoder_layers: int) -> int:
    """How many layer norms: two in an encoder layer, three in a decoder layer, two above."""
    return 2 * encoder_layers + 3 * decoder_layers + 2


def _fresh_size(rng: random.Random) -> Arguments:
    heads = rng.choice((2, 3, 4))
    return (
        rng.randint(20, 60),
        heads * rng.randint(2, 5),
        rng.randint(1, 3),
        rng.randint(1, 3),
        heads,
        rng.randint(6, 40),
        rng.randint(8, 40),
    )


COUNT = Exercise(
    id="11.4",
    title="Count the parameters of BART",
    parameters=(
        "vocab_size",
        "d_model",
        "encoder_layers",
        "decoder_layers",
        "heads",
        "ffn_dim",
        "positions",
    ),
    reference=_counted,
    chosen=(
        (20, 4, 1, 1, 2, 6, 8),
        (31, 6, 2, 1, 3, 13, 10),
        (40, 8, 1, 3, 2, 24, 16),
        (6992, 768, 6, 6, 12, 3072, 512),
        (5569, 768, 6, 6, 12, 3072, 1024),
    ),
    fresh=_fresh_size,
    misconceptions=(
        Misconception(
            "times_heads",
            "You multiplied the attention weights by the number of heads. Heads divide the width "
            "among them: 12 heads of 64 have the weights of one head of 768.",
            _miscounted(lambda v, d, e, n, h, f, p: (h - 1) * _blocks(e, n) * 4 * (d * d + d)),
        ),
        Misconception(
            "weights_times_heads",
            "You multiplied the weights of attention by the number of heads, and not its biases. "
            "Heads divide the width among them: 12 heads of 64 have the weights of one of 768.",
            _miscounted(lambda v, d, e, n, h, f, p: (h - 1) * _blocks(e, n) * 4 * d * d),
        ),
        Misconception(
            "vocabulary_counted_twice",
            "Your count has the vocabulary twice: vocab_size x d_model too many. Encoder, decoder "
            "and output layer use one and the same table.",
            _miscounted(lambda v, d, e, n, h, f, p: v * d),
        ),
        Misconception(
            "vocabulary_counted_three_times",
            "Your count has the vocabulary three times. Encoder, decoder and output layer use one "
            "and the same table.",
            _miscounted(lambda v, d, e, n, h, f, p: 2 * v * d),
        ),
        Misconception(
            "output_layer_with_a_bias",
            "Your count is too large by vocab_size: the output layer has no bias to learn.",
            _miscounted(lambda v, d, e, n, h, f, p: v),
        ),
        Misconception(
            "position_offset_forgotten",
            "Your count is 4 x d_model too small. Either your tables of positions are two rows "
            "too short (BART's position 0 is row 2: each table has positions + 2 rows), or the "
            "layer norms after the embeddings are missing.",
            _miscounted(lambda v, d, e, n, h, f, p: -4 * d),
        ),
        Misconception(
            "one_position_table",
            "You counted one table of positions. Encoder and decoder share the tokens' table, but "
            "each has positions of its own.",
            _miscounted(lambda v, d, e, n, h, f, p: -(p + 2) * d),
        ),
        Misconception(
            "one_short_position_table",
            "Your count is (positions + 4) x d_model too small. Encoder and decoder each have a "
            "table of positions, and you counted one. Besides, either that one lacks its two "
            "spare rows, or you counted one layer norm for both embeddings: each side has one.",
            _miscounted(lambda v, d, e, n, h, f, p: -(p + 4) * d),
        ),
        Misconception(
            "biases_forgotten",
            "You counted weights and no biases of the linear layers. Each of the four projections "
            "of an attention block has a bias, and so have both layers of the feed-forward net.",
            _miscounted(lambda v, d, e, n, h, f, p: -_blocks(e, n) * 4 * d - (e + n) * (f + d)),
        ),
        Misconception(
            "attention_biases_forgotten",
            "You left out the biases of attention: each of its four projections has one.",
            _miscounted(lambda v, d, e, n, h, f, p: -_blocks(e, n) * 4 * d),
        ),
        Misconception(
            "ffn_biases_forgotten",
            "You left out the biases of the feed-forward nets: one of ffn_dim, one of d_model.",
            _miscounted(lambda v, d, e, n, h, f, p: -(e + n) * (f + d)),
        ),
        Misconception(
            "layer_norms_forgotten",
            "You left out the layer norms. There is one after each block of a layer and one after "
            "each embedding, with a weight and a bias of d_model.",
            _miscounted(lambda v, d, e, n, h, f, p: -_norms(e, n) * 2 * d),
        ),
        Misconception(
            "layer_norms_without_bias",
            "You gave each layer norm d_model parameters. It has a weight and a bias.",
            _miscounted(lambda v, d, e, n, h, f, p: -_norms(e, n) * d),
        ),
        Misconception(
            "one_embedding_layer_norm",
            "Your count is 2 x d_model too small. Encoder and decoder each have a layer norm "
            "after their embeddings, and each a table of positions + 2 rows.",
            _miscounted(lambda v, d, e, n, h, f, p: -2 * d),
        ),
        Misconception(
            "two_norms_in_a_decoder_layer",
            "You gave a decoder layer two layer norms. It has three blocks, self-attention, "
            "cross-attention and feed-forward net, and a norm after each.",
            _miscounted(lambda v, d, e, n, h, f, p: -n * 2 * d),
        ),
        Misconception(
            "no_cross_attention",
            "You counted a decoder layer like an encoder layer. It also has a cross-attention, "
            "with projections and a layer norm of its own.",
            _miscounted(lambda v, d, e, n, h, f, p: -n * (4 * (d * d + d) + 2 * d)),
        ),
        Misconception(
            "three_projections",
            "You counted three projections in an attention block: query, key and value. There is "
            "a fourth, which mixes what the heads have read.",
            _miscounted(lambda v, d, e, n, h, f, p: -_blocks(e, n) * (d * d + d)),
        ),
        Misconception(
            "one_ffn_matrix",
            "You counted one matrix in a feed-forward net. It has two: up to ffn_dim, and back.",
            _miscounted(lambda v, d, e, n, h, f, p: -(e + n) * d * f),
        ),
    ),
    hints=(
        "Count a linear layer first: in x out weights, and out biases. Then an attention block of "
        "four of them, and a feed-forward net of two.",
        "An encoder layer is attention, feed-forward net and a layer norm after each. A decoder "
        "layer has a second attention and a third norm. Print the parameters of one to compare.",
        "Besides the layers: one table of vocab_size rows for everything, two tables of "
        "positions + 2 rows, two layer norms. The heads do not enter at all.",
    ),
)


# 11.5 Cross-attention


def _cross(
    decoder_states: Tensor,
    encoder_states: Tensor,
    w_query: Tensor,
    w_key: Tensor,
    w_value: Tensor,
    encoder_mask: Tensor,
) -> Tensor:
    """PyTorch's own multi-head attention, with one head and an output projection that is 1."""
    width = decoder_states.shape[1]
    read, _ = functional.multi_head_attention_forward(
        decoder_states,
        encoder_states,
        encoder_states,
        width,
        1,
        torch.cat([w_query.T, w_key.T, w_value.T]),
        torch.zeros(3 * width),
        None,
        None,
        False,
        0.0,
        torch.eye(width),
        torch.zeros(width),
        key_padding_mask=encoder_mask == 0,
    )
    return read


Projections = tuple[Tensor, Tensor, Tensor]


def _reads(queries: Tensor, keys: Tensor, values: Tensor, w: Projections, seen: Tensor) -> Tensor:
    """Attention of projected states; `seen` is bool and broadcasts over (queries, keys)."""
    return _attends(_scaled(queries @ w[0], keys @ w[1]), seen, values @ w[2])


def _crossed(
    decoder_states: Tensor,
    encoder_states: Tensor,
    *rest: Tensor,
    sources: str = "dee",
    order: Sequence[int] = (0, 1, 2),
    turned: bool = False,
) -> Tensor:
    """Cross-attention with the queries, keys and values taken from "d"ecoder or "e"ncoder."""
    *w, encoder_mask = rest
    states = {"d": decoder_states, "e": encoder_states}
    projections = [w[i].T if turned else w[i] for i in order]
    return _reads(*(states[one] for one in sources), projections, encoder_mask == 1)


def _seen_differently(seen: Callable[[int, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Cross-attention with another mask, made from the target's length and encoder_mask."""

    def wrong(decoder_states: Tensor, encoder_states: Tensor, *rest: Tensor) -> Tensor:
        *w, encoder_mask = rest
        mask = seen(len(decoder_states), encoder_mask)
        return _reads(decoder_states, encoder_states, encoder_states, w, mask)

    return wrong


def _cross_scores(
    decoder_states: Tensor, encoder_states: Tensor, w_query: Tensor, w_key: Tensor
) -> Tensor:
    return (decoder_states @ w_query) @ (encoder_states @ w_key).T


def _cross_unscaled(d: Tensor, e: Tensor, wq: Tensor, wk: Tensor, wv: Tensor, m: Tensor) -> Tensor:
    return _attends(_cross_scores(d, e, wq, wk), m == 1, e @ wv)


def _cross_after(d: Tensor, e: Tensor, wq: Tensor, wk: Tensor, wv: Tensor, m: Tensor) -> Tensor:
    weights = (_cross_scores(d, e, wq, wk) / math.sqrt(d.shape[1])).softmax(dim=1)
    return (weights * m) @ (e @ wv)


def _fresh_cross(rng: random.Random) -> Arguments:
    target, source, width = rng.randint(1, 3), rng.randint(2, 4), rng.randint(2, 3)
    return (
        _numbers(rng, target, width),
        _numbers(rng, source, width),
        *(_numbers(rng, width, width) for _ in range(3)),
        _right_padded(rng, source),
    )


_W = (
    torch.tensor([[1.0, 0.5], [0.0, -1.0]]),
    torch.tensor([[0.5, 1.0], [-0.5, 1.5]]),
    torch.tensor([[2.0, 0.0], [1.0, -1.0]]),
)

CROSS_ATTENTION = Exercise(
    id="11.5",
    title="Cross-attention",
    parameters=(
        "decoder_states",
        "encoder_states",
        "w_query",
        "w_key",
        "w_value",
        "encoder_mask",
    ),
    reference=_cross,
    chosen=(
        (_QUERY, _KEY, *_W, torch.tensor([1, 1, 1])),
        (_QUERY, _KEY, *_W, torch.tensor([1, 1, 0])),
        (_STATES, _KEY, *_W, torch.tensor([1, 1, 1])),
        (_STATES, _KEY, *_W, torch.tensor([1, 1, 0])),
        (_KEY[:2], _STATES[:2], *_W, torch.tensor([1, 0])),
        # Scores near -120, as in 11.1, and one near -34 that is hidden.
        (
            torch.tensor([[12.0, 0.0], [11.9, 0.5]]),
            torch.tensor([[-14.0, 1.0], [-14.1, 0.0], [-14.0, 0.5], [-4.0, 1.0]]),
            torch.eye(2),
            torch.eye(2),
            _W[2],
            torch.tensor([1, 1, 1, 0]),
        ),
    ),
    fresh=_fresh_cross,
    misconceptions=(
        Misconception(
            "encoder_reads_itself",
            "Your queries come from the encoder, like keys and values: the encoder reads itself, "
            "and what the decoder has written does not matter. It is the decoder that asks.",
            partial(_crossed, sources="eee"),
        ),
        Misconception(
            "decoder_reads_itself",
            "Keys and values come from the decoder: that is self-attention, and the patient in "
            "the encoder is never read.",
            partial(_crossed, sources="ddd"),
        ),
        Misconception(
            "roles_swapped",
            "Your queries come from the encoder, your keys and values from the decoder. The "
            "decoder asks and the encoder is read: the result has a row for each target position.",
            partial(_crossed, sources="edd"),
        ),
        Misconception(
            "keys_of_the_decoder",
            "Your keys come from the decoder. What is searched is the encoder: keys and values "
            "describe the same positions.",
            partial(_crossed, sources="dde"),
        ),
        Misconception(
            "values_of_the_decoder",
            "Your values come from the decoder: the encoder is searched, but what is read is the "
            "decoder's own.",
            partial(_crossed, sources="ded"),
        ),
        Misconception(
            "causal",
            "You applied a causal mask. The encoder has read the whole input before the decoder "
            "begins, so every target position may read all of it.",
            _seen_differently(
                lambda target, mask: (
                    torch.ones(target, len(mask), dtype=torch.bool).tril() & (mask == 1)
                )
            ),
        ),
        Misconception(
            "padding_is_read",
            "You did not use encoder_mask: the padding of the input is read.",
            _seen_differently(lambda target, mask: mask >= 0),
        ),
        Misconception(
            "mask_inverted",
            "You hid the real tokens and left the padding. encoder_mask is 1 on real tokens.",
            _seen_differently(lambda target, mask: mask == 0),
        ),
        Misconception(
            "mask_after_softmax",
            "You applied the mask after the softmax: the weights that are left do not sum to 1.",
            _cross_after,
        ),
        Misconception(
            "no_scale",
            "Your scores are not divided by the square root of the width.",
            _cross_unscaled,
        ),
        Misconception(
            "bare_exponentials",
            _BARE_EXPONENTIALS,
            lambda d, e, wq, wk, wv, m: _by_hand(_scaled(d @ wq, e @ wk), m == 1, e @ wv),
        ),
        Misconception(
            "no_projections",
            "You compared the states themselves. Queries, keys and values are the states times "
            "w_query, w_key and w_value.",
            lambda d, e, wq, wk, wv, m: _attends(_scaled(d, e), m == 1, e),
        ),
        Misconception(
            "values_not_projected",
            "You read the encoder's states themselves. A value is a state times w_value.",
            lambda d, e, wq, wk, wv, m: _attends(_scaled(d @ wq, e @ wk), m == 1, e),
        ),
        Misconception(
            "projections_transposed",
            "You multiplied by the transposed matrices. nn.Linear stores its weight as (out, in); "
            "here each matrix is (in, out): states @ w.",
            partial(_crossed, turned=True),
        ),
        Misconception(
            "keys_and_values_swapped",
            "You made the keys with w_value and the values with w_key.",
            partial(_crossed, order=(0, 2, 1)),
        ),
    ),
    hints=(
        "Who asks, and who is read? The result has one row for each target position.",
        "The queries are decoder_states @ w_query. Keys and values both come from "
        "encoder_states, through their own matrices.",
        "From there on it is exercise 11.1. The mask hides the columns of padded source "
        "positions, for every query alike.",
    ),
    tolerance=1e-5,
)


# 11.6 Embed tokens and positions


def _embedded(
    token_ids: Tensor, prompts: Tensor, token_table: Tensor, position_table: Tensor
) -> Tensor:
    """BART's own modules, with the tables as their weights."""
    rows, width = position_table.shape
    with torch.device("meta"):
        table = BartLearnedPositionalEmbedding(rows - 2, width)
    table.weight = torch.nn.Parameter(position_table, requires_grad=False)
    tokens = functional.embedding(token_ids, token_table)
    joined = torch.cat([prompts, tokens])[None]  # (1, n_prompts + length, d_model)
    return (joined + table(joined[:, :, -1])).squeeze(0)


def _joined(token_ids: Tensor, prompts: Tensor, token_table: Tensor) -> Tensor:
    return torch.cat([prompts, token_table[token_ids]])


def _at(position_table: Tensor, positions: Sequence[int]) -> Tensor:
    return torch.stack([position_table[i] for i in positions])


def _placed(place: Callable[[int, int], list[int]]) -> Callable[..., Tensor]:
    """Embed with the rows of position_table that `place(n_prompts, length)` names."""

    def wrong(ids: Tensor, prompts: Tensor, table: Tensor, position_table: Tensor) -> Tensor:
        rows = place(len(prompts), len(ids))
        return _joined(ids, prompts, table) + _at(position_table, rows)

    return wrong


def _tokens_placed(first: Callable[[int], int]) -> Callable[..., Tensor]:
    """Embed with positions for the tokens alone, from `first(n_prompts)` on."""

    def wrong(ids: Tensor, prompts: Tensor, table: Tensor, position_table: Tensor) -> Tensor:
        start = first(len(prompts))
        placed = table[ids] + position_table[start : start + len(ids)]
        return torch.cat([prompts, placed])

    return wrong


def _prompts_last(ids: Tensor, prompts: Tensor, table: Tensor, position_table: Tensor) -> Tensor:
    joined = torch.cat([table[ids], prompts])
    return joined + position_table[2 : 2 + len(joined)]


def _padding_zeroed(ids: Tensor, prompts: Tensor, table: Tensor, position_table: Tensor) -> Tensor:
    embedded = _embedded(ids, prompts, table, position_table)
    embedded[len(prompts) :][ids == 0] = 0.0
    return embedded


def _real_counted(ids: Tensor, prompts: Tensor, table: Tensor, position_table: Tensor) -> Tensor:
    """Positions that count real tokens, so that padding repeats the last one's."""
    real = torch.cat([torch.ones(len(prompts), dtype=torch.int64), (ids != 0).long()])
    return _joined(ids, prompts, table) + position_table[real.cumsum(0) + 1]


def _times_root(
    ids: Tensor, prompts: Tensor, table: Tensor, position_table: Tensor, *, of_prompts: bool
) -> Tensor:
    root = math.sqrt(table.shape[1])
    first = prompts * root if of_prompts else prompts
    return _embedded(ids, first, table * root, position_table)


_TOKENS = torch.tensor(
    [[0.1, -0.1], [1.0, 1.5], [-1.0, 2.0], [0.5, 0.5], [2.0, -0.5], [0.7, 0.3], [1.2, -2.0]]
)
_POSITIONS = torch.tensor(
    [[10.0, 20.0], [30.0, 50.0], [70.0, 110.0], [130.0, 170.0], [190.0, 230.0], [290.0, 310.0]]
)
_PROMPTS = torch.tensor([[0.25, 0.75], [-0.25, 0.35]])


def _fresh_embedding(rng: random.Random) -> Arguments:
    width, real = rng.randint(2, 3), rng.randint(1, 3)
    ids = [rng.randint(1, 6) for _ in range(real)] + [0] * rng.randint(0, 2)
    n_prompts = rng.randint(1, 2)
    return (
        torch.tensor(ids),
        _numbers(rng, n_prompts, width),
        _numbers(rng, 7, width),
        _numbers(rng, n_prompts + len(ids) + 2, width),
    )


EMBED = Exercise(
    id="11.6",
    title="Embed tokens and positions",
    parameters=("token_ids", "prompts", "token_table", "position_table"),
    reference=_embedded,
    chosen=(
        (torch.tensor([3, 2]), _PROMPTS, _TOKENS, _POSITIONS),
        (torch.tensor([5, 0]), _PROMPTS, _TOKENS, _POSITIONS),
        (torch.tensor([5, 2, 0]), _PROMPTS[1:], _TOKENS, _POSITIONS),
        (torch.tensor([1, 6, 2]), _PROMPTS[:0], _TOKENS, _POSITIONS),
        (torch.tensor([4]), _PROMPTS[:1], _TOKENS, _POSITIONS),
    ),
    fresh=_fresh_embedding,
    misconceptions=(
        Misconception(
            "no_offset",
            "You took position 0 from row 0. BART's table begins with two rows that stand for no "
            "position: position 0 is row 2.",
            _placed(lambda n, length: list(range(n + length))),
        ),
        Misconception(
            "offset_of_one",
            "You took position 0 from row 1. BART's table begins with two rows that stand for no "
            "position, whatever the id of padding: position 0 is row 2.",
            _placed(lambda n, length: list(range(1, 1 + n + length))),
        ),
        Misconception(
            "prompts_without_positions",
            "Your tokens have their positions, but your prompts have none. A prompt takes part in "
            "attention like a token, and has a position like one.",
            _tokens_placed(lambda n: 2 + n),
        ),
        Misconception(
            "tokens_placed_before_the_prompts_came",
            "You placed the tokens as if no prompts stood before them, and the prompts nowhere. "
            "Positions run over prompts and tokens: the first prompt has position 0.",
            _tokens_placed(lambda n: 2),
        ),
        Misconception(
            "positions_start_again",
            "Your positions start again at the first token: it has the same one as the first "
            "prompt. They run on over prompts and tokens.",
            _placed(lambda n, length: [*range(2, 2 + n), *range(2, 2 + length)]),
        ),
        Misconception(
            "one_position_for_all_prompts",
            "Your prompts all have position 0, and the first token has 1. Each prompt has a "
            "position of its own.",
            _placed(lambda n, length: [2] * n + [i + 2 + min(n, 1) for i in range(length)]),
        ),
        Misconception(
            "prompts_last",
            "You put the prompts behind the tokens. In a decoder a token sees only what stands "
            "before it, so prompts stand first.",
            _prompts_last,
        ),
        Misconception(
            "scales_tokens",
            "You multiplied the tokens by the square root of d_model, as the first Transformer "
            "did. BART does so only with scale_embedding, which is off.",
            partial(_times_root, of_prompts=False),
        ),
        Misconception(
            "scales_everything",
            "You multiplied prompts and tokens by the square root of d_model. BART does so only "
            "with scale_embedding, which is off.",
            partial(_times_root, of_prompts=True),
        ),
        Misconception(
            "no_positions",
            "You added no positions. Attention does not see order by itself: without positions "
            "the first visit and the last look alike.",
            lambda ids, prompts, table, position_table: _joined(ids, prompts, table),
        ),
        Misconception(
            "multiplies_positions",
            "You multiplied tokens by positions. BART adds them.",
            lambda ids, prompts, table, position_table: (
                _joined(ids, prompts, table) * position_table[2 : 2 + len(prompts) + len(ids)]
            ),
        ),
        Misconception(
            "zeros_for_padding",
            "You set the vectors of padding to zero. BART embeds padding like any token; it is "
            "the attention mask that hides it.",
            _padding_zeroed,
        ),
        Misconception(
            "counts_real_tokens",
            "Your positions count real tokens, so padding repeats the last one's. BART counts "
            "every position, padding included; the attention mask hides it.",
            _real_counted,
        ),
        Misconception(
            "forgets_the_prompts",
            "You embedded the tokens alone. The prompts stand before them.",
            lambda ids, prompts, table, position_table: (
                table[ids] + position_table[2 : 2 + len(ids)]
            ),
        ),
    ),
    hints=(
        "token_table[token_ids] looks up all rows at once. Put the prompts before them.",
        "Count the positions after the prompts are in place: the first prompt has position 0.",
        "Position p is row p + 2 of position_table, so the rows are a slice that begins at 2 and "
        "is as long as prompts and tokens together.",
    ),
    tolerance=1e-5,
)

EXERCISES = (ATTENTION, DECODER_MASK, SHIFT_RIGHT, COUNT, CROSS_ATTENTION, EMBED)
