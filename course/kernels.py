"""Where a lesson's kernel runs: the same environment for the build, nbval and papermill."""

from __future__ import annotations

import os
from pathlib import Path

FIXED = {
    "HF_HUB_OFFLINE": "1",
    "PYTHONHASHSEED": "0",
    "TQDM_DISABLE": "1",
}

REMOVED = (
    "EHR_COURSE_DATA",  # a stored output never shows a row of real data
    "EHR_COURSE_NOTES",
    "EHR_COURSE_PROBE_SEED",
    "EHR_COURSE_RAISE",
    "EHR_COURSE_RUN_LOG",
    "MPLBACKEND",  # the kernel then draws into the notebook
)


def kernel_environment(home: Path, **extra: str) -> dict[str, str]:
    """Return the environment variables that a lesson's kernel starts with.

    Args:
        home: the folder in which the run keeps its progress, so that the learner's is not touched.
        extra: further variables of this run, for example ``EHR_COURSE_PROBE_SEED="0"``.

    >>> environment = kernel_environment(Path("somewhere"), EHR_COURSE_RAISE="1")
    >>> environment["OMP_NUM_THREADS"], environment["EHR_COURSE_RAISE"]
    ('1', '1')
    >>> "EHR_COURSE_DATA" in environment
    False
    """
    kept = {name: value for name, value in os.environ.items() if name not in REMOVED}
    threads = os.environ.get("EHR_COURSE_THREADS", "1")
    return kept | FIXED | {"OMP_NUM_THREADS": threads, "EHR_COURSE_HOME": str(home)} | extra
