"""The exercises of lesson 18: prefix tuning."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from ehr_course.exercises.exercise import Arguments, Exercise, Misconception

FLOAT32 = 1e-4
"""The tolerance of values that come from a few sums in float32."""


def _numbers(rng: random.Random, *shape: int, largest: float = 2.0) -> Tensor:
    """Numbers with one decimal, float32."""
    count = math.prod(shape)
    most = round(10 * largest)
    return torch.tensor([rng.randint(-most, most) / 10 for _ in range(count)]).reshape(shape)


# 18.1 Attention with a prefix


def _attention(
    q: Tensor, k: Tensor, v: Tensor, prefix_k: Tensor, prefix_v: Tensor, mask: Tensor
) -> Tensor:
    """The reference: PyTorch's own attention over the longer keys and values, in float64."""
    keys, values = _longer(prefix_k, k), _longer(prefix_v, v)
    seen = functional.pad(mask, (prefix_k.shape[1], 0), value=True)
    return functional.scaled_dot_product_attention(
        q.double(), keys.double(), values.double(), attn_mask=seen
    )


def _longer(prefix: Tensor, sequence: Tensor, *, first: bool = True) -> Tensor:
    prefix = prefix.expand(len(sequence), *prefix.shape)
    return torch.cat([prefix, sequence] if first else [sequence, prefix], dim=2)


def _open(mask: Tensor, prefix: Tensor, *, first: bool = True) -> Tensor:
    """The mask with a True for each prefix token, in front or at the end."""
    n = prefix.shape[1]
    return functional.pad(mask, (n, 0) if first else (0, n), value=True)


def _weighed(scores: Tensor, seen: Tensor, values: Tensor) -> Tensor:
    return scores.masked_fill(~seen, -math.inf).softmax(-1) @ values


def _scores(q: Tensor, keys: Tensor, width: int | None = None) -> Tensor:
    return q.double() @ keys.double().mT / math.sqrt(width or q.shape[-1])


def _scaled_by(
    width: Callable[[Tensor, Tensor], float],
) -> Callable[..., Tensor]:
    """The right attention, its scores divided by the square root of something else."""

    def attention(
        q: Tensor, k: Tensor, v: Tensor, prefix_k: Tensor, prefix_v: Tensor, mask: Tensor
    ) -> Tensor:
        keys, values = _longer(prefix_k, k), _longer(prefix_v, v).double()
        scores = _scores(q, keys, width(q, keys))
        return _weighed(scores, _open(mask, prefix_k), values)

    return attention


def _with_mask(
    masked: Callable[[Tensor, Tensor], Tensor],
) -> Callable[..., Tensor]:
    """The right attention under another mask, (target, n + source), made of mask and prefix."""

    def attention(
        q: Tensor, k: Tensor, v: Tensor, prefix_k: Tensor, prefix_v: Tensor, mask: Tensor
    ) -> Tensor:
        keys, values = _longer(prefix_k, k), _longer(prefix_v, v).double()
        return _weighed(_scores(q, keys), masked(mask, prefix_k), values)

    return attention


def _of_parts(
    joined: Callable[[Tensor, Tensor], Tensor],
) -> Callable[..., Tensor]:
    """Attention over the prefix and over the sequence, each with a softmax of its own."""

    def attention(
        q: Tensor, k: Tensor, v: Tensor, prefix_k: Tensor, prefix_v: Tensor, mask: Tensor
    ) -> Tensor:
        of_prefix = _scores(q, prefix_k).softmax(-1) @ prefix_v.double()
        of_sequence = _weighed(_scores(q, k), mask, v.double())
        return joined(of_prefix, of_sequence)

    return attention


def _without_prefix(
    q: Tensor, k: Tensor, v: Tensor, prefix_k: Tensor, prefix_v: Tensor, mask: Tensor
) -> Tensor:
    return _weighed(_scores(q, k), mask, v.double())


def _in_the_queries(
    q: Tensor, k: Tensor, v: Tensor, prefix_k: Tensor, prefix_v: Tensor, mask: Tensor
) -> Tensor:
    n = prefix_k.shape[1]
    seen = functional.pad(mask, (n, 0, n, 0), value=True)
    values = _longer(prefix_v, v).double()
    return _weighed(_scores(_longer(prefix_k, q), _longer(prefix_k, k)), seen, values)


def _at_the_end_mask_in_front(
    q: Tensor, k: Tensor, v: Tensor, prefix_k: Tensor, prefix_v: Tensor, mask: Tensor
) -> Tensor:
    keys, values = _longer(prefix_k, k, first=False), _longer(prefix_v, v, first=False)
    return _weighed(_scores(q, keys), _open(mask, prefix_k), values.double())


def _swapped(
    q: Tensor, k: Tensor, v: Tensor, prefix_k: Tensor, prefix_v: Tensor, mask: Tensor
) -> Tensor:
    return _attention(q, k, v, prefix_v, prefix_k, mask)


def _keys_alone(
    q: Tensor, k: Tensor, v: Tensor, prefix_k: Tensor, prefix_v: Tensor, mask: Tensor
) -> Tensor:
    return _attention(q, k, v, prefix_k, torch.zeros_like(prefix_v), mask)


def _over_the_queries(
    q: Tensor, k: Tensor, v: Tensor, prefix_k: Tensor, prefix_v: Tensor, mask: Tensor
) -> Tensor:
    scores = _scores(q, _longer(prefix_k, k)).masked_fill(~_open(mask, prefix_k), -math.inf)
    return scores.softmax(-2) @ _longer(prefix_v, v).double()


def _masked_after_softmax(
    q: Tensor, k: Tensor, v: Tensor, prefix_k: Tensor, prefix_v: Tensor, mask: Tensor
) -> Tensor:
    weights = _scores(q, _longer(prefix_k, k)).softmax(-1)
    return (weights * _open(mask, prefix_k)) @ _longer(prefix_v, v).double()


def _masked_then_divided(
    q: Tensor, k: Tensor, v: Tensor, prefix_k: Tensor, prefix_v: Tensor, mask: Tensor
) -> Tensor:
    """In float32, where a weight beside a far larger one is 0."""
    weights = (q @ _longer(prefix_k, k).mT / math.sqrt(q.shape[-1])).softmax(-1)
    weights = weights * _open(mask, prefix_k)
    return (weights / weights.sum(-1, keepdim=True)) @ _longer(prefix_v, v)


def _with_scores(
    changed: Callable[[Tensor, Tensor], Tensor],
) -> Callable[..., Tensor]:
    """One softmax over scores that are changed where the mask is False."""

    def attention(
        q: Tensor, k: Tensor, v: Tensor, prefix_k: Tensor, prefix_v: Tensor, mask: Tensor
    ) -> Tensor:
        scores = changed(_scores(q, _longer(prefix_k, k)), _open(mask, prefix_k))
        return scores.softmax(-1) @ _longer(prefix_v, v).double()

    return attention


def _filled_with(number: float) -> Callable[..., Tensor]:
    """Scores that are masked become a number instead of minus infinity."""
    return _with_scores(lambda scores, seen: scores.masked_fill(~seen, number))


def _added(number: float) -> Callable[..., Tensor]:
    """A number is added to the scores that are masked."""
    return _with_scores(lambda scores, seen: scores + number * ~seen)


