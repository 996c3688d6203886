# %% [markdown]
# # 11 · Model architecture
#
# 150 minutes · Prerequisites: 10
#
# You will be able to:
#
# - Compute scaled dot-product attention, with and without a mask.
# - Write the mask of a decoder that begins with prompts.
# - Build a BART from its parts, and load trained weights into it.
# - Test whether a decoder reads its encoder.

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
# ## Does it read the patient?
#
# Two models, A and B, are equally large and learn from the same patients.
# Both have the task of lesson 09: read a damaged record and write out the
# complete one. They began with different random weights. A has trained for
# 120 steps, B for 60. Which one would you use?

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %% tags=["hide-input"]
# set-up: libraries
import copy
import math
from collections.abc import Callable

import torch
from matplotlib.colors import ListedColormap
from torch import Tensor, nn
from torch.nn import functional
from transformers import BartConfig, BartForConditionalGeneration
from transformers.models.bart.modeling_bart import BartAttention

from ehr_course import (
    CodeTokenizer, InputError, LengthBatchSampler, MemoryTrace,
    PatientProfile, PromptBart, PromptBartConfig, RecordDataset, Sampling,
    activation_bytes, choose_patients, code_meaning, generate_patients,
    held_bytes, icd9, load_checkpoint, real_data, record_attention,
)
from ehr_course.exercises import check, hint, mine, parts, progress
from ehr_course.plots import (
    blank_chart, draw_attention_steps, draw_bars, draw_cross_attention,
    draw_dots, draw_heat, draw_model,
)
from ehr_course.widgets import attention_explorer

