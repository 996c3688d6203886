# %% [markdown]
# # 17 · Coverage and beam search
#
# 95 minutes · Prerequisites: 16
#
# You will be able to:
#
# - Compute the coverage vector and the coverage loss.
# - Tell what coverage changes in training, with the spread over seeds.
# - Compute a score with length penalty, and predict which hypothesis wins.
# - Block trigrams that would repeat.
# - Take one step of a batched beam search.
# - Compute ROUGE-L, and tell what it does not see.

# %% [markdown]
# ## Why does it say the same drug twice?
#
# A summary that names a drug twice has usually left another one out. Here
# is the smallest experiment that shows it. The note is a list of drugs,
# and the summary is the same list. A small pointer-generator of lesson 16
# learns from lists of four to six drugs. Then it gets a patient with ten.

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %%
import copy
from collections import Counter
from statistics import mean

import torch
from torch import Tensor, nn

from ehr_course.batches.notes import NoteDataset
from ehr_course.evaluation.summaries import (
    names_in,
    names_recovered,
    repetition,
    rouge,
)
from ehr_course.exercises import check, hint, progress
from ehr_course.generation.beam_search import beam_search
from ehr_course.generation.search_model import of_beams, spread
from ehr_course.generation.search_settings import (
    BeamSettings,
    length_penalty,
)
from ehr_course.generation.summaries import summarize
from ehr_course.losses import NOT_SCORED, coverage_loss
from ehr_course.models.pointer_generator import (
    PointerGenerator,
    PointerGeneratorConfig,
)
from ehr_course.plots.coverage_player import look_of
from ehr_course.records import NotePair
from ehr_course.sources.notes import choose_notes, real_notes
from ehr_course.sources.synthetic import (
    drug_names,
    make_cohort,
    make_notes,
)
from ehr_course.tokenizers.words import WordTokenizer
from ehr_course.training.trainer import train
from ehr_course.widgets.beam_tree import beam_tree
from ehr_course.widgets.coverage_player import coverage_player

# %%
DRUGS = drug_names("common")
tokenizer = WordTokenizer.from_texts(DRUGS)


def lists(n_patients, seed, medications):
    cohort = make_cohort(n_patients, seed=seed)
    notes = make_notes(cohort, seed=seed, medications=medications)
    named = [" ".join(names_in(pair.summary, DRUGS)) for pair in notes]
    return [NotePair(names, names) for names in named]


sizes = {"tiny": 1_000, "small": 4_000, "full": 10_000}
learned_from = lists(sizes[PROFILE], SEED, (4, 6))
learning = NoteDataset(learned_from, tokenizer)
short = [pair.note for pair in lists(64, SEED + 100, (4, 6))]
long = [pair.note for pair in lists(64, SEED + 100, (10, 10))]
print(learned_from[0].note)


# %%
def trained(seed, *, data=learning, steps=80, start=None, **fields):
    config = PointerGeneratorConfig.for_tokenizer(tokenizer, **fields)
    torch.manual_seed(seed)
    model = PointerGenerator(config)
    if start:  # of W_c, see below
        nn.init.uniform_(model.decoder.attention.cover, -start, start)
    options = {"lr": 6e-3, "warmup_steps": 20, "max_grad_norm": 2.0}
    options |= {"steps": steps, "seed": seed, "progress": False}
    options["group_by_length"] = True  # shorter loops; notes differ little
    train(model, data, **options)
    return model


# %%
GREEDY = BeamSettings(beams=1, no_repeat_ngram_size=0, max_length=30)


def write(model, notes, settings=GREEDY):
    return summarize(
        model, tokenizer, notes, settings=settings, batch_size=64
    )


def measure(model, notes, settings=GREEDY):
    texts = [said.text for said in write(model, notes, settings)]
    exact = mean(t == note for t, note in zip(texts, notes, strict=True))
    named = names_recovered(texts, notes, DRUGS)
    return repetition(texts, n=1), named, exact


def cost_of_a_step(model, notes):
    looks = [look_of(said) for said in write(model, notes)]
    return mean(float(look.repeated.mean()) for look in looks)