def _no_maximum(
    q: Tensor, k: Tensor, v: Tensor, prefix_k: Tensor, prefix_v: Tensor, mask: Tensor
) -> Tensor:
    """The formula of softmax as it stands, in float32."""
    weights = (q @ _longer(prefix_k, k).mT / math.sqrt(q.shape[-1])).exp()
    weights = weights * _open(mask, prefix_k)
    return (weights / weights.sum(-1, keepdim=True)) @ _longer(prefix_v, v)


def _causal(target: int, source: int) -> Tensor:
    return torch.ones(target, source, dtype=torch.bool).tril()


def _fresh_attention(rng: random.Random) -> Arguments:
    batch, heads, n = rng.randint(1, 2), 2, rng.randint(1, 2)
    target, source, width = rng.randint(2, 3), rng.randint(2, 3), 2
    mask = torch.tensor([[rng.random() < 0.6 for _ in range(source)] for _ in range(target)])
    for row in mask:
        row[rng.randrange(source)] = True
    return (
        _numbers(rng, batch, heads, target, width),
        _numbers(rng, batch, heads, source, width),
        _numbers(rng, batch, heads, source, width),
        _numbers(rng, heads, n, width),
        _numbers(rng, heads, n, width),
        mask,
    )


def _chosen_attention(
    batch: int,
    heads: int,
    target: int,
    source: int,
    n: int,
    mask: Tensor,
    scale: float = 2.0,
    width: int = 2,
) -> Arguments:
    rng = random.Random(1000 * batch + 100 * heads + 10 * target + source + n)
    return (
        _numbers(rng, batch, heads, target, width, largest=scale),
        _numbers(rng, batch, heads, source, width, largest=scale),
        _numbers(rng, batch, heads, source, width),
        _numbers(rng, heads, n, width, largest=scale),
        _numbers(rng, heads, n, width),
        mask,
    )


_ONE_HEAD = (
    torch.tensor([[[[0.0]]]]),
    torch.tensor([[[[5.0]]]]),
    torch.tensor([[[[4.0]]]]),
    torch.tensor([[[1.0]]]),
    torch.tensor([[[10.0]]]),
    torch.tensor([[True]]),
)


def _far_below_0(query: float, hidden: float) -> Arguments:
    """The first query sees two keys whose scores are -14 times itself, and not the hidden one."""
    return (
        torch.tensor([[[[query], [10.0]]]]),
        torch.tensor([[[[-14.0], [hidden]]]]),
        torch.tensor([[[[4.0], [7.0]]]]),
        torch.tensor([[[-14.0]]]),
        torch.tensor([[[9.0]]]),
        _causal(2, 2),
    )


_NO_PREFIX = (
    "Your result is attention without the prefix. Either it is not among the keys and values, or "
    "the mask hides it: the columns of the mask that belong to the prefix are True."
)

_NOT_INFINITE = (
    "Your masked scores are a number below 0. Where the scores of all other keys lie below it, "
    "what you wanted to hide gets all of the attention: use minus infinity."
)

_NOT_INFINITE_ADDED = (
    "You took a number away from the scores that are masked. Where what you wanted to hide has a "
    "score that is larger by more than that, it still gets all of the attention: use minus "
    "infinity."
)

_FINITE = (100, 1_000, 10_000, 100_000, 1_000_000)
"""What stands for infinity in many programs; a larger one passes here."""

