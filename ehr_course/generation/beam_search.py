"""Search for the best summaries with beams, for all notes of a batch together.

1. The model says the log-probability of every next token of every live hypothesis. At first the
   one hypothesis is <s>: it stands in beam 0, and the others start at minus infinity, for equal
   hypotheses would find equal summaries.
2. What is forbidden becomes minus infinity: <s> and <pad>, </s> before the minimum length, and
   any token that would repeat an n-gram.
3. The candidates are all hypotheses with one more token. The best 2K of a note are looked at, by
   the logarithm of their probability: of equal ones the lower beam is better, then the lower id.
4. A candidate that ends with </s> is finished if it is among the first K, and else given up.
   The first K of the others live on. There are as many in 2K, for each of the K beams has one
   candidate with </s>.
5. The best K finished ones are kept, by their score: log P divided by the length penalty. Of
   equal ones the earlier is better.
6. A note is done when no live hypothesis can do better than those, so that stopping changes
   nothing, and at the maximum length. It leaves the batch. If nothing has finished by then, it
   gives its live hypotheses, as unfinished.

Greedy search is a beam of one without a length penalty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn

from ehr_course.errors import InputError

Fate = Literal["alive", "finished", "pruned"]


# ---------------------------------------------------------------------- settings


def length_penalty(length: int, alpha: float) -> float:
    """What a log-probability is divided by: ((5 + n) / 6) ** alpha, after Wu et al. (2016).

    A longer summary is less probable, for every token costs something. With alpha above 0 it pays
    less for its length. See https://arxiv.org/abs/1609.08144, equation 14.

    Args:
        length: n, the tokens of the summary, </s> counted and <s> not.
        alpha: 0 or more; with 0 nothing is divided.

    >>> length_penalty(7, 1.0), length_penalty(7, 0.0)
    (2.0, 1.0)
    """
    return ((5 + length) / 6) ** alpha


@dataclass(frozen=True, kw_only=True)
class BeamSettings:
    """How a search goes about it. The defaults suit the small models of the course.

    The length of a summary is the number of its tokens, </s> counted and <s> not, everywhere.

    Attributes:
        beams: how many hypotheses are followed at a time, 1 or more.
        length_penalty: its exponent alpha, 0 or more. A score is log P / ((5 + n) / 6) ** alpha.
        min_length: </s> is forbidden before; with 2 a summary has a token at least.
        max_length: where a hypothesis that has no </s> is given up.
        no_repeat_ngram_size: no run of this many tokens may occur twice; 0 allows all.

    >>> BeamSettings(beams=2, max_length=20).length_penalty
    1.0
    """

    beams: int = 4
    length_penalty: float = 1.0
    min_length: int = 2
    max_length: int = 128
    no_repeat_ngram_size: int = 3

    def __post_init__(self) -> None:
        for name, fits, remedy in (
            ("beams", self.beams >= 1, "Use 1 or more; 4 is usual."),
            ("length_penalty", 0 <= self.length_penalty < math.inf, "Use 0 or more; 1 is usual."),
            ("min_length", self.min_length >= 1, "Use 1 or more: </s> counts."),
            ("max_length", self.max_length >= self.min_length, "Use min_length or more."),
            (
                "no_repeat_ngram_size",
                self.no_repeat_ngram_size >= 0,
                "Use 0 to allow every repetition, or a run's length.",
            ),
        ):
            if not fits:
                problem = f"{getattr(self, name)!r} is out of range"
                raise InputError("BeamSettings", name, problem, remedy)

    @classmethod
    def of_the_source(cls) -> Self:
        """The settings of the summariser's source note, for summaries of a hospital course."""
        return cls(min_length=50, max_length=256)

    def penalty(self, length: int) -> float:
        """The length penalty of a summary of this many tokens, under these settings."""
        return length_penalty(length, self.length_penalty)


DEFAULT_SETTINGS = BeamSettings()


