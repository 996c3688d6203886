# %% [markdown]
# # 20 · Your own study
#
# 160 minutes · Prerequisites: 19
#
# You will be able to:
#
# - Turn a question into a measure, a direction and a baseline before you
#   look.
# - Split the patients into those that train, those that choose and those
#   that judge.
# - Tell a difference from the luck of a seed.
# - Write a finding that follows from its numbers, with its limits.

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
# ## Which one would you publish?
#
# On the way from the ward to the archive, a code gets lost. Which one was
# it? A small network reads the codes that are left in a patient's record, not
# age or sex, and suggests ten.

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %% tags=["hide-input"]
# set-up: what this lesson uses
from collections import Counter
from math import comb
from statistics import fmean
from textwrap import fill, shorten

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ehr_course import (
    EMPTY_RECORD, SEXES, AgeSexTable, CodeNetwork, CodeTokenizer,
    Corruption, IndependentCodes, PairTable, PromptBart, PromptBartConfig,
    RecordDataset, choose_patients, generate_patients, imagined_studies,
    load_checkpoint, lose_one, make_cohort, real_data, sample_profiles,
    share_found, split_by_patient, train as train_model, what_is_shown,
    which_found,
)
from ehr_course.exercises import (
    check, examine, hint, mine, parts, progress,
)
from ehr_course.plots import (
    blank_chart, code_in_words, draw_bars, draw_dots, draw_flow, who,
)
from ehr_course.widgets import chance_explorer

torch.set_num_threads(1)  # the matrices are small: more threads only wait
real = real_data() is not None
sizes = {"tiny": 1_000, "small": 5_000, "full": 20_000}
tiny = not real and PROFILE == "tiny"

# %%
cohort = choose_patients(sizes[PROFILE], seed=SEED)
train, validation, test = split_by_patient(
    cohort, fractions=(0.7, 0.1, 0.2), seed=SEED
)
to_choose = lose_one(validation, seed=SEED)  # hides a code of each
print(f"{len(cohort):,} patients, {len(train):,} to learn from")

# %% tags=["hide-input"]
# train the network with five seeds; find a case that it solves
trained = {seed: CodeNetwork(train, seed=seed) for seed in range(5)}
luck = {s: share_found(net, to_choose) for s, net in trained.items()}
best, worst = max(luck, key=luck.get), min(luck, key=luck.get)


def suggestions(network, case):
    order = network.scores([case])[0].argsort(descending=True).tolist()
    codes = [network.codes[place] for place in order]
    return [code for code in codes if code not in case.others][:10]


solved = [
    case
    for case in to_choose
    if 4 <= len(case.others) <= 8
    and case.lost in suggestions(trained[best], case)[2:]
]
example = (solved or to_choose)[0]

# %% tags=["nbval-ignore-output"]
print(f"{who(example)}; one of these codes is lost:")
for code in example.others:
    print(f"   {code_in_words(code, example.system)}")

# %% tags=["hide-input"]
# set-up: the ten suggestions in words, and how likely each is
logits = trained[best].scores([example])[0].softmax(dim=0).tolist()
chances = dict(zip(trained[best].codes, logits))
named = {
    c: shorten(code_in_words(c, example.system), 38, placeholder=" …")
    for c in suggestions(trained[best], example)
}

# %% tags=["nbval-ignore-output"]
places = {code: place for place, code in enumerate(named, start=1)}
note = f"place {places.get(example.lost)} of 10: the lost code"
picture = draw_bars(
    {words: chances[code] for code, words in named.items()},
    f"{who(example)}: which code was lost? Ten suggestions",
    f"{len(example.others)} codes are left. The probability that the"
    " network gives to each other code; green: the lost one.",
    form="{:.1%}",
    notes={named[code]: note for code in named if code == example.lost},
)
for code, bar in zip(named, picture.axes[0].patches):
    if code == example.lost:
        bar.set_facecolor("#7ad151")
picture

# %% [markdown]
# (This case was picked because it works. About two in three do not.)
#
# Here are two such networks. Both learned from the same patients, and both
# were asked about the same 100 others. For what share of those was the lost code
# among the ten?

# %% tags=["hide-input", "nbval-ignore-output"]
# the share of lost codes that two networks find
print(f"network A: {luck[best]:.0%}")
print(f"network B: {luck[worst]:.0%}")

# %% [markdown]
# You would publish A and forget B. But A and B come from the same lines of
# code. Only the seed differs, which decides the first weights and the codes that
# are hidden during training. Here are all five seeds that were tried:

