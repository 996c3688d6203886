"""The benchmark of the widgets makes each of them, moves its controls and says what is slow."""

from __future__ import annotations

import random
from pathlib import Path

import ipywidgets
import pytest

from benchmarks import widgets
from ehr_course.widgets.static import PictureWidget

PACKAGE = Path(__file__).resolve().parents[2] / "ehr_course" / "widgets"


def rows_of(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_every_widget_that_asks_the_kernel_is_measured() -> None:
    source = Path(widgets.__file__).read_text(encoding="utf-8")
    asking = {
        file.stem
        for file in PACKAGE.glob("*.py")
        if "PictureWidget" in file.read_text(encoding="utf-8") and file.stem != "static"
    }
    assert len(asking) == len(widgets.WIDGETS)
    for name in asking:
        assert f"from ehr_course.widgets.{name} import " in source


@pytest.mark.parametrize("name", widgets.WIDGETS)
def test_a_widget_is_made_and_moved(name: str) -> None:
    widget = widgets.WIDGETS[name]()
    before = widget.values
    redraws, plain = widgets.measure(widget, 1, seed=0)
    assert min(*redraws, *plain) > 0
    assert widget.values != before


def test_a_move_changes_one_control() -> None:
    controls = {"a": ipywidgets.IntSlider(3, 0, 5), "b": ipywidgets.Checkbox(False)}
    widget = PictureWidget(lambda a, b: widgets.record().picture, controls)
    for move in widgets.moves(widget, 6, random.Random(0)):
        before = widget.values
        move()
        assert sum(before[name] != value for name, value in widget.values.items()) == 1


@pytest.mark.parametrize(
    ("control", "expected"),
    [
        (ipywidgets.IntSlider(2, 1, 4), [1, 2, 3, 4]),
        (ipywidgets.FloatSlider(value=0.0, min=0.0, max=1.0, step=0.5), [0.0, 0.5, 1.0]),
        (ipywidgets.Checkbox(), [False, True]),
        (ipywidgets.Dropdown(options=[("all", None), ("one", 1)]), [None, 1]),
        (ipywidgets.SelectionSlider(options=["x", "y"]), ["x", "y"]),
    ],
)
def test_the_positions_of_a_control(control: ipywidgets.ValueWidget, expected: list) -> None:
    assert widgets.positions(control) == expected


def test_the_table_has_a_row_for_each_widget(capsys: pytest.CaptureFixture[str]) -> None:
    widgets.main(["--widgets", "record", "number_line", "--moves", "3"])
    rows = rows_of(capsys.readouterr().out)
    assert [row[0] for row in rows] == ["record", "number_line"]
    assert all(float(cell) > 0 for row in rows for cell in row[1:])


@pytest.mark.parametrize(("most", "code"), [(0.0, 1), (1e9, 0)])
def test_a_slow_widget_is_named(
    most: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(widgets, "MOST_MILLISECONDS", most)
    assert widgets.main(["--widgets", "record", "--moves", "2"]) == code
    assert ("Not below 0 ms: record" in capsys.readouterr().out) == bool(code)