# %% tags=["nbval-ignore-output"]
plain = trained(SEED)
for name, notes in (("4 to 6 drugs", short), ("10 drugs", long)):
    repeated, named, exact = measure(plain, notes)
    print(f"{name}: {exact:.0%} of the lists exact,", end=" ")
    print(f"{named:.0%} of the drugs named, {repeated:.0%} repeated")
print("note:   ", long[0])
print("summary:", write(plain, long[:1])[0].text)
assert measure(plain, short)[2] > 0.9
assert measure(plain, long)[0] > 0.03 and measure(plain, long)[1] < 0.95


# %% [markdown]
# Lists like those of training are copied almost without a fault. In
# longer ones a drug comes twice, and others never. No list of training has
# a drug twice, so the model has not learned to repeat. It has lost its
# place: all it knows of the words that it has copied is what is left of
# them in the state of its LSTM. Does it lose the place by chance?

# %% tags=["nbval-ignore-output"]
def places(note, text):
    """Where in the note each word stands that was written."""
    return tuple(note.split().index(word) + 1 for word in text.split())


ways = Counter(
    places(note, said.text)
    for note, said in zip(long, write(plain, long), strict=True)
)
for way, lists_of_ten in ways.most_common(3):
    print(f"{lists_of_ten} of {len(long)} lists:", *way)
assert len(ways) < 0.5 * len(long)


# %% [markdown]
# It does not. Most lists are copied from the same places, whatever the
# drugs are. So they are little more than one observation: what you see
# here belongs to this training, and another one may do otherwise.
#
# ## Where has it looked?
#
# The attention of each step is known, so it can be added up. The
# *coverage* of step $t$ is all attention that the steps before it have
# spent, one number for each word of the note:
#
# $$c_t = \sum_{t' < t} a_{t'}$$
#
# ### 17.1 The coverage vector
#
# Try It Yourself · ★ · 6 minutes
#
# `attention` has the shape (target, source), float32: row $t$ is the
# attention of step $t$ over the words of the note, and sums to 1. Return
# the coverage of every step, a tensor of the same shape.
#
# Example: for `attention = [[0.9, 0.1], [0.2, 0.8], [0.5, 0.5]]`, as a
# tensor, the result is `[[0.0, 0.0], [0.9, 0.1], [1.1, 0.9]]`.

# %% tags=["exercise:17.1", "nbval-ignore-output"]
def coverage_before(attention: Tensor) -> Tensor:
    raise NotImplementedError("17.1: replace this line")


check("17.1", coverage_before)


# %% [markdown]
# See et al. (2017, [1704.04368](https://arxiv.org/abs/1704.04368)) use it
# twice. First as a *feature*: the score of a word gets one more term,
#
# $$e_t^i = v \cdot \tanh(W_h h_i + W_d d_t + W_c c_t^i + b)$$
#
# so that attention can see where it has been. ($W_c$ is as long as the
# state: one weight for each of its numbers.) Second as a *loss*: attention
# that goes where attention has been costs something.
#
# $$\text{loss}_t = \sum_i \min(a_t^i, c_t^i)$$
#
# A step that looks at new words costs 0. One that looks only where others
# have looked costs 1, and no step costs more, since its attention sums
# to 1.
#
# ### 17.2 The coverage loss
#
# Try It Yourself · ★★ · 8 minutes
#
# `attention` has the shape (batch, target, source), float32, and `scored`
# the shape (batch, target), booleans: True for the steps of a summary,
# False for padding, which stands at the end of a row and has attention
# too. Return two values: the sum of the losses of all steps that are
# scored, a scalar tensor or a number, and how many these are.
#
# Example: for `attention = [[[0.75, 0.25], [0.5, 0.5]]]` and
# `scored = [[True, True]]`, as tensors, the second step costs 0.5 + 0.25,
# and the result is `(0.75, 2)`.

# %% tags=["exercise:17.2", "nbval-ignore-output"]
def loss_of_coverage(
    attention: Tensor, scored: Tensor
) -> tuple[Tensor | float, Tensor | int]:
    raise NotImplementedError("17.2: replace this line")