# %% tags=["nbval-ignore-output"]
draw_dots(
    {f"seed {seed}": [share] for seed, share in luck.items()},
    "How far apart are five runs of one recipe?",
    "The share of lost codes found, of 100 validation patients",
    form="{:.0%}",
    notes={
        f"seed {best}": f"{luck[best]:.0%}, network A",
        f"seed {worst}": f"{luck[worst]:.0%}, network B",
    },
)

# %% tags=["hide-input"]
# check: how far apart the best and the worst seed lie
assert not tiny or luck[best] > 1.02 * luck[worst]

# %% [markdown]
# Would A win again? Ask both about 40 other groups of 100 patients.

# %% tags=["hide-input", "nbval-ignore-output"]
# networks A and B on other groups of patients; all networks on all of them
if not real:
    many = lose_one(make_cohort(4_000, seed=SEED + 100), seed=SEED)
    ahead = which_found(trained[best], many)
    ahead = ahead - which_found(trained[worst], many)  # (4000,)
    of_groups = ahead.view(40, 100).mean(dim=1).tolist()
    lead = luck[best] - luck[worst]
    of_many = [share_found(network, many) for network in trained.values()]
    low, high = min(of_many), max(of_many)
    print(f"all five seeds, all 4,000 patients: {low:.1%} to {high:.1%}")
    a_wins = sum(group > 0.001 for group in of_groups)
    b_wins = sum(group < -0.001 for group in of_groups)
    as_far = sum(group > lead - 0.001 for group in of_groups)
    print(f"A is ahead in {a_wins} of 40 groups, B in {b_wins};", end=" ")
    print(f"A leads by {lead:.0%} or more in {as_far}")
    points = Counter(round(100 * group) for group in of_groups)
    who_leads = (
        f"A is ahead in {a_wins} of 40 groups, B in {b_wins}, and"
        f" {40 - a_wins - b_wins} have no difference; A's lead goes from"
        f" {min(points):+} to {max(points):+} points, and was"
        f" {100 * lead:+.0f} in the first group"
    )
if tiny:
    assert min(a_wins, b_wins) > 5 and high - low < 0.03
    assert SEED or (a_wins > b_wins and as_far < 6)

# %% tags=["nbval-ignore-output"]
picture = None
if not real:
    picture, axes = blank_chart(
        "Who is ahead in other groups of patients?",
        f"A dot each: {who_leads}.",
        f"A dot: a group of patients. A leads in {a_wins}, B in {b_wins}",
        height=2.4,
    )
    for x, n in points.items():
        colour = "#2d708e" if x > 0 else "#440154" if x < 0 else "white"
        axes.plot([x] * n, range(1, n + 1), "o", color=colour, mec="black")
    axes.axvline(0, color="black", zorder=0)
    first = {"color": "black", "linestyle": ":", "zorder": 0}
    axes.axvline(100 * lead, label="the first group", **first)
    top = max(points.values()) + 1
    axes.text(-0.3, top, "B ahead", ha="right")
    axes.text(0.3, top, "A ahead")
    axes.set(xlabel="A minus B, in points", yticks=[], ylim=(0, top))
    axes.legend(loc="upper left")
picture

# %% [markdown]
# A is ahead in more groups than B, but B is ahead in many, and A hardly ever leads by as
# much as at first. On all 4,000 patients together the five networks are nearly equal. So
# A is hardly better: it was lucky with the first 100. Other seeds or other patients can
# turn a result around. Try often enough, show only the best run, and you can report an
# improvement that you never made.
#
# How can you find out what is true? Follow one study from its question to its
# limits. Then do one of your own.
#
# ## What a study has to say
#
# A study answers seven questions. They are the fields of a form:

# %% tags=["hide-input"]
# the form, a plain dictionary that starts empty
study = {
    "question": {"text": "", "measure": "", "better": ""},
    "data": {"source": "", "train": [], "validation": [], "test": []},
    "model": {"name": "", "scores": []},
    "baseline": {"name": "", "scores": []},
    "seeds": [],
    "report": {"finding": "", "text": ""},
    "limits": [],
}

# %% tags=["hide-input"]
# set-up: the boxes of a drawing of the form
words = {
    "question": "1 question: text, measure, and which way is better",
    "validation": "2 data:\nvalidation",
    "train": "2 data:\ntrain",
    "test": "2 data:\ntest",
    "model": "3 model",
    "baseline": "4 baseline",
    "scores": "5 seeds:\na score\neach",
    "report": "6 report:\nbetter, worse\nor not shown",
    "limits": "7 limits: what data and measure do not see",
}
boxes = {
    "question": ((0, 3), 0, "prompt"),
    "validation": (0, 1, "quiet"),
    "train": (0, 2, "encoder"),
    "test": (0, 3, "trap"),
    "model": (1, 1, "paper"),
    "baseline": (1, 2, "paper"),
    "scores": (2, (1, 3), "decoder"),
    "report": (3, (1, 3), "special"),
    "limits": ((0, 3), 4, "quiet"),
}

