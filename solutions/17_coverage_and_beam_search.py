# %% [markdown]
# # 17 · Coverage and beam search: worked answers
#
# One answer and one alternative for each exercise, with the reason.
# Compare them with your own after you have tried.

# %% tags=["opened-alone", "hide-input"]
# Opened alone, as on Colab or Kaggle? This cell installs the course.
from importlib.util import find_spec

if not find_spec("ehr_course"):
    from pathlib import Path

    name = "ehr_course-*.whl"
    found = [*Path().glob(name), *Path("/kaggle/input").rglob(name)]
    if not found:
        raise ModuleNotFoundError(
            "The course is missing. In a clone, take the kernel of .venv; "
            "elsewhere, put ehr_course-….whl beside this notebook."
        )
    get_ipython().run_line_magic("pip", f'install "{found[0]}[notebook]"')
    from ehr_course import after_installation

    after_installation()

# %%
import math
from collections import defaultdict
from functools import cache

import torch
from torch import Tensor

from ehr_course.exercises import check


# %% [markdown]
# ## 17.1 The coverage vector
#
# `cumsum` adds up the steps to each one, itself included. The step's own
# attention is not known when it chooses where to look, so it is taken
# away again.

# %% tags=["answer:17.1", "nbval-ignore-output"]
def coverage_before(attention: Tensor) -> Tensor:
    return attention.cumsum(dim=0) - attention


check("17.1", coverage_before)


# %% [markdown]
# A decoder does it step by step: it notes what was spent, looks, and adds
# the look.

# %% tags=["alternative:17.1", "nbval-ignore-output"]
def coverage_before(attention: Tensor) -> Tensor:
    spent = torch.zeros(attention.shape[1])
    rows = []
    for look in attention:
        rows.append(spent)
        spent = spent + look
    return torch.stack(rows)


check("17.1", coverage_before)


# %% [markdown]
# ## 17.2 The coverage loss
#
# At each word the smaller of the two numbers is what was spent before and
# is spent again. Over the words of the note that is between 0 and 1, since
# attention sums to 1. Steps of padding are multiplied by 0, and they are
# not in the count.

# %% tags=["answer:17.2", "nbval-ignore-output"]
def loss_of_coverage(
    attention: Tensor, scored: Tensor
) -> tuple[Tensor | float, Tensor | int]:
    before = attention.cumsum(dim=1) - attention
    overlap = torch.minimum(attention, before).sum(dim=-1)
    return (overlap * scored).sum(), scored.sum()


check("17.2", loss_of_coverage)


# %% [markdown]
# The same with the steps in a loop, and padding left out by indexing.

# %% tags=["alternative:17.2", "nbval-ignore-output"]
def loss_of_coverage(
    attention: Tensor, scored: Tensor
) -> tuple[Tensor | float, Tensor | int]:
    spent = torch.zeros_like(attention[:, 0])  # (batch, source)
    total = 0.0
    for t in range(attention.shape[1]):
        look, counts = attention[:, t], scored[:, t]
        again = torch.where(look < spent, look, spent)
        total += float(again[counts].sum())
        spent = spent + look
    return total, int(scored.sum())


check("17.2", loss_of_coverage)


# %% [markdown]
# ## 17.3 Block repeated trigrams
#
# The next token would be the third of a trigram whose first two are the
# last two tokens. Wherever those stand, followed by something, that
# something is forbidden. With fewer than three tokens the range is empty.

# %% tags=["answer:17.3", "nbval-ignore-output"]
def blocked_tokens(tokens: list[int]) -> set[int]:
    blocked = set()
    for i in range(len(tokens) - 2):
        if tokens[i : i + 2] == tokens[-2:]:
            blocked.add(tokens[i + 2])
    return blocked - {2}


check("17.3", blocked_tokens)


# %% [markdown]
# A long search keeps a dictionary from each pair to what has followed it,
# and adds one entry at each step.

# %% tags=["alternative:17.3", "nbval-ignore-output"]
def blocked_tokens(tokens: list[int]) -> set[int]:
    followed = defaultdict(set)
    for *pair, third in zip(tokens, tokens[1:], tokens[2:], strict=False):
        followed[tuple(pair)].add(third)
    return followed[tuple(tokens[-2:])] - {2}


check("17.3", blocked_tokens)


# %% [markdown]
# ## 17.4 One step of a beam search
#
# The score of a continuation is that of its hypothesis plus the
# log-probability of the token. In the flat axis the places of beam 0 come
# first, then those of beam 1: each beam has as many as the vocabulary has
# tokens, so a division by that gives the beam and leaves the token.

