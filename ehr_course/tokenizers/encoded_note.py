"""A note as ids in which a word outside the vocabulary keeps a name of its own."""

from __future__ import annotations

from typing import NamedTuple


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
