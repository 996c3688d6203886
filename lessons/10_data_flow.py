# %% [markdown]
# # 10 · Data flow
#
# 60 minutes · Prerequisites: 09
#
# You will be able to:
#
# - Pad a batch to its longest row and count the waste.
# - Reduce the waste by batching records of similar length.
# - Give every epoch and every worker fresh corruption that can be repeated.
# - Check a batch against its contract.
# - Predict the memory of a batch, and measure it.

# %% [markdown]
# ## How much of a batch is patients?
#
# A model reads tensors, and a tensor has no short rows. The tutorial that
# this lesson follows gives every record 512 places. How many of them hold
# a token?

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %%
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import get_type_hints

import numpy as np
import polars as pl
import torch
from jaxtyping import jaxtyped
from torch import Tensor
from torch.utils.data import DataLoader

from ehr_course.batches.collate import Batch, check_batch, collate
from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import BatchKey, RecordDataset
from ehr_course.batches.plan import BatchPlan, data_loader
from ehr_course.errors import InputError
from ehr_course.exercises import check, hint, progress
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.plots.batch import draw_stages
from ehr_course.sources.mimic import load
from ehr_course.sources.synthetic import make_cohort, write_mimic3
from ehr_course.sources.tables import find_tables
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.batch import batch_inspector

# %% [markdown]
# The files come from the embedded hospital, or from your MIMIC-III tables
# where `EHR_COURSE_DATA` names their folder, as in lesson 08.

# %%
real = bool(os.environ.get("EHR_COURSE_DATA"))
scratch = tempfile.TemporaryDirectory()
if real:
    folder = Path(os.environ["EHR_COURSE_DATA"])
else:
    sizes = {"tiny": 2_000, "small": 10_000, "full": 46_520}
    made = make_cohort(sizes[PROFILE], seed=SEED)
    folder = Path(scratch.name) / "hospital"
    write_mimic3(made, folder, seed=SEED)

# %% [markdown]
# Load them, and make a data set of token ids: the two steps of lessons 08
# and 07.

# %%
records = load(folder, malformed="drop").records
tokenizer = CodeTokenizer.from_records(records)
dataset = RecordDataset(
    records, tokenizer, seed=SEED, max_tokens=512, too_long="cut"
)
lengths = dataset.lengths  # (patients,)
print(f"{len(records):,} patients, {lengths.sum():,} tokens")

# %%
places = 512 * len(lengths)
print(f"{places:,} places of 512 a patient")
print(f"{1 - lengths.sum() / places:.0%} of them hold nothing")
assert lengths.sum() < 0.3 * places

# %% [markdown]
# A model that reads those rows works on padding nearly everywhere. The way
# from a file to a batch has more such traps, where a careless choice costs
# time, or changes what the model learns, without an error. Follow one
# patient along it. (Nothing is evaluated in this lesson, so nothing is
# split.)

# %% [markdown]
# ## From a file to a batch
#
# **Files.** Someone with two stays and few codes, as the hospital wrote
# them down: one row a code.

# %%
place = min(
    range(len(records)),
    key=lambda i: (abs(len(records[i].visits) - 2), abs(lengths[i] - 11)),
)
patient = records[place]
table = find_tables(folder, ["DIAGNOSES_ICD"])["DIAGNOSES_ICD"]
rows = pl.read_csv(table, infer_schema=False).rename(str.lower)
rows = rows.filter(pl.col("subject_id") == str(patient.subject_id))
rows.select("subject_id", "hadm_id", "seq_num", "icd9_code")

# %% [markdown]
# **Records, token ids.** The loader of lesson 08 makes the rows a record,
# the tokenizer of lesson 07 makes the record a row of numbers. The data
# set has done that for every patient, once: the ids never change.

# %%
print(f"sex {patient.sex}, age {patient.age}")
print(*(visit.codes for visit in patient.visits))
ids = dataset.tokens.take([place])
print(ids.to_lists()[0])
print(*tokenizer.tokens(ids.to_lists()[0]))
assert ids.to_lists()[0] == tokenizer.encode(patient)

# %% [markdown]
# **Corruption.** What the encoder reads is damaged anew each time, as in
# lesson 09. Here is the same patient under three different generators,
# every visit damaged.

