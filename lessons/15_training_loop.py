# %% [markdown]
# # 15 · Training loop
#
# 110 minutes · Prerequisites: 14
#
# You will be able to:
#
# - Compute a learning rate with warm-up and cosine at any step.
# - Give the parts of a batch the gradient of the whole.
# - Predict when float16 overflows, and what the loss scale does then.
# - Order scaling, unscaling and clipping, and show why.
# - Verify that a resumed training ends with the same bits.
# - Show that two processes train the weights of one.

# %% [markdown]
# ## What do you lose with half of the bits?
#
# A graphics card is fast with numbers of 16 bits, float16, and its memory
# holds twice as many of them. Training computes in float32: twice the
# bits. So why not train in half of them? Take the trained model of the
# course, compute the gradient of a batch in float32, and round it to
# float16. What becomes of the numbers?

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %%
import contextlib
import math
import os
import runpy
import subprocess
import sys
import tempfile
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.plan import BatchPlan
from ehr_course.exercises import check, examine, hint, progress
from ehr_course.exercises.tiny_training import TinyTraining, through_a_file
from ehr_course.exercises.trainers_to_test import Stopped, Trainers
from ehr_course.losses import loss_counts, weighted_total
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.models.saved import load_checkpoint
from ehr_course.plots.history import training_figure
from ehr_course.plots.number_line import count_in_float16
from ehr_course.sources.patients import choose_patients
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.checkpoints import checkpoints
from ehr_course.training.config import TrainingConfig
from ehr_course.training.optimization import (
    decay_groups,
    warmup_cosine_factor,
)
from ehr_course.training.trainer import Trainer
from ehr_course.widgets.number_line import number_line_explorer


# %% tags=["nbval-ignore-output"]
def gradient_of(model):
    parameters = model.parameters()
    return torch.cat([p.grad.flatten() for p in parameters]).clone()


loaded = load_checkpoint("tiny_prompt_bart")
patients = make_cohort(32, seed=SEED)
learned = RecordDataset(patients, loaded.tokenizer, seed=SEED)
loaded.model(**learned.batch(range(32))).loss.backward()
gradients = gradient_of(loaded.model)  # (weights,)
sizes = gradients[gradients != 0].abs()
print(f"{len(sizes):,} gradients are not 0")
print(f"smallest: 2 to the power of {sizes.min().log2():.0f}")
print(f"largest: 2 to the power of {sizes.max().log2():.0f}")

# %% tags=["nbval-ignore-output"]
print("multiplied by  become 0   lose bits    infinite")
found = {}
for exponent in (-16, 0, 16, 24, 32):
    counts = count_in_float16(gradients, 2.0**exponent)
    found[exponent] = counts
    kinds = (counts.underflow, counts.subnormal, counts.overflow)
    shares = [kind / counts.not_zero for kind in kinds]
    print(f"2 to the {exponent:3}", end="")
    print("".join(f"{share:12.1%}" for share in shares))
assert found[-16].underflow > 0.5 * len(sizes)
assert 0 < found[0].underflow < 0.01 * len(sizes)
assert found[16].underflow < found[0].underflow / 10
assert found[16].overflow == 0
assert found[32].overflow > 0.5 * len(sizes)


# %% [markdown]
# The sizes that float16 can write run from 2⁻²⁴ to 65,504. What is at most
# half of the smallest becomes 0, and what is 65,520 or more becomes
# infinite. Below 2⁻¹⁴ there are fewer than 11 bits of
# precision left. This model's gradients fit, nearly: of a thousand about
# one becomes 0, and some lose bits. But how large gradients are depends on
# the model, on the loss and on how far the training has come. Were they
# 2¹⁶ times smaller, most would be 0. So the loss is multiplied by a
# number, the *loss scale*, which moves all gradients up, and must not move
# them too far.
#
# That is one of seven things that happen around a step of a training. In
# this lesson you write five of them: the learning rate, a batch in parts,
# the loss scale, clipping, a checkpoint. You watch the other two, weight
# decay and several processes. And you see that the library's trainer does
# the same as a loop in the open, to the bit.

# %% [markdown]
# ## How fast
#
# The *learning rate* says how far a step goes. At first the weights are
# random and the optimizer has seen nothing, so the rate rises over some
# steps, the *warm-up*. Then it falls along half a cosine to 0, slowly,
# faster, and slowly again:
#
# $$\text{rate}(s) = \text{peak} \cdot \frac{1 + \cos(\pi d)}{2}$$
#
# where $d$ is the share of the steps after the warm-up that is done.
#
# ### 15.1 Warm-up and cosine
#
# Try It Yourself · ★ · 7 minutes
#
# `step` counts from 0. During the warm-up (`step` below `warmup_steps`)
# the rate is `step + 1` of `warmup_steps` equal parts of `peak`: no step
# is taken with a rate of 0. At `warmup_steps` the cosine begins at `peak`,
# at `total_steps` it ends at 0, and from there on the rate is 0, also
# where both are equal. There may be no warm-up. Return the learning rate
# of this step, a number.
#
# Example: with `peak = 1.0`, `warmup_steps = 2` and `total_steps = 6`, the
# steps 0 to 6 have the rates 0.5, 1, 1, 0.854, 0.5, 0.146 and 0.

