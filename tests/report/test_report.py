"""The report on cohorts whose quality is known beforehand."""

from __future__ import annotations

import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from ehr_course.errors import InputError
from ehr_course.evaluation.measure import Measure
from ehr_course.models.saved import load_checkpoint
from ehr_course.records import PatientRecord, Visit
from ehr_course.report import Verdict, judge, verdict, write_report
from ehr_course.report.judging import Report, Section
from ehr_course.report.writing import number_in_words, page_of
from ehr_course.sources.splits import split_by_patient
from ehr_course.sources.synthetic import make_cohort


@pytest.fixture(scope="module")
def cohorts():
    """Real patients in three parts; the third part plays the synthetic cohort."""
    split = split_by_patient(make_cohort(1800, seed=5), fractions=(1 / 3, 1 / 3, 1 / 3), seed=5)
    return {"train": split.train, "held_out": split.validation, "synthetic": split.test}


@pytest.fixture(scope="module")
def halves(cohorts):
    return judge(**cohorts, seed=1)


def of_kind(report, key):
    return next(s for s in report.sections if s.key == key).measures


def test_real_patients_in_place_of_synthetic_ones_are_as_close_as_real_ones(halves):
    worse = [m.name for m in of_kind(halves, "fidelity") if verdict(m) is Verdict.WORSE]
    # Each interval holds 95 times in 100, so a few may miss their floor.
    assert len(worse) <= len(of_kind(halves, "fidelity")) // 6, worse


def test_real_patients_in_place_of_synthetic_ones_give_nobody_away(halves):
    assert halves.measures["membership by distance"].value == pytest.approx(0.5, abs=0.05)
    worse = [m.name for m in of_kind(halves, "privacy") if verdict(m) is Verdict.WORSE]
    assert len(worse) <= 1, worse


def test_real_patients_in_place_of_synthetic_ones_teach_as_much(halves):
    worse = [m.name for m in of_kind(halves, "utility") if verdict(m) is Verdict.WORSE]
    assert not worse


def test_a_cohort_that_copies_its_patients_must_not_be_given_away(cohorts):
    copied = judge(
        train=cohorts["train"], held_out=cohorts["held_out"], synthetic=cohorts["train"], seed=1
    )
    assert any("must not be given" in sentence for sentence in copied.limits)
    first, copies, *_ = copied.headlines
    assert first == "This cohort must not be given to anybody who may not see the real patients."
    by_chance = copied.measures["training patients with a copy"].floor
    assert copies == (
        "The cohort copies training patients: 100% of its patients have exactly the visits of "
        "one. Of training patients 100% have a copy in it; of held-out patients, whom the "
        f"model never saw, {100 * by_chance:.2g}% have one by chance."
    )
    assert any("difference is 100% of what photocopies" in text for text in copied.headlines)
    assert "nearness to training patients" in copied.measures
    # Memory is not taken for quality.
    said = [verdict(m) for m in of_kind(copied, "fidelity")]
    assert Verdict.BETTER not in said


def test_another_hospital_is_not_a_stand_in(cohorts):
    other = cohorts | {"synthetic": make_cohort(600, seed=9, hospital="heart")}
    report = judge(**other, seed=1)
    assert any("must not stand in for counts" in sentence for sentence in report.limits)


def test_no_two_measures_share_a_name(halves):
    names = [m.name for section in halves.sections for m in section.measures]
    assert len(names) == len(set(names)) == len(halves.measures)


def test_with_its_model_the_report_tells_its_perplexity(cohorts):
    loaded = load_checkpoint("tiny_prompt_bart")
    known = set(loaded.tokenizer.codes)
    some = {
        name: [r for r in cohort if known.issuperset(r.codes)][:60]
        for name, cohort in cohorts.items()
    }
    report = judge(**some, model=loaded.model, tokenizer=loaded.tokenizer)
    assert [s.key for s in report.sections] == [
        "fidelity",
        "validity",
        "perplexity",
        "privacy",
        "utility",
    ]
    found = report.measures
    relative = found.pop("perplexity per code relative to the unigram")
    assert all(found[m.name].value > 1 for m in of_kind(report, "perplexity") if m != relative)
    assert relative.value == pytest.approx(
        found["longitudinal perplexity per code"].value
        / found["unigram perplexity per code"].value
    )
    # A model that learned from this hospital beats a table of its frequencies.
    assert relative.high < 1


