# %% [markdown]
# # 08 · Data loading
#
# 60 minutes · Prerequisites: 00, 07
#
# You will be able to:
#
# - Compute a patient's age at the first admission, with 90 for every age
#   above 89.
# - Normalise ICD-9 codes without losing leading zeros, V codes or E codes.
# - Order the rows of three tables into patients, visits and codes.
# - Split a cohort by patient and build the vocabulary from the training
#   split.
# - Count what was dropped and report the reasons.

# %% [markdown]
# ## How old is this patient, really?
#
# A hospital gives you its files. You want patients: an age, a sex, visits
# in time order, codes. It looks like an hour's work. Begin with the age:
# a date of birth stands in one file, a date of admission in another.
# Take the patient who was born first.

# %% tags=["parameters"]
PROFILE = "tiny"  # "tiny", "small" or "full": how many patients
SEED = 0

# %%
import os
import random
import shutil
import tempfile
import textwrap
from collections import Counter
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl

from ehr_course import icd9
from ehr_course.errors import InputError
from ehr_course.exercises import check, hint, progress
from ehr_course.sources.cohort import Change
from ehr_course.sources.grouping import completed_years
from ehr_course.sources.meds import write_meds
from ehr_course.sources.mimic import load, load_mimic3
from ehr_course.sources.splits import split_by_patient
from ehr_course.sources.synthetic import Dirt, make_cohort, write_mimic3
from ehr_course.sources.tables import find_tables
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.timeline import timeline_explorer

# %% [markdown]
# By default the files come from the embedded hospital: invented patients
# with real codes, written to a temporary folder as MIMIC-III writes its
# tables. MIMIC-III is the database of one hospital's intensive care, open
# to researchers after a training and an agreement. Our files are dirty on
# purpose. Each number below is how often one fault is planted; the loader
# is not told.

# %%
scratch = tempfile.TemporaryDirectory()
dirt = Dirt(
    dotted=40,  # 428.0 for 4280
    lower_case=10,  # e8497
    padded=25,  # spaces around the code
    missing=12,  # no code
    malformed=6,  # not the shape of a code
    duplicates=30,  # the same row twice
    empty_admissions=8,  # a stay without a diagnosis
    unknown_patients=4,  # a stay of nobody
    unknown_admissions=9,  # a diagnosis of no stay
    shuffled=True,  # rows in any order
)

# %% [markdown]
# **With real data.** Set the environment variable `EHR_COURSE_DATA` to
# the folder of your MIMIC-III tables before you start JupyterLab, and
# this notebook runs on them as it stands. It then shows rows of real
# patients: clear its outputs before you give it to anyone.

# %%
real = bool(os.environ.get("EHR_COURSE_DATA"))
if real:
    folder = Path(os.environ["EHR_COURSE_DATA"])
else:
    sizes = {"tiny": 2_000, "small": 10_000, "full": 46_520}
    made = make_cohort(sizes[PROFILE], seed=SEED)
    folder = Path(scratch.name) / f"hospital-{SEED}"
    planted = write_mimic3(
        made,
        folder,
        dirt=dirt,
        seed=SEED,
        overwrite=True,
    )
print("your MIMIC-III tables" if real else "the embedded hospital")

# %% [markdown]
# Read the tables as text, and turn only the two kinds of id into numbers.

# %%
names = ("PATIENTS", "ADMISSIONS", "DIAGNOSES_ICD")
files = find_tables(folder, names)


def read_table(name):
    table = pl.read_csv(files[name], infer_schema=False)
    ids = pl.col("^(subject|hadm)_id$").cast(pl.Int64)
    return table.rename(str.lower).with_columns(ids)


patients, admissions, diagnoses = map(read_table, names)

# %% [markdown]
# Now the patient who was born first.