# %%
damage = Corruption(p_visit=1.0)
for number in range(3):
    rng = np.random.default_rng([SEED, number])
    damaged = damage.apply(ids, n_tokens=len(tokenizer), rng=rng)
    print(*tokenizer.tokens(damaged.to_lists()[0]))
assert ids.to_lists()[0] == tokenizer.encode(patient)

# %% [markdown]
# **Collator, batch.** A *collator* makes one batch of several patients:
# it pads their rows and adds age and sex. Ask for this patient and three
# others with shorter records, every visit damaged.

# %%
shorter = np.flatnonzero(lengths < lengths[place])[:3]
damaging = RecordDataset(
    records, tokenizer, seed=SEED, corruption=damage,
    max_tokens=512, too_long="cut",
)  # fmt: skip
batch = damaging.batch([place, *shorter.tolist()])
for name, tensor in batch.items():
    print(f"{name:18}{tuple(tensor.shape)!s:9}{tensor.dtype}")

# %% [markdown]
# The rows of our patient, who comes first, and of the last one:

# %%
for row in (0, -1):
    for name in ("input_ids", "decoder_input_ids", "labels"):
        print(f"{name:18}", *batch[name][row].tolist())
    print("age and sex       ", *batch["x_num"][row].tolist(), end=" ")
    print(*batch["x_cat"][row].tolist())
assert batch["labels"][0].tolist() == tokenizer.encode(patient)
last = batch["labels"][-1]
other = dataset.records[shorter[-1]]
assert last[last != -100].tolist() == tokenizer.encode(other)


# %% [markdown]
# The labels are the clean record, never the corrupted row: lesson 09
# showed what a model learns otherwise. The decoder reads the same clean
# record one place later, from `<EOS>` (2) on. Where a row of labels is
# padding it says -100, which the loss passes over; the two rows of ids
# say 0 there, because a model looks up every id that it is given. Sex is
# 0 for M and 1 for F, and age is in years.

# %% [markdown]
# ## Padding
#
# Pad to 512, and the padding is nearly everything. Pad each batch to the
# longest row *of that batch*, and it depends on who shares a batch. That
# is called dynamic padding.
#
# ### 10.1 Dynamic padding
#
# Try It Yourself · ★ · 6 minutes
#
# `inputs` are the corrupted rows of a batch and `targets` the clean ones,
# both lists of lists of ids, as many of each. A row and its target can
# have different lengths. Return a dictionary of three tensors:
# `"input_ids"` (batch, source), padded on the right with 0;
# `"attention_mask"` (batch, source), 1 on tokens and 0 on padding;
# `"labels"` (batch, target), padded on the right with -100. `source` is
# the length of the longest input, `target` that of the longest target.
# Ids and labels are int64. (This is exercise 07.5 for two sides; a mask of
# booleans still passes here.)
#
# Example: `pad_batch([[1, 6, 2], [1, 2]], [[1, 8, 9, 2], [1, 2]])` has the
# `input_ids` `[[1, 6, 2], [1, 2, 0]]`, the mask `[[1, 1, 1], [1, 1, 0]]`
# and the labels `[[1, 8, 9, 2], [1, 2, -100, -100]]`.

# %% tags=["exercise:10.1", "nbval-ignore-output"]
def pad_batch(
    inputs: list[list[int]], targets: list[list[int]]
) -> dict[str, Tensor]:
    raise NotImplementedError("10.1: replace this line")


check("10.1", pad_batch)


# %% [markdown]
# How much does it help? A `BatchPlan` says who shares a batch, from the
# lengths alone. Without buckets it shuffles the patients and cuts. With
# *length buckets* it also sorts: shuffle, cut into pools of 50 batches,
# sort each pool by length, cut the pool into batches, shuffle the
# batches.

# %%
def wasted(plan, width=None):
    n_places = 0
    for _, _, indices in plan:
        longest = lengths[list(indices)].max()
        n_places += len(indices) * (width or longest)
    return 1 - lengths.sum() / n_places


