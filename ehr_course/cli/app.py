"""The command line as a whole: what it is called, and which commands it has."""

from __future__ import annotations

import typer

from ehr_course.cli.commands import Commands
from ehr_course.cli.making import prepare, train
from ehr_course.cli.using import evaluate, generate, repeat, summarize

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["--help", "-h"]},
)


@app.callback()
def ehr_course() -> None:
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