# %%
draw_flow(
    boxes,
    [
        ("validation", "model", "chooses"),
        ("train", "model"),
        ("train", "baseline"),
        ("model", "scores"),
        ("baseline", "scores"),
        ("test", "scores", "once, at the end"),
        ("scores", "report"),
    ],
    "What feeds what in a study?",
    "Numbers: the order in which the fields are filled in.",
    words=words,
)

# %% [markdown]
# Model and [baseline](../course/book/glossary.md), which the model must beat, both
# learn from the training patients. The validation patients choose among settings.
# The test patients give the scores, once, and the finding is read off the scores.
#
# ## A study, field by field
#
# ### The question
#
# The network reads the other codes. Is that worth anything? You could
# guess from age and sex alone: births for the newborn, heart disease for
# the old. Before you see a score of the test patients, write down the
# question, the number that will answer it and the direction that counts as
# better. Afterwards it is too late: among ten numbers there is nearly always one
# that looks good.

# %%
study["question"] = {
    "text": "Does a network that reads the other codes find a lost code"
    " more often than a table of age and sex?",
    "measure": "share of lost codes among ten suggestions",
    "better": "higher",
}

# %% [markdown]
# ### The data
#
# The data come in three parts, split by patient as in lesson 08. Why three?
# Something has to decide how long to train. If the test patients decide,
# you have picked what suits *them*. So the validation patients choose, and each
# setting gets several seeds, so that a good setting wins and not a lucky seed.

# %%
study["data"] = {
    "source": "embedded hospital" if not real else "my hospital",
    "train": train,
    "validation": validation,
    "test": test,
}
runs = {60: list(trained.values())}  # 60 steps is what you saw above
for steps in (15, 180):
    runs[steps] = [
        CodeNetwork(train, seed=seed, steps=steps) for seed in range(5)
    ]

# %% tags=["nbval-ignore-output"]
chosen_by = {
    steps: [share_found(network, to_choose) for network in runs[steps]]
    for steps in sorted(runs)
}
means = {steps: fmean(of_it) for steps, of_it in chosen_by.items()}
chosen = max(means, key=means.get)
draw_dots(
    {f"{steps} steps": of_it for steps, of_it in chosen_by.items()},
    "How many steps should the network train?",
    f"A dot for each seed, a line at the mean, which {chosen} steps have"
    " highest",
    across="share of lost codes found, of the validation patients",
    form="{:.1%}",
    mark="mean",
    notes={f"{n} steps": f"mean {of:.1%}" for n, of in means.items()},
)

# %% tags=["hide-input"]
# check: too few steps are worse with every seed
assert not tiny or max(chosen_by[15]) < max(means.values())

# %% [markdown]
# ### The model and the baseline
#
# Against a weak baseline, any model looks strong. Take the best simple thing you
# can think of, and give it the same patients. Here it is a table that counts which
# codes patients of the same age and sex have.

# %%
steps = max(chosen_by, key=lambda n: fmean(chosen_by[n]))
name = f"CodeNetwork, {steps} steps, {len(train)} patients"
study["model"]["name"] = name
study["baseline"]["name"] = "table of age and sex"
table = AgeSexTable(train)

# %% [markdown]
# ### The seeds
#
# All scores come from one loop: then no run can be left out by accident. Counting
# has no seed, so the table has a single score. Only now are the models scored on
# the test patients.

# %%
study["seeds"] = list(range(5))
to_judge = lose_one(test, seed=SEED)
study["model"]["scores"] = [
    share_found(network, to_judge) for network in runs[steps]
]
study["baseline"]["scores"] = [share_found(table, to_judge)]


# %% [markdown]
# ### The report
#
# What may you now say about the model? A finding has to survive both kinds
# of luck, that of the seed and that of the patients.
#
# **The rule** is about the seeds. If every score of the model lies above every
# score of the baseline, it says "better" (where higher is better). If all lie
# below, it says "worse". If they overlap, another seed might turn it around.
# (Lessons 13 and 18 used other
# rules. Which one suits when, you will see below.)
#
# **The interval** is about the patients. As in lesson 19, draw the 200 test
# patients again with replacement, 2,000 times. How far is the networks' mean
# ahead of the table's score in each drawn group? If zero lies among the middle
# 95% of these numbers, other patients might turn it around.
#
# The finding is "better" or "worse" only if rule and interval agree.
# Otherwise it is "not shown". The function `what_is_shown` applies both.

