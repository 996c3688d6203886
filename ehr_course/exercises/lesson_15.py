"""The exercises of lesson 15: training loop."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import get_cosine_schedule_with_warmup

from ehr_course.exercises.exercise import Arguments, Exercise, Misconception
from ehr_course.exercises.tiny_training import TinyTraining, through_a_file
from ehr_course.exercises.trainers_to_test import FAULTS, STEPS, Trainers

FLOAT32 = 1e-5
"""The tolerance of values that come from a few products in float32."""

BITWISE = 0.0

# 15.1 Warm-up and cosine


def _rate(step: int, peak: float, warmup_steps: int, total_steps: int) -> float:
    """The reference: the schedule of transformers, whose warm-up begins with a rate of 0.

    So its step s + 1 is our step s during the warm-up. After the end it would rise again.
    """
    if step >= total_steps:
        return 0.0
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=peak)
    schedule = get_cosine_schedule_with_warmup(optimizer, warmup_steps, total_steps)
    (factor,) = schedule.lr_lambdas
    return peak * factor(step + 1 if step < warmup_steps else step)


def _scheduled(
    *,
    rise: Callable[[int, int], float] = lambda step, warmup: (step + 1) / warmup,
    done: Callable[[int, int, int], float] = lambda step, warmup, total: (
        (step - warmup) / (total - warmup)
    ),
    fall: Callable[[float], float] = lambda share: 0.5 * (1 + math.cos(math.pi * share)),
    ends: bool = True,
) -> Callable[..., float]:
    """A schedule with another rise, another share of the way, another curve, or no end."""

    def rate(step: int, peak: float, warmup_steps: int, total_steps: int) -> float:
        if ends and step >= total_steps:
            return 0.0
        if step < warmup_steps:
            return peak * rise(step, warmup_steps)
        return peak * fall(done(step, warmup_steps, total_steps))

    return rate


def _warm_up_one_step_too_long(
    step: int, peak: float, warmup_steps: int, total_steps: int
) -> float:
    if step < total_steps and step == warmup_steps:
        return peak * (step + 1) / warmup_steps
    return _rate(step, peak, warmup_steps, total_steps)


def _fresh_step(rng: random.Random) -> Arguments:
    warmup, rest = rng.choice((0, 1, 3, 5, 8)), rng.choice((4, 7, 10, 20))
    total = warmup + rest
    return rng.randint(0, total + 4), rng.choice((1.0, 0.5, 0.002)), warmup, total


SCHEDULE = Exercise(
    id="15.1",
    title="Warm-up and cosine",
    parameters=("step", "peak", "warmup_steps", "total_steps"),
    reference=_rate,
    chosen=(
        *((step, 1.0, 4, 12) for step in (0, 1, 3, 4, 5, 8, 11, 12, 13, 18, 20)),
        (0, 0.5, 0, 5),
        (3, 0.5, 0, 5),
        (0, 2.0, 1, 6),
        (2, 2.0, 6, 6),
        (5, 0.003, 5, 25),
        (10_000, 0.5, 1_000, 45_000),
        (400, 0.5, 1_000, 45_000),
    ),
    fresh=_fresh_step,
    misconceptions=(
        Misconception(
            "begins_at_zero",
            "Your first step has the rate 0: it computes a gradient and changes nothing. Steps "
            "count from 0 here, and step 0 is taken with one part of the warm-up.",
            _scheduled(rise=lambda step, warmup: step / warmup),
        ),
        Misconception(
            "cosine_from_step_0",
            "Your cosine counts from step 0, so that it is on its way when the warm-up ends: the "
            "rate jumps there. It begins at the peak, at step warmup_steps.",
            _scheduled(done=lambda step, warmup, total: step / total),
        ),
        Misconception(
            "never_reaches_zero",
            "You divided by total_steps. The cosine has only the steps after the warm-up, so it "
            "is not at its end when the training is.",
            _scheduled(done=lambda step, warmup, total: (step - warmup) / total),
        ),
        Misconception(
            "degrees",
            "You gave the cosine degrees. math.cos takes radians: half a turn is math.pi.",
            _scheduled(fall=lambda share: 0.5 * (1 + math.cos(180 * share))),
        ),
        Misconception(
            "rises_again",
            "After total_steps your rate rises again, for a cosine does. A training that goes on "
            "a little longer would undo what it has settled. From total_steps on the rate is 0.",
            _scheduled(ends=False),
        ),
        Misconception(
            "straight_line",
            "Your rate falls along a straight line, and below 0 after total_steps, where each "
            "step makes the loss larger. Half a cosine leaves the peak slowly and arrives slowly.",
            _scheduled(fall=lambda share: 1 - share, ends=False),
        ),
        Misconception(
            "quarter_of_a_turn",
            "Your cosine makes a quarter of a turn, and is negative after total_steps. It makes "
            "half a turn, from 1 to -1; half of 1 plus that goes from 1 to 0.",
            _scheduled(fall=lambda share: math.cos(0.5 * math.pi * share), ends=False),
        ),
        Misconception(
            "whole_turn",
            "Your cosine makes a whole turn: the rate is 0 in the middle and back at the peak at "
            "the end. It makes half a turn.",
            _scheduled(fall=lambda share: 0.5 * (1 + math.cos(2 * math.pi * share))),
        ),
        Misconception(
            "not_halved",
            "Your rate after the warm-up is twice as high as the peak: 1 + cos goes from 2 to 0.",
            _scheduled(fall=lambda share: 1 + math.cos(math.pi * share)),
        ),
        Misconception(
            "cosine_alone",
            "You multiplied by the cosine itself, which is negative in the second half. A "
            "negative rate climbs.",
            _scheduled(fall=lambda share: math.cos(math.pi * share)),
        ),
        Misconception(
            "whole_number_division",
            "You divided with //, which rounds down to whole numbers: the rate is 0 nearly all "
            "through the warm-up, and stays at its peak to the end.",
            _scheduled(
                rise=lambda step, warmup: (step + 1) // warmup,
                done=lambda step, warmup, total: (step - warmup) // (total - warmup),
            ),
        ),
        Misconception(
            "one_step_early",
            "Your cosine is one step ahead: step warmup_steps is the first on it, and has the "
            "peak, where the share of the way is 0.",
            _scheduled(done=lambda step, warmup, total: (step - warmup + 1) / (total - warmup)),
        ),
        Misconception(
            "zero_at_the_last_step",
            "Your rate is 0 a step too early: the last step, total_steps - 1, changes nothing. "
            "The cosine ends at total_steps, after the last step.",
            _scheduled(
                done=lambda step, warmup, total: min(1.0, (step - warmup) / (total - warmup - 1))
            ),
        ),
        Misconception(
            "warm_up_one_step_too_long",
            "Step warmup_steps still belongs to your warm-up, and gets more than the peak: its "
            "parts then are one too many. The cosine begins there. (Without a warm-up you divide "
            "by 0.)",
            _warm_up_one_step_too_long,
        ),
        Misconception(
            "forgets_the_peak",
            "You returned the share of the peak, 0 to 1. The learning rate is that share times "
            "the peak.",
            lambda step, peak, warmup, total: _rate(step, 1.0, warmup, total),
        ),
    ),
    hints=(
        "Three cases: step is below warmup_steps, between it and total_steps, or beyond.",
        "In the warm-up the rate is (step + 1) of warmup_steps equal parts of the peak.",
        "After it, first compute which share of the way is done: 0 at warmup_steps, 1 at "
        "total_steps. Half of 1 plus the cosine of pi times this share goes from 1 to 0.",
    ),
)


# 15.2 Accumulate a large batch

Part = tuple[Tensor, Tensor]
Parts = list[Part]


def _summed(table: Tensor, parts: Sequence[Part]) -> Tensor:
    """The summed loss of all scored tokens of some parts, laid out in one row."""
    inputs = torch.cat([inputs.flatten() for inputs, _ in parts])
    labels = torch.cat([labels.flatten() for _, labels in parts])
    return cross_entropy(table[inputs], labels, reduction="sum")


def _scored(parts: Sequence[Part]) -> int:
    return sum(int((labels != -100).sum()) for _, labels in parts)


def _gradient(table: Tensor, parts: Sequence[Part]) -> Tensor:
    table = table.clone().requires_grad_()
    _summed(table, parts).backward()
    return table.grad


def _trained_whole(table: Tensor, batches: Sequence[Parts], lr: float) -> Tensor:
    """The reference: one mean and one gradient for each batch as a whole."""
    for parts in batches:
        table = table - lr * _gradient(table, parts) / _scored(parts)
    return table


def _divided(divisor: Callable[[Parts, Part], float]) -> Callable[..., Tensor]:
    """Each part's summed gradient over some number of its own."""

    def train(table: Tensor, batches: Sequence[Parts], lr: float) -> Tensor:
        for parts in batches:
            table = table - lr * sum(
                _gradient(table, [part]) / torch.tensor(float(divisor(parts, part)))
                for part in parts
            )
        return table

    return train


