"""The comparison of generators at toy size, without those of PyHealth."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import generators
from benchmarks.generators_judge import TABLES, as_records, tables
from ehr_course.sources.splits import Split
from ehr_course.sources.synthetic import make_cohort

TOY = ["--train", "60", "--held-out", "30", "--seconds", "0.2", "--seeds", "1", "--write", "40"]
SMALL = "small:profile=narrow,d_model=32,p_empty=1.0,lr=0.01"


def run(folder, monkeypatch, *more: str) -> None:
    arguments = ["generators.py", "--out", str(folder), *TOY, *more]
    monkeypatch.setattr(sys, "argv", arguments)
    generators.main()


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A folder with what a table and a model wrote, and what was said on the way."""
    folder = tmp_path_factory.mktemp("generators") / "results"
    with pytest.MonkeyPatch.context() as patch:
        said: list[str] = []
        patch.setattr(generators, "say", said.append)
        run(folder, patch, "--ours", SMALL, "--only", "markov", "small", "gpt2")
    return folder, said


def test_generators_write_and_are_judged_and_the_table_has_a_row_for_each(done) -> None:
    folder, said = done
    text = (folder / "tables.md").read_text(encoding="utf-8")
    assert said[-1] == text
    for title in ("## Is everything as frequent?", "## What does it cost?"):
        assert title in text
    for label in ("small", "Markov chain"):
        assert f"| {label} | " in text
    measures = json.loads((folder / "markov-0.measures.json").read_text(encoding="utf-8"))
    assert measures["patients"] == 40 and 0 <= measures["impossible codes"] < 1


def test_fields_of_the_command_the_corruption_and_the_model_reach_the_training(done) -> None:
    folder, _ = done
    found = json.loads((folder / "small-0.json").read_text(encoding="utf-8"))
    assert found["settings"]["d_model"] == 32 and found["steps"] >= 1
    assert found["parameters"] < 100_000  # a narrow model of its own width has more
    assert found["perplexity_per_code"] > 1


def test_without_a_python_for_them_the_peers_are_left_out_and_the_commands_told(done) -> None:
    folder, said = done
    assert not list(folder.glob("gpt2*"))
    assert "pip install pyhealth==2.1.0" in said[0] and "-m venv" in said[0]


def test_what_is_done_is_not_done_again(done, monkeypatch) -> None:
    folder, _ = done
    before = (folder / "tables.md").read_text(encoding="utf-8")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("it learns again"))
    run(folder, monkeypatch, "--ours", SMALL, "--only", "markov", "small")
    assert (folder / "tables.md").read_text(encoding="utf-8") == before


def test_a_table_of_what_is_there_runs_nothing(done, monkeypatch) -> None:
    folder, said = done
    before = said[-1]
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("it learns"))
    run(folder, monkeypatch, "--ours", SMALL, "--no-runs", "--seeds", "2")
    assert (folder / "tables.md").read_text(encoding="utf-8") == before


@pytest.mark.parametrize(
    "more, said",
    [
        (["--ours", "small:d_model=64", "--only", "small"], "another name"),
        (["--write", "50", "--only", "markov"], "Name another folder"),
    ],
)
def test_other_settings_in_the_same_folder_are_refused(done, monkeypatch, more, said) -> None:
    folder, _ = done
    with pytest.raises(SystemExit, match=said):
        run(folder, monkeypatch, *more)


def test_a_recipe_is_a_name_and_its_fields() -> None:
    assert generators.recipe("slow:lr=0.001,profile=narrow,group_by_length=true") == (
        "slow",
        {"lr": 0.001, "profile": "narrow", "group_by_length": True},
    )


@pytest.mark.parametrize("text", ["gpt2:lr=1", "Slow", "", "slow:lr"])
def test_a_recipe_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        generators.recipe(text)


def test_a_code_twice_in_a_visit_is_kept_once_and_counted() -> None:
    split = Split(make_cohort(5, seed=1), [], [])
    found = {"visits": [[["4280", "4019", "4280"], ["486"]], [["486", "486"]]]}
    records, repeated = as_records(found, split, seed=0)
    assert [[v.codes for v in r.visits] for r in records] == [
        [("4280", "4019"), ("486",)],
        [("486",)],
    ]
    assert repeated == 2


def test_the_table_gives_means_ranges_and_what_real_patients_score() -> None:
    name = "patient prevalence R2"
    fresh = [{name: 0.95, f"{name}, real": 0.96}, {name: 0.95, f"{name}, real": 0.94}]
    text = tables({"fresh": fresh, "x": [{name: 0.5}, {name: 0.7}]}, {"fresh": "F", "x": "X"})
    assert "| real patients | 0.950 |" in text
    assert "| F | 0.950 |" in text and "| X | 0.600 (0.500 to 0.700) |" in text
    one = tables({"fresh": fresh, "x": [{name: 0.5}]}, {"fresh": "F", "x": "X"})
    assert "| X, 1 of 2 seeds | 0.500 |" in one


def test_the_book_has_the_tables_of_the_benchmark() -> None:
    page = Path(__file__).resolve().parents[2] / "course/book/compared_tables.md"
    text = page.read_text(encoding="utf-8")
    for title, columns in TABLES.items():
        heads = " | ".join(column.head for column in columns)
        assert f"## {title}\n\n|  | {heads} |\n" in text
    for label in ("fresh patients", "promptbart", "GPT-2", "HALO, mended", "Markov chain"):
        assert f"\n| {label} | " in text
