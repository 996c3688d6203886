"""What an ICD-10-CM diagnosis code means, who can have it, and what it is in ICD-9-CM.

Everything works offline. A code is written with or without its dot; every function takes either
and normalizes it. The functions have the names of those of ``ehr_course.icd9``; a code of one
system passed to the other is an error, or, where it has the shape of both, another disease:
``ehr_course.code_meaning`` picks the functions by the name of the system.
The titles and the hierarchy come from the package ``simple_icd_10_cm``, which holds the official
tabular list of April 2026. It is loaded at the first question that needs it, in about a second.

>>> normalize("E11.9"), category("V30.4XXA"), chapter("O9A.111").number
('E119', 'V30', 15)
>>> title("V304XXA")[:47]
'Person boarding or alighting a three-wheeled mo'
>>> why_impossible("O80", age=34, sex="M")
'O80 is recorded for females only: pregnancy, childbirth and the puerperium'
>>> translate("428.0", source="ICD9CM").alternatives
(('I509',),)
"""

from ehr_course.icd10.chapters import CHAPTERS, Chapter, chapter
from ehr_course.icd10.chronic import in_chronic_category
from ehr_course.icd10.codes import UNDOTTED, WRITTEN, category, dotted, is_code, normalize, written
from ehr_course.icd10.eligibility import Eligibility, who_can_have, why_impossible
from ehr_course.icd10.mapping import Translation, translate
from ehr_course.icd10.titles import RELEASE, is_complete, nearest, parents, title

__all__ = [
    "CHAPTERS",
    "RELEASE",
    "UNDOTTED",
    "WRITTEN",
    "Chapter",
    "Eligibility",
    "Translation",
    "category",
    "chapter",
    "dotted",
    "in_chronic_category",
    "is_code",
    "is_complete",
    "nearest",
    "normalize",
    "parents",
    "title",
    "translate",
    "who_can_have",
    "why_impossible",
    "written",
]
