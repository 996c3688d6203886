"""The exercises of lesson 09: corruption."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from transformers.models.bart.modeling_bart import shift_tokens_right

from ehr_course.exercises.exercise import Arguments, Exercise, Misconception

Ids = list[int]

PAD, BOS, EOS, VISIT, VISIT_END, END, MASK = range(7)
FIRST_CODE = 7


def _visit(codes: Sequence[int]) -> Ids:
    return [VISIT, *codes, VISIT_END]


def _some_visit(rng: random.Random, most: int) -> Ids:
    return _visit(rng.sample(range(FIRST_CODE, 40), rng.randint(1, most)))


# 09.1 Span lengths

_MORE_THAN_ANYONE_DRAWS = 80


def _clamped(mean: float, longest: int) -> list[float]:
    """Clamp every length that can be drawn, and add up where each one lands."""
    drawn = torch.arange(_MORE_THAN_ANYONE_DRAWS, dtype=torch.float64)
    shares = torch.distributions.Poisson(torch.tensor(mean, dtype=torch.float64)).log_prob(drawn)
    landed = drawn.long().clamp(1, longest)
    probabilities = torch.bincount(landed, shares.exp(), minlength=longest + 1)[1:].tolist()
    return [round(probability, 9) for probability in probabilities]  # 1.0, not 0.99...9


def _poisson(k: int, mean: float) -> float:
    return mean**k * math.exp(-mean) / math.factorial(k)


def _at_least(k: int, mean: float) -> float:
    return 1.0 - sum(_poisson(i, mean) for i in range(k))


def _zero_lost(mean: float, longest: int) -> list[float]:
    return [*(_poisson(k, mean) for k in range(1, longest)), _at_least(longest, mean)]


def _zero_drawn_again(mean: float, longest: int) -> list[float]:
    return [share / _at_least(1, mean) for share in _zero_lost(mean, longest)]


def _tail_lost(mean: float, longest: int) -> list[float]:
    return [
        _poisson(0, mean) + _poisson(1, mean),
        *(_poisson(k, mean) for k in range(2, longest + 1)),
    ]


def _neither_clamped(mean: float, longest: int) -> list[float]:
    return [_poisson(k, mean) for k in range(1, longest + 1)]


def _both_drawn_again(mean: float, longest: int) -> list[float]:
    shares = _neither_clamped(mean, longest)
    return [share / sum(shares) for share in shares]


def _zero_kept(mean: float, longest: int) -> list[float]:
    return [_poisson(0, mean), *_zero_lost(mean, longest)]


def _lengths_from_zero(mean: float, longest: int) -> list[float]:
    return [_poisson(k, mean) for k in range(longest)]


def _tail_without_longest(mean: float, longest: int) -> list[float]:
    shares = _clamped(mean, longest)
    shares[-1] = _at_least(longest + 1, mean)
    return shares


def _one_added(mean: float, longest: int) -> list[float]:
    return [*(_poisson(k, mean) for k in range(longest - 1)), _at_least(longest - 1, mean)]


def _so_far(mean: float, longest: int) -> list[float]:
    shares = _clamped(mean, longest)
    return [sum(shares[: k + 1]) for k in range(longest)]


SPAN_LENGTHS = Exercise(
    id="09.1",
    title="Span lengths",
    parameters=("mean", "longest"),
    reference=_clamped,
    chosen=(
        (3.0, 5),
        (3.0, 3),
        (1.5, 2),
        (0.5, 4),
        (6.0, 4),
        (2.0, 1),
        (1.0, 6),
    ),
    fresh=lambda rng: (round(rng.uniform(0.4, 6.0), 1), rng.randint(1, 8)),
    misconceptions=(
        Misconception(
            "forgets_the_clamp",
            "The draws of 0 are lost: your probabilities add up to less than 1. A 0 becomes a "
            "span of 1, so the first entry gets its share too.",
            _zero_lost,
        ),
        Misconception(
            "zero_is_a_length",
            "Your list begins with the length 0. There is no such span: a draw of 0 becomes 1, "
            "and the list begins there.",
            _zero_kept,
        ),
        Misconception(
            "lengths_from_zero",
            "Your list holds the Poisson probabilities of 0, 1, 2 and so on. Its first entry "
            "must be the length 1, which the draws of 0 come to as well.",
            _lengths_from_zero,
        ),
        Misconception(
            "draws_again",
            "You threw the draws of 0 away and shared what is left among all lengths. That is "
            "drawing again. Clamping moves every 0 to 1 and leaves the other lengths alone.",
            _zero_drawn_again,
        ),
        Misconception(
            "draws_again_at_both_ends",
            "You kept the draws from 1 to the longest and divided by their sum: that is drawing "
            "again. Clamping moves what is too short to 1, and what is too long to the longest.",
            _both_drawn_again,
        ),
        Misconception(
            "loses_the_long_ones",
            "The draws above the longest length are lost: your probabilities add up to less than "
            "1. They become the longest length, so the last entry gets their share.",
            _tail_lost,
        ),
        Misconception(
            "no_clamp_at_all",
            "You returned the Poisson probabilities as they are. The draws of 0 and those above "
            "the longest length are missing, and the sum is less than 1.",
            _neither_clamped,
        ),
        Misconception(
            "last_one_too_late",
            "Your last entry counts the draws above the longest length, and leaves out those "
            "that are exactly that long.",
            _tail_without_longest,
        ),
        Misconception(
            "adds_one",
            "You made every length one longer, the draws of 0 and all others: that moves the mean "
            "up by 1. Only a 0 becomes 1.",
            _one_added,
        ),
        Misconception(
            "always_three",
            "You used the mean 3 whatever the argument says.",
            lambda mean, longest: _clamped(3.0, longest),
        ),
        Misconception(
            "mean_upside_down",
            "You used 1 / mean as the mean. The parameter of a Poisson distribution is its mean "
            "itself, unlike the rate of an exponential one.",
            lambda mean, longest: _clamped(1 / mean, longest),
        ),
        Misconception(
            "adds_up_as_it_goes",
            "Each of your entries contains those before it. Entry k is how often a span has "
            "exactly that length.",
            _so_far,
        ),
        Misconception(
            "rounds",
            "You rounded to four decimals. Only the example is printed that way; rounded numbers "
            "need not add up to 1. Return them as they are computed.",
            lambda mean, longest: [round(share, 4) for share in _clamped(mean, longest)],
        ),
    ),
    hints=(
        "Go through the draws 0, 1, 2, ... and ask for each one which length it becomes.",
        "math.exp(-mean) * mean**k / math.factorial(k) is the probability of drawing k. Two draws "
        "become the length 1, and infinitely many become the longest one.",
        "You need no infinite sum: all probabilities together are 1. The last entry gets what is "
        "left when the draws below the longest length have been shared out.",
    ),
)


# 09.2 Mask infilling


def _infill(visit: Ids, start: int, length: int) -> Ids:
    """Walk through the codes; say <mask> where the span begins, and nothing further on in it."""
    out = []
    for place, token in enumerate(visit[1:-1]):
        if place == start:
            out.append(MASK)
        if not start <= place < start + length:
            out.append(token)
    return _visit(out)


def _span(visit: Ids, start: int, length: int) -> tuple[Ids, Ids, Ids]:
    """The codes before, in and after the span."""
    codes = visit[1:-1]
    return codes[:start], codes[start : start + length], codes[start + length :]


def _mask_each(visit: Ids, start: int, length: int) -> Ids:
    before, inside, after = _span(visit, start, length)
    return _visit([*before, *(MASK for _ in inside), *after])


def _mask_each_uncut(visit: Ids, start: int, length: int) -> Ids:
    before, _, after = _span(visit, start, length)
    return _visit([*before, *[MASK] * length, *after])


def _mask_each_place(visit: Ids, start: int, length: int) -> Ids:
    first = 1 + start
    return [MASK if first <= i < first + length else t for i, t in enumerate(visit)]


def _replaced_in_the_row(visit: Ids, first: int, last: int) -> Ids:
    return [*visit[:first], MASK, *visit[last:]]


def _fresh_span(rng: random.Random) -> Arguments:
    visit = _some_visit(rng, 6)
    return visit, rng.randrange(len(visit) - 2), rng.randint(1, 4)


INFILL = Exercise(
    id="09.2",
    title="Mask infilling",
    parameters=("visit", "start", "length"),
    reference=_infill,
    chosen=(
        ([3, 12, 9, 30, 8, 4], 1, 2),
        ([3, 12, 9, 30, 8, 4], 0, 1),
        ([3, 12, 9, 30, 8, 4], 0, 3),
        ([3, 12, 9, 30, 8, 4], 3, 1),
        ([3, 12, 9, 30, 8, 4], 2, 4),
        ([3, 12, 9, 30, 8, 4], 3, 2),
        ([3, 21, 15, 4], 0, 2),
        ([3, 17, 4], 0, 1),
        ([3, 17, 4], 0, 3),
        ([3, 9, 12, 9, 30, 4], 2, 1),
        ([3, 9, 12, 9, 30, 4], 3, 1),
    ),
    fresh=_fresh_span,
    misconceptions=(
        Misconception(
            "one_mask_a_token",
            "You wrote one <mask> for each code of the span. Then the model can count how many "
            "codes are hidden; one <mask> for the whole span leaves that open too.",
            _mask_each,
        ),
        Misconception(
            "one_mask_a_token_uncut",
            "You wrote as many <mask>s as the span is long, even where the visit has fewer codes "
            "left. A span becomes one <mask>, whatever its length.",
            _mask_each_uncut,
        ),
        Misconception(
            "one_mask_a_token_and_the_marker",
            "You put <mask> in each place of the span, and over <\\v> where the span runs past "
            "the last code. A span becomes one <mask>, and hides codes only.",
            _mask_each_place,
        ),
        Misconception(
            "masks_the_whole_visit",
            "You hid every code of the visit. Only the span is hidden: the codes around it are "
            "what the model is to guess it from.",
            lambda visit, start, length: _visit([MASK]),
        ),
        Misconception(
            "masks_the_markers_too",
            "You made one <mask> of the whole row, markers included. They are the structure of "
            "the record, and stay.",
            lambda visit, start, length: [MASK],
        ),
        Misconception(
            "masks_to_the_end",
            "Everything from the start of the span to the end of the visit is hidden. The span "
            "has a length.",
            lambda visit, start, length: _infill(visit, start, len(visit)),
        ),
        Misconception(
            "masks_one_code",
            "You hid one code whatever the length of the span is.",
            lambda visit, start, length: _infill(visit, start, 1),
        ),
        Misconception(
            "one_code_too_many",
            "Your span hides one code more than its length. The end of a slice is not part of it.",
            lambda visit, start, length: _infill(visit, start, length + 1),
        ),
        Misconception(
            "one_code_too_few",
            "Your span hides one code less than its length.",
            lambda visit, start, length: _infill(visit, start, length - 1),
        ),
        Misconception(
            "forgets_the_marker_before",
            "Your span begins one place too early, and hides <v> when it should begin with the "
            "first code. start counts codes; in the row <v> stands before them.",
            lambda visit, start, length: _replaced_in_the_row(visit, start, start + length),
        ),
        Misconception(
            "forgets_the_marker_before_and_cuts",
            "Your span begins one place too early, and hides <v> when it should begin with the "
            "first code. start counts codes; in the row <v> stands before them.",
            lambda visit, start, length: _replaced_in_the_row(
                visit, start, min(start + length, len(visit) - 1)
            ),
        ),
        Misconception(
            "swallows_the_closing_marker",
            "Where the span runs past the last code, your visit has lost its <\\v>. Cut the span "
            "at the last code.",
            lambda visit, start, length: _replaced_in_the_row(
                visit, 1 + start, 1 + start + length
            ),
        ),
        Misconception(
            "keeps_the_codes",
            "You wrote <mask> before the span and left its codes in. What the model is to guess "
            "still stands there.",
            lambda visit, start, length: _replaced_in_the_row(visit, 1 + start, 1 + start),
        ),
        Misconception(
            "no_mask",
            "You took the span out and put nothing in its place. That is deletion: the model is "
            "not told where something is missing.",
            lambda visit, start, length: [t for t in _infill(visit, start, length) if t != MASK],
        ),
        Misconception(
            "drops_the_markers",
            "Your visit has lost <v> and <\\v>. They stay, as the frame of the visit.",
            lambda visit, start, length: _infill(visit, start, length)[1:-1],
        ),
        Misconception(
            "mask_id_of_bart",
            "You used 50264, the mask of facebook/bart-base. In this vocabulary <mask> is 6.",
            lambda visit, start, length: [
                50264 if t == MASK else t for t in _infill(visit, start, length)
            ],
        ),
    ),
    hints=(
        "Take the visit apart: <v>, its codes, <\\v>. The span is counted among the codes.",
        "What stays are the codes before the span and those after it. A slice that runs past the "
        "end of a list simply ends there.",
        "Put together: <v>, the codes up to start, one <mask>, the codes from start + length on, "
        "<\\v>.",
    ),
)


# 09.3 Deletion

Deleted = Callable[[float, float], bool]


def _delete(
    visit: Ids,
    draws: Sequence[float],
    p: float,
    spare: int,
    *,
    deleted: Deleted = lambda draw, p: draw < p,
) -> Ids:
    """Walk backwards through the codes and take them out one by one."""
    codes = list(visit[1:-1])
    for place in reversed(range(len(codes))):
        if deleted(draws[place], p):
            del codes[place]
    return _visit(codes or [visit[1 + spare]])


def _all_deleted(draws: Sequence[float], p: float) -> bool:
    return max(draws) < p


def _emptied(visit: Ids, draws: Sequence[float], p: float, spare: int) -> Ids:
    return _visit([]) if _all_deleted(draws, p) else _delete(visit, draws, p, spare)


def _undone(visit: Ids, draws: Sequence[float], p: float, spare: int) -> Ids:
    return list(visit) if _all_deleted(draws, p) else _delete(visit, draws, p, spare)


def _largest_draw_kept(visit: Ids, draws: Sequence[float], p: float, spare: int) -> Ids:
    return _delete(visit, draws, p, max(range(len(draws)), key=lambda i: draws[i]))


def _spare_is_safe(visit: Ids, draws: Sequence[float], p: float, spare: int) -> Ids:
    safe = [2.0 if place == spare else draw for place, draw in enumerate(draws)]
    return _delete(visit, safe, p, spare)


def _masked_instead(visit: Ids, draws: Sequence[float], p: float, spare: int) -> Ids:
    codes = zip(visit[1:-1], draws, strict=True)
    return _visit([MASK if draw < p else code for code, draw in codes])


def _spare_in_the_row(visit: Ids, draws: Sequence[float], p: float, spare: int) -> Ids:
    if _all_deleted(draws, p):
        return _visit([visit[spare]])
    return _delete(visit, draws, p, spare)


def _every_copy_deleted(visit: Ids, draws: Sequence[float], p: float, spare: int) -> Ids:
    gone = [code for code, draw in zip(visit[1:-1], draws, strict=True) if draw < p]
    kept = [code for code in visit[1:-1] if code not in gone]
    return _visit(kept or [visit[1 + spare]])


def _draw_of_the_first_copy(visit: Ids, draws: Sequence[float], p: float, spare: int) -> Ids:
    codes = visit[1:-1]
    return _delete(visit, [draws[codes.index(code)] for code in codes], p, spare)


def _fresh_deletion(rng: random.Random) -> Arguments:
    visit = _some_visit(rng, 5)
    n = len(visit) - 2
    draws = [round(rng.random() * 0.99, 2) for _ in range(n)]
    p = rng.choice([0.15, 0.5, 0.5, 0.85, 1.0])
    return visit, draws, p, rng.randrange(n)


DELETE = Exercise(
    id="09.3",
    title="Deletion",
    parameters=("visit", "draws", "p", "spare"),
    reference=_delete,
    chosen=(
        ([3, 12, 9, 30, 8, 4], [0.62, 0.05, 0.31, 0.9], 0.15, 2),
        ([3, 12, 9, 30, 8, 4], [0.02, 0.71, 0.1, 0.04], 0.15, 0),
        ([3, 12, 9, 30, 4], [0.05, 0.12, 0.08], 0.15, 2),
        ([3, 12, 9, 30, 4], [0.05, 0.08, 0.12], 0.15, 1),
        ([3, 12, 9, 30, 4], [0.12, 0.05, 0.08], 0.15, 1),
        ([3, 21, 15, 4], [0.4, 0.6], 0.5, 0),
        ([3, 21, 15, 4], [0.6, 0.4], 0.5, 1),
        ([3, 17, 4], [0.03], 0.15, 0),
        ([3, 17, 11, 4], [0.0, 0.99], 0.0, 1),
        ([3, 17, 11, 26, 4], [0.2, 0.99, 0.0], 1.0, 1),
        ([3, 12, 9, 30, 4], [0.8, 0.95, 0.7], 0.15, 0),
        ([3, 21, 15, 4], [0.5, 0.6], 0.5, 0),
        ([3, 9, 12, 9, 30, 4], [0.6, 0.4, 0.05, 0.8], 0.15, 1),
        ([3, 9, 12, 9, 4], [0.6, 0.05, 0.8], 0.15, 0),
    ),
    fresh=_fresh_deletion,
    misconceptions=(
        Misconception(
            "can_empty_a_visit",
            "Where every draw is less than p, nothing is left between <v> and <\\v>. An empty "
            "visit is no visit: the code at `spare` must stay.",
            _emptied,
        ),
        Misconception(
            "keeps_the_first",
            "Where nothing would be left, you kept the first code. Then the main reason of the "
            "stay always survives, and the model learns that. `spare` says which code stays.",
            lambda visit, draws, p, spare: _delete(visit, draws, p, 0),
        ),
        Misconception(
            "keeps_the_last",
            "Where nothing would be left, you kept the last code, always the least important of "
            "the visit. `spare` says which code stays.",
            lambda visit, draws, p, spare: _delete(visit, draws, p, len(visit) - 3),
        ),
        Misconception(
            "keeps_the_largest_draw",
            "Where nothing would be left, you kept the code with the largest draw. Random it is, "
            "but the task names another one: the code at `spare`.",
            _largest_draw_kept,
        ),
        Misconception(
            "takes_everything_back",
            "Where nothing would be left, you returned the visit as it was. The more likely "
            "deletion is, the more visits then come back whole: with p = 1 all of them.",
            _undone,
        ),
        Misconception(
            "spare_is_never_deleted",
            "The code at `spare` survives in every visit. It is there for the case that nothing "
            "else is left; otherwise its own draw decides.",
            _spare_is_safe,
        ),
        Misconception(
            "spare_counts_the_marker",
            "Where nothing would be left, you took the token at `spare` of the row. There <v> "
            "stands before the codes; `spare` counts the codes alone.",
            _spare_in_the_row,
        ),
        Misconception(
            "deletes_above_p",
            "You deleted the codes whose draw is above p and kept the others: with p = 0.15 only "
            "15% of the codes survive.",
            lambda visit, draws, p, spare: _delete(
                visit, draws, p, spare, deleted=lambda draw, p: draw > p
            ),
        ),
        Misconception(
            "deletes_at_p",
            "You also deleted a code whose draw is exactly p. A draw can be 0.0, and then even "
            "p = 0 deletes something.",
            lambda visit, draws, p, spare: _delete(
                visit, draws, p, spare, deleted=lambda draw, p: draw <= p
            ),
        ),
        Misconception(
            "masks_instead",
            "You put <mask> in the place of a deleted code. Deletion leaves no trace: where "
            "something is missing is part of the puzzle.",
            _masked_instead,
        ),
        Misconception(
            "drops_the_markers",
            "Your visit has lost <v> and <\\v>. Only codes are deleted.",
            lambda visit, draws, p, spare: _delete(visit, draws, p, spare)[1:-1],
        ),
        Misconception(
            "deletes_every_copy",
            "Where a code stands in a visit twice and one of the two is deleted, you lose both. "
            "Ask for each place whether it stays, not for each code.",
            _every_copy_deleted,
        ),
        Misconception(
            "draw_of_the_first_copy",
            "Where a code stands in a visit twice, you used the draw of the first for both: "
            "`index` finds the first place. Go through codes and draws side by side.",
            _draw_of_the_first_copy,
        ),
    ),
    hints=(
        "draws belongs to the codes: its first number to the token after <v>. zip goes through "
        "two lists side by side.",
        "A code stays when its draw is not less than p. What is left when none stays?",
        "Collect the codes that stay. If the list is empty, put in the code at `spare`. Then "
        "write the markers around it.",
    ),
)


# 09.4 Replacement


def _replace(
    visit: Ids,
    draws: Sequence[float],
    p: float,
    picks: Sequence[float],
    n_tokens: int,
    *,
    candidates: Callable[[int], Sequence[int]] | None = None,
    replaced: Deleted = lambda draw, p: draw < p,
) -> Ids:
    """Write down all the candidates for a code, and choose one."""
    if candidates is None:

        def candidates(code: int) -> Sequence[int]:
            return [token for token in range(FIRST_CODE, n_tokens) if token != code]

    out = []
    for code, draw, pick in zip(visit[1:-1], draws, picks, strict=True):
        others = candidates(code)
        out.append(others[int(pick * len(others))] if replaced(draw, p) else code)
    return _visit(out)


def _from(candidates: Callable[[int, Ids, int], Sequence[int]]) -> Callable[..., Ids]:
    """An answer that is right but for the tokens among which it chooses."""
    return lambda visit, draws, p, picks, n_tokens: _replace(
        visit,
        draws,
        p,
        picks,
        n_tokens,
        candidates=lambda code: candidates(code, visit[1:-1], n_tokens),
    )


def _next_one_instead(
    visit: Ids, draws: Sequence[float], p: float, picks: Sequence[float], n_tokens: int
) -> Ids:
    def candidates(code: int) -> Sequence[int]:
        return [token + (token == code) for token in range(FIRST_CODE, n_tokens)]

    return _replace(visit, draws, p, picks, n_tokens, candidates=candidates)


def _one_pick_for_all(
    visit: Ids, draws: Sequence[float], p: float, picks: Sequence[float], n_tokens: int
) -> Ids:
    return _replace(visit, draws, p, [picks[0]] * len(picks), n_tokens)


def _draws_as_picks(
    visit: Ids, draws: Sequence[float], p: float, picks: Sequence[float], n_tokens: int
) -> Ids:
    return _replace(visit, draws, p, draws, n_tokens)


def _mask_replaced(
    visit: Ids, draws: Sequence[float], p: float, picks: Sequence[float], n_tokens: int
) -> Ids:
    return _replace(visit, draws, p, picks, n_tokens, candidates=lambda code: [MASK])


def _clear_picks(rng: random.Random, count: int, n_tokens: int) -> list[float]:
    """Numbers that fall clearly between two candidates, however many one believes there are."""

    def clear(pick: float) -> bool:
        return all(
            0.01 < pick * size % 1 < 0.99 for size in range(max(1, n_tokens - 14), n_tokens + 1)
        )

    picks: list[float] = []
    while len(picks) < count:
        pick = round(rng.random() * 0.99, 2)
        if clear(pick):
            picks.append(pick)
    return picks


def _fresh_replacement(rng: random.Random) -> Arguments:
    n_tokens = rng.randint(12, 17)
    n = rng.randint(1, 4)
    visit = _visit(rng.sample(range(FIRST_CODE, n_tokens), n))
    draws = [round(rng.random() * 0.99, 2) for _ in range(n)]
    return (
        visit,
        draws,
        rng.choice([0.15, 0.5, 0.8, 1.0]),
        _clear_picks(rng, n, n_tokens),
        n_tokens,
    )


REPLACE = Exercise(
    id="09.4",
    title="Replacement",
    parameters=("visit", "draws", "p", "picks", "n_tokens"),
    reference=_replace,
    chosen=(
        ([3, 7, 9, 4], [0.05, 0.6], 0.15, [0.3, 0.6], 12),
        ([3, 7, 9, 4], [0.6, 0.05], 0.15, [0.3, 0.6], 12),
        ([3, 9, 4], [0.05], 0.15, [0.47], 12),
        ([3, 8, 4], [0.05], 0.15, [0.02], 12),
        ([3, 7, 4], [0.05], 0.15, [0.02], 12),
        ([3, 11, 4], [0.05], 0.15, [0.97], 12),
        ([3, 7, 4], [0.05], 0.15, [0.97], 12),
        ([3, 10, 7, 8, 4], [0.3, 0.7, 0.1], 0.5, [0.6, 0.1, 0.9], 12),
        ([3, 12, 9, 4], [0.1, 0.2], 1.0, [0.13, 0.71], 15),
        ([3, 12, 9, 14, 4], [0.0, 0.2, 0.9], 0.0, [0.13, 0.71, 0.52], 15),
        ([3, 9, 4], [0.5], 0.5, [0.47], 12),
        ([3, 9, 11, 9, 4], [0.6, 0.9, 0.05], 0.15, [0.3, 0.3, 0.7], 12),
    ),
    fresh=_fresh_replacement,
    misconceptions=(
        Misconception(
            "draws_special_tokens",
            "You chose among all tokens. The first seven are special: a visit may then contain "
            "<PAD>, or a second <EOS> in its middle.",
            _from(lambda code, codes, n: range(n)),
        ),
        Misconception(
            "draws_special_tokens_but_not_itself",
            "You chose among all tokens but the code itself. The first seven are special: a visit "
            "may then contain <PAD>, or a second <EOS> in its middle.",
            _from(lambda code, codes, n: [t for t in range(n) if t != code]),
        ),
        Misconception(
            "replaces_by_itself",
            "You chose among all codes, the code itself included. Then some replacements change "
            "nothing, and fewer codes are replaced than p says.",
            _from(lambda code, codes, n: range(FIRST_CODE, n)),
        ),
        Misconception(
            "counts_without_stepping_over",
            "You counted the other codes rightly and did not step over the code itself: it can "
            "still be chosen, and the last code of the vocabulary never.",
            _from(lambda code, codes, n: range(FIRST_CODE, n - 1)),
        ),
        Misconception(
            "the_next_one_instead",
            "Where the choice fell on the code itself you took the next one. That one then comes "
            "twice as often as the others, and after the last code there is none.",
            _next_one_instead,
        ),
        Misconception(
            "counts_six_special_tokens",
            "You chose among the codes and <mask>. Its id is 6; the first code is 7.",
            _from(lambda code, codes, n: [t for t in range(6, n) if t != code]),
        ),
        Misconception(
            "leaves_out_the_whole_visit",
            "You left out every code of the visit. The task leaves out one, the code that is "
            "replaced: a visit may come to have a code twice.",
            _from(lambda code, codes, n: [t for t in range(FIRST_CODE, n) if t not in codes]),
        ),
        Misconception(
            "chooses_within_the_visit",
            "You chose among the codes of the visit. A replacement comes from the whole "
            "vocabulary.",
            _from(lambda code, codes, n: [t for t in codes if t != code] or [code]),
        ),
        Misconception(
            "one_pick_for_all",
            "You used the first pick for every code. Each code has a pick of its own.",
            _one_pick_for_all,
        ),
        Misconception(
            "draws_as_picks",
            "You used the draw that decided about a code to choose the new one as well. Such a "
            "draw is less than p, so only the first few codes of the vocabulary can come.",
            _draws_as_picks,
        ),
        Misconception(
            "replaces_above_p",
            "You replaced the codes whose draw is above p: with p = 0.15, 85% of them.",
            lambda *arguments: _replace(*arguments, replaced=lambda draw, p: draw > p),
        ),
        Misconception(
            "replaces_at_p",
            "You also replaced a code whose draw is exactly p. A draw can be 0.0, and then even "
            "p = 0 replaces something.",
            lambda *arguments: _replace(*arguments, replaced=lambda draw, p: draw <= p),
        ),
        Misconception(
            "masks_instead",
            "You put <mask> in the place of the code. A replacement is another code: nothing "
            "tells the model which code is the wrong one.",
            _mask_replaced,
        ),
        Misconception(
            "drops_the_markers",
            "Your visit has lost <v> and <\\v>. Only codes are replaced.",
            lambda *arguments: _replace(*arguments)[1:-1],
        ),
    ),
    hints=(
        "For one code: which tokens may take its place? The codes run from 7 to n_tokens - 1.",
        "Make the list of the others, for each code anew. int(pick * how_many) is a place in a "
        "list of that many.",
        "If the draw is less than p, take from the list of the others the one at "
        "int(pick * len(others)). Otherwise keep the code. The markers stand around it.",
    ),
)


# 09.5 Labels and decoder input

IGNORED = -100
Targets = tuple[Tensor, Tensor]


def _targets(clean: Tensor, corrupted: Tensor, scored: Tensor) -> Targets:
    return _labels(clean, scored), shift_tokens_right(clean, PAD, EOS)


def _labels(ids: Tensor, scored: Tensor, ignored: int = IGNORED) -> Tensor:
    """Go through every position; a padding position never counts."""
    labels = torch.full_like(ids, ignored)
    for row, position in (scored & (ids != PAD)).nonzero().tolist():
        labels[row, position] = ids[row, position]
    return labels


def _shift(ids: Tensor, start: int = EOS) -> Tensor:
    return torch.cat([torch.full_like(ids[:, :1], start), ids[:, :-1]], dim=1)


def _left(ids: Tensor, last: int) -> Tensor:
    return torch.cat([ids[:, 1:], torch.full_like(ids[:, :1], last)], dim=1)


def _padding_kept(clean: Tensor, corrupted: Tensor, scored: Tensor) -> Targets:
    return clean.masked_fill(~scored, IGNORED), _shift(clean)


def _all_scored(clean: Tensor, corrupted: Tensor, scored: Tensor) -> Targets:
    return _labels(clean, torch.ones_like(scored)), _shift(clean)


def _padded(rows: Sequence[Ids], width: int) -> Tensor:
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


def _case(clean: Sequence[Ids], corrupted: Sequence[Ids], scored: Sequence[Ids]) -> Arguments:
    """Pad the rows to the longest one; `scored` is 1 from the start of a row where it ends."""
    width = max(len(row) for row in (*clean, *corrupted))
    flags = [row + [1] * (width - len(row)) for row in scored]
    return _padded(clean, width), _padded(corrupted, width), torch.tensor(flags).bool()


def _fresh_batch(rng: random.Random) -> Arguments:
    clean, corrupted, scored = [], [], []
    for _ in range(rng.randint(1, 2)):
        codes = rng.sample(range(FIRST_CODE, 40), rng.randint(2, 4))
        clean.append([BOS, *_visit(codes), EOS])
        wrong = rng.randrange(len(codes))
        noisy = [MASK if i == wrong else code for i, code in enumerate(codes)]
        if rng.random() < 0.4:
            noisy.pop(rng.randrange(len(noisy)))
        corrupted.append([BOS, *_visit(noisy), EOS])
        scored.append([int(rng.random() < 0.6) for _ in clean[-1]])
    return _case(clean, corrupted, scored)


_TWO_CLEAN = [[1, 3, 12, 9, 30, 4, 2], [1, 3, 8, 4, 2]]
_TWO_CORRUPTED = [[1, 3, 12, 6, 4, 2], [1, 3, 21, 4, 2]]

TARGETS = Exercise(
    id="09.5",
    title="Labels and decoder input",
    parameters=("clean", "corrupted", "scored"),
    reference=_targets,
    chosen=(
        _case(_TWO_CLEAN, _TWO_CORRUPTED, [[], []]),
        _case(_TWO_CLEAN, _TWO_CORRUPTED, [[0, 0, 0, 1, 1, 0, 0], [0, 0, 1, 0, 0]]),
        _case([[1, 3, 17, 4, 2]], [[1, 3, 6, 4, 2]], [[]]),
        _case([[1, 3, 17, 25, 4, 2]], [[1, 3, 25, 4, 2]], [[1, 1, 1, 0, 1, 1]]),
        _case([[1, 3, 17, 4, 2], [1, 3, 11, 4, 2]], [[1, 3, 6, 4, 2], [1, 3, 9, 4, 2]], [[], []]),
        _case([[1, 3, 17, 25, 4, 2], [1, 3, 11, 4, 2]], [[1, 6, 2], [1, 6, 2]], [[], []]),
    ),
    fresh=_fresh_batch,
    misconceptions=(
        Misconception(
            "leak",
            "You made labels and decoder input from the corrupted rows. The model then learns to "
            "repeat its own input, <mask> included, and is never asked what was hidden: the loss "
            "falls to 0 and it repairs nothing. This is the leak.",
            lambda clean, corrupted, scored: (_labels(corrupted, scored), _shift(corrupted)),
        ),
        Misconception(
            "leak_and_masked_labels",
            "You made the labels from the corrupted rows and the decoder input from these labels. "
            "The model then learns to repeat its own input, <mask> included: this is the leak. "
            "Besides, the decoder reads <PAD> wherever a position is not scored.",
            lambda clean, corrupted, scored: (
                _labels(corrupted, scored),
                _shift(_labels(corrupted, scored, PAD)),
            ),
        ),
        Misconception(
            "labels_from_corrupted",
            "You made the labels from the corrupted rows. The right answer to a hidden code is "
            "then <mask>. Labels say what the record really is.",
            lambda clean, corrupted, scored: (_labels(corrupted, scored), _shift(clean)),
        ),
        Misconception(
            "decoder_input_from_corrupted",
            "Your labels are right, and the decoder reads the corrupted rows. Where a code was "
            "deleted, the two no longer stand side by side.",
            lambda clean, corrupted, scored: (_labels(clean, scored), _shift(corrupted)),
        ),
        Misconception(
            "shift_of_masked_labels",
            "You shifted the labels after -100 had been written into them, and made <PAD> of "
            "each -100. The decoder then reads padding wherever a position is not scored.",
            lambda clean, corrupted, scored: (
                _labels(clean, scored),
                _shift(_labels(clean, scored, PAD)),
            ),
        ),
        Misconception(
            "masked_labels_in_the_decoder",
            "Your decoder input contains -100: you shifted the labels after it had been written "
            "into them. -100 is no token, and the embedding has no row for it.",
            lambda clean, corrupted, scored: (
                _labels(clean, scored),
                _shift(_labels(clean, scored)),
            ),
        ),
        Misconception(
            "padding_kept",
            "Padding counts as an answer where `scored` is True on it. The model is then "
            "rewarded for writing <PAD>, the easiest token there is.",
            _padding_kept,
        ),
        Misconception(
            "ignores_scored",
            "Every token counts in your labels. Where `scored` is False the label is -100 too.",
            _all_scored,
        ),
        Misconception(
            "scored_upside_down",
            "You wrote -100 where `scored` is True, and kept the others.",
            lambda clean, corrupted, scored: (_labels(clean, ~scored), _shift(clean)),
        ),
        Misconception(
            "pad_instead_of_minus_100",
            "You wrote 0 where a position does not count. The loss leaves out -100; a 0 is the "
            "token <PAD>, and is scored like any other.",
            lambda clean, corrupted, scored: (_labels(clean, scored, PAD), _shift(clean)),
        ),
        Misconception(
            "starts_with_bos",
            "Your decoder starts with <BOS>. BART starts its decoder with <EOS>, 2, and <BOS> is "
            "the first token that it has to write.",
            lambda clean, corrupted, scored: (_labels(clean, scored), _shift(clean, BOS)),
        ),
        Misconception(
            "starts_with_padding",
            "Your decoder starts with <PAD>. BART starts its decoder with <EOS>, 2.",
            lambda clean, corrupted, scored: (_labels(clean, scored), _shift(clean, PAD)),
        ),
        Misconception(
            "not_shifted",
            "Your decoder input is not shifted: at each position the decoder reads the very "
            "token that it is to predict there.",
            lambda clean, corrupted, scored: (_labels(clean, scored), clean.clone()),
        ),
        Misconception(
            "shifted_to_the_left",
            "You shifted the decoder input to the left: the decoder reads the token after the one "
            "that it is to predict.",
            lambda clean, corrupted, scored: (_labels(clean, scored), _left(clean, PAD)),
        ),
        Misconception(
            "shifted_twice",
            "You moved the decoder input to the right and the labels to the left. At each "
            "position the model would have to skip a token; one shift is enough.",
            lambda clean, corrupted, scored: (
                _left(_labels(clean, scored), IGNORED),
                _shift(clean),
            ),
        ),
        Misconception(
            "one_position_too_long",
            "Your decoder input has one position more than the labels. What is shifted out at "
            "the end is dropped.",
            lambda clean, corrupted, scored: (
                _labels(clean, scored),
                torch.cat([torch.full_like(clean[:, :1], EOS), clean], dim=1),
            ),
        ),
        Misconception(
            "decoder_input_first",
            "You returned the decoder input first. The labels come first.",
            lambda clean, corrupted, scored: (_shift(clean), _labels(clean, scored)),
        ),
    ),
    hints=(
        "What does the model read, what does it answer, and what is the right answer? Only the "
        "first is corrupted, and that is not made here.",
        "The decoder input is made from clean rows that hold no -100 yet. The labels are a copy "
        "of them, with -100 written in.",
        "Decoder input: a column of 2, then all columns of `clean` but the last. Labels: `clean` "
        "where `scored` is True and the token is not 0, otherwise -100; torch.where does that.",
    ),
)

EXERCISES = (SPAN_LENGTHS, INFILL, DELETE, REPLACE, TARGETS)
