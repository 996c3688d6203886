"""What a learner has solved is kept, used by later lessons, and printed as one file."""

import linecache
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from course.mine import main as command
from ehr_course.exercises import check, mine, parts, store
from ehr_course.exercises.learner_code import call, is_untouched_stub, own_line
from ehr_course.exercises.mine import PARTS, keep, stand_ins, whole_model
from ehr_course.exercises.worked_answers import worked, worked_answer

MASK = """\
import torch

SHIFT = 0


def lower(length):
    return torch.ones(length, length, dtype=torch.bool).tril(SHIFT)
"""
MASK_BELOW = """\
print("an experiment beside the answer")


def my_mask(n_prompts, attention_mask):
    real = torch.cat([torch.ones(n_prompts, dtype=torch.bool), attention_mask.bool()])
    return lower(len(real)) & real


check("11.2", my_mask)
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EHR_COURSE_HOME", str(tmp_path))
    return tmp_path


def run_cells(*sources: str) -> dict[str, Any]:
    """Run cells as a notebook does: each has lines but no file, and all share their names."""
    scope: dict[str, Any] = {"__name__": "__main__", "check": check, "keep": keep, "mine": mine}
    for number, source in enumerate(sources):
        file = f"<cell {number}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec"), scope)
    return scope


def test_an_answer_is_kept_with_what_it_uses_of_other_cells(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run_cells(MASK, MASK_BELOW)
    assert "Solved" in capsys.readouterr().out
    kept = store.kept_answer("11.2")
    assert kept is not None and "experiment" not in kept and "check(" not in kept
    own = mine("11.2")
    assert own.__name__ == "my_mask" and mine("11.2", "SHIFT") == 0
    assert own(1, torch.tensor([1, 0])).tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]
    assert capsys.readouterr().out == ""


def test_the_worked_answer_stands_in_for_what_is_not_solved() -> None:
    run_cells("def attention(*given):\n    return None\n\n\ncheck('11.1', attention)")
    assert store.kept_answer("11.1") is None
    assert mine("11.1") is worked("11.1")


def test_an_answer_that_cannot_stand_alone_is_named(home: Path) -> None:
    store.keep_answer("11.1", "# answer: attention\nattention = elsewhere")
    with pytest.warns(UserWarning, match=r"answer to 11\.1 .*elsewhere.*answers.11\.1\.py"):
        assert mine("11.1") is worked("11.1")


def test_parts_say_whose_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    run_cells(MASK, MASK_BELOW)
    capsys.readouterr()
    parts()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(PARTS)
    assert lines[0].endswith("not solved yet: the worked answer stands in")
    assert lines[1].endswith("yours")


def test_the_whole_model_is_one_file_that_runs(home: Path) -> None:
    run_cells(MASK, MASK_BELOW)
    text = whole_model()
    assert "# 11.1, not solved yet" in text and "# 11.2, yours" in text
    file = home / "my_model.py"
    file.write_text(f"{text}\nprint(decoder_mask(0, torch.tensor([1])))")
    ran = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True)
    assert ran.stdout == "tensor([[True]])\n"


def test_all_worked_answers_of_the_parts_make_a_model_that_trains(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for exercise_id in PARTS:
        keep(exercise_id, worked(exercise_id))
    assert command([]) == 0
    text = capsys.readouterr().out
    assert "mine(" not in text
    file = home / "my_model.py"
    file.write_text(text)
    ran = subprocess.run([sys.executable, file], capture_output=True, text=True, check=True)
    first, last = map(float, re.findall(r"\d+\.\d+", ran.stdout))
    assert last < first - 1


def test_a_grader_gets_stand_ins_for_what_an_answer_takes() -> None:
    assert stand_ins(worked_answer("11.1")) == {}
    assert list(stand_ins('attention = mine("11.1")')) == ["11.1"]


class Scaled(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(1, width))
        self.unused = nn.Parameter(torch.zeros(1, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale


ROW = torch.tensor([[1.0, 2.0]])
WEIGHTS = {"scale": 3 * ROW, "unused": ROW}


def test_a_class_of_modules_is_built_given_weights_and_run() -> None:
    found = call(Scaled, ((2,), WEIGHTS, (ROW,))).value
    assert found == {
        "parameters": {"scale": (1, 2), "unused": (1, 2)},
        "vary at the start": {"scale": True, "unused": False},
        "output": found["output"],
        "size of the gradient": {"scale": pytest.approx(math.hypot(0.5, 3.0)), "unused": 0.0},
    }
    assert found["output"].tolist() == [[3.0, 12.0]]
    assert call(Scaled, ((3,), WEIGHTS, (ROW,))).value["output"] is None


def test_what_a_class_raises_is_told_as_that_of_a_function() -> None:
    class Endless(Scaled):
        def __init__(self, width: int) -> None:
            super().__init__(width)
            self.unused.data.fill_(float("nan"))

    class Stub(nn.Module):
        def __init__(self, width: int) -> None:
            raise NotImplementedError("11.3: replace this line")

    class Narrow(Scaled):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x @ self.scale

    assert "unused" in str(call(Endless, ((2,), WEIGHTS, (ROW,))).error)
    assert is_untouched_stub(Stub, call(Stub, ((2,), WEIGHTS, (ROW,))).error)
    error = call(Narrow, ((2,), WEIGHTS, (ROW,))).error
    assert error is not None and own_line(Narrow, error).endswith("return x @ self.scale")
