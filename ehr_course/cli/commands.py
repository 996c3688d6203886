"""What is around every command: a late import, one line for what went wrong, an exit code."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from ehr_course.errors import InputError

_GO_ON = {
    "train": "Run the same command again: it goes on from the last checkpoint.",
    "repeat": "Run the same command again.",
}
_SMALLER = "Take fewer patients or a smaller --batch-size; train has --accumulation too."
_AGAIN = "Nothing was written. Run the same command again."


class Commands(TyperGroup):
    """The commands; an InputError ends with exit code 1, an interrupt with 130."""

    def invoke(self, ctx: typer.Context) -> object:
        """Run the command that was named."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            _complain(str(error))
            raise typer.Exit(1) from None
        except (MemoryError, RuntimeError) as error:
            if not _is_about_memory(error):
                raise
            reason = (str(error) or "no more could be had").splitlines()[0].rstrip(".")
            _complain(f"memory: {reason}. {_SMALLER}")
            raise typer.Exit(1) from None
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            where = f"{error.filename}: " if error.filename else ""
            remedy = "Look at its permissions" if error.errno == errno.EACCES else "Make room"
            _complain(f"{where}{error.strerror or error}. {remedy}, or name another place.")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            _complain(f"Interrupted. {_GO_ON.get(ctx.invoked_subcommand, _AGAIN)}")
            raise typer.Exit(130) from None


def command_named(name: str) -> Callable[..., None]:
    """The function that does the work of a command, in the module of its name."""
    # torch and its like take seconds to import, which --help must not cost.
    return getattr(import_module(f"ehr_course.cli.{name}"), name)


def run_command(command: str, *arguments: Any, **options: Any) -> None:
    """Do the work of a command."""
    command_named(command)(*arguments, **options)


def _is_about_memory(error: Exception) -> bool:
    """Whether it is Python's error, or torch's of a GPU or of a CPU.

    torch's are told by their names and words, because importing torch takes seconds.
    """
    return (
        isinstance(error, MemoryError)
        or type(error).__name__ == "OutOfMemoryError"
        or "can't allocate memory" in str(error)
    )


def _complain(text: str) -> None:
    rank = os.environ.get("RANK", "0")
    typer.echo(text if rank == "0" else f"process {rank}: {text}", err=True)
