# %% [markdown]
# # 14 · Loss functions
#
# 100 minutes · Prerequisites: 13
#
# You will be able to:
#
# - Compute a masked cross-entropy by hand.
# - Split a batch into micro-batches without changing its loss.
# - Tell a loss with a gradient from one without.
# - Measure what each term contributes to the total.
# - Test a loss that you cannot read, and tell what it computes.

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
# ## Which of these is the loss?
#
# Four people run the same trained model on the same 32 patients, and each
# reports the mean loss. No two of their numbers agree, and none of their
# programs raises an error. Which number is the loss?

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %% tags=["hide-input"]
# set-up: what this lesson uses
import math
from collections.abc import Callable
from difflib import SequenceMatcher
from itertools import pairwise
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ehr_course import (
    NOT_SCORED, CodeTokenizer, Corruption, LossTerm, PatientProfile,
    PromptBart, PromptBartConfig, RecordDataset, choose_patients,
    co_occurrence_penalty, contributions, generate_patients,
    language_model_loss, load_checkpoint, loss_counts, make_cohort,
    measure_terms, never_together, real_data, split_by_patient, train,
    weighted_total,
)
from ehr_course.exercises import check, hint, mine, progress
from ehr_course.plots import (
    blank_chart, code_in_words, draw_bars, draw_flow,
)
from ehr_course.widgets import loss_terms_explorer

# %% [markdown]
# The model is the small trained one of the course, and the patients are new.
# `losses` holds a number for each place of the batch: minus the
# log-probability of the right token, in nats, and 0 on padding.

# %%
loaded = load_checkpoint("tiny_prompt_bart")
known = CodeTokenizer(loaded.tokenizer.codes, unseen="skip")
people = make_cohort(64, seed=SEED + 100)
batch = RecordDataset(people, known, seed=SEED).batch(range(32))
labels = batch["labels"]  # (batch, length), -100 on padding
with torch.no_grad():
    logits = loaded.model(**batch | {"labels": None}).logits
# .mT: PyTorch wants the vocabulary second, (batch, vocab, length)
losses = cross_entropy(logits.mT, labels, reduction="none")
print("labels", tuple(labels.shape), "logits", tuple(logits.shape))

# %%
scored = labels != NOT_SCORED
wider = nn.functional.pad(losses, (0, labels.shape[1]))
by_row = losses.sum(1) / scored.sum(1)  # (batch,)
means = {
    "all places": losses.mean(),
    "all places, padded wider": wider.mean(),
    "the means of the rows": by_row.mean(),
    "scored places": losses[scored].mean(),
}

# %%
said = ", ".join(f"{name} {mean:.3f}" for name, mean in means.items())
picture, (grid, axes) = blank_chart(
    "One batch, one model: which mean is its loss?",
    f"A grid of {labels.shape[0]} patients and {labels.shape[1]} places, "
    f"{scored.float().mean():.0%} of them scored, with up to "
    f"{losses.max():.1f} nats. Bars of means: {said}.",
    "Left: the loss of each place, grey is padding. Right: four means.",
    columns=2,
)
known_loss = losses.where(scored, math.nan)
shown = grid.imshow(known_loss, "BuPu", vmin=0, aspect="auto")
grid.set_facecolor("lightgrey")
grid.set(xlabel="place", ylabel="patient")
picture.colorbar(shown, ax=grid).ax.set_title("nats", fontsize=8)
values, colours = torch.stack([*means.values()]), ["#f6d5c3"] * 3
bars = axes.barh(list(means), values, color=[*colours, "#2d708e"])
axes.bar_label(bars, fmt="%.3f nats", padding=3, size=8)
axes.invert_yaxis()
axes.set(xticks=[], xlim=(0, 1.5 * values.max()))
picture

# %% tags=["hide-input"]
# check: padding makes the loss small
assert means["all places"] < 0.8 * means["scored places"]
assert means["all places, padded wider"] < 0.6 * means["all places"]

# %% [markdown]
# The first two count padding: pad wider and you report a lower loss, with the
# same model. The third takes the mean of each row and then the mean of those.
# A token of a short record then weighs more than one of a long record. The course
# reports the fourth, in which all scored places weigh the same.
#
# ## One drawing of everything
#
# Four questions stand behind that number.

# %%
n_weights = sum(p.numel() for p in loaded.model.parameters())
total, n = losses.sum().item(), int(scored.sum())
terms = "age, sex, penalty of\nthe model: what weights?"
back = "gradient: is there a way back?"
ways = [
    f"model:\n{n_weights:,} weights",
    "logits:\n" + " × ".join(map(str, logits.shape)),
    f"{n} losses of\n{labels.numel():,} places",
    f"{total:.0f} ÷ {n}\n= {total / n:.3f}",
    "total",
]
arrows = [*pairwise([*ways, back, ways[0]]), (terms, "total")]
arrows += [("labels", ways[2])]

# %%
draw_flow(
    {way: (i, 1, "paper") for i, way in enumerate(ways)}
    | {"labels": (2, 0, "code"), terms: (4, 0, "quiet")}
    | {back: ((0, 4), 2, "quiet")},
    arrows,
    "Which questions stand behind one number?",
    notes={
        ways[2]: "What does one\ntoken cost?",
        ways[3]: "What do you\ndivide by?",
    },
    dashed=[("total", back), (back, ways[0])],
)

# %% [markdown]
# ## What does one token cost?
#
# At each place the model gives every token a score, its logit. Softmax turns
# the scores into probabilities, and the cross-entropy is minus the logarithm
# of the right token's probability. Here is one patient with two visits:

# %% tags=["hide-input"]
# a patient with two visits, of few tokens: the cost of each token
lengths, visits = scored.sum(1), (labels == known.visit_start_id).sum(1)
fits = (lengths <= 16) & (visits == 2)
row = int((by_row * fits).argmax())  # of these, the highest loss
here = scored[row]
tokens, read = (
    known.tokens(ids.tolist())
    for ids in (labels[row][here], batch["input_ids"][row])
)
costs = losses[row][here]  # (tokens,)
alike = SequenceMatcher(None, read, tokens).get_matching_blocks()
kept = {block.b + i for block in alike for i in range(block.size)}
is_lost = [
    i not in kept and not token.startswith("<")
    for i, token in enumerate(tokens)
]

