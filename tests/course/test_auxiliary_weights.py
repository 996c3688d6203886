"""The sweep of lesson 13: what is stored is what its recipe makes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from course import auxiliary_weights
from course.auxiliary_weights import HEAD_SCORES, SEEDS, SETTINGS, divergence, sweep
from ehr_course.course_files import checkpoint_folder
from ehr_course.records import PatientRecord, Visit
from ehr_course.sources.splits import split_by_patient
from ehr_course.sources.synthetic import make_cohort

STORED = checkpoint_folder("auxiliary_weights") / "sweep.csv"


def settings_of(table: pl.DataFrame) -> list[tuple[float, float, str, int]]:
    columns = ("age_weight", "sex_weight", "head_reads", "seed")
    filled = table.with_columns(pl.col("head_reads").fill_null(""))
    return [tuple(row) for row in filled.select(columns).rows()]


EXPECTED = [(*setting, seed) for seed in SEEDS for setting in SETTINGS]


def test_the_stored_sweep_has_each_setting_with_each_seed() -> None:
    assert settings_of(pl.read_csv(STORED)) == EXPECTED


def test_the_stored_scores_are_shares_and_likelihoods() -> None:
    table = pl.read_csv(STORED)
    for name in ("impossible", *HEAD_SCORES):
        assert table[name].drop_nulls().is_between(0, 1).all(), name
    assert table["divergence"].is_between(0, float(np.log(2))).all()
    assert table["loss"].is_between(1.5, 4).all()
    follows = (table["sex_says_prompt"] + table["sex_says_codes"]).drop_nulls()
    assert follows.is_between(0.999, 1.001).all()


def test_the_recipe_writes_a_table_like_the_stored_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auxiliary_weights, "STEPS", 2)
    monkeypatch.setattr(auxiliary_weights, "SEEDS", (0,))
    monkeypatch.setattr(auxiliary_weights, "SETTINGS", (SETTINGS[0], SETTINGS[-1]))
    assert sweep(tmp_path, split_by_patient(make_cohort(80, seed=0), seed=0)) == 2
    made = pl.read_csv(tmp_path / "sweep.csv")
    assert made.columns == pl.read_csv(STORED).columns
    assert settings_of(made) == [(*SETTINGS[0], 0), (*SETTINGS[-1], 0)]
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.csv"]


def test_the_divergence_of_two_sets_of_codes_is_the_one_by_hand() -> None:
    written, real = (
        [PatientRecord(0, "F", 30, (Visit(codes),))] for codes in (("4280",), ("4280", "0389"))
    )
    p, q = np.array([1.0, 0.0]), np.array([0.5, 0.5])
    middle = (p + q) / 2
    by_hand = 0.5 * (p[0] * np.log(p[0] / middle[0]) + (q * np.log(q / middle)).sum())
    assert divergence(written, real, ("4280", "0389")) == pytest.approx(by_hand)
    assert divergence(real, real, ("4280", "0389")) == 0
