"""One trainer for every model of the course, to be read from top to bottom.

Every step divides the sum of its losses by the counts of the whole batch, so a batch can be cut
into parts and shared among processes without changing its gradient.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from tqdm import tqdm

from ehr_course.batches.datasets import BatchDataset
from ehr_course.batches.sampler import LengthBatchSampler, data_loader
from ehr_course.errors import InputError
from ehr_course.losses import NOT_SCORED, LossTerm, loss_counts, loss_terms, weighted_total
from ehr_course.training.checkpoints import (
    TrainingState,
    checkpoints,
    load_model_tensors,
    load_optimizer_tensors,
    model_tensors,
    optimizer_tensors,
    random_states,
    read_best,
    read_checkpoint,
    set_random_states,
    write_best,
    write_checkpoint,
)
from ehr_course.training.config import TrainingConfig, check_same_training, training_identity
from ehr_course.training.history import TrainingHistory, show_step
from ehr_course.training.processes import Processes, deferred_interrupt, ignore_interrupts


class Trainer:
    """Trains a model: in float16 or bfloat16 if asked, on several GPUs, resuming to the bit.

    Args:
        model: its forward takes a batch as keywords and returns a loss (see
            ``losses.loss_terms``). Entries of the batch that it has no argument for are left out.
        folder: where checkpoints, the best weights and the history go; without one nothing is
            written. Training resumes from the newest checkpoint there.
        evaluate: takes the model and returns metrics by name, beside the "loss" on the
            validation data. Only the first of several processes calls it.
        device: the GPU by default, if there is one.
        num_workers: processes that prepare batches.
        progress: whether to show a bar with loss, learning rate, scale and tokens per second.

    Attributes:
        history: a row for each step.
        step: how often the weights have changed.

    Raises:
        InputError: if processes differ in data or settings, the folder cannot be made or belongs
            to another training, or early stopping has nothing to evaluate.
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
    ) -> None:
        if validation is None and evaluate is None and config.patience:
            raise InputError(
                "Trainer",
                "patience",
                "there is nothing to evaluate, so training would never stop early",
                "Give validation data or an evaluation.",
            )
        self.processes = Processes.from_environment()
        self.config, self.dataset, self.validation = config, dataset, validation
        self.folder = Path(folder) if folder is not None else None
        self.device = torch.device(device or self.processes.best_device())
        self._more_metrics = evaluate
        self._identity = training_identity(model, dataset, config, self.processes.world)
        self.processes.agree(
            self._identity
            | {
                "validation": None if validation is None else validation.fingerprint,
                "evaluate": evaluate is not None,
                "folder": self.folder is not None,
            }
        )

        self.model = model.to(self.device)
        self._shared: Any = model  # during a run of several processes, DistributedDataParallel
        # The entries of a batch that the forward takes; None for all of them.
        arguments = inspect.signature(model.forward).parameters.values()
        takes_all = any(argument.kind is argument.VAR_KEYWORD for argument in arguments)
        self._taken = None if takes_all else {argument.name for argument in arguments}
        self.optimizer = torch.optim.AdamW(
            decay_groups(model, config.weight_decay),
            lr=config.lr,
            betas=config.betas,
            fused=True,
        )
        self.scaler = torch.amp.GradScaler(
            self.device.type,
            init_scale=config.init_scale,
            growth_interval=config.growth_interval,
            enabled=config.precision == "float16",
        )
        self._loader = data_loader(
            dataset,
            config.batch_size,
            num_workers=num_workers,
            seed=config.seed,
            group_by_length=config.group_by_length,
            equal_tokens=config.equal_tokens,
        )
        self._loader.worker_init_fn = ignore_interrupts

        self.history = TrainingHistory()
        self.step, self.epoch, self.batch = 0, 0, 0
        self._best, self._n_worse = math.inf, 0  # the best metric, and evaluations since then
        outside = random_states()
        torch.manual_seed(config.seed + self.processes.rank)  # dropout
        if self.folder is not None:
            self._resume(self.folder)
        # The training's own random states; None while it runs and the generators hold them.
        self._random: dict[str, Tensor] | None = random_states()
        set_random_states(outside)
        self._bar_options: dict[str, Any] = {"unit": "step", "leave": False}
        if not (progress and self.processes.is_first):  # else TQDM_DISABLE decides
            self._bar_options["disable"] = True

    # ------------------------------------------------------------------ the loop

    def run(self) -> TrainingHistory:
        """Train until the last step, or until evaluations stop improving.

        Ctrl-C writes a checkpoint at the end of the step and is then raised; a second Ctrl-C is
        raised at once.
        """
        plan = self._loader.sampler
        assert isinstance(plan, LengthBatchSampler)
        self.optimizer.zero_grad()  # an interrupt may have left part of a gradient
        self.model.train()
        try:
            with (
                tqdm(total=self.config.steps, initial=self.step, **self._bar_options) as bar,
                deferred_interrupt() as interrupted,
                self._own_randomness(),
                self._shared_gradients(),
            ):
                while not self.is_finished:
                    plan.set_epoch(self.epoch, start=self.batch)
                    for batch in self._loader:
                        row = self._take_step(batch)
                        show_step(bar, row)
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
        use_average(self.optimizer)
        return self.history

    @property
    def is_finished(self) -> bool:
        """Whether the last step is done, or patience has run out."""
        is_given_up = 0 < self.config.patience <= self._n_worse
        return self.step >= self.config.steps or is_given_up

    def _stop_here(self) -> None:
        self.save()
        if self.processes.is_first:
            print(f"Stopped after step {self.step}.")
        # The command line catches it, and says how to resume its own run.
        raise KeyboardInterrupt(
            f"Run the same training with folder={str(self.folder)!r} to go on from here."
            if self.folder is not None
            else "Nothing is saved: there is no folder."
        )

    @contextlib.contextmanager
    def _shared_gradients(self) -> Iterator[None]:
        """Let the backward pass add up the gradients of all processes.

        DistributedDataParallel is freed here, before the process group. If it held the last
        reference to a gloo group, freeing it could deadlock with a thread that waits for Python.
        """
        if self.processes.world > 1:
            self._shared = DistributedDataParallel(self.model)
        try:
            yield
        finally:
            self._shared = self.model

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

    # ------------------------------------------------------------------ one step

    def _take_step(self, batch: Mapping[str, Tensor]) -> dict[str, Any]:
        """Update the weights once, unless the gradient overflows in float16; return a history row.

        The batch is the whole one, the same in every process.
        """
        began = time.perf_counter()
        config, place = self.config, f"epoch {self.epoch}, batch {self.batch}"
        counts = loss_counts(batch["labels"])
        if counts["token"] == 0:
            raise InputError(
                "training",
                place,
                "the batch has no scored token",
                f"Leave records whose labels are all {NOT_SCORED} out of the dataset.",
            )
        lr = config.lr * warmup_cosine_factor(
            self.step, warmup_steps=config.warmup_steps, total_steps=config.steps
        )
        for group in self.optimizer.param_groups:
            group["lr"] = lr

        loss, terms = self._backward(batch, counts)
        if not math.isfinite(loss):
            raise _not_a_number(place, f"the loss is {loss}")

        self.scaler.unscale_(self.optimizer)
        norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), config.max_grad_norm))
        scale = self.scaler.get_scale()
        # In float16 a smaller scale may help, but the scale is not to blame once it is down to 1.
        if not math.isfinite(norm) and scale <= 1:
            raise _not_a_number(place, f"the norm of the gradient is {norm}")

        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        skipped = self.scaler.get_scale() < scale
        if not skipped:
            self.step += 1
            if config.ema_decay:
                update_average(self.optimizer, config.ema_decay)
        row = {
            "step": self.step,
            "epoch": self.epoch,
            "batch": self.batch,
            "loss": loss,
            **(terms if len(terms) > 1 else {}),
            "lr": lr,
            "scale": scale,
            "gradient_norm": norm,
            "skipped": skipped,
            "tokens": counts["token"],
            "seconds": time.perf_counter() - began,
        }
        self.batch += 1
        return row

    def _backward(
        self, batch: Mapping[str, Tensor], counts: dict[str, int]
    ) -> tuple[float, dict[str, float]]:
        """Accumulate the gradient; return the weighted loss in nats and the mean of each term."""
        parts = self._own_parts(batch)
        loss = 0.0
        means: dict[str, float] = {}
        for number, (part, weight) in enumerate(parts, 1):
            # Processes exchange gradients once a step, after the last part.
            waits = self.processes.world > 1 and number < len(parts)
            with self._shared.no_sync() if waits else contextlib.nullcontext():
                with self._autocast():
                    terms = self._terms(self._shared, part)
                    share = weighted_total(terms, counts) * weight
                # DistributedDataParallel averages over processes; the loss is a sum over them.
                self.scaler.scale(share * self.processes.world).backward()
            loss += float(share.detach())
            for term in terms:
                mean = weight * float(term.total.detach()) / max(1, counts[term.per])
                means[term.name] = means.get(term.name, 0.0) + mean
        everyone = self.processes.gather((loss, means))
        return (
            sum(loss for loss, _ in everyone),
            {name: sum(means[name] for _, means in everyone) for name in means},
        )

    def _own_parts(self, batch: Mapping[str, Tensor]) -> list[tuple[dict[str, Tensor], int]]:
        """This process's parts of a batch on the device, each with its weight, 1 or 0."""
        n_parts = self.config.gradient_accumulation_steps * self.processes.world
        of_parts = np.array_split(np.arange(len(batch["labels"])), n_parts)
        parts = []
        for rows in of_parts[self.processes.rank :: self.processes.world]:
            # Every process takes part in every step: one without rows reads row 0 at weight 0.
            span = slice(int(rows[0]), int(rows[-1]) + 1) if len(rows) else slice(1)
            part = {name: tensor[span].to(self.device) for name, tensor in batch.items()}
            parts.append((part, int(len(rows) > 0)))
        return parts

    def _terms(self, model: nn.Module, batch: Mapping[str, Tensor]) -> tuple[LossTerm, ...]:
        names = batch.keys() if self._taken is None else batch.keys() & self._taken
        output = model(**{name: batch[name] for name in batch if name in names})
        return loss_terms(output, batch["labels"])

    def _autocast(self) -> torch.autocast:
        return torch.autocast(
            self.device.type,
            dtype=getattr(torch, self.config.precision),
            enabled=self.config.precision != "float32",
        )

    # ------------------------------------------------------------------ after a step

    def _after(self, row: dict[str, Any]) -> None:
        self.history.rows.append(row)
        if row["skipped"]:
            return
        if self._is_due(self.config.evaluate_every) and (self.validation or self._more_metrics):
            with average_in_use(self.optimizer):
                self._judge(self.evaluate())
        if self._is_due(self.config.checkpoint_every):
            self.save()

    def _is_due(self, every: int) -> bool:
        return self.is_finished or (every > 0 and self.step % every == 0)

    def evaluate(self) -> dict[str, float]:
        """The validation loss and other metrics, the same in all processes; all must call it."""
        was_training, outside = self.model.training, random_states()
        self.model.eval()
        metrics: dict[str, float] = {}
        try:
            with torch.no_grad():
                if self.validation is not None:
                    metrics["loss"] = self._validation_loss(self.validation)
                if self._more_metrics is not None:
                    more = self._more_metrics(self.model) if self.processes.is_first else {}
                    more = {name: float(value) for name, value in more.items()}
                    metrics |= self.processes.gather(more)[0]
        finally:
            set_random_states(outside)
            self.model.train(was_training)
        return metrics

    def _validation_loss(self, dataset: BatchDataset) -> float:
        """The loss on all examples of a dataset, as if they were one batch."""
        losses, counts = {"token": 0.0, "row": 0.0}, {"token": 0, "row": 0}
        keys = list(
            LengthBatchSampler(
                dataset.lengths, self.config.batch_size, shuffle=False, group_by_length=True
            )
        )
        for key in keys[self.processes.rank :: self.processes.world]:
            batch = {name: tensor.to(self.device) for name, tensor in dataset[key].items()}
            with self._autocast():
                terms = self._terms(self.model, batch)
            for term in terms:
                losses[term.per] += term.weight * float(term.total)
            for kind, count in loss_counts(batch["labels"]).items():
                counts[kind] += count
        shares = self.processes.gather((losses, counts))
        if not any(counts["token"] for _, counts in shares):
            raise InputError(
                "validation", "", "no token is scored", "Give data of which something is scored."
            )
        return sum(
            sum(losses[kind] for losses, _ in shares) / sum(counts[kind] for _, counts in shares)
            for kind in counts
        )

    def _judge(self, metrics: dict[str, float]) -> None:
        """Record an evaluation, and keep the weights if it is the best so far."""
        name = self.config.metric
        if name not in metrics:
            raise InputError(
                "TrainingConfig",
                "metric",
                f"the evaluation has no {name!r}",
                f"It has: {', '.join(metrics) or 'nothing'}.",
            )
        self.history.rows[-1].update({f"validation_{n}": value for n, value in metrics.items()})
        if metrics[name] < self._best:  # NaN is never better
            self._best, self._n_worse = metrics[name], 0
            if self.folder is not None and self.processes.is_first:
                write_best(self.model, self.folder)
        else:
            self._n_worse += 1

    def load_best(self) -> None:
        """Give the model the weights that had the best metric."""
        read_best(self.model, self.folder)

    # ------------------------------------------------------------------ checkpoints

    def save(self) -> None:
        """Write a checkpoint, if there is a folder."""
        if self.folder is None:
            return
        own = random_states() if self._random is None else self._random
        everyone = self.processes.gather({n: bytes(state.tolist()) for n, state in own.items()})
        if self.processes.is_first:
            generators = {
                f"{rank}.{name}": torch.frombuffer(bytearray(state), dtype=torch.uint8)
                for rank, of_rank in enumerate(everyone)
                for name, state in of_rank.items()
            }
            best = None if math.isinf(self._best) else self._best
            numbers = {
                "step": self.step,
                "epoch": self.epoch,
                "batch": self.batch,
                "best": {"value": best, "worse": self._n_worse},
                "scaler": self.scaler.state_dict(),
                "training": self._identity,
                "history": self.history.rows,
            }
            state = TrainingState(
                model_tensors(self.model),
                optimizer_tensors(self.optimizer, self.model),
                generators,
                numbers,
            )
            write_checkpoint(self.folder, self.step, state)
            self.history.write(self.folder / "history.csv")
        self.processes.wait()

    def _resume(self, folder: Path) -> None:
        """Go on from the newest checkpoint in the folder, if there is one."""
        if self.processes.is_first:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(
                    folder,
                    "",
                    f"the folder cannot be made ({error})",
                    "Name another one, in a place where you may write.",
                ) from error
        found = checkpoints(folder)
        self.processes.agree({"newest checkpoint": found[-1].name if found else "none"})
        if not found:
            return
        state = read_checkpoint(found[-1])
        numbers = state.numbers
        check_same_training(found[-1], numbers["training"], self._identity)
        load_model_tensors(self.model, state.model, found[-1])
        load_optimizer_tensors(self.optimizer, self.model, state.optimizer)
        if numbers["scaler"]:
            self.scaler.load_state_dict(numbers["scaler"])
        self.step, self.epoch, self.batch = (numbers[n] for n in ("step", "epoch", "batch"))
        best, self._n_worse = numbers["best"]["value"], numbers["best"]["worse"]
        self._best = math.inf if best is None else best
        self.history = TrainingHistory(numbers["history"])
        rank = f"{self.processes.rank}."
        set_random_states(
            {n.removeprefix(rank): s for n, s in state.random.items() if n.startswith(rank)}
        )


