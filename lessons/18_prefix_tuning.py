# %% [markdown]
# # 18 · Prefix tuning
#
# 95 minutes · Prerequisites: 12, 15
#
# You will be able to:
#
# - Compute attention with a prefix as attention over longer keys and values.
# - Reshape a table of numbers into the keys and values of each layer.
# - Count the parameters of a prompt, a prefix and a projected prefix.
# - Fold the projection away after training, and show that nothing changes.
# - Compare prompt tuning, prefix tuning and full training on a second
#   hospital, with the spread over seeds.
# - Compute the lowest loss that a bias for each token can reach.

# %% [markdown]
# ## How much must be trained again?
#
# The small model of the course has learned from 4,000 patients of one
# hospital. A second hospital wants to use it, and has 200 patients: most are
# older and have heart disease, and there are no births and no children. Is
# the model any good there as it is? The loss is that of writing a record
# from age and sex alone.

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients to test on
SEED = 0

# %% tags=["hide-input"]
# set-up: libraries
import copy
import tempfile
import warnings
from statistics import mean, median

import polars as pl
import torch
from peft import PeftModel, PrefixTuningConfig, get_peft_model
from torch import Tensor, nn
from torch.nn import functional
from transformers import BartConfig, BartForConditionalGeneration

from ehr_course import icd9
from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.plan import BatchPlan
from ehr_course.course_files import checkpoint_folder
from ehr_course.evaluation.attention import prefix_attention as shares_paid
from ehr_course.exercises import check, hint, progress
from ehr_course.models.prefix_tuning import (
    Prefix,
    PrefixConfig,
    PrefixTuned,
    prefix_parameters,
)
from ehr_course.models.saved import load_checkpoint
from ehr_course.plots.drawings.prefix_tuning import (
    draw_longer_keys,
    draw_network,
    draw_places,
    draw_table_split,
)
from ehr_course.plots.drawings.second_hospital import (
    draw_biases,
    draw_costs,
    draw_differences,
    draw_gains,
)
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.trainer import train
from ehr_course.widgets.prefix_attention import prefix_attention_explorer

# %% tags=["hide-input"]
# set-up: the model, the stored results, and the loss on a data set
loaded = load_checkpoint("tiny_prompt_bart")
base = loaded.model
known = CodeTokenizer(loaded.tokenizer.codes, unseen="skip")
sizes = {"tiny": 400, "small": 1_000, "full": 10_000}
rows = pl.read_csv(checkpoint_folder("second_hospital") / "sweep.csv")
losses = {
    method: of_method["loss"].to_list()  # one for each seed, in order
    for (method,), of_method in rows.group_by(
        "method", maintain_order=True
    )
}
trained = dict(rows.select("method", "trained").iter_rows())


def dataset(records):
    empty = Corruption(p_empty=1.0)  # the encoder sees no code
    return RecordDataset(records, known, corruption=empty, seed=SEED)


@torch.no_grad()
def loss_of(model, data):
    """Nats a token."""
    keys = BatchPlan(data.lengths, 64, shuffle=False, group_by_length=True)
    outputs = [model.eval()(**data[key]) for key in keys]
    total = sum(out.loss_sum for out in outputs)
    return (total / sum(out.loss_count for out in outputs)).item()


# %%
patients = make_cohort(200, seed=SEED, hospital="heart")
learning = dataset(patients[:150])  # 50 are kept aside
test = dataset(make_cohort(sizes[PROFILE], seed=1000, hospital="heart"))
at_home = dataset(make_cohort(sizes[PROFILE], seed=1000))
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
# It is worse there. These records may be harder to predict for any model,
# but their mix of codes is new to it, so there may be something to learn.
#
# You could train all of it again, with more than a hundred times as many
# parameters as the hospital has tokens. Or leave the model as it is, and
# train a few numbers that are added to it:

# %%
draw_places(base, trained, n_prefix=8)

