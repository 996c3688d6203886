r"""One code, one token: ``<BOS> <v> 4280 42731 <\v> <v> 4280 <\v> <EOS>`` is two visits.

Ids begin with the special tokens or with the vocabulary of a BART, ``<v>`` and ``<\v>``; the codes
follow in sorted order.
"""

from __future__ import annotations

import difflib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Self

from ehr_course.code_system import SYSTEM_NAMES, CodeSystem, checked_system
from ehr_course.errors import InputError
from ehr_course.records import PatientRecord, Visit, system_of
from ehr_course.tokenizers.base import Tokenizer, check_special_tokens

SPECIAL_TOKENS = ("<PAD>", "<BOS>", "<EOS>", "<v>", "<\\v>", "<END>", "<mask>")
"""The special tokens in the order of their ids; ``<END>`` is reserved, not used."""

_VISIT_TOKENS = ("<v>", "<\\v>")
_BART_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")

Codes = Visit | Sequence[str]
"""A visit as the tokenizer takes it: a Visit, or its codes alone."""


class CodeTokenizer(Tokenizer):
    r"""Turns codes, visits and patients into token ids, and back.

    There is no "unknown" token: a model would write it into the patients that it makes up.

    Args:
        codes: the vocabulary, in any order; repetitions count once.
        unseen: what encoding does with a code outside the vocabulary: "raise" raises an
            InputError, "skip" leaves it out, and with it a visit that has no code left.
        system: the code system of the vocabulary; a Visit of the other one is refused.
        base_tokens: the vocabulary that the codes extend, in the order of its ids; see
            ``extending_bart``. It changes ``pad_id``, ``first_code_id`` and so on.

    >>> tokenizer = CodeTokenizer(["4280", "0389", "V3001"])
    >>> len(tokenizer)
    10
    >>> tokenizer.encode([["4280", "0389"], ["V3001"]])
    [1, 3, 8, 7, 4, 3, 9, 4, 2]
    >>> tokenizer.decode([1, 3, 8, 7, 4, 3, 9, 4, 2])
    [['4280', '0389'], ['V3001']]
    """

    pad_id, bos_id, eos_id, visit_start_id, visit_end_id = range(5)
    mask_id = SPECIAL_TOKENS.index("<mask>")
    first_code_id = len(SPECIAL_TOKENS)
    """All ids from here on are of codes."""

    _kind = "code tokenizer"
    _remake = "CodeTokenizer.from_records and save"

    def __init__(
        self,
        codes: Iterable[str],
        *,
        unseen: Literal["raise", "skip"] = "raise",
        system: CodeSystem = "ICD9CM",
        base_tokens: Sequence[str] = (),
    ) -> None:
        self.system = checked_system(system)
        """The code system of the vocabulary."""
        if unseen not in ("raise", "skip"):
            raise InputError(
                "CodeTokenizer", "unseen", f"{unseen!r} is not a policy", 'Use "raise" or "skip".'
            )
        if isinstance(codes, str):
            raise _one_text("codes", codes)
        vocabulary = set(codes)
        if not vocabulary:
            raise InputError("CodeTokenizer", "codes", "the list is empty", "Were records loaded?")
        for code in vocabulary:
            is_text = isinstance(code, str) and code.isascii() and code.isalnum()
            if not is_text or code != code.upper():
                raise InputError(
                    "CodeTokenizer",
                    "codes",
                    f"{code!r} is not an undotted code in upper case",
                    f"Use {'icd9' if self.system == 'ICD9CM' else 'icd10'}.normalize first.",
                )
        self.unseen = unseen
        self.codes: tuple[str, ...] = tuple(sorted(vocabulary))
        """The vocabulary in the order of its ids: ``codes[i]`` has id ``first_code_id + i``."""
        self.base_tokens: tuple[str, ...] = tuple(base_tokens)
        """The vocabulary that the codes extend; empty in a vocabulary of the course's own."""
        before_codes: tuple[str, ...] = SPECIAL_TOKENS
        if base_tokens:
            before_codes = (*self.base_tokens, *_VISIT_TOKENS)
            places = map(self.base_tokens.index, _BART_TOKENS)
            self.bos_id, self.pad_id, self.eos_id, self.unk_id, self.mask_id = places
            self.visit_start_id = len(base_tokens)
            self.visit_end_id = len(base_tokens) + 1
            self.first_code_id = len(before_codes)
        self._tokens = before_codes + self.codes
        # Of codes alone: a piece of text in BART's vocabulary can look like a code ("650").
        self._code_ids = {code: i for i, code in enumerate(self.codes, self.first_code_id)}

    @classmethod
    def from_records(
        cls, train_records: Iterable[PatientRecord], *, unseen: Literal["raise", "skip"] = "raise"
    ) -> Self:
        """Take the vocabulary from the training patients.

        Codes that only test patients have would tell the model what the test holds.
        """
        records = list(train_records)
        codes = (code for record in records for code in record.codes)
        return cls(codes, unseen=unseen, system=system_of(records))

    def skipping_unseen(self) -> Self:
        """The same tokenizer with ``unseen="skip"``."""
        return type(self)(
            self.codes, unseen="skip", system=self.system, base_tokens=self.base_tokens
        )

    def extending_bart(self, folder: str | Path) -> Self:
        r"""The same codes after a BART's vocabulary, ``<v>`` and ``<\v>``.

        Args:
            folder: a Hugging Face folder with tokenizer.json or vocab.json of a BART.
        """
        tokens = _bart_tokens(Path(folder))
        return type(self)(self.codes, unseen=self.unseen, system=self.system, base_tokens=tokens)

    # ------------------------------------------------------------------ one token

    def __contains__(self, code: object) -> bool:
        """Whether the code is in the vocabulary; special tokens are not codes."""
        return code in self._code_ids

    def code_to_id(self, code: str) -> int:
        """The id of a code; an InputError if it is not in the vocabulary, whatever ``unseen``."""
        if code in self:
            return self._code_ids[code]
        plain = str(code).replace(".", "").strip().upper()
        near = difflib.get_close_matches(plain, self.codes, n=1)
        close = f" (the nearest code it has is {near[0]!r})" if near else ""
        remedy = (
            f"Check the code{close}, build the vocabulary from records that have it, "
            'or leave such codes out with unseen="skip".'
        )
        if plain in self:
            remedy = f"Write {plain!r}: codes are undotted text in upper case."
        raise InputError("CodeTokenizer", f"code {code!r}", "it is not in the vocabulary", remedy)

    def id_to_token(self, token_id: int) -> str:
        """The special token or code of an id."""
        return self.piece(token_id)

    def tokens(self, ids: Any) -> list[str]:
        r"""The tokens of a sequence of ids, special tokens included.

        >>> print(*CodeTokenizer(["0389", "4280"]).tokens([1, 3, 8, 4, 2]))
        <BOS> <v> 4280 <\v> <EOS>
        """
        return self.convert_ids_to_tokens(ids)

    # ------------------------------------------------------------------ encoding

    def encode_visit(self, visit: Codes) -> list[int]:
        r"""One visit as ``<v>``, its codes, ``<\v>``; empty if every code is skipped."""
        if isinstance(visit, str):
            raise _one_text("visit", visit)
        if isinstance(visit, Visit) and visit.system != self.system:
            raise InputError(
                "CodeTokenizer",
                "visit",
                f"it is coded in {SYSTEM_NAMES[visit.system]}, and this vocabulary is "
                f"{SYSTEM_NAMES[self.system]}",
                "Use a tokenizer of the same system, or translate the codes: "
                "ehr-course prepare --map.",
            )
        codes = visit.codes if isinstance(visit, Visit) else visit
        if self.unseen == "raise":
            ids = [self.code_to_id(code) for code in codes]
        else:
            ids = [self._code_ids[code] for code in codes if code in self]
            if codes and not ids:
                return []
        return [self.visit_start_id, *ids, self.visit_end_id]

    def encode(self, visits: PatientRecord | Sequence[Codes]) -> list[int]:
        """One patient as ``<BOS>``, the visits, ``<EOS>``."""
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

    @property
    def empty_record(self) -> list[int]:
        """The encoder's input for a record that is not known at all: ``<BOS> <mask> <EOS>``."""
        return [self.bos_id, self.mask_id, self.eos_id]

    def unseen_codes(self, records: Iterable[PatientRecord]) -> Counter[str]:
        """Count the codes of these patients that are not in the vocabulary."""
        return Counter(code for record in records for code in record.codes if code not in self)

    # ------------------------------------------------------------------ decoding

    def decode(self, ids: Any) -> list[list[str]]:
        """The visits of a record as lists of codes; every code is kept, well formed or not.

        Reading stops at ``<EOS>``, except at the first token, with which BART starts its decoder.
        A new visit ends one that is not closed, and a code outside of any visit opens one.

        Args:
            ids: a list, a NumPy array or a torch tensor of shape (length,).

        >>> tokenizer = CodeTokenizer(["0389", "4280"])
        >>> tokenizer.decode([2, 1, 3, 8, 4, 3, 4, 3, 7, 8, 4, 2, 0, 0])
        [['4280'], [], ['0389', '4280']]
        """
        visits: list[list[str]] = []
        inside = False
        started = False
        for token_id in self._checked_ids(ids):
            if token_id == self.eos_id and started:
                break
            started = started or token_id != self.pad_id
            if token_id == self.visit_start_id:
                visits.append([])
                inside = True
            elif token_id == self.visit_end_id:
                inside = False
            elif token_id >= self.first_code_id:
                if not inside:
                    visits.append([])
                    inside = True
                visits[-1].append(self._tokens[token_id])
        return visits

    def __repr__(self) -> str:
        system = "" if self.system == "ICD9CM" else f", system={self.system!r}"
        base = f", after {len(self.base_tokens):,} tokens of BART" if self.base_tokens else ""
        return f"CodeTokenizer({len(self.codes):,} codes, unseen={self.unseen!r}{system}{base})"

    def _is_one(self, given: Any) -> bool:
        # A patient is a record, or a list whose first item is a visit; an empty list is a batch.
        if isinstance(given, PatientRecord):
            return True
        first: Any = given[0] if given else ()
        if isinstance(first, (Visit, PatientRecord)):
            return isinstance(first, Visit)
        return len(first) > 0 and isinstance(first[0], str)

    def _model_input(self, one: PatientRecord | Sequence[Codes]) -> list[int]:
        return self.encode(one)

    def _fingerprinted(self) -> bytes:
        # ICD-9-CM is not named, so that models made before there were two systems still load.
        system = () if self.system == "ICD9CM" else (self.system,)
        before = self._tokens[: self.first_code_id]
        return " ".join((*before, *system, *self.codes)).encode("utf-8")

    def _content(self) -> dict[str, Any]:
        """The vocabulary, without ``unseen``, which is an option of loading."""
        content: dict[str, Any] = {"special_tokens": list(SPECIAL_TOKENS)}
        if self.base_tokens:
            content = {"special_tokens": list(_VISIT_TOKENS), "base_tokens": self.base_tokens}
        if self.system != "ICD9CM":
            content["system"] = self.system
        return content | {"codes": list(self.codes)}

    @classmethod
    def _from_content(cls, content: dict[str, Any], path: str | Path, **options: Any) -> Self:
        base_tokens = content.get("base_tokens", ())
        check_special_tokens(content, _VISIT_TOKENS if base_tokens else SPECIAL_TOKENS, path)
        # A file without a code system is of ICD-9-CM.
        return cls(
            content["codes"],
            system=content.get("system", "ICD9CM"),
            base_tokens=base_tokens,
            **options,
        )


def _one_text(place: str, text: str) -> InputError:
    return InputError("CodeTokenizer", place, f"{text!r} is one text", f"Write [{text!r}].")


def _bart_tokens(folder: Path) -> list[str]:
    """The tokens of a BART tokenizer, in the order of their ids."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        path = folder / "vocab.json"
    remedy = "Name a Hugging Face folder that has tokenizer.json or vocab.json of a BART."
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if path.name == "tokenizer.json":
            added = {token["content"]: token["id"] for token in content["added_tokens"]}
            content = content["model"]["vocab"] | added
        tokens = sorted(content, key=content.__getitem__)
        if [content[token] for token in tokens] != list(range(len(tokens))):
            raise ValueError
    except OSError:
        raise InputError(folder, "", "it holds no tokenizer", remedy) from None
    except (KeyError, TypeError, ValueError):
        raise InputError(path, "", "this is not the tokenizer of a BART", remedy) from None
    missing = [token for token in _BART_TOKENS if token not in content]
    if missing:
        raise InputError(path, "", f"it has no token {', '.join(missing)}", remedy)
    return tokens
