"""The parts of the grader: whose a file is, what an answer needs, and what crosses the line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from handed_in import LESSON, ROOT, THE_LESSON, cell_of, notebook_with, right

from course.grading import wire
from course.grading.answers import find_answer, read_lesson, spliced
from course.grading.judge import classes_of
from course.grading.notebooks import NotANotebookError, read_cells
from course.grading.raised import as_exception
from course.grading.results import ExerciseResult, StudentResult, grades_table, key_of
from course.grading.sandbox.landlock import without
from course.grading.statements import needed_for, statements_of, unknown_names
from course.grading.submissions import find_submissions
from ehr_course.exercises.catalogue import all_exercises
from ehr_course.exercises.compare import kind_of
from ehr_course.exercises.exercise import Exercise


def files(folder: Path, *paths: str) -> Path:
    for path in paths:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("{}", encoding="utf-8")
    return folder


def students(folder: Path, tmp_path: Path) -> dict[str, list[str]]:
    found = find_submissions(folder, [LESSON, "08_data_loading"], tmp_path / "unpacked")
    return {one.student: list(one.files) for one in found}


def test_a_sub_folder_is_a_student_and_so_is_what_a_files_name_tells(tmp_path):
    folder = files(
        tmp_path / "all",
        "ann/week/07_tokenization.ipynb",
        "ann/.ipynb_checkpoints/07_tokenization-checkpoint.ipynb",
        "bo_07_tokenization.ipynb",
        "bo_08_data_loading (1).ipynb",
        "team-4.py",
        "readme.txt",
        "__MACOSX/x.ipynb",
    )
    assert students(folder, tmp_path) == {
        "ann": ["ann/week/07_tokenization.ipynb"],
        "bo": ["bo_07_tokenization.ipynb", "bo_08_data_loading (1).ipynb"],
        "team-4": ["team-4.py"],
    }


def test_two_students_of_one_name_stay_two(tmp_path):
    moodle = "Ann Lee_{}_assignsubmission_file_"
    folder = files(
        tmp_path / "all",
        moodle.format(11) + "/a.ipynb",
        moodle.format(12) + "/a.ipynb",
        "leeann_1_2_a.ipynb",
        "leeann_3_4_a.ipynb",
    )
    found = students(folder, tmp_path)
    assert len(found) == 4
    assert {"leeann (1)", "leeann (3)"} < found.keys()


def test_a_wrapping_folder_is_opened_and_a_link_is_not_followed(tmp_path):
    folder = files(tmp_path / "all", "week1/ann/a.ipynb", "week1/bo/a.ipynb")
    (folder / "week1" / "ann" / "solution.py").symlink_to(ROOT / "solutions" / f"{LESSON}.py")
    (folder / "week1" / "eve").symlink_to(ROOT / "solutions")
    assert students(folder, tmp_path) == {"ann": ["ann/a.ipynb"], "bo": ["bo/a.ipynb"]}


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "it is empty"),
        (b'{"cells": [', "it is no JSON, line 1"),
        (b"[1, 2]", "no list of cells"),
        (b'{"cells": [3]}', "no list of cells"),
        (b"[" * 100_000, "it is no JSON"),
        ("\xe4".encode("latin-1"), "not text in UTF-8"),
    ],
)
def test_what_is_no_notebook_is_said_to_be_none(data, problem):
    with pytest.raises(NotANotebookError, match=problem):
        read_cells(data, "a.ipynb")


def test_a_notebook_of_version_3_is_read():
    cell = {"cell_type": "code", "input": ["x = 1\n", "y = 2"], "prompt_number": 1}
    (found,) = read_cells(json.dumps({"worksheets": [{"cells": [cell]}]}).encode(), "a.ipynb")
    assert found.source == "x = 1\ny = 2"


def test_an_answer_takes_what_changes_its_objects_and_leaves_pictures():
    program = statements_of(
        "import math, random\ntable = {}\nfor n in range(3):\n    table[n] = n\n"
        "table.update(a=1)\nprint(table)\nrandom.seed(0)\nplot(table)\n"
        "def f(x):\n    local = random.random()\n    return table[x], local\nlocal = 9",
        "cell 1",
    )
    kept = [one.text.splitlines()[0] for one in needed_for(["f"], program)]
    assert kept == [
        "import math, random",
        "table = {}",
        "for n in range(3):",
        "table.update(a=1)",
        "def f(x):",
    ]
    assert unknown_names(["f"], program) == set()
    assert unknown_names(["f"], statements_of("def f(x):\n    return g(x)", "cell 1")) == {"g"}


def answer_of(notebook, exercise="07.1"):
    lesson = read_lesson(ROOT / "lessons" / f"{LESSON}.py")
    cells = read_cells(json.dumps(notebook).encode(), "ann/a.ipynb")
    answers = {one: find_answer(one, lesson, cells) for one in lesson.exercises}
    found = answers[exercise]
    return found, found and spliced(found, lesson, cells, answers)


def test_an_empty_cell_gives_way_to_an_answer_without_its_tag():
    notebook = notebook_with({})
    new = json.loads(json.dumps(cell_of(notebook, "07.1"))) | {
        "metadata": {},
        "source": right()["07.1"],
    }
    notebook.cells.append(new)
    found, _ = answer_of(notebook)
    assert (found.way, found.is_empty, found.flags) == ("name", False, ("lost_tag",))


def test_the_students_own_definition_takes_the_place_of_the_lessons_and_is_flagged():
    notebook = notebook_with(
        {"07.1": "def token_id(code, vocabulary):\n    return SEED + vocabulary.index(code)"}
    )
    _, plain = answer_of(notebook)
    assert plain.statements[0].text == "SEED = 0"
    changed = json.loads(json.dumps(notebook).replace("SEED = 0", "SEED = 7"))
    _, own = answer_of(changed)
    assert own.flags == ("own_definition",)
    assert [one.text for one in own.statements][:2] == ["SEED = 0", "SEED = 7"]


def test_a_helper_below_the_answer_is_taken_along():
    notebook = notebook_with({"07.1": "def token_id(code, vocabulary):\n    return late(code)"})
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": 3}
    notebook.cells.append(cell | {"source": "def late(code):\n    return 7"})
    _, program = answer_of(notebook)
    assert "def late(code):" in program.source
    assert "below the answer" in " ".join(program.notes)


def test_an_untouched_lesson_has_no_answer_at_all():
    untouched = json.loads(THE_LESSON.read_text(encoding="utf-8"))
    assert all(answer_of(untouched, f"07.{n}")[0].is_empty for n in range(1, 7))


VALUES = [
    None,
    True,
    -(1 << 80),
    float("nan"),
    float("-inf"),
    1 + 2j,
    "text \ud800 \0",
    b"\0\xff",
    [1, (2.5, {3}), frozenset({"a"}), {("k", 1): [None]}],
    np.int16(3),
    np.float64(0.1),
    np.arange(6).reshape(2, 3)[:, ::2],
    np.array(["a", "bc"]),
    torch.arange(6).reshape(2, 3).T,
    torch.tensor(1.5, dtype=torch.bfloat16),
    torch.tensor([True, False]),
    torch.empty(0, 3),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_plain_value_crosses_the_line_unchanged(value):
    message, raw = wire.encode(value)
    there = wire.decode(json.loads(json.dumps(message)), raw)
    assert repr(there) == repr(value)
    assert type(there) is type(value)


def test_a_gradient_an_iterator_and_a_stranger_are_seen_for_what_they_are():
    weights = torch.ones(2, requires_grad=True)
    there = wire.decode(*wire.encode((weights * 2, iter([1]), object, torch.ones(2).to_sparse())))
    assert there[0].requires_grad
    assert kind_of(there[1]) == "a list_iterator"
    assert kind_of(there[2]) == "a type"
    assert there[3].layout is torch.sparse_coo


def test_a_value_that_holds_itself_ends():
    knot: list = []
    knot.append(knot)
    assert repr(wire.decode(*wire.encode(knot))).count("[") >= wire.MOST_DEPTH


@pytest.mark.parametrize(
    "message",
    [
        {"t": "eval", "v": "1"},
        {"t": "tensor", "d": "int64", "s": [10**9], "g": False, "b": [0, 8]},
        {"t": "tensor", "d": "object", "s": [], "g": False, "b": [0, 0]},
        {"t": "array", "d": "O", "s": [1], "b": [0, 8]},
        {"t": "array", "d": "<i8", "s": [1], "b": [-8, 8]},
        {"t": "int", "v": "1" * 10 + "z"},
        {"t": "record", "k": "Popen", "v": {}},
        {"t": "dict", "v": [[{"t": "list", "v": []}, None]]},
        ["t"],
        7,
    ],
)
def test_a_forged_value_is_refused(message):
    with pytest.raises(wire.WireError):
        wire.decode(message, b"\0" * 8)


def test_a_students_exception_cannot_end_the_judge():
    interrupt = as_exception({"kinds": ["builtins.KeyboardInterrupt"], "text": "stop"})
    assert isinstance(interrupt, Exception)
    own = as_exception({"kinds": ["__main__.MyError", "builtins.ValueError"], "text": "no"})
    assert (type(own).__name__, isinstance(own, ValueError), str(own)) == ("MyError", True, "no")
    key = as_exception({"kinds": ["builtins.KeyError", "builtins.LookupError"], "text": "'a'"})
    assert (type(key), str(key)) == (KeyError, "'a'")
    assert isinstance(as_exception({"kinds": [3, ["x"]], "text": 7}), Exception)


def test_the_classes_of_inputs_travel_without_the_references():
    with_classes = []
    for exercise in all_exercises():
        if not isinstance(exercise, Exercise):
            continue
        for source in classes_of(exercise.id).values():
            with_classes.append(exercise.id)
            compile(source, exercise.id, "exec")
            assert "Exercise(" not in source
            assert "class " in source
    assert with_classes == ["09.6", "11.6", "13.4"]


def test_what_is_hidden_is_not_named_and_all_else_is(tmp_path):
    files(tmp_path, "lib/a.py", "lib/inner/b.py", "lib/inner/secret/c.py", "lib/z.py")
    named = without([tmp_path / "lib"], [tmp_path / "lib" / "inner" / "secret"])
    assert [path.name for path in named] == ["a.py", "b.py", "z.py"]
    assert list(without([tmp_path / "lib" / "inner" / "secret"], [tmp_path / "lib"])) == []


def test_the_table_shields_a_spreadsheet_and_names_are_safe():
    one = ExerciseResult(id="07.1", title="T", points=0.5, out_of=1, outcome="solved")
    result = StudentResult(student="=1+1", key="x", points=0.5, out_of=1, exercises=(one,))
    assert grades_table([result]) == "student,07.1,total,out of,flags\n'=1+1,0.5,0.5,1,\n"
    assert key_of("../../etc/passwd") == "etc_passwd"
    assert key_of("Ann", ["ann", "ann-2"]) == "Ann-3"