# %%
# These times sort as text: the year stands first, months have two digits.
first = admissions.group_by("subject_id").agg(pl.col("admittime").min())
people = (
    patients.join(first, on="subject_id")
    .select(
        "subject_id",
        born=pl.col("dob").str.to_datetime(),
        admitted=pl.col("admittime").str.to_datetime(),
    )
    .sort("subject_id")
)
oldest = people.sort("born", "subject_id").row(0, named=True)
print(f"born     {oldest['born']:%d %B %Y}")
print(f"admitted {oldest['admitted']:%d %B %Y}")
print(oldest["admitted"].year - oldest["born"].year, "years old")

# %% [markdown]
# That is no typing error. To protect its patients, MIMIC-III shifts all
# dates of a patient by the same random span, into the future. Someone
# above 89 would still be recognisable by age, so the birth of each of
# them is moved again, about 300 years back. A loader must know that. This
# lesson is about what else it must know.

# %% [markdown]
# ## What three files know
#
# `PATIENTS` has one row for each person, `ADMISSIONS` one for each stay,
# `DIAGNOSES_ICD` one for each code of each stay. `SUBJECT_ID` and
# `HADM_ID` tie them together; `SEQ_NUM` is the importance of a code, 1
# for the main reason of the stay.

# %%
someone = admissions["subject_id"].mode().min()
patients.filter(subject_id=someone).select("subject_id", "gender", "dob")

# %%
stays = admissions.filter(subject_id=someone)
stays.select("subject_id", "hadm_id", "admittime")

# %%
rows = diagnoses.filter(subject_id=someone)
rows.select("subject_id", "hadm_id", "seq_num", "icd9_code").head(8)

# %% [markdown]
# In the embedded hospital nothing is in order: neither the stays by time
# nor the codes by `SEQ_NUM`. Nobody promised that they are. The course's
# loader does all the work in one call. The rest of this lesson takes that
# call apart, and you write its pieces.

# %%
cohort = load_mimic3(folder, malformed="drop")
print(cohort)
record = next(r for r in cohort.records if r.subject_id == someone)
print(f"sex {record.sex}, age {record.age}")
for visit in record.visits[:3]:
    print(f"{visit.admitted:%Y-%m-%d}", *visit.codes[:7])


# %% [markdown]
# ### What if a file is missing?
#
# This lesson follows a chapter of a tutorial, and corrects it where it
# does not hold; you do not need the tutorial. If a file is missing, the
# tutorial returns an empty list and an empty vocabulary, so that its
# program goes on. These are its first lines; the rest is not needed here.

# %%
def load_as_the_tutorial(folder):
    if not (Path(folder) / "ADMISSIONS.csv").exists():
        return [], {}


# %% [markdown]
# Copy one table of the three to a new folder, and load that.

# %% tags=["claim:6"]
message = ""
with tempfile.TemporaryDirectory() as incomplete:
    shutil.copy(files["PATIENTS"], incomplete)
    records, vocabulary = load_as_the_tutorial(incomplete)
    try:
        load_mimic3(incomplete)
    except InputError as error:
        message = f"{error.problem}. {error.remedy}"
print(f"The tutorial: {len(records)} patients, and no complaint.")
print(textwrap.fill(f"The course: {message}", 75))
assert records == [] and "no file for ADMISSIONS" in message

# %% [markdown]
# The empty list hides the failure until training, where the message will
# be about a division by zero or an empty batch. A loader that cannot
# load raises, and names the file.

# %% [markdown]
# ## The age
#
# The tutorial subtracts years: the year of admission minus the year of
# birth. Compare that with the years that are completed on the day of
# the first admission.

# %% tags=["claim:4"]
people = people.with_columns(
    by_year=pl.col("admitted").dt.year() - pl.col("born").dt.year(),
    exact=completed_years("born", "admitted"),
)
wrong = people.filter(pl.col("by_year") != pl.col("exact"))
print(f"{wrong.height} of {people.height} ages differ")
young = wrong.filter(pl.col("exact") < 90).row(0, named=True)
print(f"born {young['born']:%Y-%m-%d}, first stay", end=" ")
print(f"{young['admitted']:%Y-%m-%d}: {young['exact']},", end=" ")
print(f"by years {young['by_year']}")
excess = (people["by_year"] - people["exact"]).unique()
assert wrong.height > 0.1 * people.height
assert sorted(excess) == [0, 1]

