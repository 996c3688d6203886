"""The exercises of lesson 07: tokenization."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence

import torch

from ehr_course.exercises.exercise import Arguments, Exercise, Misconception

Ids = list[int]
CODES = ("4280", "42731", "25000", "4019", "5849", "2724", "0389", "V3001", "E8497", "486")


def _some_codes(rng: random.Random, count: int) -> list[str]:
    return rng.sample(CODES, count)


def _code_ids(codes: Sequence[str]) -> dict[str, int]:
    return {code: 7 + index for index, code in enumerate(codes)}


def _some_ids(rng: random.Random, codes: Sequence[str]) -> dict[str, int]:
    """Ids with gaps and in no order, so that only the dictionary tells them."""
    return dict(zip(codes, rng.sample(range(7, 40), len(codes)), strict=True))


def _numbered_anew(code_ids: Mapping[str, int]) -> dict[str, int]:
    return _code_ids(list(code_ids))


def _numbered_anew_sorted(code_ids: Mapping[str, int]) -> dict[str, int]:
    return _code_ids(sorted(code_ids))


def _fresh_visits(rng: random.Random, codes: Sequence[str]) -> list[list[str]]:
    return [rng.sample(codes, rng.randint(1, 3)) for _ in range(rng.randint(1, 3))]


# 07.1 The token id of a code


def _fresh_code(rng: random.Random) -> Arguments:
    vocabulary = _some_codes(rng, rng.randint(3, 8))
    return rng.choice(vocabulary), vocabulary


TOKEN_ID = Exercise(
    id="07.1",
    title="The token id of a code",
    parameters=("code", "vocabulary"),
    reference=lambda code, vocabulary: _code_ids(vocabulary)[code],
    chosen=(
        ("4280", ["25000", "4280", "0389"]),
        ("25000", ["25000", "4280", "0389"]),
        ("0389", ["4280", "25000", "0389"]),
        ("486", ["486"]),
        ("490", ["E8490", "4281", "4280", "490"]),
        ("E8490", ["490", "E8490", "4281", "4280"]),
        ("4280", ["4281", "4280"]),
    ),
    fresh=_fresh_code,
    misconceptions=(
        Misconception(
            "forgets_offset",
            "You returned the vocabulary index. Ids 0 to 6 already belong to the special tokens, "
            "so your first code would be read as <PAD>.",
            lambda code, vocabulary: vocabulary.index(code),
        ),
        Misconception(
            "counts_six_special_tokens",
            "Your first code has id 6, and so does <mask>. Count the special tokens again: their "
            "ids start at 0.",
            lambda code, vocabulary: vocabulary.index(code) + 6,
        ),
        Misconception(
            "counts_from_one",
            "Your ids start at 8 and leave id 7 unused. Both the special tokens and the "
            "vocabulary are counted from 0.",
            lambda code, vocabulary: vocabulary.index(code) + 8,
        ),
        Misconception(
            "sorts_codes",
            "You sorted the vocabulary first. Its order is what gives each code its id: a model "
            "trained on one order reads other codes under another.",
            lambda code, vocabulary: sorted(vocabulary).index(code) + 7,
        ),
    ),
    hints=(
        "Where does the code stand in the vocabulary? A list has a method for that.",
        "Seven special tokens come before the first code. What is the id of the first code?",
        "The id is the code's index in the list, moved up by the number of special tokens.",
    ),
)


# 07.2 Encode a visit


def _encode_visit(codes: Sequence[str], code_ids: Mapping[str, int]) -> Ids:
    ids = [3]
    for code in codes:
        ids.append(code_ids[code])
    ids.append(4)
    return ids


def _fresh_visit(rng: random.Random) -> Arguments:
    vocabulary = _some_codes(rng, 6)
    return rng.sample(vocabulary, rng.randint(2, 5)), _some_ids(rng, vocabulary)


_SMALL = {"0389": 7, "25000": 8, "4019": 9, "4280": 10}
_WITH_GAPS = {"4280": 10, "0389": 12, "25000": 8}

ENCODE_VISIT = Exercise(
    id="07.2",
    title="Encode a visit",
    parameters=("codes", "code_ids"),
    reference=_encode_visit,
    chosen=(
        (["4280", "25000"], _SMALL),
        (["0389"], _SMALL),
        (["4280", "0389", "4019"], _SMALL),
        (["4280", "25000"], {"25000": 8, "4280": 10}),
        (["25000", "4280"], _WITH_GAPS),
        (["4280", "0389"], _WITH_GAPS),
    ),
    fresh=_fresh_visit,
    misconceptions=(
        Misconception(
            "swapped_markers",
            "Your visit opens with 4 and closes with 3. <v>, which opens, is 3; <\\v>, which "
            "closes, is 4.",
            lambda codes, code_ids: [4, *(code_ids[c] for c in codes), 3],
        ),
        Misconception(
            "adds_bos",
            "You put <BOS> before the visit. <BOS> opens a whole patient, once; a second visit "
            "would then start a second patient in the middle of the first.",
            lambda codes, code_ids: [1, *_encode_visit(codes, code_ids)],
        ),
        Misconception(
            "adds_bos_and_eos",
            "You wrapped the visit in <BOS> and <EOS>. They open and close a whole patient, once; "
            "a reader would stop after the first visit.",
            lambda codes, code_ids: [1, *_encode_visit(codes, code_ids), 2],
        ),
        Misconception(
            "bos_for_markers",
            "You wrapped the codes in <BOS> and <EOS>. A visit has markers of its own, <v> and "
            "<\\v>.",
            lambda codes, code_ids: [1, *(code_ids[c] for c in codes), 2],
        ),
        Misconception(
            "no_markers",
            "You returned the codes' ids alone. Without <v> and <\\v> nobody can tell later where "
            "one visit ends and the next begins.",
            lambda codes, code_ids: [code_ids[c] for c in codes],
        ),
        Misconception(
            "no_closing_marker",
            "Your visit opens but never closes: <\\v> is missing. A model trained on it cannot "
            "learn when a visit is complete.",
            lambda codes, code_ids: [3, *(code_ids[c] for c in codes)],
        ),
        Misconception(
            "no_opening_marker",
            "Your visit closes but never opens: <v> is missing. A reader cannot tell where the "
            "visit begins.",
            lambda codes, code_ids: [*(code_ids[c] for c in codes), 4],
        ),
        Misconception(
            "adds_eos",
            "You put <EOS> after the visit. <EOS> ends a whole patient, once; a reader would stop "
            "after the first visit.",
            lambda codes, code_ids: [*_encode_visit(codes, code_ids), 2],
        ),
        Misconception(
            "markers_around_each_code",
            "You put <v> and <\\v> around each code. They open and close the visit, so each code "
            "now is an admission of its own.",
            lambda codes, code_ids: _joined([[3, code_ids[c], 4] for c in codes]),
        ),
        Misconception(
            "list_in_a_list",
            "You put the ids of the codes into the list as one item, a list of its own. A model "
            "reads one flat row of numbers.",
            lambda codes, code_ids: [3, [code_ids[c] for c in codes], 4],
        ),
        Misconception(
            "numbers_the_codes_anew",
            "You counted the position of each code in code_ids. The dictionary holds the ids "
            "themselves, and they may have gaps.",
            lambda codes, code_ids: _encode_visit(codes, _numbered_anew(code_ids)),
        ),
        Misconception(
            "numbers_the_sorted_codes",
            "You sorted the codes of code_ids and numbered them anew. The dictionary holds the "
            "ids themselves, and they may have gaps.",
            lambda codes, code_ids: _encode_visit(codes, _numbered_anew_sorted(code_ids)),
        ),
        Misconception(
            "adds_the_offset",
            "You added 7 to each id. code_ids holds token ids, in which the seven special tokens "
            "are already counted.",
            lambda codes, code_ids: [3, *(7 + code_ids[c] for c in codes), 4],
        ),
        Misconception(
            "sorts_codes",
            "You sorted the codes. Their order in a visit is their importance: the first is the "
            "main reason for the admission.",
            lambda codes, code_ids: [3, *(code_ids[c] for c in sorted(codes)), 4],
        ),
    ),
    hints=(
        "A visit is its codes between two markers. Which ids do <v> and <\\v> have?",
        "Look each code up with code_ids[code], in the order in which the codes come.",
        "Start a list with the id of <v>, add the ids of the codes, end it with the id of <\\v>.",
    ),
)


# 07.3 Encode a patient


def _encode_patient(visits: Sequence[Sequence[str]], code_ids: Mapping[str, int]) -> Ids:
    ids = [1]
    for visit in visits:
        ids.extend(_encode_visit(visit, code_ids))
    ids.append(2)
    return ids


def _fresh_patient(rng: random.Random) -> Arguments:
    vocabulary = _some_codes(rng, 6)
    return _fresh_visits(rng, vocabulary), _some_ids(rng, vocabulary)


def _joined(parts: Sequence[list]) -> list:
    return list(itertools.chain.from_iterable(parts))


ENCODE_PATIENT = Exercise(
    id="07.3",
    title="Encode a patient",
    parameters=("visits", "code_ids"),
    reference=_encode_patient,
    chosen=(
        ([["4280", "25000"], ["4280"]], _SMALL),
        ([["0389"]], _SMALL),
        ([["4019"], ["4280", "0389"], ["25000", "4019"]], _SMALL),
        ([["4280", "25000"], ["4280"]], {"25000": 8, "4280": 10}),
        ([["25000", "4280"], ["0389", "25000"]], _WITH_GAPS),
    ),
    fresh=_fresh_patient,
    misconceptions=(
        Misconception(
            "one_marker_pair",
            "You put one pair of visit markers around all visits. The model would see a single "
            "long admission; each visit needs its own <v> and <\\v>.",
            lambda visits, code_ids: [
                1,
                3,
                *(code_ids[code] for visit in visits for code in visit),
                4,
                2,
            ],
        ),
        Misconception(
            "no_visit_markers",
            "Your sequence has no visit markers at all, so its visits have run together.",
            lambda visits, code_ids: [
                1,
                *(code_ids[code] for visit in visits for code in visit),
                2,
            ],
        ),
        Misconception(
            "bos_per_visit",
            "You wrote <BOS> before every visit. It opens the patient, once: a second <BOS> says "
            "that another patient begins.",
            lambda visits, code_ids: [
                *_joined([[1, *_encode_visit(visit, code_ids)] for visit in visits]),
                2,
            ],
        ),
        Misconception(
            "eos_per_visit",
            "You wrote <EOS> after every visit. It ends the patient: a reader stops at the first "
            "one and never sees the later visits.",
            lambda visits, code_ids: [
                1,
                *_joined([[*_encode_visit(visit, code_ids), 2] for visit in visits]),
            ],
        ),
        Misconception(
            "bos_and_eos_per_visit",
            "You wrapped every visit in <BOS> and <EOS>. They belong to the patient, once each: "
            "your sequence reads as several patients with one visit each.",
            lambda visits, code_ids: _joined(
                [[1, *_encode_visit(visit, code_ids), 2] for visit in visits]
            ),
        ),
        Misconception(
            "no_eos",
            "Your sequence has no <EOS>. A model trained on it never learns that a record ends, "
            "and goes on adding visits until it runs out of room.",
            lambda visits, code_ids: _encode_patient(visits, code_ids)[:-1],
        ),
        Misconception(
            "no_bos",
            "Your sequence has no <BOS>. A model that generates a patient needs one fixed token "
            "to begin from.",
            lambda visits, code_ids: _encode_patient(visits, code_ids)[1:],
        ),
        Misconception(
            "no_bos_and_no_eos",
            "You wrote the visits alone. Without <BOS> and <EOS> nobody can tell where one "
            "patient ends and the next begins.",
            lambda visits, code_ids: _encode_patient(visits, code_ids)[1:-1],
        ),
        Misconception(
            "lists_in_a_list",
            "You put each visit into the list as one item, a list of its own. A model reads one "
            "flat row of numbers; the markers say where a visit begins and ends.",
            lambda visits, code_ids: [1, *(_encode_visit(v, code_ids) for v in visits), 2],
        ),
        Misconception(
            "list_of_visits",
            "You returned a list of visits, each a list of ids. A model reads one flat row of "
            "numbers, from <BOS> to <EOS>.",
            lambda visits, code_ids: [_encode_visit(visit, code_ids) for visit in visits],
        ),
        Misconception(
            "barts_bos",
            "You opened the patient with 0. That is where the published BART begins; in our "
            "table 0 is <PAD>, and a model ignores it.",
            lambda visits, code_ids: [0, *_encode_patient(visits, code_ids)[1:]],
        ),
        Misconception(
            "first_visit_only",
            "You ended after the first visit. A return inside a loop leaves it in the first "
            "round.",
            lambda visits, code_ids: _encode_patient(visits[:1], code_ids),
        ),
        Misconception(
            "sorts_codes",
            "You sorted the codes of each visit. Their order is their importance: the first is "
            "the main reason for the admission.",
            lambda visits, code_ids: _encode_patient([sorted(v) for v in visits], code_ids),
        ),
        Misconception(
            "numbers_the_codes_anew",
            "You counted the position of each code in code_ids. The dictionary holds the ids "
            "themselves, and they may have gaps.",
            lambda visits, code_ids: _encode_patient(visits, _numbered_anew(code_ids)),
        ),
        Misconception(
            "ends_with_end",
            "You closed the patient with <END> (5). This course keeps <END> and does not use it: "
            "a patient ends in <EOS> (2).",
            lambda visits, code_ids: [*_encode_patient(visits, code_ids)[:-1], 5],
        ),
    ),
    hints=(
        "A patient is <BOS>, then every visit as in 07.2, then <EOS>.",
        "Add all ids of one visit at once with list.extend.",
        "Start with the id of <BOS>. For each visit extend the list by <v>, its codes, <\\v>. "
        "After the loop append the id of <EOS>.",
    ),
)


# 07.4 Decode to a list of visits


def _decode(ids: Sequence[int], vocabulary: Sequence[str]) -> list[list[str]]:
    visits: list[list[str]] = []
    for token in itertools.takewhile(lambda token: token != 2, ids):
        if token == 3:
            visits.append([])
        elif token >= 7:
            visits[-1].append(vocabulary[token - 7])
    return visits


def _fresh_ids(rng: random.Random) -> Arguments:
    vocabulary = _some_codes(rng, 7)
    visits = _fresh_visits(rng, vocabulary)
    if rng.random() < 0.3:
        visits.insert(rng.randint(0, len(visits)), [])
    ids = _encode_patient(visits, _code_ids(vocabulary))
    return ids + [0] * rng.randint(0, 3), vocabulary


def _decode_special_tokens_too(ids: Sequence[int], vocabulary: Sequence[str]) -> list[list[str]]:
    visits: list[list[str]] = []
    for token in ids:
        if token == 3:
            visits.append([])
        elif token != 4 and visits:
            visits[-1].append(vocabulary[token - 7])
    return visits


def _decode_all_as_codes(ids: Sequence[int], vocabulary: Sequence[str]) -> list[list[str]]:
    visits: list[list[str]] = [[]]
    for token in ids:
        if token == 4:
            visits.append([])
        visits[-1].append(vocabulary[token - 7])
    return visits


def _decode_without_offset(ids: Sequence[int], vocabulary: Sequence[str]) -> list[list[str]]:
    visits: list[list[str]] = []
    for token in itertools.takewhile(lambda token: token != 2, ids):
        if token == 3:
            visits.append([])
        elif token >= 7:
            visits[-1].append(vocabulary[token])
    return visits


def _decode_mask_too(ids: Sequence[int], vocabulary: Sequence[str]) -> list[list[str]]:
    visits: list[list[str]] = []
    for token in itertools.takewhile(lambda token: token != 2, ids):
        if token == 3:
            visits.append([])
        elif token not in (0, 1, 4):
            visits[-1].append(vocabulary[token - 7])
    return visits


_TEN = list(CODES)
_SEVEN = ["0389", "25000", "4019", "4280", "42731", "486", "5849"]

DECODE = Exercise(
    id="07.4",
    title="Decode to a list of visits",
    parameters=("ids", "vocabulary"),
    reference=_decode,
    chosen=(
        ([1, 3, 10, 8, 4, 3, 10, 4, 2], _SEVEN),
        ([1, 3, 7, 4, 2], _SEVEN),
        ([1, 3, 9, 4, 3, 4, 3, 13, 4, 2], _SEVEN),
        ([1, 3, 11, 12, 4, 2, 0, 0, 0], _SEVEN),
        ([1, 3, 4, 3, 8, 4, 2, 0], _SEVEN),
        ([1, 3, 8, 6, 4, 2], _SEVEN),
        ([1, 3, 7, 4, 3, 9, 4, 2], _TEN),
        ([1, 3, 16, 14, 4, 2], _TEN),
    ),
    fresh=_fresh_ids,
    misconceptions=(
        Misconception(
            "loses_visit_boundaries",
            "You returned one visit that holds all codes. Each <v> opens a new visit.",
            lambda ids, vocabulary: [
                [code for visit in _decode(ids, vocabulary) for code in visit]
            ],
        ),
        Misconception(
            "flat_list",
            "You returned one flat list of codes. The task asks for a list of visits, each a list "
            "of codes: each <v> opens a new one.",
            lambda ids, vocabulary: _joined(_decode(ids, vocabulary)),
        ),
        Misconception(
            "special_tokens_as_codes",
            "You looked special tokens up in the vocabulary. Their id minus 7 is negative, and "
            "Python then counts from the end of the list: real-looking codes that nobody had.",
            _decode_special_tokens_too,
        ),
        Misconception(
            "every_token_as_code",
            "You looked every token up in the vocabulary, markers too. Their id minus 7 is "
            "negative, and Python then counts from the end of the list: real-looking codes that "
            "nobody had.",
            _decode_all_as_codes,
        ),
        Misconception(
            "every_token_flat",
            "You looked every token up in the vocabulary and kept no visits. A special token's id "
            "minus 7 is negative, and Python then counts from the end of the list.",
            lambda ids, vocabulary: [vocabulary[token - 7] for token in ids],
        ),
        Misconception(
            "forgets_offset",
            "You used the token id as the index. Codes start at id 7, so you read seven places "
            "too far: another code, or past the end of the list.",
            _decode_without_offset,
        ),
        Misconception(
            "mask_as_code",
            "You passed over some special tokens and looked <mask> (6) up as a code. Its id minus "
            "7 is -1, and Python then reads the last code of the vocabulary.",
            _decode_mask_too,
        ),
        Misconception(
            "one_list_for_all_visits",
            "All your visits are one and the same list, so each shows the codes of all. Every "
            "visit needs a list of its own.",
            lambda ids, vocabulary: [
                _joined(_decode(ids, vocabulary)) for _ in _decode(ids, vocabulary)
            ],
        ),
        Misconception(
            "drops_empty_visit",
            "You left out a visit without codes. A model can generate one, and whoever counts "
            "visits must see it: <v> <\\v> is an empty list.",
            lambda ids, vocabulary: [visit for visit in _decode(ids, vocabulary) if visit],
        ),
    ),
    hints=(
        "Walk through the ids once. What should happen at <v>, and what at an id of 7 or more?",
        "At <v>, append a new empty list; at a code, append to the last list; stop at <EOS>.",
        "A code's text is vocabulary[token - 7], and only for tokens of 7 and more.",
    ),
)


# 07.5 Pad a batch and build the attention mask


def _pad(sequences: Sequence[Ids], *, pad_id: int = 0) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(ids) for ids in sequences], batch_first=True, padding_value=pad_id
    )


def _mask(sequences: Sequence[Ids]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(
        [torch.ones(len(ids), dtype=torch.long) for ids in sequences], batch_first=True
    )


def _fresh_batch(rng: random.Random) -> Arguments:
    lengths = [rng.randint(1, 6) for _ in range(rng.randint(2, 4))]
    return ([[rng.randint(3, 12) for _ in range(length)] for length in lengths],)


def _flipped(sequences: Sequence[Ids]) -> list[Ids]:
    return [list(reversed(ids)) for ids in sequences]


PAD_BATCH = Exercise(
    id="07.5",
    title="Pad a batch and build the attention mask",
    parameters=("sequences",),
    reference=lambda sequences: (_pad(sequences), _mask(sequences)),
    chosen=(
        ([[1, 3, 8, 4, 2], [1, 2]],),
        ([[5, 6], [7, 8, 9]],),
        ([[4, 4, 4]],),
        ([[9], [9, 9], [9, 9, 9, 9]],),
        ([[1, 3, 4, 2], [1, 3, 7, 8, 4, 2], [1, 3, 9, 4, 2]],),
    ),
    fresh=_fresh_batch,
    misconceptions=(
        Misconception(
            "pads_left",
            "You padded on the left. BART counts positions from the left, so the same record "
            "would get other positions in every batch.",
            lambda sequences: (
                _pad(_flipped(sequences)).flip(1),
                _mask(sequences).flip(1),
            ),
        ),
        Misconception(
            "inverted_mask",
            "Your mask is 1 on padding and 0 on real tokens. The model would attend to the "
            "padding and ignore the patient.",
            lambda sequences: (_pad(sequences), 1 - _mask(sequences)),
        ),
        Misconception(
            "barts_pad_id",
            "You padded with 1. That is <pad> in the published BART's vocabulary; in ours, 1 is "
            "<BOS> and <PAD> is 0.",
            lambda sequences: (_pad(sequences, pad_id=1), _mask(sequences)),
        ),
        Misconception(
            "barts_mask",
            "Your mask is 0 where the id is 1. That is padding in the published BART's "
            "vocabulary; in ours, 1 is <BOS> and <PAD> is 0.",
            lambda sequences: (_pad(sequences), (_pad(sequences) != 1).long()),
        ),
        Misconception(
            "barts_pad_id_and_mask",
            "You padded with 1, and your mask is 0 where the id is 1. That is <pad> in the "
            "published BART's vocabulary; in ours, 1 is <BOS>, and you hide it.",
            lambda sequences: (
                _pad(sequences, pad_id=1),
                (_pad(sequences, pad_id=1) != 1).long(),
            ),
        ),
        Misconception(
            "hides_special_tokens",
            "Your mask is 0 on special tokens too. <BOS>, <EOS> and the visit markers are real: "
            "only padding is hidden.",
            lambda sequences: (_pad(sequences), (_pad(sequences) >= 7).long()),
        ),
        Misconception(
            "mask_of_ones",
            "Your mask is 1 everywhere, padding included. Then it hides nothing.",
            lambda sequences: (_pad(sequences), torch.ones_like(_pad(sequences))),
        ),
        Misconception(
            "cuts_to_shortest",
            "You cut every sequence to the length of the shortest, and lost codes. Pad the short "
            "ones to the length of the longest instead.",
            lambda sequences: (
                _pad([ids[: min(map(len, sequences))] for ids in sequences]),
                _mask([ids[: min(map(len, sequences))] for ids in sequences]),
            ),
        ),
        Misconception(
            "float_ids",
            "Your input_ids are floats. A model looks up one row of a table for each id, and no "
            "table has a row 8.0. torch.zeros makes floats unless it is told a dtype.",
            lambda sequences: (_pad(sequences).float(), _mask(sequences)),
        ),
        Misconception(
            "batch_last",
            "Your rows are positions and your columns are patients. A row of a batch is one "
            "patient: its shape is (batch, longest).",
            lambda sequences: (_pad(sequences).T, _mask(sequences).T),
        ),
        Misconception(
            "mask_first",
            "You returned the mask first. input_ids comes first, then attention_mask.",
            lambda sequences: (_mask(sequences), _pad(sequences)),
        ),
        Misconception(
            "ids_only",
            "You returned the padded ids alone. Return two tensors: input_ids and attention_mask.",
            _pad,
        ),
        Misconception(
            "lists_for_tensors",
            "The values are right, but they are Python lists. A model takes tensors: "
            "torch.tensor(...) makes one of a list of equally long lists.",
            lambda sequences: (_pad(sequences).tolist(), _mask(sequences).tolist()),
        ),
    ),
    hints=(
        "How long is the longest sequence? Every row becomes that long.",
        "Append zeros to each row. The mask has a 1 for each token that was there before.",
        "For a row of n real tokens and longest length m: ids + [0] * (m - n), and "
        "[1] * n + [0] * (m - n). torch.tensor makes a tensor of the rows.",
    ),
)


# 07.6 The best segmentation under a unigram language model

Scores = Mapping[str, float]


def _segment(text: str, scores: Scores) -> list[str]:
    """The best segmentation by the recursion on prefixes, in log space."""
    best: list[tuple[float, list[str]]] = [(0.0, [])]
    for end in range(1, len(text) + 1):
        candidates = [
            (best[start][0] + scores[text[start:end]], [*best[start][1], text[start:end]])
            for start in range(end)
            if text[start:end] in scores
        ]
        best.append(max(candidates, key=lambda candidate: candidate[0], default=(-math.inf, [])))
    return best[-1][1]


def _greedy(text: str, scores: Scores) -> list[str]:
    pieces, start = [], 0
    while start < len(text):
        end = next(e for e in range(len(text), start, -1) if text[start:e] in scores)
        pieces.append(text[start:end])
        start = end
    return pieces


def _by_products(text: str, scores: Scores, *, keep_first: bool) -> list[str]:
    """Viterbi with probabilities instead of their logarithms: all 0.0 on a long text."""
    best, back = [1.0] + [-1.0] * len(text), [0] * (len(text) + 1)
    for end in range(1, len(text) + 1):
        for start in range(end):
            piece = text[start:end]
            if piece in scores:
                product = best[start] * math.exp(scores[piece])
                if product > best[end] or (product == best[end] and not keep_first):
                    best[end], back[end] = product, start
    pieces, end = [], len(text)
    while end > 0:
        pieces.append(text[back[end] : end])
        end = back[end]
    return pieces[::-1]


def _by_products_from_zero(text: str, scores: Scores) -> list[str]:
    """The same with every probability starting at 0.0: no path is ever found past underflow."""
    best, back = [1.0] + [0.0] * len(text), [0] * (len(text) + 1)
    for end in range(1, len(text) + 1):
        for start in range(end):
            piece = text[start:end]
            if piece in scores and best[start] * math.exp(scores[piece]) > best[end]:
                best[end], back[end] = best[start] * math.exp(scores[piece]), start
    pieces, end = [], len(text)
    while end > 0:
        pieces.append(text[back[end] : end])
        end = back[end]
    return pieces[::-1]


def _one_score_for_all(scores: Scores) -> dict[str, float]:
    return dict.fromkeys(scores, -1.0)


def _dearest(scores: Scores) -> dict[str, float]:
    return {piece: -score for piece, score in scores.items()}


def _best_next_piece(text: str, scores: Scores) -> list[str]:
    pieces, start = [], 0
    while start < len(text):
        ends = [e for e in range(start + 1, len(text) + 1) if text[start:e] in scores]
        end = max(ends, key=lambda e: scores[text[start:e]])
        pieces.append(text[start:end])
        start = end
    return pieces


def _fresh_text(rng: random.Random) -> Arguments:
    """A text whose best segmentation leads by a margin, so that rounding decides nothing.

    A sum depends on the order of its terms: "a" + "aa" and "aa" + "a" can differ in the last bit.
    """
    while True:
        text = "".join(rng.choice("abcd") for _ in range(rng.randint(5, 9)))
        pieces = {text[i : i + n] for n in (2, 3, 4) for i in range(len(text) - n + 1)}
        kept = sorted(pieces)
        rng.shuffle(kept)
        scores = {letter: -rng.uniform(3.0, 6.0) for letter in sorted(set(text))}
        scores |= {piece: -rng.uniform(4.0, 12.0) for piece in kept[: rng.randint(3, 8)]}
        best, *others = sorted(_all_sums(text, scores), reverse=True)
        if not others or best - others[0] > 0.01:
            return text, scores


def _all_sums(text: str, scores: Scores) -> list[float]:
    if not text:
        return [0.0]
    return [
        scores[text[:end]] + rest
        for end in range(1, len(text) + 1)
        if text[:end] in scores
        for rest in _all_sums(text[end:], scores)
    ]


def _word(text: str, pieces: Scores) -> Arguments:
    return text, dict.fromkeys(sorted(set(text)), -6.0) | dict(pieces)


_LETTERS = {"a": -5.0, "b": -5.5, "c": -6.0, "d": -6.5}
_RARE_LETTERS = {letter: 10 * score for letter, score in _LETTERS.items()}

# The product of the probabilities of this text's pieces is 0.0 after half of it. The text is short
# enough to be shown, and for an answer that recurses from letter to letter.
_LONG = "abcd" * 13

SEGMENT = Exercise(
    id="07.6",
    title="The best segmentation by Viterbi",
    parameters=("text", "scores"),
    reference=_segment,
    chosen=(
        ("abcd", _LETTERS | {"abc": -9.0, "ab": -7.0, "cd": -7.5}),
        ("abcd", _LETTERS | {"abc": -4.0, "bcd": -30.0}),
        ("abab", _LETTERS | {"ab": -6.0, "aba": -7.0}),
        ("abcd", _LETTERS | {"abcd": -24.0, "bc": -11.0}),
        ("a", _LETTERS),
        ("abcd", {"a": -2.9, "b": -2.9, "ab": -5.4, "c": -2.4, "d": -2.4, "cd": -4.6}),
        _word("▁heart▁failure", {"▁heart": -9.0, "▁failure": -11.0}),
        _word("▁hypertension", {"▁hyper": -8.0, "▁hypertension": -11.0}),
        (_LONG, _RARE_LETTERS | {"abc": -70.0, "ab": -70.0, "cd": -75.0}),
    ),
    fresh=_fresh_text,
    misconceptions=(
        Misconception(
            "greedy_longest_match",
            "You took the longest piece that fits, again and again. A long first piece can leave "
            "an unlikely rest; the best segmentation has the largest sum over all its pieces.",
            _greedy,
        ),
        Misconception(
            "best_next_piece",
            "You took the most likely next piece, again and again. A likely first piece can leave "
            "an unlikely rest; compare whole segmentations.",
            _best_next_piece,
        ),
        Misconception(
            "multiplies_probabilities",
            "You multiplied probabilities. On a long text the product becomes smaller than the "
            "smallest float, every path is 0.0, and the best one is no longer to be seen.",
            lambda text, scores: _by_products(text, scores, keep_first=True),
        ),
        Misconception(
            "multiplies_probabilities_keeps_last",
            "You multiplied probabilities. On a long text the product becomes smaller than the "
            "smallest float, every path is 0.0, and any of them looks as good as the best.",
            lambda text, scores: _by_products(text, scores, keep_first=False),
        ),
        Misconception(
            "multiplies_probabilities_from_zero",
            "You multiplied probabilities. On a long text the product becomes smaller than the "
            "smallest float: no path is better than the 0.0 you start from, and none is kept.",
            _by_products_from_zero,
        ),
        Misconception(
            "fewest_pieces",
            "You chose the segmentation with the fewest pieces. Two likely pieces can beat one "
            "unlikely piece: it is the scores that are to be added up.",
            lambda text, scores: _segment(text, _one_score_for_all(scores)),
        ),
        Misconception(
            "least_likely",
            "You chose the segmentation with the smallest sum. Scores are log-probabilities: they "
            "are negative, and the one nearest to 0 is the most likely.",
            lambda text, scores: _segment(text, _dearest(scores)),
        ),
        Misconception(
            "reversed_pieces",
            "Your pieces are the right ones in reverse. Following the pointers back from the end "
            "gives the last piece first.",
            lambda text, scores: _segment(text, scores)[::-1],
        ),
        Misconception(
            "returns_score",
            "You returned the score of the best segmentation. The task asks for its pieces, so "
            "remember for each end where its last piece started.",
            lambda text, scores: math.fsum(scores[p] for p in _segment(text, scores)),
        ),
    ),
    hints=(
        "Let best[end] be the largest sum of scores for text[:end]. What is best[0]?",
        "best[end] is the largest best[start] + scores[text[start:end]] over all starts for which "
        "that piece exists. Remember which start it was.",
        "After the loop, walk back: the last piece is text[start:end] with the remembered start; "
        "then end = start, until end is 0. Reverse what you collected.",
    ),
)

EXERCISES = (TOKEN_ID, ENCODE_VISIT, ENCODE_PATIENT, DECODE, PAD_BATCH, SEGMENT)
