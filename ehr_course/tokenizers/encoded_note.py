"""A note as ids in which a word outside the vocabulary keeps a name of its own."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

from ehr_course.errors import InputError


class EncodedNote(NamedTuple):
    """A note as a model reads it that can copy: See et al. (2017), https://arxiv.org/abs/1704.04368.

    A word that is not in the vocabulary gets an *extended* id, which means something in this note
    alone: the size of the vocabulary plus the word's place in ``oov``.

    Attributes:
        ids: ``<s>``, the tokens of the note, ``</s>``; extended ids are len(tokenizer) or more.
        oov: the words of the note that are outside the vocabulary, each once, in the order
            in which the note first has them.
    """

    ids: list[int]
    oov: tuple[str, ...]

    def cut(self, most: int, *, size: int, eos_id: int) -> EncodedNote:
        """The beginning of the note, ``</s>`` included, and the words outside that are in it.

        Args:
            most: tokens to keep; a note that is not longer stays as it is.
            size: the number of tokens in the vocabulary.
            eos_id: of ``</s>``.

        >>> EncodedNote([1, 9, 8, 10, 2], ("one", "two", "three")).cut(4, size=8, eos_id=2)
        EncodedNote(ids=[1, 9, 8, 2], oov=('one', 'two'))
        """
        if len(self.ids) <= most:
            return self
        ids = [*self.ids[: most - 1], eos_id]
        # Words are numbered as the note first has them: what is left is the first few.
        return EncodedNote(ids, self.oov[: max(0, max(ids) + 1 - size)])


def listed_ids(
    ids: Any, *, size: int, oov: tuple[str, ...] = (), noun: str = "token"
) -> list[int]:
    """Ids as plain whole numbers, each of them in the vocabulary or the id of a word outside it.

    Args:
        ids: a list, a NumPy array or a torch tensor of shape (length,).
        size: the number of tokens in the vocabulary.
        oov: the words outside it, which have the ids from size on.
        noun: what an id stands for, as an error calls it.

    Raises:
        InputError: if an id is not a whole number or stands for nothing, with its place.

    >>> listed_ids([1, 5, 2], size=5, oov=("quinapril",))
    [1, 5, 2]
    """
    # NumPy arrays and torch tensors both have tolist, so torch need not be imported here.
    given = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    if not isinstance(given, list):
        raise InputError("ids", "", f"{given!r} is one number", "Give a sequence of ids.")
    return [
        checked_id(token_id, f"place {place}", size=size, oov=oov, noun=noun)
        for place, token_id in enumerate(given)
    ]


def checked_id(
    token_id: Any, place: str, *, size: int, oov: tuple[str, ...] = (), noun: str = "token"
) -> int:
    """One id as a plain whole number; see :func:`listed_ids`."""
    try:
        number = operator.index(token_id)
    except (TypeError, ValueError):
        number = -1
    if isinstance(token_id, bool) or not 0 <= number < size + len(oov):
        also = f", and to {size + len(oov) - 1} for the words outside" if oov else ""
        raise InputError(
            "ids",
            place,
            f"{token_id!r} is not the id of a {noun}: they run from 0 to {size - 1}{also}",
            "Was this encoded by another tokenizer, or for another note? "
            "(Labels of -100 are not ids either.)",
        )
    return number
