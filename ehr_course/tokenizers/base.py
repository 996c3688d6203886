"""What the three tokenizers have in common: they are used like those of transformers."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

from ehr_course.errors import InputError
from ehr_course.tokenizers import checked_json

if TYPE_CHECKING:
    from transformers import BatchEncoding

FILE = "tokenizer.json"
"""The file of a tokenizer in the folder of a model or of prepared data."""


class EncodedNote(NamedTuple):
    """A note for a model that can copy: See et al. (2017), https://arxiv.org/abs/1704.04368.

    A word outside the vocabulary gets an *extended* id, valid in this note alone: the size of the
    vocabulary plus the word's place in ``oov``.

    Attributes:
        ids: ``<s>``, the tokens of the note, ``</s>``.
        oov: the words outside the vocabulary, each once, in the order of their first use.
    """

    ids: list[int]
    oov: tuple[str, ...]

    def cut(self, most: int, *, size: int, eos_id: int) -> EncodedNote:
        """At most `most` tokens, ``</s>`` at the end, and the words outside that they include.

        >>> EncodedNote([1, 9, 8, 10, 2], ("one", "two", "three")).cut(4, size=8, eos_id=2)
        EncodedNote(ids=[1, 9, 8, 2], oov=('one', 'two'))
        """
        if len(self.ids) <= most:
            return self
        ids = [*self.ids[: most - 1], eos_id]
        # Words are numbered in the order of their first use, so the first few are left.
        return EncodedNote(ids, self.oov[: max(0, max(ids) + 1 - size)])


class Tokenizer:
    """A tokenizer for patients or notes, under the names that transformers uses.

    >>> from ehr_course.tokenizers.codes import CodeTokenizer
    >>> tokenizer = CodeTokenizer(["0389", "4280"])
    >>> tokenizer([[["4280"]], [["4280", "0389"]]], padding=True)["input_ids"]
    [[1, 3, 8, 4, 2, 0], [1, 3, 8, 7, 4, 2]]
    >>> tokenizer([["4280"]], return_tensors="pt")["attention_mask"]
    tensor([[1, 1, 1, 1, 1]])
    >>> tokenizer.batch_decode([[1, 3, 8, 4, 2, 0], [1, 3, 8, 7, 4, 2]])
    [[['4280']], [['4280', '0389']]]
    >>> tokenizer.pad([{"input_ids": [1, 2]}, {"input_ids": [1]}]).input_ids
    [[1, 2], [1, 0]]
    >>> tokenizer.convert_tokens_to_ids(["4280", "<mask>"])
    [8, 6]
    """

    pad_id: int
    bos_id: int
    eos_id: int
    unk_id: int | None = None
    mask_id: int | None = None

    padding_side = "right"
    model_input_names = ("input_ids", "attention_mask")

    _tokens: tuple[str, ...]  # each token at the place of its id
    _kind: str  # of the file
    _remake: str  # how a file is made again

    # ------------------------------------------------------------------ batches

    def __call__(
        self,
        given: Any,
        *,
        padding: bool | Literal["longest", "max_length", "do_not_pad"] = False,
        return_tensors: str | None = None,
        **options: int | None,
    ) -> BatchEncoding:
        """Encode one patient or note, or a list of them, to input_ids and attention_mask.

        Args:
            given: a patient (a PatientRecord or a list of visits), a text, or a list of either.
            padding: see ``pad``, as for the options max_length and pad_to_multiple_of.
            return_tensors: "pt" for tensors of shape (batch, length), "np" for arrays; lists by
                default.
        """
        one = self._is_one(given)
        rows = [self._model_input(item) for item in ([given] if one else given)]
        batch = self.pad(
            {"input_ids": rows}, padding=padding, return_tensors=return_tensors, **options
        )
        if one and return_tensors is None:
            batch.data = {name: rows[0] for name, rows in batch.data.items()}
        return batch

    def pad(
        self,
        encoded: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        padding: bool | Literal["longest", "max_length", "do_not_pad"] = True,
        max_length: int | None = None,
        pad_to_multiple_of: int | None = None,
        return_tensors: str | None = None,
    ) -> BatchEncoding:
        """Pad encoded rows on the right, as the data collators of transformers ask for it.

        Args:
            encoded: input_ids and perhaps attention_mask, as a dictionary of lists of rows or a
                list of dictionaries. Other entries are passed on unchanged.
            padding: to the longest row, to max_length or not at all.
            max_length: the length for ``padding="max_length"``.
            pad_to_multiple_of: round the length up to a multiple of this.
            return_tensors: see ``__call__``.
        """
        from transformers import BatchEncoding

        if not isinstance(encoded, Mapping):
            encoded = {name: [row[name] for row in encoded] for name in encoded[0]}
        ids = [_listed(row) for row in encoded["input_ids"]]
        masks = [_listed(row) for row in encoded.get("attention_mask", ())]
        masks = masks or [[1] * len(row) for row in ids]
        if padding in (False, "do_not_pad"):
            widths = [len(row) for row in ids]
        else:
            longest = max(map(len, ids))
            width = max_length if padding == "max_length" and max_length else longest
            multiple = pad_to_multiple_of or 1
            widths = [-(-max(width, longest) // multiple) * multiple] * len(ids)
        padded = {
            "input_ids": _filled(ids, widths, self.pad_id),
            "attention_mask": _filled(masks, widths, 0),
        }
        return BatchEncoding({**encoded, **padded}, tensor_type=return_tensors)

    def batch_decode(
        self, sequences: Any, oov: Sequence[Sequence[str]] | None = None
    ) -> list[Any]:
        """Decode several sequences of ids; see ``decode``.

        Args:
            sequences: lists of ids, or an array or tensor of shape (batch, length).
            oov: the words of each note, for extended ids.
        """
        if oov is None:
            return [self.decode(ids) for ids in sequences]
        return [self.decode(ids, words) for ids, words in zip(sequences, oov, strict=True)]

    # ------------------------------------------------------------------ tokens

    def __len__(self) -> int:
        """The number of tokens, special ones included."""
        return len(self._tokens)

    # What transformers calls them.
    vocab_size = property(__len__)
    pad_token_id = property(lambda self: self.pad_id)
    bos_token_id = property(lambda self: self.bos_id)
    eos_token_id = property(lambda self: self.eos_id)
    unk_token_id = property(lambda self: self.unk_id)
    mask_token_id = property(lambda self: self.mask_id)

    def get_vocab(self) -> dict[str, int]:
        """The id of each token."""
        return dict(self._ids_by_token)

    def piece(self, token_id: int, oov: Sequence[str] = ()) -> str:
        """One token as text, or the word in `oov` that an extended id stands for."""
        [number] = self._checked_ids([token_id], oov)
        return self._tokens[number] if number < len(self) else oov[number - len(self)]

    def convert_ids_to_tokens(self, ids: Any) -> Any:
        """The token of an id, or the tokens of a sequence of ids."""
        if isinstance(ids, int):
            return self.piece(ids)
        return [self._tokens[token_id] for token_id in self._checked_ids(ids)]

    def convert_tokens_to_ids(self, tokens: str | Sequence[str]) -> Any:
        """The id of a token, or the ids of several; ``unk_id`` outside the vocabulary."""
        if isinstance(tokens, str):
            return self._ids_by_token.get(tokens, self.unk_id)
        return list(map(self.convert_tokens_to_ids, tokens))

    @cached_property
    def _ids_by_token(self) -> dict[str, int]:
        return {token: i for i, token in enumerate(self._tokens)}

    def _checked_ids(self, ids: Any, oov: Sequence[str] = ()) -> list[int]:
        """Ids as integers, each in the vocabulary or that of a word in `oov`."""
        most = len(self) + len(oov) - 1
        listed = _listed(ids)
        if not isinstance(listed, list):
            problem = f"{ids!r} is one id" if isinstance(listed, int) else "they are not a list"
            raise InputError("ids", "", problem, "Give a list of ids.")
        checked = []
        for place, token_id in enumerate(listed):
            try:
                number = -1 if isinstance(token_id, bool) else operator.index(token_id)
            except (TypeError, ValueError):
                number = -1
            if not 0 <= number <= most:
                raise InputError(
                    "ids",
                    f"place {place}",
                    f"{token_id!r} is not the id of a token: they run from 0 to {most}",
                    f"Was this encoded by another tokenizer{', or for another note' * bool(oov)}? "
                    "Use batch_decode for rows of ids; labels of -100 are not ids.",
                )
            checked.append(number)
        return checked

    # ------------------------------------------------------------------ files

    def save(self, path: str | Path) -> None:
        """Write the tokenizer to one JSON file, whole or not at all."""
        checked_json.write(path, kind=self._kind, content=self._content())

    @classmethod
    def load(cls, path: str | Path, **options: Any) -> Self:
        """Read a tokenizer that ``save`` wrote; a CodeTokenizer takes the option ``unseen``."""
        content = checked_json.read(path, kind=cls._kind, remake=cls._remake)
        return cls._from_content(content, path, **options)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write ``tokenizer.json`` into a folder, as transformers does."""
        self.save(Path(folder) / FILE)

    @classmethod
    def from_pretrained(cls, folder: str | Path, **options: Any) -> Self:
        """Read ``tokenizer.json`` from a folder; see ``load``."""
        return cls.load(Path(folder) / FILE, **options)

    # ------------------------------------------------------------------ as an object

    @property
    def fingerprint(self) -> str:
        """A short text that identifies the vocabulary; a model keeps it."""
        return hashlib.sha256(self._fingerprinted()).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        """Whether both are of the same kind and have the same vocabulary."""
        if type(other) is not type(self):
            return NotImplemented
        return self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    # ------------------------------------------------------------------ what each kind says

    def decode(self, *args: Any, **kwargs: Any) -> Any:
        """The patient or text of a sequence of ids, without special tokens."""
        raise NotImplementedError

    def encode_note(self, text: str) -> EncodedNote:
        """A note between ``<s>`` and ``</s>``, and its words outside the vocabulary."""
        raise NotImplementedError

    def _is_one(self, given: Any) -> bool:
        """Whether this is one patient or note, rather than a list of them."""
        return isinstance(given, str)

    def _model_input(self, one: Any) -> list[int]:
        """One patient or note as a model reads it, special tokens included."""
        return self.encode_note(one).ids

    def _fingerprinted(self) -> bytes:
        return " ".join(self._tokens).encode("utf-8")

    def _content(self) -> dict[str, Any]:
        """What the file of this tokenizer holds."""
        raise NotImplementedError

    @classmethod
    def _from_content(cls, content: dict[str, Any], path: str | Path, **options: Any) -> Self:
        raise NotImplementedError


def _listed(ids: Any) -> Any:
    """The ids as a list; what is not one, such as a single id, is returned as it is."""
    # NumPy arrays and torch tensors both have tolist, so torch need not be imported here.
    if hasattr(ids, "tolist"):
        return ids.tolist()
    return list(ids) if isinstance(ids, Iterable) and not isinstance(ids, str) else ids


def check_special_tokens(
    content: Mapping[str, Any], expected: Sequence[str], path: str | Path
) -> None:
    """Refuse the file of a tokenizer with other special tokens: its ids mean other tokens."""
    found = content.get("special_tokens")
    if found != list(expected):
        problem = f"they are {found}, not {list(expected)}: its ids mean other tokens"
        raise InputError(path, "special_tokens", problem, "Make the tokenizer again.")


def _filled(rows: list[list[int]], widths: list[int], value: int) -> list[list[int]]:
    return [row + [value] * (width - len(row)) for row, width in zip(rows, widths, strict=True)]
