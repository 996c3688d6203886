"""An exercise whose answer is not a function but a form: each field is read and answered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from dataclasses import dataclass
from typing import Any

from ehr_course.exercises.compare import kind_of
from ehr_course.exercises.result import Outcome, Result

Form = Mapping[str, Any]


@dataclass(frozen=True)
class Answer:
    """What a check says to one field of a form.

    Attributes:
        text: what the field shows, or what it lacks and what to do, in a sentence or two.
        done: whether nothing is lacking.
        remark: something to know about a field that is done, or "".
    """

    text: str
    done: bool = True
    remark: str = ""


def lacks(text: str) -> Answer:
    """Answer that something is lacking."""
    return Answer(text, done=False)


@dataclass(frozen=True)
class Checklist:
    """A form with fields, each read on its own and with the others in sight.

    Attributes:
        id: lesson and number ("20.1").
        title: as the lesson and the syllabus print it.
        hints: two or three, from a nudge to nearly the answer.
        fields: by name, in order, what answers the field; it gets the whole form.
        optional: whether it stands in a part of the lesson that goes further.
    """

    id: str
    title: str
    hints: tuple[str, ...]
    fields: Mapping[str, Callable[[Form], Answer]]
    optional: bool = False

    def examine(self, form: object) -> Result:
        """Read a form and answer each of its fields; the form is left as it is.

        Args:
            form: a dict with the checklist's fields.

        Returns:
            Solved where nothing is lacking, with a remark where there is something to know; not
            attempted where all fields are empty; else not yet. A line for each field.
        """
        if not isinstance(form, Mapping):
            return self._result(
                Outcome.NOT_YET,
                f"check reads your form, a dict with the fields {_named(self.fields)}, and got "
                f"{kind_of(form)}.",
                name="not_a_form",
            )
        if all(is_empty(form[name]) for name in form if name in self.fields):
            return self._result(
                Outcome.NOT_ATTEMPTED,
                f"The form has {len(self.fields)} fields, and all of them are empty. Fill in the "
                f'first, and check again. hint("{self.id}") helps.',
            )
        unknown = [field for field in form if field not in self.fields]
        answers = {name: self._answer(name, form) for name in self.fields}
        lacking = [name for name, answer in answers.items() if not answer.done]
        details = tuple(
            (name, ("✔ " if answer.done else "✘ ") + answer.text)
            for name, answer in answers.items()
        )
        message = f"{len(answers) - len(lacking)} of {len(answers)} fields are done."
        if unknown:
            message += (
                f" No field has the name {_named(map(repr, unknown))}: correct or delete it."
            )
        if lacking or unknown:
            return self._result(
                Outcome.NOT_YET, message, details, " + ".join(lacking) or "unknown_field"
            )
        remarks = [answer.remark for answer in answers.values() if answer.remark]
        if not remarks:
            return self._result(Outcome.SOLVED, message, details)
        start = "One thing to know:" if len(remarks) == 1 else "To know:"
        return self._result(Outcome.REMARK, " ".join([message, start, *remarks]), details)

    def _answer(self, name: str, form: Form) -> Answer:
        if name not in form:
            return lacks("The form has no such field. Copy the empty form of the lesson again.")
        if is_empty(form[name]):
            return lacks("This field is still empty.")
        return self.fields[name](form)

    def _result(
        self,
        outcome: Outcome,
        message: str,
        details: tuple[tuple[str, str], ...] = (),
        name: str | None = None,
    ) -> Result:
        return Result(self.id, self.title, outcome, message, details, misconception=name)


def is_empty(value: object) -> bool:
    """Say whether nothing has been filled in: "", None, an empty list, or a dict of such values.

    >>> is_empty({"text": " ", "scores": []}), is_empty({"text": "", "scores": [0.1]})
    (True, False)
    """
    if isinstance(value, Mapping):
        return all(map(is_empty, value.values()))
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, Sized):
        return getattr(value, "ndim", 1) > 0 and len(value) == 0  # an array may be one number
    return value is None


def _named(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
