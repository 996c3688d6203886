"""What is said in the terminal of notes and summaries that are cut because they are too long."""

from __future__ import annotations


def cut_in_words(
    cut_notes: int,
    cut_summaries: int,
    *,
    of: int,
    max_source: int,
    max_target: int,
    command: str = "",
) -> list[str]:
    """A sentence for each kind of text that was cut; none where nothing was.

    Args:
        cut_notes: how many notes were.
        cut_summaries: how many summaries were.
        of: how many pairs there are.
        max_source: the limit of notes, in tokens.
        max_target: the limit of summaries, in tokens.
        command: the command whose options change the limits, where it is another one.

    >>> for line in cut_in_words(64, 1, of=67, max_source=768, max_target=192):
    ...     print(line)
    64 of 67 notes are longer than 768 tokens: each was cut there, and what follows is not read.
    To keep more, give a higher --max-source.
    1 of 67 summaries is longer than 192 tokens: each was cut there, and what follows is not
    learned. To keep more, give a higher --max-target.
    """
    kinds = (
        (cut_notes, "notes", max_source, "read", "--max-source"),
        (cut_summaries, "summaries", max_target, "learned", "--max-target"),
    )
    give = f"give '{command}'" if command else "give"
    return [
        f"{count:,} of {of:,} {what} {'is' if count == 1 else 'are'} longer than {limit:,} "
        f"tokens: each was cut there, and what follows is not {done}. To keep more, "
        f"{give} a higher {option}."
        for count, what, limit, done, option in kinds
        if count
    ]
