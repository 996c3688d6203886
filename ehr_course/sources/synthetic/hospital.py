"""The patients of the embedded hospital: who comes, when and why, and which codes are recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ehr_course.code_system import CodeSystem, checked_system
from ehr_course.errors import InputError
from ehr_course.records import MAX_AGE, PatientRecord, Visit
from ehr_course.sources.synthetic.case_mix import BAND_STARTS, SEXES, CaseMix, load_case_mix
from ehr_course.sources.synthetic.draws import Draws, check_seed
from ehr_course.sources.synthetic.icd10_coding import in_icd10

FIRST_SUBJECT_ID = 10001
FIRST_DAY = np.datetime64("2100-01-01T00:00", "m")

_HADM_PRIME = 99_991  # the largest prime below 100,000
_PATIENTS_AT_ONCE = 2048  # bounds the memory; it does not change the cohort

_START_DAYS = 365 * 84  # first visits lie in 2100 to 2183, and all visits before 2200
_OBSTETRIC = ("labor_normal", "labor", "pregnancy")
_DELIVERIES = ("labor_normal", "labor")
_DAYS_TO_NEXT_PREGNANCY = 300
_FOUND_AT_ONCE, _FOUND_BY_SECOND = 0.76, 0.88  # conditions known at the first two visits
_RECORDED = 0.92  # how often a visit records a chronic code


@dataclass(frozen=True)
class Catchment:
    """Who comes to a hospital.

    Attributes:
        band_percent: the percentage of patients, by age band.
        female: the share of females, by age band.
        born_here: the share of patients of age 0 born here; others come later in their first year.
    """

    band_percent: tuple[int, ...]
    female: tuple[float, ...]
    born_here: float


CATCHMENTS = {
    # Many births and women of childbearing age, as in a hospital with a maternity ward.
    "general": Catchment(
        (18, 7, 5, 5, 19, 15, 9, 11, 9, 2),
        (0.49, 0.46, 0.46, 0.54, 0.68, 0.66, 0.50, 0.47, 0.53, 0.66),
        0.86,
    ),
    # Adults only, most of them old, and no maternity ward.
    "heart": Catchment(
        (0, 0, 0, 0, 4, 10, 24, 34, 24, 4),
        (0.49, 0.46, 0.46, 0.54, 0.46, 0.40, 0.36, 0.40, 0.48, 0.62),
        0.0,
    ),
}
"""The hospitals of the course, by name."""

_BAND_YEARS = np.diff(np.append(BAND_STARTS, 100))
PERSON_COLUMNS = 5

AT_MOST_PERCENT = 95.0
"""The upper bound for conditions and backgrounds, whatever boosts them."""


@dataclass(frozen=True)
class Pattern:
    """How often patients come, and how much is written down.

    Attributes:
        number_of_visits: weights of patients with 1, 2, ... visits.
        density: multiplies the share of every code that stands alone, and the percentage of every
            condition and background.
    """

    number_of_visits: tuple[int, ...]
    density: float


_PATTERNS = {
    "lessons": Pattern((50, 27, 14, 9), 1.0),
    "mimic3": Pattern((836, 111, 29, 11, 6, 3, 2, 2), 2.09),
}


def make_cohort(
    n_patients: int,
    *,
    seed: int = 0,
    visits: Literal["lessons", "mimic3"] = "lessons",
    hospital: Literal["general", "heart"] = "general",
    system: CodeSystem = "ICD9CM",
    changed: bool = False,
) -> list[PatientRecord]:
    """Make invented patients with real ICD-9-CM or ICD-10-CM codes.

    No patient has a code that `icd9.why_impossible` (or that of `icd10`) rules out at the ages of
    the first admission and the visit, and no visit has two codes that exclude each other by
    ``exclusive.csv``. Chronic codes come back at later visits; a visit's codes begin with the
    principal diagnosis. Admissions lie between 2100 and 2200, as in MIMIC-III, and their numbers
    do not follow time.

    The same arguments give the same cohort on every machine, and a longer cohort begins with the
    shorter one.

    Args:
        n_patients: 0 or more.
        seed: 0 or more.
        visits: "lessons" gives half of the patients 2 to 4 visits, with about 5 codes each.
            "mimic3" gives 1.27 visits a patient and 11 codes a visit, as in MIMIC-III, to test
            speed and size.
        hospital: "general" has births, children and every age. "heart" has adults, most of them
            old, who come for their heart; its codes are among those of "general".
        system: "ICD9CM", or "ICD10CM" for the same patients; see ``icd10_coding``.
        changed: whether the hospital changed from ICD-9-CM to ICD-10-CM in October 2015, in the
            middle of these patients' time, so that some patients have visits of both. Dates do not
            show the change: each patient's are moved by another number of years, as in MIMIC-IV.

    Raises:
        InputError: if an argument is out of its range.

    >>> make_cohort(100, seed=0)[:10] == make_cohort(10, seed=0)
    True
    """
    if not isinstance(n_patients, int) or n_patients < 0:
        problem = f"{n_patients!r} is not a number of patients"
        remedy = "Pass a whole number, 0 or more."
        raise InputError("make_cohort", "argument n_patients", problem, remedy)
    check_seed("make_cohort", seed)
    for name, value, known, what in (
        ("visits", visits, _PATTERNS, "not a pattern of visits"),
        ("hospital", hospital, CATCHMENTS, "no hospital of the course"),
    ):
        if value not in known:
            problem, remedy = f"{value!r} is {what}", f"Pass one of {', '.join(map(repr, known))}."
            raise InputError("make_cohort", f"argument {name}", problem, remedy)
    if checked_system(system) == "ICD10CM" and changed:
        raise InputError(
            "make_cohort",
            "arguments system and changed",
            "a hospital that always used ICD-10-CM did not change to it",
            "Leave one of them out.",
        )
    mix = load_case_mix(hospital)
    pattern = _PATTERNS[visits]
    person_draws = Draws(seed, 0, PERSON_COLUMNS + len(mix.clusters))
    calendar_draws = Draws(seed, 1, 3 * len(pattern.number_of_visits))
    chronic_draws = Draws(seed, 2, mix.n_draws + len(mix.clusters))
    visit_draws = Draws(seed, 3, mix.n_draws + len(mix.clusters) + len(mix.codes))

    records: list[PatientRecord] = []
    n_visits = 0
    while len(records) < n_patients:
        count = min(_PATIENTS_AT_ONCE, n_patients - len(records))
        people = make_people(mix, pattern, CATCHMENTS[hospital], person_draws.rows(count))
        stays = make_stays(mix, pattern, people, calendar_draws.rows(count))
        chosen = choose_codes(
            mix,
            pattern,
            people,
            stays,
            chronic_draws.rows(count),
            visit_draws.rows(len(stays.owner)),
        )
        records += _records(mix, people, stays, chosen, len(records), n_visits)
        n_visits += len(stays.owner)
    if system == "ICD10CM" or changed:
        return in_icd10(records, only_later=changed, seed=seed)
    return records


def _records(
    mix: CaseMix,
    people: People,
    stays: Stays,
    chosen: np.ndarray,
    n_patients_before: int,
    n_visits_before: int,
) -> list[PatientRecord]:
    by_rank = np.argsort(mix.rank)
    visit, row = np.nonzero(chosen[:, by_rank])
    codes = mix.codes[by_rank][row].tolist()
    code_ends = np.cumsum(np.bincount(visit, minlength=len(chosen))).tolist()
    admitted = (FIRST_DAY + stays.minute).tolist()
    number = n_visits_before + np.arange(len(stays.owner))
    hadm_ids = _hadm_id(number).tolist()
    visits, start = [], 0
    for time, hadm_id, end in zip(admitted, hadm_ids, code_ends, strict=True):
        visits.append(Visit(tuple(codes[start:end]), time, hadm_id))
        start = end

    records, start = [], 0
    ends = np.cumsum(people.n_visits).tolist()
    ages = np.minimum(people.age, MAX_AGE).tolist()
    for patient, (sex, age, end) in enumerate(zip(people.sex, ages, ends, strict=True)):
        subject_id = FIRST_SUBJECT_ID + n_patients_before + patient
        records.append(PatientRecord(subject_id, SEXES[sex], age, tuple(visits[start:end])))
        start = end
    return records


def _hadm_id(number: np.ndarray) -> np.ndarray:
    """Scatter the numbers 0, 1, 2, ... over 100000 to 199990, then over 200000 to 299990, ..."""
    # Neighbours must rise as often as they fall, which steps of one length cannot do. The seventh
    # power hits every place once, since 7 has no factor in common with the prime less one.
    block, place = np.divmod(number, _HADM_PRIME)
    place = (place + 4321) % _HADM_PRIME
    square = place * place % _HADM_PRIME
    cube = square * place % _HADM_PRIME
    seventh = cube * cube % _HADM_PRIME * place % _HADM_PRIME
    return 100_000 * (block + 1) + (seventh * 61_803 + 17) % _HADM_PRIME


# ------------------------------------------------------------------ people


@dataclass(frozen=True)
class People:
    """One row for each patient."""

    age: np.ndarray  # true age, up to 99; a record says 90 for all above 89
    sex: np.ndarray  # index into SEXES
    born_here: np.ndarray
    n_visits: np.ndarray
    has: np.ndarray  # (patient, cluster): which conditions the patient lives with


def make_people(
    mix: CaseMix, pattern: Pattern, catchment: Catchment, uniform: np.ndarray
) -> People:
    """Make patients from uniform numbers of shape (patient, PERSON_COLUMNS + clusters)."""
    band = choose(uniform[:, 0], catchment.band_percent)
    age = BAND_STARTS[band] + (uniform[:, 1] * _BAND_YEARS[band]).astype(np.int64)
    sex = (uniform[:, 2] >= np.array(catchment.female)[band]).astype(np.int64)
    born_here = (age == 0) & (uniform[:, 3] < catchment.born_here)
    n_visits = 1 + choose(uniform[:, 4], pattern.number_of_visits)

    uniform = uniform[:, PERSON_COLUMNS:]
    has = np.zeros(uniform.shape, dtype=bool)
    for cluster in np.flatnonzero(mix.kinds == "condition"):
        percent = mix.prevalence[cluster, sex, band] * boost(mix, cluster, has) * pattern.density
        has[:, cluster] = uniform[:, cluster] * 100 < np.minimum(percent, AT_MOST_PERCENT)
    return People(age, sex, born_here, n_visits, has)


def boost(mix: CaseMix, cluster: int | np.integer, has: np.ndarray) -> np.ndarray:
    """Return the factor of a cluster's frequency. Shape (patient,)."""
    by = mix.boosted_by[cluster]
    return np.where(has[:, by], mix.boost[cluster], 1.0) if by >= 0 else np.ones(len(has))


