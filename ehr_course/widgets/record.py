"""Look at any patient's record: visits side by side, each with its codes."""

from __future__ import annotations

from collections.abc import Sequence

from ehr_course.errors import InputError
from ehr_course.plots.record import draw_record
from ehr_course.plots.style import Picture
from ehr_course.records import PatientRecord
from ehr_course.widgets.static import PictureWidget, patient_slider


def record_explorer(records: Sequence[PatientRecord]) -> PictureWidget:
    """Choose a patient.

    Args:
        records: the patients to choose from; the slider counts them from 0.

    Returns:
        A widget with the control ``patient``.

    Raises:
        InputError: if there are no records.
    """
    if not records:
        raise InputError("record_explorer", "records", "the list is empty", "Give some patients.")

    def draw(patient: int) -> Picture:
        return draw_record(records[patient])

    return PictureWidget(draw, {"patient": patient_slider(len(records))})
