# %% [markdown]
# # 14 · Loss functions: worked answers
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
import numpy as np
import torch
from torch.nn.functional import cross_entropy, one_hot

from ehr_course.exercises import check


# %% [markdown]
# ## 14.1 Masked cross-entropy
#
# The logarithm of a probability is the logit minus the logarithm of a sum
# of exponentials. Subtracting the greatest logit first changes nothing in
# the difference, and no exponential is then above 1. The mask comes
# before the labels are used as indices, and the mean is taken once, over
# all that is left.

# %% tags=["answer:14.1", "nbval-ignore-output"]
def masked_cross_entropy(logits, labels):
    scored = labels != -100
    rows, right = logits[scored], labels[scored]  # (n, vocab), (n,)
    rows = rows - rows.amax(dim=-1, keepdim=True)
    log_p = rows - rows.exp().sum(dim=-1, keepdim=True).log()
    losses = -log_p[torch.arange(len(right)), right]  # (n,)
    return losses.mean()


check("14.1", masked_cross_entropy)


# %% [markdown]
# PyTorch has a function for the sum of exponentials, and the mask may
# also come last, as zeros.

# %% tags=["alternative:14.1", "nbval-ignore-output"]
def masked_cross_entropy(logits, labels):
    scored = (labels != -100).float()  # (batch, length)
    index = labels.clamp(min=0)[..., None]  # any index: masked below
    right = logits.gather(-1, index)[..., 0]
    losses = logits.logsumexp(dim=-1) - right  # (batch, length)
    return (losses * scored).sum() / scored.sum()


check("14.1", masked_cross_entropy)


# %% [markdown]
# ## 14.2 Label smoothing
#
# A cross-entropy is linear in the target, so the loss of the smoothed
# target is a mixture of two losses: that of the right token, and the mean
# over all tokens of the vocabulary, the right one included.

# %% tags=["answer:14.2", "nbval-ignore-output"]
def smoothed_cross_entropy(logits, labels, smoothing):
    scored = labels != -100
    log_p = logits[scored].log_softmax(dim=-1)  # (n, vocab)
    right = -log_p[torch.arange(len(log_p)), labels[scored]]
    spread = -log_p.mean(dim=-1)  # (n,)
    losses = (1 - smoothing) * right + smoothing * spread
    return losses.mean()


check("14.2", smoothed_cross_entropy)


# %% [markdown]
# The alternative writes the target down, and takes the cross-entropy with
# that.

# %% tags=["alternative:14.2", "nbval-ignore-output"]
def smoothed_cross_entropy(logits, labels, smoothing):
    scored = labels != -100
    vocab = logits.shape[-1]
    target = one_hot(labels[scored], vocab) * (1 - smoothing)
    target = target + smoothing / vocab  # (n, vocab), rows sum to 1
    return cross_entropy(logits[scored], target)


check("14.2", smoothed_cross_entropy)


# %% [markdown]
# ## 14.3 One loss over unequal micro-batches
#
# Every micro-batch divides its sum by the count of the whole batch, which has to
# be known before the first one is computed. Labels are enough for that.

# %% tags=["answer:14.3", "nbval-ignore-output"]
def losses_of_micro_batches(micro_batches):
    count = sum((labels != -100).sum() for _, labels in micro_batches)
    shares = []
    for losses, labels in micro_batches:
        total = losses[labels != -100].sum()
        shares.append(total / count)
    return shares


check("14.3", losses_of_micro_batches)


# %% [markdown]
# The alternative divides each loss instead of each sum. `where` leaves
# out what stands on padding, whatever it is.

# %% tags=["alternative:14.3", "nbval-ignore-output"]
def losses_of_micro_batches(micro_batches):
    scored = [labels != -100 for _, labels in micro_batches]
    count = torch.cat([mask.flatten() for mask in scored]).sum()
    return [
        torch.where(mask, losses / count, 0.0).sum().item()
        for (losses, _), mask in zip(micro_batches, scored, strict=True)
    ]


check("14.3", losses_of_micro_batches)


# %% [markdown]
# ## 14.4 A penalty with a gradient
#
# `never[read]` has a row for each token read. Running along the
# positions, their maximum says which tokens any of those read so far
# forbids. The ids only select. What is summed are probabilities, which
# depend on the logits.

# %% tags=["answer:14.4", "nbval-ignore-output"]
def value_and_gradient(logits, read, never, labels):
    logits = logits.clone().requires_grad_()
    value = torch.as_tensor(penalty(logits, read, never, labels))
    if value.requires_grad:
        value.backward()
    nothing = torch.zeros_like(logits)
    return value.detach(), nothing if logits.grad is None else logits.grad