PREFIX_ATTENTION = Exercise(
    id="18.1",
    title="Attention with a prefix",
    parameters=("q", "k", "v", "prefix_k", "prefix_v", "mask"),
    reference=_attention,
    chosen=(
        _ONE_HEAD,
        _chosen_attention(1, 2, 3, 3, 1, _causal(3, 3)),
        _chosen_attention(2, 2, 3, 3, 2, _causal(3, 3)),
        # Cross-attention: other lengths, and a source that is padded.
        _chosen_attention(1, 2, 2, 3, 1, torch.tensor([[True, True, False]] * 2)),
        _chosen_attention(1, 2, 2, 3, 2, torch.tensor([[False, True, True], [True, False, True]])),
        _chosen_attention(1, 1, 3, 2, 2, torch.tensor([[True, False], [False, True], [True] * 2])),
        # Scores so large that e to their power is no number of float32.
        _chosen_attention(1, 2, 2, 2, 1, _causal(2, 2), scale=20.0),
        # Heads that are not as wide as they are many.
        _chosen_attention(1, 2, 2, 2, 1, _causal(2, 2), width=3),
        # The hidden key has a score a little lower than the others, or by far the largest.
        *(_far_below_0(query, hidden=-15.0) for query in (20.0, 200.0, 2e3, 2e4, 2e5)),
        *(_far_below_0(query, hidden=15.0) for query in (20.0, 200.0, 2e3, 2e4, 2e5)),
    ),
    fresh=_fresh_attention,
    misconceptions=(
        Misconception("no_prefix", _NO_PREFIX, _without_prefix),
        Misconception(
            "prefix_in_the_queries",
            "You put the prefix before the queries too, and your result has a row for each of its "
            "tokens. Nobody asks what the prefix sees: it has keys and values alone.",
            _in_the_queries,
        ),
        Misconception(
            "scaled_by_d_model",
            "You divided by the square root of the whole width, heads times head_dim. Each head "
            "takes its own product over head_dim numbers: that is what the scale makes up for.",
            _scaled_by(lambda q, keys: q.shape[1] * q.shape[-1]),
        ),
        Misconception(
            "not_scaled",
            "Your scores are not divided by the square root of head_dim.",
            _scaled_by(lambda q, keys: 1),
        ),
        Misconception(
            "divided_without_the_root",
            "You divided the scores by head_dim. It is its square root.",
            _scaled_by(lambda q, keys: q.shape[-1] ** 2),
        ),
        Misconception(
            "scaled_by_the_length",
            "You divided by the square root of how many keys there are. The scale has nothing to "
            "do with the length: it is the square root of head_dim.",
            _scaled_by(lambda q, keys: keys.shape[2]),
        ),
        Misconception(
            "mask_extended_at_the_end",
            "The prefix stands in front of the keys, and you put its columns at the end of the "
            "mask. Each column then speaks of another key.",
            _with_mask(lambda mask, prefix: _open(mask, prefix, first=False)),
        ),
        Misconception(
            "prefix_at_the_end",
            "You put the prefix after the keys, and its columns in front of the mask. Each column "
            "then speaks of another key.",
            _at_the_end_mask_in_front,
        ),
        Misconception(
            "causal_over_prefix_and_sequence",
            "You used a causal mask over prefix and sequence, counted from the first key: the "
            "first token then sees one prefix token and nothing of itself. (is_causal=True of "
            "PyTorch does that.) Extend the mask that you are given.",
            _with_mask(
                lambda mask, prefix: _causal(mask.shape[0], mask.shape[1] + prefix.shape[1])
            ),
        ),
        Misconception(
            "mask_left_out",
            "You used no mask: every token sees all of the sequence, also what it may not.",
            _with_mask(lambda mask, prefix: torch.ones_like(_open(mask, prefix))),
        ),
        Misconception(
            "mask_the_other_way_round",
            "You hid the keys where the mask is True. Here True means that a token may look at a "
            "key. (PyTorch has both: True hides in nn.MultiheadAttention, and shows in "
            "scaled_dot_product_attention.)",
            _with_mask(lambda mask, prefix: _open(~mask, prefix)),
        ),
        Misconception(
            "hidden_where_the_mask_is_true",
            "You hid the keys where the mask is True, and the prefix with them. masked_fill fills "
            "where what it gets is True, and here True means that a query may look. A row of "
            "which all is hidden is nan.",
            _with_scores(lambda scores, seen: scores.masked_fill(seen, -math.inf)),
        ),
        Misconception(
            "zero_times_minus_infinity",
            "You multiplied minus infinity by the mask, and your result is nan: 0 times infinity "
            "is no number. masked_fill or torch.where choose instead of multiplying.",
            _with_scores(lambda scores, seen: scores + ~seen * -math.inf),
        ),
        Misconception(
            "mask_added_as_numbers",
            "You added the mask to the scores as it is, 1 for True and 0 for False. That favours "
            "the keys that may be seen a little, and hides none.",
            _with_scores(lambda scores, seen: scores + seen),
        ),
        Misconception(
            "causal_mask_of_its_own",
            "You made a causal mask instead of using the one that you are given. Which keys a "
            "query may look at is not the same everywhere: in an encoder it is all that are no "
            "padding.",
            _with_mask(lambda mask, prefix: _open(_causal(*mask.shape), prefix)),
        ),
        Misconception(
            "two_softmaxes_added",
            "You attended to the prefix and to the sequence apart, each with weights that sum to "
            "1, and added both. There is one softmax over all keys: what the prefix gets is taken "
            "from the sequence.",
            _of_parts(torch.add),
        ),
        Misconception(
            "two_softmaxes_averaged",
            "You attended to the prefix and to the sequence apart, and took the mean. Then the "
            "prefix has half of the attention, whatever its keys are. One softmax over all keys "
            "decides how much it gets.",
            _of_parts(lambda prefix, sequence: (prefix + sequence) / 2),
        ),
        Misconception(
            "keys_and_values_swapped",
            "You used the keys of the prefix as its values, and the values as its keys.",
            _swapped,
        ),
        Misconception(
            "values_of_the_prefix_left_out",
            "The prefix takes attention in your result and gives nothing back: its values are "
            "missing from the sum.",
            _keys_alone,
        ),
        Misconception(
            "softmax_over_the_queries",
            "Your softmax goes over the queries. The weights of one query, over all keys, sum "
            "to 1.",
            _over_the_queries,
        ),
        Misconception(
            "masked_after_the_softmax",
            "You set weights to 0 after the softmax. Those that are left no longer sum to 1: hide "
            "the scores before it.",
            _masked_after_softmax,
        ),
        Misconception(
            "masked_scores_are_0",
            "You set masked scores to 0. A score of 0 has the weight of e to the 0, which is 1, "
            "before softmax divides: hide a key with minus infinity.",
            _filled_with(0.0),
        ),
        Misconception(
            "masked_after_and_divided_again",
            "In your softmax the hidden keys still count, and you take them out afterwards. Where "
            "one of them has by far the largest score, nothing is left of the others in float32: "
            "you divide 0 by 0. Hide the scores first.",
            _masked_then_divided,
        ),
        *(
            Misconception(f"masked_scores_are_minus_{n}", _NOT_INFINITE, _filled_with(-n))
            for n in _FINITE
        ),
        *(Misconception(f"minus_{n}_is_added", _NOT_INFINITE_ADDED, _added(-n)) for n in _FINITE),
        Misconception(
            "formula_of_softmax_overflows",
            "Your numbers are right until the scores are large: then e to their power is no "
            "number of float32. PyTorch's softmax subtracts the largest score first.",
            _no_maximum,
        ),
    ),
    hints=(
        "What the prefix has is keys and values, like tokens that were read before. Where would "
        "such tokens stand in k and v, and do they change q?",
        "prefix_k has no batch: the same prefix serves every patient. expand makes (batch, heads, "
        "n, head_dim) of it without a copy; then torch.cat along the axis of the tokens.",
        "The mask needs n more columns, True, on the same side. Then it is attention as always: "
        "scores over the square root of head_dim, hidden where the mask is False, one softmax.",
    ),
    tolerance=FLOAT32,
)


# 18.2 Keys and values for each layer


def _per_layer(table: Tensor, n_layers: int, n_heads: int) -> Tensor:
    """The reference: every number by itself."""
    batch, n, width = table.shape
    head_dim = width // (2 * n_layers * n_heads)
    result = torch.zeros(n_layers, 2, batch, n_heads, n, head_dim)
    for row in range(batch):
        for token in range(n):
            for place in range(width):
                head, channel = divmod(place, head_dim)
                layer_and_side, head = divmod(head, n_heads)
                layer, side = divmod(layer_and_side, 2)
                result[layer, side, row, head, token, channel] = table[row, token, place]
    return result


def _viewed(
    order: str, axes: tuple[int, ...] | None = None
) -> Callable[[Tensor, int, int], Tensor]:
    """Read the table as axes in some order, and permute them."""

    def reshape(table: Tensor, n_layers: int, n_heads: int) -> Tensor:
        batch, n, width = table.shape
        sizes = {
            "B": batch,
            "n": n,
            "L": n_layers,
            "2": 2,
            "H": n_heads,
            "h": width // (2 * n_layers * n_heads),
        }
        result = table.reshape(*(sizes[axis] for axis in order))
        wanted = [order.index(axis) for axis in "L2BHnh"] if axes is None else axes
        return result.permute(*wanted)

    return reshape


def _as_axes(wanted: str) -> Callable[[Tensor, int, int], Tensor]:
    """Read the table rightly, and leave its axes in another order."""
    return _viewed("BnL2Hh", tuple("BnL2Hh".index(axis) for axis in wanted))


def _heads_by_reshape(table: Tensor, n_layers: int, n_heads: int) -> Tensor:
    batch, n, _ = table.shape
    sides = table.reshape(batch, n, n_layers, 2, -1).permute(2, 3, 0, 1, 4)
    return sides.reshape(n_layers, 2, batch, n_heads, n, -1)


def _fresh_table(rng: random.Random) -> Arguments:
    batch, n = rng.randint(1, 2), rng.randint(2, 3)
    n_layers, n_heads, head_dim = rng.randint(1, 2), rng.randint(1, 2), rng.randint(1, 2)
    values = rng.sample(range(100), batch * n * n_layers * 2 * n_heads * head_dim)
    return torch.tensor(values).float().reshape(batch, n, -1), n_layers, n_heads


def _counted(batch: int, n: int, n_layers: int, n_heads: int, head_dim: int) -> Arguments:
    shape = batch, n, n_layers * 2 * n_heads * head_dim
    return torch.arange(math.prod(shape)).float().reshape(shape), n_layers, n_heads


