"""Two tables that write patients, for a model to beat: neither has a weight to learn.

``IndependentCodes`` knows which codes each sex has at an age, but not which go together;
``MarkovChain`` knows which code follows which, and nothing else of the patient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Container, Hashable, Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Generic, TypeVar

import numpy as np

from ehr_course.batches.collate import demographics
from ehr_course.errors import InputError
from ehr_course.generation.patients import PatientProfile
from ehr_course.models.prompt_bart import AGE_BRACKETS
from ehr_course.records import PatientRecord, Sex, Visit, system_of

BOS, VISIT, VISIT_END, EOS = "<BOS>", "<v>", r"<\v>", "<EOS>"
"""The markers of a record, written as CodeTokenizer writes them."""

Codes = list[list[str]]
"""The codes of one patient, visit by visit."""


Thing = TypeVar("Thing", bound=Hashable)


class Frequencies(Generic[Thing]):
    """How often each thing was seen (``counts``), to draw one as often again.

    >>> Frequencies("aab").counts["a"], Frequencies("aab").draw(np.random.default_rng(0), but="a")
    (2, 'b')
    """

    def __init__(self, seen: Iterable[Thing]) -> None:
        self.counts = Counter(seen)
        self._things, self._sums = list(self.counts), list(accumulate(self.counts.values()))

    def draw(self, rng: np.random.Generator, *, but: Container = ()) -> Thing | None:
        """Draw a thing that is not in ``but``; None where nothing else was ever seen."""
        if all(thing in but for thing in self._things):
            return None
        while True:
            place = bisect_right(self._sums, rng.random() * self._sums[-1])
            if self._things[place] not in but:
                return self._things[place]


class Baseline(ABC):
    """A table of what was counted in patients of one code system, which writes others by it."""

    def __init__(self, records: Sequence[PatientRecord]) -> None:
        if not records:
            name = type(self).__name__
            raise InputError(name, "records", "the list is empty", "Give at least one patient.")
        self._system = system_of(records)

    @abstractmethod
    def codes_for(self, patient: PatientProfile, rng: np.random.Generator) -> Codes:
        """Draw the visits of one patient."""

    def write(self, profiles: Sequence[PatientProfile], *, seed: int = 0) -> list[PatientRecord]:
        """Write one patient, numbered from 0, for each profile, as ``generate_patients`` does.

        Args:
            profiles: age and sex of each patient, without visits.
            seed: 0 or more; with the place in the list it decides what a patient gets.
        """
        names = [f"patient {number}" for number in range(len(profiles))]
        demographics(
            [patient.age for patient in profiles], [patient.sex for patient in profiles], names
        )
        records = []
        for number, patient in enumerate(profiles):
            if patient.visits:
                problem = "a table cannot go on with visits"
                raise InputError(names[number], "visits", problem, "Leave them out.")
            visits = self.codes_for(patient, np.random.default_rng([seed, number]))
            written = tuple(Visit(tuple(codes), system=self._system) for codes in visits)
            records.append(PatientRecord(number, patient.sex, patient.age, written))
        return records


class IndependentCodes(Baseline):
    """Codes drawn independently of each other, by sex and age bracket.

    Numbers of visits, of codes in a visit, and codes are drawn as often as patients of the same
    sex and bracket (of the model's age head) have them, or all patients where none was in it. No
    code comes twice in a visit.

    >>> table = IndependentCodes([PatientRecord(1, "F", 64, (Visit(("4280", "4019")),))])
    >>> sorted(table.write([PatientProfile(64, "F")])[0].codes)
    ['4019', '4280']
    """

    def __init__(self, records: Sequence[PatientRecord]) -> None:
        super().__init__(records)
        groups: dict[tuple[Sex, int], list[PatientRecord]] = defaultdict(list)
        for record in records:
            groups[_group(record)].append(record)
        self._everybody = _counted(records)
        self._groups = {group: _counted(members) for group, members in groups.items()}

    def codes_for(self, patient: PatientProfile, rng: np.random.Generator) -> Codes:
        """Draw the number of visits, of each the number of codes, and the codes."""
        n_visits, n_codes, codes = self._groups.get(_group(patient), self._everybody)
        visits = []
        for _ in range(n_visits.draw(rng) or 0):
            visit: list[str] = []
            for _ in range(n_codes.draw(rng) or 0):
                code = codes.draw(rng, but=visit)
                if code is not None:
                    visit.append(code)
            visits.append(visit)
        return visits


class MarkovChain(Baseline):
    r"""A first-order Markov chain over codes and the markers of visits.

    It counts what follows each token of ``<BOS> <v> 4280 4019 <\v> <EOS>``, and writes each token
    by the one before it. A code is not drawn twice in a visit; where nothing else ever followed,
    the visit ends.

    Attributes:
        followers: of each token, how often each other one came next.

    >>> chain = MarkovChain([PatientRecord(1, "F", 64, (Visit(("4280", "4019")),))])
    >>> chain.followers["4280"].counts
    Counter({'4019': 1})
    """

    def __init__(self, records: Sequence[PatientRecord]) -> None:
        super().__init__(records)
        followed: dict[str, list[str]] = defaultdict(list)
        for record in records:
            inside = [token for v in record.visits for token in (VISIT, *v.codes, VISIT_END)]
            for token, following in pairwise([BOS, *inside, EOS]):
                followed[token].append(following)
        self.followers = {token: Frequencies(seen) for token, seen in followed.items()}

    def codes_for(self, patient: PatientProfile, rng: np.random.Generator) -> Codes:
        """Go from token to token until <EOS>."""
        token = BOS
        visits: Codes = []
        while token != EOS:
            written = visits[-1] if token not in (BOS, VISIT_END) else []
            token = self.followers[token].draw(rng, but=written) or VISIT_END
            if token == VISIT:
                visits.append([])
            elif token not in (VISIT_END, EOS):
                visits[-1].append(token)
        return visits


def _group(patient: PatientRecord | PatientProfile) -> tuple[Sex, int]:
    return patient.sex, bisect_right(AGE_BRACKETS, patient.age)


def _counted(
    records: Sequence[PatientRecord],
) -> tuple[Frequencies[int], Frequencies[int], Frequencies[str]]:
    """The numbers of visits of a patient and of codes of a visit, and the codes."""
    visits = [visit for record in records for visit in record.visits]
    return (
        Frequencies(len(record.visits) for record in records),
        Frequencies(len(visit.codes) for visit in visits),
        Frequencies(code for visit in visits for code in visit.codes),
    )