# %%
part = costs[is_lost].sum()
picture, axes = blank_chart(
    "Which tokens of this patient cost most?",
    f"Bars over {len(tokens)} tokens: "
    + ", ".join(f"{t} {c:.2f}" for t, c in zip(tokens, costs))
    + f" nats. The {sum(is_lost)} lost codes have {part:.1f} of "
    f"{costs.sum():.1f} nats.",
    f"The mean is {costs.mean():.2f}. Dark: missing in the input. Under "
    "each token the probability that the model gave it.",
)  # fmt: skip
colours = ["#440154" if lost else "#2d708e" for lost in is_lost]
white = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
bars = axes.bar(range(len(tokens)), costs, color=colours)
axes.bar_label(bars, fmt="%.2f", padding=2, size=8, bbox=white)
names = [f"{t}\n{p:.1%}" for t, p in zip(tokens, (-costs).exp())]
axes.set(xticks=range(len(tokens)), xticklabels=names, ylabel="nats")
axes.bar(0, 0, color="#440154", label="missing in the input")
axes.axhline(costs.mean(), c="black", ls="--", zorder=0, label="the mean")
axes.legend(loc="upper left")
picture

# %% tags=["hide-input"]
# check: in the whole batch, codes that the encoder does not read cost most
is_code = labels >= 7
in_input = (labels[:, :, None] == batch["input_ids"][:, None]).any(-1)
lost, seen = losses[is_code & ~in_input], losses[is_code & in_input]
markers = losses[scored & ~is_code]
assert lost.mean() > 4 * seen.mean() and lost.mean() > 4 * markers.mean()
print(f"mean loss of a lost code {lost.mean():.2f},", end=" ")
print(f"of one that is read {seen.mean():.2f},", end=" ")
print(f"of a marker {markers.mean():.2f}")

# %% [markdown]
# Markers such as `<v>` and `<EOS>` cost little. A code that the encoder can
# read costs more. But a code that the corruption has taken away must be guessed,
# and that is where most of the loss comes from.
#
# With the logits $z$ of a place and the right token $y$, the height of a bar
# is
#
# $$-\log p_y = -\log \frac{e^{z_y}}{\sum_j e^{z_j}}
# = \log \sum_j e^{z_j} - z_y$$
#
# There is one trap: in float32, the exponential of 89 is infinite. So subtract the
# largest logit of a place from all of them. The loss stays the same, and no
# exponential is above 1.

# %% tags=["hide-input"]
# check: the formula fails on large logits, the safe one does not
large = torch.tensor([89.0, 88.0])
moved = large - large.max()
safe = moved.exp().sum().log() - moved
assert 88 < math.log(torch.finfo(torch.float32).max) < 89
assert large.exp()[0].isinf() and safe.isfinite().all()


# %% [markdown]
# ### 14.1 Masked cross-entropy
#
# Try It Yourself · ★ · 8 minutes
#
# `logits` has the shape (batch, length, vocab), float32. `labels` has the
# shape (batch, length): the right token at each place, or -100 where the
# place is not scored. At least one place is scored, and logits may be
# large. Return the mean loss over all scored places, in nats, as a scalar
# tensor or a number. Do it without PyTorch's `cross_entropy` and, if you want
# to learn more, without `log_softmax`.
#
# Example: for `logits = [[[0.0, 0.0], [5.0, 1.0]]]` and
# `labels = [[1, -100]]`, as tensors, the result is 0.6931, the logarithm
# of 2.

# %% tags=["exercise:14.1", "nbval-ignore-output"]
def masked_cross_entropy(
    logits: Tensor, labels: Tensor
) -> Tensor | float:
    raise NotImplementedError("14.1: replace this line")


check("14.1", masked_cross_entropy)

# %% [markdown]
# ### Your loss trains your model
#
# What should such a loss be at the start, and what after a while? Two numbers tell you
# before you train. A model that knows nothing gives every token the same probability
# and pays the logarithm of the size of the vocabulary. One that only knows how frequent
# each token is pays the entropy of the frequencies.

# %%
real = real_data() is not None
sizes = {"tiny": 4_000, "small": 10_000, "full": 46_520}
cohort = choose_patients(sizes[PROFILE], seed=SEED)
learned_from, _, unseen = split_by_patient(cohort, seed=SEED)
tokenizer = CodeTokenizer.from_records(learned_from)
print(f"{len(cohort):,} patients, {len(learned_from):,} to learn from")


def dataset_of(records, tokenizer, p_empty=0.5):
    return RecordDataset(
        records, tokenizer, corruption=Corruption(p_empty=p_empty),
        seed=SEED, max_tokens=254, too_long="cut",
    )  # fmt: skip


data = dataset_of(learned_from, tokenizer)
some = data.batch(range(min(2_000, len(data))))["labels"]
share = some[some != NOT_SCORED].bincount().float()
share = share[share > 0] / share.sum()
knows_nothing = math.log(len(tokenizer))
knows_frequencies = -(share * share.log()).sum().item()

# %% [markdown]
# Now the model that you have assembled in lessons 11 and 12, and your loss. (`mine`
# returns your answers; where you have none, the worked one stands in.)

# %% tags=["nbval-ignore-output"]
TinyBart, OwnPrompt = mine("11.7"), mine("12.6", "MyPrompt")
own_loss = mine("14.1")


class PromptedBart(nn.Module):
    def __init__(self, n_tokens, d_model=64):
        super().__init__()
        self.bart = TinyBart(n_tokens, d_model, 4, 2 * d_model, 1, 256)
        self.encoder_prompt = OwnPrompt([2], d_model)
        self.decoder_prompt = OwnPrompt([2], d_model)

    def forward(self, input_ids, attention_mask, decoder_input_ids, **who):
        read = self.encoder_prompt(**who)
        written = self.decoder_prompt(**who)
        return self.bart(
            input_ids, attention_mask, decoder_input_ids, read, written
        )


# %%
torch.manual_seed(SEED)
own = PromptedBart(len(tokenizer))
for weight in own.parameters():
    if weight.ndim > 1:
        nn.init.normal_(weight, std=0.02)
optimizer = torch.optim.AdamW(own.parameters(), lr=4e-3)
curve = []
for _ in range(100):
    rows = data.batch(torch.randint(len(data), (16,)).tolist())
    right = rows.pop("labels")
    loss = own_loss(own(**rows), right)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    curve.append(loss.item())

