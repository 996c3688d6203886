"""The exercises of lesson 17: coverage and beam search."""

from __future__ import annotations

import difflib
import itertools
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ehr_course.exercises.exercise import Arguments, Exercise, Misconception

FLOAT32 = 1e-4
"""The tolerance of values that come from a few sums in float32."""


def _shares(rng: random.Random, n: int) -> list[float]:
    """Numbers in hundredths, 0 or more, that sum to 1."""
    cuts = sorted(rng.randint(0, 100) for _ in range(n - 1))
    return [(b - a) / 100 for a, b in itertools.pairwise([0, *cuts, 100])]


def _attention(rng: random.Random, *shape: int) -> Tensor:
    """Attention with two decimals: the last axis sums to 1."""
    rows = [_shares(rng, shape[-1]) for _ in range(math.prod(shape[:-1]))]
    return torch.tensor(rows).reshape(shape)


# 17.1 The coverage vector


def _coverage(attention: Tensor) -> Tensor:
    """The reference: each row a sum of its own, float64 (..., target, source)."""
    steps = range(attention.shape[-2])
    return torch.stack([attention[..., :t, :].double().sum(-2) for t in steps], dim=-2)


def _divided_by(first: int) -> Callable[[Tensor], Tensor]:
    """Coverage over how many steps there were; counted from `first`."""

    def mean(attention: Tensor) -> Tensor:
        steps = torch.arange(len(attention)) + first
        total = _coverage(attention) if first == 0 else attention.cumsum(0)
        return total / steps.clamp(min=1)[:, None]

    return mean


def _with_zeros_first(rows: Tensor) -> Tensor:
    return torch.cat([rows.new_zeros(1, rows.shape[1]), rows])


def _fresh_attention(rng: random.Random) -> Arguments:
    return (_attention(rng, rng.randint(2, 4), rng.randint(2, 4)),)


COVERAGE = Exercise(
    id="17.1",
    title="The coverage vector",
    parameters=("attention",),
    reference=_coverage,
    chosen=(
        (torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]),),
        (torch.tensor([[0.3, 0.7]]),),
        (torch.tensor([[0.8, 0.2, 0.0], [0.7, 0.1, 0.2], [0.6, 0.0, 0.4], [0.1, 0.3, 0.6]]),),
        (torch.tensor([[0.25, 0.75], [0.5, 0.5]]),),
    ),
    fresh=_fresh_attention,
    misconceptions=(
        Misconception(
            "includes_this_step",
            "Your coverage includes the attention of the step itself. It is computed before the "
            "step looks anywhere: the step has to know where the others have been.",
            lambda attention: attention.cumsum(0),
        ),
        Misconception(
            "mean_of_the_steps",
            "Your rows sum to 1: they are means of the steps before. A mean forgets how often a "
            "word was looked at: coverage is the sum, and grows.",
            _divided_by(0),
        ),
        Misconception(
            "mean_with_this_step",
            "You took the mean of all steps up to this one. Coverage is a sum, and this step does "
            "not belong to it yet.",
            _divided_by(1),
        ),
        Misconception(
            "maximum_of_the_steps",
            "You took the largest attention of the steps before. Three looks of 0.4 would be "
            "worth no more than one: coverage is their sum.",
            lambda attention: _with_zeros_first(attention.cummax(0).values[:-1]),
        ),
        Misconception(
            "maximum_with_this_step",
            "You took the largest attention up to this step. Coverage is the sum of the steps "
            "before, and this one does not belong to it.",
            lambda attention: attention.cummax(0).values,
        ),
        Misconception(
            "previous_step_alone",
            "Your coverage holds the step just before and starts again at each step. It has to "
            "remember all of them.",
            lambda attention: _with_zeros_first(attention[:-1]),
        ),
        Misconception(
            "along_the_source",
            "You summed along the words of the note. A row is one step: add up rows, so that each "
            "word keeps a number of its own.",
            lambda attention: attention.cumsum(1) - attention,
        ),
        Misconception(
            "along_the_source_with_the_word",
            "You summed along the words of the note. A row is one step: add up rows, and leave "
            "the step's own out.",
            lambda attention: attention.cumsum(1),
        ),
        Misconception(
            "all_steps",
            "Every row of yours is the sum of all steps, those to come included. A step knows "
            "only what was before it. (If a loop collects the rows: += changes a tensor in place, "
            "and with it the rows that you have collected already.)",
            lambda attention: attention.sum(0, keepdim=True).expand_as(attention),
        ),
        Misconception(
            "all_other_steps",
            "You added up all steps but this one. Those after it have not happened yet.",
            lambda attention: attention.sum(0) - attention,
        ),
        Misconception(
            "steps_after",
            "You added up the steps that come after. Coverage looks back.",
            lambda attention: attention.sum(0) - attention.cumsum(0),
        ),
        Misconception(
            "total_in_the_first_row",
            "Your first row holds the total of all steps: roll brings the last row round to the "
            "front. Before the first step nothing has been looked at.",
            lambda attention: attention.cumsum(0).roll(1, 0),
        ),
        Misconception(
            "one_row_too_many",
            "You have one row more than there are steps. The last one, with all attention in it, "
            "would belong to a step that never comes.",
            lambda attention: _with_zeros_first(attention.cumsum(0)),
        ),
        Misconception(
            "first_row_missing",
            "You have one row less than there are steps. The first step has a coverage too: "
            "nothing has been looked at, so it is 0 everywhere.",
            lambda attention: attention.cumsum(0)[:-1],
        ),
        Misconception(
            "cut_at_1",
            "You cut coverage at 1. It is no probability: a word that was looked at twice has a "
            "coverage of 2.",
            lambda attention: _coverage(attention).clamp(max=1),
        ),
    ),
    hints=(
        "Write down three rows on paper. What has been looked at before the first step, before "
        "the second, before the third?",
        "cumsum adds up the rows from the first to each one. What does it include that it should "
        "not, and how do you take that away?",
    ),
    tolerance=FLOAT32,
)


# 17.2 The coverage loss

Pair = tuple[float, float]


def _overlap(attention: Tensor) -> Tensor:
    """What each step costs, float64 (batch, target)."""
    return torch.minimum(attention.double(), _coverage(attention)).sum(-1)


def _loss(attention: Tensor, scored: Tensor) -> Pair:
    """The reference: the steps one by one."""
    total = 0.0
    for row, flags in zip(attention.tolist(), scored.tolist(), strict=True):
        coverage = [0.0] * len(row[0])
        for step, counts in zip(row, flags, strict=True):
            if counts:
                total += math.fsum(map(min, step, coverage))
            coverage = [c + a for c, a in zip(coverage, step, strict=True)]
    return total, float(scored.sum())


def _costing(
    cost: Callable[[Tensor, Tensor], Tensor],
) -> Callable[[Tensor, Tensor], Pair]:
    """Another cost of a word at a step, from its attention and its coverage."""

    def loss(attention: Tensor, scored: Tensor) -> Pair:
        costs = cost(attention.double(), _coverage(attention)).sum(-1)
        return (costs * scored).sum().item(), float(scored.sum())

    return loss


def _covered_by(
    cover: Callable[[Tensor], Tensor],
) -> Callable[[Tensor, Tensor], Pair]:
    """Another coverage."""

    def loss(attention: Tensor, scored: Tensor) -> Pair:
        attention = attention.double()
        costs = torch.minimum(attention, cover(attention)).sum(-1)
        return (costs * scored).sum().item(), float(scored.sum())

    return loss


def _previous(attention: Tensor) -> Tensor:
    return torch.cat([torch.zeros_like(attention[:, :1]), attention[:, :-1]], dim=1)


def _mean_coverage(attention: Tensor) -> Tensor:
    steps = torch.arange(attention.shape[1]).clamp(min=1)
    return _coverage(attention) / steps[:, None]


