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
from torch import nn
from torch.nn import functional

from ehr_course.exercises import check, mine


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
# ## 11.3 Attention with heads
#
# Four linear layers. `view` cuts the width of each position into heads,
# and `transpose` brings the heads before the positions, so that `@` works on
# each head by itself. The mask gets an axis of size 1 for the heads. At the
# end the way back: transpose, then join the last two axes.

# %% tags=["answer:11.3", "nbval-ignore-output"]
class Attention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def split(self, x):
        batch, length, d_model = x.shape
        d_head = d_model // self.n_heads
        x = x.view(batch, length, self.n_heads, d_head)
        return x.transpose(1, 2)  # (batch, heads, length, d_head)

    def forward(self, reader, read, mask):
        query = self.split(self.q_proj(reader))
        key = self.split(self.k_proj(read))
        value = self.split(self.v_proj(read))
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        scores = scores.masked_fill(~mask[:, None], -math.inf)
        result = scores.softmax(dim=-1) @ value
        joined = result.transpose(1, 2).flatten(2)
        return self.out_proj(joined)


check("11.3", Attention)


# %% [markdown]
# With PyTorch's own attention, which needs no memory for the weights, and
# `unflatten` for the split. This is what you would write at work.

# %% tags=["alternative:11.3", "nbval-ignore-output"]
class Attention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            setattr(self, name, nn.Linear(d_model, d_model))

    def forward(self, reader, read, mask):
        query, key, value = (
            project(x).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for project, x in (
                (self.q_proj, reader),
                (self.k_proj, read),
                (self.v_proj, read),
            )
        )
        result = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=mask.unsqueeze(1)
        )
        return self.out_proj(result.transpose(1, 2).flatten(2))


check("11.3", Attention)

# %% [markdown]
# ## 11.4 An encoder layer
#
# Twice the same pattern: what a part computes is added to what went into it,
# and the sum is normed. BART norms after the sum. (Many later models norm
# before the part; see Xiong et al. 2020.)

# %% tags=["answer:11.4", "nbval-ignore-output"]
Attention = mine("11.3")


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.self_attn = Attention(d_model, n_heads)
        self.self_attn_layer_norm = nn.LayerNorm(d_model)
        self.fc1 = nn.Linear(d_model, d_ff)
        self.fc2 = nn.Linear(d_ff, d_model)
        self.final_layer_norm = nn.LayerNorm(d_model)

    def forward(self, x, mask):
        read = self.self_attn(x, x, mask)
        x = self.self_attn_layer_norm(x + read)
        changed = self.fc2(functional.gelu(self.fc1(x)))
        return self.final_layer_norm(x + changed)


check("11.4", EncoderLayer)

# %% [markdown]
# The alternative has the feed-forward net in a method of its own.

# %% tags=["alternative:11.4", "nbval-ignore-output"]
Attention = mine("11.3")


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.self_attn = Attention(d_model, n_heads)
        self.self_attn_layer_norm = nn.LayerNorm(d_model)
        self.fc1 = nn.Linear(d_model, d_ff)
        self.fc2 = nn.Linear(d_ff, d_model)
        self.final_layer_norm = nn.LayerNorm(d_model)
        self.gelu = nn.GELU()

    def feed_forward(self, x):
        return self.fc2(self.gelu(self.fc1(x)))

    def forward(self, x, mask):
        x = x + self.self_attn(x, x, mask)
        x = self.self_attn_layer_norm(x)
        return self.final_layer_norm(x + self.feed_forward(x))


check("11.4", EncoderLayer)

# %% [markdown]
# ## 11.5 A decoder layer
#
# The encoder layer again, with one part more between its two. What reads is
# the decoder, so `x` makes the queries, and `memory` the keys and values.

# %% tags=["answer:11.5", "nbval-ignore-output"]
Attention = mine("11.3")


class DecoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__()
        self.self_attn = Attention(d_model, n_heads)
        self.self_attn_layer_norm = nn.LayerNorm(d_model)
        self.encoder_attn = Attention(d_model, n_heads)
        self.encoder_attn_layer_norm = nn.LayerNorm(d_model)
        self.fc1 = nn.Linear(d_model, d_ff)
        self.fc2 = nn.Linear(d_ff, d_model)
        self.final_layer_norm = nn.LayerNorm(d_model)

    def forward(self, x, mask, memory, memory_mask):
        written = self.self_attn(x, x, mask)
        x = self.self_attn_layer_norm(x + written)
        read = self.encoder_attn(x, memory, memory_mask)
        x = self.encoder_attn_layer_norm(x + read)
        changed = self.fc2(functional.gelu(self.fc1(x)))
        return self.final_layer_norm(x + changed)


check("11.5", DecoderLayer)

# %% [markdown]
# A decoder layer is an encoder layer that has one part more, so it can be
# one. Without the cross-attention it is a layer of a decoder-only model.