# %% tags=["exercise:15.1", "nbval-ignore-output"]
def learning_rate(
    step: int, peak: float, warmup_steps: int, total_steps: int
) -> float:
    raise NotImplementedError("15.1: replace this line")


check("15.1", learning_rate)

# %% [markdown]
# ### What "10,000 steps" means
#
# A document about the summariser that comes later in this course says:
# warm-up over 1,000 steps, cosine to step 45,000, each step in 16 parts,
# 1.4 seconds an iteration, "5-6 hours for 10,000 steps".

# %% tags=["claim:47"]
seconds = 10_000 * 1.4
print(f"10,000 times 1.4 seconds: {seconds / 3600:.1f} hours")
print(f"if each step has 16 such parts: {16 * seconds / 3600:.0f} hours")
factor = warmup_cosine_factor(
    10_000, warmup_steps=1_000, total_steps=45_000
)
print(f"learning rate at step 10,000: {factor:.2f} of its peak")
steps = 10_000 // 16
print(f"if 10,000 counts parts: {steps} steps, of 1,000 of the warm-up")
assert round(seconds / 3600, 1) == 3.9 and round(factor, 1) == 0.9
assert not 5 <= 16 * seconds / 3600 <= 6 and steps < 1_000


# %% [markdown]
# 10,000 times 1.4 seconds are 3.9 hours; neither reading gives 5 or 6. And
# a schedule belongs to a number of steps. Whoever stops at 10,000 of
# 45,000 never trains below 0.9 of the peak after the warm-up, and never
# sees the slow end. If 10,000 counts parts, the warm-up is not even over.
# Say what a step is: here, one change of the weights.

# %% [markdown]
# ## Which weights shrink
#
# *Weight decay* pulls weights towards 0. The same document uses
# `torch.optim.Adam(weight_decay=1e-4)`. That adds the weight to its
# gradient, an L2 penalty; Adam then divides by the size of the gradient,
# the penalty's share included. AdamW keeps the two apart: the weight
# shrinks by its rate, whatever the gradient is. Give two weights
# gradients that point up and down in turn, large ones and small ones, so
# that decay alone moves them:

# %%
def shrunk(kind, decay):
    weights = nn.Parameter(torch.ones(2))
    optimizer = kind([weights], lr=0.01, weight_decay=decay)
    for step in range(200):
        sign = 1 if step % 2 else -1
        weights.grad = sign * torch.tensor([10.0, 0.01])
        optimizer.step()
    return weights.tolist()


for kind in (torch.optim.Adam, torch.optim.AdamW):
    large, small = shrunk(kind, decay=0.1)
    print(f"{kind.__name__:5} gradients of 10: {large:.3f},", end=" ")
    print(f"of 0.01: {small:.3f}")
adam, adamw = shrunk(torch.optim.Adam, 0.1), shrunk(torch.optim.AdamW, 0.1)
assert adam[0] > 0.9 and adam[1] < 0.1
assert abs(adamw[0] - adamw[1]) < 0.01 < abs(1 - adamw[0])

# %% [markdown]
# With Adam the weight with large gradients hardly decays, and the other
# one is all but gone. With AdamW both shrink alike. This course uses
# AdamW, and lets only matrices and tables decay: a bias or the gain of a
# layer norm has no reason to be small. `decay_groups` sorts them. Here is
# a model small enough to train in seconds, and its patients: those of the
# embedded hospital, or real ones if `EHR_COURSE_DATA` names a folder.

# %% tags=["loop"]
n_patients = {"tiny": 120, "small": 2_000, "full": 46_520}[PROFILE]
cohort = choose_patients(n_patients, seed=SEED)
tokenizer = CodeTokenizer.from_records(cohort)
print(f"{len(cohort):,} patients")


def new_model(dropout=0.1):
    size = {"d_model": 16, "d_prompt": 8, "dropout": dropout}
    for side in ("encoder", "decoder"):
        size |= {f"{side}_layers": 1, f"{side}_ffn_dim": 32}
    torch.manual_seed(SEED)
    config = PromptBartConfig.for_tokenizer(tokenizer, "tiny", **size)
    return PromptBart(config)


# %% tags=["loop"]
dataset = RecordDataset(
    cohort,
    tokenizer,
    corruption=Corruption(p_empty=0.5),
    seed=SEED,
    max_tokens=new_model().max_tokens,
    too_long="cut",
)

