"""The page of a class says what is solved, which ideas are wrong, and what to look at."""

from __future__ import annotations

import json
from urllib.parse import unquote

import pytest
from made_results import ABOUT, Page, solved, student, wrong

from course.grading.attempts import checks_handed_in, further_runs
from course.grading.insight import insight
from course.grading.pages import CLASS_PAGE, class_page, write_pages
from course.grading.results import FileRead
from ehr_course.exercises.catalogue import find_exercise

DIAGNOSIS = find_exercise("07.1").misconceptions["forgets_offset"].diagnosis
OWN = """
def pad_batch(sequences):
    widest = 0
    for one in sequences:
        if len(one) > widest:
            widest = len(one)
    ids = []
    mask = []
    for one in sequences:
        row = list(one)
        ones = [1 for _ in one]
        while len(row) < widest:
            row.append(0)
            ones.append(0)
        ids.append(row)
        mask.append(ones)
    return torch.tensor(ids), torch.tensor(mask)
"""
RENAMED = OWN.replace("widest", "n").replace("one", "seq").replace("row", "r") + "# my own\n"


def a_class():
    return [
        student("ada", exercises={"07.1": solved(), "07.4": solved(OWN)}),
        student("ben", exercises={"07.1": wrong("forgets_offset"), "07.4": solved(RENAMED)}),
        student("cid", exercises={"07.1": wrong("forgets_offset + counts_from_one")}),
        student("dee", exercises={"07.1": wrong(), "07.2": wrong(flags=("seed",))}),
        student(
            "eve",
            exercises={
                "07.1": {
                    "outcome": "error in your code",
                    "details": (("raised", "KeyError: 'a'"),),
                    "source": "x",
                },
                "07.2": {"flags": ("absent",), "file": None, "cell": None},
            },
        ),
    ]


@pytest.fixture(scope="module")
def found():
    return insight(a_class(), ABOUT)


@pytest.fixture(scope="module")
def page(found):
    return Page(class_page(found))


def test_the_four_counts_of_an_exercise_are_those_of_its_students(found):
    first = found.exercises[0]
    counts = (first.solved, first.not_yet, first.errors, first.not_attempted)
    assert (first.id, counts, first.students, first.stars) == ("07.1", (1, 3, 1, 0), 5, 1)
    assert [one.not_attempted for one in found.exercises] == [0, 4, 3, 5]


def test_the_page_says_the_share_of_solved(page):
    assert "07.1 The token id of a code ★ 20% 1 of 5" in page.text
    assert "07.5 The best segmentation by Viterbi ★★★ 0% 0 of 5" in page.text


def test_the_most_frequent_wrong_idea_comes_first_with_its_diagnosis(found, page):
    assert [(one.name, one.students) for one in found.ideas] == [
        ("forgets_offset", ("ben", "cid")),
        ("counts_from_one", ("cid",)),
    ]
    assert found.ideas[0].diagnosis == DIAGNOSIS
    assert f"2 of 5: forgets offset {' '.join(DIAGNOSIS.split())}" in page.text


def test_a_solved_answer_with_a_remark_shows_no_wrong_idea():
    remark = solved(outcome="solved, with a remark", misconception="slow")
    found = insight([student("ada", exercises={"07.1": remark})], ABOUT)
    assert (found.ideas, found.exercises[0].remarks, found.exercises[0].solved) == ((), 1, 1)


def test_wrong_answers_without_a_diagnosis_are_named(found):
    first = found.unexplained[0]
    assert (first.wrong, first.errors, first.raised) == (("dee",), ("eve",), (("KeyError", 1),))


def test_renamed_answers_are_alike_and_the_page_proves_nothing(found, page):
    [alike] = found.alike
    assert (alike.exercise, alike.students) == ("07.4", ("ada", "ben"))
    assert "07.4 Pad a batch and build the attention mask: ada, ben. The same but for names" in (
        page.text
    )
    assert "proves nothing" in page.text


def test_flags_name_the_student_and_the_exercise(found, page):
    flags = {one.name: [(s.key, ids) for s, ids in one.who] for one in found.flags}
    assert flags == {"absent": [("eve", ("07.2",))], "seed": [("dee", ("07.2",))]}
    assert (
        "The verdict depends on the seed; the least favourable one counts. dee: 07.2" in page.text
    )


