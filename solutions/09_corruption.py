# %% [markdown]
# # 09 · Corruption: worked answers
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
from itertools import pairwise

import torch

from ehr_course.exercises import check


# %% [markdown]
# ## 09.1 Span lengths
#
# Each draw lands at one length: 0 and 1 at the length 1, every draw below
# the longest at itself. All the others land at the longest length. They
# are infinitely many, but together they are what is missing to 1.

# %% tags=["answer:09.1", "nbval-ignore-output"]
def span_length_probabilities(mean, longest):
    shares = [0.0] * longest
    for draw in range(longest):
        share = math.exp(-mean) * mean**draw / math.factorial(draw)
        length = max(draw, 1)
        shares[length - 1] += share
    shares[-1] += 1 - sum(shares)
    return shares


check("09.1", span_length_probabilities)


# %% [markdown]
# The alternative asks how often a length is at least 1, at least 2, and
# so on, and takes differences. Every length is at least 1, and none is
# above the longest: that is the whole clamp.

# %% tags=["alternative:09.1", "nbval-ignore-output"]
def span_length_probabilities(mean, longest):
    at_least = [1.0]
    share, below = math.exp(-mean), math.exp(-mean)
    for draw in range(1, longest):
        share *= mean / draw
        below += share
        at_least.append(1 - below)
    at_least.append(0.0)
    return [a - b for a, b in pairwise(at_least)]


check("09.1", span_length_probabilities)


# %% [markdown]
# ## 09.2 Mask infilling
#
# Take the markers off, and the span can touch codes only. A slice that
# runs past the end of a list ends there, so a span that is too long needs
# no case of its own.

# %% tags=["answer:09.2", "nbval-ignore-output"]
def infill(visit, start, length):
    codes = visit[1:-1]
    before = codes[:start]
    after = codes[start + length :]
    return [3, *before, 6, *after, 4]


check("09.2", infill)


# %% [markdown]
# The alternative works in the row itself, where the codes begin at place
# 1, and cuts the span with `min`. It works on a copy: the clean visit is
# still needed, for the labels.

# %% tags=["alternative:09.2", "nbval-ignore-output"]
def infill(visit, start, length):
    row = list(visit)
    first = 1 + start
    last = min(first + length, len(row) - 1)
    row[first:last] = [6]
    return row


check("09.2", infill)


# %% [markdown]
# ## 09.3 Deletion
#
# Each code has its own draw. Whether a visit would be empty is known when
# all draws have been compared, and then chance has already chosen which
# code is spared.

# %% tags=["answer:09.3", "nbval-ignore-output"]
def delete_from(visit, draws, p, spare):
    codes = visit[1:-1]
    pairs = zip(codes, draws, strict=True)
    kept = [code for code, draw in pairs if draw >= p]
    if not kept:
        kept = [codes[spare]]
    return [3, *kept, 4]


check("09.3", delete_from)


# %% [markdown]
# The alternative decides first and cuts afterwards: a mask of what stays,
# with at least one place in it. The library does it like this for a whole
# batch at once.

# %% tags=["alternative:09.3", "nbval-ignore-output"]
def delete_from(visit, draws, p, spare):
    stays = [draw >= p for draw in draws]
    stays[spare] = stays[spare] or not any(stays)
    stays = [True, *stays, True]
    return [t for t, stay in zip(visit, stays, strict=True) if stay]


check("09.3", delete_from)


# %% [markdown]
# ## 09.4 Replacement
#
# The list of the others is rebuilt for each code, without that code
# and without special tokens. So nothing that is drawn from it can be
# wrong.

# %% tags=["answer:09.4", "nbval-ignore-output"]
def replace_in(visit, draws, p, picks, n_tokens):
    codes = visit[1:-1]
    new = []
    for code, draw, pick in zip(codes, draws, picks, strict=True):
        if draw < p:
            others = [t for t in range(7, n_tokens) if t != code]
            code = others[int(pick * len(others))]
        new.append(code)
    return [3, *new, 4]


check("09.4", replace_in)


# %% [markdown]
# The alternative needs no list. There is one other code less than there
# are codes; a choice that has reached the code itself steps over it.

# %% tags=["alternative:09.4", "nbval-ignore-output"]
def replace_in(visit, draws, p, picks, n_tokens):
    row = list(visit)
    n_others = n_tokens - 7 - 1
    for i, (draw, pick) in enumerate(zip(draws, picks, strict=True)):
        if draw < p:
            new = 7 + int(pick * n_others)
            row[1 + i] = new + 1 if new >= row[1 + i] else new
    return row


check("09.4", replace_in)


# %% [markdown]
# ## 09.5 Labels and decoder input
#
# `corrupted` is not used. It is what the encoder reads, and nothing else
# may come from it. The decoder input is made from the clean rows before
# any -100 is written: later it would be too late.

# %% tags=["answer:09.5", "nbval-ignore-output"]
def make_targets(clean, corrupted, scored):
    start = torch.full_like(clean[:, :1], 2)
    decoder_input_ids = torch.cat([start, clean[:, :-1]], dim=1)
    labels = clean.clone()
    labels[~scored] = -100
    labels[clean == 0] = -100
    return labels, decoder_input_ids


check("09.5", make_targets)


# %% [markdown]
# The alternative rolls all columns to the right. What falls off at the
# end comes back in front, and is overwritten by the start token.

# %% tags=["alternative:09.5", "nbval-ignore-output"]
def make_targets(clean, corrupted, scored):
    decoder_input_ids = clean.roll(1, dims=1)
    decoder_input_ids[:, 0] = 2
    counts = scored & (clean != 0)
    return torch.where(counts, clean, -100), decoder_input_ids


check("09.5", make_targets)


# %% [markdown]
# ## 09.6 Find corrupted labels
#
# The clean records are not there to compare with, but they never change.
# So keep the patients and change the noise: a label may then be scored or
# not, but its token stays. Only labels of which nothing but `<mask>` is ever
# scored escape this test, and they show at once because no clean record
# contains that token.

# %% tags=["answer:09.6", "nbval-ignore-output"]
def corrupts_labels(make_batch):
    right = {}
    for seed in range(100):
        labels = make_batch(seed)["labels"]
        for row, tokens in enumerate(labels.tolist()):
            for place, token in enumerate(tokens):
                if token == -100:
                    continue
                if token == 6:
                    return True
                if right.setdefault((row, place), token) != token:
                    return True
    return False


check("09.6", corrupts_labels)


# %% [markdown]
# The alternative keeps no record of what it has seen. It lays the labels
# of all seeds on one another, as a tensor of shape (seeds, batch, target),
# and asks at each place whether the largest scored token is also the
# smallest.

# %% tags=["alternative:09.6", "nbval-ignore-output"]
def corrupts_labels(make_batch):
    tables = [make_batch(seed)["labels"] for seed in range(150)]
    width = max(table.shape[1] for table in tables)
    seen = torch.full((150, len(tables[0]), width), -100)
    for table, place in zip(tables, seen, strict=True):
        place[:, : table.shape[1]] = table
    largest = seen.amax(dim=0)
    smallest = seen.masked_fill(seen == -100, 10**9).amin(dim=0)
    return bool((seen == 6).any() or (smallest < largest).any())


check("09.6", corrupts_labels)
