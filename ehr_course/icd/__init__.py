"""What a diagnosis code means, who can have it, and what it is in the other system.

Everything works offline, from packages that hold the official tables.

>>> icd9.title("0389"), icd10.title("V304XXA")[:47]
('Unspecified septicemia', 'Person boarding or alighting a three-wheeled mo')
>>> icd9.in_chronic_category("428.0"), icd10.in_chronic_category("J18.9")
(True, False)
>>> translate("428.0", source="ICD9CM").alternatives
(('I509',),)
"""

from ehr_course.icd.coding import OLDEST, Chapter, Coding, Eligibility
from ehr_course.icd.equivalence import Translation, translate
from ehr_course.icd.systems import code_meaning, icd9, icd10, possible_systems

__all__ = [
    "OLDEST",
    "Chapter",
    "Coding",
    "Eligibility",
    "Translation",
    "code_meaning",
    "icd9",
    "icd10",
    "possible_systems",
    "translate",
]