# %%
for group in decay_groups(new_model(), 0.01):
    weights = sum(parameter.numel() for parameter in group["params"])
    print(f"weight decay {group['weight_decay']}: {weights:,} weights")
    is_table = [parameter.ndim >= 2 for parameter in group["params"]]
    assert all(is_table) if group["weight_decay"] else not all(is_table)


# %% [markdown]
# ## A batch in parts
#
# A batch of 16 patients may not fit into memory. Then read it in parts:
# `backward()` adds each part's gradient to the one that is there, and the
# optimizer steps when all parts are in. This is called gradient
# accumulation. (The document names it, with 16 parts, and shows no line of
# it.) The gradient should be that of the whole batch. Many divide each
# part's mean loss by the number of parts. Is that the same? Compare with
# the whole batch in two orders: as the patients come, and sorted by the
# length of their records.

# %%
def difference(batch, n_parts, divide):
    model = new_model(dropout=0.0)
    model(**batch).loss.backward()
    whole = gradient_of(model)
    model.zero_grad()
    counts = loss_counts(batch["labels"])
    for part in parts_of(batch, n_parts):
        output = model(**part)
        divide(output, counts["token"], n_parts).backward()
    return ((gradient_of(model) - whole).norm() / whole.norm()).item()


def mean_of_means(output, count, n_parts):
    return output.loss_sum / output.loss_count / n_parts


def count_of_the_batch(output, count, n_parts):
    return output.loss_sum / count


# %% tags=["loop"]
def parts_of(batch, n_parts):
    cut = {name: t.tensor_split(n_parts) for name, t in batch.items()}
    for number in range(n_parts):
        part = {name: pieces[number] for name, pieces in cut.items()}
        if len(part["labels"]):  # a small batch may have fewer rows
            yield part


# %%
as_they_come = list(range(16))
by_length = sorted(as_they_come, key=lambda i: dataset.lengths[i])
for divide in (mean_of_means, count_of_the_batch):
    for name, order in (("mixed", as_they_come), ("sorted", by_length)):
        off = difference(dataset.batch(order), 4, divide)
        print(f"{divide.__name__:18} {name:6} off by {off:.2%}")
        assert (off < 0.001) == (divide is count_of_the_batch)


# %% [markdown]
# A mean of means is not the mean: a token in a part of few tokens counts
# for more. Divide each part's sum by the count of the whole batch, and
# the parts add up to the whole, within rounding. That is why every loss of
# this course gives a sum and a count.
#
# ### 15.2 Accumulate a large batch
#
# Try It Yourself · ★★ · 9 minutes
#
# A very small model: `table`, float (vocabulary, vocabulary). Its logits
# for what follows token `i` are row `i`: `table[inputs]`. `batches` is a
# list of batches, each a list of parts, each a pair `(inputs, labels)`,
# int64 (rows, length) both; a label of -100 is not scored. Every part has
# a scored label. Train the table: for each batch one step of plain
# gradient descent, `table - lr * gradient`, where the gradient is that of
# the mean cross-entropy over all scored labels of the batch. Work through
# one part at a time. Return the table after the last batch; `table` itself
# must stay as it is.
#
# Example: `table = [[0.0, 0.0], [0.0, 0.0]]` and one batch with the parts
# `([[0, 0]], [[1, 1]])` and `([[1, 0]], [[0, -100]])`, as tensors: three
# labels are scored. With `lr = 3.0` the result is
# `[[-1.0, 1.0], [0.5, -0.5]]`.

# %% tags=["exercise:15.2", "nbval-ignore-output"]
def trained_in_parts(
    table: Tensor, batches: list[list[tuple[Tensor, Tensor]]], lr: float
) -> Tensor:
    raise NotImplementedError("15.2: replace this line")


check("15.2", trained_in_parts)

# %% [markdown]
# ### Who weighs how much
#
# Records of similar length need little padding when they share a batch,
# as the length buckets of lesson 10 do. So it is tempting to train on such
# batches. Here is how much a token of each patient then weighs in an epoch
# of the embedded hospital, beside an even share, which is 1.

# %%
many = make_cohort(2_000, seed=SEED)
n_visits = np.array([len(patient.visits) for patient in many])
encode = CodeTokenizer.from_records(many).encode
n_tokens = np.array([len(encode(patient)) for patient in many])


def weight_of_a_token(group_by_length):
    options = {"seed": SEED, "group_by_length": group_by_length}
    plan = BatchPlan(n_tokens, 32, **options)
    weights = np.zeros(len(many))
    for key in plan:
        rows = list(key.indices)
        weights[rows] = 1 / n_tokens[rows].sum()  # a mean in each batch
    return weights * n_tokens.sum() / len(plan)


# %%
by_length, mixed = weight_of_a_token(True), weight_of_a_token(False)
print("visits  patients   by length   mixed")
for n in range(1, 5):
    chosen = n_visits == n
    means = by_length[chosen].mean(), mixed[chosen].mean()
    print(f"{n:6} {chosen.sum():9,}", end=" ")
    print("{:11.2f} {:7.2f}".format(*means))
    assert abs(means[1] - 1) < 0.1
