"""The drawings of lesson 08 on tables: from the rows of a hospital to patients."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from ehr_course.icd import icd9
from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, MARGIN, MONO, WARNING, Box, Canvas
from ehr_course.plots.style import Picture
from ehr_course.records import PatientRecord

if TYPE_CHECKING:
    import polars as pl

_ROW = 0.2
_TINTS = ("#cfe3e8", "#e9dcc9", "#8fb9c9", "#f6efe2")
"""The paper of a patient's first stay, second, and so on: neighbours differ in grey."""

_ZERO = str(0)

# ---------------------------------------------------------------------- three tables, one patient


class _Table(NamedTuple):
    rows: list[Box]
    bottom: float
    right: float


def draw_tables(
    patients: pl.DataFrame,
    admissions: pl.DataFrame,
    diagnoses: pl.DataFrame,
    record: PatientRecord,
    *,
    most_rows: int = 9,
) -> Picture:
    """Draw the rows of one patient in three tables, and the record that they become.

    Rows stand in the order of the file. Each stay has a paper of its own.

    Args:
        patients: with the columns subject_id, gender and dob.
        admissions: with subject_id, hadm_id and admittime, all but the ids as text.
        diagnoses: with hadm_id, seq_num and icd9_code; row_id and subject_id are not drawn.
        record: the patient as a loader made it, with the hadm_id of each visit.
        most_rows: how many rows of a table are drawn.
    """
    ids = [visit.hadm_id for visit in record.visits]
    tint = {hadm_id: _TINTS[i % len(_TINTS)] for i, hadm_id in enumerate(ids)}
    person = patients.filter(subject_id=record.subject_id).select("subject_id", "gender", "dob")
    stays = admissions.filter(subject_id=record.subject_id)
    stays = stays.filter(stays["hadm_id"].is_in(ids)).select("subject_id", "hadm_id", "admittime")
    codes = diagnoses.filter(diagnoses["hadm_id"].is_in(ids))
    codes = codes.drop("row_id", "subject_id", strict=False)
    canvas = Canvas(
        2.61 + _ROW * (1 + min(codes.height, most_rows)),
        "Three tables hold one patient",
        f"Patient {record.subject_id} in three tables: {style.count(person.height, 'row')} of "
        f"PATIENTS, {stays.height} of ADMISSIONS, {codes.height} of DIAGNOSES_ICD. Lines by "
        f"SUBJECT_ID and HADM_ID tie them together. Below, the record they become: "
        f"{style.who(record).lower()}, {style.count(len(record.visits), 'visit')} in time order.",
        subtitle="SUBJECT_ID ties a stay to its patient, and HADM_ID a code to its stay. "
        "Rows are in file order",
    )
    top = canvas.top + 0.2
    papers = [FILLS["prompt"]] * person.height
    here = _table(
        canvas, MARGIN, top, "PATIENTS", person.rows(), person.columns, papers, most_rows
    )
    papers = [tint[hadm_id] for hadm_id in stays["hadm_id"]]
    there = _table(canvas, 2.78, top, "ADMISSIONS", stays.rows(), stays.columns, papers, most_rows)
    papers = [tint[hadm_id] for hadm_id in codes["hadm_id"]]
    far = _table(canvas, 5.4, top, "DIAGNOSES_ICD", codes.rows(), codes.columns, papers, most_rows)
    for row in there.rows:
        _tie(canvas, here.rows[0], row)
    shown = dict(zip(stays["hadm_id"].to_list(), there.rows, strict=False))
    for hadm_id, row in zip(codes["hadm_id"], far.rows, strict=False):
        if hadm_id in shown:
            _tie(canvas, shown[hadm_id], row)
    low = max(here.bottom, there.bottom, far.bottom) + 0.68
    boxes = _record(canvas, record, low, [tint[hadm_id] for hadm_id in ids])
    over = low - 0.12  # where the bracket over all visits lies
    for table, end, at, what in (
        (here, low, boxes[0].middle[0], "sex, date of birth"),
        (there, over, 3.75, "visits in order of time; the first gives the age"),
        (far, over, 6.3, "codes in order of SEQ_NUM"),
    ):
        canvas.arrow((at, table.bottom + 0.06), (at, end - 0.04), colour=style.INK)
        canvas.label((at, low - 0.37), what, colour=style.INK, align="center", on_line=True)
    canvas.bracket(boxes[1].x, boxes[-1].right, low - 0.04, "", above=True, colour=style.INK)
    return canvas.finish()


