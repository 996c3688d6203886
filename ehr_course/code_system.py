"""The two systems of diagnosis codes: ICD-9-CM, used until September 2015, and ICD-10-CM since.

Text alone does not say which system a code belongs to: E8859 is a fall (E885.9) or a metabolic
disease (E88.59). So the system goes along with every code.
"""

from __future__ import annotations

from typing import Literal, get_args

from ehr_course.errors import InputError

CodeSystem = Literal["ICD9CM", "ICD10CM"]
"""A system by its name in MEDS and in the hospitals' code lists."""

CODE_SYSTEMS: tuple[CodeSystem, ...] = get_args(CodeSystem)
"""Both systems, the older one first."""

SYSTEM_NAMES: dict[CodeSystem, str] = {"ICD9CM": "ICD-9-CM", "ICD10CM": "ICD-10-CM"}
"""Their names in prose."""


def checked_system(system: str) -> CodeSystem:
    """Return the system, or raise an InputError if it is not one of the two."""
    if system not in CODE_SYSTEMS:
        raise InputError(
            "code system",
            "",
            f"{system!r} is neither 'ICD9CM' nor 'ICD10CM'",
            "Pass one of these two names.",
        )
    return system


def other_system(system: CodeSystem) -> CodeSystem:
    """Return the other system."""
    return "ICD10CM" if checked_system(system) == "ICD9CM" else "ICD9CM"
