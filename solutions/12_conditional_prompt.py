# %% [markdown]
# # 12 · Conditional prompt: worked answers
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

import torch
from torch import nn

from ehr_course.exercises import check, tried_out
from ehr_course import AGE_SCALE


# %% [markdown]
# ## 12.1 Weight times age plus bias
#
# A third axis of length 1 lets each value meet the whole row of `weight`
# that belongs to its feature. The bias has one row a feature already,
# and fits as it is.

# %% tags=["answer:12.1", "nbval-ignore-output"]
def numerical_vectors(x_num, weight, bias):
    values = x_num.unsqueeze(-1)  # (batch, n_num, 1)
    return values * weight + bias  # (batch, n_num, d_hidden)


check("12.1", numerical_vectors)


# %% [markdown]
# In Einstein's notation the axes have names: `n` stands on both sides of
# the arrow, so nothing is summed over the features.

# %% tags=["alternative:12.1", "nbval-ignore-output"]
def numerical_vectors(x_num, weight, bias):
    return torch.einsum("bn,nh->bnh", x_num, weight) + bias


check("12.1", numerical_vectors)


# %% [markdown]
# ## 12.2 Offsets of categories
#
# A feature begins in the table where all features before it end.

# %% tags=["answer:12.2", "nbval-ignore-output"]
def table_rows(x_cat, cardinalities):
    offsets = [sum(cardinalities[:f]) for f in range(len(cardinalities))]
    return x_cat + torch.tensor(offsets)  # (batch, n_cat)


check("12.2", table_rows)


# %% [markdown]
# A running sum includes the feature's own cardinality; take it off again.

# %% tags=["alternative:12.2", "nbval-ignore-output"]
def table_rows(x_cat, cardinalities):
    counts = torch.tensor(cardinalities)
    return x_cat + counts.cumsum(0) - counts


check("12.2", table_rows)


# %% [markdown]
# ## 12.3 Combine the prompts
#
# What is there goes into a list, numerical first, and is joined along the
# positions. The sum runs over positions too, so a vector of every feature
# takes part, whichever tensor it came from.

# %% tags=["answer:12.3", "nbval-ignore-output"]
def combine(numerical, categorical, combination):
    parts = [numerical, categorical]
    parts = [part for part in parts if part is not None]
    prompts = torch.cat(parts, dim=1)  # (batch, n_features, d_model)
    if combination == "sum":
        prompts = prompts.sum(dim=1, keepdim=True)
    return prompts


check("12.3", combine)


# %% [markdown]
# The alternative adds up each part by itself first.

# %% tags=["alternative:12.3", "nbval-ignore-output"]
def combine(numerical, categorical, combination):
    parts = [p for p in (numerical, categorical) if p is not None]
    if combination == "concat":
        return torch.cat(parts, 1)
    return sum(part.sum(1) for part in parts).unsqueeze(1)


check("12.3", combine)


# %% [markdown]
# ## 12.4 Prepend, and extend the mask
#
# Inputs and mask grow by the same number of positions, in front. A prompt
# is never padding, so its entry is 1.

# %% tags=["answer:12.4", "nbval-ignore-output"]
def prepend(prompts, embeddings, attention_mask):
    inputs = torch.cat([prompts, embeddings], dim=1)
    seen = attention_mask.new_ones(prompts.shape[:2])
    mask = torch.cat([seen, attention_mask], dim=1)
    return inputs, mask


check("12.4", prepend)


# %% [markdown]
# Padding a tensor in front does the same to the mask.

# %% tags=["alternative:12.4", "nbval-ignore-output"]
def prepend(prompts, embeddings, attention_mask):
    front = (prompts.shape[1], 0)
    mask = nn.functional.pad(attention_mask, front, value=1)
    return torch.hstack([prompts, embeddings]), mask


check("12.4", prepend)


# %% [markdown]
# ## 12.5 An age encoder that is not affine
#
# Each frequency gives one sine and one cosine of the age. The second
# difference compares a value with the middle of its neighbours: it is 0
# on a straight line, and a wave leaves the line everywhere.

# %% tags=["answer:12.5", "nbval-ignore-output"]
def fourier(ages, frequencies):
    turns = ages[:, None] / 90 * frequencies  # (n, k)
    angles = 2 * math.pi * turns
    features = torch.cat([angles.sin(), angles.cos()], dim=1)
    before, middle, after = features[:-2], features[1:-1], features[2:]
    return features, before - 2 * middle + after


check("12.5", fourier)


# %% [markdown]
# The alternative uses a complex number that turns: its imaginary part is
# the sine, its real part the cosine.

# %% tags=["alternative:12.5", "nbval-ignore-output"]
def fourier(ages, frequencies):
    angles = torch.outer(ages, 2 * math.pi * frequencies / AGE_SCALE)
    wave = torch.polar(torch.ones_like(angles), angles)
    features = torch.hstack([wave.imag, wave.real])
    return features, features.diff(n=2, dim=0)


check("12.5", fourier)


