"""The form of lesson 20: what a study says before its report can be believed."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from numbers import Integral
from statistics import fmean
from typing import Any

from ehr_course.evaluation.measure import what_is_shown
from ehr_course.exercises.checklist import Answer, Checklist, Form, is_empty, lacks
from ehr_course.records import PatientRecord

FINDINGS = ("better", "worse", "not shown")
PARTS = ("train", "validation", "test")
FEWEST_SEEDS = 3
FEWEST_TEST_PATIENTS = 50
FEWEST_WORDS = 3
"""Of a limit: "Patients are invented." is a whole sentence."""

SHARE = re.compile(
    r"share|percent|per cent|%|\brates?\b|fraction|proportion|accuracy|recall|precision",
    re.IGNORECASE,
)
NO_SHARE = re.compile(
    r"\b(nats?|bits?|loss(es)?|entropy|perplexit(y|ies)|seconds?|minutes?|days?|years?|distances?|"
    r"errors?|numbers?|counts?|times|likelihoods?|per (?!cent\b))",
    re.IGNORECASE,
)
"""Words of a measure that lies between 0 and 1, and of one that need not."""


def _question(form: Form) -> Answer:
    question = _as_mapping(form, "question")
    if isinstance(question, Answer):
        return question
    text = str(question.get("text", "")).strip()
    if len(text.split()) < 5 or not text.endswith("?"):
        return lacks("Put one whole question into `text`, with a question mark at its end.")
    if not any(letter.isalpha() for letter in str(question.get("measure") or "")):
        return lacks("A number must be able to answer it: name that number in `measure`.")
    if question.get("better") not in ("lower", "higher"):
        return lacks('Say in `better` which way is better, "lower" or "higher", before you look.')
    return Answer(f"{text} Measured by {question['measure']}, {question['better']} is better.")


def _data(form: Form) -> Answer:
    data = _as_mapping(form, "data")
    if isinstance(data, Answer):
        return data
    if is_empty(data.get("source")):
        return lacks("Say in `source` where the patients come from.")
    for part in PARTS:
        if not isinstance(data.get(part), Iterable) or isinstance(data[part], str):
            return lacks(f"Put a list into `{part}`: patients, or their ids.")
        if is_empty(data[part]):
            return lacks(f"`{part}` is empty.")
        if isinstance(data[part], Iterator):
            return lacks(f"`{part}` can be read only once: make a list of it.")
    members = {part: list(data[part]) for part in PARTS}
    for part, patients in members.items():
        if not all(isinstance(patient, Hashable) for patient in patients):
            return lacks(f"`{part}` should hold patients or their ids, each one number or text.")
        nameless = [patient for patient in patients if _has_no_id(patient)]
        if nameless:
            return lacks(
                f"`{part}` holds objects of the class {type(nameless[0]).__name__}. They do not "
                "say whose they are, so nobody can see whether a patient stands in two parts. "
                "Put in the patients they were made from."
            )
    ids = {part: Counter(map(_id, patients)) for part, patients in members.items()}
    for part, counts in ids.items():
        patient, times = max(counts.items(), key=lambda item: item[1])
        if times > 1:
            return lacks(
                f"`{part}` has patient {patient} {times} times. A visit is not a patient."
            )
    for one, other in (("train", "test"), ("validation", "test"), ("train", "validation")):
        both = len(ids[one].keys() & ids[other].keys())
        if both:
            return lacks(
                f"`{one}` and `{other}` have {_count(both, 'patient')} in common. Split by "
                "patient, as in lesson 08."
            )
    copied = _copied(members["train"], members["test"])
    n_test = len(members["test"])
    if copied > n_test / 2:
        return lacks(
            f"{copied} of {n_test} records of `test` are in `train` under another number, code "
            "for code and visit for visit. Find out where the copies come from."
        )
    sizes = ", ".join(f"{len(patients):,} {part}" for part, patients in members.items())
    remark = ""
    if n_test < FEWEST_TEST_PATIENTS:
        few = _count(n_test, "test patient")
        remark = f"With {few}, one of them moves a share by {1 / n_test:.0%}."
    return Answer(f"{data['source']}: {sizes}, nobody in two parts.", remark=remark)


def _model(form: Form) -> Answer:
    model = _as_mapping(form, "model")
    if isinstance(model, Answer):
        return model
    if is_empty(model.get("name")):
        return lacks("Name the model, so that somebody else could train it again.")
    scores = _scores(model)
    if isinstance(scores, Answer):
        return scores
    if len(scores) != len(_seeds_of(form)):
        return lacks(
            f"`scores` has {_count(len(scores), 'number')}, and there "
            f"{_are(len(_seeds_of(form)), 'seed')}: give one score for each seed, including the "
            "bad ones."
        )
    remark = ""
    if len(scores) > 1 and len(set(scores)) == 1:
        remark = "All seeds have exactly the same score: look whether a seed reaches the training."
    return Answer(f"{model['name']}: {_shown(scores)}.", remark=remark)


def _baseline(form: Form) -> Answer:
    baseline = _as_mapping(form, "baseline")
    if isinstance(baseline, Answer):
        return baseline
    name = str(baseline.get("name") or "").strip()
    if not name:
        return lacks("Name what the model must beat: a table, an older model, or a random choice.")
    model = form.get("model")
    model = model if isinstance(model, Mapping) else {}
    if name.casefold() == str(model.get("name", "")).strip().casefold():
        return lacks("The baseline is the model itself. Compare it with something simpler.")
    scores = _scores(baseline)
    if isinstance(scores, Answer):
        return scores
    if len(scores) not in (1, len(_seeds_of(form))):
        return lacks(
            f"`scores` has {_count(len(scores), 'number')}: give one score for each seed, or a "
            "single one where nothing in the baseline is random."
        )
    if len(scores) > 1 and scores == _scores(model):
        return lacks("It has the model's scores, all of them: one was copied from the other.")
    mixed = _mixed_units(_scores(model), scores, _measure(form))
    if mixed:
        return lacks(mixed)
    return Answer(f"{name}: {_shown(scores)}.")


def _seeds(form: Form) -> Answer:
    seeds = form["seeds"]
    if not isinstance(seeds, Iterable) or isinstance(seeds, str):
        return lacks("Give a list of whole numbers: one seed alone shows no spread.")
    seeds = _seeds_of(form)
    if not all(isinstance(seed, Integral) and not isinstance(seed, bool) for seed in seeds):
        return lacks("A seed is a whole number.")
    again = [seed for seed, times in Counter(seeds).items() if times > 1]
    if again:
        return lacks(
            f"Seed {again[0]} stands there twice: repeating a run does not make a second one."
        )
    if len(seeds) < FEWEST_SEEDS:
        return lacks(
            f"{_count(len(seeds), 'seed')}: take at least {FEWEST_SEEDS}, or nobody can tell a "
            "difference from luck."
        )
    return Answer(f"{_count(len(seeds), 'seed')}: {', '.join(map(str, seeds))}.")


def _report(form: Form) -> Answer:
    report = _as_mapping(form, "report")
    if isinstance(report, Answer):
        return report
    finding = report.get("finding")
    if finding not in FINDINGS:
        return lacks(_no_finding(str(finding)))
    needed = [name for name in ("question", "model", "baseline") if not _judged(name, form).done]
    if needed:
        return lacks(f"This waits for {' and '.join(needed)}: a finding follows from the numbers.")
    model, baseline = _scores(form["model"]), _scores(form["baseline"])
    # Both fields are judged above, so each has scores.
    assert not isinstance(model, Answer) and not isinstance(baseline, Answer)
    interval = _interval(report)
    if isinstance(interval, Answer):
        return interval
    better = form["question"]["better"]
    by_scores = what_is_shown(model, baseline, better)
    shown = what_is_shown(model, baseline, better, interval)
    numbers = (
        f"the model's scores are {_shown(model, 'between')}, the baseline's "
        f"{_shown(baseline, 'between')}"
    )
    unsure = ""
    if interval and interval[0] <= 0 <= interval[1]:
        unsure = f"and the interval, {_ends(interval)}, contains zero, "
    if finding != shown and finding != "not shown":
        if interval and shown != by_scores:
            return lacks(_not_by_interval(finding, by_scores, interval))
        if shown == "not shown":
            return lacks(
                f'"{finding}" is more than the numbers say: {numbers}. They overlap, '
                + unsure
                + 'so other seeds or patients may turn it around. The finding is "not shown".'
            )
        return lacks(f'The numbers say "{shown}": {numbers}.')
    if len(str(report.get("text", "")).split()) < 10:
        return lacks("Tell a reader in `text` what was found, in ten words or more.")
    overstated = _overstated(finding, str(report["text"]))
    if finding != shown:
        apart = f'The scores do not overlap, so the report might say "{shown}".'
        return Answer(f'"{finding}": {numbers}.', remark=f"{overstated} {apart}".strip())
    if interval:
        numbers += f", and the interval of the difference {_ends(interval)}"
    remarks = [
        _luck(finding, len(model), len(baseline)),
        _unlike(model, baseline),
        _outside(fmean(model) - fmean(baseline), interval),
        overstated,
    ]
    return Answer(f'"{finding}": {numbers}.', remark=" ".join(filter(None, remarks)))


def _interval(report: Mapping[str, Any]) -> tuple[float, float] | Answer | None:
    """The two ends under "interval", or nothing where the form has none."""
    given: Any = report.get("interval")
    if is_empty(given):
        return None
    if isinstance(given, Iterator):
        return lacks("`interval` can be read only once: make a list of it.")
    try:
        ends = () if isinstance(given, str | Mapping | set) else tuple(map(float, given))
    except (TypeError, ValueError):
        ends = ()
    if len(ends) != 2 or not all(map(math.isfinite, ends)):
        return lacks(
            "`interval` is two numbers, `(low, high)`: where 95% of the differences lie, model "
            "less baseline, if the patients are drawn again. Without one, leave it out."
        )
    low, high = ends
    if low > high:
        return lacks(f"`interval` goes from {low:.4g} to {high:.4g}: put its low end first.")
    return low, high


def _not_by_interval(finding: str, by_scores: str, interval: tuple[float, float]) -> str:
    """What to say where the scores show a difference, and the interval does not."""
    low, high = interval
    if low <= 0 <= high:
        return (
            f'"{finding}" is more than the interval says: it goes {_ends(interval)} and contains '
            'zero, so other patients may turn the difference around. Write "not shown". A new '
            "study with more test patients could tell more."
        )
    return (
        f'The scores say "{by_scores}", and the interval, {_ends(interval)}, the opposite. Is it '
        "the model less the baseline, and of the same patients? If it is, the two disagree, and "
        'the finding is "not shown".'
    )


def _outside(difference: float, interval: tuple[float, float] | None) -> str:
    """A hint at an interval of other units, or of other runs."""
    if interval is None or interval[0] <= difference <= interval[1]:
        return ""
    return (
        f"The means of the scores differ by {difference:.4g}, and the interval goes "
        f"{_ends(interval)}: is it in the unit of the scores, and of these patients?"
    )


def _ends(interval: tuple[float, float]) -> str:
    return f"from {interval[0]:.4g} to {interval[1]:.4g}"


def _no_finding(said: str) -> str:
    """What to say to a finding that is not one of the three."""
    if re.search(r"\b(no|not|none|equal\w*|same|similar|ties?|draw)\b", said, re.IGNORECASE):
        return (
            f'"{said}" would say that the two are equal. Scores that overlap do not show that: '
            "the study may have been too small to see a difference. Where they overlap, the "
            'finding is "not shown".'
        )
    return f"Put one of three findings into `finding`: {_quoted(FINDINGS)}."


def _luck(finding: str, n_model: int, n_baseline: int) -> str:
    """What to know of a difference that so few runs show."""
    if finding == "not shown":
        return ""
    one_in = math.comb(n_model + n_baseline, n_model) / 2
    if one_in >= 20:
        return ""
    how_often = f"one study in {one_in:.0f}" if one_in >= 5 else f"{1 / one_in:.0%} of all studies"
    few, many = sorted((n_model, n_baseline))
    apart = (
        f"all {many} scores would lie on one side of the single one"
        if few == 1
        else f"{many} scores would lie on one side of the other {few}"
    )
    return (
        f"If the two were equally good, {apart} in {how_often}, by chance alone. More seeds, or "
        "other test patients, would tell more."
    )


def _unlike(model: list[float], baseline: list[float]) -> str:
    """A hint at two units: shares and per cent, or nats and bits."""
    sizes = sorted(max(map(abs, scores)) for scores in (model, baseline))
    if 0 < 10 * sizes[0] < sizes[1]:
        return "One side's scores are more than ten times the other's: are both in one unit?"
    return ""


def _mixed_units(model: object, baseline: list[float], measure: str) -> str:
    """What to say where one side looks like fractions of one and the other like per cent."""
    if not isinstance(model, list):
        return ""
    if NO_SHARE.search(measure) and not SHARE.search(measure):
        return ""
    small, large = sorted((model, baseline), key=max)
    if min(small) < 0 or not 10 * max(small) < max(large) or not 1 < max(large) <= 100:
        return ""
    return (
        f"The model's scores are {_shown(model, 'between')}, the baseline's "
        f"{_shown(baseline, 'between')}. One side looks like fractions of one, the other like "
        "percent: give both as fractions. If it is not a share, name its unit in `measure`."
    )


def _measure(form: Form) -> str:
    question = form.get("question")
    return str(question.get("measure")) if isinstance(question, Mapping) else ""


EQUAL = re.compile(
    r"\b(?:equally (?:good|well|strong|accurate)"
    r"|(?:is|are|was|were|perform|performs|performed) (?:\w+ )?(?:equal(?:ly)?|identical|the same)"
    r"(?=[.,;:!?)]|$| (?:to|in|on|with|as|well|for|here)\b)"
    r"|(?:is|are|was|were) (?:just |exactly )?as good as"
    r"|(?:do|does|did) not differ"
    r"|(?:no|not any|without(?: any| a)?) (?:real |true |clear )?difference"
    r"(?!s? (?:is|was|could be|can be|has been) (?:shown|seen|found)\b)"
    r"|(?:not|no) different)\b",
    re.IGNORECASE,
)
"""Words that call two models equal. "No difference was shown" does not."""

IN_DOUBT = re.compile(
    r"(?:\b(?:not|cannot|never|nobody|nor|whether|if|unless|may|might|could)\b|n't\b)[^.,;:!?]*$",
    re.IGNORECASE,
)
"""What takes such words back, earlier in the same clause: "this does not say that ..."."""


def _overstated(finding: str, text: str) -> str:
    """A word that no such study can justify."""
    proves = re.search(r"\bprove[sdn]?\b", text, re.IGNORECASE)
    if proves and not IN_DOUBT.search(text[: proves.start()]):
        return f'The text says "{proves[0]}", and a few seeds on some patients cannot show that.'
    equal = _called_equal(text)
    if not equal:
        return ""
    if finding == "not shown":
        return (
            f'The text says "{equal}". "Not shown" does not mean that: the study may have been '
            "too small to see a difference."
        )
    return f'The text says "{equal}", and the finding is "{finding}".'


def _called_equal(text: str) -> str:
    """The words that call the models equal, or nothing."""
    for found in EQUAL.finditer(text):
        if not IN_DOUBT.search(text[: found.start()]):
            return found[0]
    return ""


def _limits(form: Form) -> Answer:
    limits = form["limits"]
    if isinstance(limits, str) or not isinstance(limits, Iterable):
        return lacks("Give a list of sentences, one for each limit.")
    limits = [str(limit).strip() for limit in limits]
    short = [limit for limit in limits if len(limit.split()) < FEWEST_WORDS]
    if short:
        return lacks(
            f"Write each limit as a whole sentence: {short[0]!r} has only "
            f"{_count(len(short[0].split()), 'word')}."
        )
    if any(re.search(r"\b(no|without) limits?\b", limit, re.IGNORECASE) for limit in limits):
        return lacks("Every study has limits: what data, measure and seeds do not cover.")
    if len({limit.casefold() for limit in limits}) < 2:
        return lacks(
            "Give at least two: what the data do not contain, and what the measure does not see."
        )
    return Answer(f"{_count(len(limits), 'limit')}.")


FIELDS = {
    "question": _question,
    "data": _data,
    "model": _model,
    "baseline": _baseline,
    "seeds": _seeds,
    "report": _report,
    "limits": _limits,
}


def _judged(name: str, form: Form) -> Answer:
    return lacks("") if is_empty(form.get(name)) else FIELDS[name](form)


# ---------------------------------------------------------------------- reading a field


def _as_mapping(form: Form, name: str) -> Mapping[str, Any] | Answer:
    if isinstance(form[name], Mapping):
        return form[name]
    return lacks("This field is a dict; its keys are in the empty form of the lesson.")


def _scores(field: Mapping[str, Any]) -> list[float] | Answer:
    """The numbers under "scores", from a list, an array or a tensor, or from a dict by seed."""
    given = field.get("scores", ())
    if isinstance(given, Iterator):
        return lacks("`scores` can be read only once: make a list of it.")
    try:
        scores = [
            float(score) for score in (given.values() if isinstance(given, Mapping) else given)
        ]
    except (TypeError, ValueError):
        return lacks("`scores` is a list of numbers, one for each seed in their order.")
    if not scores:
        return lacks("`scores` is empty: give one score for each seed, in their order.")
    if not all(map(math.isfinite, scores)):
        return lacks("One of the `scores` is not a number. Look at that run before you go on.")
    return scores


def _seeds_of(form: Form) -> list[Any]:
    seeds = form.get("seeds")
    if isinstance(seeds, str) or not isinstance(seeds, Iterable):
        return []
    # The numbers of an array or a tensor become Python's own.
    return list(seeds.tolist() if hasattr(seeds, "tolist") else seeds)


def _id(patient: object) -> str:
    """What a patient is known by: 7, "7" and a tensor of 7 are one and the same."""
    if hasattr(patient, "subject_id"):
        return str(patient.subject_id)
    return str(patient.item() if hasattr(patient, "item") else patient)


def _has_no_id(patient: object) -> bool:
    """Whether it is neither a patient nor an id: the cases of `lose_one` look alike by chance."""
    return is_dataclass(patient) and not hasattr(patient, "subject_id")


def _copied(train: list[Any], test: list[Any]) -> int:
    """How many test records are training records under another number."""
    seen = {_content(patient) for patient in train if isinstance(patient, PatientRecord)}
    return sum(
        isinstance(patient, PatientRecord) and _content(patient) in seen for patient in test
    )


def _content(patient: PatientRecord) -> tuple[object, ...]:
    return (patient.sex, patient.age, *(visit.codes for visit in patient.visits))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _are(number: int, noun: str) -> str:
    return f"is {number} {noun}" if number == 1 else f"are {number} {noun}s"


def _shown(scores: list[float], between: str = "") -> str:
    if len(scores) == 1:
        return f"{scores[0]:.4g}"
    low, high = f"{min(scores):.4g}", f"{max(scores):.4g}"
    if low == high:
        return low if between else f"{_count(len(scores), 'score')}, each {low}"
    ends = f"{low} and {high}"
    return f"{between} {ends}" if between else f"{_count(len(scores), 'score')} between {ends}"


def _quoted(words: Iterable[str]) -> str:
    *most, last = (f'"{word}"' for word in words)
    return f"{', '.join(most)} or {last}"


EXERCISES = (
    Checklist(
        id="20.1",
        title="Your own study",
        hints=(
            "Is a model of your own too much for a start? Take two things that the lesson has: "
            "`CodeNetwork` and `PairTable`, or one of them with two settings. Write the question, "
            "the measure and `better` now, and change nothing in them once you have seen a score.",
            "The field `data` takes the patients themselves, as `split_by_patient` returns them. "
            "The cases that `lose_one` makes go to `share_found`. Try settings on cases of the "
            "validation patients, with several seeds each; if the last of your settings wins, try "
            "one beyond it. Give model and baseline the same patients to learn from.",
            "With `cases = lose_one(mine.test, seed=0)`, one line gives all scores, so that no "
            "run can be left out: `scores = [share_found(CodeNetwork(mine.train, seed=s), cases) "
            "for s in seeds]`. The baseline's are `[share_found(PairTable(mine.train), cases)]`. "
            "Put "
            'both lists into the form; `what_is_shown(scores, others, "higher")` returns the '
            "finding. The text then says both ranges in numbers. `drawn_again`, from the lesson, "
            'gives the interval: it goes to `report["interval"]`, and to `what_is_shown` as well.',
        ),
        fields=FIELDS,
    ),
)