# %% [markdown]
# - [Prompt tuning](../course/book/glossary.md)
#   ([Lester et al. 2021](https://arxiv.org/abs/2104.08691)) trains vectors
#   before the sequence. They are like the prompts of lesson 12, but the
#   same for every patient.
# - [Prefix tuning](../course/book/glossary.md)
#   ([Li and Liang 2021](https://arxiv.org/abs/2101.00190)) trains keys and
#   values in the attention of every layer.
# - An **output bias** is one number for each token, added to its score. It
#   sees nothing of the record. All it can say is that a token is more
#   frequent here, or less.
#
# Train a prefix now. The model's own weights stay frozen:

# %%
tuned = PrefixTuned(base, PrefixConfig(8), seed=SEED)
train(tuned, learning, steps=80, lr=3e-2, seed=SEED, progress=False)
print(f"{tuned.n_trainable:,} numbers trained", end=", ")
print(f"loss {there:.3f} before, {loss_of(tuned, test):.3f} after")

# %% tags=["hide-input"]
# check: the prefix helps, and the base is what it was
assert loss_of(tuned, test) < there - 0.02
assert loss_of(base, test) == there
assert not any(p.requires_grad for p in base.parameters())

# %% [markdown]
# It helps. How much is that? Before you look, guess the order of four
# methods: prompt, prefix, output bias and full training. Each was trained
# with five seeds. A seed has 200 patients of its own, the same ones for
# every method: 150 to learn from, and 50 to choose the learning rate and
# the number of steps. All are tested on the same 1,000 other patients, so
# the losses differ a little from those above.

# %%
draw_gains(losses, trained)

# %% [markdown]
# Full training is best. Far behind it, one bias for each token does about
# as well as a prefix with seven times as many numbers. (A network makes the
# *projected* prefix; more below.) First see how a prefix works. Then find
# out what the bias knows, and what each method costs.
#
# ## Tokens that nobody wrote
#
# Attention turns every token into a query, a key and a value. A
# [prefix](../course/book/glossary.md) is keys and values without a token:
# $n$ of each, for each layer and head, which every query may look at.
#
# $$\text{softmax}\left(\frac{Q\,[P_K; K]^\top}{\sqrt{d_{head}}}\right)
# [P_V; V]$$
#
# The semicolon puts one below the other. Here are four tokens and a prefix
# of two in one head, with made-up numbers:

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
# There are as many queries as before, and so as many results. The mask
# keeps its triangle over the tokens and gains a column for each prefix
# token, open to all. One softmax covers both parts: what the prefix gets is
# taken from the tokens. How much that is depends on the query.
#
# ### 18.1 Attention with a prefix
#
# Try It Yourself · ★★ · 9 minutes
#
# `q` has the shape (batch, heads, target, head_dim), `k` and `v` (batch,
# heads, source, head_dim), float32. `prefix_k` and `prefix_v` have the
# shape (heads, n, head_dim): one prefix for all rows of the batch. `mask`
# has the shape (target, source), booleans: True where a query may look at
# a key; every row has at least one True. Every query may look at the prefix.
# Return the attention's output, (batch, heads, target, head_dim). Scores
# may be large. Do it without `scaled_dot_product_attention`.
#
# Example: for `q = [[[[0.0]]]]`, `k = [[[[5.0]]]]`, `v = [[[[4.0]]]]`,
# `prefix_k = [[[1.0]]]`, `prefix_v = [[[10.0]]]` and `mask = [[True]]`, as
# tensors, both scores are 0 and the result is `[[[[7.0]]]]`.

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
# ### How much does the prefix get?
#
# Here is the prefix that you trained, while the model reads a record token
# by token. At the top is the share of each head's attention that goes to the
# prefix. If all keys got the same, it would be the share in the second line:
# 8 of 13 keys at first, since age, sex and three tokens compete. Move
# *token* to the right: more keys compete, and the shares tend to fall, but
# some jump up again.

# %% tags=["widget", "nbval-ignore-output"]
shown = make_cohort(8, seed=SEED + 500, hospital="heart")
prefix_attention_explorer(tuned, known, shown, token=2)

# %% tags=["hide-input"]
# check: in each record, the prefix gets less at the end than at the start
for paid in shares_paid(tuned, known, shown):
    of_token = paid.shares.mean((0, 1))
    assert of_token[-1] < of_token[0]
    assert (paid.shares[:, :, 1:] > paid.shares[:, :, :-1]).any()


