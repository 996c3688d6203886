# %% [markdown]
# # 12 · Conditional prompt
#
# 100 minutes · Prerequisites: 11
#
# You will be able to:
#
# - Turn an age into a vector, and show that the map is affine.
# - Measure which ages a scale sets apart.
# - Train models whose samples follow age and sex, and compare a line, waves
#   and a table.
# - Show what a prompt gives away.

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
# ## How do you ask a model for a woman of 30?
#
# A model reads tokens. But neither 30 nor "woman" is a token. How can you ask
# for such a patient?

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %% tags=["hide-input"]
# set-up: what this lesson uses
import math
from collections.abc import Callable
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import (
    cosine_similarity, cross_entropy, layer_norm, one_hot,
)

from ehr_course import (
    AGE_SCALE, EMPTY_RECORD, SEXES, CodeTokenizer, Corruption,
    FourierPrompt, NumericalPrompt, PromptBart, PromptBartConfig,
    RecordDataset, choose_patients, icd9, impossible_share,
    load_checkpoint, next_token_probabilities, real_data,
    split_by_patient, train,
)
from ehr_course.exercises import check, hint, mine, progress, tried_out
from ehr_course.plots import (
    blank_chart, chapter_of, draw_flow, draw_strips, token_fill,
)
from ehr_course.widgets import prompt_explorer

# %% [markdown]
# The course's trained model takes an age and a sex beside the tokens. Its
# encoder gets a record of which nothing is known: `<BOS> <mask> <EOS>`. Guess
# before you look:
#
# 1. Which codes does it expect of a woman of 30?
# 2. Which of them does it also expect of a man of 30?
# 3. Does it give a newborn's codes to a child of one?

# %% tags=["widget"]
loaded = load_checkpoint("tiny_prompt_bart")
prompt_explorer(loaded.model, loaded.tokenizer, age=30, sex="F")

# %% [markdown]
# Each bar is the probability of a first code for the woman; the black tick on
# it, here near 0, is that for a man. The tokens are the same for both, and yet
# [impossible codes](../course/book/glossary.md#impossible-code), those that
# age or sex rules out, get almost nothing. Now move *age* to 1: a newborn's
# codes, which only age 0 can have, stand first. This lesson finds out why.
#
# ## One drawing of everything
#
# The [conditional prompt](../course/book/glossary.md) makes this work. It turns
# age and sex into vectors as wide as the model, and puts them before the
# tokens, where every token can read them.

# %%
table = loaded.model.get_input_embeddings().weight
h = loaded.model.encoder_prompt.numerical.weight.shape[1]
n_tokens, d = table.shape
weights = loaded.model.encoder_prompt.parameters()
n_weights = sum(each.numel() for each in weights)
table = f"table of\ntokens\n{n_tokens} × {d}"
tokens = ("<BOS>", "<mask>", "<EOS>")
ways = {
    "age 30": (f"÷ 90\n= {30 / 90:.2f}", f"× {h} weights\n+ {h} biases",
               f"project\n{h} → {d}"),
    "sex F": (f"row 1 of\n2 × {h}", f"+ {h} biases",
              f"project \n{h} → {d}"),
}

# %%
boxes, arrows, words = {table: (1, (2, 4), "paper")}, [], {}
for row, name in enumerate([*ways, *tokens]):
    steps, end = ways.get(name, (table,)), f"position {row}"
    fill = "prompt" if name in ways else token_fill(name)
    boxes |= {name: (0, row, fill), end: (4, row, fill)}
    words[end] = f"{d} numbers\nmask 1"
    for column, step in enumerate(steps, 1):
        boxes.setdefault(step, (column, row, "paper"))
    arrows += zip([name, *steps], [*steps, end], strict=True)
inside = [*ways["age 30"], *ways["sex F"]]
draw_flow(
    boxes, arrows,
    "How do an age and a sex become positions before the tokens?",
    f"Each row ends in a vector of {d} numbers. The encoder adds "
    "positions, then a layer norm.",
    words=words,
    frames={f"conditional prompt: {n_weights:,} weights": inside},
)  # fmt: skip


# %% [markdown]
# A token has a row in a table, and so has a sex. Why not an age? With ages from
# 0 to 90, `nn.Embedding(91, d_model)` would do. But the row of an age that no
# patient had is never trained, and nothing says that 30 lies beside 31. So this
# lesson computes the vector from the number, and later compares the two.
#
# ## A number becomes a vector
#
# The age $a$ is multiplied by a learned vector $w$, and a learned vector $b$ is
# added, both of `d_hidden` numbers. A matrix $P$ then projects the result to
# the width of the model:
#
# $$\text{prompt}(a) = P\,(w\,a + b)$$
#
# ### 12.1 Weight times age plus bias
#
# Try It Yourself · ★ · 6 minutes
#
# Return weight * value + bias for each patient and feature, (batch, n_num,
# d_hidden), from `x_num`, (batch, n_num), and `weight` and `bias`, (n_num, d_hidden).
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
# ### Going further: the other steps, one at a time
#
# Exercises 12.2, 12.3 and 12.4 are in here: find the rows of categories in one
# table, combine prompts, and put them before the tokens. Exercise 12.6 asks for
# some of these steps too, and says there what it needs.

# %% [markdown]
# **Several categories, one table.** Sex has two categories. If you also know the
# insurance (six) and the kind of admission (three), one table can hold them all, one
# feature after another.

# %%
fills = ["paper"] * 2 + ["encoder"] * 6 + ["quiet"] * 3
rows = [f"{row}" for row in range(11)]
draw_strips(
    {"with offsets": rows, "without": rows},
    "Which rows does a patient read?",
    "Sex 1, insurance 0 and admission 1. Framed: the rows that are read.",
    fills={"with offsets": fills, "without": ["trap"] * 2 + fills[2:]},
    marked={"with offsets": [0 + 1, 2 + 0, 8 + 1], "without": [1, 0, 1]},
    under={
        "with offsets": ["", "0 + 1", "2 + 0", *[""] * 6, "8 + 1", ""],
        "without": ["insurance", "sex\nadmission", *[""] * 9],
    },
    key={"paper": "sex", "encoder": "insurance", "quiet": "admission",
         "trap": "sex, but another feature reads it too"},
)


# %% [markdown]
# Every feature counts its categories from 0, so each needs an offset. Without
# it, the patient above has one vector for both sex and admission, and no error
# warns you.
#
# #### 12.2 Offsets of categories
#
# Try It Yourself · ★★ · 7 minutes
#
# `x_cat`, (batch, n_cat), holds the category of each feature, counted from 0.
# `cardinalities` lists how many categories each feature has. All features stand
# in one table, in their order, without gaps. Return the rows of the table,
# (batch, n_cat), whole numbers.
#
# Example: for `x_cat = [[1, 5, 0]]`, as a tensor, and
# `cardinalities = [2, 6, 3]` the rows are `[[1, 7, 8]]`.

