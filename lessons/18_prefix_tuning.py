# %% [markdown]
# # 18 · Prefix tuning
#
# 120 minutes · Prerequisites: 12, 15
#
# You will be able to:
#
# - Compute attention with a prefix as attention over longer keys and values.
# - Compare prompt tuning, prefix tuning and full training on a second
#   hospital, with the spread over seeds.
# - Compute the lowest loss that a bias for each token can reach.
# - Write LoRA by hand, put it into a trained model, and merge it.

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
# ## How much must be trained again?
#
# The course's model, the small BART with prompts for age and sex from lesson 00, has
# learned from 4,000 patients of one hospital. A second hospital has 200 patients: most
# are older and have heart disease, and there are no births and no children. How good is
# the model there? (The encoder gets only age and sex in this lesson, so the decoder
# must predict the whole record.)

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients to test on
SEED = 0

# %% tags=["hide-input"]
# set-up: libraries
import copy
from itertools import pairwise
from statistics import mean, median

import numpy as np
import polars as pl
import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import Tensor, nn
from torch.nn import functional
from torch.optim.lr_scheduler import LinearLR

# %%
from ehr_course import (
    CodeTokenizer, Corruption, LengthBatchSampler, PrefixConfig,
    PrefixTuned, RecordDataset, checkpoint_folder, icd9, load_checkpoint,
    make_cohort, prefix_attention as shares_paid, prefix_parameters,
)
from ehr_course.exercises import check, hint, mine, progress
from ehr_course.plots import (
    blank_chart, draw_bars, draw_dots, draw_flow, draw_heat,
    draw_longer_keys,
)
from ehr_course.widgets import prefix_attention_explorer

# %%
loaded = load_checkpoint("tiny_prompt_bart")
base = loaded.model.requires_grad_(False)
known = CodeTokenizer(loaded.tokenizer.codes, unseen="skip")
n_test = {"tiny": 400, "small": 1_000, "full": 10_000}[PROFILE]


def dataset(records):
    empty = Corruption(p_empty=1.0)  # the encoder sees no code
    return RecordDataset(records, known, corruption=empty, seed=SEED)


@torch.no_grad()
def loss_of(model, data):
    """Nats a token."""
    keys = LengthBatchSampler(
        data.lengths, 64, shuffle=False, group_by_length=True
    )
    outputs = [model.eval()(**data[key]) for key in keys]
    total = sum(out.loss_sum for out in outputs)
    return (total / sum(out.loss_count for out in outputs)).item()


# %%
patients = make_cohort(200, seed=SEED, hospital="heart")
learning = dataset(patients[:150])  # 50 are kept aside
test = dataset(make_cohort(n_test, seed=1000, hospital="heart"))
at_home = dataset(make_cohort(n_test, seed=1000))
there, here = loss_of(base, test), loss_of(base, at_home)
print(f"loss at home {here:.2f}, at the second hospital {there:.2f}")
n_base = sum(p.numel() for p in base.parameters())
n_read = int(dataset(patients).lengths.sum())
print(f"{n_base:,} parameters, {n_read:,} tokens in 200 patients")

# %% tags=["hide-input"]
# check: it is worse there, and has far more parameters than tokens
assert there > here + 0.1
assert n_base > 100 * n_read

# %% [markdown]
# You could train the whole model again, with more than a hundred times as many
# parameters as the hospital has tokens. Or you could freeze it and train a few numbers
# beside it: then one model serves many hospitals, each with a small file that can be
# switched off. Here are three places for such numbers, in yellow (a fourth comes at the
# end of the lesson):

# %% tags=["hide-input"]
# set-up: the stored results; the parts of the model, and what is added
sweep = pl.read_csv(checkpoint_folder("second_hospital") / "sweep.csv")
losses = {
    method: of_method["loss"].to_list()  # one for each seed, in order
    for (method,), of_method in sweep.group_by(
        "method", maintain_order=True
    )
}
trained = dict(sweep.select("method", "trained").iter_rows())
parts = {
    "into the encoder": (0, 0, "prompt"),
    "self-attention": (1, 0, "encoder"),
    "feed-forward": (2, 0, "encoder"),
    "into the decoder": (0, 1, "prompt"),
    "self-attention ": (1, 1, "decoder"),
    "cross-attention": (2, 1, "decoder"),
    "feed-forward ": (3, 1, "decoder"),
    "scores": (4, 1, "decoder"),
    "prefix": (1, 2, "prompt"),
    "output bias": (4, 2, "prompt"),
}
arrows = [
    ("into the encoder", "self-attention"),
    ("self-attention", "feed-forward"),
    ("feed-forward", "cross-attention"),
    ("into the decoder", "self-attention "),
    ("self-attention ", "cross-attention"),
    ("cross-attention", "feed-forward "),
    ("feed-forward ", "scores"),
    ("prefix", "self-attention "),
    ("output bias", "scores"),
]
in_all = {name: f"{number:,} numbers" for name, number in trained.items()}
beside = {name: in_all[name] for name in ("prefix", "output bias")}
beside["into the encoder"] = "before age, sex"
beside["into the decoder"] = f"both prompts:\n{in_all['prompt']}"
n_layers = base.config.encoder_layers, base.config.decoder_layers

# %%
draw_flow(
    parts,
    arrows,
    "Where do three methods put their numbers?",
    "Yellow: added and trained, while the rest is frozen. Full training"
    f" changes all {in_all['full']} of the model itself.",
    words={
        "into the encoder": "prompt:\n8 vectors",
        "into the decoder": "prompt:\n8 vectors",
        "prefix": "prefix: 8 keys\nand 8 values",
        "output bias": "output bias",
        "scores": "scores of\nall tokens",
    },
    notes=beside,
    frames={
        f"each of {n_layers[0]} encoder layers": list(parts)[1:3],
        f"each of {n_layers[1]} decoder layers": list(parts)[4:7],
    },
)