def _of_all_batches(table: Tensor, batches: Sequence[Parts], lr: float) -> Tensor:
    count = sum(_scored(parts) for parts in batches)
    for parts in batches:
        table = table - lr * _gradient(table, parts) / count
    return table


def _keeping_gradients(table: Tensor, batches: Sequence[Parts], lr: float) -> Tensor:
    kept = torch.zeros_like(table)
    for parts in batches:
        kept = kept + _gradient(table, parts) / _scored(parts)
        table = table - lr * kept
    return table


def _stepping_in_each_part(table: Tensor, batches: Sequence[Parts], lr: float) -> Tensor:
    for parts in batches:
        for part in parts:
            table = table - lr * _gradient(table, [part]) / _scored(parts)
    return table


def _each_part_a_batch(table: Tensor, batches: Sequence[Parts], lr: float) -> Tensor:
    for parts in batches:
        for part in parts:
            count = torch.tensor(float(_scored([part])))
            table = table - lr * _gradient(table, [part]) / count
    return table


def _last_part_alone(table: Tensor, batches: Sequence[Parts], lr: float) -> Tensor:
    for parts in batches:
        table = table - lr * _gradient(table, parts[-1:]) / _scored(parts)
    return table


def _one_step_for_all(table: Tensor, batches: Sequence[Parts], lr: float) -> Tensor:
    return table - lr * sum(_gradient(table, parts) / _scored(parts) for parts in batches)


def _first_batch_alone(table: Tensor, batches: Sequence[Parts], lr: float) -> Tensor:
    return _trained_whole(table, batches[:1], lr)


def _part(inputs: list[list[int]], labels: list[list[int]]) -> Part:
    return torch.tensor(inputs), torch.tensor(labels)


def _fresh_batches(rng: random.Random) -> Arguments:
    n_tokens = 3
    values = [[rng.randint(-10, 10) / 10 for _ in range(n_tokens)] for _ in range(n_tokens)]
    batches = []
    for _ in range(rng.randint(1, 2)):
        parts = []
        for _ in range(rng.randint(2, 3)):
            rows, length = rng.randint(1, 2), rng.randint(1, 4)
            scored = [rng.randint(1, length) for _ in range(rows)]
            inputs = [[rng.randrange(n_tokens) for _ in range(length)] for _ in range(rows)]
            labels = [
                [rng.randrange(n_tokens) if i < n else -100 for i in range(length)] for n in scored
            ]
            parts.append(_part(inputs, labels))
        batches.append(parts)
    return torch.tensor(values), batches, rng.choice((0.5, 1.0))


