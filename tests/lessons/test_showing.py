"""A lesson shows before it tells: a picture first, few lines at a time, every word explained once.

`SHOWN` lists the lessons that are written so.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from lesson_files import LESSONS, ROOT, name, number, read_source, read_stored, tags

from course.notebook import ASIDE, HIDDEN_CODE
from course.syllabus import load_syllabus

SHOWN = ("00", "07", "08", "09", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20")
MOST_VISIBLE_LINES = 20
GLOSSARY = ROOT / "course" / "book" / "glossary.md"

each_lesson = pytest.mark.parametrize(
    "lesson", [lesson for lesson in LESSONS if number(lesson) in SHOWN], ids=name
)


def prose(lesson: Path) -> str:
    """The words of a lesson, without code and without the table of lessons."""
    text = "\n\n".join(c.source for c in read_source(lesson).cells if c.cell_type == "markdown")
    return re.sub(r"<!-- lessons:.*?<!-- end of the lessons -->", "", text, flags=re.DOTALL)


# ---------------------------------------------------------------------- the reader has no sources


OTHER_READERS = re.compile(
    r"\n\nIf you know the (?:tutorial|document) that this lesson follows,\n"
    r"\[What holds\]\(\.\./course/book/what_holds\.md#(\d\d)-[a-z-]+\)\n"
    r"says which of its claims hold\.$"
)


@each_lesson
def test_a_lesson_quarrels_with_no_document_and_says_at_its_end_where_it_is_judged(lesson):
    code = "\n".join(c.source for c in read_source(lesson).cells if c.cell_type == "code")
    judged = OTHER_READERS.findall(prose(lesson))
    assert judged == ([] if number(lesson) in ("00", "20") else [number(lesson)])
    text = OTHER_READERS.sub("", prose(lesson)) + code
    found = re.findall(r"tutorials?\b|\bdocuments?\b|source notes?\b", text, flags=re.IGNORECASE)
    assert found == []


@each_lesson
def test_what_goes_further_hides_nothing_that_a_learner_needs(lesson):
    """It is folded up to the next cell that begins with a heading of its level."""
    heading = re.compile(r"^#{1,3} ", re.MULTILINE)
    aside = ""
    for cell in read_source(lesson).cells:
        text = cell.source if cell.cell_type == "markdown" else ""
        assert f"\n{ASIDE}" not in text, "an aside is folded only if its heading begins a cell"
        if heading.match(text):
            aside = text if text.startswith(ASIDE) else ""
            assert not aside or len(heading.findall(text)) == 1, text
        elif aside:
            kinds = {tag.partition(":")[0] for tag in tags(cell)}
            assert not kinds & {"widget", "parameters", "break"}, cell.source
            assert not heading.search(text), text
            for exercise in re.findall(r"^#### (\d\d\.\d+) ", text, re.MULTILINE):
                assert exercise in aside, f"what is seen of the aside names {exercise}"
        else:
            assert not re.search(r"^#### ", text, re.MULTILINE), text
    assert not aside, "a heading ends it"


# ---------------------------------------------------------------------- pictures


@each_lesson
def test_a_picture_stands_before_the_first_exercise(lesson):
    cells = read_stored(lesson).cells
    exercise = next(
        i for i, cell in enumerate(cells) if any(t.startswith("exercise:") for t in tags(cell))
    )
    shown = [output for cell in cells[:exercise] for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in shown)


@each_lesson
def test_a_cell_shows_few_lines_of_code(lesson):
    long = {
        cell.source.splitlines()[0]: count
        for cell in read_source(lesson).cells
        if cell.cell_type == "code" and HIDDEN_CODE not in tags(cell)
        if (count := sum(bool(line.strip()) for line in cell.source.splitlines()))
        > MOST_VISIBLE_LINES
    }
    assert long == {}


@each_lesson
def test_what_a_learner_completes_or_moves_is_never_collapsed(lesson):
    for cell in read_source(lesson).cells:
        if HIDDEN_CODE in tags(cell):
            kinds = {tag.partition(":")[0] for tag in tags(cell)}
            assert not kinds & {"exercise", "widget", "parameters"}, cell.source


@each_lesson
def test_a_lesson_has_an_exercise_of_three_stars(lesson):
    if number(lesson) != "00":
        assert re.search(r"Try It Yourself · ★★★ ", prose(lesson))


# ---------------------------------------------------------------------- words in order


@cache
def met_in() -> dict[str, str]:
    """The lesson that introduces each term of the glossary."""
    found = {}
    for block in re.findall(r"```\{glossary\}\n(.*?)```", GLOSSARY.read_text("utf-8"), re.DOTALL):
        for entry in re.split(r"\n\s*\n", block.strip()):
            met = re.search(r"First\s+met\s+in\s+lesson\s+(\d\d)\.", entry)
            for term in entry.splitlines():
                if met and not term.startswith(" "):
                    found[term.split(" (")[0]] = met[1]
    assert len(found) > 100
    return found


def linked_terms(lesson: Path) -> set[str]:
    """The terms that a lesson links to the glossary, in small letters."""
    links = re.findall(
        r"\[([^\]]+)\]\(\.\./course/book/glossary\.md(?:#([^)]*))?\)", prose(lesson)
    )
    return {
        (place.replace("-", " ") if place else " ".join(words.split())).lower()
        for words, place in links
    }


def plain_words(lesson: Path) -> str:
    """The prose without code, formulas, headings of exercises and addresses of links."""
    text = re.sub(r"\$\$.*?\$\$|\$[^$\n]+\$|`[^`]*`", " ", prose(lesson), flags=re.DOTALL)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return " ".join(text.replace("*", "").split())


@each_lesson
def test_no_term_is_used_before_the_lesson_that_introduces_it(lesson):
    words = plain_words(lesson)
    known = [term for term, met in met_in().items() if met <= number(lesson)]

    def uses(term: str) -> bool:
        # "attention" in "attention mask", which is known, does not count as a later term.
        containing = [longer for longer in known if term.lower() in longer.lower().split()]
        rest = re.sub("|".join(map(re.escape, containing)), " ", words, flags=re.IGNORECASE)
        pattern = rf"(?<![\w-]){re.escape(term)}(?:s|es)?(?![\w-])"
        return re.search(pattern, rest if containing else words, re.IGNORECASE) is not None

    early = {term: met for term, met in met_in().items() if met > number(lesson) and uses(term)}
    assert early == {}


@each_lesson
def test_a_lesson_links_each_term_that_it_introduces_to_the_glossary(lesson):
    linked = {term.replace("-", " ") for term in linked_terms(lesson)}
    entries = re.findall(
        r"```\{glossary\}\n(.*?)```", GLOSSARY.read_text(encoding="utf-8"), re.DOTALL
    )
    missing = []
    for block in entries:
        for entry in re.split(r"\n\s*\n", block.strip()):
            terms = [line.split(" (")[0] for line in entry.splitlines() if line[0] != " "]
            here = met_in().get(terms[0]) == number(lesson)
            if here and not any(term.lower().replace("-", " ") in linked for term in terms):
                missing.append(terms[0])
    assert missing == []


@each_lesson
def test_a_long_lesson_has_one_break_with_a_recap_of_its_own(lesson):
    minutes = next(one.minutes for one in load_syllabus() if one.number == number(lesson))
    cells = read_source(lesson).cells
    breaks = [i for i, cell in enumerate(cells) if "break" in cell.metadata.get("tags", [])]
    assert len(breaks) in ([1] if minutes > 110 else [0, 1] if minutes > 100 else [0])
    for place in breaks:
        assert 0.25 < place / len(cells) < 0.75, "a break comes near the middle"
        text = cells[place].source
        assert text.startswith("## Time for a break\n\n**So far**")
        assert len(re.findall(r"^- ", text, re.MULTILINE)) in (3, 4)
        assert "*Run > Run All Above Selected Cell*" in " ".join(text.split())
