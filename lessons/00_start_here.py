# %% [markdown]
# # 00 · Start here
#
# 20 minutes · Prerequisites: none
#
# You will be able to:
#
# - Describe a patient as visits and a visit as ICD-9 codes.
# - Name the category and the chapter of a code.
# - Count the pieces into which a text tokenizer breaks a code.
# - Name the outcomes of a check, after seeing four of them.
# - Verify that this machine can run the lessons.

# %% [markdown]
# ## What does a hospital know about you?
#
# A great deal: notes, laboratory values, images. One part of it is short
# and easy to count: a list of codes, one for each diagnosis, written down
# for every stay. Look at one person.

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %%
import os
import platform
import sys
from importlib.metadata import version

import psutil
import torch

from ehr_course import icd9
from ehr_course.exercises import check, hint, progress
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.notes import NoteTokenizer
from ehr_course.widgets.record import record_explorer

# %%
n_patients = {"tiny": 300, "small": 5_000, "full": 46_520}[PROFILE]
cohort = make_cohort(n_patients, seed=SEED)
patient = next(r for r in cohort if len(r.visits) == 2 and r.age > 50)

print(f"age {patient.age}, sex {patient.sex}")
for visit in patient.visits:
    print(f"admitted {visit.admitted:%B %Y}")
    for code in visit.codes:
        print(f"  {icd9.dotted(code):>7}  {icd9.title(code)}")

# %% [markdown]
# This is an **electronic health record** (EHR), cut down to what this
# course needs: a *patient* with an age and a sex, their *visits* in time
# order, and for each visit its *codes*, the most important first.
#
# The person does not exist. They come from a program of this course, the
# *embedded hospital*, which invents patients with real codes, so that you
# can look at everything and share everything. Their dates lie in the
# future because those of MIMIC do. MIMIC is a hospital's database that
# researchers may use after a training and an agreement; it shifts every
# patient's dates to protect them. If you have access, lesson 08 loads
# real patients through the same functions.
#
# Move the slider to meet the others.

# %% tags=["widget"]
record_explorer(cohort[:40])

# %% [markdown]
# ## What a code says
#
# The codes are **ICD-9-CM**: the International Classification of
# Diseases, ninth revision, as American hospitals used it until 2015. A
# code is a path in a tree. The first three characters are its
# *category*, the digits after the dot make it more precise, and
# categories are grouped in *chapters*.

# %%
for code in ("42731", "25000", "V3001", "E8859"):
    print(icd9.dotted(code), "·", icd9.title(code))
    print("   category", icd9.category(code))
    chapter = icd9.chapter(code)
    print(f"   chapter {chapter.number}: {chapter.title}")

# %% [markdown]
# Codes that begin with V are no diseases: V30 is being born, V45 what is
# left of an operation, V58.66 the long use of aspirin. Codes that begin
# with E say how an injury happened, and their category has four
# characters.
#
# A code is text, not a number. `038.9` is septicemia. Files drop the dot
# and say `0389`. Read as a number, that is 389, hearing loss.

# %%
for code in ("0389", "389"):
    print(f"{code:>4}  {icd9.title(code)}")
assert icd9.title("0389") != icd9.title("389")

# %% [markdown]
# An `assert` in a cell checks what the text says. If it does not hold on
# your machine, the cell raises.
#
# ## Why a course about this?
#
# You are going to build models that *generate* patients: give one an age
# and a sex, and it writes a record that such a person might have. A
# language model does that, token by token. Its tokenizer decides what a
# token is, and the usual one is made for text.
#
# Here is such a tokenizer, trained in this cell on the diagnoses of the
# embedded hospital, written out as sentences. What does it make of a
# word, and what of a code? A `▁` stands for the space before a word.

# %%
sentences = [
    f"{record.age} year old with {icd9.title(code)}."
    for record in cohort
    for code in record.codes
]
text_tokenizer = NoteTokenizer.train(sentences, vocab_size=600)

for text in ("hypertension", "diabetes", "401.9", "250.00", "427.31"):
    pieces = text_tokenizer.pieces(text)
    print(f"{text:>12}  {len(pieces)}  {pieces}")

# %%
codes = sorted({code for record in cohort for code in record.codes})
pieces = [len(text_tokenizer.pieces(icd9.dotted(code))) for code in codes]
print(f"{len(codes)} codes, {sum(pieces) / len(codes):.1f} pieces a code")
assert sum(pieces) / len(codes) > 3


# %% [markdown]
# These words are one piece each. A code, which the tokenizer never met,
# is shattered into digits. Lesson 07 asks whether that can be helped, and
# gives every code a token of its own.
#
# ## How the exercises work
#
# Every exercise is a function to complete, with a call of `check` below
# it. A check tries your function on chosen inputs and on fresh random
# ones, and has five things to say:
#
# | outcome | what it means |
# |---|---|
# | ○ not attempted yet | the stub is still there |
# | ✘ not yet | your function is wrong; you see where and why |
# | ⚠ error in your code | your function raised; you see your own line |
# | ✔ solved | right on every input |
# | ✔ solved, with a remark | right, and there is one thing to know |
#
# Meet the first four. Run the next cell as it is. Then replace the line that
# raises by each of these, and run the cell again each time:
#
# 1. `return len(visits)`
# 2. `return len(visits.codes)`
# 3. your own answer
#
# ### 00.1 How many different codes?
#
# Try It Yourself · ★ · 3 minutes
#
# `visits` is a list of visits, each a list of codes. Return how many
# different codes the patient has. A code can be written down several
# times, also within one visit.
#
# Example: `count_codes([["4280", "42731"], ["4280"]])` is `2`.

