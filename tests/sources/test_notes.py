"""Notes from files: every row has an account, every fault a place, and no note two parts."""

from __future__ import annotations

import csv
import gzip
import io
import random
from pathlib import Path

import polars as pl
import pytest

from ehr_course.errors import InputError
from ehr_course.records import NotePair
from ehr_course.sources.cohort import Reason
from ehr_course.sources.note_corpus import (
    COLUMNS_VARIABLE,
    VARIABLE,
    choose_notes,
    read_notes,
    real_notes,
    split_notes,
)
from ehr_course.sources.synthetic import make_cohort, make_notes

NOTE = "admitted with a cough that began three days ago, given amoxicillin."
SUMMARY = "cough, amoxicillin."


def write(folder: Path, *rows: tuple[str, ...], name: str = "notes.csv", **format: str) -> Path:
    text = io.StringIO()
    csv.writer(text, **format).writerows(rows)
    path = folder / name
    path.write_bytes(text.getvalue().encode("utf-8"))
    return path


def texts(path: Path, **options: object) -> list[tuple[str, str]]:
    return [(pair.note, pair.summary) for pair in read_notes(path, **options).pairs]


def assert_refused(path: Path, *parts: str, **options: object) -> None:
    with pytest.raises(InputError) as refused:
        read_notes(path, **options)
    for part in (path.name, *parts):
        assert part in str(refused.value)
    assert refused.value.remedy


# What is read


@pytest.mark.parametrize(
    "header", [("input", "target"), ("Note", "SUMMARY"), ("dialogue", "section_text")]
)
def test_known_columns_need_no_names(tmp_path, header):
    path = write(tmp_path, header, (NOTE, SUMMARY))
    assert read_notes(path).pairs == (NotePair(NOTE, SUMMARY),)


def test_other_columns_are_named_in_either_case_and_any_order(tmp_path):
    path = write(tmp_path, ("Short", "extra", "Long"), (SUMMARY, "x", NOTE))
    assert texts(path, note="long", summary="SHORT") == [(NOTE, SUMMARY)]


def test_named_columns_go_before_known_ones(tmp_path):
    path = write(tmp_path, ("note", "summary", "long"), (NOTE, SUMMARY, NOTE + " once more"))
    assert texts(path, note="long", summary="summary") == [(NOTE + " once more", SUMMARY)]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_quotes_commas_and_line_breaks_inside_values_are_kept(tmp_path, line_end):
    note = f'She said: "it hurts, here".{line_end}{line_end}Given 5" of bandage, "tight", sent on.'
    path = write(
        tmp_path,
        ("note", "summary"),
        (note, f'"pain",{line_end}bandaged'),
        (NOTE, SUMMARY),
        lineterminator=line_end,
    )
    assert texts(path) == [(note, f'"pain",{line_end}bandaged'), (NOTE, SUMMARY)]


def test_thousands_of_notes_with_line_breaks_are_those_that_the_csv_module_reads(tmp_path):
    rng = random.Random(1)
    signs = ["word", "a", ",", '"', "\n", ";", "'", "ä", "5", "null", " "]
    rows = [
        ("x" + "".join(rng.choices(signs, k=rng.randint(50, 300))) + "x", f"y{n},\n{n} y")
        for n in range(3000)
    ]
    path = write(tmp_path, ("note", "summary"), *rows)
    with path.open(encoding="utf-8", newline="") as lines:
        expected = [tuple(row) for row in csv.reader(lines)][1:]
    assert texts(path) == expected == rows


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path):
    path = write(tmp_path, ("note", "summary"), (NOTE, SUMMARY))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert texts(path) == [(NOTE, SUMMARY)]


def test_letters_beyond_ascii_are_kept_and_counted_as_one_character(tmp_path):
    note = "é" * 50
    path = write(tmp_path, ("note", "summary"), (note, "ü" * 10), ("é" * 49, "ü" * 10))
    assert texts(path, min_note=50, min_summary=10) == [(note, "ü" * 10)]


def test_a_compressed_csv_is_read(tmp_path):
    path = write(tmp_path, ("note", "summary"), (NOTE, SUMMARY))
    compressed = tmp_path / "notes.csv.gz"
    compressed.write_bytes(gzip.compress(path.read_bytes()))
    assert texts(compressed) == [(NOTE, SUMMARY)]


