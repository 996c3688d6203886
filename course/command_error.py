"""What stops a command, told to the person at the keyboard."""

from __future__ import annotations


class CommandError(Exception):
    """Something the reader can mend: shown without a traceback.

    Args:
        problem: what is wrong, in a sentence or two.
        remedy: what to do about it.
        exit_code: 1 for the machine's state, 2 for a wrong command line, 130 for Ctrl-C.

    >>> print(CommandError("There is no .venv.", "Run: python3 -m course lab"))
    There is no .venv.
    Run: python3 -m course lab
    """

    def __init__(self, problem: str, remedy: str, *, exit_code: int = 1) -> None:
        self.exit_code = exit_code
        super().__init__(f"{problem}\n{remedy}")
