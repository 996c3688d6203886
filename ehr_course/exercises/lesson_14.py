"""The exercises of lesson 14: loss functions."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax, nll_loss

from ehr_course.exercises.exercise import Arguments, Exercise, Misconception
from ehr_course.losses import LossTerm

FLOAT32 = 1e-4
"""The tolerance of values that come from a few products in float32."""

NOT_SCORED = -100


def _numbers(rng: random.Random, *shape: int, up_to: int = 30) -> Tensor:
    """Numbers with one decimal, from minus to plus up_to tenths: short in a message."""
    values = [rng.randint(-up_to, up_to) / 10 for _ in range(math.prod(shape))]
    return torch.tensor(values).reshape(shape)


def _labels(rng: random.Random, batch: int, length: int, vocab: int) -> Tensor:
    """Labels of a padded batch: rows of several lengths, -100 after the end of each."""
    labels = torch.full((batch, length), NOT_SCORED)
    for row in labels:
        n_scored = rng.randint(1, length)
        row[:n_scored] = torch.tensor([rng.randrange(vocab) for _ in range(n_scored)])
    return labels


# 14.1 Masked cross-entropy


def _cross_entropy(logits: Tensor, labels: Tensor) -> float:
    """The reference: PyTorch's own, in double precision."""
    vocab = logits.shape[-1]
    return cross_entropy(logits.double().reshape(-1, vocab), labels.reshape(-1)).item()


def _each(logits: Tensor, labels: Tensor) -> Tensor:
    """The loss at each place, float64 (batch, length); 0 where it is not scored."""
    flat = log_softmax(logits.double(), dim=-1).flatten(0, -2)
    return nll_loss(flat, labels.flatten(), reduction="none").reshape(labels.shape)


def _right(logits: Tensor, labels: Tensor) -> Tensor:
    """The probability of the right token at each scored place, float64 (n,)."""
    return (-_each(logits, labels)[labels != NOT_SCORED]).exp()


def _row_means(losses: Tensor, labels: Tensor, *, least: int = 0) -> Tensor:
    return losses.sum(-1) / (labels != NOT_SCORED).sum(-1).clamp(min=least)


def _exponentials(largest: Callable[[Tensor], Tensor | float]) -> Callable[..., float]:
    """The loss by exponentials in float32, after something was subtracted from the logits."""

    def loss(logits: Tensor, labels: Tensor) -> float:
        moved = logits - largest(logits)
        p = moved.exp() / moved.exp().sum(-1, keepdim=True)
        scored = labels != NOT_SCORED
        return -p[scored].gather(-1, labels[scored][:, None]).log().mean().item()

    return loss


def _negative_index(logits: Tensor, labels: Tensor) -> float:
    rows = _each(logits, labels.clamp(min=0)).flatten()
    if (labels < -logits.shape[-1]).any():
        raise IndexError("index -100 is out of bounds")
    return rows.mean().item()


def _gather(logits: Tensor, labels: Tensor) -> float:
    return -logits.log_softmax(-1).gather(-1, labels[..., None]).mean().item()


def _one_step_late(logits: Tensor, labels: Tensor) -> float:
    return cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()).item()


def _over_the_positions(logits: Tensor, labels: Tensor) -> float:
    scored = labels != NOT_SCORED
    log_p = logits.log_softmax(dim=1)[scored]
    return -log_p.gather(-1, labels[scored][:, None]).mean().item()


def _infinite(logits: Tensor, labels: Tensor) -> float:
    """The loss by a sum of exponentials in float32, from which nothing was subtracted."""
    scored = labels != NOT_SCORED
    right = logits[scored].gather(-1, labels[scored][:, None])[:, 0]
    return (logits[scored].exp().sum(-1).log() - right).mean().item()


def _maximum_not_added(logits: Tensor, labels: Tensor) -> float:
    largest = logits.double().amax(-1)[labels != NOT_SCORED]
    return _cross_entropy(logits, labels) - largest.mean().item()


def _not_0(logits: Tensor, labels: Tensor) -> float:
    losses = _each(logits, labels)
    return (losses.sum() / (losses != 0).sum()).item()


def _every_label(logits: Tensor, labels: Tensor) -> Tensor:
    """The loss of each scored label at each scored place, float64 (n, n)."""
    scored = labels != NOT_SCORED
    return -logits[scored].double().log_softmax(-1)[:, labels[scored]]


def _log_of_softmax(logits: Tensor, labels: Tensor) -> float:
    scored = labels != NOT_SCORED
    p = logits.softmax(dim=-1)[scored]
    return -p.gather(-1, labels[scored][:, None]).log().mean().item()


def _without_softmax(logits: Tensor, labels: Tensor) -> float:
    scored = labels != NOT_SCORED
    return -logits[scored].gather(-1, labels[scored][:, None]).mean().item()


def _fresh_logits(rng: random.Random) -> Arguments:
    batch, length, vocab = rng.randint(2, 3), rng.randint(2, 4), rng.randint(3, 4)
    labels = _labels(rng, batch, length, vocab)
    labels[rng.randrange(batch), 0] = rng.randrange(vocab)
    return _numbers(rng, batch, length, vocab), labels


_OVERFLOW = (
    "Your loss is right for small logits and breaks at large ones. In float32 exp(89) is infinity "
    "and exp(-104) is 0, and what follows is nan or infinity. Subtract something from the logits "
    "first that does not change the probabilities."
)
_LOG_OF_SOFTMAX = (
    "You took the logarithm of a softmax. Where the right token is very improbable, its "
    "probability is 0 in float32, and the loss is infinite. Compute the log-probability without "
    "the probability."
)
_ONE_MAXIMUM = (
    "You subtracted the greatest logit of the whole batch. Where all logits of a place lie far "
    "below it, every exponential is 0 and the logarithm minus infinity. Each place needs the "
    "maximum of its own."
)
_NOT_0 = (
    "You told the scored places by their losses: those that are not 0. Where the model is sure "
    "and right, the loss of a scored place is 0 too, and it counts. The labels say what is scored."
)
_EVERY_LABEL = (
    "You looked up every label at every place: with a colon as the first index, the result has "
    "the shape (n, n). Each place has one right token."
)
_SKIPS_0 = (
    "You left out label 0 as well. -100 alone marks a place that is not scored; which ids become "
    "-100 is decided where the batch is made."
)
_ROW_MEANS = (
    "You took the mean of each row, and then the mean of the means. A token of a short record "
    "then counts more than one of a long record. Take one mean, over all scored places."
)