# %% tags=["hide-input"]
# how far the models are ahead, in groups of patients drawn again
def drawn_again(models, baselines, cases):
    """How far the models are ahead, with the patients drawn again."""
    found = [
        torch.stack([which_found(one, cases) for one in side]).mean(dim=0)
        for side in (models, baselines)
    ]  # for each side (cases,): the share of its seeds that find the code
    ahead = found[0] - found[1]
    torch.manual_seed(SEED)
    groups = torch.randint(len(cases), (2_000, len(cases)))
    means = ahead[groups].mean(dim=1)  # (2000,)
    low, high = means.quantile(torch.tensor([0.025, 0.975])).tolist()
    print(f"{100 * ahead.mean():+.1f} points on {len(cases):,} patients;")
    print(f"   95% of groups: {100 * low:+.1f} to {100 * high:+.1f}")
    return low, high


# %% tags=["nbval-ignore-output"]
scores, (base,) = study["model"]["scores"], study["baseline"]["scores"]
interval = drawn_again(runs[steps], [table], to_judge)
finding = what_is_shown(scores, [base], "higher", interval)
text = (
    f"The network found {min(scores):.1%} to {max(scores):.1%} of the lost"
    f" codes with {len(scores)} seeds, the table {base:.1%}."
)
study["report"] = {"finding": finding, "text": text, "interval": interval}
print(f"{finding}: {text}")

# %% [markdown]
# ### The limits
#
# If you do not name the limits, a reader will. At least two belong in the form:
# what the data do not contain, and what the measure does not see.

# %%
study["limits"] = [
    "The patients are invented and come from one hospital.",
    f"There are {len(train)} training and {len(test)} test patients.",
    "A suggestion of the same category counts as a miss.",
]

# %% [markdown]
# `examine` reads the form and answers field by field, as `check` will with yours.

# %% tags=["nbval-ignore-output"]
examine("20.1", study)


# %% tags=["hide-input"]
# set-up: a drawing of the scores of a study
def draw_comparison(form, *others, number="{:.1%}"):
    """Draw the scores of a study, and those of other baselines."""
    asked, baselines = form["question"], [form["baseline"], *others]
    rivals = [form["model"], *baselines]
    best = max if asked["better"] == "higher" else min
    ranges = {}
    for one in rivals:
        low, high = min(one["scores"]), max(one["scores"])
        ends = [number.format(end) for end in (low, high)]
        ranges[one["name"]] = " to ".join(ends) if low < high else ends[0]
    return draw_dots(
        {one["name"]: one["scores"] for one in rivals},
        f"Does the model beat this baseline: {baselines[-1]['name']}?",
        "A dot for each seed, a bar from the lowest to the highest;"
        " dashed: the best score of this baseline",
        across=f"{asked['measure']}, {asked['better']} is better",
        form=number,
        mark="range",
        notes=ranges,
        line=best(baselines[-1]["scores"]),
    )


# %% tags=["nbval-ignore-output"]
draw_comparison(study)

# %% tags=["hide-input"]
# check: every network beats the table, and the form is complete
assert real or finding == "better"
assert examine("20.1", study).outcome.is_solved

# %% [markdown]
# Every dot lies to the right of the table's, and the printed interval lies above zero.
# But the check remarks that equally good models would show such dots "in 33% of all
# studies, by chance alone": of six equally good scores, the single one is the
# lowest or the highest in 2 of 6 cases. So score both on patients who have not been
# used before, another 4,000. (With real data, keep such a group aside, or find
# another hospital.)

# %% tags=["nbval-ignore-output"]
if not real:
    newcomers = lose_one(make_cohort(4_000, seed=SEED + 200), seed=SEED)
    of_new = drawn_again(runs[steps], [table], newcomers)
    again = [share_found(network, newcomers) for network in runs[steps]]
    print(f"networks {min(again):.1%} to {max(again):.1%}", end=", ")
    print(f"table {share_found(table, newcomers):.1%}")

# %% [markdown]
# The finding holds: rule and interval agree once more.

# %% [markdown] tags=["break"]
# ## Time for a break
#
# **So far**
#
# - A study has seven fields: question, data, model, baseline, seeds, report
#   and limits.
# - On few patients, two networks that differ only in their seed can look like a
#   finding.
# - A finding needs scores that lie apart and an interval without zero.
#
# The second half asks how many seeds a study needs and what a check of the
# form can find. Then comes a study of your own. To come back, select the next
# cell and choose *Run > Run All Above Selected Cell* (20 seconds).

