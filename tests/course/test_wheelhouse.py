"""A class without a network: which wheelhouse is taken, what is checked, and how it installs."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from course import wheelhouse
from course.command_error import CommandError
from course.install_failures import explain
from course.venv_stamp import work_needed
from course.wheelhouse import Target, Wheelhouse, find_wheelhouse, this_target

OTHER = Target("3.99", "windows")
A_WHEEL = "thing-1.0-py3-none-any.whl"


def make_house(folder: Path, clone, *, target: Target | None = None) -> Path:
    """Make a wheelhouse with one wheel, and with the stand-in for uv in another."""
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    (wheels / A_WHEEL).write_bytes(b"not looked into")
    with zipfile.ZipFile(wheels / "uv-1.0-py3-none-any.whl", "w") as packed:
        packed.writestr("uv-1.0.data/scripts/uv", clone.uv_program)
    files = {
        file.name: {
            "size": file.stat().st_size,
            "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        }
        for file in wheels.iterdir()
    }
    target = target or this_target()
    told = {
        "made_from": wheelhouse.wanted_packages(clone.root),
        "targets": [
            {"python": target.python, "platform": target.platform, "wheels": sorted(files)}
        ],
        "files": files,
    }
    (folder / "wheelhouse.json").write_text(json.dumps(told), encoding="utf-8")
    return folder


# ------------------------------------------------------------------------------- installing


def test_packages_come_from_the_wheelhouse_beside_the_clone_and_from_nowhere_else(clone):
    house = make_house(clone.root.parent / "wheelhouse", clone)
    done = clone.with_uv().course("lab", "--prepare-only", PIP_FIND_LINKS="/elsewhere")
    assert done.returncode == 0, done.stderr
    assert f"The packages come from the wheelhouse {house}" in done.stdout
    assert "nothing is fetched" in done.stdout
    said = (clone.outside / "uv-environment").read_text(encoding="utf-8")
    assert said == f"UV_FIND_LINKS={(house / 'wheels').as_uri()}\n"
    assert not (clone.outside / "uv-plans").exists(), "uv was asked what it would fetch"


def test_uv_itself_comes_out_of_the_wheelhouse_where_the_machine_has_none(clone):
    make_house(clone.outside / "stick", clone)
    done = clone.course("lab", "--prepare-only", "--wheelhouse", str(clone.outside / "stick"))
    assert done.returncode == 0, done.stderr
    assert "Making .venv with uv" in done.stdout
    python = clone.root / ".venv/bin/python"
    wanted = f"pip install --python {python} -c constraints.txt -e .[dev]"
    assert clone.calls("uv")[-1] == wanted
    assert work_needed(clone.root) is None


def test_a_package_that_the_wheelhouse_lacks_is_named_with_the_remedy(clone):
    make_house(clone.root.parent / "wheelhouse", clone)
    said = (
        "  × No solution found when resolving dependencies:\n"
        "  ╰─▶ Because mypy was not found in the cache and ehr-course[dev]==0.1.0\n"
        "      depends on mypy==2.4.1, we can conclude that it cannot be used."
    )
    (clone.root / "constraints.txt").write_text("mypy==2.4.1\n", encoding="utf-8")
    failed = clone.with_uv().course("lab", "--prepare-only", UV_EXIT="1", UV_SAYS=said)
    assert failed.returncode == 1
    assert "It was made for another version of the course" in failed.stdout
    assert "course: The wheelhouse lacks mypy: " in failed.stderr
    assert "python3 -m course wheelhouse --out wheelhouse" in failed.stderr


@pytest.mark.parametrize(
    ("said", "named"),
    [
        ("Because there is no version of torch==2.13.0 and you require torch==2.13.0", "torch=="),
        ("Because only numpy==1.0 is available and you require numpy==2.4.6", "numpy==1.0"),
        ("Because a-b was not found in the provided package locations", "a-b"),
    ],
)
def test_the_words_of_uv_for_a_missing_wheel_are_understood(said, named, tmp_path):
    output = f"No solution found when resolving dependencies:\n{said}"
    told = explain(
        output, log=Path("log"), free_bytes=10**12, python="3.11", wheelhouse=tmp_path / "house"
    )
    assert f"The wheelhouse lacks {named}" in str(told)


def test_cuda_is_refused_where_the_wheelhouse_has_none(clone):
    make_house(clone.root.parent / "wheelhouse", clone)
    failed = clone.with_uv().course("lab", "--prepare-only", "--cuda")
    assert failed.returncode == 1
    assert "This wheelhouse has no CUDA libraries" in failed.stderr
    assert clone.calls("uv") == []


# ------------------------------------------------------------------------------- which one


def test_what_is_named_goes_before_the_variable_and_that_before_what_lies_there(
    tmp_path, monkeypatch, clone
):
    places = [
        make_house(place, clone)
        for place in (
            clone.outside / "named",
            clone.outside / "variable",
            clone.root / "wheelhouse",
            clone.root.parent / "wheelhouse",
        )
    ]
    monkeypatch.setenv(wheelhouse.VARIABLE, str(places[1]))
    assert find_wheelhouse(clone.root, str(places[0])).folder == places[0]
    assert find_wheelhouse(clone.root).folder == places[1]
    monkeypatch.delenv(wheelhouse.VARIABLE)
    for place in places[2:]:
        assert find_wheelhouse(clone.root).folder == place
        shutil.rmtree(place)
    assert find_wheelhouse(clone.root) is None


def test_a_wheelhouse_for_others_is_told_from_ours_in_words(clone):
    place = make_house(clone.outside / "house", clone, target=OTHER)
    with pytest.raises(CommandError) as raised:
        find_wheelhouse(clone.root, str(place))
    told = str(raised.value)
    assert "It is for: Python 3.99 for Windows on x86-64." in told
    assert f"This is: {this_target()}." in told
    ours = this_target()
    assert f"--python {ours.python} --platform {ours.platform}" in told


def test_a_python_of_the_wheelhouse_that_this_machine_has_is_named(clone, monkeypatch):
    older = Target("3.12", this_target().platform)
    place = make_house(clone.outside / "house", clone, target=older)
    monkeypatch.setattr(wheelhouse, "this_python", lambda: "3.11")
    monkeypatch.setattr(wheelhouse, "find_python", lambda version: "/somewhere/python3.12")
    with pytest.raises(CommandError, match=r"start with it: python3\.12 -m course lab"):
        find_wheelhouse(clone.root, str(place))
    monkeypatch.setattr(wheelhouse, "find_python", lambda version: None)
    with pytest.raises(CommandError, match=r"Install Python 3\.12 on this machine"):
        find_wheelhouse(clone.root, str(place))


def test_a_wheelhouse_for_others_that_nobody_named_is_left_alone(clone):
    make_house(clone.root.parent / "wheelhouse", clone, target=OTHER)
    done = clone.with_uv().course("lab", "--prepare-only")
    assert done.returncode == 0, done.stderr
    assert "is for other machines than this one" in done.stdout
    assert "It is left alone: the packages come from the network." in done.stdout


@pytest.mark.parametrize(
    ("system", "machine", "named"),
    [
        ("linux", "x86_64", "linux"),
        ("linux", "aarch64", "linux-arm"),
        ("darwin", "arm64", "macos"),
        ("win32", "AMD64", "windows"),
    ],
)
def test_every_platform_is_recognised(system, machine, named, monkeypatch):
    monkeypatch.setattr(wheelhouse.sys, "platform", system)
    monkeypatch.setattr(wheelhouse.platform, "machine", lambda: machine)
    assert wheelhouse.this_platform() == named


def test_a_platform_that_no_wheelhouse_can_be_made_for_says_so(clone, monkeypatch):
    place = make_house(clone.outside / "house", clone, target=OTHER)
    monkeypatch.setattr(wheelhouse.platform, "machine", lambda: "riscv64")
    with pytest.raises(CommandError, match="No wheelhouse can be made for it"):
        find_wheelhouse(clone.root, str(place))


@pytest.mark.parametrize("arguments", [("--wheelhouse",), ("--wheelhouse", "--no-browser")])
def test_the_option_without_a_folder_is_told_how_it_is_used(clone, arguments):
    done = clone.course("lab", *arguments)
    assert done.returncode == 2
    assert "--wheelhouse needs the folder of the wheelhouse." in done.stderr


# ------------------------------------------------------------------------------- its state


def test_a_folder_that_is_none_and_one_that_is_not_finished_are_told(clone):
    with pytest.raises(CommandError, match="There is no such wheelhouse"):
        find_wheelhouse(clone.root, str(clone.outside / "nowhere"))
    place = make_house(clone.outside / "house", clone)
    (place / "wheelhouse.json").unlink()
    with pytest.raises(CommandError, match="not a wheelhouse, or was not finished"):
        find_wheelhouse(clone.root, str(place))


def test_a_table_that_is_cut_off_is_told(clone):
    place = make_house(clone.outside / "house", clone)
    (place / "wheelhouse.json").write_text('{"files": {', encoding="utf-8")
    with pytest.raises(CommandError, match=r"wheelhouse\.json cannot be read"):
        find_wheelhouse(clone.root, str(place))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "is missing"),
        (b"cut", "has 3 bytes in place of 15"),
        (b"other fifteen b", "is damaged: its checksum is another"),
    ],
)
def test_a_wheel_that_is_not_what_was_put_there_is_named_before_anything_is_made(
    clone, content, told
):
    house = make_house(clone.root.parent / "wheelhouse", clone)
    wheel = house / "wheels" / A_WHEEL
    wheel.unlink()
    if content is not None:
        wheel.write_bytes(content)
    failed = clone.with_uv().course("lab", "--prepare-only")
    assert failed.returncode == 1
    assert f"{A_WHEEL} {told}" in failed.stderr
    assert "Copy these files again" in failed.stderr
    assert not (clone.root / ".venv").exists()


def test_the_ends_of_lines_do_not_make_another_version_of_the_course(tmp_path):
    for name, end in (("unix", b"\n"), ("windows", b"\r\n")):
        (tmp_path / name).mkdir()
        for file in ("pyproject.toml", "constraints.txt"):
            (tmp_path / name / file).write_bytes(b"one" + end + b"two" + end)
    assert len({wheelhouse.wanted_packages(tmp_path / one) for one in ("unix", "windows")}) == 1


def test_a_wheelhouse_without_uv_says_so(tmp_path):
    house = Wheelhouse(tmp_path, "", {}, {this_target(): ()})
    with pytest.raises(CommandError, match="has no uv"):
        wheelhouse.unpack_uv(house, (), tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="a comma and a blank are tried in a POSIX path")
def test_a_folder_with_a_comma_in_its_name_stays_one_folder(tmp_path):
    house = Wheelhouse(tmp_path / "a, b", "", {}, {})
    links = wheelhouse.offline_environment(house)["UV_FIND_LINKS"]
    assert links.startswith("file://")
    assert not {",", " "} & set(links)
