r"""Let a trained PromptBart write whole patients, or complete what is known of one.

A record is ``<BOS>``, visits, ``<EOS>``; a visit is ``<v>``, one or more different codes and
``<\v>``. The model chooses among the tokens that this grammar allows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm
from transformers.cache_utils import DynamicCache, EncoderDecoderCache
from transformers.modeling_outputs import BaseModelOutput

from ehr_course.batches.collate import demographics
from ehr_course.batches.datasets import SHORTEST
from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.icd import code_meaning
from ehr_course.models.prefix_tuning import PrefixTuned
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.records import PatientRecord, Sex, Visit
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.processes import Processes

# ------------------------------------------------------------------ how tokens are drawn


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn; by default from the model's own distribution.

    Attributes:
        temperature: logits are divided by it: below 1 likely tokens become likelier still.
        top_k: keep the k most probable tokens; 0 keeps all.
        top_p: keep the fewest tokens whose probabilities sum to at least p, after top_k (Holtzman
            et al. 2020, arXiv:1904.09751); 1.0 keeps all.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        for name, fits, remedy in (
            (
                "temperature",
                0 < self.temperature < math.inf,
                "Use a number above 0; top_k=1 is greedy.",
            ),
            ("top_k", self.top_k >= 0, "Use 0 for all tokens, or how many to keep."),
            ("top_p", 0 < self.top_p <= 1, "Use a number above 0 and up to 1."),
        ):
            if not fits:
                problem = f"{getattr(self, name)!r} is out of range"
                raise InputError("Sampling", name, problem, remedy)

    def probabilities(self, logits: Tensor) -> Tensor:
        """The distribution that tokens are drawn from: float64 (batch, vocabulary).

        Args:
            logits: float (batch, vocabulary); minus infinity where a token is forbidden.

        >>> Sampling(top_k=1).probabilities(torch.tensor([[0.0, 3.0, 1.0]]))
        tensor([[0., 1., 0.]], dtype=torch.float64)
        """
        logits = logits.double()
        if self.temperature != 1:
            logits = logits / self.temperature
        if 0 < self.top_k < logits.shape[-1]:
            smallest = logits.topk(self.top_k, dim=-1).values[:, -1:]
            logits = logits.masked_fill(logits < smallest, -math.inf)
        probabilities = logits.softmax(-1)
        if self.top_p < 1:
            likeliest, order = probabilities.sort(dim=-1, descending=True)
            before = likeliest.cumsum(-1) - likeliest
            likeliest = likeliest.masked_fill(before >= self.top_p, 0.0)
            probabilities = torch.zeros_like(probabilities).scatter(-1, order, likeliest)
            probabilities = probabilities / probabilities.sum(-1, keepdim=True)
        return probabilities


def draw(probabilities: Tensor, uniform: Tensor) -> Tensor:
    """Draw one token per row, int64 (batch,), by inverting the cumulative distribution.

    Args:
        probabilities: float64 (batch, vocabulary); a token of probability 0 is never drawn.
        uniform: float64 (batch,), from 0 to below 1: each number decides one row.

    >>> draw(torch.tensor([[0.5, 0.0, 0.5]]).double(), torch.tensor([0.5]).double())
    tensor([2])
    """
    cumulative = probabilities.cumsum(-1)
    total = cumulative[:, -1:]
    # Rounding must not carry a draw past the last possible token.
    target = torch.minimum(uniform[:, None] * total, torch.nextafter(total, -total))
    return torch.searchsorted(cumulative, target, right=True)[:, 0]


class EligibleOnly:
    """Only codes that a patient can have are written, by ``why_impossible`` of their code system.

    A code that no rule mentions, or that is not in the system, is written as before. Give a new
    one to each ``generate_patients``; afterwards it holds what was kept out. That is less than
    the impossible codes of patients written freely, where one draws others after it.

    Attributes:
        codes: how many codes the model would write at these places, known ones left out.
        kept_out: how many of them would be impossible. Both are sums of the probabilities that
            tokens are drawn from.

    >>> eligible = EligibleOnly()
    >>> eligible.ruled_out(CodeTokenizer(["4280", "650"]), [30, 30], ["F", "M"])[:, 7:]
    tensor([[False, False],
            [False,  True]])
    """

    def __init__(self) -> None:
        self.codes = self.kept_out = 0.0

    @property
    def share_kept_out(self) -> float:
        """The share of codes that would have been impossible, 0 to 1; ``nan`` without a code."""
        return self.kept_out / self.codes if self.codes else math.nan

    def ruled_out(
        self, tokenizer: CodeTokenizer, ages: Sequence[float], sexes: Sequence[Sex]
    ) -> Tensor:
        """Which tokens each patient, aged in years, cannot have: bool (patients, vocabulary)."""
        years, sex = np.array(ages, dtype=int)[:, None], np.array(sexes)[:, None]
        youngest, oldest, whose = _limits(tokenizer.codes, tokenizer.system)
        wrong_age = (years < youngest) | (years > oldest)
        ruled_out = np.zeros((len(years), len(tokenizer)), dtype=bool)
        ruled_out[:, tokenizer.first_code_id :] = wrong_age | ((whose != "") & (whose != sex))
        return torch.from_numpy(ruled_out)


@lru_cache(maxsize=4)
def _limits(
    codes: tuple[str, ...], system: CodeSystem
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The youngest and the oldest who can have each code, and of which sex, "" for both."""
    of = code_meaning(system)
    rules = [of.who_can_have(code) if of.is_code(code) else None for code in codes]
    return (
        np.array([rule.min_age if rule else 0 for rule in rules]),
        np.array([rule.max_age if rule else math.inf for rule in rules]),
        np.array([(rule.sex if rule else None) or "" for rule in rules]),
    )


