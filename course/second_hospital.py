"""The sweep that lesson 18 reads: a second hospital has 200 patients, and what is trained on them.

For each seed another 200 patients: 150 to learn from, 50 to choose the learning rate and the
number of steps. All are tested on the same patients, whom no method has seen.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, cast

import polars as pl
import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import Tensor, nn

from course.auxiliary_weights import divergence
from course.console import say
from ehr_course.batches.corruption import Corruption
from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.sampler import LengthBatchSampler
from ehr_course.generation.patients import PatientProfile, generate_patients
from ehr_course.models.prefix_tuning import PrefixConfig, PrefixTuned
from ehr_course.models.prompt_bart import PromptBart
from ehr_course.models.saved import LoadedModel, load_checkpoint
from ehr_course.records import PatientRecord
from ehr_course.sources.synthetic import make_cohort
from ehr_course.training.config import TrainingConfig
from ehr_course.training.trainer import Trainer

SEEDS = (0, 1, 2, 3, 4)
LEARN, CHOOSE, TEST = 150, 50, 1_000
STEPS, EVALUATE_EVERY, N_TOKENS, D_HIDDEN = 160, 10, 8, 64
RANK, ALPHA = 4, 8
EVERYWHERE = PrefixConfig(N_TOKENS, decoder=True, cross=True, encoder=True)
"""As Li and Liang have it for an encoder-decoder: in all three attentions."""
TEST_SEED = 1_000
MAX_TOKENS = 128
"""Of a written record; the longest one of these hospitals is far shorter."""


Adapted = PromptBart | PrefixTuned


class Method(NamedTuple):
    """One way to adapt a model.

    Attributes:
        make: from a copy of the trained model and a seed, the model to train.
        rates: the learning rates to choose from; none where nothing is trained.
    """

    make: Callable[[PromptBart, int], Adapted]
    rates: tuple[float, ...]


class SoftPrompt(nn.Module):
    """Learned vectors before the prompts of age and sex: takes the place of a ConditionalPrompt.

    Args:
        prompt: the one that the model has.
        n_tokens: how many vectors.
        d_model: their width.
    """

    def __init__(self, prompt: nn.Module, n_tokens: int, d_model: int) -> None:
        super().__init__()
        self.prompt = prompt
        self.vectors = nn.Parameter(0.1 * torch.randn(n_tokens, d_model))

    def forward(self, x_num: Tensor, x_cat: Tensor) -> Tensor:
        """Prompts (batch, n_tokens + n_prompts, d_model)."""
        prompts = self.prompt(x_num, x_cat)
        learned = self.vectors.expand(len(prompts), -1, -1)
        return torch.cat([learned, prompts], dim=1)


def prompt_tuned(base: PromptBart, seed: int) -> PromptBart:
    """The model with learned vectors before encoder and decoder; nothing else is trained."""
    base.requires_grad_(False)
    torch.manual_seed(seed)
    width = base.config.d_model
    assert base.encoder_prompt is not None and base.decoder_prompt is not None
    base.encoder_prompt = SoftPrompt(base.encoder_prompt, N_TOKENS, width)
    base.decoder_prompt = SoftPrompt(base.decoder_prompt, N_TOKENS, width)
    return base


def output_bias(base: PromptBart, seed: int) -> PromptBart:
    """The model with one number for each token added to its logits; nothing else is trained."""
    base.requires_grad_(False)
    bias = base.final_logits_bias
    del base.final_logits_bias
    base.register_parameter("final_logits_bias", nn.Parameter(bias.clone()))
    return base


def low_rank(base: PromptBart, seed: int) -> PromptBart:
    """The model with a product of two narrow matrices added to each query and value projection."""
    base.requires_grad_(False)
    torch.manual_seed(seed)
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=["q_proj", "v_proj"])
    return cast(PromptBart, inject_adapter_in_model(config, base))


def from_scratch(base: PromptBart, seed: int) -> PromptBart:
    """A new model of the same size."""
    torch.manual_seed(seed)
    return PromptBart(base.config)


METHODS: dict[str, Method] = {
    "nothing": Method(lambda base, seed: base, ()),
    "output bias": Method(output_bias, (1e-2, 3e-2, 1e-1)),
    "prompt": Method(prompt_tuned, (1e-2, 3e-2, 1e-1, 3e-1)),
    "prefix": Method(
        lambda base, seed: PrefixTuned(base, PrefixConfig(N_TOKENS), seed=seed),
        (1e-2, 3e-2, 1e-1, 3e-1),
    ),
    "projected prefix": Method(
        lambda base, seed: PrefixTuned(base, PrefixConfig(N_TOKENS, D_HIDDEN), seed=seed),
        (1e-3, 3e-3, 1e-2),
    ),
    "prefix everywhere": Method(
        lambda base, seed: PrefixTuned(base, EVERYWHERE, seed=seed), (1e-2, 3e-2, 1e-1, 3e-1)
    ),
    "LoRA": Method(low_rank, (3e-4, 1e-3, 3e-3, 1e-2)),
    "full": Method(lambda base, seed: base, (3e-5, 1e-4, 3e-4)),
    "from scratch": Method(from_scratch, (1e-3, 3e-3, 1e-2)),
}


def sweep(folder: Path) -> int:
    """Train and judge all methods with each seed, and rewrite ``sweep.csv`` after each.

    Returns:
        How many rows there are: methods times seeds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    loaded = load_checkpoint("tiny_prompt_bart")
    test = make_cohort(TEST, seed=TEST_SEED, hospital="heart")
    rows = []
    for seed in SEEDS:
        patients = make_cohort(LEARN + CHOOSE, seed=seed, hospital="heart")
        for name, method in METHODS.items():
            row = _judged(loaded, method, seed, patients[:LEARN], patients[LEARN:], test)
            named = {"method": name} | row
            rows.append({n: round(v, 5) if isinstance(v, float) else v for n, v in named.items()})
            unfinished = folder / ".sweep.csv"
            pl.DataFrame(rows, infer_schema_length=None).write_csv(unfinished)
            unfinished.replace(folder / "sweep.csv")
            say(f"{name}, seed {seed}: done")
    return len(rows)


