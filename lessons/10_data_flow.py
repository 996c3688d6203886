# %% [markdown]
# # 10 · Data flow
#
# 85 minutes · Prerequisites: 09
#
# You will be able to:
#
# - Pad a batch to its longest row and count the waste.
# - Reduce the waste by batching records of similar length.
# - Give every epoch and every worker fresh corruption that can be repeated.
# - Check a batch against its contract.
# - Predict the memory of a batch and of its logits, and measure both.

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
# ## Why is this training so slow?
#
# A colleague trains a small model on only 2,000 patients, and one pass over
# them keeps a core busy for minutes. The model can read up to 512 tokens.
# All rows of a tensor must have the same length, so he pads every record to
# 512 places. How many of those places hold a token?

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %% tags=["hide-input"]
# set-up: imports and a hospital
import copy
import os
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import get_type_hints

import numpy as np
import torch
from matplotlib.colors import ListedColormap
from jaxtyping import Float32, Int64, jaxtyped
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import BartForConditionalGeneration

from ehr_course import (
    POOL, Batch, BatchKey, CodeTokenizer, Corruption, InputError,
    LengthBatchSampler, MemoryTrace, PromptBart, PromptBartConfig,
    RecordDataset, activation_bytes, check_batch, data_loader, held_bytes,
    load_cohort, make_cohort, write_mimic3,
)
from ehr_course.exercises import check, hint, progress
from ehr_course.plots import (
    COLOURS, blank_chart, draw_bars, draw_path, draw_strips, draw_tensors,
    kinds_of, token_fill,
)
from ehr_course.widgets import batch_inspector

real = bool(os.environ.get("EHR_COURSE_DATA"))
scratch = tempfile.TemporaryDirectory()
if real:
    folder = Path(os.environ["EHR_COURSE_DATA"])
else:
    sizes = {"tiny": 2_000, "small": 10_000, "full": 46_520}
    folder = Path(scratch.name) / "hospital"
    cohort = make_cohort(sizes[PROFILE], seed=SEED)
    write_mimic3(cohort, folder, seed=SEED)

# %% [markdown]
# Load the embedded hospital, or your own MIMIC-III tables if
# `EHR_COURSE_DATA` names their folder, and encode every patient.

# %%
records = load_cohort(folder, malformed="drop").records
tokenizer = CodeTokenizer.from_records(records)  # nothing is tested
make_dataset = partial(
    RecordDataset, records, tokenizer, seed=SEED, max_tokens=512,
    too_long="cut",
)  # fmt: skip
dataset = make_dataset()
lengths = dataset.lengths  # (patients,)
print(f"{len(records):,} patients, {lengths.sum():,} tokens")

# %%
empty = 1 - lengths.sum() / (512 * len(lengths))
middle, longest = int(np.median(lengths)), lengths.max()
picture, axes = blank_chart(
    f"Give each record 512 places, and {empty:.0%} of them stay empty",
    f"A histogram of {len(lengths):,} records on an axis of 512 tokens:"
    f" half have at most {middle}, the longest {longest}.",
)
axes.hist(lengths, bins=range(0, 516, 4), color="#2d708e")
axes.axvspan(longest, 512, color="#eceef1", zorder=0)
axes.text(290, 60, "no record is this long", ha="center")
marks = {
    f"half of the records have at most {middle} tokens": (middle, 580),
    f"the longest has {longest} tokens": (longest, 300),
}
for words, (x, y) in marks.items():
    axes.plot([x, x, longest + 5], [0, y, y], "-", color="#b3400e")
    axes.text(longest + 10, y, words, va="center")
axes.set(xlim=(0, 512), xlabel="tokens of a record", ylabel="patients")
picture

# %% tags=["hide-input"]
# check: most places are empty
assert lengths.sum() < 0.3 * 512 * len(lengths)

# %% [markdown]
# Nearly all of the work is done on empty places, and nothing warns you.
# The way from a record to the model has more such traps.
#
# Here is that path for one patient. In each *epoch*, one pass over all patients,
# the record is damaged again, as in lesson 09. Then a
# [collator](../course/book/glossary.md) pads it and stacks it with others into one
# batch of tensors. This lesson looks at a batch and then asks four questions of it, the
# colleague's first: how much of it is empty? Is the noise fresh in every epoch? Is the
# batch well-formed? Will it fit into memory?

# %%
# choose a patient of two visits and three shorter ones; damage each visit
off = [
    (abs(len(record.visits) - 2), abs(length - 11))
    for record, length in zip(records, lengths)
]
place = off.index(min(off))
shorter = np.flatnonzero(lengths < lengths[place])[:3].tolist()
infill = Corruption(p_visit=1.0, strategies=["infill"])
batch = make_dataset(corruption=infill).batch([place, *shorter])
ids = dataset.tokens.take([place]).to_lists()[0]

# %%
draw_path(records[place], tokenizer, batch)

# %% tags=["hide-input"]
# check: what the picture shows
assert ids == tokenizer.encode(records[place])
assert batch["labels"][0].tolist() == ids

# %% [markdown]
# ## What is in a batch?
#
# The encoder reads the damaged records, `input_ids`, and the `attention_mask`
# says which of their places hold a token. The decoder writes the `labels`, the
# clean records, and reads them moved one place to the right,
# `decoder_input_ids`. `x_num` holds the age in years, `x_cat` the sex (0 for M,
# 1 for F).

# %%
draw_tensors(batch)

# %% [markdown]
# The model looks up every id that it is given, so ids are padded with a real
# id, 0. The loss skips -100 and nothing else, so labels are padded with -100.
#
# All rows are as long as the longest row *of this batch*. This is
# [dynamic padding](../course/book/glossary.md).

# %% [markdown]
# ## How much of it is empty?
#
# That depends on who shares a batch. In a batch of 32, one long record
# makes the other 31 as wide as itself. So put records of similar length
# together: that is called [length bucketing](../course/book/glossary.md).
#
# A `LengthBatchSampler` says who shares a batch: it lists, for each batch, the
# numbers of its patients.

# %%
shuffled = LengthBatchSampler(lengths, 32, seed=SEED)
bucketed = LengthBatchSampler(lengths, 32, seed=SEED, group_by_length=True)