# ------------------------------------------------------------------ the patients wanted


@dataclass(frozen=True)
class PatientProfile:
    """One patient to write.

    Attributes:
        age: completed years, 0 to 90.
        visits: the codes of each visit that is known: they are kept and stand first in it. The
            model adds codes to these visits, and visits after them.
    """

    age: int
    sex: Sex
    visits: Sequence[Sequence[str]] = field(default=())


def sample_profiles(
    records: Sequence[PatientRecord | PatientProfile], n: int, *, seed: int = 0
) -> list[PatientProfile]:
    """Draw ages and sexes of patients to write from a cohort, together and with replacement.

    Raises:
        InputError: if there are no records, or n is below 1.
    """
    if not records:
        raise InputError("sample_profiles", "records", "the list is empty", "Give a cohort.")
    if n < 1:
        raise InputError(
            "sample_profiles", "n", f"{n!r} is not a number of patients", "Use 1 or more."
        )
    rows = np.random.default_rng(seed).integers(len(records), size=n)
    return [PatientProfile(records[row].age, records[row].sex) for row in rows.tolist()]


class _Condition(NamedTuple):
    """All that the model reads of a patient before it writes."""

    known: tuple[tuple[int, ...], ...]  # the ids of each known visit's codes
    age: float
    sex: Sex

    def read_by_encoder(self, tokenizer: CodeTokenizer) -> list[int]:
        """What is known, with a <mask> in each visit for what is not."""
        if not self.known:
            return tokenizer.empty_record
        ids = [tokenizer.bos_id]
        for codes in self.known:
            ids += [tokenizer.visit_start_id, *codes, tokenizer.mask_id, tokenizer.visit_end_id]
        return [*ids, tokenizer.eos_id]


def _room_for(visits: Sequence[Sequence[object]]) -> int:
    """How many tokens known visits need: two markers and at least one code each."""
    return sum(2 + max(1, len(codes)) for codes in visits)


