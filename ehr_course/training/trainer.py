"""One trainer for every model of the course: float16 with loss scaling, and exact resuming.

The model's forward takes a batch as keywords and returns an output with ``terms``, each a sum and
a count. Every step divides by the counts of the whole batch. So a batch may be cut into parts and
shared among processes, and the gradient stays that of the batch.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ehr_course.batches.datasets import BatchDataset
from ehr_course.batches.plan import BatchPlan, data_loader
from ehr_course.errors import InputError
from ehr_course.training.checkpoints import (
    TrainingState,
    checkpoints,
    load_model_tensors,
    load_optimizer_tensors,
    model_tensors,
    optimizer_tensors,
    random_states,
    read_checkpoint,
    set_random_states,
    write_checkpoint,
)
from ehr_course.training.config import TrainingConfig, check_same_training, training_identity
from ehr_course.training.history import Progress, TrainingHistory
from ehr_course.training.optimization import (
    GradientStep,
    average_in_use,
    use_average,
    warmup_cosine_factor,
)
from ehr_course.training.processes import Processes, deferred_interrupt, ignore_interrupts
from ehr_course.training.validation import BestModel, read_best, validation_loss, write_best


class Trainer:
    """Trains a model.

    Args:
        model: its forward takes a batch as keywords and returns an output with ``terms``.
        dataset: gives the batches.
        config: the settings.
        validation: examples to evaluate on, or None.
        folder: where checkpoints, the best weights and the history go; without one nothing is
            written. A folder with checkpoints of this training is resumed from.
        evaluate: called with the model, returns numbers by name besides the "loss" on the
            validation data. Of several processes, the first alone calls it.
        device: where to train; the GPU if there is one.
        num_workers: processes that prepare batches.
        progress: whether to show a bar, with loss, learning rate, scale and tokens per second.
        tensorboard: a folder for TensorBoard's files, or None.

    Attributes:
        history: a row for each step.
        step: how often the weights have changed.

    Raises:
        InputError: if the processes under torchrun do not have the same data and settings, the
            folder cannot be made or holds the checkpoint of another training, or training is to
            stop early and there is nothing to evaluate.
    """

    def __init__(
        self,
        model: nn.Module,
        dataset: BatchDataset,
        config: TrainingConfig,
        *,
        validation: BatchDataset | None = None,
        folder: str | Path | None = None,
        evaluate: Callable[[nn.Module], Mapping[str, float]] | None = None,
        device: str | torch.device | None = None,
        num_workers: int = 0,
        progress: bool = False,
        tensorboard: str | Path | None = None,
    ) -> None:
        self.processes = Processes.from_environment()
        self.config, self.dataset, self.validation = config, dataset, validation
        self.folder = Path(folder) if folder is not None else None
        self.device = torch.device(device or _best_device(self.processes))
        self.model = model.to(self.device)
        self._evaluate_more = evaluate
        self._names = {id(p): name for name, p in model.named_parameters()}
        if validation is None and evaluate is None and config.patience:
            raise InputError(
                "Trainer",
                "patience",
                "there is nothing to evaluate, so training would never stop early",
                "Give validation data or an evaluation.",
            )
        self._identity = training_identity(model, dataset, config, self.processes.world)
        self.processes.agree(
            self._identity
            | {
                "validation": None if validation is None else validation.fingerprint,
                "evaluate": evaluate is not None,
                "folder": self.folder is not None,
            }
        )
        self._gradient_step = GradientStep(
            model, config, processes=self.processes, device=self.device
        )
        self.optimizer, self.scaler = self._gradient_step.optimizer, self._gradient_step.scaler
        self.history = TrainingHistory()
        self.step, self.epoch, self.batch = 0, 0, 0
        self._best = BestModel(config.metric, patience=config.patience)
        outside = random_states()
        torch.manual_seed(config.seed + self.processes.rank)  # dropout
        if self.folder is not None:
            self._make_folder(self.folder)
            self._resume(self.folder)
        # While the training runs, its random states are those of the generators themselves.
        self._random: dict[str, Tensor] | None = random_states()
        set_random_states(outside)
        self._loader = data_loader(
            dataset,
            config.batch_size,
            seed=config.seed,
            num_workers=num_workers,
            group_by_length=config.group_by_length,
            equal_tokens=config.equal_tokens,
        )
        self._loader.worker_init_fn = ignore_interrupts
        assert isinstance(self._loader.sampler, BatchPlan)
        self._plan = self._loader.sampler
        self._progress = (
            Progress(shown=progress, tensorboard=tensorboard)
            if self.processes.is_first
            else Progress(shown=False)
        )

    # ------------------------------------------------------------------ the loop

    def run(self) -> TrainingHistory:
        """Train until the last step, or until no evaluation gets better.

        An interrupt (Ctrl-C) is obeyed at the end of the step: a checkpoint is written, the
        message says how to go on, and the interrupt goes on its way. A second one is obeyed at
        once.

        Raises:
            InputError: if the loss or its gradient is no longer a number, or a batch has no scored
                token. The checkpoints written before are whole.
        """
        self.optimizer.zero_grad()  # of a step that an interrupt broke off
        self.model.train()
        try:
            with (
                self._progress.bar(done=self.step, total=self.config.steps) as bar,
                deferred_interrupt() as interrupted,
                self._own_randomness(),
            ):
                while not self.is_finished:
                    self._plan.set_epoch(self.epoch, start=self.batch)
                    for batch in self._loader:
                        row = self._one_step(batch)
                        self._progress.show_step(bar, row)
                        self._after(row)
                        # All processes stop after the same step, whichever was interrupted.
                        if any(self.processes.gather(interrupted.is_set())):
                            self._stop_here()
                        if self.is_finished:
                            break
                    else:
                        self.epoch, self.batch = self.epoch + 1, 0
        finally:
            self.model.eval()
            self._progress.flush()
        use_average(self.optimizer)
        return self.history

    @property
    def is_finished(self) -> bool:
        """Whether the last step is done, or there were too many evaluations without a better."""
        return self.step >= self.config.steps or self._best.is_given_up

    @contextlib.contextmanager
    def _own_randomness(self) -> Iterator[None]:
        """Draw from the training's own random states, and leave the caller's as they were."""
        outside = random_states()
        if self._random is None:
            raise RuntimeError("This training is running already.")
        set_random_states(self._random)
        self._random = None
        try:
            yield
        finally:
            self._random = random_states()
            set_random_states(outside)

    def _one_step(self, batch: dict[str, Tensor]) -> dict[str, float]:
        began = time.perf_counter()
        lr = self.config.lr * warmup_cosine_factor(
            self.step, warmup_steps=self.config.warmup_steps, total_steps=self.config.steps
        )
        taken = self._gradient_step.take(
            batch, lr=lr, place=f"epoch {self.epoch}, batch {self.batch}"
        )
        self.step += not taken.skipped
        row = {
            "step": self.step,
            "epoch": self.epoch,
            "batch": self.batch,
            "loss": taken.loss,
            **(taken.terms if len(taken.terms) > 1 else {}),
            "lr": lr,
            "scale": taken.scale,
            "gradient_norm": taken.gradient_norm,
            "skipped": taken.skipped,
            "tokens": taken.tokens,
            "seconds": time.perf_counter() - began,
        }
        self.batch += 1
        return row

    # ------------------------------------------------------------------ after a step

    def _after(self, row: dict[str, Any]) -> None:
        self.history.add(row)
        if row["skipped"]:
            return
        if self._is_due(self.config.evaluate_every) and (self.validation or self._evaluate_more):
            with average_in_use(self.optimizer):
                self._judge(self.evaluate())
        if self._is_due(self.config.checkpoint_every):
            self.save()

    def _is_due(self, every: int) -> bool:
        return self.is_finished or (every > 0 and self.step % every == 0)

    def evaluate(self) -> dict[str, float]:
        """The loss on the validation data, and whatever else was asked for.

        Every process has to call it; all get the same numbers.
        """
        was_training, outside = self.model.training, random_states()
        self.model.eval()
        metrics: dict[str, float] = {}
        try:
            if self.validation is not None:
                metrics["loss"] = validation_loss(
                    self.model,
                    self.validation,
                    self.config.batch_size,
                    processes=self.processes,
                    device=self.device,
                    autocast=self._gradient_step.autocast,
                )
            if self._evaluate_more is not None:
                metrics |= self.processes.from_first(self._more_metrics)
        finally:
            set_random_states(outside)
            self.model.train(was_training)
        return metrics

    @torch.no_grad()
    def _more_metrics(self) -> dict[str, float]:
        more = self._evaluate_more(self.model) if self._evaluate_more is not None else {}
        return {name: float(value) for name, value in more.items()}

    def _judge(self, metrics: dict[str, float]) -> None:
        self.history.add_evaluation(metrics)
        is_better = self._best.judge(metrics)
        if is_better and self.folder is not None and self.processes.is_first:
            write_best(self.model, self.folder)
        self._progress.show_metrics(metrics, self.step)

    # ------------------------------------------------------------------ checkpoints

    def save(self) -> None:
        """Write a checkpoint of this moment, if there is a folder."""
        if self.folder is None:
            return
        own = random_states() if self._random is None else self._random
        states = self.processes.gather({n: bytes(state.tolist()) for n, state in own.items()})
        if self.processes.is_first:
            write_checkpoint(self.folder, self.step, self._state(states))
            self.history.write(self.folder / "history.csv")
        self.processes.wait()

    def _state(self, states: list[dict[str, bytes]]) -> TrainingState:
        generators = {
            f"{rank}.{name}": torch.frombuffer(bytearray(state), dtype=torch.uint8)
            for rank, of_rank in enumerate(states)
            for name, state in of_rank.items()
        }
        numbers = {
            "step": self.step,
            "epoch": self.epoch,
            "batch": self.batch,
            "best": self._best.state(),
            "scaler": self.scaler.state_dict(),
            "training": self._identity,
            "history": self.history.rows,
        }
        return TrainingState(
            model_tensors(self.model),
            optimizer_tensors(self.optimizer, self._names),
            generators,
            numbers,
        )

    def _make_folder(self, folder: Path) -> None:
        if not self.processes.is_first:
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                folder,
                "",
                f"the folder cannot be made ({error})",
                "Name another one, in a place where you may write.",
            ) from error

    def _resume(self, folder: Path) -> None:
        found = checkpoints(folder)
        self.processes.agree({"newest checkpoint": found[-1].name if found else "none"})
        if not found:
            return
        state = read_checkpoint(found[-1])
        numbers = state.numbers
        check_same_training(found[-1], numbers["training"], self._identity)
        load_model_tensors(self.model, state.model, found[-1])
        load_optimizer_tensors(self.optimizer, self._names, state.optimizer)
        if numbers["scaler"]:
            self.scaler.load_state_dict(numbers["scaler"])
        self.step, self.epoch, self.batch = (numbers[n] for n in ("step", "epoch", "batch"))
        self._best.load_state(numbers["best"])
        self.history = TrainingHistory(numbers["history"])
        rank = f"{self.processes.rank}."
        set_random_states(
            {n.removeprefix(rank): s for n, s in state.random.items() if n.startswith(rank)}
        )

    def load_best(self) -> None:
        """Give the model the weights that had the best metric.

        Raises:
            InputError: if there is no folder, or nothing was evaluated.
        """
        read_best(self.model, self.folder)

    def _stop_here(self) -> None:
        self.save()
        if self.processes.is_first:
            print(f"Stopped after step {self.step}.")
        # A command catches it and says how its own run goes on.
        raise KeyboardInterrupt(
            f"Run the same training with folder={str(self.folder)!r} to go on from here."
            if self.folder is not None
            else "Nothing is saved: there is no folder."
        )


def _best_device(processes: Processes) -> str:
    if not torch.cuda.is_available():
        return "cpu"
    return f"cuda:{processes.rank % torch.cuda.device_count()}"


# ------------------------------------------------------------------ in one call


def train(
    model: nn.Module,
    dataset: BatchDataset,
    *,
    steps: int,
    batch_size: int = 32,
    lr: float = 2e-3,
    warmup_steps: int | None = None,
    seed: int = 0,
    max_grad_norm: float = 1.0,
    group_by_length: bool = False,
    progress: bool = True,
) -> TrainingHistory:
    """Train a model where it is, for some steps, and write nothing to disk.

    This is ``Trainer`` with the settings that suit a small model; whoever wants float16,
    checkpoints or several processes uses that.

    Args:
        model: its forward takes a batch as keywords and returns an output with ``terms``.
        dataset: gives the batches; every epoch comes in another order.
        steps: how many batches to learn from.
        batch_size: examples in a batch.
        lr: the peak learning rate.
        warmup_steps: over how many steps it rises; a tenth of the steps by default. Then it falls
            along half a cosine.
        seed: orders the batches and drops out units.
        max_grad_norm: the norm that the gradient is clipped to.
        group_by_length: see TrainingConfig.
        progress: whether to show a bar.

    Raises:
        InputError: if a setting is out of its range, or the loss is no longer a number.
    """
    config = TrainingConfig(
        steps=steps,
        batch_size=batch_size,
        lr=lr,
        warmup_steps=steps // 10 if warmup_steps is None else warmup_steps,
        seed=seed,
        max_grad_norm=max_grad_norm,
        group_by_length=group_by_length,
    )
    device = next(model.parameters()).device
    return Trainer(model, dataset, config, device=device, progress=progress).run()