_TABLE = torch.tensor([[0.5, -1.0], [0.0, 1.0]])
_LONG = _part([[0, 1, 0, 1]], [[1, 1, 1, 0]])
_SHORT = _part([[1, 0]], [[0, -100]])
_TWO_ROWS = _part([[0, 1], [1, 0]], [[0, 1], [0, -100]])

ACCUMULATE = Exercise(
    id="15.2",
    title="Accumulate a large batch",
    parameters=("table", "batches", "lr"),
    reference=_trained_whole,
    chosen=(
        (_TABLE, [[_LONG, _SHORT]], 1.0),
        (_TABLE, [[_TWO_ROWS, _SHORT]], 1.0),
        (_TABLE, [[_SHORT, _TWO_ROWS], [_LONG]], 0.5),
        (_TABLE, [[_LONG, _SHORT], [_SHORT, _TWO_ROWS]], 0.5),
        (_TABLE, [[_SHORT], [_LONG], [_TWO_ROWS, _SHORT, _LONG]], 0.5),
    ),
    fresh=_fresh_batches,
    misconceptions=(
        Misconception(
            "mean_of_means",
            "You took the mean of the parts' means. A token in a part of few then counts for more "
            "than one in a part of many. Divide every part's sum by the count of the whole batch.",
            _divided(lambda parts, part: len(parts) * _scored([part])),
        ),
        Misconception(
            "sum_of_means",
            "You added up the parts' means, so that the gradient grows with the number of parts. "
            "Divide every part's sum by the count of the whole batch.",
            _divided(lambda parts, part: _scored([part])),
        ),
        Misconception(
            "divides_by_the_parts",
            "You divided the sums by the number of parts. Then a batch with more tokens has a "
            "larger gradient, as if it had a higher learning rate.",
            _divided(lambda parts, part: len(parts)),
        ),
        Misconception(
            "divides_by_the_rows",
            "You divided by the number of rows. The mean is over scored tokens: a row of many "
            "weighs more than a row of few.",
            _divided(lambda parts, part: sum(len(labels) for _, labels in parts)),
        ),
        Misconception(
            "counts_what_is_not_scored",
            "You divided by all positions. Those whose label is -100 are not scored: they are "
            "padding, and the more of it a batch has, the smaller your gradient gets.",
            _divided(lambda parts, part: sum(labels.numel() for _, labels in parts)),
        ),
        Misconception(
            "never_divides",
            "You added up the losses and did not divide. The gradient then grows with the number "
            "of tokens in the batch.",
            _divided(lambda parts, part: 1),
        ),
        Misconception(
            "keeps_gradients",
            "From the second batch on, the gradients of the batches before are still there: "
            "backward() adds to what it finds. Zero the gradient once for each batch.",
            _keeping_gradients,
        ),
        Misconception(
            "steps_in_each_part",
            "You stepped after each part. The later parts then are judged with other weights than "
            "the first one. Add up the gradients of all parts, and step once.",
            _stepping_in_each_part,
        ),
        Misconception(
            "each_part_a_batch",
            "You treated each part as a batch of its own: its own mean, its own step. That is a "
            "training with small batches, not with a large one in parts.",
            _each_part_a_batch,
        ),
        Misconception(
            "last_part_alone",
            "Only the last part of each batch has an effect: the gradients of the others are "
            "zeroed before the step. Zero the gradient once for each batch.",
            _last_part_alone,
        ),
        Misconception(
            "count_of_all_batches",
            "You divided by the scored tokens of all batches. Each batch is a step of its own, "
            "and has its own count.",
            _of_all_batches,
        ),
        Misconception(
            "one_step_for_all_batches",
            "All your gradients are those of the first table: the weights change once, after the "
            "last batch. Step after each batch, and judge the next one with the new table.",
            _one_step_for_all,
        ),
        Misconception(
            "first_batch_alone",
            "Your table is that after the first batch: the function returns too early.",
            _first_batch_alone,
        ),
    ),
    hints=(
        "Before the first part of a batch is read, count the scored tokens of all its parts.",
        'cross_entropy(..., reduction="sum") of a part, divided by that count, is the part\'s '
        "share of the batch's mean. The shares add up to it, and so do their gradients.",
        "backward() adds to the gradient that is there. So call it for each part, and step and "
        "zero the gradient once for each batch.",
    ),
    tolerance=FLOAT32,
)


# 15.3 Loss scaling


def _torch_scaling(
    gradients: Tensor, scale: float, growth_interval: int
) -> tuple[Tensor, list[float]]:
    """The reference: PyTorch's own GradScaler, with an optimizer that shows what it is given."""
    weights = nn.Parameter(torch.zeros(gradients.shape[1]))
    optimizer = torch.optim.SGD([weights], lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=growth_interval)
    applied, scales = torch.zeros_like(gradients), []
    for step, gradient in enumerate(gradients):
        weights.grad = scaler.scale(gradient).half().float()
        scaler.step(optimizer)
        scaler.update()
        applied[step] = 0 - weights.detach()
        scales.append(scaler.get_scale())
        weights.data.zero_()
    return applied, scales