MASKED = Exercise(
    id="14.1",
    title="Masked cross-entropy",
    parameters=("logits", "labels"),
    reference=_cross_entropy,
    chosen=(
        (torch.tensor([[[2.0, 0.0, 1.0]]]), torch.tensor([[0]])),
        (torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]), torch.tensor([[0, -100]])),
        (
            torch.tensor([[[1.0, 0.0], [0.0, 2.0]], [[0.5, 1.0], [3.0, 0.0]]]),
            torch.tensor([[1, 0], [1, -100]]),
        ),
        (
            torch.tensor([[[1.0, 0.0], [0.0, 2.0]], [[0.5, 1.0], [3.0, 0.0]]]),
            torch.tensor([[1, 1], [-100, -100]]),
        ),
        (torch.tensor([[[120.0, 118.0], [-120.0, -121.0]]]), torch.tensor([[1, 0]])),
        (torch.tensor([[[120.0, 118.0], [121.0, 119.0]]]), torch.tensor([[1, 0]])),
        (torch.tensor([[[150.0, 0.0], [0.0, 1.0]]]), torch.tensor([[1, 0]])),
        (torch.tensor([[[40.0, 0.0], [0.0, 1.0]]]), torch.tensor([[0, 0]])),
        (
            torch.tensor([[[0.0, 1.0], [2.0, 0.0], [1.0, 1.5]]]),
            torch.tensor([[-100, 1, 0]]),
        ),
        (
            torch.tensor([[[0.5, 1.0, 2.0]] * 3, [[1.0, -1.0, 0.5]] * 3]),
            torch.tensor([[2, 1, 0], [1, -100, -100]]),
        ),
    ),
    fresh=_fresh_logits,
    misconceptions=(
        Misconception(
            "mean_over_padding",
            "You divided by all places, padding included. The same records then have a smaller "
            "loss in a batch that is padded more.",
            lambda logits, labels: _each(logits, labels).mean().item(),
        ),
        Misconception(
            "padding_as_token_0",
            "You scored padding, as if its right token were 0. The model would be taught to write "
            "<PAD>, and the loss would count it.",
            lambda logits, labels: _each(logits, labels.clamp(min=0)).mean().item(),
        ),
        Misconception(
            "mean_of_row_means",
            _ROW_MEANS,
            lambda logits, labels: _row_means(_each(logits, labels), labels).mean().item(),
        ),
        Misconception(
            "mean_of_row_means_without_a_division_by_0",
            _ROW_MEANS,
            lambda logits, labels: (
                _row_means(_each(logits, labels), labels, least=1).mean().item()
            ),
        ),
        Misconception(
            "mean_of_the_means_of_scored_rows",
            _ROW_MEANS,
            lambda logits, labels: _row_means(_each(logits, labels), labels).nanmean().item(),
        ),
        Misconception(
            "sum_of_the_losses",
            "You returned the sum. It grows with the batch; the task asks for the mean over the "
            "scored places.",
            lambda logits, labels: _each(logits, labels).sum().item(),
        ),
        Misconception(
            "divided_by_rows",
            "You divided the sum by the number of rows. Long records then have a larger loss than "
            "short ones at the same quality; divide by the scored places.",
            lambda logits, labels: (_each(logits, labels).sum() / len(labels)).item(),
        ),
        Misconception(
            "exponentials_overflow",
            _OVERFLOW,
            _exponentials(lambda logits: 0.0),
        ),
        Misconception("exponentials_overflow_to_infinity", _OVERFLOW, _infinite),
        Misconception("logarithm_of_softmax", _LOG_OF_SOFTMAX, _log_of_softmax),
        Misconception(
            "one_maximum_for_all",
            _ONE_MAXIMUM,
            _exponentials(Tensor.max),
        ),
        Misconception(
            "one_maximum_for_all_to_infinity",
            _ONE_MAXIMUM,
            lambda logits, labels: _infinite(logits - logits.max(), labels),
        ),
        Misconception(
            "maximum_not_added_again",
            "You subtracted the maximum under the logarithm and not from the right token's logit. "
            "It has to leave both or neither: subtract it first of all, or add it again at the "
            "end.",
            _maximum_not_added,
        ),
        Misconception("losses_that_are_not_0", _NOT_0, _not_0),
        Misconception(
            "every_label_at_every_place",
            _EVERY_LABEL,
            lambda logits, labels: _every_label(logits, labels).mean().item(),
        ),
        Misconception(
            "mean_over_the_vocabulary",
            "You averaged over the vocabulary too. At each place one token has a loss, the right "
            "one; the mean is over the scored places.",
            lambda logits, labels: _cross_entropy(logits, labels) / logits.shape[-1],
        ),
        Misconception(
            "probabilities_without_a_logarithm",
            "You averaged minus the probability of the right token. Without the logarithm it "
            "hardly matters whether that probability is 1 in 100 or 1 in a million.",
            lambda logits, labels: -_right(logits, labels).mean().item(),
        ),
        Misconception(
            "logarithm_of_the_mean",
            "You averaged the probabilities and took the logarithm then. The logarithm comes "
            "first: it is the log-probabilities that add up over a record.",
            lambda logits, labels: -_right(logits, labels).mean().log().item(),
        ),
        Misconception(
            "bits",
            "You used the logarithm to base 2. That is the loss in bits; the task asks for nats, "
            "the natural logarithm.",
            lambda logits, labels: _cross_entropy(logits, labels) / math.log(2),
        ),
        Misconception(
            "base_10",
            "You used the logarithm to base 10. The task asks for the natural logarithm.",
            lambda logits, labels: _cross_entropy(logits, labels) / math.log(10),
        ),
        Misconception(
            "opposite_sign",
            "Your loss is negative: it is the mean log-probability. Training makes the loss "
            "small, so it would make the right tokens improbable.",
            lambda logits, labels: -_cross_entropy(logits, labels),
        ),
        Misconception(
            "logits_without_softmax",
            "You took the logits themselves for log-probabilities. A model could then lower its "
            "loss by adding the same number to all logits, and learn nothing.",
            _without_softmax,
        ),
        Misconception(
            "softmax_over_the_positions",
            "Your softmax runs over the positions. The probabilities of one place, over the "
            "vocabulary, sum to 1.",
            _over_the_positions,
        ),
        Misconception(
            "shifted_again",
            "You compared each place with the label of the next one. Here the decoder's input was "
            "shifted already, so the logits and the label of one place belong together.",
            _one_step_late,
        ),
        Misconception(
            "skips_label_0",
            _SKIPS_0,
            lambda logits, labels: _cross_entropy(logits, labels.masked_fill(labels == 0, -100)),
        ),
        Misconception(
            "minus_100_as_an_index",
            "You used -100 as an index. In a small vocabulary that raises; in one of more than "
            "100 tokens it silently scores the token that stands 100 before the end. Leave those "
            "places out before you look anything up.",
            _negative_index,
        ),
        Misconception(
            "gathers_at_minus_100",
            "You asked gather or one_hot for the token -100. It raises: there is no such token. "
            "Leave those places out first, or put any id there and mask the result.",
            _gather,
        ),
    ),
    hints=(
        "Begin with the mask: labels != -100. With it you can pick the scored places out of both "
        "tensors, and what is left has no padding.",
        "The log-probability of a token is its logit minus the logarithm of the sum of all "
        "exponentials. Subtract the greatest logit of the place from all of them first.",
        "torch.arange(n) as the first index and the n right tokens as the second pick one number "
        "a row. Then one mean.",
    ),
    tolerance=FLOAT32,
)


