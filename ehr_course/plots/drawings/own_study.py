"""Lesson 20 in pictures: scores of many seeds, the task, and the fields of a study."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from matplotlib.axes import Axes

from ehr_course.plots import style
from ehr_course.plots.canvas import MARGIN, WARNING, Canvas
from ehr_course.plots.style import Picture, code_in_words, count

Scores = Sequence[float]
Form = Mapping[str, Any]

DARK, LIGHT = "#2d708e", "#b8dce0"
"""The colours of dots: the model's, and those of what it is compared with."""

MOST_CODES = 8
"""How many codes of a patient are written out."""


# ---------------------------------------------------------------------- scores


def draw_seeds(scores: Mapping[int, float], measure: str) -> Picture:
    """Draw the score of each seed of one recipe, with the best and the worst marked.

    Args:
        scores: by seed, at least two.
        measure: what was scored, in words; more is better.
    """
    worst = min(scores, key=lambda seed: scores[seed])
    best = max(scores, key=lambda seed: scores[seed])
    low, high = scores[worst], scores[best]
    title = "All runs of this recipe score the same"
    if high > low:
        points = (high - low) / 0.01
        apart = count(round(points), "point") if points >= 1 else f"{points:.1f} points"
        title = f"One recipe: {apart} between its luckiest and its unluckiest run"
    canvas = Canvas(
        1.95,
        title,
        f"{count(len(scores), 'score')} of one recipe on one line, {measure}: from "
        f"{low:.1%} with seed {worst} to {high:.1%} with seed {best}.",
        subtitle=f"One dot per seed. Across: {measure}",
    )
    axes = canvas.plot(0.5, canvas.top + 0.34, canvas.width - 1.0, 0.42)
    _dots(axes, 0, list(scores.values()), DARK)
    _bare(axes, [list(scores.values())], percent=True)
    axes.set_ylim(0.6, -0.6)
    for seed, ends in ((worst, "worst"), (best, "best")):
        axes.annotate(
            f"{ends}: seed {seed}, {scores[seed]:.1%}",
            (scores[seed], -0.15),
            (0, 14),
            textcoords="offset points",
            size=style.SMALL,
            color=style.INK,
            ha="left" if ends == "worst" else "right",
            arrowprops={"arrowstyle": "-", "color": style.MUTED, "linewidth": 0.8},
        )
    return canvas.finish()


def draw_differences(
    differences: Scores, of: tuple[str, str], *, first: float | None = None, patients: int
) -> Picture:
    """Draw how far one model is ahead of another on many groups of patients, a dot for each.

    Args:
        differences: a share each, the first model's minus the second's.
        of: the names of both, short.
        first: the difference on the group that was seen before the others, to be marked.
        patients: how many are in a group.
    """
    one, two = of
    points = [round(100 * share, 6) for share in differences]
    ahead = [sum(point > 0 for point in points), sum(point < 0 for point in points)]
    ties = len(points) - sum(ahead)
    columns = Counter(points)
    canvas = Canvas(
        1.8 + 0.15 * max(columns.values()),
        f"{one} is ahead in {ahead[0]} of {len(points)} groups, {two} in {ahead[1]}",
        f"{count(len(points), 'dot')}, one for each group of {patients} patients: {one} minus "
        f"{two}, from {min(points):+.3g} to {max(points):+.3g} points. "
        f"{one} is ahead in {ahead[0]}, {two} in {ahead[1]}, and {ties} have no difference."
        + (f" On the first group it was {100 * first:+.3g}." if first is not None else ""),
        subtitle=f"One dot per group of {patients} patients. Across: {one} minus {two}, in points",
    )
    high = 0.15 * max(columns.values()) + 0.1
    axes = canvas.plot(0.5, canvas.top + 0.34, canvas.width - 1.0, high)
    fills = {1: DARK, 0: "white", -1: WARNING}
    for point, times in columns.items():
        axes.plot(
            [point] * times,
            range(times),
            linestyle="none",
            marker="o",
            markersize=7,
            markerfacecolor=fills[(point > 0) - (point < 0)],
            markeredgecolor=style.INK,
            markeredgewidth=0.8,
            clip_on=False,
            zorder=5,
        )
    axes.axvline(0, color=style.INK, linewidth=1)
    marked = [] if first is None else [100 * first]
    for point in marked:
        axes.axvline(point, color=style.MUTED, linestyle="--", linewidth=1)
    _bare(axes, [[*points, *marked, 0]])
    axes.set_ylim(-0.6, max(columns.values()) - 0.3)
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:+.3g}" if x else f"{abs(x):g}")
    for x, text, align in (
        (0, f"{two} ahead  ", "right"),
        (0, f"  {one} ahead", "left"),
        *((point, "the first group", "center") for point in marked),
    ):
        axes.annotate(
            text,
            (x, 1),
            (0, 6),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            size=style.SMALL,
            color=style.INK,
            ha=align,
        )
    return canvas.finish()


