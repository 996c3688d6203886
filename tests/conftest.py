"""What several folders of tests share: the process that lessons' kernels are forked from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from course.forked_kernels import forked_kernels
from course.kernels import kernel_environment


@pytest.fixture(scope="session")
def kernel_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for JUPYTER_PATH: with it, kernels begin with everything imported."""
    home = tmp_path_factory.mktemp("kernels")
    with forked_kernels(kernel_environment(home)) as folder:
        yield folder


@pytest.fixture(scope="module")
def quick_kernels(kernel_server: Path) -> Iterator[None]:
    """Start the kernels of this file's tests from there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_PATH", str(kernel_server))
        yield