def _scaled(
    *,
    bad: Callable[[Tensor], bool] = lambda half: not half.isfinite().all(),
    rounded: Callable[[Tensor], Tensor] = Tensor.half,
    good_value: Callable[[Tensor, float, float], Tensor] = lambda half, before, after: (
        half / before
    ),
    bad_value: Callable[[Tensor, float], Tensor] = lambda half, scale: torch.zeros_like(half),
    on_overflow: float = 0.5,
    skip_resets: bool = True,
    skip_counts: bool = False,
    growth_resets: bool = True,
    interval: Callable[[int], float] = lambda given: given,
    before: bool = False,
    first: Callable[[Tensor], Tensor] = lambda gradient: gradient,
    gives_the_true_one: bool = False,
) -> Callable[..., tuple[Tensor, list[float]]]:
    """Loss scaling with something done in another way."""

    def train(gradients: Tensor, scale: float, growth_interval: int) -> tuple[Tensor, list[float]]:
        good, applied, scales = 0, [], []
        for gradient in gradients:
            half = rounded(first(gradient) * scale).float()
            old, overflow = scale, bad(half)
            if overflow:
                scale *= on_overflow
                good = 0 if skip_resets else good
            if not overflow or skip_counts:
                good += 1
                if good >= interval(growth_interval):
                    scale *= 2
                    good = 0 if growth_resets else good
            value = bad_value(half, old) if overflow else good_value(half, old, scale)
            if gives_the_true_one and not overflow:
                value = gradient
            applied.append(value)
            scales.append(old if before else scale)
        return torch.stack(applied), scales

    return train


def _tries_again(
    gradients: Tensor, scale: float, growth_interval: int
) -> tuple[Tensor, list[float]]:
    """Halve until the same gradient fits, and apply it."""
    good, applied, scales = 0, [], []
    for gradient in gradients:
        if not gradient.isfinite().all():
            scale, good = scale / 2, 0
            applied.append(torch.zeros_like(gradient))
            scales.append(scale)
            continue
        while not (half := (gradient * scale).half().float()).isfinite().all():
            scale, good = scale / 2, 0
        applied.append(half / scale)
        good += 1
        if good == growth_interval:
            scale, good = scale * 2, 0
        scales.append(scale)
    return torch.stack(applied), scales


def _fresh_gradients(rng: random.Random) -> Arguments:
    steps, n = rng.randint(4, 8), rng.randint(1, 2)
    rows = [
        [rng.choice((-1, 1)) * rng.choice((0.1, 0.3, 0.7, 1.5, 3.0, 6.0)) for _ in range(n)]
        for _ in range(steps)
    ]
    if rng.random() < 0.3:
        rows[rng.randrange(steps)][0] = rng.choice((math.nan, math.inf, -math.inf))
    return torch.tensor(rows), 2.0 ** rng.randint(12, 18), rng.randint(1, 3)


def _column(*values: float) -> Tensor:
    return torch.tensor(values)[:, None]


