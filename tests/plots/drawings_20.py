"""Lesson 20: the picture of studies that differ by chance."""

from __future__ import annotations

import torch
from registry import drawing

from ehr_course.widgets.chance import draw_chance


def studies(findings):
    torch.manual_seed(0)
    some = [(torch.randn(3), torch.randn(3)) for _ in findings]
    return draw_chance(some, findings, truth="equal models")


@drawing(
    "equal models, 3 seeds each. Of 100 studies 5.0% say worse, 85.0% say not shown, 10.0% say "
    "better."
)
def most_studies_show_nothing():
    return studies(["worse"] * 5 + ["better"] * 10 + ["not shown"] * 85)


@drawing("100.0% say better")
def all_studies_find_a_difference():
    return studies(["better"] * 50)


@drawing("100.0% say not shown")
def no_study_finds_a_difference():
    return studies(["not shown"] * 50)
