"""What several synthetic cohorts are called, from what was typed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ehr_course.errors import InputError

_ENDINGS = (".csv.gz", ".csv", ".parquet", ".json")


def name_cohorts(
    cohorts: Sequence[str], models: Sequence[str] = ()
) -> tuple[str | dict[str, str], str | dict[str, str] | None]:
    """The paths of cohorts, and of the models that wrote them, by the names of the cohorts.

    Args:
        cohorts: each "PATH", named by its last part without its ending, or "NAME=PATH".
        models: each "PATH", if there is one cohort, or "NAME=PATH".

    Returns:
        both; of a single cohort the path alone, and None where there is no model.

    Raises:
        InputError: if two cohorts have one name, or a model is of none of them.

    >>> name_cohorts(["run/synthetic"], ["run"])
    ('run/synthetic', 'run')
    >>> name_cohorts(["synthetic", "b.csv", "halo=out.json"], ["synthetic=run"])
    ({'synthetic': 'synthetic', 'b': 'b.csv', 'halo': 'out.json'}, {'synthetic': 'run'})
    """
    named: dict[str, str] = {}
    for text in cohorts:
        name, path = _split(text)
        name = name or _name_of(path)
        if name in named:
            raise InputError(
                "--synthetic",
                repr(name),
                f"{named[name]} and {path} would both have this name",
                f"Name them: --synthetic first={named[name]} --synthetic second={path}.",
            )
        named[name] = path
    of: dict[str, str] = {}
    for text in models:
        name, path = _split(text)
        if not name and len(named) == 1:
            (name,) = named
        if name not in named:
            problem = f"there is no cohort {name!r}" if name else "which cohort did it write?"
            raise InputError(
                "--model",
                repr(text),
                f"{problem} (there are: {', '.join(named)})",
                f"Write --model {next(iter(named))}={path}.",
            )
        if name in of:
            raise InputError(
                "--model",
                repr(text),
                f"the cohort {name!r} has a model already, {of[name]}",
                "Give each cohort one.",
            )
        of[name] = path
    if len(named) == 1:
        (name,) = named
        return named[name], of.get(name)
    return named, of or None


def _split(text: str) -> tuple[str, str]:
    """NAME and PATH; the name is "" where there is none. A path may have a "=" in it."""
    name, sign, path = text.partition("=")
    if not sign or not name or not path or "/" in name or Path(text).exists():
        return "", text
    return name, path


def _name_of(path: str) -> str:
    name = Path(path).resolve().name
    for ending in _ENDINGS:
        if name.lower().endswith(ending):
            return name[: -len(ending)] or name
    return name