# %% tags=["nbval-ignore-output"]
picture, axes = blank_chart(
    "When does your model know more than frequencies?",
    f"The loss of each step falls from {curve[0]:.2f} to {curve[-1]:.2f} "
    f"nats. Knowing nothing costs {knows_nothing:.2f}, knowing only the "
    f"frequencies {knows_frequencies:.2f}.",
    "Your loss at each step of your model, in nats per token",
)
axes.plot(curve, color="#2d708e")
axes.axhline(knows_nothing, color="grey", linestyle=":")
axes.axhline(knows_frequencies, color="grey", linestyle="--")
above = {"ha": "right", "va": "bottom"}
axes.text(99, knows_nothing, "knows nothing", **above)
axes.text(99, knows_frequencies, "knows frequencies", **above)
axes.set(xlabel="step", ylabel="loss (nats)", ylim=(0, 7))
picture

# %% tags=["hide-input"]
# check: the curve begins at the first line and passes the second
assert abs(curve[0] - knows_nothing) < 0.3
assert real or sum(curve[-20:]) / 20 < knows_frequencies - 0.3

# %% [markdown]
# The curve begins at the first line. If yours does not, look for a fault before you
# train any longer: the first loss is the one number that you know in advance. Below the
# second line the model has begun to read.

# %% [markdown]
# ### Going further: when does label smoothing help?
#
# With few patients. Exercise 14.2 is in here.

# %% [markdown]
# The right token is pushed up by $1 - p_y$, and no finite scores make that 0. So
# training never stops pushing them apart. [Label
# smoothing](../course/book/glossary.md) spreads a share $\varepsilon$ of the target
# evenly over all $V$ tokens of the vocabulary, the right one included:
#
# $$q_j = (1 - \varepsilon)\,[j = y] + \frac{\varepsilon}{V}
# \qquad \text{loss} = -\sum_j q_j \log p_j$$

# %%
five = ["4019", "4280", "486", "V3000", "<\\v>"]
hard = torch.tensor([0.0, 1, 0, 0, 0])  # 4280 is right
smooth = 0.9 * hard + 0.1 / 5
p = torch.linspace(0.4, 0.999, 600)  # of the right token
others = (1 - p) / 4  # of each of the others
loss = -smooth[1] * p.log() - 4 * smooth[0] * others.log()
lowest = p[loss.argmin()], loss.min()

# %%
picture, (left, right) = blank_chart(
    "What does each target ask for?",
    f"Left, bars of two targets: 1 for 4280, or {smooth[1]:.2f} and "
    f"{smooth[0]:.2f} for each other. Right, losses by its probability: "
    f"the smoothed lowest at {lowest[0]:.2f}, {lowest[1]:.2f} nats.",
    "A vocabulary of 5 tokens; the right one is 4280, the smoothing 0.1.",
    columns=2, width_ratios=(3, 2),
)
both = {"hard target": (-0.2, hard), "smoothed target": (0.2, smooth)}
for name, (shift, target) in both.items():
    bars = left.bar(torch.arange(5) + shift, target, 0.4, label=name)
    left.bar_label(bars, fmt="%.2g", padding=1, size=8)
left.set(xticks=range(5), xticklabels=five, yticks=[], ylabel="target")
left.legend()
right.plot(p, -p.log(), p, loss)
right.plot(*lowest, "o", color="#440154")
right.text(0.76, 0.62, f"lowest: {lowest[0]:.2f}")
right.set(xlabel="probability of the right token", ylim=(0, 1.25))
right.set_ylabel("loss of this place, in nats")
picture


# %% [markdown]
# The hard target always asks for more. The smoothed one has a best answer, and a
# model that is surer than that pays for it. Even the best answer has a loss, so
# losses with and without smoothing cannot be compared. With thousands of patients
# smoothing only costs.

# %% [markdown]
# #### 14.2 Label smoothing
#
# Try It Yourself · ★★ · 9 minutes
#
# `logits` has the shape (n, vocab), float32. `labels` has the shape (n,):
# the right token at each place, or -100. `smoothing` is the share that is
# spread, 0 to 1. Return the mean of the smoothed loss over the places that
# are scored, in nats. Logits may be large. Do it without the option
# `label_smoothing` of PyTorch's `cross_entropy`.
#
# Example: for `logits = [[0.0, 1.0986]]` (probabilities 0.25 and 0.75),
# as a tensor, `labels = [1]` and `smoothing = 0.2`, the target is
# `[0.1, 0.9]` and the result is 0.3975.

# %% tags=["exercise:14.2", "nbval-ignore-output"]
def smoothed_cross_entropy(
    logits: Tensor, labels: Tensor, smoothing: float
) -> Tensor | float:
    raise NotImplementedError("14.2: replace this line")


check("14.2", smoothed_cross_entropy)


# %% [markdown]
# Train small models with and without it, on thousands of patients and on 60, few
# enough to be learned by heart. Judge all by the same loss, without smoothing, on
# new patients. (Their training losses cannot be compared: with our vocabulary, the
# smoothed target leaves 0.93 nats that no model can remove.)

# %% tags=["hide-input"]
# set-up: a small model, a training run
def small_model(**changes):
    fields = {"dropout": 0.0} | changes
    config = PromptBartConfig.for_tokenizer(tokenizer, "narrow", **fields)
    torch.manual_seed(SEED)
    return PromptBart(config)


def trained(model, dataset, steps):
    options = {"lr": 6e-3, "seed": SEED, "progress": False}
    history = train(model, dataset, steps=steps, **options)
    return history.loss(min(steps, 50))  # the mean of the last 50


# %% tags=["hide-input"]
# check: the smallest smoothed loss is the entropy of the target
V, smoothing = len(tokenizer), 0.1
right_share = 1 - smoothing + smoothing / V
other_share = smoothing / V
entropy = -right_share * math.log(right_share)
entropy -= (V - 1) * other_share * math.log(other_share)
assert real or PROFILE != "tiny" or 0.925 < entropy < 0.935

# %% tags=["hide-input"]
# set-up: judge a model on new patients
skipping = CodeTokenizer(tokenizer.codes, unseen="skip")
new_patients = dataset_of(unseen[:300], skipping, p_empty=1.0)
new_batch = new_patients.batch(range(len(new_patients)))
new_labels = new_batch["labels"]
new_scored = new_labels != NOT_SCORED


class Judged(NamedTuple):
    loss: float  # in nats, without smoothing
    sure: float  # the mean probability of the most probable token
    right: float  # how often that is the right one
    start: float  # the probability of <v> after <BOS>


