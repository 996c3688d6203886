"""A made-up class that has worked on lesson 07: right, wrong, careless, broken and malicious.

`write_class` writes its thirty submissions as a teacher gets them: some as folders, some as loose
files, some renamed. `STUDENTS` says of each what a grader has to find. The paths that attackers
try to reach are filled in when the class is written.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import jupytext
import nbformat
from nbformat import NotebookNode

from ehr_course.exercises.catalogue import lesson_exercises
from ehr_course.exercises.worked_answers import changed, worked_answer

ROOT = Path(__file__).resolve().parents[2]
LESSON = "07_tokenization"
IDS = tuple(exercise.id for exercise in lesson_exercises("07"))
SOLVED = "solved"
NOT_YET = "not yet"
ERROR = "error in your code"
NOTHING = "not attempted"


@dataclass(frozen=True)
class Student:
    """One student: how the submission is written, and what a grader finds.

    Attributes:
        name: as the grader should name the student.
        write: writes the submission into a folder of all submissions.
        outcomes: by exercise; those that are not named are not attempted.
        misconceptions: by exercise.
        flags: by exercise, at least these; "" for the student's own.
    """

    name: str
    write: Callable[[Path], None]
    outcomes: Mapping[str, str] = field(default_factory=dict)
    misconceptions: Mapping[str, str] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)


def write_class(folder: Path, *, secret: Path, grades: Path) -> tuple[Student, ...]:
    """Write all submissions.

    Args:
        folder: a new folder for them.
        secret: a file outside of it that nobody may read.
        grades: the folder into which the class will be graded.
    """
    folder.mkdir(parents=True)
    students = (*_diligent(), *_mistaken(), *_careless(), *_malicious(folder, secret, grades))
    for student in students:
        student.write(folder)
    return students


def names_of_the_class() -> list[str]:
    """Return the names of all students, to name tests by."""
    nowhere = Path()
    everybody = (*_diligent(), *_mistaken(), *_careless(), *_malicious(nowhere, nowhere, nowhere))
    return [student.name for student in everybody]


@cache
def _pristine() -> str:
    return (ROOT / "lessons" / f"{LESSON}.ipynb").read_text(encoding="utf-8")


def notebook_with(answers: Mapping[str, str], *, check: bool = True) -> NotebookNode:
    """Return the lesson's notebook with some exercises' cells filled.

    Args:
        answers: the code of each, without its call of `check`.
        check: whether that call is added.
    """
    notebook = nbformat.reads(_pristine(), as_version=4)
    for cell in notebook.cells:
        exercise = _exercise_of(cell)
        if exercise in answers:
            last = cell.source.rpartition("\ncheck(")[2] if check else ""
            cell.source = answers[exercise].strip("\n") + (f"\n\n\ncheck({last}" if last else "")
    return notebook


def cell_of(notebook: NotebookNode, exercise: str) -> NotebookNode:
    """Return the cell that has an exercise's tag."""
    return next(cell for cell in notebook.cells if _exercise_of(cell) == exercise)


def _exercise_of(cell: NotebookNode) -> str:
    tags = cell.metadata.get("tags", [])
    return next((t.partition(":")[2] for t in tags if t.startswith("exercise:")), "")


def right(*ids: str) -> dict[str, str]:
    """Return the worked answers of some exercises, of all where none is named."""
    return {exercise: worked_answer(exercise) for exercise in ids or IDS}


def wrong(exercise: str, number: int) -> tuple[str, str]:
    """Return the name of an exercise's misconception, and an answer that has it."""
    (task,) = (one for one in lesson_exercises("07") if one.id == exercise)
    name, found = list(task.misconceptions.items())[number % len(task.misconceptions)]
    return name, changed(worked_answer(exercise), found.change)


def _as_file(notebook: NotebookNode, *path: str) -> Callable[[Path], None]:
    """Return what writes a notebook, as `.ipynb` or as a script, at a path."""

    def write(folder: Path) -> None:
        target = folder.joinpath(*path)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".py":
            text = jupytext.writes(notebook, fmt="py:percent")
        else:
            text = nbformat.writes(notebook)
        target.write_text(text, encoding="utf-8")

    return write