# %% tags=["hide-input"]
# the batches of one patient, and the places of an epoch, in each way
def places(plan):
    width = [lengths[list(key.indices)].max() for key in plan]
    return sum(len(key.indices) * w for key, w in zip(plan, width))


in_epoch = {
    "512 for each": 512 * len(lengths),
    "shuffled": int(places(shuffled)),
    "length buckets": int(places(bucketed)),
}


company, row = {}, {}
for way, plan in (("shuffled", shuffled), ("length buckets", bucketed)):
    (key,) = (key for key in plan if place in key.indices)
    company[way], row[way] = dataset[key], key.indices.index(place)

n_tokens = lengths.sum()
epoch_in_words = {
    way: f"{n:,}, {1 - n_tokens / n:.0%} empty"
    for way, n in in_epoch.items()
}
shapes = {
    way: "{} × {} places".format(*of["input_ids"].shape)
    for way, of in company.items()
}
in_words = (
    "The same patient in two batches. "
    + "; ".join(f"{way}: {shape}" for way, shape in shapes.items())
    + ". Places of a whole epoch: "
    + "; ".join(f"{way} {n}" for way, n in epoch_in_words.items())
    + "."
)
colours = ListedColormap(list(COLOURS.values()))

# %%
picture, panels = blank_chart(
    "Who decides how wide the row of a patient becomes?",
    in_words, "The same patient in both batches: the row at the arrow.",
    rows=2, columns=2, height=4, height_ratios=(3, 1), width_ratios=(3, 1),
)  # fmt: skip
for axes, (way, of) in zip(panels[0], company.items()):
    axes.imshow(kinds_of(of["input_ids"]), colours, aspect="auto",
                vmin=0, vmax=3, interpolation="nearest")
    axes.axhspan(row[way] - 0.5, row[way] + 0.5, fill=False, ec="#b3400e")
    axes.text(len(of["input_ids"][0]), row[way], "◀", color="#b3400e",
              va="center")
    axes.set_title(f"{way}\n{shapes[way]}")
    axes.set(xlabel="place", ylabel="record")

# %%
bars, key = panels[1]
whole = bars.barh(*zip(*in_epoch.items()), color="#eceef1")
bars.barh(list(in_epoch), n_tokens, color="#2d708e")
bars.bar_label(whole, epoch_in_words.values(), fontsize=8, padding=3)
bars.set(title="Places of a whole epoch", xticks=[], ylim=(2.6, -0.6),
         xlim=(0, 700 * len(lengths)))
key.legend([key.bar(0, np.nan, color=c) for c in colours.colors], COLOURS)
key.axis("off")
picture

# %% tags=["hide-input"]
# check: each step saves, and everybody comes once
fixed, dynamic, buckets = (
    1 - lengths.sum() / n for n in in_epoch.values()
)
assert dynamic < fixed - 0.1 and buckets < dynamic - 0.1
everyone = sorted(i for key in bucketed for i in key.indices)
assert everyone == list(range(len(lengths)))

# %% [markdown]
# The widget opens on the widest shuffled batch. Tick *length buckets*: batch
# 10 is now made of 32 other patients, who were all equally long before
# they were damaged. Then move the *batch* slider. Which batch is the greyest?

# %% tags=["widget"]
widths = [lengths[list(key.indices)].max() for key in shuffled]
batch_inspector(dataset, seed=SEED, number=int(np.argmax(widths)))

# %% tags=["hide-input"]
# check: batch 10 before and after the tick, and the greyest
keys = list(bucketed)
grey = [
    float((dataset[key]["attention_mask"] == 0).float().mean())
    for key in keys
]
if not real and PROFILE == "tiny" and SEED == 0:
    assert np.argmax(widths) == 10 and np.argmax(grey) == 7
    tenth, seventh = (lengths[list(keys[i].indices)] for i in (10, 7))
    assert len(set(tenth.tolist())) == 1 and len(seventh) == 16
    assert (seventh.min(), seventh.max()) == (36, 65)
    assert round(grey[7], 2) == 0.32 and sorted(grey)[-2] < 0.25
    # the last patients of the plan are those of its last, smaller pool
    ends = [i for key in list(shuffled)[POOL:] for i in key.indices]
    assert sorted(seventh.tolist()) == sorted(lengths[ends].tolist())[-16:]

# %% [markdown]
# <details><summary>The greyest batch</summary>
# Batch 7, with 32%. It holds the longest records, which are rare: their lengths
# run from 36 to 65 tokens.
# </details>
#
# Is the training faster now? Here are the places and seconds of an epoch for
# a tiny model on one core, estimated from some of its batches.

# %%
torch.manual_seed(SEED)
config = PromptBartConfig.for_tokenizer(tokenizer, "tiny")
model = PromptBart(replace(config, max_position_embeddings=514))
adam = torch.optim.AdamW(model.parameters(), lr=1e-4)


def step(batch):
    model(**batch).loss.backward()
    adam.step()
    adam.zero_grad()


# %%
def to_512(batch):
    for name in list(batch)[:4]:
        more = 512 - batch[name].shape[1]
        value = -100 if name == "labels" else 0
        batch[name] = torch.nn.functional.pad(
            batch[name], (0, more), value=value
        )
    return batch