def judge(model):
    with torch.no_grad():
        logits = model.eval()(**new_batch | {"labels": None}).logits
    total, count = language_model_loss(
        logits[new_scored], new_labels[new_scored]
    )
    p = logits.softmax(-1)  # (batch, length, vocab)
    sure, best = p[new_scored].max(-1)
    right = (best == new_labels[new_scored]).float().mean()
    start = p[:, 1, tokenizer.visit_start_id].mean()
    found = total / count, sure.mean(), right, start
    return Judged(*(x.item() for x in found))


# %% tags=["hide-input", "nbval-ignore-output"]
# train four small models, and judge them
learning = dataset_of(learned_from, tokenizer)
few = dataset_of(learned_from[:60], tokenizer)
models, last_loss, judged = {}, {}, {}
for data, steps in ((learning, 150), (few, 100)):
    for share in (0.0, smoothing):
        key = len(data), share
        models[key] = small_model(label_smoothing=share)
        last_loss[key] = trained(models[key], data, steps)
        judged[key] = judge(models[key])

# %% tags=["nbval-ignore-output"]
names = [f"{n:,} patients,\nsmoothing {share:g}" for n, share in judged]
loss, sure, right_of, _ = zip(*judged.values(), strict=True)
ends = [f"{a:.0%} right, {b:.0%} sure" for a, b in zip(right_of, sure)]
said = "; ".join(
    f"{name}: {nats:.2f}, {end}".replace("\n", " ")
    for name, nats, end in zip(names, loss, ends, strict=True)
)

# %% tags=["nbval-ignore-output"]
picture, (left, right) = blank_chart(
    "When does smoothing help?",
    f"Bars of the loss, and the token thought most likely. {said}.",
    "All judged on the same new patients, by the loss without smoothing.",
    columns=2, height=3.2, sharey=True,
)  # fmt: skip
bars = left.barh(names, loss, 0.6, color=["#2d708e", "#f6d5c3"] * 2)
left.bar_label(bars, fmt="%.2f", padding=3, size=8)
left.set(xlabel="loss, in nats", xlim=(0, 1.2 * max(loss)))
left.invert_yaxis()
right.hlines(names, right_of, sure, "darkgrey", linewidth=4, zorder=0)
right.plot(right_of, names, "s", fillstyle="none", label="how often right")
right.plot(sure, names, "o", label="how sure")
for name, end in zip(names, ends, strict=True):
    right.text(1.05, name, end, va="center")
right.set(xlim=(0, 1), xlabel="the token it thinks most likely")
right.xaxis.set_major_formatter("{x:.0%}")
picture.legend(loc="outside lower right", ncols=2, frameon=False)
picture

# %% tags=["hide-input", "nbval-ignore-output"]
# check: what smoothing costs on many patients and saves on few
on_many, on_many_smooth, on_few, on_few_smooth = judged.values()
losses_reached = list(last_loss.values())
assert losses_reached[1] > losses_reached[0] + 0.3
assert on_many.start > 0.97 and 0.8 < on_many_smooth.start < 0.96
assert real or on_many_smooth.loss > on_many.loss + 0.02
assert real or on_many_smooth.sure < on_many.sure - 0.01
assert real or abs(on_many_smooth.right - on_many.right) < 0.03
assert on_few_smooth.loss < on_few.loss - 0.2
assert on_few_smooth.sure < on_few.sure - 0.05

# %% [markdown]
# With thousands of patients, smoothing only costs. With 60, the plain model knows
# its own patients by heart and is far more confident than it is right; smoothing
# limits its confidence, and the loss is lower.

# %% [markdown]
# ## What do you divide by?
#
# A batch that does not fit into memory is cut into micro-batches. Their gradients are
# added up, and only then do the weights move. The obvious way is to take the mean loss
# of each micro-batch and average those means. Here are two of three patients each, the
# shortest and the longest records of the batch.

# %%
order = lengths.argsort()  # shortest records first
short, long = (losses[r][scored[r]] for r in (order[:3], order[-3:]))
every = torch.cat([short, long])
weights = {
    "one mean": torch.full_like(every, 1 / len(every)),
    "mean of means": torch.cat(
        [torch.full_like(o, 1 / 2 / len(o)) for o in (short, long)]
    ),
}
said = [f"{way}: loss {every @ wide:.3f}" for way, wide in weights.items()]
colours = ["#f6d5c3"] * len(short) + ["#b8dcdf"] * len(long)

# %%
picture, axes = blank_chart(
    "How much does each token count?",
    f"Two bars of one length, cut into {len(short)} and {len(long)} "
    f"slices. The short records have {len(short) / len(every):.0%} of the "
    f"first and half of the second: {' and '.join(said)}.",
    f"A slice is a token, as wide as its weight. {len(short)} tokens with "
    f"the mean {short.mean():.3f}, {len(long)} with {long.mean():.3f}.",
    height=2.3,
)  # fmt: skip
for row, wide in enumerate(weights.values()):
    left = wide.cumsum(0) - wide
    axes.barh(row, wide, 0.5, left=left, color=colours, linewidth=0.4)
    share = wide[: len(short)].sum().item()
    axes.text(share / 2, row - 0.4, f"short: {share:.0%}", ha="center")
    middle = (1 + share) / 2
    axes.text(middle, row - 0.4, f"long: {1 - share:.0%}", ha="center")
axes.set(yticks=range(2), yticklabels=said, xticks=[], ylim=(1.3, -0.7))
axes.spines[:].set_visible(False)
picture


# %% [markdown]
# A [mean of means](../course/book/glossary.md) gives both micro-batches the same
# weight, however few tokens they have.
#
# ### 14.3 One loss over unequal micro-batches
#
# Try It Yourself · ★★ · 9 minutes
#
# `micro_batches` is a list of pairs (losses, labels), each of the shape (rows,
# length), which differs from one to the next. `losses` holds the loss of each place;
# where `labels` is -100 its number means nothing. Return a list with one number for
# each micro-batch, in order: what it contributes, so that the numbers add up to the
# mean loss over all scored places of all micro-batches. Some may have no scored place,
# but at least one has some.
#
# Example: for the micro-batches `([[1.0, 3.0]], [[7, 8]])` and
# `([[2.0, 9.0]], [[8, -100]])`, as tensors, the result is
# `[1.3333, 0.6667]`: the whole batch has the losses 1, 3 and 2, and
# their mean is 2.

