# %% [markdown]
# # 11 · Model architecture
#
# 105 minutes · Prerequisites: 10
#
# You will be able to:
#
# - Compute scaled dot-product attention, with and without a mask.
# - Write the mask of a decoder that begins with prompts.
# - Predict the number of parameters of BART at any size, exactly.
# - Tell self-attention from cross-attention by what each reads.
# - Test whether a decoder reads its encoder.

# %% [markdown]
# ## How large is this model?
#
# The model of this course is BART. An encoder reads the corrupted record,
# all of it at once. A decoder writes the clean record, one token after
# the other, and looks at what the encoder made of the corrupted one. Age
# and sex stand before both as prompts: vectors in the places of tokens.
#
# Before you train it, somebody asks: how many parameters does it have,
# and will it fit on our machine? The tutorial that this lesson follows
# says 65 million in a table and 119 million in its summary. Another
# description of the same system says 245 million. Which one is it?

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %%
import copy
import math

import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BartConfig, BartForConditionalGeneration
from transformers.models.bart.modeling_bart import BartAttention

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.plan import BatchPlan
from ehr_course.errors import InputError
from ehr_course.exercises import check, hint, progress
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.models.saved import load_checkpoint
from ehr_course.sources.patients import choose_patients, real_data
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.trainer import train
from ehr_course.widgets.attention import attention_explorer

# %% [markdown]
# This is the size in the tutorial; the other description differs in the
# vocabulary. You need no memory to count: on PyTorch's `meta` device a
# tensor has a shape and no numbers.

# %%
SIZE = {
    "vocab_size": 6_992,
    "d_model": 768,  # the width of every vector
    "encoder_layers": 6,
    "decoder_layers": 6,
    "encoder_attention_heads": 12,
    "decoder_attention_heads": 12,
    "encoder_ffn_dim": 3_072,  # the feed-forward nets
    "decoder_ffn_dim": 3_072,
    "max_position_embeddings": 512,
}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def shapes_of(kind, config):
    with torch.device("meta"):
        return kind(config)


def n_parameters(module):
    return sum(p.numel() for p in module.parameters())


# %% tags=["claim:15"]
bart = shapes_of(BartForConditionalGeneration, BartConfig(**SIZE, **IDS))
prompted = shapes_of(PromptBart, PromptBartConfig(**SIZE, **IDS))
twice_as_long = SIZE | {"max_position_embeddings": 1_024}
longer = shapes_of(
    BartForConditionalGeneration, BartConfig(**twice_as_long, **IDS)
)
print(f"BART of this size         {n_parameters(bart):,}")
print(f"with 1,024 positions      {n_parameters(longer):,}")
print(f"with prompts on two sides {n_parameters(prompted):,}")
assert n_parameters(bart) == 105_400_320
assert n_parameters(longer) == 106_186_752
assert n_parameters(prompted) == 105_794_816


# %% [markdown]
# It is none of the three. BART of this size has 105,400,320 parameters,
# and 105,794,816 with age and sex as prompts at the encoder and again at
# the decoder. Lesson 13 adds two small classifiers that guess age and sex
# from what the decoder wrote. The descriptions give them a hidden layer of
# 256, or none. Count those too.

# %%
def mlp(n_classes):
    with torch.device("meta"):
        hidden, out = nn.Linear(768, 256), nn.Linear(256, n_classes)
    return n_parameters(hidden) + n_parameters(out)


age_head, sex_head = mlp(6), mlp(2)
with torch.device("meta"):
    small_sex_head = n_parameters(nn.Linear(768, 2))
whole = n_parameters(prompted) + age_head + sex_head
print(f"age {age_head:,}, sex {sex_head:,} or {small_sex_head:,}")
print(f"with both {whole:,}")
assert whole == 106_190_600 and small_sex_head == 1_538

# %% [markdown]
# They are small beside the rest. The tutorial also prints an exercise
# that builds "the same" model from six of these numbers. `BartConfig`
# fills in the others, as the published BART has them.