check("17.2", loss_of_coverage)


# %% [markdown]
# The summariser's source note takes the mean over all steps,
# `.sum(dim=2).mean()`. Are the steps of padding among them? Take a batch
# of eight summaries, pad it to twice its width, and compute the mean both
# ways. Then a summary that has to use one word of its note twice, with
# attention that is right at every step.

# %%
def mean_losses(batch):
    inputs = {key: batch[key] for key in batch if key != "labels"}
    with torch.no_grad():
        attention = plain(**inputs).log_attention.exp()
    every_step = torch.ones_like(batch["labels"], dtype=torch.bool)
    masks = every_step, batch["labels"] != NOT_SCORED
    found = (coverage_loss(attention, mask) for mask in masks)
    return [(total / count).item() for total, count in found]


batch = learning.batch(range(8))
width = batch["labels"].shape[1]
wider = batch | {
    "decoder_input_ids": nn.functional.pad(
        batch["decoder_input_ids"], (0, width), value=tokenizer.pad_id
    ),
    "labels": nn.functional.pad(batch["labels"], (0, width), value=-100),
}

# %% tags=["claim:38"]
as_it_is, padded = mean_losses(batch), mean_losses(wider)
assert abs(padded[0] - as_it_is[0]) > 0.1
assert abs(padded[1] - as_it_is[1]) < 1e-5

note, summary = ["fever", "cough"], ["fever", "cough", "fever"]
looks_right = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]])
total, count = coverage_loss(looks_right, torch.ones(1, 3).bool())
print("padding changes the mean over all steps, not the masked one")
print(f"right attention for {summary}: {total:.0f} in {count} steps")
assert total == 1.0

# %% [markdown]
# The mean over all steps depends on how much padding there is; over the
# scored ones it does not. And a step that costs 1 may be right: where the
# summary has to say a word twice that the note says once, repeating is
# the task. The loss is a wish, not a rule.
#
# ## Does it help?
#
# Train the same model on the same lists, now with both. $W_c$ begins with
# uniform numbers from -1 to 1, as PyTorch begins a layer with one input.

# %% tags=["nbval-ignore-output"]
covered = trained(SEED, coverage=True, start=1.0)
for name, notes in (("4 to 6 drugs", short), ("10 drugs", long)):
    repeated, named, exact = measure(covered, notes)
    print(f"{name}: {exact:.0%} of the lists exact,", end=" ")
    print(f"{named:.0%} of the drugs named, {repeated:.0%} repeated")
assert measure(covered, short)[2] > 0.8

# %% [markdown]
# Would you report that? It is one training, with one seed. Train three
# kinds with three seeds each: without coverage, with the feature alone,
# and with feature and loss. (The cost of a step is the coverage loss of
# what was written.)

# %% tags=["nbval-ignore-output"]
with_feature = {"coverage": True, "start": 1.0}
kinds = {
    "no coverage": {},
    "feature": with_feature | {"coverage_weight": 0.0},
    "feature and loss": with_feature,
}
seeds = SEED, SEED + 1, SEED + 2
models, results = {("no coverage", SEED): plain}, {}
models["feature and loss", SEED] = covered
for name, fields in kinds.items():
    for seed in seeds:
        if (name, seed) not in models:
            models[name, seed] = trained(seed, **fields)
        model = models[name, seed]
        cost = cost_of_a_step(model, long)
        results[name, seed] = *measure(model, long), cost
    shares = [f"{results[name, seed][0]:4.0%}" for seed in seeds]
    costs = [f"{results[name, seed][3]:.2f}" for seed in seeds]
    print(f"{name:16} repeated {' '.join(shares)},", end=" ")
    print(f"cost of a step {' '.join(costs)}")

