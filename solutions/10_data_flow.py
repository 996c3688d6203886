# %% [markdown]
# # 10 · Data flow: worked answers
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
from functools import cache

import numpy as np
import torch
from torch.nn.functional import pad

from ehr_course.exercises import check


# %% [markdown]
# ## 10.1 Padding waste and length buckets
#
# A batch costs its number of rows times its longest row. Both sums run
# over all batches before anything is divided, so that each place counts
# once, wherever it stands.

# %% tags=["answer:10.1", "nbval-ignore-output"]
def padding_share(lengths, batch_size, pool_batches):
    pool_size = batch_size * pool_batches
    places = 0
    for start in range(0, len(lengths), pool_size):
        pool = sorted(lengths[start : start + pool_size])
        for first in range(0, len(pool), batch_size):
            batch = pool[first : first + batch_size]
            places += len(batch) * max(batch)
    return 1 - sum(lengths) / places


check("10.1", padding_share)


# %% [markdown]
# The alternative gives every record the length of its batch, and compares
# two sums. NumPy sorts each pool in its place; the last record of a sorted
# batch is its longest.

# %% tags=["alternative:10.1", "nbval-ignore-output"]
def padding_share(lengths, batch_size, pool_batches):
    real = np.array(lengths)
    padded = real.copy()
    for start in range(0, len(real), batch_size * pool_batches):
        padded[start : start + batch_size * pool_batches].sort()
    for first in range(0, len(real), batch_size):
        batch = slice(first, first + batch_size)
        padded[batch] = padded[batch][-1]
    return float((padded.sum() - real.sum()) / padded.sum())


check("10.1", padding_share)


# %% [markdown]
# ## 10.2 Fresh corruption that can be repeated
#
# The noise of a batch depends on what the batch is, never on who makes it
# or when. A generator made from the three numbers is the same one on any
# machine, in any worker, today and after a crash. That costs one new
# generator for each batch, which takes some microseconds.

# %% tags=["answer:10.2", "nbval-ignore-output"]
def loader_noise(seed, epoch, start, n_batches, n_workers):
    noise = []
    for number in range(start, n_batches):
        rng = np.random.default_rng([seed, epoch, number])
        noise.append(int(rng.integers(1_000)))
    return noise


check("10.2", loader_noise)


# %% [markdown]
# `default_rng` makes a `SeedSequence` of the list. Made by hand, it can
# be kept, printed, or handed to another kind of generator.

# %% tags=["alternative:10.2", "nbval-ignore-output"]
def loader_noise(seed, epoch, start, n_batches, n_workers):
    def draw(number):
        sequence = np.random.SeedSequence([seed, epoch, number])
        return np.random.default_rng(sequence).integers(1_000)

    return [draw(number) for number in range(start, n_batches)]


check("10.2", loader_noise)


# %% [markdown]
# ## 10.3 The contract of a batch
#
# Shapes come first, because no other clause can be tested without them.
# After that each clause is one comparison of whole tensors. What the
# decoder should read is built from the labels, and compared.

# %% tags=["answer:10.3", "nbval-ignore-output"]
def problems(
    input_ids, attention_mask, decoder_input_ids, labels, x_num, x_cat
):
    of_source = [input_ids, attention_mask]
    of_target = [decoder_input_ids, labels]
    of_patient = [x_num, x_cat]
    batch, source = input_ids.shape
    target = labels.shape[1]
    if (
        any(t.shape != (batch, source) for t in of_source)
        or any(t.shape != (batch, target) for t in of_target)
        or any(t.shape != (batch, 1) for t in of_patient)
    ):
        return ["shapes"]
    found = []
    whole = [*of_source, *of_target, x_cat]
    if x_num.dtype != torch.float32 or any(
        t.dtype != torch.int64 for t in whole
    ):
        found.append("dtypes")
    if (attention_mask != (input_ids != 0)).any():
        found.append("mask")
    if (labels == 0).any():
        found.append("labels")
    expected = torch.full_like(labels, 2)
    expected[:, 1:] = labels[:, :-1]
    expected[expected == -100] = 0
    if (decoder_input_ids != expected).any():
        found.append("decoder")
    return found


check("10.3", problems)


# %% [markdown]
# The alternative writes the contract as a table from a clause to whether
# it is broken, and reads the broken ones off.

# %% tags=["alternative:10.3", "nbval-ignore-output"]
def problems(
    input_ids, attention_mask, decoder_input_ids, labels, x_num, x_cat
):
    pairs = [(input_ids, attention_mask), (decoder_input_ids, labels)]
    column = (len(input_ids), 1)
    same = all(a.shape == b.shape for a, b in pairs)
    same = same and len(labels) == len(input_ids)
    if not same or not x_num.shape == x_cat.shape == column:
        return ["shapes"]
    whole = [tensor.dtype for pair in pairs for tensor in pair]
    types = {*whole, x_cat.dtype}
    read = pad(labels[:, :-1], (1, 0), value=2).clamp(min=0)
    broken = {
        "dtypes": types != {torch.int64} or x_num.dtype != torch.float32,
        "mask": not torch.equal(attention_mask, input_ids > 0),
        "labels": 0 in labels,
        "decoder": not torch.equal(decoder_input_ids, read),
    }
    return [name for name in broken if broken[name]]


check("10.3", problems)


# %% [markdown]
# ## 10.4 A budget of places
#
# Two ideas. First, a batch may take records that are neighbours when all
# are sorted: exchange a long record of a narrow batch for a short one of a
# wide batch, and no batch becomes wider. Second, the end of the sorted
# records does not care how the records before it were cut, only what that
# cost. So keep for each place the lowest cost of reaching it, as 07.5
# keeps the best way to reach each letter of a word.

# %% tags=["answer:10.4", "nbval-ignore-output"]
def lowest_cost(lengths, budget, overhead):
    ordered = sorted(lengths)
    best = [0]
    for end in range(1, len(ordered) + 1):
        costs = []
        for start in range(end):
            places = (end - start) * ordered[end - 1]
            if places <= budget:
                costs.append(best[start] + places + overhead)
        best.append(min(costs))
    return best[-1]


check("10.4", lowest_cost)


# %% [markdown]
# The alternative begins with the longest record. It has to stand in some
# batch; try each number of companions, the next longest ones, and let the
# function divide the rest. `cache` remembers each rest, so that it is
# divided once.

# %% tags=["alternative:10.4", "nbval-ignore-output"]
def lowest_cost(lengths, budget, overhead):
    longest_first = sorted(lengths, reverse=True)

    @cache
    def rest(done):
        if done == len(longest_first):
            return 0
        width = longest_first[done]
        most = min(budget // width, len(longest_first) - done)
        return overhead + min(
            rows * width + rest(done + rows) for rows in range(1, most + 1)
        )

    return rest(0)


check("10.4", lowest_cost)
