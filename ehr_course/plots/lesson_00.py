"""What lesson 00 draws: patients as cards, the path of a code, a map of the course, a check."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from string import ascii_uppercase
from typing import Any

from ehr_course.icd import icd9
from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, MONO, Box, Canvas
from ehr_course.plots.diagrams import draw_flow
from ehr_course.plots.style import INK, SMALL, Picture, count
from ehr_course.plots.words import cut, wrapped
from ehr_course.records import PatientRecord, Visit, system_of

MOST_VISITS, MOST_CODES, MOST_CODES_OF_A_VISIT = 3, 7, 6
DAYS_OF_A_MONTH = 365.25 / 12


def draw_guess(rows: Sequence[tuple[PatientRecord, PatientRecord]]) -> Picture:
    """Draw pairs of records beside each other, each record with a letter and no other name.

    Args:
        rows: two patients of one age and sex for each row.
    """
    letters = iter(ascii_uppercase)
    named = [[(next(letters), record) for record in pair] for pair in rows]
    told = "; ".join(
        f"{_person(row[0][1])}: "
        + " and ".join(f"{letter} begins with {_first(r.visits[0])}" for letter, r in row)
        for row in named
    )
    asked, gap = 0.95, 0.14
    width = (style.WIDTH - 2 * MARGIN - asked - 2 * gap) / 2
    heights = [
        0.22 + max(_list_height(r, r.codes[:MOST_CODES], width) for r in pair) for pair in rows
    ]
    c = Canvas(
        0.74 + sum(heights) + 0.16 * len(rows),
        "One record in each row was written by a model",
        f"Records in pairs, of which one was written by a model. {told}.",
        subtitle="The two people in a row have the same age and sex. Guess before you read on.",
    )
    y = c.top + 0.06
    for row, height in zip(named, heights, strict=True):
        first = row[0][1]
        who = f"a {style.person_of(first.age, first.sex).lower()}\nof {first.age}"
        c.box(MARGIN, y, asked, height, who, fill="prompt")
        for place, (letter, record) in enumerate(row):
            card = c.box(MARGIN + asked + gap + place * (width + gap), y, width, height)
            at = (card.x + 0.12, y + 0.2)
            c.label(at, letter, size=style.TITLE, weight="bold", colour=INK)
            _list_codes(c, record, record.codes, MOST_CODES, card, y + 0.38)
        y += height + 0.16
    return c.finish()


def draw_patient(record: PatientRecord) -> Picture:
    """Draw what a record is made of: age and sex, visits on a line of time, codes in each.

    Args:
        record: the first three of its visits are shown, and six codes of each.
    """
    visits = record.visits[:MOST_VISITS]
    left, gap = MARGIN + 1.1, 0.16
    width = (style.WIDTH - MARGIN - left - gap * (len(visits) - 1)) / len(visits)
    shown = [visit.codes[:MOST_CODES_OF_A_VISIT] for visit in visits]
    lists = max(_list_height(record, codes, width) for codes in shown)
    total = count(len(record.visits), "visit")
    told = ", then ".join(_visit_in_words(visit) for visit in visits)
    later = {code for visit in visits[1:] for code in visit.codes}
    back = len(later.intersection(visits[0].codes))
    again = f" {back} of the first visit's codes {'comes' if back == 1 else 'come'} back."
    c = Canvas(
        1.72 + lists,
        "A patient is an age, a sex, and visits in time order",
        f"The record of a patient, {_person(record)}, with {total} on a line of time: {told}."
        + (again if len(visits) > 1 else ""),
        subtitle="Each visit is a list of diagnosis codes, the most important first. "
        "An outline: an earlier visit had it",
    )
    y = c.top + 0.12
    c.box(MARGIN, y, 0.9, 0.3, f"age {record.age}", fill="prompt", size=SMALL)
    c.box(MARGIN, y + 0.36, 0.9, 0.3, f"sex {record.sex}", fill="prompt", size=SMALL)
    if len(record.visits) > len(visits):
        left_out = count(len(record.visits) - len(visits), "visit")
        c.label((MARGIN, y + 0.84), f"and {left_out}\nmore")
    line = y + 0.3
    c.arrow((left, line), (c.width - MARGIN, line))
    for i, visit in enumerate(visits):
        x = left + i * (width + gap)
        c.box(x + 0.14, line - 0.06, 0.12, 0.12, fill="code")
        c.label((x + 0.14, line - 0.2), _admitted(visit), colour=INK, weight="bold")
        if i:
            between = _between(visits[i - 1], visit)
            c.label((x - width / 2 + 0.42, line), between, align="center", on_line=True)
        card = c.box(x, y + 0.48, width, 0.22 + lists)
        c.label((x + 0.12, card.y + 0.17), count(len(visit.codes), "code"))
        earlier = {code for before in visits[:i] for code in before.codes}
        top = card.y + 0.34
        _list_codes(c, record, visit.codes, MOST_CODES_OF_A_VISIT, card, top, outlined=earlier)
    return c.finish()


def _person(record: PatientRecord) -> str:
    return style.who(record)[0].lower() + style.who(record)[1:]


def _first(visit: Visit) -> str:
    return style.code_in_words(visit.codes[0], visit.system)


def _visit_in_words(visit: Visit) -> str:
    when = f"{_admitted(visit)} with " if visit.admitted else ""
    return f"{when}{count(len(visit.codes), 'code')}, first {_first(visit)}"


def _admitted(visit: Visit) -> str:
    return f"{visit.admitted:%B %Y}" if visit.admitted else "a visit"


def _between(one: Visit, other: Visit) -> str:
    """How long lies between two admissions, in months, or in days below a month."""
    if one.admitted is None or other.admitted is None:
        return ""
    days = (other.admitted - one.admitted).days
    if days < DAYS_OF_A_MONTH:
        return f"{count(days, 'day')} later"
    return f"{count(round(days / DAYS_OF_A_MONTH), 'month')} later"


def _titles(record: PatientRecord, codes: Sequence[str], card: float) -> tuple[float, list[str]]:
    """The width of the boxes around codes, and each code's title in one line or two."""
    system = system_of([record])
    chip = 0.14 + max(style.text_width(style.written(c, system), SMALL, MONO) for c in codes)
    room = card - 0.34 - chip
    return chip, [wrapped(style.code_title(code, system), room, SMALL, 2) for code in codes]


