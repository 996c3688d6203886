"""Cases for the drawings of lesson 14."""

from __future__ import annotations

from registry import drawing

from ehr_course.widgets.loss_terms import Contribution, draw_loss_terms


@drawing("Language model: 87% of the loss, 76%", "is 2.729", "age: share", "9.6%, 0.2625")
def loss_terms_that_agree():
    return draw_loss_terms(
        [
            Contribution("language model", 2.378, 0.87, 0.76),
            Contribution("age", 0.2625, 0.096, 0.24),
            Contribution("sex", 0.0876, 0.034, 0.0104),
            Contribution("co-occurrence", 0.0005, 0.0002, -0.0104),
        ]
    )


@drawing("Most of the loss: language model; most of its gradient: age", "is 5.000")
def loss_terms_that_disagree():
    return draw_loss_terms(
        [
            Contribution("language model", 2.5, 0.5, 0.1),
            Contribution("age", 2.0, 0.4, 0.7),
            Contribution("sex", 0.5, 0.1, 0.2),
            Contribution("co-occurrence", 0.0, 0.0, 0.0),
        ]
    )
