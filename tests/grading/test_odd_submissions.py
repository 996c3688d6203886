"""Submissions that are not as they should be: odd files, odd folders, odd cells."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest
from handed_in import LESSON, ROOT, cell_of, notebook_with, right
from nbformat import NotebookNode

from course.grading.answers import Found, Program, find_answer, read_lesson, spliced
from course.grading.notebooks import NotANotebookError, read_cells
from course.grading.results import key_of
from course.grading.statements import statements_of, without_magics
from course.grading.submissions import find_submissions


def files_of(folder: Path, *paths: str) -> dict[str, list[str]]:
    for path in paths:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("{}", encoding="utf-8")
    found = find_submissions(folder, [LESSON], folder.with_name("unpacked"))
    return {one.student: list(one.files) for one in found}


def answer_of(files: dict[str, NotebookNode | str], exercise: str) -> tuple[Found, Program]:
    lesson = read_lesson(ROOT / "lessons" / f"{LESSON}.py")
    texts = {n: t if isinstance(t, str) else json.dumps(t) for n, t in files.items()}
    cells = [cell for name, text in texts.items() for cell in read_cells(text.encode(), name)]
    answers = {one: find_answer(one, lesson, cells) for one in lesson.exercises}
    found = answers[exercise]
    return found, spliced(found, lesson, cells, answers)


def test_moodles_two_folders_of_one_student_are_one_student(tmp_path):
    moodle = "Ann Lee_{}_assignsubmission_{}"
    found = files_of(
        tmp_path / "all",
        moodle.format(11, "file_/a.ipynb"),
        moodle.format(11, "onlinetext_/onlinetext.html"),
        moodle.format(12, "file_/b.ipynb"),
    )
    assert found.keys() == {"Ann Lee (11)", "Ann Lee (12)"}


def test_of_a_whole_folder_of_the_course_only_the_students_own_is_read(tmp_path):
    inside = ("course/a.py", "ehr_course/a.py", "solutions/a.py", "tests/a.py", "setup.py")
    own = ("lessons/a.ipynb", "mine.py")
    found = files_of(tmp_path / "all", *(f"ann/week1/{name}" for name in (*inside, *own)))
    assert found == {"ann": ["ann/week1/mine.py", "ann/week1/lessons/a.ipynb"]}


def test_the_whole_folder_of_one_student_is_no_class(tmp_path):
    found = files_of(tmp_path / "all", *(f"ann/{n}/a.py" for n in ("course", "ehr_course", "x")))
    assert found == {"ann": ["ann/x/a.py"]}


def test_an_empty_folder_is_a_student_who_handed_in_nothing(tmp_path):
    (tmp_path / "all" / "zoe").mkdir(parents=True)
    assert files_of(tmp_path / "all", "ann/a.ipynb") == {"ann": ["ann/a.ipynb"], "zoe": []}


def test_an_accent_of_macos_is_an_accent(tmp_path):
    name = unicodedata.normalize("NFD", "José")
    assert list(files_of(tmp_path / "all", f"{name}/a.ipynb", "b/a.ipynb")) == ["b", "José"]
    assert key_of(name) == "José"


@pytest.mark.parametrize(
    "data",
    [
        "# für\nx = 1".encode("cp1252"),
        "# -*- coding: cp1252 -*-\n# für\nx = 1".encode("cp1252"),
        "# für\nx = 1".encode("utf-16"),
        "# für\r\nx = 1\r\n".encode("utf-8-sig"),
    ],
    ids=["Windows-1252", "declared", "UTF-16", "UTF-8 with a mark"],
)
def test_a_script_is_read_as_it_was_written(data):
    (cell,) = read_cells(data, "a.py")
    assert "für" in cell.source
    assert cell.statements[-1].text == "x = 1"


def test_marks_of_a_merge_are_named():
    text = '{"cells": [\n<<<<<<< HEAD\n=======\n>>>>>>> theirs\n]}'
    with pytest.raises(NotANotebookError, match="marks of a merge in Git"):
        read_cells(text.encode(), "a.ipynb")


def test_a_cell_that_became_text_is_read_and_flagged():
    notebook = notebook_with(right("07.1"))
    cell_of(notebook, "07.1").cell_type = "markdown"
    found, _ = answer_of({"a.ipynb": notebook}, "07.1")
    assert (found.way, found.is_empty, found.flags) == ("tag", False, ("not_code",))


def test_an_id_that_was_changed_makes_no_other_exercises_answer():
    notebook = notebook_with(right("07.2"))
    cell = cell_of(notebook, "07.2")
    cell.source = cell.source.replace('check("07.2"', 'check("07.1"')
    first, _ = answer_of({"a.ipynb": notebook}, "07.1")
    second, _ = answer_of({"a.ipynb": notebook}, "07.2")
    assert (first.is_empty, second.is_empty, second.way) == (True, False, "tag")


def test_scripts_beside_the_notebook_are_its_modules_and_no_others():
    code = "from tools.place import at\n\n\ndef token_id(c, v):\n    return 7 + at(c, v)"
    _, program = answer_of(
        {
            "ann/1/a.ipynb": notebook_with({"07.1": code}),
            "ann/1/tools/place.py": "import deep\n\n\ndef at(c, v):\n    return deep.at(c, v)\n",
            "ann/1/deep.py": "%pip install x\n\n\ndef at(c, v):\n    return v.index(c)\n",
            "ann/1/other.py": "x = 1\n",
            "ann/2/deeper.py": "x = 1\n",
        },
        "07.1",
    )
    assert program.modules.keys() == {"tools.place", "deep"}
    assert program.modules["deep"].startswith("pass\n")


def test_what_the_shell_gives_is_nothing():
    assert without_magics("%pip install x\nfiles = !ls\na, b = %sx pwd\nx = 1 % 2") == (
        "pass\nfiles = None\na, b = None\nx = 1 % 2"
    )


def test_a_statement_is_found_behind_signs_that_look_like_ends_of_lines():
    one, two = statements_of("a = 'x\u2028y\x0c'\nb = 2", "cell 1")
    assert (one.text, two.text) == ("a = 'x\u2028y\x0c'", "b = 2")
