"""Which tokens would repeat a run that a hypothesis has already."""

from __future__ import annotations

from torch import Tensor


def repeating_tokens(history: Tensor, n: int, *, nothing: int) -> Tensor:
    """The tokens that would end an n-gram which stands in the history.

    Args:
        history: int64 (..., length): the tokens of each hypothesis.
        n: the length of a run, 1 or more.
        nothing: an id that stands for no token; it fills the places without a repetition.

    Returns:
        int64 (..., windows): the tokens to forbid, in any order, among ``nothing``. There is one
        place for each run in the history, or none where the history is shorter than a run.

    >>> import torch
    >>> said = torch.tensor([[5, 6, 7, 5, 6], [5, 6, 7, 8, 9]])
    >>> repeating_tokens(said, 3, nothing=-1)  # after 5 6, a 7 would repeat 5 6 7
    tensor([[ 7, -1, -1],
            [-1, -1, -1]])
    """
    length = history.shape[-1]
    if length < n:
        return history[..., :0]
    runs = history.unfold(-1, n, 1)  # (..., windows, n)
    last = history[..., None, length - n + 1 :]  # (..., 1, n - 1): what the next token would end
    repeats = (runs[..., :-1] == last).all(dim=-1)
    return runs[..., -1].where(repeats, nothing)
