# %% [markdown]
# # 19 · Generation and evaluation
#
# 120 minutes · Prerequisites: 14, 15
#
# You will be able to:
#
# - Draw codes with top-k and top-p, and tell what the settings do to the
#   cohort.
# - Compute the distance between two distributions of codes, and compare it
#   with its floor.
# - Count the codes, visits and patients that age or sex rules out.
# - Compute the perplexity of a code and of a visit without a leak.
# - Measure whether synthetic patients give away real ones, by nearest
#   neighbours and by membership inference.
# - Write a report on a synthetic cohort, with what it must not be used for.

# %% [markdown]
# ## Would you believe these patients?
#
# Your model writes patients that look right. How would you know that they
# are? This lesson makes a cohort of them and judges it: is it like the
# real one, is it possible, does it give anybody away, and is it of any
# use? "Real" are here the patients of the hospital, the embedded one or
# yours. At the end stands a report, and three findings that are not what
# you would like to read.

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %%
import math
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import fmean

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ehr_course import icd9
from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.plan import BatchPlan
from ehr_course.batches.record_checks import FIRST_CODE
from ehr_course.evaluation.carry_over import carried_over
from ehr_course.evaluation.code_table import code_tables
from ehr_course.evaluation.copying import copied_visit
from ehr_course.evaluation.distances import js_distance, js_divergence
from ehr_course.evaluation.membership import (
    distance_scores,
    membership_auroc,
)
from ehr_course.evaluation.nearest_neighbours import adversarial_accuracy
from ehr_course.evaluation.perplexity import perplexity
from ehr_course.evaluation.utility import utility
from ehr_course.evaluation.validity import impossible_share_of, validity
from ehr_course.exercises import check, hint, progress
from ehr_course.exercises.model_to_score import Remembering
from ehr_course.generation.baselines import (
    IndependentCodes,
    MarkovChain,
)
from ehr_course.generation.patients import generate_patients, wanted_like
from ehr_course.generation.sampling import Sampling
from ehr_course.icd9 import written
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.models.saved import load_checkpoint
from ehr_course.plots.copying import draw_copying
from ehr_course.plots.generators import Panel, draw_generators
from ehr_course.plots.style import code_in_words
from ehr_course.report import verdict, write_report
from ehr_course.sources.patients import choose_patients, real_data
from ehr_course.sources.splits import split_by_patient
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.trainer import train
from ehr_course.widgets.cohort_dashboard import cohort_dashboard

# %% [markdown]
# A judgement needs to know whom the model learned from, and real patients
# that it never saw. The course's small model learned from 4,000 patients
# of the embedded hospital, and 1,000 were held out. (If `EHR_COURSE_DATA`
# names a folder, a small model is trained here, on the patients there.)

# %%
real = real_data() is not None
patients = choose_patients(5_000, seed=0)  # as the checkpoint has it
learned_from, *others = split_by_patient(patients, seed=0)
held_out = [record for part in others for record in part]
print(f"{len(patients):,} patients, {len(learned_from):,} learned from")


def small_model(tokenizer):
    config = PromptBartConfig.for_tokenizer(tokenizer, "narrow")
    torch.manual_seed(SEED)
    model = PromptBart(config)
    options = {"seed": SEED, "max_tokens": 254, "too_long": "cut"}
    options |= {"corruption": Corruption(p_empty=0.5)}
    data = RecordDataset(learned_from, tokenizer, **options)
    train(model, data, steps=150, lr=6e-3, seed=SEED, progress=False)
    return model.eval()


# %%
if real:
    tokenizer = CodeTokenizer.from_records(learned_from)
    model = small_model(tokenizer)
else:
    loaded = load_checkpoint("tiny_prompt_bart")
    model, tokenizer = loaded.model, loaded.tokenizer
known = CodeTokenizer(tokenizer.codes, unseen="skip")
print(f"{len(tokenizer.codes)} codes")

# %% [markdown]
# Now the cohort. Ages and sexes are drawn from those of the patients that
# the model learned from, and the model writes everything else.

# %% tags=["nbval-ignore-output"]
sizes = {"tiny": 10_000, "small": 20_000, "full": 46_520}
n = 600 if real else sizes[PROFILE]


AS_IT_IS = Sampling()


def write(n, sampling=AS_IT_IS):
    wanted = wanted_like(learned_from, n, seed=SEED)
    options = {"seed": SEED, "sampling": sampling, "batch_size": 512}
    return generate_patients(model, tokenizer, wanted, **options)


cohort = write(n)
print(f"{len(cohort):,} synthetic patients. The first three:")
for record in cohort[:3]:
    print(f"{record.sex}, {record.age}")
    for visit in record.visits:
        for code in visit.codes[:3]:
            print("   ", code_in_words(code)[:66])
        print("    ---")


