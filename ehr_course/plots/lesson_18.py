"""The drawing of lesson 18: attention over the keys of a prefix and of the tokens."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.colors import LinearSegmentedColormap, to_hex
from torch import Tensor

from ehr_course.plots import style
from ehr_course.plots.canvas import FILLS, Canvas
from ehr_course.plots.style import Picture

_BLUES = LinearSegmentedColormap.from_list("blues", [style.PAPER, FILLS["code"]])
_WIDE, _HIGH, _TALL = 0.47, 0.24, 0.27  # of the cells, in inches


def draw_longer_keys(
    names: Sequence[str], n_prefix: int, tensors: dict[str, Tensor], mask: Tensor
) -> Picture:
    """Draw queries against the keys of a prefix and of the tokens, with mask and weights.

    Args:
        names: of the tokens.
        n_prefix: how many tokens the prefix has.
        tensors: "q" (tokens, d), "keys" and "values" (n_prefix + tokens, d), "weights" (tokens,
            n_prefix + tokens), and "result" (tokens, d).
        mask: bool (tokens, n_prefix + tokens), True where a query may look.
    """
    weights, n, d = tensors["weights"], len(names), tensors["q"].shape[1]
    shares = weights[:, :n_prefix].sum(dim=1).tolist()
    said = ", ".join(f"{name} {share:.0%}" for name, share in zip(names, shares, strict=True))
    title = "How much of its attention does each token give to the prefix?"
    canvas = Canvas(
        4.1,
        title,
        f"{title} {n} queries against {n_prefix + n} keys, of which the first {n_prefix} are the "
        f"prefix's. The prefix gets {said}. The mask hides {int((~mask).sum())} of the "
        f"{mask.numel()} places, none of them the prefix's.",
        subtitle="Each row is a token's query. Crossed out: hidden by the mask. Every row sums "
        "to one over the prefix and the tokens together.",
    )

    def grid(x: float, y: float, values: Tensor, fills: Sequence[str], name: str, **look) -> None:
        texts = [[f"{value:.1f}" for value in row] for row in values.tolist()]
        canvas.grid(x, y, [fills] * len(texts), texts=texts, **look)
        canvas.label((x, y - 0.13), name, colour=style.INK)

    x, y_keys = 2.3, canvas.top + 0.3
    y = y_keys + d * _HIGH + 0.45
    y_values = y + n * _TALL + 0.2
    columns = [f"p{i}" for i in range(n_prefix)] + list(names)
    fills = ["prompt"] * n_prefix + ["paper"] * n
    cells = {"cell": (_WIDE, _HIGH)}
    grid(x, y_keys, tensors["keys"].T, fills, "", columns=columns, **cells)
    grid(x, y_values, tensors["values"].T, fills, "", **cells)
    for name, at in (("keys", y_keys), ("values", y_values)):
        canvas.label((x - 0.1, at + d * _HIGH / 2), name, align="right", colour=style.INK)
    grid(1.0, y, tensors["q"], ["paper"] * d, "queries", rows=list(names), cell=(0.42, _TALL))
    rows = [
        list(zip(row, open_to, strict=True))
        for row, open_to in zip(weights.tolist(), mask.tolist(), strict=True)
    ]
    shades = [
        [to_hex(_BLUES(weight)) if seen else "quiet" for weight, seen in row] for row in rows
    ]
    texts = [[f"{weight:.2f}" if seen else "×" for weight, seen in row] for row in rows]
    boxes = canvas.grid(x, y, shades, cell=(_WIDE, _TALL), texts=texts)
    canvas.label((x, y - 0.13), "weights, one softmax a row", colour=style.INK)
    border, right = boxes[0][n_prefix].x, boxes[0][-1].right
    for at, end in ((y_keys, y_keys + d * _HIGH), (y, y + n * _TALL)):
        canvas.arrow((border, at), (border, end), head=False, thick=2, colour=style.INK)
    canvas.bracket(x, border, y_values + d * _HIGH + 0.02, "prefix")
    canvas.bracket(border + 0.03, right, y_values + d * _HIGH + 0.02, "the tokens")
    x = right + 0.3
    canvas.label((x, y - 0.13), "prefix's share", colour=style.INK)
    for row, share in zip(boxes, shares, strict=True):
        at, long = row[0].y + 0.05, 0.9 * max(share, 0.02)
        bar = canvas.box(x, at, long, _TALL - 0.1, fill="prompt", hatched=True, rounded=False)
        canvas.label((bar.right + 0.07, at + 0.09), f"{share:.0%}", colour=style.INK)
    grid(x + 1.12, y, tensors["result"], ["paper"] * d, "result", cell=(0.42, _TALL))
    return canvas.finish()
