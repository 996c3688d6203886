"""Synthetic cohorts compared with real patients, on one page."""

from ehr_course.report.frames import report_on_frames
from ehr_course.report.judging import Comparison, Report, Section, judge, judge_each
from ehr_course.report.verdicts import Verdict, verdict
from ehr_course.report.writing import write_report

__all__ = [
    "Comparison",
    "Report",
    "Section",
    "Verdict",
    "judge",
    "judge_each",
    "report_on_frames",
    "verdict",
    "write_report",
]
