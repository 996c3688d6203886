# %% [markdown]
# # 14 · Loss functions
#
# 80 minutes · Prerequisites: 13
#
# You will be able to:
#
# - Compute a masked cross-entropy by hand.
# - Compute label smoothing, and tell what it changes.
# - Give the parts of a batch the loss of the whole.
# - Tell a loss with a gradient from one without.
# - Measure what each term contributes to the total.

# %% [markdown]
# ## Which of these is the loss?
#
# Two people run the same trained model on the same 32 patients, and
# report different losses. No line of either program raises an error. What
# did they divide by? (The lesson follows a chapter of a tutorial that was
# never written out, and what other chapters say of losses. You do not
# need them.)

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %%
import math
import warnings
from types import SimpleNamespace

import numpy as np
import torch
from scipy.spatial.distance import jensenshannon
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ehr_course.batches.collate import SEXES
from ehr_course.batches.corruption import EMPTY_RECORD, Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.evaluation.loss_terms import contributions, measure_terms
from ehr_course.exercises import check, hint, progress
from ehr_course.generation.patients import Wanted, generate_patients
from ehr_course.losses import (
    NOT_SCORED,
    LossTerm,
    age_loss,
    co_occurrence_penalty,
    language_model_loss,
    loss_counts,
    never_together,
    weighted_total,
)
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.models.saved import load_checkpoint
from ehr_course.plots.style import code_in_words
from ehr_course.sources.patients import choose_patients, real_data
from ehr_course.sources.splits import split_by_patient
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.trainer import train
from ehr_course.widgets.loss_terms import loss_terms_explorer

# %% [markdown]
# The model is the small trained one of the course, the patients are new
# ones of the embedded hospital. `losses` holds one number a place: minus
# the log-probability of the right token, and 0 on padding.

# %%
loaded = load_checkpoint("tiny_prompt_bart")
known = CodeTokenizer(loaded.tokenizer.codes, unseen="skip")
people = make_cohort(64, seed=SEED + 100)
batch = RecordDataset(people, known, seed=SEED).batch(range(32))
labels = batch["labels"]  # (batch, length), -100 on padding
with torch.no_grad():
    logits = loaded.model(**batch | {"labels": None}).logits
losses = cross_entropy(logits.mT, labels, reduction="none")
scored = labels != NOT_SCORED
print("labels", tuple(labels.shape), "logits", tuple(logits.shape))
print(f"{scored.float().mean():.0%} of the places are scored")

# %%
wider = nn.functional.pad(losses, (0, labels.shape[1]))  # more padding
means = {
    "the mean over all places": losses.mean(),
    "the same, padded to twice the length": wider.mean(),
    "the mean of the rows' means": (
        losses.sum(1) / scored.sum(1)
    ).mean(),
    "the mean over scored places": losses[scored].mean(),
}
for name, mean in means.items():
    print(f"{mean:.3f}  {name}")
assert means["the mean over all places"] < 0.8 * losses[scored].mean()

# %% [markdown]
# All four come from the same numbers. The first two depend on how much
# padding there is, which says nothing about the model. The third counts a
# token of a short record more than one of a long record. The course
# means the last one: the mean over scored places, one place one vote.
#
# ## Cross-entropy by hand
#
# At each place the model gives a score to every token, its logits
# $z$. Softmax makes probabilities of them, and the loss is minus the
# logarithm of the right token's:
#
# $$-\log p_y = -\log \frac{e^{z_y}}{\sum_j e^{z_j}}
# = \log \sum_j e^{z_j} - z_y$$
#
# The formula is right and overflows:

# %%
large = torch.tensor([89.0, 88.0])
print("by the formula:", (large.exp().sum().log() - large).tolist())
moved = large - large.max()
safe = moved.exp().sum().log() - moved
print("after minus the maximum:", [round(x, 4) for x in safe.tolist()])
largest = math.log(torch.finfo(torch.float32).max)
print(f"the greatest number of float32 is e to the {largest:.1f}")
assert large.exp()[0].isinf() and safe.isfinite().all()


