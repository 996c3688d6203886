# %% [markdown]
# # 12 · Conditional prompt
#
# 95 minutes · Prerequisites: 11
#
# You will be able to:
#
# - Turn an age into a vector, and show that the map is affine.
# - Turn several categories into rows of one table.
# - Prepend prompts to a sequence and extend its mask.
# - Measure what scaling the age changes.
# - Train a model whose samples follow age and sex.

# %% [markdown]
# ## How do you ask a model for a woman of 30?
#
# A model reads tokens and writes codes. You want a patient of it: a woman
# of 30, say, and not just anyone. But 30 is no token, and neither is
# "woman". Ask all the same: the course brings a small trained model,
# which takes an age and a sex beside the tokens. (The lesson follows a
# chapter of a tutorial, and corrects it where it does not hold. You do
# not need the tutorial.)

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %%
import copy
import math
import textwrap

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, layer_norm

from ehr_course import icd9
from ehr_course.batches.corruption import EMPTY_RECORD, Corruption
from ehr_course.batches.datasets import SEXES, RecordDataset
from ehr_course.evaluation.next_codes import next_codes
from ehr_course.evaluation.validity import impossible_share
from ehr_course.exercises import check, examine, hint, progress
from ehr_course.models.conditional_prompt import (
    AGE_SCALE,
    CategoricalPrompt,
    ConditionalPrompt,
    FourierPrompt,
    NumericalPrompt,
)
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.models.saved import load_checkpoint
from ehr_course.sources.patients import choose_patients, real_data
from ehr_course.sources.splits import split_by_patient
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.trainer import train
from ehr_course.widgets.prompt import prompt_explorer


# %% [markdown]
# The encoder gets a record of which nothing is known, one `<mask>`. All
# that differs from patient to patient is the age in years and the sex.
# What does the model expect to be the first code?

# %%
def first_codes(model, tokenizer, people):
    for age, sex in people:
        print(f"age {age}, {sex}")
        shown = next_codes(model, tokenizer, age=age, sex=sex)
        for place in shown.most_probable(3):
            code = shown.codes[place]
            name = icd9.title(code) if icd9.is_code(code) else code
            share = shown.probabilities[place]
            print(f"   {share:.3f}  {textwrap.shorten(name, 55)}")


loaded = load_checkpoint("tiny_prompt_bart")
three_people = [(0, "M"), (30, "F"), (76, "M")]
first_codes(loaded.model, loaded.tokenizer, three_people)


# %% [markdown]
# Three patients, three lists, and not one token has told them apart. Age
# and sex became vectors that stand before the tokens, where every token
# can read them: *prompts*. In this lesson you build such vectors, measure
# what is said about them, and put your own into a model.

# %% [markdown]
# ## A number becomes a vector
#
# A category has a row in a table. A number has not: there are infinitely
# many ages between 64 and 65. The tutorial multiplies the number by a
# learned vector `weight`, adds a learned vector `bias`, both of width
# `d_hidden = 128`, and projects the result to the width of the model:
#
# $$\text{prompt}(a) = P\,(w\,a + b)$$
#
# (The library divides the age by `AGE_SCALE` = 90 first; why is shown
# below.)
#
# ### 12.1 Weight times age plus bias
#
# Try It Yourself · ★ · 6 minutes
#
# `x_num` has the shape (batch, n_num): numerical features, such as age.
# `weight` and `bias` have the shape (n_num, d_hidden). Return
# weight * value + bias for each patient and each feature, with the shape
# (batch, n_num, d_hidden).
#
# Example: for `x_num = [[65.0]]`, `weight = [[1.0, 2.0]]` and
# `bias = [[0.5, 0.0]]`, as tensors, the result is `[[[65.5, 130.0]]]`.

# %% tags=["exercise:12.1", "nbval-ignore-output"]
def numerical_vectors(
    x_num: Tensor, weight: Tensor, bias: Tensor
) -> Tensor:
    raise NotImplementedError("12.1: replace this line")


check("12.1", numerical_vectors)


