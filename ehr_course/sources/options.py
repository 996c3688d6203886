"""The options that all loaders share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from ehr_course.code_system import SYSTEM_NAMES, CodeSystem, checked_system
from ehr_course.errors import InputError

Malformed = Literal["raise", "drop"]
"""What to do with a row that holds a malformed value."""

OPTION_NAMES: dict[CodeSystem, str] = {"ICD9CM": "icd9", "ICD10CM": "icd10"}
"""What options of the command line call the systems."""


def system_named(option: str | None) -> CodeSystem | None:
    """Return the system that an option of the command line names, or None for None."""
    return None if option is None else {name: key for key, name in OPTION_NAMES.items()}[option]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """The options that every loader takes; ``any_cohort.load_cohort`` explains them."""

    malformed: Malformed = "raise"
    date_format: str | None = None
    whole_patients: bool = False
    zeros_lost_ok: bool = False
    system: CodeSystem | None = None
    map_to: CodeSystem | None = None

    def __post_init__(self) -> None:
        if self.malformed not in get_args(Malformed):
            problem = f"{self.malformed!r} is not a policy"
            raise InputError("malformed", "", problem, 'Use "raise" or "drop".')
        for name in (self.system, self.map_to):
            if name is not None:
                checked_system(name)
        if self.system is not None and self.system == self.map_to:
            option = OPTION_NAMES[self.system]
            raise InputError(
                "options",
                "",
                f"--codes {option} leaves out what --map {option} translates: all that is not "
                f"coded in {SYSTEM_NAMES[self.system]}",
                "Leave one of the two out: --codes or --map, system= or map_to=.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions(LoadOptions):
    """The options of formats whose codes may be of any vocabulary."""

    code_map: Mapping[str, str] | None = None