# %% [markdown]
# A number that is subtracted from all logits of a place cancels in the
# formula; the greatest of them is a good one.
#
# ### 14.1 Masked cross-entropy
#
# Try It Yourself · ★ · 8 minutes
#
# `logits` has the shape (batch, length, vocab), float32. `labels` has the
# shape (batch, length): the right token at each place, or -100 where the
# place is not scored. At least one place is scored, and logits may be
# large. Return the mean loss over all scored places, in nats, as a scalar
# tensor or a number. Do it without PyTorch's `cross_entropy`; by hand you
# learn more than with `log_softmax`.
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
# ### A module is not a loss
#
# In the tutorial's chapter on the model the loss is
# `CrossEntropyLoss(logits, labels)`, and that of the age is
# `MSELoss(age_pred, 65.0)`. These names are classes, and their
# parentheses take options. Run them.

# %%
flat = logits.flatten(0, 1), labels.flatten()
with warnings.catch_warnings():  # torch warns that the options are old
    warnings.simplefilter("ignore")
    made = nn.MSELoss(torch.tensor([[64.0]]), 65.0)
    try:
        nn.CrossEntropyLoss(*flat)
    except RuntimeError as error:
        print("CrossEntropyLoss(logits, labels):", error)
print("MSELoss(age_pred, 65.0):", made)
try:
    0.001 * made
except TypeError as error:
    print("0.001 * that:", error)
right = nn.CrossEntropyLoss()(*flat)
print(f"CrossEntropyLoss()(logits, labels): {right:.3f}")
assert isinstance(made, nn.Module) and not hasattr(made, "backward")
assert torch.isclose(right, losses[scored].mean())


# %% [markdown]
# The first raises, for it takes both tensors for options. The second
# raises nothing and returns a module; the error comes later, where a
# weight is multiplied with it, and names another line. Make the module
# first and call it, or use the function `cross_entropy`.
#
# ## Label smoothing
#
# A cross-entropy is lowest when the right token has probability 1, so
# training never stops pushing it there. *Label smoothing* moves the
# target: the share $\varepsilon$ of it is spread evenly over all $V$
# tokens of the vocabulary, the right one included.
#
# $$q_j = (1 - \varepsilon)\,[j = y] + \frac{\varepsilon}{V}
# \qquad \text{loss} = -\sum_j q_j \log p_j$$
#
# ### 14.2 Label smoothing
#
# Try It Yourself · ★★ · 9 minutes
#
# `logits` has the shape (n, vocab), float32. `labels` has the shape (n,):
# the right token at each position, or -100. `smoothing` is the share
# that is spread, 0 to 1. Return the mean of the smoothed loss over the
# positions that are scored, in nats. Logits may be large. Do it without
# the option `label_smoothing` of PyTorch's `cross_entropy`.
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
# ### What does it change?
#
# Two small models, trained alike but for the smoothing. The patients are
# those of the embedded hospital, or real ones if `EHR_COURSE_DATA` names
# a folder.

# %%
real = real_data() is not None
sizes = {"tiny": 4_000, "small": 10_000, "full": 46_520}
cohort = choose_patients(sizes[PROFILE], seed=SEED)
learned_from, _, unseen = split_by_patient(cohort, seed=SEED)
tokenizer = CodeTokenizer.from_records(learned_from)
print(f"{len(cohort):,} patients, {len(learned_from):,} to learn from")


# %%
def small_model(**changes):
    fields = {"dropout": 0.0} | changes
    config = PromptBartConfig.for_tokenizer(tokenizer, "narrow", **fields)
    torch.manual_seed(SEED)
    return PromptBart(config)


def dataset_of(records, tokenizer, p_empty=0.5):
    return RecordDataset(
        records,
        tokenizer,
        corruption=Corruption(p_empty=p_empty),
        seed=SEED,
        max_tokens=254,
        too_long="cut",
    )


# %% [markdown]
# What is a smoothed model to say of a place where only one token can
# come? After `<BOS>` every record goes on with `<v>`. Compute what the
# target gives to `<v>` at a smoothing of 0.1 and a vocabulary of about
# 400 tokens, and the smallest loss that such a target allows (it is the
# target's own entropy). Then run the cell.

# %%
V, smoothing = len(tokenizer), 0.1
right_share = 1 - smoothing + smoothing / V
other_share = smoothing / V
entropy = -right_share * math.log(right_share)
entropy -= (V - 1) * other_share * math.log(other_share)
print(f"the target gives {right_share:.4f} to <v>")
print(f"no smoothed loss is below {entropy:.2f} nats")


