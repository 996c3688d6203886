# %% [markdown]
# # 13 · Multi-task learning: worked answers
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
import statistics

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from ehr_course.exercises import check


# %% [markdown]
# ## 13.1 The last real token
#
# The last of n tokens stands at position n - 1. Two index tensors of one
# shape are read side by side: row 0 with the first place, row 1 with the
# second.

# %% tags=["answer:13.1", "nbval-ignore-output"]
def last_states(states, real):
    last = real.sum(dim=1) - 1  # (batch,)
    rows = torch.arange(len(states))
    return states[rows, last]  # (batch, d_model)


check("13.1", last_states)


# %% [markdown]
# The alternative looks for the last place that is real. Padding is
# multiplied away, so the largest place that is left is the last real one.
# This is right where padding stands on the left, too.

# %% tags=["alternative:13.1", "nbval-ignore-output"]
def last_states(states, real):
    places = torch.arange(real.shape[1])  # (length,)
    last = (places * real).argmax(dim=1)  # (batch,)
    index = last[:, None, None].expand(-1, 1, states.shape[2])
    return states.gather(1, index).squeeze(1)


check("13.1", last_states)


# %% [markdown]
# ## 13.2 Age brackets
#
# The number of the bracket is the number of bounds that the age has
# reached. An age that is a bound has reached it, so `>=`.

# %% tags=["answer:13.2", "nbval-ignore-output"]
def age_brackets(ages, bounds):
    begins = torch.tensor(bounds)  # (n_bounds,)
    reached = ages[:, None] >= begins  # (n, n_bounds)
    return reached.sum(dim=1)


check("13.2", age_brackets)


# %% [markdown]
# `bucketize` searches the bounds. With `right=True` a value that is a
# bound goes to the right of it. Bounds of the type of the ages: whole
# numbers and floats do not mix everywhere.

# %% tags=["alternative:13.2", "nbval-ignore-output"]
def age_brackets(ages, bounds):
    begins = torch.tensor(bounds, dtype=ages.dtype)
    return torch.bucketize(ages, begins, right=True)


check("13.2", age_brackets)


# %% [markdown]
# ## 13.3 A loss at each token
#
# The mask picks the same places from the answers and from the classes, so
# they stay together. `expand` repeats the class along its row; `repeat`
# on the flat tensor would run down the batch.

# %% tags=["answer:13.3", "nbval-ignore-output"]
def token_loss(logits, labels, classes, n_prompts):
    answers = logits[:, n_prompts:]  # (batch, length, n_classes)
    scored = labels != -100  # (batch, length)
    truth = classes[:, None].expand(scored.shape)
    answers, truth = answers[scored], truth[scored]
    total = cross_entropy(answers, truth, reduction="sum")
    return total, scored.sum()


check("13.3", token_loss)


# %% [markdown]
# The alternative lets `cross_entropy` skip what is not scored: the class
# is written into the labels, and -100 stays where it is.

# %% tags=["alternative:13.3", "nbval-ignore-output"]
def token_loss(logits, labels, classes, n_prompts):
    truth = torch.where(labels == -100, -100, classes[:, None])
    losses = cross_entropy(
        logits[:, n_prompts:].transpose(1, 2),  # classes on axis 1
        truth,
        reduction="none",
        ignore_index=-100,
    )  # (batch, length), 0 where not scored
    return losses.sum(), int((truth != -100).sum())


check("13.3", token_loss)


# %% [markdown]
# ## 13.4 Find the leak, and close it
#
# The leak is found by changing the prompts and nothing else. It is closed
# by features that are not made from the states at all: no step that
# follows the states could take the prompt out of them again.

# %% tags=["answer:13.4", "nbval-ignore-output"]
def find_and_close(read, prompts, other_prompts, embeddings):
    own = read(prompts, embeddings)  # (batch, length, d_model)
    other = read(other_prompts, embeddings)
    leak = (own - other).norm(dim=-1)  # (batch, length)
    sums = embeddings.cumsum(dim=1)
    counts = torch.arange(1, embeddings.shape[1] + 1)  # (length,)
    return leak, sums / counts[:, None]


check("13.4", find_and_close)


# %% [markdown]
# A running mean is a matrix product: row t of a lower triangle of ones,
# divided by its sum, averages the tokens 0 to t.

# %% tags=["alternative:13.4", "nbval-ignore-output"]
def find_and_close(read, prompts, other_prompts, embeddings):
    moved = read(other_prompts, embeddings) - read(prompts, embeddings)
    leak = moved.square().sum(-1).sqrt()
    length = embeddings.shape[1]
    causal = torch.ones(length, length).tril()
    causal = causal / causal.sum(1, keepdim=True)  # rows sum to 1
    return leak, causal @ embeddings


check("13.4", find_and_close)


# %% [markdown]
# ## 13.5 Read the weight sweep
#
# The values are collected by weight, in whatever order the runs come.
# Then every weight, 0 as well, is held against weight 0.

# %% tags=["answer:13.5", "nbval-ignore-output"]
def read_sweep(runs):
    values = {}
    for weight, _, value in runs:
        values.setdefault(weight, []).append(value)
    mean = {w: statistics.mean(found) for w, found in values.items()}
    spread = {w: statistics.stdev(found) for w, found in values.items()}
    read = {}
    for weight in values:
        difference = abs(mean[weight] - mean[0.0])
        differs = difference > spread[weight] + spread[0.0]
        read[weight] = (mean[weight], spread[weight], differs)
    return read


check("13.5", read_sweep)


# %% [markdown]
# The same with NumPy. `ddof=1` divides by n - 1.

# %% tags=["alternative:13.5", "nbval-ignore-output"]
def read_sweep(runs):
    weights, _, values = np.array(runs).T

    def summary(weight):
        found = values[weights == weight]
        return found.mean(), found.std(ddof=1)

    mean_0, spread_0 = summary(0.0)
    read = {}
    for weight in np.unique(weights):
        mean, spread = summary(weight)
        differs = abs(mean - mean_0) > spread + spread_0
        read[float(weight)] = (mean, spread, differs)
    return read


check("13.5", read_sweep)


# %% [markdown]
# ## 13.6 A ceiling for honest heads
#
# Collect, for everything that can have been read, the sexes of those who
# have it. One answer is given to all of them, so at best as many are right
# as the more frequent sex has. Before the first code that is everybody.

# %% tags=["answer:13.6", "nbval-ignore-output"]
def ceiling(patients):
    asked = {}
    for sex, codes in patients:
        for n in range(len(codes) + 1):
            read = tuple(codes[:n])
            asked.setdefault(read, []).append(sex)
    right = [max(of.count("F"), of.count("M")) for of in asked.values()]
    return sum(right) / sum(len(of) for of in asked.values())


check("13.6", ceiling)


# %% [markdown]
# The alternative follows the patients code by code. Those who have read
# the same stay together, and part where their next codes differ.

# %% tags=["alternative:13.6", "nbval-ignore-output"]
def ceiling(patients):
    def right(together, read):
        women = sum(sex == "F" for sex, _ in together)
        further = {}
        for patient in together:
            if len(patient[1]) > read:
                further.setdefault(patient[1][read], []).append(patient)
        return max(women, len(together) - women) + sum(
            right(group, read + 1) for group in further.values()
        )

    asked = sum(len(codes) + 1 for _, codes in patients)
    return right(patients, 0) / asked


check("13.6", ceiling)