# %% [markdown]
# ### 12.2 Project to the width of the model
#
# Try It Yourself · ★ · 5 minutes
#
# `vectors` has the shape (batch, n, d_hidden). `matrix` is the weight of
# an `nn.Linear(d_hidden, d_model, bias=False)`, as PyTorch stores it: its
# shape is (d_model, d_hidden). (The tutorial prints it the other way
# round.) Return the projected vectors, (batch, n, d_model).
#
# Example: for `vectors = [[[1.0, 2.0]]]` and
# `matrix = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]`, as tensors, the result
# is `[[[1.0, 2.0, 3.0]]]`.

# %% tags=["exercise:12.2", "nbval-ignore-output"]
def project(vectors: Tensor, matrix: Tensor) -> Tensor:
    raise NotImplementedError("12.2: replace this line")


check("12.2", project)

# %% [markdown]
# ## How much is learned?
#
# The two steps are `NumericalPrompt` in this course's library, and
# `CategoricalPrompt` does the same for categories, with a row of a table
# in the place of weight * value. The tutorial says that the numerical
# part has 98,560 parameters and the categorical one 98,688; another
# document of the same system says 98,816.

# %% tags=["claim:25"]
age_prompt = NumericalPrompt(1, 768)
sex_prompt = CategoricalPrompt([2], 768)
counts = [
    sum(parameter.numel() for parameter in part.parameters())
    for part in (age_prompt, sex_prompt)
]
for name, count in zip(("age", "sex"), counts, strict=True):
    print(f"{name}: {count:,}")
print(f"one side: {sum(counts):,}, both: {2 * sum(counts):,}")
assert counts[0] == 128 + 128 + 128 * 768 == 98_560
assert counts[1] == 2 * 128 + 128 + 128 * 768 == 98_688
assert 2 * sum(counts) == 394_496

# %% [markdown]
# The tutorial's two numbers are right and 98,816 is not. Encoder and
# decoder have prompts of their own, so the whole model has two of each.
#
# ## What can the map do?
#
# For one number, 98,560 parameters are many. The tutorial says what they
# are for: the simple way, `nn.Linear(1, 768)`, "doesn't work"; the way
# over 128 dimensions is more expressive and captures "nonlinear
# relationships". Put every age from 0 to 90 through it, and look.

# %% tags=["claim:22"]
torch.manual_seed(SEED)
prompt = NumericalPrompt(1, 768).double()
every_age = torch.arange(91.0, dtype=torch.float64)[:, None]
with torch.no_grad():
    vectors = prompt(every_age)[:, 0]  # (91, 768)
    slope = prompt.project.weight @ prompt.weight[0] / AGE_SCALE
    start = prompt.project.weight @ prompt.bias[0]
mean = (vectors[40] + vectors[60]) / 2
directions = torch.linalg.matrix_rank(vectors - vectors[0]).item()
linear = every_age * slope + start  # an nn.Linear(1, 768)
same = torch.allclose(vectors[50], mean, rtol=0, atol=1e-12)
print("prompt of 50 = mean of the prompts of 40 and 60:", same)
print("directions in which the prompts of all ages differ:", directions)
print("equal to one nn.Linear(1, 768):", torch.allclose(vectors, linear))
print(f"parameters: {counts[0]:,}, and {2 * 768:,} in nn.Linear(1, 768)")
assert same and directions == 1 and torch.allclose(vectors, linear)

# %% [markdown]
# All ages lie on one straight line. Two linear steps make one linear
# step: weight and projection multiply to 768 slopes, bias and projection
# to 768 starting values. 98,560 parameters describe what 1,536 describe
# as well, exactly. The map is *affine*, and no training can bend it.
#
# ### Then what is the detour good for?
#
# The tutorial calls the 128 dimensions a bottleneck that regularises: 32
# would underfit, 512 overfit. From 1 to 128 is no bottleneck but an
# expansion, and how wide it is does not matter to what the map can be. A
# width of 2 is enough to be any `nn.Linear(1, 768)` at all:

# %%
any_linear = nn.Linear(1, 768).double()
narrow = NumericalPrompt(1, 768, d_hidden=2).double()
with torch.no_grad():
    narrow.weight[:] = torch.tensor([[AGE_SCALE, 0.0]])
    narrow.bias[:] = torch.tensor([[0.0, 1.0]])
    both = [any_linear.weight[:, 0], any_linear.bias]
    narrow.project.weight[:] = torch.stack(both, dim=1)  # (768, 2)
    equal = torch.allclose(narrow(every_age)[:, 0], any_linear(every_age))
print("width 2 equals it at every age:", equal)
assert equal

