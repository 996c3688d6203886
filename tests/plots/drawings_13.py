"""Cases for the drawings of lesson 13."""

from __future__ import annotations

import polars as pl
from registry import drawing

from ehr_course.course_files import checkpoint_folder
from ehr_course.widgets.auxiliary_weights import draw_weights, runs_of

SWEEP = pl.read_csv(checkpoint_folder("auxiliary_weights") / "sweep.csv")
SETTINGS = [one.setting for one in runs_of(SWEEP, "impossible")]
MEAN = SWEEP.filter(pl.col("age_weight") == 3)["impossible"].mean()


@drawing("Heads at 3: more impossible codes", f"{MEAN:.2%} at 3")
def a_sweep_with_heavy_heads():
    (heavy,) = [one for one in SETTINGS if one.age_weight == 3]
    return draw_weights(SWEEP, above="impossible", below="loss_repair", setting=heavy)


@drawing("Without heads there are no answers to judge")
def a_sweep_of_a_measure_of_the_heads():
    return draw_weights(SWEEP, above="sex_accuracy", below="age_accuracy", setting=SETTINGS[0])