# %% [markdown]
# The difference of the years is one too large whenever the birthday is
# still to come in the year of admission, and never wrong otherwise. On
# the public MIMIC-III demo this cell prints 41 of 100.
#
# The tutorial also says that ages above 89 become 90. That is right, and
# it is only half of the story.

# %% tags=["claim:5"]
above = people.filter(pl.col("exact") > 89)
print(f"{above.height} of {people.height} patients are above 89")
print("largest raw age:", above["exact"].max())
age_of = {record.subject_id: record.age for record in cohort.records}
loaded = [age_of[s] for s in above["subject_id"] if s in age_of]
print("what the loader says of them:", set(loaded))

at = np.datetime64(oldest["admitted"], "ns")
days = (at - np.datetime64(oldest["born"], "ns")) / np.timedelta64(1, "D")
print(f"the same age from nanoseconds: {days / 365.25:.0f} years")
reach = 2**63 / 1e9 / 86_400 / 365.25
print(f"reach of 64 bits of nanoseconds: {reach:.0f} years")
assert set(loaded) == {90} and len(loaded) > 0
assert above["exact"].max() > 150 and days < 0


# %% [markdown]
# All of them are there, and all of them are 90. Two short cuts fail here.
# A program that drops impossible ages loses its oldest patients. And a
# program that subtracts times in nanoseconds leaves the reach of 64 bits:
# NumPy turns the age negative without an error, other libraries raise.
# Do not wait to find out which one you have.

# %% [markdown]
# ### 08.1 Age at the first admission
#
# Try It Yourself · ★★ · 7 minutes
#
# `born` and `admitted` are `datetime`s; `born` is midnight. Return the
# age in completed years on the day of admission, as a whole number, and
# 90 for every age above 89. A year is complete on the birthday. Someone
# born on 29 February completes it on 1 March where the year has no such
# day.
#
# Example: `age_at_admission(datetime(2044, 10, 9), datetime(2101, 3, 5))`
# is `56`.

# %% tags=["exercise:08.1", "nbval-ignore-output"]
def age_at_admission(born: datetime, admitted: datetime) -> int:
    raise NotImplementedError("08.1: replace this line")


check("08.1", age_at_admission)

# %% [markdown]
# ## The codes
#
# A code looks like a number and is none. The tutorial reads the column
# as the reader pleases and then applies `astype(str)`. Keep the rows of
# digits and the empty ones, as if the extract had no V and E codes. A
# reader that guesses makes numbers of them, and where a value is missing
# it makes floating-point numbers, because those have a `nan`.

# %% tags=["claim:7"]
codes = diagnoses["icd9_code"].str.strip_chars()
digits = codes.filter(codes.is_null() | codes.str.contains(r"^\d+$"))
guess = pl.Float64 if digits.null_count() else pl.Int64
as_text = digits.cast(guess).to_numpy().astype(str)
both = pl.DataFrame({"in_the_file": digits, "astype_str": as_text})

lost = both.filter(pl.col("in_the_file").str.starts_with("0"))
missing = both.filter(pl.col("in_the_file").is_null())
print(f"{lost.height} leading zeros lost, like these:")
shown = lost.unique().sort("in_the_file").tail(3)
for code, text in shown.iter_rows():
    print(f"  {code!r} is now {text!r}")
if missing.height:
    print(f"{missing.height} missing codes are now", end=" ")
    print(repr(missing["astype_str"][0]))
assert lost.height > 0
assert not any(text.startswith("0") for text in as_text)
assert (as_text == "nan").sum() == missing.height

# %%
for code in ("0389", "389"):
    print(f"{code:>4}  {icd9.title(code)}")

