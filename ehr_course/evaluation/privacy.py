"""Does a synthetic cohort give away the patients that it was made from?

Where theory says what a cohort scores that gives nobody away, that is the **floor**: 0.5 or 0.
Elsewhere the question is also asked of real patients who were never in the training data, and the
floor is what they score in the place of the synthetic ones. A cohort at the floor gives away no
more than other patients of the same hospital would. This is a measurement of some attacks, not a
proof: an attack that is not here may do better, and only differential privacy gives a bound.

* **Adversarial accuracy** (Yale et al. 2020) compares cohorts of one size: m patients of each,
  drawn by the seed, m that of the smallest cohort.
* **Membership inference** asks of training patients and of equally many held-out ones which of
  them have the nearer synthetic patient, in the whole synthetic cohort; with a model also which of
  them it finds likelier. The second attacks the model, not the cohort.
* **Attribute disclosure** guesses the less frequent codes of training patients from the frequent
  ones, by the synthetic patients; the floor, by as many held-out ones.
* **Exact copies** are synthetic patients with all visits of a training patient. Short records meet
  by chance, in held-out patients too, so long ones are also counted by themselves.
* **Rare codes absent** are codes of at most five training patients that none of m synthetic
  patients has. Far above the floor the rare diseases are lost; far below it they were learned by
  heart.

Of large cohorts at most 10,000 patients are compared with each other, and 2,000 are attacked one
by one. Samples of two cohorts hold few pairs of an original and its copy, so adversarial accuracy
sees copies less well where m is small beside the cohorts; membership by distance looks through the
whole synthetic cohort.

An interval says how far the value may lie from its floor by the luck of all patients concerned:
the synthetic ones, those who are attacked, and those who make the floor. It comes from leaving
out a tenth of all of them at a time (see ``jackknife``), for membership from drawing patients
again, and for rare codes from the spread over codes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tqdm import tqdm

from ehr_course.errors import InputError
from ehr_course.evaluation import privacy_attacks
from ehr_course.evaluation.measure import LeftOut, Measure, measure_named
from ehr_course.records import AnyRecord

if TYPE_CHECKING:
    from ehr_course.models.prefix_tuning import PrefixTuned
    from ehr_course.models.prompt_bart import PromptBart
    from ehr_course.tokenizers.codes import CodeTokenizer


@dataclass(frozen=True)
class Privacy:
    """What some attacks on a synthetic cohort give.

    Attributes:
        measures: each with its interval and its floor, in the order of privacy's docstring.
        warnings: what the reader must know before the numbers are used; empty if nothing.
        left_out: the attacks that nothing could be said about.
    """

    measures: tuple[Measure, ...]
    warnings: tuple[str, ...] = ()
    left_out: tuple[LeftOut, ...] = ()

    def __getitem__(self, name: str) -> Measure:
        """The measure of a name."""
        return measure_named(self.measures, name)


def privacy(
    train: Sequence[AnyRecord],
    held_out: Sequence[AnyRecord],
    synthetic: Sequence[AnyRecord],
    *,
    model: PromptBart | PrefixTuned | None = None,
    tokenizer: CodeTokenizer | None = None,
    seed: int = 0,
    progress: bool = False,
) -> Privacy:
    """Attack a synthetic cohort; see the head of this module for the attacks.

    =================================== ======= =============================
    name                                better  without any disclosure
    =================================== ======= =============================
    adversarial accuracy, train         near    0.5
    adversarial accuracy, held-out      near    0.5
    privacy loss                        near    0
    membership by distance              near    0.5
    membership by likelihood            near    0.5; with a model only
    attribute disclosure F1             low     the floor
    attribute disclosure sensitivity    low     the floor
    exact copies                        low     the floor
    exact copies of long records        low     the floor
    rare codes absent                   near    the floor
    =================================== ======= =============================

    Args:
        train: the patients that the model learned from.
        held_out: patients of the same hospital that it never saw.
        synthetic: the patients to judge.
        model: the trained model, to attack it by likelihood too.
        tokenizer: the one that it was trained with.
        seed: of what is drawn, 0 or more.
        progress: whether to show a bar.

    Returns:
        The measures. A number that cannot be had from so few patients is ``nan``, and a warning
        says so; with fewer than 30 patients no interval is given.

    Raises:
        InputError: if a cohort has no patients, or there is a model without its tokenizer.
    """
    for name, cohort in (("train", train), ("held_out", held_out), ("synthetic", synthetic)):
        if not len(cohort):
            raise InputError("privacy", name, "it has no patients", "Give at least one patient.")
    if (model is None) != (tokenizer is None):
        raise InputError(
            "privacy",
            "tokenizer" if tokenizer is None else "model",
            "it is missing",
            "Give a model and its tokenizer, or neither.",
        )
    case = privacy_attacks.Case(train, held_out, synthetic, seed)
    chosen: list[Callable[[], list[Measure]]] = [
        lambda: privacy_attacks.adversarial(case),
        lambda: privacy_attacks.by_distance(case),
    ]
    if model is not None and tokenizer is not None:
        chosen.append(lambda: privacy_attacks.by_likelihood(case, model, tokenizer))
    chosen += [
        lambda: privacy_attacks.attributes(case),
        lambda: privacy_attacks.copies(case),
        lambda: privacy_attacks.rare_codes(case),
    ]
    measures: list[Measure] = []
    hidden = {} if progress else {"disable": True}
    for attack in tqdm(chosen, desc="privacy", **hidden):
        measures += attack()
    return Privacy(tuple(measures), tuple(case.warnings))