PER_LAYER = Exercise(
    id="18.2",
    title="Keys and values for each layer",
    parameters=("table", "n_layers", "n_heads"),
    reference=_per_layer,
    chosen=(
        (torch.tensor([[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]]), 1, 1),
        _counted(1, 2, 2, 2, 2),
        _counted(2, 3, 2, 2, 1),
        _counted(2, 2, 2, 2, 2),
        _counted(1, 3, 3, 1, 2),
        _counted(1, 1, 2, 2, 2),
    ),
    fresh=_fresh_table,
    misconceptions=(
        Misconception(
            "view_alone",
            "You gave the table the right shape by view or reshape alone. That keeps the numbers "
            "in the order in which they stand in memory, token after token, so tokens, layers and "
            "heads are mixed. Give each axis its place in the table first, then permute.",
            lambda table, n_layers, n_heads: table.reshape(
                n_layers, 2, len(table), n_heads, table.shape[1], -1
            ),
        ),
        Misconception(
            "view_as_the_document_has_it",
            "You read the table as (batch, layers, 2, heads, n, head_dim), and moved the batch. "
            "In the table the tokens come right after the batch: a row of it is one token, with "
            "everything that belongs to it.",
            _viewed("BL2Hnh"),
        ),
        Misconception(
            "all_keys_first",
            "You read a row as the keys of all layers and then their values. The layer comes "
            "first: keys and values of layer 0, keys and values of layer 1, and so on.",
            _viewed("Bn2LHh"),
        ),
        Misconception(
            "key_and_value_in_each_head",
            "You read a layer as heads, each with its key and its value. It is the keys of all "
            "heads first, then the values of all heads.",
            _viewed("BnLH2h"),
        ),
        Misconception(
            "heads_before_layers",
            "You read the head as the outermost part of a row. It is the innermost but one: "
            "layer, key or value, head, and the head's own numbers.",
            _viewed("BnHL2h"),
        ),
        Misconception(
            "channels_before_heads",
            "You took the numbers of a head apart: those that stand side by side belong to one "
            "head.",
            _viewed("BnL2hH"),
        ),
        Misconception(
            "tokens_inside_layers",
            "You read the table as (batch, layers, n, ...). A row of it is one token, with "
            "everything that belongs to it: the tokens come before the layers.",
            _viewed("BLn2Hh"),
        ),
        Misconception(
            "layers_outermost",
            "You read the table as if the layers stood outermost: all tokens of layer 0, then all "
            "of layer 1. A row of it is one token, with everything that belongs to it.",
            _viewed("L2BnHh"),
        ),
        Misconception(
            "heads_by_reshape",
            "Layers, keys and values are where they should be, and heads and tokens are mixed: "
            "you changed (n, d_model) into (heads, n, head_dim) by reshape or view. Split the "
            "heads off first, then exchange the axes.",
            _heads_by_reshape,
        ),
        Misconception(
            "values_first",
            "Your keys are the values and your values the keys: keys stand at place 0.",
            lambda table, n_layers, n_heads: _per_layer(table, n_layers, n_heads).flip(1),
        ),
        Misconception(
            "tokens_before_heads",
            "Your last axes are tokens, heads, head_dim. Attention multiplies queries and keys "
            "head by head, so the heads stand before the tokens.",
            _as_axes("L2BnHh"),
        ),
        Misconception(
            "keys_transposed",
            "Your last axes are head_dim and tokens. That is how keys enter the product with the "
            "queries; the attention transposes them itself.",
            _as_axes("L2BHhn"),
        ),
        Misconception(
            "batch_first",
            "Your numbers stand together as they should, with the batch first. Each layer takes "
            "its own part, so the layer comes first.",
            _as_axes("BL2Hnh"),
        ),
        Misconception(
            "key_and_value_first",
            "Your first axis is key or value, and your second the layer. It is the other way "
            "round.",
            _as_axes("2LBHnh"),
        ),
    ),
    hints=(
        "A row of the table is one token of the prefix. Say in which order its numbers stand: "
        "layer, key or value, head, and within the head.",
        "First split the last axis into these four, without moving a number: reshape(batch, n, "
        "...). Then the axes are right, only their order is not.",
        "permute reorders axes and moves the numbers with them. Which axis has to come first?",
    ),
)


# 18.3 Count what is trained

Counts = tuple[int, int, int]


@cache
def _counts(n_tokens: int, n_layers: int, d_model: int, d_hidden: int) -> Counts:
    """The reference: the modules themselves, without memory."""
    with torch.device("meta"):
        prompt = nn.Embedding(n_tokens, d_model)
        prefix = nn.Embedding(n_tokens, n_layers * 2 * d_model)
        projected = nn.ModuleList(
            [
                nn.Embedding(n_tokens, d_model),
                nn.Linear(d_model, d_hidden),
                nn.Linear(d_hidden, n_layers * 2 * d_model),
            ]
        )
    return tuple(
        sum(p.numel() for p in module.parameters()) for module in (prompt, prefix, projected)
    )


def _counting(
    projected: Callable[[int, int, int, int], int],
) -> Callable[[int, int, int, int], Counts]:
    """The right prompt and prefix, and another number for the projection."""

    def counts(n_tokens: int, n_layers: int, d_model: int, d_hidden: int) -> Counts:
        prompt, prefix, _ = _counts(n_tokens, n_layers, d_model, d_hidden)
        return prompt, prefix, projected(n_tokens, n_layers, d_model, d_hidden)

    return counts


def _keys_only(n: int, layers: int, d: int, h: int) -> Counts:
    return n * d, n * layers * d, n * d + d * h + h + h * layers * d + layers * d


def _prompt_in_every_layer(n: int, layers: int, d: int, h: int) -> Counts:
    _, prefix, projected = _counts(n, layers, d, h)
    return n * layers * d, prefix, projected


def _prefix_of_one_layer(n: int, layers: int, d: int, h: int) -> Counts:
    return n * d, n * 2 * d, n * d + d * h + h + h * 2 * d + 2 * d


_BIAS = "Each linear layer has a bias as long as its output, and it is trained like the weights."