# %% tags=["exercise:12.2", "nbval-ignore-output"]
def table_rows(x_cat: Tensor, cardinalities: list[int]) -> Tensor:
    raise NotImplementedError("12.2: replace this line")


check("12.2", table_rows)


# %% [markdown]
# #### 12.3 Combine the prompts
#
# Try It Yourself · ★★ · 6 minutes
#
# Combine `numerical`, (batch, n_num, d_model), and `categorical`, (batch, n_cat,
# d_model). Either may be `None`. If `combination` is `"concat"`, return all
# vectors, numerical first: (batch, n_num + n_cat, d_model). If it is `"sum"`,
# return their sum as one position: (batch, 1, d_model).
#
# Example: for `numerical = [[[1.0, 2.0]]]` and
# `categorical = [[[10.0, 20.0]]]`, as tensors, `"concat"` gives
# `[[[1.0, 2.0], [10.0, 20.0]]]` and `"sum"` gives `[[[11.0, 22.0]]]`.

# %% tags=["exercise:12.3", "nbval-ignore-output"]
def combine(
    numerical: Tensor | None, categorical: Tensor | None, combination: str
) -> Tensor:
    raise NotImplementedError("12.3: replace this line")


check("12.3", combine)

# %% [markdown]
# **From vectors to positions.** Age and sex, now as wide as a token, can be added
# up to one position or, as in the course's model, stand side by side as two. Here
# they stand side by side before two records:

# %%
tokenizer = loaded.tokenizer
unknown = [1, 6, 2, 0, 0]  # <BOS> <mask> <EOS> <PAD> <PAD>
ids = torch.tensor([tokenizer.encode([["4019"]]), unknown])
x_num, x_cat = torch.tensor([[64.0], [30.0]]), torch.tensor([[0], [1]])
with torch.no_grad():
    seen = (ids != tokenizer.pad_id).long()  # (2, 5)
    encoded, mask = loaded.model.encode(ids, seen, x_num, x_cat)
print("tokens ", tuple(ids.shape), "  mask", tuple(seen.shape))
print("encoded", tuple(encoded[0].shape), "  mask", tuple(mask.shape))
positions = loaded.model.config.max_position_embeddings

# %% tags=["hide-input"]
# check: two more positions, which count against the model's limit
assert encoded[0].shape[1] == mask.shape[1] == 2 + ids.shape[1]
assert loaded.model.max_tokens == positions - 2

# %%
patients = "patient 1", "patient 2"
rows = [["age", "sex", *tokenizer.tokens(row)] for row in ids.tolist()]
draw_strips(
    dict(zip(patients, rows, strict=True)),
    "Which positions may be read?",
    "Under each position its entry in the mask. Of the model's "
    f"{positions} positions, {positions - 2} are left for tokens.",
    under={
        patient: {"mask": row}
        for patient, row in zip(patients, mask.tolist(), strict=True)
    },
)


# %% [markdown]
# #### 12.4 Prepend, and extend the mask
#
# Try It Yourself · ★★ · 8 minutes
#
# Put `prompts`, (batch, n_prompts, d_model), before `embeddings`, the vectors of
# the tokens, (batch, length, d_model). `attention_mask`, (batch, length), is 1
# for a token and 0 for padding, which may stand on either side. Return two
# tensors: the encoder's inputs, (batch, n_prompts + length, d_model), and their
# mask, (batch, n_prompts + length), in whole numbers or floats.
#
# Example: one prompt, one token and one padding. For
# `prompts = [[[9.0]]]`, `embeddings = [[[1.0], [2.0]]]` and
# `attention_mask = [[1, 0]]`, as tensors, the inputs are
# `[[[9.0], [1.0], [2.0]]]` and the mask is `[[1, 1, 0]]`.

# %% tags=["exercise:12.4", "nbval-ignore-output"]
def prepend(
    prompts: Tensor, embeddings: Tensor, attention_mask: Tensor
) -> tuple[Tensor, Tensor]:
    raise NotImplementedError("12.4: replace this line")


check("12.4", prepend)

# %% [markdown]
# ## What can the map do?
#
# `NumericalPrompt`, in this course's library, computes the formula above. It spends
# thousands of weights on one number. Are they enough to draw any curve? Put every
# age through it, before and after training.

# %%
torch.manual_seed(SEED)
untrained = PromptBart(loaded.model.config)
every_age = torch.arange(91.0, dtype=torch.float64)[:, None]  # (91, 1)
lines = {}
for name, model in (
    ("before training", untrained), ("after training", loaded.model),
):  # fmt: skip
    with torch.no_grad():
        prompts = model.encoder_prompt.numerical(every_age.float())
    lines[name] = prompts[:, 0]  # (91, d_model)


# %%
def flat(points):  # (91, d_model) -> (91, 2): where they differ most
    points = points - points[0]
    found = points @ torch.linalg.svd(points)[2][:2].T
    return found * found[-1].sign()


# %%
flats = {name: flat(prompts) for name, prompts in lines.items()}
short, long = (one[-1].norm() for one in flats.values())
picture, axes = blank_chart(
    "Does training bend the line of ages?",
    f"Two straight lines of 91 dots, {short:.1f} and {long:.1f} long, the "
    f"second {long / short:.1f} times as long as the first.",
    "A dot for each age, on one scale; each line along its own direction.",
    height=2.1,
)
for row, dots in enumerate(flats.values()):
    ages = (0, 40, 50, 60, 90) if row else (0, 90)
    colour = ("grey", "#2d708e")[row]
    x, y = dots[:, 0], dots[:, 1] - row
    axes.plot(x, y, ".-", color=colour, markersize=3)
    for age in ages:
        axes.plot(x[age], y[age], "o", color=colour)
        axes.text(x[age], y[age] + 0.2, age, ha="center")
axes.set(aspect="equal", ylim=(-1.3, 0.7), xlabel="distance from age 0")
axes.set_yticks((0, -1), flats)
picture

# %% tags=["hide-input"]
# check: no dot is off its line by 1 part in 100,000 of it
for dots in lines.values():
    whole = dots[-1] - dots[0]  # (d_model,)
    on_line = dots[0] + torch.linspace(0, 1, 91)[:, None] * whole
    off = (dots - on_line).norm(dim=1).max() / whole.norm()
    assert off < 1e-5