# %% tags=["hide-input"]
# set-up: the course's model and its patients
loaded = load_checkpoint("tiny_prompt_bart")
model = loaded.model
tokenizer = CodeTokenizer(loaded.tokenizer.codes, unseen="skip")
real = real_data() is not None
sizes = {"tiny": 1_200, "small": 6_000, "full": 46_520}
records = choose_patients(sizes[PROFILE], seed=1_000 + SEED)
limit = {"max_tokens": model.max_tokens, "too_long": "cut"}
n_held_out = min(200, len(records) // 3)
held_out = RecordDataset(records[:n_held_out], tokenizer, **limit)
beginners = RecordDataset(records[n_held_out:], tokenizer, **limit)
print(f"{len(records):,} patients, {n_held_out} of them held out")

# %%
TinyBart = mine("11.7")  # the model that you will write in this lesson
NARROW = len(tokenizer), 64, 4, 128, 2, 256  # a small one trains fast


def started(model, deviation, seed=SEED):
    """The model with random weights of this standard deviation."""
    torch.manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.ndim > 1:
            nn.init.normal_(weight, std=deviation)
        elif name.endswith("bias"):
            nn.init.zeros_(weight)
    return model


# %%
def repair_loss(model, batch, read=None):
    """The loss per token; the encoder reads the batch, or another."""
    read = read or batch
    ids, mask = read["input_ids"], read["attention_mask"]
    none = torch.zeros(len(ids), 0, model.shared.embedding_dim)
    logits = model(ids, mask, batch["decoder_input_ids"], none, none)
    return functional.cross_entropy(logits.mT, batch["labels"])


def batches(dataset, seed):
    """Batches of 32 records of similar length, without end."""
    while True:
        sampler = LengthBatchSampler(
            dataset.lengths, 32, seed=seed, group_by_length=True
        )
        yield from map(dataset.__getitem__, sampler)
        seed += 1


# %%
def fit(model, steps, loss_of=repair_loss, seed=SEED):
    """Train, and return the losses. Lesson 15 takes this loop apart."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.05, 1, 20)
    losses = []
    for _, batch in zip(range(steps), batches(beginners, 100 * seed)):
        loss = loss_of(model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        warmup.step()
        losses.append(loss.item())
    return losses


young, losses = {}, {}
for name, deviation, steps in (("A", 0.02, 120), ("B", 0.08, 60)):
    young[name] = started(TinyBart(*NARROW), deviation)
    losses[name] = fit(young[name], steps)

# %% tags=["nbval-ignore-output"]
ends = {name: sum(of[-10:]) / 10 for name, of in losses.items()}
picture, axes = blank_chart(
    "The losses of two training runs",
    f"A line for each model: A falls from {losses['A'][0]:.1f} to "
    f"{ends['A']:.1f} nats in 120 steps, B from {losses['B'][0]:.1f} to "
    f"{ends['B']:.1f} nats in 60.",
    "Thin: the loss of each step. Thick: the mean of ten steps.",
)
for (name, of), dashes in zip(losses.items(), ("-", "--"), strict=True):
    mean = torch.tensor(of).unfold(0, 10, 1).mean(dim=1)  # (steps - 9,)
    (line,) = axes.plot(of, linewidth=0.7, alpha=0.5)
    colour = line.get_color()
    steps = range(5, 5 + len(mean))
    axes.plot(steps, mean, dashes, color=colour)
    axes.plot(steps[-1], mean[-1], "o", color=colour)
    words = f"model {name}: {ends[name]:.1f} nats"
    axes.text(steps[-1], mean[-1] - 1.9, words, color=colour, ha="right")
axes.set(xlabel="step", ylabel="loss per token (nats)", ylim=0)
picture

# %% tags=["hide-input"]
# check: both losses fall, and that of A is lower
for of in losses.values():
    assert real or sum(of[-10:]) / 10 < of[0] - 2
assert real or ends["A"] < ends["B"] - 0.2

# %% [markdown]
# One of the two would not notice if you handed it another patient's record.
# Write down which one you suspect, and why.
#
# A, B and the model of this course are made of the same parts. In this lesson
# you write all of them, load trained weights into your model, let it write a patient,
# and find the culprit.
#
# ## Two halves and one arrow
#
# Here is the model of this course with all its parts. It is a
# [checkpoint](../course/book/glossary.md), a trained model in
# files, and learned from 4,000 other patients of the embedded hospital:

# %%
draw_model(model)

# %% [markdown]
# Every token becomes a vector of [d_model](../course/book/glossary.md) numbers. Age and
# sex enter as two more vectors, the prompts, which stand before the tokens. The encoder,
# above, reads the damaged record. The decoder, below, writes the clean one. The thick
# arrow is the only way from one to the other. In A or in B, nothing useful
# travels along it.
#
# ## Attention
#
# [Attention](../course/book/glossary.md) lets one position collect what
# others know. Three matrices of weights give each vector three roles. Its
# **query** says what it looks for, its **key** what it can be found by, and
# its **value** what is read there. The dot product of a query and a key is
# a score. A softmax turns the scores of one query into weights that sum
# to 1, and the result is the sum of the values with these weights:
#
# $$\text{attention}(Q, K, V) =
# \text{softmax}\!\left(\frac{QK^\top}{\sqrt{d}}\right) V$$
#
# Watch it on four tokens, two of them codes: heart failure, 428.0, and
# atrial fibrillation, 427.31. The vectors and matrices are made up:

# %%
names = ["<v>", "428.0", "427.31", "<\\v>"]
vectors = torch.tensor([[1, 0], [0.5, 2], [-1, 1], [0, -1.5]])
w_query = torch.tensor([[-1, 0.5], [0.5, 1]])
w_key = torch.tensor([[0.5, 0], [0.5, 1]])
w_value = torch.tensor([[1, -1], [0.5, 0.5]])

steps = {"vectors": vectors, "queries": vectors @ w_query}
steps |= {"keys": vectors @ w_key, "values": vectors @ w_value}
scores = steps["queries"] @ steps["keys"].T  # (4, 4)
steps["scores"] = scores / math.sqrt(2)
steps["weights"] = steps["scores"].softmax(dim=-1)
steps["result"] = steps["weights"] @ steps["values"]

# %%
draw_attention_steps(names, steps)


# %% [markdown]
# The query of 427.31 fits the key of 428.0 best, so most of what comes out
# in its row is the value of 428.0.
#
# ### Why the root of d?
#
# Draw a query and ten keys at random. How much weight does the best key get?

# %%
def largest_weight(score):
    return score.softmax(-1).amax(-1).mean().item()


widths = [4, 16, 64, 256, 768]
generator = torch.Generator().manual_seed(SEED)
unscaled, scaled = [], []
for d in widths:
    query = torch.randn(2_000, 1, d, generator=generator)
    key = torch.randn(2_000, 10, d, generator=generator)
    score = (query * key).sum(-1)  # (2000, 10)
    unscaled.append(largest_weight(score))
    scaled.append(largest_weight(score / math.sqrt(d)))

# %% tags=["hide-input"]
# check: the spread of the scores grows with the root of the width
query, key = torch.randn(2, 20_000, 768, generator=generator)
score = (query * key).sum(-1)
assert abs(score.std() / math.sqrt(768) - 1) < 0.1
assert unscaled[-1] > 0.9 and max(scaled) < 0.4

# %%
picture, axes = blank_chart(
    "How much weight does the best of ten keys get?",
    "The mean largest weight by the width of a query: unscaled it rises "
    f"from {unscaled[0]:.2f} to {unscaled[-1]:.2f}, scaled it stays near "
    f"{scaled[-1]:.2f}.",
)
axes.semilogx(widths, unscaled, "o-", label="Q·K")
axes.semilogx(widths, scaled, "s--", label="Q·K / √d")
axes.axhline(1 / 10, color="grey", linestyle=":", label="all equal")
axes.set_xticks(widths, widths)
axes.minorticks_off()
axes.set(xlabel="width d", ylabel="mean largest weight", ylim=(0, 1))
axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
picture

# %% [markdown]
# A dot product is a sum of d terms, and its standard deviation grows with
# the root of d. Without the scale, a query of 768 numbers looks at hardly
# more than one key. Then a higher score changes hardly anything, and so the
# [gradient](../course/book/glossary.md), the change of the loss with each
# parameter, which learning follows, is next to nothing.

# %% tags=["hide-input"]
# check: without the scale, a higher score changes the best weight less
rises = []
for p in (unscaled[-1], scaled[-1]):
    raised = p * math.exp(0.1) / (p * math.exp(0.1) + 1 - p)
    rises.append(raised - p)
assert rises[0] < 0.01 < 0.015 < rises[1]

# %% [markdown]
# ### Hiding a key
#
# A **mask** says which keys may not be read, such as those of padding. If you
# set their weights to 0 afterwards, the others no longer sum to 1. Hide the
# score instead: minus infinity becomes a weight of exactly 0.

# %%
score = torch.tensor([[1.0, 2.0, 3.0]])
may_read = torch.tensor([[True, True, False]])
print("all three keys   ", score.softmax(-1))
hidden = score.masked_fill(~may_read, -math.inf)
print("without the third", hidden.softmax(-1))


# %% [markdown]
# ### 11.1 Scaled dot-product attention
#
# Try It Yourself · ★★ · 12 minutes
#
# `query` is (target, d), `key` (source, d), `value` (source, d_value).
# `mask` is boolean, (target, source), `True` where the query may read the
# key, or `None` when everything may be read. Each row has a `True`.
# Return what each query reads, (target, d_value). Write scores,
# weights and sum yourself; `softmax` may be torch's. Scores may be large: a
# softmax of your own has to stay finite.
#
# Example: `attention(torch.zeros(1, 4), torch.ones(2, 4),
# torch.tensor([[1.0], [5.0]]), None)` is `[[3.0]]`: both scores are 0,
# so both weights are 0.5.

# %% tags=["exercise:11.1", "nbval-ignore-output"]
def attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> Tensor:
    raise NotImplementedError("11.1: replace this line")


check("11.1", attention)

# %% [markdown]
# ## Who may read whom?
#
# The decoder writes one token after the other, so it must not read ahead. Does the model
# keep to this? Change the vector at each position in turn, and see where the output
# changes. The decoder is given the record shifted, as in lesson 09: each position
# holds the token written *last*, so reading itself gives nothing away.

# %% tags=["hide-input"]
# one record for the encoder, and shifted for the decoder
ids = torch.tensor([[*tokenizer.encode([tokenizer.codes[3:5]]), 0, 0, 0]])
given = torch.cat([torch.tensor([[tokenizer.eos_id]]), ids[:, :-1]], dim=1)
patient = {
    "x_num": torch.tensor([[64.0]]),  # age in years
    "x_cat": torch.tensor([[1]]),  # 1 is F
}
mask = torch.tensor([[1] * 8 + [0] * 3])  # prompts count as real
prompts = model.encoder_prompt(**patient)  # (1, 2, d_model)
tokens = model.get_input_embeddings()(torch.cat([ids, given]))
vectors, shifted = (
    torch.cat([prompts, one[None]], dim=1) for one in tokens
)  # (1, 11, d_model) each
positions = {}
for side, row in (("encoder", ids), ("decoder", given)):
    written = map(icd9.written, tokenizer.tokens(row[0].tolist()))
    positions[side] = ["age", "sex", *written]


# %%
def run_encoder(vectors):
    out = model.model.encoder(inputs_embeds=vectors, attention_mask=mask)
    return out.last_hidden_state


def run_decoder(vectors):
    out = model.model.decoder(
        inputs_embeds=vectors,
        encoder_hidden_states=encoded,
        encoder_attention_mask=mask,
    )
    return out.last_hidden_state


# %%
@torch.no_grad()
def reach(run, vectors):
    """Which outputs (rows) change with the vector at which position."""
    before, columns = run(vectors), []
    for place in range(vectors.shape[1]):
        other = vectors.clone()
        other[0, place] = other[0, place].flip(0)  # another vector
        moved = (run(other) - before).abs().amax(-1)[0]
        columns.append(moved > 1e-6)
    return torch.stack(columns, dim=1)


with torch.no_grad():
    encoded = run_encoder(vectors)
reaches = {
    "encoder": reach(run_encoder, vectors),
    "decoder": reach(run_decoder, shifted),
}

# %% tags=["hide-input"]
# check: who depends on whom
assert reaches["encoder"][:, :8].all()
assert not reaches["encoder"][:8, 8:].any()
assert (reaches["encoder"][8:, 8:] == torch.eye(3).bool()).all()
assert (reaches["decoder"] == torch.ones(11, 11).tril().bool()).all()
colours = ListedColormap(["white", "#2d708e", "#b5b9c4"])

# %%
picture, panels = blank_chart(
    "Which outputs change with which input?",
    "Two grids of positions, filled where the row's output depends on the "
    f"input of the column: {reaches['encoder'].sum()} cells of the "
    f"encoder, {reaches['decoder'].sum()} of the decoder, none of them "
    "above its diagonal.",
    "Filled: the output depends on the input. Grey: the input is padding.",
    height=4.1, columns=2,
)  # fmt: skip
for axes, (side, reached) in zip(panels, reaches.items(), strict=True):
    kinds = reached.long()  # (positions, positions)
    kinds[:, [name == "<PAD>" for name in positions[side]]] *= 2
    axes.pcolormesh(kinds, cmap=colours, vmax=2, edgecolors="lightgrey")
    ticks = torch.arange(11) + 0.5
    axes.set_xticks(ticks, positions[side], rotation=90)
    axes.set_yticks(ticks, positions[side])
    axes.tick_params(labelbottom=False, labeltop=True, length=0)
    axes.set(title=side, ylim=(11, 0), aspect="equal", ylabel="output")
picture


# %% [markdown]
# - **Encoder.** Every row depends on every real column.
# - **Decoder.** A row depends on itself and on what stands before it, prompts
#   included. That is its [causal mask](../course/book/glossary.md).
# - **Padding** is grey. The encoder hides it: a padded row changes itself, because
#   a vector also travels past attention, and no other row. The decoder does not, so
#   the second `<PAD>` reads the first. That does no harm: padding comes last, no
#   real row reads what comes later, and padded rows have no label. The mask that you
#   write next hides it all the same.
#
# ### 11.2 Causal mask with prompts
#
# Try It Yourself · ★★ · 8 minutes
#
# A decoder reads `n_prompts` prompts and then the tokens of one record.
# `attention_mask` is (tokens,), 1 on real tokens and 0 on the padding
# after them. Return a boolean mask, (n_prompts + tokens, n_prompts +
# tokens): `True` where the position of the row may read the position of
# the column. A position may read itself and everything before it, but
# nobody reads padding, not even padding itself. Prompts follow the same
# rule as tokens, so prompt 0 does not read prompt 1.
#
# Example: `decoder_mask(1, torch.tensor([1, 0]))` is
# `[[True, False, False], [True, True, False], [True, True, False]]`.

# %% tags=["exercise:11.2", "nbval-ignore-output"]
def decoder_mask(n_prompts: int, attention_mask: Tensor) -> Tensor:
    raise NotImplementedError("11.2: replace this line")


check("11.2", decoder_mask)


# %% [markdown]
# ## Build a BART
#
# The rest of the model is yours to write: five classes, from the inside out. Their
# parts have BART's own names, because a checkpoint's weights are found by name.
# `mine("11.3")` returns your answer to 11.3, or the worked one while you have
# none, so you can skip a step.
#
# ### Heads
#
# Attention runs several [heads](../course/book/glossary.md#head) side by
# side, so that it can look for several things at once. Heads add no parameters, as they
# divide the width: in a model 768 numbers wide, each of 12 works with 64 of them, and d
# under the root is 64. Here is the encoder's last layer in the trained model, on a
# record with three codes:

# %% tags=["hide-input"]
# a record that fits a drawing, and who looks at whom in it
def with_visits(number, most):
    """The first record that fits a drawing and begins with three codes."""
    for record in records:
        known = [
            [code for code in visit.codes if code in tokenizer.codes]
            for visit in record.visits
        ]
        short = sum(map(len, known)) <= most
        if len(known) == number and len(known[0]) > 2 and short:
            return record
    return min(records, key=lambda record: len(record.codes))


reader = with_visits(1, 4)
looked = record_attention(model, tokenizer, reader)
own = looked["encoder"]
for code in reader.codes:
    if code in tokenizer.codes:
        title = code_meaning(own.system).title(code).split(", ")[0]
        print(f"{icd9.written(code):6} {title}")
most = own.weights[-1, :, 1].argmax(-1)  # for each head, in the row of sex
assert real or (most[1] == 0 and most[2] == own.first_code)
assert real or SEED or len(set(most)) == 4

# %%
of_sex = own.weights[-1, :, 1]  # (heads, positions)
draw_heat(
    {
        f"head {head}": dict(zip(own.columns, row.tolist(), strict=True))
        for head, row in enumerate(of_sex)
    },
    f"What does each head read for the vector of {own.columns[1]}?",
    f"A row for each head, which has {96 // len(of_sex)} of the 96 "
    "numbers of a query. Its weights add up to 100%.",
)


# %% tags=["hide-input"]
# check: 1, 4 and 12 heads have the same number of parameters
def n_parameters(module):
    return sum(p.numel() for p in module.parameters())


for heads in (1, 4, 12):
    with torch.device("meta"):
        block = BartAttention(768, heads, config=BartConfig())
    assert n_parameters(block) == 4 * 768 * 768 + 4 * 768
assert 6 * n_parameters(block) == 14_174_208


# %% [markdown]
# At the vector of the sex, head 1 looks at the age and head 2 at the first code,
# while head 3 divides its weight among many places.
#
# ### 11.3 Attention with heads
#
# Try It Yourself · ★★★ · 15 minutes
#
# Four linear layers from `d_model` to `d_model` numbers are called `q_proj`, `k_proj`,
# `v_proj` and `out_proj`. `reader`, (batch, target, d_model), makes the queries; `read`,
# (batch, source, d_model), makes keys and values. `mask` is boolean, (batch, target,
# source), `True` where a position may be read. Its batch and target may be 1: one mask
# for all. Return (batch, target, d_model).
#
# Project, and split the width into heads: head 0 gets the first d_model / n_heads
# numbers of each query, key and value, head 1 the next ones. In each head do what 11.1
# does. Then join the heads in this order, and let `out_proj` mix what they have read.
#
# Example: where each row of `mask` has a single `True`, every head reads just that
# position, and the result is `out_proj(v_proj(read))` there.

# %% tags=["exercise:11.3", "nbval-ignore-output"]
class Attention(nn.Module):
    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        raise NotImplementedError("11.3: replace this line")

    def forward(
        self, reader: Tensor, read: Tensor, mask: Tensor
    ) -> Tensor:
        raise NotImplementedError("11.3: replace this line")


check("11.3", Attention)

# %% [markdown]
# ### A layer
#
# Attention is where positions read each other. The other boxes of the drawing treat each
# position by itself:
#
# - **The feed-forward net** is two linear layers with a nonlinearity, GELU, between
#   them.
# - **The lines over a part** are
#   [residual connections](../course/book/glossary.md#residual-connection):
#   what goes into a part is added to what comes out, so a part only has to
#   compute a change.
# - **A [layer norm](../course/book/glossary.md)** (*norm*) then
#   brings the numbers of each vector to a common size.
#
# (In training, BART also sets a tenth of the numbers to 0 at random, which is
# called dropout. Your model does without.)
#
# ### 11.4 An encoder layer
#
# Try It Yourself · ★★ · 10 minutes
#
# `self_attn` is an `Attention`, and `fc1` and `fc2` are the linear layers of the
# feed-forward net, from `d_model` to `d_ff` numbers and back. In `forward`, `x` reads
# itself under `mask`, and the net follows. After each of the two, add what went in, and
# norm the sum: with `self_attn_layer_norm` after attention, with `final_layer_norm`
# after the net. Both are an `nn.LayerNorm(d_model)`.
#
# Example: with `out_proj` and `fc2` at 0, both weights and biases, the layer norms `x`
# twice and changes nothing else.

# %% tags=["exercise:11.4", "nbval-ignore-output"]
Attention = mine("11.3")


class EncoderLayer(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int) -> None:
        super().__init__()
        raise NotImplementedError("11.4: replace this line")

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        raise NotImplementedError("11.4: replace this line")


check("11.4", EncoderLayer)

# %% [markdown] tags=["break"]
# ## Time for a break
#
# **So far**
#
# - Attention weighs values by how well queries fit keys, and a mask hides keys.
# - Heads divide the width, and each looks for something of its own.
# - A layer adds what a part computes to what went into it, and norms the sum.
#
# In the second half you finish the model, and find out who does not read. To come back
# later, select the next cell and choose
# *Run > Run All Above Selected Cell*; it takes about half a minute.

# %% [markdown]
# ## How the decoder reads the encoder
#
# So far queries, keys and values came from the same positions:
# [self-attention](../course/book/glossary.md). In
# [cross-attention](../course/book/glossary.md) the decoder makes the queries, and
# the encoder keys and values. Only padding is hidden. Here is a head of the
# trained model's last layer, on an undamaged record:

# %% tags=["hide-input"]
# the cross-attention to the record above, and a head of the last layer
seen = looked["cross"]
row = seen.first_code
head = seen.weights[-1, :, row].max(-1).argmax()

# %%
weights = seen.weights[-1, head, row]  # (positions of the encoder,)
draw_cross_attention(seen.columns, seen.rows, weights, row=row)

# %% [markdown]
# The decoder has just written the framed code. It looks at the code that it will
# write next.
#
# The explorer shows all rows. Each names the token just written and the next one, in
# whose column the bright cell mostly lies. In layer 0 that diagonal fades. In layer 1,
# which rows do not keep to it, and why?

# %% tags=["widget"]
record = with_visits(2, 10)
attention_explorer(model, tokenizer, record, kind="cross", layer=1)

# %% [markdown]
# <details><summary>Which rows</summary>
# At the prompts nothing is written, and the first token is always
# <code>&lt;BOS&gt;</code>: there is nothing to look up. The
# <code>&lt;v&gt;</code> of another visit serves just as well. Where a visit may end, heads
# look elsewhere too.
# </details>
#
# ### 11.5 A decoder layer
#
# Try It Yourself · ★★ · 8 minutes
#
# Between the two parts of 11.4 stands a third: `encoder_attn`, an `Attention` in which
# `x` reads `memory`, the encoder's output, under `memory_mask`. It is added and normed
# like the others, with `encoder_attn_layer_norm`. The other names are those of 11.4.
# `x` is (batch, target, d_model), `mask` its causal mask, `memory` (batch, source,
# d_model), `memory_mask` (batch, 1, source).
#
# Example: with `encoder_attn.out_proj` at 0 the layer does not depend on `memory`.

# %% tags=["exercise:11.5", "nbval-ignore-output"]
Attention = mine("11.3")


class DecoderLayer(nn.Module):
    def __init__(self, d_model: int, n_heads: int, d_ff: int) -> None:
        super().__init__()
        raise NotImplementedError("11.5: replace this line")

    def forward(
        self, x: Tensor, mask: Tensor, memory: Tensor, memory_mask: Tensor
    ) -> Tensor:
        raise NotImplementedError("11.5: replace this line")


check("11.5", DecoderLayer)

# %% [markdown]
# ## From layers to a model
#
# Nothing in attention knows which position comes first. Take
# the positions away and reverse a record:

# %%
alone = ids[:, :-3]  # (1, 6), without the padding
without = copy.deepcopy(model)
nn.init.zeros_(without.model.encoder.embed_positions.weight)
for name, one in (("without", without), ("with", model)):
    with torch.no_grad():
        read = one.encode(alone, **patient)[0].last_hidden_state
        turned = one.encode(alone.flip(1), **patient)[0].last_hidden_state
    same = torch.allclose(read[:, 2:].flip(1), turned[:, 2:], atol=1e-4)
    print(f"{name} positions, the same vectors in reverse order: {same}")
    assert same == (name == "without")

# %% [markdown]
# So each vector gets a position added to it, a row of a table that is learned.
# Encoder and decoder each have such a table. Positions run over prompts and tokens
# alike: this model has 256 positions, so it takes 254 tokens. (The first two rows of
# BART's table are a leftover of its code: position 0 is in row 2.)

# %% tags=["hide-input"]
# check: one token too many is refused
try:
    model.encode(torch.full((1, 255), 7), **patient)
    raise AssertionError("257 positions were accepted")
except InputError as error:
    assert "at most 254 tokens" in error.problem
assert model.max_tokens == 254
assert model.config.max_position_embeddings == 256


# %% [markdown]
# ### 11.6 A stack of layers
#
# Try It Yourself · ★★ · 10 minutes
#
# A `Stack` becomes an encoder or a decoder, depending on the `layers` that it is given, a
# list of modules. Keep them as `layers`; `embed_positions` is an `nn.Embedding` of
# `n_positions` + 2 rows, and `layernorm_embedding` a layer norm. `vectors` is (batch,
# length, d_model), prompts included. Add to each its position (p is in row p + 2), norm
# the sum, and call each layer in turn with what the one before returned: `layer(x,
# *given)`. Encoder layers need a mask, decoder layers three things; the stack hands on
# what it gets. (The check brings simple layers of its own.)
#
# Example: with no layers, `Stack([], 4, 10)` norms the sum of vectors and positions.

# %% tags=["exercise:11.6", "nbval-ignore-output"]
class Stack(nn.Module):
    def __init__(
        self, layers: list[nn.Module], d_model: int, n_positions: int
    ) -> None:
        super().__init__()
        raise NotImplementedError("11.6: replace this line")

    def forward(self, vectors: Tensor, *given: Tensor) -> Tensor:
        raise NotImplementedError("11.6: replace this line")


check("11.6", Stack)

# %% [markdown]
# ### 11.7 TinyBart
#
# Try It Yourself · ★★★ · 20 minutes
#
# The model has three parts: `shared`, an `nn.Embedding` of the tokens, and two stacks,
# `encoder` and `decoder`, of `n_layers` layers each. There are no other weights: the
# head is the table again (*tied*). The score of a token is the dot product of a state
# with its row of `shared`. Prompts come as vectors, (batch, n_prompts, d_model), and
# stand before the tokens; n_prompts may be 0, and another on each side.
#
# - `encode` returns `memory`, what the encoder makes of prompts and `ids`, and
#   `memory_mask`, boolean (batch, 1, n_prompts + source). `attention_mask` is (batch,
#   source), 1 on real tokens and 0 on padding; prompts are real.
# - `decode` returns the decoder's states of the tokens, (batch, target, d_model). Its
#   mask is causal over prompts and tokens. Padding need not be hidden, as
#   you have seen.
# - `forward` does both, and returns logits, (batch, target, n_tokens).
#
# Example: `TinyBart(425, 96, 4, 192, 2, 256)` has 464,736 parameters.

# %% tags=["exercise:11.7", "nbval-ignore-output"]
EncoderLayer, DecoderLayer = mine("11.4"), mine("11.5")
Stack = mine("11.6")


class TinyBart(nn.Module):
    def __init__(self, n_tokens: int, d_model: int, n_heads: int,
                 d_ff: int, n_layers: int, n_positions: int) -> None:
        super().__init__()
        raise NotImplementedError("11.7: replace this line")

    def encode(self, ids: Tensor, attention_mask: Tensor,
               prompts: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError("11.7: replace this line")

    def decode(self, ids: Tensor, prompts: Tensor, memory: Tensor,
               memory_mask: Tensor) -> Tensor:
        raise NotImplementedError("11.7: replace this line")

    def forward(self, ids: Tensor, attention_mask: Tensor,
                decoder_ids: Tensor, prompts: Tensor,
                decoder_prompts: Tensor) -> Tensor:
        raise NotImplementedError("11.7: replace this line")


check("11.7", TinyBart)

# %% [markdown]
# ## Load a trained BART
#
# Which parts are yours?

# %% tags=["nbval-ignore-output"]
parts()

# %% [markdown]
# The checkpoint is `transformers`' BART with two prompts. As your parts have its
# names, its weights find their places:

# %%
TinyBart = mine("11.7")
trained = model.state_dict()
tiny = TinyBart(len(tokenizer), 96, 4, 192, 2, 256)
tiny.load_state_dict(
    {name: trained[f"model.{name}"] for name in tiny.state_dict()}
)


def prompted(tiny, model, batch, read):
    """The logits of a TinyBart with the prompts of the library's model."""
    people = batch["x_num"], batch["x_cat"]
    return tiny(
        read["input_ids"], read["attention_mask"],
        batch["decoder_input_ids"],
        model.encoder_prompt(*people), model.decoder_prompt(*people),
    )  # fmt: skip


def prompted_loss(tiny, batch, read=None):
    return functional.cross_entropy(
        prompted(tiny, model, batch, read or batch).mT, batch["labels"]
    )


# %% [markdown]
# Does it compute the same? Here are sixteen damaged records of different lengths, in
# float64, so that rounding hides no fault:

# %%
batch = held_out.batch(range(16))
with torch.no_grad():
    theirs = copy.deepcopy(model).double()
    exact = batch | {"x_num": batch["x_num"].double()}
    expected = theirs(**exact).logits  # (16, target, n_tokens)
    logits = prompted(copy.deepcopy(tiny).double(), theirs, exact, exact)
apart = (logits - expected).abs().max().item()
print(f"{logits.numel():,} logits, none 1e-5 apart: {apart < 1e-5}")
assert apart < 1e-5


# %% [markdown]
# Then it should also write what the library writes. The plainest way is *greedy*, always
# the likeliest token. A woman of 64:

# %%
@torch.no_grad()
def write(tiny, age, sex):
    person = torch.tensor([[float(age)]]), torch.tensor([[sex]])
    empty = torch.tensor([tokenizer.empty_record])
    read = tiny.encode(
        empty, torch.ones_like(empty), model.encoder_prompt(*person)
    )
    before, written = model.decoder_prompt(*person), [tokenizer.eos_id]
    while len(written) < 254:
        states = tiny.decode(torch.tensor([written]), before, *read)
        logits = states[0, -1] @ tiny.shared.weight.T
        written.append(logits.argmax().item())
        if written[-1] == tokenizer.eos_id:
            break
    return written[1:]


written = write(tiny, age=64, sex=1)
print(*map(icd9.written, tokenizer.tokens(written)))

# %% tags=["hide-input"]
# check: the library writes the same patients
assert n_parameters(TinyBart(425, 96, 4, 192, 2, 256)) == 464_736
for age, sex in ((64, 1), (70, 0), (30, 1), (0, 0), (85, 1)):
    profiles, greedy = [PatientProfile(age, "MF"[sex])], Sampling(top_k=1)
    (its,) = generate_patients(model, tokenizer, profiles, sampling=greedy)
    visits = tokenizer.decode(write(tiny, age, sex))
    assert visits == [list(visit.codes) for visit in its.visits]


# %% [markdown]
# This is the library's patient, too. Your model returns in the next lessons: 12 makes
# its prompts, 13 puts a second head on what `decode` returns, 14 adds losses, and in 15 you
# train it with a loop of your own. `python3 -m course mine` prints it as one file.
#
# ## The test
#
# A large weight shows where a head looks. Whether that helps needs a test: let
# the encoder read another patient's record. A decoder that reads its
# encoder must get much worse. One that does not cannot tell the difference.
#
# ### 11.8 Another patient's record
#
# Try It Yourself · ★★ · 8 minutes
#
# `batch` is a dictionary of tensors with a row for each patient:
# `input_ids`, `attention_mask`, `decoder_input_ids`, `labels`, `x_num`
# (age) and `x_cat` (sex). Return a new dictionary in which the encoder of
# each row reads the record of the row before, and that of row 0 the record
# of the last row. Everything else stays in its row, age and sex too. Leave
# `batch` as it is.
#
# Example: with two patients, they exchange their records.

# %% tags=["exercise:11.8", "nbval-ignore-output"]
def exchange_records(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    raise NotImplementedError("11.8: replace this line")


check("11.8", exchange_records)

# %% [markdown]
# Now measure the loss on held-out records, once with the right record in the encoder
# and once with another patient's.

# %%
exchange_records = mine("11.8")


@torch.no_grad()
def two_losses(model, loss_of=repair_loss):
    """Per token: with the right record, and with another patient's."""
    sums, count = torch.zeros(2), 0
    by_length = {"seed": SEED, "group_by_length": True}  # less padding
    for key in LengthBatchSampler(held_out.lengths, 50, **by_length):
        batch = held_out[key]
        n = int((batch["labels"] >= 0).sum())
        for i, read in enumerate((batch, exchange_records(batch))):
            sums[i] += n * loss_of(model, batch, read)
        count += n
    return (sums / count).tolist()


# %%
swap = {f"model {name}": two_losses(one) for name, one in young.items()}
swap["the course model"] = two_losses(tiny, prompted_loss)

# %% tags=["hide-input"]
# check: A does not notice the swap, B does
costs = {name: another - own for name, (own, another) in swap.items()}
assert real or (costs["model A"] < 0.1 and costs["model B"] > 0.15)
assert costs["the course model"] > 1
assert real or swap["model A"][0] < swap["model B"][0]

# %% tags=["nbval-ignore-output"]
kinds = "the right record", "another patient's"
draw_bars(
    {name: dict(zip(kinds, of, strict=True)) for name, of in swap.items()},
    "Who notices whose record it reads?",
    "The loss per token, in nats.",
    inner="key", form="{:.2f}", warn=["another patient's"],
)  # fmt: skip


# %% [markdown]
# The culprit is A: it never reads its patient, though its loss is lower than B's.
# As long as it does not read, it cannot do better than
# the codes written so far allow. B can, with more training.
#
# Why is A blind? It differs from B in two ways: it trained longer, and its random weights
# began smaller, with a standard deviation of 0.02, BART's default for wide models. B's
# began with 0.08. So train from both starts again, equally long, with three seeds each:

# %%
@torch.no_grad()
def likeness(model):
    """The mean cosine of the encoder's vectors of two tokens."""
    batch = held_out.batch(range(min(50, n_held_out)))
    ids, mask = batch["input_ids"], batch["attention_mask"]
    none = torch.zeros(len(ids), 0, model.shared.embedding_dim)
    read = model.encode(ids, mask, none)[0][mask.bool()]
    read = functional.normalize(read, dim=-1)  # (positions, d_model)
    n = len(read)
    return ((read @ read.T).sum().item() - n) / (n * (n - 1))


cost, alike = {}, {}
for deviation in (0.02, 0.08):
    for seed in range(SEED, SEED + 3):
        one = started(TinyBart(*NARROW), deviation, seed)
        fit(one, 80, seed=seed)
        own, another = two_losses(one)
        name = f"began with {deviation}"
        cost.setdefault(name, []).append(another - own)
        alike.setdefault(name, []).append(likeness(one))

# %% tags=["hide-input"]
# check: the start decides, with each seed
small, large = cost.values()
assert real or SEED or max(small) < 0.05 < 0.2 < min(large)
assert real or sum(small) < sum(large)
small, large = alike.values()
assert real or SEED or min(small) > 0.95 > 0.8 > max(large)
assert real or sum(small) > sum(large)

# %% tags=["nbval-ignore-output"]
draw_dots(
    cost,
    "What does another patient's record cost after 80 steps?",
    "A dot for each seed.",
    across="nats per token", form="{:.2f}",
)  # fmt: skip

# %% [markdown]
# The small initialization is to blame: with it, no seed gives a model that reads, and
# with the larger one every seed does. In most blind models the encoder's vectors of any
# two tokens have become nearly the same, so there is little to tell apart. (Why they do
# is beyond this lesson.) Begin with larger weights, and test whether the model reads.

# %% [markdown]
# ### Going further: drop the encoder
#
# A decoder-only patient model from your parts, in some fifteen lines: the family of GPT,
# and of ETHOS, CEHR-GPT and Delphi, which model patients.

# %% [markdown]
# When a model writes new patients from age and sex, its encoder has nothing to read.
# Without cross-attention a decoder layer is your `EncoderLayer`, under a causal mask. The
# demographics stand before the tokens:

# %%
EncoderLayer, Stack = mine("11.4"), mine("11.6")


class PatientGPT(nn.Module):
    def __init__(self, n_tokens, d_model, n_heads, d_ff, n_layers, most):
        super().__init__()
        self.shared = nn.Embedding(n_tokens, d_model)
        self.age = nn.Linear(1, d_model)
        self.sex = nn.Embedding(2, d_model)
        size = d_model, n_heads, d_ff
        layers = [EncoderLayer(*size) for _ in range(n_layers)]
        self.decoder = Stack(layers, d_model, most)

    def forward(self, ids, x_num, x_cat):
        age, sex = self.age(x_num / 90)[:, None], self.sex(x_cat)
        x = torch.cat([age, sex, self.shared(ids)], dim=1)
        causal = torch.ones(x.shape[1], x.shape[1]).tril().bool()
        states = self.decoder(x, causal[None])[:, 2:]
        return states @ self.shared.weight.T


# %% [markdown]
# Its rival is a TinyBart with the same prompts, whose encoder reads an empty record:

# %%
class EmptyBart(nn.Module):
    def __init__(self, n_tokens, d_model, *size):
        super().__init__()
        self.bart = TinyBart(n_tokens, d_model, *size)
        self.age = nn.Linear(1, d_model)
        self.sex = nn.Embedding(2, d_model)

    def forward(self, ids, x_num, x_cat):
        age, sex = self.age(x_num / 90)[:, None], self.sex(x_cat)
        prompts = torch.cat([age, sex], dim=1)
        empty = torch.tensor([tokenizer.empty_record] * len(ids))
        real = torch.ones_like(empty)
        return self.bart(empty, real, ids, prompts, prompts)


def writing_loss(model, batch, read=None):
    logits = model(
        batch["decoder_input_ids"], batch["x_num"], batch["x_cat"]
    )
    return functional.cross_entropy(logits.mT, batch["labels"])


# %%
found = {}
for kind in (PatientGPT, EmptyBart):
    name = f"{kind.__name__}, {n_parameters(kind(*NARROW)):,} parameters"
    for seed in range(SEED, SEED + 3):
        writer = started(kind(*NARROW), 0.08, seed)
        fit(writer, 80, writing_loss, seed)
        loss, _ = two_losses(writer, writing_loss)
        found.setdefault(name, []).append(loss)
        if kind is PatientGPT and seed == SEED:
            gpt = writer

# %% tags=["hide-input"]
# check: about the same loss, with less than half the parameters
of_gpt, of_bart = (sum(of) / 3 for of in found.values())
assert real or abs(of_gpt - of_bart) < (0.4 if SEED else 0.2)
assert n_parameters(PatientGPT(*NARROW)) < n_parameters(writer) / 2

# %% tags=["nbval-ignore-output"]
draw_dots(
    found,
    "Is the encoder missed when it has nothing to read?",
    "The loss on held-out patients after 80 steps, a dot for each seed.",
    across="nats per token", form="{:.2f}",
)  # fmt: skip


# %% [markdown]
# No: with less than half the weights, the decoder-only model comes within 0.2 nats. (It
# could not repair a damaged record, as nothing shows it one.) Here are three women of
# 64, each token drawn from the model's probabilities:

# %% tags=["nbval-ignore-output"]
@torch.no_grad()
def draw_patient(gpt, age, sex, generator):
    person = torch.tensor([[float(age)]]), torch.tensor([[sex]])
    written = [tokenizer.eos_id]
    while len(written) < 60:
        chances = gpt(torch.tensor([written]), *person)[0, -1].softmax(-1)
        drawn = torch.multinomial(chances, 1, generator=generator)
        written.append(drawn.item())
        if written[-1] == tokenizer.eos_id:
            break
    return written[1:]


generator = torch.Generator().manual_seed(SEED)
for _ in range(3):
    drawn = tokenizer.tokens(draw_patient(gpt, 64, 1, generator))
    print(*map(icd9.written, drawn))

# %% [markdown]
# After 80 steps it knows roughly how a record is built, and little of medicine: 64 is late
# for a pregnancy. Trained longer, such a model writes a cohort that you can add to those
# of lesson 19.

# %% [markdown]
# ### Going further: how large is a full BART?
#
# You can count a model's parameters before you download it. Exercise 11.9 (★★★) is in
# here.

# %% [markdown]
# Here is a full-size BART, as you may meet it in practice:

# %%
SIZE = {
    "vocab_size": 6_992,
    "d_model": 768,
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 12,
    "decoder_attention_heads": 12,
    "encoder_ffn_dim": 3_072,  # inside the feed-forward nets
    "decoder_ffn_dim": 3_072,
    "max_position_embeddings": 512,
}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def shapes_of(kind, config):
    with torch.device("meta"):
        return kind(config)


bart = shapes_of(BartForConditionalGeneration, BartConfig(**SIZE, **IDS))

# %%
kinds = {
    ".fc": "feed-forward", ".self_attn.": "self-attention",
    ".encoder_attn.": "cross-attention",
    "embed_positions": "positions", "shared": "tokens",
}  # fmt: skip
counts = {"encoder layers": {}, "decoder layers": {}, "tables": {}}
for name, weight in bart.model.named_parameters():
    for part, kind in kinds.items():
        if part in name:
            in_layer = ".layers." in name
            side = name.split(".")[0] + " layers" if in_layer else "tables"
            before = counts[side].get(kind, 0)
            counts[side][kind] = before + weight.numel()
whole = n_parameters(bart)
sums = {side: sum(of.values()) for side, of in counts.items()}

# %%
draw_bars(
    {f"{side}: {sums[side]:,}": of for side, of in counts.items()},
    f"Where are the {whole:,} parameters?",
    f"Not drawn: {whole - sum(sums.values()):,} in layer norms.",
    form="{:,}",
    notes={
        (f"{side}: {sums[side]:,}", kind): f"{n / whole:.0%}"
        for side, of in counts.items()
        for kind, n in of.items()
    },
)  # fmt: skip

# %% [markdown]
# The feed-forward nets are the largest part, not attention. The table of
# tokens is small, and it is stored only once, for encoder, decoder and output.

# %% tags=["hide-input"]
# check: the table of tokens in three places is one
table = bart.model.shared.weight
assert bart.lm_head.weight is table
assert bart.model.encoder.embed_tokens.weight is table
assert bart.model.decoder.embed_tokens.weight is table

# %% [markdown]
# To predict the number at any size, you need the shapes, which are those of your parts:

# %%
for name, weight in TinyBart(50, 8, 2, 20, 1, 30).named_parameters():
    print(f"{name:48}", *weight.shape)


# %% [markdown]
# #### 11.9 Count the parameters of BART
#
# Try It Yourself · ★★★ · 14 minutes
#
# Return the number of parameters of `BartForConditionalGeneration`, exactly,
# as an int. Encoder and decoder have the same heads and
# the same `ffn_dim`. The output layer shares its weights with the table
# of tokens and has no bias of its own.
#
# Example: `count_parameters(6992, 768, 6, 6, 12, 3072, 512)` is
# `105400320`.

# %% tags=["exercise:11.9", "nbval-ignore-output"]
def count_parameters(
    vocab_size: int,
    d_model: int,
    encoder_layers: int,
    decoder_layers: int,
    heads: int,
    ffn_dim: int,
    positions: int,
) -> int:
    raise NotImplementedError("11.9: replace this line")


check("11.9", count_parameters)


# %% [markdown]
# ### Going further: how many records fit?
#
# The memory of a training step of that BART, and the largest batch on a machine
# with 8 GB. Exercise 11.10 (★★★) is in here.

# %% [markdown]
# You have 8 GB free for tensors. This BART's weights take 0.4 GB, four bytes
# each. How many records of 254 tokens fit in one batch? Write your guess down.
#
# A training step holds more than **weights**:
#
# - **two moments** for each weight: the optimizer, Adam, remembers the mean
#   of each gradient and of its square;
# - the [activations](../course/book/glossary.md#activation): everything
#   that the forward pass computes and the gradient needs again;
# - a **gradient** for each weight.
#
# Its memory is fullest either when the backward pass begins, with all the activations and
# two more tensors as large as the logits, or at the update, with all the gradients:

# %%
def step_bytes(weights, activations, logits):
    moments, gradients = 2 * weights, weights
    backward = activations + 2 * logits  # as it begins
    return weights + moments + max(gradients, backward)


# %% [markdown]
# Measure what the forward pass keeps of one record with one layer and with two: each
# further layer adds the same.

# %% tags=["hide-input"]
# activations and logits of one record, from models of one layer and of two
LENGTH = 254  # tokens in a record


def of_size(layers, n):
    sizes = {"encoder_layers": layers, "decoder_layers": layers}
    one = PromptBart(PromptBartConfig(**(SIZE | sizes), **IDS))
    row = torch.full((n, LENGTH), 7)
    batch = {"input_ids": row, "decoder_input_ids": row, "labels": row}
    batch |= {name: value.repeat(n, 1) for name, value in patient.items()}
    return one, batch


def kept_by(layers):
    one, batch = of_size(layers, 1)
    return activation_bytes(lambda: one(**batch).loss, one)


first, second = kept_by(1), kept_by(2)
kept = first + 5 * (second - first)  # six layers on either side
logits = 4 * LENGTH * SIZE["vocab_size"]
weights = 4 * n_parameters(bart)
print(f"weights {weights / 1e6:.0f} MB; for each record", end=" ")
print(f"activations {kept / 1e6:.0f} MB, logits {logits / 1e6:.1f} MB")

# %% [markdown]
# How many records fit in 8 GB? Work it out from these three numbers and `step_bytes`.

# %%
memory = 8_000_000_000
fits = (memory - 3 * weights) // (kept + 2 * logits)
for n in (fits, fits + 1):
    needed = step_bytes(weights, n * kept, n * logits)
    print(f"{n} records: {needed:,} bytes")

# %% tags=["hide-input"]
# check: the largest batch fits, and one record more does not
assert weights == 421_601_280 and round(kept / logits, -1) == 30
assert kept > 0.2 * weights
assert step_bytes(weights, fits * kept, fits * logits) < 0.995 * memory
assert needed > 1.005 * memory  # of one record more

# %%
sizes = (1, 16, fits, 64)
peaks = [step_bytes(weights, n * kept, n * logits) / 1e9 for n in sizes]
said = ", ".join(f"{p:.1f}" for p in peaks)
picture, axes = blank_chart(
    "Which batches fit in 8 GB?",
    f"Stacked bars, the peak with {sizes} records: {said} GB. "
    f"Weights and moments are {3 * weights / 1e9:.1f} GB of each.",
)
names = [
    f"batch of {n}: {peak:.1f} GB"
    for n, peak in zip(sizes, peaks, strict=True)
]
axes.barh(names, peaks, color="#b8dce0", label="activations, gradients")
axes.barh(names, 3 * weights / 1e9, color="#7ad151", label="moments")
axes.barh(names, weights / 1e9, color="#2d708e", label="weights")
axes.axvline(8, color="#b3400e", linestyle="--", label="8 GB")
axes.set_xlabel("GB")
axes.invert_yaxis()
axes.legend()
picture

# %% [markdown]
# What exceeds the limit is the batch, not the weights.

# %% tags=["hide-input"]
# check: the peak of a forward and a backward pass at full width
one, batch = of_size(1, 4)
small_weights = held_bytes(one)
predicted = step_bytes(small_weights, 4 * first, 4 * logits)
with MemoryTrace(held=3 * small_weights) as trace:
    one(**batch).loss.backward()
assert 0.998 < trace.peak / predicted < 1.002

# %% [markdown]
# When is the memory fullest? Here is one step of a smaller model, on 16 records of
# equal length:

# %% tags=["hide-input"]
# one step of a model between the course's and BART
torch.manual_seed(SEED)
config = PromptBartConfig.for_tokenizer(tokenizer, "small")
middle = PromptBart(config).train()
optimizer = torch.optim.AdamW(middle.parameters())
middling = int(beginners.lengths.argsort(stable=True)[len(beginners) // 2])
batch = beginners.batch([middling] * 16)
middle(**batch).loss.backward()
optimizer.step()  # the first step makes the moments
optimizer.zero_grad()
weights = held_bytes(middle)
with MemoryTrace(held=3 * weights, model=middle) as trace:
    loss = middle(**batch).loss
    trace.mark("forward")
    loss.backward()
    trace.mark("backward")
    optimizer.step()
    optimizer.zero_grad()
    trace.mark("update")

# %%
total = torch.tensor(trace.bytes) / 1e6  # after each operation
low = 3 * weights / 1e6 + torch.tensor(trace.gradients) / 1e6
x = range(len(total))
starts = [0, *trace.marks.values()]
happens = {
    "forward": "activations come", "backward": "they go, gradients come",
    "update": "gradients are used",
}  # fmt: skip

# %%
picture, axes = blank_chart(
    "What fills the memory, operation by operation?",
    f"A line of MB over {len(total)} operations: it begins and ends at "
    f"{total[0]:.0f}, with a peak of {total.max():.0f}. Weights take "
    f"{weights / 1e6:.0f} of them, and moments twice as many.",
    f"The peak is {total.max():.0f} MB.", height=3.2,
)  # fmt: skip
axes.plot(x, total, color="black")
axes.fill_between(x, low, total, color="#b8dce0", label="activations")
axes.fill_between(x, low, color="#b5b9c4", label="gradients")
axes.axhspan(0, 3 * weights / 1e6, color="#7ad151", label="moments")
axes.axhspan(0, weights / 1e6, color="#2d708e", label="weights")
for start, (part, end) in zip(starts, trace.marks.items()):
    axes.axvline(end, color="grey", linestyle=":")
    at = (start + end) / 2, 1.05 * total.max()
    axes.text(*at, f"{part}:\n{happens[part]}", ha="center")
axes.set(xlabel="operations", ylabel="MB", xlim=(0, len(x)))
axes.set_ylim(0, 1.4 * total.max())
picture.legend(ncols=4, loc="outside lower center")
picture

# %% tags=["hide-input"]
# the peak of a step on 1 to 64 records of equal length
kept = activation_bytes(lambda: middle(**batch).loss, middle)
logits = 4 * batch["labels"].numel() * len(tokenizer)
predicted = step_bytes(weights, kept, logits)
assert 0.98 * predicted < trace.peak < 1.03 * predicted
assert trace.peak < 4 * weights + kept


def peak_with(n):
    batch = beginners.batch([middling] * n)
    with MemoryTrace(held=3 * weights) as trace:
        middle(**batch).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return trace.peak


peaks = {n: peak_with(n) for n in (1, 8, 16, 32, 48, 64)}
each = kept / 16, logits / 16
assert real or peaks[8] < 1.01 * peaks[1]
assert peaks[64] > 1.5 * peaks[1]
for n, peak in peaks.items():
    expected = step_bytes(weights, n * each[0], n * each[1])
    assert 0.98 < peak / expected < 1.03
bend = weights / (each[0] + 2 * each[1])
assert real or 11 < bend < 13

# %% [markdown]
# Here is `step_bytes` beside measured steps of this model. The peak is flat as long as
# the update is larger than the backward pass:

# %%
line = [step_bytes(weights, n * each[0], n * each[1]) for n in range(65)]
measured = {n: peak / 1e6 for n, peak in peaks.items()}
said = ", ".join(f"{n}: {peak:.0f}" for n, peak in measured.items())
picture, axes = blank_chart(
    "Does the prediction meet the measured peaks?",
    f"Dots, the peak of a step in MB by its records: {said}. Two straight "
    f"lines show the prediction; they meet at {bend:.0f} records.",
)
axes.plot([size / 1e6 for size in line], "--", label="predicted")
axes.plot(measured.keys(), measured.values(), "o", label="measured")
for n, peak in measured.items():
    axes.text(n, peak + 12, f"{peak:.0f}", ha="center")
axes.set(xlabel="records", ylabel="peak (MB)", ylim=(0, 1.3 * peak))
axes.set_xticks([*measured])
axes.legend(loc="lower right")
picture


# %% [markdown]
# #### 11.10 The largest batch
#
# Try It Yourself · ★★★ · 15 minutes
#
# You can run somebody else's model, but do not know its activations.
# `peak_of(n)` runs one training step on `n` records of equal length and
# returns its peak in bytes. `memory` is what the machine has, in bytes, at
# least four times `peak_of(1)`. Return the largest `n` whose step fits.
#
# As in this model, the peak is flat up to some number of records, which may be 0, and
# then rises by the same amount for each. `k` times as many records need at most `k` times
# the peak, because a part does not grow. So `peak_of(4)` is always safe.
#
# A step that needs more than `memory` ends your program, so never
# call `peak_of` with a batch that does not fit. And call it at most 12 times.
#
# Example: `check` tries machines on which the peak is the larger of 4,000
# bytes and 3,000 + 700 for each record. With 17,800 bytes, 21 records fit.

# %% tags=["exercise:11.10", "nbval-ignore-output"]
def largest_batch(peak_of: Callable[[int], int], memory: int) -> int:
    raise NotImplementedError("11.10: replace this line")


check("11.10", largest_batch)

# %% [markdown]
# ## Recap
#
# - **Attention** weighs values by a softmax over scaled products of a
#   query with the keys; a hidden key has the score minus infinity.
# - **The decoder's mask** is the lower triangle over prompts and tokens,
#   without the columns of padding.
# - **A BART** is attention and feed-forward nets, each added to what went in and normed,
#   in two stacks around one table. With the right names, it takes any BART's weights.
# - **The test** exchanges the records in the encoder and nothing else: a
#   decoder that reads them gets much worse.
#
# ## Test yourself
#
# 1. You double the number of heads and change nothing else. What happens to
#    the number of parameters, and to the width of a head?
#
# <details><summary>Answer</summary>
# The number stays the same. Each head is half as wide.
# </details>
#
# 2. The loss of a new model has halved. Its author says that it now
#    repairs records. What do you ask for?
#
# <details><summary>Answer</summary>
# The loss with the records swapped among patients. If it is the
# same, the decoder does not read them. If it is higher, the decoder reads,
# but perhaps only to copy: ask, as in lesson 09, how many lost codes come
# back.
# </details>
#
# 3. You leave out `nn.ModuleList` and keep the layers in a plain list. What goes wrong in
#    training?
#
# <details><summary>Answer</summary>
# PyTorch does not see their weights, so the optimizer never changes them. Nothing raises
# an error.
# </details>
#
# ## What comes next
#
# Try the test on your own patients: set `EHR_COURSE_DATA` as in lesson 08 and run
# this lesson again.
#
# The two prompts were taken for granted. [Lesson 12](12_conditional_prompt.ipynb)
# builds them from age and sex for your model, and shows what happens when the age goes in
# the simplest way.
#
# If you know the tutorial that this lesson follows,
# [What holds](../course/book/what_holds.md#11-model-architecture)
# says which of its claims hold.
