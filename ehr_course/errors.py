"""The one error that bad input raises: it names the thing, the place and the remedy."""

from __future__ import annotations

from ehr_course.printable import printable


class InputError(ValueError):
    """Input that the course cannot use; control characters in the message are escaped.

    Args:
        thing: what is wrong, usually a file name.
        place: where in it ("line 17, column 'ADMITTIME'"), or "" for the whole thing.
        problem: what was found there.
        remedy: what the reader can do about it.

    >>> print(InputError("ADMISSIONS.csv", "line 3", "'soon' is not a date", "Write 2101-01-31."))
    ADMISSIONS.csv, line 3: 'soon' is not a date. Write 2101-01-31.
    """

    def __init__(self, thing: object, place: str, problem: str, remedy: str) -> None:
        self.thing = printable(str(thing))
        self.place = printable(place)
        self.problem = printable(problem.rstrip("."))
        # A remedy may end in a table of several lines.
        self.remedy = printable(remedy, keep="\n")
        where = f"{self.thing}, {self.place}" if place else self.thing
        super().__init__(f"{where}: {self.problem}. {self.remedy}")

    def __reduce__(self) -> tuple:
        return type(self), (self.thing, self.place, self.problem, self.remedy)
