# %% [markdown]
# # 20 · Your own study: worked answers
#
# Two studies, each on a question of its own. Yours asks another question,
# so do not compare answers. Compare how a field is filled in, and what a
# report dares to say.

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
import torch

from ehr_course import (
    CodeNetwork, lose_one, make_cohort, share_found, split_by_patient,
    what_is_shown, which_found,
)
from ehr_course.exercises import check

torch.set_num_threads(1)
SEED = 0


def drawn_again(models, baselines, cases):
    """The interval of the difference, as in the lesson."""
    found = [
        torch.stack([which_found(one, cases) for one in side]).mean(dim=0)
        for side in (models, baselines)
    ]
    torch.manual_seed(SEED)
    groups = torch.randint(len(cases), (2_000, len(cases)))
    means = (found[0] - found[1])[groups].mean(dim=1)
    return tuple(means.quantile(torch.tensor([0.025, 0.975])).tolist())


# %% [markdown]
# ## 20.1 Your own study
#
# Does the network need so many patients? Model and baseline are the same
# recipe, trained on all training patients and on every fourth of them.
# The patients are new ones: those of the lesson have judged already. One
# line makes all scores of a side, and the finding is computed from them, so
# that it would also be right if the scores came out otherwise.

# %% tags=["answer:20.1", "nbval-ignore-output"]
patients = make_cohort(1_000, seed=SEED + 300)
mine = split_by_patient(patients, fractions=(0.7, 0.1, 0.2), seed=SEED)
cases = lose_one(mine.test, seed=SEED)
seeds = [0, 1, 2, 3]
quarter = mine.train[::4]
of_many = [CodeNetwork(mine.train, seed=seed) for seed in seeds]
of_few = [CodeNetwork(quarter, seed=seed) for seed in seeds]
many = [share_found(network, cases) for network in of_many]
few = [share_found(network, cases) for network in of_few]
interval = drawn_again(of_many, of_few, cases)

study_of_mine = {
    "question": {
        "text": "Does a network find more lost codes if it is trained on"
        " four times as many patients?",
        "measure": "share of lost codes among ten suggestions",
        "better": "higher",
    },
    "data": {"source": "embedded hospital", **mine._asdict()},
    "model": {"name": f"trained on {len(mine.train)}", "scores": many},
    "baseline": {"name": f"trained on {len(quarter)}", "scores": few},
    "seeds": seeds,
    "report": {
        "finding": what_is_shown(many, few, "higher", interval),
        "interval": interval,
        "text": f"With all patients it found {min(many):.1%} to"
        f" {max(many):.1%} of the lost codes, with a quarter of them"
        f" {min(few):.1%} to {max(few):.1%}.",
    },
    "limits": [
        "The patients are invented, and their codes follow simple rules.",
        "Both networks took the same steps, so the small one saw each of"
        " its patients just as often, which may not suit it best.",
        "Two sizes of the training part do not make a curve.",
    ],
}

check("20.1", study_of_mine)

# %% [markdown]
# The second study asks whether the network finds more when it also reads
# age and sex. The interval ends near zero, and the scores overlap, so the
# finding is "not shown": a study is complete without a success. The report
# does not say that age and sex are useless, for other codes may already tell
# what they would.

# %% tags=["alternative:20.1", "nbval-ignore-output"]
patients = make_cohort(1_000, seed=SEED + 200)
mine = split_by_patient(patients, fractions=(0.7, 0.1, 0.2), seed=SEED)
cases = lose_one(mine.test, seed=SEED)
networks = {
    reads: [
        CodeNetwork(mine.train, seed=seed, age_and_sex=reads)
        for seed in range(5)
    ]
    for reads in (True, False)
}
scores = {
    reads: [share_found(network, cases) for network in of_it]
    for reads, of_it in networks.items()
}
interval = drawn_again(networks[True], networks[False], cases)
finding = what_is_shown(scores[True], scores[False], "higher", interval)

study_of_mine = {
    "question": {
        "text": "Does a network find more lost codes if it also reads age"
        " and sex?",
        "measure": "share of lost codes among ten suggestions",
        "better": "higher",
    },
    "data": {"source": "embedded hospital", **mine._asdict()},
    "model": {"name": "network, with age and sex", "scores": scores[True]},
    "baseline": {"name": "network, codes alone", "scores": scores[False]},
    "seeds": list(range(5)),
    "report": {
        "finding": finding,
        "interval": interval,
        "text": f"With five seeds each and {len(cases)} test patients,"
        f" the effect of reading age and sex is: {finding}.",
    },
    "limits": [
        "With these few patients a small difference would not be seen.",
        "The patients are invented, and their codes follow simple rules.",
    ],
}

check("20.1", study_of_mine)
