"""The stored pictures of the lessons' widgets: those of the notebooks, and small enough."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from pathlib import Path

import nbformat
import numpy as np
import pytest
from PIL import Image

from course.syllabus import load_syllabus
from course.widget_states import file_of, put_into_the_book, take_out, widgets_in
from ehr_course.widgets.states import STATES

ROOT = Path(__file__).resolve().parents[2]
NAMES = [lesson.name for lesson in load_syllabus()]


def pixels(picture: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(picture)).convert("RGB"))


def stored(name: str) -> nbformat.NotebookNode:
    return nbformat.read(ROOT / "lessons" / f"{name}.ipynb", as_version=4)


@pytest.mark.parametrize("name", NAMES)
def test_each_widget_opens_in_the_book_on_the_picture_of_the_notebook(name):
    cells = {
        cell.id: cell for cell in stored(name).cells if "widget" in cell.metadata.get("tags", [])
    }
    widgets = {widget["cell"]: widget for widget in widgets_in(file_of(ROOT, name))}
    assert list(widgets) == list(cells), f"run: python3 -m course build {name[:2]}"
    with zipfile.ZipFile(file_of(ROOT, name)) as archive:
        for cell_id, cell in cells.items():
            widget = widgets[cell_id]
            first = widget["states"][widget["first"]]
            shown = next(o.data for o in cell.outputs if "image/png" in o.get("data", {}))
            assert first["words"] == shown["text/plain"]
            assert np.array_equal(
                pixels(archive.read(first["picture"])),
                pixels(base64.b64decode(shown["image/png"])),
            ), f"{cell_id}: run python3 -m course build {name[:2]}"


@pytest.mark.parametrize("name", NAMES)
def test_each_widget_has_something_to_move_and_each_setting_its_own_words(name):
    for widget in widgets_in(file_of(ROOT, name)):
        settings = [tuple(state["settings"]) for state in widget["states"]]
        assert len(set(settings)) == len(settings) >= 4
        assert all(len(one) == len(widget["controls"]) for one in settings)
        assert len({state["words"] for state in widget["states"]}) >= 4


def test_no_notebook_holds_the_pictures_itself():
    assert not [name for name in NAMES if STATES in json.dumps(stored(name))]


def a_notebook() -> nbformat.NotebookNode:
    content = {
        "controls": [{"description": "patient <1>", "kind": "slider"}],
        "first": 1,
        "states": [
            {"settings": [label], "words": f"{label} <b>", "webp": base64.b64encode(data).decode()}
            for label, data in (("0", b"one"), ("1", b"two"), ("2", b"one"))
        ],
    }
    shown = nbformat.v4.new_output(
        "execute_result", data={STATES: content, "text/plain": "two"}, execution_count=1
    )
    cell = nbformat.v4.new_code_cell("widget()", outputs=[shown], id="one")
    return nbformat.v4.new_notebook(cells=[cell])


def test_the_pictures_leave_the_notebook_each_once_and_give_the_same_bytes():
    notebook = a_notebook()
    file = take_out(notebook)
    assert notebook.cells[0].outputs[0].data == {"text/plain": "two"}
    assert take_out(notebook) is None
    assert file == take_out(a_notebook())
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        assert archive.read("000.webp") == b"one" and archive.read("001.webp") == b"two"
        assert len(archive.namelist()) == 3


def test_the_book_gets_the_pictures_and_a_description_that_ends_no_script(tmp_path):
    notebook = a_notebook()
    (tmp_path / "one.zip").write_bytes(take_out(notebook))
    page = put_into_the_book(tmp_path / "one.zip", tmp_path / "pictures", notebook, "../there")
    assert sorted(p.name for p in (tmp_path / "pictures").iterdir()) == ["000.webp", "001.webp"]
    assert [cell.cell_type for cell in page.cells] == ["code", "markdown"]
    player = page.cells[1].source
    assert 'data-pictures="../there"' in player
    description = player.split('json">')[1].split("</script>")[0]
    assert "<" not in description
    assert json.loads(description)["states"][2] == {
        "settings": ["2"],
        "words": "2 <b>",
        "picture": "000.webp",
    }