# %% tags=["nbval-ignore-output"]
assert all(exact < 0.2 for _, _, exact, _ in results.values())
changes = [
    results["feature", seed][0] - results["no coverage", seed][0]
    for seed in seeds
]
print("feature, against none:", [f"{change:+.0%}" for change in changes])
of_kind = {n: [results[n, seed][0] for seed in seeds] for n in kinds}
means = {name: mean(shares) for name, shares in of_kind.items()}
for name, shares in of_kind.items():
    spread_of = max(shares) - min(shares)
    print(f"{name:16} mean {means[name]:.0%}, seeds {spread_of:.0%} apart")
apart = max(max(shares) - min(shares) for shares in of_kind.values())
assert abs(means["feature"] - means["no coverage"]) < apart + 0.02

# %% [markdown]
# Compare the three kinds within one column: that is what you would have
# reported after one training. The next column may say something else. The
# seeds differ about as much as the kinds do, so three of them cannot tell
# how much coverage helps here. One thing they all say: no kind gets a list
# of ten right. Coverage is a help at most, and no cure, for no model here
# has ever seen a seventh drug. What if it had?

# %% tags=["nbval-ignore-output"]
up_to_ten = lists(sizes[PROFILE], SEED, (4, 10))
longer = trained(SEED, data=NoteDataset(up_to_ten, tokenizer))
repeated, named, exact = measure(longer, long)
print(f"no coverage, learned from 4 to 10 drugs: {repeated:.1%}", end=" ")
print(f"repeated, {named:.0%} named, {exact:.0%} exact")
assert repeated < 0.05 and named > 0.8

# %% [markdown]
# Lists of up to ten, and still no coverage: the repetitions are nearly
# gone, though not every list is right. Where you can have training data
# like the data to come, have that first.
#
# ### Switched on late
#
# The source note trains without coverage at first and switches it on
# when the model is stable. Then $W_c$ should begin at 0. Does that leave
# the model as it was?

# %% tags=["nbval-ignore-output"]
late = copy.deepcopy(plain).eval()
inputs = {key: batch[key] for key in batch if key != "labels"}
with torch.no_grad():
    before = late(**inputs).log_probs
    late.add_coverage(weight=1.0)
    after = late(**inputs).log_probs
assert torch.allclose(before.exp(), after.exp(), atol=1e-5)
options = {"lr": 3e-3, "warmup_steps": 5, "max_grad_norm": 2.0}
train(late, learning, steps=40, seed=SEED, progress=False, **options)
share = {}
for name, model in (("before", plain), ("40 steps later", late)):
    share[name], named, _ = measure(model, long)
    print(f"{name}: {share[name]:.1%} repeated, {named:.0%} named")
moved = late.decoder.attention.cover.abs().mean().item()
print(f"W_c: 0 at first, {moved:.2f} on average 40 steps later")
exact = measure(late, short)[2]
print(f"lists of 4 to 6 drugs: {exact:.0%} exact")
assert moved < 0.5 and exact > 0.8


# %% [markdown]
# The distributions are the same but for rounding, so coverage can be
# switched on at any time. Forty steps later $W_c$ is still small, and the
# model copies lists like those of training as well as before: nothing in
# them asks for it. What becomes of the longer lists differs from seed to
# seed, as above.
#
# ## Which summary is the best one?
#
# So far the model wrote the likeliest word at each step. That is *greedy*
# search, and it never takes a word back. *Beam search* follows several
# *hypotheses* at a time, and compares whole summaries at the end. The
# log-probability of a summary is the sum over its words, all negative, so
# the longer one usually loses. A *length penalty* softens that:
#
# $$\text{score} = \frac{\log P}{lp(n)} \qquad
# lp(n) = \left(\frac{5 + n}{5 + 1}\right)^{\alpha}$$
#
# It is that of Wu et al. (2016,
# [1609.08144](https://arxiv.org/abs/1609.08144)). The length $n$ counts
# `</s>`, which is chosen like any word, and not `<s>`, which is given.
#
# ### 17.3 The length penalty
#
# Try It Yourself · ★ · 7 minutes
#
# `hypotheses` is a list of hypotheses, each a list with the
# log-probability of each of its tokens, that of `</s>` last. `alpha` is a
# number, 0 or more. Return two values: a list with the score of each
# hypothesis, and the place of the best one in the list, from 0.
#
# Example: for `hypotheses = [[-0.9, -0.3], [-0.4, -0.4, -0.4, -0.2]]` and
# `alpha = 1.0`, the result is `([-1.0286, -0.9333], 1)`: the second is
# less probable, and wins.