# %% tags=["exercise:14.3", "nbval-ignore-output"]
def losses_of_micro_batches(
    micro_batches: list[tuple[Tensor, Tensor]],
) -> list[Tensor] | list[float]:
    raise NotImplementedError("14.3: replace this line")


check("14.3", losses_of_micro_batches)

# %% [markdown]
# So the whole batch has to be counted before its first micro-batch is read. How wrong
# is the mean of means? Cut the batch into four by length, add up the gradients, and
# compare.

# %% tags=["hide-input"]
# gradients of four micro-batches, added up in two ways
quarters = [
    {name: tensor[rows] for name, tensor in batch.items()}
    for rows in order.chunk(4)
]
counts = [loss_counts(part["labels"])["token"] for part in quarters]


def gradient(loss):
    parameters = list(loaded.model.parameters())
    parts = torch.autograd.grad(loss, parameters, allow_unused=True)
    return torch.cat([p.flatten() for p in parts if p is not None])


whole = loaded.model(**batch)
expected = gradient(whole.loss_sum / whole.loss_count)
divisors = {
    "one count": [sum(counts)] * 4,
    "means": [4 * count for count in counts],
}
errors = {}
for name, divide_by in divisors.items():
    added = 0
    for part, divisor in zip(quarters, divide_by, strict=True):
        added += gradient(loaded.model(**part).loss_sum / divisor)
    errors[name] = ((added - expected).norm() / expected.norm()).item()
print(f"mean of means: off by {errors['means']:.0%} of the whole gradient")

# %% tags=["hide-input"]
# check: one count gives the gradient of the whole, means do not
assert errors["one count"] < 1e-4 and errors["means"] > 0.1
drawn = torch.randperm(len(order), generator=torch.manual_seed(SEED))
added = 0
for rows in drawn.chunk(4):
    part = {name: tensor[rows] for name, tensor in batch.items()}
    count = loss_counts(part["labels"])["token"]
    added += gradient(loaded.model(**part).loss_sum / (4 * count))
at_random = ((added - expected).norm() / expected.norm()).item()
print(f"the same with rows drawn at random: off by {at_random:.0%}")
assert 0.02 < at_random < errors["means"]


# %% [markdown]
# Divided by one count, micro-batches give the gradient of the batch, up to rounding. A
# mean of means does not. This is why every loss of the course's library returns a
# sum and a count, and never a mean.
#
# ## Is there a way back?
#
# Some codes never appear in the same record, such as an infection of small children
# and a disease of old age. Take two codes, and compute how many training records
# would have both if the two were independent. Call the pair *strange* if you expect
# five or more and find none: two codes that 200 and 100 of 4,000 patients have
# should meet in 200 · 100 / 4,000 = 5. How often does a model write a patient with
# a strange pair?

# %% tags=["hide-input", "nbval-ignore-output"]
# find the strange pairs, and count the patients who have one
def never_in(records, tokenizer):
    present = torch.zeros(len(records), len(tokenizer), dtype=torch.bool)
    for row, record in enumerate(records):
        present[row, tokenizer.encode(record)] = True
    return never_together(present)  # (vocab, vocab)


def has_pair(record, never):
    codes = {code for visit in record.visits for code in visit.codes}
    ids = [skipping.code_to_id(c) for c in codes if c in tokenizer.codes]
    return bool(never[ids][:, ids].any())


never = never_in(learned_from, tokenizer)
print(f"{int(never.sum()) // 2:,} strange pairs; the first:")
for token in never.nonzero()[0].tolist() if never.any() else []:
    print("  ", code_in_words(tokenizer.id_to_token(token)))
plain = models[len(learned_from), 0.0]
wanted = [
    PatientProfile(record.age, record.sex) for record in unseen[:300]
]
written = generate_patients(plain, tokenizer, wanted, seed=SEED)
in_real = np.mean([has_pair(record, never) for record in unseen])
in_written = np.mean([has_pair(record, never) for record in written])
print(f"new patients of the hospital with a strange pair: {in_real:.1%}")
print(f"patients that the model has written: {in_written:.1%}")
assert real or in_written > 2 * in_real

# %% [markdown]
# A few of the hospital's new patients do have one. But among the patients that the
# model writes, they are far more frequent. So you want a penalty in the loss that
# makes them rarer, and a penalty has to move weights.
#
# Take one case. In the record of a new patient the decoder has read one code of a
# strange pair, and its partner must not follow. Three numbers say something about the
# partner:
#
# - **in the input**: 1 if the encoder reads the partner, and 0 if not. (Corruption can
#   put it there when it replaces a code.)
# - **top token**: 1 if the partner is the most probable next token, and 0 if not.
# - **probability**: how probable the partner is as the next token.
#
# Guess: which of them has a gradient, so that it can change a weight?

# %% tags=["hide-input", "nbval-ignore-output"]
# one case, three numbers, and the way of each back to the weights
pairs = never.nonzero().tolist() or [[7, 8]]  # any two codes
cases = [pair for pair in pairs if (new_labels == pair[0]).any()]
has, other = (cases or pairs)[0]
found = (new_labels == has).nonzero().tolist() or [[0, 0]]
row, place = found[0]  # the decoder reads it at the next place
print("has read:       ", code_in_words(tokenizer.id_to_token(has)))
print("must not follow:", code_in_words(tokenizer.id_to_token(other)))
next_logits = plain(**new_batch | {"labels": None}).logits[row, place + 1]
p = next_logits.softmax(-1)  # (vocab,)
numbers = {
    "probability": p[other],
    "top token": p.argmax() == other,
    "in the input": (new_batch["input_ids"][row] == other).any(),
}

# %% tags=["nbval-ignore-output"]
best = "argmax,\ncomparison"
boxes = {
    "weights": (0, (0, 1), "encoder"),
    "logits": (1, (0, 1), "paper"),
    "probabilities": (2, 0, "paper"),
    best: (2, 1, "trap"),
    "the batch": (0, 2, "quiet"),
    "ids": (2, 2, "trap"),
}
for row, (name, number) in enumerate(numbers.items()):
    boxes[name] = (3, row, "special" if number.requires_grad else "trap")
ways = [("weights", "logits"), ("logits", "probabilities")]
ways += [("probabilities", "probability")]
cut = [("logits", best), (best, "top token")]
cut += [("the batch", "ids"), ("ids", "in the input")]
draw_flow(
    boxes, ways + cut, "Which of these numbers can move a weight?",
    "Follow the arrows back. No gradient comes through a dashed one.",
    dashed=cut, notes={n: f"{found:.3g}" for n, found in numbers.items()},
)  # fmt: skip


