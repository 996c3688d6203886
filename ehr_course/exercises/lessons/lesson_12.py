"""The exercises of lesson 12: conditional prompt."""

from __future__ import annotations

import random
from collections.abc import Sequence

from torch import Tensor, tensor

from ehr_course.exercises.exercise import Arguments, Exercise
from ehr_course.exercises.lessons.small_tensors import FLOAT32, numbers, tensors
from ehr_course.exercises.prompt_to_read import SummedPrompt, distances

# 12.1 Weight times age plus bias


def _fresh_numerical(rng: random.Random) -> Arguments:
    batch, n_num, d_hidden = rng.randint(1, 3), rng.randint(1, 3), rng.randint(2, 4)
    x_num = tensor([[rng.randint(1, 180) / 2 for _ in range(n_num)] for _ in range(batch)])
    return x_num, numbers(rng, n_num, d_hidden), numbers(rng, n_num, d_hidden)


_W2 = tensor([[1.0, 0.5], [-2.0, 0.1]])
_B2 = tensor([[0.2, -1.0], [3.0, 0.4]])
_W3 = tensor([[1.0, 0.5, -1.0], [-2.0, 0.1, 0.3]])
_B3 = tensor([[0.2, -1.0, 2.0], [3.0, 0.4, -0.5]])

NUMERICAL = Exercise(
    id="12.1",
    chosen=(
        tensors([[65.0], [20.0]], [[1.0, -0.5, 0.2]], [[0.0, 3.0, 1.0]]),
        (tensor([[65.0, 2.0], [20.0, 7.0]]), _W2, _B2),
        (tensor([[65.0, 2.0], [20.0, 7.0], [40.0, 1.0]]), _W3, _B3),
        (tensor([[65.0, 2.0], [20.0, 7.0]]), _W3, _B3),
        (tensor([[65.0, 2.0]]), _W3, _B3),
        tensors([[30.5]], [[2.0, 1.0]], [[1.0, -1.0]]),
    ),
    fresh=_fresh_numerical,
    tolerance=FLOAT32,
)


# 12.2 Offsets of categories


def _fresh_categories(rng: random.Random) -> Arguments:
    cardinalities = [rng.randint(2, 6) for _ in range(rng.randint(2, 4))]
    rows = [[rng.randrange(count) for count in cardinalities] for _ in range(rng.randint(1, 3))]
    return tensor(rows), cardinalities


OFFSETS = Exercise(
    id="12.2",
    chosen=(
        (tensor([[0, 0, 0], [1, 5, 2]]), [2, 6, 3]),
        (tensor([[1], [0]]), [2]),
        (tensor([[1, 0], [0, 3]]), [2, 4]),
        (tensor([[3, 1, 0, 1]]), [4, 2, 3, 2]),
        (tensor([[0, 1, 2], [1, 1, 0], [1, 0, 1]]), [2, 2, 3]),
        (tensor([[2, 1, 1]]), [3, 3, 2]),
    ),
    fresh=_fresh_categories,
)


# 12.3 Combine the prompts


def _fresh_prompts(rng: random.Random) -> Arguments:
    batch, d_model = rng.randint(1, 3), rng.randint(2, 3)
    numerical = numbers(rng, batch, rng.randint(1, 2), d_model)
    categorical = numbers(rng, batch, rng.randint(1, 2), d_model)
    parts = rng.choice([(numerical, categorical)] * 3 + [(None, categorical), (numerical, None)])
    return *parts, rng.choice(("concat", "sum"))


_AGE = tensor([[[1.0, 2.0]], [[3.0, 4.0]]])
_SEX = tensor([[[0.1, 0.2]], [[0.3, 0.4]]])
_TWO = tensor([[[0.1, 0.2], [5.0, 6.0]], [[0.3, 0.4], [7.0, 8.0]]])
_TWO_MORE = tensor([[[1.0, 2.0], [-1.0, 3.0]], [[3.0, 4.0], [-2.0, 5.0]]])

