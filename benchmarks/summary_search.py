"""Beam search for summaries beside one that follows its hypotheses one by one. Not a test.

    python benchmarks/summary_search.py
    python benchmarks/summary_search.py --batch 8 --repeats 1

The model has the size of the summariser's source note, with coverage, and random weights. The
search is that note's too: 4 beams, 256 tokens at most, no trigram twice. </s> is made so unlikely
that every search goes on to the end. The literal search takes one note at a time and calls the
literal model of the tests once for every hypothesis. Both take turns on the same notes of 768
tokens. A ratio compares seconds a note, of the processor, in float32 on one thread.

In float64 both must find the same summaries of 60 tokens. In float32 and 256 tokens, hypotheses
of random weights lie closer together than rounding: there the best must be equally probable.
"""

from __future__ import annotations

import argparse
import copy
import math
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ehr_course.generation.beam_search import BeamSettings, beam_search
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "models"))
from literal_pointer_generator import LiteralPointerGenerator, LiteralState

BOS, EOS, PAD = 1, 2, 3


class Hypothesis(NamedTuple):
    """One summary so far, and where the decoder is after all its tokens but the last."""

    tokens: tuple[int, ...]
    log_prob: float
    state: LiteralState


@torch.no_grad()
def literal_search(
    model: LiteralPointerGenerator, note: Tensor, settings: BeamSettings
) -> list[tuple[float, tuple[int, ...]]]:
    """Log P and tokens of one note's (1, source) summaries, best first: ended, else alive."""
    k = settings.beams
    lengths = torch.tensor([note.shape[1]])
    encoder_outputs, hidden = model.encode(model.known(note), lengths)
    context = encoder_outputs.new_zeros(1, encoder_outputs.shape[2])
    coverage = encoder_outputs.new_zeros(note.shape)
    live = [Hypothesis((BOS,), 0.0, LiteralState(hidden, context, coverage))]
    finished: list[tuple[float, float, tuple[int, ...]]] = []  # score, log P, tokens
    for n in range(1, settings.max_length + 1):
        candidates = []
        for hypothesis in live:
            last = torch.tensor([hypothesis.tokens[-1]])
            final, _, _, state = model.step(
                last, hypothesis.state, encoder_outputs, note >= 4, note, 0
            )
            log_probs = final[0].clamp(min=1e-8).log()
            log_probs[[BOS, PAD]] = -math.inf
            if n < settings.min_length:
                log_probs[EOS] = -math.inf
            log_probs[repeating(hypothesis.tokens[1:], settings.no_repeat_ngram_size)] = -math.inf
            best, tokens = log_probs.topk(2 * k)
            candidates += [
                Hypothesis((*hypothesis.tokens, token), hypothesis.log_prob + log_prob, state)
                for token, log_prob in zip(tokens.tolist(), best.tolist(), strict=True)
            ]
        candidates.sort(key=lambda candidate: -candidate.log_prob)
        live = []
        for rank, candidate in enumerate(candidates):
            if candidate.tokens[-1] != EOS:
                live.append(candidate)
            elif rank < k:
                score = candidate.log_prob / settings.penalty(n)
                finished.append((score, candidate.log_prob, candidate.tokens[1:]))
            if len(live) == k:
                break
        finished = sorted(finished, reverse=True)[:k]
        best_live = live[0].log_prob / settings.penalty(settings.max_length)
        if len(finished) == k and best_live <= finished[-1][0]:
            break
    if finished:
        return [(log_prob, tokens) for _, log_prob, tokens in finished]
    return [(each.log_prob, each.tokens[1:]) for each in live]


def repeating(tokens: tuple[int, ...], n: int) -> list[int]:
    """The tokens that would end an n-gram for the second time."""
    start = tokens[len(tokens) - n + 1 :]
    return [
        tokens[i + n - 1] for i in range(len(tokens) - n + 1) if tokens[i : i + n - 1] == start
    ]


def make_model(small: bool) -> PointerGenerator:
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "d_embedding": 8, "d_hidden": 8} if small else {}
    model = PointerGenerator(PointerGeneratorConfig(**sizes, coverage=True)).eval()
    with torch.no_grad():
        nn.init.normal_(model.decoder.attention.cover, std=0.1)
        model.decoder.vocabulary.weight.mul_(20)  # no two words are nearly as likely
        model.decoder.vocabulary.bias[EOS] = -1e4
    return model


def check_equal(model: PointerGenerator, note: Tensor, settings: BeamSettings) -> None:
    """Stop if the two searches do not find the same summaries of one note in float64."""
    exact = copy.deepcopy(model).double()
    ours = [each.tokens for each in beam_search(exact, note, settings=settings)[0].hypotheses]
    literal = literal_search(LiteralPointerGenerator.like(exact), note, settings)
    if ours != [tokens for _, tokens in literal]:
        raise SystemExit("the two searches found other summaries")


def compare(batch_size: int, options: argparse.Namespace) -> None:
    settings = BeamSettings.of_the_source()
    model = make_model(options.small)
    literal = LiteralPointerGenerator.like(model)
    generator = torch.Generator().manual_seed(1)
    shape = batch_size, 24 if options.small else 768
    notes = torch.randint(4, model.config.vocab_size, shape, generator=generator)
    notes[:, 0], notes[:, -1] = BOS, EOS
    check_equal(model, notes[:1], replace(settings, max_length=60))
    ratios, ours, theirs = [], [], []
    for repeat in range(options.repeats):
        began = time.process_time()
        found = beam_search(model, notes, settings=settings)
        ours.append((time.process_time() - began) / batch_size)
        row = repeat % batch_size
        began = time.process_time()
        expected = literal_search(literal, notes[row : row + 1], settings)
        theirs.append(time.process_time() - began)
        ratios.append(theirs[-1] / ours[-1])
        best = found[row].hypotheses[0]
        if not math.isclose(best.log_prob, expected[0][0], rel_tol=1e-3):
            raise SystemExit(f"the best summaries of note {row} are not equally probable")
    print(
        f"  batch {batch_size}: {statistics.median(theirs):.2f} s a note literally, "
        f"{statistics.median(ours):.2f} s batched: {statistics.median(ratios):.1f} times as fast "
        f"({min(ratios):.1f} to {max(ratios):.1f} in {len(ratios)}), "
        f"{len(best.tokens)} tokens each",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 8], help="batch sizes")
    parser.add_argument("--repeats", type=int, default=3, help="notes searched literally")
    parser.add_argument("--small", action="store_true", help="a tiny model: does it run?")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("Beam search, 4 beams, 256 tokens, the source note's size, float32, one thread")
    for batch_size in options.batch:
        compare(batch_size, options)


if __name__ == "__main__":
    main()
