"""Prefix tuning (Li and Liang 2021, https://arxiv.org/abs/2101.00190) of a BART or PromptBart.

The model is frozen: what is learned are, for each layer, the keys and values of some tokens that
are never written. They are put into the key-value caches before the first token comes.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self, cast

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import BartConfig, BartForConditionalGeneration
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

from ehr_course.errors import InputError
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.models.saved import check_shapes, open_weights, read_json, replaced_folder

# ------------------------------------------------------------------ the prefix

SIDES = ("decoder", "cross", "encoder")
"""Where a prefix may stand: the decoder's self-attention, its attention to the encoder, and the
encoder's self-attention."""


@dataclass(frozen=True)
class PrefixConfig:
    """What kind of prefix, and where.

    Attributes:
        n_tokens: how many keys and values stand before those of each layer.
        d_hidden: the width of the two-layer tanh network that makes them while training; None
            trains the keys and values themselves.
        decoder, cross, encoder: the places that have a prefix: see SIDES.
        shift_positions: whether the decoder counts its prefix as tokens, as peft does, so that the
            first token stands at position ``n_tokens``.

    >>> PrefixConfig(8, encoder=True).sides
    ('decoder', 'encoder')
    """

    n_tokens: int = 20
    d_hidden: int | None = None
    decoder: bool = True
    cross: bool = False
    encoder: bool = False
    shift_positions: bool = False

    def __post_init__(self) -> None:
        for name in ("n_tokens", "d_hidden"):
            size = getattr(self, name)
            if size is not None and size < 1:
                raise InputError("PrefixConfig", name, f"it is {size!r}", "Use 1 or more.")
        if not self.sides:
            raise InputError(
                "PrefixConfig",
                "",
                "there is no prefix anywhere",
                "Set one of decoder, cross and encoder.",
            )

    @property
    def sides(self) -> tuple[str, ...]:
        """Where there is a prefix: names out of "decoder", "cross" and "encoder"."""
        return tuple(side for side in SIDES if getattr(self, side))


class Prefix(nn.Module):
    """The keys and values of one prefix, for all layers.

    A row of ``embedding`` holds all numbers of one token: layer by layer, first the key and then
    the value, head after head. With ``d_hidden`` it is as wide as the model, and ``transform``
    makes those numbers of it.

    Args:
        n_layers, n_heads, d_model: of the stack that they stand in.

    >>> prefix = Prefix(20, n_layers=2, n_heads=4, d_model=96)
    >>> prefix().shape
    torch.Size([2, 2, 4, 20, 24])
    """

    def __init__(
        self,
        n_tokens: int,
        n_layers: int,
        n_heads: int,
        d_model: int,
        *,
        d_hidden: int | None = None,
    ) -> None:
        super().__init__()
        self.n_layers, self.n_heads, self.d_model = n_layers, n_heads, d_model
        width = n_layers * 2 * d_model
        self.embedding = nn.Parameter(torch.empty(n_tokens, d_model if d_hidden else width))
        nn.init.normal_(self.embedding)  # as peft does
        self.transform: nn.Sequential | None = None
        if d_hidden:
            layers = nn.Linear(d_model, d_hidden), nn.Tanh(), nn.Linear(d_hidden, width)
            self.transform = nn.Sequential(*layers)

    @property
    def n_tokens(self) -> int:
        """How many tokens the prefix has."""
        return self.embedding.shape[0]

    def rows(self) -> Tensor:
        """All numbers of each token, (n_tokens, n_layers * 2 * d_model)."""
        return self.embedding if self.transform is None else self.transform(self.embedding)

    def forward(self) -> Tensor:
        """Keys (0) and values (1) of each layer: (n_layers, 2, n_heads, n_tokens, head_dim)."""
        head_dim = self.d_model // self.n_heads
        by_token = self.rows().view(self.n_tokens, self.n_layers, 2, self.n_heads, head_dim)
        # view alone would put the tokens of one layer into other layers
        return by_token.permute(1, 2, 3, 0, 4)


def prefix_parameters(
    n_tokens: int, n_layers: int, d_model: int, *, d_hidden: int | None = None
) -> int:
    """How many parameters a Prefix trains, biases included.

    >>> prefix_parameters(20, 32, 4096), prefix_parameters(20, 32, 4096, d_hidden=512)
    (5242880, 136659456)
    """
    width = n_layers * 2 * d_model
    if d_hidden is None:
        return n_tokens * width
    return n_tokens * d_model + (d_model + 1) * d_hidden + (d_hidden + 1) * width


