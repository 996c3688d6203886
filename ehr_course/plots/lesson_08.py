"""What lesson 08 draws: the rows of three tables and their patient, and codes read as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import shorten
from typing import TYPE_CHECKING

from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, MONO, WARNING, Box, Canvas
from ehr_course.plots.style import FAINT, INK, MUTED, SMALL, Picture, count, ink_on, text_width
from ehr_course.records import PatientRecord

if TYPE_CHECKING:
    import polars as pl

ROW, MOST_ROWS, MOST_VISITS = 0.2, 9, 4
TINTS = ("#cfe3e8", "#e9dcc9", "#8fb9c9", "#f6efe2")
"""The paper of a patient's first stay, second, and so on: neighbours differ in grey."""


def draw_tables(
    patients: pl.DataFrame,
    admissions: pl.DataFrame,
    diagnoses: pl.DataFrame,
    record: PatientRecord,
) -> Picture:
    """Draw the rows of one patient in three tables, and the record that they become.

    Rows stand in the order of the file. Each stay has a paper of its own.

    Args:
        patients: with the columns subject_id, gender and dob.
        admissions: with subject_id, hadm_id and admittime, all but the ids as text.
        diagnoses: with hadm_id, seq_num and icd9_code; row_id and subject_id are not drawn.
        record: the patient as a loader made it, with the hadm_id of each visit.
    """
    ids = [visit.hadm_id for visit in record.visits]
    tint = {hadm_id: TINTS[i % len(TINTS)] for i, hadm_id in enumerate(ids)}
    person = patients.filter(subject_id=record.subject_id).select("subject_id", "gender", "dob")
    stays = admissions.filter(subject_id=record.subject_id)
    stays = stays.filter(stays["hadm_id"].is_in(ids)).select("subject_id", "hadm_id", "admittime")
    codes = diagnoses.filter(diagnoses["hadm_id"].is_in(ids))
    codes = codes.drop("row_id", "subject_id", strict=False)
    c = Canvas(
        2.61 + ROW * (1 + min(codes.height, MOST_ROWS)),
        "Three tables hold one patient",
        f"Patient {record.subject_id} in three tables: {count(person.height, 'row')} of "
        f"PATIENTS, {stays.height} of ADMISSIONS, {codes.height} of DIAGNOSES_ICD. Lines by "
        f"SUBJECT_ID and HADM_ID tie them together. Below, the record they become: "
        f"{style.who(record).lower()}, {count(len(record.visits), 'visit')} in time order.",
        subtitle="SUBJECT_ID ties a stay to its patient, and HADM_ID a code to its stay. "
        "Rows are in file order",
    )
    people = _draw_table(c, MARGIN, "PATIENTS", person, [FILLS["prompt"]] * person.height)
    papers = [tint[hadm_id] for hadm_id in stays["hadm_id"]]
    stay_rows = _draw_table(c, 2.78, "ADMISSIONS", stays, papers)
    papers = [tint[hadm_id] for hadm_id in codes["hadm_id"]]
    code_rows = _draw_table(c, 5.4, "DIAGNOSES_ICD", codes, papers)
    row_of = dict(zip(stays["hadm_id"], stay_rows, strict=False))
    ties = [(people[0], row) for row in stay_rows]
    ties += [
        (row_of[hadm_id], row)
        for hadm_id, row in zip(codes["hadm_id"], code_rows, strict=False)
        if hadm_id in row_of
    ]
    for one, other in ties:
        c.arrow(one.side("right"), other.side("left"), head=False, thick=0.8)
    low = max(rows[-1].bottom for rows in (people, stay_rows, code_rows)) + 0.84
    boxes = _draw_record(c, record, low, [tint[hadm_id] for hadm_id in ids])
    for rows, table, end, x, what in (
        (people, person, low, boxes[0].middle[0], "sex, date of birth"),
        (stay_rows, stays, low - 0.12, 3.75, "visits in order of time; the first gives the age"),
        (code_rows, codes, low - 0.12, 6.3, "codes in order of SEQ_NUM"),
    ):
        left_out = 0.16 * (table.height > len(rows))
        c.arrow((x, rows[-1].bottom + left_out + 0.06), (x, end - 0.04), colour=INK)
        c.label((x, low - 0.37), what, colour=INK, align="center", on_line=True)
    c.bracket(boxes[1].x, boxes[-1].right, low - 0.04, "", above=True, colour=INK)
    return c.finish()


