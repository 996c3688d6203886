"""Exercises 19.3 and 19.4: codes that cannot be, and how well a model foretells visits."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from statistics import fmean

from ehr_course import icd9
from ehr_course.exercises.exercise import Arguments, Exercise, Misconception
from ehr_course.exercises.model_to_score import Remembering

# 19.3 Medical validity

Patients = Sequence[tuple[int, str, Sequence[Sequence[str]]]]
Shares = tuple[float, float, float]


def _age_excludes(code: str, age: int, sex: str) -> bool:
    who = icd9.who_can_have(code)
    return who is not None and not who.min_age <= age <= who.max_age


def _sex_excludes(code: str, age: int, sex: str) -> bool:
    who = icd9.who_can_have(code)
    return who is not None and who.sex is not None and who.sex != sex


def _excluded(code: str, age: int, sex: str) -> bool:
    return _age_excludes(code, age, sex) or _sex_excludes(code, age, sex)


def _flags(
    patients: Patients, excluded: Callable[[str, int, str], bool] = _excluded
) -> list[list[list[bool]]]:
    """For each code of each visit of each patient whether it is ruled out."""
    return [
        [[excluded(code, age, sex) for code in visit] for visit in visits]
        for age, sex, visits in patients
    ]


def _all(flags: list[list[list[bool]]]) -> list[bool]:
    return [flag for visits in flags for visit in visits for flag in visit]


def _by_code(flags: list[list[list[bool]]]) -> float:
    return fmean(_all(flags))


def _by_visit(flags: list[list[list[bool]]]) -> float:
    return fmean(any(visit) for visits in flags for visit in visits)


def _by_patient(flags: list[list[list[bool]]]) -> float:
    return fmean(any(map(any, visits)) for visits in flags)


def _three(flags: list[list[list[bool]]]) -> Shares:
    return _by_code(flags), _by_visit(flags), _by_patient(flags)


def _shares(patients: Patients) -> Shares:
    """The reference: every code asked one after the other, then three plain means."""
    return _three(_flags(patients))


def _with(
    excluded: Callable[[str, int, str], bool] = _excluded,
    *,
    by_code: Callable[[list[list[list[bool]]]], float] = _by_code,
    by_visit: Callable[[list[list[list[bool]]]], float] = _by_visit,
    by_patient: Callable[[list[list[list[bool]]]], float] = _by_patient,
) -> Callable[[Patients], Shares]:
    def shares(patients: Patients) -> Shares:
        flags = _flags(patients, excluded)
        return by_code(flags), by_visit(flags), by_patient(flags)

    return shares


def _of_codes_with_a_rule(patients: Patients) -> Shares:
    """Impossible codes over the codes that any rule speaks of."""
    ruled = [
        code
        for _, _, visits in patients
        for visit in visits
        for code in visit
        if icd9.who_can_have(code) is not None
    ]
    flags = _flags(patients)
    by_code = sum(_all(flags)) / len(ruled) if ruled else math.nan
    return by_code, _by_visit(flags), _by_patient(flags)


def _each_code_once_a_patient(patients: Patients) -> Shares:
    flags, counted = _flags(patients), []
    for age, sex, visits in patients:
        codes = {code for visit in visits for code in visit}
        counted += [_excluded(code, age, sex) for code in codes]
    return fmean(counted), _by_visit(flags), _by_patient(flags)


def _first_visits(patients: Patients) -> Shares:
    return _shares([(age, sex, visits[:1]) for age, sex, visits in patients])


def _divided(count: float, n: int) -> float:
    return count / n


_RULED = ("V3001", "7742", "650", "64421", "185", "6000", "2900", "1830")
_FREE = ("4280", "4019", "25000", "486", "5990", "2724")


def _fresh_patients(rng: random.Random) -> Arguments:
    patients = []
    for _ in range(rng.randint(2, 4)):
        visits = []
        for _ in range(rng.randint(1, 3)):
            codes = rng.sample(_FREE, rng.randint(0, 2)) + rng.sample(_RULED, rng.randint(0, 2))
            rng.shuffle(codes)
            visits.append(codes or ["4280"])
        patients.append((rng.choice((0, 8, 30, 64, 85)), rng.choice("FM"), visits))
    return (patients,)


VALIDITY = Exercise(
    id="19.3",
    title="Medical validity",
    parameters=("patients",),
    reference=_shares,
    chosen=(
        ([(64, "M", [["4280", "185"], ["650"]])],),
        ([(64, "F", [["4280", "185"]]), (30, "F", [["650"], ["V3001", "4019", "486"]])],),
        ([(0, "M", [["V3001", "7742"]]), (30, "M", [["V3001", "7742"], ["4280"]])],),
        ([(30, "M", [["650", "V3001"], ["4280", "650"], ["650"]]), (64, "F", [["486"]])],),
        ([(70, "F", [["4280"], ["650", "4280", "4019"]]), (70, "F", [["4280"], ["4019"]])],),
        ([(30, "F", [["650"], ["650"]]), (30, "M", [["486", "4280"], ["486"], ["185"]])],),
        ([(8, "F", [["2900"], ["4280", "2900"]]), (85, "F", [["2900", "185", "650"]])],),
    ),
    fresh=_fresh_patients,
    misconceptions=(
        Misconception(
            "age_alone",
            "You count what the age rules out, and not what the sex does.",
            _with(_age_excludes),
        ),
        Misconception(
            "sex_alone",
            "You count what the sex rules out, and not what the age does.",
            _with(_sex_excludes),
        ),
        Misconception(
            "codes_that_are_possible",
            "You count the codes that are possible: why_impossible gives None for those, and a "
            "reason for the others.",
            _with(lambda code, age, sex: not _excluded(code, age, sex)),
        ),
        Misconception(
            "codes_with_a_rule",
            "You count each code that has a rule at all. Whether the rule excludes this patient "
            "is the question.",
            _with(lambda code, age, sex: icd9.who_can_have(code) is not None),
        ),
        Misconception(
            "share_of_codes_with_a_rule",
            "Your first share leaves out the codes without a rule. They are possible, and they "
            "count: the share is one of all codes.",
            _of_codes_with_a_rule,
        ),
        Misconception(
            "mean_of_the_patients_shares",
            "Your first share is the mean of the patients' own shares. A code of a short record "
            "then counts more than one of a long record. Divide once, by all codes.",
            _with(by_code=lambda flags: fmean(fmean(_all([visits])) for visits in flags)),
        ),
        Misconception(
            "mean_of_the_visits_shares",
            "Your first share is the mean of the visits' own shares. A code of a short visit then "
            "counts more than one of a long visit. Divide once, by all codes.",
            _with(
                by_code=lambda flags: fmean(fmean(visit) for visits in flags for visit in visits)
            ),
        ),
        Misconception(
            "means_of_the_patients_shares",
            "Your first two shares are means of the patients' own shares. A code or a visit of a "
            "short record then counts more than one of a long record. Divide once, by all codes "
            "and by all visits.",
            _with(
                by_code=lambda flags: fmean(fmean(_all([visits])) for visits in flags),
                by_visit=lambda flags: fmean(fmean(map(any, visits)) for visits in flags),
            ),
        ),
        Misconception(
            "one_code_a_visit",
            "Your first share counts one impossible code a visit, as if you had stopped at the "
            "first. A visit can have several, and each is a code.",
            _with(
                by_code=lambda flags: _divided(
                    sum(any(visit) for visits in flags for visit in visits), len(_all(flags))
                )
            ),
        ),
        Misconception(
            "each_code_once_a_patient",
            "Your first share counts a code once for each patient, however many visits have it. "
            "The share is one of all codes as they stand in the record.",
            _each_code_once_a_patient,
        ),
        Misconception(
            "codes_for_visits",
            "Your second share counts a visit with two impossible codes twice. It counts visits: "
            "each of them has one or has none.",
            _with(by_visit=lambda flags: _divided(sum(_all(flags)), sum(len(v) for v in flags))),
        ),
        Misconception(
            "visits_for_patients",
            "Your third share counts a patient with two such visits twice. It counts patients: "
            "each of them has one or has none.",
            _with(
                by_patient=lambda flags: _divided(
                    sum(any(visit) for visits in flags for visit in visits), len(flags)
                )
            ),
        ),
        Misconception(
            "codes_for_patients",
            "Your third share counts a patient with two impossible codes twice. It counts "
            "patients: each of them has one or has none.",
            _with(by_patient=lambda flags: _divided(sum(_all(flags)), len(flags))),
        ),
        Misconception(
            "visits_over_patients_codes",
            "All three of your shares are shares of codes. Each has its own numerator and its own "
            "denominator: visits with such a code over visits, patients over patients.",
            _with(by_visit=_by_code, by_patient=_by_code),
        ),
        Misconception(
            "patients_for_all",
            "All three of your shares are shares of patients. A patient with a hundred codes, one "
            "of them impossible, is not as wrong as one with nothing but such codes.",
            _with(by_code=_by_patient, by_visit=_by_patient),
        ),
        Misconception(
            "whole_visits_and_patients",
            "Your second and third share count visits and patients whose codes are all "
            "impossible. One such code is enough.",
            _with(
                by_visit=lambda flags: fmean(all(visit) for visits in flags for visit in visits),
                by_patient=lambda flags: fmean(all(map(all, visits)) for visits in flags),
            ),
        ),
        Misconception(
            "first_visits_alone",
            "You looked at the first visit of each patient. The record holds more.",
            _first_visits,
        ),
        Misconception(
            "counts",
            "You returned how many there are. A share divides that by how many there could be.",
            _with(
                by_code=lambda flags: float(sum(_all(flags))),
                by_visit=lambda flags: float(sum(any(v) for visits in flags for v in visits)),
                by_patient=lambda flags: float(sum(any(map(any, visits)) for visits in flags)),
            ),
        ),
        Misconception(
            "patients_first",
            "Your three shares are right and stand in the opposite order: the task asks for "
            "codes, visits, patients.",
            lambda patients: tuple(reversed(_shares(patients))),
        ),
        Misconception(
            "percentages",
            "You returned percentages. A share lies between 0 and 1.",
            lambda patients: tuple(100 * share for share in _shares(patients)),
        ),
    ),
    hints=(
        "icd9.why_impossible(code, age=age, sex=sex) gives a reason or None.",
        "Three numerators and three denominators: codes, visits and patients. Add to all six in "
        "one loop over patients, visits and codes, and divide at the end.",
        "A visit counts once if any of its codes is impossible, a patient once if any visit is.",
    ),
)


# 19.4 Perplexity without a leak

History = Sequence[Sequence[str]]
LogProbs = Callable[[History, Sequence[str]], list[float]]
Two = tuple[float, float]


def _before(visits: History, t: int) -> History:
    return visits[:t]


def _scores(
    log_probs: LogProbs, visits: History, given: Callable[[History, int], History]
) -> list[list[float]]:
    return [log_probs(given(visits, t), visits[t]) for t in range(len(visits))]


def _of_codes(scored: Iterable[list[float]]) -> list[float]:
    return [value for scores in scored for value in scores[:-1]]


def _perplexity(values: Iterable[float]) -> float:
    return math.exp(-fmean(values))


def _both(
    log_probs: LogProbs,
    patients: Sequence[History],
    given: Callable[[History, int], History] = _before,
    *,
    codes: Callable[[list[list[float]]], list[float]] = _of_codes,
    whole: Callable[[list[float]], float] = math.fsum,
    mean: Callable[[Sequence[float]], float] = _perplexity,
    first: int = 0,
) -> Two:
    """The two perplexities, with any step replaced."""
    scored = [
        scores for visits in patients for scores in _scores(log_probs, visits, given)[first:]
    ]
    return mean(codes(scored)), mean([whole(scores) for scores in scored])


def _reference(log_probs: LogProbs, patients: Sequence[History]) -> Two:
    """The reference: products of probabilities, and roots of them."""
    n_codes, n_visits = 0, 0
    codes, visits = 1.0, 1.0
    for patient in patients:
        past: list[Sequence[str]] = []
        for visit in patient:
            *of_codes, end = map(math.exp, log_probs(list(past), visit))
            for probability in of_codes:
                codes, visits, n_codes = codes * probability, visits * probability, n_codes + 1
            visits, n_visits = visits * end, n_visits + 1
            past.append(visit)
    return codes ** (-1 / n_codes), visits ** (-1 / n_visits)


def _changed(**changes: object) -> Callable[..., Two]:
    return lambda log_probs, patients: _both(log_probs, patients, **changes)


def _mean_of_patients(log_probs: LogProbs, patients: Sequence[History]) -> Two:
    return tuple(map(fmean, zip(*(_both(log_probs, [p]) for p in patients), strict=True)))


def _means_of_patients(log_probs: LogProbs, patients: Sequence[History]) -> Two:
    """Perplexities of the mean of the patients' mean log-probabilities."""
    pairs = [_both(log_probs, [patient], mean=fmean) for patient in patients]
    return tuple(math.exp(-fmean(values)) for values in zip(*pairs, strict=True))


