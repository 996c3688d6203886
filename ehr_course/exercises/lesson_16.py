"""The exercises of lesson 16: the pointer-generator."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from ehr_course.exercises.exercise import Arguments, Exercise, Misconception

FLOAT32 = 1e-4
"""The tolerance of values that come from a few products in float32."""

UNK = 0


def _numbers(rng: random.Random, *shape: int, up_to: int = 20) -> Tensor:
    """Numbers with one decimal, from minus to plus up_to tenths: short in a message."""
    values = [rng.randint(-up_to, up_to) / 10 for _ in range(math.prod(shape))]
    return torch.tensor(values).reshape(shape)


def _shares(rng: random.Random, rows: int, n: int, *, of: int = 20) -> Tensor:
    """Rows of n probabilities of two decimals, none of them 0."""
    made = []
    for _ in range(rows):
        cuts = sorted(rng.sample(range(1, of), n - 1))
        made.append([(b - a) / of for a, b in zip([0, *cuts], [*cuts, of], strict=True)])
    return torch.tensor(made)


def _prefix_mask(rng: random.Random, batch: int, source: int) -> Tensor:
    """An attention mask (batch, source): rows of several lengths, 1 or more."""
    return torch.tensor(
        [
            [int(i < n) for i in range(source)]
            for n in (rng.randint(1, source) for _ in range(batch))
        ]
    )


# 16.1 Additive attention


def _attention(
    query: Tensor, states: Tensor, mask: Tensor, w_h: Tensor, w_d: Tensor, v: Tensor
) -> tuple[Tensor, Tensor]:
    """The reference, place by place, in double precision."""
    weights = torch.zeros(states.shape[:2], dtype=torch.float64)
    context = torch.zeros(len(states), states.shape[2], dtype=torch.float64)
    for row in range(len(states)):
        places = [i for i in range(states.shape[1]) if mask[row, i]]
        scores = []
        for i in places:
            inner = w_h.double() @ states[row, i].double() + w_d.double() @ query[row].double()
            scores.append(sum(a * math.tanh(x) for a, x in zip(v.tolist(), inner, strict=True)))
        largest = max(scores)
        powers = [math.exp(score - largest) for score in scores]
        for i, power in zip(places, powers, strict=True):
            weights[row, i] = power / sum(powers)
            context[row] += weights[row, i] * states[row, i].double()
    return weights.float(), context.float()


def _energy(query: Tensor, states: Tensor, w_h: Tensor, w_d: Tensor) -> Tensor:
    return (states @ w_h.T + (query @ w_d.T)[:, None]).tanh()


def _fill_softmax(scores: Tensor, mask: Tensor, fill: float = -torch.inf) -> Tensor:
    return scores.masked_fill(mask == 0, fill).softmax(dim=1)


def _attends(
    *,
    score: Callable[..., Tensor] = lambda q, s, w_h, w_d, v: _energy(q, s, w_h, w_d) @ v,
    weigh: Callable[[Tensor, Tensor], Tensor] = _fill_softmax,
    look: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda weights, states, w_h: (
        weights[..., None] * states
    ).sum(1),
    give: Callable[[Tensor, Tensor], Any] = lambda weights, context: (weights, context),
) -> Callable[..., Any]:
    """Attention with one of its parts exchanged."""

    def attend(
        query: Tensor, states: Tensor, mask: Tensor, w_h: Tensor, w_d: Tensor, v: Tensor
    ) -> Any:
        weights = weigh(score(query, states, w_h, w_d, v), mask)
        return give(weights, look(weights, states, w_h))

    return attend


def _divided_again(scores: Tensor, mask: Tensor) -> Tensor:
    weights = scores.softmax(dim=1) * mask
    return weights / weights.sum(dim=1, keepdim=True)


def _over_the_batch(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(mask == 0, -torch.inf).softmax(dim=0)


def _fresh_attention(rng: random.Random) -> Arguments:
    batch, source, hidden, width = rng.choice(((1, 3, 2, 3), (2, 3, 1, 2), (2, 2, 2, 1)))
    return (
        _numbers(rng, batch, hidden),
        _numbers(rng, batch, source, width),
        _prefix_mask(rng, batch, source),
        _numbers(rng, hidden, width),
        _numbers(rng, hidden, hidden),
        _numbers(rng, hidden),
    )


_FINITE = (
    "You gave padding a finite score. That is small beside the usual scores and large beside very "
    "negative ones: here padding has weight again. Only minus infinity is below every score."
)
_FINITE_ADDED = (
    "You added a finite number to the scores of padding. Here the score of padding is so far "
    "above those of the words that it is still the largest: padding has weight again. Only minus "
    "infinity is below every score."
)


def _filled(fill: float) -> Callable[..., Any]:
    return _attends(weigh=lambda scores, mask: _fill_softmax(scores, mask, fill))


def _lowered(by: float) -> Callable[..., Any]:
    return _attends(weigh=lambda scores, mask: (scores - by * (1 - mask)).softmax(dim=1))


_ONE = torch.tensor([[1.0]])
_TWO_STATES = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]]])
_WH = torch.tensor([[1.0, -0.5]])


def _same_places(v: float) -> Arguments:
    """Two equal words and a padding: all three have the score 0.76 v."""
    states = torch.tensor([[[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]])
    return 0 * _ONE, states, torch.tensor([[1, 1, 0]]), _WH, _ONE, torch.tensor([v])


def _high_padding(v: float) -> Arguments:
    """Two equal words with the score -0.96 v, and a padding with v."""
    states = torch.tensor([[[-2.0, 0.0], [-2.0, 0.0], [4.0, 0.0]]])
    return 0 * _ONE, states, torch.tensor([[1, 1, 0]]), _WH, _ONE, torch.tensor([v])


def _three_large(v: float) -> Arguments:
    """Three words with the scores -0.96 v, 0.76 v and v: too large for an exponential."""
    states = torch.tensor([[[-2.0, 0.0], [1.0, 0.0], [4.0, 0.0]]])
    return 0 * _ONE, states, torch.tensor([[1, 1, 1]]), _WH, _ONE, torch.tensor([v])


ATTENTION = Exercise(
    id="16.1",
    title="Additive attention",
    parameters=("query", "states", "mask", "w_h", "w_d", "v"),
    reference=_attention,
    chosen=(
        (_ONE, _TWO_STATES, torch.tensor([[1, 1, 1]]), _WH, 0.5 * _ONE, torch.tensor([1.0])),
        (_ONE, _TWO_STATES, torch.tensor([[1, 1, 0]]), _WH, 0.5 * _ONE, torch.tensor([2.0])),
        (
            torch.tensor([[0.5, -1.0], [1.0, 0.0]]),
            torch.tensor([[[1.0], [-1.0]], [[0.5], [2.0]]]),
            torch.tensor([[1, 1], [1, 0]]),
            torch.tensor([[1.0], [0.5]]),
            torch.tensor([[0.0, 1.0], [0.5, 0.0]]),
            torch.tensor([1.0, -2.0]),
        ),
        _same_places(-20.0),
        _same_places(-2e4),
        _same_places(-4e9),
        _same_places(-2e37),
        _high_padding(300.0),
        _high_padding(4e9),
        _high_padding(2e37),
        _three_large(300.0),
        _three_large(-300.0),
    ),
    fresh=_fresh_attention,
    misconceptions=(
        Misconception(
            "mask_after_the_softmax",
            "You set the weights of padding to 0 after the softmax. The weights of the words then "
            "no longer sum to 1: padding has taken its share before it was removed.",
            _attends(weigh=lambda scores, mask: scores.softmax(1) * mask),
        ),
        Misconception(
            "mask_after_the_softmax_and_divided_again",
            "You took the softmax over padding too, set the weights of padding to 0 and divided "
            "by what was left. Where the score of padding is far above the others, nothing is "
            "left: every word has the weight 0 in float32, and 0 / 0 is nan.",
            _attends(weigh=_divided_again),
        ),
        Misconception(
            "mask_ignored",
            "You did not use the mask: padding gets attention, and the same note another context "
            "when it is padded more.",
            _attends(weigh=lambda scores, mask: scores.softmax(1)),
        ),
        Misconception(
            "mask_inverted",
            "Your mask is inverted: you removed the words and kept the padding. The mask is 1 on "
            "words.",
            _attends(weigh=lambda scores, mask: _fill_softmax(scores, 1 - mask)),
        ),
        Misconception(
            "scores_of_0",
            "You set the scores of padding to 0. Softmax takes exponentials, and exp(0) is 1: a "
            "score of 0 is more than many words have.",
            _attends(weigh=lambda scores, mask: _fill_softmax(scores, mask, 0.0)),
        ),
        Misconception(
            "mask_before_the_tanh",
            "You masked what goes into the tanh. It becomes -1 there, v makes of that some "
            "ordinary score, and padding gets attention. Mask the scores, last of all before the "
            "softmax.",
            lambda query, states, mask, w_h, w_d, v: _attends(
                score=lambda q, s, w_h, w_d, v: (
                    (s @ w_h.T + (q @ w_d.T)[:, None])
                    .masked_fill((mask == 0)[..., None], -torch.inf)
                    .tanh()
                    @ v
                ),
                weigh=lambda scores, mask: scores.softmax(1),
            )(query, states, mask, w_h, w_d, v),
        ),
        Misconception("minus_100", _FINITE, _filled(-100.0)),
        Misconception("minus_10000", _FINITE, _filled(-1e4)),
        Misconception("minus_a_billion", _FINITE, _filled(-1e9)),
        Misconception("minus_1e20", _FINITE, _filled(-1e20)),
        Misconception("lowered_by_10000", _FINITE_ADDED, _lowered(1e4)),
        Misconception("lowered_by_1e20", _FINITE_ADDED, _lowered(1e20)),
        Misconception(
            "softmax_over_the_batch",
            "Your softmax runs over the batch (dimension 0). The weights of a note do not sum to "
            "1, and depend on the notes that are in the batch with it.",
            _attends(weigh=_over_the_batch),
        ),
        Misconception(
            "tanh_forgotten",
            "There is no tanh in your scores. The score is then a sum of two parts, one of the "
            "word and one of the query, and the query's is the same for every word: softmax "
            "cancels it. Every step would look at the same words.",
            _attends(score=lambda q, s, w_h, w_d, v: (s @ w_h.T + (q @ w_d.T)[:, None]) @ v),
        ),
        Misconception(
            "tanh_after_v",
            "You applied tanh to the scores, after v. No score can then leave -1 to 1, and no "
            "word can have more than e squared times the weight of another. In the formula v "
            "comes last.",
            _attends(
                score=lambda q, s, w_h, w_d, v: ((s @ w_h.T + (q @ w_d.T)[:, None]) @ v).tanh()
            ),
        ),
        Misconception(
            "dot_product",
            "You multiplied the two projections, as in dot-product attention. Additive attention "
            "adds them.",
            _attends(
                score=lambda q, s, w_h, w_d, v: ((s @ w_h.T) * (q @ w_d.T)[:, None]).tanh() @ v
            ),
        ),
        Misconception(
            "scaled",
            "You divided the scores by the square root of the width. That belongs to dot-product "
            "attention, whose scores grow with the width; the formula here has no such factor.",
            _attends(
                score=lambda q, s, w_h, w_d, v: _energy(q, s, w_h, w_d) @ v / math.sqrt(len(v))
            ),
        ),
        Misconception(
            "query_not_transposed",
            "You multiplied the query by w_d from the wrong side: query @ w_d sums over the first "
            "index of w_d. w_d has the shape (output, input), like the weight of nn.Linear.",
            _attends(score=lambda q, s, w_h, w_d, v: (s @ w_h.T + (q @ w_d)[:, None]).tanh() @ v),
        ),
        Misconception(
            "query_forgotten",
            "Your weights do not depend on the query: the decoder would look at the same words at "
            "every step. Either it is missing, or it is added after the tanh: then it adds the "
            "same number to every score, and softmax cancels that.",
            _attends(score=lambda q, s, w_h, w_d, v: (s @ w_h.T).tanh() @ v),
        ),
        Misconception(
            "context_of_the_keys",
            "Your context is a sum of the projected states. The projection is for the scores; "
            "the context is made of the states themselves.",
            _attends(
                look=lambda weights, states, w_h: (weights[..., None] * (states @ w_h.T)).sum(1)
            ),
        ),
        Misconception(
            "context_is_a_mean",
            "You took the mean of the weighted states. The weights sum to 1 already: your context "
            "shrinks with the length of the note.",
            _attends(look=lambda weights, states, w_h: (weights[..., None] * states).mean(1)),
        ),
        Misconception(
            "context_first",
            "You returned the context first. The task asks for the weights, then the context.",
            _attends(give=lambda weights, context: (context, weights)),
        ),
        Misconception(
            "weights_alone",
            "You returned the weights alone. The task asks for the weights and the context.",
            _attends(give=lambda weights, context: weights),
        ),
    ),
    hints=(
        "Write the shapes down: w_h makes (batch, source, hidden) of the states, w_d makes "
        "(batch, hidden) of the query. Where does the second need one more dimension?",
        "tanh of the sum, then v: that is one score for each place. Which score leaves exactly "
        "nothing to padding after a softmax?",
        "masked_fill with minus infinity where the mask is 0, softmax over the places, and the "
        "sum of the states times their weights.",
    ),
    tolerance=FLOAT32,
)


# 16.2 The generation probability


def _p_gen(
    context: Tensor, state: Tensor, embedded: Tensor, weight: Tensor, bias: float
) -> Tensor:
    """The reference, number by number."""
    made = []
    for row in zip(context.tolist(), state.tolist(), embedded.tolist(), strict=True):
        features = [x for part in row for x in part]
        logit = bias + sum(w * x for w, x in zip(weight.tolist(), features, strict=True))
        made.append(1 / (1 + math.exp(-logit)) if logit > -700 else 0.0)
    return torch.tensor(made)


def _gated(
    *,
    order: Callable[[Tensor, Tensor, Tensor], Sequence[Tensor]] = lambda c, h, e: (c, h, e),
    logit: Callable[[Tensor, Tensor, float], Tensor] = lambda x, w, b: x @ w + b,
    squash: Callable[[Tensor], Tensor] = torch.sigmoid,
) -> Callable[..., Tensor]:
    """p_gen with one of its parts exchanged."""
    return lambda context, state, embedded, weight, bias: squash(
        logit(torch.cat([*order(context, state, embedded)], dim=1), weight, bias)
    )


def _fresh_gate(rng: random.Random) -> Arguments:
    batch, width, hidden, d_embedding = rng.randint(1, 3), 2, 1, rng.randint(1, 2)
    return (
        _numbers(rng, batch, width),
        _numbers(rng, batch, hidden),
        _numbers(rng, batch, d_embedding),
        _numbers(rng, width + hidden + d_embedding),
        rng.randint(1, 20) / 10 * rng.choice((-1, 1)),
    )


_ORDER = (
    "You put the parts in another order than [context; state; embedding]. Nothing raises, for the "
    "length is the same, and each weight meets the number of another feature."
)

GENERATION = Exercise(
    id="16.2",
    title="The generation probability",
    parameters=("context", "state", "embedded", "weight", "bias"),
    reference=_p_gen,
    chosen=(
        (
            torch.tensor([[1.0, 0.0]]),
            torch.tensor([[2.0]]),
            torch.tensor([[-1.0]]),
            torch.tensor([0.5, 1.0, -1.0, 0.25]),
            0.5,
        ),
        (
            torch.tensor([[1.0, 2.0], [0.5, -1.0]]),
            torch.tensor([[0.0], [2.0]]),
            torch.tensor([[1.5], [-0.5]]),
            torch.tensor([0.5, -0.2, 1.0, 2.0]),
            -1.0,
        ),
        (
            torch.tensor([[10.0, 0.0], [-10.0, 0.0]]),
            torch.tensor([[0.0], [1.0]]),
            torch.tensor([[0.0, 1.0], [1.0, 0.0]]),
            torch.tensor([3.0, 1.0, 0.5, 2.0, -1.0]),
            1.0,
        ),
        (
            torch.tensor([[1.0], [2.0], [3.0]]),
            torch.tensor([[0.0], [1.0], [-1.0]]),
            torch.tensor([[-1.0], [0.5], [0.0]]),
            torch.tensor([0.5, 0.25, -0.5]),
            0.0,
        ),
    ),
    fresh=_fresh_gate,
    misconceptions=(
        Misconception(
            "state_first", _ORDER, _gated(order=lambda context, state, e: (state, context, e))
        ),
        Misconception(
            "embedding_first", _ORDER, _gated(order=lambda context, state, e: (e, context, state))
        ),
        Misconception(
            "embedding_before_the_state",
            _ORDER,
            _gated(order=lambda context, state, e: (context, e, state)),
        ),
        Misconception(
            "embedding_first_context_last",
            _ORDER,
            _gated(order=lambda context, state, e: (e, state, context)),
        ),
        Misconception(
            "context_last", _ORDER, _gated(order=lambda context, state, e: (state, e, context))
        ),
        Misconception(
            "bias_forgotten",
            "The bias is missing: where all features are 0, your p_gen is 0.5 whatever was "
            "learned.",
            _gated(logit=lambda x, w, b: x @ w),
        ),
        Misconception(
            "bias_subtracted", "You subtracted the bias.", _gated(logit=lambda x, w, b: x @ w - b)
        ),
        Misconception(
            "bias_of_each_feature",
            "You added the bias to each product, before their sum. It counts once for each "
            "feature then; a linear layer adds it once.",
            _gated(logit=lambda x, w, b: (x * w + b).sum(1)),
        ),
        Misconception(
            "bias_after_the_sigmoid",
            "You added the bias after the sigmoid: the result can leave 0 to 1, and is no "
            "probability then.",
            lambda context, state, embedded, weight, bias: (
                _p_gen(context, state, embedded, weight, 0.0) + bias
            ),
        ),
        Misconception(
            "no_sigmoid",
            "You returned the logit. It can be any number; a sigmoid makes a probability of it.",
            _gated(squash=lambda logit: logit),
        ),
        Misconception(
            "softmax",
            "You used a softmax over the batch: the numbers of all notes sum to 1, and that of "
            "one depends on the others. Each step of each note has a gate of its own.",
            _gated(squash=lambda logit: logit.softmax(0)),
        ),
        Misconception(
            "tanh",
            "You used tanh: it goes from -1 to 1. A probability lies in 0 to 1.",
            _gated(squash=torch.tanh),
        ),
        Misconception(
            "probability_of_copying",
            "You returned 1 - p_gen, the probability of copying.",
            _gated(squash=lambda logit: 1 - logit.sigmoid()),
        ),
        Misconception(
            "one_gate_a_feature",
            "You returned one number for each feature: a product of features and weights without "
            "their sum. A step has one gate.",
            _gated(logit=lambda x, w, b: x * w + b),
        ),
        Misconception(
            "mean_of_the_products",
            "You took the mean of the products of features and weights. A linear layer adds them.",
            _gated(logit=lambda x, w, b: (x * w).mean(1) + b),
        ),
        Misconception(
            "mean_of_the_gates",
            "You made a sigmoid of each feature and took their mean. The products are added "
            "first; there is one sigmoid.",
            lambda context, state, embedded, weight, bias: _gated(logit=lambda x, w, b: x * w + b)(
                context, state, embedded, weight, bias
            ).mean(1),
        ),
        Misconception(
            "one_dimension_too_many",
            "The numbers are right, and their shape is (batch, 1). The task asks for (batch,).",
            _gated(squash=lambda logit: logit.sigmoid()[:, None]),
        ),
    ),
    hints=(
        "Three tensors of the shapes (batch, something) become one of (batch, features).",
        "A linear layer with one output is a sum of products and a bias. What brings any number "
        "between 0 and 1?",
        "torch.cat along dimension 1, in the order of the task; then @ weight, + bias, and a "
        "sigmoid.",
    ),
    tolerance=FLOAT32,
)


# 16.3 Mix the distributions


def _mixture(
    p_vocab: Tensor, attention: Tensor, p_gen: Tensor, ids: Tensor, n_outside: int
) -> Tensor:
    """The reference, word by word."""
    batch, vocab = p_vocab.shape
    made = torch.zeros(batch, vocab + n_outside)
    for row in range(batch):
        gate = p_gen[row].item()
        for word in range(vocab):
            made[row, word] += gate * p_vocab[row, word].item()
        for place, word in enumerate(ids[row].tolist()):
            made[row, word] += (1 - gate) * attention[row, place].item()
    return made


def _copied(
    attention: Tensor,
    ids: Tensor,
    size: int,
    join: Callable[[float, float], float] = lambda old, new: old + new,
) -> Tensor:
    """What is copied of each word, float (batch, size); join says what two places make."""
    made = torch.zeros(len(ids), size)
    seen = torch.zeros(len(ids), size, dtype=torch.bool)
    for row, words in enumerate(ids.tolist()):
        for place, word in enumerate(words):
            new = attention[row, place].item()
            made[row, word] = join(made[row, word].item(), new) if seen[row, word] else new
            seen[row, word] = True
    return made


def _mixes(
    *,
    mix: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda p, c, g: g * p + (1 - g) * c,
    join: Callable[[float, float], float] = lambda old, new: old + new,
    numbered: Callable[[Tensor, int], Tensor] = lambda ids, vocab: ids,
    extra: bool = True,
) -> Callable[..., Tensor]:
    """The mixture with one of its parts exchanged."""

    def mixed(
        p_vocab: Tensor, attention: Tensor, p_gen: Tensor, ids: Tensor, n_outside: int
    ) -> Tensor:
        vocab = p_vocab.shape[1]
        wide = pad(p_vocab, (0, n_outside))
        copied = _copied(attention, numbered(ids, vocab), vocab + n_outside, join)
        made = mix(wide, copied, p_gen[:, None])
        return made if extra else made[:, :vocab]

    return mixed


def _overwritten(
    p_vocab: Tensor, attention: Tensor, p_gen: Tensor, ids: Tensor, n_outside: int
) -> Tensor:
    gate = p_gen[:, None]
    return (gate * pad(p_vocab, (0, n_outside))).scatter(1, ids, (1 - gate) * attention)


def _outside_without_mass(
    p_vocab: Tensor, attention: Tensor, p_gen: Tensor, ids: Tensor, n_outside: int
) -> Tensor:
    made = _mixture(p_vocab, attention, p_gen, ids, n_outside)
    made[:, p_vocab.shape[1] :] = 0.0
    return made


def _by_place(
    p_vocab: Tensor, attention: Tensor, p_gen: Tensor, ids: Tensor, n_outside: int
) -> Tensor:
    vocab = p_vocab.shape[1]
    gate = p_gen[:, None]
    made = gate * pad(p_vocab, (0, n_outside))
    width = min(ids.shape[1], vocab + n_outside)
    made[:, :width] += ((1 - gate) * attention)[:, :width]
    return made


def _fresh_mixture(rng: random.Random) -> Arguments:
    batch, vocab, source, n_outside = rng.randint(1, 2), rng.randint(4, 5), 4, rng.randint(0, 2)
    ids = []
    for _ in range(batch):
        row = [rng.randrange(vocab + n_outside) for _ in range(source)]
        row[rng.randrange(1, source)] = row[0]
        ids.append(row)
    return (
        _shares(rng, batch, vocab),
        _shares(rng, batch, source),
        torch.tensor([rng.randint(1, 9) / 10 for _ in range(batch)]),
        torch.tensor(ids),
        n_outside,
    )


_ONE_OF_ITS_PLACES = (
    "A word that stands twice in the note gets the attention of one of its places. An indexed "
    "assignment, += included, writes each id once: the places do not add up."
)

MIXED = Exercise(
    id="16.3",
    title="Mix the distributions",
    parameters=("p_vocab", "attention", "p_gen", "ids", "n_outside"),
    reference=_mixture,
    chosen=(
        (
            torch.tensor([[0.5, 0.3, 0.2]]),
            torch.tensor([[0.5, 0.25, 0.25]]),
            torch.tensor([0.4]),
            torch.tensor([[2, 1, 2]]),
            0,
        ),
        (
            torch.tensor([[0.6, 0.4]]),
            torch.tensor([[0.1, 0.7, 0.2]]),
            torch.tensor([0.2]),
            torch.tensor([[1, 2, 2]]),
            1,
        ),
        (
            torch.tensor([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]]),
            torch.tensor([[0.2, 0.5, 0.3, 0.0], [0.1, 0.6, 0.2, 0.1]]),
            torch.tensor([0.9, 0.3]),
            torch.tensor([[3, 2, 3, 1], [1, 4, 3, 1]]),
            2,
        ),
        (
            torch.tensor([[0.25, 0.75]]),
            torch.tensor([[0.3, 0.1, 0.6]]),
            torch.tensor([0.5]),
            torch.tensor([[1, 1, 0]]),
            0,
        ),
        (
            torch.tensor([[0.25, 0.75]]),
            torch.tensor([[0.5, 0.5]]),
            torch.tensor([1.0]),
            torch.tensor([[2, 3]]),
            2,
        ),
    ),
    fresh=_fresh_mixture,
    misconceptions=(
        Misconception("last_place_alone", _ONE_OF_ITS_PLACES, _mixes(join=lambda old, new: new)),
        Misconception("first_place_alone", _ONE_OF_ITS_PLACES, _mixes(join=lambda old, new: old)),
        Misconception(
            "largest_place_alone",
            "A word that stands twice in the note gets the larger attention of its places. To "
            "copy it from either is to write the same word: the probabilities add up.",
            _mixes(join=max),
        ),
        Misconception(
            "generated_part_overwritten",
            "For the words of the note, copying has overwritten what is generated. A word can be "
            "written in both ways, and its probabilities add up.",
            _overwritten,
        ),
        Misconception(
            "p_gen_swapped",
            "You weighted the vocabulary by 1 - p_gen and the note by p_gen. p_gen is the "
            "probability of generating.",
            _mixes(mix=lambda p, c, g: (1 - g) * p + g * c),
        ),
        Misconception(
            "copy_not_weighted",
            "You added the attention without its weight 1 - p_gen: the result sums to more than "
            "1.",
            _mixes(mix=lambda p, c, g: g * p + c),
        ),
        Misconception(
            "vocabulary_not_weighted",
            "You did not weight P_vocab by p_gen: the result sums to more than 1.",
            _mixes(mix=lambda p, c, g: p + (1 - g) * c),
        ),
        Misconception(
            "both_by_p_gen",
            "You weighted both parts by p_gen. The two weights sum to 1: what is not generated is "
            "copied.",
            _mixes(mix=lambda p, c, g: g * p + g * c),
        ),
        Misconception(
            "half_and_half",
            "You took the mean of both distributions, whatever p_gen is.",
            _mixes(mix=lambda p, c, g: (p + c) / 2),
        ),
        Misconception(
            "hard_switch",
            "You generate where p_gen is above one half, and copy where it is not. The gate does "
            "not choose: it weights both, so that it has a gradient.",
            _mixes(mix=lambda p, c, g: torch.where(g > 0.5, p, c)),
        ),
        Misconception(
            "product",
            "You multiplied the two distributions, each to the power of its weight: a mixture of "
            "logarithms. A word that only one of the two allows then gets nothing.",
            _mixes(mix=lambda p, c, g: p**g * c ** (1 - g)),
        ),
        Misconception(
            "softmax_again",
            "You put a softmax over the result. It is a distribution already; the softmax makes "
            "it almost even.",
            _mixes(mix=lambda p, c, g: (g * p + (1 - g) * c).softmax(1)),
        ),
        Misconception(
            "outside_as_unknown",
            "You copied the words outside the vocabulary as <unk>, id 0. Their names are lost "
            "again, and that is what extended ids are for.",
            _mixes(numbered=lambda ids, vocab: ids.where(ids < vocab, UNK)),
        ),
        Misconception(
            "outside_left_out",
            "Words outside the vocabulary have the probability 0 in your result. They cannot be "
            "generated, and they can be copied.",
            _outside_without_mass,
        ),
        Misconception(
            "no_room_for_the_outside",
            "Your result is as wide as the vocabulary. It needs a place for each word outside "
            "too: n_outside more.",
            _mixes(extra=False, numbered=lambda ids, vocab: ids),
        ),
        Misconception(
            "places_for_ids",
            "You added the attention of place 0 to word 0, of place 1 to word 1, and so on. "
            "Attention says where in the note; ids says which word stands there.",
            _by_place,
        ),
    ),
    hints=(
        "The result has vocab + n_outside columns. What is p_gen times P_vocab for words that "
        "the vocabulary does not have?",
        "Add zeros to the right of P_vocab. Then the attention of each place is to be added to "
        "the column that ids names, and two places may name the same column.",
        "scatter_add(1, ids, ...) adds up what comes to the same place; += with an index does "
        "not. p_gen needs the shape (batch, 1) to multiply rows.",
    ),
    tolerance=FLOAT32,
)


# 16.4 An extended vocabulary

Words = list[str]


def _extended(
    note: Words, summary: Words, vocabulary: Words
) -> tuple[list[int], list[int], Words]:
    """The reference, by list.index."""
    outside = list(dict.fromkeys(word for word in note if word not in vocabulary))
    everything = vocabulary + outside
    note_ids = [everything.index(word) for word in note]
    summary_ids = [everything.index(w) if w in everything else UNK for w in summary]
    return note_ids, summary_ids, outside


def _encodes(
    *,
    outside_of: Callable[[Words, Words, Words], Words] = lambda note, summary, vocabulary: list(
        dict.fromkeys(w for w in note if w not in vocabulary)
    ),
    number: Callable[[Words, Words, Words, str], int] = lambda note, vocabulary, outside, word: (
        len(vocabulary) + outside.index(word)
    ),
    unknown_summary: bool = False,
    skip: bool = False,
) -> Callable[..., tuple[list[int], list[int], Words]]:
    """The encoding with one of its parts exchanged."""

    def encode(
        note: Words, summary: Words, vocabulary: Words
    ) -> tuple[list[int], list[int], Words]:
        outside = outside_of(note, summary, vocabulary)

        def id_of(word: str, *, extended: bool = True) -> int:
            if word in outside and extended:
                return number(note, vocabulary, outside, word)
            return vocabulary.index(word) if word in vocabulary else UNK

        kept = [w for w in summary if not skip or w in vocabulary or w in outside]
        return (
            [id_of(word) for word in note],
            [id_of(word, extended=not unknown_summary) for word in kept],
            outside,
        )

    return encode


def _new_id_each_time(
    note: Words, summary: Words, vocabulary: Words, *, last: bool = True
) -> tuple[list[int], list[int], Words]:
    outside = [word for word in note if word not in vocabulary]
    size, place, note_ids = len(vocabulary), 0, []
    for word in note:
        if word in vocabulary:
            note_ids.append(vocabulary.index(word))
        else:
            note_ids.append(size + place)
            place += 1
    # A dict made from the list keeps the last place of a word, list.index finds the first.
    places = {word: i for i, word in enumerate(outside)}
    if not last:
        places = {word: outside.index(word) for word in outside}
    summary_ids = [
        vocabulary.index(w) if w in vocabulary else size + places[w] if w in places else UNK
        for w in summary
    ]
    return note_ids, summary_ids, outside


def _everything_unknown(
    note: Words, summary: Words, vocabulary: Words
) -> tuple[list[int], list[int], Words]:
    _, _, outside = _extended(note, summary, vocabulary)
    known = [[vocabulary.index(w) if w in vocabulary else UNK for w in t] for t in (note, summary)]
    return known[0], known[1], outside


def _place_in_the_note(note: Words, vocabulary: Words, outside: Words, word: str) -> int:
    return len(vocabulary) + note.index(word)


_SPECIAL = ["<unk>", "<s>", "</s>", "<pad>"]
_KNOWN = ("given", "with", "treated", "and", "for", "pain", "home")
_UNSEEN = ("nadolol", "senna", "mesna", "benazepril", "quinapril")


def _fresh_words(rng: random.Random) -> Arguments:
    known = rng.sample(_KNOWN, 3)
    unseen = rng.sample(_UNSEEN, 3)
    note = [rng.choice(known), *unseen[:2], rng.choice(known), rng.choice(unseen[:2])]
    rng.shuffle(note)
    summary = [rng.choice(note), rng.choice(unseen), rng.choice(known)]
    rng.shuffle(summary)
    return note, summary, _SPECIAL + known


EXTENDED = Exercise(
    id="16.4",
    title="An extended vocabulary",
    parameters=("note", "summary", "vocabulary"),
    reference=_extended,
    chosen=(
        (["given", "senna"], ["senna"], [*_SPECIAL, "given", "with"]),
        (
            ["senna", "and", "mesna", "and", "senna"],
            ["mesna", "and", "senna"],
            [*_SPECIAL, "and"],
        ),
        (["with", "senna"], ["quinapril", "with", "senna"], [*_SPECIAL, "with", "given"]),
        (["home"], ["home", "given"], [*_SPECIAL, "given", "home"]),
        (
            ["quinapril", "senna", "quinapril", "nadolol"],
            ["nadolol", "mesna", "quinapril"],
            [*_SPECIAL, "with"],
        ),
        (["given"], [], [*_SPECIAL, "given"]),
        (["with", "pains", "pain"], ["pain", "with"], [*_SPECIAL, "without"]),  # parts of words
    ),
    fresh=_fresh_words,
    misconceptions=(
        Misconception(
            "outside_is_unknown",
            "Every word outside the vocabulary became <unk>. All of them have the same id then, "
            "and none can be copied by name.",
            _everything_unknown,
        ),
        Misconception(
            "starts_one_too_late",
            "Your extended ids start at len(vocabulary) + 1. Ids count from 0, so the first free "
            "one is len(vocabulary).",
            _encodes(number=lambda note, vocab, outside, w: len(vocab) + 1 + outside.index(w)),
        ),
        Misconception(
            "starts_one_too_early",
            "Your extended ids start at len(vocabulary) - 1. That is the id of the last word of "
            "the vocabulary.",
            _encodes(number=lambda note, vocab, outside, w: len(vocab) - 1 + outside.index(w)),
        ),
        Misconception(
            "starts_at_0",
            "Your extended ids start at 0, where the special tokens are. They come after the "
            "vocabulary.",
            _encodes(number=lambda note, vocab, outside, w: outside.index(w)),
        ),
        Misconception(
            "a_new_id_each_time",
            "A word that stands twice in the note got two ids. It is one word: the attention of "
            "both places has to add up.",
            _new_id_each_time,
        ),
        Misconception(
            "a_new_id_each_time_and_the_first_in_the_summary",
            "A word that stands twice in the note got two ids. It is one word: the attention of "
            "both places has to add up.",
            lambda note, summary, vocabulary: _new_id_each_time(
                note, summary, vocabulary, last=False
            ),
        ),
        Misconception(
            "sorted",
            "You numbered the words outside in sorted order. The task asks for the order in which "
            "the note has them first.",
            _encodes(
                outside_of=lambda note, summary, vocab: sorted({w for w in note if w not in vocab})
            ),
        ),
        Misconception(
            "place_in_the_note",
            "You numbered a word by its place in the note. Then ids are left free where known "
            "words stand. Number the words outside alone: 0, 1, 2, ...",
            _encodes(number=_place_in_the_note),
        ),
        Misconception(
            "known_words_too",
            "You gave extended ids to words of the vocabulary. They keep the id that they have: "
            "else the model could not tell that it may generate them.",
            _encodes(outside_of=lambda note, summary, vocab: list(dict.fromkeys(note))),
        ),
        Misconception(
            "summary_unknown",
            "The note is right, and in the summary a word outside the vocabulary became <unk>. "
            "The model is then taught to write <unk> where it should copy.",
            _encodes(unknown_summary=True),
        ),
        Misconception(
            "words_of_the_summary_too",
            "You gave an extended id to a word that only the summary has. It stands nowhere in "
            "the note, so it can be neither generated nor copied: it is <unk>.",
            _encodes(
                outside_of=lambda note, summary, vocab: list(
                    dict.fromkeys(w for w in note + summary if w not in vocab)
                )
            ),
        ),
        Misconception(
            "summary_first",
            "You numbered the words outside from the summary on, before those of the note. The "
            "note alone says which extended ids there are: a summary is not known when one is to "
            "be written.",
            _encodes(
                outside_of=lambda note, summary, vocab: list(
                    dict.fromkeys(w for w in summary + note if w not in vocab)
                )
            ),
        ),
        Misconception(
            "unknown_left_out",
            "You left out the words of the summary that have no id. Something stands there; it is "
            "<unk>, id 0.",
            _encodes(skip=True),
        ),
        Misconception(
            "outside_of_the_summary_alone",
            "You gave extended ids only to words that the summary has as well. When a summary is "
            "to be written there is none to look into: every word of the note outside the "
            "vocabulary gets an id.",
            _encodes(
                outside_of=lambda note, summary, vocab: list(
                    dict.fromkeys(w for w in note if w not in vocab and w in summary)
                )
            ),
        ),
    ),
    hints=(
        "Two passes: first find the words of the note that the vocabulary lacks, each once, in "
        "order. Then give ids.",
        "The first of them has the id len(vocabulary). A dictionary from word to id holds both "
        "kinds; do not change vocabulary itself.",
        "For the summary, dict.get with a default of 0 is enough: what neither the vocabulary nor "
        "the note has is <unk>.",
    ),
)


# 16.5 The loss in log space


def _log_parts(
    logits: Tensor, scores: Tensor, gate: Tensor, ids: Tensor, targets: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """log P_vocab and log P_copy of each target (n,), and which targets are outside."""
    vocab = logits.shape[1]
    outside = targets >= vocab
    known = targets.masked_fill(outside, UNK)
    generated = logits.log_softmax(1).gather(1, known[:, None])[:, 0]
    return generated.masked_fill(outside, -torch.inf), _log_copy(scores, ids, targets), outside


def _log_copy(scores: Tensor, ids: Tensor, targets: Tensor) -> Tensor:
    here = (ids == targets[:, None]) & scores.isfinite()
    return scores.log_softmax(1).masked_fill(~here, -torch.inf).logsumexp(1)


Gradients = tuple[Tensor, Tensor, Tensor, Tensor]


def _by_autograd(loss: Callable[..., Any], dtype: torch.dtype = torch.float32) -> Callable:
    """A loss and its gradients on logits, scores and gate, as the complete part of the task."""

    def value_and_gradients(
        logits: Tensor, scores: Tensor, gate: Tensor, ids: Tensor, targets: Tensor
    ) -> Gradients:
        given = [x.clone().to(dtype).requires_grad_() for x in (logits, scores, gate)]
        value = torch.as_tensor(loss(*given, ids, targets))
        if value.requires_grad:
            value.backward()
        return value.detach(), *(torch.zeros_like(x) if x.grad is None else x.grad for x in given)

    return value_and_gradients


def _exact(
    logits: Tensor, scores: Tensor, gate: Tensor, ids: Tensor, targets: Tensor
) -> Gradients:
    """The reference: row by row in double precision, with gradients from the formulas by hand."""
    n, vocab = logits.shape
    logits, scores, gate = logits.double(), scores.double(), gate.double()
    value = torch.zeros((), dtype=torch.float64)
    of_logits, of_scores = torch.zeros_like(logits), torch.zeros_like(scores)
    of_gate = torch.zeros_like(gate)
    for row in range(n):
        target, z = int(targets[row]), gate[row]
        places = (ids[row] == target) & scores[row].isfinite()
        log_p, weights = logits[row].log_softmax(0), scores[row].softmax(0)
        ways = []
        if target < vocab:
            ways.append(logsigmoid(z) + log_p[target])
        if places.any():
            at = scores[row][places].logsumexp(0) - scores[row].logsumexp(0)
            ways.append(logsigmoid(-z) + at)
        log_of = torch.stack(ways).logsumexp(0)
        value -= log_of / n
        share = torch.zeros(
            2, dtype=torch.float64
        )  # how much of it was generated, how much copied
        for way, log_way in zip((0, 1) if target < vocab else (1,), ways, strict=False):
            share[way] = (log_way - log_of).exp()
        if target < vocab:
            of_logits[row] = share[0] * log_p.exp() / n
            of_logits[row, target] -= share[0] / n
        if places.any():
            among = torch.where(places, scores[row], -torch.inf).softmax(0)
            of_scores[row] = share[1] * (weights - among) / n
        of_gate[row] = (z.sigmoid() - share[0]) / n
    return value.float(), of_logits.float(), of_scores.float(), of_gate.float()


def _pointed(
    *,
    join: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda generated, copied, gate: (
        torch.logaddexp(logsigmoid(gate) + generated, logsigmoid(-gate) + copied)
    ),
    mean: Callable[[Tensor, Tensor], Tensor] = lambda log_p, outside: -log_p.mean(),
    copy: Callable[[Tensor, Tensor, Tensor], Tensor] = _log_copy,
) -> Callable[..., Gradients]:
    """The loss with one of its parts exchanged."""

    def loss(logits: Tensor, scores: Tensor, gate: Tensor, ids: Tensor, targets: Tensor) -> Tensor:
        generated, _, outside = _log_parts(logits, scores, gate, ids, targets)
        return mean(join(generated, copy(scores, ids, targets), gate), outside)

    return _by_autograd(loss)


def _probability(
    logits: Tensor, scores: Tensor, gate: Tensor, ids: Tensor, targets: Tensor
) -> Tensor:
    """P of each target (n,), by probabilities."""
    inside = targets < logits.shape[1]
    known = targets.where(inside, torch.tensor(UNK))
    generated = logits.softmax(1).gather(1, known[:, None])[:, 0] * inside
    copied = (scores.softmax(1) * (ids == targets[:, None])).sum(1)
    p_gen = gate.sigmoid()
    return p_gen * generated + (1 - p_gen) * copied


def _log_of_clamped(least: float) -> Callable[..., Tensor]:
    return lambda *given: -_probability(*given).clamp(min=least).log().mean()


def _log_of_softmax(numbers: Tensor) -> Tensor:
    return numbers.softmax(1).log()


def _by_ways(
    *,
    of_vocab: Callable[[Tensor], Tensor] = lambda logits: logits.log_softmax(1),
    of_note: Callable[[Tensor], Tensor] = lambda scores: scores.log_softmax(1),
    closed: float = -torch.inf,
    outside: float = -torch.inf,
) -> Callable[..., Gradients]:
    """The loss with other logarithms, or with other numbers where a way is closed."""

    def loss(logits: Tensor, scores: Tensor, gate: Tensor, ids: Tensor, targets: Tensor) -> Tensor:
        unknown = targets >= logits.shape[1]
        known = targets.masked_fill(unknown, UNK)
        generated = of_vocab(logits).gather(1, known[:, None])[:, 0].masked_fill(unknown, outside)
        here = (ids == targets[:, None]) & scores.isfinite()
        copied = of_note(scores).masked_fill(~here, closed).logsumexp(1)
        return -torch.logaddexp(logsigmoid(gate) + generated, logsigmoid(-gate) + copied).mean()

    return _by_autograd(loss)


def _masked_places_too(scores: Tensor, ids: Tensor, targets: Tensor) -> Tensor:
    here = ids == targets[:, None]
    return scores.log_softmax(1).masked_fill(~here, -torch.inf).logsumexp(1)


def _log_of_a_sum(scores: Tensor, ids: Tensor, targets: Tensor) -> Tensor:
    here = ids == targets[:, None]
    return (scores.softmax(1) * here).sum(1).log()


def _largest_place(scores: Tensor, ids: Tensor, targets: Tensor) -> Tensor:
    here = (ids == targets[:, None]) & scores.isfinite()
    return scores.log_softmax(1).masked_fill(~here, -torch.inf).amax(1)


def _not_normalised(scores: Tensor, ids: Tensor, targets: Tensor) -> Tensor:
    here = (ids == targets[:, None]) & scores.isfinite()
    return scores.masked_fill(~here, -torch.inf).logsumexp(1)


def _unknown_too(
    logits: Tensor, scores: Tensor, gate: Tensor, ids: Tensor, targets: Tensor
) -> Tensor:
    known = targets.where(targets < logits.shape[1], torch.tensor(UNK))
    generated = logits.log_softmax(1).gather(1, known[:, None])[:, 0]
    copied = _log_copy(scores, ids, targets)
    return -torch.logaddexp(logsigmoid(gate) + generated, logsigmoid(-gate) + copied).mean()


def _generated_alone(
    logits: Tensor, scores: Tensor, gate: Tensor, ids: Tensor, targets: Tensor
) -> Tensor:
    known = targets.where(targets < logits.shape[1], torch.tensor(UNK))
    return -logits.log_softmax(1).gather(1, known[:, None])[:, 0].mean()


def _logits_as_they_are(
    logits: Tensor, scores: Tensor, gate: Tensor, ids: Tensor, targets: Tensor
) -> Tensor:
    inside = targets < logits.shape[1]
    known = targets.where(inside, torch.tensor(UNK))
    generated = logits.gather(1, known[:, None])[:, 0].masked_fill(~inside, -torch.inf)
    copied = _log_copy(scores, ids, targets)
    return -torch.logaddexp(logsigmoid(gate) + generated, logsigmoid(-gate) + copied).mean()


def _fresh_pointers(rng: random.Random) -> Arguments:
    n, vocab, source = 2, 4, 3
    logits, scores = _numbers(rng, n, vocab), _numbers(rng, n, source)
    ids = torch.tensor([[rng.randrange(1, vocab + 2) for _ in range(source)] for _ in range(n)])
    targets = []
    for row in range(n):
        if rng.random() < 0.3:
            ids[row, 0] = ids[row, 1]
        place = rng.randrange(2)
        targets.append(rng.choice((ids[row, place].item(), rng.randrange(1, vocab))))
        if rng.random() < 0.5:
            scores[row, 2] = -torch.inf
    return logits, scores, _numbers(rng, n), ids, torch.tensor(targets)


def _target(
    logits: list[float], scores: list[float], gate: float, ids: list[int], target: int
) -> Arguments:
    one = (torch.tensor([x]) for x in (logits, scores, gate, ids, target))
    return tuple(one)


_INF = math.inf
_UNDERFLOW = (
    "You took the logarithm of a probability. Here the probability is below what float32 can "
    "hold: it is 0, its logarithm minus infinity, and the gradient is no number. Add up in log "
    "space."
)

_LOG_OF_SOFTMAX = (
    "You took the logarithm of a softmax, or of a sum of exponentials. Here numbers lie 900 "
    "apart: float32 makes 0 or infinity of their exponentials, and the gradient is nan. "
    "log_softmax never leaves log space."
)
_CLOSED = (
    "A finite number bounds your loss: you filled it in where a target cannot be generated, or "
    "cannot be copied. Where the other way is less probable still, that number outweighs it. Only "
    "minus infinity is below every logarithm."
)

LOG_SPACE = Exercise(
    id="16.5",
    title="The loss in log space",
    parameters=("logits", "scores", "gate", "ids", "targets"),
    reference=_exact,
    chosen=(
        _target([0.0, 1.0, 2.0], [1.0, 0.0], 0.5, [1, 2], 1),
        _target([0.0, 1.0, 2.0], [1.0, 0.0, 0.5], -0.5, [2, 1, 2], 2),
        _target([0.0, 1.0, 0.5], [1.0, 0.0], 1.0, [3, 4], 4),  # outside the vocabulary
        _target([0.5, 1.0, 0.0], [1.0, 0.0], 1.0, [3, 1], 2),  # not in the note
        _target([0.5, 1.0, 0.0], [1.0, -_INF], 0.5, [1, 2], 2),  # in the note, and masked
        _target([0.0, 60.0], [0.0, 1.0], 5.0, [2, 3], 0),  # below 1e-8
        _target([0.0, 1.0], [0.0, 1.0], -60.0, [2, 3], 1),  # below 1e-8
        _target([0.0, 1.0], [0.0, 1.0], 200.0, [2, 3], 2),  # below every number of float32
        _target([0.0, 1.0], [0.0, 1.0], -900.0, [2, 3], 1),  # and of float64
        _target([0.0, 900.0], [0.0, 1.0], 0.5, [2, 3], 0),  # by the logits
        _target([0.0, 1.0], [0.0, 900.0], 0.5, [2, 3], 2),  # by the scores
        _target([0.0, 1.0], [0.0, 1.0], -4e9, [2, 3], 1),  # below what a finite number stands for
        _target([0.0, 1.0], [0.0, 1.0], 4e9, [2, 3], 2),
        (
            torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 0.5]]),
            torch.tensor([[0.0, 1.0], [2.0, 0.5]]),
            torch.tensor([0.5, -1.0]),
            torch.tensor([[3, 1], [3, 3]]),
            torch.tensor([1, 3]),
        ),
    ),
    fresh=_fresh_pointers,
    misconceptions=(
        *(
            Misconception(
                f"probability_kept_from_0_by_{name}",
                "You kept the probability from 0 before its logarithm, by a clamp or by a small "
                "number that is added. Where the probability is smaller than that, the loss is a "
                "constant and its gradient 0: just the words that the model gets most wrong teach "
                "it nothing.",
                _by_autograd(_log_of_clamped(least)),
            )
            for name, least in (("1e_8", 1e-8), ("1e_10", 1e-10), ("1e_12", 1e-12))
        ),
        Misconception(
            "logarithm_of_the_mixture",
            _UNDERFLOW,
            _by_autograd(lambda *given: -_probability(*given).log().mean()),
        ),
        Misconception(
            "logarithm_of_the_copied_sum",
            "Your copied part is the logarithm of a sum of attention. For a word that is not in "
            "the note the sum is 0: the value is right, minus infinity, and its gradient is nan, "
            "which spreads to every weight.",
            _pointed(copy=_log_of_a_sum),
        ),
        *(
            Misconception(f"logarithm_of_a_softmax_of_{name}", _LOG_OF_SOFTMAX, wrong)
            for name, wrong in (
                ("logits", _by_ways(of_vocab=_log_of_softmax)),
                ("scores", _by_ways(of_note=_log_of_softmax)),
                ("both", _by_ways(of_vocab=_log_of_softmax, of_note=_log_of_softmax)),
            )
        ),
        Misconception(
            "logarithm_of_the_sigmoid",
            "You took the logarithm of p_gen, or of 1 - p_gen, after the sigmoid. Here the "
            "sigmoid is 0 or 1 in float32: the logarithm is minus infinity, and the gradient nan. "
            "The gate is given as a logit so that p_gen need not be computed.",
            _pointed(
                join=lambda generated, copied, gate: torch.logaddexp(
                    gate.sigmoid().log() + generated, (1 - gate.sigmoid()).log() + copied
                )
            ),
        ),
        *(
            Misconception(name, _CLOSED, wrong)
            for name, wrong in (
                ("closed_ways_minus_100", _by_ways(closed=-100.0, outside=-100.0)),
                ("closed_ways_minus_10000", _by_ways(closed=-1e4, outside=-1e4)),
                ("closed_ways_minus_a_billion", _by_ways(closed=-1e9, outside=-1e9)),
                ("no_place_minus_100", _by_ways(closed=-100.0)),
                ("no_place_minus_10000", _by_ways(closed=-1e4)),
                ("no_place_minus_a_billion", _by_ways(closed=-1e9)),
            )
        ),
        Misconception(
            "copied_if_in_the_note",
            "You copied every target that the note has, and generated the others. A word can be "
            "written in both ways, and the two add up.",
            _pointed(
                join=lambda generated, copied, gate: torch.where(
                    copied > -torch.inf, logsigmoid(-gate) + copied, logsigmoid(gate) + generated
                )
            ),
        ),
        Misconception(
            "generated_if_known",
            "You generated every target of the vocabulary, and copied the others. A word of the "
            "vocabulary that the note has can be copied too, and the two ways add up.",
            _pointed(
                join=lambda generated, copied, gate: torch.where(
                    generated > -torch.inf,
                    logsigmoid(gate) + generated,
                    logsigmoid(-gate) + copied,
                )
            ),
        ),
        Misconception(
            "likelier_way_alone",
            "You took the likelier of the two ways. A word can be written in both, and the two "
            "add up.",
            _pointed(
                join=lambda generated, copied, gate: torch.maximum(
                    logsigmoid(gate) + generated, logsigmoid(-gate) + copied
                )
            ),
        ),
        Misconception(
            "masked_places",
            "You asked for the target at places that cannot be copied from. Where it stands at "
            "such a place alone (</s> stands in every note), you add up one minus infinity, and "
            "its gradient is nan.",
            _pointed(copy=_masked_places_too),
        ),
        Misconception(
            "largest_place_alone",
            "A target that stands twice in the note gets the attention of one of its places. "
            "They add up.",
            _pointed(copy=_largest_place),
        ),
        Misconception(
            "scores_not_normalised",
            "You used the attention scores as if they were logarithms of attention. Their softmax "
            "is missing.",
            _pointed(copy=_not_normalised),
        ),
        Misconception(
            "logits_not_normalised",
            "You used the logits as if they were logarithms of probabilities. Their softmax is "
            "missing: the loss can be lowered by raising all logits.",
            _by_autograd(_logits_as_they_are),
        ),
        Misconception(
            "outside_generated_as_unknown",
            "For a target outside the vocabulary you added what the model gives to <unk>. "
            "Writing <unk> is not writing the name: only copying counts there.",
            _by_autograd(_unknown_too),
        ),
        Misconception(
            "generated_alone",
            "You scored the vocabulary alone, and took a target outside of it for <unk>. What is "
            "copied is missing.",
            _by_autograd(_generated_alone),
        ),
        Misconception(
            "copied_alone",
            "You scored the copying alone. A word that is not in the note has an infinite loss "
            "then.",
            _pointed(join=lambda generated, copied, gate: copied),
        ),
        Misconception(
            "gate_swapped",
            "You gave the vocabulary the weight 1 - p_gen. The gate is the logit of p_gen, the "
            "probability of generating.",
            _pointed(
                join=lambda generated, copied, gate: torch.logaddexp(
                    logsigmoid(-gate) + generated, logsigmoid(gate) + copied
                )
            ),
        ),
        Misconception(
            "gate_left_out",
            "You added both probabilities without their weights p_gen and 1 - p_gen: they can sum "
            "to more than 1.",
            _pointed(join=lambda generated, copied, gate: torch.logaddexp(generated, copied)),
        ),
        Misconception(
            "mean_of_the_logarithms",
            "You weighted the two losses by p_gen and 1 - p_gen. That is a mean of logarithms; "
            "the loss is the logarithm of a mean. A word that only one of the two ways can "
            "write has an infinite loss then.",
            _pointed(
                join=lambda generated, copied, gate: (
                    gate.sigmoid() * generated + (1 - gate.sigmoid()) * copied
                )
            ),
        ),
        Misconception(
            "sum_of_the_losses",
            "You returned the sum. The task asks for the mean over the targets.",
            _pointed(mean=lambda log_p, outside: -log_p.sum()),
        ),
        Misconception(
            "opposite_sign",
            "Your loss is negative: it is the mean log-probability, and a training would make it "
            "smaller still.",
            _pointed(mean=lambda log_p, outside: log_p.mean()),
        ),
    ),
    hints=(
        "Two numbers for each target are enough: log P_vocab and log P_copy of that one word. "
        "log_softmax and gather give the first.",
        "For the second: at which places does the target stand, and can be copied? logsumexp adds "
        "up probabilities whose logarithms you have. What you cannot write in one of the two ways "
        "has minus infinity there.",
        "The logarithm of p_gen is logsigmoid(gate), that of 1 - p_gen is logsigmoid(-gate). "
        "torch.logaddexp joins the two ways.",
    ),
    tolerance=FLOAT32,
)


# 16.6 Read a note in chunks


@dataclass(frozen=True)
class TwoWayReader:
    """A bidirectional recurrent layer of one number in each direction, small enough to follow.

    Forwards, ``state = keep * state + token`` from 0 on; backwards the same from the last token.

    Attributes:
        keep: how much of the state is kept from one token to the next.
    """

    keep: float

    def __call__(self, rows: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Read rows of tokens, each for itself.

        Args:
            rows: float (n, width), padded on the right.
            lengths: int64 (n,): how many tokens each row has, 1 to width.

        Returns:
            The states (n, width, 2), forwards and backwards, 0 on padding; and where each
            direction ends, (n, 2).

        Raises:
            ValueError: if a row has no token, as PyTorch's packing does, or too many.
        """
        if len(rows) != len(lengths):
            raise ValueError(f"there are {len(rows)} rows and {len(lengths)} lengths")
        if any(not 1 <= n <= rows.shape[1] for n in lengths.tolist()):
            raise ValueError(f"lengths must be 1 to {rows.shape[1]}, and are {lengths.tolist()}")
        states = torch.zeros(*rows.shape, 2)
        ends = torch.zeros(len(rows), 2)
        for row, (tokens, n) in enumerate(zip(rows.tolist(), lengths.tolist(), strict=True)):
            for way, order in enumerate((range(n), range(n - 1, -1, -1))):
                state = 0.0
                for i in order:
                    state = self.keep * state + tokens[i]
                    states[row, i, way] = state
                ends[row, way] = state
        return states, ends