# %% [markdown]
# - [Prompt tuning](../course/book/glossary.md) ([Lester et al.
#   2021](https://arxiv.org/abs/2104.08691)) trains vectors before the sequence, the
#   same for every patient.
# - [Prefix tuning](../course/book/glossary.md) ([Li and Liang
#   2021](https://arxiv.org/abs/2101.00190)) trains keys and values, here for the
#   self-attention of every decoder layer. Its authors found it *better* than full
#   training when examples were few.
# - An **output bias** is one number for each token, added to its score. It can only
#   make a token more frequent, or less.
#
# One loop trains them all:

# %%
def optimizer_of(model, lr):
    free = [p for p in model.parameters() if p.requires_grad]
    return torch.optim.AdamW(free, lr=lr)


def fit(model, optimizer, data, steps=80, seed=SEED):
    """Train on random batches, at a rate that falls to 0 on a line."""
    torch.manual_seed(seed)  # for the batches and dropout
    slower = LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    free = optimizer.param_groups[0]["params"]
    model.train()
    for _ in range(steps):
        rows = torch.randint(len(data), (32,)).tolist()
        model(**data.batch(rows)).loss.backward()
        nn.utils.clip_grad_norm_(free, 1.0)
        optimizer.step()
        slower.step()
        optimizer.zero_grad()


# %%
tuned = PrefixTuned(base, PrefixConfig(8), seed=SEED)
fit(tuned, optimizer_of(tuned, lr=3e-2), learning)
for name, p in tuned.named_parameters():
    if p.requires_grad:
        print(f"trained: {name} {tuple(p.shape)}, {p.numel():,} numbers")
print(f"loss {there:.3f} before, {loss_of(tuned, test):.3f} after")

# %% tags=["hide-input"]
# check: the prefix helps, and the base is what it was
gained = there - loss_of(tuned, test)
assert 0.03 < gained < 0.09
assert loss_of(base, test) == there
assert not any(p.requires_grad for p in base.parameters())

# %% [markdown]
# It helps: 0.05 nats less give each right token about 5% more probability, on
# (geometric) average. Would a bias do as well? First build a prefix yourself.
#
# ## Tokens that nobody wrote
#
# Attention turns every token into a query, a key and a value. A
# [prefix](../course/book/glossary.md) adds $n$ keys $P_K$ and $n$ values $P_V$ in each
# layer and each head. No token stands behind them: they are trained.
#
# $$\text{softmax}\left(\frac{Q\,[P_K; K]^\top}{\sqrt{d_{head}}}\right)
# [P_V; V]$$
#
# The semicolon puts one below the other; $d_{head}$ is the width of a head. A key and
# its value are called a token of the prefix. Here are four real tokens and two of a
# prefix, in one head, with made-up numbers:

# %%
names = ["<v>", "428.0", "427.31", "<\\v>"]
q = torch.tensor([[1, 0.5], [0.5, 2], [-1, 1.5], [0.5, -1]])
k = torch.tensor([[1, 0], [0.5, 1], [-1, 1.5], [0, -1]])
v = torch.tensor([[1, -1], [0.5, 0.5], [2, 0], [0, 1]])
prefix_k = torch.tensor([[1.5, -0.5], [-1, -1]])
prefix_v = torch.tensor([[3.0, 0], [0, -3]])

# %% tags=["hide-input"]
# attention over the longer keys and values, by PyTorch's own function
longer = {"keys": torch.cat([prefix_k, k])}  # (6, 2)
longer |= {"q": q, "values": torch.cat([prefix_v, v])}
mask = torch.ones(4, 6, dtype=torch.bool).tril(2)
read = {"weights": torch.eye(6), "result": longer["values"]}
for name, values in read.items():
    parts = (q[None], longer["keys"][None], values[None], mask)
    longer[name] = functional.scaled_dot_product_attention(*parts)[0]

# %%
draw_longer_keys(names, 2, longer, mask)


# %% [markdown]
# The mask gains a column for each prefix token, open to all queries. One softmax covers
# both parts: whatever the prefix gets is taken from the tokens.
#
# ### 18.1 Attention with a prefix
#
# Try It Yourself · ★★ · 9 minutes
#
# `q` has the shape (batch, heads, target, head_dim), `k` and `v` (batch,
# heads, source, head_dim), float32. `prefix_k` and `prefix_v` have the
# shape (heads, n, head_dim): one prefix for all rows of the batch. `mask`,
# boolean, (target, source), is True where a query may look at a key, at
# least once in each row. Return the attention's output, (batch, heads, target,
# head_dim). Scores may be large. Do it without `scaled_dot_product_attention`.
#
# Example: for `q = [[[[0.0]]]]`, `k = [[[[5.0]]]]`, `v = [[[[4.0]]]]`,
# `prefix_k = [[[1.0]]]`, `prefix_v = [[[10.0]]]` and `mask = [[True]]`, as
# tensors, the result is `[[[[7.0]]]]`.

# %% tags=["exercise:18.1", "nbval-ignore-output"]
def prefix_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    prefix_k: Tensor,
    prefix_v: Tensor,
    mask: Tensor,
) -> Tensor:
    raise NotImplementedError("18.1: replace this line")


check("18.1", prefix_attention)

# %% [markdown]
# ### Going further: how is a prefix stored?
#
# In a table that is easily cut in the wrong way. Exercise 18.2 is in here.

# %% [markdown]
# All keys and values stand in one table, such as the one of 8 by 384 above, with a
# row for each token of the prefix: the key of layer 0, the value of layer 0,
# the key of layer 1, and so on. In a key the numbers of head 0 come first,
# then those of head 1.
#
# You might give the table its final shape by `view` alone: no error is raised. Label
# each entry with its token. A row of the picture should hold a key or a value of each
# token, here those of head 0:

# %%
n, layers, heads, head_dim = 4, 2, 2, 2
width = layers * 2 * heads * head_dim  # numbers in a row
table = torch.arange(n)[:, None].expand(n, width).reshape(-1)
split = table.view(n, layers, 2, heads, head_dim)
right = split.permute(1, 2, 3, 0, 4)  # (layers, 2, heads, n, head_dim)
wrong = table.view(layers, 2, heads, n, head_dim)