COMBINE = Exercise(
    id="12.3",
    chosen=(
        (_AGE, _SEX, "concat"),
        (_AGE, _SEX, "sum"),
        (_AGE, _TWO, "concat"),
        (_AGE, _TWO, "sum"),
        (_TWO_MORE, _TWO, "concat"),
        (_TWO_MORE, _TWO, "sum"),
        (None, _TWO, "concat"),
        (None, _TWO, "sum"),
        (_AGE, None, "concat"),
        (_TWO, None, "sum"),
    ),
    fresh=_fresh_prompts,
    tolerance=FLOAT32,
)


# 12.4 Prepend, and extend the mask


def _fresh_sequence(rng: random.Random) -> Arguments:
    batch, n_prompts, length = rng.randint(1, 3), rng.randint(1, 3), rng.randint(2, 3)
    lengths = [rng.randint(1, length - 1), *(rng.randint(1, length) for _ in range(batch - 1))]
    mask = tensor([[int(place < n) for place in range(length)] for n in lengths])
    return numbers(rng, batch, n_prompts, 2), numbers(rng, batch, length, 2), mask


PREPEND = Exercise(
    id="12.4",
    chosen=(
        tensors([[[9.0, 8.0]]], [[[1.0, 2.0], [3.0, 4.0]]], [[1, 0]]),
        tensors([[[9.0, 8.0], [7.0, 6.0]]], [[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]], [[1, 1, 0]]),
        tensors(
            [[[9.0], [8.0]], [[7.0], [6.0]]], [[[1.0], [2.0]], [[3.0], [4.0]]], [[1, 1], [1, 0]]
        ),
        tensors([[[9.0], [8.0]]], [[[1.0], [2.0], [3.0]]], [[1, 1, 1]]),
        tensors([[[9.0]]], [[[1.0], [2.0], [3.0]]], [[0, 1, 1]]),
    ),
    fresh=_fresh_sequence,
    tolerance=FLOAT32,
)


# 12.5 An age encoder that is not affine


def _fresh_ages(rng: random.Random) -> Arguments:
    first, step, count = rng.randint(0, 20), rng.randint(3, 15), rng.randint(3, 5)
    ages = tensor([float(first + step * i) for i in range(count)])
    frequencies = tensor(sorted(rng.sample((0.25, 0.5, 0.75, 1.25, 1.5), rng.randint(2, 3))))
    return ages, frequencies


FOURIER = Exercise(
    id="12.5",
    chosen=(
        tensors([40.0, 50.0, 60.0], [0.5, 1.0]),
        tensors([0.0, 22.5, 45.0, 67.5, 90.0], [0.5, 1.0, 2.0]),
        tensors([7.0, 10.0, 13.0, 16.0], [0.25, 1.5]),
        tensors([1.0, 31.0, 61.0], [0.75]),
    ),
    fresh=_fresh_ages,
    tolerance=FLOAT32,
)


# 12.6 Your own conditional prompt


def _some_weights(
    rng: random.Random, cardinalities: Sequence[int], d_hidden: int, d_model: int
) -> dict[str, Tensor]:
    return {
        "num_weight": numbers(rng, 1, d_hidden),
        "num_bias": numbers(rng, 1, d_hidden),
        "num_project.weight": numbers(rng, d_model, d_hidden),
        "table.weight": numbers(rng, sum(cardinalities), d_hidden),
        "cat_bias": numbers(rng, len(cardinalities), d_hidden),
        "cat_project.weight": numbers(rng, d_model, d_hidden),
    }


def _fresh_patients(rng: random.Random) -> Arguments:
    cardinalities = [rng.randint(2, 3) for _ in range(rng.randint(1, 3))]
    batch = rng.randint(1, 3)
    ages = [[rng.randint(0, 180) / 2] for _ in range(batch)]
    rows = [[rng.randrange(count) for count in cardinalities] for _ in range(batch)]
    weights = _some_weights(rng, cardinalities, rng.randint(2, 3), rng.randint(1, 3))
    return weights, cardinalities, tensor(ages), tensor(rows)


def _chosen_patients(
    cardinalities: list[int],
    ages: list[list[float]],
    rows: list[list[int]],
    seed: int,
    d_model: int = 3,
) -> Arguments:
    weights = _some_weights(random.Random(seed), cardinalities, 2, d_model)
    return weights, cardinalities, tensor(ages), tensor(rows)


