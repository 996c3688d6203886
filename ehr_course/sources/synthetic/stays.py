"""When the patients come, and why: the calendar and the reason of every visit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ehr_course.sources.synthetic.case_mix import CaseMix
from ehr_course.sources.synthetic.people import Pattern, People, band_of, boost, choose

_START_DAYS = 365 * 84  # first visits lie in 2100 to 2183, and all visits before 2200
_OBSTETRIC = ("labor_normal", "labor", "pregnancy")
_DELIVERIES = ("labor_normal", "labor")
_DAYS_TO_NEXT_PREGNANCY = 300


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
    # The first column is the day of the first visit; the others are the days between two.
    # A third of the returns come within a month, a third within the year.
    month = 3 + (when / 0.33 * 28).astype(np.int64)
    year = 31 + ((when - 0.33) / 0.34 * 335).astype(np.int64)
    later = 366 + ((when - 0.67) / 0.33 * 365).astype(np.int64)
    days = np.where(when < 0.33, month, np.where(when < 0.67, year, later))
    days[:, 0] = 0
    since = np.cumsum(days, axis=1)
    day = (when[:, :1] * _START_DAYS).astype(np.int64) + since
    minute = day * 24 * 60 + (clock * 24 * 60).astype(np.int64)
    # The birthday is not known here: the age at a later visit is one of two numbers.
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

    What icd9 allows must hold from the age at the first visit to the oldest that the patient
    may be at this one. What the case mix says holds at the visit; for a condition, which is
    there from the start, at the first visit.
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
