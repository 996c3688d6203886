"""Wrong answers that were once taken for right ones, and right ones that were refused."""

from __future__ import annotations

import pytest

from ehr_course.exercises import examine
from ehr_course.exercises.result import Outcome
from ehr_course.exercises.worked_answers import as_function, changed, worked_answer

WRONG = [  # exercise, change of the worked answer, misconception or words of the message
    ("11.1", {"scores.softmax(dim=-1)": "(s := (scores - scores.max()).exp()) / s.sum(-1, True)"},
     "one_maximum_of_all_scores"),
    ("11.1", {"scores.masked_fill(~mask, -math.inf)": "scores",
              "scores.softmax(dim=-1)": "scores.softmax(-1) * (1 if mask is None else mask)",
              "return weights": "weights = weights / weights.sum(-1, True)\n    return weights"},
     "renormalised"),
    ("11.2", {"return causal & real": "return causal & real & real[:, None]"},
     "hides_the_rows_of_padding"),
    ("12.3", {"return prompts": "return None if None in (numerical, categorical) else prompts"},
     "none_where_one_is_missing"),
    ("12.6", {"num_weight = nn.Parameter(torch.randn(1, d_hidden) / 10)":
              "num_weight = nn.Parameter(torch.ones(1, d_hidden))",
              "num_bias = nn.Parameter(torch.randn(1, d_hidden) / 10)":
              "num_bias = nn.Parameter(torch.ones(1, d_hidden))",
              "self.table =": "nn.init.ones_(self.num_project.weight)\n        self.table ="},
     "equal_initial_values"),
    ("12.6", {"torch.zeros(n_cat, d_hidden)": "torch.zeros(n_cat, d_hidden), requires_grad=False"},
     "['a gradient reaches']['cat_bias']"),
    ("12.6", {"(n_cat, d_hidden)": "(1, d_hidden)"}, "['shapes']['cat_bias']"),
    ("13.4", {"sums = embeddings": "sums = embeddings.detach()"}, "detached"),
    ("14.3", {"losses[labels != -100].sum()": "(losses * (labels != -100)).sum()"},
     "nothing_times_a_loss_that_is_nan"),
    ("14.5", {"term.total /": "term.total.item() /"}, "without_a_gradient"),
]  # fmt: skip

RIGHT = [  # exercise, change, words of the remark
    ("11.1", {"-math.inf": "-1e4"}, "large negative number"),
    ("11.1", {"-math.inf": "torch.finfo(scores.dtype).min"}, None),
    ("12.2", {"x_cat + torch.tensor(offsets)": "(x_cat + torch.tensor(offsets)).to(torch.uint8)"},
     "narrow type"),
    ("12.6", {"self.table =": "nn.init.zeros_(self.num_project.weight)\n        self.table ="},
     None),
    ("13.2", {"sum(dim=1)": "sum(dim=1, dtype=torch.uint8)"}, "narrow type"),
    ("13.5", {"differs)\n": "torch.tensor(differs))\n"}, None),
    ("14.1", {"return losses.mean()": "return cross_entropy(logits.transpose(1, 2), labels)"},
     "PyTorch's own function"),
    ("14.2", {"losses.mean()": "cross_entropy(logits, labels, label_smoothing=smoothing)"},
     "option of PyTorch"),
]  # fmt: skip

MISLEADING = [  # exercise, change, words that are not true of it
    ("12.5", {"2 * middle + after": "2 * middle + after.abs()"}, "times the right one"),
    ("11.1", {"    if mask": "    mask = torch.ones(scores.shape).tril().bool()\n    if mask"},
     "padding"),
]  # fmt: skip


@pytest.mark.parametrize(("exercise_id", "change", "said"), WRONG)
def test_a_wrong_answer_does_not_pass(exercise_id: str, change: dict[str, str], said: str) -> None:
    answer = as_function(exercise_id, changed(worked_answer(exercise_id), change))
    for seed in range(3):
        result = examine(exercise_id, answer, seed=seed)
        assert result.outcome is Outcome.NOT_YET, str(result)
        assert said == result.misconception or said in result.message, str(result)


@pytest.mark.parametrize(("exercise_id", "change", "untrue"), MISLEADING)
def test_a_message_says_nothing_that_is_not_true(
    exercise_id: str, change: dict[str, str], untrue: str
) -> None:
    answer = as_function(exercise_id, changed(worked_answer(exercise_id), change))
    for seed in range(3):
        result = examine(exercise_id, answer, seed=seed)
        assert result.outcome is Outcome.NOT_YET
        assert untrue not in result.message


@pytest.mark.parametrize(("exercise_id", "change", "remark"), RIGHT)
def test_a_right_answer_passes(
    exercise_id: str, change: dict[str, str], remark: str | None
) -> None:
    answer = as_function(exercise_id, changed(worked_answer(exercise_id), change))
    for seed in range(3):
        result = examine(exercise_id, answer, seed=seed)
        assert result.outcome is (Outcome.REMARK if remark else Outcome.SOLVED), str(result)
        assert remark is None or remark in result.message


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"torch.randn(1, d_hidden) / 10": "torch.full((1, d_hidden), {})"},
         "num_weight, num_bias"),
        ({"torch.tensor(first))": "torch.tensor(first))\n"
          "        nn.init.constant_(self.table.weight[0], {})"}, "table.weight"),
        ({"torch.tensor(first))": "torch.tensor(first))\n"
          "        nn.init.constant_(self.cat_project.weight, {})"}, "cat_project.weight"),
        ({"torch.tensor(first))": "torch.tensor(first))\n        if d_hidden == 3:\n"
          "            nn.init.constant_(self.cat_bias, {})"}, "cat_bias"),
    ],
)  # fmt: skip
def test_a_prompt_that_begins_with_no_finite_number_does_not_pass(
    change: dict[str, str], named: str, value: str
) -> None:
    source = worked_answer("12.6")
    for old, new in change.items():
        assert old in source
        source = source.replace(old, new.format(f"float('{value}')"))
    for seed in range(3):
        result = examine("12.6", as_function("12.6", source), seed=seed)
        assert result.outcome is Outcome.ERROR, str(result)
        assert "not finite numbers" in result.message
        assert dict(result.details)["raised"].endswith(f"at the start: {named}")


def test_a_mistake_in_a_module_shows_the_learners_own_line() -> None:
    source = changed(worked_answer("12.6"), {"self.table(rows)": "self.tabel(rows)"})
    result = examine("12.6", as_function("12.6", source), seed=1)
    assert result.outcome is Outcome.ERROR
    assert "self.tabel(rows)" in dict(result.details)["your line"]
