"""Values in a message: short, and of long ones what differs."""

import torch

from ehr_course.exercises.compare import shorten_both


def test_of_a_long_dictionary_only_the_entries_that_differ_are_shown():
    expected = {"ids": torch.arange(200), "mask": torch.ones(3), "labels": torch.zeros(3)}
    got = expected | {"mask": torch.zeros(3), "more": 1}
    wanted, found = shorten_both(expected, got, 1e-6)
    assert wanted == "{'mask': tensor([1., 1., 1.])} and 2 entries that agree"
    assert found == "{'mask': tensor([0., 0., 0.]), 'more': 1} and 2 entries that agree"


def test_a_short_dictionary_is_shown_whole():
    assert shorten_both({"a": 1, "b": 2}, {"a": 1, "b": 3}, 1e-6) == (
        "{'a': 1, 'b': 2}",
        "{'a': 1, 'b': 3}",
    )
