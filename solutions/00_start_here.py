# %% [markdown]
# # 00 · Start here: worked answers
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
from itertools import combinations

from ehr_course.exercises import check, examine


# %% [markdown]
# ## 00.1 How many different codes?
#
# A set keeps each element once. Adding the codes of every visit to one
# set leaves each code of the patient there exactly once, whatever visit
# it came from.

# %% tags=["answer:00.1", "nbval-ignore-output"]
def count_codes(visits):
    seen = set()
    for visit in visits:
        seen.update(visit)
    return len(seen)


check("00.1", count_codes)


# %% [markdown]
# The alternative says the same in one expression.

# %% tags=["alternative:00.1", "nbval-ignore-output"]
def count_codes(visits):
    return len({code for visit in visits for code in visit})


check("00.1", count_codes)


# %% [markdown]
# ### Four outcomes, side by side
#
# `examine` does what `check` does and leaves your progress alone. Here
# it meets a stub, a wrong answer, a mistake in the code, and a right
# answer.

# %%
def untouched(visits):
    raise NotImplementedError


examine("00.1", untouched, seed=0)

# %%
examine("00.1", len, seed=0)


# %%
def misspelt(visits):
    return len(visits.codes)


examine("00.1", misspelt, seed=0)

# %%
examine("00.1", count_codes, seed=0)


# %% [markdown]
# ## 00.2 How few diagnoses single out a person?
#
# Nobody knows beforehand which codes are the telling ones, and the
# rarest need not be among them: two codes single a person out if nobody
# *else who has the one* has the other. So try every choice of one code,
# then every choice of two, and so on. The first size with a choice that
# fits nobody else is the smallest. The other patients are told by their
# place in the list, because a twin has the very same codes.

# %% tags=["answer:00.2", "nbval-ignore-output"]
def fewest_codes(patients, i):
    mine = patients[i]
    others = patients[:i] + patients[i + 1 :]
    for k in range(1, len(mine) + 1):
        for known in combinations(mine, k):
            fits = [set(known) <= set(other) for other in others]
            if not any(fits):
                return k
    return 0


check("00.2", fewest_codes)


# %% [markdown]
# The alternative thinks of the stranger. Each group holds the patients
# that still fit what the stranger knows. One more code makes each group
# smaller, and the search ends when one of them is empty.

# %% tags=["alternative:00.2", "nbval-ignore-output"]
def fewest_codes(patients, i):
    groups = {frozenset(j for j in range(len(patients)) if j != i)}
    for k in range(1, len(patients[i]) + 1):
        groups = {
            frozenset(j for j in group if code in patients[j])
            for group in groups
            for code in patients[i]
        }
        if frozenset() in groups:
            return k
    return 0


check("00.2", fewest_codes)
