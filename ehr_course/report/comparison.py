"""Several synthetic cohorts held against the same real patients, side by side."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ehr_course.errors import InputError
from ehr_course.evaluation.measure import Measure
from ehr_course.models.prefix_tuning import PrefixTuned
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.records import AnyRecord
from ehr_course.report.judging import Report, judge
from ehr_course.tokenizers.codes import CodeTokenizer


@dataclass(frozen=True)
class Row:
    """One measure of every cohort.

    Attributes:
        name, unit, meaning: of the measure.
        floor: what real patients score; where cohorts have different floors, because one is small
            or lacks an age or a sex, that of most of them.
        cells: the measure of each cohort, in the order of their names; None where it was left out.
    """

    name: str
    unit: str
    meaning: str
    floor: float
    cells: tuple[Measure | None, ...]

    def has_other_floor(self, measure: Measure) -> bool:
        """Whether a cohort is held against another floor than that of the row."""
        return measure.floor != self.floor and not math.isnan(measure.floor)


@dataclass(frozen=True)
class Comparison:
    """What was found of each cohort.

    Attributes:
        title: of the page.
        reports: of each cohort, by its name: what judge finds of it alone.
    """

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
        """What to know before cohorts are held against each other, a sentence each."""
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
    train: Sequence[AnyRecord],
    held_out: Sequence[AnyRecord] | None,
    synthetic: Mapping[str, Sequence[AnyRecord]],
    other_real: Sequence[AnyRecord] = (),
    model: Mapping[str, PromptBart | PrefixTuned] | None = None,
    tokenizer: Mapping[str, CodeTokenizer] | None = None,
    title: str = "Synthetic cohorts",
    reading: Mapping[str, Sequence[str]] | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Comparison:
    """Hold several synthetic cohorts against the same real patients.

    Each is judged as ``judge`` does it alone, with the same seed: another cohort beside it changes
    no number.

    Args:
        train, held_out, other_real, title, seed, progress: as ``judge`` takes them.
        synthetic: the cohorts by their names.
        model, tokenizer: by the name of the cohort that it wrote; some or none of them.
        reading: by the name of the cohort: what was dropped or changed when it was read.

    Raises:
        InputError: if there is no cohort, a model has the name of none, or as ``judge`` does.
    """
    if not synthetic:
        raise InputError("synthetic", "", "there is no cohort", "Give at least one.")
    models, tokenizers, read = model or {}, tokenizer or {}, reading or {}
    for what, named in (("model", models), ("tokenizer", tokenizers), ("reading", read)):
        for name in named:
            if name not in synthetic:
                raise InputError(
                    what,
                    repr(name),
                    f"no cohort has this name (there are: {', '.join(synthetic)})",
                    "Name the cohort that the model wrote.",
                )
    reports = {
        name: judge(
            train=train,
            held_out=held_out,
            synthetic=cohort,
            other_real=other_real,
            model=models.get(name),
            tokenizer=tokenizers.get(name),
            title=name,
            reading=read.get(name, ()),
            seed=seed,
            progress=progress,
        )
        for name, cohort in synthetic.items()
    }
    return Comparison(title, reports)
