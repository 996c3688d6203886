"""The tables of the hospitals, read into arrays.

``clusters.csv`` has one row for each cluster of codes, or one for each sex where they differ:

- ``kind``: ``episode``, the one reason for a visit; ``condition``, what a patient lives with
  from visit to visit; ``background``, findings on top of any reason;
- one column for each age band: an episode's weight, or the percentage of patients (condition) or
  visits (background) that have the cluster;
- ``boosted_by`` and ``boost``: the condition that multiplies those numbers, and by how much.

``case_mix.csv`` has one row for each code of a cluster:

- ``share``: how often the code comes with its cluster, 0 to 1;
- ``one_of``: rows with the same word exclude each other. One row of ``principal`` is always
  chosen, the principal diagnosis of its episode; of another group, at most one;
- ``first_age``, ``last_age``, ``sex``: who gets the code here, within `icd9.who_can_have`;
- ``instead_of``: a code that this one makes redundant.

``exclusive.csv`` has one row for each reason why codes exclude each other:

- ``codes``: codes, or their beginnings. Alone, the first of them in a visit stays;
- ``not_with``: codes that go if one of ``codes`` is there. A principal diagnosis never goes;
- ``for``: ``visit``, or ``patient`` if a patient's first code rules out the others for good;
- ``reason``: what the classification says.

``hospitals.csv`` lists where a hospital differs from ``clusters.csv``: ``times`` multiplies all
numbers of a cluster.
"""

from __future__ import annotations

import csv
import itertools
from dataclasses import dataclass
from functools import cache

import numpy as np

from ehr_course.course_files import packaged_csv
from ehr_course.icd import OLDEST, Eligibility, icd9
from ehr_course.records import Sex

SEXES: tuple[Sex, ...] = ("F", "M")

BANDS = ("0", "1-4", "5-11", "12-17", "18-29", "30-44", "45-59", "60-74", "75-89", "90-99")
"""The age bands of ``clusters.csv``, in completed years."""

BAND_STARTS = np.array([int(band.split("-")[0]) for band in BANDS])


@dataclass(frozen=True)
class CaseMix:
    """The tables as arrays, by row r of ``case_mix.csv`` and cluster c."""

    # By cluster, in file order.
    clusters: tuple[str, ...]
    kinds: np.ndarray  # "episode", "condition" or "background"
    prevalence: np.ndarray  # weight or percentage, whole numbers of shape (c, sex, band)
    boosted_by: np.ndarray  # index of the boosting condition or -1
    boost: np.ndarray  # factor
    # By row.
    codes: np.ndarray  # undotted
    cluster: np.ndarray  # index
    share: np.ndarray
    low: np.ndarray  # the row is chosen when its draw lies in [low, high)
    high: np.ndarray
    draw: np.ndarray  # which draw decides; rows of one group share a draw
    alone: np.ndarray  # whether no other row shares the draw
    principal: np.ndarray  # whether it is a principal diagnosis
    chronic: np.ndarray  # whether it belongs to a condition
    first_age: np.ndarray  # the hospital's own age limits
    last_age: np.ndarray
    min_age: np.ndarray  # the limits of icd9.who_can_have
    max_age: np.ndarray
    sexes: np.ndarray  # whether females and males can have it, of shape (r, 2)
    rank: np.ndarray  # place in a visit; lower comes first
    # Pairs of rows.
    redundant: tuple[tuple[int, int], ...]  # (r, other): where r is chosen, other goes
    lasting: tuple[tuple[int, int], ...]  # after a visit with r, the patient never gets other
    repeats: tuple[tuple[int, list[int]], ...]  # (r, rows of lower rank with its code)

    @property
    def n_draws(self) -> int:
        """How many draws one patient or visit takes."""
        return int(self.draw.max()) + 1


@cache
def packaged_table(name: str) -> list[dict[str, str]]:
    """The rows of a CSV file of this folder."""
    return list(csv.DictReader(packaged_csv("ehr_course.sources.synthetic", name)))