# %% tags=["exercise:17.3", "nbval-ignore-output"]
def best_hypothesis(
    hypotheses: list[list[float]], alpha: float
) -> tuple[list[float], int]:
    raise NotImplementedError("17.3: replace this line")


check("17.3", best_hypothesis)

# %% [markdown]
# The source note prints the formula for $lp$, and the score as `log P /
# length_penalty^t`. That cannot be meant: $lp$ holds the length already,
# and it would enter twice. What would that choose? Take a short and likely
# summary, a longer one, and a long and very unlikely one.

# %% tags=["claim:36"]
candidates = {5: -0.1, 20: -0.2, 40: -0.5}  # length: log P per token
right, printed = {}, {}
for n, each in candidates.items():
    penalty = length_penalty(n, alpha=1.0)
    right[n] = n * each / penalty
    printed[n] = n * each / penalty**n
    print(f"{n:2} tokens, log P {n * each:5.1f}", end=": ")
    print(f"over lp {right[n]:6.3f}, over lp^t {printed[n]:.0e}")
best_of = {"lp": max(right, key=right.get)}
best_of["lp^t"] = max(printed, key=printed.get)
print("length of the best:", best_of)
assert best_of == {"lp": 5, "lp^t": 40}
assert abs(printed[20]) < 1e-9

# %% [markdown]
# The score is log P over $lp$. With the power of the length every longer
# summary has a score of nearly 0, the best there is, however unlikely it
# is.
#
# ### How long may it be?
#
# The source note has three limits: 192 tokens for a training summary, 256
# for decoding, 384 in the loop that writes. Which of them is the model's?

# %% tags=["claim:37"]
words = " ".join(["biotin"] * 300)
cut = NoteDataset([NotePair("biotin", words)], tokenizer)
labels = cut.batch([0])["labels"][0]
print("a summary of 300 words: labels", tuple(labels.shape), end=", ")
print("with </s>:", tokenizer.eos_id in labels.tolist())
source_note = BeamSettings.of_the_source()
print("decoding:", source_note.min_length, "to", source_note.max_length)
endless = BeamSettings(
    beams=1, no_repeat_ngram_size=0, min_length=400, max_length=400
)
on_and_on = write(plain, long[:1], endless)[0]
print("written, if it must go on:", len(on_and_on.ids), "tokens")
assert len(labels) == PointerGeneratorConfig().max_target - 1 == 191
assert tokenizer.eos_id not in labels.tolist()
assert source_note.max_length == 256 and len(on_and_on.ids) == 400

# %% [markdown]
# None. 192 is where training data is cut (191 labels, since `<s>` is no
# label; and a summary that is cut does not end, so it has no `</s>`). The
# model is a loop without positions, and writes as long as the search
# lets it: the limit is a parameter of the search, 256 in the source note.
# The smallest length is one too, and it is 50 there. What does a model
# say that has said everything after four to six drugs?

# %% tags=["nbval-ignore-output"]
at_least_50 = BeamSettings(
    beams=1, no_repeat_ngram_size=0, min_length=50, max_length=60
)
repeated, _, _ = measure(plain, short, at_least_50)
print(write(plain, short[:1], at_least_50)[0].text)
print(f"{repeated:.0%} of the drugs are repetitions")
assert repeated > 0.3


# %% [markdown]
# It says drugs again, to the end. A minimum length suits the summaries
# that the model has learned from, or it makes repetitions.
#
# ## What to forbid
#
# The next remedy works while a summary is written. A run of three tokens,
# a *trigram*, may stand in it once: a token that would complete one a
# second time gets the probability 0.
#
# ### 17.4 Block repeated trigrams
#
# Try It Yourself · ★★ · 8 minutes
#
# `tokens` is a list of ids: what a hypothesis has written so far, without
# `<s>`. It may be empty. Return the set of all tokens that would complete
# a trigram which stands in `tokens` already. `</s>` (id 2) is never in the
# set: a finished hypothesis is filled up with it, as often as it takes.
#
# Example: for `tokens = [5, 6, 7, 8, 5, 6]` the result is `{7}`, because
# 5, 6, 7 has been written; for `[5, 6]` it is `set()`.