visits = {
    "real": n_visits.mean(),
    "as weighted by length": np.average(n_visits, weights=by_length),
    "as weighted when mixed": np.average(n_visits, weights=mixed),
}
for name, mean in visits.items():
    print(f"{mean:.2f} visits a patient: {name}")
one, four = (by_length[n_visits == n].mean() for n in (1, 4))
assert one > 2.5 * four
real, shortened, nearly = visits.values()
assert shortened < real - 0.2 and abs(nearly - real) < 0.05

# %% [markdown]
# In batches by length a token of a patient with one visit weighs about
# three times as much as one of a patient with four. Each step takes the
# mean over its own batch, and a batch of short records has few tokens to
# share it. It is the mean of means once more, and this time no count of a
# batch helps: each batch is right, and the epoch is not. The model learns
# from a hospital whose patients have fewer visits, and will write such
# patients. The loss falls as nicely as ever.
#
# Mixed batches all have about as many tokens, so hardly anything of that
# is left, and they cost padding. The trainer mixes unless it is told
# otherwise with `group_by_length=True`. Whoever adds up sums over all
# batches and divides once, as an evaluation does, may group as they like.
# [Lesson 19](19_generation_and_evaluation.ipynb) judges a model that was
# trained on batches by length, and finds it out by its patients alone.

# %% [markdown]
# ## Half of the bits, really
#
# `torch.autocast` runs a forward pass in float16 where that is safe:
# matrix products, not sums and losses. The weights stay float32, and so do
# their gradients and what AdamW remembers. It works on the CPU too, slower
# than float32 there, but with the same numbers to lose as on a GPU.

# %%
model, batch = new_model(dropout=0.0), dataset.batch(range(16))
with torch.autocast("cpu", dtype=torch.float16):
    product = model.model.encoder.layers[0].fc1(torch.ones(1, 16))
    loss = model(**batch).loss
print("matrix product:", product.dtype)
print("loss:", loss.dtype)
loss.backward()
print("gradient:", gradient_of(model).dtype)
assert (product.dtype, loss.dtype) == (torch.float16, torch.float32)

# %% [markdown]
# The gradient ends in float32, but on its way through the layers it was
# float16. Make the loss smaller, by 2 to some power, and count the
# gradients that do not come through: those that are 0 and are not in
# float32. Then give such a small loss a scale.

# %%
model.zero_grad()
model(**batch).loss.backward()
wanted = gradient_of(model) != 0


def lost(exponent):
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(**batch).loss
    (loss * 2.0**exponent).backward()
    return (gradient_of(model)[wanted] == 0).float().mean().item()


shares = {exponent: lost(exponent) for exponent in (0, -8, -16, -24)}
for exponent, share in shares.items():
    print(f"loss times 2 to the {exponent:3}: {share:.1%} lost")
scaled = lost(-24 + 24)
print(f"loss times 2 to the -24, and a scale of 2 to the 24: {scaled:.1%}")
assert shares[-8] < shares[-16] and shares[-24] > 0.99
assert scaled < 0.01


# %% [markdown]
# Nothing warns: gradients of 0 look like a model that has learned
# everything. A large scale saves the small gradients, and too large a
# scale makes the large ones infinite. Which scale is right?
# `torch.amp.GradScaler` tries: it begins with a large one, and after each
# backward pass
#
# - if a gradient is infinite or NaN, the step is *skipped* and the scale
#   is halved;
# - otherwise the step is taken, and after `growth_interval` good steps in
#   a row the scale is doubled.
#
# (bfloat16, the other format of 16 bits, reaches as far as float32 and
# needs no scale. It pays with precision: 8 significant bits in place of
# 11.)
#
# ### 15.3 Loss scaling
#
# Try It Yourself · ★★★ · 12 minutes
#
# `gradients`, float32 (steps, n), holds the true gradient of each step.
# What comes out of the backward pass is that gradient times the current
# scale, rounded to float16. Follow the two rules, from the first `scale`
# on. Return two things: what the optimizer is given in each step, float32
# (steps, n), in the size of the true gradients again, and zeros where the
# step is skipped; and a list with the scale after each step.
#
# Example: for `gradients = [[3.0], [0.5], [0.5]]`, as a tensor,
# `scale = 65536.0` and `growth_interval = 2`, the first step overflows. The
# results are `[[0.0], [0.5], [0.5]]` and `[32768.0, 32768.0, 65536.0]`.

# %% tags=["exercise:15.3", "nbval-ignore-output"]
def loss_scaling(
    gradients: Tensor, scale: float, growth_interval: int
) -> tuple[Tensor, list[float]]:
    raise NotImplementedError("15.3: replace this line")


check("15.3", loss_scaling)


