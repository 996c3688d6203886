"""The exercises of lesson 12: conditional prompt."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

import torch
from torch import Tensor

from ehr_course.exercises.exercise import Arguments, Exercise, Misconception
from ehr_course.models.conditional_prompt import (
    CategoricalPrompt,
    ConditionalPrompt,
    NumericalPrompt,
)

FLOAT32 = 1e-4
"""The tolerance of values that come from a few products in float32."""


def _numbers(rng: random.Random, *shape: int) -> Tensor:
    """Numbers from -2 to 2 with one decimal, none of them 0: short in a message."""
    values = [rng.choice((-1, 1)) * rng.randint(1, 20) / 10 for _ in range(math.prod(shape))]
    return torch.tensor(values).reshape(shape)


# 12.1 Weight times age plus bias


def _vectors(x_num: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """The reference, number by number."""
    vectors = torch.empty(len(x_num), *weight.shape)
    for row, values in enumerate(x_num.tolist()):
        for feature, value in enumerate(values):
            for place in range(weight.shape[1]):
                product = value * weight[feature, place].item()
                vectors[row, feature, place] = product + bias[feature, place].item()
    return vectors


def _fresh_numerical(rng: random.Random) -> Arguments:
    batch, n_num, d_hidden = rng.randint(1, 3), rng.randint(1, 3), rng.randint(2, 4)
    x_num = torch.tensor([[rng.randint(1, 180) / 2 for _ in range(n_num)] for _ in range(batch)])
    return x_num, _numbers(rng, n_num, d_hidden), _numbers(rng, n_num, d_hidden)


_W2 = torch.tensor([[1.0, 0.5], [-2.0, 0.1]])
_B2 = torch.tensor([[0.2, -1.0], [3.0, 0.4]])
_W3 = torch.tensor([[1.0, 0.5, -1.0], [-2.0, 0.1, 0.3]])
_B3 = torch.tensor([[0.2, -1.0, 2.0], [3.0, 0.4, -0.5]])

NUMERICAL = Exercise(
    id="12.1",
    title="Weight times age plus bias",
    parameters=("x_num", "weight", "bias"),
    reference=_vectors,
    chosen=(
        (
            torch.tensor([[65.0], [20.0]]),
            torch.tensor([[1.0, -0.5, 0.2]]),
            torch.tensor([[0.0, 3.0, 1.0]]),
        ),
        (torch.tensor([[65.0, 2.0], [20.0, 7.0]]), _W2, _B2),
        (torch.tensor([[65.0, 2.0], [20.0, 7.0], [40.0, 1.0]]), _W3, _B3),
        (torch.tensor([[65.0, 2.0], [20.0, 7.0]]), _W3, _B3),
        (torch.tensor([[65.0, 2.0]]), _W3, _B3),
        (torch.tensor([[30.5]]), torch.tensor([[2.0, 1.0]]), torch.tensor([[1.0, -1.0]])),
    ),
    fresh=_fresh_numerical,
    misconceptions=(
        Misconception(
            "no_bias",
            "You left the bias out. At age 0 every vector is then zero, whatever the model "
            "learns: a newborn has no prompt.",
            lambda x, w, b: x[..., None] * w,
        ),
        Misconception(
            "sums_over_features",
            "You summed over the features: one vector a patient is left. An age of 60 with 2 "
            "earlier stays and an age of 58 with 4 can then give the same vector. Each feature "
            "keeps a vector of its own.",
            lambda x, w, b: x @ w + b.sum(0),
        ),
        Misconception(
            "matrix_product",
            "You used a matrix product. It multiplies and then sums over the features, and the "
            "axis of the features is gone. Here nothing is summed: each feature keeps a vector "
            "of its own.",
            lambda x, w, b: x @ w + b,
        ),
        Misconception(
            "broadcasts_as_they_are",
            "You multiplied x_num and weight as they are. With one feature the axis of the "
            "features gets lost; with more, columns meet that do not belong together, or no "
            "shapes that fit. Give x_num a third axis.",
            lambda x, w, b: x * w + b,
        ),
        Misconception(
            "axis_in_the_middle",
            "You put the new axis between batch and features, so that the last axis of x_num, the "
            "features, meets the last axis of weight, d_hidden. The value of a feature belongs "
            "to a whole row of weight.",
            lambda x, w, b: x[:, None, :] * w + b,
        ),
        Misconception(
            "bias_inside",
            "You added the bias before you multiplied: weight * (x_num + bias). The bias is then "
            "scaled by the weight and moves the age instead of the vector.",
            lambda x, w, b: w * (x[..., None] + b),
        ),
        Misconception(
            "features_first",
            "The features stand before the patients: your shape is (n_num, batch, d_hidden). "
            "The batch comes first everywhere in this course.",
            lambda x, w, b: _vectors(x, w, b).transpose(0, 1),
        ),
        Misconception(
            "features_in_one_row",
            "You laid the vectors of all features end to end. Each of them becomes a position of "
            "its own later, so they need an axis of their own.",
            lambda x, w, b: _vectors(x, w, b).flatten(1),
        ),
    ),
    hints=(
        "Write the shapes under one another: (batch, n_num), (n_num, d_hidden), and the result. "
        "Which axis does x_num lack?",
        "x_num.unsqueeze(-1) has the shape (batch, n_num, 1). An axis of length 1 is stretched "
        "to any length.",
        "Stretched that way, each value meets the whole row of weight that belongs to its "
        "feature. Multiply, and add the bias, whose shape fits as it is.",
    ),
    tolerance=FLOAT32,
)


# 12.2 Project to the width of the model


def _fresh_projection(rng: random.Random) -> Arguments:
    batch, n, d_hidden, d_model = (rng.randint(1, 3) for _ in range(4))
    return _numbers(rng, batch, n, d_hidden), _numbers(rng, d_model, d_hidden)


def _squeezed(vectors: Tensor) -> Tensor:
    return vectors.squeeze(1)


PROJECT = Exercise(
    id="12.2",
    title="Project to the width of the model",
    parameters=("vectors", "matrix"),
    reference=torch.nn.functional.linear,
    chosen=(
        (
            torch.tensor([[[1.0, 2.0]], [[3.0, -1.0]]]),
            torch.tensor([[1.0, 0.0], [0.5, -1.0], [2.0, 1.0]]),
        ),
        (
            torch.tensor([[[1.0, 2.0], [0.0, 1.0]]]),
            torch.tensor([[1.0, 3.0], [-2.0, 0.5]]),
        ),
        (
            torch.tensor(
                [[[1.0, 2.0, 3.0], [0.5, -1.0, 1.0]], [[2.0, 0.0, 1.0], [1.0, 1.0, 1.0]]]
            ),
            torch.tensor([[1.0, -2.0, 0.5], [3.0, 0.0, 1.0]]),
        ),
        (torch.tensor([[[2.0, -3.0]]]), torch.tensor([[1.0, 4.0], [0.0, 1.0], [1.0, 1.0]])),
    ),
    fresh=_fresh_projection,
    misconceptions=(
        Misconception(
            "not_transposed",
            "You multiplied by the matrix as it is stored. nn.Linear stores (out, in), so the "
            "inner sizes do not fit; where d_hidden equals d_model they fit by accident, and the "
            "values are those of another map.",
            lambda vectors, matrix: vectors @ matrix,
        ),
        Misconception(
            "reshaped_instead_of_transposed",
            "You gave the matrix the right shape with reshape or view. They deal the same numbers "
            "out in another order; a transpose swaps rows and columns. Every size fits, and the "
            "values are wrong.",
            lambda vectors, matrix: vectors @ matrix.reshape(matrix.shape[::-1]),
        ),
        Misconception(
            "loses_the_axis_of_one_feature",
            "With one feature you return (batch, d_model). The axis of the features stays, also "
            "where its length is 1: the prompt is a position in a sequence.",
            lambda vectors, matrix: _squeezed(vectors @ matrix.T),
        ),
        Misconception(
            "sums_over_features",
            "You summed over the features. Each of them has its own vector and becomes a "
            "position of its own.",
            lambda vectors, matrix: (vectors @ matrix.T).sum(1),
        ),
        Misconception(
            "mean_over_features",
            "You took the mean over the features. Each of them has its own vector and becomes a "
            "position of its own.",
            lambda vectors, matrix: (vectors @ matrix.T).mean(1),
        ),
        Misconception(
            "with_relu",
            "You applied a ReLU. The tutorial's projection is linear, and nothing follows it; "
            "whether that is enough is a question of its own, which 12.6 takes up.",
            lambda vectors, matrix: (vectors @ matrix.T).relu(),
        ),
    ),
    hints=(
        "The last axis of vectors has d_hidden numbers. Which axis of matrix has d_hidden too?",
        "nn.Linear computes x times its weight transposed.",
        "The operator @ multiplies the last axis and leaves every axis before it in place, so no "
        "loop over patients or features is needed.",
    ),
    tolerance=FLOAT32,
)


# 12.3 Offsets of categories

Rows = Callable[[Sequence[int]], list[int]]


def _table_rows(x_cat: Tensor, cardinalities: Sequence[int]) -> Tensor:
    """The reference: number all pairs of feature and category, then look them up."""
    pairs = [(f, c) for f, count in enumerate(cardinalities) for c in range(count)]
    rows = [[pairs.index((f, c)) for f, c in enumerate(row)] for row in x_cat.tolist()]
    return torch.tensor(rows)


def _with_offsets(offsets: Rows) -> Callable[[Tensor, Sequence[int]], Tensor]:
    return lambda x_cat, cardinalities: x_cat + torch.tensor(offsets(cardinalities))


def _fresh_categories(rng: random.Random) -> Arguments:
    cardinalities = [rng.randint(2, 6) for _ in range(rng.randint(2, 4))]
    rows = [[rng.randrange(count) for count in cardinalities] for _ in range(rng.randint(1, 3))]
    return torch.tensor(rows), cardinalities


OFFSETS = Exercise(
    id="12.3",
    title="Offsets of categories",
    parameters=("x_cat", "cardinalities"),
    reference=_table_rows,
    chosen=(
        (torch.tensor([[0, 0, 0], [1, 5, 2]]), [2, 6, 3]),
        (torch.tensor([[1], [0]]), [2]),
        (torch.tensor([[1, 0], [0, 3]]), [2, 4]),
        (torch.tensor([[3, 1, 0, 1]]), [4, 2, 3, 2]),
        (torch.tensor([[0, 1, 2], [1, 1, 0], [1, 0, 1]]), [2, 2, 3]),
        (torch.tensor([[2, 1, 1]]), [3, 3, 2]),
    ),
    fresh=_fresh_categories,
    misconceptions=(
        Misconception(
            "no_offset",
            "You returned the categories as they are. Category 0 of every feature is then row 0: "
            "features that have nothing to do with each other share a vector, and whatever "
            "training does to one it does to the other.",
            _with_offsets(lambda counts: [0] * len(counts)),
        ),
        Misconception(
            "own_cardinality",
            "You moved each feature by its own number of categories. What stands before it in the "
            "table are the categories of the features before it.",
            _with_offsets(list),
        ),
        Misconception(
            "sum_including_itself",
            "Your sum of the cardinalities includes the feature's own. The first feature then "
            "does not begin at row 0, and the last one ends beyond the table.",
            _with_offsets(lambda counts: list(accumulate(counts))),
        ),
        Misconception(
            "only_the_feature_before",
            "You moved each feature by the categories of the one feature before it. From the "
            "third feature on that is too little: all features before it stand in the table.",
            _with_offsets(lambda counts: [0, *counts[:-1]]),
        ),
        Misconception(
            "number_of_the_feature",
            "You moved each feature by its number, 0, 1, 2. A feature with more than one category "
            "then runs into the next: two different categories share a row.",
            _with_offsets(lambda counts: list(range(len(counts)))),
        ),
        Misconception(
            "blocks_of_the_largest",
            "You gave every feature a block as long as the largest one. Nothing collides, but the "
            "table would need unused rows: it has one row for each category and no more.",
            _with_offsets(lambda counts: [i * max(counts) for i in range(len(counts))]),
        ),
        Misconception(
            "features_behind",
            "You added up the cardinalities of the features behind each feature. The table "
            "begins with the first feature.",
            _with_offsets(lambda counts: [sum(counts[i + 1 :]) for i in range(len(counts))]),
        ),
        Misconception(
            "counts_from_one",
            "All your rows are one too far. Rows are counted from 0, and no row is kept free for "
            "padding.",
            _with_offsets(lambda counts: [1 + sum(counts[:i]) for i in range(len(counts))]),
        ),
    ),
    hints=(
        "Draw the table for [2, 6, 3]: rows 0 and 1 are the first feature. Where does each "
        "feature begin?",
        "A feature begins where all features before it end. For the first one that is 0.",
        "The offsets of [2, 6, 3] are [0, 2, 8]: running sums, without the feature's own count. "
        "Add them to every row of x_cat.",
    ),
)


# 12.4 Combine the prompts

Prompts = Tensor | None


def _parts(numerical: Prompts, categorical: Prompts) -> list[Tensor]:
    return [part for part in (numerical, categorical) if part is not None]


def _combined(numerical: Prompts, categorical: Prompts, combination: str) -> Tensor:
    """The reference, patient by patient."""
    parts = _parts(numerical, categorical)
    patients = []
    for row in range(len(parts[0])):
        vectors = [vector for part in parts for vector in part[row]]
        if combination == "sum":
            vectors = [sum(vectors[1:], vectors[0])]
        patients.append(torch.stack(vectors))
    return torch.stack(patients)


def _in_a_way(
    concatenate: Callable[[list[Tensor]], Tensor], add: Callable[[list[Tensor]], Tensor]
) -> Callable[[Prompts, Prompts, str], Tensor]:
    def combine(numerical: Prompts, categorical: Prompts, combination: str) -> Tensor:
        parts = _parts(numerical, categorical)
        return add(parts) if combination == "sum" else concatenate(parts)

    return combine


def _concatenate(parts: list[Tensor]) -> Tensor:
    return torch.cat(parts, dim=1)


def _add(parts: list[Tensor]) -> Tensor:
    return _concatenate(parts).sum(1, keepdim=True)


def _add_part_to_part(parts: list[Tensor]) -> Tensor:
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def _categorical_first(numerical: Prompts, categorical: Prompts, combination: str) -> Tensor:
    return _combined(categorical, numerical, combination)


def _both_needed(numerical: Prompts, categorical: Prompts, combination: str) -> Tensor:
    if numerical is None or categorical is None:
        raise TypeError("expected Tensor, but got NoneType")
    return _combined(numerical, categorical, combination)


def _sums_only_both(numerical: Prompts, categorical: Prompts, combination: str) -> Tensor:
    parts = _parts(numerical, categorical)
    return parts[0] if len(parts) == 1 else _combined(numerical, categorical, combination)


def _fresh_prompts(rng: random.Random) -> Arguments:
    batch, d_model = rng.randint(1, 3), rng.randint(2, 3)
    numerical = _numbers(rng, batch, rng.randint(1, 2), d_model)
    categorical = _numbers(rng, batch, rng.randint(1, 2), d_model)
    missing = rng.random()
    if missing < 0.15:
        return None, categorical, rng.choice(("concat", "sum"))
    if missing < 0.3:
        return numerical, None, rng.choice(("concat", "sum"))
    return numerical, categorical, rng.choice(("concat", "sum"))


_AGE = torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])
_SEX = torch.tensor([[[0.1, 0.2]], [[0.3, 0.4]]])
_TWO = torch.tensor([[[0.1, 0.2], [5.0, 6.0]], [[0.3, 0.4], [7.0, 8.0]]])
_TWO_MORE = torch.tensor([[[1.0, 2.0], [-1.0, 3.0]], [[3.0, 4.0], [-2.0, 5.0]]])

COMBINE = Exercise(
    id="12.4",
    title="Combine the prompts",
    parameters=("numerical", "categorical", "combination"),
    reference=_combined,
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
    misconceptions=(
        Misconception(
            "along_the_width",
            "You joined the vectors along their last axis: one prompt that is twice as wide. The "
            "model takes vectors of width d_model only; a second prompt is a second position.",
            _in_a_way(lambda parts: torch.cat(parts, dim=-1), _add),
        ),
        Misconception(
            "along_the_batch",
            "You joined along the batch: twice as many patients, each with half of its prompts.",
            _in_a_way(lambda parts: torch.cat(parts, dim=0), _add),
        ),
        Misconception(
            "categorical_first",
            "The categorical prompts stand first. The order of positions is fixed when a model is "
            "trained: numerical features first, then categorical ones.",
            _categorical_first,
        ),
        Misconception(
            "never_sums",
            'You concatenate whatever combination says. For "sum" there is one prompt: the sum of '
            "all vectors.",
            _in_a_way(_concatenate, _concatenate),
        ),
        Misconception(
            "always_sums",
            'You sum whatever combination says. For "concat" every vector keeps a position of its '
            "own.",
            _in_a_way(_add, _add),
        ),
        Misconception(
            "sum_loses_its_axis",
            'Your sum has the shape (batch, d_model). Also for "sum" a prompt is a position: the '
            "axis in the middle stays, with length 1.",
            _in_a_way(_concatenate, lambda parts: _concatenate(parts).sum(1)),
        ),
        Misconception(
            "mean_instead_of_sum",
            "You took the mean of the vectors. Every feature you add would then make the others "
            "weaker; the task asks for their sum.",
            _in_a_way(_concatenate, lambda parts: _concatenate(parts).mean(1, keepdim=True)),
        ),
        Misconception(
            "adds_part_to_part",
            "You added one tensor to the other. Where they hold different numbers of vectors, "
            "broadcasting adds the one vector to each of the others, and several prompts are left "
            "where one is asked for.",
            _in_a_way(_concatenate, _add_part_to_part),
        ),
        Misconception(
            "sums_only_both",
            'For "sum" you return a tensor as it is when the other one is None. It may hold '
            "several vectors, and they are summed too: one prompt in all.",
            _sums_only_both,
        ),
        Misconception(
            "needs_both",
            "Your function works where both are there, and fails where one of them is None. A "
            "model may have numerical features alone, or categorical ones.",
            _both_needed,
        ),
    ),
    hints=(
        "Make a list of the tensors that are not None, numerical first.",
        "A prompt is a position in a sequence, and positions lie on axis 1.",
        "torch.cat along axis 1 gives all prompts. For the sum, add these up along the same axis "
        "with keepdim=True.",
    ),
    tolerance=FLOAT32,
)


# 12.5 Prepend, and extend the mask

Prepended = tuple[Tensor, Tensor]


def _prepended(prompts: Tensor, embeddings: Tensor, attention_mask: Tensor) -> Prepended:
    """The reference: fill in two empty tensors, prompts first."""
    batch, n_prompts, d_model = prompts.shape
    length = embeddings.shape[1]
    inputs = torch.empty(batch, n_prompts + length, d_model)
    mask = torch.ones(batch, n_prompts + length, dtype=torch.long)
    inputs[:, :n_prompts] = prompts
    inputs[:, n_prompts:] = embeddings
    mask[:, n_prompts:] = attention_mask
    return inputs, mask


def _inputs(prompts: Tensor, embeddings: Tensor) -> Tensor:
    return torch.cat([prompts, embeddings], dim=1)


def _ones(prompts: Tensor) -> Tensor:
    return torch.ones(prompts.shape[:2], dtype=torch.long)


def _fresh_sequence(rng: random.Random) -> Arguments:
    batch, n_prompts, length = rng.randint(1, 3), rng.randint(1, 3), rng.randint(2, 3)
    lengths = [rng.randint(1, length - 1), *(rng.randint(1, length) for _ in range(batch - 1))]
    mask = torch.tensor([[int(place < n) for place in range(length)] for n in lengths])
    return _numbers(rng, batch, n_prompts, 2), _numbers(rng, batch, length, 2), mask


PREPEND = Exercise(
    id="12.5",
    title="Prepend, and extend the mask",
    parameters=("prompts", "embeddings", "attention_mask"),
    reference=_prepended,
    chosen=(
        (
            torch.tensor([[[9.0, 8.0]]]),
            torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]),
            torch.tensor([[1, 0]]),
        ),
        (
            torch.tensor([[[9.0, 8.0], [7.0, 6.0]]]),
            torch.tensor([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]]),
            torch.tensor([[1, 1, 0]]),
        ),
        (
            torch.tensor([[[9.0], [8.0]], [[7.0], [6.0]]]),
            torch.tensor([[[1.0], [2.0]], [[3.0], [4.0]]]),
            torch.tensor([[1, 1], [1, 0]]),
        ),
        (
            torch.tensor([[[9.0], [8.0]]]),
            torch.tensor([[[1.0], [2.0], [3.0]]]),
            torch.tensor([[1, 1, 1]]),
        ),
        (
            torch.tensor([[[9.0]]]),
            torch.tensor([[[1.0], [2.0], [3.0]]]),
            torch.tensor([[0, 1, 1]]),
        ),
    ),
    fresh=_fresh_sequence,
    misconceptions=(
        Misconception(
            "mask_not_extended",
            "Your inputs are longer than your mask. Attention then raises, or the first entries "
            "of the mask are read as those of the prompts, and the last tokens have none.",
            lambda p, e, m: (_inputs(p, e), m),
        ),
        Misconception(
            "prompt_last",
            "Your prompts stand behind the tokens. A decoder's token sees only what stands before "
            "it, so no token would ever see the age.",
            lambda p, e, m: (torch.cat([e, p], dim=1), torch.cat([m, _ones(p)], dim=1)),
        ),
        Misconception(
            "prompt_last_mask_first",
            "Your prompts stand behind the tokens, and their ones in the mask before them. A "
            "decoder's token sees only what stands before it, and the mask now belongs to other "
            "positions.",
            lambda p, e, m: (torch.cat([e, p], dim=1), torch.cat([_ones(p), m], dim=1)),
        ),
        Misconception(
            "mask_extended_at_the_end",
            "You added the ones for the prompts at the end of the mask. Prompts stand first: as "
            "it is, the ones cover padding, and real tokens are hidden in their place.",
            lambda p, e, m: (_inputs(p, e), torch.cat([m, _ones(p)], dim=1)),
        ),
        Misconception(
            "zeros_for_prompts",
            "You gave the prompts zeros in the mask. 0 means padding: nothing may look there, and "
            "the age is in the sequence without ever being read.",
            lambda p, e, m: (_inputs(p, e), torch.cat([1 - _ones(p), m], dim=1)),
        ),
        Misconception(
            "mask_of_ones",
            "Your mask is 1 everywhere. The padding of the tokens is then read as if it were "
            "part of the record.",
            lambda p, e, m: (_inputs(p, e), torch.ones(_inputs(p, e).shape[:2])),
        ),
        Misconception(
            "one_mask_position",
            "You extended the mask by one position, however many prompts there are. Count them: "
            "prompts.shape[1].",
            lambda p, e, m: (_inputs(p, e), torch.cat([_ones(p)[:, :1], m], dim=1)),
        ),
        Misconception(
            "along_the_width",
            "You joined prompts and embeddings along the width. That needs as many prompts as "
            "tokens, and gives vectors of twice the width; a prompt is a position of its own.",
            lambda p, e, m: (torch.cat([p, e], dim=-1), torch.cat([_ones(p), m], dim=1)),
        ),
        Misconception(
            "added_to_the_tokens",
            "You added the prompts to the token embeddings. That conditions a model too, but it "
            "is another model: here prompts are positions of their own, which attention can read "
            "or leave.",
            lambda p, e, m: (e + p.sum(1, keepdim=True), m),
        ),
        Misconception(
            "overwrites_the_tokens",
            "You wrote the prompts over the first tokens. <BOS> and the first codes are gone; "
            "the sequence must grow.",
            lambda p, e, m: (_inputs(p, e[:, p.shape[1] :]), m),
        ),
    ),
    hints=(
        "Positions lie on axis 1, of the inputs and of the mask alike. Both must grow by the same "
        "number.",
        "A prompt is always there and always read. Which number says so in an attention mask?",
        "torch.cat joins prompts and embeddings, and then a tensor of ones with attention_mask. "
        "attention_mask.new_ones(...) makes ones of the right type; their shape is "
        "(batch, n_prompts).",
    ),
    tolerance=FLOAT32,
)


# 12.6 An age encoder that is not affine

Curve = tuple[Tensor, Tensor]
Wave = Callable[[float], float]


def _angle(age: float, frequency: float) -> float:
    return 2 * math.pi * frequency * age / 90


def _features(
    ages: Tensor,
    frequencies: Tensor,
    *,
    angle: Callable[[float, float], float] = _angle,
    waves: Sequence[Wave] = (math.sin, math.cos),
    interleaved: bool = False,
) -> Tensor:
    rows = []
    for age in ages.tolist():
        turns = [angle(age, frequency) for frequency in frequencies.tolist()]
        if interleaved:
            rows.append([wave(turn) for turn in turns for wave in waves])
        else:
            rows.append([wave(turn) for wave in waves for turn in turns])
    return torch.tensor(rows)


def _bend(features: Tensor) -> Tensor:
    return torch.diff(features, n=2, dim=0)


def _curve(ages: Tensor, frequencies: Tensor, **changes: object) -> Curve:
    features = _features(ages, frequencies, **changes)
    return features, _bend(features)


def _with_bend(bend: Callable[[Tensor], Tensor]) -> Callable[[Tensor, Tensor], Curve]:
    def curve(ages: Tensor, frequencies: Tensor) -> Curve:
        features = _features(ages, frequencies)
        return features, bend(features)

    return curve


def _bend_of_the_angles(ages: Tensor, frequencies: Tensor) -> Curve:
    features = _features(ages, frequencies)
    angles = _features(ages, frequencies, waves=(float,))
    return features, _bend(angles)


def _fresh_ages(rng: random.Random) -> Arguments:
    first, step, count = rng.randint(0, 20), rng.randint(3, 15), rng.randint(3, 5)
    ages = torch.tensor([float(first + step * i) for i in range(count)])
    frequencies = torch.tensor(sorted(rng.sample((0.25, 0.5, 0.75, 1.25, 1.5), rng.randint(2, 3))))
    return ages, frequencies


FOURIER = Exercise(
    id="12.6",
    title="An age encoder that is not affine",
    parameters=("ages", "frequencies"),
    reference=_curve,
    chosen=(
        (torch.tensor([40.0, 50.0, 60.0]), torch.tensor([0.5, 1.0])),
        (torch.tensor([0.0, 22.5, 45.0, 67.5, 90.0]), torch.tensor([0.5, 1.0, 2.0])),
        (torch.tensor([7.0, 10.0, 13.0, 16.0]), torch.tensor([0.25, 1.5])),
        (torch.tensor([1.0, 31.0, 61.0]), torch.tensor([0.75])),
    ),
    fresh=_fresh_ages,
    misconceptions=(
        Misconception(
            "degrees",
            "You computed the angle in degrees. torch.sin and torch.cos take radians: a full turn "
            "is 2 pi, not 360.",
            lambda ages, f: _curve(ages, f, angle=lambda a, w: 360 * w * a / 90),
        ),
        Misconception(
            "unscaled_age",
            "You did not divide the age by 90. A wave then makes a whole turn or more from one "
            "birthday to the next, and people of 60 and 61 look as different as 0 and 90.",
            lambda ages, f: _curve(ages, f, angle=lambda a, w: 2 * math.pi * w * a),
        ),
        Misconception(
            "no_two_pi",
            "Your angle lacks the factor 2 pi. A frequency of 1 is one whole turn over 90 years; "
            "yours gets through less than a sixth of it.",
            lambda ages, f: _curve(ages, f, angle=lambda a, w: w * a / 90),
        ),
        Misconception(
            "half_a_turn",
            "Your angle has the factor pi. A frequency of 1 is one whole turn over 90 years, and "
            "a turn is 2 pi.",
            lambda ages, f: _curve(ages, f, angle=lambda a, w: math.pi * w * a / 90),
        ),
        Misconception(
            "divides_by_the_frequency",
            "You divided by the frequency. A higher frequency means more turns, not fewer; what "
            "you have are wavelengths.",
            lambda ages, f: _curve(ages, f, angle=lambda a, w: 2 * math.pi * a / 90 / w),
        ),
        Misconception(
            "no_cosine",
            "You have the sines alone. A sine takes each value at two ages of a turn, 0 and 45 "
            "among them; only with its cosine does it tell them apart.",
            lambda ages, f: _curve(ages, f, waves=(math.sin,)),
        ),
        Misconception(
            "cosine_first",
            "Your cosines stand first. The task asks for all sines, then all cosines: a trained "
            "projection expects them in one fixed order.",
            lambda ages, f: _curve(ages, f, waves=(math.cos, math.sin)),
        ),
        Misconception(
            "interleaved",
            "You wrote sine and cosine of each frequency side by side. The task asks for all "
            "sines, then all cosines.",
            lambda ages, f: _curve(ages, f, interleaved=True),
        ),
        Misconception(
            "first_difference",
            "Your second value holds first differences. They say how steep the curve is; a "
            "straight line is steep and does not bend.",
            _with_bend(lambda features: torch.diff(features, dim=0)),
        ),
        Misconception(
            "difference_of_the_neighbours",
            "You subtracted the age before from the age after, and left out the one between. That "
            "is the slope over two steps; it is not 0 for a straight line.",
            _with_bend(lambda features: features[2:] - features[:-2]),
        ),
        Misconception(
            "middle_once",
            "You subtracted the middle value once. A straight line then gives the value itself "
            "instead of 0: there are two neighbours, so it counts twice.",
            _with_bend(lambda features: features[2:] - features[1:-1] + features[:-2]),
        ),
        Misconception(
            "half_the_bend",
            "You took the mean of the neighbours minus the middle, or half of what is asked for. "
            "The second difference is before minus twice the middle plus after.",
            _with_bend(lambda features: _bend(features) / 2),
        ),
        Misconception(
            "opposite_sign",
            "Your second differences have the opposite sign: twice the middle minus its "
            "neighbours.",
            _with_bend(lambda features: -_bend(features)),
        ),
        Misconception(
            "across_the_features",
            "You took differences along the features. Whether a map bends shows along the ages, "
            "axis 0.",
            _with_bend(lambda features: torch.diff(features, n=2, dim=1)),
        ),
        Misconception(
            "bend_of_the_angles",
            "You took the second differences of the angles. An angle is the age times a number: "
            "it does not bend, whatever you do with it later. Take those of the features.",
            _bend_of_the_angles,
        ),
    ),
    hints=(
        "First the angles, one row an age and one column a frequency: ages[:, None] times "
        "frequencies has the shape (n, k).",
        "The angle is 2 pi times frequency times age / 90. torch.cat along axis 1 puts the "
        "cosines behind the sines.",
        "The second difference at an age needs the rows before and behind it: shift the features "
        "by slices, as in features[2:] and features[:-2], and count the middle twice.",
    ),
    tolerance=FLOAT32,
)


# 12.7 Your own conditional prompt

Weights = Mapping[str, Tensor]


def _by_the_library(
    weights: Weights, cardinalities: Sequence[int], x_num: Tensor, x_cat: Tensor
) -> Tensor:
    """The reference: the course's own module with these weights."""
    d_model, d_hidden = weights["num_project.weight"].shape
    module = ConditionalPrompt(
        NumericalPrompt(1, d_model, d_hidden=d_hidden),
        CategoricalPrompt(cardinalities, d_model, d_hidden=d_hidden),
    )
    names = {
        "numerical.weight": "num_weight",
        "numerical.bias": "num_bias",
        "numerical.project.weight": "num_project.weight",
        "categorical.table.weight": "table.weight",
        "categorical.bias": "cat_bias",
        "categorical.project.weight": "cat_project.weight",
    }
    given = {theirs: weights[ours] for theirs, ours in names.items()}
    module.load_state_dict(module.state_dict() | given)
    with torch.no_grad():
        return module(x_num, x_cat)


