"""Files that are no table of notes, or a damaged one, with one patient's text in each."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import polars as pl

CANARY = "Quillhaven"
"""A word that stands nowhere but in a patient's text."""

TEXT = f"Mrs {CANARY} came with a cough that began three days ago, and was given amoxicillin."
_ROW = f'"{TEXT}","{CANARY} has a cough."'
_PAIR = {"note": TEXT, "summary": f"{CANARY} has a cough."}

_CONTENTS: dict[str, str | bytes] = {
    "list.csv": json.dumps([_PAIR]),
    "object.csv": json.dumps(_PAIR, indent=1),
    "lines.csv": json.dumps(_PAIR) + "\n" + json.dumps(_PAIR),
    "list.json": json.dumps([_PAIR]),
    "no_header.csv": f"{_ROW}\n{_ROW}\n",
    "no_header_with_ids.csv": f"10000032,{_ROW}\n10000033,{_ROW}\n",
    "no_header_one_word.csv": f"1,{CANARY},{CANARY}-cough\n2,a,b\n",
    "no_header_many.csv": ",".join([CANARY] * 30) + "\n",
    "name_beside_known_ones.csv": f"note,{CANARY}\n{_ROW}\n",
    "underscores.csv": f"note_{CANARY},summary_of_{CANARY}\n{_ROW}\n",
    "comment.csv": f"# {TEXT}\nnote,summary\n{_ROW}\n",
    "prose.csv": f"{TEXT}\n{TEXT} Again, {TEXT}\n",
    "prose.txt": TEXT,
    "never_closed.csv": f'note,summary\n"{TEXT},a summary\n',
    "closed_late.csv": f'note,summary\n"{TEXT},a summary\n{TEXT}","b"\n',
    "too_many.csv": f"note,summary\n{_ROW},{CANARY}\n",
    "too_few.csv": f"note,summary\n{TEXT}\n",
    "stray_quotes.csv": f'note,summary\n{TEXT} "so" it is,"b"{CANARY}" c"\n',
    "quotes_in_header.csv": f'"note"{CANARY},"sum\nmary {CANARY}"\n{_ROW}\n',
    "semicolons.csv": f"note;summary\n{TEXT};{CANARY}\n",
    "semicolons_no_header.csv": f"{TEXT};{CANARY}\n{TEXT};{CANARY}\n",
    "mixed_separators.csv": f"note;summary|{CANARY}\n{TEXT}\n",
    "tabs.csv": f"note\tsummary\t{CANARY}\n{TEXT}\t{TEXT}\t{CANARY}\n",
    "twice.csv": f"note,summary,Note,{CANARY}\n{_ROW},{_ROW}\n",
    "latin1.csv": f"note,summary\n{TEXT} Müller,{CANARY}\n".encode("latin-1"),
    "utf16.csv": f"note,summary\n{_ROW}\n".encode("utf-16"),
    "nul.csv": f"note,summary\n{TEXT}\0{CANARY},\0{CANARY}\n",
    "nul_in_header.csv": f"note\0{CANARY},summary\n{_ROW}\n",
    "returns.csv": f"note,summary\r{_ROW}\r{_ROW}",
    "returns_in_header.csv": f"{TEXT}\r{TEXT},{CANARY}\n{_ROW}\n",
    "xml.csv": f"<notes><note>{TEXT}</note></notes>",
    "rtf.csv": "{\\rtf1 " + TEXT + "}",
    "too_short.csv": f"note,summary\n{CANARY},{CANARY}\n",
    "no_summary.csv": f"note,summary\n{TEXT},\n",
    "one_pair.csv": f"note,summary\n{_ROW}\n",
    "text_as_patient.csv": "".join(
        [
            "subject_id,note,summary\n",
            *(f"{CANARY}{n},{TEXT} {n},{CANARY} {n} abc\n" for n in "ab"),
        ]
    ),
    "mixed_patients.csv": f"subject_id,note,summary\n1,{_ROW}\n{CANARY},{_ROW}\n",
    "cut.csv.gz": gzip.compress(f"note,summary\n{_ROW}\n".encode())[:-9],
    "plain.csv.gz": f"note,summary\n{_ROW}\n",
    "packed.csv": gzip.compress(f"note,summary\n{_ROW}\n".encode()),
    "cut.jsonl": json.dumps(_PAIR) + "\n" + json.dumps(_PAIR)[:-5],
    "pretty.jsonl": json.dumps(_PAIR, indent=1),
    "list.jsonl": json.dumps([_PAIR]),
    "strings.jsonl": json.dumps(TEXT),
    "prose.jsonl": TEXT,
    "table.jsonl": f"note,summary\n{_ROW}\n",
    "names.jsonl": json.dumps({TEXT: CANARY, CANARY: TEXT}),
    "names_twice.jsonl": json.dumps({"note": TEXT, "Note": CANARY, "summary": TEXT}),
    "turns.jsonl": json.dumps({"note": [TEXT, CANARY], "summary": CANARY}),
    "objects.jsonl": json.dumps({"note": {CANARY: TEXT}, "summary": CANARY}),
    "numbers.jsonl": json.dumps({"note": 1, "summary": TEXT}),
    "patient_lists.jsonl": json.dumps(_PAIR | {"subject_id": [CANARY]}),
    "surrogate.jsonl": json.dumps(_PAIR | {"note": TEXT + "\ud800"}),
    "deep.jsonl": '{"note": ' + "[" * 100_000 + json.dumps(CANARY),
    "long_number.jsonl": '{"note": "' + CANARY + '", "summary": ' + "1" * 5_000 + "}",
    "latin1.jsonl": b'{"note": "' + TEXT.encode() + b'\xfc", "summary": "b"}',
    "cut.jsonl.gz": gzip.compress(json.dumps(_PAIR).encode())[:-9],
    "plain.jsonl.gz": json.dumps(_PAIR),
    "text.parquet": TEXT,
}

_FRAMES: dict[str, Callable[[], pl.DataFrame]] = {
    "names.parquet": lambda: pl.DataFrame({CANARY: [TEXT], TEXT: [CANARY]}),
    "same_name.parquet": lambda: pl.DataFrame({CANARY: [TEXT], CANARY.lower(): [CANARY]}),
    "lists.parquet": lambda: pl.DataFrame({"note": [[TEXT]], "summary": [CANARY]}),
    "structs.parquet": lambda: pl.DataFrame({"note": [{CANARY: TEXT}], "summary": [CANARY]}),
    "bytes.parquet": lambda: pl.DataFrame({"note": [TEXT.encode()], "summary": [CANARY]}),
    "patients.parquet": lambda: pl.DataFrame(_PAIR | {"subject_id": [{CANARY: TEXT}]}),
    "categories.parquet": lambda: pl.DataFrame(
        {
            "note": pl.Series([1, 2]),
            "summary": pl.Series([TEXT, CANARY], dtype=pl.Enum([TEXT, CANARY])),
        }
    ),
}

NAMES = (*_CONTENTS, *_FRAMES)
"""Of all files that write_malformed can write."""


def write_malformed(folder: Path, name: str) -> Path:
    """Write one of them."""
    path = folder / name
    if name in _FRAMES:
        _FRAMES[name]().write_parquet(path)
        return path
    content = _CONTENTS[name]
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path
