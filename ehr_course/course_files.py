"""Where the course's own files are: worked answers, checkpoints, and tables in packages.

In a clone the first two are in ``solutions`` and ``course/checkpoints``, beside the library; a
wheel has copies in ``ehr_course/_course``.
"""

from __future__ import annotations

import io
from importlib import resources
from pathlib import Path

from ehr_course.errors import InputError

_LIBRARY = Path(__file__).resolve().parent


def solutions_folder() -> Path:
    """Return the folder of the worked answers, ``NN_name.py``."""
    return _find("solutions", _LIBRARY.parent / "solutions")


def checkpoint_folder(name: str) -> Path:
    """Return the folder of a checkpoint by its name, such as "tiny_prompt_bart"."""
    folder = _find("checkpoints", _LIBRARY.parent / "course" / "checkpoints")
    known = sorted(path.name for path in folder.iterdir() if path.is_dir())
    if name not in known:
        raise InputError(
            "checkpoint",
            name,
            f"the course has no such checkpoint (it has: {', '.join(known) or 'none'})",
            f"Check the name, or make it in a clone: python3 -m course checkpoint {name}",
        )
    return folder / name


def packaged_csv(package: str, name: str) -> io.StringIO:
    """Open a table that lies inside a package, for the module csv."""
    content = (resources.files(package) / name).read_bytes()
    return io.StringIO(content.decode("utf-8"), newline="")


def _find(name: str, in_clone: Path) -> Path:
    packaged = _LIBRARY / "_course" / name
    is_clone = (_LIBRARY.parent / "course" / "syllabus.yml").is_file()
    folder = in_clone if is_clone else packaged
    if not folder.is_dir():
        raise InputError(
            folder,
            "",
            "the folder is missing",
            "Get the whole repository: with git clone, or as its complete archive."
            if is_clone
            else "Install the package again, from a wheel or from a whole clone.",
        )
    return folder
