"""Search for the best summaries with beams.

The search follows some hypotheses at a time, for all notes of a batch together. A step of it:

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
6. A note is done when no live hypothesis can do better than those (or when K have finished, as
   the settings say), and at the maximum length. It leaves the batch.

A note of which nothing has finished by then gives its live hypotheses, as unfinished.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ehr_course.generation.search_model import (
    SearchModel,
    check_notes,
    encode,
    evaluating,
    not_a_number,
    of_beams,
    of_notes,
    spread,
)
from ehr_course.generation.search_results import (
    BeamResult,
    Candidate,
    Ending,
    Fate,
    SearchTrace,
    StepRecord,
)
from ehr_course.generation.search_settings import BeamSettings, forbid

DEFAULT_SETTINGS = BeamSettings()

RUN = 64
"""How many numbers are compared with others by their largest alone."""


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
        model: any SearchModel, such as PointerGenerator; it is used in evaluation mode and left
            as it was.
        input_ids: int64 (batch, source), on the model's device.
        attention_mask: 0 or 1 (batch, source); 1 for tokens; by default all but padding.
        settings: how many beams, how long, what is forbidden, when to stop.
        trace: whether each result tells what its search looked at.

    Returns:
        A result for each note: its hypotheses, best first, as many as there are beams at most.

    Raises:
        InputError: if the ids are not of such a shape, or the model says what is no number.
    """
    check_notes(input_ids, attention_mask)
    with evaluating(model):
        source = encode(model, input_ids, attention_mask)
        search = _BeamSearch(model, source, len(input_ids), input_ids.device, settings, trace)
        return search.results()


class _Choice(NamedTuple):
    """What a step of the search chose: the new beams, each (notes, beams)."""

    parents: Tensor
    tokens: Tensor


class _Found(NamedTuple):
    """A hypothesis that is given back, before its tokens are looked up.

    Its first ``length`` tokens end in ``beam``; a finished one has </s> besides.
    """

    length: int
    beam: int
    log_prob: float
    score: float
    finished: bool


class _Looked(NamedTuple):
    """All candidates that a step looked at, each (notes, 2 beams), for the trace."""

    parents: Tensor
    tokens: Tensor
    total: Tensor
    ends: Tensor
    beams: Tensor