def penalty(logits, read, never, labels):
    scored = labels != -100
    forbidden = never[read].cummax(dim=1).values  # (batch, length, vocab)
    probabilities = logits.softmax(dim=-1)
    mass = (probabilities * forbidden).sum(dim=-1)  # (batch, length)
    return mass[scored].mean()


check("14.4", value_and_gradient)


# %% [markdown]
# The alternative walks along the positions and keeps what is forbidden so
# far, as a program that writes a record would.

# %% tags=["alternative:14.4", "nbval-ignore-output"]
def value_and_gradient(logits, read, never, labels):
    logits = logits.clone().requires_grad_()
    value = torch.as_tensor(penalty(logits, read, never, labels))
    if value.requires_grad:
        value.backward()
    nothing = torch.zeros_like(logits)
    return value.detach(), nothing if logits.grad is None else logits.grad


def penalty(logits, read, never, labels):
    masses = []
    for row in range(len(read)):
        forbidden = torch.zeros(len(never), dtype=torch.bool)
        for place, token in enumerate(read[row]):
            forbidden = forbidden | never[token]
            if labels[row, place] != -100:
                p = logits[row, place].softmax(-1)
                masses.append(p[forbidden].sum())
    return torch.stack(masses).mean()


check("14.4", value_and_gradient)


# %% [markdown]
# ## 14.5 The total loss
#
# Each term knows what its losses are counted by, and the counts are those
# of the whole batch, whatever micro-batch the terms come from.

# %% tags=["answer:14.5", "nbval-ignore-output"]
def total_loss(terms, counts):
    total = 0.0
    for term in terms:
        mean = term.total / counts[term.per]
        total = total + term.weight * mean
    return total


check("14.5", total_loss)


# %% [markdown]
# A term is a tuple, so it can be unpacked, and a sum is a product of two
# rows of numbers.

# %% tags=["alternative:14.5", "nbval-ignore-output"]
def total_loss(terms, counts):
    _, totals, _, weights, kinds = zip(*terms, strict=True)
    means = [t / counts[k] for t, k in zip(totals, kinds, strict=True)]
    return torch.tensor(weights) @ torch.stack(means)


check("14.5", total_loss)


# %% [markdown]
# ## 14.6 What does this loss compute?
#
# Ask two questions that do not mix. A single place is sum, mean and row at
# once, so its loss depends on the smoothing alone. If the right token has
# the mean of all logits, the target does not matter: such a place costs
# the same at any smoothing, and the loss depends on the way alone. Then
# unequal rows and unequal costs give four different numbers.

# %% tags=["answer:14.6", "nbval-ignore-output"]
def what_it_computes(loss):
    sure = torch.tensor([[[20.0, 0.0]]])
    smoothing = loss(sure, torch.tensor([[0]])) / 20 * 2
    dear, cheap = [0.0, 9.0, -9.0], [0.0, 0.0, 0.0]
    logits = torch.tensor([[dear, cheap, cheap], [cheap, cheap, cheap]])
    labels = torch.tensor([[0, -100, -100], [0, 0, 0]])
    found = loss(logits, labels)
    scored = labels != -100
    costs = logits.logsumexp(-1) * scored  # the right logit is 0
    expected = {
        "sum": costs.sum(),
        "places": costs.mean(),
        "scored": costs.sum() / scored.sum(),
        "rows": (costs.sum(1) / scored.sum(1)).mean(),
    }
    way = min(expected, key=lambda name: abs(expected[name] - found))
    return way, smoothing


check("14.6", what_it_computes)


# %% [markdown]
# The alternative asks twice without much thought. The loss is linear in
# the smoothing, so each way has one smoothing that explains a number. Only
# for the right way do two batches give the same one.

# %% tags=["alternative:14.6", "nbval-ignore-output"]
def what_it_computes(loss):
    guesses = {name: [] for name in ("sum", "places", "scored", "rows")}
    for seed in (1, 2):
        torch.manual_seed(seed)
        logits = 3 * torch.randn(2, 5, 4)
        labels = torch.randint(4, (2, 5))
        labels[0, seed:] = -100
        scored, found = labels != -100, loss(logits, labels)
        ends = []
        for smoothing in (0.0, 1.0):
            options = {"reduction": "none", "label_smoothing": smoothing}
            costs = cross_entropy(logits.mT, labels, **options)
            rows = (costs.sum(1) / scored.sum(1)).mean()
            means = costs.mean(), costs[scored].mean(), rows
            ends.append(torch.stack([costs.sum(), *means]))
        shares = (found - ends[0]) / (ends[1] - ends[0])
        for name, share in zip(guesses, shares.tolist(), strict=True):
            guesses[name].append(share)
    way = min(guesses, key=lambda name: abs(np.diff(guesses[name])))
    return way, guesses[way][0]


check("14.6", what_it_computes)
