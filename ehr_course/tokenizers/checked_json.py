"""JSON files that name their content and version, and have a checksum."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from ehr_course.errors import InputError


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
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        unfinished.write_text(
            json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


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
    except FileNotFoundError:
        raise InputError(path, "", "there is no such file", f"Check the path. {again}") from None
    except IsADirectoryError:
        raise InputError(path, "", "this is a folder", f"Name the {kind} file in it.") from None
    except (UnicodeDecodeError, json.JSONDecodeError):
        raise InputError(path, "", f"this is not a {kind} file: not JSON", again) from None
    found = document.get("format") if isinstance(document, dict) else None
    if found != f"ehr_course {kind}":
        what = f"its format is {found!r}" if found else "it does not say its format"
        raise InputError(path, "", f"this is not a {kind} file: {what}", again)
    if document.get("version") != _VERSION:
        raise InputError(
            path,
            "",
            f"this {kind} file has version {document.get('version')}, "
            f"and this course reads version {_VERSION}",
            f"{again} Or read it with the course that wrote it.",
        )
    content = document.get("content")
    if not isinstance(content, dict) or document.get("sha256") != _checksum(content):
        raise InputError(path, "", "the file is damaged: its checksum does not match", again)
    return content


_VERSION = 1


def _checksum(content: dict) -> str:
    text = json.dumps(content, sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