# 14.2 Label smoothing


def _smoothed(logits: Tensor, labels: Tensor, smoothing: float) -> float:
    """The reference: PyTorch's own, in double precision."""
    return cross_entropy(logits.double(), labels, label_smoothing=smoothing).item()


def _parts_of(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, int]:
    """The loss of the right token, the sum over all tokens, at each scored place; the vocab."""
    scored = labels != NOT_SCORED
    log_p = logits[scored].double().log_softmax(-1)
    right = -log_p.gather(-1, labels[scored][:, None])[:, 0]
    return right, -log_p.sum(-1), logits.shape[-1]


def _mixed(
    mix: Callable[[Tensor, Tensor, int, float], Tensor],
) -> Callable[[Tensor, Tensor, float], float]:
    """A mixture of the right token's loss and the sum over all, averaged over scored places."""
    return lambda logits, labels, smoothing: (
        mix(*_parts_of(logits, labels), smoothing).mean().item()
    )


def _padding_smoothed(logits: Tensor, labels: Tensor, smoothing: float) -> float:
    right, _, _ = _parts_of(logits, labels)
    spread = -logits.double().log_softmax(-1).mean()
    return ((1 - smoothing) * right.mean() + smoothing * spread).item()


def _padding_smoothed_and_counted(logits: Tensor, labels: Tensor, smoothing: float) -> float:
    right, _, _ = _parts_of(logits, labels)
    spread = -logits.double().log_softmax(-1).mean(-1)
    return (((1 - smoothing) * right.sum() + smoothing * spread.sum()) / len(labels)).item()


def _padding_counted(logits: Tensor, labels: Tensor, smoothing: float) -> float:
    scored = (labels != NOT_SCORED).sum().item()
    return _smoothed(logits, labels, smoothing) * scored / len(labels)


def _predictions_smoothed(logits: Tensor, labels: Tensor, smoothing: float) -> float:
    right, _, vocab = _parts_of(logits, labels)
    return -((1 - smoothing) * (-right).exp() + smoothing / vocab).log().mean().item()


def _smoothed_by(log_softmax: Callable[[Tensor], Tensor]) -> Callable[..., float]:
    """The smoothed loss in float32, with another way to the log-probabilities."""

    def loss(logits: Tensor, labels: Tensor, smoothing: float) -> float:
        scored = labels != NOT_SCORED
        log_p = log_softmax(logits[scored])
        right = -log_p.gather(-1, labels[scored][:, None])[:, 0]
        return ((1 - smoothing) * right - smoothing * log_p.mean(-1)).mean().item()

    return loss


def _every_label_smoothed(logits: Tensor, labels: Tensor, smoothing: float) -> float:
    _, every, vocab = _parts_of(logits, labels)
    right = _every_label(logits, labels).mean()
    return ((1 - smoothing) * right + smoothing * every.mean() / vocab).item()


def _divergence(logits: Tensor, labels: Tensor, smoothing: float) -> float:
    scored = labels != NOT_SCORED
    log_p = logits[scored].double().log_softmax(-1)
    target = torch.full_like(log_p, smoothing / log_p.shape[-1])
    target[torch.arange(len(target)), labels[scored]] += 1 - smoothing
    return kl_div(log_p, target, reduction="batchmean").item()


def _fresh_smoothing(rng: random.Random) -> Arguments:
    n, vocab = rng.randint(2, 4), rng.randint(3, 4)
    labels = torch.tensor([rng.randrange(vocab) for _ in range(n)])
    if rng.random() < 0.5:
        labels[rng.randrange(1, n)] = NOT_SCORED
    return _numbers(rng, n, vocab), labels, rng.choice((0.05, 0.1, 0.2, 0.3, 0.6))


_S3 = torch.tensor([[2.0, 0.0, 1.0], [0.0, 0.5, -1.0], [1.0, 3.0, 0.0]])

