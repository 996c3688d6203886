"""The exercises of lesson 07: tokenization."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from ehr_course.exercises.exercise import Arguments, Exercise

Ids = list[int]
CODES = ("4280", "42731", "25000", "4019", "5849", "2724", "0389", "V3001", "E8497", "486")


def _some_codes(rng: random.Random, count: int) -> list[str]:
    return rng.sample(CODES, count)


def _code_ids(codes: Sequence[str]) -> dict[str, int]:
    return {code: 7 + index for index, code in enumerate(codes)}


def _some_ids(rng: random.Random, codes: Sequence[str]) -> dict[str, int]:
    """Ids with gaps and in no order, so that only the dictionary tells them."""
    return dict(zip(codes, rng.sample(range(7, 40), len(codes)), strict=True))


def _fresh_visits(rng: random.Random, codes: Sequence[str]) -> list[list[str]]:
    return [rng.sample(codes, rng.randint(1, 3)) for _ in range(rng.randint(1, 3))]


# 07.1 The token id of a code


def _fresh_code(rng: random.Random) -> Arguments:
    vocabulary = _some_codes(rng, rng.randint(3, 8))
    return rng.choice(vocabulary), vocabulary


# What a comparison of beginnings, of numbers or of digits takes for the same.
_ALIKE = ["0389", "389", "4280", "428", "401", "4019", "42731", "42732", "V3001", "3001"]

TOKEN_ID = Exercise(
    id="07.1",
    chosen=(
        ("4280", ["25000", "4280", "0389"]),
        ("0389", ["4280", "25000", "0389"]),
        ("486", ["486"]),
        ("490", ["E8490", "4281", "4280", "490"]),
        ("4280", ["4281", "4280"]),
        *((code, _ALIKE) for code in _ALIKE),
    ),
    fresh=_fresh_code,
)


# 07.2 Encode a patient

_SMALL = {"0389": 7, "25000": 8, "4019": 9, "4280": 10}
_WITH_GAPS = {"4280": 10, "0389": 12, "25000": 8}


def _fresh_patient(rng: random.Random) -> Arguments:
    vocabulary = _some_codes(rng, 6)
    return _fresh_visits(rng, vocabulary), _some_ids(rng, vocabulary)


ENCODE_PATIENT = Exercise(
    id="07.2",
    chosen=(
        ([["4280", "25000"], ["4280"]], _SMALL),
        ([["0389"]], _SMALL),
        ([["4019"], ["4280", "0389"], ["25000", "4019"]], _SMALL),
        ([["25000", "4280"], ["0389", "25000"]], _WITH_GAPS),
        ([["4280"], ["4280"], ["0389"], ["4280"]], _SMALL),
        ([["4280", "0389", "4280"], ["0389"]], _SMALL),
    ),
    fresh=_fresh_patient,
)


# 07.3 Decode to a list of visits


def _fresh_ids(rng: random.Random) -> Arguments:
    vocabulary = _some_codes(rng, 7)
    visits = _fresh_visits(rng, vocabulary)
    if rng.random() < 0.3:
        visits.insert(rng.randint(0, len(visits)), [])
    ids = ENCODE_PATIENT.worked_answer(visits, _code_ids(vocabulary))
    return ids + [0] * rng.randint(0, 3), vocabulary


_TEN = list(CODES)
_SEVEN = ["0389", "25000", "4019", "4280", "42731", "486", "5849"]

DECODE = Exercise(
    id="07.3",
    chosen=(
        ([1, 3, 10, 8, 4, 3, 10, 4, 2], _SEVEN),
        ([1, 3, 7, 4, 2], _SEVEN),
        ([1, 3, 9, 4, 3, 4, 3, 13, 4, 2], _SEVEN),
        ([1, 3, 11, 12, 4, 2, 0, 0, 0], _SEVEN),
        ([1, 3, 4, 3, 8, 4, 2, 0], _SEVEN),
        ([1, 3, 8, 6, 4, 2], _SEVEN),
        ([1, 3, 7, 4, 3, 9, 4, 2], _TEN),
        ([1, 3, 16, 14, 4, 2], _TEN),
        ([1, 3, 8, 9, 8, 4, 2], _SEVEN),
        ([1, 3, 8, 5, 9, 0, 8, 4, 2], _SEVEN),
        ([1, 3, 8, 4, 2, 3, 9, 4], _SEVEN),
        ([1, 3, 8, 4, 2, 3, 9, 4, 2, 7, 0], _SEVEN),
    ),
    fresh=_fresh_ids,
)


# 07.4 Pad a batch and build the attention mask


def _fresh_batch(rng: random.Random) -> Arguments:
    lengths = [rng.randint(1, 6) for _ in range(rng.randint(2, 4))]
    return ([[rng.randint(3, 12) for _ in range(length)] for length in lengths],)


PAD_BATCH = Exercise(
    id="07.4",
    chosen=(
        ([[1, 3, 8, 4, 2], [1, 2]],),
        ([[5, 6], [7, 8, 9]],),
        ([[4, 4, 4]],),
        ([[9], [9, 9], [9, 9, 9, 9]],),
        ([[1, 3, 4, 2], [1, 3, 7, 8, 4, 2], [1, 3, 9, 4, 2]],),
    ),
    fresh=_fresh_batch,
)


# 07.5 The best segmentation under a unigram language model

Scores = Mapping[str, float]


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
# enough to be shown, and for an answer that recurses from letter to letter. The best sums of its
# first 20, 24 and 31 letters are -675, -810 and -1015. So a start of -100, one of -999, and a
# product of probabilities, which is 0.0 below -745, are wrong on different ones.
_LONG = "abcd" * 13
_LONG_SCORES = _RARE_LETTERS | {"abc": -70.0, "ab": -70.0, "cd": -75.0}

SEGMENT = Exercise(
    id="07.5",
    chosen=(
        ("abcd", _LETTERS | {"abc": -9.0, "ab": -7.0, "cd": -7.5}),
        ("abcd", _LETTERS | {"abc": -4.0, "bcd": -30.0}),
        ("abab", _LETTERS | {"ab": -6.0, "aba": -7.0}),
        ("abcd", _LETTERS | {"abcd": -24.0, "bc": -11.0}),
        ("a", _LETTERS),
        ("abcd", {"a": -2.9, "b": -2.9, "ab": -5.4, "c": -2.4, "d": -2.4, "cd": -4.6}),
        _word("▁heart▁failure", {"▁heart": -9.0, "▁failure": -11.0}),
        _word("▁hypertension", {"▁hyper": -8.0, "▁hypertension": -11.0}),
        *((_LONG[:length], _LONG_SCORES) for length in (20, 24, 31, 52)),
    ),
    extreme=(("ab", {"a": -30_000.0, "b": -30_000.0}),),
    fresh=_fresh_text,
)


# 07.6 Pieces that can still become a code


def _fresh_pieces(rng: random.Random) -> Arguments:
    """Codes of few digits and pieces cut from them, so that some beginnings are dead ends."""
    few = rng.random() < 0.2  # inputs where nothing or one thing is allowed
    while True:
        codes = set()
        for _ in range(rng.randint(3, 6)):
            category = "".join(rng.choice("24") for _ in range(3))
            detail = "".join(rng.choice("24") for _ in range(rng.randint(0, 2)))
            codes.add(f"{category}.{detail}" if detail else category)
        listed = sorted(codes)
        rng.shuffle(listed)
        parts = {
            code[start : start + size]
            for code in listed
            for size in (1, 2, 3)
            for start in range(len(code) - size + 1)
        }
        pieces = rng.sample(sorted(parts), min(len(parts), rng.randint(6, 10)))
        written = rng.choice(_written_on_the_way(listed, pieces)[:6])
        if few or len(NEXT_PIECES.worked_answer(written, listed, pieces)) > 1:
            return written, listed, pieces


def _written_on_the_way(codes: Sequence[str], pieces: Sequence[str]) -> list[str]:
    """Every text that pieces make up and a code begins with; the empty one too."""
    found = [""]
    for text in found:  # grows while it is read
        for piece in pieces:
            longer = text + piece
            if longer not in found and any(code.startswith(longer) for code in codes):
                found.append(longer)
    return found


_HEART = ["428.0", "428.1", "427.31", "427.5", "493", "493.2", "493.20"]
_DIGITS = [*"0123456789."]

NEXT_PIECES = Exercise(
    id="07.6",
    chosen=(
        ("493", ["493", "493.2", "428.0"], ["4", "93", "28", ".2", ".0"]),
        ("", _HEART, [*_DIGITS, "42", "8.", "7.3"]),
        # After 7.3 comes a 1, which no piece is; after 7. too, but for 5.
        ("42", ["428.0", "427.31"], ["42", "8.", "7.3", "0"]),
        ("42", ["428.0", "427.31", "427.5"], ["42", "8.", "7.3", "7.", "0", "5"]),
        # Nothing leads to the end, whatever comes next.
        ("42", ["427.31"], ["42", "7.", "3"]),
        # A code, and the beginning of another.
        ("493", _HEART, ["493", ".2", "0"]),
        ("493.2", _HEART, ["493", ".2", "0"]),
        ("493.20", _HEART, ["493", ".2", "0"]),
        # Not a code yet: 493 cannot end.
        ("49", _HEART, ["49", "3", "3.2", "3.20"]),
        # The rest needs many pieces, and no letters do.
        ("", ["V30.01"], ["V", "V3", "30", "0.", ".0", "01", "1"]),
        ("", ["E885.9"], ["E8", "E88", "85", ".9", "5.9"]),
        # Behind 4 comes 2 and then 8.0: the longest piece, 28, leaves .0, which no piece begins.
        ("", ["428.0"], ["4", "28", "2", "8.0"]),
        ("4", ["427.31"], ["4", "2", "7", "7.", "31", ".31", "3"]),
        ("", ["E885.9"], ["E", "88", "8", "85.9"]),
        ("4", ["414.01"], ["4", "1", "14", "4.0", "4.01", "1.01"]),
        ("", ["250.00"], ["2", "25", "50.", "0", "50.0", "0.0", "0."]),
        ("", ["001.0", "001.1"], ["00", "001", "1.", ".0", "1.1"]),
        # A piece that goes on past the end of every code, and one that stands in the middle.
        ("42", ["428", "427"], ["42", "8", "8.0", "7", "28"]),
        ("4", ["414.01"], ["4", "14", "14.", "01", ".01", "4.01"]),
        # The same piece again and again.
        ("", ["111.11"], ["1", ".", "11."]),
        ("", ["244.24"], ["2", "24", "4", "4."]),
        # Behind 2 another piece fits each time, and after it none.
        ("2", ["244.2", "242.4"], ["2", "4", "4.", "42.", "4.2", "24"]),
        # No code of the list begins with what has been written.
        ("44", ["428.0", "427.31"], ["4", "28.0", "28", ".0"]),
        ("4", ["428.0", "V28.0"], ["4", "V", "28.", "0", "28.0"]),
        ("V", ["428.0", "V27.0"], ["4", "V", "28.", "27.", "0", "28.0"]),
    ),
    fresh=_fresh_pieces,
)

EXERCISES = (TOKEN_ID, ENCODE_PATIENT, DECODE, PAD_BATCH, SEGMENT, NEXT_PIECES)
