"""How good is a summary? Overlap with a reference, repetition, and names kept.

Shares are of all words of all texts together; ROUGE is a mean over pairs. Except in ROUGE, words
are lower case, and a punctuation mark is a word.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ehr_course.errors import InputError
from ehr_course.tokenizers.words import split_words

ROUGE = ("rouge1", "rouge2", "rougeL")
"""The names of the scores: single words, pairs of words, longest common subsequence."""

UNKNOWN = "<unk>"
"""What tokenizers show for a word that a model could not write; it counts as one word."""


def rouge(summaries: Sequence[str], references: Sequence[str]) -> dict[str, float]:
    """The mean ROUGE F1 of summaries, 0 to 1: how far each and its reference hold each other.

    Lin (2004), https://aclanthology.org/W04-1013, as the package rouge-score counts it, without
    stemming: words are lower-case runs of the letters a-z and of digits. An empty one scores 0.

    >>> rouge(["the fever is gone"], ["fever is gone today"])
    {'rouge1': 0.75, 'rouge2': 0.6666666666666666, 'rougeL': 0.75}
    """
    each = rouge_each(summaries, references)
    return {name: sum(scores) / len(scores) for name, scores in each.items()}


def rouge_each(summaries: Sequence[str], references: Sequence[str]) -> dict[str, list[float]]:
    """The ROUGE F1 of every summary; see rouge."""
    # rouge-score imports nltk, which takes seconds; the other measures do without.
    from rouge_score.rouge_scorer import RougeScorer

    _check_pairs("rouge", summaries, references)
    scorer = RougeScorer(ROUGE)
    scores = [scorer.score(*pair) for pair in zip(references, summaries, strict=True)]
    return {name: [float(score[name].fmeasure) for score in scores] for name in ROUGE}


def repetition(summaries: Sequence[str], *, n: int = 3) -> float:
    """The share of n-grams that their summary has had before, 0 to 1; ``nan`` if none has n words.

    >>> repetition(["no fever no fever no cough"], n=2)  # no fever, fever no: twice each
    0.4
    """
    if not isinstance(n, int) or n < 1:
        raise InputError("repetition", "n", f"{n!r} is not a number of words", "Use 1 or more.")
    _check_texts("repetition", "summaries", summaries)
    total = repeated = 0
    for summary in summaries:
        words: list[str] = []
        for number, part in enumerate(summary.split(UNKNOWN)):
            words += [UNKNOWN] * bool(number) + split_words(part)
        grams = [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]
        total += len(grams)
        repeated += len(grams) - len(set(grams))
    return repeated / total if total else float("nan")


def names_in(text: str, names: Iterable[str]) -> list[str]:
    """The names that a text holds, in lower case and in its order, repeated if it repeats them.

    Where two names begin at the same word, the longer one counts.

    >>> names_in("Insulin glargine, then insulin.", ["insulin", "insulin glargine"])
    ['insulin glargine', 'insulin']
    """
    return _found(text, _known_names(names))


def names_recovered(
    summaries: Sequence[str], references: Sequence[str], names: Iterable[str]
) -> float:
    """The share of the references' names that their summaries hold, 0 to 1; ``nan`` without names.

    A name counts once for each reference that holds it.

    >>> names_recovered(["given quinapril"], ["quinapril and digoxin"], ["quinapril", "digoxin"])
    0.5
    """
    _check_pairs("names_recovered", summaries, references)
    known = _known_names(names)
    total = held = 0
    for summary, reference in zip(summaries, references, strict=True):
        found = set(_found(reference, known))
        total += len(found)
        held += len(found & set(_found(summary, known)))
    return held / total if total else float("nan")


def _known_names(names: Iterable[str]) -> set[tuple[str, ...]]:
    if isinstance(names, str):
        raise InputError("names", "", f"{names!r} is one text", f"Write [{names!r}].")
    known = {tuple(split_words(name)) for name in names}
    if not known or () in known:
        what = "one of them has no word" if known else "the list is empty"
        raise InputError("names", "", what, "Give the names to look for.")
    return known


def _found(text: str, known: set[tuple[str, ...]]) -> list[str]:
    words = split_words(text)
    longest = max(map(len, known))
    found, place = [], 0
    while place < len(words):
        for length in range(min(longest, len(words) - place), 0, -1):
            name = tuple(words[place : place + length])
            if name in known:
                found.append(" ".join(name))
                break
        else:
            length = 1
        place += length
    return found


def _check_texts(thing: str, name: str, texts: Sequence[str]) -> None:
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise InputError(
            thing, name, "it is not a list of texts", "Give the text of each: a Summary's .text."
        )


def _check_pairs(thing: str, summaries: Sequence[str], references: Sequence[str]) -> None:
    _check_texts(thing, "summaries", summaries)
    _check_texts(thing, "references", references)
    if not len(summaries) == len(references) or not len(summaries):
        raise InputError(
            thing,
            "",
            f"there are {len(summaries)} summaries and {len(references)} references",
            "Give as many of each, 1 or more.",
        )