def test_parquet_is_read_as_csv_is(tmp_path):
    rows = [(NOTE, SUMMARY), ("", SUMMARY), (f" {NOTE}\n", SUMMARY), ("short", "")]
    frame = pl.DataFrame(rows, schema=["Input", "Target"], orient="row")
    frame.write_parquet(tmp_path / "notes.parquet")
    path = write(tmp_path, ("Input", "Target"), *rows)
    from_parquet, from_csv = read_notes(tmp_path / "notes.parquet"), read_notes(path)
    assert from_parquet.pairs == from_csv.pairs == (NotePair(NOTE, SUMMARY),)
    assert list(from_parquet.report.dropped.values()) == list(from_csv.report.dropped.values())


def test_white_space_around_a_text_goes_and_inside_it_stays(tmp_path):
    path = write(tmp_path, ("note", "summary"), (f"\n  {NOTE}  \n\n{NOTE}\t", f" {SUMMARY}\n"))
    assert texts(path) == [(f"{NOTE}  \n\n{NOTE}", SUMMARY)]


# Whose note it is


@pytest.mark.parametrize(
    ("column", "value", "patient"),
    [
        ("subject_id", "10000032", 10000032),
        ("subject_id", "A-7", "A-7"),
        ("subject_id", "007", "007"),
        ("subject_id", "", None),
        ("note_id", "10000032-DS-21", 10000032),
        ("note_id", "21", None),
        ("note_id", "", None),
    ],
)
def test_the_patient_is_found_in_the_columns_of_mimic(tmp_path, column, value, patient):
    path = write(tmp_path, ("input", "target", column), (NOTE, SUMMARY, value))
    assert read_notes(path).pairs[0].subject_id == patient


def test_subject_id_goes_before_note_id(tmp_path):
    header = ("note_id", "subject_id", "input", "target")
    path = write(tmp_path, header, ("1-DS-2", "5", NOTE, SUMMARY))
    assert read_notes(path).pairs[0].subject_id == 5


def test_the_column_of_patients_can_be_named(tmp_path):
    header = ("subject_id", "Person", "input", "target")
    path = write(tmp_path, header, ("1", "ann", NOTE, SUMMARY))
    assert read_notes(path, patient="person").pairs[0].subject_id == "ann"


def test_a_patients_number_in_parquet_is_a_number(tmp_path):
    frame = pl.DataFrame({"input": [NOTE], "target": [SUMMARY], "subject_id": [10000032]})
    frame.write_parquet(tmp_path / "bhc.parquet")
    assert read_notes(tmp_path / "bhc.parquet").pairs[0].subject_id == 10000032


# What is dropped


def test_every_row_is_used_or_dropped_for_one_reason(tmp_path):
    path = write(
        tmp_path,
        ("note", "summary"),
        (NOTE, SUMMARY),
        ("", ""),
        (" \n", "\t"),
        ("", SUMMARY),
        (NOTE, " "),
        (NOTE[:49], SUMMARY),
        (NOTE, SUMMARY[:9]),
        (NOTE, SUMMARY),
        (NOTE, "another summary"),
    )
    corpus = read_notes(path, min_note=50, min_summary=10)
    assert corpus.report.dropped == {
        ("notes.csv", Reason.NO_TEXT): 2,
        ("notes.csv", Reason.NO_NOTE): 1,
        ("notes.csv", Reason.NO_SUMMARY): 1,
        ("notes.csv", Reason.SHORT_NOTE): 1,
        ("notes.csv", Reason.SHORT_SUMMARY): 1,
        ("notes.csv", Reason.SAME_ROW): 1,
    }
    assert corpus.report.rows_read == {"notes.csv": 9}
    assert corpus.report.rows_used == {"notes.csv": 2}
    assert [pair.summary for pair in corpus.pairs] == [SUMMARY, "another summary"]


def test_the_report_says_on_which_line_a_dropped_row_begins(tmp_path):
    path = write(tmp_path, ("note", "summary"), (NOTE + "\n\n", SUMMARY), ("", SUMMARY))
    drop = read_notes(path).report.tables[0].drops[0]
    assert (drop.reason, drop.examples) == (Reason.NO_NOTE, ("line 5",))


def test_the_report_on_parquet_says_in_which_row(tmp_path):
    frame = pl.DataFrame({"note": [NOTE, None], "summary": [SUMMARY, SUMMARY]})
    frame.write_parquet(tmp_path / "notes.parquet")
    drop = read_notes(tmp_path / "notes.parquet").report.tables[0].drops[0]
    assert (drop.reason, drop.examples) == (Reason.NO_NOTE, ("row 2",))