shuffled = BatchPlan(lengths, 32, seed=SEED)
bucketed = BatchPlan(lengths, 32, seed=SEED, group_by_length=True)
shares = {
    "512 places": wasted(shuffled, width=512),
    "dynamic padding": wasted(shuffled),
    "length buckets": wasted(bucketed),
}
for name, share in shares.items():
    print(f"{name:16} {share:4.0%} padding")

# %%
fixed, dynamic, buckets = shares.values()
assert dynamic < fixed - 0.1 and buckets < dynamic - 0.1
everyone = sorted(i for _, _, indices in bucketed for i in indices)
assert everyone == list(range(len(lengths)))


# %% [markdown]
# One long record makes 31 short ones as wide as itself. Among records of
# its own length it does no harm, and every patient still comes once in an
# epoch. The pools are there for the shuffling: sort *all* records, and
# more of the same ones meet again in the next epoch.
#
# ### 10.2 Padding waste and length buckets
#
# Try It Yourself · ★★ · 8 minutes
#
# `lengths` is a list of the numbers of tokens of some records, already
# shuffled. Cut them, in their order, into pools of `pool_batches` times
# `batch_size` records. Sort each pool, shortest first, and cut it into
# batches of `batch_size`; the last pool and the last batch may be
# smaller. Each batch is padded to its own longest record. Return the
# share of all places of all batches that is padding, from 0 to 1, not
# rounded.
#
# Example: `padding_share([4, 9, 5, 10, 8], 2, 2)` has the pools
# `[4, 5, 9, 10]` and `[8]`, and the batches `[4, 5]`, `[9, 10]` and `[8]`
# with 2 · 5 + 2 · 10 + 8 = 38 places, 2 of them padding: 2/38.

# %% tags=["exercise:10.2", "nbval-ignore-output"]
def padding_share(
    lengths: list[int], batch_size: int, pool_batches: int
) -> float:
    raise NotImplementedError("10.2: replace this line")


check("10.2", padding_share)

# %% [markdown]
# ## The noise that never changes
#
# Corruption is random, and each epoch should damage each patient in
# another way. Batches are often made by *workers*, processes beside the
# one that trains. A worker begins with a copy of everything, and so with
# a copy of the random generator. This is how it is usually written: the
# data set, or the collator, keeps a generator and draws from it.
#
# To see the noise alone, take the same 32 patients four times. Two
# workers share the four batches, for two epochs: worker 0 makes batches 0
# and 2, worker 1 makes 1 and 3. Each different corruption gets a letter.

# %%
clean = dataset.tokens.take(range(min(32, len(dataset))))
kept = np.random.default_rng(SEED)
corrupt = partial(Corruption().apply, n_tokens=len(tokenizer), rng=kept)
usual = DataLoader(  # four times the same patients, corrupted by workers
    [clean] * 4, batch_size=None, collate_fn=corrupt, num_workers=2
)
letters = {}
for epoch in range(2):
    noise = [rows.values.tobytes() for rows in usual]
    seen = [letters.setdefault(n, "ABCDEFGH"[len(letters)]) for n in noise]
    print(f"epoch {epoch}:", *seen)
    assert seen == ["A", "A", "B", "B"]

# %% [markdown]
# Both workers draw the same numbers, so batch 1 repeats batch 0. And the
# generator of the main process never moves, so every epoch repeats the
# first: two corruptions in place of eight, and no error. (PyTorch does
# give every worker a seed of its own, for the *global* generators of
# Python, NumPy and PyTorch. It does not know of yours. And each seed
# depends on the number of the worker: with more workers a batch gets other
# noise.) The remedy is to give no one a generator to keep.
# `RecordDataset` makes one for each batch, of seed, epoch and number of
# the batch:

# %%
same = tuple(range(min(32, len(dataset))))
letters = {}
for epoch in range(2):
    keys = [BatchKey(epoch, number, same) for number in range(4)]
    loader = DataLoader(
        dataset, batch_size=None, sampler=keys, num_workers=2
    )
    noise = [batch["input_ids"].numpy().tobytes() for batch in loader]
    seen = [letters.setdefault(n, "ABCDEFGH"[len(letters)]) for n in noise]
    print(f"epoch {epoch}:", *seen)
assert len(letters) == 8


# %% [markdown]
# Eight batches, eight corruptions. Can that be repeated, with another
# number of workers, and from the middle of an epoch? `data_loader` puts
# plan and data set together. Compare every tensor of every batch.

