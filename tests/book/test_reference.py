"""The reference of the library describes what lessons import, and stays readable."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from course.reference import FOLDER, ROOMS, write_reference

ROOT = Path(__file__).resolve().parents[2]
MODULES = [module for room in ROOMS for module in room.modules]

OF_LESSONS = ("exercises.", "plots.lesson_", "opened_alone")
"""What only lessons and their first cells import: it is no part of the reference."""


def all_modules() -> set[str]:
    library = ROOT / "ehr_course"
    files = [path.relative_to(library).with_suffix("") for path in library.rglob("*.py")]
    names = {".".join(path.parts).removesuffix(".__init__") for path in files}
    return {name for name in names if "__" not in name}


def homes_in(room: str) -> dict[str, str]:
    """The module of the library that each name of a room, or of `ehr_course`, is loaded from."""
    stub = ast.parse((ROOT / "ehr_course" / room / "__init__.pyi").read_text(encoding="utf-8"))
    before = f"{room}." if room else ""
    return {
        one.name: before + (node.module or one.name)
        for node in ast.walk(stub)
        if isinstance(node, ast.ImportFrom)
        for one in node.names
    }


def imported_by_lessons() -> set[str]:
    """The modules of the library that the lessons import, or import from."""
    known = all_modules()
    homes = {room: homes_in(room) for room in ("", "plots", "widgets")}
    found = set()
    for source in sorted((ROOT / "lessons").glob("*.py")):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ehr_course"):
                package = (node.module or "").removeprefix("ehr_course").lstrip(".")
                if package in homes:
                    found |= {homes[package][one.name] for one in node.names}
                    continue
                names = {f"{package}.{one.name}".lstrip(".") for one in node.names} & known
                found |= names or {package}
    return found


def test_every_module_that_a_lesson_imports_is_described():
    wanted = {name for name in imported_by_lessons() if not name.startswith(OF_LESSONS)}
    assert len(wanted) > 60
    assert wanted - set(MODULES) == set()


def test_every_module_of_the_reference_is_there_once():
    assert set(MODULES) <= all_modules()
    assert len(MODULES) == len(set(MODULES))


def test_every_room_of_the_library_has_a_page_or_is_described_elsewhere():
    rooms = {name.partition(".")[0] for name in all_modules()}
    elsewhere = {"cli", "opened_alone", "printable", "termination"}
    assert rooms - {name.partition(".")[0] for name in MODULES} == elsewhere


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_a_page_has_a_heading_for_each_module_and_the_index_leads_there(tmp_path, room):
    write_reference(tmp_path)
    page = (tmp_path / FOLDER / f"{room.name}.md").read_text(encoding="utf-8")
    headings = [line for line in page.splitlines() if line.startswith("#")]
    assert headings == [f"# {room.title}", *(f"## ehr_course.{name}" for name in room.modules)]
    assert page.count(".. automodule:: ") == len(room.modules)
    index = (tmp_path / FOLDER / "index.md").read_text(encoding="utf-8")
    assert f"[{room.title}]({room.name}.md)" in index
    assert f"\n{room.name}\n" in index
