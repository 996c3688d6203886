"""What somebody does who has installed the wheel and has no clone; run by that Python itself.

`course.bare_wheel` copies this file into an empty folder and runs it there with an environment's
own Python, once for each use: `python uses_of_a_wheel.py USE`. It imports nothing of `course`.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

NOTEBOOK_SECONDS = 300
SET_UP_CELLS = 3
"""The code cells of a lesson that install the course, set its parameters and import."""


def _program(*arguments: object) -> str:
    """Run the installed `ehr-course`, and return what it prints."""
    scripts = Path(sysconfig.get_path("scripts"))
    name = "ehr-course.exe" if os.name == "nt" else "ehr-course"
    done = subprocess.run(
        [str(scripts / name), *map(str, arguments)], capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, f"ehr-course {arguments} ended with {done.stderr}"
    return done.stdout


def library() -> None:
    """The library is the installed one, with types, and no clone is near."""
    import ehr_course

    folder = Path(ehr_course.__file__).parent
    assert folder.is_relative_to(sysconfig.get_path("purelib")), folder
    assert not (folder.parent / "course").exists()
    assert (folder / "py.typed").exists()


def command_line() -> None:
    """`ehr-course` says its version and its help, and makes patients from nothing."""
    from importlib.metadata import version

    assert _program("--version").split() == ["ehr-course", version("ehr-course")]
    said = _program("--help")
    assert all(name in said for name in ("prepare", "train", "generate", "evaluate", "summarize"))
    _program("prepare", "--patients", 200, "--out", "prepared", "--quiet")
    tiny = ("--steps", 8, "--batch-size", 16, "--profile", "narrow")
    _program("train", "prepared", *tiny, "--out", "run", "--quiet")
    _program("generate", "run", "--patients", 20, "--format", "parquet", "--out", "synthetic")
    import polars

    [table] = Path("synthetic").rglob("*.parquet")
    assert polars.read_parquet(table)["subject_id"].n_unique() == 20


def checkpoints() -> None:
    """Every checkpoint that is a model loads and knows as many words as its tokenizer."""
    from ehr_course.course_files import checkpoint_folder
    from ehr_course.models.saved import load_checkpoint

    folders = checkpoint_folder("tiny_prompt_bart").parent.iterdir()
    models = [folder.name for folder in folders if (folder / "config.json").exists()]
    assert "tiny_prompt_bart" in models
    for name in models:
        loaded = load_checkpoint(name)
        assert len(loaded.tokenizer) == loaded.model.config.vocab_size


def checks() -> None:
    """A right answer is solved, a wrong one gets its diagnosis, and a hint is a hint."""
    from ehr_course.exercises import check, hint

    heard = io.StringIO()
    with contextlib.redirect_stdout(heard):
        check("00.1", lambda visits: len({code for visit in visits for code in visit}))
        check("00.1", len)
        hint("00.1")
    said = heard.getvalue()
    assert "✔ 00.1" in said, said
    assert "You counted the visits." in said, said
    assert "Two loops reach every code" in said, said


def notebook() -> None:
    """A downloaded notebook runs to its end in a kernel of this environment."""
    import nbformat
    from nbclient import NotebookClient

    [file] = Path.cwd().glob("*.ipynb")
    lesson = nbformat.read(file, as_version=4)
    for cell in lesson.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    NotebookClient(lesson, timeout=NOTEBOOK_SECONDS, kernel_name="python3").execute()
    (Path.cwd() / "run").mkdir(exist_ok=True)
    nbformat.write(lesson, Path("run") / file.name)


def opened_alone() -> None:
    """A notebook with the wheel beside it installs the course where there is none.

    The other packages stay, so that pip needs no network.
    """
    import nbformat
    from nbclient import NotebookClient

    uninstall = (sys.executable, "-m", "pip", "uninstall", "--yes", "--quiet", "ehr-course")
    subprocess.run(uninstall, check=True)
    absent = subprocess.run((sys.executable, "-c", "import ehr_course"), capture_output=True)
    assert absent.returncode != 0
    os.environ["PIP_NO_INDEX"] = "1"
    [file] = Path.cwd().glob("*.ipynb")
    lesson = nbformat.read(file, as_version=4)
    code = [cell for cell in lesson.cells if cell.cell_type == "code"][:SET_UP_CELLS]
    for cell in code:
        cell.outputs = []
    lesson.cells = code
    NotebookClient(lesson, timeout=NOTEBOOK_SECONDS, kernel_name="python3").execute()
    said = "".join(output.get("text", "") for output in code[0].outputs)
    assert "The course is installed. Go on with the next cell." in said, said
    library()


USES = {
    use.__name__: use
    for use in (library, command_line, checkpoints, checks, notebook, opened_alone)
}

if __name__ == "__main__":
    USES[sys.argv[1]]()
