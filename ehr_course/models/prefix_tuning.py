"""Adapt a BART, PromptBart included, by a prefix alone: its own weights stay as they are.

This is prefix tuning (Li and Liang 2021, https://arxiv.org/abs/2101.00190). A key-value cache
exists in the decoder only, so a prefix there leaves the encoder as it was; the encoder and the
attention to it can have prefixes of their own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn
from transformers import BartConfig, BartForConditionalGeneration

from ehr_course.errors import InputError
from ehr_course.models.prefix import Prefix as Prefix
from ehr_course.models.prefix import PrefixConfig
from ehr_course.models.prefix import prefix_parameters as prefix_parameters
from ehr_course.models.prefix_files import fingerprint, read_prefix, write_prefix
from ehr_course.models.prefix_injection import prefixes_in
from ehr_course.models.prefix_peft import write_peft
from ehr_course.models.prompt_bart import PromptBart


class PrefixTuned(nn.Module):
    """A frozen BART and the prefixes that are trained for it.

    It is called, trained and asked to generate as the base is. The base can still be used alone,
    and is then what it always was: nothing is added to it outside of these calls. Several
    PrefixTuned may share one base.

    A prefix of the decoder takes up room in its cache, so that sequences can be ``n_tokens``
    shorter; the other two take none.

    Args:
        base: it is frozen: none of its parameters gets a gradient from now on.
        prefix_config: the prefix's size and place.
        seed: of the prefix's first values.

    Attributes:
        base: the model.
        prefix_config: what was asked for; without ``d_hidden`` after ``fold``.
        prefixes: a Prefix by "decoder", "cross" and "encoder", each where it was asked for.

    Raises:
        InputError: if the base is no BART or is set to gradient checkpointing, or a decoder
            prefix leaves no position for a token.

    >>> from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
    >>> from ehr_course.tokenizers.codes import CodeTokenizer
    >>> base = PromptBart(PromptBartConfig.for_tokenizer(CodeTokenizer(["4280", "0389"])))
    >>> model = PrefixTuned(base, PrefixConfig(n_tokens=5))
    >>> model.n_trainable, base.max_tokens, model.max_tokens
    (1920, 254, 249)
    """

    def __init__(
        self, base: BartForConditionalGeneration, prefix_config: PrefixConfig, *, seed: int = 0
    ) -> None:
        super().__init__()
        _check_base(base, prefix_config)
        self.base, self.prefix_config = base.requires_grad_(False), prefix_config
        generator = torch.Generator().manual_seed(seed)
        self.prefixes = nn.ModuleDict(
            {
                side: Prefix(
                    prefix_config.n_tokens,
                    **_stack(base.config, side),
                    d_hidden=prefix_config.d_hidden,
                    generator=generator,
                )
                for side in prefix_config.sides
            }
        ).to(base.device)
        self._fingerprint: str | None = None
        self.train(base.training)

    # ------------------------------------------------------------------ what it says of itself

    @property
    def config(self) -> BartConfig:
        """The base's configuration, and the prefix's settings and the base's fingerprint in it."""
        if self._fingerprint is None:
            self._fingerprint = fingerprint(self.base)
        config = copy.deepcopy(self.base.config)
        config.prefix_tuning = asdict(self.prefix_config) | {"base": self._fingerprint}
        return config

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return self.base.device

    @property
    def max_tokens(self) -> int:
        """The longest sequence, in tokens: a decoder prefix uses up some of the cache."""
        taken = self.prefix_config.n_tokens if self.prefix_config.decoder else 0
        return _longest(self.base) - taken

    @property
    def n_trainable(self) -> int:
        """How many parameters are trained."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    # ------------------------------------------------------------------ used as the base is

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the base with the prefixes.

        Returns:
            What the base returns. Where attention is asked for, it has the prefix's n_tokens
            columns before those of the tokens.

        Raises:
            InputError: as the base does, or if the sequence and the prefix have more positions
                than the model, or gradient checkpointing is on.
        """
        with self._prefixes():
            return self.base(*args, **kwargs)

    def encode(self, *args: Any, **kwargs: Any) -> Any:
        """Run the encoder alone, as PromptBart's ``encode`` does."""
        if not isinstance(self.base, PromptBart):
            raise InputError(
                "PrefixTuned",
                "encode",
                f"a {type(self.base).__name__} cannot encode alone",
                "Call the model itself, or give it a PromptBart as its base.",
            )
        with self._prefixes():
            return self.base.encode(*args, **kwargs)

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        """Write sequences as the base's ``generate`` does: greedy, sampled or by beams."""
        asks = {"max_new_tokens", "max_length", "generation_config"} & kwargs.keys()
        if hasattr(self.base, "max_tokens") and not asks and len(args) < 2:
            kwargs["max_length"] = self.max_tokens
        with self._prefixes():
            # transformers writes its own type of self for it, which no model has.
            return self.base.generate(*args, **kwargs)  # type: ignore[misc]

    @contextmanager
    def _prefixes(self) -> Iterator[None]:
        _check_no_checkpointing(self.base)
        shift = self.prefix_config.shift_positions
        with prefixes_in(self.base, self._by_side(), shift_positions=shift):
            yield

    def _by_side(self) -> dict[str, Prefix]:
        """The prefixes; a ModuleDict says no more of them than that they are modules."""
        found = {}
        for side, prefix in self.prefixes.items():
            assert isinstance(prefix, Prefix)
            found[side] = prefix
        return found

    # ------------------------------------------------------------------ after training

    def fold(self) -> Self:
        """Replace each network by the keys and values that it makes; outputs are as they were.

        Returns:
            This model, with direct prefixes. Training can go on, but another one: an optimizer
            that was made before has none of these parameters.
        """
        for side, prefix in self._by_side().items():
            self.prefixes[side] = prefix.folded()
        self.prefix_config = replace(self.prefix_config, d_hidden=None)
        return self

    def save(self, folder: str | Path) -> None:
        """Write the prefix, without the base, to a folder; one that is there is replaced.

        Raises:
            InputError: if it cannot be written, or the folder holds something else.
        """
        write_prefix(
            folder, self.prefix_config, self.prefixes.state_dict(), base=fingerprint(self.base)
        )

    @classmethod
    def load(cls, folder: str | Path, base: BartForConditionalGeneration) -> Self:
        """Read what ``save`` wrote, for the same base.

        Raises:
            InputError: if a file is missing or damaged, or the prefix was trained for a base with
                other weights.
        """
        saved = read_prefix(folder, base=fingerprint(base))
        model = cls(base, saved.config)
        _take(model.prefixes, saved.tensors, folder)
        return model

    def save_as_peft(self, folder: str | Path) -> None:
        """Write an adapter that ``peft.PeftModel.from_pretrained(base, folder)`` reads.

        The network, if there is one, is folded away in what is written. peft runs plain BART: it
        calls a model with arguments that PromptBart does not take.

        Raises:
            InputError: if there is a cross or an encoder prefix, which peft does not have,
                positions are not shifted, or the folder cannot be written or holds something
                else.
        """
        if not self.prefix_config.shift_positions:
            raise InputError(
                "save_as_peft",
                "shift_positions",
                "peft gives the first token the position after the prefix; this one was trained "
                "to stand before tokens whose positions stay",
                "Train with PrefixConfig(shift_positions=True), or use save.",
            )
        if self.prefix_config.sides != ("decoder",):
            sides = ", ".join(self.prefix_config.sides)
            raise InputError(
                "save_as_peft",
                "prefixes",
                f"peft has a prefix for the decoder only; these are for: {sides}",
                "Train with PrefixConfig(decoder=True) alone, or use save.",
            )
        write_peft(folder, self._by_side()["decoder"].folded())


