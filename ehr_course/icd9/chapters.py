"""The chapters of ICD-9-CM: seventeen of diseases, and the V and E supplements."""

from __future__ import annotations

from ehr_course.code_rules import Chapter, chapter_with
from ehr_course.errors import InputError
from ehr_course.icd9.codes import category

CHAPTERS: tuple[Chapter, ...] = (
    Chapter(1, "Infectious and parasitic diseases", "001", "139"),
    Chapter(2, "Neoplasms", "140", "239"),
    Chapter(
        3,
        "Endocrine, nutritional and metabolic diseases, and immunity disorders",
        "240",
        "279",
    ),
    Chapter(4, "Diseases of the blood and blood-forming organs", "280", "289"),
    Chapter(5, "Mental disorders", "290", "319"),
    Chapter(6, "Diseases of the nervous system and sense organs", "320", "389"),
    Chapter(7, "Diseases of the circulatory system", "390", "459"),
    Chapter(8, "Diseases of the respiratory system", "460", "519"),
    Chapter(9, "Diseases of the digestive system", "520", "579"),
    Chapter(10, "Diseases of the genitourinary system", "580", "629"),
    Chapter(11, "Complications of pregnancy, childbirth, and the puerperium", "630", "679"),
    Chapter(12, "Diseases of the skin and subcutaneous tissue", "680", "709"),
    Chapter(13, "Diseases of the musculoskeletal system and connective tissue", "710", "739"),
    Chapter(14, "Congenital anomalies", "740", "759"),
    Chapter(15, "Certain conditions originating in the perinatal period", "760", "779"),
    Chapter(16, "Symptoms, signs, and ill-defined conditions", "780", "799"),
    Chapter(17, "Injury and poisoning", "800", "999"),
    Chapter(
        18,
        "Supplementary classification of factors influencing health status "
        "and contact with health services",
        "V01",
        "V91",
    ),
    Chapter(
        19,
        "Supplementary classification of external causes of injury and poisoning",
        "E000",
        "E999",
    ),
)
"""All chapters in order; chapter number n is ``CHAPTERS[n - 1]``."""


def chapter(code: str) -> Chapter:
    """Return the chapter that a code belongs to, by its category alone.

    Raises:
        InputError: if code is not the shape of a code, or its category lies outside every
            chapter (000, V00, V92 to V99).

    >>> chapter("428.0").title
    'Diseases of the circulatory system'
    """
    head = category(code)
    found = chapter_with(head, CHAPTERS)
    if found is not None:
        return found
    raise InputError(
        f"ICD-9 code {code!r}",
        "",
        f"category {head} lies in no chapter",
        "Use a code from 001 to 999.99, V01 to V91.99 or E000 to E999.9.",
    )