def draw_intervals(
    rows: Mapping[str, tuple[float, float]], *, of: str, share: float = 0.95
) -> Picture:
    """Draw intervals of a difference, a row for each, and mark those that contain zero.

    Args:
        rows: by what it was asked, in the order of the rows: low and high end, as shares.
        of: what the difference is, in words.
        share: how much of the groups drawn again an interval holds.
    """
    unsure = [low <= 0 <= high for low, high in rows.values()]
    says = {True: "contains zero", False: "lies on one side of zero"}
    canvas = Canvas(
        1.2 + 0.42 * len(rows),
        f"{sum(unsure)} of {count(len(rows), 'interval')} "
        + ("contains zero" if sum(unsure) == 1 else "contain zero")
        + (": no difference is shown there" if any(unsure) else ""),
        " ".join(
            f"{capital(name)}: {_points(ends)}, {says[zero]}."
            for (name, ends), zero in zip(rows.items(), unsure, strict=True)
        ),
        subtitle=f"{share:.0%} of the groups drawn again. Across: {of}, in points",
    )
    left, high = 3.0, 0.42
    axes = canvas.plot(left, canvas.top + 0.04, canvas.width - left - 1.5, high * len(rows))
    axes.axvline(0, color=style.INK, linewidth=1)
    for row, ((name, ends), zero) in enumerate(zip(rows.items(), unsure, strict=True)):
        colour = WARNING if zero else DARK
        points = [100 * end for end in ends]
        axes.plot(points, [row, row], color=colour, linewidth=5, solid_capstyle="butt", zorder=4)
        y = canvas.top + 0.04 + high * (row + 0.5)
        canvas.label((left - 0.12, y), _cut(name, 2.75), align="right", colour=style.INK)
        canvas.label((canvas.width - 1.4, y), _points(ends), colour=style.INK)
    _bare(axes, [[0], *([100 * end for end in ends] for ends in rows.values())])
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:+.3g}" if x else f"{abs(x):g}")
    axes.set_ylim(len(rows) - 0.5, -0.5)
    return canvas.finish()


def _points(ends: tuple[float, float]) -> str:
    return " to ".join(f"{100 * end:+.1f}" for end in ends)


def draw_choice(scores: Mapping[int, Scores], *, of: str, measure: str) -> Picture:
    """Draw the scores of several settings on the patients that choose, a row for each.

    Args:
        scores: by setting, in the order of the rows, one score per seed; more is better.
        of: what the setting is, in the plural: "steps".
        measure: what was scored, in words.
    """
    chosen = max(scores, key=lambda setting: fmean(scores[setting]))
    canvas = Canvas(
        1.2 + 0.34 * len(scores),
        f"{chosen} {of} are chosen: the highest mean over seeds",
        f"A row of dots for each number of {of}: "
        + "; ".join(f"{setting}: mean {fmean(of_it):.1%}" for setting, of_it in scores.items())
        + f". {chosen} {of} have the highest mean.",
        subtitle=f"One dot per seed, a tick at the mean. Across: {measure}",
    )
    height = 0.34 * len(scores)
    axes = canvas.plot(1.5, canvas.top + 0.02, canvas.width - 2.4, height)
    for row, (setting, of_it) in enumerate(scores.items()):
        _dots(axes, row, of_it, DARK if setting == chosen else LIGHT)
        mean = fmean(of_it)
        axes.plot([mean, mean], [row - 0.36, row + 0.36], color=style.INK, linewidth=1.6)
        y = canvas.top + 0.02 + 0.34 * (row + 0.5)
        weight = "bold" if setting == chosen else "normal"
        canvas.label((1.38, y), f"{setting} {of}", align="right", colour=style.INK, weight=weight)
        canvas.label((canvas.width - 0.8, y), f"mean {mean:.1%}", colour=style.INK, weight=weight)
    _bare(axes, scores.values(), percent=True)
    axes.set_ylim(len(scores) - 0.5, -0.5)
    return canvas.finish()


