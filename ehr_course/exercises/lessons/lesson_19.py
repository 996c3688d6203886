"""The exercises of lesson 19: generation and evaluation."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ehr_course.exercises.exercise import Arguments, Exercise
from ehr_course.exercises.model_to_score import Remembering

# 19.1 Top-k and top-p


def _clear_of_a_sum(logits: Tensor, k: int, p: float) -> bool:
    """Whether no sum of the likeliest tokens is nearly p: rounding must not decide."""
    likeliest = logits.sort(-1, descending=True).values[:, : k or None].softmax(-1)
    return bool(((likeliest.cumsum(-1) - p).abs() > 5e-3).all())


def _fresh_logits(rng: random.Random) -> Arguments:
    while True:
        rows, vocab = rng.randint(1, 3), rng.randint(4, 6)
        values = [[tenth / 10 for tenth in rng.sample(range(-25, 26), vocab)] for _ in range(rows)]
        logits = torch.tensor(values)
        if rng.random() < 0.3:
            logits[rng.randrange(rows), rng.randrange(vocab)] = -math.inf
        temperature = rng.choice((0.5, 0.7, 1.0, 1.5, 2.0))
        k = rng.choice((0, *range(1, vocab)))
        p = rng.choice((0.3, 0.5, 0.6, 0.8, 0.9, 0.95))
        if _clear_of_a_sum(logits.double() / temperature, k, p):
            return logits, temperature, k, p


SAMPLING = Exercise(
    id="19.1",
    chosen=(
        (torch.tensor([[0.0, 2.0, 1.0]]), 1.0, 2, 0.95),
        (torch.tensor([[1.0, 3.0, 0.0, 2.0]]), 1.0, 0, 0.7),
        (torch.tensor([[0.0, 4.0, 1.0]]), 1.0, 0, 0.5),
        (torch.tensor([[0.4, 1.0, 0.8, 0.0]]), 2.0, 0, 0.6),
        (torch.tensor([[0.5, 1.5, 1.0, 0.0]]), 0.5, 3, 0.8),
        (torch.tensor([[1.0, 0.8, 0.6, 0.4]]), 1.0, 2, 0.5),
        (torch.tensor([[1.0, 0.8, 0.6, 0.4, 0.2]]), 1.0, 3, 0.6),
        (torch.tensor([[0.0, 1.0, 3.0], [5.0, 4.0, 4.5]]), 1.0, 1, 0.95),
        (torch.tensor([[-1.0, -2.0, -0.5], [0.3, -math.inf, 1.3]]), 1.0, 2, 0.95),
        (torch.tensor([[-1.0, -2.0, -0.5, -1.5]]), 2.0, 0, 0.95),
        (torch.tensor([[-300.0, -302.0, -301.0]]), 1.0, 2, 0.95),
        (torch.tensor([[-300.0, -math.inf, -301.0]]), 1.0, 0, 0.95),
    ),
    fresh=_fresh_logits,
    extreme=(
        (torch.tensor([[torch.finfo(torch.float32).min, -math.inf, -math.inf]]), 1.0, 1, 0.95),
    ),
    tolerance=1e-4,
)


# 19.2 The distance between code distributions


def _counts(rng: random.Random, n: int) -> np.ndarray:
    counts = [rng.choice((0, 0, 1, 2, 3, 5, 8, 13)) for _ in range(n)]
    counts[rng.randrange(n)] += 1
    return np.array(counts)


def _fresh_counts(rng: random.Random) -> Arguments:
    n = rng.randint(3, 6)
    while True:
        real, synthetic = _counts(rng, n), _counts(rng, n)
        if DISTANCE.worked_answer(real, synthetic) > 0.05:
            return real, synthetic


DISTANCE = Exercise(
    id="19.2",
    chosen=(
        (np.array([3, 1]), np.array([1, 3])),
        (np.array([2, 2]), np.array([6, 2])),
        (np.array([1, 0]), np.array([0, 4])),
        (np.array([1, 3, 0]), np.array([2, 6, 0])),
        (np.array([4, 4, 0]), np.array([4, 0, 4])),
        (np.array([6, 3, 0, 1]), np.array([1, 2, 0, 3])),
        (np.array([6, 3, 1, 0, 2]), np.array([30, 9, 0, 4, 7])),
    ),
    fresh=_fresh_counts,
    tolerance=1e-6,
)


# 19.3 Medical validity

Patients = Sequence[tuple[int, str, Sequence[Sequence[str]]]]


_RULED = ("V3001", "7742", "650", "64421", "185", "6000", "2900", "1830")
_FREE = ("4280", "4019", "25000", "486", "5990", "2724")


def _fresh_patients(rng: random.Random) -> Arguments:
    patients = []
    for _ in range(rng.randint(2, 4)):
        visits = []
        for _ in range(rng.randint(1, 3)):
            codes = rng.sample(_FREE, rng.randint(0, 2)) + rng.sample(_RULED, rng.randint(0, 2))
            rng.shuffle(codes)
            visits.append(codes or ["4280"])
        patients.append((rng.choice((0, 8, 30, 64, 85)), rng.choice("FM"), visits))
    return (patients,)


VALIDITY = Exercise(
    id="19.3",
    chosen=(
        ([(64, "M", [["4280", "185"], ["650"]])],),
        ([(64, "F", [["4280", "185"]]), (30, "F", [["650"], ["V3001", "4019", "486"]])],),
        ([(0, "M", [["V3001", "7742"]]), (30, "M", [["V3001", "7742"], ["4280"]])],),
        ([(30, "M", [["650", "V3001"], ["4280", "650"], ["650"]]), (64, "F", [["486"]])],),
        ([(70, "F", [["4280"], ["650", "4280", "4019"]]), (70, "F", [["4280"], ["4019"]])],),
        ([(30, "F", [["650"], ["650"]]), (30, "M", [["486", "4280"], ["486"], ["185"]])],),
        ([(8, "F", [["2900"], ["4280", "2900"]]), (85, "F", [["2900", "185", "650"]])],),
    ),
    fresh=_fresh_patients,
)


# 19.4 Perplexity without a leak


_CODES = ("4280", "4019", "486", "25000", "5990")


def _fresh_histories(rng: random.Random) -> Arguments:
    patients = [
        [rng.sample(_CODES, rng.randint(1, 3)) for _ in range(n)]
        for n in (rng.randint(2, 4), *(rng.randint(1, 3) for _ in range(rng.randint(1, 2))))
    ]
    rng.shuffle(patients)
    return Remembering(), patients


PERPLEXITY = Exercise(
    id="19.4",
    chosen=(
        (Remembering(), [[["4280"], ["4280", "4019"]]]),
        (Remembering(), [[["4280", "4019"], ["4019"], ["486", "4019"]]]),
        (Remembering(), [[["4280"], ["486"], ["4280"]], [["4019", "25000", "486"]]]),
        (Remembering(), [[["4280", "486", "4019"]], [["4019"], ["4019"], ["4019", "4280"]]]),
        (Remembering(), [[["4280"], ["486"], ["4019"], ["4280", "486"]]]),
    ),
    fresh=_fresh_histories,
    tolerance=1e-5,  # a mean in float32 is right too, and exp makes its rounding ten times larger
)


# 19.5 Nearest neighbours and membership


def _patients(rng: random.Random, n: int, n_codes: int) -> np.ndarray:
    """Patients with at least one code each."""
    patients = np.array([[int(rng.random() < 0.5) for _ in range(n_codes)] for _ in range(n)])
    for row in patients:
        row[rng.randrange(n_codes)] = 1
    return patients


def _fresh_cohorts(rng: random.Random) -> Arguments:
    n, n_codes = rng.randint(2, 4), rng.randint(4, 6)
    train, synthetic = _patients(rng, n, n_codes), _patients(rng, n, n_codes)
    if rng.random() < 0.5:
        synthetic[rng.randrange(n)] = train[rng.randrange(n)]
    return train, _patients(rng, rng.randint(2, 4), n_codes), synthetic


def _cohorts(*cohorts: str) -> Arguments:
    """Training, held-out and synthetic patients, each a word of zeros and ones."""
    return tuple(np.array([list(map(int, row)) for row in cohort.split()]) for cohort in cohorts)


PRIVACY = Exercise(
    id="19.5",
    chosen=(
        _cohorts("1100 0011", "1010 0101", "1100 0011"),
        _cohorts("11000 11100", "00011 11111", "00011 00111"),
        _cohorts("1110 0011", "0111 0111", "1111 1110"),
        _cohorts("1110 1100 0011", "1000 0001", "1110 0111 1001"),
        _cohorts("1100 1100 0110", "1111 0001", "1100 0011 1010"),
        _cohorts("100000 111110 111000", "011111 000010", "110000 011111 000011"),
        # 4/7 is nearer than 3/5, and rounding to a tenth hides it
        _cohorts("1111100 1100000", "0011000 1000000", "0011111 0000011"),
    ),
    fresh=_fresh_cohorts,
    tolerance=1e-6,
)


# 19.6 A report on a synthetic cohort


def _nan() -> float:
    """A nan that is an object of its own, so that ``in`` does not find it."""
    return float("nan")


def _fresh_measures(rng: random.Random) -> Arguments:
    names = rng.sample(("codes", "pairs", "visits", "copies", "age", "sex"), rng.randint(2, 4))
    measures = []
    for name in names:
        low, value, high = sorted(rng.sample(range(1, 20), 3))
        floor = rng.choice((low, high, rng.randint(0, 21)))
        numbers = [number / 10 for number in (value, low, high, floor)]
        if rng.random() < 0.2:
            for place in rng.choice(((0,), (1,), (2,), (1, 2), (3,))):
                numbers[place] = _nan()
        measures.append((name, *numbers, rng.choice(("low", "high", "near"))))
    known = (*names, "utility")
    uses = {
        use: rng.sample(known, rng.randint(0, 2))
        for use in ("teaching", "counting", "training", "sharing")
    }
    return measures, uses


REPORT = Exercise(
    id="19.6",
    chosen=(
        ([("codes", 0.2, 0.1, 0.3, 0.2, "low")], {"counting": ["codes"]}),
        ([("codes", 0.2, 0.1, 0.3, 0.05, "low")], {"counting": ["codes"]}),
        ([("codes", 0.2, 0.1, 0.3, 0.1, "low")], {"counting": ["codes"]}),
        ([("hits", 0.7, 0.6, 0.8, 0.6, "high")], {"training": ["hits"]}),
        ([("hits", 0.7, 0.6, 0.8, 0.9, "high")], {"training": ["hits"]}),
        ([("hits", 0.7, 0.6, 0.8, 0.5, "high")], {"training": ["hits"]}),
        ([("members", 0.4, 0.3, 0.45, 0.5, "near")], {"sharing": ["members"]}),
        ([("members", 0.6, 0.55, 0.7, 0.5, "near")], {"sharing": ["members"]}),
        ([("codes", 0.2, _nan(), _nan(), 0.1, "low")], {"counting": ["codes"]}),
        ([("codes", 0.2, 0.1, 0.3, _nan(), "low")], {"counting": ["codes"]}),
        ([("codes", _nan(), 0.1, 0.3, 0.05, "low")], {"counting": ["codes"]}),
        ([("codes", _nan(), 0.1, 0.3, 0.2, "low")], {"counting": ["codes"]}),
        ([("hits", 0.7, 0.6, 0.8, _nan(), "high")], {"training": ["hits"]}),
        ([("hits", 0.7, _nan(), 0.8, 0.7, "high")], {"training": ["hits"]}),
        ([("hits", 0.7, 0.6, _nan(), 0.7, "high")], {"training": ["hits"]}),
        ([("copies", 0.0, 0.0, 0.0, 0.0, "low")], {"sharing": ["copies"]}),
        ([("members", 0.52, 0.51, 0.53, 0.5, "near")], {"sharing": ["members"]}),
        # An interval need not contain its value: a bootstrap moves a divergence upwards.
        ([("codes", 0.25, 0.3, 0.4, 0.28, "low")], {"counting": ["codes"]}),
        (
            [("codes", 0.2, 0.1, 0.3, 0.2, "low"), ("copies", 0.5, 0.4, 0.6, 0.1, "low")],
            {"counting": ["codes"], "sharing": ["codes", "copies"], "treating": []},
        ),
        (
            [("codes", 0.2, 0.1, 0.3, 0.2, "low"), ("pairs", 0.5, 0.4, 0.6, 0.1, "low")],
            {"sharing": ["copies"], "training": ["codes", "hits"], "counting": ["codes"]},
        ),
        (
            [("pairs", 0.5, 0.4, 0.6, 0.1, "low")],
            {"sharing": ["pairs", "copies"]},
        ),
    ),
    fresh=_fresh_measures,
)


# 19.7 What may come next?

_OPEN, _CLOSE, _END = "<v>", "<\\v>", "<EOS>"


def _record(words: str) -> list[str]:
    r"""The tokens of a record: its visits in brackets, the last one perhaps still open."""
    return ["<BOS>", *(_OPEN if w == "[" else _CLOSE if w == "]" else w for w in words.split())]


def _fresh_record(rng: random.Random) -> Arguments:
    codes = rng.sample(_CODES, rng.randint(2, 4))
    needed = rng.sample(codes, rng.choice((0, 0, 1, 1, 2)))
    most = rng.randint(len(needed) + 5, 12)
    written = ["<BOS>"]
    for _ in range(rng.randint(0, most)):
        tokens = sorted(NEXT.worked_answer(written, codes, needed, most) - {_END})
        if not tokens:
            break
        written.append(rng.choice(tokens))
    return written, codes, needed, most


NEXT = Exercise(
    id="19.7",
    chosen=(
        (_record(""), ["4280", "4019"], [], 9),
        (_record("["), ["4280", "4019"], [], 9),
        (_record("[ 4280"), ["4280", "4019"], [], 9),
        (_record("[ 4280 ]"), ["4280", "4019"], [], 12),
        (_record("[ 4280 ] ["), ["4280", "4019"], [], 12),
        (_record("[ 4280 ] [ 4019"), ["4280", "4019", "486"], [], 12),
        (_record("[ 4280 4019 ]"), ["4280", "4019"], [], 12),
        # The limit: what may come leaves room for what has to follow.
        (_record("[ 4280"), ["4280", "4019"], [], 5),
        (_record("[ 4280"), ["4280", "4019"], [], 6),
        (_record("[ 4280 ]"), ["4280", "4019"], [], 5),
        (_record("[ 4280 ]"), ["4280", "4019"], [], 7),
        (_record("[ 4280 ]"), ["4280", "4019"], [], 8),
        (_record("[ 4280 4019"), ["4280", "4019"], [], 8),
        # Codes that have to come.
        (_record("[ 4280 ]"), ["4280", "4019"], ["4019"], 9),
        (_record("[ 4280 ]"), ["4280", "4019"], ["4280"], 9),
        (_record("[ 4280 ] [ 4019"), ["4280", "4019"], ["4280"], 9),
        (_record("[ 4280"), ["4280", "4019", "486"], ["4019"], 6),
        (_record("[ 4280"), ["4280", "4019", "486"], ["4019"], 7),
        (_record("[ 4280"), ["4280", "4019", "486"], ["4019"], 8),
        (_record("[ 4280"), ["4280", "4019", "486"], ["4019"], 9),
        (_record("["), ["4280", "4019", "486"], ["4019", "486"], 6),
        (_record("["), ["4280", "4019", "486"], ["4019", "486"], 7),
        (_record("[ 4019"), ["4280", "4019", "486"], ["4019", "486"], 9),
        (_record("[ 4280 ]"), ["4280", "4019", "486"], ["4019", "486"], 9),
        (_record("[ 4280 ] [ 4019"), ["4280", "4019", "486"], ["4019", "486"], 9),
    ),
    fresh=_fresh_record,
    fresh_inputs=60,
)


# 19.8 Found at few false alarms


def _scores(*groups: str) -> tuple[np.ndarray, ...]:
    """Scores of members and of others, each group a word of digits: "9531" is 0.9 0.5 0.3 0.1."""
    return tuple(np.array([int(digit) / 10 for digit in group]) for group in groups)


def _fresh_scores(rng: random.Random) -> Arguments:
    n, at_most = rng.choice(((4, 0.25), (5, 0.2), (8, 0.25), (10, 0.1), (8, 0.3), (10, 0.25)))
    sizes = rng.randint(3, 9), n
    groups = ([rng.randint(-9, 9) / 10 for _ in range(size)] for size in sizes)
    return *(np.array(group) for group in groups), rng.choice((at_most, at_most, 0.0))


FOUND = Exercise(
    id="19.8",
    chosen=(
        (*_scores("9851", "7532"), 0.25),
        (*_scores("98765", "6431"), 0.25),
        (*_scores("9876543", "8642"), 0.25),
        (*_scores("9988765", "9988654321"), 0.1),
        (*_scores("98877", "87654321"), 0.25),
        (*_scores("9876655", "8765444321"), 0.25),
        (*_scores("98765432", "9753"), 0.0),
        (*_scores("555555", "5432"), 0.25),
        (*_scores("7665544", "77665544"), 0.3),
        (*_scores("123456789", "65432"), 0.2),
        (*_scores("998877665544332211", "998877"), 0.4),
        (*(-scores for scores in _scores("124", "35678999")), 0.25),
        (*_scores("8642", "97531"), 0.3),
        (*_scores("8642", "97531"), 0.25),
    ),
    fresh=_fresh_scores,
)


# 19.9 An attack that compares


def _fresh_attack(rng: random.Random) -> Arguments:
    n_codes = rng.randint(4, 6)
    candidates, released, reference = (
        _patients(rng, rng.randint(2, 4), n_codes) for _ in range(3)
    )
    if rng.random() < 0.5:
        released[rng.randrange(len(released))] = candidates[0]
    return candidates, released, reference


ATTACK = Exercise(
    id="19.9",
    chosen=(
        _cohorts("1100 0011", "1100 0110", "1000 0111"),
        _cohorts("11000 11100 00011", "11100 00111", "01100 10001"),
        _cohorts("1110 0011 1111", "0111 0111", "1010 1001 0110"),
        _cohorts("111110 100000", "111000 000001", "111111 110000 011000"),
        _cohorts("1000 0100", "1000 0001", "1000 0010"),
        _cohorts("1111100 1100000", "0011000 1000000", "0011111 0000011"),
    ),
    fresh=_fresh_attack,
)


EXERCISES = (SAMPLING, DISTANCE, VALIDITY, PERPLEXITY, PRIVACY, REPORT, NEXT, FOUND, ATTACK)
