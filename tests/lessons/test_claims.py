"""Every claim that the book lists is measured in a lesson, and no lesson measures another one."""

from __future__ import annotations

import re

import pytest
from lesson_files import LESSONS, ROOT, cells_tagged, name, number, read_source

ROW = re.compile(r"^\| *(\d+) *\|.*\| *\[(\d\d)\]\(#claim-(\d+)\) *\|$")


def listed_claims() -> list[tuple[str, str]]:
    """Return (claim, lesson) of each row of the book's page "What holds"."""
    page = (ROOT / "course" / "book" / "what_holds.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if re.match(r"\| *\d+ *\|", line)]
    assert rows, "what_holds.md lists no claim"
    claims = []
    for row in rows:
        match = ROW.match(row)
        assert match, f"not a row of the form | 4 | says | holds | [08](#claim-4) |: {row}"
        claim, lesson, target = match.groups()
        assert claim == target
        claims.append((claim, lesson))
    return claims


def test_no_claim_is_listed_twice():
    claims = [claim for claim, _ in listed_claims()]
    assert len(set(claims)) == len(claims)


@pytest.mark.parametrize("lesson", LESSONS, ids=name)
def test_a_lesson_measures_the_claims_that_the_book_lists_for_it(lesson):
    listed = {claim for claim, measured_in in listed_claims() if measured_in == number(lesson)}
    assert set(cells_tagged(read_source(lesson), "claim")) == listed