# %%
ways = {"split, then permute": right, "view alone": wrong}
places = {
    way: {
        f"layer {layer}, {side}": {
            f"place {i}": token
            for i, token in enumerate(shaped[layer, s, 0, :, 0].tolist())
        }
        for layer in range(layers)
        for s, side in enumerate(("keys", "values"))
    }
    for way, shaped in ways.items()
}

# %%
draw_heat(
    places,
    "Which token's numbers end up where?",
    f"From a table of {n} rows, one for each token, of {width} numbers."
    " Framed: not the token of this place.",
    form="{:.0f}",
    largest=n,
    framed={
        (way, row, place)
        for way, rows in places.items()
        for row, of in rows.items()
        for place, token in of.items()
        if place != f"place {token}"
    },
)


# %% [markdown]
# With `view` alone, layer 0 gets the first rows of the table and the last layer the
# last rows. Training would not notice. A table that was trained elsewhere would be
# scrambled.
# #### 18.2 Keys and values for each layer
#
# Try It Yourself · ★★ · 9 minutes
#
# `table` has the shape (batch, n, n_layers * 2 * d_model), float32: one table for
# each patient of a batch. Each row is laid out as above. Return the keys and values as
# one tensor, (n_layers, 2, batch, n_heads, n, head_dim), keys first.
#
# Example: for `table = [[[1, 2, 3, 4], [5, 6, 7, 8]]]`, as a tensor, one
# layer and one head, the keys are `[[1, 2], [5, 6]]` and the values
# `[[3, 4], [7, 8]]`; the result has the shape (1, 2, 1, 1, 2, 2).

# %% tags=["exercise:18.2", "nbval-ignore-output"]
def per_layer(table: Tensor, n_layers: int, n_heads: int) -> Tensor:
    raise NotImplementedError("18.2: replace this line")


check("18.2", per_layer)

# %% [markdown]
# ## Which method wins?
#
# Each method was trained with five seeds: 150 patients to learn from, and 50 to choose
# the learning rate and the number of steps. Guess the order of the four methods.

# %%
shown = "output bias", "prompt", "prefix", "full"
says = {n: f"{n}\n{trained[n]:,}\n{mean(losses[n]):.3f}" for n in shown}
before = losses["nothing"][0]
picture, axes = blank_chart(
    "What does a method gain for the numbers that it trains?",
    f"{'; '.join(says.values())}; the model as it is, 0, {before:.3f}.",
    "A dot for each seed, and the mean: lower is better",
)
for name, words in says.items():
    x, of = trained[name], losses[name]
    axes.plot([x] * len(of), of, "o", color="#2d708e")
    axes.hlines(mean(of), x / 1.2, x * 1.2, "black")
    axes.text(x, min(of) - 0.01, words, ha="center", va="top")
axes.axhline(before, color="black", linestyle="--")
axes.text(1e6, before, f"the model as it is: {before:.3f}\n", ha="right")
axes.set(xscale="log", xlabel="numbers trained", xlim=(200, 1e6))
axes.set(ylabel="loss, in nats a token", ylim=(2.31, 2.59))
axes.xaxis.set_major_formatter("{x:,.0f}")
picture

# %% [markdown]
# Full training is best. Far behind it, one bias for each token does a little better on
# average than a prefix with seven times as many numbers. (The test is on 1,000
# patients, so the dashed line is a little off your own loss.)
#
# The dots mix luck with the patients and luck in training. Compare two methods seed by
# seed, on the same patients, and the first kind goes away:

# %%
pairs = [
    ("full", "output bias"), ("full", "prefix"), ("output bias", "prompt"),
    ("output bias", "prefix"), ("prefix", "prompt"),
]


def draw_gaps(pairs, title):
    gaps = {
        f"{one} against {other}": np.subtract(losses[one], losses[other])
        for one, other in pairs
    }
    better = {n: sum(gap < 0) for n, gap in gaps.items()}
    return draw_dots(
        gaps,
        title,
        "A dot for each seed, on the same patients for both methods",
        across="loss of the first minus loss of the second, nats a token",
        form="{:+.3f}",
        notes={n: f"better in {k} of 5" for n, k in better.items()},
        warn=[n for n, times in better.items() if 0 < times < 5],
        line=0,
    )


# %%
draw_gaps(pairs, "Which of these comparisons can a seed turn around?")

# %%
gain = {name: before - mean(of) for name, of in losses.items()}
for name in shown:
    share = gain[name] / gain["full"]
    print(f"{name:12} {share:4.0%} of what full training gains")


# %% tags=["hide-input"]
# check: what the text says of these five seeds
def differences(one, other):
    """One loss minus the other, seed by seed: below 0, one is better."""
    of_seeds = zip(losses[one], losses[other], strict=True)
    return [a - b for a, b in of_seeds]


better = (
    ("prompt", "nothing"),
    ("output bias", "prompt"),
    ("full", "output bias"),
    ("full", "prefix"),
    ("full", "projected prefix"),
    ("nothing", "from scratch"),
)
assert all(max(differences(*pair)) < 0 for pair in better)
assert gain["output bias"] > 0.5 * gain["full"]
assert max(gain["prompt"], gain["prefix"]) < 0.5 * gain["full"]
assert sum(d < 0 for d in differences("output bias", "prefix")) == 4
assert sum(d < 0 for d in differences("prefix", "prompt")) == 4
assert sum(d < 0 for d in differences("projected prefix", "prefix")) == 3

# %% [markdown]
# Full training wins with every seed, and neither a prompt nor a prefix clearly beats
# the simplest method. What does the prefix do with its numbers? What does each method
# cost? And can you read in a bias what the second hospital is like?

# %% [markdown]
# ### Going further: can a network make a better prefix?
#
# Li and Liang trained one that makes the table: a *projected* prefix. Exercises 18.3
# and 18.4 are in here.

# %% [markdown]
# Li and Liang found that a table trained by itself depends strongly on the learning
# rate and the initial values. So they trained a narrow table, $n$ by $d$, and two
# linear layers with tanh between them, $d \to d_{hidden} \to 2Ld$ for $L$ layers, that
# make the wide one:

