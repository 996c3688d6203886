"""Invented clinical notes, each with a summary of the hospital course.

``findings.csv`` has plain words, complaint and drug class of each code, ``drugs.csv`` generic
names by class, ``note_sentences.yml`` the sentences. Learn from these how models work, never how
to treat.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple, get_args

import numpy as np
import yaml

from ehr_course.code_system import SYSTEM_NAMES
from ehr_course.errors import InputError
from ehr_course.records import NotePair, PatientRecord
from ehr_course.sources.synthetic.case_mix import packaged_table
from ehr_course.sources.synthetic.draws import check_seed, hashed

Drugs = Literal["common", "unseen"]
"""Drug names of the training notes, or those that are kept apart."""

MOST_MEDICATIONS = 10
"""The most drugs of a note, each of another class: that many classes fit every age."""

_STREAMS = 100  # the first stream of random numbers that belongs to the notes
_DRAWS = 16 + MOST_MEDICATIONS
_LIST_FROM = 4  # the fewest drugs that form a list; fewer get a sentence each
_HISTORY = 2  # conditions named without a treatment
_GROWN_UP = 18
_REHABILITATION_FROM = 50

# By class, what may be treated in any patient if the codes call for fewer drugs than wanted.
_COMFORT = {"pain": "pain", "acid": "reflux", "nausea": "nausea", "vitamin": "poor nutrition"}


def drug_names(drugs: Drugs) -> tuple[str, ...]:
    """Return the drug names of notes, one lower-case word each; no "unseen" name is "common".

    >>> "furosemide" in drug_names("common"), "bumetanide" in drug_names("unseen")
    (True, True)
    """
    _check_drugs(drugs, "drug_names")
    return tuple(row["name"] for row in packaged_table("drugs.csv") if row["group"] == drugs)


def make_notes(
    records: Sequence[PatientRecord],
    *,
    seed: int = 0,
    drugs: Drugs = "common",
    medications: tuple[int, int] = (1, 3),
) -> list[NotePair]:
    """Invent a clinical note of each patient's first visit, and its hospital-course summary.

    The note names age, sex, complaint, findings, drugs, and where the patient went; sentences
    vary. The summary repeats in a fixed form who the patient is, the finding treated first, the
    drugs in the note's order, and where the patient went after how many days: all of it can be
    read from the note. The finding tells a drug's class, but only the note tells which drug it is.

    The same patient, seed and options give the same note on every machine, whatever else is in the
    list. With ``drugs="unseen"`` only the names of drugs differ.

    Args:
        records: the patients; the first visit's codes and the age are used.
        seed: 0 or more.
        drugs: which names the notes have, as in `drug_names`.
        medications: the least and the most drugs in a note, 1 to 10, each of another class. Four
            or more stand in a list, where only the first is tied to a finding.

    Returns:
        a pair for each patient, in order, in lower case. With one to three drugs a note has about
        50 words and punctuation marks, its summary 15 to 21.
    """
    _check_drugs(drugs, "make_notes")
    check_seed("make_notes", seed)
    fits = isinstance(medications, tuple) and len(medications) == 2
    if not fits or not 1 <= medications[0] <= medications[1] <= MOST_MEDICATIONS:
        raise InputError(
            "make_notes",
            "argument medications",
            f"{medications!r} is not the least and the most drugs of a note",
            f"Pass two whole numbers from 1 to {MOST_MEDICATIONS}, as (1, 3).",
        )
    for record in records:
        if record.visits[0].system != "ICD9CM":
            raise InputError(
                "make_notes",
                f"patient {record.subject_id}",
                f"the first visit is coded in {SYSTEM_NAMES[record.visits[0].system]}, and notes "
                "are invented from ICD-9-CM alone",
                'Pass the same patients coded in ICD-9-CM: make_cohort(..., system="ICD9CM").',
            )
    ids = np.array([record.subject_id for record in records], dtype=np.int64)
    draws = np.stack([hashed(seed, _STREAMS + k, ids) for k in range(_DRAWS)], axis=1)
    return [
        _note(record, _Choices(row), drugs, medications)
        for record, row in zip(records, draws.tolist(), strict=True)
    ]


class _Choices:
    """The random numbers of one patient, taken one by one."""

    def __init__(self, uniforms: Iterable[float]) -> None:
        self.uniforms = iter(uniforms)

    def index(self, out_of: int) -> int:
        return int(next(self.uniforms) * out_of)

    def sentence(self, kind: str) -> str:
        choices = _sentences()[kind]
        return choices[self.index(len(choices))]


def _note(
    record: PatientRecord, choices: _Choices, drugs: Drugs, medications: tuple[int, int]
) -> NotePair:
    """Write a patient's note and its summary."""
    codes = record.visits[0].codes
    born_here = any(code.startswith("V3") for code in codes)
    who, he = _who(record, born_here), "she" if record.sex == "F" else "he"
    findings = _findings_of(codes)
    least, most = medications
    n_drugs = least + choices.index(most - least + 1)
    treated = _treated(findings, record.age, 1 if n_drugs >= _LIST_FROM else n_drugs, choices)
    reasons = list(treated.values())
    names = _choose_drugs(list(treated), n_drugs, drugs, record.age, choices)

    complaints = [finding.complaint for finding in findings if finding.complaint]
    complaint = (complaints or [_finding("").complaint])[0]
    arrival = choices.sentence("births" if born_here else "arrivals")
    named = list(dict.fromkeys(finding.phrase for finding in findings))
    conditions = [phrase for phrase in named if phrase not in reasons][:_HISTORY]
    history = choices.sentence("histories" if conditions else "no histories")
    sentences = [
        arrival.format(who=who, complaint=complaint),
        history.format(conditions=" and ".join(conditions)),
    ]
    slowest = 120 if record.age < 1 else 60
    examinations = [
        choices.sentence(kind).format(rate=slowest + 5 * choices.index(9))
        for kind in ("first examinations", "second examinations")
    ]
    sentences += examinations[: 3 - min(n_drugs, 3)]
    treatments = [choices.sentence("lists" if n_drugs >= _LIST_FROM else "treatments")]
    treatments += [choices.sentence("later treatments") for _ in range(2)]
    given = [", ".join(names)] if n_drugs >= _LIST_FROM else names
    sentences += [
        treatment.format(finding=reason, drug=drug, he=he)
        for treatment, reason, drug in zip(treatments, reasons, given, strict=False)
    ]
    sentences.append(choices.sentence("courses").format(he=he))
    days = 2 + choices.index(3 if record.age < 1 else 12)
    leaves_home = next(choices.uniforms) < 0.3 and record.age >= _REHABILITATION_FROM
    where = "rehabilitation" if leaves_home else "home"
    sentences.append(f"{he} {choices.sentence(where).format(days=days)}")
    summary = (
        f"{who} with {reasons[0]}. treated with {', '.join(names)}. {where} after {days} days."
    )
    return NotePair(" ".join(sentences), summary, record.subject_id)


