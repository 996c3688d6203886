r"""Which rows are full records: checked against a small automaton over the tokens."""

import random
import re

import numpy as np
import pytest

from ehr_course.batches.ragged import Ragged
from ehr_course.batches.record_checks import check_records
from ehr_course.errors import InputError

GOOD = [1, 3, 7, 8, 4, 3, 9, 4, 2]


def is_full(row, n_tokens):
    letters = "".join("pBEvwxm"[token] if token < 7 else "c" for token in row)
    return bool(re.fullmatch(r"B(vc+w)+E", letters)) and max(row) < n_tokens


def refused(rows, n_tokens=12):
    try:
        check_records(Ragged.from_lists(rows), n_tokens=n_tokens)
    except InputError:
        return True
    return False


def test_a_record_as_the_tokenizer_encodes_it_passes():
    assert not refused([GOOD, [1, 3, 7, 4, 2], GOOD])


@pytest.mark.parametrize("seed", range(5))
def test_what_is_refused_is_what_a_regular_expression_refuses(seed):
    rng = random.Random(seed)
    seen = {True: 0, False: 0}
    for _ in range(1500):
        rows = []
        for _ in range(rng.randint(1, 3)):
            row = list(GOOD)
            for _ in range(rng.choice([0, 0, 1, 2])):
                place = rng.randrange(len(row))
                edit = rng.choice(["change", "insert", "delete", "swap"])
                if edit == "change":
                    row[place] = rng.randrange(13)
                elif edit == "insert":
                    row.insert(place, rng.randrange(13))
                elif edit == "delete" and len(row) > 1:
                    del row[place]
                else:
                    other = rng.randrange(len(row))
                    row[place], row[other] = row[other], row[place]
            rows.append(row)
        bad = not all(is_full(row, 12) for row in rows)
        seen[bad] += 1
        assert refused(rows) == bad, rows
    assert min(seen.values()) > 200


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ([1, 3, 4, 2], "row 1: visit 1 has no codes"),
        ([1, 3, 8, 4, 3, 4, 2], "row 1: visit 2 has no codes"),
        ([1, 3, 99, 4, 2], "row 1: id 99 is not in a vocabulary of 12 tokens"),
        ([1, 3, 8, 4, 2, 0], "row 1: .* is not a full record"),
        ([1, 2], "row 1: .* is not a full record"),
        ([], "row 1: .* is not a full record"),
        ([1, 3, 8, 6, 4, 2], "row 1: .* is not a full record"),
    ],
)
def test_the_message_names_the_row_and_what_is_wrong_with_it(row, says):
    with pytest.raises(InputError, match=says):
        check_records(Ragged.from_lists([GOOD, row]), n_tokens=12)


@pytest.mark.parametrize(
    "rows",
    [
        [[1, 3, 7, 8, 2], [1, 9, 4, 10, 11, 2]],  # a visit runs from one row into the next
        [[1, 3, 7, 3, 8, 4, 4, 9, 10, 11, 2]],  # a visit begins within another
        [[1, 3, 7, 4, 4, 2], [1, 3, 3, 7, 4, 2]],  # a marker too many here, too few there
    ],
)
def test_errors_do_not_make_up_for_each_other_although_every_count_is_right(rows):
    assert refused(rows)


def test_no_records_are_well_formed():
    check_records(Ragged(np.zeros(0, int), np.zeros(0, int)), n_tokens=12)