class _BeamSearch:
    """The search for a batch of notes.

    Rows are the notes that are left. Nothing is moved for the sake of the hypotheses that end: a
    step keeps which beam each beam comes from, and at the end each is followed back.
    """

    def __init__(
        self,
        model: SearchModel,
        source: Any,
        batch: int,
        device: torch.device,
        settings: BeamSettings,
        trace: bool,
    ) -> None:
        self.model, self.config, self.settings = model, model.config, settings
        beams = settings.beams
        self.source = source
        self.state = spread(model.first_state(source), beams)
        self.notes = list(range(batch))  # of the rows, by their place in the batch
        self.last = torch.full((batch, beams), self.config.bos_token_id, device=device)
        self.history = self.last.new_empty(batch, beams, 0)  # (rows, beams, tokens)
        self.total = torch.full((batch, beams), -math.inf, device=device)  # log P
        self.total[:, 0] = 0.0

        self.record = StepRecord()
        self.choices: list[_Choice] = []
        self.looked: list[_Looked] | None = [] if trace else None
        # The finished hypotheses of each row, best first; minus infinity where there is none.
        self.ended_score = torch.full((batch, beams), -math.inf, device=device)
        self.ended_total = self.ended_score.clone()
        self.ended_length = torch.zeros_like(self.last)
        self.ended_beam = torch.zeros_like(self.last)
        self.found: list[list[_Found]] = [[] for _ in range(batch)]

    def results(self) -> list[BeamResult]:
        """Search until every note is done."""
        for length in range(1, self.settings.max_length + 1):
            if not self.notes:
                break
            self._advance(length)
        hypotheses = iter(self.record.hypotheses(self._endings()))
        return [
            BeamResult(
                tuple(next(hypotheses) for _ in found),
                None if self.looked is None else self._trace(note),
            )
            for note, found in enumerate(self.found)
        ]

    def _advance(self, length: int) -> None:
        """A step: hypotheses of this length."""
        beams = self.settings.beams
        said = self.model.step(self.last, self.state, self.source)
        scores = self.total[:, :, None] + said.log_probs  # (rows, beams, ids): a new tensor
        forbid(scores, self.history, length, self.config, self.settings)
        total, places = best_places(scores.flatten(1), 2 * beams)  # (rows, 2 beams)
        parents, tokens = places // scores.shape[-1], places % scores.shape[-1]

        possible = total > -math.inf
        is_end = tokens == self.config.eos_token_id
        ends = possible & is_end
        ends[:, beams:] = False
        goes_on = possible & ~is_end
        new_beam = goes_on.cumsum(1) - 1
        alive = goes_on & (new_beam < beams)
        self.record.add(self.notes, said)
        if self.looked is not None:
            new_beam = new_beam.where(alive, -1)
            self.looked.append(_Looked(parents, tokens, total, ends, new_beam))

        self._take_finished(total, parents, ends, length)
        # The places of those that live on, in their order, and then of any others.
        order = (~alive).byte().sort(dim=1, stable=True).indices[:, :beams]
        live_total = total.masked_fill(~alive, -math.inf).gather(1, order)
        # A beam that nothing is left for goes on as the first one: what it says is never looked
        # at, but it must say something.
        order = order.where(live_total > -math.inf, order[:, :1])
        choice = _Choice(parents.gather(1, order), tokens.gather(1, order))
        self.choices.append(choice)

        done, state = self._done(live_total, length), said.state
        before, self.total = self.total, live_total
        self.last, parents = choice.tokens, choice.parents
        if bool(done.any()):
            self._end(done, before, length)
            state, parents = self._leave_out(done, state, parents)
        self.state = of_beams(state, parents)
        if self.settings.no_repeat_ngram_size:
            (history,) = of_beams((self.history,), parents)
            self.history = torch.cat([history, self.last[..., None]], dim=-1)

    def _take_finished(self, total: Tensor, parents: Tensor, ends: Tensor, length: int) -> None:
        """Merge what ends at this step into the finished ones, and keep the best."""
        beams = self.settings.beams
        total, parents, ends = total[:, :beams], parents[:, :beams], ends[:, :beams]
        total = total.masked_fill(~ends, -math.inf)
        score = torch.cat([self.ended_score, total / self.settings.penalty(length)], dim=1)
        # Those of before stand first, so that a stable sort prefers them to equal ones.
        self.ended_score, order = score.sort(dim=1, descending=True, stable=True)
        self.ended_score, order = self.ended_score[:, :beams], order[:, :beams]
        lengths = torch.full_like(parents, length)
        self.ended_total = torch.cat([self.ended_total, total], dim=1).gather(1, order)
        self.ended_length = torch.cat([self.ended_length, lengths], dim=1).gather(1, order)
        self.ended_beam = torch.cat([self.ended_beam, parents], dim=1).gather(1, order)

    def _done(self, live_total: Tensor, length: int) -> Tensor:
        """Which rows are done: bool (rows,)."""
        best_live, worst_ended = live_total[:, 0], self.ended_score[:, -1]
        if length == self.settings.max_length:
            return torch.ones_like(best_live, dtype=torch.bool)
        done = best_live == -math.inf
        if self.settings.stop == "first":
            return done | (worst_ended > -math.inf)
        # A log-probability only falls, and the longest summary divides it by most.
        bound = best_live / self.settings.penalty(self.settings.max_length)
        return done | (bound <= worst_ended)

    def _end(self, done: Tensor, before: Tensor, length: int) -> None:
        """Say which hypotheses the notes have that are done.

        Args:
            done: bool (rows,).
            before: float (rows, beams): log P of the hypotheses that lived before this step.
            length: of those that live now.
        """
        for row in done.nonzero()[:, 0].tolist():
            found = self.found[self.notes[row]]
            ended = (self.ended_length, self.ended_beam, self.ended_total, self.ended_score)
            for n, beam, total, score in zip(*(x[row].tolist() for x in ended), strict=True):
                if score > -math.inf:
                    found.append(_Found(n - 1, beam, total, score, True))
            if found:
                continue
            # Nothing has finished: give what lives, or what lived before nothing could follow.
            lives = bool(self.total[row, 0] > -math.inf)
            n, live = (length, self.total[row]) if lives else (length - 1, before[row])
            for beam, total in enumerate(live.tolist()):
                if total > -math.inf:
                    score = total / self.settings.penalty(n)
                    found.append(_Found(n, beam, total, score, False))

    def _endings(self) -> list[Ending]:
        """Follow every hypothesis that was found back to its beginning."""
        choices = [(c.parents.tolist(), c.tokens.tolist()) for c in self.choices]
        endings = []
        for note, several in enumerate(self.found):
            for found in several:
                beam = found.beam
                tokens = [self.config.eos_token_id] * found.finished
                beams = [beam] * found.finished
                for step in reversed(range(found.length)):
                    parents, chosen = (
                        part[self.record.row_of[step][note]] for part in choices[step]
                    )
                    tokens.append(chosen[beam])
                    beam = parents[beam]
                    beams.append(beam)
                endings.append(Ending(note, tokens[::-1], beams[::-1], *found[2:]))
        return endings

    def _leave_out(self, done: Tensor, state: Any, parents: Tensor) -> tuple[Any, Tensor]:
        """Take the notes that are done out of the batch."""
        rows = (~done).nonzero()[:, 0]
        self.notes = [self.notes[row] for row in rows.tolist()]
        self.source = of_notes(self.source, rows)
        self.last, self.total, self.history = self.last[rows], self.total[rows], self.history[rows]
        self.ended_score, self.ended_total = self.ended_score[rows], self.ended_total[rows]
        self.ended_length, self.ended_beam = self.ended_length[rows], self.ended_beam[rows]
        return of_notes(state, rows), parents[rows]

    def _trace(self, note: int) -> SearchTrace:
        penalty = self.settings.penalty
        steps = []
        for length, (rows, looked) in enumerate(
            zip(self.record.row_of, self.looked or [], strict=True), start=1
        ):
            if note not in rows:
                break
            row = rows[note]
            steps.append(
                tuple(
                    Candidate(parent, token, total, total / penalty(length), *_fate(ends, beam))
                    for parent, token, total, ends, beam in zip(
                        *(field[row].tolist() for field in looked), strict=True
                    )
                    if total > -math.inf
                )
            )
        return SearchTrace(tuple(steps))


