"""How the pictures of the course look, and what every picture carries with it."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Protocol

import matplotlib
import matplotlib.style
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from ehr_course.code_system import SYSTEM_NAMES, CodeSystem
from ehr_course.errors import InputError
from ehr_course.icd import code_meaning
from ehr_course.plots import live
from ehr_course.records import MAX_AGE, Sex

WIDTH = 7.6
"""The width of a picture in inches: it fits the text column of a notebook and of the book."""

STRICT = "EHR_COURSE_STRICT_DRAWINGS"
"""With this environment variable set, to show a picture whose labels overlap is an error."""

PIXELS_PER_INCH = 100
"""On a page. The file has twice as many, so that it is sharp on a dense screen."""

INK = "#1f2430"
MUTED = "#5c6470"
FAINT = "#dfe3e8"
PAPER = "#ffffff"
NO_CHAPTER = "#c9ced6"

TITLE, TEXT, SMALL = 12.0, 9.5, 8.0
"""Font sizes in points: 17, 13 and 11 pixels on the page."""

CHAPTER_NAMES = (
    "Infections",
    "Neoplasms",
    "Endocrine, metabolic",
    "Blood",
    "Mental",
    "Nervous system, senses",
    "Circulatory",
    "Respiratory",
    "Digestive",
    "Genitourinary",
    "Pregnancy, childbirth",
    "Skin",
    "Musculoskeletal",
    "Congenital",
    "Perinatal",
    "Symptoms, signs",
    "Injury, poisoning",
    "Health status (V)",
    "External cause (E)",
)
"""The chapters of ICD-9-CM in few words: chapter ``n`` at place ``n - 1``."""

CHAPTER_NAMES_10 = (
    "Infections",
    "Neoplasms",
    "Blood",
    "Endocrine, metabolic",
    "Mental",
    "Nervous system",
    "Eye",
    "Ear",
    "Circulatory",
    "Respiratory",
    "Digestive",
    "Skin",
    "Musculoskeletal",
    "Genitourinary",
    "Pregnancy, childbirth",
    "Perinatal",
    "Congenital",
    "Symptoms, signs",
    "Injury, poisoning",
    "External cause (V to Y)",
    "Health status (Z)",
    "Special purposes (U)",
)
"""The chapters of ICD-10-CM in few words."""

_SAME_COLOUR = {
    "Nervous system": "Nervous system, senses",
    "External cause (V to Y)": "External cause (E)",
    "Health status (Z)": "Health status (V)",
}
"""Chapters of ICD-10-CM that have the colour of a chapter with another name in ICD-9-CM."""

_BETWEEN = {"Eye": 3.5, "Ear": 9.5, "Special purposes (U)": 12.5}
"""Chapters that ICD-9-CM has nothing like: their places among its colours."""


LINES = ("#440154", "#2d708e", "#5c6470")
"""The colours of curves; they differ in lightness too, and each has a line style of its own."""

DASHES = ("solid", (0, (5, 2)), (0, (1.5, 1.5)))
"""The line styles that go with LINES."""


class Picture(Figure):
    """A figure that knows its alternative text and its exact PNG bytes.

    It is a matplotlib Figure that pyplot has never heard of: a notebook shows it where it is the
    value of a cell, once, with its alternative text as the plain-text twin.

    Attributes:
        alternative_text: one sentence that says what the picture shows.
    """

    def __init__(self, width: float, height: float, alternative_text: str) -> None:
        super().__init__(figsize=(width, height), dpi=PIXELS_PER_INCH, facecolor=PAPER)
        self.alternative_text = alternative_text

    def legend(self, *args: Any, **options: Any) -> Any:
        """Draw a legend of all axes, as matplotlib does, but in small print without a frame."""
        return super().legend(*args, **{"fontsize": SMALL, "frameon": False, **options})

    def colorbar(self, *args: Any, **options: Any) -> Any:
        """Draw a colour bar, as matplotlib does, with its words in small print."""
        bar = super().colorbar(*args, **options)
        bar.ax.tick_params(labelsize=SMALL)
        for axis in (bar.ax.xaxis, bar.ax.yaxis):
            axis.label.set_fontsize(SMALL)
        return bar

    def png(self) -> bytes:
        """The picture as a PNG file; the same picture gives the same bytes.

        The bytes hold no date and no version. Another version of matplotlib, or of the font
        renderer inside it, may draw other pixels.
        """
        file = io.BytesIO()
        self.settle()
        with course_style():
            self.savefig(file, format="png", dpi=2 * PIXELS_PER_INCH, metadata={"Software": None})
        return file.getvalue()

    def settle(self) -> None:
        """Lay out the axes around their labels, once, where an engine of matplotlib does that."""
        engine = self.get_layout_engine()
        if engine is not None:
            with course_style():
                engine.execute(self)
            self.set_layout_engine("none")

    def live_png(self) -> bytes:
        """The same pixels as those of png() in far less time, for a widget that redraws."""
        self.settle()
        with course_style():
            return live.live_png(self, 2 * PIXELS_PER_INCH)

    @property
    def page_size(self) -> tuple[int, int]:
        """Width and height on a page, in pixels: half of what the file has."""
        width, height = self.get_size_inches()
        return round(width * PIXELS_PER_INCH), round(height * PIXELS_PER_INCH)

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict, dict]:
        if os.environ.get(STRICT):
            from ehr_course.plots.overlaps import require_clear_labels

            require_clear_labels(self)
        width, height = self.page_size
        data = {
            "image/png": base64.b64encode(self.png()).decode("ascii"),
            "text/plain": self.alternative_text,
        }
        return data, {"image/png": {"width": width, "height": height}}


@contextmanager
def course_style() -> Iterator[None]:
    """Draw with the settings of the course, whatever a user's matplotlibrc says."""
    with matplotlib.rc_context():
        # As matplotlib itself goes back to earlier settings: those known to be good are not
        # checked again, one by one.
        # To a type checker the keys are a closed list of names.
        dict.update(matplotlib.rcParams, _settings())  # type: ignore[misc]
        yield


