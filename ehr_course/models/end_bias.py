r"""What is added to the logits of <\v> and <EOS>, so that visits and records end on time.

Weights are trained in a network with dropout, on gradients that are clipped, and are used without
either: as lesson 15 shows, the end of a visit is then predicted too rarely, most of all after its
first code. A few numbers put that right; ``calibrate`` fits them once the training is over.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ehr_course.batches.record_checks import FIRST_CODE
from ehr_course.tokenizers.codes import CodeTokenizer

CODES, VISITS = 6, 4
"""A visit with more codes than this, and a record with more visits, share the last number."""

END_IDS = (CodeTokenizer.visit_end_id, CodeTokenizer.eos_id)


def progress(ids: Tensor) -> tuple[Tensor, Tensor]:
    r"""How many visits have begun at each token, and how many codes the latest one has.

    Args:
        ids: int64 (batch, length): records, or their beginnings.

    Returns:
        two int64 (batch, length).

    >>> visits, codes = progress(torch.tensor([[1, 3, 20, 21, 4, 3, 22]]))
    >>> visits.tolist(), codes.tolist()
    ([[0, 1, 1, 1, 1, 2, 2]], [[0, 0, 1, 2, 2, 0, 1]])
    """
    starts = ids == CodeTokenizer.visit_start_id
    codes = (ids >= FIRST_CODE).cumsum(dim=1)
    before = codes.where(starts, 0).cummax(dim=1).values
    return starts.cumsum(dim=1), codes - before


class EndBias(nn.Module):
    r"""One number for <\v> and one for <EOS>, by how far a record has come; 0 until fitted.

    The first depends on the codes of the visit so far, apart for the first visit and later ones,
    and the second on the visits so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.visit: Tensor
        self.record: Tensor
        self.register_buffer("visit", torch.zeros(2, CODES + 1))
        self.register_buffer("record", torch.zeros(VISITS + 1))

    def forward(self, ids: Tensor, visits: Tensor, codes: Tensor) -> Tensor:
        r"""What to add to the logits of END_IDS: of <\v> after a code, of <EOS> after <\v>.

        Args:
            ids: int64, of any shape: the tokens that were read last.
            visits, codes: of the same shape, as ``progress`` returns them.

        Returns:
            float (..., 2).
        """
        of_visit = self.visit[(visits > 1).long(), codes.clamp(max=CODES)]
        of_record = self.record[visits.clamp(max=VISITS)]
        in_visit, between = ids >= FIRST_CODE, ids == CodeTokenizer.visit_end_id
        return torch.stack([of_visit * in_visit, of_record * between], dim=-1)
