"""The embedded hospital: patients made from three tables that you can read.

``clusters.csv`` says what brings people of each age and sex to the hospital and what they live
with; ``case_mix.csv`` says which ICD-9-CM codes come with it, and how often; ``exclusive.csv``
says which codes exclude each other, and why. The patients are invented, the
numbers are plausible rather than measured, and nothing in them comes from a real record: learn
from this hospital how models work, never what medicine knows. Each patient can have an invented
clinical note as well, with a summary. ``icd10_codes.csv`` says how the same patients are coded in
ICD-10-CM.
"""

from ehr_course.sources.synthetic.dirt import Dirt, Planted
from ehr_course.sources.synthetic.hospital import make_cohort
from ehr_course.sources.synthetic.invented_notes import drug_names, make_notes
from ehr_course.sources.synthetic.tables import write_mimic3, write_mimic4

__all__ = [
    "Dirt",
    "Planted",
    "drug_names",
    "make_cohort",
    "make_notes",
    "write_mimic3",
    "write_mimic4",
]
