"""`course mine`: print the learner's model as one file."""

from __future__ import annotations

from course.command_error import CommandError
from ehr_course.exercises.mine import whole_model


def main(arguments: list[str]) -> int:
    """Print all parts of the model, the learner's own where they are solved, and return 0.

    Args:
        arguments: what stands after `course mine` on the command line: nothing.

    Raises:
        CommandError: if there are arguments.
    """
    if arguments:
        remedy = "Leave them out: python3 -m course mine > my_model.py"
        raise CommandError("course mine takes no arguments.", remedy, exit_code=2)
    print(whole_model(), end="")
    return 0
