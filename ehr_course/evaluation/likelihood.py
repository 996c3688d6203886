"""How probable a model finds the tokens of records, never reading the token that is asked for.

A token is scored given age, sex and the tokens before it; or, with its visit alone in the encoder
and ``<mask>`` in its place, given the other codes of the visit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from ehr_course.batches.collate import demographics
from ehr_course.batches.datasets import cut_record
from ehr_course.batches.ragged import Ragged
from ehr_course.errors import InputError
from ehr_course.generation.beam_search import evaluating
from ehr_course.records import PatientRecord
from ehr_course.tokenizers.codes import CodeTokenizer

MOST_LOGITS = 2**25
"""How many logits are in memory at a time, at most: 128 MiB."""


class ScoredRecords:
    """Records as a model reads them, ready to be scored.

    Args:
        tokenizer: unseen="raise" raises at a code that it does not know, "skip" leaves it out.
        batch_size: how many sequences go through the model at a time; fewer if they are long.

    Attributes:
        tokens: Ragged, the ids of each record, without the last visits of one that is too long; a
            patient without a known code has <BOS> and <EOS>.
        cut: how many records were cut.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: CodeTokenizer,
        records: Sequence[PatientRecord],
        *,
        batch_size: int = 64,
        progress: bool = False,
    ) -> None:
        if not len(records):
            raise InputError("records", "", "the list is empty", "Give at least one patient.")
        if batch_size < 1:
            raise InputError(
                "batch_size", "", f"{batch_size!r} is not a batch size", "Use 1 or more."
            )
        if model.config.vocab_size != len(tokenizer):
            raise InputError(
                "tokenizer",
                "",
                f"it has {len(tokenizer)} tokens, the model {model.config.vocab_size}",
                "Use the tokenizer that the model was trained with.",
            )
        rows = [tokenizer.encode(record) for record in records]
        self.cut = sum(len(row) > model.max_tokens for row in rows)
        limit = model.max_tokens
        self.tokens = Ragged.from_lists([cut_record(row, limit, tokenizer) for row in rows])
        self.model, self.tokenizer = model, tokenizer
        self.batch_size, self.progress = batch_size, progress
        self._people = demographics([r.age for r in records], [r.sex for r in records])

    def nats_in_order(self) -> np.ndarray:
        """What each token costs given those before it: -log of its probability, in nats.

        float64, flat, one for each token in ``tokens``; 0 for <BOS>, which is given.
        """
        lengths, offsets = self.tokens.lengths, self.tokens.offsets
        nats = np.zeros(len(self.tokens.values))
        order = np.argsort(lengths, kind="stable")
        with evaluating(self.model), self._bar("records", len(order)) as bar:
            for rows in self._batches(order, lengths[order]):
                ids, inside = self.tokens.take(rows).padded(self.tokenizer.pad_id)
                inside[:, 0] = False
                clean = torch.from_numpy(ids)
                start = torch.full((len(rows), 1), self.tokenizer.eos_id)
                logits = self._logits(
                    torch.tensor([self.tokenizer.empty_record] * len(rows)),
                    torch.cat([start, clean[:, :-1]], dim=1),
                    rows,
                )  # (batch, target, vocabulary)
                cost = _nats(logits, clean.to(logits.device))
                row, place = np.nonzero(inside)
                nats[offsets[rows][row] + place] = cost[row, place]
                bar.update(len(rows))
        return nats

    def nats_in_visits(self) -> np.ndarray:
        """What each code costs given the other codes of its visit, in nats.

        float64, flat, one for each token in ``tokens``; 0 for all that are no code.
        """
        ids = self.tokens.values
        nats = np.zeros(len(ids))
        starts = np.flatnonzero(ids == self.tokenizer.visit_start_id)
        n_codes = np.flatnonzero(ids == self.tokenizer.visit_end_id) - starts - 1
        owner = np.searchsorted(self.tokens.offsets, starts, side="right") - 1
        # One sequence a code: visit and place in it. Visits of one length lie side by side.
        order = np.argsort(n_codes, kind="stable")
        visit = np.repeat(order, n_codes[order])
        place = np.concatenate([np.arange(n) for n in n_codes[order]] or [np.empty(0)]).astype(
            np.int64
        )
        with evaluating(self.model), self._bar("codes", len(visit)) as bar:
            for chosen in self._batches(np.arange(len(visit)), n_codes[visit] + 4, alike=True):
                rows, at = visit[chosen], place[chosen]
                n = n_codes[rows[0]]
                codes = ids[starts[rows][:, None] + 1 + np.arange(n)]
                logits = self._logits(*_one_code_hidden(codes, at, self.tokenizer), owner[rows])
                each = torch.arange(len(rows), device=logits.device)
                last = torch.from_numpy(at + 2).to(logits.device)
                scored = ids[starts[rows] + 1 + at]
                target = torch.from_numpy(scored).to(logits.device)
                nats[starts[rows] + 1 + at] = _nats(logits[each, last], target)
                bar.update(len(rows))
        return nats

    def _logits(self, encoder: Tensor, decoder: Tensor, patients: np.ndarray) -> Tensor:
        """The logits of a batch; a decoder never looks ahead, so its padding needs no mask."""
        batch = {
            "input_ids": encoder,
            "attention_mask": torch.ones_like(encoder),
            "decoder_input_ids": decoder,
            "x_num": self._people["x_num"][patients],
            "x_cat": self._people["x_cat"][patients],
        }
        device = self.model.device
        return self.model(**{name: part.to(device) for name, part in batch.items()}).logits

    def _batches(
        self, order: np.ndarray, lengths: np.ndarray, *, alike: bool = False
    ) -> Iterator[np.ndarray]:
        """Runs of what is sorted by length, small enough; with ``alike`` of one length each."""
        vocabulary = self.model.config.vocab_size
        first = 0
        while first < len(order):
            last = min(first + self.batch_size, len(order))
            if alike:
                last = first + int(np.searchsorted(lengths[first:last], lengths[first], "right"))
            while last - first > 1 and (
                (last - first) * int(lengths[last - 1]) * vocabulary > MOST_LOGITS
            ):
                last = first + (last - first) // 2
            yield order[first:last]
            first = last

    def _bar(self, unit: str, total: int) -> tqdm:
        # Without an argument tqdm asks TQDM_DISABLE, which is set where no bar is to be stored.
        hidden = {} if self.progress else {"disable": True}
        return tqdm(total=total, unit=f" {unit}", **hidden)