def draw_comparison(
    form: Form,
    other: Mapping[str, Scores] | None = None,
    *,
    finding: str = "",
    percent: bool = False,
) -> Picture:
    """Draw the model's scores over the baseline's, with the range of each.

    Args:
        form: of a study; its question, model, baseline and report are read.
        other: a second baseline, its scores by its name.
        finding: what the model's scores and those of the second baseline show.
        percent: write the scores in per cent.
    """
    model, baseline = form["model"], form["baseline"]
    rows = {model["name"]: model["scores"], baseline["name"]: baseline["scores"]}
    rows |= dict(other or {})
    against, finding = list(rows)[-1], finding if other else form["report"]["finding"]
    better = form["question"]["better"]
    title = f"Against the {_cut(against, 2.6, size=style.TITLE)}, the finding is “{finding}”"
    canvas = Canvas(
        1.3 + 0.5 * len(rows),
        title,
        f"Scores in rows, {better} is better. "
        + " ".join(
            f"{capital(name)}: {_range(scores, percent)}." for name, scores in rows.items()
        ),
        subtitle=f"One dot per seed; the bar is the range. Across: {form['question']['measure']}, "
        f"{better} is better",
    )
    left, high = 2.35, 0.5
    axes = canvas.plot(left, canvas.top + 0.04, canvas.width - left - 1.45, high * len(rows))
    for row, (name, scores) in enumerate(rows.items()):
        new = row > 1
        colour = DARK if row == 0 else WARNING if new else LIGHT
        if new and len(scores) == 1:
            axes.axvline(scores[0], color=WARNING, linestyle="--", linewidth=1, zorder=4)
        axes.barh(row, max(scores) - min(scores), 0.62, min(scores), color=style.FAINT)
        _dots(axes, row, scores, colour)
        y = canvas.top + 0.04 + high * (row + 0.5)
        canvas.label((left - 0.12, y), _cut(name, 2.1), align="right", colour=style.INK)
        canvas.label((canvas.width - 1.35, y), _range(scores, percent), colour=style.INK)
    _bare(axes, rows.values(), percent=percent)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    return canvas.finish()


# ---------------------------------------------------------------------- the task


def draw_lost(case: Any, named: Sequence[str]) -> Picture:
    """Draw a patient whose lost code is looked for, and the codes that a guesser names.

    Args:
        case: has `age`, `sex`, `others`, the codes left, `lost`, and `system`.
        named: the codes that were named, likeliest first.
    """
    found = case.lost in named
    place = named.index(case.lost) if found else -1
    who = f"{style.person_of(case.age, case.sex)}, {case.age}"
    in_words = partial(code_in_words, system=case.system)
    canvas = Canvas(
        1.1 + 0.25 * max(len(named), min(len(case.others), MOST_CODES) + 2),
        f"One code is lost, and {'is' if found else 'is not'} among {len(named)} suggestions",
        f"{who}, with {count(len(case.others), 'code')} left; {in_words(case.lost)} is lost. "
        + (
            f"It stands at place {place + 1} of {len(named)} suggestions."
            if found
            else f"It is not among {len(named)} suggestions."
        ),
    )
    y, wide = canvas.top + 0.28, 3.1
    canvas.label((MARGIN, y - 0.14), f"{who}: the codes that are left", colour=style.INK)
    for code in case.others[:MOST_CODES]:
        canvas.box(MARGIN, y, wide, 0.21, _cut(in_words(code), 2.9), size=style.SMALL)
        y += 0.25
    more = len(case.others) - MOST_CODES
    if more > 0:
        canvas.label((MARGIN, y + 0.1), f"and {more} more")
        y += 0.25
    lost = canvas.box(MARGIN, y, wide, 0.21, "lost", fill="mask", size=style.SMALL)
    x, y = MARGIN + wide + 0.75, canvas.top + 0.28
    canvas.label((x, y - 0.14), "what a network suggests, likeliest first", colour=style.INK)
    for i, code in enumerate(named):
        is_it = i == place
        box = canvas.box(
            x,
            y,
            canvas.width - x - MARGIN,
            0.21,
            _cut(in_words(code), 2.9),
            fill="special" if is_it else "paper",
            weight="bold" if is_it else "normal",
            size=style.SMALL,
        )
        if is_it:
            canvas.arrow(lost.side("right"), box.side("left"))
        y += 0.25
    return canvas.finish()


