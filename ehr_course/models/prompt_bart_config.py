"""The sizes and options of PromptBart, and its four profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from huggingface_hub.dataclasses import strict
from transformers import BartConfig

from ehr_course.errors import InputError
from ehr_course.models.conditional_prompt import (
    AGE_SCALE,
    D_PROMPT,
    FourierPrompt,
    NumericalPrompt,
)
from ehr_course.models.demographic_heads import AGE_HEADS
from ehr_course.tokenizers.codes import CodeTokenizer

AGE_ENCODERS = {"affine": NumericalPrompt, "fourier": FourierPrompt}

PROFILES: dict[str, dict[str, Any]] = {
    # BART's own init_std of 0.02 is too small for models so narrow: their decoder never learns to
    # read the encoder, and the loss falls all the same.
    "narrow": {"d_model": 64, "layers": 1, "heads": 4, "ffn": 128, "positions": 256, "std": 0.08},
    "tiny": {"d_model": 96, "layers": 2, "heads": 4, "ffn": 192, "positions": 256, "std": 0.08},
    "small": {"d_model": 256, "layers": 4, "heads": 8, "ffn": 1024, "positions": 512, "std": 0.04},
    "full": {"d_model": 768, "layers": 6, "heads": 12, "ffn": 3072, "positions": 512, "std": 0.02},
}
"""Four sizes: some seconds, some minutes, a laptop's evening, and the sources' configuration."""

HISTORY: dict[str, Any] = {
    "copy_head": True,
    "max_visit_embeddings": 32,
    "age_encoder": "fourier",
    "end_bias": True,
}
"""What lets a model of any size know a patient's own past, and tell a newborn from a child of one:
each was kept because the patients of models that have it come nearer to real ones."""


@strict
class PromptBartConfig(BartConfig):
    """A BartConfig with prompts, and with the special tokens of CodeTokenizer.

    Attributes:
        num_scales: one number for each numerical feature, by which it is divided; [90.0] is one
            feature, age, scaled to 0..1. [1.0] takes the age as it is, [] takes none.
        cat_cardinalities: how many categories each categorical feature has; [2] is sex.
        d_prompt: the width between a feature and the model.
        prompt_combination: "concat", one prompt a feature, or "sum", one prompt in all.
        age_encoder: "affine" (NumericalPrompt) or "fourier" (FourierPrompt).
        prompt_encoder, prompt_decoder: whether that side reads prompts. With neither, the model
            is plain BART and leaves x_num and x_cat unread.
        demographics: "required", or "optional": then a batch without any gives plain BART.
        age_weight, sex_weight: how much the losses of the heads count beside the language model's.
            A head of weight 0 is not made.
        age_head: "brackets", a guess at each token, or "years", one at the last token.
        head_reads: "states", what the decoder makes of codes and prompts, or "codes", running
            means of token embeddings, which have not seen a prompt.
        d_head: the width inside a head; 0 makes it linear.
        copy_head: whether the decoder can also point to a code of an earlier visit and write it
            again; what is written is then a mixture, and ``logits`` are its logarithms.
        max_visit_embeddings: how many visits have an embedding of their own, counted from what
            stands before the first one; it is added to the visit's tokens on both sides, as in
            BEHRT (Li et al. 2020, https://doi.org/10.1038/s41598-020-62922-y). Later visits
            share the last. 0 has none.
        end_bias: whether a few numbers, fitted after the training, set how often visits and
            records end: see EndBias.
        label_smoothing: of the language model's loss while it trains, 0 to 1.
        vocabulary: the fingerprint of the tokenizer's codes, so that a model is never used with
            another vocabulary of the same size; None when unknown.
    """

    model_type = "prompt_bart"

    if TYPE_CHECKING:  # BartConfig says that each of these may be None, and no BART can be made so
        encoder_layers: int = 12
        encoder_attention_heads: int = 16
        decoder_layers: int = 12
        decoder_attention_heads: int = 16
        d_model: int = 1024
        dropout: float | int = 0.1

    num_scales: list[float] | None = None
    cat_cardinalities: list[int] | None = None
    d_prompt: int = D_PROMPT
    prompt_combination: str = "concat"
    age_encoder: str = "affine"
    prompt_encoder: bool = True
    prompt_decoder: bool = True
    demographics: str = "required"
    age_weight: float = 0.0
    sex_weight: float = 0.0
    age_head: str = "brackets"
    head_reads: str = "states"
    d_head: int = 256
    copy_head: bool = False
    max_visit_embeddings: int = 0
    end_bias: bool = False
    label_smoothing: float = 0.0
    vocabulary: str | None = None
    pad_token_id: int = CodeTokenizer.pad_id
    bos_token_id: int | None = CodeTokenizer.bos_id
    eos_token_id: int | list[int] | None = CodeTokenizer.eos_id
    decoder_start_token_id: int | None = CodeTokenizer.eos_id
    # BART's default would write an end onto records that were cut off at the longest length.
    forced_eos_token_id: int | list[int] | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        if self.num_scales is None:
            self.num_scales = [AGE_SCALE]
        if self.cat_cardinalities is None:
            self.cat_cardinalities = [2]
        for name, known in (
            ("prompt_combination", ("concat", "sum")),
            ("age_encoder", tuple(AGE_ENCODERS)),
            ("demographics", ("required", "optional")),
            ("age_head", tuple(AGE_HEADS)),
            ("head_reads", ("states", "codes")),
        ):
            if getattr(self, name) not in known:
                raise InputError(
                    "PromptBartConfig",
                    name,
                    f"{getattr(self, name)!r} is none",
                    f"Use one of {', '.join(map(repr, known))}.",
                )
        for name, fits, remedy in (
            ("age_weight", self.age_weight >= 0, "Use 0 or more; 0 makes no head."),
            ("sex_weight", self.sex_weight >= 0, "Use 0 or more; 0 makes no head."),
            ("d_head", self.d_head >= 0, "Use 0 for a linear head, or its width."),
            ("max_visit_embeddings", self.max_visit_embeddings >= 0, "Use 0 for none, or 32."),
            ("label_smoothing", 0 <= self.label_smoothing < 1, "Use 0 or more, below 1."),
        ):
            if not fits:
                raise InputError(
                    "PromptBartConfig", name, f"{getattr(self, name)!r} is out of range", remedy
                )
        super().__post_init__(**kwargs)

    @classmethod
    def for_tokenizer(
        cls, tokenizer: CodeTokenizer, profile: str = "tiny", **changes: Any
    ) -> Self:
        """The configuration of a size for a vocabulary.

        Args:
            tokenizer: its length is the size of the vocabulary.
            profile: "narrow", "tiny", "small" or "full".
            changes: any field of the configuration, in place of the profile's.

        >>> config = PromptBartConfig.for_tokenizer(CodeTokenizer(["4280", "0389"]))
        >>> config.vocab_size, config.d_model, config.init_std
        (9, 96, 0.08)
        """
        if profile not in PROFILES:
            raise InputError(
                "PromptBartConfig",
                "profile",
                f"{profile!r} is none",
                f"Use one of {', '.join(map(repr, PROFILES))}.",
            )
        size = PROFILES[profile]
        fields: dict[str, Any] = {
            "vocab_size": len(tokenizer),
            "vocabulary": tokenizer.fingerprint,
            "d_model": size["d_model"],
            "max_position_embeddings": size["positions"],
            "init_std": size["std"],
            "d_head": max(32, size["d_model"] // 3),  # 256, as in the sources, at their size
        }
        for side in ("encoder", "decoder"):
            fields[f"{side}_layers"] = size["layers"]
            fields[f"{side}_attention_heads"] = size["heads"]
            fields[f"{side}_ffn_dim"] = size["ffn"]
        return cls(**(fields | changes))

    @property
    def n_prompts(self) -> int:
        """How many prompts stand before a sequence on each side that reads them."""
        features = len(self.num_scales or ()) + len(self.cat_cardinalities or ())
        return min(features, 1) if self.prompt_combination == "sum" else features