# %% [markdown]
# ### What a prefix changes
#
# Does a prefix change the whole model? Compare what
# goes into the first layer of the decoder and what its attention gives
# back, with a prefix and without.

# %% tags=["hide-input"]
# what the first self-attention of the decoder reads, and what it returns
def first_layer(model):
    layer = base.model.decoder.layers[0].self_attn
    seen = []
    # A hook is called after the layer, with what it read and returned.
    hook = layer.register_forward_hook(
        lambda module, read, returned: seen.append((*read, returned[0]))
    )
    with torch.no_grad():
        model.eval()(**learning.batch(range(4)))
    hook.remove()
    return seen[0]


into, out = first_layer(base)
into_too, out_too = first_layer(tuned)
print("goes in unchanged:", torch.equal(into, into_too))
print("comes out unchanged:", torch.equal(out, out_too))
assert torch.equal(into, into_too)
assert not torch.allclose(out, out_too, atol=0.01)

# %% [markdown]
# The prefix acts inside attention; what comes out there, later layers read.
# Does it reach the encoder? A decoder that writes token by token keeps the
# keys and values of earlier tokens in a *cache*, so as not to compute them
# again. Fill the cache before the first token comes, and every query sees
# what is in it. An encoder writes nothing and keeps no cache.

# %% tags=["claim:40"]
batch = learning.batch(range(8))
parts = "input_ids", "attention_mask", "x_num", "x_cat"
inputs = {name: batch[name] for name in parts}
with torch.no_grad():
    encoded, real = base.encode(**inputs)
    for place in ("decoder", "encoder"):
        config = PrefixConfig(
            8, decoder=place == "decoder", encoder=place == "encoder"
        )
        model = PrefixTuned(base, config, seed=SEED).eval()
        again, _ = model.encode(**inputs)
        change = (again[0] - encoded[0])[real.bool()].abs().max()
        print(f"{place} prefix: encoder unchanged {change.item() == 0}")
        assert (change == 0) if place == "decoder" else change > 0.1

# %% [markdown]
# A prefix in the decoder leaves the encoder's output as it was, to the last
# bit. The encoder needs a prefix of its own (`encoder=True`), and so does
# the cross-attention (`cross=True`). The prefix that you trained has
# neither.
#
# ## A table with a row for each token
#
# All keys and values of a prefix are stored in one table, a row for each
# token of the prefix: the key of layer 0, the value of layer 0, the key of
# layer 1, and so on. In a key the numbers of head 0 come first, then those
# of head 1.
#
# You might give the table its final shape by `view` alone: the
# shape is right, and nothing raises. Label each entry with its token, and
# look where it ends up:

# %%
n, layers, heads, head_dim = 4, 2, 2, 2
width = layers * 2 * heads * head_dim  # numbers in a row
table = torch.arange(n)[:, None].expand(n, width).reshape(-1)
split = table.view(n, layers, 2, heads, head_dim)
right = split.permute(1, 2, 3, 0, 4)  # (layers, 2, heads, n, head_dim)
wrong = table.view(layers, 2, heads, n, head_dim)

# %%
ways = {"split, then permute": right, "view alone": wrong}
draw_table_split(ways, width)


# %% [markdown]
# With `view` alone, layer 0 gets the first rows of the table and the last
# layer the last rows, cut into pieces. A table that is trained in that order
# from the start still learns: any fixed order will do. It goes wrong when
# the table comes from another program.
#
# ### 18.2 Keys and values for each layer
#
# Try It Yourself · ★★ · 9 minutes
#
# `table` has the shape (batch, n, n_layers * 2 * d_model), float32; each
# row is laid out as above. `n_layers` and `n_heads` are whole numbers.
# Return the keys and values as one tensor, (n_layers, 2, batch, n_heads, n,
# head_dim), keys first.
#
# Example: for `table = [[[1, 2, 3, 4], [5, 6, 7, 8]]]`, as a tensor, one
# layer and one head, the keys are `[[1, 2], [5, 6]]` and the values
# `[[3, 4], [7, 8]]`; the result has the shape (1, 2, 1, 1, 2, 2).

# %% tags=["exercise:18.2", "nbval-ignore-output"]
def per_layer(table: Tensor, n_layers: int, n_heads: int) -> Tensor:
    raise NotImplementedError("18.2: replace this line")