@cache
def load_case_mix(hospital: str = "general") -> CaseMix:
    """Read the tables of a hospital, once per hospital."""
    times = {
        row["cluster"]: int(row["times"])
        for row in packaged_table("hospitals.csv")
        if row["hospital"] == hospital
    }
    cluster_rows = packaged_table("clusters.csv")
    names = tuple(dict.fromkeys(row["cluster"] for row in cluster_rows))
    index = {name: number for number, name in enumerate(names)}
    prevalence = np.zeros((len(names), len(SEXES), len(BANDS)), dtype=np.int64)
    kinds = [""] * len(names)
    boosted_by = np.full(len(names), -1)
    boost = np.ones(len(names))
    for row in cluster_rows:
        number = index[row["cluster"]]
        kinds[number] = row["kind"]
        for sex in row["sex"] or SEXES:
            prevalence[number, SEXES.index(sex)] = [int(row[band]) for band in BANDS]
            prevalence[number, SEXES.index(sex)] *= times.get(row["cluster"], 1)
        if row["boosted_by"]:
            boosted_by[number] = index[row["boosted_by"]]
            boost[number] = float(row["boost"])

    rows = packaged_table("case_mix.csv")
    codes = [icd9.normalize(row["code"]) for row in rows]
    rules = [icd9.who_can_have(code) for code in codes]
    kind_of_row = np.array([kinds[index[row["cluster"]]] for row in rows])
    principal = np.array([row["one_of"] == "principal" for row in rows])
    # A row is chosen if its draw lies in its interval.
    groups = [(row["cluster"], row["one_of"] or number) for number, row in enumerate(rows)]
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    draws = [numbers[group] for group in groups]
    tops = np.zeros(len(numbers))
    lows, highs = [], []
    for draw, row in zip(draws, rows, strict=True):
        lows.append(tops[draw])
        tops[draw] += float(row["share"])
        highs.append(tops[draw])
    # Coders' order: reason, acute, chronic, status (V), circumstances (E).
    places = np.select(
        [
            principal,
            [code.startswith("E") for code in codes],
            [code.startswith("V") for code in codes],
            kind_of_row == "condition",
        ],
        [0, 4, 3, 2],
        1,
    )
    ranks = places * len(rows) + np.arange(len(rows))
    exclusive, lasting = _exclusive(codes, ranks, principal)
    redundant = tuple(
        (number, other)
        for number, row in enumerate(rows)
        if row["instead_of"]
        for other, code in enumerate(codes)
        if code == icd9.normalize(row["instead_of"])
    )
    return CaseMix(
        clusters=names,
        kinds=np.array(kinds),
        prevalence=prevalence,
        boosted_by=boosted_by,
        boost=boost,
        codes=np.array(codes),
        cluster=np.array([index[row["cluster"]] for row in rows]),
        share=np.array([float(row["share"]) for row in rows]),
        low=np.array(lows),
        high=np.array(highs),
        draw=np.array(draws),
        alone=np.bincount(draws)[draws] == 1,
        principal=principal,
        chronic=kind_of_row == "condition",
        first_age=np.array([int(row["first_age"] or 0) for row in rows]),
        last_age=np.array([int(row["last_age"] or OLDEST) for row in rows]),
        min_age=np.array([rule.min_age if rule else 0 for rule in rules]),
        max_age=np.array([rule.max_age if rule else OLDEST for rule in rules]),
        sexes=np.array([_sexes(row, rule) for row, rule in zip(rows, rules, strict=True)]),
        rank=ranks,
        redundant=exclusive + redundant,
        lasting=lasting,
        repeats=_repeats(codes, ranks),
    )


def _sexes(row: dict[str, str], rule: Eligibility | None) -> list[bool]:
    allowed = (row["sex"] or SEXES, (rule and rule.sex) or SEXES)
    return [all(sex in sexes for sexes in allowed) for sex in SEXES]


def _exclusive(
    codes: list[str], ranks: np.ndarray, principal: np.ndarray
) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    """Return the pairs (what stays, what goes) within a visit, and within a patient's life."""
    by_rank = np.argsort(ranks).tolist()

    def beginning_with(prefixes: str) -> list[int]:
        undotted = tuple(prefixes.replace(".", "").split())
        return [row for row in by_rank if codes[row].startswith(undotted)]

    in_visit, in_life = [], []
    for rule in packaged_table("exclusive.csv"):
        some = beginning_with(rule["codes"])
        if rule["not_with"]:
            others = beginning_with(rule["not_with"])
            pairs = list(itertools.product(some, others))
        else:
            pairs = list(itertools.combinations(some, 2))
        pairs = [(row, other) for row, other in pairs if codes[row] != codes[other]]
        in_visit += [(b, a) if principal[b] else (a, b) for a, b in pairs]
        if rule["for"] == "patient":
            in_life += pairs + [(other, row) for row, other in pairs]
    in_visit.sort(key=lambda pair: ranks[pair[0]])
    return tuple(in_visit), tuple(in_life)


def _repeats(codes: list[str], ranks: np.ndarray) -> tuple[tuple[int, list[int]], ...]:
    seen: dict[str, list[int]] = {}
    repeats = []
    for number in np.argsort(ranks).tolist():
        earlier = seen.setdefault(codes[number], [])
        if earlier:
            repeats.append((number, list(earlier)))
        earlier.append(number)
    return tuple(repeats)
