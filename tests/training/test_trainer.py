"""The trainer's loop, and training in one call."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import small
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn

from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.sampler import LengthBatchSampler
from ehr_course.errors import InputError
from ehr_course.models.prompt_bart import PromptBart, PromptBartConfig
from ehr_course.sources.synthetic import make_cohort
from ehr_course.tokenizers.codes import CodeTokenizer
from ehr_course.training.history import TrainingHistory
from ehr_course.training.trainer import train


def test_a_step_broken_off_in_the_middle_is_taken_again_as_if_nothing_were() -> None:
    settings = {"dropout": 0.0, "gradient_accumulation_steps": 2, "steps": 3}
    whole, made = small.trainer(**settings), small.trainer(**settings)
    whole.run()
    calls = itertools.count(1)

    def break_off(*inputs: object) -> None:
        if next(calls) == 4:  # the second part of the second batch
            raise KeyboardInterrupt

    made.model.register_forward_pre_hook(break_off)
    with pytest.raises(KeyboardInterrupt):
        made.run()
    assert made.step == 1
    made.run()
    for name, weight in small.weights(whole).items():
        assert torch.equal(weight, small.weights(made)[name]), name


def test_a_finished_training_is_not_trained_again(tmp_path: Path) -> None:
    first = small.trainer(tmp_path)
    first.run()
    again = small.trainer(tmp_path)
    assert len(again.run()) == 12
    assert torch.equal(again.model.lm_head.weight, first.model.lm_head.weight)


def test_a_folder_that_cannot_be_is_refused_before_the_first_step(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file: the folder cannot be made"):
        small.trainer(tmp_path / "file")


# ------------------------------------------------------------------ training in one call


RECORDS = make_cohort(60, seed=0)
TOKENIZER = CodeTokenizer.from_records(RECORDS)


def new_model() -> PromptBart:
    torch.manual_seed(0)
    return PromptBart(PromptBartConfig.for_tokenizer(TOKENIZER, d_model=32, dropout=0.0))


def trained(model: PromptBart, **changes: object) -> TrainingHistory:
    settings = {"steps": 30, "batch_size": 16, "seed": 1} | changes
    return train(model, RecordDataset(RECORDS, TOKENIZER), **settings)


def test_the_loss_falls_and_the_model_is_left_ready_to_use() -> None:
    model = new_model()
    history = trained(model)
    assert len(history.losses) == 30
    assert history.loss(5) < 0.8 * history.losses[0]
    assert not model.training


def test_the_same_seed_gives_the_same_weights_and_another_gives_others() -> None:
    models = [new_model() for _ in range(3)]
    for model, seed in zip(models, (1, 1, 2), strict=True):
        trained(model, seed=seed, steps=4)
    first, same, other = (model.model.shared.weight for model in models)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_the_losses_of_two_epochs_are_on_other_corruption() -> None:
    losses = trained(new_model(), steps=8, batch_size=60, lr=1e-12).losses
    assert len(set(losses)) > 4  # the same records in each batch, and almost the same weights


def test_the_first_step_is_adamws_on_the_clipped_gradient() -> None:
    ours, by_hand = new_model(), new_model()
    dataset = RecordDataset(RECORDS, TOKENIZER)
    train(ours, dataset, steps=1, batch_size=60, lr=1e-3, warmup_steps=0, seed=1)

    (key,) = LengthBatchSampler(dataset.lengths, 60, seed=1)
    optimizer = torch.optim.AdamW(by_hand.parameters(), lr=1e-3, weight_decay=0.01)
    by_hand.train()
    by_hand(**dataset[key]).loss.backward()
    torch.nn.utils.clip_grad_norm_(by_hand.parameters(), 1.0)
    optimizer.step()
    torch.testing.assert_close(ours.lm_head.weight, by_hand.lm_head.weight)


def test_the_average_is_torchs_and_is_evaluated_kept_as_the_best_and_used_at_the_end(
    tmp_path: Path,
) -> None:
    plain = small.trainer()

    def moved(average: torch.Tensor, weight: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        return get_ema_avg_fn(min(0.8, 1 - 2 / (int(n) + 2)))(average, weight, n)

    oracle = AveragedModel(plain.model, avg_fn=moved)
    plain.optimizer.register_step_post_hook(lambda *_: oracle.update_parameters(plain.model))
    plain.run()

    judged = []
    averaged = small.trainer(
        tmp_path,
        ema_decay=0.8,
        evaluate_every=12,
        evaluate=lambda model: judged.append(model.lm_head.weight.clone()) or {"loss": 1.0},
    )
    averaged.run()
    for name, weight in oracle.module.named_parameters():
        torch.testing.assert_close(weight, small.weights(averaged)[name], msg=name)
    assert not torch.equal(averaged.model.lm_head.weight, plain.model.lm_head.weight)
    assert torch.equal(judged[0], averaged.model.lm_head.weight)
    final = small.weights(averaged)
    averaged.load_best()
    assert all(
        torch.equal(weight, final[name]) for name, weight in small.weights(averaged).items()
    )


def test_no_step_to_take_is_refused() -> None:
    with pytest.raises(InputError, match="steps: 0 is out of range"):
        trained(new_model(), steps=0)


def test_a_loss_that_is_no_number_stops_the_training_at_its_step() -> None:
    model = new_model()
    model.final_logits_bias[0, 9] = float("nan")
    with pytest.raises(InputError, match=r"the loss is nan"):
        trained(model)