COUNTS = Exercise(
    id="18.3",
    title="Count what is trained",
    parameters=("n_tokens", "n_layers", "d_model", "d_hidden"),
    reference=_counts,
    chosen=(
        (2, 3, 4, 5),
        (20, 32, 4096, 512),
        (20, 32, 4096, 19),
        (1, 1, 1, 1),
        (20, 2, 96, 32),
        (5, 6, 7, 8),
        # An odd number that float32 does not have.
        (21, 32, 4097, 511),
    ),
    fresh=lambda rng: (
        rng.randint(1, 30),
        rng.randint(1, 12),
        rng.choice((8, 12, 64, 96, 768)),
        rng.randint(1, 64),
    ),
    misconceptions=(
        Misconception(
            "no_biases",
            f"Your projection has no biases. {_BIAS}",
            _counting(lambda n, layers, d, h: n * d + d * h + h * 2 * layers * d),
        ),
        Misconception(
            "no_bias_of_the_output",
            f"The bias of the second linear layer is missing. {_BIAS}",
            _counting(lambda n, layers, d, h: n * d + d * h + h + h * 2 * layers * d),
        ),
        Misconception(
            "no_bias_of_the_hidden_layer",
            f"The bias of the first linear layer is missing. {_BIAS}",
            _counting(lambda n, layers, d, h: n * d + d * h + h * 2 * layers * d + 2 * layers * d),
        ),
        Misconception(
            "biases_as_long_as_the_inputs",
            f"Your biases are as long as the inputs of their layers. {_BIAS}",
            _counting(lambda n, layers, d, h: n * d + d * h + d + h * 2 * layers * d + h),
        ),
        Misconception(
            "keys_only",
            "You counted one vector for each token and layer. There are two: a key and a value.",
            _keys_only,
        ),
        Misconception(
            "prompt_in_every_layer",
            "You counted the prompt for every layer. It stands before the first one alone, among "
            "the embeddings.",
            _prompt_in_every_layer,
        ),
        Misconception(
            "prefix_of_one_layer",
            "You counted the prefix of one layer. Every layer has keys and values of its own.",
            _prefix_of_one_layer,
        ),
        Misconception(
            "table_left_out",
            "You counted the two linear layers. What they read is trained as well: a table with a "
            "vector of d_model numbers for each token.",
            _counting(lambda n, layers, d, h: d * h + h + h * 2 * layers * d + 2 * layers * d),
        ),
        Misconception(
            "both_tables",
            "You counted the table of the direct prefix with the projection. It has a table of "
            "its own, n_tokens by d_model, and makes the rest.",
            _counting(
                lambda n, layers, d, h: (
                    n * 2 * layers * d + d * h + h + h * 2 * layers * d + 2 * layers * d
                )
            ),
        ),
        Misconception(
            "first_layer_reads_the_wide_table",
            "Your first linear layer reads a table as wide as the prefix. It reads a narrow one, "
            "d_model numbers for each token: the network makes the wide one.",
            _counting(
                lambda n, layers, d, h: (
                    n * 2 * layers * d
                    + 2 * layers * d * h
                    + h
                    + h * 2 * layers * d
                    + 2 * layers * d
                )
            ),
        ),
        Misconception(
            "two_attentions_in_each_layer",
            "You counted two prefixes for each layer, as for a decoder that attends to itself and "
            "to an encoder. Here it is one: keys and values in every layer.",
            lambda n, layers, d, h: _counts(n, 2 * layers, d, h),
        ),
        Misconception(
            "all_three_tables",
            "You counted the table of the direct prefix on top of the projection's own. The "
            "projection makes those numbers: they are no parameters.",
            _counting(
                lambda n, layers, d, h: (
                    n * d + n * 2 * layers * d + d * h + h + h * 2 * layers * d + 2 * layers * d
                )
            ),
        ),
        Misconception(
            "after_folding",
            "Your third number is what is left after training, when the projection is folded "
            "away. While it trains, its table and both layers are parameters.",
            _counting(lambda n, layers, d, h: n * 2 * layers * d),
        ),
        Misconception(
            "a_projection_for_each_token",
            "You counted the projection once for each token. All tokens go through the same one.",
            _counting(
                lambda n, layers, d, h: n * (d + d * h + h + h * 2 * layers * d + 2 * layers * d)
            ),
        ),
        Misconception(
            "a_projection_for_each_layer",
            "You counted a projection of its own for each layer. There is one, and its output has "
            "the numbers of all layers side by side.",
            _counting(lambda n, layers, d, h: n * d + layers * (d * h + h + h * 2 * d + 2 * d)),
        ),
        Misconception(
            "output_as_wide_as_the_model",
            "Your second linear layer has d_model outputs. It makes a key and a value for every "
            "layer: 2 * n_layers * d_model numbers.",
            _counting(lambda n, layers, d, h: n * d + d * h + h + h * d + d),
        ),
        Misconception(
            "order_of_the_three",
            "The numbers are right and stand in another order: prompt, prefix, projected prefix.",
            lambda n, layers, d, h: tuple(_counts(n, layers, d, h)[i] for i in (0, 2, 1)),
        ),
    ),
    hints=(
        "A prompt is n_tokens vectors. A prefix is a key and a value, for each token and layer.",
        "A linear layer from a to b numbers has a * b weights and b biases. From what to what do "
        "the two of the projection go, and what does the first one read?",
    ),
)


# 18.4 Fold the projection away


def _fold(table: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> tuple[Tensor, int]:
    """The reference: the modules of PyTorch, in float64."""
    first, second = nn.Linear(*w1.T.shape), nn.Linear(*w2.T.shape)
    project = nn.Sequential(first, nn.Tanh(), second).double()
    with torch.no_grad():
        for layer, weight, bias in ((first, w1, b1), (second, w2, b2)):
            layer.weight.copy_(weight)
            layer.bias.copy_(bias)
        folded = project(table.double())
    return folded, folded.numel()


def _folded_by(
    compute: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor],
) -> Callable[..., tuple[Tensor, int]]:
    """Another table, and how many numbers it has."""

    def fold(table: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor) -> tuple[Tensor, int]:
        folded = compute(*(t.double() for t in (table, w1, b1, w2, b2)))
        return folded, folded.numel()

    return fold


def _with_count(
    count: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], int],
) -> Callable[..., tuple[Tensor, int]]:
    """The right table, and another number of parameters."""
    return lambda *arguments: (_fold(*arguments)[0], count(*arguments))


def _fresh_projection(rng: random.Random) -> Arguments:
    n, d, h, width = rng.randint(1, 3), rng.randint(1, 3), rng.randint(1, 3), rng.choice((2, 4))
    return _projection(rng, n, d, h, width)


def _projection(rng: random.Random, n: int, d: int, h: int, width: int) -> Arguments:
    shapes = (n, d), (h, d), (h,), (width, h), (width,)
    return tuple(_numbers(rng, *shape, largest=1.5) for shape in shapes)


_EXAMPLE = tuple(
    torch.tensor(values)
    for values in ([[1.0], [-1.0]], [[0.5]], [0.5], [[2.0], [1.0]], [0.0, 1.0])
)

