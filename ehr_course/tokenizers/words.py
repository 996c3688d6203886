"""One word, one token: notes in a closed vocabulary of words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from ehr_course.errors import InputError
from ehr_course.tokenizers.base import EncodedNote, Tokenizer, check_special_tokens

SPECIAL_TOKENS = ("<unk>", "<s>", "</s>", "<pad>")
"""The special tokens in the order of their ids."""

# A letter or digit, with the accents that NFKC cannot compose.
_LETTER = r"(?:[^\W_][\u0300-\u036f]*)"
_WORD = re.compile(
    rf"{_LETTER}+(?:(?:['/-]|(?<=\d)[.,:](?=\d)){_LETTER}+)*|_+|\S",
)
_STRAIGHT = str.maketrans({"’": "'", "‐": "-"})
_SPACE_BEFORE = re.compile(r" (?=[.,;:!?%)\]}])")
_SPACE_AFTER = re.compile(r"(?<=[(\[{]) ")


def split_words(text: str) -> list[str]:
    """Normalise a text (NFKC, lower case, straight apostrophes and hyphens) and cut it into words.

    A word is a run of letters and digits, a run of underscores (a removed name in MIMIC's notes)
    or any other visible character. Inside a run there can be an apostrophe, hyphen or slash, and
    between digits a point, comma or colon.

    >>> split_words("The patient’s T-cells: 2.5, 1,000/µl…")
    ['the', "patient's", 't-cells', ':', '2.5', ',', '1,000/μl', '.', '.', '.']
    """
    # Lower case can undo the composed form, so it is composed once more.
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).lower())
    words = _WORD.findall(text.translate(_STRAIGHT))
    return [word for word in words if len(word) > 1 or word.isprintable()]


def join_words(words: Iterable[str]) -> str:
    """Words as a text, without spaces before ``. , ; : ! ? % ) ] }`` and after ``( [ {``.

    >>> join_words(["fever", "(", "2", "days", ")", "."])
    'fever (2 days).'
    """
    return _SPACE_AFTER.sub("", _SPACE_BEFORE.sub("", " ".join(words)))


class WordTokenizer(Tokenizer):
    """Cuts text into words and gives each word of its vocabulary an id.

    Ids 0 to 3 are ``<unk>``, ``<s>``, ``</s>`` and ``<pad>``; the words follow in sorted order.
    ``encode`` loses words outside the vocabulary; ``encode_note`` keeps them, for copying.

    Args:
        words: the vocabulary, each one word to :func:`split_words`; repetitions count once.

    >>> tokenizer = WordTokenizer(["given", "patient", "was", "."])
    >>> tokenizer.vocabulary
    ('.', 'given', 'patient', 'was')
    >>> tokenizer.encode("Patient was given quinapril.")
    [6, 7, 5, 0, 4]
    >>> note = tokenizer.encode_note("Patient was given quinapril.")
    >>> note
    EncodedNote(ids=[1, 6, 7, 5, 8, 4, 2], oov=('quinapril',))
    >>> tokenizer.decode(note.ids, note.oov)
    'patient was given quinapril.'
    """

    unk_id, bos_id, eos_id, pad_id = range(4)

    _kind = "word tokenizer"
    _remake = "WordTokenizer.from_texts and save"

    def __init__(self, words: Iterable[str]) -> None:
        vocabulary = {words} if isinstance(words, str) else set(words)
        if not vocabulary:
            raise InputError("WordTokenizer", "words", "the list is empty", "Were texts loaded?")
        for word in vocabulary:
            if isinstance(words, str) or not isinstance(word, str) or split_words(word) != [word]:
                raise InputError(
                    "WordTokenizer",
                    "words",
                    f"{word!r} is not one word as texts are cut",
                    "Make the vocabulary with WordTokenizer.from_texts.",
                )
        self.vocabulary: tuple[str, ...] = tuple(sorted(vocabulary))
        """The words in the order of their ids: ``vocabulary[i]`` has id ``4 + i``."""
        self._tokens = SPECIAL_TOKENS + self.vocabulary
        self._ids = {word: i for i, word in enumerate(self.vocabulary, len(SPECIAL_TOKENS))}

    @classmethod
    def from_texts(cls, texts: Iterable[str], *, min_count: int = 1) -> Self:
        """Take the vocabulary from the notes and summaries of the training split.

        Words that only test notes have would get embeddings that are never trained.

        Args:
            texts: of any length.
            min_count: how often a word must occur in all texts together.
        """
        counts: Counter[str] = Counter()
        for text in checked_texts(texts, "WordTokenizer.from_texts"):
            counts.update(split_words(text))
        kept = [word for word, count in counts.items() if count >= min_count]
        if not kept:
            raise InputError(
                "WordTokenizer.from_texts",
                "min_count",
                f"no word occurs {min_count} times: the most frequent one occurs "
                f"{max(counts.values(), default=0)} times",
                "Use a smaller min_count, or more texts.",
            )
        return cls(kept)

    def __contains__(self, word: object) -> bool:
        """Whether a word is in the vocabulary; special tokens are not words."""
        return word in self._ids

    def __repr__(self) -> str:
        return f"WordTokenizer({len(self.vocabulary):,} words)"

    def words(self, text: str) -> list[str]:
        """The words of a text, in the vocabulary or not; see :func:`split_words`."""
        return split_words(text)

    def normalize(self, text: str) -> str:
        """The text as ``decode`` returns it: its words, joined by :func:`join_words`."""
        return join_words(split_words(text))

    def encode(self, text: str, *, add_bos: bool = False, add_eos: bool = False) -> list[int]:
        """The ids of the words of a text, ``<unk>`` outside the vocabulary."""
        ids = [self._ids.get(word, self.unk_id) for word in split_words(text)]
        return [self.bos_id] * add_bos + ids + [self.eos_id] * add_eos

    def encode_note(self, text: str) -> EncodedNote:
        """A note between ``<s>`` and ``</s>``, and its words outside the vocabulary."""
        words = split_words(text)
        if not words:
            raise InputError(
                "WordTokenizer.encode_note",
                "",
                "the text has no word",
                "Leave out the notes that are empty.",
            )
        # A dict keeps its order and finds a word fast.
        unknown = dict.fromkeys(word for word in words if word not in self._ids)
        places = {word: i for i, word in enumerate(unknown, len(self))}
        ids = [self._ids[word] if word in self._ids else places[word] for word in words]
        return EncodedNote([self.bos_id, *ids, self.eos_id], tuple(places))

    def encode_summary(self, text: str, oov: Sequence[str] = ()) -> list[int]:
        """A summary between ``<s>`` and ``</s>``, with the extended ids of its note.

        Words outside both the vocabulary and the note are ``<unk>``: no model can write them.

        >>> WordTokenizer(["fever", "no"]).encode_summary("no rales, cough", ("rales", ","))
        [1, 5, 6, 7, 0, 2]
        """
        places = {word: i for i, word in enumerate(oov, len(self))}
        known = self._ids
        ids = [known.get(word, places.get(word, self.unk_id)) for word in split_words(text)]
        return [self.bos_id, *ids, self.eos_id]

    def decode(self, ids: Any, oov: Sequence[str] = ()) -> str:
        """The normalised text of ids, with ``<unk>`` but no other special token.

        Args:
            ids: a list, a NumPy array or a torch tensor of shape (length,).
            oov: of the note whose extended ids these are.
        """
        silent = (self.bos_id, self.eos_id, self.pad_id)
        kept = (i for i in self._checked_ids(ids, oov) if i not in silent)
        return join_words(self.piece(i, oov) for i in kept)

    def _content(self) -> dict[str, Any]:
        return {"special_tokens": list(SPECIAL_TOKENS), "words": list(self.vocabulary)}

    @classmethod
    def _from_content(cls, content: dict[str, Any], path: str | Path, **options: Any) -> Self:
        check_special_tokens(content, SPECIAL_TOKENS, path)
        return cls(content["words"], **options)


def checked_texts(texts: Iterable[str], caller: str) -> list[str]:
    """The texts as a list, each of them checked to be text."""
    if isinstance(texts, str):
        raise InputError(caller, "texts", "it is one text", "Give a list of texts.")
    texts = list(texts)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                caller,
                f"text {number}",
                f"{text!r} is not text",
                "Leave out the notes that are missing.",
            )
    return texts