@cache
def _settings() -> dict[str, Any]:
    """Every setting of matplotlib, as the course has it."""
    ours = {
        "font.family": "DejaVu Sans",  # comes with matplotlib, so it is on every machine
        "font.size": TEXT,
        "text.color": INK,
        "axes.edgecolor": MUTED,
        "axes.labelcolor": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "xtick.color": MUTED,
        "ytick.color": MUTED,
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
    }
    with matplotlib.style.context(["default", ours]):
        # The backend is no matter of style, and to look it up loads one.
        return {k: v for k, v in dict.items(matplotlib.rcParams) if k != "backend"}


@cache
def chapter_of(code: str, system: CodeSystem = "ICD9CM") -> int | None:
    """The number of a code's chapter, or None for a code that lies in no chapter of its system.

    >>> chapter_of("4280"), chapter_of("V3001"), chapter_of("I509")
    (7, 18, None)
    >>> chapter_of("I509", "ICD10CM"), chapter_of("V304XXA", "ICD10CM")
    (9, 20)
    """
    of = code_meaning(system)
    if not of.is_code(code):
        return None
    try:
        return of.chapter(code).number
    except ValueError:
        return None


def written(token: str, system: CodeSystem = "ICD9CM") -> str:
    """A code of a system with its dot; any other token as it is.

    >>> written("E8859"), written("E8859", "ICD10CM"), written("<mask>", "ICD10CM")
    ('E885.9', 'E88.59', '<mask>')
    """
    return code_meaning(system).written(token)


def code_title(token: str, system: CodeSystem = "ICD9CM") -> str:
    """The title of a code, or "" for what has none in its system.

    >>> code_title("4280"), code_title("<mask>")
    ('Congestive heart failure, unspecified', '')
    >>> code_title("I509", "ICD10CM")
    'Heart failure, unspecified'
    """
    try:
        return code_meaning(system).title(token)
    except InputError:  # of the shape of a code, but there is none such
        return ""


def code_in_words(code: str, system: CodeSystem = "ICD9CM") -> str:
    """A code and its title.

    >>> code_in_words("4280")
    '428.0 Congestive heart failure, unspecified'
    """
    return f"{written(code, system)} {code_title(code, system)}".rstrip()