# ---------------------------------------------------------------------- the fields of a study


def draw_study(form: Form) -> Picture:
    """Draw the fields of a study in the order in which they are filled, and what feeds what.

    Args:
        form: with its seven fields; what is empty is left open.
    """
    question, data, report = form["question"], form["data"], form["report"]
    names = {name: i for i, name in enumerate(form, start=1)}
    done = [name for name in form if _filled(form[name])]
    canvas = Canvas(
        4.3,
        "A study is filled in from its question; the test patients come last",
        f"The fields of a study: {', '.join(form)}. The training part feeds the model and the "
        "baseline, the validation part chooses, the test part scores once, one score per seed, "
        "and the finding follows from the scores. "
        + (f"Filled in: {', '.join(done)}." if done else "All are still empty."),
        subtitle="Arrows: what feeds what. Numbers: the order in which the fields are filled in",
    )
    c, w = canvas, canvas.width - 2 * MARGIN

    def field(x: float, y: float, name: str, words: str = "") -> None:
        c.box(x, y - 0.1, 0.24, 0.2, str(names[name]), fill=style.INK, size=style.SMALL)
        c.label((x + 0.32, y), name, weight="bold", colour=style.INK, size=style.TEXT)
        if words:
            x += 0.4 + style.text_width(name, style.TEXT, weight="bold")
            c.label((x, y), words)

    y = c.top + 0.02
    asked = c.box(MARGIN, y, w, 0.62, fill="prompt")
    field(MARGIN + 0.1, y + 0.17, "question")
    text = str(question["text"]) or "a question that a number can answer"
    c.label((MARGIN + 1.3, y + 0.17), _cut(text, 5.9), colour=style.INK)
    how = (
        f"{question['measure']}, {question['better']} is better"
        if question["measure"]
        else "its measure, and which way is better"
    )
    c.label((MARGIN + 1.3, y + 0.42), _cut(how, 5.9), colour=style.INK)

    # The data, and who reads which part.
    y = asked.bottom + 0.5
    field(MARGIN, y - 0.16, "data")
    parts, fills = {}, {"validation": "quiet", "train": "encoder", "test": "trap"}
    for i, (part, fill) in enumerate(fills.items()):
        size = f"{len(data[part]):,} {part}" if len(data[part]) else part
        parts[part] = c.box(MARGIN, y + 0.56 * i, 1.35, 0.4, size, fill=fill, size=style.SMALL)
    x = 2.42
    model = c.box(x, y, 1.9, 0.4, _named(form["model"]), size=style.SMALL)
    field(x, y - 0.16, "model")
    base = c.box(x, y + 1.12, 1.9, 0.4, _named(form["baseline"]), size=style.SMALL)
    field(x, y + 0.96, "baseline")
    seeds = form["seeds"]
    field(x + 0.62, y + 0.6, "seeds", f"{len(seeds)} runs" if len(seeds) else "one run each")
    for box in (model, base):
        c.arrow(parts["train"].side("right"), box.side("left", 0.75 if box is model else 0.5))
    c.arrow(parts["validation"].side("right", 0.3), model.side("left", 0.3), "chooses")

    # The scores, and what follows from them.
    x = model.right + 0.42
    scores = c.box(x, y, 1.02, 1.52, fill="decoder")
    c.label((scores.middle[0], y - 0.12), "scores", align="center", colour=style.INK)
    to_come = {"model": "one per seed", "baseline": "one or more"}
    for name, box in (("model", model), ("baseline", base)):
        c.arrow(box.side("right"), (scores.x, box.middle[1]))
        c.label(
            (scores.middle[0], box.middle[1]),
            _range(form[name]["scores"]) if len(form[name]["scores"]) else to_come[name],
            align="center",
            colour=style.INK,
            inside=scores,
        )
    low = base.bottom + 0.2
    c.path(
        [
            parts["test"].side("bottom"),
            (parts["test"].middle[0], low),
            (scores.middle[0], low),
            scores.side("bottom"),
        ],
        colour=WARNING,
    )
    c.label(((x + parts["test"].right) / 2, low), "once, at the end", align="center", on_line=True)
    x = scores.right + 0.3
    end = c.box(
        x,
        y,
        c.width - MARGIN - x,
        1.52,
        f"“{report['finding']}”" if report["finding"] else "better,\nworse or\nnot shown",
        fill="special",
        weight="bold" if report["finding"] else "normal",
    )
    field(x, y - 0.16, "report")
    c.arrow(scores.side("right"), end.side("left"))
    for at in (parts["validation"].middle[0], end.middle[0] + 0.2):
        c.arrow((at, asked.bottom), (at, y - 0.28))

    y = low + 0.2
    box = c.box(MARGIN, y, w, 0.36, dashed=True)
    field(MARGIN + 0.1, box.middle[1], "limits")
    n = len(form["limits"])
    said = f"{count(n, 'sentence')}: " if n else ""
    c.label(
        (MARGIN + 1.3, box.middle[1]),
        f"{said}what the data do not contain, and what the measure does not see",
        colour=style.INK,
    )
    return canvas.finish()


