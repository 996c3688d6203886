"""The bar of the set-up moves with every byte that pip or uv tell of."""

from __future__ import annotations

import io

import pytest

from course.download_bar import DownloadBar

FRAME = (
    "\x1b[37m⠙\x1b[0m \x1b[2mPreparing packages...\x1b[0m (1/4)      "
    "\x1b[2mnumpy \x1b[0m \x1b[32m------------------------------\x1b[0m 1.00 MiB/2.00 MiB    "
    "\x1b[2mjupyterlab-widgets\x1b[0m \x1b[32m-------------\x1b[0m 512.00 KiB/1.50 MiB     "
)


def bar(total: int = 10 * 2**20) -> DownloadBar:
    return DownloadBar(total, io.StringIO())


def test_uvs_own_bars_are_read():
    ours = bar()
    assert ours.read(FRAME)
    assert ours.fetched == 1.5 * 2**20


def test_a_bar_that_uv_takes_away_counts_as_whole():
    ours = bar()
    ours.read(FRAME)
    ours.read(FRAME.replace("numpy ", "scipy "))
    assert ours.fetched == (2 + 1 + 0.5) * 2**20


def test_what_uv_says_without_a_terminal_moves_the_bar_package_by_package():
    ours = bar()
    assert not ours.read("Downloading torch (2.0MiB)\n")
    assert "torch" in ours.line()
    assert ours.fetched == 0
    ours.read(" Downloaded torch\n")
    assert ours.fetched == 2 * 2**20


def test_pips_progress_is_read_and_its_metadata_files_are_not_counted():
    ours = bar()
    for line in (
        "Downloading numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl.metadata (6 kB)",
        "Progress 6000 of 6000",
        "Downloading numpy-2.4.6-cp311-cp311-manylinux_2_28_x86_64.whl (2.1 MB)",
        "Progress 500000 of 2000000",
    ):
        ours.read(line)
    assert ours.fetched == 500_000
    ours.read("Downloading scipy-1.17.1-cp311-cp311-manylinux_2_28_x86_64.whl (3.0 MB)")
    ours.read("Progress 0 of 3000000")
    assert ours.fetched == 2_000_000
    ours.read("Installing collected packages: numpy, scipy")
    assert ours.fetched == 5_000_000
    assert "putting the packages in place" in ours.line()


@pytest.mark.parametrize(
    ("fetched", "line"),
    [
        (0, "[........................]    0 of 100 MB  "),
        (25, "[######..................]   25 of 100 MB  "),
        (120, "[########################]  120 of 100 MB  "),
    ],
)
def test_the_line_says_how_much_of_how_many_megabytes(fetched, line):
    ours = bar(100_000_000)
    ours.read("Downloading numpy-2.whl (x)")
    ours.read(f"Progress {fetched * 1_000_000} of 200000000")
    assert ours.line().startswith(line)


def test_a_file_that_is_begun_again_does_not_move_the_bar_back():
    ours = bar(100_000_000)
    ours.read("Downloading numpy-2.whl (x)")
    ours.read("Progress 50000000 of 60000000")
    before = ours.line().split(" MB")[0]
    ours.read("Progress 0 of 60000000")
    assert ours.line().split(" MB")[0] == before


def test_without_a_known_total_it_says_what_is_here():
    ours = bar(0)
    ours.read("Downloading numpy-2.whl (x)")
    ours.read("Progress 3000000 of 4000000")
    assert ours.line().startswith("3 MB  ")
    assert ours.line().endswith("  numpy")


def test_once_all_is_here_it_counts_the_packages_in_place():
    placed = iter([0, 90, 300])
    ours = DownloadBar(100, io.StringIO(), packages=120, placed=lambda: next(placed))
    ours.read("Prepared 120 packages in 3.1s")
    assert ours.line().startswith("[........................]    0 of 120 packages in place")
    assert ours.line().startswith("[##################......]   90 of 120 packages in place")
    assert ours.line().startswith("[########################]  120 of 120 packages in place")


def test_it_is_drawn_in_place_on_a_terminal_and_taken_away_at_the_end(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("course.download_bar.SECONDS_BETWEEN_DRAWINGS", 0.0)
    screen = Terminal()
    ours = DownloadBar(100_000_000, screen)
    ours.draw()
    ours.draw()
    assert "\n" not in screen.getvalue()
    assert screen.getvalue().count("\r      [....") == 2
    ours.clear()
    assert screen.getvalue().endswith(" \r")


def test_elsewhere_it_is_a_line_now_and_then(monkeypatch):
    screen = io.StringIO()
    ours = DownloadBar(100_000_000, screen)
    ours.draw()
    assert screen.getvalue() == ""
    monkeypatch.setattr("course.download_bar.SECONDS_BETWEEN_LINES", 0.0)
    ours.draw()
    assert screen.getvalue().endswith("s\n")
    ours.clear()
    assert "\r" not in screen.getvalue()
