"""Every judgement of a synthetic cohort in one call."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import Any

from tqdm import tqdm

from ehr_course.code_system import SYSTEM_NAMES, CodeSystem
from ehr_course.errors import InputError
from ehr_course.evaluation.measure import (
    FEWEST,
    Judgement,
    LeftOut,
    Measure,
    which_are_too_few,
)
from ehr_course.evaluation.memory import NEARER
from ehr_course.evaluation.perplexity import RELATIVE, at_most_500, overfitting, perplexity
from ehr_course.evaluation.privacy import MEANINGS, WITH_A_COPY, patients_with_a_copy, privacy
from ehr_course.evaluation.utility import NAMES, utility
from ehr_course.evaluation.validity import WorstCode, validity
from ehr_course.models.prefix_tuning import PrefixTuned
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.records import AnyRecord, complete_records, system_of
from ehr_course.report.judged_fidelity import fidelity_in_words, judged_fidelity
from ehr_course.report.verdicts import (
    NONE_HELD_OUT,
    disclosure_in_words,
    limits_of_use,
    verdict,
)
from ehr_course.tokenizers.codes import CodeTokenizer

_PACKAGES = ("ehr-course", "numpy", "scikit-learn", "scipy", "torch", "transformers")


@dataclass(frozen=True)
class Section:
    """One question about the cohort, and the measures that answer it.

    Attributes:
        key: "fidelity", "validity", "perplexity", "privacy" or "utility".
        title: the question.
        measures: the answers.
        left_out: the measures that the cohorts lack something for.
        in_words: what is to be read before the measures, a sentence or two each.
    """

    key: str
    title: str
    measures: tuple[Measure, ...]
    left_out: tuple[LeftOut, ...] = ()
    in_words: tuple[str, ...] = ()

    @property
    def left_out_in_words(self) -> tuple[str, ...]:
        """Which measures were left out, a sentence for each reason.

        >>> from ehr_course.evaluation.measure import LeftOut
        >>> missing = "the synthetic cohort has no age"
        >>> left_out = tuple(LeftOut(f"age {n}", missing) for n in ("mean", "spread"))
        >>> Section("fidelity", "?", (), left_out).left_out_in_words
        ('Left out: age mean and age spread, because the synthetic cohort has no age.',)
        """
        names: dict[str, list[str]] = {}
        for name, reason in self.left_out:
            names.setdefault(reason, []).append(name)
        return tuple(
            f"Left out: {' and '.join(filter(None, (', '.join(of[:-1]), of[-1])))}, because "
            f"{reason}."
            for reason, of in names.items()
        )


@dataclass(frozen=True)
class Report:
    """What was found.

    Attributes:
        title: of the page.
        sizes: for "train", "held out" and "synthetic": how many patients, visits, codes, and
            different codes.
        sections: the measures, question by question.
        worst: the impossible codes that the cohort has most often.
        headlines: what matters before any number, a sentence each: whether the cohort copies or
            betrays training patients, and whether its model learned them by heart.
        limits: what the cohort must not be used for, a sentence each.
        warnings: what to know before the numbers are used.
        reading: what was dropped or changed when the cohorts were read.
        settings: the seed and the versions of the packages that computed this.
        system: the code system of the cohorts.
    """

    title: str
    sizes: dict[str, dict[str, int]]
    sections: tuple[Section, ...]
    worst: tuple[WorstCode, ...]
    limits: tuple[str, ...]
    warnings: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    reading: tuple[str, ...] = ()
    headlines: tuple[str, ...] = ()
    system: CodeSystem = "ICD9CM"

    @property
    def measures(self) -> dict[str, Measure]:
        """Every measure by its name."""
        return {m.name: m for section in self.sections for m in section.measures}

    @property
    def in_words(self) -> tuple[str, ...]:
        """What is to be read before the measures, without what the headlines say already."""
        said = (text for section in self.sections for text in section.in_words)
        return tuple(text for text in said if text not in self.headlines)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Which measures were left out and why, in sentences."""
        return tuple(text for section in self.sections for text in section.left_out_in_words)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON holds it; a number that is not finite is None.

        The code system is there where it is not ICD-9-CM.
        """
        return {
            "title": self.title,
            **({} if self.system == "ICD9CM" else {"code_system": self.system}),
            "sizes": self.sizes,
            "headlines": list(self.headlines),
            "sections": [
                {
                    "key": section.key,
                    "title": section.title,
                    "in_words": list(section.in_words),
                    "measures": [
                        m.to_json() | {"verdict": verdict(m).value} for m in section.measures
                    ],
                    "left_out": [measure._asdict() for measure in section.left_out],
                }
                for section in self.sections
            ],
            "impossible_codes": [code._asdict() for code in self.worst],
            "must_not_be_used_for": list(self.limits),
            "warnings": list(self.warnings),
            "reading": list(self.reading),
            "settings": self.settings,
        }


def judge(
    *,
    train: Sequence[AnyRecord],
    held_out: Sequence[AnyRecord] | None,
    synthetic: Sequence[AnyRecord],
    other_real: Sequence[AnyRecord] = (),
    model: PromptBart | PrefixTuned | None = None,
    tokenizer: CodeTokenizer | None = None,
    title: str = "A synthetic cohort",
    reading: Sequence[str] = (),
    seed: int = 0,
    progress: bool = False,
) -> Report:
    """Hold a synthetic cohort against real patients.

    Fidelity compares it with the held-out patients, of whom its model cannot know: held against
    those that it learned from, a cohort of copies would be better than real patients. Validity
    compares it with those that it learned from. Privacy asks whether these can be told from the
    held-out ones. Utility trains on the cohort and tests on the held-out ones.

    Args:
        train: real patients that the model learned from.
        held_out: real patients that it did not learn from; without them, None, neither privacy
            nor utility can be judged, and both are left out. Fidelity then compares with the
            patients that the model learned from, and a warning says what that hides.
        synthetic: the cohort.
        other_real: the rest of the real patients, where train and held_out are some of them.
            They are looked at only to say which synthetic codes no real patient has.
        model, tokenizer: the model that wrote it, if it is there: then its perplexity on at most
            500 of the held-out patients is measured, and whether its likelihood gives away those
            that it learned from.
        title: of the report.
        reading: what was dropped or changed when the cohorts were read, a sentence each.
        seed: of every split and every bootstrap.
        progress: whether to show a bar.

    Raises:
        InputError: if a cohort has no patients, the cohorts are not all coded in one system, the
            same real patient is in both parts, or one of model and tokenizer is missing.
    """
    _check(train, held_out, synthetic, model, tokenizer)
    cohorts = {
        "train": train,
        "held_out": held_out,
        "synthetic": synthetic,
        "other_real": other_real,
    }
    system = _system_of_all(cohorts, tokenizer)

    def predicted() -> Judgement:
        assert tokenizer is not None and held_out is not None  # `_check` has asked for both
        return perplexity(
            model,
            tokenizer.skipping_unseen(),
            at_most_500(complete_records(held_out), seed),
            train=complete_records(train),
            seed=seed,
        )

    judgements: dict[str, tuple[str, Callable[[], Any]]] = {
        "fidelity": (
            "Is everything as frequent as in real patients?",
            lambda: judged_fidelity(train, held_out, synthetic, other_real, seed),
        ),
        "validity": (
            "Are its patients possible?",
            lambda: validity(synthetic, real=train, seed=seed),
        ),
        "perplexity": (
            "How well does the model predict real patients?",
            predicted,
        ),
        "privacy": (
            "Does it give away the patients that its model learned from?",
            lambda: (
                Judgement(left_out=_without_held_out((*MEANINGS, *_ADDED)))
                if held_out is None
                else privacy(
                    train, held_out, synthetic, model=model, tokenizer=tokenizer, seed=seed
                )
            ),
        ),
        "utility": (
            "Can one learn from it what real patients teach?",
            lambda: (
                Judgement(left_out=_without_held_out(NAMES))
                if held_out is None
                else utility(train, synthetic, held_out, seed=seed)
            ),
        ),
    }
    if model is None:
        del judgements["perplexity"]
    parts: dict[str, Any] = {}
    hidden = {} if progress else {"disable": True}
    with tqdm(judgements.items(), unit="judgement", leave=False, **hidden) as bar:
        for key, (_, measured) in bar:
            bar.set_description(key)
            parts[key] = measured()
    memory = getattr(parts["fidelity"], "memory", None)
    if held_out is not None:
        added = [patients_with_a_copy(train, held_out, synthetic)]
        added += [] if memory is None else [memory.gap]
        parts["privacy"] = replace(parts["privacy"], measures=(*parts["privacy"].measures, *added))
    patients = {"training": len(train), "held-out": len(held_out or ())}
    patients["synthetic"] = len(synthetic)
    sections = tuple(
        Section(
            key,
            question,
            parts[key].measures,
            getattr(parts[key], "left_out", ()),
            fidelity_in_words(parts[key], patients) if key == "fidelity" else (),
        )
        for key, (question, _) in judgements.items()
    )
    warnings = [w for part in parts.values() for w in getattr(part, "warnings", ())]
    sizes = {
        name: _size(cohort)
        for name, cohort in (("train", train), ("held out", held_out), ("synthetic", synthetic))
        if cohort is not None
    }
    small = [f"{name} ({size['patients']})" for name, size in sizes.items() if _is_small(size)]
    if small:
        warnings.insert(
            0, f"Fewer than {FEWEST} patients: {', '.join(small)}. Such numbers mean little."
        )
    of = {section.key: section.measures for section in sections}
    relative = [m.value for m in of.get("perplexity", ()) if m.name == RELATIVE]
    unjudged = NONE_HELD_OUT if held_out is None else which_are_too_few(patients)
    headlines = [*disclosure_in_words(of["privacy"], memory=memory, unjudged=unjudged)]
    if relative and relative[0] > 1:
        assert tokenizer is not None and held_out is not None  # as a perplexity was measured
        apart, learned = complete_records(held_out), complete_records(train)
        headlines.append(overfitting(model, tokenizer, apart, learned, seed=seed).in_words())
    return Report(
        title,
        sizes,
        sections,
        tuple(parts["validity"].worst),
        limits_of_use(of),
        tuple(dict.fromkeys(warnings)),
        {
            "seed": seed,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in _PACKAGES},
        },
        tuple(reading),
        tuple(filter(None, headlines)),
        system,
    )


_ADDED = (WITH_A_COPY, NEARER)
"""What the report measures of privacy beside the attacks."""


def _without_held_out(names: Iterable[str]) -> tuple[LeftOut, ...]:
    return tuple(LeftOut(name, NONE_HELD_OUT) for name in names)


def _size(cohort: Sequence[AnyRecord]) -> dict[str, int]:
    return {
        "patients": len(cohort),
        "visits": sum(len(record.visits) for record in cohort),
        "codes": sum(len(record.codes) for record in cohort),
        "different codes": len({code for record in cohort for code in record.codes}),
    }


def _is_small(size: dict[str, int]) -> bool:
    return size["patients"] < FEWEST


def _system_of_all(
    cohorts: Mapping[str, Sequence[AnyRecord] | None], tokenizer: CodeTokenizer | None
) -> CodeSystem:
    """The one code system of the cohorts and the model; what is None or empty has none."""
    systems = {name: system_of(cohort) for name, cohort in cohorts.items() if cohort}
    expected = systems["train"]
    if tokenizer is not None and tokenizer.system != expected:
        raise InputError(
            "report",
            "tokenizer",
            f"its codes are {SYSTEM_NAMES[tokenizer.system]}, and train is coded in "
            f"{SYSTEM_NAMES[expected]}",
            "Give the model that learned from these patients, or leave it out.",
        )
    for name, system in systems.items():
        if system != expected:
            raise InputError(
                "report",
                name,
                f"it is coded in {SYSTEM_NAMES[system]}, and train in {SYSTEM_NAMES[expected]}: "
                "the same text means another disease there",
                "Translate one of them first, so that all are coded in one system: "
                "ehr-course prepare --map.",
            )
    return expected


def _check(
    train: Sequence[AnyRecord],
    held_out: Sequence[AnyRecord] | None,
    synthetic: Sequence[AnyRecord],
    model: PromptBart | PrefixTuned | None,
    tokenizer: CodeTokenizer | None,
) -> None:
    for name, cohort in (("train", train), ("held_out", held_out), ("synthetic", synthetic)):
        if cohort is not None and not len(cohort):
            raise InputError(
                "report", name, "there are no patients", "Give at least one; 30 for an interval."
            )
    both = {r.subject_id for r in train} & {r.subject_id for r in held_out or ()}
    if both:
        raise InputError(
            "report",
            f"patient {min(both)}",
            "the same patient is in train and in held_out, so privacy could not be judged",
            "Split by patient: ehr_course.sources.splits.split_by_patient.",
        )
    if (model is None) != (tokenizer is None):
        raise InputError(
            "report", "model", "model and tokenizer belong together", "Give both, or neither."
        )
    if model is not None and held_out is None:
        raise InputError(
            "report", "held_out", "a model is judged by held-out patients", "Give some."
        )
