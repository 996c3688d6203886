"""Notes as SentencePiece pieces: the unigram language model of Kudo (2018).

See "Subword Regularization", https://arxiv.org/abs/1804.10959.
"""

from __future__ import annotations

import base64
import binascii
import io
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import sentencepiece

from ehr_course.errors import InputError
from ehr_course.tokenizers.base import EncodedNote, Tokenizer
from ehr_course.tokenizers.words import checked_texts

_REMEDY = "Make one with NoteTokenizer.train."
_SPACE = "▁"
_UNKNOWN_DECODED = " \u2047 "  # SentencePiece's sign, which never occurs in text after NFKC


class NoteTokenizer(Tokenizer):
    """Cuts text into pieces with a trained SentencePiece unigram model; see :meth:`train`.

    Ids 0 to 3 are ``<unk>``, ``<s>``, ``</s>`` and ``<pad>``. Text is normalised first (NFKC,
    single spaces), and characters that training left out become ``<unk>``. Pieces can spell any
    word, so ``oov`` is always empty.

    Args:
        model: the bytes of a SentencePiece ``.model`` file.
    """

    unk_id, bos_id, eos_id, pad_id = range(4)

    _kind = "note tokenizer"
    _remake = "NoteTokenizer.train and save"

    def __init__(self, model: bytes) -> None:
        try:
            self._processor = processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError:
            problem = "this is not a SentencePiece model"
            raise InputError("NoteTokenizer", "", problem, _REMEDY) from None
        found = (processor.unk_id(), processor.bos_id(), processor.eos_id(), processor.pad_id())
        if found != (0, 1, 2, 3):
            problem = f"unk, bos, eos and pad have the ids {found}, not (0, 1, 2, 3)"
            raise InputError("NoteTokenizer", "", problem, _REMEDY)
        self._model = bytes(model)

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        vocab_size: int = 16_000,
        character_coverage: float = 0.9995,
        split_by_number: bool = True,
    ) -> Self:
        """Learn the pieces of the training split's texts, the same for the same texts.

        Args:
            texts: notes of any length; each line is a sentence to SentencePiece.
            vocab_size: the number of pieces, the four special ones included.
            character_coverage: the share of characters, 0.98 to 1, that pieces must cover; the
                rarest beyond it become ``<unk>``.
            split_by_number: whether a piece ends where letters and digits meet. With False, the
                code V27.0 can become one piece.

        >>> notes = ["no fever, no cough", "fever and cough", "cough for two days"]
        >>> NoteTokenizer.train(notes, vocab_size=24).pieces("fever cough")
        ['▁fever', '▁cough']
        """
        checked = checked_texts(texts, "NoteTokenizer.train")
        lines = [line for text in checked for line in text.splitlines()]
        if not any(line.strip() for line in lines):
            raise InputError(
                "NoteTokenizer.train", "texts", "there is no text in them", "Give some notes."
            )
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=model,
                model_type="unigram",
                vocab_size=vocab_size,
                character_coverage=character_coverage,
                split_by_number=split_by_number,
                unk_id=cls.unk_id,
                bos_id=cls.bos_id,
                eos_id=cls.eos_id,
                pad_id=cls.pad_id,
                # SentencePiece silently leaves out longer sentences, by default above 4,192 bytes.
                max_sentence_length=2**30,
                # Several threads would add up floating-point counts in any order.
                num_threads=1,
                minloglevel=2,
            )
        except RuntimeError as error:
            bound = re.search(r"(?:required_chars\. \d+ vs|value <=) (\d+)", str(error))
            if bound is None:
                raise
            sign = "<=" if "too high" in str(error) else ">="
            problem = f"these texts need vocab_size {sign} {bound[1]}, and it is {vocab_size}"
            remedy = f"Use vocab_size={bound[1]} (--vocabulary {bound[1]}), or give other texts."
            raise InputError("NoteTokenizer.train", "", problem, remedy) from error
        return cls(model.getvalue())

    def __repr__(self) -> str:
        return f"NoteTokenizer({len(self):,} pieces)"

    @cached_property
    def _tokens(self) -> tuple[str, ...]:  # type: ignore[override]
        processor = self._processor
        return tuple(processor.id_to_piece(i) for i in range(processor.get_piece_size()))

    def encode(self, text: str, *, add_bos: bool = False, add_eos: bool = False) -> list[int]:
        """The ids of the most probable pieces of a text."""
        return self._processor.encode(text, out_type=int, add_bos=add_bos, add_eos=add_eos)

    def encode_note(self, text: str) -> EncodedNote:
        """A note between ``<s>`` and ``</s>``.

        >>> tokenizer = NoteTokenizer.train(["no fever", "fever and cough"], vocab_size=18)
        >>> tokenizer.decode(tokenizer.encode_note("fever, no cough").ids)
        'fever<unk> no cough'
        """
        ids = self.encode(text)
        # SentencePiece puts a space in front, which alone is not text.
        if not any(i != self.unk_id and self._tokens[i] != _SPACE for i in ids):
            problem = "the text has no piece that is known"
            remedy = "Leave out the notes that are empty or in another script."
            raise InputError("NoteTokenizer.encode_note", "", problem, remedy)
        return EncodedNote([self.bos_id, *ids, self.eos_id], ())

    def encode_summary(self, text: str, oov: Sequence[str] = ()) -> list[int]:
        """A summary between ``<s>`` and ``</s>``."""
        return self.encode(text, add_bos=True, add_eos=True)

    def decode(self, ids: Any, oov: Sequence[str] = ()) -> str:
        """The text of ids, with ``<unk>`` but no other special token.

        Args:
            ids: a list, a NumPy array or a torch tensor of shape (length,).
            oov: not used: it is always empty.
        """
        text = self._processor.decode(self._checked_ids(ids))
        return text.replace(_UNKNOWN_DECODED, "<unk>")

    def pieces(self, text: str) -> list[str]:
        """The most probable pieces of a text, as text, unknown ones too; ``▁`` is a space."""
        return self._processor.encode(text, out_type=str)

    def normalize(self, text: str) -> str:
        """The normalised text, with ``▁`` for each space and in front."""
        return self._processor.normalize(text)

    def scores(self) -> dict[str, float]:
        """The natural log-probability of every piece except the special ones.

        The best segmentation of a text has the largest sum of them.
        """
        processor = self._processor
        return {
            piece: processor.get_score(i)
            for i, piece in enumerate(self._tokens)
            if not (processor.is_control(i) or processor.is_unknown(i))
        }

    def __reduce__(self) -> tuple:
        return type(self), (self._model,)

    def _fingerprinted(self) -> bytes:
        return self._model

    def _content(self) -> dict[str, Any]:
        return {
            "pieces": len(self),
            "sentencepiece_model_base64": base64.b64encode(self._model).decode("ascii"),
        }

    @classmethod
    def _from_content(cls, content: dict[str, Any], path: str | Path, **options: Any) -> Self:
        try:
            model = base64.b64decode(content["sentencepiece_model_base64"], validate=True)
        except (KeyError, TypeError, binascii.Error):
            raise InputError(path, "", "it holds no SentencePiece model", _REMEDY) from None
        return cls(model, **options)