FOLD = Exercise(
    id="18.4",
    title="Fold the projection away",
    parameters=("table", "w1", "b1", "w2", "b2"),
    reference=_fold,
    chosen=(
        _EXAMPLE,
        _projection(random.Random(1), 2, 3, 2, 4),
        _projection(random.Random(2), 3, 2, 2, 4),
        _projection(random.Random(3), 2, 2, 2, 2),
        _projection(random.Random(4), 1, 2, 3, 4),
        _projection(random.Random(5), 3, 1, 3, 2),
    ),
    fresh=_fresh_projection,
    misconceptions=(
        Misconception(
            "without_tanh",
            "You multiplied the two layers together. Between them stands tanh, so they are not "
            "one linear layer: put the table through all three steps.",
            _folded_by(lambda table, w1, b1, w2, b2: (table @ w1.T + b1) @ w2.T + b2),
        ),
        Misconception(
            "without_the_first_bias",
            "The bias of the first layer is missing: it is added before tanh.",
            _folded_by(lambda table, w1, b1, w2, b2: (table @ w1.T).tanh() @ w2.T + b2),
        ),
        Misconception(
            "without_the_second_bias",
            "The bias of the second layer is missing. Every row of the folded table has it in it.",
            _folded_by(lambda table, w1, b1, w2, b2: (table @ w1.T + b1).tanh() @ w2.T),
        ),
        Misconception(
            "without_biases",
            "Both biases are missing. They are part of the projection, and fold away with it.",
            _folded_by(lambda table, w1, b1, w2, b2: (table @ w1.T).tanh() @ w2.T),
        ),
        Misconception(
            "bias_after_tanh",
            "You added the first bias after tanh. It belongs to the first layer, before it.",
            _folded_by(lambda table, w1, b1, w2, b2: ((table @ w1.T).tanh() + b1) @ w2.T + b2),
        ),
        Misconception(
            "tanh_at_the_end",
            "You applied tanh after the second layer, so all numbers lie between -1 and 1. It "
            "stands between the layers.",
            _folded_by(lambda table, w1, b1, w2, b2: ((table @ w1.T + b1) @ w2.T + b2).tanh()),
        ),
        Misconception(
            "tanh_twice",
            "You applied tanh after both layers. It stands between them alone.",
            _folded_by(
                lambda table, w1, b1, w2, b2: ((table @ w1.T + b1).tanh() @ w2.T + b2).tanh()
            ),
        ),
        Misconception(
            "tanh_of_the_table",
            "You applied tanh to the table, before the first layer. It stands between the layers.",
            _folded_by(lambda table, w1, b1, w2, b2: (table.tanh() @ w1.T + b1) @ w2.T + b2),
        ),
        Misconception(
            "relu_for_tanh",
            "You used relu. This projection has tanh between its layers.",
            _folded_by(lambda table, w1, b1, w2, b2: (table @ w1.T + b1).relu() @ w2.T + b2),
        ),
        Misconception(
            "mean_of_the_tokens",
            "All rows of yours are the same: the mean over the tokens. Every token of the prefix "
            "has a row of its own.",
            _folded_by(
                lambda table, w1, b1, w2, b2: (
                    ((table @ w1.T + b1).tanh() @ w2.T + b2)
                    .mean(0, keepdim=True)
                    .repeat(len(table), 1)
                )
            ),
        ),
        Misconception(
            "transposed",
            "Your table has a column for each token. A row is one token.",
            _folded_by(lambda table, w1, b1, w2, b2: ((table @ w1.T + b1).tanh() @ w2.T + b2).T),
        ),
        Misconception(
            "first_weight_not_transposed",
            "You multiplied with w1 as it stands. PyTorch's linear layers keep their weight as "
            "(outputs, inputs) and multiply with its transpose. Where both are equal nothing "
            "raises, and the numbers are wrong.",
            _folded_by(lambda table, w1, b1, w2, b2: (table @ w1 + b1).tanh() @ w2.T + b2),
        ),
        Misconception(
            "weights_not_transposed",
            "You multiplied with w1 and w2 as they stand. PyTorch's linear layers keep their "
            "weight as (outputs, inputs) and multiply with its transpose. Where both are equal "
            "nothing raises, and the numbers are wrong.",
            _folded_by(lambda table, w1, b1, w2, b2: (table @ w1 + b1).tanh() @ w2 + b2),
        ),
        Misconception(
            "weights_reshaped",
            "You gave the weights the shape (inputs, outputs) by reshape or view. That keeps the "
            "numbers in their order: rows do not become columns. Transpose them.",
            _folded_by(
                lambda table, w1, b1, w2, b2: (
                    (table @ w1.reshape(w1.shape[1], -1) + b1).tanh() @ w2.reshape(w2.shape[1], -1)
                    + b2
                )
            ),
        ),
        Misconception(
            "projection_counted_too",
            "Your table is right, and your count has the projection and its own table in it. Once "
            "the table is folded nobody needs them: they are not stored.",
            _with_count(
                lambda table, w1, b1, w2, b2: (
                    sum(t.numel() for t in (table, w1, b1, w2, b2)) + len(table) * len(b2)
                )
            ),
        ),
        Misconception(
            "layers_counted_too",
            "Your table is right, and your count has the two layers in it. Once the table is "
            "folded nobody needs them: they are not stored.",
            _with_count(
                lambda table, w1, b1, w2, b2: (
                    sum(t.numel() for t in (w1, b1, w2, b2)) + len(table) * len(b2)
                )
            ),
        ),
        Misconception(
            "projection_counted",
            "Your table is right, and your count is that of before: table and projection. What is "
            "left is the folded table.",
            _with_count(lambda *arguments: sum(t.numel() for t in arguments)),
        ),
        Misconception(
            "old_table_counted",
            "Your table is right, and you counted the one that the projection read. What is left "
            "is the folded one, which is wider.",
            _with_count(lambda table, w1, b1, w2, b2: table.numel()),
        ),
        Misconception(
            "rows_counted",
            "Your table is right, and you counted its rows. Each number in it is a parameter.",
            _with_count(lambda table, w1, b1, w2, b2: len(table)),
        ),
    ),
    hints=(
        "After training, nothing that the projection reads changes any more. What does it make of "
        "each row of the table?",
        "First layer, tanh, second layer. A weight has the shape (outputs, inputs); "
        "nn.functional.linear(x, weight, bias) multiplies as nn.Linear does.",
        "How many numbers has what you return? Nothing else has to be stored.",
    ),
    tolerance=1e-5,
)


# 18.5 Which method wins

Row = tuple[str, int, int, float]
Comparison = tuple[dict[str, tuple[float, float, float]], list[str]]


def _losses(rows: Sequence[Row]) -> dict[str, dict[int, float]]:
    """The loss of each method by its seed, methods in the order of their first row."""
    found: dict[str, dict[int, float]] = {}
    for method, _, seed, loss in rows:
        found.setdefault(method, {})[seed] = loss
    return found


def _trained(rows: Sequence[Row]) -> dict[str, int]:
    return {method: trained for method, trained, _, _ in rows}


def _spread(rows: Sequence[Row]) -> dict[str, tuple[float, float, float]]:
    return {
        method: (min(losses.values()), statistics.median(losses.values()), max(losses.values()))
        for method, losses in _losses(rows).items()
    }


Beats = Callable[[dict[int, float], dict[int, float]], bool]


def _lower_everywhere(one: dict[int, float], other: dict[int, float]) -> bool:
    return all(one[seed] < other[seed] for seed in other)


def _comparing(
    beats: Beats,
    *,
    spread: Callable[[Sequence[Row]], dict] = _spread,
    order: Callable[[Sequence[Row], str], float] | None = None,
    keep: Callable[[bool, bool], bool] = lambda is_beaten, beats_all: not is_beaten,
) -> Callable[[Sequence[Row]], Comparison]:
    """The methods that are kept when two are compared by `beats`.

    Args:
        beats: whether the first beats the second.
        spread: what is said of each method.
        order: the key by which the methods are sorted; trained parameters by default.
        keep: from whether a method is beaten by one, and beats all others, whether it stays.
    """

    def compare(rows: Sequence[Row]) -> Comparison:
        losses, trained = _losses(rows), _trained(rows)
        kept = [
            method
            for method in losses
            if keep(
                any(beats(losses[o], losses[method]) for o in losses if o != method),
                all(beats(losses[method], losses[o]) for o in losses if o != method),
            )
        ]
        key = (lambda m: trained[m]) if order is None else (lambda m: order(rows, m))
        return spread(rows), sorted(kept, key=key)

    return compare


_compare = _comparing(_lower_everywhere)