# %% tags=["answer:17.4", "nbval-ignore-output"]
def beam_step(
    log_probs: Tensor, scores: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    _, beams, vocab = log_probs.shape
    totals = scores[:, :, None] + log_probs
    best, places = totals.flatten(1).topk(beams, dim=1)
    return best, places // vocab, places % vocab


check("17.4", beam_step)


# %% [markdown]
# The best K of all continuations are among the best K of each beam. So
# each beam can name its own first, and then the best of those are taken;
# with a large vocabulary and several machines that saves much.

# %% tags=["alternative:17.4", "nbval-ignore-output"]
def beam_step(
    log_probs: Tensor, scores: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    batch, beams, vocab = log_probs.shape
    n = min(beams, vocab)
    more, tokens = log_probs.topk(n, dim=-1)  # (batch, beams, n)
    totals = (scores[..., None] + more).reshape(batch, beams * n)
    best, places = totals.topk(beams, dim=1)
    tokens = tokens.reshape(batch, beams * n).gather(1, places)
    parents = torch.div(places, n, rounding_mode="floor")
    return best, parents, tokens


check("17.4", beam_step)


# %% [markdown]
# ## 17.5 The length penalty
#
# All scores are negative, and dividing by more brings one nearer to 0. So
# a long hypothesis, whose log-probability is the sum of many, pays less
# for its length. The best score is the largest.

# %% tags=["answer:17.5", "nbval-ignore-output"]
def best_hypothesis(
    hypotheses: list[list[float]], alpha: float
) -> tuple[list[float], int]:
    scores = []
    for tokens in hypotheses:
        log_p, n = sum(tokens), len(tokens)
        penalty = ((5 + n) / 6) ** alpha
        scores.append(log_p / penalty)
    return scores, scores.index(max(scores))


check("17.5", best_hypothesis)


# %% [markdown]
# With tensors the penalties of all hypotheses are one line.

# %% tags=["alternative:17.5", "nbval-ignore-output"]
def best_hypothesis(
    hypotheses: list[list[float]], alpha: float
) -> tuple[list[float], int]:
    sums = [(sum(tokens), len(tokens)) for tokens in hypotheses]
    log_p, n = torch.tensor(sums, dtype=torch.float64).T
    scores = log_p * (6 / (5 + n)) ** alpha
    return scores.tolist(), int(scores.argmax())


check("17.5", best_hypothesis)


# %% [markdown]
# ## 17.6 Who can still win?
#
# Nobody knows the tokens to come, but two things are certain. Each of them
# adds a logarithm of at most 0, so the log-probability cannot rise. And the
# penalty is largest at the largest length. Both together give a score that no
# ending of this hypothesis can exceed.

# %% tags=["answer:17.6", "nbval-ignore-output"]
def can_still_win(
    live: list[tuple[float, int]],
    finished: list[tuple[float, int]],
    alpha: float,
    max_length: int,
) -> list[int]:
    def penalty(n):
        return ((5 + n) / 6) ** alpha

    best = max((p / penalty(n) for p, n in finished), default=-math.inf)
    return [
        place
        for place, (total, n) in enumerate(live)
        if total / penalty(max_length) > best
    ]


check("17.6", can_still_win)


# %% [markdown]
# The other way around: which log-probability would a summary of the largest
# length need in order to beat each of the finished ones? A hypothesis
# that has fallen below that is out.

# %% tags=["alternative:17.6", "nbval-ignore-output"]
def can_still_win(
    live: list[tuple[float, int]],
    finished: list[tuple[float, int]],
    alpha: float,
    max_length: int,
) -> list[int]:
    open_places = set(range(len(live)))
    for total, n in finished:
        needed = total * ((5 + max_length) / (5 + n)) ** alpha
        open_places -= {i for i in open_places if live[i][0] <= needed}
    return sorted(open_places)


check("17.6", can_still_win)


# %% [markdown]
# ## 17.7 ROUGE-L
#
# `best[i][j]` is the length of the longest common subsequence of the first
# `i` words of one text and the first `j` of the other. Two equal words
# make it one longer than without both. Two unlike words cannot both be
# last in it, so one of them is left out.

# %% tags=["answer:17.7", "nbval-ignore-output"]
def rouge_l(summary: list[str], reference: list[str]) -> float:
    n, m = len(summary), len(reference)
    best = [[0] * (m + 1) for _ in range(n + 1)]
    for i in range(n):
        for j in range(m):
            if summary[i] == reference[j]:
                best[i + 1][j + 1] = best[i][j] + 1
            else:
                best[i + 1][j + 1] = max(best[i][j + 1], best[i + 1][j])
    common = best[n][m]
    if common == 0:
        return 0.0
    precision, recall = common / n, common / m
    return 2 * precision * recall / (precision + recall)


check("17.7", rouge_l)


# %% [markdown]
# The same as a function that calls itself and remembers its answers. F1
# written with the lengths needs no precision and no recall.

# %% tags=["alternative:17.7", "nbval-ignore-output"]
def rouge_l(summary: list[str], reference: list[str]) -> float:
    @cache
    def longest(i, j):
        if i == len(summary) or j == len(reference):
            return 0
        if summary[i] == reference[j]:
            return 1 + longest(i + 1, j + 1)
        return max(longest(i + 1, j), longest(i, j + 1))

    both = len(summary) + len(reference)
    return 2 * longest(0, 0) / both if both else 0.0


check("17.7", rouge_l)