def _table(
    canvas: Canvas,
    x: float,
    y: float,
    name: str,
    rows: Sequence[tuple],
    columns: Sequence[str],
    papers: Sequence[str],
    most: int,
) -> _Table:
    """Draw the head and the first rows of a table; times without their hours."""
    texts = [[_short(value) for value in row] for row in rows[:most]]
    heads = [column.upper() for column in columns]
    widths = [
        max(style.text_width(text, style.SMALL, MONO) for text in column) + 0.12
        for column in zip(heads, *texts, strict=True)
    ]
    canvas.label((x, y), name, colour=style.INK, weight="bold")
    y += 0.12
    canvas.strip(x, y, heads, fills="quiet", widths=widths, height=_ROW, gap=0, edge=style.FAINT)
    drawn = []
    for i, text in enumerate(texts):
        y += _ROW
        cells = canvas.strip(
            x,
            y,
            text,
            fills=papers[i] if papers else "paper",
            widths=widths,
            height=_ROW,
            gap=0,
            edge=style.FAINT,
        )
        drawn.append(Box(x, y, cells[-1].right - x, _ROW))
    y += _ROW
    if len(rows) > most:
        y += 0.16
        canvas.label((x + 0.06, y - 0.06), f"and {style.count(len(rows) - most, 'more row')}")
    return _Table(drawn, y, x + sum(widths))


def _short(value: object) -> str:
    """A value in a narrow column: a time is cut to its day."""
    text = "" if value is None else str(value)
    return text[:10] if ":" in text else text[:10].strip()


def _tie(canvas: Canvas, one: Box, other: Box) -> None:
    canvas.arrow(one.side("right"), other.side("left"), head=False, thick=0.8)


def _record(canvas: Canvas, record: PatientRecord, y: float, papers: Sequence[str]) -> list[Box]:
    """Draw who the patient is, and each visit with as many codes as there is room for."""
    who = canvas.box(
        MARGIN,
        y,
        1.35,
        0.62,
        style.who(record).replace(", ", "\n"),
        fill="prompt",
        size=style.TEXT,
    )
    x, gap = who.right + 0.12, 0.08
    visits = record.visits[:4]
    left_out = len(record.visits) - len(visits)
    end = canvas.width - MARGIN - (0.75 if left_out else 0.0)
    wants = [max(0.95, _codes_width(visit.codes)) for visit in visits]
    free = end - x - gap * (len(visits) - 1)
    widths = [want * free / sum(wants) for want in wants]
    boxes = [who]
    for visit, width, paper in zip(visits, widths, papers, strict=False):
        box = canvas.box(x, y, width, 0.62, fill=paper)
        boxes.append(box)
        day = f"{visit.admitted:%Y-%m-%d}" if visit.admitted else str(visit.hadm_id)
        canvas.label((x + 0.08, y + 0.14), day, colour=style.ink_on(paper), mono=True, inside=box)
        codes = list(visit.codes)
        while _codes_width(codes) > width and len(codes) > 1:
            codes = [*visit.codes[: len(codes) - 2], _more(len(visit.codes) - len(codes) + 2)]
        fills = ["quiet" if code.startswith("+") else "code" for code in codes]
        canvas.strip(x + 0.06, y + 0.28, codes, fills=fills, height=0.26, gap=0.04)
        x += width + gap
    if left_out:
        canvas.label((x, y + 0.31), f"and {left_out} more", colour=style.INK)
    return boxes


def _codes_width(codes: Sequence[str]) -> float:
    """The width of a visit's box, in inches, that holds these codes side by side."""
    letters = sum(style.text_width(code, style.SMALL, MONO) for code in codes)
    return letters + 0.18 * len(codes) + 0.1


def _more(count: int) -> str:
    return f"+{count}"


# ---------------------------------------------------------------------- codes