def test_the_same_file_is_named_only_where_an_answer_is_in_it():
    one = FileRead(path="a/07.ipynb", sha256="f" * 64)
    two = FileRead(path="b/07.ipynb", sha256="f" * 64)
    tried = {"07.1": wrong()}
    pair = [
        student("a", files=(one,), exercises=tried),
        student("b", files=(two,), exercises=tried),
    ]
    assert insight(pair, ABOUT).same_files == (("a", "b"),)
    untouched = [student("a", files=(one,)), student("b", files=(two,))]
    assert insight(untouched, ABOUT).same_files == ()


PLACES = {"07.1": 16, "07.2": 20, "07.4": 28}


def test_runs_beyond_one_of_each_cell_are_counted_from_the_answer_before():
    ran = {"07.1": solved(runs=19), "07.2": solved(runs=23), "07.4": wrong(runs=50)}
    assert further_runs(student("a", exercises=ran).exercises, PLACES) == {
        "07.1": 3,
        "07.2": 0,
        "07.4": 19,
    }


@pytest.mark.parametrize("counts", [(16, 20, 28), (None, None, None), (9, 4, 2)])
def test_counts_of_one_run_from_above_to_below_tell_nothing(counts):
    ran = {name: solved(runs=n) for name, n in zip(PLACES, counts, strict=True)}
    assert further_runs(student("a", exercises=ran).exercises, PLACES) == {}


def test_the_page_says_when_nothing_tells_the_attempts(page):
    assert "Nothing tells. No progress file was handed in" in page.text


def test_a_progress_file_beside_the_notebook_tells_the_attempts(tmp_path):
    results = a_class()
    for key, times in {"ada": 2, "ben": 9}.items():
        (tmp_path / key).mkdir()
        standing = {"attempts": times, "outcome": "solved", "solved_at": None, "hints": 0}
        content = {"version": 1, "exercises": {"07.4": standing}}
        (tmp_path / key / "progress.json").write_text(json.dumps(content), encoding="utf-8")
    checks = checks_handed_in(tmp_path, results)
    assert checks == {"ada": {"07.4": 2}, "ben": {"07.4": 9}}
    found = insight(results, ABOUT, checks)
    assert [(one.id, one.cost.typical_checks) for one in found.costly] == [("07.4", 5.5)]
    assert "Pad a batch and build the attention mask 5.5 (2) not told" in (
        Page(class_page(found)).text
    )


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "[" * 100_000,
        '{"exercises": {"07.1": {"attempts": "many"}}}',
        "\ud800",
        " " * 2**21,
    ],
    ids=["empty", "a list", "deep", "text", "no text", "large"],
)
def test_what_is_no_progress_file_is_passed_over(content, tmp_path):
    (tmp_path / "ada").mkdir()
    data = content.encode("utf-8", "surrogatepass")
    (tmp_path / "ada" / "progress.json").write_bytes(data)
    assert checks_handed_in(tmp_path, [student("ada")]) == {}


def test_a_progress_file_outside_the_submissions_is_not_read(tmp_path):
    inside, outside = tmp_path / "submissions" / "ada", tmp_path / "mine.json"
    inside.mkdir(parents=True)
    outside.write_text('{"exercises": {"07.1": {"attempts": 3}}}', encoding="utf-8")
    (inside / "progress.json").symlink_to(outside)
    assert checks_handed_in(tmp_path / "submissions", [student("ada")]) == {}


def test_every_link_of_the_page_leads_to_a_page(tmp_path):
    results = [*a_class(), student("Åsa #1 100%", key="Åsa_1@100+x")]
    write_pages(tmp_path / "grades", results, ABOUT)
    place = tmp_path / "grades" / CLASS_PAGE
    links = Page(place.read_text(encoding="utf-8")).links
    assert len(links) > len(results)
    assert all((place.parent / unquote(link)).is_file() for link in links)


def test_a_class_of_nobody_has_a_page():
    assert "0 students, lesson 07." in Page(class_page(insight([], ABOUT))).text
