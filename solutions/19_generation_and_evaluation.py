# %% [markdown]
# # 19 · Generation and evaluation: worked answers
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
import math
from collections.abc import Callable
from statistics import fmean

import numpy as np
import torch
from torch import Tensor

from ehr_course import icd9
from ehr_course.exercises import check


# %% [markdown]
# ## 19.1 Top-k and top-p
#
# Each step changes what the next one sees. The temperature acts on the
# logits. Top-k leaves the k greatest; minus infinity becomes probability
# 0, and the others sum to 1 again. Then a token is dropped if those
# before it, the likelier ones, have p together without it.

# %% tags=["answer:19.1", "nbval-ignore-output"]
def to_draw_from(
    logits: Tensor, temperature: float, k: int, p: float
) -> Tensor:
    logits = logits / temperature
    if k > 0:
        smallest = logits.topk(k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < smallest, -math.inf)
    probs = logits.softmax(dim=-1)
    likeliest, order = probs.sort(dim=-1, descending=True)
    before = likeliest.cumsum(dim=-1) - likeliest
    kept = likeliest.masked_fill(before >= p, 0.0)
    kept = torch.zeros_like(probs).scatter(-1, order, kept)
    return kept / kept.sum(dim=-1, keepdim=True)


check("19.1", to_draw_from)


# %% [markdown]
# Row by row, with a list of what is kept: slower, and nearer to the words
# of the task.

# %% tags=["alternative:19.1", "nbval-ignore-output"]
def to_draw_from(
    logits: Tensor, temperature: float, k: int, p: float
) -> Tensor:
    rows = []
    for row in logits.double() / temperature:
        ids = row.argsort(descending=True).tolist()
        ids = ids[:k] if k else ids
        probs = dict(zip(ids, row[ids].softmax(0).tolist(), strict=True))
        kept, total = {}, 0.0
        for token in ids:
            if total < p:
                kept[token] = probs[token]
                total += probs[token]
        rows.append([kept.get(i, 0.0) / total for i in range(len(row))])
    return torch.tensor(rows)


check("19.1", to_draw_from)


# %% [markdown]
# ## 19.2 The distance between code distributions
#
# Both are compared with the distribution half way between them, which is
# 0 nowhere where one of them is not. So nothing is infinite, and nothing
# has to be added to a count. Codes with the share 0 leave the sum: a share
# times its logarithm goes to 0 with the share.

# %% tags=["answer:19.2", "nbval-ignore-output"]
def distance_of_codes(real: np.ndarray, synthetic: np.ndarray) -> float:
    p, q = real / real.sum(), synthetic / synthetic.sum()
    m = (p + q) / 2
    divergence = 0.0
    for share in (p, q):
        seen = share > 0
        terms = share[seen] * np.log2(share[seen] / m[seen])
        divergence += terms.sum() / 2
    return math.sqrt(divergence)


check("19.2", distance_of_codes)


# %% [markdown]
# The same by entropies: that of the mean, minus the mean of the two. It
# is how many bits a code tells of the cohort that it comes from.

# %% tags=["alternative:19.2", "nbval-ignore-output"]
def distance_of_codes(real: np.ndarray, synthetic: np.ndarray) -> float:
    def entropy(shares):
        return -sum(s * math.log2(s) for s in shares if s > 0)

    p, q = real / real.sum(), synthetic / synthetic.sum()
    own = (entropy(p) + entropy(q)) / 2
    return math.sqrt(max(0.0, entropy((p + q) / 2) - own))


check("19.2", distance_of_codes)


# %% [markdown]
# ## 19.3 Medical validity
#
# Three questions, three denominators. Every code counts in the first one,
# also a code that no rule speaks of. Visits and patients count once, no
# matter how many impossible codes they have.

# %% tags=["answer:19.3", "nbval-ignore-output"]
def impossible_shares(
    patients: list[tuple[int, str, list[list[str]]]],
) -> tuple[float, float, float]:
    codes, visits, people = [], [], []
    for age, sex, history in patients:
        mine = []
        for visit in history:
            flags = []
            for code in visit:
                why = icd9.why_impossible(code, age=age, sex=sex)
                flags.append(why is not None)
            codes += flags
            mine.append(any(flags))
        visits += mine
        people.append(any(mine))
    return fmean(codes), fmean(visits), fmean(people)