# %% [markdown]
# They look right, and that says little: three patients cannot show how
# frequent anything is, and you would not see a copy of a real one.
#
# ## How a code is drawn
#
# The model gives a probability to each code, and one is drawn. Three
# settings change the probabilities first, in this order:
#
# - **temperature**: the logits are divided by it. Below 1, likely codes
#   become likelier still.
# - **top-k**: the k most probable codes are kept.
# - **top-p** (Holtzman et al. 2020,
#   [1904.09751](https://arxiv.org/abs/1904.09751)): of those, the fewest
#   are kept whose probabilities sum to at least p, the most probable ones
#   first.
#
# After each of them the probabilities sum to 1 again.
#
# ### 19.1 Top-k and top-p
#
# Try It Yourself · ★★ · 9 minutes
#
# `logits` has the shape (batch, vocab), float32, minus infinity for a
# token that is forbidden. No two other logits of a row are equal.
# `temperature` is above 0. `k` is a whole number below vocab, 0 for all
# tokens. `p` is above 0 and below 1. Return the probabilities that a
# token is drawn with: a tensor of the same shape, 0 for what is not kept,
# each row summing to 1.
#
# Example: for `logits = [[2.0, 0.0, 1.0]]`, as a tensor, `temperature =
# 1.0`, `k = 2` and `p = 0.9`, the tokens 0 and 2 are kept, and the result
# is `[[0.7311, 0.0, 0.2689]]`. With `p = 0.7` it is `[[1.0, 0.0, 0.0]]`.

# %% tags=["exercise:19.1", "nbval-ignore-output"]
def to_draw_from(
    logits: Tensor, temperature: float, k: int, p: float
) -> Tensor:
    raise NotImplementedError("19.1: replace this line")


check("19.1", to_draw_from)


# %% [markdown]
# ## How far apart are two cohorts?
#
# Count how often each code stands in a cohort, and divide by the sum:
# that is a distribution. Two distributions $P$ and $Q$ are compared with
# the one half way between them, $M = \frac{1}{2}(P + Q)$. The
# *Jensen-Shannon divergence* is
#
# $$\text{JSD} = \frac{1}{2} \sum_c P_c \log \frac{P_c}{M_c} +
# \frac{1}{2} \sum_c Q_c \log \frac{Q_c}{M_c}$$
#
# and the *Jensen-Shannon distance* is its square root. A code with the
# share 0 has the term 0.
#
# ### 19.2 The distance between code distributions
#
# Try It Yourself · ★★ · 9 minutes
#
# `real` and `synthetic` are NumPy arrays of the same shape (codes,), with
# whole numbers: how often each code stands in one cohort and in the other.
# Some are 0, not all, and the cohorts have different sizes. Return the
# Jensen-Shannon *distance* with logarithms to base 2, a number from 0 to
# 1. Do it without SciPy's function.
#
# Example: for `real = [2, 2]` and `synthetic = [1, 0]`, as arrays, the
# divergence is 0.3113 bits, and the result is 0.5579.

# %% tags=["exercise:19.2", "nbval-ignore-output"]
def distance_of_codes(real: np.ndarray, synthetic: np.ndarray) -> float:
    raise NotImplementedError("19.2: replace this line")


check("19.2", distance_of_codes)

# %% [markdown]
# ### A number without a unit
#
# A design that this course follows, its architecture document, says that
# large auxiliary weights destroy coherence, at a "JS divergence 0.6". It
# names no base. What could that be? Compute the largest value that each
# of the three common readings can have, and what 0.6 is in bits.

# %% tags=["claim:51"]
nothing_common = [1, 0], [0, 1]
largest = {
    "divergence in bits": js_divergence(*nothing_common, base=2),
    "divergence in nats": js_divergence(*nothing_common, base=math.e),
    "distance in base e": js_distance(*nothing_common, base=math.e),
}
to_bits = {
    "divergence in bits": lambda x: x,
    "divergence in nats": lambda x: x / math.log(2),
    "distance in base e": lambda x: x**2 / math.log(2),
}
for name, most in largest.items():
    bits = to_bits[name](0.6)
    print(f"{name}: at most {most:.3f}; 0.6 is {bits:.2f} bits")
assert round(to_bits["divergence in nats"](0.6), 2) == 0.87
assert round(to_bits["distance in base e"](0.6), 2) == 0.52


# %% [markdown]
# Read as a divergence in nats, 0.6 is near the end of the scale. Read as
# the distance that SciPy returns, it is little more than half of a bit.
# The document does not say which, so 0.6 cannot be compared with anything.
# (Lesson 13 measures what the weights do.)
#
# ### What would real patients score?
#
# Take some patients of the hospital, and as many others. No model of
# yours has written them: their distance is that of chance. How does it
# depend on their number? Guess before you run the cell.