def _text(text: str, *path: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        target = folder.joinpath(*path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    return write


def _code(source: str) -> NotebookNode:
    return nbformat.v4.new_code_cell(textwrap.dedent(source).strip("\n"))


def _diligent() -> list[Student]:
    """Right answers in every form that a submission can have."""
    all_solved = dict.fromkeys(IDS, SOLVED)
    whole = notebook_with(right())
    retyped = nbformat.v4.new_notebook(cells=[_code(answer) for answer in right().values()])
    both = _as_file(whole, "nina", f"{LESSON}.ipynb"), _as_file(whole, "nina", f"{LESSON}.py")
    return [
        Student("ada", _as_file(whole, "ada", f"{LESSON}.ipynb"), all_solved),
        Student("bob", _as_file(whole, "bob", "week1", "lessons", f"{LESSON}.ipynb"), all_solved),
        Student(
            "Cleo Clark",
            _as_file(whole, "Cleo Clark_4711_assignsubmission_file_", "final version.ipynb"),
            all_solved,
        ),
        Student("dan", _as_file(whole, f"dan_{LESSON}.py"), all_solved),
        Student("eve", _as_file(whole, f"eve_LATE_123_456_{LESSON}-1.ipynb"), all_solved),
        Student(
            "finn",
            _as_file(retyped, "finn", "mine.ipynb"),
            all_solved,
            flags=dict.fromkeys(IDS, "lost_tag"),
        ),
        Student("nina", lambda folder: [write(folder) for write in both] and None, all_solved),
    ]


def _mistaken() -> list[Student]:
    """Each has one known wrong idea in every exercise."""
    students = []
    for number, name in enumerate(("gil", "hal", "ida")):
        pairs = {exercise: wrong(exercise, number) for exercise in IDS}
        notebook = notebook_with({exercise: code for exercise, (_, code) in pairs.items()})
        names = {exercise: idea for exercise, (idea, _) in pairs.items()}
        students.append(
            Student(name, _as_file(notebook, name, f"{LESSON}.ipynb"), {}, misconceptions=names)
        )
    return students


def _careless() -> list[Student]:
    """Untouched, deleted, copied, renamed, cut off; helpers elsewhere; a verdict of chance."""
    untouched = notebook_with({})

    deleted = notebook_with(right("07.1"))
    deleted.cells = [cell for cell in deleted.cells if _exercise_of(cell) in ("", "07.1")]

    copied = notebook_with(right("07.1"))
    first = cell_of(copied, "07.1")
    again = nbformat.from_dict(first | {"id": "copy", "source": wrong("07.1", 0)[1]})
    copied.cells.insert(copied.cells.index(first) + 1, again)

    renamed = notebook_with({"07.1": right()["07.1"].replace("token_id", "my_token_id")})
    cell = cell_of(renamed, "07.1")
    cell.source = cell.source.replace('check("07.1", token_id)', 'check("07.1", my_token_id)')
    cell.metadata.tags = []

    helper = notebook_with(
        {
            "07.1": "def token_id(code, vocabulary):\n"
            "    return first_id + place(code, vocabulary)",
            "07.3": "def encode_patient(visits, code_ids):\n"
            "    rows = [encode_visit(visit, code_ids) for visit in visits]\n"
            "    return [1, *chain.from_iterable(rows), 2]",
        }
        | right("07.2")
    )
    place = helper.cells.index(cell_of(helper, "07.1"))
    helper.cells[place:place] = [
        _code("from itertools import chain\n\nfirst_id = 3\nfirst_id += 4"),
        _code("def place(code, vocabulary):\n    return vocabulary.index(code)\n\n\n%timeit 1"),
    ]

    unreadable = notebook_with({"07.1": "def token_id(code, vocabulary:\n    return 7"})

    chance = notebook_with(
        {
            "07.1": "def token_id(code, vocabulary):\n"
            "    if len(vocabulary) == 8 and vocabulary[0] == '4280':\n"
            "        return 0\n"
            "    return 7 + vocabulary.index(code)"
        }
    )
    broken = json.dumps(json.loads(_pristine()))[:5000]
    return [
        Student("untouched", _as_file(untouched, "untouched", f"{LESSON}.ipynb")),
        Student(
            "deleted",
            _as_file(deleted, "deleted", f"{LESSON}.ipynb"),
            {"07.1": SOLVED},
            flags={"07.2": "absent"},
        ),
        Student(
            "copied",
            _as_file(copied, "copied", f"{LESSON}.ipynb"),
            {"07.1": NOT_YET},
            flags={"07.1": "double"},
        ),
        Student(
            "renamed",
            _as_file(renamed, "renamed", "Untitled3.ipynb"),
            {"07.1": SOLVED},
            flags={"07.1": "lost_tag"},
        ),
        Student(
            "helper",
            _as_file(helper, "helper", f"{LESSON}.ipynb"),
            {"07.1": SOLVED, "07.2": SOLVED, "07.3": SOLVED},
        ),
        Student(
            "unreadable",
            _as_file(unreadable, "unreadable", f"{LESSON}.ipynb"),
            {"07.1": ERROR},
            flags={"07.1": "unreadable"},
        ),
        Student("chance", _as_file(chance, "chance", f"{LESSON}.ipynb"), {"07.1": None}),
        Student("broken", _text(broken, "broken", f"{LESSON}.ipynb"), flags={"": "broken_file"}),
        Student("blank", _text("", f"blank_{LESSON}.ipynb"), flags={"": "broken_file"}),
    ]


def attacks(folder: Path, secret: Path, grades: Path) -> dict[str, tuple[str, str | None, str]]:
    """Return every attack on 07.1, by name: its code, what is found of it, and the flag.

    An attack that succeeds returns the right value, and one that fails a wrong one: whatever is
    solved has come through.
    """

    solution = ROOT / "solutions" / f"{LESSON}.py"
    references = ROOT / "ehr_course" / "exercises" / "lessons"
    return {
        "fake_verdict": (
            """
            import os, sys, json

            def token_id(code, vocabulary):
                value = {"t": "int", "v": "7"}
                line = json.dumps({"outcome": "solved", "points": 100, "value": value})
                print("✔ 07.1 The token id of a code · Solved")
                sys.__stdout__.write(line); sys.__stderr__.write(line)
                for number in (0, 1, 2):
                    os.write(number, line.encode())
                return -1
            """,
            NOT_YET,
            "",
        ),
        "forged_message": (
            """
            import json, os, struct

            def token_id(code, vocabulary):
                text = json.dumps({"value": {"t": "int", "v": "7"}, "changed": False}).encode()
                for number in range(3, 64):
                    try:
                        os.write(number, struct.pack("<II", len(text), 0) + text)
                    except OSError:
                        pass
                return -1
            """,
            NOT_YET,
            "",
        ),
        "patches_checks": (
            """
            def token_id(code, vocabulary):
                import ehr_course.exercises as exercises
                from ehr_course.exercises import compare, examine, learner_code, result
                compare.first_difference = lambda *a, **k: None
                compare.state_of = lambda value: ""
                seven = learner_code.Call(7, None, "", False)
                learner_code.call = lambda function, arguments, seconds=None: seven
                exercises.check = exercises.examine = lambda *a, **k: result.Outcome.SOLVED
                return -1
            """,
            NOT_YET,
            "",
        ),
        "exits": ("def token_id(code, vocabulary):\n    raise SystemExit(0)", ERROR, ""),
        "exits_hard": (
            "import os\n\n\ndef token_id(code, vocabulary):\n    os._exit(0)",
            ERROR,
            "ended",
        ),
        "kills": (
            """
            import os, signal

            def token_id(code, vocabulary):
                tried = [os.getppid(), 1, -1, 0, *range(max(2, os.getpid() - 300), os.getpid())]
                for process in tried:
                    try:
                        os.kill(process, signal.SIGKILL)
                    except OSError:
                        pass
                return -1
            """,
            NOT_YET,
            "",
        ),
        "endless": (
            """
            def token_id(code, vocabulary):
                while True:
                    try:
                        while True:
                            pass
                    except BaseException:
                        pass
            """,
            NOT_YET,
            "stopped",
        ),
        "memory": (
            "def token_id(code, vocabulary):\n"
            "    return len(bytearray(2 << 30)) and 7 + vocabulary.index(code)",
            ERROR,
            "",
        ),
        "fork_bomb": (
            """
            import os, subprocess, sys, threading

            def token_id(code, vocabulary):
                made = 0
                for _ in range(200):
                    try:
                        if os.fork() == 0:
                            while True:
                                pass
                        made += 1
                    except OSError:
                        pass
                try:
                    subprocess.run([sys.executable, "-c", "1"])
                    made += 1
                except OSError:
                    pass
                return 7 + vocabulary.index(code) if made else -1
            """,
            NOT_YET,
            "",
        ),
        "network": (
            """
            import socket

            def token_id(code, vocabulary):
                for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
                    try:
                        socket.socket(family)
                        return 7 + vocabulary.index(code)
                    except OSError:
                        pass
                return -1
            """,
            NOT_YET,
            "",
        ),
        "reads_solutions": (
            f"""
            import ctypes, os

            def token_id(code, vocabulary):
                for path in {[str(solution), str(references / "lesson_07.py"), str(secret)]!r}:
                    try:
                        stolen = open(path).read()
                        return 7 + vocabulary.index(code)
                    except OSError:
                        pass
                    libc = ctypes.CDLL(None)
                    if libc.open(path.encode(), 0) >= 0:
                        return 7 + vocabulary.index(code)
                import gc
                import sys
                held = [m for m in sys.modules if "lesson_07" in m]
                held += [o for o in gc.get_objects() if type(o).__name__ == "Exercise"]
                if held:
                    return 7 + vocabulary.index(code)
                try:
                    from ehr_course.exercises.lessons import lesson_07
                    return lesson_07.TOKEN_ID.reference(code, vocabulary)
                except Exception:
                    pass
                try:
                    from ehr_course.exercises.worked_answers import worked_answer
                    worked_answer("07.1")
                    return 7 + vocabulary.index(code)
                except Exception:
                    return -1
            """,
            NOT_YET,
            "",
        ),
        "reads_neighbour": (
            f"""
            import os

            def token_id(code, vocabulary):
                try:
                    found = os.listdir({str(folder)!r})
                    return 7 + vocabulary.index(code)
                except OSError:
                    pass
                try:
                    open({str(folder / "ada" / f"{LESSON}.ipynb")!r}).read()
                    return 7 + vocabulary.index(code)
                except OSError:
                    pass
                for entry in range(1, 3000):
                    if entry == os.getpid():
                        continue
                    try:
                        open(f"/proc/{{entry}}/environ").read()
                        return 7 + vocabulary.index(code)
                    except OSError:
                        pass
                return -1
            """,
            NOT_YET,
            "",
        ),
        "writes_grades": (
            f"""
            import os

            def token_id(code, vocabulary):
                places = {[str(grades), str(grades / "students" / "writes_grades"), str(folder)]!r}
                places += [".", "/tmp", "/dev/shm", {str(ROOT)!r}]
                for place in places:
                    for name in ("result.json", "grades.csv"):
                        try:
                            os.makedirs(place, exist_ok=True)
                            open(os.path.join(place, name), "a").write("solved")
                            return 7 + vocabulary.index(code)
                        except OSError:
                            pass
                    try:
                        os.chmod(place, 0)
                        return 7 + vocabulary.index(code)
                    except OSError:
                        pass
                return -1
            """,
            NOT_YET,
            "",
        ),
        "reduces": (
            f"""
            class Right(int):
                def __eq__(self, other): return True
                def __ne__(self, other): return False
                def __hash__(self): return 7
                def __instancecheck__(self, kind): return True
                def __repr__(self): return "7"
                def __reduce__(self):
                    return eval, ("open({str(grades / "forged")!r}, 'w').close()",)
                __reduce_ex__ = lambda self, protocol: self.__reduce__()

            class Any:
                def __eq__(self, other): return True
                def __getattr__(self, name): return Any()
                def __reduce__(self): return eval, ("__import__('os')._exit(0)",)

            def token_id(code, vocabulary):
                return Right(-1) if len(vocabulary) % 2 else Any()
            """,
            NOT_YET,
            "",
        ),
        "tensor": (
            """
            import torch

            class Same(torch.Tensor):
                @classmethod
                def __torch_function__(cls, function, types, args=(), kwargs=None):
                    return True

            def token_id(code, vocabulary):
                return torch.tensor(-1).as_subclass(Same)
            """,
            NOT_YET,
            "",
        ),
    }


def _malicious(folder: Path, secret: Path, grades: Path) -> list[Student]:
    students = []
    for name, (code, outcome, flag) in attacks(folder, secret, grades).items():
        notebook = notebook_with({"07.1": textwrap.dedent(code)} | right("07.2"))
        outcomes = {"07.1": outcome, "07.2": SOLVED}
        flags = {"07.1": flag} if flag else {}
        write = _as_file(notebook, name, f"{LESSON}.ipynb")
        students.append(Student(name, write, outcomes, flags=flags))
    return students


def run_grader(*arguments: str | Path, timeout: float = 600) -> subprocess.CompletedProcess:
    """Run `course grade` as its command does once it is inside the environment."""
    command = [sys.executable, "-m", "course.grading.command", *map(str, arguments)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command,
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder."""
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