# %%
six = {name: SIZE[name] for name in list(SIZE)[:6]}
config = BartConfig(**six)
count = n_parameters(shapes_of(BartForConditionalGeneration, config))
print(f"{count:,} parameters, {config.encoder_ffn_dim:,} wide inside,")
print(f"{config.max_position_embeddings:,} positions,", end=" ")
print(f"and padding is token {config.pad_token_id}")
assert count == 125_073_408
assert config.pad_token_id == CodeTokenizer.bos_id

# %% [markdown]
# Nearly 20 million more, and in that model our `<BOS>`, which is token 1,
# counts as padding. Write all sizes and all ids into the config.
#
# ### One table for everything
#
# How does one get so far off? The other description counts 105 million
# weights for the embeddings of the codes alone, and gives as the size of
# the vocabulary "5,569, which is BART's 50,265 and 7 and 5,562". Add it
# up.

# %% tags=["claim:17"]
print(f"7 + 5,562 = {7 + 5_562:,}")
print(f"with BART's 50,265 it would be {50_265 + 7 + 5_562:,}")
config = BartConfig(**(SIZE | {"vocab_size": 5_569}), **IDS)
bart = shapes_of(BartForConditionalGeneration, config)
table = bart.model.shared.weight
print(f"the table is {tuple(table.shape)}: {table.numel():,} weights")
print(f"of {n_parameters(bart):,} in the whole model")
same = [
    bart.model.encoder.embed_tokens.weight is table,
    bart.model.decoder.embed_tokens.weight is table,
    bart.lm_head.weight is table,
]
print("encoder, decoder and output layer use it:", same)
assert 7 + 5_562 == 5_569 and table.numel() == 4_276_992 and all(same)

# %% [markdown]
# A vocabulary of 5,569 holds no token of the published BART. Its table
# has 4,276,992 weights and not 105 million, and it stands once: the
# encoder looks tokens up in it, the decoder does, and the output layer
# compares with it what the decoder made. So the output layer adds nothing
# to the count.
#
# ## Attention
#
# Attention is where positions read each other; all other parts of a layer
# treat each position by itself. A position asks with its **query**. Every
# position can be found by its **key** and is read as its **value**. For
# each query there is a weight for each key; the weights sum to 1, and
# what comes out is the sum of the values with these weights:
#
# $$\text{attention}(Q, K, V) =
# \text{softmax}\!\left(\frac{QK^\top}{\sqrt{d}}\right) V$$
#
# Why the root of $d$, the width of a query? Draw queries and keys whose
# numbers have the spread 1, and look at their dot products.

# %%
generator = torch.Generator().manual_seed(SEED)
for d in (4, 64, 768):
    query = torch.randn(2_000, d, generator=generator)
    key = torch.randn(2_000, 10, d, generator=generator)
    score = (key @ query[:, :, None]).squeeze(-1)  # (2000, 10)
    plain = score.softmax(-1).amax(-1).mean()
    scaled = (score / math.sqrt(d)).softmax(-1).amax(-1).mean()
    print(f"d = {d:3}: spread {score.std():4.1f}, largest weight", end=" ")
    print(f"{plain:.2f}, scaled {scaled:.2f}")
    assert abs(score.std() / math.sqrt(d) - 1) < 0.1 and scaled < 0.4

# %% [markdown]
# The spread of a dot product is the root of $d$. Unscaled, at 768, one of
# ten keys gets nearly all the weight where numbers have the spread 1. A
# weight $p$ changes with its score by $p(1-p)$, so near 0 and near 1 there
# is hardly a gradient. Scaled, the weights are alike at every width.
#
# A **mask** says which key a query may read. A key that it may not read
# gets the weight 0, and the others still sum to 1. A score of minus
# infinity does that, because its exponential is 0.

# %%
score = torch.tensor([[1.0, 2.0, 3.0]])
may_read = torch.tensor([[True, True, False]])
print("all three      ", score.softmax(-1))
hidden = score.masked_fill(~may_read, -math.inf)
print("without a third", hidden.softmax(-1))