# %% [markdown]
# What remains is training. Take a task small enough to be trained to the
# end: from the age of 60 people, predict three noisy numbers. Least
# squares says which loss is the smallest that a straight line can have.
# Then train the direct map and four widths, all with the same optimizer
# and learning rate, and test them on every age without noise. Train the
# direct map once more, with ten times the rate.

# %%
generator = torch.Generator().manual_seed(SEED)


def three_numbers(years):  # (n, 1) -> (n, 3)
    parts = [years / 90, (years > 50).float(), torch.sin(years / 9)]
    return torch.cat(parts, dim=1)


years = torch.randint(0, 91, (60, 1), generator=generator).float()
noise = torch.randn(60, 3, generator=generator)
wanted = three_numbers(years) + 0.3 * noise
new_years = torch.arange(91.0)[:, None]


# %%
def loss_on(module, ages, values):
    return (module(ages / 90)[:, 0] - values).square().mean()


def fit(module, rate=0.03):
    optimizer = torch.optim.Adam(module.parameters(), lr=rate)
    losses = []
    for _ in range(500):
        loss = loss_on(module, years, wanted)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    tested = loss_on(module, new_years, three_numbers(new_years))
    return losses[20], losses[-1], tested.item()


# %%
torch.manual_seed(SEED)
direct = nn.Sequential(nn.Unflatten(1, (1, 1)), nn.Linear(1, 3))
results = {"direct, rate x 10": fit(copy.deepcopy(direct), rate=0.3)}
results["direct"] = fit(direct)
for width in (2, 32, 128, 512):
    module = NumericalPrompt(1, 3, d_hidden=width, scales=[1])
    results[f"width {width}"] = fit(module)

# %% tags=["claim:23"]
ones = torch.cat([years / 90, torch.ones(60, 1)], dim=1)
line = torch.linalg.lstsq(ones, wanted).solution
best = (ones @ line - wanted).square().mean().item()
print(" " * 18, "after 20 steps   in the end   on new ages")
for name, (early, late, tested) in results.items():
    print(f"{name:>18} {early:14.3f} {late:12.3f} {tested:13.3f}")
print(f"{'least squares':>18} {best:27.3f}")
ends = torch.tensor(list(results.values()))[:, 1:]
assert torch.allclose(ends[:, 0], torch.tensor(best), rtol=0.01)
assert torch.allclose(ends[:, 1], ends[0, 1], rtol=0.02)
assert results["width 128"][0] < results["direct"][0]
assert results["direct, rate x 10"][0] < results["direct"][0]


# %% [markdown]
# In the end every width has the loss of the best straight line, and the
# same loss on new ages: none underfits, none overfits. There is nothing
# to regularise. What differs is the way there. At the same learning rate
# a width of 128 is ahead of the direct map after 20 steps, probably
# because one step moves many parameters at once; more is not always faster
# (512). With ten times the rate the direct map catches up a good part of
# the way: what the detour changes is the size of the steps.
#
# What this does not show: how a prompt trains inside a large model,
# where it never gets to the end. The tutorial gives no experiment either.
# It says that the direct map's gradient "can vanish". The slope of either
# map is the same at every age, so the detour cannot cure that.
#
# ## 65 is a large number
#
# In the tutorial's formula the age enters as 65.0. Weights begin near
# zero, and token embeddings are small. Compare the length of the prompt
# with that of a token embedding, for the age as it is and for age / 90,
# at the tutorial's initial values (PyTorch's own for `nn.Linear`) and at
# those of BART (a normal distribution with std 0.02).

# %%
def prompts_of(ages, scale, std):
    torch.manual_seed(SEED)
    prompt = NumericalPrompt(1, 768, scales=[scale])
    if std is not None:  # as BART draws its linear layers
        nn.init.normal_(prompt.project.weight, std=std)
    with torch.no_grad():
        return prompt(torch.tensor(ages)[:, None])[:, 0]


