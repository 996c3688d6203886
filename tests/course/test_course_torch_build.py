"""On Linux without a GPU no CUDA libraries are fetched, and the set-up says how much is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from course import download_plan
from course.download_plan import Package, Plan, installed_packages
from course.environment import announcement
from course.venv_stamp import has_cuda

pytestmark = pytest.mark.skipif(
    download_plan.has_nvidia_gpu() or sys.platform != "linux",
    reason="this machine has an NVIDIA GPU, or is not Linux",
)

ORDINARY = """
[[packages]]
name = "torch"
version = "2.13.0"
wheels = [{ url = "somewhere/torch.whl", size = 500000000 }]
[[packages]]
name = "nvidia-cublas"
version = "13.1"
wheels = [{ url = "somewhere/cublas.whl", size = 400000000 }]
[[packages]]
name = "numpy"
version = "2.4.6"
sdist = { url = "somewhere/numpy.tar.gz", size = 90000000 }
wheels = [{ url = "somewhere/numpy.whl", size = 20000000 }]
"""
CPU = """
[[packages]]
name = "torch"
version = "2.13.0+cpu"
wheels = [{ url = "elsewhere/torch.whl" }]
[[packages]]
name = "numpy"
version = "2.4.6"
wheels = [{ url = "somewhere/numpy.whl", size = 20000000 }]
"""
LOCAL = CPU.replace("elsewhere/torch.whl", "file:///wheels/torch.whl")


def locks(clone, ordinary: str | None = None, cpu: str | None = None):
    """Let the stand-in for uv plan this; None is an index that cannot be reached."""
    for name, lock in (("lock", ordinary), ("cpu-lock", cpu)):
        if lock is not None:
            (clone.outside / f"{name}.toml").write_text(lock, encoding="utf-8")
    return clone.with_uv()


def test_the_build_without_cuda_is_taken_where_the_ordinary_one_brings_cuda(clone):
    done = locks(clone, ORDINARY, CPU).course("lab", "--prepare-only")
    assert done.returncode == 0, done.stderr
    assert "--torch-backend cpu -c constraints.txt -e .[dev]" in clone.calls("uv")[-1]
    assert "Up to 212 MB are fetched: less where they were fetched before." in done.stdout
    assert "PyTorch is its build without CUDA libraries; --cuda brings them." in done.stdout


def test_pytorchs_index_is_not_asked_where_the_ordinary_build_brings_no_cuda(clone):
    done = locks(clone, LOCAL).course("lab", "--prepare-only")
    assert "Up to 20 MB are fetched" in done.stdout
    plans = (clone.outside / "uv-plans").read_text(encoding="utf-8").splitlines()
    assert len(plans) == 1
    assert "--torch-backend" not in clone.calls("uv")[-1]


def test_an_index_that_cannot_be_reached_is_said_with_what_it_costs(clone):
    done = locks(clone, ORDINARY).course("lab", "--prepare-only")
    assert done.returncode == 0, done.stderr
    assert "--torch-backend" not in clone.calls("uv")[-1]
    assert "Up to 920 MB are fetched" in done.stdout
    assert (
        "400 MB of them are CUDA libraries, because PyTorch's index of builds without them "
        "cannot be reached." in done.stdout
    )


def test_cuda_is_brought_for_those_who_ask_and_kept_by_later_updates(clone):
    done = locks(clone, ORDINARY, CPU).course("lab", "--prepare-only", "--cuda")
    assert "400 MB of them are CUDA libraries, because --cuda asks for them." in done.stdout
    assert "--torch-backend" not in clone.calls("uv")[-1]
    assert has_cuda(clone.root)
    (clone.root / "constraints.txt").write_text("# changed\n", encoding="utf-8")
    again = clone.course("lab", "--prepare-only")
    assert "Updating .venv" in again.stdout
    assert "because --cuda asks for them" in again.stdout
    assert has_cuda(clone.root)


def test_an_environment_without_cuda_is_made_anew_for_those_who_ask(clone):
    locks(clone, ORDINARY, CPU).course("lab", "--prepare-only")
    assert not has_cuda(clone.root)
    done = clone.course("lab", "--prepare-only", "--cuda")
    assert "Making .venv with uv: it was made without --cuda." in done.stdout
    assert "Making" not in clone.course("lab", "--prepare-only", "--cuda").stdout


def test_without_a_plan_the_size_is_said_roughly(clone):
    done = clone.with_uv().course("lab", "--prepare-only")
    assert done.returncode == 0, done.stderr
    assert "about 400 MB; with CUDA libraries on Linux, 3 GB." in done.stdout


def test_an_update_counts_only_what_is_not_there(tmp_path):
    python = tmp_path / "bin/python"
    for name in ("numpy-2.4.6", "jupyter_client-8.10.0", "old-1.0"):
        (tmp_path / f"lib/python3.11/site-packages/{name}.dist-info").mkdir(parents=True)
    packages = (Package("numpy", "2.4.6", 20), Package("old", "1.1", 5))
    plan = Plan((*packages, Package("jupyter-client", "8.10.0", 7)))
    assert plan.size == 32
    assert plan.without(installed_packages(python)).size == 5


def test_an_update_that_fetches_nothing_says_so():
    assert announcement(Plan(()), cuda=False) == ["Every package is here already, in its version."]


@pytest.mark.parametrize("cuda", [True, False])
def test_nothing_is_said_of_pytorch_where_it_is_there_already(cuda):
    lines = announcement(Plan((Package("numpy", "2.4.6", 20_000_000),)), cuda=cuda)
    assert lines == ["Up to 20 MB are fetched: less where they were fetched before."]


def test_the_build_that_uvs_own_variable_names_is_followed(clone):
    done = locks(clone, ORDINARY, CPU).course("lab", "--prepare-only", UV_TORCH_BACKEND="cu130")
    assert done.returncode == 0, done.stderr
    assert "--torch-backend cu130 -c constraints.txt" in clone.calls("uv")[-1]


def test_a_gpu_is_a_reason_for_cuda(monkeypatch):
    asked = []

    def ask(uv, python, requirements, torch_options, cwd):
        asked.append(torch_options)
        return Plan((Package("nvidia-cublas", "13.1", 400),))

    monkeypatch.setattr(download_plan, "_ask", ask)
    monkeypatch.setattr(download_plan, "has_nvidia_gpu", lambda: True)
    plan = download_plan.make_plan(["uv"], Path("python"), [], cwd=Path(), cuda=False)
    assert plan.cuda_size == 400
    assert asked == [()]
