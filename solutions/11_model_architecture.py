# %% [markdown]
# # 11 · Model architecture: worked answers
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
from torch.nn import functional

from ehr_course.exercises import check


# %% [markdown]
# ## 11.1 Scaled dot-product attention
#
# A score for each pair of query and key, then for each query weights that
# sum to 1, then the weighted sum of the values. A hidden key gets the
# score minus infinity, whose exponential is exactly 0. The softmax runs
# over the last axis, where the keys are.

# %% tags=["answer:11.1", "nbval-ignore-output"]
def attention(query, key, value, mask):
    scores = query @ key.T  # (target, source)
    scores = scores / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)
    return weights @ value  # (target, d_value)


check("11.1", attention)


# %% [markdown]
# The same with the softmax written out. Taking off the largest visible
# score changes no weight, for it cancels in the division, and keeps every
# exponential between 0 and 1.

# %% tags=["alternative:11.1", "nbval-ignore-output"]
def attention(query, key, value, mask):
    scores = torch.einsum("td,sd->ts", query, key) * query.shape[1] ** -0.5
    if mask is None:
        mask = torch.ones_like(scores, dtype=torch.bool)
    scores = torch.where(mask, scores, -math.inf)
    powers = torch.exp(scores - scores.amax(dim=1, keepdim=True))
    weights = powers / powers.sum(dim=1, keepdim=True)
    return torch.einsum("ts,sd->td", weights, value)


check("11.1", attention)


# %% [markdown]
# ## 11.2 Causal mask with prompts
#
# Two conditions hold at once. The first is the lower triangle, over
# prompts and tokens alike. The second hides the columns of padding, in
# every row. Prompts are never padding.

# %% tags=["answer:11.2", "nbval-ignore-output"]
def decoder_mask(n_prompts, attention_mask):
    prompts = torch.ones(n_prompts, dtype=torch.bool)
    real = torch.cat([prompts, attention_mask.bool()])  # (length,)
    length = len(real)
    causal = torch.ones(length, length, dtype=torch.bool).tril()
    return causal & real


check("11.2", decoder_mask)


# %% [markdown]
# The alternative compares positions: no later one, and none beyond the
# last real one.

# %% tags=["alternative:11.2", "nbval-ignore-output"]
def decoder_mask(n_prompts, attention_mask):
    position = torch.arange(n_prompts + len(attention_mask))
    n_real = n_prompts + attention_mask.sum()
    earlier = position[None, :] <= position[:, None]
    return earlier & (position < n_real)[None, :]


check("11.2", decoder_mask)


# %% [markdown]
# ## 11.3 Embed tokens and positions
#
# First the prompts and the tokens, one behind the other. Then a position
# for each of them, from the first prompt on. BART's table keeps its first
# two rows for no position, so the slice begins at row 2.

# %% tags=["answer:11.3", "nbval-ignore-output"]
def embed(token_ids, prompts, token_table, position_table):
    tokens = token_table[token_ids]  # (length, d_model)
    vectors = torch.cat([prompts, tokens])
    rows = torch.arange(len(vectors)) + 2
    return vectors + position_table[rows]


check("11.3", embed)


# %% [markdown]
# The alternative adds the positions to each part by itself.

# %% tags=["alternative:11.3", "nbval-ignore-output"]
def embed(token_ids, prompts, token_table, position_table):
    first = 2 + len(prompts)
    tokens = functional.embedding(token_ids, token_table)
    placed_prompts = prompts + position_table[2:first]
    placed = tokens + position_table[first : first + len(token_ids)]
    return torch.vstack([placed_prompts, placed])


check("11.3", embed)


# %% [markdown]
# ## 11.4 Another patient's record
#
# The encoder reads tokens, and a mask that says which of them are real.
# These two move together. What the decoder reads and is to write stays,
# and so do age and sex: only then does a change of the loss come from the
# record in the encoder.

