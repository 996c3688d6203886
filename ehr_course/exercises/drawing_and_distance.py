"""Exercises 19.1 and 19.2: how codes are drawn, and how far two counts of codes are apart."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import torch
from scipy.spatial.distance import jensenshannon
from torch import Tensor

from ehr_course.exercises.exercise import Arguments, Exercise, Misconception

# 19.1 Top-k and top-p


def _warped(logits: Tensor, temperature: float, k: int, p: float) -> Tensor:
    """The reference: the three warpers of transformers, one after the other."""
    from transformers.generation.logits_process import (  # half a second, so only here
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    warpers = [TemperatureLogitsWarper(float(temperature))]
    warpers += [TopKLogitsWarper(k)] if k else []
    warpers.append(TopPLogitsWarper(float(p)))
    scores = logits.double()
    for warper in warpers:
        scores = warper(None, scores)
    return scores.softmax(-1)


def _top_k(logits: Tensor, k: int, *, off_by: int = 0, excluded: float = -math.inf) -> Tensor:
    """Logits with all but the k greatest of each row excluded."""
    if not k:
        return logits
    ranks = logits.argsort(-1, descending=True).argsort(-1)
    return logits.masked_fill(ranks >= k + off_by, excluded)


def _top_k_of_all_rows(logits: Tensor, k: int) -> Tensor:
    """Logits below the smallest that any row keeps are excluded."""
    if not k:
        return logits
    smallest = logits.sort(-1, descending=True).values[:, k - 1].min()
    return logits.masked_fill(logits < smallest, -math.inf)


def _top_p(
    probs: Tensor,
    p: float,
    *,
    descending: bool = True,
    dropped: Callable[[Tensor, Tensor, float], Tensor] = lambda before, after, p: before >= p,
    back: bool = True,
) -> Tensor:
    """Probabilities with 0 for what is dropped, by the sums before and after each token."""
    likeliest, order = probs.sort(-1, descending=descending)
    after = likeliest.cumsum(-1)
    kept = likeliest.masked_fill(dropped(after - likeliest, after, p), 0.0)
    return torch.zeros_like(probs).scatter(-1, order, kept) if back else kept


def _unsorted(probs: Tensor, p: float) -> Tensor:
    before = probs.cumsum(-1) - probs
    return probs.masked_fill(before >= p, 0.0)


def _first_kept(before: Tensor, after: Tensor, p: float) -> Tensor:
    dropped = after > p
    dropped[:, 0] = False
    return dropped


def _shares_of(kept: Tensor) -> Tensor:
    return kept / kept.sum(-1, keepdim=True)


def _draw(
    *,
    scale: Callable[[Tensor, float], Tensor] = lambda logits, temperature: logits / temperature,
    top_k: Callable[[Tensor, int], Tensor] = _top_k,
    top_p: Callable[[Tensor, float], Tensor] = _top_p,
    finish: Callable[[Tensor], Tensor] = _shares_of,
) -> Callable[..., Tensor]:
    """Temperature, top-k, top-p and division by the sum, any of them replaced."""

    def drawn(logits: Tensor, temperature: float, k: int, p: float) -> Tensor:
        filtered = top_k(scale(logits.double(), temperature), k)
        return finish(top_p(filtered.softmax(-1), p))

    return drawn


def _temperature_last(logits: Tensor, temperature: float, k: int, p: float) -> Tensor:
    kept = _draw()(logits, 1.0, k, p)
    return (kept.log() / temperature).softmax(-1)


def _top_p_first(logits: Tensor, temperature: float, k: int, p: float) -> Tensor:
    kept = _top_p((logits.double() / temperature).softmax(-1), p)
    return _shares_of(_top_k(kept.log(), k).exp())


def _top_p_of_logits(logits: Tensor, temperature: float, k: int, p: float) -> Tensor:
    """The filtered logits themselves: minus infinity for what is dropped."""
    kept = _draw()(logits, temperature, k, p)
    return torch.where(kept > 0, logits.double() / temperature, -math.inf)


def _mask_in_sorted_order(probs: Tensor, p: float) -> Tensor:
    likeliest = probs.sort(-1, descending=True).values
    return probs.masked_fill(likeliest.cumsum(-1) - likeliest >= p, 0.0)


def _one_more(before: Tensor, after: Tensor, p: float) -> Tensor:
    return torch.nn.functional.pad(before >= p, (1, 0))[:, :-1]


def _log_probs(logits: Tensor, temperature: float, k: int, p: float) -> Tensor:
    return _draw()(logits, temperature, k, p).log()


def _clear_of_a_sum(probs: Tensor, p: float) -> bool:
    """Whether no sum of the likeliest tokens is nearly p: rounding must not decide."""
    sums = probs.sort(-1, descending=True).values.cumsum(-1)
    return bool(((sums - p).abs() > 5e-3).all())


def _fresh_logits(rng: random.Random) -> Arguments:
    while True:
        rows, vocab = rng.randint(1, 3), rng.randint(4, 6)
        values = [[tenth / 10 for tenth in rng.sample(range(-25, 26), vocab)] for _ in range(rows)]
        logits = torch.tensor(values)
        if rng.random() < 0.3:
            logits[rng.randrange(rows), rng.randrange(vocab)] = -math.inf
        temperature = rng.choice((0.5, 0.7, 1.0, 1.5, 2.0))
        k = rng.choice((0, *range(1, vocab)))
        p = rng.choice((0.3, 0.5, 0.6, 0.8, 0.9, 0.95))
        kept = _top_k(logits.double() / temperature, k).softmax(-1)
        if _clear_of_a_sum(kept, p):
            return logits, temperature, k, p


_CROSSING = (
    "You dropped the token with which the sum reaches p. Top-p keeps the fewest tokens whose "
    "probabilities sum to at least p, and that takes this one too. Where the likeliest token "
    "alone has more than p, {}."
)

SAMPLING = Exercise(
    id="19.1",
    title="Top-k and top-p",
    parameters=("logits", "temperature", "k", "p"),
    reference=_warped,
    chosen=(
        (torch.tensor([[0.0, 2.0, 1.0]]), 1.0, 2, 0.95),
        (torch.tensor([[1.0, 3.0, 0.0, 2.0]]), 1.0, 0, 0.7),
        (torch.tensor([[0.0, 4.0, 1.0]]), 1.0, 0, 0.5),
        (torch.tensor([[0.4, 1.0, 0.8, 0.0]]), 2.0, 0, 0.6),
        (torch.tensor([[0.5, 1.5, 1.0, 0.0]]), 0.5, 3, 0.8),
        (torch.tensor([[0.5, 1.5, 1.0, 0.0]]), 0.5, 0, 0.8),
        (torch.tensor([[1.0, 0.8, 0.6, 0.4]]), 1.0, 2, 0.5),
        (torch.tensor([[1.0, 0.8, 0.6, 0.4, 0.2]]), 1.0, 3, 0.6),
        (torch.tensor([[0.0, 1.0, 3.0], [5.0, 4.0, 4.5]]), 1.0, 1, 0.95),
        (torch.tensor([[-1.0, -2.0, -0.5], [0.3, -math.inf, 1.3]]), 1.0, 2, 0.95),
        (torch.tensor([[-1.0, -2.0, -0.5, -1.5]]), 2.0, 0, 0.95),
        (torch.tensor([[2.0, 0.0, 1.0, 1.5]]), 0.7, 0, 0.3),
        (torch.tensor([[-30000.0, -30002.0, -30001.0]]), 1.0, 2, 0.95),
        (torch.tensor([[-30000.0, -math.inf, -30001.0]]), 1.0, 0, 0.95),
    ),
    fresh=_fresh_logits,
    misconceptions=(
        Misconception(
            "crossing_token_dropped",
            _CROSSING.format("nothing is left, and you divide by 0"),
            _draw(top_p=lambda q, p: _top_p(q, p, dropped=lambda before, after, p: after > p)),
        ),
        Misconception(
            "crossing_token_dropped_unless_first",
            _CROSSING.format("you kept it; otherwise you keep one token too few"),
            _draw(top_p=lambda q, p: _top_p(q, p, dropped=_first_kept)),
        ),
        Misconception(
            "top_p_before_top_k",
            "Your top-p adds up probabilities of all tokens, as if top-k had dropped none. Top-k "
            "comes first. The probabilities of those that it leaves sum to 1 again, and top-p "
            "counts with these.",
            _top_p_first,
        ),
        Misconception(
            "temperature_last",
            "You chose the tokens first and applied the temperature to what is left. It comes "
            "first: it changes the probabilities that top-p adds up.",
            _temperature_last,
        ),
        Misconception(
            "temperature_multiplied",
            "You multiplied the logits by the temperature. They are divided by it: a temperature "
            "below 1 makes likely tokens likelier still.",
            _draw(scale=lambda logits, temperature: logits * temperature),
        ),
        Misconception(
            "temperature_ignored",
            "The temperature changes nothing in your result. A factor on probabilities, for "
            "instance, is lost when they are divided by their sum: it has to act on logits.",
            _draw(scale=lambda logits, temperature: logits),
        ),
        Misconception(
            "unlikely_tokens_first",
            "You added up from the least likely token. Then the unlikely ones are kept and the "
            "likeliest is dropped. Sort the other way.",
            _draw(top_p=lambda q, p: _top_p(q, p, descending=False)),
        ),
        Misconception(
            "not_sorted",
            "You added up the probabilities in the order of the vocabulary. The ids say nothing "
            "of which token is likely: sort first.",
            _draw(top_p=_unsorted),
        ),
        Misconception(
            "left_in_sorted_order",
            "Your probabilities are those of the sorted tokens. Each has to go back to the place "
            "of its own token.",
            _draw(top_p=lambda q, p: _top_p(q, p, back=False)),
        ),
        Misconception(
            "mask_left_in_sorted_order",
            "You found out which of the sorted tokens are dropped, and dropped those at the same "
            "places of the vocabulary. The mask has to go back to the places of its own tokens.",
            _draw(top_p=_mask_in_sorted_order),
        ),
        Misconception(
            "one_token_beyond_p",
            "Your top-p keeps one token too many: also the one after that with which the sum "
            "reaches p. It keeps the fewest tokens whose probabilities sum to at least p.",
            _draw(top_p=lambda q, p: _top_p(q, p, dropped=_one_more)),
        ),
        Misconception(
            "sum_below_1",
            "Your probabilities no longer sum to 1 when top-p has dropped some. Divide by the sum "
            "of those that are kept.",
            _draw(finish=lambda kept: kept),
        ),
        Misconception(
            "logit_0_for_dropped",
            "You gave the tokens that top-k drops the logit 0. That is no small logit: softmax "
            "makes a probability of it, larger than that of a token with a negative logit.",
            _draw(top_k=lambda logits, k: _top_k(logits, k, excluded=0.0)),
        ),
        Misconception(
            "one_token_too_few",
            "Your top-k keeps k - 1 tokens: the k-th one is dropped with those below it.",
            _draw(top_k=lambda logits, k: _top_k(logits, k, off_by=-1)),
        ),
        Misconception(
            "one_token_too_many",
            "Your top-k keeps k + 1 tokens. Counted from 0, the k-th largest logit stands at "
            "place k - 1.",
            _draw(top_k=lambda logits, k: _top_k(logits, k, off_by=1)),
        ),
        Misconception(
            "one_threshold_for_all_rows",
            "You compared all rows with one logit, the smallest that any of them keeps. Each row "
            "has a k-th largest logit of its own.",
            _draw(top_k=_top_k_of_all_rows),
        ),
        Misconception(
            "p_is_what_is_dropped",
            "You dropped the share p and kept the rest. The tokens that are kept have p or more "
            "in sum.",
            _draw(
                top_p=lambda q, p: _top_p(q, p, dropped=lambda before, after, p: before >= 1 - p)
            ),
        ),
        Misconception(
            "probabilities_of_at_least_p",
            "You kept each token whose own probability is at least p. It is the sum, over the "
            "likeliest tokens, that has to reach p.",
            _draw(top_p=lambda q, p: q.masked_fill(q < p, 0.0)),
        ),
        Misconception(
            "logits_returned",
            "You returned logits, with minus infinity for what is dropped. The task asks for the "
            "probabilities that a token is drawn with.",
            _top_p_of_logits,
        ),
        Misconception(
            "log_probabilities_returned",
            "You returned logarithms of probabilities. The task asks for the probabilities.",
            _log_probs,
        ),
    ),
    hints=(
        "Three steps in this order: divide, keep the k largest, keep the likeliest until they "
        "sum to p. What does softmax make of a logit of minus infinity?",
        "For top-p sort the probabilities of each row, the largest first, and add them up. A "
        "token stays if the sum of those before it is still below p.",
        "sort returns the places as well: scatter takes values back to them. At the end divide "
        "each row by its sum.",
    ),
    tolerance=1e-4,
)


# 19.2 The distance between code distributions


def _distance(real: np.ndarray, synthetic: np.ndarray) -> float:
    """The reference: SciPy's, which divides each by its sum."""
    return float(jensenshannon(real.astype(float), synthetic.astype(float), base=2))


