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

    Of a single cohort it returns the path alone, and None without models.

    Args:
        cohorts: each "PATH", named by its last part without its ending, or "NAME=PATH".
        models: each "PATH", if there is one cohort, or "NAME=PATH".

    Raises:
        InputError: if two cohorts have one name, or a model belongs to none of them.

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
    first = next(iter(named))
    written_by: dict[str, str] = {}
    for text in models:
        name, path = _split(text)
        name = first if not name and len(named) == 1 else name
        if name not in named:
            problem = f"there is no cohort {name!r}" if name else "which cohort did it write?"
            problem, remedy = f"{problem} (there are: {', '.join(named)})", f"{first}={path}"
            raise InputError("--model", repr(text), problem, f"Write --model {remedy}.")
        if name in written_by:
            problem = f"the cohort {name!r} has a model already, {written_by[name]}"
            raise InputError("--model", repr(text), problem, "Give each cohort one.")
        written_by[name] = path
    if len(named) == 1:
        return named[first], written_by.get(first)
    return named, written_by or None


def _split(text: str) -> tuple[str, str]:
    """Split into NAME, perhaps "", and PATH, which may hold a "="."""
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