# %% [markdown]
# Read as a code, 389 is another disease: septicemia has become hearing
# loss. And "nan" is now a code that a model learns to predict. Whether
# this happens depends on the rest of the file,
# and on the reader. In a short file one V or E code keeps the whole column
# text. A reader that takes a long file in chunks decides for each chunk,
# and a chunk of digits alone loses its zeros. Leave nothing to such luck:
# read the column as text, then drop and count what is missing.
#
# The same code is also written in several ways. Here are some of this
# file that are not in normal form.

# %%
written = diagnoses["icd9_code"].drop_nulls()
for sign in (r"\.", "[a-z]", r"^\s|\s$"):
    odd = written.filter(written.str.contains(sign)).unique().sort()
    print(f"{len(odd)} spellings that match {sign}")
    for text in list(filter(icd9.is_code, odd))[:2]:
        print(f"  {text!r} is {icd9.normalize(text)}")


# %% [markdown]
# ### 08.2 Normalise an ICD-9 code
#
# Try It Yourself · ★ · 5 minutes
#
# `text` is a code as it stands in a file, or `None` where it is missing.
# Return it without its dot, without spaces around it and in upper case,
# with every digit kept. Return `None` for `None`.
#
# Example: `normalize_code(" e849.7 ")` is `"E8497"`.

# %% tags=["exercise:08.2", "nbval-ignore-output"]
def normalize_code(text: str | None) -> str | None:
    raise NotImplementedError("08.2: replace this line")


check("08.2", normalize_code)

# %% [markdown]
# ## From rows to visits
#
# Now the order. It is tempting to trust the file, or to sort by
# `HADM_ID`. How often does either give another order than time? (You had
# this file shuffled. Of a file from elsewhere you do not know.)

# %%
stays = (
    admissions.with_row_index("row")
    .sort("subject_id", "admittime")
    .group_by("subject_id", maintain_order=True)
    .agg("row", "hadm_id")
    .filter(pl.col("row").list.len() > 1)
)
print(f"{stays.height} patients have several stays; out of time order")
for column in ("row", "hadm_id"):
    unlike = sum(list(ids) != sorted(ids) for ids in stays[column])
    print(f"{unlike:4d} by {column}")
assert unlike > 0

# %% [markdown]
# `HADM_ID` was drawn at random when the data were de-identified. Time is
# in `ADMITTIME` and nowhere else. And before you sort, make sure of what
# you sort:

# %%
print(sorted(["1", "2", "10"]))
print("9/14/2101" < "10/2/2101")
print(datetime(2101, 9, 14) < datetime(2101, 10, 2))
long_stays = diagnoses.group_by("hadm_id").len().filter(pl.col("len") > 9)
print(f"stays with ten rows or more: {long_stays.height}")


# %% [markdown]
# Text compares character by character, numbers and times compare as what
# they are. MIMIC's own times are safe as text, for the year stands first
# and months have two digits. Open the file in a
# spreadsheet and save it, and they are safe no longer.
#
# ### 08.3 From rows to visits
#
# Try It Yourself · ★★ · 8 minutes
#
# Rows of one patient, saved by a spreadsheet; everything is text.
# `admissions` holds rows `(HADM_ID, ADMITTIME)`, with times like
# `"9/14/2101 17:05"`: month, day, year. `diagnoses` holds rows
# `(HADM_ID, SEQ_NUM, ICD9_CODE)`. Both come in any order, and two
# admissions can have the same time. Return the visits in time order, each
# a list of codes by rising `SEQ_NUM`. Leave out admissions without a
# diagnosis. `datetime.strptime` reads such a time.
#
# Example: `rows_to_visits([("118", "10/2/2101 9:30"), ("105",
# "9/14/2101 17:05")], [("118", "1", "5849"), ("105", "2", "4019"),
# ("105", "1", "4280")])` is `[["4280", "4019"], ["5849"]]`.

# %% tags=["exercise:08.3", "nbval-ignore-output"]
def rows_to_visits(
    admissions: list[tuple[str, str]],
    diagnoses: list[tuple[str, str, str]],
) -> list[list[str]]:
    raise NotImplementedError("08.3: replace this line")


check("08.3", rows_to_visits)

