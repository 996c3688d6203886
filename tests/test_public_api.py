from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import ehr_course

ROOT = Path(__file__).resolve().parent.parent
ROOMS_WITH_THEIR_OWN_DOOR = {"exercises", "plots", "widgets"}


@pytest.mark.parametrize("name", sorted({*dir(ehr_course), *ehr_course.__all__}))
def test_every_public_name_can_be_imported(name):
    assert getattr(ehr_course, name) is not None


def test_importing_the_library_loads_nothing_large():
    program = """
import sys, ehr_course
print(*({"torch", "transformers", "polars", "numpy", "matplotlib"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout.split(), done.stderr) == ([], "")


@pytest.mark.parametrize(
    "source", sorted((ROOT / "lessons").glob("*.py")), ids=lambda path: path.stem
)
def test_a_lesson_imports_from_four_modules_at_most(source):
    modules = re.findall(r"^ *from ehr_course\.([\w.]+)", source.read_text(encoding="utf-8"), re.M)
    assert set(modules) <= ROOMS_WITH_THEIR_OWN_DOOR


def test_the_lines_in_the_readme_go_from_tables_to_a_report(tmp_path, monkeypatch):
    [code] = re.findall(
        r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S
    )
    assert "steps=2_000" in code and "1_000)" in code
    monkeypatch.chdir(tmp_path)
    ehr_course.write_mimic3(ehr_course.make_cohort(400, seed=0), "mimic-iii")
    exec(code.replace("steps=2_000", "steps=3").replace("1_000)", "60)"), {})
    assert (tmp_path / "report" / "report.html").is_file()
    assert ehr_course.load_model("model").model.end_bias is not None