# %% tags=["nbval-ignore-output"]
def trained(model, dataset, steps):
    options = {"lr": 6e-3, "seed": SEED, "progress": False}
    history = train(model, dataset, steps=steps, **options)
    return history.loss(min(steps, 50))  # the mean of the last 50


learning = dataset_of(learned_from, tokenizer)
plain, smooth = small_model(), small_model(label_smoothing=smoothing)
last_loss = {}
for name, model in (("plain", plain), ("smoothed", smooth)):
    last_loss[name] = trained(model, learning, steps=150)
    print(f"{name}: mean loss of the last 50 steps {last_loss[name]:.2f}")

# %% [markdown]
# The two numbers cannot be compared: they are losses of two different
# targets. So judge both models by the same loss, without smoothing, on
# patients that neither has seen, of whom the encoder is told nothing but
# age and sex.

# %%
skipping = CodeTokenizer(tokenizer.codes, unseen="skip")
new_patients = dataset_of(unseen[:300], skipping, p_empty=1.0)
new_batch = new_patients.batch(range(len(new_patients)))
new_labels = new_batch["labels"]
new_scored = new_labels != NOT_SCORED


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
    print(f"loss {total / count:.3f}, <v> after <BOS> {start:.3f}")
    print(f"   most probable token {sure.mean():.3f}, right {right:.3f}")
    return (total / count).item(), sure.mean(), right, start


# %% tags=["nbval-ignore-output"]
print("plain:", end=" ")
plain_loss, plain_sure, plain_right, plain_start = judge(plain)
print("smoothed:", end=" ")
loss, sure, right, start = judge(smooth)
assert last_loss["smoothed"] > last_loss["plain"] + 0.3
assert plain_start > 0.97 and 0.8 < start < 0.96
assert real or (loss > plain_loss + 0.02 and sure < plain_sure - 0.01)
assert real or abs(right - plain_right) < 0.03

# %% [markdown]
# Smoothing does what its target says: it takes a tenth off `<v>`, where
# nothing else can come, and gives it to codes that cannot stand there.
# The model is less sure and right about as often, and the loss on new
# patients is higher. Then what is it good for? Train both again, on 60
# patients: few enough to be learned by heart.

# %% tags=["nbval-ignore-output"]
few = dataset_of(learned_from[:60], tokenizer)
judged = {}
for name, share in (("plain", 0.0), ("smoothed", smoothing)):
    model = small_model(label_smoothing=share)
    reached = trained(model, few, steps=100)
    print(f"{name}: trained to {reached:.2f};", end=" ")
    judged[name] = judge(model)
assert judged["smoothed"][0] < judged["plain"][0] - 0.2
assert judged["smoothed"][1] < judged["plain"][1] - 0.05


# %% [markdown]
# Now the smoothed model has the lower loss on new patients. A model that
# has learned its patients by heart is far too sure of others, and
# smoothing limits how sure it can be. (Both results were the same with
# each of three seeds.) So smoothing softens what too few data do. It does
# not replace data: both losses are far above those of the models before.
# Its price is the tenth that goes to tokens that cannot come. A patient
# drawn from the model is drawn from these probabilities, so the course's
# models train without.
#
# ## Parts of a batch
#
# A batch that does not fit into memory is cut into parts. Each part's
# loss is computed and its gradient is added to the others', and only then
# the weights move. The sum should be the gradient of the whole batch. But
# the parts have different numbers of scored tokens.
#
# ### 14.3 One loss over unequal parts
#
# Try It Yourself · ★★ · 9 minutes
#
# `parts` is a list of pairs (losses, labels), each of the shape (rows,
# length), which differs from part to part. `losses` holds the loss of
# each place; where `labels` is -100 its number means nothing. Return a
# list with one number for each part, in order: what it contributes, so
# that the numbers add up to the mean loss over all scored places of all
# parts. A part may have no scored place; all together have one.
#
# Example: for the parts `([[1.0, 3.0]], [[7, 8]])` and
# `([[2.0, 9.0]], [[8, -100]])`, as tensors, the result is
# `[1.3333, 0.6667]`: the whole batch has the losses 1, 3 and 2, and
# their mean is 2.

# %% tags=["exercise:14.3", "nbval-ignore-output"]
def losses_of_parts(
    parts: list[tuple[Tensor, Tensor]],
) -> list[Tensor] | list[float]:
    raise NotImplementedError("14.3: replace this line")


check("14.3", losses_of_parts)

