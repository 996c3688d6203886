"""What 15.8 finds out about a training loop: it is run on a model whose gradients are known."""

from __future__ import annotations

import contextlib
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ehr_course.batches.collate import NOT_SCORED

LR = 0.01
"""The peak learning rate. Movements are given in units of it."""

Batch = list[dict[str, Tensor]]


@dataclass(frozen=True)
class Run:
    """One training run, and what is looked at in it.

    The loss of a token is its row of numbers times the weights, plus the sizes of these numbers.
    So the rows are the gradients. The weights begin at 0.

    Attributes:
        title: what it is to show, in words.
        rows: of each batch the micro-batches, of each of those the tokens, of each of those two
            numbers, or None where nothing is scored.
        asked: the options of the learner's function.
        size: what the loss of each token is multiplied by.
        died: in which batch, counted from 1, the training dies, to be resumed; 0 for never.
        left: how many batches are left then after the last step that was to be saved.
        seed: of the dropout, of which there is some where the training dies.
    """

    title: str
    rows: tuple[Any, ...]
    asked: Mapping[str, Any]
    size: float = 1.0
    died: int = 0
    left: int = 0
    seed: int = 0

    def __repr__(self) -> str:
        """Say what is run; what should be right first is the shortest, as a check shows that."""
        options = ", ".join(f"{name}={value}" for name, value in self.asked.items())
        text = f"{self.title}: {options}, lr={LR}; gradients of the tokens: {self.rows}"
        if self.asked.get("dtype"):
            text += f"; in the forward pass each loss is multiplied by {self.size:g}"
        if self.died:
            text += (
                f"; killed in batch {self.died}, then called again with a new model and the file"
            )
        return text

    def try_out(self, train: Callable[..., Any]) -> dict[str, Any]:
        """Run a training loop, and say what it did."""
        with (
            torch.random.fork_rng(devices=[]),
            tempfile.TemporaryDirectory() as folder,
            warnings.catch_warnings(action="ignore"),  # known wrong loops are tried, too
        ):
            whole = self._train(train)
            if not self.died:
                return self._found(whole)
            file = Path(folder) / "training.pt"
            with contextlib.suppress(DiedError):
                self._train(train, file=file, dies_in=self.died)
            resumed = self._train(train, file=file)
        pairs = zip(resumed.moves()[::-1], whole.moves()[::-1], strict=False)
        apart = [(torch.tensor(a) - torch.tensor(b)).tolist() for a, b in pairs]
        apart += [[0.0, 0.0]] * (self.left - len(apart))  # a loop may save more often
        return {
            "batches read after resuming": max(self.left, len(resumed.modes)),
            "moves after resuming, less those of a run that was never stopped": apart[::-1],
            "the same weights in the end": bool((whole.weights[-1] == resumed.weights[-1]).all()),
        }

    def _train(self, train: Callable[..., Any], **more: Any) -> _Watched:
        torch.manual_seed(self.seed)
        watched = _Watched(self, more.pop("dies_in", 0))
        asked = dict(self.asked) | more
        if "look" in asked:
            asked["look"] = watched.look
        watched.model.eval()  # as a model comes that was loaded or has just written
        watched.made = train(
            watched.model, watched.batches(), asked.pop("steps"), watched.loss_sum, lr=LR, **asked
        )
        watched.note_weights()
        torch.set_grad_enabled(True)
        return watched

    def _found(self, run: _Watched) -> dict[str, Any]:
        moves = run.moves()
        found: dict[str, Any] = {"computed in": sorted(run.dtypes)}
        if "look" in self.asked:
            # At the start or in the end a look is harmless.
            looks = [one for one in run.looks if 0 < one[0] < self.asked["steps"]]
            found |= {
                "steps after which it looked": [taken for taken, _, _ in looks],
                "what look was given": [step for _, step, _ in looks],
                "mode of the model in look": sorted({mode for _, _, mode in run.looks}),
                "mode of the model for each batch": run.modes,
            }
        if self.asked.get("dtype") is torch.float16:
            moves = list(dropwhile(lambda move: not any(move), moves))  # overflows come first
        elif "dtype" not in self.asked:
            found |= _about_losses(run.made)
        return found | {"moves of the weights, in units of lr": moves}


class DiedError(Exception):
    """A training died in the middle, as if its process had been killed."""


class _Watched:
    """A model that a learner's loop trains, and what it did with it."""

    def __init__(self, run: Run, dies_in: int) -> None:
        self.run, self.dies_in = run, dies_in
        self.made: Any = None  # what the loop returned
        self._linear = nn.Linear(2, 1, bias=False)
        nn.init.zeros_(self._linear.weight)
        self.model = nn.Sequential(nn.Dropout(0.5 if run.died else 0.0), self._linear)
        self.weights: list[Tensor] = []  # before each batch, and in the end
        self.modes: list[str] = []
        self.looks: list[tuple[int, Any, str]] = []  # steps taken, what it was given, mode
        self.dtypes: set[str] = set()

    def batches(self) -> list[Batch]:
        return [
            [self._micro(rows, first=place == 0) for place, rows in enumerate(batch)]
            for batch in self.run.rows
        ]

    def _micro(self, rows: Any, first: bool) -> dict[str, Tensor]:
        filled = torch.tensor([[row or (9.0, 9.0) for row in rows]])  # (1, tokens, 2)
        labels = torch.tensor([[7 if row else NOT_SCORED for row in rows]])  # (1, tokens)
        return {"rows": filled, "labels": labels, "first": torch.tensor([first])}

    def loss_sum(self, model: nn.Module, micro: Mapping[str, Tensor]) -> Tensor:
        if micro["first"]:
            self.note_weights()
            self.modes.append(self.mode())
            if len(self.weights) == self.dies_in:
                raise DiedError("the process was killed; the next one resumes the training")
        made = model(micro["rows"])  # (1, tokens, 1)
        self.dtypes.add(str(made.dtype).removeprefix("torch."))
        losses = made.float()[..., 0] + micro["rows"].abs().sum(dim=-1)
        return (losses * self.run.size)[micro["labels"] != NOT_SCORED].sum()

    def look(self, step: Any) -> None:
        self.looks.append((len(self.modes), step, self.mode()))

    def mode(self) -> str:
        return "train" if self.model.training else "eval"

    def note_weights(self) -> None:
        self.weights.append(self._linear.weight.detach().clone().flatten())

    def moves(self) -> list[list[float]]:
        pairs = zip(self.weights[1:], self.weights[:-1], strict=True)
        return [[round(x, 4) for x in ((b - a) / LR).tolist()] for b, a in pairs]


def _about_losses(made: Any) -> dict[str, Any]:
    """What a loop returned: losses as plain numbers, and whether they hold on to their graphs."""
    parts = list(made) if isinstance(made, list | tuple) else [made]
    graph = any(isinstance(part, Tensor) and part.requires_grad for part in parts)
    if isinstance(made, Tensor) and made.ndim == 1:
        made = made.tolist()
    elif isinstance(made, list | tuple):
        made = [
            part.item() if isinstance(part, Tensor) and part.numel() == 1 else part
            for part in parts
        ]
    return {"losses": made, "they hold on to their graphs": graph}