def draw_lost_zeros(pairs: Sequence[tuple[str | None, str]]) -> Picture:
    """Draw codes as the file has them and what a reader of numbers makes of them.

    Args:
        pairs: what is in the file, None where nothing is, and the text after the detour.
    """
    lost = [code for code, text in pairs if code is not None and code != _digits(text)]
    canvas = Canvas(
        1.22 + 0.56 * len(pairs),
        "Read as a number, a code loses its zero and its meaning"
        if lost
        else "Read as a number, these codes survive",
        "What becomes of codes that are read as numbers: "
        + "; ".join(f"{code or 'nothing'} becomes {text}" for code, text in pairs)
        + ".",
    )
    places = MARGIN, 4.1
    for x, words in zip(places, ("in the file", "after a detour through numbers"), strict=True):
        canvas.label((x, canvas.top + 0.1), words, colour=style.INK, weight="bold")
    y = canvas.top + 0.28
    room = 3.05
    for code, text in pairs:
        wrong = code is None or code != _digits(text)
        ends = []
        for x, word, spoilt in ((places[0], code, False), (places[1], text, wrong)):
            fill = "trap" if spoilt else "paper"
            letters = list(word) if word else [" "]
            fills = [fill] * len(letters)
            if not spoilt and word and wrong:
                zeros = len(word) - len(word.lstrip(_ZERO))
                fills = ["code"] * zeros + fills[zeros:]
            cells = canvas.strip(x, y, letters, fills=fills, widths=0.2, height=0.24, gap=0)
            ends.append(cells)
            meaning = _meaning(word, is_empty=word is None)
            canvas.label(
                (x, y + 0.35),
                _cut(meaning, room),
                colour=WARNING if spoilt else style.MUTED,
            )
        middle = y + 0.12
        canvas.arrow((ends[0][-1].right + 0.1, middle), (places[1] - 0.1, middle))
        y += 0.56
    canvas.key(MARGIN, y + 0.12, {"code": "a zero that is part of the code", "trap": "changed"})
    return canvas.finish()


def _digits(text: str) -> str:
    """A number without the decimals that a reader of numbers adds."""
    whole, dot, decimals = text.partition(".")
    return whole if dot and not decimals.strip(_ZERO) else text


def _meaning(text: str | None, *, is_empty: bool) -> str:
    if is_empty:
        return "missing"
    if text is None or not icd9.is_code(text):
        return "not a valid code"
    return style.code_title(icd9.normalize(text)) or "not a valid code"


def _cut(text: str, room: float) -> str:
    """A text that fits into so many inches, shortened at a word where it is too long."""
    words = text.split()
    kept: list[str] = []
    for word in words:
        if style.text_width(" ".join([*kept, word, "..."]), style.SMALL) > room:
            return " ".join([*kept, "..."])
        kept.append(word)
    return text


# ---------------------------------------------------------------------- order


def draw_orders(stays: Sequence[tuple[int, int, datetime]]) -> Picture:
    """Draw the stays of one patient in the order of the file, of HADM_ID, and of time.

    Args:
        stays: for each, its row in the file, its hadm_id, and its time of admission; two to six.
    """
    orders = {
        "in the file": sorted(stays, key=lambda stay: stay[0]),
        "by HADM_ID": sorted(stays, key=lambda stay: stay[1]),
        "by ADMITTIME": sorted(stays, key=lambda stay: (stay[2], stay[1])),
    }
    right = orders["by ADMITTIME"]
    wrong = [name for name, order in orders.items() if order != right]
    finding = {
        0: "Here every order is that of time",
        1: f"The order {''.join(wrong)} is not that of time",
        2: "Neither the file nor HADM_ID knows the order of time",
    }[len(wrong)]
    canvas = Canvas(
        2.75,
        finding,
        f"{len(stays)} stays of one patient in three orders, lines joining each stay to itself. "
        + " ".join(
            f"{name[0].upper()}{name[1:]}: {', '.join(str(stay[1]) for stay in order)}."
            for name, order in orders.items()
        ),
        subtitle="One patient's stays as boxes, each with its HADM_ID. A line joins the same stay",
    )
    left = 1.25
    width = min(1.45, (canvas.width - MARGIN - left) / len(stays) - 0.1)
    rank = {stay: i for i, stay in enumerate(right)}
    above: dict = {}
    y = canvas.top + 0.14
    for name, order in orders.items():
        canvas.label((left - 0.12, y + 0.14), name, align="right", colour=style.INK)
        boxes = {}
        for i, stay in enumerate(order):
            boxes[stay] = canvas.box(
                left + i * (width + 0.1),
                y,
                width,
                0.28,
                str(stay[1]),
                fill=_TINTS[rank[stay] % len(_TINTS)],
                size=style.SMALL,
                mono=True,
            )
        for stay, box in boxes.items():
            if stay in above:
                canvas.arrow(above[stay].side("bottom"), box.side("top"), head=False)
        above = boxes
        y += 0.62
    for stay, box in above.items():
        canvas.label((box.middle[0], box.bottom + 0.12), f"{stay[2]:%Y-%m-%d}", align="center")
    return canvas.finish()