# %%
projected = PrefixTuned(base, PrefixConfig(8, d_hidden=64), seed=SEED)
fit(projected, optimizer_of(projected, lr=3e-3), learning)
prefix = projected.prefixes["decoder"]
linear, _, wide = prefix.transform
rows, d_model = prefix.embedding.shape
sizes = {"table": rows * d_model}
texts = {"table": f"table\n{rows} × {d_model}\n{rows * d_model:,}"}
for name, layer in (("linear", linear), ("wide", wide)):
    sizes[name] = sum(p.numel() for p in layer.parameters())
    shape = f"{layer.in_features} → {layer.out_features}"
    texts[name] = f"linear\n{shape}\n{sizes[name]:,}"
kept = rows * wide.out_features
shape = f"{rows} × {wide.out_features}"
texts["kept"] = f"keys and values\n{shape}\n{kept:,}"

# %%
draw_flow(
    {
        "table": (0, 0, "prompt"),
        "linear": (1, 0, "quiet"),
        "tanh": (2, 0, "quiet"),
        "wide": (3, 0, "quiet"),
        "kept": (4, 0, "prompt"),
    },
    list(pairwise(("table", "linear", "tanh", "wide", "kept"))),
    "How many numbers are trained, and how many are kept?",
    "Last line of a box: how many numbers. What is trained is dropped"
    " after training; the model reads only what is kept.",
    words=texts,
    frames={
        f"trained: {sum(sizes.values()):,}": [*sizes, "tanh"],
        f"kept: {kept:,}": ["kept"],
    },
)


# %% [markdown]
# #### 18.3 Count what is trained
#
# Try It Yourself · ★ · 7 minutes
#
# Return how many parameters are trained for a prompt (a vector for each
# token, before the embeddings of one sequence), for a direct prefix (keys and
# values in every layer), and for a prefix through the network above. Linear layers
# have biases.
#
# Example: for 2 tokens, 3 layers, a width of 4 and a hidden layer of 5 the
# result is `(8, 48, 177)`.

# %% tags=["exercise:18.3", "nbval-ignore-output"]
def count_trained(
    n_tokens: int, n_layers: int, d_model: int, d_hidden: int
) -> tuple[int, int, int]:
    raise NotImplementedError("18.3: replace this line")


check("18.3", count_trained)


# %% [markdown]
# The network does not save parameters: its second layer has $d_{hidden}$ weights
# for each column of the wide table, and a column has only $n$ numbers.
#
# But the network's only input is its own table, so after training it always gives
# the same result. Keep that result and drop the rest. This is called
# [folding](../course/book/glossary.md).
#
# #### 18.4 Fold the projection away
#
# Try It Yourself · ★★ · 8 minutes
#
# `table` has the shape (n, d_model). The network is a linear layer with
# `w1` (d_hidden, d_model) and `b1` (d_hidden,), tanh, and a linear layer
# with `w2` (n_layers * 2 * d_model, d_hidden) and `b2`, as in `nn.Linear`.
# All are float32. Return two values: the table that takes the place of all
# five, and how many parameters are left then.
#
# Example: for `table = [[1.0], [-1.0]]`, `w1 = [[0.5]]`, `b1 = [0.5]`,
# `w2 = [[2.0], [1.0]]` and `b2 = [0.0, 1.0]`, as tensors, the result is
# `[[1.5232, 1.7616], [0.0, 1.0]]` and 4.

# %% tags=["exercise:18.4", "nbval-ignore-output"]
def fold(
    table: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor
) -> tuple[Tensor, int]:
    raise NotImplementedError("18.4: replace this line")


check("18.4", fold)

# %% [markdown]
# Is your projected prefix as good after `PrefixTuned.fold`?

# %%
batch = learning.batch(range(8)) | {"labels": None}


def scores_and_size(when):
    print(f"{when:6} folding: {projected.n_trainable:6,} numbers", end="")
    print(f", loss {loss_of(projected, test):.3f}")
    with torch.no_grad():
        return projected.eval()(**batch).logits


unfolded = scores_and_size("before")
projected.fold()
folded = scores_and_size("after")

# %% tags=["hide-input"]
# check: the same scores, and what is left is as large as a direct prefix
assert torch.allclose(unfolded, folded, atol=1e-4)
assert projected.n_trainable == prefix_parameters(8, 2, 96) == 3072


# %% [markdown]
# ### Going further: which methods can still be defended?
#
# One is out if another beats it with every seed. Exercise 18.5 is in here.

# %% [markdown]
# #### 18.5 Which method wins
#
# Try It Yourself · ★★★ · 12 minutes
#
# `rows` is a list of tuples (method, trained, seed, loss): a name, how many
# parameters the method trains, the number of the seed, and the loss on
# patients held out. Every method has every seed, once, in any order, and no
# two methods train the same number. A method *beats* another if its loss is
# lower with each seed. Return two values: a dictionary with (lowest,
# median, highest) loss of each method, and a list of the methods that no
# other one beats, fewest trained parameters first. (`median` is imported.)
#
# Example: for `rows = [("full", 500, 0, 2.3), ("prefix", 80, 0, 2.4),
# ("prefix", 80, 1, 2.5), ("full", 500, 1, 2.6)]` the result is `({"full":
# (2.3, 2.45, 2.6), "prefix": (2.4, 2.45, 2.5)}, ["prefix", "full"])`.

# %% tags=["exercise:18.5", "nbval-ignore-output"]
def compare_methods(
    rows: list[tuple[str, int, int, float]],
) -> tuple[dict[str, tuple[float, float, float]], list[str]]:
    raise NotImplementedError("18.5: replace this line")


check("18.5", compare_methods)

# %% [markdown]
# Which are left of the methods that you have met, while the model stays frozen? Guess,
# then ask your function about the stored results:
#
# ```python
# met = ["nothing", "output bias", "prompt", "prefix", "projected prefix"]
# some = sweep.filter(pl.col("method").is_in(met))
# compare_methods(some.select("method", "trained", "seed", "loss").rows())[1]
# ```
#
# <details><summary>Answer</summary>
# Three are left, because the seeds disagree: the output bias, the prefix and
# the projected prefix.
# </details>

