"""Where the course's repository is, for those who have no clone, and the badges that lead there.

`[project.urls]` of pyproject.toml is the only place that says so. While no address stands there,
nothing of the course speaks of one: the files that would show badges show none.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from urllib.parse import quote

from course.command_error import CommandError

KEYS = ("repository", "source", "github")
"""The names in `[project.urls]` that mean the repository, in small letters; the first counts."""

BEGIN = "<!-- badges: python3 -m course build writes them from pyproject.toml -->"
END = "<!-- end of the badges -->"
FILES = (Path("README.md"), Path("course", "book", "index.md"))
"""The files that show badges. The second is a page of the book, which loads no picture."""

BRANCH = "main"
FIRST_LESSON = "lessons/00_start_here.ipynb"

_ON_GITHUB = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?")


def repository_address(root: Path) -> str | None:
    """Return the repository's address, or None while none is set.

    Args:
        root: the clone, or a folder that `course release` has made.

    Raises:
        CommandError: if what is set is not an https address.
    """
    file = root / "pyproject.toml"
    if not file.is_file():
        return None
    project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
    addresses = {name.lower(): address for name, address in project.get("urls", {}).items()}
    address = next((addresses[key] for key in KEYS if key in addresses), None)
    if address is not None and not re.fullmatch(r"https://[\w.:/~-]+", address):
        raise CommandError(
            f"pyproject.toml, [project.urls]: {address!r} is not the address of a repository.",
            "Write one that begins with https:// and has no spaces or quotation marks.",
        )
    return address


def badges(address: str | None, *, pictures: bool) -> str:
    """Return the badges that open the first lesson elsewhere, as one line of Markdown.

    Args:
        address: the repository's. The services of the badges read only github.com.
        pictures: True for the services' own pictures, which the reader's browser loads from
            them; False for plain links.

    Returns:
        The line, or "" where there is nothing to open.

    >>> print(badges("https://github.com/someone/course", pictures=False).split(" · ")[1])
    [Open in Binder](https://mybinder.org/v2/gh/someone/course/main?labpath=lessons/00_start_here.ipynb)
    >>> badges(None, pictures=False)
    ''
    """
    found = _ON_GITHUB.fullmatch(address or "")
    if found is None:
        return ""
    name = f"{found[1]}/{found[2]}"
    lesson = f"https://github.com/{name}/blob/{BRANCH}/{FIRST_LESSON}"
    colab = "https://colab.research.google.com"
    kaggle = "https://kaggle.com"
    binder = "https://mybinder.org"
    links = (
        (
            "Colab",
            f"{colab}/github/{lesson.partition('github.com/')[2]}",
            colab,
            "assets/colab-badge",
        ),
        ("Binder", f"{binder}/v2/gh/{name}/{BRANCH}?labpath={FIRST_LESSON}", binder, "badge_logo"),
        ("Kaggle", f"{kaggle}/kernels/welcome?src={quote(lesson, safe=':/')}", kaggle, _KAGGLE),
    )
    if not pictures:
        return " · ".join(f"[Open in {service}]({link})" for service, link, _, _ in links)
    return " ".join(
        f"[![Open in {service}]({site}/{picture}.svg)]({link})"
        for service, link, site, picture in links
    )


_KAGGLE = "static/images/open-in-kaggle"


def with_badges(root: Path, file: Path, text: str) -> str:
    """Return a file's text with the badges of this clone between its two comments.

    Args:
        root: the clone.
        file: which of FILES, below `root`.
        text: what it says. Without the two comments it is returned as it is.

    Raises:
        CommandError: if the comments do not stand there once each, in this order.
    """
    if BEGIN not in text and END not in text:
        return text
    before, begin, rest = text.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in rest or END in before + after:
        raise CommandError(
            f"{file.as_posix()} has no clear place for the badges.",
            f"These two lines must stand around it, once each:\n{BEGIN}\n{END}",
        )
    line = badges(repository_address(root), pictures=file == FILES[0])
    return before + begin + (f"\n{line}\n\n" if line else "") + end + after