def band_of(age: np.ndarray) -> np.ndarray:
    """Return the index of the age band."""
    return np.searchsorted(BAND_STARTS, age, side="right") - 1


def choose(uniform: np.ndarray, weights: np.ndarray | tuple[int, ...]) -> np.ndarray:
    """Choose a column for each row, by its weights. Shapes (n,), (n, k) or (k,) -> (n,)."""
    top = np.cumsum(np.broadcast_to(weights, (len(uniform), np.shape(weights)[-1])), axis=1)
    return (top <= (uniform * top[:, -1])[:, None]).sum(axis=1)


# ------------------------------------------------------------------ stays


@dataclass(frozen=True)
class Stays:
    """One row for each visit, patient after patient."""

    owner: np.ndarray  # index of the patient
    slot: np.ndarray  # 0 for the first visit of a patient
    minute: np.ndarray  # since the first day of 2100
    age_at_least: np.ndarray
    age_at_most: np.ndarray
    episode: np.ndarray  # index of the cluster that is the reason for the visit


def make_stays(mix: CaseMix, pattern: Pattern, people: People, uniform: np.ndarray) -> Stays:
    """Make the visits from uniform numbers of shape (patient, 3 * slots)."""
    slots = len(pattern.number_of_visits)
    when, clock, why = np.split(uniform, 3, axis=1)  # each (patient, slot)
    # The first column is the day of the first visit, the others the days between visits: a third
    # of the returns come within a month, a third within the year.
    month = 3 + (when / 0.33 * 28).astype(np.int64)
    year = 31 + ((when - 0.33) / 0.34 * 335).astype(np.int64)
    later = 366 + ((when - 0.67) / 0.33 * 365).astype(np.int64)
    days = np.where(when < 0.33, month, np.where(when < 0.67, year, later))
    days[:, 0] = 0
    since = np.cumsum(days, axis=1)
    day = (when[:, :1] * _START_DAYS).astype(np.int64) + since
    minute = day * 24 * 60 + (clock * 24 * 60).astype(np.int64)
    # Without the birthday, the age at a later visit is one of two numbers.
    age_at_least = people.age[:, None] + since // 366
    age_at_most = people.age[:, None] + (since + 364) // 365
    episode = _choose_episodes(mix, people, since, age_at_least, age_at_most, why)

    owner, slot = np.nonzero(np.arange(slots) < people.n_visits[:, None])
    at = (owner, slot)
    return Stays(owner, slot, minute[at], age_at_least[at], age_at_most[at], episode[at])