def _best_by(
    value: Callable[[Sequence[float]], float],
) -> Callable[[Sequence[Row]], Comparison]:
    """The one method whose losses have the smallest such value."""

    def compare(rows: Sequence[Row]) -> Comparison:
        losses = _losses(rows)
        return _spread(rows), [min(losses, key=lambda method: value([*losses[method].values()]))]

    return compare


def _said(
    middle: Callable[[Sequence[float]], float],
) -> Callable[[Sequence[Row]], Comparison]:
    """The right methods, and another number in the middle of each spread."""

    def spread(rows: Sequence[Row]) -> dict[str, tuple[float, float, float]]:
        return {
            method: (min(losses.values()), middle([*losses.values()]), max(losses.values()))
            for method, losses in _losses(rows).items()
        }

    return _comparing(_lower_everywhere, spread=spread)


def _in_order_of_rows(one: dict[int, float], other: dict[int, float]) -> bool:
    return all(a < b for a, b in zip(one.values(), other.values(), strict=True))


def _sorted(one: dict[int, float], other: dict[int, float]) -> bool:
    return all(a < b for a, b in zip(sorted(one.values()), sorted(other.values()), strict=True))


def _mostly(one: dict[int, float], other: dict[int, float]) -> bool:
    return sum(one[seed] < other[seed] for seed in other) > len(other) / 2


def _middle_first(rows: Sequence[Row]) -> dict[str, tuple[float, float, float]]:
    return {m: (middle, low, high) for m, (low, middle, high) in _spread(rows).items()}


def _weakly(one: dict[int, float], other: dict[int, float]) -> bool:
    pairs = [(one[seed], other[seed]) for seed in other]
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def _lower_in_three_numbers(one: dict[int, float], other: dict[int, float]) -> bool:
    numbers = (min, statistics.median, max)
    return all(number(one.values()) < number(other.values()) for number in numbers)


def _best_with_some_seed(rows: Sequence[Row]) -> Comparison:
    losses, trained = _losses(rows), _trained(rows)
    lowest = {seed: min(of[seed] for of in losses.values()) for _, _, seed, _ in rows}
    kept = [m for m, of in losses.items() if any(of[seed] == lowest[seed] for seed in of)]
    return _spread(rows), sorted(kept, key=trained.get)


def _unbeaten_by_cheaper(rows: Sequence[Row]) -> Comparison:
    losses, trained = _losses(rows), _trained(rows)
    kept = [
        method
        for method in losses
        if not any(
            trained[other] < trained[method] and _lower_everywhere(losses[other], losses[method])
            for other in losses
        )
    ]
    return _spread(rows), sorted(kept, key=trained.get)


def _unbeaten_by_the_best(rows: Sequence[Row]) -> Comparison:
    losses, trained = _losses(rows), _trained(rows)
    best = min(losses, key=lambda method: statistics.median(losses[method].values()))
    kept = [m for m in losses if not _lower_everywhere(losses[best], losses[m])]
    return _spread(rows), sorted(kept, key=trained.get)


_METHODS = {"nothing": 0, "prompt": 40, "prefix": 160, "projected": 900, "full": 5000}


def _table(
    losses: dict[str, Sequence[float]],
    order: Sequence[tuple[str, int]] | None = None,
    *,
    seeds: Sequence[int] = (0, 1, 2, 3),
) -> Arguments:
    """Rows of methods with one loss for each seed, in the order that is given."""
    places = order or [(m, place) for place in range(4) for m in losses if place < len(losses[m])]
    return ([(m, _METHODS[m], seeds[place], losses[m][place]) for m, place in places],)


def _fresh_results(rng: random.Random) -> Arguments:
    methods = rng.sample([*_METHODS], rng.randint(2, 4))
    n_seeds = rng.randint(2, 4)
    effect = {method: rng.choice((0, 5, 10, 20)) for method in methods}
    of_seed = {seed: rng.randint(0, 30) for seed in rng.sample(range(50), n_seeds)}
    while True:
        hundredths = {
            method: [
                200 + effect[method] + extra + rng.randint(0, 8) for extra in of_seed.values()
            ]
            for method in methods
        }
        # Equal means would differ by the rounding of their sums.
        if len({sum(losses) for losses in hundredths.values()}) == len(methods):
            break
    rows = [
        (method, _METHODS[method], seed, loss / 100)
        for method in methods
        for seed, loss in zip(of_seed, hundredths[method], strict=True)
    ]
    rng.shuffle(rows)
    return (rows,)