# %% [markdown]
# The ids do not depend on the weights at all. The result of `argmax` or of a
# comparison does, but only in jumps: change a weight a little, and it stays
# the same. So neither has a gradient.
#
# Still, people do write a penalty that counts pairs in `input_ids`. Train with
# it as a [loss term](../course/book/glossary.md): a sum, a count, and a factor
# with which it enters the total. Then compare every weight of the model with a
# training without it, after 12 steps each.

# %% tags=["hide-input"]
# set-up: a model with one loss term more
class WithPenalty(nn.Module):
    def __init__(self, model, weight, penalty):
        super().__init__()
        self.model, self.weight, self.penalty = model, weight, penalty

    def forward(self, labels, **batch):
        logits = self.model(**batch).logits
        scored = labels != NOT_SCORED
        total, count = language_model_loss(logits[scored], labels[scored])
        terms = [LossTerm("language_model", total, count)]
        if self.penalty is not None:
            extra = self.penalty(logits, batch, scored)
            terms.append(LossTerm("penalty", *extra, self.weight))
        return SimpleNamespace(
            terms=tuple(terms), loss_sum=total, loss_count=count
        )


def weights_after(weight, penalty, steps=12):
    model = small_model()
    loss = trained(WithPenalty(model, weight, penalty), learning, steps)
    return loss, model.state_dict()


# %% tags=["claim:31"]
def from_ids(logits, batch, scored):
    ids = batch["input_ids"]  # (batch, source)
    pairs = never[ids[:, :, None], ids[:, None]]  # True if strange
    return pairs.sum() / 2, scored.sum()  # each pair is found twice


without, expected = weights_after(0.0, None)
print(f"without: loss {without:.2f}")
for factor in (0.05, 1000.0):
    with_it, found = weights_after(factor, from_ids)
    equal = all(torch.equal(found[n], expected[n]) for n in expected)
    print(f"factor {factor:g}: loss {with_it:.2f}, same bits: {equal}")
    assert equal

# %% tags=["hide-input"]
# check: the penalty is a constant, and counts in the printed loss
value, _ = from_ids(None, learning.batch(range(32)), new_scored)
assert not value.requires_grad
assert real or with_it > without + 0.3


# %% [markdown]
# At 1,000 the printed loss changes. Yet every weight of the model is the same, to the
# last bit. To the optimizer, a penalty computed from ids is a constant.
#
# So penalise the third number, for every pair and at every place: the probability of
# all codes that would complete a strange pair with one that the decoder has
# already read. This is a
# [co-occurrence penalty](../course/book/glossary.md).
#
# ### 14.4 A penalty with a gradient
#
# Try It Yourself · ★★★ · 12 minutes
#
# `logits` has the shape (batch, length, vocab). `read` (batch, length) is the
# decoder's input: at place t the decoder has read places 0 to t.
# `never` (vocab, vocab) is True where two tokens are a strange pair;
# it is symmetric. `labels` (batch, length) is -100 where a place is not
# scored. At each scored place, add up the probabilities of all tokens that
# make a strange pair with one of those read so far. Return the mean over the
# scored places.
#
# `value_and_gradient` is complete. It calls your `penalty`, so that the check
# can compare the value and its gradient on the logits: in the messages,
# expected and got are such pairs.
#
# Example: three tokens, of which 1 and 2 are a strange pair. For
# `logits = [[[0.0, 0.0, 0.0]]]`, `read = [[1]]` and `labels = [[1]]`, as
# tensors, token 2 is forbidden and the penalty is 0.3333. Its gradient is
# `[[[-0.1111, -0.1111, 0.2222]]]`: a step makes token 2 less probable.

# %% tags=["exercise:14.4", "nbval-ignore-output"]
def value_and_gradient(logits, read, never, labels):
    logits = logits.clone().requires_grad_()
    value = torch.as_tensor(penalty(logits, read, never, labels))
    if value.requires_grad:
        value.backward()
    nothing = torch.zeros_like(logits)
    return value.detach(), nothing if logits.grad is None else logits.grad


def penalty(
    logits: Tensor, read: Tensor, never: Tensor, labels: Tensor
) -> Tensor:
    raise NotImplementedError("14.4: replace this line")


check("14.4", value_and_gradient)


# %% [markdown]
# The library's `co_occurrence_penalty` is this one, as a sum and a count. Train
# with it at two weights, and let each model write 300 patients.

# %% tags=["hide-input"]
# set-up: the penalty as a term, and what it changes
def from_probabilities(logits, batch, scored):
    read = batch["decoder_input_ids"]
    return co_occurrence_penalty(logits, read, never, scored)


def judge_pairs(model):
    with torch.no_grad():
        logits = model.eval()(**new_batch | {"labels": None}).logits
    written = generate_patients(model, tokenizer, wanted, seed=SEED)
    total, count = language_model_loss(
        logits[new_scored], new_labels[new_scored]
    )
    mass, _ = from_probabilities(logits, new_batch, new_scored)
    pairs = np.mean([has_pair(record, never) for record in written])
    return (total / count).item(), (mass / count).item(), pairs


# %% tags=["nbval-ignore-output"]
measured_at = {}
for weight in (0.0, 0.05, 10.0):
    model = plain if weight == 0 else small_model()
    if weight:
        wrapped = WithPenalty(model, weight, from_probabilities)
        trained(wrapped, learning, steps=150)
    measured_at[weight] = judge_pairs(model)

# %% tags=["nbval-ignore-output"]
columns = {
    "loss on new patients": "{:.2f} nats",
    "probability of completing codes": "{:.2%}",
    "written patients with a strange pair": "{:.1%}",
}
draw_bars(
    {
        f"weight {weight:g}": dict(zip(columns, found, strict=True))
        for weight, found in measured_at.items()
    },
    "What does the penalty change?",
    f"Each column has a scale of its own. Line: {in_real:.1%} of real "
    "patients have such a pair.",
    inner="columns",
    form=columns,
    line={"written patients with a strange pair": in_real},
)

