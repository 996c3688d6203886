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
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise
            where = f"{error.filename}: " if error.filename else ""
            _complain(f"{where}{error.strerror or error}. Make room, or name another place.")
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


def _complain(text: str) -> None:
    rank = os.environ.get("RANK", "0")
    typer.echo(text if rank == "0" else f"process {rank}: {text}", err=True)
