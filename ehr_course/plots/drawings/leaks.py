"""Patients on both sides of a split: by its kind, or because one person has several numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, WARNING, Box, Canvas
from ehr_course.plots.style import Picture
from ehr_course.records import PatientRecord

Registration = tuple[int, str | None, str | None]
"""A subject_id, an insurance card and an identity card; None is a card that nobody saw."""

_TILE = 0.17
_PARTS = {"training": "encoder", "validation": "quiet", "test": "code"}
"""The parts of a split, and the colours of their visits."""


class Scores(NamedTuple):
    """What a model is worth, in the test of a split and to patients who come later."""

    test: float
    new: float


def draw_leak(
    records: Sequence[PatientRecord],
    part_of_visit: Mapping[tuple[int, int], str],
    part_of_patient: Mapping[int, str],
    scores: tuple[Scores, Scores],
    *,
    most: int = 24,
) -> Picture:
    """Draw two splits of the same visits, by visit and by patient, and what their tests say.

    Args:
        records: the patients. Of those with several visits some neighbours are drawn, chosen so
            that as many of them are on both sides, and in training, as of all.
        part_of_visit: where each visit is when visits are split: "training", "validation" or
            "test". A visit is a subject_id, and its number from 0.
        part_of_patient: the same of each subject_id when patients are split.
        scores: of a model trained on the split by visits, then on that by patients; 0 to 1.
        most: how many patients are drawn.
    """
    several = [record for record in records if len(record.visits) > 1]
    by_visit = {r.subject_id: _parts(r, part_of_visit) for r in several}
    by_patient = {r.subject_id: [part_of_patient[r.subject_id]] * len(r.visits) for r in several}
    shown = _typical(several, most, by_visit, by_patient)
    deep = min(4, max(len(record.visits) for record in shown))
    worse = scores[0].test > scores[0].new
    finding = (
        f"Split by visits, memory seems to score {scores[0].test:.0%}; "
        f"on new patients it scores {scores[0].new:.0%}"
        if worse
        else f"Split by visits, {_torn(by_visit)} of {len(several)} patients stand on both sides"
    )
    canvas = Canvas(
        1.9 + 2 * _TILE * deep,
        finding,
        f"Two splits of the visits of {len(shown)} patients, a column each. Of the "
        f"{len(several)} patients with several visits, {_torn(by_visit)} are on both sides when "
        f"visits are split, and {_torn(by_patient)} when patients are. Score in the test and of "
        f"new patients: {scores[0].test:.0%} and {scores[0].new:.0%} split by visits, "
        f"{scores[1].test:.0%} and {scores[1].new:.0%} split by patients.",
        subtitle=f"A column is a patient, a tile is a visit: {len(shown)} patients, chosen to "
        "have about the shares of all patients",
    )
    left = 0.95
    y = canvas.top + 0.14
    right = left + _TILE * most + 0.3
    largest = max(score for pair in scores for score in pair)
    scale = (canvas.width - MARGIN - right - 1.35) / max(largest, 0.01)
    for name, sides, score in (
        ("visits", by_visit, scores[0]),
        ("patients", by_patient, scores[1]),
    ):
        middle = y + _TILE * deep / 2
        canvas.label((MARGIN, middle), f"split by\n{name}", colour=style.INK)
        for i, record in enumerate(shown):
            for j, part in enumerate(sides[record.subject_id][:deep]):
                canvas.box(
                    left + i * _TILE,
                    y + _TILE * j,
                    _TILE,
                    _TILE,
                    fill=_PARTS[part],
                    edge=style.PAPER,
                    rounded=False,
                )
            if _is_torn(sides[record.subject_id]):
                x = left + (i + 0.5) * _TILE
                canvas.arrow(
                    (x, y + _TILE * deep + 0.18),
                    (x, y + _TILE * deep + 0.02),
                    colour=WARNING,
                    thick=0.9,
                )
        for words, value, fill, down in (
            ("in the test", score.test, "code", -0.13),
            ("new patients", score.new, "paper", 0.13),
        ):
            canvas.label((right + 0.85, middle + down), words, align="right", colour=style.INK)
            bar = right + 0.93
            canvas.box(bar, middle + down - 0.08, scale * value, 0.16, fill=fill, rounded=False)
            canvas.label((bar + scale * value + 0.06, middle + down), f"{value:.0%}")
        y += _TILE * deep + 0.36
    x = canvas.key(MARGIN, y + 0.08, {fill: part for part, fill in _PARTS.items()})
    words = "↑ in training, and in validation or test as well"
    canvas.label((x + 0.05, y + 0.08), words, colour=WARNING)
    return canvas.finish()


def _typical(
    records: Sequence[PatientRecord],
    most: int,
    by_visit: Mapping[int, Sequence[str]],
    by_patient: Mapping[int, Sequence[str]],
) -> Sequence[PatientRecord]:
    """The neighbours, at most so many, whose shares are nearest to those of all records."""

    def shares(some: Sequence[PatientRecord]) -> tuple[float, ...]:
        ids = [record.subject_id for record in some]
        torn = sum(_is_torn(by_visit[i]) for i in ids) / len(ids)
        tiles = [[part for i in ids for part in parts[i]] for parts in (by_visit, by_patient)]
        return torn, *(
            parts.count(part) / len(parts) for parts in tiles for part in ("training", "test")
        )

    of_all = shares(records)
    starts = range(0, max(1, len(records) - most + 1), most)
    return min(
        (records[start : start + most] for start in starts),
        key=lambda some: sum(abs(a - b) for a, b in zip(shares(some), of_all, strict=True)),
    )


def _parts(record: PatientRecord, part_of_visit: Mapping[tuple[int, int], str]) -> list[str]:
    return [part_of_visit[record.subject_id, i] for i in range(len(record.visits))]


def _is_torn(parts: Sequence[str]) -> bool:
    """Whether some of a patient's visits are in training, and others are not."""
    return 0 < parts.count("training") < len(parts)