def _not_a_number(place: str, problem: str) -> InputError:
    return InputError(
        "training",
        place,
        problem,
        "Lower the learning rate, or lengthen the warm-up; the checkpoint before this batch is "
        "whole.",
    )


# ------------------------------------------------------------------ which weights decay


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups for AdamW: matrices and tables decay; biases and layer norms do not.

    >>> groups = decay_groups(nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2)), 0.1)
    >>> [(group["weight_decay"], len(group["params"])) for group in groups]
    [(0.1, 1), (0.0, 3)]
    """
    decays: list[nn.Parameter] = []
    stays: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            is_bias = name.rpartition(".")[2] == "bias"
            (stays if parameter.ndim < 2 or is_bias else decays).append(parameter)
    groups = [
        {"params": decays, "weight_decay": weight_decay},
        {"params": stays, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


# ------------------------------------------------------------------ the learning rate


def warmup_cosine_factor(step: int, *, warmup_steps: int, total_steps: int) -> float:
    """The factor on the peak learning rate at `step`, counted from 0.

    >>> [round(warmup_cosine_factor(s, warmup_steps=2, total_steps=6), 3) for s in range(7)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146, 0.0]
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    done = (step - warmup_steps) / max(1, total_steps - warmup_steps)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


# ------------------------------------------------------------------ the average of the weights


