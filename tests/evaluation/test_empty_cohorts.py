"""A cohort without patients is refused by its name, whatever is asked of it."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from ehr_course.errors import InputError
from ehr_course.evaluation.fidelity import fidelity, fidelity_held_out
from ehr_course.evaluation.privacy import privacy
from ehr_course.evaluation.utility import utility
from ehr_course.evaluation.validity import validity
from ehr_course.report import judge
from ehr_course.sources.synthetic import make_cohort

SOME = make_cohort(3)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda a, b: fidelity(a, b), ("real", "synthetic")),
        (lambda a, b, c: fidelity_held_out(a, b, c), ("training", "held-out", "synthetic")),
        (lambda a, b: validity(a, real=b), ("records", "real")),
        (lambda a, b, c: privacy(a, b, c), ("train", "held_out", "synthetic")),
        (lambda a, b, c: utility(a, b, c), ("train", "synthetic", "test")),
        (
            lambda a, b, c: judge(train=a, held_out=b, synthetic=c),
            ("train", "held_out", "synthetic"),
        ),
    ],
)
def test_a_cohort_without_patients_is_named(function: Callable, names: tuple[str, ...]) -> None:
    for place, name in enumerate(names):
        cohorts = [[] if place == other else SOME for other in range(len(names))]
        with pytest.raises(InputError, match=re.escape(f"{name}: it has no patients")):
            function(*cohorts)
