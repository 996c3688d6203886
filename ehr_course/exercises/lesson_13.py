"""The exercises of lesson 13: multi-task learning."""

from __future__ import annotations

import math
import random
import statistics
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, one_hot

from ehr_course.exercises.exercise import Arguments, Exercise, Misconception

FLOAT32 = 1e-4
"""The tolerance of values that come from a few sums and products in float32."""


def _numbers(rng: random.Random, *shape: int) -> Tensor:
    """Numbers from -2 to 2 with one decimal, none of them 0: short in a message."""
    values = [rng.choice((-1, 1)) * rng.randint(1, 20) / 10 for _ in range(math.prod(shape))]
    return torch.tensor(values).reshape(shape)


def _rows(lengths: Sequence[int], width: int) -> Tensor:
    """Rows of so many tokens, padded on the right: bool (rows, width)."""
    return torch.tensor([[place < length for place in range(width)] for length in lengths])


# 13.1 The last real token

Places = Callable[[Tensor], Tensor]


def _last_states(states: Tensor, real: Tensor) -> Tensor:
    """The reference: walk through each row and keep what was last."""
    last = []
    for row, is_real in zip(states, real.tolist(), strict=True):
        for state, token in zip(row, is_real, strict=True):
            if token:
                kept = state
        last.append(kept)
    return torch.stack(last)


def _state_at(places: Places) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda states, real: states[torch.arange(len(states)), places(real)]


def _fresh_states(rng: random.Random) -> Arguments:
    batch, length = rng.randint(2, 3), rng.randint(3, 4)
    lengths = [rng.randint(1, length) for _ in range(batch)]
    return _numbers(rng, batch, length, 2), _rows(lengths, length)


_STATES = torch.tensor(
    [
        [[0.1, 1.0], [0.2, 2.0], [0.3, 3.0], [0.4, 4.0]],
        [[1.1, 5.0], [1.2, 6.0], [1.3, 7.0], [1.4, 8.0]],
        [[2.1, 9.0], [2.2, 1.5], [2.3, 2.5], [2.4, 3.5]],
    ]
)

LAST_REAL = Exercise(
    id="13.1",
    title="The last real token",
    parameters=("states", "real"),
    reference=_last_states,
    chosen=(
        (_STATES[:2], _rows([2, 4], 4)),
        (_STATES[:2], _rows([4, 3], 4)),
        (_STATES, _rows([3, 2, 1], 4)),
        (_STATES[:2], _rows([2, 3], 4)),
        (_STATES[:1], _rows([4], 4)),
        (_STATES[1:2, :3], _rows([2], 3)),
        (_STATES[:2], _rows([4, 4], 4)),
    ),
    fresh=_fresh_states,
    misconceptions=(
        Misconception(
            "last_column",
            "You took the last position of every row. In a batch that is padding for all rows but "
            "the longest: the head would read a place where there is no record.",
            lambda states, real: states[:, -1],
        ),
        Misconception(
            "count_is_no_index",
            "You used the number of tokens as an index. Positions are counted from 0, so that is "
            "the first position of the padding, and a full row has no such position.",
            _state_at(lambda real: real.sum(1)),
        ),
        Misconception(
            "first_padding",
            "You took the place where the padding begins. Nothing real stands there, and in a row "
            "without padding the search finds position 0.",
            _state_at(lambda real: real.int().argmin(1)),
        ),
        Misconception(
            "first_token",
            "You took the first position. The decoder has read one token there and cannot see the "
            "later ones. (argmax of a mask finds its first one, not its last.)",
            lambda states, real: states[:, 0],
        ),
        Misconception(
            "length_of_the_first_row",
            "You used the length of the first row for all rows. Every row has its own.",
            lambda states, real: states[:, real[0].sum() - 1],
        ),
        Misconception(
            "length_of_the_longest_row",
            "You used the length of the longest row for all rows. Every row has its own.",
            lambda states, real: states[:, real.sum(1).max() - 1],
        ),
        Misconception(
            "length_of_the_shortest_row",
            "You used the length of the shortest row for all rows. Every row has its own.",
            lambda states, real: states[:, real.sum(1).min() - 1],
        ),
        Misconception(
            "count_kept_in_the_row",
            "You used the number of tokens as an index and kept it from leaving the row. A full "
            "row comes out right; in every other you read the first position of the padding.",
            _state_at(lambda real: real.sum(1).clamp(max=real.shape[1] - 1)),
        ),
        Misconception(
            "one_before_the_last",
            "You took the token before the last one. Subtract 1 from the number of tokens once: "
            "the last of n tokens stands at position n - 1.",
            _state_at(lambda real: real.sum(1) - 2),
        ),
        Misconception(
            "every_row_at_every_place",
            "You indexed the positions and not the rows: states[:, last] takes the last positions "
            "of all rows from each row. A row needs its own position only, so rows need an index "
            "too.",
            lambda states, real: states[:, real.sum(1) - 1],
        ),
        Misconception(
            "keeps_the_axis",
            "The values are right, but the axis of the positions is still there: your shape is "
            "(batch, 1, d_model). One state a row is (batch, d_model).",
            lambda states, real: _last_states(states, real)[:, None],
        ),
        Misconception(
            "mean_of_the_tokens",
            "You took the mean over the real tokens. That is another summary: here the state of "
            "one token is asked for, the last, which has read all the others.",
            lambda states, real: (states * real[..., None]).sum(1) / real.sum(1, keepdim=True),
        ),
        Misconception(
            "sum_of_the_tokens",
            "You set the padding to zero and added up all positions. Here the state of one token "
            "is asked for, the last.",
            lambda states, real: (states * real[..., None]).sum(1),
        ),
        Misconception(
            "last_column_masked",
            "You set the padding to zero and took the last position. For every row with padding "
            "that is a zero vector, the same for all patients.",
            lambda states, real: (states * real[..., None])[:, -1],
        ),
    ),
    hints=(
        "How many real tokens does each row have? Booleans can be added up: real.sum(dim=1).",
        "The last of n tokens stands at position n - 1, in each row at another one.",
        "states[rows, places] with two index tensors of shape (batch,) takes one position from "
        "each row; torch.arange makes the rows.",
    ),
)


