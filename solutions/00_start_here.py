# %% [markdown]
# # 00 · Start here: worked answers
#
# One answer and one alternative for each exercise, with the reason.
# Compare them with your own after you have tried.

# %%
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