def generate_patients(
    model: PromptBart | PrefixTuned,
    tokenizer: CodeTokenizer,
    profiles: Sequence[PatientProfile],
    *,
    seed: int = 0,
    sampling: Sampling = Sampling(),  # frozen
    batch_size: int = 512,
    max_tokens: int | None = None,
    eligible: EligibleOnly | None = None,
    progress: bool = False,
    processes: Processes = Processes(),  # noqa: B008  # frozen
) -> list[PatientRecord]:
    """Write one patient for each profile.

    A patient's random numbers depend on the seed and its place in the list alone, so neither the
    batch size nor the number of processes changes what is written. (Where a batch size makes the
    processor round another way, a draw can fall on the other side once in many thousands.)

    Args:
        model: a trained PromptBart, or one with a prefix; it is used in evaluation mode and left
            as it was.
        seed: 0 to 2**32 - 1.
        batch_size: how many patients are written at a time; it takes memory, and saves time.
        max_tokens: the longest record, <BOS> and <EOS> included; by default as long as the model
            can read. A record that comes to it ends there, well formed.
        eligible: where given, no code is written that age or sex rules out, unless it is known,
            and what is kept out is counted in it.
        progress: whether the first process shows a bar of the patients that it writes.
        processes: those that share the batches, each called with the same arguments.

    Returns:
        A record for each, numbered from 0, of the tokenizer's code system. Of several processes
        the first returns all, the others an empty list; so it is with what ``eligible`` counts.

    Raises:
        InputError: if an age, a sex, a known code or a number is out of its range, what is known
            of a patient is longer than max_tokens, no code of the vocabulary is eligible, or
            another process ended early.
    """
    limit = model.max_tokens if max_tokens is None else max_tokens
    _check(model, tokenizer, profiles, batch_size, limit)
    conditions = [
        _Condition(
            tuple(tuple(map(tokenizer.code_to_id, codes)) for codes in patient.visits),
            patient.age,
            patient.sex,
        )
        for patient in profiles
    ]
    ruled_out: dict[tuple[float, Sex], Tensor] | None = None
    if eligible is not None:
        ruled_out = _ruled_out(eligible, tokenizer, profiles)
    # Patients of the same condition are written together, so that it is read once.
    order = sorted(
        range(len(profiles)), key=lambda n: (_room_for(conditions[n].known), conditions[n])
    )
    batches = [order[n : n + batch_size] for n in range(0, len(order), batch_size)]
    mine = batches[processes.rank :: processes.world]
    done: list[tuple[list[list[int]], float, float]] = []
    was_training = model.training
    model.eval()
    try:
        # Without an argument tqdm asks TQDM_DISABLE, which is set where no bar is to be stored.
        hidden = {} if progress and processes.is_first else {"disable": True}
        with torch.no_grad(), tqdm(total=sum(map(len, mine)), **hidden) as bar:
            for numbers in mine:
                draws = [np.random.default_rng([seed, number]).random(limit) for number in numbers]
                batch = _Batch(
                    model,
                    tokenizer,
                    [conditions[number] for number in numbers],
                    torch.from_numpy(np.stack(draws)),
                    sampling,
                    ruled_out,
                )
                done.append((batch.write(), batch.codes, batch.kept_out))
                bar.update(len(numbers))
    finally:
        model.train(was_training)
    by_rank = processes.gather_in_first(done)
    if by_rank is None:
        return []
    written: dict[int, list[int]] = {}
    for place, numbers in enumerate(batches):
        rows, codes, kept_out = by_rank[place % processes.world][place // processes.world]
        written.update(zip(numbers, rows, strict=True))
        if eligible is not None:
            eligible.codes += codes
            eligible.kept_out += kept_out
    return [
        PatientRecord(
            number,
            patient.sex,
            patient.age,
            tuple(
                Visit(tuple(codes), system=tokenizer.system)
                for codes in tokenizer.decode(written[number])
            ),
        )
        for number, patient in enumerate(profiles)
    ]


def _check(
    model: PromptBart | PrefixTuned,
    tokenizer: CodeTokenizer,
    profiles: Sequence[PatientProfile],
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
            "generate_patients", "batch_size", f"{batch_size} is not a size", "Use 1 or more."
        )
    if not SHORTEST <= limit <= model.max_tokens:
        raise InputError(
            "generate_patients",
            "max_tokens",
            f"{limit} is not between {SHORTEST} and the model's {model.max_tokens}",
            "The shortest record has five tokens, and the model's positions end the longest.",
        )
    names = [f"patient {number}" for number in range(len(profiles))]
    demographics(
        [patient.age for patient in profiles], [patient.sex for patient in profiles], names
    )
    for name, patient in zip(names, profiles, strict=True):
        for codes in patient.visits:
            if len(set(codes)) != len(codes):
                raise InputError(name, "visits", "a code stands twice in a visit", "Keep one.")
        needed = 2 + _room_for(patient.visits)
        if needed > limit:
            raise InputError(
                name,
                f"{needed} tokens",
                f"what is known is longer than the limit of {limit}",
                "Keep fewer visits, or raise max_tokens where the model has the positions.",
            )


def _ruled_out(
    eligible: EligibleOnly, tokenizer: CodeTokenizer, profiles: Sequence[PatientProfile]
) -> dict[tuple[float, Sex], Tensor]:
    """The tokens, bool (vocabulary,), that patients of each age and sex cannot have."""
    first = {(patient.age, patient.sex): n for n, patient in reversed(list(enumerate(profiles)))}
    if not first:
        return {}
    ages, sexes = zip(*first, strict=True)
    rows = eligible.ruled_out(tokenizer, ages, sexes)
    for (age, sex), row in zip(first, rows, strict=True):
        if row[tokenizer.first_code_id :].all():
            raise InputError(
                f"patient {first[age, sex]}",
                f"age {age}, sex {sex!r}",
                "age and sex rule out every code of the vocabulary",
                "Leave this patient out, or write without the limit to eligible codes.",
            )
    return dict(zip(first, rows, strict=True))


# ------------------------------------------------------------------ a batch, token by token

_OUTSIDE, _OPENED, _HAS_CODE, _DONE = range(4)
"""Where a record stands: between visits; in a visit without and with a code; at its end."""

_FREE = -1
"""In a script: here the model chooses, until the visit ends."""


class _Batch:
    """Patients that are written together, a token each at every step.

    Args:
        model: in evaluation mode.
        uniforms: float64 (batch, limit), from 0 to below 1: each decides a token.
        ruled_out: what patients of each age and sex cannot have, or None for no such rule.

    Attributes:
        codes, kept_out: as EligibleOnly counts them.
    """

    _OF_ROWS = (
        "patients",
        "state",
        "used",
        "script",
        "later",
        "place",
        "ruled_out",
        "mask",
        "encoded",
    )

    def __init__(
        self,
        model: PromptBart | PrefixTuned,
        tokenizer: CodeTokenizer,
        conditions: Sequence[_Condition],
        uniforms: Tensor,
        sampling: Sampling,
        ruled_out: dict[tuple[float, Sex], Tensor] | None,
    ) -> None:
        self.model, self.tokenizer, self.sampling = model, tokenizer, sampling
        device, n_tokens = model.device, len(tokenizer)
        rows, self.limit = uniforms.shape
        self.uniforms = uniforms.T.contiguous().to(device)  # (limit, batch)
        # As the decoder reads it: <EOS> <BOS> <v> begin every record.
        self.written = torch.full((rows, 1 + self.limit), tokenizer.eos_id, device=device)
        self.written[:, 1], self.written[:, 2] = tokenizer.bos_id, tokenizer.visit_start_id
        self.patients = torch.arange(rows, device=device)
        self.state = torch.full((rows,), _OPENED, device=device)
        self.used = torch.zeros(rows, n_tokens, dtype=torch.bool, device=device)
        self.state_after = torch.full((n_tokens,), _HAS_CODE, device=device)
        self.state_after[tokenizer.visit_start_id] = _OPENED
        self.state_after[tokenizer.visit_end_id] = _OUTSIDE
        self.state_after[tokenizer.eos_id] = _DONE
        scripts = _scripts([condition.known for condition in conditions], tokenizer)
        self.script, self.later = (table.to(device) for table in scripts)
        self.place = torch.zeros(rows, dtype=torch.int64, device=device)
        self.codes = self.kept_out = 0.0
        self.ruled_out: Tensor | None = None
        if ruled_out is not None:
            of_each = [ruled_out[condition.age, condition.sex] for condition in conditions]
            self.ruled_out = torch.stack(of_each).to(device)
        self.logits: Tensor  # of the next token, (batch, vocabulary)
        self._begin(conditions)

    def _begin(self, conditions: Sequence[_Condition]) -> None:
        """Let the encoder read each different condition once, and the decoder <BOS> and <v>."""
        place = {condition: number for number, condition in enumerate(dict.fromkeys(conditions))}
        pad, device = self.tokenizer.pad_id, self.model.device
        read = [torch.tensor(condition.read_by_encoder(self.tokenizer)) for condition in place]
        ids = pad_sequence(read, batch_first=True, padding_value=pad).to(device)
        people = demographics([one.age for one in place], [one.sex for one in place])
        people = {name: tensor.to(device) for name, tensor in people.items()}
        real = (ids != pad).long()
        encoded, mask = self.model.encode(ids, None if real.all() else real, **people)
        self.mask: Tensor | None = mask
        self.encoded: Tensor = encoded[0]
        self.cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        opening = self.written[: len(place), :3]
        self._forward(opening, opening, **people)
        rows = torch.tensor([place[condition] for condition in conditions], device=device)
        self.logits, self.encoded = self.logits[rows], self.encoded[rows]
        self.mask = None if self.mask is None else self.mask[rows]
        self.cache.batch_select_indices(rows)

    def _forward(self, tokens: Tensor, history: Tensor, **people: Tensor) -> None:
        """Read new tokens, (batch, new), the last of all, (batch, past): what comes next?"""
        output = self.model(
            decoder_input_ids=tokens,
            decoder_history_ids=history,
            attention_mask=self.mask,
            encoder_outputs=BaseModelOutput(last_hidden_state=self.encoded),
            past_key_values=self.cache,
            use_cache=True,
            **people,
        )
        self.logits = output.logits[:, -1]

    def write(self) -> list[list[int]]:
        """Write until every record has ended, and return the ids of each."""
        ids = self.tokenizer
        for step in range(2, self.limit):
            forced = self.script.gather(1, self.place[:, None])[:, 0]
            forbidden = self._forbidden(forced, left=self.limit - step)
            token = draw(self._probabilities(forbidden), self.uniforms[step, self.patients])
            self.written[self.patients, step + 1] = token
            self.state = self.state_after[token]
            self.used[self.state == _OUTSIDE] = False
            codes = (self.state == _HAS_CODE).nonzero()[:, 0]
            self.used[codes, token[codes]] = True
            self.place += (forced != _FREE) | (token == ids.visit_end_id)
            self.place.clamp_(max=self.script.shape[1] - 1)
            going_on = (self.state != _DONE).nonzero()[:, 0]
            if not len(going_on):
                break
            # Who is done stays for a while: to copy the cache costs more than to read a few rows.
            if len(going_on) <= 0.8 * len(token):
                self._keep(going_on)
                token = token[going_on]
            self._forward(token[:, None], self.written[self.patients, : step + 2])
        written = self.written[:, 1:].cpu()
        lengths = (written != ids.eos_id).sum(1) + 1
        return [row[:n].tolist() for row, n in zip(written, lengths.tolist(), strict=True)]

    def _forbidden(self, forced: Tensor, left: int) -> Tensor:
        """What may not come next, bool (batch, vocabulary).

        Args:
            forced: int64 (batch,), the token that must come, or _FREE.
            left: how many tokens there is still room for.
        """
        ids, codes = self.tokenizer, slice(self.tokenizer.first_code_id, None)
        closed = torch.ones(4, len(ids), dtype=torch.bool)  # by the grammar, in each state
        closed[_OUTSIDE, ids.eos_id] = False
        closed[_OUTSIDE, ids.visit_start_id] = left < 4  # no other visit fits
        closed[_OPENED, codes] = False
        closed[_HAS_CODE, codes] = left <= 2
        closed[_HAS_CODE, ids.visit_end_id] = False
        closed[_DONE, ids.eos_id] = False
        forbidden = closed.to(self.state.device).index_select(0, self.state).logical_or_(self.used)
        must = (forced != _FREE).nonzero()[:, 0]
        forbidden[must] = True
        forbidden[must, forced[must]] = False
        # The known visits that follow need their room.
        later = self.later.gather(1, self.place[:, None])[:, 0]
        tight = (self.state == _HAS_CODE) & (forced == _FREE) & (later > 0) & (left <= later + 2)
        forbidden[tight] = True
        forbidden[tight, ids.visit_end_id] = False
        if self.ruled_out is not None:
            free = (forced == _FREE)[:, None]
            likely = (self._probabilities(forbidden) * free)[:, codes]
            self.codes += likely.sum().item()
            self.kept_out += (likely * self.ruled_out[:, codes]).sum().item()
            forbidden |= self.ruled_out & free
        return forbidden

    def _probabilities(self, forbidden: Tensor) -> Tensor:
        return self.sampling.probabilities(self.logits.masked_fill(forbidden, -math.inf))

    def _keep(self, rows: Tensor) -> None:
        """Keep these rows, int64 (kept,), of all that the next token needs."""
        for name in self._OF_ROWS:
            tensor = getattr(self, name)
            if tensor is not None:
                setattr(self, name, tensor.index_select(0, rows))
        cache = self.cache.self_attention_cache, self.cache.cross_attention_cache
        layers: list[Any] = [*cache[0].layers, *cache[1].layers]
        for layer in layers:  # the cache's own batch_select_indices takes longer
            layer.keys = layer.keys.index_select(0, rows)
            layer.values = layer.values.index_select(0, rows)


def _scripts(
    known: Sequence[tuple[tuple[int, ...], ...]], tokenizer: CodeTokenizer
) -> tuple[Tensor, Tensor]:
    """What must follow the first <v> of each patient, because it is known.

    Returns:
        The tokens, int64 (patients, places), _FREE at the end of each visit; and how much room the
        known visits after that place need, of the same shape.
    """
    scripts, rooms = [], []
    for visits in known:
        script, room = [], []
        for number, codes in enumerate(visits):
            script += [tokenizer.visit_start_id, *codes, _FREE]
            room += [_room_for(visits[number + 1 :])] * (len(codes) + 2)
        scripts.append(torch.tensor([*script[1:], _FREE]))  # the first <v> is written already
        rooms.append(torch.tensor([*room[1:], 0]))
    return (
        pad_sequence(scripts, batch_first=True, padding_value=_FREE),
        pad_sequence(rooms, batch_first=True),
    )
