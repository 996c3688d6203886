"""Names from outside, such as those of files, made safe to print."""

from __future__ import annotations


def printable(text: str, *, keep: str = "") -> str:
    r"""Return the text with every character that is not printable as an escape, except `keep`.

    A file's name can hold line ends, and sequences that colour, move or erase what a terminal
    shows.

    >>> print(printable("a\x1b[31mb\n.parquet"), printable("Müller 心臓.csv"))
    a\x1b[31mb\n.parquet Müller 心臓.csv
    """
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable() or character in keep
        else character.encode("unicode_escape").decode("ascii")
        for character in text
    )