# %% [markdown]
# ### A patient from the tutorial
#
# The tutorial prints a loaded patient as an example: subject 10006, male,
# 86, with two admissions of 3 and 2 codes. In MIMIC-III that number
# belongs to somebody, and anyone can look: the demo is public.

# %% tags=["claim:10"]
claimed = ("M", 86, [3, 2])
found = next((r for r in cohort.records if r.subject_id == 10006), None)
if real and found is not None:
    visit_sizes = [len(visit.codes) for visit in found.visits]
    print(f"subject 10006: {found.sex}, {found.age}, {visit_sizes} codes")
    assert (found.sex, found.age) == ("F", 70)
    assert (found.sex, found.age, visit_sizes) != claimed
else:
    print("Not MIMIC-III: another hospital's 10006 is somebody else.")

# %% [markdown]
# In the MIMIC-III demo subject 10006 is a woman of 70: set
# `EHR_COURSE_DATA` to the demo's folder, and the cell asserts it. A
# printed example can be trusted when a cell prints it.

# %% [markdown]
# ## The category of a code
#
# A *category* is the level above a code: 428 for 428.0, heart failure of
# any kind. The tutorial takes `code[:3]`. Count the categories of this
# cohort both ways.

# %% tags=["claim:9"]
all_codes = {code for r in cohort.records for code in r.codes}
categories = {icd9.category(code) for code in all_codes}
by_three = {code[:3] for code in all_codes}
print(f"{len(categories)} categories, {len(by_three)} by [:3]")
lumped = {}
for category_ in sorted(categories):
    lumped.setdefault(category_[:3], []).append(category_)
lumped = {k: v for k, v in lumped.items() if len(v) > 1}
for three, members in list(lumped.items())[:4]:
    print(f"{three} lumps", *members)
assert len(by_three) < len(categories)
assert all(three.startswith("E") for three in lumped)

# %%
for member in next(iter(lumped.values()))[:3]:
    print(member, textwrap.shorten(icd9.title(member), 70))


# %% [markdown]
# E codes, the external causes of injury, have a letter and three digits
# before the dot. Three characters lump what does not belong together,
# and only E codes are concerned. The demo has 275 categories, and 263 by
# `[:3]`.
#
# ### 08.4 The category of a code
#
# Try It Yourself · ★ · 4 minutes
#
# `code` is a normalised code: undotted, in upper case. Return its
# category.
#
# Example: `category("E8497")` is `"E849"`.

# %% tags=["exercise:08.4", "nbval-ignore-output"]
def category(code: str) -> str:
    raise NotImplementedError("08.4: replace this line")


check("08.4", category)

# %% [markdown]
# ## Who is in the test?
#
# A model is measured on data that it has not seen. One document splits
# the *rows* at random, 80 to 10 to 10. Do that with the visits of this
# cohort. For how many patients does training see one visit, and the rest
# of the split another?

# %% tags=["claim:49"]
visits = [r.subject_id for r in cohort.records for _ in r.visits]
several = {s for s, count in Counter(visits).items() if count > 1}
random.Random(SEED).shuffle(visits)
end = round(0.8 * len(visits))
straddling = set(visits[:end]) & set(visits[end:])
print(f"{len(several)} patients have several visits with codes")
print(f"split by rows:    {len(straddling)} of them on both sides")

train, *others = split_by_patient(cohort.records, seed=SEED)
in_train = {r.subject_id for r in train}
leaked = {r.subject_id for part in others for r in part} & in_train
print(f"split by patient: {len(leaked)}")
assert straddling and straddling <= several and not leaked

# %% [markdown]
# Chronic diseases come back at every visit. A model that has seen the
# first visit of a patient in training can repeat its codes for the
# second, and the test calls that knowledge. So the *patients* are split,
# and every row follows its patient.
#
# The vocabulary is learned from data too. The tutorial builds it from
# all patients. Look at a small study, the first 500 patients:

# %% tags=["claim:8"]
study = cohort.records[:500]
study_train, *held_out = split_by_patient(study, seed=SEED)
of_all = CodeTokenizer.from_records(study)
of_train = CodeTokenizer.from_records(study_train)
only_held_out = set(of_all.codes) - set(of_train.codes)
print(f"{len(of_all.codes)} codes, {len(of_train.codes)} in training")
for code in sorted(only_held_out)[:3]:
    title = textwrap.shorten(icd9.title(code), 45)
    print(f"  never in training: {code} {title}")
unseen = of_train.unseen_codes(r for part in held_out for r in part)
assert only_held_out and set(unseen) == only_held_out

# %% [markdown]
# With the vocabulary of all patients, each of these codes gets an
# embedding that training never touches, and the test was looked at
# before it began. Built from the training split, the vocabulary does not
# know them, and you must say what happens then. `CodeTokenizer` has two
# answers: `unseen="raise"` stops, `unseen="skip"` leaves the code out, and
# `unseen_codes` counts how many that are.
#
# ### 08.5 Split by patient
#
# Try It Yourself · ★★ · 7 minutes
#
# `rows` is a list of `(subject_id, hadm_id, code)` in random order; a row
# can come twice. The test patients are the first `n_test` different
# patients that the rows name. Return three lists: the training rows and
# the test rows, each in the order of `rows` and with every row, and the
# vocabulary of the training rows, each code once and sorted.
#
# Example: `split_patients([(7, 1, "4280"), (3, 2, "486"), (7, 4,
# "0389")], 1)` gives `[(3, 2, "486")]`, then `[(7, 1, "4280"), (7, 4,
# "0389")]`, then `["486"]`.

# %% tags=["exercise:08.5", "nbval-ignore-output"]
Row = tuple[int, int, str]  # subject_id, hadm_id, code


def split_patients(
    rows: list[Row], n_test: int
) -> tuple[list[Row], list[Row], list[str]]:
    raise NotImplementedError("08.5: replace this line")


check("08.5", split_patients)

# %% [markdown]
# ## What was dropped, and why
#
# You loaded with `malformed="drop"`. Without it the loader stops at the
# first value that cannot be right, and says where it stands.

# %%
try:
    load_mimic3(folder)
    print("Nothing malformed in these tables.")
except InputError as error:
    print(textwrap.fill(str(error), 75))

# %% [markdown]
# With it, every row is used, or dropped for one stated reason. The cohort
# carries the account.

# %%
cohort.report

# %%
for table in cohort.report.tables:
    assert table.rows_read == table.rows_used + table.rows_dropped
    print(f"{table.name}: {table.rows_used:,} of {table.rows_read:,} used")

# %% [markdown]
# Is the account right? For the embedded hospital you know, because you
# planted the dirt yourself. Each row that was planted must come back under
# one reason, and the two diagnoses of each stay of nobody with it. The
# respelled codes must be counted apart. And the patients must be those who
# were written, to the last code.

# %%
reason_of = {
    "missing": "no code",
    "malformed": "a code of the wrong shape",
    "duplicates": "repeats an earlier row",
    "empty_admissions": "no diagnosis",
    "unknown_patients": "its patient is in no table",
    "unknown_admissions": "its admission is in no table",
    "diagnoses_of_unknown_patients": "its admission was dropped",
}
dropped = Counter()
for (_, reason), count in cohort.report.dropped.items():
    dropped[reason] += count

# %%
if real:
    print("Nothing was planted in these tables.")
else:
    print("planted, dropped")
    for kind, reason in reason_of.items():
        print(f"{planted.counts[kind]:7}, {dropped[reason]:7}  {reason}")
        assert planted.counts[kind] == dropped[reason]
    assert set(dropped) == set(reason_of.values())
    respelled = dirt.dotted + dirt.lower_case + dirt.padded
    counted = cohort.report.changed[Change.CODE_RESPELLED]
    print(f"{respelled:7}, {counted:7}  respelled, and kept")
    assert respelled == counted
    assert list(cohort.records) == made
    print("All patients are as they were written.")