# %% [markdown]
# ## What does the prefix do?
#
# A bias raises or lowers a code by the same amount in every record. A prefix can react
# to the record. Does it? Above, you see what share of its attention each head gives to
# your prefix at one token; below, these shares along the record, in red for the head
# that gives most at the chosen token. The dashed line is the share if every key got the
# same. Move *token* to the right:

# %% tags=["widget", "nbval-ignore-output"]
some = make_cohort(8, seed=SEED + 500, hospital="heart")
prefix_attention_explorer(tuned, known, some, token=2)

# %% tags=["hide-input"]
# check: in each record, the prefix gets less at the end than at the start
for paid in shares_paid(tuned, known, some):
    of_token = paid.shares.mean((0, 1))
    assert of_token[-1] < of_token[0]
    assert (paid.shares[:, :, 1:] > paid.shares[:, :, :-1]).any()


# %% [markdown]
# It does react: the red line jumps far above and below the dashed one. But is that
# where the gain of a prefix comes from?
#
# A prefix can *shift* codes in all records alike, and *react* to each record. A bias
# can only shift. So train a bias to imitate the prefix: to give the same probabilities
# as the model with the prefix. What the imitator gains comes from shifting, only the
# rest can come from reacting. Guess: is that rest small, or most of the gain?

# %%
@torch.no_grad()
def scores_of(model, data):
    """(n, vocabulary) for all places that are scored, and (n,) labels."""
    found, labels = [], []
    for start in range(0, len(data), 50):
        batch = data.batch(range(start, min(start + 50, len(data))))
        scored = batch["labels"] != -100
        logits = model.eval()(**(batch | {"labels": None})).logits
        found.append(logits[scored])
        labels.append(batch["labels"][scored])
    return torch.cat(found), torch.cat(labels)


def nearest_bias(scores, goal):
    bias = torch.zeros(scores.shape[1], requires_grad=True)
    search = torch.optim.Adam([bias], lr=0.1)
    for _ in range(100):
        search.zero_grad()
        functional.cross_entropy(scores + bias, goal).backward()
        search.step()
    return bias.detach()


# %%
tested, answers = scores_of(base, test)
both = {}  # of each seed, what the prefix gains and what the bias gains
for seed in range(SEED, SEED + 3):
    own = make_cohort(200, seed=seed, hospital="heart")[:150]
    data = dataset(own)
    prefixed = PrefixTuned(base, PrefixConfig(8), seed=seed)
    fit(prefixed, optimizer_of(prefixed, lr=3e-2), data, seed=seed)
    goal = scores_of(prefixed, data)[0].softmax(dim=-1)
    bias = nearest_bias(scores_of(base, data)[0], goal)
    imitated = functional.cross_entropy(tested + bias, answers).item()
    both[f"seed {seed}"] = {
        "prefix": there - loss_of(prefixed, test),
        "its imitator": there - imitated,
    }

# %% tags=["nbval-ignore-output"]
draw_bars(
    both,
    "How much of the prefix's gain does its imitator have?",
    "How far the loss falls (nats a token), for patients that neither has"
    " seen; in percent, the imitator's part",
    inner="key",
    notes={
        (seed, "its imitator"): f"{of['its imitator'] / of['prefix']:.0%}"
        for seed, of in both.items()
    },
)

# %% tags=["hide-input"]
# check: a bias has more than half of what the prefix gains
for of in both.values():
    assert of["its imitator"] > 0.6 * of["prefix"]

# %% [markdown]
# It is small: mainly, the prefix shifts codes up and down, as a bias does. To see where
# a model looks is not yet to know what that is good for.

# %% [markdown] tags=["break"]
# ## Time for a break
#
# **So far**
#
# - A prefix is trained keys and values, under the same softmax as all others.
# - Full training gains most; prompt and prefix gain less than half as much.
# - Mainly, the prefix shifts codes, as a bias does.
#
# To go on later, open the lesson again, select the cell below this one, and choose *Run
# > Run All Above Selected Cell*.

# %% [markdown]
# ## What each method costs
#
# May both hospitals share the trained model? Place a bet: which method costs the first
# hospital least? Full training moves all 515,168 parameters; a bias and a prefix leave
# them as they were. Train a bias of your own, and the whole model with a small learning
# rate and with one twenty times as large:

# %%
biased = copy.deepcopy(base)
zeros = biased.final_logits_bias  # (1, tokens), a buffer so far
del biased.final_logits_bias
biased.final_logits_bias = nn.Parameter(zeros.clone())
fit(biased, optimizer_of(biased, lr=3e-2), learning)

# %%
full, fast = (copy.deepcopy(base).requires_grad_() for _ in range(2))
for model, lr in ((full, 1e-4), (fast, 2e-3)):
    fit(model, optimizer_of(model, lr), learning)
models = {"as it was": base, "bias": biased, "prefix": tuned}
models |= {"full": full, "full, large rate": fast}
data = {"the first hospital": at_home, "the second hospital": test}
reached = {
    place: {name: loss_of(model, of) for name, model in models.items()}
    for place, of in data.items()
}
home, second = reached.values()

# %% tags=["nbval-ignore-output"]
draw_bars(
    reached,
    "What does each method cost the first hospital?",
    "The loss in nats a token. The line is the model as it was.",
    worse_than="as it was",
)

# %% tags=["hide-input"]
# check: all cost the first hospital; with a larger rate, full overfits
for name in ("bias", "prefix", "full"):
    assert home[name] > here + 0.02 and second[name] < there - 0.02
    assert home[name] >= home["full"]
assert second["full, large rate"] > there + 0.05
assert loss_of(fast, learning) < loss_of(base, learning) - 0.5
assert second["full"] == min(second.values())


