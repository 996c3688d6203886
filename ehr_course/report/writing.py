"""The report as two files: a page to read and a file to compute with."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from ehr_course import icd9
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.new_folder import check_new_folder, new_folder
from ehr_course.plots.cohort_dashboard import draw_dashboard
from ehr_course.plots.measures import draw_measures
from ehr_course.plots.style import Picture
from ehr_course.records import AnyRecord
from ehr_course.report.judging import Report, judge
from ehr_course.report.verdicts import Verdict, verdict
from ehr_course.tokenizers.codes import CodeTokenizer

PAGE, NUMBERS = "report.html", "report.json"
"""The names of the two files."""


def write_report(
    folder: str | Path,
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
    overwrite: bool = False,
    progress: bool = False,
) -> Report:
    """Judge a synthetic cohort and write report.html and report.json.

    The page holds its pictures and needs no network. Both files hold numbers about cohorts, and
    no row of any patient.

    Args:
        folder: where to write; one that is not there yet, or empty. It is there whole or not
            at all.
        train, held_out, synthetic, other_real, model, tokenizer, title, reading, seed, progress:
            as ``judge`` takes them.
        overwrite: whether a folder with something in it is replaced.

    Returns:
        what the files say.

    Raises:
        InputError: as ``judge`` does, or if the folder may not be written.
    """
    check_new_folder(folder, overwrite=overwrite)
    report = judge(
        train=train,
        held_out=held_out,
        synthetic=synthetic,
        other_real=other_real,
        model=model,
        tokenizer=tokenizer,
        title=title,
        reading=reading,
        seed=seed,
        progress=progress,
    )
    numbers = json.dumps(report.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
    page = page_of(report, pictures=[draw_dashboard(train, synthetic)])
    with new_folder(folder, overwrite=overwrite) as unfinished:
        (unfinished / NUMBERS).write_text(numbers + "\n", encoding="utf-8")
        (unfinished / PAGE).write_text(page, encoding="utf-8")
    return report


def page_of(report: Report, *, pictures: Sequence[Picture] = ()) -> str:
    """The report as one HTML page.

    Args:
        report: what was found.
        pictures: shown after the summary; a chart of every section's measures follows anyway.
    """
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    environment.filters |= {"number": number_in_words, "image": _image, "dotted": icd9.dotted}
    source = resources.files("ehr_course.report") / "page.html"
    return environment.from_string(source.read_text(encoding="utf-8")).render(
        report=report,
        pictures=pictures,
        verdict=verdict,
        charts={section.key: draw_measures(section.measures) for section in report.sections},
        tally=_tally(report),
    )


def number_in_words(value: float) -> str:
    """A measured number with three digits that say something, or a dash for none.

    >>> number_in_words(0.012345), number_in_words(1234.5), number_in_words(math.nan)
    ('0.0123', '1,234', '–')
    >>> number_in_words(12_951_007)
    '1.3e+07'
    """
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