# %% tags=["claim:26"]
tokens = nn.init.normal_(torch.empty(1000, 768), std=0.02)
token_length = tokens.norm(dim=1).mean()
times, alike = {}, {}
for scale in (1.0, 90.0):
    for whose, std in (("tutorial", None), ("BART", 0.02)):
        of_65, of_20, of_80 = prompts_of([65.0, 20.0, 80.0], scale, std)
        times[scale, whose] = (of_65.norm() / token_length).item()
        seen = layer_norm(torch.stack([of_20, of_80]), (768,))
        alike[scale, whose] = cosine_similarity(*seen, dim=0).item()
        print(f"age / {scale:2.0f}, initial values of {whose:8}:", end=" ")
        print(f"{times[scale, whose]:6.2f} tokens long,", end=" ")
        print(f"20 and 80 alike to {alike[scale, whose]:.4f}")
assert all(times[1.0, whose] > 50 for whose in ("tutorial", "BART"))
assert all(times[90.0, whose] < 10 for whose in ("tutorial", "BART"))
assert alike[1.0, "tutorial"] > 0.99 and alike[90.0, "tutorial"] < 0.95


# %% [markdown]
# The unscaled prompt of 65 is as long as dozens to hundreds of token
# embeddings; how many depends on the initial values. BART adds a position
# (left out here, it changes little) and normalises every vector before its
# first layer, so the length is gone at once. What is left of the age is
# the direction. If the age enters as it is, the bias hardly matters beside
# it: the prompts of 20 and 80 point almost exactly the same way (1 would
# be exactly). Divided by 90, they differ from the start. So the age is
# divided by a constant, `AGE_SCALE`, which belongs to the model's
# configuration and is saved with it.
#
# That is what scaling changes at the start. A training can undo it, for
# weights grow and shrink. In the section "Your own prompt in the real
# model" you can run `impossible(trained(small_model(num_scales=[1.0])))`
# in a cell of your own: after its 300 steps there is no harm to be seen.
#
# ## Several categories, one table
#
# Sex has two categories. Suppose that there are more features: insurance
# with six, kind of admission with three. The tutorial keeps all of them in
# one table, `nn.Embedding(11, d_hidden)`, the rows of one feature after
# those of the other, "to prevent collision": separate tables would
# collide.
#
# ### 12.3 Offsets of categories
#
# Try It Yourself · ★★ · 7 minutes
#
# `x_cat` has the shape (batch, n_cat) and holds the category of each
# feature, counted from 0. `cardinalities` lists how many categories each
# feature has. All features stand in one table, in their order, without
# gaps. Return the rows of the table, (batch, n_cat), whole numbers.
#
# Example: for `x_cat = [[1, 5, 0]]`, as a tensor, and
# `cardinalities = [2, 6, 3]` the rows are `[[1, 7, 8]]`.

# %% tags=["exercise:12.3", "nbval-ignore-output"]
def table_rows(x_cat: Tensor, cardinalities: list[int]) -> Tensor:
    raise NotImplementedError("12.3: replace this line")


check("12.3", table_rows)

# %% [markdown]
# Do separate tables collide? Take two of them, put the same numbers into
# one table, and look up the same patients in three ways.

# %% tags=["claim:24"]
generator = torch.Generator().manual_seed(SEED)
of_sex = torch.randn(2, 4, generator=generator)
of_insurance = torch.randn(6, 4, generator=generator)
table = torch.cat([of_sex, of_insurance])  # (8, 4)
x_cat = torch.cartesian_prod(torch.arange(2), torch.arange(6))
separate = torch.stack([of_sex[x_cat[:, 0]], of_insurance[x_cat[:, 1]]], 1)
with_offsets = table[x_cat + torch.tensor([0, 2])]
without_offsets = table[x_cat]  # (12, 2, 4)
print("separate tables and offsets agree:", separate.equal(with_offsets))
ways = (separate, with_offsets, without_offsets)
used = [len(rows.flatten(0, 1).unique(dim=0)) for rows in ways]
print("vectors for the 8 categories:", *used)
assert separate.equal(with_offsets) and used == [8, 8, 6]


