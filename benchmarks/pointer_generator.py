"""What a training step of the pointer-generator costs beside its literal version. Not a test.

    python benchmarks/pointer_generator.py
    python benchmarks/pointer_generator.py --parts time --batch 1 --repeats 1
    python benchmarks/pointer_generator.py --parts scaling --figure scaling.png

The literal version is the tests' oracle: the step loop of the summariser's source note with the
same parameters. All sides have the sizes of that note: vocabulary 16,000, embedding 128, hidden
256, 2 layers, dropout 0.3, no coverage, notes of 768 tokens, summaries of 192.

* *time*: forward and backward, in float32 on one thread, the optimizer left out. The sides run in
  turn; each ratio compares a literal step with the mean of the steps of ours before and after it,
  and the median of the ratios is given. What is measured is the time of the processor, which no
  side waits away, so that other programs disturb it less. It holds the time of the kernel, which
  is given beside: the literal version makes a new gradient of the vocabulary at every word,
  57 MB, and where the C library maps and unmaps these, that takes nearly as long as the
  arithmetic. The optimizer is timed beside: the fused Adam of the course's trainer, and Adam as
  the source note calls it.
* *memory*: the resident memory of a process at its peak, beyond what it had before the step. Each
  side has a process of its own. Parameters are there before; their gradients count. The C library
  keeps freed memory for later, which the literal version has much of: so it is measured as it
  comes, and with an allocator that is told to give all of it back.
* *scaling*: the same seconds while source, target and batch double, each alone.
* *floor*: the multiplications that no way to compute it can do without, over the rate at which
  this machine multiplies large matrices.

``benchmarks/gpu.py`` measures the step on a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from ehr_course.models.pointer_generator import PointerGenerator, PointerGeneratorConfig

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "models"))
from literal_pointer_generator import LiteralPointerGenerator  # noqa: E402

SOURCE, TARGET, VOCABULARY = 768, 192, 16_000
SIDES = ("literal", "ours")
ALLOCATORS = {
    "as it comes": {},
    "freed memory given back at once": {"MALLOC_MMAP_THRESHOLD_": "1000000"},
}
Batch = dict[str, Tensor]


def make_model(side: str, small: bool) -> nn.Module:
    """The literal version, or our model."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 50, "d_embedding": 8, "d_hidden": 8} if small else {}
    model = PointerGenerator(PointerGeneratorConfig(**sizes)).train()
    return LiteralPointerGenerator.like(model) if side == "literal" else model


def make_batch(batch: int, source: int, target: int, small: bool) -> Batch:
    """Notes and summaries of random words, all of the same length: nothing is padding."""
    generator = torch.Generator().manual_seed(1)
    vocabulary = 50 if small else VOCABULARY
    notes = torch.randint(4, vocabulary, (batch, source), generator=generator)
    summaries = torch.randint(4, vocabulary, (batch, target + 1), generator=generator)
    notes[:, 0], notes[:, -1], summaries[:, 0], summaries[:, -1] = 1, 2, 1, 2
    return {"notes": notes, "fed": summaries[:, :-1], "labels": summaries[:, 1:].contiguous()}


def loss_of(model: nn.Module, batch: Batch) -> Tensor:
    if isinstance(model, LiteralPointerGenerator):
        return model(batch["notes"], batch["fed"], batch["labels"]).loss
    return model(batch["notes"], None, batch["fed"], batch["labels"]).loss


def step(model: nn.Module, batch: Batch) -> float:
    """Seconds of the processor for forward and backward, from no gradients."""
    model.zero_grad(set_to_none=True)
    began = time.process_time()
    loss_of(model, batch).backward()
    return time.process_time() - began


def check_equal(models: dict[str, nn.Module], batch: Batch) -> None:
    """Stop if the sides do not compute the same loss, dropout apart."""
    losses = {}
    with torch.no_grad():
        for side, model in models.items():
            losses[side] = loss_of(model.eval(), batch).item()
            model.train()
    if max(losses.values()) - min(losses.values()) > 1e-3:
        raise SystemExit(f"the sides disagree: {losses}")


# ---------------------------------------------------------------------- time


