r"""One code, one token: a patient record as token ids.

A record of two visits becomes ::

    <BOS> <v> 4280 42731 <\v> <v> 4280 <\v> <EOS>

The ids of the special tokens stand first, the codes follow in sorted order from id 7.
"""

from __future__ import annotations

import difflib
import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from ehr_course.code_system import SYSTEM_NAMES, CodeSystem, checked_system
from ehr_course.errors import InputError
from ehr_course.records import PatientRecord, Visit, system_of
from ehr_course.tokenizers import saved

SPECIAL_TOKENS = ("<PAD>", "<BOS>", "<EOS>", "<v>", "<\\v>", "<END>", "<mask>")
"""The special tokens; the place of each in this tuple is its id. ``<END>`` is kept, not used."""

Codes = Visit | Sequence[str]
"""A visit as the tokenizer takes it: a Visit, or its codes alone."""


class CodeTokenizer:
    r"""Turns codes, visits and patients into token ids, and back.

    **Codes that are not in the vocabulary.** The vocabulary comes from the training patients, so
    a patient of another split can have a code that the tokenizer has never seen. ``unseen``
    decides what encoding does with it: ``"raise"`` (the default) raises an InputError that names
    the code; ``"skip"`` leaves the code out, and leaves out a whole visit when it knows none of
    its codes, markers included. ``unseen_codes`` counts what would be left out. There is no
    "unknown" token: a model that learned one would write it into the patients that it makes up.

    **Code systems.** The codes belong to one system. A visit that is coded in the other one is
    refused, for the same text would mean another disease; a visit given as its codes alone is
    taken to be of the tokenizer's system.

    Args:
        codes: the vocabulary, in any order; a repetition counts once.
        unseen: "raise" or "skip".
        system: "ICD9CM" or "ICD10CM".

    Raises:
        InputError: if there are no codes, one of them is not an undotted code in upper case, or
            unseen or system is neither of its two.

    >>> tokenizer = CodeTokenizer(["4280", "0389", "V3001"])
    >>> len(tokenizer)
    10
    >>> tokenizer.encode([["4280", "0389"], ["V3001"]])
    [1, 3, 8, 7, 4, 3, 9, 4, 2]
    >>> tokenizer.decode([1, 3, 8, 7, 4, 3, 9, 4, 2])
    [['4280', '0389'], ['V3001']]
    """

    pad_id, bos_id, eos_id, visit_start_id, visit_end_id, end_id, mask_id = range(7)

    def __init__(
        self,
        codes: Iterable[str],
        *,
        unseen: Literal["raise", "skip"] = "raise",
        system: CodeSystem = "ICD9CM",
    ) -> None:
        self.system = checked_system(system)
        """The code system of the vocabulary."""
        if unseen not in ("raise", "skip"):
            raise InputError(
                "CodeTokenizer", "unseen", f"{unseen!r} is no policy", 'Use "raise" or "skip".'
            )
        if isinstance(codes, str):
            raise InputError(
                "CodeTokenizer", "codes", f"{codes!r} is one text", f"Write [{codes!r}]."
            )
        vocabulary = set(codes)
        if not vocabulary:
            raise InputError("CodeTokenizer", "codes", "there are none", "Were records loaded?")
        for code in vocabulary:
            if not _is_plain(code):
                raise InputError(
                    "CodeTokenizer",
                    "codes",
                    f"{code!r} is not an undotted code in upper case",
                    f"Use {'icd9' if self.system == 'ICD9CM' else 'icd10'}.normalize first.",
                )
        self.unseen = unseen
        self.codes: tuple[str, ...] = tuple(sorted(vocabulary))
        """The vocabulary in the order of its ids: ``codes[i]`` has id ``7 + i``."""
        self._tokens = SPECIAL_TOKENS + self.codes
        self._ids = {token: i for i, token in enumerate(self._tokens)}

    @classmethod
    def from_records(
        cls, train_records: Iterable[PatientRecord], *, unseen: Literal["raise", "skip"] = "raise"
    ) -> Self:
        """Take the vocabulary from the training patients.

        From the training patients alone: a code that only a test patient has would otherwise be
        in the vocabulary, with an embedding that is never trained, and the test would measure a
        model that was told what the test holds.

        Raises:
            InputError: if there are no patients, or their visits are of both code systems.

        >>> patient = PatientRecord(1, "M", 70, (Visit(("4280", "42731")),))
        >>> CodeTokenizer.from_records([patient]).codes
        ('42731', '4280')
        """
        records = list(train_records)
        codes = (code for record in records for code in record.codes)
        return cls(codes, unseen=unseen, system=system_of(records))

    def skipping_unseen(self) -> Self:
        """The same vocabulary of the same system, which leaves unseen codes out.

        >>> CodeTokenizer(["4280"]).skipping_unseen()
        CodeTokenizer(1 codes, unseen='skip')
        """
        return type(self)(self.codes, unseen="skip", system=self.system)

    # ------------------------------------------------------------------ one token

    def __len__(self) -> int:
        """The number of tokens: seven special ones and the codes."""
        return len(self._tokens)

    def __contains__(self, code: object) -> bool:
        """Whether the code is in the vocabulary; a special token is not a code."""
        return code in self._ids and code not in SPECIAL_TOKENS

    def code_to_id(self, code: str) -> int:
        """The token id of a code.

        Raises:
            InputError: if the code is not in the vocabulary, whatever ``unseen`` says.

        >>> CodeTokenizer(["0389", "4280"]).code_to_id("4280")
        8
        """
        if code not in self:
            raise InputError(
                "CodeTokenizer",
                f"code {code!r}",
                "it is not in the vocabulary",
                self._remedy(code),
            )
        return self._ids[code]

    def id_to_token(self, token_id: int) -> str:
        r"""The token that an id stands for: a special token or a code.

        >>> tokenizer = CodeTokenizer(["0389", "4280"])
        >>> tokenizer.id_to_token(7), tokenizer.id_to_token(6)
        ('0389', '<mask>')
        """
        return self._tokens[self._checked(token_id, f"token id {token_id!r}")]

    def tokens(self, ids: Any) -> list[str]:
        r"""The tokens of a sequence of ids, special tokens included: what a model really reads.

        Args:
            ids: a list, a NumPy array or a torch tensor of shape (length,).

        >>> print(*CodeTokenizer(["0389", "4280"]).tokens([1, 3, 8, 4, 2]))
        <BOS> <v> 4280 <\v> <EOS>
        """
        return [self._tokens[token_id] for token_id in self._as_list(ids)]

    # ------------------------------------------------------------------ encoding

    def encode_visit(self, visit: Codes) -> list[int]:
        r"""One visit as ``<v>``, its codes in their order, ``<\v>``.

        Under ``unseen="skip"`` a visit of unseen codes alone gives an empty list.

        >>> CodeTokenizer(["0389", "4280"]).encode_visit(["4280", "0389"])
        [3, 8, 7, 4]
        """
        codes = self._codes_of(visit)
        if self.unseen == "raise":
            ids = [self.code_to_id(code) for code in codes]
        else:
            ids = [self._ids[code] for code in codes if code in self]
            if codes and not ids:
                return []
        return [self.visit_start_id, *ids, self.visit_end_id]

    def encode(self, visits: PatientRecord | Sequence[Codes]) -> list[int]:
        r"""One patient as ``<BOS>``, the visits in their order, ``<EOS>``.

        Args:
            visits: a PatientRecord, or a sequence of visits.

        >>> CodeTokenizer(["0389", "4280"]).encode([["4280"], ["0389", "4280"]])
        [1, 3, 8, 4, 3, 7, 8, 4, 2]
        """
        if isinstance(visits, PatientRecord):
            visits = visits.visits
        elif isinstance(visits, (str, Visit)):
            raise InputError(
                "CodeTokenizer.encode",
                "",
                f"{visits!r} is not a patient",
                "Give a list of visits, or use encode_visit for one visit.",
            )
        ids = [self.bos_id]
        for visit in visits:
            ids += self.encode_visit(visit)
        return [*ids, self.eos_id]

    def unseen_codes(self, records: Iterable[PatientRecord]) -> Counter[str]:
        """Count the codes of these patients that the vocabulary does not have.

        >>> patient = PatientRecord(1, "M", 70, (Visit(("4280", "V103")), Visit(("V103",))))
        >>> CodeTokenizer(["4280"]).unseen_codes([patient])
        Counter({'V103': 2})
        """
        return Counter(code for record in records for code in record.codes if code not in self)

    # ------------------------------------------------------------------ decoding

    def decode(self, ids: Any) -> list[list[str]]:
        r"""The visits that a sequence of ids stands for, as lists of codes.

        Reading stops at ``<EOS>``. The one exception is an ``<EOS>`` before anything else: BART
        starts its decoder with that token, so it opens what a model has generated and ends
        nothing. ``<PAD>``, ``<BOS>``, ``<END>`` and ``<mask>`` stand for no code and are passed
        over. A visit without codes stays, as an empty list.

        What a model writes need not be well formed, and no code of it is lost: a visit that is
        never closed ends where the next one opens or the record ends, and a code outside of any
        visit opens one.

        Args:
            ids: one record: a list, a NumPy array or a torch tensor of shape (length,).

        Raises:
            InputError: if an id is not in the vocabulary, with its place, or ids is not a flat
                sequence of whole numbers.

        >>> tokenizer = CodeTokenizer(["0389", "4280"])
        >>> tokenizer.decode([2, 1, 3, 8, 4, 3, 4, 3, 7, 8, 4, 2, 0, 0])
        [['4280'], [], ['0389', '4280']]
        """
        visits: list[list[str]] = []
        inside = False
        started = False
        for token_id in self._as_list(ids):
            if token_id == self.eos_id and started:
                break
            started = started or token_id != self.pad_id
            if token_id == self.visit_start_id:
                visits.append([])
                inside = True
            elif token_id == self.visit_end_id:
                inside = False
            elif token_id >= len(SPECIAL_TOKENS):
                if not inside:
                    visits.append([])
                    inside = True
                visits[-1].append(self._tokens[token_id])
        return visits

    @property
    def fingerprint(self) -> str:
        """A short text that differs from vocabulary to vocabulary; a model keeps it.

        >>> CodeTokenizer(["0389", "4280"]).fingerprint
        '31e5eeafd6e8dab1'
        """
        # ICD-9-CM is not named, so that models made before there were two systems still load.
        system = () if self.system == "ICD9CM" else (self.system,)
        text = " ".join((*SPECIAL_TOKENS, *system, *self.codes))
        return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]

    # ------------------------------------------------------------------ files

    def save(self, path: str | Path) -> None:
        """Write the vocabulary to a JSON file, whole or not at all.

        ``unseen`` is no part of the vocabulary and is not written: it is said when loading.
        """
        content: dict[str, Any] = {"special_tokens": list(SPECIAL_TOKENS)}
        if self.system != "ICD9CM":
            content["system"] = self.system
        content["codes"] = list(self.codes)
        saved.write(path, kind=_KIND, version=_VERSION, content=content)

    @classmethod
    def load(cls, path: str | Path, *, unseen: Literal["raise", "skip"] = "raise") -> Self:
        """Read a tokenizer that ``save`` wrote.

        Raises:
            InputError: if the file is missing, is no code tokenizer, is of another version, is
                damaged, or has other special tokens: every id would then mean another code. A
                file that names no code system is of ICD-9-CM.
        """
        content = saved.read(
            path, kind=_KIND, version=_VERSION, remake="CodeTokenizer.from_records and save"
        )
        if content.get("special_tokens") != list(SPECIAL_TOKENS):
            raise InputError(
                path,
                "special_tokens",
                f"they are {content.get('special_tokens')}, not {list(SPECIAL_TOKENS)}: "
                "its ids mean other tokens",
                "Make it again with CodeTokenizer.from_records and save.",
            )
        return cls(content["codes"], unseen=unseen, system=content.get("system", "ICD9CM"))

    # ------------------------------------------------------------------ as an object

    def __eq__(self, other: object) -> bool:
        """Two tokenizers are equal when they have the same vocabulary of the same system."""
        if not isinstance(other, CodeTokenizer):
            return NotImplemented
        return (self.system, self.codes) == (other.system, other.codes)

    def __hash__(self) -> int:
        return hash((self.system, self.codes))

    def __repr__(self) -> str:
        system = "" if self.system == "ICD9CM" else f", system={self.system!r}"
        return f"CodeTokenizer({len(self.codes):,} codes, unseen={self.unseen!r}{system})"

    # ------------------------------------------------------------------ checks

    def _codes_of(self, visit: Codes) -> Sequence[str]:
        """The codes of a visit, which must be of this vocabulary's system where it says so."""
        if isinstance(visit, Visit):
            if visit.system != self.system:
                raise InputError(
                    "CodeTokenizer",
                    "visit",
                    f"it is coded in {SYSTEM_NAMES[visit.system]}, and this vocabulary is "
                    f"{SYSTEM_NAMES[self.system]}",
                    "Use a tokenizer of the same system, or translate the codes: "
                    "ehr-course prepare --map.",
                )
            return visit.codes
        if isinstance(visit, str):
            raise InputError(
                "CodeTokenizer",
                "visit",
                f"{visit!r} is one text",
                f"Write [{visit!r}] for a visit.",
            )
        return visit

    def _as_list(self, ids: Any) -> list[int]:
        """The ids as plain whole numbers, each of them in the vocabulary."""
        # NumPy arrays and torch tensors both have tolist, so torch need not be imported here.
        listed = ids.tolist() if hasattr(ids, "tolist") else list(ids)
        if not isinstance(listed, list):
            raise InputError("ids", "", f"{ids!r} is one number", "Give a sequence of ids.")
        return [self._checked(token_id, f"place {i}") for i, token_id in enumerate(listed)]

    def _checked(self, token_id: Any, place: str) -> int:
        if hasattr(token_id, "item"):  # one element of an array or a tensor
            token_id = token_id.item()
        if isinstance(token_id, list):
            raise InputError("ids", place, "it is a row of ids", "Decode one record at a time.")
        if not isinstance(token_id, int) or isinstance(token_id, bool):
            raise InputError("ids", place, f"{token_id!r} is not a whole number", "Give ids.")
        if not 0 <= token_id < len(self):
            raise InputError(
                "ids",
                place,
                f"{token_id} is not the id of a token: they run from 0 to {len(self) - 1}",
                "Was this encoded by another tokenizer? (Labels of -100 are not ids either.)",
            )
        return token_id

    def _remedy(self, code: object) -> str:
        if isinstance(code, str):
            plain = code.replace(".", "").strip().upper()
            if plain in self:
                return f"Write {plain!r}: codes are undotted text in upper case."
            near = difflib.get_close_matches(plain, self.codes, n=1)
            close = f" (the nearest code it has is {near[0]!r})" if near else ""
        else:
            close = ""
        return (
            f"Check the code{close}, build the vocabulary from records that have it, "
            'or leave such codes out with unseen="skip".'
        )


_KIND = "code tokenizer"
_VERSION = 1


def _is_plain(code: object) -> bool:
    return isinstance(code, str) and code.isascii() and code.isalnum() and code == code.upper()
