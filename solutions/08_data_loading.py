# %% [markdown]
# # 08 · Data loading: worked answers
#
# One answer and one alternative for each exercise, with the reason.
# Compare them with your own after you have tried.

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

# %%
import random
from datetime import datetime
from itertools import groupby

from ehr_course.exercises import check


# %% [markdown]
# ## 08.1 Age at the first admission
#
# The difference of the years is right once the birthday has been. Before
# it, it is one too large. Month and day decide, compared as a pair, so
# that days only count within a month. The pair (2, 29) is greater than
# (2, 28) and less than (3, 1): someone born on a leap day completes
# the year on 1 March, without a word about it in the code. The limit
# comes last, and makes 90 of the 300 years of a moved birth as well.

# %% tags=["answer:08.1", "nbval-ignore-output"]
def age_at_admission(born, admitted):
    years = admitted.year - born.year
    birthday = (born.month, born.day)
    if (admitted.month, admitted.day) < birthday:
        years -= 1
    return min(years, 90)


check("08.1", age_at_admission)


# %% [markdown]
# Written as the number 21010305, a date can be subtracted: the last four
# digits borrow a year exactly when the birthday is still to come.

# %% tags=["alternative:08.1", "nbval-ignore-output"]
def age_at_admission(born, admitted):
    def as_number(day):
        return day.year * 10_000 + day.month * 100 + day.day

    years = (as_number(admitted) - as_number(born)) // 10_000
    return years if years < 90 else 90


check("08.1", age_at_admission)


# %% [markdown]
# ## 08.2 Normalise an ICD-9 code
#
# A code is text from the file to the model: nothing here ever makes a
# number of it, so the leading zero cannot get lost.

# %% tags=["answer:08.2", "nbval-ignore-output"]
def normalize_code(text):
    if text is None:
        return None
    code = text.strip()
    code = code.replace(".", "")
    return code.upper()


check("08.2", normalize_code)


# %% [markdown]
# The alternative says what to keep instead of what to remove.

# %% tags=["alternative:08.2", "nbval-ignore-output"]
def normalize_code(text):
    if text is not None:
        return "".join(c for c in text if c.isalnum()).upper()


check("08.2", normalize_code)


# %% [markdown]
# ## 08.3 From rows to visits
#
# Times are read into `datetime` and sequence numbers into `int` before
# anything is compared. The dictionary knows only admissions that have a
# diagnosis, so the others leave no empty visit behind.

# %% tags=["answer:08.3", "nbval-ignore-output"]
def rows_to_visits(admissions, diagnoses):
    def time(row):
        return datetime.strptime(row[1], "%m/%d/%Y %H:%M")

    def importance(row):
        return int(row[1])

    codes_of = {}
    for hadm_id, _, code in sorted(diagnoses, key=importance):
        codes_of.setdefault(hadm_id, []).append(code)
    visits = []
    for hadm_id, _ in sorted(admissions, key=time):
        if hadm_id in codes_of:
            visits.append(codes_of[hadm_id])
    return visits


check("08.3", rows_to_visits)


# %% [markdown]
# The alternative gives every diagnosis the time of its admission, sorts
# once by time and number, and cuts where the admission changes. The
# loader of this course works that way: one sort, however many patients.

# %% tags=["alternative:08.3", "nbval-ignore-output"]
def rows_to_visits(admissions, diagnoses):
    time_of = {}
    for hadm_id, text in admissions:
        time_of[hadm_id] = datetime.strptime(text, "%m/%d/%Y %H:%M")
    rows = []
    for hadm_id, seq_num, code in diagnoses:
        rows.append((time_of[hadm_id], hadm_id, int(seq_num), code))
    rows.sort()
    visits = groupby(rows, key=lambda row: row[1])
    return [[code for *_, code in visit] for _, visit in visits]


check("08.3", rows_to_visits)


# %% [markdown]
# ## 08.4 Split by patient
#
# The test patients are drawn from the list of patients, where everybody
# stands once however many rows they have. After that each row goes where
# its patient is. The vocabulary comes from the training rows alone.

# %% tags=["answer:08.4", "nbval-ignore-output"]
def split_patients(rows, n_test, seed):
    patients = sorted({row[0] for row in rows})
    chosen = set(random.Random(seed).sample(patients, n_test))
    train = [row for row in rows if row[0] not in chosen]
    test = [row for row in rows if row[0] in chosen]
    vocabulary = sorted({row[2] for row in train})
    return train, test, vocabulary


check("08.4", split_patients)


# %% [markdown]
# The alternative collects the rows of each patient first, so that it also
# has them at hand patient by patient.

# %% tags=["alternative:08.4", "nbval-ignore-output"]
def split_patients(rows, n_test, seed):
    places_of = {}
    for i, row in enumerate(rows):
        places_of.setdefault(row[0], []).append(i)
    random.seed(seed)
    train_places = set(range(len(rows)))
    for subject_id in random.sample(sorted(places_of), n_test):
        train_places.difference_update(places_of[subject_id])
    train, test = [], []
    for i, row in enumerate(rows):
        (train if i in train_places else test).append(row)
    vocabulary = []
    for *_, code in sorted(train, key=lambda row: row[2]):
        if code not in vocabulary:
            vocabulary.append(code)
    return train, test, vocabulary