def _torn(parts: Mapping[int, Sequence[str]]) -> int:
    return sum(map(_is_torn, parts.values()))


# ---------------------------------------------------------------------- one person, many numbers


def draw_second_numbers(shares: Mapping[str, float], leaking: str) -> Picture:
    """Draw how many codes a model guesses, for each way of what its training held.

    Args:
        shares: what training held, and the share of the codes guessed, 0 to 1.
        leaking: the one of them in which patients of the test are in training.
    """
    rest = max(share for name, share in shares.items() if name != leaking)
    canvas = Canvas(
        0.95 + 0.3 * len(shares),
        f"A second number lets a model guess {shares[leaking]:.0%} instead of {rest:.0%}",
        "Codes guessed at the last visit: "
        + "; ".join(f"{name}: {share:.0%}" for name, share in shares.items())
        + ".",
        subtitle="Codes guessed at the last visits of the test, by what training holds",
    )
    wide = max(style.text_width(name, style.TEXT) for name in shares)
    left = MARGIN + wide + 0.12
    scale = (canvas.width - MARGIN - left - 0.5) / max(*shares.values(), 0.01)
    for i, (name, share) in enumerate(shares.items()):
        y = canvas.top + 0.12 + 0.3 * i
        canvas.label(
            (left - 0.12, y + 0.1), name, align="right", size=style.TEXT, colour=style.INK
        )
        bar = canvas.box(
            left,
            y,
            max(scale * share, 0.01),
            0.2,
            fill="trap" if name == leaking else "encoder",
            rounded=False,
            hatched=name == leaking,
        )
        canvas.label((bar.right + 0.07, y + 0.1), f"{share:.0%}", colour=style.INK)
    return canvas.finish()


def draw_people(registrations: Sequence[Registration], people: Sequence[Sequence[int]]) -> Picture:
    """Draw registrations, the cards that each showed, and a frame around each person.

    Args:
        registrations: at most seven, each subject_id once.
        people: the subject_ids of each person, as the cards tie them together.
    """
    cards_of = {
        subject: {(kind, card) for kind, card in enumerate(cards) if card is not None}
        for subject, *cards in registrations
    }
    order = [_neighbours_together(person, cards_of) for person in people]
    listed = "; ".join(", ".join(map(str, sorted(person))) for person in people)
    canvas = Canvas(
        2.75,
        _finding(cards_of, people),
        f"{len(cards_of)} registrations with a line to each card they showed. The people: "
        f"{listed}.",
        subtitle="A line joins a patient number to a card that was shown. "
        "A dashed frame is one person",
    )
    top, low, wide, high = canvas.top + 0.28, canvas.top + 1.06, 0.62, 0.3
    space = canvas.width - 2 * MARGIN - 0.3 * len(people)
    step = min(1.7, space / max(len(cards_of), 1))
    x = MARGIN + 0.1
    for person in order:
        start = x
        places = {s: start + step * (i + 0.5) for i, s in enumerate(person)}
        shown = sorted(set().union(*(cards_of[s] for s in person)))
        # A card stands below the middle of those who showed it.
        centre = {
            card: sum(places[s] for s in person if card in cards_of[s])
            / sum(card in cards_of[s] for s in person)
            for card in shown
        }
        shown.sort(key=lambda card: (centre[card], card))
        end = start + step * len(person)
        spots = {
            card: start + (end - start) * (i + 0.5) / len(shown) for i, card in enumerate(shown)
        }
        boxes = {
            s: canvas.box(place - wide / 2, top, wide, high, str(s), mono=True)
            for s, place in places.items()
        }
        for (kind, card), place in spots.items():
            fill = ("prompt", "special")[kind]
            box = canvas.box(place - 0.3, low, 0.6, high, card, fill=fill, mono=True)
            for s in person:
                if (kind, card) in cards_of[s]:
                    canvas.arrow(boxes[s].side("bottom"), box.side("top"), head=False)
        canvas.frame(Box(start, top - 0.14, end - start, low + high - top + 0.28))
        x = end + 0.2
    canvas.key(MARGIN, low + high + 0.44, {"prompt": "insurance card", "special": "identity card"})
    return canvas.finish()


def _neighbours_together(
    person: Sequence[int], cards_of: Mapping[int, set[tuple[int, str]]]
) -> list[int]:
    """Order the numbers of a person so that those with a common card stand side by side."""

    def shares(one: int, other: int) -> bool:
        return bool(cards_of[one] & cards_of[other])

    left = sorted(person, key=lambda s: (sum(shares(s, other) for other in person), -s))
    order = [left.pop(0)]
    while left:
        following = next((s for s in left if shares(order[-1], s)), left[0])
        left.remove(following)
        order.append(following)
    return order


def _finding(cards_of: Mapping[int, set[tuple[int, str]]], people: Sequence[Sequence[int]]) -> str:
    """Name two numbers of one person without a common card, where there are any."""
    for person in people:
        for one, other in combinations(sorted(person), 2):
            if not cards_of[one] & cards_of[other]:
                return f"{one} and {other} share no card, yet they are one person"
    return f"Each of {style.count(len(people), 'frame')} holds the numbers of one person"