SMOOTHED = Exercise(
    id="14.2",
    title="Label smoothing",
    parameters=("logits", "labels", "smoothing"),
    reference=_smoothed,
    chosen=(
        (torch.tensor([[2.0, 0.0]]), torch.tensor([0]), 0.1),
        (torch.tensor([[2.0, 0.0]]), torch.tensor([1]), 0.4),
        (_S3, torch.tensor([0, 1, 2]), 0.0),
        (_S3, torch.tensor([0, 1, 2]), 0.1),
        (_S3, torch.tensor([0, -100, 2]), 0.1),
        (_S3, torch.tensor([1, -100, -100]), 0.3),
        (_S3, torch.tensor([-100, 2, 1]), 1.0),
        (torch.tensor([[90.0, 0.0, -90.0], [-1.0, 0.0, 1.0]]), torch.tensor([0, 1]), 0.2),
        (torch.tensor([[120.0, 118.0, 119.0]]), torch.tensor([1]), 0.2),
        (torch.tensor([[40.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]), 0.0),
    ),
    fresh=_fresh_smoothing,
    misconceptions=(
        Misconception(
            "wrong_tokens_alone",
            "You spread the smoothing over the wrong tokens alone, vocab - 1 of them. In the "
            "definition of this task, which is PyTorch's, the right token gets its share as well: "
            "all vocab tokens do.",
            _mixed(lambda right, every, k, e: (1 - e) * right + e / (k - 1) * (every - right)),
        ),
        Misconception(
            "right_token_loses_its_share",
            "You gave each wrong token smoothing / vocab and left the right one at 1 - smoothing. "
            "Your target sums to less than 1: the right token's own share of what is spread is "
            "missing.",
            _mixed(lambda right, every, k, e: (1 - e) * right + e / k * (every - right)),
        ),
        Misconception(
            "adds_without_taking_away",
            "You spread the smoothing over all tokens and took nothing from the right one. Your "
            "target sums to more than 1.",
            _mixed(lambda right, every, k, e: right + e / k * every),
        ),
        Misconception(
            "nothing_is_spread",
            "You multiplied the loss by 1 - smoothing and spread nothing. A constant factor does "
            "not change what the model is taught, only how large a step is.",
            _mixed(lambda right, every, k, e: (1 - e) * right),
        ),
        Misconception(
            "weights_swapped",
            "You gave the right token the weight smoothing and the spread 1 - smoothing. At 0.1 "
            "the model is taught an almost even distribution.",
            _mixed(lambda right, every, k, e: e * right + (1 - e) * every / k),
        ),
        Misconception(
            "each_token_gets_all_of_it",
            "You gave every token the whole smoothing in place of an equal share of it. Your "
            "target sums to more than 1, the more so the larger the vocabulary.",
            _mixed(lambda right, every, k, e: (1 - e) * right + e * every),
        ),
        Misconception(
            "each_wrong_token_gets_all_of_it",
            "You gave the right token 1 - smoothing and every wrong one the whole smoothing. Your "
            "target sums to more than 1 where there are more than two tokens. What is spread is "
            "divided evenly among all tokens.",
            _mixed(lambda right, every, k, e: (1 - e) * right + e * (every - right)),
        ),
        Misconception(
            "not_smoothed",
            "Your loss does not depend on smoothing: it is the plain cross-entropy.",
            _mixed(lambda right, every, k, e: right),
        ),
        Misconception(
            "always_a_tenth",
            "You smooth by 0.1, whatever is asked for. The amount is a parameter.",
            _mixed(lambda right, every, k, e: 0.9 * right + 0.1 * every / k),
        ),
        Misconception(
            "logarithm_of_softmax",
            _LOG_OF_SOFTMAX,
            _smoothed_by(lambda rows: rows.softmax(-1).log()),
        ),
        Misconception(
            "exponentials_overflow",
            _OVERFLOW,
            _smoothed_by(lambda rows: (rows.exp() / rows.exp().sum(-1, keepdim=True)).log()),
        ),
        Misconception(
            "exponentials_overflow_to_infinity",
            _OVERFLOW,
            _smoothed_by(lambda rows: rows - rows.exp().sum(-1, keepdim=True).log()),
        ),
        Misconception(
            "predictions_smoothed",
            "You mixed the model's probabilities with an even distribution, and took the "
            "logarithm then. Smoothing changes the target, not the prediction.",
            _predictions_smoothed,
        ),
        Misconception("every_label_at_every_place", _EVERY_LABEL, _every_label_smoothed),
        Misconception(
            "skips_label_0",
            _SKIPS_0,
            lambda logits, labels, smoothing: _smoothed(
                logits, labels.masked_fill(labels == 0, NOT_SCORED), smoothing
            ),
        ),
        Misconception(
            "padding_is_smoothed",
            "The spread part of your loss runs over all positions, those labelled -100 too. "
            "Neither part of the loss looks at them.",
            _padding_smoothed,
        ),
        Misconception(
            "padding_is_smoothed_and_counted",
            "Your loss looks at positions labelled -100 in the spread part, and divides by them. "
            "Leave them out first, then smooth.",
            _padding_smoothed_and_counted,
        ),
        Misconception(
            "padding_as_token_0",
            "You scored positions labelled -100, as if their right token were 0. Leave them out.",
            lambda logits, labels, smoothing: _smoothed(logits, labels.clamp(min=0), smoothing),
        ),
        Misconception(
            "mean_over_the_vocabulary",
            "You averaged over the vocabulary too. The products of target and log-probability add "
            "up over the vocabulary; the mean is over the positions.",
            lambda logits, labels, smoothing: (
                _smoothed(logits, labels, smoothing) / logits.shape[-1]
            ),
        ),
        Misconception(
            "padding_is_counted",
            "You divided by all positions. Those labelled -100 are not scored; divide by the "
            "others.",
            _padding_counted,
        ),
        Misconception(
            "sum_of_the_losses",
            "You returned the sum. The task asks for the mean over the scored positions.",
            lambda logits, labels, smoothing: (
                _smoothed(logits, labels, smoothing) * (labels != NOT_SCORED).sum().item()
            ),
        ),
        Misconception(
            "divergence_in_place_of_cross_entropy",
            "You computed a Kullback-Leibler divergence: the cross-entropy minus the entropy of "
            "the target. Its gradient is the same, and its value is another number.",
            _divergence,
        ),
        Misconception(
            "bits",
            "You used the logarithm to base 2. The task asks for nats, the natural logarithm.",
            lambda logits, labels, smoothing: _smoothed(logits, labels, smoothing) / math.log(2),
        ),
        Misconception(
            "opposite_sign",
            "Your loss is negative: it is the mean log-probability, and a training would make it "
            "smaller still.",
            lambda logits, labels, smoothing: -_smoothed(logits, labels, smoothing),
        ),
    ),
    hints=(
        "Write down the target for a vocabulary of 4 and a smoothing of 0.1. Its four numbers sum "
        "to 1, and three of them are equal.",
        "A cross-entropy with such a target is minus the sum of target times log-probability. "
        "Leave out the positions labelled -100 before that.",
        "The same as a mixture: 1 - smoothing times the loss of the right token, and smoothing "
        "times the mean over all tokens of minus the log-probability.",
    ),
    tolerance=FLOAT32,
)


# 14.3 One loss over unequal parts

Parts = Sequence[tuple[Tensor, Tensor]]


def _whole(parts: Parts) -> list[float]:
    """The reference, number by number."""
    sums, count = [], 0
    for losses, labels in parts:
        total = 0.0
        for loss, label in zip(losses.flatten().tolist(), labels.flatten().tolist(), strict=True):
            if label != NOT_SCORED:
                total += loss
                count += 1
        sums.append(total)
    return [total / count for total in sums]


def _sum_and_count(part: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    losses, labels = part
    scored = labels != NOT_SCORED
    return losses[scored].sum(), scored.sum()


def _divided(divisor: Callable[[Parts, int], object]) -> Callable[[Parts], list[float]]:
    """The sum of each part, divided by what divisor says for its place."""

    def losses(parts: Parts) -> list[float]:
        divisors = [torch.as_tensor(divisor(parts, place)) for place in range(len(parts))]
        return [
            (_sum_and_count(part)[0] / by).item() for part, by in zip(parts, divisors, strict=True)
        ]

    return losses


def _count(parts: Parts) -> Tensor:
    return torch.stack([_sum_and_count(part)[1] for part in parts]).sum()


def _own(parts: Parts, place: int, *, least: int = 0) -> Tensor:
    return _sum_and_count(parts[place])[1].clamp(min=least)


def _means_by_rows(parts: Parts, *, least: int) -> list[float]:
    rows = sum(len(labels) for _, labels in parts)
    means = _divided(lambda given, place: _own(given, place, least=least))(parts)
    return [mean * len(part[1]) / rows for mean, part in zip(means, parts, strict=True)]


def _means_back(parts: Parts) -> list[float]:
    count = _count(parts).item()
    means = _divided(_own)(parts)
    return [mean * _own(parts, i).item() / count for i, mean in enumerate(means)]


def _padding_scored(parts: Parts) -> list[float]:
    places = sum(labels.numel() for _, labels in parts)
    return [(losses.sum() / places).item() for losses, _ in parts]


def _not_0_divided(parts: Parts) -> list[float]:
    n_not_0 = sum((losses[labels != NOT_SCORED] != 0).sum().item() for losses, labels in parts)
    return _divided(lambda given, place: n_not_0)(parts)


def _n_with_scored(parts: Parts) -> int:
    return sum(bool((labels != NOT_SCORED).any()) for _, labels in parts)


def _added_up(parts: Parts) -> list[float]:
    return list(accumulate(_whole(parts)))


def _without_empty_parts(parts: Parts) -> list[float]:
    return _whole([part for part in parts if (part[1] != NOT_SCORED).any()])


def _label_0_skipped(parts: Parts) -> list[float]:
    return _whole([(losses, labels.masked_fill(labels == 0, -100)) for losses, labels in parts])


def _fresh_parts(rng: random.Random) -> Arguments:
    parts = []
    for _ in range(rng.randint(2, 3)):
        rows, length = rng.randint(1, 2), rng.randint(1, 3)
        losses = torch.tensor([rng.randint(1, 60) / 10 for _ in range(rows * length)])
        parts.append((losses.reshape(rows, length), _labels(rng, rows, length, 30)))
    return (parts,)


def _part(losses: list[list[float]], labels: list[list[int]]) -> tuple[Tensor, Tensor]:
    return torch.tensor(losses), torch.tensor(labels)


_MEAN_OF_MEANS = (
    "You took the mean of each part and divided by the number of parts: a mean of means. A token "
    "of a short part then counts more than one of a long part, and the gradient is not that of "
    "the batch."
)
_OWN_MEANS = (
    "You took the mean of each part. Their sum is not the loss of the batch: it grows with the "
    "number of parts."
)
_BY_ROWS = (
    "You weighted the mean of each part by its rows. Records have different lengths, so a part "
    "with many rows may have few tokens. What is counted here are scored tokens."
)

PARTS = Exercise(
    id="14.3",
    title="One loss over unequal parts",
    parameters=("parts",),
    reference=_whole,
    chosen=(
        ([_part([[1.0, 3.0]], [[7, 8]]), _part([[2.0, 9.0]], [[8, -100]])],),
        ([_part([[2.0, 4.0, 3.0]], [[1, 9, 2]])],),
        (
            [
                _part([[6.0]], [[2]]),
                _part([[1.0, 2.0, 3.0], [2.0, 5.0, 5.0]], [[1, 9, 2], [2] * 3]),
            ],
        ),
        (
            [
                _part([[1.0, 2.0], [3.0, 8.0]], [[0, 2], [1, -100]]),
                _part([[5.0, 1.0, 1.0]], [[1, 9, 2]]),
                _part([[4.0], [2.0], [9.0]], [[1], [2], [-100]]),
            ],
        ),
        ([_part([[3.0, 7.0]], [[-100, -100]]), _part([[2.0, 5.0]], [[1, 2]])],),
        ([_part([[0.0, 3.0]], [[4, 1]]), _part([[2.0]], [[5]])],),
    ),
    fresh=_fresh_parts,
    misconceptions=(
        Misconception("mean_of_each_part", _OWN_MEANS, _divided(_own)),
        Misconception(
            "mean_of_each_part_without_a_division_by_0",
            _OWN_MEANS,
            _divided(lambda parts, place: _own(parts, place, least=1)),
        ),
        Misconception(
            "mean_of_means",
            _MEAN_OF_MEANS,
            _divided(lambda parts, place: _own(parts, place) * len(parts)),
        ),
        Misconception(
            "mean_of_means_without_a_division_by_0",
            _MEAN_OF_MEANS,
            _divided(lambda parts, place: _own(parts, place, least=1) * len(parts)),
        ),
        Misconception(
            "mean_of_the_means_of_scored_parts",
            _MEAN_OF_MEANS,
            _divided(lambda parts, place: _own(parts, place, least=1) * _n_with_scored(parts)),
        ),
        Misconception(
            "sums",
            "You returned the sums. They have to be divided by the number of scored tokens in "
            "all parts together.",
            _divided(lambda parts, place: 1),
        ),
        Misconception(
            "divided_by_the_parts",
            "You divided each sum by the number of parts. Each sum is to be divided by the number "
            "of scored tokens in all parts together.",
            _divided(lambda parts, place: len(parts)),
        ),
        Misconception(
            "divided_by_the_rows",
            "You divided by the number of rows in all parts. A row has many tokens; what is "
            "counted here are scored tokens.",
            _divided(lambda parts, place: sum(len(labels) for _, labels in parts)),
        ),
        Misconception(
            "counts_padding",
            "You divided by all places, padding included. The loss then depends on how much a "
            "part is padded.",
            _divided(lambda parts, place: sum(labels.numel() for _, labels in parts)),
        ),
        Misconception("skips_label_0", _SKIPS_0, _label_0_skipped),
        Misconception("losses_that_are_not_0", _NOT_0, _not_0_divided),
        Misconception(
            "part_left_out",
            "You left out the part that has no scored place. The list has one number for each "
            "part; that part contributes 0.",
            _without_empty_parts,
        ),
        Misconception(
            "added_up_so_far",
            "Each number of your list holds those of the parts before it as well. The caller adds "
            "the numbers up; give what each part contributes alone.",
            _added_up,
        ),
        Misconception(
            "adds_up_padding",
            "You added up what stands on padding, too. Where the label is -100, the number in "
            "losses means nothing.",
            _padding_scored,
        ),
        Misconception(
            "last_count",
            "You divided every sum by the count of the last part. A variable that each turn of a "
            "loop sets anew holds the last value after it.",
            _divided(lambda parts, place: _own(parts, -1)),
        ),
        Misconception(
            "first_count",
            "You divided every sum by the count of the first part. The parts have different "
            "numbers of scored tokens.",
            _divided(lambda parts, place: _own(parts, 0)),
        ),
        Misconception(
            "count_so_far",
            "You divided by the tokens counted so far: the first part by its own, the last one by "
            "all. The count of the whole batch has to be known before the first part.",
            _divided(lambda parts, place: _count(parts[: place + 1])),
        ),
        Misconception(
            "means_weighted_by_rows", _BY_ROWS, lambda parts: _means_by_rows(parts, least=0)
        ),
        Misconception(
            "means_weighted_by_rows_without_a_division_by_0",
            _BY_ROWS,
            lambda parts: _means_by_rows(parts, least=1),
        ),
        Misconception(
            "nothing_times_nan",
            "You divide by the count of a part and multiply by it again. For a part without a "
            "scored token that is 0 / 0, which is nan. Its share of the loss is 0.",
            _means_back,
        ),
        Misconception(
            "one_number",
            "You returned the loss of the whole batch. The task asks for a list: what each part "
            "contributes to it, in the order of the parts.",
            lambda parts: sum(_whole(parts)),
        ),
    ),
    hints=(
        "Parts add up to the whole if all of them are divided by the same number. Which number "
        "is it for the whole batch?",
        "Go over the parts twice: once to count the scored tokens, once to add up their losses.",
        "(labels != -100).sum() counts one part; add that up over all parts before you divide.",
    ),
    tolerance=FLOAT32,
)


# 14.4 A penalty with a gradient

Penalty = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[float, Tensor]]


def _penalty(logits: Tensor, read: Tensor, never: Tensor, labels: Tensor) -> tuple[float, Tensor]:
    """The reference: loops, and the gradient by the rule for a softmax."""
    batch, length, vocab = logits.shape
    scored = [(b, t) for b in range(batch) for t in range(length) if labels[b, t] != NOT_SCORED]
    value, gradient = 0.0, torch.zeros(batch, length, vocab, dtype=torch.float64)
    for b, t in scored:
        exponentials = [math.exp(logit) for logit in logits[b, t].tolist()]
        p = [e / sum(exponentials) for e in exponentials]
        past = read[b, : t + 1].tolist()
        forbidden = [any(bool(never[token, j]) for token in past) for j in range(vocab)]
        mass = sum(p[j] for j in range(vocab) if forbidden[j])
        value += mass / len(scored)
        for j in range(vocab):
            gradient[b, t, j] = p[j] * (forbidden[j] - mass) / len(scored)
    return value, gradient


def _by_autograd(formula: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]) -> Penalty:
    """A formula's value and its gradient, zeros where it has none."""

    def value_and_gradient(
        logits: Tensor, read: Tensor, never: Tensor, labels: Tensor
    ) -> tuple[float, Tensor]:
        given = logits.double().requires_grad_()
        value = formula(given, read, never, labels)
        if not value.requires_grad:
            return value.item(), torch.zeros_like(given)
        return value.item(), torch.autograd.grad(value, given)[0]

    return value_and_gradient