check("18.2", per_layer)

# %% [markdown]
# ## A network that makes the table
#
# Li and Liang found that training the table directly was unstable. They
# trained a narrow one, $n$ by $d$, and let a network make the wide one from
# it: two linear layers with tanh between them, $d \to d_{hidden} \to 2Ld$
# for $L$ layers. That is the *projected* prefix. For our model, untrained:

# %%
projected = PrefixTuned(base, PrefixConfig(8, d_hidden=64), seed=SEED)
draw_network(projected.prefixes["decoder"])


# %% [markdown]
# After training, the network always says the same, because its input is its
# own table. So keep what it says and drop the rest. This is called
# [folding](../course/book/glossary.md).
#
# ### 18.3 Count what is trained
#
# Try It Yourself · ★ · 7 minutes
#
# `n_tokens`, `n_layers`, `d_model` and `d_hidden` are whole numbers.
# Return three whole numbers: how many parameters are trained for a prompt
# (a vector for each token, before the embeddings of the sequence), for a
# direct prefix (keys and values in every layer), and for a prefix through
# the network above. Linear layers have biases.
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
# A narrow hidden layer sounds like a saving. Take
# 20 tokens for a model with 32 layers, 4,096 wide, and a hidden layer of
# 512. How narrow would it have to be?

# %% tags=["claim:39"]
direct = prefix_parameters(20, 32, 4096)
through = prefix_parameters(20, 32, 4096, d_hidden=512)
print(f"direct {direct:,}, projected {through:,}", end="")
print(f": {through / direct:.0f} times as many")
widest = max(
    hidden
    for hidden in range(1, 513)
    if prefix_parameters(20, 32, 4096, d_hidden=hidden) < direct
)
print("fewer only up to a hidden width of", widest)
with torch.device("meta"):  # shapes without memory
    made = Prefix(20, 32, 32, 4096, d_hidden=512)
assert sum(p.numel() for p in made.parameters()) == through
assert (direct, through) == (5_242_880, 136_659_456)
assert widest < 20


# %% [markdown]
# The second linear layer has a weight for each hidden unit and each number
# of a row, and 512 hidden units are more than 20 rows. So the network saves
# parameters only where it is narrower than the prefix is long.
#
# ### 18.4 Fold the projection away
#
# Try It Yourself · ★★ · 8 minutes
#
# `table` has the shape (n, d_model). The network is a linear layer with
# `w1` (d_hidden, d_model) and `b1` (d_hidden,), tanh, and a linear layer
# with `w2` (n_layers * 2 * d_model, d_hidden) and `b2`; weights have the
# shape that `nn.Linear` gives them. All are float32. Return two values:
# the table that takes the place of all five, and how many parameters are
# left then.
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
# `PrefixTuned` has a method `fold`. Does the model write the same before
# and after?

# %%
batch = learning.batch(range(8)) | {"labels": None}
with torch.no_grad():
    before = projected.eval()(**batch).logits
    n_before = projected.n_trainable
    after = projected.fold()(**batch).logits
print(f"parameters: {n_before:,} before, {projected.n_trainable:,} after")
print("scores within 1e-4:", torch.allclose(before, after, atol=1e-4))

# %% tags=["hide-input"]
# check: what is left is as large as a direct prefix
assert torch.allclose(before, after, atol=1e-4)
assert projected.n_trainable == prefix_parameters(8, 2, 96) == 3072

# %% [markdown]
# ## Which method wins?
#
# Back to the second hospital. Other patients might have been among the 200,
# and training starts from random numbers. So compare two methods seed by
# seed, on the same patients:

# %%
pairs = [
    ("full", "output bias"),
    ("full", "prefix"),
    ("output bias", "prompt"),
    ("output bias", "prefix"),
    ("prefix", "prompt"),
    ("projected prefix", "prefix"),
]
draw_differences(losses, pairs)


# %% tags=["hide-input"]
# how much each method gains, as a share of what full training gains
def differences(one, other):
    """One loss minus the other, seed by seed: below 0, one is better."""
    of_seeds = zip(losses[one], losses[other], strict=True)
    return [a - b for a, b in of_seeds]