# %% [markdown]
# Training made the line longer, but it is still a line. A linear map plus a
# constant is called [affine](../course/book/glossary.md), and an affine map
# followed by a projection is affine again. No training can bend it.

# %% [markdown]
# ### Going further: how many weights does a line need?
#
# Far fewer than this prompt has.

# %% [markdown]
# At the width of a large model, 98,560 weights do no more than `nn.Linear(1, 768)`
# does with 1,536:

# %% tags=["hide-input", "claim:22"]
# compare the prompts of all ages with one linear layer
torch.manual_seed(SEED)
prompt = NumericalPrompt(1, 768).double()
with torch.no_grad():
    vectors = prompt(every_age)[:, 0]  # (91, 768)
    slope = prompt.project.weight @ prompt.weight[0] / AGE_SCALE
    start = prompt.project.weight @ prompt.bias[0]
mean = (vectors[40] + vectors[60]) / 2
same = torch.allclose(vectors[50], mean, rtol=0, atol=1e-12)
directions = torch.linalg.matrix_rank(vectors - vectors[0]).item()
linear = torch.allclose(vectors, every_age * slope + start)
n_weights = sum(values.numel() for values in prompt.parameters())
print(f"{n_weights:,} weights, {2 * 768:,} in nn.Linear(1, 768)")
print("nn.Linear(1, 768) can give the same prompts:", linear)
assert same and directions == 1 and linear and n_weights == 98_560

# %% [markdown]
# ## Which scale?
#
# A prompt has to tell ages apart. Only a newborn has newborn codes, so the ages 0 and 1
# need different prompts, although they are neighbours. So do 44 and 60, because
# pregnancies end between them. Can one line do both?
#
# That depends on the scale, by which the drawing of everything divides the age. Behind
# the prompts comes a layer norm, and of a vector it keeps little more than the direction:
# three times a vector comes out of it the same.

# %%
v = torch.tensor([3.0, -1.0, 2.0, 0.0])
for vector in (v, 3 * v):
    print([round(x, 3) for x in layer_norm(vector, (4,)).tolist()])

# %% [markdown]
# So the model can tell two ages apart only if their prompts point in different
# directions, seen from the origin. (The position vector is added before the norm, too.
# It changes the angles that follow by two degrees at most.)
#
# The prompts of all ages lie on a line, since $P\,(w\,a + b) = Pb + a\,Pw$. It begins at
# $Pb$, the prompt of a newborn, and each year adds the step $Pw$. In two dimensions you
# can see it. Let $Pb$ and $Pw$ both have the length 1, let $Pb$ point up and $Pw$ to the
# right. By how much is each of four ages turned away from a newborn?

# %%
for scale in (1, 90):
    print(f"÷ {scale:2}:", end="")
    for age in (0, 1, 44, 60):
        turn = math.degrees(math.atan2(age / scale, 1))
        print(f"  age {age:2} by {turn:4.1f}°", end="")
    print()


# %% [markdown]
# Unscaled, 0 and 1 are far apart, and 44 and 60 nearly the same. Divided by 90, it is
# the other way round. Now with the 768 dimensions of a full-size prompt:

# %% tags=["hide-input"]
# prompts of some ages, before training
def prompts_of(ages, scale, std):
    torch.manual_seed(SEED)
    prompt = NumericalPrompt(1, 768, scales=[scale])
    if std is not None:  # as BART draws its linear layers
        nn.init.normal_(prompt.project.weight, std=std)
    with torch.no_grad():
        return prompt(torch.tensor(ages)[:, None])[:, 0]


# %% tags=["hide-input"]
# each line of ages, and the angles from a newborn to each age
scales = {"unscaled": 1.0, "÷ 10": 10.0, "÷ 90": 90.0}
rays, turned = {}, {}
generator = torch.Generator().manual_seed(SEED)
position = 0.02 * torch.randn(768, generator=generator)  # as in a new BART
for name, scale in scales.items():
    prompts = prompts_of(list(range(91)), scale, None)
    rays[name] = prompts - prompts.mean(dim=1, keepdim=True)
    seen = layer_norm(prompts, (768,))
    cosines = cosine_similarity(seen[:1], seen, dim=1).clamp(-1, 1)
    turned[name] = torch.rad2deg(cosines.arccos())
    placed = layer_norm(prompts + position, (768,))
    cosines = cosine_similarity(placed[:1], placed, dim=1).clamp(-1, 1)
    moved = torch.rad2deg(cosines.arccos()) - turned[name]
    assert moved.abs().max() < 2

# check: the larger the scale, the later half of the turn is done
half = [int((a >= a[90] / 2).nonzero()[0]) for a in turned.values()]
assert half[0] < 5 < half[1] < 20 < half[2] < 60
assert turned["unscaled"][1] > 30 > 2 > turned["÷ 90"][1]
same = torch.allclose(rays["unscaled"][1], rays["÷ 90"][90], atol=1e-5)
assert same and turned["÷ 90"][1] < 1


# the plane that holds a line and the origin; there the line lies at y = 1
def in_plane(points):  # (91, d_model) -> (2, 91)
    step = points[1] - points[0]
    across = points[0] - (points[0] @ step) / (step @ step) * step
    plane = torch.stack([step / step.norm(), across / across.norm()])
    return plane @ points.T / across.norm()


two = {name: turned[name] for name in ("unscaled", "÷ 90")}
said = "; ".join(
    f"{name}: {of[1]:.0f}° at 1, {of[15]:.0f}° at 15, {of[90]:.0f}° at 90"
    for name, of in two.items()
)


def on_arc(turn):
    return turn.cos() / 2, turn.sin() / 2


# How far above the ends of the rays the ages stand, beside each other.
lifted = dict(zip(said.split("; "), (
    {0: 0.05, 1: 0.05, 15: 0.05, 90: -0.17},
    {0: 0.05, 1: 0.2, 15: 0.05, 90: 0.05},
)))  # fmt: skip

# %%
picture, panels = blank_chart(
    "Which of these ages point the same way?",
    f"Rays from the origin to four ages, turned from age 0: {said}.",
    "Dots: all ages. Rays: some. Arc: what a layer norm keeps.", columns=2,
)  # fmt: skip
for axes, title in zip(panels, said.split("; "), strict=True):
    x, y = in_plane(rays[title.split(":")[0]])
    turn = torch.atan2(y, x)  # (91,)
    arc = on_arc(torch.linspace(turn[0], turn[90], 50))
    axes.plot(x, y, ".", color="#2d708e")
    axes.text(0, -0.05, "origin", ha="center", va="top")
    for age, up in lifted[title].items():
        axes.plot([0, x[age]], [0, y[age]], "-", color="grey", lw=0.8)
        part = min(1, 2.1 / x[age].abs())
        axes.text(part * x[age], part * y[age] + up, age)
    axes.plot(*arc, "-", color="#b3400e", linewidth=2)
    axes.plot(*on_arc(turn[[0, 1, 15, 90]]), "o", color="#b3400e")
    axes.set(xlim=(-0.5, 2.2), ylim=(-0.25, 1.25), aspect=1, title=title)
    axes.axis("off")
