"""Every judgement of one or several synthetic cohorts in one call."""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from typing import Any

from tqdm import tqdm

from ehr_course.code_system import CodeSystem
from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import one_system
from ehr_course.evaluation.fidelity import (
    NEARER,
    Fidelity,
    Memorization,
    fidelity,
    fidelity_held_out,
)
from ehr_course.evaluation.measure import (
    FEWEST,
    Judgement,
    LeftOut,
    Measure,
    check_patients,
    which_are_too_few,
)
from ehr_course.evaluation.perplexity import RELATIVE, at_most_500, overfitting, perplexity
from ehr_course.evaluation.privacy import MEANINGS, patients_with_a_copy, privacy
from ehr_course.evaluation.utility import NAMES, utility
from ehr_course.evaluation.validity import WorstCode, validity
from ehr_course.records import AnyRecord, complete_records, system_of
from ehr_course.report.verdicts import (
    NONE_HELD_OUT,
    QUESTIONS,
    disclosure_in_words,
    limits_of_use,
    listed,
    verdict,
)
from ehr_course.tokenizers.codes import CodeTokenizer

_PACKAGES = ("ehr-course", "numpy", "scikit-learn", "scipy", "torch", "transformers")


@dataclass(frozen=True)
class Section:
    """One question about the cohort, and the measures that answer it.

    Attributes:
        key: "fidelity", "validity", "perplexity", "privacy" or "utility".
        in_words: what is to be read before the measures, a sentence or two each.
    """

    key: str
    title: str
    measures: tuple[Measure, ...]
    left_out: tuple[LeftOut, ...] = ()
    in_words: tuple[str, ...] = ()

    @property
    def left_out_in_words(self) -> tuple[str, ...]:
        """Which measures were left out, a sentence for each reason."""
        names: dict[str, list[str]] = {}
        for name, reason in self.left_out:
            names.setdefault(reason, []).append(name)
        return tuple(
            f"Left out: {listed(of, most=len(of))}, because {reason}."
            for reason, of in names.items()
        )


