"""The exercises of lesson 19: generation and evaluation."""

from __future__ import annotations

from ehr_course.exercises.lessons import (
    drawing_and_distance,
    privacy_and_report,
    validity_and_perplexity,
)

EXERCISES = (
    *drawing_and_distance.EXERCISES,
    *validity_and_perplexity.EXERCISES,
    *privacy_and_report.EXERCISES,
)
