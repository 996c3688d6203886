"""What each measure of privacy says, in plain words, and which way is better."""

from __future__ import annotations

from typing import Literal

MEANINGS: dict[str, tuple[Literal["low", "high", "near"], str]] = {
    "adversarial accuracy, train": (
        "near",
        "How well synthetic and training patients are told apart by their nearest neighbour. 0.5: "
        "not at all; near 1: they lie apart; near 0: the synthetic ones lie on the training ones.",
    ),
    "adversarial accuracy, held-out": (
        "near",
        "The same against patients that the model never saw.",
    ),
    "privacy loss": (
        "near",
        "The adversarial accuracy against held-out patients minus that against training "
        "patients. Above 0 the synthetic patients lie nearer to those whom the model learned "
        "from.",
    ),
    "membership by distance": (
        "near",
        "How well an attacker who has the synthetic cohort tells training patients from "
        "held-out ones, by the distance to the nearest synthetic patient. AUROC: 0.5 is a guess, "
        "1 is certainty.",
    ),
    "membership by likelihood": (
        "near",
        "How well an attacker who has the model itself, not only its patients, tells training "
        "from held-out patients by the log-likelihood of their record per token. AUROC: 0.5 is a "
        "guess.",
    ),
    "attribute disclosure F1": (
        "low",
        "An attacker knows a training patient's frequent codes and guesses the others from the "
        "synthetic patients nearest in them. The floor is what the same attack gets from as many "
        "held-out patients: statistics alone.",
    ),
    "attribute disclosure sensitivity": (
        "low",
        "The share of the training patients' less frequent codes that this attack guesses.",
    ),
    "exact copies": (
        "low",
        "The share of synthetic patients with exactly the visits of a training patient. The floor "
        "is the share of held-out patients with them: short records meet by chance.",
    ),
    "exact copies of long records": (
        "low",
        "The same among patients with five codes or more, where chance explains little.",
    ),
    "rare codes absent": (
        "near",
        "The share of codes of at most five training patients that are absent from as many "
        "synthetic patients as are compared. Far above the floor rare diseases are lost, far "
        "below it they were learned by heart. The interval is over codes.",
    ),
}
