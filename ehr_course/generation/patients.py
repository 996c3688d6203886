r"""Let a trained PromptBart write whole patients, or complete what is known of one.

A record is ``<BOS>``, visits, ``<EOS>``; a visit is ``<v>``, one or more different codes and
``<\v>``. The model chooses among the tokens that this grammar allows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from ehr_course.batches.collate import SEXES, checked_ages, sex_numbers
from ehr_course.batches.corruption import EMPTY_RECORD
from ehr_course.batches.record_checks import FIRST_CODE, SHORTEST
from ehr_course.errors import InputError
from ehr_course.generation.sampling import Sampling, draw
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.records import PatientRecord, Sex, Visit
from ehr_course.tokenizers.codes import CodeTokenizer

DEFAULT_SAMPLING = Sampling()


@dataclass(frozen=True)
class Wanted:
    """One patient to write.

    Attributes:
        age: completed years, 0 to 90.
        sex: "F" or "M".
        visits: what is known already: the codes of each visit, which are kept and stand first in
            it. The model adds codes to these visits, and visits after them.

    >>> Wanted(64, "F")
    Wanted(age=64, sex='F', visits=())
    """

    age: int
    sex: Sex
    visits: Sequence[Sequence[str]] = field(default=())


def wanted_like(
    records: Sequence[PatientRecord | Wanted], n: int, *, seed: int = 0
) -> list[Wanted]:
    """Draw the age and sex of patients to write from those of a cohort, together.

    Each of the ``n`` is drawn with replacement, so an age and a sex come as often as in the
    cohort. Ages and sexes alone are taken, never a code.

    Args:
        records: the cohort, at least one patient; or ages and sexes alone, as Wanted.
        n: how many to draw, 1 or more.
        seed: 0 or more.

    Raises:
        InputError: if there are no records, or n is below 1.

    >>> from ehr_course.records import Visit
    >>> wanted_like([PatientRecord(1, "F", 64, (Visit(("4280",)),))], 2)
    [Wanted(age=64, sex='F', visits=()), Wanted(age=64, sex='F', visits=())]
    """
    if not records:
        raise InputError("wanted_like", "records", "there are none", "Give a cohort.")
    if n < 1:
        raise InputError("wanted_like", "n", f"{n!r} is no number of patients", "Use 1 or more.")
    rows = np.random.default_rng(seed).integers(len(records), size=n)
    return [Wanted(records[row].age, records[row].sex) for row in rows.tolist()]


def generate_patients(
    model: PromptBart,
    tokenizer: CodeTokenizer,
    wanted: Sequence[Wanted],
    *,
    seed: int = 0,
    sampling: Sampling = DEFAULT_SAMPLING,
    batch_size: int = 64,
    max_tokens: int | None = None,
    progress: bool = False,
) -> list[PatientRecord]:
    """Write one patient for each that is wanted.

    The random numbers of a patient come from the seed and the patient's place in the list alone,
    so the batch size does not change what is written. (Where another batch size makes the
    processor round another way, a draw can fall on the other side once in many thousands.)

    Args:
        model: a trained PromptBart; it is used in evaluation mode and left as it was.
        tokenizer: the one that it was trained with.
        wanted: age and sex of each patient, and what is known of the visits.
        seed: 0 to 2**32 - 1.
        sampling: temperature, top-k and top-p.
        batch_size: how many patients are written at a time.
        max_tokens: the longest record in tokens, <BOS> and <EOS> included; by default as long as
            the model can read. A record that comes to it ends there, well formed.
        progress: whether to show a bar.

    Returns:
        A record for each, numbered from 0 as wanted; age and sex as wanted.

    Raises:
        InputError: if an age, a sex, a known code or a number is out of its range, or what is
            known of a patient is longer than max_tokens.
    """
    limit = model.max_tokens if max_tokens is None else max_tokens
    _check(model, tokenizer, wanted, batch_size, limit)
    written: list[list[int]] = []
    was_training = model.training
    model.eval()
    try:
        # Without an argument tqdm asks TQDM_DISABLE, which is set where no bar is to be stored.
        hidden = {} if progress else {"disable": True}
        with torch.no_grad(), tqdm(total=len(wanted), **hidden) as bar:
            for first in range(0, len(wanted), batch_size):
                some = wanted[first : first + batch_size]
                uniforms = np.stack(
                    [
                        np.random.default_rng([seed, first + row]).random(limit)
                        for row in range(len(some))
                    ]
                )
                written += _Writing(model, tokenizer, some, uniforms, sampling, limit).finish()
                bar.update(len(some))
    finally:
        model.train(was_training)
    return [
        PatientRecord(
            number,
            patient.sex,
            patient.age,
            tuple(Visit(tuple(codes)) for codes in tokenizer.decode(ids)),
        )
        for number, (patient, ids) in enumerate(zip(wanted, written, strict=True))
    ]


class _Writing:
    """A batch of patients while they are written: one token each at a step.

    Rows that are done leave the batch, so that long records do not hold up a full batch.
    """

    def __init__(
        self,
        model: PromptBart,
        tokenizer: CodeTokenizer,
        wanted: Sequence[Wanted],
        uniforms: np.ndarray,
        sampling: Sampling,
        limit: int,
    ) -> None:
        self.model, self.sampling, self.limit = model, sampling, limit
        device = model.device
        known = [[[tokenizer.code_to_id(c) for c in v] for v in w.visits] for w in wanted]
        self.uniforms = torch.from_numpy(uniforms).to(device)
        self.demographics = {
            "x_num": torch.tensor([[float(w.age)] for w in wanted], device=device),
            "x_cat": torch.tensor([[SEXES.index(w.sex)] for w in wanted], device=device),
        }
        inputs, mask = (part.to(device) for part in _encoder_inputs(known))
        encoded, self.mask = model.encode(inputs, mask, **self.demographics)
        self.encoded = encoded.last_hidden_state
        self.script = _scripts(known).to(device)  # (batch, visits, tokens), -1 where free
        self.cache = EncoderDecoderCache(DynamicCache(), DynamicCache())

        rows = len(wanted)
        self.patients = torch.arange(rows, device=device)
        self.last = torch.full((rows,), CodeTokenizer.eos_id, device=device)  # BART starts so
        self.visit = torch.zeros(rows, dtype=torch.long, device=device)
        self.place = torch.zeros(rows, dtype=torch.long, device=device)
        self.inside = torch.zeros(rows, dtype=torch.bool, device=device)
        self.used = torch.zeros(rows, len(tokenizer), dtype=torch.bool, device=device)
        self.still_known = torch.tensor(
            [
                [sum(map(_tokens_of, visits[i:])) for i in range(self.script.shape[1])]
                for visits in known
            ],
            device=device,
        )
        self.written: list[list[int]] = [[] for _ in range(rows)]

    def finish(self) -> list[list[int]]:
        """Write until every record has ended, and return the ids of each."""
        for step in range(self.limit):
            logits = self._next_logits()
            allowed = self._allowed(self.limit - step)
            probabilities = self.sampling.probabilities(logits.masked_fill(~allowed, -math.inf))
            token = draw(probabilities, self.uniforms[:, step])
            self._write(token)
            if not len(self.patients):
                break
        return self.written

    def _next_logits(self) -> Tensor:
        output = self.model(
            decoder_input_ids=self.last[:, None],
            attention_mask=self.mask,
            encoder_outputs=BaseModelOutput(last_hidden_state=self.encoded),
            past_key_values=self.cache,
            use_cache=True,
            **self.demographics,
        )
        return output.logits[:, -1]  # (batch, vocabulary)

    def _allowed(self, left: int) -> Tensor:
        """What the grammar allows next, when ``left`` tokens may still be written."""
        allowed = torch.zeros_like(self.used)
        has_code = self.used.any(1)
        # Inside a visit: codes that it does not have, and its end once it has one.
        codes = self.inside & ~(has_code & (left <= 2))
        allowed[:, FIRST_CODE:] = codes[:, None] & ~self.used[:, FIRST_CODE:]
        allowed[:, CodeTokenizer.visit_end_id] = self.inside & has_code
        # Outside: another visit where one fits, or the end of the record.
        allowed[:, CodeTokenizer.visit_start_id] = ~self.inside & (left >= 4)
        allowed[:, CodeTokenizer.eos_id] = ~self.inside
        # What is known is written as it is, and room is kept for what of it is still to come.
        forced = self._forced()
        rows = (forced >= 0).nonzero()[:, 0]
        allowed[rows] = False
        allowed[rows, forced[rows]] = True
        later = self._known_after_this_visit()
        tight = self.inside & has_code & (forced < 0) & (later > 0) & (left <= later + 2)
        allowed[tight] = False
        allowed[tight, CodeTokenizer.visit_end_id] = True
        return allowed

    def _forced(self) -> Tensor:
        """The token that must come next in each row, or -1."""
        visits, tokens = self.script.shape[1:]
        within = (self.visit < visits) & (self.place < tokens)
        rows = torch.arange(len(self.visit), device=self.visit.device)
        at = self.script[rows, self.visit.clamp(max=visits - 1), self.place.clamp(max=tokens - 1)]
        return torch.where(within, at, -1)

    def _known_after_this_visit(self) -> Tensor:
        """How many tokens the known visits after the present one still need."""
        following = self.visit + 1
        visits = self.script.shape[1]
        rows = torch.arange(len(self.visit), device=self.visit.device)
        needed = self.still_known[rows, following.clamp(max=visits - 1)]
        return torch.where(following < visits, needed, 0)

    def _write(self, token: Tensor) -> None:
        """Append a token to each row, and leave out the rows that have ended."""
        for patient, written in zip(self.patients.tolist(), token.tolist(), strict=True):
            self.written[patient].append(written)
        starts, ends = token == CodeTokenizer.visit_start_id, token == CodeTokenizer.visit_end_id
        self.inside = (self.inside | starts) & ~ends
        self.used[ends] = False
        is_code = token >= FIRST_CODE
        self.used[is_code.nonzero()[:, 0], token[is_code]] = True
        self.place = torch.where(ends, 0, self.place + 1)
        self.visit = self.visit + ends
        self.last = token
        going_on = (token != CodeTokenizer.eos_id).nonzero()[:, 0]
        if len(going_on) < len(token):
            self._keep(going_on)

    def _keep(self, rows: Tensor) -> None:
        for name in ("patients", "last", "visit", "place", "inside", "used", "uniforms"):
            setattr(self, name, getattr(self, name)[rows])
        for name in ("script", "still_known", "encoded", "mask"):
            setattr(self, name, getattr(self, name)[rows])
        self.demographics = {name: x[rows] for name, x in self.demographics.items()}
        self.cache.batch_select_indices(rows)


def _encoder_inputs(known: list[list[list[int]]]) -> tuple[Tensor, Tensor]:
    """What the encoder reads: what is known, with a <mask> in each visit for what is not."""
    rows = [list(_partial_record(visits)) or list(EMPTY_RECORD) for visits in known]
    longest = max(map(len, rows))
    ids = torch.tensor([row + [CodeTokenizer.pad_id] * (longest - len(row)) for row in rows])
    return ids, (ids != CodeTokenizer.pad_id).long()


def _partial_record(visits: list[list[int]]) -> Iterator[int]:
    if not visits:
        return
    yield CodeTokenizer.bos_id
    for codes in visits:
        yield from (
            CodeTokenizer.visit_start_id,
            *codes,
            CodeTokenizer.mask_id,
            CodeTokenizer.visit_end_id,
        )
    yield CodeTokenizer.eos_id


def _scripts(known: list[list[list[int]]]) -> Tensor:
    """The tokens that each visit must begin with: int64 (patients, visits, tokens), -1 after."""
    scripts = []
    for visits in known:
        opened = [[CodeTokenizer.visit_start_id, *codes] for codes in visits or [[]]]
        opened[0] = [CodeTokenizer.bos_id, *opened[0]]
        scripts.append(opened)
    n_visits = max(map(len, scripts))
    n_tokens = max(len(visit) for script in scripts for visit in script)
    table = torch.full((len(scripts), n_visits, n_tokens), -1)
    for row, script in enumerate(scripts):
        for number, visit in enumerate(script):
            table[row, number, : len(visit)] = torch.tensor(visit)
    return table


def _tokens_of(known_visit: Sequence[object]) -> int:
    """What a known visit needs: its two markers and its codes, one where none is known."""
    return 2 + max(1, len(known_visit))


def _check(
    model: PromptBart,
    tokenizer: CodeTokenizer,
    wanted: Sequence[Wanted],
    batch_size: int,
    limit: int,
) -> None:
    if model.config.vocab_size != len(tokenizer):
        raise InputError(
            "generate_patients",
            "tokenizer",
            f"it has {len(tokenizer)} tokens, the model {model.config.vocab_size}",
            "Use the tokenizer that the model was trained with.",
        )
    if batch_size < 1:
        raise InputError(
            "generate_patients", "batch_size", f"{batch_size} is no size", "Use 1 or more."
        )
    if not SHORTEST <= limit <= model.max_tokens:
        raise InputError(
            "generate_patients",
            "max_tokens",
            f"{limit} is not between {SHORTEST} and the model's {model.max_tokens}",
            "The shortest record has five tokens, and the model's positions end the longest.",
        )
    names = [f"patient {number}" for number in range(len(wanted))]
    checked_ages([patient.age for patient in wanted], names)
    sex_numbers([patient.sex for patient in wanted], names)
    for name, patient in zip(names, wanted, strict=True):
        for codes in patient.visits:
            if len(set(codes)) != len(codes):
                raise InputError(name, "visits", "a code stands twice in a visit", "Keep one.")
        needed = 2 + sum(map(_tokens_of, patient.visits))
        if needed > limit:
            raise InputError(
                name,
                f"{needed} tokens",
                f"what is known is longer than the limit of {limit}",
                "Keep fewer visits, or raise max_tokens where the model has the positions.",
            )
