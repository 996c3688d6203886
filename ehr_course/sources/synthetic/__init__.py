"""The embedded hospital: invented patients and notes, made from tables that you can read.

The numbers are plausible rather than measured, and nothing comes from a real record: learn from
this hospital how models work, never what medicine knows.
"""

from ehr_course.sources.synthetic.hospital import make_cohort
from ehr_course.sources.synthetic.invented_notes import drug_names, make_notes
from ehr_course.sources.synthetic.tables import Dirt, Planted, write_mimic3, write_mimic4

__all__ = [
    "Dirt",
    "Planted",
    "drug_names",
    "make_cohort",
    "make_notes",
    "write_mimic3",
    "write_mimic4",
]