# %% tags=["exercise:17.4", "nbval-ignore-output"]
def blocked_tokens(tokens: list[int]) -> set[int]:
    raise NotImplementedError("17.4: replace this line")


check("17.4", blocked_tokens)

# %% [markdown]
# Try it on the long lists: no blocking, trigrams, and single words. Then
# look at summaries that people wrote, or at those of the embedded
# hospital, where `EHR_COURSE_NOTES` names no file. Do they repeat
# trigrams?

# %% tags=["nbval-ignore-output"]
blocked = {}
for n in (0, 3, 1):
    settings = BeamSettings(beams=1, no_repeat_ngram_size=n, max_length=30)
    blocked[n] = measure(plain, long, settings)
    print(f"blocked {n}: repeated {blocked[n][0]:.0%}", end=", ")
    print(f"named {blocked[n][1]:.0%}")
assert blocked[1][0] == 0
assert abs(blocked[3][0] - blocked[0][0]) < 0.02

references = [pair.summary for pair in choose_notes(500, seed=SEED)]
twice = mean(repetition([text], n=3) > 0 for text in references)
again = mean(repetition([text], n=1) > 0 for text in references)
print(f"references that repeat a trigram: {twice:.1%}", end=", ")
print(f"a word: {again:.0%}")


# %% [markdown]
# Trigrams change nothing here: "a drug, the same drug" is a run of two.
# Forbidding every word that was written is what these lists need, and the
# drug that comes in its place is often one that was missing. In other
# summaries nobody could do that: nearly every one of the embedded
# hospital uses a word twice, if only the full stop. Three is a
# compromise. It misses short repetitions. And where people write freely,
# it may forbid what a good summary does: point `EHR_COURSE_NOTES` to a
# file of real ones, and count.
#
# ## A step of the search
#
# Beam search keeps K hypotheses. At each step every one of them is
# continued with every token of the vocabulary, and the K best of all
# these continuations are kept. A good hypothesis may have several
# successors, and a poor one none. All notes of a batch take the step
# together.
#
# ### 17.5 One step of a beam search
#
# Try It Yourself · ★★★ · 14 minutes
#
# `log_probs` has the shape (batch, beams, vocab), float32: the
# log-probability of each next token of each hypothesis. `scores` has the
# shape (batch, beams): the log-probability of each hypothesis so far; it
# is minus infinity for a beam that is not there yet, whatever `log_probs`
# says of it. There are always K continuations that are possible, K being
# the number of beams, and no two are equally good. Return three tensors
# of the shape (batch, beams), for the K best continuations of each
# example, the best first: their log-probabilities, the beam that each
# comes from, from 0, and the token that it ends with. (No length penalty:
# at one step all hypotheses are equally long.)
#
# Example: for `log_probs = [[[-0.2, -2.0, -3.0], [-0.4, -1.2, -2.6]]]` and
# `scores = [[-0.1, -1.5]]`, as tensors, the results are `[[-0.3, -1.9]]`,
# `[[0, 1]]` and `[[0, 0]]`.

