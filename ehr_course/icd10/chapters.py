"""The chapters of ICD-10-CM: twenty-two, all of them numbered."""

from __future__ import annotations

from ehr_course.code_rules import Chapter, chapter_with
from ehr_course.errors import InputError
from ehr_course.icd10.codes import category

CHAPTERS: tuple[Chapter, ...] = (
    Chapter(1, "Certain infectious and parasitic diseases", "A00", "B99"),
    Chapter(2, "Neoplasms", "C00", "D49"),
    Chapter(
        3,
        "Diseases of the blood and blood-forming organs and certain disorders involving the "
        "immune mechanism",
        "D50",
        "D89",
    ),
    Chapter(4, "Endocrine, nutritional and metabolic diseases", "E00", "E89"),
    Chapter(5, "Mental, Behavioral and Neurodevelopmental disorders", "F01", "F99"),
    Chapter(6, "Diseases of the nervous system", "G00", "G99"),
    Chapter(7, "Diseases of the eye and adnexa", "H00", "H59"),
    Chapter(8, "Diseases of the ear and mastoid process", "H60", "H95"),
    Chapter(9, "Diseases of the circulatory system", "I00", "I99"),
    Chapter(10, "Diseases of the respiratory system", "J00", "J99"),
    Chapter(11, "Diseases of the digestive system", "K00", "K95"),
    Chapter(12, "Diseases of the skin and subcutaneous tissue", "L00", "L99"),
    Chapter(13, "Diseases of the musculoskeletal system and connective tissue", "M00", "M99"),
    Chapter(14, "Diseases of the genitourinary system", "N00", "N99"),
    Chapter(15, "Pregnancy, childbirth and the puerperium", "O00", "O9A"),
    Chapter(16, "Certain conditions originating in the perinatal period", "P00", "P96"),
    Chapter(
        17, "Congenital malformations, deformations and chromosomal abnormalities", "Q00", "QA0"
    ),
    Chapter(
        18,
        "Symptoms, signs and abnormal clinical and laboratory findings, not elsewhere classified",
        "R00",
        "R99",
    ),
    Chapter(
        19, "Injury, poisoning and certain other consequences of external causes", "S00", "T88"
    ),
    Chapter(20, "External causes of morbidity", "V00", "Y99"),
    Chapter(
        21, "Factors influencing health status and contact with health services", "Z00", "Z99"
    ),
    Chapter(22, "Codes for special purposes", "U00", "U85"),
)
"""All chapters in order; chapter number n is ``CHAPTERS[n - 1]``."""


def chapter(code: str) -> Chapter:
    """Return the chapter that a code belongs to, by its category alone.

    Raises:
        InputError: if code is not the shape of a code, or its category lies outside every
            chapter (E90, F00, U86).

    >>> chapter("E11.9").title
    'Endocrine, nutritional and metabolic diseases'
    """
    head = category(code)
    found = chapter_with(head, CHAPTERS)
    if found is not None:
        return found
    raise InputError(
        f"ICD-10 code {code!r}",
        "",
        f"category {head} lies in no chapter",
        "Look for a wrong letter or digit: the chapters leave out a few ranges, such as E90 to "
        "E99 and U86 to U99.",
    )