LOSS_SCALING = Exercise(
    id="15.3",
    title="Loss scaling",
    parameters=("gradients", "scale", "growth_interval"),
    reference=_torch_scaling,
    chosen=(
        (_column(0.1, 0.1, 0.1, 0.1), 8.0, 2),
        (_column(0.1, 0.1, 0.1, 0.1, 0.1), 8.0, 3),
        (_column(3.0, 0.3, 0.3, 0.3, 0.3), 65536.0, 2),
        (_column(0.3, 0.3, -3.0, 0.3, 0.3, 0.3), 65536.0, 3),
        (_column(0.3, 3.0, 3.0, 0.3, 0.3, 0.3), 65536.0, 2),
        (_column(0.3, math.nan, 0.3, 0.3), 1024.0, 2),
        (_column(0.3, -math.inf, 0.3, 0.3), 1024.0, 3),
        (torch.tensor([[0.3, 0.7], [0.3, 3.0], [0.1, 0.3], [0.3, 0.3]]), 65536.0, 2),
        (torch.tensor([[-0.3, math.nan], [0.3, 0.7], [0.3, 0.1]]), 1024.0, 1),
        (_column(6.0, 6.0, 6.0, 6.0), 65536.0, 1),
        (_column(-3.0, 0.3), 65536.0, 2),
        (_column(2e-6, 3e-7, 1e-9), 1024.0, 2),
        (_column(100_000.0, 3.0), 0.0625, 2),
        (_column(0.3, 0.9999, 0.3), 65536.0, 2),  # 65,529 is rounded to infinity
    ),
    fresh=_fresh_gradients,
    misconceptions=(
        Misconception(
            "no_float16",
            "You never rounded to float16. In float32 next to nothing overflows: a gradient times "
            "its scale has to pass through float16, whose largest number is 65,504.",
            _scaled(rounded=lambda scaled: scaled),
        ),
        Misconception(
            "gives_the_true_gradient",
            "You found the overflows, and gave the optimizer the true gradient. It never sees "
            "that: it gets what came out of the backward pass, rounded to float16, over the scale."
            " (Few digits are shown here; these differ in later ones.)",
            _scaled(gives_the_true_one=True),
        ),
        Misconception(
            "rounds_before_it_scales",
            "You rounded to float16 before you multiplied by the scale, so that small gradients "
            "are lost already, and the scale can save none. Multiply first, in float32.",
            _scaled(first=lambda gradient: gradient.half().float()),
        ),
        Misconception(
            "never_unscales",
            "The optimizer is given gradients that still are multiplied by the scale. Divide them "
            "by the scale again, in float32.",
            _scaled(good_value=lambda half, before, after: half),
        ),
        Misconception(
            "unscales_with_the_new_scale",
            "You divided by the scale after it had grown. The gradient was multiplied by the one "
            "before.",
            _scaled(good_value=lambda half, before, after: half / after),
        ),
        Misconception(
            "unscales_in_float16",
            "You divided in float16. What the scale has saved is lost again: small gradients come "
            "out as 0, or with fewer bits. Go back to float32 first.",
            _scaled(good_value=lambda half, before, after: (half.half() / before).float()),
        ),
        Misconception(
            "steps_anyway",
            "You halved the scale, but gave the optimizer the infinite gradient all the same. One "
            "such step makes the weights infinite or NaN for good: skip it.",
            _scaled(bad_value=lambda half, scale: half / scale),
        ),
        Misconception(
            "drops_only_what_overflowed",
            "You set what is not finite to 0 and applied the rest. The rest points another way "
            "than the gradient: where one number overflows, the whole step is skipped.",
            _scaled(bad_value=lambda half, scale: torch.where(half.isfinite(), half, 0.0) / scale),
        ),
        Misconception(
            "sees_infinity_alone",
            "A NaN passes as a good gradient. An infinity minus an infinity on the way through "
            "the layers is a NaN, so an overflow can show as either.",
            _scaled(bad=lambda half: bool(half.isinf().any())),
        ),
        Misconception(
            "sees_nan_alone",
            "An infinity passes as a good gradient: you looked for NaN alone.",
            _scaled(bad=lambda half: bool(half.isnan().any())),
        ),
        Misconception(
            "all_must_be_infinite",
            "You skip a step only where every number of the gradient has overflowed. One is "
            "enough.",
            _scaled(bad=lambda half: not half.isfinite().any()),
        ),
        Misconception(
            "doubles_on_overflow",
            "You doubled the scale after an overflow. The next gradient then overflows all the "
            "more: halve it.",
            _scaled(on_overflow=2.0),
        ),
        Misconception(
            "stays_after_overflow",
            "After an overflow your scale stays as it is, so that the same gradient would "
            "overflow for ever: halve it.",
            _scaled(on_overflow=1.0),
        ),
        Misconception(
            "skip_does_not_reset",
            "You counted good steps from before an overflow. growth_interval good steps in a row "
            "are needed: a skipped step begins the count anew.",
            _scaled(skip_resets=False),
        ),
        Misconception(
            "counts_skipped_steps",
            "A skipped step counts as a good one, so that the scale can grow in the step in which "
            "it had to shrink, or too soon after it.",
            _scaled(skip_resets=False, skip_counts=True),
        ),
        Misconception(
            "keeps_growing",
            "Once the scale has grown, yours grows in every step. Growing begins the count of "
            "good steps anew.",
            _scaled(growth_resets=False),
        ),
        Misconception(
            "grows_every_step",
            "Your scale doubles after every good step, whatever growth_interval says.",
            _scaled(interval=lambda given: 1),
        ),
        Misconception(
            "never_grows",
            "Your scale never grows. One overflow then takes a bit off the small gradients for "
            "the whole rest of the training.",
            _scaled(interval=lambda given: math.inf),
        ),
        Misconception(
            "grows_one_step_late",
            "Your scale grows one good step too late: it grows with the growth_interval-th, not "
            "after it.",
            _scaled(interval=lambda given: given + 1),
        ),
        Misconception(
            "tries_again",
            "You halved the scale until the same gradient fitted, and applied it. That would need "
            "the backward pass again each time. A step that overflows is skipped, once, and the "
            "scale is halved once.",
            _tries_again,
        ),
        Misconception(
            "scales_before",
            "Your scales are those with which the steps were taken. Asked for are those after "
            "them.",
            _scaled(before=True),
        ),
    ),
    hints=(
        "Keep two things from step to step: the scale, and how many good steps in a row there "
        "have been.",
        "(gradient * scale).half() is what comes out of the backward pass. torch.isfinite is "
        "false for both infinities and for NaN.",
        "Bad: zeros for the optimizer, halve the scale, count from 0. Good: back to float32, "
        "divide by the scale of this step, count one more; at growth_interval double the scale "
        "and count from 0.",
    ),
    tolerance=BITWISE,  # a power of two changes no digit
)


# 15.4 Unscale, then clip

Gradients = list[Tensor]