# %% [markdown]
# Surprisingly, full training with the small rate costs the first hospital least,
# although all its parameters have moved. Whatever helps the second hospital costs the
# first. But a prefix or a bias can be switched off there, and then it costs nothing.
# (With the large rate, full training overfits its 150 patients, and is worse than
# before for all others.)
#
# ## What does the bias know?
#
# A bias never looks at the record. What has the one that you trained learned?

# %%
def code_counts(records):
    ids = [i for one in records for i in known.encode(one)]
    n_ids = len(known.codes) + 7  # special tokens stand first
    return torch.bincount(torch.tensor(ids), minlength=n_ids)[7:]


def expected(bias):
    """Each token's mean probability at the second hospital."""
    return (of_base + bias).softmax(dim=-1).mean(dim=0)


of_base, labels = scores_of(base, learning)
no_bias = torch.zeros(of_base.shape[1])
counts = code_counts(patients[:150])
shares = {
    "before": code_counts(make_cohort(1_000, seed=1000)),
    "expected": expected(no_bias)[7:],  # by the model as it is
    "now": counts,
}
shares = {name: of / of.sum() for name, of in shares.items()}
biases = biased.final_logits_bias.detach()[0, 7:]

# %% tags=["hide-input"]
# check: the bias follows what is not expected
assert known.id_to_token(7) == known.codes[0]
assert len(biases) == len(known.codes)
often = counts >= 10
first, model, now = (of[often].clamp(1e-4) for of in shares.values())
gaps = (now / model).log(), (now / first).log()
fits = torch.corrcoef(torch.stack([biases[often], *gaps]))[0]
assert fits[1] > 0.8 > 0.7 > fits[2]
assert loss_of(biased, test) < there - 0.04

# %% tags=["nbval-ignore-output"]
rise = shares["now"] - shares["before"]
order = rise.argsort(descending=True).tolist()
chosen = [*order[:5], *order[-5:]]
codes = [known.codes[i] for i in chosen]
titles = [f"{icd9.dotted(c)} {icd9.title(c)[:36]}" for c in codes]
from_to = zip(*(of[chosen].tolist() for of in shares.values()))
picture = draw_bars(
    {title: biases[i].item() for title, i in zip(titles, chosen)},
    "What bias do the codes get that have gained or lost most?",
    "The five codes whose share of all codes rose most, and the five whose"
    " share fell most",
    form="{:+.2f}",
    notes={
        title: f"share {was:.1%} to {now:.1%}, expected {by_model:.1%}"
        for title, (was, by_model, now) in zip(titles, from_to)
    },
)
picture.axes[0].set_yticklabels(titles)  # each on one line
picture


# %% [markdown]
# All ten biases go the way of the code's share. How far they go is another matter: a
# bias makes up for what the model does not expect. (Some bars near -1 do not fit; they
# come next.) Heart failure, 428.0, is four times as frequent here as at the first
# hospital. But from age, sex and the codes so far, the model expects most of it, and
# the bias is small. It predicts V45.82 (previous angioplasty) less than half as often
# as it occurs, and its bias is large.

# %% tags=["hide-input"]
# check: how often both codes are expected, and how often they occur
def of_codes(tokens):
    """The shares of the two codes among all codes."""
    codes = tokens[7:] / tokens[7:].sum()
    return [codes[i].item() for i in asked]


asked = [known.codes.index(code) for code in ("4280", "V4582")]
old, occur = of_codes(expected(no_bias)), (counts / counts.sum())[asked]
assert SEED or (occur[0] < 1.3 * old[0] and occur[1] > 2 * old[1])

# %% [markdown]
# ## Can you trust what you read in a bias?
#
# Four biases of the picture are near -1. That of esophageal reflux, 530.81, makes
# sense: the old model expects it, and it never occurs. But V27.0, a delivery, it hardly
# expects here at all. Is its bias a finding about the hospital? Look at all codes that
# never occur among the 150 patients:

# %%
never = counts == 0
low, middle, high = biases[never].quantile(torch.tensor([0.05, 0.5, 0.95]))
print(f"{int(never.sum())} of {len(counts)} codes never occur; their bias")
print(f"is {middle:.2f}, and nine in ten lie from {low:.2f} to {high:.2f}")

# %% [markdown]
# No label asks for such a code, so its gradient is the probability that the model still
# gives it. AdamW divides a gradient by its recent size, so each step is about as long
# as the learning rate, however small the gradient. Train one bias by itself, that of a
# code whose probability $p$ falls with the bias:

# %%
for p in (0.01, 0.001, 0.0001):
    one = nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.AdamW([one], lr=3e-2)
    slower = LinearLR(optimizer, 1.0, 0.0, total_iters=80)
    way = 0.0
    for _ in range(80):
        way += optimizer.param_groups[0]["lr"]
        one.grad = p * one.detach().exp()
        optimizer.step()
        slower.step()
    print(f"p {p:6}: bias {one.item():.2f}; the rates sum to {way:.2f}")

# %% tags=["hide-input"]
# check: many codes never occur, and their biases are nearly the same
assert never.sum() > 150 and low < -0.85 and high - low < 0.3
assert -1.1 < one.item() < -0.95 and 1.2 < way < 1.23
assert abs(middle - one.item()) < 0.12


# %% [markdown]
# A code that is a hundred times as rare ends at the same place. Why there, and not at
# -1.21? As the bias falls, so does the gradient, and AdamW still divides by a mean that
# remembers larger ones: the steps are a little shorter than the rate. Such a bias says
# how long and how fast you trained, not how rare the code is.
#
# So your bias is not trained to the end. How good can it get? Its loss is convex in the
# bias: there is one lowest value, and an optimizer that goes on comes as near to it as
# you like.
#
# ### 18.6 How low can a bias go?
#
# Try It Yourself · ★★★ · 15 minutes
#
# `logits`, float32 of shape (n, vocabulary), are a frozen model's scores
# for the next token, in n places. `labels`, int64 of shape (n,), are the
# tokens that followed; each token of the vocabulary is among them. A bias, one
# number for each token, is added to every row. Return the lowest mean loss, in
# nats a token, that any bias can reach, within 0.001. An optimizer may look for
# it.
#
# Example: for `logits = torch.zeros(4, 2)` and `labels =
# torch.tensor([0, 0, 0, 1])` the result is 0.5623.

