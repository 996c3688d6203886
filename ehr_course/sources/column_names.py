"""Which column of a table says what: how it is named on a command line, and how recognised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ehr_course.errors import InputError

KNOWN_COLUMNS = {
    "patient": ("patient", "patient_id", "subject_id", "person_id"),
    "visit": ("visit", "visit_id", "hadm_id", "encounter", "encounter_id", "visit_occurrence_id"),
    "code": ("code", "icd9_code", "icd_code"),
    "age": ("age",),
    "sex": ("sex", "gender"),
    "time": ("time", "admittime"),
    "sequence": ("sequence", "seq_num"),
    "version": ("icd_version",),
}
"""What a table can say, and under which column names it is recognised, in upper or lower case."""

_NEEDED = ("patient", "visit", "code")
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}

_PYHEALTH = {"patient": "id", "visit": "time", "code": "visit_codes"}
"""The columns of PyHealth's flat table, whose times number the visits: 0, 1, 2."""


def parse_columns(text: str) -> dict[str, str]:
    """Read which column holds what, as a command line says it.

    Args:
        text: such as "patient=subject,visit=encounter".

    Raises:
        InputError: if a part is not of this form, or names something that no table can say.

    >>> parse_columns("patient=subject, code=icd")
    {'patient': 'subject', 'code': 'icd'}
    """
    columns: dict[str, str] = {}
    for part in text.split(","):
        role, equals, name = (piece.strip() for piece in part.partition("="))
        if not (equals and name) or role not in KNOWN_COLUMNS or role in columns:
            again = "is named twice" if role in columns else "does not say which column holds what"
            raise InputError(
                "--columns",
                "",
                f"{part.strip()!r} {again}",
                "Write patient=NAME,visit=NAME,code=NAME; besides these there are "
                f"{', '.join(list(KNOWN_COLUMNS)[3:])}.",
            )
        columns[role] = name
    return columns


def check_is_header(file: str, place: str, names: Sequence[str]) -> None:
    """Refuse names of columns that are a comment, or that something else than commas separates.

    Args:
        file, place: what errors name.
        names: as they were read, not all of those that are needed.
    """
    if names and names[0].lstrip().startswith("#"):
        raise InputError(
            file,
            place,
            "a comment stands where the names of the columns should be",
            "Take out the lines above the names, and any '#' before them.",
        )
    separators = [
        name for sign, name in _SEPARATORS.items() if len(names) == 1 and sign in names[0]
    ]
    if separators:
        raise InputError(
            file,
            place,
            f"its columns are separated by {separators[0]}, not by commas",
            "Export it again, separated by commas.",
        )


def choose_columns(
    file: str, place: str, names: Iterable[str], columns: Mapping[str, str] | None
) -> dict[str, str]:
    """Which column says what, as the table spells it.

    Args:
        file, place: what errors name.
        names: the table's columns.
        columns: those that were asked for, by what they say; others are recognised, unless they
            were asked for as something else.

    Raises:
        InputError: if one that was asked for, or is needed, is missing or stands there twice.
    """
    names, columns = list(names), dict(columns or {})
    there = {name.strip().lower() for name in names}
    if there.issuperset(_PYHEALTH.values()):
        columns = _PYHEALTH | columns
    asked_for = {name.lower() for name in columns.values()}
    found: dict[str, str] = {}
    for role, known in KNOWN_COLUMNS.items():
        free = (name for name in known if name not in asked_for)
        wanted = (columns[role],) if role in columns else tuple(free)
        matches = [n for want in wanted for n in names if n.strip().lower() == want.lower()]
        if len(matches) > 1 and matches[0].strip().lower() == matches[1].strip().lower():
            raise InputError(file, place, f"there are two columns {matches[0]!r}", "Keep one.")
        if matches:
            found[role] = matches[0]
        elif role in columns or role in _NEEDED:
            check_is_header(file, place, names)
            absent = f"there is no column {wanted[0]!r}"
            problem = absent if role in columns else f"no column is known to hold the {role}"
            raise InputError(
                file,
                place,
                f"{problem} (found: {', '.join(names)})",
                f"Name the right one: --columns {role}=NAME, or columns={{{role!r}: NAME}}.",
            )
    return found