# %% [markdown]
# ## 12.6 Your own conditional prompt
#
# `__init__` makes what is learned, `forward` uses it: 12.1 and a projection
# for the age, 12.2, a look-up and a projection for the categories, 12.3 for
# both.
# `nn.Parameter` is what makes an optimizer see a tensor. The offsets are
# no parameter: they are known, and a buffer goes wherever the module goes.

# %% tags=["answer:12.6", "nbval-ignore-output"]
def prompts_with(weights, cardinalities, x_num, x_cat):
    d_model, d_hidden = weights["num_project.weight"].shape
    prompt = MyPrompt(cardinalities, d_model, d_hidden)
    return tried_out(prompt, weights, x_num, x_cat)


class MyPrompt(nn.Module):
    def __init__(self, cardinalities, d_model, d_hidden=128):
        super().__init__()
        self.num_weight = nn.Parameter(torch.randn(1, d_hidden) / 10)
        self.num_bias = nn.Parameter(torch.randn(1, d_hidden) / 10)
        self.num_project = nn.Linear(d_hidden, d_model, bias=False)
        self.table = nn.Embedding(sum(cardinalities), d_hidden)
        n_cat = len(cardinalities)
        self.cat_bias = nn.Parameter(torch.zeros(n_cat, d_hidden))
        self.cat_project = nn.Linear(d_hidden, d_model, bias=False)
        first = [sum(cardinalities[:f]) for f in range(n_cat)]
        self.register_buffer("first_rows", torch.tensor(first))

    def forward(self, x_num, x_cat):
        value = (x_num / AGE_SCALE)[..., None]  # (batch, 1, 1)
        hidden = value * self.num_weight + self.num_bias
        age = self.num_project(hidden)  # (batch, 1, d_model)
        rows = x_cat + self.first_rows  # (batch, n_cat)
        looked_up = self.table(rows) + self.cat_bias
        categories = self.cat_project(looked_up)
        return torch.cat([age, categories], dim=1)


check("12.6", prompts_with)


# %% [markdown]
# In the lesson, the next cells put this module into the model. The
# alternative writes `forward` with the functions of the exercises.

# %% tags=["alternative:12.6", "nbval-ignore-output"]
def prompts_with(weights, cardinalities, x_num, x_cat):
    d_model, d_hidden = weights["num_project.weight"].shape
    prompt = MyPrompt(cardinalities, d_model, d_hidden)
    return tried_out(prompt, weights, x_num, x_cat)


class MyPrompt(nn.Module):
    def __init__(self, cardinalities, d_model, d_hidden=128):
        super().__init__()
        n_cat = len(cardinalities)
        self.cardinalities = cardinalities
        self.num_weight = nn.Parameter(torch.randn(1, d_hidden) / 10)
        self.num_bias = nn.Parameter(torch.zeros(1, d_hidden))
        self.cat_bias = nn.Parameter(torch.zeros(n_cat, d_hidden))
        self.num_project = nn.Linear(d_hidden, d_model, bias=False)
        self.cat_project = nn.Linear(d_hidden, d_model, bias=False)
        self.table = nn.Embedding(sum(cardinalities), d_hidden)

    def forward(self, x_num, x_cat):
        scaled = torch.einsum(
            "bn,nh->bnh", x_num / AGE_SCALE, self.num_weight
        )
        before = torch.tensor(self.cardinalities, device=x_cat.device)
        rows = x_cat + before.cumsum(0) - before
        return torch.hstack(
            [
                self.num_project(scaled + self.num_bias),
                self.cat_project(self.table(rows) + self.cat_bias),
            ]
        )


check("12.6", prompts_with)


# %% [markdown]
# ## 12.7 Whose prompt is it?
#
# All prompts of a sex lie on one line, and both lines have the same step for
# a year. Two prompts give the step, one more gives the other line. The point
# of a line that is nearest to the vector is found by a dot product; noise
# across the line does not touch it. The sex is that of the nearer line.

# %% tags=["answer:12.7", "nbval-ignore-output"]
def whose_prompt(prompt_of, vector):
    start = prompt_of(0, 0)
    slope = (prompt_of(90, 0) - start) / 90  # a year
    found = []
    for sex in (0, 1):
        away = vector - prompt_of(0, sex)
        years = (away @ slope / (slope @ slope)).item()
        age = min(max(round(years), 0), 90)
        left = (away - age * slope).norm().item()
        found.append((left, age, sex))
    left, age, sex = min(found)
    return age, sex


check("12.7", whose_prompt)


# %% [markdown]
# The alternative computes all 182 prompts from three, and looks for the
# nearest. Neither works with waves: there three prompts say little about the
# others.

# %% tags=["alternative:12.7", "nbval-ignore-output"]
def whose_prompt(prompt_of, vector):
    young, old, other = prompt_of(0, 0), prompt_of(90, 0), prompt_of(0, 1)
    share = torch.linspace(0, 1, 91)[:, None]
    line = young + share * (old - young)  # (91, d_model)
    everybody = torch.stack([line, line + other - young])
    nearest = (everybody - vector).norm(dim=-1).argmin().item()
    sex, age = divmod(nearest, 91)
    return age, sex


check("12.7", whose_prompt)
