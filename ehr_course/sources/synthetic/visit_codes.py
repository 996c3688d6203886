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
    possible = active[:, mix.cluster] & (draw >= mix.low) & (draw < high)
    found_at = (found >= _FOUND_AT_ONCE).astype(np.int64) + (found >= _FOUND_BY_SECOND)
    known = (stays.slot[:, None] >= found_at[stays.owner][:, mix.cluster]) & (recorded < _RECORDED)
    possible &= known | ~mix.chronic
    possible[:, mix.principal] = False

    chosen = np.zeros_like(possible)
    had = np.zeros((len(people.sex), len(mix.codes)), dtype=bool)
    # Visit after visit, because what a patient has had rules out other codes later.
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
    """Add the principal diagnosis of each visit to the chosen rows, of shape (visit, row)."""
    for cluster in np.unique(episode):
        visits = np.flatnonzero(episode == cluster)
        rows = np.flatnonzero(mix.principal & (mix.cluster == cluster))
        weights = mix.share[rows] * allowed[np.ix_(visits, rows)]
        chosen[visits, rows[choose(uniform[visits, mix.draw[rows[0]]], weights)]] = True