@dataclass(frozen=True)
class Report:
    """What was found.

    Attributes:
        sizes: patients, visits, codes and different codes of "train", "held out" and "synthetic".
        worst: the impossible codes that the cohort has most often.
        limits: what the cohort must not be used for, a sentence each.
        warnings: what to know before the numbers are used.
        settings: the seed and the versions of the packages that computed this.
        reading: what was dropped or changed when the cohorts were read.
        headlines: what matters before any number: copies, disclosure, and learning by heart.
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
        """The report as JSON holds it, with None for numbers that are not finite."""
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
            "impossible_codes": [asdict(code) for code in self.worst],
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
    model: Any = None,
    tokenizer: CodeTokenizer | None = None,
    title: str = "A synthetic cohort",
    reading: Sequence[str] = (),
    seed: int = 0,
    progress: bool = False,
) -> Report:
    """Compare a synthetic cohort with real patients.

    Fidelity and utility are judged against held-out patients, because against training patients a
    cohort of copies would be better than real ones; validity against training patients, and
    privacy by telling these from held-out ones.

    Args:
        train: real patients that the model learned from.
        held_out: patients that it did not learn from; without them (None) privacy and utility are
            left out, and fidelity compares with ``train``, with a warning.
        other_real: further real patients, whose codes count as known.
        model, tokenizer: of the cohort, to measure its perplexity on at most 500 held-out patients
            and whether its likelihood gives away those that it learned from.
        reading: what was dropped or changed when the cohorts were read, a sentence each.
    """
    cohorts = {"train": train, "held_out": held_out, "synthetic": synthetic}
    system = _checked({**cohorts, "other_real": other_real}, model, tokenizer)
    parts: dict[str, Any] = {}

    def likeness() -> Fidelity:
        if held_out is not None:
            return fidelity_held_out(train, held_out, synthetic, other_real=other_real, seed=seed)
        found = fidelity(train, synthetic, other_real=other_real, seed=seed)
        return replace(found, warnings=(_HIDDEN, *found.warnings))

    def prediction() -> Judgement:
        assert tokenizer is not None
        assert held_out is not None
        return perplexity(
            model,
            tokenizer.skipping_unseen(),
            at_most_500(complete_records(held_out), seed),
            train=complete_records(train),
            seed=seed,
        )

    def secrecy() -> Judgement:
        if held_out is None:
            return _without_held_out((*MEANINGS, NEARER))
        found = privacy(train, held_out, synthetic, model=model, tokenizer=tokenizer, seed=seed)
        memory = parts["fidelity"].memorization
        added = [patients_with_a_copy(train, held_out, synthetic)]
        added += [] if memory is None else [memory.gap]
        return replace(found, measures=(*found.measures, *added))

    def use() -> Judgement:
        if held_out is None:
            return _without_held_out(NAMES)
        return utility(train, synthetic, held_out, seed=seed)

    judgements: dict[str, Callable[[], Judgement]] = {
        "fidelity": likeness,
        "validity": lambda: validity(synthetic, real=train, seed=seed),
        **({} if model is None else {"perplexity": prediction}),
        "privacy": secrecy,
        "utility": use,
    }
    hidden = {} if progress else {"disable": True}
    with tqdm(judgements.items(), unit="judgement", leave=False, **hidden) as bar:
        for key, judged in bar:
            bar.set_description(key)
            parts[key] = judged()
    memory = parts["fidelity"].memorization
    named = {"training": train, "held-out": held_out or (), "synthetic": synthetic}
    n_patients = {name: len(cohort) for name, cohort in named.items()}
    sections = tuple(
        Section(
            key,
            QUESTIONS[key].title,
            part.measures,
            part.left_out,
            _judged_by(n_patients, memory) if key == "fidelity" and held_out is not None else (),
        )
        for key, part in parts.items()
    )
    warnings = [warning for part in parts.values() for warning in part.warnings]
    sizes = {name.replace("_", " "): _size(of) for name, of in cohorts.items() if of is not None}
    few = [f"{n} ({of['patients']})" for n, of in sizes.items() if of["patients"] < FEWEST]
    if few:
        few_in_words = f"{', '.join(few)}. Such numbers mean little."
        warnings.insert(0, f"Fewer than {FEWEST} patients: {few_in_words}")
    of = {section.key: section.measures for section in sections}
    unjudged = NONE_HELD_OUT if held_out is None else which_are_too_few(n_patients)
    headlines = [*disclosure_in_words(of["privacy"], memory=memory, unjudged=unjudged)]
    if model is not None and parts["perplexity"][RELATIVE].value > 1:
        assert tokenizer is not None
        assert held_out is not None
        apart, learned = complete_records(held_out), complete_records(train)
        headlines.append(overfitting(model, tokenizer, apart, learned, seed=seed).in_words())
    return Report(
        title,
        sizes,
        sections,
        parts["validity"].worst,
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


def _without_held_out(names: Iterable[str]) -> Judgement:
    return Judgement(left_out=tuple(LeftOut(name, NONE_HELD_OUT) for name in names))


def _size(cohort: Sequence[AnyRecord]) -> dict[str, int]:
    return {
        "patients": len(cohort),
        "visits": sum(len(record.visits) for record in cohort),
        "codes": sum(len(record.codes) for record in cohort),
        "different codes": len({code for record in cohort for code in record.codes}),
    }


_HIDDEN = (
    "There are no held-out patients. Fidelity compares the cohort with the patients that its "
    "model learned from: one that copies them looks as good as they are, or better."
)


def _judged_by(sizes: Mapping[str, int], memory: Memorization | None) -> tuple[str, str]:
    """Whom the cohort is compared with, and whether it is nearer to those it was learned from."""
    n = min(sizes["training"], sizes["held-out"])
    patients = "1 held-out patient" if n == 1 else f"{n:,} held-out patients"
    said = (
        f"Judged by {patients}, whom the model never saw. The floor is what training patients "
        "score in the place of the synthetic ones."
    )
    if memory is None:
        few = which_are_too_few(sizes)
        return said, f"Whether the cohort remembers cannot be known: {few}."
    return said, memory.in_words


def _checked(
    cohorts: Mapping[str, Sequence[AnyRecord] | None],
    model: Any,
    tokenizer: CodeTokenizer | None,
) -> CodeSystem:
    """Refuse cohorts and a model that do not go together; return the one code system of all."""
    train, held_out = cohorts["train"], cohorts["held_out"]
    check_patients("report", {name: of for name, of in cohorts.items() if name != "other_real"})
    assert train is not None
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
    systems = {name: system_of(cohort) for name, cohort in cohorts.items() if cohort}
    return one_system(systems | ({} if tokenizer is None else {"model": tokenizer.system}))


# ------------------------------------------------------------------ several cohorts


@dataclass(frozen=True)
class Row:
    """One measure of every cohort, None where it was left out, and the floor of most of them."""

    name: str
    unit: str
    meaning: str
    floor: float
    cells: tuple[Measure | None, ...]

    def has_other_floor(self, measure: Measure) -> bool:
        """Whether a cohort has another floor than that of the row."""
        return measure.floor != self.floor and not math.isnan(measure.floor)


@dataclass(frozen=True)
class Comparison:
    """What was found of each cohort: its report, by its name."""

    title: str
    reports: Mapping[str, Report]

    @property
    def sizes(self) -> dict[str, dict[str, int]]:
        """The sizes of the real cohorts, and of each synthetic one by its name."""
        first = next(iter(self.reports.values()))
        real = {f"real: {n}": size for n, size in first.sizes.items() if n != "synthetic"}
        return real | {name: report.sizes["synthetic"] for name, report in self.reports.items()}

    @property
    def sections(self) -> dict[str, tuple[str, tuple[Row, ...]]]:
        """Each question and the rows that answer it, by the section's key."""
        keys = {s.key: s.title for report in self.reports.values() for s in report.sections}
        return {key: (title, self._rows(key)) for key, title in keys.items()}

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know before cohorts are compared with each other, a sentence each."""
        enough = next(iter(self.reports.values())).sizes["train"]["patients"]
        small = {
            name: patients
            for name, report in self.reports.items()
            if (patients := report.sizes["synthetic"]["patients"]) < enough
        }
        sizes = {report.sizes["synthetic"]["patients"] for report in self.reports.values()}
        if not small or len(sizes) == 1:
            return ()
        listed = ", ".join(f"{name} has {patients:,}" for name, patients in small.items())
        return (
            f"Fewer patients have other floors, and worse values by chance: {listed}. Compare "
            f"cohorts of one size, or of {enough:,} patients and more, as many as the training "
            "part has.",
        )

    def of_all(self, attribute: str) -> tuple[str, ...]:
        """The sentences that hold of every cohort: of its "limits", "warnings", "left_out"."""
        each = [getattr(report, attribute) for report in self.reports.values()]
        return tuple(text for text in each[0] if all(text in other for other in each))

    def of_one(self, name: str, attribute: str) -> tuple[str, ...]:
        """The sentences that hold of a cohort and not of all."""
        shared = self.of_all(attribute)
        return tuple(t for t in getattr(self.reports[name], attribute) if t not in shared)

    def to_json(self) -> dict[str, Any]:
        """The comparison as JSON holds it: the report of each cohort, by its name."""
        cohorts = {name: report.to_json() for name, report in self.reports.items()}
        return {"title": self.title, "cohorts": cohorts}

    def _rows(self, key: str) -> tuple[Row, ...]:
        found = [
            {m.name: m for s in report.sections if s.key == key for m in s.measures}
            for report in self.reports.values()
        ]
        rows = []
        for name in dict.fromkeys(name for measures in found for name in measures):
            cells = tuple(measures.get(name) for measures in found)
            there = [measure for measure in cells if measure is not None]
            floors = Counter(m.floor for m in there if not math.isnan(m.floor))
            floor = floors.most_common(1)[0][0] if floors else math.nan
            rows.append(Row(name, there[0].unit, there[0].meaning, floor, cells))
        return tuple(rows)


def judge_each(
    *,
    synthetic: Mapping[str, Sequence[AnyRecord]],
    model: Mapping[str, Any] | None = None,
    tokenizer: Mapping[str, CodeTokenizer] | None = None,
    title: str = "Synthetic cohorts",
    reading: Mapping[str, Sequence[str]] | None = None,
    **how: Any,
) -> Comparison:
    """Compare several synthetic cohorts, given by name, with the same real patients.

    Each is judged as by ``judge`` alone, which takes the other options: another cohort beside it
    changes no number. Models, tokenizers and what was noticed in ``reading`` are given by the name
    of the cohort.
    """
    if not synthetic:
        raise InputError("synthetic", "", "there is no cohort", "Give at least one.")
    models, tokenizers, read = model or {}, tokenizer or {}, reading or {}
    for option, named in (("model", models), ("tokenizer", tokenizers), ("reading", read)):
        for name in named:
            if name not in synthetic:
                raise InputError(
                    option,
                    repr(name),
                    f"no cohort has this name (there are: {', '.join(synthetic)})",
                    "Use the name of one of the cohorts.",
                )
    reports = {
        name: judge(
            synthetic=cohort,
            model=models.get(name),
            tokenizer=tokenizers.get(name),
            title=name,
            reading=read.get(name, ()),
            **how,
        )
        for name, cohort in synthetic.items()
    }
    return Comparison(title, reports)
