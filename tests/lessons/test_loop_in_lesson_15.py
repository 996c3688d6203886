"""The worked loop of 15.8 is the library's trainer, bit for bit; and the lesson trains with it."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ehr_course import (
    CodeTokenizer,
    Corruption,
    LengthBatchSampler,
    PromptBart,
    PromptBartConfig,
    RecordDataset,
    Trainer,
    TrainingConfig,
    make_cohort,
)
from ehr_course.exercises.worked_answers import names_of, worked_answer

COHORT = make_cohort(60, seed=0)
TOKENIZER = CodeTokenizer.from_records(COHORT)
DATASET = RecordDataset(COHORT, TOKENIZER, corruption=Corruption(p_empty=0.5), seed=0)
STEPS = 12


def new_model() -> PromptBart:
    torch.manual_seed(0)
    size = {"d_model": 16, "d_prompt": 8, "encoder_layers": 1, "decoder_layers": 1}
    return PromptBart(PromptBartConfig.for_tokenizer(TOKENIZER, "tiny", **size))


def worked_train(scale: float) -> Any:
    """The worked loop, with the trainer's AdamW and first scale in place of the defaults."""
    names = names_of("15.8", worked_answer("15.8"))
    optim = SimpleNamespace(AdamW=partial(torch.optim.AdamW, fused=True, weight_decay=0.0))
    scaler = partial(torch.amp.GradScaler, init_scale=scale)
    amp = SimpleNamespace(GradScaler=scaler)
    train = names["train"]
    train.__globals__["torch"] = _With(torch, optim=optim, amp=amp)
    return train


class _With:
    """A module with some of its names replaced."""

    def __init__(self, module: Any, **names: Any) -> None:
        self._module = module
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


@pytest.mark.parametrize(
    ("n_micro", "precision", "scale"),
    [(1, "float32", 1.0), (4, "float32", 1.0), (3, "bfloat16", 1.0), (4, "float16", 2.0**24)],
)
def test_the_worked_loop_trains_the_weights_of_the_trainer(
    n_micro: int, precision: Any, scale: float
) -> None:
    settings = {"steps": STEPS, "lr": 5e-3, "warmup_steps": 3}
    config = TrainingConfig(
        **settings,
        batch_size=16,
        gradient_accumulation_steps=n_micro,
        weight_decay=0.0,
        precision=precision,
        init_scale=scale,
    )
    trainer = Trainer(new_model(), DATASET, config, device="cpu")
    rows = trainer.run().rows
    plan = LengthBatchSampler(DATASET.lengths, 16, seed=0)
    batches = []
    for epoch in range(-(-len(rows) // len(plan))):
        plan.set_epoch(epoch)
        for key in plan:
            cut = {name: t.tensor_split(n_micro) for name, t in DATASET[key].items()}
            batches.append([{name: cut[name][i] for name in cut} for i in range(n_micro)])
    model = new_model()
    torch.manual_seed(0)
    losses = worked_train(scale)(
        model,
        batches,
        loss_sum=lambda model, micro: model(**micro).loss_sum,
        dtype=getattr(torch, precision),
        **settings,
    )
    assert any(row["skipped"] for row in rows) == (precision == "float16")
    assert len(losses) == len(rows) > len(plan)
    theirs = dict(trainer.model.named_parameters())
    for name, weight in model.named_parameters():
        assert torch.equal(weight, theirs[name]), name
