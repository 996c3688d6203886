"""Measure on a GPU what the book's benchmark page calls not measured. Not a test.

    python benchmarks/gpu.py --out gpu.md
    python benchmarks/gpu.py --toy --out toy.md

It takes less than ten minutes and writes a table in Markdown, with the device, the versions, the
commit and the date. A part that finds no memory, or fails, is a row that says so, and so is one
that the time did not reach. Where there is no GPU only ``--toy`` runs: everything at toy size on
the processor, to see that it works; such numbers say nothing.

* *PromptBart, a training step* at the sources' size: profile "full", 6,992 tokens in the
  vocabulary. Batches of the lessons' record length, and of the longest that the model reads.
* *Pointer-generator, a training step* at its source's default configuration, notes of 768 tokens
  and summaries of 192. The source states 1.4 s and 7.5 GB for one note in float16, on a laptop
  card of 8 GB. Sixteen notes one after the other are an update as the source takes it.
* *Patients a second* of ``generate_patients``, and *beam search*, with random weights.

A training step is forward, backward, clipping and a fused AdamW, with a GradScaler in float16; the
literal version is the source's loop, the oracle of the tests. Both lower precisions are autocast,
as the course's trainer has them, and float32 multiplies without TF32. Times are wall-clock
medians. Memory is PyTorch's peak, weights and optimizer included; what it reserved stands beside,
which comes closest to what a system monitor shows.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ehr_course.generation.beam_search import BeamSettings, beam_search
from ehr_course.generation.patients import PatientProfile, generate_patients
from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.tokenizers.codes import CodeTokenizer

BENCHMARKS = Path(__file__).resolve().parent
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS.parent / "tests" / "models")]
from gpu_table import Row, provenance, save, table  # noqa: E402
from literal_pointer_generator import LiteralPointerGenerator  # noqa: E402

PRECISIONS = {"float32": None, "float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Sizes:
    """What is measured at which size.

    Attributes:
        profile, codes: of PromptBart.
        records: (records, tokens) of a training batch, one pair for each row.
        patients, max_tokens: to write, and their longest record.
        source, target: tokens of a note and of its summary.
        pointer: of the pointer-generator's configuration, beside its defaults.
        notes: of a training batch, one number for each row.
        accumulated: notes of an update, one after the other.
        searched, search_tokens: notes of a beam search, and the tokens of their summaries.
        seconds: how long a row is repeated; it is measured three times at least.
    """

    profile: str
    codes: int
    records: tuple[tuple[int, int], ...]
    patients: int
    max_tokens: int
    source: int
    target: int
    pointer: dict[str, int]
    notes: tuple[int, ...]
    accumulated: int
    searched: int
    search_tokens: int
    seconds: float


FULL = Sizes(
    profile="full",
    codes=6_985,
    records=((4, 126), (16, 510)),  # 510 tokens and 2 prompts are the 512 positions
    patients=256,
    max_tokens=126,
    source=768,
    target=192,
    pointer={},
    notes=(1, 8),
    accumulated=16,
    searched=8,
    search_tokens=256,
    seconds=3.0,
)
TOY = Sizes(
    profile="narrow",
    codes=12,
    records=((2, 6),),
    patients=3,
    max_tokens=12,
    source=8,
    target=3,
    pointer={"vocab_size": 20, "d_embedding": 4, "d_hidden": 4, "layers": 1},
    notes=(1,),
    accumulated=2,
    searched=2,
    search_tokens=4,
    seconds=0.0,
)


class Job(NamedTuple):
    """A row to come: ``prepare`` builds everything and returns what is timed."""

    part: str
    what: str
    precision: str
    count: int
    unit: str
    prepare: Callable[[], Callable[[], object]]


# ---------------------------------------------------------------------- what is measured


def autocast(device: torch.device, precision: str) -> torch.autocast:
    lower = PRECISIONS[precision]
    return torch.autocast(device.type, dtype=lower or torch.bfloat16, enabled=lower is not None)


def training_step(
    model: nn.Module,
    losses: Sequence[Callable[[], Tensor]],
    device: torch.device,
    precision: str,
) -> Callable[[], None]:
    """An update: the mean of the losses, one after the other, and the optimizer."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    scaler = torch.amp.GradScaler(device.type, enabled=precision == "float16")

    def step() -> None:
        for loss_of in losses:
            with autocast(device, precision):
                loss = loss_of() / len(losses)
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    return step


