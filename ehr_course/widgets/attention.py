"""Look at the attention of a model on one record: every layer, every head, every cell."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anywidget
import matplotlib
import numpy as np
import torch
import traitlets

from ehr_course.batches.collate import demographics
from ehr_course.code_system import CodeSystem
from ehr_course.generation.beam_search import evaluating
from ehr_course.plots.attention import (
    COLOUR_MAP,
    GAMMA,
    KIND_NAMES,
    KINDS,
    READING,
    AttentionMap,
    Kind,
    attention_title,
    describe_attention,
    draw_attention,
    favourite,
)
from ehr_course.plots.style import Picture, code_title, count, written
from ehr_course.records import PatientRecord
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets import states

STEPS = 2**16 - 1
"""A weight goes to the browser as a whole number of 1/65,535."""


def attention_of(model: Any, batch: Mapping[str, torch.Tensor]) -> dict[Kind, np.ndarray]:
    """Run a PromptBart on a batch, without dropout or labels, and return every attention weight.

    Prompts count as tokens. Each row sums to 1 over its columns; rows of padding mean nothing.

    Returns:
        float32 arrays by kind: ``encoder`` (batch, layers, heads, source, source), ``decoder``
        (batch, layers, heads, target, target) and ``cross`` (batch, layers, heads, target,
        source).
    """
    device = next(model.parameters()).device
    inputs = {name: tensor.to(device) for name, tensor in batch.items() if name != "labels"}
    with evaluating(model):
        output = model(**inputs, output_attentions=True, use_cache=False)
    return {
        kind: torch.stack(output[f"{kind}_attentions"], dim=1).float().cpu().numpy()
        for kind in KINDS
    }


def record_attention(
    model: Any, tokenizer: CodeTokenizer, record: PatientRecord, *, most_tokens: int = 60
) -> dict[Kind, AttentionMap]:
    """The three attentions of a model that reads an uncorrupted record and writes the same record.

    The decoder reads it shifted right: the row of a token shows where the model looks before it
    writes the next. Later visits that would exceed ``most_tokens`` are left out.
    """
    ids, visit_of = _encoded(tokenizer, record, most_tokens)
    source = torch.tensor([ids])
    start = [tokenizer.eos_id]  # BART starts its decoder with the token that ends a sequence
    weights = attention_of(
        model,
        {
            "input_ids": source,
            "attention_mask": torch.ones_like(source),
            "decoder_input_ids": torch.tensor([start + ids[:-1]]),
            **demographics([record.age], [record.sex]),
        },
    )
    labels = [written(token, tokenizer.system) for token in tokenizer.tokens(ids)]
    names = [
        label if visit is None else f"{label} of visit {visit}"
        for label, visit in zip(labels, visit_of, strict=True)
    ]
    read = labels, names
    shifted = ["<EOS>", *labels[:-1]], ["<EOS> at the start", *names[:-1]]
    maps: dict[Kind, AttentionMap] = {}
    for kind, rows, columns in (
        (KINDS[0], read, read),
        (KINDS[1], shifted, shifted),
        (KINDS[2], shifted, read),
    ):
        array = weights[kind][0]  # (layers, heads, rows, columns)
        row_prompts = _prompt_labels(record, array.shape[2] - len(ids))
        column_prompts = _prompt_labels(record, array.shape[3] - len(ids))
        maps[kind] = AttentionMap(
            kind,
            array,
            (*row_prompts, *rows[0]),
            (*column_prompts, *columns[0]),
            (*row_prompts, *rows[1]),
            (*column_prompts, *columns[1]),
            writes=() if kind == "encoder" else (*[""] * len(row_prompts), *labels),
            system=tokenizer.system,
        )
    return maps


def visits_shown(tokenizer: CodeTokenizer, record: PatientRecord, *, most_tokens: int = 60) -> int:
    """How many visits :func:`record_attention` keeps, counted from the first."""
    length = 2  # <BOS> and <EOS>
    for place, visit in enumerate(record.visits):
        length += len(tokenizer.encode_visit(visit))
        if length > most_tokens and place > 0:
            return place
    return len(record.visits)


def _encoded(
    tokenizer: CodeTokenizer, record: PatientRecord, most_tokens: int
) -> tuple[list[int], list[int | None]]:
    """Token ids, and the number of the visit of each: None outside, or where one visit is all."""
    visits = record.visits[: visits_shown(tokenizer, record, most_tokens=most_tokens)]
    ids = [tokenizer.bos_id]
    visit_of: list[int | None] = [None]
    for number, visit in enumerate(visits, start=1):
        tokens = tokenizer.encode_visit(visit)
        ids += tokens
        visit_of += [number if len(visits) > 1 else None] * len(tokens)
    return [*ids, tokenizer.eos_id], [*visit_of, None]


def _prompt_labels(record: PatientRecord, n_prompts: int) -> list[str]:
    age, sex = f"age {record.age}", f"sex {record.sex}"
    known = {0: [], 1: [f"{age}, sex {record.sex}"], 2: [age, sex]}
    return known.get(n_prompts) or [f"prompt {i}" for i in range(n_prompts)]


class AttentionExplorer(anywidget.AnyWidget):
    """A heat map that the browser draws: all weights are there, and no kernel is asked.

    Choose the kind, the layer and the head; point at a cell, or move the chosen one with the
    arrow keys. In a stored notebook and on any page without a kernel, the heat map and its
    alternative text are shown as they were when the widget was displayed. In the book kind, layer
    and head move without a kernel.

    Attributes:
        kind: "encoder", "decoder" or "cross".
        layer: counted from 0.
        head: counted from 0.
        row: of the chosen cell.
        column: of the chosen cell.
    """

    _esm = Path(__file__).with_name("attention.js")
    _css = Path(__file__).with_name("attention.css")

    kind = traitlets.Enum(KINDS, "encoder").tag(sync=True)
    layer = traitlets.Int(0, min=0).tag(sync=True)
    head = traitlets.Int(0, min=0).tag(sync=True)
    row = traitlets.Int(0, min=0).tag(sync=True)
    column = traitlets.Int(0, min=0).tag(sync=True)

    _content = traitlets.Dict().tag(sync=True)
    _weights = traitlets.Bytes().tag(sync=True)

    def __init__(
        self,
        maps: dict[Kind, AttentionMap],
        *,
        note: str = "",
        kind: Kind = "encoder",
        layer: int = 0,
        head: int = 0,
    ) -> None:
        """Show these maps.

        Args:
            maps: the three attentions of one record.
            note: a sentence that stands under the heat map.
            kind: which attention is shown at first.
            layer: which layer is shown at first, counted from 0.
            head: which head is shown at first, counted from 0.
        """
        steps = {kind: np.rint(maps[kind].weights * STEPS).astype("<u2") for kind in KINDS}
        # The picture is drawn of the very numbers that the browser has, so that both say the same.
        self._maps = {
            kind: AttentionMap(**(vars(maps[kind]) | {"weights": steps[kind] / STEPS}))
            for kind in KINDS
        }
        first = self._maps[kind]
        row = first.first_code
        layers, heads = first.weights.shape[:2]
        super().__init__(
            kind=kind,
            layer=layer,
            head=head,
            row=row,
            column=first.strongest(min(layer, layers - 1), min(head, heads - 1), row),
            _content=self._described(note),
            _weights=b"".join(steps[kind].tobytes() for kind in KINDS),
        )

    def _described(self, note: str) -> dict[str, Any]:
        """What the browser needs beside the weights."""
        labels = {label for one in self._maps.values() for label in (*one.rows, *one.columns)}
        colours = matplotlib.colormaps[COLOUR_MAP](np.linspace(0, 1, 64))
        meaning = partial(_meaning, system=self._maps["encoder"].system)
        return {
            "maps": {kind: _described(one) for kind, one in self._maps.items()},
            "meanings": {label: text for label in sorted(labels) if (text := meaning(label))},
            "colours": [matplotlib.colors.to_hex(colour) for colour in colours],
            "gamma": GAMMA,
            "steps": STEPS,
            "note": note,
        }

    def _place(self) -> dict[str, int]:
        """Layer, head and row, each the last one where this attention has fewer."""
        sizes = self._maps[self.kind].weights.shape
        wanted = {"layer": self.layer, "head": self.head, "row": self.row}
        return {
            name: min(value, size - 1)
            for (name, value), size in zip(wanted.items(), sizes, strict=False)
        }

    @property
    def title(self) -> str:
        """Which column the chosen row looks at most."""
        return attention_title(self._maps[self.kind], **self._place())

    @property
    def alternative_text(self) -> str:
        """The heat map in one sentence."""
        return describe_attention(self._maps[self.kind], **self._place())

    @property
    def picture(self) -> Picture:
        """The heat map as a picture, for a page without a kernel."""
        return draw_attention(self._maps[self.kind], **self._place())

    def states(self) -> dict[str, Any]:
        """The heat maps that the book moves through, as the content of an output."""

        def state(kind: Kind, layer: int, head: int, row: int) -> states.State:
            picture = draw_attention(self._maps[kind], layer=layer, head=head, row=row)
            return states.state_of((KIND_NAMES[kind], str(layer), str(head)), picture)

        place = self._place()
        opens = (self.kind, place["layer"], place["head"])
        found = {
            (kind, layer, head): state(
                kind,
                layer,
                head,
                place["row"] if (kind, layer, head) == opens else one.first_code,
            )
            for kind, one in self._maps.items()
            for layer in range(one.weights.shape[0])
            for head in range(one.weights.shape[1])
        }
        controls = [
            {"description": name, "kind": kind}
            for name, kind in (("attention", "choice"), ("layer", "slider"), ("head", "slider"))
        ]
        return states.output_of(controls, list(found.values()), found[opens])

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict, dict]:
        data, metadata = self.picture._repr_mimebundle_()
        if states.wanted():
            data[states.STATES] = self.states()
        view, view_metadata = super()._repr_mimebundle_(**kwargs) or ({}, {})
        return view | data, view_metadata | metadata


def attention_explorer(
    model: Any,
    tokenizer: CodeTokenizer,
    record: PatientRecord,
    *,
    most_tokens: int = 60,
    kind: Kind = "encoder",
    layer: int = 0,
    head: int = 0,
) -> AttentionExplorer:
    """Let the model read a record, and look at its encoder, decoder and cross attention.

    The encoder reads the record as it is, nothing corrupted, and the decoder reads it shifted to
    the right: the row of a token shows where the model looks before it writes the next one.

    Args:
        model: a PromptBart.
        tokenizer: the one that the model was trained with.
        record: the patient.
        most_tokens: later visits that would make the sequence longer than this are left out,
            for the model too; a note under the heat map says so.
        kind: "encoder", "decoder" or "cross": which attention is shown at first.
        layer: which layer is shown at first, counted from 0.
        head: which head is shown at first, counted from 0.

    Raises:
        InputError: if a code is not in the vocabulary and the tokenizer's policy is "raise", or
            the first visit alone is longer than the model's positions.
    """
    maps = record_attention(model, tokenizer, record, most_tokens=most_tokens)
    shown = visits_shown(tokenizer, record, most_tokens=most_tokens)
    left_out = len(record.visits) - shown
    note = ""
    if left_out:
        verb = "is" if left_out == 1 else "are"
        first = count(shown, "visit")
        note = f"The model reads the first {first}; {left_out} more {verb} left out."
    return AttentionExplorer(maps, note=note, kind=kind, layer=layer, head=head)


def _described(one: AttentionMap) -> dict[str, Any]:
    layers, heads, _, _ = one.weights.shape
    return {
        "name": KIND_NAMES[one.kind],
        "reading": READING[one.kind],
        "layers": layers,
        "heads": heads,
        "rows": one.rows,
        "columns": one.columns,
        "rowNames": one.row_names,
        "rowLabels": one.row_labels,
        "writes": one.writes,
        "columnNames": one.column_names,
        "causal": one.causal,
        "favourites": [
            [list(favourite(one, layer=layer, head=head)) for head in range(heads)]
            for layer in range(layers)
        ],
    }


_SPECIAL = {
    "<BOS>": "the record begins",
    "<EOS>": "the record ends, or the decoder starts",
    "<v>": "a visit begins",
    "<\\v>": "a visit ends",
}


def _meaning(label: str, *, system: CodeSystem) -> str:
    """What a label stands for, or nothing where it says so itself."""
    return _SPECIAL.get(label) or code_title(label, system)
