"""A code that has the shape of both systems is never taken for the other system's.

E8859 is a fall (E885.9) or a metabolic disease (E88.59); V30 is a birth or a traffic accident.
Everything that is asked about a code of a record, a tokenizer or a model is asked here of both.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys

import matplotlib.text
import numpy as np
import pytest
import torch
from official_lists import icd9_list, icd10_list

from ehr_course.batches.corruption import Corruption
from ehr_course.code_system import CODE_SYSTEMS
from ehr_course.errors import InputError
from ehr_course.evaluation.code_table import chronic_categories, code_tables
from ehr_course.evaluation.validity import (
    WorstCode,
    impossible_share,
    impossible_share_of,
    validity,
)
from ehr_course.generation.baselines import IndependentCodes, MarkovChain
from ehr_course.generation.patients import (
    EligibleOnly,
    PatientProfile,
    generate_patients,
    sample_profiles,
)
from ehr_course.icd import code_meaning, possible_systems
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.plots import style
from ehr_course.plots.cohort_dashboard import draw_dashboard
from ehr_course.plots.corruption import draw_corruption
from ehr_course.plots.lesson_00 import draw_patient
from ehr_course.plots.record import draw_record, record_title, returning_codes
from ehr_course.plots.timeline import draw_timeline, repeats, timeline_title
from ehr_course.plots.tokens import draw_tokens
from ehr_course.records import PatientRecord, Visit
from ehr_course.report import judge, report_on_frames, write_report
from ehr_course.report.judging import Report, Section
from ehr_course.report.writing import page_of
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.widgets.attention import attention_explorer, record_attention
from ehr_course.widgets.prompt import NextCodes, draw_next_codes, next_codes, ruled_out

PEOPLE = [(age, sex) for age in (0, 7, 30, 48, 64, 90) for sex in ("F", "M")]


def shared() -> list[str]:
    """Every official code of either system whose undotted text has the shape of both."""
    official = {*icd9_list(), *icd10_list()}
    return sorted(code for code in official if len(possible_systems(code)) == 2)


SHARED = shared()
SOME = ["E8859", "V30", "V304", "V270", "E119", *random.Random(3).sample(SHARED, 5)]


def own_title(code: str, system: str) -> str:
    try:
        return code_meaning(system).title(code)
    except InputError:
        return ""


def patient(codes, system, *, number=1, age=30, sex="F", visits=1) -> PatientRecord:
    visit = Visit(tuple(codes), system=system)
    return PatientRecord(number, sex, age, (visit,) * visits)


def untrained(tokenizer: CodeTokenizer, **changes) -> PromptBart:
    torch.manual_seed(0)
    fields = {"d_model": 32, "max_position_embeddings": 40, "init_std": 0.3} | changes
    return PromptBart(PromptBartConfig.for_tokenizer(tokenizer, **fields)).eval()


def words(picture) -> str:
    """All that stands in a picture, and its alternative text."""
    texts = [text.get_text() for text in picture.findobj(matplotlib.text.Text)]
    return "\n".join([*texts, picture.alternative_text])


class Characters:
    """Cuts text into its characters, the mark of a space on its own."""

    def pieces(self, text):
        return list("▁" + text.replace(" ", "▁"))


# ---------------------------------------------------------------------- every shared code


def test_there_are_many_such_codes_and_most_differ():
    assert len(SHARED) > 2_500
    differ = [code for code in SHARED if own_title(code, "ICD9CM") != own_title(code, "ICD10CM")]
    assert len(differ) > 2_500


@pytest.mark.parametrize("system", CODE_SYSTEMS)
def test_pictures_name_a_code_as_its_own_system_does(system):
    of = code_meaning(system)
    for code in SHARED:
        assert style.written(code, system) == of.dotted(code)
        assert style.code_title(code, system) == own_title(code, system)
        assert style.code_in_words(code, system).startswith(of.dotted(code))
        chapter = style.chapter_of(code, system)
        if chapter is not None:
            assert chapter == of.chapter(code).number
            named = style.chapter_name(chapter, system)
            assert named in style.chapter_names(system)


def test_the_same_chapter_looks_the_same_in_both_systems():
    like = {"4280": "I509", "25000": "E119", "486": "J189", "650": "O80", "V3001": "Z3801"}
    for nine, ten in like.items():
        one, other = style.chapter_of(nine), style.chapter_of(ten, "ICD10CM")
        assert style.chapter_colour(one) == style.chapter_colour(other, "ICD10CM")
    colours = {style.chapter_colour(n, "ICD10CM") for n in range(1, 23)}
    assert len(colours) == len(style.chapter_names("ICD10CM")) == 22


@pytest.mark.parametrize("system", CODE_SYSTEMS)
def test_a_code_is_ruled_out_by_the_rules_of_its_own_system(system):
    of, other = code_meaning(system), code_meaning({"ICD9CM": "ICD10CM"}.get(system, "ICD9CM"))
    tokenizer = CodeTokenizer(SHARED, system=system)
    table = EligibleOnly().ruled_out(tokenizer, *zip(*PEOPLE, strict=True))[:, 7:].tolist()
    differ = 0
    for (age, sex), row in zip(PEOPLE, table, strict=True):
        shares = []
        for code, found in zip(tokenizer.codes, row, strict=True):
            impossible = of.why_impossible(code, age=age, sex=sex) is not None
            assert found is impossible, (code, age, sex)
            assert bool(ruled_out(code, age=age, sex=sex, system=system)) is impossible
            differ += impossible is not (other.why_impossible(code, age=age, sex=sex) is not None)
            shares.append(impossible)
        share = impossible_share([[SHARED]], [age], [sex], system=system)
        assert share == pytest.approx(np.mean(shares))
        assert impossible_share_of([patient(SHARED, system, age=age, sex=sex)]) == share
    assert differ > 500  # the rules of the other system would be seen


@pytest.mark.parametrize("system", CODE_SYSTEMS)
def test_chronic_categories_are_those_of_the_own_system(system):
    of = code_meaning(system)
    (table,) = code_tables([patient(SHARED, system)])
    assert table.system == system
    expected = {of.category(code) for code in SHARED if of.in_chronic_category(code)}
    found = chronic_categories(table)
    assert found.system == system
    assert set(found.codes) == expected and expected


# ---------------------------------------------------------------------- pictures


@pytest.mark.parametrize("code", SOME)
@pytest.mark.parametrize("system", CODE_SYSTEMS)
def test_every_picture_of_a_patient_reads_the_code_in_its_system(code, system):
    of, title = code_meaning(system), own_title(code, system)
    written = of.dotted(code)
    (wrong,) = {code_meaning(name).dotted(code) for name in CODE_SYSTEMS} - {written} or {None}
    record = patient([code, "E8798"], system, visits=2)
    tokenizer = CodeTokenizer([code, "E8798"], system=system)
    shares = np.array([0.6, 0.3])
    begins = " ".join(title.split()[:2])
    for picture, has_title in (
        (draw_record(record), True),
        (draw_timeline(record), True),
        (draw_patient(record), True),
        (draw_tokens(record, tokenizer, Characters(), dotted=True), False),
        (draw_next_codes(NextCodes(30, "F", (code, "E8798"), shares, shares, system)), True),
        (draw_dashboard([record], [record]), False),
    ):
        said = words(picture)
        assert written in said
        assert wrong is None or wrong not in said
        assert not has_title or begins.rstrip(",") in said
    legend = {style.chapter_name(style.chapter_of(c, system), system) for c in record.codes}
    corruption = draw_corruption(record, tokenizer, Corruption(p_empty=0.0), seed=0)
    for picture in (draw_record(record), corruption):
        for chapter in legend - {style.chapter_name(None, system)}:
            assert chapter in words(picture)


def test_attention_is_labelled_in_the_system_of_the_tokenizer():
    for system, labels in (("ICD9CM", ("E885.9", "V30.4")), ("ICD10CM", ("E88.59", "V30.4"))):
        tokenizer = CodeTokenizer(["E8859", "V304"], system=system)
        record, model = patient(["E8859", "V304"], system), untrained(tokenizer)
        rows = record_attention(model, tokenizer, record)["encoder"].rows
        meanings = attention_explorer(model, tokenizer, record)._content["meanings"]
        for code, label in zip(record.codes, labels, strict=True):
            assert label in rows
            assert meanings.get(label, "") == own_title(code, system)


def test_codes_of_both_systems_in_one_patient_are_not_the_same_code():
    both = PatientRecord(
        1, "F", 64, (Visit(("E8859",)), Visit(("E8859", "I10"), system="ICD10CM"))
    )
    assert record_title(both) == "Woman, 64: 2 visits, 3 different codes, none of them coming back"
    assert returning_codes(both) == set()
    assert timeline_title(both) == "Woman, 64: 0 of 2 later codes are repeats"
    assert repeats(both).visits_of == {}
    said = words(draw_record(both))
    assert "E885.9" in said and "E88.59" in said
    assert "visit 2 in ICD-10-CM" in said
    assert "External cause (E)" in said and "Endocrine, metabolic" in said


def test_a_chapter_of_both_systems_is_named_once():
    both = PatientRecord(1, "F", 64, (Visit(("4280",)), Visit(("I509",), system="ICD10CM")))
    texts = [text.get_text() for text in draw_record(both).findobj(matplotlib.text.Text)]
    assert texts.count("Circulatory") == 1
    assert "7 / 9" in texts


# ---------------------------------------------------------------------- models and cohorts


@pytest.mark.parametrize("system", CODE_SYSTEMS)
def test_what_is_written_belongs_to_the_system_of_what_was_learned(system):
    records = make_cohort(30, seed=2, system=system)
    tokenizer = CodeTokenizer.from_records(records)
    model, wanted = untrained(tokenizer), sample_profiles(records, 20)
    known = [PatientProfile(64, "F", [[tokenizer.codes[0]]])]
    for written in (
        generate_patients(model, tokenizer, [*wanted, *known]),
        IndependentCodes(records).write(wanted),
        MarkovChain(records).write(wanted),
    ):
        assert {visit.system for record in written for visit in record.visits} == {system}
        tokenizer.encode(written[0])
    assert next_codes(model, tokenizer, age=30, sex="F").system == system


def test_cohorts_of_two_systems_are_not_compared():
    nine, ten = ([patient(["E8859", "V270"], system)] for system in CODE_SYSTEMS)
    with pytest.raises(InputError) as error:
        code_tables(nine, ten)
    assert str(error.value) == (
        "cohort 1: it is coded in ICD-10-CM, and cohort 0 in ICD-9-CM: the same text means "
        "another disease there. Compare cohorts of one system: translate one of them with "
        "ehr-course prepare --map."
    )
    with pytest.raises(InputError, match="visits before it in ICD-9-CM"):
        validity([*nine, *ten])
    with pytest.raises(InputError) as error:
        judge(train=nine, held_out=None, synthetic=ten)
    assert "synthetic: it is coded in ICD-10-CM, and train in ICD-9-CM" in str(error.value)
    tokenizer = CodeTokenizer(["E8859", "V270"])
    with pytest.raises(InputError) as error:
        judge(
            train=ten,
            held_out=[patient(["E8859"], "ICD10CM", number=2)],
            synthetic=ten,
            model=untrained(tokenizer),
            tokenizer=tokenizer,
        )
    assert "model: it is coded in ICD-9-CM, and train in ICD-10-CM" in str(error.value)


def test_the_remedy_for_a_dotted_code_names_the_module_of_its_system():
    for system, code, module in (("ICD9CM", "428.0", "icd9"), ("ICD10CM", "I50.9", "icd10")):
        with pytest.raises(ValueError, match=f"use {module}.normalize first"):
            Visit((code,), system=system)
        with pytest.raises(InputError, match=f"Use {module}.normalize first"):
            CodeTokenizer([code], system=system)


def test_data_frames_are_reported_in_the_system_that_is_said():
    frame = {"patient": [1, 2, 2], "visit": [1, 1, 2], "code": ["E8859", "V270", "V270"]}
    for system in CODE_SYSTEMS:
        report = report_on_frames(frame, frame, system=system)
        assert report.system == system
    diabetes = {"patient": [1], "visit": [1], "code": ["E11.9"]}
    fall = {"patient": [1], "visit": [1], "code": ["E885.9"]}
    with pytest.raises(InputError, match="it is coded in ICD-10-CM, and train in ICD-9-CM"):
        report_on_frames(fall, diabetes)
    assert report_on_frames(fall, diabetes, map_to="ICD10CM").system == "ICD10CM"


def test_skipping_unseen_codes_stays_within_the_system():
    tokenizer = CodeTokenizer(["E8859"], system="ICD10CM").skipping_unseen()
    assert (tokenizer.system, tokenizer.unseen) == ("ICD10CM", "skip")
    assert tokenizer.encode(patient(["E8859", "E119"], "ICD10CM")) == [1, 3, 7, 4, 2]
    with pytest.raises(InputError, match="this vocabulary is ICD-10-CM"):
        tokenizer.encode(patient(["E8859"], "ICD9CM"))


def test_a_cohort_in_icd10_is_generated_judged_and_reported(tmp_path):
    records = make_cohort(160, seed=4, system="ICD10CM")
    train, held_out = records[:100], records[100:]
    tokenizer = CodeTokenizer.from_records(train)
    model, wanted = untrained(tokenizer), sample_profiles(train, 60, seed=1)
    eligible = EligibleOnly()
    possible = generate_patients(model, tokenizer, wanted, eligible=eligible)
    assert impossible_share_of(possible) == 0 < eligible.share_kept_out
    free = generate_patients(model, tokenizer, wanted)
    found = validity(free, real=train)
    assert found["impossible codes"].floor == 0 < found["impossible codes"].value
    worst = found.worst[0]
    assert worst.title == own_title(worst.code, "ICD10CM")
    assert worst.code in tokenizer

    report = write_report(tmp_path / "report", train=train, held_out=held_out, synthetic=free)
    assert report.system == "ICD10CM"
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "<p>All diagnoses are coded in ICD-10-CM.</p>" in page
    assert f'<th scope="row">{code_meaning("ICD10CM").dotted(worst.code)}</th>' in page
    numbers = json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))
    assert numbers["code_system"] == "ICD10CM"
    assert numbers["impossible_codes"][0]["code"] == worst.code


def test_a_report_dots_an_impossible_code_as_its_own_system_does():
    for system, written in (("ICD9CM", "E885.9"), ("ICD10CM", "E88.59")):
        worst = WorstCode("E8859", "a title", 3, "a reason")
        section = Section("validity", "Are its patients possible?", ())
        page = page_of(
            Report("A", {"train": {"patients": 1}}, (section,), (worst,), (), (), system=system)
        )
        assert f'<th scope="row">{written}</th>' in page
        assert ("coded in ICD-10-CM" in page) is (system == "ICD10CM")


# ---------------------------------------------------------------------- start-up


def test_nothing_loads_the_tabular_list_of_icd10_while_all_codes_are_icd9():
    program = """
import sys
from ehr_course.evaluation.validity import validity
from ehr_course.evaluation.code_table import chronic_categories, code_tables
from ehr_course.generation.patients import EligibleOnly
from ehr_course.plots.record import draw_record
from ehr_course.plots.cohort_dashboard import draw_dashboard
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
import ehr_course.cli, ehr_course.report
records = make_cohort(20)
validity([records[0].__class__(1, "M", 30, (records[0].visits[0].__class__(("650",)),))])
chronic_categories(*code_tables(records))
EligibleOnly().ruled_out(CodeTokenizer.from_records(records), [30], ["F"])
draw_record(records[0]), draw_dashboard(records, records)
print("simple_icd_10_cm" in sys.modules)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.stdout.strip() == "False", run.stderr
