"""What became of the rows of each table: used, or dropped for one reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, Canvas
from ehr_course.plots.style import Picture

if TYPE_CHECKING:
    from ehr_course.sources.cohort import LoadReport

_LINE = 0.26
_NAMES, _COUNTS, _REASONS = MARGIN, 2.75, 3.75


def draw_account(report: LoadReport, planted: Mapping[str, int] | None = None) -> Picture:
    """Draw the way of each table's rows: from those read to those used, or to a reason.

    Args:
        report: of a loader.
        planted: rows by reason, where it is known how many were planted.
    """
    planted = planted or {}
    read, used = sum(report.rows_read.values()), sum(report.rows_used.values())
    drops = dict.fromkeys(planted, 0)
    for (_, reason), count in report.dropped.items():
        drops[reason] = drops.get(reason, 0) + count
    total = sum(drops.values())
    if not total and not planted:
        finding = "No row was dropped"
    elif planted and drops == dict(planted):
        finding = (
            f"{total:,} bad rows were planted and {total:,} dropped, "
            "the same number for each reason"
        )
    elif planted:
        finding = f"{sum(planted.values()):,} rows were planted, and {total:,} were dropped"
    else:
        finding = f"{total:,} of {read:,} rows were dropped, each for one reason"
    listed = "; ".join(
        f"{table}, {reason}: {count}" for (table, reason), count in report.dropped.items()
    )
    lines = sum(1 + len(table.drops) for table in report.tables)
    canvas = Canvas(
        1.2 + _LINE * lines + 0.2 * len(report.tables),
        finding,
        f"{read:,} rows were read, {used:,} used, {total:,} dropped. {listed or 'No drops'}.",
        subtitle="Each row is used, or dropped for one reason"
        + (". In brackets: how many such rows were planted" if planted else ""),
    )
    y = canvas.top + 0.16
    for table in report.tables:
        start = canvas.box(
            _NAMES,
            y,
            1.85,
            0.22 if not table.drops else 0.4,
            f"{table.name}{_break(table.drops)}{table.rows_read:,} rows",
            size=style.SMALL,
        )
        ends = [(table.rows_used, "used", "encoder")]
        ends += [(drop.count, drop.reason.value, "trap") for drop in table.drops]
        for i, (count, words, fill) in enumerate(ends):
            middle = y + 0.11 + _LINE * i
            end = canvas.box(_COUNTS, middle - 0.1, 0.8, 0.2, f"{count:,}", fill=fill)
            trunk = start.right + 0.25
            points = [(start.right, y + 0.11), (trunk, y + 0.11), (trunk, middle)]
            canvas.path([*points[: 1 + 2 * bool(i)], (end.x, middle)])
            if words in planted:
                words = f"{words} ({planted[words]:,})"
            canvas.label((_REASONS, middle), words, size=style.TEXT, colour=style.INK)
        y += _LINE * len(ends) + 0.2
    canvas.key(_NAMES, y + 0.08, {"encoder": "in a patient's record", "trap": "dropped"})
    return canvas.finish()


def _break(drops: tuple) -> str:
    return "\n" if drops else ": "
