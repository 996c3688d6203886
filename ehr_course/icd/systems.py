"""The two systems, and how to ask for one by its name."""

from __future__ import annotations

from ehr_course.code_system import CodeSystem, checked_system
from ehr_course.icd.icd9_cm import ICD9
from ehr_course.icd.icd10_cm import ICD10

icd9 = ICD9()
icd10 = ICD10()


def code_meaning(system: CodeSystem) -> ICD9 | ICD10:
    """Return ``icd9`` or ``icd10`` by the name of its system."""
    return icd9 if checked_system(system) == "ICD9CM" else icd10


def possible_systems(text: str) -> tuple[CodeSystem, ...]:
    """Return the systems, from none to both, in which text has the shape of a code.

    >>> possible_systems("428.0"), possible_systems("I50.9"), possible_systems("E8859")
    (('ICD9CM',), ('ICD10CM',), ('ICD9CM', 'ICD10CM'))
    """
    return tuple(coding.system for coding in (icd9, icd10) if coding.is_code(text))
