# %% [markdown]
# # 15 · Training loop
#
# 145 minutes · Prerequisites: 14
#
# You will be able to:
#
# - Describe how the learning rate rises and falls, and why.
# - Split a batch into micro-batches, and keep its gradient.
# - Predict when float16 overflows, and order scaling, unscaling and clipping.
# - Verify that a resumed run ends with the same bits.
# - Test a training loop that you cannot read, and name what is wrong with it.
# - Write a training loop from an empty cell, and train a model with it.

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

# %% [markdown]
# ## The program runs, but does the model learn?
#
# A training loop is short, and a wrong one seldom stops with an error. Here are
# two runs of one small model by plain gradient descent (SGD), from the same
# weights and on the same patients. Their programs differ in a single line.

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %% tags=["hide-input"]
# set-up: imports
import contextlib
import copy
import inspect
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import LambdaLR

# %%
from ehr_course import (
    CodeTokenizer, Corruption, LengthBatchSampler, Loop, PromptBart,
    PromptBartConfig, RecordDataset, Stopped, TinyTraining,
    Trainer, Trainers, TrainingConfig, choose_patients, count_ends,
    decay_groups, icd9, load_checkpoint, make_cohort,
    split_by_patient, through_a_file, warmup_cosine_factor,
)
from ehr_course.exercises import check, hint, mine, parts, progress
from ehr_course.plots import blank_chart, draw_bars, draw_lines
from ehr_course.widgets import number_line_explorer

# %%
# patients (of the embedded hospital, or those of EHR_COURSE_DATA)
n_patients = {"tiny": 1_200, "small": 4_000, "full": 46_520}[PROFILE]
cohort = choose_patients(n_patients, seed=SEED)
split = split_by_patient(cohort, seed=SEED)
tokenizer = CodeTokenizer.from_records(split.train)
print(f"{len(split.train):,} patients to learn from")


def new_model(dropout=0.1):
    size = {"d_model": 16, "d_prompt": 8, "dropout": dropout}
    for side in ("encoder", "decoder"):
        size |= {f"{side}_layers": 1, f"{side}_ffn_dim": 32}
    torch.manual_seed(SEED)
    config = PromptBartConfig.for_tokenizer(tokenizer, "tiny", **size)
    return PromptBart(config)


dataset = RecordDataset(
    split.train, tokenizer, corruption=Corruption(p_empty=0.5), seed=SEED,
    max_tokens=new_model().max_tokens, too_long="cut",
)  # fmt: skip