# %%
def equal(some, others):
    return len(some) == len(others) and all(
        torch.equal(one[name], other[name])
        for one, other in zip(some, others)
        for name in one
    )


epoch = partial(data_loader, dataset, 32, seed=SEED, epoch=1)
whole = list(epoch())
done = len(whole) // 2
by_two, rest = list(epoch(num_workers=2)), list(epoch(start=done))
following = list(data_loader(dataset, 32, seed=SEED, epoch=2))
print("two workers, the same: ", equal(whole, by_two))
print("resumed, the rest:     ", equal(whole[done:], rest))
print("the next epoch differs:", not equal(whole, following))
assert equal(whole, by_two) and equal(whole[done:], rest)
assert not equal(whole, following)


# %% [markdown]
# ### 10.3 Fresh corruption that can be repeated
#
# Try It Yourself · ★★★ · 9 minutes
#
# An epoch has the batches 0 to `n_batches - 1`; batch `number` is made by
# worker `number % n_workers`. The epoch is resumed at batch `start`. The
# noise of a batch is one whole number below 1,000:
# `rng.integers(1_000)`, the first that its own generator gives. Return
# the noise of the batches from `start` on, as a list, in their order.
#
# The rules: another seed, epoch or batch has a generator of its own.
# Neither the number of workers nor the place where the epoch is resumed
# changes the noise of a batch. `np.random.default_rng` takes a list of
# whole numbers: make that list of all that the noise depends on, first
# `seed`, then from the larger unit to the smaller.
#
# Example: `loader_noise(7, 0, 0, 4, 2)` is `[944, 728, 973, 414]`, and
# `loader_noise(7, 0, 2, 4, 3)` is `[973, 414]`.

# %% tags=["exercise:10.3", "nbval-ignore-output"]
def loader_noise(
    seed: int, epoch: int, start: int, n_batches: int, n_workers: int
) -> list[int]:
    raise NotImplementedError("10.3: replace this line")


check("10.3", loader_noise)

# %% [markdown]
# ## A contract
#
# Between data and model lies a batch, and both sides rely on its form. If
# the form is written down, a test can enforce it. *jaxtyping* writes a
# type and the names of the dimensions beside a tensor: a name must mean
# the same size everywhere in the batch, a number means itself.

# %%
contract = get_type_hints(Batch)
for name, kind in contract.items():
    print(f"{name:18}{kind.__name__}")


def breaks(batch):
    with jaxtyped("context"):  # here a name has one size
        held = {k: isinstance(batch[k], contract[k]) for k in contract}
    return [name for name in contract if not held[name]]


assert breaks(batch) == []

# %% [markdown]
# Now break the batch in four ways. The types see two of them. That a mask
# agrees with its row, or the decoder input with the labels, is no
# question of types: `check_batch` compares the values too, and finds all
# four.

# %%
short = batch["x_num"][:-1]
broken = {
    "an age too few": batch | {"x_num": short},
    "a mask of booleans": batch
    | {"attention_mask": batch["attention_mask"].bool()},
    "an inverted mask": batch
    | {"attention_mask": 1 - batch["attention_mask"]},
    "nothing shifted": batch | {"decoder_input_ids": batch["labels"]},
}
by_types, by_check = [], []
for what, wrong in broken.items():
    by_types += [what] if breaks(wrong) else []
    try:
        check_batch(wrong)
    except InputError as error:
        by_check.append(what)
        print(f"{what:18} {error.place}")
print("found by types:", ", ".join(by_types))

# %%
assert by_types == ["an age too few", "a mask of booleans"]
assert by_check == list(broken)
check_batch(batch, n_tokens=len(tokenizer))


