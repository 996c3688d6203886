"""The sizes and options of the pointer-generator, and its three profiles."""

from __future__ import annotations

from typing import Any, Protocol, Self

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from ehr_course.errors import InputError

N_SPECIAL = 4
"""Ids 0 to 3 are <unk>, <s>, </s> and <pad>: no words, so nothing to look at and copy."""

PROFILES: dict[str, dict[str, Any]] = {
    "tiny": {"d_embedding": 32, "d_hidden": 64, "layers": 1, "dropout": 0.0},
    "small": {"d_embedding": 64, "d_hidden": 128, "layers": 1, "dropout": 0.1},
    "full": {"d_embedding": 128, "d_hidden": 256, "layers": 2, "dropout": 0.3},
}
"""Three sizes: seconds, minutes, and the configuration of the summariser's source note."""


class AnyTokenizer(Protocol):
    """What the model has to know of a tokenizer: how many ids it has."""

    def __len__(self) -> int:
        """The number of tokens, the special ones included."""


@strict
class PointerGeneratorConfig(PreTrainedConfig):
    """The sizes and options of a pointer-generator.

    Attributes:
        vocab_size: how many tokens the model can write of its own, the 4 special ones included.
        d_embedding: the width of a token's embedding.
        d_hidden: the width of the decoder's LSTM, and of each direction of the encoder's.
        layers: of both LSTMs.
        dropout: between the layers of an LSTM, while training; 0 to below 1.
        max_source, max_target: the longest note and summary, in tokens, that data is prepared
            for. The model itself has no limit.
        chunk_length: the encoder reads the note whole (None), or in chunks of so many tokens that
            know nothing of each other. Both have the same parameters.
        pointer: whether the model can copy. Without it p_gen is 1.
        coverage: whether attention knows where it has been: it then has d_hidden parameters more.
        coverage_weight: of the coverage loss beside the log-likelihood, 0 or more.
        decoder_loop: "plain", the loop that can be read; "fast", the same with its own backward
            pass; "auto", fast wherever it can be.
        vocabulary: the fingerprint of the tokenizer, or None when unknown.

    >>> PointerGeneratorConfig(vocab_size=16_000).d_hidden
    256
    """

    model_type = "pointer_generator"

    vocab_size: int = 16_000
    d_embedding: int = 128
    d_hidden: int = 256
    layers: int = 2
    dropout: float = 0.3
    max_source: int = 768
    max_target: int = 192
    chunk_length: int | None = None
    pointer: bool = True
    coverage: bool = False
    coverage_weight: float = 1.0
    decoder_loop: str = "auto"
    vocabulary: str | None = None
    unk_token_id: int = 0
    bos_token_id: int | None = 1
    eos_token_id: int | list[int] | None = 2
    pad_token_id: int | None = 3
    is_encoder_decoder: bool = True

    def __post_init__(self, **kwargs: Any) -> None:
        for name, fits, remedy in (
            ("vocab_size", self.vocab_size > N_SPECIAL, f"Use more than {N_SPECIAL}."),
            ("d_embedding", self.d_embedding >= 1, "Use 1 or more."),
            ("d_hidden", self.d_hidden >= 1, "Use 1 or more."),
            ("layers", self.layers >= 1, "Use 1 or more."),
            ("dropout", 0 <= self.dropout < 1, "Use 0 or more, below 1."),
            ("max_source", self.max_source >= 3, "Use 3 or more: <s>, a word and </s>."),
            ("max_target", self.max_target >= 2, "Use 2 or more: a word and </s>."),
            (
                "chunk_length",
                self.chunk_length is None or self.chunk_length >= 1,
                "Use 1 or more, or None to read a note whole.",
            ),
            ("coverage_weight", self.coverage_weight >= 0, "Use 0 or more."),
            (
                "decoder_loop",
                self.decoder_loop in ("auto", "plain", "fast"),
                'Use "auto", "plain" or "fast".',
            ),
        ):
            if not fits:
                raise InputError(
                    "PointerGeneratorConfig",
                    name,
                    f"{getattr(self, name)!r} is out of range",
                    remedy,
                )
        super().__post_init__(**kwargs)

    @classmethod
    def for_tokenizer(cls, tokenizer: AnyTokenizer, profile: str = "tiny", **changes: Any) -> Self:
        """The configuration of a size for a vocabulary.

        Args:
            tokenizer: a NoteTokenizer or a WordTokenizer; its length is the vocabulary's.
            profile: "tiny", "small" or "full".
            changes: any field of the configuration, in place of the profile's.
        """
        if profile not in PROFILES:
            raise InputError(
                "PointerGeneratorConfig",
                "profile",
                f"{profile!r} is none",
                f"Use one of {', '.join(map(repr, PROFILES))}.",
            )
        fields: dict[str, Any] = {
            "vocab_size": len(tokenizer),
            "vocabulary": getattr(tokenizer, "fingerprint", None),
        }
        return cls(**(fields | PROFILES[profile] | changes))
