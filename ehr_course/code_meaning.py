"""The one door to both code systems: ask it for a system by name, and get what its codes mean."""

from __future__ import annotations

from typing import Protocol

from ehr_course import icd9, icd10
from ehr_course.code_rules import Chapter, Eligibility
from ehr_course.code_system import CODE_SYSTEMS, CodeSystem, checked_system
from ehr_course.records import Sex


class CodeMeaning(Protocol):
    """What ``ehr_course.icd9`` and ``ehr_course.icd10`` both offer, under the same names."""

    UNDOTTED: str
    WRITTEN: str

    def is_code(self, text: str) -> bool: ...  # noqa: D102
    def normalize(self, code: str) -> str: ...  # noqa: D102
    def category(self, code: str) -> str: ...  # noqa: D102
    def dotted(self, code: str) -> str: ...  # noqa: D102
    def written(self, token: str) -> str: ...  # noqa: D102
    def chapter(self, code: str) -> Chapter: ...  # noqa: D102
    def in_chronic_category(self, code: str) -> bool: ...  # noqa: D102
    def title(self, code: str) -> str: ...  # noqa: D102
    def is_complete(self, code: str) -> bool: ...  # noqa: D102
    def parents(self, code: str) -> tuple[str, ...]: ...  # noqa: D102
    def who_can_have(self, code: str) -> Eligibility | None: ...  # noqa: D102
    def why_impossible(self, code: str, *, age: int, sex: Sex) -> str | None: ...  # noqa: D102


_MEANINGS: dict[CodeSystem, CodeMeaning] = {"ICD9CM": icd9, "ICD10CM": icd10}


def code_meaning(system: CodeSystem) -> CodeMeaning:
    """Return what answers questions about the codes of one system.

    Raises:
        InputError: if system is neither "ICD9CM" nor "ICD10CM".

    >>> code_meaning("ICD9CM").title("V30")
    'Single liveborn'
    >>> code_meaning("ICD10CM").title("V30")
    'Occupant of three-wheeled motor vehicle injured in collision with pedestrian or animal'
    """
    return _MEANINGS[checked_system(system)]


def possible_systems(text: str) -> tuple[CodeSystem, ...]:
    """Return the systems in which text has the shape of a code: none, one or both.

    The shape is all that is looked at. Where both are possible, only the table that the code
    comes from can say which one is meant.

    Args:
        text: a code with or without its dot.

    >>> possible_systems("428.0"), possible_systems("I50.9"), possible_systems("E8859")
    (('ICD9CM',), ('ICD10CM',), ('ICD9CM', 'ICD10CM'))
    >>> possible_systems("E885.9"), possible_systems("V30.4XXA"), possible_systems("fever")
    (('ICD9CM',), ('ICD10CM',), ())
    """
    return tuple(system for system in CODE_SYSTEMS if _MEANINGS[system].is_code(text))
