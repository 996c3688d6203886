"""From source to notebook: what `course build` writes, leaves alone, and says."""

from __future__ import annotations

import csv
import textwrap

import nbformat
import pytest

from course.build import main
from course.first_cell import first_cell_text
from course.notebook import build_notebook
from course.outputs import first_difference, steady

LESSON = textwrap.dedent(
    """\
    # %% [markdown]
    # # 07 · A lesson

    # %% tags=["parameters"]
    SEED = 0

    # %%
    import os
    import tempfile

    import ipywidgets
    import matplotlib.pyplot as plt

    print(object(), tempfile.mkdtemp() + "/file.csv")
    print("real data" if "EHR_COURSE_DATA" in os.environ else "no real data")
    plt.plot([1, 2, 3])
    plt.show()
    print(sorted({"a", "b", "c"}, key=hash))

    # %%
    class Dial(ipywidgets.IntSlider):
        def _repr_mimebundle_(self, **options):
            bundle = super()._repr_mimebundle_(**options)
            return bundle | {"image/png": "aGVsbG8=", "text/plain": "A dial at 0."}


    Dial()

    # %% tags=["exercise:07.1", "nbval-ignore-output"]
    def answer():
        raise NotImplementedError


    try:
        answer()
    except NotImplementedError:
        print("not attempted")
    """
)


@pytest.fixture
def course_folder(tmp_path):
    """Make a course of one lesson."""
    (tmp_path / "lessons").mkdir()
    (tmp_path / "course" / "book").mkdir(parents=True)
    (tmp_path / "lessons" / "07_example.py").write_text(LESSON, encoding="utf-8")
    return tmp_path


@pytest.fixture(scope="module")
def built_twice(tmp_path_factory):
    """Build one source in two folders, with real data in the builder's environment."""
    notebooks = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EHR_COURSE_DATA", "somewhere")
        for place in ("one", "two"):
            source = tmp_path_factory.mktemp(place) / "07_example.py"
            source.write_text(LESSON, encoding="utf-8")
            build_notebook(source, source.with_suffix(".ipynb"))
            notebooks.append(source.with_suffix(".ipynb"))
    return notebooks


def test_a_rebuild_gives_the_same_bytes(built_twice):
    one, two = built_twice
    assert one.read_bytes() == two.read_bytes()


def test_a_notebook_keeps_what_the_lesson_says(built_twice):
    cells = nbformat.read(built_twice[0], as_version=4).cells
    assert cells[1].source == first_cell_text()
    before, figure, after = cells[3].outputs
    assert before.text == "<object object at 0x...> TEMP/file.csv\nno real data\n"
    assert "image/png" in figure.data
    assert after.output_type == "stream"
    assert cells[4].outputs[0].data == {"image/png": "aGVsbG8=", "text/plain": "A dial at 0."}
    ids = ["07-001", "07-alone", "07-002", "07-003", "07-004", "07-005"]
    assert [cell.id for cell in cells] == ids
    assert cells[5].metadata == {"tags": ["exercise:07.1", "nbval-ignore-output"]}


def test_a_second_build_changes_nothing(course_folder, capsys):
    notebook = course_folder / "lessons" / "07_example.ipynb"
    assert main(["--record-times"], root=course_folder) == 0
    first = notebook.stat().st_mtime_ns
    assert main(["7"], root=course_folder) == 0
    assert notebook.stat().st_mtime_ns == first
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == ["changed", "unchanged"]
    with (course_folder / "course/book/lesson_times.csv").open(encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert row["lesson"] == "07_example"
    assert 0 < int(row["seconds"]) < 60


def test_check_finds_a_notebook_that_is_not_its_sources(course_folder, capsys):
    source = course_folder / "lessons" / "07_example.py"
    assert main(["--check"], root=course_folder) == 1
    assert "there is no notebook yet" in capsys.readouterr().out
    build_notebook(source, source.with_suffix(".ipynb"))
    assert main(["--check"], root=course_folder) == 0
    source.write_text(LESSON.replace("SEED = 0", "SEED = 1"), encoding="utf-8")
    assert main(["--check"], root=course_folder) == 1
    assert "cell 3: another text" in capsys.readouterr().out


def test_an_error_names_its_cell_and_leaves_the_notebook_alone(course_folder, capsys):
    notebook = course_folder / "lessons" / "07_example.ipynb"
    notebook.write_text("as it was", encoding="utf-8")
    source = course_folder / "lessons" / "07_example.py"
    source.write_text("# %%\nx = 0\n\n# %%\nratio = 1 / x\n", encoding="utf-8")
    assert main([], root=course_folder) == 1
    said = capsys.readouterr().err
    assert (
        "lessons/07_example.py, cell 3 (07-002), which begins 'ratio = 1 / x': "
        "ZeroDivisionError: division by zero" in said
    )
    assert notebook.read_text(encoding="utf-8") == "as it was"


def test_a_widget_without_a_picture_is_refused(course_folder, capsys):
    source = course_folder / "lessons" / "07_example.py"
    source.write_text("# %%\nimport ipywidgets\n\nipywidgets.IntSlider()\n", encoding="utf-8")
    assert main([], root=course_folder) == 1
    assert "the widget has no picture" in capsys.readouterr().err


def test_a_name_that_is_no_lesson_is_refused(course_folder, capsys):
    assert main(["tokenisation"], root=course_folder) == 1
    said = capsys.readouterr().err
    assert "'tokenisation' is not a lesson. The lessons are: 07_example." in said


@pytest.mark.parametrize(
    ("stored", "now"),
    [
        ("loss 1.234", "loss 1.250"),
        ("0.001", "0.002"),
        ("rate 1.52e-04", "rate 1.49e-04"),
        ("share 23.4%", "share 23.1%"),
        ("took 3.1 s", "took 4.25 s"),
        ("| wide  | 0.98", "| wide | 0.97"),
    ],
)
def test_decimals_may_differ_a_little(stored, now):
    assert first_difference(stored, now) is None


@pytest.mark.parametrize(
    ("stored", "now"),
    [
        ("loss 1.234", "loss 1.270"),
        ("17 codes", "18 codes"),
        ("428.0", "428.1"),
        ("E849.7", "E849.9"),
        ("V30.01", "V30.00"),
        ("version 2.13.0", "version 2.14.0"),
        ("one line", "one line\nand another"),
        ("0.5 solved", "0.5 not yet"),
    ],
)
def test_everything_else_must_agree(stored, now):
    assert first_difference(stored, now) is not None


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("<A at 0x7f00ab12cd34>", "<A at 0x...>"),
        ("flag 0xFF stays", "flag 0xFF stays"),
        ("/tmp/tmpab12_x/PATIENTS.csv, line 3", "TEMP/PATIENTS.csv, line 3"),
        ("build/tmp/x stays", "build/tmp/x stays"),
    ],
)
def test_a_machines_names_are_replaced(raw, expected):
    assert steady(raw) == expected