def _prompt(
    weights: Weights,
    cardinalities: Sequence[int],
    x_num: Tensor,
    x_cat: Tensor,
    *,
    offsets: Rows = lambda counts: [0, *accumulate(counts)][:-1],
    age: Callable[[Tensor], Tensor] = lambda years: years / 90,
    num_bias: float = 1.0,
    cat_bias: float = 1.0,
    cat_project: str = "cat_project.weight",
    num_project: str = "num_project.weight",
    scale_all: bool = False,
    join: Callable[[Tensor, Tensor], Tensor] = lambda num, cat: torch.cat([num, cat], dim=1),
) -> Tensor:
    """The wrong ideas: the right computation with one thing changed."""
    value = age(x_num)[..., None]
    hidden = value * weights["num_weight"] + num_bias * weights["num_bias"]
    if scale_all:
        hidden = (x_num[..., None] * weights["num_weight"] + weights["num_bias"]) / 90
    numerical = hidden @ weights[num_project].T
    rows = x_cat + torch.tensor(offsets(cardinalities))
    looked_up = torch.nn.functional.embedding(rows, weights["table.weight"])
    categorical = (looked_up + cat_bias * weights["cat_bias"]) @ weights[cat_project].T
    return join(numerical, categorical)


def _wrong(**changes: object) -> Callable[..., Tensor]:
    return lambda *arguments: _prompt(*arguments, **changes)


