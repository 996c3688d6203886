"""Prefixes as adapters of the peft package, without importing it.

peft lays a prefix out in rows: token by token, and within a token ``2 * num_layers`` vectors of
the model's width. For an encoder-decoder it puts these vectors twice after one another and deals
them out by fours: key and value of the decoder's self-attention, and two for the cross-attention,
which it throws away. So layer ``l`` gets the vectors ``4 l`` and ``4 l + 1``, counted modulo
``2 * num_layers``:

* where the model has an odd number of layers, each gets its own, in another order;
* where it has an even number, layers ``l`` and ``l + layers / 2`` share theirs, and half of the
  vectors are never used.

An adapter that says ``num_layers`` is twice the model's has a vector for every layer. That is
what is written here; the vectors that peft throws away are zero.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ehr_course.models.prefix import Prefix
from ehr_course.models.prefix_files import (
    write_json,
    write_tensors,
    written_whole,
)

CONFIG, WEIGHTS, ROWS = "adapter_config.json", "adapter_model.safetensors", "prompt_embeddings"
_README = "README.md"  # which peft writes beside them


def peft_vectors(n_layers: int, peft_layers: int) -> Tensor:
    """Which of peft's vectors are a layer's key and value, (n_layers, 2).

    Args:
        n_layers: of the model's decoder.
        peft_layers: what the adapter calls num_layers.

    >>> peft_vectors(3, 3).tolist()
    [[0, 1], [4, 5], [2, 3]]
    >>> peft_vectors(2, 2).tolist()
    [[0, 1], [0, 1]]
    >>> peft_vectors(2, 4).tolist()
    [[0, 1], [4, 5]]
    """
    first = 4 * torch.arange(n_layers) % (2 * peft_layers)
    return torch.stack([first, first + 1], dim=1)


def write_peft(folder: str | Path, prefix: Prefix) -> None:
    """Write a direct prefix as an adapter of peft, whole or not at all.

    Args:
        folder: one that is there is replaced if it holds an adapter.
        prefix: of the decoder.

    Raises:
        InputError: if the folder cannot be written or holds something else.
    """
    n_tokens, layers, width = prefix.n_tokens, prefix.n_layers, prefix.d_model
    rows = prefix.rows().detach()
    dealt = rows.new_zeros(n_tokens, 4 * layers, width)
    own = rows.view(n_tokens, layers, 2, width)
    dealt[:, peft_vectors(layers, 2 * layers)] = own
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
    with written_whole(folder, {CONFIG, WEIGHTS, _README}) as unfinished:
        write_json(unfinished / CONFIG, fields)
        write_tensors(unfinished / WEIGHTS, {ROWS: dealt.flatten(1)})
