"""Which codes a visit gets: its reason, what comes with it, and what the patient lives with."""

from __future__ import annotations

import numpy as np

from ehr_course.sources.synthetic.case_mix import CaseMix
from ehr_course.sources.synthetic.people import (
    AT_MOST_PERCENT,
    Pattern,
    People,
    band_of,
    choose,
)
from ehr_course.sources.synthetic.stays import Stays, allowed_rows

_FOUND_AT_ONCE, _FOUND_BY_SECOND = 0.76, 0.88  # conditions known at the first two visits
_RECORDED = 0.92  # how often a chronic code is written down at a visit


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
    chosen = allowed & active[:, mix.cluster] & (draw >= mix.low) & (draw < high)
    found_at = (found >= _FOUND_AT_ONCE).astype(np.int64) + (found >= _FOUND_BY_SECOND)
    known = (stays.slot[:, None] >= found_at[stays.owner][:, mix.cluster]) & (recorded < _RECORDED)
    chosen &= known | ~mix.chronic

    chosen[:, mix.principal] = False
    for episode in np.unique(stays.episode):
        visits = np.flatnonzero(stays.episode == episode)
        rows = np.flatnonzero(mix.principal & (mix.cluster == episode))
        weights = mix.share[rows] * allowed[np.ix_(visits, rows)]
        chosen[visits, rows[choose(of_visit[visits, mix.draw[rows[0]]], weights)]] = True

    for row, other in mix.redundant:
        chosen[:, other] &= ~chosen[:, row]
    for row, earlier in mix.repeats:
        chosen[:, row] &= ~chosen[:, earlier].any(axis=1)
    return chosen
