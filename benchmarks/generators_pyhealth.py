"""Train one generator of PyHealth for some seconds of the processor, and let it write patients.

Run by ``benchmarks/generators.py`` in an environment of its own, where PyHealth is and the course
is not. It reads patients from a JSON file and writes what came out into a folder, as JSON too.

The models and their training loops are PyHealth's, unchanged: the loader of batches ends a
training when its time is up. HALO is read out twice from the same weights: as shipped, and with
the first position after the start left empty, because its training never looks at that position
and its writing takes what comes there for a visit.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import platform
import random
import resource
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from pyhealth.datasets import create_sample_dataset, get_dataloader
from pyhealth.models.generators import corgan, gpt2, halo, medgan, promptehr

FOREVER = 1_000_000
TRANSFORMER = {"embed_dim": 96, "n_heads": 4, "batch_size": 32, "lr": 1e-3}
SETTINGS = {
    "gpt2": TRANSFORMER | {"n_layers": 3, "max_len": 128},
    "halo": TRANSFORMER | {"n_layers": 2, "n_ctx": 8},
    "promptehr": TRANSFORMER | {"n_layers": 2, "max_len": 128},
    "medgan": {"batch_size": 128},
    "corgan": {"batch_size": 128},
}
"""What differs from PyHealth's defaults, which are made for a GPU and hundreds of epochs."""

MODULES = {
    "gpt2": (gpt2, "GPT2", "nested_sequence"),
    "halo": (halo, "HALO", "nested_multihot"),
    "promptehr": (promptehr, "PromptEHR", "nested_sequence"),
    "medgan": (medgan, "MedGAN", "multi_hot"),
    "corgan": (corgan, "CorGAN", "multi_hot"),
}
PRETRAINING = 1 / 3
"""The share of its seconds that a GAN trains its autoencoder for, as of its default epochs."""

FULL = {"top_k": 0, "top_p": 1.0}
"""GPT-2 and PromptEHR draw from all tokens; their defaults, 50 and 0.95, lose the rare codes."""


class TimeIsUpError(Exception):
    """The seconds of a training are over."""


class Timed:
    """A loader of batches that ends the training when its time is up, and counts the batches."""

    def __init__(self, loader, seconds: float) -> None:
        self.loader, self.seconds = loader, seconds
        self.began, self.batches = time.process_time(), 0

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self):
        for batch in self.loader:
            if time.process_time() - self.began > self.seconds:
                raise TimeIsUpError
            self.batches += 1
            yield batch


def samples_of(patients: list[dict], schema: str) -> list[dict]:
    """Patients as PyHealth takes them: visits, or for a GAN one set of all codes."""
    if schema == "multi_hot":
        bags = [sorted({code for visit in p["visits"] for code in visit}) for p in patients]
    else:
        bags = [p["visits"] for p in patients]
    return [{"patient_id": str(number), "visits": bag} for number, bag in enumerate(bags)]


def train(name: str, dataset, seconds: float, folder: str):
    """A model, trained until the time is up, and how many batches and seconds it took."""
    module, cls, schema = MODULES[name]
    options = SETTINGS[name] | {"save_dir": folder}
    timed = []

    def timed_loader(loader) -> Timed:
        timed.append(Timed(loader, seconds))
        return timed[-1]

    if schema == "multi_hot":
        epochs = {"gan_epochs": FOREVER}
        epochs["ae_epochs"] = autoencoder_epochs(name, dataset, seconds * PRETRAINING, folder)
        model = getattr(module, cls)(dataset, **options, **epochs)
        build = model._build_dataloader
        model._build_dataloader = lambda data: timed_loader(build(data))
    else:
        model = getattr(module, cls)(dataset, **options, epochs=FOREVER)
        module.get_dataloader = lambda *a, **kw: timed_loader(get_dataloader(*a, **kw))
    with contextlib.suppress(TimeIsUpError):
        model.train_model(dataset, device="cpu")
    taken = {"steps": timed[0].batches, "training_seconds": time.process_time() - timed[0].began}
    return model.eval(), taken