def _torch_clipped(gradients: Gradients, scale: float, max_norm: float) -> Gradients | None:
    """The reference: what PyTorch's own GradScaler and clip_grad_norm_ make of them."""
    weights = [nn.Parameter(torch.zeros_like(gradient)) for gradient in gradients]
    for weight, gradient in zip(weights, gradients, strict=True):
        weight.grad = gradient.clone()
    optimizer = torch.optim.SGD(weights, lr=1.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    scaler.scale(torch.ones(()))  # it makes its scale when it is first needed
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(weights, max_norm)
    return [weight.grad for weight in weights] if norm.isfinite() else None


Norm = Callable[[Gradients], Tensor]


def _norm_of_all(gradients: Gradients) -> Tensor:
    return torch.cat([gradient.flatten() for gradient in gradients]).norm()


def _clip(
    gradients: Gradients, max_norm: float, norm: Norm = _norm_of_all, *, always: bool = False
) -> Gradients:
    factor = max_norm / norm(gradients)
    factor = factor if always else factor.clamp(max=1.0)
    return [gradient * factor for gradient in gradients]


def _finite(gradients: Gradients) -> bool:
    return all(bool(gradient.isfinite().all()) for gradient in gradients)


def _clipped(
    change: Callable[[Gradients, float, float], Gradients],
    skip: Callable[[Gradients], bool] = lambda gradients: not _finite(gradients),
) -> Callable[..., Gradients | None]:
    def clip(gradients: Gradients, scale: float, max_norm: float) -> Gradients | None:
        return None if skip(gradients) else change(gradients, scale, max_norm)

    return clip


def _over(gradients: Gradients, scale: float) -> Gradients:
    return [gradient / scale for gradient in gradients]


def _with_norm(norm: Norm, *, always: bool = False) -> Callable[..., Gradients | None]:
    return _clipped(
        lambda gradients, scale, max_norm: _clip(
            _over(gradients, scale), max_norm, norm, always=always
        )
    )


def _fresh_scaled(rng: random.Random) -> Arguments:
    scale = float(2 ** rng.randint(1, 4))
    gradients = [
        torch.tensor([rng.choice((-1, 1)) * rng.randint(1, 40) / 10 * scale for _ in range(n)])
        for n in (rng.randint(1, 3) for _ in range(rng.randint(1, 3)))
    ]
    if rng.random() < 0.2:
        gradients[rng.randrange(len(gradients))][0] = rng.choice((math.nan, math.inf, -math.inf))
    return gradients, scale, rng.choice((0.5, 1.0, 2.0, 5.0, 20.0))


UNSCALE = Exercise(
    id="15.4",
    title="Unscale, then clip",
    parameters=("gradients", "scale", "max_norm"),
    reference=_torch_clipped,
    chosen=(
        ([torch.tensor([24.0, 32.0])], 8.0, 1.0),
        ([torch.tensor([24.0]), torch.tensor([[32.0, 0.0]])], 8.0, 1.0),
        ([torch.tensor([24.0, -4.0]), torch.tensor([[8.0], [32.0]])], 8.0, 2.0),
        ([torch.tensor([2.0, 1.0]), torch.tensor([-2.0])], 8.0, 1.0),
        ([torch.tensor([6.0]), torch.tensor([6.0])], 8.0, 1.0),
        ([torch.tensor([12.0, -12.0])], 4.0, 2.0),
        ([torch.tensor([0.0, 0.0]), torch.tensor([0.0])], 8.0, 1.0),
        ([torch.tensor([4.0, math.inf]), torch.tensor([8.0])], 8.0, 1.0),
        ([torch.tensor([4.0]), torch.tensor([-math.inf, 8.0])], 8.0, 1.0),
        ([torch.tensor([4.0, math.nan]), torch.tensor([8.0])], 8.0, 1.0),
        ([torch.tensor([0.3, 0.4])], 1.0, 1.0),
    ),
    fresh=_fresh_scaled,
    misconceptions=(
        Misconception(
            "clips_first",
            "You clipped before you unscaled. The scaled gradient is nearly always longer than "
            "max_norm, and after unscaling it is shorter by the scale: every step has the length "
            "max_norm / scale, whatever the gradient was.",
            _clipped(lambda g, scale, max_norm: _over(_clip(g, max_norm), scale)),
        ),
        Misconception(
            "never_unscales",
            "You clipped, and did not unscale. The optimizer then gets a gradient of length "
            "max_norm in nearly every step.",
            _clipped(lambda g, scale, max_norm: _clip(g, max_norm)),
        ),
        Misconception(
            "never_clips",
            "You unscaled, and did not clip.",
            _clipped(lambda g, scale, max_norm: _over(g, scale)),
        ),
        Misconception(
            "unscales_twice",
            "You divided by the scale twice. In PyTorch scaler.step unscales only what "
            "scaler.unscale_ has not unscaled before.",
            _clipped(lambda g, scale, max_norm: _clip(_over(_over(g, scale), scale), max_norm)),
        ),
        Misconception(
            "unscales_again_after",
            "You divided by the scale, clipped, and divided by the scale once more.",
            _clipped(lambda g, scale, max_norm: _over(_clip(_over(g, scale), max_norm), scale)),
        ),
        Misconception(
            "clips_each_tensor",
            "You clipped each tensor by its own norm. That bends the gradient: it points another "
            "way than before. One norm over all tensors shortens it and keeps its direction.",
            _clipped(
                lambda g, scale, max_norm: [_clip([one], max_norm)[0] for one in _over(g, scale)]
            ),
        ),
        Misconception(
            "clips_by_value",
            "You clipped each number to -max_norm to max_norm. That bends the gradient: it points "
            "another way than before. Multiply all numbers by one factor.",
            _clipped(
                lambda g, scale, max_norm: [
                    one.clamp(-max_norm, max_norm) for one in _over(g, scale)
                ]
            ),
        ),
        Misconception(
            "adds_up_the_norms",
            "You added up the norms of the tensors. The norm of all numbers together is smaller: "
            "the root of the sum of their squares.",
            _with_norm(lambda gradients: sum(one.norm() for one in gradients)),
        ),
        Misconception(
            "largest_norm",
            "You took the largest norm of a tensor. All tensors together are longer.",
            _with_norm(lambda gradients: max(one.norm() for one in gradients)),
        ),
        Misconception(
            "forgets_the_root",
            "You took the sum of the squares and not its root.",
            _with_norm(lambda gradients: _norm_of_all(gradients) ** 2),
        ),
        Misconception(
            "sums_sizes",
            "You added up the sizes of all numbers. The length of a gradient is the root of the "
            "sum of their squares.",
            _with_norm(lambda gradients: sum(one.abs().sum() for one in gradients)),
        ),
        Misconception(
            "lengthens_too",
            "You gave every gradient the length max_norm, short ones too, which then are longer "
            "than before. Clipping only shortens.",
            _with_norm(_norm_of_all, always=True),
        ),
        Misconception(
            "applies_what_is_not_finite",
            "A gradient with an infinity or a NaN must not reach the optimizer: return None. "
            "Clipped by an infinite norm it turns into zeros and NaNs.",
            _clipped(
                lambda g, scale, max_norm: _clip(_over(g, scale), max_norm),
                skip=lambda gradients: False,
            ),
        ),
        Misconception(
            "sees_infinity_alone",
            "A NaN passes as a good gradient: you looked for infinities alone.",
            _clipped(
                lambda g, scale, max_norm: _clip(_over(g, scale), max_norm),
                skip=lambda gradients: any(bool(one.isinf().any()) for one in gradients),
            ),
        ),
        Misconception(
            "drops_what_is_not_finite",
            "You set what is not finite to 0 and went on with the rest, which points another way. "
            "Return None: the step is skipped.",
            _clipped(
                lambda g, scale, max_norm: _clip(
                    [torch.where(one.isfinite(), one, 0.0) for one in _over(g, scale)], max_norm
                ),
                skip=lambda gradients: False,
            ),
        ),
    ),
    hints=(
        "First divide every tensor by the scale. If anything is not finite then, return None.",
        "The norm is that of all numbers of all tensors together: the root of the sum of all "
        "their squares.",
        "Multiply every tensor by one factor: max_norm over the norm, or 1 where the norm is "
        "smaller.",
    ),
    tolerance=1e-4,  # PyTorch adds 1e-6 to the norm before it divides
)


# 15.5 Resume to the bit

PARTS = ("model", "optimizer", "schedule", "scaler", "random", "epoch", "batch")


def _uninterrupted(seed: int, stop: int, steps: int) -> Tensor:
    """The reference: nothing is saved and nothing is loaded."""
    training = TinyTraining(seed)
    for _ in range(steps):
        training.step()
    return training.weights


def _resumed_with(*kept: str) -> Callable[[int, int, int], Tensor]:
    """Resume with some of the parts, the others as in a new training.

    "seed" seeds the random numbers, "scale" keeps of the scaler its scale alone.
    """

    def resumed(seed: int, stop: int, steps: int) -> Tensor:
        training = TinyTraining(seed)
        for _ in range(stop):
            training.step()
        saved = through_a_file(
            {
                "model": training.model.state_dict(),
                "optimizer": training.optimizer.state_dict(),
                "schedule": training.schedule.state_dict(),
                "scaler": training.scaler.state_dict(),
                "random": torch.get_rng_state(),
                "epoch": training.epoch,
                "batch": training.batch,
            }
        )
        training = TinyTraining(seed)
        for name in kept:
            if name == "seed":
                torch.manual_seed(seed)
            elif name == "scale":
                scale = saved["scaler"]["scale"]
                training.scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=2)
            elif name == "random":
                torch.set_rng_state(saved[name])
            elif name in ("epoch", "batch"):
                setattr(training, name, saved[name])
            else:
                getattr(training, name).load_state_dict(saved[name])
        for _ in range(steps - stop):
            training.step()
        return training.weights

    return resumed