# %% [markdown]
# ## Unscale, then clip
#
# One batch with a huge gradient can throw the weights far off. *Clipping*
# shortens a gradient that is longer than `max_norm`, which a
# `TrainingConfig` calls `max_grad_norm`, and keeps its direction. The
# document clips at 1.0, and its float16 loop reads:
#
# ```python
# scaler.scale(loss).backward()
# scaler.step(optimizer)
# scaler.update()
# ```
#
# Where does clipping belong? After `backward()` the gradients still are
# multiplied by the scale. `scaler.unscale_(optimizer)` divides them.
# Clip with and without it, and train ten steps each, with plain gradient
# descent (SGD) and with AdamW.

# %%
def weights_of(model):
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def ten_steps(make_optimizer, unscale):
    model = new_model()
    optimizer = make_optimizer(model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=65_536.0)
    before = weights_of(model)
    norms = []
    for number in range(10):
        batch = dataset.batch(range(16), number=number)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = model(**batch).loss
        scaler.scale(loss).backward()
        if unscale:
            scaler.unscale_(optimizer)
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    moved = (weights_of(model) - before).norm().item()
    return norms[0].item(), moved, loss.item()


# %%
optimizers = {
    "SGD": lambda weights: torch.optim.SGD(weights, lr=0.5),
    "AdamW": lambda weights: torch.optim.AdamW(weights, lr=5e-3),
    "AdamW, tiny eps": lambda weights: torch.optim.AdamW(
        weights, lr=5e-3, eps=1e-14
    ),
}

# %% tags=["claim:48"]
print(" " * 27, "norm before    weights    loss")
print(" " * 27, "clipping       move       in the end")
results = {}
for name, make_optimizer in optimizers.items():
    for unscale in (True, False):
        norm, moved, loss = ten_steps(make_optimizer, unscale)
        results[name, unscale] = norm, moved, loss
        how = "unscaled" if unscale else "scaled"
        print(f"{name:16} {how:10} {norm:11.1f}", end="")
        print(f" {moved:10.5f} {loss:10.3f}")
for name in optimizers:
    right, wrong = results[name, True], results[name, False]
    assert 60_000 < wrong[0] / right[0] < 70_000
    assert (wrong[2] > right[2] + 0.03) == (name != "AdamW, tiny eps")
assert results["SGD", False][1] < 0.001 * results["SGD", True][1]

# %% [markdown]
# The scaled gradient is 65,536 times too long (PyTorch's first scale), so
# clipping cuts it to 1, always, and unscaling then makes it 65,536 times
# shorter. With SGD nothing is learned. AdamW divides by the size of the
# gradient and hides most of the mistake. It learns more slowly, because it
# adds `eps`, 1e-8, to that size, and gradients so small are no longer
# large beside it: with a tiny `eps` the difference is gone. The order is:
# scale, backward, unscale, clip, step, update.
#
# The document's loop uses `torch.cuda.amp`, too. Ask PyTorch what it
# thinks of that:

# %%
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.cuda.amp.GradScaler(enabled=False)
    torch.cuda.amp.autocast(enabled=False)
for warning in caught:
    print(f"{warning.category.__name__}: {warning.message}")
assert [one.category for one in caught] == [FutureWarning] * 2


# %% [markdown]
# ### 15.4 Unscale, then clip
#
# Try It Yourself · ★★ · 8 minutes
#
# `gradients` is a list of float32 tensors, one for each weight of a model,
# still multiplied by `scale`. Unscale them. Then shorten them, if their
# norm is larger than `max_norm`, so that it is `max_norm`. The norm is that
# of all numbers of all tensors together. Return new tensors in a list, or
# `None` if any number is infinite or NaN: then the step is skipped.
#
# Example: for `gradients = [[24.0], [32.0]]`, as two tensors, `scale = 8.0`
# and `max_norm = 1.0`, the unscaled norm is 5, and the result is
# `[[0.6], [0.8]]`.

# %% tags=["exercise:15.4", "nbval-ignore-output"]
def unscaled_and_clipped(
    gradients: list[Tensor], scale: float, max_norm: float
) -> list[Tensor] | None:
    raise NotImplementedError("15.4: replace this line")


check("15.4", unscaled_and_clipped)

# %% [markdown]
# ## The loop in the open
#
# Now all of it, in four functions. The settings are those that the
# library's trainer takes. The first scale is much too large on purpose.

# %% tags=["loop"]
config = TrainingConfig(
    steps=12,
    batch_size=16,
    gradient_accumulation_steps=4,
    lr=5e-3,
    warmup_steps=3,
    precision="float16",
    init_scale=2.0**24,
    growth_interval=4,
    max_grad_norm=1.0,
    seed=SEED,
)


# %% [markdown]
# What a training begins with: AdamW, with decay where it belongs, and the
# scaler.

