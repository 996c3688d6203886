"""`ehr-course evaluate`: the right cohorts go into the report, and no patient comes out of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from ehr_course.cli import evaluate as module
from ehr_course.cli.generate import write_formats
from ehr_course.cli.prepare import open_prepared
from ehr_course.cli.settings import name_cohorts
from ehr_course.records import PatientRecord
from ehr_course.report import judge
from ehr_course.sources.any_cohort import load_cohort
from ehr_course.sources.synthetic import make_cohort


def numbers(folder: Path) -> dict:
    return json.loads((folder / "report.json").read_text(encoding="utf-8"))


@pytest.fixture
def asked(monkeypatch) -> list[dict]:
    """What the report was asked to judge; it is written with nothing in it."""
    calls: list[dict] = []

    class Empty:
        warnings = ("few patients",)
        left_out = ()
        in_words = ("Judged by 40 held-out patients",)
        headlines = ("No sign was found",)

    def write(folder: Path, **cohorts: object) -> Empty:
        calls.append(cohorts)
        assert folder.is_dir()
        (folder / "report.html").touch()
        return Empty()

    monkeypatch.setattr("ehr_course.report.write_report", write)
    return calls


def content(records: list[PatientRecord]) -> list[tuple]:
    return [(r.subject_id, r.sex, r.age, r.codes) for r in records]


def test_the_report_is_that_of_the_library(ehr_course, prepared, run, synthetic, tmp_path):
    out = tmp_path / "report"
    done = ehr_course(
        *("evaluate", "--real", prepared, "--synthetic", synthetic, "--model", run),
        *("--out", out, "--title", "Two hospitals"),
    )
    assert done.exit_code == 0
    assert sorted(path.name for path in out.iterdir()) == [
        "load_report.txt",
        "report.html",
        "report.json",
        "run.json",
    ]
    assert "Two hospitals" in (out / "report.html").read_text(encoding="utf-8")
    split = open_prepared(prepared).split()
    expected = judge(
        train=split.train, held_out=split.test, synthetic=list(load_cohort(synthetic).records)
    ).to_json()
    found = {section["key"]: section for section in numbers(out)["sections"]}
    for section in expected["sections"]:
        if section["key"] in ("fidelity", "validity", "utility"):  # these need no model
            assert found[section["key"]] == section
    assert "perplexity" in found


@pytest.mark.parametrize("place", ["", "meds", "mimic3", "patients.parquet"])
def test_synthetic_patients_are_read_in_every_format(
    ehr_course, asked, prepared, synthetic, tmp_path, place
):
    done = ehr_course(
        *("evaluate", "--real", prepared, "--synthetic", synthetic / place),
        *("--out", tmp_path / "report"),
    )
    assert done.exit_code == 0
    [cohorts] = asked
    split = open_prepared(prepared).split()
    assert cohorts["train"] == split.train
    assert cohorts["held_out"] == split.test
    assert content(cohorts["synthetic"]) == content(list(load_cohort(synthetic).records))
    assert cohorts["model"] is None


def test_the_limit_draws_some_of_each_cohort(ehr_course, asked, prepared, synthetic, tmp_path):
    done = ehr_course(
        *("evaluate", "--real", prepared, "--synthetic", synthetic),
        *("--out", tmp_path / "report", "--limit", 15, "--seed", 4),
    )
    assert done.exit_code == 0
    [cohorts] = asked
    split = open_prepared(prepared).split()
    for name, whole in (("train", split.train), ("held_out", split.test)):
        assert len(cohorts[name]) == 15
        assert set(content(cohorts[name])) <= set(content(whole))
    everybody = [*cohorts["train"], *cohorts["held_out"], *cohorts["other_real"]]
    assert sorted(r.subject_id for r in everybody) == sorted(
        r.subject_id for part in split for r in part
    )
    counts = "15 of 160 train, 15 of 20 held out, 15 of 40 synthetic patients."
    assert f"\nJudging {counts}\n" in done.stdout
    sentence = (
        f"A sample is judged, drawn at random (--limit 15): {counts} Intervals are wider than "
        "with all of them, and a copy of a patient who was not drawn is not found."
    )
    assert f"\n{sentence}\n" in done.stdout
    assert cohorts["reading"][0] == sentence


def test_the_report_says_that_a_sample_was_judged(ehr_course, prepared, synthetic, tmp_path):
    for name, of_one in (("one", ("--synthetic", synthetic)), ("two", ())):
        several = ("--synthetic", f"a={synthetic}", "--synthetic", f"b={synthetic / 'meds'}")
        arguments = ("evaluate", "--real", prepared, *(of_one or several))
        out = tmp_path / name
        assert ehr_course(*arguments, "--limit", 30, "--out", out).exit_code == 0
        page = (out / "report.html").read_text(encoding="utf-8")
        assert "A sample is judged, drawn at random (--limit 30): 30 of 160 train, " in page


def test_a_limit_above_all_of_them_is_no_sample(ehr_course, asked, prepared, synthetic, tmp_path):
    arguments = ("evaluate", "--real", prepared, "--synthetic", synthetic, "--limit", 160)
    done = ehr_course(*arguments, "--out", tmp_path / "report")
    assert done.exit_code == 0
    assert "\nJudging 160 train, 20 held out, 40 synthetic patients.\n" in done.stdout
    assert "A sample is judged" not in done.stdout
    [cohorts] = asked
    assert cohorts["reading"] == []


def test_the_model_comes_with_a_tokenizer_that_skips_codes(
    ehr_course, asked, prepared, run, synthetic, tmp_path
):
    done = ehr_course(
        *("evaluate", "--real", prepared, "--synthetic", synthetic, "--model", run),
        *("--out", tmp_path / "report"),
    )
    assert done.exit_code == 0
    [cohorts] = asked
    assert cohorts["tokenizer"].unseen == "skip"
    assert cohorts["tokenizer"].fingerprint == cohorts["model"].config.vocabulary


def test_codes_that_the_model_never_saw_are_said_not_refused(ehr_course, prepared, run, tmp_path):
    write_formats(make_cohort(40, seed=9, hospital="heart"), tmp_path, ["meds"], seed=0)
    done = ehr_course(
        *("evaluate", "--real", prepared, "--synthetic", tmp_path, "--model", run),
        *("--out", tmp_path / "report"),
    )
    assert done.exit_code == 0
    assert "codes of these patients the model never saw" in done.stdout


def test_what_the_report_warns_of_is_on_the_terminal(
    ehr_course, asked, prepared, synthetic, tmp_path
):
    arguments = ("evaluate", "--real", prepared, "--synthetic", synthetic)
    done = ehr_course(*arguments, "--out", tmp_path / "report")
    assert done.stdout.index("No sign was found") < done.stdout.index("Note: few patients")
    done = ehr_course(*arguments, "--out", tmp_path / "report", "--overwrite", "--quiet")
    assert (done.exit_code, done.stdout) == (0, "")


def test_no_row_of_a_patient_is_printed_or_written(ehr_course, prepared, run, synthetic, tmp_path):
    done = ehr_course(
        *("evaluate", "--real", prepared, "--synthetic", synthetic, "--model", run),
        *("--out", tmp_path / "report"),
    )
    text = (tmp_path / "report" / "report.json").read_text(encoding="utf-8")
    numbers = set(re.findall(r"(?<![\d.])\d+(?![\d.])", done.stdout + text))
    ids = {str(record.subject_id) for record in open_prepared(prepared).split().train}
    assert not ids & numbers


def test_the_report_repeated_has_the_same_numbers(ehr_course, prepared, synthetic, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    ehr_course("evaluate", "--real", prepared, "--synthetic", synthetic, "--out", one)
    done = ehr_course("repeat", one, "--out", two)
    assert done.exit_code == 0
    assert numbers(one) == numbers(two)


# ------------------------------------------------------------------ several cohorts


def test_several_cohorts_stand_side_by_side(ehr_course, prepared, run, synthetic, tmp_path):
    table = tmp_path / "b.csv"
    pl.read_parquet(synthetic / "patients.parquet").head(120).write_csv(table)
    out = tmp_path / "report"
    done = ehr_course(
        *("evaluate", "--real", prepared, "--synthetic", synthetic, "--synthetic", table),
        *("--model", f"synthetic={run}", "--out", out),
    )
    assert done.exit_code == 0, done.output
    of = numbers(out)["cohorts"]
    assert list(of) == ["synthetic", "b"]
    assert "perplexity" in {s["key"] for s in of["synthetic"]["sections"]}
    assert "perplexity" not in {s["key"] for s in of["b"]["sections"]}
    for name in of:
        assert done.stdout.index(f"\n{name}: ") < done.stdout.index("\nNote: ")
    (section,) = (s for s in of["synthetic"]["sections"] if s["key"] == "perplexity")
    value = {m["name"]: m["value"] for m in section["measures"]}
    of_model, of_table = (
        value[f"{kind} perplexity per code"] for kind in ("longitudinal", "unigram")
    )
    assert ("The model has learned" in done.stdout) == (of_model > of_table)
    again = tmp_path / "again"
    assert ehr_course("repeat", out, "--out", again).exit_code == 0
    assert numbers(again) == numbers(out)


@pytest.mark.parametrize(
    ("cohorts", "models", "said"),
    [
        (["a/meds", "b/meds"], [], "a/meds and b/meds would both have this name"),
        (["a/train", "b/meds"], [], "calls real patients by this name"),
        (["x=a", "x=b"], [], "--synthetic first=a --synthetic second=b"),
        (["a", "b"], ["run"], "each model must name a cohort of its own (there are: a, b)"),
        (["a", "b"], ["c=run"], "each model must name a cohort of its own"),
        (["a", "b"], ["a=run", "a=other"], "'a=other': each model must name a cohort"),
    ],
)
def test_names_that_clash_are_told(ehr_course, tmp_path, cohorts, models, said):
    options = [part for c in cohorts for part in ("--synthetic", c)]
    options += [part for m in models for part in ("--model", m)]
    done = ehr_course("evaluate", "--real", "p", *options, "--out", tmp_path / "report")
    assert done.exit_code == 1 and said in done.stderr


def test_a_path_with_an_equals_sign_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("k=5.csv").touch()
    assert name_cohorts(["k=5.csv", "x=k=5.csv"])[0] == {"k=5": "k=5.csv", "x": "k=5.csv"}


def test_columns_are_for_the_tables_among_several_cohorts(
    ehr_course, asked, prepared, synthetic, tmp_path
):
    (tmp_path / "a.csv").write_text("who,visit,code\na,1,486\n", encoding="utf-8")
    options = ("--synthetic", synthetic, "--synthetic", tmp_path / "a.csv")
    done = ehr_course(
        *("evaluate", "--real", prepared, *options, "--columns", "patient=who"),
        *("--out", tmp_path / "report"),
    )
    assert done.exit_code == 0, done.output
    [cohorts] = asked
    assert [record.codes for record in cohorts["synthetic"]["a"]] == [("486",)]
    assert len(cohorts["synthetic"]["synthetic"]) == 40


# ------------------------------------------------------------------ cohorts of other tools


def test_visit_lists_are_judged_without_what_they_lack(ehr_course, prepared, tmp_path):
    cohort = make_cohort(60, seed=9)
    lists = [[list(visit.codes) for visit in record.visits] for record in cohort]
    lists[0][0].append(lists[0][0][0])
    path = tmp_path / "lists.json"
    path.write_text(json.dumps(lists), encoding="utf-8")
    out = tmp_path / "report"
    done = ehr_course("evaluate", "--real", prepared, "--synthetic", path, "--out", out)
    assert done.exit_code == 0, done.output
    assert (
        "Left out: age JS divergence and age difference, because the synthetic cohort has no age."
    ) in done.stdout
    assert "repeats a code of the same admission (patient 1, visit 1, code " in done.stdout
    page = " ".join((out / "report.html").read_text(encoding="utf-8").split())
    for words in (
        "Left out: sex difference, because the synthetic cohort has no sex.",
        "Left out: impossible codes, visits with an impossible code and patients with an",
        "an impossible code, because the synthetic cohort has no age and no sex.",
        "Synthetic cohort, lists.json: 1 of",
    ):
        assert words in page
    found = {s["key"]: s for s in numbers(out)["sections"]}
    assert not {"age difference", "sex difference"} & {
        m["name"] for m in found["fidelity"]["measures"]
    }
    assert found["validity"]["measures"] == []
    assert found["privacy"]["measures"]
    assert found["privacy"]["left_out"] == found["utility"]["left_out"] == []
    judged = {m["name"]: m for m in found["fidelity"]["measures"]}
    split = open_prepared(prepared).split()
    whole = judge(train=split.train, held_out=split.test, synthetic=cohort).to_json()
    for measure in whole["sections"][0]["measures"]:
        if measure["name"] in judged:  # what needs no age is what it is with ages
            assert judged[measure["name"]] == measure
    record = json.loads((out / "run.json").read_text(encoding="utf-8"))["result"]
    assert record["dropped"] == {"lists.json: repeats a code of the same admission": 1}


def after_the_judging(done) -> list[str]:
    """What is printed when the work is done, line by line."""
    return done.stdout.split(" patients.\n", 1)[1].splitlines()


def test_whether_it_may_be_given_away_is_printed_first(ehr_course, tmp_path):
    real = tmp_path / "prepared"
    assert ehr_course(
        *("prepare", "--patients", 300, "--test", 0.3, "--out", real, "--quiet")
    ).exit_code == 0  # fmt: skip
    train = open_prepared(real).split().train
    cohorts = {"copies": train, "fresh": make_cohort(len(train), seed=9)}
    for name, cohort in cohorts.items():
        (tmp_path / name).mkdir()
        write_formats(cohort, tmp_path / name, ["parquet"], seed=0)
    copies = tmp_path / "copies"
    forbidden = "This cohort must not be given to anybody who may not see the real patients."

    done = ehr_course("evaluate", "--real", real, "--synthetic", copies, "--out", tmp_path / "one")
    first, second, *rest = after_the_judging(done)
    assert first == forbidden
    assert second.startswith(
        "The cohort copies training patients: 100% of its patients have exactly the visits of "
        "one. Of training patients 100% have a copy in it; of held-out patients, whom the model "
    )
    judged = next(line for line in rest if line.startswith("Judged by 90 held-out patients"))
    assert rest.index(judged) < min(n for n, line in enumerate(rest) if line.startswith("Note: "))
    assert any("Only 90 patients are held out." in line for line in rest)
    assert numbers(tmp_path / "one")["headlines"][:2] == [first, second]

    done = ehr_course(
        *("evaluate", "--real", real, "--synthetic", copies, "--synthetic", tmp_path / "fresh"),
        *("--out", tmp_path / "both"),
    )
    of_copies, of_fresh, *_ = after_the_judging(done)
    assert of_copies.startswith(f"copies: {forbidden} The cohort copies training patients: 100%")
    assert of_fresh.startswith("fresh: No sign was found") and "Chance makes" in of_fresh


def test_a_table_of_other_columns_is_judged_and_repeated(
    ehr_course, asked, prepared, synthetic, tmp_path
):
    table = pl.read_parquet(synthetic / "patients.parquet")
    names = {"subject_id": "who", "visit": "stay", "code": "icd", "age": "years", "sex": "kind"}
    table.rename(names).write_csv(tmp_path / "other.csv")
    columns = "patient=who,visit=stay,code=icd,age=years,sex=kind"
    done = ehr_course(
        *("evaluate", "--real", prepared, "--synthetic", tmp_path / "other.csv"),
        *("--columns", columns, "--out", tmp_path / "one"),
    )
    assert done.exit_code == 0, done.output
    assert ehr_course("repeat", tmp_path / "one", "--out", tmp_path / "two").exit_code == 0
    expected = content(list(load_cohort(synthetic / "patients.parquet").records))
    assert [content(cohorts["synthetic"]) for cohorts in asked] == [expected, expected]


def test_a_prepared_folder_is_read_as_its_patients(ehr_course, asked, prepared, tmp_path):
    done = ehr_course(
        *("evaluate", "--real", prepared, "--synthetic", prepared, "--out", tmp_path / "report"),
    )
    assert done.exit_code == 0, done.output
    expected = [record for part in open_prepared(prepared).split() for record in part]
    assert content(asked[0]["synthetic"]) == content(sorted(expected, key=lambda r: r.subject_id))


def test_malformed_rows_stop_the_command_unless_they_are_to_be_dropped(
    ehr_course, asked, prepared, tmp_path
):
    path = tmp_path / "a.csv"
    path.write_text("patient,visit,code\na,1,486\nb,1,I1O\n", encoding="utf-8")
    said = refused(ehr_course, tmp_path, real=prepared, synthetic=path)
    assert "a.csv, line 3, column 'code': 'I1O' does not have the shape" in said
    done = ehr_course(
        *("evaluate", "--real", prepared, "--synthetic", path, "--malformed", "drop"),
        *("--out", tmp_path / "report"),
    )
    assert done.exit_code == 0
    assert "a code of the wrong shape (line 3)" in done.stdout
    [cohorts] = asked
    assert (
        "Synthetic cohort, a.csv: 1 of 2 dropped (a code of the wrong shape)."
        in (cohorts["reading"])
    )


def test_a_missing_column_is_named_before_any_work(ehr_course, asked, tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("patient,visit,diagnosis\na,1,486\n", encoding="utf-8")
    said = refused(ehr_course, tmp_path, real=tmp_path / "not there", synthetic=path)
    assert "hold the code (found: patient, visit, diagnosis)" in said
    said = refused(
        ehr_course, tmp_path, real=tmp_path, synthetic=path, columns="code=diagnosis,sexe=x"
    )
    assert "--columns: 'sexe=x' does not say which column holds what" in said
    assert not asked


def test_codes_of_another_vocabulary_are_mapped(ehr_course, asked, prepared, tmp_path):
    (tmp_path / "a.csv").write_text("patient,visit,code\na,1,84114007\n", encoding="utf-8")
    (tmp_path / "map.csv").write_text("from,to\n84114007,428.0\n", encoding="utf-8")
    done = ehr_course(
        *("evaluate", "--real", prepared, "--synthetic", tmp_path / "a.csv"),
        *("--code-map", tmp_path / "map.csv", "--out", tmp_path / "report"),
    )
    assert done.exit_code == 0, done.output
    assert [record.codes for record in asked[0]["synthetic"]] == [("4280",)]


# ------------------------------------------------------------------ bad input


def refused(ehr_course, tmp_path: Path, **options: object) -> str:
    named = [part for name, value in options.items() for part in (f"--{name}", value)]
    result = ehr_course("evaluate", *named, "--out", tmp_path / "report")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert not (tmp_path / "report").exists()
    return result.stderr


def test_a_model_of_other_patients_is_refused(ehr_course, run, synthetic, tmp_path):
    other = tmp_path / "prepared"
    assert ehr_course("prepare", "--patients", 60, "--seed", 8, "--out", other).exit_code == 0
    said = refused(ehr_course, tmp_path, real=other, synthetic=synthetic, model=run)
    assert f"{run}: this model did not learn from the training part of {other}" in said


def test_without_held_out_patients_there_is_no_report(ehr_course, synthetic, tmp_path):
    other = tmp_path / "prepared"
    ehr_course("prepare", "--patients", 40, "--test", 0, "--out", other)
    said = refused(ehr_course, tmp_path, real=other, synthetic=synthetic)
    assert "no patients were held out. Prepare it again with --test 0.1" in said


def test_an_empty_folder_is_no_synthetic_cohort(ehr_course, prepared, tmp_path):
    (tmp_path / "empty").mkdir()
    said = refused(ehr_course, tmp_path, real=prepared, synthetic=tmp_path / "empty")
    assert f"{tmp_path / 'empty'}: no file for PATIENTS" in said


def test_notes_are_no_cohort(ehr_course, prepared_notes, synthetic, tmp_path):
    said = refused(ehr_course, tmp_path, real=prepared_notes, synthetic=synthetic)
    assert "it holds notes, and this needs records" in said


def test_wrong_usage(ehr_course, prepared, tmp_path):
    assert ehr_course("evaluate", "--real", prepared).exit_code == 2


def test_what_is_measured_on_a_sample_in_any_case_is_said(monkeypatch):
    monkeypatch.setattr("ehr_course.evaluation.privacy.MOST", 12)
    monkeypatch.setattr("ehr_course.evaluation.perplexity.MOST_PATIENTS", 8)
    sizes = {"train": 12, "held_out": 9, "synthetic": 11}
    assert module._sampled(sizes, sizes, None, has_model=False) == []
    perplexity = (
        "The model's perplexity is measured on 8 of the 9 held-out patients, drawn at random."
    )
    assert module._sampled(sizes, sizes, None, has_model=True) == [perplexity]
    sizes["train"] = 13
    assert module._sampled(sizes, sizes, None, has_model=True) == [
        perplexity,
        "For privacy, at most 12 patients of a cohort are compared with each other, drawn at "
        "random.",
    ]
