"""Prefix tuning (Li and Liang 2021, https://arxiv.org/abs/2101.00190) of a BART or PromptBart.

The model is frozen: what is learned are, for each layer, the keys and values of some tokens that
are never written. They are put into the key-value caches before the first token comes.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn.utils import skip_init
from transformers import BartConfig, BartForConditionalGeneration
from transformers.cache_utils import Cache, DynamicCache, EncoderDecoderCache
from transformers.models.bart.modeling_bart import BartDecoder

from ehr_course.errors import InputError
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.new_folder import new_folder

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

    Raises:
        InputError: if a number is below 1, or no side has a prefix.

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
        for name, size, remedy in (
            ("n_tokens", self.n_tokens, "Use 1 or more."),
            ("d_hidden", self.d_hidden, "Use 1 or more, or None for a prefix without a network."),
        ):
            is_none = size is None and name == "d_hidden"
            if not is_none and (type(size) is not int or size < 1):
                raise InputError("PrefixConfig", name, f"{size!r} is out of range", remedy)
        for name in (*SIDES, "shift_positions"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(
                    "PrefixConfig", name, f"it is {getattr(self, name)!r}", "Use True or False."
                )
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
        d_hidden: the width of the network; None for a direct prefix.
        init_std: of the embedding's first values; 1 as in peft.
        generator: draws them; torch's own by default.

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
        init_std: float = 1.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.n_layers, self.n_heads, self.d_model = n_layers, n_heads, d_model
        width = n_layers * 2 * d_model
        self.embedding = nn.Parameter(torch.empty(n_tokens, d_model if d_hidden else width))
        nn.init.normal_(self.embedding, std=init_std, generator=generator)
        self.transform: nn.Sequential | None = None
        if d_hidden:
            # skip_init: the constructor would draw from torch's own state
            first = skip_init(nn.Linear, d_model, d_hidden)
            second = skip_init(nn.Linear, d_hidden, width)
            self.transform = nn.Sequential(first, nn.Tanh(), second)
            for linear in (first, second):
                bound = linear.in_features**-0.5  # as the constructor does
                nn.init.uniform_(linear.weight, -bound, bound, generator=generator)
                nn.init.uniform_(linear.bias, -bound, bound, generator=generator)

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

    @torch.no_grad()
    def folded(self) -> Self:
        """The direct prefix with the same keys and values, without the network."""
        size = (self.n_tokens, self.n_layers, self.n_heads, self.d_model)
        direct = type(self)(*size, generator=torch.Generator())
        direct.embedding = nn.Parameter(self.rows().detach().clone())
        return direct


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


# ------------------------------------------------------------------ into the attention


@contextmanager
def prefixes_in(
    base: BartForConditionalGeneration,
    prefixes: Mapping[str, Prefix],
    *,
    shift_positions: bool = False,
) -> Iterator[None]:
    """Let an unmodified BART see prefixes while the block runs: hooks fill its key-value caches.

    Args:
        base: any BART.
        prefixes: by "decoder", "cross" and "encoder"; any may be left out.
        shift_positions: whether the decoder's prefix counts as tokens that came before.
    """
    encoder, decoder = base.model.encoder, base.model.decoder
    with ExitStack() as hooks:

        def before(module: nn.Module, change: Any) -> None:
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

        def fill_decoder(tokens: Tensor, kwargs: dict[str, Any]) -> dict[str, Any]:
            return _filled_cache(decoder, prefixes, tokens, kwargs)

        def keep_positions(tokens: Tensor, kwargs: dict[str, Any]) -> dict[str, Any]:
            return {"position_ids": kwargs["position_ids"] - prefixes["decoder"].n_tokens}

        if "encoder" in prefixes:
            before(encoder, fill_encoder)
            for layer in encoder.layers:
                before(layer.self_attn, _WidenMask(prefixes["encoder"].n_tokens))
        if "cross" in prefixes:
            for layer in decoder.layers:
                before(layer.encoder_attn, _WidenMask(prefixes["cross"].n_tokens))
        if "decoder" in prefixes and not shift_positions:
            before(decoder.embed_positions, keep_positions)
        if "decoder" in prefixes or "cross" in prefixes:
            before(decoder, fill_decoder)
            hooks.callback(decoder.register_forward_hook(_drop_cache, with_kwargs=True).remove)
        yield


def _filled_cache(
    decoder: BartDecoder, prefixes: Mapping[str, Prefix], tokens: Tensor, kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Fill the decoder's cache if it is empty; the encoder's keys are added after the prefix."""
    cache = kwargs.get("past_key_values")
    if cache is None:
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    _check_cache(cache)
    if cache.get_seq_length() == 0:
        if "decoder" in prefixes:
            _fill(cache.self_attention_cache, prefixes["decoder"], tokens, decoder)
        if "cross" in prefixes:
            _fill(cache.cross_attention_cache, prefixes["cross"], tokens, decoder)
    positions, limit = cache.get_seq_length() + tokens.shape[1], decoder.config
    if positions > limit.max_position_embeddings:
        prefix = prefixes["decoder"].n_tokens if "decoder" in prefixes else 0
        raise InputError(
            "sequence",
            f"{positions} positions",
            f"the decoder has {limit.max_position_embeddings}, of which the prefix takes {prefix}",
            'Use RecordDataset(..., max_tokens=model.max_tokens, too_long="cut"), or fewer '
            "tokens in the prefix.",
        )
    changed: dict[str, Any] = {"past_key_values": cache}
    mask = kwargs.get("attention_mask")
    if mask is not None and mask.ndim == 2 and mask.shape[1] < positions:
        ones = mask.new_ones(mask.shape[0], positions - mask.shape[1])
        changed["attention_mask"] = torch.cat([ones, mask], dim=1)
    return changed


