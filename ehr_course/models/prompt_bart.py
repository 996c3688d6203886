"""BART whose encoder and decoder read a patient's age and sex before the first token.

PromptBart hands prompts and token embeddings, one after the other, to the unmodified encoder and
decoder of BART (Lewis et al. 2020, https://arxiv.org/abs/1910.13461). Positions run over prompts
and tokens, masks are extended, and the prompt positions are cut off before the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import BartForConditionalGeneration
from transformers import initialization as init
from transformers.cache_utils import Cache
from transformers.modeling_outputs import BaseModelOutput, Seq2SeqLMOutput

from ehr_course.errors import InputError
from ehr_course.losses import (
    NOT_SCORED,
    LossTerm,
    language_model_loss,
    loss_counts,
    weighted_total,
)
from ehr_course.models.conditional_prompt import (
    CategoricalPrompt,
    ConditionalPrompt,
    FourierPrompt,
    NumericalPrompt,
    initialize,
)
from ehr_course.models.copy_head import CopyHead, Pointed
from ehr_course.models.demographic_heads import (
    AGE_HEADS,
    DemographicHead,
    TokenSex,
    codes_read,
)
from ehr_course.models.end_bias import END_IDS, EndBias, progress
from ehr_course.models.prompt_bart_config import AGE_ENCODERS, PromptBartConfig
from ehr_course.models.prompt_masks import extended_mask, n_positions
from ehr_course.models.token_memory import memory_of, remember, visit_numbers


@dataclass
class PromptBartOutput(Seq2SeqLMOutput):
    """What a forward pass returns: that of BART, and the loss as a sum and a count.

    Attributes:
        loss: what is minimised: the mean cross-entropy and the weighted losses of the heads, or
            None without labels.
        terms: its parts, for the trainer.
        answers: what the heads say, by "age" and "sex"; None without labels or heads.
        pointed: where the copy head points to; None without one.
        loss_sum: the cross-entropy of all scored positions in nats, float32.
        loss_count: how many positions are scored: those whose label is not -100.
        logits: (batch, target, vocabulary), prompts cut off; None with labels, because the
            vocabulary is then computed for the scored positions alone. Leave the labels out to
            get it.
    """

    loss_sum: Tensor | None = None
    loss_count: Tensor | None = None
    terms: tuple[LossTerm, ...] | None = None
    answers: dict[str, Tensor] | None = None
    pointed: Pointed | None = None


class PromptBart(BartForConditionalGeneration):
    """BART with prompts of age and sex. Without prompts it is BART, to the last bit.

    It loads, saves and generates as every model of transformers does: ``generate`` takes x_num
    and x_cat beside input_ids, and samples, searches with beams and caches as for BART.

    Attributes:
        encoder_prompt, decoder_prompt: a ConditionalPrompt each, or None. Any module with the
            same forward may take their place.
        heads: a ModuleDict with "age" and "sex", each where its weight is above 0.
        copy_head: a CopyHead where the configuration asks for one, or None.
        visit_embedding: (visits, d_model), added to the tokens of each visit, or None.
        end_bias: an EndBias where the configuration asks for one, or None.

    >>> from ehr_course.tokenizers.codes import CodeTokenizer
    >>> config = PromptBartConfig.for_tokenizer(CodeTokenizer(["4280", "0389"]))
    >>> model = PromptBart(config).eval()
    >>> patient = {"x_num": torch.tensor([[64.0]]), "x_cat": torch.tensor([[1]])}
    >>> record, start = torch.tensor([[1, 6, 2]]), torch.tensor([[2, 1]])
    >>> model(record, decoder_input_ids=start, **patient).logits.shape
    torch.Size([1, 2, 9])
    """

    config_class = PromptBartConfig
    config: PromptBartConfig

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

    @property
    def max_tokens(self) -> int:
        """The longest sequence, in tokens: prompts use up positions too."""
        prompts = self.config.n_prompts if self.encoder_prompt or self.decoder_prompt else 0
        return self.config.max_position_embeddings - prompts

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
        **kwargs: Any,
    ) -> PromptBartOutput:
        """Read a record and its patient, and predict the next token at each decoder position.

        Args:
            input_ids: int64 (batch, source).
            attention_mask: 0 or 1 (batch, source); 1 for tokens, 0 for padding. The columns of
                the prompts may stand before it, (batch, n_prompts + source).
            decoder_input_ids: int64 (batch, target): the clean record, shifted right.
            decoder_attention_mask: 0 or 1 (batch, target), of cached tokens and new ones, with or
                without the prompts; needed only for padding on the left.
            encoder_outputs: what ``encode`` returned, in place of input_ids.
            past_key_values: the cache of the tokens before; prompts are in it.
            labels: int64 (batch, target), -100 where a position is not scored.
            use_cache: whether to return a cache.
            x_num: float (batch, n_num): age in years.
            x_cat: int64 (batch, n_cat): sex, 0 for M and 1 for F.
            kwargs: handed to BART, such as output_attentions=True.

        Raises:
            InputError: if demographics are missing or impossible, a mask is of another length
                than the tokens and than prompts and tokens together, or there are more positions
                than the model has.
        """
        if labels is not None:
            use_cache = False
            if decoder_input_ids is None:
                raise InputError(
                    "PromptBart",
                    "decoder_input_ids",
                    "there are labels and no decoder input",
                    "Shift the clean record right, before any label is masked: collate does.",
                )
        with self._attention_that_can_be_seen(kwargs):
            if encoder_outputs is None:
                encoder_outputs, attention_mask = self.encode(
                    _given(input_ids, "input_ids"), attention_mask, x_num, x_cat, **kwargs
                )
            elif attention_mask is not None:
                shape = encoder_outputs[0].shape[:2]
                if attention_mask.shape != shape:
                    prompts = self._prompts(self.encoder_prompt, x_num, x_cat)
                    attention_mask = extended_mask(
                        attention_mask, "attention_mask", shape, n_positions(prompts)
                    )

            decoder_input_ids = _given(decoder_input_ids, "decoder_input_ids")
            cached = past_key_values.get_seq_length() if past_key_values is not None else 0
            # generate always passes a cache, an empty one at first: prompts enter with the first
            # token, and are in the cache from then on.
            prompts = self._prompts(self.decoder_prompt, x_num, x_cat) if cached == 0 else None
            tokens = self._tokens("decoder_", decoder_input_ids, prompts, past_key_values)
            n_prompts = n_positions(prompts)
            self._check_positions(decoder_input_ids, n_prompts, cached)
            rows, length = decoder_input_ids.shape
            whole = (rows, cached + n_prompts + length)
            if decoder_attention_mask is not None and decoder_attention_mask.shape != whole:
                if cached > 0:  # the mask may lack the prompts that the cache holds
                    prompts = self._prompts(self.decoder_prompt, x_num, x_cat)
                decoder_attention_mask = extended_mask(
                    decoder_attention_mask, "decoder_attention_mask", whole, n_positions(prompts)
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
        pointed, ends = self._point(hidden, decoder_input_ids, outputs.past_key_values)
        logits, loss, loss_sum, loss_count, terms, answers = (None,) * 6
        if labels is None:
            logits = self._vocabulary(hidden, ends)
            if pointed is not None:
                logits = pointed.log_probabilities(_log_softmax(logits))
        else:
            scored = labels != NOT_SCORED
            loss_sum, loss_count = self._language_model_loss(hidden, labels, pointed, ends)
            answers = self._ask(hidden, decoder_input_ids)
            terms = (
                LossTerm("language_model", loss_sum, loss_count),
                *self._head_terms(answers, scored, x_num, x_cat),
            )
            loss = weighted_total(terms, loss_counts(labels))
        return PromptBartOutput(
            loss=loss,
            logits=logits,
            past_key_values=outputs.past_key_values,
            decoder_hidden_states=outputs.decoder_hidden_states,
            decoder_attentions=outputs.decoder_attentions,
            cross_attentions=outputs.cross_attentions,
            encoder_last_hidden_state=outputs.encoder_last_hidden_state,
            encoder_hidden_states=outputs.encoder_hidden_states,
            encoder_attentions=outputs.encoder_attentions,
            loss_sum=loss_sum,
            loss_count=loss_count,
            terms=terms,
            answers=answers,
            pointed=pointed,
        )

    def _point(
        self, hidden: Tensor, ids: Tensor, cache: Cache | None
    ) -> tuple[Pointed | None, Tensor | None]:
        """Where the copy head points to, and what is added to the logits of END_IDS.

        Each is None without its part of the model. The cache keeps what was read.
        """
        if self.copy_head is None and self.visit_embedding is None and self.end_bias is None:
            return None, None
        memory, new = memory_of(cache, self.config.decoder_layers), ids.shape[1]
        pointed = None
        if self.copy_head is None:
            ids, _ = remember(memory, ids, hidden[..., :0])
        else:
            pointed = self.copy_head(hidden, self.get_input_embeddings()(ids), ids, memory)
            ids = pointed.ids[:, 0]
        if self.end_bias is None:
            return pointed, None
        return pointed, self.end_bias(*(x[:, -new:] for x in (ids, *progress(ids))))

    def _vocabulary(self, hidden: Tensor, ends: Tensor | None) -> Tensor:
        """The logits (..., vocabulary), before anything is copied."""
        logits = self.lm_head(hidden) + self.final_logits_bias
        if ends is not None:
            logits[..., END_IDS] += ends.to(logits.dtype)
        return logits

    def _language_model_loss(
        self, hidden: Tensor, labels: Tensor, pointed: Pointed | None, ends: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The sum of the cross-entropies of the scored positions, and their number."""
        scored = labels != NOT_SCORED
        targets = labels[scored]
        logits = self._vocabulary(hidden[scored], None if ends is None else ends[scored])
        smoothing = self.config.label_smoothing if self.training else 0.0
        if pointed is None:
            return language_model_loss(logits, targets, label_smoothing=smoothing)
        pointed, log_vocabulary = pointed.at(scored), _log_softmax(logits)
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
        # The end of the longest record is no input, only a label. So it is left out of all rows,
        # and the last real token is the same one whatever a record is padded to.
        real = decoder_input_ids != self.config.pad_token_id
        real[:, 1:] &= decoder_input_ids[:, 1:] != self.config.eos_token_id
        return {name: head(hidden, real) for name, head in self.heads.items()}

    def _head_terms(
        self,
        answers: dict[str, Tensor] | None,
        scored: Tensor,
        x_num: Tensor | None,
        x_cat: Tensor | None,
    ) -> Iterator[LossTerm]:
        """The loss of each head."""
        for name, answer in (answers or {}).items():
            truth = x_num if name == "age" else x_cat
            if truth is None:
                raise InputError(
                    "demographics",
                    "x_num" if name == "age" else "x_cat",
                    f"it is missing, and the {name} head learns from it",
                    "Give both x_num and x_cat, or set the head's weight to 0.",
                )
            head = self.heads[name]
            assert isinstance(head, DemographicHead)  # as `_heads` made it
            weight = getattr(self.config, f"{name}_weight")
            yield LossTerm(name, *head.loss(answer, scored, truth[:, 0]), weight, head.per)

    def encode(
        self,
        input_ids: Tensor,
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
        prompts = self._prompts(self.encoder_prompt, x_num, x_cat)
        tokens = self._tokens("", input_ids, prompts)
        n_prompts = n_positions(prompts)
        self._check_positions(input_ids, n_prompts, 0)
        if attention_mask is not None:
            rows, length = input_ids.shape
            attention_mask = extended_mask(
                attention_mask, "attention_mask", (rows, n_prompts + length), n_prompts
            )
        return self.model.encoder(
            attention_mask=attention_mask, **tokens, **kwargs
        ), attention_mask

    def generate(  # type: ignore[override]  # what transformers hands on as keywords has names
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
        """Write records, as ``generate`` of transformers does; x_num and x_cat say for whom.

        Greedy by default; ``do_sample=True`` with ``temperature``, ``top_k`` and ``top_p``, or
        ``num_beams``. ``max_new_tokens`` counts tokens, not prompts; by default a record may be
        as long as the model's positions allow.
        """
        inputs = input_ids if inputs is None else inputs
        if not {"max_new_tokens", "max_length"} & kwargs.keys() and generation_config is None:
            kwargs["max_length"] = self.max_tokens
        with self._attention_that_can_be_seen(kwargs):
            if encoder_outputs is None:
                seen = {
                    name: kwargs[name]
                    for name in ("output_attentions", "output_hidden_states")
                    if name in kwargs
                }
                with torch.no_grad():
                    encoder_outputs, attention_mask = self.encode(
                        _given(inputs, "input_ids"), attention_mask, x_num, x_cat, **seen
                    )
            # transformers writes its own type of self for it, which no model has.
            return super().generate(  # type: ignore[misc]
                generation_config=generation_config,
                attention_mask=attention_mask,
                encoder_outputs=encoder_outputs,
                x_num=x_num,
                x_cat=x_cat,
                **kwargs,
            )

    def _prompts(
        self, prompt: nn.Module | None, x_num: Tensor | None, x_cat: Tensor | None
    ) -> Tensor | None:
        if prompt is None:
            return None
        if self.config.demographics == "optional" and x_num is None and x_cat is None:
            return None
        return prompt(x_num, x_cat)  # (batch, n_prompts, d_model)

    def _tokens(
        self, side: str, ids: Tensor, prompts: Tensor | None, cache: Cache | None = None
    ) -> dict[str, Tensor]:
        """The input of BART's encoder ("") or decoder ("decoder_"): ids, or what they become.

        Args:
            side: what the names of BART's arguments begin with.
            ids: int64 (batch, length).
            prompts: float (batch, n_prompts, d_model) to stand before them, or None.
            cache: of the tokens before them.
        """
        if prompts is None and self.visit_embedding is None:
            return {f"{side}input_ids": ids}
        embeddings = self.get_input_embeddings()(ids)  # (batch, length, d_model)
        if self.visit_embedding is not None:
            visit = visit_numbers(memory_of(cache, self.config.decoder_layers), ids)
            last = self.visit_embedding.num_embeddings - 1
            embeddings = embeddings + self.visit_embedding(visit.clamp(max=last))
        if prompts is not None:
            if prompts.shape[0] != ids.shape[0]:
                raise InputError(
                    "demographics",
                    "",
                    f"there are {prompts.shape[0]} patients and {ids.shape[0]} records",
                    "Give one row of x_num and x_cat for each row of ids.",
                )
            embeddings = torch.cat([prompts.to(embeddings.dtype), embeddings], dim=1)
        return {f"{side}inputs_embeds": embeddings}

    def _check_positions(self, ids: Tensor, n_prompts: int, cached: int) -> None:
        needed = cached + n_prompts + ids.shape[1]
        limit = self.config.max_position_embeddings
        if needed > limit:
            raise InputError(
                "sequence",
                f"{needed} positions",
                f"this model has {limit}, prompts included, so at most {self.max_tokens} tokens",
                'Use RecordDataset(..., max_tokens=model.max_tokens, too_long="cut"), or a '
                "configuration with more max_position_embeddings.",
            )

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

    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, (NumericalPrompt, FourierPrompt, CategoricalPrompt)):
            initialize(module, init)


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


def _heads(config: PromptBartConfig) -> nn.ModuleDict:
    made: dict[str, nn.Module] = {}
    if config.age_weight:
        kind = AGE_HEADS[config.age_head]
        made["age"] = kind(config.d_model, d_hidden=config.d_head, dropout=config.dropout)
    if config.sex_weight:
        made["sex"] = TokenSex(config.d_model, d_hidden=config.d_head, dropout=config.dropout)
    return nn.ModuleDict(made)


def _given(ids: Tensor | None, name: str) -> Tensor:
    """Ids that nothing can be predicted without."""
    if ids is None:
        raise InputError(
            "PromptBart", name, "they are missing", "Give the ids of each record's tokens."
        )
    return ids


def _log_softmax(logits: Tensor) -> Tensor:
    """In float32 at least."""
    return logits.log_softmax(dim=-1, dtype=torch.promote_types(logits.dtype, torch.float32))
