"""The pictures of patients in lesson 00: to guess at, to read, and singled out by a code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from string import ascii_uppercase

from ehr_course.code_system import CodeSystem
from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, MONO, WARNING, Box, Canvas
from ehr_course.plots.drawings.words import SENTENCE, meaning, wrapped
from ehr_course.plots.style import Picture, count
from ehr_course.records import PatientRecord, Sex, Visit, system_of

_LINE = 0.26  # from one code of a list to the next, in inches
_TWO_LINES = 0.37  # the same, where the code's title takes two lines
_CHIP = 0.2  # the height of the box around a code


# ---------------------------------------------------------------------- who wrote it


def draw_guess(rows: Sequence[tuple[PatientRecord, PatientRecord]]) -> Picture:
    """Draw pairs of records beside each other, each record with a letter and no other name.

    Args:
        rows: two patients of one age and sex for each row; the first of them give the words.
    """
    letters = iter(ascii_uppercase)
    named = [[(next(letters), record) for record in pair] for pair in rows]
    told = "; ".join(
        f"{_person(pair[0])}: "
        + " and ".join(f"{letter} begins with {_first(record)}" for letter, record in row)
        for pair, row in zip(rows, named, strict=True)
    )
    asked, gap = 0.95, 0.14
    width = (style.WIDTH - 2 * MARGIN - asked - 2 * gap) / 2
    heights = [
        0.46
        + max(
            _list_height(record.codes, width - 0.24, _MOST_CODES, system_of([record]))
            for record in pair
        )
        for pair in rows
    ]
    c = Canvas(
        0.74 + sum(heights) + 0.16 * len(rows),
        "One record in each row was written by a model",
        f"Records in pairs, of which one was written by a model. {told}.",
        subtitle="The two people in a row have the same age and sex. Guess before you read on.",
    )
    y = c.top + 0.06
    for pair, row, height in zip(rows, named, heights, strict=True):
        c.box(MARGIN, y, asked, height, _asked(pair[0]), fill="prompt", size=style.TEXT)
        for place, (letter, record) in enumerate(row):
            x = MARGIN + asked + gap + place * (width + gap)
            card = c.box(x, y, width, height)
            c.label((x + 0.12, y + 0.2), letter, size=style.TITLE, weight="bold", colour=style.INK)
            _list_codes(c, record, Box(x + 0.12, y + 0.38, card.width - 0.24, height - 0.44))
        y += height + 0.16
    return c.finish()


def _person(record: PatientRecord) -> str:
    return style.who(record)[0].lower() + style.who(record)[1:]


def _asked(record: PatientRecord) -> str:
    person = style.person_of(record.age, record.sex).lower()
    return f"a {person}\nof {record.age}"


def _first(record: PatientRecord) -> str:
    return style.code_in_words(record.codes[0], record.visits[0].system)


_MOST_CODES = 7


def _list_height(codes: Sequence[str], width: float, most: int, system: CodeSystem) -> float:
    shown = codes[:most]
    chip = _chip_width(shown, system)
    height = sum(_step(_title(code, width - chip, system)) for code in shown)
    return height + 0.9 * _LINE * (len(codes) > len(shown))


def _list_codes(c: Canvas, record: PatientRecord, place: Box) -> None:
    """Write a patient's codes from the top of a place down, each with its title."""
    shown = record.codes[:_MOST_CODES]
    bottom = _codes(c, shown, place, system_of([record]))
    if len(record.codes) > len(shown):
        c.label((place.x, bottom + 0.4 * _LINE), f"and {len(record.codes) - len(shown)} more")


def _chip_width(codes: Sequence[str], system: CodeSystem) -> float:
    written = (style.written(code, system) for code in codes)
    return max(style.text_width(code, style.SMALL, MONO) for code in written) + 0.14


def _title(code: str, width: float, system: CodeSystem) -> str:
    return wrapped(style.code_title(code, system), width - 0.1, style.SMALL, 2)


def _step(title: str) -> float:
    return _TWO_LINES if "\n" in title else _LINE