# %% tags=["hide-input", "nbval-ignore-output"]
# check: 10 works, 0.05 does nothing that can be told from chance
losses_of, masses, pairs = np.transpose(list(measured_at.values()))
assert real or losses_of[2] < losses_of[0] + 0.02
assert real or (masses[2] < 0.6 * masses[0] and pairs[2] < 0.7 * pairs[0])
assert real or 0.75 < masses[1] / masses[0] < 1.1
share = (pairs[0] + pairs[1]) / 2
chance = 2 * math.sqrt(2 * share * (1 - share) / len(wanted))
print(f"two draws of {len(wanted)} patients can differ by", end=" ")
print(f"{100 * chance:.0f} percentage points by chance alone")
assert real or abs(pairs[0] - pairs[1]) < chance < pairs[0] - pairs[2]

# %% [markdown]
# At a weight of 10, far fewer of the written patients have a strange pair, and
# the loss does not rise. At 0.05 the share changes by no more than chance alone could
# explain.
#
# Why is 0.05 too little? Compare the penalty's gradient with that of the cross-entropy,
# $\log \sum_j e^{z_j} - z_y$. When the logit $z_j$ grows, the first term grows at the
# rate $p_j$, and the second takes 1 away if $j$ is the right token. So the gradient on
# $z_j$ is
#
# $$p_j - [j = y]$$
#
# where $[j = y]$ is 1 for the right token and 0 for all others. Here three
# tokens have the probabilities 0.2, 0.5 and 0.3, and the first is right:

# %%
z = torch.tensor([0.2, 0.5, 0.3]).log().requires_grad_()
cost = z.logsumexp(0) - z[0]
(slope,) = torch.autograd.grad(cost, z)
print("gradient:", [round(x, 4) for x in slope.tolist()])

# %% tags=["hide-input"]
# check: the gradient is p - [j = y]
assert torch.allclose(slope, z.softmax(0) - torch.tensor([1.0, 0, 0]))

# %% [markdown]
# A step goes against the gradient: each wrong token is pushed down by its own
# probability, and the right one up by 1 minus its probability. So much for the
# cross-entropy. In the example of 14.4, what pushes token 2 down?
#
# | what pushes | gradient on token 2 |
# |---|---|
# | the cross-entropy (token 2 is wrong, and has the probability 1/3) | 0.33 |
# | the penalty, at a weight of 10 | 10 · 0.2222 = 2.2 |
# | the penalty, at a weight of 0.05 | 0.05 · 0.2222 = 0.011 |
#
# At 0.05 the penalty adds 3% to a push that is there anyway. So compare gradients, not
# weights.

# %% [markdown]
# ## What does each term weigh?
#
# The total loss is the language model's, plus those of the heads from lesson 13,
# plus the penalty, each with its weight. If a term is 10% of that loss, does it
# decide 10% of where the weights of the model go? What moves them is the gradient
# $g$, to which the gradients $g_1, g_2, \dots$ of the weighted terms add up. What
# counts is how far each one goes along $g$:
#
# $$\text{share}_i = \frac{g_i \cdot g}{g \cdot g}$$
#
# These shares add up to 1. With two weights, let $g_1 = (3, 0)$ and $g_2 = (-1, 1)$.
# Then $g = (2, 1)$, and the shares are 6/5 and -1/5: the second term pulls backwards.
#
# Now the real terms. Here is each one's share of the loss, and on the right that of the
# gradient. The weights are some that you know: 0.3 and 0.2 for the heads, and 10
# for the penalty.

# %% tags=["hide-input", "nbval-ignore-output"]
# set-up: give the plain model heads, and train these heads alone
asked = small_model(age_weight=0.001, sex_weight=0.001)
asked.load_state_dict(plain.state_dict(), strict=False)
asked.requires_grad_(False)
asked.heads.requires_grad_(True)
train(asked, learning, steps=60, lr=1e-2, seed=SEED, progress=False)
asked.requires_grad_(True)
some_new = dataset_of(unseen, skipping)
some_new = some_new.batch(range(min(32, len(some_new))))

# %% tags=["widget", "nbval-ignore-output"]
loss_terms_explorer(
    asked,
    some_new,
    never,
    age_weight=0.3,
    sex_weight=0.2,
    co_occurrence_weight=10.0,
)

# %% tags=["hide-input", "nbval-ignore-output"]
# check: the shares at five settings
output, counts = asked(**some_new), loss_counts(some_new["labels"])
total = weighted_total(output.terms, counts)
assert torch.isclose(total, output.loss) and len(output.terms) == 3
names = "age_weight", "sex_weight", "co_occurrence_weight"


def shares_of(model, *weights):  # of each term, by its name
    measured = measure_terms(model, some_new, never)
    weight_of = dict(zip(names, weights, strict=True))
    found = contributions(measured, **weight_of)
    return {term.label: term for term in found}


opening = shares_of(asked, 0.3, 0.2, 10.0)["language model"]
assert SEED or 0.78 < opening.of_total < 0.88
assert SEED or 0.6 < opening.of_gradient < 0.74
assert real or opening.of_gradient < opening.of_total - 0.05
for penalty in (0.05, 10.0):
    heavy = shares_of(asked, 3.0, 3.0, penalty)["language model"]
    assert real or (heavy.of_total > 0.25 and heavy.of_gradient < 0.15)
assert SEED or (heavy.of_total > 0.3 and heavy.of_gradient < 0.1)
language = shares_of(asked, 0.001, 0.001, 0.05)["language model"]
assert min(language.of_total, language.of_gradient) > 0.99
penalty_term = shares_of(asked, 0.001, 0.001, 10.0)["co-occurrence"]
assert real or penalty_term.of_gradient > 1.3 * penalty_term.of_total


# %% [markdown]
# Heads and penalty are about a sixth of the loss, and a third of the gradient. Now move
# both heads to 3, a weight with which the models of lesson 13 restored damaged records
# worse: a third of the loss is still the language model's, but less than a tenth of the
# gradient.
# So a share of the loss does not tell you what moves the weights. When you choose
# weights, look at what they leave of the gradient to the main task.

# %% [markdown]
# ### Going further: the total loss over micro-batches
#
# Means, weights and micro-batches together. Exercise 14.5 is in here.

# %% [markdown]
# #### 14.5 The total loss
#
# Try It Yourself · ★ · 5 minutes
#
# A batch is cut into micro-batches. `terms` is the list of the terms of *one* of them.
# Each is a `LossTerm` with `name` and
#
# - `total`, the sum of its losses in this micro-batch, a scalar tensor;
# - `count`, how many losses that is;
# - `per`, whether it has a loss for each `"token"` or for each `"row"`, a patient;
# - `weight`.
#
# `counts` says how many tokens and rows the *whole batch* has. In the total loss of
# the whole batch, each term's mean is multiplied by its weight. Return what this
# micro-batch adds to that, a scalar tensor with a gradient.
#
# Example: with `counts = {"token": 20, "row": 4}`, a term with total 30 and weight 1
# per token and one with total 2 and weight 0.5 per row give 1.5 + 0.25 = 1.75.

