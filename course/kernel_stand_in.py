"""What Jupyter starts, signals and waits for in place of a kernel that is forked elsewhere.

It passes on its arguments, environment, folder and streams, then every signal, and ends when the
kernel ends. If it is killed, the kernel sees its connection closed and ends too.
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path


def main(address: str, connection_file: str, *arguments: str) -> None:
    """Ask for a kernel, and stay as long as it is there."""
    asked = {
        "arguments": ["-f", connection_file, *arguments],
        "environment": dict(os.environ),
        "folder": str(Path.cwd()),
    }
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address)
    socket.send_fds(connection, [b"\n"], [0, 1, 2])
    connection.sendall(json.dumps(asked).encode() + b"\n")
    kernel = int(connection.makefile("rb").readline())
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda received, _: os.kill(kernel, received))
    while connection.recv(1):
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
