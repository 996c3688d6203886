"""Every claim of the book is measured by one cell: of its lesson, or of What holds."""

from __future__ import annotations

import re

import pytest
from lesson_files import LESSONS, ROOT, WHAT_HOLDS, cells_tagged, name, number, read_source, tags

SECTION = re.compile(r"^## (\d\d) ")
ROW = re.compile(r"^\| *(\d+) *\|.*\| *\[(lesson|notebook)\]\(#claim-(\d+)\) *\|$")


def listed_claims() -> list[tuple[str, str, str]]:
    """Return (claim, lesson, where it is measured) of each row of the page "What holds"."""
    page = (ROOT / "course" / "book" / "what_holds.md").read_text(encoding="utf-8")
    claims, lesson = [], ""
    for line in page.splitlines():
        if section := SECTION.match(line):
            lesson = section[1]
        elif re.match(r"\| *\d+ *\|", line):
            row = ROW.match(line)
            assert row, f"not a row of the form | 4 | says | holds | [lesson](#claim-4) |: {line}"
            claim, where, target = row.groups()
            assert claim == target
            claims.append((claim, lesson, where))
    return claims


def listed(lesson: str, where: str) -> set[str]:
    """Return the claims that the page lists for a lesson, by where they are measured."""
    return {claim for claim, *rest in listed_claims() if rest == [lesson, where]}


def test_the_claims_are_listed_once_and_none_is_lost():
    claims = sorted(int(claim) for claim, *_ in listed_claims())
    assert claims == [*range(1, 52)]


@pytest.mark.parametrize("lesson", LESSONS, ids=name)
def test_a_lesson_measures_the_claims_that_the_book_lists_for_it(lesson):
    assert set(cells_tagged(read_source(lesson), "claim")) == listed(number(lesson), "lesson")


def test_the_notebook_measures_all_others_each_in_the_section_of_its_lesson():
    assert cells_tagged(read_source(WHAT_HOLDS), "claim")  # each of them once
    measured: dict[str, set[str]] = {}
    for cell in read_source(WHAT_HOLDS).cells:
        if section := SECTION.match(cell.source):
            measured[section[1]] = set()
        for tag in tags(cell):
            if tag.startswith("claim:"):
                measured[max(measured)].add(tag.removeprefix("claim:"))
    assert measured == {lesson: listed(lesson, "notebook") for lesson in measured}
    assert sum(map(len, measured.values())) == sum(w == "notebook" for *_, w in listed_claims())
