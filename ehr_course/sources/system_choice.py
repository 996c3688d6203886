"""Which diagnoses of a hospital are read, and which code system its records are in at the end.

Hospitals in the United States wrote ICD-9-CM until September 2015 and ICD-10-CM since, so tables
of many years hold both. A record is in one system. Whoever loads such tables can take what is
coded in one of them, or have the rest translated; the report says what was done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ehr_course.code_system import (
    CODE_SYSTEMS,
    SYSTEM_NAMES,
    CodeSystem,
    checked_system,
    other_system,
)
from ehr_course.errors import InputError

OPTION_NAMES: dict[CodeSystem, str] = {"ICD9CM": "icd9", "ICD10CM": "icd10"}
"""How the options of the command line name the systems."""


def system_named(option: str | None) -> CodeSystem | None:
    """Return the system that an option of the command line names, or None for None.

    >>> system_named("icd10"), system_named(None)
    ('ICD10CM', None)
    """
    return None if option is None else {name: key for key, name in OPTION_NAMES.items()}[option]


MAPPED_BY_DEFAULT: CodeSystem = "ICD9CM"
"""The system into which diagnoses of both are brought where nothing is said.

``benchmarks/code_systems.py`` compares it with the other ways; the book's page "Your own data"
says what came out.
"""


class Choice(NamedTuple):
    """What is done with the diagnoses of each system.

    Attributes:
        taken: the systems whose diagnoses are read; the others are dropped and counted.
        system: the one that all codes of the records are in.
        notes: what the report is to say of it.
    """

    taken: tuple[CodeSystem, ...]
    system: CodeSystem
    notes: tuple[str, ...] = ()


def choose_systems(
    file: str,
    counts: Mapping[CodeSystem, int],
    *,
    system: CodeSystem | None,
    map_to: CodeSystem | None,
) -> Choice:
    """Decide which diagnoses are read, and what they become.

    Args:
        file: where they stand, for the error.
        counts: how many codes there are of each system.
        system: take those of this system alone; None takes all.
        map_to: translate those that are taken and are of the other system into this one. Where
            both arguments are None and there are diagnoses of both systems, it is
            MAPPED_BY_DEFAULT.

    Returns:
        the choice. Of ICD-9-CM alone it has no note.

    Raises:
        InputError: if a system is none of the two, both arguments name the same, or no diagnosis
            is coded in the system that is to be taken.

    >>> choose_systems("a.csv", {"ICD9CM": 5, "ICD10CM": 7}, system="ICD9CM", map_to=None)
    Choice(taken=('ICD9CM',), system='ICD9CM', notes=())
    >>> choose_systems("a.csv", {"ICD10CM": 7}, system=None, map_to=None)
    Choice(taken=('ICD9CM', 'ICD10CM'), system='ICD10CM', notes=('codes are ICD-10-CM',))
    """
    check_choice(file, system=system, map_to=map_to)
    there = [name for name, count in counts.items() if count]
    if system is not None:
        other = other_system(system)
        one = counts.get(other) == 1
        if there and system not in there:
            raise InputError(
                file,
                "",
                f"no diagnosis in it is coded in {SYSTEM_NAMES[system]}; {counts[other]:,} "
                f"{'is' if one else 'are'} coded in {SYSTEM_NAMES[other]}",
                f"Take {'it' if one else 'them'} (--codes {OPTION_NAMES[other]}, or "
                f"system={other!r}), or translate (--map {OPTION_NAMES[system]} alone, or "
                f"map_to={system!r}).",
            )
        result = map_to or system
        return Choice((system,), result, _named(result))
    if map_to is not None:
        return Choice(CODE_SYSTEMS, map_to, _named(map_to))
    if len(there) == 2:
        into = MAPPED_BY_DEFAULT
        other = other_system(into)
        note = (
            f"diagnoses are coded in both systems, {counts[into]:,} in {SYSTEM_NAMES[into]} and "
            f"{counts[other]:,} in {SYSTEM_NAMES[other]}; without --codes or --map, those in "
            f"{SYSTEM_NAMES[other]} are translated"
        )
        return Choice(CODE_SYSTEMS, into, (note, *_named(into)))
    [only] = there or ["ICD9CM"]
    return Choice(CODE_SYSTEMS, only, _named(only))


def check_choice(file: str, *, system: CodeSystem | None, map_to: CodeSystem | None) -> None:
    """Refuse systems that are none, and a choice that contradicts itself.

    Raises:
        InputError: as choose_systems does.
    """
    for name in (system, map_to):
        if name is not None:
            checked_system(name)
    if system is not None and system == map_to:
        option = OPTION_NAMES[system]
        raise InputError(
            file,
            "",
            f"--codes {option} leaves out what --map {option} translates: all that is not coded "
            f"in {SYSTEM_NAMES[system]}",
            "Leave one of the two out: --codes or --map, system= or map_to=.",
        )


def _named(system: CodeSystem) -> tuple[str, ...]:
    """What the report says of the system of the records; ICD-9-CM is what it always was."""
    return () if system == "ICD9CM" else (f"codes are {SYSTEM_NAMES[system]}",)
