"""The book's reference: a page for each room of the library, written from its docstrings.

`course book` rewrites these pages each time: Sphinx imports the library and reads
the docstrings, so that nothing of them stands in the repository twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = "reference"


@dataclass(frozen=True)
class Room:
    """One page of the reference.

    Attributes:
        name: the page's file.
        title: its heading.
        modules: the modules and packages of `ehr_course` that it describes, in order.
    """

    name: str
    title: str
    modules: tuple[str, ...]


def _room(title: str, *modules: str) -> Room:
    return Room(title.lower().replace(" ", "_"), title, modules)


def _inside(package: str, modules: str) -> tuple[str, ...]:
    return tuple(f"{package}.{module}" for module in modules.split())


ROOMS = (
    _room("Records", "records"),
    _room("Codes", "icd", "icd.icd9_cm", "icd.icd10_cm", "code_system"),
    _room(
        "Sources",
        "sources",
        *_inside(
            "sources",
            "cohort mimic meds note_corpus tables any_cohort synthetic grouping splits",
        ),
    ),
    _room("Tokenizers", "tokenizers", *_inside("tokenizers", "base codes words notes")),
    _room(
        "Batches",
        "batches",
        *_inside("batches", "datasets corruption collate sampler note_dataset"),
    ),
    _room("Losses", "losses"),
    _room(
        "Models",
        "models",
        *_inside(
            "models",
            "prompt_bart prefix_tuning pointer_generator saved",
        ),
    ),
    _room(
        "Training",
        "training",
        *_inside("training", "config trainer checkpoints history memory"),
    ),
    _room(
        "Generation",
        "generation",
        *_inside(
            "generation",
            "patients calibration baselines summaries beam_search",
        ),
    ),
    _room(
        "Evaluation",
        "evaluation",
        *_inside(
            "evaluation",
            "measure fidelity validity privacy utility perplexity distances code_table summaries",
        ),
    ),
    _room("Report", "report"),
    _room(
        "Plots",
        "plots",
        *_inside(
            "plots",
            "charts diagrams style measures record timeline batch corruption",
        ),
    ),
    _room(
        "Widgets",
        "widgets",
        *_inside(
            "widgets",
            "record timeline tokens batch corruption attention prompt loss_terms "
            "auxiliary_weights number_line generation_trace coverage beam_search "
            "prefix_attention dashboard chance",
        ),
    ),
    _room("Exercises", "exercises", "exercises.copied_visit", "exercises.lost_code"),
    _room("Files and errors", "errors", "course_files", "new_folder", "yaml_file"),
)


def write_reference(folder: Path) -> None:
    """Write a Markdown page for each room, and one that lists them.

    Args:
        folder: the book's source; `reference` is made in it.
    """
    (folder / FOLDER).mkdir()
    for room in ROOMS:
        (folder / FOLDER / f"{room.name}.md").write_text(_page(room), encoding="utf-8")
    rows = "\n".join(f"| [{room.title}]({room.name}.md) | {_listed(room)} |" for room in ROOMS)
    pages = "\n".join(room.name for room in ROOMS)
    index = _INDEX.replace("ROWS", rows).replace("PAGES", pages)
    (folder / FOLDER / "index.md").write_text(index, encoding="utf-8")


_INDEX = """\
# Reference of the library

What a lesson or a program of yours can import from `ehr_course`, from its docstrings. The rooms
stand in the order in which they build on each other. The command line has a page of its own,
[Your own data](../your_own_data.md).

| room | modules |
|---|---|
ROWS

```{toctree}
:hidden:

PAGES
```
"""


def _listed(room: Room) -> str:
    """The modules of a room; a package that they lie in is its heading already."""
    package = f"{room.modules[0]}."
    names = [name.removeprefix(package) for name in room.modules]
    inside = names[1:] if all(name.startswith(package) for name in room.modules[1:]) else names
    return ", ".join(f"`{name}`" for name in inside or names)


def _page(room: Room) -> str:
    parts = [f"# {room.title}\n"]
    for name in room.modules:
        described = f"```{{eval-rst}}\n.. automodule:: ehr_course.{name}\n```\n"
        parts.append(f"## ehr_course.{name}\n\n{described}")
    return "\n".join(parts)
