"""A synthetic cohort held against real patients, on one page."""

from ehr_course.report.judging import Report, Section, judge
from ehr_course.report.verdicts import Verdict, verdict
from ehr_course.report.writing import write_report

__all__ = ["Report", "Section", "Verdict", "judge", "verdict", "write_report"]
