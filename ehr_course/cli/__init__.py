"""The command line: ``ehr-course prepare | train | generate | evaluate | summarize | repeat``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command that the arguments name, and leave with its exit code.

    0 done; 1 the input cannot be used; 2 wrong usage; 130 interrupted.
    """
    try:
        from ehr_course.cli.app import app

        app(prog_name="ehr-course")
    except KeyboardInterrupt:  # before any command has begun
        sys.exit(130)