# ---------------------------------------------------------------------- what is found


@dataclass(frozen=True)
class Hypothesis:
    """One summary in ids.

    Attributes:
        tokens: without <s>; with </s> at the end if it is finished.
        log_prob: the logarithm of its probability under the model, in nats.
        score: log_prob divided by the length penalty of its length.
        finished: whether it ends with </s>; if not, nothing could follow, or max_length cut it.
        attention: float (tokens, source): where the model looked when it wrote each token, as
            wide as the notes of its batch, 0 on padding; None if the model does not say.
        p_gen: float (tokens,): the weight of the vocabulary at each token, or None.
    """

    tokens: tuple[int, ...]
    log_prob: float
    score: float
    finished: bool
    attention: Tensor | None = field(default=None, repr=False, compare=False)
    p_gen: Tensor | None = field(default=None, repr=False, compare=False)

    @property
    def coverage(self) -> Tensor | None:
        """Float (tokens, source): the attention that was spent before each token, summed."""
        return None if self.attention is None else coverage_before(self.attention)


@dataclass(frozen=True)
class Candidate:
    """A hypothesis with one more token, which a step of the search looked at.

    Attributes:
        parent: the beam of the hypothesis before this step, from 0.
        token: what it is continued with.
        log_prob: the logarithm of the probability of it all, in nats.
        score: log_prob divided by the length penalty.
        fate: "alive" if it is followed, "finished" if it ends here, "pruned" if it is given up.
        beam: its beam after this step if it is alive, else None.
    """

    parent: int
    token: int
    log_prob: float
    score: float
    fate: Fate
    beam: int | None


@dataclass(frozen=True)
class SearchTrace:
    """What the search for one summary looked at.

    Attributes:
        steps: for each step its candidates, best first: twice as many as beams at most. A
            candidate's parent is the one of the step before with that beam; that of the first
            step is <s>, beam 0.
    """

    steps: tuple[tuple[Candidate, ...], ...]


@dataclass(frozen=True)
class BeamResult:
    """What a search found for one note.

    Attributes:
        hypotheses: 1 or more, best first.
        trace: how the search came to them, if that was asked for.
    """

    hypotheses: tuple[Hypothesis, ...]
    trace: SearchTrace | None = field(default=None, repr=False)

    @property
    def best(self) -> Hypothesis:
        """The first hypothesis."""
        return self.hypotheses[0]


def coverage_before(attention: Tensor) -> Tensor:
    """The attention of all steps before each step: (tokens, source), zeros in the first row."""
    return attention.cumsum(dim=0) - attention


# ---------------------------------------------------------------------- what is searched


class SearchModel(Protocol):
    """A model that summaries can be searched with, such as PointerGenerator.

    Tensors begin with (batch, ...) where they belong to a note, and with (batch, beams, ...)
    where they belong to a hypothesis.
    """

    @property
    def config(self) -> Any:
        """It has bos_token_id, eos_token_id and pad_token_id."""

    def encode(self, input_ids: Tensor, attention_mask: Tensor | None) -> Any:
        """Read a batch of notes, once: a tuple, named or not, of tensors (batch, ...)."""

    def first_state(self, source: Any) -> Any:
        """Where the decoder begins: a tuple of tensors (batch, 1, ...), tuples and None."""

    def step(self, tokens: Tensor, state: Any, source: Any) -> Any:
        """Read one more token of each hypothesis, (batch, beams), <s> at first.

        Returns:
            An object with ``log_probs``, float (batch, beams, ids), minus infinity where a token
            is impossible; the ``state`` after it; and ``log_attention``, float (batch, beams,
            source), and ``p_gen``, float (batch, beams), or None. All are new at each step.
        """


