"""The page of one student has every diagnosis, the code and what is missing; none of it runs."""

from __future__ import annotations

import json

import pytest
from made_results import ABOUT, Page, solved, student, wrong

from course.grading.gradescope import gradescope_results
from course.grading.insight import insight
from course.grading.pages import class_page, not_found, student_page, write_pages
from course.grading.results import FileRead, SeedVerdict

EVIL = "<script>alert(1)</script><img src=x onerror='alert(2)'>\"'&"
ADA = student(
    "Ada Byron",
    exercises={
        "07.1": wrong(
            "forgets_offset",
            "def token_id(code, vocabulary):\n    return vocabulary.index(code)",
            details=(("expected", "7"), ("got", "0")),
            repeat='check("07.1", token_id, seed=5)',
            flags=("seed", "lost_tag"),
            notes=("The tag is gone.",),
            seeds=(
                SeedVerdict(seed=5, outcome="not yet", misconception="forgets_offset"),
                SeedVerdict(seed=1005, outcome="solved"),
            ),
            found_by="name",
            runs=12,
        ),
        "07.2": solved("y = 3"),
        "07.4": {"flags": ("absent",), "file": None, "cell": None},
    },
)


@pytest.fixture(scope="module")
def page():
    return Page(student_page(ADA, ABOUT))


@pytest.mark.parametrize(
    "words",
    [
        "Ada Byron",
        "2 of 8 points; 1 of 4 exercises solved.",
        "✘ Not yet, 0 of 2 points. It differs.",
        "The recognised wrong idea: forgets_offset",
        "expected 7 got 0",
        'The same inputs again, in the notebook: check("07.1", token_id, seed=5)',
        "With seed 5: not yet (forgets_offset) With seed 1005: solved",
        "lost_tag: the cell's tag is gone; the answer was found in another way.",
        "The tag is gone.",
        "cell 3 of Ada Byron/07.ipynb, found by the function's name; its execution count is 12.",
        "def token_id(code, vocabulary): return vocabulary.index(code)",
    ],
)
def test_the_page_says(words, page):
    assert words in page.text


def test_what_was_looked_for_and_not_found_is_said():
    assert not_found(ADA) == [
        "07.4 Pad a batch and build the attention mask: no cell has the tag exercise:07.4, no "
        'cell defines pad_batch, and none calls check("07.4", ...).',
        "07.5 The best segmentation by Viterbi: only the lesson's empty answer is there (cell 3 "
        "of Ada Byron/07.ipynb).",
    ]


def test_a_file_that_cannot_be_read_and_no_file_are_said():
    broken = FileRead(path="a.ipynb", sha256="", problem="it is no notebook")
    assert "a.ipynb cannot be read: it is no notebook." in not_found(student("a", files=(broken,)))
    assert "There is no file of this student." in not_found(student("a", files=()))


def test_an_ungraded_student_is_not_told_that_something_is_missing():
    flags = {name: {"flags": ("not_graded",), "file": None} for name in ("07.1", "07.2")}
    said = not_found(student("a", flags=("not_graded",), exercises=flags))
    assert [sentence[:4] for sentence in said] == ["07.4", "07.5"]


def evil_student():
    everywhere = wrong(
        EVIL,
        f"x = '''{EVIL}'''",
        title=EVIL,
        message=EVIL,
        details=((EVIL, EVIL),),
        repeat=EVIL,
        flags=(EVIL, "seed"),
        notes=(EVIL,),
        file=EVIL,
        seeds=(SeedVerdict(seed=5, outcome=EVIL, misconception=EVIL),),
    )
    file = FileRead(path=EVIL, sha256="0" * 64, problem=EVIL, lessons=(EVIL,))
    return student(
        EVIL,
        key="evil",
        exercises={"07.1": everywhere, "07.2": everywhere | {"outcome": "error in your code"}},
        files=(file,),
        flags=(EVIL,),
        notes=(EVIL,),
    )


@pytest.mark.parametrize("which", ["class", "student"])
def test_no_text_of_a_student_becomes_part_of_a_page(which):
    evil = evil_student()
    found = insight([evil, evil.model_copy(update={"key": "evil-2"})], ABOUT)
    html = class_page(found) if which == "class" else student_page(evil, ABOUT)
    page = Page(html)
    assert "<script>alert(1)</script>" in page.text
    assert not page.tags & {"script", "img", "iframe", "link", "form", "object", "base"}
    assert not [name for _, found in page.elements for name in found if name.startswith("on")]
    assert all(
        "alert" not in (value or "") for _, found in page.elements for value in found.values()
    )


@pytest.mark.parametrize("which", ["class", "student"])
def test_a_page_needs_no_network_and_forbids_it(which):
    html = class_page(insight([ADA], ABOUT)) if which == "class" else student_page(ADA, ABOUT)
    page = Page(html)
    policies = [
        one["content"] for tag, one in page.elements if tag == "meta" and "http-equiv" in one
    ]
    assert policies == ["default-src 'none'; style-src 'unsafe-inline'"]
    assert not [one for _, found in page.elements for one in found if one in ("src", "action")]
    assert not [link for link in page.links if "//" in link]
    assert "@import" not in html and "url(" not in html


def test_what_cannot_be_printed_is_written_out_and_the_page_can_be_read(tmp_path):
    strange = "a\ud800b\x00c\x1b[31m\u202ed"
    ada = student("ada", exercises={"07.1": wrong(source=strange, message=strange)})
    write_pages(tmp_path, [ada], ABOUT)
    text = (tmp_path / "students/ada/index.html").read_text(encoding="utf-8")
    assert r"a\ud800b\x00c\x1b[31m\u202ed" in text


def test_a_students_page_names_no_other_student():
    ben = student("Ben Other", exercises={"07.1": wrong()})
    assert "Ben" not in Page(student_page(ADA, ABOUT)).text
    assert "Ben Other" in Page(class_page(insight([ADA, ben], ABOUT))).text


GRADESCOPE = {
    "score": (int, float),
    "max_score": (int, float),
    "status": str,
    "name": str,
    "name_format": str,
    "number": str,
    "output": str,
    "output_format": str,
    "tags": list,
    "visibility": str,
    "extra_data": dict,
}


def test_gradescopes_file_has_its_documented_form(tmp_path):
    write_pages(tmp_path, [ADA], ABOUT)
    file = tmp_path / "students" / ADA.key / "gradescope" / "results.json"
    read = json.loads(file.read_text(encoding="utf-8"))
    assert read["score"] == sum(test["score"] for test in read["tests"]) == ADA.points
    assert sum(test["max_score"] for test in read["tests"]) == ADA.out_of
    assert type(read["execution_time"]) is int
    for test in read["tests"]:
        assert test.keys() <= GRADESCOPE.keys()
        assert all(isinstance(value, GRADESCOPE[name]) for name, value in test.items())
        assert test["visibility"] in ("hidden", "after_due_date", "after_published", "visible")
        assert test["status"] in ("passed", "failed")


def test_gradescope_shows_the_diagnosis_and_keeps_the_notes_for_the_teacher():
    first, second, absent, empty = gradescope_results(ADA)["tests"]
    assert first["output"].splitlines() == [
        "Not yet.",
        "It differs.",
        "expected: 7",
        "got: 0",
        'The same inputs again: check("07.1", token_id, seed=5)',
    ]
    assert first["extra_data"]["notes"] == ["The tag is gone."]
    assert (second["status"], second["score"]) == ("passed", 2.0)
    assert "not even the empty one" in absent["output"]
    assert empty["output"] == "There is no answer yet."