def _without(*lost: str) -> Callable[[int, int, int], Tensor]:
    return _resumed_with(*(part for part in PARTS if part not in lost))


def _fresh_stop(rng: random.Random) -> Arguments:
    stop = rng.randint(6, 9)
    return rng.randint(0, 999), stop, stop + rng.randint(2, 4)


RESUME = Exercise(
    id="15.5",
    title="Resume to the bit",
    parameters=("seed", "stop", "steps"),
    reference=_uninterrupted,
    chosen=((0, 9, 13), (1, 6, 10), (2, 7, 11), (3, 10, 13), (4, 8, 12), (5, 3, 9)),
    fresh=_fresh_stop,
    misconceptions=(
        Misconception(
            "weights_alone",
            "You resumed with the weights alone. They are what the training has made, not where "
            "it stands: AdamW, the schedule, the loss scale, the random numbers and the place in "
            "the data all begin anew.",
            _resumed_with("model"),
        ),
        Misconception(
            "weights_and_optimizer",
            "Weights and optimizer are back. The schedule, the loss scale, the random numbers and "
            "the place in the data begin anew.",
            _resumed_with("model", "optimizer"),
        ),
        Misconception(
            "no_random_numbers_and_no_place",
            "Everything is back that has a state_dict(). The random numbers, which dropout draws, "
            "and the place in the data begin anew: they matter as much.",
            _without("random", "epoch", "batch"),
        ),
        Misconception(
            "forgets_the_weights",
            "The weights are those of a new training.",
            _without("model"),
        ),
        Misconception(
            "forgets_the_optimizer",
            "The optimizer begins anew. AdamW remembers running means of the gradients, and in "
            "which step it is.",
            _without("optimizer"),
        ),
        Misconception(
            "forgets_the_schedule",
            "The schedule begins anew, so that after its next step the learning rate is that of "
            "the warm-up.",
            _without("schedule"),
        ),
        Misconception(
            "forgets_the_scaler",
            "The loss scale begins anew, much too large: steps are skipped that were not skipped "
            "before.",
            _without("scaler"),
        ),
        Misconception(
            "forgets_the_random_numbers",
            "The random numbers begin anew, and dropout drops other units than it did. "
            "torch.get_rng_state() is a tensor that says where PyTorch's random numbers are.",
            _without("random"),
        ),
        Misconception(
            "seeds_again",
            "You seeded the random numbers again. That puts them where they were before the first "
            "step, and before the weights were made. torch.get_rng_state() says where they are "
            "now.",
            _resumed_with("model", "optimizer", "schedule", "scaler", "seed", "epoch", "batch"),
        ),
        Misconception(
            "scale_alone",
            "Of the scaler you kept the scale. It counts good steps in a row, too, and grows too "
            "late when that count begins anew: its state_dict() has both.",
            _resumed_with("model", "optimizer", "schedule", "scale", "random", "epoch", "batch"),
        ),
        Misconception(
            "forgets_the_place",
            "The data begin anew, with the first batch of the first epoch. epoch and batch say "
            "what has been read.",
            _without("epoch", "batch"),
        ),
        Misconception(
            "forgets_the_batch",
            "The epoch begins anew: what has been read of it is read twice.",
            _without("batch"),
        ),
        Misconception(
            "forgets_the_epoch",
            "The epoch is the first one again, so that the rows come in another order than they "
            "did.",
            _without("epoch"),
        ),
        Misconception(
            "restores_nothing",
            "The second training begins from the first step: load changes nothing in it.",
            _resumed_with(),
        ),
    ),
    hints=(
        "Go through step() line by line. What does it read that a line of an earlier step has "
        "changed?",
        "model, optimizer, schedule and scaler have state_dict() and load_state_dict(). Two "
        "numbers say which batch is next.",
        "Dropout draws from PyTorch's global random numbers: torch.get_rng_state() and "
        "torch.set_rng_state(state).",
    ),
    tolerance=BITWISE,
)