class Page(HTMLParser):
    """Collects the text of a page, and its pictures."""

    def __init__(self, text):
        super().__init__()
        self.words, self.pictures, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "img":
            self.pictures.append(dict(attributes))
        elif tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_both_files_say_the_same(tmp_path, cohorts):
    report = write_report(tmp_path / "out", **cohorts, title="Halves <of> one hospital", seed=1)
    numbers = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    page = Page((tmp_path / "out" / "report.html").read_text(encoding="utf-8"))
    text = " ".join(" ".join(page.words).split())

    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "report.html",
        "report.json",
    ]
    assert numbers == json.loads(json.dumps(report.to_json()))
    assert "Halves <of> one hospital" in text
    # What matters first stands before every number of the page.
    first, table = text.index("What matters first"), text.index("held out")
    assert first < text.index(report.headlines[0]) < text.index(report.headlines[-1]) < table
    assert "Against training patients" in text
    (of_fidelity,) = (s for s in numbers["sections"] if s["key"] == "fidelity")
    judged, remembers = of_fidelity["in_words"]
    assert judged == (
        "Judged by 600 held-out patients, whom the model never saw. The floor is what training "
        "patients score in the place of the synthetic ones."
    )
    assert judged in text and remembers in text
    assert all(
        (m["against_training"] is None) == (m["better"] == "near") for m in of_fidelity["measures"]
    )
    for section in numbers["sections"]:
        for measure in section["measures"]:
            assert measure["name"] in text
            assert number_in_words(measure["value"] or math.nan) in text or not measure["value"]
    for sentence in numbers["must_not_be_used_for"]:
        assert sentence in text
    assert not page.open
    assert len(page.pictures) >= 1 + len(report.sections)
    assert all(p["src"].startswith("data:image/png") and p["alt"] for p in page.pictures)


def test_no_patient_stands_in_the_files(tmp_path, cohorts):
    write_report(tmp_path / "out", **cohorts)
    text = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "out").iterdir())
    text = re.sub(r"data:image/png;base64,[^\"]*", "", text)
    numbers = set(re.findall(r"(?<![\d.])\d+(?![\d.])", text))
    for cohort in cohorts.values():
        assert not {str(record.subject_id) for record in cohort} & numbers


