"""PromptBart: a BART that reads a patient's age and sex before the first token, on both sides.

Prompts, then token embeddings, go through the unmodified encoder and decoder of BART (Lewis et al.
2020, https://arxiv.org/abs/1910.13461); the prompt positions are cut off before the vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self, cast

import torch
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from torch.nn.functional import pad
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    BartConfig,
    BartForConditionalGeneration,
    GenerationConfig,
)
from transformers import initialization as init
from transformers.cache_utils import Cache, DynamicLayer, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from ehr_course.errors import InputError
from ehr_course.losses import (
    NOT_SCORED,
    LossTerm,
    age_loss,
    classification_loss,
    language_model_loss,
    log_copy_probability,
    log_mixture,
    loss_counts,
    weighted_total,
)
from ehr_course.records import MAX_AGE
from ehr_course.tokenizers.codes import CodeTokenizer

# ------------------------------------------------------------------ configuration

AGE_SCALE = float(MAX_AGE)
"""Ages in years are divided by this before a prompt sees them."""

PROFILES: dict[str, dict[str, Any]] = {
    # BART's own init_std of 0.02 is too small for narrow models: the loss falls, but the decoder
    # never learns to read the encoder.
    "narrow": {"d_model": 64, "layers": 1, "heads": 4, "ffn": 128, "positions": 256, "std": 0.08},
    "tiny": {"d_model": 96, "layers": 2, "heads": 4, "ffn": 192, "positions": 256, "std": 0.08},
    "small": {"d_model": 256, "layers": 4, "heads": 8, "ffn": 1024, "positions": 512, "std": 0.04},
    "full": {"d_model": 768, "layers": 6, "heads": 12, "ffn": 3072, "positions": 512, "std": 0.02},
}
"""Four sizes: seconds, minutes, an evening on a laptop, and the sources' configuration."""

HISTORY: dict[str, Any] = {
    "copy_head": True,
    "max_visit_embeddings": 32,
    "age_encoder": "fourier",
    "end_bias": True,
}
"""Options, for any size, that show a model the patient's past and tell newborns from children of
one: each brings the patients that it writes nearer to real ones."""


@strict
class PromptBartConfig(BartConfig):
    r"""A BartConfig with prompts, and with the special tokens of CodeTokenizer.

    Attributes:
        num_scales: what each numerical feature is divided by: [90.0] is age alone, [] no number.
        cat_cardinalities: how many categories each categorical feature has; [2] is sex.
        d_prompt: the width between a feature and the model.
        prompt_combination: "concat", one prompt per feature, or "sum", one prompt in all.
        age_encoder: "affine" (NumericalPrompt) or "fourier" (FourierPrompt).
        prompt_encoder, prompt_decoder: whether that side reads prompts; with neither, plain BART.
        demographics: "required", or "optional": a batch without them is read by plain BART.
        age_weight, sex_weight: of the heads' losses beside the language model's; 0 makes no head.
        age_head: "brackets", a guess at each token, or "years", one at the last token.
        head_reads: "states" of the decoder, or "codes": see codes_read.
        d_head: the width inside a head; 0 makes it linear.
        copy_head: whether codes of earlier visits can be copied; ``logits`` are then
            log-probabilities.
        max_visit_embeddings: how many visits have an embedding, as in BEHRT (Li et al. 2020,
            https://doi.org/10.1038/s41598-020-62922-y), what stands before the first visit
            included; later visits share the last, and 0 has none.
        end_bias: whether ``calibrate`` can fit how often visits and records end: see EndBias.
        label_smoothing: of the language model's loss in training, from 0 to below 1.
        vocabulary: the fingerprint of the tokenizer's codes, or None when unknown.
        visit_start_token_id, visit_end_token_id: the ids of <v> and <\v>.
        first_code_id: ids from here on are codes.
    """

    model_type = "prompt_bart"
    keys_to_ignore_at_inference = [  # noqa: RUF012
        "past_key_values",
        "encoder_last_hidden_state",
        "loss_sum",
        "loss_count",
        "terms",
        "answers",
        "pointed",
    ]

    if TYPE_CHECKING:  # BartConfig allows None for each of these, but BART does not
        encoder_layers: int = 12
        encoder_attention_heads: int = 16
        decoder_layers: int = 12
        decoder_attention_heads: int = 16
        d_model: int = 1024
        dropout: float | int = 0.1

    num_scales: list[float] | None = None
    cat_cardinalities: list[int] | None = None
    d_prompt: int = 128
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
    eos_token_id: int = CodeTokenizer.eos_id
    decoder_start_token_id: int | None = CodeTokenizer.eos_id
    visit_start_token_id: int = CodeTokenizer.visit_start_id
    visit_end_token_id: int = CodeTokenizer.visit_end_id
    first_code_id: int = CodeTokenizer.first_code_id
    # BART's default would write an end onto records that were cut off at the longest length.
    forced_eos_token_id: int | list[int] | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        if self.num_scales is None:
            self.num_scales = [AGE_SCALE]
        if self.cat_cardinalities is None:
            self.cat_cardinalities = [2]
        for name, fits, allowed in (
            ("prompt_combination", self.prompt_combination in ("concat", "sum"), "concat or sum"),
            ("age_encoder", self.age_encoder in AGE_ENCODERS, "affine or fourier"),
            (
                "demographics",
                self.demographics in ("required", "optional"),
                "required or optional",
            ),
            ("age_head", self.age_head in AGE_HEADS, "brackets or years"),
            ("head_reads", self.head_reads in ("states", "codes"), "states or codes"),
            ("num_scales", min(self.num_scales, default=1) > 0, "numbers above 0"),
            ("age_weight", self.age_weight >= 0, "0 or more; 0 makes no head"),
            ("sex_weight", self.sex_weight >= 0, "0 or more; 0 makes no head"),
            ("d_head", self.d_head >= 0, "0 for a linear head, or its width"),
            ("max_visit_embeddings", self.max_visit_embeddings >= 0, "0 or more; 0 has none"),
            ("label_smoothing", 0 <= self.label_smoothing < 1, "0 or more, below 1"),
        ):
            if not fits:
                problem = f"it is {getattr(self, name)!r}"
                raise InputError("PromptBartConfig", name, problem, f"Use {allowed}.")
        super().__post_init__(**kwargs)

    @classmethod
    def for_tokenizer(
        cls, tokenizer: CodeTokenizer, profile: str = "tiny", **changes: Any
    ) -> Self:
        """The configuration of a size out of PROFILES for a vocabulary.

        >>> config = PromptBartConfig.for_tokenizer(CodeTokenizer(["4280", "0389"]))
        >>> config.vocab_size, config.d_model, config.init_std
        (9, 96, 0.08)
        """
        if profile not in PROFILES:
            known = ", ".join(map(repr, PROFILES))
            raise InputError(
                "PromptBartConfig", "profile", f"there is no {profile!r}", f"Use one of {known}."
            )
        size = PROFILES[profile]
        fields = _ids_of(tokenizer) | {
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

    @classmethod
    def get_config_dict(cls, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        r"""Read a folder's config.json; one of a plain BART gets ids for <v>, <\v> and codes."""
        fields, kwargs = super().get_config_dict(*args, **kwargs)
        if fields.get("model_type") == "bart":
            known = BartConfig().to_dict().keys() - {"model_type", "forced_eos_token_id"}
            fields = {name: value for name, value in fields.items() if name in known}
            marker = fields.get("vocab_size", BartConfig.vocab_size)
            fields |= {"visit_start_token_id": marker, "visit_end_token_id": marker + 1}
            fields |= {"first_code_id": marker + 2}
        return fields, kwargs

    @property
    def n_prompts(self) -> int:
        """How many prompts stand before a sequence on each side that reads them."""
        features = len(self.num_scales or ()) + len(self.cat_cardinalities or ())
        return min(features, 1) if self.prompt_combination == "sum" else features


def _ids_of(tokenizer: CodeTokenizer) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "vocabulary": tokenizer.fingerprint,
        "pad_token_id": tokenizer.pad_id,
        "bos_token_id": tokenizer.bos_id,
        "eos_token_id": tokenizer.eos_id,
        "decoder_start_token_id": tokenizer.eos_id,
        "visit_start_token_id": tokenizer.visit_start_id,
        "visit_end_token_id": tokenizer.visit_end_id,
        "first_code_id": tokenizer.first_code_id,
    }


# ------------------------------------------------------------------ prompts of age and sex


class NumericalPrompt(nn.Module):
    """One vector for each numerical feature: ``project(weight * value / scale + bias)``."""

    scales: Tensor

    def __init__(
        self,
        n_features: int,
        d_model: int,
        *,
        d_hidden: int = 128,
        scales: Sequence[float] = (AGE_SCALE,),
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_features, d_hidden))
        self.bias = nn.Parameter(torch.empty(n_features, d_hidden))
        self.project = nn.Linear(d_hidden, d_model, bias=False)
        self.register_buffer("scales", torch.empty(n_features))
        self._constants: dict[str, list] = {"scales": list(scales)}
        _initialize(self, nn.init)

    def forward(self, x_num: Tensor) -> Tensor:
        """Turn features (batch, n_features) into prompts (batch, n_features, d_model)."""
        _check_features("x_num", x_num, len(self.scales), math.inf)
        value = (x_num / self.scales)[..., None]  # (batch, n_features, 1)
        hidden = self.weight * value + self.bias  # (batch, n_features, d_hidden)
        return self.project(hidden)