def _stack(config: BartConfig, side: str) -> dict[str, int]:
    """The layers that a prefix stands in."""
    stack = "encoder" if side == "encoder" else "decoder"
    return {
        "n_layers": getattr(config, f"{stack}_layers"),
        "n_heads": getattr(config, f"{stack}_attention_heads"),
        "d_model": config.d_model,
    }


def _longest(base: BartForConditionalGeneration) -> int:
    return getattr(base, "max_tokens", base.config.max_position_embeddings)


def _take(prefixes: nn.ModuleDict, tensors: dict[str, Tensor], place: object) -> None:
    """Fill the prefixes with what a file holds."""
    wanted = {name: tuple(tensor.shape) for name, tensor in prefixes.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for name in sorted(wanted.keys() | found.keys()):
        if wanted.get(name) != found.get(name):
            raise InputError(
                place,
                name,
                f"the file has shape {found.get(name)}, the prefix needs {wanted.get(name)}",
                "Save the prefix again.",
            )
    prefixes.load_state_dict(tensors)


def _check_base(base: BartForConditionalGeneration, config: PrefixConfig) -> None:
    if not isinstance(base, BartForConditionalGeneration):
        raise InputError(
            "PrefixTuned",
            "base",
            f"a {type(base).__name__} is no BART",
            "Give a PromptBart or another BartForConditionalGeneration.",
        )
    _check_no_checkpointing(base)
    if config.decoder and config.n_tokens >= _longest(base):
        raise InputError(
            "PrefixTuned",
            "n_tokens",
            f"a prefix of {config.n_tokens} leaves no position of the decoder's for a token",
            f"Use fewer than {_longest(base)}.",
        )


def _check_no_checkpointing(base: BartForConditionalGeneration) -> None:
    if any(getattr(module, "gradient_checkpointing", False) for module in base.modules()):
        raise InputError(
            "PrefixTuned",
            "base",
            "gradient checkpointing is on: it drops the cache that holds the prefix",
            "Switch it off.",
        )
