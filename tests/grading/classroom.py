"""A class of thirty that worked on lesson 07: right, wrong, careless, broken and malicious.

Everybody opened the notebook that the teacher released. `write_class` writes the submissions as a
teacher gets them: folders, loose files, zip files, saved by different programs. Each `Student`
says what a grader has to find. The paths that attackers try to reach are filled in when the class
is written.
"""

from __future__ import annotations

import io
import json
import textwrap
import unicodedata
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
from attacks import ERROR, NOT_YET, attacks
from handed_in import (
    IDS,
    LESSON,
    THE_LESSON,
    as_text,
    cell_of,
    exercise_of,
    notebook_with,
    put,
    right,
    wrong,
)
from nbformat import NotebookNode

SOLVED = "solved"
NOTHING = "not attempted"
FIRST_TWO = ("07.1", "07.2")


@dataclass(frozen=True)
class Student:
    """One student: how the submission is written, and what a grader finds.

    Attributes:
        name: as the grader should name the student.
        writes: each writes a part of the submission into the folder of all submissions.
        outcomes: by exercise; those that are not named are not attempted.
        misconceptions: by exercise.
        flags: by exercise, at least these; "" for the student's own.
    """

    name: str
    writes: tuple[Callable[[Path], None], ...]
    outcomes: Mapping[str, str] = field(default_factory=dict)
    misconceptions: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)

    def outcome(self, exercise: str) -> str:
        """Return what is to be found of one exercise."""
        return NOT_YET if exercise in self.misconceptions else self.outcomes.get(exercise, NOTHING)


def write_class(
    folder: Path, *, released: Path, secret: Path, grades: Path
) -> tuple[Student, ...]:
    """Write all submissions.

    Args:
        folder: a new folder for them.
        released: the folder that `course release` made.
        secret: a file outside of it that nobody may read.
        grades: the folder into which the class will be graded.
    """
    folder.mkdir(parents=True)
    given = released / "lessons" / f"{LESSON}.ipynb"
    students = _everybody(given, released, attacks(folder, secret, grades))
    for student in students:
        for write in student.writes:
            write(folder)
    return students


def names_of_the_class() -> list[str]:
    """Return the names of all students, to name tests by."""
    nowhere = Path()
    everybody = _everybody(THE_LESSON, nowhere, attacks(nowhere, nowhere, nowhere))
    return [student.name for student in everybody]


def _everybody(
    given: Path, released: Path, malicious: Mapping[str, tuple[str, str, str]]
) -> tuple[Student, ...]:
    return (
        *_diligent(given, released),
        *_mistaken(given),
        *_careless(given),
        *_malicious(given, malicious),
    )


def _code(source: str) -> NotebookNode:
    return nbformat.v4.new_code_cell(textwrap.dedent(source).strip("\n"))


def _by_vs_code(notebook: NotebookNode) -> str:
    """The notebook as VS Code saves one of format 4.2: without ids, with marks of its own."""
    saved = json.loads(as_text(notebook, "a.ipynb"))
    saved["nbformat_minor"] = 2
    for cell in saved["cells"]:
        del cell["id"]
        cell["metadata"]["vscode"] = {"languageId": "python"}
    return json.dumps(saved, indent=4)


def _by_colab(notebook: NotebookNode) -> str:
    """The notebook as Colab saves it: ids in the metadata, one long output."""
    saved = json.loads(as_text(notebook, "a.ipynb"))
    saved["metadata"] = {"colab": {"provenance": []}, "kernelspec": {"name": "python3"}}
    for cell in saved["cells"]:
        cell["metadata"]["id"] = cell.pop("id")
        if cell["cell_type"] == "code":
            cell["execution_count"] = 7
    picture: dict[str, Any] = {"output_type": "display_data", "metadata": {}}
    picture["data"] = {"image/png": "A" * (3 << 20)}
    next(c for c in saved["cells"] if c["cell_type"] == "code")["outputs"] = [picture]
    return json.dumps(saved, ensure_ascii=False)