# %% tags=["exercise:18.6", "nbval-ignore-output"]
def lowest_loss(logits: Tensor, labels: Tensor) -> float:
    raise NotImplementedError("18.6: replace this line")


check("18.6", lowest_loss)

# %% [markdown]
# ## What does full training change?
#
# Full training is still far ahead. How complicated is the change that it makes to a
# weight matrix? A matrix is a sum of directions, each a column times a row, and its
# singular values say how large they are. In a random matrix the four largest of 96 hold
# some 15%. Guess: how much of the change do they hold in your fully trained model, in
# the weights of queries and values?

# %%
torch.manual_seed(SEED)


def in_four(change):
    """The part of a matrix that its four largest directions hold."""
    squares = torch.linalg.svdvals(change.detach()) ** 2
    return (squares[:4].sum() / squares.sum()).item()


held = [
    in_four(full.get_submodule(name).weight - module.weight)
    for name, module in base.named_modules()
    if name.endswith(("q_proj", "v_proj"))
]
print(f"{len(held)} matrices: {min(held):.0%} to {max(held):.0%}", end="")
print(f", {mean(held):.0%} on average")
print(f"a random change: {in_four(torch.randn(96, 96)):.0%}")

# %% tags=["hide-input"]
# check: on average, four directions hold more than half of the change
assert min(held) > 0.3 and mean(held) > 0.5
assert 0.13 < in_four(torch.randn(96, 96)) < 0.17


# %% [markdown]
# On average, more than half. So train only so many. [LoRA](../course/book/glossary.md)
# ([Hu et al. 2021](https://arxiv.org/abs/2106.09685)), low-rank adaptation, freezes a
# linear layer with the weight $W$, and adds a product of two narrow matrices:
#
# $$y = W x + b + \frac{\alpha}{r}\, B A\, x$$
#
# $A$ has $r$ rows and begins with random numbers. $B$ has $r$ columns and begins with
# zeros, so at first the layer does what it did. The number $\alpha$ sets how much the
# update counts. With $r$ = 4, a layer of 96 by 96 gets 768 numbers in place of 9,216.
#
# ### 18.7 A linear layer with LoRA
#
# Try It Yourself · ★★ · 15 minutes
#
# `LoRALinear` freezes the `linear` that it is given. It has two parameters of its
# own: `a`, (r, in), and `b`, (out, r). `forward` takes `x`, (..., in), and returns (...,
# out). `merged()` returns a new `nn.Linear` that does the same by its weight alone; the
# layer itself stays as it is. `linear` may have no bias.
#
# Example: `linear` has the weight `[[1.0, 0.0]]` and the bias `[0.5]`, r is 1 and alpha 2.
# Once `a` is `[[1.0, 1.0]]` and `b` is `[[3.0]]`, `x = [[1.0, 2.0]]` gives `[[19.5]]`, and
# `merged()` has the weight `[[7.0, 6.0]]` and the bias `[0.5]`.

# %% tags=["exercise:18.7", "nbval-ignore-output"]
class LoRALinear(nn.Module):
    def __init__(self, linear: nn.Linear, r: int, alpha: float) -> None:
        super().__init__()
        raise NotImplementedError("18.7: replace this line")

    def forward(self, x: Tensor) -> Tensor:
        raise NotImplementedError("18.7: replace this line")

    def merged(self) -> nn.Linear:
        raise NotImplementedError("18.7: replace this line")


check("18.7", LoRALinear)

# %% [markdown]
# ### 18.8 Put LoRA into a model
#
# Try It Yourself · ★★ · 9 minutes
#
# `model` is a BART. Freeze it, and put a `LoRALinear` in the place of `q_proj` and
# `v_proj` of every attention: in the encoder, and twice in each layer of the decoder.
# Return an AdamW with the learning rate `lr` for what is to be trained. The model itself is
# changed. `mine("18.7")` is your layer, or the worked one if you have not solved it.
#
# Example: in a model of one encoder and one decoder layer, six layers are replaced, and
# the optimizer gets twelve parameters.

# %% tags=["exercise:18.8", "nbval-ignore-output"]
LoRALinear = mine("18.7")


def add_lora(
    model: nn.Module, r: int, alpha: float, lr: float
) -> torch.optim.Optimizer:
    raise NotImplementedError("18.8: replace this line")


check("18.8", add_lora)

# %%
add_lora = mine("18.8")
adapted = copy.deepcopy(base)
torch.manual_seed(SEED)
fit(adapted, add_lora(adapted, r=4, alpha=8, lr=2e-3), learning)
n_lora = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
print(f"{n_lora:,} numbers, loss {loss_of(adapted, test):.3f}")

# %% [markdown]
# Is it LoRA? The package [peft](https://huggingface.co/docs/peft) puts layers of its
# own into a copy of the model. With your numbers in them, it gives your scores:

# %%
settings = LoraConfig(
    r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]
)
by_peft = inject_adapter_in_model(settings, copy.deepcopy(base))
batch = learning.batch(range(8)) | {"labels": None}
with torch.no_grad():
    for name, own in adapted.named_modules():
        if name.endswith(("q_proj", "v_proj")):
            theirs = by_peft.get_submodule(name)
            theirs.lora_A.default.weight.copy_(own.a)
            theirs.lora_B.default.weight.copy_(own.b)
    ours = adapted.eval()(**batch).logits
    gap = (by_peft.eval()(**batch).logits - ours).abs().max()
print("the largest difference is below 1e-5:", bool(gap < 1e-5))

# %% [markdown]
# All methods but full training can be switched off. LoRA can also be merged; then the
# model is as large and as fast as before:

# %%
merged = copy.deepcopy(adapted)
for module in list(merged.modules()):
    for name in ("q_proj", "v_proj"):
        if hasattr(module, name):
            setattr(module, name, getattr(module, name).merged())
with torch.no_grad():
    gap_merged = (merged.eval()(**batch).logits - ours).abs().max()
