# %% [markdown]
# # 09 · Corruption
#
# 90 minutes · Prerequisites: 07, 08
#
# You will be able to:
#
# - Draw span lengths and compute how often each one comes.
# - Corrupt a visit by infilling, deletion and replacement.
# - Build labels and decoder input from the clean sequence.
# - Detect a target leak that a falling loss does not show.
# - Repair the leak and measure reconstruction before and after.

# %% [markdown]
# ## A model without mistakes
#
# You want a model that knows which diseases go together. So you damage
# records on purpose and train the model to write the whole record. On
# patients whom it has never seen, it is right in more than 99 of 100
# tokens. Would you use it? Train it first.

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": patients and training steps
SEED = 0

# %%
import math
from collections import Counter
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers.models.bart.modeling_bart import shift_tokens_right

from ehr_course import icd9
from ehr_course.batches.collate import check_batch, shift_right
from ehr_course.batches.corruption import (
    EMPTY_RECORD,
    Corruption,
    Ragged,
    delete_codes,
    infill_masks,
    replace_codes,
    span_lengths,
)
from ehr_course.batches.datasets import RecordDataset
from ehr_course.errors import InputError
from ehr_course.exercises import check, hint, progress
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.sources.patients import choose_patients, real_data
from ehr_course.sources.splits import split_by_patient
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.trainer import train
from ehr_course.widgets.corruption import corruption_playground

# %% [markdown]
# The patients are those of the embedded hospital, or your own if
# `EHR_COURSE_DATA` names a folder. A tiny model is to learn in seconds,
# so it reads the category of each code (lesson 08), each once in a visit,
# and of each record the visits that fit into 24 tokens.

# %%
real = real_data() is not None
sizes = {"tiny": 2_000, "small": 10_000, "full": 46_520}
patients = choose_patients(sizes[PROFILE], seed=SEED)


# %%
def by_category(record):
    visits = []
    for visit in record.visits:
        names = (
            icd9.category(code) if icd9.is_code(code) else code
            for code in visit.codes
        )
        codes = tuple(dict.fromkeys(names))
        visits.append(replace(visit, codes=codes))
    return replace(record, visits=tuple(visits))


# %%
MAX_TOKENS = 24
train_part, *others = split_by_patient(patients, seed=SEED)
train_records = [by_category(record) for record in train_part]
held_out = [by_category(record) for part in others for record in part]
tokenizer = CodeTokenizer.from_records(train_records, unseen="skip")
print(f"{len(patients):,} patients,", end=" ")
print(f"{len(train_records):,} to learn from,", end=" ")
print(f"{len(held_out)} held out, {len(tokenizer)} tokens")


# %% [markdown]
# A model learns from batches. `RecordDataset` makes them; lesson 10 takes
# it apart. The *encoder* reads `input_ids`, the damaged record. The
# *decoder* writes the record, one token after the other: at each place it
# reads `decoder_input_ids`, the tokens so far, and is to give the token in
# `labels`. The tutorial prepares its batches like this:

# %%
class TutorialDataset(RecordDataset):
    def batch(self, indices, **place):
        batch = super().batch(indices, **place)
        ids = batch["input_ids"]  # (batch, source)
        batch["labels"] = ids.masked_fill(ids == 0, -100)
        batch["decoder_input_ids"] = shift_right(ids)
        return batch


# %%
def dataset(kind, records, seed, **changes):
    return kind(
        records,
        tokenizer,
        corruption=Corruption(**changes),
        seed=seed,
        max_tokens=MAX_TOKENS,
        too_long="cut",
    )


# %% [markdown]
# -100 marks what does not count, here the padding; `shift_right` puts a
# start token in front. The model is a small `PromptBart`, which also reads
# age and sex (lessons 11 and 12). A quarter of the encoder's inputs are
# *empty*: `<BOS> <mask> <EOS>` (`p_empty=0.25`). From these it has to
# write a patient out of age and sex alone.

# %%
STEPS = {"tiny": 400, "small": 2_000, "full": 8_000}[PROFILE]