# 13.2 Age brackets

Bounds = Sequence[int]
Number = Callable[[float, Bounds], int]


def _numbered(number: Number) -> Callable[[Tensor, Bounds], Tensor]:
    return lambda ages, bounds: torch.tensor([number(age, bounds) for age in ages.tolist()])


def _brackets_up_to_90(age: float, bounds: Bounds) -> int:
    edges = [0, *bounds, 90]
    for number in range(len(bounds) + 1):
        if edges[number] <= age < edges[number + 1]:
            return number
    return 0


def _fresh_ages(rng: random.Random) -> Arguments:
    bounds = sorted(rng.sample(range(10, 86), rng.randint(2, 4)))
    ages = [float(rng.choice(bounds)), rng.choice(bounds) - 0.3, rng.choice((0.0, 90.0))]
    ages += [rng.randint(0, 180) / 2 for _ in range(2)]
    rng.shuffle(ages)
    return torch.tensor(ages), bounds


_SIX = [18, 30, 50, 65, 80]

BRACKETS = Exercise(
    id="13.2",
    title="Age brackets",
    parameters=("ages", "bounds"),
    reference=_numbered(lambda age, bounds: bisect_right(bounds, age)),
    chosen=(
        (torch.tensor([0.0, 17.0, 18.0, 29.0, 30.0]), _SIX),
        (torch.tensor([90.0, 80.0, 79.0, 65.0, 50.0]), _SIX),
        # 79.2 tells rounding from rounding up, 18.4 a bound that is passed from one passed by 1.
        (torch.tensor([17.7, 29.5, 64.9, 79.2, 18.4]), _SIX),
        (torch.tensor([0.0, 40.0, 89.0, 90.0]), [1, 40]),
        (torch.tensor([12.0, 60.0]), [60]),
        (torch.tensor([44.0, 89.5, 90.0]), [45, 90]),
    ),
    fresh=_fresh_ages,
    misconceptions=(
        Misconception(
            "bound_belongs_below",
            "You put an age that is a bound into the bracket below it. A bracket begins at its "
            "bound: with bounds 18 and 30, an age of 18 is in bracket 1.",
            lambda ages, bounds: torch.bucketize(ages, torch.tensor(bounds, dtype=ages.dtype)),
        ),
        Misconception(
            "counts_from_one",
            "Your brackets are numbered from 1. Cross-entropy wants classes from 0: the last of n "
            "brackets would be class n, which n logits do not have.",
            _numbered(lambda age, bounds: bisect_right(bounds, age) + 1),
        ),
        Misconception(
            "no_bracket_below_the_first_bound",
            "You counted the bounds that were reached and subtracted 1. Below the first bound "
            "that is -1: those patients have a bracket too, number 0.",
            _numbered(lambda age, bounds: bisect_right(bounds, age) - 1),
        ),
        Misconception(
            "ends_at_90",
            "Your last bracket ends before 90, and an age of 90 falls into none. The records "
            "hold 90 for everybody above 89: the last bracket has no upper end.",
            _numbered(_brackets_up_to_90),
        ),
        Misconception(
            "two_youngest_in_one",
            "You subtracted 1 from the number of bounds reached, and made 0 of what fell below "
            "0. So the two youngest brackets have become one: below the first bound is bracket "
            "0, from the first bound on it is bracket 1.",
            _numbered(lambda age, bounds: max(bisect_right(bounds, age) - 1, 0)),
        ),
        Misconception(
            "bracket_for_90",
            "You gave 90 a bracket of its own. 90 is no bound here; the last bracket has no "
            "upper end and holds it too.",
            _numbered(lambda age, bounds: bisect_right([*bounds, 90], age)),
        ),
        Misconception(
            "zero_above_the_last_bound",
            "You put the ages above the last bound into bracket 0. No bound lies above them, so a "
            "search for one finds none. (argmax of nothing but False is 0.)",
            _numbered(lambda age, bounds: bisect_right(bounds, age) % len(bounds)),
        ),
        Misconception(
            "no_bracket_above_the_last_bound",
            "You have as many brackets as bounds: what lies above the last bound went into the "
            "bracket before it. n bounds cut the ages into n + 1 brackets.",
            _numbered(lambda age, bounds: min(bisect_right(bounds, age), len(bounds) - 1)),
        ),
        Misconception(
            "rounds_the_ages",
            "You rounded the ages. Somebody of 17.7 years is still under 18.",
            _numbered(lambda age, bounds: bisect_right(bounds, round(age))),
        ),
        Misconception(
            "equal_widths",
            "Your brackets are equally wide. The bounds say where each of them begins.",
            _numbered(lambda age, bounds: int(age // (90 / (len(bounds) + 1)))),
        ),
        Misconception(
            "counts_bounds_above",
            "You counted the bounds that are still ahead, so your numbers run backwards. Bracket "
            "0 is the youngest.",
            _numbered(lambda age, bounds: len(bounds) - bisect_right(bounds, age)),
        ),
        Misconception(
            "returns_the_bound",
            "You returned where the bracket begins, in years. A class is a number that counts the "
            "brackets: 0, 1, 2 and so on.",
            _numbered(lambda age, bounds: [0, *bounds][bisect_right(bounds, age)]),
        ),
        Misconception(
            "one_hot",
            "You returned one-hot rows. What is asked for is the number of the bracket, one whole "
            "number an age.",
            lambda ages, bounds: one_hot(
                _numbered(lambda age, bounds: bisect_right(bounds, age))(ages, bounds),
                len(bounds) + 1,
            ),
        ),
        Misconception(
            "floats",
            "Your brackets are floats. Classes are whole numbers: cross_entropy takes a float "
            "target for probabilities, and raises or computes something else.",
            lambda ages, bounds: torch.tensor(
                [float(bisect_right(bounds, age)) for age in ages.tolist()]
            ),
        ),
        Misconception(
            "list_for_a_tensor",
            "The numbers are right, but they are a Python list. Return a tensor.",
            lambda ages, bounds: [bisect_right(bounds, age) for age in ages.tolist()],
        ),
    ),
    hints=(
        "How many of the bounds has a person of 30 reached, if the bounds are 18, 30 and 50?",
        "Compare every age with every bound: shapes (n, 1) and (n_bounds,) give (n, n_bounds) "
        "booleans. Mind the ages that are a bound.",
        "torch.bucketize does it too. Its option right says to which side a bound belongs; try "
        "both on an age of 18.",
    ),
)


# 13.3 A loss at each token

Loss = tuple[float, int]
NOT_SCORED = -100


def _one_loss(logits: Sequence[float], right: int) -> float:
    """Cross-entropy in nats, with the largest logit taken off first."""
    largest = max(logits)
    return math.log(sum(math.exp(logit - largest) for logit in logits)) + largest - logits[right]


def _token_loss(
    logits: Tensor,
    labels: Tensor,
    classes: Tensor,
    n_prompts: int,
    *,
    one: Callable[[Sequence[float], int], float] = _one_loss,
    is_scored: Callable[[int], bool] = lambda label: label != NOT_SCORED,
) -> Loss:
    """The reference, token by token."""
    total, count = 0.0, 0
    for row, row_labels, right in zip(
        logits.tolist(), labels.tolist(), classes.tolist(), strict=True
    ):
        for place, label in enumerate(row_labels):
            if is_scored(label):
                total += one(row[n_prompts + place], right)
                count += 1
    return total, count


def _changed(**changes: Callable) -> Callable[..., Loss]:
    return lambda logits, labels, classes, n_prompts: _token_loss(
        logits, labels, classes, n_prompts, **changes
    )


def _row_losses(
    logits: Tensor, labels: Tensor, classes: Tensor, n_prompts: int
) -> list[list[float]]:
    """The losses of each row's scored tokens."""
    rows = zip(logits[:, n_prompts:], labels, classes.tolist(), strict=True)
    return [
        [_one_loss(token.tolist(), right) for token in row[scored != NOT_SCORED]]
        for row, scored, right in rows
    ]


def _of_rows(summary: Callable[[list[list[float]]], Loss]) -> Callable[..., Loss]:
    return lambda *arguments: summary(_row_losses(*arguments))


def _scored_loss(of_tokens: Tensor, scored: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    return cross_entropy(of_tokens[scored], truth[scored], reduction="sum"), scored.sum()


def _cut(cut: Callable[[Tensor, int, int], Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Cut the prompts off in a way of one's own; what does not fit raises."""

    def loss(
        logits: Tensor, labels: Tensor, classes: Tensor, n_prompts: int
    ) -> tuple[Tensor, Tensor]:
        of_tokens = cut(logits, n_prompts, labels.shape[1])
        scored = labels != NOT_SCORED
        return _scored_loss(of_tokens, scored, classes[:, None].expand(scored.shape))

    return loss


def _everywhere(logits: Tensor, labels: Tensor, classes: Tensor, n_prompts: int) -> Loss:
    return _token_loss(logits, torch.zeros_like(labels), classes, n_prompts)


def _prompts_scored(logits: Tensor, labels: Tensor, classes: Tensor, n_prompts: int) -> Loss:
    of_prompts = labels.new_ones(len(labels), n_prompts)
    return _token_loss(logits, torch.cat([of_prompts, labels], dim=1), classes, 0)


def _zeroed_logits(logits: Tensor, labels: Tensor, classes: Tensor, n_prompts: int) -> Loss:
    total, count = _token_loss(logits, labels, classes, n_prompts)
    return total + (labels.numel() - count) * math.log(logits.shape[2]), count


def _ignoring(arrange: Callable[[Tensor], Tensor]) -> Callable[..., tuple[Tensor, Tensor]]:
    """Let cross_entropy skip -100, with the answers' axes arranged in a way of one's own."""

    def loss(
        logits: Tensor, labels: Tensor, classes: Tensor, n_prompts: int
    ) -> tuple[Tensor, Tensor]:
        scored = labels != NOT_SCORED
        truth = torch.where(scored, classes[:, None], NOT_SCORED)
        answers = arrange(logits[:, n_prompts:])
        return cross_entropy(answers, truth, reduction="sum"), scored.sum()

    return loss


def _columns_first(
    logits: Tensor, labels: Tensor, classes: Tensor, n_prompts: int
) -> tuple[Tensor, Tensor]:
    scored = labels != NOT_SCORED
    truth = classes.repeat(labels.shape[1]).view(labels.shape)
    return _scored_loss(logits[:, n_prompts:], scored, truth)


def _not_class_0(logits: Tensor, labels: Tensor, classes: Tensor, n_prompts: int) -> Loss:
    kept = labels.masked_fill((classes == 0)[:, None], NOT_SCORED)
    return _token_loss(logits, kept, classes, n_prompts)


def _probabilities(logits: Sequence[float]) -> list[float]:
    exponentials = [math.exp(logit - max(logits)) for logit in logits]
    return [exponential / sum(exponentials) for exponential in exponentials]


def _log_of_softmax(logits: Sequence[float], right: int) -> float:
    probability = torch.tensor(logits).softmax(0)[right]  # 0 for a logit far below another
    return -probability.log().item()


def _mean(losses: Sequence[float]) -> float:
    return sum(losses) / len(losses)


def _flat(rows: list[list[float]]) -> list[float]:
    return [loss for row in rows for loss in row]


def _fresh_answers(rng: random.Random) -> Arguments:
    batch, n_prompts, length, n_classes = 2, rng.randint(1, 2), rng.randint(2, 3), 2
    # The first row is shorter than the second, so that a mean of means is not the mean.
    lengths = [rng.randint(1, length - 1), length]
    labels = torch.tensor(
        [
            [rng.choice((1, 3, 7, 8, 9)) if place < n else NOT_SCORED for place in range(length)]
            for n in lengths
        ]
    )
    logits = _numbers(rng, batch, n_prompts + length, n_classes)
    return logits, labels, torch.tensor(rng.choice(([0, 1], [1, 0]))), n_prompts


_TWO_ROWS = torch.tensor(
    [
        [[0.5, -1.0], [2.0, 0.3], [0.1, 1.0], [-0.4, 0.9]],
        [[1.5, 0.2], [-0.6, 0.8], [0.7, -2.0], [1.2, 1.1]],
    ]
)
_LABELS = torch.tensor([[1, 7, NOT_SCORED], [3, 8, 9]])

TOKEN_LOSS = Exercise(
    id="13.3",
    title="A loss at each token",
    parameters=("logits", "labels", "classes", "n_prompts"),
    reference=_token_loss,
    chosen=(
        (torch.tensor([[[0.5, -1.0], [2.0, 0.3]]]), torch.tensor([[7]]), torch.tensor([1]), 1),
        (_TWO_ROWS, _LABELS, torch.tensor([0, 1]), 1),
        (_TWO_ROWS, _LABELS, torch.tensor([1, 0]), 1),
        (_TWO_ROWS, torch.tensor([[7, NOT_SCORED], [8, 9]]), torch.tensor([1, 0]), 2),
        (_TWO_ROWS[:, 1:], _LABELS, torch.tensor([1, 1]), 0),
        (_TWO_ROWS[:1], torch.tensor([[0, 7, NOT_SCORED]]), torch.tensor([1]), 1),
        (
            torch.tensor([[[9.0, -9.0], [200.0, -200.0], [-1.0, 1.0]]]),
            torch.tensor([[7, 2]]),
            torch.tensor([1]),
            1,
        ),
        (
            torch.tensor([[[0.0, 0.0, 0.0], [1.0, 2.0, 3.0], [3.0, 0.5, -1.0], [0.2, 0.1, 2.0]]]),
            torch.tensor([[3, 7, NOT_SCORED]]),
            torch.tensor([2]),
            1,
        ),
    ),
    fresh=_fresh_answers,
    misconceptions=(
        Misconception(
            "prompts_cut_at_the_end",
            "You cut the surplus positions off at the end. The prompts stand in front: the answer "
            "at a prompt is now scored with the label of the first token, and everything is "
            "shifted. All shapes fit, so nothing raises.",
            _cut(lambda logits, n_prompts, length: logits[:, :length]),
        ),
        Misconception(
            "n_prompts_cut_at_the_end",
            "You cut n_prompts positions off at the end. The prompts stand in front. (And "
            "without prompts, [:, :-0] is [:, :0]: nothing is left.)",
            _cut(lambda logits, n_prompts, length: logits[:, :-n_prompts]),
        ),
        Misconception(
            "prompts_not_cut",
            "You did not cut the prompts off. With prompts there are more answers than labels, "
            "and they do not fit.",
            _cut(lambda logits, n_prompts, length: logits),
        ),
        Misconception(
            "one_prompt_cut",
            "You cut off one position, however many prompts there are. n_prompts says how many.",
            _cut(lambda logits, n_prompts, length: logits[:, 1:]),
        ),
        Misconception(
            "prompts_scored",
            "You scored the prompts as well. A prompt holds the answer: guessing the sex from the "
            "vector of the sex is no task, and the mean loss gets smaller for nothing.",
            _prompts_scored,
        ),
        Misconception(
            "padding_scored",
            "You scored the padding too, where the label is -100. The loss then depends on how "
            "long the other rows of the batch happen to be.",
            _everywhere,
        ),
        Misconception(
            "padding_by_its_id",
            "You looked for padding by the id 0. In the labels padding is -100, so it was scored, "
            "and a label of 0 was not.",
            _changed(is_scored=lambda label: label != 0),
        ),
        Misconception(
            "label_0_left_out",
            "You left out the label 0 with the padding. A label is a token id or -100, and only "
            "-100 is not scored.",
            _changed(is_scored=lambda label: label > 0),
        ),
        Misconception(
            "padding_in_the_sum",
            "Your count is right, and your sum includes the padding, where the label is -100.",
            lambda logits, labels, classes, n_prompts: (
                _everywhere(logits, labels, classes, n_prompts)[0],
                _token_loss(logits, labels, classes, n_prompts)[1],
            ),
        ),
        Misconception(
            "logits_of_padding_zeroed",
            "You set the logits of the padding to 0 and summed over everything. Equal logits are "
            "not free: they cost the logarithm of the number of classes. Leave the losses of the "
            "padding out, not its logits.",
            _zeroed_logits,
        ),
        Misconception(
            "padding_in_the_count",
            "Your sum is right, and your count includes the padding. The mean would be too small, "
            "and smaller still in a batch with more padding.",
            lambda logits, labels, classes, n_prompts: (
                _token_loss(logits, labels, classes, n_prompts)[0],
                labels.numel(),
            ),
        ),
        Misconception(
            "counts_rows",
            "Your sum is right, and your count is the number of rows. What was added up are the "
            "losses of tokens: count those.",
            _of_rows(lambda rows: (sum(_flat(rows)), len(rows))),
        ),
        Misconception(
            "means_of_rows",
            "You took the mean of each row first. A token of a short row then counts more than "
            "one of a long row. Add up all tokens, and let who calls divide, once.",
            _of_rows(lambda rows: (sum(_mean(row) for row in rows), len(rows))),
        ),
        Misconception(
            "mean_for_sum",
            "You returned the mean. Means of batches of different sizes cannot be added up again; "
            "sums can. Return the sum, and the count beside it.",
            _of_rows(lambda rows: (_mean(_flat(rows)), len(_flat(rows)))),
        ),
        Misconception(
            "last_token_only",
            "You scored one token a row, the last. The loss is taken at each scored token.",
            _of_rows(lambda rows: (sum(row[-1] for row in rows), len(rows))),
        ),
        Misconception(
            "classes_run_down_the_batch",
            "You repeated the classes as a whole, patient 0, patient 1, patient 0, ..., while the "
            "tokens come row by row. Tokens of one patient are scored with the class of another; "
            "the number of classes fits, so nothing raises.",
            _columns_first,
        ),
        Misconception(
            "classes_along_the_columns",
            "You spread the classes along the columns: broadcasting begins at the last axis, so "
            "token t was scored with the class of patient t. That fits only where there are as "
            "many tokens as patients, or one patient. The class belongs to the row.",
            lambda logits, labels, classes, n_prompts: _scored_loss(
                logits[:, n_prompts:],
                labels != NOT_SCORED,
                classes.expand(labels.shape),
            ),
        ),
        Misconception(
            "classes_on_the_last_axis",
            "You gave cross_entropy answers of shape (batch, length, n_classes). It takes axis 1 "
            "for the classes: mostly that raises, and where length and n_classes are equal it "
            "compares tokens with each other. Move the axis, or pick the scored answers first.",
            _ignoring(lambda answers: answers),
        ),
        Misconception(
            "reshaped_for_transposed",
            "You brought the classes to axis 1 with a reshape. It keeps the numbers in their "
            "order and cuts them anew, so logits of different tokens are mixed. transpose "
            "exchanges the axes.",
            _ignoring(
                lambda answers: answers.reshape(len(answers), answers.shape[2], answers.shape[1])
            ),
        ),
        Misconception(
            "codes_only",
            "You scored the codes and left out the special tokens. The labels say what is scored: "
            "everything but -100.",
            _changed(is_scored=lambda label: label >= 7),
        ),
        Misconception(
            "class_0_ignored",
            "You took class 0 for padding: the patients of that class are not scored at all.",
            _not_class_0,
        ),
        Misconception(
            "softmax_twice",
            "You applied a softmax before cross_entropy, which applies its own. Probabilities lie "
            "between 0 and 1, so the second softmax makes them nearly equal: the loss can never "
            "come near 0, however right the head is.",
            _changed(one=lambda logits, right: _one_loss(_probabilities(logits), right)),
        ),
        Misconception(
            "no_softmax",
            "You added up negative logits. They are scores of any size; only after a log-softmax "
            "do they become the logarithms of probabilities.",
            _changed(one=lambda logits, right: -logits[right]),
        ),
        Misconception(
            "log_of_softmax",
            "You took the logarithm of the softmax. For a logit far below another the probability "
            "rounds to 0, and its logarithm is minus infinity. log_softmax does both at once.",
            _changed(one=_log_of_softmax),
        ),
        Misconception(
            "count_first",
            "You returned the number first. The sum comes first.",
            lambda *arguments: _token_loss(*arguments)[::-1],
        ),
    ),
    hints=(
        "Three steps: cut the prompts off, find the positions that are scored, give each of them "
        "the class of its row.",
        "labels != -100 is a mask of shape (batch, length). It picks from a tensor of any shape "
        "that begins with (batch, length).",
        "classes[:, None].expand(batch, length) repeats each class along its row. cross_entropy "
        'has reduction="sum".',
    ),
    tolerance=FLOAT32,
)


# 13.4 Find the leak, and close it


class ToyDecoder:
    """A causal decoder of a few lines, with a weight for what each position takes of the prompts.

    Its state at a token is tanh of the mean of the embeddings so far, plus the mean of the
    prompts times the weight of the position. No prompts are read as zeros.

    Args:
        weights: one for each position; 0 reads nothing of the prompts there.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        self.weights = list(weights)

    def __call__(self, prompts: Tensor, embeddings: Tensor) -> Tensor:
        """(batch, n_prompts, d_model) and (batch, length, d_model) to (batch, length, d_model)."""
        weights = torch.tensor(self.weights)[: embeddings.shape[1], None]
        counts = torch.arange(1.0, embeddings.shape[1] + 1)[:, None]
        read = embeddings.cumsum(dim=1) / counts
        mean = prompts.sum(dim=1, keepdim=True) / max(1, prompts.shape[1])
        return torch.tanh(read + weights * mean)

    def __repr__(self) -> str:
        """How the exercise's messages name it."""
        return f"ToyDecoder({self.weights})"


Read = Callable[[Tensor, Tensor], Tensor]
Found = tuple[Tensor, Tensor]


def _leak(read: Read, prompts: Tensor, other_prompts: Tensor, embeddings: Tensor) -> Tensor:
    """The reference, state by state."""
    own, other = read(prompts, embeddings).tolist(), read(other_prompts, embeddings).tolist()
    return torch.tensor(
        [
            [math.dist(*states) for states in zip(*rows, strict=True)]
            for rows in zip(own, other, strict=True)
        ]
    )


def _features(embeddings: Tensor) -> Tensor:
    batch, length, _ = embeddings.shape
    return torch.stack(
        [
            torch.stack([embeddings[row, : place + 1].mean(dim=0) for place in range(length)])
            for row in range(batch)
        ]
    )


def _found(read: Read, prompts: Tensor, other_prompts: Tensor, embeddings: Tensor) -> Found:
    return _leak(read, prompts, other_prompts, embeddings), _features(embeddings)


Part = Callable[[Read, Tensor, Tensor, Tensor], Tensor]


def _with_leak(leak: Part) -> Callable[..., Found]:
    return lambda read, prompts, other_prompts, embeddings: (
        leak(read, prompts, other_prompts, embeddings),
        _features(embeddings),
    )


def _with_features(features: Part) -> Callable[..., Found]:
    return lambda read, prompts, other_prompts, embeddings: (
        _leak(read, prompts, other_prompts, embeddings),
        features(read, prompts, other_prompts, embeddings),
    )


def _moved(read: Read, prompts: Tensor, other_prompts: Tensor, embeddings: Tensor) -> Tensor:
    return read(prompts, embeddings) - read(other_prompts, embeddings)


def _with_prompts(prompts: Tensor, embeddings: Tensor) -> Tensor:
    """Running means that begin at the prompts."""
    return _features(torch.cat([prompts, embeddings], dim=1))[:, prompts.shape[1] :]


def _before(embeddings: Tensor) -> Tensor:
    """Running means of the tokens before each, zeros at the first."""
    return torch.cat([torch.zeros_like(embeddings[:, :1]), _features(embeddings)[:, :-1]], dim=1)


def _fresh_decoder(rng: random.Random) -> Arguments:
    batch, length, n_prompts = rng.randint(2, 3), rng.randint(2, 3), rng.randint(1, 2)
    weights = [rng.choice((0.0, 0.5, 1.0, 1.5)) for _ in range(length)]
    prompts, other_prompts = (_numbers(rng, batch, n_prompts, 2) for _ in range(2))
    return ToyDecoder(weights), prompts, other_prompts, _numbers(rng, batch, length, 2)


_MALE, _FEMALE = [[0.5, -1.0]], [[-0.8, 0.4]]
_PROMPTS = torch.tensor([_MALE, _FEMALE])
_OTHERS = torch.tensor([_FEMALE, _MALE])
_EMBEDDINGS = torch.tensor(
    [[[1.0, 0.2], [-0.5, 0.6], [0.3, -1.0]], [[0.4, -0.7], [0.9, 0.1], [-1.2, 0.8]]]
)
_TWO_PROMPTS = torch.cat([_PROMPTS, torch.tensor([[[0.3, 0.2]], [[0.7, 1.1]]])], dim=1)
_TWO_OTHERS = torch.cat([_OTHERS, torch.tensor([[[0.7, 1.1]], [[0.3, 0.2]]])], dim=1)

LEAK = Exercise(
    id="13.4",
    title="Find the leak, and close it",
    parameters=("read", "prompts", "other_prompts", "embeddings"),
    reference=_found,
    chosen=(
        (ToyDecoder([1.0, 1.0, 1.0]), _PROMPTS, _OTHERS, _EMBEDDINGS),
        (ToyDecoder([1.0, 0.5, 0.0]), _TWO_PROMPTS, _TWO_OTHERS, _EMBEDDINGS),
        (ToyDecoder([0.0, 0.0, 0.0]), _PROMPTS, _OTHERS, _EMBEDDINGS),
        (ToyDecoder([0.0, 2.0]), _PROMPTS, _OTHERS, _EMBEDDINGS[:, :2]),
        (ToyDecoder([1.5, 0.5, 1.0]), _PROMPTS[:1], _OTHERS[:1], _EMBEDDINGS[:1]),
    ),
    fresh=_fresh_decoder,
    misconceptions=(
        Misconception(
            "states_for_features",
            "Your features are the decoder's states: the leak is still open. (detach changes no "
            "value. It stops a gradient on its way back, not what has already been read.)",
            _with_features(lambda read, p, o, e: read(p, e)),
        ),
        Misconception(
            "states_without_prompts",
            "You read the states once more, with prompts of zeros or with none. They do not "
            "depend on the patient's prompt, but the model has never read a record in that way. "
            "The features are to be made of the embeddings alone.",
            _with_features(lambda read, p, o, e: read(torch.zeros_like(p), e)),
        ),
        Misconception(
            "states_under_other_prompts",
            "Your features are the states under other_prompts. They have read a prompt as well, "
            "that of another patient.",
            _with_features(lambda read, p, o, e: read(o, e)),
        ),
        Misconception(
            "mean_of_both_readings",
            "Your features are the mean of the states under both prompts. The patient's own "
            "prompt is still in them, only weaker.",
            _with_features(lambda read, p, o, e: (read(p, e) + read(o, e)) / 2),
        ),
        Misconception(
            "subtracts_the_prompts",
            "You subtracted the prompts from the states. The decoder does not simply add them: "
            "after one step that is not linear, no subtraction takes them out again.",
            _with_features(lambda read, p, o, e: read(p, e) - p.mean(dim=1, keepdim=True)),
        ),
        Misconception(
            "prompts_in_the_mean",
            "Your running mean begins at the prompts, so they are part of every feature. The leak "
            "is still open.",
            _with_features(lambda read, p, o, e: _with_prompts(p, e)),
        ),
        Misconception(
            "reads_the_future",
            "You took the mean over the whole record at every token. At the first token the head "
            "then reads codes that are not written yet, and while a record is being written it "
            "has none of them.",
            _with_features(lambda read, p, o, e: e.mean(dim=1, keepdim=True).expand_as(e)),
        ),
        Misconception(
            "each_token_alone",
            "Your features are the embeddings as they are: the head sees one token and forgets "
            "all before it. The mean runs over the tokens up to and including each.",
            _with_features(lambda read, p, o, e: e.clone()),
        ),
        Misconception(
            "sum_for_mean",
            "You added up and did not divide: the features grow with the length of the record.",
            _with_features(lambda read, p, o, e: e.cumsum(dim=1)),
        ),
        Misconception(
            "divides_by_the_length",
            "You divided every sum by the length of the whole record. At token t the mean is over "
            "t + 1 tokens, counted from 0.",
            _with_features(lambda read, p, o, e: e.cumsum(dim=1) / e.shape[1]),
        ),
        Misconception(
            "tokens_before",
            "Your mean leaves out the token itself. It runs up to and including each token.",
            _with_features(lambda read, p, o, e: _before(e)),
        ),
        Misconception(
            "along_the_batch",
            "Your sum runs along the batch: a patient's features hold the codes of the patients "
            "in the rows above. Tokens lie on axis 1.",
            _with_features(
                lambda read, p, o, e: e.cumsum(dim=0) / torch.arange(1, e.shape[1] + 1)[:, None]
            ),
        ),
        Misconception(
            "along_the_width",
            "Your sum runs along the width of the embeddings and mixes their numbers. Tokens lie "
            "on axis 1.",
            _with_features(
                lambda read, p, o, e: e.cumsum(dim=2) / torch.arange(1, e.shape[1] + 1)[:, None]
            ),
        ),
        Misconception(
            "counts_along_the_width",
            "You divided by counts of shape (length,). They line up with the last axis, which is "
            "the width: where it is as long as the record nothing raises, and every column has a "
            "divisor of its own. Counts of shape (length, 1) line up with the tokens.",
            _with_features(
                lambda read, p, o, e: e.cumsum(dim=1) / torch.arange(1, e.shape[1] + 1)
            ),
        ),
        Misconception(
            "counts_from_zero",
            "You counted the tokens from 0 and divided the first sum by 0. At token t, counted "
            "from 0, the sum is over t + 1 tokens.",
            _with_features(
                lambda read, p, o, e: e.cumsum(dim=1) / torch.arange(e.shape[1])[:, None]
            ),
        ),
        Misconception(
            "leak_against_zero_prompts",
            "You compared the states with those under prompts of zeros. How far they move from a "
            "prompt that no patient has says little; exchange the prompts for other_prompts.",
            _with_leak(lambda read, p, o, e: _leak(read, p, torch.zeros_like(p), e)),
        ),
        Misconception(
            "exchanges_the_codes",
            "You exchanged the embeddings and kept the prompts. States that move then have read "
            "the codes, as they should. The leak shows when the codes stay and the prompts "
            "change.",
            _with_leak(lambda read, p, o, e: (read(p, e) - read(p, e.roll(1, 0))).norm(dim=-1)),
        ),
        Misconception(
            "difference_of_norms",
            "You compared the lengths of the states. A state can turn and keep its length; what "
            "moved is the difference of the vectors, and its length is asked for.",
            _with_leak(lambda read, p, o, e: read(p, e).norm(dim=-1) - read(o, e).norm(dim=-1)),
        ),
        Misconception(
            "absolute_difference_of_norms",
            "You compared the lengths of the states, and took the absolute value. A state can "
            "turn and keep its length; what moved is the difference of the vectors, and its "
            "length is asked for.",
            _with_leak(
                lambda read, p, o, e: (read(p, e).norm(dim=-1) - read(o, e).norm(dim=-1)).abs()
            ),
        ),
        Misconception(
            "relative_leak",
            "You divided by the length of the state. That makes decoders comparable; here the "
            "distance itself is asked for.",
            _with_leak(lambda read, p, o, e: _leak(read, p, o, e) / read(p, e).norm(dim=-1)),
        ),
        Misconception(
            "vectors_for_norms",
            "Your leak holds vectors, (batch, length, d_model). One number a token says how far "
            "its state moved: the norm of the difference.",
            _with_leak(_moved),
        ),
        Misconception(
            "squared_norm",
            "You did not take the root: your leak is the square of the distance.",
            _with_leak(lambda *a: _moved(*a).square().sum(dim=-1)),
        ),
        Misconception(
            "sum_of_absolute_values",
            "You added up absolute differences. The norm is the root of the sum of squares.",
            _with_leak(lambda *a: _moved(*a).abs().sum(dim=-1)),
        ),
        Misconception(
            "mean_of_absolute_values",
            "You took the mean of the absolute differences. The norm is the root of the sum of "
            "squares.",
            _with_leak(lambda *a: _moved(*a).abs().mean(dim=-1)),
        ),
        Misconception(
            "norm_along_the_tokens",
            "You took the norm along the tokens and kept the width. Each token has a state of its "
            "own: the norm goes over the last axis.",
            _with_leak(lambda *a: _moved(*a).norm(dim=1)),
        ),
        Misconception(
            "one_number_a_record",
            "You took one norm for a whole record. Where in the record the prompt is read is then "
            "lost: one number a token.",
            _with_leak(lambda *a: _moved(*a).norm(dim=(1, 2))),
        ),
        Misconception(
            "swapped",
            "You returned the features first. The leak comes first.",
            lambda *arguments: _found(*arguments)[::-1],
        ),
    ),
    hints=(
        "A state has read a prompt if it moves when the prompt is another one and everything else "
        "stays. Call read twice.",
        "The leak is the norm over the last axis of a difference. For the features, do not call "
        "read at all: what does the head need to know, and which argument holds nothing else?",
        "cumsum along the tokens gives the sum up to and including each. Divide the t-th of them, "
        "counted from 1, by t: a tensor of shape (length, 1) does it for all rows.",
    ),
    tolerance=FLOAT32,
)


# 13.5 Read the weight sweep

Run = tuple[float, int, float]
Reading = dict[float, tuple[float, float, bool]]
Average = Callable[[Sequence[float]], float]
Judge = Callable[[float, Mapping[float, float], Mapping[float, float]], bool]


def _larger_than_both(weight: float, means: Mapping, spreads: Mapping) -> bool:
    return abs(means[weight] - means[0.0]) > spreads[weight] + spreads[0.0]


def _read_sweep(
    runs: Sequence[Run],
    *,
    average: Average = statistics.mean,
    spread: Average = statistics.stdev,
    differs: Judge = _larger_than_both,
) -> Reading:
    """The reference, with the functions of Python's own statistics."""
    values = {weight: [v for w, _, v in runs if w == weight] for weight, _, _ in runs}
    means = {weight: average(found) for weight, found in values.items()}
    spreads = {weight: spread(found) for weight, found in values.items()}
    return {
        weight: (means[weight], spreads[weight], bool(differs(weight, means, spreads)))
        for weight in values
    }


def _reading(**changes: Callable) -> Callable[[Sequence[Run]], Reading]:
    return lambda runs: _read_sweep(runs, **changes)


def _against(baseline: Callable[[float, list[float]], float]) -> Judge:
    """Compare with another weight than 0: a function of the weight and of all, as they come."""

    def differs(weight: float, means: Mapping, spreads: Mapping) -> bool:
        other = baseline(weight, list(means))
        return abs(means[weight] - means[other]) > spreads[weight] + spreads[other]

    return differs


def _weight_before(weight: float, weights: list[float]) -> float:
    ordered = sorted(weights)
    return ordered[max(0, ordered.index(weight) - 1)]


def _from_the_mean_of_all(runs: Sequence[Run]) -> Reading:
    overall = statistics.mean(value for _, _, value in runs)
    return _read_sweep(
        runs,
        differs=lambda weight, means, spreads: (
            abs(means[weight] - overall) > spreads[weight] + spreads[0.0]
        ),
    )


def _standard_error(values: Sequence[float]) -> float:
    return statistics.stdev(values) / math.sqrt(len(values))


def _range(values: Sequence[float]) -> float:
    return max(values) - min(values)


def _on_the_edge(runs: Sequence[Run]) -> bool:
    """Whether rounding could decide."""
    read = _read_sweep(runs)
    mean, spread, _ = read[0.0]
    return any(
        abs(abs(one[0] - mean) - one[1] - spread) < 1e-3 for weight, one in read.items() if weight
    )


def _fresh_runs(rng: random.Random) -> Arguments:
    weights = [0.0, *rng.sample((0.01, 0.1, 0.3, 1.0, 3.0), 2)]
    while True:
        runs = [
            (weight, seed, round(rng.gauss(3 + rng.choice((0, 0, 1)) * weight, 0.4), 2))
            for weight in weights
            for seed in range(3)
        ]
        rng.shuffle(runs)
        if not _on_the_edge(runs):
            return (runs,)


SWEEP = Exercise(
    id="13.5",
    title="Read the weight sweep",
    parameters=("runs",),
    reference=_read_sweep,
    chosen=(
        ([(0.0, 0, 3.0), (0.0, 1, 3.4), (1.0, 0, 5.0), (1.0, 1, 5.2)],),
        ([(1.0, 0, 2.0), (1.0, 1, 3.5), (0.0, 0, 3.0), (0.0, 1, 3.4)],),
        ([(0.3, 0, 1.0), (0.0, 0, 3.0), (0.3, 1, 1.4), (0.0, 1, 3.2), (0.3, 2, 1.1)],),
        (
            [
                (1.0, 0, 4.1),
                (1.0, 1, 4.0),
                (0.1, 0, 3.9),
                (0.1, 1, 4.2),
                (0.0, 0, 3.0),
                (0.0, 1, 3.1),
            ],
        ),
        # Wide at weight 0 and narrow at weight 1; and the other way round.
        ([(0.0, 0, 2.0), (0.0, 1, 4.0), (1.0, 0, 4.2), (1.0, 1, 4.3)],),
        ([(0.0, 0, 4.2), (0.0, 1, 4.3), (1.0, 0, 2.0), (1.0, 1, 4.0)],),
        # Between the root of the sum of the squares and the sum of the two spreads; and between
        # the larger of them and that root.
        ([(0.0, 0, 2.0), (0.0, 1, 3.0), (1.0, 0, 3.2), (1.0, 1, 4.2)],),
        ([(0.0, 0, 2.0), (0.0, 1, 3.0), (1.0, 0, 2.85), (1.0, 1, 3.85)],),
        ([(0.0, 0, 0.5), (0.0, 1, 0.5), (1.0, 0, 0.5), (1.0, 1, 0.5)],),
        (
            [
                (0.0, 0, 1.0),
                (0.0, 1, 1.2),
                (0.0, 2, 3.0),
                (1.0, 0, 4.0),
                (1.0, 1, 4.1),
                (1.0, 2, 4.2),
            ],
        ),
    ),
    fresh=_fresh_runs,
    misconceptions=(
        Misconception(
            "divides_by_n",
            "You divided the squares by the number of runs. These are a few of all the seeds "
            "there could be, and around their own mean they spread less than the others would: "
            "divide by one less. (NumPy's std divides by n unless ddof=1, polars and PyTorch by "
            "n - 1.)",
            _reading(spread=statistics.pstdev),
        ),
        Misconception(
            "range_for_spread",
            "Your spread is the largest minus the smallest value. It grows with the number of "
            "seeds; the standard deviation is asked for.",
            _reading(spread=_range),
        ),
        Misconception(
            "variance_for_spread",
            "Your spread is the variance, in squared units. Its root can be compared with a "
            "difference of means.",
            _reading(spread=statistics.variance),
        ),
        Misconception(
            "standard_error_for_spread",
            "You divided by the root of the number of runs. That says how sure the mean is; the "
            "spread says how far a single run may lie from it.",
            _reading(spread=_standard_error),
        ),
        Misconception(
            "median_for_mean",
            "You took the median. The mean is asked for.",
            _reading(average=statistics.median),
        ),
        Misconception(
            "any_difference",
            "You called every difference one. Two trainings that differ in nothing but the seed "
            "differ too: that is what the spread is for.",
            _reading(differs=lambda w, means, spreads: means[w] != means[0.0]),
        ),
        Misconception(
            "own_spread_only",
            "You compared with the spread of the weight itself. The runs at weight 0 spread as "
            "well, and their mean is as uncertain: add both spreads.",
            _reading(differs=lambda w, m, s: abs(m[w] - m[0.0]) > s[w]),
        ),
        Misconception(
            "spread_of_weight_0_only",
            "You compared with the spread at weight 0. The runs at the other weight spread as "
            "well: add both spreads.",
            _reading(differs=lambda w, m, s: abs(m[w] - m[0.0]) > s[0.0]),
        ),
        Misconception(
            "larger_of_the_spreads",
            "You compared with the larger of the two spreads. The task asks for their sum.",
            _reading(differs=lambda w, m, s: abs(m[w] - m[0.0]) > max(s[w], s[0.0])),
        ),
        Misconception(
            "root_of_the_squares",
            "You added the squares of the spreads and took the root. That is how far two single "
            "runs may lie apart, and a smaller number; the task asks for the sum.",
            _reading(differs=lambda w, m, s: abs(m[w] - m[0.0]) > math.hypot(s[w], s[0.0])),
        ),
        Misconception(
            "increases_only",
            "You found increases only. A difference can go either way: compare its absolute "
            "value.",
            _reading(differs=lambda w, m, s: m[w] - m[0.0] > s[w] + s[0.0]),
        ),
        Misconception(
            "decreases_only",
            "You found decreases only. A difference can go either way: compare its absolute "
            "value.",
            _reading(differs=lambda w, m, s: m[0.0] - m[w] > s[w] + s[0.0]),
        ),
        Misconception(
            "as_large_as",
            "You also count a difference that is as large as the spreads. Where nothing differs "
            "and nothing spreads, 0 is as large as 0.",
            _reading(differs=lambda w, m, s: abs(m[w] - m[0.0]) >= s[w] + s[0.0]),
        ),
        Misconception(
            "first_run_is_the_baseline",
            "You compared with the weight of the first run. The runs come in any order: the "
            "models without heads are those of weight 0.",
            _reading(differs=_against(lambda weight, weights: weights[0])),
        ),
        Misconception(
            "compares_with_the_weight_before",
            "You compared each weight with the next smaller one. Small steps hide a long way: "
            "compare with weight 0.",
            _reading(differs=_against(_weight_before)),
        ),
        Misconception(
            "compares_with_the_mean_of_all",
            "You compared with the mean of all runs. It contains the runs in question; compare "
            "with weight 0.",
            _from_the_mean_of_all,
        ),
    ),
    hints=(
        "Collect the values of each weight first: a dictionary from weight to list.",
        "statistics.mean and statistics.stdev take such a list. The comparison needs the mean and "
        "the spread of weight 0 as well.",
        "A difference counts where its absolute value is larger than the spread of this weight "
        "plus the spread of weight 0. At weight 0 itself it is 0.",
    ),
)

EXERCISES = (LAST_REAL, BRACKETS, TOKEN_LOSS, LEAK, SWEEP)