# %% [markdown]
# (So the count of the whole batch is needed before the first part is
# read.) How wrong is a mean of means? Take the trained model, and cut the
# first batch into four parts of eight patients, the shortest records in
# the first and the longest in the last, as a loader does that sorts by
# length. Add up the gradients in two ways, and compare with that of the
# whole batch.

# %%
order = scored.sum(1).argsort()  # shortest records first
quarters = [
    {name: tensor[rows] for name, tensor in batch.items()}
    for rows in order.chunk(4)
]
counts = [loss_counts(part["labels"])["token"] for part in quarters]
print("scored tokens in each part:", counts)


def gradient(loss):
    parameters = list(loaded.model.parameters())
    parts = torch.autograd.grad(loss, parameters, allow_unused=True)
    return torch.cat([p.flatten() for p in parts if p is not None])


# %%
whole = loaded.model(**batch)
expected = gradient(whole.loss_sum / whole.loss_count)
divisors = {"one count": [sum(counts)] * 4}
divisors["means"] = [4 * count for count in counts]
errors = {}
for name, divide_by in divisors.items():
    added = 0
    for part, divisor in zip(quarters, divide_by, strict=True):
        added += gradient(loaded.model(**part).loss_sum / divisor)
    errors[name] = ((added - expected).norm() / expected.norm()).item()
print("one count for all: equal to rounding:", errors["one count"] < 1e-4)
print(f"mean of means: off by {errors['means']:.0%} of its length")
assert errors["one count"] < 1e-4 and errors["means"] > 0.1


# %% [markdown]
# Divided by one count, the parts are the batch, up to rounding. A mean of
# means is the gradient of another loss, in which each token of a short
# record counts more. This is why every loss of the course's library
# returns a sum and a count, and never a mean.
#
# ## A loss that teaches nothing
#
# Some codes do not stand together in one record: a child's and an old
# person's, say. The tutorial adds a *co-occurrence penalty* with the
# weight 0.05 for such pairs. Which pairs? Those that no training record
# has, though by chance five or more would have them.

# %%
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
print(f"{int(never.sum()) // 2:,} pairs never stand together; the first:")
for token in never.nonzero()[0].tolist() if never.any() else []:
    print("  ", code_in_words(tokenizer.id_to_token(token)))
share = np.mean([has_pair(record, never) for record in unseen])
print(f"new patients with such a pair: {share:.1%}")

# %% [markdown]
# Some new patients have such a pair: "never" is an estimate from a
# training set. Now, what is a penalty made of? Here are five candidates.
# Before you run the cell, say of each whether it has a gradient: could a
# step change a weight because of it?

# %% tags=["nbval-ignore-output"]
some = learning.batch(range(min(512, len(learning))))
ids, clean = some["input_ids"], some["labels"].clamp(min=0)
with_grad = plain(**new_batch | {"labels": None}).logits
log_p = with_grad[new_scored].log_softmax(-1)  # (n, vocab)
p, best = log_p.exp(), log_p.argmax(-1)
right_ones = best == new_labels[new_scored]
pairs = never[ids[:, :, None], ids[:, None]]  # (batch, source, source)
rare = never.any(0).float()  # (vocab,): codes that have such a pair
candidates = {
    "share of right tokens": right_ones.float().mean(),
    "pairs among the ids read": pairs.sum() / 2,
    "codes of pairs among the likeliest": rare[best].mean(),
    "entropy of the predictions": -(p * log_p).sum(-1).mean(),
    "probability of codes of pairs": (p * rare).sum(-1).mean(),
}
for name, value in candidates.items():
    print(f"{name:34} {value:6.3f}  gradient: {value.requires_grad}")
assert not never[clean[:, :, None], clean[:, None]].any()


# %% [markdown]
# Ids are whole numbers; so is what `argmax` and a comparison return.
# Nothing that is computed from them knows how it would change if a weight
# moved a little. The tutorial's penalty is of the second kind: it looks
# into `input_ids`. (The records themselves have no such pair. Those that
# it counts were made by the corruption, which replaces codes. So it does
# not even look at a record.) Train with it.
#
# A loss of your own needs a wrapper around the model: a module whose
# output has `terms`, each a name, a sum, a count and a weight.

# %%
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


# %%
def from_ids(logits, batch, scored):
    ids = batch["input_ids"]  # (batch, source)
    pairs = never[ids[:, :, None], ids[:, None]]
    return pairs.sum() / 2, scored.sum()


