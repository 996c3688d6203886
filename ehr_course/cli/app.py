"""The command line as a whole: its commands, one line for what went wrong, and an exit code."""

from __future__ import annotations

import errno
import os
import re
from importlib import metadata
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ehr_course.cli.model_options import evaluate, generate, repeat, summarize
from ehr_course.cli.training_options import prepare, train
from ehr_course.errors import InputError
from ehr_course.printable import printable

_GO_ON = {
    "train": "Run the same command again: it goes on from the last checkpoint.",
    "repeat": "Run the same command again.",
}
_SMALLER = (
    "Take fewer patients or a smaller --batch-size; train has --gradient-accumulation-steps too."
)
_AGAIN = "Nothing was written. Run the same command again."


class Commands(TyperGroup):
    """The commands; an InputError ends with exit code 1, an interrupt with 130."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was named.

        Args:
            ctx: a Context; where its class stands depends on typer's version.
        """
        try:
            return super().invoke(ctx)
        except InputError as error:
            _complain(str(_in_options(error)))
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


_FILLED_BY_OPTIONS = ("BeamSettings", "Sampling", "TrainingConfig")


def _in_options(error: InputError) -> InputError:
    """Name options in an error that names the arguments of a class that options fill."""
    if error.thing not in _FILLED_BY_OPTIONS:
        return error
    problem, remedy = (
        re.sub(r"[a-z]+(_[a-z]+)+", lambda name: _option(name[0]), text)
        for text in (error.problem, error.remedy)
    )
    return InputError(_option(error.place), "", problem, remedy)


def _option(argument: str) -> str:
    return f"--{argument.replace('_', '-')}"


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
    text = printable(text, keep="\n")
    typer.echo(text if rank == "0" else f"process {rank}: {text}", err=True)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _say_version(wanted: bool) -> None:
    """Print the version and end, where --version stands."""
    if not wanted:
        return
    try:
        version = metadata.version("ehr-course")
    except metadata.PackageNotFoundError:
        version = "of a clone that is not installed"
    typer.echo(f"ehr-course {version}")
    raise typer.Exit


_VERSION = typer.Option(
    "--version", callback=_say_version, is_eager=True, help="Print the version and exit."
)


@app.callback()
def ehr_course(version: Annotated[bool, _VERSION] = False) -> None:
    """Generative models of electronic health records, from raw tables to a report.

    \b
    A cohort of the embedded hospital, from end to end:
      ehr-course prepare --out prepared
      ehr-course train prepared --out run
      ehr-course generate run --out synthetic
      ehr-course evaluate --real prepared --synthetic synthetic --out report

    \b
    Every result has a run.json beside it, with all settings and versions.
      ehr-course repeat synthetic/run.json --out again

    Exit codes: 0 done, 1 the input cannot be used, 2 wrong usage,
    130 interrupted.
    """


for command in (prepare, train, generate, evaluate, summarize, repeat):
    app.command()(command)
