"""Every command that a page shows can be typed as it stands there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer

from ehr_course.cli.app import app

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("course/book/your_own_data.md", "course/book/beyond_one_machine.md")
STARTS = ("ehr-course ", "torchrun ")


def commands_in(text: str) -> list[list[str]]:
    """The words of each command of ehr-course in the code blocks of a page."""
    found = []
    for block in re.findall(r"^```[a-z]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith(STARTS):
                found.append(shlex.split(line, comments=True))
    return found


def help_texts() -> list[str]:
    group = typer.main.get_command(app)
    return [group.help, *(command.help for command in group.commands.values())]


def examples_in(text: str) -> list[list[str]]:
    lines = (line.strip() for line in text.replace("\\\n", " ").splitlines())
    return [shlex.split(line) for line in lines if line.startswith(STARTS)]


def parse(words: list[str]) -> str:
    """Parse a command and do nothing; return its name."""
    if words[0] == "torchrun":
        assert words[words.index("-m") + 1] == "ehr_course.cli"
        words = words[words.index("-m") + 1 :]
    group = typer.main.get_command(app)
    with group.make_context("ehr-course", words[1:]) as context:
        name, command, rest = group.resolve_command(context, words[1:])
        with command.make_context(name, list(rest), parent=context):
            return name


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_parse(page):
    commands = commands_in((ROOT / page).read_text(encoding="utf-8"))
    assert len(commands) >= 4
    for words in commands:
        parse(words)


def test_the_page_about_your_own_data_shows_every_command():
    text = (ROOT / PAGES[0]).read_text(encoding="utf-8")
    shown = {parse(words) for words in commands_in(text)}
    assert shown == set(typer.main.get_command(app).commands)


def test_every_help_has_an_example_that_parses():
    for text in help_texts():
        examples = examples_in(text)
        assert examples, text
        for words in examples:
            parse(words)


def test_a_command_with_an_option_that_is_none_does_not_parse():
    with pytest.raises(Exception, match="No such option"):
        parse(["ehr-course", "generate", "run", "--out", "x", "--patient", "3", "--many"])