class FourierPrompt(nn.Module):
    """One vector for each numerical feature, from its sines and cosines.

    Over the range of the scaled value, 0 to 1, the waves make half a turn, one turn, two turns and
    so on: the slow waves tell distant values apart, the fast ones values close together.
    """

    scales: Tensor
    turns: Tensor

    def __init__(
        self,
        n_features: int,
        d_model: int,
        *,
        d_hidden: int = 128,
        scales: Sequence[float] = (AGE_SCALE,),
        n_waves: int = 6,
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_features, 2 * n_waves, d_hidden))
        self.bias = nn.Parameter(torch.empty(n_features, d_hidden))
        self.project = nn.Linear(d_hidden, d_model, bias=False)
        self.register_buffer("scales", torch.empty(n_features))
        self.register_buffer("turns", torch.empty(n_waves))
        turns = [math.pi * 2.0**wave for wave in range(n_waves)]
        self._constants: dict[str, list] = {"scales": list(scales), "turns": turns}
        _initialize(self, nn.init)

    def forward(self, x_num: Tensor) -> Tensor:
        """Turn features (batch, n_features) into prompts (batch, n_features, d_model)."""
        _check_features("x_num", x_num, len(self.scales), math.inf)
        angle = (x_num / self.scales)[..., None] * self.turns  # (batch, n_features, n_waves)
        waves = torch.cat([angle.sin(), angle.cos()], dim=-1)  # (batch, n_features, 2 n_waves)
        hidden = torch.einsum("bfw,fwh->bfh", waves, self.weight) + self.bias
        return self.project(hidden)  # (batch, n_features, d_model)