# %% [markdown]
# ### 11.1 Scaled dot-product attention
#
# Try It Yourself · ★★ · 12 minutes
#
# `query` is (target, d), `key` (source, d), `value` (source, d_value).
# `mask` is boolean, (target, source), `True` where the query may read the
# key, or `None` when everything may be read. Each row has a `True`.
# Return what each query reads, (target, d_value). Write the three steps
# yourself; PyTorch's own function is what you are compared with. (Scores
# may be large: a softmax of your own must not overflow.)
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
# ### Heads
#
# Twelve heads ask at the same time. The tutorial counts the parameters of
# attention as 768 x (4 x 768) x 12 heads x 6 layers, and says that this
# is 17 million. Build the attention block with 1, 4 and 12 heads.

# %% tags=["claim:16"]
print(f"the product is {768 * (4 * 768) * 12 * 6:,}")
config = BartConfig(**SIZE, **IDS)
for heads in (1, 4, 12):
    with torch.device("meta"):
        block = BartAttention(768, heads, config=config)
    names = [name for name, _ in block.named_children()]
    print(f"{heads:2} heads: {n_parameters(block):,} in", *names)
    assert n_parameters(block) == 4 * 768 * 768 + 4 * 768
print(f"6 layers of them: {6 * n_parameters(block):,}")
assert 6 * n_parameters(block) == 14_174_208

# %% [markdown]
# The product is 170 million, ten times what the tutorial says it is, and
# neither is right: six blocks have 14,174,208. Heads add no parameters.
# Query, key, value and output are one linear map
# each, with 768 x 768 weights and 768 biases, whatever the number of
# heads. The heads divide the 768 numbers among them, 64 for each.

# %%
states = torch.randn(2, 5, 768, generator=generator)  # (batch, length, d)
heads = states.view(2, 5, 12, 64)  # (batch, length, head, d_head)
heads = heads.transpose(1, 2)  # (batch, head, length, d_head)
read = functional.scaled_dot_product_attention(heads, heads, heads)
joined = read.transpose(1, 2).flatten(2)
print(tuple(heads.shape), "->", tuple(joined.shape))

# %% [markdown]
# ## Who may read what?
#
# The encoder is called bidirectional and the decoder causal. Find out
# what that means without opening either: change one token, and see at
# which positions the output changes.
#
# The course has a small model of this kind, trained on 4,000 patients of
# the embedded hospital. Load it, and patients that it has never seen.
# (With `EHR_COURSE_DATA` these are yours. The model knows the codes of
# the embedded hospital only, and others are left out.)

# %%
loaded = load_checkpoint("tiny_prompt_bart")
model = loaded.model
tokenizer = CodeTokenizer(loaded.tokenizer.codes, unseen="skip")
real = real_data() is not None
sizes = {"tiny": 1_200, "small": 6_000, "full": 46_520}
records = choose_patients(sizes[PROFILE], seed=1_000 + SEED)
print(f"{len(records):,} patients,", end=" ")
print(f"{n_parameters(model):,} parameters, {len(tokenizer)} tokens")

# %%
codes = tokenizer.codes
ids = torch.tensor([tokenizer.encode([[codes[3], codes[8]]])])
patient = {
    "x_num": torch.tensor([[64.0]]),  # age in years
    "x_cat": torch.tensor([[1]]),  # 1 is F
}
names = ["<age>", "<sex>", *(tokenizer.id_to_token(i) for i in ids[0])]
print(*names)


# %% [markdown]
# The prompts of age and sex are two positions before the tokens. Read the
# last layer of either side, prompts included. What the encoder hands to
# the decoder stays the same all the time.

# %%
@torch.no_grad()
def encoder_output(ids):
    return model.encode(ids, **patient)[0].last_hidden_state


with torch.no_grad():  # the encoder reads <BOS> <mask> <EOS>
    encoded = model.encode(torch.tensor([[1, 6, 2]]), **patient)[0]


@torch.no_grad()
def decoder_output(ids, patient=patient):
    out = model(
        encoder_outputs=encoded,
        decoder_input_ids=ids,
        output_hidden_states=True,
        **patient,
    )
    return out.decoder_hidden_states[-1]


def changes(output, ids):
    before, rows = output(ids), []  # (1, 2 + length, d_model)
    for place in range(ids.shape[1]):
        other = ids.clone()
        other[0, place] = tokenizer.code_to_id(codes[20])  # another code
        difference = (output(other) - before).abs().amax(-1)[0]
        rows.append(difference > 1e-6)
    return torch.stack(rows)  # (changed token, position of the output)