gain = {name: -mean(differences(name, "nothing")) for name in losses}
for method in ("output bias", "prompt", "prefix", "projected prefix"):
    share = gain[method] / gain["full"]
    print(f"{method:16} {share:.0%} of what full training gains")
new = median(losses["from scratch"])
print(f"a new model, trained on the 150 patients alone: loss {new:.2f}")
better = (
    ("prompt", "nothing"),
    ("projected prefix", "prompt"),
    ("output bias", "prompt"),
    ("full", "output bias"),
    ("full", "prefix"),
    ("full", "projected prefix"),
    ("nothing", "from scratch"),
)
assert all(max(differences(*pair)) < 0 for pair in better)
assert gain["output bias"] > 0.5 * gain["full"]
assert max(gain["prompt"], gain["prefix"]) < 0.5 * gain["full"]
for one in ("prompt", "projected prefix", "output bias"):
    against = differences(one, "prefix")
    assert min(against) < 0 < max(against)
assert sum(d < 0 for d in differences("output bias", "prefix")) == 4
assert sum(d < 0 for d in differences("prefix", "prompt")) == 4
assert sum(d < 0 for d in differences("projected prefix", "prefix")) == 3


# %% [markdown]
# Full training wins with every seed. The seeds disagree on output bias
# against prefix, and on whether the projection helps. A new model, trained
# on the 150 patients alone, is far worse than the old one untouched.
#
# Li and Liang found that with few examples a prefix did *better* than full
# training. Here it does worse. This is one small model, one change of
# hospital, and one place and length of prefix; the prompt stands in both
# halves. Elsewhere the order may differ, so try the simple method beside
# the clever one, and look at all seeds.
#
# ### 18.5 Which method wins
#
# Try It Yourself · ★★★ · 12 minutes
#
# `rows` is a list of tuples (method, trained, seed, loss): a name, how
# many parameters were trained, a whole number, and the loss on patients
# held out. Every method has every seed, once; the rows stand in any order.
# A method *beats* another if its loss is lower with each seed. Return two
# values: a dictionary with (lowest, median, highest) loss of each method,
# and a list of the methods that no other one beats, in the order of
# trained parameters, fewest first. No two methods train equally many.
# (`median` is imported.)
#
# Example: for `rows = [("full", 500, 0, 2.3), ("prefix", 80, 0, 2.4),
# ("prefix", 80, 1, 2.5), ("full", 500, 1, 2.6)]` the result is `({"full":
# (2.3, 2.45, 2.6), "prefix": (2.4, 2.45, 2.5)}, ["prefix", "full"])`:
# with each seed another one is better.

# %% tags=["exercise:18.5", "nbval-ignore-output"]
def compare_methods(
    rows: list[tuple[str, int, int, float]],
) -> tuple[dict[str, tuple[float, float, float]], list[str]]:
    raise NotImplementedError("18.5: replace this line")


check("18.5", compare_methods)

# %% [markdown]
# ## What the bias knows
#
# A bias alone gains more than half of what full training gains, and never
# looks at the record. Train one and see what it learned.

# %%
biased = copy.deepcopy(base)  # its weights are frozen
zeros = biased.final_logits_bias  # (1, tokens)
del biased.final_logits_bias  # BART does not train it
biased.final_logits_bias = nn.Parameter(zeros.clone())
train(biased, learning, steps=80, lr=3e-2, seed=SEED, progress=False)
print(f"loss {there:.3f} before, {loss_of(biased, test):.3f} after")


# %% tags=["hide-input"]
# how frequent each code is in both hospitals
def code_counts(records):
    ids = [i for one in records for i in known.encode(one)]
    n_ids = len(known.codes) + 7  # special tokens stand first
    return torch.bincount(torch.tensor(ids), minlength=n_ids)[7:]


counts = code_counts(patients[:150])
shares = {
    "the first hospital": code_counts(make_cohort(1_000, seed=1000)),
    "the second": counts,
}
shares = {name: of / of.sum() for name, of in shares.items()}
titles = [f"{icd9.dotted(c)} {icd9.short_title(c)}" for c in known.codes]
biases = biased.final_logits_bias.detach()[0, 7:]
assert known.id_to_token(7) == known.codes[0]
assert len(biases) == len(known.codes)
assert loss_of(biased, test) < there - 0.04

