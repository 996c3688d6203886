"""Look at any patient's time line."""

from __future__ import annotations

from collections.abc import Sequence

from ehr_course.errors import InputError
from ehr_course.plots.style import Picture
from ehr_course.plots.timeline import draw_timeline
from ehr_course.records import PatientRecord
from ehr_course.widgets.static import PictureWidget, patient_slider, slider


def timeline_explorer(
    records: Sequence[PatientRecord],
    *,
    least_visits: int = 1,
    first: PatientRecord | None = None,
) -> PictureWidget:
    """Choose a patient among those who have at least so many visits.

    Args:
        records: the patients to choose from.
        least_visits: where the first slider stands at the beginning.
        first: whom the explorer opens on; without it, the first who has that many visits.

    Returns:
        A widget with the controls ``least_visits`` and ``patient``; the latter counts the
        patients who have that many visits, from 0, in the order of records.

    Raises:
        InputError: if there are no records, none with that many visits, or if `first` is not
            among those who have.
    """
    if not records:
        raise InputError(
            "timeline_explorer", "records", "the list is empty", "Give some patients."
        )
    most = max(len(record.visits) for record in records)
    if not 1 <= least_visits <= most:
        raise InputError(
            "timeline_explorer",
            "least_visits",
            f"{least_visits} is not from 1 to {most}, the most visits of a patient",
            "Ask for fewer visits.",
        )

    def chosen(least: int) -> list[PatientRecord]:
        return [record for record in records if len(record.visits) >= least]

    def draw(least_visits: int, patient: int) -> Picture:
        return draw_timeline(chosen(least_visits)[patient])

    least = slider("visits, at least", least_visits, 1, most)
    candidates = chosen(least_visits)
    if first is not None and first not in candidates:
        raise InputError(
            "timeline_explorer",
            "first",
            f"patient {first.subject_id} is not among those with that many visits",
            "Give one of the records, or ask for fewer visits.",
        )
    patient = patient_slider(len(candidates))
    patient.value = 0 if first is None else candidates.index(first)

    def fit_the_patients(change: dict) -> None:
        patient.max = len(chosen(change["new"])) - 1

    # Registered before the widget's own observer, so that no picture is drawn of a patient
    # who is no longer among the chosen.
    least.observe(fit_the_patients, names="value")
    return PictureWidget(draw, {"least_visits": least, "patient": patient})
