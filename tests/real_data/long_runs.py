"""Whole lessons and trainings on real data: minutes each, so `.ci/extra` runs them."""

from __future__ import annotations

import os

import pytest

ASKED_FOR = "EHR_COURSE_LONG_TESTS"

takes_minutes = pytest.mark.skipif(
    not os.environ.get(ASKED_FOR),
    reason=f"it takes minutes: set {ASKED_FOR}=1, or run .ci/extra",
)