def _some_weights(
    rng: random.Random, cardinalities: Sequence[int], d_hidden: int, d_model: int
) -> dict[str, Tensor]:
    return {
        "num_weight": _numbers(rng, 1, d_hidden),
        "num_bias": _numbers(rng, 1, d_hidden),
        "num_project.weight": _numbers(rng, d_model, d_hidden),
        "table.weight": _numbers(rng, sum(cardinalities), d_hidden),
        "cat_bias": _numbers(rng, len(cardinalities), d_hidden),
        "cat_project.weight": _numbers(rng, d_model, d_hidden),
    }


def _fresh_patients(rng: random.Random) -> Arguments:
    cardinalities = [rng.randint(2, 3) for _ in range(rng.randint(1, 3))]
    batch = rng.randint(1, 3)
    ages = [[rng.randint(0, 180) / 2] for _ in range(batch)]
    rows = [[rng.randrange(count) for count in cardinalities] for _ in range(batch)]
    weights = _some_weights(rng, cardinalities, rng.randint(1, 2), rng.randint(1, 3))
    return weights, cardinalities, torch.tensor(ages), torch.tensor(rows)


def _chosen_patients(
    cardinalities: list[int], ages: list[list[float]], rows: list[list[int]], seed: int
) -> Arguments:
    weights = _some_weights(random.Random(seed), cardinalities, 2, 3)
    return weights, cardinalities, torch.tensor(ages), torch.tensor(rows)


