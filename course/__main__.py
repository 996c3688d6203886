"""The entry of `python3 -m course`: refuse an old Python in words, then hand over.

Everything above the import must parse on Python 3.6, and so must `course/__init__.py`.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - this file also runs where nothing is installed
    sys.exit(
        f"course: this is Python {sys.version_info[0]}.{sys.version_info[1]}; "
        "the course needs Python 3.11 or newer.\n"
        "Install a newer Python and start with it, for example: python3.11 -m course lab"
    )
if not __package__:
    sys.exit("course: start it as a module, from the clone's root: python3 -m course lab")

from course.commands import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