def _draw_table(
    c: Canvas, x: float, name: str, table: pl.DataFrame, papers: Sequence[str]
) -> list[Box]:
    """Draw the head and the first rows of a table, times without their hours."""
    heads = [column.upper() for column in table.columns]
    # Ten letters: a date, or a time without its hours.
    texts = [["" if v is None else str(v)[:10] for v in row] for row in table.rows()[:MOST_ROWS]]
    widths = [
        max(text_width(text, SMALL, MONO) for text in column) + 0.12
        for column in zip(heads, *texts, strict=True)
    ]
    y = c.top + 0.2
    c.label((x, y), name, colour=INK, weight="bold")
    y += 0.12
    c.strip(x, y, heads, fills="quiet", widths=widths, height=ROW, gap=0, edge=FAINT)
    rows = []
    for text, paper in zip(texts, papers, strict=False):
        y += ROW
        c.strip(x, y, text, fills=paper, widths=widths, height=ROW, gap=0, edge=FAINT)
        rows.append(Box(x, y, sum(widths), ROW))
    if table.height > len(rows):
        c.label((x + 0.06, y + ROW + 0.1), f"and {count(table.height - len(rows), 'more row')}")
    return rows


def _draw_record(c: Canvas, record: PatientRecord, y: float, papers: Sequence[str]) -> list[Box]:
    """Draw who the patient is, and each visit with as many codes as there is room for."""
    boxes = [c.box(MARGIN, y, 1.35, 0.62, style.who(record).replace(", ", "\n"), fill="prompt")]
    visits = record.visits[:MOST_VISITS]
    left_out = len(record.visits) - len(visits)
    x, gap = boxes[0].right + 0.12, 0.08
    free = c.width - MARGIN - (0.75 if left_out else 0.0) - x - gap * (len(visits) - 1)
    wanted = [max(0.95, _codes_width(visit.codes)) for visit in visits]
    for visit, want, paper in zip(visits, wanted, papers, strict=False):
        width = want * free / sum(wanted)
        box = c.box(x, y, width, 0.62, fill=paper)
        boxes.append(box)
        day = f"{visit.admitted:%Y-%m-%d}" if visit.admitted else str(visit.hadm_id)
        c.label((x + 0.08, y + 0.14), day, colour=ink_on(paper), mono=True, inside=box)
        codes, shown = list(visit.codes), len(visit.codes)
        while _codes_width(codes) > width and shown > 1:
            shown -= 1
            codes = [*visit.codes[:shown], f"+{len(visit.codes) - shown}"]
        fills = ["quiet" if code.startswith("+") else "code" for code in codes]
        c.strip(x + 0.06, y + 0.28, codes, fills=fills, height=0.26, gap=0.04)
        x += width + gap
    if left_out:
        c.label((x, y + 0.31), f"and {left_out} more", colour=INK)
    return boxes


def _codes_width(codes: Sequence[str]) -> float:
    """The width of a visit's box, in inches, that holds these codes side by side."""
    return sum(text_width(code, SMALL, MONO) + 0.18 for code in codes) + 0.1


def draw_lost_zeros(codes: Sequence[tuple[str, str, str, str]]) -> Picture:
    """Draw codes as they stand in a file, and what a detour through numbers makes of them.

    Args:
        codes: of each the text in the file, what it means, the text after the detour, and what
            that means.
    """
    said = [
        f"{old or 'nothing'} ({means}) becomes {new} ({now})" for old, means, new, now in codes
    ]
    c = Canvas(
        1.22 + 0.56 * len(codes),
        "What does a detour through numbers make of a code?",
        "; ".join(said) + ".",
    )
    places = MARGIN, 4.1
    for x, heading in zip(places, ("in the file", "after the detour"), strict=True):
        c.label((x, c.top + 0.1), heading, colour=INK, weight="bold")
    for row, (old, means, new, now) in enumerate(codes):
        y = c.top + 0.28 + 0.56 * row
        zeros = len(old) - len(old.lstrip(str(0)))
        fills = ["code"] * zeros + ["paper"] * max(1, len(old) - zeros)
        before = c.strip(places[0], y, list(old or " "), fills=fills[: max(1, len(old))],
                         widths=0.2, height=0.24, gap=0)  # fmt: skip
        c.strip(places[1], y, list(new), fills="trap", widths=0.2, height=0.24, gap=0)
        c.arrow((before[-1].right + 0.1, y + 0.12), (places[1] - 0.1, y + 0.12))
        for x, text, colour in ((places[0], means, MUTED), (places[1], now, WARNING)):
            c.label((x, y + 0.35), shorten(text, 52, placeholder=" …"), colour=colour)
    end = c.top + 0.28 + 0.56 * len(codes)
    c.key(MARGIN, end + 0.12, {"code": "a zero that is part of the code", "trap": "changed"})
    return c.finish()
