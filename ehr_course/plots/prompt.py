"""The picture of what a model expects of a patient of whom it knows age and sex alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from ehr_course.code_system import CodeSystem
from ehr_course.icd import OLDEST, code_meaning
from ehr_course.plots import style
from ehr_course.plots.style import Picture, count
from ehr_course.records import Sex


@dataclass(frozen=True)
class NextCodes:
    """How probable each code is as the first one, for a patient and one of the other sex.

    Attributes:
        age: in years, 0 to 90; 90 means above 89.
        codes: the vocabulary.
        probabilities: float (codes,); what is missing to 1 went to special tokens.
        other_sex: the same for a patient of the same age and the other sex.
    """

    age: int
    sex: Sex
    codes: tuple[str, ...]
    probabilities: np.ndarray
    other_sex: np.ndarray
    system: CodeSystem = "ICD9CM"

    def most_probable(self, most: int) -> list[int]:
        """The places of the codes with the greatest probabilities, greatest first."""
        return [int(place) for place in np.argsort(-self.probabilities, kind="stable")[:most]]

    def ruled_out(self, place: int) -> str:
        """Who alone can have a code that this patient cannot, or "" where they can."""
        return ruled_out(self.codes[place], age=self.age, sex=self.sex, system=self.system)

    @property
    def ruled_out_share(self) -> float:
        """The probability of all the codes together that age or sex rules out."""
        places = [place for place in range(len(self.codes)) if self.ruled_out(place)]
        return float(self.probabilities[places].sum())


def ruled_out(code: str, *, age: int, sex: Sex, system: CodeSystem = "ICD9CM") -> str:
    """Who alone can have a code that a patient of this age and sex cannot, or "" where they can.

    >>> ruled_out("650", age=34, sex="M"), ruled_out("V3001", age=34, sex="M")
    ('females only', 'age 0 only')
    >>> ruled_out("650", age=34, sex="F")
    ''
    """
    of = code_meaning(system)
    who = of.who_can_have(code) if of.is_code(code) else None
    if who is None or of.why_impossible(code, age=age, sex=sex) is None:
        return ""
    if who.sex not in (None, sex):
        return "females only" if who.sex == "F" else "males only"
    if who.min_age == who.max_age:
        return f"age {who.min_age} only"
    if who.max_age == OLDEST:
        return f"from age {who.min_age} only"
    if who.min_age == 0:
        return f"up to age {who.max_age} only"
    return f"age {who.min_age} to {who.max_age} only"


# ---------------------------------------------------------------------- words


def next_code_title(shown: NextCodes) -> str:
    """Who the patient is, and which code comes first.

    >>> some = np.array([0.25, 0.75])
    >>> next_code_title(NextCodes(64, "F", ("4019", "4280"), some, some))
    'Woman, 64: 428.0 is the likeliest first code (75.0%)'
    """
    (best,) = shown.most_probable(1)
    code = style.written(shown.codes[best], shown.system)
    probability = _percent(shown.probabilities[best])
    but = ", though ruled out" if shown.ruled_out(best) else ""
    return f"{style.who(shown)}: {code} is the likeliest first code ({probability}){but}"


def describe_next_codes(shown: NextCodes, *, most: int = 12) -> str:
    """Say in one sentence what :func:`draw_next_codes` shows."""
    places = shown.most_probable(most)
    first = ", ".join(
        f"{style.code_in_words(shown.codes[place], shown.system)} "
        f"({_percent(shown.probabilities[place])})"
        for place in places[:_DESCRIBED]
    )
    marked = sum(bool(shown.ruled_out(place)) for place in places)
    return (
        f"Bars of the {count(len(places), 'most probable first code')} of a patient "
        f"({style.who(shown).lower()}) of whom the model knows age and sex alone, first "
        f"{first}; age or sex rules out {marked} of the {len(places)}, and codes with "
        f"{_percent(shown.ruled_out_share)} of all probability."
    )


_DESCRIBED = 3  # how many codes the alternative text tells of


def _percent(share: float) -> str:
    return f"{100 * share:.1f}%"


# ---------------------------------------------------------------------- the picture


def draw_next_codes(shown: NextCodes, *, most: int = 12) -> Picture:
    """Draw the most probable first codes as bars, with their titles.

    Before each bar stands its probability. A code that age or sex rules out is hatched, and says
    who alone can have it. The line on or beside a bar is the same code for a patient of the other
    sex. A title that is too long for its place
    ends with an ellipsis.

    Args:
        shown: the probabilities.
        most: how many codes are drawn.
    """
    places = shown.most_probable(most)
    height = _TOP + _ROW * len(places) + _BOTTOM
    with style.course_style():
        picture = Picture(style.WIDTH, height, describe_next_codes(shown, most=most))
        axes = picture.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, style.WIDTH)
        axes.set_ylim(height, 0)  # inches, from the top down
        axes.axis("off")
        title = next_code_title(shown)
        axes.text(_MARGIN, 0.24, title, size=style.TITLE, weight="bold", va="center")
        reading = (
            "The model knows age and sex alone. To codes that they rule out it gives "
            f"{_percent(shown.ruled_out_share)} of all probability"
        )
        axes.text(_MARGIN, 0.5, reading, size=style.SMALL, color=style.MUTED, va="center")
        scale = _BAR_WIDTH / _end_of_scale(shown, places)
        title_left = _title_left(shown, places)
        for row, place in enumerate(places):
            _draw_row(axes, _TOP + row * _ROW, shown, place, scale, title_left)
        _draw_legend(axes, height - _BOTTOM + 0.22, shown)
    return picture


# In inches.
_MARGIN = 0.12
_TOP = 0.74
_ROW = 0.27
_BOTTOM = 0.4
_BAR = 0.17
_TITLE_LEFT = 0.8  # or more, where codes are long
_NUMBER = 0.52
_BAR_LEFT = 4.0
_BAR_WIDTH = 2.2

_MONO = "DejaVu Sans Mono"
_POSSIBLE = "#31688e"
_RULED_OUT = "#b3400e"


def _end_of_scale(shown: NextCodes, places: list[int]) -> float:
    """One of few round numbers, so that most steps of a slider leave the scale as it is."""
    largest = max(shown.probabilities[places].max(), shown.other_sex[places].max())
    ends = (0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0)
    return next((end for end in ends if largest <= end), 1.0)


def _title_left(shown: NextCodes, places: list[int]) -> float:
    """Where the titles begin: the codes of ICD-10-CM can be longer than those of ICD-9-CM."""
    widest = max(
        style.text_width(style.written(shown.codes[place], shown.system), style.TEXT, _MONO)
        for place in places
    )
    return max(_TITLE_LEFT, _MARGIN + widest + 0.12)


def _draw_row(
    axes: Axes, y: float, shown: NextCodes, place: int, scale: float, title_left: float
) -> None:
    code, reason = shown.codes[place], shown.ruled_out(place)
    middle = y + _ROW / 2
    axes.text(
        _MARGIN,
        middle,
        style.written(code, shown.system),
        size=style.TEXT,
        family=_MONO,
        va="center_baseline",
        parse_math=False,
    )
    axes.text(
        title_left,
        middle,
        _shortened(style.code_title(code, shown.system), _BAR_LEFT - _NUMBER - title_left - 0.1),
        size=style.SMALL,
        va="center_baseline",
        parse_math=False,
    )
    width, line = shown.probabilities[place] * scale, shown.other_sex[place] * scale
    _draw_bar(axes, _BAR_LEFT, middle, width, hatched=bool(reason))
    _draw_line(axes, _BAR_LEFT + line, middle)
    # The number stands before its bar: behind it, it would be read as that of the line.
    axes.text(
        _BAR_LEFT - 0.08,
        middle,
        _percent(shown.probabilities[place]),
        size=style.SMALL,
        ha="right",
        va="center_baseline",
    )
    if reason:
        axes.text(
            _BAR_LEFT + max(width, line) + 0.1,
            middle,
            reason,
            size=style.SMALL,
            weight="bold",
            color=_RULED_OUT,
            va="center_baseline",
        )


def _draw_bar(axes: Axes, x: float, middle: float, width: float, *, hatched: bool) -> None:
    axes.add_patch(
        Rectangle(
            (x, middle - _BAR / 2),
            width,
            _BAR,
            facecolor=style.PAPER if hatched else _POSSIBLE,
            edgecolor=_RULED_OUT if hatched else _POSSIBLE,
            hatch="//////" if hatched else None,
            linewidth=0.8,
        )
    )


def _draw_line(axes: Axes, x: float, middle: float) -> None:
    axes.plot([x, x], [middle - _ROW * 0.42, middle + _ROW * 0.42], color=style.INK, linewidth=1.6)


def _draw_legend(axes: Axes, middle: float, shown: NextCodes) -> None:
    other = style.person_of(shown.age, "M" if shown.sex == "F" else "F").lower()
    x = _MARGIN
    for draw, text in (
        (partial(_draw_bar, width=0.24, hatched=False), "this patient"),
        (partial(_draw_bar, width=0.24, hatched=True), "the same, ruled out by age or sex"),
        (lambda axes, x, middle: _draw_line(axes, x + 0.12, middle), f"a {other} of that age"),
    ):
        draw(axes, x, middle)
        x += 0.34
        axes.text(x, middle, text, size=style.SMALL, va="center_baseline")
        x += style.text_width(text, style.SMALL) + 0.3


def _shortened(text: str, width: float) -> str:
    """A text that fits this width in inches: whole, or its first words and an ellipsis."""

    def fits(part: str) -> bool:
        return 1.03 * style.text_width(part, style.SMALL) <= width

    if fits(text):
        return text
    words = text.split()
    for n in range(len(words) - 1, 0, -1):
        cut = " ".join(words[:n]).rstrip(" ,;:([") + "…"
        if fits(cut):
            return cut
    return "…"