# %% [markdown]
# ## How many seeds are enough?
#
# Suppose that two models are equally good. By chance, all scores of one may
# still lie above all of the other. The widget imagines 2,000 studies of two such
# models with three seeds each, and colours those that report a difference by the
# rule.
#
# Move *seeds* to 5: the false findings nearly vanish. Then move *true
# difference* to 1. Now the model really is better, by one standard deviation of its
# runs over seeds, and yet only 8% of the studies say so.

# %% tags=["widget", "nbval-ignore-output"]
chance_explorer(seeds=3, seed=SEED)

# %% [markdown]
# For equal models you can count. With *n* seeds each, there are $\binom{2n}{n}$
# ways to divide the 2*n* scores between the two models, all equally likely. In
# only 2 of these ways do the scores lie apart.

# %%
for n in (3, 4, 5):
    by_luck = comb(2 * n, n) // 2
    studies = imagined_studies(n, difference=1, seed=SEED)
    said = [what_is_shown(*one, "higher") for one in studies]
    missed = said.count("not shown") / len(said)
    print(f"{n} seeds: equal models lie apart in 1 of {by_luck},", end=" ")
    print(f"a true difference of 1 is missed in {missed:.0%}")

# %% tags=["hide-input"]
# check: few seeds invent, and studies with this rule miss a lot
assert missed > 0.85 and comb(8, 4) // 2 == 35 and comb(6, 3) // 2 == 10
if SEED == 0:
    assert round(said.count("better") / len(said), 2) == 0.08  # of n = 5

# %% [markdown]
# So for your own study, take four seeds or five for each model: with four, one study
# in 35 raises a false alarm, a fair habit for small models. The rule is for few seeds
# only: each further score is one more chance to overlap. And it misses most small
# differences, so report an interval beside it. "Not shown" never means "equal", and
# against a single score the rule alone proves little, as you have seen.
#
# With other data, other comparisons are better:
#
# | you have | compare |
# |---|---|
# | three to five seeds each | all scores: do they lie apart? |
# | ten seeds each, or more | the means, with an interval over the seeds |
# | the same seeds and patients for both | pair by pair, as in lesson 18 |
#
# With three seeds, lesson 13's rule (the means lie farther apart than both standard
# deviations together) is about as strict: it raises a false alarm in 8% of studies, and
# this one in 10%.

# %% [markdown]
# ### Going further: do more seeds shorten the interval?
#
# They average out the luck of the seeds, and not that of the patients.

# %% tags=["nbval-ignore-output"]
more = [CodeNetwork(train, seed=s, steps=steps) for s in range(5, 10)]
ten = runs[steps] + more
of_ten = drawn_again(ten, [table], to_judge)

# %% tags=["hide-input"]
# check: zero lies below all intervals, and ten seeds hardly shorten them
assert not tiny or min(interval[0], of_new[0], of_ten[0]) > 0
widths = [high - low for low, high in (interval, of_ten)]
assert not tiny or widths[1] > 0.85 * widths[0]


# %% [markdown]
# Twice the seeds, nearly the same interval: the patients are what is scarce.

# %% [markdown]
# ### Going further: does the check see a run that was left out?
#
# Only the best run is shown, as A was.

# %% tags=["hide-input"]
# print what the check objects to
def objections(form):
    for field, said in examine("20.1", form).details:
        if said.startswith("✘"):
            print(fill(f"{field}: {said}", 74, subsequent_indent="   "))


# %% tags=["nbval-ignore-output"]
lucky = study["model"] | {"scores": [max(scores)]}
objections(study | {"model": lucky})
print()
objections(study | {"model": lucky, "seeds": [scores.index(max(scores))]})

# %% [markdown]
# ## Is that the best simple thing?
#
# A colleague asks for a stronger baseline: count which codes occur together in one
# record, and suggest the companions of the codes that are left. Which one wins?
# Guess before you look. Put this table into the form as the baseline, with its
# score on the same test patients (their second use, which a report has to admit),
# and leave the finding as it is, "better". `objections`, a function from a hidden cell,
# prints each line of the form to which the check objects:

# %% tags=["nbval-ignore-output"]
pairs = PairTable(train)
stronger = {
    "name": "table of pairs of codes",
    "scores": [share_found(pairs, to_judge)],
}
of_pairs = drawn_again(runs[steps], [pairs], to_judge)
report = study["report"] | {"interval": of_pairs}
objections(study | {"baseline": stronger, "report": report})

