"""Every judgement of a synthetic cohort in one call."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from tqdm import tqdm

from ehr_course.errors import InputError
from ehr_course.evaluation import privacy_attacks
from ehr_course.evaluation.fidelity import fidelity
from ehr_course.evaluation.measure import FEWEST, LeftOut, Measure
from ehr_course.evaluation.overfitting import drawn, overfitting
from ehr_course.evaluation.perplexity import RELATIVE, perplexity
from ehr_course.evaluation.privacy import Privacy, privacy
from ehr_course.evaluation.utility import NAMES, Utility, utility
from ehr_course.evaluation.validity import WorstCode, validity
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.records import AnyRecord
from ehr_course.report.verdicts import disclosure_in_words, limits_of_use, verdict
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
    """

    key: str
    title: str
    measures: tuple[Measure, ...]
    left_out: tuple[LeftOut, ...] = ()

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

    @property
    def measures(self) -> dict[str, Measure]:
        """Every measure by its name."""
        return {m.name: m for section in self.sections for m in section.measures}

    @property
    def left_out(self) -> tuple[str, ...]:
        """Which measures were left out and why, in sentences."""
        return tuple(text for section in self.sections for text in section.left_out_in_words)

    def to_json(self) -> dict[str, Any]:
        """The report as JSON holds it; a number that is not finite is None."""
        return {
            "title": self.title,
            "sizes": self.sizes,
            "headlines": list(self.headlines),
            "sections": [
                {
                    "key": section.key,
                    "title": section.title,
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
    model: PromptBart | None = None,
    tokenizer: CodeTokenizer | None = None,
    title: str = "A synthetic cohort",
    reading: Sequence[str] = (),
    seed: int = 0,
    progress: bool = False,
) -> Report:
    """Hold a synthetic cohort against real patients.

    Fidelity and validity compare it with the patients that its model learned from. Privacy asks
    whether those can be told from the held-out ones, of whom the cohort cannot know. Utility
    trains on the cohort and tests on the held-out ones.

    Args:
        train: real patients that the model learned from.
        held_out: real patients that it did not learn from; without them, None, neither privacy
            nor utility can be judged, and both are left out.
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
        InputError: if a cohort has no patients, the same real patient is in both parts, or one
            of model and tokenizer is missing.
    """
    _check(train, held_out, synthetic, model, tokenizer)
    judgements: dict[str, tuple[str, Callable[[], Any]]] = {
        "fidelity": (
            "Is everything as frequent as in real patients?",
            lambda: fidelity(
                train, synthetic, other_real=[*(held_out or ()), *other_real], seed=seed
            ),
        ),
        "validity": (
            "Are its patients possible?",
            lambda: validity(synthetic, real=train, seed=seed),
        ),
        "perplexity": (
            "How well does the model predict real patients?",
            lambda: perplexity(
                model,
                CodeTokenizer(tokenizer.codes, unseen="skip"),
                drawn(held_out, seed),
                train=train,
                seed=seed,
            ),
        ),
        "privacy": (
            "Does it give away the patients that its model learned from?",
            lambda: (
                Privacy((), (), _without_held_out(privacy_attacks.MEANINGS))
                if held_out is None
                else privacy(
                    train, held_out, synthetic, model=model, tokenizer=tokenizer, seed=seed
                )
            ),
        ),
        "utility": (
            "Can one learn from it what real patients teach?",
            lambda: (
                Utility((), left_out=_without_held_out(NAMES))
                if held_out is None
                else utility(train, synthetic, held_out, seed=seed)
            ),
        ),
    }
    if model is None:
        del judgements["perplexity"]
    parts = []
    hidden = {} if progress else {"disable": True}
    with tqdm(judgements.items(), unit="judgement", leave=False, **hidden) as bar:
        for key, (question, measured) in bar:
            bar.set_description(key)
            parts.append((key, question, measured()))
    sections = tuple(
        Section(key, question, part.measures, getattr(part, "left_out", ()))
        for key, question, part in parts
    )
    warnings = [w for _, _, part in parts for w in getattr(part, "warnings", ())]
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
    headlines = [*disclosure_in_words(of["privacy"])]
    if relative and relative[0] > 1:
        headlines.append(overfitting(model, tokenizer, held_out, train, seed=seed).in_words)
    return Report(
        title,
        sizes,
        sections,
        tuple(next(part.worst for key, _, part in parts if key == "validity")),
        limits_of_use(of),
        tuple(dict.fromkeys(warnings)),
        {
            "seed": seed,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in _PACKAGES},
        },
        tuple(reading),
        tuple(filter(None, headlines)),
    )


def _without_held_out(names: Iterable[str]) -> tuple[LeftOut, ...]:
    return tuple(LeftOut(name, "there are no held-out patients") for name in names)


def _size(cohort: Sequence[AnyRecord]) -> dict[str, int]:
    return {
        "patients": len(cohort),
        "visits": sum(len(record.visits) for record in cohort),
        "codes": sum(len(record.codes) for record in cohort),
        "different codes": len({code for record in cohort for code in record.codes}),
    }


def _is_small(size: dict[str, int]) -> bool:
    return size["patients"] < FEWEST


def _check(
    train: Sequence[AnyRecord],
    held_out: Sequence[AnyRecord] | None,
    synthetic: Sequence[AnyRecord],
    model: PromptBart | None,
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