def weights_after(weight, penalty, steps=12):
    model = small_model()
    loss = trained(WithPenalty(model, weight, penalty), learning, steps)
    return loss, model.state_dict()


# %% tags=["claim:31"]
without, expected = weights_after(0.0, None)
print(f"without: loss {without:.2f}")
for weight in (0.05, 1000.0):
    with_it, found = weights_after(weight, from_ids)
    equal = all(torch.equal(found[n], expected[n]) for n in expected)
    print(f"weight {weight:g}: loss {with_it:.2f}, same bits: {equal}")
    assert equal
value, _ = from_ids(None, learning.batch(range(32)), new_scored)
assert not value.requires_grad
assert real or with_it > without + 0.3


# %% [markdown]
# The printed loss is another one, and every weight of the model is the
# same to the last bit, even at a weight of 1,000. A penalty that is
# computed from ids is a constant that is added to the loss.
#
# ### 14.4 A penalty with a gradient
#
# Try It Yourself · ★★★ · 12 minutes
#
# Penalise what the model predicts. `logits` has the shape (batch, length,
# vocab). `read` (batch, length) is the decoder's input: at position t the
# decoder has read positions 0 to t. `never` (vocab, vocab) is True where
# two tokens never stand in one record; it is symmetric. `labels` (batch,
# length) is -100 where a position is not scored. At each scored position,
# add up the probabilities of all tokens that never stand together with
# one of those read so far. Return the mean over the scored positions.
#
# `value_and_gradient` is complete: it calls your `penalty`, so that the
# check can compare its value and its gradient on the logits: in the
# messages, expected and got are such pairs.
#
# Example: three tokens, of which 1 and 2 never stand together. For
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
# The library's `co_occurrence_penalty` is this one, as a sum and a count.
# Train with it: at the tutorial's weight, and at one 200 times as large.
# Then measure three things on new patients: the loss, the probability
# that goes to forbidden codes, and how many of 300 written patients have
# a forbidden pair.

# %%
def from_probabilities(logits, batch, scored):
    read = batch["decoder_input_ids"]
    return co_occurrence_penalty(logits, read, never, scored)


def judge_pairs(model):
    with torch.no_grad():
        logits = model.eval()(**new_batch | {"labels": None}).logits
    wanted = [Wanted(record.age, record.sex) for record in unseen[:300]]
    written = generate_patients(model, tokenizer, wanted, seed=SEED)
    total, count = language_model_loss(
        logits[new_scored], new_labels[new_scored]
    )
    mass, _ = from_probabilities(logits, new_batch, new_scored)
    pairs = np.mean([has_pair(record, never) for record in written])
    print(f"loss {total / count:.3f},", end=" ")
    print(f"forbidden {mass / count:.4f}, with a pair {pairs:.1%}")
    return (total / count).item(), (mass / count).item(), pairs


# %% tags=["nbval-ignore-output"]
judged = {}
for weight in (0.0, 0.05, 10.0):
    model = plain if weight == 0 else small_model()
    if weight:
        wrapped = WithPenalty(model, weight, from_probabilities)
        trained(wrapped, learning, steps=150)
    print(f"weight {weight:5}:", end=" ")
    judged[weight] = judge_pairs(model)

# %%
losses_of, masses, pairs = np.transpose(list(judged.values()))
assert real or losses_of[2] < losses_of[0] + 0.02
assert real or (masses[2] < 0.6 * masses[0] and pairs[2] < 0.7 * pairs[0])
assert real or 0.75 < masses[1] / masses[0] < 1.1

# %% [markdown]
# At a weight of 10 the penalty does what it is for: forbidden codes get a
# fraction of the probability, far fewer written patients have a forbidden
# pair, and the loss does not rise. At 0.05 nothing of that is to be seen
# (among 300 patients, a few more or fewer with a pair are chance). So it
# was with each of three seeds. Why? The cross-entropy already pushes down
# every token that does not come next, and in training a forbidden one
# never does. Compare the two pushes, logit by logit.

# %%
with torch.no_grad():
    new_logits = plain(**new_batch | {"labels": None}).logits