def chapter_names(system: CodeSystem = "ICD9CM") -> tuple[str, ...]:
    """The chapters of a system in few words: chapter ``n`` at place ``n - 1``."""
    return CHAPTER_NAMES if system == "ICD9CM" else CHAPTER_NAMES_10


def chapter_name(number: int | None, system: CodeSystem = "ICD9CM") -> str:
    """A chapter in few words.

    >>> chapter_name(7), chapter_name(None)
    ('Circulatory', 'No ICD-9 chapter')
    >>> chapter_name(7, "ICD10CM"), chapter_name(None, "ICD10CM")
    ('Eye', 'No ICD-10 chapter')
    """
    if number is None:
        return f"No {SYSTEM_NAMES[system].removesuffix('-CM')} chapter"
    return chapter_names(system)[number - 1]


def chapter_step(number: int, system: CodeSystem = "ICD9CM") -> float:
    """The place of a chapter's colour among those of all chapters, 0 the darkest to 18."""
    if system == "ICD9CM":
        return (number - 1) * 7 % 19
    name = chapter_name(number, system)
    if name in _BETWEEN:
        return _BETWEEN[name]
    return chapter_step(CHAPTER_NAMES.index(_SAME_COLOUR.get(name, name)) + 1)


@cache
def chapter_colour(number: int | None, system: CodeSystem = "ICD9CM") -> str:
    """The colour of a chapter, as ``#rrggbb``: the same one in every picture.

    The nineteen colours are equal steps of viridis, which keeps its order in greyscale and for
    colour-blind eyes. Neighbouring chapters lie seven steps apart, so that those that often occur
    together (7 circulatory, 8 respiratory) differ in lightness too. A chapter of ICD-10-CM has
    the colour of the same diseases in ICD-9-CM; eye, ear and special purposes lie between two.
    """
    if number is None:
        return NO_CHAPTER
    step = chapter_step(number, system)
    return matplotlib.colors.to_hex(matplotlib.colormaps["viridis"](0.05 + 0.93 * step / 18))


@cache
def ink_on(colour: str) -> str:
    """Black or white, whichever is easier to read on this colour.

    >>> ink_on("#fde725"), ink_on("#440154")
    ('#000000', '#ffffff')
    """
    return max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, colour))


@cache
def contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG 2 defines it: 1 to 21, text needs 4.5.

    >>> round(contrast("#000000", "#ffffff"), 1)
    21.0
    """
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for part in matplotlib.colors.to_rgb(colour)
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@cache
def text_width(
    text: str, size: float, family: str = "DejaVu Sans", weight: str = "normal"
) -> float:
    """The width of a text in inches, at a font size in points."""
    if not text.strip():
        return 0.0
    font = FontProperties(family=family, weight=weight, size=size)
    return text_to_path.get_text_width_height_descent(text, font, ismath=False)[0] / 72


def count(number: int, noun: str) -> str:
    """A number and its noun.

    >>> count(1, "visit"), count(1200, "piece")
    ('1 visit', '1,200 pieces')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


class Person(Protocol):
    """Anything with an age and a sex: a patient, or a profile that a model is given."""

    @property
    def age(self) -> int:
        """Age in years."""

    @property
    def sex(self) -> Sex:
        """F or M."""


def who(record: Person) -> str:
    """Sex and age of a patient in words.

    >>> from ehr_course.records import PatientRecord, Visit
    >>> who(PatientRecord(1, "F", 90, (Visit(("4280",)),)))
    'Woman, above 89'
    """
    person = person_of(record.age, record.sex)
    if record.age == 0:
        return f"{person}, under 1 year"
    return f"{person}, above {MAX_AGE - 1}" if record.age == MAX_AGE else f"{person}, {record.age}"


def person_of(age: int, sex: Sex) -> str:
    """What one calls a person of this age and sex.

    >>> person_of(17, "F"), person_of(18, "M")
    ('Girl', 'Man')
    """
    if age < 18:
        return "Girl" if sex == "F" else "Boy"
    return "Woman" if sex == "F" else "Man"