picture

# %% [markdown]
# Divided by 90, the first year turns the direction by less than a degree. Unscaled,
# all the years after 15 turn it by little: there $a\,Pw$ is so much longer than $Pb$
# that it alone gives the direction.
#
# All this is before training. Guess: will a trained model still confuse these
# ages? Before you train one, build a rival to the line.

# %% [markdown]
# ### Going further: by how many degrees?
#
# How far the direction has turned at each age, for three scales. (The position
# vector, which is added before the norm as well, changes these angles by two
# degrees at most before training.)

# %%
picture, axes = blank_chart(
    "From which age on do ages look alike?",
    "The angle between the prompts of age 0 and of each age. At 90: "
    + ", ".join(f"{name} {of[90]:.0f}" for name, of in turned.items())
    + f" degrees; half of it is done by the ages {half}.",
    "Angle between the prompts of age 0 and of each age, after a layer "
    "norm. Dot: half of the turn is done.",
)  # fmt: skip
looks = ((":", "bottom"), ("--", "top"), ("-", "center"))
for (name, of), age, (dashes, va) in zip(turned.items(), half, looks):
    (curve,) = axes.plot(of, dashes)
    axes.plot(age, of[age], "o", color=curve.get_color())
    words = f"{name}: half by age {age}"
    axes.text(92, of[90], words, color=curve.get_color(), va=va)
axes.set(xlabel="age", xlim=(0, 90), ylim=(0, 105))
axes.set_xticks(range(0, 91, 15))
axes.set_yticks((0, 45, 90), ("0°", "45°", "90°"))
picture

# %% [markdown]
# ## A map that bends
#
# A scale between the two, ÷ 10, separates both pairs, but not well, as a table will
# show. What would you try next?
#
# Think of a clock. Its minute hand separates neighbouring minutes, its hour
# hand separates hours, and neither jumps. So let the age turn several hands,
# slow and fast ones. A sine and a cosine say where a hand points. These sines
# and cosines are called [Fourier features](../course/book/glossary.md).

# %%
turns = 0.5 * 2.0 ** torch.arange(6)  # turns from age 0 to 90
angles = 2 * math.pi * every_age / 90 * turns
waves = torch.cat([angles.sin(), angles.cos()], dim=1)  # (91, 12)
sines, cosines = waves.T.split(6)  # (6, 91) each

# %%
ages = [40, 41, 80]
said = [f"{age}: {waves[age].round(decimals=2).tolist()}" for age in ages]
heading = "".join(f"{f'age {age}':^16}" for age in ages)
heading += "\n" + "   sin    cos   " * 3

# %%
picture, axes = blank_chart(
    f"{len(turns)} waves turn an age into {waves.shape[1]} numbers",
    "Six rows, each with a sine and a cosine of the age. The sines, then "
    f"the cosines, from the slowest on, at age {', at age '.join(said)}.",
    "Sines solid, cosines dashed. Right: the numbers at the red lines.",
    height=3.2,
)
axes.text(92, 0.5, heading, family="monospace")
for row in range(6):
    axes.plot(sines[row] / 3.2 - row, "-", color="#2d708e")
    axes.plot(cosines[row] / 3.2 - row, "--", color="grey", linewidth=0.8)
    pairs = zip(sines[row, ages], cosines[row, ages], strict=True)
    read = "".join(f"{sin:6.2f} {cos:6.2f}   " for sin, cos in pairs)
    axes.text(92, -row, read, family="monospace", va="center")
axes.vlines(ages, -5.5, 0.5, color="#b3400e", linewidth=1)
names = [f"{turn:g} turn{'s' * (turn > 1)}" for turn in turns]
axes.set_yticks(range(0, -6, -1), names)
axes.set(xlabel="age", xlim=(0, 90), xticks=range(0, 91, 30))
picture

# %% [markdown]
# In the slow waves, 40 and 41 have nearly the same numbers; in the fast ones
# they differ. The slowest makes half a turn: after a whole one, 90 would look
# like 0 again.
#
# Encode the age in each way and send it through an untrained `nn.Linear`. How far
# apart do the prompts of two ages point? 0 and 1 should be set well apart, and so
# should 44 and 60. 39 and 40 need at least a little distance.

