"""A JupyterLab on a copy of the lessons, and a headless Chromium to use it with."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parents[2]
SECONDS = 60

CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

SETTINGS = {
    # Cells out of sight stay in the page, so that the test can find them.
    "@jupyterlab/notebook-extension:tracker": {"windowingMode": "none"},
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
}


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium; without one the browser tests skip, or fail where it is required."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        reason = f"no browser found (looked for {', '.join(names)})"
        if os.environ.get("EHR_COURSE_REQUIRE_BROWSER"):
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def serve(chromium: str) -> Callable[..., AbstractContextManager[str]]:
    """Start a JupyterLab and give its address: see `_serving`."""
    return _serving


@pytest.fixture(scope="session")
def lab(
    serve: Callable[..., AbstractContextManager[str]],
    tmp_path_factory: pytest.TempPathFactory,
    kernel_server: Path,
) -> Iterator[str]:
    """The address of a JupyterLab that serves a copy of the lessons."""
    folder = tmp_path_factory.mktemp("a clone with spaces")
    shutil.copytree(ROOT / "lessons", folder / "lessons")
    shutil.copy(ROOT / "jupytext.toml", folder)
    settings = folder / "lab" / "settings"
    settings.mkdir(parents=True)
    (settings / "overrides.json").write_text(json.dumps(SETTINGS), encoding="utf-8")

    def command(port: int) -> list[str]:
        return [
            "-m",
            "jupyterlab",
            "--no-browser",
            "--allow-root",
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.port={port}",
            f"--ServerApp.root_dir={folder}",
            "--IdentityProvider.token=",
            f"--LabApp.app_settings_dir={settings}",
            "--LabApp.extension_manager=readonly",
            "--LabApp.expose_app_in_browser=True",
        ]

    with serve(command, folder, JUPYTER_PATH=str(kernel_server)) as address:
        yield address


@contextmanager
def _serving(
    command: Callable[[int], list[str]],
    folder: Path,
    *,
    seconds_to_end: float = SECONDS,
    **settings: str,
) -> Iterator[str]:
    """Run a JupyterLab, and give its address.

    Args:
        command: from a free port, what makes Python that JupyterLab.
        folder: where it runs, and what it has for a home.
        seconds_to_end: how long it may take to end, before it is killed.
        settings: of its environment.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {
        "EHR_COURSE_HOME": str(folder / "home"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_DATA_DIR": str(folder / "data"),
        "JUPYTERLAB_SETTINGS_DIR": str(folder / "user-settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
        **settings,
    }
    environment.pop("EHR_COURSE_RAISE", None)
    environment.pop("MPLBACKEND", None)
    address = f"http://127.0.0.1:{port}"
    file = folder / "server.log"
    with file.open("w", encoding="utf-8") as log:
        server = subprocess.Popen(
            [sys.executable, *command(port)],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait_until_it_answers(address, server, file)
            yield address
        finally:
            server.terminate()
            try:
                server.wait(timeout=seconds_to_end)
            except subprocess.TimeoutExpired:
                # It waits in vain for a kernel that was just starting. That one ends with it.
                server.kill()
                server.wait()


def _wait_until_it_answers(address: str, server: subprocess.Popen, log: Path) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if server.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{address}/api", timeout=2):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text(encoding='utf-8')[-2000:]}")
