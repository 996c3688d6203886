"""JSON files that name their content and version, and have a checksum."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ehr_course.errors import InputError
from ehr_course.new_folder import new_file


def write(path: str | Path, *, kind: str, content: dict) -> None:
    """Write content of some kind to a file, whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "format": f"ehr_course {kind}",
        "version": _VERSION,
        "sha256": _checksum(content),
        "content": content,
    }
    text = json.dumps(document, indent=1, ensure_ascii=False)
    with new_file(path) as unfinished:
        unfinished.write_text(f"{text}\n", encoding="utf-8")


def read(path: str | Path, *, kind: str, remake: str) -> dict:
    """Read the content that :func:`write` wrote, or raise an InputError.

    Args:
        path: the file.
        kind: what it has to hold.
        remake: how to make the file, to follow "Make it again with".
    """
    path = Path(path)
    again = f"Make it again with {remake}."
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        problem = f"it cannot be read: {error.strerror}"
        raise InputError(path, "", problem, f"Check the path. {again}") from None
    except ValueError:  # not UTF-8, or not JSON
        document = None
    if not isinstance(document, dict) or document.get("format") != f"ehr_course {kind}":
        raise InputError(path, "", f"this is not a {kind} file", again)
    if document.get("version") != _VERSION:
        problem = f"it has version {document.get('version')}, and this course reads {_VERSION}"
        raise InputError(path, "", problem, f"{again} Or read it with the course that wrote it.")
    content = document.get("content")
    if not isinstance(content, dict) or document.get("sha256") != _checksum(content):
        raise InputError(path, "", "the file is damaged: its checksum does not match", again)
    return content


_VERSION = 1


def _checksum(content: dict) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
