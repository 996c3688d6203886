"""Invented clinical notes, each with a summary of the hospital course.

``findings.csv`` says what a code means in plain words, what brings a patient with it to the
hospital, and which class of drugs treats it; ``drugs.csv`` has real generic names by class. Some
of the names are kept apart as "unseen": no note has them unless you ask for it. The sentences
are few and the medicine is rough: learn from these notes how models work, never how to treat.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal, get_args

import numpy as np

from ehr_course.code_system import SYSTEM_NAMES
from ehr_course.errors import InputError
from ehr_course.records import NotePair, PatientRecord
from ehr_course.sources.synthetic.draws import hashed

Drugs = Literal["common", "unseen"]
"""Which drug names a note has: those of training, or those that are kept apart."""

MOST_MEDICATIONS = 10
"""The most drugs that a note names, each of another class: so many classes fit every age."""

_STREAMS = 100  # the first stream of random numbers that belongs to the notes
_DRAWS = 16 + MOST_MEDICATIONS
_LIST_FROM = 4  # so many drugs are written as a list, fewer in a sentence each
_HISTORY = 2  # conditions that are named without a treatment
_GROWN_UP = 18
_REHABILITATION_FROM = 50

# What may be treated in any patient, when the codes call for fewer drugs than wanted.
_COMFORT = (
    ("pain", "pain"),
    ("reflux", "acid"),
    ("nausea", "nausea"),
    ("poor nutrition", "vitamin"),
)

_ARRIVALS = (
    "{who} admitted because of {complaint}.",
    "{who} came to the ward because of {complaint}.",
    "reason for admission: {complaint}. patient: {who}.",
    "{who} seen in the emergency room for {complaint}.",
)
_BIRTHS = (
    "{who} admitted because of {complaint}.",
    "{who} kept in the nursery because of {complaint}.",
    "reason for admission: {complaint}. patient: {who}.",
    "{who} seen after birth for {complaint}.",
)
_HISTORIES = ("history of {conditions}.", "also known: {conditions}.", "background: {conditions}.")
_NO_HISTORIES = (
    "no earlier illness.",
    "no history of illness.",
    "background: nothing known.",
)
_TREATMENTS = (
    "{finding} was found and treated with {drug}.",
    "for {finding} {he} was given {drug}.",
    "{drug} was started because of {finding}.",
    "diagnosis: {finding}. {he} received {drug}.",
)
_LATER_TREATMENTS = (
    "{finding} was treated with {drug}.",
    "for {finding} {he} also had {drug}.",
    "{drug} was added because of {finding}.",
)
_LISTS = (
    "diagnosis: {finding}. medications: {drugs}.",
    "{finding} was found. {he} was given {drugs}.",
    "diagnosis: {finding}. treatment: {drugs}.",
)
_EXAMINATIONS = (
    "heart rate was {rate}.",
    "lungs were clear.",
    "abdomen was soft.",
    "skin was warm and dry.",
    "blood count was normal.",
    "temperature was normal.",
    "imaging showed nothing new.",
    "oxygen level was good.",
)
_COURSES = (
    "recovery was without problems.",
    "symptoms eased by the second day.",
    "{he} slept and ate well.",
    "the family was told what to watch for.",
    "follow up was arranged.",
)
_HOME = (
    "went home after {days} days.",
    "was discharged home after {days} days.",
    "returned home after {days} days.",
)
_REHABILITATION = (
    "went to rehabilitation after {days} days.",
    "was moved to rehabilitation after {days} days.",
    "left for rehabilitation after {days} days.",
)


@dataclass(frozen=True, slots=True)
class _Drug:
    name: str
    drug_class: str
    group: str
    first_age: int


@dataclass(frozen=True, slots=True)
class _Finding:
    phrase: str
    complaint: str
    drug_class: str


def drug_names(drugs: Drugs) -> tuple[str, ...]:
    """Return the generic names that notes may have: one word each, in lower case.

    Args:
        drugs: "common" for the names of training, "unseen" for those that are kept apart; no
            name is in both.

    Raises:
        InputError: if drugs is something else.

    >>> "furosemide" in drug_names("common"), "bumetanide" in drug_names("unseen")
    (True, True)
    """
    _check_drugs(drugs, "drug_names")
    return tuple(drug.name for drug in _drugs() if drug.group == drugs)


def make_notes(
    records: Sequence[PatientRecord],
    *,
    seed: int = 0,
    drugs: Drugs = "common",
    medications: tuple[int, int] = (1, 3),
) -> list[NotePair]:
    """Invent a clinical note of each patient's first visit, and its hospital-course summary.

    The note names age, sex, complaint, findings, one drug after the other, and where the patient
    went; sentences vary. The summary repeats in one fixed form who the patient is, the finding
    that is treated first, the drugs in the note's order, and where the patient went after how many
    days: all of it can be read from the note. The finding tells the class of a drug; which drug of
    the class it is, nothing but its name in the note tells.

    The same patient, seed and options give the same note on every machine, whoever else is
    in the list. With ``drugs="unseen"`` a note differs in the names of drugs alone.

    Args:
        records: the patients; the codes of the first visit are used, and the age.
        seed: 0 or more; another seed, other drugs and sentences.
        drugs: which names the notes have, as in `drug_names`.
        medications: the least and the most drugs in a note, 1 to 10. From four on they stand in
            a list, and only the first is tied to a finding. No two are of one class.

    Returns:
        a pair for each patient, in their order, in lower case. With one to three drugs a note
        has about 50 words and signs, its summary 15 to 21.

    Raises:
        InputError: if an option is out of its range, or a patient is not coded in ICD-9-CM, from
            which the findings are read.

    >>> from ehr_course.records import Visit
    >>> pair = make_notes([PatientRecord(1, "F", 64, (Visit(("4280", "4019")),))])[0]
    >>> pair.summary.startswith("64 year old woman with heart failure. treated with ")
    True
    """
    _check_drugs(drugs, "make_notes")
    _check_numbers(seed, medications)
    _check_system(records)
    ids = np.array([record.subject_id for record in records], dtype=np.int64)
    draws = np.stack([hashed(seed, _STREAMS + k, ids) for k in range(_DRAWS)], axis=1)
    return [
        _Note(record, iter(row), drugs, medications).pair()
        for record, row in zip(records, draws.tolist(), strict=True)
    ]


def _check_system(records: Sequence[PatientRecord]) -> None:
    for record in records:
        if record.visits[0].system != "ICD9CM":
            raise InputError(
                "make_notes",
                f"patient {record.subject_id}",
                f"the first visit is coded in {SYSTEM_NAMES[record.visits[0].system]}, and notes "
                "are invented from ICD-9-CM alone",
                'Pass the same patients coded in ICD-9-CM: make_cohort(..., system="ICD9CM").',
            )


class _Note:
    """One note while it is written; every choice takes the next random number of the patient."""

    def __init__(
        self,
        record: PatientRecord,
        uniforms: Iterator[float],
        drugs: Drugs,
        medications: tuple[int, int],
    ) -> None:
        self.record, self.uniforms = record, uniforms
        self.he = "she" if record.sex == "F" else "he"
        self.born_here = any(code.startswith("V3") for code in record.visits[0].codes)
        least, most = medications
        self.n_drugs = least + self._index(most - least + 1)
        self.findings = _findings_of(record.visits[0].codes)
        treated = self._treated()
        self.main = treated[0][0]
        self.reasons = [phrase for phrase, _ in treated]
        self.names = self._choose_drugs([drug_class for _, drug_class in treated], drugs)

    def pair(self) -> NotePair:
        """Write the note and its summary."""
        arrivals = _BIRTHS if self.born_here else _ARRIVALS
        arrival = self._pick(arrivals).format(who=self._who(), complaint=self._complaint())
        history = self._history()
        n_examinations = 3 - min(self.n_drugs, 3)
        examinations = [self._examination(place) for place in range(2)][:n_examinations]
        treatment = self._treatment()
        course = self._pick(_COURSES).format(he=self.he)
        days, goes_home = self._days(), self._goes_home()
        end = f"{self.he} " + self._pick(_HOME if goes_home else _REHABILITATION).format(days=days)
        sentences = [arrival, history, *examinations, treatment, course, end]
        summary = (
            f"{self._who()} with {self.main}. treated with {', '.join(self.names)}. "
            f"{'home' if goes_home else 'rehabilitation'} after {days} days."
        )
        return NotePair(" ".join(sentences), summary, self.record.subject_id)

    def _index(self, out_of: int) -> int:
        return int(next(self.uniforms) * out_of)

    def _pick(self, choices: Sequence[str]) -> str:
        return choices[self._index(len(choices))]

    def _who(self) -> str:
        age, female = self.record.age, self.record.sex == "F"
        if self.born_here:
            return "newborn baby girl" if female else "newborn baby boy"
        if age < 1:
            return "girl under 1 year" if female else "boy under 1 year"
        grown_up = age >= _GROWN_UP
        noun = {True: ("man", "woman"), False: ("boy", "girl")}[grown_up][female]
        return f"{age} year old {noun}"

    def _complaint(self) -> str:
        complaints = [finding.complaint for finding in self.findings if finding.complaint]
        return (complaints or [_finding("").complaint])[0]

    def _treated(self) -> list[tuple[str, str]]:
        """The findings that get a drug, each with its class; no class stands twice."""
        wanted = self.n_drugs if self.n_drugs < _LIST_FROM else 1
        usable = _usable_classes(self.record.age)
        treated: dict[str, str] = {}
        for finding in self.findings:
            if finding.drug_class in usable:
                treated.setdefault(finding.drug_class, finding.phrase)
        extra = [
            (drug_class, phrase)
            for phrase, drug_class in _COMFORT
            if drug_class not in treated and drug_class in usable
        ]
        first = self._index(len(extra)) if extra else 0
        if not treated:
            # Nothing here is treated by a drug of its own: it is named, and the pain is treated.
            treated[extra[0][0]] = self.findings[0].phrase
            extra, first = extra[1:], 0
        pairs = [*treated.items(), *extra[first:], *extra[:first]][:wanted]
        return [(phrase, drug_class) for drug_class, phrase in pairs]

    def _choose_drugs(self, classes: Sequence[str], drugs: Drugs) -> list[str]:
        """Choose a drug of each class, and of other classes until there are enough."""
        # Ten numbers are taken whatever is needed, so that the rest of the note stays the same.
        draws = [next(self.uniforms) for _ in range(MOST_MEDICATIONS)]
        others = [c for c in _usable_classes(self.record.age) if c not in classes]
        names: list[str] = []
        for place, draw in enumerate(draws[: self.n_drugs]):
            if place < len(classes):
                drug_class = classes[place]
            else:
                scaled = draw * len(others)
                drug_class, draw = others.pop(int(scaled)), scaled % 1
            pool = _pool(drug_class, drugs, self.record.age)
            # Squared: the first of a class are given often, the last hardly ever.
            names.append(pool[int(draw**2 * len(pool))])
        return names

    def _history(self) -> str:
        named = list(dict.fromkeys(finding.phrase for finding in self.findings))
        others = [phrase for phrase in named if phrase not in self.reasons][:_HISTORY]
        which = next(self.uniforms)
        choices = _HISTORIES if others else _NO_HISTORIES
        return choices[int(which * len(choices))].format(conditions=" and ".join(others))

    def _examination(self, place: int) -> str:
        # The first is of the first half of the list and so on: no sentence stands twice.
        half = len(_EXAMINATIONS) // 2
        sentence = self._pick(_EXAMINATIONS[place * half : (place + 1) * half])
        slowest = 120 if self.record.age < 1 else 60
        return sentence.format(rate=slowest + 5 * self._index(9))

    def _treatment(self) -> str:
        templates = _LISTS if self.n_drugs >= _LIST_FROM else _TREATMENTS
        first = self._pick(templates)
        later = [self._pick(_LATER_TREATMENTS) for _ in range(2)]
        if self.n_drugs >= _LIST_FROM:
            listed = ", ".join(self.names)
            return first.format(finding=self.main, drugs=listed, he=self.he)
        return " ".join(
            template.format(finding=reason, drug=name, he=self.he)
            for template, reason, name in zip(
                [first, *later], self.reasons, self.names, strict=False
            )
        )

    def _days(self) -> int:
        return 2 + self._index(3 if self.record.age < 1 else 12)

    def _goes_home(self) -> bool:
        return not (next(self.uniforms) < 0.3 and self.record.age >= _REHABILITATION_FROM)


@cache
def _drugs() -> tuple[_Drug, ...]:
    return tuple(
        _Drug(row["name"], row["class"], row["group"], int(row["first_age"]))
        for row in _rows("drugs.csv")
    )


@cache
def _pool(drug_class: str, drugs: Drugs, age: int) -> tuple[str, ...]:
    """The names of a class that a patient of an age may be given."""
    return tuple(
        drug.name
        for drug in _drugs()
        if drug.group == drugs and drug.drug_class == drug_class and drug.first_age <= age
    )


@cache
def _usable_classes(age: int) -> tuple[str, ...]:
    """The classes of which both groups of names have one for the age."""
    classes = dict.fromkeys(drug.drug_class for drug in _drugs())
    return tuple(
        drug_class
        for drug_class in classes
        if all(_pool(drug_class, group, age) for group in get_args(Drugs))
    )


@cache
def _table_of_findings() -> dict[str, _Finding]:
    return {
        row["prefix"]: _Finding(row["finding"], row["complaint"], row["class"])
        for row in _rows("findings.csv")
    }


@cache
def _finding(code: str) -> _Finding:
    """What the longest prefix of a code means; the empty prefix stands for every other code."""
    table = _table_of_findings()
    return next(table[code[:n]] for n in range(len(code), -1, -1) if code[:n] in table)


def _findings_of(codes: Sequence[str]) -> list[_Finding]:
    """What is known of a patient: illnesses first, then what V codes say, in the codes' order."""
    other = _finding("")
    known = [(code.startswith("V"), _finding(code)) for code in codes]
    known = [(late, finding) for late, finding in known if finding != other]
    return [finding for _, finding in sorted(known, key=lambda pair: pair[0])] or [other]


def _rows(name: str) -> list[dict[str, str]]:
    text = files("ehr_course.sources.synthetic").joinpath(name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _check_drugs(drugs: str, function: str) -> None:
    if drugs not in get_args(Drugs):
        raise InputError(
            function,
            "argument drugs",
            f"{drugs!r} is no group of names",
            'Pass "common" or "unseen".',
        )


def _check_numbers(seed: int, medications: tuple[int, int]) -> None:
    if not isinstance(seed, int) or seed < 0:
        raise InputError(
            "make_notes",
            "argument seed",
            f"{seed!r} is not a seed",
            "Pass a whole number, 0 or more.",
        )
    fits = isinstance(medications, tuple) and len(medications) == 2
    if not fits or not 1 <= medications[0] <= medications[1] <= MOST_MEDICATIONS:
        raise InputError(
            "make_notes",
            "argument medications",
            f"{medications!r} is not the least and the most drugs of a note",
            f"Pass two whole numbers from 1 to {MOST_MEDICATIONS}, as (1, 3).",
        )