def make_bart(sizes: Sizes) -> tuple[PromptBart, CodeTokenizer]:
    torch.manual_seed(0)
    tokenizer = CodeTokenizer(f"{number:05d}" for number in range(sizes.codes))
    return PromptBart(PromptBartConfig.for_tokenizer(tokenizer, sizes.profile)), tokenizer


def bart_jobs(sizes: Sizes, device: torch.device) -> Iterator[Job]:
    """Training steps of PromptBart, every position scored."""
    for records, tokens in sizes.records:
        for precision in PRECISIONS:

            def prepare(
                shape: tuple[int, int] = (records, tokens), precision: str = precision
            ) -> Callable[[], None]:
                made, tokenizer = make_bart(sizes)
                model = made.to(device).train()
                generator = torch.Generator().manual_seed(1)
                codes = tokenizer.mask_id + 1, len(tokenizer)
                ids = torch.randint(*codes, shape, generator=generator).to(device)
                batch = {
                    "input_ids": ids,
                    "attention_mask": torch.ones_like(ids),
                    "decoder_input_ids": ids.roll(1, 1),
                    "labels": ids,
                    "x_num": torch.linspace(0, 90, shape[0], device=device)[:, None],
                    "x_cat": torch.arange(shape[0], device=device)[:, None] % 2,
                }
                return training_step(model, [lambda: model(**batch).loss], device, precision)

            what = f"{records} records of {tokens} tokens"
            yield Job("PromptBart, a training step", what, precision, records, "records", prepare)


def make_pointer(sizes: Sizes, **changes: object) -> PointerGenerator:
    torch.manual_seed(0)
    return PointerGenerator(PointerGeneratorConfig(**(sizes.pointer | changes)))


def make_notes(model: PointerGenerator, batch: int, length: int) -> Tensor:
    """Notes, or summaries, of random words, all as long: nothing is padding."""
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(4, model.config.vocab_size, (batch, length), generator=generator)
    ids[:, 0], ids[:, -1] = model.config.bos_token_id, model.config.eos_token_id
    return ids


def pointer_jobs(sizes: Sizes, device: torch.device) -> Iterator[Job]:
    """Training steps of the pointer-generator: the source's loop, and ours."""
    rows = [(notes, 1) for notes in sizes.notes] + [(1, sizes.accumulated)]
    for notes, accumulated in rows:
        for side in ("literal", "our"):
            for precision in PRECISIONS:
                if side == "literal" and precision == "bfloat16":
                    continue  # its clamped logarithm is the source's, in float16 or float32

                def prepare(
                    notes: int = notes,
                    accumulated: int = accumulated,
                    side: str = side,
                    precision: str = precision,
                ) -> Callable[[], None]:
                    ours = make_pointer(sizes).train()
                    source = make_notes(ours, notes, sizes.source).to(device)
                    summary = make_notes(ours, notes, sizes.target + 1).to(device)
                    fed, labels = summary[:, :-1], summary[:, 1:].contiguous()
                    model: nn.Module = ours
                    given = (source, None, fed, labels)
                    if side == "literal":
                        model, given = LiteralPointerGenerator.like(ours), (source, fed, labels)
                    model = model.to(device)
                    losses = [lambda: model(*given).loss] * accumulated
                    return training_step(model, losses, device, precision)

                what = f"{notes} note{'s' * (notes > 1)}, {side} loop"
                if accumulated > 1:
                    what = f"an update of {accumulated} notes one after the other, {side} loop"
                part, count = "Pointer-generator, a training step", notes * accumulated
                yield Job(part, what, precision, count, "notes", prepare)


def patient_jobs(sizes: Sizes, device: torch.device) -> Iterator[Job]:
    """Patients written by PromptBart, all in one batch and in batches of 64."""
    for batch_size in sorted({min(64, sizes.patients), sizes.patients}):
        for precision in PRECISIONS:

            def prepare(
                batch_size: int = batch_size, precision: str = precision
            ) -> Callable[[], object]:
                made, tokenizer = make_bart(sizes)
                model = made.to(device).eval()
                wanted = [PatientProfile(n % 91, "FM"[n % 2]) for n in range(sizes.patients)]

                def write() -> object:
                    with autocast(device, precision):
                        return generate_patients(
                            model,
                            tokenizer,
                            wanted,
                            batch_size=batch_size,
                            max_tokens=sizes.max_tokens,
                        )

                return write

            what = f"{sizes.max_tokens} tokens at most, {batch_size} patients at a time"
            yield Job("Patients a second", what, precision, sizes.patients, "patients", prepare)