new_logits.requires_grad_()
total, count = language_model_loss(
    new_logits[new_scored], new_labels[new_scored]
)
mass, _ = from_probabilities(new_logits, new_batch, new_scored)
(push,) = torch.autograd.grad(total, new_logits)
(extra,) = torch.autograd.grad(0.05 * mass, new_logits)
forbidden = never[new_batch["decoder_input_ids"]].cummax(1).values
forbidden &= new_scored[..., None]
wrong = forbidden.clone()  # forbidden, and not the right token
wrong.scatter_(2, new_labels.clamp(min=0)[..., None], False)
if wrong.any():
    ratio = extra[wrong] / push[wrong]
    print(f"the penalty adds {ratio.max():.1%} to a push at most")
    assert ratio.max() < 0.0501


# %% [markdown]
# The cross-entropy pushes a wrong token down in proportion to its
# probability $p$. The penalty of weight $w$ adds at most $w\,p$ to that:
# one twentieth at 0.05. A penalty is worth its work where it says
# something that the labels do not say already.
#
# ## Forbid it while writing?
#
# A penalty changes what is probable. Whoever wants to rule something out
# can do that while the model writes. Models repeat themselves, so
# `generate` of transformers has an option: with
# `no_repeat_ngram_size=1`, another description of the system says, no
# code comes twice. Try it on the course's trained model, for the age and
# sex of 64 new patients.

# %%
def written_by(model, **options):
    torch.manual_seed(SEED)
    return model.generate(
        torch.tensor([EMPTY_RECORD] * len(people)),
        x_num=torch.tensor([[float(record.age)] for record in people]),
        x_cat=torch.tensor([[SEXES.index(r.sex)] for r in people]),
        do_sample=True,
        top_k=0,
        max_new_tokens=80,
        **options,
    )  # (batch, length)


def twice_in_a_visit(ids):
    return any(len(set(v)) < len(v) for v in known.decode(ids))


# %% tags=["claim:33", "nbval-ignore-output"]
shares = {}
for name, option in (("free", {}), ("1", {"no_repeat_ngram_size": 1})):
    ids = written_by(loaded.model, **option)
    more = (ids == known.visit_start_id).sum(1) > 1
    ended = (ids[:, 1:] == known.eos_id).any(1)
    twice = torch.tensor([twice_in_a_visit(row.tolist()) for row in ids])
    shares[name] = [x.float().mean().item() for x in (more, ended, twice)]
    print(f"{name:4}: a second <v> {shares[name][0]:.0%},", end=" ")
    print(f"ended {shares[name][1]:.0%},", end=" ")
    print(f"a code twice in a visit {shares[name][2]:.0%}")
again = [
    len(set(record.codes)) < len(record.codes)  # no visit has one twice
    for record in make_cohort(1_000, seed=SEED)
    if len(record.visits) > 1
]
print(f"patients of several visits, a code in two: {np.mean(again):.0%}")
assert shares["free"][0] > 0.15 and shares["free"][1] > 0.9
assert shares["1"] == [0, 0, 0] and np.mean(again) > 0.3

# %% [markdown]
# It stops repeated codes, and with them every second `<v>`: no patient
# has two visits. It also stops the end. BART's decoder starts with
# `<EOS>`, which counts as written, so no record ever ends: all are cut
# off at the limit. And a code in two visits is no fault at all: chronic
# diseases come back.
#
# What should be forbidden is a code that stands twice in *one visit*.
# `generate_patients` knows the grammar of a record: inside a visit come
# codes that it does not have yet, or its end; outside come a visit, or
# the end of the record. It sets the logits of all else to minus infinity.

# %% tags=["nbval-ignore-output"]
wanted = [Wanted(record.age, record.sex) for record in people]
written = generate_patients(
    loaded.model, loaded.tokenizer, wanted, seed=SEED
)
several = np.mean([len(record.visits) > 1 for record in written])
twice = [
    len(set(visit.codes)) < len(visit.codes)
    for record in written
    for visit in record.visits
]
print(f"several visits: {several:.0%};", end=" ")
print(f"visits with a code twice: {sum(twice)}")
assert several > 0.15 and not any(twice)


# %% [markdown]
# ## One distance, three numbers
#
# The same description says what heavy weights do: they destroy coherence,
# "JS divergence 0.6". Is 0.6 much? The Jensen-Shannon divergence compares
# two distributions, here how often each code is written and how often
# patients have it. It can be given in nats or in bits, and SciPy's
# `jensenshannon` returns its square root, the *distance*.

