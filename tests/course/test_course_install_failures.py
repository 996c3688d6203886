"""What installers print becomes a message with a remedy. The texts are pip's and uv's own."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from course.download_bar import DownloadBar
from course.install_failures import explain
from course.logged_run import run_logged

PIP_NO_NAME = """\
WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by \
'NewConnectionError('<HTTPSConnection object>: Failed to establish a new connection: \
[Errno -2] Name or service not known')': /simple/torch/
ERROR: Could not find a version that satisfies the requirement torch==2.13.0 (from versions: none)
ERROR: No matching distribution found for torch==2.13.0
"""
UV_NO_NAME = """\
error: Request failed after 1 retry in 1.5s
  cause: error sending request for url
  cause: client error (Connect)
  cause: dns error
  cause: failed to lookup address information: Name or service not known
"""
UV_REFUSED = """\
error: Failed to fetch
  cause: tcp connect error
  cause: Connection refused (os error 111)
"""
PIP_NO_BUILD = """\
ERROR: Could not find a version that satisfies the requirement torch==2.13.0 (from versions: none)
ERROR: No matching distribution found for torch==2.13.0
"""
UV_NO_BUILD = """\
error: No solution found when resolving dependencies
  cause: Because torch was not found in the provided package locations ...
"""
PIP_FULL = (
    "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
)
UV_FULL = """\
error: Failed to create virtual environment
  cause: failed to write to file `CACHEDIR.TAG`: No space left on device (os error 28)
"""
VENV_FULL = "Error: Command '['python3', '-m', 'ensurepip']' returned non-zero exit status 1."
DEBIAN_NO_VENV = """\
The virtual environment was not created successfully because ensurepip is not
available.  On Debian/Ubuntu systems, you need to install the python3-venv
package using the following command.
"""
PIP_CERTIFICATE = (
    "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify "
    "failed: self-signed certificate in certificate chain'))"
)


@pytest.mark.parametrize(
    ("output", "free_bytes", "problem", "remedy"),
    [
        (PIP_NO_NAME, 10**11, "cannot be reached", "Check the network"),
        (UV_NO_NAME, 10**11, "cannot be reached", "Check the network"),
        (UV_REFUSED, 10**11, "cannot be reached", "Check the network"),
        (PIP_NO_BUILD, 10**11, "does not find torch==2.13.0 for Python 3.11", "Try Python 3.11"),
        (UV_NO_BUILD, 10**11, "does not find one of the packages", "Try Python 3.11"),
        (PIP_FULL, 10**11, "disk became full", "Free about 3 GB"),
        (UV_FULL, 10**11, "disk became full", "Free about 3 GB"),
        (VENV_FULL, 10**6, "disk became full", "Free about 3 GB"),
        (DEBIAN_NO_VENV, 10**11, "ensurepip module is missing", "python3.11-venv"),
        (PIP_CERTIFICATE, 10**11, "certificate that this machine does not trust", "PIP_CERT"),
        ("error: something new", 10**11, "The installation failed", "course doctor"),
    ],
)
def test_the_cause_is_read_from_the_output(output, free_bytes, problem, remedy):
    error = explain(output, log=Path("build/install.log"), free_bytes=free_bytes, python="3.11")
    assert problem in str(error)
    assert remedy in str(error)
    assert "build/install.log" in str(error)


def test_the_last_lines_of_the_output_are_shown():
    output = "".join(f"line {number}\n" for number in range(100))
    error = explain(output, log=Path("log"), free_bytes=10**11, python="3.11")
    assert "  | line 99\n" in str(error)
    assert "line 50" not in str(error)


def test_the_line_that_names_the_cause_is_shown_even_when_more_follows():
    output = UV_NO_NAME + "".join(f"line {number}\n" for number in range(100))
    error = explain(output, log=Path("log"), free_bytes=10**11, python="3.11")
    assert "Name or service not known\n  | ...\n  | line 92\n" in str(error)


def test_no_network_ends_the_command_with_the_message_and_keeps_the_log(clone):
    done = clone.with_uv().course("lab", UV_EXIT="2", UV_SAYS=UV_NO_NAME)
    assert done.returncode == 1
    assert "course: The package index cannot be reached." in done.stderr
    assert "  | " in done.stderr
    assert "Traceback" not in done.stderr
    log = (clone.root / "build/install.log").read_text(encoding="utf-8")
    assert "dns error" in log


def test_a_run_returns_exit_code_and_output_and_logs_both_streams(tmp_path):
    program = "import sys; print('to stdout', flush=True); print('to stderr', file=sys.stderr)"
    log = tmp_path / "log"
    code, output = run_logged(
        [sys.executable, "-c", f"{program}; sys.exit(3)"], log=log, env={}, cwd=tmp_path
    )
    assert code == 3
    assert output == "to stdout\nto stderr\n"
    assert log.read_text(encoding="utf-8").endswith(output)


def test_a_long_run_gives_signs_of_life(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("course.download_bar.SECONDS_BETWEEN_LINES", 0.0)
    program = "print('Downloading torch (2.0MiB)'); print('  details')"
    bar = DownloadBar(4_000_000, sys.stdout)
    command = [sys.executable, "-c", program]
    run_logged(command, log=tmp_path / "log", env={}, cwd=tmp_path, bar=bar)
    signs = capsys.readouterr().out
    assert "0 of 4 MB" in signs
    assert "torch\n" in signs
    assert "details" not in signs


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
def test_a_program_that_shows_progress_only_on_a_terminal_can_believe_in_one(tmp_path):
    program = (
        "import sys, os; print(sys.stdout.isatty(), os.get_terminal_size().columns); "
        r"sys.stdout.write('\x1b[2mtorch  ------ 1.00 MiB/2.00 MiB\x1b[0m\r\x1b[2K\r');"
        r"sys.stdout.write('⠙ numpy==2\r░░░ 0/0\rnext\n')"
    )
    bar = DownloadBar(4_000_000, io.StringIO())
    log = tmp_path / "log"
    code, output = run_logged(
        [sys.executable, "-c", program],
        log=log,
        env={"PYTHONUTF8": "1"},
        cwd=tmp_path,
        bar=bar,
        on_terminal=True,
    )
    assert (code, output) == (0, "True 200\nnext\n")
    assert bar.fetched == 2**20
    assert log.read_text(encoding="utf-8").splitlines()[-2:] == ["True 200", "next"]
