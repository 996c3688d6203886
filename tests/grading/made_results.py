"""Results of made-up students, built without grading anybody."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import Any

from course.grading.results import ExerciseResult, FileRead, RunAbout, StudentResult

TITLES = {
    "07.1": "The token id of a code",
    "07.2": "Encode a patient",
    "07.4": "Pad a batch and build the attention mask",
    "07.5": "The best segmentation by Viterbi",
}
ABOUT = RunAbout(seeds=(5, 1005), lessons=("07",), points=dict.fromkeys(TITLES, 2.0))


def student(name: str, *, key: str = "", **how: Any) -> StudentResult:
    """A student; `exercises` by id: what differs from an exercise that is not attempted."""
    key = key or name
    given = how.pop("exercises", {})
    file = how.pop("file", f"{key}/07.ipynb")
    exercises = tuple(
        ExerciseResult(
            **{
                "id": exercise,
                "title": title,
                "out_of": 2.0,
                "outcome": "not attempted",
                "points": 0.0,
                "file": file,
                "cell": 3,
            }
            | given.get(exercise, {})
        )
        for exercise, title in TITLES.items()
    )
    files = how.pop("files", (FileRead(path=file, sha256=f"{key:0<64}", lessons=("07",)),))
    points = sum(one.points for one in exercises)
    return StudentResult(
        student=name,
        key=key,
        points=points,
        out_of=8.0,
        exercises=exercises,
        files=files,
        graded_at="2026-11-23T14:21:21+00:00",
        **how,
    )


def solved(source: str = "x = 1", **more: Any) -> dict[str, Any]:
    return {"outcome": "solved", "points": 2.0, "source": source} | more


def wrong(misconception: str | None = None, source: str = "x = 2", **more: Any) -> dict[str, Any]:
    said = {"outcome": "not yet", "misconception": misconception, "message": "It differs."}
    return said | {"source": source} | more


_BLOCKS = {"p", "div", "li", "h2", "h3", "td", "th", "dt", "dd"}


class Page(HTMLParser):
    """A page as a browser reads it: its elements, their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.parts: list[str] = []
        self._in: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in _BLOCKS:
            self.parts.append(" ")
        if tag == "style":
            self._in.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "style":
            self._in.pop()

    def handle_data(self, data: str) -> None:
        if not self._in:
            self.parts.append(data)

    @property
    def text(self) -> str:
        """All text, with one space for each run of spaces."""
        return " ".join("".join(self.parts).split())

    @property
    def tags(self) -> set[str]:
        return {tag for tag, _ in self.elements}

    @property
    def links(self) -> list[str]:
        return [found["href"] or "" for tag, found in self.elements if tag == "a"]