# %% tags=["nbval-ignore-output"]
draw_comparison(study, stronger)

# %% [markdown]
# Neither rule nor interval lets you say "better". Is the network as good, then?
# Test both on yet another 4,000 patients:

# %% tags=["hide-input", "nbval-ignore-output"]
# scores of many new patients; the intervals against both tables
against = {
    f"table of age and sex, {len(test)} patients": interval,
    f"table of pairs, {len(test)} patients": of_pairs,
}
if not real:
    others = lose_one(make_cohort(4_000, seed=SEED + 300), seed=SEED)
    theirs = [share_found(network, others) for network in runs[steps]]
    of_table = share_found(pairs, others)
    print(f"networks {min(theirs):.1%} to {max(theirs):.1%},", end=" ")
    print(f"table of pairs {of_table:.1%}")
    of_others = drawn_again(runs[steps], [pairs], others)
    against["table of pairs, 4,000 patients"] = of_others

# %% tags=["nbval-ignore-output"]
points = {
    name: [100 * end for end in ends] for name, ends in against.items()
}
unsure = [name for name, (low, high) in points.items() if low < 0 < high]
draw_dots(
    points,
    "Which of these differences from a table are clear of zero?",
    "Networks minus table, in points: 95% of the groups drawn again."
    " Dashed: zero. Diamonds: it lies inside.",
    form="{:+.1f}",
    mark="range",
    notes={
        name: f"{low:+.1f} to {high:+.1f}"
        for name, (low, high) in points.items()
    },
    warn=unsure,
    line=0,
)

# %% tags=["hide-input"]
# check: nobody may say that it beats the table of pairs; ask again
if tiny and SEED == 0:
    assert of_pairs[0] < 0 < of_pairs[1] and of_others[1] < 0
    said = what_is_shown(theirs, [of_table], "higher", of_others)
    assert said == "worse"
leaky = study["data"] | {"test": [*test, train[0]]}
shown = what_is_shown(scores, stronger["scores"], "higher", of_pairs)
assert not tiny or shown != "better"
assert not examine("20.1", study | {"data": leaky}).outcome.is_solved
assert not examine("20.1", study | {"model": lucky}).outcome.is_solved

# %% [markdown]
# ## What no check can see
#
# The last picture should worry you. The form was complete, and each of its
# sentences was true: the network does beat a table of age and sex. But it does not
# beat a table that only counts pairs. 200 patients were too few to tell, and on
# 4,000 new ones rule and interval both say "worse". So "not shown" was not "equal".
# A form does not show which baseline you did *not* try. There is more that no
# check can see:
#
# - **A question written after the scores.** Send yours to a colleague before
#   you look.
# - **Seeds that were run but not reported.** Let one loop run all seeds and log
#   each score.
# - **Test patients used more than once.** Count the times.
# - **A measure that does not answer the question.** Look at some cases that
#   the model gets right, and at some that it gets wrong.
#
# ## Your data, your question
#
# If `EHR_COURSE_DATA` names a folder of MIMIC-III tables, `choose_patients`
# reads those. For MIMIC-IV, MEDS and other formats, and for longer trainings,
# use the command line: see [Your own data](../course/book/your_own_data.md).
#
# ### A start: your own model
#
# What you have solved is one file. `python3 -m course mine > my_model.py` writes it:
# attention, layers, `TinyBart`, prompts and loop, with an example that trains them. These
# are its parts:

# %% tags=["nbval-ignore-output"]
parts()

# %% tags=["nbval-ignore-output"]
TinyBart, OwnPrompt = mine("11.7"), mine("12.6", "MyPrompt")
train_own = mine("15.8")


class PatientModel(nn.Module):
    def __init__(self, n_tokens, d_model=64):
        super().__init__()
        self.bart = TinyBart(n_tokens, d_model, 4, 2 * d_model, 1, 256)
        self.encoder_prompt = OwnPrompt([2], d_model)
        self.decoder_prompt = OwnPrompt([2], d_model)
        for weight in self.parameters():
            if weight.ndim > 1:
                nn.init.normal_(weight, std=0.08)

    def forward(self, input_ids, attention_mask, decoder_input_ids, **who):
        read = self.encoder_prompt(**who)
        written = self.decoder_prompt(**who)
        return self.bart(
            input_ids, attention_mask, decoder_input_ids, read, written
        )


# %%
own_tokenizer = CodeTokenizer.from_records(train)
own_data = RecordDataset(
    train, own_tokenizer, corruption=Corruption(p_empty=0.5), seed=SEED,
    max_tokens=250, too_long="cut",
)  # fmt: skip