# %%
def divergence(some, others):  # in bits
    counts = [
        Counter(code for record in records for code in record.codes)
        for records in (some, others)
    ]
    codes = sorted(set(counts[0]) | set(counts[1]))
    return js_divergence(*([c[code] for code in codes] for c in counts))


def floor(size, seed):
    rows = np.random.default_rng(seed).permutation(len(learned_from))
    shuffled = [learned_from[row] for row in rows[: 2 * size]]
    return divergence(shuffled[:size], shuffled[size:])


# %%
half = len(learned_from) // 2
floors = {}
for size in (half // 10, half // 5, half):
    floors[size] = [floor(size, SEED + i) for i in range(3)]
    said = ", ".join(f"{bits:.3f}" for bits in floors[size])
    print(f"{size:,} patients against {size:,} others: {said} bits")
assert min(floors[half // 10]) > max(floors[half])

# %% [markdown]
# This is the *floor*. A synthetic cohort that scores as much cannot be
# told from a real one by its codes; nobody can ask it to score less. And
# the floor depends on the sizes: a divergence is comparable only with a
# floor of the same sizes.
#
# ## What the settings do
#
# Now write patients under other settings. What will happen to the
# divergence, and what to the number of different codes? The `generate` of
# the architecture document has all three by default: temperature 0.7,
# top-k 40, top-p 0.9. Each cohort is judged in three parts, which have no
# random number in common; the three are held against the same real
# patients.

# %% tags=["nbval-ignore-output"]
size = 40 if real else 400  # of a part
settings = {
    "temperature 0.7": Sampling(temperature=0.7),
    "top-k 40": Sampling(top_k=40),
    "top-p 0.9": Sampling(top_p=0.9),
    "all three": Sampling(temperature=0.7, top_k=40, top_p=0.9),
}
drawn = {"as it is": cohort}
drawn |= {name: write(3 * size, how) for name, how in settings.items()}

# %% tags=["nbval-ignore-output"]
chance = [floor(size, SEED + i) for i in range(3)]
print("floor:          ", ", ".join(f"{bits:.3f}" for bits in chance))
spread, impossible = {}, {}
for name, records in drawn.items():
    parts = [records[i * size : (i + 1) * size] for i in range(3)]
    compared = learned_from[:size]
    spread[name] = [divergence(part, compared) for part in parts]
    impossible[name] = impossible_share_of(records)
    codes = {code for r in records[: 3 * size] for code in r.codes}
    said = ", ".join(f"{bits:.3f}" for bits in spread[name])
    print(f"{name:16} {said} bits; {len(codes)} different codes,", end=" ")
    print(f"{impossible[name]:.1%} impossible")
if not real:
    bits = {name: fmean(spread[name]) for name in spread}
    assert bits["all three"] > bits["as it is"] + 0.05
    assert bits["temperature 0.7"] > bits["as it is"] + 0.015
    assert min(spread["all three"]) > 1.5 * max(chance)
    shares = [impossible[name] for name in settings]
    assert fmean(shares) < impossible["as it is"] - 0.001


# %% [markdown]
# Drawn as it is, the model lies near the floor, and these few patients
# cannot tell it apart; the report below can. Temperature 0.7 moves its
# codes away, and all three settings move them farther: rare codes come
# too rarely, frequent ones too often. Impossible codes become a little
# rarer on average, though not under each setting. They do not vanish: the
# model is sure of some of them. So before anybody blames a loss for poor
# coherence, look at how the patients were drawn. What is good for text,
# where one good sentence is wanted, is not good for a cohort, where rare
# patients have to be as frequent as they are.
#
# ## Are they possible?
#
# Age and sex rule out some codes: a man of 30 does not give birth.
# `icd9.why_impossible` knows such rules; lesson 12 counted with them.
# What is counted decides what the number says.
#
# ### 19.3 Medical validity
#
# Try It Yourself · ★ · 7 minutes
#
# `patients` is a list of patients, each `(age, sex, visits)`: completed
# years, "F" or "M", and a list of visits, each a list of codes. Each
# patient has at least one visit, each visit at least one code and none
# twice. `icd9.why_impossible(code, age=age, sex=sex)` gives a reason, as
# text, or None; hold all visits against the one age. Return three shares,
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
# The library counts the same. In brackets stands an interval: where the
# value would lie for most other samples of patients.

# %% tags=["nbval-ignore-output"]
found = validity(cohort, real=learned_from, seed=SEED)
for measure in found.measures:
    print(f"{measure.value:6.1%} {measure.name}", end=" ")
    print(f"[{measure.low:.1%}, {measure.high:.1%}]", end=", ")
    print(f"real patients {measure.floor:.1%}")
print("most often:")
for worst in found.worst[:4]:
    print(f"{worst.count:5} {written(worst.code)} {worst.title[:60]}")
shares = [measure.value for measure in found.measures]
assert shares[0] <= shares[2]
if not real:
    assert 0.005 < shares[0] < 0.05 and shares[2] > 2 * shares[0]


# %% [markdown]
# Few codes are impossible, and yet several times as many patients have
# one. All three numbers are true, and a reader who gets only one of them
# is misled. The real patients of the embedded hospital have none, so the
# cohort is worse than its floor here.
#
# ## How well does the model predict?
#
# A model that writes patients also gives a probability to those that
# exist. The *perplexity* of a code is
#
# $$\exp\left(-\frac{1}{K} \sum_{i=1}^{K} \log p(\text{code}_i \mid
# \text{what is known})\right)$$
#
# It is the number of equally likely codes that would be as hard to guess.
# That of a visit is the same with the probability of a whole visit: its
# codes, and its end. Everything depends on "what is known". BART reads a
# record in its encoder. During training that record is corrupted, and
# what is scored is the clean one. What if you leave the corruption out
# when you evaluate?

# %% tags=["nbval-ignore-output"]
def perplexity_with(corruption, records):
    """Of a code, given the codes before it and what the encoder reads."""
    options = {"max_tokens": 254, "too_long": "cut"}
    data = RecordDataset(
        records, known, corruption=corruption, seed=SEED, **options
    )
    batch = data.batch(range(len(data)))
    with torch.no_grad():
        logits = model(**batch | {"labels": None}).logits
    codes = batch["labels"] >= FIRST_CODE  # (batch, length)
    losses = cross_entropy(logits[codes], batch["labels"][codes])
    return math.exp(losses)


some = held_out[:200]
leaks = perplexity_with(Corruption(p_visit=0.0), some)
empty = perplexity_with(Corruption(p_empty=1.0), some)
print(f"the encoder reads the record itself: {leaks:.1f}")
print(f"the encoder reads age and sex: {empty:.1f}")
assert real or (leaks < 3 and empty > 10)


# %% [markdown]
# Both are computed on patients who were held out. The first number says
# that the model can copy. It says nothing of patients whose record nobody
# has written yet. To score visit t, a model may know the visits before
# it, and nothing of the visit itself or of those after it. Whether the
# encoder or the decoder reads them is a matter of the model.
#
# ### 19.4 Perplexity without a leak
#
# Try It Yourself · ★★★ · 12 minutes
#
# `patients` is a list of patients, each a list of visits in the order of
# time, each a list of codes. `log_probs(given, visit)` is a model:
# `given` is a list of the visits that it reads, in the order of time,
# `visit` the list of codes to score. It returns a list of natural
# logarithms, one more than the visit has codes: for each code, and last
# for the end of the visit. Return two numbers: the perplexity of a code,
# and the perplexity of a visit, its end included, each from one mean over
# all codes, or all visits, of all patients. Each visit is predicted from
# all visits before it.
#
# Example: a model that gives each code 1/4 and each end 1/2, whatever it
# reads, has for `patients = [[["4280", "4019"]]]` the perplexities
# `(4.0, 32.0)`: the visit has the probability 1/4 · 1/4 · 1/2.
# (The check uses `Remembering()`, which finds codes likelier that it has
# read: see the next cell.)

# %% tags=["exercise:19.4", "nbval-ignore-output"]
def perplexities(
    log_probs: Callable[[list[list[str]], list[str]], list[float]],
    patients: list[list[list[str]]],
) -> tuple[float, float]:
    raise NotImplementedError("19.4: replace this line")


check("19.4", perplexities)

# %%
log_probs = Remembering()
visit = ["4280", "4019"]
for given in ([], [["4280"]], [["4280"], ["4280", "4019"]]):
    said = [round(math.exp(x), 3) for x in log_probs(given, visit)]
    print(f"given {given}: {said}")

# %% [markdown]
# The library does the same with the real model. Its encoder reads age,
# sex and an empty record; its decoder reads the visits before, and in a
# visit the codes before. So the *longitudinal* value should be the second
# number from above: that one was no leak. *Cross-sectional* scores each
# code of a visit given its other codes; *unigram* knows nothing but how
# frequent codes are: it is the table that a model has to beat.

# %% tags=["nbval-ignore-output"]
judged = perplexity(model, known, some, train=learned_from, seed=SEED)
for measure in judged.measures:
    if measure.name.endswith("per code"):
        print(f"{measure.value:6.1f} {measure.name}", end=" ")
        print(f"[{measure.low:.1f}, {measure.high:.1f}]")
unigram = judged["unigram perplexity per code"].value
honest = judged["longitudinal perplexity per code"].value
assert real or honest > 3 * leaks
assert real or abs(honest / empty - 1) < 0.01
assert real or honest < 0.3 * unigram
relative = judged["perplexity per code relative to the unigram"]
print(f"{relative.value:6.2f} {relative.name}", end=" ")
print(f"[{relative.low:.2f}, {relative.high:.2f}]")
assert real or relative.high < 1


# %% [markdown]
# That is what the model knows: far more than frequencies, and far less
# than the leak would have it. A perplexity has no floor, as no real
# patients can be asked for probabilities. It compares models, on the same
# patients and the same codes.
#
# ## Whom does it give away?
#
# A cohort of copies is perfect in all that was measured of a cohort so
# far. So ask what an attacker would ask.
#
# - **Nearest-neighbour adversarial accuracy** (Yale et al. 2020,
#   [doi](https://doi.org/10.1016/j.neucom.2019.12.136)): is the nearest
#   neighbour of a patient of one's own cohort, real or synthetic? If the
#   cohorts cannot be told apart, that is so for half of the patients. If
#   the synthetic ones are copies, for next to none.
# - **Membership inference**: the attacker has the synthetic cohort and the
#   record of somebody. Did the model learn from that person? The guess is
#   yes if some synthetic patient is near. The AUROC is how often a member
#   is nearer than somebody who was held out: 0.5 is a guess.
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
# - the AUROC of membership: of all pairs of a training and a held-out
#   patient, the share in which the nearest synthetic patient is nearer to
#   the training patient than to the held-out one.
#
# Wherever two distances are equal, that counts a half.
#
# Example: for `train = [[1, 1, 0], [1, 0, 0]]`, `held_out = [[1, 0, 1],
# [0, 0, 1]]` and `synthetic = [[1, 1, 0], [0, 1, 1]]`, as arrays, the
# nearest synthetic patients lie at 0 and 0.5 from the training patients,
# at 0.6667 and 0.5 from the others, and the result is `(0.25, 0.875)`.

# %% tags=["exercise:19.5", "nbval-ignore-output"]
def nearest_and_membership(
    train: np.ndarray, held_out: np.ndarray, synthetic: np.ndarray
) -> tuple[float, float]:
    raise NotImplementedError("19.5: replace this line")


check("19.5", nearest_and_membership)

# %% [markdown]
# An attack that finds nothing may be a bad attack. So try it first where
# the answer is known: on a "synthetic" cohort that is a copy of the
# training patients, and on one that consists of other real patients.

# %% tags=["nbval-ignore-output"]
size = min(1_000, len(held_out), len(learned_from) // 2)
members, strangers = learned_from[:size], held_out[:size]
released = {
    "copies": members,
    "other real patients": learned_from[size : 2 * size],
    "the cohort": cohort,
}
attacks = {}
for name, records in released.items():
    m, s, r = code_tables(members, strangers, records)
    accuracy = adversarial_accuracy(m, r.select(np.arange(size))).value
    near = [distance_scores(patients, r) for patients in (m, s)]
    attacks[name] = accuracy, membership_auroc(*near)
    print(f"{name:20} accuracy {accuracy:.2f}", end=", ")
    print(f"AUROC of membership {attacks[name][1]:.2f}")
assert attacks["copies"][0] < 0.2 and attacks["copies"][1] > 0.8
if not real:
    assert abs(attacks["other real patients"][0] - 0.5) < 0.06
    assert abs(attacks["other real patients"][1] - 0.5) < 0.05
    assert 0.51 < attacks["the cohort"][1] < 0.7


# %% [markdown]
# The attack finds copies, and finds nothing in other real patients, as it
# should. In the cohort it finds a little: members are nearer to it than
# patients who were held out. Is that more than chance? The report below
# has intervals, and attacks with the model in hand as well.
#
# ## The report
#
# A measure needs an interval, for another sample of patients would give
# another value, and a floor, for real patients would not score 0 either.
# Then it can be put into words.
#
# ### 19.6 A report on a synthetic cohort
#
# Try It Yourself · ★★ · 12 minutes
#
# `measures` is a list of tuples `(name, value, low, high, floor,
# better)`: a measured value, the ends of its interval (which need not
# contain the value), what real patients score, and "low", "high" or
# "near": which values are the better ones, where "near" means near the
# floor. No name stands twice. A number that is not known is nan. Give
# each measure a verdict:
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
# The library's report is one call. It writes a page to read and a file to
# compute with; neither holds a row of any patient.

# %% tags=["nbval-ignore-output"]
with tempfile.TemporaryDirectory() as folder:
    report = write_report(
        Path(folder) / "report",
        train=learned_from,
        held_out=held_out,
        synthetic=cohort,
        model=model,
        tokenizer=known,
        seed=SEED,
    )
    files = sorted(p.name for p in (Path(folder) / "report").iterdir())
print("written:", ", ".join(files))
for section in report.sections:
    verdicts = Counter(str(verdict(m)) for m in section.measures)
    print(section.title)
    for said, count in verdicts.most_common():
        print(f"   {count:2} {said}")
assert files == ["report.html", "report.json"]

# %% tags=["nbval-ignore-output"]
shown = (
    "code distribution JS divergence",
    "sequential pairs JS divergence",
    "carry-over of codes",
    "carry-over of chronic categories",
    "visits per patient difference",
    "patients with 4 visits or more",
    "impossible codes",
    "membership by distance",
    "membership by likelihood",
    "exact copies",
    "next visit AUROC",
)
for name in shown:
    m = report.measures.get(name)
    if m is not None:
        print(f"{name:32} {m.value:7.3f} [{m.low:.3f}, {m.high:.3f}]")
        print(f"{'':32} floor {m.floor:.3f}: {verdict(m)}")
if not real:
    said = {name: verdict(report.measures[name]) for name in shown}
    del said["membership by distance"]  # near the floor: see below
    assert set(said.values()) == {"worse than the floor"}
    by_model, by_cohort = (
        report.measures[f"membership by {way}"]
        for way in ("likelihood", "distance")
    )
    assert by_model.low > 0.55 and by_cohort.value < by_model.value
    for kind in ("code distribution", "sequential pairs"):
        m = report.measures[f"{kind} JS divergence"]
        assert 1.25 < m.value / m.floor < 2.1

# %% [markdown]
# Read it as a reviewer would. The codes are off, and so is how they
# follow each other from visit to visit: both divergences are about one
# and a half times their floor. A next-visit model learns less from this
# cohort than from as many real patients. By distance the cohort is only a
# little above its floor, and another seed may find it at the floor. But
# exact copies are more frequent than chance has them, and the model's
# likelihood tells members from others: whoever has the model knows more
# than whoever has its patients. The model remembers whom it learned from,
# and that is the first finding you would not like to read.
#
# ### Strangers to their own past
#
# The second finding is in the lines of *carry-over*. It is the share of a
# visit's codes that stood in the visit before, and diabetes does not go
# away.

# %% tags=["nbval-ignore-output"]
for things in ("codes", "chronic categories"):
    m = report.measures[f"carry-over of {things}"]
    print(f"{things} that stood in the visit before: real", end=" ")
    print(f"{m.floor:.0%}, synthetic {m.value:.0%}")
    assert real or m.value < 0.7 * m.floor

# %% [markdown]
# Each visit looks right, and its patient is a stranger to the visit
# before. The share of visits with a code does not show that: it would be
# the same if all visits were dealt out to the patients anew. Carry-over
# looks at one patient at a time.
#
# ### Does your model beat a table?
#
# A value close to that of real patients is good news about a model only
# if nothing simpler reaches it. Here are two tables that write patients
# without learning a single weight:
#
# - **independent codes**: count the codes of each sex and age bracket, how
#   many of them a visit has, and how many visits there are. Draw from
#   these counts, each code by itself.
# - **a Markov chain**: count which code, or which end of a visit, follows
#   which code. Start at the beginning of a record, and draw what follows,
#   again and again. What came before the last code is forgotten.
#
# `ehr_course/generation/baselines.py` has both of them; neither takes a
# second to count. On which of these numbers will they come as close to
# real patients as your model: how frequent the codes are, how many codes
# are carried over from the visit before, and how many are impossible?

# %% tags=["nbval-ignore-output"]
part = min(half, n // 3)
wanted = wanted_like(learned_from, 3 * part, seed=SEED)
writers = {
    name: table(learned_from).write(wanted, seed=SEED)
    for name, table in (
        ("independent codes", IndependentCodes),
        ("Markov chain", MarkovChain),
    )
}
writers = {"your model": cohort[: 3 * part]} | writers


def carry_over(records):
    (table,) = code_tables(records)
    again, codes = carried_over(table)
    return again.sum() / max(codes.sum(), 1)


def distance(records):  # as many real patients as there are written ones
    return divergence(records, learned_from[:part])


def three_parts(measure):
    """Of three parts of each cohort: no two share a patient."""
    starts = range(0, 3 * part, part)
    return {
        name: [measure(records[i : i + part]) for i in starts]
        for name, records in writers.items()
    }


far, carried, cannot = map(
    three_parts, (distance, carry_over, impossible_share_of)
)
floor_of_part = fmean(floor(part, SEED + i) for i in range(3))

# %% tags=["nbval-ignore-output"]
draw_generators(
    [
        Panel("JS divergence, bits", far, real=floor_of_part),
        Panel(
            "codes carried over",
            carried,
            real=carry_over(learned_from),
            percent=True,
        ),
        Panel(
            "impossible codes",
            cannot,
            real=impossible_share_of(learned_from),
            percent=True,
        ),
    ],
    title="Tables get the codes right and forget the patient",
    a_dot="each third of a cohort",
)

# %% [markdown]
# The codes of both tables are as frequent as those of real patients. They
# lie below the floor, even, for they were counted in the very patients that
# they are compared with. So a small divergence is no praise for a model:
# counting is enough to reach it. What a table cannot do is remember. The
# chain does not know whom it writes about, and has men give birth; neither
# table knows what the patient had at the visit before.
#
# Whoever wants to learn from them pays for that. Here is how well the next
# visit of real patients is predicted by a model that learned from each
# cohort (average precision; the first number is the report's).

# %% tags=["nbval-ignore-output"]
if not real:
    score = "next visit average precision"
    yours, *tables = writers
    predicted = {yours: report.measures[score]} | {
        table: utility(
            learned_from, writers[table], held_out, seed=SEED
        )[score]
        for table in tables
    }
    for name, m in predicted.items():
        print(f"{m.value:.2f} {name}; real patients: {m.floor:.2f}")
    for table in tables:
        assert max(far[table]) < 1.2 * floor_of_part
        assert min(carried[yours]) > max(carried[table])
        assert max(cannot[yours]) < min(cannot[table])
        assert predicted[yours].value > 1.3 * predicted[table].value

# %% [markdown]
# Your model is ahead of both tables wherever a patient has to be
# remembered. Put such a table beside every model that you judge, and keep
# the measures that it fails. The page "Compared" of the book does the same
# with the generators of other projects.
#
# ### Too few visits
#
# The third finding is quieter. Let the course's own model write a cohort
# of the embedded hospital, and count the visits.

# %% tags=["nbval-ignore-output"]
hospital = split_by_patient(make_cohort(5_000, seed=0), seed=0)
taught = hospital.train
tiny = load_checkpoint("tiny_prompt_bart")


def written_by(loaded, n=3_000):
    return generate_patients(
        loaded.model,
        loaded.tokenizer,
        wanted_like(taught, n, seed=SEED),
        seed=SEED,
        batch_size=512,
    )


def visits_of(records):
    return fmean(len(record.visits) for record in records)


by_tiny = written_by(tiny)
print(f"{visits_of(taught):.2f} visits a patient: real")
print(f"{visits_of(by_tiny):.2f} visits a patient: synthetic")
assert visits_of(by_tiny) < visits_of(taught) - 0.25

# %% [markdown]
# A fifth of the visits is missing. Is the model too small to learn how
# many there are? Look at what it was asked to learn. Its training put
# records of similar length into a batch, and took the mean over the tokens
# of each batch. Count how much each patient weighs then, as in
# [lesson 15](15_training_loop.ipynb), and take the weighted mean of their
# visits.

# %%
visits = np.array([len(record.visits) for record in taught])
lengths = np.array([len(tiny.tokenizer.encode(r)) for r in taught])


def visits_as_weighted(**batches):
    weights = np.zeros(len(visits))
    for key in BatchPlan(lengths, 32, seed=SEED, **batches):
        rows = list(key.indices)
        weights[rows] = 1 / lengths[rows].sum()
    return np.average(visits, weights=weights)


# %% tags=["nbval-ignore-output"]
grouped = {"group_by_length": True}
weighted = {
    "in batches by length": visits_as_weighted(**grouped),
    "in mixed batches": visits_as_weighted(),
    "by length, equal tokens": visits_as_weighted(
        **grouped, equal_tokens=True
    ),
}
for name, mean in weighted.items():
    print(f"{mean:.2f} visits a patient: real, weighted {name}")
by_length, *others = weighted.values()
assert abs(visits_of(by_tiny) - by_length) < 0.08
assert all(abs(mean - visits.mean()) < 0.05 for mean in others)

# %% [markdown]
# The model writes as many visits as it was asked to. A batch of short
# records has few tokens, so each of them weighs much; a batch of long
# records has many. Every batch is right by itself, and the batches are not
# the cohort. Mixed batches have almost none of it, and cost padding. The
# last line has neither fault: records of similar length share a batch, and
# the batches are cut so that each has about as many tokens. No loss curve
# shows this, and no patient looks wrong. A count beside its floor does.
#
# ### A model that knows the patient's past
#
# Here is another model at work. It is about to write the last visit of a
# patient whom it has not learned from, code by code: the rows. The columns
# are the codes of the visits before. What do the framed cells have in
# common, and what do the bars say?

# %% tags=["nbval-ignore-output"]
better = load_checkpoint("prompt_bart_with_history")


def tells_much(record):
    *before, last = record.visits
    known = {code for visit in before for code in visit.codes}
    n_before = sum(len(visit.codes) for visit in before)
    again = len(known & set(last.codes))
    return len(before) == 2 and n_before < 18 and again >= 4


patient = next(filter(tells_much, hospital.test))
copied = copied_visit(better.model, better.tokenizer, patient)
draw_copying(copied)

# %% [markdown]
# It is the pointer of [lesson 16](16_pointer_generator.ipynb). There the
# decoder pointed to the words of a note; here it points to the codes of
# the patient's own earlier visits, and `p_gen` mixes what is copied with
# what the vocabulary says, by the same formula. Diabetes need not be learned
# again for each code that comes back: a place is pointed to, whatever
# stands there. `CopyHead` in `ehr_course/models/copy_head.py` has three
# peculiarities. Codes of the present visit are out of reach, since no visit
# has a code twice. A place is known by two states: the one that was about
# to write its code, and the one that had just read it. And where there is
# no earlier visit, `p_gen` is 1.
#
# This model also reads the number of each visit as an embedding, knows the
# age by waves ([lesson 12](12_conditional_prompt.ipynb)), which tell a
# newborn from a child of one, and was trained on batches of equal tokens.
# What does all this change?

# %% tags=["nbval-ignore-output"]
by_better = written_by(better)
three = {"real": taught, "before": by_tiny, "with history": by_better}
print("                 carried over   visits   impossible")
for name, records in three.items():
    print(f"{name:16} {carry_over(records):12.1%}", end="")
    print(f"{visits_of(records):9.2f}", end="")
    print(f"{impossible_share_of(records):13.2%}")
wanted_share = carry_over(taught)
assert carry_over(by_tiny) < 0.5 * wanted_share
assert carry_over(by_better) > 0.8 * wanted_share
assert abs(visits_of(by_better) - visits_of(taught)) < 0.12
is_new = ~np.isin(copied.codes, copied.earlier)
assert copied.copied[~is_new].mean() > copied.copied[is_new].mean()

# %% [markdown]
# All three faults were found by measures, and each measure names what to
# mend. None of it was to be seen in the loss, nor in three patients. The
# impossible codes are still there: what a model may not write at all is a
# rule, and rules are better written down than learned.
# `ehr-course generate --eligible-only` writes them down, and says how many
# it has kept out.
#
# ### What it must not be used for
#
# Some limits hold of every synthetic cohort. Others follow from the
# verdicts. The report begins with what matters most: does the cohort copy
# the patients that the model learned from, and can they be told?

# %% tags=["nbval-ignore-output"]
for headline in report.headlines:
    print("first:", headline)
for limit in report.limits:
    print("-", limit)
for warning in report.warnings:
    print("warning:", warning)
assert len(report.limits) > 3 and "No patient in it exists" in str(
    report.limits
)

# %% [markdown]
# An attack that was not made may find what these did not. A floor that is
# reached says that this measure sees no difference. Neither says that
# there is none.
#
# ## See it
#
# The cohorts of this lesson beside the real one. Choose "all three": which
# codes have left the line in the first panel? Then choose one chapter
# after the other. And where do all the settings agree, and are wrong?

# %% tags=["widget", "nbval-ignore-output"]
cohort_dashboard(learned_from, drawn)

# %% [markdown]
# ## Recap
#
# - **Top-k and top-p** keep the most probable codes, after the temperature
#   and in this order. They move the cohort away from the real one, since
#   rare codes become rarer.
# - **The Jensen-Shannon distance** is the root of the divergence, and both
#   depend on the base. Its floor is what two samples of real patients of
#   the same sizes give.
# - **Impossible codes** are counted by code, by visit and by patient: three
#   numbers that differ several times over.
# - **Perplexity without a leak** lets the encoder read the visits before
#   and nothing of what is scored. Per code it is a mean over codes, per
#   visit over whole visits with their end.
# - **A cohort gives away real patients** if synthetic ones lie nearer to
#   members than to others. Try an attack on copies and on other real
#   patients before you believe it.
# - **A report** holds each measure's interval against its floor. Too few
#   patients, or no measure, is no permission. Put a table that only counts
#   beside your model, and mend what is found: a copy head lets it point to
#   codes of the patient's earlier visits.
#
# ## Test yourself
#
# 1. A colleague reports a JS divergence of 0.02 bits between 200 synthetic
#    and 200 real patients, and a floor of 0.012, from two halves of 4,000
#    real ones. Is the cohort worse than its floor?
#
# <details><summary>Answer</summary>
# Nobody can tell: the floor belongs to 2,000 against 2,000. For 200
# against 200 it is many times higher, and a value that is far below it is
# suspicious. Are the synthetic patients copies of those 200?
# </details>
#
# 2. A model has a perplexity of 1.02 per code on held-out patients. What
#    do you ask first?
#
# <details><summary>Answer</summary>
# What the encoder read. If it was the clean record, the number says that
# the model can copy.
# </details>
#
# 3. The adversarial accuracy is 0.93 and the AUROC of membership 0.50. Is
#    the cohort safe, and is it good?
#
# <details><summary>Answer</summary>
# This attack does not find members. But nearly every synthetic patient is
# nearest to other synthetic ones, and every real one to real ones: the two
# cohorts lie apart. Bad patients give nobody away.
# </details>
#
# ## What comes next
#
# This was the last lesson. `ehr-course generate` and `ehr-course evaluate`
# do what you did here on the command line, for your own cohort. Change one
# thing, and write the next report.
