"""What a summary is worth: ROUGE against slow counts, repetition and names."""

import math
import random
import subprocess
import sys
from functools import cache

import pytest

from ehr_course.errors import InputError
from ehr_course.evaluation.summaries import (
    names_in,
    names_recovered,
    repetition,
    rouge,
    rouge_each,
)

NAMES = ["quinapril", "digoxin", "insulin", "insulin glargine"]


# ---------------------------------------------------------------------- ROUGE


def longest_common(one, other):
    """The length of the longest common subsequence, straight from its definition."""

    @cache
    def length(i, j):
        if i == len(one) or j == len(other):
            return 0
        if one[i] == other[j]:
            return 1 + length(i + 1, j + 1)
        return max(length(i + 1, j), length(i, j + 1))

    return length(0, 0)


def common_ngrams(one, other, n):
    """How many n-grams can be crossed out in both, one for one."""
    left = [one[i : i + n] for i in range(len(one) - n + 1)]
    right = [other[i : i + n] for i in range(len(other) - n + 1)]
    both = 0
    for gram in left:
        if gram in right:
            right.remove(gram)
            both += 1
    return both


def f1(both, in_summary, in_reference):
    return 2 * both / (in_summary + in_reference) if both else 0.0


def test_rouge_worked_by_hand():
    scores = rouge(["a b c a"], ["a c b a d"])
    # In both of 4 and 5 words: a, a, b, c. No pair is in both. A longest subsequence is a b a.
    assert scores["rouge1"] == pytest.approx(2 * 4 / 9)
    assert scores["rouge2"] == 0
    assert scores["rougeL"] == pytest.approx(2 * 3 / 9)


def test_rouge_is_that_of_a_slow_count():
    rng = random.Random(0)
    for _ in range(100):
        one, other = (rng.choices("abcde", k=rng.randint(1, 9)) for _ in range(2))
        scores = rouge([" ".join(one)], [" ".join(other)])
        sizes = len(one), len(other)
        assert scores["rouge1"] == pytest.approx(f1(common_ngrams(one, other, 1), *sizes))
        pairs = (sizes[0] - 1, sizes[1] - 1)
        assert scores["rouge2"] == pytest.approx(f1(common_ngrams(one, other, 2), *pairs))
        assert scores["rougeL"] == pytest.approx(f1(longest_common(one, other), *sizes))


def test_case_and_punctuation_do_not_count_and_no_word_is_stemmed():
    assert rouge(["Fever, gone."], ["fever gone"])["rouge2"] == 1
    assert rouge(["fevers"], ["fever"])["rouge1"] == 0


@pytest.mark.parametrize(("summary", "reference"), [("", "a"), ("a", ""), ("", ""), ("发热",) * 2])
def test_a_text_without_a_word_scores_0(summary, reference):
    assert set(rouge([summary], [reference]).values()) == {0.0}


def test_rouge_says_nothing_and_downloads_nothing():
    code = (
        "import socket\n"
        "socket.socket.connect = None\n"
        "from ehr_course.evaluation.summaries import rouge\n"
        "import sys; assert 'nltk' not in sys.modules\n"
        "assert rouge(['a'], ['a'])['rougeL'] == 1\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


# ---------------------------------------------------------------------- repetition


@pytest.mark.parametrize(
    ("summaries", "n", "share"),
    [
        (["no fever no fever no fever"], 2, 3 / 5),
        (["no fever no fever no fever"], 3, 2 / 4),
        (["a b a b", "a b"], 2, 1 / 4),  # another summary may say the same
        (["a a", "b c d"], 1, 1 / 5),  # of all words, not a mean of shares
        (["Fever. fever."], 1, 2 / 4),
        (["<unk> a <unk> <unk>"], 1, 2 / 4),
        (["<unk><unk>"], 2, 0),
    ],
)
def test_repetition(summaries, n, share):
    assert repetition(summaries, n=n) == pytest.approx(share)


def test_repetition_is_that_of_a_slow_count():
    rng = random.Random(0)
    for n in (1, 2, 3):
        texts = [rng.choices("ab", k=rng.randint(0, 12)) for _ in range(20)]
        before = [
            any(words[j : j + n] == words[i : i + n] for j in range(i))
            for words in texts
            for i in range(len(words) - n + 1)
        ]
        assert repetition([" ".join(words) for words in texts], n=n) == sum(before) / len(before)


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Digoxin, quinapril; DIGOXIN.", ["digoxin", "quinapril", "digoxin"]),
        ("insulin glargine insulin", ["insulin glargine", "insulin"]),
        ("glargine insulin", ["insulin"]),
        ("quinaprilat and insulin-like", []),
        ("", []),
    ],
)
def test_names_in_a_text(text, found):
    assert names_in(text, NAMES) == found


def test_a_longer_name_is_one_name_whatever_the_order_of_names():
    assert names_in("a b c b c", ["b c", "a", "a b c"]) == ["a b c", "b c"]


def test_names_recovered_are_those_of_the_own_reference():
    summaries = ["digoxin and insulin", "digoxin", "nothing"]
    references = ["quinapril and digoxin", "insulin", "no drug"]
    assert names_recovered(summaries, references, NAMES) == pytest.approx(1 / 3)


def test_a_name_counts_once_for_a_reference():
    references = ["digoxin digoxin digoxin quinapril"]
    assert names_recovered(["digoxin"], references, NAMES) == 1 / 2
    assert names_recovered(["digoxin digoxin"], references, NAMES) == 1 / 2


def test_texts_without_names_have_no_share():
    assert math.isnan(names_recovered(["digoxin"], ["no drug"], NAMES))


@pytest.mark.parametrize("names", [[], "digoxin", ["digoxin", " "]], ids=str)
def test_names_that_are_none_are_refused(names):
    with pytest.raises(InputError, match="names: "):
        names_recovered(["digoxin"], ["digoxin"], names)


# ---------------------------------------------------------------------- bad input

PAIRED = [
    rouge,
    rouge_each,
    lambda one, other: names_recovered(one, other, NAMES),
]


@pytest.mark.parametrize("measure", PAIRED)
@pytest.mark.parametrize(
    ("summaries", "others", "message"),
    [
        ([], [], "there are 0 summaries and 0"),
        (["a"], ["a", "b"], "there are 1 summaries and 2"),
        ("a", ["a"], "summaries: it is not a list of texts"),
        (["a"], "a", "it is not a list of texts"),
        (["a", None], ["a", "b"], "summaries: it is not a list of texts"),
        (["a"], [3], "it is not a list of texts"),
    ],
)
def test_lists_that_are_no_pairs_are_refused(measure, summaries, others, message):
    with pytest.raises(InputError, match=message):
        measure(summaries, others)


@pytest.mark.parametrize("n", [0, -1, 1.5])
def test_a_number_of_words_that_is_none_is_refused(n):
    with pytest.raises(InputError, match="is not a number of words"):
        repetition(["a"], n=n)