check("08.4", split_patients)


# %% [markdown]
# ## 08.5 Count and report what was dropped
#
# One chain of conditions gives each row to exactly one place. So the
# rows that were kept and the counts add up to the rows of the file, and
# anyone can check that.

# %% tags=["answer:08.5", "nbval-ignore-output"]
def count_dropped(rows, known_admissions):
    dropped = {"no code": 0, "unknown admission": 0, "repeated": 0}
    kept = []
    for hadm_id, code in rows:
        if code is None or code == "":
            dropped["no code"] += 1
        elif hadm_id not in known_admissions:
            dropped["unknown admission"] += 1
        elif (hadm_id, code) in kept:
            dropped["repeated"] += 1
        else:
            kept.append((hadm_id, code))
    return kept, dropped


check("08.5", count_dropped)


# %% [markdown]
# The alternative removes one kind of row after the other and counts what
# each step took away. A dictionary finds a repetition in constant time,
# where the list above is searched from its start for every row.

# %% tags=["alternative:08.5", "nbval-ignore-output"]
def count_dropped(rows, known_admissions):
    known = set(known_admissions)
    coded = [row for row in rows if row[1]]
    placed = [row for row in coded if row[0] in known]
    kept = list(dict.fromkeys(placed))
    return kept, {
        "no code": len(rows) - len(coded),
        "unknown admission": len(coded) - len(placed),
        "repeated": len(placed) - len(kept),
    }


check("08.5", count_dropped)


# %% [markdown]
# ## 08.6 One person, several numbers
#
# People grow while you read: a person is a set of numbers with the
# cards that they have shown. A new registration belongs to every
# person who has shown one of its cards. If there are two of them,
# they were one person all along, and become one now. A missing card
# is not shown, so it ties nobody to anybody. The kind of the card is
# part of its name, since the two kinds are numbered independently.

# %% tags=["answer:08.6", "nbval-ignore-output"]
def find_people(registrations):
    people = []
    for subject_id, insurance, id_card in registrations:
        numbers, shown = {subject_id}, set()
        if insurance is not None:
            shown.add(("insurance", insurance))
        if id_card is not None:
            shown.add(("id_card", id_card))
        others = []
        for person in people:
            if person[1] & shown:
                numbers |= person[0]
                shown |= person[1]
            else:
                others.append(person)
        people = [*others, (numbers, shown)]
    return sorted(sorted(numbers) for numbers, _ in people)


check("08.6", find_people)


# %% [markdown]
# The alternative looks at numbers and cards as the points of a graph,
# with a line for each card that was shown. A person is what can be
# reached from one point, so it walks until nothing new is in reach. It
# looks at each registration a few times however many there are, where the
# answer above compares each with all people found before.

# %% tags=["alternative:08.6", "nbval-ignore-output"]
def find_people(registrations):
    cards_of, shown_by = {}, {}
    for subject_id, *numbers in registrations:
        cards = [d for d in enumerate(numbers) if d[1] is not None]
        cards_of[subject_id] = cards
        for card in cards:
            shown_by.setdefault(card, []).append(subject_id)
    people, seen = [], set()
    for start in sorted(cards_of):
        person, waiting = [], [start]
        while waiting:
            subject_id = waiting.pop()
            if subject_id not in seen:
                seen.add(subject_id)
                person.append(subject_id)
                for card in cards_of[subject_id]:
                    waiting += shown_by[card]
        if person:
            people.append(sorted(person))
    return people


check("08.6", find_people)


# %% [markdown]
# ## 08.7 What came back
#
# For each pair of codes one of three rules holds. Within a version the
# texts must agree. Across versions the mapping is asked, and always about
# the ICD-9 code, whichever of the visits it comes from. A code counts once,
# however many codes it meets, and all codes of the earlier visit are
# counted below, those without an equivalent as well.

# %% tags=["answer:08.7", "nbval-ignore-output"]
def carried_over(earlier, later, to_icd10):
    back = 0
    for code, version in earlier:
        for other, other_version in later:
            if version == other_version:
                same = code == other
            elif version == 9:
                same = other in to_icd10.get(code, ())
            else:
                same = code in to_icd10.get(other, ())
            if same:
                back += 1
                break
    return back / len(earlier)


check("08.7", carried_over)


# %% [markdown]
# The alternative turns the mapping around once, so that it can be read in
# both directions. It then lists all that would count as a return: the later
# codes with their versions, and what these are called in the other version.

# %% tags=["alternative:08.7", "nbval-ignore-output"]
def carried_over(earlier, later, to_icd10):
    from_icd10 = {}
    for old, possible in to_icd10.items():
        for new in possible:
            from_icd10.setdefault(new, set()).add(old)
    welcome = set(later)
    for code, version in later:
        if version == 9:
            welcome |= {(new, 10) for new in to_icd10.get(code, ())}
        else:
            welcome |= {(old, 9) for old in from_icd10.get(code, ())}
    return sum(code in welcome for code in earlier) / len(earlier)


check("08.7", carried_over)