# %%
draw_biases(titles, biases, shares)

# %% [markdown]
# The biases go the right way, but do not measure how far. Look at all codes
# that never occur in the 150 patients, whatever their share was at home:

# %%
never = counts == 0
low, middle, high = biases[never].quantile(torch.tensor([0.05, 0.5, 0.95]))
print(f"{int(never.sum())} of {len(counts)} codes never occur; their bias")
print(f"is {middle:.2f}, and nine in ten lie from {low:.2f} to {high:.2f}")

# %% tags=["hide-input"]
# check: many codes never occur, and their biases are nearly the same
assert never.sum() > 150 and low < -0.9 and high - low < 0.25

# %% [markdown]
# Each of these would fall for ever, and got as far as the 80 steps took it.
# The rises are small for another reason. Take heart failure, 428.0:

# %% tags=["hide-input"]
# how often the old model, before any training, expects 428.0
batch = learning.batch(range(len(learning)))
with torch.no_grad():
    scores = base.eval()(**batch | {"labels": None}).logits
expects = scores.softmax(-1)[batch["labels"] != -100][:, 7:].sum(0)
expects /= expects.sum()
place = known.codes.index("4280")
at_first, at_second = (of[place] for of in shares.values())
guessed = expects[place]
print(f"share of all codes at the first hospital {at_first:.1%}, ", end="")
print(f"at the second {at_second:.1%},")
print(f"and the old model expects it there with {guessed:.1%}")
assert guessed - at_first > 0.5 * (at_second - at_first)


# %% [markdown]
# The old model reads age, sex and the codes so far, and expects most of the
# rise without any bias.
#
# ### 18.6 How low can a bias go?
#
# Try It Yourself · ★★★ · 15 minutes
#
# A frozen model has given `logits`, float32 of shape (n, vocabulary): in
# each row its scores for the next token. `labels`, int64 of shape (n,), are
# the tokens that followed; each token of the vocabulary is among them at
# least once. You may choose a bias, one number for each token, that is
# added to every row of `logits`. Return the lowest mean loss, in nats a
# token, that any bias can reach, as a number. An error of 0.001 is allowed.
# Any way of looking for it counts, an optimizer too. Then see what is true
# of the model's mean probabilities when the bias is at its best.
#
# Example: for `logits = torch.zeros(4, 2)` and `labels =
# torch.tensor([0, 0, 0, 1])` the result is 0.5623. The best bias gives the
# tokens the probabilities 3/4 and 1/4.

# %% tags=["exercise:18.6", "nbval-ignore-output"]
def lowest_loss(logits: Tensor, labels: Tensor) -> float:
    raise NotImplementedError("18.6: replace this line")


check("18.6", lowest_loss)

# %% [markdown]
# At the bottom, the model expects each token as often as it occurs. For a
# code that never occurs, the best bias is therefore minus infinity. Do other
# patients have these codes?

# %%
of_test = code_counts(make_cohort(1_000, seed=1000, hospital="heart"))
print(f"1,000 others have them {int(of_test[never].sum())} times")
assert of_test[never].sum() > 100

# %% [markdown]
# The first patient who has one would cost an infinite loss. This is one
# reason to choose the number of steps on patients kept aside.
#
# ## What else it costs
#
# What has training for the second hospital done to the model at the first?
# Ask it of every method, and of full training with a learning rate that is
# twenty times larger.

# %% tags=["nbval-ignore-output"]
full, fast = (copy.deepcopy(base).requires_grad_() for _ in range(2))
for model, lr in ((full, 1e-4), (fast, 2e-3)):
    train(model, learning, steps=80, lr=lr, seed=SEED, progress=False)
data = {"the first hospital": at_home, "the second hospital": test}
data |= {"its own 150 patients": learning}
models = {"as it was": base, "bias": biased, "prefix": tuned}
models |= {"full": full, "full, large rate": fast}
reached = {
    name: {place: loss_of(model, one) for place, one in data.items()}
    for name, model in models.items()
}

# %% tags=["nbval-ignore-output"]
draw_costs(reached)