# %% tags=["loop"]
def begin(model, config):
    optimizer = torch.optim.AdamW(
        decay_groups(model, config.weight_decay),
        lr=config.lr,
        betas=config.betas,
        fused=True,  # one kernel for all weights
    )
    scaler = torch.amp.GradScaler(
        "cpu",
        init_scale=config.init_scale,
        growth_interval=config.growth_interval,
    )
    return optimizer, scaler


# %% [markdown]
# The gradient of a batch, added up from its parts. Each part's sum is
# divided by the counts of the whole batch.

# %% tags=["loop"]
def add_up(model, scaler, batch, config):
    counts = loss_counts(batch["labels"])
    loss = 0.0
    n_parts = config.gradient_accumulation_steps
    for part in parts_of(batch, n_parts):
        with torch.autocast("cpu", dtype=torch.float16):
            share = weighted_total(model(**part).terms, counts)
        scaler.scale(share).backward()
        loss += share.item()
    return loss


# %% [markdown]
# One step. `scaler.step` leaves the optimizer alone if a gradient is not
# finite, and does not unscale a second time. The scaler does not say
# whether it has skipped, but its scale does: it shrinks then and only
# then.

# %% tags=["loop"]
def take_step(model, optimizer, scaler, batch, step, config):
    factor = warmup_cosine_factor(
        step, warmup_steps=config.warmup_steps, total_steps=config.steps
    )
    for group in optimizer.param_groups:
        group["lr"] = config.lr * factor
    loss = add_up(model, scaler, batch, config)
    scaler.unscale_(optimizer)
    weights = model.parameters()
    nn.utils.clip_grad_norm_(weights, config.max_grad_norm)
    scale = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    skipped = scaler.get_scale() < scale
    return {"loss": loss, "scale": scale, "skipped": skipped}


# %% [markdown]
# And the loop. A skipped step does not count: the schedule stands still,
# and the batch is not read again.

# %% tags=["loop"]
def train_in_the_open(model, config):
    optimizer, scaler = begin(model, config)
    plan = BatchPlan(dataset.lengths, config.batch_size, seed=config.seed)
    torch.manual_seed(config.seed)  # dropout
    model.train()
    step, epoch, rows = 0, 0, []
    while step < config.steps:
        plan.set_epoch(epoch)
        for key in plan:
            batch = dataset[key]
            row = take_step(model, optimizer, scaler, batch, step, config)
            step += not row["skipped"]
            rows.append(row | {"step": step})
            if step == config.steps:
                break
        epoch += 1
    return rows


# %% tags=["nbval-ignore-output"]
mine = new_model()
rows = train_in_the_open(mine, config)
for row in rows:
    exponent = torch.tensor(row["scale"]).log2().int()
    what = "skipped" if row["skipped"] else f"step {row['step']}"
    print(f"scale 2 to the {exponent}, loss {row['loss']:.3f}: {what}")
assert rows[0]["skipped"] and rows[-1]["step"] == config.steps
for row, later in pairwise(rows):
    assert not row["skipped"] or later["scale"] == row["scale"] / 2
assert any(b["scale"] > a["scale"] for a, b in pairwise(rows))

# %% [markdown]
# The overflows are real. The scale is halved until the gradients fit,
# then training goes on. After four good steps in a row the scale is doubled
# again, and may overflow again.
#
# ### The library's trainer
#
# `Trainer` takes the same settings. Is it the same training?

# %% tags=["nbval-ignore-output"]
trainer = Trainer(new_model(), dataset, config, device="cpu")
history = trainer.run()
theirs = dict(trainer.model.named_parameters())
ours = dict(mine.named_parameters())
equal = [torch.equal(ours[name], theirs[name]) for name in ours]
print(f"{sum(equal)} of {len(equal)} weights are equal, bit for bit")
columns = ["step", "loss", "lr", "scale", "gradient_norm", "skipped"]
print(history.table().select(columns).tail(4))
assert all(equal) and len(history.rows) == len(rows)

# %% [markdown]
# To the bit. What the trainer has beyond the loop is evaluation,
# checkpoints, progress, and several processes. Its history is a table, a
# row for each step that was tried, and a picture:

# %% tags=["nbval-ignore-output"]
training_figure(history)

# %% [markdown]
# The loss falls. That alone does not show that the decoder reads the
# encoder: in lesson 11 you saw a loss that fell without it.

# %% [markdown]
# ## Stop and go on
#
# A training of hours will be interrupted. A *checkpoint* holds what the
# next step depends on. Train once more, with a checkpoint every four
# steps, and let the process die in step nine.

# %%
home = tempfile.TemporaryDirectory(prefix="ehr-course-lesson-15-")
folder = Path(home.name, "training")
saving = {"checkpoint_every": 4, "evaluate_every": 9}
with_checkpoints = TrainingConfig(**(vars(config) | saving))


def die(model):
    raise Stopped("the process died")


try:
    Trainer(
        new_model(),
        dataset,
        with_checkpoints,
        folder=folder,
        evaluate=die,
        device="cpu",
    ).run()