# %%
def three_numbers(p, q):
    distance = jensenshannon(p, q)
    return distance, distance**2, jensenshannon(p, q, base=2) ** 2


def frequencies(records):
    counts = np.zeros(len(known))
    for record in records:
        for code in record.codes:
            if code in loaded.tokenizer.codes:
                counts[known.code_to_id(code)] += 1
    return counts / counts.sum()


# %% tags=["claim:32", "nbval-ignore-output"]
nothing_in_common = [1.0, 0.0], [0.0, 1.0]
of_written = frequencies(written)
of_patients = frequencies(make_cohort(1_000, seed=SEED + 100))
print("                     distance  nats   bits")
for name, (p, q) in {
    "nothing in common": nothing_in_common,
    "64 written, 1,000 not": (of_written, of_patients),
}.items():
    numbers = three_numbers(p, q)
    print(f"{name:22}", "  ".join(f"{x:.3f}" for x in numbers))
    assert np.isclose(numbers[0] ** 2, numbers[2] * math.log(2))
largest = three_numbers(*nothing_in_common)
assert np.allclose(largest, (math.sqrt(math.log(2)), math.log(2), 1))
assert round(largest[0], 3) == 0.833

# %% [markdown]
# Two distributions without a common code have the distance 0.833, the
# divergence 0.693 nats, or 1 bit. So 0.6 is nearly the most there is if it
# means nats, and far from it if it means the distance or bits. Say which
# one you report, and its largest value. (64 patients are few: some of the
# distance is chance.)
#
# ## The total
#
# The losses of the heads from lesson 13 and the penalty are added to that
# of the language model, each with a weight. Weights only compare what is
# measured alike. Take the age: one chapter has its squared error in years,
# another a cross-entropy over six brackets, both with the weight 0.001.
# Compare what a head adds that has learned nothing: it answers 0 years,
# or finds all brackets equally likely.

# %% tags=["nbval-ignore-output"]
ages = torch.tensor([float(record.age) for record in people])
in_years, count = age_loss(torch.zeros(len(ages)), ages, scale=1.0)
in_units, _ = age_loss(torch.zeros(len(ages)), ages)  # of 90 years
adds = {
    "squared error, years": 0.001 * float(in_years / count),
    "squared error, units of 90 years": 0.001 * float(in_units / count),
    "six brackets": 0.001 * math.log(6),
    "(the language model, trained)": plain_loss,
}
for name, value in adds.items():
    print(f"{name:33} {value:.4f}")
assert adds["squared error, years"] > 100 * adds["six brackets"]


# %% [markdown]
# The same 0.001 makes the age a large part of the loss or a speck in it.
#
# ### 14.5 The total loss
#
# Try It Yourself · ★★ · 7 minutes
#
# `terms` is a list of `LossTerm`, each with `name`, `total` (the sum of
# its losses in this part of the batch, a scalar tensor), `count` (how
# many they are, in this part), `weight`, and `per`: "token" or "row", what
# its losses are counted by. `counts` holds how many tokens and rows the
# *whole* batch has, such as `{"token": 20, "row": 4}`. Return what this
# part adds to the total loss, for each term its weight, times its sum over
# the count of the whole batch: a scalar tensor, with a gradient.
#
# Example: a term with total 30 and weight 1 by "token" and one with total
# 2 and weight 0.5 by "row" give, with the counts above, 1.5 + 0.25 =
# 1.75.

# %% tags=["exercise:14.5", "nbval-ignore-output"]
def total_loss(terms: list[LossTerm], counts: dict[str, int]) -> Tensor:
    raise NotImplementedError("14.5: replace this line")


check("14.5", total_loss)

# %% [markdown]
# ### What does each term contribute?
#
# Put heads onto the plain model, and train the heads alone, so that they
# have something to say. Then take a batch of new patients, and look at
# its terms.

# %% tags=["nbval-ignore-output"]
asked = small_model(age_weight=0.001, sex_weight=0.001)
asked.load_state_dict(plain.state_dict(), strict=False)
asked.requires_grad_(False)
asked.heads.requires_grad_(True)
train(asked, learning, steps=60, lr=1e-2, seed=SEED, progress=False)
asked.requires_grad_(True)