# %% tags=["hide-input"]
# check: all cost the first hospital; with a larger rate, full overfits
home, second, own = data
for name in ("bias", "prefix", "full"):
    assert reached[name][home] > here + 0.02
    assert reached[name][second] < there - 0.02
    assert reached[name][home] >= reached["full"][home]
too_fast = reached["full, large rate"]
assert too_fast[own] < reached["as it was"][own] - 0.5
assert too_fast[second] > there + 0.05
assert reached["as it was"][home] == here

# %% [markdown]
# Switched on, a prefix or a bias costs the first hospital more than full
# training does. Switched off, it costs nothing. After full training you get
# the old model back only from a second copy: a whole model is stored for
# each hospital, and not a few thousand numbers. With the larger rate, full
# training overfits its own patients, and for all others the model is worse
# than before.
#
# ## An adapter for other programs
#
# A hospital that shares its prefix need not share the model. The package
# [peft](https://huggingface.co/docs/peft) stores what was trained without
# its model, as an [adapter](../course/book/glossary.md). Here a prefix for a
# small plain BART, with 2 decoder layers, is written as an adapter, and peft
# reads it.

# %% tags=["hide-input"]
# a plain BART with a prefix, written as an adapter and read by peft
fields = {"vocab_size": 60, "d_model": 32, "init_std": 0.2}
for side in ("encoder", "decoder"):
    fields |= {f"{side}_layers": 2, f"{side}_ffn_dim": 64}
    fields |= {f"{side}_attention_heads": 4}
torch.manual_seed(SEED)
bart = BartForConditionalGeneration(BartConfig(**fields)).eval()
# peft counts a prefix as tokens: the first real one stands at position 5.
config = PrefixConfig(n_tokens=5, shift_positions=True)
ours = PrefixTuned(bart, config, seed=SEED)
warnings.filterwarnings("ignore", module="transformers")
with tempfile.TemporaryDirectory() as folder:
    ours.save_as_peft(f"{folder}/adapter")
    saved = PrefixTuningConfig.from_pretrained(f"{folder}/adapter")
    told = saved.num_layers
    theirs = PeftModel.from_pretrained(
        copy.deepcopy(bart), f"{folder}/adapter"
    ).eval()
ids = torch.arange(5, 59).view(3, 18)
with torch.no_grad():
    logits = ours(input_ids=ids, decoder_input_ids=ids).logits
    by_peft = theirs(input_ids=ids, decoder_input_ids=ids).logits
    alone = bart(input_ids=ids, decoder_input_ids=ids).logits
print("largest difference of the scores")
print(f"  read by peft {(logits - by_peft).abs().max():.0e}")
print(f"  without the prefix {(logits - alone).abs().max():.1f}")
assert (logits - by_peft).abs().max() < 1e-4
n_layers = len(bart.model.decoder.layers)
print(f"decoder layers: {n_layers}; the file says {told}")
assert (logits - alone).abs().max() > 0.1
assert told == 2 * n_layers

# %% [markdown]
# It does the same, but only because the file claims twice as many layers as
# the model has. To see why it must, make a prefix with peft's own settings,
# and ask which of its parameters get a gradient:

# %%
config = PrefixTuningConfig(
    task_type="SEQ_2_SEQ_LM", num_virtual_tokens=5
)
adapter = get_peft_model(copy.deepcopy(bart), config)
adapter(input_ids=ids, labels=ids).loss.backward()
table = adapter.prompt_encoder["default"].embedding.weight
vectors = table.grad.unflatten(1, (-1, 32))  # (tokens, 2 * layers, 32)
learns = (vectors != 0).any(-1).any(0).tolist()
names = [f"layer {i} {one}" for i in (0, 1) for one in ("key", "value")]
print(table.numel(), "parameters:", dict(zip(names, learns, strict=True)))

# %% tags=["hide-input"]
# check: half of the vectors get no gradient
assert learns == [True, True, False, False]

