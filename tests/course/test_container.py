"""The container: what the Dockerfile names is there, and its commands are the course's own.

The editor's container and Binder's come from the same file. Where a Docker daemon answers, the
image is built and run; where `debootstrap` and root are at hand, its instructions are run in a
bare Debian. Both take many minutes, so `.ci/extra` does it.
"""

from __future__ import annotations

import faulthandler
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import nbformat
import pytest
from bare_root import BareRoot, in_order, instructions, is_ignored, stages
from handed_in import notebook_with, right
from long_runs import takes_minutes

from course.lab import _parser, server_command

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COURSE = in_order(TEXT, "course")
DEV = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text(encoding="utf-8"))
IGNORED = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()


def arguments_of(name: str, among: list[tuple[str, str]]) -> list[str]:
    return [arguments for one, arguments in among if one == name]


# ------------------------------------------------------------------------------- the Dockerfile


def test_it_runs_as_a_user_who_is_not_root_and_owns_the_folder() -> None:
    assert arguments_of("ARG", COURSE) == ["NB_USER=learner", "NB_UID=1000"]
    assert arguments_of("USER", COURSE) == ["${USER}"]
    assert arguments_of("ENV", COURSE)[0] == "USER=${NB_USER} HOME=/home/${NB_USER}"
    [add_user, _] = arguments_of("RUN", COURSE)
    assert "useradd --create-home --uid ${NB_UID} ${NB_USER}" in add_user
    assert "install --directory --owner=${NB_USER} --group=${NB_USER} ${HOME}/course" in add_user
    assert arguments_of("WORKDIR", COURSE) == ["${HOME}/course"]
    assert arguments_of("COPY", COURSE) == ["--chown=${USER} . ."]


def test_its_commands_are_commands_of_the_course() -> None:
    [_, prepare] = arguments_of("RUN", COURSE)
    command, _, cleaning = prepare.partition(" && ")
    options = command.removeprefix("python3 -m course lab ").split()
    assert _parser().parse_args(options).prepare_only
    assert cleaning == "rm -rf ${HOME}/.cache"
    [start] = map(json.loads, arguments_of("CMD", COURSE))
    assert start[:4] == ["python3", "-m", "course", "lab"]
    options = _parser().parse_args(start[4:])
    assert (options.no_browser, options.ip) == (True, "0.0.0.0")
    assert arguments_of("EXPOSE", COURSE) == [str(options.port)]


def test_jupyterlab_listens_where_it_is_told_and_on_this_machine_alone_unless_told() -> None:
    lesson = ROOT / "lessons" / "00_start_here.ipynb"
    assert "--ServerApp.ip=127.0.0.1" in server_command(ROOT, lesson)
    assert "--ServerApp.ip=0.0.0.0" in server_command(ROOT, lesson, ip="0.0.0.0")


def test_what_a_clone_makes_for_itself_is_not_copied() -> None:
    assert {".git", ".venv", "build", "dist", "wheelhouse"} <= set(IGNORED)
    for line in (ROOT / ".gitignore").read_text(encoding="utf-8").split():
        assert is_ignored(line.strip("/").replace("*", "x"), IGNORED), line
    for needed in ("course", "ehr_course", "lessons", "solutions", "pyproject.toml", "README.md"):
        assert not is_ignored(needed, IGNORED)


def test_the_folder_of_caches_is_left_out_wherever_it_is() -> None:
    assert is_ignored("course/grading/__pycache__", IGNORED)
    assert not is_ignored("course/grading/pages.py", IGNORED)


# ------------------------------------------------------------------------------- the others


def test_binder_builds_the_same_image() -> None:
    """repo2docker builds the last stage of `.binder/Dockerfile`, from the clone's root."""
    binder = (ROOT / ".binder" / "Dockerfile").read_text(encoding="utf-8")
    assert instructions(binder) == instructions(TEXT)
    assert list(stages(binder))[-1] == "course"


