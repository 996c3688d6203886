"""A YAML file is read as checked data; what is wrong in it is named by line."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator

from ehr_course.errors import InputError
from ehr_course.yaml_file import RuleError, YamlFile


class Room(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    beds: int
    nurses: list[str] = Field(default=[], max_length=2)

    @field_validator("beds")
    @classmethod
    def _at_least_one(cls, beds: int) -> int:
        if beds < 1:
            raise RuleError(f"a room with {beds} beds", "Write 1 or more.")
        return beds


Ward = dict[str, Room]


@pytest.fixture
def file(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "ward.yml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_what_is_right_is_read(file) -> None:
    ward = YamlFile.open(file("east:\n  beds: 3\n  nurses: [Ada]\nwest: {beds: 1}\n")).read_as(
        Ward
    )
    assert ward == {"east": Room(beds=3, nurses=["Ada"]), "west": Room(beds=1)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("east:\n  beds: three\n", "line 2, east > beds: .*integer.*'three'.* Write a whole"),
        ("east:\n  beds: 3\n  nurses: [Ada, 7]\n", "line 3, east > nurses > 2: .* Write text"),
        ("east:\n  beds: 3\nwest:\n  nurses: []\n", "line 3, west > beds: field required. Add"),
        ("east:\n  beds: 3\n  bads: 1\n", "line 3, east > bads: .*not permitted.* spelling"),
        ("east:\n  beds: 0\n", "line 2, east > beds: a room with 0 beds. Write 1 or more."),
        ("east: {beds: 3}\neast: {beds: 4}\n", r"line 2: 'east' .* second time \(first in line 1"),
        ("east: [beds\n", "line 2: is not YAML"),
        ("east: {beds: 1, nurses: [a, b, c]}", "line 1, .*at most 2 items.* Leave some"),
        ("", "line 1: input should be a valid dictionary, and it is None"),
        ("east: 3\n", "line 1, east: .* Write `key: value` lines"),
    ],
)
def test_what_is_wrong_is_named_by_file_and_line(file, text: str, message: str) -> None:
    path = file(text)
    with pytest.raises(InputError, match=f"^{path}, {message}"):
        YamlFile.open(path).read_as(Ward)


def test_a_file_that_is_not_there_or_not_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yml: cannot be read"):
        YamlFile.open(tmp_path / "none.yml").read_as(Ward)
    (tmp_path / "bytes.yml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="is not UTF-8 text"):
        YamlFile.open(tmp_path / "bytes.yml").read_as(Ward)


def test_an_alias_stands_for_what_it_names(file) -> None:
    opened = YamlFile.open(file("east: &one {beds: 3}\nwest: *one\n"))
    assert opened.content == {"east": {"beds": 3}, "west": {"beds": 3}}
    assert opened.lines["west",] == 2
