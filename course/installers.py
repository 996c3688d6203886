"""The programs that install packages: where uv is, and the settings that uv and pip get."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from course.venv_stamp import venv_python

FROM_PIP = {
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_NO_INDEX": "UV_NO_INDEX",
    "PIP_CERT": "SSL_CERT_FILE",
}
"""What pip's users set, by uv's name for it. Uv itself does not read pip's settings."""


def uv_outside(root: Path) -> str | None:
    """Return the uv on the PATH that is not in `.venv`, or None: that one may be deleted."""
    inside = venv_python(root).parent.resolve()
    folders = [folder for folder in os.get_exec_path() if Path(folder).resolve() != inside]
    return shutil.which("uv", path=os.pathsep.join(folders))


def find_uv(root: Path) -> list[str] | None:
    """Return the command that starts uv: the one on the PATH, else the one in `.venv`, if any."""
    on_path = shutil.which("uv")
    if on_path:
        return [on_path]
    command = [str(venv_python(root)), "-m", "uv"]
    try:
        answer = subprocess.run([*command, "--version"], capture_output=True, check=False)
    except OSError:
        return None
    return command if answer.returncode == 0 else None


def installer_environment() -> dict[str, str]:
    """Return the environment variables with which pip and uv are started."""
    env = dict(os.environ)
    # An activated environment elsewhere must not attract the packages.
    env.pop("VIRTUAL_ENV", None)
    env.update(
        PIP_DISABLE_PIP_VERSION_CHECK="1",
        PIP_NO_INPUT="1",
        PYTHONUNBUFFERED="1",
        PYTHONIOENCODING="utf-8",
    )
    for pips, uvs in FROM_PIP.items():
        if env.get(pips) and uvs not in env:
            value = env[pips]
            # pip separates several places by blanks; uv its folders of wheels by commas.
            env[uvs] = ",".join(value.split()) if uvs == "UV_FIND_LINKS" else value
    return env
