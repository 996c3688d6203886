# %% [markdown]
# # 19 · Generation and evaluation
#
# 150 minutes · Prerequisites: 14, 15
#
# You will be able to:
#
# - Draw codes with top-k and top-p, and tell what the settings do to the
#   cohort.
# - Compute the distance between two distributions of codes, and compare it
#   with its floor.
# - Count the codes, visits and patients that age or sex rules out.
# - Measure whether synthetic patients give away real ones, by nearest
#   neighbours and by membership inference.
# - Attack a model and its cohort, and say how many training patients an
#   attack finds at 1% false positives.
# - Write a report on a synthetic cohort, with what it must not be used for
#   and what it cannot see.

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
# ## Would you sign?
#
# A software company asks your hospital for 3,000 synthetic patients, to try out its
# program. The data protection officer wants your signature under one sentence: *these
# patients are useful, and no real patient can be found in them.* Three cohorts, A, B and
# C, were made from the same 4,000 patients. First you judge them. Then you attack.

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %% tags=["hide-input"]
# set-up: libraries
import math
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from statistics import fmean
from textwrap import fill

import numpy as np
import polars as pl
import torch
from scipy.spatial import cKDTree
from torch import Tensor
from torch.nn.functional import cross_entropy

# %%
from ehr_course import (
    EMPTY_RECORD, SEXES, CodeTokenizer, Corruption, EligibleOnly,
    IndependentCodes, PatientProfile, PatientRecord, PromptBart,
    PromptBartConfig, RecordDataset, Sampling, ScoredRecords, Visit,
    adversarial_accuracy, calibrated_for, carried_over, checkpoint_folder,
    choose_patients, code_tables, copied_visit, distance_scores,
    generate_patients, icd9, impossible_share_of,
    js_divergence, likelihood_scores, load_checkpoint, make_cohort,
    membership_auroc, membership_interval, perplexity, real_data,
    sample_profiles, split_by_patient, train, validity, verdict,
    write_report,
)
from ehr_course.exercises import check, hint, mine, progress
from ehr_course.plots import blank_chart, code_in_words, draw_dots
from ehr_course.widgets import cohort_dashboard

