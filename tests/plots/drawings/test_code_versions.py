"""The drawing of two visits on either side of the change of code systems."""

from __future__ import annotations

import pytest
from matplotlib.text import Text

from ehr_course.icd import translate
from ehr_course.plots.drawings.code_versions import draw_change
from ehr_course.plots.overlaps import label_problems
from ehr_course.plots.style import Picture
from ehr_course.records import Visit
from ehr_course.sources.synthetic import make_cohort


def words(picture: Picture) -> list[str]:
    return [text.get_text() for text in picture.findobj(Text) if text.get_text()]


def readable(picture: Picture) -> Picture:
    assert label_problems(picture) == []
    return picture


def across(seed: int) -> list[tuple[Visit, Visit]]:
    return [
        (earlier, later)
        for record in make_cohort(400, seed=seed, changed=True)
        for earlier, later in zip(record.visits, record.visits[1:], strict=False)
        if earlier.system != later.system
    ]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_change_shows_both_visits_and_counts_what_came_back(seed):
    pairs = across(seed)
    assert len(pairs) > 9
    for earlier, later in pairs:
        mapping = {code: translate(code, source="ICD9CM").codes for code in earlier.codes}
        back = sum(not set(later.codes).isdisjoint(mapping[code]) for code in earlier.codes)
        picture = readable(draw_change(earlier, later, mapping))
        shown = words(picture)
        n_codes = len(earlier.codes)
        codes = "1 code" if n_codes == 1 else f"{n_codes} codes"
        assert shown[0] == f"No text in common, yet {back} of {codes} came back"
        assert f"By the mapping, {back} of the earlier codes come back" in picture.alternative_text
        for visit in (earlier, later):
            assert len(set(visit.codes) & set(shown)) >= min(7, len(visit.codes))


def test_a_code_of_several_possible_codes_shows_them_and_one_without_says_so():
    earlier = Visit(("2724", "E9503"))
    later = Visit(("E785", "I10"), system="ICD10CM")
    mapping = {"2724": ("E784", "E785")}
    picture = readable(draw_change(earlier, later, mapping))
    assert {"E784", "no equivalent"} <= set(words(picture))
    assert "2724 as E785." in picture.alternative_text


def test_long_visits_and_many_possible_codes_are_cut_short():
    many = tuple(f"S7230{letter}" for letter in "ABCDEFGHJKLM")
    old = tuple(f"{n}" for n in range(40100, 40115))
    new = tuple(f"I{n}" for n in range(100, 112))
    mapping = dict.fromkeys(old, many)
    picture = readable(draw_change(Visit(old), Visit(new, system="ICD10CM"), mapping))
    shown = words(picture)
    assert "Codes drawn: 7 and 7" in shown
    assert any(text.startswith("+") for text in shown)


def test_an_equal_text_is_counted_as_text_and_does_not_come_back():
    earlier, later = Visit(("E8889", "4280")), Visit(("E8889", "I509"), system="ICD10CM")
    picture = readable(draw_change(earlier, later, {"4280": ("I509",), "E8889": ("W19XXXA",)}))
    assert words(picture)[0] == "1 text in common, yet 1 of 2 codes came back"