some_new = dataset_of(unseen, skipping)
some_new = some_new.batch(range(min(32, len(some_new))))
output = asked(**some_new)
counts = loss_counts(some_new["labels"])
for term in output.terms:
    mean = term.total / counts[term.per]
    print(f"{term.name:15} {term.weight:.3f} x {mean:.3f} a {term.per}")
total = weighted_total(output.terms, counts)
assert torch.isclose(total, output.loss) and len(output.terms) == 3

# %% [markdown]
# A number beside the loss is not yet an influence: what moves weights is
# the gradient. So measure that as well, on the weights that all terms
# share. A term's share is how far its weighted gradient goes along the
# total one; the shares add up to 1.

# %% tags=["nbval-ignore-output"]
measured = measure_terms(asked, some_new, never)
settings = {
    "tutorial": (0.001, 0.001, 0.05),
    "heavy heads": (3.0, 3.0, 0.05),
    "heavy penalty": (0.001, 0.001, 10.0),
}
names = "age_weight", "sex_weight", "co_occurrence_weight"
shares = {}
for setting, weights in settings.items():
    chosen = dict(zip(names, weights, strict=True))
    found = contributions(measured, **chosen)
    print(setting)
    for term in found:
        shares[setting, term.label] = term
        pull = round(term.of_gradient, 3) + 0.0  # no "-0.0%"
        print(f"   {term.label:15} loss {term.of_total:6.1%},", end=" ")
        print(f"gradient {pull:6.1%}")

# %%
language = shares["tutorial", "language model"]
assert min(language.of_total, language.of_gradient) > 0.99
language = shares["heavy heads", "language model"]
assert real or language.of_gradient < 0.6 * language.of_total
penalty_term = shares["heavy penalty", "co-occurrence"]
assert real or penalty_term.of_gradient > 1.3 * penalty_term.of_total

# %% [markdown]
# At the tutorial's weights the three added terms are next to nothing, in
# the loss and in the gradient. At large weights the share of the loss
# misleads. With heavy heads, the language model's share of the gradient is
# far smaller than its share of the loss. With a heavy penalty, the
# penalty's is larger. (All of this is one moment of one model.)
#
# ## See it
#
# The same batch under any weights. Raise the weight of age to 3, then
# lower it and add label smoothing: what happens to the loss, and what to
# the gradient?

# %% tags=["widget", "nbval-ignore-output"]
loss_terms_explorer(asked, some_new, never)

# %% [markdown]
# ## Recap
#
# - **A masked cross-entropy** is the logarithm of the sum of
#   exponentials minus the right logit, after subtracting the maximum, and
#   its mean runs over the scored places alone.
# - **Label smoothing** mixes that with the mean over all tokens. The model
#   becomes less sure, also where only one token can come, and losses with
#   and without it cannot be compared.
# - **Parts of a batch** add up to the whole when all divide by one count,
#   that of the whole batch.
# - **A loss has a gradient** if it is computed from logits by functions
#   that change a little when those do. One from ids or `argmax` changes
#   the printed number and no weight.
# - **A term contributes** its weight times its mean to the loss. What it
#   does to the weights is measured on the gradient, and can be far more
#   or far less.
#
# ## Test yourself
#
# 1. Two parts of a batch have 10 and 90 scored tokens, and their mean
#    losses are 4 and 2. What is the loss of the batch?
#
# <details><summary>Answer</summary>
# (40 + 180) / 100 = 2.2. The mean of the means, 3, counts a token of the
# small part nine times as much as one of the large part.
# </details>
#
# 2. Somebody adds a penalty for visits with more than 20 codes. It counts
#    codes in the labels. The loss rises, and the samples stay as they
#    were. Why?
#
# <details><summary>Answer</summary>
# The labels are given, so the penalty is a constant: it has no gradient,
# and every weight is what it would be without it. It has to be computed
# from what the model predicts, as a probability.
# </details>
#
# 3. A paper reports a Jensen-Shannon distance of 0.3 for one model,
#    another one a divergence of 0.12 bits. Which samples are closer to
#    their data?
#
# <details><summary>Answer</summary>
# A distance of 0.3 in base e is a divergence of 0.09 nats, which is 0.13
# bits: about the same. If the first used base 2, it is 0.09 bits, and
# closer. Without the base nobody can tell.
# </details>
#
# ## What comes next
#
# You have a total loss and its gradient. [15](15_training_loop.ipynb)
# turns them into a training: learning rate, accumulation, float16, and a
# run that can be stopped and resumed to the bit.
