"""The modules of 12.6 are tried as they are, and the prompt of 12.7 counts its calls."""

import copy

import pytest
import torch

from ehr_course.errors import InputError
from ehr_course.exercises import examine
from ehr_course.exercises.catalogue import find_exercise
from ehr_course.exercises.exercise import Arguments
from ehr_course.exercises.lessons.lesson_12 import WHOSE_PROMPT
from ehr_course.exercises.prompt_to_read import MOST_CALLS, SummedPrompt, distances
from ehr_course.exercises.result import Outcome
from ehr_course.exercises.sealed import TooManyCalls
from ehr_course.exercises.worked_answers import as_function, changed, worked_answer

AGES = range(91)


def prompt() -> SummedPrompt:
    return SummedPrompt([[1.0, 2.0], [0.0, 5.0]], [0.5, -1.0])


def test_a_prompt_is_affine_in_the_age():
    assert torch.equal(prompt()(10, 0), torch.tensor([6.0, -8.0]))
    assert torch.equal(prompt()(torch.tensor(2.5), 1), torch.tensor([1.25, 2.5]))


@pytest.mark.parametrize(("age", "sex"), [(91, 0), (-1, 0), (float("nan"), 0), (30, 2)])
def test_there_is_no_such_patient(age, sex):
    with pytest.raises(InputError):
        prompt()(age, sex)


def test_the_money_ends_and_a_copy_has_it_again():
    prompt_of = prompt()
    for _ in range(MOST_CALLS):
        prompt_of(1, 0)
    for _ in range(2):
        with pytest.raises(TooManyCalls):
            prompt_of(1, 0)
    assert "ended" in repr(prompt_of)
    copy.deepcopy(prompt_of)(1, 0)


@pytest.mark.parametrize("place", range(len(WHOSE_PROMPT.chosen)))
def test_no_chosen_patient_is_a_matter_of_the_last_digit(place: int):
    arguments: Arguments = WHOSE_PROMPT.chosen[place]
    nearest, second, *_ = distances(*arguments)
    assert second[0] > 1.005 * nearest[0]


def lines(prompt_of):
    young, other = prompt_of(0, 0), prompt_of(0, 1)
    year = (prompt_of(90, 0) - young) / 90
    return [
        (start + age * year, age, sex) for sex, start in enumerate((young, other)) for age in AGES
    ]


def by(distance, *, ages=AGES):
    def whose_prompt(prompt_of, vector):
        near = [
            (distance(at - vector), age, sex) for at, age, sex in lines(prompt_of) if age in ages
        ]
        return min(near)[1:]

    return whose_prompt


WRONG = {
    "sum of absolute differences": by(lambda away: away.abs().sum().item()),
    "largest difference": by(lambda away: away.abs().max().item()),
    "every second age": by(lambda away: away.norm().item(), ages=range(0, 91, 2)),
    "not the oldest": by(lambda away: away.norm().item(), ages=range(90)),
    "not the youngest": by(lambda away: away.norm().item(), ages=range(1, 91)),
    "the largest product": lambda prompt_of, vector: max(
        ((at @ vector).item(), age, sex) for at, age, sex in lines(prompt_of)
    )[1:],
}


@pytest.mark.parametrize("name", WRONG)
def test_another_idea_of_near_is_refused(name: str):
    assert not examine("12.7", WRONG[name], seed=1).outcome.is_solved


def test_trying_every_age_costs_too_much():
    def whose_prompt(prompt_of, vector):
        tried = [((prompt_of(a, s) - vector).norm().item(), a, s) for a in AGES for s in (0, 1)]
        return min(tried)[1:]

    result = examine("12.7", whose_prompt, seed=1)
    assert not result.outcome.is_solved
    assert f"{MOST_CALLS} are paid for" in str(result)
    assert f"more than {MOST_CALLS} prompts" in result.message


@pytest.mark.parametrize("kind", [tuple, list, torch.tensor])
def test_the_nearest_of_all_is_right_in_any_container(kind):
    nearest = by(lambda away: away.norm().item())
    result = examine("12.7", lambda *args: kind(nearest(*args)), seed=1)
    assert result.outcome.is_solved


def sex_at(age):
    def whose_prompt(prompt_of, vector):
        sex = min((0, 1), key=lambda sex: (prompt_of(age, sex) - vector).norm().item())
        start = prompt_of(0, sex)
        year = (prompt_of(90, sex) - start) / 90
        years = ((vector - start) @ year / (year @ year)).item()
        return min(max(round(years), 0), 90), sex

    return whose_prompt


@pytest.mark.parametrize("age", [45, 90])
def test_the_sex_before_the_age_has_its_own_words(age: int):
    for seed in range(3):
        result = examine("12.7", sex_at(age), seed=seed)
        assert not result.outcome.is_solved
        assert "You chose the sex before you knew the age" in result.message, str(result)


@pytest.mark.parametrize("place", [0, 1, 2, -1, "fastest"])
def test_a_single_number_has_its_own_words(place):
    def whose_prompt(prompt_of, vector):
        start = prompt_of(0, 0)
        year = (prompt_of(90, 0) - start) / 90
        k = year.abs().argmax() if place == "fastest" else place
        found = []
        for sex in (0, 1):
            away = vector - prompt_of(0, sex)
            age = min(max(round((away[k] / year[k]).item()), 0), 90)
            found.append(((away - age * year).norm().item(), age, sex))
        return min(found)[1:]

    for seed in range(3):
        result = examine("12.7", whose_prompt, seed=seed)
        assert not result.outcome.is_solved
        assert "the age off a single number" in result.message, str(result)


@pytest.mark.parametrize(
    ("name", "entry"),
    [
        ("no_offset", "prompts"),
        ("unscaled_age", "prompts"),
        ("detached", "a gradient reaches"),
        ("equal_initial_values", "units begin unlike"),
    ],
)
def test_a_wrong_prompt_shows_what_differs_alone(name: str, entry: str):
    exercise = find_exercise("12.6")
    wrong = exercise.changed_answer(exercise.misconceptions[name].changes[0])
    details = dict(examine("12.6", wrong, seed=1).details)
    assert details["expected"] != details["got"]
    for label in ("expected", "got"):
        assert details[label].startswith(f"{{'{entry}': ")
        assert details[label].endswith("and 3 entries that agree")


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    ("begins_with", "named"),
    [
        ("for age in (self.num_weight, self.num_bias): fill(age, {})", "num_weight, num_bias"),
        ("fill(self.table.weight[0], {})", "table.weight"),
        ("fill(self.cat_project.weight, {})", "cat_project.weight"),
        ("if d_hidden == 3: fill(self.cat_bias, {})", "cat_bias"),
    ],
)
def test_a_prompt_that_begins_with_no_finite_number_does_not_pass(begins_with, named, value):
    made = 'self.register_buffer("first_rows", torch.tensor(first))'
    begins = begins_with.replace("fill", "nn.init.constant_").format(f"float('{value}')")
    source = changed(worked_answer("12.6"), {made: f"{made}\n        {begins}"})
    for seed in range(3):
        result = examine("12.6", as_function("12.6", source), seed=seed)
        assert result.outcome is Outcome.ERROR, str(result)
        assert "not finite numbers" in result.message
        assert dict(result.details)["raised"].endswith(f"at the start: {named}")


def test_a_mistake_in_a_module_shows_the_learners_own_line():
    source = changed(worked_answer("12.6"), {"self.table(rows)": "self.tabel(rows)"})
    result = examine("12.6", as_function("12.6", source), seed=1)
    assert result.outcome is Outcome.ERROR
    assert "self.tabel(rows)" in dict(result.details)["your line"]