class CategoricalPrompt(nn.Module):
    """One vector for each categorical feature; category c of feature f is row ``offsets[f] + c``.

    >>> CategoricalPrompt([2, 6, 3], 96).offsets
    tensor([0, 2, 8])
    """

    offsets: Tensor

    def __init__(self, cardinalities: Sequence[int], d_model: int, *, d_hidden: int = 128) -> None:
        super().__init__()
        self.cardinalities = tuple(cardinalities)  # of sex: 2
        self.table = nn.Embedding(sum(cardinalities), d_hidden)
        self.bias = nn.Parameter(torch.empty(len(cardinalities), d_hidden))
        self.project = nn.Linear(d_hidden, d_model, bias=False)
        self.register_buffer("offsets", torch.empty(len(cardinalities), dtype=torch.int64))
        self._constants: dict[str, list] = {"offsets": [0, *accumulate(cardinalities)][:-1]}
        _initialize(self, nn.init)

    def forward(self, x_cat: Tensor) -> Tensor:
        """Turn categories (batch, n_features) into prompts (batch, n_features, d_model)."""
        limits = torch.tensor(self.cardinalities, device=x_cat.device)
        _check_features("x_cat", x_cat, len(limits), limits)
        hidden = self.table(x_cat + self.offsets) + self.bias  # (batch, n_features, d_hidden)
        return self.project(hidden)


AGE_ENCODERS = {"affine": NumericalPrompt, "fourier": FourierPrompt}


class ConditionalPrompt(nn.Module):
    """The prompts of one side of the model: numerical features first, then categorical ones.

    The combination "concat" makes a prompt of each feature, "sum" one prompt in all.
    """

    def __init__(
        self,
        numerical: nn.Module | None,
        categorical: nn.Module | None,
        combination: str = "concat",
    ) -> None:
        super().__init__()
        self.numerical, self.categorical = numerical, categorical
        self.combination = combination

    def forward(self, x_num: Tensor | None, x_cat: Tensor | None) -> Tensor:
        """Turn demographics into prompts (batch, n_prompts, d_model).

        Args:
            x_num: float (batch, n_num), in the features' own units: age in years.
            x_cat: int64 (batch, n_cat), categories counted from 0.
        """
        prompts = []
        for part, features, name in (
            (self.numerical, x_num, "x_num"),
            (self.categorical, x_cat, "x_cat"),
        ):
            if part is None:
                continue
            if features is None:
                raise InputError(
                    "demographics",
                    name,
                    "the batch does not have it, and the model needs it",
                    "Batches of a RecordDataset have x_num (age in years) and x_cat (sex).",
                )
            prompts.append(part(features))
        together = torch.cat(prompts, dim=1)  # (batch, n_features, d_model)
        return together if self.combination == "concat" else together.sum(1, keepdim=True)


def _prompt(config: PromptBartConfig) -> ConditionalPrompt | None:
    numerical, categorical = None, None
    if config.num_scales:
        numerical = AGE_ENCODERS[config.age_encoder](
            len(config.num_scales),
            config.d_model,
            d_hidden=config.d_prompt,
            scales=config.num_scales,
        )
    if config.cat_cardinalities:
        categorical = CategoricalPrompt(
            config.cat_cardinalities, config.d_model, d_hidden=config.d_prompt
        )
    if numerical is None and categorical is None:
        return None
    return ConditionalPrompt(numerical, categorical, config.prompt_combination)


def _initialize(prompt: NumericalPrompt | FourierPrompt | CategoricalPrompt, init: Any) -> None:
    """Give a prompt first weights and constants; ``init`` of transformers spares loaded ones."""
    if not isinstance(prompt, CategoricalPrompt):
        init.xavier_uniform_(prompt.weight)
    init.xavier_uniform_(prompt.bias)
    with torch.no_grad():
        for name, values in prompt._constants.items():
            buffer = getattr(prompt, name)
            buffer.copy_(torch.tensor(values, dtype=buffer.dtype))


def _check_features(name: str, features: Tensor, n_features: int, limit: Tensor | float) -> None:
    """Check that features are (batch, n_features), from 0 to below a limit."""
    if features.ndim != 2 or features.shape[1] != n_features:
        raise InputError(
            name,
            "",
            f"its shape is {tuple(features.shape)}, not (batch, {n_features})",
            "Give one row for each patient and one column for each feature.",
        )
    if isinstance(limit, Tensor) and features.is_floating_point():  # categories look up rows
        raise InputError(name, "", f"it is {features.dtype}", "Give categories as int64.")
    wrong = ~((features >= 0) & (features < limit))  # NaN fails both
    if bool(wrong.any()):
        row, feature = wrong.nonzero()[0].tolist()
        raise InputError(
            name,
            f"row {row}, feature {feature}",
            f"{features[row, feature].item():g} is out of range",
            "Ages are finite numbers of years, 0 or more; categories are counted from 0, and the "
            "model's cat_cardinalities say how many there are.",
        )


# ------------------------------------------------------------------ heads that guess age and sex

AGE_BRACKETS = (18, 30, 50, 65, 80)
"""Bounds in years of the six brackets [0,18) [18,30) [30,50) [50,65) [65,80) [80,inf)."""


def age_bracket(ages: Tensor) -> Tensor:
    """The bracket, 0 to 5, of each age in years.

    >>> age_bracket(torch.tensor([0.0, 17.0, 18.0, 64.0, 65.0, 90.0]))
    tensor([0, 0, 1, 3, 4, 5])
    """
    bounds = torch.tensor(AGE_BRACKETS, dtype=ages.dtype, device=ages.device)
    return torch.bucketize(ages.contiguous(), bounds, right=True)


def last_real(states: Tensor, real: Tensor) -> Tensor:
    """The state (batch, d_model) of each row's last real token, whatever padding follows it.

    Args:
        states: float (batch, length, d_model).
        real: bool (batch, length), False for padding.
    """
    last = (torch.arange(real.shape[1], device=real.device) * real).argmax(dim=1)  # (batch,)
    return states[torch.arange(len(states), device=states.device), last]


def codes_read(embeddings: Tensor) -> Tensor:
    """At each position, the mean of the token embeddings so far: both (batch, length, d_model).

    A head that reads this has read the codes alone: the decoder's states have seen the prompts,
    where age and sex are written.
    """
    counts = torch.arange(1, embeddings.shape[1] + 1, device=embeddings.device)
    return embeddings.cumsum(dim=1) / counts[:, None]


