"""The study of lesson 20: one code of a patient is lost, a guesser names ten that it may be.

A guesser gives every code a number for each case, larger where it thinks it likelier.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.models.prompt_bart import AGE_BRACKETS
from ehr_course.records import MAX_AGE, PatientRecord, Sex, system_of

SUGGESTIONS = 10
"""How many codes a guesser may name."""

HIDDEN_UNITS, LEARNING_RATE, STEPS = 32, 1e-2, 60


@dataclass(frozen=True)
class Case:
    """A patient whose code ``lost`` is hidden; ``age`` in completed years, ``others`` sorted."""

    age: int
    sex: Sex
    others: tuple[str, ...]
    lost: str
    system: CodeSystem = field(default="ICD9CM", repr=False)


def lose_one(records: Sequence[PatientRecord], *, seed: int | Sequence[int]) -> list[Case]:
    """Hide one code of each patient, wherever it stands in the record.

    >>> from ehr_course.records import Visit
    >>> lose_one([PatientRecord(1, "F", 64, (Visit(("4280", "4019")),))], seed=0)
    [Case(age=64, sex='F', others=('4019',), lost='4280')]
    """
    rng, system = np.random.default_rng(seed), system_of(records)
    cases = []
    for record in records:
        codes = sorted(set(record.codes))
        lost = codes.pop(rng.integers(len(codes)))
        cases.append(Case(record.age, record.sex, tuple(codes), lost, system))
    return cases


class Guesser(Protocol):
    """What can be scored: it has codes, and a number for each of them and each case."""

    codes: list[str]

    def scores(self, cases: Sequence[Case]) -> Tensor:
        """Float (cases, codes)."""
        ...


def share_found(guesser: Guesser, cases: Sequence[Case]) -> float:
    """The share of cases whose lost code is among those that the guesser names first.

    A code that the patient has left is never named, and an unknown one never found.
    """
    return which_found(guesser, cases).mean().item()


def which_found(guesser: Guesser, cases: Sequence[Case]) -> Tensor:
    """Float (cases,): 1 where the guesser names the lost code among its first, else 0."""
    if not cases:
        raise InputError("share_found", "cases", "the list is empty", "Give at least one.")
    place = {code: column for column, code in enumerate(guesser.codes)}
    scores = guesser.scores(cases).masked_fill(_known(cases, place) > 0, -torch.inf)
    # Of equal scores the first counts: topk would take another one on another processor.
    named = scores.argsort(dim=1, descending=True, stable=True)[:, :SUGGESTIONS]
    lost = torch.tensor([place.get(case.lost, -1) for case in cases])
    return (named == lost[:, None]).any(dim=1).float()


class AgeSexTable:
    """Counts how many patients of each sex and age bracket have a code; looks at no other code."""

    def __init__(self, records: Sequence[PatientRecord]) -> None:
        self.codes = _codes_of(records)
        self._groups: dict[tuple[Sex, int], Counter[str]] = defaultdict(Counter)
        for record in records:
            self._groups[_group(record)].update(set(record.codes))

    def scores(self, cases: Sequence[Case]) -> Tensor:
        """How many patients of this sex and age bracket have each code."""
        counts = [self._groups.get(_group(case), Counter()) for case in cases]
        return torch.tensor([[count[code] for code in self.codes] for count in counts]).float()


class PairTable:
    """Counts which codes stand in one record; knows neither age nor sex."""

    def __init__(self, records: Sequence[PatientRecord]) -> None:
        self.codes = _codes_of(records)
        self._place = {code: column for column, code in enumerate(self.codes)}
        # In float32 the processor's rounding would decide between equals.
        has = torch.zeros(len(records), len(self.codes), dtype=torch.float64)
        for row, record in zip(has, records, strict=True):
            row[[self._place[code] for code in set(record.codes)]] = 1
        self._patients = has.sum(dim=0)
        self._share = (has.T @ has) / self._patients[:, None]  # of those with one, with the other

    def scores(self, cases: Sequence[Case]) -> Tensor:
        """The mean, over the codes left, of the share of their patients who have each code."""
        known = _known(cases, self._place).double()
        # Where nothing is left to go by, and between equals, the more frequent code comes first.
        rare = self._patients / self._patients.sum() * 1e-6
        means = known @ self._share / known.sum(dim=1, keepdim=True).clamp(min=1)
        return (means + rare).round(decimals=12)


class CodeNetwork:
    """A network with one hidden layer that reads the codes left, trained when it is made.

    At each step one code of every patient is hidden. ``seed`` decides which, and the first
    weights.
    """

    def __init__(
        self,
        records: Sequence[PatientRecord],
        *,
        seed: int,
        age_and_sex: bool = False,
        steps: int = STEPS,
    ) -> None:
        self.codes = _codes_of(records)
        self.age_and_sex = age_and_sex
        self._place = {code: column for column, code in enumerate(self.codes)}
        inputs = len(self.codes) + (2 + len(AGE_BRACKETS) if age_and_sex else 0)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.layers = nn.Sequential(
                nn.Linear(inputs, HIDDEN_UNITS),
                nn.ReLU(),
                nn.Linear(HIDDEN_UNITS, len(self.codes)),
            )
        optimizer = torch.optim.Adam(self.layers.parameters(), lr=LEARNING_RATE)
        for step in range(steps):
            cases = lose_one(records, seed=[seed, step])
            lost = torch.tensor([self._place[case.lost] for case in cases])
            optimizer.zero_grad()
            cross_entropy(self.layers(self._inputs(cases)), lost).backward()
            optimizer.step()

    def scores(self, cases: Sequence[Case]) -> Tensor:
        """The logits of the lost code."""
        with torch.no_grad():
            return self.layers(self._inputs(cases))

    def _inputs(self, cases: Sequence[Case]) -> Tensor:
        """Float (cases, inputs): 1 for each code left; then the sex, the age and its brackets."""
        known = _known(cases, self._place)
        if not self.age_and_sex:
            return known
        who = [
            [case.sex == "F", case.age / MAX_AGE, *(case.age >= start for start in AGE_BRACKETS)]
            for case in cases
        ]
        return torch.cat([known, torch.tensor(who, dtype=torch.float32)], dim=1)


def _known(cases: Sequence[Case], place: dict[str, int]) -> Tensor:
    """Float (cases, codes): 1 for each code that a case has left."""
    known = torch.zeros(len(cases), len(place))
    rows, columns = [], []
    for row, case in enumerate(cases):
        found = [place[code] for code in case.others if code in place]
        rows += [row] * len(found)
        columns += found
    known[rows, columns] = 1
    return known


def _codes_of(records: Sequence[PatientRecord]) -> list[str]:
    if not records:
        raise InputError("a guesser", "records", "the list is empty", "Give at least one patient.")
    return sorted({code for record in records for code in record.codes})


def _group(patient: PatientRecord | Case) -> tuple[Sex, int]:
    return patient.sex, bisect_right(AGE_BRACKETS, patient.age)
