# %% [markdown]
# # 00 · Start here
#
# 40 minutes · Prerequisites: none
#
# You will be able to:
#
# - Describe a patient as visits and a visit as ICD-9 codes.
# - Name the category and the chapter of a code.
# - Count the pieces into which a text tokenizer breaks a code.
# - Tell the five outcomes of a check apart.
# - Tell how few diagnoses are enough to single out a person.
# - Verify that this machine can run the lessons.

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
# ## Which of these patients did a model write?
#
# Below are the [diagnoses](../course/book/glossary.md#diagnosis) of four
# people. In each row, one list comes from the course's practice hospital, and
# a model wrote the other. Which are the model's? Look closely: one of the four
# gives itself away. (Three dots stand for a hidden cell, which prepares something or
# checks what the text says.)

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %% tags=["hide-input"]
# set-up
import os
import platform
import random
import sys
from collections import Counter
from importlib.metadata import version
from itertools import combinations
from textwrap import fill, shorten

import numpy as np
import psutil
import torch

from ehr_course import (
    NoteTokenizer, PatientProfile, generate_patients, icd9,
    load_checkpoint, make_cohort, solutions_folder,
)
from ehr_course.exercises import check, find_exercise, hint, progress
from ehr_course.plots import (
    blank_chart, draw_bars, draw_check, draw_code_paths, draw_course_map,
    draw_guess, draw_heat, draw_patient, draw_strips, returning_codes,
)
from ehr_course.widgets import record_explorer

# %% tags=["hide-input"]
# the hospital, the model, and pairs of records to guess at
n_patients = {"tiny": 300, "small": 5_000, "full": 46_520}[PROFILE]
patients = make_cohort(n_patients, seed=SEED)
hospital = make_cohort(10_000, seed=SEED + 1)
loaded = load_checkpoint("tiny_prompt_bart")
model, tokenizer = loaded.model, loaded.tokenizer


def fits_a_card(record):
    return len(record.visits) == 1 and 3 <= len(record.codes) <= 6


def written_for(person, seed):
    """The first record that fits a card, of 40 that the model writes."""
    wanted = [PatientProfile(person.age, person.sex)] * 40
    written = generate_patients(model, tokenizer, wanted, seed=seed)
    return next(filter(fits_a_card, written), written[0])