# %%
def ten_steps(make_optimizer, unscale=True, scale=65_536.0):
    model, losses = new_model(), []
    optimizer = make_optimizer(model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    for number in range(10):
        batch = dataset.batch(range(16), number=number)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = model(**batch).loss
        scaler.scale(loss).backward()
        if unscale:
            scaler.unscale_(optimizer)  # the second program lacks this
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


# %%
def sgd(weights):
    return torch.optim.SGD(weights, lr=0.5)


losses = {
    "with the line": ten_steps(sgd),
    "without it": ten_steps(sgd, unscale=False),
}
draw_lines(
    {name: dict(enumerate(of)) for name, of in losses.items()},
    "Does the model learn without the marked line?",
    across="steps taken",
    up="loss (nats)",
    warn=["without it"],
)

# %% tags=["hide-input"]
# check: one run learns, the other does not
right, wrong = losses.values()
assert right[-1] < right[0] - 1 and abs(wrong[-1] - wrong[0]) < 0.1

# %% [markdown]
# No error, no warning, and yet one of them learns nothing. How would you have found the
# missing line *without reading the code*? First learn what each line is for. Then you test
# loops that you cannot read, by a trick that works with any loop: change what should
# change nothing, and compare. Last, you write a loop in an empty cell, and it is tested in
# the same way.
#
# One turn of the loop is an *iteration*. It reads one batch, and near its end it changes
# the weights: that is its *step*. An iteration has seven stages, and the missing line is
# stage 4:
#
# ```text
# for each batch:
#     1  set the learning rate
#     for each micro-batch of it:
#         2  forward
#         3  scale the loss, backward
#     4  unscale the gradients
#     5  clip them
#     6  step, or skip the step if a gradient is not finite
#     7  update the scale, zero the gradients; look, save
# ```

# %% [markdown]
# ## Stage 1: the learning rate
#
# How far may this step go? At first the weights are random and the optimizer has
# seen nothing, so the learning rate rises over some steps, the
# [warm-up](../course/book/glossary.md). Later the steps must get small, or the
# weights never settle. So the rate falls along half a cosine to 0:

# %%
rates = [
    5e-3 * warmup_cosine_factor(step, warmup_steps=3, total_steps=12)
    for step in range(13)
]
picture, axes = blank_chart(
    "How large is the learning rate of each step?",
    f"Dots of 12 steps: from {rates[0]:.2g} up to {rates[2]:.2g}, then "
    f"along half a cosine down to {rates[11]:.2g}; it would end at 0.",
    "A dot for each step. Open: the end of the schedule, without a step.",
)
axes.plot(rates[:12], "o-", color="#2d708e")
axes.plot(12, rates[12], "o", markerfacecolor="white", clip_on=False)
axes.axvspan(-0.5, 2.5, color="#fde725", alpha=0.35)
axes.text(-0.4, 5.5e-3, "warm-up", va="center")
axes.set(ylabel="learning rate", ylim=(0, 6e-3))
axes.set(xlabel="step, counted from zero", xticks=range(13))
picture


# %% [markdown]
# ### Going further: the schedule in code
#
# Warm-up and cosine in one function. Exercise 15.1 is in here.

# %% [markdown]
# After the warm-up, the rate is
#
# $$\text{rate}(s) = \text{peak} \cdot \frac{1 + \cos(\pi d)}{2}$$
#
# where $d$ is the share of the steps after the warm-up that is done.

# %% [markdown]
# #### 15.1 Warm-up and cosine
#
# Try It Yourself · ★ · 7 minutes
#
# `step` counts the steps taken so far. While it is below `warmup_steps`, which
# may be 0, the rate is `peak * (step + 1) / warmup_steps`. Then comes the cosine,
# from `peak` at `warmup_steps` to 0 at `total_steps` and after. If `total_steps`
# equals `warmup_steps`, the rate is 0 from there on. Return the learning rate of
# this step.
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
# ## Stage 2: forward, in micro-batches
#
# If a batch of 16 patients does not fit into memory, cut it into *micro-batches*:
# `backward()` adds the gradient of each to the one that is there, and the step waits for
# the last. This is [gradient accumulation](../course/book/glossary.md). It has the trap of
# lesson 14: the mean of the micro-batches' means is not the mean of the batch, and nothing
# warns you. So one count, that of the whole batch, divides every sum.

# %%
def micro_batches(batch, n):
    cut = {name: t.tensor_split(n) for name, t in batch.items()}
    return [{name: cut[name][i] for name in cut} for i in range(n)]


def n_scored(batch):
    return int((batch["labels"] != -100).sum())


def gradient_of(model):
    parameters = model.parameters()
    return torch.cat([p.grad.flatten() for p in parameters]).clone()


# %% [markdown]
# ### Going further: how far off is a mean of means?
#
# Both ways to divide, measured on one batch in four micro-batches. Exercise 15.2 is in
# here.

# %% [markdown]
# How close does each micro-batch bring you to the gradient of the whole batch?

# %%
def distances(batch, one_count):
    model = new_model(dropout=0.0)
    model(**batch).loss.backward()
    whole = gradient_of(model)
    model.zero_grad()
    missing = {0: 1.0}
    for number, micro in enumerate(micro_batches(batch, 4), 1):
        output = model(**micro)
        right = output.loss_sum / n_scored(batch)
        share = right if one_count else output.loss / 4
        share.backward()
        off = (gradient_of(model) - whole).norm() / whole.norm()
        missing[number] = off.item()
    return missing


# %%
by_length = sorted(range(16), key=lambda i: dataset.lengths[i])
batch = dataset.batch(by_length)
tokens = [n_scored(micro) for micro in micro_batches(batch, 4)]
print("tokens of the micro-batches:", tokens)
draw_lines(
    {
        "one count": distances(batch, one_count=True),
        "mean of means": distances(batch, one_count=False),
    },
    "How far is the sum from the gradient of the whole batch?",
    across="micro-batches read",
    up="of the gradient's length",
    form="{:.0%}",
    warn=["mean of means"],
)

# %% tags=["hide-input"]
# check: one count is exact, a mean of means is not
assert distances(batch, one_count=True)[4] < 0.001
assert 0.2 < distances(batch, one_count=False)[4] < 0.9


# %% [markdown]
# A mean of means stays far off: the few tokens of the first micro-batch count as much as
# the many of the last.
#
# #### 15.2 Accumulate a large batch
#
# Try It Yourself · ★★ · 9 minutes
#
# A very small model: `table`, float (vocabulary, vocabulary). Its logits for
# what follows token `i` are row `i`: `table[inputs]`. `batches` is a list of
# batches, each a list of micro-batches, each a pair `(inputs, labels)`, int64 (rows,
# length) both. A label of -100 is not scored; every micro-batch has a scored label.
#
# For each batch take one step of plain gradient descent,
# `table - lr * gradient`, with the gradient of the mean cross-entropy over
# all scored labels of the batch. Work through one micro-batch at a time. Return the
# table after the last batch, and leave `table` itself as it is.
#
# Example: `table = [[0.0, 0.0], [0.0, 0.0]]` and one batch with the micro-batches
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
# ### Going further: whose tokens count more?
#
# The weight of a token in batches of short and of long records.

# %% [markdown]
# A token in a batch of 50 decides 1/50 of a step, one in a batch of 200 only 1/200. So does
# it matter which patients share a batch? Batches can have patients of one length, or be
# mixed, or end at a number of tokens (*cut by tokens*):

# %%
many = make_cohort(2_000, seed=SEED)
known = CodeTokenizer.from_records(many)
n_tokens = np.array([len(known.encode(patient)) for patient in many])
n_visits = np.array([len(patient.visits) for patient in many])


def weight_of_a_token(**options):
    plan = LengthBatchSampler(n_tokens, 32, seed=SEED, **options)
    weights = np.zeros(len(many))
    for key in plan:
        rows = list(key.indices)
        weights[rows] = 1 / n_tokens[rows].sum()  # a mean in each batch
    return weights * n_tokens.sum() / len(plan)


by_length = {"group_by_length": True}
cut = weight_of_a_token(**by_length, equal_tokens=True)
weights = {"by length": weight_of_a_token(**by_length)}
weights |= {"mixed": weight_of_a_token(), "by length, cut by tokens": cut}


# %%
def by_visits(weights):  # the mean weight of a token, by visits
    return {
        f"{n} visits, {(n_visits == n).sum():,} patients": {
            kind: of[n_visits == n].mean() for kind, of in weights.items()
        }
        for n in range(1, 5)
    }


draw_bars(
    by_visits(weights),
    "What does a token weigh in a short and in a long record?",
    "Mean weight of a token in an epoch; 1 is an even share.",
    inner="key", form="{:.2f}", warn=["by length"], line=1.0,
)  # fmt: skip

# %% tags=["hide-input"]
# check: by length, tokens of short records weigh more
one, four = (weights["by length"][n_visits == n].mean() for n in (1, 4))
assert one > 2.5 * four
for n in range(1, 5):
    assert abs(weights["mixed"][n_visits == n].mean() - 1) < 0.1
    assert abs(cut[n_visits == n].mean() - 1) < 0.01

# %% [markdown]
# A model that learns as if patients had fewer visits also writes fewer, in
# [lesson 19](19_generation_and_evaluation.ipynb). The trainer's options are
# `group_by_length=True` and `equal_tokens=True`.

# %% [markdown]
# ## Stage 3: 16 bits, scale, backward
#
# Matrices multiply faster in 16 bits. Today's default is
# [bfloat16](../course/book/glossary.md#float16): the range of float32 with fewer digits, and
# no further care. [float16](../course/book/glossary.md) has more digits and a short range.
# You meet it on older cards, such as the T4 of free notebooks, and in older code. Stages 3,
# 4 and 6 are there for it, and it is the case to debug:

# %%
for number in (65_504.0, 65_520.0, 2.0**-24, 2.0**-25):
    half, brain = (
        torch.tensor(number).to(kind).item()
        for kind in (torch.float16, torch.bfloat16)
    )
    print(f"{number:<12.6g} float16 {half:<12.6g} bfloat16 {brain:.6g}")

# %% [markdown]
# In float16, numbers of 65,520 or more become infinite, and those of at most 2⁻²⁵ become
# 0. Below 2⁻¹⁴ they are [subnormal](../course/book/glossary.md) and keep fewer bits.
#
# Gradients can be that small: a count of very many tokens divides them, and in a deep
# model they pass through many layers. To get such gradients here, divide the loss by
# 4,096 = 2¹². [Autocast](../course/book/glossary.md) multiplies matrices in float16 and
# leaves the weights in float32. How many gradients become 0?

# %%
model, batch = new_model(dropout=0.0), dataset.batch(range(16))
model(**batch).loss.backward()
gradients = gradient_of(model) / 4_096  # in float32
lost = {}
for scale in (1.0, 2.0**16):
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(**batch).loss  # float32
    (scale * loss / 4_096).backward()
    is_zero = gradient_of(model)[gradients != 0] == 0
    lost[scale] = is_zero.float().mean().item()
    print(f"loss times {scale:6,.0f}: {lost[scale]:.1%} become 0")

# %% tags=["hide-input"]
# check: where float16 ends, and what a scale saves
assert 0.5 < lost[1.0] < 0.9 and lost[2.0**16] < 0.02
ends = torch.tensor([65_504, 65_519, 65_520, 2.0**-24, 2.0**-25]).half()
assert ends.tolist() == [65_504, 65_504, math.inf, 2.0**-24, 0]

# %% [markdown]
# More than half, and nothing warns. Multiplied by a
# [loss scale](../course/book/glossary.md) nearly all survive, and divided by it before the
# step they are right again. On the number line, a scale moves all gradients to the right.
# Find the smallest one at which hardly any is lost:

# %% tags=["widget", "nbval-ignore-output"]
number_line_explorer(gradients)


# %% [markdown]
# Near 2¹² hardly any is lost: it undoes the division. Too large a scale is just as bad: an
# [overflow](../course/book/glossary.md) makes gradients infinite or NaN. So
# `torch.amp.GradScaler` finds a scale by trial. It begins with a large one, and after the
# backward pass,
#
# - if a gradient is infinite or NaN, the step is *skipped* and the scale is
#   halved;
# - otherwise the step is taken, and after `growth_interval` such steps in a row
#   the scale is doubled, and the count starts again.

# %% [markdown]
# ### Going further: the two rules in code
#
# What the optimizer gets while the scale moves. Exercise 15.3 is in here.

# %% [markdown]
# #### 15.3 Loss scaling
#
# Try It Yourself · ★★★ · 12 minutes
#
# `gradients`, float32 (iterations, n), holds the true gradient of each iteration. The
# backward pass gives that gradient times the current scale, rounded to
# float16. Follow the two rules, from the first `scale` on. Return two things:
# what the optimizer is given in each iteration, float32 (iterations, n), in the size
# of the true gradients again, with zeros where the step is skipped; and a
# list with the scale after each iteration.
#
# Example: for `gradients = [[3.0], [0.5], [0.5]]`, as a tensor,
# `scale = 65536.0` and `growth_interval = 2`, the first iteration overflows. The
# results are `[[0.0], [0.5], [0.5]]` and `[32768.0, 32768.0, 65536.0]`.

# %% tags=["exercise:15.3", "nbval-ignore-output"]
def loss_scaling(
    gradients: Tensor, scale: float, growth_interval: int
) -> tuple[Tensor, list[float]]:
    raise NotImplementedError("15.3: replace this line")


check("15.3", loss_scaling)

# %% [markdown]
# ## Stages 4 and 5: unscale, then clip
#
# A huge gradient can throw the weights far off.
# [Clipping](../course/book/glossary.md) shortens it to a limit, and keeps its
# direction. But `scaler.unscale_` has to divide by the scale first. Without it, as in the
# opening, `scaler.step` divides after clipping. A gradient of length 3, a scale of 2¹⁶ and
# a limit of 1:

# %%
true, scale, limit = 3.0, 65_536.0, 1.0
unscaled_first = min(true * scale / scale, limit)
clipped_first = min(true * scale, limit) / scale
print(f"unscaled, then clipped: {unscaled_first:.6f}")
print(f"clipped, then unscaled: {clipped_first:.6f}")


# %% [markdown]
# With SGD the weights then hardly move. AdamW divides each gradient by its typical
# size, so it should not care how large the gradient is. Does it?

# %%
def adamw(weights, eps=1e-8):
    return torch.optim.AdamW(weights, lr=5e-3, eps=eps)


def adamw_tiny_eps(weights):
    return adamw(weights, eps=1e-14)


last_loss = {}
for kind in (sgd, adamw, adamw_tiny_eps):
    right, wrong = (ten_steps(kind, line)[-1] for line in (True, False))
    last_loss[kind.__name__] = right, wrong
    print(f"{kind.__name__:15} with the line: {right:.3f}", end="  ")
    print(f"without it: {wrong:.3f}")

# %% tags=["claim:48", "hide-input"]
# check: only the tiny eps makes AdamW indifferent to the missing line
worse = {kind: wrong - right for kind, (right, wrong) in last_loss.items()}
assert worse["sgd"] > 1 and worse["adamw"] > 0.03
assert abs(worse["adamw_tiny_eps"]) < 0.03


# %% [markdown]
# AdamW hides most of the mistake, which makes it harder to find. What is left comes from
# `eps`, a small number that AdamW adds to what it divides by.
#
# ### 15.4 Unscale, then clip
#
# Try It Yourself · ★★ · 8 minutes
#
# `gradients` is a list of float32 tensors, one for each weight of a model,
# still multiplied by `scale`. Unscale them. If the norm of all their numbers
# together is then larger than `max_norm`, shorten them so that it is
# `max_norm`. Return new tensors in a list, or `None` if any number is
# infinite or NaN: then the step is skipped.
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
# ## Stage 6: step
#
# `scaler.step` moves each weight against its gradient, unless a gradient is infinite or
# NaN. AdamW does one thing more: it shrinks the weights a little
# ([weight decay](../course/book/glossary.md)).

# %% [markdown]
# ### Going further: which weights shrink, and why not with Adam?
#
# Weights decay, but biases and layer norms are exempt. And the optimizer should be
# AdamW.

# %% [markdown]
# AdamW takes the same share off each weight, the learning rate times the decay. Biases and
# layer norms are exempt: they have no reason to be small. Which weights are where?

# %%
for group in decay_groups(new_model(), 0.01):
    of = group["params"]
    shapes = sorted({tuple(weight.shape) for weight in of}, key=len)
    print(f"decay {group['weight_decay']}: {len(of)} tensors,", end=" ")
    print(f"{sum(weight.numel() for weight in of):,} numbers,", end=" ")
    print("such as", shapes[0], "and", shapes[-1])


# %% [markdown]
# Why not Adam? It adds the decay to the gradient, and then divides the sum by its
# typical size. Take two weights, one with gradients of 10 and -10 in turn, the other with
# 0.01 and -0.01. The pushes cancel. Which of the two does the decay shrink?

# %%
def shrinking(kind, decay=0.1):
    weights = nn.Parameter(torch.ones(2))
    optimizer = kind([weights], lr=0.01, weight_decay=decay)
    path = [weights.tolist()]
    for step in range(200):
        sign = 1 if step % 2 else -1  # up and down in turn
        weights.grad = sign * torch.tensor([10.0, 0.01])
        optimizer.step()
        path.append(weights.tolist())
    return path


kinds = {"Adam": torch.optim.Adam, "AdamW": torch.optim.AdamW}
paths = {name: shrinking(kind) for name, kind in kinds.items()}

# %%
draw_lines(
    {
        kind: {
            "gradients of ±10": dict(enumerate(w[0] for w in path)),
            "gradients of ±0.01": dict(enumerate(w[1] for w in path)),
        }
        for kind, path in paths.items()
    },
    "Which weights does the decay shrink?",
    across="step",
    up="weight",
    warn=["gradients of ±0.01"],
)

# %% tags=["hide-input"]
# check: Adam spares the one and not the other; AdamW treats both alike
adam, adamw_path = (path[-1] for path in paths.values())
assert adam[0] > 0.9 and adam[1] < 0.1
assert abs(adamw_path[0] - adamw_path[1]) < 0.01 < abs(1 - adamw_path[0])

# %% [markdown]
# Adam divides the decay, too, by 10 or by 0.01, so the weight with the large gradients
# hardly shrinks. AdamW treats both alike.

# %% [markdown]
# ## Stage 7: update, look, save
#
# A run of hours will be interrupted, and should go on as if nothing had
# happened. Its [checkpoint](../course/book/glossary.md) holds everything that
# the next iteration depends on, even the state of the random numbers that dropout
# draws, `torch.get_rng_state()`. Then a resumed run ends with the bits of one that was
# never stopped. (On one machine: another one may add numbers in another order.)
#
# ### 15.5 Resume to the bit
#
# Try It Yourself · ★★★ · 12 minutes
#
# `TinyTraining(seed)` trains 49 weights in float16. Read `step` line by line, and note each
# thing that an iteration reads and changes: a checkpoint has to hold all of them. (It
# clips nothing, so it need not unscale.) `_order()`, the order in which an epoch reads the
# rows, depends on `seed` and `epoch` alone.

# %%
print(inspect.getsource(TinyTraining.__init__))
print(inspect.getsource(TinyTraining.step))


# %% [markdown]
# Write `save`, which returns everything that the next iteration depends on, as a
# dictionary of tensors, numbers, text, lists and dictionaries; and `load`, which
# brings a new training to that state, in place. (Optimizer, schedule and scaler
# have `state_dict()` and `load_state_dict()`, as a model has.) `resumed` is
# complete: it interrupts a training after `stop` iterations, resumes it, and returns
# the weights, (49,), after `steps` iterations.
#
# Example: `resumed(0, 9, 13)` is what `TinyTraining(0)` has as `weights` after
# 13 iterations.

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
# ### Going further: does somebody else's trainer resume?
#
# The same test, for a trainer that you do not know. Exercise 15.6 is in here.

# %% [markdown]
# #### 15.6 Train, stop, resume, compare
#
# Try It Yourself · ★★ · 15 minutes
#
# Write this test for an unknown trainer. It takes three runs:
#
# ```text
# never stopped   1 2 3 4 5 6    these weights …
# stopped         1 2 3          a checkpoint after step 2; dies in step 3
# resumed             3 4 5 6    … and these: the same bits?
# ```
#
# `make("name")` makes a trainer of six steps that works in the folder `name`,
# and reads the checkpoint there, if any. It has `run()`, `step` and `model`.
# `make("name", stop=2)` makes one that writes a checkpoint after step 2 and dies
# in step 3: its `run()` raises `Stopped`.
#
# Return the `step` at which the resumed trainer begins, and True or False:
# whether in the end its weights are those of the uninterrupted one, bit for bit.
# A trainer that finds no checkpoint and starts again gives `(0, True)` if its
# weights are right in the end.
#
# Example: for `make = Trainers()`, which are sound, and `stop = 2`, the result
# is `(2, True)`.

# %% tags=["exercise:15.6", "nbval-ignore-output"]
def resume_report(make: Trainers, stop: int) -> tuple[int, bool]:
    raise NotImplementedError("15.6: replace this line")


check("15.6", resume_report)

# %% [markdown]
# Your test, or the worked one, on the library's trainer:

# %%
home = tempfile.TemporaryDirectory(prefix="ehr-course-lesson-15-")


def die(model):
    raise Stopped("the process died")


def make_real(name, stop=0):
    settings = TrainingConfig(
        steps=6, batch_size=16, precision="float16", seed=SEED,
        checkpoint_every=stop, evaluate_every=stop and stop + 1,
    )  # fmt: skip
    return Trainer(
        new_model(), dataset, settings, folder=Path(home.name, name),
        evaluate=die if stop else None, device="cpu",
    )  # fmt: skip


report = mine("15.6")(make_real, 3)
print(report)

# %% tags=["hide-input"]
# check: the library's trainer resumes to the bit
assert tuple(report) == (3, True)
home.cleanup()

# %% [markdown] tags=["break"]
# ## Time for a break
#
# **So far**
#
# - Micro-batches add up to the whole if one count divides all of them.
# - A loss scale keeps small gradients in float16, and they are unscaled before they are
#   clipped.
# - A checkpoint holds everything that the next iteration depends on.
#
# Next you test other people's loops, and then write your own. To come back, select this
# cell and choose *Run > Run All Above Selected Cell*; it takes less than a minute.

# %% [markdown]
# ## How do you test a loop that somebody else wrote?
#
# Cutting a batch into micro-batches must not change its gradient, and resuming must not
# change a bit. Both tests *change what should change nothing, and compare*. The loss scale
# should change nothing either. So run both programs of the opening with three scales:

# %%
scales = (1.0, 16.0, 2.0**16)
programs = {"with the line": True, "without it": False}
turned = {
    name: {
        f"scale {scale:,.0f}": dict(enumerate(ten_steps(sgd, line, scale)))
        for scale in scales
    }
    for name, line in programs.items()
}
picture = draw_lines(
    turned,
    "Does the loss scale change the run?",
    across="steps taken",
    up="loss (nats)",
)
for axes in picture.axes:  # wide, so that it is seen under the others
    axes.lines[0].set(linewidth=7, alpha=0.4)
picture

# %% tags=["hide-input"]
# check: only without the line does the scale matter
sound, lacking = (
    [[*of.values()] for of in by.values()] for by in turned.values()
)
assert np.allclose(sound, sound[:1], atol=0.02)
assert sound[0][-1] + 0.5 < lacking[1][-1] < lacking[2][-1]

# %% [markdown]
# Without the line the scale matters, so the fault lies where the scale is
# multiplied in or divided out.

# %% [markdown]
# ### 15.7 Find the broken stage
#
# Try It Yourself · ★★★ · 25 minutes
#
# `loop` is a training loop that you cannot read. You can only run it, as often as
# you like:
#
# ```python
# loop(batches, rates=[0.5, 0.5], scale=8.0, max_norm=1.0)
# ```
#
# - `batches` is a list of batches, each a list of micro-batches, float (rows, n). Each batch
#   is one iteration.
# - The loss of a row is its product with the n weights, so *the row itself is its
#   gradient*: you choose the gradients.
# - `rates` are the learning rates, at least one for each batch.
# - The weights begin at 0. You get them after each batch, float32 (batches, n).
#
# One probe, with one batch of one micro-batch of one row, whose length is 5:

# %%
row = torch.tensor([[3.0, 4.0]])
for fault in ("none", "never clips"):
    loop = Loop(fault)
    after = loop([[row]], rates=[0.5], scale=8.0, max_norm=1.0)
    print(f"{fault:12} {after.tolist()}, moved by {after.norm():.2f}")

# %% [markdown]
# A sound loop shortens the gradient from 5 to 1, and moves by 0.5 · 1; the other moves by
# 0.5 · 5. This is what a sound loop does with each batch:
#
# 1. It takes the next learning rate, or after a skipped step the same one again.
# 2. Of each micro-batch it adds up the rows, and divides by the number of rows in the
#    batch.
# 3. It multiplies that by the scale, rounds it to float16, and adds it to the gradient.
# 4. It divides the gradient by the scale.
# 5. If the gradient is longer than `max_norm`, it shortens it to that.
# 6. It subtracts rate times gradient from the weights. But if the gradient is not
#    finite, it skips this step.
# 7. After a skipped step it halves the scale, which never grows. It sets the gradient
#    to 0.
#
# There are eight faults, and a loop has one of them or none:
#
# | stage | the fault | what the loop does instead |
# |---|---|---|
# | 1 | `"uses up rates"` | takes the next rate after a skipped step, too |
# | 2 | `"mean of means"` | divides by a micro-batch's rows, then by the number of these |
# | 3 | `"rounds before it scales"` | also rounds to float16 before it multiplies |
# | 4 | `"clips before it unscales"` | does stage 5 first, then stage 4 |
# | 5 | `"never clips"` | leaves stage 5 out |
# | 6 | `"applies an overflow"` | never skips the step |
# | 7 | `"keeps the scale"` | never halves it |
# | 7 | `"keeps gradients"` | adds the next batch to what this step has used |
#
# Some faults need two batches to show. Here the gradient is 1 in both:

# %%
ones = [[torch.tensor([[1.0]])], [torch.tensor([[1.0]])]]
for fault in ("none", "uses up rates"):
    loop = Loop(fault)
    after = loop(ones, rates=[0.5, 0.25], scale=65_536.0, max_norm=9.0)
    print(f"{fault:14} weight after each batch: {after[:, 0].tolist()}")


# %% [markdown]
# In the first batch 1 · 65,536 is infinite in float16, so both loops skip the step and
# halve the scale. In the second, 1 · 32,768 fits: the sound loop takes the first rate,
# which is still unused, the other one the second.
#
# For each fault, choose batches on which it ends at other weights than a sound loop. Begin
# with stages 5 and 4, which one batch shows, and go on with stage 2, which needs
# micro-batches of different sizes.
#
# Return the fault, or `"none"` for a sound loop. Example:
# `find_fault(Loop("never clips"))` is `"never clips"`.

# %% tags=["exercise:15.7", "nbval-ignore-output"]
def find_fault(loop: Loop) -> str:
    raise NotImplementedError("15.7: replace this line")


check("15.7", find_fault)


# %% [markdown]
# ## A loop of your own
#
# ### 15.8 Blank page
#
# Try It Yourself · ★★★ · 30 minutes
#
# Write `train`. How it is organised is up to you; only this is agreed:
#
# - `model` is trained in place. It may arrive in eval mode.
# - `batches`: lists of micro-batches, read in order, and again from the first.
# - `steps`: how many to take in all. A skipped one does not count.
# - `loss_sum(model, micro)` is a micro-batch's loss, *summed* over its scored tokens: those
#   where `micro["labels"] != -100`.
# - `lr`, `warmup_steps`: the rate is
#   `lr * warmup_cosine_factor(step, warmup_steps=..., total_steps=steps)`.
# - `max_norm`: the limit of clipping.
# - `dtype` of autocast: `torch.float32` (no autocast), `torch.bfloat16`, or
#   `torch.float16`, which needs a `GradScaler("cpu")`.
# - `look`, `every`: after each `every` steps, call `look(step)`, unless it is None, with the
#   model in eval mode.
# - `file`: a `Path` or None. After each `every` steps, write there all that the next
#   iteration depends on. If it exists at the start, go on from it, to the bit.
#
# The optimizer is AdamW, with PyTorch's defaults except for the rate. Return a list of
# losses: for each batch that was read, the mean over its scored tokens, without its graph.
# Begin without the options, check, and add one after the other.

# %% tags=["exercise:15.8", "nbval-ignore-output"]
def train(
    model: nn.Module,
    batches: list[list[dict[str, Tensor]]],
    steps: int,
    loss_sum: Callable[[nn.Module, dict[str, Tensor]], Tensor],
    *,
    lr: float,
    warmup_steps: int = 0,
    max_norm: float = 1.0,
    dtype: torch.dtype = torch.float32,
    look: Callable[[int], None] | None = None,
    every: int = 50,
    file: Path | None = None,
) -> list[float]:
    raise NotImplementedError("15.8: replace this line")


check("15.8", train)

# %% [markdown]
# ## Train with it
#
# From here on, `train` is yours, or the worked one while you have none. So is the model:
# `TinyBart` of lesson 11 with the prompts of lesson 12.

# %% tags=["nbval-ignore-output"]
parts()
train = mine("15.8")
TinyBart, OwnPrompt = mine("11.7"), mine("12.6", "MyPrompt")


class PatientModel(nn.Module):
    def __init__(self, n_tokens, d_model=32):
        super().__init__()
        self.bart = TinyBart(n_tokens, d_model, 4, 2 * d_model, 1, 256)
        self.encoder_prompt = OwnPrompt([2], d_model)
        self.decoder_prompt = OwnPrompt([2], d_model)

    def forward(self, input_ids, attention_mask, decoder_input_ids, **who):
        read = self.encoder_prompt(**who)
        written = self.decoder_prompt(**who)
        return self.bart(
            input_ids, attention_mask, decoder_input_ids, read, written
        )


# %%
def own_model():
    torch.manual_seed(SEED)
    model = PatientModel(len(tokenizer))
    for weight in model.parameters():
        if weight.ndim > 1:
            nn.init.normal_(weight, std=0.08)
    return model


def loss_sum(model, micro):
    rows = {name: micro[name] for name in micro if name != "labels"}
    logits = model(**rows)  # (batch, length, tokens)
    return cross_entropy(logits.mT, micro["labels"], reduction="sum")


# %% [markdown]
# **Overfit eight patients.** The first test of any loop, model and data: can it learn eight
# patients by heart? If not, more data will not mend it.

# %%
eight = RecordDataset(
    split.train[:8], tokenizer, corruption=Corruption(p_visit=0)
).batch(range(8))
model = own_model()
losses = train(model, [[eight]], 100, loss_sum, lr=1e-2, warmup_steps=10)
for step in (0, 24, 49, 99):
    print(f"step {step + 1:3}: {float(losses[step]):.3f} nats a token")

# %% tags=["hide-input"]
# check: eight patients are learnt by heart
assert float(losses[0]) > 5 and float(losses[-1]) < 0.05


# %% [markdown]
# **Beat the unigram.** Now for patients that it has never seen. A model that knows nothing
# but how frequent each token is, a *unigram*, has this loss on them:

# %%
def unigram_loss(learned, unseen):
    learned = learned[learned >= 0]
    counts = torch.bincount(learned, minlength=len(tokenizer))
    frequency = (counts + 1) / (counts + 1).sum()
    return -frequency[unseen[unseen >= 0]].log().mean().item()


others = RecordDataset(
    split.validation, tokenizer.skipping_unseen(),
    corruption=Corruption(p_empty=1.0),
    max_tokens=new_model().max_tokens, too_long="cut",
)  # fmt: skip
unseen = others.batch(range(min(100, len(others))))
everyone = dataset.batch(range(len(dataset)))["labels"]
unigram = unigram_loss(everyone, unseen["labels"])
print(f"unigram: {unigram:.2f} nats a token")


# %% [markdown]
# Train, and let `look` print the loss on them and a patient: a woman of 70, as the model
# writes her so far. Which of her codes cannot be hers?

# %%
def batches_of(n, size=16, seed=SEED):
    chosen = np.random.default_rng(seed)
    for number in range(n):
        rows = chosen.choice(len(dataset), size, replace=False)
        batch = dataset.batch(rows.tolist(), number=number)
        yield micro_batches(batch, 2)


@torch.no_grad()
def written(model, age, sex):
    """A patient, token by token; sex is 0 for M and 1 for F."""
    empty, ids = torch.tensor([tokenizer.empty_record]), [tokenizer.eos_id]
    generator = torch.Generator().manual_seed(SEED)
    who = {"x_num": torch.tensor([[age]]), "x_cat": torch.tensor([[sex]])}
    while len(ids) < 30 and ids[1:].count(tokenizer.eos_id) == 0:
        so_far = torch.tensor([ids])
        logits = model(empty, torch.ones_like(empty), so_far, **who)
        chances = logits[0, -1].softmax(-1)
        (token,) = torch.multinomial(chances, 1, generator=generator)
        ids.append(token.item())
    return tokenizer.decode(ids)


# %%
def look(step):
    with torch.no_grad():
        seen[step] = loss_sum(model, unseen).item() / n_unseen
    print(f"step {step}, {seen[step]:.2f} nats on unseen patients")
    for codes in written(model, 70.0, sex=1)[:3]:
        titles = ", ".join(map(icd9.short_title, codes[:3]))
        print("  ", titles or "(a visit without a code)")


# %%
batches, seen = list(batches_of(150)), {}
n_unseen = (unseen["labels"] != -100).sum().item()
model = own_model()
how = {"lr": 1e-2, "warmup_steps": 20}
losses = train(model, batches, 150, loss_sum, look=look, **how)

# %%
draw_lines(
    {
        "the model": seen,
        "unigram": dict.fromkeys(seen, unigram),
    },
    "Does the model know more than how frequent codes are?",
    "Loss on patients that it has not learned from.",
    across="step", up="loss (nats)",
)  # fmt: skip

# %% tags=["hide-input"]
# check: the model beats the unigram
assert seen[150] < unigram and seen[150] < seen[50]

# %% [markdown]
# **Turn 16 bits on.** The number format should change next to nothing. Change it, and
# compare:

# %%
kinds = (torch.float32, torch.bfloat16, torch.float16)
curves = {}
for dtype in kinds:
    model = own_model()
    losses = train(model, batches, 25, loss_sum, dtype=dtype, **how)
    name = str(dtype).removeprefix("torch.")
    curves[name] = dict(enumerate(map(float, losses)))
draw_lines(
    curves,
    "Does the number format change the run?",
    across="batches read",
    up="loss (nats)",
)

# %% tags=["hide-input"]
# check: all three number formats train alike
last = [list(curve.values())[-1] for curve in curves.values()]
assert max(last) - min(last) < 0.3


# %% [markdown]
# **Kill it.** The run dies after step 25. Another goes on from the file, of step 20:

# %%
def run(file=None, dies_in=None):
    def loss_or_death(model, micro):
        calls.append(micro)
        if len(calls) == dies_in:
            raise Stopped
        return loss_sum(model, micro)

    calls, model = [], own_model()
    options = {"every": 10, "file": file} | how
    train(model, batches, 30, loss_or_death, **options)
    print(f"read {len(calls)} micro-batches")
    return nn.utils.parameters_to_vector(model.parameters())


with tempfile.TemporaryDirectory() as folder:
    file = Path(folder, "run.pt")
    try:
        run(file, dies_in=51)
    except Stopped:
        print("killed in step 26")
    weights, again = run(), run(file)
print("the same bits:", torch.equal(weights, again))

# %% tags=["hide-input"]
# check: the resumed run ends where the uninterrupted one does
assert torch.allclose(weights, again, atol=1e-5)

# %% [markdown]
# ## Read a loop that others use
#
# This is one step of the library's `Trainer`, in one piece:

# %%
print(inspect.getsource(Trainer._take_step))

# %% [markdown]
# | stage | `Trainer` | yours |
# |---|---|---|
# | 1 | `warmup_cosine_factor`, into each group | the same, or a `LambdaLR` |
# | 2, 3 | `loss_counts`, then `_backward` with the inner loop | one count, an inner loop |
# | 4, 5 | `unscale_`, `clip_grad_norm_` | the same |
# | 6 | `scaler.step`; no decay for biases and norms | decay for all |
# | 7 | `update`, `zero_grad`, `skipped`; `_after` looks and saves | the same |
#
# The rest guards against trouble: a batch without a scored token, a loss that is not finite,
# several GPUs (each reads its share of a batch, and one count divides there, too). Is it
# the same training? Give both the library's model and the same batches:

# %%
same = {"steps": 5, "lr": 5e-3, "warmup_steps": 2}
config = TrainingConfig(
    **same, batch_size=16, gradient_accumulation_steps=4, seed=SEED
)
theirs = Trainer(new_model(), dataset, config, device="cpu").run()

plan = LengthBatchSampler(dataset.lengths, 16, seed=SEED)
same_batches = [micro_batches(dataset[key], 4) for key in list(plan)[:5]]
def library_loss(model, micro):
    return model(**micro).loss_sum


model = new_model()
torch.manual_seed(SEED)  # dropout
losses = train(model, same_batches, loss_sum=library_loss, **same)
for row, ours in zip(theirs.rows, losses, strict=True):
    print(f"{row['loss']:.4f} nats and {float(ours):.4f}")

# %% tags=["hide-input"]
# check: both are the same training, but for the decay of biases and norms
both = zip(theirs.rows, losses, strict=True)
assert max(abs(row["loss"] - float(loss)) for row, loss in both) < 0.01

# %% [markdown]
# ## After the last step: which weights to keep
#
# Each step follows the gradient of one batch, so the weights never come to rest: they
# wander around the place where the loss is lowest. To find the middle of their
# wanderings, keep an [exponential moving average](../course/book/glossary.md) of them:
# after each step it moves a twentieth of the way towards the weights. To see what that is
# good for, shake a trained model: train it on at a constant rate.

# %%
loaded = load_checkpoint("tiny_prompt_bart")
people = make_cohort(1_200, seed=SEED)
to_learn, to_test = (
    RecordDataset(
        some, loaded.tokenizer.skipping_unseen(),
        corruption=Corruption(p_empty=p), seed=SEED,
    )
    for some, p in ((people[:1_000], 0.5), (people[1_000:], 1.0))
)  # fmt: skip
test_batch = to_test.batch(range(100))
chosen = np.random.default_rng(SEED)
torch.manual_seed(SEED)


@torch.no_grad()
def loss_of(model):
    return model.eval()(**test_batch).loss.item()


# %%
def go_on(model, steps=80, rate=2e-3, decay=0.95):
    average = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    for step in range(steps + 1):
        if step % 8 == 0:
            yield step, loss_of(model), loss_of(average)
        rows = chosen.choice(1_000, 16, replace=False).tolist()
        batch = to_learn.batch(rows, number=step)
        model.train()(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        pairs = zip(average.parameters(), model.parameters(), strict=True)
        with torch.no_grad():
            for mean, weight in pairs:
                mean.lerp_(weight, 1 - decay)  # moves towards it


# %%
steps, own, averaged = zip(*go_on(loaded.model), strict=True)
draw_lines(
    {
        "the weights": dict(zip(steps, own, strict=True)),
        "their average": dict(zip(steps, averaged, strict=True)),
    },
    "Which is better, the weights or their average?",
    "Loss on patients that the model has not seen.",
    across="step", up="loss (nats)",
)  # fmt: skip

# %% tags=["hide-input"]
# check: the average is better at every look of the second half
gains = [a - b for a, b in zip(own, averaged, strict=True)][5:]
assert min(gains) > 0.02 and np.mean(gains) > 0.04

# %% [markdown]
# The steps are too large now, and the loss on unseen patients rises. That of the average
# rises less, and no batch was spent on it: what single steps get wrong evens out. Even
# where the rate falls to 0, an average gains something: the book's page
# [Compared](../course/book/compared.md) says how much. `Trainer` keeps one with
# `ema_decay=0.998`, which looks back over some 500 steps.

# %% [markdown]
# ### Going further: does the trained model end its visits on time?
#
# Dropout leaves a trace that no curve of the loss shows. A few numbers remove it.

# %% [markdown]
# While a model trains, dropout switches a tenth of its units off; when it writes, all are
# on. So the weights are fitted to one network and used in another. Does that matter? Take
# patients that a model has learned from. How often does a first visit end after its first
# code, after its second, and so on, and how likely does the model think that is?

# %%
with_history = load_checkpoint("prompt_bart_with_history")
learned_from = split_by_patient(make_cohort(5_000, seed=0), seed=0).train
its_patients = RecordDataset(
    learned_from[:1_000], with_history.tokenizer.skipping_unseen()
)


def ends_of_first_visits(model):
    visit = count_ends(model, its_patients).visit[:, 0, 1:]  # codes 1 to 6
    places, real, predicted = visit.numpy()
    return real / places, predicted / places, predicted.sum() / real.sum()


uncorrected = copy.deepcopy(with_history.model)
for bias in uncorrected.end_bias.buffers():
    bias.zero_()
real, before, ratio_before = ends_of_first_visits(uncorrected)
torch.manual_seed(SEED)
_, _, ratio_noisy = ends_of_first_visits(uncorrected.train())
_, after, ratio_after = ends_of_first_visits(with_history.model)

# %%
draw_lines(
    {
        "real patients": dict(enumerate(real, 1)),
        "the model": dict(enumerate(before, 1)),
        "corrected": dict(enumerate(after, 1)),
    },
    "How often does a first visit end after so many codes?",
    across="codes of the visit so far (6: or more)",
    up="share that ends here",
    form="{:.0%}",
)

# %% tags=["hide-input"]
# check: too few ends before, as many as there are after
assert before[0] < 0.9 * real[0] and ratio_before < 0.96
assert ratio_noisy > ratio_before + 0.02
assert abs(ratio_after - 1) < 0.04

# %% [markdown]
# The model ends too few visits, most of all after the first code, though it has learned
# from these very patients. With dropout on it ends more of them: there the weights are at
# home. The remedy: one number for each of these cases is added to the logit of `<\v>`, and
# raised until as many ends are predicted as there are. `calibrate` does that after a
# run, and a similar thing for each code.

# %% [markdown]
# ## Recap
#
# - **The learning rate** rises in equal parts, then follows half a cosine to
#   0.
# - **Micro-batches** have the gradient of the whole batch if one count divides each
#   sum.
# - **float16** loses what is at most 2⁻²⁵, and makes infinite what is 65,520
#   or more. So: scale, backward, unscale, clip, step, update. An overflow skips the step
#   and halves the scale. bfloat16 needs none of this.
# - **A resumed run** has the same bits if the checkpoint holds all that
#   the next iteration depends on.
# - **A loop that you cannot read** shows its fault on gradients chosen for it,
#   or if you change what should change nothing.
# - **A loop of your own** first overfits eight patients, then beats the unigram.
#
# ## Test yourself
#
# 1. A run is to take 1,000 steps, and 20 of them are skipped on the way. How many
#    iterations does it have? Does the learning rate still fall to 0?
#
# <details><summary>Answer</summary>
# 1,020. A skipped iteration takes no step, and the schedule stands still, so the rate
# falls as planned.
# </details>
#
# 2. The largest gradient of a batch is 0.5, the loss scale 2¹⁸. What happens
#    in this iteration, and in the next one with the same gradient?
#
# <details><summary>Answer</summary>
# 0.5 · 2¹⁸ = 131,072 becomes infinite: the step is skipped, and the scale is
# halved. 0.5 · 2¹⁷ = 65,536 is still too large: the next step is skipped, too.
# </details>
#
# 3. A colleague resumes a run and shows that it ends with the same
#    weights as an uninterrupted one. What else do you want to see?
#
# <details><summary>Answer</summary>
# At which step it began: a run that finds no checkpoint and starts again
# ends with the same weights, too.
# </details>
#
# ## What comes next
#
# You have written a training loop, resumed it to the bit, and tested one that
# somebody else wrote. Train a model of your own with it: first on eight examples.
#
# [Lesson 16](16_pointer_generator.ipynb) trains a second model, which reads a
# clinical note, writes its summary, and copies names that it has never seen.
#
# If you know the tutorial that this lesson follows,
# [What holds](../course/book/what_holds.md#15-training-loop)
# says which of its claims hold.
