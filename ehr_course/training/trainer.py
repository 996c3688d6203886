"""One trainer for every model of the course: float16 with loss scaling, and exact resuming.

The model's forward takes a batch as keywords and returns an output with ``terms``, each a sum and
a count. Every step divides by the counts of the whole batch. So a batch may be cut into parts and
shared among processes, and the gradient stays that of the batch.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from ehr_course.batches.datasets import RecordDataset
from ehr_course.batches.plan import data_loader
from ehr_course.errors import InputError
from ehr_course.losses import NOT_SCORED, loss_counts, weighted_total
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
from ehr_course.training.config import TrainingConfig
from ehr_course.training.history import TrainingHistory
from ehr_course.training.processes import Processes
from ehr_course.training.schedule import warmup_cosine_factor

AUTOCAST = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}

MAY_CHANGE = ("evaluate_every", "metric", "patience", "checkpoint_every")
"""What may be other when a training is resumed: it changes nothing in the weights."""

BEST = "best.safetensors"
"""The weights with the best metric so far, in the trainer's folder."""


class Trainer:
    """Trains a model.

    Args:
        model: its forward takes a batch as keywords and returns an output with ``terms``.
        dataset: gives the batches.
        config: the settings.
        validation: patients to evaluate on, or None.
        folder: where checkpoints, the best weights and the history go; without one nothing is
            written. A folder with checkpoints of this training is resumed from.
        evaluate: called with the model, returns numbers by name besides the "loss" on the
            validation patients.
        device: where to train; the GPU if there is one.
        num_workers: processes that prepare batches.
        progress: whether to show a bar, with loss, learning rate, scale and tokens per second.
        tensorboard: a folder for TensorBoard's files, or None.

    Attributes:
        history: a row for each step.
        step: how often the weights have changed.

    Raises:
        InputError: if the processes under torchrun do not have the same data and settings, or
            the folder holds the checkpoint of another training.
    """

    def __init__(
        self,
        model: nn.Module,
        dataset: RecordDataset,
        config: TrainingConfig,
        *,
        validation: RecordDataset | None = None,
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
        self.progress = progress and self.processes.is_first
        self._evaluate_more = evaluate
        self._names = {id(p): name for name, p in model.named_parameters()}
        self._data = _fingerprint(dataset)
        self.processes.agree("data", self._data)
        self.processes.agree("settings", dataclasses.asdict(config))

        self.optimizer = torch.optim.AdamW(
            decay_groups(model, config.weight_decay),
            lr=config.lr,
            betas=config.betas,
            fused=True,
        )
        self.scaler = torch.amp.GradScaler(
            self.device.type,
            init_scale=config.initial_scale,
            growth_interval=config.growth_interval,
            enabled=config.precision == "float16",
        )
        self.history = TrainingHistory()
        self.step, self.epoch, self.batch = 0, 0, 0
        self._best, self._worse = math.inf, 0
        self._finished = False
        outside = random_states()
        torch.manual_seed(config.seed + self.processes.rank)  # dropout
        if self.folder is not None:
            self._resume()
        self._random = random_states()
        set_random_states(outside)
        self._runner: nn.Module = self.model
        if self.processes.world > 1:
            self._runner = DistributedDataParallel(self.model)
        self._loader = data_loader(
            dataset,
            config.batch_size,
            seed=config.seed,
            num_workers=num_workers,
            bucketed=config.bucketed,
        )
        self._board = _board(tensorboard) if self.processes.is_first else None

    # ------------------------------------------------------------------ the loop

    def run(self) -> TrainingHistory:
        """Train until the last step, or until no evaluation gets better.

        An interrupt (Ctrl-C) is obeyed at the end of the step: a checkpoint is written, the
        message says how to go on, and the interrupt goes on its way.

        Raises:
            InputError: if the loss is no longer a number, or a batch has no scored token. The
                checkpoints written before are whole.
        """
        with self._bar() as bar, _deferred_interrupt() as interrupted, self._own_randomness():
            while not self._finished:
                self._loader.sampler.set_epoch(self.epoch, start=self.batch)
                for batch in self._loader:
                    row = self._one_step(batch)
                    self._report(bar, row)
                    self._after(row)
                    if interrupted.is_set():
                        self._stop_here()
                    if self._finished:
                        break
                else:
                    self.epoch, self.batch = self.epoch + 1, 0
        self.model.eval()
        if self._board is not None:
            self._board.flush()
        return self.history

    @contextlib.contextmanager
    def _own_randomness(self) -> Iterator[None]:
        """Draw from the training's own random states, and leave the caller's as they were."""
        outside = random_states()
        set_random_states(self._random)
        try:
            yield
        finally:
            self._random = random_states()
            set_random_states(outside)

    def _one_step(self, batch: dict[str, Tensor]) -> dict[str, float]:
        began = time.perf_counter()
        self._runner.train()
        counts = loss_counts(batch["labels"])
        place = f"epoch {self.epoch}, batch {self.batch}"
        if counts["token"] == 0:
            raise InputError(
                "training",
                place,
                "the batch has no scored token",
                f"Leave records whose labels are all {NOT_SCORED} out of the dataset.",
            )
        lr = self.config.lr * warmup_cosine_factor(
            self.step, warmup_steps=self.config.warmup_steps, total_steps=self.config.steps
        )
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        loss, terms = self._accumulate(batch, counts, place)
        self.scaler.unscale_(self.optimizer)
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.max_norm)
        scale = self.scaler.get_scale()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        skipped = self.scaler.get_scale() < scale
        if not skipped:
            self.step += 1
        row = {
            "step": self.step,
            "epoch": self.epoch,
            "batch": self.batch,
            "loss": loss,
            **(terms if len(terms) > 1 else {}),
            "lr": lr,
            "scale": scale,
            "gradient_norm": float(norm),
            "skipped": skipped,
            "tokens": counts["token"],
            "seconds": time.perf_counter() - began,
        }
        self.batch += 1
        return row

    def _accumulate(
        self, batch: dict[str, Tensor], counts: dict[str, int], place: str
    ) -> tuple[float, dict[str, float]]:
        """Add up the gradient of this process's parts of a batch; return the whole loss."""
        parts = _parts(batch, self.config.accumulation * self.processes.world)
        own = parts[self.processes.rank :: self.processes.world]
        totals: dict[str, float] = {}
        loss_sum = 0.0
        for number, part in enumerate(own):
            last = number == len(own) - 1
            part = {name: tensor.to(self.device) for name, tensor in part.items()}
            with self._synchronised(last), self._autocast():
                terms = self._runner(**part).terms
                loss = weighted_total(terms, counts)
                # DistributedDataParallel averages over processes, and the loss is a sum over them.
                self.scaler.scale(loss * self.processes.world).backward()
            loss_sum += float(loss.detach())
            for term in terms:
                mean = float(term.total.detach()) / max(1, counts[term.per])
                totals[term.name] = totals.get(term.name, 0.0) + mean
        gathered = self.processes.gather((loss_sum, totals))
        whole = sum(part for part, _ in gathered)
        if not math.isfinite(whole):
            raise InputError(
                "training",
                place,
                f"the loss is {whole}",
                "Lower the learning rate, or lengthen the warm-up; the checkpoint before this "
                "batch is whole.",
            )
        return whole, {name: sum(part[name] for _, part in gathered) for name in totals}

    def _synchronised(self, last: bool) -> contextlib.AbstractContextManager:
        if last or not isinstance(self._runner, DistributedDataParallel):
            return contextlib.nullcontext()
        return self._runner.no_sync()

    def _autocast(self) -> torch.autocast:
        return torch.autocast(
            self.device.type,
            dtype=AUTOCAST[self.config.precision],
            enabled=self.config.precision != "float32",
        )

    # ------------------------------------------------------------------ after a step

    def _after(self, row: dict[str, Any]) -> None:
        self.history.add(row)
        if row["skipped"]:
            return
        done = self.step >= self.config.steps
        every = self.config.evaluate_every
        if (self.validation or self._evaluate_more) and (
            done or (every and self.step % every == 0)
        ):
            self._judge(self.evaluate())
        self._finished = self._finished or done
        every = self.config.checkpoint_every
        if self._finished or (every and self.step % every == 0):
            self.save()

    @torch.no_grad()
    def evaluate(self) -> dict[str, float]:
        """The loss on the validation patients, and whatever else was asked for."""
        was_training = self.model.training
        self.model.eval()
        state = random_states()
        metrics: dict[str, float] = {}
        if self.validation is not None:
            total, count = 0.0, 0
            for batch in data_loader(
                self.validation, self.config.batch_size, shuffle=False, bucketed=True
            ):
                counts = loss_counts(batch["labels"])
                with self._autocast():
                    output = self.model(**{n: t.to(self.device) for n, t in batch.items()})
                total += float(weighted_total(output.terms, counts)) * counts["token"]
                count += counts["token"]
            metrics["loss"] = total / count
        if self._evaluate_more is not None:
            metrics |= {n: float(v) for n, v in self._evaluate_more(self.model).items()}
        set_random_states(state)
        self.model.train(was_training)
        return metrics

    def _judge(self, metrics: dict[str, float]) -> None:
        self.history.add_evaluation(metrics)
        if self.config.metric not in metrics:
            raise InputError(
                "TrainingConfig",
                "metric",
                f"the evaluation has no {self.config.metric!r}",
                f"It has: {', '.join(metrics) or 'nothing'}.",
            )
        value = metrics[self.config.metric]
        if value < self._best:
            self._best, self._worse = value, 0
            self._save_best()
        else:
            self._worse += 1
            if self.config.patience and self._worse >= self.config.patience:
                self._finished = True

    def _report(self, bar: tqdm, row: dict[str, Any]) -> None:
        if not row["skipped"]:
            bar.update()
        if self.progress:
            bar.set_postfix(
                loss=f"{row['loss']:.3f}",
                lr=f"{row['lr']:.1e}",
                scale=f"{row['scale']:g}",
                tokens_per_second=f"{row['tokens'] / row['seconds']:,.0f}",
                refresh=False,
            )
        if self._board is not None:
            for name in ("loss", "lr", "scale", "gradient_norm"):
                self._board.add_scalar(name, row[name], row["step"])

    def _bar(self) -> tqdm:
        return tqdm(
            total=self.config.steps,
            initial=self.step,
            unit="step",
            leave=False,
            disable=not self.progress,
        )

    # ------------------------------------------------------------------ checkpoints

    def save(self) -> None:
        """Write a checkpoint of this moment, if there is a folder."""
        if self.folder is None:
            return
        states = self.processes.gather(
            {name: bytes(state.tolist()) for name, state in random_states().items()}
        )
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
            "finished": self._finished,
            "best": None if math.isinf(self._best) else self._best,
            "worse": self._worse,
            "scaler": self.scaler.state_dict(),
            "config": dataclasses.asdict(self.config),
            "data": self._data,
            "world": self.processes.world,
            "history": self.history.rows,
        }
        return TrainingState(
            model_tensors(self.model),
            optimizer_tensors(self.optimizer, self._names),
            generators,
            numbers,
        )

    def _resume(self) -> None:
        found = checkpoints(self.folder)
        if not found:
            return
        state = read_checkpoint(found[-1])
        self._check_same_training(found[-1], state.numbers)
        load_model_tensors(self.model, state.model, found[-1])
        load_optimizer_tensors(self.optimizer, self._names, state.optimizer)
        numbers = state.numbers
        if numbers["scaler"]:
            self.scaler.load_state_dict(numbers["scaler"])
        self.step, self.epoch, self.batch = (numbers[n] for n in ("step", "epoch", "batch"))
        self._best = math.inf if numbers["best"] is None else numbers["best"]
        self._worse, self._finished = numbers["worse"], numbers["finished"]
        self.history = TrainingHistory(numbers["history"])
        rank = f"{self.processes.rank}."
        set_random_states(
            {n.removeprefix(rank): s for n, s in state.random.items() if n.startswith(rank)}
        )

    def _check_same_training(self, place: Path, numbers: dict[str, Any]) -> None:
        now = dataclasses.asdict(self.config) | {
            "data": self._data,
            "world": self.processes.world,
        }
        then = numbers["config"] | {"data": numbers["data"], "world": numbers["world"]}
        for name, value in now.items():
            other = then.get(name)
            other = tuple(other) if isinstance(other, list) else other
            if name not in MAY_CHANGE and other != value:
                raise InputError(
                    place,
                    name,
                    f"it was {other!r} in the training that wrote this, and is {value!r} now",
                    "Resume with the same settings and data, or train into another folder.",
                )

    def _save_best(self) -> None:
        if self.folder is None or not self.processes.is_first:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        unfinished = self.folder / f".{BEST}"
        try:
            save_file(model_tensors(self.model), unfinished)
            unfinished.replace(self.folder / BEST)
        except OSError as error:
            raise InputError(
                self.folder / BEST,
                "",
                f"the best weights cannot be written ({error})",
                "Make room or name another folder, and resume.",
            ) from error
        finally:
            unfinished.unlink(missing_ok=True)

    def load_best(self) -> None:
        """Give the model the weights that had the best metric.

        Raises:
            InputError: if there is no folder, or nothing was evaluated.
        """
        path = None if self.folder is None else self.folder / BEST
        if path is None or not path.is_file():
            raise InputError(
                "Trainer.load_best",
                "",
                "no best weights were written",
                "Give a folder, and validation patients or an evaluation.",
            )
        load_model_tensors(self.model, load_file(path), path)

    def _stop_here(self) -> None:
        self.save()
        if self.processes.is_first:
            where = (
                f"Run the same training with folder={str(self.folder)!r} to go on from here."
                if self.folder is not None
                else "Nothing is saved: there is no folder."
            )
            print(f"Stopped after step {self.step}. {where}")
        raise KeyboardInterrupt


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Two groups of weights for AdamW: those that decay, and those that do not.

    Matrices and tables decay. Biases and the gains of layer norms do not: they have no reason to
    be small.
    """
    decays, stays = [], []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            is_bias = name.rpartition(".")[2] == "bias"
            (stays if parameter.ndim < 2 or is_bias else decays).append(parameter)
    groups = [
        {"params": decays, "weight_decay": weight_decay},
        {"params": stays, "weight_decay": 0.0},
    ]
    return [group for group in groups if group["params"]]


def _parts(batch: dict[str, Tensor], count: int) -> list[dict[str, Tensor]]:
    """Cut a batch into as many parts as there are, by rows.

    Where there are fewer rows than parts, a part is one row of which nothing is scored: every
    process has to take part in every step.
    """
    rows = len(batch["labels"])
    parts = []
    for chosen in np.array_split(np.arange(rows), count):
        if len(chosen):
            span = slice(int(chosen[0]), int(chosen[-1]) + 1)
            parts.append({name: tensor[span] for name, tensor in batch.items()})
        else:
            row = {name: tensor[:1] for name, tensor in batch.items()}
            parts.append(row | {"labels": torch.full_like(row["labels"], NOT_SCORED)})
    return parts


def _best_device(processes: Processes) -> str:
    if not torch.cuda.is_available():
        return "cpu"
    return f"cuda:{processes.rank % torch.cuda.device_count()}"


def _fingerprint(dataset: RecordDataset) -> str:
    """A short text that differs when the patients, their order or the corruption do."""
    digest = hashlib.sha256(dataset.tokens.values.tobytes())
    digest.update(dataset.lengths.tobytes())
    digest.update(repr((dataset.corruption, dataset.seed, len(dataset.tokenizer))).encode())
    return digest.hexdigest()[:16]


def _board(folder: str | Path | None) -> Any:
    if folder is None:
        return None
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise InputError(
            "Trainer",
            "tensorboard",
            "the package is not installed",
            "Install it with: pip install tensorboard",
        ) from None
    return SummaryWriter(str(folder))


@contextlib.contextmanager
def _deferred_interrupt() -> Iterator[threading.Event]:
    """Note an interrupt in place of raising it, so that a step is whole or not begun.

    A second one is raised at once. Outside the main thread interrupts do not arrive anyway.
    """
    noted = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return
    before = signal.getsignal(signal.SIGINT)
    if not callable(before):
        yield noted
        return

    def note(number: int, frame: Any) -> None:
        if noted.is_set():
            before(number, frame)
        noted.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, before)
