"""A lesson's notebook is its source's, was run in order, and tells nothing of a machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lesson_files import (
    LESSONS,
    ROOT,
    SOLUTIONS,
    WHAT_HOLDS,
    name,
    number,
    read_source,
    read_stored,
    tags,
)

from course.build import COURSE_MAP, COURSE_MAP_LESSON, course_map
from course.notebook import as_saved, cell_metadata

PAIRS = [*LESSONS, WHAT_HOLDS, *SOLUTIONS]
each_pair = pytest.mark.parametrize("source", PAIRS, ids=name)

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

MACHINE_PATHS = re.compile(
    r"(?<![\w.])(?:/(?:home|root|tmp|Users|work|var/folders|opt|usr)/|[A-Z]:\\)[^\s'\"<]*"
)


def text_outputs(source: Path) -> list[str]:
    """Return everything that a stored notebook's outputs say in text."""
    texts = []
    for cell in read_stored(source).cells:
        for output in cell.get("outputs", []):
            texts.append(output.get("text", ""))
            data = output.get("data", {})
            texts += [str(data[kind]) for kind in data if not kind.startswith("image/png")]
    return texts


def test_every_lesson_has_a_solution_of_the_same_name():
    assert [path.name for path in SOLUTIONS] == [path.name for path in LESSONS]


@pytest.mark.parametrize("folder", ["lessons", "solutions"])
def test_every_notebook_has_a_source(folder):
    notebooks = {path.stem for path in (ROOT / folder).glob("*.ipynb")}
    assert notebooks == {path.stem for path in PAIRS if path.parent.name == folder}


@each_pair
def test_source_and_notebook_have_the_same_cells(source):
    written = [(c.cell_type, c.source, tags(c)) for c in read_source(source).cells]
    stored = [(c.cell_type, c.source, tags(c)) for c in read_stored(source).cells]
    assert stored == written, f"run: python3 -m course build {source.stem}"


@each_pair
def test_jupyterlab_would_save_the_source_as_it_is(source):
    assert as_saved(source) == source.read_text(encoding="utf-8")


@each_pair
def test_cells_are_numbered_by_their_ids(source):
    ids = [cell.id for cell in read_stored(source).cells]
    assert ids.pop(1) == f"{number(source)}-alone"
    assert ids == [f"{number(source)}-{place:03}" for place in range(1, len(ids) + 1)]


@each_pair
def test_every_code_cell_was_run_in_order(source):
    counts = [c.execution_count for c in read_stored(source).cells if c.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


@each_pair
def test_no_cell_ended_in_an_error(source):
    kinds = {o.output_type for c in read_stored(source).cells for o in c.get("outputs", [])}
    assert "error" not in kinds


@each_pair
def test_no_cell_warns_on_stderr(source):
    warnings = [
        output.text
        for cell in read_stored(source).cells
        for output in cell.get("outputs", [])
        if output.output_type == "stream" and output.name == "stderr"
    ]
    assert warnings == []


@each_pair
def test_outputs_name_no_path_of_a_machine(source):
    text = "\n".join(text_outputs(source))
    assert MACHINE_PATHS.findall(text) == []
    assert str(ROOT) not in text


@each_pair
def test_nothing_but_the_lesson_is_stored(source):
    notebook = read_stored(source)
    assert notebook.metadata.kernelspec.name == "python3"
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert "version" not in notebook.metadata.language_info
    for cell in notebook.cells:
        assert cell.metadata == cell_metadata(cell.cell_type, cell.source, tags(cell)), cell.id


@each_pair
def test_a_widget_is_stored_as_a_picture(source):
    for cell in read_stored(source).cells:
        kinds = {kind for output in cell.get("outputs", []) for kind in output.get("data", {})}
        assert WIDGET_VIEW not in kinds, f"cell {cell.id}: a view without a kernel is an error"
        assert "widget" not in tags(cell) or "image/png" in kinds, f"cell {cell.id}"


@each_pair
def test_a_cell_shows_one_picture_with_a_sentence_of_alternative_text(source):
    for cell in read_stored(source).cells:
        shown = [output.data for output in cell.get("outputs", []) if "data" in output]
        texts = [data["text/plain"] for data in shown if "image/png" in data]
        assert len(texts) <= 1, f"cell {cell.id} shows {len(texts)} pictures"
        for text in texts:
            assert len(text.split()) >= 5, f"cell {cell.id}: {text}"
            assert not text.startswith("<"), f"cell {cell.id}: {text}"


def test_readme_and_book_show_the_drawing_of_the_course():
    assert (ROOT / COURSE_MAP).read_bytes() == course_map(ROOT / COURSE_MAP_LESSON)
    assert f"({COURSE_MAP.as_posix()})" in (ROOT / "README.md").read_text(encoding="utf-8")
    first_page = (ROOT / "course" / "book" / "index.md").read_text(encoding="utf-8")
    assert f"(images/{COURSE_MAP.name})" in first_page