def allowed_rows(
    mix: CaseMix,
    rows: np.ndarray | slice,
    *,
    sex: np.ndarray,
    first_age: np.ndarray,
    age_at_least: np.ndarray,
    age_at_most: np.ndarray,
) -> np.ndarray:
    """Say which rows of the case mix each visit may have. Shape (visit, row).

    The limits of icd9 hold from the age at the first visit to the highest possible age at this
    one; those of the case mix at the visit, or for a condition at the first visit.
    """
    first_age, age_at_least, age_at_most = (
        age[:, None] for age in (first_age, age_at_least, age_at_most)
    )
    allowed = mix.sexes[rows].T[sex]
    allowed &= (first_age >= mix.min_age[rows]) & (age_at_most <= mix.max_age[rows])
    age = np.where(mix.chronic[rows], first_age, age_at_least)
    return allowed & (age >= mix.first_age[rows]) & (age <= mix.last_age[rows])


def _choose_episodes(
    mix: CaseMix,
    people: People,
    since: np.ndarray,
    age_at_least: np.ndarray,
    age_at_most: np.ndarray,
    uniform: np.ndarray,
) -> np.ndarray:
    """Choose the reason for each visit. All shapes are (patient, slot)."""
    episodes = np.flatnonzero(mix.kinds == "episode")
    obstetric = np.isin(episodes, [mix.clusters.index(name) for name in _OBSTETRIC])
    deliveries = [mix.clusters.index(name) for name in _DELIVERIES]
    principal = np.flatnonzero(mix.principal)
    chosen = np.zeros(uniform.shape, dtype=np.int64)
    last_delivery = np.full(len(uniform), -_DAYS_TO_NEXT_PREGNANCY)
    for slot in range(uniform.shape[1]):
        allowed = allowed_rows(
            mix,
            principal,
            sex=people.sex,
            first_age=people.age,
            age_at_least=age_at_least[:, slot],
            age_at_most=age_at_most[:, slot],
        )
        band = band_of(age_at_least[:, slot])
        weights = np.zeros((len(uniform), len(episodes)))
        for column, cluster in enumerate(episodes):
            possible = allowed[:, mix.cluster[principal] == cluster].any(axis=1)
            weights[:, column] = mix.prevalence[cluster, people.sex, band] * possible
            weights[:, column] *= boost(mix, cluster, people.has)
        recent = since[:, slot] - last_delivery < _DAYS_TO_NEXT_PREGNANCY
        weights[np.ix_(recent, obstetric)] = 0
        reason = episodes[choose(uniform[:, slot], weights)]
        if slot == 0:
            reason[people.born_here] = mix.clusters.index("birth")
        chosen[:, slot] = reason
        delivered = np.isin(reason, deliveries)
        last_delivery[delivered] = since[delivered, slot]
    return chosen