def _so_far(read: Tensor, never: Tensor) -> Tensor:
    return never[read].cummax(dim=1).values  # (batch, length, vocab)


def _mass(
    forbidden: Callable[[Tensor, Tensor, Tensor], Tensor] = lambda read, never, labels: _so_far(
        read, never
    ),
    scores: Callable[[Tensor], Tensor] = lambda logits: logits.softmax(-1),
    mean: Callable[[Tensor, Tensor], Tensor] = lambda mass, scored: mass[scored].mean(),
) -> Penalty:
    """The penalty with one of its three parts exchanged."""
    return _by_autograd(
        lambda logits, read, never, labels: mean(
            (scores(logits) * forbidden(read, never, labels)).sum(-1), labels != NOT_SCORED
        )
    )


def _constant(
    chosen: Callable[[Tensor, Tensor, Tensor], Tensor], *, from_next: bool = False
) -> Penalty:
    """How many of the chosen ids are forbidden, as a share of the scored places."""

    def formula(logits: Tensor, read: Tensor, never: Tensor, labels: Tensor) -> Tensor:
        forbidden = _so_far(read, never)
        ids = chosen(logits, read, labels)
        hit = forbidden.gather(-1, ids[..., None])[..., 0].double()
        return hit[labels != NOT_SCORED].mean()

    return _by_autograd(formula)


