"""Wrong answers to lessons 00 to 10, not made from the worked ones, and what they are told."""

from __future__ import annotations

import pytest

from ehr_course.exercises import examine
from ehr_course.exercises.result import Outcome
from ehr_course.exercises.worked_answers import as_function, changed, worked_answer

VITERBI = worked_answer("07.5")
ALWAYS_REMEMBERED = {
    "                start_of[end] = start\n": "            start_of[end] = start\n"
}


def viterbi(change: dict[str, str]) -> str:
    return changed(VITERBI, change)


def starting_at(score: str) -> str:
    return viterbi({"-math.inf": score})


def with_default(score: str) -> str:
    skip = "            if piece not in scores:\n                continue\n"
    return viterbi({skip: "", "scores[piece]": f"scores.get(piece, {score})"})


VISIT = "def f(visit, ids):\n    return [3, *(ids[code] for code in visit), 4]\n\n\n"

# The exercise, a wrong answer to it, and its misconception or words of its message.
HOLES = [
    ("07.1", "token_id = lambda c, v: next(i for i, x in enumerate(v, 7) if x.startswith(c))",
     "looks_for_a_beginning"),
    ("07.1", "token_id = lambda c, v: 7 + [int(x) if x.isdigit() else x for x in v].index("
     "int(c) if c.isdigit() else c)", "drops_leading_zeros"),
    ("07.2", "def encode_patient(visits, ids):\n"
     "    rows = [[3, *{ids[code]: 0 for code in visit}, 4] for visit in visits]\n"
     "    return [1, *sum(rows, []), 2]", "drops_repeated_codes"),
    ("07.2", VISIT + "def encode_patient(visits, ids):\n"
     "    rows = {tuple(visit): f(visit, ids) for visit in visits}\n"
     "    return [1, *sum(rows.values(), []), 2]", "drops_equal_visits"),
    ("07.3", "def decode(ids, codes):\n    visits = []\n    for token in ids[1:-1]:\n"
     "        if token == 3:\n            visits.append([])\n        elif token > 6:\n"
     "            visits[-1].append(codes[token - 7])\n    return visits", "reads_past_eos"),
    ("07.5", starting_at("-100"), "starts_from_minus_100"),
    ("07.5", starting_at("-1000"), "starts_from_minus_999"),
    ("07.5", starting_at("0.0"), "whole_text"),
    ("07.5", with_default("-100"), "starts_from_minus_100"),
    ("07.5", with_default("-999"), "starts_from_minus_999"),
    ("07.5", with_default("-1"), "unknown_pieces_for_nothing"),
    ("07.5", with_default("-20"), "is in your result, and scores does not have it"),
    ("07.5", viterbi(ALWAYS_REMEMBERED), "single_letters"),
    ("07.5", "segment = lambda text, scores: list(text)", "single_letters"),
    ("08.3", "def rows_to_visits(admissions, diagnoses):\n"
     "    time = {h: datetime.strptime(t, '%m/%d/%Y %H:%M') for h, t in admissions}\n"
     "    visits = {}\n    for h, n, code in sorted(diagnoses, key=lambda row: int(row[1])):\n"
     "        visits.setdefault(time[h], []).append(code)\n"
     "    return [visits[t] for t in sorted(visits)]", "one_visit_for_a_time"),
    ("08.4", "def split_patients(rows, n_test, seed):\n    rows = list(dict.fromkeys(rows))\n"
     "    people = sorted({row[0] for row in rows})\n"
     "    test_ids = random.Random(seed).sample(people, n_test)\n"
     "    train = [row for row in rows if row[0] not in test_ids]\n"
     "    test = [row for row in rows if row[0] in test_ids]\n"
     "    return train, test, sorted({row[2] for row in train})", "drops_repeated_rows"),
    ("08.6", "def find_people(rows):\n    owner, people = {}, []\n    for s, *numbers in rows:\n"
     "        kinds = [k for k in enumerate(numbers) if k[1] is not None]\n"
     "        person = next((owner[k] for k in kinds if k in owner), None)\n"
     "        if person is None:\n            person = []\n            people.append(person)\n"
     "        person.append(s)\n        owner |= dict.fromkeys(kinds, person)\n"
     "    return sorted(sorted(person) for person in people)", "joins_only_one"),
    ("08.6", "def find_people(rows):\n    left, people = list(rows), []\n    while left:\n"
     "        person = [left.pop(0)]\n        for row in list(left):\n"
     "            if any(a == b is not None for p in person for a, b in zip(p[1:], row[1:])):\n"
     "                person.append(row)\n                left.remove(row)\n"
     "        people.append(sorted(p[0] for p in person))\n    return sorted(people)",
     "forward_only"),
    ("08.6", "def find_people(rows):\n    return [[n] for n in sorted(row[0] for row in rows)]",
     "nobody_tied"),
    ("08.7", "def carried_over(a, b, m):\n    new = {x for c, v in b\n"
     "           for x in (m.get(c, (c,)) if v == 9 else (c,))}\n"
     "    old = [set(m.get(c, (c,)) if v == 9 else (c,)) for c, v in a]\n"
     "    return sum(not new.isdisjoint(x) for x in old) / len(a)",
     "into ICD-10 and compared there"),
    ("08.7", "def carried_over(a, b, m):\n    def same(c, v, d, w):\n        if v == w:\n"
     "            return c == d\n        return d in m.get(c, ()) or c in m.get(d, ())\n"
     "    old = [(c, 9 if c[0].isdigit() else 10) for c, _ in a]\n"
     "    new = [(c, 9 if c[0].isdigit() else 10) for c, _ in b]\n"
     "    return sum(any(same(*x, *y) for y in new) for x in old) / len(a)", "version_by_letter"),
    ("08.7", "def carried_over(a, b, m):\n    texts = {c for c, _ in b}\n"
     "    return sum(c in texts for c, _ in a) / len(a)", "texts_alone"),
    ("10.1", changed(worked_answer("10.1"), {"return 1": "return int(1", "/ places": "/ places)"}),
     "cuts_to_a_whole_number"),
    ("10.3", changed(worked_answer("10.3"), {"t.dtype != torch.int64 for t in whole": "()"}),
     "Your result lacks 'dtypes'."),
]  # fmt: skip


@pytest.mark.parametrize(("exercise_id", "source", "told"), HOLES)
def test_a_wrong_answer_is_told_what_is_wrong(exercise_id: str, source: str, told: str) -> None:
    for seed in range(3):
        result = examine(exercise_id, as_function(exercise_id, source + "\n"), seed=seed)
        assert result.outcome is Outcome.NOT_YET, str(result)
        assert told == result.misconception or told in result.message, str(result)


@pytest.mark.parametrize("source", [starting_at("-1e4"), with_default("-1e4")])
def test_a_start_that_only_impossible_scores_fall_below_gets_a_remark(source: str) -> None:
    result = examine("07.5", as_function("07.5", source), seed=0)
    assert result.outcome is Outcome.REMARK
    assert "-math.inf is below every sum" in result.message


@pytest.mark.parametrize("source", [starting_at("-1e9"), with_default("-math.inf")])
def test_a_start_below_every_sum_is_solved(source: str) -> None:
    assert examine("07.5", as_function("07.5", source), seed=0).outcome is Outcome.SOLVED