def _one_code_hidden(
    codes: np.ndarray, at: np.ndarray, tokenizer: CodeTokenizer
) -> tuple[Tensor, Tensor]:
    """What the encoder and the decoder read: (batch, codes + 4) and (batch, codes + 2).

    ``codes`` are int64 (batch, codes), ``at`` int64 (batch,) the place of the hidden code in each.
    """
    n_rows, n = codes.shape
    hidden = codes.copy()
    hidden[np.arange(n_rows), at] = tokenizer.mask_id
    before = np.where(np.arange(n) < at[:, None], codes, tokenizer.pad_id)

    def column(token: int) -> np.ndarray:
        return np.full((n_rows, 1), token)

    bos, start = column(tokenizer.bos_id), column(tokenizer.visit_start_id)
    stop, eos = column(tokenizer.visit_end_id), column(tokenizer.eos_id)
    encoder = np.concatenate([bos, start, hidden, stop, eos], axis=1)
    # BART starts with <EOS>; the last code of a visit is never read, only asked for.
    decoder = np.concatenate([eos, bos, start, before[:, :-1]], axis=1)
    return torch.from_numpy(encoder), torch.from_numpy(decoder)


def _nats(logits: Tensor, target: Tensor) -> np.ndarray:
    """-log softmax at the target: logits (..., vocabulary), target int64 (...)."""
    flat = functional.cross_entropy(
        logits.float().flatten(0, -2), target.flatten(), reduction="none"
    )
    return flat.view(target.shape).double().cpu().numpy()


def record_log_likelihood(
    model: Any,
    tokenizer: CodeTokenizer,
    records: Sequence[PatientRecord],
    *,
    batch_size: int = 64,
    progress: bool = False,
) -> np.ndarray:
    """The log-probability of each whole record given age and sex, in nats, 0 or less.

    Float64 (records,): the sum over all tokens after ``<BOS>``, to be divided by their number to
    compare records; ``nan`` for a patient whose codes are all unknown to the tokenizer.
    """
    scored = ScoredRecords(model, tokenizer, records, batch_size=batch_size, progress=progress)
    per_record = -np.add.reduceat(scored.nats_in_order(), scored.tokens.offsets[:-1])
    return np.where(scored.tokens.lengths > 2, per_record, np.nan)