def _reads_the_target(read: Tensor, never: Tensor, labels: Tensor) -> Tensor:
    return _so_far(read, never) | never[labels.clamp(min=0)]


def _token_before(read: Tensor, never: Tensor, labels: Tensor) -> Tensor:
    forbidden = _so_far(read, never)
    return torch.cat([torch.zeros_like(forbidden[:, :1]), forbidden[:, :-1]], dim=1)


def _whole_record(read: Tensor, never: Tensor, labels: Tensor) -> Tensor:
    return never[read].any(dim=1, keepdim=True).expand(*read.shape, len(never))


def _symmetric(rng: random.Random, vocab: int) -> Tensor:
    """Pairs of tokens, none of them with token 0, which is padding."""
    never = torch.zeros(vocab, vocab, dtype=torch.bool)
    pairs = [(i, j) for i in range(1, vocab) for j in range(i + 1, vocab)]
    for i, j in rng.sample(pairs, rng.randint(2, 4)):
        never[i, j] = never[j, i] = True
    return never


def _fresh_penalty(rng: random.Random) -> Arguments:
    vocab, batch, length = 5, 2, rng.randint(2, 3)
    labels = _labels(rng, batch, length, vocab - 1)
    labels[labels >= 0] += 1
    read = torch.zeros(batch, length, dtype=torch.long)
    read[:, 0] = torch.tensor([rng.randrange(1, vocab) for _ in range(batch)])
    read[:, 1:] = labels[:, :-1].clamp(min=0)
    return _numbers(rng, batch, length, vocab, up_to=20), read, _symmetric(rng, vocab), labels


def _pairs(vocab: int, *pairs: tuple[int, int]) -> Tensor:
    never = torch.zeros(vocab, vocab, dtype=torch.bool)
    for i, j in pairs:
        never[i, j] = never[j, i] = True
    return never


_L3 = torch.tensor([[[0.0, 1.0, 0.5, -0.5], [1.0, 0.0, 2.0, 0.5], [0.5, 0.5, 0.0, 1.0]]])
_TWO = torch.tensor(
    [
        [[0.0, 2.0, 1.0, 0.0], [1.0, 0.0, -1.0, 2.0], [0.0, 1.0, 0.0, 0.5]],
        [[0.5, 0.0, 1.0, 1.0], [2.0, 0.0, 1.0, 0.0], [0.0, 3.0, 0.0, 1.0]],
    ]
)