CONDITIONAL_PROMPT = Exercise(
    id="12.6",
    chosen=(
        _chosen_patients([2], [[65.0]], [[1]], 0),
        _chosen_patients([2], [[0.0], [90.0]], [[0], [1]], 1),
        _chosen_patients([2, 3], [[40.5]], [[1, 2]], 2),
        _chosen_patients([3, 2, 2], [[12.0], [81.0]], [[2, 1, 0], [0, 1, 1]], 3),
        _chosen_patients([2, 3], [[33.0]], [[0, 2]], 4, d_model=2),  # as wide as what is hidden
    ),
    fresh=_fresh_patients,
    fresh_inputs=12,
    tolerance=FLOAT32,
)


# 12.7 Whose prompt is it?


def _logged(
    newborn: list[list[float]], year: list[float], age: int, sex: int, noise: list[float]
) -> Arguments:
    prompt_of = SummedPrompt(newborn, year)
    vector = prompt_of.newborn[sex] + age * prompt_of.year + tensor(noise)
    return prompt_of, (vector * 10).round() / 10


def _fresh_log(rng: random.Random) -> Arguments:
    while True:
        d_model = rng.randint(3, 4)
        newborn = [[rng.randint(-90, 90) / 10 for _ in range(d_model)] for _ in range(2)]
        year = [rng.choice((-1, 1)) * rng.randint(1, 12) / 10 for _ in range(d_model)]
        noise = [rng.gauss(0, 0.4) for _ in range(d_model)]
        age, sex = rng.randint(3, 90), rng.randint(0, 1)
        prompt_of, vector = _logged(newborn, year, age, sex, noise)
        nearest, second, *_ = distances(prompt_of, vector)
        other = min(left for left, _, s in distances(prompt_of, vector) if s != sex)
        # The noise hides neither the age nor the sex.
        if nearest[1:] == (age, sex) and nearest[0] < 0.8 * second[0] and other > 2 * nearest[0]:
            return prompt_of, vector


_THREE = [[4.0, -6.0, 2.5], [-3.0, 5.0, 7.5]]
_SLOW_FIRST = [0.1, 1.1, -0.7]
_ACROSS = [[2.0, 8.0, -1.0], [2.5, -7.0, 3.0]]

WHOSE_PROMPT = Exercise(
    id="12.7",
    chosen=(
        _logged(_THREE, _SLOW_FIRST, 41, 1, [0.9, 0.2, 0.3]),
        _logged(_THREE, _SLOW_FIRST, 72, 0, [-0.7, 0.3, 0.4]),
        # The log holds more than 90 years, or less than 0.
        _logged(_THREE, _SLOW_FIRST, 90, 1, [0.2, 0.8, -0.6]),
        _logged(_THREE, _SLOW_FIRST, 0, 0, [-0.1, -0.9, 0.5]),
        # Far away on the line, the prompt of the other sex lies nearer to its start.
        _logged(_ACROSS, [-0.3, -0.6, 0.4], 30, 0, [0.3, 0.0, 0.2]),
        _logged([[5.0, 1.0, 2.0, -8.0], [5.0, 6.0, -3.0, -8.0]], [-0.8, 0.4, 0.2, 0.9], 64, 1,
                [0.4, -0.3, -0.4, 0.1]),
        _logged(_ACROSS, [0.2, 0.7, 0.1], 19, 1, [-0.5, 0.2, 0.6]),
        # The prompt of sex 1 and age 50 points the same way, and is half as long again.
        _logged([[-7.6, -29.5, 23.4], [-13.0, -50.0, 37.0]], [0.5, 1.0, -0.5], 30, 0,
                [0.6, -0.5, -0.4]),
        # Much noise across the line, and none along it.
        _logged([[3.0, -5.0, 6.0], [33.0, 5.0, 41.0]], [0.5, 1.0, -0.5], 23, 0,
                [10.0, -4.0, 2.0]),
    ),
    fresh=_fresh_log,
)  # fmt: skip

EXERCISES = (
    NUMERICAL,
    OFFSETS,
    COMBINE,
    PREPEND,
    FOURIER,
    CONDITIONAL_PROMPT,
    WHOSE_PROMPT,
)