def compare_times(batch_size: int, repeats: int, size: tuple[int, int], small: bool) -> None:
    batch = make_batch(batch_size, *size, small)
    models = {side: make_model(side, small) for side in SIDES}
    check_equal(models, make_batch(batch_size, 16, 4, small))
    step(models["ours"], batch)  # the first one warms up
    kernel: list[float] = []
    seconds: dict[str, list[float]] = {side: [] for side in SIDES}
    ratios: dict[str, list[float]] = {"literal": []}
    for _ in range(repeats):
        before = step(models["ours"], batch)
        taken = {}
        began = os.times().system
        taken["literal"] = step(models["literal"], batch)
        kernel.append(os.times().system - began)
        taken["ours"] = (before + step(models["ours"], batch)) / 2
        for side in SIDES:
            seconds[side].append(taken[side])
        for side in ratios:
            ratios[side].append(taken[side] / taken["ours"])
    optimizer = {
        side: optimizer_seconds(models["ours"], fused=side == "ours")
        for side in ("literal", "ours")
    }
    median = {side: statistics.median(seconds[side]) for side in SIDES}
    whole = (median["literal"] + optimizer["literal"]) / (median["ours"] + optimizer["ours"])
    print(
        f"  batch {batch_size}: literal {median['literal']:.2f} s "
        f"({statistics.median(kernel):.2f} s of it in the kernel), ours "
        f"{median['ours']:.2f} s; ours is "
        f"{statistics.median(ratios['literal']):.1f} times as fast as the literal version "
        f"({spread(ratios['literal'])}); with Adam "
        f"({optimizer['literal']:.2f} s and {optimizer['ours']:.2f} s) {whole:.1f} times",
        flush=True,
    )


def spread(values: list[float]) -> str:
    return f"{min(values):.1f} to {max(values):.1f} in {len(values)}"


def optimizer_seconds(model: nn.Module, *, fused: bool) -> float:
    """The median of three steps of Adam on a model that has gradients."""
    options = {"fused": True} if fused else {"weight_decay": 1e-4}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0, **options)
    optimizer.step()
    taken = []
    for _ in range(3):
        began = time.process_time()
        optimizer.step()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


# ---------------------------------------------------------------------- memory


def memory_of_this_process(line: str) -> float:
    """MB: "VmRSS", what is resident now, or "VmHWM", the most that was since the program began.

    getrusage also counts what the process that started this one had.
    """
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split(f"{line}:")[1].split()[0]) / 2**10


def peak_of_one_step(side: str, batch_size: int, size: tuple[int, int], small: bool) -> float:
    """MB at the peak of one step, beyond those before it; in this process."""
    step(make_model(side, True), make_batch(2, 24, 6, True))  # the libraries load what they need
    model, batch = make_model(side, small), make_batch(batch_size, *size, small)
    before = memory_of_this_process("VmRSS")
    step(model, batch)
    return memory_of_this_process("VmHWM") - before