WINS = Exercise(
    id="18.5",
    title="Which method wins",
    parameters=("rows",),
    reference=_compare,
    chosen=(
        (
            [
                ("full", 500, 0, 2.3),
                ("prefix", 80, 0, 2.4),
                ("prefix", 80, 1, 2.5),
                ("full", 500, 1, 2.6),
            ],
        ),
        # The seeds are harder or easier; with each of them "prefix" is a little better.
        _table({"full": (2.31, 2.62, 2.45), "prefix": (2.28, 2.6, 2.4)}),
        # The same in an order that pairs other seeds.
        _table(
            {"full": (2.31, 2.62, 2.45), "prefix": (2.28, 2.6, 2.4)},
            [("full", s) for s in (0, 2, 1)] + [("prefix", s) for s in (1, 0, 2)],
        ),
        # Better in order of size and not seed by seed.
        _table({"full": (2.3, 2.5, 2.7), "prefix": (2.6, 2.2, 2.4)}),
        # A tie in one seed.
        _table({"prompt": (2.4, 2.5), "prefix": (2.4, 2.3)}),
        # "projected" beats "prompt" and nobody beats "full", whose seeds differ most.
        _table(
            {
                "full": (2.2, 2.7, 2.35, 2.9),
                "projected": (2.5, 2.4, 2.3, 2.45),
                "prefix": (2.45, 2.6, 2.4, 2.3),
                "prompt": (2.55, 2.5, 2.35, 2.6),
            }
        ),
        # One winner; it is neither the cheapest nor the one with the most parameters.
        _table({"prompt": (2.5, 2.7), "prefix": (2.3, 2.4), "full": (2.4, 2.6)}),
        # All alike in every seed.
        _table({"prompt": (2.5, 2.4), "full": (2.5, 2.4)}),
        # The lowest mean and the lowest median belong to two methods.
        _table({"prompt": (2.4, 2.4, 3.4), "prefix": (2.5, 2.5, 2.5), "full": (2.45, 2.6, 2.3)}),
        # Lowest, median and highest are lower, and the second lowest is not.
        _table({"prompt": (2.2, 2.25, 2.5, 2.7), "prefix": (2.1, 2.3, 2.3, 2.6)}),
        # Seeds are names, not places.
        _table({"prefix": (2.3, 2.5, 2.4), "full": (2.2, 2.4, 2.3)}, seeds=(7, 42, 3)),
        # With the first row, or the lowest number of a seed, another one is better.
        _table({"prefix": (2.3, 2.5), "full": (2.2, 2.61)}, seeds=(12, 5)),
        # One difference is in the fourth decimal.
        _table({"prefix": (2.49, 2.50676), "prompt": (2.49637, 2.50661)}),
        # Nothing trained is no number of parameters that is missing.
        _table({"full": (2.4, 2.7), "nothing": (2.5, 2.5)}),
        _table({"prefix": (2.4,)}),
        # "prefix" beats "prompt". The lowest mean, median and loss are those of "full", which
        # beats neither.
        _table({"prompt": (2.5, 2.6, 2.5), "prefix": (2.4, 2.5, 2.4), "full": (2.2, 2.7, 2.2)}),
    ),
    fresh=_fresh_results,
    misconceptions=(
        Misconception(
            "best_single_seed",
            "You named the method of the smallest loss. With one more seed another one may have "
            "it: a method that differs most from seed to seed has the best chance.",
            _best_by(min),
        ),
        Misconception(
            "lowest_mean",
            "You named the method with the lowest mean. Some method always has it, also where all "
            "are alike: look whether it is better with every seed.",
            _best_by(statistics.fmean),
        ),
        Misconception(
            "lowest_median",
            "You named the method with the lowest median. Some method always has it, also where "
            "all are alike: look whether it is better with every seed.",
            _best_by(statistics.median),
        ),
        Misconception(
            "higher_is_better",
            "You kept the methods with the higher losses. A loss is better when it is lower.",
            _comparing(lambda one, other: _lower_everywhere(other, one)),
        ),
        Misconception(
            "ranges_apart",
            "For you a method wins when its worst seed is better than the best of the other. Some "
            "seeds are harder than others, for all methods: compare seed with the same seed.",
            _comparing(lambda one, other: max(one.values()) < min(other.values())),
        ),
        Misconception(
            "seeds_in_the_order_of_the_rows",
            "You compared the losses in the order in which they stand in the table. The seeds do "
            "not stand in the same order for all methods: look them up.",
            _comparing(_in_order_of_rows),
        ),
        Misconception(
            "sorted_losses",
            "You sorted the losses before you compared them: smallest with smallest. Those come "
            "from different seeds.",
            _comparing(_sorted),
        ),
        Misconception(
            "most_seeds",
            "For you a method beats another when it is better with most seeds. Here it has to be "
            "with every one: two of three happens by chance half of the time.",
            _comparing(_mostly),
        ),
        Misconception(
            "any_seed",
            "For you a method beats another as soon as one seed says so. Then two can beat each "
            "other: it has to be every seed.",
            _comparing(lambda one, other: any(one[seed] < other[seed] for seed in other)),
        ),
        Misconception(
            "ties_beat",
            "For you an equal loss beats another. Two methods that are alike would beat each "
            "other: it has to be lower.",
            _comparing(lambda one, other: all(one[seed] <= other[seed] for seed in other)),
        ),
        Misconception(
            "equal_in_one_seed",
            "For you a method beats another when it is never worse and better with one seed. It "
            "has to be lower with every seed: an equal loss is not lower.",
            _comparing(_weakly),
        ),
        Misconception(
            "mean_decides",
            "For you a method beats another when its mean is lower. One bad seed can decide "
            "that: look whether it is better with every seed.",
            _comparing(
                lambda one, other: (
                    statistics.fmean(one.values()) < statistics.fmean(other.values())
                )
            ),
        ),
        Misconception(
            "median_decides",
            "For you a method beats another when its median is lower. That says nothing of the "
            "other seeds: look whether it is better with every one.",
            _comparing(
                lambda one, other: (
                    statistics.median(one.values()) < statistics.median(other.values())
                )
            ),
        ),
        Misconception(
            "three_numbers_decide",
            "For you a method beats another when its lowest, median and highest loss are all "
            "lower. Those come from different seeds: compare seed with the same seed.",
            _comparing(_lower_in_three_numbers),
        ),
        Misconception(
            "best_with_some_seed",
            "You kept the methods that are the best of all with some seed. A method that is "
            "second everywhere may be beaten by no single one: compare two at a time.",
            _best_with_some_seed,
        ),
        Misconception(
            "compared_with_the_best_alone",
            "You compared each method with the one of the lowest median alone. Another one may "
            "beat it: compare every two.",
            _unbeaten_by_the_best,
        ),
        Misconception(
            "only_cheaper_ones_beat",
            "You looked only at methods that train fewer parameters. One that trains more beats "
            "others too: the count decides the order of the list and nothing else.",
            _unbeaten_by_cheaper,
        ),
        Misconception(
            "has_to_beat_all",
            "You kept a method only if it beats all others. Where no one does, your list is empty "
            "and hides which ones were beaten: keep all that no other one beats.",
            _comparing(_lower_everywhere, keep=lambda is_beaten, beats_all: beats_all),
        ),
        Misconception(
            "the_beaten_ones",
            "You returned the methods that are beaten. The others were asked for.",
            _comparing(_lower_everywhere, keep=lambda is_beaten, beats_all: is_beaten),
        ),
        Misconception(
            "most_parameters_first",
            "Your list begins with the method that trains most. Where the losses cannot decide, "
            "the one that trains fewest parameters comes first.",
            _comparing(_lower_everywhere, order=lambda rows, m: -_trained(rows)[m]),
        ),
        Misconception(
            "in_the_order_of_the_rows",
            "Your list is in the order of the table. The method that trains fewest parameters "
            "comes first.",
            _comparing(_lower_everywhere, order=lambda rows, m: 0),
        ),
        Misconception(
            "lowest_median_first",
            "Your list is in the order of the losses. None of these methods beats another, so "
            "the one that trains fewest parameters comes first.",
            _comparing(_lower_everywhere, order=lambda rows, m: _spread(rows)[m][1]),
        ),
        Misconception(
            "by_name",
            "Your list is in the order of the alphabet. The method that trains fewest parameters "
            "comes first.",
            _comparing(_lower_everywhere, order=lambda rows, m: sorted(_trained(rows)).index(m)),
        ),
        Misconception(
            "mean_for_the_median",
            "Your middle number is the mean. The median was asked for: one bad seed does not "
            "move it.",
            _said(statistics.fmean),
        ),
        Misconception(
            "middle_of_the_range",
            "Your middle number is half-way between the lowest and the highest loss. The median "
            "is the loss with as many above it as below.",
            _said(lambda losses: (min(losses) + max(losses)) / 2),
        ),
        Misconception(
            "upper_of_the_middle_two",
            "With an even number of seeds you took the upper of the two in the middle. The median "
            "is the mean of both.",
            _said(statistics.median_high),
        ),
        Misconception(
            "lower_of_the_middle_two",
            "With an even number of seeds you took the lower of the two in the middle. The median "
            "is the mean of both.",
            _said(statistics.median_low),
        ),
        Misconception(
            "middle_row",
            "Your median depends on the order of the rows: sort the losses first.",
            _said(lambda losses: (losses[(len(losses) - 1) // 2] + losses[len(losses) // 2]) / 2),
        ),
        Misconception(
            "median_first",
            "Your numbers are right and stand in another order: lowest, median, highest.",
            _comparing(_lower_everywhere, spread=_middle_first),
        ),
    ),
    hints=(
        "Collect the losses first: a dictionary for each method, with the loss of each seed.",
        "One method beats another when its loss is lower with every seed. Write that as a "
        "function of two of your dictionaries; all(...) helps.",
        "Then keep every method for which no other one beats it, and sort by trained parameters.",
    ),
)


EXERCISES = (PREFIX_ATTENTION, PER_LAYER, COUNTS, FOLD, WINS)