def _codes(
    c: Canvas,
    codes: Sequence[str],
    place: Box,
    system: CodeSystem,
    outlined: Iterable[str] = (),
) -> float:
    """Draw each code in a box and write its title beside it; return where they end."""
    chip, y = _chip_width(codes, system), place.y
    for code in codes:
        title = _title(code, place.width - chip, system)
        middle = y + (_CHIP if _step(title) == _LINE else _TWO_LINES - 0.06) / 2
        outline = code in outlined
        c.box(place.x, middle - _CHIP / 2, chip, _CHIP, style.written(code, system),
              fill="paper" if outline else "code", size=style.SMALL, mono=True,
              edge=FILLS["code"] if outline else style.MUTED)  # fmt: skip
        c.label((place.x + chip + 0.1, middle), title, colour=style.INK)
        y += _step(title)
    return y


# ---------------------------------------------------------------------- model and hospital


def draw_shares(
    groups: Mapping[tuple[int, Sex], tuple[Sequence[PatientRecord], Sequence[PatientRecord]]],
    *,
    most_codes: int = 5,
) -> Picture:
    """Draw how many of a model's patients have a code, beside how many of a hospital's.

    Args:
        groups: for an age and a sex, the patients that a model wrote for it and the patients of
            a hospital; a panel each, two of them.
        most_codes: how many of the model's most frequent codes are shown.
    """
    system = system_of(record for sides in groups.values() for side in sides for record in side)
    panels = []
    for (age, sex), records in groups.items():
        model, hospital = map(_share_of_each_code, records)
        frequent = sorted(model.items(), key=lambda item: (-item[1], item[0]))[:most_codes]
        bars = [(code, share, hospital.get(code, 0.0)) for code, share in frequent]
        one, many = style.person_of(age, sex).lower(), {"man": "men", "woman": "women"}
        panels.append((f"{many.get(one, f'{one}s')} of {age}", bars))
    told = ". ".join(
        f"Asked for {who}: "
        + ", ".join(
            f"{style.code_in_words(code, system)} {written:.0%}, in the hospital {recorded:.0%}"
            for code, written, recorded in bars
        )
        for who, bars in panels
    )
    row, high = 0.46, 0.17
    c = Canvas(
        1.5 + row * max(len(bars) for _, bars in panels),
        "Asked for other people, the model writes other codes, as in the hospital",
        f"How many of the patients have a code, by the model and by the hospital. {told}.",
        subtitle="The most frequent codes that the model writes, and the share of patients "
        "who have them",
    )
    top = c.top + 0.2
    largest = max(max(bar[1:]) for _, bars in panels for bar in bars)
    words, panel = 1.62, (c.width - 2 * MARGIN - 0.2) / 2
    for i, (who, bars) in enumerate(panels):
        x = MARGIN + i * (panel + 0.2)
        c.label((x, top), f"asked for {who}", colour=style.INK, weight="bold")
        start, longest = x + words + 0.1, panel - words - 0.5
        for j, (code, *shares) in enumerate(bars):
            y = top + 0.22 + row * j
            title = wrapped(style.code_title(code, system), words, style.SMALL, 2)
            c.label((start - 0.08, y + high), title, align="right", colour=style.INK)
            for share, fill in zip(shares, ("code", "quiet"), strict=True):
                if share:
                    c.box(start, y, longest * share / largest, high, fill=fill, rounded=False)
                c.label((start + longest * share / largest + 0.05, y + high / 2), f"{share:.0%}")
                y += high
    below = top + 0.34 + row * max(len(bars) for _, bars in panels)
    sizes = [
        " and ".join(f"{len(records):,}" for records in side)
        for side in zip(*groups.values(), strict=True)
    ]
    c.key(
        MARGIN,
        below,
        {
            "code": f"the model's patients ({sizes[0]})",
            "quiet": f"the hospital's patients ({sizes[1]})",
        },
    )
    return c.finish()


def _share_of_each_code(records: Sequence[PatientRecord]) -> dict[str, float]:
    having = Counter(code for record in records for code in set(record.codes))
    return {code: number / len(records) for code, number in having.items()}


# ---------------------------------------------------------------------- a patient