def test_binder_finds_jupyterlab_on_the_path_and_may_choose_the_user() -> None:
    assert {"NB_USER", "NB_UID"} == {a.split("=")[0] for a in arguments_of("ARG", COURSE)}
    assert "PATH=${HOME}/course/.venv/bin:${PATH}" in arguments_of("ENV", COURSE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert any(one.startswith("jupyterlab>") for one in project["optional-dependencies"]["lab"])
    image = stages(TEXT)["base"][0]
    assert ":" in image and not image.endswith(":latest"), "Binder wants a fixed version"


def test_the_editors_container_is_a_stage_from_the_same_base_with_the_same_command() -> None:
    folder = ROOT / ".devcontainer"
    assert (folder / DEV["build"]["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert (folder / DEV["build"]["context"]).resolve() == ROOT
    assert "image" not in DEV
    base, own = stages(TEXT)[DEV["build"]["target"]]
    assert base == stages(TEXT)["course"][0] == "base"
    assert arguments_of("USER", own) == ["${USER}"]
    assert DEV["remoteUser"] == arguments_of("ARG", COURSE)[0].removeprefix("NB_USER=")
    [_, prepare] = arguments_of("RUN", COURSE)
    assert DEV["postCreateCommand"].startswith(f"{prepare.partition(' && ')[0]} && ")
    assert [str(port) for port in DEV["forwardPorts"]] == arguments_of("EXPOSE", COURSE)


# ------------------------------------------------------------------------------- built and run


def _has_daemon() -> bool:
    docker = shutil.which("docker")
    if docker is None:
        return False
    return subprocess.run([docker, "info"], capture_output=True).returncode == 0


@takes_minutes
@pytest.mark.skipif(not _has_daemon(), reason="no Docker daemon answers here")
def test_the_image_is_built_and_grades_without_a_network(tmp_path: Path) -> None:
    faulthandler.cancel_dump_traceback_later()
    subprocess.run(["docker", "build", "--tag", "ehr-course-test", "."], cwd=ROOT, check=True)
    command = "docker run --rm --network none ehr-course-test python3 -m course lab --prepare-only"
    ran = subprocess.run(command.split(), capture_output=True, text=True, check=True)
    assert "Ready." in ran.stdout
    submissions, grades = _small_class(tmp_path)
    mine = f"{os.getuid()}:{os.getgid()}"
    folders = [f"--volume={submissions}:/submissions:ro", f"--volume={grades}:/grades"]
    start = ["docker", "run", "--rm", "--network=none", f"--user={mine}", *folders]
    subprocess.run([*start, "ehr-course-test", *GRADE], check=True)
    assert "ada" in (grades / "week1" / "grades.csv").read_text(encoding="utf-8")


GRADE = ("python3", "-m", "course", "grade", "/submissions", "--out", "/grades/week1")


def _small_class(place: Path) -> tuple[Path, Path]:
    """Return a folder of submissions of two students, and an empty one for their grades."""
    given = ROOT / "lessons" / "00_start_here.ipynb"
    for student, answers in (("ada", right("00.1")), ("ben", {})):
        folder = place / "submissions" / student
        folder.mkdir(parents=True)
        nbformat.write(notebook_with(answers, given=given), folder / given.name)
    (place / "grades").mkdir()
    return place / "submissions", place / "grades"


bare_debian = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or shutil.which("debootstrap") is None,
    reason="a bare Debian is made by root, with debootstrap (apt-get install debootstrap)",
)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> BareRoot:
    """Return what the Dockerfile's last stage makes, in a bare Debian."""
    # The build may take longer than pytest grants a test; each of its commands has its own limit.
    faulthandler.cancel_dump_traceback_later()
    place = tmp_path_factory.mktemp("image")
    place.chmod(0o755)
    root = BareRoot.make(place / "root")
    root.build(ROOT, "course")
    return root


@takes_minutes
@bare_debian
def test_what_is_built_needs_no_network_and_leaves_nothing_to_root(image: BareRoot) -> None:
    assert "Ready." in image.run(["python3", "-m", "course", "lab", "--prepare-only"])
    assert image.run(["id", "--user", "--name"]).strip() == "learner"
    strangers = image.run(["find", "/home/learner", "!", "-user", "learner"])
    assert strangers == ""
    assert (
        image.run(["sh", "-c", "command -v jupyter-lab"]).strip().endswith(".venv/bin/jupyter-lab")
    )


@takes_minutes
@bare_debian
def test_jupyterlab_answers_on_its_port_without_a_network(image: BareRoot) -> None:
    asks = (
        "import subprocess, sys, time, urllib.request\n"
        f"lab = subprocess.Popen({image.command!r})\n"
        "until = time.monotonic() + 180\n"
        "while time.monotonic() < until and lab.poll() is None:\n"
        "    try:\n"
        "        print(urllib.request.urlopen('http://127.0.0.1:8888/api').read())\n"
        "        break\n"
        "    except OSError:\n"
        "        time.sleep(0.5)\n"
        "else:\n"
        "    sys.exit('JupyterLab does not answer')\n"
        "lab.terminate()\n"
        "lab.wait()\n"
    )
    assert '"version"' in image.run(["python3", "-c", asks])


@takes_minutes
@bare_debian
@pytest.mark.parametrize("user", ["1000", "1234"])
def test_a_class_is_graded_from_a_folder_that_cannot_be_written_to(
    image: BareRoot, user: str, tmp_path: Path
) -> None:
    """1000 is the image's own user; 1234 is a teacher's, as `docker run --user` gives it."""
    tmp_path.chmod(0o755)
    submissions, grades = _small_class(tmp_path)
    os.chown(grades, int(user), int(user))
    folders = ((str(submissions), "/submissions", "ro"), (str(grades), "/grades", "rw"))
    said = image.run(list(GRADE), user=user, mounts=folders)
    assert "Graded 2 students in lesson 00" in said
    table = grades / "week1" / "grades.csv"
    assert "ada" in table.read_text(encoding="utf-8")
    assert table.stat().st_uid == int(user)
