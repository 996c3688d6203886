"""A forked kernel has its own memory, environment and folder, and ends when it is told to."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager, start_new_kernel

from course.kernels import kernel_environment

pytestmark = pytest.mark.usefixtures("quick_kernels")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., tuple[KernelManager, BlockingKernelClient]]]:
    """Start a kernel in a folder of its own, with further environment variables."""
    started = []

    def start(**variables: str) -> tuple[KernelManager, BlockingKernelClient]:
        environment = kernel_environment(tmp_path, **variables)
        started.append(start_new_kernel(env=environment, cwd=str(tmp_path)))
        return started[-1]

    yield start
    for manager, client in started:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def value_of(client: BlockingKernelClient, expression: str) -> str:
    """What a kernel says that an expression is, as text; or the name of its error."""
    reply = client.execute_interactive(
        "", user_expressions={"it": expression}, timeout=60, output_hook=lambda message: None
    )
    answer = reply["content"]["user_expressions"]["it"]
    return answer["data"]["text/plain"] if answer["status"] == "ok" else answer["ename"]


def test_it_has_pytorch_and_nothing_of_the_course_in_memory(start):
    _, client = start()
    modules = "__import__('sys').modules"
    assert value_of(client, f"'torch' in {modules}") == "True"
    assert value_of(client, f"[n for n in {modules} if n.startswith('ehr_course')]") == "[]"
    assert value_of(client, "torch") == "NameError"


def test_it_has_its_own_environment_and_folder(start, tmp_path):
    _, client = start(EHR_COURSE_DATA="somewhere")
    environment = "__import__('os').environ"
    assert value_of(client, f"{environment}['EHR_COURSE_DATA']") == "'somewhere'"
    assert value_of(client, f"{environment}['EHR_COURSE_HOME']") == repr(str(tmp_path))
    assert value_of(client, "__import__('os').getcwd()") == repr(str(tmp_path))
    _, other = start()
    assert value_of(other, f"{environment}['EHR_COURSE_DATA']") == "KeyError"


def test_what_one_kernel_defines_another_does_not_know(start):
    (_, one), (_, other) = start(), start()
    one.execute_interactive("import torch; torch.mine = 1", timeout=60)
    assert value_of(one, "torch.mine") == "1"
    assert value_of(other, "__import__('torch').mine") == "AttributeError"


def test_an_interrupt_ends_the_cell_and_not_the_kernel(start):
    manager, client = start()
    cell = "import time; print('here', flush=True); time.sleep(600)"
    client.execute(cell, stop_on_error=False)  # else what comes early after an error is aborted
    while client.get_iopub_msg(timeout=60)["msg_type"] != "stream":
        pass
    manager.interrupt_kernel()
    assert client.get_shell_msg(timeout=60)["content"]["ename"] == "KeyboardInterrupt"
    assert value_of(client, "1 + 1") == "2"


def test_a_kernel_whose_stand_in_is_killed_ends_too(start):
    manager, client = start()
    kernel = int(value_of(client, "__import__('os').getpid()"))
    stand_in = manager.provisioner.pid
    assert kernel != stand_in
    os.kill(stand_in, signal.SIGKILL)
    assert ends(kernel)


def test_a_stand_in_ends_with_its_kernel(start):
    manager, client = start()
    os.kill(int(value_of(client, "__import__('os').getpid()")), signal.SIGKILL)
    end = time.monotonic() + 30
    while manager.is_alive() and time.monotonic() < end:
        time.sleep(0.05)
    assert not manager.is_alive()


def ends(process: int) -> bool:
    """Whether a process is gone within half a minute; one that waits to be reaped is."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rsplit(")")[1]
        except FileNotFoundError:
            return True
        if state.split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False