def _after_all_before(log_probs: LogProbs, patients: Sequence[History]) -> Two:
    """One history for all patients: nobody begins anew."""
    return _both(log_probs, [[visit for visits in patients for visit in visits]])


_CODES = ("4280", "4019", "486", "25000", "5990")


def _fresh_histories(rng: random.Random) -> Arguments:
    patients = [
        [rng.sample(_CODES, rng.randint(1, 3)) for _ in range(n)]
        for n in (rng.randint(2, 4), *(rng.randint(1, 3) for _ in range(rng.randint(1, 2))))
    ]
    rng.shuffle(patients)
    return Remembering(), patients


_LEAK = (
    "The model is given {}, so it can copy from what it is asked to foretell. Your perplexity "
    "is too good, and says nothing of patients whose future nobody knows."
)

PERPLEXITY = Exercise(
    id="19.4",
    title="Perplexity without a leak",
    parameters=("log_probs", "patients"),
    reference=_reference,
    chosen=(
        (Remembering(), [[["4280"], ["4280", "4019"]]]),
        (Remembering(), [[["4280", "4019"], ["4019"], ["486", "4019"]]]),
        (Remembering(), [[["4280"], ["486"], ["4280"]], [["4019", "25000", "486"]]]),
        (Remembering(), [[["4280", "486", "4019"]], [["4019"], ["4019"], ["4019", "4280"]]]),
        (Remembering(), [[["4280"]], [["486", "4019"], ["486"]]]),
        (Remembering(), [[["4280"], ["486"], ["4019"], ["4280", "486"]]]),
    ),
    fresh=_fresh_histories,
    misconceptions=(
        Misconception(
            "whole_record_given",
            _LEAK.format("the whole record, with the visit itself and those after it"),
            _changed(given=lambda visits, t: visits),
        ),
        Misconception(
            "visit_itself_given",
            _LEAK.format("the visits up to the one that is scored, and that one too"),
            _changed(given=lambda visits, t: visits[: t + 1]),
        ),
        Misconception(
            "all_other_visits_given",
            _LEAK.format(
                "all other visits: also those that come later, which hold the same codes"
            ).replace("what it is asked to foretell", "what comes after"),
            _changed(given=lambda visits, t: [*visits[:t], *visits[t + 1 :]]),
        ),
        Misconception(
            "last_visit_alone_given",
            "The model is given the visit before alone. All visits before are known: give them "
            "all, in their order.",
            _changed(given=lambda visits, t: visits[max(0, t - 1) : t]),
        ),
        Misconception(
            "nothing_given",
            "The model is given nothing of the visits before. That is no leak, and answers "
            "another question: here each visit is foretold from those before it.",
            _changed(given=lambda visits, t: []),
        ),
        Misconception(
            "patients_before_given",
            "The model is given the visits of the patients before as well. Each patient begins "
            "anew, with no visit before the first.",
            _after_all_before,
        ),
        Misconception(
            "first_visits_left_out",
            "You left out the first visit of each patient. It is foretold too, from no visits.",
            _changed(first=1),
        ),
        Misconception(
            "latest_visit_first",
            "The model is given the visits before in the opposite order. They stand in time "
            "order, the latest one last.",
            _changed(given=lambda visits, t: list(reversed(visits[:t]))),
        ),
        Misconception(
            "ends_among_the_codes",
            "Your perplexity per code counts the ends of the visits as codes. They are easier to "
            "foretell, and make the number smaller.",
            _changed(codes=lambda scored: [value for scores in scored for value in scores]),
        ),
        Misconception(
            "visit_without_its_end",
            "Your perplexity per visit leaves out the end. A visit is its codes and that no "
            "further code follows: the end belongs to it.",
            _changed(whole=lambda scores: math.fsum(scores[:-1])),
        ),
        Misconception(
            "mean_over_the_tokens_of_a_visit",
            "Your perplexity per visit takes the mean over a visit's tokens. The log-probability "
            "of a visit is their sum.",
            _changed(whole=fmean),
        ),
        Misconception(
            "mean_of_exponentials",
            "You took the exponential of each and then the mean. One improbable code then "
            "outweighs a hundred others. Take the mean of the log-probabilities first.",
            _changed(mean=lambda values: fmean(math.exp(-value) for value in values)),
        ),
        Misconception(
            "mean_of_the_visits_means",
            "Your perplexity per code takes the mean of the visits' means. A code of a short "
            "visit then counts more than one of a long visit.",
            _changed(codes=lambda scored: [fmean(scores[:-1]) for scores in scored]),
        ),
        Misconception(
            "mean_of_the_patients_perplexities",
            "You took the mean of the patients' perplexities. One patient who is hard to foretell "
            "then outweighs many others. Take one mean of log-probabilities, over all patients.",
            _mean_of_patients,
        ),
        Misconception(
            "mean_of_the_patients_means",
            "You took the mean of each patient first. A code, or a visit, of a short record then "
            "counts more than one of a long record.",
            _means_of_patients,
        ),
        Misconception(
            "two_to_the_power",
            "You raised 2 to the mean. The log-probabilities are natural logarithms, so e belongs "
            "there.",
            _changed(mean=lambda values: 2 ** -fmean(values)),
        ),
        Misconception(
            "probability_for_perplexity",
            "Your values lie below 1: they are mean probabilities. The perplexity is 1 over that, "
            "as if so many codes were equally likely.",
            _changed(mean=lambda values: math.exp(fmean(values))),
        ),
        Misconception(
            "loss_for_perplexity",
            "You returned the mean losses, in nats. The perplexity is e to the power of that.",
            _changed(mean=lambda values: -fmean(values)),
        ),
        Misconception(
            "perplexity_of_a_visit_first",
            "Your two values are right and stand in the opposite order: the task asks for codes "
            "first.",
            lambda log_probs, patients: tuple(reversed(_both(log_probs, patients))),
        ),
    ),
    hints=(
        "Go through the visits of a patient with their number t. Which of the visits may the "
        "model read when visit t is scored?",
        "log_probs gives one value more than the visit has codes: the last one is the end. It "
        "belongs to the visit, and is no code.",
        "Collect the values of all codes of all patients in one list, and the sums of all visits "
        "in another. Each perplexity is the exponential of minus the mean of a list.",
    ),
    tolerance=1e-5,  # a mean in float32 is right too, and exp makes its rounding ten times larger
)

EXERCISES = (VALIDITY, PERPLEXITY)