# %% [markdown]
# Half of them learn nothing in this model. This version of peft gives each
# layer of an encoder-decoder four vectors of a row, a key and a value for
# the decoder's self-attention and two that are thrown away. A row has only
# four here, so both layers read the same two. In our file a row is twice as
# long and leaves the places that are skipped empty.
#
# ## Recap
#
# - **Attention with a prefix** is attention over longer keys and values:
#   the queries stay, the mask gets a True for each prefix token, and one
#   softmax goes over all keys.
# - **A table** with a row for each token becomes keys and values by
#   splitting the rows first, then permuting. A view alone gives the
#   right shape and the wrong contents.
# - **A prompt** has $n d$ parameters (twice that if encoder and decoder
#   each have one), a prefix $2 n L d$. A projection has more than the
#   prefix that it makes, unless its hidden layer is clearly narrower
#   than $n$.
# - **Folding** stores what the network makes of its table. The scores are
#   the same but for rounding, and the network is dropped.
# - **At the second hospital** full training wins with every seed, with a
#   small learning rate and few steps. Prompt and prefix gain less than half
#   as much. All of them cost something at the first hospital; a prompt, a
#   prefix or a bias can be switched off there.
# - **A bias for each token** gains more than half as much. At its lowest
#   loss the model expects each token as often as it occurs.
#
# ## Test yourself
#
# 1. A head gives the prefix a third of its attention. Without the prefix
#    its output would be $o$, and the prefix alone gives $p$. What is the
#    output?
#
# <details><summary>Answer</summary>
# $\tfrac{2}{3} o + \tfrac{1}{3} p$. One softmax over all keys leaves the
# weights among the tokens in proportion, and scales them by what the
# prefix leaves.
# </details>
#
# 2. You train a projected prefix, fold it, and go on training. Do you
#    train the same thing as before?
#
# <details><summary>Answer</summary>
# No. The scores are the same at that moment. From then on each number of
# the table moves by itself, where before all went through one network. And
# you train a different number of parameters.
# </details>
#
# 3. Somebody shows that prefix tuning is better than full training, with
#    one run of each. What do you ask for?
#
# <details><summary>Answer</summary>
# The losses seed by seed, on the same patients for both; how the learning
# rate and the number of steps of each were chosen, and on which patients;
# and a simple method beside them, such as an output bias.
# </details>
#
# ## What comes next
#
# You can adapt a trained model to another hospital without touching its
# weights, and say what that gains and costs. On your own data, train the
# output bias first: it takes a few lines, and a cleverer method has to beat
# it.
#
# A lower loss does not say what a model writes. Lesson
# [19](19_generation_and_evaluation.ipynb) lets a model write a whole
# cohort, and asks how near it is to the real one, whether it is possible,
# and whether it gives anybody away.

# %% [markdown]
# ## If you come from the tutorial
#
# What the tutorial says about prefixes, beside what this lesson measured.

# %% [markdown]
# - **Parameters.** Its example is 20 tokens, 32 layers and a width of
#   4,096. It gives 5,242,880 parameters for the direct prefix and "much
#   fewer due to bottleneck" through a hidden layer of 512. The first
#   number is right; the network has 26 times as many (the cell above 18.4).
# - **Where it acts.** It says that a prefix "modifies all transformer
#   layers" and conditions the whole encoder-decoder. It lengthens
#   `attention_mask` by the prefix, which in an encoder-decoder is the mask
#   of the encoder's tokens. The mask that grows is the decoder's.
# - **The scale.** It divides by $\sqrt d$; with heads it is the width of
#   one head that counts.
# - **Quality.** It calls prefix tuning "better for complex tasks". In Li
#   and Liang's experiments it was comparable with full training with all
#   the data, and better with few. On the small task here it was neither.
# - **The reshape.** It uses `.view(batch, layers, 2, heads, n, head_dim)`
#   and nothing else. At its sizes, this many entries come to their place:

# %% tags=["hide-input"]
# the reshape at the sizes of the tutorial
n, layers, heads, head_dim = 20, 32, 32, 128
table = torch.arange(n * layers * 2 * heads * head_dim)
right = table.view(n, layers, 2, heads, head_dim).permute(1, 2, 3, 0, 4)
viewed = table.view(layers, 2, heads, n, head_dim)
kept = int((viewed == right).sum())
print(f"{kept:,} of {table.numel():,} entries are in their place")
token = viewed // (layers * 2 * heads * head_dim)  # whose entry it is
print("layer 0 has entries of token", token[0].unique().tolist())
assert kept < 0.02 * table.numel() and token[0].unique().tolist() == [0]
