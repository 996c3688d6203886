"""The report as two files: a page to read and a file to compute with."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from ehr_course.code_system import SYSTEM_NAMES
from ehr_course.icd import code_meaning
from ehr_course.new_folder import check_new_folder, new_folder
from ehr_course.plots.cohort_dashboard import draw_dashboard
from ehr_course.plots.measures import draw_measures
from ehr_course.plots.style import Picture
from ehr_course.records import AnyRecord
from ehr_course.report.judging import Comparison, Report, judge, judge_each
from ehr_course.report.verdicts import Verdict, verdict

PAGE, NUMBERS = "report.html", "report.json"
"""The names of the two files."""


def write_report(
    folder: str | Path,
    *,
    train: Sequence[AnyRecord],
    held_out: Sequence[AnyRecord] | None,
    synthetic: Sequence[AnyRecord] | Mapping[str, Sequence[AnyRecord]],
    overwrite: bool = False,
    **how: Any,
) -> Report | Comparison:
    """Judge one or several synthetic cohorts and write report.html and report.json.

    Both files hold numbers about cohorts and no patient's row; the page needs no network.

    Args:
        folder: where to write, whole or not at all: a new or an empty one.
        synthetic: a cohort, or several by their names, side by side on the page.
        overwrite: whether a folder with something in it is replaced.
        how: the other options of ``judge``, or for several cohorts of ``judge_each``.
    """
    check_new_folder(folder, overwrite=overwrite)
    report: Report | Comparison
    if isinstance(synthetic, Mapping):
        report = judge_each(train=train, held_out=held_out, synthetic=synthetic, **how)
        looks = {name: draw_dashboard(train, cohort) for name, cohort in synthetic.items()}
        page = page_of_several(report, pictures=looks)
    else:
        report = judge(train=train, held_out=held_out, synthetic=synthetic, **how)
        page = page_of(report, pictures=[draw_dashboard(train, synthetic)])
    numbers = json.dumps(report.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
    with new_folder(folder, overwrite=overwrite) as unfinished:
        (unfinished / NUMBERS).write_text(numbers + "\n", encoding="utf-8")
        (unfinished / PAGE).write_text(page, encoding="utf-8")
    return report


def page_of(report: Report, *, pictures: Sequence[Picture] = ()) -> str:
    """The report as one HTML page; the pictures are shown after the summary."""
    return _filled(
        "page.html",
        report,
        report=report,
        pictures=pictures,
        charts={section.key: draw_measures(section.measures) for section in report.sections},
        tally=_tally(report),
    )


def page_of_several(comparison: Comparison, *, pictures: Mapping[str, Picture]) -> str:
    """Several reports as one HTML page, with a column and a picture for each cohort."""
    reports = list(comparison.reports.values())
    tallies = [_tally(report) for report in reports]
    return _filled(
        "compared.html",
        reports[0],
        report=comparison,
        pictures=pictures,
        tallies=tallies,
        kinds=[kind.value for kind in Verdict if any(kind.value in tally for tally in tallies)],
        any_of=lambda name: any(getattr(report, name) for report in reports),
    )


def _filled(name: str, first: Report, **values: Any) -> str:
    """A page of the package, filled in; the first report has the settings and the system."""
    pages = resources.files("ehr_course.report")
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(lambda page: (pages / page).read_text(encoding="utf-8")),
    )
    environment.filters |= {
        "number": number_in_words,
        "image": _image,
        "dotted": lambda code, system: code_meaning(system).dotted(code),
    }
    environment.tests["finite"] = math.isfinite
    return environment.get_template(name).render(
        verdict=verdict,
        settings=first.settings,
        # ICD-9-CM is what a page without a code system means.
        code_system="" if first.system == "ICD9CM" else SYSTEM_NAMES[first.system],
        **values,
    )


def number_in_words(value: float) -> str:
    """A measured number with three digits that say something, or a dash for none."""
    if not math.isfinite(value):
        return "–"
    if abs(value) >= 1e6:
        return f"{value:.1e}"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-4 or value == 0 else f"{value:.0e}"


def _tally(report: Report) -> dict[str, int]:
    said = [verdict(measure) for measure in report.measures.values()]
    return {kind.value: said.count(kind) for kind in Verdict if kind in said}


def _image(picture: Picture) -> dict[str, Any]:
    width, height = picture.page_size
    data = base64.b64encode(picture.png()).decode("ascii")
    return {
        "source": f"data:image/png;base64,{data}",
        "width": width,
        "height": height,
        "text": picture.alternative_text,
    }