PENALTY = Exercise(
    id="14.4",
    title="A penalty with a gradient",
    parameters=("logits", "read", "never", "labels"),
    reference=_penalty,
    chosen=(
        (
            torch.tensor([[[0.0, 1.0, 2.0]]]),
            torch.tensor([[1]]),
            _pairs(3, (1, 2)),
            torch.tensor([[1]]),
        ),
        (_L3, torch.tensor([[1, 2, 3]]), _pairs(4, (1, 3)), torch.tensor([[2, 3, 3]])),
        (_L3, torch.tensor([[1, 2, 2]]), _pairs(4, (1, 3), (2, 3)), torch.tensor([[2, 2, 1]])),
        (_L3, torch.tensor([[2, 1, 0]]), _pairs(4, (1, 3)), torch.tensor([[1, 2, -100]])),
        (
            _TWO,
            torch.tensor([[1, 3, 2], [2, 1, 0]]),
            _pairs(4, (1, 3), (1, 2)),
            torch.tensor([[3, 2, 3], [1, -100, -100]]),
        ),
        (_L3, torch.tensor([[1, 2, 3]]), _pairs(4), torch.tensor([[2, 3, 3]])),
        (_L3, torch.tensor([[1, 2, 3]]), _pairs(4, (1, 3)), torch.tensor([[2, 0, 3]])),
    ),
    fresh=_fresh_penalty,
    misconceptions=(
        Misconception(
            "most_probable_token",
            "You looked whether the most probable token is forbidden. A comparison has no "
            "gradient: the penalty is a number beside the loss, and no weight moves because of "
            "it. Add up probabilities.",
            _constant(lambda logits, read, labels: logits.argmax(-1)),
        ),
        Misconception(
            "detached",
            "The value is right, and its gradient is zero. Something cuts the way back to the "
            "logits: detach, no_grad, item, numpy, or a new torch.tensor of the values.",
            _by_autograd(
                lambda logits, read, never, labels: (
                    (logits.detach().softmax(-1) * _so_far(read, never))
                    .sum(-1)[labels != NOT_SCORED]
                    .mean()
                )
            ),
        ),
        Misconception(
            "penalises_what_is_read",
            "You looked whether what has been read is forbidden. That was written before the "
            "model was asked, so there is nothing in it to learn from. Penalise what the model "
            "predicts next.",
            _constant(lambda logits, read, labels: read),
        ),
        Misconception(
            "penalises_the_labels",
            "You looked whether the labels are forbidden. They are given, so there is nothing in "
            "them to learn from. Penalise what the model predicts.",
            _constant(lambda logits, read, labels: labels.clamp(min=0)),
        ),
        Misconception(
            "sums_logits",
            "You added up logits. They have no lower end, so this can be lowered for ever. "
            "Probabilities end at 0.",
            _mass(scores=lambda logits: logits),
        ),
        Misconception(
            "sums_log_probabilities",
            "You added up log-probabilities. They are lowest where forbidden tokens are least "
            "probable already, and have no lower end. Add up the probabilities themselves.",
            _mass(scores=lambda logits: logits.log_softmax(-1)),
        ),
        Misconception(
            "sigmoid",
            "You used a sigmoid for each token. The model chooses one token among all: its "
            "probabilities come from a softmax over the vocabulary.",
            _mass(scores=lambda logits: logits.sigmoid()),
        ),
        Misconception(
            "skips_label_0",
            _SKIPS_0,
            lambda logits, read, never, labels: _penalty(
                logits, read, never, labels.masked_fill(labels == 0, NOT_SCORED)
            ),
        ),
        Misconception(
            "reads_the_labels",
            "You used the labels as what has been read. They stand one place further on: the "
            "label of a position is what the model shall predict there, and read has what came "
            "before.",
            _mass(lambda read, never, labels: _so_far(labels.clamp(min=0), never)),
        ),
        Misconception(
            "scores_padding",
            "You averaged over all positions. Those labelled -100 are not scored: after a short "
            "record, nobody asks what the model would write.",
            _mass(mean=lambda mass, scored: mass.mean()),
        ),
        Misconception(
            "divides_by_padding",
            "You left the padding out of the sum and divided by it all the same. Divide by the "
            "scored positions.",
            _mass(mean=lambda mass, scored: mass[scored].sum() / scored.numel()),
        ),
        Misconception(
            "sum_over_positions",
            "You returned the sum. The task asks for the mean over the scored positions.",
            _mass(mean=lambda mass, scored: mass[scored].sum()),
        ),
        Misconception(
            "mean_of_row_means",
            "You took the mean of each row, and then the mean of the means. Take one mean, over "
            "all scored positions.",
            _mass(mean=lambda mass, scored: ((mass * scored).sum(-1) / scored.sum(-1)).mean()),
        ),
        Misconception(
            "mean_over_the_vocabulary",
            "You averaged over the vocabulary. The probabilities of all forbidden tokens add up "
            "at each position; the mean is over the positions.",
            _mass(
                mean=lambda mass, scored: mass[scored].mean(),
                scores=lambda logits: logits.softmax(-1) / logits.shape[-1],
            ),
        ),
        Misconception(
            "mean_over_the_forbidden",
            "You averaged over the forbidden tokens. Their probabilities add up at each position, "
            "so that ten of them count more than one; the mean is over the positions.",
            _mass(
                lambda read, never, labels: (
                    _so_far(read, never) / _so_far(read, never).sum(-1, keepdim=True).clamp(min=1)
                )
            ),
        ),
        Misconception(
            "likeliest_forbidden_token_alone",
            "You took the most probable of the forbidden tokens at each position. The "
            "probabilities of all of them add up.",
            _by_autograd(
                lambda logits, read, never, labels: (
                    (logits.softmax(-1) * _so_far(read, never))
                    .amax(-1)[labels != NOT_SCORED]
                    .mean()
                )
            ),
        ),
        Misconception(
            "weighted",
            "You multiplied by the weight 0.05. The task asks for the penalty itself; its weight "
            "is applied where the terms are added up.",
            _mass(mean=lambda mass, scored: 0.05 * mass[scored].mean()),
        ),
        Misconception(
            "opposite_sign",
            "Your penalty is negative. A training makes it small, so it would make forbidden "
            "tokens more probable.",
            _mass(mean=lambda mass, scored: -mass[scored].mean()),
        ),
        Misconception(
            "forbids_what_was_read",
            "You added up the probabilities of tokens that were read already. A token does not "
            "forbid itself: never says which others it forbids.",
            _mass(
                lambda read, never, labels: (
                    (read[..., None] == torch.arange(len(never))).cummax(dim=1).values
                )
            ),
        ),
        Misconception(
            "last_token_alone",
            "You looked at the token that was read last. A record is forbidden a token by any of "
            "those that it has already, from the first one on.",
            _mass(lambda read, never, labels: never[read]),
        ),
        Misconception(
            "one_token_late",
            "You left out the token that stands at the position itself. The decoder has read it "
            "when it predicts the next one: at position t it has read 0 to t.",
            _mass(_token_before),
        ),
        Misconception(
            "reads_ahead",
            "You used the tokens of the whole record at every position. At position t the "
            "decoder has read 0 to t, and those behind are what it has yet to write.",
            _mass(_whole_record),
        ),
        Misconception(
            "reads_the_target",
            "You used the label of a position to say what is forbidden there. The model has not "
            "read it: it is what the model shall predict.",
            _mass(_reads_the_target),
        ),
        Misconception(
            "counts_a_token_twice",
            "A token that two earlier ones forbid counts twice in your sum. It is forbidden or "
            "not; its probability is added once.",
            _mass(lambda read, never, labels: never[read].cumsum(1)),
        ),
        Misconception(
            "penalises_what_is_allowed",
            "You added up the probabilities of the tokens that are allowed. never is True where "
            "two tokens do not stand together.",
            _mass(lambda read, never, labels: ~_so_far(read, never)),
        ),
    ),
    hints=(
        "never[read] has the shape (batch, length, vocab): for each token read, which others it "
        "forbids. What do the tokens read so far forbid together?",
        "cummax along the positions keeps a True once it has come; it returns values and indices. "
        "Softmax makes probabilities of the logits.",
        "Multiply the two, sum over the vocabulary, pick the scored positions, take the mean. "
        "Nothing on this way may leave the graph.",
    ),
    tolerance=FLOAT32,
)


# 14.5 The total loss

Terms = Sequence[LossTerm]


def _total(terms: Terms, counts: dict[str, int]) -> float:
    """The reference, kind by kind."""
    of_tokens = sum(term.weight * term.total for term in terms if term.per == "token")
    of_rows = sum(term.weight * term.total for term in terms if term.per == "row")
    return of_tokens / counts["token"] + of_rows / counts["row"]