check("19.3", impossible_shares)


# %% [markdown]
# The rules themselves can be asked as well: who can have this code?

# %% tags=["alternative:19.3", "nbval-ignore-output"]
def impossible_shares(
    patients: list[tuple[int, str, list[list[str]]]],
) -> tuple[float, float, float]:
    def ruled_out(code, age, sex):
        who = icd9.who_can_have(code)
        if who is None:
            return False
        fits = who.min_age <= age <= who.max_age
        return not fits or who.sex not in (None, sex)

    counts = [[0, 0], [0, 0], [0, 0]]
    for age, sex, history in patients:
        found = [
            [ruled_out(code, age, sex) for code in visit]
            for visit in history
        ]
        flat = [flag for visit in found for flag in visit]
        levels = flat, [any(v) for v in found], [any(flat)]
        for count, flags in zip(counts, levels, strict=True):
            count[0] += sum(flags)
            count[1] += len(flags)
    return tuple(bad / n for bad, n in counts)


check("19.3", impossible_shares)


# %% [markdown]
# ## 19.4 Perplexity without a leak
#
# Visit t is predicted from the visits before it, `visits[:t]`, and for the
# first one that is nothing. The values of codes and of whole visits are
# collected over all patients, and one mean is taken of each.

# %% tags=["answer:19.4", "nbval-ignore-output"]
def perplexities(
    log_probs: Callable[[list[list[str]], list[str]], list[float]],
    patients: list[list[list[str]]],
) -> tuple[float, float]:
    of_codes, of_visits = [], []
    for visits in patients:
        for t, visit in enumerate(visits):
            scores = log_probs(visits[:t], visit)
            of_codes += scores[:-1]
            of_visits.append(sum(scores))
    per_code = math.exp(-fmean(of_codes))
    per_visit = math.exp(-fmean(of_visits))
    return per_code, per_visit


check("19.4", perplexities)


# %% [markdown]
# Sums and counts do as well, and need no lists.

# %% tags=["alternative:19.4", "nbval-ignore-output"]
def perplexities(
    log_probs: Callable[[list[list[str]], list[str]], list[float]],
    patients: list[list[list[str]]],
) -> tuple[float, float]:
    nats = {"codes": 0.0, "visits": 0.0}
    count = {"codes": 0, "visits": 0}
    for visits in patients:
        known = []
        for visit in visits:
            *codes, end = log_probs(known, visit)
            nats["codes"] -= sum(codes)
            nats["visits"] -= sum(codes) + end
            count["codes"] += len(codes)
            count["visits"] += 1
            known = [*known, visit]
    return tuple(math.exp(nats[name] / count[name]) for name in nats)


check("19.4", perplexities)


# %% [markdown]
# ## 19.5 Nearest neighbours and membership
#
# One function gives the distance to the nearest of another cohort. Inside
# one cohort the diagonal holds each patient's distance to themselves, and
# is set to infinity: a twin at another place stays. The AUROC is a share
# of pairs, so it needs no curve.

# %% tags=["answer:19.5", "nbval-ignore-output"]
def nearest_and_membership(
    train: np.ndarray, held_out: np.ndarray, synthetic: np.ndarray
) -> tuple[float, float]:
    def nearest(a, b, alone=False):
        shared = a @ b.T  # codes in common, (patients of a, of b)
        either = a.sum(axis=1)[:, None] + b.sum(axis=1) - shared
        distances = 1 - shared / either
        if alone:
            np.fill_diagonal(distances, np.inf)
        return distances.min(axis=1)

    def share_nearer(own, other):
        return ((own < other) + 0.5 * (own == other)).mean()

    to_synthetic = nearest(train, synthetic)
    real_side = share_nearer(nearest(train, train, True), to_synthetic)
    of_synthetic = nearest(synthetic, synthetic, True)
    written_side = share_nearer(of_synthetic, nearest(synthetic, train))
    accuracy = (real_side + written_side) / 2
    others = nearest(held_out, synthetic)
    auroc = share_nearer(to_synthetic[:, None], others)
    return accuracy, auroc


check("19.5", nearest_and_membership)