# %% tags=["exercise:14.5", "nbval-ignore-output"]
def total_loss(terms: list[LossTerm], counts: dict[str, int]) -> Tensor:
    raise NotImplementedError("14.5: replace this line")


check("14.5", total_loss)

# %% [markdown]
# ### Going further: is a share of the gradient always larger?
#
# How it changes in a training run.

# %% [markdown]
# The gradients are those of the weights that all terms have in common. A term that
# pulls backwards has a negative share. Take 3 for both heads and 0.05 for the penalty,
# and the same batch, at two earlier moments of this model.

# %% tags=["nbval-ignore-output"]
# a model has heads if it is made with any weights above 0
untrained = small_model(age_weight=0.001, sex_weight=0.001)
new_heads = small_model(age_weight=0.001, sex_weight=0.001)
new_heads.load_state_dict(plain.state_dict(), strict=False)
moments = {
    "nothing trained": untrained,
    "trained, with new heads": new_heads,
    "then the heads alone": asked,
}
print("the age's share of      the loss  the gradient")
ages_share = []
for name, model in moments.items():
    age = shares_of(model, 3.0, 3.0, 0.05)["age"]
    print(f"{name:23} {age.of_total:8.0%} {age.of_gradient:13.0%}")
    ages_share.append((age.of_total, age.of_gradient))

# %% tags=["hide-input", "nbval-ignore-output"]
# check: a smaller share of the loss, a larger one of the gradient
first, second, last = ages_share
assert real or (first[1] < 0.6 * first[0] and last[1] > 1.3 * last[0])
assert last[0] < second[0] - 0.05 or real
assert last[1] > second[1] + 0.15 or real


def head_length(model):  # of the age head's weights, as one vector
    parts = model.heads["age"].parameters()
    return torch.cat([part.flatten() for part in parts]).norm().item()


lengths = head_length(new_heads), head_length(asked)
print("length of the age head's weights:", end=" ")
print("{:.1f} when new, {:.1f} when trained".format(*lengths))
assert lengths[1] > 1.2 * lengths[0]


# %% [markdown]
# No. At the start the age pulls less than its share of the loss, at the end
# much more. Between the last two moments only the heads have
# learned, and no shared weight has moved: the age's share of the loss fell, and
# its share of the gradient rose. The reason: its gradient reaches the shared
# weights through the weights of its head, and training has made those larger.

# %% [markdown]
# ### 14.6 What does this loss compute?
#
# Try It Yourself · ★★★ · 15 minutes
#
# At the beginning, four people reported four losses. Now find out what a program
# like theirs computes.
# You get `loss`, a function that you can call but not read.
# `loss(logits, labels)` takes logits (batch, length, vocab), of any size with
# at least two tokens, and labels (batch, length), -100 where a place is not
# scored; each row needs a scored place. It returns a number. You know this:
#
# - The loss of a place is $-\sum_j q_j \log p_j$, where the right token has the target
#   $q_y = 1 - \varepsilon + \varepsilon / V$ and each other of the $V$ tokens
#   $\varepsilon / V$. (With $\varepsilon = 0.1$ and 5 tokens, the right one has the
#   target 0.92 and each other 0.02.) The smoothing $\varepsilon$, 0 to 1, is unknown.
# - It returns one of four things: `"sum"`, the sum over scored places;
#   `"places"`, that sum divided by all places; `"scored"`, divided by the
#   scored places; or `"rows"`, the mean of the rows' means over their
#   scored places.
#
# Each call is expensive: you have 2. Return the name of what it returns, and
# the smoothing, to three digits or better.
#
# Example: for a loss that divides by scored places with a smoothing of 0.1,
# return `("scored", 0.1)`.

# %% tags=["exercise:14.6", "nbval-ignore-output"]
def what_it_computes(
    loss: Callable[[Tensor, Tensor], float],
) -> tuple[str, float]:
    raise NotImplementedError("14.6: replace this line")


check("14.6", what_it_computes)

# %% [markdown]
# ## Recap
#
# - **A masked cross-entropy** is the logarithm of the sum of exponentials
#   minus the right logit, averaged over the scored places alone.
# - **Parts of a batch** add up to the whole when all are divided by one
#   count, that of the whole batch.
# - **A loss has a gradient** if a small change of the weights changes it a
#   little, not in jumps. One made of ids alone, or of `argmax`, moves no weight.
# - **A term contributes** its weight times its mean to the loss. What it does
#   to the weights is measured on the gradient.
# - **A loss that you cannot read** can be identified with inputs on which the
#   candidates differ.
#
# ## Test yourself
#
# 1. Two micro-batches have 10 and 90 scored tokens, and their mean
#    losses are 4 and 2. What is the loss of the batch?
#
# <details><summary>Answer</summary>
# (40 + 180) / 100 = 2.2. The mean of the means, 3, counts a token of the
# small micro-batch nine times as much as one of the large one.
# </details>
#
# 2. Somebody adds a penalty for visits with more than 20 codes. It counts
#    codes in the labels. The loss rises, and the model does not change. Why?
#
# <details><summary>Answer</summary>
# The labels are given, so the penalty is a constant: it has no gradient. It
# has to be computed from what the model predicts, as a probability.
# </details>
#
# 3. A penalty has the weight 0.05 and is 1% of the loss. Does it hardly change what
#    the model learns?
#
# <details><summary>Answer</summary>
# Nobody can tell from that. What moves the weights is the gradient, and a term's
# share of the gradient can be much larger or smaller than its share of the loss.
# </details>
#
# ## What comes next
#
# You can now say what a reported loss means, build one that moves weights,
# and measure what each of its terms does. Try it on your own code: compute
# the loss of one batch, pad the same batch wider, and compute it again. If
# the number changes, padding is counted.
#
# A gradient only says in which direction the weights should go. How far
# should each step go, and what becomes of a small gradient in numbers of
# 16 bits? [Lesson 15](15_training_loop.ipynb) builds the loop that takes the
# steps.
#
# If you know the tutorial that this lesson follows,
# [What holds](../course/book/what_holds.md#14-loss-functions)
# says which of its claims hold.