def expand_beams(state: Any, beams: int) -> Any:
    """A state of one beam as that of many equal ones: (batch, 1, ...) to (batch, beams, ...).

    >>> expand_beams((torch.zeros(2, 1, 5), None), 3)[0].shape
    torch.Size([2, 3, 5])
    """
    return _each(state, lambda tensor: tensor.expand(-1, beams, *tensor.shape[2:]))


def reorder_beams(state: Any, parents: Tensor) -> Any:
    """The state in a new order of beams: beam k goes on from beam ``parents[:, k]``.

    Args:
        state: tensors (batch, beams, ...).
        parents: int64 (batch, new beams).

    >>> reorder_beams((torch.tensor([[5, 6], [7, 8]]),), torch.tensor([[1, 1], [0, 1]]))
    (tensor([[6, 6],
            [7, 8]]),)
    """
    notes = torch.arange(len(parents), device=parents.device)[:, None]
    return _each(state, lambda tensor: tensor[notes, parents])


def _of_notes(tensors: Any, rows: Tensor) -> Any:
    """Some notes of a batch: (batch, ...) to (rows, ...)."""
    return _each(tensors, lambda tensor: tensor[rows])


def _each(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple):
        changed = (_each(part, change) for part in value)
        return type(value)(*changed) if hasattr(value, "_fields") else tuple(changed)
    return value


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Without gradients and without dropout; the model is left as it was."""
    was_training = isinstance(model, nn.Module) and model.training
    if was_training:
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if was_training:
            model.train()


# ---------------------------------------------------------------------- the search


def beam_search(
    model: SearchModel,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    *,
    settings: BeamSettings = DEFAULT_SETTINGS,
    trace: bool = False,
) -> list[BeamResult]:
    """Search for the best summaries of each note; the module says how.

    Args:
        model: it is used in evaluation mode and left as it was.
        input_ids: int64 (batch, source), on the model's device.
        attention_mask: 0 or 1 (batch, source); 1 for tokens; by default all but padding.
        settings: how many beams, how long, what is forbidden.
        trace: whether each result tells what its search looked at.

    Returns:
        A result for each note: its hypotheses, best first, as many as there are beams at most.

    Raises:
        InputError: if the ids are of another shape, or the model returns NaN.
    """
    if input_ids.ndim != 2:
        raise InputError(
            "input_ids",
            "",
            f"its shape is {tuple(input_ids.shape)}, not (batch, source)",
            "Give a batch of notes: one note is a batch of one.",
        )
    if attention_mask is not None and attention_mask.shape != input_ids.shape:
        raise InputError(
            "attention_mask",
            "",
            f"its shape is {tuple(attention_mask.shape)}, not that of input_ids, "
            f"{tuple(input_ids.shape)}",
            "Give 0 or 1 for each token.",
        )
    config, beams, device = model.config, settings.beams, input_ids.device
    if attention_mask is None:
        attention_mask = (input_ids != config.pad_token_id).long()
    searches = [_NoteSearch(settings, config.eos_token_id) for _ in input_ids]
    active, said = searches, []
    tokens = torch.full((len(searches), beams), config.bos_token_id, device=device)
    history = tokens.new_empty(*tokens.shape, 0)  # (notes, beams, tokens)
    totals = torch.full(tokens.shape, -math.inf, device=device)  # log P
    totals[:, 0] = 0.0
    with evaluating(model):
        source = model.encode(input_ids, attention_mask)
        state = expand_beams(model.first_state(source), beams)
        for length in range(1, settings.max_length + 1):
            step = model.step(tokens, state, source)
            said.append((step.log_attention, step.p_gen))
            scores = totals[..., None] + step.log_probs  # (notes, beams, ids): a new tensor
            forbid(scores, history, length, config, settings)
            best, places = best_places(scores.flatten(1), 2 * beams)
            parents, ids = places // scores.shape[-1], places % scores.shape[-1]
            candidates = zip(best.tolist(), parents.tolist(), ids.tolist(), strict=True)
            for row, (search, of_note) in enumerate(zip(active, candidates, strict=True)):
                search.advance(row, list(zip(*of_note, strict=True)))
            rows = [row for row, search in enumerate(active) if not search.done]
            if not rows:
                break
            state = step.state
            if len(rows) < len(active):  # the source is large: it is copied when notes leave
                active = [active[row] for row in rows]
                left = torch.tensor(rows, device=device)
                source, state, history = _of_notes((source, state, history), left)
            live = [search.beams() for search in active]
            tokens, parents = (
                torch.tensor([[beam[part] for beam in of_note] for of_note in live], device=device)
                for part in (0, 1)
            )
            totals = best.new_tensor([[beam[2] for beam in of_note] for of_note in live])
            state, history = reorder_beams((state, history), parents)
            history = torch.cat([history, tokens[..., None]], dim=-1)
    return [search.result(said, trace) for search in searches]


class _Path(NamedTuple):
    """A hypothesis, and the beam in which it stood when each of its tokens was chosen."""

    tokens: tuple[int, ...]
    beams: tuple[int, ...]
    log_prob: float
    score: float


class _NoteSearch:
    """The hypotheses of one note."""

    def __init__(self, settings: BeamSettings, eos_id: int) -> None:
        self.settings, self.eos_id = settings, eos_id
        self.live = self.before = [_Path((), (), 0.0, 0.0)]
        self.finished: list[_Path] = []
        self.rows: list[int] = []  # where the note stood in the batch at each step
        self.steps: list[tuple[Candidate, ...]] = []
        self.done = False

    def advance(self, row: int, candidates: Sequence[tuple[float, int, int]]) -> None:
        """Take a step.

        Args:
            row: of the note in this step's batch.
            candidates: log P, parent and token of the best 2K, best first.
        """
        settings, step = self.settings, []
        self.rows.append(row)
        length = len(self.rows)
        self.before, self.live = self.live, []
        for rank, (log_prob, parent, token) in enumerate(candidates):
            if log_prob == -math.inf:
                break
            score = log_prob / settings.penalty(length)
            tokens, beams, _, _ = self.before[parent]
            longer = _Path((*tokens, token), (*beams, parent), log_prob, score)
            fate: Fate = "pruned"
            beam = None
            if token == self.eos_id and rank < settings.beams:
                fate = "finished"
                self.finished.append(longer)
            elif token != self.eos_id and len(self.live) < settings.beams:
                fate, beam = "alive", len(self.live)
                self.live.append(longer)
            step.append(Candidate(parent, token, log_prob, score, fate, beam))
        self.steps.append(tuple(step))
        # A stable sort: of equal ones the earlier is better.
        self.finished = sorted(self.finished, key=lambda path: -path.score)[: settings.beams]
        self.done = not self.live or length == settings.max_length
        if not self.done and len(self.finished) == settings.beams:
            # A log-probability only falls, and the longest summary divides it by most.
            bound = self.live[0].log_prob / settings.penalty(settings.max_length)
            self.done = bound <= self.finished[-1].score

    def beams(self) -> list[tuple[int, int, float]]:
        """The last token, the parent and log P of each beam; an empty one repeats the first."""
        live = [(path.tokens[-1], path.beams[-1], path.log_prob) for path in self.live]
        token, parent, _ = live[0]
        return live + [(token, parent, -math.inf)] * (self.settings.beams - len(live))

    def result(self, said: Sequence[tuple[Any, Any]], trace: bool) -> BeamResult:
        """What was found, with the log attention and p_gen that the model said at each step."""

        def along(path: _Path, part: int) -> Tensor | None:
            first = said[0][part]
            if first is None:
                return None
            places = zip(said, self.rows, path.beams, strict=False)
            values = [step[part][row, beam] for step, row, beam in places]
            return torch.stack(values or [first[0, 0]])[: len(values)].cpu()

        hypotheses = []
        for path in self.finished or self.live or self.before:
            looks, p_gen = along(path, 0), along(path, 1)
            attention = None if looks is None else looks.exp()
            ended = bool(self.finished)
            hypotheses.append(
                Hypothesis(path.tokens, path.log_prob, path.score, ended, attention, p_gen)
            )
        return BeamResult(tuple(hypotheses), SearchTrace(tuple(self.steps)) if trace else None)


def best_places(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The best numbers of each row and their places, best first; of equal ones the first.

    ``topk`` alone leaves it open which of equal numbers it takes.

    Args:
        scores: float (rows, n), with minus infinity where nothing can be chosen.
        count: how many; n if that is less.

    Returns:
        float and int64 (rows, count). Among minus infinities the places mean nothing.

    Raises:
        InputError: if any value is NaN.

    >>> values, places = best_places(torch.tensor([[0.5, 0.9, 0.5, 0.1, 0.5]]), 3)
    >>> places
    tensor([[1, 0, 2]])
    """
    count = min(count, scores.shape[1])
    values, places = scores.topk(min(count + 1, scores.shape[1]), dim=1)
    if bool(values[:, 0].isnan().any()):
        raise InputError(
            "the model",
            "log_probs",
            "some are not a number (nan)",
            "Did its training diverge? Look at its loss and its weights.",
        )
    # Equal numbers on both sides of the cut: topk may have taken the wrong one of them.
    least = values[:, count - 1]
    cut = (values[:, -1] == least) & (least > -math.inf) & (values.shape[1] > count)
    values, places = values[:, :count], places[:, :count]
    for row in cut.nonzero()[:, 0].tolist():
        enough = (scores[row] >= least[row]).nonzero()[:, 0]  # in the order of the places
        order = scores[row, enough].sort(descending=True, stable=True).indices[:count]
        places[row] = enough[order]
        values[row] = scores[row, places[row]]
    places, order = places.sort(dim=1)
    values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    return values, places.gather(1, order)