def draw_patient(record: PatientRecord, *, most_codes: int = 6) -> Picture:
    """Draw what a record is made of: age and sex, visits on a line of time, codes in each.

    Args:
        record: the patient; the first three visits are shown.
        most_codes: how many codes of a visit are shown; what is left out is said.
    """
    visits = record.visits[:_MOST_VISITS]
    left, gap = MARGIN + 1.1, 0.16
    width = (style.WIDTH - MARGIN - left - gap * (len(visits) - 1)) / len(visits)
    system = system_of([record])
    lists = max(_list_height(visit.codes, width - 0.24, most_codes, system) for visit in visits)
    total = count(len(record.visits), "visit")
    told = ", then ".join(_visit_in_words(visit) for visit in visits)
    later = {code for visit in visits[1:] for code in visit.codes}
    returning = len(later.intersection(visits[0].codes))
    again = (
        f" {returning} of the first visit's codes {'comes' if returning == 1 else 'come'} back."
    )
    c = Canvas(
        1.96 + lists,
        "A patient is an age, a sex, and visits in time order",
        f"The record of a patient, {_person(record)}, with {total} on a line of time: {told}."
        + (again if len(visits) > 1 else ""),
        subtitle="Each visit is a list of diagnosis codes, the most important first. "
        "An outline: an earlier visit had it",
    )
    y = c.top + 0.12
    c.box(MARGIN, y, 0.9, 0.3, f"age {record.age}", fill="prompt", size=style.SMALL)
    c.box(MARGIN, y + 0.36, 0.9, 0.3, f"sex {record.sex}", fill="prompt", size=style.SMALL)
    c.label((MARGIN, y + 0.84), _left_out(record, len(visits)))
    points = [left + i * (width + gap) + 0.2 for i in range(len(visits))]
    line = y + 0.3
    c.arrow((left, line), (c.width - MARGIN, line))
    for i, (visit, x) in enumerate(zip(visits, points, strict=True)):
        c.box(x - 0.06, line - 0.06, 0.12, 0.12, fill="code")
        c.label((x - 0.06, line - 0.2), _admitted(visit), colour=style.INK, weight="bold")
        if i:
            between = _between(visits[i - 1], visit)
            if between:
                at = ((points[i - 1] + x) / 2 + 0.3, line)
                c.label(at, between, align="center", on_line=True)
        card = c.box(x - 0.2, y + 0.48, width, 0.46 + lists)
        c.label((card.x + 0.12, card.y + 0.17), count(len(visit.codes), "code"))
        codes = visit.codes[:most_codes]
        earlier = {code for before in visits[:i] for code in before.codes}
        place = Box(card.x + 0.12, card.y + 0.34, card.width - 0.24, card.height)
        bottom = _codes(c, codes, place, system, earlier)
        if len(visit.codes) > len(codes):
            at = (card.x + 0.12, bottom + 0.4 * _LINE)
            c.label(at, f"and {len(visit.codes) - len(codes)} more")
    return c.finish()


_MOST_VISITS = 3


def _left_out(record: PatientRecord, shown: int) -> str:
    left = len(record.visits) - shown
    return f"and {count(left, 'visit')}\nmore" if left else ""


def _visit_in_words(visit: Visit) -> str:
    codes = count(len(visit.codes), "code")
    when = f"{_admitted(visit)} with " if visit.admitted else ""
    return f"{when}{codes}, first {style.code_in_words(visit.codes[0], visit.system)}"


def _admitted(visit: Visit) -> str:
    return f"{visit.admitted:%B %Y}" if visit.admitted else "a visit"


def _between(one: Visit, other: Visit) -> str:
    """How long lies between two admissions, in months, or in days below a month."""
    if one.admitted is None or other.admitted is None:
        return ""
    days = (other.admitted - one.admitted).days
    months = round(days / _DAYS_OF_A_MONTH)
    if days < _DAYS_OF_A_MONTH:
        return f"{count(days, 'day')} later"
    return f"{count(months, 'month')} later"


_DAYS_OF_A_MONTH = 365.25 / 12


# ---------------------------------------------------------------------- singled out


