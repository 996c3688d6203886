"""Objects that an answer may call, perhaps only a few times, to find out what they hide."""

from __future__ import annotations

from typing import Any, NoReturn, Self


class Ended(SystemExit):
    """A call that an answer could have known not to make: `except Exception` does not help.

    Attributes:
        reason: what to think about, for the message of a check.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class TooManyCalls(Ended):
    """A sealed object was called more often than the exercise allows."""


class Sealed:
    """An object whose copy begins afresh and does not tell what it is.

    A check hands copies to an answer, and shows the original in its messages.
    """

    _made_with: tuple[tuple[Any, ...], dict[str, Any]]
    _is_copy = False
    _ended: Ended | None = None

    def __new__(cls, *arguments: Any, **options: Any) -> Self:
        """Keep the arguments, for copies."""
        made = super().__new__(cls)
        made._made_with = arguments, options
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return one that is made as this one was."""
        arguments, options = self._made_with
        made = type(self)(*arguments, **options)
        made._is_copy = True
        return made

    def _end(self, ended: Ended) -> NoReturn:
        """End this call and all later ones."""
        self._ended = ended
        raise ended

    def _check_not_ended(self) -> None:
        if self._ended is not None:
            raise self._ended

    def __repr__(self) -> str:
        """Say what it is, or that it has ended, which an answer that went on cannot hide."""
        if self._ended is not None:
            return f"<ended: {self._ended}>"
        return self._description(self._is_copy)

    def _description(self, hidden: bool) -> str:
        """Say what it is; where it is to be found out, `hidden` leaves that out."""
        raise NotImplementedError