# %% [markdown]
# Separate tables cannot collide, and give bit for bit what one table with
# offsets gives. It is the single table that collides, if you forget the
# offsets: sex 0 and insurance 0 then are one vector. The single table is
# a matter of one look-up instead of several, not of what can be learned.
#
# The categorical prompt has a bias for each feature, too. It is not
# needed: take any vector off the rows of the feature and add it to the
# bias, and every prompt is as before. It costs 128 parameters.
#
# ## From features to positions
#
# Now age and sex are vectors of width `d_model`, and so is every token.
# Two vectors can stand side by side, as two positions, or be added up to
# one. The tutorial concatenates; other documents of the same system sum.
# The library does either: `prompt_combination="concat"` or `"sum"`.
#
# ### 12.4 Combine the prompts
#
# Try It Yourself · ★★ · 6 minutes
#
# `numerical` has the shape (batch, n_num, d_model) and `categorical`
# (batch, n_cat, d_model). Either may be `None`, for both combinations.
# `combination` is `"concat"` or `"sum"`. For `"concat"` return all vectors
# as positions, numerical first: (batch, n_num + n_cat, d_model). For
# `"sum"` return the sum of all vectors as one position: (batch, 1,
# d_model).
#
# Example: for `numerical = [[[1.0, 2.0]]]` and
# `categorical = [[[10.0, 20.0]]]`, as tensors, `"concat"` gives
# `[[[1.0, 2.0], [10.0, 20.0]]]` and `"sum"` gives `[[[11.0, 22.0]]]`.

# %% tags=["exercise:12.4", "nbval-ignore-output"]
def combine(
    numerical: Tensor | None, categorical: Tensor | None, combination: str
) -> Tensor:
    raise NotImplementedError("12.4: replace this line")


check("12.4", combine)


# %% [markdown]
# ### 12.5 Prepend, and extend the mask
#
# Try It Yourself · ★★ · 8 minutes
#
# `prompts` has the shape (batch, n_prompts, d_model), `embeddings` (batch,
# length, d_model), and `attention_mask` (batch, length): 1 for a token, 0
# for padding, which may stand on either side. Return two tensors: the
# inputs of the encoder with the prompts first, (batch, n_prompts + length,
# d_model), and the mask that belongs to them, (batch, n_prompts + length).
#
# Example: for `prompts = [[[9.0]]]`, `embeddings = [[[1.0], [2.0]]]` and
# `attention_mask = [[1, 0]]`, as tensors, the inputs are
# `[[[9.0], [1.0], [2.0]]]` and the mask is `[[1, 1, 0]]`.

# %% tags=["exercise:12.5", "nbval-ignore-output"]
def prepend(
    prompts: Tensor, embeddings: Tensor, attention_mask: Tensor
) -> tuple[Tensor, Tensor]:
    raise NotImplementedError("12.5: replace this line")


check("12.5", prepend)

# %% [markdown]
# The model does the same. Its encoder returns two positions more than it
# was given tokens, and its mask has grown with them. Positions are
# limited, so prompts take away from the longest record.

# %%
tokenizer = loaded.tokenizer
ids = torch.tensor([tokenizer.encode([["4019"]]), [1, 6, 2, 0, 0]])
x_num, x_cat = torch.tensor([[64.0], [30.0]]), torch.tensor([[0], [1]])
with torch.no_grad():
    seen = (ids != tokenizer.pad_id).long()
    encoded, mask = loaded.model.encode(ids, seen, x_num, x_cat)
print("tokens:", tuple(ids.shape))
print("encoded:", tuple(encoded[0].shape))  # (batch, 2 + length, d_model)
print("mask:", mask.tolist())
positions = loaded.model.config.max_position_embeddings
print(f"{positions} positions, {loaded.model.max_tokens} tokens at most")
assert encoded[0].shape[1] == mask.shape[1] == 2 + ids.shape[1]
assert loaded.model.max_tokens == positions - 2


# %% [markdown]
# ## A map that bends
#
# On a straight line 0, 1 and 2 years are almost one point, and 15 to 44
# lies somewhere on the way from young to old. Yet many codes belong to the
# newborn alone, and others to women of such ages. If a prompt is to set
# such ages apart by itself, it must not be affine. Waves do it: sines and
# cosines of the age, slow ones for young against old, fast ones for one
# year against the next. They are called Fourier features.
#
# How do you see whether a map bends? At equally spaced ages, compare each
# value with the middle of its neighbours. The *second difference*, before
# minus twice the middle plus after, is 0 everywhere on a straight line.
#
# ### 12.6 An age encoder that is not affine
#
# Try It Yourself · ★★★ · 9 minutes
#
# `ages` has the shape (n,): equally spaced ages in years. `frequencies`
# has the shape (k,): how many turns each wave makes from age 0 to 90, so
# its angle at age `a` is 2π · frequency · a / 90 (`math.pi` is there).
# Return two tensors: the features, (n, 2k), one row an age, all sines
# first and then all cosines; and their second differences along the ages,
# (n - 2, 2k).
#
# Example: for `ages = [0.0, 22.5, 45.0]` and `frequencies = [1.0]`, as
# tensors, the features are `[[0.0, 1.0], [1.0, 0.0], [0.0, -1.0]]` and the
# second differences `[[-2.0, 0.0]]`.