def _who(record: PatientRecord, born_here: bool) -> str:
    child = "girl" if record.sex == "F" else "boy"
    if born_here:
        return f"newborn baby {child}"
    if record.age < 1:
        return f"{child} under 1 year"
    grown_up = "woman" if record.sex == "F" else "man"
    return f"{record.age} year old {grown_up if record.age >= _GROWN_UP else child}"


class _Finding(NamedTuple):
    phrase: str
    complaint: str
    drug_class: str


def _treated(
    findings: Sequence[_Finding], age: int, wanted: int, choices: _Choices
) -> dict[str, str]:
    """The treated findings, by the class of the drug."""
    usable = _usable_classes(age)
    treated: dict[str, str] = {}
    for finding in findings:
        if finding.drug_class in usable:
            treated.setdefault(finding.drug_class, finding.phrase)
    extra = [pair for pair in _COMFORT.items() if pair[0] in usable and pair[0] not in treated]
    first = choices.index(len(extra)) if extra else 0
    if not treated:
        # No finding has a drug of its own: the first is named, and the pain is treated.
        treated[extra[0][0]] = findings[0].phrase
        extra, first = extra[1:], 0
    return dict([*treated.items(), *extra[first:], *extra[:first]][:wanted])


def _choose_drugs(
    classes: Sequence[str], n_drugs: int, drugs: Drugs, age: int, choices: _Choices
) -> list[str]:
    """Choose a drug of each class, then of other classes until there are enough."""
    # Always ten numbers, so that the rest of the note stays the same.
    draws = [next(choices.uniforms) for _ in range(MOST_MEDICATIONS)]
    others = [c for c in _usable_classes(age) if c not in classes]
    names: list[str] = []
    for place, draw in enumerate(draws[:n_drugs]):
        if place < len(classes):
            drug_class = classes[place]
        else:
            scaled = draw * len(others)
            drug_class, draw = others.pop(int(scaled)), scaled % 1
        pool = _pool(drug_class, drugs, age)
        # Squared: the first of a class are frequent, the last rare.
        names.append(pool[int(draw**2 * len(pool))])
    return names


@cache
def _pool(drug_class: str, drugs: Drugs, age: int) -> tuple[str, ...]:
    """The names of a class that suit a patient's age."""
    return tuple(
        row["name"]
        for row in packaged_table("drugs.csv")
        if (row["class"], row["group"]) == (drug_class, drugs) and int(row["first_age"]) <= age
    )


@cache
def _usable_classes(age: int) -> tuple[str, ...]:
    """The classes with a name in both groups for the age."""
    classes = dict.fromkeys(row["class"] for row in packaged_table("drugs.csv"))
    return tuple(c for c in classes if all(_pool(c, group, age) for group in get_args(Drugs)))


@cache
def _finding(code: str) -> _Finding:
    """What the longest known prefix of a code means; the empty prefix covers all others."""
    table = {row["prefix"]: row for row in packaged_table("findings.csv")}
    row = next(table[code[:n]] for n in range(len(code), -1, -1) if code[:n] in table)
    return _Finding(row["finding"], row["complaint"], row["class"])


def _findings_of(codes: Sequence[str]) -> list[_Finding]:
    """A patient's findings: illnesses first, then V codes, in the codes' order."""
    other = _finding("")
    in_order = sorted(codes, key=lambda code: code.startswith("V"))
    return [finding for finding in map(_finding, in_order) if finding != other] or [other]


@cache
def _sentences() -> dict[str, list[str]]:
    file = files("ehr_course.sources.synthetic") / "note_sentences.yml"
    return yaml.safe_load(file.read_text(encoding="utf-8"))


def _check_drugs(drugs: str, function: str) -> None:
    if drugs not in get_args(Drugs):
        raise InputError(
            function,
            "argument drugs",
            f"{drugs!r} is not a group of names",
            'Pass "common" or "unseen".',
        )