except Stopped as reason:
    print(reason)
for file in sorted(checkpoints(folder)[-1].iterdir()):
    print(f"{file.parent.name}/{file.name}")

# %% [markdown]
# Weights, what AdamW remembers, random states, and the rest: step, place
# in the data, loss scale, history. A new trainer in the same folder goes
# on from there. Compare its weights with those of the training that was
# not interrupted.

# %%
resumed = Trainer(
    new_model(), dataset, with_checkpoints, folder=folder, device="cpu"
)
print("resumes at step", resumed.step)
assert resumed.step == 8
resumed.run()
same = [
    torch.equal(p, theirs[name])
    for name, p in resumed.model.named_parameters()
]
print("all weights equal, bit for bit:", all(same))
assert all(same)
home.cleanup()


# %% [markdown]
# ### 15.5 Resume to the bit
#
# Try It Yourself · ★★★ · 12 minutes
#
# `TinyTraining(seed)` is a training of 49 weights in float16. It has
# `model`, `optimizer`, `schedule` and `scaler`, which have `state_dict()`
# and `load_state_dict()`. `epoch` and `batch` say which rows come next.
# Its dropout draws from PyTorch's own random numbers.
#
# Write `save`, which returns everything that the next step depends on, as
# a dictionary of tensors, numbers, text, lists and dictionaries; and
# `load`, which puts a new training there, in place. `resumed` is complete:
# it interrupts a training after `stop` steps and resumes it, and returns
# the weights, (49,), after `steps` steps in all. They must be those of a
# training that was not interrupted, bit for bit.
#
# Example: `resumed(0, 9, 13)` is what `TinyTraining(0)` has as `weights`
# after 13 calls of `step()`.

# %% tags=["exercise:15.5", "nbval-ignore-output"]
def save(training: TinyTraining) -> dict[str, Any]:
    raise NotImplementedError("15.5: replace this line")


def load(training: TinyTraining, saved: dict[str, Any]) -> None:
    raise NotImplementedError("15.5: replace this line")


def resumed(seed: int, stop: int, steps: int) -> Tensor:
    training = TinyTraining(seed)
    for _ in range(stop):
        training.step()
    saved = through_a_file(save(training))
    training.step()  # it goes on after it has saved, and is killed
    training = TinyTraining(seed)  # a new process
    load(training, saved)
    for _ in range(steps - stop):
        training.step()
    return training.weights


check("15.5", resumed)

# %% [markdown]
# ## Two processes
#
# With several GPUs, one process works on each. Every process takes its
# share of each batch, and before the step their gradients are added up.
# With the count of the whole batch that is accumulation once more, side by
# side instead of one after the other. `torchrun` starts the processes; the
# trainer notices, and nothing else changes. Processes can share a CPU,
# too. Here is a program; the next cell runs it in one process and in two.
# (Without dropout: each process drops other units.)

# %%
program = f"""
import sys
import torch
from ehr_course.batches.datasets import RecordDataset
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.config import TrainingConfig
from ehr_course.training.trainer import Trainer

def train(folder):
    patients = make_cohort(70, seed={SEED})
    tokenizer = CodeTokenizer.from_records(patients)
    torch.manual_seed({SEED})
    model = PromptBart(PromptBartConfig.for_tokenizer(
        tokenizer, "tiny", d_model=16, dropout=0.0))
    config = TrainingConfig(steps=10, batch_size=16, lr=2e-3)
    Trainer(model, RecordDataset(patients, tokenizer), config,
            folder=folder, device="cpu").run()

if __name__ == "__main__":
    train(sys.argv[1])
"""


