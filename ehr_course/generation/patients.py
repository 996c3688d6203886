r"""Let a trained PromptBart write whole patients, or complete what is known of one.

A record is ``<BOS>``, visits, ``<EOS>``; a visit is ``<v>``, one or more different codes and
``<\v>``. The model chooses among the tokens that this grammar allows.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch
from tqdm import tqdm

from ehr_course.batches.collate import demographics
from ehr_course.batches.datasets import SHORTEST
from ehr_course.errors import InputError
from ehr_course.generation.eligible import EligibleOnly
from ehr_course.generation.patient_decoder import Condition, Decoder, KnownIds
from ehr_course.generation.patient_step import can_be_written_out
from ehr_course.generation.patient_writing import PatientWriting, tokens_of
from ehr_course.generation.sampling import Sampling
from ehr_course.models.prefix_tuning import PrefixTuned
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.records import PatientRecord, Sex, Visit
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.processes import Processes

DEFAULT_SAMPLING = Sampling()
ALONE = Processes()


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

    Args:
        records: the cohort, at least one patient.
        n: 1 or more.
        seed: 0 or more.

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


def generate_patients(
    model: PromptBart | PrefixTuned,
    tokenizer: CodeTokenizer,
    profiles: Sequence[PatientProfile],
    *,
    seed: int = 0,
    sampling: Sampling = DEFAULT_SAMPLING,
    batch_size: int = 512,
    max_tokens: int | None = None,
    eligible: EligibleOnly | None = None,
    progress: bool = False,
    processes: Processes = ALONE,
) -> list[PatientRecord]:
    """Write one patient for each profile.

    A patient's random numbers depend on the seed and its place in the list alone, so neither the
    batch size nor the number of processes changes what is written. (Where a batch size makes the
    processor round another way, a draw can fall on the other side once in many thousands.)

    Args:
        model: a trained PromptBart, or one with a prefix; it is used in evaluation mode and left
            as it was.
        profiles: age and sex of each patient, and what is known of the visits.
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
        Condition(_ids_of(profile.visits, tokenizer), profile.age, profile.sex)
        for profile in profiles
    ]
    if eligible is not None:
        _check_eligible(eligible, tokenizer, profiles)
    # Patients of the same condition are written together, so that it is read once.
    order = sorted(range(len(profiles)), key=lambda number: _length_first(conditions[number]))
    batches = [order[n : n + batch_size] for n in range(0, len(order), batch_size)]
    mine = batches[processes.rank :: processes.world]
    done: list[_Batch] = []
    written_out = can_be_written_out(model)
    was_training = model.training
    model.eval()
    try:
        # Without an argument tqdm asks TQDM_DISABLE, which is set where no bar is to be stored.
        hidden = {} if progress and processes.is_first else {"disable": True}
        with torch.no_grad(), tqdm(total=sum(map(len, mine)), **hidden) as bar:
            for some in mine:
                uniforms = np.stack(
                    [np.random.default_rng([seed, number]).random(limit) for number in some]
                )
                these = [conditions[number] for number in some]
                of_this, ruled_out = None, None
                if eligible is not None:
                    of_this = type(eligible)()
                    ages, sexes = [one.age for one in these], [one.sex for one in these]
                    ruled_out = of_this.ruled_out(tokenizer, ages, sexes)
                batch = PatientWriting(
                    Decoder(model, tokenizer, these, written_out=written_out),
                    torch.from_numpy(uniforms),
                    sampling,
                    of_this,
                    ruled_out,
                )
                done.append(_Batch.of(batch.finish(), of_this))
                bar.update(len(some))
    finally:
        model.train(was_training)
    shares = processes.gather_in_first(done)
    if shares is None:
        return []
    written: dict[int, list[int]] = {}
    for place, some in enumerate(batches):
        batch = shares[place % processes.world][place // processes.world]
        written.update(zip(some, batch.rows(), strict=True))
        if eligible is not None:
            eligible.codes += batch.codes
            eligible.kept_out += batch.kept_out
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


class _Batch(NamedTuple):
    """What was written of one batch, as one process hands it to another.

    Attributes:
        ids: int32 (tokens,): the tokens of all its patients, one after the other.
        lengths: int32 (patients,): how many tokens each has.
        codes, kept_out: as EligibleOnly counts them.
    """

    ids: np.ndarray
    lengths: np.ndarray
    codes: float
    kept_out: float

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], counted: EligibleOnly | None) -> _Batch:
        return cls(
            np.fromiter(itertools.chain.from_iterable(rows), np.int32),
            np.fromiter(map(len, rows), np.int32, len(rows)),
            0.0 if counted is None else counted.codes,
            0.0 if counted is None else counted.kept_out,
        )

    def rows(self) -> list[list[int]]:
        """The ids of each patient."""
        ends = np.cumsum(self.lengths)[:-1]
        return [row.tolist() for row in np.split(self.ids, ends)]


def _ids_of(visits: Sequence[Sequence[str]], tokenizer: CodeTokenizer) -> KnownIds:
    return tuple(tuple(map(tokenizer.code_to_id, codes)) for codes in visits)


def _length_first(condition: Condition) -> tuple[int, Condition]:
    return sum(map(tokens_of, condition.known)), condition


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
        needed = 2 + sum(map(tokens_of, patient.visits))
        if needed > limit:
            raise InputError(
                name,
                f"{needed} tokens",
                f"what is known is longer than the limit of {limit}",
                "Keep fewer visits, or raise max_tokens where the model has the positions.",
            )


def _check_eligible(
    eligible: EligibleOnly, tokenizer: CodeTokenizer, profiles: Sequence[PatientProfile]
) -> None:
    first = {(patient.age, patient.sex): n for n, patient in reversed(list(enumerate(profiles)))}
    if not first:
        return
    ages, sexes = zip(*first, strict=True)
    nothing = eligible.ruled_out(tokenizer, ages, sexes)[:, tokenizer.first_code_id :].all(1)
    for number, (age, sex), empty in zip(first.values(), first, nothing.tolist(), strict=True):
        if empty:
            raise InputError(
                f"patient {number}",
                f"age {age}, sex {sex!r}",
                "age and sex rule out every code of the vocabulary",
                "Leave this patient out, or write without the limit to eligible codes.",
            )