class _WidenMask:
    """Let every query see the prefix, for which an attention's mask has no columns."""

    def __init__(self, n_tokens: int) -> None:
        self.n_tokens = n_tokens

    def __call__(self, tokens: Tensor, kwargs: dict[str, Any]) -> dict[str, Any]:
        mask = kwargs.get("attention_mask")
        if mask is None:  # everything is seen
            return {}
        if not isinstance(mask, Tensor):
            raise InputError(
                "prefix tuning",
                "attention",
                f"its mask is a {type(mask).__name__}",
                'Use model.set_attn_implementation("sdpa") or "eager".',
            )
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


def _check_cache(cache: Cache) -> None:
    parts = [getattr(cache, f"{name}_attention_cache", None) for name in ("self", "cross")]
    if not all(isinstance(part, DynamicCache) for part in parts):
        raise InputError(
            "prefix tuning",
            "past_key_values",
            f"a prefix cannot be put into a {type(cache).__name__} of this kind",
            "Use an EncoderDecoderCache of two DynamicCaches, which is what generate makes.",
        )


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

    Raises:
        InputError: if the base is not a BART or uses gradient checkpointing, or a decoder prefix
            leaves no position for a token.

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
        _check_base(base, prefix_config)
        self.base, self.prefix_config = base.requires_grad_(False), prefix_config
        generator = torch.Generator().manual_seed(seed)
        self.prefixes = nn.ModuleDict()
        for side in prefix_config.sides:
            stack = "encoder" if side == "encoder" else "decoder"
            self.prefixes[side] = Prefix(
                prefix_config.n_tokens,
                n_layers=getattr(base.config, f"{stack}_layers"),
                n_heads=getattr(base.config, f"{stack}_attention_heads"),
                d_model=base.config.d_model,  # type: ignore[arg-type]  # every BART has one
                d_hidden=prefix_config.d_hidden,
                generator=generator,
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
        return _longest(self.base) - taken

    @property
    def n_trainable(self) -> int:
        """How many parameters are trained."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the base with the prefixes, whose n_tokens columns come first in attentions.

        Raises:
            InputError: as the base does, or if prefix and sequence are too long together.
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
            # transformers annotates self with a type that no model has.
            return self.base.generate(*args, **kwargs)  # type: ignore[misc]

    @contextmanager
    def _prefixes(self) -> Iterator[None]:
        _check_no_checkpointing(self.base)
        shift = self.prefix_config.shift_positions
        with prefixes_in(self.base, self._by_side(), shift_positions=shift):
            yield

    def _by_side(self) -> dict[str, Prefix]:
        """The prefixes, which a ModuleDict only knows to be modules."""
        found = {}
        for side, prefix in self.prefixes.items():
            assert isinstance(prefix, Prefix)
            found[side] = prefix
        return found

    def fold(self) -> Self:
        """Replace each network by the keys and values that it makes, and return the model.

        Outputs stay the same. To go on training, make a new optimizer: the parameters are others.
        """
        for side, prefix in self._by_side().items():
            self.prefixes[side] = prefix.folded()
        self.prefix_config = replace(self.prefix_config, d_hidden=None)
        return self

    def save(self, folder: str | Path) -> None:
        """Write the prefix, without its base, to a folder; a prefix that is there is replaced.

        Raises:
            InputError: if it cannot be written, or the folder holds something else.
        """
        fields = asdict(self.prefix_config) | {"base": fingerprint(self.base)}
        _write(folder, {CONFIG: fields, WEIGHTS: self.prefixes.state_dict()})

    @classmethod
    def load(cls, folder: str | Path, base: BartForConditionalGeneration) -> Self:
        """Read what ``save`` wrote, for the same base.

        Raises:
            InputError: if a file is missing or damaged, or the base has other weights.
        """
        fields = _read_json(Path(folder) / CONFIG)
        trained_for = fields.pop("base", None)
        try:
            config = PrefixConfig(**fields)
        except TypeError:
            raise InputError(
                Path(folder) / CONFIG,
                "",
                "these are not the settings of a prefix",
                "Save the prefix again.",
            ) from None
        if trained_for != fingerprint(base):
            raise InputError(
                folder,
                "base",
                "the prefix was trained for a model with other weights, to which it means nothing",
                "Load it with the base that it was trained with, in the same precision.",
            )
        model, tensors = cls(base, config), _read_tensors(Path(folder) / WEIGHTS)
        needed = {
            name: tuple(tensor.shape) for name, tensor in model.prefixes.state_dict().items()
        }
        found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        for name in sorted(needed.keys() | found.keys()):
            if needed.get(name) != found.get(name):
                raise InputError(
                    folder,
                    name,
                    f"the file has shape {found.get(name)}, the prefix needs {needed.get(name)}",
                    "Save the prefix again.",
                )
        model.prefixes.load_state_dict(tensors)
        return model

    def save_as_peft(self, folder: str | Path) -> None:
        """Write the prefix, network folded, as ``peft.PeftModel.from_pretrained`` reads it.

        peft runs a plain BART only: it calls a model with arguments that PromptBart does not take.

        Raises:
            InputError: if the prefix is not for the decoder alone with shifted positions, or the
                folder cannot be written or holds something else.
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
        dealt = rows.new_zeros(n_tokens, 4 * layers, width)
        dealt[:, peft_vectors(layers, 2 * layers)] = rows.view(n_tokens, layers, 2, width)
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
        _write(
            folder,
            {"adapter_config.json": fields, "adapter_model.safetensors": weights},
            may_hold="README.md",  # which peft writes beside them
        )


def peft_vectors(n_layers: int, peft_layers: int) -> Tensor:
    """Which of peft's vectors are a layer's key and value, (n_layers, 2).

    In peft a token is ``2 * num_layers`` vectors of the model's width. For an encoder-decoder
    these are repeated once and dealt out by fours: key and value of the decoder's self-attention,
    and two for the cross-attention, which are thrown away. So layer l gets vectors 4l and 4l + 1,
    modulo ``2 * num_layers``. In a model with an even number of layers two layers share theirs,
    unless the adapter's num_layers is twice the model's, as it is written here.

    Args:
        n_layers: of the model's decoder.
        peft_layers: what the adapter calls num_layers.

    >>> peft_vectors(2, 2).tolist()
    [[0, 1], [0, 1]]
    >>> peft_vectors(2, 4).tolist()
    [[0, 1], [4, 5]]
    """
    first = 4 * torch.arange(n_layers) % (2 * peft_layers)
    return torch.stack([first, first + 1], dim=1)


def _longest(base: BartForConditionalGeneration) -> int:
    return getattr(base, "max_tokens", base.config.max_position_embeddings)


def _check_base(base: BartForConditionalGeneration, config: PrefixConfig) -> None:
    if not isinstance(base, BartForConditionalGeneration):
        raise InputError(
            "PrefixTuned",
            "base",
            f"a {type(base).__name__} is not a BART",
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


def _write(folder: str | Path, files: Mapping[str, Mapping[str, Any]], may_hold: str = "") -> None:
    """Write fields as JSON and tensors as safetensors, whole or not at all."""
    folder = Path(folder).absolute()  # "." has no name beside which to write
    there = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    others = sorted(there - files.keys() - {may_hold})
    if others:
        raise InputError(
            folder, others[0], "the folder holds something else", "Name a new or empty folder."
        )
    try:
        with new_folder(folder, overwrite=True) as unfinished:
            for name, content in files.items():
                path = unfinished / name
                if path.suffix == ".json":
                    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
                    mode = path.stat().st_mode
                    continue
                whole = {
                    key: tensor.detach().cpu().contiguous() for key, tensor in content.items()
                }
                save_file(whole, path, metadata={"format": "pt"})
                path.chmod(mode)  # safetensors makes it readable by its owner only
    except (OSError, SafetensorError) as error:
        raise InputError(
            folder,
            "",
            f"the folder cannot be written ({error})",
            "Make room, or name a place where you may write.",
        ) from error


def _read_json(path: Path) -> dict[str, Any]:
    _check_there(path)
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError):
        fields = None
    if not isinstance(fields, dict):
        raise InputError(path, "", "the file is damaged: it is not JSON", "Copy or save it again.")
    return fields


def _read_tensors(path: Path) -> dict[str, Tensor]:
    _check_there(path)
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise InputError(
            path, "", f"the file is truncated or damaged ({error})", "Copy or save it again."
        ) from None


def _check_there(path: Path) -> None:
    if not path.parent.is_dir():
        raise InputError(path.parent, "", "there is no such folder", "Check the path.")
    if not path.is_file():
        raise InputError(path.parent, path.name, "the file is missing", "Save the prefix again.")