def test_empty_lines_are_no_rows(tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text(f'note,summary\n\n"{NOTE}","{SUMMARY}"\n\n\n', encoding="utf-8")
    corpus = read_notes(path)
    assert len(corpus.pairs) == 1
    assert corpus.report.rows_read == {"notes.csv": 1}


def test_by_default_nothing_is_too_short(tmp_path):
    path = write(tmp_path, ("note", "summary"), ("ok?", "No."), ("", SUMMARY), (NOTE, ""))
    assert texts(path) == [("ok?", "No.")]


def test_texts_of_exactly_the_shortest_length_are_kept(tmp_path):
    path = write(tmp_path, ("note", "summary"), ("n" * 20, "s" * 5), ("n" * 19, "s" * 5))
    assert texts(path, min_note=20, min_summary=5) == [("n" * 20, "s" * 5)]


@pytest.mark.parametrize("blank", ["\x1c", "\x1f \x1d", "\u2003", "\x85"])
def test_a_text_of_invisible_signs_is_no_text(tmp_path, blank):
    path = write(tmp_path, ("note", "summary"), (blank, SUMMARY), (NOTE, blank), (NOTE, SUMMARY))
    assert texts(path) == [(NOTE, SUMMARY)]


def test_the_same_words_of_two_patients_are_two_notes(tmp_path):
    header = ("subject_id", "input", "target")
    path = write(tmp_path, header, ("1", NOTE, SUMMARY), ("2", NOTE, SUMMARY))
    assert [pair.subject_id for pair in read_notes(path).pairs] == [1, 2]


# What is refused


def test_a_file_that_is_not_there(tmp_path):
    assert_refused(tmp_path / "nowhere.csv", "there is no such file")


def test_a_folder(tmp_path):
    assert_refused(tmp_path, "this is a folder")


def test_an_empty_file(tmp_path):
    path = tmp_path / "notes.csv"
    path.write_bytes(b"")
    assert_refused(path, "the file is empty")


def test_names_without_rows(tmp_path):
    assert_refused(write(tmp_path, ("note", "summary")), "no rows")
    pl.DataFrame(schema={"note": pl.String, "summary": pl.String}).write_parquet(
        tmp_path / "notes.parquet"
    )
    assert_refused(tmp_path / "notes.parquet", "no rows")


def test_columns_of_no_known_layout(tmp_path):
    path = write(tmp_path, ("text", "label"), (NOTE, SUMMARY))
    assert_refused(path, "found: text, label", "input, target", "note=", COLUMNS_VARIABLE)


def test_columns_of_two_known_layouts(tmp_path):
    path = write(tmp_path, ("note", "summary", "input", "target"), (NOTE, SUMMARY) * 2)
    assert_refused(path, "2 known layouts", "note=")


@pytest.mark.parametrize(
    "options",
    [
        {"note": "body", "summary": "summary"},
        {"note": "note", "summary": "body"},
        {"note": "note", "summary": "summary", "patient": "body"},
        {"patient": "body"},
    ],
)
def test_a_named_column_that_is_missing(tmp_path, options):
    path = write(tmp_path, ("note", "summary"), (NOTE, SUMMARY))
    assert_refused(path, "column 'body' is missing (found: note, summary)", **options)


def test_one_named_column_without_the_other(tmp_path):
    path = write(tmp_path, ("note", "summary"), (NOTE, SUMMARY))
    with pytest.raises(InputError, match="one is given, the other is not"):
        read_notes(path, note="note")


def test_one_column_for_both(tmp_path):
    path = write(tmp_path, ("note", "summary"), (NOTE, SUMMARY))
    with pytest.raises(InputError, match="both are the column"):
        read_notes(path, note="note", summary="NOTE")


def test_a_column_that_is_there_twice(tmp_path):
    path = write(tmp_path, ("note", "summary", "Note"), (NOTE, SUMMARY, NOTE))
    assert_refused(path, "two columns 'NOTE'")
    pl.DataFrame({"note": [NOTE], "summary": [SUMMARY], "Note": [NOTE]}).write_parquet(
        tmp_path / "notes.parquet"
    )
    assert_refused(tmp_path / "notes.parquet", "the same name but for case")


@pytest.mark.parametrize(("sign", "name"), [(";", "semicolons"), ("\t", "tabs")])
def test_columns_that_other_signs_separate(tmp_path, sign, name):
    path = write(tmp_path, ("note", "summary"), (NOTE, SUMMARY), delimiter=sign)
    assert_refused(path, f"separated by {name}")
    path.write_text("# made by x\nnote,summary\na,b\n", encoding="utf-8")
    assert_refused(path, "line 1: a comment stands where the names of the columns should be")


def test_prose_is_no_table_and_is_not_repeated(tmp_path):
    path = tmp_path / "letter.csv"
    path.write_text("Dear colleague " * 100, encoding="utf-8")
    assert_refused(path, "none of the known pairs of columns")
    with pytest.raises(InputError) as refused:
        read_notes(path)
    assert "colleague" not in str(refused.value)


@pytest.mark.parametrize(
    ("start", "what"),
    [
        (b"PK\x03\x04\x14\x00", "spreadsheet or zip"),
        (b"%PDF-1.7", "PDF"),
        (b"PAR1\x15\x04", "parquet"),
        (b"\x89PNG\r\n", "is not UTF-8"),
        (b"\xff\xfen\x00", "UTF-16"),
        (b"\x1f\x8b\x08\x00", "compressed"),
    ],
)
def test_files_of_other_kinds(tmp_path, start, what):
    path = tmp_path / "notes.csv"
    path.write_bytes(start)
    assert_refused(path, what)


@pytest.mark.parametrize("content", [b"PAR1", b"note,summary\n1,2\n", b""])
def test_parquet_that_is_none(tmp_path, content):
    path = tmp_path / "notes.parquet"
    path.write_bytes(content)
    assert_refused(path, "not a parquet file that can be read")


def test_parquet_that_is_cut(tmp_path):
    path = tmp_path / "notes.parquet"
    pl.DataFrame({"note": [NOTE] * 50, "summary": [SUMMARY] * 50}).write_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    assert_refused(path, "not a parquet file that can be read")


def test_numbers_where_texts_should_be(tmp_path):
    path = tmp_path / "ids.parquet"
    pl.DataFrame({"Input": [1, 2], "Target": ["x" * 60] * 2}).write_parquet(path)
    assert_refused(path, "column 'Input'", "Int64, not text")


def test_a_quotation_mark_that_is_never_closed(tmp_path):
    path = tmp_path / "notes.csv"
    path.write_text(f'note,summary\n"{NOTE},{SUMMARY}\n', encoding="utf-8")
    assert_refused(path, "line 2", "never closed")


def test_a_row_with_too_many_values(tmp_path):
    path = write(tmp_path, ("note", "summary"), (NOTE, SUMMARY), (NOTE, SUMMARY, "more"))
    assert_refused(path, "line 3", "3 values")


def test_a_file_of_which_nothing_is_left(tmp_path):
    path = write(tmp_path, ("note", "summary"), ("short", SUMMARY), ("", SUMMARY))
    said = "no note is left of 2 rows", "1 no note", "1 a note that is too short"
    assert_refused(path, *said, min_note=50)


# Training, validation and test


def tied(pairs: list[NotePair]) -> list[set[int]]:
    """Join places by shared patients and notes until nothing changes: slow and plain."""
    groups = [{place} for place in range(len(pairs))]

    def share(one: set[int], other: set[int]) -> bool:
        return any(
            pairs[i].note == pairs[j].note
            or (pairs[i].subject_id is not None and pairs[i].subject_id == pairs[j].subject_id)
            for i in one
            for j in other
        )

    while True:
        for group in groups:
            others = [other for other in groups if other is not group and share(group, other)]
            if others:
                groups = [g for g in groups if g is not group and g is not others[0]]
                groups.append(group | others[0])
                break
        else:
            return groups


@pytest.mark.parametrize("seed", range(8))
def test_what_shares_a_patient_or_a_note_is_in_one_part(seed):
    rng = random.Random(seed)
    pairs = [
        NotePair(
            f"note {rng.randint(0, 50)}", f"summary {n}", rng.choice([None, rng.randint(0, 30)])
        )
        for n in range(60)
    ]
    groups = tied(pairs)
    assert any(len(group) > 3 for group in groups)
    parts = split_notes(pairs, seed=seed)
    where = {pair.summary: part for part, some in enumerate(parts) for pair in some}
    assert len(where) == 60
    for group in groups:
        assert len({where[pairs[place].summary] for place in group}) == 1
    train = [group for group in groups if where[pairs[min(group)].summary] == 0]
    assert len(train) == round(0.8 * len(groups))


def test_the_shares_are_those_of_the_fractions():
    pairs = [NotePair(f"note {n}", "summary") for n in range(1000)]
    assert [len(part) for part in split_notes(pairs)] == [800, 100, 100]
    parts = split_notes(pairs, fractions=(0.5, 0.25, 0.25))
    assert [len(part) for part in parts] == [500, 250, 250]
    assert [len(part) for part in split_notes(pairs, fractions=(1.0, 0.0, 0.0))] == [1000, 0, 0]


def test_patients_not_their_notes_are_counted():
    pairs = [NotePair(f"note {n} {k}", "summary", n) for n in range(100) for k in range(3)]
    parts = split_notes(pairs)
    assert [len({pair.subject_id for pair in part}) for part in parts] == [80, 10, 10]


def test_notes_that_differ_in_white_space_or_capitals_alone_are_equal():
    pairs = [
        NotePair(text.format(n), f"summary {k}")
        for n in range(50)
        for k, text in enumerate(["A note  of {}", "a note\nof {} ", "a NOTE of {}"])
    ]
    for part in split_notes(pairs):
        assert len(part) == 3 * len({pair.note.split()[-1] for pair in part})


def test_a_split_depends_on_the_seed_and_not_on_the_order():
    pairs = [NotePair(f"note {n // 2}", f"summary {n}") for n in range(200)]
    shuffled = random.Random(0).sample(pairs, len(pairs))
    assert list(map(set, split_notes(shuffled))) == list(map(set, split_notes(pairs)))
    assert split_notes(pairs) == split_notes(pairs, seed=42)
    assert split_notes(pairs, seed=1) != split_notes(pairs, seed=2)


def test_each_part_keeps_the_order_of_the_pairs():
    pairs = [NotePair(f"note {n}", "summary") for n in range(100, 200)]
    for part in split_notes(pairs):
        assert part == sorted(part, key=lambda pair: pair.note)


def test_the_embedded_notes_are_split_by_patient():
    pairs = make_notes(make_cohort(300))
    parts = split_notes(pairs)
    assert sum(map(len, parts)) == 300
    for part in parts:
        others = {pair.note for some in parts if some is not part for pair in some}
        assert not {pair.note for pair in part} & others


def test_too_few_notes_for_a_part():
    with pytest.raises(InputError, match="3 different notes or patients are too few"):
        split_notes([NotePair(f"note {n % 3}", "summary") for n in range(30)])


@pytest.mark.parametrize("fractions", [(0.8, 0.1), (0.8, 0.1, 0.2), (1.2, -0.1, -0.1)])
def test_fractions_that_are_no_shares(fractions):
    with pytest.raises(InputError, match="not three shares"):
        split_notes([NotePair("note", "summary")] * 30, fractions=fractions)


# The notes of a lesson


@pytest.fixture
def no_notes(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for variable in (VARIABLE, COLUMNS_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    return monkeypatch


@pytest.mark.parametrize("named", [None, ""])
def test_without_a_file_the_notes_are_the_embedded_ones(no_notes, named):
    if named is not None:
        no_notes.setenv(VARIABLE, named)
    assert real_notes() is None
    assert choose_notes(20, seed=3) == make_notes(make_cohort(20, seed=3), seed=3)


def test_with_a_file_the_notes_are_its_own(no_notes, tmp_path):
    path = write(tmp_path, ("dialogue", "section_text"), (NOTE, SUMMARY), ("", SUMMARY))
    no_notes.setenv(VARIABLE, str(path))
    assert real_notes() == path
    assert choose_notes(20, seed=3) == [NotePair(NOTE, SUMMARY)]


def test_the_columns_of_the_file_can_be_named(no_notes, tmp_path):
    path = write(tmp_path, ("long", "short"), (NOTE, SUMMARY))
    no_notes.setenv(VARIABLE, str(path))
    no_notes.setenv(COLUMNS_VARIABLE, "Long, Short")
    assert choose_notes(20, seed=3) == [NotePair(NOTE, SUMMARY)]


@pytest.mark.parametrize("named", ["long", "long,", "long,short,patient", ","])
def test_column_names_that_are_not_two(no_notes, tmp_path, named):
    path = write(tmp_path, ("long", "short"), (NOTE, SUMMARY))
    no_notes.setenv(VARIABLE, str(path))
    no_notes.setenv(COLUMNS_VARIABLE, named)
    with pytest.raises(InputError, match="is not two column names"):
        choose_notes(20, seed=3)


def test_a_file_that_is_not_there_is_named(no_notes, tmp_path):
    no_notes.setenv(VARIABLE, str(tmp_path / "nowhere.csv"))
    with pytest.raises(InputError, match="nowhere"):
        choose_notes(20, seed=3)


def test_a_corpus_says_how_large_it_is(tmp_path):
    path = write(tmp_path, ("subject_id", "note", "summary"), ("1", NOTE, SUMMARY))
    assert repr(read_notes(path)) == "NoteCorpus(1 notes with summaries of 1 patients)"
