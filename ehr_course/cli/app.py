"""The commands, one line for what went wrong, and an exit code."""

from __future__ import annotations

import inspect
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo
from typer.core import TyperGroup

from ehr_course.cli.output import Target, warn
from ehr_course.cli.run_record import read_run, versions
from ehr_course.cli.settings import OF_COMMAND, Settings
from ehr_course.errors import InputError
from ehr_course.printable import printable

_GO_ON = {
    "train": "Run the same command again: it goes on from the last checkpoint.",
    "repeat": "Run the same command again.",
}
_SMALLER = (
    "Use fewer patients or a smaller --batch-size; train also has --gradient-accumulation-steps."
)
_AGAIN = "Nothing was written. Run the same command again."
_FILLED_BY_OPTIONS = ("BeamSettings", "Sampling", "TrainingConfig")


class Commands(TyperGroup):
    """The commands: an InputError ends them with exit code 1, an interrupt with 130."""

    def invoke(self, ctx: Any) -> Any:
        """Run the named command; ctx is a click Context, which typer may bring itself."""
        try:
            return super().invoke(ctx)
        except InputError as error:
            _complain(str(_in_options(error)))
            raise typer.Exit(1) from None
        except (MemoryError, RuntimeError) as error:
            # torch's errors are recognised by name and words: importing torch takes seconds.
            is_about_memory = (
                isinstance(error, MemoryError)
                or type(error).__name__ == "OutOfMemoryError"
                or "can't allocate memory" in str(error)
            )
            if not is_about_memory:
                raise
            reason = (str(error) or "there is not enough of it").splitlines()[0].rstrip(".")
            _complain(f"memory: {reason}. {_SMALLER}")
            raise typer.Exit(1) from None
        except BrokenPipeError:
            raise
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            remedy = "Look at its permissions and the free space, or name another place."
            _complain(f"{where}{error.strerror or error}. {remedy}")
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            _complain(f"Interrupted. {_GO_ON.get(ctx.invoked_subcommand, _AGAIN)}")
            raise typer.Exit(130) from None


def _in_options(error: InputError) -> InputError:
    """Name options in place of the arguments that they fill."""
    if error.thing not in _FILLED_BY_OPTIONS:
        return error
    problem, remedy = (
        re.sub(r"[a-z]+(_[a-z]+)+", lambda name: _option_name(name[0]), text)
        for text in (error.problem, error.remedy)
    )
    return InputError(_option_name(error.place), "", problem, remedy)


def _option_name(field: str) -> str:
    return f"--{field.replace('_', '-')}"


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
    """Print the version and exit."""
    if wanted:
        typer.echo(f"ehr-course {versions()['ehr_course']}")
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


# ------------------------------------------------------------------ the commands


_OUT_FOLDER = Annotated[
    Path, typer.Option("--out", metavar="FOLDER", help="The folder to write.", show_default=False)
]
_OUT_FILE = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="The .csv to write.", show_default=False)
]
Overwrite = Annotated[
    bool,
    typer.Option(
        "--overwrite", help="Replace what a run wrote there, once the new result is complete."
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No bar and no text.")]


def _do(command: str, settings: Settings, target: Target) -> None:
    """Do a command's work, by the function of its name in the module of its name."""
    # Importing torch takes seconds, which --help must not cost.
    getattr(import_module(f"ehr_course.cli.{command}"), command)(settings, target)


def _add_command(name: str, settings: type[Settings]) -> None:
    """Add a command whose options are the fields of its settings."""

    def run(out: Path, **words: Any) -> None:
        how = {key: words.pop(key) for key in ("overwrite", "quiet") if key in words}
        _do(name, settings.from_words(words), Target(out, **how))

    fields = dict(settings.model_fields)
    seed = fields.pop("seed")
    parameters = [_parameter(field_name, field) for field_name, field in fields.items()]
    n_needed = sum(field.is_required() for field in fields.values())
    parameters.insert(n_needed, _keyword("out", _OUT_FILE if name == "summarize" else _OUT_FOLDER))
    if name != "summarize":  # where nothing is random
        parameters.append(_parameter("seed", seed))
    if name != "train":  # which continues an existing training
        parameters.append(_keyword("overwrite", Overwrite, False))
    parameters.append(_keyword("quiet", Quiet, False))
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__doc__ = settings.__doc__
    app.command(name)(run)


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    """The parameter that typer reads, from a field that ``settings.option`` defined."""
    extra: Any = field.json_schema_extra
    info: Any = typer.Argument(**extra["of_typer"])
    if extra["name"] != "":
        info = typer.Option(extra["name"] or _option_name(name), **extra["of_typer"])
    default = inspect.Parameter.empty if field.is_required() else field.default
    default = list(default) if isinstance(default, tuple) else default
    kind = extra["typed"] or field.annotation
    return _keyword(name, Annotated[kind, info], default)


def _keyword(
    name: str, annotation: Any, default: Any = inspect.Parameter.empty
) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )


for name, settings in OF_COMMAND.items():
    _add_command(name, settings)


@app.command()
def repeat(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN.JSON", help="The record of a run, or its folder.", show_default=False
        ),
    ],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="PLACE", help="Where to write now.", show_default=False),
    ],
    overwrite: Overwrite = False,
    quiet: Quiet = False,
) -> None:
    """Repeat what a run did: the same command, the same settings, the same data.

    \b
    Example:
      ehr-course repeat synthetic/run.json --out again

    With the same versions on the same machine the result is the same, to the
    byte. Start it where the run was started: paths stand in run.json as they
    were given.
    """
    record = read_run(run)
    if record.command == "train" and overwrite:
        raise InputError(
            "repeat", "--overwrite", "a training replaces nothing", "Name a new folder."
        )
    now = versions()
    for name, then in record.versions.items():
        if now.get(name) != then:
            warn(
                f"{name} was {then} in that run and is {now.get(name)} now: the result can differ."
            )
    _do(record.command, record.settings, Target(out, overwrite, quiet, record.inputs))
