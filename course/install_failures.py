"""Why an installation failed, read from what pip or uv printed."""

from __future__ import annotations

import re
from pathlib import Path

from course.command_error import CommandError

TAIL_LINES = 8
FULL_DISK_BYTES = 100_000_000
"""Less than this left after a failure: the disk is the cause, whatever the output says."""

NO_SPACE = re.compile(
    r"no space left on device|errno 28|os error 28|not enough space on the disk|"
    r"disk quota exceeded",
    re.IGNORECASE,
)
NO_VENV_MODULE = re.compile(r"ensurepip\s+is\s+not\s+available|No module named '?(ensurepip|venv)")
BAD_CERTIFICATE = re.compile(
    r"CERTIFICATE_VERIFY_FAILED|invalid peer certificate|UnknownIssuer|SSLCertVerificationError"
)
NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|ConnectTimeoutError|ReadTimeoutError|ProxyError|"
    r"Name or service not known|Temporary failure in name resolution|getaddrinfo failed|"
    r"nodename nor servname|Network is unreachable|No route to host|Connection refused|"
    r"Connection reset|Remote end closed connection|dns error|failed to lookup address|"
    r"error sending request for url|tcp connect error|operation timed out",
    re.IGNORECASE,
)
NO_BUILD = re.compile(r"No matching distribution found for (\S+)|No solution found when resolving")
LONG_PATH = re.compile(
    r"Long Path support|filename or extension is too long|os error 206|WinError 206|"
    r"file name too long|errno 36",
    re.IGNORECASE,
)
NOT_IN_WHEELHOUSE = re.compile(
    r"Because (?:there is no version of |only )?([\w.-]+?(?:==[\w.+]+)?)"
    r"(?: was not found| is available| and |,|$| has no wheels)"
)


def explain(
    output: str, *, log: Path, free_bytes: int, python: str, wheelhouse: Path | None = None
) -> CommandError:
    """Return the problem behind a failed installation.

    Args:
        output: what the installer printed.
        log: where all of it is kept.
        free_bytes: the disk space that is left now.
        python: the version of the environment's Python, "3.11".
        wheelhouse: the folder that the packages come from, or None for the network.
    """
    record = _record(output, log)
    if NO_SPACE.search(output) or free_bytes < FULL_DISK_BYTES:
        return CommandError(
            f"The disk became full during the installation.\n{record}",
            "Free about 3 GB (more for PyTorch with CUDA), then start again.",
        )
    if LONG_PATH.search(output):
        return CommandError(
            f"A path in .venv is longer than this system allows.\n{record}",
            "Move the clone to a folder with a short path, such as C:\\course, or allow long "
            "paths in Windows. Then start again.",
        )
    if NO_VENV_MODULE.search(output):
        return no_venv_module(python, record)
    if wheelhouse is not None and NO_BUILD.search(output):
        # uv breaks its lines anywhere, and draws a frame of signs before them.
        told = NOT_IN_WHEELHOUSE.search(" ".join(re.sub(r"[×╰─▶│|]", " ", output).split()))
        return CommandError(
            f"The wheelhouse lacks {told[1] if told else 'a package'}: {wheelhouse}\n{record}",
            "Make it again where there is a network, from this version of the course: "
            f"python3 -m course wheelhouse --out {wheelhouse.name}",
        )
    if BAD_CERTIFICATE.search(output):
        return CommandError(
            f"The package index showed a certificate that this machine does not trust.\n{record}",
            "On a network with its own certificates, set PIP_CERT (for uv: SSL_CERT_FILE) to "
            "the file your administrator gives you, then start again.",
        )
    if NO_NETWORK.search(output):
        return CommandError(
            f"The package index cannot be reached.\n{record}",
            "Check the network; behind a proxy, set HTTPS_PROXY. Then start again: only the "
            "installation needs the network, the lessons do not.",
        )
    missing = NO_BUILD.search(output)
    if missing:
        what = missing.group(1) or "one of the packages"
        return CommandError(
            f"The installer does not find {what} for Python {python} on this system.\n{record}",
            "Try Python 3.11, 3.12 or 3.13 on Linux, Windows or a Mac with Apple silicon. If "
            "this is one of these, the package index cannot be reached: check the network.",
        )
    return CommandError(
        f"The installation failed.\n{record}",
        "Start again. If it fails again, report it with the log and the output of: "
        "python3 -m course doctor",
    )


def _record(output: str, log: Path) -> str:
    """Return the line that names the cause, the last lines, and where the log is."""
    lines = output.rstrip().splitlines()
    shown = lines[-TAIL_LINES:]
    causes = (NO_SPACE, LONG_PATH, NO_VENV_MODULE, BAD_CERTIFICATE, NO_NETWORK)
    telling = [line for line in lines if any(cause.search(line) for cause in causes)]
    if telling and telling[-1] not in shown:
        shown = [telling[-1], "...", *shown]
    return "\n".join([*(f"  | {line}" for line in shown), f"All of the output is in {log}."])


def no_venv_module(python: str, detail: str = "") -> CommandError:
    """Return the problem of a Python that comes without `venv` or `ensurepip`."""
    text = "This Python cannot make environments: its venv or ensurepip module is missing."
    return CommandError(
        f"{text}\n{detail}".rstrip(),
        f"On Debian and Ubuntu: sudo apt install python{python}-venv. Elsewhere, install uv, "
        "which needs neither. Then start again.",
    )