def _highest(attention: Tensor, scored: Tensor) -> Pair:
    costs = torch.minimum(attention.double(), _coverage(attention)).amax(-1)
    return (costs * scored).sum().item(), float(scored.sum())


def _ended(rng: random.Random, batch: int, target: int) -> Tensor:
    """Scored steps, bool (batch, target): rows of several lengths."""
    lengths = torch.tensor([rng.randint(1, target) for _ in range(batch)])
    return torch.arange(target) < lengths[:, None]


def _fresh_loss(rng: random.Random) -> Arguments:
    batch, target, source = rng.randint(1, 2), rng.randint(2, 4), rng.randint(2, 3)
    return _attention(rng, batch, target, source), _ended(rng, batch, target)


_TWO = torch.tensor(
    [
        [[0.8, 0.2, 0.0], [0.3, 0.5, 0.2], [0.6, 0.1, 0.3], [0.2, 0.2, 0.6]],
        [[0.1, 0.9, 0.0], [0.4, 0.4, 0.2], [0.7, 0.1, 0.2], [0.0, 0.5, 0.5]],
    ]
)

LOSS = Exercise(
    id="17.2",
    title="The coverage loss",
    parameters=("attention", "scored"),
    reference=_loss,
    chosen=(
        (torch.tensor([[[0.75, 0.25], [0.5, 0.5]]]), torch.tensor([[True, True]])),
        (torch.tensor([[[0.75, 0.25], [0.5, 0.5]]]), torch.tensor([[True, False]])),
        (_TWO, torch.tensor([[True, True, True, False], [True, True, False, False]])),
        (_TWO, torch.tensor([[True] * 4] * 2)),
        (_TWO[:1, :3], torch.tensor([[True] * 3])),
        (_TWO[1:, :3], torch.tensor([[True, True, False]])),
        # A second step that costs nothing.
        (torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]), torch.tensor([[True, True]])),
    ),
    fresh=_fresh_loss,
    misconceptions=(
        Misconception(
            "product_for_minimum",
            "You multiplied attention and coverage. A step that looks at a word with 0.5 where "
            "0.5 was spent before repeats all of it, and the product says 0.25: take the smaller "
            "of the two.",
            _costing(torch.mul),
        ),
        Misconception(
            "maximum_for_minimum",
            "You took the larger of attention and coverage. A word that was looked at once would "
            "then cost something at every later step, whoever looks where.",
            _costing(torch.maximum),
        ),
        Misconception(
            "coverage_after_the_step",
            "Your coverage includes the step itself. The smaller of the two is then the "
            "attention, whatever it does, and every step costs 1. Use the coverage of before.",
            _covered_by(lambda attention: attention.cumsum(1)),
        ),
        Misconception(
            "coverage_alone",
            "You added up the coverage. It grows at every step by itself: what costs is looking "
            "again where one has been.",
            _costing(lambda attention, coverage: coverage),
        ),
        Misconception(
            "difference",
            "You took the distance of attention and coverage. It is large where a step looks at "
            "something new, and that is what it should do.",
            _costing(lambda attention, coverage: (attention - coverage).abs()),
        ),
        Misconception(
            "padding_added_up",
            "You added up the steps of padding too. They have attention like any other, and it "
            "means nothing: the sum changes with the batch that a summary stands in.",
            lambda attention, scored: (
                _overlap(attention).sum().item(),
                float(scored.sum()),
            ),
        ),
        Misconception(
            "padding_counted",
            "Your count includes padding. The same summaries then have a smaller mean in a batch "
            "that is padded more.",
            lambda attention, scored: (_loss(attention, scored)[0], float(scored.numel())),
        ),
        Misconception(
            "padding_added_up_and_counted",
            "You treated padding like any other step, in the sum and in the count. Both then "
            "change with the batch that a summary stands in.",
            lambda attention, scored: (
                _overlap(attention).sum().item(),
                float(scored.numel()),
            ),
        ),
        Misconception(
            "mean_over_the_source",
            "You took the mean over the words of the note. A longer note would make the same "
            "repetition cheaper: add up over the words.",
            lambda attention, scored: (
                _loss(attention, scored)[0] / attention.shape[-1],
                float(scored.sum()),
            ),
        ),
        Misconception(
            "counts_words_of_the_note",
            "Your count is that of all pairs of a step and a word. Steps are counted: one costs "
            "0 to 1, however long the note is.",
            lambda attention, scored: (
                _loss(attention, scored)[0],
                float(scored.sum()) * attention.shape[-1],
            ),
        ),
        Misconception(
            "mean_for_the_sum",
            "Your first value is a mean. Whoever has several parts of a batch needs the sum, and "
            "divides once, by the count of all of them.",
            lambda attention, scored: (
                _loss(attention, scored)[0] / float(scored.sum()),
                float(scored.sum()),
            ),
        ),
        Misconception(
            "largest_overlap_alone",
            "You took the word with the largest overlap at each step. All words of the note are "
            "added up.",
            _highest,
        ),
        Misconception(
            "previous_step_alone",
            "Your coverage holds the step just before. A summary that comes back to a word two "
            "steps later would cost nothing.",
            _covered_by(_previous),
        ),
        Misconception(
            "mean_coverage",
            "Your coverage is the mean of the steps before. It fades as the summary grows: "
            "coverage is their sum.",
            _covered_by(_mean_coverage),
        ),
        Misconception(
            "coverage_along_the_source",
            "You summed the attention along the words of the note. Coverage adds up the steps: "
            "they are the axis before the last.",
            _covered_by(lambda attention: attention.cumsum(2) - attention),
        ),
        Misconception(
            "coverage_along_the_batch",
            "You summed the attention along the batch. The summaries of a batch have nothing to "
            "do with each other; steps are the second axis.",
            _covered_by(lambda attention: attention.cumsum(0) - attention),
        ),
        Misconception(
            "first_steps_not_counted",
            "You left the first step of each summary out of the count. It costs 0, and it is a "
            "step.",
            lambda attention, scored: (
                _loss(attention, scored)[0],
                float(scored[:, 1:].sum()),
            ),
        ),
        Misconception(
            "steps_without_cost_not_counted",
            "You counted the steps that cost something. One that costs 0 is a step too: it is "
            "what makes the mean small.",
            lambda attention, scored: (
                _loss(attention, scored)[0],
                float(((_overlap(attention) > 0) & scored).sum()),
            ),
        ),
        Misconception(
            "rows_counted",
            "You counted the summaries. A long one has more steps that can cost something: count "
            "the steps that are scored.",
            lambda attention, scored: (_loss(attention, scored)[0], float(len(scored))),
        ),
        Misconception(
            "opposite_sign",
            "Your sum is negative. Training makes the loss small, so it would make the model "
            "look at the same word again and again.",
            lambda attention, scored: (-_loss(attention, scored)[0], float(scored.sum())),
        ),
        Misconception(
            "count_first",
            "Your count comes first. The task wants the sum, then the count.",
            lambda attention, scored: _loss(attention, scored)[::-1],
        ),
    ),
    hints=(
        "Coverage is that of 17.1, with a batch in front: which axis are the steps now?",
        "torch.minimum takes the smaller number at each place. Sum it over the note: that is "
        "what each step costs, in the shape of scored.",
        "Steps of padding have to be multiplied away, or left out, before the last sum.",
    ),
    tolerance=FLOAT32,
)


# 17.3 The length penalty

Hypotheses = Sequence[Sequence[float]]
Ranked = tuple[list[float], int]


def _scored(
    score: Callable[[float, int, float], float],
    choose: Callable[[Sequence[float]], float] = max,
) -> Callable[[Hypotheses, float], Ranked]:
    """The scores from log P, the length and alpha, and the place of the chosen one."""

    def ranked(hypotheses: Hypotheses, alpha: float) -> Ranked:
        scores = [score(math.fsum(tokens), len(tokens), alpha) for tokens in hypotheses]
        return scores, scores.index(choose(scores))

    return ranked