# %% tags=["exercise:12.6", "nbval-ignore-output"]
def fourier(ages: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    raise NotImplementedError("12.6: replace this line")


check("12.6", fourier)

# %% [markdown]
# `FourierPrompt` has the interface of `NumericalPrompt` and puts such
# waves before the projection. Compare the two: how far do they bend, in
# how many directions do their prompts go, and how well can one linear
# layer read three groups of ages off them? 1 is perfect, 0 is no better
# than a constant.

# %%
groups = {"newborn": (0, 0), "15 to 44": (15, 44), "80 and more": (80, 90)}


def read_groups(features):  # (91, d) -> share of variance explained
    inputs = torch.cat([features, torch.ones(91, 1).double()], dim=1)
    shares = []
    for first, last in groups.values():
        inside = (every_age >= first) & (every_age <= last)
        goal = inside.double()
        left = goal - inputs @ (torch.linalg.pinv(inputs) @ goal)
        shares.append(1 - (left.var() / goal.var()).item())
    return shares


# %%
explained = {}
kinds = {"affine": NumericalPrompt, "Fourier": FourierPrompt}
for name, kind in kinds.items():
    torch.manual_seed(SEED)
    with torch.no_grad():
        features = kind(1, 96).double()(every_age)[:, 0]  # (91, 96)
    bend = features.diff(n=2, dim=0).abs().max().item()
    rank = torch.linalg.matrix_rank(features - features[0]).item()
    explained[name] = read_groups(features)
    shares = zip(groups, explained[name], strict=True)
    print(f"{name}: bends: {bend > 1e-6}, {rank} directions;", end=" ")
    print(", ".join(f"{group} {share:.2f}" for group, share in shares))
    assert (bend > 1e-6) == (name == "Fourier")
assert max(explained["affine"]) < 0.5 < min(explained["Fourier"][1:])


# %% [markdown]
# One linear layer cannot find the ages of 15 to 44 on a straight line.
# (One year alone, the newborn, is read badly off these six waves too: the
# fastest takes more than five years for a turn.)
# But behind the prompt a model has more than one linear layer. It has
# steps that are not linear, and they can bend what the prompt does not.
# So an affine prompt rules nothing out. Whether waves help is a question
# for a training.
#
# ## Your own prompt in the real model
#
# ### 12.7 Your own conditional prompt
#
# Try It Yourself · ★★★ · 15 minutes
#
# Write the whole prompt as a module. `MyPrompt(cardinalities, d_model,
# d_hidden)` has these parameters and no others:
#
# - `num_weight` and `num_bias`, (1, d_hidden), for the age;
# - `num_project`, an `nn.Linear` from d_hidden to d_model without bias;
# - `table`, an `nn.Embedding` with a row for each category of all
#   features, and `cat_bias`, (n_cat, d_hidden);
# - `cat_project`, as `num_project`.
#
# `forward` takes `x_num`, (batch, 1), ages in years, which it divides by
# `AGE_SCALE`; and `x_cat`, (batch, n_cat). It returns the prompts, age
# first: (batch, 1 + n_cat, d_model). Small random numbers are good initial
# values. `torch.empty` gives none: it leaves in memory what was there.
#
# `prompts_with` is complete: it makes your module, gives it known weights
# and runs it. It returns the four things that the check compares: the
# shapes of your parameters; for age and for categories, whether your
# initial values vary along `d_hidden` (units that begin alike and get the
# same gradient stay alike); the prompts; and which parameters a gradient
# reaches.

# %% tags=["exercise:12.7", "nbval-ignore-output"]
def prompts_with(weights, cardinalities, x_num, x_cat):
    d_model, d_hidden = weights["num_project.weight"].shape
    prompt = MyPrompt(cardinalities, d_model, d_hidden)
    mine = dict(prompt.named_parameters())
    shapes = {name: tuple(p.shape) for name, p in mine.items()}
    if shapes != {name: tuple(w.shape) for name, w in weights.items()}:
        return shapes, None, None, None
    ages = ["num_weight", "num_bias", "num_project.weight"]
    rest = ["table.weight", "cat_bias", "cat_project.weight"]
    units = [torch.cat([mine[n] for n in part]) for part in (ages, rest)]
    varied = [bool(part.diff(dim=1).any()) for part in units]
    prompt.load_state_dict(prompt.state_dict() | weights)
    prompts = prompt(x_num, x_cat)
    if getattr(prompts, "requires_grad", False):
        prompts.sum().backward()
        prompts = prompts.detach()
    learns = {name: p.grad is not None for name, p in mine.items()}
    return shapes, varied, prompts, learns


class MyPrompt(nn.Module):
    def __init__(
        self, cardinalities: list[int], d_model: int, d_hidden: int = 128
    ) -> None:
        super().__init__()
        raise NotImplementedError("12.7: replace this line")

    def forward(self, x_num: Tensor, x_cat: Tensor) -> Tensor:
        raise NotImplementedError("12.7: replace this line")


check("12.7", prompts_with)

# %% [markdown]
# Now the training. The patients are those of the embedded hospital, or
# real ones if `EHR_COURSE_DATA` names a folder. Half of the records come
# to the encoder empty, so that the model learns to write a patient from
# the prompts alone; the others are corrupted as in lesson 09. The model is
# a narrow BART with one layer on each side: enough to see, in seconds.

# %%
real = real_data() is not None
sizes = {"tiny": 4_000, "small": 10_000, "full": 46_520}
cohort = choose_patients(sizes[PROFILE], seed=SEED)
learned_from, _, unseen = split_by_patient(cohort, seed=SEED)
tokenizer = CodeTokenizer.from_records(learned_from)
print(f"{len(cohort):,} patients, {len(learned_from):,} to learn from")


# %%
def small_model(**changes):
    fields = {"dropout": 0.0} | changes
    config = PromptBartConfig.for_tokenizer(tokenizer, "narrow", **fields)
    torch.manual_seed(SEED)
    return PromptBart(config)


def trained(model, steps=300):
    dataset = RecordDataset(
        learned_from,
        tokenizer,
        corruption=Corruption(p_empty=0.5),
        seed=SEED,
        max_tokens=model.max_tokens,
        too_long="cut",
    )
    train(model, dataset, steps=steps, lr=6e-3, seed=SEED)
    return model


# %% [markdown]
# How do you see that samples follow age and sex? Some codes are impossible
# for a patient: a birth for a man, dementia for a child. Let the model
# write a record for each of a few hundred patients, and count the codes
# that are impossible for the age and sex it was given. For comparison,
# hold the same records against the age and sex of another patient. A
# model that ignores its prompts scores the same in both. (With
# `EHR_COURSE_DATA`: some hundred adults show little, for hardly a code of
# theirs is ruled out for anyone.)

# %%
def write_records(model, ages, sexes):
    empty = torch.tensor([EMPTY_RECORD] * len(ages))  # (batch, 3)
    torch.manual_seed(SEED)
    ids = model.generate(
        empty,
        x_num=torch.tensor(ages).float()[:, None],  # (batch, 1)
        x_cat=torch.tensor([[SEXES.index(sex)] for sex in sexes]),
        do_sample=True,
        top_k=0,
        max_new_tokens=80,
    )
    return [tokenizer.decode(row) for row in ids]


# %%
asked = cohort[:400]
asked_ages = [record.age for record in asked]
asked_sexes = [record.sex for record in asked]
order = np.random.default_rng(SEED).permutation(len(asked))
other_ages = [asked_ages[i] for i in order]
other_sexes = [asked_sexes[i] for i in order]


def impossible(model):
    written = write_records(model, asked_ages, asked_sexes)
    own = impossible_share(written, asked_ages, asked_sexes)
    other = impossible_share(written, other_ages, other_sexes)
    print(f"{own:.1%} impossible, {other:.1%} for another patient")
    return own, other


# %% [markdown]
# The next cell puts your module into both sides of the model, if 12.7 is
# solved, and trains. Otherwise it trains with the course's own prompts.

# %% tags=["nbval-ignore-output"]
solved = examine("12.7", prompts_with).outcome.is_solved
model = small_model()
if solved:
    model.encoder_prompt = MyPrompt([2], model.config.d_model)
    model.decoder_prompt = MyPrompt([2], model.config.d_model)
print("your prompts:" if solved else "the course's prompts:", end=" ")
own, other = impossible(trained(model))
assert real or own < 0.7 * other

# %% [markdown]
# The records fit the patients that were asked for much better than they
# fit others. Ask this model, too, about a boy who was just born, a woman
# of 30 and a man of 76. It is smaller than the one of the first cell, and
# was trained for seconds.

# %% tags=["nbval-ignore-output"]
first_codes(model, tokenizer, three_people)

# %% [markdown]
# ### Does it help to bend?
#
# The same training, with waves in the place of the straight line.

# %% tags=["nbval-ignore-output"]
if solved:  # the prompts above were yours: train the course's too
    print("the course's straight line:", end=" ")
    own, other = impossible(trained(small_model()))
print("waves:", end=" ")
waves, other = impossible(trained(small_model(age_encoder="fourier")))
assert real or (waves < 0.5 * other and waves < own)

# %% [markdown]
# It does, in a training this short: fewer impossible codes are left, and
# so it was with every seed that was tried. The model can bend a straight
# line in its later layers, but it has to learn to.
#
# ### Are two prompts needed?
#
# You put a prompt into the encoder and another one into the decoder. The
# tutorial gives each a task: the encoder's helps to find what matters in
# the record, the decoder's helps to write what fits age and sex. Both
# would be needed. Train one model with each alone.

# %% tags=["claim:50", "nbval-ignore-output"]
for side, missing in (("encoder", "decoder"), ("decoder", "encoder")):
    alone = small_model(**{f"prompt_{missing}": False})
    assert getattr(alone, f"{missing}_prompt") is None
    print(f"{side} alone:", end=" ")
    one, other = impossible(trained(alone))
    assert real or one < 0.7 * other

# %% [markdown]
# Either prompt alone makes the samples follow age and sex; neither is
# needed for that. The encoder's can only work if the decoder reads the
# encoder, which lesson 11 teaches you to test. Whether two prompts are a
# little better than one, one short training of a small model does not
# decide.
#
# ## See it
#
# The first codes that the trained model of the course expects, for any
# age and sex. Move the age from 0 upwards, and change the sex at 30.

# %% tags=["widget"]
prompt_explorer(loaded.model, loaded.tokenizer)

# %% [markdown]
# ## Recap
#
# - **An age** becomes weight * age + bias, projected to the width of the
#   model. That is affine: the prompts of all ages lie on one straight
#   line, whatever the width between, and second differences are 0.
# - **Several categories** share one table if each feature begins where
#   those before it end. Separate tables do the same.
# - **Prompts** are positions before the tokens. The mask grows by as many
#   ones in front, and the longest record gets shorter.
# - **Scaling** keeps the age visible at the start: unscaled, the prompt is
#   many token embeddings long, and normalised, all ages look alike.
# - **Samples follow age and sex** when fewer of their codes are impossible
#   for the patient asked for than for another one. One prompt is enough
#   for that.
#
# ## Test yourself
#
# 1. Of an affine prompt you know the vectors of age 20 and of age 60. What
#    is the one of age 40, and of age 80?
#
# <details><summary>Answer</summary>
# That of 40 is their mean. That of 80 goes on along the same line: one and
# a half times that of 60, minus half of that of 20.
# </details>
#
# 2. Three features have 3, 4 and 2 categories and share one table. Which
#    row is category 1 of the third feature, and how many rows are there?
#
# <details><summary>Answer</summary>
# Row 8: seven rows belong to the first two features, and categories count
# from 0. There are nine rows, 0 to 8.
# </details>
#
# 3. In a model whose encoder alone has prompts, somebody extends the mask
#    with zeros for them. Nothing raises, and the loss falls. What do you
#    measure to find it?
#
# <details><summary>Answer</summary>
# Whether samples follow the prompts: as many codes are impossible for the
# patient asked for as for another one. (Or change the age, and see that
# the logits stay as they are.)
# </details>
#
# ## What comes next
#
# [Lesson 13](13_multi_task_learning.ipynb) asks the model to guess age
# and sex back from what it has written, and finds that the answer leaks
# from the prompt into the guess.