def autoencoder_epochs(name: str, dataset, seconds: float, folder: str) -> int:
    """How many epochs of its autoencoder a GAN trains in so many seconds."""
    module, cls, _ = MODULES[name]
    options = SETTINGS[name] | {"save_dir": folder, "ae_epochs": 5, "gan_epochs": 0}
    model = getattr(module, cls)(dataset, **options)
    began = time.process_time()
    model.train_model(dataset, device="cpu")
    return max(1, int(5 * seconds / (time.process_time() - began)))


def write(name: str, model, n: int) -> tuple[list[list[list[str]]], dict]:
    """So many patients with at least one code; how many more had none, and what it took."""
    options = FULL if name in ("gpt2", "promptehr") else {}
    patients, empty, began = [], 0, time.process_time()
    while len(patients) < n and empty < 10 * n:
        for patient in model.generate(n - len(patients), device="cpu", **options):
            visits = [visit for visit in patient["visits"] if visit]
            patients += [visits] if visits else []
            empty += not visits
    seconds = time.process_time() - began
    return patients, {"empty_patients": empty, "writing_seconds": seconds}


def leave_first_position_empty(model) -> None:
    """Mend HALO's writing: the position that no training looked at holds no codes."""
    shipped = model.halo_model.sample

    def sample(visits, random=True):
        return visits if visits.shape[1] == 2 else shipped(visits, random)

    model.halo_model.sample = sample


@torch.no_grad()
def perplexity_per_code(name: str, model, dataset, held_out: list[dict]) -> float | None:
    """exp of the mean cost of a code, given all before it; None where a model has no such."""
    if name not in ("gpt2", "promptehr"):
        return None
    known = dataset.input_processors
    samples = samples_of(held_out, "nested_sequence")
    asked = create_sample_dataset(samples, dataset.input_schema, {}, input_processors=known)
    nats, codes = 0.0, 0
    for batch in get_dataloader(asked, batch_size=64):
        if name == "gpt2":
            ids, mask, labels = model._encode_visits(batch["visits"])
            logits = model.gpt2(input_ids=ids, attention_mask=mask).logits[:, :-1]
            labels = labels[:, 1:]
        else:
            labels = model._pad_stack(model._serialize(batch["visits"]), model.pad_id)
            seed = [model.bos_id, model.code_prompt_id, model.mask_id, model.eos_id]
            ids = torch.tensor([seed] * len(labels))
            embeddings, mask = model._encoder_inputs_embeds(ids, torch.ones_like(ids))
            out = model.bart(inputs_embeds=embeddings, attention_mask=mask, labels=labels)
            logits = out.logits
        scored = (labels > 1) & (labels < model.code_vocab_size)  # 0 is <pad>, 1 is <unk>
        costs = -logits.log_softmax(-1)[scored]
        nats += float(costs.gather(-1, labels[scored][:, None]).sum())
        codes += int(scored.sum())
    return math.exp(nats / codes)


def peak_memory() -> float:
    """The most memory that this process has held so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--generator", choices=sorted(MODULES), required=True)
    parser.add_argument("--patients", type=Path, required=True, help="what generators.py wrote")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--write", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    options = parser.parse_args()
    name = options.generator
    torch.set_num_threads(1)
    for seeded in (random.seed, np.random.seed, torch.manual_seed):
        seeded(options.seed)
    patients = json.loads(options.patients.read_text(encoding="utf-8"))
    schema = MODULES[name][2]
    dataset = create_sample_dataset(samples_of(patients["train"], schema), {"visits": schema}, {})
    before = peak_memory()
    with tempfile.TemporaryDirectory() as folder:
        model, taken = train(name, dataset, options.seconds, folder)
    found = {
        **taken,
        "parameters": sum(p.numel() for p in model.parameters()),
        "settings": SETTINGS[name],
        "versions": {
            "python": platform.python_version(),
            **{package: metadata.version(package) for package in ("pyhealth", "torch")},
        },
        "perplexity_per_code": perplexity_per_code(name, model, dataset, patients["held_out"]),
    }
    for mended in (False, True) if name == "halo" else (False,):
        if mended:
            leave_first_position_empty(model)
        visits, more = write(name, model, options.write)
        more |= {"memory_mib": peak_memory() - before, "visits": visits}
        target = options.out / f"{name}{'_mended' * mended}-{options.seed}.json"
        unfinished = target.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(found | more), encoding="utf-8")
        unfinished.replace(target)


if __name__ == "__main__":
    main()