# %% tags=["hide-input"]
# the angles between the prompts of two ages, before training
part = every_age / 90
numbers = {
    "line ÷ 90": part,
    "line ÷ 10": every_age / 10,
    "line, unscaled": every_age,
    "powers": torch.cat([part, part**2, part**3], dim=1),
    "groups of ten": one_hot((every_age[:, 0] // 10).long()).double(),
    "waves": waves,
}
pairs = (0, 1), (39, 40), (44, 60)
print(f"{'ages:':16}", *(f"{a:>4} and {b:>2}" for a, b in pairs))
apart = {}
for name, values in numbers.items():
    torch.manual_seed(SEED)
    with torch.no_grad():
        found = nn.Linear(values.shape[1], 768).double()(values)
    way = layer_norm(found, (768,))  # (91, 768)
    cosines = [cosine_similarity(way[a], way[b], dim=0) for a, b in pairs]
    apart[name] = torch.rad2deg(torch.stack(cosines).clamp(-1, 1).arccos())
    if name.startswith(("line", "waves")):
        print(f"{name:16}", *(f"{angle:10.1f}°" for angle in apart[name]))

# check: powers of the age and groups of ten are no better than lines;
# only the waves separate every pair, and neighbours the least
*others, ours = apart.values()
assert all(angles.min() < 1 for angles in others)
assert ours.min() > 25 and 2 * ours[:2].max() < ours[2]
assert apart["powers"][0] < 1 and apart["line ÷ 90"][0] < 1
assert apart["groups of ten"][0] < 0.01
assert apart["line, unscaled"][2] < 1 < apart["line ÷ 10"][[0, 2]].min()


# %% [markdown]
# Only the waves do all of it. The line ÷ 90 hardly tells 0 from 1, and the unscaled
# line hardly tells 44 from 60. The line ÷ 10 comes nearest, but it sets the outer
# pairs apart by only a few degrees, where the waves manage more than 25.
#
# `FourierPrompt`, in the course's library, projects these numbers.

# %% [markdown]
# ### Going further: the line and a curve
#
# The prompts of all ages, by the line and by the two slowest waves.

# %%
def prompts_by(kind, **options):
    torch.manual_seed(SEED)
    with torch.no_grad():
        return kind(1, 96, **options).double()(every_age)[:, 0]


affine = prompts_by(NumericalPrompt)  # (91, 96)
two_waves = prompts_by(FourierPrompt, n_waves=2)

# %%
kinds = {"the line": affine, "two waves": two_waves}
picture, panels = blank_chart(
    "How do the prompts of all ages lie?",
    "91 dots: by the line on a straight line, by two waves on a curve.",
    "A dot for each age, in the plane where the dots differ most.",
    columns=2, height=3,
)  # fmt: skip
for axes, (name, prompts) in zip(panels, kinds.items(), strict=True):
    dots = flat(prompts)  # (91, 2)
    axes.plot(*dots.T, ".-", markersize=4, color="#2d708e")
    for age in (0, 15, 44, 60, 80, 90):
        axes.plot(*dots[age], "o", color="#2d708e")
        out = dots[age] - dots.mean(dim=0)
        out = (0, 9) if name == "the line" else 11 * out / out.norm()
        place = {"textcoords": "offset points", "ha": "center"}
        axes.annotate(age, dots[age], out, va="center", **place)
    axes.set_title(name)
    axes.set_aspect("equal", adjustable="datalim")
    axes.axis("off")
picture

# %% tags=["hide-input"]
# check: the affine prompts do not bend, those of waves do
bend_of_line, bend_of_waves = (
    vectors.diff(n=2, dim=0).abs().max().item()
    for vectors in (affine, two_waves)
)
assert bend_of_line < 1e-6 < bend_of_waves


# %% [markdown]
# ### 12.5 An age encoder that is not affine
#
# Try It Yourself · ★★ · 9 minutes
#
# `ages`, (n,), are equally spaced, in years. `frequencies`, (k,), say how many
# turns each wave makes from age 0 to 90, so its angle at age `a` is
# 2π · frequency · a / 90 (`math.pi` is there). Return two tensors:
#
# 1. the features, (n, 2k), one row an age, all sines first and then all cosines;
# 2. how much they bend along the ages, (n - 2, 2k). A map is affine exactly if equal
#    steps in age make equal steps in every number. So take the
#    [second differences](../course/book/glossary.md#second-difference): of three
#    values in a row, the second step minus the first. For 1, 3, 5 that is 0, a straight
#    line, as for the ages themselves. For 0, 1, 0 it is -2: that bends.
#
# Example: for `ages = [0.0, 22.5, 45.0]` and `frequencies = [1.0]`, as
# tensors, the features are `[[0.0, 1.0], [1.0, 0.0], [0.0, -1.0]]` and the
# second differences `[[-2.0, 0.0]]`.

# %% tags=["exercise:12.5", "nbval-ignore-output"]
def fourier(ages: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    raise NotImplementedError("12.5: replace this line")


check("12.5", fourier)


# %% [markdown]
# ## Your own prompt in a real model
#
# Later layers can bend what the prompt does not, so only training can tell
# whether waves help. First put age and sex together.
#
# ### 12.6 Your own conditional prompt
#
# Try It Yourself · ★★★ · 15 minutes
#
# Write the dashed box of the drawing at the top as a module. `MyPrompt` has six
# parameters and no others. The three of the age are written already. Add three for the
# categories in `__init__`:
#
# - `table`, an `nn.Embedding`. It has a row of d_hidden numbers for each category: first
#   the rows of the first feature, then those of the second, and so on.
#   `cardinalities` lists how many categories each feature has.
# - `cat_bias`, an `nn.Parameter`, (n_cat, d_hidden): a row for each feature.
# - `cat_project`, an `nn.Linear` without bias, from d_hidden to d_model.
#
# `forward(x_num, x_cat)` returns the prompts, the age's first, (batch, 1 + n_cat,
# d_model):
#
# - An age in years, from `x_num`, (batch, 1), is divided by `AGE_SCALE`, which is 90,
#   multiplied by the weight, added to the bias and projected.
# - A category, from `x_cat`, (batch, n_cat), counts from 0 in its own feature. Its row
#   of the table is added to its feature's bias and projected. With `cardinalities`
#   `[2, 3]`, say, category 1 of the second feature is row 3.
#
# Example: in `MyPrompt([2], d_model=1, d_hidden=1)` let both biases be 0, the
# `table` `[[10.0], [20.0]]`, and all other weights 1. Then `x_num = [[45.0]]`
# and `x_cat = [[1]]`, as tensors, give `[[[0.5], [20.0]]]`.
#
# (`prompts_with` is for the check alone: leave it as it is.)

# %% tags=["exercise:12.6", "nbval-ignore-output"]
def prompts_with(weights, cardinalities, x_num, x_cat):
    d_model, d_hidden = weights["num_project.weight"].shape
    prompt = MyPrompt(cardinalities, d_model, d_hidden)
    return tried_out(prompt, weights, x_num, x_cat)


class MyPrompt(nn.Module):
    def __init__(
        self, cardinalities: list[int], d_model: int, d_hidden: int = 128
    ) -> None:
        super().__init__()
        # Random, so that the hidden numbers do not all learn the same.
        self.num_weight = nn.Parameter(torch.randn(1, d_hidden) / 10)
        self.num_bias = nn.Parameter(torch.randn(1, d_hidden) / 10)
        self.num_project = nn.Linear(d_hidden, d_model, bias=False)
        # Three more: self.table, self.cat_bias and self.cat_project.
        raise NotImplementedError("12.6: replace this line")

    def forward(self, x_num: Tensor, x_cat: Tensor) -> Tensor:
        raise NotImplementedError("12.6: replace this line")


check("12.6", prompts_with)

# %% [markdown]
# ### Your prompts in your model
#
# In lesson 11 the prompts came with the checkpoint. Now you have both halves:
# `TinyBart`, which takes prompts as vectors, and `MyPrompt`, which makes them.
# (`mine` returns your own answers; where you have none, the worked one stands in.)

# %% tags=["nbval-ignore-output"]
TinyBart, OwnPrompt = mine("11.7"), mine("12.6", "MyPrompt")


class PromptedBart(nn.Module):
    def __init__(self, n_tokens, d_model=64):
        super().__init__()
        self.bart = TinyBart(n_tokens, d_model, 4, 2 * d_model, 1, 256)
        self.encoder_prompt = OwnPrompt([2], d_model)
        self.decoder_prompt = OwnPrompt([2], d_model)

    def forward(
        self, input_ids, attention_mask, decoder_input_ids, x_num, x_cat
    ):
        read = self.encoder_prompt(x_num, x_cat)
        written = self.decoder_prompt(x_num, x_cat)
        return self.bart(
            input_ids, attention_mask, decoder_input_ids, read, written
        )


# %% [markdown]
# Half of the records reach the encoder empty, so that the model learns to write a
# patient from the prompts alone. Everybody aged 25 to 29 is left out: what will a
# model make of ages that it has never met?

# %%
real = real_data() is not None
sizes = {"tiny": 4_000, "small": 10_000, "full": 46_520}
cohort = choose_patients(sizes[PROFILE], seed=SEED)
to_learn, _, unseen = split_by_patient(cohort, seed=SEED)
tokenizer = CodeTokenizer.from_records(to_learn)
NEVER_MET = 25, 29
first, last = NEVER_MET
learned_from = [r for r in to_learn if not first <= r.age <= last]
print(f"{len(cohort):,} patients, {len(learned_from):,} to learn from,")
print("without those held out and those aged 25 to 29")


def dataset(patients, tokenizer, p_empty=0.5):
    return RecordDataset(
        patients, tokenizer, corruption=Corruption(p_empty=p_empty),
        seed=SEED, max_tokens=250, too_long="cut",
    )  # fmt: skip


# %% [markdown]
# Train it for two minutes of reading: 120 steps of 16 patients each.

# %%
torch.manual_seed(SEED)
own = PromptedBart(len(tokenizer))
for weight in own.parameters():
    if weight.ndim > 1:
        nn.init.normal_(weight, std=0.08)
optimizer = torch.optim.AdamW(own.parameters(), lr=4e-3)
data, losses = dataset(learned_from, tokenizer), []
for _ in range(120):
    chosen = torch.randint(len(data), (16,)).tolist()
    batch = data.batch(chosen)
    labels = batch.pop("labels")  # (batch, length), -100 on padding
    loss = cross_entropy(own(**batch).mT, labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())

# %% [markdown]
# Does it listen to the prompts? Give it 300 new patients, with nothing in the
# encoder, once with their own age and sex and once with somebody else's:

# %%
known = CodeTokenizer(tokenizer.codes, unseen="skip")
batch = dataset(unseen[:300], known, p_empty=1.0).batch(range(300))
labels = batch.pop("labels")
who = "x_num", "x_cat"
swapped = {name: batch[name].roll(1, dims=0) for name in who}
with torch.no_grad():
    with_own = cross_entropy(own(**batch).mT, labels).item()
    with_other = cross_entropy(own(**batch | swapped).mT, labels).item()

# %% tags=["nbval-ignore-output"]
picture, axes = blank_chart(
    "Your model learns, but does it listen?",
    f"The loss of each step, from {losses[0]:.1f} to {losses[-1]:.1f} "
    f"nats. New patients cost {with_own:.2f} nats with their own age and "
    f"sex, {with_other:.2f} with another patient's.",
    "The loss of each training step; lines: 300 new patients",
)
axes.plot(losses, color="grey", linewidth=0.8)
axes.axhline(with_own, color="#2d708e", label="own age and sex")
axes.axhline(
    with_other, color="#440154", linestyle="--", label="another patient's"
)
axes.set(xlabel="step", ylabel="loss per token (nats)", ylim=0)
axes.legend()
picture

# %% tags=["hide-input"]
# check: the curve falls, and the prompts matter
assert real or sum(losses[-20:]) / 20 < losses[0] - 2
assert real or with_other > with_own + 0.12


# %% [markdown]
# The wrong age and sex cost it about a quarter of a nat a token, and nobody told the
# model what age and sex are for.
#
# From here on the library's model trains: it does the same, and writes records
# faster. The [learning rate](../course/book/glossary.md), how far each step goes, is
# the same for all.

# %% tags=["hide-input"]
# small_model(...), and trained(model): 300 steps with these patients
def small_model(**changes):
    fields = {"dropout": 0.0} | changes
    config = PromptBartConfig.for_tokenizer(tokenizer, "narrow", **fields)
    torch.manual_seed(SEED)
    return PromptBart(config)


def trained(model, steps=300):
    train(
        model, dataset(learned_from, tokenizer), steps=steps, lr=6e-3,
        seed=SEED, group_by_length=True,
    )  # fmt: skip
    return model


# %% [markdown]
# Do its samples follow age and sex? Let the model write a record for each of a
# few hundred patients, and measure its
# [validity](../course/book/glossary.md): count the codes that are impossible for
# the age and sex it was given. Then check the same records against another
# patient's age and sex. A model that ignores its prompts scores the same in
# both.

# %% tags=["hide-input"]
# let a model write a record for each age and sex
def write_records(model, ages, sexes):
    empty = torch.tensor([EMPTY_RECORD] * len(ages))  # (batch, 3)
    torch.manual_seed(SEED)
    ids = model.generate(
        empty,
        x_num=torch.tensor(ages).float()[:, None],  # (batch, 1)
        x_cat=torch.tensor([[SEXES.index(sex)] for sex in sexes]),
        do_sample=True, top_k=0, max_new_tokens=80,
    )  # fmt: skip
    return [tokenizer.decode(row) for row in ids]


# %% tags=["hide-input"]
# impossible(name, model): the share of impossible codes, printed
ages = [record.age for record in cohort[:400]]
sexes = [record.sex for record in cohort[:400]]
order = np.random.default_rng(SEED).permutation(len(ages))
shares = {}


def impossible(name, model):
    written = write_records(model, ages, sexes)
    own = impossible_share(written, ages, sexes)
    other_ages = [ages[i] for i in order]
    other_sexes = [sexes[i] for i in order]
    other = impossible_share(written, other_ages, other_sexes)
    print(f"{name:14} {own:5.1%} of its codes are impossible,", end=" ")
    print(f"{other:.1%} for another patient")
    shares[name] = own, other


# %% [markdown]
# The next cell trains with the library's prompts, which compute what 12.6 does. Each
# training run takes 5 to 30 seconds.

# %% tags=["nbval-ignore-output"]
line = "line ÷ 90"
models = {line: trained(small_model())}
impossible(line, models[line])

# %% [markdown]
# It follows age and sex: far more of its codes would be impossible for another
# patient. Train the line with the two other scales, and the waves.

# %% tags=["nbval-ignore-output"]
ways = {
    "line ÷ 10": {"num_scales": [10.0]},
    "line, unscaled": {"num_scales": [1.0]},
    "waves": {"age_encoder": "fourier"},
}
for name, changes in ways.items():
    models[name] = trained(small_model(**changes))
    impossible(name, models[name])


# %% [markdown]
# And the table with a row for every age, which starts from small random
# numbers:

# %% tags=["nbval-ignore-output"]
class AgeTable(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.rows = nn.Embedding(91, d_model)
        nn.init.normal_(self.rows.weight, std=0.02)

    def forward(self, x_num):  # (batch, 1) -> (batch, 1, d_model)
        return self.rows(x_num.long())


model = small_model()
for side in (model.encoder_prompt, model.decoder_prompt):
    side.numerical = AgeTable(model.config.d_model)
models["a table"] = trained(model)
impossible("a table", models["a table"])


# %% [markdown]
# ### A scale, waves, or a table?
#
# Where do they differ? Ask each of these models, and the one in the widget, for the
# first code of a woman at every age. How often does it expect a newborn code or a
# pregnancy code, and how often does the hospital write one?

# %% tags=["hide-input", "nbval-ignore-output"]
# the share of newborn and of pregnancy codes by age
def group_of(code):
    rule = icd9.who_can_have(code) if icd9.is_code(code) else None
    if rule is not None and rule.max_age == 0:
        return "newborn codes"
    return "pregnancy codes" if chapter_of(code) == 11 else None


groups = "newborn codes", "pregnancy codes"
women = [record for record in cohort if record.sex == "F"]
band = np.array([(age + 4) // 5 for age in range(91)])  # 0, 1-5, 6-10, ...
hospital = {group: np.zeros(91) for group in groups}
for place in range(19):
    here = [r for r in women if band[r.age] == place]
    found = [group_of(r.visits[0].codes[0]) for r in here]
    for group in groups:
        share = found.count(group) / max(len(found), 1)
        hospital[group][band == place] = share


def expected(model, tokenizer):
    of_code = np.array([group_of(code) or "" for code in tokenizer.codes])
    people = [(age, "F") for age in range(91)]
    first = next_token_probabilities(model, tokenizer, people)[:, 7:]
    every = first.sum(axis=1)
    return {g: first[:, of_code == g].sum(axis=1) / every for g in groups}


by_model = {name: expected(one, tokenizer) for name, one in models.items()}
longer = expected(loaded.model, loaded.tokenizer)


def mean(shares, group, low, high):
    return shares[group][low : high + 1].mean()


pregnant = NEVER_MET, (76, 90)
print(" " * 18, "newborn codes at   pregnancy codes at")
print(" " * 18, "1 to 5             25 to 29   76 to 90")
rows = by_model | {"the widget's model": longer, "the hospital": hospital}
for name, row in rows.items():
    print(f"{name:18} {mean(row, groups[0], 1, 5):>7.0%}", end=" " * 12)
    parts = [mean(row, groups[1], low, high) for low, high in pregnant]
    print("".join(f"{part:>8.0%}   " for part in parts))
wrong = {name: shares[name][0] for name in models}
looks = {groups[0]: ("--", "#440154"), groups[1]: ("-", "#2d708e")}

# %% tags=["nbval-ignore-output"]
picture, panels = blank_chart(
    "Where do the models differ from the hospital?",
    "Newborn codes at age 0, pregnancy codes from 15 to 45. Impossible: "
    + ", ".join(f"{name} {of:.1%}" for name, of in wrong.items()) + ".",
    "Share of the first codes of women, by age. Areas: the hospital.",
    height=4.2, rows=2, columns=3, sharey=True,
)  # fmt: skip
for axes, (name, of) in zip(panels.flat, by_model.items()):
    for group, (dashes, colour) in looks.items():
        area = axes.fill_between(range(91), hospital[group], step="mid")
        area.set(color=colour, alpha=0.3, lw=0, label=f"{group}, hospital")
        axes.plot(of[group], dashes, color=colour, label=group)
    axes.axvspan(*NEVER_MET, color="grey", fill=False, lw=0, hatch="////",
                 label="ages left out of training")
    axes.set_title(f"{name}: {wrong[name]:.1%} impossible")
    axes.set(xticks=range(0, 91, 15), xlabel="age", ylim=(0, 1))
    axes.yaxis.set_major_formatter("{x:.0%}")
panels[1, 2].axis("off")
panels[1, 2].legend(*axes.get_legend_handles_labels())
picture

# %% tags=["hide-input", "nbval-ignore-output"]
# check: what the text says of scale, waves and table
small = {n: mean(row, groups[0], 1, 5) for n, row in rows.items()}
never = {n: mean(row, groups[1], *NEVER_MET) for n, row in rows.items()}
old = {n: mean(row, groups[1], 76, 90) for n, row in rows.items()}
for own, other in shares.values():
    assert real or own < 0.7 * other
if not real:
    assert small[line] > 2 * small["line, unscaled"]
    assert old["line, unscaled"] > 2 * old[line]
    assert wrong["line ÷ 10"] < min(wrong[line], wrong["line, unscaled"])
    assert wrong["waves"] < min(wrong[line], wrong["line, unscaled"])
    assert small["waves"] < small["line ÷ 10"] < small[line]
    assert old["waves"] < 0.5 * old["line, unscaled"]
    assert old["waves"] < old["line ÷ 10"]
    assert abs(wrong["a table"] - wrong["waves"]) < 0.015
    assert never["a table"] < 0.6 * min(never["waves"], never["line ÷ 10"])
    assert 0.03 < small["the widget's model"] < small[line]
    assert longer[groups[0]][1] > 0.4 and longer[groups[0]][30] < 0.001
    assert small["a table"] < small["line ÷ 10"]
assert 91 * 96 == 8_736 and 2 * 128 + 128 * 96 == 12_544
for side in ("encoder_prompt", "decoder_prompt"):
    rows = getattr(models["a table"], side).numerical.rows.weight
    never_met = rows[NEVER_MET[0] : NEVER_MET[1] + 1]
    assert never_met.std() < 0.03 and (real or rows[0].std() > 0.03)

# %% [markdown]
# What did you guess? The lines still confuse what lay close before training:
#
# - **Line ÷ 90** gives newborn codes to small children. The widget's model has
#   such a line too. That is why it gives them to a child of one.
# - **Line, unscaled**, hardly does so, but it still expects pregnancies at 76 to 90.
# - **Line ÷ 10** is the best line.
# - **Waves** do better than the best line at both ends of life. (Over all ages, one
#   training cannot tell the two apart.)
# - **The table** writes about as few impossible codes as waves. But at 25 to 29, the
#   hatched ages that these models never met, it expects far too few pregnancies: its
#   rows for them are still the small random numbers that they began with.
#
# So take a table only if every value is common.
#
# That is how you ask for a woman of 30: with two vectors before the tokens, and
# a training in which these vectors were often all that the model knew.
#
# ## What a prompt gives away
#
# Nobody can read an age off a prompt just by looking at its numbers. So a hospital
# might store prompts in place of ages, for example in the log of a server. Is a
# patient's age safe there? Suppose the log stores one vector for each patient, the sum
# of the prompts of age and sex. Here are such sums. The cross is a woman of 41, stored
# with noise in each of the 96 numbers to hide her.

# %%
parts = loaded.model.encoder_prompt
with torch.no_grad():
    of_age = parts.numerical(every_age.float())[:, 0]  # (91, d_model)
    male, female = parts.categorical(torch.tensor([[0], [1]]))[:, 0]
torch.manual_seed(SEED)
logged = of_age[41] + female + 0.8 * torch.randn(96)
both = {"male": of_age + male, "female": of_age + female}
along, across = of_age[90] - of_age[0], female - male
across = across - (across @ along) / (along @ along) * along
plane = torch.stack([along / along.norm(), across / across.norm()])

# %%
origin = plane @ both["male"][0]  # (2,)
picture, axes = blank_chart(
    "Whose prompt lies nearest to the cross?",
    f"Two parallel lines of 91 dots, {across.norm():.1f} apart and "
    f"{along.norm():.1f} long, and a cross near the line of women.",
    "A dot for each age and sex, in the plane of both lines. Cross: a "
    "vector from a log, with noise.",
    height=3.6,
)
for sex, prompts in both.items():
    x, y = plane @ prompts.T - origin[:, None]
    (drawn,) = axes.plot(x, y, ".", markersize=4)
    axes.plot(x[::30], y[::30], "o", color=drawn.get_color())
    axes.text(-0.3, y[0], sex, ha="right", va="center")
    for age in (0, 30, 60, 90):
        axes.text(x[age], y[age] + 0.2, age, ha="center")
axes.plot(*(plane @ logged - origin), "X", color="#b3400e", markersize=9)
axes.set_aspect("equal")
axes.axis("off")
picture

# %% tags=["hide-input"]
# check: whose prompt lies nearest to the cross
everybody = torch.cat([of_age + male, of_age + female])  # (182, d_model)
nearest = (everybody - logged).norm(dim=1).argmin().item()
print("nearest:", f"{('male', 'female')[nearest // 91]}, {nearest % 91}")
long = (logged - of_age[41] - female).norm().item()
line_long = (of_age[90] - of_age[0]).norm().item()
print(f"noise {long:.1f} long, each line {line_long:.1f} long")
assert SEED or nearest == 91 + 38
assert 0.7 < long / line_long < 1.1

# and a thousand crosses more
crosses = of_age[41] + female + 0.8 * torch.randn(1000, 96)
nearest = torch.cdist(crosses, everybody).argmin(dim=1)  # (1000,)
right = (nearest >= 91).float().mean().item()
years_off = (nearest % 91 - 41).abs().median().item()
print(f"1,000 crosses: sex right in {right:.1%},", end=" ")
print(f"age off by {years_off} years at the median")
assert right > 0.98 and 3 < years_off < 8


# %% [markdown]
# The noise is almost as long as the whole line, and yet the cross lies nearest to a
# woman of 38. Only the two directions of the picture tell ages and sexes apart, so only
# the noise along these two matters. And the noise points in all 96 directions alike:
# along any two of them it is short, about $\sqrt{2/96}$ of its whole length, or a
# seventh. In a thousand such crosses the sex is nearly always right, and the age
# typically 6 years off.
#
# ### 12.7 Whose prompt is it?
#
# Try It Yourself · ★★★ · 14 minutes
#
# A colleague logs prompts in place of patients, with noise on each number, and
# calls the log anonymous. You find `vector`, (d_model,), in it, from a model
# that adds up the affine prompt of the age and the prompt of the sex.
#
# `prompt_of(age, sex)` returns the model's prompt, (d_model,), for an age
# from 0 to 90 and sex 0 or 1. Each call costs money: you have 6. Of all 182 pairs
# `(age, sex)`, two whole numbers, return the one whose prompt lies nearest to
# `vector` (by `(a - b).norm()`).
#
# Example: if `prompt_of(age, sex)` is `[2.0 * age, 10.0 * sex]`, as a
# tensor, and `vector` is `[82.4, 9.0]`, the patient is `(41, 1)`.

# %% tags=["exercise:12.7", "nbval-ignore-output"]
def whose_prompt(
    prompt_of: Callable[[float, int], Tensor], vector: Tensor
) -> tuple[int, int]:
    raise NotImplementedError("12.7: replace this line")


check("12.7", whose_prompt)

# %% [markdown]
# ## Recap
#
# - **An age** becomes weight * age + bias, projected to the width of the
#   model. That is affine: all its prompts lie on one straight line.
# - **The scale** decides which ages look different at first: unscaled only
#   the youngest, divided by 90 all ages, but each year little.
# - **Samples follow age and sex** when fewer of their codes are impossible
#   for the patient asked for than for another one. At both ends of life, waves
#   beat the best line. A table is level with waves, but fails at ages that it
#   has never met.
# - **A prompt gives away** the patient it was made for: a few other prompts
#   are enough to read the age off it.
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
# 2. Somebody leaves the age as it is, undivided. Which are harder to tell apart for
#    a new model, the ages 0 and 1 or the ages 50 and 60? Why?
#
# <details><summary>Answer</summary>
# 50 and 60. The layer norm keeps the direction alone, and undivided ages have turned
# nearly all the way after fifteen years.
# </details>
#
# 3. A model has prompts in its encoder alone, and by mistake its mask hides them.
#    No error is raised, and the loss falls. What do you measure to find the
#    mistake?
#
# <details><summary>Answer</summary>
# Whether samples follow the prompts: as many codes are impossible for the
# patient asked for as for another one.
# </details>
#
# ## What comes next
#
# You can now tell a model what kind of patient to write, and measure whether
# it obeys. Try it on your own patients: set `EHR_COURSE_DATA` as in lesson 08,
# train again, and see which ages the straight line gets wrong.
#
# Now ask the model to guess age and sex from what it has written. How would you
# know that it did not simply read its own prompt?
# [Lesson 13](13_multi_task_learning.ipynb) asks exactly that.
#
# If you know the tutorial that this lesson follows,
# [What holds](../course/book/what_holds.md#12-conditional-prompt)
# says which of its claims hold.