# %%
def in_two_processes(script, folder):
    command = [sys.executable, "-m", "torch.distributed.run"]
    command += ["--standalone", "--local-addr=127.0.0.1"]
    command += ["--nproc-per-node=2", str(script), str(folder)]
    done = subprocess.run(
        command,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def last_weights(folder):
    newest = checkpoints(folder)[-1]
    weights = load_file(newest / "model.safetensors")
    return torch.cat([weights[name].flatten() for name in sorted(weights)])


# %% tags=["nbval-ignore-output"]
with tempfile.TemporaryDirectory(prefix="ehr-course-") as home:
    script = Path(home, "program.py")
    script.write_text(program, encoding="utf-8")
    runpy.run_path(str(script))["train"](Path(home, "one"))
    in_two_processes(script, Path(home, "two"))
    one, two = (last_weights(Path(home, n)) for n in ("one", "two"))
share = ((one - two).norm() / one.norm()).item()
print(f"{len(one):,} weights; all bits equal: {torch.equal(one, two)}")
print(f"length of the difference: {share:.0e} of the weights' length")
assert share < 1e-3


# %% [markdown]
# The same weights within rounding. Sums of float32 in another order have
# other last bits, so to the bit it cannot be; a resumed training adds in
# the same order, and can.

# %% [markdown]
# ## Does it hold?
#
# ### 15.6 Train, stop, resume, compare
#
# Try It Yourself · ★★★ · 15 minutes
#
# You are given a trainer that you do not know. Write the test that shows
# whether it resumes as it should.
#
# `make("name")` makes a trainer of six steps that works in the folder
# `name`. Like the library's `Trainer` it has `run()`, `step` and `model`.
# If there is a checkpoint in its folder, it has read it once it is made.
# `make("name", stop=2)` makes one that writes a checkpoint after step 2
# and dies in step 3: its `run()` raises `Stopped`. All trainers that one
# `make` makes are of the same training, that of the 49 weights.
#
# Train once without an interruption; train once with one, after `stop`
# steps; resume. Return two things: the `step` at which the resumed trainer
# begins, and whether in the end its weights are those of the uninterrupted
# training, bit for bit, True or False. The two are separate: a trainer
# that starts again gives `(0, True)` if its weights are right in the end.
# The uninterrupted training needs a folder of its own. The check tries
# your test on sound trainers and on broken ones; some find no checkpoint
# and start again.
#
# Example: for `make = Trainers()`, which are sound, and `stop = 2`, the
# result is `(2, True)`.

# %% tags=["exercise:15.6", "nbval-ignore-output"]
def resume_report(make: Trainers, stop: int) -> tuple[int, bool]:
    raise NotImplementedError("15.6: replace this line")


check("15.6", resume_report)

# %% [markdown]
# If it is solved, the next cell tries your test on the library's trainer
# and the model of this lesson, in float16.

# %% tags=["nbval-ignore-output"]
home = tempfile.TemporaryDirectory(prefix="ehr-course-lesson-15-")
six_steps = vars(config) | {"steps": 6, "gradient_accumulation_steps": 1}


def make_real(name, stop=None):
    saving = {}
    if stop:
        saving = {"checkpoint_every": stop, "evaluate_every": stop + 1}
    return Trainer(
        new_model(),
        dataset,
        TrainingConfig(**(six_steps | saving)),
        folder=Path(home.name, name),
        evaluate=die if stop else None,
        device="cpu",
    )


solved = examine("15.6", resume_report).outcome == "solved"
print(resume_report(make_real, 3) if solved else "not solved yet")
home.cleanup()

# %% [markdown]
# ## See it
#
# The gradients of the course's trained model on the number line of
# float16. Move the loss scale, and find those at which nothing is lost.

# %% tags=["widget", "nbval-ignore-output"]
number_line_explorer(gradients)

# %% [markdown]
# ## Recap
#
# - **The learning rate** rises in equal parts, then follows half a cosine
#   to 0. A schedule belongs to a number of steps.
# - **Parts of a batch** have the gradient of the whole if each part's sum
#   is divided by the count of the whole batch. Batches of records of
#   similar length save padding, and let short records weigh more.
# - **float16** loses what is at most 2⁻²⁵ and makes infinite what is beyond
#   65,504. The loss scale moves gradients between: an overflow skips the
#   step and halves the scale, good steps in a row double it.
# - **Scale, backward, unscale, clip, step, update.** Clipping a scaled
#   gradient makes every step as short as the scale is large.
# - **A resumed training** has the same bits if the checkpoint holds
#   weights, optimizer, schedule, scale, random states and the place in the
#   data. A test must see that it has resumed at all.
# - **Two processes** train the weights of one, within rounding: each takes
#   its share of a batch, and the count is that of the whole.
#
# ## Test yourself
#
# 1. A batch has two parts, with 30 and with 10 scored tokens. Their mean
#    losses are 2.0 and 4.0. What is the loss of the batch, and what would a
#    mean of means be?
#
# <details><summary>Answer</summary>
# (30 · 2 + 10 · 4) / 40 = 2.5. The mean of means is 3.0.
# </details>
#
# 2. The largest gradient of a batch is 0.5, the loss scale 2¹⁸. What
#    happens in this step, and in the next one with the same gradient?
#
# <details><summary>Answer</summary>
# 0.5 · 2¹⁸ = 2¹⁷ is beyond 65,504, so it becomes infinite. The step is
# skipped, the schedule stands still, and the scale is halved. 0.5 · 2¹⁷ =
# 65,536 still is too large, so the next step is skipped as well.
# </details>
#
# 3. A colleague resumes a training and shows that it ends with the same
#    weights as one that was not interrupted. What else do you want to see?
#
# <details><summary>Answer</summary>
# That it has resumed: a training that finds no checkpoint and starts again
# ends with the same weights, too. Look at its first step, and at whether
# the weights are equal to the bit or only nearly.
# </details>
#
# ## What comes next
#
# You can train any model of the course now. [16](16_pointer_generator.ipynb)
# trains a second one, which reads a clinical note, writes its summary, and
# copies names that it has never seen.
