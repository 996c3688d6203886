r"""The grammar of a record, and how tokens are drawn by it.

A record is ``<BOS>``, visits, ``<EOS>``; a visit is ``<v>``, one or more different codes and
``<\v>``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ehr_course.generation.eligible import EligibleOnly
from ehr_course.generation.patient_decoder import Decoder, KnownIds
from ehr_course.generation.sampling import Sampling, draw
from ehr_course.tokenizers.codes import CodeTokenizer

_OUTSIDE, _OPENED, _HAS_CODE = range(3)  # between visits; in a visit without and with a code


class PatientWriting:
    """A batch of patients, one token each at a step; when a row is done, the last takes its place.

    Args:
        uniforms: float64 (batch, limit), from 0 to below 1: each decides a token.
        eligible: it counts what is kept out, or None where nothing is.
        ruled_out: bool (batch, vocabulary), what it keeps out.
    """

    def __init__(
        self,
        decoder: Decoder,
        uniforms: Tensor,
        sampling: Sampling,
        eligible: EligibleOnly | None = None,
        ruled_out: Tensor | None = None,
    ) -> None:
        tokenizer = decoder.tokenizer
        self.decoder, self.tokenizer, self.sampling = decoder, tokenizer, sampling
        device, n_tokens = decoder.logits.device, len(tokenizer)
        rows, self.limit = uniforms.shape
        self.uniforms = uniforms.T.contiguous().to(device)  # (limit, batch)
        self.written = torch.full(uniforms.shape, tokenizer.eos_id, device=device)
        self.written[:, 0], self.written[:, 1] = tokenizer.bos_id, tokenizer.visit_start_id
        self.patients = torch.arange(rows, device=device)
        self.state = torch.full((rows,), _OPENED, device=device)
        self.used = torch.zeros(rows, n_tokens, dtype=torch.bool, device=device)
        self.state_after = torch.full((n_tokens,), _HAS_CODE, device=device)
        self.state_after[tokenizer.visit_start_id] = _OPENED
        self.state_after[tokenizer.visit_end_id] = _OUTSIDE
        self.eligible = eligible
        self.ruled_out = None if ruled_out is None else ruled_out.to(device)
        known = [condition.known for condition in decoder.conditions]
        self.script = _Script(known, tokenizer, device) if any(known) else None

    def finish(self) -> list[list[int]]:
        """Write until every record has ended, and return the ids of each."""
        for step in range(2, self.limit):
            left = self.limit - step
            if step == 2 or left < 4:
                closed = self._closed(left)
            forbidden = closed.index_select(0, self.state).logical_or_(self.used)
            if self.script is not None:
                self.script.add_to(forbidden, self.state, left)
            if self.eligible is not None and self.ruled_out is not None:
                forbidden |= self._kept_out(forbidden, self.eligible, self.ruled_out)
            token = draw(self._probabilities(forbidden), self.uniforms[step, self.patients])
            token = self._write(token, step)
            if not len(token):
                break
            self.decoder.read(token)
        lengths = (self.written != self.tokenizer.eos_id).sum(1) + 1
        return [
            row[:length].tolist()
            for row, length in zip(self.written.cpu(), lengths.tolist(), strict=True)
        ]

    def _probabilities(self, forbidden: Tensor) -> Tensor:
        return self.sampling.probabilities(self.decoder.logits.masked_fill(forbidden, -math.inf))

    def _kept_out(self, forbidden: Tensor, eligible: EligibleOnly, of_all: Tensor) -> Tensor:
        """What else is forbidden because the patient cannot have it; what is known stays."""
        ruled_out = of_all[self.patients]
        free = torch.ones(len(ruled_out), 1, dtype=torch.bool, device=ruled_out.device)
        if self.script is not None:
            free = self.script.forced()[:, None] < 0
        codes = slice(self.tokenizer.first_code_id, None)
        eligible.count((self._probabilities(forbidden) * free)[:, codes], ruled_out[:, codes])
        return ruled_out & free

    def _closed(self, left: int) -> Tensor:
        """What the grammar forbids with ``left`` tokens to go, bool (states, vocabulary)."""
        ids, codes = self.tokenizer, slice(self.tokenizer.first_code_id, None)
        closed = torch.ones(3, len(ids), dtype=torch.bool)
        closed[_OUTSIDE, ids.eos_id] = False
        closed[_OUTSIDE, ids.visit_start_id] = left < 4  # no other visit fits
        closed[_OPENED, codes] = False
        closed[_HAS_CODE, codes] = left <= 2
        closed[_HAS_CODE, ids.visit_end_id] = False
        return closed.to(self.state.device)

    def _write(self, token: Tensor, step: int) -> Tensor:
        """Append a token to each row, and return those of the rows that stay in the batch."""
        self.written[self.patients, step] = token
        self.state = self.state_after[token]
        self.used.index_fill_(0, (self.state == _OUTSIDE).nonzero()[:, 0], False)
        codes = (self.state == _HAS_CODE).nonzero()[:, 0]
        self.used[codes, token[codes]] = True
        if self.script is not None:
            self.script.go_on(token)
        going_on = (token != self.tokenizer.eos_id).nonzero()[:, 0]
        if len(going_on) == len(token):
            return token
        rows = _compact(going_on)
        for name in ("patients", "state", "used"):
            setattr(self, name, getattr(self, name).index_select(0, rows))
        if self.script is not None:
            self.script.keep(rows)
        self.decoder.keep(rows)
        return token[rows]


def _compact(kept: Tensor) -> Tensor:
    """The kept rows in an order in which most stay where they are: the last fill the gaps."""
    rows = torch.arange(len(kept), device=kept.device)
    stays = kept < len(kept)
    gap = torch.ones(len(kept), dtype=torch.bool, device=kept.device)
    gap[kept[stays]] = False
    rows[gap] = kept[~stays]
    return rows


class _Script:
    """What must be written because it is known, and the room that it needs."""

    def __init__(
        self, known: Sequence[KnownIds], tokenizer: CodeTokenizer, device: torch.device
    ) -> None:
        self.tokenizer = tokenizer
        self.tokens = _forced_tokens(known, tokenizer).to(device)  # -1 where free
        rows, visits, _ = self.tokens.shape
        self.still_known = torch.tensor(
            [[sum(map(tokens_of, one[i:])) for i in range(visits)] for one in known], device=device
        )
        self.visit = torch.zeros(rows, dtype=torch.long, device=device)
        self.place = torch.full((rows,), 2, device=device)  # after <BOS> and <v>

    def add_to(self, forbidden: Tensor, state: Tensor, left: int) -> None:
        """Forbid all but what is known, and what would take the room of what still comes."""
        forced = self.forced()
        rows = (forced >= 0).nonzero()[:, 0]
        forbidden[rows] = True
        forbidden[rows, forced[rows]] = False
        later = self._known_after_this_visit()
        tight = (state == _HAS_CODE) & (forced < 0) & (later > 0) & (left <= later + 2)
        forbidden[tight] = True
        forbidden[tight, self.tokenizer.visit_end_id] = False

    def forced(self) -> Tensor:
        """The token that must come next in each row, or -1."""
        visits, tokens = self.tokens.shape[1:]
        within = (self.visit < visits) & (self.place < tokens)
        rows = torch.arange(len(self.visit), device=self.visit.device)
        at = self.tokens[rows, self.visit.clamp(max=visits - 1), self.place.clamp(max=tokens - 1)]
        return torch.where(within, at, -1)

    def go_on(self, token: Tensor) -> None:
        ends = token == self.tokenizer.visit_end_id
        self.place = torch.where(ends, 0, self.place + 1)
        self.visit = self.visit + ends

    def keep(self, rows: Tensor) -> None:
        for name in ("tokens", "still_known", "visit", "place"):
            setattr(self, name, getattr(self, name)[rows])

    def _known_after_this_visit(self) -> Tensor:
        """How many tokens the known visits after the present one still need."""
        following = self.visit + 1
        visits = self.tokens.shape[1]
        rows = torch.arange(len(self.visit), device=self.visit.device)
        needed = self.still_known[rows, following.clamp(max=visits - 1)]
        return torch.where(following < visits, needed, 0)


def _forced_tokens(known: Sequence[KnownIds], tokenizer: CodeTokenizer) -> Tensor:
    """The tokens that each visit must begin with: int64 (patients, visits, tokens), -1 after."""
    scripts = []
    for visits in known:
        opened = [[tokenizer.visit_start_id, *codes] for codes in visits or [()]]
        opened[0] = [tokenizer.bos_id, *opened[0]]
        scripts.append(opened)
    n_visits = max(map(len, scripts))
    n_tokens = max(len(visit) for script in scripts for visit in script)
    table = torch.full((len(scripts), n_visits, n_tokens), -1)
    for row, script in enumerate(scripts):
        for number, visit in enumerate(script):
            table[row, number, : len(visit)] = torch.tensor(visit)
    return table


def tokens_of(known_visit: Sequence[object]) -> int:
    """How many tokens a known visit needs: two markers and its codes, at least one."""
    return 2 + max(1, len(known_visit))