# ------------------------------------------------------------------ codes


def choose_codes(
    mix: CaseMix,
    pattern: Pattern,
    people: People,
    stays: Stays,
    chronic: np.ndarray,
    uniform: np.ndarray,
) -> np.ndarray:
    """Choose the rows of the case mix that each visit gets. Shape (visit, row)."""
    of_visit, background, recorded = np.split(
        uniform, [mix.n_draws, mix.n_draws + len(mix.clusters)], axis=1
    )
    of_patient, found = np.split(chronic, [mix.n_draws], axis=1)
    sex = people.sex[stays.owner]
    allowed = allowed_rows(
        mix,
        slice(None),
        sex=sex,
        first_age=people.age[stays.owner],
        age_at_least=stays.age_at_least,
        age_at_most=stays.age_at_most,
    )

    active = people.has[stays.owner]
    active[np.arange(len(active)), stays.episode] = True
    band = band_of(stays.age_at_least)
    for cluster in np.flatnonzero(mix.kinds == "background"):
        percent = mix.prevalence[cluster, sex, band] * pattern.density
        active[:, cluster] = background[:, cluster] * 100 < np.minimum(percent, AT_MOST_PERCENT)

    high = np.where(mix.alone, np.minimum(mix.share * pattern.density, 0.95), mix.high)
    draw = np.where(mix.chronic, of_patient[stays.owner][:, mix.draw], of_visit[:, mix.draw])
    possible = active[:, mix.cluster] & (draw >= mix.low) & (draw < high)
    found_at = (found >= _FOUND_AT_ONCE).astype(np.int64) + (found >= _FOUND_BY_SECOND)
    known = (stays.slot[:, None] >= found_at[stays.owner][:, mix.cluster]) & (recorded < _RECORDED)
    possible &= known | ~mix.chronic
    possible[:, mix.principal] = False

    chosen = np.zeros_like(possible)
    had = np.zeros((len(people.sex), len(mix.codes)), dtype=bool)
    # Visit after visit, because earlier codes can rule out later ones.
    for slot in range(stays.slot.max() + 1):
        visits = np.flatnonzero(stays.slot == slot)
        owner = stays.owner[visits]
        for row, other in mix.lasting:
            allowed[visits, other] &= ~had[owner, row]
        now = possible[visits] & allowed[visits]
        _choose_principal(mix, now, stays.episode[visits], allowed[visits], of_visit[visits])
        for row, other in mix.redundant:
            now[:, other] &= ~now[:, row]
        for row, earlier in mix.repeats:
            now[:, row] &= ~now[:, earlier].any(axis=1)
        chosen[visits] = now
        had[owner] |= now
    return chosen


def _choose_principal(
    mix: CaseMix,
    chosen: np.ndarray,
    episode: np.ndarray,
    allowed: np.ndarray,
    uniform: np.ndarray,
) -> None:
    """Add each visit's principal diagnosis to the chosen rows, of shape (visit, row)."""
    for cluster in np.unique(episode):
        visits = np.flatnonzero(episode == cluster)
        rows = np.flatnonzero(mix.principal & (mix.cluster == cluster))
        weights = mix.share[rows] * allowed[np.ix_(visits, rows)]
        chosen[visits, rows[choose(uniform[visits, mix.draw[rows[0]]], weights)]] = True
