"""Patients short and long, and tokenizers, that every picture is tried with."""

import random
from datetime import datetime, timedelta
from itertools import combinations

import matplotlib
import matplotlib.text
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from ehr_course.records import PatientRecord, Visit
from ehr_course.tokenizers.codes import CodeTokenizer

# fmt: off
CODES = (
    "0389", "04104", "1120", "1970", "2449", "25000", "2724", "2859", "2869", "2930", "29181",
    "3051", "3315", "3488", "4019", "41401", "42731", "4280", "43310", "4582", "486", "496",
    "51881", "5070", "53081", "5715", "5849", "5853", "5990", "64421", "650", "6826", "70707",
    "71590", "73300", "74689", "7580", "76517", "7742", "78552", "78820", "7907", "8052",
    "99592", "9974", "E8497", "E8798", "V1582", "V3001", "V4581", "V5867",
)
# fmt: on


def make_patient(sizes, days, *, sex="F", age=64, timed=True, seed=0):
    rng = random.Random(seed)
    first = datetime(2101, 3, 4, 7)
    visits = tuple(
        Visit(tuple(rng.sample(CODES, n)), first + timedelta(days=day) if timed else None)
        for n, day in zip(sizes, days, strict=True)
    )
    return PatientRecord(1, sex, age, visits)


def patients():
    rng = random.Random(1)
    many = [rng.randint(1, 20) for _ in range(30)]
    days = sorted(rng.randint(0, 4000) for _ in many)
    return {
        "one code": make_patient([1], [0], sex="M", age=0),
        "three visits": make_patient([5, 4, 5], [0, 190, 780]),
        "four visits of fifteen codes": make_patient([15] * 4, [0, 20, 400, 1400], age=90),
        "thirty visits": make_patient(many, [0, *days[1:]], sex="M", age=45),
        "days apart": make_patient([3, 6], [0, 12], age=7),
        "one day": make_patient([2, 2], [0, 0]),
        "no times": make_patient([3, 6, 2], [0, 12, 40], timed=False),
        "a code of no chapter": PatientRecord(1, "F", 64, (Visit(("I5023", "4280")),)),
    }


class Drawn:
    """A picture as it comes out: its texts, and where things stand, in pixels."""

    def __init__(self, picture):
        self.renderer = FigureCanvasAgg(picture).get_renderer()
        picture.draw_without_rendering()
        self.width, self.height = picture.get_size_inches() * picture.dpi
        self.texts = [
            text
            for text in picture.findobj(matplotlib.text.Text)
            if text.get_text().strip() and text.get_visible()
        ]

    def extent(self, artist):
        return artist.get_window_extent(self.renderer)

    def cut_off(self):
        """The texts that do not lie inside of the picture."""
        return [
            text.get_text()
            for text in self.texts
            if (e := self.extent(text)).x0 < 0
            or e.y0 < 0
            or e.x1 > self.width
            or e.y1 > self.height
        ]

    def overlapping(self):
        """Pairs of texts that lie on each other."""
        # The box of a line is a little larger than its letters: shrink it before comparing.
        inner = [(text.get_text(), self.extent(text).padded(-1, -2)) for text in self.texts]
        return [(one, other) for (one, a), (other, b) in combinations(inner, 2) if a.overlaps(b)]


class CharacterPieces:
    """Cuts text into its characters, the mark of a space on its own."""

    def pieces(self, text):
        return list("▁" + text.replace(" ", "▁"))


@pytest.fixture(params=patients())
def patient(request):
    return patients()[request.param]


@pytest.fixture(scope="session")
def code_tokenizer():
    return CodeTokenizer((*CODES, "I5023"))


@pytest.fixture(scope="session")
def note_tokenizer():
    return CharacterPieces()


@pytest.fixture(scope="session")
def drawn():
    return Drawn


@pytest.fixture(scope="session")
def same_pixels():
    """A function that says whether two pictures, (height, width, 3), are the same to the pixel.

    Matplotlib before 3.11 rounds the place of an image or a text in another way, so that with it a
    border may lie one pixel aside: there, 2% of the pixels may differ.
    """

    def same(one, other):
        if one.shape != other.shape:
            return False
        most = 0.02 if matplotlib.__version_info__ < (3, 11) else 0.0
        return (one != other).any(axis=2).mean() <= most

    return same