CONDITIONAL_PROMPT = Exercise(
    id="12.7",
    title="Your own conditional prompt",
    parameters=("weights", "cardinalities", "x_num", "x_cat"),
    reference=_by_the_library,
    chosen=(
        _chosen_patients([2], [[65.0]], [[1]], 0),
        _chosen_patients([2], [[0.0], [90.0]], [[0], [1]], 1),
        _chosen_patients([2, 3], [[40.5]], [[1, 2]], 2),
        _chosen_patients([3, 2, 2], [[12.0], [81.0]], [[2, 1, 0], [0, 1, 1]], 3),
    ),
    fresh=_fresh_patients,
    misconceptions=(
        Misconception(
            "unscaled_age",
            "You fed the age in as it is. In years it is up to 90 times larger than what the "
            "weights expect: divide it by AGE_SCALE.",
            _wrong(age=lambda years: years),
        ),
        Misconception(
            "scales_the_bias_too",
            "You divided after the bias was added, so the bias is 90 times too small as well. "
            "Only the age is divided.",
            _wrong(scale_all=True),
        ),
        Misconception(
            "no_bias_of_the_age",
            "Your age prompt does not use num_bias. At age 0 it is then zero, whatever the model "
            "learns.",
            _wrong(num_bias=0.0),
        ),
        Misconception(
            "no_bias_of_the_categories",
            "Your categorical prompts do not use cat_bias. The table could make up for it, but "
            "these weights have learned with it.",
            _wrong(cat_bias=0.0),
        ),
        Misconception(
            "one_projection_for_both",
            "You projected the categories with the projection of the age. Each of the two parts "
            "has its own.",
            _wrong(cat_project="num_project.weight"),
        ),
        Misconception(
            "projections_swapped",
            "Each part uses the projection of the other one: num_project belongs to the age, "
            "cat_project to the categories.",
            _wrong(cat_project="num_project.weight", num_project="cat_project.weight"),
        ),
        Misconception(
            "no_offset",
            "You looked the categories up without offsets. With more than one feature, category 0 "
            "of each of them is then the same row.",
            _wrong(offsets=lambda counts: [0] * len(counts)),
        ),
        Misconception(
            "only_the_feature_before",
            "Your offsets hold the categories of the one feature before. From the third feature "
            "on that is too little.",
            _wrong(offsets=lambda counts: [0, *counts[:-1]]),
        ),
        Misconception(
            "categories_first",
            "Your categorical prompts stand before the age. The age comes first.",
            _wrong(join=lambda num, cat: torch.cat([cat, num], dim=1)),
        ),
        Misconception(
            "along_the_width",
            "You joined the prompts along their width. With one category a patient then has one "
            "prompt of twice the width of the model; with more it does not work at all.",
            _wrong(join=lambda num, cat: torch.cat([num, cat], dim=-1)),
        ),
        Misconception(
            "summed",
            "You summed the prompts. Here each feature keeps a position of its own: (batch, 1 + "
            "n_cat, d_model).",
            _wrong(join=lambda num, cat: torch.cat([num, cat], dim=1).sum(1, keepdim=True)),
        ),
        Misconception(
            "added",
            "You added the age prompt to the categorical ones. Each feature keeps a position of "
            "its own: (batch, 1 + n_cat, d_model).",
            _wrong(join=lambda num, cat: num + cat),
        ),
    ),
    hints=(
        "__init__ makes the six parameters: nn.Parameter for num_weight, num_bias and cat_bias, "
        "nn.Embedding for table, nn.Linear with bias=False for the two projections.",
        "forward is 12.1 with x_num / AGE_SCALE, 12.2, 12.3 with a look-up in the table and the "
        "bias, 12.2 once more, and 12.4.",
        "Keep the offsets as a buffer, self.register_buffer, so that they move to a GPU with the "
        "module. The result is torch.cat([age, categories], dim=1).",
    ),
    tolerance=FLOAT32,
)

EXERCISES = (NUMERICAL, PROJECT, OFFSETS, COMBINE, PREPEND, FOURIER, CONDITIONAL_PROMPT)
