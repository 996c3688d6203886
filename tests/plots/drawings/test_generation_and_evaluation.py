"""The drawings of lesson 19 show the objects that they are given, and can be read."""

from __future__ import annotations

import math

import matplotlib.text
import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from sklearn.neighbors import NearestNeighbors

from ehr_course.evaluation.measure import Measure
from ehr_course.plots.drawings.generation_and_evaluation import (
    Question,
    draw_distance,
    draw_floors,
    draw_questions,
    draw_report,
    draw_sampling,
)
from ehr_course.plots.drawings.judged_patients import draw_leak, draw_neighbours
from ehr_course.plots.overlaps import label_problems
from ehr_course.report import verdict

CODES = ["4280", "V3001", "4019", "25000", "486", "5990", "2724", "E8889", "XX", "64891"]


def texts(picture) -> list[str]:
    return [t.get_text() for t in picture.findobj(matplotlib.text.Text) if t.get_text().strip()]


@pytest.mark.parametrize(("bits", "off"), [((0.02, 0.5), {"B"}), ((0.3, 0.4), {"A", "B"})])
def test_a_question_shows_its_values_and_marks_what_is_off(bits, off):
    values = dict(zip("AB", bits, strict=True))
    questions = [
        Question("Are codes as frequent?", "JS divergence, bits", values, 0.02, frozenset(off)),
        Question("Possible?", "impossible codes", {"A": 0.0, "B": 0.25}, 0.01, frozenset(), True),
    ]
    picture = draw_questions(questions)
    assert label_problems(picture) == []
    for name, value in values.items():
        mark = "  ✗" if name in off else ""
        assert f"{value:.3f}{mark}" in texts(picture)
    assert {"25.0%", "1.0%", "real patients"} <= set(texts(picture))
    assert picture.alternative_text.count("✗") == len(off)


@pytest.mark.parametrize(
    ("sharpness", "k", "tokens"), [(0.5, 20, 400), (3.0, 5, 60), (0.0, 40, 30)]
)
def test_top_p_is_counted_from_the_probabilities(sharpness, k, tokens):
    rng = np.random.default_rng(int(10 * sharpness))
    steps = {}
    for name, width in (("Girl, under 1 year", 3 * sharpness), ("Woman, above 89", sharpness)):
        weights = np.exp(width * rng.normal(size=tokens))
        steps[name] = weights / weights.sum()
    picture = draw_sampling(steps, k, 0.9)
    assert label_problems(picture) == []
    for name, row in steps.items():
        kept, total = 0, 0.0
        for share in sorted(row, reverse=True):
            if total < 0.9:
                total, kept = total + share, kept + 1
        assert f"{kept} are needed for 90%" in picture.alternative_text
        assert f"{name}: the {k} likeliest have {sum(sorted(row)[-k:]):.0%}" in (
            picture.alternative_text
        )


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_terms_add_up_to_scipys_divergence(seed):
    rng = np.random.default_rng(seed)
    real, synthetic = rng.poisson(20, len(CODES)), rng.poisson(12, len(CODES)) + 1
    real[3] = 0
    picture = draw_distance(CODES, real, synthetic)
    assert label_problems(picture) == []
    distance = jensenshannon(real, synthetic, base=2)
    assert (
        f"the sum is {distance**2:.3f} bits and its root {distance:.3f}"
        in picture.alternative_text
    )
    added = [float(t) for t in texts(picture) if len(t) == 6 and t.startswith("0.")]
    assert len(added) == 7 and sum(added) == pytest.approx(distance**2, abs=4e-4)


@pytest.mark.parametrize("far", [1.0, 1.02, 2.0])
def test_the_floor_falls_with_the_number_of_patients(far):
    floors = {n: [20 / n, 22 / n, 25 / n] for n in (200, 400, 1000, 2000)}
    cohort = {n: [far * bits for bits in row] for n, row in floors.items()}
    picture = draw_floors(floors, cohort)
    assert label_problems(picture) == []
    assert "200 patients differ from 200 others 10 times as much as 2,000 do" in texts(picture)
    assert f"2,000: {far * 67 / 6000:.3f} bits" in picture.alternative_text
    said = " ".join(texts(picture))
    assert f"synthetic {far * 67 / 600:.3f}, real {67 / 600:.3f}" in said
    assert f"synthetic {far * 67 / 6000:.3f}" in said and f"real {67 / 6000:.3f}" in said


def test_a_report_says_how_many_patients_are_compared():
    picture = draw_report([(MEASURES[0], "worse")], title="A report", sizes=(1000, 4000))
    assert label_problems(picture) == []
    assert "1,000 against 4,000 patients" in " ".join(texts(picture))


MEASURES = [
    Measure("codes", 0.02, 0.015, 0.025, 0.01, "bits", "low", ""),
    Measure("membership by distance", 0.52, 0.49, 0.55, 0.5, "", "near", ""),
    Measure("next visit AUROC", 0.9, 0.88, 0.92, 0.8, "", "high", ""),
    Measure("impossible codes", 0.018, 0.017, 0.02, 0.0, "share", "low", ""),
]


def test_a_report_has_a_row_for_each_measure_that_is_known():
    few = Measure("rare codes absent", 0.5, math.nan, math.nan, 0.4, "", "near", "")
    unknown = Measure("privacy loss", math.nan, math.nan, math.nan, 0.0, "", "near", "")
    rows = [(m, str(verdict(m))) for m in (*MEASURES, few, unknown)]
    picture = draw_report(rows, title="A report")
    assert label_problems(picture) == []
    for m, said in rows[:-1]:
        assert m.name in texts(picture) and said in texts(picture)
        assert f"{m.name} {m.value:.3g}, floor {m.floor:.3g}: {said}" in picture.alternative_text
    assert "privacy loss" not in texts(picture)
    assert [texts(picture).count(word) for word in ("low", "near", "high")] == [2, 2, 1]


@pytest.mark.parametrize(
    ("codes", "scored", "leak", "honest"),
    [([3, 5, 4], 1, 1.4, 29.3), ([9, 14, 20, 8], 2, 2.0, 7.5)],
)
def test_what_is_read_is_drawn_for_both_ways(codes, scored, leak, honest):
    picture = draw_leak(codes, scored, {"leak": leak, "honest": honest})
    assert label_problems(picture) == []
    assert {f"perplexity {leak:.1f}", f"perplexity {honest:.1f}"} <= set(texts(picture))
    assert texts(picture).count("read and scored") == 1
    assert texts(picture).count("hidden") == len(codes) - scored - 1
    assert f"{honest:.1f}" in picture.alternative_text


@pytest.mark.parametrize("seed", [0, 1])
def test_the_accuracy_is_that_of_scikit_learns_neighbours(seed):
    rng = np.random.default_rng(seed)
    cohorts = {
        name: (rng.normal(size=(15, 2)), rng.normal(size=(15, 2)) + shift)
        for name, shift in (("near", 0.0), ("farther", 1.5))
    }
    picture = draw_neighbours(cohorts)
    assert label_problems(picture) == []
    for name, (real, synthetic) in cohorts.items():
        sides = []
        for one, other in ((real, synthetic), (synthetic, real)):
            own = NearestNeighbors(n_neighbors=1).fit(one).kneighbors()[0][:, 0]
            away = NearestNeighbors(n_neighbors=1).fit(other).kneighbors(one)[0][:, 0]
            sides.append((own < away).mean())
        assert f"{name} {np.mean(sides):.2f}" in picture.alternative_text
        assert f"accuracy {np.mean(sides):.2f}" in texts(picture)