def trained(kind):
    torch.manual_seed(SEED)
    config = PromptBartConfig.for_tokenizer(
        tokenizer,
        d_model=64,
        encoder_layers=1,
        decoder_layers=1,
        init_std=0.1,
        dropout=0.0,
    )
    model = PromptBart(config)
    data = dataset(kind, train_records, SEED, p_empty=0.25)
    history = train(model, data, steps=STEPS, lr=6e-3, seed=SEED)
    return model, history


# %% tags=["nbval-ignore-output"]
tutorial_model, history = trained(TutorialDataset)
for step in range(0, STEPS, STEPS // 8):
    print(f"step {step:4}  loss {history.losses[step]:.3f}")
print(f"{history.seconds:.0f} s")


# %% [markdown]
# One batch's loss goes up and down, but the trend is clear: it falls to
# almost nothing. That could be memory, so measure on
# the held-out patients. *Perplexity* is the exponential of the mean loss:
# among how many equally likely tokens the model seems to hesitate. 1 is
# the least there is.

# %%
def own_measure(model, data):
    batch = data.batch(range(len(data)))
    labels = batch.pop("labels")  # (batch, target)
    with torch.no_grad():
        logits = model(**batch).logits  # (batch, target, vocabulary)
    scored = labels != -100
    loss = cross_entropy(logits[scored], labels[scored])
    right = (logits.argmax(dim=-1) == labels)[scored]
    return loss.exp().item(), right.float().mean().item()


# %% tags=["nbval-ignore-output"]
held = dataset(TutorialDataset, held_out, SEED + 1, p_empty=0.25)
leak_perplexity, leak_accuracy = own_measure(tutorial_model, held)
print(f"held-out perplexity {leak_perplexity:.3f}")
print(f"held-out accuracy   {leak_accuracy:.1%}")
assert real or (leak_perplexity < 1.1 and leak_accuracy > 0.99)


# %% [markdown]
# Nearly perfect, on strangers. Now look at one of them. Some codes are
# hidden behind one `<mask>`, and the model writes the record.
# (`RecordDataset` is used here, with infilling alone, to have the clean
# record beside the damaged one.)

# %%
def rewritten(model, batch):
    names = ("input_ids", "attention_mask", "x_num", "x_cat")
    return model.generate(
        **{name: batch[name] for name in names},
        max_new_tokens=MAX_TOKENS + 1,
        do_sample=False,
    )  # (batch, length)


def words(ids):
    kept = [int(i) for i in ids if i > 0]
    return " ".join(tokenizer.tokens(kept))


# %% tags=["nbval-ignore-output"]
one = dataset(RecordDataset, held_out, SEED, strategies=["infill"])
batch = one.batch(range(len(one)))
masked = (batch["input_ids"] == tokenizer.mask_id).any(1).numpy()
short = np.where(masked & (one.lengths >= 9), one.lengths, 99)
row = int(short.argmin())  # one of 9 tokens or a few more
written = rewritten(tutorial_model, batch)[row]
print("the patient     ", words(one.tokens.to_lists()[row]))
print("the encoder read", words(batch["input_ids"][row]))
print("the model wrote ", words(written[1:]))
assert real or tokenizer.mask_id in written

# %% [markdown]
# It wrote `<mask>`. (The `<EOS>` with which every decoder starts is left
# out.) Of all the things that could stand there, this is the one that
# never does. How can a model be right nearly always, and know nothing?
# The mistake is on this page already. First the damage itself.

# %% [markdown]
# ## How long is a span?
#
# The damage is that of BART, a model for text: **infilling** hides some
# codes in a row, a *span*, **deletion** takes codes out, **replacement**
# puts others in their place. It stays within a visit and never touches a
# marker.
#
# The length of a span is drawn from a Poisson distribution with mean 3:
# $P(k) = 3^k e^{-3} / k!$. A 0 becomes a 1, for there is nothing to hide
# in a span of 0; that is called *clamping*. The tutorial states how often
# each length comes: 1 in 5%, 5 or more in 34%.

# %% tags=["claim:11"]
k = torch.arange(80, dtype=torch.float64)
poisson = torch.distributions.Poisson(torch.tensor(3.0).double())
exact = poisson.log_prob(k).exp()
print("before the clamp:", *(f"{p:.4f}" for p in exact[:5].tolist()))
drawn = span_lengths(200_000, rng=np.random.default_rng(SEED))
one_exact = float(exact[0] + exact[1])
five_exact = float(exact[5:].sum())
one_drawn, five_drawn = (drawn == 1).mean(), (drawn >= 5).mean()
print("             tutorial  computed  drawn")
print(f"1                0.05    {one_exact:.4f}  {one_drawn:.2f}")
print(f"5 or more        0.34    {five_exact:.4f}  {five_drawn:.2f}")
assert abs(one_drawn - one_exact) < 0.01 < abs(one_exact - 0.05)
assert abs(five_drawn - five_exact) < 0.01 < abs(five_exact - 0.34)
assert drawn.min() == 1

# %% [markdown]
# A length of 1 is four times as frequent as the tutorial says, and spans
# of 5 or more are about half as frequent. 5% is the share of the draws of
# 0, before they become 1. Where 34% comes from we do not know.
#
# A visit can be shorter than the span. The course leaves at least one
# code of a visit to be read, unless the visit has only one. How often is
# a span cut?

# %%
visits = [v.codes for record in train_records for v in record.visits]
n_codes = np.array([len(codes) for codes in visits])  # (visits,)
longest = np.maximum(n_codes - 1, 1)
spans = span_lengths(len(visits), rng=np.random.default_rng(SEED))
print(f"mean visit  {n_codes.mean():.2f} codes")
print(f"mean span   {spans.mean():.2f} codes as drawn,", end=" ")
print(f"{np.minimum(spans, longest).mean():.2f} codes cut")
print(f"spans cut   {(spans > longest).mean():.2f} of them")


# %% [markdown]
# ### 09.1 Span lengths
#
# Try It Yourself · ★ · 6 minutes
#
# A length is drawn from a Poisson distribution with the mean `mean`. A 0
# becomes 1; a length above `longest` becomes `longest`. Return a list of
# `longest` probabilities: how often the length is 1, 2, ..., `longest`,
# which is 1 or more. Do not round. `math.factorial` and `math.exp` help.
#
# Example: `span_length_probabilities(3.0, 5)` is about
# `[0.1991, 0.2240, 0.2240, 0.1680, 0.1847]`.

# %% tags=["exercise:09.1", "nbval-ignore-output"]
def span_length_probabilities(mean: float, longest: int) -> list[float]:
    raise NotImplementedError("09.1: replace this line")


check("09.1", span_length_probabilities)


# %% [markdown]
# ## Three ways to damage a visit
#
# Take a visit of about ten codes. First infilling, three times. The
# library's functions take the codes of many visits at once, and leave the
# markers out.

# %%
def shown(ids):
    return " ".join(tokenizer.tokens(ids))


rng = np.random.default_rng(SEED)
known = [[c for c in v if c in tokenizer] for v in visits[:200]]
one_visit = min(known, key=lambda v: abs(len(v) - 10))
ids = [tokenizer.code_to_id(code) for code in one_visit]
codes = Ragged.from_lists([ids] * 3)  # the same visit three times
print("clean   ", shown(ids))
for out in infill_masks(codes, rng=rng).to_lists():
    print("infilled", shown(out))


# %% [markdown]
# One `<mask>` stands for the whole span. So the model has to find out how
# many codes are missing as well as which.
#
# ### 09.2 Mask infilling
#
# Try It Yourself · ★★ · 10 minutes
#
# `visit` is a list of token ids: `<v>` (3), codes, of which one may stand
# there twice, `<\v>` (4). The span begins at code number `start`, counted
# from 0, and is `length` codes long. Return the visit with one `<mask>`
# (6) in the place of the span. A span that would run past the last code
# ends with it. (Here a span may hide the whole visit.)
#
# Example: `infill([3, 12, 9, 30, 8, 4], 1, 2)` is `[3, 12, 6, 8, 4]`.

# %% tags=["exercise:09.2", "nbval-ignore-output"]
def infill(visit: list[int], start: int, length: int) -> list[int]:
    raise NotImplementedError("09.2: replace this line")


check("09.2", infill)

# %% [markdown]
# ## Deletion
#
# Each code is taken out with probability 0.15. Nothing says where: the
# model must notice that something is missing. For one kind of visit the
# rule needs an exception. Suppose that codes were deleted from all visits.

# %%
for out in delete_codes(codes, rng=rng).to_lists():
    print("deleted", shown(out))
emptied = 0.15**n_codes  # the chance that all codes of a visit go
single = n_codes == 1
print(f"{single.sum()} of {len(n_codes)} visits have one code")
print(f"emptied without a further rule: {emptied.sum():.1f} visits")
share = emptied[single].sum() / emptied.sum()
print(f"share of those with one code: {share:.2f}")


# %% [markdown]
# An empty visit is no visit: the rest of the course, and `Visit` itself,
# counts on at least one code. So one code stays, and it is chosen at
# random. If it were always the first, the model would learn that a lonely
# code is a main reason.
#
# ### 09.3 Deletion
#
# Try It Yourself · ★ · 7 minutes
#
# `visit` is as in 09.2. `draws` holds one random number for each code, at
# least 0 and less than 1. A code is deleted if its draw is less than `p`.
# If none would be left, keep one: code number `spare`, counted from 0,
# which was drawn too. Return the new visit.
#
# Example: `delete_from([3, 12, 9, 30, 4], [0.4, 0.1, 0.9], 0.15, 2)` is
# `[3, 12, 30, 4]`.

# %% tags=["exercise:09.3", "nbval-ignore-output"]
def delete_from(
    visit: list[int], draws: list[float], p: float, spare: int
) -> list[int]:
    raise NotImplementedError("09.3: replace this line")


check("09.3", delete_from)

# %% [markdown]
# ## Replacement
#
# Each code becomes another one with probability 0.15, any other code of
# the vocabulary with the same chance. The model must notice that
# something does not fit, and no `<mask>` points at it.

# %%
n_tokens = len(tokenizer)
for out in replace_codes(codes, n_tokens=n_tokens, rng=rng).to_lists():
    print("replaced", shown(out))
many = Ragged.from_lists([ids] * 2_000)
out = replace_codes(many, p=1.0, n_tokens=n_tokens, rng=rng)
drawn = np.unique(out.values)
print("smallest id drawn", drawn.min(), "· left alone", end=" ")
print((out.values == many.values).sum())
assert drawn.min() == 7 and (out.values != many.values).all()


# %% [markdown]
# The first seven ids are special tokens, and none of them is drawn. Nor
# is a code replaced by itself: that would be no replacement.
#
# ### 09.4 Replacement
#
# Try It Yourself · ★★ · 8 minutes
#
# `visit`, `draws` and `p` are as in 09.3: a code is replaced if its draw
# is less than `p`. The ids of the codes run from 7 to `n_tokens - 1`.
# Take all codes of the vocabulary (not of the visit) but the one that is
# replaced, in the order of their ids; if there are `m` of them, the new
# code is number `int(pick * m)`, counted from 0. `picks` holds one `pick`
# for each code of the visit, used or not, at least 0 and less than 1.
# Return the new visit.
#
# Example: `replace_in([3, 7, 9, 4], [0.1, 0.6], 0.15, [0.3, 0.6], 12)`
# is `[3, 9, 9, 4]`: the others of 7 are 8, 9, 10 and 11.

# %% tags=["exercise:09.4", "nbval-ignore-output"]
def replace_in(
    visit: list[int],
    draws: list[float],
    p: float,
    picks: list[float],
    n_tokens: int,
) -> list[int]:
    raise NotImplementedError("09.4: replace this line")


check("09.4", replace_in)

# %% [markdown]
# ## All together
#
# A visit is corrupted with probability 0.5, in one of the three ways,
# each with the same chance. `Corruption` does that for a whole batch of
# records. How much of a record is still true?

# %%
data = dataset(RecordDataset, train_records, SEED)
clean = data.tokens  # Ragged: all records, clean
before = clean.values.copy()
damaged = data.corruption.apply(clean, n_tokens=n_tokens, rng=rng)


def parts(rows):
    return [v for row in rows.to_lists() for v in tokenizer.decode(row)]


pairs = list(zip(parts(clean), parts(damaged), strict=True))
same = np.mean([old == new for old, new in pairs])
print(f"{len(pairs)} visits, {same:.2f} of them as before")
print(f"{len(clean.values)} tokens before,", end=" ")
print(f"{len(damaged.values) / len(clean.values):.2f} of that after")
assert 0.5 < same < 0.95 and (clean.values == before).all()

# %% [markdown]
# (There are fewer visits than above: records were cut to 24 tokens.) More
# than half of the visits are as before: deletion and replacement
# often hit nothing in a short visit. The clean records are untouched, for
# they are still needed. For what, is the next question.

# %% [markdown]
# ## What is the right answer?
#
# The encoder reads the damaged record. The right answer is the clean one.
# On the way lie two traps. The first: the documents that this course
# follows score the hidden tokens alone. They write -100 over all other
# labels, and make the decoder's input from these labels. Here is what the
# decoder then reads.

# %% tags=["claim:13"]
record = torch.tensor([[1, 3, 12, 9, 30, 4, 3, 8, 17, 4, 2]])
hidden = torch.zeros_like(record).bool()
hidden[0, 3:5] = True  # the codes 9 and 30
labels = record.masked_fill(~hidden, -100)
from_labels = shift_tokens_right(labels, 0, 2)  # transformers' own
from_clean = shift_tokens_right(record, 0, 2)
print("labels     ", *labels[0].tolist())
print("from labels", *from_labels[0].tolist())
print("from clean ", *from_clean[0].tolist())
lost = (from_labels != from_clean)[0]
print(int(lost.sum()), "of", len(lost), "tokens lost to padding")
assert (from_labels[0][lost] == 0).all() and lost.sum() >= 8
assert torch.equal(from_clean, shift_right(record))

# %% [markdown]
# The decoder reads padding wherever the label is -100: of the record it
# is to continue, next to nothing is left. The decoder's input is made
# from the clean record, before any label is masked.
#
# The second trap: which labels belong to the span? The tutorial's example
# has a clean record of 11 tokens, of which the codes at positions 3 and 4
# are hidden. It marks these positions by a mask over the input.

# %% tags=["claim:14"]
inputs = torch.tensor([1, 3, 12, 6, 4, 3, 8, 17, 4, 2])
is_mask = inputs == 6  # (10,)
print("input", len(inputs), "tokens, target", record.shape[1])
try:
    record[0][is_mask]
except IndexError as error:
    print("IndexError:", str(error).split(" at ")[0])
padded = torch.tensor([*inputs, 0]) == 6  # (11,)
print("padded, it marks the target's", record[0][padded].tolist())

inputs = torch.tensor([1, 3, 12, 6, 4, 3, 6, 17, 4, 2])  # 8 hidden too
second = torch.tensor([*inputs, 0]) == 6
marked = record[0][second].tolist()
print("with a second span, it marks", marked, "for 9, 30 and 8")
assert len(is_mask) == record.shape[1] - 1 and marked == [9, 3]


# %% [markdown]
# The codes stand at positions 3 and 4, counted from 0, of the *clean*
# record. The input is one token shorter, because two codes became one
# `<mask>`. A mask over the input cannot mark positions of the target:
# either it raises, or, once both are padded to one length, it misses all
# but the first code of a span, and after the first span it marks other
# tokens: the 3 above is the `<v>` of the second visit.
#
# The course scores every token of the clean record, and has neither trap.
#
# ### 09.5 Labels and decoder input
#
# Try It Yourself · ★★ · 10 minutes
#
# `clean` and `corrupted` are int64 tensors of shape (batch, length): the
# same records before and after corruption, padded with 0 to one length.
# `scored` is a bool tensor of the same shape: which positions of the
# clean record count. Padding never counts, whatever `scored` says.
#
# Return two int64 tensors (batch, length). First the labels: the right
# token where it counts, otherwise -100. Then the decoder's input: the
# right record moved one place to the right, with `<EOS>` (2) in front;
# the last column falls off. Only the first is masked with -100.
#
# Example: `clean` `[[1, 3, 9, 8, 4, 2]]`, `corrupted`
# `[[1, 3, 6, 4, 2, 0]]` and `scored` True everywhere give
# `[[1, 3, 9, 8, 4, 2]]` and `[[2, 1, 3, 9, 8, 4]]`.

# %% tags=["exercise:09.5", "nbval-ignore-output"]
def make_targets(
    clean: Tensor, corrupted: Tensor, scored: Tensor
) -> tuple[Tensor, Tensor]:
    raise NotImplementedError("09.5: replace this line")


check("09.5", make_targets)

# %% [markdown]
# ## The leak
#
# Now go back to `TutorialDataset`. Its labels are a copy of `input_ids`,
# the *damaged* record. The right answer to `<mask>` is `<mask>`, the right
# answer to a wrong code is the wrong code. The model is asked to copy what
# it reads, and it does. That is a *target leak*: the answer stands in the
# input.
#
# Leave all else as it is, the patients, their order, the damage, the first
# weights, and take the labels from the clean record, as `RecordDataset`
# does.

# %% tags=["nbval-ignore-output"]
repaired_model, repaired = trained(RecordDataset)
print("step   leak   repaired")
for step in range(0, STEPS, STEPS // 8):
    both = history.losses[step], repaired.losses[step]
    print(f"{step:4}  {both[0]:.3f}   {both[1]:.3f}")


# %% [markdown]
# By its loss the leak is by far the better model. So measure what you
# want: of the codes that the damage took away, how many stand in the
# rewritten record, in the right visit? And how many of the same codes does
# the model find if it reads nothing but age and sex, its prompt? It may
# also add codes that the patient does not have. Count those too.

# %%
def codes_of(ids):
    visits = tokenizer.decode([int(i) for i in ids])
    return {(n, code) for n, v in enumerate(visits) for code in v}


# %%
def lost_codes(data, batch):
    rows = zip(data.tokens.to_lists(), batch["input_ids"])
    return [codes_of(clean) - codes_of(read) for clean, read in rows]


def restored(model, from_prompt=False):
    data = dataset(RecordDataset, held_out, SEED + 1)
    batch = data.batch(range(len(data)))
    read = [codes_of(ids) for ids in batch["input_ids"]]
    lost = lost_codes(data, batch)  # the codes that the damage took
    if from_prompt:  # the same patients and lost codes, nothing to read
        batch["input_ids"] = torch.tensor([EMPTY_RECORD] * len(data))
        batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    written = [codes_of(ids) for ids in rewritten(model, batch)]
    found = sum(len(gone & new) for gone, new in zip(lost, written))
    added = sum(len(new - old) for new, old in zip(written, read))
    return found / sum(map(len, lost)), found / max(1, added)


# %% [markdown]
# To have something to compare with: whoever puts the same code into every
# gap restores a few percent, with the best choice of that code.

# %%
data = dataset(RecordDataset, held_out, SEED + 1)
lost = lost_codes(data, data.batch(range(len(data))))
counts = Counter(code for gone in lost for _, code in gone)
guess = counts.most_common(1)[0][1] / counts.total()
print(f"{counts.total()} lost codes; one guess for all: {guess:.3f}")

# %% tags=["nbval-ignore-output"]
models = {"leak": tutorial_model, "repaired": repaired_model}
kinds = {"leak": TutorialDataset, "repaired": RecordDataset}
result = {}
print("          perplexity accuracy  codes restored  from the prompt")
for name, model in models.items():
    held = dataset(kinds[name], held_out, SEED + 1, p_empty=0.25)
    perplexity, accuracy = own_measure(model, held)
    hidden, right = restored(model)
    prompt, _ = restored(model, from_prompt=True)
    result[name] = perplexity, accuracy, hidden, prompt
    print(f"{name:9} {perplexity:10.3f} {accuracy:8.1%}", end=" ")
    print(f"{hidden:15.1%} {prompt:16.1%}")
print(f"of the codes that the repaired model adds, {right:.0%} are right")

# %% tags=["claim:12"]
perplexity, accuracy, hidden, prompt = result["leak"]
better = result["repaired"]
print("perplexity, lower is better:", end=" ")
print("the leak wins" if perplexity < better[0] else "repaired wins")
print("accuracy, higher is better: ", end=" ")
print("the leak wins" if accuracy > better[1] else "repaired wins")
print("codes restored by the leak:   ", f"{hidden:.2f}")
print("from the prompt, by the leak: ", f"{prompt:.2f}")
assert perplexity < better[0] and hidden < 0.02 and prompt < 0.02
if not real:  # a hundred patients are too few to learn from
    assert perplexity < 1.1 and accuracy > 0.99 and better[0] > 1.5
    assert better[2] > 1.5 * guess and right < 0.35
    assert better[3] > 0.5 * better[2]

# %% [markdown]
# With the leak, perplexity is close to 1 and accuracy close to 100% on
# patients that the model has never seen, while it restores no code and
# finds none from the prompt. Repaired, the model looks far worse by the
# measure of its own loss, and restores codes, clearly more than the best
# single guess. Do not praise it yet. It finds about as many of them from
# age and sex alone, and most of the codes that it adds are wrong: a model
# this small, trained for seconds, has learned typical patients rather than
# which diseases go together. The leak has learned nothing.
#
# That is how you notice. A perplexity near 1 says that there is nothing to
# guess, and is better than the task allows. When a loss is too good,
# look at what the model writes. And ask each batch whether its labels are
# what you want to see:

# %%
data = dataset(TutorialDataset, held_out, SEED + 1)
leaking = data.batch(range(len(data)))
message = ""
try:
    check_batch(leaking, n_tokens=n_tokens)
except InputError as error:
    message = f"{error.problem}.\n{error.remedy}"
print(message)
assert "<mask>" in message

# %% [markdown]
# `check_batch` finds this leak because no clean record contains `<mask>`.
# Where records were damaged by deletion and replacement alone, it has
# nothing to hold on to: then compare the labels with the clean records
# themselves.

# %% [markdown]
# ## See it
#
# Corrupt any patient. "as in training" leaves half of the visits alone;
# the other choices damage every visit. `mean span` is the mean of the
# Poisson distribution, `p` the probability of deletion and replacement.
# Try infilling with a mean of 0 and of 8, and deletion with `p` at 1.

# %% tags=["widget"]
some = [r for r in patients[:200] if len(r.visits) > 1] or patients
corruption_playground(some, CodeTokenizer.from_records(some))

# %% [markdown]
# ## Recap
#
# - **Span lengths** are Poisson with mean 3, a 0 made a 1: length 1 comes
#   in 20%, 5 or more in 18%.
# - **Corruption** stays among the codes of a visit: one `<mask>` for a
#   span, deletion that leaves one code, replacement by any other code.
# - **Labels and decoder input** both come from the clean record; -100 is
#   written last, and into the labels alone.
# - **A leak** shows as a loss that is better than the task allows, and in
#   what the model writes.
# - **Reconstruction** is the share of lost codes that come back: none with
#   the leak, some without it, by the same measure. It says nothing of the
#   codes that were made up.
#
# ## Test yourself
#
# 1. With mean 3, a Poisson draw is 1 in 14.9% of cases. Why does a span
#    have the length 1 in 19.9%?
#
# <details><summary>Answer</summary>
# The 5.0% of the draws that are 0 become 1 too.
# </details>
#
# 2. A span of three codes is infilled. How much shorter is the encoder's
#    input than the labels?
#
# <details><summary>Answer</summary>
# By two tokens: three codes became one mask. Input and labels need not
# have the same length, and position for position they do not match.
# </details>
#
# 3. A colleague reports a held-out perplexity of 1.02 for a model that
#    restores hidden codes. What do you ask to see?
#
# <details><summary>Answer</summary>
# One batch, to compare its labels with the clean records, and one record
# as the model rewrites it. Hidden codes cannot be known that well.
# </details>
#
# ## What comes next
#
# [Lesson 10](10_data_flow.ipynb) follows a record from the file to the
# batch: padding, batches of similar length, and corruption that is fresh
# in every epoch and yet can be repeated.