# %% tags=["exercise:17.5", "nbval-ignore-output"]
def beam_step(
    log_probs: Tensor, scores: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    raise NotImplementedError("17.5: replace this line")


check("17.5", beam_step)


# %% [markdown]
# (The next cell takes this step; answer first.) How does a search begin?
# The source note starts "with 4 hypotheses, all `<BOS>`". Follow four
# equal beams for some steps, and then four of which three start at minus
# infinity.

# %%
@torch.no_grad()
def follow(model, note, start, steps=6):
    ids, _ = tokenizer.encode_note(note)
    source = model.encode(torch.tensor([ids]))
    state = spread(model.first_state(source), len(start))
    scores = torch.tensor([start])  # (1, beams)
    tokens = torch.full((1, len(start)), tokenizer.bos_id)
    said = torch.empty(1, len(start), 0, dtype=torch.long)
    for _ in range(steps):
        step = model.step(tokens, state, source)
        totals = scores[..., None] + step.log_probs
        scores, places = totals.flatten(1).topk(len(start))
        parents = places // totals.shape[-1]
        tokens = places % totals.shape[-1]
        state, said = of_beams((step.state, said), parents)
        said = torch.cat([said, tokens[..., None]], dim=-1)
    return [tokenizer.decode(row) for row in said[0].tolist()]


# %% tags=["claim:46", "nbval-ignore-output"]
inf = float("inf")
equal = follow(plain, long[0], [0.0, 0.0, 0.0, 0.0])
one = follow(plain, long[0], [0.0, -inf, -inf, -inf])
for name, found in (("four equal", equal), ("one, 3 at -inf", one)):
    print(f"{name}: {len(set(found))} different beginnings")
    print("   ", "\n    ".join(found))
assert len(set(equal)) == 1 and len(set(one)) == 4

# %% [markdown]
# Four equal beams find the same thing four times: equal hypotheses have
# equal continuations, so four copies of the best one are the four best.
# One beam starts at 0 and the others at minus infinity; after the first
# step all four are different.
#
# Is the best of four better than the greedy summary? Ask for its
# log-probability first, and then for the drugs.

# %% tags=["nbval-ignore-output"]
found = {}
for beams in (1, 4):
    settings = BeamSettings(
        beams=beams,
        length_penalty=0.0,
        no_repeat_ngram_size=0,
        max_length=30,
    )
    log_p = mean(said.score for said in write(plain, long, settings))
    found[beams] = log_p, *measure(plain, long, settings)
    print(f"{beams} beams: log P {log_p:.2f}", end=", ")
    print(f"named {found[beams][2]:.0%}, repeated {found[beams][1]:.0%}")
assert found[4][0] > found[1][0] - 0.05
assert abs(found[4][1] - found[1][1]) < 0.05


# %% [markdown]
# The search finds summaries that are as likely as the greedy ones, or a
# little likelier. They repeat as much. The fault is in what the model
# finds likely, and more beams do not mend that.
#
# ## How good is a summary?
#
# *ROUGE-L* compares a summary with a reference that somebody wrote. It
# finds the longest common subsequence: the most words that both have in
# the same order, with any others between them. With $\ell$ for its
# length, the precision is $\ell$ over the length of the summary, the
# recall $\ell$ over that of the reference, and
#
# $$F_1 = \frac{2 \cdot \text{precision} \cdot
# \text{recall}}{\text{precision} + \text{recall}}$$
#
# ### 17.6 ROUGE-L
#
# Try It Yourself · ★★ · 9 minutes
#
# `summary` and `reference` are lists of words, in lower case, either of
# which may be empty. Return the F1 of ROUGE-L as a float, 0.0 where no
# word is common.
#
# Example: for `summary = ["no", "fever", "home"]` and `reference =
# ["home", "no", "fever", "today"]` the longest common subsequence is `no
# fever`. Precision is 2/3 and recall 2/4, and the result is 0.5714.

# %% tags=["exercise:17.6", "nbval-ignore-output"]
def rouge_l(summary: list[str], reference: list[str]) -> float:
    raise NotImplementedError("17.6: replace this line")


check("17.6", rouge_l)

# %% [markdown]
# What does it not see? (*ROUGE-1*, beside it, counts the words that both
# have, in any order.) Four summaries of one patient. Which of them would
# you not want to see in a chart?

# %%
reference = "no fever, no bleeding. treated with heparin, went home."
texts = {
    "in other words": "afebrile without bleeding, heparin, discharged.",
    "a drug twice": "no fever, no bleeding. treated with heparin, "
    "heparin, went home.",
    "the wrong drug": "no fever, no bleeding. treated with digoxin, "
    "went home.",
    "the opposite": "fever, bleeding. treated with heparin, went home.",
}
scores = {name: rouge([t], [reference]) for name, t in texts.items()}
for name, score in scores.items():
    print(f"{name:15} ROUGE-L {score['rougeL']:.3f}", end=", ")
    print(f"ROUGE-1 {score['rouge1']:.3f}")
in_words = scores["in other words"]["rougeL"]
for name in ("a drug twice", "the wrong drug", "the opposite"):
    assert scores[name]["rougeL"] > in_words + 0.3

# %% [markdown]
# The right one has the lowest score, because it uses other words. The
# wrong drug and the opposite cost a little, hardly more than a drug named
# twice. ROUGE counts words in their order. So look at what matters beside
# it: the names that are recovered, and repetition.
#
# ## See it
#
# The list of ten again, written without coverage and with it. Step
# through the summary, or press play. Dark bars are what has been spent,
# the light ones come on top of them. Find the step at which the first
# model goes back.

# %% tags=["nbval-ignore-output"]
shown = {"without coverage": plain, "feature and loss": covered}
looks = {
    name: look_of(write(model, long[:1])[0])
    for name, model in shown.items()
}
for name, look in looks.items():
    steps = " ".join(f"{share:.2f}" for share in look.repeated)
    print(f"{name}: cost of each step {steps}")

# %% tags=["widget", "nbval-ignore-output"]
coverage_player(looks, step=2)

# %% [markdown]
# And the tree that beam search has looked at for the same list. Begin
# with one beam. What does the second one find? Does another length
# penalty choose another summary?

# %% tags=["widget", "nbval-ignore-output"]
beam_tree(plain, tokenizer, long[0])

# %% [markdown]
# ## Recap
#
# - **Coverage** is the sum of the attention of all steps before. The
#   coverage loss adds up the smaller of attention and coverage, over the
#   steps that are scored.
# - **In training** coverage changes the mean of three seeds by no more
#   than the seeds differ, on these lists. Longer lists in training remove
#   most repetitions.
# - **A score** is the log-probability over $lp(n)$. All scores are
#   negative and the largest wins: with a larger $\alpha$, a longer
#   hypothesis.
# - **Trigrams** are blocked by the last two tokens: what followed them
#   before is forbidden, except `</s>`.
# - **A step of beam search** adds scores to log-probabilities and takes
#   the best K of beams times vocabulary, for each example by itself. One
#   beam starts at 0, the others at minus infinity.
# - **ROUGE-L** is the F1 of the longest common subsequence. It does not
#   see whether a word is a drug, a negation or an article.
#
# ## Test yourself
#
# 1. A step has the attention `[0.6, 0.4]`, and its coverage is
#    `[0.1, 1.9]`. What does it cost?
#
# <details><summary>Answer</summary>
# 0.1 + 0.4 = 0.5. The second word has had nearly two looks already; more
# than its present attention it cannot cost.
# </details>
#
# 2. One hypothesis has log P = -2.0 and 4 tokens, another -2.4 and 7.
#    Which one wins with alpha 1, which with alpha 0?
#
# <details><summary>Answer</summary>
# With alpha 1 the penalties are 1.5 and 2, and the scores -1.33 and -1.2:
# the second wins. With alpha 0 both penalties are 1, and the first wins.
# </details>
#
# 3. You block trigrams, and a summary reads "no fever. no bleeding. no
#    pain. no fever", with the full stop as a token. Could the search have
#    written that?
#
# <details><summary>Answer</summary>
# Yes. "no fever" stands there twice, but only a run of three counts, and
# none is repeated. (After the second ". no" the search could not say
# "bleeding", after the third neither that nor "pain".) A full stop after
# the last word would be forbidden: "no fever ." would stand there twice.
# </details>
#
# ## What comes next
#
# A pointer-generator learns its task from nothing. Lesson
# [18](18_prefix_tuning.ipynb) takes a model that is trained already,
# leaves its weights alone, and teaches it a task with a few numbers in
# front of its keys and values.