def test_the_same_cohorts_and_seed_give_the_same_bytes(tmp_path, cohorts):
    few = {name: cohort[:80] for name, cohort in cohorts.items()}
    for name in ("one", "other"):
        write_report(tmp_path / name, **few, seed=3)
    for file in ("report.html", "report.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()


def test_a_number_that_does_not_exist_is_null_in_json(cohorts):
    section = Section("utility", "?", (Measure("none", math.nan),))
    report = Report("t", {"train": {}}, (section,), (), (), ())
    (measure,) = report.to_json()["sections"][0]["measures"]
    assert measure["value"] is None and measure["verdict"] == "not measured"
    json.dumps(report.to_json(), allow_nan=False)


def test_a_section_without_measures_says_so():
    report = Report("t", {"train": {}}, (Section("utility", "?", ()),), (), (), ("no pairs",))
    page = page_of(report)
    assert "Nothing could be measured here" in page and "no pairs" in page


def test_a_small_cohort_is_called_small(cohorts):
    few = {name: cohort[:20] for name, cohort in cohorts.items()}
    report = judge(**few)
    assert "train (20), held out (20), synthetic (20)" in report.warnings[0]
    assert not any(
        verdict(m) in (Verdict.AT_FLOOR, Verdict.WORSE, Verdict.BETTER)
        for m in of_kind(report, "fidelity")
    )


@pytest.mark.parametrize(
    ("small", "name"),
    [("train", "training"), ("held_out", "held-out"), ("synthetic", "synthetic")],
)
def test_the_cohort_that_is_too_small_is_named(cohorts, small, name):
    report = judge(**{of: cohort[: 1 if of == small else 30] for of, cohort in cohorts.items()})
    why = f"30 patients of each cohort are needed, but the {name} cohort has 1."
    assert report.headlines[0].endswith(f"could not be judged: {why} Treat it as real data.")
    assert f"Whether the cohort remembers cannot be known: {why}" in report.in_words
    assert (
        f"Adversarial accuracy needs two patients in each cohort: the {name} cohort has one."
        in report.warnings
    )
    (few,) = (text for text in report.warnings if text.startswith("No interval is given below"))
    assert f"only 0 {name} patients have a fourth visit" in few
    assert not any("Hold out 200" in text for text in report.warnings)


def test_one_patient_is_a_report_that_says_nothing(cohorts):
    one = {name: cohort[:1] for name, cohort in cohorts.items()}
    report = judge(**one)
    assert any(sentence.startswith("Nothing shows") for sentence in report.limits)


def test_a_code_of_any_real_patient_is_not_said_to_be_new(cohorts):
    few = {name: cohort[:80] for name, cohort in cohorts.items()}
    visits = (Visit(("99999", "99998", "99997")),)
    few["synthetic"] = few["synthetic"] + [PatientRecord(1, "F", 50, visits)]
    few["held_out"] = few["held_out"] + [PatientRecord(2, "F", 50, (Visit(("99999",)),))]
    rest = [PatientRecord(3, "F", 50, (Visit(("99998",)),)), *cohorts["train"][80:]]
    real = few["train"] + few["held_out"] + rest
    known = {code for record in real for code in record.codes}
    new = {code for record in few["synthetic"] for code in record.codes} - known
    (said,) = [w for w in judge(**few, other_real=rest).warnings if "none of the" in w]
    assert f"have {len(new)} code" in said and f"none of the {len(real)} real patients" in said
    assert "99997" in new and "99998" not in new


def test_every_share_is_from_0_to_1_and_has_that_unit(halves):
    shares = [m for m in halves.measures.values() if m.unit == "share"]
    assert {"impossible codes", "sex difference", "exact copies", "carry-over of codes"} <= {
        m.name for m in shares
    }
    for measure in shares:
        known = [x for x in (measure.value, measure.floor) if not math.isnan(x)]
        assert all(0 <= x <= 1 for x in known), measure.name
    assert not {m.unit for m in halves.measures.values()} & {"percent", "percentage points", "%"}


def test_cohorts_without_a_common_code_are_reported(cohorts):
    strange = [
        PatientRecord(n, "F", 50, (Visit(("0030", "0031")), Visit(("0030",)))) for n in range(60)
    ]
    report = judge(**cohorts | {"synthetic": strange})
    assert any("common" in warning for warning in report.warnings)


def test_a_patient_in_both_real_parts_is_refused(cohorts):
    shared = cohorts["held_out"] + cohorts["train"][:1]
    with pytest.raises(InputError, match=str(cohorts["train"][0].subject_id)):
        judge(**cohorts | {"held_out": shared})


def test_a_model_without_its_tokenizer_is_refused(cohorts):
    with pytest.raises(InputError, match="belong together"):
        judge(**cohorts, model=load_checkpoint("tiny_prompt_bart").model)


def test_a_folder_with_something_in_it_is_refused_before_the_work(tmp_path, cohorts):
    (tmp_path / "kept.txt").touch()
    with pytest.raises(InputError, match="something here already"):
        write_report(tmp_path, **cohorts | {"synthetic": []})
    assert [path.name for path in tmp_path.iterdir()] == ["kept.txt"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"),
        (math.nan, "–"),
        (-0.5, "-0.5"),
        (1e-7, "1e-07"),
        (99.95, "100"),
        (12345.6, "12,346"),
        (2e6, "2.0e+06"),
    ],
)
def test_numbers_have_three_digits_that_say_something(value, words):
    assert number_in_words(value) == words


def test_without_held_out_patients_a_warning_says_what_that_hides(cohorts):
    few = {name: cohort[:60] for name, cohort in cohorts.items()}
    report = judge(**few | {"held_out": None})
    assert report.warnings[0] == (
        "There are no held-out patients. Fidelity compares the cohort with the patients that its "
        "model learned from: one that copies them looks as good as they are, or better."
    )
    assert report.in_words == ()
    left_out = {name for section in report.sections for name, _ in section.left_out}
    assert {"training patients with a copy", "nearness to training patients"} <= left_out


def test_the_seed_decides_and_only_the_seed(cohorts):
    np.random.seed(1)
    one = judge(**{n: c[:60] for n, c in cohorts.items()}, seed=2).to_json()
    np.random.seed(2)
    assert judge(**{n: c[:60] for n, c in cohorts.items()}, seed=2).to_json() == one