def _whole_folder(released: Path, notebook: NotebookNode) -> bytes:
    """A zip file of the whole released folder, as macOS packs it, with the answers in it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        scripts = sorted(released.rglob("*.py")) if released != Path() else []
        for script in scripts:
            packed.write(script, Path("week1", script.relative_to(released)).as_posix())
        packed.writestr(f"week1/lessons/{LESSON}.ipynb", as_text(notebook, "a.ipynb"))
        packed.writestr(f"__MACOSX/week1/lessons/._{LESSON}.ipynb", b"\0\5\26\7")
        old = f"week1/lessons/.ipynb_checkpoints/{LESSON}-checkpoint.ipynb"
        packed.writestr(old, "{}")
    return file.getvalue()


def _diligent(given: Path, released: Path) -> list[Student]:
    """Right answers in every form that a submission can have."""
    all_solved = dict.fromkeys(IDS, SOLVED)
    two_solved = dict.fromkeys(FIRST_TWO, SOLVED)
    whole = notebook_with(right(), given=given)
    two = notebook_with(right(*FIRST_TWO), given=given)
    retyped = nbformat.v4.new_notebook(cells=[_code("\n\n".join(right(*FIRST_TWO).values()))])
    script = as_text(two, "a.py").replace("def token_id", "# für Ärzte\ndef token_id", 1)
    by_hand = notebook_with(
        right("07.2")
        | {
            "07.1": "%pip install nothing\nfiles = !ls\nfrom my_place import place\n\n\n"
            "def token_id(code, vocabulary):\n    return 7 + place(code, vocabulary)"
        },
        given=given,
    )
    cleo, asa = "Cleo Clark_4711_assignsubmission_{}", unicodedata.normalize("NFD", "Åsa Öst")
    place = "def place(code, vocabulary):\n    return vocabulary.index(code)\n"
    return [
        Student("ada", (put(whole, "ada", f"{LESSON}.ipynb"),), all_solved),
        Student(
            "-bob",
            (
                put(_by_vs_code(two), "-bob", "week1", "lessons", f"{LESSON}.ipynb"),
                put(two, "-bob", "week1", "lessons", f"{LESSON}.py"),
            ),
            two_solved,
        ),
        Student(
            "Cleo Clark",
            (
                put(_by_colab(two), cleo.format("file_"), "final version.ipynb"),
                put("<p>Hello</p>", cleo.format("onlinetext_"), "onlinetext.html"),
            ),
            two_solved,
        ),
        Student(
            "dan",
            (put(script.replace("\n", "\r\n").encode("cp1252", "replace"), f"dan_{LESSON}.py"),),
            two_solved,
        ),
        Student("eve", (put(_whole_folder(released, two), "eve_LATE_123_456_w.zip"),), two_solved),
        Student(
            "finn",
            (put(retyped, "finn", "mine.ipynb"),),
            two_solved,
            flags=dict.fromkeys(FIRST_TWO, "lost_tag"),
        ),
        Student(
            "Åsa Öst",
            (put(by_hand, asa, f"{LESSON}.ipynb"), put(place, asa, "my_place.py")),
            two_solved,
        ),
    ]


def _mistaken(given: Path) -> list[Student]:
    """Each has one known wrong idea in every exercise."""
    students = []
    for number, name in enumerate(("gil", "hal")):
        pairs = {exercise: wrong(exercise, number) for exercise in IDS}
        answers = {exercise: code for exercise, (_, code) in pairs.items()}
        names = {exercise: idea for exercise, (idea, _) in pairs.items()}
        notebook = notebook_with(answers, given=given)
        write = put(notebook, name, f"{LESSON}.ipynb")
        students.append(Student(name, (write,), misconceptions=names))
    return students


def _careless(given: Path) -> list[Student]:
    """Untouched, deleted, copied, renamed, cut off; helpers elsewhere; a verdict of chance."""
    idea, forgets = wrong("07.1", 0)

    deleted = notebook_with(right("07.1"), given=given)
    deleted.cells = [cell for cell in deleted.cells if exercise_of(cell) in ("", "07.1")]

    copied = notebook_with(right("07.1"), given=given)
    first = cell_of(copied, "07.1")
    again = nbformat.from_dict(first | {"id": "copy", "source": forgets})
    copied.cells.insert(copied.cells.index(first) + 1, again)

    renamed = notebook_with(
        {"07.1": right()["07.1"].replace("token_id", "my_token_id")} | right("07.2"), given=given
    )
    cell = cell_of(renamed, "07.1")
    cell.source = cell.source.replace('check("07.1", token_id)', 'check("07.1", my_token_id)')
    cell.metadata.tags = []
    # The id was changed by mistake: this is still 07.2's answer, and nobody else's.
    cell = cell_of(renamed, "07.2")
    cell.source = cell.source.replace('check("07.2"', 'check("07.3"')

    helper = notebook_with(
        {
            "07.1": "def token_id(code, vocabulary):\n"
            "    return first_id + place_of(code, vocabulary)",
            "07.2": "def encode_patient(visits, code_ids):\n"
            "    rows = [[3, *map(code_ids.get, visit), 4] for visit in visits]\n"
            "    return [1, *chain.from_iterable(rows), 2]",
            "07.3": "def decode(ids, vocabulary):\n"
            "    codes = {token_id(code, vocabulary): code for code in vocabulary}\n"
            "    starts = [i for i, token in enumerate(ids[: ids.index(2)]) if token == 3]\n"
            "    rows = [ids[i : ids.index(4, i)] for i in starts]\n"
            "    return [[codes[token] for token in row if token in codes] for row in rows]",
        },
        given=given,
    )
    place = helper.cells.index(cell_of(helper, "07.1"))
    helper.cells[place:place] = [
        _code("from itertools import chain\n\nfirst_id = 3\nfirst_id += 4"),
        _code("def place_of(code, vocabulary):\n    return vocabulary.index(code)\n\n\n%timeit 1"),
    ]

    unreadable = notebook_with(
        {
            "07.1": "def token_id(code, vocabulary:\n    return 7",
            "07.2": "def encode_patient(visits, code_ids):\n    raise SystemExit(0)",
        },
        given=given,
    )

    chance = notebook_with(
        {
            "07.1": "def token_id(code, vocabulary):\n"
            "    if len(vocabulary) == 8 and vocabulary[0] == '4280':\n"
            "        return 0\n"
            "    return 7 + vocabulary.index(code)"
        },
        given=given,
    )

    lines = as_text(notebook_with(right(), given=given), "a.ipynb").split("\n")
    lines[40:50] = ["<<<<<<< HEAD", *lines[40:50], "=======", *lines[40:50], ">>>>>>> theirs"]

    first_try = notebook_with({"07.1": forgets} | right("07.2"), given=given)
    second_try = notebook_with(right("07.1"), given=given)

    return [
        Student("untouched", (put(notebook_with({}, given=given), "untouched", "a.ipynb"),)),
        Student(
            "deleted",
            (put(deleted, "deleted", f"{LESSON}.ipynb"),),
            {"07.1": SOLVED},
            flags={"07.2": "absent"},
        ),
        Student(
            "copied",
            (put(copied, "copied", f"{LESSON}.ipynb"),),
            misconceptions={"07.1": idea},
            flags={"07.1": "double"},
        ),
        Student(
            "renamed",
            (put(renamed, "renamed", "Untitled3.ipynb"),),
            dict.fromkeys(FIRST_TWO, SOLVED),
            flags={"07.1": "lost_tag"},
        ),
        Student(
            "helper",
            (put(helper, "helper", f"{LESSON}.ipynb"),),
            dict.fromkeys(IDS[:3], SOLVED),
        ),
        Student(
            "unreadable",
            (put(unreadable, "unreadable", f"{LESSON}.ipynb"),),
            dict.fromkeys(FIRST_TWO, ERROR),
            flags={"07.1": "unreadable"},
        ),
        Student(
            "chance",
            (put(chance, "chance", f"{LESSON}.ipynb"),),
            {"07.1": NOT_YET},
            flags={"07.1": "seed"},
        ),
        Student(
            "twice",
            (
                put(first_try, "twice", "try 1", "a.ipynb"),
                put(second_try, "twice", "try 2", "a.ipynb"),
            ),
            dict.fromkeys(FIRST_TWO, SOLVED),
            flags={"07.1": "double"},
        ),
        Student(
            "broken", (put("\n".join(lines), "broken", "a.ipynb"),), flags={"": "broken_file"}
        ),
        Student("blank", (put("", f"blank_{LESSON}.ipynb"),), flags={"": "broken_file"}),
    ]


def _malicious(given: Path, malicious: Mapping[str, tuple[str, str, str]]) -> list[Student]:
    students = []
    for name, (code, outcome, flag) in malicious.items():
        notebook = notebook_with({"07.1": code} | right("07.2"), given=given)
        outcomes = {"07.1": outcome, "07.2": SOLVED}
        flags = {"07.1": flag} if flag else {}
        write = put(notebook, name, f"{LESSON}.ipynb")
        students.append(Student(name, (write,), outcomes, flags=flags))
    return students