# %% [markdown]
# ### 10.4 The contract of a batch
#
# Try It Yourself · ★★ · 8 minutes
#
# Write such a check. The function takes the six tensors of a batch and
# returns the list of the names of the broken clauses, in this order:
#
# - `"shapes"`: `input_ids` and `attention_mask` are (batch, source),
#   `decoder_input_ids` and `labels` (batch, target), `x_num` and `x_cat`
#   (batch, 1).
# - `"dtypes"`: `x_num` is `torch.float32`, all the others `torch.int64`.
# - `"mask"`: `attention_mask` is 0 where `input_ids` is 0, and 1
#   everywhere else.
# - `"labels"`: no label is 0, because padding is -100 there.
# - `"decoder"`: a row of `decoder_input_ids` is 2 and then the labels of
#   the row but the last, with 0 in place of -100.
#
# Where the shapes are broken return `["shapes"]` alone. `x_num` or `x_cat`
# can arrive as (batch,): that is a broken shape. The others always have
# two dimensions.
#
# Example: a batch whose `x_num` is `torch.float64` and whose mask is
# inverted gives `["dtypes", "mask"]`; a good one gives `[]`.

# %% tags=["exercise:10.4", "nbval-ignore-output"]
def problems(
    input_ids: Tensor,
    attention_mask: Tensor,
    decoder_input_ids: Tensor,
    labels: Tensor,
    x_num: Tensor,
    x_cat: Tensor,
) -> list[str]:
    raise NotImplementedError("10.4: replace this line")


check("10.4", problems)


# %% [markdown]
# ## Where does the time go?
#
# Time each stage three times and take the best: other programs can only
# make it longer. Count seconds of the processor (of all threads together),
# which do not run on while another program has its turn. Two stages happen
# once in a training, files to records and records to token ids. Two come
# back in every epoch.

# %%
def best(work):
    taken = []
    for _ in range(3):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


# %%
parts = [(key, dataset.tokens.take(key.indices)) for key in bucketed]


def corrupt_all():
    n = len(tokenizer)
    for key, clean in parts:
        rng = np.random.default_rng([SEED, key.epoch, key.number])
        dataset.corruption.apply(clean, n_tokens=n, rng=rng)


def pad_all():
    for key, clean in parts:
        some = [dataset.records[i] for i in key.indices]
        ages, sexes = [r.age for r in some], [r.sex for r in some]
        collate(clean, clean, ages, sexes)


# %%
limit = {"max_tokens": 512, "too_long": "cut"}
read = best(partial(load, folder, malformed="drop"))
encode = best(partial(RecordDataset, records, tokenizer, **limit))
corrupt, pad = best(corrupt_all), best(pad_all)
print(f"once:           {read:.2f} s to read, {encode:.2f} s to encode")
print(f"in every epoch: {corrupt:.3f} s to corrupt, {pad:.3f} s to pad")

# %% [markdown]
# Here is what that makes of a training of 50 epochs.

# %%
seconds = {
    "files to records": read,
    "records to token ids": encode,
    "corruption, 50 times": 50 * corrupt,
    "padding, 50 times": 50 * pad,
}
per_second = lengths.sum() / np.array([read + encode, corrupt + pad])
title = "Tokens a second: {:,.0f} to ids, {:,.0f} from ids to batches"
draw_stages(seconds, title=title.format(*per_second))

# %%
if not real:
    assert corrupt > 1.5 * pad
    assert 50 * corrupt > 1.2 * (read + encode + 50 * pad)
    assert 50 * (corrupt + pad) > 2 * (read + encode)

# %% [markdown]
# What happens once is the small part, and corruption takes more than all
# else together. So do once what can be done once, and look for speed in
# what comes back. Corruption works on all records of a batch at a time,
# without a loop over codes. Is that fast enough? It depends on the other
# side: how long does the model work on a batch? (On the clock, this time:
# it is the wait that counts.)