# %% tags=["exercise:00.1", "nbval-ignore-output"]
def count_codes(visits: list[list[str]]) -> int:
    raise NotImplementedError("00.1: replace this line")


check("00.1", count_codes)

# %% [markdown]
# When a check fails, its message ends in a *seed*. Put it into the call,
# as the message shows, and the same random inputs come again, as often
# as you like. `hint("00.1")` shows the next hint each time, and with a
# number it shows that one.

# %% tags=["nbval-ignore-output"]
hint("00.1", 1)

# %% [markdown]
# `progress` shows where you stand in the whole course. It is kept in
# your user folder, not in this notebook, so a fresh copy of the course
# still knows it.

# %% tags=["nbval-ignore-output"]
progress()

# %% [markdown]
# ## Is your machine ready?
#
# The course runs on a laptop with two cores and 8 GB of memory. It needs
# no GPU, and uses one where there is one.

# %% tags=["nbval-ignore-output"]
needed = ("torch", "transformers", "sentencepiece", "polars", "jupyterlab")
print("Python", platform.python_version())
for package in needed:
    print(package, version(package))
print("GPU:", "yes" if torch.cuda.is_available() else "no")
print(f"{os.cpu_count()} cores")
print(f"{psutil.virtual_memory().total / 2**30:.0f} GiB of memory")
assert sys.version_info >= (3, 11)

# %% [markdown]
# If a cell raised, go to the folder of the course in a terminal and run
# `python3 -m course doctor`: it says what is missing.
#
# ## The map
#
# <!-- lessons: python3 -m course build writes them from course/syllabus.yml -->
#
# | lesson | minutes | you build |
# |---|---|---|
# | [00 Start here](00_start_here.ipynb) | 20 | a first patient, and a first check |
# | [07 Tokenization](07_tokenization.ipynb) | 75 | two tokenizers: one for codes, one for notes |
# | [08 Data loading](08_data_loading.ipynb) | 60 | the way from hospital tables to patients |
# | [09 Corruption](09_corruption.ipynb) | 90 | noise to repair, and a target that does not leak |
# | [10 Data flow](10_data_flow.ipynb) | 60 | batches that waste little and can be repeated |
# | [11 Model architecture](11_model_architecture.ipynb) | 105 | attention, masks, and a BART counted to the last weight |
# | [12 Conditional prompt](12_conditional_prompt.ipynb) | 95 | a model whose patients follow age and sex |
# | [13 Multi-task learning](13_multi_task_learning.ipynb) | 75 | heads that guess age and sex, and one that cannot cheat |
# | [14 Loss functions](14_loss_functions.ipynb) | 80 | every loss by hand, and a penalty that has a gradient |
# | [15 Training loop](15_training_loop.ipynb) | 110 | a float16 training that stops and resumes to the bit |
# | [16 Pointer-generator](16_pointer_generator.ipynb) | 100 | a summariser that copies names it has never seen |
# | [17 Coverage and beam search](17_coverage_and_beam_search.ipynb) | 95 | summaries that do not repeat themselves, and a search for the best |
# | [18 Prefix tuning](18_prefix_tuning.ipynb) | 80 | a prefix of a few thousand numbers that adapts a model to a second hospital |
# | [19 Generation and evaluation](19_generation_and_evaluation.ipynb) | 120 | a cohort of 10,000 patients, and a report on what it is worth |
#
# <!-- end of the lessons -->
#
# The numbers are those of the chapters of a tutorial that the course
# follows from chapter 07 to 15. The tutorial was never finished, and some
# of what it says does not hold. Where a lesson repeats such a claim, it
# measures it first.
#
# ## Recap
#
# - **A patient** is an age, a sex, and visits in time order; a visit is a
#   list of ICD-9 codes, the most important first.
# - **A code** is text: a category of three characters (four for E codes),
#   further digits, and a place in one of 19 chapters.
# - **A text tokenizer** cuts a code into several pieces of digits.
# - **A check** says not attempted, not yet, error in your code, solved,
#   or solved with a remark.
# - **Your machine** is ready if the cell above did not raise.
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
# V and E codes are no numbers at all.
# </details>
#
# 3. A check says "not yet" and names the seed 417. What does the seed
#    give you?
#
# <details><summary>Answer</summary>
# The same random inputs again, so that you can repeat the failure while
# you look for its cause.
# </details>
#
# ## What comes next
#
# [Lesson 07](07_tokenization.ipynb): a tokenizer for which every code is
# one token.
