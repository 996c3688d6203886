"""One notebook: convert its source, run it, and keep only what the lesson says."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellControlSignal, DeadKernelError
from nbformat import NotebookNode

from course.first_cell import (
    TAGS,
    first_cell_text,
    is_first_cell,
    place_of_the_first_cell,
)
from course.kernels import kernel_environment
from course.outputs import steady
from course.widget_states import take_out
from ehr_course.widgets.states import WANTED

CELL_TIMEOUT_SECONDS = 600
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

NOTEBOOK_METADATA = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "pygments_lexer": "ipython3",
    },
}


ASIDE = "### Going further: "
"""How the heading of a part that a learner may skip begins. What follows its cell is folded."""

WHAT_HOLDS = "what_holds"
"""The notebook beside the lessons that measures what their sources say. It is no lesson."""

HIDDEN_CODE = "hide-input"
"""The tag of a cell that sets up or checks: its code is collapsed, in the book too."""


class LessonError(Exception):
    """A lesson that does not run to its end: which, in which cell, and why."""


@dataclass(frozen=True)
class Built:
    """What one build of one notebook did.

    Attributes:
        notebook: the file.
        seconds: wall time of the run, the kernel's start included.
        changed: whether the file's bytes are others than before.
    """

    notebook: Path
    seconds: float
    changed: bool


def cell_metadata(kind: str, source: str, tags: list[str]) -> dict:
    """Return what a stored cell says of itself: its tags, and whether it is shown collapsed.

    Args:
        kind: the cell's type.
        source: its text.
        tags: its tags, as the lesson's source has them.

    >>> cell_metadata("code", "import torch", ["hide-input"])
    {'tags': ['hide-input'], 'jupyter': {'source_hidden': True}}
    """
    metadata: dict = {"tags": list(tags)} if tags else {}
    if HIDDEN_CODE in tags:
        metadata["jupyter"] = {"source_hidden": True}
    if kind == "markdown" and source.startswith(ASIDE):
        metadata["jp-MarkdownHeadingCollapsed"] = True
    return metadata


def read_source(source: Path) -> NotebookNode:
    """Read a percent script as a notebook without outputs, with ids "07-001", "07-002", ...

    The cell that installs the course where the notebook is opened alone has the id "07-alone",
    whether the script has it or not, and today's text.
    """
    script = jupytext.read(source, fmt="py:percent")
    number = source.name.split("_")[0]
    cells = []
    counted = [cell for cell in script.cells if not is_first_cell(cell)]
    for position, cell in enumerate(counted, start=1):
        tags = cell.metadata.get("tags", [])
        cells.append(_new_cell(cell.cell_type, cell.source, tags, f"{number}-{position:03}"))
    alone = _new_cell("code", first_cell_text(), [*TAGS], f"{number}-alone")
    cells.insert(place_of_the_first_cell(cells), alone)
    return nbformat.v4.new_notebook(cells=cells, metadata=NOTEBOOK_METADATA)


def _new_cell(kind: str, source: str, tags: list[str], cell_id: str) -> NotebookNode:
    make = {
        "code": nbformat.v4.new_code_cell,
        "markdown": nbformat.v4.new_markdown_cell,
        "raw": nbformat.v4.new_raw_cell,
    }[kind]
    return make(source, id=cell_id, metadata=cell_metadata(kind, source, tags))


def as_saved(source: Path) -> str:
    """Return a source's text as JupyterLab saves it.

    A source that differs from it, if only by a blank line, is dangerous: JupyterLab refuses to
    open a pair whose two files differ when the notebook is the newer one.
    """
    return jupytext.writes(
        read_source(source),
        fmt={
            "extension": ".py",
            "format_name": "percent",
            "notebook_metadata_filter": "-all",
            "cell_metadata_filter": "tags,-all",
        },
    )


def run(notebook: NotebookNode, folder: Path, environment: dict[str, str]) -> None:
    """Run a notebook's cells in a fresh kernel; the outputs go into the notebook.

    Args:
        notebook: as `read_source` returns it.
        folder: the kernel's working folder.
        environment: the kernel's environment variables, all of them.

    Raises:
        LessonError: if a cell raises, takes over ten minutes, or the kernel dies.
    """
    running = [0]

    def remember(cell: NotebookNode, cell_index: int) -> None:
        running[0] = cell_index

    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=CELL_TIMEOUT_SECONDS,
        store_widget_state=False,
        record_timing=False,
        extra_arguments=["--IPKernelApp.log_level=ERROR"],
        resources={"metadata": {"path": str(folder)}},
        on_cell_start=remember,
    )
    try:
        client.execute(env=environment)
    except (CellControlSignal, DeadKernelError) as error:
        cell = notebook.cells[running[0]]
        raised = [output for output in cell.get("outputs", []) if output.output_type == "error"]
        if raised:
            problem = f"{raised[0].ename}: {raised[0].evalue}"
        else:
            problem = f"{type(error).__name__}: {error}"
        raise LessonError(f"{_place(notebook, running[0])}: {problem}") from error


def _place(notebook: NotebookNode, index: int) -> str:
    cell = notebook.cells[index]
    first_line = next(iter(cell.source.splitlines()), "")
    return f"cell {index + 1} ({cell.id}), which begins {first_line!r}"


def require_pictures(notebook: NotebookNode) -> None:
    """Refuse a widget that shows nothing where no kernel runs.

    Raises:
        LessonError: if an output has a widget's view and no picture of it.
    """
    for index, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if WIDGET_VIEW in data and "image/png" not in data:
                place = _place(notebook, index)
                raise LessonError(
                    f"{place}: the widget has no picture for a page without a kernel"
                )


def normalise(notebook: NotebookNode) -> NotebookNode:
    """Return the notebook with only what a rebuild gives again, byte for byte.

    Taken out: execution times, names of temporary folders, memory addresses, the kernel's
    version, and a widget's view where a picture of it stands in the same output (a view without
    its kernel shows as an error). Streams that the kernel flushed in pieces are joined.
    """
    cells = []
    for cell in notebook.cells:
        cell = nbformat.from_dict(dict(cell))
        tags = cell.metadata.get("tags", [])
        cell.metadata = nbformat.from_dict(cell_metadata(cell.cell_type, cell.source, tags))
        if cell.cell_type == "code":
            cell.outputs = [_normal_output(output) for output in _joined_streams(cell.outputs)]
        cells.append(cell)
    return nbformat.v4.new_notebook(cells=cells, metadata=NOTEBOOK_METADATA)


def _joined_streams(outputs: Iterable[NotebookNode]) -> list[NotebookNode]:
    """Join each run of stream outputs into one of stdout, then one of stderr."""
    joined: list[NotebookNode] = []
    run_of_streams: dict[str, str] = {}

    def close_run() -> None:
        joined.extend(
            nbformat.v4.new_output("stream", name=name, text=run_of_streams[name])
            for name in ("stdout", "stderr")
            if name in run_of_streams
        )
        run_of_streams.clear()

    for output in outputs:
        if output.output_type == "stream":
            run_of_streams[output.name] = run_of_streams.get(output.name, "") + output.text
        else:
            close_run()
            joined.append(output)
    close_run()
    return joined


def _normal_output(output: NotebookNode) -> NotebookNode:
    output = nbformat.from_dict(dict(output))
    if output.output_type == "stream":
        output.text = steady(output.text)
    if "data" in output:
        data = dict(output.data)
        data.pop(WIDGET_VIEW, None)
        output.data = nbformat.from_dict(
            {
                kind: steady(content) if kind.startswith("text/") else content
                for kind, content in sorted(data.items())
            }
        )
    return output


def build_notebook(source: Path, target: Path, pictures: Path | None = None) -> Built:
    """Run one source and write its notebook; an unchanged notebook is not written.

    The source is first put into the form in which JupyterLab saves it.

    Args:
        source: the percent script. Its kernel runs in the script's folder.
        target: the notebook's file.
        pictures: the file for the pictures that its widgets move through in the book. Without it
            none are drawn.

    Raises:
        LessonError: if the lesson does not run to its end; `target` is then left as it was.
    """
    started = time.perf_counter()
    write_if_changed(source, as_saved(source))
    notebook = read_source(source)
    with tempfile.TemporaryDirectory(prefix="ehr-course-build-") as home:
        asked = {WANTED: "1"} if pictures else {}
        environment = kernel_environment(
            Path(home), EHR_COURSE_PROBE_SEED="0", EHR_COURSE_STRICT_DRAWINGS="1", **asked
        )
        run(notebook, source.parent, environment)
    moved_through = take_out(notebook)
    require_pictures(notebook)
    text = nbformat.writes(normalise(notebook), version=4)
    changed = write_if_changed(target, text + "\n")
    if pictures and moved_through:
        pictures.parent.mkdir(exist_ok=True)
        changed |= write_if_changed(pictures, moved_through)
    return Built(target, time.perf_counter() - started, changed)


def write_if_changed(target: Path, content: str | bytes) -> bool:
    """Write a file whole or not at all; return whether its bytes changed."""
    if isinstance(content, str):
        content = content.encode("utf-8")
    if target.exists() and target.read_bytes() == content:
        return False
    unfinished = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        unfinished.write_bytes(content)
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    return True


def differences(source: Path, target: Path) -> list[str]:
    """Say where a notebook is not its source's; an empty list means that the two agree.

    Compares the cells' types, texts, tags and ids, and asks that every code cell was run, in
    order. Outputs are not compared: nbval does that.
    """
    if not target.exists():
        return ["there is no notebook yet"]
    expected = read_source(source).cells
    stored = nbformat.read(target, as_version=4).cells
    found = []
    if as_saved(source) != source.read_text(encoding="utf-8"):
        found.append("the source is not in the form in which JupyterLab saves it")
    if len(expected) != len(stored):
        found.append(f"the source has {len(expected)} cells, the notebook {len(stored)}")
    for number, (ours, theirs) in enumerate(zip(expected, stored, strict=False), start=1):
        for part, mine, other in (
            ("type", ours.cell_type, theirs.cell_type),
            ("text", ours.source, theirs.source),
            ("tags", ours.metadata.get("tags", []), theirs.metadata.get("tags", [])),
            ("state of folding", dict(ours.metadata), dict(theirs.metadata)),
            ("id", ours.id, theirs.get("id")),
        ):
            if mine != other:
                found.append(f"cell {number}: another {part}")
                break
    counts = [cell.execution_count for cell in stored if cell.cell_type == "code"]
    if counts != list(range(1, len(counts) + 1)):
        found.append("its cells were not run in order, from the first to the last")
    return found