# %%
config = PromptBartConfig.for_tokenizer(tokenizer, "tiny")
model = PromptBart(config)
keys = sorted(bucketed, key=lambda key: lengths[key.indices[0]])
key = keys[len(keys) // 2]  # a batch of middling length
made, stepped = [], []
for _ in range(4):
    began = time.perf_counter()
    batch = dataset[key]
    made.append(time.perf_counter() - began)
    model(**batch).loss.backward()
    stepped.append(time.perf_counter() - began - made[-1])
print(f"a batch is made in {min(made):.4f} s")
print(f"the model forwards and backwards: {min(stepped):.4f} s")
assert min(stepped) > 3 * min(made)


# %% [markdown]
# Even a tiny model on a processor works longer on a batch than the batch
# takes to be made, so workers would wait for the model. A much faster
# device may turn that round. Measure both sides before you add workers:
# each is a process that must be started, with a copy of the data.

# %% [markdown]
# ## Memory
#
# Memory can be predicted to the byte: the size of a tensor is the number
# of its numbers times the bytes of one.
#
# ### 10.5 The memory of a batch
#
# Try It Yourself · ★ · 5 minutes
#
# A batch has `batch_size` patients, inputs of length `source` and targets
# of length `target`, all padded. It holds the six tensors of this lesson:
# `x_num` is float32, the other five are int64. Return how many bytes
# their numbers take, as a whole number.
#
# Example: `batch_bytes(2, 3, 5)` is `280`.

# %% tags=["exercise:10.5", "nbval-ignore-output"]
def batch_bytes(batch_size: int, source: int, target: int) -> int:
    raise NotImplementedError("10.5: replace this line")


check("10.5", batch_bytes)

# %% [markdown]
# Measure it on the batches of an epoch, and compute beside it what is in
# no batch: the *logits*, one float32 for each target position and each
# token of the vocabulary. A model scores its predictions with them.

# %%
in_batches = max(sum(t.nbytes for t in b.values()) for b in whole)
widest = max(whole, key=lambda b: b["labels"].numel())
n_patients, target = widest["labels"].shape
in_logits = n_patients * target * len(tokenizer) * 4
print(f"largest batch of the epoch: {in_batches:,} bytes")
print(f"logits of the widest batch: {in_logits:,} bytes")

n_tokens = 6_992  # the vocabulary of the tutorial
padded = 32 * (8 * 4 * 512 + 12)
logits = 32 * 512 * n_tokens * 4
print(f"32 rows of 512: {padded:,} bytes, logits {logits:,}")
assert in_logits > 10 * in_batches and logits > 800 * padded

# %% [markdown]
# The batch is small beside what a model makes of it. With source and
# target of one length, a place of the batch takes 32 bytes. With V tokens
# in the vocabulary its logits take 4 V bytes: V / 8 times as much. Padded
# places have logits too, unless the model leaves them out where there is
# nothing to score, as the course's model does.

# %% [markdown]
# ## See it
#
# Each row is a patient, each place a token, coloured by its kind: codes,
# special tokens, masks, padding. Choose a batch, its size, and whether
# patients of similar length share it. The bars below tell what padding
# takes of the whole epoch.

# %% tags=["widget"]
batch_inspector(dataset, seed=SEED)

# %% [markdown]
# ## Recap
#
# - **Padding** fills each batch up to its own longest row: ids with 0,
#   labels with -100. The waste is the share of places that hold nothing.
# - **Length buckets** sort within pools, so that rows of a batch are alike
#   and the order stays random.
# - **Corruption** comes from a generator made of seed, epoch and batch
#   number: fresh every time, and the same in any worker and after any
#   restart.
# - **A contract** names shapes and types, which jaxtyping checks, and
#   agreements between tensors, which need a look at the values.
# - **The memory** of a batch is 16 bytes for each place of source and of
#   target, and 12 for each patient. The logits take far more.
#
# ## Test yourself
#
# 1. Four records have 5, 5, 5 and 45 tokens. What share of a batch of
#    them is padding? And of two batches of two, sorted?
#
# <details><summary>Answer</summary>
# 4 · 45 = 180 places for 60 tokens: two thirds. Sorted, 2 · 5 + 2 · 45 =
# 100 places: 40%.
# </details>
#
# 2. Somebody seeds the corruption of a batch with seed + epoch + number.
#    What is wrong?
#
# <details><summary>Answer</summary>
# Batch 1 of epoch 0 and batch 0 of epoch 1 have the same sum and so the
# same noise, and so have many others. A list of the three keeps them
# apart.
# </details>
#
# 3. Your labels are padded with 0 instead of -100. Which types or shapes
#    are wrong, and what does the model learn?
#
# <details><summary>Answer</summary>
# None: it passes every check of types. The model learns to write
# `<PAD>` after the end, and its loss is a mean over padding too.
# </details>
#
# ## What comes next
#
# The batch is ready. [Lesson 11](11_model_architecture.ipynb) opens the
# model that reads it.