def compare_memory(batch_size: int, small: bool) -> None:
    for allocator, variables in ALLOCATORS.items():
        peaks = {}
        for side in SIDES:
            arguments = ["--peak-of", side, "--batch", str(batch_size)]
            done = subprocess.run(
                [sys.executable, __file__, *arguments, *(["--small"] if small else [])],
                env=os.environ | variables,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            peaks[side] = json.loads(done.stdout)
        print(
            f"  batch {batch_size}, {allocator}: literal {peaks['literal']:,.0f} MB, ours "
            f"{peaks['ours']:,.0f} MB: the literal version "
            f"takes {peaks['literal'] / peaks['ours']:.1f} times as much",
            flush=True,
        )


# ---------------------------------------------------------------------- scaling, floor


def scaling(small: bool, figure: Path | None) -> None:
    base = (
        {"source": 24, "target": 6, "batch": 1}
        if small
        else {
            "source": 192,
            "target": 48,
            "batch": 1,
        }
    )
    models = {side: make_model(side, small) for side in ("literal", "ours")}
    curves: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for name in base:
        curves[name] = {side: [] for side in models}
        for factor in (1, 2, 4):
            sizes = base | {name: base[name] * factor}
            batch = make_batch(sizes["batch"], sizes["source"], sizes["target"], small)
            taken = {}
            for side, model in models.items():
                times = [step(model, batch) for _ in range(1 if side == "literal" else 3)]
                taken[side] = statistics.median(times)
                curves[name][side].append((sizes[name], taken[side]))
            print(
                f"  source {sizes['source']:4d}, target {sizes['target']:4d}, batch "
                f"{sizes['batch']}: literal {taken['literal']:6.2f} s, ours "
                f"{taken['ours']:5.2f} s, "
                f"{taken['literal'] / taken['ours']:5.1f} times as fast",
                flush=True,
            )
    if figure is not None:
        draw(curves, figure)


def draw(curves: dict[str, dict[str, list[tuple[int, float]]]], path: Path) -> None:
    """Save seconds over each size, both axes logarithmic, as a PNG."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(7.6, 2.8), layout="constrained", dpi=150)
    units = {"source": "tokens of the note", "target": "tokens of the summary", "batch": "notes"}
    for axes, (name, sides) in zip(
        drawing.subplots(1, len(curves), sharey=True), curves.items(), strict=True
    ):
        for side, style in (("literal", "s--"), ("ours", "o-")):
            sizes, seconds = zip(*sides[side], strict=True)
            axes.loglog(sizes, seconds, style, color="#1f2430", label=side)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.yaxis.set_major_formatter("{x:g}")
        axes.set_xlabel(f"{name}: {units[name]}")
        axes.grid(visible=True, color="#dfe3e8")
    drawing.axes[0].set_ylabel("seconds a training step")
    drawing.axes[0].legend(frameon=False)
    drawing.savefig(path)


def gflop(config: PointerGeneratorConfig, source: int, target: int) -> float:
    """The arithmetic of a training step of one example, in 10^9 multiplications and additions.

    Matrix products alone, each once forward and twice backward; attention keys projected once.
    """
    hidden, width, layers = config.d_hidden, config.d_embedding, config.layers
    encoder = sum(
        2 * source * 4 * hidden * ((width if layer == 0 else 2 * hidden) + hidden)
        for layer in range(layers)
    )
    keys = source * 2 * hidden * hidden
    decoder = target * sum(
        4 * hidden * ((width + 2 * hidden if layer == 0 else hidden) + hidden)
        for layer in range(layers)
    )
    attention = target * (hidden * hidden + source * hidden + source * 2 * hidden)
    vocabulary = target * (3 * hidden + width) * config.vocab_size
    return 3 * 2 * (encoder + keys + decoder + attention + vocabulary) / 1e9


def measured_rate() -> float:
    """GFLOP a second of a product of matrices of 2,048 rows and columns, the best of seven."""
    left, right = torch.rand(2, 2048, 2048)
    taken = []
    for _ in range(7):
        began = time.process_time()
        left @ right
        taken.append(time.process_time() - began)
    return 2 * 2048**3 / 1e9 / min(taken)


def floor(batches: list[int], size: tuple[int, int], small: bool) -> None:
    model = make_model("ours", small)
    work = gflop(model.config, *size)
    print(f"  {work:.3g} GFLOP an example")
    for batch_size in batches:
        batch = make_batch(batch_size, *size, small)
        step(model, batch)
        taken, rates = [], []
        for _ in range(3):
            rates.append(measured_rate())
            taken.append(step(model, batch))
        rate, seconds = max(rates), statistics.median(taken)
        least = batch_size * work / rate
        print(
            f"  batch {batch_size}: {seconds:.2f} s; at {rate:.0f} GFLOP a second the products "
            f"alone take {least:.2f} s: {seconds / least:.1f} times that",
            flush=True,
        )


# ---------------------------------------------------------------------- the command


PARTS = ("time", "memory", "scaling", "floor")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 4, 8], help="batch sizes")
    parser.add_argument("--repeats", type=int, default=3, help="literal steps a batch size")
    parser.add_argument("--figure", type=Path, help="where to save the PNG of the scaling")
    parser.add_argument("--small", action="store_true", help="a tiny model: does it run?")
    parser.add_argument("--peak-of", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    size = (24, 6) if options.small else (SOURCE, TARGET)
    if options.peak_of:
        print(json.dumps(peak_of_one_step(options.peak_of, options.batch[0], size, options.small)))
        return

    def each_batch(measure: Callable[[int], None]) -> None:
        for batch_size in options.batch:
            measure(batch_size)

    if "time" in options.parts:
        print("Forward and backward, float32, one thread")
        each_batch(lambda n: compare_times(n, options.repeats, size, options.small))
    if "memory" in options.parts:
        print("Peak memory of a step, beyond what was there before")
        each_batch(lambda n: compare_memory(n, options.small))
    if "scaling" in options.parts:
        print("Source, target and batch doubled, each alone")
        scaling(options.small, options.figure)
    if "floor" in options.parts:
        print("Distance from the arithmetic")
        floor(options.batch, size, options.small)


if __name__ == "__main__":
    main()