# %%
real = real_data() is not None
patients = choose_patients(5_000, seed=0)  # as the checkpoint has it
learned_from, *others = split_by_patient(patients, seed=0)
held_out = [record for part in others for record in part]
third = min(1_000, len(held_out), len(learned_from) // 3)
strangers = held_out[:third]  # patients whom no model has seen
print(f"{len(learned_from):,} patients to learn from", end=", ")
print(f"{len(held_out):,} held out")


# %% tags=["hide-input"]
# set-up: C's model; on data of your own a small one is trained
def model_for_real_data():
    tokenizer = CodeTokenizer.from_records(learned_from)
    torch.manual_seed(SEED)
    model = PromptBart(PromptBartConfig.for_tokenizer(tokenizer, "narrow"))
    data = RecordDataset(
        learned_from, tokenizer, corruption=Corruption(p_empty=0.5),
        seed=SEED, max_tokens=254, too_long="cut",
    )  # fmt: skip
    train(model, data, steps=150, lr=6e-3, seed=SEED, progress=False)
    return model.eval(), tokenizer


if real:
    model, tokenizer = model_for_real_data()
else:
    loaded = load_checkpoint("tiny_prompt_bart")
    model, tokenizer = loaded.model, loaded.tokenizer

# %%
known = CodeTokenizer(tokenizer.codes, unseen="skip")
sizes = {"tiny": 3_000, "small": 10_000, "full": 46_520}
n = 600 if real else sizes[PROFILE]
wanted = sample_profiles(learned_from, max(n, 3 * third), seed=SEED)


AS_IT_IS = Sampling()


def write(n, sampling=AS_IT_IS):  # n patients, by C's model
    options = {"seed": SEED, "sampling": sampling, "batch_size": 512}
    return generate_patients(model, tokenizer, wanted[:n], **options)


cohort = write(max(n, 3 * third))
rng = np.random.default_rng(SEED)
three = {
    "A": [learned_from[i] for i in rng.permutation(len(learned_from))],
    "B": IndependentCodes(learned_from).write(wanted, seed=SEED),
    "C": cohort,
}
three = {name: records[: 3 * third] for name, records in three.items()}

# %% tags=["nbval-ignore-output"]
for name, records in three.items():
    older = (r for r in records if r.age > 50 and len(r.visits) > 1)
    record = next(older, records[0])
    print(f"{name}: {record.sex}, {record.age} years")
    for visit in record.visits[:2]:
        for code in visit.codes[:2]:
            print("     ", code_in_words(code)[:65])
        print("      ---")


# %% [markdown]
# They all look right. So measure how far each cohort's codes lie from those of held-out
# patients. The Jensen-Shannon divergence, whose formula follows soon, is 0 bits for codes
# that are equally frequent, and 1 bit for groups that share none. To know what chance does,
# put real patients in the cohort's place, twenty times.

# %%
def codes_in(record):
    return record.codes


def divergence(some, others, things=codes_in):  # in bits
    counts = [
        Counter(thing for record in records for thing in things(record))
        for records in (some, others)
    ]
    found = sorted(set(counts[0]) | set(counts[1]))
    return js_divergence(*([c[thing] for thing in found] for c in counts))


def in_thirds(measure, records):
    starts = range(0, 3 * third, third)
    return [measure(records[start : start + third]) for start in starts]


def drawn_real(size, seed):  # learned-from patients
    rows = np.random.default_rng(seed).permutation(len(learned_from))
    return [learned_from[row] for row in rows[:size]]


# %%
unlike = {
    name: in_thirds(lambda part: divergence(part, strangers), records)
    for name, records in three.items()
}
by_chance = [
    divergence(drawn_real(third, SEED + i), strangers) for i in range(20)
]

# %% tags=["hide-input"]
# check: A and B are as close as real patients, and C is not
if not real:
    closest = [*unlike["A"], *unlike["B"]]
    assert max(closest) < 1.04 * max(by_chance)
    assert min(unlike["C"]) > max(by_chance)

# %% tags=["nbval-ignore-output"]
draw_dots(
    unlike | {"real patients": by_chance},
    "Which cohort's codes are as close as those of real patients?",
    f"A dot for each third of a cohort, {third:,} against {third:,}"
    " patients; twenty groups of real patients",
    across="JS divergence of the codes, in bits",
    form="{:.3f}",
)


# %% [markdown]
# A is a pile of photocopies. B was drawn from a table of counts, each code by itself. C
# was written by the course's model, and by this number it is the worst. But one number is
# one question. Ask four:
#
# 1. **Are its codes as frequent?** A question of [fidelity](../course/book/glossary.md): is
#    the cohort like the real one in what can be counted?
# 2. **Are its patients possible?** Age and sex rule out some codes
#    ([lesson 12](12_conditional_prompt.ipynb)).
# 3. **Do its patients have a past?** Diabetes does not go away.
#    [Carry-over](../course/book/glossary.md) is the share of a visit's codes that stood
#    in the visit before.
# 4. **Whom does it give away?** An attacker guesses who was a training patient. The
#    [AUROC](../course/book/glossary.md) is how often one is ranked above an outsider: 0.5
#    is a guess, 1 is certainty.

# %%
def off_by(records, things=codes_in):  # the mean of three thirds, in bits
    parts = in_thirds(lambda p: divergence(p, strangers, things), records)
    return fmean(parts)


def carry_over(records):
    (table,) = code_tables(records)
    again, codes = carried_over(table)
    return float(again.sum() / max(codes.sum(), 1))


def scores(records):  # of training patients, and of strangers
    *people, written = code_tables(learned_from, strangers, records)
    return [distance_scores(group, written) for group in people]


def given_away(records):
    return membership_auroc(*scores(records))


# %% [markdown]
# Each question needs to know what chance does: twenty groups of real patients, or, for
# the attack, the same scores with the names shuffled, a hundred times.

# %%
rng = np.random.default_rng(SEED)
pasts, guesses = [], []
for _ in range(20):
    some = rng.integers(len(learned_from), size=3 * third)
    pasts.append(carry_over([learned_from[i] for i in some]))
shuffled = np.concatenate(scores(three["B"]))
for _ in range(100):
    rng.shuffle(shuffled)
    parts = np.split(shuffled, [len(learned_from)])
    guesses.append(membership_auroc(*parts))
nowhere = [impossible_share_of(learned_from)]
questions = {  # how to measure, how to write, what real patients score
    "codes as frequent? (JS, bits)": (off_by, "{:.3f}", by_chance),
    "patients possible? (impossible)": (
        impossible_share_of, "{:.1%}", nowhere,
    ),
    "a past? (carried over)": (carry_over, "{:.1%}", pasts),
    "whom given away? (AUROC)": (given_away, "{:.3f}", guesses),
}  # fmt: skip


# %%
def ask(cohorts):  # a star marks what chance does not explain
    print(f"{'':31}", *(f"{name:>7} " for name in cohorts), " by chance")
    answers = {}
    for question, (measure, form, chance) in questions.items():
        values = {k: measure(records) for k, records in cohorts.items()}
        low, high = min(chance), max(chance)
        low = low if measure is carry_over else 0  # else less is better
        off = [name for name, x in values.items() if not low <= x <= high]
        answers[question] = values, off
        print(f"{question:31}", end=" ")
        for name, x in values.items():
            star = "*" if name in off else " "
            print(f"{form.format(x):>7}{star}", end=" ")
        print("", *map(form.format, sorted({min(chance), high})), sep="  ")
    return answers


answers = ask(three)

# %% tags=["hide-input"]
# check: the stars
if not real:
    *first_three, (_, given) = answers.values()
    assert [sorted(off) for _, off in first_three] == [
        ["C"], ["B", "C"], ["B", "C"],
    ]  # fmt: skip
    assert "A" in given and "B" not in given
    pasts_of, _ = answers["a past? (carried over)"]
    past = answers["a past? (carried over)"][0]
    assert 0.06 < past["C"] < 0.1 and fmean(pasts) > 1 / 3

# %% [markdown]
# A star marks what chance does not explain. Of the codes in a real patient's later
# visits, more than a third stood in the visit before. In C less than a tenth do; without
# the last column you could not know that this is little. Can C be improved?
#
# ## How a code is drawn
#
# The model gives each code a probability, and one is drawn. Three settings change
# the probabilities, in this order:
#
# - **temperature**: the logits are divided by it. Below 1, likely codes
#   become likelier.
# - **top-k**: the k most probable codes are kept.
# - **top-p** (Holtzman et al. 2020,
#   [1904.09751](https://arxiv.org/abs/1904.09751)): of those, the smallest set
#   of most probable ones that sums to at least p is kept.
#
# After each of them the probabilities sum to 1 again. Here is the first code of two
# patients: the model is sure of one, not of the other.

# %%
some = held_out[:200]
data = RecordDataset(
    some, known, corruption=Corruption(p_empty=1.0), seed=SEED,
    max_tokens=254, too_long="cut",
)  # fmt: skip
batch = data.batch(range(len(data)))
with torch.no_grad():
    logits = model(**batch | {"labels": None}).logits
first = (batch["labels"] >= known.first_code_id).int().argmax(1)
probs = logits[torch.arange(len(first)), first].softmax(-1)
likeliest = probs.sort(-1, descending=True).values
for_90 = (likeliest.cumsum(-1) < 0.9).sum(1) + 1  # codes that top-p keeps
sure, unsure = int(for_90.argmin()), int(for_90.argmax())

# %% tags=["nbval-ignore-output"]
picture, panels = blank_chart(
    "How many codes do top-k and top-p keep?",
    "; ".join(
        f"the 20 likeliest have {float(likeliest[i, :20].sum()):.0%},"
        f" {int(for_90[i])} are needed for 90%"
        for i in (sure, unsure)
    ),
    "The 80 likeliest codes. Each panel has its own scale.",
    columns=2,
)
for axes, i in zip(panels, (sure, unsure)):
    axes.bar(range(1, 81), likeliest[i, :80].numpy(), color="#2d708e")
    axes.axvline(20.5, color="black", ls="--", label="top-k: 20 codes")
    by_p = f"top-p 0.9: {int(for_90[i])} codes"
    axes.axvline(int(for_90[i]) + 0.5, color="black", ls=":", label=by_p)
    axes.set_title(f"{some[i].sex}, {some[i].age} years")
    axes.set(xlabel="code, by rank", ylabel="probability")
    axes.legend(loc="upper center")
picture


# %% [markdown]
# Where the model is sure, top-k keeps codes that hardly ever come. Where it is not, top-k
# throws away many. Top-p adapts.
#
# ### 19.1 Top-k and top-p
#
# Try It Yourself · ★★ · 9 minutes
#
# `logits` has the shape (batch, vocab), float32, minus infinity for a
# token that is forbidden. No two other logits of a row are equal.
# `temperature` is above 0, `k` a whole number below vocab, 0 for all
# tokens, `p` between 0 and 1. Return the probabilities that a token is drawn
# with: a tensor of the same shape, 0 for what is not kept.
#
# Example: for `logits = [[2.0, 0.0, 1.0]]`, as a tensor, `temperature =
# 1.0`, `k = 2` and `p = 0.9` the result is `[[0.7311, 0.0, 0.2689]]`. With
# `p = 0.7` it is `[[1.0, 0.0, 0.0]]`.

# %% tags=["exercise:19.1", "nbval-ignore-output"]
def to_draw_from(
    logits: Tensor, temperature: float, k: int, p: float
) -> Tensor:
    raise NotImplementedError("19.1: replace this line")


check("19.1", to_draw_from)

# %% [markdown]
# ## Do the settings suit patients?
#
# The settings were made for writing text. Do they bring C nearer to real patients?

# %% tags=["nbval-ignore-output"]
settings = {
    "all three": Sampling(temperature=0.7, top_k=40, top_p=0.9),
    "temperature 0.7": Sampling(temperature=0.7),
    "top-k 40": Sampling(top_k=40),
    "top-p 0.9": Sampling(top_p=0.9),
}
drawn = {name: write(third, how) for name, how in settings.items()}
drawn["as it is"] = cohort[:third]
often = Counter(code for record in learned_from for code in record.codes)
rare = {c for c in often if often[c] <= np.median(list(often.values()))}
bits, never, rarely = {}, {}, {}
for name, records in drawn.items():
    bits[name] = divergence(records, strangers)
    never[name] = impossible_share_of(records)
    rarely[name] = fmean(c in rare for r in records for c in r.codes)
    print(f"{name:16} {bits[name]:.3f} bits, {never[name]:.1%}", end="")
    print(f" impossible, {rarely[name]:.1%} rare codes")

# %% tags=["hide-input"]
# check: what the settings do
if not real:
    assert bits["all three"] > bits["as it is"] + 0.05
    assert bits["temperature 0.7"] > bits["as it is"] + 0.025
    for name in ("top-k 40", "top-p 0.9"):
        assert bits["as it is"] - 0.002 < bits[name]
        assert bits[name] < bits["temperature 0.7"]
    assert rarely["all three"] < 0.75 * rarely["as it is"]
    assert never["all three"] < never["as it is"]
    assert min(never.values()) > 0.002

# %% [markdown]
# No: they move the codes farther away, all three together most. Impossible codes become
# rarer, and do not vanish.
#
# Which codes are lost? In the upper left panel each dot is a code, placed by
# its [prevalence](../course/book/glossary.md), the share of patients who have
# it. Under "all three", many rare codes lie at "none". Choose "as it is": they come back.

# %% tags=["widget", "nbval-ignore-output"]
cohort_dashboard(learned_from, drawn)

# %% [markdown]
# ## How far apart are two cohorts?
#
# The share of each code among all codes of a cohort is a distribution. Two of them, $P$
# and $Q$, are compared with the one half way between, $M = \frac{1}{2}(P + Q)$. The
# Jensen-Shannon divergence is
#
# $$\text{JSD} = \frac{1}{2} \sum_c P_c \log \frac{P_c}{M_c} +
# \frac{1}{2} \sum_c Q_c \log \frac{Q_c}{M_c}$$
#
# and the Jensen-Shannon *distance* is its square root. A code with share 0
# contributes 0. Here it is for C with all three settings, code by code:

# %%
counts = [
    Counter(code for record in records for code in record.codes)
    for records in (strangers, drawn["all three"])
]
codes = sorted(set(counts[0]) | set(counts[1]))
p, q = (
    np.array([count[code] for code in codes]) / count.total()
    for count in counts
)
m = (p + q) / 2
with np.errstate(divide="ignore", invalid="ignore"):
    adds = np.nansum([p * np.log2(p / m), q * np.log2(q / m)], axis=0) / 2
most = adds.argsort()[::-1][:6]  # the codes that add most
rest = adds.sum() - adds[most].sum()

# %% tags=["nbval-ignore-output"]
picture, axes = blank_chart(
    f"Which codes add most to the {adds.sum():.3f} bits?",
    "; ".join(f"{icd9.written(codes[i])} {adds[i]:.4f}" for i in most),
    f"Grey: {third:,} held-out patients; blue: C, all three settings."
    f" {len(codes) - 6} others add {rest:.3f} bits.",
)
y = np.arange(len(most))
for shift, shares, colour in ((-0.2, p, "#b0b6bf"), (0.2, q, "#2d708e")):
    bars = axes.barh(y + shift, shares[most], 0.4, color=colour)
    axes.bar_label(bars, fmt=" {:.1%}", size=8)
labels = [
    fill(code_in_words(codes[i]), 34, max_lines=1, placeholder=" …")
    for i in most
]
axes.set_yticks(y, labels)
axes.set(xticks=[], ylim=(5.6, -0.6), xmargin=0.12)
axes.set_xlabel("share of all codes")
picture


# %% [markdown]
# ### 19.2 The distance between code distributions
#
# Try It Yourself · ★★ · 9 minutes
#
# `real` and `synthetic` are NumPy arrays of the same shape (codes,): how often
# each code stands in one cohort and in the other. Some counts are 0, not all,
# and the cohorts have different sizes. Return the Jensen-Shannon *distance*
# with logarithms to base 2. Do it without SciPy's function.
#
# Example: for `real = [2, 2]` and `synthetic = [1, 0]`, as arrays, the
# divergence is 0.3113 bits, and the result is 0.5579.

# %% tags=["exercise:19.2", "nbval-ignore-output"]
def distance_of_codes(real: np.ndarray, synthetic: np.ndarray) -> float:
    raise NotImplementedError("19.2: replace this line")


check("19.2", distance_of_codes)

# %% [markdown]
# ### What would real patients score?
#
# Compare real patients with as many others: their divergence is chance. Does it depend on
# their number? Guess before you look.

# %%
floors, of_cohort = {}, {}
for many in (third // 10, third // 5, third // 2, third):
    floors[many] = [
        divergence(drawn_real(many, SEED + i), strangers[:many])
        for i in range(3)
    ]
    of_cohort[many] = [
        divergence(cohort[i * many : (i + 1) * many], strangers[:many])
        for i in range(3)
    ]
looks = {"real against real": ("s--", floors)}
looks["C against real"] = ("o-", of_cohort)

# %% tags=["hide-input"]
# check: what the picture shows
few, many = third // 10, third
assert min(floors[few]) > max(floors[many])
if not real:
    assert fmean(floors[few]) > 7 * fmean(floors[many])
    assert fmean(of_cohort[few]) < 1.3 * fmean(floors[few])
    assert min(of_cohort[many]) > max(floors[many])

# %% tags=["nbval-ignore-output"]
picture, axes = blank_chart(
    "Does the divergence depend on the number of patients?",
    "; ".join(
        f"{name}: {fmean(of[few]):.3f} for {few}, {fmean(of[many]):.3f}"
        f" for {many} patients" for name, (_, of) in looks.items()
    ),
    "Three samples each, and their mean; logarithmic scales",
)
for name, (look, of) in looks.items():
    means = [fmean(bits) for bits in of.values()]
    (line,) = axes.plot(list(of), means, look, label=name, markersize=0)
    marker, colour = look[0], line.get_color()
    axes.plot(list(of), list(of.values()), marker, color=colour)
axes.set(xlabel="patients on either side", ylabel="bits")
axes.set(xscale="log", yscale="log")
axes.set_xticks(list(floors), list(floors))
axes.set_yticks([0.02, 0.05, 0.1, 0.2], [0.02, 0.05, 0.1, 0.2])
axes.minorticks_off()
axes.legend()
picture


# %% [markdown]
# The dashed line is the [floor](../course/book/glossary.md): what a measure gives when
# real patients stand in the place of the synthetic ones. With few patients chance
# hides the fault of the cohort. Compare a divergence only with a floor of the same sizes.

# %% [markdown]
# ## Are the patients possible?
#
# A man of 30 does not give birth. One impossible code spoils its visit and its patient,
# so there are three shares: of codes, of visits and of patients.
#
# ### 19.3 Medical validity
#
# Try It Yourself · ★ · 7 minutes
#
# `patients` is a list of patients, each `(age, sex, visits)`: completed
# years, "F" or "M", and a list of visits, each a list of codes. No
# list is empty, and no visit has a code twice.
# `icd9.why_impossible(code, age=age, sex=sex)` gives a reason, as
# text, or None; judge all visits by the one age. Return three shares,
# from 0 to 1: of all codes that are impossible, of visits with at least
# one such code, and of patients with at least one.
#
# Example: for `patients = [(64, "M", [["4280", "650"], ["4280"]])]`,
# where 650 is a delivery, the result is `(0.3333, 0.5, 1.0)`.

# %% tags=["exercise:19.3", "nbval-ignore-output"]
def impossible_shares(
    patients: list[tuple[int, str, list[list[str]]]],
) -> tuple[float, float, float]:
    raise NotImplementedError("19.3: replace this line")


check("19.3", impossible_shares)

# %% [markdown]
# Here is C. Brackets show a [bootstrap interval](../course/book/glossary.md): the
# patients are drawn again many times, as in [lesson 09](09_corruption.ipynb), and 95% of
# the results lie in it.

# %% tags=["nbval-ignore-output"]
judged = validity(cohort, real=learned_from, seed=SEED)
for measure in judged.measures:
    print(f"{measure.value:6.1%} {measure.name}", end=" ")
    print(f"[{measure.low:.1%}, {measure.high:.1%}]", end=", ")
    print(f"real patients {measure.floor:.1%}")
for worst in judged.worst[:4]:
    print(f"{worst.count:5} {icd9.written(worst.code)} {worst.title[:60]}")

# %% tags=["hide-input"]
# check: more patients than codes are concerned
shares = [measure.value for measure in judged.measures]
assert shares[0] <= shares[2]
if not real:
    assert 0.005 < shares[0] < 0.05 and shares[2] > 2 * shares[0]
    assert judged.measures[0].floor == 0


# %% [markdown]
# ### Going further: how well does the model predict?
#
# A perplexity judges a model, not its cohort. Exercise 19.4 (★★★) is in here.

# %% [markdown]
# Perplexity, the exponential of the mean loss, is the number of equally likely codes that
# would be as hard to guess. The encoder might read the clean record, or nothing:

# %%
def perplexity_with(corruption, records):
    data = RecordDataset(
        records, known, corruption=corruption, seed=SEED,
        max_tokens=254, too_long="cut",
    )  # fmt: skip
    batch = data.batch(range(len(data)))
    with torch.no_grad():
        logits = model(**batch | {"labels": None}).logits
    codes = batch["labels"] >= known.first_code_id  # (batch, length)
    losses = cross_entropy(logits[codes], batch["labels"][codes])
    return math.exp(losses)


leak = perplexity_with(Corruption(p_visit=0.0), some)
empty = perplexity_with(Corruption(p_empty=1.0), some)
print(f"the encoder reads the record: {leak:.1f}, nothing: {empty:.1f}")
assert real or (leak < 3 and empty > 10)


# %% [markdown]
# The first number says only that the model can copy. To score a visit, a model
# may know the visits before it and, of the visit itself, the codes so far.
#
# #### 19.4 Perplexity without a leak
#
# Try It Yourself · ★★★ · 12 minutes
#
# `patients` is a list of patients, each a list of visits in the order of
# time, each a list of codes. `log_probs(given, visit)` is a model:
# `given` is the list of visits that it reads, in the same order, `visit`
# the list of codes to score. It returns a list of natural logarithms, one for
# each code and a last one for the end of the visit. Predict each visit from
# all visits before it. Return two numbers: the perplexity of a code, from one
# mean over the codes of all patients, without the ends; and the perplexity
# of a visit, from one mean over all visits, each with its end.
#
# Example: a model that gives each code 1/4 and each end 1/2 has for `patients =
# [[["4280", "4019"]]]` the perplexities `(4.0, 32.0)`.

# %% tags=["exercise:19.4", "nbval-ignore-output"]
def perplexities(
    log_probs: Callable[[list[list[str]], list[str]], list[float]],
    patients: list[list[list[str]]],
) -> tuple[float, float]:
    raise NotImplementedError("19.4: replace this line")


check("19.4", perplexities)

# %% [markdown]
# Of C's model, *longitudinal* is the number without a leak, *unigram* that of a table which
# knows only how frequent codes are. Which codes are hard for it?

# %% tags=["nbval-ignore-output"]
scored = perplexity(model, known, some, train=learned_from, seed=SEED)
for which in ("longitudinal", "unigram"):
    measure = scored[f"{which} perplexity per code"]
    print(f"{measure.value:6.1f} {measure.name}")


def by_kind(model, tokenizer, records):  # in a first visit, new, back
    scored = ScoredRecords(model, tokenizer, records)
    ids, costs = scored.tokens.values, scored.nats_in_order()
    costs = iter(costs[ids >= tokenizer.first_code_id])
    found = {"first visit": [], "new later": [], "coming back": []}
    for start, end in pairwise(scored.tokens.offsets):
        visits = tokenizer.decode(ids[start:end])
        for before, visit in pairwise([None, *visits]):
            for code in visit:
                kind = "first visit"
                if before is not None:
                    kind = "coming back" if code in before else "new later"
                found[kind].append(next(costs))
    return {kind: math.exp(fmean(x)) for kind, x in found.items() if x}


# %% tags=["nbval-ignore-output"]
of_kind = {"C's model": by_kind(model, known, some)}
if not real:
    loaded = load_checkpoint("prompt_bart_with_history")
    of_kind["with a copy head"] = by_kind(
        loaded.model, loaded.tokenizer.skipping_unseen(), some
    )
for name, kinds in of_kind.items():
    listed = ", ".join(f"{x:.1f} {kind}" for kind, x in kinds.items())
    print(f"{name}: {listed}")

# %% tags=["hide-input"]
# check: the model knows more than frequencies, and nothing of the past
unigram = scored["unigram perplexity per code"].value
honest = scored["longitudinal perplexity per code"].value
assert real or (honest > 3 * leak and honest < 0.3 * unigram)
assert real or abs(honest / empty - 1) < 0.01
if not real:
    c, e = of_kind.values()
    assert 0.7 < c["coming back"] / c["new later"] < 1.6
    assert e["coming back"] < 0.3 * e["new later"]

# %% [markdown]
# C's model is far ahead of a table, and yet a code that comes back is about as hard for it
# as a new one. The perplexity of all codes hides that.

# %% [markdown] tags=["break"]
# ## Time for a break
#
# **So far**
#
# - Settings that make text better remove rare codes from a cohort.
# - A divergence has a floor, which depends on how many patients are compared.
# - Impossible codes are counted by code, visit and patient.
#
# Whom does a cohort give away? To come back, select the next cell and choose *Run > Run All
# Above Selected Cell* (half a minute).

# %% [markdown]
# ## Whom does it give away?
#
# By the first three questions, photocopies are perfect. An attacker asks otherwise:
#
# - [Nearest-neighbour adversarial
#   accuracy](../course/book/glossary.md#nearest-neighbour-adversarial-accuracy)
#   (Yale et al. 2020, [doi](https://doi.org/10.1016/j.neucom.2019.12.136)):
#   pool both cohorts. How often is a patient's nearest neighbour from the
#   patient's own cohort?
# - [Membership inference](../course/book/glossary.md): did the model learn from a
#   person whose record the attacker has? The guess is yes if some synthetic
#   patient is near.
#
# Here are patients as points in a plane. Which of the three pairs would you call copies?

# %%
rng = np.random.default_rng(SEED)
points = rng.normal(size=(40, 2))
planes = {
    "1": points + rng.normal(scale=0.06, size=(40, 2)),  # copies
    "2": rng.normal(size=(40, 2)),  # others of the same kind
    "3": rng.normal([6, 0], size=(40, 2)),  # from elsewhere
}
nearest, accuracy = {}, {}
for name, made in planes.items():
    both = np.concatenate([points, made])  # (80, 2)
    nearest[name] = cKDTree(both).query(both, k=2)[1][:, 1]  # but itself
    is_real = np.arange(80) < 40
    accuracy[name] = (is_real == is_real[nearest[name]]).mean()

# %%
picture, panels = blank_chart(
    "Whose nearest neighbour is of one's own kind?",
    "; ".join(f"{n}: accuracy {of:.2f}" for n, of in accuracy.items()),
    "Dark dots: real patients; open diamonds: synthetic ones. A line leads"
    " from each to the nearest.",
    height=3.0,
    columns=3,
)
for axes, (name, made) in zip(panels, planes.items()):
    both = np.concatenate([points, made])
    for one, other in zip(both, both[nearest[name]]):
        axes.plot(*zip(one, other), "-", color="#5c6470", linewidth=1)
    axes.plot(*points.T, "o", color="#1f2430", markersize=4.5)
    axes.plot(*made.T, "D", color="#2d708e", mfc="white", markersize=4.5)
    axes.set(xticks=[], yticks=[], title=name)
    axes.set_xlabel(f"accuracy {accuracy[name]:.2f}", weight="bold")
picture


# %% [markdown]
# An accuracy near 0 means copies, one near 1 means that the cohort is unlike real
# patients. At one half nobody can tell them apart.
#
# ### 19.5 Nearest neighbours and membership
#
# Try It Yourself · ★★★ · 14 minutes
#
# `train`, `held_out` and `synthetic` are NumPy arrays of zeros and ones,
# (patients, codes): 1 where the patient has the code. Everybody has a
# code, and each cohort at least two patients; `train` and `synthetic` have
# equally many. The distance of two patients is 1 minus the number of
# common codes over the number of codes that either has. Return two
# numbers:
#
# - the adversarial accuracy: the share of training patients whose nearest
#   *other* training patient is nearer than the nearest synthetic one, and
#   the share of synthetic patients whose nearest *other* synthetic patient
#   is nearer than the nearest training one; the mean of both shares;
# - the AUROC of membership: of all pairs of a training and a held-out patient, the
#   share in which the training patient is nearer to its nearest synthetic patient
#   than the held-out one is to its own.
#
# Wherever two distances are equal, that counts a half.
#
# Example: for `train = [[1, 1, 0], [1, 0, 0]]`, `held_out = [[1, 0, 1],
# [0, 0, 1]]` and `synthetic = [[1, 1, 0], [0, 1, 1]]`, as arrays, the result
# is `(0.25, 0.875)`.

# %% tags=["exercise:19.5", "nbval-ignore-output"]
def nearest_and_membership(
    train: np.ndarray, held_out: np.ndarray, synthetic: np.ndarray
) -> tuple[float, float]:
    raise NotImplementedError("19.5: replace this line")


check("19.5", nearest_and_membership)

# %% [markdown]
# An attack that finds little may be a bad one. Try it where the answer is known:

# %% tags=["nbval-ignore-output"]
rng = np.random.default_rng(SEED)
attacks = {}
for name, records in three.items():
    tables = code_tables(learned_from[:third], records[:third])
    accuracy = adversarial_accuracy(*tables).value
    auroc = given_away(records)
    low, high = membership_interval(*scores(records), rng=rng)
    attacks[name] = accuracy, auroc, low
    print(f"{name}: accuracy {accuracy:.2f}, AUROC {auroc:.3f}", end=" ")
    print(f"[{low:.3f}, {high:.3f}]")

# %% tags=["hide-input"]
# check: copies are found
assert attacks["A"][0] < 0.45 and 0.7 < attacks["A"][1] < 1
if not real:
    assert abs(attacks["C"][0] - 0.5) < 0.1
    assert 0.51 < attacks["C"][1] < 0.6 and attacks["C"][2] > 0.5

# %% [markdown]
# The AUROC of A falls short of 1, because A holds three of four training patients, and
# because some outsiders with short records have a twin among them. C gives away a little.
#
# ## The report
#
# The library takes all measures in one call, and writes a page and the numbers, without a
# row of any patient. Five rows that you have not seen:

# %% tags=["nbval-ignore-output"]
with tempfile.TemporaryDirectory() as folder:
    report = write_report(
        Path(folder) / "report", train=learned_from, held_out=held_out,
        synthetic=cohort, model=model, tokenizer=known, seed=SEED,
    )  # fmt: skip
for name in (
    "visits per patient difference",
    "training patients with a copy",
    "membership by likelihood",
    "attribute disclosure F1",
    "next visit AUROC",
):
    m = report.measures[name]
    print(f"{name:29} {m.value:.3f} [{m.low:.3f}, {m.high:.3f}]", end="")
    print(f", floor {m.floor:.3f}: {verdict(m)}")

# %% tags=["hide-input"]
# check: what is said of these rows
likely = report.measures["membership by likelihood"]
if not real:
    assert likely.low > 0.55 and likely.value > given_away(cohort) + 0.05
    worse = [str(verdict(report.measures[n])) for n in (
        "visits per patient difference", "membership by likelihood",
        "next visit AUROC",
    )]  # fmt: skip
    assert set(worse) == {"worse than the floor"}

# %% [markdown]
# If the interval holds the floor, the measure is *at the floor*; if not, it is better or
# worse. *Likelihood*
# is an attacker who has the model itself, and accuses a person whose record it finds
# likely. In [attribute disclosure](../course/book/glossary.md#attribute-disclosure) the
# attacker knows some codes of a person and wants the others. The last row is
# [utility](../course/book/glossary.md): does a model that learns from the cohort serve real
# patients? The page has more, such as [rare-code drop-out](../course/book/glossary.md), and
# it ends with what C must not be used for:

# %% tags=["nbval-ignore-output"]
for restriction in report.limits:
    print(fill(f"- {restriction}", 75, subsequent_indent="  "))
assert len(report.limits) > 3


# %% [markdown]
# ### Going further: how does the report reach its verdicts?
#
# In exercise 19.6 you give the verdicts yourself, and say which uses they forbid.

# %% [markdown]
# #### 19.6 A report on a synthetic cohort
#
# Try It Yourself · ★★ · 12 minutes
#
# `measures` is a list of tuples `(name, value, low, high, floor,
# better)`: a measured value, the ends of its interval (which may lie beside
# the value), what real patients score, and which values are better: "low",
# "high" or, near the floor, "near". An unknown number is nan. Give each
# measure a verdict:
#
# - "too few to say" if any of its four numbers is nan;
# - "at the floor" if the floor lies in the interval, its ends included;
# - otherwise "better than the floor" or "worse than the floor", by the
#   side on which the interval lies; "near" is worse on both sides.
#
# `uses` is a dictionary from a use to the names of the measures that it
# needs. A use is forbidden unless it names at least one measure, and all
# that it names are among `measures`, at the floor or better. Return a
# dictionary from names to verdicts, and the list of forbidden uses in
# their order.
#
# Example: for `measures = [("codes", 0.2, 0.1, 0.3, 0.05, "low")]` and
# `uses = {"counting": ["codes"], "treating": []}` the result is
# `({"codes": "worse than the floor"}, ["counting", "treating"])`.

# %% tags=["exercise:19.6", "nbval-ignore-output"]
def report_on(
    measures: list[tuple[str, float, float, float, float, str]],
    uses: dict[str, list[str]],
) -> tuple[dict[str, str], list[str]]:
    raise NotImplementedError("19.6: replace this line")


check("19.6", report_on)

# %% [markdown]
# ### Finding 1: chronic diseases vanish between visits
#
# Each visit of C forgets the one before. Is that hard to repair? Take B's table of
# *independent codes*, which draws each code as often as people of that sex and age bracket
# have it. Give it a memory: keep each code of the visit before as often as that code comes
# back in real patients, and fill up with independent codes.

# %%
again, had = Counter(), Counter()
for record in learned_from:
    for before, visit in pairwise(record.visits):
        had.update(before.codes)
        again.update(set(before.codes) & set(visit.codes))


def remembering(record, rng):
    visits = []
    for visit in record.visits:
        before = visits[-1].codes if visits else ()
        kept = [c for c in before if rng.random() * had[c] < again[c]]
        new = [code for code in visit.codes if code not in kept]
        visits.append(Visit(tuple((kept + new)[: len(visit.codes)])))
    return replace(record, visits=tuple(visits))


rng = np.random.default_rng(SEED)
with_memory = [remembering(record, rng) for record in three["B"]]
answers = ask({"B": three["B"], "D": with_memory, "C": three["C"]})

# %% tags=["hide-input"]
# check: the table with a memory
if not real:
    _, _, memory, _ = answers.values()
    assert min(pasts) * 0.9 < memory[0]["D"] < max(pasts) * 1.1
    cannot = answers["patients possible? (impossible)"][0]
    assert cannot["C"] < min(cannot["B"], cannot["D"])

# %% [markdown]
# A few lines of counting reproduce the codes and the carry-over of real patients. But D
# has many impossible codes: the table treats everybody below 18 alike.
#
# ### Finding 2: too few visits
#
# C's patients come to hospital too rarely: in training, records of similar length shared a
# batch (the length buckets of lesson 10), and each batch took one step. So a token of a
# short record weighed more, and the model learned to write short records.
#
# ## A model that knows the patient's past
#
# A second model differs from C's in four ways:
#
# 1. Its batches had equally many tokens, so short records weigh no more than long ones.
# 2. It has a [copy head](../course/book/glossary.md), the pointer of [lesson
#    16](16_pointer_generator.ipynb). At each step it may write a code from the vocabulary or
#    point to one of the patient's earlier visits; a gate says how much of each.
# 3. A [visit embedding](../course/book/glossary.md) tells it which visit a token belongs
#    to: a vector for each visit number, learned, and added to the token's own as that of a
#    position is.
# 4. Its weights are the average of lesson 15, and it is calibrated: visits end and codes
#    come as often as in the training patients.
#
# Here it reads a held-out patient, chosen for many codes that come back in the last visit.
# A row is a code of that visit, a column one of an earlier visit. Which squares will be
# dark?

# %%
hospital = make_cohort(5_000, seed=0)  # what both checkpoints know
taught, *others = split_by_patient(hospital, seed=0)
better = load_checkpoint("prompt_bart_with_history")


def tells_much(record):
    *before, last = record.visits
    known = {code for visit in before for code in visit.codes}
    n_before = sum(len(visit.codes) for visit in before)
    n_again = len(known & set(last.codes))
    few_new = len(last.codes) - n_again <= 1
    return len(before) == 2 and n_before < 18 and n_again >= 4 and few_new


patient = next(filter(tells_much, others[-1]))
copied_codes = copied_visit(better.model, better.tokenizer, patient)
codes, earlier = copied_codes.codes, copied_codes.earlier

# %% tags=["nbval-ignore-output"]
same = np.array([[code == other for other in earlier] for code in codes])
picture, axes = blank_chart(
    "Which codes of the last visit are copied, and from where?",
    ", ".join(
        f"{icd9.written(code)} {share:.2f}"
        for code, share in zip(codes, copied_codes.copied)
    ),
    "How likely each code is copied from there; a frame: the same code",
)
picture.colorbar(axes.pcolormesh(copied_codes.shares, cmap="Blues"))
for y, x in zip(*same.nonzero()):
    axes.plot([x, x, x + 1, x + 1, x], [y, y + 1, y + 1, y, y], "k-")
axes.axvline(copied_codes.visit_of.index(2), color="black", lw=2.5)
labels = [[icd9.written(c) for c in these] for these in (earlier, codes)]
axes.set_xticks(np.arange(len(earlier)) + 0.5, labels[0], rotation=90)
axes.set_yticks(np.arange(len(codes)) + 0.5, labels[1])
axes.invert_yaxis()
axes.set_xlabel("left of the line: visit 1; right of it: visit 2")
picture


# %% [markdown]
# It points to the same code. And impossible codes? A rule need not be learned:
# `EligibleOnly` sets their logits to minus infinity. E is what the second model writes
# under this rule. A fifth question: are a visit's pairs of codes those of real visits?
# (If you have trained lesson 11's decoder-only model, add its patients to `cohorts`.)

# %%
def pairs_in(record):
    for visit in record.visits:
        yield from combinations(sorted(visit.codes), 2)


def pairs_off_by(records):
    return off_by(records, pairs_in)


by_second = generate_patients(
    better.model, better.tokenizer,
    sample_profiles(taught, 3 * third, seed=SEED), seed=SEED,
    sampling=calibrated_for(better.model), eligible=EligibleOnly(),
    batch_size=512,
)  # fmt: skip
questions["pairs as frequent? (JS, bits)"] = (
    pairs_off_by, "{:.3f}",
    [divergence(drawn_real(third, SEED + i), strangers, pairs_in)
     for i in range(20)],
)  # fmt: skip
cohorts = three | {"D": with_memory} | ({} if real else {"E": by_second})
answers = ask(cohorts)  # add a cohort of your own here

# %% tags=["hide-input"]
# check: E is nearer to real patients than C by the first three and pairs
if not real:
    codes_of, cannot, past_of, given, pairs_of = (
        values for values, _ in answers.values()
    )
    assert cannot["E"] == 0 and codes_of["E"] < codes_of["C"] - 0.005
    assert 0.9 * min(pasts) < past_of["E"] < 1.1 * max(pasts)
    assert pairs_of["E"] < pairs_of["C"] < pairs_of["D"] - 0.02
    assert 0.5 < given["E"] < 0.58

# %% [markdown]
# E misses by a little where it misses; B and D join codes at random. But is that the model,
# or one lucky run? `benchmarks/trained_seeds.py` trained both models with three seeds:

# %%
trained = pl.read_csv(checkpoint_folder("trained_seeds") / "scores.csv")
columns = {  # of the table, and the question
    "codes": "codes as frequent? (JS, bits)",
    "pairs": "pairs as frequent? (JS, bits)",
    "carried_over": "a past? (carried over)",
    "auroc_by_distance": "whom given away? (AUROC)",
}
dots, lines = {}, {}
for column, question in columns.items():
    title = question.replace("? (", "?\n(")
    lines[title] = fmean(questions[question][2])
    dots[title] = {
        f"{one}'s model": trained.filter(model=one)[column].to_list()
        for one in ("C", "E")
    }

# %% tags=["nbval-ignore-output"]
draw_dots(
    dots,
    "Is E better than C with every seed?",
    "A dot for each run. Upright line: real patients, on average",
    line=lines,
)

# %% tags=["hide-input"]
# check: every seed of E against every seed of C
c, e = (trained.filter(model=which) for which in ("C", "E"))
assert len(c) == len(e) == 3
assert e["codes"].max() < c["codes"].min()
assert e["pairs"].max() < c["pairs"].min()
assert e["carried_over"].min() > 2 * c["carried_over"].max()
both = trained["auroc_by_distance"]
assert both.min() > 0.5 and both.max() < 0.57


# %% [markdown]
# On codes, pairs and carry-over the worst run of E beats the best of C, so this is about the
# models and not about a seed. (The thirds of one cohort come from one run, and could not
# tell.) On what is given away they do not differ clearly.
#
# Would you sign for E? Its AUROC is about 0.53, "a little". But an attacker does not need
# all patients. One is enough.

# %% [markdown]
# ### Going further: can you order patients?
#
# A rule may also look ahead: a token is allowed if the record can still be finished
# after it. Exercise 19.7 is in here.

# %% [markdown]
# #### 19.7 What may come next?
#
# Try It Yourself · ★★★ · 15 minutes
#
# You want patients who have certain diseases, in records of a limited length.
# A record is `<BOS>`, one or more visits, `<EOS>`. A visit is `<v>`, one or
# more codes of the list `codes`, none of them twice in the same visit, and
# `<\v>`, which is `"<\\v>"` in Python. Each code of the list `needed`, which
# are all in `codes`, stands in some visit. The record has at most `most`
# tokens, `<BOS>` and `<EOS>` counted.
#
# `written` is the list of the tokens so far, `<BOS>` at least and never
# `<EOS>`, and can still be finished. Return the set of all tokens after which
# the record can still be finished.
#
# Example: for `written = ["<BOS>", "<v>", "4280"]`, `codes = ["4280",
# "4019"]` and `needed = []` the result is `{"4019", "<\\v>"}` with `most =
# 6`, and `{"<\\v>"}` with `most = 5`.

# %% tags=["exercise:19.7", "nbval-ignore-output"]
def may_come_next(
    written: list[str], codes: list[str], needed: list[str], most: int
) -> set[str]:
    raise NotImplementedError("19.7: replace this line")


check("19.7", may_come_next)


# %% [markdown]
# With it the second model writes women of 70 with heart failure, 428.0, and kidney failure,
# 584.9, in at most 12 tokens.

# %%
def order_patient(needed, codes, most, seed):
    torch.manual_seed(seed)
    words, empty = better.tokenizer, torch.tensor([EMPTY_RECORD])
    token_ids = {words.id_to_token(i): i for i in range(len(words))}
    written = ["<BOS>"]
    while written[-1] != "<EOS>":
        ids = [token_ids[token] for token in ["<EOS>", *written]]
        logits = better.model(
            decoder_input_ids=torch.tensor([ids]), input_ids=empty,
            attention_mask=torch.ones_like(empty),
            x_num=torch.tensor([[70.0]]),
            x_cat=torch.tensor([[SEXES.index("F")]]),
        ).logits[0, -1]  # fmt: skip
        allowed = sorted(mine("19.7")(written, codes, needed, most))
        probs = logits[[token_ids[t] for t in allowed]].softmax(-1)
        written.append(allowed[torch.multinomial(probs, 1).item()])
    return written


# %% tags=["nbval-ignore-output"]
needed, most = ["4280", "5849"], 12
old = [r for r in taught if r.sex == "F" and r.age >= 60]
usual = Counter(code for record in old for code in record.codes)
frequent = [code for code, _ in usual.most_common(6)]
allowed = list(dict.fromkeys(needed + frequent))
with torch.no_grad():
    for seed in range(SEED, SEED + 3):
        tokens = order_patient(needed, allowed, most, seed)
        print(*(icd9.written(t) if t in allowed else t for t in tokens))
        assert len(tokens) <= most and set(needed) <= set(tokens)
free = generate_patients(
    better.model, better.tokenizer, [PatientProfile(70, "F")] * 500,
    seed=SEED,
)  # fmt: skip
both = sum(set(needed) <= set(record.codes) for record in free)
print(f"of 500 women of 70 written freely, {both} have both")

# %% [markdown]
# ## Change sides: the attack
#
# To know what an attack can find, plant something that you can recognise. A *canary*
# (Carlini et al. 2019, [1802.08232](https://arxiv.org/abs/1802.08232)) is a record that
# nobody would write by chance: here one visit with five random codes. Four go into the
# training patients once, four 4 times and four 16 times, as badly merged tables repeat
# patients. A hundred are never planted.

# %%
rng = np.random.default_rng(SEED)


def canary(number):
    age, sex = int(rng.integers(20, 80)), "FM"[rng.integers(2)]
    possible = [
        code for code in tokenizer.codes
        if icd9.why_impossible(code, age=age, sex=sex) is None
    ]  # fmt: skip
    codes = map(str, rng.choice(possible, 5, replace=False))
    return PatientRecord(10**9 + number, sex, age, (Visit(tuple(codes)),))


canaries = [canary(number) for number in range(112)]
planted = {1: canaries[:4], 4: canaries[4:8], 16: canaries[8:12]}


def is_short(record):  # so that it trains in seconds
    return len(record.codes) + 2 * len(record.visits) <= 20


short = drawn_real(len(learned_from), SEED + 1)
short = [record for record in short if is_short(record)]
size = min(500, len(short) // 2)
members, attackers_own = short[:size], short[size : 2 * size]
with_canaries = [r for k, records in planted.items() for r in records * k]


# %% [markdown]
# A small model learns from `members` and the canaries; `attackers_own` are other patients,
# whom the attacker knows. This is the whole training:

# %%
def fit(records, seed, epochs=20):
    torch.manual_seed(seed)
    model = PromptBart(PromptBartConfig.for_tokenizer(known, "narrow"))
    data = RecordDataset(
        records, known, corruption=Corruption(p_empty=0.5), seed=seed
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(data)).split(64):
            loss = model(**data.batch(rows.tolist())).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


victim = fit(members + with_canaries, SEED)
reference = fit(attackers_own, SEED + 100)
released = generate_patients(
    victim, known, sample_profiles(members, 2 * third, seed=SEED),
    seed=SEED, batch_size=512,
)  # fmt: skip

# %% [markdown]
# Does the model know the canaries? Guess which rows lie left of the first.

# %% tags=["nbval-ignore-output"]
groups = {
    "never planted": canaries[12:], "planted once": planted[1],
    "4 times": planted[4], "16 times": planted[16], "members": members,
    "outsiders": [record for record in held_out if is_short(record)],
}  # fmt: skip


def losses(model, records):  # nats a token
    return -likelihood_scores(model, known, records)


loss_of = {name: losses(victim, them) for name, them in groups.items()}
draw_dots(
    {name: of[:100] for name, of in loss_of.items()},
    "Whom does the model know?",
    "At most 100 of each group; left: what the model finds likely",
    across="loss in nats a token",
)

# %%
written_ones = {frozenset(record.codes) for record in released}
exact = {}
for name in ("never planted", "planted once", "4 times", "16 times"):
    found = [frozenset(r.codes) in written_ones for r in groups[name]]
    exact[name] = fmean(found)
    print(f"{name:14} {exact[name]:4.0%} have a copy among the released")

# %% tags=["hide-input"]
# check: canaries are known, and written
top = {name: max(of) for name, of in loss_of.items()}
if not real:
    rarely = np.quantile(loss_of["never planted"], 0.05)
    assert max(top["planted once"], top["4 times"]) < rarely
    assert exact["never planted"] == 0 and exact["16 times"] == 1


# %% [markdown]
# One copy is enough: each planted canary is likelier than almost all that were not. And
# what was planted 16 times, the model writes word for word into the cohort that the company
# gets.
#
# An attacker scores people and accuses those with a high score. An AUROC averages over all
# thresholds, also those that accuse half of the town. What counts is how many members are
# found while hardly any outsider is accused, say 1% (Carlini et al. 2022,
# [2112.03570](https://arxiv.org/abs/2112.03570)).
#
# ### 19.8 True positives at few false positives
#
# Try It Yourself · ★★★ · 12 minutes
#
# `members` and `others` are NumPy arrays of floats, the scores of training patients and of
# outsiders; higher for a likelier member. Scores can be equal. A threshold accuses
# everybody who reaches it. Of all thresholds that accuse at most the share `at_most` of the
# others, from 0 to below 1, take the one that accuses most members, and return the share
# of the members that it accuses. It may be 0.
#
# Example: for `members = [0.9, 0.8, 0.5, 0.1]` and `others = [0.7, 0.5, 0.3, 0.2]`, as
# arrays, and `at_most = 0.25` the result is 0.5: one outsider may be accused, so 0.8
# is a threshold, and 0.5 is none.

# %% tags=["exercise:19.8", "nbval-ignore-output"]
def found_at(
    members: np.ndarray, others: np.ndarray, at_most: float
) -> float:
    raise NotImplementedError("19.8: replace this line")


check("19.8", found_at)


# %% [markdown]
# Yours, once solved, judges three attacks. The first has the model and accuses those with
# a low loss. The second asks *how much lower than for a model that never saw them*, the
# attacker's own. The third has only the released cohort and takes the distance of 19.5.
# Which has the best AUROC, and which finds the canaries that were planted once?

# %%
def by_loss(records):
    return -losses(victim, records)


def by_compared_loss(records):
    return losses(reference, records) - losses(victim, records)


def by_distance(records):
    people, cohort = code_tables(records, released)
    return distance_scores(people, cohort)


accused_at = mine("19.8")  # yours, or the worked one until then


def attack(name, score):
    found = {group: score(them) for group, them in groups.items()}
    auroc = membership_auroc(found["members"], found["outsiders"])
    print(f"{name:18} AUROC {auroc:.2f}; found at 1%:", end=" ")
    row = {}
    for group in ("members", "planted once", "4 times", "16 times"):
        row[group] = accused_at(found[group], found["outsiders"], 0.01)
        print(f"{row[group]:4.0%} {group}", end="  ")
    print()
    return row | {"AUROC": auroc}


# %% tags=["nbval-ignore-output"]
rows = {
    "loss": attack("loss", by_loss),
    "compared loss": attack("compared loss", by_compared_loss),
    "distance": attack("distance", by_distance),
}

# %% tags=["hide-input"]
# check: what the three attacks find
if not real:
    assert rows["compared loss"]["planted once"] == 1
    assert rows["loss"]["planted once"] <= 0.5
    assert 0.15 < rows["compared loss"]["members"] < 0.5
    assert rows["loss"]["AUROC"] > rows["compared loss"]["AUROC"] + 0.02
    for group in ("members", "planted once", "4 times", "16 times"):
        assert rows["distance"][group] == 0


# %% [markdown]
# The comparison has the lower AUROC, and finds the people whom the loss alone misses: their
# records are rare, so the loss, though low *for them*, looks like an outsider's. By its
# average, the worse attack is the better one.
#
# The distance finds nobody, although the copies are in the cohort: more than 1% of the
# outsiders have a short record with a twin there, at distance 0, and nobody can be nearer.
# Comparing helps here, too.
#
# ### 19.9 An attack that compares
#
# Try It Yourself · ★★ · 10 minutes
#
# `candidates`, `released` and `reference` are NumPy arrays of zeros and ones, (patients,
# codes), in which everybody has a code. The distance of two patients is that of 19.5: 1
# minus the number of common codes over the number of codes that either has. Return a score
# for each candidate, a float array (candidates,): the distance to the nearest reference
# patient minus the distance to the nearest released one.
#
# Example: for `candidates = [[1, 1, 0], [0, 0, 1]]`, `released = [[1, 1, 0]]` and
# `reference = [[1, 0, 0], [0, 0, 1]]`, as arrays, the result is `[0.5, -1.0]`.

# %% tags=["exercise:19.9", "nbval-ignore-output"]
def attack_scores(
    candidates: np.ndarray, released: np.ndarray, reference: np.ndarray
) -> np.ndarray:
    raise NotImplementedError("19.9: replace this line")


check("19.9", attack_scores)


# %%
def by_compared_distance(records):
    tables = code_tables(records, released, attackers_own)
    arrays = (table.patients.toarray() for table in tables)
    return mine("19.9")(*arrays)


# %% tags=["nbval-ignore-output"]
name = "compared distance"
rows[name] = attack(name, by_compared_distance)

# %% tags=["hide-input"]
# check: the comparison finds the copies
if not real:
    row = rows["compared distance"]
    assert row["4 times"] + row["16 times"] >= 1.25
    assert row["planted once"] <= 0.5 and 0.01 < row["members"] < 0.15


# %% [markdown]
# The cohort alone gives away most canaries that were planted several times, and a few
# percent of the ordinary members. Can you find more of those planted once? Think of rare
# codes, of pairs, of age and sex, or of several reference cohorts.

# %% tags=["nbval-ignore-output"]
def my_attack(records):  # a score for each record: change it
    rarity = [min(often[code] for code in r.codes) for r in records]
    return by_compared_distance(records) / np.sqrt(1 + np.array(rarity))


rows["yours"] = attack("yours", my_attack)

# %% [markdown]
# This model is small, and has seen each of 500 patients twenty times. What does an attack
# without comparing find in the runs of C and E, with 4,000 patients?

# %%
for which in ("C", "E"):
    of = trained.filter(model=which)
    for way in ("distance", "likelihood"):
        auroc, found = of[f"auroc_by_{way}"], of[f"found_by_{way}"]
        print(f"{which}, by {way:10}: AUROC {auroc.min():.2f} to", end=" ")
        print(f"{auroc.max():.2f}, found at 1%: {found.min():.1%}", end="")
        print(f" to {found.max():.1%}")


# %% [markdown]
# ## A useless cohort that passes
#
# Now attack the report: write a cohort that answers all questions as well as E, and that
# nobody can use. Shuffling the codes among people of one sex and about one age is a
# beginning. See which questions catch it, and change it.

# %%
def spoil(records, rng):  # change this function
    kinds = {}
    for record in records:
        kind = kinds.setdefault((record.sex, record.age // 20), [])
        kind.extend(record.codes)
    for codes in kinds.values():
        rng.shuffle(codes)
    spoilt = []
    for record in records:
        pool = kinds[record.sex, record.age // 20]
        visits = [
            Visit(tuple({pool.pop() for _ in visit.codes}))
            for visit in record.visits
        ]
        spoilt.append(replace(record, visits=tuple(visits)))
    return spoilt


# %% tags=["nbval-ignore-output"]
best = by_second if not real else cohort
spoilt = spoil(best, np.random.default_rng(SEED))
answers = ask({"E": best, "spoilt": spoilt})

# %% tags=["hide-input"]
# check: shuffled codes are caught
if not real:
    caught = [q for q, (_, off) in answers.items() if "spoilt" in off]
    assert {"a past? (carried over)", "pairs as frequent? (JS, bits)"} <= {
        *caught
    }


# %% [markdown]
# The questions about the past and about pairs catch it. Here is one that none catches. Two
# people of one sex exchange their ages, if the rules allow it for both:

# %%
def exchange_ages(records, rng):
    def can_be(record, age):
        return not any(
            icd9.why_impossible(code, age=age, sex=record.sex)
            for code in record.codes
        )

    records = list(records)
    for _ in range(10):
        order = rng.permutation(len(records))
        for i, j in zip(order[::2], order[1::2]):
            a, b = records[i], records[j]
            if a.sex == b.sex and can_be(a, b.age) and can_be(b, a.age):
                records[i] = replace(a, age=b.age)
                records[j] = replace(b, age=a.age)
    return records


wrong_ages = exchange_ages(best, np.random.default_rng(SEED))
answers = ask({"E": best, "no ages": wrong_ages})

# %% tags=["hide-input"]
# check: the answers are the same
for values, _ in answers.values():
    assert values["E"] == values["no ages"]


# %% [markdown]
# Not a digit moves. The library's report asks about ages and about codes, and not about
# both together, so it does not notice either. What does? A use. Ask how old the patients of
# the thirty most frequent codes are:

# %%
def mean_ages(records, codes):
    ages = [[r.age for r in records if c in r.codes] for c in codes]
    return np.array([fmean(of) if of else np.nan for of in ages])


frequent = [code for code, _ in often.most_common(30)]
true_ages = mean_ages(learned_from, frequent)
off_years = {}
for name, records in {"E": best, "no ages": wrong_ages}.items():
    off = mean_ages(records, frequent) - true_ages
    off_years[name] = np.nanmean(np.abs(off))
    print(f"{name}: off by {off_years[name]:.1f} years on average")

# %% tags=["hide-input"]
# check: E is of use, the other is not
assert real or off_years["no ages"] > 3 * off_years["E"]

# %% [markdown]
# A report answers the questions that somebody has put into it. Before you sign for a use,
# try out that use, with real patients beside it.
#
# ## What would you sign?
#
# - **A**: nothing. The photocopies are the patients.
# - **B** and **D**: to try out a chart of single codes, D also of codes that come back.
#   That an attack finds nothing is no permission to hand them out.
# - **C**: nothing. E is nearer to real patients, with every seed.
# - **E**: to try out software *inside* the hospital. An AUROC of 0.53 is no reason to hand
#   it out: a patient who stands in the tables 16 times may stand in it word for word. Only
#   differential privacy bounds attacks that nobody has invented yet.
#
# All five have limits that no measure here shows: diagnoses only, no laboratory values, no
# drugs, no time between visits. To learn how frequent a disease is, use real patients.

# %% [markdown]
# ## Recap
#
# - **Top-k, top-p** and a low temperature make rare codes rarer.
# - **The Jensen-Shannon distance** is the root of the divergence, and both
#   depend on the base. The floor is what as many real patients give.
# - **Impossible codes** are counted by code, visit and patient.
# - **A cohort gives away members** if it lies nearer to them than to others.
# - **An attack** is judged by what it finds at 1% false positives. Comparing with a
#   reference makes it stronger.
# - **A report** holds each measure's interval against its floor, and is blind to what it
#   does not ask.
#
# ## Test yourself
#
# 1. A colleague reports a JS divergence of 0.13 bits between 200 synthetic
#    and 200 real patients, and a floor of 0.026, from 1,000 against 1,000. Is
#    the cohort worse than its floor?
#
# <details><summary>Answer</summary>
# Nobody can tell: for 200 against 200 the floor is about as high.
# </details>
#
# 2. The adversarial accuracy is 0.93 and the AUROC of membership 0.50. Is
#    the cohort safe, and is it good?
#
# <details><summary>Answer</summary>
# It is not good: the two cohorts lie apart. Nor need it be safe: an average hardly shows a
# few members copied exactly.
# </details>
#
# 3. An attack finds 3% of the members at 1% false positives. Its AUROC is 0.51. Is that
#    little?
#
# <details><summary>Answer</summary>
# No. Three times as many members are found as by a guess. If other seeds find the same
# people, these are exposed.
# </details>
#
# ## What comes next
#
# You can now judge a synthetic cohort, and attack it. `ehr-course evaluate` does the first
# on the command line: try your own data, and look first at the copies. In [lesson
# 20](20_your_own_study.ipynb) the question is yours.
#
# If you know the tutorial that this lesson follows,
# [What holds](../course/book/what_holds.md#19-generation-and-evaluation)
# says which of its claims hold.