def _list_height(record: PatientRecord, codes: Sequence[str], card: float) -> float:
    _, titles = _titles(record, codes, card)
    return sum(_row_height(title) for title in titles) + 0.24


def _row_height(title: str) -> float:
    return 0.37 if "\n" in title else 0.26


def _list_codes(
    c: Canvas,
    record: PatientRecord,
    codes: Sequence[str],
    most: int,
    card: Box,
    y: float,
    outlined: Collection[str] = (),
) -> None:
    """Draw the first codes in boxes with their titles, and how many there are beyond."""
    chip, titles = _titles(record, codes[:most], card.width)
    x = card.x + 0.12
    for code, title in zip(codes, titles, strict=False):
        middle = y + _row_height(title) / 2 - 0.03
        fill, edge = ("paper", FILLS["code"]) if code in outlined else ("code", style.MUTED)
        text = style.written(code, system_of([record]))
        c.box(x, middle - 0.1, chip, 0.2, text, fill=fill, size=SMALL, mono=True, edge=edge)
        c.label((x + chip + 0.1, middle), title, colour=INK)
        y += _row_height(title)
    if len(codes) > most:
        c.label((x, y + 0.1), f"and {len(codes) - most} more")


# ---------------------------------------------------------------------- a code


def draw_code_paths(codes: Sequence[str]) -> Picture:
    """Draw how a code is read: the letters of its category, its path in the tree, all chapters.

    Args:
        codes: ICD-9-CM codes with or without their dot, a row each; all of them have a title.
    """
    codes = [icd9.normalize(code) for code in codes]
    told = "; ".join(
        f"{icd9.dotted(code)}: chapter {icd9.chapter(code).number}, category "
        f"{icd9.category(code)}, {icd9.title(code)}"
        for code in codes
    )
    c = Canvas(
        2.96 + 0.62 * len(codes),
        "A code is a path: chapter, category, detail",
        f"How codes are read. {told}. Below, the {len(icd9.chapters)} chapters with their "
        "categories.",
        subtitle="Dark: the characters that name the category. Light: what makes it more precise",
    )
    y = c.top + 0.16
    columns = {"the code": (MARGIN, 0.0), "chapter": (1.83, 1.3), "category": (3.39, 1.86),
               "this code": (5.51, 1.95)}  # fmt: skip
    for name, (x, _) in columns.items():
        c.label((x, y), name, weight="bold", colour=INK)
    y += 0.18
    for code in codes:
        category, chapter = icd9.category(code), icd9.chapter(code).number
        x = MARGIN
        for place, letter in enumerate(code):
            if place == len(category):
                c.label((x + 0.04, y + 0.3), ".", size=style.TITLE, weight="bold", colour=INK)
                x += 0.13
            fill = "code" if place < len(category) else "encoder"
            c.box(x, y + 0.1, 0.24, 0.3, letter, fill=fill, mono=True, weight="bold")
            x += 0.27
        steps = {
            f"{chapter}: {style.chapter_name(chapter)}": style.chapter_colour(chapter),
            f"{category}: {icd9.title(category)}": "quiet",
            icd9.title(code): "encoder",
        }
        boxes = [
            c.box(x, y, wide, 0.52, wrapped(text, wide - 0.12, SMALL, 3), fill=fill, size=SMALL)
            for (x, wide), (text, fill) in zip(
                list(columns.values())[1:], steps.items(), strict=True
            )
        ]
        for one, other in pairwise(boxes):
            c.arrow(one.side("right"), other.side("left"))
        y += 0.62
    _list_chapters(c, y + 0.1)
    return c.finish()