def _judged(
    loaded: LoadedModel,
    method: Method,
    seed: int,
    learn: list[PatientRecord],
    choose: list[PatientRecord],
    test: list[PatientRecord],
) -> dict[str, float | int | None]:
    base, own = loaded.of_patients()
    tokenizer = own.skipping_unseen()
    data = {
        name: RecordDataset(part, tokenizer, corruption=Corruption(p_empty=1.0), seed=seed)
        for name, part in (("learn", learn), ("choose", choose), ("test", test))
    }
    best = _Best()
    if not method.rates:
        model = method.make(copy.deepcopy(base), seed)
        best.judge(model, token_loss(model, data["choose"]), lr=None, step=0)
    for lr in method.rates:
        model = method.make(copy.deepcopy(base), seed)
        _train(model, data["learn"], data["choose"], lr, seed, best)
    assert best.model is not None  # the first one that was judged
    model = best.model
    wanted = [PatientProfile(patient.age, patient.sex) for patient in test]
    written = generate_patients(model, own, wanted, seed=seed, max_tokens=MAX_TOKENS)
    n_trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {
        "trained": n_trained if method.rates else 0,
        "seed": seed,
        "lr": best.lr,
        "step": best.step,
        "loss_to_choose": best.loss,
        "loss": token_loss(model, data["test"]),
        "divergence": divergence(written, test, tokenizer.codes),
    }


class _Best:
    """The model with the lowest loss so far, as it was then."""

    def __init__(self) -> None:
        self.loss, self.step = math.inf, 0
        self.lr: float | None = None
        self.model: Adapted | None = None

    def judge(self, model: Adapted, loss: float, *, lr: float | None, step: int) -> None:
        if loss < self.loss:
            self.loss, self.lr, self.step = loss, lr, step
            self.model = copy.deepcopy(model).eval()


def _train(
    model: Adapted,
    learn: RecordDataset,
    choose: RecordDataset,
    lr: float,
    seed: int,
    best: _Best,
) -> None:
    """Train with one learning rate, and keep the model at the step that is best."""
    config = TrainingConfig(
        steps=STEPS,
        lr=lr,
        warmup_steps=STEPS // 10,
        seed=seed,
        evaluate_every=EVALUATE_EVERY,
        group_by_length=True,
    )

    def evaluate(now: nn.Module) -> dict[str, float]:
        assert isinstance(now, PromptBart | PrefixTuned)  # the trainer hands over what it trains
        loss = token_loss(now, choose)
        best.judge(now, loss, lr=lr, step=trainer.step)
        return {"loss": loss}

    trainer = Trainer(model, learn, config, evaluate=evaluate, device="cpu")
    trainer.run()


@torch.no_grad()
def token_loss(model: nn.Module, dataset: RecordDataset) -> float:
    """The mean loss, in nats a token, of a model that is in evaluation mode or put into it."""
    model.eval()
    keys = LengthBatchSampler(dataset.lengths, 64, shuffle=False, group_by_length=True)
    outputs = [model(**dataset[key]) for key in keys]
    return float(sum(o.loss_sum for o in outputs) / sum(o.loss_count for o in outputs))
