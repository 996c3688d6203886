"""The loss that exercise 14.6 asks about counts its calls, and is what it says."""

import copy

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from ehr_course.errors import InputError
from ehr_course.exercises import examine
from ehr_course.exercises.loss_to_probe import MOST_CALLS, WAYS, HiddenLoss
from ehr_course.exercises.sealed import TooManyCalls

LOGITS = torch.tensor([[[2.0, 0.0, 1.0], [0.0, 0.5, -1.0]], [[1.0, 3.0, 0.0], [0.0, 0.0, 9.0]]])
LABELS = torch.tensor([[0, 1], [2, -100]])
ONE = torch.tensor([[[20.0, 0.0]]]), torch.tensor([[0]])


@pytest.mark.parametrize("smoothing", [0.0, 0.3, 1.0])
def test_the_four_ways(smoothing):
    each = cross_entropy(
        LOGITS[LABELS != -100].double(), LABELS[LABELS != -100],
        reduction="none", label_smoothing=smoothing,
    ).numpy()  # fmt: skip
    right = {
        "sum": each.sum(),
        "places": each.sum() / 4,
        "scored": each.mean(),
        "rows": (each[:2].mean() + each[2]) / 2,
    }
    for way in WAYS:
        found = HiddenLoss(way, smoothing)(LOGITS, LABELS)
        assert isinstance(found, float)
        assert found == pytest.approx(right[way])


def test_arrays_and_lists_will_do():
    found = HiddenLoss("sum", 0.1)(LOGITS.numpy(), LABELS.tolist())
    assert found == pytest.approx(HiddenLoss("sum", 0.1)(LOGITS, LABELS))


def test_the_calls_end_and_a_copy_has_them_again():
    loss = HiddenLoss("sum", 0.1)
    for _ in range(MOST_CALLS):
        loss(*ONE)
    for _ in range(2):
        with pytest.raises(TooManyCalls):
            loss(*ONE)
    assert "ended" in repr(loss)
    copy.deepcopy(loss)(*ONE)


@pytest.mark.parametrize(
    ("logits", "labels", "said"),
    [
        (torch.zeros(2, 3), [[0, 0]], "batch, length, vocab"),
        (torch.zeros(1, 2, 1), [[0, 0]], "two tokens or more"),
        (torch.zeros(1, 2, 3), [[0]], r"\(1, 2\)"),
        (torch.zeros(1, 2, 3), [[0, 3]], "not a token"),
        (torch.full((1, 1, 2), torch.inf), [[0]], "not all are finite"),
        (torch.zeros(2, 1, 2), [[0], [-100]], "no scored place"),
    ],
)
def test_what_is_no_batch_is_refused_and_costs_no_call(logits, labels, said):
    loss = HiddenLoss("sum", 0.1)
    for _ in range(3):
        with pytest.raises(InputError, match=said):
            loss(logits, labels)
    loss(*ONE)


def test_a_third_call_is_told_what_two_can_do():
    def asks_three_times(loss):
        for _ in range(MOST_CALLS):
            loss(*ONE)
        return "sum", loss(*ONE)

    message = examine("14.6", asks_three_times).message
    assert message.startswith(f"You called the loss more than {MOST_CALLS} times.")


def smoothing_of(loss):
    return loss(*ONE) / 10


def nearest(expected, found):
    return min(expected, key=lambda way: abs(expected[way] - found))


def by_even_places(loss):
    found = loss(torch.zeros(2, 3, 2), [[0, -100, -100], [0, 0, 0]]) / np.log(2)
    expected = {"sum": 4, "places": 4 / 6, "scored": 1}
    return nearest(expected, found), smoothing_of(loss)


def by_one_row(loss):
    found = loss(torch.zeros(1, 3, 2), [[0, 0, -100]]) / np.log(2)
    return nearest({"sum": 2, "places": 2 / 3, "rows": 1}, found), smoothing_of(loss)


def by_dear_and_cheap(loss):  # right
    dear, even = np.log(1 + np.exp(4) + np.exp(-4)), np.log(3)
    logits = np.zeros((2, 3, 3))
    logits[0, 0] = [0, 4, -4]
    found = loss(logits, [[0, -100, -100], [0, 0, -100]])
    total = dear + 2 * even
    expected = {
        "sum": total, "places": total / 6, "scored": total / 3, "rows": (dear + even) / 2,
    }  # fmt: skip
    return nearest(expected, found), smoothing_of(loss)


WRONG = {
    "places that cost the same": (by_even_places, "rows_like_scored"),
    "a single row": (by_one_row, "rows_like_scored"),
    "spread over the wrong tokens alone": (
        lambda loss: (by_dear_and_cheap(loss)[0], smoothing_of(copy.deepcopy(loss)) / 2),
        "what_the_wrong_token_gets",
    ),
    "at most a half": (
        lambda loss: (lambda way, share: (way, min(share, 0.5)))(*by_dear_and_cheap(loss)),
        None,
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_probe_that_cannot_tell_is_refused(name):
    answer, diagnosis = WRONG[name]
    result = examine("14.6", answer, seed=1)
    assert not result.outcome.is_solved
    assert result.misconception == diagnosis


@pytest.mark.parametrize("kind", [tuple, list, lambda pair: (pair[0], torch.tensor(pair[1]))])
def test_any_two_calls_that_tell_all_apart_are_right(kind):
    result = examine("14.6", lambda loss: kind(by_dear_and_cheap(loss)), seed=1)
    assert result.outcome.is_solved, str(result)


def test_a_third_call_is_too_many():
    def what_it_computes(loss):
        return by_dear_and_cheap(loss)[0], smoothing_of(loss)

    result = examine("14.6", what_it_computes, seed=1)
    assert not result.outcome.is_solved
    assert f"{MOST_CALLS} are allowed" in str(result)