def _fate(ends: bool, beam: int) -> tuple[Fate, int | None]:
    if ends:
        return "finished", None
    return ("pruned", None) if beam < 0 else ("alive", beam)


def best_places(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The best numbers of each row and their places, best first; of equal ones the first.

    ``topk`` alone leaves it open which of equal numbers it takes.

    Args:
        scores: float (rows, n), with minus infinity where nothing can be chosen.
        count: how many; n if that is less.

    Returns:
        float and int64 (rows, count). Among minus infinities the places mean nothing.

    Raises:
        InputError: if a number is none (nan).

    >>> values, places = best_places(torch.tensor([[0.5, 0.9, 0.5, 0.1, 0.5]]), 3)
    >>> places
    tensor([[1, 0, 2]])
    """
    count = min(count, scores.shape[1])
    values, places = _largest(scores, min(count + 1, scores.shape[1]))
    # Equal numbers on both sides of the cut: topk may have taken the wrong one of them.
    least = values[:, count - 1]
    cut = (values[:, -1] == least) & (least > -math.inf) & (values.shape[1] > count)
    bad = values[:, 0].isnan()
    values, places = values[:, :count], places[:, :count]
    if bool((cut | bad).any()):
        if bool(bad.any()):
            raise not_a_number()
        for row in cut.nonzero()[:, 0].tolist():
            enough = (scores[row] >= least[row]).nonzero()[:, 0]  # in the order of the places
            order = scores[row, enough].sort(descending=True, stable=True).indices[:count]
            places[row] = enough[order]
            values[row] = scores[row, places[row]]
    places, order = places.sort(dim=1)
    values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    return values, places.gather(1, order)


def _largest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """What ``scores.topk(count)`` says, sooner where there are many more numbers.

    The numbers are taken in runs. Where so many runs have a larger number than another run, none
    of that run's numbers is among the largest: only the other runs are looked through.
    """
    runs = scores.shape[1] // RUN
    if runs < 4 * count:
        return scores.topk(count, dim=1)
    in_runs = scores[:, : runs * RUN].unflatten(1, (runs, RUN))
    chosen = in_runs.amax(dim=2).topk(count, dim=1).indices[:, :, None]  # (rows, count, 1)
    places = (chosen * RUN + torch.arange(RUN, device=scores.device)).flatten(1)
    at_the_end = torch.arange(runs * RUN, scores.shape[1], device=scores.device)
    places = torch.cat([places, at_the_end.expand(len(scores), -1)], dim=1)
    values, order = scores.gather(1, places).topk(count, dim=1)
    return values, places.gather(1, order)