# %%
def seconds(keys, change=lambda batch: batch, every=4):
    by_width = sorted(keys, key=lambda k: lengths[list(k.indices)].max())
    some = by_width[every // 2 :: every] or by_width
    ready = [change(dataset[key]) for key in some]
    step(ready[0])
    # The seconds of the processor leave out those of other programs.
    began = time.process_time()
    for one in ready:
        step(one)
    taken = time.process_time() - began
    return taken * len(by_width) / len(some)


# %% tags=["hide-input", "nbval-ignore-output"]
# time whole training steps on some batches of each way
n_threads = torch.get_num_threads()
torch.set_num_threads(1)
full = [key for key in shuffled if len(key.indices) == 32]
epoch_of = {
    "512 for each": seconds(full, to_512, every=len(full)),
    "shuffled": min(seconds(shuffled) for _ in range(2)),
    "length buckets": min(seconds(bucketed) for _ in range(2)),
}
short = np.argsort(lengths, kind="stable")[:8].tolist()
alone, eight = (
    min(seconds([BatchKey(0, 0, tuple(some))] * 20) / 20 for _ in range(3))
    for some in (short[:1], short)
)
began = time.process_time()
for key in bucketed:
    dataset[key]
make = time.process_time() - began
torch.set_num_threads(n_threads)
print(f"{'':16}{'places':>10}{'an epoch':>11}")
for way, needed in epoch_of.items():
    n = in_epoch[way]
    print(f"{way:16}{n:10,}{needed:9.1f} s")
in_places = alone / epoch_of["length buckets"] * in_epoch["length buckets"]
assert eight < 3 * alone
if not real:
    slow, middle, fast = epoch_of.values()
    assert slow > 4 * middle and middle > 1.3 * fast
    less = in_epoch["length buckets"] / in_epoch["shuffled"]
    assert less < fast / middle
    assert fast > 5 * make

# %% [markdown]
# That answers the colleague. (Seconds and places do not fall alike: a place of a
# wide row costs more, since the model compares it with all others of its row, and
# each batch has a cost of its own.)
#
# You could sort all patients at once and cut that list. But then many who share a batch
# would meet again in the next epoch, and the model would take much the same steps
# again. So the plan sorts only within *pools* of shuffled patients, of 50 batches each.
# It still saves nearly all of the padding. (To fit, the next picture has pools of three
# batches.) Buckets have a price all the same, which you will meet in lesson 19: they
# change what a model learns.

# %%
# the first patients of the plan, in small pools
some = [i for key in shuffled for i in key.indices][:24]
some = lengths[some]
# two pools of three batches of four, each pool sorted
pools = np.sort(some.reshape(2, 12), axis=1)
order = np.random.default_rng(SEED).permutation(6)
batches = pools.reshape(6, 4)
steps = {
    "shuffle all, cut into pools": some.reshape(6, 4),
    "sort each pool, cut into batches": batches,
    "shuffle the batches": batches[order],
}
as_words = "; ".join(
    f"{step}: {' | '.join(' '.join(map(str, b)) for b in of.tolist())}"
    for step, of in steps.items()
)

# %%
picture, panels = blank_chart(
    "What does sorting within pools save, and what does it keep mixed?",
    f"24 records as bars, three times. {as_words}.",
    "A bar is a record; its height is the number of its tokens.",
    height=3.8, rows=3, sharex=True, sharey=True,
)  # fmt: skip
pools_of = (np.arange(6) // 3, np.arange(6) // 3, order // 3)
gaps = np.array([(1, 1, 1, 4, 4, 4), range(6), range(6)])
xs = np.arange(24).reshape(6, 4) + gaps[..., None]
for axes, (step, of), pool, x in zip(panels, steps.items(), pools_of, xs):
    if axes is not panels[0]:
        wide = {"color": "#eceef1", "width": 3.9}
        axes.bar(x[:, 0] + 1.5, of.max(axis=1), **wide, label="padding")
    for part, colour in enumerate(("#2d708e", "#7ad151")):
        axes.bar(x[pool == part].flat, of[pool == part].flat, 0.9,
                 color=colour, label=f"pool {part + 1}")
    axes.set(title=step, xticks=[], ylabel="tokens")
picture.legend(*axes.get_legend_handles_labels(), ncols=3,
               frameon=False, fontsize=8, loc="outside lower center")
picture


# %% [markdown]
# ### Going further: how large should a pool be?
#
# What pools of other sizes cost, and how often two patients meet again.

# %% tags=["hide-input"]
# padding, and the pairs of a batch who share one again in the next epoch
def batch_of_each(pool_batches, epoch, lengths):
    plan = LengthBatchSampler(lengths, 32, seed=SEED, epoch=epoch)
    patients = np.concatenate([key.indices for key in plan])
    number = np.empty(len(lengths), dtype=int)
    for first in range(0, len(patients), 32 * pool_batches):
        pool = patients[first : first + 32 * pool_batches]
        pool = pool[np.argsort(lengths[pool], kind="stable")]
        number[pool] = (first + np.arange(len(pool))) // 32
    return number


def pairs(*numbers):
    met = np.unique(np.stack(numbers), axis=1, return_counts=True)[1]
    return (met * (met - 1)).sum()


def empty_and_again(pool_batches, lengths):
    one, two = (batch_of_each(pool_batches, i, lengths) for i in (0, 1))
    widths = np.zeros(one.max() + 1, dtype=int)
    np.maximum.at(widths, one, lengths)
    filled = (np.bincount(one) * widths).sum()
    return 1 - lengths.sum() / filled, pairs(one, two) / pairs(one)


assert POOL == 50
large = np.random.default_rng(SEED).choice(lengths, 46_520)
cases = [
    ("shuffled", 1, lengths),  # a pool of one batch
    ("all in one row", len(lengths), lengths),
    ("pools of 50 batches", POOL, lengths),
    ("the same, larger", POOL, large),
]
print(f"{'':21}patients   empty   pairs who meet again")
found = []
for way, pool_batches, of in cases:
    found.append(empty_and_again(pool_batches, of))
    empty, again = found[-1]
    if way != "shuffled":
        print(f"{way:21}{len(of):8,}{empty:8.0%}{again:12.0%}")
chance, row, pools, large_pools = found
assert real or row[0] < pools[0] < 0.1 < chance[0] / 5
assert real or abs(large_pools[0] - pools[0]) < 0.03
assert real or large_pools[1] < min(0.02, pools[1] / 5)
assert real or (chance[1] < 0.02 and pools[1] < row[1] < 0.5)


# %% [markdown]
# In our hospital, a pool of 50 batches is nearly everybody, so it hardly mixes. A
# hospital may be as large as MIMIC-III, with 46,520 patients; here their lengths
# are drawn from those of ours. There it still saves nearly all of the padding, and
# hardly any pair meets again. So leave the pools at 50 batches, as
# `LengthBatchSampler` does.

# %% [markdown]
# ### 10.1 Padding waste and length buckets
#
# Try It Yourself · ★★ · 7 minutes
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

# %% tags=["exercise:10.1", "nbval-ignore-output"]
def padding_share(
    lengths: list[int], batch_size: int, pool_batches: int
) -> float:
    raise NotImplementedError("10.1: replace this line")


check("10.1", padding_share)


# %% [markdown]
# ## Is the noise fresh?
#
# Each epoch should damage each patient in a new way. The obvious way is to
# keep one random generator and to draw from it for each batch. That works, until
# somebody wants more speed and adds
# [workers](../course/book/glossary.md#worker), processes that make batches
# beside the one that trains. A worker begins with a copy of everything, that
# generator included.
#
# Here the noise of a batch is a single number below 1,000, and an epoch has
# four batches. Two workers take turns, each with its own copy.

# %%
class KeepsAGenerator:
    def __init__(self):
        self.rng = np.random.default_rng(SEED)

    def __getitem__(self, batch):
        return int(self.rng.integers(1_000))


noisy = KeepsAGenerator()
no_workers = [[noisy[i] for i in range(4)] for epoch in range(2)]


def two_workers_epoch(data):
    workers = [copy.deepcopy(data), copy.deepcopy(data)]
    return [workers[i % 2][i] for i in range(4)]


noisy = KeepsAGenerator()
two_workers = [two_workers_epoch(noisy) for epoch in range(2)]
print("no workers: ", *no_workers)
print("two workers:", *two_workers)

# %% tags=["hide-input"]
# check: PyTorch's loader with two workers, which begin with a copy
rng = np.random.default_rng(SEED)
loader = DataLoader(
    [1_000] * 4,  # rng.integers(1_000), four times
    batch_size=None,
    collate_fn=rng.integers,
    num_workers=2,
)
by_loader = [[int(noise) for noise in loader] for epoch in range(2)]

assert by_loader == two_workers

# %%
# with a new generator for each batch: the same 32 patients, corrupted
same = tuple(range(min(32, len(dataset))))
fresh = []
for epoch in range(2):
    keys = [BatchKey(epoch, number, same) for number in range(4)]
    loader = DataLoader(
        dataset, batch_size=None, sampler=keys, num_workers=2
    )
    fresh.append([one["input_ids"].numpy().tobytes() for one in loader])


# %% tags=["hide-input"]
# the same noise has the same letter
def letters(epochs):
    names = {}

    def letter(noise):
        return names.setdefault(noise, chr(65 + len(names)))

    return [[letter(noise) for noise in batches] for batches in epochs]


ways = {
    "kept": letters(no_workers),
    "kept, two workers": letters(two_workers),
    "one for each batch": letters(fresh),
}
ways_in_words = "; ".join(
    f"{way}: {' and '.join(' '.join(noise) for noise in epochs)}"
    for way, epochs in ways.items()
)

# %%
picture, panels = blank_chart(
    "Does each batch of each epoch get noise of its own?",
    f"Letters for the noise of each batch. {ways_in_words}.",
    "The same patients in each batch. Equal letters are equal noise.",
    height=2.4, columns=3, sharey=True,
)  # fmt: skip
for axes, (way, epochs) in zip(panels, ways.items()):
    tiles = np.array([[ord(letter) for letter in of] for of in epochs])
    axes.pcolormesh(tiles, cmap="viridis", edgecolors="white")
    for (epoch, i), tile in np.ndenumerate(tiles):
        colour = "white" if tile < tiles.mean() else "black"
        axes.text(i + 0.5, epoch + 0.5, chr(tile), color=colour,
                  ha="center", va="center")
    makers = ["none"] * 4 if way == "kept" else [0, 1, 0, 1]
    numbers = [f"{i}\n{maker}" for i, maker in enumerate(makers)]
    axes.set_xticks(np.arange(4) + 0.5, numbers)
    axes.set_title(f"{way}:\n{len(np.unique(tiles))} different of 8")
    axes.set(xlabel="batch (below: its worker)", ylim=(2, 0))
panels[0].set_yticks((0.5, 1.5), ("epoch 0", "epoch 1"))
picture

# %% tags=["hide-input"]
# check: which batches repeat
eight = [list("ABCD"), list("EFGH")]
assert list(ways.values()) == [eight, [list("AABB")] * 2, eight]


# %% [markdown]
# In the middle, both workers draw the same numbers. And each epoch starts new
# workers, which copy the unmoved generator again. So every epoch repeats the
# first, with no error. PyTorch's own `DataLoader` does the same.
#
# On the right is the fix: keep no generator at all. `RecordDataset` makes a
# new one for each batch that it corrupts. From which numbers?
#
# ### 10.2 Fresh corruption that can be repeated
#
# Try It Yourself · ★★ · 5 minutes
#
# An epoch has the batches 0 to `n_batches - 1`, made by `n_workers`
# workers in turn. The epoch is resumed at batch `start`. Each batch has a
# generator of its own, `np.random.default_rng` of a list of whole numbers,
# and its noise is the first number it draws, `rng.integers(1_000)`. Return
# the noise of the batches from `start` on, in their order.
#
# Which of the numbers belong in the list? Another training (`seed`),
# another epoch and another batch must get other noise. A batch must keep
# its noise on a machine with more workers, and after an interruption. Put
# `seed` first, and the larger unit before the smaller.
#
# Example: `loader_noise(7, 0, 0, 4, 2)` is `[944, 728, 973, 414]`, and
# `loader_noise(7, 0, 2, 4, 3)` is `[973, 414]`.

# %% tags=["exercise:10.2", "nbval-ignore-output"]
def loader_noise(
    seed: int, epoch: int, start: int, n_batches: int, n_workers: int
) -> list[int]:
    raise NotImplementedError("10.2: replace this line")


check("10.2", loader_noise)

# %% [markdown]
# The course's `data_loader` keeps these rules.

# %% tags=["hide-input"]
# check: epoch 1 made in three ways, and epoch 2
epoch = partial(data_loader, dataset, 32, seed=SEED, epoch=1)
whole = list(epoch())
half = len(whole) // 2
by_two, rest = list(epoch(num_workers=2)), list(epoch(start=half))
following = list(data_loader(dataset, 32, seed=SEED, epoch=2))


def equal(some, others):
    return len(some) == len(others) and all(
        torch.equal(one[name], other[name])
        for one, other in zip(some, others)
        for name in one
    )


assert equal(whole, by_two) and equal(whole[half:], rest)
assert not equal(whole, following)

# %% [markdown]
# ## Is the batch well-formed?
#
# Data and model meet at the batch, and both rely on its form. Suppose that the
# colleague makes his batches himself, and makes a mistake: his mask is inverted, or
# nothing is shifted. Would the training tell him? Train a new model for thirty
# batches, without a mistake and with each of the two:

# %%
faults = {
    "all is right": lambda one: {},
    "the mask is inverted": lambda one: {
        "attention_mask": 1 - one["attention_mask"]
    },
    "nothing is shifted": lambda one: {
        "decoder_input_ids": one["labels"].clamp(min=0)
    },
}


# %%
def train(fault):  # thirty steps
    torch.manual_seed(SEED)
    pupil, losses = PromptBart(config), []
    adam = torch.optim.AdamW(pupil.parameters(), lr=1e-3)
    for key in list(bucketed)[:30]:
        one = dataset[key]
        loss = pupil(**one | fault(one)).loss
        loss.backward()
        adam.step()
        adam.zero_grad()
        losses.append(loss.item())
    return float(np.mean(losses[-5:]))


# %% tags=["nbval-ignore-output"]
print("loss, mean of the last five batches")
ends = {}
for what, fault in faults.items():
    ends[what] = train(fault)
    print(f"{what:22}{ends[what]:5.1f}")

# %% tags=["hide-input"]
# check: one fault leaves the loss as it is, the other makes it too low
right, inverted, unshifted = ends.values()
assert real or abs(inverted - right) < 0.1 * right
assert real or unshifted < 0.4 * right

# %% [markdown]
# With the mask inverted, the encoder reads the padding instead of the patient, and
# yet the loss falls almost as usual: only a check of the values finds this fault.
# With nothing shifted, the decoder reads the very token that it should write, and
# the loss is too good, as in lesson 09.
#
# So write down what a batch has to be, as a contract, and let a program check it.

# %% [markdown]
# ### Going further: what do types see of it?
#
# A library checks the type and the shape of each tensor. Which faults does it miss?

# %% [markdown]
# The library *jaxtyping* writes the type and the names of the dimensions beside a
# tensor. A name stands for the same size everywhere in the batch; a number stands for
# exactly that size.

# %%
contract = {
    "input_ids": Int64[Tensor, "batch source"],
    "attention_mask": Int64[Tensor, "batch source"],
    "decoder_input_ids": Int64[Tensor, "batch target"],
    "labels": Int64[Tensor, "batch target"],
    "x_num": Float32[Tensor, "batch 1"],
    "x_cat": Int64[Tensor, "batch 1"],
}


# %%
# broken_types(tensors): which of six tensors break their line
def broken_types(tensors):
    with jaxtyped("context"):  # remembers the size of each name
        held = {k: isinstance(tensors[k], contract[k]) for k in contract}
    return [name for name in contract if not held[name]]


def lines(hints):
    return {name: kind.__name__ for name, kind in hints.items()}


# these are the lines of the course's own class
assert lines(contract) == lines(get_type_hints(Batch))

# %% [markdown]
# Now replace one tensor of the batch above, in four ways. Which of the
# faults does jaxtyping see? And which does the course's `check_batch`, which
# also looks at the values?

# %%
mask, labels = batch["attention_mask"], batch["labels"]
broken = {
    "an age is missing": {"x_num": batch["x_num"][:-1]},
    "the mask is boolean": {"attention_mask": mask.bool()},
    "the mask is inverted": {"attention_mask": 1 - mask},
    "nothing is shifted": {"decoder_input_ids": labels.clamp(min=0)},
}

# %%
# hand each faulty batch to both checks
by_types, by_values = [], []
for what, change in broken.items():
    by_types += [what] if broken_types(batch | change) else []
    try:
        check_batch(batch | change)
    except InputError:
        by_values.append(what)
seen = {"types": by_types, "check_batch": by_values}

# %%
rows, fills, notes = {}, {}, {}
for what, change in broken.items():
    ((name, wrong),) = change.items()
    for tensor, fill in ((batch[name], "encoder"), (wrong, "trap")):
        # of the ages all, of the others the second patient's row
        values = tensor.flatten() if name == "x_num" else tensor[1]
        row = f"{what}\n{name}" if fill == "encoder" else f"{what}: wrong"
        rows[row] = [f"{value:.0f}" if value.dtype != torch.bool
                     else str(value.item())[0] for value in values]
        fills[row] = [fill] * len(values)
        notes[row] = f"{tuple(tensor.shape)} {str(tensor.dtype)[6:]}"
    for check_, faults in seen.items():
        notes[row] += f", {'✓' if what in faults else '✗'} {check_}"
draw_strips(
    rows, "Which check sees which fault?",
    "One row of the tensor, right and wrong; of the ages, all rows. "
    "✓ sees the fault, ✗ misses it.",
    fills=fills, notes=notes,
)  # fmt: skip

# %% tags=["hide-input"]
# check: who sees what
assert broken_types(batch) == []
assert by_types == ["an age is missing", "the mask is boolean"]
assert by_values == list(broken)
check_batch(batch, n_tokens=len(tokenizer))


# %% [markdown]
# ### 10.3 The contract of a batch
#
# Try It Yourself · ★★ · 9 minutes
#
# Write such a check of the contract. The function takes the six tensors of a batch and
# returns the list of the names of the broken clauses, in this order:
#
# - `"shapes"`: `input_ids` and `attention_mask` are (batch, source),
#   `decoder_input_ids` and `labels` (batch, target), `x_num` and `x_cat`
#   (batch, 1).
# - `"dtypes"`: `x_num` is `torch.float32`, all the others `torch.int64`.
# - `"mask"`: `attention_mask` is 0 where `input_ids` is 0, and 1
#   everywhere else.
# - `"labels"`: no label is 0, because padding is -100 there.
# - `"decoder"`: a row of `decoder_input_ids` is 2 followed by the labels
#   of the row without the last one, with 0 in place of -100.
#
# Where the shapes are broken, return `["shapes"]` alone. `x_num` or
# `x_cat` can arrive as (batch,), which is a broken shape. The others always
# have two dimensions.
#
# Example: a batch whose `x_num` is `torch.float64` and whose mask is
# inverted gives `["dtypes", "mask"]`; a good one gives `[]`.

# %% tags=["exercise:10.3", "nbval-ignore-output"]
def problems(
    input_ids: Tensor,
    attention_mask: Tensor,
    decoder_input_ids: Tensor,
    labels: Tensor,
    x_num: Tensor,
    x_cat: Tensor,
) -> list[str]:
    raise NotImplementedError("10.3: replace this line")


check("10.3", problems)


# %% [markdown]
# ## Will it fit?
#
# Back to the colleague, before he has heard of all this. He has a vocabulary of
# 7,000 tokens, a card of 8 GB and records of 512 places, and raises his batch from
# 32 to 256 of them. The six tensors take only 4 MB, and yet training stops at its
# first step, out of memory. What takes it?

# %% [markdown]
# Not the batch. A tensor takes as many bytes as it has numbers, times the bytes of
# one number: 8 for an int64, 4 for a float32. The *logits* of lesson 09 are the first
# suspect: BART gives each place a float32 for each token of the vocabulary.

# %%
def batch_bytes(n_records, source, target):
    places = 2 * source + 2 * target  # ids and mask; decoder and labels
    return n_records * (8 * places + 4 + 8)  # the age, the sex


def logits_bytes(n_records, n_places, n_tokens):
    return n_records * n_places * n_tokens * 4


print(f"his batch: {batch_bytes(256, 512, 512) / 1e6:,.0f} MB")
print(f"his logits: {logits_bytes(256, 512, 7_000) / 1e6:,.0f} MB")

# %% tags=["hide-input"]
# check: the widest batch and its logits, predicted and measured
widest = max(shuffled, key=lambda k: lengths[list(k.indices)].max())
n_rows = len(widest.indices)
source = target = int(lengths[list(widest.indices)].max())
at_most = batch_bytes(n_rows, source, target)
wide = dataset[widest]
in_batch = sum(tensor.nbytes for tensor in wide.values())
inputs = {name: wide[name] for name in wide if name != "labels"}
with torch.no_grad():
    in_logits = model(**inputs).logits.nbytes
predicted = logits_bytes(n_rows, target, len(tokenizer))

# %% [markdown]
# That would fit. But the loss turns the logits into log-probabilities, and then
# `backward` goes the same way back, with a [gradient](../course/book/glossary.md) for
# each number that says how the loss changes with it. At its fullest moment a step holds
# five things, and the first three are each as large as the logits were:
#
# 1. the log-probabilities (the logits themselves are no longer needed, and gone);
# 2. the gradient for each log-probability;
# 3. the gradient for each logit, which is made from it;
# 4. what the layers keep for `backward` (lesson 11): here it is measured with 4 of his
#    records, and multiplied by 64;
# 5. the weights, and two numbers that the optimizer remembers for each of them: little,
#    in a small model.

# %% tags=["hide-input"]
# the parts of a step at both widths, computed, and the peak, measured
larger = replace(config, vocab_size=7_000, max_position_embeddings=514)
his_model = BartForConditionalGeneration(larger)
stays = 3 * held_bytes(his_model)  # weights, and the optimizer's twice
step_of, peak_of = {}, {}
for width in (512, target):
    row = torch.full((4, width), 7)
    answers = row.clone()
    answers[:, 14:] = -100  # the mean record has 14 tokens
    some = {"input_ids": row, "decoder_input_ids": row, "labels": answers}
    forward = partial(his_model, **some)
    kept = activation_bytes(lambda run=forward: run().loss, his_model)
    layers = 64 * (kept - logits_bytes(4, width, 7_000))
    each = logits_bytes(256, width, 7_000)
    step_of[width] = [
        ("1 log-probs", each), ("2 gradient", each),
        ("3 gradient", each), ("4 layers", layers), ("5", stays),
    ]  # fmt: skip
    with MemoryTrace(held=stays) as trace:
        his_model(**some).loss.backward()
    peak_of[width] = stays + 64 * (trace.peak - stays)
    parts = sum(n for _, n in step_of[width])
    assert abs(parts / peak_of[width] - 1) < 0.01
total = [sum(n for _, n in parts) for parts in step_of.values()]
for width, computed, peak in zip(step_of, total, peak_of.values()):
    each, _, _, kept, stay = (n / 1e6 for _, n in step_of[width])
    print(f"{width:3} places wide: 3 · {each:,.0f} + {kept:,.0f}", end=" ")
    print(f"+ {stay:,.0f} = {computed / 1e6:,.0f} MB,", end=" ")
    print(f"measured {peak / 1e6:,.0f} MB")


def memory_in_words(memory):
    return "; ".join(
        " + ".join(f"{part} {n / 1e6:,.0f}".strip() for part, n in parts)
        for parts in memory.values()
    )


memory = {
    "the logits alone, 512 wide": [("", logits_bytes(256, 512, 7_000))],
    "all that a step holds": step_of[512],
    f"all of it, {target} wide": step_of[target],
}
totals = [sum(n for _, n in parts) for parts in memory.values()]
changes = (
    f"(× {totals[1] / totals[0]:.0f})",
    f"(÷ {totals[1] / totals[2]:.0f})",
)
kept_at = [dict(parts)["4 layers"] for parts in step_of.values()]
assert abs(kept_at[0] / kept_at[1] * target / 512 - 1) < 0.01
assert total[0] > 1.5 * 8e9
assert real or total[1] < 4e9

# %%
picture, axes = blank_chart(
    "Does a step of training fit the card's 8,000 MB?",
    f"Bars of MB: logits alone, a step 512 wide, a step {target} wide:"
    f" {memory_in_words(memory)}. The card has 8,000.",
    "× and ÷: how many times the bar above.", height=2.4,
)  # fmt: skip
for (name, parts), times in zip(memory.items(), ("", *changes)):
    start = 0
    for part, n in parts:
        axes.barh(name, n / 1e6, left=start, color="#b8dce0",
                  edgecolor="k")
        if n > 1e9:  # there is room
            axes.text(start + 100, name, part, va="center")
        start += n / 1e6
    axes.text(start + 100, name, f"{start:,.0f} MB {times}", va="center")
axes.vlines(8_000, -0.7, 2.6, color="#b3400e", ls="--", zorder=0)
axes.text(8_000, -1, "the card: 8,000 MB", color="#b3400e", ha="center")
axes.set(xlabel="MB", xlim=(0, 18_000), ylim=(2.6, -1.4))
axes.xaxis.set_major_formatter("{x:,.0f}")
picture

# %% tags=["hide-input"]
# check: predicted and measured, and the colleague's batch
assert wide["labels"].shape == (n_rows, target)
assert 0.7 * at_most < in_batch <= at_most
assert real or SEED or PROFILE != "tiny" or in_batch == at_most
assert predicted == in_logits > 10 * in_batch
assert round(batch_bytes(256, 512, 512) / 1e6) == 4

# %% [markdown]
# The way out is the one that saved time: pad each batch to its own longest
# record. If his records are as short as ours, all 256 fit.

# %% [markdown]
# ### Going further: can an epoch cost even less?
#
# It can, but does a model then learn as much? Exercise 10.4 (★★★) is in here.

# %% [markdown]
# With length buckets, batches of 32 records are far from equally large:

# %%
sizes = [
    len(key.indices) * int(lengths[list(key.indices)].max())
    for key in bucketed
    if len(key.indices) == 32
]
print(f"places of a batch: from {min(sizes):,} to {max(sizes):,}")

# %% tags=["hide-input"]
# check: the sizes
assert real or max(sizes) > 8 * min(sizes)

# %% [markdown]
# The largest batch decides how much memory you need. The small ones leave
# most of it unused, and yet each has a cost of its own. So give each batch a
# budget of places instead of a number of records. Then many short records
# share one batch, and there are fewer batches.
#
# The obvious way is to fill each batch up. Here are four records and a
# budget of 18 places:

# %%
filled_up, another = [[2, 2, 5], [6]], [[2, 2], [5, 6]]

# %%
picture, panels = blank_chart(
    "What do two divisions of the same records cost?",
    f"Batches of the lengths {filled_up} cost 27, {another} cost 22.",
    "A row is a record, grey its padding. A batch costs its places + 3.",
    height=2.3, columns=2, sharex=True, sharey=True,
)  # fmt: skip
names = "filled up, shortest first", "another division"
for axes, name, batches in zip(panels, names, (filled_up, another)):
    y = cost = 0
    for one in batches:
        n, width = len(one), max(one)
        for length in one:
            fills = ["#2d708e"] * length + ["#eceef1"] * (width - length)
            axes.barh([y] * width, 1, 1, range(width), color=fills)
            y += 1
        axes.text(width + 0.2, y - 1, f"{n} × {width} + 3", va="center")
        y, cost = y + 0.6, cost + n * width + 3
    axes.set(title=f"{name}: cost {cost}", ylim=(4.2, -0.6))
    axes.axis("off")
picture


# %% [markdown]
# #### 10.4 A budget of places
#
# Try It Yourself · ★★★ · 16 minutes
#
# Divide the records of an epoch into batches, each record into exactly
# one. A batch has as many places as its number of records times its
# longest record, and at most `budget` places. It costs its places, and
# `overhead` more for the work that every batch needs, however small it
# is. The cost of the epoch is the sum over its batches. Return the lowest
# cost that any division reaches.
#
# `lengths` come in any order, and no record is longer than the budget.
# There can be 40 records, which is too many to try every division.
#
# Example: `lowest_cost([2, 6, 5, 2], 18, 3)` is `22`, the cost of the
# division on the right.

# %% tags=["exercise:10.4", "nbval-ignore-output"]
def lowest_cost(lengths: list[int], budget: int, overhead: int) -> int:
    raise NotImplementedError("10.4: replace this line")


check("10.4", lowest_cost)

# %% [markdown]
# <details><summary>Why cutting the sorted records is enough (this gives
# 10.4 away)</summary>
# If a batch holds a record longer than some record of a wider batch, swap
# the two: no batch gets wider. So some cheapest division is a sorted row,
# cut in places. For each record in turn, try every start of the batch that
# ends there, and add the lowest cost of all that comes before.
# </details>
#
# Does it pay? For the patients of this lesson, let the budget be the places of the
# largest batch, and the overhead of a batch 100 places, about what a step on one
# short record costs. Train two models from the same start for three epochs of 1,400
# patients, one with 32 records in each batch, one with the best division, and take
# the loss on 200 others:

# %% tags=["hide-input"]
# divide the plan's pools in three ways (this gives 10.4 away)
of_32 = [
    (len(key.indices), int(lengths[list(key.indices)].max()))
    for key in bucketed
]
budget, overhead = max(n * width for n, width in of_32), 100
pools = [
    np.sort(lengths[list(key.indices)])
    for key in LengthBatchSampler(lengths, 32 * POOL, seed=SEED)
]


def fill_up(pool):
    batches = []  # (records, width)
    for length in pool.tolist():
        rows = batches[-1][0] if batches else 0
        if rows and (rows + 1) * length <= budget:
            batches[-1] = (rows + 1, length)
        else:
            batches.append((1, length))
    return batches


def divide_best(pool):
    best, cut_at = np.zeros(len(pool) + 1), np.zeros(len(pool) + 1, int)
    for end, width in enumerate(pool.tolist(), 1):
        starts = np.arange(max(0, end - budget // width), end)
        costs = best[starts] + (end - starts) * width + overhead
        best[end], cut_at[end] = costs.min(), starts[costs.argmin()]
    batches, end = [], len(pool)
    while end:
        batches.append((int(end - cut_at[end]), int(pool[end - 1])))
        end = int(cut_at[end])
    return batches


ways = {
    "32 records each": of_32,
    "filled up": [b for pool in pools for b in fill_up(pool)],
    "the best division": [b for pool in pools for b in divide_best(pool)],
}

# %% tags=["hide-input"]
# check: all patients in each way, within the budget; who saves how much
assert real or 30 < in_places < 300
for way in ways.values():
    assert sum(n for n, _ in way) == len(lengths)
    assert max(n * width for n, width in way) <= budget
each, fill, best = (
    sum(n * width + overhead for n, width in way) for way in ways.values()
)
assert real or best < min(each, fill)
if not real and PROFILE == "tiny":
    assert 0.4 * (each - best) < each - fill < 0.65 * (each - best)
    wide, few = (sum(n * w for n, w in ways[k]) for k in list(ways)[1:])
    assert wide > few and len(ways["filled up"]) < len(of_32) / 2

# %% tags=["hide-input", "nbval-ignore-output"]
# train in two ways, in turns, time the steps, take the loss on others
first = next(iter(LengthBatchSampler(lengths, 32 * POOL, seed=SEED)))
pool = np.array(first.indices)
others, ours = np.split(pool, [min(200, len(pool) // 8)])
ours = ours[np.argsort(lengths[ours])]
numbers = {
    "32 records each": [32] * -(-len(ours) // 32),
    "the best division": [n for n, _ in divide_best(lengths[ours])][::-1],
}
ready, pupils, costs = {}, {}, []
for way, rows in numbers.items():
    groups = np.split(ours, np.cumsum(rows)[:-1])
    ready[way] = [
        dataset[BatchKey(0, i, tuple(group.tolist()))]
        for i, group in enumerate(groups)
    ]
    costs.append(sum(len(g) * lengths[g].max() + overhead for g in groups))
    torch.manual_seed(SEED)
    pupil = PromptBart(config)
    pupils[way] = pupil, torch.optim.AdamW(pupil.parameters(), lr=1e-3)


def timed(way, turn):
    pupil, optimizer = pupils[way]
    rng = np.random.default_rng([SEED, turn])
    began = time.process_time()
    for i in rng.permutation(len(ready[way])):
        pupil(**ready[way][i]).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return time.process_time() - began


torch.set_num_threads(1)
turns = [[timed(way, turn) for way in ready] for turn in range(3)]
torch.set_num_threads(n_threads)
taken, lost = np.min(turns, axis=0), []
test_batch = dataset[BatchKey(0, 0, tuple(others.tolist()))]
print(f"{'in an epoch:':17}  steps  seconds", end="   ")
print("loss on the others")
for (way, batches), needed in zip(ready.items(), taken):
    with torch.no_grad():
        lost.append(float(pupils[way][0].eval()(**test_batch).loss))
    print(f"{way:17}{len(batches):7}{needed:9.2f}{lost[-1]:11.1f}")
print(f"\nsaved: {1 - taken[1] / taken[0]:.0%} of the seconds", end=", ")
print(f"{1 - costs[1] / costs[0]:.0%} of the cost")
assert real or (taken[1] < taken[0] and lost[1] > 1.2 * lost[0])
few, many = map(len, reversed(ready.values()))
assert real or few < many / 2

# %% [markdown]
# The seconds fall as well, but the model has learned less: an epoch now has less
# than half of the steps. **A cheaper epoch is not yet a faster training.** The same
# holds for the colleague's 256 records, which fit now: only the loss after equal
# time can tell whether they pay.

# %% [markdown]
# What does each way of dividing the patients save?

# %%
sizes, said, sums = {}, [], []
for way, of in ways.items():
    sizes[way] = sorted((n * width for n, width in of), reverse=True)
    sums.append(sum(sizes[way]) + overhead * len(of))
    saved = f" ({sums[-1] / sums[0] - 1:+.0%})" if said else ""
    said.append(f"{way}: {len(of)} batches, cost {sums[-1]:,}{saved}")
ends = ", ".join(f"{of[-1]:,} to {of[0]:,}" for of in sizes.values())

# %%
picture, panels = blank_chart(
    "What does each division of the patients save?",
    f"The places of the batches of an epoch, budget {budget:,}."
    f" {'; '.join(said)}. Their places, in this order: {ends}.",
    f"Places of each batch, sorted. Dashed: the budget. Each batch costs "
    f"{overhead} more.",
    columns=3, sharex=True, sharey=True,
)  # fmt: skip
for axes, of, words in zip(panels, sizes.values(), said):
    axes.bar(range(len(of)), of, 0.8, color="#2d708e", linewidth=0)
    axes.axhline(budget, color="#b3400e", linestyle="--")
    axes.set_title(words.replace(": ", "\n"))
    axes.set_xticks([])
panels[0].set_yticks((0, budget), ("0", f"{budget:,}"))
panels[0].set_ylabel("places")
picture

# %% [markdown]
# Filling up makes the fewest batches, but it pads more, and so it saves only half as
# much.

# %% [markdown]
# ## Recap
#
# - **Padding** fills each batch up to its own longest row: ids with 0,
#   labels with -100.
# - **Length buckets** sort within pools of 50 batches: nearly all of the padding is
#   saved, and the patients are still mixed.
# - **Corruption** comes from a generator made from seed, epoch and batch
#   number: fresh every time, and the same in any worker and after any
#   restart.
# - **A contract** names types and shapes, and agreements between tensors. The loss
#   does not always show that one is broken, so let a program check them.
# - **The memory** of a batch follows from its shapes. The logits take far more:
#   4 bytes for each place and each token of the vocabulary, and a step holds
#   three tensors of their size.
#
# ## Test yourself
#
# 1. Four records have 5, 5, 5 and 45 tokens, and their inputs are as long as
#    their labels. What share of a batch of them is padding, and how many
#    bytes does it take? And two batches of two, sorted?
#
# <details><summary>Answer</summary>
# 4 · 45 = 180 places for 60 tokens: two thirds. A place takes 8 bytes in each
# of four tensors: the ids, the decoder's, the labels and the mask, which is
# int64 too, however little it says. With 4 bytes for an age and 8 for a sex,
# that is 180 · 32 + 4 · 12 = 5,808 bytes. Sorted, 2 · 5 + 2 · 45 = 100 places:
# 40%, and 3,248 bytes.
# </details>
#
# 2. Somebody seeds the corruption of a batch with seed + epoch + number.
#    What is wrong?
#
# <details><summary>Answer</summary>
# Batch 1 of epoch 0 and batch 0 of epoch 1 have the same sum and so the
# same noise. A list of the three keeps them apart.
# </details>
#
# 3. Your labels are padded with 0 instead of -100. Which types or shapes
#    are wrong, and what does the model learn?
#
# <details><summary>Answer</summary>
# None: no check of types finds it. The model learns to
# write padding after the end, and its loss is a mean over padding too.
# </details>
#
# ## What comes next
#
# You can now feed a model with batches that waste little, can be repeated,
# keep their form, and fit. The colleague's epoch takes seconds instead of
# minutes. Try it on your own data: compute the share of padding with and without
# buckets, before you train.
#
# Twice here the cost lay inside the model: it compares every place with all
# others, and its layers keep gigabytes for `backward`. What do they compute?
# [Lesson 11](11_model_architecture.ipynb) opens it.
#
# If you know the tutorial that this lesson follows,
# [What holds](../course/book/what_holds.md#10-data-flow)
# says which of its claims hold.