def forbid(
    scores: Tensor, history: Tensor, length: int, config: Any, settings: BeamSettings
) -> None:
    """Make what is forbidden minus infinity, in place.

    Args:
        scores: float (notes, beams, ids).
        history: int64 (notes, beams, length - 1): what each has written.
        length: of the hypotheses with the next token.
        config: of the model.
        settings: of the search.
    """
    forbidden = [config.bos_token_id, config.pad_token_id]
    if length < settings.min_length:
        forbidden.append(config.eos_token_id)
    scores[..., forbidden] = -math.inf
    if settings.no_repeat_ngram_size:
        # Places without a repetition name <s>, which is forbidden in any case.
        nothing = config.bos_token_id
        repeating = repeating_tokens(history, settings.no_repeat_ngram_size, nothing=nothing)
        scores.scatter_(-1, repeating, -math.inf)


def repeating_tokens(history: Tensor, n: int, *, nothing: int) -> Tensor:
    """The tokens that would end an n-gram which stands in the history.

    Args:
        history: int64 (..., length): the tokens of each hypothesis.
        n: the length of a run, 1 or more.
        nothing: an id that stands for no token; it fills the places without a repetition.

    Returns:
        int64 (..., runs in the history): the tokens to forbid, in any order, among ``nothing``.

    >>> said = torch.tensor([[5, 6, 7, 5, 6], [5, 6, 7, 8, 9]])
    >>> repeating_tokens(said, 3, nothing=-1)  # after 5 6, a 7 would repeat 5 6 7
    tensor([[ 7, -1, -1],
            [-1, -1, -1]])
    """
    length = history.shape[-1]
    if length < n:
        return history[..., :0]
    runs = history.unfold(-1, n, 1)  # (..., windows, n)
    last = history[..., None, length - n + 1 :]  # (..., 1, n - 1): what the next token would end
    repeats = (runs[..., :-1] == last).all(dim=-1)
    return runs[..., -1].where(repeats, nothing)
