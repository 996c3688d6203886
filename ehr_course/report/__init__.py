"""A synthetic cohort held against real patients, on one page."""

from ehr_course.report.frames import report_on_frames
from ehr_course.report.judging import Report, Section, judge
from ehr_course.report.verdicts import Verdict, verdict
from ehr_course.report.writing import write_report

__all__ = ["Report", "Section", "Verdict", "judge", "report_on_frames", "verdict", "write_report"]