# %% [markdown]
# With sets and loops, one patient at a time.

# %% tags=["alternative:19.5", "nbval-ignore-output"]
def nearest_and_membership(
    train: np.ndarray, held_out: np.ndarray, synthetic: np.ndarray
) -> tuple[float, float]:
    train, held_out, synthetic = (
        [set(np.flatnonzero(row).tolist()) for row in part]
        for part in (train, held_out, synthetic)
    )

    def nearest(one, others):
        return min(1 - len(one & b) / len(one | b) for b in others)

    def win(near, far):
        return 1.0 if near < far else 0.5 if near == far else 0.0

    def side(own, other):
        wins = []
        for i, one in enumerate(own):
            rest = own[:i] + own[i + 1 :]
            wins.append(win(nearest(one, rest), nearest(one, other)))
        return fmean(wins)

    accuracy = (side(train, synthetic) + side(synthetic, train)) / 2
    members = [nearest(one, synthetic) for one in train]
    others = [nearest(one, synthetic) for one in held_out]
    pairs = [win(m, o) for m in members for o in others]
    return accuracy, fmean(pairs)


check("19.5", nearest_and_membership)


# %% [markdown]
# ## 19.6 A report on a synthetic cohort
#
# A nan comes first, because each comparison with it is false. Then the
# interval is held against the floor, and only where it misses the floor
# the direction matters. A use has to be shown to be safe: it needs a
# measure at least, and a good verdict for each that it names.

# %% tags=["answer:19.6", "nbval-ignore-output"]
def report_on(
    measures: list[tuple[str, float, float, float, float, str]],
    uses: dict[str, list[str]],
) -> tuple[dict[str, str], list[str]]:
    verdicts = {}
    for name, value, low, high, floor, better in measures:
        above = low > floor
        if any(math.isnan(x) for x in (value, low, high, floor)):
            said = "too few to say"
        elif low <= floor <= high:
            said = "at the floor"
        elif better != "near" and above == (better == "high"):
            said = "better than the floor"
        else:
            said = "worse than the floor"
        verdicts[name] = said
    good = "at the floor", "better than the floor"
    forbidden = []
    for use, names in uses.items():
        allowed = [verdicts.get(name) in good for name in names]
        if not allowed or not all(allowed):
            forbidden.append(use)
    return verdicts, forbidden


check("19.6", report_on)


# %% [markdown]
# The same with a table of what each side of the floor means.

# %% tags=["alternative:19.6", "nbval-ignore-output"]
def report_on(
    measures: list[tuple[str, float, float, float, float, str]],
    uses: dict[str, list[str]],
) -> tuple[dict[str, str], list[str]]:
    sides = {  # an interval above the floor, and one below
        "low": ("worse", "better"),
        "high": ("better", "worse"),
        "near": ("worse", "worse"),
    }

    def verdict(value, low, high, floor, better):
        if math.isnan(value + low + high + floor):
            return "too few to say"
        if floor < low or floor > high:
            return sides[better][floor > high] + " than the floor"
        return "at the floor"

    verdicts = {name: verdict(*rest) for name, *rest in measures}
    bad = {None, "too few to say", "worse than the floor"}
    forbidden = [
        use
        for use, names in uses.items()
        if not names or bad & {verdicts.get(name) for name in names}
    ]
    return verdicts, forbidden


check("19.6", report_on)


# %% [markdown]
# ## 19.7 What may come next?
#
# One question answers all the others: how many tokens does it take at
# least to finish the record? Inside a visit that is each code that is
# still missing, the end of the visit and the end of the record. Outside,
# something missing costs a new visit with its two markers. A token may come if
# the grammar has it here and the shortest ending after it still fits.