def loss_sum(model, batch):
    rows = {name: batch[name] for name in batch if name != "labels"}
    return cross_entropy(
        model(**rows).mT, batch["labels"], reduction="sum"
    )


torch.manual_seed(SEED)
own = PatientModel(len(own_tokenizer))
order = torch.randperm(len(own_data)).split(16)
batches = [[own_data.batch(some.tolist())] for some in order]
losses = train_own(own, batches, 80, loss_sum, lr=4e-3)
last = sum(losses[-10:]) / 10
print(f"from {losses[0]:.1f} to {last:.1f} nats per token")


# %% [markdown]
# And it writes. Each code is drawn from what the model expects next:

# %%
@torch.no_grad()
def write_one(age, sex, seed):
    generator = torch.Generator().manual_seed(seed)
    empty = torch.tensor([EMPTY_RECORD])
    who = {"x_num": torch.tensor([[float(age)]])}
    who["x_cat"] = torch.tensor([[SEXES.index(sex)]])
    written = [own_tokenizer.eos_id]
    while len(written) < 30:
        ids = torch.tensor([written])
        logits = own(empty, torch.ones_like(empty), ids, **who)[0, -1]
        chance = logits.softmax(-1)
        token = torch.multinomial(chance, 1, generator=generator).item()
        written.append(token)
        if token == own_tokenizer.eos_id:
            break
    return own_tokenizer.decode(written)


# %% tags=["nbval-ignore-output"]
for visit in write_one(70, "F", seed=SEED):
    for code in visit:
        print(code_in_words(code, example.system))

# %% tags=["hide-input"]
# check: the learner's loop trains the learner's model
assert real or last < losses[0] - 1.5

# %% [markdown]
# After 80 steps it has hardly begun. A study of your own can begin here: train it for
# longer, change a part, and ask what the change is worth.
#
# ### Another start: what is a written patient worth?
#
# The course's model, which lessons 00, 11, 12, 14 and 19 load, writes patients. Can
# they teach? A network learns to find lost codes from 700 patients whom that model
# wrote. The baseline is the same network, taught by 700 patients of lesson 19's
# *independent codes*. Which one wins? (`ours` holds 4,000 patients in `train`, from
# which the model learned, and 500 each in `validation` and `test`.)

# %% tags=["hide-input"]
# load the course's model; on tables of your own, train a small one first
hospital = choose_patients(5_000, seed=0)  # as the model saw it
ours = split_by_patient(hospital, seed=0)
if real:
    tokenizer = CodeTokenizer.from_records(ours.train)
    config = PromptBartConfig.for_tokenizer(tokenizer, "narrow")
    torch.manual_seed(SEED)
    model = PromptBart(config)
    data = RecordDataset(
        ours.train, tokenizer, corruption=Corruption(p_empty=0.5),
        seed=SEED, max_tokens=254, too_long="cut",
    )  # fmt: skip
    train_model(model, data, steps=150, lr=6e-3, seed=SEED, progress=False)
    model.eval()
else:
    loaded = load_checkpoint("tiny_prompt_bart")
    model, tokenizer = loaded.model, loaded.tokenizer

# %%
by_model, by_codes = [], []
independent = IndependentCodes(ours.train)
for seed in range(4):
    wanted = sample_profiles(ours.train, 700, seed=seed)  # ages and sexes
    written = generate_patients(model, tokenizer, wanted, seed=seed)
    by_model.append(CodeNetwork(written, seed=seed))
    drawn = independent.write(wanted, seed=seed)
    by_codes.append(CodeNetwork(drawn, seed=seed))

# %% tags=["nbval-ignore-output"]
cases = lose_one(ours.validation, seed=SEED)  # later: ours.test
my_scores = [share_found(network, cases) for network in by_model]
to_beat = [share_found(network, cases) for network in by_codes]
ends = drawn_again(by_model, by_codes, cases)
found = what_is_shown(my_scores, to_beat, "higher", ends)
print("finding:", found)
question = "Do the model's patients teach more than independent codes?"
first_try = {
    "question": study["question"] | {"text": question},
    "model": {"name": "model's patients", "scores": my_scores},
    "baseline": {"name": "independent codes", "scores": to_beat},
    "report": {"finding": found, "interval": ends},
}
draw_comparison(first_try)

# %% tags=["hide-input"]
# check: the model's patients teach more than independent codes
assert not tiny or found == "better"

