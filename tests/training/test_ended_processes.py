"""What one of several processes does when another ends, or when it is told to end itself."""

from __future__ import annotations

import os
import signal

import pytest
from torch import distributed

from ehr_course.errors import InputError
from ehr_course.training.processes import Processes, unwound_when_terminated


@pytest.mark.parametrize("gather", ["gather", "gather_in_first"])
def test_a_process_says_that_another_has_ended(monkeypatch, gather):
    def closed(*arguments: object) -> None:
        raise RuntimeError("[/pair.cc:547] Connection closed by peer [10.0.0.2]:4242")

    for name in ("all_gather_object", "gather_object"):
        monkeypatch.setattr(distributed, name, closed)
    with pytest.raises(InputError) as told:
        getattr(Processes(rank=0, world=2), gather)("what it wrote")
    assert str(told.value) == (
        "process 0 of 2: another process ended before all of them were done. See what that one "
        "said, and start all of them again."
    )


def test_one_process_gathers_what_it_has():
    assert Processes().gather_in_first("all of it") == ["all of it"]


def test_sigterm_unwinds_the_block_and_is_then_what_it_was():
    before = signal.getsignal(signal.SIGTERM)
    unwound = False
    with pytest.raises(SystemExit) as ended, unwound_when_terminated():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        finally:
            unwound = True
    assert unwound
    assert ended.value.code == 143
    assert signal.getsignal(signal.SIGTERM) is before