# %% tags=["answer:11.4", "nbval-ignore-output"]
def exchange_records(batch):
    exchanged = dict(batch)
    for name in ("input_ids", "attention_mask"):
        exchanged[name] = batch[name].roll(1, dims=0)
    return exchanged


check("11.4", exchange_records)


# %% [markdown]
# The alternative says for each row which row's record it reads, and
# indexes with that.

# %% tags=["alternative:11.4", "nbval-ignore-output"]
def exchange_records(batch):
    before = torch.arange(len(batch["labels"])) - 1  # -1 is the last row
    return batch | {
        "input_ids": batch["input_ids"][before],
        "attention_mask": batch["attention_mask"][before],
    }


check("11.4", exchange_records)


# %% [markdown]
# ## 11.5 Count the parameters of BART
#
# Every linear layer has in x out weights and out biases, every layer norm
# has a weight and a bias for each of the `d_model` numbers. The table of
# tokens stands once, for encoder, decoder and output layer. The tables of
# positions stand twice, each with two rows more than there are positions.
# The heads do not occur.

# %% tags=["answer:11.5", "nbval-ignore-output"]
def count_parameters(
    vocab_size,
    d_model,
    encoder_layers,
    decoder_layers,
    heads,
    ffn_dim,
    positions,
):
    norm = 2 * d_model
    attention = 4 * (d_model * d_model + d_model)
    ffn = 2 * d_model * ffn_dim + (ffn_dim + d_model)
    tokens = vocab_size * d_model
    places = 2 * (positions + 2) * d_model
    encoder = norm + encoder_layers * (attention + ffn + 2 * norm)
    decoder = norm + decoder_layers * (2 * attention + ffn + 3 * norm)
    return tokens + places + encoder + decoder


check("11.5", count_parameters)


# %% [markdown]
# The alternative lists the shapes of all linear layers and adds up what
# is left. It is longer, and easier to compare with a printed model.

# %% tags=["alternative:11.5", "nbval-ignore-output"]
def count_parameters(
    vocab_size,
    d_model,
    encoder_layers,
    decoder_layers,
    heads,
    ffn_dim,
    positions,
):
    blocks = encoder_layers + 2 * decoder_layers
    layers = encoder_layers + decoder_layers
    linear = [(d_model, d_model)] * 4 * blocks
    linear += [(d_model, ffn_dim), (ffn_dim, d_model)] * layers
    n_norms = 2 * encoder_layers + 3 * decoder_layers + 2
    rows = vocab_size + 2 * (positions + 2)
    weights = sum(inside * out + out for inside, out in linear)
    return weights + n_norms * 2 * d_model + rows * d_model


check("11.5", count_parameters)


# %% [markdown]
# ## 11.6 The largest batch
#
# Twice as many records take at most twice as many bytes, because weights
# and moments do not double. So doubling is safe while twice the peak still
# fits. It ends above half of the memory. Half that batch then takes more
# than a quarter, which is more than one record takes: both sizes lie where
# every record adds the same.

# %% tags=["answer:11.6", "nbval-ignore-output"]
def largest_batch(peak_of, memory):
    n, peak = 1, peak_of(1)
    while 2 * peak <= memory:  # 2 * n records take at most twice as much
        before, n = peak, 2 * n
        peak = peak_of(n)
    each = (peak - before) // (n - n // 2)  # bytes a record
    return n + (memory - peak) // each


check("11.6", largest_batch)


# %% [markdown]
# The alternative goes as far as is safe in one jump: a batch can be
# multiplied by as often as its peak goes into the memory. It then measures
# half of the batch it has reached, and solves for the bytes that no record
# adds.

# %% tags=["alternative:11.6", "nbval-ignore-output"]
def largest_batch(peak_of, memory):
    n, peak = 1, peak_of(1)
    while memory // peak > 1:
        n *= memory // peak
        peak = peak_of(n)
    half = math.ceil(n / 2)
    each = (peak - peak_of(half)) / (n - half)
    fixed = peak - n * each
    return math.floor((memory - fixed) / each)


check("11.6", largest_batch)