# %% [markdown]
# ### 08.6 Count and report what was dropped
#
# Try It Yourself · ★★ · 7 minutes
#
# `rows` is a list of `(hadm_id, code)`, and `known_admissions` a list of
# `hadm_id`s. Drop a row for the first of these reasons that applies:
# `"no code"` (the code is `None` or an empty text), `"unknown admission"`
# (its `hadm_id` is not known), `"repeated"` (an equal row was kept
# before). Return the kept rows in their order, and a dictionary from each
# of the three reasons to the number of rows it cost, 0 included.
#
# Example: `count_dropped([(1, "486"), (1, None), (1, "486")], [1])` gives
# `[(1, "486")]` and
# `{"no code": 1, "unknown admission": 0, "repeated": 1}`.

# %% tags=["exercise:08.6", "nbval-ignore-output"]
def count_dropped(
    rows: list[tuple[int, str | None]], known_admissions: list[int]
) -> tuple[list[tuple[int, str]], dict[str, int]]:
    raise NotImplementedError("08.6: replace this line")


check("08.6", count_dropped)

# %% [markdown]
# ## See it
#
# One patient's time line, a row for each chapter of ICD-9. Ask for more
# visits with the first slider, and choose a patient with the second.
# A row with a mark at every visit may be one chronic disease, or several
# of the same chapter.

# %% tags=["widget"]
timeline_explorer(cohort.records, least_visits=2)

# %% [markdown]
# ## Other hospitals, other files
#
# MEDS, the Medical Event Data Standard, is a format that many tools share:
# one table of events, in parquet files called shards. The records do not
# depend on where they came from. Write some of them as MEDS, load them
# again, and compare. `load` looks at a folder and chooses the loader.

# %%
some = cohort.records[:300]
with tempfile.TemporaryDirectory() as place:
    write_meds(some, Path(place) / "meds")
    shards = len(list(Path(place).rglob("data/**/*.parquet")))
    again = load(Path(place) / "meds")
print(f"{shards} shard, {again}")
assert again.records == some

# %% [markdown]
# `load_mimic4` reads MIMIC-IV. Two things are new there. It has no date
# of birth, but an age in one year (`anchor_age`, `anchor_year`), so an
# age at admission can be off by one. And since the hospital changed to
# ICD-10, both classifications stand in one table: a column
# `icd_version` tells them apart, and `load_mimic4(folder, icd_version=9)`
# keeps one and counts the other as dropped.
#
# ## Recap
#
# - **The age** is the number of completed years on the day of the first
#   admission; every age above 89 is 90, the births of 300 years ago
#   included.
# - **A code** is text: without dot, without spaces, in upper case, with
#   its leading zero and its letter.
# - **Order** comes from admission times read as times and sequence
#   numbers read as numbers, never from ids or the file.
# - **A split** is made among patients; the vocabulary comes from the
#   training split, and unseen codes follow a stated rule.
# - **The report** gives every row one place: used, or dropped for one
#   reason, and the counts add up.
#
# ## Test yourself
#
# 1. A patient is born on 9 October 2044 and admitted on 5 March 2101. What
#    does the difference of the years say, and what is the age?
#
# <details><summary>Answer</summary>
# The difference is 57, the age 56: the birthday is still to come.
# </details>
#
# 2. A table has 1,000 rows. The report says 990 were kept, 8 had no code
#    and 4 were repeated. What do you know?
#
# <details><summary>Answer</summary>
# The report is wrong: 990 + 8 + 4 is 1,002. It places two rows too many.
# </details>
#
# 3. Somebody tests a model on visits drawn at random, and it predicts
#    diabetes astonishingly well. What do you ask first?
#
# <details><summary>Answer</summary>
# Whether other visits of the same patients were in training. Diabetes
# stays: remembering the patient is enough.
# </details>
#
# ## What comes next
#
# [Lesson 09](09_corruption.ipynb) corrupts these records on purpose, so
# that a model can learn to repair them. [Lesson 00](00_start_here.ipynb)
# has the map of the course, and `progress()` shows where you stand.