# %% [markdown]
# The model has kept which codes go together. (Independent codes are a weak rival:
# below you can take a stronger one.) This was a rehearsal on the validation
# patients; the test patients wait for your study. (Write `ours.train` into its
# field `train`: the model learned from these patients.)
#
# If you have no question yet, take one of these. Each runs in a few minutes.
#
# - **Written or real?** Put 700 real patients of `ours.train`, a different 700 for
#   each seed, in the place of the independent codes. Does the finding stay?
# - **More patients.** Does the network overtake the table of pairs when both
#   learn from more? Train both on `ours.train`. The validation patients choose
#   among 60, 120 and 180 steps.
# - **Both together.** Do network and table of pairs find more than the table alone?
#   `share_found` takes any object that has the list `codes` and a method
#   `scores(cases)`, which returns a tensor (cases, codes). Network and table list
#   the codes in the same order, so this one adds up their shares:
#
#   ```python
#   class Both:
#       def __init__(self, network, table):
#           self.network, self.table = network, table
#           self.codes = table.codes
#
#       def scores(self, cases):
#           by_network = self.network.scores(cases).softmax(dim=1)
#           by_table = self.table.scores(cases)
#           return by_network + by_table / by_table.sum(dim=1, keepdim=True)
#   ```

# %% [markdown]
# ### 20.1 Your own study
#
# Try It Yourself · ★★★ · 120 minutes
#
# Answer a question of your own, on the embedded hospital or on your data, and
# fill in the form. `check` answers field by field. It judges whether the study can
# be believed: "not shown" is as good as "better".
#
# A plan: 20 minutes for the question and its measure; 25 for the data and the
# baseline; 45 for the model, with four seeds or more; 10 to score both on the test
# patients, once; 20 for report and limits. `draw_comparison(study_of_mine)` draws
# the result, and `hint("20.1")` helps.

# %% tags=["exercise:20.1", "nbval-ignore-output"]
study_of_mine = {
    "question": {
        "text": "",  # one whole question?
        "measure": "",  # the number that answers it
        "better": "",  # "lower" or "higher"
    },
    # Patients or their ids, nobody in two parts. Fifty in test are few.
    "data": {"source": "", "train": [], "validation": [], "test": []},
    # Scores on the test patients, one per seed, in the order of the seeds.
    "model": {"name": "", "scores": []},
    # One score is enough where nothing is random.
    "baseline": {"name": "", "scores": []},
    "seeds": [],  # three or more; four are better
    # "better", "worse" or "not shown"; then a text of ten words or more.
    # May be added: "interval": (low, high), as drawn_again returns it.
    "report": {"finding": "", "text": ""},
    "limits": [],  # two or more, each a whole sentence
}

check("20.1", study_of_mine)

# %% [markdown]
# ## Recap
#
# - **A question** comes first, with the measure that answers it, the
#   direction that is better, and the strongest simple baseline.
# - **Three parts** of patients: one trains, one chooses among settings, and
#   one judges, once.
# - **One run is luck,** that of its seed and that of its patients. Many
#   seeds average out the first; drawing patients again shows the second.
# - **A finding** is "better" or "worse" if rule and interval agree, and else
#   "not shown", which is not "equal". The limits say what neither data nor
#   measure can see.
#
# ## Test yourself
#
# 1. You try ten settings with one seed each, and take the best on the
#    validation patients. On the test patients it scores lower. Why was that
#    to be expected?
#
# <details><summary>Answer</summary>
# The best of ten runs is partly the luckiest of ten. Its luck was with the
# validation patients, and other patients do not share it.
# </details>
#
# 2. With three seeds each, all scores of your model lie above the
#    baseline's. How often does that happen if the two are equal, and what
#    do you do next?
#
# <details><summary>Answer</summary>
# In one study of 20: in 1 of 10 they lie apart, and in half of those yours is below.
# Run more seeds of both, on the same patients, and report all of them, even if the
# scores now overlap. Then score both on other patients.
# </details>
#
# 3. The scores overlap. A colleague writes: "the two models are equally
#    good". What is wrong with that?
#
# <details><summary>Answer</summary>
# The study may have been too small to show a difference.
# </details>
#
# ## What comes next
#
# There is no next lesson. You can read a hospital's tables, turn patients
# into tokens and batches, build a model from a blank file and train it, judge what it
# writes, and now put a question to it and report what you found.
#
# Real patients are where such questions count. MIMIC-III, MIMIC-IV and eICU
# are open to researchers who take the training course of PhysioNet on
# research with human subjects and sign its agreement; the MIMIC-III demo
# is open to everybody. Data of your own hospital need approval from
# its ethics committee.
#
# A finished study fits on one page: the question, the picture of the scores,
# the finding with its numbers, and the limits. Show it first to somebody who
# doubts it.