def _terms_with(
    *,
    weight: Callable[[LossTerm], float] = lambda term: term.weight,
    divisor: Callable[[LossTerm, dict[str, int]], float] = lambda term, counts: counts[term.per],
    keep: slice = slice(None),
) -> Callable[[Terms, dict[str, int]], float]:
    """The total with one of its parts exchanged."""
    return lambda terms, counts: sum(
        (weight(term) * term.total / divisor(term, counts) for term in terms[keep]), 0.0
    )


_KIND = {"language_model": "token"}
_OTHER = {"token": "row", "row": "token"}


def _fresh_terms(rng: random.Random) -> Arguments:
    rows = rng.randint(2, 4)
    tokens = rows * rng.randint(5, 9)
    own = rng.randint(2, tokens - 3)
    names = rng.sample(("age", "sex", "co_occurrence"), 2)
    kinds = zip(names, rng.sample(("token", "row"), 2), strict=True)
    terms = [LossTerm("language_model", rng.randint(10, 90) / 2, own, rng.choice((1.0, 2.0)))]
    for name, per in kinds:
        count = own if per == "token" else 1
        weight = rng.choice((0.1, 0.2, 0.5, 3.0))
        terms.append(LossTerm(name, rng.randint(4, 40) / 2, count, weight, per))
    return terms, {"token": tokens, "row": rows}


_LM = LossTerm("language_model", 30.0, 10)

TOTAL = Exercise(
    id="14.5",
    title="The total loss",
    parameters=("terms", "counts"),
    reference=_total,
    chosen=(
        ([_LM], {"token": 10, "row": 2}),
        ([_LM, LossTerm("age", 0.8, 2, 0.5, "row")], {"token": 10, "row": 2}),
        (
            [LossTerm("language_model", 30.0, 10, 0.5), LossTerm("sex", 8.0, 10, 0.2)],
            {"token": 20, "row": 5},
        ),
        (
            [
                LossTerm("language_model", 18.0, 6),
                LossTerm("age", 3.0, 1, 2.0, "row"),
                LossTerm("sex", 4.0, 6, 0.25),
            ],
            {"token": 24, "row": 3},
        ),
        (
            [LossTerm("age", 3.0, 2, 0.5, "row"), LossTerm("sex", 4.0, 8, 3.0)],
            {"token": 16, "row": 4},
        ),
        (
            [_LM, LossTerm("age", 6.0, 10, 0.5), LossTerm("sex", 2.0, 2, 0.2, "row")],
            {"token": 20, "row": 4},
        ),
        ([_LM, LossTerm("age", 6.0, 2, 0.0, "row")], {"token": 20, "row": 4}),
    ),
    fresh=_fresh_terms,
    misconceptions=(
        Misconception(
            "own_counts",
            "You divided each sum by the count of its own term. Those are the counts of this "
            "part of the batch; added up over the parts, that is a mean of means. Divide by the "
            "counts of the whole batch.",
            _terms_with(divisor=lambda term, counts: term.count),
        ),
        Misconception(
            "forgets_the_weights",
            "You left the weights out: every term counts the same.",
            _terms_with(weight=lambda term: 1.0),
        ),
        Misconception(
            "weights_twice",
            "You multiplied by each weight twice. The sums in the terms are not weighted yet, so "
            "once is enough.",
            _terms_with(weight=lambda term: term.weight**2),
        ),
        Misconception(
            "all_by_tokens",
            "You divided every term by the number of tokens. A term with one loss a row is "
            "divided by the rows; with long records it would nearly vanish.",
            _terms_with(divisor=lambda term, counts: counts["token"]),
        ),
        Misconception(
            "all_by_rows",
            "You divided every term by the number of rows. A term with one loss a token is "
            "divided by the tokens.",
            _terms_with(divisor=lambda term, counts: counts["row"]),
        ),
        Misconception(
            "tokens_and_rows_swapped",
            "You divided what is counted by rows by the tokens, and the other way round. "
            "term.per says which count a term belongs to.",
            _terms_with(divisor=lambda term, counts: counts[_OTHER[term.per]]),
        ),
        Misconception(
            "kind_guessed_from_the_name",
            "You divided the age by the rows and everything else by the tokens. An age head may "
            "answer at each token, and another one once a row: term.per says which.",
            _terms_with(
                divisor=lambda term, counts: counts["row" if term.name == "age" else "token"]
            ),
        ),
        Misconception(
            "heads_by_rows",
            "You divided the language model by the tokens and everything else by the rows. A "
            "head may answer at each token: term.per says what its losses are counted by.",
            _terms_with(divisor=lambda term, counts: counts[_KIND.get(term.name, "row")]),
        ),
        Misconception(
            "sums_not_divided",
            "You added up the sums without dividing them. The total then grows with the batch, "
            "and a term with many losses outweighs one with few.",
            _terms_with(divisor=lambda term, counts: 1),
        ),
        Misconception(
            "first_term_alone",
            "You returned the first term alone. The total has all of them.",
            _terms_with(keep=slice(1)),
        ),
        Misconception(
            "last_term_alone",
            "You returned the last term alone. A variable that each turn of a loop sets anew "
            "holds the last value after it.",
            _terms_with(keep=slice(-1, None)),
        ),
        Misconception(
            "first_term_missing",
            "The first term is missing from your total. A loop that starts at 1 leaves it out.",
            _terms_with(keep=slice(1, None)),
        ),
        Misconception(
            "last_term_missing",
            "The last term is missing from your total.",
            _terms_with(keep=slice(-1)),
        ),
        Misconception(
            "weight_of_the_first_ignored",
            "You took the weight of the first term to be 1. It often is; use the one that the "
            "term brings.",
            lambda terms, counts: (
                _total(terms, counts)
                + (1 - terms[0].weight) * terms[0].total / counts[terms[0].per]
            ),
        ),
        Misconception(
            "mean_of_the_terms",
            "You divided the total by the number of terms. Adding a term would then weaken all "
            "others; the weights alone say how much each counts.",
            lambda terms, counts: _total(terms, counts) / len(terms),
        ),
        Misconception(
            "divided_by_the_weights",
            "You divided by the sum of the weights: a weighted mean. The total is a weighted sum.",
            lambda terms, counts: _total(terms, counts) / sum(term.weight for term in terms),
        ),
        Misconception(
            "one_count_for_all",
            "You added up all sums and divided by tokens and rows together. They are losses of "
            "two kinds; each kind has a count of its own.",
            _terms_with(divisor=lambda term, counts: sum(counts.values())),
        ),
    ),
    hints=(
        "One line a term: its weight, its sum, and the count that its sum is divided by.",
        'term.per is "token" or "row", and counts has an entry for each of the two.',
        "Start from 0 and add, for each term, weight times total over counts[term.per].",
    ),
    tolerance=FLOAT32,
)

EXERCISES = (MASKED, SMOOTHED, PARTS, PENALTY, TOTAL)
