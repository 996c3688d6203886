"""A wheelhouse is made, and a clone beside it works with the network switched off.

It fetches some 600 MB and takes minutes, so `.ci/extra` runs it.
"""

from __future__ import annotations

import faulthandler
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from long_runs import takes_minutes

from course.pythons import base_python
from course.wheelhouse import check_wheels, read_wheelhouse, this_target

pytestmark = takes_minutes

ROOT = Path(__file__).resolve().parents[2]
PORT = 8941
SECONDS = 900

DEAD = "http://127.0.0.1:9/"
"""Nobody listens there: what an installer has, where the system cannot take the network away."""

# A network of its own, with nothing in it but this machine's own address.
ALONE = """\
import fcntl, os, socket, struct, sys
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh", b"lo", 1))
try:
    socket.create_connection(("192.0.2.1", 80), timeout=2)
except OSError:
    os.execv(sys.argv[1], sys.argv[1:])
sys.exit("there is still a network")
"""


@cache
def network_can_be_taken_away() -> bool:
    if sys.platform != "linux":
        return False
    try:
        asked = [*_alone(sys.executable), "-c", ""]
        return subprocess.run(asked, capture_output=True).returncode == 0
    except OSError:
        return False


def _alone(program: str) -> list[str]:
    return ["unshare", "--map-root-user", "--net", sys.executable, "-c", ALONE, program]


class Student:
    """Somebody with a clone and a wheelhouse beside it, an empty home, and no network."""

    def __init__(self, place: Path) -> None:
        self.clone = place / "course"
        self.python = self.clone / ".venv" / "bin" / "python"
        self.home = place / "home"
        self.home.mkdir()

    def start(self, program: str | Path, *arguments: str, **options) -> subprocess.Popen:
        env = {
            "HOME": str(self.home),
            "PATH": "/usr/bin:/bin",
            "UV_DEFAULT_INDEX": DEAD,
            "PIP_INDEX_URL": DEAD,
            "PIP_CONFIG_FILE": os.devnull,
            "HTTPS_PROXY": DEAD,
        }
        command = [str(program)]
        if network_can_be_taken_away():
            command = _alone(str(program))
            env["NO_PROXY"] = "127.0.0.1"
        return subprocess.Popen(
            [*command, *arguments], cwd=self.clone, env=env, encoding="utf-8", **options
        )

    def run(self, program: str | Path, *arguments: str) -> str:
        process = self.start(program, *arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == 0, said
        return said


@pytest.fixture(scope="module")
def student(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Student]:
    # What it fetches may take longer than pytest grants a test.
    faulthandler.cancel_dump_traceback_later()
    place = tmp_path_factory.mktemp("class")
    files = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        check=True,
    ).stdout
    for name in filter(None, files.split("\0")):
        if (ROOT / name).is_file():
            copy = place / "course" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes((ROOT / name).read_bytes())
    made = [sys.executable, "-m", "course", "wheelhouse", "--out", str(place / "wheelhouse")]
    subprocess.run(made, cwd=ROOT, check=True)
    yield Student(place)


@pytest.fixture(scope="module")
def set_up(student: Student) -> str:
    return student.run(base_python(), "-m", "course", "lab", "--prepare-only")


def test_the_wheelhouse_is_whole(student):
    house = read_wheelhouse(student.clone.parent / "wheelhouse")
    check_wheels(house, house.targets[this_target()])


def test_the_environment_is_made_from_the_wheelhouse_alone(student, set_up):
    assert "The packages come from the wheelhouse" in set_up
    assert "Ready." in set_up


def test_doctor_finds_every_package(student, set_up):
    said = student.run(base_python(), "-m", "course", "doctor")
    assert "ready" in next(line for line in said.splitlines() if line.startswith(".venv "))
    assert "missing" not in said


def test_a_lesson_gives_its_stored_outputs(student, set_up):
    said = student.run(student.python, "-m", "pytest", "--nbval", "lessons/00_start_here.ipynb")
    assert "2 not attempted" in said


@pytest.mark.skipif(sys.platform != "linux", reason="it asks inside the network that is alone")
def test_jupyterlab_answers(student, set_up):
    """The question is asked by a process in the same network: the server's own."""
    asks = (
        "import subprocess, sys, time, urllib.request\n"
        f"lab = subprocess.Popen([{base_python()!r}, '-m', 'course', 'lab', '--no-browser',"
        f" '--port', '{PORT}'])\n"
        "until = time.monotonic() + 120\n"
        "while time.monotonic() < until and lab.poll() is None:\n"
        "    try:\n"
        f"        print(urllib.request.urlopen('http://127.0.0.1:{PORT}/api').read())\n"
        "        break\n"
        "    except OSError:\n"
        "        time.sleep(0.5)\n"
        "else:\n"
        "    sys.exit('JupyterLab does not answer')\n"
        "lab.terminate()\n"
        "lab.wait()\n"
    )
    assert '"version"' in student.run(sys.executable, "-c", asks)
