"""Notes as SentencePiece pieces: the unigram language model of Kudo (2018).

A note is text that nobody coded: its vocabulary has no end, so it is cut into pieces that a
training text makes likely. See Kudo, "Subword Regularization", https://arxiv.org/abs/1804.10959.
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
_UNKNOWN_DECODED = " \u2047 "  # SentencePiece's own sign; NFKC leaves none of it in any text


class NoteTokenizer(Tokenizer):
    """Cuts text into pieces with a trained SentencePiece unigram model.

    Ids 0 to 3 are ``<unk>``, ``<s>`` (beginning), ``</s>`` (end) and ``<pad>``. SentencePiece
    normalises text first (Unicode NFKC, every run of white space is one space), so ``decode``
    gives back the normalised text. Characters that training left out become ``<unk>``.

    Pieces can spell any word, so no word is outside the vocabulary: ``oov`` is always empty. It is
    there because a model reads the notes of a WordTokenizer in the same way.

    Make one with :meth:`train` or :meth:`load`.

    Args:
        model: a serialised SentencePiece model, as SentencePiece writes it to a ``.model`` file.
    """

    unk_id, bos_id, eos_id, pad_id = range(4)

    _kind = "note tokenizer"
    _remake = "NoteTokenizer.train and save"
    _other_origin = "by another tokenizer, or for another note"
    _noun = "piece"

    def __init__(self, model: bytes) -> None:
        try:
            self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        except RuntimeError:
            raise InputError(
                "NoteTokenizer", "", "this is not a SentencePiece model", _REMEDY
            ) from None
        self._model = bytes(model)
        processor = self._processor
        found = (processor.unk_id(), processor.bos_id(), processor.eos_id(), processor.pad_id())
        if found != (0, 1, 2, 3):
            raise InputError(
                "NoteTokenizer",
                "",
                f"unk, bos, eos and pad have the ids {found}, not (0, 1, 2, 3)",
                _REMEDY,
            )

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        vocab_size: int = 16_000,
        character_coverage: float = 0.9995,
        split_by_number: bool = True,
    ) -> Self:
        """Learn the pieces of these texts, in memory and without a word on the terminal.

        Give the training split alone: pieces learned from a test note know the test. The same
        texts in the same order give the same model, to the byte; nothing in it is random.

        Args:
            texts: notes of any length; each line of them is one sentence for SentencePiece.
            vocab_size: the number of pieces, the four special ones included.
            character_coverage: the share of all characters, 0.98 to 1, that pieces must cover; the
                rarest beyond it become ``<unk>``.
            split_by_number: whether a piece ends where letters and digits meet, as usual in
                SentencePiece. With False, the code V27.0 can become one piece.

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
                # SentencePiece leaves out longer sentences, in silence: 4,192 bytes by default.
                max_sentence_length=2**30,
                # Threads add up floating-point counts in the order in which they finish.
                num_threads=1,
                minloglevel=2,
            )
        except RuntimeError as error:
            raise _explained(error, vocab_size) from error
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
        # SentencePiece puts a space in front: that alone is a piece, and no text.
        if not any(i != self.unk_id and self._tokens[i] != _SPACE for i in ids):
            raise InputError(
                "NoteTokenizer.encode_note",
                "",
                "the text has no piece that is known",
                "Leave out the notes that are empty or in another script.",
            )
        return EncodedNote([self.bos_id, *ids, self.eos_id], ())

    def encode_summary(self, text: str, oov: Sequence[str] = ()) -> list[int]:
        """A summary between ``<s>`` and ``</s>``."""
        return self.encode(text, add_bos=True, add_eos=True)

    def decode(self, ids: Any, oov: Sequence[str] = ()) -> str:
        """The text that ids stand for; ``<s>``, ``</s>`` and ``<pad>`` stand for nothing.

        ``<unk>`` is shown as that.

        Args:
            ids: a list, a NumPy array or a torch tensor of shape (length,).
            oov: of the note, which is empty.
        """
        text = self._processor.decode(self._checked_ids(ids))
        return text.replace(_UNKNOWN_DECODED, "<unk>")

    def piece(self, token_id: int, oov: Sequence[str] = ()) -> str:
        """One token as text, ``▁`` for a space, the special ones as ``<s>`` and the like."""
        return self._tokens[self._checked(token_id, "")]

    def pieces(self, text: str) -> list[str]:
        """The most probable pieces of a text, as text; ``▁`` stands for a space.

        Their ids are what ``encode`` gives, except that a piece that is not in the vocabulary
        is shown as it stands in the text, where ``encode`` gives ``unk_id``.
        """
        return self._processor.encode(text, out_type=str)

    def normalize(self, text: str) -> str:
        """The text as the model cuts it: normalised, with ``▁`` for each space and in front."""
        return self._processor.normalize(text)

    def scores(self) -> dict[str, float]:
        """The log-probability (natural logarithm) of every piece that text can be cut into.

        The four special pieces are left out: they stand for no text. The best segmentation of a
        text is the one whose pieces have the largest sum of these.
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


def _explained(error: RuntimeError, vocab_size: int) -> Exception:
    """SentencePiece's complaint about the vocabulary size in the words of the course."""
    message = str(error)
    if most := re.search(r"Vocabulary size too high .* value <= (\d+)", message):
        return InputError(
            "NoteTokenizer.train",
            "vocab_size",
            f"{vocab_size:,} pieces are more than these texts have: "
            f"they allow {int(most[1]):,} at most",
            f"Use vocab_size={most[1]} or less, or give more text.",
        )
    if least := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return InputError(
            "NoteTokenizer.train",
            "vocab_size",
            f"{vocab_size:,} pieces are too few: "
            f"the characters of these texts and the four special pieces need {int(least[1]):,}",
            f"Use vocab_size={least[1]} or more, or a smaller character_coverage.",
        )
    return error
