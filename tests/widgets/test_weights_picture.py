"""The sweep of the heads' weights: means and spreads, the words and the picture."""

import numpy as np
import polars as pl
import pytest
from matplotlib.collections import PathCollection

from ehr_course.errors import InputError
from ehr_course.widgets.auxiliary_weights import (
    NO_HEADS,
    Runs,
    Setting,
    compare,
    describe_weights,
    draw_weights,
    runs_of,
    weights_title,
)

SMALL, LARGE = Setting(0.001, 0.001, "states"), Setting(3.0, 2.0, "states")
CODES = Setting(0.3, 0.2, "codes")


def sweep_of(rows):
    """A sweep of (setting, impossible share of each seed), two measures and one of the heads."""
    made = [
        {
            **setting._asdict(),
            "seed": seed,
            "impossible": share,
            "loss_repair": 1 + 10 * share,
            "sex_accuracy": None if setting == NO_HEADS else 0.9 + share,
        }
        for setting, shares in rows
        for seed, share in enumerate(shares)
    ]
    return pl.DataFrame(made, infer_schema_length=None)


# Not in the order in which they are drawn.
SWEEP = sweep_of(
    [
        (CODES, (0.03, 0.05)),
        (LARGE, (0.06, 0.07)),
        (NO_HEADS, (0.03, 0.04)),
        (SMALL, (0.04, 0.05)),
    ]
)


# ---------------------------------------------------------------------- the numbers


def test_settings_stand_by_weight_with_heads_on_codes_last():
    assert [one.setting for one in runs_of(SWEEP, "impossible")] == [
        NO_HEADS,
        SMALL,
        LARGE,
        CODES,
    ]


def test_mean_and_spread_are_those_of_numpy():
    rng = np.random.default_rng(0)
    values = tuple(rng.normal(size=5).tolist())
    runs = Runs(NO_HEADS, values)
    assert runs.mean == pytest.approx(np.mean(values))
    assert runs.spread == pytest.approx(np.std(values, ddof=1))


@pytest.mark.parametrize(
    ("values", "differs"), [((3.0, 5.0), False), ((6.0, 6.5), True), ((-2.0, -1.5), True)]
)
def test_a_difference_counts_beyond_both_spreads(values, differs):
    assert Runs(LARGE, values).differs(Runs(NO_HEADS, (1.0, 3.0))) is differs


def test_without_heads_there_is_no_score_of_a_head():
    assert [len(one.values) for one in runs_of(SWEEP, "sex_accuracy")] == [0, 2, 2, 2]


def test_head_reads_may_be_missing_where_there_are_no_heads():
    missing = SWEEP.with_columns(pl.col("head_reads").replace("", None))
    assert runs_of(missing, "impossible") == runs_of(SWEEP, "impossible")


@pytest.mark.parametrize(
    ("sweep", "said"),
    [
        (SWEEP.drop("seed"), "seed: the column is missing"),
        (SWEEP.drop("impossible"), "impossible: the column is missing"),
        (SWEEP.filter(pl.col("age_weight") > 0), "no training without heads"),
        (SWEEP.filter(pl.col("seed") == 0), "one run, which has no standard deviation"),
    ],
)
def test_a_sweep_that_cannot_be_read_is_refused(sweep, said):
    with pytest.raises(InputError, match=said):
        runs_of(sweep, "impossible")


def test_an_unknown_measure_is_refused():
    with pytest.raises(InputError, match="'validity' is none"):
        runs_of(SWEEP, "validity")


# ---------------------------------------------------------------------- the words


@pytest.mark.parametrize(
    ("setting", "title"),
    [
        (NO_HEADS, "Without heads: impossible codes, 3.50%"),
        (SMALL, "Heads at 0.001: no clear change in impossible codes"),
        (LARGE, "Heads at 3/2: more impossible codes"),
        (CODES, "Heads at 0.3/0.2, codes: no clear change in impossible codes"),
    ],
)
def test_the_title_states_the_finding(setting, title):
    assert weights_title("impossible", runs_of(SWEEP, "impossible"), setting) == title


def test_the_title_names_the_direction():
    falling = sweep_of([(NO_HEADS, (0.06, 0.07)), (SMALL, (0.01, 0.02))])
    assert weights_title("impossible", runs_of(falling, "impossible"), SMALL).endswith(
        "fewer impossible codes"
    )
    assert weights_title("loss_repair", runs_of(falling, "loss_repair"), SMALL).endswith(
        "a lower loss when restoring"
    )


def test_a_score_of_a_head_has_nothing_to_be_compared_with():
    runs = runs_of(SWEEP, "sex_accuracy")
    title = weights_title("sex_accuracy", runs, SMALL)
    assert title == "Heads at 0.001: sex guessed right, 94.50%"
    assert weights_title("sex_accuracy", runs, NO_HEADS) == (
        "Without heads there are no answers to judge"
    )
    assert compare("sex_accuracy", runs, SMALL) == ("sex guessed right at 0.001: 94.50% ± 0.71%")


def test_a_comparison_gives_both_means_with_their_spreads():
    assert compare("impossible", runs_of(SWEEP, "impossible"), LARGE) == (
        "impossible codes at 3/2: 6.50% ± 0.71% (no heads: 3.50% ± 0.71%)"
    )


def test_the_alternative_text():
    words = describe_weights(SWEEP, above="impossible", below="sex_accuracy", setting=LARGE)
    assert words == (
        "Trainings with 2 seeds for each weight of the heads. Mean impossible codes: 3.50% "
        "without heads, 4.50% at 0.001, 6.50% at 3/2, 4.00% at 0.3/0.2, codes; mean sex guessed "
        "right: 94.50% at 0.001, 96.50% at 3/2, 94.00% at 0.3/0.2, codes. Heads at 3/2: more "
        "impossible codes."
    )


# ---------------------------------------------------------------------- the picture


def test_every_training_is_a_point_in_each_half():
    picture = draw_weights(SWEEP, above="impossible", below="sex_accuracy", setting=SMALL)
    halves = [
        sorted(y for dots in axes.findobj(PathCollection) for y in dots.get_offsets()[:, 1])
        for axes in picture.axes
    ]
    assert halves[0] == pytest.approx(sorted(SWEEP["impossible"]))
    assert halves[1] == pytest.approx(sorted(SWEEP["sex_accuracy"].drop_nulls()))


def test_the_marked_setting_has_a_colour_of_its_own():
    picture = draw_weights(SWEEP, above="impossible", below="loss_repair", setting=SMALL)
    others, marked = picture.axes[0].findobj(PathCollection)
    assert {round(x) for x in marked.get_offsets()[:, 0]} == {1}  # SMALL stands second
    assert 1 not in {round(x) for x in others.get_offsets()[:, 0]}
    assert tuple(others.get_facecolor()[0]) != tuple(marked.get_facecolor()[0])


def test_a_setting_that_was_not_trained_is_refused():
    with pytest.raises(InputError, match="no such setting"):
        draw_weights(
            SWEEP, above="impossible", below="loss_repair", setting=Setting(7.0, 7.0, "states")
        )