def _shares(real: np.ndarray, synthetic: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return real / real.sum(), synthetic / synthetic.sum()


def _kl(p: np.ndarray, q: np.ndarray) -> float:
    """The Kullback-Leibler divergence in bits: nothing where p is 0, infinite where only q is."""
    seen = p > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        return float((p[seen] * np.log2(p[seen] / q[seen])).sum())


def _js(p: np.ndarray, q: np.ndarray, m: np.ndarray | None = None) -> float:
    m = (p + q) / 2 if m is None else m
    return (_kl(p, m) + _kl(q, m)) / 2


def _root(value: float) -> float:
    """The square root as NumPy gives it: nan below 0."""
    return float(np.sqrt(value)) if value >= 0 else math.nan


def _zeros_are_nan(real: np.ndarray, synthetic: np.ndarray) -> float:
    if ((real == 0) | (synthetic == 0)).any():
        return math.nan
    return _distance(real, synthetic)


def _of_common_codes(real: np.ndarray, synthetic: np.ndarray) -> float:
    both = (real > 0) & (synthetic > 0)
    if not both.any():
        return 0.0
    return _distance(real[both], synthetic[both])


def _without_the_others(real: np.ndarray, synthetic: np.ndarray) -> float:
    """Half the sum over the codes that both have, of shares of all codes."""
    p, q = _shares(real, synthetic)
    both = (p > 0) & (q > 0)
    m = (p + q) / 2
    return float(sum((x[both] * np.log2(x[both] / m[both])).sum() for x in (p, q)) / 2)


def _pooled(real: np.ndarray, synthetic: np.ndarray) -> float:
    both = real + synthetic
    return _root(_js(*_shares(real, synthetic), both / both.sum()))


def _mean_of_roots(real: np.ndarray, synthetic: np.ndarray) -> float:
    p, q = _shares(real, synthetic)
    return (_root(_kl(p, (p + q) / 2)) + _root(_kl(q, (p + q) / 2))) / 2


def _sum_in_the_middle(real: np.ndarray, synthetic: np.ndarray) -> float:
    """Raises ValueError where the sum of logarithms is negative: anywhere but at its end."""
    p, q = _shares(real, synthetic)
    return math.sqrt(_js(p, q, p + q))


def _codes_of_real(real: np.ndarray, synthetic: np.ndarray) -> float:
    """Both terms, of the codes alone that the real cohort has."""
    p, q = _shares(real, synthetic)
    has, m = p > 0, (p + q) / 2
    return _root((_kl(p[has], m[has]) + _kl(q[has], m[has])) / 2)


def _of_counts(real: np.ndarray, synthetic: np.ndarray) -> float:
    return _root(_js(real.astype(float), synthetic.astype(float)))


def _mean_over_codes(real: np.ndarray, synthetic: np.ndarray) -> float:
    return _root(_js(*_shares(real, synthetic)) / len(real))


def _counts(rng: random.Random, n: int) -> np.ndarray:
    counts = [rng.choice((0, 0, 1, 2, 3, 5, 8, 13)) for _ in range(n)]
    counts[rng.randrange(n)] += 1
    return np.array(counts)


def _fresh_counts(rng: random.Random) -> Arguments:
    n = rng.randint(3, 6)
    while True:
        real, synthetic = _counts(rng, n), _counts(rng, n)
        if _distance(real, synthetic) > 0.05:
            return real, synthetic


_OF_SHARES = "The square root of the divergence is the distance, and the task asks for that one."
_COMMON_TERMS = (
    "You left out the terms of codes that only one cohort has. Where one share is 0, its own term "
    "is 0; the other one's is not."
)

DISTANCE = Exercise(
    id="19.2",
    title="The distance between code distributions",
    parameters=("real", "synthetic"),
    reference=_distance,
    chosen=(
        (np.array([3, 1]), np.array([1, 3])),
        (np.array([2, 2]), np.array([6, 2])),
        (np.array([1, 0]), np.array([0, 4])),
        (np.array([1, 3, 0]), np.array([2, 6, 0])),
        (np.array([4, 4, 0]), np.array([4, 0, 4])),
        (np.array([10, 5, 1]), np.array([100, 20, 40])),
        (np.array([6, 3, 0, 1]), np.array([1, 2, 0, 3])),
        (np.array([6, 3, 1, 0, 2]), np.array([30, 9, 0, 4, 7])),
    ),
    fresh=_fresh_counts,
    misconceptions=(
        Misconception(
            "divergence",
            f"You returned the divergence. {_OF_SHARES}",
            lambda real, synthetic: _distance(real, synthetic) ** 2,
        ),
        Misconception(
            "divergence_in_nats",
            f"You returned the divergence in nats, from natural logarithms. {_OF_SHARES} It is "
            "asked for in base 2.",
            lambda real, synthetic: _distance(real, synthetic) ** 2 * math.log(2),
        ),
        Misconception(
            "natural_logarithm",
            "You used the natural logarithm. Then the largest distance is 0.833, not 1. The task "
            "asks for base 2.",
            lambda real, synthetic: _distance(real, synthetic) * math.sqrt(math.log(2)),
        ),
        Misconception(
            "base_10",
            "You used the logarithm to base 10. The task asks for base 2.",
            lambda real, synthetic: _distance(real, synthetic) * math.sqrt(math.log10(2)),
        ),
        Misconception(
            "only_kullback_leibler",
            "That is the Kullback-Leibler divergence of the two distributions. It is infinite "
            "where a real code was never written, and is not the same both ways. Jensen-Shannon "
            "compares each of the two with their mean.",
            lambda real, synthetic: _kl(*_shares(real, synthetic)),
        ),
        Misconception(
            "root_of_kullback_leibler",
            "That is the root of the Kullback-Leibler divergence of the two distributions. It is "
            "infinite where a real code was never written. Jensen-Shannon compares each of the "
            "two with their mean.",
            lambda real, synthetic: _root(_kl(*_shares(real, synthetic))),
        ),
        Misconception(
            "both_ways_without_the_mean",
            "You averaged the Kullback-Leibler divergences of the two from each other, both ways. "
            "That is Jeffreys' divergence, halved, and infinite where one of them lacks a code. "
            "Jensen-Shannon compares each with the mean of both.",
            lambda real, synthetic: _root(
                (_kl(*_shares(real, synthetic)) + _kl(*reversed(_shares(real, synthetic)))) / 2
            ),
        ),
        Misconception(
            "real_side_alone",
            "You compared the real distribution with the mean of both, and not the synthetic one. "
            "Codes that are written and never recorded then cost nothing.",
            lambda real, synthetic: _root(
                _kl(real / real.sum(), sum(_shares(real, synthetic)) / 2)
            ),
        ),
        Misconception(
            "sum_for_mean",
            "You added up the two divergences from the mean. Take half of the sum: then two "
            "distributions without a common code have the distance 1.",
            lambda real, synthetic: math.sqrt(2) * _distance(real, synthetic),
        ),
        Misconception(
            "mean_of_roots",
            "You took the root of each of the two divergences first, and their mean last. The "
            "mean comes first: the divergence is one number, and the distance is its root.",
            _mean_of_roots,
        ),
        Misconception(
            "sum_in_the_middle",
            "You compared with P + Q. That is no distribution, it sums to 2, and the logarithms "
            "become negative. The one half way between is half of it.",
            _sum_in_the_middle,
        ),
        Misconception(
            "codes_of_the_real_cohort_alone",
            "You went through the codes that the real cohort has. A code that only the synthetic "
            "one has is missing in your sum, and it is a difference too.",
            _codes_of_real,
        ),
        Misconception(
            "counts_not_shares",
            "You compared counts. A cohort of twice the size has twice the counts and the same "
            "distribution: divide each by its sum first.",
            _of_counts,
        ),
        Misconception(
            "pooled_mean",
            "You compared with the counts of both cohorts together. The larger cohort then weighs "
            "more. The mean is that of the two distributions, whatever their sizes are.",
            _pooled,
        ),
        Misconception(
            "zero_times_logarithm_of_zero",
            "Your result is nan where one cohort lacks a code: 0 times the logarithm of 0. Such a "
            "term is 0; leave it out of the sum.",
            _zeros_are_nan,
        ),
        Misconception(
            "common_codes_alone",
            "You left out the codes that only one cohort has, and divided by the sum of the "
            "others. Those codes are the greatest difference there is.",
            _of_common_codes,
        ),
        Misconception(
            "terms_of_common_codes_alone",
            _COMMON_TERMS,
            lambda real, synthetic: _root(_without_the_others(real, synthetic)),
        ),
        Misconception(
            "one_added_to_each_count",
            "You added 1 to each count. Then cohorts without a common code look alike, the more "
            "so the smaller they are. Nothing has to be added: the mean is not 0 where one of "
            "the two is not.",
            lambda real, synthetic: _distance(real + 1, synthetic + 1),
        ),
        Misconception(
            "mean_over_codes",
            "You took the mean over the codes. The terms are weighted with shares that sum to 1 "
            "already: add them up.",
            _mean_over_codes,
        ),
        Misconception(
            "total_variation",
            "That is half the sum of the absolute differences, the total variation distance. It "
            "is a distance too, between 0 and 1, but another one.",
            lambda real, synthetic: float(
                np.abs(np.subtract(*_shares(real, synthetic))).sum() / 2
            ),
        ),
        Misconception(
            "one_minus_distance",
            "You returned 1 minus the distance. Equal distributions have the distance 0.",
            lambda real, synthetic: 1 - _distance(real, synthetic),
        ),
    ),
    hints=(
        "Make shares of the counts first. The third distribution that is needed lies half way "
        "between the two.",
        "The Kullback-Leibler divergence of p from m is the sum of p times log2(p / m). Where p "
        "is 0 the term is 0: leave these codes out before you take a logarithm.",
        "The mean of the two divergences, each from the mean distribution, is the divergence in "
        "bits. One step is left.",
    ),
    tolerance=1e-6,
)

EXERCISES = (SAMPLING, DISTANCE)
