"""The doctor's report helps to mend, and tells nothing about the person."""

from __future__ import annotations

import os
import subprocess

from course import doctor


def _facts(report: str) -> dict[str, str]:
    lines = report.splitlines()[1:]
    return {line.split("  ")[0].strip(): line.split("  ", 1)[1].strip() for line in lines}


def test_the_report_works_before_anything_is_installed(clone):
    done = clone.course("doctor")
    assert done.returncode == 0, done.stderr
    facts = _facts(done.stdout)
    assert facts[".venv"] == "not ready: there is none yet"
    assert facts["gpu"] == "not known without .venv"
    assert facts["uv"] == "not found"
    assert facts["commit"] == "not known: no git, or not a git clone"
    assert not (clone.root / ".venv").exists()


def test_the_report_says_whether_the_environment_is_ready(clone):
    clone.with_uv().course("lab", "--prepare-only")
    facts = _facts(clone.course("doctor").stdout)
    assert facts[".venv"] == "ready"
    assert facts["uv"] == "found"


def test_the_report_holds_neither_home_nor_user_nor_the_path_of_the_data(clone):
    done = clone.course(
        "doctor",
        HOME=str(clone.root.parent),
        LOGNAME="ana",
        EHR_COURSE_DATA="/secret/mimic",
    )
    assert str(clone.root.parent) not in done.stdout
    assert _facts(done.stdout)["clone"] == f"~/{clone.root.name}"
    assert _facts(done.stdout)["EHR_COURSE_DATA"] == "set"
    assert "secret" not in done.stdout


def test_a_user_name_outside_the_home_folder_is_replaced_as_a_word_only():
    text = doctor.without_user("/data/Ana/banana", home="/home/ana", user="ana")
    assert text == "/data/~/banana"


def test_a_link_to_the_home_folder_is_replaced_too(tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)
    assert doctor.without_user(f"{real}/x {link}/y", home=str(link), user="") == "~/x ~/y"


def test_changed_files_are_counted_and_named(clone):
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for command in (
        ["init", "--quiet"],
        ["commit", "--quiet", "--allow-empty", "-m", "first"],
    ):
        subprocess.run([*git, *command], cwd=clone.root, check=True, env={**os.environ})
    (clone.root / "new-file").touch()
    commit = _facts(clone.course("doctor").stdout)["commit"]
    assert "changed: " in commit
    assert "?? new-file" in commit


def test_an_environment_that_does_not_answer_is_reported(clone):
    python = clone.root / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    python.chmod(0o755)
    done = clone.course("doctor")
    assert done.returncode == 0, done.stderr
    assert _facts(done.stdout)[".venv python"] == "does not answer (CalledProcessError)"


def test_arguments_are_refused(clone):
    assert clone.course("doctor", "--all").returncode == 2
