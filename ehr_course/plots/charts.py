"""The charts of the lessons: bars, dots, lines and heat maps, each drawn from one mapping.

The alternative text is read off the same mapping, so that picture and text cannot disagree. Where
none of the four says it, :func:`blank_chart` gives empty axes for plain matplotlib.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import matplotlib.axes
import matplotlib.colors
import numpy as np
from matplotlib.axis import Axis
from matplotlib.cbook import normalize_kwargs
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator, PercentFormatter

from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, WARNING
from ehr_course.plots.style import FAINT, INK, MUTED, SMALL, Picture, course_style

Bars = Mapping[str, float | None]
"""The length of each bar by its name; None where there is no bar."""

Dots = Mapping[str, Sequence[float]]
"""The values of each row by its name."""

Curves = Mapping[str, Mapping[float, float]]
"""For each curve by its name, y by x."""

Table = Mapping[str, Mapping[str, float | None]]
"""The number of each cell by row and column; None for an empty cell."""

BAR_FILLS = ("code", "encoder", "quiet", "decoder", "prompt")
LINE_COLOURS = (FILLS["code"], FILLS["mask"], MUTED)
MOST_LISTED = 8
"""So many values of a row or a curve stand in an alternative text; of more, only some do."""


class ChartAxes(matplotlib.axes.Axes):
    """Axes whose words are as small as those of the other charts, if no size is given."""

    def text(self, *args: Any, **options: Any) -> Any:
        """Write a text, as matplotlib does."""
        return super().text(*args, **_small(options))

    def annotate(self, *args: Any, **options: Any) -> Any:
        """Write a text beside a point, as matplotlib does."""
        return super().annotate(*args, **_small(options))

    def set_title(self, *args: Any, **options: Any) -> Any:
        """Write a title above the axes, as matplotlib does."""
        return super().set_title(*args, **_small(options))

    def bar(self, *args: Any, **options: Any) -> Any:
        """Draw bars with an outline, so that pale ones are seen; ``barh`` comes here, too."""
        given = normalize_kwargs(options, Rectangle)
        return super().bar(*args, **{"edgecolor": MUTED, "linewidth": 0.9, **given})

    def legend(self, *args: Any, **options: Any) -> Any:
        """Draw a legend without a frame, as matplotlib does with one."""
        return super().legend(*args, **{"fontsize": SMALL, "frameon": False, **options})


def _small(options: dict[str, Any]) -> dict[str, Any]:
    return options if {"size", "fontsize"} & set(options) else {"fontsize": SMALL, **options}


@course_style()
def blank_chart(
    title: str,
    words: str,
    how: str = "",
    *,
    height: float = 2.8,
    rows: int = 1,
    columns: int = 1,
    **options: Any,
) -> tuple[Picture, Any]:
    """Return a picture and its empty axes, as ``plt.subplots`` does, for a chart of your own.

    Let the picture be the last line of the cell.

    Args:
        title: a question, or what is true on any data.
        words: the alternative text, without the title: one or two sentences on what is seen.
        how: a second line in small print: how to read the chart.
        height: of the picture, in inches.
        rows: how many rows of axes there are; with several axes an array of them is returned.
        columns: how many axes stand side by side.
        options: for ``Figure.subplots``, such as ``sharey``.

    >>> picture, axes = blank_chart("Does the loss fall?", "One curve, from 2.0 to 1.0.")
    >>> lines = axes.plot([0, 1], [2.0, 1.0])
    >>> picture.alternative_text
    'Does the loss fall? One curve, from 2.0 to 1.0.'
    """
    stop = "" if title.endswith(("?", "!", ".")) else "."
    said = " ".join(filter(None, (title + stop, how and how.rstrip(".") + ".", words)))
    picture = Picture(style.WIDTH, height, said)
    picture.text(0.14 / style.WIDTH, 1 - 0.26 / height, title, weight="bold", size=style.TITLE,
                 va="center")  # fmt: skip
    picture.text(0.14 / style.WIDTH, 1 - 0.52 / height, how, size=SMALL, color=MUTED, va="center")
    top = 0.7 if how else 0.46
    # Without pyplot the layout is computed when the picture is drawn, around all labels.
    picture.set_layout_engine("constrained", rect=(0.012, 0.02, 0.97, 0.98 - top / height))
    axes = picture.subplots(rows, columns, subplot_kw={"axes_class": ChartAxes}, **options)
    for one in np.ravel(axes):
        one.set_prop_cycle(color=LINE_COLOURS, linestyle=style.DASHES)
        one.tick_params(labelsize=SMALL)
        one.xaxis.label.set_size(SMALL)
        one.yaxis.label.set_size(SMALL)
    return picture, axes


@course_style()
def draw_bars(
    bars: Bars | Mapping[str, Bars],
    title: str,
    how: str = "",
    *,
    inner: Literal["names", "key", "columns"] = "names",
    form: str | Mapping[str, str] = "{:.3f}",
    notes: Mapping[Any, str] = {},
    warn: Collection[Any] = (),
    line: float | Mapping[str, float] | None = None,
    worse_than: str | None = None,
) -> Picture:
    """Draw bars, alone or in groups.

    Args:
        bars: by its name, the length of each bar; or such mappings by the name of a group.
        title: a question, or what is true on any data.
        how: how to read it, in small print.
        inner: where the bars of a group are told apart: by names beside them, by colours with a
            key, or by columns.
        form: how a value is written, for all bars or by the name of a bar. Columns have one scale
            if it is one for all, else each has a scale of its own.
        notes: what is written after a value, by (group, bar), or by the bar if all are alone.
        warn: what is drawn as wrong: names of groups or bars, or pairs (group, bar).
        line: where a dashed line is drawn through all bars, or by column.
        worse_than: a bar of each group through whose end a line is drawn; longer ones are wrong.
    """
    groups = _grouped(bars, 1)
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    wrong = {
        (group, name)
        for group, of in groups.items()
        for name, value in of.items()
        if not {group, name, (group, name)}.isdisjoint(warn)
        or (worse_than is not None and (value or 0) > (of[worse_than] or 0))
    }

    def written(group: str, name: str) -> str:
        value = groups[group][name]
        pattern = form if isinstance(form, str) else form[name]
        note = notes.get((group, name)) or (notes.get(name) if group == "" else None)
        return ", ".join(filter(None, ("" if value is None else pattern.format(value), note)))

    said = [
        _sentence(group, [f"{name} {written(group, name)}".strip() for name in of])
        for group, of in groups.items()
    ]
    headed = inner == "names" and len(groups) > 1
    places: dict[tuple[str, str], float] = {}
    y = 0.0
    for group, of in groups.items():
        y += headed
        for name in of:
            places[group, name] = y
            y += inner != "columns"
        y += 1.0 if inner == "columns" else 0.5
    height = 0.75 + 0.22 * y + 0.25 * (inner != "names") + (0.1 + 0.12 * y) * (inner == "columns")
    picture, panels = blank_chart(
        title, " ".join([*said, *_lines_said(line)]), how, height=height + 0.2 * bool(how),
        columns=len(names) if inner == "columns" else 1, sharey=True, sharex=isinstance(form, str),
    )  # fmt: skip
    panels = list(np.ravel(panels))
    for (group, name), y in places.items():
        column = names.index(name)
        axes = panels[column if inner == "columns" else 0]
        value, bad = groups[group][name] or 0.0, (group, name) in wrong
        fill = BAR_FILLS[column % len(BAR_FILLS)] if inner == "key" else BAR_FILLS[0]
        axes.barh(y, value, 0.84 if inner != "columns" else 0.6,
                  color=FILLS["trap" if bad else fill], hatch="////" if bad else None)  # fmt: skip
        reference = groups[group].get(worse_than or "") or 0.0
        end = max(value, reference if worse_than else 0.0)
        axes.annotate(written(group, name), (end, y), (4, 0), textcoords="offset points",
                      va="center_baseline", size=SMALL, color=WARNING if bad else INK)  # fmt: skip
    for group, of in groups.items():
        ends = [places[group, name] for name in of]
        if worse_than:
            panels[0].vlines(of[worse_than], min(ends) - 0.5, max(ends) + 0.5, INK, linewidth=1.2)
        if headed:  # The line at zero leaves out the heading.
            panels[0].vlines(0, min(ends) - 0.5, max(ends) + 0.5, MUTED, linewidth=0.9)
            panels[0].annotate(group, (0, ends[0] - 0.95), xycoords=("axes fraction", "data"),
                               size=style.TEXT, weight="bold", va="center_baseline")  # fmt: skip
    ticks = (
        {y: name for (_, name), y in places.items()}
        if inner == "names"
        else {
            float(np.mean([places[group, name] for name in of])): group
            for group, of in groups.items()
        }
    )
    for axes, name in zip(panels, names if inner == "columns" else [""], strict=True):
        axes.set(yticks=list(ticks), xticks=[], ylim=(max(places.values()) + 0.6, -0.6))
        axes.set_yticklabels([textwrap.fill(tick, 38) for tick in ticks.values()])
        axes.tick_params(
            length=0, labelsize=style.TEXT if inner == "key" and len(ticks) <= 5 else SMALL
        )
        axes.spines[:].set_visible(False)
        if not headed:
            axes.axvline(0, color=MUTED, linewidth=0.9)
        axes.set_title(textwrap.fill(name, 60 // len(panels)), size=SMALL, loc="left")
        _draw_line(axes.axvline, line, name)
    if inner == "key":
        _bar_key(picture, {name: all((g, name) in wrong for g in groups) for name in names})
    return picture


@course_style()
def draw_dots(
    rows: Dots | Mapping[str, Dots],
    title: str,
    how: str = "",
    *,
    across: str = "",
    form: str = "{:.3g}",
    mark: Literal["", "mean", "range"] = "",
    notes: Mapping[Any, str] = {},
    warn: Collection[Any] = (),
    line: float | Mapping[str, float] | None = None,
) -> Picture:
    """Draw a dot for each value of a row; equal values stand one above the other.

    Args:
        rows: by name, the values of each row; or such mappings by the title of a panel, each with
            a scale of its own.
        title: a question, or what is true on any data.
        how: how to read it, in small print.
        across: what the values are.
        form: how a value is written.
        mark: also draw a tick at the mean of each row, or a bar from its lowest to its highest.
        notes: what is written at the end of a row, by row, or by (panel, row).
        warn: what is drawn in the colour of a warning, as diamonds: rows, or pairs (panel, row).
        line: where an upright line is drawn, in all panels or by panel.
    """
    panels = _grouped(rows, 1)
    names = list(next(iter(panels.values())))
    said = []
    for panel, of in panels.items():
        parts = []
        for name, values in of.items():
            note = notes.get((panel, name), notes.get(name, ""))
            mean = f"mean {form.format(np.mean(values))}" if mark == "mean" else ""
            listed = " and ".join(_listed(values, form).rsplit(", ", 1))
            extra = "; ".join(dict.fromkeys(filter(None, (mean, note))))
            parts.append(f"{name}: {listed}" + (f" ({extra})" if extra else ""))
        said.append(_sentence(panel, parts, "; "))
    picture, all_axes = blank_chart(
        title, " ".join([*said, *_lines_said(line)]), how, height=1.2 + 0.34 * len(names),
        columns=len(panels), sharey=True,
    )  # fmt: skip
    for axes, (panel, of) in zip(np.ravel(all_axes), panels.items(), strict=True):
        _draw_line(axes.axvline, line, panel)
        for y, name in enumerate(names):
            values = list(of[name])
            bad = not {name, (panel, name)}.isdisjoint(warn)
            colour = WARNING if bad else FILLS["code"]
            axes.axhline(y, color=FAINT, linewidth=0.8, zorder=0)
            axes.plot(values, _stacked(values, y), "D" if bad else "o", color=colour, alpha=0.8,
                      markersize=5, clip_on=False)  # fmt: skip
            if mark == "mean":
                axes.vlines(np.mean(values), y - 0.32, y + 0.32, INK, linewidth=2)
            if mark == "range":
                axes.hlines(y, min(values), max(values), colour, linewidth=8, alpha=0.3)
            note = notes.get((panel, name), notes.get(name, ""))
            axes.annotate(note, (1.02, y), xycoords=("axes fraction", "data"), size=SMALL,
                          va="center_baseline", color=WARNING if bad else INK)  # fmt: skip
        axes.set(yticks=range(len(names)), ylim=(len(names) - 0.4, -0.6), xlabel=across)
        axes.set_yticklabels(names)
        axes.xaxis.set_major_locator(MaxNLocator(8 // len(panels) + 1, steps=[1, 2, 5, 10]))
        if "%" in form:
            _in_percent(axes.xaxis, [value for values in of.values() for value in values])
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.set_title(panel, size=SMALL, loc="left")
    return picture


@course_style()
def draw_lines(
    curves: Curves | Mapping[str, Curves],
    title: str,
    how: str = "",
    *,
    across: str = "",
    up: str = "",
    form: str = "{:.2f}",
    warn: Collection[str] = (),
    line: float | Mapping[str, float] | None = None,
) -> Picture:
    """Draw curves, each with its name and last value at its end.

    Args:
        curves: by name, y by x; or such mappings by the title of a panel, all on one scale, where
            a key names the curves.
        title: a question, or what is true on any data.
        how: how to read it, in small print.
        across: what x is.
        up: what y is.
        form: how a y is written.
        warn: the curves that are drawn in the colour of a warning.
        line: where a level line is drawn, in all panels or by panel.
    """
    panels = _grouped(curves, 2)
    said = []
    for panel, of in panels.items():
        parts = [f"{name}: {_curve_said(curve, form)}" for name, curve in of.items()]
        said.append(_sentence(panel, parts, "; "))
    picture, all_axes = blank_chart(
        title, " ".join([*said, *_lines_said(line)]), how, height=2.7, columns=len(panels),
        sharey=True,
    )  # fmt: skip
    names = list(dict.fromkeys(name for of in panels.values() for name in of))
    good = [name for name in names if name not in warn]
    looks = {
        name: (WARNING, (0, (5, 2)), "D") if name in warn else _look(good.index(name))
        for name in names
    }
    for axes, (panel, of) in zip(np.ravel(all_axes), panels.items(), strict=True):
        _draw_line(axes.axhline, line, panel)
        for name, curve in of.items():
            colour, dashes, marker = looks[name]
            axes.plot(list(curve), list(curve.values()), color=colour, linestyle=dashes,
                      linewidth=1.8, marker=marker if len(curve) <= 20 else None, markersize=4,
                      label=name)  # fmt: skip
        axes.set(xlabel=across, ylabel=up if axes is np.ravel(all_axes)[0] else "")
        if "%" in form:
            _in_percent(axes.yaxis, [y for curve in of.values() for y in curve.values()])
        axes.set_title(panel, size=SMALL, loc="left")
    if len(panels) == 1:
        _name_ends(all_axes, panels[""], {name: look[0] for name, look in looks.items()}, form)
    else:
        handles = {h.get_label(): h for axes in all_axes for h in axes.get_lines()}
        picture.legend(handles=[handles[name] for name in names], loc="outside lower left",
                       ncols=3)  # fmt: skip
    return picture


@course_style()
def draw_heat(
    tables: Table | Mapping[str, Table],
    title: str,
    how: str = "",
    *,
    form: str = "{:.0%}",
    largest: float = 1.0,
    across: str = "",
    down: str = "",
    framed: Collection[Any] = (),
) -> Picture:
    """Draw tables whose cells are the darker, the larger their number.

    Args:
        tables: by row and column, a number from 0 up; or such tables by the title of a panel, all
            with the same rows.
        title: a question, or what is true on any data.
        how: how to read it, in small print.
        form: how a number is written in its cell; "" for cells without numbers.
        largest: the number of the darkest cell.
        across: what the columns are.
        down: what the rows are.
        framed: the cells with a frame: (row, column), or (panel, row, column).
    """
    panels = _grouped(tables, 2)
    rows = list(next(iter(panels.values())))
    said = [_table_said(panel, table, form) for panel, table in panels.items()]
    n_columns = sum(len(next(iter(table.values()))) for table in panels.values())
    headings = [column for table in panels.values() for column in next(iter(table.values()))]
    widest = max(style.text_width(line, SMALL) for name in headings for line in name.split("\n"))
    lines = max(1 + name.count("\n") for name in headings)
    turned = widest > 5.5 / n_columns
    height = 1.0 + 0.2 * bool(how) + 0.28 * len(rows) + (widest if turned else 0.15 * lines)
    picture, all_axes = blank_chart(
        title, " ".join(said), how, height=height + 0.4 * (len(panels) > 1) + 0.2 * bool(across),
        columns=len(panels), sharey=True,
    )  # fmt: skip
    for axes, (panel, table) in zip(np.ravel(all_axes), panels.items(), strict=True):
        columns = list(next(iter(table.values())))
        numbers = np.array([[row[column] or 0.0 for column in columns] for row in table.values()])
        colours = _blues(numbers / largest)
        for y, row in enumerate(table):
            for x, column in enumerate(columns):
                value = table[row][column]
                fill = FILLS["quiet"] if value is None else colours[y][x]
                framed_here = not {(row, column), (panel, row, column)}.isdisjoint(framed)
                axes.add_patch(Rectangle(
                    (x - 0.5, y - 0.5), 1, 1, facecolor=fill,
                    edgecolor=WARNING if framed_here else FAINT,
                    linewidth=2.2 if framed_here else 0.8, zorder=3 if framed_here else 2,
                ))  # fmt: skip
                if form and value is not None:
                    axes.text(x, y, form.format(value), size=SMALL, color=style.ink_on(fill),
                              ha="center", va="center_baseline", zorder=4)  # fmt: skip
        axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(rows) - 0.5, -0.5))
        axes.set_xticks(range(len(columns)), columns, rotation=90 if turned else 0)
        axes.set_yticks(range(len(rows)), rows)
        axes.tick_params(length=0, labeltop=True, labelbottom=False)
        axes.spines[:].set_visible(False)
        axes.set_title(textwrap.fill(panel, 72 // len(panels)), size=SMALL, weight="bold",
                       loc="left")  # fmt: skip
    first = np.ravel(all_axes)[0]
    first.set(xlabel=across, ylabel=down)
    first.xaxis.set_label_position("top")
    return picture


# ---------------------------------------------------------------------- what is said


def _depth(mapping: Any) -> int:
    return 1 + _depth(next(iter(mapping.values()))) if isinstance(mapping, Mapping) else 0


def _grouped(mapping: Any, depth: int) -> dict[str, Any]:
    """Return mappings by group or panel; one that is only ``depth`` deep has no name."""
    return {"": mapping} if _depth(mapping) == depth else dict(mapping)


def _sentence(name: str, parts: Iterable[str], between: str = ", ") -> str:
    return f"{name}: {between.join(parts)}." if name else f"{between.join(parts)}."


def _in_line(text: str) -> str:
    return " ".join(text.split())


def _lines_said(line: float | Mapping[str, float] | None) -> list[str]:
    if line is None:
        return []
    if isinstance(line, Mapping):
        return ["Lines: " + ", ".join(f"{name} {at:,.4g}" for name, at in line.items()) + "."]
    return [f"Line at {line:,.4g}."]


def _listed(values: Sequence[float], form: str) -> str:
    if len(values) <= MOST_LISTED:
        return ", ".join(form.format(value) for value in values)
    low, mean, high = (form.format(f(values)) for f in (min, np.mean, max))
    return f"{len(values)} from {low} to {high} with mean {mean}"


def _curve_said(curve: Mapping[float, float], form: str) -> str:
    """The points of a curve; of a long one its ends, and where it is lowest and highest."""
    points = list(curve)
    if len(points) > MOST_LISTED:
        low, high = min(points, key=lambda x: curve[x]), max(points, key=lambda x: curve[x])
        points = sorted({points[0], low, high, points[-1]})
    return ", ".join(f"{form.format(curve[x])} at {x:g}" for x in points)


def _table_said(panel: str, table: Table, form: str) -> str:
    rows = []
    for row, cells in table.items():
        filled = {column: value for column, value in cells.items() if value is not None}
        if form:
            parts = [
                f"{_in_line(column)} {form.format(value)}" for column, value in filled.items()
            ]
        else:
            highest = max(filled.values(), default=0)
            most = [column for column, value in filled.items() if value == highest > 0]
            parts = ["darkest: " + ", ".join(map(_in_line, most))] if most else ["all white"]
        rows.append(_sentence(_in_line(row), parts))
    return " ".join([panel + ".", *rows] if panel else rows)


# ---------------------------------------------------------------------- what is drawn


def _draw_line(draw: Any, line: float | Mapping[str, float] | None, panel: str) -> None:
    at = line.get(panel) if isinstance(line, Mapping) else line
    if at is not None:
        draw(at, color=INK, linewidth=1.1, linestyle=(0, (4, 2)), zorder=1.5)


def _stacked(values: list[float], y: float) -> list[float]:
    """The height of each dot of a row: equal ones stand around the middle of the row."""
    heights = []
    for i, value in enumerate(values):
        equal, before = values.count(value), values[:i].count(value)
        step = min(0.22, 0.7 / equal)  # in units of rows
        heights.append(y + step * (before - (equal - 1) / 2))
    return heights


def _blues(shares: np.ndarray) -> list[list[str]]:
    """Colours from white at 0 to that of a code at 1."""
    fill = np.array(matplotlib.colors.to_rgb(FILLS["code"]))
    mixed = 1 - np.clip(shares, 0, 1)[..., None] * (1 - fill)
    return [[matplotlib.colors.to_hex(colour) for colour in row] for row in mixed]


def _in_percent(axis: Axis, shares: Sequence[float]) -> None:
    """Write an axis in percent; where no share is larger it ends at 100%."""
    low, high = axis.get_view_interval()
    axis.set_major_formatter(PercentFormatter(1, decimals=0 if high - low > 0.1 else None))
    if max(shares) <= 1:
        axis.set_view_interval(low, min(high, 1.0), ignore=True)


def _look(place: int) -> tuple[str, Any, str]:
    """The colour, line style and marker of a curve."""
    return style.LINES[-place % 3 - 2], style.DASHES[place % 3], "os^"[place % 3]


def _bar_key(picture: Picture, wrong: Mapping[str, bool]) -> None:
    """Name the colours of the bars beneath them."""
    handles = [
        Rectangle((0, 0), 1, 1, edgecolor=MUTED, facecolor=FILLS["trap" if bad else fill],
                  hatch="////" if bad else None, label=name)
        for (name, bad), fill in zip(wrong.items(), BAR_FILLS, strict=False)
    ]  # fmt: skip
    picture.legend(handles=handles, loc="outside lower left", ncols=4)


def _name_ends(
    axes: matplotlib.axes.Axes, curves: Curves, colours: Mapping[str, str], form: str
) -> None:
    """Write name and last value of each curve beside its end, moved apart where they are close."""
    low, high = axes.get_ylim()
    names = {
        name: textwrap.fill(name, 22) + ": " + form.format(list(curve.values())[-1])
        for name, curve in curves.items()
    }
    at = -math.inf
    for name in sorted(curves, key=lambda name: list(curves[name].values())[-1]):
        line = (high - low) / 11  # the height of a line of text, in units of y
        lines = 1 + names[name].count("\n")
        at = max(list(curves[name].values())[-1], at + line * (lines + 1) / 2)
        axes.annotate(names[name], (1.02, at), xycoords=("axes fraction", "data"), size=SMALL,
                      color=colours[name], va="center")  # fmt: skip
        at += line * (lines - 1) / 2
