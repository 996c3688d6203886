"""A learner's progress: one small JSON file in the user's data folder, and the answers beside it.

Two notebooks may write at once: each change is made under a lock, on what the file holds at that
moment, and the new file replaces the old one whole.
"""

from __future__ import annotations

import json
import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import platformdirs
from filelock import FileLock, Timeout

from ehr_course.exercises.result import Outcome

VERSION = 1
LOCK_SECONDS = 10.0


class ProgressError(RuntimeError):
    """The progress file could not be read or written; the message says why and what to do."""


@dataclass(frozen=True)
class Standing:
    """How a learner stands with one exercise.

    Attributes:
        attempts: checks with an answer, right or wrong.
        outcome: the latest outcome's text, or "not attempted".
        solved_at: when it was first solved (UTC, ISO 8601), or None.
        hints: how many hints were shown.
    """

    attempts: int = 0
    outcome: str = Outcome.NOT_ATTEMPTED
    solved_at: str | None = None
    hints: int = 0


def progress_file() -> Path:
    """Return where progress is kept: `EHR_COURSE_HOME`, or the user's data folder."""
    home = os.environ.get("EHR_COURSE_HOME")
    folder = Path(home) if home else platformdirs.user_data_path("ehr_course", appauthor=False)
    return folder / "progress.json"


def read_standings() -> dict[str, Standing]:
    """Return the standing of every exercise that was ever attempted, by id.

    Raises:
        ProgressError: if the file was written by a newer course or cannot be read.
    """
    return _read(progress_file())


def record_outcome(exercise_id: str, outcome: Outcome) -> None:
    """Note the outcome of a check. A solved exercise keeps the time it was first solved."""
    if outcome is Outcome.NOT_ATTEMPTED:
        return

    def change(old: Standing) -> Standing:
        solved_at = old.solved_at
        if outcome.is_solved and solved_at is None:
            solved_at = datetime.now(UTC).isoformat(timespec="seconds")
        return Standing(old.attempts + 1, str(outcome), solved_at, old.hints)

    _update(exercise_id, change)


def record_hint(exercise_id: str, hints_shown: int) -> None:
    """Note that so many hints of an exercise have been shown."""
    _update(
        exercise_id,
        lambda old: Standing(
            old.attempts, old.outcome, old.solved_at, max(old.hints, hints_shown)
        ),
    )


def answer_file(exercise_id: str) -> Path:
    """Return where the latest right answer to an exercise is kept."""
    return progress_file().parent / "answers" / f"{exercise_id}.py"


def keep_answer(exercise_id: str, source: str) -> None:
    """Keep the source of a right answer, in place of an earlier one.

    Raises:
        ProgressError: if it cannot be written.
    """
    path = answer_file(exercise_id)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, source)
    except OSError as error:
        raise _cannot_write(path, error) from error


def kept_answer(exercise_id: str) -> str | None:
    """Return the source of the latest right answer to an exercise, or None."""
    try:
        return answer_file(exercise_id).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _cannot_write(path: Path, error: OSError) -> ProgressError:
    return ProgressError(
        f"{path}: {error.strerror or error}. Set EHR_COURSE_HOME to a folder you can write to."
    )


def _update(exercise_id: str, change: Callable[[Standing], Standing]) -> None:
    path = progress_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock"), timeout=LOCK_SECONDS):
            standings = _read(path)
            standings[exercise_id] = change(standings.get(exercise_id, Standing()))
            _write(path, standings)
    except Timeout as error:
        raise ProgressError(
            f"{path} is locked by another notebook for over {LOCK_SECONDS:.0f} s. "
            "Shut down notebooks you no longer use, then check again."
        ) from error
    except OSError as error:
        raise _cannot_write(path, error) from error


def _read(path: Path) -> dict[str, Standing]:
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except UnicodeDecodeError:
        return _set_aside(path)
    try:
        content = json.loads(text)
        version = content["version"]
        if isinstance(version, int) and version > VERSION:
            raise ProgressError(
                f"{path} was written by a newer version of the course. Update this one."
            )
        return {key: Standing(**value) for key, value in content["exercises"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return _set_aside(path)


def _set_aside(path: Path) -> dict[str, Standing]:
    """Keep a damaged file under another name, so that nothing of it is overwritten, and say so."""
    number = 1
    while (kept := path.with_name(f"progress.damaged-{number}.json")).exists():
        number += 1
    path.rename(kept)
    warnings.warn(
        f"{path} was damaged; it is kept as {kept.name}, and progress starts from zero.",
        stacklevel=2,
    )
    return {}


def _write(path: Path, standings: dict[str, Standing]) -> None:
    content = {
        "version": VERSION,
        "exercises": {key: asdict(value) for key, value in sorted(standings.items())},
    }
    _replace(path, json.dumps(content, indent=1))


def _replace(path: Path, text: str) -> None:
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=".progress-", delete=False
    ) as file:
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            file.close()
            Path(file.name).unlink()
            raise
    Path(file.name).replace(path)
