"""The course itself in pictures: a map of what it builds, and how a check comes to its outcome."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, Box, Canvas
from ehr_course.plots.style import Picture, count

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
        width = 0.32 * len(found) + style.text_width(text, style.SMALL)
        x -= width / 2 if align == "center" else 0
        for number in found:
            c.box(x, y - 0.1, 0.27, 0.2, number, fill=style.INK, size=style.SMALL, weight="bold")
            x += 0.32
        c.label((x, y), text, colour=style.INK)

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
        c.box(model.x + 0.16, inner + 0.29 * i, 0.62, 0.25, text, fill="prompt", size=style.SMALL)
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
    chosen, fresh = len(exercise.chosen), exercise.fresh_inputs
    known = len(exercise.misconceptions)
    c = Canvas(
        2.75,
        "Four questions lead to one of five outcomes",
        f"How check({exercise.id}) comes to its outcome: is the stub still there, does the code "
        f"raise, is it right on {count(chosen, 'chosen input')} and "
        f"{count(fresh, 'random input')}; {count(known, 'known mistake')} have a message of "
        "their own.",
        subtitle=f"What check does with your answer to exercise {exercise.id}",
    )
    y, width, high, last = c.top + 0.14, 1.34, 0.62, 0.84
    gap = (c.width - 2 * MARGIN - 4 * width - last) / 4
    questions = (
        "Is the stub\nstill there?",
        "Does your code\nraise an error?",
        f"Right on {chosen} chosen,\n{fresh} random inputs?",
        "Anything to know\nabout the answer?",
    )
    outcomes = (
        ("○ not attempted yet", "", "quiet"),
        ("⚠ error in your code", "you see your own line", "trap"),
        ("✘ not yet", f"you see where; {known} known\nmistakes are explained", "trap"),
        ("✔ solved,\nwith a remark", "", "decoder"),
    )
    answers = (("yes", "no"), ("yes", "no"), ("no", "yes"), ("yes", "no"))
    boxes = []
    for i, (question, (outcome, more, fill), (down, _)) in enumerate(
        zip(questions, outcomes, answers, strict=True)
    ):
        x = MARGIN + i * (width + gap)
        box = c.box(x, y, width, high, question, size=style.SMALL)
        end = c.box(x, y + high + 0.44, width, 0.42, outcome, size=style.SMALL, fill=fill)
        c.arrow(box.side("bottom"), end.side("top"), down)
        c.label((end.middle[0], end.bottom + 0.08), more, align="center", vertical="top")
        boxes.append(box)
    boxes.append(c.box(c.width - MARGIN - last, y + 0.1, last, 0.42, "✔ solved", fill="decoder"))
    for (one, other), (_, on) in zip(pairwise(boxes), answers, strict=True):
        c.arrow(one.side("right"), other.side("left"))
        c.label(((one.right + other.x) / 2, one.middle[1] - 0.12), on, align="center")
    return c.finish()