class DemographicHead(nn.Module):
    """One question about the patient, asked of hidden states; linear if ``d_hidden`` is 0."""

    per: Literal["token", "row"] = "token"
    """What the loss counts: scored tokens or rows."""

    def __init__(
        self, d_model: int, n_answers: int, *, d_hidden: int = 256, dropout: float = 0.1
    ) -> None:
        super().__init__()
        self.layers: nn.Module = (
            nn.Sequential(
                nn.Linear(d_model, d_hidden),
                nn.ReLU(),
                nn.Dropout(dropout),
                nn.Linear(d_hidden, n_answers),
            )
            if d_hidden
            else nn.Linear(d_model, n_answers)
        )

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """Answer at each token: logits (batch, length, n_answers).

        Args:
            states: float (batch, length, d_model).
            real: bool (batch, length), False for padding.
        """
        return self.layers(states)

    def loss(self, answers: Tensor, scored: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
        """The sum of the losses of the answers, and how many there are.

        Args:
            answers: what forward returned.
            scored: bool (batch, length), the positions that count.
            truth: age in years, float (batch,), or the number of the sex, int64 (batch,).
        """
        of_token = truth[:, None].expand(scored.shape)  # (batch, length)
        return classification_loss(answers[scored], of_token[scored])


class TokenAge(DemographicHead):
    """The age bracket, at each token: six logits."""

    def __init__(self, d_model: int, **options: Any) -> None:
        super().__init__(d_model, len(AGE_BRACKETS) + 1, **options)

    def loss(self, answers: Tensor, scored: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
        """Cross-entropy in nats."""
        return super().loss(answers, scored, age_bracket(truth))


class TokenSex(DemographicHead):
    """The sex, at each token: two logits, 0 is M and 1 is F."""

    def __init__(self, d_model: int, **options: Any) -> None:
        super().__init__(d_model, 2, **options)


class SequenceAge(DemographicHead):
    """The age in years, from the last real token of each record."""

    per = "row"

    def __init__(self, d_model: int, **options: Any) -> None:
        super().__init__(d_model, 1, **options)

    def forward(self, states: Tensor, real: Tensor) -> Tensor:
        """Ages in units of 90 years, (batch,)."""
        return self.layers(last_real(states, real))[:, 0]

    def loss(self, answers: Tensor, scored: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
        """Squared errors in units of 90 years."""
        rows = scored.any(dim=1)
        return age_loss(answers[rows], truth[rows])


AGE_HEADS: dict[str, type[TokenAge] | type[SequenceAge]] = {
    "brackets": TokenAge,
    "years": SequenceAge,
}


def _heads(config: PromptBartConfig) -> nn.ModuleDict:
    made: dict[str, nn.Module] = {}
    if config.age_weight:
        kind = AGE_HEADS[config.age_head]
        made["age"] = kind(config.d_model, d_hidden=config.d_head, dropout=config.dropout)
    if config.sex_weight:
        made["sex"] = TokenSex(config.d_model, d_hidden=config.d_head, dropout=config.dropout)
    return nn.ModuleDict(made)


# ------------------------------------------------------------------ looking back at visits

INITIAL_GATE = 2.0
"""The logit of p_gen at first: the vocabulary's share is 0.88."""


class Pointed(NamedTuple):
    """Where the decoder points to, and how often it does.

    Attributes:
        log_attention: float (..., past), to the tokens so far; -inf but at codes of earlier
            visits.
        p_gen_logit: float (...), of the vocabulary's share; inf where nothing can be copied.
        ids: int64 (..., past), the tokens so far.
    """

    log_attention: Tensor
    p_gen_logit: Tensor
    ids: Tensor

    def log_probabilities(self, log_vocabulary: Tensor) -> Tensor:
        """log(p_gen P_vocab + (1 - p_gen) P_copy), from log P_vocab: both (..., vocabulary)."""
        if self.p_gen_logit.isposinf().all():  # nobody has anything to copy yet
            return log_vocabulary
        attention = self.log_attention.exp().to(log_vocabulary.dtype)
        copied = torch.zeros_like(log_vocabulary).scatter_add_(-1, self.ids, attention)
        # The gradient of log(0) would be nan.
        log_copied = copied.clamp_(min=torch.finfo(copied.dtype).tiny).log()
        return log_mixture(log_vocabulary, log_copied, self.p_gen_logit[..., None])

    def log_likelihood(self, log_vocabulary: Tensor, targets: Tensor) -> Tensor:
        """The same of one token at each of n positions, from its log P_vocab: all (n,)."""
        log_copied = log_copy_probability(self.log_attention, self.ids, targets)
        return log_mixture(log_vocabulary, log_copied, self.p_gen_logit)


class CopyHead(nn.Module):
    """Attention of each decoder state to the codes of earlier visits, and the gate p_gen.

    The pointer-generator of lesson 16 copies words of a note into its summary (See et al. 2017,
    https://arxiv.org/abs/1704.04368); here the note is the record so far, because chronic diseases
    are coded again at every visit. The key of a code is made of the state that was about to write
    it, which resembles states about to write it again, the state that had just read it, and its
    embedding.
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.query = nn.Linear(d_model, d_model)
        self.key_before = nn.Linear(d_model, d_model, bias=False)
        self.key_after = nn.Linear(d_model, d_model, bias=False)
        self.key_code = nn.Linear(d_model, d_model, bias=False)
        self.gate = nn.Linear(d_model, 1)

    def forward(
        self,
        hidden: Tensor,
        embeddings: Tensor,
        ids: Tensor,
        earlier: Tensor,
        cache: DynamicLayer | None = None,
    ) -> Pointed:
        """Point from each new token to the codes before its visit.

        Args:
            hidden: float (batch, target, d_model), the decoder's last states.
            embeddings: float (batch, target, d_model), of the tokens that it read.
            ids: int64 (batch, past), all tokens so far, ending with these.
            earlier: bool (batch, target, past), from ``codes_of_earlier_visits``.
            cache: the keys of the tokens before, to which those of the new ones are added.
        """
        before = self.key_before(hidden)
        previous = pad(before, (0, 0, 1, -1))  # each token's key needs the state before it
        if cache is not None and cache.get_seq_length():
            assert cache.values is not None
            previous[:, :1] = cache.values[:, 0, -1:]
        keys = previous + (self.key_after(hidden) + self.key_code(embeddings))
        if cache is not None:
            keys = cache.update(keys[:, None], before[:, None])[0][:, 0]  # (batch, past, d_model)
        scores = self.query(hidden) @ keys.mT / math.sqrt(hidden.shape[-1])
        some = earlier.any(dim=-1)
        # A row of minus infinities would have a nan gradient: it is replaced before and after.
        log_attention = (
            scores.masked_fill(~earlier, -torch.inf)
            .masked_fill(~some[..., None], 0.0)
            .log_softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32))
            .masked_fill(~earlier, -torch.inf)
        )
        gate = self.gate(hidden)[..., 0].to(log_attention.dtype) + INITIAL_GATE
        gate = gate.masked_fill(~some, torch.inf)
        return Pointed(log_attention, gate, ids[:, None].expand_as(log_attention))


def codes_of_earlier_visits(ids: Tensor, config: PromptBartConfig, new: int = 0) -> Tensor:
    """Which tokens each token may copy: bool (batch, target, past).

    Args:
        ids: int64 (batch, past), records or their beginnings.
        new: for how many of the last tokens to answer; 0 for all.
    """
    visit = (ids == config.visit_start_token_id).cumsum(dim=1)
    is_code = ids >= config.first_code_id
    return (visit[:, None, :] < visit[:, -new:, None]) & is_code[:, None, :]


VISIT_CODES, RECORD_VISITS = 6, 4
"""A visit with more codes than this, and a record with more visits, share the last number."""


def progress(ids: Tensor, config: PromptBartConfig) -> tuple[Tensor, Tensor]:
    """At each token, the number of visits begun and of codes in the latest: int64 (batch, length).

    Args:
        ids: int64 (batch, length), records or their beginnings.

    >>> ids = torch.tensor([[1, 3, 20, 21, 4, 3, 22]])
    >>> visits, codes = progress(ids, PromptBartConfig())
    >>> visits.tolist(), codes.tolist()
    ([[0, 1, 1, 1, 1, 2, 2]], [[0, 0, 1, 2, 2, 0, 1]])
    """
    starts = ids == config.visit_start_token_id
    codes = (ids >= config.first_code_id).cumsum(dim=1)
    before = codes.where(starts, 0).cummax(dim=1).values
    return starts.cumsum(dim=1), codes - before


class EndBias(nn.Module):
    r"""One number for <\v> and one for <EOS>, by how far a record has come; 0 until fitted.

    Trained with dropout and clipped gradients but used without, a model ends visits too rarely,
    most of all after the first code (lesson 15); ``calibrate`` fits these numbers after training.
    That of <\v> depends on the visit, first or later, and its codes so far, that of <EOS> on the
    visits.
    """

    visit: Tensor
    record: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("visit", torch.zeros(2, VISIT_CODES + 1))
        self.register_buffer("record", torch.zeros(RECORD_VISITS + 1))

    def forward(self, ids: Tensor, config: PromptBartConfig, new: int) -> Tensor:
        r"""What to add to the logits of <\v> after a code and <EOS> after <\v>: (batch, new, 2).

        Args:
            ids: int64 (batch, past), the tokens so far.
            new: for how many of the last tokens to answer.
        """
        visits, codes = (count[:, -new:] for count in progress(ids, config))
        ids = ids[:, -new:]
        of_visit = self.visit[(visits > 1).long(), codes.clamp(max=VISIT_CODES)]
        of_record = self.record[visits.clamp(max=RECORD_VISITS)]
        in_visit, between = ids >= config.first_code_id, ids == config.visit_end_token_id
        return torch.stack([of_visit * in_visit, of_record * between], dim=-1)


# ------------------------------------------------------------------ the model


@dataclass
class PromptBartOutput(Seq2SeqLMOutput):
    """What BART returns from a forward pass, with the loss in its parts.

    Attributes:
        loss: the mean cross-entropy and the heads' weighted losses; None without labels.
        logits: (batch, target, vocabulary), without prompts; beside a loss they carry no gradient.
        loss_sum: the cross-entropy of all scored positions in nats, float32.
        loss_count: how many positions are scored.
        terms: the parts of the loss, for the trainer.
        answers: what the heads say, by "age" and "sex"; None without labels or heads.
        pointed: where the copy head points to; None without one.
    """

    loss_sum: Tensor | None = None
    loss_count: Tensor | None = None
    terms: tuple[LossTerm, ...] | None = None
    answers: dict[str, Tensor] | None = None
    pointed: Pointed | None = None


class PromptBart(BartForConditionalGeneration):
    """BART with prompts of age and sex; without prompts it is BART, to the last bit.

    It loads, saves and generates like any transformers model; ``generate`` takes x_num and x_cat
    too. ``from_pretrained`` also reads a plain BART such as facebook/bart-base: its prompts and
    heads are then new, and ``resize_for`` adds the codes.

    Attributes:
        encoder_prompt, decoder_prompt: a ConditionalPrompt each, or None; another module with the
            same forward may take its place.
        heads: a ModuleDict with "age" and "sex", each where its weight is above 0.
        copy_head: a CopyHead, or None.
        visit_embedding: (visits, d_model), added to the tokens of each visit, or None.
        end_bias: an EndBias, or None.

    >>> config = PromptBartConfig.for_tokenizer(CodeTokenizer(["4280", "0389"]))
    >>> model = PromptBart(config).eval()
    >>> patient = {"x_num": torch.tensor([[64.0]]), "x_cat": torch.tensor([[1]])}
    >>> record, start = torch.tensor([[1, 6, 2]]), torch.tensor([[2, 1]])
    >>> model(record, decoder_input_ids=start, **patient).logits.shape
    torch.Size([1, 2, 9])
    """

    config_class = PromptBartConfig
    config: PromptBartConfig
    accepts_loss_kwargs = False  # transformers' Trainer: the loss is the mean over its own batch

    def __init__(self, config: PromptBartConfig) -> None:
        super().__init__(config)
        self.encoder_prompt: nn.Module | None = _prompt(config) if config.prompt_encoder else None
        self.decoder_prompt: nn.Module | None = _prompt(config) if config.prompt_decoder else None
        self.heads = _heads(config)
        self.copy_head = CopyHead(config.d_model) if config.copy_head else None
        visits = config.max_visit_embeddings
        self.visit_embedding = nn.Embedding(visits, config.d_model) if visits else None
        self.end_bias = EndBias() if config.end_bias else None
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, (NumericalPrompt, FourierPrompt, CategoricalPrompt)):
            _initialize(module, init)
        elif isinstance(module, EndBias):
            init.zeros_(module.visit)
            init.zeros_(module.record)

    @property
    def max_tokens(self) -> int:
        """The longest sequence, in tokens: prompts use up positions too."""
        prompts = self.config.n_prompts if self.encoder_prompt or self.decoder_prompt else 0
        return self.config.max_position_embeddings - prompts

    def resize_for(self, tokenizer: CodeTokenizer) -> Self:
        r"""Give a model with the words of a BART the codes of a tokenizer that extends them.

        The embeddings of <v>, <\v> and the codes are drawn around the mean of the others. The
        tokenizer is from ``CodeTokenizer.extending_bart``: its first ids are those of the BART.
        """
        config, ids = self.config, _ids_of(tokenizer)
        names = ("pad_token_id", "bos_token_id", "eos_token_id")
        other = [name for name in names if ids[name] != getattr(config, name)]
        if other or ids["visit_start_token_id"] < config.vocab_size:
            raise InputError(
                "PromptBart.resize_for",
                "tokenizer",
                f"it does not extend a vocabulary of {config.vocab_size} tokens"
                + "".join(f"; {n} is {ids[n]}, not {getattr(config, n)}" for n in other),
                "Use CodeTokenizer.extending_bart with the folder that the model comes from.",
            )
        self.resize_token_embeddings(len(tokenizer))
        config.update(ids)
        self.generation_config = GenerationConfig.from_model_config(config)
        return self

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        past_key_values: Cache | None = None,
        labels: Tensor | None = None,
        use_cache: bool | None = None,
        x_num: Tensor | None = None,
        x_cat: Tensor | None = None,
        decoder_history_ids: Tensor | None = None,
        **kwargs: Any,
    ) -> PromptBartOutput:
        """Read a record and its patient, and predict the next token at each decoder position.

        Args:
            input_ids: int64 (batch, source).
            attention_mask: 0 or 1 (batch, source), or (batch, n_prompts + source).
            decoder_input_ids: int64 (batch, target): the clean record, shifted right.
            decoder_attention_mask: 0 or 1, of cached and new tokens, with or without the prompts;
                needed only for padding on the left.
            encoder_outputs: what ``encode`` returned, in place of input_ids.
            past_key_values: the cache of the tokens before, prompts included.
            labels: int64 (batch, target), -100 where a position is not scored.
            x_num: float (batch, n_num): age in years.
            x_cat: int64 (batch, n_cat): sex, 0 for M and 1 for F.
            decoder_history_ids: int64 (batch, past): all decoder tokens so far, ending with
                decoder_input_ids; with a cache, a model that looks back at visits needs them.
        """
        if decoder_input_ids is None:
            raise InputError(
                "PromptBart",
                "decoder_input_ids",
                "they are missing",
                "Give the clean record, shifted right before any label is masked: collate does.",
            )
        if labels is not None:
            use_cache = False
        with self._attention_that_can_be_seen(kwargs):
            if encoder_outputs is None:
                encoder_outputs, attention_mask = self.encode(
                    input_ids, attention_mask, x_num, x_cat, **kwargs
                )
            elif attention_mask is not None and attention_mask.shape != (
                shape := encoder_outputs[0].shape[:2]
            ):
                n_prompts = _n_positions(self._prompts(self.encoder_prompt, x_num, x_cat))
                attention_mask = _extended_mask(attention_mask, "attention_mask", shape, n_prompts)

            cached = 0 if past_key_values is None else past_key_values.get_seq_length()
            history = decoder_input_ids if decoder_history_ids is None else decoder_history_ids
            if cached and decoder_history_ids is None:
                self._check_no_history_is_needed(cached)
            # generate always passes a cache, an empty one at first: prompts enter with the first
            # token, and are in the cache from then on.
            prompts = self._prompts(self.decoder_prompt, x_num, x_cat) if cached == 0 else None
            tokens = self._tokens("decoder_", decoder_input_ids, prompts, history)
            n_prompts = _n_positions(prompts)
            rows, length = decoder_input_ids.shape
            whole = (rows, cached + n_prompts + length)
            self._check_positions(whole[1])
            if decoder_attention_mask is not None and decoder_attention_mask.shape != whole:
                if cached > 0:  # the mask may lack the prompts that the cache holds
                    prompts = self._prompts(self.decoder_prompt, x_num, x_cat)
                decoder_attention_mask = _extended_mask(
                    decoder_attention_mask, "decoder_attention_mask", whole, _n_positions(prompts)
                )
            outputs = self.model(
                attention_mask=attention_mask,
                encoder_outputs=encoder_outputs,
                decoder_attention_mask=decoder_attention_mask,
                past_key_values=past_key_values,
                use_cache=use_cache,
                **tokens,
                **kwargs,
            )
        hidden = outputs.last_hidden_state[:, n_prompts:]  # (batch, target, d_model)
        pointed, ends = None, None
        if self.copy_head is not None:
            pointed = self.copy_head(
                hidden,
                self.get_input_embeddings()(decoder_input_ids),
                history,
                codes_of_earlier_visits(history, self.config, new=length),
                _cache_of_copy_head(outputs.past_key_values, self.config.decoder_layers),
            )
        if self.end_bias is not None:
            ends = self.end_bias(history, self.config, new=length)
        loss, loss_sum, loss_count, terms, answers = (None,) * 5
        if labels is not None:
            loss_sum, loss_count = self._language_model_loss(hidden, labels, pointed, ends)
            answers = self._ask(hidden, decoder_input_ids)
            parts = [LossTerm("language_model", loss_sum, loss_count)]
            for name, answer in (answers or {}).items():
                head = cast("DemographicHead", self.heads[name])
                truth = x_num if name == "age" else x_cat
                if truth is None:
                    raise InputError(
                        "x_num" if name == "age" else "x_cat",
                        "",
                        f"it is missing, and the {name} head is trained with it",
                        "Give both x_num and x_cat, or set the head's weight to 0.",
                    )
                total, count = head.loss(answer, labels != NOT_SCORED, truth[:, 0])
                weight = getattr(self.config, f"{name}_weight")
                parts.append(LossTerm(name, total, count, weight, head.per))
            terms = tuple(parts)
            loss = weighted_total(terms, loss_counts(labels))
        # Beside a loss, logits are for metrics alone and need no gradient.
        with torch.set_grad_enabled(torch.is_grad_enabled() and labels is None):
            logits = self._vocabulary(hidden, ends)
            if pointed is not None:
                logits = pointed.log_probabilities(_log_softmax(logits))
        of_bart = {name: value for name, value in outputs.items() if name != "last_hidden_state"}
        return PromptBartOutput(
            loss=loss,
            logits=logits,
            loss_sum=loss_sum,
            loss_count=loss_count,
            terms=terms,
            answers=answers,
            pointed=pointed,
            **of_bart,
        )

    def encode(
        self,
        input_ids: Tensor | None,
        attention_mask: Tensor | None = None,
        x_num: Tensor | None = None,
        x_cat: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[BaseModelOutput, Tensor | None]:
        """Run the encoder alone, prompts first.

        Returns:
            The encoder's output, (batch, n_prompts + source, d_model), and the attention mask
            extended by the prompts, (batch, n_prompts + source), or None if there was none.
        """
        assert input_ids is not None, "a model without encoder_outputs needs input_ids"
        prompts = self._prompts(self.encoder_prompt, x_num, x_cat)
        tokens = self._tokens("", input_ids, prompts, input_ids)
        n_prompts = _n_positions(prompts)
        rows, length = input_ids.shape
        self._check_positions(n_prompts + length)
        if attention_mask is not None:
            attention_mask = _extended_mask(
                attention_mask, "attention_mask", (rows, n_prompts + length), n_prompts
            )
        encoded = self.model.encoder(attention_mask=attention_mask, **tokens, **kwargs)
        return encoded, attention_mask

    def _prompts(
        self, prompt: nn.Module | None, x_num: Tensor | None, x_cat: Tensor | None
    ) -> Tensor | None:
        if prompt is None:
            return None
        if self.config.demographics == "optional" and x_num is None and x_cat is None:
            return None
        return prompt(x_num, x_cat)  # (batch, n_prompts, d_model)

    def _tokens(
        self, side: str, ids: Tensor, prompts: Tensor | None, history: Tensor
    ) -> dict[str, Tensor]:
        """The input of BART's encoder ("") or decoder ("decoder_"): ids, or embeddings."""
        if prompts is None and self.visit_embedding is None:
            return {f"{side}input_ids": ids}
        embeddings = self.get_input_embeddings()(ids)  # (batch, length, d_model)
        if self.visit_embedding is not None:
            visit = (history == self.config.visit_start_token_id).cumsum(dim=1)
            last = self.visit_embedding.num_embeddings - 1
            visit = visit[:, -ids.shape[1] :].clamp(max=last)
            embeddings = embeddings + self.visit_embedding(visit)
        if prompts is not None:
            if len(prompts) != len(ids):
                raise InputError(
                    "demographics",
                    "",
                    f"there are {len(prompts)} patients and {len(ids)} records",
                    "Give one row of x_num and x_cat for each row of ids.",
                )
            embeddings = torch.cat([prompts.to(embeddings.dtype), embeddings], dim=1)
        return {f"{side}inputs_embeds": embeddings}

    def _vocabulary(self, hidden: Tensor, ends: Tensor | None) -> Tensor:
        """The logits (..., vocabulary), before anything is copied."""
        logits = self.lm_head(hidden)
        logits += self.final_logits_bias  # in place: no tensor is larger
        if ends is not None:
            end_ids = [self.config.visit_end_token_id, self.config.eos_token_id]
            logits[..., end_ids] += ends.to(logits.dtype)
        return logits

    # ------------------------------------------------------------------ the loss

    def _language_model_loss(
        self, hidden: Tensor, labels: Tensor, pointed: Pointed | None, ends: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The summed cross-entropy and number of scored positions, the only ones computed."""
        scored = labels != NOT_SCORED
        targets = labels[scored]
        logits = self._vocabulary(hidden[scored], None if ends is None else ends[scored])
        smoothing = self.config.label_smoothing if self.training else 0.0
        if pointed is None:
            return language_model_loss(logits, targets, label_smoothing=smoothing)
        pointed = Pointed(*(tensor[scored] for tensor in pointed))
        log_vocabulary = _log_softmax(logits)
        if smoothing:
            every = pointed.log_probabilities(log_vocabulary)
            return language_model_loss(every, targets, label_smoothing=smoothing)
        of_targets = log_vocabulary.gather(1, targets[:, None])[:, 0]
        return -pointed.log_likelihood(of_targets, targets).sum(), scored.sum()

    def _ask(self, hidden: Tensor, decoder_input_ids: Tensor) -> dict[str, Tensor] | None:
        """What each head says to the decoder's input."""
        if not self.heads:
            return None
        if self.config.head_reads == "codes":
            hidden = codes_read(self.get_input_embeddings()(decoder_input_ids))
        # The end of the longest record is only a label: it is left out of all rows, so that the
        # last real token does not depend on the padding.
        real = decoder_input_ids != self.config.pad_token_id
        real[:, 1:] &= decoder_input_ids[:, 1:] != self.config.eos_token_id
        return {name: head(hidden, real) for name, head in self.heads.items()}

    # ------------------------------------------------------------------ generation

    def generate(  # type: ignore[override]  # transformers' keywords are named here
        self,
        inputs: Tensor | None = None,
        generation_config: Any = None,
        *,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        encoder_outputs: BaseModelOutput | None = None,
        x_num: Tensor | None = None,
        x_cat: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:
        """Write records for patients of x_num and x_cat, as ``generate`` of transformers does.

        ``max_new_tokens`` counts tokens, not prompts; by default a record may be as long as the
        model's positions allow.
        """
        inputs = input_ids if inputs is None else inputs
        if not {"max_new_tokens", "max_length"} & kwargs.keys() and generation_config is None:
            kwargs["max_length"] = self.max_tokens
        with self._attention_that_can_be_seen(kwargs):
            if encoder_outputs is None:
                names = kwargs.keys() & {"output_attentions", "output_hidden_states"}
                seen = {name: kwargs[name] for name in names}
                with torch.no_grad():
                    encoder_outputs, attention_mask = self.encode(
                        inputs, attention_mask, x_num, x_cat, **seen
                    )
            # transformers annotates self with a type that no model has.
            return super().generate(  # type: ignore[misc]
                generation_config=generation_config,
                attention_mask=attention_mask,
                encoder_outputs=encoder_outputs,
                x_num=x_num,
                x_cat=x_cat,
                **kwargs,
            )

    def prepare_inputs_for_generation(  # type: ignore[override]
        self, input_ids: Any, **kwargs: Any
    ) -> dict[str, Any]:
        """Give forward all tokens so far beside the new ones."""
        inputs = super().prepare_inputs_for_generation(input_ids, **kwargs)  # type: ignore[misc]
        return inputs | {"decoder_history_ids": input_ids}

    @contextmanager
    def _attention_that_can_be_seen(self, kwargs: dict[str, Any]) -> Iterator[None]:
        """Compute attention in the open while it is asked for: the fast kernel returns none."""
        fast = self.config._attn_implementation
        asked = kwargs.get("output_attentions") or self.config.output_attentions
        if not asked or fast == "eager":
            yield
            return
        self.set_attn_implementation("eager")
        try:
            yield
        finally:
            self.set_attn_implementation(fast)

    # ------------------------------------------------------------------ checks

    def _check_positions(self, needed: int) -> None:
        limit = self.config.max_position_embeddings
        if needed > limit:
            raise InputError(
                "sequence",
                f"{needed} positions",
                f"this model has {limit}, prompts included, so at most {self.max_tokens} tokens",
                'Use RecordDataset(..., max_tokens=model.max_tokens, too_long="cut"), or a '
                "configuration with more max_position_embeddings.",
            )

    def _check_no_history_is_needed(self, cached: int) -> None:
        parts = (self.copy_head, self.visit_embedding, self.end_bias)
        if any(part is not None for part in parts):
            raise InputError(
                "PromptBart",
                "decoder_history_ids",
                f"the tokens of {cached} cached positions are missing: this model looks back at "
                "earlier visits",
                "Give all tokens so far, decoder_input_ids last.",
            )


def _cache_of_copy_head(cache: Cache | None, decoder_layers: int) -> DynamicLayer | None:
    """The copy head's keys: one layer after the decoder's, reordered and cut with them."""
    if cache is None:
        return None
    of_decoder = cache.self_attention_cache if isinstance(cache, EncoderDecoderCache) else cache
    if len(of_decoder.layers) == decoder_layers:
        of_decoder.layers.append(type(of_decoder.layers[0])())
    layer = of_decoder.layers[decoder_layers]
    assert isinstance(layer, DynamicLayer)
    return layer


def _n_positions(prompts: Tensor | None) -> int:
    return 0 if prompts is None else prompts.shape[1]


def _extended_mask(mask: Tensor, name: str, shape: tuple[int, int], n_prompts: int) -> Tensor:
    """The mask of all positions, (batch, positions); the columns of prompts may be left out."""
    rows, positions = shape
    if mask.shape == shape:
        return mask
    if mask.shape == (rows, positions - n_prompts):
        return torch.cat([mask.new_ones(rows, n_prompts), mask], dim=1)
    raise InputError(
        name,
        "",
        f"its shape is {tuple(mask.shape)}, not {(rows, positions - n_prompts)}",
        "Give 1 for each token and 0 for padding; the columns of the prompts may come first.",
    )


def _log_softmax(logits: Tensor) -> Tensor:
    """In float32 at least."""
    return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))


# So that AutoModelForSeq2SeqLM.from_pretrained reads what PromptBart.save_pretrained wrote.
AutoConfig.register(PromptBartConfig.model_type, PromptBartConfig, exist_ok=True)
AutoModel.register(PromptBartConfig, PromptBart, exist_ok=True)
AutoModelForSeq2SeqLM.register(PromptBartConfig, PromptBart, exist_ok=True)
