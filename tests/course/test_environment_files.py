"""environment.yml, pyproject.toml and constraints.txt describe one environment."""

from __future__ import annotations

import re
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
CONDA = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
PIP_SECTION = ["-c constraints.txt", "-e .[dev]"]


def _read_pins() -> dict[str, list[Requirement]]:
    pins = defaultdict(list)
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            pin = Requirement(line)
            pins[canonicalize_name(pin.name)].append(pin)
    return pins


def _declared() -> list[Requirement]:
    project = PYPROJECT["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    requirements = [Requirement(text) for group in groups for text in group]
    return [r for r in requirements if canonicalize_name(r.name) != project["name"]]


def _conda_python() -> Version:
    [python] = [d for d in CONDA["dependencies"] if isinstance(d, str) and d.startswith("python=")]
    return Version(python.removeprefix("python="))


PINS = _read_pins()


@pytest.mark.parametrize("requirement", _declared(), ids=str)
def test_each_dependency_is_pinned_to_versions_that_it_accepts(requirement):
    pins = PINS[canonicalize_name(requirement.name)]
    assert pins, f"constraints.txt has no pin of {requirement.name}"
    for pin in pins:
        [specifier] = pin.specifier
        assert requirement.specifier.contains(specifier.version), f"{pin} is not {requirement}"


@pytest.mark.parametrize("requirement", _declared(), ids=str)
def test_only_constraints_txt_pins_a_version(requirement):
    """What pyproject.toml asks for is a floor, which `course test --oldest` tries."""
    operators = {specifier.operator for specifier in requirement.specifier}
    assert ">=" in operators
    assert operators <= {">=", "<"}


def test_each_pin_names_one_exact_version():
    loose = [
        str(pin)
        for pins in PINS.values()
        for pin in pins
        if [specifier.operator for specifier in pin.specifier] != ["=="]
    ]
    assert loose == []


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_each_dependency_has_one_pin_that_applies_to_a_python(python):
    here = {"python_version": python, "python_full_version": f"{python}.5"}
    for requirement in _declared():
        pins = PINS[canonicalize_name(requirement.name)]
        applying = [pin for pin in pins if pin.marker is None or pin.marker.evaluate(here)]
        assert len(applying) == 1, f"{requirement.name}: {applying}"


def test_condas_python_is_one_that_the_project_accepts():
    assert SpecifierSet(PYPROJECT["project"]["requires-python"]).contains(_conda_python())


def test_conda_installs_with_pip_exactly_what_the_course_installs():
    [section] = [d["pip"] for d in CONDA["dependencies"] if isinstance(d, dict)]
    assert section == PIP_SECTION


def test_conda_itself_brings_only_python_and_pip():
    names = [re.split("[=<>]", d)[0] for d in CONDA["dependencies"] if isinstance(d, str)]
    assert names == ["python", "pip"]


def test_the_course_commands_install_the_same_arguments():
    source = (ROOT / "course" / "environment.py").read_text(encoding="utf-8")
    arguments = [word for line in PIP_SECTION for word in line.split()]
    assert ", ".join(f'"{argument}"' for argument in arguments) in source


@pytest.mark.parametrize("name", ["environment.yml", "pyproject.toml", "constraints.txt"])
def test_no_file_names_a_package_index_or_a_path_of_one_machine(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    found = re.findall(
        r"index-url|find-links|\[\[?tool\.uv|https?://\S*(?:pypi|simple|whl)\S*|file:|"
        r"(?<=[\s\"'=])(?:/[\w.-]+){2,}|[A-Z]:\\\S+| @ ",
        text,
    )
    assert found == []