n_merged = sum(p.numel() for p in merged.parameters())
print(f"{n_merged:,} parameters, same scores:", bool(gap_merged < 1e-4))

# %% tags=["hide-input"]
# check: as peft has it, merged without loss, and better than a bias
assert gap < 1e-5 and gap_merged < 1e-4
assert n_merged == n_base and n_lora == 9_216 == trained["LoRA"]
assert loss_of(adapted, test) < loss_of(biased, test) - 0.003

# %% [markdown]
# ## Which method wins now?
#
# A fair rival has as many numbers. Li and Liang give an encoder-decoder a prefix in
# *all* its attentions: the encoder's, the decoder's own, and those with which the
# decoder reads the encoder. With 8 tokens that makes 9,216 numbers as well:

# %%
config = PrefixConfig(8, decoder=True, cross=True, encoder=True)
everywhere = PrefixTuned(base, config, seed=SEED)
fit(everywhere, optimizer_of(everywhere, lr=3e-2), learning)
rivals = {"bias": biased, "prefix": tuned, "full": full}
rivals |= {"prefix everywhere": everywhere, "LoRA": adapted}
for name, model in rivals.items():
    if name not in home:  # the other three have been judged above
        home[name] = loss_of(model, at_home)
        second[name] = loss_of(model, test)
    print(f"{name:18} first hospital {home[name]:.3f}", end=", ")
    print(f"second {second[name]:.3f}")

# %% [markdown]
# That is one run each. Which of these comparisons can a seed turn around? Guess:

# %%
pairs = [
    ("full", "LoRA"),
    ("LoRA", "output bias"),
    ("LoRA", "prefix everywhere"),
    ("prefix everywhere", "prefix"),
    ("prefix everywhere", "output bias"),
]
draw_gaps(pairs, "What do 9,216 numbers gain, in two places?")

# %%
for name in ("output bias", "prefix", "prefix everywhere", "LoRA"):
    share = gain[name] / gain["full"]
    print(f"{name:18} {trained[name]:5,}: {share:.0%} of full training")

# %% tags=["hide-input"]
# check: what five seeds say, and one run each
for one, other in [*pairs[:4], ("prefix everywhere", "prompt")]:
    assert max(differences(one, other)) < 0
least, most = sorted(differences(*pairs[4]))[:: len(losses["full"]) - 1]
assert least < 0 < most
assert 0.6 * gain["full"] < gain["LoRA"] < 0.8 * gain["full"]
own = {name: home[name] for name in rivals}
assert own["prefix everywhere"] == max(own.values())
assert own["LoRA"] < min(own["bias"], own["prefix"]) + 0.01
assert trained["prefix everywhere"] == n_lora == everywhere.n_trainable

# %% [markdown]
# Only the last one. With every seed, LoRA beats the bias and both prefixes, and full
# training beats LoRA. A prefix in all attentions is better than one in the decoder
# alone, but takes 9,216 numbers to do what 425 biases do, and in your run it costs the
# first hospital most. What has LoRA that a prefix lacks? Let a bias imitate all three:

# %%
scores, _ = scores_of(base, learning)
for name in ("prefix", "prefix everywhere", "LoRA"):
    goal = scores_of(rivals[name], learning)[0].softmax(dim=-1)
    bias = nearest_bias(scores, goal)
    shift = there - functional.cross_entropy(tested + bias, answers).item()
    rest = there - second[name] - shift
    print(f"{name:18} by shifting {shift:.3f}, the rest {rest:+.3f}")

# %% tags=["hide-input"]
# check: LoRA, the last one, gains more by reacting than a prefix does
assert rest > 0.01 and shift > 0.05

# %% [markdown]
# Even in all attentions, a prefix gains mostly by shifting codes. LoRA shifts them
# about as far, and more is left: it reacts to the record, since it changes how the
# model reads.
#
# ## How much must be trained?
#
# If only the second hospital counts, train everything, with a learning rate chosen on
# patients kept aside. If one model has to serve both, take what can be switched off:
# LoRA gains most of that, and 425 biases more than half as much as full training. Train
# the bias first: a cleverer method has to beat it.
#
# ## Recap
#
# - **Attention with a prefix** is attention over longer keys and values. The
#   queries stay, the mask gains columns of True, and one softmax goes over
#   all keys.
# - **At the second hospital** full training wins with every seed. Prompt and
#   prefix gain less than half as much.
# - **A bias for each token** gains more than half as much. At its lowest
#   loss the model expects each token as often as it occurs.
# - **LoRA** freezes $W$ and trains $B A$, of rank 4 here. It beats bias and prefix with every
#   seed, and merges into $W$ at no cost.
#
# ## Test yourself
#
# 1. A head gives the prefix a third of its attention. Without the prefix its
#    output would be $o$; the prefix alone would give $p$. What is it now?
#
# <details><summary>Answer</summary>
# $\tfrac{2}{3} o + \tfrac{1}{3} p$. One softmax over all keys keeps the
# proportions among the tokens.
# </details>
#
# 2. Two codes never occur among the 150 patients, and after training both biases are
#    near -1. Are both codes equally rare at the second hospital?
#
# <details><summary>Answer</summary>
# Nobody can tell. Each step pushed both down by about the same amount, so the biases
# say how long and how fast you trained.
# </details>
#
# 3. Somebody starts LoRA with both matrices at zero, so as not to disturb the model at
#    all. What will training do?
#
# <details><summary>Answer</summary>
# Nothing. The gradient of each matrix is a product with the other one, so both
# gradients are zero and stay so.
# </details>
#
# ## What comes next
#
# Try an output bias, then LoRA, on your own data. What is trained beside a frozen model
# can be saved alone, as an [adapter](../course/book/glossary.md); `save_as_peft` writes
# a prefix as one that peft reads.
#
# A lower loss does not say what a model writes. In [lesson
# 19](19_generation_and_evaluation.ipynb) models write whole cohorts, and you judge
# them.
#
# If you know the document that this lesson follows,
# [What holds](../course/book/what_holds.md#18-prefix-tuning)
# says which of its claims hold.