# %%
def show(changed, of):
    print("changed     what changes at", *names)
    for name, row in zip(of, changed.tolist(), strict=True):
        marks = ("x" if one else "." for one in row)
        print(f"{name:>7}", " " * 18, *map("{:^5}".format, marks))


in_encoder = changes(encoder_output, ids)
in_decoder = changes(decoder_output, ids)
show(in_encoder, names[2:])
show(in_decoder, names[2:])
length = ids.shape[1]
assert in_encoder.all()
assert (in_decoder == torch.ones(length, length + 2).triu(2).bool()).all()

# %% [markdown]
# In the encoder every token changes every output: each position reads all
# others, before it and behind it. In the decoder a token changes its own
# output and the later ones, never an earlier one. That is what makes a
# decoder a writer: at a position it has not seen what comes next. And no
# token changes a prompt, because the prompts stand first. Now change the
# age, then the sex, for the decoder alone.

# %%
before, rows = decoder_output(ids), []
for feature, value in (("x_num", 84), ("x_cat", 0)):
    other = patient | {feature: torch.full_like(patient[feature], value)}
    difference = (decoder_output(ids, other) - before).abs().amax(-1)[0]
    rows.append(difference > 1e-6)
show(torch.stack(rows), names[:2])
assert rows[0].all() and rows[1][1:].all() and not rows[1][0]

# %% [markdown]
# A prompt reaches all tokens. Among the prompts the same rule holds as
# among tokens: the age stands first, so it does not see the sex.
#
# ### How many prompts?
#
# Two documents put one prompt before a sequence, the tutorial's own code
# makes two. Both can be had.

# %% tags=["claim:18"]
lengths = {}
for combination in ("concat", "sum"):
    config = PromptBartConfig.for_tokenizer(
        tokenizer, prompt_combination=combination
    )
    read, mask = PromptBart(config).eval().encode(
        ids, torch.ones_like(ids), **patient
    )
    lengths[combination] = read.last_hidden_state.shape[1]
    print(f"{combination:>6}: {ids.shape[1]} tokens become", end=" ")
    print(f"{lengths[combination]} positions, mask {tuple(mask.shape)}")
assert lengths["concat"] == ids.shape[1] + 2
assert lengths["sum"] == ids.shape[1] + 1


# %% [markdown]
# Set beside each other (`concat`), age and sex are two prompts; added up
# (`sum`), they are one. This course sets them beside each other unless you
# say otherwise. Either way the attention mask grows with them: a prompt is
# no padding.

# %% [markdown]
# ### 11.2 Causal mask with prompts
#
# Try It Yourself · ★★ · 8 minutes
#
# A decoder reads `n_prompts` prompts and then the tokens of one record.
# `attention_mask` is (tokens,), 1 on real tokens and 0 on the padding
# behind them. Return a boolean mask, (n_prompts + tokens, n_prompts +
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
# ## What the decoder reads
#
# A causal mask alone is not enough. If the decoder read the record as it
# is, position 5 would read token 5 and be asked to predict token 5. So it
# reads the record shifted by one: a start token, then everything but the
# last. BART starts with `<EOS>`. In a batch:

# %%
limit = {"max_tokens": model.max_tokens, "too_long": "cut"}
dataset = RecordDataset(records, tokenizer, **limit)
by_length = dataset.lengths.argsort(kind="stable")
short, long = by_length[[0, len(by_length) // 2]]
batch = dataset.batch([short, long])
for name in ("labels", "decoder_input_ids"):
    print(name)
    print(batch[name][0].tolist())


# %% [markdown]
# ### 11.3 Shift right
#
# Try It Yourself · ★ · 5 minutes
#
# `labels` is int64, (batch, length), with -100 on padding and nowhere
# else. Return the decoder's input, of the same shape: each row starts
# with 2 (`<EOS>`), whatever it ends with, then come its labels without the
# last column, and -100 becomes 0 (`<PAD>`). Leave `labels` as it is.
#
# Example: `shift_right(torch.tensor([[1, 3, 9, 4, 2, -100]]))` is
# `[[2, 1, 3, 9, 4, 2]]`.
#
# Where labels are -100 on real tokens as well, because the loss is to
# skip them, this loses those tokens. Lesson 09 shows what comes of that.

# %% tags=["exercise:11.3", "nbval-ignore-output"]
def shift_right(labels: Tensor) -> Tensor:
    raise NotImplementedError("11.3: replace this line")


check("11.3", shift_right)

# %% [markdown]
# ### What the decoder returns
#
# The tutorial follows six tokens and one prompt through the decoder: it
# returns seven positions, and the loss compares their logits with the six
# labels. Do that, with the two prompts of our model.

# %% tags=["claim:20"]
labels = ids  # (1, 6)
states = decoder_output(torch.tensor([[2, *ids[0, :-1]]]))
with torch.no_grad():
    logits = model.lm_head(states)  # (1, 8, vocabulary)
message = ""
try:
    functional.cross_entropy(logits[0], labels[0])
except ValueError as error:
    message = str(error)
print(message)
cut = logits[:, 2:]  # (1, 6, vocabulary)
loss = functional.cross_entropy(cut[0], labels[0])
print(f"cut: {cut.shape[1]} logits, {labels.shape[1]} labels")
assert "batch_size" in message and torch.isfinite(loss)
assert cut.shape[:2] == labels.shape

# %% [markdown]
# The positions of the prompts are cut off before the output layer: nothing
# is to be predicted there. The first logits that count are those of the
# start token.
#
# ## Count it yourself
#
# Three parts you have not met. A *feed-forward net* is two linear layers,
# from `d_model` to `ffn_dim` and back, applied to each position by itself.
# A *layer norm* rescales each vector, with a weight and a bias for each of
# its numbers. And each position has a learned vector, which is added to
# the token's; a later section shows how. A layer of the encoder and one of
# the decoder, at a small size:

# %%
config = BartConfig(
    vocab_size=50, d_model=8, encoder_ffn_dim=20, decoder_ffn_dim=20,
    encoder_attention_heads=2, decoder_attention_heads=2,
    max_position_embeddings=30, **IDS,
)  # fmt: skip
small = shapes_of(BartForConditionalGeneration, config).model
for side in (small.encoder, small.decoder):
    print(type(side.layers[0]).__name__)
    for name, part in side.layers[0].named_children():
        if n_parameters(part):
            shapes = [tuple(p.shape) for p in part.parameters()]
            print(f"  {name:22} {n_parameters(part):4} ", *shapes[:4])

# %% [markdown]
# And what stands beside the layers. The tables of positions have 32 rows
# for 30 positions: BART keeps two rows of each for no position at all.

# %%
for side in (small.encoder, small.decoder):
    for name, part in side.named_children():
        if name != "layers":
            shapes = [tuple(p.shape) for p in part.parameters()]
            print(f"{type(side).__name__}.{name:20}", *shapes)


# %% [markdown]
# ### 11.4 Count the parameters of BART
#
# Try It Yourself · ★★★ · 14 minutes
#
# Return the number of parameters of `BartForConditionalGeneration`, as a
# whole number and exactly. Encoder and decoder have the same heads and
# the same `ffn_dim`. The output layer shares its weights with the table
# of tokens and has no bias of its own.
#
# Example: `count_parameters(6992, 768, 6, 6, 12, 3072, 512)` is
# `105400320`.

# %% tags=["exercise:11.4", "nbval-ignore-output"]
def count_parameters(
    vocab_size: int,
    d_model: int,
    encoder_layers: int,
    decoder_layers: int,
    heads: int,
    ffn_dim: int,
    positions: int,
) -> int:
    raise NotImplementedError("11.4: replace this line")


check("11.4", count_parameters)

# %% [markdown]
# ## How the decoder reads the encoder
#
# In **self-attention** queries, keys and values all come from the same
# positions. In **cross-attention** the queries come from the decoder, keys
# and values from the encoder. That is the only way by which anything that
# the encoder read reaches the decoder. It is the same class twice; the
# argument `key_value_states` makes the difference.

# %%
torch.manual_seed(SEED)
config = BartConfig(attn_implementation="eager")
block = BartAttention(8, 2, config=config, layer_idx=0).eval()
decoder_states, encoder_states = torch.randn(1, 3, 8), torch.randn(1, 5, 8)
own = block(decoder_states)[0]
crossed = block(decoder_states, key_value_states=encoder_states)[0]
misnamed = block(decoder_states, encoder_hidden_states=encoder_states)[0]
print("reads the encoder:      ", not torch.equal(crossed, own))
print("with the wrong argument:", not torch.equal(misnamed, own))
assert not torch.allclose(crossed, own) and torch.equal(misnamed, own)


# %% [markdown]
# The last line is the tutorial's call, `encoder_attn(h,
# encoder_hidden_states=...)`. This version of transformers accepts the
# argument and ignores it. Nothing complains, every shape is right, and
# the decoder reads itself twice.
#
# ### 11.5 Cross-attention
#
# Try It Yourself · ★★ · 8 minutes
#
# `decoder_states` is (target, d), `encoder_states` (source, d), the three
# `w`s are (d, d): a query is a state times `w_query`, and so on.
# `encoder_mask` is (source,), 1 on real tokens and 0 on padding. Return
# what one head reads, (target, d), with the scale of 11.1.
#
# Example: with one source position, the result is
# `encoder_states @ w_value` in every row.

# %% tags=["exercise:11.5", "nbval-ignore-output"]
def cross_attention(
    decoder_states: Tensor,
    encoder_states: Tensor,
    w_query: Tensor,
    w_key: Tensor,
    w_value: Tensor,
    encoder_mask: Tensor,
) -> Tensor:
    raise NotImplementedError("11.5: replace this line")


check("11.5", cross_attention)


# %% [markdown]
# ### Does it, though?
#
# That it can read the encoder does not say that it does. A decoder can
# lower its loss by learning which codes are common, and which follow
# which, without one look at the record. The test is simple. Give each
# patient the encoder input of another one in the batch. A decoder that
# reads it must get much worse. One that does not cannot tell.

# %%
@torch.no_grad()
def loss_of(model, dataset, swapped=False):
    total, count = 0.0, 0
    by_length = {"seed": SEED, "group_by_length": True}  # less padding
    for key in BatchPlan(dataset.lengths, 50, **by_length):
        batch = dataset[key]
        if swapped:  # another patient's record; age and sex stay
            for name in ("input_ids", "attention_mask"):
                batch[name] = batch[name].roll(1, dims=0)
        out = model(**batch)
        total += out.loss_sum.item()
        count += out.loss_count.item()
    return total / count


n_held_out = min(200, len(records) // 3)
held_out = RecordDataset(records[:n_held_out], tokenizer, **limit)
own, another = loss_of(model, held_out), loss_of(model, held_out, True)
print(f"right record {own:.1f}, another patient's {another:.1f}")
assert another > own + 1

# %% [markdown]
# The trained model reads its encoder. Now train two models of the same
# size for a short while, on other patients, and watch the loss as one
# does. They differ in one number, the spread of their weights at the
# start: 0.02 is BART's own, chosen for wide models, and 0.08 is the one
# that the course uses at this width.

# %%
beginners = RecordDataset(records[n_held_out:], tokenizer, **limit)
young = {}
for spread in (0.02, 0.08):
    torch.manual_seed(SEED)
    config = PromptBartConfig.for_tokenizer(tokenizer, init_std=spread)
    young[spread] = PromptBart(config).eval()
    first = loss_of(young[spread], held_out)
    train(young[spread], beginners, steps=120, warmup_steps=20, seed=SEED)
    own = loss_of(young[spread], held_out)
    print(f"{spread}: the loss fell from {first:.1f} to {own:.1f}")
    assert real or own < first - 2.5

# %% [markdown]
# Two losses that fell a long way. Both models have learned something. Now
# the test.

# %%
costs = {}
for spread, one in young.items():
    own, another = loss_of(one, held_out), loss_of(one, held_out, True)
    costs[spread] = another - own
    print(f"{spread}: right record {own:.1f}, another's {another:.1f}")
assert real or (costs[0.02] < 0.1 and costs[0.08] > 0.3)


# %% [markdown]
# The second reads its encoder and the first does not, and the falling
# loss did not say so. What the first has learned, it could have learned
# without an encoder. After more steps it may read, or not: you know when
# you have tested it again.
#
# ### The state that stands for a patient
#
# Lesson 13 predicts age and sex from one state of the decoder. Which?
# The tutorial takes `hidden[:, -1]`, the last one. Look at that position
# in a batch of a short and a long record, and at the same short record
# alone.

# %%
@torch.no_grad()
def states_of(batch):
    out = model(
        **{name: batch[name] for name in batch if name != "labels"},
        output_hidden_states=True,
    )
    return out.decoder_hidden_states[-1][:, 2:]  # (batch, target, d_model)


def last_state(states, batch):
    last = (batch["labels"] != -100).sum(1) - 1  # (batch,)
    return states[torch.arange(len(states)), last]


clean = Corruption(p_visit=0)  # the encoder reads the record as it is
plain = RecordDataset(records, tokenizer, corruption=clean, **limit)
alone, together = plain.batch([short]), plain.batch([short, long])

# %% tags=["claim:21"]
print("the last column is", end=" ")
last_ids = together["decoder_input_ids"][:, -1]
print([tokenizer.id_to_token(i) for i in last_ids])
one, two = states_of(alone), states_of(together)
moved = (one[0, -1] - two[0, -1]).norm() / one[0, -1].norm()
print(f"hidden[:, -1] moved by more than a tenth: {moved > 0.1}")
one, two = last_state(one, alone), last_state(two, together)
moved_real = (one[0] - two[0]).norm() / one[0].norm()
print(f"the last real state moved: {moved_real > 1e-3}")
assert last_ids[0] == 0 and moved > 0.1 and moved_real < 1e-3

# %% [markdown]
# Alone, the last column is the last token of the record. Beside a longer
# record it is padding: `hidden[:, -1]` names another position. Take the
# last position of each row that has a label. The decoder has read the
# record up to `<\v>` there; `<EOS>` is what it is to predict.
#
# ## What is still missing: order
#
# Without a mask, attention reads a set. Take the positions away, turn the
# record around, and the encoder gives the same vectors, turned around. The
# first visit and the last would be alike.

# %%
without = copy.deepcopy(model)
nn.init.zeros_(without.model.encoder.embed_positions.weight)
for name, one in (("without", without), ("with", model)):
    with torch.no_grad():
        read = one.encode(ids, **patient)[0].last_hidden_state
        turned = one.encode(ids.flip(1), **patient)[0].last_hidden_state
    same = torch.allclose(read[:, 2:].flip(1), turned[:, 2:], atol=1e-4)
    print(f"{name} positions: the same, turned around: {same}")
    assert same == (name == "without")

# %% [markdown]
# So each vector gets a position added to it, a row of a table that is
# learned. The tutorial puts the prompt before the tokens and then adds
# `embed_positions(input_ids)`.

# %% tags=["claim:19"]
encoder = model.model.encoder
prompts = model.encoder_prompt(**patient)  # (1, 2, d_model)
tokens = encoder.embed_tokens(ids)  # (1, 6, d_model)
joined = torch.cat([prompts, tokens], dim=1)  # (1, 8, d_model)
message = ""
try:
    joined + encoder.embed_positions(ids)
except RuntimeError as error:
    message = str(error)
print(message)
rows = encoder.embed_positions.weight[2 : 2 + joined.shape[1]]
by_hand = encoder.layernorm_embedding(joined + rows)
out = model.encode(ids, **patient, output_hidden_states=True)[0]
print("rows 2 to 9:", torch.allclose(by_hand, out.hidden_states[0]))
assert "must match" in message
assert torch.allclose(by_hand, out.hidden_states[0], atol=1e-6)

# %% [markdown]
# Eight vectors and six positions cannot be added. Positions cover prompts
# and tokens: the first prompt has position 0, the second 1, `<BOS>` 2.
# The table is BART's, whose position 0 is row 2. After that comes a
# layer norm, and then the first layer.
#
# Prompts use up positions. With 512 of them and two prompts a record may
# have 510 tokens, and this model, which has 256, takes 254.

# %%
try:
    model.encode(torch.full((1, 255), 7), **patient)
except InputError as error:
    print(f"{error.place}: {error.problem}")
print("the limit in tokens:", model.max_tokens)
assert model.max_tokens == 254


# %% [markdown]
# ### 11.6 Embed tokens and positions
#
# Try It Yourself · ★★ · 8 minutes
#
# `token_ids` is (length,), `prompts` (n_prompts, d_model). Look the
# tokens up in `token_table`, (vocabulary, d_model), put the prompts
# before them, and add to each vector its position from `position_table`,
# (positions + 2, d_model), which is laid out as BART's. Return
# (n_prompts + length, d_model). Padding is embedded like any token; the
# layer norm is not part of this exercise.
#
# Example: without prompts, the first row of the result is
# `token_table[token_ids[0]] + position_table[2]`.

# %% tags=["exercise:11.6", "nbval-ignore-output"]
def embed(
    token_ids: Tensor,
    prompts: Tensor,
    token_table: Tensor,
    position_table: Tensor,
) -> Tensor:
    raise NotImplementedError("11.6: replace this line")


check("11.6", embed)

# %% [markdown]
# ## See it
#
# What does the trained model do with the record that it reads? Hand it
# clean records, and take the positions at which it is about to write a
# code. Where in the encoder's input lies the largest weight there?

# %%
hits, n_codes = torch.zeros(2, 4), 0  # (layer, head)
for place in range(100 if not real else len(plain) // 3):
    batch = plain.batch([place])
    writes = batch.pop("labels")[0] >= 7  # (target,): the next is a code
    with torch.no_grad():
        crossed = model(**batch, output_attentions=True).cross_attentions
    weights = torch.cat(crossed)[:, :, 2:]  # (layer, head, target, source)
    own_place = 2 + torch.arange(len(writes))
    hits += (weights.argmax(-1) == own_place)[:, :, writes].sum(-1)
    n_codes += int(writes.sum())
print((hits / n_codes).numpy().round(2))
assert real or (hits[1] / n_codes).min() > 0.7

# %% [markdown]
# A row for each layer, a column for each head. In the last layer every
# head looks most at the very code in the input that is to be written
# next, about nine times in ten: the model copies what it can see. (A
# large weight shows where a head reads. What it takes from there is
# another question.)
#
# Here is one record with all three kinds of attention. Choose the kind, a
# layer and a head, and point at a cell. In the decoder nothing stands
# above the diagonal. For the copying choose cross-attention and the last
# layer: the row of a token shows where the model looks before it writes
# the next one. And look how much of its weight each head gives to the
# prompts.

# %% tags=["widget"]
several = (r for r in records if len(r.visits) == 2 and len(r.codes) < 14)
attention_explorer(model, tokenizer, next(several, records[0]))

# %% [markdown]
# ## Recap
#
# - **Attention** weighs values by a softmax over scaled products of a
#   query with the keys; a hidden key has the score minus infinity.
# - **The decoder's mask** is the lower triangle over prompts and tokens,
#   without the columns of padding.
# - **The parameters** follow from the sizes: one table of tokens for
#   everything, two tables of positions with two spare rows each, and
#   layers in which heads count for nothing.
# - **Self-attention** takes queries, keys and values from one side;
#   cross-attention takes its queries from the decoder and the rest from
#   the encoder.
# - **The test** swaps the encoder's inputs among patients: a decoder that
#   reads them gets much worse.
#
# ## Test yourself
#
# 1. You double the number of heads and leave all else. What happens to
#    the number of parameters, and to the width of a head?
#
# <details><summary>Answer</summary>
# The number stays the same. Each head is half as wide.
# </details>
#
# 2. A decoder reads two prompts and six tokens. How many positions may
#    the third token read, and how many logits enter the loss?
#
# <details><summary>Answer</summary>
# Five: two prompts and three tokens. Six logits: the two at the prompts
# are cut off.
# </details>
#
# 3. The loss of a new model has halved. Its author says that it now
#    repairs records. What do you ask for?
#
# <details><summary>Answer</summary>
# The loss with the encoder inputs swapped among patients. If that is the
# same, the decoder does not read the record that it is to repair.
# </details>
#
# ## What comes next
#
# Where do the two prompts come from? Lesson
# [12](12_conditional_prompt.ipynb) builds them from age and sex, shows
# what an affine age can and cannot do, and puts yours into this model.