@torch.no_grad()
def update_average(optimizer: Optimizer, decay: float) -> None:
    """Move the average of each weight towards the weight, after a step.

    The average is part of the optimizer's state, so that checkpoints include it.
    """
    # It looks back over at most half of the steps so far, and soon forgets the first weights.
    n_steps = float(next(iter(optimizer.state.values()))["step"])
    decay = min(decay, 1 - 2 / (n_steps + 1))
    for weight, memory in optimizer.state.items():
        average = memory.setdefault("average", weight.detach().clone())
        average.lerp_(weight, 1 - decay)


@torch.no_grad()
def use_average(optimizer: Optimizer) -> None:
    """Replace the weights by their averages, if there are any."""
    for weight, memory in optimizer.state.items():
        weight.copy_(memory.get("average", weight))


@contextlib.contextmanager
def average_in_use(optimizer: Optimizer) -> Iterator[None]:
    """Replace the weights by their averages inside the block."""
    weights = {weight: weight.detach().clone() for weight in optimizer.state}
    use_average(optimizer)
    try:
        yield
    finally:
        with torch.no_grad():
            for weight, value in weights.items():
                weight.copy_(value)


# ------------------------------------------------------------------ in one call


def train(
    model: nn.Module,
    dataset: BatchDataset,
    *,
    steps: int,
    lr: float = 2e-3,
    warmup_steps: int | None = None,
    progress: bool = True,
    **settings: Any,
) -> TrainingHistory:
    """Train a small model on the device it is on, and write nothing to disk.

    Args:
        model, dataset, progress: see Trainer.
        steps, lr, settings: see TrainingConfig.
        warmup_steps: a tenth of the steps by default.
    """
    if warmup_steps is None:
        warmup_steps = steps // 10
    config = TrainingConfig(steps, lr=lr, warmup_steps=warmup_steps, **settings)
    device = next(model.parameters()).device
    return Trainer(model, dataset, config, device=device, progress=progress).run()