# %% tags=["answer:19.7", "nbval-ignore-output"]
def may_come_next(
    written: list[str], codes: list[str], needed: list[str], most: int
) -> set[str]:
    def is_open(tokens):
        return tokens.count("<v>") > tokens.count("<\\v>")

    def shortest_end(tokens):
        if tokens[-1] == "<EOS>":
            return 0
        missing = len(set(needed) - set(tokens))
        if is_open(tokens):
            empty = tokens[-1] == "<v>"
            return max(missing, int(empty)) + 2  # its end, the end
        if missing or tokens == ["<BOS>"]:
            return max(missing, 1) + 3  # a visit, its end, the end
        return 1

    if is_open(written):
        start = len(written) - written[::-1].index("<v>")
        visit = written[start:]
        found = set(codes) - set(visit)
        if visit:
            found.add("<\\v>")
    else:
        found = {"<v>"}
        if len(written) > 1 and set(needed) <= set(written):
            found.add("<EOS>")
    room = most - len(written) - 1
    return {t for t in found if shortest_end([*written, t]) <= room}


check("19.7", may_come_next)


# %% [markdown]
# The other way is to try: a token may come if some way to go on ends the
# record in time. That needs no formula. Only the state is remembered, so that
# nothing is tried twice.

# %% tags=["alternative:19.7", "nbval-ignore-output"]
def may_come_next(
    written: list[str], codes: list[str], needed: list[str], most: int
) -> set[str]:
    tried = {}

    def follow(visit, begun, missing):
        """What the grammar has here, and the state behind each token."""
        if visit is None:
            if begun and not missing:
                yield "<EOS>", None
            yield "<v>", (frozenset(), begun, missing)
            return
        if visit:
            yield "<\\v>", (None, True, missing)
        for code in codes:
            if code not in visit:
                yield code, (visit | {code}, begun, missing - {code})

    def ends(state, room):
        if state is None:
            return room >= 0
        if room <= 0:
            return False
        if (state, room) not in tried:
            after = [next_state for _, next_state in follow(*state)]
            tried[state, room] = any(ends(s, room - 1) for s in after)
        return tried[state, room]

    state = None, False, frozenset(needed)
    for token in written[1:]:
        state = dict(follow(*state))[token]
    room = most - len(written) - 1
    return {token for token, after in follow(*state) if ends(after, room)}


check("19.7", may_come_next)


# %% [markdown]
# ## 19.8 True positives at few false positives
#
# The outsiders set the threshold. If k of them may be accused, the next
# one must not be, nor anybody with the same score, so a member has to
# score higher than that.

# %% tags=["answer:19.8", "nbval-ignore-output"]
def found_at(
    members: np.ndarray, others: np.ndarray, at_most: float
) -> float:
    allowed = math.floor(at_most * len(others))
    limit = np.sort(others)[len(others) - 1 - allowed]
    return float((members > limit).mean())


check("19.8", found_at)


# %% [markdown]
# Or try every threshold there is, and keep the best that is allowed.

# %% tags=["alternative:19.8", "nbval-ignore-output"]
def found_at(
    members: np.ndarray, others: np.ndarray, at_most: float
) -> float:
    best = 0.0
    for threshold in np.concatenate([members, others]):
        if (others >= threshold).mean() <= at_most:
            best = max(best, (members >= threshold).mean())
    return best


check("19.8", found_at)


# %% [markdown]
# ## 19.9 An attack that compares
#
# A near neighbour among the released patients is suspicious only if
# chance does not explain it. So the same distance is taken to patients
# of whom nobody was a member.

# %% tags=["answer:19.9", "nbval-ignore-output"]
def attack_scores(
    candidates: np.ndarray, released: np.ndarray, reference: np.ndarray
) -> np.ndarray:
    def nearest(cohort):
        shared = candidates @ cohort.T
        sizes = candidates.sum(axis=1)[:, None]
        either = sizes + cohort.sum(axis=1) - shared
        return (1 - shared / either).min(axis=1)

    return nearest(reference) - nearest(released)


check("19.9", attack_scores)


# %% [markdown]
# With sets, one candidate at a time.

# %% tags=["alternative:19.9", "nbval-ignore-output"]
def attack_scores(
    candidates: np.ndarray, released: np.ndarray, reference: np.ndarray
) -> np.ndarray:
    def in_sets(rows):
        return [set(np.flatnonzero(row).tolist()) for row in rows]

    def nearest(one, cohort):
        return min(1 - len(one & b) / len(one | b) for b in cohort)

    out, known = in_sets(released), in_sets(reference)
    return np.array(
        [nearest(c, known) - nearest(c, out) for c in in_sets(candidates)]
    )


check("19.9", attack_scores)