# %% tags=["alternative:11.5", "nbval-ignore-output"]
Attention = mine("11.3")
EncoderLayer = mine("11.4")


class DecoderLayer(EncoderLayer):
    def __init__(self, d_model, n_heads, d_ff):
        super().__init__(d_model, n_heads, d_ff)
        self.encoder_attn = Attention(d_model, n_heads)
        self.encoder_attn_layer_norm = nn.LayerNorm(d_model)

    def forward(self, x, mask, memory, memory_mask):
        x = self.self_attn_layer_norm(x + self.self_attn(x, x, mask))
        read = self.encoder_attn(x, memory, memory_mask)
        x = self.encoder_attn_layer_norm(x + read)
        changed = self.fc2(functional.gelu(self.fc1(x)))
        return self.final_layer_norm(x + changed)


check("11.5", DecoderLayer)


# %% [markdown]
# ## 11.6 A stack of layers
#
# Position p is row p + 2 of BART's table. `nn.ModuleList` tells the module
# that the layers are its own: without it their weights would neither be
# trained nor loaded.

# %% tags=["answer:11.6", "nbval-ignore-output"]
class Stack(nn.Module):
    def __init__(self, layers, d_model, n_positions):
        super().__init__()
        self.embed_positions = nn.Embedding(n_positions + 2, d_model)
        self.layernorm_embedding = nn.LayerNorm(d_model)
        self.layers = nn.ModuleList(layers)

    def forward(self, vectors, *given):
        length = vectors.shape[1]
        rows = torch.arange(length, device=vectors.device) + 2
        x = vectors + self.embed_positions(rows)
        x = self.layernorm_embedding(x)
        for layer in self.layers:
            x = layer(x, *given)
        return x


check("11.6", Stack)


# %% [markdown]
# A slice of the table does the same as looking up its rows.

# %% tags=["alternative:11.6", "nbval-ignore-output"]
class Stack(nn.Module):
    def __init__(self, layers, d_model, n_positions):
        super().__init__()
        self.embed_positions = nn.Embedding(2 + n_positions, d_model)
        self.layernorm_embedding = nn.LayerNorm(d_model)
        self.layers = nn.ModuleList()
        for layer in layers:
            self.layers.append(layer)

    def forward(self, vectors, *given):
        _, length, _ = vectors.shape
        positions = self.embed_positions.weight[2 : 2 + length]
        x = self.layernorm_embedding(vectors + positions[None])
        for layer in self.layers:
            x = layer(x, *given)
        return x


check("11.6", Stack)

# %% [markdown]
# ## 11.7 TinyBart
#
# One table of tokens in three places: before the encoder, before the decoder
# and after it. Prompts are real on both sides. In the decoder they take part in
# everything and are cut off at the end, because nothing is written there.

# %% tags=["answer:11.7", "nbval-ignore-output"]
EncoderLayer, DecoderLayer = mine("11.4"), mine("11.5")
Stack = mine("11.6")


class TinyBart(nn.Module):
    def __init__(
        self, n_tokens, d_model, n_heads, d_ff, n_layers, n_positions
    ):
        super().__init__()
        self.shared = nn.Embedding(n_tokens, d_model)
        size = d_model, n_heads, d_ff
        encoder = [EncoderLayer(*size) for _ in range(n_layers)]
        decoder = [DecoderLayer(*size) for _ in range(n_layers)]
        self.encoder = Stack(encoder, d_model, n_positions)
        self.decoder = Stack(decoder, d_model, n_positions)

    def encode(self, ids, attention_mask, prompts):
        x = torch.cat([prompts, self.shared(ids)], dim=1)
        before = attention_mask.new_ones(prompts.shape[:2])
        real = torch.cat([before, attention_mask], dim=1).bool()
        memory_mask = real[:, None]  # (batch, 1, prompts + source)
        return self.encoder(x, memory_mask), memory_mask

    def decode(self, ids, prompts, memory, memory_mask):
        x = torch.cat([prompts, self.shared(ids)], dim=1)
        length, n_prompts = x.shape[1], prompts.shape[1]
        causal = torch.ones(length, length, device=x.device).tril().bool()
        x = self.decoder(x, causal[None], memory, memory_mask)
        return x[:, n_prompts:]

    def forward(
        self, ids, attention_mask, decoder_ids, prompts, decoder_prompts
    ):
        memory, memory_mask = self.encode(ids, attention_mask, prompts)
        x = self.decode(decoder_ids, decoder_prompts, memory, memory_mask)
        return x @ self.shared.weight.T


check("11.7", TinyBart)

# %% [markdown]
# The alternative takes the mask of 11.2, pads the encoder's mask with ones,
# and writes the head as a linear layer without a bias.