def _list_chapters(c: Canvas, y: float) -> None:
    """List all chapters in three columns: colour, number, name, and first and last category."""
    heading = "all chapters, with their first and last category"
    c.label((MARGIN, y), heading, weight="bold", colour=INK)
    down, wide = -(-len(icd9.chapters) // 3), (c.width - 2 * MARGIN) / 3
    for i, chapter in enumerate(icd9.chapters):
        x, middle = MARGIN + wide * (i // down), y + 0.24 + 0.22 * (i % down)
        colour = style.chapter_colour(chapter.number)
        c.box(x, middle - 0.09, 0.25, 0.18, f"{chapter.number}", fill=colour, size=SMALL)
        name = style.chapter_name(chapter.number).removesuffix(" (V)").removesuffix(" (E)")
        span = f"{chapter.first}–{chapter.last}"
        room = wide - 0.4 - style.text_width(span, SMALL)
        c.label((x + 0.31, middle), f"{cut(name, room, SMALL)} {span}", colour=INK)


# ---------------------------------------------------------------------- the course
def draw_course_map(lessons: Iterable[str]) -> Picture:
    """Draw what the course builds: one road from tables to new patients, one from notes.

    Args:
        lessons: names of lessons as their files have them, "07_tokenization"; a lesson's number
            stands at the station that it builds. One that builds none of them is left out.
    """
    numbers = {}
    for lesson in lessons:
        number, _, slug = lesson.partition("_")
        numbers[slug] = number
    known = [slug for slug in _STATIONS if slug in numbers]
    c = Canvas(
        4.5,
        "Two roads: from tables to new patients, and from a note to its summary",
        "Map of the course. One road leads from a hospital's tables by way of patients, tokens, "
        "noise and batches to a model with prompts, to new patients and to a report; a second "
        "leads from a note by way of a pointer-generator to a summary. "
        + "; ".join(f"lesson {numbers[slug]}: {_STATIONS[slug]}" for slug in known)
        + ".",
        subtitle="Arrows: where the data go. Numbers: the lesson that builds the station",
    )

    def name(x: float, y: float, text: str, *slugs: str, align: str = "center") -> None:
        """Write the name of a station with the numbers of its lessons before it."""
        found = [numbers[slug] for slug in slugs if slug in numbers]
        width = 0.32 * len(found) + style.text_width(text, SMALL)
        x -= width / 2 if align == "center" else 0
        for number in found:
            c.box(x, y - 0.1, 0.27, 0.2, number, fill=INK, size=SMALL, weight="bold")
            x += 0.32
        c.label((x, y), text, colour=INK)

    # The first row: what is made ready for the model.
    width, high, y = 1.12, 0.6, c.top + 0.04
    gap = (c.width - 2 * MARGIN - 5 * width) / 4
    stations = [Box(MARGIN + i * (width + gap), y, width, high) for i in range(5)]
    tables, patients, tokens, noise, batches = stations
    for one, other in pairwise(stations):
        middle = one.y + high / 2
        c.arrow((one.right + 0.05, middle), (other.x - 0.05, middle))
    _table_icon(c, tables)
    _patient_icon(c, patients)
    _token_icon(c, tokens, masked=False)
    _token_icon(c, noise, masked=True)
    _batch_icon(c, batches)
    below = y + high + 0.17
    name(tables.middle[0], below, "tables")
    name(patients.middle[0], below, "patients", "data_loading")
    name(tokens.middle[0], below, "tokens", "tokenization")
    name(noise.middle[0], below, "noise to repair", "corruption")
    name(batches.middle[0], below, "batches", "data_flow")

    # The second row: the model, and what comes out of it.
    y = below + 0.4
    model = c.box(MARGIN, y, 4.7, 1.28)
    turn = y - 0.16
    c.path(
        [
            (batches.middle[0], below + 0.13),
            (batches.middle[0], turn),
            (model.x + 2.64, turn),
            (model.x + 2.64, y),
        ]
    )
    inner = y + 0.14
    asked = [
        c.box(model.x + 0.16, inner + 0.29 * i, 0.62, 0.25, text, fill="prompt", size=SMALL)
        for i, text in enumerate(("age", "sex"))
    ]
    read = c.box(model.x + 1.08, inner, 1.36, 0.54, "BART reads", fill="encoder")
    write = c.box(model.x + 2.84, inner, 1.36, 0.54, "BART writes", fill="decoder")
    for box in asked:
        c.arrow((box.right, box.middle[1]), (read.x, box.middle[1]))
    c.arrow(read.side("right"), write.side("left"))
    name(asked[0].middle[0], inner + 0.72, "prompts", "conditional_prompt")
    name(
        (read.x + write.right) / 2 + 0.1,
        inner + 0.72,
        "the model, layer by layer",
        "model_architecture",
    )
    tools = inner + 0.98
    name(model.x + 0.1, tools, "losses", "loss_functions", align="left")
    name(model.x + 0.92, tools, "training", "training_loop", align="left")
    name(model.x + 1.8, tools, "guesses age, sex", "multi_task_learning", align="left")
    name(model.x + 3.24, tools, "second hospital", "prefix_tuning", align="left")
    new = Box(model.right + 0.26, y + 0.24, 1.06, high)
    report = Box(c.width - MARGIN - 1.0, y + 0.24, 1.0, high)
    c.arrow((model.right + 0.02, new.middle[1]), (new.x - 0.05, new.middle[1]))
    c.arrow((new.right + 0.05, new.middle[1]), (report.x - 0.05, new.middle[1]))
    _patient_icon(c, new, dashed=True)
    _report_icon(c, report)
    name(new.middle[0], new.bottom + 0.17, "new patients")
    name(report.middle[0], new.bottom + 0.17, "a report", "generation_and_evaluation")
    if "your_own_study" in numbers:
        name(report.middle[0] - 0.16, new.bottom + 0.39, "your own study", "your_own_study")

    # The third row: notes.
    between = model.bottom + 0.1
    c.path([(MARGIN, between), (c.width - MARGIN, between)], colour=style.FAINT, head=False)
    y = model.bottom + 0.22
    note = Box(MARGIN, y, 1.12, high)
    _note_icon(c, note, lines=5)
    pointer = c.box(
        note.right + 0.5, y + 0.04, 2.2, high - 0.08, "pointer-generator", fill="decoder"
    )
    beams = c.box(pointer.right + 0.5, y + 0.04, 1.5, high - 0.08, "search for the\nbest text")
    summary = Box(c.width - MARGIN - 1.0, y, 1.0, high)
    _note_icon(c, summary, lines=2)
    for one, other in pairwise((note, pointer, beams, summary)):
        c.arrow((one.right + 0.05, note.middle[1]), (other.x - 0.05, note.middle[1]))
    below = y + high + 0.16
    name(note.middle[0], below, "a clinical note")
    name(pointer.middle[0], below, "copies words it has never seen", "pointer_generator")
    name(beams.middle[0], below, "avoids repetition", "coverage_and_beam_search")
    name(summary.middle[0], below, "a summary")
    return c.finish()


_STATIONS = {
    "tokenization": "tokens",
    "data_loading": "patients",
    "corruption": "noise to repair",
    "data_flow": "batches",
    "model_architecture": "the model",
    "conditional_prompt": "prompts",
    "multi_task_learning": "guessing age and sex",
    "loss_functions": "losses",
    "training_loop": "training",
    "pointer_generator": "the pointer-generator",
    "coverage_and_beam_search": "the search for the best summary",
    "prefix_tuning": "moving to a second hospital",
    "generation_and_evaluation": "new patients and their report",
    "your_own_study": "a study of your own",
}
"""What each lesson builds, by the name of its file without the number."""


def _table_icon(c: Canvas, place: Box) -> None:
    rows, columns = 4, 3
    wide, high = place.width / columns, place.height / rows
    fills = [["encoder"] * columns] + [["quiet"] * columns] * (rows - 1)
    c.grid(place.x, place.y, fills, cell=(wide, high))


def _patient_icon(c: Canvas, place: Box, *, dashed: bool = False) -> None:
    """Two visits of a patient, on a line."""
    wide = place.width / 2 - 0.06
    for i, codes in enumerate((3, 2)):
        x = place.x + i * (place.width / 2 + 0.06)
        c.box(x, place.y, wide, place.height, dashed=dashed)
        for j in range(codes):
            c.box(x + 0.08, place.y + 0.07 + 0.17 * j, wide - 0.16, 0.12, fill="code")


def _token_icon(c: Canvas, place: Box, *, masked: bool) -> None:
    fills = ["special", "code", "code", "code", "special"]
    if masked:
        fills[2:3] = ["mask"]
    wide = place.width / len(fills)
    for i, fill in enumerate(fills):
        c.box(place.x + wide * i, place.y + 0.16, wide - 0.04, 0.28, fill=fill)


def _batch_icon(c: Canvas, place: Box) -> None:
    fills = [
        ["special", "code", "code", "code", "special"],
        ["special", "code", "special", "quiet", "quiet"],
        ["special", "code", "code", "special", "quiet"],
    ]
    c.grid(place.x, place.y, fills, cell=(place.width / 5, place.height / 3))


def _report_icon(c: Canvas, place: Box) -> None:
    c.box(place.x, place.y, place.width, place.height)
    for i, share in enumerate((0.8, 0.55, 0.3)):
        c.box(place.x + 0.1, place.y + 0.09 + 0.16 * i, share * 0.8, 0.1, fill="encoder")


def _note_icon(c: Canvas, place: Box, *, lines: int) -> None:
    c.box(place.x, place.y, place.width, place.height)
    for i in range(lines):
        share = 0.6 if i == lines - 1 else 1.0
        y = place.y + 0.1 + 0.1 * i
        c.path([(place.x + 0.1, y), (place.x + 0.1 + share * (place.width - 0.2), y)], head=False)


# ---------------------------------------------------------------------- a check


def draw_check(exercise: Any) -> Picture:
    """Draw how a check comes to its outcome: one question after the other.

    Args:
        exercise: has `id`, `chosen`, `fresh_inputs` and `misconceptions`, as an
            `ehr_course.exercises.exercise.Exercise` has them.
    """
    stub, raises, right, remark = questions = (
        "Is the stub\nstill there?",
        "Does your code\nraise an error?",
        f"Right on {len(exercise.chosen)} chosen,\n{exercise.fresh_inputs} random inputs?",
        "Anything\nto remark?",
    )
    untried, error, wrong, remarked = outcomes = (
        "○ not\nattempted yet", "⚠ error in\nyour code", "✘ not yet", "✔ solved,\nwith a remark",
    )  # fmt: skip
    boxes = {question: (i, 0, "paper") for i, question in enumerate(questions)}
    for i, fill in enumerate(("quiet", "trap", "trap", "decoder")):
        boxes[outcomes[i]] = (i, 1, fill)
    boxes["✔ solved"] = (len(questions), 0, "decoder")
    arrows = [
        (stub, untried, "yes"), (stub, raises, "no"),
        (raises, error, "yes"), (raises, right, "no"),
        (right, wrong, "no"), (right, remark, "yes"),
        (remark, remarked, "yes"), (remark, "✔ solved", "no"),
    ]  # fmt: skip
    known = f"{len(exercise.misconceptions)} known"
    return draw_flow(
        boxes,
        arrows,
        "Four questions lead to one of five outcomes",
        f"What check does with your answer to exercise {exercise.id}",
        notes={
            error: "you see your own line",
            wrong: f"you see where; {known}\nmistakes are explained",
        },
    )