def new_round(number):
    """Two pairs of records, and which of them the model wrote."""
    rng = random.Random(number + 9)  # in round 1 one record cannot be
    # Rounds 1, 2 and 3 have different answers, and so have 4, 5, 6 and 7.
    places = [(0, 0), (0, 1), (1, 0), (1, 1)]
    sides = random.Random(number // 4).sample(places, 4)[number % 4]
    rows = []
    for side, sex, ages in zip(
        sides, "FM", (range(1, 11), range(70, 90)), strict=True
    ):
        person = rng.choice(
            [
                r
                for r in hospital
                if r.sex == sex and r.age in ages and fits_a_card(r)
            ]
        )
        row = [person]
        row.insert(side, written_for(person, seed=SEED + number + 9))
        rows.append(tuple(row))
    return rows, " and ".join(("AB"[sides[0]], "CD"[sides[1]]))


# %%
rows, answer = new_round(1)
draw_guess(rows)


# %% [markdown]
# <details><summary>Answer</summary>
# The model wrote A and D. A gives itself away: V30.01 records a birth, and this
# girl is 4. Nothing gives D away. For another round, change the number, and
# print <code>answer</code> when you have guessed. In round 2, look at the men.
# </details>
#
# The model was given nothing but what the yellow box says, its
# [prompt](../course/book/glossary.md): an age and a sex. Nobody gave it rules
# about which illnesses children or old men have. So ask it for 200 girls of 2
# and 200 men of 80, and compare them with people in the hospital of that sex
# and age, give or take a year.

# %%
def shares_for(age, sex, n=200):
    wanted = [PatientProfile(age, sex)] * n
    written = generate_patients(model, tokenizer, wanted, seed=SEED)
    alike = [r for r in hospital if r.sex == sex and abs(r.age - age) <= 1]
    return written, alike


asked = {(2, "F"): "girls of 2", (80, "M"): "men of 80"}
groups = {who: shares_for(*who) for who in asked}


# %%
def share(code, records):
    return sum(code in r.codes for r in records) / len(records)


frequent = {}  # by who was asked for, the shares of each code
for who, (written, alike) in groups.items():
    theirs = {code for record in written for code in record.codes}
    most = sorted(theirs, key=lambda c: (-share(c, written), c))[:5]
    frequent[asked[who]] = {
        fill(shorten(icd9.title(c), 56, placeholder=" …"), 30): (
            share(c, written), share(c, alike)
        )
        for c in most
    }  # fmt: skip

# %%
said = ". ".join(
    f"Asked for {who}: " + ", ".join(
        f"{' '.join(code.split())} {ours:.0%}, in the hospital {other:.0%}"
        for code, (ours, other) in shares.items()
    ) for who, shares in frequent.items()
)  # fmt: skip
sizes = zip(*(map(len, pair) for pair in groups.values()))  # by side
ours, other = (" and ".join(map(str, of)) for of in sizes)

# %%
picture, panels = blank_chart(
    "Asked for other people, does the model write other codes?",
    f"{said}.",
    "Its most frequent codes, and the share of patients who have them",
    columns=2, height=3.5, sharex=True,
)  # fmt: skip
places = np.arange(5)
for axes, (who, shares) in zip(panels, frequent.items()):
    for side, colour in enumerate(("#2d708e", "#dfe3e8")):
        of = [pair[side] for pair in shares.values()]
        bars = axes.barh(places + 0.4 * side, of, 0.4, color=colour)
        axes.bar_label(bars, [f"{x:.0%}" for x in of], padding=2)
    axes.set_yticks(places + 0.2, shares)
    axes.set(title=f"asked for {who}", xticks=[])
    axes.invert_yaxis()
names = [f"the model's patients ({ours})", f"the hospital's ({other})"]
place = "outside lower left"
picture.legend(panels[0].containers, names, loc=place, ncols=2)
picture

# %% [markdown]
# The two panels have no code in common. In most pairs the bars are within a few
# points; some are about ten apart, and lesson 19 asks when that matters. To change
# the sex alone, replace `"M"` with `"F"` in the line that begins with `groups`: the
# prostate drops out of the five most frequent.
#
# Yet the model slips, and writes patients such as the hospital does not have:

# %% tags=["hide-input"]
# how often the model slips; check: what the text says of the picture
usual = {
    who: groups.get(who) or shares_for(*who)
    for who in [(2, "F"), (80, "M")]
}
women = shares_for(80, "F")
most_frequent, gaps = [], []
for written, alike in usual.values():
    shares = {
        code: [
            sum(code in r.codes for r in records) / len(records)
            for records in (written, alike)
        ]
        for code in {code for record in written for code in record.codes}
    }
    top = sorted(shares, key=shares.get)[-5:]
    most_frequent.append(set(top))
    gaps += [abs(np.subtract(*shares[code])) for code in top]
assert not most_frequent[0] & most_frequent[1]
assert max(gaps) < 0.2
assert SEED or (np.median(gaps) < 0.05 and max(gaps) > 0.09)


def share_with(category, records):
    having = [
        any(icd9.category(code) == category for code in record.codes)
        for record in records
    ]
    return sum(having) / len(having)


slips = {
    "girls of 2 with a code for their own birth": (
        *("V30", 0.1),
        usual[(2, "F")],
    ),
    "women of 80 with an enlarged prostate": ("600", 0.06, women),
}
for who, (category, about, pair) in slips.items():
    model_share, hospital_share = (share_with(category, r) for r in pair)
    print(f"{who}: model {model_share:.1%}, hospital {hospital_share:.1%}")
    assert SEED or abs(model_share - about) < 0.02
    assert hospital_share == 0
assert share_with("600", usual[(80, "M")][0]) > 0.3
(girl, _), (_, man) = new_round(1)[0]
assert SEED or ("V3001" in girl.codes and girl.age == 4)
assert SEED or new_round(1)[1] == "A and D"
assert SEED or "6273" in new_round(2)[0][1][0].codes  # of a man

# %% [markdown]
# You are going to build this model from a blank file, part by part, and train it. What
# you solve is kept, and later lessons go on with the parts that are yours. It is a
# [language model](../course/book/glossary.md): it
# writes one [token](../course/book/glossary.md) after another, here a
# code, each drawn from probabilities that it learned.
#
# Why would anyone want invented patients? If you test hospital software, or want
# others to repeat a study, you need patients that you may pass on, and real ones may
# not be passed on.
#
# One more thing: nobody in this hospital exists either. To practise, you need one whose
# records you may see, so a program of the course, the [embedded
# hospital](../course/book/glossary.md), makes its patients. They are
# [synthetic](../course/book/glossary.md), generated rather than recorded, and it is they
# whom your model will imitate.
#
# Real records lie in databases such as [MIMIC-III](../course/book/glossary.md),
# which researchers may use after completing a training course and signing an
# agreement. Lesson 08 loads them, if you have access.
#
# ## What you will build

# %%
draw_course_map(file.stem for file in solutions_folder().glob("*.py"))


# %% [markdown]
# On the upper road, the model is a small
# [BART](../course/book/glossary.md): one half reads a record that
# has been damaged on purpose, and the other half restores the original. When
# nothing of the record is left, it has only the prompt to go on, and writes a
# record of its own.
#
# The lower road is for a doctor who has a minute and a long text. It begins at a
# [clinical note](../course/book/glossary.md), free text about a stay, and
# ends at its [summary](../course/book/glossary.md). Its model is a
# [pointer-generator](../course/book/glossary.md), which at each step either
# writes a word that it knows or copies one from the note.
#
# Take the lessons in the order of their numbers: 00, then 07 to 20 (there are no
# lessons 01 to 06). Tokens (07) come before tables (08) because they need no more
# than a list of codes. You need Python and the basics of PyTorch, such as tensors
# and `backward()`. The rest is explained, medicine included.
#
# ## One patient
#
# Everything a hospital stores about a person is an
# [electronic health record](../course/book/glossary.md) (EHR):
# notes, laboratory values, images. This course keeps the part that is short
# and easy to count.

# %% tags=["hide-input"]
# a patient of two short visits, with codes that come back
def n_returning(record):
    short = all(len(visit.codes) <= 6 for visit in record.visits)
    two = len(record.visits) == 2
    return len(returning_codes(record)) if short and two else -1


patient = max(patients, key=n_returning)

# %%
draw_patient(patient)

# %% [markdown]
# A [patient](../course/book/glossary.md) has an
# [age](../course/book/glossary.md), counted in full years at the
# first stay, a [sex](../course/book/glossary.md) as the hospital
# recorded it, and one or more
# [visits](../course/book/glossary.md#visit) in time order. A visit
# is one stay in hospital. It has a list of
# [codes](../course/book/glossary.md#code), one for each diagnosis, the main
# reason for the stay first. Chronic illnesses reappear at the next visit,
# alongside new ones. The dates lie in the future: MIMIC shifts its dates
# to protect patients, and our hospital imitates that. In Python the
# record is just as short; as in most files, its codes are written without the
# dot.

# %%
print(patient.age, patient.sex)
for visit in patient.visits:
    print(visit.admitted.year, visit.codes)

# %% [markdown]
# ## What a code says
#
# The codes are those of
# [ICD-9-CM](../course/book/glossary.md), the International
# Classification of Diseases, ninth revision, as American hospitals used it
# until 2015. A code is a path in a tree. The widest groups are the
# [chapters](../course/book/glossary.md#chapter), 19 of them. Each
# holds [categories](../course/book/glossary.md#category), and the
# first three characters of a code name its category. What follows the dot
# makes it more precise.

# %%
draw_code_paths(["428.0", "V30.01", "E885.9"])

# %% [markdown]
# The last two rows are special. A
# [V code](../course/book/glossary.md) is not a disease but
# another reason for care: V30, for example, records a birth. An
# [E code](../course/book/glossary.md) says how an injury
# happened, and its category has four characters.
#
# The course's `icd9` module knows the tree. Try codes of your own here.

# %%
for code in ("42731", "V3001", "E8859"):
    chapter = icd9.chapter(code)
    print(icd9.dotted(code), "·", icd9.title(code))
    print("   category", icd9.category(code))
    print("   chapter", chapter.number, "·", chapter.title)

# %% [markdown]
# Most codes look like numbers, so you might read them as numbers. But without
# its dot, 038.9, blood poisoning, is `0389`. Read as a number, that is 389, and
# the patient is hard of hearing.

# %%
for code in ("0389", "389"):
    print(f"{code:>4}  {icd9.title(code)}")

# %% tags=["hide-input"]
# check: what the text says about codes
assert icd9.title("0389") != icd9.title("389")
assert len(icd9.category("E8859")) == 4
assert icd9.chapter("E8859").number == 19

# %% [markdown]
# A code is text. Keep it as text from the first file to the last.
#
# Now meet forty more people of the same hospital, in order of age. The number
# before each code is that of its chapter. **Move the slider** from left to right:
# newborns have codes of chapters 15, perinatal, and 18, V codes; in most people
# over sixty chapter 7, circulatory, appears.

# %% tags=["widget"]
by_age = sorted(patients[:40], key=lambda record: record.age)
record_explorer(by_age)


# %% tags=["hide-input"]
# check: the chapters of newborns, and of people over sixty
def having(chapters, records):
    found = [
        any(icd9.chapter(code).number in chapters for code in r.codes)
        for r in records
    ]
    return sum(found) / len(found)


newborns = [r for r in by_age if r.age == 0]
elderly = [r for r in by_age if r.age > 60]
young = [r for r in by_age if 0 < r.age < 30]
assert SEED or having({15}, newborns) == having({18}, newborns) == 1
assert SEED or having({7}, elderly) > 0.6 > 0.1 > having({7}, young)

# %% [markdown]
# ## Can a model for text read codes?
#
# A [tokenizer](../course/book/glossary.md) decides what a token is. The usual
# kind learns [subword pieces](../course/book/glossary.md#subword-piece), words
# and parts of words, from many sentences. Train one on the diagnoses of all
# patients, written out in words.

# %%
sentences = [
    f"{record.age} year old with {icd9.title(code)}."
    for record in patients
    for code in record.codes
]
text_tokenizer = NoteTokenizer.train(sentences, vocab_size=600)

texts = ["hypertension", "fracture", "failure"]
texts += ["401.9", "250.00", "427.31"]  # add codes of your own
pieces = {text: text_tokenizer.pieces(text) for text in texts}

# %%
draw_strips(
    pieces,
    "Into how many pieces do words and codes fall?",
    "Each box is one piece. The tokenizer was made for text, not for"
    " codes",
    fills={
        text: ["encoder" if text in texts[:3] else "trap"] * len(of)
        for text, of in pieces.items()
    },
    notes={
        text: f"{len(of)} piece{'s' * (len(of) > 1)}"
        for text, of in pieces.items()
    },
)

# %% [markdown]
# (A `▁` stands for the space before a word.) Frequent words stay whole.
# Codes, which the tokenizer never met, fall apart, most of them into single
# digits; `25` survives because the training sentences contain ages. How bad is
# it on average?

# %%
codes = sorted({code for record in patients for code in record.codes})
n_pieces = [
    len(text_tokenizer.pieces(icd9.dotted(code))) for code in codes
]
mean = sum(n_pieces) / len(codes)
print(f"{len(codes)} codes, {mean:.1f} pieces per code")

# %% tags=["hide-input"]
# check: codes fall apart, frequent words do not
assert mean > 3
words = ("hypertension", "fracture", "failure")
assert all(len(text_tokenizer.pieces(word)) == 1 for word in words)


# %% [markdown]
# A model would spend its effort on spelling. Would it help to train the
# tokenizer on codes as well? Lesson 07 tries it.
#
# ## How the exercises work
#
# Every exercise is a function for you to complete, with a call of `check`
# below it.
#
# ### 00.1 How many different codes?
#
# Try It Yourself · ★ · 3 minutes
#
# `visits` is a list of visits. Unlike above, a visit is just a list of codes.
# Return how many different codes the patient has. The same code can occur
# several times, even within one visit.
#
# Example: `count_codes([["4280", "42731"], ["4280"]])` is `2`.
#
# Meet four of the five outcomes. Run the next cell as it is. Then replace the
# line that raises with each of these, and run the cell again each time:
#
# 1. `return len(visits)`
# 2. `return len(visits.codes)`
# 3. your own answer

# %% tags=["exercise:00.1", "nbval-ignore-output"]
def count_codes(visits: list[list[str]]) -> int:
    raise NotImplementedError("00.1: replace this line")


check("00.1", count_codes)

# %% [markdown]
# Each time, `check` asked the same questions, one after the other:

# %%
draw_check(find_exercise("00.1"))


# %% [markdown]
# The fifth outcome, a remark, says something about a right answer: for instance,
# that it is an array where a list was asked for. When a check fails, its message
# ends with a [seed](../course/book/glossary.md), the number from which the
# random inputs are made. Put it into the call, as the message shows, and the
# same inputs come again.
#
# When you are stuck, call `hint("00.1")` in a cell of your own; each call
# shows one more hint. `progress()` shows where you stand in the whole course.

# %% [markdown]
# ## How much does a record give away?
#
# Why invent patients, when you could take the names out of real records? A
# stranger may know a few diagnoses of somebody, from a colleague or from a
# newspaper. How many does it take to find that person's record, if the stranger
# happens to know the most telling ones? Try it on 300 people of the practice
# hospital.

# %% tags=["hide-input"]
# who is singled out by one code, by two, by more
def singled_out(people):
    their_codes = sorted({c for record in people for c in record.codes})
    # (people, codes): 1 where the person has the code
    has = [[code in set(r.codes) for code in their_codes] for r in people]
    has = np.array(has, np.float32)
    together = has.T @ has  # how many people have both of two codes

    enough, never, examples = [0, 0, 0], 0, []
    for row in has:
        mine = np.flatnonzero(row)
        shared = together[np.ix_(mine, mine)]
        if (shared.diagonal() == 1).any():
            enough[0] += 1
        elif (shared == 1).any():
            enough[1] += 1
            examples.append((shared.diagonal().min(), -len(mine), mine))
        elif (has @ row == row.sum()).sum() > 1:
            never += 1
        else:
            enough[2] += 1

    # The example: few codes, and none of them rare.
    short = [one for one in examples if one[1] >= -4] or examples
    mine = max(short, key=lambda one: one[:2])[2]
    shared = together[np.ix_(mine, mine)]
    codes = [their_codes[column] for column in mine]
    pair = tuple(codes[place] for place in np.argwhere(shared == 1)[0])
    others = []
    for code in codes:
        alike = [r.codes for r in people if code in r.codes]
        alike = [c for c in alike if not set(codes) <= set(c)]
        others += [c for c in alike if c not in others][:2]
    having = shared.diagonal().astype(int).tolist()
    return codes, having, others, pair, enough, never


# %%
people = make_cohort(300, seed=SEED)
codes, having, others, pair, enough, never = singled_out(people)

lists = {"this person": codes}
lists |= {f"person {i}": theirs for i, theirs in enumerate(others, 2)}
names = {
    code: f"{icd9.dotted(code)}\n"
    f"{shorten(icd9.title(code), 26, placeholder=' …')}\n{n} people"
    for code, n in zip(codes, having, strict=True)
}
draw_heat(
    {
        who: {names[code]: float(code in theirs) for code in codes}
        for who, theirs in lists.items()
    },
    "Which codes does this person share with the other"
    f" {len(people) - 1}?",
    "Dark: has the code. Framed: nobody else has both",
    form="", framed=[("this person", names[code]) for code in pair],
)  # fmt: skip

# %% [markdown]
# Many share a code with this person, but nobody else has both of the framed ones. How
# many codes does it take for each of the 300, chosen as well as can be?

# %%
labels = ["1 code", "2 codes", "3 codes or more",
          "not even all: another has them, too"]
draw_bars(
    dict(zip(labels, [*enough, never], strict=True)),
    "How many codes single out a person?",
    f"{len(people)} people, by how many of their codes it takes until"
    " nobody else has them all. The person above needs two",
    form="{} people",
)  # fmt: skip

# %% tags=["hide-input"]
# the same among more people; check: what the text says of the picture
found = [singled_out(make_cohort(n, seed=SEED)) for n in (300, 3_000)]
few, many = (sum(one[4][:2]) / (sum(one[4]) + one[5]) for one in found)
shares = f"{few:.0%} of 300 people, {many:.0%} of 3,000"
print("singled out by at most two codes:", shares)
assert few > 0.75
assert many < few - 0.1
assert SEED or set(found[0][3]) == {"27800", "5409"}


# %% [markdown]
# The person in the first picture was chosen for having four codes of which none is rare: obesity
# and appendicitis together give that person away. These are only 300 people, and
# invented ones; among 3,000, two codes are often too few. [A
# study](https://pubmed.ncbi.nlm.nih.gov/20442151/) of real records found that
# nearly every patient can be told apart from more than a million others by all of
# their diagnosis codes together. That is why records are locked away, and why
# lesson 19 asks whether a model has learned somebody's record by heart.
#
# The next exercise is optional. Like all hard exercises of the course, it states
# the goal and leaves the idea to you. (In later lessons, optional exercises stand in
# folded parts, *Going further*. So some numbers seem to be missing until you open one.)
#
# ### 00.2 How few diagnoses single out a person?
#
# Try It Yourself · ★★★ · 10 minutes
#
# `patients` is a list of at least two patients, each a list of different
# codes, and `i` is the index of one of them. A stranger knows some codes of
# patient `i`, and looks for everybody who has all of these. Return the
# smallest number of codes that can single out patient `i`, if the stranger
# happens to know the most telling ones. Return 0 if even all codes of patient
# `i` are not enough: somebody else can have the very same codes, or all of
# them and more. In the check nobody has more than six codes, and speed does not
# matter.
#
# Example: in `[["486", "4019"], ["486", "2724"], ["4019", "2724"]]` each
# code belongs to two patients, and each pair to one. The result is `2` for
# every `i`. In `[["486"], ["486", "4019"]]` it is `0` for the first patient.

# %% tags=["exercise:00.2", "nbval-ignore-output"]
def fewest_codes(patients: list[list[str]], i: int) -> int:
    raise NotImplementedError("00.2: replace this line")


check("00.2", fewest_codes)

# %% [markdown]
# Once you have solved it, recompute the picture above with your own function, in a
# new cell:
#
# ```python
# lists = [sorted(set(person.codes)) for person in people]
# Counter(fewest_codes(lists, i) for i in range(len(lists)))
# ```
#
# ## Is your machine ready?
#
# The course runs on a laptop with two cores and 8 GB of memory. It needs
# no GPU. If a cell raises an error that the text does not announce, run
# `python3 -m course doctor` in a terminal, in the folder of the course.

# %% tags=["nbval-ignore-output", "hide-input"]
# check: what this machine has
needed = ("torch", "transformers", "sentencepiece", "polars", "jupyterlab")
print("Python", platform.python_version())
for package in needed:
    print(package, version(package))
cores, memory = os.cpu_count(), psutil.virtual_memory().total / 2**30
print("GPU:", "yes" if torch.cuda.is_available() else "no")
print(f"{cores} cores, {memory:.0f} GiB of memory")
missing = {
    "Python 3.11": sys.version_info >= (3, 11),
    "a second core": cores >= 2,
    "8 GB of memory": memory > 7,  # a part is kept for the machine itself
}
missing = [name for name, there in missing.items() if not there]
print("missing: " + ", ".join(missing) if missing else "ready")

# %% [markdown]
# The [profile](../course/book/glossary.md) at the top of a lesson, `PROFILE`,
# sets how much it computes. Leave it at `"tiny"`, for which the text is
# written; the others take longer.
#
# ## The lessons
#
# <!-- lessons: python3 -m course build writes them from course/syllabus.yml -->
#
# | lesson | minutes | you build |
# |---|---|---|
# | [00 Start here](00_start_here.ipynb) | 40 | a first patient, and a first check |
# | [07 Tokenization](07_tokenization.ipynb) | 100 | two tokenizers: one for codes, one for notes |
# | [08 Data loading](08_data_loading.ipynb) | 100 | the way from hospital tables to patients |
# | [09 Corruption](09_corruption.ipynb) | 95 | noise to repair, and labels from the clean record |
# | [10 Data flow](10_data_flow.ipynb) | 85 | batches that waste little and can be repeated |
# | [11 Model architecture](11_model_architecture.ipynb) | 150 | a BART from its parts, which loads a trained one's weights |
# | [12 Conditional prompt](12_conditional_prompt.ipynb) | 100 | a model whose patients follow age and sex |
# | [13 Multi-task learning](13_multi_task_learning.ipynb) | 85 | heads that guess age and sex, and one that cannot cheat |
# | [14 Loss functions](14_loss_functions.ipynb) | 100 | every loss by hand, and a penalty that has a gradient |
# | [15 Training loop](15_training_loop.ipynb) | 145 | a training loop of your own, which resumes to the bit |
# | [16 Pointer-generator](16_pointer_generator.ipynb) | 145 | a summariser of your own, trained, that copies names it has never seen |
# | [17 Coverage and beam search](17_coverage_and_beam_search.ipynb) | 110 | summaries that do not repeat themselves, and a search for the best |
# | [18 Prefix tuning](18_prefix_tuning.ipynb) | 120 | a prefix of a few thousand numbers that adapts a model to a second hospital |
# | [19 Generation and evaluation](19_generation_and_evaluation.ipynb) | 150 | a synthetic cohort, a report on what it is worth, and an attack on it |
# | [20 Your own study](20_your_own_study.ipynb) | 160 | a study of your own, from its question to its limits |
#
# <!-- end of the lessons -->
#
# ## Recap
#
# - **A patient** is an age, a sex, and visits in time order; a visit is a
#   list of ICD-9 codes, the most important first.
# - **A code** is text: a category of three characters (four for E codes),
#   further digits, and a place in one of 19 chapters.
# - **A text tokenizer** cuts a code into several pieces of digits.
# - **A check** says not attempted yet, error in your code, not yet, solved
#   with a remark, or solved.
# - **One or two diagnoses**, the right ones, single out most people among a
#   few hundred.
# - **Your machine** can run the lessons if the last check says “ready”.
#
# ## Test yourself
#
# 1. Which category and which chapter does E885.9 belong to?
#
# <details><summary>Answer</summary>
# Category E885: an E code keeps four characters. Chapter 19, the external
# causes of injury.
# </details>
#
# 2. Why must a program never read a column of codes as numbers?
#
# <details><summary>Answer</summary>
# It would lose leading zeros, and 0389 and 389 are different diseases.
# V and E codes are not numbers at all.
# </details>
#
# 3. Two diagnoses are each shared by several people. Can the pair still
#    identify one of them?
#
# <details><summary>Answer</summary>
# Yes, if nobody else has both. Among more people that is less likely, and then
# a third or a fourth diagnosis helps the stranger.
# </details>
#
# ## What comes next
#
# You can now read a record and ask the course's model for patients. In a new
# cell, ask for newborn girls, and list their codes that no such girl has in the
# hospital:
#
# ```python
# written, alike = shares_for(0, "F")
# known = {code for r in alike for code in r.codes}
# new = Counter(code for r in written for code in set(r.codes) - known)
# [(icd9.title(code), n) for code, n in new.most_common(5)]
# ```
#
# Which of them cannot be, and which are only rare?
#
# <details><summary>Answer</summary>
# An undescended testis, a circumcision or a hydrocele at birth cannot be: only boys
# have them. Nor can a body mass index by percentile, which is recorded from the age
# of 2. Further down the list, asthma is only rare.
# </details>
#
# Before you can build such a model, codes must become numbers, and a text tokenizer
# makes a mess of them.
# [Lesson 07](07_tokenization.ipynb) builds a tokenizer for which every code
# is one token.
#
# Lessons 07 to 15 follow the chapters of the PromptEHR onboarding guide. If you know
# it, [What holds](../course/book/what_holds.md) says which of its claims hold.

# %% tags=["hide-input"]
# check: what newborn girls cannot have, and what is only rare
written, alike = shares_for(0, "F")
known = {code for r in alike for code in r.codes}
theirs = {code for r in written for code in r.codes} - known
never = [c for c in theirs if icd9.why_impossible(c, age=0, sex="F")]
assert never and set(never) < theirs
if SEED == 0:
    assert {"75251", "V502", "7786", "V8554"} <= set(never)
    assert "49390" in theirs - set(never)
