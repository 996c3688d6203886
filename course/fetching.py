"""Fetch files side by side: each is resumed where it broke off, checked, and only then named."""

from __future__ import annotations

import http.client
import os
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from course.command_error import CommandError
from course.download_bar import DownloadBar
from course.wheelhouse import checksum

AT_ONCE = 4
TRIES = 4
SECONDS_TO_ANSWER = 60
PIECE_BYTES = 1 << 18
UNFINISHED = ".part"
"""Ends the name of a file that is not whole."""

CERTIFICATES = ("SSL_CERT_FILE", "PIP_CERT", "REQUESTS_CA_BUNDLE")
"""Variables that name a file of certificates; the first that is set is taken."""


@dataclass(frozen=True)
class Remote:
    """A file to fetch.

    Attributes:
        name: its file name.
        url: where it is; `file:` is taken too.
        size: its bytes as far as they are known, for the bar.
        sha256: its checksum in hexadecimal, or "" if that is not known.
        package: what it is called in the bar.
    """

    name: str
    url: str
    size: int
    sha256: str
    package: str


class BrokenOffError(Exception):
    """A download ended before the file did."""


def fetch_all(
    files: Sequence[Remote], folder: Path, bar: DownloadBar, *, seconds_between_tries: float = 2.0
) -> None:
    """Fetch files into a folder; what is there and whole is not fetched again.

    Args:
        files: what to fetch.
        folder: a folder that is there. A file that is not whole ends in `.part` and is resumed.
        bar: shows how far it is.
        seconds_between_tries: the pause after a connection broke, doubled each time.

    Raises:
        CommandError: if a file cannot be had, or is another than the index says.
        KeyboardInterrupt: on Ctrl-C; the parts stay, and the next call goes on with them.
    """
    stop = threading.Event()

    def one(file: Remote) -> None:
        def told(here: int) -> None:
            if stop.is_set():
                raise _StoppedError
            bar.update(file.package, here, max(file.size, here))

        _fetch(file, folder / file.name, told, lambda n: stop.wait(seconds_between_tries * 2**n))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = {pool.submit(one, file) for file in files}
        try:
            while running:
                done, running = wait(running, timeout=0.2, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                bar.draw()
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
            bar.clear()


class _StoppedError(Exception):
    """Another file failed, or Ctrl-C was pressed."""


def _fetch(
    file: Remote, target: Path, told: Callable[[int], None], pause: Callable[[int], object]
) -> None:
    if target.is_file() and _is_right(file, target):
        told(target.stat().st_size)
        return
    part = target.with_name(target.name + UNFINISHED)
    for attempt in range(TRIES):
        try:
            _read(file, part, told)
            break
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                part.unlink()  # it has more than the file, so it is of another one
            elif error.code < 500:
                raise _refused(file, f"{error.code} {error.reason}") from None
            problem = f"{error.code} {error.reason}"
        except (OSError, http.client.HTTPException, BrokenOffError) as error:
            problem = str(getattr(error, "reason", None) or error)
        if attempt == TRIES - 1 or file.url.startswith("file:"):
            raise _refused(file, problem)
        pause(attempt)
    if not _is_right(file, part):
        part.unlink()
        raise CommandError(
            f"{file.name} is not what the index says: its checksum is another.",
            "It was removed. Start again; if that does not help, a proxy changes what it hands "
            "on: fetch it in another network.",
        )
    part.replace(target)


def _is_right(file: Remote, there: Path) -> bool:
    return not file.sha256 or checksum(there) == file.sha256


def _read(file: Remote, part: Path, told: Callable[[int], None]) -> None:
    """Fetch what is missing of a file; raise BrokenOffError if the end does not come."""
    here = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(file.url, headers={"User-Agent": "ehr-course"})
    if here:
        request.add_header("Range", f"bytes={here}-")
    with urllib.request.urlopen(
        request, timeout=SECONDS_TO_ANSWER, context=_certificates()
    ) as answer:
        if here and getattr(answer, "status", None) != 206:  # it begins at the beginning
            here = 0
        length = answer.headers.get("Content-Length")
        total = here + int(length) if length else None
        if not here:
            _write(part, b"", "wb")
        while piece := answer.read(PIECE_BYTES):
            _write(part, piece, "ab")
            here += len(piece)
            told(here)
    if total is not None and here < total:
        raise BrokenOffError(f"the connection broke off after {here} of {total} bytes")


def _write(part: Path, piece: bytes, mode: str) -> None:
    try:
        with part.open(mode) as stream:
            stream.write(piece)
    except OSError as error:
        raise CommandError(
            f"{part} cannot be written: {error.strerror or error}.",
            "Make room or choose another folder; the same command goes on where it stopped.",
        ) from None


def _certificates() -> ssl.SSLContext:
    named = next((os.environ[name] for name in CERTIFICATES if os.environ.get(name)), None)
    return ssl.create_default_context(cafile=named)


def _refused(file: Remote, problem: str) -> CommandError:
    return CommandError(
        f"{file.name} cannot be fetched: {problem}.",
        "Check the network; behind a proxy, set HTTPS_PROXY, and PIP_CERT to the file of its "
        "certificates. The same command goes on where this one stopped.",
    )