# %% tags=["alternative:11.7", "nbval-ignore-output"]
EncoderLayer, DecoderLayer = mine("11.4"), mine("11.5")
Stack = mine("11.6")
decoder_mask = mine("11.2")


class TinyBart(nn.Module):
    def __init__(
        self, n_tokens, d_model, n_heads, d_ff, n_layers, n_positions
    ):
        super().__init__()
        self.shared = nn.Embedding(n_tokens, d_model)
        for side in ("encoder", "decoder"):
            kind = EncoderLayer if side == "encoder" else DecoderLayer
            layers = nn.ModuleList()
            for _ in range(n_layers):
                layers.append(kind(d_model, n_heads, d_ff))
            setattr(self, side, Stack(layers, d_model, n_positions))

    def embed(self, prompts, ids):
        return torch.cat([prompts, self.shared(ids)], dim=1)

    def encode(self, ids, attention_mask, prompts):
        n_prompts = prompts.shape[1]
        real = functional.pad(attention_mask, (n_prompts, 0), value=1)
        mask = real.bool().unsqueeze(1)
        return self.encoder(self.embed(prompts, ids), mask), mask

    def decode(self, ids, prompts, memory, memory_mask):
        causal = decoder_mask(prompts.shape[1], torch.ones_like(ids[0]))
        vectors = self.embed(prompts, ids)
        states = self.decoder(vectors, causal[None], memory, memory_mask)
        return states[:, -ids.shape[1] :]

    def forward(
        self, ids, attention_mask, decoder_ids, prompts, decoder_prompts
    ):
        read = self.encode(ids, attention_mask, prompts)
        states = self.decode(decoder_ids, decoder_prompts, *read)
        return functional.linear(states, self.shared.weight)


check("11.7", TinyBart)


# %% [markdown]
# ## 11.8 Another patient's record
#
# The encoder reads tokens, and a mask that says which of them are real.
# These two move together. What the decoder reads and is to write stays,
# and so do age and sex: only then does a change of the loss come from the
# record in the encoder.

# %% tags=["answer:11.8", "nbval-ignore-output"]
def exchange_records(batch):
    exchanged = dict(batch)
    for name in ("input_ids", "attention_mask"):
        exchanged[name] = batch[name].roll(1, dims=0)
    return exchanged


check("11.8", exchange_records)


# %% [markdown]
# The alternative says for each row which row's record it reads, and
# indexes with that.

# %% tags=["alternative:11.8", "nbval-ignore-output"]
def exchange_records(batch):
    before = torch.arange(len(batch["labels"])) - 1  # -1 is the last row
    return batch | {
        "input_ids": batch["input_ids"][before],
        "attention_mask": batch["attention_mask"][before],
    }


check("11.8", exchange_records)


# %% [markdown]
# ## 11.9 Count the parameters of BART
#
# Every linear layer has in x out weights and out biases, every layer norm
# has a weight and a bias for each of the `d_model` numbers. The table of
# tokens stands once, for encoder, decoder and output layer. The tables of
# positions stand twice, each with two rows more than there are positions.
# The heads do not occur.

# %% tags=["answer:11.9", "nbval-ignore-output"]
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


check("11.9", count_parameters)


# %% [markdown]
# The alternative lists the shapes of all linear layers and adds up what
# is left. It is longer, and easier to compare with a printed model.

# %% tags=["alternative:11.9", "nbval-ignore-output"]
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


check("11.9", count_parameters)


# %% [markdown]
# ## 11.10 The largest batch
#
# Twice as many records take at most twice as many bytes, because weights
# and moments do not double. So doubling is safe while twice the peak still
# fits. It ends above half of the memory. Half that batch then takes more
# than a quarter, which is more than one record takes: both sizes lie where
# every record adds the same.

# %% tags=["answer:11.10", "nbval-ignore-output"]
def largest_batch(peak_of, memory):
    n, peak = 1, peak_of(1)
    while 2 * peak <= memory:  # 2 * n records take at most twice as much
        before, n = peak, 2 * n
        peak = peak_of(n)
    each = (peak - before) // (n - n // 2)  # bytes a record
    return n + (memory - peak) // each


check("11.10", largest_batch)


# %% [markdown]
# The alternative goes as far as is safe in one jump: a batch can be
# multiplied by as often as its peak goes into the memory. It then measures
# half of the batch it has reached, and solves for the bytes that no record
# adds.

# %% tags=["alternative:11.10", "nbval-ignore-output"]
def largest_batch(peak_of, memory):
    n, peak = 1, peak_of(1)
    while memory // peak > 1:
        n *= memory // peak
        peak = peak_of(n)
    half = math.ceil(n / 2)
    each = (peak - peak_of(half)) / (n - half)
    fixed = peak - n * each
    return math.floor((memory - fixed) / each)


check("11.10", largest_batch)
