"""The drawings of losses and of what is restored show the numbers that they are given."""

from __future__ import annotations

import numpy as np
import pytest

from ehr_course.plots.drawings.restored import (
    Found,
    draw_losses,
    draw_restored,
    draw_rewritten,
)
from ehr_course.plots.overlaps import label_problems
from ehr_course.records import PatientRecord, Visit
from ehr_course.tokenizers.codes import CodeTokenizer

SHORT = ("4280", "42731", "486", "5849", "0389")
LONG = tuple(f"V58{i:02}" for i in range(25))
CODES = CodeTokenizer.from_records(
    [PatientRecord(1, "F", 64, (Visit(SHORT),)), PatientRecord(2, "M", 70, (Visit(LONG),))]
)


def said(picture) -> list[str]:
    return [text.get_text() for axes in picture.axes for text in axes.texts]


@pytest.mark.parametrize("end", [0.85, 2.4, 0.006])
@pytest.mark.parametrize("steps", [40, 400])
def test_both_losses_are_named_with_their_ends(end, steps):
    falling = 5.5 * np.exp(-np.arange(steps) / steps * 15)
    losses = {"leak": falling, "repaired": falling + end}
    picture = draw_losses(losses)
    assert label_problems(picture) == []
    low, high = (float(np.mean(values[-10:])) for values in losses.values())
    assert said(picture)[0] == (
        f"The leak's loss falls to {low:.3f}, the repaired model's to {high:.2f}"
    )
    assert f"“leak” ends at {low:.3f}, “repaired” at {high:.2f}" in picture.alternative_text
    assert f"of {steps}" in picture.alternative_text


@pytest.mark.parametrize("right", [40, 120, 400])
@pytest.mark.parametrize("counted", [0, 35, 300])
def test_each_way_of_writing_shows_its_own_numbers(right, counted):
    found = {
        "leak": Found(0, 0, 2_413),
        "counting": Found(counted, 333, 2_413),
        "repaired": Found(right, 451, 2_228),
    }
    own = {"leak": 0.9996, "repaired": 0.856}
    picture = draw_restored(own, found, 400, 2_413)
    assert label_problems(picture) == []
    assert said(picture)[0] == (
        f"Lost codes restored: 0% with the leak, {counted / 400:.0%} by counting, "
        f"{right / 400:.0%} repaired"
    )
    expected = {f"{right} of 451", f"{counted} of 333", f"{right} of 400", "2,228 of 2,413"}
    expected |= {"adds none", "has no labels", "100%", "86%"}
    assert expected <= set(said(picture))
    assert f"repaired restores {right} of 400 lost codes" in picture.alternative_text


def test_all_bars_have_one_scale():
    found = {"leak": Found(0, 0, 100), "rule": Found(10, 40, 100), "repaired": Found(20, 80, 50)}
    picture = draw_restored({"leak": 1.0}, found, 100, 100)
    bars = {
        round(patch.get_width(), 3)
        for axes in picture.axes
        for patch in axes.patches
        if hasattr(patch, "get_width")
    }
    widest = max(bars)
    assert {round(share * widest, 3) for share in (1.0, 0.5, 0.1, 0.2, 0.25)} == bars


def test_a_leak_that_adds_something_has_a_bar_too():
    found = {"leak": Found(1, 4, 90), "rule": Found(2, 50, 20), "repaired": Found(0, 0, 80)}
    picture = draw_restored({}, found, 10, 100)
    assert label_problems(picture) == []
    assert "1 of 4" in said(picture)


def record_of(*visits) -> list[int]:
    return CODES.encode(PatientRecord(3, "F", 31, tuple(Visit(tuple(v)) for v in visits)))


def masked(ids: list[int], start: int, length: int) -> list[int]:
    return [*ids[:start], CODES.mask_id, *ids[start + length :]]


def test_one_patient_shows_what_each_writes():
    clean = record_of(SHORT[:2], SHORT[2:3])
    damaged = masked(clean, 3, 1)
    counting = [*damaged[:3], CODES.code_to_id("0389"), CODES.code_to_id("486"), *damaged[4:]]
    written = {"leak": [*damaged, CODES.pad_id], "counting": counting, "repaired": clean}
    picture = draw_rewritten(CODES, clean, [*damaged, CODES.pad_id], written)
    assert label_problems(picture) == []
    assert said(picture)[0] == "Lost here: 1 code. Only “repaired” writes it back"
    verdicts = {"0 of 1 back, 0 wrong", "0 of 1 back, 2 wrong", "1 of 1 back, 0 wrong"}
    assert verdicts <= set(said(picture))
    assert "counting writes back 0 and adds 2 wrong codes" in picture.alternative_text
    assert said(picture).count("<mask>") == 2
    assert "<PAD>" not in said(picture)


@pytest.mark.parametrize("codes", [SHORT, LONG])
def test_a_code_in_the_wrong_visit_is_not_written_back(codes):
    clean = record_of(codes, SHORT[:1])
    damaged = masked(clean, 3, 2)
    moved = [*damaged[:3], clean[3], *damaged[4:-2], clean[4], *damaged[-2:]]
    picture = draw_rewritten(CODES, clean, damaged, {"leak": damaged, "moved": moved})
    assert label_problems(picture) == []
    assert said(picture)[0] == "Lost here: 2 codes. Written back: leak 0, moved 1"
    assert "1 of 2 back, 1 wrong" in said(picture)