def search_jobs(sizes: Sizes, device: torch.device) -> Iterator[Job]:
    """Beam search with the source's settings; every search goes on to the end."""
    settings = BeamSettings.of_the_source()
    n = sizes.search_tokens
    settings = replace(settings, max_length=n, min_length=min(n, settings.min_length))
    for precision in PRECISIONS:

        def prepare(precision: str = precision) -> Callable[[], object]:
            model = make_pointer(sizes, coverage=True).eval()
            with torch.no_grad():
                nn.init.normal_(model.decoder.attention.cover, std=0.1)
                model.decoder.vocabulary.bias[model.config.eos_token_id] = -1e4
            notes = make_notes(model, sizes.searched, sizes.source).to(device)
            model = model.to(device)

            def search() -> object:
                with autocast(device, precision):
                    return beam_search(model, notes, settings=settings)

            return search

        what = f"{sizes.searched} notes at a time, 4 beams, {n} tokens"
        yield Job("Beam search", what, precision, sizes.searched, "notes", prepare)


PARTS = (bart_jobs, pointer_jobs, patient_jobs, search_jobs)


# ---------------------------------------------------------------------- measuring


def measured(job: Job, device: torch.device, seconds: float, until: float) -> Row:
    """Run a job: a row with its seconds and its memory, or with the reason that it has none."""
    row = Row(job.part, job.what, job.precision, count=job.count, unit=job.unit)
    if time.monotonic() > until:
        return row._replace(problem="not reached in time")
    on_gpu = device.type == "cuda"
    try:
        if on_gpu:
            gc.collect()  # the model of the row before
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device)
        run = job.prepare()
        run()  # the first one chooses kernels and takes memory
        taken: list[float] = []
        while len(taken) < 3 or (sum(taken) < seconds and len(taken) < 30):
            if on_gpu:
                torch.cuda.synchronize(device)
            began = time.perf_counter()
            run()
            if on_gpu:
                torch.cuda.synchronize(device)
            taken.append(time.perf_counter() - began)
            if time.monotonic() > until:
                break
    except torch.OutOfMemoryError:
        return row._replace(problem="out of memory")
    except Exception as error:  # one row must not end the others
        first = (str(error).splitlines() or [""])[0]
        return row._replace(problem=f"failed: {type(error).__name__}: {first}")
    row = row._replace(seconds=tuple(taken))
    if on_gpu:
        row = row._replace(
            allocated=torch.cuda.max_memory_allocated(device) / 1e9,
            reserved=torch.cuda.max_memory_reserved(device) / 1e9,
        )
    return row


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("gpu.md"), help="the Markdown file")
    parser.add_argument("--minutes", type=float, default=9.0, help="no row begins after that")
    parser.add_argument("--toy", action="store_true", help="toy sizes, also without a GPU")
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(given)
    if not (options.toy or torch.cuda.is_available()):
        parser.error("there is no GPU here; --toy runs everything at toy size on the processor")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sizes = TOY if options.toy else FULL
    until = time.monotonic() + 60 * options.minutes
    where = provenance(device, shlex.join(["python", "benchmarks/gpu.py", *given]), options.toy)
    # oneDNN's LSTM knows float16 on few processors; PyTorch's own knows it on all.
    plain = torch.backends.mkldnn.flags(enabled=False)
    rows: list[Row] = []
    with plain if device.type == "cpu" else contextlib.nullcontext():
        for job in (job for part in PARTS for job in part(sizes, device)):
            rows.append(row := measured(job, device, sizes.seconds, until))
            said = row.problem or f"{row.median:.3g} s"
            print(f"{row.part}, {row.what}, {row.precision}: {said}", flush=True)
            # After each row: a run that is cut off leaves what it has.
            save(f"# Measured on a GPU\n\n{where}\n\n{table(rows)}\n", options.out)
    print(f"The table is in {options.out}")
    return int(any(row.problem.startswith("failed") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
