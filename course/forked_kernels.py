"""Kernels that begin with PyTorch and transformers imported, for tests that run many lessons.

A kernel needs several seconds of processor time to import what almost every lesson imports. Here
one process imports it once, and each kernel is a fork of that process. Nothing else differs: the
kernel has its own memory, its own folder and the environment variables that it was started with.

`forked_kernels` makes the folder with a kernel specification that goes by the usual name. Where a
test sets JUPYTER_PATH to it, nbclient, papermill, nbval and JupyterLab start their kernels so. The
program that they start and watch is `kernel_stand_in.py`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

IMPORTED = (
    "ipykernel.kernelapp",
    "transformers.models.bart.modeling_bart",
)
STAND_IN = Path(__file__).with_name("kernel_stand_in.py")


@contextlib.contextmanager
def forked_kernels(environment: dict[str, str]) -> Iterator[Path]:
    """Start the process that kernels are forked from; yield a folder for JUPYTER_PATH.

    Where the system is not Linux the folder is empty, and kernels are ordinary ones.

    Args:
        environment: of that process. What Python reads when it starts, such as PYTHONHASHSEED,
            holds for every kernel; all other variables are those of the kernel.
    """
    with tempfile.TemporaryDirectory(prefix="ehr-kernels-") as name:
        folder = Path(name)
        if sys.platform != "linux":
            yield folder
            return
        address = folder / "socket"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(address))
            listener.listen()
            server = subprocess.Popen(
                [sys.executable, "-P", __file__, str(listener.fileno())],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=[listener.fileno()],
            )
        assert server.stdin is not None and server.stdout is not None  # both are pipes
        if not server.stdout.readline():
            raise RuntimeError(f"{Path(__file__).name} ended with exit code {server.wait()}.")
        specification = folder / "kernels" / "python3"
        specification.mkdir(parents=True)
        command = [sys.executable, "-I", "-S", str(STAND_IN), str(address), "{connection_file}"]
        about = {"argv": command, "display_name": "Python 3 (ipykernel)", "language": "python"}
        (specification / "kernel.json").write_text(json.dumps(about), encoding="utf-8")
        try:
            yield folder
        finally:
            server.stdin.close()
            server.wait(timeout=60)


def serve(listener: socket.socket) -> None:
    """Fork a kernel for each connection, until standard input is closed; wait for them all."""
    for module in IMPORTED:
        importlib.import_module(module)
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        raise SystemExit("An import has started a thread, which a fork would not have.")
    gc.collect()
    gc.freeze()  # the collector would copy the memory that all kernels share
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [], 1)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if sys.stdin in ready:
            break
        if listener in ready:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                be_a_kernel(connection)
            connection.close()
    with contextlib.suppress(ChildProcessError):
        while os.wait():  # each ends with its stand-in
            pass


def be_a_kernel(connection: socket.socket) -> None:
    """Run a kernel as the stand-in would have been one, and end with it."""
    from ipykernel.kernelapp import launch_new_instance

    exit_code = 1
    try:
        os.setsid()
        _, streams, _, _ = socket.recv_fds(connection, 1, 3)
        for target, stream in enumerate(streams):
            os.dup2(stream, target)
            os.close(stream)
        asked = json.loads(connection.makefile("rb").readline())
        os.environ.clear()
        os.environ.update(asked["environment"])
        os.chdir(asked["folder"])
        connection.sendall(f"{os.getpid()}\n".encode())
        threading.Thread(target=end_with, args=(connection,), daemon=True).start()
        server = f"--IPKernelApp.parent_handle={os.getppid()}"  # without it, the kernel ends
        launch_new_instance(argv=[*asked["arguments"], server])
        exit_code = 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(exit_code)


def end_with(connection: socket.socket) -> None:
    """End this process when the stand-in has been killed."""
    connection.recv(1)
    os._exit(1)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
