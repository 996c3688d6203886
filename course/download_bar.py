"""A bar that moves while packages are fetched, read from what pip or uv print on the way."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

from course.console import duration

WIDTH = 24
SECONDS_BETWEEN_DRAWINGS = 0.2
SECONDS_BETWEEN_LINES = 15.0

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
UV_BARS = re.compile(r"([\w.-]+)\s+[-─━]{5,}\s+([\d.]+) ?([KMG]i)?B/([\d.]+) ?([KMG]i)?B")
UV_BEGINS = re.compile(r"Downloading ([\w.-]+) \(([\d.]+) ?([KMG]i)?B\)")
UV_ENDS = re.compile(r" Downloaded ([\w.-]+)")
UV_ALL = re.compile(r"Prepared \d+ packages?")
PIP_BEGINS = re.compile(r"\s*Downloading ([\w.]+)-\S+?(\.metadata)? \(")
PIP_PROGRESS = re.compile(r"Progress (\d+) of (\d+)")
PIP_INSTALLS = re.compile(r"Installing collected packages")

UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}


class DownloadBar:
    """How far the fetching of packages is, as one line that is drawn over and over.

    On a terminal the line is redrawn in place; elsewhere it is printed every quarter of a minute.

    Args:
        total: the bytes to fetch at most, or 0 if not known. Packages that a cache holds are not
            fetched, so the bar may jump to its end.
        stream: where it is drawn.
        packages: how many packages are put in place, or 0 if not known.
        placed: counts those that are in place.
    """

    def __init__(
        self,
        total: int,
        stream: TextIO | None = None,
        *,
        packages: int = 0,
        placed: Callable[[], int] = int,
    ) -> None:
        self.total = total
        self.packages = packages
        self._placed = placed
        self._all_here = False
        self._most = 0.0
        self.stream = stream or sys.stdout
        self.redraws = self.stream.isatty()
        self._had: dict[str, float] = {}  # bytes of each package that are here
        self._sizes: dict[str, float] = {}
        self._at = "looking up the packages"
        self._pips: str | None = None  # what pip is fetching, None for a metadata file
        self._started = self._drawn = time.monotonic()
        self._width = 0

    @property
    def fetched(self) -> float:
        """The bytes that are here."""
        return sum(self._had.values())

    def nothing_to_fetch(self) -> None:
        """Show from the beginning how many packages are in place: all of them are here."""
        self._all_here = True

    def read(self, text: str) -> bool:
        """Take in one line, or one frame of uv's own bars.

        Returns:
            Whether it was only about progress, so that no log needs it.
        """
        text = ESCAPES.sub("", text)
        if bars := UV_BARS.findall(text):
            self._read_uv_bars(bars)
            return True
        if match := PIP_PROGRESS.match(text):
            if self._pips:
                self.update(self._pips, float(match[1]), float(match[2]))
            return True
        if match := UV_BEGINS.search(text):
            self.update(match[1], 0.0, _bytes(match[2], match[3]))
        elif match := UV_ENDS.match(text):
            self._finish(match[1])
        elif match := PIP_BEGINS.match(text):
            if self._pips:
                self._finish(self._pips)
            self._pips = None if match[2] else match[1]
        elif UV_ALL.search(text) or PIP_INSTALLS.search(text):
            for name in self._sizes:
                self._finish(name)
            self._all_here = True
        return "Preparing packages..." in text or "Resolving dependencies..." in text

    def _read_uv_bars(self, bars: list[tuple[str, ...]]) -> None:
        shown = {name for name, *_ in bars}
        for name in self._sizes.keys() - shown:  # uv takes a finished bar away
            self._finish(name)
        for name, here, here_unit, size, size_unit in bars:
            self.update(name, _bytes(here, here_unit), _bytes(size, size_unit))

    def update(self, name: str, here: float, size: float) -> None:
        """Take in how many bytes of a package are here, and how many it has."""
        self._had[name], self._sizes[name] = here, size
        self._at = name

    def _finish(self, name: str) -> None:
        if name in self._sizes:
            self._had[name] = self._sizes[name]

    def line(self) -> str:
        """Return the bar as text: `[######......]  120 of 401 MB  12.0 s  torch`."""
        passed = duration(time.monotonic() - self._started)
        if self._all_here:
            if not self.packages:
                return f"{passed}  putting the packages in place"
            placed = min(self._placed(), self.packages)
            bar = _bar(placed / self.packages)
            return f"{bar} {placed:>4} of {self.packages} packages in place  {passed}"
        # A file that is begun again, after a broken connection, does not move the bar back.
        self._most = max(self._most, self.fetched)
        fetched = round(self._most / 1e6)
        if not self.total:
            return f"{fetched} MB  {passed}  {self._at}"
        bar = _bar(self._most / self.total)
        return f"{bar} {fetched:>4} of {round(self.total / 1e6)} MB  {passed}  {self._at}"

    def draw(self) -> None:
        """Show the bar, if the last time is long enough ago."""
        pause = SECONDS_BETWEEN_DRAWINGS if self.redraws else SECONDS_BETWEEN_LINES
        if time.monotonic() - self._drawn < pause:
            return
        self._drawn = time.monotonic()
        text = f"      {self.line()}"
        if self.redraws:
            text = text[: shutil.get_terminal_size().columns - 1]
            self.stream.write(f"\r{text:<{self._width}}")
            self._width = len(text)
        else:
            self.stream.write(f"{text}\n")
        self.stream.flush()

    def clear(self) -> None:
        """Take the bar off the terminal, so that the next line stands in its place."""
        if self.redraws and self._width:
            self.stream.write(f"\r{'':<{self._width}}\r")
            self.stream.flush()
            self._width = 0


def _bar(share: float) -> str:
    full = int(min(1.0, share) * WIDTH)
    return f"[{'#' * full}{'.' * (WIDTH - full)}]"


def _bytes(number: str, unit: str) -> float:
    return float(number) * UNITS[unit or ""]