# 15.6 Train, stop, resume, compare

Report = tuple[int, bool]


def _truth(make: Trainers, stop: int) -> Report:
    """The reference knows what is wrong with the trainers, and trains nothing."""
    if make.fault == "starts again":
        return 0, True
    return stop, make.fault is None


def _reports(report: Callable[[str | None, int], Report]) -> Callable[[Trainers, int], Report]:
    """A report that depends on the fault and on where the training stops."""
    return lambda make, stop: report(make.fault, stop)


def _start(fault: str | None, stop: int) -> int:
    return 0 if fault == "starts again" else stop


def _fresh_trainers(rng: random.Random) -> Arguments:
    return Trainers(rng.choice(list(FAULTS)), seed=rng.randrange(100)), rng.randint(1, STEPS - 1)


CAPSTONE = Exercise(
    id="15.6",
    title="Train, stop, resume, compare",
    parameters=("make", "stop"),
    reference=_truth,
    chosen=(
        (Trainers(), 2),
        (Trainers(seed=1), 5),
        (Trainers("adamw"), 3),
        (Trainers("adamw", seed=2), STEPS - 1),
        (Trainers("place"), 2),
        (Trainers("tokens"), 2),
        (Trainers("head"), 4),
        (Trainers("last bits"), 3),
        (Trainers("last bits", seed=3), STEPS - 1),
        (Trainers("starts again"), 3),
    ),
    fresh=_fresh_trainers,
    misconceptions=(
        Misconception(
            "nearly_equal",
            "You call weights equal that differ in their last bits, as torch.allclose does. What "
            "is lost is often small at first; torch.equal compares every bit.",
            _reports(
                lambda fault, stop: (
                    _start(fault, stop),
                    fault in (None, "starts again", "last bits"),
                )
            ),
        ),
        Misconception(
            "first_weight_alone",
            "You compared the first tensor of the weights alone. What is wrong with a head, or "
            "with one weight at the end, passes.",
            _reports(
                lambda fault, stop: (
                    _start(fault, stop),
                    fault not in ("adamw", "place", "tokens"),
                )
            ),
        ),
        Misconception(
            "same_trainer_goes_on",
            "You went on with the trainer that was stopped. It has everything in memory still, "
            "and never reads its checkpoint: make a new one, as a new process would.",
            _reports(lambda fault, stop: (stop + 1, True)),
        ),
        Misconception(
            "another_folder",
            "Your last trainer finds no checkpoint, ever, and trains from the start: it works in "
            "another folder, or was made before the one that is stopped had run. It ends with the "
            "same weights, and nothing has been resumed.",
            _reports(lambda fault, stop: (0, True)),
        ),
        Misconception(
            "step_at_the_end",
            "You read the step after the training had run. Asked for is where it began: the step "
            "of the new trainer before run().",
            _reports(lambda fault, stop: (STEPS, fault in (None, "starts again"))),
        ),
        Misconception(
            "trusts_stop",
            "You returned stop as the step from which the training was resumed. A trainer that "
            "has found no checkpoint begins at 0, and ends with the same weights: look at its "
            "step before it runs.",
            _reports(lambda fault, stop: (stop, fault in (None, "starts again"))),
        ),
        Misconception(
            "never_runs_the_rest",
            "You found the weights different, always. Had both trainings run to their end when "
            "you compared, the whole one and the resumed one? And do you compare their weights, "
            "not two models with ==, which are two objects and never equal?",
            _reports(lambda fault, stop: (_start(fault, stop), False)),
        ),
        Misconception(
            "compares_with_itself",
            "You found all weights equal, always. Do you compare a training with itself?",
            _reports(lambda fault, stop: (_start(fault, stop), True)),
        ),
        Misconception(
            "compares_with_the_stopped_one",
            "You compared with the training that was stopped. Its weights are those of the step "
            "in which it died; compare with the one that was never stopped.",
            _reports(
                lambda fault, stop: (
                    _start(fault, stop),
                    stop == STEPS - 1 and fault in (None, "starts again"),
                )
            ),
        ),
    ),
    hints=(
        "Three trainers: one in a folder of its own that runs to its end; one in a second folder "
        "that is stopped; and a new one in that second folder.",
        "The one that is stopped raises Stopped in run(): catch it. The new one has read the "
        "checkpoint once it is made, so its step is where it begins.",
        "Run it, then compare: model.state_dict() of both, name by name, with torch.equal.",
    ),
    tolerance=BITWISE,
)

EXERCISES = (SCHEDULE, ACCUMULATE, LOSS_SCALING, UNSCALE, RESUME, CAPSTONE)