def _chunked(
    read: TwoWayReader, tokens: Tensor, lengths: Tensor, chunk: int
) -> tuple[Tensor, Tensor]:
    """The reference: chunk after chunk, note after note."""
    states, ends = torch.zeros(*tokens.shape, 2), torch.zeros(len(tokens), 2)
    for row, n in enumerate(lengths.tolist()):
        for start in range(0, n, chunk):
            stop = min(start + chunk, n)
            part, end = read(tokens[row : row + 1, start:stop], torch.tensor([stop - start]))
            states[row, start:stop] = part[0]
            ends[row, 0] = end[0, 0]  # the last chunk's stays
            if start == 0:
                ends[row, 1] = end[0, 1]
    return states, ends


def _folds(
    *,
    fold: Callable[[Tensor, int, int], Tensor] = lambda wide, n, chunk: wide.reshape(-1, n, chunk),
    inside: Callable[[Tensor, Tensor, int], Tensor] = lambda lengths, starts, chunk: (
        lengths[:, None] - starts
    ).clamp(0, chunk),
    unfold: Callable[[Tensor], Tensor] = lambda states: states,
    end: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] = lambda ends, last: (
        ends[torch.arange(len(ends)), last, 0],
        ends[:, 0, 1],
    ),
    last: Callable[[Tensor, int], Tensor] = lambda lengths, chunk: (lengths - 1) // chunk,
    cut: bool = True,
) -> Callable[..., tuple[Tensor, Tensor]]:
    """The reading with one of its parts exchanged."""

    def chunked(
        read: TwoWayReader, tokens: Tensor, lengths: Tensor, chunk: int
    ) -> tuple[Tensor, Tensor]:
        batch, source = tokens.shape
        n = -(-source // chunk)
        wide = pad(tokens, (0, n * chunk - source))
        folded = fold(wide, n, chunk)
        n_inside = inside(lengths, torch.arange(n) * chunk, chunk)
        real = n_inside > 0
        states, ends = torch.zeros(batch, n, chunk, 2), torch.zeros(batch, n, 2)
        states[real], ends[real] = read(folded[real], n_inside[real])
        states = unfold(states).reshape(batch, n * chunk, 2)
        forwards, backwards = end(ends, last(lengths, chunk))
        ends = torch.stack([forwards, backwards], dim=1)
        return states[:, :source] if cut else states, ends

    return chunked


def _of_row(ends: Tensor, chunks: Tensor, way: int) -> Tensor:
    return ends[torch.arange(len(ends)), chunks, way]


def _all_rows_read(lengths: Tensor, starts: Tensor, chunk: int) -> Tensor:
    return torch.full((len(lengths), len(starts)), chunk)


def _even_chunks(
    read: TwoWayReader, tokens: Tensor, lengths: Tensor, chunk: int
) -> tuple[Tensor, Tensor]:
    source = tokens.shape[1]
    return _chunked(read, tokens, lengths, -(-source // -(-source // chunk)))


def _cut_to_the_longest(lengths: Tensor, states: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    return states[:, : int(lengths.max())], ends


def _all_as_long(
    read: TwoWayReader, tokens: Tensor, lengths: Tensor, chunk: int
) -> tuple[Tensor, Tensor]:
    return _chunked(read, tokens, torch.full_like(lengths, tokens.shape[1]), chunk)


def _fresh_chunks(rng: random.Random) -> Arguments:
    batch, chunk = 2, rng.randint(2, 3)
    source = rng.randint(chunk + 1, 3 * chunk)
    lengths = [rng.randint(1, source) for _ in range(batch)]
    if rng.random() < 0.7:  # else all of them may be shorter than the tensor is wide
        lengths[rng.randrange(batch)] = source
    tokens = torch.tensor(
        [[float(rng.randint(1, 9)) for _ in range(source)] for _ in range(batch)]
    )
    return TwoWayReader(rng.choice((0.5, 0.2))), tokens, torch.tensor(lengths), chunk


_READ_PADDING = (
    "Your chunks read padding: the last chunk of a note has fewer tokens than fit into it, and "
    "read has to be told how many. Padding has states in your result, and moves those of the "
    "words before it."
)
_HALF = TwoWayReader(0.5)

CHUNKS = Exercise(
    id="16.6",
    title="Read a note in chunks",
    parameters=("read", "tokens", "lengths", "chunk"),
    reference=_chunked,
    chosen=(
        (_HALF, torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([4]), 2),
        (_HALF, torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0]]), torch.tensor([5]), 2),
        (
            _HALF,
            torch.tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]),
            torch.tensor([4, 4]),
            2,
        ),
        (
            _HALF,
            torch.tensor([[1.0, 2.0, 3.0, 4.0, 5.0], [5.0, 6.0, 9.0, 9.0, 9.0]]),
            torch.tensor([5, 2]),
            2,
        ),
        (
            _HALF,
            torch.tensor([[1.0, 2.0, 3.0, 9.0, 9.0, 9.0], [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]]),
            torch.tensor([3, 6]),
            2,
        ),
        (_HALF, torch.tensor([[1.0, 2.0]]), torch.tensor([2]), 3),
        (_HALF, torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([4]), 3),  # 3 + 1, not 2 + 2
        (
            _HALF,  # nobody has a token at the last place
            torch.tensor([[1.0, 2.0, 3.0, 9.0, 9.0], [4.0, 9.0, 9.0, 9.0, 9.0]]),
            torch.tensor([3, 1]),
            2,
        ),
        (
            _HALF,
            torch.tensor([[1.0, 2.0, 3.0], [4.0, 9.0, 9.0], [4.0, 5.0, 9.0]]),
            torch.tensor([3, 1, 2]),
            1,
        ),
    ),
    fresh=_fresh_chunks,
    misconceptions=(
        Misconception(
            "whole",
            "You read the notes whole: a state knows of tokens outside its chunk.",
            lambda read, tokens, lengths, chunk: read(tokens, lengths),
        ),
        Misconception(
            "every_nth_token",
            "Your chunks are made of every n-th token. A chunk is made of neighbours: tokens 0 to "
            "chunk - 1, and so on.",
            _folds(
                fold=lambda wide, n, chunk: wide.reshape(-1, chunk, n).transpose(1, 2),
                unfold=lambda states: states.transpose(1, 2),
            ),
        ),
        Misconception(
            "every_nth_token_not_put_back",
            "Your chunks are made of every n-th token. A chunk is made of neighbours: tokens 0 to "
            "chunk - 1, and so on.",
            _folds(fold=lambda wide, n, chunk: wide.reshape(-1, chunk, n).transpose(1, 2)),
        ),
        Misconception(
            "notes_mixed",
            "The chunks are put back in the wrong order: chunks of one note stand in another one. "
            "The order of batch and chunks must be the same on the way in and on the way out.",
            _folds(
                unfold=lambda states: states.reshape(
                    states.shape[1], states.shape[0], *states.shape[2:]
                ).transpose(0, 1)
            ),
        ),
        Misconception(
            "chunks_reversed",
            "The chunks of a note stand in reverse order in your result.",
            _folds(unfold=lambda states: states.flip(1)),
        ),
        Misconception(
            "chunks_of_even_size",
            "Your chunks are about equally long, as torch.chunk makes them. Each chunk but a "
            "note's last has exactly chunk tokens; torch.split cuts like that.",
            _even_chunks,
        ),
        Misconception("padding_read", _READ_PADDING, _folds(inside=_all_rows_read)),
        Misconception("padding_of_shorter_notes_read", _READ_PADDING, _all_as_long),
        Misconception(
            "empty_chunks_read",
            "You gave an empty chunk the length 1, so that read accepts it. It reads a token of "
            "padding then. Leave such chunks out.",
            _folds(
                inside=lambda lengths, starts, chunk: (lengths[:, None] - starts).clamp(1, chunk)
            ),
        ),
        Misconception(
            "lengths_of_the_first_chunk",
            "You gave every chunk of a note as many tokens as its first chunk has. How many are "
            "left depends on where the chunk starts.",
            _folds(
                inside=lambda lengths, starts, chunk: (
                    lengths[:, None].clamp(max=chunk).expand(-1, len(starts))
                )
            ),
        ),
        Misconception(
            "forwards_from_the_first_chunk",
            "The forward direction's end is that of the first chunk. Forwards, a note ends in its "
            "last chunk.",
            _folds(end=lambda ends, last: (ends[:, 0, 0], ends[:, 0, 1])),
        ),
        Misconception(
            "backwards_from_the_last_chunk",
            "The backward direction's end is that of the last chunk. Backwards, a note is read "
            "towards its beginning, and ends in its first chunk.",
            _folds(end=lambda ends, last: (_of_row(ends, last, 0), _of_row(ends, last, 1))),
        ),
        Misconception(
            "ends_swapped",
            "You took the forward direction's end from the first chunk and the backward "
            "direction's from the last. It is the other way round.",
            _folds(end=lambda ends, last: (ends[:, 0, 0], _of_row(ends, last, 1))),
        ),
        Misconception(
            "last_chunk_of_the_batch",
            "You took the end from the last chunk of the batch. A shorter note has no token "
            "there; its last chunk is an earlier one.",
            _folds(end=lambda ends, last: (ends[:, -1, 0], ends[:, 0, 1])),
        ),
        Misconception(
            "last_chunk_counted_wrong",
            "Where a note fills its chunks exactly, you looked for its end one chunk too far: "
            "length // chunk is then the number of chunks, and the last one stands before it.",
            _folds(last=lambda lengths, chunk: lengths // chunk),
        ),
        Misconception(
            "mean_of_the_ends",
            "You took the mean of the ends of all chunks. The decoder begins where the reading "
            "ended.",
            _folds(
                end=lambda ends, last: (
                    ends[:, :, 0].sum(1) / (last + 1),
                    ends[:, :, 1].sum(1) / (last + 1),
                )
            ),
        ),
        Misconception(
            "width_of_the_longest_note",
            "Your states are as wide as the longest note. The result has source places, as tokens "
            "has, even where every note of the batch is shorter.",
            lambda read, tokens, lengths, chunk: _cut_to_the_longest(
                lengths, *_chunked(read, tokens, lengths, chunk)
            ),
        ),
        Misconception(
            "width_of_the_chunks",
            "Your states are as wide as all chunks together. The notes have source places; cut "
            "what was added.",
            _folds(cut=False),
        ),
    ),
    hints=(
        "Pad the tokens to a multiple of chunk; then a reshape makes (batch, n_chunks, chunk) of "
        "them. How many tokens are left for a chunk that starts at a given place?",
        "Number of tokens in each chunk: length minus start, not below 0 and not above chunk. A "
        "boolean mask (batch, n_chunks) picks the chunks that have one, and puts their states "
        "back.",
        "read(folded[real], inside[real]) reads all of them at once. Forwards a note ends in "
        "chunk (length - 1) // chunk, backwards in chunk 0.",
    ),
    tolerance=FLOAT32,
)

EXERCISES = (ATTENTION, GENERATION, MIXED, EXTENDED, LOG_SPACE, CHUNKS)
