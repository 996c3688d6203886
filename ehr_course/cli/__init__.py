"""The command line: ``ehr-course prepare | train | generate | evaluate | summarize | repeat``."""

from __future__ import annotations

import os
import signal
import sys

from ehr_course.termination import leave


def main() -> None:
    """Run the named command, and exit with its code.

    0 done; 1 the input cannot be used; 2 wrong usage; 130 interrupted; 143 terminated.
    """
    # SIGTERM (kill, a cluster's scheduler) cleans up as any other end does. Under torchrun it must
    # end the process at once, because the processes wait for each other.
    if "RANK" not in os.environ:
        signal.signal(signal.SIGTERM, leave)
    try:
        from ehr_course.cli.app import app

        app(prog_name="ehr-course")
    except KeyboardInterrupt:  # before any command has begun
        sys.exit(130)