def _lp(n: float, alpha: float) -> float:
    return ((5 + n) / 6) ** alpha


_rank = _scored(lambda log_p, n, alpha: log_p / math.exp(alpha * math.log((5 + n) / 6)))
"""The reference: the penalty by way of its logarithm."""


def _place_from_1(hypotheses: Hypotheses, alpha: float) -> Ranked:
    scores, best = _rank(hypotheses, alpha)
    return scores, best + 1


def _by_log_p(hypotheses: Hypotheses, alpha: float) -> Ranked:
    totals = [math.fsum(tokens) for tokens in hypotheses]
    return _rank(hypotheses, alpha)[0], totals.index(max(totals))


def _undivided(log_p: float, n: int, alpha: float) -> float:
    return log_p


def _rounded_down(log_p: float, n: int, alpha: float) -> float:
    return log_p / ((5 + n) // 6) ** alpha


def _product_of_logs(hypotheses: Hypotheses, alpha: float) -> Ranked:
    scores = [math.prod(tokens) / _lp(len(tokens), alpha) for tokens in hypotheses]
    return scores, scores.index(max(scores))


def _last_alone(hypotheses: Hypotheses, alpha: float) -> Ranked:
    scores = [tokens[-1] / _lp(len(tokens), alpha) for tokens in hypotheses]
    return scores, scores.index(max(scores))


def _fresh_hypotheses(rng: random.Random) -> Arguments:
    while True:
        lengths = rng.sample(range(1, 8), rng.randint(2, 3))
        hypotheses = [[-rng.randint(5, 150) / 100 for _ in range(n)] for n in lengths]
        alpha = rng.choice([0.6, 1.0, 1.4, 2.0])
        # Equal log-probabilities, or scores that rounding down makes equal, would leave it to
        # the order of additions which hypothesis a wrong idea chooses.
        rankings = (_rank, _scored(_undivided), _scored(_rounded_down))
        if all(_apart(ranking(hypotheses, alpha)[0]) for ranking in rankings):
            return hypotheses, alpha


def _apart(scores: Sequence[float]) -> bool:
    return all(b - a > 0.02 for a, b in itertools.pairwise(sorted(scores)))


_POSITIVE = (
    "Your scores are positive: you turned the sign of the log-probabilities. They are costs "
    "then, and the task wants scores: log-probabilities, negative, the largest the best."
)

LENGTH_PENALTY = Exercise(
    id="17.3",
    title="The length penalty",
    parameters=("hypotheses", "alpha"),
    reference=_rank,
    chosen=(
        ([[-0.9, -0.3], [-0.4, -0.4, -0.4, -0.2]], 1.0),
        ([[-0.9, -0.3], [-0.4, -0.4, -0.4, -0.2]], 0.0),
        ([[-0.5], [-0.2, -0.3, -0.2, -0.1, -0.1]], 2.0),
        ([[-0.5, -0.7], [-0.4, -0.8, -0.6], [-0.3, -0.4, -0.5, -0.2, -0.1]], 0.5),
        ([[-1.2], [-0.1, -0.4, -1.0]], 1.5),
        ([[-0.9, -0.2], [-0.2, -0.1, -0.2, -0.1, -0.2, -0.1, -0.3, -0.2]], 1.0),
        # The longer one is the more probable one too.
        ([[-1.3], [-0.2, -0.1, -0.2, -0.1, -0.2, -0.1, -0.3]], 1.0),
    ),
    fresh=_fresh_hypotheses,
    misconceptions=(
        Misconception(
            "penalty_to_the_power_of_the_length",
            "You raised the penalty to the power of the length. It holds the length already: with "
            "alpha 1 and 20 tokens yours is 4.17 to the power of 20, and every long hypothesis "
            "has a score of nearly 0, the best there is.",
            _scored(lambda log_p, n, alpha: log_p / _lp(n, alpha) ** n),
        ),
        Misconception(
            "multiplies",
            "You multiplied by the penalty. Log-probabilities are negative: that makes a long "
            "hypothesis still worse. Divide.",
            _scored(lambda log_p, n, alpha: log_p * _lp(n, alpha)),
        ),
        Misconception(
            "smallest_score",
            "Your scores are right, and you chose the smallest one. Log-probabilities are "
            "negative: the best score is the one nearest to 0, the largest.",
            _scored(lambda log_p, n, alpha: log_p / _lp(n, alpha), min),
        ),
        Misconception(
            "positive_scores_and_the_largest",
            "Your scores are positive, and you chose the largest one: that is the least probable "
            "hypothesis. A log-probability is negative, and nearest to 0 is best.",
            _scored(lambda log_p, n, alpha: -log_p / _lp(n, alpha)),
        ),
        Misconception(
            "positive_scores",
            _POSITIVE,
            _scored(lambda log_p, n, alpha: -log_p / _lp(n, alpha), min),
        ),
        Misconception(
            "chosen_by_log_probability",
            "Your scores are right, but you chose the hypothesis by its log-probability alone. "
            "Then the penalty does nothing.",
            _by_log_p,
        ),
        Misconception(
            "alpha_on_the_six",
            "You raised the 6 alone to the power of alpha. The whole fraction is raised.",
            _scored(lambda log_p, n, alpha: log_p / ((5 + n) / 6**alpha)),
        ),
        Misconception(
            "alpha_on_the_top",
            "You raised 5 + n alone to the power of alpha. The whole fraction is raised; with "
            "alpha 0 the penalty has to be 1.",
            _scored(lambda log_p, n, alpha: log_p / ((5 + n) ** alpha / 6)),
        ),
        Misconception(
            "alpha_on_the_length",
            "You raised the length alone to the power of alpha, before 5 is added. The whole "
            "fraction is raised.",
            _scored(lambda log_p, n, alpha: log_p / ((5 + n**alpha) / 6)),
        ),
        Misconception(
            "alpha_as_a_factor",
            "You multiplied by alpha. It is an exponent: with alpha 0 the penalty has to be 1, "
            "so that log P is left as it is.",
            _scored(lambda log_p, n, alpha: log_p / ((5 + n) / 6 * alpha)),
        ),
        Misconception(
            "alpha_left_out",
            "Your penalty does not depend on alpha. It is an exponent on the whole fraction.",
            _scored(lambda log_p, n, alpha: log_p / _lp(n, 1)),
        ),
        Misconception(
            "six_apart",
            "You divided by 5 and added 1. In Python as in mathematics a division comes before "
            "a sum: the 5 + 1 below needs parentheses, or a 6.",
            _scored(lambda log_p, n, alpha: log_p / ((5 + n) / 5 + 1) ** alpha),
        ),
        Misconception(
            "rounded_down",
            "You divided with //, which rounds down. Hypotheses of 2 and of 6 tokens would get "
            "the same penalty.",
            _scored(_rounded_down),
        ),
        Misconception(
            "length_without_the_end",
            "You did not count </s>. It is a token like the others: its log-probability is in "
            "the sum, and it is in the length.",
            _scored(lambda log_p, n, alpha: log_p / _lp(n - 1, alpha)),
        ),
        Misconception(
            "length_with_the_start",
            "You counted one token more than there is. <s> was not chosen, it has no "
            "log-probability, and it does not count.",
            _scored(lambda log_p, n, alpha: log_p / _lp(n + 1, alpha)),
        ),
        Misconception(
            "divided_by_the_length",
            "You divided by the length to the power of alpha. The task asks for another penalty: "
            "((5 + n) / 6) to the power of alpha, which is 1 for one token and grows slower.",
            _scored(lambda log_p, n, alpha: log_p / n**alpha),
        ),
        Misconception(
            "mean_of_the_tokens",
            "You took the mean log-probability of the tokens. The task asks for another penalty, "
            "which grows slower than the length and depends on alpha: ((5 + n) / 6) to the power "
            "of alpha.",
            _scored(lambda log_p, n, alpha: log_p / n),
        ),
        Misconception(
            "place_from_1",
            "Your scores are right, and you count the places from 1. The first hypothesis has "
            "the place 0.",
            _place_from_1,
        ),
        Misconception(
            "no_penalty",
            "Your scores are the log-probabilities. Divide each by its penalty.",
            _scored(_undivided),
        ),
        Misconception(
            "penalty_subtracted",
            "You subtracted the penalty. The score is a quotient.",
            _scored(lambda log_p, n, alpha: log_p - _lp(n, alpha)),
        ),
        Misconception(
            "probability_divided",
            "You divided the probability, not its logarithm. The score is log P over the penalty.",
            _scored(lambda log_p, n, alpha: math.exp(log_p) / _lp(n, alpha)),
        ),
        Misconception(
            "logarithms_multiplied",
            "You multiplied the log-probabilities of the tokens. Probabilities are multiplied, "
            "and so their logarithms are added.",
            _product_of_logs,
        ),
        Misconception(
            "last_token_alone",
            "You used the log-probability of the last token. That of the hypothesis is the sum "
            "over all its tokens.",
            _last_alone,
        ),
    ),
    hints=(
        "Three steps for each hypothesis: log P is a sum, the length is a number of tokens, the "
        "penalty is the formula.",
        "scores.index(max(scores)) is the place of the largest. Why the largest, when all are "
        "negative?",
    ),
    tolerance=1e-6,
)


# 17.4 Block repeated trigrams

EOS = 2


def _blocked(tokens: Sequence[int]) -> set[int]:
    """The reference: every token that was seen is tried as the next one."""

    def repeats(token: int) -> bool:
        longer = [*tokens, token]
        grams = [tuple(longer[i : i + 3]) for i in range(len(longer) - 2)]
        return len(grams) > 0 and grams[-1] in grams[:-1]

    return {token for token in set(tokens) if token != EOS and repeats(token)}


def _after(tokens: Sequence[int], n: int) -> list[int]:
    """What came after each earlier place of the last n - 1 tokens, in order."""
    if len(tokens) < n - 1:
        return []
    last = list(tokens[len(tokens) - (n - 1) :])
    starts = range(len(tokens) - (n - 1))
    return [tokens[i + n - 1] for i in starts if list(tokens[i : i + n - 1]) == last]


def _without_end(tokens: Sequence[int]) -> set[int]:
    return {token for token in tokens if token != EOS}


def _in_any_order(tokens: Sequence[int]) -> set[int]:
    last = sorted(tokens[-2:])
    return _without_end(
        [tokens[i + 2] for i in range(len(tokens) - 2) if sorted(tokens[i : i + 2]) == last]
    )


def _in_steps_of_three(tokens: Sequence[int]) -> set[int]:
    last = list(tokens[-2:])
    return _without_end(
        [tokens[i + 2] for i in range(0, len(tokens) - 2, 3) if list(tokens[i : i + 2]) == last]
    )


def _newest_missing(tokens: Sequence[int]) -> set[int]:
    last = list(tokens[-2:])
    return _without_end(
        [tokens[i + 2] for i in range(len(tokens) - 3) if list(tokens[i : i + 2]) == last]
    )


def _first_of_the_run(tokens: Sequence[int]) -> set[int]:
    last = list(tokens[-2:])
    return _without_end(
        [tokens[i] for i in range(len(tokens) - 2) if list(tokens[i : i + 2]) == last]
    )


def _one_apart(tokens: Sequence[int]) -> set[int]:
    """The last token and the one before it are looked for anywhere, not side by side."""
    return _without_end(
        [tokens[i + 2] for i in range(len(tokens) - 2) if tokens[i + 1] == tokens[-1]]
    )


def _crashes(tokens: Sequence[int]) -> set[int]:
    if len(tokens) < 2:
        raise IndexError("list index out of range")
    return _blocked(tokens)


def _crashes_on_nothing(tokens: Sequence[int]) -> set[int]:
    if not tokens:
        raise IndexError("list index out of range")
    return _blocked(tokens)


def _twice_already(tokens: Sequence[int]) -> set[int]:
    grams = Counter(tuple(tokens[i : i + 3]) for i in range(len(tokens) - 2))
    return _without_end([gram[2] for gram, times in grams.items() if times > 1])


def _only_if_twice(tokens: Sequence[int]) -> set[int]:
    return _without_end([token for token, n in Counter(_after(tokens, 3)).items() if n > 1])


def _any_repetition(tokens: Sequence[int]) -> set[int]:
    """Every token after which some trigram stands twice, that one or an earlier one."""
    grams = [tuple(tokens[i : i + 3]) for i in range(len(tokens) - 2)]
    return _without_end(tokens) if len(set(grams)) < len(grams) else _blocked(tokens)


def _digits_alike(tokens: Sequence[int]) -> set[int]:
    def digits(pair: Sequence[int]) -> str:
        return "".join(map(str, pair))

    last = digits(tokens[-2:])
    return _without_end(
        [tokens[i + 2] for i in range(len(tokens) - 2) if digits(tokens[i : i + 2]) == last]
    )


def _found_in_text(tokens: Sequence[int]) -> set[int]:
    """The last two tokens are looked for in the text of all, where 5 6 stands in 15 6 too."""
    last = " ".join(map(str, tokens[-2:]))
    return _without_end(
        [
            tokens[i + 2]
            for i in range(len(tokens) - 2)
            if " ".join(map(str, tokens[i : i + 2])).endswith(last)
        ]
    )


_AS_TEXT = (
    "You compare tokens as text. There 1 56 and 15 6 have the same digits, and 5 6 stands inside "
    "15 6. Compare the numbers."
)


def _fresh_tokens(rng: random.Random) -> Arguments:
    tokens = [rng.choice([5, 6, 7, 8]) for _ in range(rng.randint(0, 9))]
    if rng.random() < 0.25:
        tokens += [EOS] * rng.randint(1, 3)
    return (tokens,)


BLOCKING = Exercise(
    id="17.4",
    title="Block repeated trigrams",
    parameters=("tokens",),
    reference=_blocked,
    chosen=(
        ([5, 6, 7, 8, 5, 6],),
        ([],),
        ([5],),
        ([5, 6],),
        ([5, 5],),
        ([5, 5, 5],),
        ([5, 6, 7, 5, 6, 8, 5, 6],),
        ([8, 5, 6, 7, 9, 5, 6],),
        ([6, 5, 7, 5, 6],),
        ([5, 6, 7, 5, 6, 7],),
        ([5, 6, 7, 8, 9, 7],),
        ([4, 5, 6, 7, 9, 4, 5, 6],),
        ([5, 6, 2, 2, 2],),
        ([5, 6, 9, 8, 7, 6],),
        ([5, 6, 7, 5, 6, 7, 5, 6],),
        ([5, 6, 5, 6, 5],),
        ([5, 6, 7, 5, 6, 2, 2],),
        ([0, 5, 0, 7, 0, 5],),
        ([15, 6, 7, 5, 6],),
        ([5, 16, 7, 51, 6],),
        ([5, 5, 5, 5],),
        ([5, 5, 5, 6, 5, 5],),
        ([5, 6, 7, 8, 9, 4, 8, 7, 9, 8, 5, 6],),
    ),
    fresh=_fresh_tokens,
    misconceptions=(
        Misconception(
            "bigrams",
            "You forbid what came after the last token alone: that blocks pairs. A run of three "
            "is repeated only if the last two tokens stood side by side before.",
            lambda tokens: _without_end(_after(tokens, 2)),
        ),
        Misconception(
            "runs_of_four",
            "You compare the last three tokens: that blocks runs of four. Of a trigram the next "
            "token is the third, so two are compared.",
            lambda tokens: _without_end(_after(tokens, 4)),
        ),
        Misconception(
            "latest_occurrence_alone",
            "You looked at one earlier place of the last two tokens, the latest. They may have "
            "stood at several, with another token after each: all of those are forbidden.",
            lambda tokens: _without_end(_after(tokens, 3)[-1:]),
        ),
        Misconception(
            "first_occurrence_alone",
            "You looked at one earlier place of the last two tokens, the first. They may have "
            "stood at several, with another token after each: all of those are forbidden.",
            lambda tokens: _without_end(_after(tokens, 3)[:1]),
        ),
        Misconception(
            "blocks_the_end",
            "You forbid </s> (2). A finished hypothesis is filled up with it, so that it stands "
            "in a run of three, and the hypothesis could not stay finished.",
            lambda tokens: set(_after(tokens, 3)),
        ),
        Misconception(
            "every_third_token",
            "You forbid every token that has ended a trigram. It may come again, as long as the "
            "two tokens before it are others.",
            lambda tokens: _without_end(tokens[2:]),
        ),
        Misconception(
            "every_token",
            "You forbid every token that has been written. A summary needs some words twice; "
            "only a run of three is not to be repeated.",
            _without_end,
        ),
        Misconception(
            "crashes_on_short_ones",
            "Your function fails where there are fewer than two tokens. At the first step of a "
            "search there is none: nothing can be repeated, and the set is empty.",
            _crashes,
        ),
        Misconception(
            "crashes_on_nothing",
            "Your function fails where there is no token yet, and so at the first step of every "
            "search. Nothing can be repeated then: the set is empty.",
            _crashes_on_nothing,
        ),
        Misconception(
            "in_steps_of_three",
            "You cut the tokens into groups of three. A run can begin anywhere: trigrams overlap.",
            _in_steps_of_three,
        ),
        Misconception(
            "newest_trigram_missing",
            "Your loop ends too early: it leaves out the newest trigram. In 5 5 5 that is the "
            "only one, and another 5 would repeat it.",
            _newest_missing,
        ),
        Misconception(
            "in_any_order",
            "You compare the last two tokens in any order. 6 5 7 is another run than 5 6 7.",
            _in_any_order,
        ),
        Misconception(
            "first_token_of_the_run",
            "You forbid the first token of the run that was found. The next token would be its "
            "third one.",
            _first_of_the_run,
        ),
        Misconception(
            "one_of_the_two_compared",
            "You compare the last token alone, in the middle of a run. The one before it has to "
            "be the same too.",
            _one_apart,
        ),
        Misconception(
            "after_the_fact",
            "You look for trigrams that stand twice already. The task is to forbid the token "
            "that would make one stand twice, before it is written.",
            _twice_already,
        ),
        Misconception(
            "everything_after_a_repetition",
            "Where a trigram stands twice already, you forbid every token. Compare the trigram "
            "that the next token would complete with those before it, and no other.",
            _any_repetition,
        ),
        Misconception(
            "end_taken_away_first",
            "You took </s> away before you compared. After </s> </s> the last two tokens are "
            "those, not the two before them.",
            lambda tokens: _blocked([token for token in tokens if token != EOS]),
        ),
        Misconception(
            "no_special_token",
            "You never forbid a token with a small id. Only </s> (2) is left out: 0 is <unk>, "
            "and a trigram with it is one like any other.",
            lambda tokens: {token for token in _blocked(tokens) if token > 3},
        ),
        Misconception("digits_alike", _AS_TEXT, _digits_alike),
        Misconception("found_in_text", _AS_TEXT, _found_in_text),
        Misconception(
            "only_the_second_repetition",
            "You allow a run to be repeated once. A trigram may stand once: the first repetition "
            "is forbidden.",
            _only_if_twice,
        ),
    ),
    hints=(
        "Which two tokens would be the first two of the new trigram?",
        "Go through all trigrams that are there. Where one begins with those two tokens, its "
        "third one is forbidden, unless it is </s>.",
        "With fewer than three tokens there is no trigram: make sure that your loop does not "
        "run then, and that nothing is looked up before it.",
    ),
)


# 17.5 One step of a beam search

Beams = tuple[Tensor, Tensor, Tensor]


def _step(log_probs: Tensor, scores: Tensor) -> Beams:
    """The reference: all continuations of an example in a list, sorted."""
    beams = scores.shape[1]
    kept = []
    for table, before in zip(log_probs.tolist(), scores.tolist(), strict=True):
        candidates = [
            (before[parent] + more, parent, token)
            for parent, row in enumerate(table)
            for token, more in enumerate(row)
        ]
        kept.append(sorted(candidates, key=lambda c: (-c[0], c[1], c[2]))[:beams])
    return _as_tensors(kept)


def _as_tensors(kept: Sequence[Sequence[tuple[float, int, int]]]) -> Beams:
    new, parents, tokens = (
        [[candidate[part] for candidate in row] for row in kept] for part in range(3)
    )
    return torch.tensor(new), torch.tensor(parents), torch.tensor(tokens)


def _top(flat: Tensor, beams: int, vocab: int) -> Beams:
    """The best of (batch, beams * vocab)."""
    new, places = flat.topk(beams, dim=1)
    return new, places // vocab, places % vocab


def _totals(log_probs: Tensor, scores: Tensor) -> Tensor:
    return scores[:, :, None] + log_probs


def _read_as(
    parent: Callable[[Tensor, int, int], Tensor], token: Callable[[Tensor, int, int], Tensor]
) -> Callable[[Tensor, Tensor], Beams]:
    """The right places, read in another way: from the place, the beams and the vocabulary."""

    def step(log_probs: Tensor, scores: Tensor) -> Beams:
        beams, vocab = log_probs.shape[1:]
        new, places = _totals(log_probs, scores).flatten(1).topk(beams, dim=1)
        return new, parent(places, beams, vocab), token(places, beams, vocab)

    return step


def _each_beam_its_best(log_probs: Tensor, scores: Tensor) -> Beams:
    new, tokens = _totals(log_probs, scores).max(-1)
    return new, torch.arange(scores.shape[1]).expand_as(tokens), tokens


def _each_beam_its_best_sorted(log_probs: Tensor, scores: Tensor) -> Beams:
    new, parents, tokens = _each_beam_its_best(log_probs, scores)
    new, order = new.sort(dim=1, descending=True)
    return new, parents.gather(1, order), tokens.gather(1, order)


def _first_beam(log_probs: Tensor, scores: Tensor) -> Beams:
    new, tokens = _totals(log_probs, scores)[:, 0].topk(scores.shape[1], dim=1)
    return new, torch.zeros_like(tokens), tokens


def _best_beam(log_probs: Tensor, scores: Tensor) -> Beams:
    """The best hypothesis alone goes on."""
    best = scores.argmax(1)
    rows = torch.arange(len(scores))
    new, tokens = _totals(log_probs, scores)[rows, best].topk(scores.shape[1], dim=1)
    return new, best[:, None].expand_as(tokens), tokens


def _mixed(remainder: bool) -> Callable[[Tensor, Tensor], Beams]:
    def step(log_probs: Tensor, scores: Tensor) -> Beams:
        batch, beams, vocab = log_probs.shape
        new, places = _totals(log_probs, scores).flatten().topk(batch * beams)
        parents = places // vocab
        if remainder:
            parents = parents % beams
        return (
            new.reshape(batch, beams),
            parents.reshape(batch, beams),
            (places % vocab).reshape(batch, beams),
        )

    return step


def _one_choice_for_all(log_probs: Tensor, scores: Tensor) -> Beams:
    """The examples added up: all go the same way."""
    totals = _totals(log_probs, scores).flatten(1)
    beams, vocab = log_probs.shape[1:]
    _, places = totals[0].topk(beams)
    places = places.expand(len(totals), beams)
    return totals.gather(1, places), places // vocab, places % vocab


def _never_added(log_probs: Tensor, scores: Tensor) -> Beams:
    return _top(log_probs.flatten(1), *log_probs.shape[1:])


def _added_too_late(log_probs: Tensor, scores: Tensor) -> Beams:
    new, parents, tokens = _never_added(log_probs, scores)
    return new + scores.gather(1, parents), parents, tokens


def _added_by_place(log_probs: Tensor, scores: Tensor) -> Beams:
    new, parents, tokens = _never_added(log_probs, scores)
    return new + scores, parents, tokens


def _by_probabilities(log_probs: Tensor, scores: Tensor) -> Beams:
    chances = log_probs.exp() * scores.exp()[:, :, None]
    new, parents, tokens = _top(chances.flatten(1), *log_probs.shape[1:])
    return new.log(), parents, tokens


def _not_in_the_result(log_probs: Tensor, scores: Tensor) -> Beams:
    _, parents, tokens = _step(log_probs, scores)
    rows = torch.arange(len(scores))[:, None]
    return log_probs[rows, parents, tokens], parents, tokens


def _multiplied(log_probs: Tensor, scores: Tensor) -> Beams:
    return _top((log_probs * scores[:, :, None]).flatten(1), *log_probs.shape[1:])


def _along_the_vocabulary(log_probs: Tensor, scores: Tensor) -> Beams:
    return _top((log_probs + scores[:, None, :]).flatten(1), *log_probs.shape[1:])


def _equal_at_first(log_probs: Tensor, scores: Tensor) -> Beams:
    return _step(log_probs, scores.masked_fill(scores.isinf(), 0.0))


def _smallest(log_probs: Tensor, scores: Tensor) -> Beams:
    beams, vocab = log_probs.shape[1:]
    new, places = _totals(log_probs, scores).flatten(1).topk(beams, dim=1, largest=False)
    return new, places // vocab, places % vocab


def _in_order_of_place(log_probs: Tensor, scores: Tensor) -> Beams:
    beams, vocab = log_probs.shape[1:]
    totals = _totals(log_probs, scores).flatten(1)
    places = totals.topk(beams, dim=1).indices.sort(dim=1).values
    return totals.gather(1, places), places // vocab, places % vocab


def _no_token_twice(log_probs: Tensor, scores: Tensor) -> Beams:
    """The best parent of each token, and of these the best tokens."""
    totals, parents = _totals(log_probs, scores).max(dim=1)  # (batch, vocab)
    new, tokens = totals.topk(scores.shape[1], dim=1)
    return new, parents.gather(1, tokens), tokens


def _clear(log_probs: Tensor, scores: Tensor) -> bool:
    """Whether no two continuations of an example are nearly equal, however they are scored."""
    started = scores.masked_fill(scores.isinf(), 0.0)
    tables = [_totals(log_probs, started), log_probs]
    if bool(started.all()):
        tables.append(log_probs * scores[:, :, None])
    return all(
        float(table.flatten(1).sort(dim=1).values.diff(dim=1).min()) > 1e-3 for table in tables
    )


def _fresh_step(rng: random.Random) -> Arguments:
    while True:
        batch, beams, vocab = rng.randint(1, 2), rng.randint(2, 3), rng.randint(3, 4)
        n = batch * beams * vocab
        log_probs = torch.tensor([-rng.randint(10, 400) / 100 for _ in range(n)])
        scores = torch.tensor([-rng.randint(1, 300) / 100 for _ in range(batch * beams)])
        log_probs, scores = log_probs.reshape(batch, beams, vocab), scores.reshape(batch, beams)
        if rng.random() < 0.25:  # a first step: one hypothesis, the others not there yet
            scores[:], scores[:, 1:] = 0.0, -torch.inf
        if _clear(log_probs, scores):
            return log_probs, scores


_STEP = torch.tensor([[[-0.2, -2.0, -3.0], [-0.4, -1.2, -2.6]]])
_OTHER = torch.tensor([[[-2.4, -0.3, -1.75], [-1.1, -0.9, -0.6]]])
_MIXES = (
    "You chose among all examples of the batch together. An easy note would take the beams of "
    "a hard one: each example keeps its own."
)

BEAM_STEP = Exercise(
    id="17.5",
    title="One step of a beam search",
    parameters=("log_probs", "scores"),
    reference=_step,
    chosen=(
        (_STEP, torch.tensor([[-0.1, -1.5]])),
        (_STEP, torch.tensor([[-2.5, -0.3]])),
        (torch.cat([_STEP, _OTHER]), torch.tensor([[-0.1, -0.7], [-2.0, -3.1]])),
        (torch.cat([_OTHER, _STEP]), torch.tensor([[-0.1, -0.7], [-0.3, -3.1]])),
        (
            torch.tensor(
                [[[-0.5, -1.3, -2.2, -1.9], [-0.6, -1.4, -2.1, -1.8], [-0.4, -1.7, -2.3, -1.1]]]
            ),
            torch.tensor([[0.0, -math.inf, -math.inf]]),
        ),
        # A long hypothesis, and a beam that is not there: no number is as low as minus infinity.
        (_OTHER, torch.tensor([[-300.0, -math.inf]])),
        (_STEP, torch.tensor([[-math.inf, -12_000.0]])),
        (torch.tensor([[[-0.3, -1.4], [-0.9, -0.6]]]), torch.tensor([[-0.9, -0.2]])),
        (
            torch.tensor([[[-3.0, -0.5, -2.1, -1.8], [-0.7, -2.9, -2.3, -1.15]]]),
            torch.tensor([[-1.0, -0.9]]),
        ),
    ),
    fresh=_fresh_step,
    misconceptions=(
        Misconception(
            "each_beam_its_best",
            "Each of your beams keeps its own best continuation. A good hypothesis may have "
            "several that are better than the best one of a poor hypothesis: choose among all.",
            _each_beam_its_best,
        ),
        Misconception(
            "each_beam_its_best_sorted",
            "Each of your beams keeps its own best continuation. A good hypothesis may have "
            "several that are better than the best one of a poor hypothesis: choose among all.",
            _each_beam_its_best_sorted,
        ),
        Misconception(
            "first_beam_alone",
            "You continue the first hypothesis alone. That is right at the first step only, "
            "where the others are not there yet.",
            _first_beam,
        ),
        Misconception(
            "best_beam_alone",
            "You continue the best hypothesis alone. The second best may have the better "
            "continuation: that is what the other beams are for.",
            _best_beam,
        ),
        Misconception("mixes_examples", _MIXES, _mixed(remainder=True)),
        Misconception("mixes_examples_and_beams", _MIXES, _mixed(remainder=False)),
        Misconception(
            "one_choice_for_all",
            "You chose for the first example, and all others of the batch go the same way. Each "
            "needs its own choice.",
            _one_choice_for_all,
        ),
        Misconception(
            "divided_by_the_beams",
            "You divided the place by the number of beams. A beam has as many places as there "
            "are tokens in the vocabulary: divide by that.",
            _read_as(lambda i, k, v: i // k, lambda i, k, v: i % k),
        ),
        Misconception(
            "token_by_the_beams",
            "Your parents are right, and your tokens are the rest of a division by the number of "
            "beams. Both come from the same division.",
            _read_as(lambda i, k, v: i // v, lambda i, k, v: i % k),
        ),
        Misconception(
            "parent_by_the_beams",
            "Your tokens are right, and your parents come from a division by the number of "
            "beams. Both come from the same division.",
            _read_as(lambda i, k, v: i // k, lambda i, k, v: i % v),
        ),
        Misconception(
            "parents_and_tokens_swapped",
            "You swapped parents and tokens. The places of one beam lie together: how many whole "
            "vocabularies come before says the beam, the rest the token.",
            _read_as(lambda i, k, v: i % v, lambda i, k, v: i // v),
        ),
        Misconception(
            "vocabulary_first",
            "You read the places as if the tokens came first and the beams inside them. In "
            "(beams, vocab) the beams come first.",
            _read_as(lambda i, k, v: i % k, lambda i, k, v: i // k),
        ),
        Misconception(
            "place_for_token",
            "Your tokens are places among all continuations. Take what is left when whole "
            "vocabularies are taken away.",
            _read_as(lambda i, k, v: i // v, lambda i, k, v: i),
        ),
        Misconception(
            "true_division",
            "Your parents are fractions. Divide with //, or say rounding_mode: a beam has a whole "
            "number.",
            _read_as(lambda i, k, v: i / v, lambda i, k, v: i % v),
        ),
        Misconception(
            "scores_never_added",
            "You forgot the scores of the hypotheses. A likely word after an unlikely beginning "
            "is an unlikely summary: add the log-probabilities up.",
            _never_added,
        ),
        Misconception(
            "scores_added_too_late",
            "You chose by the log-probability of the next token, and added the scores afterwards. "
            "They have to be there when you choose.",
            _added_too_late,
        ),
        Misconception(
            "scores_added_by_place",
            "You chose by the log-probability of the next token, and added the scores afterwards, "
            "in the order of the old beams. They have to be there when you choose, each with the "
            "continuations of its own beam.",
            _added_by_place,
        ),
        Misconception(
            "by_way_of_probabilities",
            "You multiplied probabilities. That of a long hypothesis is too small for float32: "
            "exp(-300) is 0, and all its continuations look alike. Add the logarithms.",
            _by_probabilities,
        ),
        Misconception(
            "scores_not_in_the_result",
            "Your choice is right, but your new scores are the log-probabilities of the last "
            "token alone. The next step needs those of the whole hypotheses.",
            _not_in_the_result,
        ),
        Misconception(
            "scores_multiplied",
            "You multiplied scores and log-probabilities. Probabilities are multiplied, and so "
            "their logarithms are added.",
            _multiplied,
        ),
        Misconception(
            "scores_along_the_vocabulary",
            "You added the scores along the vocabulary. There is one for each beam: it needs a "
            "third axis, after the beams.",
            _along_the_vocabulary,
        ),
        Misconception(
            "minus_infinity_as_0",
            "You put another number in place of minus infinity. At the first step all beams are "
            "<s>; the others stand at minus infinity, so that nothing is found twice.",
            _equal_at_first,
        ),
        Misconception(
            "smallest",
            "You kept the worst continuations. The largest log-probability is the best, the one "
            "nearest to 0.",
            _smallest,
        ),
        Misconception(
            "not_sorted",
            "You kept the right continuations, in the order of their places. The task wants the "
            "best first.",
            _in_order_of_place,
        ),
        Misconception(
            "no_token_twice",
            "No two of your hypotheses end with the same token. They may: with other beginnings "
            "they are other hypotheses.",
            _no_token_twice,
        ),
    ),
    hints=(
        "Add the score of each hypothesis to the log-probabilities of its continuations: "
        "(batch, beams, vocab), one number for each continuation.",
        "Flatten beams and vocabulary to one axis, and topk finds the best K of each example.",
        "The place in the flat axis is parent * vocab + token. // and % take it apart again.",
    ),
    tolerance=FLOAT32,
)


# 17.6 ROUGE-L


def _rouge_l(summary: Sequence[str], reference: Sequence[str]) -> float:
    """The reference: the package rouge-score."""
    # It imports nltk, which takes seconds: only where it is needed.
    from rouge_score.rouge_scorer import RougeScorer

    scores = RougeScorer(["rougeL"]).score(" ".join(reference), " ".join(summary))
    return float(scores["rougeL"].fmeasure)


def _subsequence(left: Sequence[str], right: Sequence[str]) -> int:
    """The length of the longest common subsequence: every choice of words, tried."""
    short, long = sorted((list(left), list(right)), key=len)
    for n in range(len(short), 0, -1):
        for words in itertools.combinations(short, n):
            rest = iter(long)
            if all(word in rest for word in words):
                return n
    return 0


def _f1(common: float, n_summary: int, n_reference: int) -> float:
    return 2 * common / (n_summary + n_reference) if common else 0.0


def _counting(
    common: Callable[[Sequence[str], Sequence[str]], int],
) -> Callable[[Sequence[str], Sequence[str]], float]:
    """F1 of another number of common words."""
    return lambda summary, reference: _f1(common(summary, reference), len(summary), len(reference))


def _substring(left: Sequence[str], right: Sequence[str]) -> int:
    return max(
        (
            n
            for i in range(len(left))
            for n in range(1, len(left) - i + 1)
            if any(
                list(left[i : i + n]) == list(right[j : j + n]) for j in range(len(right) - n + 1)
            )
        ),
        default=0,
    )


def _bag(left: Sequence[str], right: Sequence[str]) -> int:
    return (Counter(left) & Counter(right)).total()


def _greedy(left: Sequence[str], right: Sequence[str]) -> int:
    """Each word of the summary takes the next place where the reference has it."""
    at = found = 0
    for word in left:
        if word in right[at:]:
            at = list(right).index(word, at) + 1
            found += 1
    return found


def _greedy_reference(left: Sequence[str], right: Sequence[str]) -> int:
    return _greedy(right, left)


def _longest_run_first(left: Sequence[str], right: Sequence[str]) -> int:
    matcher = difflib.SequenceMatcher(None, left, right)
    return sum(block.size for block in matcher.get_matching_blocks())


def _one_row_for_all(left: Sequence[str], right: Sequence[str]) -> int:
    row = [0] * (len(right) + 1)
    for word in left:
        for j, other in enumerate(right):
            row[j + 1] = row[j] + 1 if word == other else max(row[j + 1], row[j])
    return row[-1]


def _from_the_start(left: Sequence[str], right: Sequence[str]) -> int:
    return sum(
        1
        for _ in itertools.takewhile(
            lambda pair: pair[0] == pair[1], zip(left, right, strict=False)
        )
    )


def _same_places(left: Sequence[str], right: Sequence[str]) -> int:
    return sum(one == other for one, other in zip(left, right, strict=False))


def _not_diagonal(left: Sequence[str], right: Sequence[str]) -> int:
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, word in enumerate(left):
        for j, other in enumerate(right):
            table[i + 1][j + 1] = max(table[i][j + 1], table[i + 1][j]) + (word == other)
    return table[-1][-1]


def _sets(summary: Sequence[str], reference: Sequence[str]) -> float:
    both = len(set(summary) & set(reference))
    return _f1(both, len(set(summary)), len(set(reference)))


def _of_lcs(
    value: Callable[[int, int, int], float],
) -> Callable[[Sequence[str], Sequence[str]], float]:
    """Another value of the right length, and of the lengths of both; 0 where nothing is common."""

    def score(summary: Sequence[str], reference: Sequence[str]) -> float:
        common = _subsequence(summary, reference)
        return float(value(common, len(summary), len(reference))) if common else 0.0

    return score


def _fails(when: Callable[[int, int, int], bool]) -> Callable[..., float]:
    """The right value, and a division by 0 in some cases."""

    def score(summary: Sequence[str], reference: Sequence[str]) -> float:
        common = _subsequence(summary, reference)
        if when(common, len(summary), len(reference)):
            raise ZeroDivisionError("division by zero")
        return _f1(common, len(summary), len(reference))

    return score


def _letters(summary: Sequence[str], reference: Sequence[str]) -> float:
    one, other = " ".join(summary), " ".join(reference)
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i, letter in enumerate(one):
        for j, its in enumerate(other):
            table[i + 1][j + 1] = (
                table[i][j] + 1 if letter == its else max(table[i][j + 1], table[i + 1][j])
            )
    return _f1(table[-1][-1], len(one), len(other))


def _pairs(summary: Sequence[str], reference: Sequence[str]) -> float:
    one, other = (list(itertools.pairwise(words)) for words in (summary, reference))
    return _f1((Counter(one) & Counter(other)).total(), len(one), len(other))


_WORDS = ("pain", "fever", "no", "home", "and")


def _fresh_texts(rng: random.Random) -> Arguments:
    return tuple([rng.choice(_WORDS) for _ in range(rng.randint(1, 6))] for _ in range(2))


_LONGEST_RUN_FIRST = (
    "Your number of common words is that of difflib: the longest run first, and then what is left "
    "and right of it. That run can stand in the way of a longer subsequence."
)
_NOTHING_COMMON = (
    "Your function divides by 0 where the texts have no word in common: precision and recall are "
    "both 0 then, and so is F1."
)
_EMPTY = (
    "Your function divides by 0 where a text has no word. An empty summary is a possible one: "
    "its score is 0."
)

ROUGE_L = Exercise(
    id="17.6",
    title="ROUGE-L",
    parameters=("summary", "reference"),
    reference=_rouge_l,
    chosen=(
        (["no", "fever", "home"], ["home", "no", "fever", "today"]),
        (["pain", "fever", "no", "home"], ["pain", "no", "fever", "and", "home"]),
        (["fever", "fever", "fever"], ["fever", "and", "pain"]),
        ([], ["fever"]),
        (["fever"], []),
        ([], []),
        (["fever"], ["pain", "home"]),
        (["no", "pain", "and", "fever", "no"], ["pain", "and", "no", "fever", "no", "home"]),
        (["home", "pain", "fever", "no"], ["pain", "fever", "no", "home"]),
        (["pain", "fever", "no"], ["fever", "no", "pain"]),
        (["pain", "home"], ["pain", "home"]),
        (["no", "fever", "no", "pain"], ["no", "pain", "no", "fever"]),
        (["pain", "and", "fever"], ["fever", "and", "fever", "and", "pain"]),
        # The longest run is not a part of the longest subsequence, nor is any first choice.
        (["no", "fever", "and", "no", "home"], ["no", "home", "and", "no", "fever"]),
        (["no", "pain", "no", "no"], ["no", "no", "no"]),
    ),
    fresh=_fresh_texts,
    misconceptions=(
        Misconception(
            "longest_common_substring",
            "You looked for the longest run of words that both have side by side. A subsequence "
            "may leave words out: only their order counts.",
            _counting(_substring),
        ),
        Misconception(
            "overlap_of_sets",
            "You compared sets of words. That forgets their order, and how often each one stands "
            "there.",
            _sets,
        ),
        Misconception(
            "overlap_of_words",
            "You counted the words that both have, in any order: that is ROUGE-1. In ROUGE-L "
            "they have to come in the same order.",
            _counting(_bag),
        ),
        Misconception(
            "overlap_of_pairs",
            "You counted the pairs of words that both have: that is ROUGE-2.",
            _pairs,
        ),
        Misconception(
            "recall_alone",
            "You divided by the length of the reference: that is the recall. A summary that "
            "says everything and much more would have the best score.",
            _of_lcs(lambda common, n, m: common / m),
        ),
        Misconception(
            "precision_alone",
            "You divided by the length of the summary: that is the precision. A summary of one "
            "right word would have the best score.",
            _of_lcs(lambda common, n, m: common / n),
        ),
        Misconception(
            "mean_of_both",
            "You took the mean of precision and recall. F1 is their harmonic mean, which is low "
            "when one of them is.",
            _of_lcs(lambda common, n, m: (common / n + common / m) / 2),
        ),
        Misconception(
            "product_of_both",
            "You multiplied precision and recall. F1 is twice the product over the sum.",
            _of_lcs(lambda common, n, m: common / n * common / m),
        ),
        Misconception(
            "factor_2_missing",
            "Your value is half of what it should be: F1 has a factor of 2. Two equal texts have "
            "the score 1.",
            _of_lcs(lambda common, n, m: common / (n + m)),
        ),
        Misconception(
            "shared_part_of_all",
            "You divided by the number of words in both texts together, common ones once. That "
            "is the Jaccard index; F1 is twice the common length over the sum of both.",
            _of_lcs(lambda common, n, m: common / (n + m - common)),
        ),
        Misconception(
            "over_the_longer",
            "You divided by the length of the longer text. F1 uses both lengths.",
            _of_lcs(lambda common, n, m: common / max(n, m)),
        ),
        Misconception(
            "over_the_shorter",
            "You divided by the length of the shorter text. F1 uses both lengths.",
            _of_lcs(lambda common, n, m: common / min(n, m)),
        ),
        Misconception(
            "length_alone",
            "You returned the length of the longest common subsequence. The score is its F1.",
            _of_lcs(lambda common, n, m: common),
        ),
        Misconception(
            "fails_without_a_common_word", _NOTHING_COMMON, _fails(lambda c, n, m: not c)
        ),
        Misconception(
            "fails_without_a_common_word_in_two_texts",
            _NOTHING_COMMON,
            _fails(lambda c, n, m: not c and n > 0 and m > 0),
        ),
        Misconception("fails_on_an_empty_text", _EMPTY, _fails(lambda c, n, m: not n or not m)),
        Misconception("fails_on_an_empty_summary", _EMPTY, _fails(lambda c, n, m: not n)),
        Misconception("fails_on_an_empty_reference", _EMPTY, _fails(lambda c, n, m: not m)),
        Misconception("fails_on_two_empty_texts", _EMPTY, _fails(lambda c, n, m: not n + m)),
        Misconception(
            "first_place_that_fits",
            "Each word of your summary takes the first place in the reference that fits. That "
            "can lead past much that would fit later: the longest subsequence needs all choices.",
            _counting(_greedy),
        ),
        Misconception(
            "first_place_in_the_summary",
            "Each word of your reference takes the first place in the summary that fits. That "
            "can lead past much that would fit later: the longest subsequence needs all choices.",
            _counting(_greedy_reference),
        ),
        Misconception(
            "longest_run_first",
            _LONGEST_RUN_FIRST,
            _counting(_longest_run_first),
        ),
        Misconception(
            "ratio_of_difflib",
            _LONGEST_RUN_FIRST,
            lambda summary, reference: difflib.SequenceMatcher(None, summary, reference).ratio(),
        ),
        Misconception(
            "two_empty_texts_alike",
            "Your score of two empty texts is 1. They have no word in common, and so it is 0.",
            lambda summary, reference: (
                _rouge_l(summary, reference) if summary or reference else 1.0
            ),
        ),
        Misconception(
            "one_row_for_all",
            "All rows of your table are one and the same list: [row] * n holds one row n times. "
            "Make a new list for each row.",
            _counting(_one_row_for_all),
        ),
        Misconception(
            "from_the_start",
            "You counted equal words from the start, until the first difference. One word more "
            "at the front would make the score 0.",
            _counting(_from_the_start),
        ),
        Misconception(
            "same_places",
            "You compared word by word at the same places. One word more at the front moves all "
            "of them, and the order is still the same.",
            _counting(_same_places),
        ),
        Misconception(
            "word_used_twice",
            "Your table counts one word for several. When two words are equal, the number grows "
            "by 1 from the one before both of them, not from the one beside.",
            _counting(_not_diagonal),
        ),
        Misconception(
            "letters",
            "You compared letters. ROUGE counts words: unlike words share many letters.",
            _letters,
        ),
    ),
    hints=(
        "First the length of the longest common subsequence: the most words that both texts "
        "have in the same order, with others between them.",
        "Let best[i][j] be that length for the first i words of one and the first j of the other. "
        "How does it follow from its neighbours, when the two last words are equal, and when not?",
        "Precision is that length over the summary's, recall over the reference's, F1 their "
        "harmonic mean. What is F1 when there is no common word?",
    ),
    tolerance=1e-6,
)


EXERCISES = (COVERAGE, LOSS, LENGTH_PENALTY, BLOCKING, BEAM_STEP, ROUGE_L)
