"""Read a YAML file into checked data, with errors that name the file, the line and the remedy."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from ehr_course.errors import InputError

Data = TypeVar("Data")
Keys = tuple[Hashable, ...]

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_REMEDIES = {
    "missing": "Add it.",
    "extra_forbidden": "Check its spelling, or remove it.",
    "string_type": 'Write text; numbers such as "07" stand in quotation marks.',
    "int_type": "Write a whole number.",
    "too_short": "Add some.",
    "too_long": "Leave some out.",
    "list_type": "Write a list.",
    "tuple_type": "Write a list.",
    "dict_type": "Write `key: value` lines.",
    "model_type": "Write `key: value` lines.",
    "dataclass_type": "Write `key: value` lines.",
}


class RuleError(ValueError):
    """Raised by a validator: the problem that it found, and what the writer can do about it."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem, self.remedy = problem, remedy
        super().__init__(f"{problem}. {remedy}")


@dataclass(frozen=True)
class YamlFile:
    """The content of a YAML file, and the line number of each part of it.

    Attributes:
        path: the file.
        content: what it holds, as dictionaries, lists, text and numbers.
        lines: the line (from 1) of each part, by the keys and indices that lead to it.
    """

    path: Path
    content: Any
    lines: dict[Keys, int] = field(repr=False)

    @classmethod
    def open(cls, path: str | Path) -> YamlFile:
        """Read a file."""
        path = Path(path)
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(path, "", f"cannot be read: {error.strerror}", "Check it.") from error
        except UnicodeDecodeError as error:
            raise InputError(path, "", "is not UTF-8 text", "Save it as UTF-8.") from error
        return cls.of_text(path, text)

    @classmethod
    def of_text(cls, path: Path, text: str) -> YamlFile:
        """Read a file's text; errors name `path`."""
        loader = _Loader(text)
        lines: dict[Keys, int] = {}
        try:
            node = loader.get_single_node()
            content = None if node is None else _build(path, loader, node, (), lines)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            place = "" if mark is None else f"line {mark.line + 1}"
            problem = f"is not YAML ({getattr(error, 'problem', None) or error})"
            raise InputError(path, place, problem, "Correct the syntax.") from error
        finally:
            loader.dispose()
        return cls(path, content, lines)

    def error(self, keys: Keys, problem: str, remedy: str) -> InputError:
        """Make the error about the part that `keys` lead to, or about where it is missing."""
        known = keys
        while known and known not in self.lines:
            known = known[:-1]
        line = f"line {self.lines.get(known, 1)}"
        words = " > ".join(str(key + 1 if isinstance(key, int) else key) for key in keys)
        place = f"{line}, {words}" if words else line
        return InputError(self.path, place, problem, remedy)

    def read_as(self, kind: type[Data]) -> Data:
        """Return the content as `kind`, a type that pydantic can read."""
        try:
            return TypeAdapter(kind).validate_python(self.content)
        except ValidationError as error:
            # A misspelt key is also missing: the misspelling says more.
            first = min(error.errors(), key=lambda found: found["type"] == "missing")
        keys = tuple(key for key in first["loc"] if key != "[key]")
        broken = first.get("ctx", {}).get("error")
        if isinstance(broken, RuleError):
            raise self.error(keys, broken.problem, broken.remedy)
        problem = first["msg"][:1].lower() + first["msg"][1:]
        if first["type"] != "missing":
            problem += f", and it is {_short(first['input'])}"
        raise self.error(keys, problem, _REMEDIES.get(first["type"], "Correct it."))


def _build(path: Path, loader: Any, node: yaml.Node, keys: Keys, lines: dict[Keys, int]) -> Any:
    lines.setdefault(keys, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [
            _build(path, loader, item, (*keys, index), lines)
            for index, item in enumerate(node.value)
        ]
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node)
    built: dict[Hashable, Any] = {}
    for key_node, value_node in node.value:
        key, line = loader.construct_object(key_node, deep=True), key_node.start_mark.line + 1
        if not isinstance(key, Hashable):
            raise InputError(path, f"line {line}", f"{key!r} cannot be a key", "Use text.")
        if key in built:
            earlier = lines[(*keys, key)]
            problem = f"{key!r} stands here for the second time (first in line {earlier})"
            raise InputError(path, f"line {line}", problem, "Keep one of them.")
        lines[(*keys, key)] = line
        built[key] = _build(path, loader, value_node, (*keys, key), lines)
    return built


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