def draw_singled_out(
    codes: Sequence[str],
    having: Sequence[int],
    others: Sequence[Iterable[str]],
    pair: tuple[str, str],
    enough: Sequence[int],
    never: int,
    system: CodeSystem = "ICD9CM",
) -> Picture:
    """Draw one person among others, and how many diagnoses it takes to tell people apart.

    Args:
        codes: the person's codes: the columns.
        having: how many people have each of them, the person included.
        others: the codes of some other people, a row each.
        pair: two of the codes that no other person has together.
        enough: how many people one code singles out, how many two, and so on; the last number
            also counts those who need more.
        never: how many people all of their codes do not single out.
        system: the code system that the codes belong to.
    """
    total, few = sum(enough) + never, sum(enough[:-1])
    most = f"{len(enough) - 1} well-chosen diagnoses"
    labels = [count(n + 1, "code") for n in range(len(enough))]
    labels[-1] += " or more"
    written = {code: style.written(code, system) for code in (*codes, *pair)}
    both = " and ".join(written[code] for code in pair)
    told = ", ".join(f"{label}: {n}" for label, n in zip(labels, enough, strict=True))
    shared = ", ".join(f"{written[c]} {n}" for c, n in zip(codes, having, strict=True))
    rows = [set(codes), *map(set, others)]
    wide, high = min(0.8, 3.2 / len(codes)), 0.24
    named = wide > 0.6  # there is room for the names of the codes
    c = Canvas(
        max(3.1, 2.0 + 0.24 * len(rows)) + 0.5 * named,
        f"At most {most} single out {few / total:.0%} of {total:,} people",
        f"Left, one person and {len(rows) - 1} others by the codes they share; how many of "
        f"{total} people have each: {shared}; nobody else has both {both}. Right, how many codes "
        f"it takes to single out a person, in people: {told}, all their codes are not enough: "
        f"{never}.",
        subtitle=f"Left, with {len(rows) - 1} of the other {total - 1:,}: many share a code, "
        f"but nobody else has both {both}",
    )
    x, y = MARGIN + 1.14, c.top + 0.46
    fills = [["code" if code in row else "quiet" for code in codes] for row in rows]
    names = ["this person", *["another"] * len(others)]
    cells = c.grid(x, y, fills, cell=(wide, high))
    for name, row in zip(names, cells, strict=True):
        weight = "bold" if name == names[0] else "normal"
        c.label((x - 0.1, row[0].middle[1]), name, align="right", colour=style.INK, weight=weight)
    bottom = y + high * len(rows)
    c.label((x - 0.1, bottom + 0.15), f"of {total:,} people", align="right", colour=style.INK)
    for place, (code, number) in enumerate(zip(codes, having, strict=True)):
        middle = x + wide * (place + 0.5)
        weight = "bold" if code in pair else "normal"
        c.label((middle, y - 0.16), written[code], align="center", colour=style.INK,
                weight=weight)  # fmt: skip
        c.label((middle, bottom + 0.15), f"{number:,}", align="center", colour=style.INK,
                weight=weight)  # fmt: skip
        means = meaning(code, SENTENCE, system) if named else ""
        name = wrapped(means, wide - 0.04, style.SMALL, 3)
        if name:
            c.label((middle, bottom + 0.3), name, align="center", vertical="top",
                    colour=style.INK)  # fmt: skip
    for code in pair:
        start, end = x + wide * codes.index(code), x + wide * (codes.index(code) + 1)
        around = [(start, y), (end, y), (end, bottom), (start, bottom), (start, y)]
        c.path(around, colour=WARNING, thick=2.0, head=False)
    c.key(x, bottom + 0.42 + 0.5 * named, {"code": "has the code", "quiet": "does not"})

    numbers = [*enough, never]
    places = range(len(numbers))[::-1]
    left = 5.65
    axes = c.plot(left, c.top + 0.36, c.width - MARGIN - left - 0.45, 1.6)
    axes.barh(places, numbers, color=[style.MUTED] * len(enough) + [style.FAINT], height=0.66)
    axes.set_yticks(places, [*labels, "not even all"])
    axes.spines[["left", "bottom"]].set_visible(False)
    axes.tick_params(length=0)
    axes.set_xticks([])
    for place, number in zip(places, numbers, strict=True):
        axes.annotate(f"{number:,}", (number, place), (4, 0), textcoords="offset points",
                      va="center", size=style.SMALL)  # fmt: skip
    c.label((left - 1.0, c.top + 0.2), "People, by how many codes it takes", colour=style.INK,
            weight="bold")  # fmt: skip
    return c.finish()