# ---------------------------------------------------------------------- parts of pictures


def _dots(axes: Axes, row: float, scores: Scores, colour: str) -> None:
    """Dots in a row; equal scores stand above each other."""
    heights = []
    seen: Counter[float] = Counter()
    for score in scores:
        key = round(float(score), 6)
        seen[key] += 1
        heights.append(row + 0.13 * (seen[key] // 2) * (-1) ** seen[key])
    axes.plot(
        list(scores),
        heights,
        linestyle="none",
        marker="o",
        markersize=6.5,
        markerfacecolor=colour,
        markeredgecolor=style.INK,
        markeredgewidth=0.8,
        clip_on=False,
        zorder=5,
    )


def _bare(axes: Axes, rows: Any, *, percent: bool = False) -> None:
    """Leave the scale alone, with room at both ends."""
    values = [float(score) for scores in rows for score in scores]
    room = 0.06 * (max(values) - min(values)) or 0.05
    axes.set_xlim(min(values) - room, max(values) + room)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.locator_params(axis="x", nbins=6)
    axes.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.3g}%" if percent else f"{x:.4g}")


def _range(scores: Scores, percent: bool = False) -> str:
    low, high = (
        f"{float(end):.1%}" if percent else f"{float(end):.4g}"
        for end in (min(scores), max(scores))
    )
    return low if low == high else f"{low} to {high}"


def _named(field: Mapping[str, Any]) -> str:
    return _cut(str(field["name"]), 1.75) or "?"


def _filled(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(map(_filled, value.values()))
    return len(value) > 0


def _cut(text: str, inches: float, *, size: float = style.SMALL) -> str:
    """As much of a text as fits."""
    if style.text_width(text, size) <= inches:
        return text
    while text and style.text_width(text + "…", size) > inches:
        text = text[:-1]
    return text.rstrip() + "…"


def capital(text: str) -> str:
    """A text that begins with a capital letter."""
    return text[:1].upper() + text[1:]
