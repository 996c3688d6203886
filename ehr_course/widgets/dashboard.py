"""Choose a synthetic cohort and a chapter, and see it beside real patients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ehr_course.errors import InputError
from ehr_course.plots.cohort_dashboard import CohortLook, chapters_of, draw_looks, looks_of
from ehr_course.plots.style import Picture, chapter_name
from ehr_course.records import PatientRecord
from ehr_course.widgets.static import PictureWidget, choice

IN_THE_BOOK = 4
"""How many chapters can be chosen in the book: every picture makes its page larger."""


def cohort_dashboard(
    real: Sequence[PatientRecord], cohorts: Mapping[str, Sequence[PatientRecord]]
) -> PictureWidget:
    """Choose which synthetic cohort is shown, and the codes of which chapter are marked.

    Args:
        real: real patients.
        cohorts: synthetic ones by name, such as the setting that they were drawn with.

    Returns:
        A widget with the controls ``cohort`` (one of the names) and ``chapter`` (a number, or
        0 for all codes).

    Raises:
        InputError: if there is no cohort, or one has no patients.
    """
    if not cohorts:
        raise InputError("cohort_dashboard", "cohorts", "no cohort is given", "Give one or more.")
    names = list(cohorts)
    look, *others = looks_of(real, *cohorts.values())
    by_name = dict(zip(names, others, strict=True))

    def draw(cohort: str, chapter: int) -> Picture:
        return draw_looks(look, by_name[cohort], name=cohort, chapter=chapter or None)

    chapters = [(chapter_name(number, look.system), number) for number in chapters_of(look)]
    return PictureWidget(
        draw,
        {
            "cohort": choice("cohort", names),
            "chapter": choice("codes", [("all", 0), *chapters]),
        },
        in_the_book={"chapter": [0, *_most_frequent_chapters(look)]},
    )


def _most_frequent_chapters(look: CohortLook) -> list[int]:
    """The chapters that most codes of the patients lie in, in the order of their numbers."""
    weight = dict.fromkeys(chapters_of(look), 0.0)
    for code, share in zip(look.codes, look.prevalence, strict=True):
        if (number := look.chapter_of(code)) is not None:
            weight[number] += share
    return sorted(sorted(weight, key=weight.__getitem__)[-IN_THE_BOOK:])
