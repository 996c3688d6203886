"""Time what the kernel does when a learner moves one control of a widget.

    python benchmarks/widgets.py
    python benchmarks/widgets.py --widgets prompt record --moves 60

Every widget of the lessons that asks the kernel for its picture is made as its lesson makes it,
with small models, some of them untrained: what is drawn is as large as in the lesson. Then one
control after the other is set to a value drawn at random. Measured is

* *redraw*: the whole answer to one move: computing, drawing and the file for the browser;
* *plain*: the same state drawn again and saved by matplotlib, as for a stored notebook.

Both are seconds of the processor, so that another program on the machine counts little, on one
thread, in one process, in turn. The benchmark demands of every widget that the median of its
redraws takes less than 200 ms.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import ipywidgets
import polars as pl
import torch

from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.course_files import checkpoint_folder
from ehr_course.generation.beam_search import BeamSettings
from ehr_course.generation.summaries import summarize, trace_summary
from ehr_course.losses import never_together
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig
from ehr_course.models.prefix_tuning import PrefixConfig, PrefixTuned
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.models.saved import load_checkpoint
from ehr_course.plots.tokens import visit_text
from ehr_course.sources.synthetic import drug_names, make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.tokenizers.notes import NoteTokenizer
from ehr_course.tokenizers.words import WordTokenizer
from ehr_course.widgets.auxiliary_weights import weight_explorer
from ehr_course.widgets.batch import batch_inspector
from ehr_course.widgets.beam_search import beam_tree
from ehr_course.widgets.chance import chance_explorer
from ehr_course.widgets.corruption import corruption_playground
from ehr_course.widgets.coverage import coverage_player, look_of
from ehr_course.widgets.dashboard import cohort_dashboard
from ehr_course.widgets.generation_trace import generation_trace_player
from ehr_course.widgets.loss_terms import loss_terms_explorer
from ehr_course.widgets.number_line import number_line_explorer
from ehr_course.widgets.prefix_attention import prefix_attention_explorer
from ehr_course.widgets.prompt import prompt_explorer
from ehr_course.widgets.record import record_explorer
from ehr_course.widgets.static import PictureWidget
from ehr_course.widgets.timeline import timeline_explorer
from ehr_course.widgets.tokens import token_explorer

MOST_MILLISECONDS = 200.0
"""What this benchmark demands of every widget."""


# ---------------------------------------------------------------------- the widgets of the lessons


def record() -> PictureWidget:
    """Of lesson 00."""
    return record_explorer(make_cohort(40, seed=0))


def tokens() -> PictureWidget:
    """Of lesson 07."""
    cohort = make_cohort(300, seed=0)
    texts = [visit_text(visit) for one in cohort for visit in one.visits]
    pieces = NoteTokenizer.train(texts, vocab_size=300, character_coverage=1.0)
    return token_explorer(cohort[:30], CodeTokenizer.from_records(cohort), pieces)


def timeline() -> PictureWidget:
    """Of lesson 08."""
    return timeline_explorer(make_cohort(600, seed=0), least_visits=2)


def corruption() -> PictureWidget:
    """Of lesson 09."""
    some = [one for one in make_cohort(200, seed=0) if len(one.visits) > 1]
    return corruption_playground(some, CodeTokenizer.from_records(some))


def batch() -> PictureWidget:
    """Of lesson 10."""
    cohort = make_cohort(600, seed=0)
    tokenizer = CodeTokenizer.from_records(cohort)
    return batch_inspector(RecordDataset(cohort, tokenizer, corruption=Corruption()))


def prompt() -> PictureWidget:
    """Of lesson 12."""
    loaded = load_checkpoint("tiny_prompt_bart")
    return prompt_explorer(loaded.model, loaded.tokenizer)


def auxiliary_weights() -> PictureWidget:
    """Of lesson 13."""
    return weight_explorer(pl.read_csv(checkpoint_folder("auxiliary_weights") / "sweep.csv"))


def loss_terms() -> PictureWidget:
    """Of lesson 14."""
    cohort = make_cohort(300, seed=0)
    tokenizer = CodeTokenizer.from_records(cohort)
    present = torch.zeros(len(cohort), len(tokenizer), dtype=torch.bool)
    for row, one in enumerate(cohort):
        present[row, tokenizer.encode(one)] = True
    config = PromptBartConfig.for_tokenizer(tokenizer, age_weight=0.001, sex_weight=0.001)
    some = RecordDataset(cohort, tokenizer).batch(range(32))
    return loss_terms_explorer(PromptBart(config), some, never_together(present))


def number_line() -> PictureWidget:
    """Of lesson 15."""
    loaded = load_checkpoint("tiny_prompt_bart")
    learned = RecordDataset(make_cohort(32, seed=0), loaded.tokenizer)
    loaded.model(**learned.batch(range(32))).loss.backward()
    return number_line_explorer(
        torch.cat([weight.grad.flatten() for weight in loaded.model.parameters()])
    )


def pointer_generator() -> tuple[PointerGenerator, WordTokenizer, str]:
    """An untrained model, its tokenizer and a list of ten drugs."""
    names = drug_names("common")
    tokenizer = WordTokenizer.from_texts(names)
    model = PointerGenerator(PointerGeneratorConfig.for_tokenizer(tokenizer)).eval()
    return model, tokenizer, " ".join(random.Random(0).sample(names, 10))


def generation_trace() -> PictureWidget:
    """Of lesson 16."""
    model, tokenizer, note = pointer_generator()
    notes = {f"note {n + 1}": f"{note} and {name}" for n, name in enumerate(("senna", "mesna"))}
    return generation_trace_player(
        {
            name: trace_summary(model, tokenizer, text, max_length=24)
            for name, text in notes.items()
        }
    )


def coverage() -> PictureWidget:
    """Of lesson 17."""
    model, tokenizer, note = pointer_generator()
    settings = BeamSettings(beams=1, no_repeat_ngram_size=0, max_length=20)
    looks = {
        f"{n} drugs": look_of(
            summarize(model, tokenizer, [" ".join(note.split()[:n])], settings=settings)[0]
        )
        for n in (10, 8)
    }
    return coverage_player(looks, step=2)


def tree() -> PictureWidget:
    """Of lesson 17."""
    return beam_tree(*pointer_generator())


def prefix_attention() -> PictureWidget:
    """Of lesson 18."""
    loaded = load_checkpoint("tiny_prompt_bart")
    known = CodeTokenizer(loaded.tokenizer.codes, unseen="skip")
    model = PrefixTuned(loaded.model, PrefixConfig(8), seed=0)
    return prefix_attention_explorer(model, known, make_cohort(8, seed=500, hospital="heart"))


def dashboard() -> PictureWidget:
    """Of lesson 19."""
    cohorts = {f"cohort {seed}": make_cohort(2_000, seed=seed) for seed in (1, 2, 3)}
    return cohort_dashboard(make_cohort(4_000, seed=0), cohorts)


def chance() -> PictureWidget:
    """Of lesson 20."""
    return chance_explorer()


WIDGETS: dict[str, Callable[[], PictureWidget]] = {
    make.__name__: make
    for make in (
        record,
        tokens,
        timeline,
        corruption,
        batch,
        prompt,
        auxiliary_weights,
        loss_terms,
        number_line,
        generation_trace,
        coverage,
        tree,
        prefix_attention,
        dashboard,
        chance,
    )
}


# ---------------------------------------------------------------------- moving and measuring


def positions(control: ipywidgets.ValueWidget) -> list[Any]:
    """Every value that a learner can set a control to."""
    if isinstance(control, ipywidgets.Checkbox):
        return [False, True]
    if hasattr(control, "options"):
        return [one[1] if isinstance(one, tuple) else one for one in control.options]
    steps = round((control.max - control.min) / control.step)
    return [control.min + step * control.step for step in range(steps + 1)]


def moves(widget: PictureWidget, number: int, rng: random.Random) -> Iterator[Callable[[], None]]:
    """So many moves of one control each, to another value than it has."""
    for _ in range(number):
        name = rng.choice([n for n, one in widget.controls.items() if len(positions(one)) > 1])
        control = widget.controls[name]
        value = rng.choice([value for value in positions(control) if value != control.value])
        yield lambda control=control, value=value: setattr(control, "value", value)


def milliseconds(task: Callable[[], object]) -> float:
    """What a task takes of the processor."""
    began = time.process_time()
    task()
    return 1000 * (time.process_time() - began)


def measure(widget: PictureWidget, number: int, seed: int) -> tuple[list[float], list[float]]:
    """The redraws of a widget, and the same states drawn and saved plainly, in milliseconds."""
    redraws, plain = [], []
    for move in moves(widget, number, random.Random(seed)):
        redraws.append(milliseconds(move))
        if widget.error is not None:
            raise widget.error
        plain.append(milliseconds(lambda: widget.draw(**widget.values).png()))
    return redraws, plain


def main(arguments: list[str] | None = None) -> int:
    """Measure, print a table, and return 1 if a widget takes too long."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--widgets", nargs="+", choices=WIDGETS, default=[*WIDGETS])
    parser.add_argument("--moves", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    print(f"| {'widget':17} | redraw, ms | 9 in 10 below | plain, ms | redraw / plain |")
    print("|---|---|---|---|---|")
    slow = []
    for name in options.widgets:
        redraws, plain = measure(WIDGETS[name](), options.moves, options.seed)
        median = statistics.median(redraws)
        nine = sorted(redraws)[int(0.9 * (len(redraws) - 1))]
        ratio = statistics.median(r / p for r, p in zip(redraws, plain, strict=True))
        print(
            f"| {name:17} | {median:.0f} | {nine:.0f} | {statistics.median(plain):.0f} "
            f"| {ratio:.2f} |",
            flush=True,
        )
        slow += [name] * (median >= MOST_MILLISECONDS)
    if slow:
        print(f"Not below {MOST_MILLISECONDS:.0f} ms: {', '.join(slow)}")
    return bool(slow)


if __name__ == "__main__":
    raise SystemExit(main())