# ------------------------------------------------------------------ the model


class PrefixTuned(nn.Module):
    """A frozen BART and the prefixes that are trained for it.

    It is called, trained and asked to generate as the base is. Outside of these calls the base is
    unchanged, and several PrefixTuned may share it. A decoder prefix takes up room in the cache,
    so sequences must be ``n_tokens`` shorter.

    Args:
        base: none of its parameters gets a gradient from now on.
        seed: of the prefix's first values.

    Attributes:
        prefix_config: what was asked for; without ``d_hidden`` after ``fold``.
        prefixes: a Prefix by "decoder", "cross" and "encoder", each where it was asked for.

    >>> from ehr_course import CodeTokenizer, PromptBart, PromptBartConfig
    >>> base = PromptBart(PromptBartConfig.for_tokenizer(CodeTokenizer(["4280", "0389"])))
    >>> model = PrefixTuned(base, PrefixConfig(n_tokens=5))
    >>> model.n_trainable, base.max_tokens, model.max_tokens
    (1920, 254, 249)
    """

    def __init__(
        self, base: BartForConditionalGeneration, prefix_config: PrefixConfig, *, seed: int = 0
    ) -> None:
        super().__init__()
        if not isinstance(base, BartForConditionalGeneration):
            raise InputError(
                "PrefixTuned",
                "base",
                f"it is a {type(base).__name__}",
                "Give a PromptBart or BartForConditionalGeneration.",
            )
        self.base, self.prefix_config = base.requires_grad_(False), prefix_config
        if self.max_tokens < 1:
            raise InputError(
                "PrefixTuned",
                "n_tokens",
                f"a prefix of {prefix_config.n_tokens} leaves the decoder no position for a token",
                f"Use fewer than {self.max_tokens + prefix_config.n_tokens}.",
            )
        self.prefixes = nn.ModuleDict()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            for side in prefix_config.sides:
                stack = "encoder" if side == "encoder" else "decoder"
                self.prefixes[side] = Prefix(
                    prefix_config.n_tokens,
                    n_layers=getattr(base.config, f"{stack}_layers"),
                    n_heads=getattr(base.config, f"{stack}_attention_heads"),
                    d_model=base.config.d_model,  # type: ignore[arg-type]  # every BART has one
                    d_hidden=prefix_config.d_hidden,
                )
        self.prefixes.to(base.device)
        self._fingerprint: str | None = None
        self.train(base.training)

    @property
    def config(self) -> BartConfig:
        """The base's configuration, with the prefix's settings and the base's fingerprint."""
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
        """The longest sequence, in tokens: a decoder prefix uses up some of the positions."""
        taken = self.prefix_config.n_tokens if self.prefix_config.decoder else 0
        limit = getattr(self.base, "max_tokens", self.base.config.max_position_embeddings)
        return limit - taken

    @property
    def n_trainable(self) -> int:
        """How many parameters are trained."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the base with the prefixes, whose n_tokens columns come first in attentions."""
        with self._prefixes():
            return self.base(*args, **kwargs)

    def encode(self, *args: Any, **kwargs: Any) -> Any:
        """Run the encoder alone, as PromptBart's ``encode`` does."""
        assert isinstance(self.base, PromptBart)
        with self._prefixes():
            return self.base.encode(*args, **kwargs)

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        """Write sequences as the base's ``generate`` does: greedy, sampled or by beams."""
        asks = {"max_new_tokens", "max_length", "generation_config"} & kwargs.keys()
        if hasattr(self.base, "max_tokens") and not asks and len(args) < 2:
            kwargs["max_length"] = self.max_tokens
        with self._prefixes():
            # transformers annotates self with a type that no model has.
            return self.base.generate(*args, **kwargs)  # type: ignore[misc]

    @contextmanager
    def _prefixes(self) -> Iterator[None]:
        """Let the unmodified base see the prefixes: hooks fill its key-value caches."""
        base, prefixes = self.base, self._by_side()
        if any(getattr(module, "gradient_checkpointing", False) for module in base.modules()):
            raise InputError(
                "PrefixTuned",
                "base",
                "gradient checkpointing is on: it drops the cache that holds the prefix",
                "Switch it off.",
            )
        encoder, decoder = base.model.encoder, base.model.decoder
        with ExitStack() as hooks:

            def before(module: nn.Module, change: Callable[[Any, dict], dict]) -> None:
                """Change keyword arguments before the module gets them."""

                def hook(module: nn.Module, args: tuple, kwargs: dict[str, Any]) -> Any:
                    tokens = args[0] if args else kwargs.get("input_ids")
                    tokens = kwargs.get("inputs_embeds") if tokens is None else tokens
                    return args, kwargs | change(tokens, kwargs)

                hooks.callback(module.register_forward_pre_hook(hook, with_kwargs=True).remove)

            def fill_encoder(tokens: Tensor, kwargs: dict[str, Any]) -> dict[str, Any]:
                cache = DynamicCache()  # the encoder's layers accept and use one
                _fill(cache, prefixes["encoder"], tokens, encoder)
                return {"past_key_values": cache}

            def keep_positions(tokens: Tensor, kwargs: dict[str, Any]) -> dict[str, Any]:
                return {"position_ids": kwargs["position_ids"] - prefixes["decoder"].n_tokens}

            if "encoder" in prefixes:
                before(encoder, fill_encoder)
                for layer in encoder.layers:
                    before(layer.self_attn, _WidenMask(prefixes["encoder"].n_tokens))
            if "cross" in prefixes:
                for layer in decoder.layers:
                    before(layer.encoder_attn, _WidenMask(prefixes["cross"].n_tokens))
            if "decoder" in prefixes and not self.prefix_config.shift_positions:
                before(decoder.embed_positions, keep_positions)
            if "decoder" in prefixes or "cross" in prefixes:
                before(decoder, self._fill_decoder)
                drop = decoder.register_forward_hook(_drop_cache, with_kwargs=True)
                hooks.callback(drop.remove)
            yield

    def _fill_decoder(self, tokens: Tensor, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Fill the decoder's cache if it is empty; the encoder's keys come after the prefix."""
        prefixes, decoder = self._by_side(), self.base.model.decoder
        cache = kwargs.get("past_key_values")
        if cache is None:
            cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        if cache.get_seq_length() == 0:
            if "decoder" in prefixes:
                _fill(cache.self_attention_cache, prefixes["decoder"], tokens, decoder)
            if "cross" in prefixes:
                _fill(cache.cross_attention_cache, prefixes["cross"], tokens, decoder)
        positions = cache.get_seq_length() + tokens.shape[1]
        limit = decoder.config.max_position_embeddings
        if positions > limit:
            prefix = prefixes["decoder"].n_tokens if "decoder" in prefixes else 0
            raise InputError(
                "sequence",
                f"{positions} positions",
                f"the decoder has {limit}, of which the prefix takes {prefix}",
                'Use RecordDataset(..., max_tokens=model.max_tokens, too_long="cut"), or fewer '
                "tokens in the prefix.",
            )
        changed: dict[str, Any] = {"past_key_values": cache}
        mask = kwargs.get("attention_mask")
        if mask is not None and mask.ndim == 2 and mask.shape[1] < positions:
            ones = mask.new_ones(mask.shape[0], positions - mask.shape[1])
            changed["attention_mask"] = torch.cat([ones, mask], dim=1)
        return changed

    def _by_side(self) -> dict[str, Prefix]:
        return cast("dict[str, Prefix]", dict(self.prefixes.items()))

    def fold(self) -> Self:
        """Replace each network by the keys and values that it makes, and return the model.

        Outputs stay the same. To go on training, make a new optimizer: the parameters are others.
        """
        for prefix in self._by_side().values():
            prefix.embedding, prefix.transform = nn.Parameter(prefix.rows().detach()), None
        self.prefix_config = replace(self.prefix_config, d_hidden=None)
        return self

    def save(self, folder: str | Path) -> None:
        """Write the prefix, without its base, to a folder; a prefix that is there is replaced."""
        fields = asdict(self.prefix_config) | {"base": fingerprint(self.base)}
        _write(folder, CONFIG, fields, WEIGHTS, self.prefixes.state_dict())

    @classmethod
    def load(cls, folder: str | Path, base: BartForConditionalGeneration) -> Self:
        """Read what ``save`` wrote, for the same base."""
        folder = Path(folder)
        fields = read_json(folder / CONFIG)
        trained_for = fields.pop("base", None)
        try:
            config = PrefixConfig(**fields)
        except TypeError as error:
            problem = f"these are not the settings of a prefix ({error})"
            raise InputError(folder / CONFIG, "", problem, "Save the prefix again.") from None
        if trained_for != fingerprint(base):
            raise InputError(
                folder,
                "base",
                "the prefix was trained for a model with other weights, to which it means nothing",
                "Load it with the base that it was trained with, in the same precision.",
            )
        model = cls(base, config)
        with open_weights(folder / WEIGHTS) as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        found, needed = (
            {name: tuple(tensor.shape) for name, tensor in some.items()}
            for some in (tensors, model.prefixes.state_dict())
        )
        check_shapes(folder / WEIGHTS, found, needed)
        model.prefixes.load_state_dict(tensors)
        return model

    def save_as_peft(self, folder: str | Path) -> None:
        """Write the prefix, network folded, as ``peft.PeftModel.from_pretrained`` reads it.

        peft runs a plain BART only: it calls a model with arguments that PromptBart does not take.
        It has a prefix for the decoder alone, with shifted positions.
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
        prefix = self._by_side()["decoder"]
        n_tokens, layers, width = prefix.n_tokens, prefix.n_layers, prefix.d_model
        rows = prefix.rows().detach()
        # In peft a token is 2 * num_layers vectors, repeated once and dealt to the layers by
        # fours: key, value, and two for the cross-attention, which are thrown away. If num_layers
        # were the model's own and even, two layers would share theirs: it is twice as many here.
        dealt = rows.new_zeros(n_tokens, layers, 4, width)
        dealt[:, :, :2] = rows.view(n_tokens, layers, 2, width)
        fields = {
            "peft_type": "PREFIX_TUNING",
            "task_type": "SEQ_2_SEQ_LM",
            "inference_mode": True,
            "num_virtual_tokens": n_tokens,
            "num_layers": 2 * layers,
            "num_attention_heads": prefix.n_heads,
            "token_dim": width,
            "num_transformer_submodules": 2,
            "encoder_hidden_size": width,
            "prefix_projection": False,
            "base_model_name_or_path": None,
        }
        weights = {"prompt_embeddings": dealt.flatten(1)}
        readme = "README.md"  # peft writes it beside them
        _write(folder, "adapter_config.json", fields, "adapter_model.safetensors", weights, readme)


class _WidenMask:
    """Let every query see the prefix, for which an attention's mask has no columns."""

    def __init__(self, n_tokens: int) -> None:
        self.n_tokens = n_tokens

    def __call__(self, tokens: Tensor, kwargs: dict[str, Any]) -> dict[str, Any]:
        mask = kwargs.get("attention_mask")
        if mask is None:  # everything is seen
            return {}
        shape = (*mask.shape[:-1], self.n_tokens)
        # a float mask is added to the scores; other masks mark what is seen by True or 1
        seen = mask.new_zeros(shape) if mask.is_floating_point() else mask.new_ones(shape)
        return {"attention_mask": torch.cat([seen, mask], dim=-1)}


def _fill(cache: DynamicCache, prefix: Prefix, tokens: Tensor, stack: nn.Module) -> None:
    device = tokens.device.type
    # A cache holds one dtype: that of the tokens' keys.
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else stack.dtype
    for number, (key, value) in enumerate(prefix().to(dtype)):  # each (heads, n_tokens, head_dim)
        cache.update(*(part.expand(tokens.shape[0], -1, -1, -1) for part in (key, value)), number)


def _drop_cache(decoder: nn.Module, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
    """Return no cache to a caller who asked for none."""
    if kwargs.get("use_cache") is False and hasattr(output, "past_key_values"):
        output.past_key_values = None


# ------------------------------------------------------------------ files

CONFIG, WEIGHTS = "prefix.json", "prefix.safetensors"


def fingerprint(model: nn.Module) -> str:
    """64 hexadecimal digits of the names and values of a model's parameters and buffers."""
    digest = hashlib.sha256()
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}\n".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _write(
    folder: str | Path,
    config: str,
    fields: dict[str, Any],
    weights: str,
    tensors: dict[str, Tensor],
    may_hold: str = "",
) -> None:
    """Write fields as JSON and tensors as safetensors, whole or not at all."""
    folder = Path(folder).absolute()  # "." has no name beside which to write
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    others = sorted(there - {config, weights, may_hold})
    if others:
        raise InputError(
            folder, others[0], "the folder holds something else", "Name a new or empty folder."
        )
    with replaced_folder(folder) as unfinished:
        (unfinished / config).write_text(json.dumps(fields, indent=1) + "\n", encoding="utf-8")
        whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        save_file(whole, unfinished / weights, metadata={"format": "pt"})
        # safetensors makes the file readable by its owner only.
        (unfinished / weights).chmod((unfinished / config).stat().st_mode)
